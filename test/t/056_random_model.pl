# L3, L12, L13: random transactions against a stream and against a heap table that is written in the same transactions.
# Whatever the transactions did, and wherever kill -9 stopped the server, the two must agree: so must the standby, and
# so must logical decoding.  FLEETLOG_ROUNDS sets the rounds, FLEETLOG_SEED repeats a run as far as timing allows.
use strict;
use warnings;
use List::Util qw(max);
use Test::More;
use FleetlogTest;
use Time::HiRes qw(usleep);

my $seed = $ENV{FLEETLOG_SEED} // int(time) % 1_000_000;
my $rounds = max(3, $ENV{FLEETLOG_ROUNDS} // 3);
srand $seed;
diag("seed $seed, $rounds rounds");

my $s = FleetlogTest->new('model', no_wait => 1, conf => <<'CONF');
wal_consistency_checking = 'fleetlog'
max_wal_size = 4GB
fleetlog.shard_lock_timeout = 2s
fleetlog.shard_hold_timeout = 5s
CONF
# Changes are to be spilled to disk; but server 18 then calls test_decoding as if it had sent what was rolled back, which it does not survive.
$s->set_conf(logical_decoding_work_mem => $s->node->pg_version >= 18 ? '1GB' : '64kB');
$s->sql(<<'SQL');
CREATE TABLE model (key text PRIMARY KEY, shard int, log_offset bigint, sum text);
SELECT fleetlog.create_stream('m', shards => 2, compression => 'none', segment_bytes => 1);
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.mount('acme/', 'm');
-- Text of just this length, compressible or not.
CREATE FUNCTION filler(len int, seed int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN seed % 2 = 0 THEN repeat(chr(97 + seed % 26), len) ELSE left(string_agg(md5((i * seed)::text), ''), len) END FROM generate_series(0, len / 32) i $$;
CREATE PROCEDURE one(k text, s int, len int) LANGUAGE sql AS
$$ INSERT INTO model SELECT k, p.shard, p.log_offset, md5(coalesce(filler(len, 7 + s), '')) FROM fleetlog.append('m', k, convert_to(filler(len, 7 + s), 'UTF8'), shard => s) p $$;
CREATE PROCEDURE given(k text, s int, n int, len int) LANGUAGE plpgsql AS $$
DECLARE t bigint := (SELECT coalesce(max(log_offset) + 1, 0) FROM m WHERE shard = s);
BEGIN
    INSERT INTO model SELECT k || i, s, t + i, md5(filler(len, 3)) FROM generate_series(0, n - 1) i;
    INSERT INTO m (shard, log_offset, ts, key, payload) SELECT s, t + i, greatest(clock_timestamp(), (SELECT max(ts) FROM m WHERE shard = s)), k || i, convert_to(filler(len, 3), 'UTF8') FROM generate_series(0, n - 1) i;
END $$;
CREATE PROCEDURE fails(k text, s int) LANGUAGE plpgsql AS $$
BEGIN
    CALL one(k || 'a', s, 50);
    BEGIN
        CALL one(k || 'b', s, 9000);
        CALL one(k || 'c', 1 - s, 70);
        PERFORM 1 / 0;
    EXCEPTION WHEN division_by_zero THEN
        CALL one(k || 'd', s, 3);
    END;
END $$;
CREATE PROCEDURE told(k text) LANGUAGE sql AS
$$ INSERT INTO model VALUES ('acme/' || k, NULL, NULL, md5('told ' || k)); SELECT fleetlog.publish('acme/' || k, convert_to('told ' || k, 'UTF8')); $$;
SELECT pg_create_logical_replication_slot('follow', 'test_decoding');
SQL
my $standby = $s->new_standby('model_standby', conf => "max_standby_streaming_delay = 1s\n");
$standby->node->start;

my $n = 0;

sub size
{
    my $r = rand;
    return int rand 3 if $r < 0.15;
    return int rand 300 if $r < 0.7;
    return 7900 + int rand 400 if $r < 0.8;
    return int rand 40_000 if $r < 0.97;
    return 262_000 + int rand 200_000;
}

sub statement
{
    my ($depth) = @_;
    my $r = rand;
    my $k = 'k' . ++$n;
    my $shard = int rand 2;

    return "CALL one('$k', $shard, " . size() . ");" if $r < 0.40;
    return "CALL given('$k.', $shard, " . (1 + int rand 400) . ', ' . int(rand 200) . ");" if $r < 0.50;
    return "CALL told('$k');" if $r < 0.60;
    return "CALL fails('$k', $shard);" if $r < 0.66;
    return 'SELECT count(*) FROM m;' if $r < 0.70;
    if ($r < 0.85)
    {
        push @$depth, "p$n";
        return "SAVEPOINT p$n;";
    }
    return "SELECT pg_sleep(0.00$shard);" unless @$depth;
    return 'RELEASE ' . pop(@$depth) . ';' if $r < 0.92;
    splice @$depth, 1 + int rand @$depth;
    return "ROLLBACK TO $depth->[-1];";
}

sub transaction
{
    my @depth;
    my @t = map { statement(\@depth) } 1 .. 1 + int rand 10;
    my $r = rand;

    return $t[0] =~ /^(SAVE|RELEASE|ROLL)/ ? '' : $t[0] if $r < 0.2;
    return join "\n", 'BEGIN;', @t, $r < 0.8 ? 'COMMIT;' : 'ROLLBACK;';
}

sub script
{
    my ($count) = @_;
    my @lines = ('\set ON_ERROR_STOP off', '\set VERBOSITY verbose', 'SET client_min_messages = warning;', 'SET deadlock_timeout = 50;');

    push @lines, 'SET synchronous_commit = off;' if rand() < 0.3;
    push @lines, transaction() for 1 .. $count;
    return join "\n", @lines;
}

sub upkeep
{
    my $leaf = $s->sql("SELECT c.relname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE amname = 'fleetlog_log' AND relkind = 'r' ORDER BY random() LIMIT 1");
    my @what = ('VACUUM (FREEZE) m', 'VACUUM m', 'CHECKPOINT', "VACUUM FULL $leaf", "ANALYZE m", "SELECT pg_switch_wal()");

    # A deadlock with the writers is the server's business.
    $s->node->psql('fleetlog', $what[ rand @what ]);
    return;
}

my $all = "SELECT count(*) || ' ' || coalesce(md5(string_agg(shard || ' ' || log_offset || ' ' || ts || ' ' || key || ' ' || md5(payload), '|' ORDER BY shard, log_offset)), '') FROM ";

sub told_tails
{
    return map { $s->sql("SELECT fleetlog.tail('m', $_)") } 0, 1;
}

sub prefix
{
    my ($node, @tails) = @_;
    return join ' ', map { $node->sql("$all m WHERE shard = $_ AND log_offset < $tails[$_]") } 0, 1;
}

sub check
{
    my ($what) = @_;

    is($s->sql(<<'SQL'), '', "$what: stream and model agree");
SELECT 'model ' || coalesce(o.key, '-') || ' stream ' || coalesce(m.key, '-') || ' at ' || coalesce(m.log_offset::text, '-')
  FROM m FULL JOIN model o ON o.key = m.key
 WHERE m.key IS NULL OR o.key IS NULL OR o.sum <> md5(coalesce(m.payload, '')) OR (o.log_offset IS NOT NULL AND (o.shard, o.log_offset) <> (m.shard, m.log_offset)) LIMIT 5
SQL
    is($s->density_faults('m'), '', "$what: dense");
    is($s->sql("SELECT string_agg(DISTINCT t::text, ' ') FROM (SELECT max(log_offset) + 1 - fleetlog.tail('m', shard) AS t FROM m GROUP BY shard) x"), '0', "$what: the tail is behind the last record");
    my $rows = $s->sql("$all m");
    is($s->sql("$all (SELECT * FROM fleetlog.read('m', 0, 0, 1000000) UNION ALL SELECT * FROM fleetlog.read('m', 1, 0, 1000000)) r"), $rows, "$what: read() has the same");
    my $some = 'a.log_offset % 13 = ' . int rand 13;
    is($s->sql("SELECT count(*) FROM m a, LATERAL (SELECT key FROM m b WHERE b.tableoid = a.tableoid AND b.ctid = a.ctid) b WHERE b.key = a.key AND $some"),
        $s->sql("SELECT count(*) FROM m a WHERE $some"), "$what: rows are found by ctid");
    $s->catch_up($standby);
    is($standby->sql_on_standby("$all m"), $rows, "$what: the standby has the same");
    is($s->sql(<<'SQL'), '', "$what: decoding has the same keys from both");
WITH c AS (SELECT data FROM pg_logical_slot_get_changes('follow', NULL, NULL)),
     a AS (SELECT substring(data FROM ' key\[text\]:''([^'']*)''') AS key FROM c WHERE data LIKE 'table public.model: INSERT%'),
     b AS (SELECT substring(data FROM ' key\[text\]:''([^'']*)''') AS key FROM c WHERE data LIKE 'table public.m\_%: INSERT%')
SELECT coalesce(a.key, '-') || ' ' || coalesce(b.key, '-') FROM a FULL JOIN b USING (key) WHERE a.key IS NULL OR b.key IS NULL LIMIT 5
SQL
    return;
}

my $errors = '';
for my $round (1 .. $rounds)
{
    my $crash = $round % 2 == 0;
    my @run = map { $s->start_sql(script($crash ? 400 : 40)) } 1 .. 2;
    my @tails = (0, 0);
    my $before = '';

    for (1 .. 6)
    {
        usleep(100_000 + rand 400_000);
        upkeep();
    }
    if ($crash)
    {
        @tails = told_tails();
        $before = prefix($s, @tails);
        $s->kill9;
        for (@run) { eval { $s->finish_sql($_) }; }
        $s->start_after_crash(no_wait => 1);
        $standby->node->start unless $standby->node->{_pid};
        is(prefix($s, @tails), $before, "round $round: what was told durable survived kill -9");
    }
    else
    {
        for (@run)
        {
            my ($rc, $out, $err) = $s->finish_sql($_);
            $errors .= $err;
        }
    }
    check("round $round");
    $s->node->restart if $round % 3 == 0;
}

my %seen;
$seen{"$1: $2"}++ while $errors =~ /ERROR:  (\w{5}): ([^\n]*)/g;
# Two writers of one stream may wait for each other in vain, take the same next offset, or need a segment that nobody made yet.
my @odd = grep { !/^(40P01|55P03|LF104|LF106|23505|23514|25P02|22012|3B001)/ } sort keys %seen;
is(join("\n", @odd), '', 'no error but those of two writers that meet');
is($s->crashes, '', 'no crash');
is($standby->crashes, '', 'nor on the standby');
done_testing();
