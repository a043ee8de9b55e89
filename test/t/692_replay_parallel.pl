# D3: a replay that workers share finds what the session alone finds, in the order of each shard, in the session's role and with its
# settings; progress is their sum; errors, notices and cancels find their way; where workers cannot be had, or must not be, the
# session does it; and nobody waits for ever for a lock of another.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $shards = 4;
my $n = 4000;
my $s = FleetlogTest->new('replay_parallel', no_wait => 1, conf => "fleetlog.mqtt_listen = ''\nfleetlog.replay_workers_min = 0\n");

# Decisions about each seventh reading; each twentieth asks, and some answers are missing.
$s->sql(<<SQL);
SELECT fleetlog.create_stream('source', shards => $shards);
CREATE FUNCTION p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS \$\$
DECLARE
	v int := (fleetlog.json(reading.payload) ->> 'v')::int;
	n int := coalesce((state ->> 'n')::int, 0) + 1;
BEGIN
	IF response IS NOT NULL THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(response, v), 'state', jsonb_build_object('n', n));
	ELSIF v % 20 = 0 THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('v', v));
	ELSIF v % 7 = 0 THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(v, n), 'state', jsonb_build_object('n', n));
	END IF;
	RETURN jsonb_build_object('state', jsonb_build_object('n', n));
