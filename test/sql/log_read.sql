-- L1, L6, Q2: reading: by SQL in all its ways, read(), seeks by offset and time, several shards, VACUUM, ANALYZE.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('lr', shards => 3);
SELECT count(fleetlog.append('lr', 'k' || n % 50, CASE WHEN n % 10 > 0 THEN convert_to('{"n":' || n || '}', 'UTF8') END, created => '2026-01-01 00:00+00'::timestamptz + n * interval '1 s'))
    FROM generate_series(1, 3000) n;
SELECT count(*), count(DISTINCT shard) AS shards, count(payload) AS payloads, count(DISTINCT key) AS keys FROM lr;
-- One key, one shard.
SELECT count(*) FROM (SELECT key FROM lr GROUP BY key HAVING count(DISTINCT shard) > 1) x;
SELECT sum(fleetlog.tail('lr', s)), sum(fleetlog.head('lr', s)) FROM generate_series(0, 2) s;
-- Dense, and time in order, in each shard.
SELECT bool_and(log_offset = expected) AS dense, bool_and(ts >= before) AS in_order
    FROM (SELECT log_offset, ts, row_number() OVER w - 1 AS expected, coalesce(lag(ts) OVER w, ts) AS before FROM lr WINDOW w AS (PARTITION BY shard ORDER BY log_offset)) x;

-- read(): from an offset, bounded, all columns.
SELECT count(*), min(log_offset), max(log_offset) FROM fleetlog.read('lr', 1, 10, 25);
SELECT count(*) FROM (SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers::text, payload FROM fleetlog.read('lr', 1, 0, 100000)
    EXCEPT ALL SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers::text, payload FROM lr WHERE shard = 1) x;
SELECT count(*) FROM fleetlog.read('lr', 1, fleetlog.tail('lr', 1));
SELECT count(*) FROM fleetlog.read('lr', 1, 0, 0);
\set VERBOSITY sqlstate
SELECT count(*) FROM fleetlog.read('lr', 3, 0);
SELECT count(*) FROM fleetlog.read('lr', 1, -1);
SELECT fleetlog.tail('lr', 9);
SELECT fleetlog.tail('pg_class', 0);
\set VERBOSITY default

-- A seek by time is exact: the first record whose ts is not before it.
SELECT bool_and(fleetlog.offset_for_time('lr', 0, ts) = first) FROM (SELECT ts, min(log_offset) AS first FROM lr WHERE shard = 0 GROUP BY ts) x;
SELECT fleetlog.offset_for_time('lr', 0, '1970-01-01'), fleetlog.offset_for_time('lr', 0, now() + interval '1 day') IS NULL AS nothing;

-- Restrictions give what filtering gives, also for parameters.
SELECT count(*) FROM lr WHERE shard = 2 AND log_offset BETWEEN 100 AND 199;
SELECT count(*) FROM lr WHERE log_offset < 10;
PREPARE by_offset(int, bigint) AS SELECT count(*) FROM lr WHERE shard = $1 AND log_offset >= $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE by_offset(0, fleetlog.tail('lr', 0) - 5);
EXECUTE by_offset(1, 0) \gset
SELECT :count = fleetlog.tail('lr', 1) AS whole_shard;
RESET plan_cache_mode;
SELECT count(*) FROM lr WHERE ts > now() + interval '1 hour';
SELECT count(*) = 3000 FROM lr WHERE ts > now() - interval '1 hour';

-- Joins, aggregates, subqueries, window, views, LATERAL, DISTINCT ON, system columns.
SELECT sum((fleetlog.json(payload) ->> 'n')::int) FROM lr;
SELECT count(*) FROM lr a JOIN lr b USING (shard, log_offset) WHERE a.payload IS NOT DISTINCT FROM b.payload;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM (SELECT * FROM lr WHERE shard = 0 AND log_offset < 20) a JOIN (SELECT * FROM lr WHERE shard = 0 AND log_offset < 20) b ON a.key = b.key AND a.log_offset = b.log_offset;
RESET enable_hashjoin;
RESET enable_mergejoin;
CREATE VIEW lr_last AS SELECT DISTINCT ON (key) key, fleetlog.json(payload) AS value FROM lr ORDER BY key, created DESC;
SELECT count(*), max(value ->> 'n') FROM lr_last WHERE key IN ('k1', 'k49');
DROP VIEW lr_last;
SELECT count(DISTINCT (tableoid, ctid)) FROM lr;
SELECT count(*) FROM lr a, LATERAL (SELECT 1 FROM lr b WHERE b.tableoid = a.tableoid AND b.ctid = a.ctid AND b.log_offset = a.log_offset) x WHERE a.log_offset < 5;

