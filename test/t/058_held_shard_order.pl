# O4, L3: more waits for a held shard than fits one turn of the appender.  Other shards go on all the while, and when the
# shard is free every device's records come in the order in which it sent them.  Sessions that queue for the shard do not keep it from devices.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FleetlogTest;

my $devices = 12;
my $each = 4;
my $s = FleetlogTest->new('order', conf => <<'CONF');
fleetlog.workers = 4
fleetlog.shard_hold_timeout = 0
fleetlog.ingest_memory = '512MB'
fleetlog.ingest_ring = '16MB'
CONF
$s->sql(<<SQL);
SELECT fleetlog.create_stream('held', compression => 'none'), fleetlog.create_stream('telemetry');
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.mount('acme/', 'held'), fleetlog.mount('acme/other/', 'telemetry');
SELECT fleetlog.create_device('d' || n, 'acme', password => 'pw-d' || n) FROM generate_series(1, $devices) n;
SELECT fleetlog.create_device('other', 'acme', password => 'pw-other');
SQL
my @devices = map { $s->device("d$_") } 1 .. $devices;
my $other = $s->device('other');
my $session = $s->session;
$session->query("BEGIN; SELECT fleetlog.append('held', 'k', 'holds the shard')");

for my $n (1 .. $each)
{
    for my $d (1 .. $devices)
    {
        $devices[ $d - 1 ]->publish("acme/d$d/t", sprintf('%03d', $n) . 'x' x 900_000, qos => 1);
    }
}
$s->wait_for("SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE kind = 'appender' AND state ~ 'running: (\\d\\d) batches wait'", 't', 'ten batches or more to be left aside');
# The shard is held until we say so, so whoever is acknowledged has not waited for it.
my $begin = time;
is($other->publish_acked('acme/other/t', "during $_"), 0, "another shard takes message $_") for 1 .. 20;
note(sprintf '%.2f s for them', time - $begin);
my $waiting = $s->sql("SELECT substring(state FROM '\\d+') FROM fleetlog.stat_worker WHERE kind = 'appender'");
cmp_ok($waiting, '>=', 10, 'while ten or more batches waited');
$session->query('COMMIT');
is($session->error, '', 'the shard is free again');
for my $d (1 .. $devices)
{
    my $acks = 0;
    while ($acks < $each)
    {
        my $ack = $devices[ $d - 1 ]->expect('PUBACK') or last;
        $acks++;
    }
    is($acks, $each, "device $d has all its acknowledgements");
}
is($s->sql(<<'SQL'), '', 'every device\'s records are in the order of sending');
SELECT device, order_seen FROM (SELECT device, string_agg(substr(fleetlog.text(payload), 1, 3), ' ' ORDER BY log_offset) AS order_seen,
       string_agg(substr(fleetlog.text(payload), 1, 3), ' ' ORDER BY substr(fleetlog.text(payload), 1, 3)) AS order_sent FROM held WHERE device IS NOT NULL GROUP BY device) o
 WHERE order_seen <> order_sent
SQL
# Sessions that queue for a shard hand its lock from one to the next, so that it is never free: a device's record must come
# before those that queue, once the appender has waited some time for it.  The yield is bounded, so on a machine that stands
# still for long it may be in vain: again until it was not.
my $first = $s->session;
my $between = '';
for my $round (1 .. 50)
{
    $first->query("BEGIN; SELECT fleetlog.append('held', 'k', 'first')");
    $devices[0]->publish('acme/d1/t', "device $round", qos => 1);
    my $tries = $s->sql("SELECT lock_waits FROM fleetlog.stat_stream WHERE stream = 'held'::regclass");
    $s->wait_for("SELECT lock_waits > $tries + 2 FROM fleetlog.stat_stream WHERE stream = 'held'::regclass", 't', 'the appender to have tried some times');
    my $queued = $s->start_sql("SELECT fleetlog.append('held', 'k', 'second')");
    $s->wait_for("SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND classid = 'pg_class'::regclass AND objid = 'held'::regclass AND NOT granted", '1', 'a session to queue');
    $first->query('COMMIT');
    is(($s->finish_sql($queued))[0], 0, "round $round: who queued has written");
    $devices[0]->expect('PUBACK', 60) or die 'no PUBACK';
    $between = $s->sql("SELECT string_agg(fleetlog.text(payload), ', ' ORDER BY log_offset) FROM (SELECT log_offset, payload FROM held ORDER BY log_offset DESC LIMIT 3) x");
    last if $between eq "first, device $round, second";
}
like($between, qr/^first, device \d+, second$/, 'the device went before a session that was in the queue');
$first->quit;

is($s->density_faults('held'), '', 'dense');
is($s->crashes, '', 'no crash');
$session->quit;
done_testing();
