# M4, M7: a will with a delay is kept with its session: published when nobody came back in time or the session is over,
# whichever is first, called back by the next connection, and once in the log, over restart and kill -9.  MQTT-3.1.2-8,
# MQTT-3.1.2-10, MQTT-3.1.3-9.
use strict;
use warnings;
use Test::More;
use Digest::MD5 qw(md5_hex);
use Time::HiRes qw(time);
use FleetlogTest;
use FleetlogTest::Wills;

my $s = FleetlogTest->new('wills', conf => "fleetlog.session_journal_size = 64kB\nfleetlog.worker_retry = 100ms\nwal_consistency_checking = 'all'\n");
$s->fleet(devices => 3);
my $LONG = $FleetlogTest::Wills::LONG;
my $w = FleetlogTest::Wills->new($s);

sub gone { my ($id) = @_; $s->wait_for("SELECT count(*) FROM fleetlog.stat_session WHERE client_id = '$id'", 0, "session $id to end"); return; }

# Many wait for the same second: what is published when a delay or a session is over.
my %then;
for my $qos (0 .. 2)
{
    my $c = $w->client("delay$qos", 1, qos => $qos, properties => [ [ 3, 'text/plain' ], [ 38, 'b', '1' ], [ 38, 'a', '2' ] ]);
    $then{$qos} = time;
    $c->reset;
}
$w->client('short', $LONG, expiry => 1)->reset;
$w->client('word', $LONG)->send_hex('e0 07 04 05 11 00000000');
$w->client('asked2', 1)->disconnect(4);
$w->client("$_-published", 1)->reset for qw(restart crash);
$w->wait_for((map { "delay$_" } 0 .. 2), qw(short word asked2 restart-published crash-published));

# The delay is over, the session goes on.
for my $qos (0 .. 2)
{
    is($s->sql("SELECT extract(epoch FROM ts) >= $then{$qos} + 1 FROM telemetry WHERE key = 'acme/d1/delay$qos'"), 't', "QoS $qos: no will before its delay is over");
    is($s->sql("SELECT device || ' ' || (headers ->> 'content-type') || ' ' || (headers ->> 'b') || (headers ->> 'a') FROM telemetry WHERE key = 'acme/d1/delay$qos'"),
        'd1 text/plain 12', "QoS $qos: the record is that of its device, with its properties");
    my $c = $w->client("delay$qos", undef);
    is($c->{connack}{session_present}, 1, "QoS $qos: MQTT-3.1.2-8: published when the delay is over, the session goes on");
    $c->reset;
    $w->end_session("delay$qos");
    is($w->published("delay$qos"), 'w', "QoS $qos: MQTT-3.1.2-10: a will that was published is gone");
}

# The session is over before the delay.
gone($_) for qw(short word);
is($w->published('short'), 'w', 'MQTT-3.1.2-8: published when the session is over, though the delay is not');
is($w->published('word'), 'w', 'the last word ends the session: published');

# Back in time.
$w->client('back', $LONG)->reset;
is($w->client('back', undef)->{connack}{session_present}, 1, 'its session is there');
$w->end_session('back');
is($w->published('back'), '', 'MQTT-3.1.3-9: back before the delay is over: no will (O31)');
$w->client('clean', $LONG)->reset;
{
    my $c = $w->client('clean', undef, clean => 1);
    is($w->published('clean'), 'w', 'MQTT-3.1.2-8: a clean start ends the session: published before CONNACK');
    is($c->{connack}{session_present}, 0, 'which is a new one');
}
$w->client('other', $LONG, payload => 'a')->reset;
$w->client('other', $LONG, payload => 'b')->reset;
$w->end_session('other');
is($w->published('other'), 'b', 'a will takes the place of the one before');
$w->client('ends', $LONG)->reset;
$w->client('ends', undef, expiry => 0)->reset;
gone('ends');
is($w->published('ends'), '', 'called back by a connection with which the session ends');
$w->client('now', $LONG, payload => 'a')->reset;
$w->client('now', 0, payload => 'b')->reset;
$w->wait_for('now');
is($w->published('now'), 'b', 'a will without delay is published when the connection ends');

# Taken over.
{
    my $old = $w->client('taken', $LONG);
    my $new = $w->client('taken', undef);
    is($old->ending, '0x8E', 'taken over');
    $w->end_session('taken');
    is($w->published('taken'), '', 'MQTT-3.1.3-9: taken over before the delay is over: no will');
    $old = $w->client('retaken', $LONG);
    $new = $w->client('retaken', undef, clean => 1);
    is($old->ending, '0x8E', 'taken over by a clean start');
    is($w->published('retaken'), 'w', 'which ends the session: published before CONNACK');
}

# Given up, and asked for.
$w->client('given', $LONG)->disconnect;
$w->end_session('given');
is($w->published('given'), '', 'MQTT-3.1.2-10: DISCONNECT 0x00 gives it up');
$w->client('asked', $LONG)->disconnect(4);
$w->end_session('asked');
is($w->published('asked'), 'w', 'DISCONNECT 0x04 does not');
is($w->published('asked2'), 'w', 'and it is published when its delay is over');

