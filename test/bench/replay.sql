-- The rates of replay and of plain scans of the same records (replay_setup.sql has made them), with :n readings.
\pset tuples_only on
\pset format unaligned
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
-- Five times one after the other, the best of each: what else the machine does should meet both.
CREATE FUNCTION pg_temp.seconds(queries text[], OUT s float8[], OUT result bigint) LANGUAGE plpgsql AS $$
DECLARE
	t timestamptz;
	r bigint;
BEGIN
	FOR i IN 1 .. 5 LOOP
		FOR q IN 1 .. cardinality(queries) LOOP
			t := clock_timestamp();
			EXECUTE queries[q] INTO r;
			s[q] := least(s[q], extract(epoch FROM clock_timestamp() - t));
			result := CASE WHEN q = 1 THEN r ELSE result END;
		END LOOP;
	END LOOP;
END $$;
-- Is the policy inlined in the plain scan?
CREATE FUNCTION pg_temp.is_inlined(query text, policy text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	inlined bool := true;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE) ' || query LOOP
		inlined := inlined AND position(policy || '(' IN line) = 0;
	END LOOP;
	RETURN inlined;
END $$;
CREATE TEMP TABLE rate (name text, replayed float8, plain float8, decisions bigint, same bigint);
INSERT INTO rate SELECT 'sparse', s[1], s[2], (SELECT count(*) FROM sparse_decision), result FROM pg_temp.seconds(ARRAY[
	$$SELECT count(*) FILTER (WHERE verdict = 'same') FROM fleetlog.replay('sparse')$$,
	$$SELECT count(replay_sparse(ROW(shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, payload)::fleetlog.log_record, NULL, NULL, ts)) FROM replay_source$$]);
INSERT INTO rate SELECT 'dense', s[1], s[2] + s[3] + s[4] + s[5], (SELECT count(*) FROM dense_decision), result FROM pg_temp.seconds(ARRAY[
	$$SELECT count(*) FILTER (WHERE verdict = 'same') FROM fleetlog.replay('dense')$$,
	$$SELECT count(replay_dense(ROW(shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, payload)::fleetlog.log_record, NULL, NULL, ts)) + count(replay_dense(ROW(shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, payload)::fleetlog.log_record, '{"p": 0.7}', NULL, ts)) FROM replay_source$$,
	$$SELECT count(fleetlog.json(payload)) FROM dense_request$$, $$SELECT count(fleetlog.json(payload)) FROM dense_response$$, $$SELECT count(fleetlog.json(payload)) FROM dense_decision$$]);
SELECT format('replay %s: %s readings, %s decisions: %s readings/s; plain scan of the same records with the policy inlined %s readings/s; ratio %s (goal for sparse: 0.5)%s',
	name, :n, decisions, round((:n / replayed)::numeric), round((:n / plain)::numeric), round((plain / replayed)::numeric, 2), CASE WHEN same = decisions THEN '' ELSE format('; WRONG: only %s are the same', same) END) FROM rate;
SELECT format('WRONG: the plain scan does not inline %s', p) FROM unnest(ARRAY['replay_sparse', 'replay_dense']) p
	WHERE NOT pg_temp.is_inlined(format('SELECT %s(ROW(shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, payload)::fleetlog.log_record, NULL, NULL, ts) FROM replay_source', p), p);
