# L1, L12: a standby replays with wal_consistency_checking = all and answers SELECTs equal to the primary's; after
# promotion its listeners start and offsets go on.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Load;

my $s = FleetlogTest->new('primary', conf => "wal_consistency_checking = 'all'\n");
$s->fleet(shards => 2, devices => 3);
$s->sql("SELECT fleetlog.create_stream('other_codec', compression => 'zstd'), fleetlog.create_stream('plain', compression => 'none')");
my $standby = $s->new_standby('standby1');
$standby->node->start;

my $load = FleetlogTest::Load->new($s, devices => 3, run => 's', pad => 200);
$load->connect_all;
$load->pump($FleetlogTest::TIMEOUT, sub { $load->acked > 500 });
is($load->drain, 0, 'all acknowledged');
$load->cut_off;

# Everything else that writes WAL of ours: SQL appends small and large, aborts, savepoints, explicit offsets, VACUUM.
$s->sql(<<'SQL');
SELECT count(fleetlog.append(st::regclass, 'k' || n, convert_to(repeat(n::text, n), 'UTF8'))) FROM generate_series(1, 300) n, unnest(ARRAY['telemetry', 'other_codec', 'plain']) st;
SELECT fleetlog.append('plain', 'big', decode(string_agg(md5(n::text), ''), 'hex')) FROM generate_series(1, 20000) n;
BEGIN; SELECT count(fleetlog.append('plain', 'gone', 'x')) FROM generate_series(1, 50); ROLLBACK;
BEGIN; SELECT fleetlog.append('plain', 'kept', 'x'); SAVEPOINT a; SELECT count(fleetlog.append('plain', 'gone', 'y')) FROM generate_series(1, 50); ROLLBACK TO a;
SELECT fleetlog.append('plain', 'kept', 'z'); COMMIT;
VACUUM (FREEZE) plain;
SELECT fleetlog.append('plain', 'after', 'vacuum');
SQL

my $sum = join ' UNION ALL ', map {
    "SELECT '$_', shard, count(*), min(log_offset), max(log_offset), md5(string_agg(t::text, '|' ORDER BY log_offset)) FROM $_ t GROUP BY shard"
} qw(telemetry other_codec plain);
$sum = "SELECT * FROM ($sum) u ORDER BY 1, 2";
$s->catch_up($standby);
my $expected = $s->sql($sum);
isnt($expected, '', 'there is something to compare');
is($standby->sql_on_standby($sum), $expected, 'the standby answers as the primary does');
is($standby->sql("SELECT fleetlog.tail('plain', 0)"), $s->sql("SELECT fleetlog.tail('plain', 0)"), 'tail() on the standby');
is($standby->sql("SELECT count(*) FROM fleetlog.read('plain', 0, 100, 50)"), '50', 'read() on the standby');
like($standby->sql_error("SELECT fleetlog.append('plain', 'k', 'x')"), qr/25006/, 'append() on the standby is refused as any write is');
ok(!$standby->accepts, 'a standby has no listener');

# A restart of the standby replays from its restart point again.
# In two steps, since restart() of server 15's own test library takes no mode.
$standby->node->stop('immediate');
$standby->node->start;
$s->sql("SELECT fleetlog.append('plain', 'more', 'x')");
$s->catch_up($standby);
is($standby->sql_on_standby($sum), $s->sql($sum), 'equal again after an immediate restart of the standby');

# A page torn or zeroed before replay is rebuilt from WAL: full page writes off makes redo do the work.
$s->set_conf(full_page_writes => 'off');
$s->sql("CHECKPOINT; SELECT count(fleetlog.append('plain', 'fpw', convert_to(n::text, 'UTF8'))) FROM generate_series(1, 500) n");
$s->catch_up($standby);
is($standby->sql_on_standby($sum), $s->sql($sum), 'equal without full page images');
$s->set_conf();

$s->node->stop;
$standby->node->promote;
$standby->wait_for_mqtt;
pass('listeners start after promotion');
my $tail = $standby->sql("SELECT fleetlog.tail('plain', 0)");
is($standby->sql("SELECT (fleetlog.append('plain', 'k', 'new primary')).log_offset"), $tail, 'offsets go on where the old primary stopped');
is($standby->device('d1')->publish_acked('acme/d1/t', 'after promotion'), 0, 'a device is served by the new primary');
is($standby->density_faults('plain') . $standby->density_faults('telemetry'), '', 'offsets dense, time in order');
is($standby->crashes, '', 'no crash, no inconsistent page');
unlike(PostgreSQL::Test::Utils::slurp_file($standby->node->logfile), qr/inconsistent page/, 'consistency checking found nothing');
$standby->node->stop;
done_testing();