# Its rights are those of when it is published.
$w->client('rights', $LONG)->reset;
$s->sql("SELECT fleetlog.unmount('acme/')");
$s->sql("SELECT fleetlog.mount('else/', 'telemetry')");
$w->client('unmounted', 1)->reset;
$s->wait_for_log(qr/the will of .*unmounted.* was not published/);
$s->sql("SELECT fleetlog.mount('acme/', 'telemetry')");
$w->end_session('unmounted');
is($w->published('unmounted'), '', 'one that is refused is given up');
$w->end_session('rights');
is($w->published('rights'), 'w', 'one that waited is not');

# A large one, in many blocks of the store.
my $large = join '', map { chr(33 + int(rand 90)) } 1 .. 60000;
$w->client('large', $LONG, payload => $large)->reset;

# Over a restart: who was away, and who was connected.
$w->client('snap', $LONG)->reset;
my %again = (
    restart => sub { $s->node->restart; $s->wait_for_mqtt; },
    crash => sub { $s->kill9_and_start; },
    snapshot => sub {
        # One will is in the snapshot, the others are behind it.
        my $before = $s->sql("SELECT fleetlog.head('fleetlog.session_journal', 0)");
        my $pid = 1;
        my $c = $w->client('many', undef);
        FleetlogTest::wait_until(sub {
                $c->publish_released('acme/d1/many', 'x', pid => $_) for $pid .. $pid + 99;
                $pid += 100;
                return $s->sql("SELECT fleetlog.head('fleetlog.session_journal', 0)") > $before;
            }, 'a snapshot');
        $c->reset;
    });
for my $how (qw(restart crash))
{
    $again{snapshot}->() if $how eq 'crash';
    $w->client("$how-back", $LONG)->reset;
    $w->client("$how-clean", $LONG)->reset;
    $w->client("$how-given", $LONG)->disconnect;
    my @open = ($w->client("$how-open", 1), $w->client("$how-open-back", $LONG), $w->client("$how-short", $LONG, expiry => 1));
    $s->sql("SELECT pg_switch_wal()");
    # What is acknowledged now is behind all of that.
    $s->device('d2')->publish_acked('acme/d2/t', 'durable');
    $again{$how}->();
    $_->close for @open;
    $w->wait_for("$how-open", "$how-short");
    is($w->published("$how-open") . $w->published("$how-short"), 'ww', "$how: who was connected has his delay from the start on");
    $w->client("$how-open-back", undef)->reset;
    $w->client("$how-back", undef)->reset;
    $w->end_session("$how-$_") for qw(back open-back clean given published open);
    is(join('|', map { $w->published("$how-$_") } qw(back open-back clean given published open)), '||w||w|w', "$how: each once, or called back");
}
$w->end_session('large');
is(md5_hex($w->published('large')), md5_hex($large), 'a large will comes out as it went in');
$w->end_session('snap');
is($w->published('snap'), 'w', 'a will comes from the snapshot');

# Many at once.
my $many = 300;
my @many = map { $s->raw } 1 .. $many;
for my $n (1 .. $many)
{
    $many[ $n - 1 ]->send_raw($many[ $n - 1 ]->connect_packet(client_id => "m$n", user => 'acme/d1', password => 'pw-d1', clean => 0, properties => [ [ 17, $LONG ] ],
            will => { topic => "acme/d1/m$n", payload => 'w', qos => 1, properties => [ [ 24, 1 ] ] }));
}
is(scalar(grep { $_->expect('CONNACK')->{reason} == 0 } @many), $many, 'many clients with wills');
$_->reset for @many;
$s->wait_for("SELECT count(DISTINCT key) FROM telemetry WHERE key ~ '^acme/d1/m[0-9]+\$'", $many, 'all wills');
$w->end_session("m$_") for 1 .. 20;
is($s->sql("SELECT count(*) FROM telemetry WHERE key ~ '^acme/d1/m[0-9]+\$'"), $many, 'many at once: each once');

# Whoever may not log in any more leaves no last word.
{
    my $a = $s->raw;
    $a->login(client_id => 'revoked', user => 'acme/d3', password => 'pw-d3', clean => 0, properties => [ [ 17, $LONG ] ],
        will => { topic => 'acme/d3/revoked', payload => 'w', qos => 1, properties => [ [ 24, 1 ] ] });
    $s->stop_points('keeper_turn');
    $s->wait_stopped_at('keeper_turn');
    $a->reset;
    $s->sql("SELECT fleetlog.revoke_device('acme/d3', 'lost')");
    $s->stop_points();
    $s->wait_for_log(qr/the will of .*revoked.* was not published: its credential was revoked/);
    is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d3/revoked'"), 0, 'no will of whose credential was revoked');
}

is($s->density_faults, '', 'offsets dense');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
