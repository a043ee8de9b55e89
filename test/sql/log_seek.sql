-- L6: a seek by offset or time touches at most log2(pages of the segment) + 3 pages, counted by the server.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('ls', compression => 'none');
SELECT count(fleetlog.append('ls', 'k', convert_to(repeat('v', 200), 'UTF8'))) FROM generate_series(1, 6000);
-- Batches of several pages among the small ones, so that a search also meets their later pages.
INSERT INTO ls (shard, log_offset, ts, key, payload) SELECT 0, 6000 + i, clock_timestamp() + interval '1 h', 'k', convert_to(repeat('w', 300), 'UTF8') FROM generate_series(0, 2) i;
SELECT count(fleetlog.append('ls', 'big', convert_to(repeat(md5(i::text), 1000), 'UTF8'))) FROM generate_series(1, 60) i;
SELECT count(fleetlog.append('ls', 'k', convert_to(repeat('v', 200), 'UTF8'))) FROM generate_series(1, 2000);
CREATE FUNCTION pg_temp.pages_touched(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS off, TIMING off, FORMAT json) ' || query INTO plan;
    RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END $$;
CREATE TEMP TABLE ls_bound AS
    SELECT ceil(log(2, (pg_relation_size(relid) / 8192)::numeric))::int + 3 AS bound
    FROM pg_partition_tree('ls') WHERE isleaf AND pg_relation_size(relid) > 0;
SELECT count(*), min(bound) BETWEEN 10 AND 13 AS plausible FROM ls_bound;
-- The session's caches first.
SELECT count(*) FROM fleetlog.read('ls', 0, 17, 1);
SELECT fleetlog.offset_for_time('ls', 0, '2000-01-01');
SELECT bool_and(pg_temp.pages_touched(format('SELECT * FROM fleetlog.read(''ls'', 0, %s, 1)', o)) BETWEEN 4 AND bound) AS by_offset
FROM ls_bound, generate_series(0, 6000, 113) o;
SELECT bool_and(pg_temp.pages_touched(format('SELECT * FROM fleetlog.read(''ls'', 0, %s, 1)', o)) BETWEEN 4 AND bound) AS behind_large_batches
FROM ls_bound, generate_series(6063, 8062, 197) o;
SELECT bool_and(pg_temp.pages_touched(format('SELECT fleetlog.offset_for_time(''ls'', 0, %L)', ts)) BETWEEN 4 AND bound) AS by_time
FROM ls_bound, (SELECT ts FROM ls WHERE log_offset % 307 = 0) t;
SELECT bool_and(fleetlog.offset_for_time('ls', 0, ts) = first) AS exact
FROM (SELECT ts, min(log_offset) AS first FROM ls GROUP BY ts ORDER BY min(log_offset) LIMIT 500) t;
SELECT fleetlog.drop_stream('ls');
