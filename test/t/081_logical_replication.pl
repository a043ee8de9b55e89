# L13, L4: built-in logical replication of a stream into a plain heap table with publish_via_partition_root, initial
# copy and streaming, and into a stream of the same name (logical apply brings explicit next offsets).
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('publisher');
$s->fleet(shards => 2, devices => 1);
$s->sql("SELECT count(fleetlog.append('telemetry', 'k' || n, convert_to('copied ' || n, 'UTF8'))) FROM generate_series(1, 200) n");
$s->sql('CREATE PUBLICATION streams FOR TABLE telemetry WITH (publish_via_partition_root = true)');

my $heap = PostgreSQL::Test::Cluster->new('heap');
$heap->init(extra => [ '-E', 'UTF8', '--locale=C.UTF-8' ]);
$heap->append_conf('postgresql.conf', "max_worker_processes = 20\n");
$heap->start;
# The subscriber needs no extension: headers travel as text.
$heap->safe_psql('postgres', 'CREATE TABLE telemetry (shard int, log_offset bigint, ts timestamptz, created timestamptz, tenant text, device text, key text, key_bytes bytea, headers text, payload bytea, PRIMARY KEY (shard, log_offset))');
my $connstr = $s->node->connstr . ' dbname=fleetlog';
$heap->safe_psql('postgres', "CREATE SUBSCRIPTION follow CONNECTION '$connstr' PUBLICATION streams");
# Rows are there before the worker that copied them has handed over to the one that follows.
my $synced = "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel";
$heap->poll_query_until('postgres', $synced) or die 'initial copy';
is($heap->safe_psql('postgres', 'SELECT count(*) FROM telemetry'), '200', 'the rows are there');
pass('initial copy');

my $device = $s->device('d1');
is($device->publish_acked('acme/d1/t', "streamed $_"), 0, "published $_") for 1 .. 5;
$s->sql("BEGIN; SELECT fleetlog.append('telemetry', 'k', 'kept'); SAVEPOINT a; SELECT fleetlog.append('telemetry', 'k', 'gone'); ROLLBACK TO a; COMMIT");
$s->node->wait_for_catchup('follow');
my $rows = 'SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers::text, payload FROM telemetry ORDER BY shard, log_offset';
is($heap->safe_psql('postgres', $rows), $s->sql($rows), 'the plain table equals the stream');

# Into a stream: offsets and times are the publisher's.
my $t = FleetlogTest->new('subscriber');
$t->sql("SELECT fleetlog.create_stream('telemetry', shards => 2)");
$t->sql("CREATE SUBSCRIPTION follow_stream CONNECTION '$connstr' PUBLICATION streams");
$t->wait_for($synced, 't', 'the initial copy into a stream');
is($t->sql('SELECT count(*) FROM telemetry'), '206', 'the rows are there');
is($device->publish_acked('acme/d1/t', "streamed again $_"), 0, "published again $_") for 1 .. 5;
$s->node->wait_for_catchup('follow_stream');
is($t->sql($rows), $s->sql($rows), 'the subscribed stream equals the stream');
is($t->density_faults, '', 'dense there too');
is($t->sql("SELECT fleetlog.tail('telemetry', 0) + fleetlog.tail('telemetry', 1)"), '211', 'its tails follow');
$t->sql('DROP SUBSCRIPTION follow_stream');
$heap->safe_psql('postgres', 'DROP SUBSCRIPTION follow');
is($s->crashes . $t->crashes, '', 'no crash');
$heap->stop;
$t->node->stop;
$s->node->stop;
done_testing();
