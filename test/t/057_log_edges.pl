# L3, L12: what goes wrong only at a bad moment: freezing beside a large append, a cancel between two segments, streams
# dropped while others write to them, sessions ended in the middle.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

# Since 16 the server extends a file by as many blocks as its buffers let one session pin.
my $s = FleetlogTest->new('edges', no_wait => 1, conf => "shared_buffers = 128MB\nautovacuum = off\nmax_prepared_transactions = 5\n");

# The pages of a large batch are written from behind.  Freezing must not pass them while its first page is missing:
# what is frozen counts as committed, and this append is rolled back.
$s->sql("SELECT fleetlog.create_stream('big', compression => 'none', segment_bytes => 1 << 30)");
$s->sql("SELECT count(fleetlog.append('big', 'k', convert_to(repeat('s', 900), 'UTF8'))) FROM generate_series(1, 50)");
my $rows = $s->sql('SELECT count(*), max(log_offset) FROM big');
my $a = $s->session;
$a->query("SET fleetlog.shard_hold_timeout = 0");
$s->stop_points('append_between_parts');
my $waits = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = 'Extension' AND query LIKE '%append%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
$a->send("BEGIN;\nSELECT (fleetlog.append('big', 'k', convert_to(repeat('b', 900000), 'UTF8'))).log_offset", 'appended');
$s->wait_for($waits, '1', 'the large append to stop half way');
is($s->sql("SELECT count(*) FROM fleetlog.read('big', 0, 48, 10)"), 2, 'the records before it are found by offset');
is($s->sql("SELECT fleetlog.offset_for_time('big', 0, ts) FROM big WHERE log_offset = 0"), 0, 'and by time');
$s->sql('VACUUM (FREEZE) big');
$s->stop_points();
is($a->take('appended'), 50, 'a large append stopped half way while VACUUM passed');
is($s->sql('SELECT count(*), max(log_offset) FROM big'), $rows, 'nobody sees it before its commit');
$a->query('ROLLBACK');
is($s->sql('SELECT count(*), max(log_offset) FROM big'), $rows, 'nor after its rollback');
is($s->sql("SELECT (fleetlog.append('big', 'k', 'next')).log_offset"), 50, 'its offset is given out again');
$s->sql('VACUUM (FREEZE) big');
is($s->sql('SELECT count(*), max(log_offset) FROM big'), '51|50', 'and freezing goes on behind it');
is($s->density_faults('big'), '', 'dense');
$a->quit;

