
# L7, L11: a SELECT locks the stream and the one segment that it is in, however many there are; segments that come after
# planning are read, and one that is dropped under an open cursor blocks nobody: the cursor ends with LF101 when it gets there.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('scanlocks', no_wait => 1, conf => "autovacuum = off\nfsync = off\n");
my $leaves = 50;

$s->sql("SELECT fleetlog.create_stream('m', segment_bytes => 1)");
$s->sql("SELECT count(fleetlog._create_segment('m', 0, n * 1024, (n + 1) * 1024)) FROM generate_series(1, $leaves - 1) n");
# The last one is less than half full, so that the keeper makes no more.
my $rows = ($leaves - 1) * 1024 + 100;
$s->sql("INSERT INTO m (shard, log_offset, ts, key) SELECT 0, n, '2026-01-01'::timestamptz + n / 64 * interval '1 s', 'k' FROM generate_series(0, $rows - 1) n");
is($s->sql("SELECT count(*) FROM fleetlog._segments('m')"), $leaves, "$leaves segments");

# Locks of a session on tables of the stream.
my $held = sub {
    my ($pid) = @_;
    return $s->sql("SELECT string_agg(relation::regclass::text, ' ' ORDER BY relation::regclass::text) FROM pg_locks WHERE pid = $pid AND locktype = 'relation' AND relation IN (SELECT relid FROM pg_partition_tree('m'))");
};
my $c = $s->session;
my $pid = $c->query('SELECT pg_backend_pid()');
$c->query('BEGIN');
is($c->query('SELECT count(*) FROM m'), $rows, 'a whole scan');
is($held->($pid), 'm', '... holds no segment when it is done');
$c->query('DECLARE c CURSOR FOR SELECT log_offset FROM m');
is($c->query('FETCH 1 FROM c'), 0, 'a cursor in the first segment');
is($held->($pid), 'm m_0_0', '... holds this one');
$c->query('MOVE 20000 FROM c');
is($held->($pid), 'm m_0_19456', 'and in the middle, that one');
$c->query('COMMIT');
$c->query('BEGIN; SET LOCAL fleetlog.enable_stream_scan = off');
$c->query('SELECT count(*) FROM m');
cmp_ok(scalar(split / /, $held->($pid)), '>', $leaves, 'the ordinary plan holds them all');
$c->query('COMMIT');

