# A front door that writes by itself (src/ingest/write.c): it does so on a quiet shard, and leaves everything that could
# make it wait, and everything that fails, to the appender, without losing or reordering anything.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('doors', conf => "fleetlog.worker_retry = 100ms\nwal_writer_delay = 10s\nfleetlog.max_xids_per_second = 0\n");
$s->fleet;
my $device = $s->device('d1');

# Batches that a kind of worker has written or handed over.
sub batches { return $s->sql("SELECT coalesce(sum(batches), 0) FROM fleetlog.stat_worker WHERE kind = '$_[0]'"); }
sub stored { return $s->sql("SELECT string_agg(fleetlog.text(payload), ' ' ORDER BY shard, log_offset) FROM telemetry WHERE key = '$_[0]'"); }

# Publishes until the door has written by itself: returns how many were published.  While the machine is busy and its disk is
# found slow, only one flush in 256 may be the door's own, so it can take a while, but not for ever.
sub until_door_writes
{
    my ($topic) = @_;
    my ($n, $appender) = (0, batches('appender'));
    FleetlogTest::wait_until(
        sub {
            $device->publish_acked($topic, 'n' . ++$n) for 1 .. 50;
            return batches('appender') - $appender < $n;
        },
        'the door to write by itself');
    return $n;
}

# A quiet shard: batches do not take the long way.
my $n = until_door_writes('acme/d1/quiet');
is(stored('acme/d1/quiet'), join(' ', map { "n$_" } 1 .. $n), 'what the door wrote is there, in order, without the appender');

# Switched off, everything goes over the appender.
$s->set_conf('fleetlog.door_writes' => 'off');
$s->wait_for('SHOW fleetlog.door_writes', 'off', 'the reload');
my $appender;
# The door may read the setting a little later than a new session does.
FleetlogTest::wait_until(sub { $appender = batches('appender'); $device->publish_acked('acme/d1/off', 'first'); batches('appender') > $appender }, 'the door to have read it');
$appender = batches('appender');
$device->publish_acked('acme/d1/off', "n$_") for 1 .. 20;
is(batches('appender') - $appender, 20, 'door_writes = off: the appender writes');
$s->set_conf();
$s->wait_for('SHOW fleetlog.door_writes', 'on', 'the reload');

# A shard that SQL holds: the door does not wait, serves its other clients, and order is kept.
my $other = $s->device('d2');
my $holder = $s->session;
$holder->query("BEGIN");
$holder->query("SELECT fleetlog.append('telemetry', 'held', 'x')");
$device->publish('acme/d1/held', "n$_", qos => 1) for 1 .. 10;
$device->ping;
$other->ping;
pass('while SQL holds the shard the door answers others');
is($s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/held'"), 0, 'nothing is written meanwhile');
$s->wait_for("SELECT state ~ 'held by SQL' FROM fleetlog.stat_worker WHERE kind = 'appender'");
$device->publish('acme/d1/held', "n$_", qos => 1) for 11 .. 20;
$other->publish('acme/d2/held', "m$_", qos => 1) for 1 .. 5;
$holder->query("COMMIT");
$device->expect('PUBACK') for 1 .. 20;
$other->expect('PUBACK') for 1 .. 5;
is(stored('acme/d1/held'), join(' ', map { "n$_" } 1 .. 20), 'what waited keeps its order when the shard is free');

# The short way opens again afterwards.
until_door_writes('acme/d1/again');
pass('afterwards the door writes by itself again');

# A turn of the door that fails is the appender's to explain.
$s->sql("SELECT fleetlog.create_stream('gone'); SELECT fleetlog.mount('acme/d1/gone/', 'gone')");
$device->publish_acked('acme/d1/gone/x', 'kept');
$s->sql("SELECT fleetlog.unmount('acme/d1/gone/'); SELECT fleetlog.drop_stream('gone')");
$device->publish_acked('acme/d1/after', 'there');
is(stored('acme/d1/after'), 'there', 'the door goes on after a stream was dropped');

# A door that is told to end at the points of its writing: what it acknowledged is there.  (kill -9: 040.)
for my $point (qw(door_after_write door_after_commit door_before_flush))
{
    my $victim = $s->device('d1', client_id => "v-$point");
    $s->stop_points($point);
    $victim->publish('acme/d1/point', $point, qos => 1);
    $s->wait_stopped_at($point);
    is($s->sql("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'front_door' AND stop_point = '$point'"), 1, "$point: the door stands there");
    ok($victim->quiet(0.2), "$point: and has acknowledged nothing");
    $s->sql("SELECT pg_terminate_backend(pid) FROM fleetlog.stat_worker WHERE stop_point = '$point'");
    $s->wait_for("SELECT NOT EXISTS (SELECT FROM fleetlog.stat_worker WHERE stop_point = '$point')");
    $s->stop_points();
    my $acknowledged = eval { $victim->expect('PUBACK') } ? 1 : 0;
    my $there = $s->sql("SELECT count(*) FROM telemetry WHERE key = 'acme/d1/point' AND fleetlog.text(payload) = '$point'");
    cmp_ok($there, '>=', $acknowledged, "$point: acknowledged $acknowledged, stored $there");
    $s->wait_for("SELECT count(*) = 2 FROM fleetlog.stat_worker WHERE kind = 'front_door' AND stop_point IS NULL");
    $s->wait_for_mqtt;
    $s->device('d2', client_id => "n-$point")->publish_acked('acme/d2/next', $point);
    is($s->density_faults, '', "$point: offsets dense after the door was ended there");
}
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
