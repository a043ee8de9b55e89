# O4: a segment, or a state table's index, that somebody has locked (CREATE INDEX, LOCK TABLE, a long ALTER) holds up its own
# records and nobody else: no front door waits for the lock, and the appender goes on with every other stream.
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

# The tail is not known (a transaction was rolled back), and looking for it needs the locked segment.
$s->set_conf('fleetlog.door_writes' => 'off');
$s->wait_for('SHOW fleetlog.door_writes', 'off', 'the reload');
$s->sql("BEGIN; SELECT fleetlog.append('telemetry', 'acme/d1/unknown', 'rolled back'); ROLLBACK");
my $blocker = $s->session;
$blocker->query('BEGIN');
$blocker->query("LOCK TABLE ONLY $segment IN SHARE MODE");
my $errors = $s->sql("SELECT errors FROM fleetlog.stat_worker WHERE kind = 'appender'");
$device->publish('acme/d1/unknown', "n$_", qos => 1) for 1 .. 5;
$s->wait_for("SELECT state ~ 'held by SQL' FROM fleetlog.stat_worker WHERE kind = 'appender'");
is(eval { $other->publish_acked('acme/d2/t', "tail unknown $_") } // -1, 0, "tail unknown: the other stream is written, $_") for 1 .. 10;
is(waiting(), 0, 'tail unknown: nobody waits in the lock table');
is($s->sql("SELECT errors FROM fleetlog.stat_worker WHERE kind = 'appender'"), $errors, 'tail unknown: no turn of the appender was lost to it');
$blocker->query('COMMIT');
$device->expect('PUBACK') for 1 .. 5;
is(stored('acme/d1/unknown'), join(' ', map { "n$_" } 1 .. 5), 'tail unknown: afterwards everything is there, in order');
$blocker->quit;

# The index of a state table can be locked without its table: the value waits, the door does not.
$s->set_conf();
$s->wait_for('SHOW fleetlog.door_writes', 'on', 'the reload');
$s->sql("SELECT fleetlog.create_state('latest'); SELECT fleetlog.mount('acme/d1/state/', 'telemetry', state => 'latest')");
$device->publish_acked("acme/d1/state/$_", 'before', retain => 1) for qw(x y);
my $holder = $s->session;
$holder->query('BEGIN');
$holder->query('ALTER INDEX latest_pkey SET TABLESPACE pg_default');
is($holder->error, '', 'the index of the state table is locked');
$device->publish('acme/d1/state/x', 'meanwhile', qos => 1, retain => 1);
ok(eval { $device->ping }, 'index locked: the door serves its clients');
is(eval { $other->publish_acked('acme/d2/t', 'index locked') } // -1, 0, 'index locked: the other stream is written');
my $reader = $s->device('d1', client_id => 'reader');
$reader->subscribe(['acme/d1/state/y']);
ok(eval { $reader->ping }, 'index locked: who subscribes is answered');
$s->wait_for("SELECT count(*) = 1 FROM telemetry WHERE fleetlog.text(payload) = 'meanwhile'", 't', 'the record to be there');
$holder->query('COMMIT');
$device->expect('PUBACK');
is($reader->expect('PUBLISH')->{payload}, 'before', 'index locked: and gets the value in force when the lock is gone');
is($s->sql("SELECT fleetlog.text(payload) FROM latest WHERE key = 'acme/d1/state/x'"), 'meanwhile', 'index locked: the value came when the lock was gone');
$holder->quit;

is($s->density_faults('telemetry') . $s->density_faults('other'), '', 'offsets dense, time in order');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
