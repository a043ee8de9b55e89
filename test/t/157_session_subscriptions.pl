# M7: a persistent session is a bookmark per shard plus its in-flight identifiers.  Its subscriptions outlive the
# connection, over reconnects, takeover, restart and kill -9; what came meanwhile is delivered in order, without loss, at
# QoS 1; deliveries that were under way come again, first and under their identifiers; where retention has passed the
# bookmark it goes on at the oldest record, and the gap is counted.  Cases O29, O30.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('subscriptions', conf => "fleetlog.session_journal_size = 64kB\nfleetlog.worker_retry = 100ms\n");
$s->fleet(devices => 3, shards => 2);

sub session
{
    my ($id, %opt) = @_;
    my $version = $opt{version} // 5;
    my $c = $s->raw(version => $version);
    my @properties = $version == 5 ? ([ 17, $opt{expiry} // 300 ]) : ();
    my $ack = $c->login(client_id => $id, user => 'acme/d1', password => 'pw-d1', clean => $opt{clean} // 0, properties => \@properties);
    die 'refused' unless ref $ack && $ack->{reason} == 0;
    $c->{connack} = $ack;
    return $c;
}
sub present { return $_[0]->{connack}{session_present}; }

my $publisher = $s->raw;
$publisher->login(client_id => 'publisher', user => 'acme/d1', password => 'pw-d1', clean => 1);
sub reconnect_publisher
{
    $publisher = $s->raw;
    $publisher->login(client_id => 'publisher', user => 'acme/d1', password => 'pw-d1', clean => 1);
    return;
}
sub send_all { my ($topic, @texts) = @_; $publisher->publish_acked($topic, $_) for @texts; return; }
sub texts { return join ' ', map { $_->{payload} } @_; }
sub gone { my ($id) = @_; $s->wait_for("SELECT connected FROM fleetlog.stat_session WHERE client_id = '$id'", 'f', "$id to have gone"); return; }

my $c;
my %again = (
    reconnect => sub { $c->reset; gone($_[0]); },
    normal => sub { $c->disconnect; gone($_[0]); },
    restart => sub { $s->node->restart; $s->wait_for_mqtt; $c->close; reconnect_publisher(); },
    crash => sub { $c->close; gone($_[0]); $s->kill9_and_start; $s->wait_for_mqtt; reconnect_publisher(); });
for my $version (4, 5)
{
    for my $how (qw(reconnect normal restart crash))
    {
        my $id = "s-$how-$version";
        my $topic = "acme/d1/$how/$version";

        $c = session($id, version => $version);
        is(join(',', $c->subscribe([ [ "$topic/+", 1 ], [ "$topic/never", 0 ] ])), '1,0', "$how $version: granted");
        send_all("$topic/a", 'one', 'two');
        is(texts($c->messages(2)), 'one two', "$how $version: live");
        # A later answer proves that the acknowledgements were read.
        $c->ping;
        $again{$how}->($id);
        send_all("$topic/a", map { "n$_" } 1 .. 50);
        $c = session($id, version => $version);
        is(present($c), 1, "$how $version: the session is there");
        send_all("$topic/a", 'live');
        is(texts($c->messages(51)), join(' ', (map { "n$_" } 1 .. 50), 'live'), "$how $version: all that came meanwhile, in order, then live");
        is(join(',', $c->unsubscribe("$topic/+")), $version == 5 ? '0' : '', "$how $version: unsubscribed");
        $again{$how}->($id);
        send_all("$topic/a", 'unwanted');
        $c = session($id, version => $version);
        is(present($c), 1, "$how $version: the session is there without it");
        is(join(',', $c->subscribe([ [ "$topic/b", 1 ] ])), '1', "$how $version: another one");
        send_all("$topic/b", 'wanted');
        is(texts($c->messages(1)), 'wanted', "$how $version: what was unsubscribed stays so");
        $c->disconnect;
        $c = session($id, version => $version, clean => 1, expiry => 0);
        is(present($c), 0, "$how $version: not after a clean start");
        send_all("$topic/b", 'not for it');
        $c->subscribe([ [ "$topic/end", 1 ] ]);
        send_all("$topic/end", 'end');
        is(texts($c->messages(1)), 'end', "$how $version: which has no subscriptions");
        $c->disconnect;
    }
}

# What was under way comes again: first, marked, under its identifier; what was acknowledged does not.
$c = session('flight');
$c->subscribe([ [ 'acme/d1/flight', 1 ] ], properties => [ [ 11, 77 ] ]);
send_all('acme/d1/flight', map { "f$_" } 1 .. 5);
my @sent = map { $c->expect('PUBLISH') } 1 .. 5;
is(texts(@sent), 'f1 f2 f3 f4 f5', 'five are under way');
$c->puback($sent[1]{pid});
$c->ping;
$c->reset;
gone('flight');
send_all('acme/d1/flight', 'f6');
for my $round (1, 2)
{
    $c = session('flight');
    my @back = map { $c->expect('PUBLISH') } 1 .. 5;
    is(texts(@back), 'f1 f3 f4 f5 f6', "round $round: all but what was acknowledged, in order");
    is(join(' ', map { $_->{dup} } @back), $round == 1 ? '1 1 1 1 0' : '1 1 1 1 1', "round $round: marked as sent again");
    is(join(' ', map { $_->{pid} } @back[ 0 .. 3 ]), join(' ', map { $_->{pid} } @sent[ 0, 2, 3, 4 ]), "round $round: under their identifiers");
    is(FleetlogTest::Mqtt::property($back[0], 11), 77, "round $round: with the subscription's identifier");
    next if $round == 1 && do { $c->reset; gone('flight'); 1 };
    $c->puback($_->{pid}) for @back;
}
send_all('acme/d1/flight', 'f7');
is(texts($c->messages(1)), 'f7', 'then it goes on live');
$c->disconnect;

# At QoS 2 every stage outlives the connection, and a crash: what had no PUBREC comes again, of the others the release does.
for my $version (4, 5)
{
    for my $how (qw(reconnect restart crash))
    {
        my $id = "exact-$how-$version";
        my $topic = "acme/d1/exact/$how/$version";
        my $label = "QoS 2, $how $version";

        $c = session($id, version => $version);
        is(join(',', $c->subscribe([ [ $topic, 2 ] ])), '2', "$label: granted");
        $publisher->publish_released($topic, $_) for qw(done released received sent);
        my @first = map { $c->expect('PUBLISH') } 1 .. 4;
        is(texts(@first), 'done released received sent', "$label: four are under way");
        $c->pubrec($_->{pid}) for @first[ 0 .. 2 ];
        is(join(' ', map { $c->expect('PUBREL')->{pid} } 1 .. 3), join(' ', map { $_->{pid} } @first[ 0 .. 2 ]), "$label: three are released");
        $c->pubcomp($first[0]{pid});
        $c->ping;
        # PUBCOMP writes nothing that anybody waits for: the next event of the session is behind it.
        $publisher->publish_released($topic, 'next');
        my $next = $c->expect('PUBLISH');
        is($next->{payload}, 'next', "$label: a fifth");
        $again{$how}->($id);
        $publisher->publish_released($topic, 'later');
        $c = session($id, version => $version);
        is(present($c), 1, "$label: the session is there");
        my @back = map { my $p = $c->read_packet; $p } 1 .. 5;
        is(join(' ', map { join ':', $_->{name}, $_->{pid}, $_->{name} eq 'PUBLISH' ? ($_->{dup}, $_->{payload}) : () } @back[ 0 .. 3 ]),
            "PUBREL:$first[1]{pid} PUBREL:$first[2]{pid} PUBLISH:$first[3]{pid}:1:sent PUBLISH:$next->{pid}:1:next", "$label: each goes on where it was");
        is("$back[4]{payload} $back[4]{dup}", 'later 0', "$label: then what came meanwhile");
        for my $p (@back)
        {
            if ($p->{name} eq 'PUBLISH') { $c->pubrec($p->{pid}); $c->expect('PUBREL'); }
            $c->pubcomp($p->{pid});
        }
        $publisher->publish_released($topic, 'live');
        is($c->expect('PUBLISH')->{payload}, 'live', "$label: then what is live, and nothing else");
        $c->disconnect;
    }
}

# A takeover, over whichever door: nothing is lost between the two, and nothing comes twice that was acknowledged.
$c = session('taken');
$c->subscribe([ [ 'acme/d1/taken', 1 ] ]);
my $n = 0;
for my $round (1 .. 8)
{
    send_all('acme/d1/taken', map { $n++ } 1 .. 5);
    my $next = session('taken');
    is(present($next), 1, "takeover $round: the session is there");
    $c->close;
    $c = $next;
    send_all('acme/d1/taken', map { $n++ } 1 .. 5);
    is(texts($c->messages(10)), join(' ', $n - 10 .. $n - 1), "takeover $round: in order");
    $c->ping;
}
$c->disconnect;
gone('taken');

# A crash while it is connected: what was acknowledged since the last checkpoint may come again, nothing is lost.
$c = session('cut');
$c->subscribe([ [ 'acme/d1/cut', 1 ] ]);
send_all('acme/d1/cut', map { "c$_" } 1 .. 10);
is(scalar(my @first = $c->messages(5)), 5, 'some are acknowledged');
$s->kill9_and_start;
$s->wait_for_mqtt;
$c->close;
reconnect_publisher();
send_all('acme/d1/cut', 'c11');
$c = session('cut');
is(present($c), 1, 'after a crash the session is there');
my %seen = map { $_ => 1 } 'c1' .. 'c5';
my $newest = '';
while ($newest ne 'c11')
{
    my ($m) = $c->messages(1);
    last unless $m;
    $newest = $m->{payload};
    $seen{$newest} = 1;
}
is(join(' ', sort { substr($a, 1) <=> substr($b, 1) } keys %seen), join(' ', map { "c$_" } 1 .. 11), 'and nothing is lost');
$c->disconnect;

# Many more than a queue holds, while live traffic goes on.
send_all('acme/d1/taken', 'first');
for my $i (1 .. 30) { $publisher->publish('acme/d1/taken', "m$i-$_", qos => 0) for 1 .. 100; }
send_all('acme/d1/taken', 'middle');
$c = session('taken');
$publisher->publish('acme/d1/taken', "l$_", qos => 0) for 1 .. 100;
send_all('acme/d1/taken', 'last');
# A record of QoS 0 is delivered at QoS 0: what is at QoS 1 is counted on.
my @got;
while (!@got || $got[-1] ne 'last')
{
    my ($m) = $c->messages(1);
    last unless $m;
    push @got, $m->{payload} if $m->{qos};
}
is(join(' ', @got), 'first middle last', 'an offline session reads on to the live feed, in order');
$c->disconnect;
gone('taken');

# Retention has passed the bookmark.
send_all('acme/d1/taken', map { "g$_" } 1 .. 20);
my $tails = $s->sql("SELECT string_agg(shard || ':' || durable_tail, ' ') FROM fleetlog.stat_stream WHERE stream = 'telemetry'::regclass");
note $tails;
$s->sql("SELECT fleetlog.trim_head('telemetry', shard, durable_tail, durable_tail) FROM fleetlog.stat_stream WHERE stream = 'telemetry'::regclass");
send_all('acme/d1/taken', 'behind the gap');
$c = session('taken');
is(present($c), 1, 'the session is there');
is(texts($c->messages(1)), 'behind the gap', 'it goes on at the oldest record');
$s->wait_for("SELECT dropped >= 20 FROM fleetlog.stat_connection WHERE client_id = 'taken'", 't', 'the gap to be counted');
pass('and the gap is counted');
$c->disconnect;

is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
