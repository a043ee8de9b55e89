-- explain_decision: the chain of a decision, from its position and from a device and a time; rights; what retention has taken.
-- Records are written by hand in the forms of docs/design/decisions-loop.md; test/t/688_explain_shadow.pl has the runner's.
\set SHOW_CONTEXT never
CREATE ROLE explain_reader;
SELECT fleetlog.create_tenant('exa', 'exa/'), fleetlog.create_tenant('exb', 'exb/');
SELECT fleetlog.create_device(d, t, password => 'secret') FROM (VALUES ('exa', 's1'), ('exa', 'valve-7'), ('exb', 's1')) v(t, d);
SELECT fleetlog.create_stream('exr', shards => 2);
CREATE FUNCTION ex_policy(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT '{}'::jsonb $$;
SELECT fleetlog.create_loop('ex', 'exr', 'ex_policy'::regproc, 'mill', '7', '{"t": 1}');
SELECT fleetlog.pause_loop('ex');
-- What a runner writes for a reading that asked, was answered and sent a command.
CREATE FUNCTION ex_chain(tenant text, device text, said jsonb, commands jsonb = '[]', copy bool = true) RETURNS fleetlog.log_position LANGUAGE plpgsql AS $$
DECLARE
	r fleetlog.log_position := fleetlog.append('exr', tenant || '/press', '{"bar": 4}', device => device, tenant => tenant, shard => 0);
	key text := tenant || '/' || device;
	at jsonb := jsonb_build_object('shard', r.shard, 'offset', r.log_offset, 'ts', now());
	full_reading jsonb := at || CASE WHEN copy THEN jsonb_build_object('tenant', tenant, 'device', device, 'key', tenant || '/press', 'payload', '{"bar": 4}') ELSE '{}' END;
	q fleetlog.log_position;
	a fleetlog.log_position;
	d fleetlog.log_position;
BEGIN
	q := fleetlog.append('ex_request', key, convert_to(jsonb_build_object('loop', 'ex', 'policy_version', 1, 'reading', full_reading, 'at', now(), 'model', 'mill', 'version', '7',
		'parameters', '{"t": 1}'::jsonb, 'ask', jsonb_build_object('bar', 4), 'state_before', '{"n": 1}'::jsonb)::text, 'UTF8'), shard => 0);
	a := fleetlog.append('ex_response', key, convert_to((jsonb_build_object('request', jsonb_build_object('shard', q.shard, 'offset', q.log_offset)) || said)::text, 'UTF8'), shard => 1);
	d := fleetlog.append('ex_decision', key, convert_to(jsonb_build_object('loop', 'ex', 'policy_version', 1, 'reading', at, 'request',
		jsonb_build_object('shard', q.shard, 'offset', q.log_offset), 'response', jsonb_build_object('shard', a.shard, 'offset', a.log_offset), 'at', now(),
		'state_before', '{"n": 1}'::jsonb, 'state', '{"n": 2}'::jsonb, 'decisions', jsonb_build_array('close'), 'commands', commands)::text, 'UTF8'), shard => 1,
		tenant => tenant, device => device);
	PERFORM fleetlog._loop_link(d.stream, d.shard, d.log_offset, d.log_offset + 1);
	RETURN d;
END $$;
INSERT INTO fleetlog.command (id, tenant, device, name, payload, state, issued_by, issued_login, issued_at, expires_at, answer_timeout, finished_at, answered_at, answer, shard, log_offset)
	VALUES ('00000000-0000-4000-8000-000000000001', 'exa', 'valve-7', 'close', '{"valve": 7}', 'succeeded', 'x', 'x', now(), '2100-01-01', '1 min', now(), now(), '{"angle": 0}', 0, 1000000);
INSERT INTO fleetlog.command_event (command, tenant, at, event, detail, shard, log_offset)
	SELECT '00000000-0000-4000-8000-000000000001', 'exa', now(), e.e, e.d, e.s, e.o
	FROM (VALUES ('pending', NULL, NULL, NULL), ('sent', NULL, 0, 1000000), ('delivered', NULL, 0, 1000001), ('acknowledged', 'turning', 0, 1000002), ('succeeded', NULL, 0, 1000003)) e(e, d, s, o);
SELECT ex_chain('exa', 's1', '{"lease": 5, "by": "milly", "response": {"p": 0.9}}',
	'[{"id": "00000000-0000-4000-8000-000000000001", "device": "valve-7", "name": "close", "payload": {"valve": 7}, "ttl": "1 min"}]');
SELECT ex_chain('exb', 's1', '{"unanswered": true, "attempts": 3, "error": "no idea"}', '[{"id": "nonsense", "device": "exb/nobody", "name": "open", "payload": {}}]');
SELECT ex_chain('exa', 's1', '{"response": {"p": 0.1}}', copy => false);
-- The chain.
SELECT step, ts IS NOT NULL AS at, "position", what, detail FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0));
SELECT step, ts IS NOT NULL AS at, "position", what, detail FROM fleetlog.explain_decision(ROW('ex_decision', 1, 1));
-- One call without a request.
SELECT fleetlog.append('ex_decision', 'exa/s1', '{"loop": "ex", "policy_version": 1, "reading": {"shard": 0, "offset": 0, "ts": "2020-01-01T00:00:00Z", "tenant": "exa", "device": "s1", "key": "exa/press", "payload": "x"}, "at": "2020-01-01T00:00:00Z", "decisions": ["as ever"], "commands": []}', shard => 0);
SELECT fleetlog._loop_link('ex_decision', 0, 0, 1), fleetlog._loop_link('ex_decision', 0, 0, 1) AS again;
SELECT step, "position", what, detail FROM fleetlog.explain_decision(ROW('ex_decision', 0, 0));
-- From a device and a time: the one that was read and the one that was commanded.
SELECT stream, shard, log_offset, tenant, device FROM fleetlog.loop_decision_link ORDER BY 1, 2, 3, 4, 5;
SELECT step, what, of_decision FROM fleetlog.explain_decision('exa/valve-7', now());
SELECT step, of_decision FROM fleetlog.explain_decision('valve-7', now() + interval '2 h', '3 h') WHERE step IN ('reading', 'decision');
SELECT count(*) FROM fleetlog.explain_decision('exa/s1', now());
SELECT count(*) FROM fleetlog.explain_decision('exa/s1', now() - interval '1 h');
SELECT count(*) FROM fleetlog.explain_decision('exa/none', now());
SELECT * FROM fleetlog.explain_decision('s1', now());
SELECT * FROM fleetlog.explain_decision('s1', NULL);
SELECT * FROM fleetlog.explain_decision('s1', now(), '-1 s');
-- Not a decision.
SELECT * FROM fleetlog.explain_decision(NULL);
SELECT * FROM fleetlog.explain_decision(ROW('pg_class', 0, 0));
SELECT * FROM fleetlog.explain_decision(ROW('ex_decision', 0, 99));
SELECT * FROM fleetlog.explain_decision(ROW('ex_decision', 9, 0));
SELECT * FROM fleetlog.explain_decision(ROW('exr', 0, 0));
-- Rights are the streams', and the command's.
SET ROLE explain_reader;
SELECT * FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0));
SELECT count(*) FROM fleetlog.loop_decision_link;
SELECT count(*) FROM fleetlog.explain_decision('exa/valve-7', now());
RESET ROLE;
GRANT SELECT ON ex_decision, ex_response TO explain_reader;
SET ROLE explain_reader;
SELECT step, what, detail FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0));
RESET ROLE;
-- Row-level rules of a stream of decisions hold for its links and chains.
GRANT SELECT ON exr, ex_request TO explain_reader;
ALTER TABLE ex_decision ENABLE ROW LEVEL SECURITY;
CREATE POLICY b ON ex_decision FOR SELECT USING (tenant = 'exb');
SET ROLE explain_reader;
SELECT stream, shard, log_offset, tenant, device FROM fleetlog.loop_decision_link ORDER BY 1, 2, 3, 4, 5;
SELECT count(*) FROM fleetlog.explain_decision('exa/valve-7', now());
SELECT * FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0));
SELECT step, what FROM fleetlog.explain_decision('s1', now());
RESET ROLE;
ALTER TABLE ex_decision DISABLE ROW LEVEL SECURITY;
-- Readings that retention has taken: told from the copy, else gone.
SELECT fleetlog.trim_head('exr', 0, 3, NULL);
SELECT "position", what, detail FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0)) WHERE step = 'reading';
SELECT "position", what, detail FROM fleetlog.explain_decision(ROW('ex_decision', 1, 2)) WHERE step = 'reading';
-- Explained also when the loop is no more.
SELECT fleetlog.drop_loop('ex');
SELECT step, "position" FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0)) WHERE step IN ('reading', 'request', 'response', 'decision');
SELECT fleetlog.drop_stream('ex_response');
SELECT step, what FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0)) WHERE step = 'response';
-- Links go with the records: below the head, and with the stream.
SELECT fleetlog.trim_head('ex_decision', 1, 2, NULL);
SELECT * FROM fleetlog.explain_decision(ROW('ex_decision', 1, 0));
SELECT count(*) FROM fleetlog.explain_decision('exa/valve-7', now());
SELECT fleetlog._loop_link('ex_decision', 1, 3, 3);
SELECT stream, shard, log_offset, tenant, device FROM fleetlog.loop_decision_link ORDER BY 1, 2, 3, 4, 5;
SELECT fleetlog.drop_stream('ex_decision'), fleetlog.drop_stream('ex_request'), fleetlog.drop_stream('exr');
SELECT count(*) FROM fleetlog.loop_decision_link;
SELECT count(*) FROM fleetlog.loop_decision_stream;
-- A year of a fleet: the chain of one device is found through its index, with few pages, however much there is of others.
SELECT fleetlog.create_stream('exy');
CREATE FUNCTION ex_pages() RETURNS TABLE (stream numeric, links numeric) LANGUAGE sql AS $$
	SELECT (SELECT sum(pg_stat_get_xact_blocks_fetched(t.relid)) FROM pg_partition_tree('exy') t),
		(SELECT sum(pg_stat_get_xact_blocks_fetched(c)) FROM (SELECT 'fleetlog.loop_decision_link'::regclass UNION SELECT indexrelid FROM pg_index
			WHERE indrelid = 'fleetlog.loop_decision_link'::regclass) x(c)) $$;
