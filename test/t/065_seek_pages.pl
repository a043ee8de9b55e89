# L6: a seek by offset or by time touches at most log2(pages of one segment) + 3 pages, however long the history: with
# 100,000 records in one segment; with FLEETLOG_LONG set also with a million and ten million, in many segments.
use strict;
use warnings;
use Test::More;
use POSIX qw(ceil);
use FleetlogTest;

my $s = FleetlogTest->new('seek', no_wait => 1, conf => "shared_buffers = 128MB\nmax_wal_size = 4GB\nautovacuum = off\n");
my $session = $s->session;
$session->query(<<'SQL');
CREATE FUNCTION pg_temp.pages_touched(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    plan json;
    best int;
BEGIN
    -- Three times, of which the best counts: the keeper makes segments meanwhile, and a session that is told of one reads catalogs anew.
    FOR i IN 1 .. 3 LOOP
        EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, FORMAT json) ' || query INTO plan;
        best := least(best, (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int);
    END LOOP;
    RETURN best;
END $$
SQL

for my $records (100_000, $ENV{FLEETLOG_LONG} ? (1_000_000, 10_000_000) : ())
{
    my $stream = "s$records";
    # Small segments, so that a long history has many of them.
    $s->sql("SELECT fleetlog.create_stream('$stream', compression => 'none', segment_bytes => 1 << 28)");
    # Fifty records have one append time and make a batch; their payloads differ.
    my $rows = "COPY (SELECT 0, i, '2020-01-01'::timestamptz + (i / 50) * interval '1 ms', 'k', convert_to(lpad(i::text, 200, 'v'), 'UTF8') FROM generate_series(0, $records - 1) i) TO STDOUT";
    my $copy = "COPY $stream (shard, log_offset, ts, key, payload) FROM STDIN";
    my $psql = "psql -X -q -v ON_ERROR_STOP=1 -d '" . $s->node->connstr('fleetlog') . "'";
    is(system("$psql -c \"$rows\" | $psql -c \"$copy\""), 0, "$records records are loaded");
    is($s->sql("SELECT fleetlog.tail('$stream', 0)"), $records, 'all of them');
    my ($leaves, $pages) = split(/\|/, $s->sql("SELECT count(*), max(pg_relation_size(relid)) / 8192 FROM pg_partition_tree('$stream') WHERE isleaf AND pg_relation_size(relid) > 0"));
    note("$leaves segments, the largest of $pages pages");
    my $bound = ceil(log($pages) / log(2)) + 3;
    # The session's caches first.
    $session->query("SELECT count(*) FROM fleetlog.read('$stream', 0, 17, 1)");
    $session->query("SELECT fleetlog.offset_for_time('$stream', 0, '2020-01-02')");
    my $step = int($records / 37);
    my $by_offset = "SELECT max(pg_temp.pages_touched(format('SELECT * FROM fleetlog.read(''$stream'', 0, %s, 1)', o))) FROM generate_series(0, $records - 1, $step) o";
    my $by_time = "SELECT max(pg_temp.pages_touched(format('SELECT fleetlog.offset_for_time(''$stream'', 0, %L)', '2020-01-01'::timestamptz + o * interval '1 ms'))) FROM generate_series(0, $records / 50 - 1, $step / 50) o";
    cmp_ok($session->query($by_offset), '<=', $bound, "by offset: at most $bound pages of $pages");
    cmp_ok($session->query($by_time), '<=', $bound, "by time: at most $bound pages of $pages");
    is($s->sql("SELECT count(*) FROM generate_series(0, $records / 50 - 1, $step / 50) o WHERE fleetlog.offset_for_time('$stream', 0, '2020-01-01'::timestamptz + o * interval '1 ms') <> o * 50"), 0, 'and the answer is exact');
    is($s->sql("SELECT fleetlog.offset_for_time('$stream', 0, '2100-01-01') IS NULL"), 't', 'nothing is as new as 2100');
}
$session->quit;
$s->node->stop;
done_testing();
