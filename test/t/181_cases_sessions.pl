# M1, M4, M7: public cases about sessions, what is under way in them, and packet identifiers: quotas over reconnects,
# takeover while others publish, redelivery with DUP and the same identifiers, expiry, order, restart.  Cases O15, O18,
# O19, O27, O28, O33, O50, O53, O61, O63, O64, O71, O-D, and what O-F is for a server.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('cases', conf => "fleetlog.worker_retry = 100ms\n");
$s->fleet(devices => 2, shards => 2);

# One connection of device d1 with a session.
sub session
{
    my ($id, %opt) = @_;
    my $version = $opt{version} // 5;
    my $c = $s->raw(version => $version);
    my @properties = $version == 5 ? ([ 17, $opt{expiry} // 300 ], @{ $opt{properties} // [] }) : ();
    my $ack = $c->login(client_id => $id, user => 'acme/d1', password => 'pw-d1', clean => $opt{clean} // 0, properties => \@properties,
        $opt{will} ? (will => $opt{will}) : ());
    die 'refused: ' . (ref $ack ? $ack->{reason} : $ack // 'nothing') unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}
sub rm { return (properties => [ [ 33, $_[0] ] ]); }
sub gone { my ($id) = @_; $s->wait_for("SELECT connected FROM fleetlog.stat_session WHERE client_id = '$id'", 'f', "$id to have gone"); return; }
# Cuts the connection, and waits until the server has seen it.
sub cut { my ($c, $id) = @_; $c->reset; gone($id); return; }
sub end { my ($c) = @_; $c->disconnect; return; }

my $publisher;
sub reconnect_publisher { $publisher = $s->device('d1', client_id => 'publisher'); return; }
reconnect_publisher();
sub send_all
{
    my ($topic, $qos, @texts) = @_;
    for my $text (@texts) { $qos == 2 ? $publisher->publish_released($topic, $text) : $publisher->publish_acked($topic, $text); }
    return;
}
sub text { my ($p) = @_; return ref $p ? ($p->{name} eq 'PUBLISH' ? $p->{payload} : $p->{name}) : $p // 'nothing'; }
sub texts { return join ' ', map { text($_) } @_; }
sub pids { return join ' ', map { $_->{pid} } @_; }
sub dups { return join ' ', map { $_->{dup} } @_; }
sub publishes { my ($c, $n) = @_; return map { $c->expect('PUBLISH') } 1 .. $n; }

my $c;
my @first;
my @again;

# ---- quotas: O18, O19 ----

for my $qos (1, 2)
{
    my $topic = "acme/d1/quota/$qos";
    $c = session("o18-$qos", rm(1));
    $c->subscribe([ [ $topic, $qos ] ]);
    send_all($topic, $qos, map { "n$_" } 1 .. 5);
    @first = publishes($c, 1);
    ok($c->quiet(0.1), "QoS $qos: one is under way with a receive maximum of 1");
    cut($c, "o18-$qos");
    $c = session("o18-$qos", rm(4));
    is(texts($c->completed(5)), 'n1 n2 n3 n4 n5', "O18: QoS $qos: all arrive with the quota of the new connection");
    end($c);
    gone("o18-$qos");

    # The other way: less room than is under way.
    send_all($topic, $qos, map { "m$_" } 1 .. 6);
    $c = session("o18-$qos", rm(5));
    @first = publishes($c, 5);
    cut($c, "o18-$qos");
    $c = session("o18-$qos", rm(2));
    @again = publishes($c, 2);
    ok($c->quiet(0.1), "O18: QoS $qos: nor more than the new one allows");
    is(pids(@again), pids(@first[ 0, 1 ]), "O18: QoS $qos: which begin with the oldest");
    $c->receipt($_) for @again;
    is(texts($c->completed(4)), 'm3 m4 m5 m6', "O18: QoS $qos: the others follow");
    end($c);
}

# O19: more reconnects than the window has places, each time at a stage of QoS 2 that is not the last.
for my $stage (qw(PUBLISH PUBREC PUBREL))
{
    my $id = "o19-$stage";
    my $topic = "acme/d1/window/$stage";
    my (%held, %taken);
    my $starved = 0;

    $c = session($id, rm(3));
    $c->subscribe([ [ $topic, 2 ] ]);
    cut($c, $id);
    for my $n (1 .. 8)
    {
        send_all($topic, 2, "w$n");
        $c = session($id, rm(3));
        # What it has not let go of comes again; what it answers is as far as this stage goes, of one new message.
        my $new;
        until ($new || keys %held == 3 && $stage eq 'PUBLISH')
        {
            my $p = $c->read_packet;
            last unless ref $p;
            next if $p->{name} ne 'PUBLISH';
            $new = 1 unless $held{ $p->{pid} };
            $held{ $p->{pid} } = $taken{ $p->{payload} } = 1;
            if ($new && $stage ne 'PUBLISH')
            {
                $c->pubrec($p->{pid});
                # Later answers show that it was read.
                if ($stage eq 'PUBREL') { my $rel; do { $rel = $c->read_packet } until !ref $rel || $rel->{name} eq 'PUBREL' && $rel->{pid} == $p->{pid}; }
                else { $c->send_hex('c000'); my $pong; do { $pong = $c->read_packet } until !ref $pong || $pong->{name} eq 'PINGRESP'; }
            }
        }
        $starved++ unless $new || $stage eq 'PUBLISH';
        cut($c, $id);
    }
    is($starved, 0, "O19: cut at $stage: each time the next message comes, though nothing is complete");
    send_all($topic, 2, 'last');
    $c = session($id, rm(3));
    while (!$taken{last})
    {
        my $p = $c->read_packet;
        last unless ref $p;
        if ($p->{name} eq 'PUBREL') { $c->pubcomp($p->{pid}); }
        elsif ($p->{name} eq 'PUBLISH') { $taken{ $p->{payload} } = 1; $c->pubrec($p->{pid}); }
    }
    is(join(' ', sort keys %taken), join(' ', 'last', map { "w$_" } 1 .. 8), "O19: cut at $stage eight times with a window of 3: all arrive");
    end($c);
}

# ---- takeover while messages come: O27 ----

for my $qos (1, 2)
{
    my $topic = "acme/d1/taken/$qos";
    my ($n, $seen, %times, @order, %held) = (0, 0);
    my $send = sub { $publisher->publish($topic, ++$n, qos => 1) for 1 .. $_[0]; return; };
    # What a client does with what comes; some is left unanswered.
    my $hear = sub {
        my ($conn, $count) = @_;
        while ($count-- > 0)
        {
            my $p = $conn->read_packet(0.02);
            last unless ref $p;
            if ($p->{name} eq 'PUBREL') { delete $held{ $p->{pid} }; $conn->pubcomp($p->{pid}); next; }
            next if $p->{name} ne 'PUBLISH';
            unless ($p->{qos} == 2 && $held{ $p->{pid} }) { push @order, $p->{payload} unless $times{ $p->{payload} }++; }
            if ($p->{qos} == 2) { $held{ $p->{pid} } = 1; $conn->pubrec($p->{pid}); }
            else { $conn->puback($p->{pid}); }
        }
    };
    # The stream is at QoS 1; a subscriber at QoS 2 gets QoS 1 of it, so it publishes at QoS 2 there.
    $send = sub { $publisher->publish_released($topic, ++$n) for 1 .. $_[0]; return; } if $qos == 2;
    $c = session("o27-$qos");
    $c->subscribe([ [ $topic, $qos ] ]);
    for my $round (1 .. 50)
    {
        $send->(2);
        $hear->($c, 3);
        my $next = $s->raw;
        $next->send_raw($next->connect_packet(client_id => "o27-$qos", user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, 300 ] ]));
        $send->(2);
        my $ack = $next->expect('CONNACK');
        die 'the session is gone' unless $ack->{session_present};
        $c->close;
        $c = $next;
        if ($qos == 1) { $publisher->expect('PUBACK') for 1 .. 4; }
    }
    $send->(1);
    $publisher->expect('PUBACK') if $qos == 1;
    my $end = time + $FleetlogTest::TIMEOUT;
    $hear->($c, 50) while !$times{$n} && time < $end;
    is(scalar(grep { !$times{$_} } 1 .. $n), 0, "O27: QoS $qos: nothing is lost in 50 takeovers while $n come");
    is(scalar(grep { $times{$_} > 1 } 1 .. $n), 0, 'O27: QoS 2: nor comes twice') if $qos == 2;
    is(join(' ', @order), join(' ', 1 .. $n), "O27: QoS $qos: in order, as they first came");
    end($c);
}

# ---- a session is kept: O28, O33 ----

$c = session('o28', clean => 1);
is($c->{connack}{session_present}, 0, 'a clean start');
$c->subscribe([ [ 'acme/d1/o28', 1 ] ]);
cut($c, 'o28');
send_all('acme/d1/o28', 1, 'meanwhile');
$c = session('o28');
is($c->{connack}{session_present}, 1, 'O28: the session is there');
is(texts($c->completed(1)), 'meanwhile', 'O28: the message comes without a new SUBSCRIBE');
end($c);

my $wills = $s->device('d2', client_id => 'wills');
$s->sql("SELECT fleetlog.allow('acme', 'subscribe', 'acme/d1/will')");
FleetlogTest::wait_until(sub { ($wills->subscribe([ [ 'acme/d1/will', 1 ] ]))[0] == 1 }, 'the right to hear wills');
my $deaf = 0;
for my $n (1 .. 20)
{
    $c = session('o33', will => { topic => 'acme/d1/will', payload => 'w', qos => 1, properties => [ [ 24, 10 ] ] });
    $c->subscribe([ [ 'acme/d1/o33/#', 1 ] ]);
    send_all('acme/d1/o33/t', 1, "n$n");
    $deaf++ unless texts($c->completed(1)) eq "n$n";
    end($c);
    gone('o33');
}
is($deaf, 0, 'O33: a client that comes and goes hears each time');

# ---- what is under way: O50, O53, O61, and whole topics: O15, O-F ----

for my $qos (1, 2)
{
    my $topic = "acme/d1/under/$qos";
    $c = session("o50-$qos", rm(20));
    $c->subscribe([ [ $topic, $qos ] ]);
    send_all($topic, $qos, map { "n$_" } 1 .. 30);
    @first = publishes($c, 20);
    ok($c->quiet(0.1), "QoS $qos: twenty of thirty are under way");
    is(dups(@first), join(' ', (0) x 20), "O53: QoS $qos: DUP 0 when sent first");
    cut($c, "o50-$qos");
    $c = session("o50-$qos", rm(20));
    @again = publishes($c, 20);
    is(pids(@again), pids(@first), "O50: QoS $qos: sent again under the same identifiers");
    is(dups(@again), join(' ', (1) x 20), "O53: QoS $qos: DUP 1 when sent again");
    is(texts(@again), texts(@first), "O50: QoS $qos: in the same order");
    $c->receipt($_) for @again;
    @again = $c->completed(10);
    is(texts(@again), join(' ', map { "n$_" } 21 .. 30), "O50: QoS $qos: the others follow, each once");
    is(dups(@again), join(' ', (0) x 10), "O53: QoS $qos: with DUP 0");
    send_all($topic, $qos, 'live');
    is(texts($c->completed(1)), 'live', "O50: QoS $qos: and nothing else comes");
    end($c);
}
$c = session('o53');
$c->subscribe([ [ 'acme/d1/o53', 2 ] ]);
$publisher->publish('acme/d1/o53', 'again', qos => 1, pid => 900, dup => 1);
$publisher->expect('PUBACK');
my ($p) = $c->completed(1);
is("$p->{payload} $p->{dup}", 'again 0', "O53: the publisher's DUP is not passed on");
end($c);

# O61: what was sent is sent again, however late; what was not is dropped.
for my $qos (1, 2)
{
    my $topic = "acme/d1/expires/$qos";
    $c = session("o61-$qos");
    $c->subscribe([ [ $topic, $qos ] ]);
    my ($sent, $seconds);
    # Where it takes longer than that until it is sent, it gets more time.
    for my $expiry (2, 8, 64)
    {
        $seconds = $expiry;
        my %how = (qos => $qos, properties => [ [ 2, $expiry ] ]);
        if ($qos == 2) { $publisher->publish_released($topic, "begun $expiry", %how); }
        else { $publisher->publish_acked($topic, "begun $expiry", %how); }
        $sent = $c->read_packet($expiry + 1);
        last if ref $sent;
    }
    is($sent->{payload}, "begun $seconds", "QoS $qos: a message that expires is sent");
    cut($c, "o61-$qos");
    $publisher->publish_acked($topic, 'never sent', properties => [ [ 2, 1 ] ]);
    $s->wait_for("SELECT bool_and(clock_timestamp() > ts + interval '500 ms' + CASE fleetlog.text(payload) WHEN 'never sent' THEN '1 s'::interval ELSE '$seconds s'::interval END)
          FROM telemetry WHERE key = '$topic' AND fleetlog.text(payload) IN ('never sent', 'begun $seconds')");
    $c = session("o61-$qos");
    send_all($topic, $qos, 'after');
    my ($back, $next) = $c->completed(2);
    is("$back->{payload} $back->{pid} $back->{dup}", "$sent->{payload} $sent->{pid} 1", "O61: QoS $qos: one that was sent is sent again after it has expired");
    is(FleetlogTest::Mqtt::property($back, 2), 0, "O61: QoS $qos: with nothing left of its time");
    is(text($next), 'after', "O61: QoS $qos: one that was not is dropped");
    end($c);
}

# O15, O-F: aliases die with the connection, both ways; what comes again comes with its whole topic.
$c = session('o15', properties => [ [ 34, 5 ] ]);
$c->subscribe([ [ 'acme/d1/alias/long', 1 ] ]);
send_all('acme/d1/alias/long', 1, 'one', 'two');
@first = publishes($c, 2);
is(join('|', map { $_->{topic} } @first), 'acme/d1/alias/long|', 'the second one has the alias only');
$c->publish_acked('acme/d1/other', 'x', properties => [ [ 35, 1 ] ]);
cut($c, 'o15');
send_all('acme/d1/alias/long', 1, 'three');
$c = session('o15', properties => [ [ 34, 5 ] ]);
@again = publishes($c, 3);
is(texts(@again), 'one two three', 'O15: sent again and goes on');
is($again[0]{topic}, 'acme/d1/alias/long', 'O15: the server tells its alias anew');
is(FleetlogTest::Mqtt::property($again[1], 35), FleetlogTest::Mqtt::property($again[0], 35), 'O15: and uses it then');
cut($c, 'o15');
$c = session('o15');
is(join('|', map { $_->{topic} } publishes($c, 3)), join('|', ('acme/d1/alias/long') x 3), 'O-F: whole topics to who takes no alias any more');
$c->publish('', 'x', qos => 1, properties => [ [ 35, 1 ] ]);
is($c->ending, '0x82', "O15: nor does the client's outlive its connection in a session");

# ---- identifiers: O63 ----

for my $qos (1, 2)
{
    my $topic = "acme/d1/pids/$qos";
    my ($reused, $back, $last, $late, %unacked) = (0, 0, 0);
    $c = session("o63-$qos");
    $c->subscribe([ [ $topic, $qos ] ]);
    $s->sql("SELECT count(fleetlog.publish('$topic', 'x')) FROM generate_series(1, 60)") if $qos == 1;
    send_all($topic, $qos, map { "n$_" } 1 .. 40);
    my $n = 0;
    while ($n < ($qos == 1 ? 100 : 40))
    {
        my $q = $c->read_packet;
        last unless ref $q;
        if ($q->{name} eq 'PUBREL') { $c->pubcomp($q->{pid}); delete $unacked{ $q->{pid} }; next; }
        $n++;
        $reused++ if $unacked{ $q->{pid} }++;
        $back++ if $q->{pid} != $last % 65535 + 1;
        $last = $q->{pid};
        # Each is acknowledged when the next one has come.
        if ($late) { $qos == 1 ? ($c->puback($late->{pid}), delete $unacked{ $late->{pid} }) : $c->pubrec($late->{pid}); }
        $late = $q;
    }
    is("$n $reused $back", ($qos == 1 ? 100 : 40) . ' 0 0', "O63: QoS $qos: no identifier twice while it is unacknowledged, and they advance");
    end($c);
}

# ---- order, restart: O64, O71 ----

my %again = (
    'plain reconnect' => sub { },
    'restart' => sub { $s->node->restart; $s->wait_for_mqtt; reconnect_publisher(); },
    'kill -9' => sub { $s->kill9_and_start; $s->wait_for_mqtt; reconnect_publisher(); });
my %away;
for my $version (4, 5)
{
    for my $qos (1, 2)
    {
        $c = session("o64-$version-$qos", version => $version);
        $c->subscribe([ [ "acme/d1/offline/$version/$qos", $qos ] ]);
        end($c);
        gone("o64-$version-$qos");
        $away{"$version-$qos"} = 0;
    }
}
for my $how ('plain reconnect', 'restart', 'kill -9')
{
    my $count = $how eq 'plain reconnect' ? 100 : 10;
    for my $which (sort keys %away)
    {
        my ($version, $qos) = split /-/, $which;
        send_all("acme/d1/offline/$version/$qos", $qos, map { $away{$which} + $_ } 1 .. $count);
    }
    $again{$how}->();
    for my $which (sort keys %away)
    {
        my ($version, $qos) = split /-/, $which;
        my $id = "o64-$which";
        $c = session($id, version => $version);
        is($c->{connack}{session_present}, 1, "O71: $how: version $version, QoS $qos: the session is there");
        is(texts($c->completed($count)), join(' ', map { $away{$which} + $_ } 1 .. $count),
            "O64, O71: $how: version $version, QoS $qos: all that came while it was away, in order");
        $away{$which} += $count;
        # What it acknowledged last has been read when this is answered.
        $c->ping;
        end($c);
        gone($id);
    }
}
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/will'"), '0', 'O33: none of its wills was published');

# ---- a right that is withdrawn: O-D ----

reconnect_publisher();
my $other = $s->device('d2', client_id => 'other');
$s->sql("SELECT fleetlog.allow('acme', 'subscribe', 'acme/d2/news/#')");
$c = session('o-d');
FleetlogTest::wait_until(sub { ($c->subscribe([ [ 'acme/d2/news/#', 1 ], [ 'acme/d1/own', 1 ] ]))[0] == 1 }, 'the right to subscribe');
$other->publish_acked('acme/d2/news/x', 'begun');
is(texts(publishes($c, 1)), 'begun', 'it hears what it may');
cut($c, 'o-d');
$other->publish_acked('acme/d2/news/x', 'meanwhile');
$s->sql("SELECT fleetlog.disallow('acme', 'subscribe', 'acme/d2/news/#')");
my $probe = $s->device('d1', client_id => 'probe');
FleetlogTest::wait_until(sub { ($probe->subscribe([ [ 'acme/d2/news/y', 1 ] ]))[0] >= 0x80 }, 'the right to be gone');
$other->publish_acked('acme/d2/news/x', 'after');
$c = session('o-d');
is($c->{connack}{session_present}, 1, 'its session is there');
send_all('acme/d1/own', 1, 'own');
is(texts($c->completed(1)), 'own', 'O-D: nothing comes to a session whose right was withdrawn, nor what was under way');
end($c);

is($s->density_faults, '', 'offsets dense');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