SELECT count(fleetlog.append('exy', 'exa/d' || g % 2000, convert_to(format('{"loop": "ex", "policy_version": 1, "reading": {"shard": 0, "offset": %s, "tenant": "exa", "device": "d%s", "key": "%s"}, "decisions": ["x"]}',
	g, g % 2000, repeat(md5(g::text), 10)), 'UTF8'))) FROM generate_series(1, 20000) g;
SELECT fleetlog._loop_link('exy', 0, 0, 20000);
-- As if they had come over a year.
UPDATE fleetlog.loop_decision_link SET ts = ts - interval '1 year' * (1 - log_offset / 20000.0) WHERE stream = 'exy'::regclass;
ANALYZE fleetlog.loop_decision_link;
EXPLAIN (COSTS OFF) SELECT * FROM fleetlog.loop_decision_link k WHERE k.device = 'd77' AND k.tenant = 'exa' AND k.ts BETWEEN now() - interval '1 year' AND now();
VACUUM ANALYZE fleetlog.loop_decision_link;
-- Counts of a session may grow over transactions: differences tell.
BEGIN;
SELECT stream AS s0, links AS l0 FROM ex_pages() \gset
SELECT count(*), count(*) FILTER (WHERE step = 'decision') AS decisions FROM fleetlog.explain_decision('exa/d77', now() - interval '6 months', '7 months');
SELECT stream AS s1, links AS l1 FROM ex_pages() \gset
SELECT count(*) FILTER (WHERE step = 'decision') AS decisions FROM fleetlog.explain_decision('exa/d77', now() - interval '6 months', '30 days');
SELECT stream AS s2, links AS l2 FROM ex_pages() \gset
SELECT count(payload) FROM exy;
SELECT stream AS s3 FROM ex_pages() \gset
COMMIT;
SELECT :s1 - :s0 BETWEEN 10 AND (:s3 - :s2) / 4 AS year, :l1 - :l0 < 40 AS year_links, :s2 - :s1 BETWEEN 1 AND (:s1 - :s0) / 5 AS one, :l2 - :l1 < 20 AS one_links;
SELECT fleetlog.drop_stream('exy');
DROP FUNCTION ex_chain, ex_policy, ex_pages;
SELECT count(fleetlog.drop_device(tenant || '/' || id)) FROM fleetlog.device WHERE tenant LIKE 'ex_';
DELETE FROM fleetlog.command WHERE tenant LIKE 'ex_';
DELETE FROM fleetlog.command_event WHERE tenant LIKE 'ex_';
SELECT fleetlog.drop_tenant('exa'), fleetlog.drop_tenant('exb');
DELETE FROM fleetlog.audit;
DROP ROLE explain_reader;