# The file is made longer ahead of need; what is not written is no record, costs a seek nothing, and is used by the next append.
$s->sql("SELECT fleetlog.create_stream('ahead', compression => 'none', segment_bytes => 1 << 30)");
my $ahead = 0;
for (1 .. 200)
{
    $s->sql("SELECT count(fleetlog.append('ahead', 'k', convert_to(repeat('s', 3000), 'UTF8'))) FROM generate_series(1, 401)");
    my ($last, $size) = split(/\|/, $s->sql("SELECT (max(ctid)::text::point)[0], pg_relation_size('ahead_0_0') / 8192 FROM ahead"));
    $ahead = $size - $last - 1;
    last if $ahead > 8;
}
cmp_ok($ahead, '>', 8, 'a file that grows fast is longer than what is written');
cmp_ok($ahead, '<', 64, 'by less than 512 KiB');
my $sums = 'SELECT count(*), max(log_offset), max(ctid), sum(length(payload)) FROM ahead';
$rows = $s->sql($sums);
my ($guess) = $s->sql('EXPLAIN SELECT * FROM ONLY ahead_0_0') =~ /rows=(\d+)/;
cmp_ok(abs($guess - $rows =~ s/\|.*//sr), '<', $guess / 10, 'the planner does not count them');
$s->sql('VACUUM (FREEZE, ANALYZE) ahead');
is($s->sql($sums), $rows, 'VACUUM changes nothing');
$s->kill9_and_start(no_wait => 1);
is($s->sql($sums), $rows, 'nor does a crash');
my ($n, $tid) = (split(/\|/, $rows))[0, 2];
is($s->sql("SELECT (fleetlog.append('ahead', 'k', convert_to(repeat('s', 9000), 'UTF8'))).log_offset"), $n, 'the next append goes on');
is($s->sql("SELECT (max(ctid)::text::point)[0] - ('$tid'::text::point)[0] FROM ahead"), 1, 'right behind the last written page');
is($s->density_faults('ahead'), '', 'dense');

# A cancel while the writer waits for the next segment.
$s->sql("SELECT fleetlog.create_stream('tiny', segment_bytes => 1)");
my $upper = $s->sql("SELECT (regexp_match(pg_get_expr(relpartbound, oid), 'TO \\(''?(\\d+)'))[1] FROM pg_class WHERE relname = 'tiny_0_0'");
$s->sql("SELECT count(fleetlog.append('tiny', 'k', 'x')) FROM generate_series(1, $upper)");
my $next = "tiny_0_$upper";
$s->wait_for("SELECT count(*) FROM pg_class WHERE relname = '$next'", '1', 'the keeper to make the next segment');
my $tail = $s->sql("SELECT fleetlog.tail('tiny', 0)");
is($tail, $upper, 'a segment is full, the next one is there');
my $b = $s->session;
$b->query("BEGIN; LOCK TABLE $next IN ACCESS EXCLUSIVE MODE");
my $c = $s->session;
$c->query("SET statement_timeout = '300ms'");
is($c->query("SELECT (fleetlog.append('tiny', 'k', 'y')).log_offset"), '', 'an append that waits for a locked segment is cancelled');
like($c->error, qr/statement timeout/, 'by the timeout');
$b->query('ROLLBACK');
$c->query('RESET statement_timeout');
is($c->query("SELECT (fleetlog.append('tiny', 'k', 'y')).log_offset"), $tail, 'and the next one finds its segment');
is($s->density_faults('tiny'), '', 'dense');
$_->quit for $b, $c;

# Somebody waits for the shard of a stream that its holder drops.
$s->sql("SELECT fleetlog.create_stream('going')");
$a = $s->session;
$b = $s->session;
$a->query("BEGIN; SELECT fleetlog.append('going', 'k', 'x')");
$b->send("SELECT (fleetlog.append('going', 'k', 'y')).log_offset", 'waited');
$s->wait_for("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'object'", '1', 'the second session to wait');
$a->query("SELECT fleetlog.drop_stream('going'); COMMIT");
$s->sql("SELECT fleetlog.create_stream('other')");
$s->sql("SELECT fleetlog.append('other', 'k', '0')");
is($b->take('waited'), '', 'a waiter for a dropped stream gets nothing');
like($b->error, qr/dropped|not a stream|does not exist/, 'but an error that says so');
is($s->sql("SELECT count(*) FROM other"), 1, 'and another stream nothing of it');
is($s->sql("SELECT (fleetlog.append('other', 'k', '1')).log_offset"), 1, 'which goes on');

# TRUNCATE is let through where there is nothing (a restore does it); it may wait for somebody who then writes.
$s->sql("SELECT fleetlog.create_stream('fresh')");
$a = $s->session;
$b = $s->session;
$a->query("BEGIN; LOCK TABLE fresh_0_0 IN ROW EXCLUSIVE MODE");
$b->send('TRUNCATE fresh_0_0', 'truncated');
$s->wait_for("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'fresh_0_0'::regclass", '1', 'TRUNCATE to wait');
$a->query("SELECT fleetlog.append('fresh', 'k', 'written meanwhile'); COMMIT");
is($a->error, '', 'a record is written while TRUNCATE waits');
$b->take('truncated');
like($b->error, qr/append-only/, 'TRUNCATE finds it and is refused');
is($s->sql("SELECT count(*), fleetlog.tail('fresh', 0) FROM fresh"), '1|1', 'the record is there');
$_->quit for $a, $b;

# synchronous_commit is the session's own again after every end of a transaction.
$a->query("SET synchronous_commit = remote_write");
for my $end ('COMMIT', 'ROLLBACK', 'SAVEPOINT s; SELECT fleetlog.append(\'other\', \'k\', \'z\'); ROLLBACK TO s; COMMIT',
    'SELECT 1/0; COMMIT')
{
    $a->query("BEGIN; SELECT fleetlog.append('other', 'k', 'z'); $end");
    is($a->query('SHOW synchronous_commit'), 'remote_write', "synchronous_commit after $end");
}
$a->query("CREATE TABLE d(i int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1)");
$a->query("BEGIN; SELECT fleetlog.append('other', 'k', 'z'); INSERT INTO d VALUES (1); COMMIT");
like($a->error, qr/duplicate key/, 'a commit that fails');
is($a->query('SHOW synchronous_commit'), 'remote_write', 'leaves it alone too');
is($s->density_faults('other'), '', 'dense');
$_->quit for $a, $b;

# Messages that were taken back leave nothing, neither in a prepared transaction nor of their memory.
$s->sql("SELECT fleetlog.create_tenant('acme', 'acme/'), fleetlog.mount('acme/', 'other')");
$a = $s->session;
$a->query("BEGIN; SAVEPOINT p; SELECT fleetlog.publish('acme/x', repeat('p', 1000)::bytea); ROLLBACK TO p; PREPARE TRANSACTION 'taken back'");
is($a->error, '', 'a transaction whose messages were taken back can be prepared');
$a->query("SELECT fleetlog.publish('acme/y', repeat('q', 1000)::bytea) FROM generate_series(1, 20)");
$a->query("COMMIT PREPARED 'taken back'");
is($a->error, '', 'and the session goes on');
is($s->sql("SELECT count(*) FILTER (WHERE key = 'acme/x'), count(*) FILTER (WHERE key = 'acme/y' AND length(payload) = 1000) FROM other"), '0|20', 'with its own messages alone');
$a->query("SET fleetlog.publish_queue = '64kB'");
my $memory = q(SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopTransactionContext');
$a->query('BEGIN');
my $loop = "DO \$\$ BEGIN FOR i IN 1 .. 3000 LOOP BEGIN PERFORM fleetlog.publish('acme/x', repeat('p', 1000)::bytea); RAISE EXCEPTION 'x'; EXCEPTION WHEN raise_exception THEN END; END LOOP; END \$\$";
$a->query($loop);
is($a->error, '', 'three thousand messages taken back fit a queue of 64 kB');
cmp_ok($a->query($memory), '<', 1_000_000, 'and their memory is free again');
$a->query("SELECT fleetlog.publish('acme/z', '') FROM generate_series(1, 5000)");
like($a->error, qr/too many messages/, 'small messages are counted with what they take of memory');
$a->query('ROLLBACK');
$a->quit;
is($s->density_faults('other'), '', 'dense');

# Sessions ended in the middle of their work.
for my $i (1 .. 5)
{
    my $v = $s->session;
    $v->send("DO \$\$ BEGIN FOR i IN 1..1000000 LOOP PERFORM fleetlog.append('other', 'k', convert_to(repeat('q', (i * 37) % 20000), 'UTF8')); END LOOP; END \$\$", 'never');
    $s->wait_for("SELECT count(*) > 0 FROM pg_locks WHERE granted AND locktype = 'object' AND classid = 'pg_class'::regclass AND objid = 'other'::regclass", 't', 'the loop to append');
    $s->sql("SELECT " . ($i % 2 ? 'pg_terminate_backend' : 'pg_cancel_backend') . "(pid) FROM pg_stat_activity WHERE query LIKE 'DO%other%' AND pid <> pg_backend_pid()");
    $v->quit;
    is($s->density_faults('other'), '', "dense after end $i");
    my $was = $s->sql("SELECT fleetlog.tail('other', 0)");
    is($s->sql("SELECT (fleetlog.append('other', 'k', 'after')).log_offset"), $was, 'the next append takes the next offset');
}
is($s->crashes, '', 'no crash');
done_testing();
