# L1, L3: pg_dump | psql into a new cluster and pg_basebackup give the same rows, offsets, heads and tails, also of a
# stream whose rows are all gone and of one that never had any; appends and devices go on after.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $s = FleetlogTest->new('source');
$s->fleet(shards => 2, devices => 2);
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('empty', shards => 3);
SELECT fleetlog.create_stream('zs', compression => 'zstd');
SELECT count(fleetlog.append('telemetry', 'k' || n, CASE WHEN n % 7 > 0 THEN convert_to('p' || n, 'UTF8') END, '[["a","1"],["a",null],["b",{"base64":"/w=="}]]',
    created => '2026-01-01'::timestamptz + n * interval '1 s')) FROM generate_series(1, 500) n;
SELECT fleetlog.append('zs', 'big', decode(string_agg(md5(n::text), ''), 'hex')) FROM generate_series(1, 5000) n;
SQL
my $device = $s->device('d1');
is($device->publish_acked('acme/d1/t', "n$_", properties => [ [ 38, 'name', 'value' ], [ 3, 'text/plain' ] ]), 0, "published n$_") for 1 .. 5;

my $all = "SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, payload";
my $sum = "SELECT st, n, h FROM (" . join(' UNION ALL ', map {
    "SELECT '$_' AS st, count(*) AS n, md5(string_agg(t::text, '|' ORDER BY shard, log_offset)) AS h FROM ($all FROM $_) t"
} qw(telemetry zs empty)) . ") u ORDER BY 1";
my $tails = "SELECT st, s, fleetlog.head(st::regclass, s), fleetlog.tail(st::regclass, s) FROM (VALUES ('telemetry', 0), ('telemetry', 1), ('zs', 0), ('empty', 0), ('empty', 1), ('empty', 2)) v(st, s) ORDER BY 1, 2";
my ($rows, $ends) = ($s->sql($sum), $s->sql($tails));

sub restore_into
{
    my ($name, @options) = @_;
    my $t = FleetlogTest->new($name, no_extension => 1);
    my ($err, $err2) = ('', '');
    IPC::Run::run([ 'pg_dump', @options, '-d', $s->node->connstr('fleetlog') ], '2>', \$err, '|',
        [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $t->node->connstr('fleetlog') ], '>', '/dev/null', '2>', \$err2);
    is($err, '', "$name: pg_dump says nothing");
    is($err2, '', "$name: psql says nothing");
    return $t;
}

my $t = restore_into('restored');
is($t->sql($sum), $rows, 'the restored rows are equal');
is($t->sql($tails), $ends, 'heads and tails are equal');
$t->wait_for_mqtt;
is($t->device('d1')->publish_acked('acme/d1/t', 'after the restore'), 0, 'a device logs in and is served by the restored cluster');
is($t->sql("SELECT count(*) FROM telemetry WHERE fleetlog.text(payload) = 'after the restore' AND device = 'd1'"), '1', 'its reading is there');
is($t->sql("SELECT (fleetlog.append('empty', 'k', 'x')).log_offset"), '0', 'append goes on in an empty stream');
is($t->density_faults, '', 'offsets dense, time in order after the restore');

