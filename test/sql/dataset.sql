-- D6: named data sets: counted, hashed, held, exported, verified, linked to models.
SET timezone = 'UTC';
\set SHOW_CONTEXT never
SELECT fleetlog.create_stream('ds', shards => 2) IS NULL AS failed;
SELECT count(fleetlog.append('ds', CASE WHEN n % 5 = 0 THEN NULL ELSE 'k' || n END, CASE WHEN n % 7 = 0 THEN NULL ELSE decode(repeat(md5(n::text), n % 40), 'hex') END,
	headers => CASE WHEN n % 3 = 0 THEN fleetlog.headers('{"a": "b", "c": "d"}') END, shard => n % 2, created => CASE WHEN n % 4 = 0 THEN '2026-01-01'::timestamptz END))
	FROM generate_series(1, 3000) n;
-- The hash is one that anybody can compute from the columns.
CREATE FUNCTION field(bytes bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN bytes IS NULL THEN int4send(-1) ELSE int4send(octet_length(bytes)) || bytes END $$;
CREATE FUNCTION hash_of(condition text, OUT records bigint, OUT content_hash text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'SELECT count(*), encode(sha256(string_agg(field(int4send(shard)) || field(int8send(log_offset)) || field(timestamptz_send(ts)) || field(timestamptz_send(created))
		|| field(textsend(tenant)) || field(textsend(device)) || field(textsend(key)) || field(key_bytes) || field(fleetlog.headers_send(headers)) || field(payload), ''''
		ORDER BY shard, log_offset)), ''hex'') FROM ds WHERE ' || condition INTO records, content_hash;
END $$;
SELECT records, content_hash AS made FROM fleetlog.create_dataset('train-1', 'ds', '{"1": [[100, 300], [250, 400]], "0": [[7, 8], [1000, 1500]]}', 'the first one') \gset
SELECT :records AS records, content_hash = :'made' AS same_hash FROM hash_of('shard = 1 AND log_offset >= 100 AND log_offset < 400 OR shard = 0 AND (log_offset = 7 OR log_offset >= 1000)');
SELECT ok, n FROM fleetlog.verify_dataset('train-1') v (ok, n, h) WHERE h = :'made';
SELECT name, stream, ranges, records, payload_bytes > 0 AS bytes, models, description, query FROM fleetlog.dataset;
-- Exported by COPY, and by the query that the view has.
CREATE TEMP TABLE copied (LIKE ds);
\copy (SELECT * FROM fleetlog.export_dataset('train-1')) TO PROGRAM 'cat > /tmp/fleetlog_dataset.copy'
\copy copied FROM PROGRAM 'cat /tmp/fleetlog_dataset.copy; rm /tmp/fleetlog_dataset.copy'
SELECT count(*), count(*) = :records AS same_count FROM copied;
SELECT count(*) AS differing FROM (SELECT * FROM copied EXCEPT SELECT * FROM fleetlog.export_dataset('train-1')) x;
-- Held: neither trim nor release nor drop of the stream takes it, and each says why.
\set VERBOSITY default
SELECT hold FROM fleetlog.dataset \gset
SELECT reason FROM fleetlog.stream_hold WHERE id = :hold;
\set VERBOSITY terse
SELECT fleetlog.trim_head('ds', 1, 100, NULL);
\set VERBOSITY sqlstate
SELECT fleetlog.trim_head('ds', 1, 101, NULL);
SELECT fleetlog.release_hold(:hold);
SELECT fleetlog.drop_stream('ds');
\set VERBOSITY default
-- Models.
SELECT fleetlog.link_dataset('train-1', 'valves', '7'), fleetlog.link_dataset('train-1', 'valves', '7'), fleetlog.link_dataset('train-1', 'valves', '8');
SELECT models FROM fleetlog.dataset;
SELECT fleetlog.unlink_dataset('train-1', 'valves', '7'), fleetlog.unlink_dataset('train-1', 'valves', '7');
SELECT fleetlog.alter_dataset('train-1', description => 'another text');
SELECT models, description FROM fleetlog.dataset;
-- Refused.
SELECT * FROM fleetlog.create_dataset('train-1', 'ds', '{"0": [[50, 60]]}');
SELECT * FROM fleetlog.create_dataset('a b', 'ds', '{"0": [[50, 60]]}');
SELECT * FROM fleetlog.create_dataset('n', 'ds', '{"0": [[50, 1501]]}');
SELECT * FROM fleetlog.create_dataset('n', 'ds', '{"0": [[50, null]]}');
SELECT * FROM fleetlog.create_dataset('n', 'ds', '{"1": [[50, 60]]}');
SELECT * FROM fleetlog.create_dataset('n', 'ds', '{"2": [[50, 60]]}');
SELECT * FROM fleetlog.create_dataset('n', 'ds', '{}');
SELECT * FROM fleetlog.create_dataset('n', 'pg_class', '{"0": [[50, 60]]}');
SELECT fleetlog.drop_dataset('none');
SELECT * FROM fleetlog.export_dataset('none');
SELECT count(*) FROM fleetlog.stream_hold;
-- Rights: the owner of the stream makes one, who reads the stream reads it, the owner of the data set ends it.
CREATE ROLE ds_reader;
CREATE ROLE ds_admin;
GRANT fleetlog_admin TO ds_admin;
SET ROLE ds_reader;
SELECT * FROM fleetlog.create_dataset('n', 'ds', '{"0": [[50, 60]]}');
SELECT * FROM fleetlog.export_dataset('train-1');
SELECT count(*) FROM fleetlog.dataset;
SELECT * FROM fleetlog._dataset_records('ds', '{"0": [[50, 60]]}');
RESET ROLE;
GRANT SELECT ON ds TO ds_reader, ds_admin;
SET ROLE ds_reader;
SELECT count(*) FROM fleetlog.export_dataset('train-1');
SELECT ok FROM fleetlog.verify_dataset('train-1');
SELECT * FROM fleetlog.dataset_config;
SET ROLE ds_admin;
SELECT * FROM fleetlog.create_dataset('n', 'ds', '{"0": [[50, 60]]}');
SELECT fleetlog.drop_dataset('train-1');
SELECT fleetlog.link_dataset('train-1', 'valves', '9');
SELECT fleetlog._dataset_register('n', 'ds', '{"0": [[50, 60]]}', 1, NULL);
RESET ROLE;
-- Who may see rows of one device only gets no data set.
ALTER TABLE ds ENABLE ROW LEVEL SECURITY;
CREATE POLICY none ON ds FOR SELECT TO ds_reader USING (false);
SET ROLE ds_reader;
SELECT count(*) FROM fleetlog.export_dataset('train-1');
RESET ROLE;
ALTER TABLE ds DISABLE ROW LEVEL SECURITY;
-- Dropped: its records go like any others.
SELECT fleetlog.drop_dataset('train-1');
SELECT count(*) FROM fleetlog.dataset_model;
SELECT fleetlog.trim_head('ds', 1, 101, NULL);
SELECT fleetlog.drop_stream('ds');
DROP FUNCTION field, hash_of;
DROP OWNED BY ds_admin, ds_reader;
DROP ROLE ds_reader, ds_admin;