# Many more segments: planning takes no lock beyond the stream's, and looks into no more than a few.
$s->sql("SELECT fleetlog.create_stream('wide', shards => 8, segment_bytes => 1)");
$s->sql("SELECT count(fleetlog._create_segment('wide', s, n * 1024, (n + 1) * 1024)) FROM generate_series(0, 7) s, generate_series(1, 124) n");
$s->sql("SELECT count(fleetlog.append('wide', 'k' || n, 'x')) FROM generate_series(1, 100) n");
$c->query("BEGIN; PREPARE q AS SELECT count(*) FROM wide WHERE shard = 3 AND log_offset < 1000; EXPLAIN EXECUTE q");
is($s->sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype = 'relation' AND relation IN (SELECT relid FROM pg_partition_tree('wide'))"), 1, 'planning over 1,000 segments leaves one lock');
like($c->query("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT count(*) FROM wide WHERE log_offset < 1000"), qr/Leaves: read=8 pruned=992/, '1,000 segments, 8 of them read');
$c->query('COMMIT');

# A plan is made once; the segments that it reads are those there are when it runs.
$s->sql("SELECT fleetlog.create_stream('grows', segment_bytes => 1)");
$c->query('SET plan_cache_mode = force_generic_plan; PREPARE g AS SELECT count(*) FROM grows');
$c->query('CREATE FUNCTION cached() RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN SELECT count(*) INTO n FROM grows; RETURN n; END $$');
is($c->query('EXECUTE g'), 0, 'an empty stream');
is($c->query('SELECT cached()'), 0, '... in a function');
for my $round (1 .. 3)
{
    $c->query('BEGIN') if $round == 3;
    is($c->query('EXECUTE g'), ($round - 1) * 1500, 'before the append') if $round == 3;
    $s->sql("SELECT count(fleetlog.append('grows', 'k', 'x')) FROM generate_series(1, 1500)");
    is($c->query('EXECUTE g'), $round * 1500, "round $round: a cached plan reads new segments" . ($round == 3 ? ', in one transaction' : ''));
    is($c->query('SELECT cached()'), $round * 1500, '... and in a function');
}
is($c->query("SELECT sum(calls) FROM (SELECT generic_plans AS calls FROM pg_prepared_statements WHERE name = 'g') x"), 5, 'all by one generic plan');
$c->query('COMMIT');

# What retention does, by hand, while cursors are open: one is past the segment, one before it.
my $b = $s->session;
$c->query('BEGIN; DECLARE c CURSOR FOR SELECT log_offset FROM m');
$c->query('MOVE 5000 FROM c');
$b->query('BEGIN; DECLARE d CURSOR FOR SELECT log_offset FROM m WHERE shard = 0 ORDER BY log_offset DESC');
is($b->query('FETCH 1 FROM d'), $rows - 1, 'a cursor that reads backwards');
is($s->sql("SELECT fleetlog.trim_head('m', 0, 2048, NULL)"), 2048, 'the head moves up');
is($s->sql('SELECT count(*) FROM m'), $rows - 2048, 'new queries begin there at once');
$s->wait_for("SELECT count(*) FROM pg_class WHERE relname IN ('m_0_0', 'm_0_1024')", '0', 'the segments to be dropped under open cursors');
pass('segments went under two open cursors');
is($c->query('FETCH 1 FROM c'), 5000, 'the cursor beyond them goes on');
is($c->query('MOVE ALL FROM c') . $c->error, '', '... to the end');
my $seen = $b->query('MOVE ALL FROM d');
like($b->error, qr/offsets 1024 to 2047 of shard 0 of stream "m" were removed/, 'the one that needs them is told so, instead of a short result');
$_->query('ROLLBACK') for $b, $c;
is($b->query('SELECT count(*) FROM m'), $rows - 2048, 'and that session goes on');

# One that retention has emptied, since somebody held the shard's table, is gone as well.
my $plain = $s->session;
$plain->query("BEGIN; SET LOCAL fleetlog.enable_stream_scan = off; SELECT count(*) FROM m WHERE shard = 0 AND log_offset >= $rows - 10");
$b->query('BEGIN; DECLARE d CURSOR FOR SELECT log_offset FROM m WHERE shard = 0 ORDER BY log_offset DESC');
is($b->query('FETCH 1 FROM d'), $rows - 1, 'a cursor that reads backwards');
my $file = $s->node->data_dir . '/' . $s->sql("SELECT pg_relation_filepath('m_0_2048')");
is($s->sql("SELECT fleetlog.trim_head('m', 0, 3072, NULL)"), 3072, 'the head moves up');
FleetlogTest::wait_until(sub { !-s $file }, 'the segment to be emptied');
is($s->sql("SELECT count(*) FROM pg_class WHERE relname = 'm_0_2048'"), 1, '... and not dropped');
$b->query('MOVE ALL FROM d');
like($b->error, qr/offsets 2048 to 3071 of shard 0 of stream "m" were removed/, 'the cursor that needs it is told so');
$_->query('ROLLBACK') for $plain, $b;

# Who has read nothing of a shard yet begins at the head of now, as if he had come a moment later: no error, and no hole.
$s->sql("SELECT fleetlog.create_stream('two', shards => 2, segment_bytes => 1)");
my $fill = sub {
    my $from = $s->sql("SELECT fleetlog.tail('two', 1)");
    $s->sql("SELECT count(fleetlog.append('two', 'k', 'x', shard => n % 2)) FROM generate_series(1, 10000) n");
    return $from;
};
my $trim = sub {
    my ($before, $which) = @_;
    $s->sql("SELECT fleetlog.trim_head('two', 1, $before, NULL)");
    $s->wait_for("SELECT count(*) FROM fleetlog._segments('two') WHERE shard = 1 AND upper <= $before", '0', "the segments to be dropped under $which");
};
$fill->();
$b->query('BEGIN; DECLARE d CURSOR FOR SELECT shard, log_offset FROM two WHERE created IS NULL');
is($b->query('FETCH 1 FROM d'), '0|0', 'a cursor in the first of two shards');
$trim->(3000, 'a cursor');
$b->query('MOVE 4999 FROM d');
is($b->query('FETCH 1 FROM d') . $b->error, '1|3000', '... goes on in the other one at its head');
my $rest = () = $b->query('FETCH ALL FROM d') =~ /^1\|/mg;
is($rest . $b->error, 1999, '... and has all that is left');
$b->query('COMMIT');

# The same with several processes, none of which can have got to the second shard before the file is there.
my $go = PostgreSQL::Test::Utils::tempdir() . '/go';
chmod 0755, $go =~ s{/go$}{}r;
$s->sql(<<"SQL");
CREATE FUNCTION wait_for_file() RETURNS bool PARALLEL SAFE LANGUAGE plpgsql AS \$\$
BEGIN
	WHILE pg_stat_file('$go', true) IS NULL LOOP PERFORM pg_sleep(0.02); END LOOP;
	RETURN true;
END \$\$;
SQL
my $tail = $fill->() + 5000;
$b->query('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0');
my $count = 'SELECT count(*), min(log_offset) FILTER (WHERE shard = 1) FROM two WHERE wait_for_file() AND payload IS NOT NULL';
like($b->query("EXPLAIN $count"), qr/Parallel Custom Scan \(FleetlogScan\)/, 'a parallel plan');
my $run = $s->start_sql("SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; $count");
$s->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%wait_for_file%' AND wait_event = 'PgSleep' AND pid <> pg_backend_pid()", 't', 'the scan to stand in the first shard');
$trim->(7000, 'a parallel scan');
PostgreSQL::Test::Utils::append_to_file($go, 'go');
my ($status, $out) = $s->finish_sql($run);
is($status, 0, 'a parallel scan whose second shard lost segments before anybody came there ends well');
like($out, qr/^@{[ 10000 + $tail - 7000 ]}\|7000$/m, '... and has all that is left');

$_->quit for $plain, $b, $c;
done_testing();
