-- Two loops over :n readings, with records as their runner would have written them, made set by set.
-- "sparse": a policy in SQL with thresholds that decides about one reading in a hundred.  "dense": every reading asks the model and decides.
\set QUIET on
\pset tuples_only on
\pset format unaligned
SET client_min_messages = warning;
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
SET jit = off;
-- A million records are one transaction here.
SET fleetlog.shard_hold_timeout = 0;
CREATE FUNCTION pg_temp.json(body jsonb) RETURNS bytea LANGUAGE sql AS $$ SELECT convert_to(body::text, 'UTF8') $$;
SELECT fleetlog.create_stream('replay_source') IS NULL;
SELECT count(fleetlog.append('replay_source', 'plant/valve-' || n % 1000, convert_to(format('{"pressure": %s.%s, "temperature": %s, "valve": "valve-%s", "seq": %s, "unit": "bar", "status": "ok"}', n * 7919 % 1000, n % 10, n % 90, n % 1000, n), 'UTF8')))
	FROM generate_series(1, :n) n;
-- What builds JSON out of any value is only STABLE, and keeps a function that is IMMUTABLE from being inlined; so these do without.
CREATE FUNCTION replay_sparse(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN (fleetlog.json(reading.payload) ->> 'pressure')::float8 >= 990 THEN jsonb_set('{"decisions": [{"alarm": 0}]}', '{decisions,0,alarm}', fleetlog.json(reading.payload) -> 'pressure') END $$;
CREATE FUNCTION replay_dense(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN response IS NULL THEN jsonb_set('{"ask": {"pressure": 0}}', '{ask,pressure}', fleetlog.json(reading.payload) -> 'pressure')
		WHEN (response ->> 'p')::float8 > 0.5 THEN '{"decisions": [{"close": true}]}'::jsonb ELSE '{"decisions": [{"close": false}]}'::jsonb END $$;
SELECT fleetlog.create_loop('sparse', 'replay_source', 'replay_sparse'::regproc, 'm', '1', positions => '{}'), fleetlog.pause_loop('sparse');
SELECT fleetlog.create_loop('dense', 'replay_source', 'replay_dense'::regproc, 'm', '1', positions => '{}'), fleetlog.pause_loop('dense');
CREATE VIEW replay_reading AS SELECT s.*, ROW(shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, payload)::fleetlog.log_record AS reading FROM replay_source s;
SELECT count(fleetlog.append('sparse_decision', key, pg_temp.json(jsonb_build_object('loop', 'sparse', 'policy_version', 1,
	'reading', jsonb_build_object('shard', shard, 'offset', log_offset, 'ts', ts, 'key', key, 'payload', fleetlog.text(payload)), 'at', ts, 'state_before', NULL) || p)))
	FROM (SELECT r.*, replay_sparse(reading, NULL, NULL, ts) AS p FROM replay_reading r ORDER BY log_offset) x WHERE p IS NOT NULL;
SELECT count(fleetlog.append('dense_request', key, pg_temp.json(jsonb_build_object('loop', 'dense', 'policy_version', 1,
	'reading', jsonb_build_object('shard', shard, 'offset', log_offset, 'ts', ts, 'key', key, 'payload', fleetlog.text(payload)), 'at', ts, 'model', 'm', 'version', '1', 'parameters', '{}'::jsonb, 'state_before', NULL) || p)))
	FROM (SELECT r.*, replay_dense(reading, NULL, NULL, ts) AS p FROM replay_reading r ORDER BY log_offset) x;
SELECT count(fleetlog.append('dense_response', 'k', pg_temp.json(jsonb_build_object('request', jsonb_build_object('shard', 0, 'offset', n), 'lease', n, 'by', 'model', 'response', jsonb_build_object('p', n % 100 / 100.0)))))
	FROM generate_series(0, :n - 1) n;
SELECT count(fleetlog.append('dense_decision', key, pg_temp.json(jsonb_build_object('loop', 'dense', 'policy_version', 1,
	'reading', jsonb_build_object('shard', shard, 'offset', log_offset, 'ts', ts), 'request', jsonb_build_object('shard', 0, 'offset', log_offset), 'response', jsonb_build_object('shard', 0, 'offset', log_offset), 'at', ts, 'state_before', NULL) || p)))
	FROM (SELECT r.*, replay_dense(reading, jsonb_build_object('p', log_offset % 100 / 100.0), NULL, ts) AS p FROM replay_reading r ORDER BY log_offset) x;
UPDATE fleetlog.loop_position SET log_offset = :n WHERE loop IN ('sparse', 'dense');
