# M1, M4: QoS 2 in both directions within a connection.  Cases O16, O48, O49, O51, O52, O62, O65, O-H (strict).
use strict;
use warnings;
use Test::More;
use IO::Select;
use FleetlogTest;

my $s = FleetlogTest->new('qos2', conf => "fleetlog.max_unreleased = 30\nfleetlog.mqtt_dialect = strict\n");
$s->fleet;

sub stored { return $s->sql("SELECT coalesce(string_agg(fleetlog.text(payload), ' ' ORDER BY shard, log_offset), '') FROM telemetry WHERE key = '$_[0]'"); }
sub acks
{
    my ($c, $count) = @_;
    return join ' ', map { my $p = $c->read_packet; ref $p ? join(':', grep { defined } @{$p}{qw(name pid reason)}) : $p // 'nothing' } 1 .. $count;
}

for my $version (4, 5)
{
    my $label = "version $version";
    my $c = $s->device('d1', version => $version, client_id => "in$version");
    my $topic = "acme/d1/in$version";
    my $none = $version == 5 ? 0x92 : 0;

    # O48, O49: what is sent again before its PUBREL is stored once, and answered like the first.
    $c->publish($topic, 'one', qos => 2, pid => 7);
    is(acks($c, 1), 'PUBREC:7:0', "$label: PUBREC");
    is(stored($topic), 'one', "$label: which says that it is stored");
    $c->publish($topic, 'one', qos => 2, pid => 7, dup => 1);
    is(acks($c, 1), 'PUBREC:7:0', "$label: the repeated one is answered (O49)");
    $c->pubrel(7);
    is(acks($c, 1), 'PUBCOMP:7:0', "$label: PUBCOMP");
    $c->pubrel(7);
    is(acks($c, 1), "PUBCOMP:7:$none", "$label: a PUBREL that names nothing is answered");
    is(stored($topic), 'one', "$label: stored once (O48)");

    # The identifier is free: the next message with it is a message, were it the same text.
    $c->publish_released($topic, 'one', pid => 7);
    is(stored($topic), 'one one', "$label: an identifier is free after its release");

    # Two that are under way at the same time, and one twice while it is not answered yet.
    $s->stop_points('door_before_ack');
    $c->publish($topic, 'two', qos => 2, pid => 1);
    $c->publish($topic, 'three', qos => 2, pid => 2);
    $s->wait_stopped_at('door_before_ack');
    $c->publish($topic, 'two', qos => 2, pid => 1, dup => 1);
    $s->stop_points();
    # The repeated one has an answer of its own if the first had been answered when it was read.
    my $answers = '';
    while ($answers !~ /PUBREC:1:0/ || $answers !~ /PUBREC:2:0/) { $answers .= acks($c, 1) . ' ' }
    like($answers, qr/^(PUBREC:[12]:0 ){2,3}$/, "$label: both are answered");
    $c->pubrel(2);
    $c->pubrel(1);
    my $rest = '';
    while ($rest !~ /PUBCOMP:1/) { $rest .= acks($c, 1) . ' ' }
    like($rest, qr/PUBCOMP:2:0 (PUBREC:1:0 )?PUBCOMP:1:0/, "$label: and released in any order");
    is(stored($topic), 'one one two three', "$label: each is stored once");

    # O65: the same packet a thousand times.
    $c->publish($topic, 'four', qos => 2, pid => 9) for 1 .. 1000;
    $c->send_hex('c000');
    my ($recs, $last) = (0);
    $recs++ while ($last = acks($c, 1)) eq 'PUBREC:9:0';
    # Those that come before the first is durable share its answer.
    $last = acks($c, 1) if $last =~ /^PINGRESP/ && $recs == 0;
    ok($recs > 0 || $last eq 'PUBREC:9:0', "$label: O65: a message sent a thousand times is answered");
    is($s->sql("SELECT count(*) FROM telemetry WHERE key = '$topic' AND fleetlog.text(payload) = 'four'"), 1, "$label: O65: and stored once");

    # A refusal frees the identifier.
    if ($version == 5)
    {
        $c->pubrel(9);
        is(acks($c, 1), 'PUBCOMP:9:0', 'released');
        $c->publish('acme/d2/not-mine', 'x', qos => 2, pid => 3);
        is(acks($c, 1), 'PUBREC:3:135', 'a refused message has its reason in PUBREC');
        $c->publish_released($topic, 'five', pid => 3);
        is($s->sql("SELECT headers ->> 'fl.qos' FROM telemetry WHERE fleetlog.text(payload) = 'five'"), 2, 'the record tells the QoS');
    }
    $c->close;
}

# O16: the receive maximum counts to PUBCOMP; one more ends the connection.
my $c = $s->device('d1', client_id => 'max');
$c->publish('acme/d1/max', "n$_", qos => 2, pid => $_) for 1 .. 20;
is(scalar(grep { /^PUBREC:\d+:0$/ } split / /, acks($c, 20)), 20, 'twenty are answered');
$c->pubrel(1);
is(acks($c, 1), 'PUBCOMP:1:0', 'one is released');
$c->publish('acme/d1/max', 'n21', qos => 2, pid => 21);
is(acks($c, 1), 'PUBREC:21:0', 'which makes room for one');
$c->publish('acme/d1/max', 'n22', qos => 2, pid => 22);
is($c->ending, '0x93', 'O16: one more ends the connection');
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/max'"), 21, 'and is not stored');

# A client of 3.1.1 knows no receive maximum: it may send before it releases, up to a limit.
$c = $s->device('d1', version => 4, client_id => 'many');
$c->publish('acme/d1/many', "n$_", qos => 2, pid => $_) for 1 .. 30;
is(scalar(grep { /^PUBREC:\d+:0$/ } split / /, acks($c, 30)), 30, '3.1.1: thirty unreleased ones are answered');
$c->pubrel($_) for 1 .. 30;
is(scalar(grep { /^PUBCOMP:\d+:0$/ } split / /, acks($c, 30)), 30, '3.1.1: and complete');
$c->publish('acme/d1/many', "m$_", qos => 2, pid => $_) for 1 .. 31;
is($c->ending, 'closed', '3.1.1: beyond fleetlog.max_unreleased the connection ends');

# Deliveries: the lower QoS of publisher and subscription (O52), PUBREL for every PUBREC (O51), the window up to PUBCOMP.
for my $version (4, 5)
{
    my $label = "version $version";
    my $sub = $s->device('d2', version => $version, client_id => "out$version", properties => [ [ 33, 2 ] ]);
    my $pub = $s->device('d2', client_id => "pub$version");
    my $topic = "acme/d2/out$version";

    is(join(',', $sub->subscribe([ [ $topic, 2 ], [ "$topic/one", 1 ] ])), '2,1', "$label: granted");
    $pub->publish_released("$topic/one", 'x');
    my ($m) = $sub->messages(1);
    is($m->{qos}, 1, "$label: O52: not above the granted QoS");
    $pub->publish_acked($topic, 'x');
    ($m) = $sub->messages(1);
    is($m->{qos}, 1, "$label: not above the published QoS");

    $pub->publish_released($topic, 'n1');
    $m = $sub->expect('PUBLISH');
    is("$m->{qos} $m->{dup} $m->{payload}", '2 0 n1', "$label: delivered at QoS 2");
    # O62: identifiers of the two directions are two things.
    $sub->publish_released("acme/d2/other$version", 'x', pid => $m->{pid});
    $sub->pubrec($m->{pid});
    is(acks($sub, 1), "PUBREL:$m->{pid}:0", "$label: O62: PUBREL for the server's identifier");
    $sub->pubrec($m->{pid});
    is(acks($sub, 1), "PUBREL:$m->{pid}:0", "$label: O51: once more for a repeated PUBREC");
    $sub->pubcomp($m->{pid});
    $sub->pubrec(4711);
    is(acks($sub, 1), 'PUBREL:4711:' . ($version == 5 ? 0x92 : 0), "$label: a PUBREC that names nothing is answered");
    $sub->ping;

    # Up to PUBCOMP a delivery takes its place in the window of two (3.1.1: of max_inflight).
    $pub->publish_released($topic, "w$_") for 1 .. 4;
    my @got = map { $sub->expect('PUBLISH') } 1 .. ($version == 5 ? 2 : 4);
    $sub->pubrec($_->{pid}) for @got;
    is(scalar(grep { /^PUBREL:\d+:0$/ } split / /, acks($sub, scalar @got)), scalar @got, "$label: released");
    if ($version == 5)
    {
        $sub->ping;
        $sub->pubcomp($got[0]{pid});
        push @got, $sub->expect('PUBLISH');
        $sub->pubcomp($got[1]{pid});
        push @got, $sub->expect('PUBLISH');
        # One that the client refuses is over.
        $sub->pubrec($got[2]{pid}, 0x97);
        $pub->publish_released($topic, 'w5');
        push @got, $sub->expect('PUBLISH');
    }
    is(join(' ', map { $_->{payload} } @got), $version == 5 ? 'w1 w2 w3 w4 w5' : 'w1 w2 w3 w4', "$label: in order, each once");

    # Answers of the wrong kind.
    $sub->puback($got[-1]{pid});
    is($sub->ending, $version == 5 ? '0x82' : 'closed', "$label: PUBACK for a QoS 2 delivery ends the connection");
}

# ---- identifiers wrap around, past those that are in use ----

# More bytes, for who answers in bulk.
sub more
{
    my ($c) = @_;
    die 'nothing comes' unless IO::Select->new($c->{socket})->can_read($FleetlogTest::TIMEOUT);
    $c->fill or die 'closed';
    return;
}

# Of the server: 3.1.1, so that all packets of one topic are of one size and can be answered in bulk.
{
    my $topic = 'acme/d2/wrap';
    my $sub = $s->device('d2', version => 4, client_id => 'wrap');
    my $pub = $s->device('d2', client_id => 'wraps');
    my $mixed = sub { $_ % 2 ? $pub->publish_acked($topic, 'x') : $pub->publish_released($topic, 'x') for @_; return; };
    my @got;
    # All that come, to their end but for those held back: at QoS 1 no PUBACK, at QoS 2 no PUBREC, or no PUBCOMP.
    my $take = sub {
        my ($n, %hold) = @_;
        my @pids;
        for (my $open = $n; $open > 0;)
        {
            my $p = $sub->read_packet;
            last unless ref $p;
            my $hold = $hold{ $p->{pid} } // '';
            if ($p->{name} eq 'PUBREL') { $sub->pubcomp($p->{pid}) if $hold ne 'PUBCOMP'; $open--; next; }
            push @pids, "$p->{qos}:$p->{pid}";
            if ($p->{qos} == 1) { $sub->puback($p->{pid}) if $hold ne 'PUBACK'; $open--; }
            elsif ($hold eq 'PUBREC') { $open--; }
            else { $sub->pubrec($p->{pid}); }
        }
        return join ' ', @pids;
    };

    is(join(',', $sub->subscribe([ [ $topic, 2 ] ])), '2', 'a subscriber of 3.1.1');
    $mixed->(1 .. 10);
    is($take->(10, 3 => 'PUBACK', 4 => 'PUBREC', 6 => 'PUBCOMP'), join(' ', map { (2 - $_ % 2) . ":$_" } 1 .. 10), 'its first identifiers');

    # On to the last but eight.
    my ($first, $last, $wrong) = (11, 65527, 0);
    $s->sql(sprintf "SELECT count(fleetlog.publish('$topic', 'x')) FROM generate_series(%d, %d)", $first, $last);
    my $size = 2 + 2 + length($topic) + 2 + 1;
    for (my $next = $first; $next <= $last;)
    {
        more($sub) if length $sub->{in} < $size;
        my $n = int(length($sub->{in}) / $size);
        my $answers = '';
        for my $packet (unpack "(a$size)$n", substr $sub->{in}, 0, $n * $size, '')
        {
            my ($type, $pid) = unpack 'Cx' . (3 + length $topic) . 'n', $packet;
            $wrong++ if $type != 0x32 || $pid != $next;
            $next++;
            $answers .= "\x40\x02" . pack 'n', $pid;
        }
        $sub->send_raw($answers) if $n > 0;
        $wrong++ if $next > $last && length $sub->{in};
    }
    is($wrong, 0, 'each one more than the one before');
    $mixed->(1 .. 16);
    my @want = (65528 .. 65535, 1, 2, 5, 7 .. 11);
    is($take->(16), join(' ', map { (2 - ($_ + 1) % 2) . ":$want[$_]" } 0 .. 15), 'behind 65535 comes 1, and those under way are left out, at both QoS');
    $sub->puback(3);
    $sub->pubrec(4);
    is(acks($sub, 1), 'PUBREL:4:0', 'which go on under theirs');
    $sub->pubcomp(4);
    $sub->pubcomp(6);
    $sub->ping;
    $s->wait_for("SELECT inflight FROM fleetlog.stat_connection WHERE client_id = 'wrap'", 0, 'all to be at their end');
}

# Of the client: who uses all of them has said something new each time, were it the same text; what is not released is not.
{
    my $topic = 'acme/d1/wrapped';
    my $pub = $s->device('d1', version => 4, client_id => 'wrapped', clean => 0);
    $pub->publish($topic, 'held', qos => 2, pid => 2);
    is(acks($pub, 1), 'PUBREC:2:0', 'one at QoS 2 is under way');
    my $bad = 0;
    for my $part (0 .. 127)
    {
        my @pids = grep { $_ > 0 && $_ != 2 } $part * 512 .. $part * 512 + 511;
        $pub->send_raw(join '', map { $pub->publish_packet($topic, 'x', qos => 1, pid => $_) } @pids);
        more($pub) while length $pub->{in} < 4 * @pids;
        $bad++ if substr($pub->{in}, 0, 4 * @pids, '') ne join '', map { "\x40\x02" . pack 'n', $_ } @pids;
    }
    is($bad, 0, 'all others at QoS 1, in order');
    is($pub->publish_acked($topic, 'x', pid => 1), 0, 'the first once more, with the same text');
    $pub->publish($topic, 'held', qos => 2, pid => 2, dup => 1);
    is(acks($pub, 1), 'PUBREC:2:0', 'the one under way once more');
    $pub->publish_released($topic, 'x', pid => 65535);
    $pub->pubrel(2);
    is(acks($pub, 1), 'PUBCOMP:2:0', 'and to its end');
    $pub->publish_released($topic, 'held', pid => 2);
    is($s->sql("SELECT string_agg(n, ' ') FROM (SELECT fleetlog.text(payload) || ' ' || count(*) AS n FROM telemetry WHERE key = '$topic' GROUP BY fleetlog.text(payload) ORDER BY 1) t"),
        'held 2 x ' . (65534 + 2), 'an identifier that comes again after all others is a new message, one that is not released is the old one');
    $pub->disconnect;
}

# UNSUBSCRIBE does not break off what has begun.
my ($leaver, $other) = ($s->device('d2', client_id => 'leaver'), $s->device('d2', client_id => 'other'));
$leaver->subscribe([ [ 'acme/d2/leave', 2 ] ]);
$other->publish_released('acme/d2/leave', 'begun');
my $begun = $leaver->expect('PUBLISH');
is(join(',', $leaver->unsubscribe('acme/d2/leave')), '0', 'the subscription ends while its delivery is under way');
$leaver->pubrec($begun->{pid});
is(acks($leaver, 1), "PUBREL:$begun->{pid}:0", 'a delivery that has begun is completed after UNSUBSCRIBE');

# Expiry is for messages that have not been sent yet: what has begun is completed, both ways.
$other->publish('acme/d2/late', 'late', qos => 2, pid => 40, properties => [ [ 2, 0 ] ]);
is(acks($other, 1), 'PUBREC:40:0', 'a message that has expired is received');
$other->pubrel(40);
is(acks($other, 1), 'PUBCOMP:40:0', 'and acknowledged to the end');
$leaver->subscribe([ [ 'acme/d2/expires', 2 ] ]);
# Where it takes longer than that until it is sent, it gets more time.
for my $expiry (1, 4, 16, 64)
{
    $other->publish_released('acme/d2/expires', "begun $expiry", properties => [ [ 2, $expiry ] ]);
    $begun = $leaver->read_packet($expiry + 1);
    next unless ref $begun;
    $s->wait_for("SELECT clock_timestamp() > ts + interval '$expiry s 500 ms' FROM telemetry WHERE key = 'acme/d2/expires' AND fleetlog.text(payload) = 'begun $expiry'");
    last;
}
$leaver->pubrec($begun->{pid});
is(acks($leaver, 1), "PUBREL:$begun->{pid}:0", 'a delivery that expires on the way is completed');

# A will at QoS 2.
my $listener = $s->device('d2', client_id => 'listener');
$listener->subscribe([ [ 'acme/d2/will', 2 ] ]);
my $victim = $s->device('d2', client_id => 'victim', will => { topic => 'acme/d2/will', payload => 'gone', qos => 2 });
$victim->reset;
my $will = $listener->expect('PUBLISH');
is("$will->{qos} $will->{payload}", '2 gone', 'a will at QoS 2 is delivered at QoS 2');

is(FleetlogTest::Mqtt::unseen(qw(CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT)), '', 'packets of every kind have come');
is(FleetlogTest::Mqtt::unasked(), '', 'none of them tells what nobody asked for');
is($s->density_faults, '', 'offsets dense');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