-- ctid: fetch by TID finds the same row, and only a row that is there.
DO $$
DECLARE r record; n int := 0;
BEGIN
    FOR r IN SELECT ctid, tableoid, shard, log_offset FROM lr WHERE log_offset % 97 = 0 LOOP
        PERFORM 1 FROM lr WHERE ctid = r.ctid AND tableoid = r.tableoid AND shard = r.shard AND log_offset = r.log_offset;
        IF NOT FOUND THEN RAISE EXCEPTION 'no row % of %', r.ctid, r.tableoid::regclass; END IF;
        n := n + 1;
    END LOOP;
    RAISE WARNING 'fetched % rows', n > 20;
END $$;
SELECT count(*) FROM lr WHERE ctid = '(100000,1)';
SELECT count(*) FROM lr WHERE ctid = '(0,1)';

-- Parallel scan.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT count(*), sum(length(payload)) = (SELECT sum(length(payload)) FROM fleetlog.read('lr', 0, 0, 100000)) + (SELECT sum(length(payload)) FROM fleetlog.read('lr', 1, 0, 100000))
    + (SELECT sum(length(payload)) FROM fleetlog.read('lr', 2, 0, 100000)) AS same FROM lr;
-- The setting that wants a parallel plan for its own sake has another name since server 16.
SELECT CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'force_parallel_mode' ELSE 'debug_parallel_query' END AS forced \gset
SET :forced = on;
SELECT count(*), count(DISTINCT (shard, log_offset)) FROM lr;
RESET :forced;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET max_parallel_workers_per_gather;

-- VACUUM, FREEZE, ANALYZE change nothing that is seen; TABLESAMPLE works or says that it does not.
VACUUM lr;
VACUUM (FREEZE, ANALYZE) lr;
SELECT count(*), count(payload) FROM lr;
SELECT relname, reltuples > 0 AS counted FROM pg_class WHERE oid = 'lr'::regclass;
SELECT count(*) > 0 AS has_statistics FROM pg_stats WHERE tablename LIKE 'lr%' AND attname = 'key';
SELECT (fleetlog.append('lr', 'k1', 'after vacuum')).log_offset > 0;
VACUUM FULL lr;
SELECT count(*) FROM lr;
SELECT (fleetlog.append('lr', 'k1', 'after vacuum full')).log_offset > 0;
SELECT bool_and(log_offset = expected) AS dense FROM (SELECT log_offset, row_number() OVER (PARTITION BY shard ORDER BY log_offset) - 1 AS expected FROM lr) x;

-- COPY out, and as CSV.
COPY (SELECT shard, count(*) > 0 FROM lr GROUP BY shard ORDER BY shard) TO STDOUT;
COPY (SELECT fleetlog.text(payload) FROM lr WHERE payload IS NOT NULL ORDER BY created NULLS LAST LIMIT 2) TO STDOUT (FORMAT csv);

-- Row-level security and column grants hold.
CREATE ROLE lr_reader;
GRANT SELECT ON lr TO lr_reader;
ALTER TABLE lr ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON lr FOR SELECT TO lr_reader USING (key = 'k1');
SET ROLE lr_reader;
SELECT count(*) > 0, count(DISTINCT key) FROM lr;
SELECT count(DISTINCT key), count(*) = (SELECT count(*) FROM lr) AS all_of_them
    FROM (SELECT key FROM fleetlog.read('lr', 0, 0, 100000) UNION ALL SELECT key FROM fleetlog.read('lr', 1, 0, 100000) UNION ALL SELECT key FROM fleetlog.read('lr', 2, 0, 100000)) x;
RESET ROLE;
ALTER TABLE lr DISABLE ROW LEVEL SECURITY;
DROP POLICY own ON lr;
REVOKE ALL ON lr FROM lr_reader;
DROP ROLE lr_reader;

-- Every codec gives back what went in; a payload that does not compress too.
SELECT fleetlog.create_stream('lc_' || c, compression => c) FROM unnest(ARRAY['none', 'lz4', 'zstd']) c;
SELECT c, count(fleetlog.append(('lc_' || c)::regclass, 'k' || n, CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN convert_to(repeat('reading ', n % 300), 'UTF8')
    ELSE decode((SELECT string_agg(md5((n * 1000 + i)::text), '') FROM generate_series(1, n % 100) i), 'hex') END))
    FROM unnest(ARRAY['none', 'lz4', 'zstd']) c, generate_series(1, 1000) n GROUP BY c ORDER BY c;
SELECT md5(string_agg(coalesce(encode(payload, 'hex'), 'NULL'), ',' ORDER BY key)) = (SELECT md5(string_agg(coalesce(encode(payload, 'hex'), 'NULL'), ',' ORDER BY key)) FROM lc_none) AS same FROM lc_lz4
UNION ALL
SELECT md5(string_agg(coalesce(encode(payload, 'hex'), 'NULL'), ',' ORDER BY key)) = (SELECT md5(string_agg(coalesce(encode(payload, 'hex'), 'NULL'), ',' ORDER BY key)) FROM lc_none) FROM lc_zstd;
SELECT fleetlog.drop_stream('lc_none'), fleetlog.drop_stream('lc_lz4'), fleetlog.drop_stream('lc_zstd'), fleetlog.drop_stream('lr');
