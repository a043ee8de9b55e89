# O4: a segment that somebody has locked (CREATE INDEX, LOCK TABLE, a long ALTER) holds up its own shard and nobody else: no
# front door waits for the lock, and the appender goes on with every other stream.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('seglock', conf => "fleetlog.max_xids_per_second = 0\n");
$s->fleet;
$s->sql("SELECT fleetlog.create_stream('other'); SELECT fleetlog.mount('acme/d2/', 'other')");
my $device = $s->device('d1');
my $other = $s->device('d2');

sub stored { return $s->sql("SELECT string_agg(fleetlog.text(payload), ' ' ORDER BY shard, log_offset) FROM telemetry WHERE key = '$_[0]'"); }
sub waiting { return $s->sql("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'"); }

# The tails are known and the doors write by themselves.
$device->publish_acked('acme/d1/warm', "n$_") for 1 .. 100;
$other->publish_acked('acme/d2/warm', "n$_") for 1 .. 100;
my $segment = $s->sql("SELECT tableoid::regclass FROM telemetry WHERE key = 'acme/d1/warm' LIMIT 1");

for my $case (['SHARE', 'on'], ['ACCESS EXCLUSIVE', 'on'], ['SHARE', 'off'])
{
    my ($mode, $writes) = @$case;
    my $topic = 'acme/d1/' . lc(substr($mode, 0, 1)) . $writes;
    my $holder = $s->session;

    $s->set_conf('fleetlog.door_writes' => $writes);
    $s->wait_for('SHOW fleetlog.door_writes', $writes, 'the reload');
    $device->publish_acked($topic, 'n0');
    $mode .= " MODE, doors write: $writes";

    $holder->query("BEGIN");
    $holder->query("LOCK TABLE ONLY $segment IN $case->[0] MODE");
    is($holder->error, '', "$mode: the segment is locked");
    $device->publish($topic, "n$_", qos => 1) for 1 .. 5;
    ok(eval { $device->ping }, "$mode: the door of the device on that stream serves its clients") or last;
    ok(eval { $other->ping }, "$mode: so does the other one");
    $s->wait_for("SELECT state ~ 'held by SQL' FROM fleetlog.stat_worker WHERE kind = 'appender'");
    for my $n (1 .. 10)
    {
        is(eval { $other->publish_acked('acme/d2/t', "$mode $n") } // -1, 0, "$mode: the other stream is written, $n");
    }
    is(waiting(), 0, "$mode: nobody waits in the lock table");
    $device->publish($topic, "n$_", qos => 1) for 6 .. 10;
    $holder->query("COMMIT");
    $device->expect('PUBACK') for 1 .. 10;
    is(stored($topic), join(' ', map { "n$_" } 0 .. 10), "$mode: afterwards everything is there, in order");
    $holder->quit;
}
is($s->density_faults('telemetry') . $s->density_faults('other'), '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
