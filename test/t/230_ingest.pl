# The path from a front door to the log: order and pace, what it refuses, what it does when the appender ends, and the
# segments that are there before they are needed.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FleetlogTest;

# WAL writer quiet, so that only the flusher makes anything durable.
my $s = FleetlogTest->new('ingest', conf => "fleetlog.worker_retry = 100ms\nfleetlog.linger = 300ms\nwal_writer_delay = 10s\n");
$s->fleet;
my $device = $s->device('d1');

sub count { return $s->sql("SELECT count(*) FROM telemetry WHERE " . ($_[0] // 'true')); }
sub worker { return $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = '$_[0]' LIMIT 1"); }

# Views of who is there.
is($s->sql("SELECT count(DISTINCT door) || ' ' || count(*) FROM fleetlog.stat_listener WHERE protocol = 'mqtt' AND address LIKE '127.0.0.1:%' AND state = 'listening'"),
    '2 2', 'stat_listener shows the listener of each door');
$s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_connection WHERE client_id = 'd1' AND identity = 'acme/d1' AND protocol = '5.0' AND peer <> ''");
pass('stat_connection shows the device');

# Order: a thousand at once, acknowledged and stored in the order in which they were sent.
my @pids = map { $device->publish('acme/d1/order', "n$_", qos => 1) } 1 .. 20;
is(join(' ', map { $device->expect('PUBACK')->{pid} } @pids), join(' ', @pids), 'acknowledgements come in order');
for my $n (21 .. 1000) { $device->publish('acme/d1/order', "n$n", qos => 0); }
$device->ping;
$s->wait_for("SELECT count(*) = 1000 FROM telemetry WHERE key = 'acme/d1/order'");
is($s->sql(<<'SQL'), '0', 'and records of one topic are stored in order');
SELECT count(*) FROM (SELECT substr(fleetlog.text(payload), 2)::int AS n, row_number() OVER (ORDER BY log_offset) AS i
                        FROM telemetry WHERE key = 'acme/d1/order') t WHERE n <> i
SQL

# The sender is the connection's, whatever the device says.
$device->publish_acked('acme/d1/sender', 'x', properties => [ [ 38, 'fl.device', 'somebody' ], [ 38, 'fl.tenant', 'else' ], [ 38, 'unit', 'K' ] ]);
is($s->sql("SELECT tenant || ' ' || device || ' ' || (headers ->> 'unit') FROM telemetry WHERE key = 'acme/d1/sender'"),
    'acme d1 K', 'tenant and device come from the connection, not from a property of that name');

# Pace: QoS 0 lingers, QoS 1 does not and takes along what waits.  One that lingered would do so each time.
my $linger = 10;
$s->set_conf('fleetlog.linger' => "${linger}s");
$s->wait_for('SHOW fleetlog.linger', "${linger}s", 'the reload');
my ($tries, $took) = (0);
do
{
    my $begin = time;
    $device->publish_acked('acme/d1/once', 'at once');
    $took = time - $begin;
} while ($took >= $linger && ++$tries < 5);
cmp_ok($took, '<', $linger, 'QoS 1 does not linger');
my $before = $s->sql("SELECT sum(batches) FROM fleetlog.stat_worker WHERE kind = 'front_door'");
my $begin = time;
for (1 .. 5) { $device->publish('acme/d1/pace', 'lingers', qos => 0); }
$device->publish_acked('acme/d1/pace', 'takes them along');
is(count("key = 'acme/d1/pace'"), '6', 'and takes along what lingers');
cmp_ok($s->sql("SELECT sum(batches) FROM fleetlog.stat_worker WHERE kind = 'front_door'") - $before, '<', 3 + (time - $begin) / $linger, 'QoS 0 gathers in few batches');

# A burst that has ended does not wait for more, and goes in the few batches in which the door has read it.
$before = $s->sql("SELECT sum(batches) FROM fleetlog.stat_worker WHERE kind = 'front_door'");
my $bursts = 0;
do
{
    $begin = time;
    $device->send_raw($device->publish_packet('acme/d1/burst', "burst $bursts") x 50);
    $bursts++;
    $s->wait_for("SELECT count(*) = 50 FROM telemetry WHERE key = 'acme/d1/burst' AND fleetlog.text(payload) = 'burst " . ($bursts - 1) . "'");
    $took = time - $begin;
} while ($took >= $linger && $bursts < 5);
cmp_ok($took, '<', $linger, 'a burst goes when it has ended');
cmp_ok($s->sql("SELECT sum(batches) FROM fleetlog.stat_worker WHERE kind = 'front_door'") - $before, '<', 10 * $bursts, 'in few batches');
$s->set_conf();

# While a flush is held, what comes gathers, and goes as one.
$s->stop_points('flusher_before_flush');
$device->publish('acme/d1/gather', 'first', qos => 1);
$s->wait_stopped_at('flusher_before_flush');
$before = $s->sql("SELECT sum(batches) FROM fleetlog.stat_worker WHERE kind = 'front_door'");
$device->publish('acme/d1/gather', "n$_", qos => 1) for 1 .. 15;
$device->ping;
is($s->sql("SELECT sum(batches) FROM fleetlog.stat_worker WHERE kind = 'front_door'") - $before, 0, 'while a flush is under way QoS 1 gathers');
$s->stop_points();
$device->expect('PUBACK') for 1 .. 16;
cmp_ok($s->sql("SELECT sum(batches) FROM fleetlog.stat_worker WHERE kind = 'front_door'") - $before, '<=', 3, 'and then goes in few batches');

# The disk reserve.
$s->set_conf('fleetlog.disk_reserve' => '2000TB');
$s->wait_for('SELECT disk_reserve_reached FROM fleetlog.stat_server');
is($device->publish_acked('acme/d1/disk', 'x'), 0x97, 'disk reserve reached: refused with quota exceeded');
like($s->sql_error("SELECT fleetlog.append('telemetry', 'k', 'x')"), qr/53100.*HINT:.*disk_reserve/s, 'SQL is refused too, with a hint');
like($s->sql_error("SELECT fleetlog.publish('acme/d1/disk', 'x')"), qr/53100/, 'so is publish()');
$s->set_conf();
$s->wait_for('SELECT NOT disk_reserve_reached FROM fleetlog.stat_server');
is($device->publish_acked('acme/d1/disk', 'y'), 0, 'with space again it is taken');
is(count("key = 'acme/d1/disk'"), '1', 'the refused one was not written');

# Large records: the largest that is allowed, several at a time so that the ring wraps, and one that is too large.
$s->set_conf('fleetlog.max_record_size' => '200kB');
$s->wait_for('SHOW fleetlog.max_record_size', '200kB');
my $big = join '', map { chr(32 + int rand 90) } 1 .. 190_000;
for my $i (1 .. 60) { is($device->publish_acked('acme/d1/big', "$i $big"), 0, "large record $i") if $i % 20 == 0 || $device->publish('acme/d1/big', "$i $big", qos => 0) < 0; }
$device->ping;
$s->wait_for("SELECT count(*) = 60 FROM telemetry WHERE key = 'acme/d1/big'");
is(count("key = 'acme/d1/big' AND right(fleetlog.text(payload), 100) = '" . (substr($big, -100) =~ s/'/''/gr) . "'"), '60', 'large records arrive whole');
is($device->publish_acked('acme/d1/big', $big x 2), 0x97, 'one that is too large is refused, and the connection stays');

# The appender ends with batches on their way: nobody is acknowledged for what is not stored, and sending again works.
my (%acked, $sent, $closed);
for my $round (1 .. 3)
{
    my %waiting;

    $s->stop_points('appender_after_write');
    for (1 .. 15) { $sent++; $waiting{ $device->publish('acme/d1/restart', "r$sent", qos => 1) } = "r$sent"; }
    $s->wait_stopped_at('appender_after_write');
    my $old = worker('appender');
    $s->sql("SELECT pg_terminate_backend($old)");
    $s->stop_points();
    $s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_worker WHERE kind = 'appender' AND pid <> $old");
    while (%waiting)
    {
        my $p = $device->read_packet(10);

        unless (ref $p && $p->{name} eq 'PUBACK') { $closed++; last; }
        my $text = delete $waiting{ $p->{pid} };
        $acked{$text} = 1 if $p->{reason} == 0;
    }
    $device->close;
    $device = $s->device('d1');
}
my %stored = map { $_ => 1 } split /\n/, $s->sql("SELECT fleetlog.text(payload) FROM telemetry WHERE key = 'acme/d1/restart'");
is(join(' ', grep { !$stored{$_} } sort keys %acked), '', 'the appender ended three times: nothing acknowledged is missing');
is($device->publish_acked('acme/d1/restart', 'again'), 0, 'and the next publish is served');

# Segments are there before they are needed.
$s->sql("SELECT fleetlog.create_stream('narrow', segment_bytes => 65536); SELECT fleetlog.mount('acme/d2/', 'narrow')");
my $d2 = $s->device('d2');
sub segments { return $s->sql("SELECT count(*) FROM pg_partition_tree('narrow') WHERE isleaf"); }
for my $round (1 .. 12)
{
    for (1 .. 500) { $d2->publish('acme/d2/x', 'x' x 60, qos => 0); }
    is($d2->publish_acked('acme/d2/x', "end of round $round"), 0, "round $round is taken") if $round % 4 == 0;
}
$d2->ping;
$s->wait_for('SELECT count(*) = 6003 FROM narrow');
$s->wait_for(<<'SQL', 't', 'a segment beyond the tail');
SELECT count(*) > 0 FROM pg_partition_tree('narrow') t JOIN pg_class c ON c.oid = t.relid
 WHERE t.isleaf AND substring(c.relname FROM '_(\d+)$')::bigint > (SELECT max(log_offset) FROM narrow)
SQL
pass('the keeper has made the next segment');
is($s->density_faults('narrow') . $s->density_faults('telemetry'), '', 'offsets dense over segments, time in order');
is($s->sql("SELECT sum(errors) FROM fleetlog.stat_worker WHERE kind IN ('keeper', 'flusher', 'confirmer')"), '0', 'without an error');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