END \$\$;
SELECT fleetlog.create_loop('l', 'source', 'p'::regproc, 'm', '1', max_attempts => 1, positions => '{}');
SELECT count(fleetlog.append('source', 'k' || n % 37, convert_to(format('{"v": %s}', n), 'UTF8'))) FROM generate_series(1, $n) n;
SQL
$s->wait_for(<<'SQL', 't', 'all to be answered');
WITH q AS MATERIALIZED (SELECT * FROM fleetlog.next_request('l', 200)),
a AS (SELECT CASE WHEN (ask ->> 'v')::int % 300 = 0 THEN fleetlog.fail_request(request, lease, 'no idea') ELSE (fleetlog.answer(request, lease, jsonb_build_object('x', ask -> 'v'))).shard >= 0 END FROM q)
SELECT (SELECT count(*) FROM a) = 0 AND (SELECT sum(pending + waiting + lag) FROM fleetlog.stat_loop WHERE loop = 'l') = 0
SQL
is($s->sql('SELECT count(DISTINCT shard) FROM source'), $shards, 'all shards have readings');
$s->sql(<<'SQL');
CREATE FUNCTION other(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT jsonb_build_object('decisions', jsonb_build_array(fleetlog.json(reading.payload) -> 'v', state, response)) || CASE WHEN response IS NULL AND reading.log_offset % 3 = 0 THEN '{"ask": {}}' ELSE '{}' END::jsonb $$;
CREATE FUNCTION slow(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE x text := 'x';
BEGIN
	FOR i IN 1 .. 50000 LOOP x := md5(x); END LOOP;
	RETURN NULL;
END $$;
CREATE FUNCTION speaks(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF fleetlog.json(reading.payload) ->> 'v' = '1234' THEN RAISE NOTICE 'this is reading 1234'; END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION breaks(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF fleetlog.json(reading.payload) ->> 'v' = '1234' THEN RAISE EXCEPTION 'the disk of a policy is full' USING ERRCODE = 'disk_full'; END IF;
	RETURN NULL;
END $$;
SQL

# ---- the same rows ----

sub rows
{
    my ($workers, $args, $first) = @_;
    return $s->sql(($first // '') . "SET fleetlog.replay_workers = $workers; SELECT count(*) || ' ' || md5(string_agg(x::text, E'\\n' ORDER BY x::text)) FROM fleetlog.replay('l'$args) x");
}

$s->sql(q{SELECT fleetlog.create_dataset('d', 'source', '{"0": [[10, 300], [310, 400]], "2": [[0, 500]], "3": [[100, 101], [105, 109]]}')});
is($s->sql("SELECT temp_files FROM pg_stat_database WHERE datname = 'fleetlog'"), 0, 'no file yet');
rows(2, '');
$s->wait_for("SELECT temp_files > 0 FROM pg_stat_database WHERE datname = 'fleetlog'", 't', 'what workers keep in files: the policy of a loop is theirs, too');
my $middle = $s->sql("SELECT ts FROM source WHERE shard = 1 AND log_offset = 400");
for my $args ('', ", from_ts => '$middle'", ", to_ts => '$middle'", q{, ranges => '{"1": [[7, 90], [95, 800]], "3": [[0, null]]}'}, ", dataset => 'd'", ", policy => 'other'::regproc", ", policy => 'breaks'::regproc, ranges => '{\"0\": [[0, 10]], \"1\": [[0, 10]]}'")
{
    my $alone = rows(0, $args);
    like($alone, qr/^[1-9]/, "rows of replay('l'$args)");
    is(rows($_, $args), $alone, "$_ workers find the same") for 2, 4, 64;
}
is($s->sql("SET fleetlog.replay_workers = 4; SELECT count(*) FROM (SELECT shard, log_offset < lag(log_offset) OVER (PARTITION BY shard ORDER BY n) AS back FROM"
      . " (SELECT (fleetlog.json(d.payload) #>> '{reading,shard}')::int AS shard, (fleetlog.json(d.payload) #>> '{reading,offset}')::bigint AS log_offset, x.n"
      . " FROM fleetlog.replay('l') WITH ORDINALITY x(decision, verdict, recorded, replayed, reason, n) JOIN l_decision d ON d.shard = (x.decision).shard AND d.log_offset = (x.decision).log_offset) y) z WHERE back"),
    0, 'rows of a shard come in the order of its readings');

# ---- progress ----

my $slow = "SELECT count(*) FROM fleetlog.replay('l', policy => 'slow'::regproc)";
my $seen = "workers = 3 AND phase = 'replaying' AND readings_total = $n AND readings_done < $n FROM fleetlog.stat_replay";
my $working = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'fleetlog replay worker'";
for my $how (['cancel', qr/canceling statement due to user request/], ['terminate', qr/terminating connection/])
{
    my $run = $s->start_sql("SET fleetlog.replay_workers = 3; $slow");
    $s->wait_for("SELECT $seen", 't', 'a replay with three workers');
    $s->wait_for("$working AND leader_pid = (SELECT pid FROM fleetlog.stat_replay)", 3, 'which belong to the session');
    $s->sql("SELECT pg_$how->[0]_backend(pid) FROM fleetlog.stat_replay");
    like(($s->finish_sql($run))[2], $how->[1], "$how->[0] ends it");
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_replay", 0, 'it to be gone from the view');
    $s->wait_for($working, 0, 'its workers to be gone');
}

# ---- errors and notices ----

like($s->sql_error("SET fleetlog.replay_workers = 3; SELECT count(*) FROM fleetlog.replay('l', policy => 'breaks'::regproc)"),
    qr/53100: the disk of a policy is full.*worker of the replay of loop "l"/s, 'an error that is not the policy\'s reaches the caller, and says where it was');
$s->wait_for($working, 0, 'workers to be gone after an error');
my $notice = $s->start_sql("SET fleetlog.replay_workers = 3; SELECT count(*) FROM fleetlog.replay('l', policy => 'speaks'::regproc)");
like(($s->finish_sql($notice))[2], qr/NOTICE:  this is reading 1234/, 'a notice reaches the caller');
my $run = $s->start_sql("SET fleetlog.replay_workers = 3; $slow");
$s->wait_for("SELECT $seen", 't', 'a replay with three workers');
$s->sql("SELECT pg_terminate_backend(min(pid)) FROM pg_stat_activity WHERE backend_type = 'fleetlog replay worker'");
like(($s->finish_sql($run))[2], qr/ERROR:  terminating background worker/, 'a worker that is ended ends the replay');
$s->wait_for($working, 0, 'the others to be gone, too');
is(rows(3, ''), rows(0, ''), 'the next one is as ever');

# ---- by the session ----

for my $case (['fewer than two', 'SET fleetlog.replay_workers = 1;'], ['none can be had', 'SET max_parallel_workers = 0;'], ['few readings', 'SET fleetlog.replay_workers_min = 1000000;'],
    ['a transaction that has written', 'BEGIN; SELECT pg_current_xact_id();'])
{
    my $alone = $s->start_sql("SET fleetlog.replay_workers = 3; $case->[1] $slow");
    $s->wait_for("SELECT workers = 0 AND phase = 'replaying' FROM fleetlog.stat_replay", 't', "$case->[0]: no workers");
    is($s->sql($working), 0, "$case->[0]: none runs");
    $s->sql('SELECT pg_cancel_backend(pid) FROM fleetlog.stat_replay');
    $s->finish_sql($alone);
    $s->wait_for("SELECT count(*) FROM fleetlog.stat_replay", 0, 'it to be gone from the view');
}
$s->sql(<<'SQL');
CREATE FUNCTION reads(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN jsonb_build_object('decisions', jsonb_build_array((SELECT count(*) FROM public.l_decision WHERE shard < 0)));
END $$;
SELECT fleetlog.create_loop('r', 'source', 'reads'::regproc, 'm', '1', replayable => false, positions => '{}');
SQL
$s->wait_for("SELECT sum(lag) FROM fleetlog.stat_loop WHERE loop = 'r'", 0, 'the loop that reads a table');
my $reads = $s->start_sql("SET fleetlog.replay_workers = 3; SELECT count(*) || ' ' || min(verdict) || ' ' || max(verdict) FROM fleetlog.replay('r')");
is(($s->finish_sql($reads))[1], "$n same same\n", 'what reads more than its arguments is replayed, by the session');

# ---- role and settings ----

$s->sql(<<'SQL');
CREATE ROLE analyst;
GRANT SELECT ON source, l_request, l_response, l_decision TO analyst;
GRANT USAGE ON SCHEMA fleetlog TO analyst;
SQL
is(rows(3, '', 'SET ROLE analyst; '), rows(0, ''), 'a role with SELECT on the streams');
$s->sql('REVOKE SELECT ON l_response FROM analyst');
like($s->sql_error("SET ROLE analyst; SET fleetlog.replay_workers = 3; SELECT count(*) FROM fleetlog.replay('l')"), qr/42501: permission denied for table l_response/, 'and one without');
$s->sql(<<'SQL');
CREATE FUNCTION formats(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN jsonb_build_object('decisions', jsonb_build_array(xmlelement(name b, reading.payload)::text));
END $$;
SQL
my %formatted = map { $_ => rows(3, ", policy => 'formats'::regproc", "SET xmlbinary = $_; ") } 'hex', 'base64';
isnt($formatted{hex}, $formatted{base64}, 'a setting changes what a policy says');
is($formatted{$_}, rows(0, ", policy => 'formats'::regproc", "SET xmlbinary = $_; "), "workers have the session's settings ($_)") for 'hex', 'base64';

# ---- locks ----

my $reader = $s->session;
$reader->query("SET statement_timeout = '100s'; SET fleetlog.replay_workers = 3; BEGIN; SELECT count(*) FROM source");
$reader->query('LOCK TABLE l_decision, source IN ACCESS SHARE MODE');
my $locker = $s->start_sql('BEGIN; LOCK TABLE l_decision, source IN ACCESS EXCLUSIVE MODE; COMMIT');
$s->wait_for("SELECT count(*) > 0 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted", 't', 'somebody to wait for the session');
my $decisions = $reader->query('SELECT count(*) FROM l_decision');
is($reader->query("SELECT count(*) || ' ' || min(verdict) || ' ' || max(verdict) FROM fleetlog.replay('l')"), "$decisions same same", 'workers need not wait for who waits for their session');
is($reader->error, '', 'without an error');
$reader->query('COMMIT');
$s->finish_sql($locker);
$reader->quit;

is($s->crashes, '', 'no process crashed');
done_testing();
