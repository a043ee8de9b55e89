-- Shadow models: recorded requests to another model, its answers in a stream of their own, what the policy would have decided; and nothing else.
-- Records of the loop are written by hand in the forms of docs/design/decisions-loop.md; test/t/688_explain_shadow.pl has the runner's.
\set SHOW_CONTEXT never
CREATE ROLE shadow_model_role;
CREATE ROLE shadow_stranger;
SELECT fleetlog.create_stream('smr');
-- Closes from a risk of 5 on, and from 3 on when it has closed before; commands with it.
CREATE FUNCTION sm_policy(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	risk int := response ->> 'risk';
BEGIN
	IF response IS NULL THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('bar', fleetlog.json(reading.payload) -> 'bar'));
	ELSIF response -> 'unanswered' = 'true' THEN
		RETURN '{"decisions": [{"kind": "hold"}]}';
	ELSIF risk > 100 THEN
		RAISE EXCEPTION 'impossible risk';
	ELSIF risk < 1 THEN
		RETURN NULL;
	ELSIF risk >= 5 OR risk >= 3 AND (state ->> 'closed')::bool THEN
		RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('kind', 'close', 'hour', extract(hour FROM at))),
			'commands', jsonb_build_array(jsonb_build_object('device', reading.key, 'name', 'close', 'payload', '{}'::jsonb)), 'state', '{"closed": true}'::jsonb);
	END IF;
	RETURN '{"decisions": [{"kind": "leave"}]}';
END $$;
SELECT fleetlog.create_loop('sm', 'smr', 'sm_policy'::regproc, 'mill', '7', '{"t": 1}');
SELECT fleetlog.pause_loop('sm');
CREATE FUNCTION sm_request(key text, bar int, at timestamptz, before jsonb = NULL, copy bool = true) RETURNS bigint LANGUAGE sql AS $$
	SELECT (fleetlog.append('sm_request', key, convert_to(jsonb_build_object('loop', 'sm', 'policy_version', 1, 'reading', jsonb_build_object('shard', 0, 'offset', r.log_offset, 'ts', at)
			|| CASE WHEN copy THEN jsonb_build_object('key', key, 'payload', jsonb_build_object('bar', bar)::text) ELSE '{}' END,
		'at', at, 'model', 'mill', 'version', '7', 'parameters', '{"t": 1}'::jsonb, 'ask', jsonb_build_object('bar', bar), 'state_before', before)::text, 'UTF8'))).log_offset
	FROM fleetlog.append('smr', key, convert_to(jsonb_build_object('bar', bar)::text, 'UTF8')) r $$;
CREATE FUNCTION sm_decision(request bigint, body jsonb, at timestamptz, before jsonb = NULL) RETURNS bigint LANGUAGE sql AS $$
	SELECT (fleetlog.append('sm_decision', 'x', convert_to((jsonb_build_object('loop', 'sm', 'policy_version', 1, 'reading', '{}'::jsonb, 'request', jsonb_build_object('shard', 0, 'offset', request),
		'response', '{"shard": 0, "offset": 0}'::jsonb, 'at', at, 'state_before', before, 'decisions', '[]'::jsonb, 'commands', '[]'::jsonb) || body)::text, 'UTF8'))).log_offset $$;
SELECT sm_request('v1', 9, '2026-01-01 10:00Z'), sm_request('v2', 2, '2026-01-01 10:00Z'), sm_request('v1', 4, '2026-01-01 11:00Z', '{"closed": true}'),
	sm_request('v3', 0, '2026-01-01 11:00Z'), sm_request('v2', 9, '2026-01-01 12:00Z', copy => false);
SELECT sm_decision(0, '{"decisions": [{"kind": "close", "hour": 10}], "commands": [{"id": "00000000-0000-4000-8000-000000000009", "device": "v1", "name": "close", "payload": {}}]}', '2026-01-01 10:00:05Z'),
	sm_decision(1, '{"decisions": [{"kind": "leave"}]}', '2026-01-01 10:00:05Z'),
	sm_decision(2, '{"decisions": [{"kind": "close", "hour": 11}], "commands": [{"id": "00000000-0000-4000-8000-000000000008", "device": "v1", "name": "close", "payload": {}}]}', '2026-01-01 11:00:05Z', '{"closed": true}'),
	sm_decision(4, '{"decisions": [{"kind": "close", "hour": 12}], "commands": [{"id": "00000000-0000-4000-8000-000000000007", "device": "v2", "name": "close", "payload": {}}]}', '2026-01-01 12:00:05Z');