# A stream whose rows are all gone keeps its tail: head and tail are rows that a dump carries.  Until retention drops
# rows, this is what it would leave behind: both at the same offset, and no segment with rows in the dump.
$s->sql("SELECT fleetlog.create_stream('gone'); SELECT count(fleetlog.append('gone', 'k', 'x')) FROM generate_series(1, 100);
    UPDATE fleetlog.shard_config SET head = 100, tail = 100 WHERE stream = 'gone'::regclass");
my $t2 = restore_into('restored2', '--exclude-table-data=gone_*');
is($t2->sql('SELECT count(*) FROM gone'), '0', 'no row was restored');
is($t2->sql("SELECT fleetlog.head('gone', 0), fleetlog.tail('gone', 0)"), '100|100', 'head and tail survive dump and restore without rows');
$t2->kill9_and_start;
is($t2->sql("SELECT fleetlog.head('gone', 0), fleetlog.tail('gone', 0)"), '100|100', 'and a crash');
is($t2->sql("SELECT (fleetlog.append('gone', 'k', 'x')).log_offset"), '100', 'offsets go on from there');
is($t2->sql("SELECT count(*), min(log_offset) FROM gone"), '1|100', 'and are read back');
like($t2->sql_error("SELECT * FROM fleetlog.read('gone', 0, 5)"), qr/LF101/, 'what is gone is too old');
$t2->node->stop;
$s->sql("SELECT fleetlog.drop_stream('gone')");
$t->node->stop;

# pg_dumpall's way: plain table data alone, one leaf, in parallel and custom format.
my $err = '';
my $file = $s->node->backup_dir . '/dump.custom';
mkdir $s->node->backup_dir unless -d $s->node->backup_dir;
IPC::Run::run([ 'pg_dump', '-Fd', '-j2', '-f', "$file.d", '-d', $s->node->connstr('fleetlog') ], '2>', \$err) or diag($err);
my $p = FleetlogTest->new('parallel', no_extension => 1);
my $ok = IPC::Run::run([ 'pg_restore', '-j2', '--exit-on-error', '-d', $p->node->connstr('fleetlog'), "$file.d" ], '2>', \$err);
ok($ok, 'parallel pg_restore succeeds') or diag($err);
is($p->sql($sum), $rows, 'parallel restore gives the same rows');
$p->node->stop;

# A head that rises while a dump is taken: heads and segments in the dump are those of its snapshot.
$s->sql("SELECT fleetlog.create_stream('dumped', segment_bytes => 65536); SELECT count(fleetlog.append('dumped', 'k' || n, 'x')) FROM generate_series(1, 2000) n");
my $dump = $s->session;
$dump->query('BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE dumped IN ACCESS SHARE MODE');
my $snapshot = $dump->query('SELECT pg_export_snapshot()');
is($s->sql("SELECT fleetlog.trim_head('dumped', 0, 1500, NULL)"), '1500', 'a head rises while a dump is taken');
is($s->sql('SELECT min(log_offset) FROM dumped_0_1024'), '1500', '... and hides rows from who comes later');
my $t3 = restore_into('restored3', "--snapshot=$snapshot");
$dump->query('COMMIT');
$dump->quit;
is($t3->sql("SELECT fleetlog.head('dumped', 0), min(log_offset), count(*) FROM fleetlog.read('dumped', 0, fleetlog.head('dumped', 0), 5000)"), '0|0|2000', 'who reads what was restored from its head on finds all');
is($t3->sql("SELECT count(*) FROM fleetlog.verify('dumped') WHERE NOT ok"), '0', 'nothing is missing');

# pg_basebackup while a device publishes.
my $writer = $s->start_sql("DO \$\$ BEGIN FOR i IN 1 .. 2000 LOOP PERFORM fleetlog.append('telemetry', 'b', 'during the backup'); COMMIT; END LOOP; END \$\$");
$s->node->backup('base');
$s->finish_sql($writer);
my $backup = PostgreSQL::Test::Cluster->new('from_backup');
$backup->init_from_backup($s->node, 'base');
my $b = bless { node => $backup, mqtt => PostgreSQL::Test::Cluster::get_free_port() }, 'FleetlogTest';
$backup->append_conf('postgresql.conf', "fleetlog.mqtt_listen = '127.0.0.1:$b->{mqtt}'\n");
$backup->start;
$b->wait_for_mqtt;
is($b->sql("SELECT count(*) FROM telemetry WHERE key <> 'b' OR key IS NULL"), $s->sql("SELECT count(*) FROM telemetry WHERE key <> 'b' OR key IS NULL"),
    'the base backup has every row from before it');
is($b->density_faults, '', 'offsets dense, time in order in the base backup');
is($b->sql("SELECT st, n, h FROM ($sum) q WHERE st = 'zs'"), $s->sql("SELECT st, n, h FROM ($sum) q WHERE st = 'zs'"), 'bytes are equal');
is($b->device('d2')->publish_acked('acme/d2/t', 'x'), 0, 'a device is served from the base backup');
is($b->crashes . $s->crashes . $t->crashes, '', 'no crash');
$backup->stop;
$s->node->stop;
done_testing();
