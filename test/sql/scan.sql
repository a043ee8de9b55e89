-- L11: a SELECT over a stream is one plan node that walks to what it is asked for; everything else keeps the ordinary plan.
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SELECT fleetlog.create_stream('sc', shards => 2, segment_bytes => 1);
SELECT count(fleetlog._create_segment('sc', s, n * 1024, (n + 1) * 1024)) FROM generate_series(0, 1) s, generate_series(1, 3) n;
-- One record a minute, a batch every ten. The last segments are less than half full, so that the keeper makes no more.
INSERT INTO sc (shard, log_offset, ts, tenant, key, payload)
    SELECT s, n, '2026-01-01 00:00+00'::timestamptz + n / 10 * interval '10 min', CASE WHEN n % 2 = 0 THEN 'a' ELSE 'b' END, 'k' || n % 7, convert_to('p' || n, 'UTF8')
    FROM generate_series(0, 1) s, generate_series(0, 3399) n ORDER BY s, n;
SET TimeZone = 'UTC';
-- What versions of the server write in different ways is written in one.
CREATE FUNCTION plan(query text, options text = 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF') RETURNS SETOF text LANGUAGE plpgsql SET search_path FROM CURRENT AS
$$
DECLARE
    line text;
    actual text;
BEGIN
    FOR line IN EXECUTE format('EXPLAIN (%s) %s', options, query) LOOP
        -- Sizes of memory are not ours to promise.
        CONTINUE WHEN line ~ 'Memory|Heap Blocks|Worker';
        -- Rows of one loop have two digits after the point since 18.
        actual := substring(line FROM 'actual rows=([0-9.]+)');
        line := coalesce(replace(line, 'actual rows=' || actual, 'actual rows=' || round(actual::numeric)), line);
        -- Since 17 a result of a sub-select is named in full, and EXISTS is said.
        line := regexp_replace(line, ' \(returns \$\d\)$', '');
        line := regexp_replace(line, '\(InitPlan \d\)\.col1', '$0');
        line := replace(line, 'EXISTS(SubPlan', '(SubPlan');
        -- Either side of a join condition may come first.
        line := regexp_replace(line, '\((p\.\w+) = (s\.\w+)\)', '(\2 = \1)', 'g');
        -- How many batches share a page with those that match depends on their compressed size.
        RETURN NEXT regexp_replace(line, 'skipped=[1-9]\d*', 'skipped=some');
    END LOOP;
END
$$;

-- Shard, offset, time; constants on either side; what the scan does exactly is no filter any more.
EXPLAIN (COSTS OFF) SELECT * FROM sc;
SELECT plan('SELECT count(*) FROM sc');
SELECT plan('SELECT * FROM sc WHERE shard = 1 AND log_offset >= 1500 AND 1510 > log_offset');
SELECT plan($$SELECT count(payload) FROM sc WHERE ts >= '2026-01-02 12:00+00' AND ts < '2026-01-02 13:00+00'$$);
SELECT plan($$SELECT count(*) FROM sc WHERE ts > timestamp '2026-01-03 08:00' AND ts < date '2026-02-01'$$);
SELECT plan('SELECT count(*) FROM sc WHERE shard IN (1, 5) AND log_offset = ANY (ARRAY[10, 2000])');
SELECT plan($$SELECT count(*) FROM sc WHERE shard = 0 AND key = 'k3' AND log_offset < 100$$);
SELECT plan('SELECT count(*) FROM sc WHERE log_offset < 0');
SELECT plan('SELECT count(*) FROM sc WHERE shard = NULL::int');
-- Not one of these: another type, a function of the column, an OR.
EXPLAIN (COSTS OFF) SELECT * FROM sc WHERE log_offset > 100.5;
EXPLAIN (COSTS OFF) SELECT * FROM sc WHERE log_offset + 1 > 100;
EXPLAIN (COSTS OFF) SELECT * FROM sc WHERE log_offset < 10 OR shard = 1;
EXPLAIN (COSTS OFF) SELECT * FROM sc WHERE log_offset > random() * 10;

-- Log order comes without a sort, both ways; with one shard the shard need not be named in ORDER BY.
EXPLAIN (COSTS OFF) SELECT * FROM sc ORDER BY shard, log_offset;
SELECT plan('SELECT log_offset FROM sc WHERE shard = 1 ORDER BY log_offset LIMIT 3');
SELECT plan('SELECT log_offset FROM sc WHERE shard = 1 ORDER BY log_offset DESC LIMIT 3');
SELECT log_offset FROM sc WHERE shard = 1 ORDER BY log_offset DESC LIMIT 3;
SELECT plan('SELECT log_offset FROM sc ORDER BY shard DESC, log_offset DESC LIMIT 3');
SELECT plan($$SELECT log_offset FROM sc WHERE shard = 0 AND ts <= '2026-01-02 00:00+00' ORDER BY log_offset DESC LIMIT 3$$);
SELECT log_offset FROM sc WHERE shard = 0 AND ts <= '2026-01-02 00:00+00' ORDER BY log_offset DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT * FROM sc ORDER BY log_offset;
SELECT plan('SELECT min(log_offset), max(log_offset) FROM sc WHERE shard = 1');
SELECT min(log_offset), max(log_offset) FROM sc WHERE shard = 1;

-- Values that are known at run time only: parameters of a generic plan, stable functions, sub-selects, the other side of a join.
SET plan_cache_mode = force_generic_plan;
PREPARE at_run_time(int, bigint, bigint) AS SELECT count(*) FROM sc WHERE shard = $1 AND log_offset >= $2 AND log_offset < $3;
SELECT plan('EXECUTE at_run_time(0, 3000, 3020)');
EXECUTE at_run_time(0, 3000, 3020);
EXECUTE at_run_time(0, 3000, NULL);
RESET plan_cache_mode;
SELECT plan($$SELECT count(*) FROM sc WHERE ts > now() - interval '1 s'$$);
SELECT plan('SELECT count(*) FROM sc WHERE shard = 0 AND log_offset >= (SELECT 3300 + random() * 0)::bigint');
CREATE TABLE sc_pos (shard int, log_offset bigint);
INSERT INTO sc_pos VALUES (0, 5), (1, 3333), (1, 9999);
ANALYZE sc_pos;
SELECT plan('SELECT p.log_offset, s.key FROM sc_pos p JOIN sc s USING (shard, log_offset)');
SELECT p.log_offset, s.key FROM sc_pos p JOIN sc s USING (shard, log_offset) ORDER BY 1;
SELECT p.log_offset, n.log_offset AS next FROM sc_pos p, LATERAL (SELECT log_offset FROM sc WHERE shard = p.shard AND log_offset > p.log_offset ORDER BY log_offset LIMIT 1) n ORDER BY 1;

-- Where it appears: views, CTEs, UNION ALL, sub-selects, functions, cursors, INSERT ... SELECT, COPY, CREATE TABLE AS.
CREATE VIEW sc_view AS SELECT shard, log_offset, key FROM sc WHERE log_offset < 20;
EXPLAIN (COSTS OFF) SELECT * FROM sc_view WHERE shard = 0;
EXPLAIN (COSTS OFF) WITH c AS MATERIALIZED (SELECT * FROM sc WHERE shard = 0) SELECT count(*) FROM c;
EXPLAIN (COSTS OFF) SELECT key FROM sc WHERE shard = 0 UNION ALL SELECT key FROM sc WHERE shard = 1;
SELECT plan('SELECT * FROM sc a WHERE EXISTS (SELECT FROM sc_pos p WHERE p.log_offset = a.log_offset AND a.shard = 0 OFFSET 0)', 'COSTS OFF');
CREATE FUNCTION sc_inlined(s int) RETURNS SETOF sc LANGUAGE sql STABLE AS 'SELECT * FROM sc WHERE shard = s';
EXPLAIN (COSTS OFF) SELECT count(*) FROM sc_inlined(1);
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT log_offset FROM sc WHERE shard = 1 AND log_offset >= 2046;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
COMMIT;
CREATE TABLE sc_copy AS SELECT * FROM sc WHERE shard = 0 AND log_offset < 3;
INSERT INTO sc_copy SELECT * FROM sc WHERE shard = 1 AND log_offset = 1;
COPY (SELECT shard, log_offset, key FROM sc WHERE log_offset BETWEEN 1023 AND 1024) TO STDOUT;
SELECT shard, log_offset, key FROM sc_copy ORDER BY 1, 2;
-- Into the stream itself: it does not see what it writes.
INSERT INTO sc (shard, log_offset, ts, key) SELECT 1, 3400 + log_offset, '2026-02-01', 'again' FROM sc WHERE shard = 1 AND log_offset < 5;
SELECT count(*), count(*) FILTER (WHERE key = 'again') FROM sc WHERE shard = 1;
-- Columns of the system, whole rows.
SELECT tableoid::regclass, ctid, xmin::text <> '0' AS xmin FROM sc WHERE shard = 0 AND log_offset = 1024;
SELECT (r).log_offset, (r).key FROM (SELECT s AS r FROM sc s WHERE shard = 0 AND log_offset < 2 OFFSET 0) x;

-- The ordinary plan: ONLY, a segment by name, TABLESAMPLE, a target elsewhere, the setting.
EXPLAIN (COSTS OFF) SELECT * FROM ONLY sc;
EXPLAIN (COSTS OFF) SELECT * FROM sc_1_0;
EXPLAIN (COSTS OFF) SELECT * FROM sc_1 WHERE log_offset < 10;
SELECT count(*) > 0 AS sampled FROM sc TABLESAMPLE SYSTEM (100);
EXPLAIN (COSTS OFF) UPDATE sc_pos SET log_offset = 1 FROM sc WHERE sc.shard = 0 AND sc.log_offset = sc_pos.log_offset AND sc.log_offset < 1000;
\set VERBOSITY sqlstate
SELECT * FROM sc WHERE shard = 0 FOR UPDATE;
\set VERBOSITY default
SET fleetlog.enable_stream_scan = off;
EXPLAIN (COSTS OFF) SELECT * FROM sc WHERE shard = 0 AND log_offset < 1500;
RESET fleetlog.enable_stream_scan;
EXPLAIN (COSTS OFF) SELECT * FROM sc WHERE false;

-- Rights are those of the stream; row security comes first.
CREATE FUNCTION sc_leak(log_offset bigint, key text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'leaked %', key; RETURN true; END $$;
CREATE ROLE sc_reader;
SET ROLE sc_reader;
\set VERBOSITY sqlstate
SELECT count(*) FROM sc;
\set VERBOSITY default
RESET ROLE;
GRANT SELECT ON sc TO sc_reader;
ALTER TABLE sc ENABLE ROW LEVEL SECURITY;
CREATE POLICY only_a ON sc FOR SELECT TO sc_reader USING (tenant = 'a' AND log_offset < 6);
SET ROLE sc_reader;
SET client_min_messages = notice;
SELECT shard, log_offset, key FROM sc WHERE sc_leak(log_offset, key) AND shard = 1;
EXPLAIN (COSTS OFF) SELECT * FROM sc WHERE sc_leak(log_offset, key) AND shard = 1 AND log_offset > 2;
SET client_min_messages = warning;
RESET ROLE;
CREATE VIEW sc_barrier WITH (security_barrier) AS SELECT * FROM sc WHERE tenant = 'b';
EXPLAIN (COSTS OFF) SELECT * FROM sc_barrier WHERE sc_leak(log_offset, key) AND shard = 0 AND log_offset < 100;
DROP VIEW sc_barrier, sc_view;
DROP FUNCTION sc_inlined, sc_leak, plan;
DROP TABLE sc_copy, sc_pos;
ALTER TABLE sc DISABLE ROW LEVEL SECURITY;
DROP POLICY only_a ON sc;
REVOKE ALL ON sc FROM sc_reader;
DROP ROLE sc_reader;

-- Estimates follow the log without ANALYZE: within a factor of two for each kind of bound.
CREATE FUNCTION estimate(query text) RETURNS float8 LANGUAGE plpgsql SET search_path FROM CURRENT AS
$$
DECLARE
    j jsonb;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO j;
    RETURN (j->0->'Plan'->>'Plan Rows')::float8;
END
$$;
SELECT q, estimate('SELECT * FROM sc WHERE ' || q) BETWEEN rows / 2.0 AND rows * 2.0 AS near
    FROM (VALUES ('true', 6805), ('shard = 0', 3400), ('log_offset < 1000', 2000), ('shard = 1 AND log_offset >= 2000', 1405),
        ($$ts < '2026-01-01 12:00+00'$$, 1440), ($$ts BETWEEN '2026-01-01 12:00+00' AND '2026-01-02 12:00+00'$$, 2880), ('shard = 0 AND log_offset = 17', 1)) v(q, rows);
DROP FUNCTION estimate;

-- Offsets are given out again after a rollback: pages of aborted batches lie before those of live ones with the same
-- offsets, in both directions and for every bound.
SELECT fleetlog.create_stream('sc_again') IS NULL AS failed;
SELECT count(fleetlog.append('sc_again', 'k' || i, convert_to(repeat(md5(i::text), 6), 'UTF8'))) FROM generate_series(1, 120) i;
BEGIN;
SELECT count(fleetlog.append('sc_again', 'k' || i, convert_to(repeat(md5(i::text), 6), 'UTF8'))) FROM generate_series(1, 3000) i;
ROLLBACK;
SELECT count(fleetlog.append('sc_again', 'k' || i, convert_to(repeat(md5(i::text), 6), 'UTF8'))) FROM generate_series(1, 600) i;
SELECT count(*) AS bounds, count(*) FILTER (WHERE last = b - 1) AS right_last, count(*) FILTER (WHERE below = least(b, 50)) AS right_count
    FROM generate_series(1, 720) b,
    LATERAL (SELECT max(log_offset) AS last FROM sc_again WHERE shard = 0 AND log_offset < b) x,
    LATERAL (SELECT count(*) AS below FROM (SELECT FROM sc_again WHERE shard = 0 AND log_offset < b ORDER BY log_offset DESC LIMIT 50) y) z;

-- COPY of a stream is that of its records, also where a policy applies.
CREATE FUNCTION sc_copied() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMP TABLE IF NOT EXISTS sc_lines (line text);
    TRUNCATE sc_lines;
    COPY sc_again (log_offset) TO PROGRAM 'cat > sc_again.copy';
    COPY sc_lines FROM PROGRAM 'cat sc_again.copy && rm sc_again.copy';
    RETURN (SELECT count(*) || ' ' || max(line::int) FROM sc_lines);
END $$;
SELECT sc_copied(), sc_copied();
CREATE ROLE sc_copier;
GRANT SELECT ON sc_again TO sc_copier;
ALTER TABLE sc_again ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON sc_again FOR SELECT TO sc_copier USING (log_offset < 3);
SET ROLE sc_copier;
COPY sc_again (log_offset, key) TO STDOUT;
RESET ROLE;
REVOKE SELECT ON sc_again FROM sc_copier;
SET ROLE sc_copier;
\set VERBOSITY sqlstate
COPY sc_again TO STDOUT;
\set VERBOSITY default
RESET ROLE;
DROP FUNCTION sc_copied;
SELECT fleetlog.drop_stream('sc_again');
DROP ROLE sc_copier;
SELECT fleetlog.drop_stream('sc');