-- Refused.
SELECT fleetlog.create_shadow_model('none', 'mk2', 'mill', '8');
SELECT fleetlog.create_shadow_model('sm', 'a b', 'mill', '8');
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', NULL);
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', responses => 'sm_response');
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', responses => 'smr');
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', ranges => '{"1": [[0, 1]]}');
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', ranges => '{"0": [[2, 1]]}');
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', ranges => '{"0": [[0, 4], [3, null]]}');
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', ranges => '[]');
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', ranges => '{}', to_ts => now());
SELECT count(*) FROM fleetlog.shadow_model;
SELECT * FROM fleetlog.next_shadow_request('sm', 'mk2');
SELECT * FROM fleetlog.compare_shadow_model('sm', 'mk2');
SELECT fleetlog.drop_shadow_model('sm', 'mk2');
-- All that is recorded, and what comes.
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8', from_ts => '-infinity', max_attempts => 2);
SELECT loop, name, model, version, parameters, max_attempts, requests, responses FROM fleetlog.shadow_model;
SELECT fleetlog.create_shadow_model('sm', 'mk2', 'mill', '8');
SELECT shard, from_offset, to_offset, next_offset, lag, pending, leased, gone FROM fleetlog.stat_shadow_model;
CREATE TEMP TABLE sm_before AS SELECT s, fleetlog.tail(s, 0) AS tail FROM unnest(ARRAY['smr', 'sm_request', 'sm_response', 'sm_decision']::regclass[]) s;
CREATE TEMP TABLE sm_commands AS SELECT count(*) AS n FROM fleetlog.command;
-- Rights: to read the requests and to write the answers, and no more.
SET ROLE shadow_stranger;
SELECT * FROM fleetlog.next_shadow_request('sm', 'mk2');
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 0), 1, '{}');
SELECT fleetlog.drop_shadow_model('sm', 'mk2');
SELECT * FROM fleetlog.compare_shadow_model('sm', 'mk2');
SELECT fleetlog.create_shadow_model('sm', 'mine', 'mill', '8');
RESET ROLE;
GRANT SELECT ON sm_request TO shadow_model_role;
GRANT INSERT ON sm_shadow_mk2 TO shadow_model_role;
SET ROLE shadow_model_role;
SELECT request, model, version, parameters, (reading).key, fleetlog.json((reading).payload), ask, attempt, leased_until > now() AS leased FROM fleetlog.next_shadow_request('sm', 'mk2', 2);
SELECT request, lease AS l2 FROM fleetlog.next_shadow_request('sm', 'mk2') \gset
SELECT :'request';
-- Nothing that was not given, nothing twice.
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 4), 1, '{}');
\set VERBOSITY sqlstate
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 2), :l2 + 1000, '{}');
\set VERBOSITY default
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_decision', 0, 2), :l2, '{}');
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 2), :l2, NULL);
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 2), :l2, '{"risk": 2}');
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 2), :l2, '{"risk": 9}');
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 0), :l2 - 2, '{"risk": 9}'), fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 1), :l2 - 1, '{"risk": 7}');
-- Given back, then given again, then unanswered; a lease that has ended, likewise.
SELECT request, lease AS l3, attempt FROM fleetlog.next_shadow_request('sm', 'mk2') \gset
SELECT fleetlog.fail_shadow_request('sm', 'mk2', ROW('sm_request', 0, 3), :l3, 'out of memory');
SELECT lease AS l3b, attempt FROM fleetlog.next_shadow_request('sm', 'mk2', lease_time => '1 us') \gset
SELECT :attempt, fleetlog.fail_shadow_request('sm', 'mk2', ROW('sm_request', 0, 3), :l3, 'late') AS other_lease;
SELECT request, attempt, (reading).key, fleetlog.json((reading).payload), lease AS l4 FROM fleetlog.next_shadow_request('sm', 'mk2') \gset
SELECT :'request', :attempt;
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 3), :l3b, '{"risk": 9}');
SELECT fleetlog.answer_shadow('sm', 'mk2', ROW('sm_request', 0, 4), :l4, '{"risk": 101}');
SELECT count(*) FROM fleetlog.next_shadow_request('sm', 'mk2');
RESET ROLE;
SELECT log_offset, key, fleetlog.json(payload) - 'lease' AS answer FROM sm_shadow_mk2 ORDER BY 1;
SELECT shard, from_offset, to_offset, next_offset, lag, pending, leased, gone FROM fleetlog.stat_shadow_model;
-- What was decided, and what would have been: the state before, and the time, are the recorded ones.
SELECT request, key, verdict, recorded_kind, shadow_kind, recorded, shadow, response, reason FROM fleetlog.shadow_decisions('sm', 'mk2');
SELECT part, CASE WHEN part = 'time' THEN 'now' ELSE item END AS item, compared, same, agreement, detail #- '{ts}' AS detail FROM fleetlog.compare_shadow_model('sm', 'mk2', differences => 2, bucket => '1 day') ORDER BY array_position('{all,kind,key,time,difference}', part), 2;
SELECT part, compared, same FROM fleetlog.compare_shadow_model('sm', 'mk2', from_ts => now() + interval '1 h');
-- A policy of today is compared by the text that asked.
CREATE OR REPLACE FUNCTION sm_policy(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT '{"decisions": ["other"]}'::jsonb $$;
SELECT fleetlog.alter_loop('sm', policy => 'sm_policy'::regproc);
SELECT verdict, count(*) FROM fleetlog.shadow_decisions('sm', 'mk2') GROUP BY 1 ORDER BY 1;
-- One that the loop itself has not decided yet waits; live requests come.
SELECT sm_request('v4', 9, now());
INSERT INTO fleetlog.loop_request (loop, request_shard, request_offset, shard, log_offset, key, policy_version, reading, ask, asked_at)
	SELECT 'sm', 0, 5, 0, 5, 'v4', 1, r::fleetlog.log_record, '{}', now() FROM fleetlog.read('smr', 0, 5, 1) r;
SELECT fleetlog.answer_shadow('sm', 'mk2', request, lease, '{"risk": 9}') FROM fleetlog.next_shadow_request('sm', 'mk2', 10);
SELECT request, verdict, recorded_kind, shadow_kind FROM fleetlog.shadow_decisions('sm', 'mk2') WHERE key = 'v4';
DELETE FROM fleetlog.loop_request WHERE loop = 'sm';
SELECT request, verdict, recorded_kind, shadow_kind FROM fleetlog.shadow_decisions('sm', 'mk2') WHERE key = 'v4';
-- A range only; a record that is no request, and one that is gone, are none to give.
SELECT fleetlog.append('sm_request', 'v5', 'noise');
SELECT fleetlog.create_shadow_model('sm', 'range', 'mill', '9', '{"t": 2}', ranges => '{"0": [[0, 2], [4, 7]]}');
SELECT fleetlog.trim_head('sm_request', 0, 1, NULL);
SELECT request, parameters FROM fleetlog.next_shadow_request('sm', 'range', 10);
SELECT from_offset, to_offset, next_offset, lag, pending, leased, gone FROM fleetlog.stat_shadow_model WHERE name = 'range' ORDER BY 1;
-- A reading that was only referred to and is gone.
SELECT fleetlog.trim_head('smr', 0, 6, NULL);
SELECT request, verdict FROM fleetlog.shadow_decisions('sm', 'mk2') WHERE verdict = 'reading gone';
SELECT fleetlog.create_shadow_model('sm', 'late', 'mill', '9', ranges => '{"0": [[4, 5]]}', responses => fleetlog.create_stream('sm_own'));
SELECT count(*) FROM fleetlog.next_shadow_request('sm', 'late');
SELECT next_offset, pending, gone FROM fleetlog.stat_shadow_model WHERE name = 'late';
-- Nothing of the loop has been touched: no command, and what its streams have is what was written here.
SELECT count(*) = (SELECT n FROM sm_commands) AS no_command FROM fleetlog.command;
SELECT s, fleetlog.tail(s, 0) - tail AS written FROM sm_before ORDER BY s::text;
SELECT count(*) FROM fleetlog.loop_state WHERE loop = 'sm';
-- A policy that could write does not.
CREATE FUNCTION sm_writer(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	PERFORM fleetlog.append('public.smr', 'written', 'x');
	RETURN '{}';
END $$;
SELECT fleetlog.alter_loop('sm', policy => 'sm_writer'::regproc, replayable => false);
SELECT (fleetlog.append('sm_request', 'v6', convert_to('{"loop": "sm", "policy_version": 3, "reading": {"shard": 0, "offset": 9, "key": "v6"}, "ask": {}}', 'UTF8'))).log_offset;
SELECT fleetlog.answer_shadow('sm', 'mk2', request, lease, '{"risk": 9}') FROM fleetlog.next_shadow_request('sm', 'mk2', 10);
SELECT verdict, shadow_kind, reason FROM fleetlog.shadow_decisions('sm', 'mk2') WHERE key = 'v6';
SELECT count(*) FROM smr WHERE key = 'written';
-- Ended; with the loop, the others.
SELECT fleetlog.drop_shadow_model('sm', 'mk2');
SELECT fleetlog.drop_loop('sm');
SELECT (SELECT count(*) FROM fleetlog.shadow_model) + (SELECT count(*) FROM fleetlog.shadow_model_range) + (SELECT count(*) FROM fleetlog.shadow_model_request) AS left;
SELECT count(*) FROM sm_shadow_mk2;
SELECT fleetlog.drop_stream(s) FROM unnest(ARRAY['smr', 'sm_request', 'sm_response', 'sm_decision', 'sm_shadow_mk2', 'sm_shadow_range', 'sm_own']::regclass[]) s;
DROP FUNCTION sm_policy, sm_writer, sm_request, sm_decision;
DROP ROLE shadow_model_role, shadow_stranger;
