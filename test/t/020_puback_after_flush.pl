# L5, M4: a PUBACK leaves only when the record's commit record is flushed, and no subscriber sees a record before that.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

# The WAL writer would flush behind our back five times a second, and hide an acknowledgement that came too early.
my $s = FleetlogTest->new('flush', conf => "wal_writer_delay = 10s\nwal_writer_flush_after = 1GB\ncommit_delay = 0\n");
$s->fleet(devices => 2);
$s->node->safe_psql('fleetlog', 'CREATE EXTENSION pg_walinspect');

my $publisher = $s->device('d1');
my $listener = $s->device('d1', client_id => 'listener');
is(join(',', $listener->subscribe([ [ 'acme/d1/#', 1 ] ])), '1', 'subscribed at QoS 1');

# Held back: after commit, before the flush; and after the flush, before it is made known.
for my $point ('flusher_before_flush', 'flusher_before_publish')
{
    $s->stop_points($point);
    my $pid = $publisher->publish('acme/d1/t', "held at $point", qos => 1);
    $s->wait_stopped_at($point);
    ok($publisher->quiet(1), "$point: no PUBACK while the durable position is held back");
    ok($listener->quiet(0.5), "$point: no delivery either");
    $publisher->send_hex('c000');
    is($publisher->expect('PINGRESP')->{name}, 'PINGRESP', "$point: the front door itself is alive");
    is($s->sql("SELECT fleetlog.tail('telemetry', 0) = (SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) NOT LIKE 'held at $point')"),
        't', "$point: tail() does not show it");
    $s->stop_points();
    is($publisher->expect('PUBACK')->{pid}, $pid, "$point: the PUBACK comes after the release");
    my ($m) = $listener->messages(1);
    is($m->{payload}, "held at $point", "$point: so does the delivery");
}

# The door itself is stopped between the durable position and the PUBACK: nothing leaves, nothing is lost.
$s->stop_points('door_before_ack');
my $pid = $publisher->publish('acme/d1/t', 'held at the door', qos => 1);
$s->wait_stopped_at('door_before_ack');
ok($publisher->quiet(0.5), 'stopped before the acknowledgement: no PUBACK');
$s->stop_points();
is($publisher->expect('PUBACK')->{pid}, $pid, 'released: the PUBACK comes');
is(($listener->messages(1))[0]{payload}, 'held at the door', 'and the delivery');

# Each PUBACK against the WAL itself: the flushed part must hold the commit of the transaction that wrote the record.
my $early = 0;
for my $n (1 .. 20)
{
    my $before = $s->sql('SELECT pg_current_wal_insert_lsn()');
    is($publisher->publish_acked('acme/d1/wal', "n$n"), 0, "acknowledged n$n") or last;
    my $flushed = $s->sql('SELECT pg_current_wal_flush_lsn()');
    my $commits = $s->sql(<<SQL);
WITH wal AS (SELECT * FROM pg_get_wal_records_info('$before', '$flushed'))
SELECT count(*) FROM wal c
 WHERE c.resource_manager = 'Transaction' AND c.record_type LIKE '%COMMIT%'
   AND c.end_lsn <= '$flushed'
   AND c.xid IN (SELECT xid FROM wal WHERE resource_manager ILIKE '%fleetlog%' OR resource_manager ILIKE 'custom%')
SQL
    $early++ if $commits < 1;
}
is($early, 0, 'every acknowledged record had its commit record in the flushed WAL');
is($s->density_faults, '', 'offsets are dense, time never steps back');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
