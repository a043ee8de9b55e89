-- D2: decision loops as objects: what is made, refused, changed, dropped; leases and answers.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
SELECT fleetlog.create_stream('lp');
CREATE FUNCTION pol(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF response IS NULL THEN
		RETURN jsonb_build_object('ask', jsonb_build_object('value', fleetlog.json(reading.payload)));
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(response), 'state', coalesce(state, '0')::int + 1);
END $$;
CREATE FUNCTION pol_stable(fleetlog.log_record, jsonb, jsonb, timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $$ SELECT jsonb_build_object('decisions', jsonb_build_array(now())) $$;
CREATE FUNCTION pol_wrong(fleetlog.log_record, jsonb, jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT '{}'::jsonb $$;
-- How a policy is called: it can write nothing, and one that is to be replayed reads its arguments only.
CREATE TABLE lp_t (i int);
CREATE FUNCTION lp_helper(i int) RETURNS int LANGUAGE sql STABLE AS $$ SELECT i + 1 $$;
CREATE FUNCTION lp_liar() RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT now() $$;
CREATE FUNCTION lp_call(body text, volatility text = 'IMMUTABLE', replayable bool = true, state jsonb = NULL) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE OR REPLACE FUNCTION lp_p(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql %s AS %L', volatility, body);
	RETURN fleetlog._loop_policy_call('lp_p'::regproc, replayable, (0, 7, '2026-01-01Z', NULL, 'acme', 'd1', 'k', 'k', NULL, '{"v": 1}')::fleetlog.log_record, NULL, state, '2026-01-02Z');
END $$;
SELECT lp_call('BEGIN RETURN jsonb_build_object(''v'', fleetlog.json(reading.payload), ''at'', at, ''text'', at::text, ''state'', state); END', state => '{"n": 1}');
SELECT lp_call('BEGIN RETURN NULL; END');
SELECT lp_call('BEGIN RETURN to_jsonb(now()); END');
SELECT lp_call('BEGIN RETURN to_jsonb(clock_timestamp()); END');
SELECT lp_call('BEGIN RETURN to_jsonb(current_date); END');
SELECT lp_call('BEGIN RETURN to_jsonb(random()); END');
SELECT lp_call('BEGIN RETURN to_jsonb(current_setting(''work_mem'')); END');
SELECT lp_call('BEGIN RETURN (SELECT to_jsonb(count(*)) FROM public.lp_t); END');
SELECT lp_call('BEGIN RETURN to_jsonb(public.lp_helper(1)); END');
SELECT lp_call('BEGIN RETURN to_jsonb(public.lp_liar()); END');
SELECT lp_call('DECLARE r record; BEGIN FOR r IN EXECUTE ''SELECT now() AS n'' LOOP RETURN to_jsonb(r.n); END LOOP; END');
SELECT lp_call('BEGIN RETURN (SELECT jsonb_agg(x ORDER BY x) FROM generate_series(1, 3) x); END');
SELECT lp_call('BEGIN RETURN (SELECT to_jsonb(count(*)) FROM public.lp_t); END', 'STABLE', false);
SELECT lp_call('BEGIN INSERT INTO public.lp_t VALUES (1); RETURN NULL; END');
SELECT lp_call('BEGIN INSERT INTO public.lp_t VALUES (1); RETURN NULL; END', 'VOLATILE', false);
SELECT lp_call('BEGIN SET transaction_read_only = off; INSERT INTO public.lp_t VALUES (1); RETURN NULL; END', 'VOLATILE', false);
SELECT lp_call('BEGIN CREATE TEMP TABLE lp_temp (i int); RETURN NULL; END', 'VOLATILE', false);
SELECT lp_call('BEGIN RETURN to_jsonb(1 / 0); END');
INSERT INTO lp_t VALUES (2);
SELECT count(*) FROM lp_t;
-- A copy of a reading is the reading.
SELECT fleetlog.append('lp', 'a/b', '\x00ff', headers => '[["x","1"]]');
SELECT r.payload, r.key_bytes, r.headers FROM fleetlog._loop_reading('{"shard": 0, "offset": 1, "key": "ü", "headers": [["x", "1"]], "payload_base64": "AP8="}') r;
DROP FUNCTION lp_call, lp_p, lp_helper, lp_liar;
DROP TABLE lp_t;
-- Refused.
SELECT fleetlog.create_loop('a b', 'lp', 'pol'::regproc, 'm', '1');
SELECT fleetlog.create_loop('l1', 'lp', 'pol_wrong'::regproc, 'm', '1');
SELECT fleetlog.create_loop('l1', 'lp', 'pol_stable'::regproc, 'm', '1');
SELECT fleetlog.create_loop('l1', 'lp', 'pol'::regproc, 'm', '1', evidence => 'none');
SELECT fleetlog.create_loop('l1', 'lp', 'pol'::regproc, 'm', '1', decisions => 'lp');
SELECT fleetlog.create_loop('l1', 'pg_class', 'pol'::regproc, 'm', '1');
SELECT fleetlog.create_loop('l1', 'lp', 'pol'::regproc, 'm', '1', positions => '{"0": 7}');
SELECT count(*) FROM fleetlog.loop;
-- Made.
SELECT fleetlog.create_loop('l1', 'lp', 'pol'::regproc, 'm', '1', '{"t": 1}');
SELECT loop, source, policy, policy_version, model, model_version, parameters, replayable, evidence, max_attempts, paused, requests, responses, decisions FROM fleetlog.loop;
SELECT fleetlog.create_loop('l1', 'lp', 'pol'::regproc, 'm', '1');
SELECT fleetlog.create_loop('l2', 'lp', 'pol_stable'::regproc, 'm', '1', replayable => false, requests => 'l1_request');
SELECT fleetlog.create_loop('l2', 'lp', 'pol_stable'::regproc, 'm', '1', replayable => false);
SELECT replayable FROM fleetlog.loop WHERE loop = 'l2';
-- The text is the loop's own: the function may change or go.
CREATE OR REPLACE FUNCTION pol(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT '{}'::jsonb $$;
SELECT fleetlog.alter_loop('l1', policy => 'pol'::regproc, version => '2');
DROP FUNCTION pol;
SELECT policy_version, function, language, model_version, fleetlog._loop_policy_function(loop, policy_version) IS NOT NULL AS there FROM fleetlog.loop_policy WHERE loop = 'l1' ORDER BY 1;
DROP FUNCTION fleetlog._policy_l1_1;
SELECT fleetlog._loop_policy_function('l1', 1);
SELECT fleetlog._policy_l1_1(NULL::fleetlog.log_record, NULL, NULL, now());
SELECT fleetlog.alter_loop('l1', max_attempts => 2, answer_timeout => '1 min');
SELECT policy_version, max_attempts, answer_timeout FROM fleetlog.loop WHERE loop = 'l1';
SELECT fleetlog.alter_loop('none');
-- Paused, resumed, dropped; streams stay.
SELECT fleetlog.pause_loop('l1');
SELECT paused FROM fleetlog.loop WHERE loop = 'l1';
SELECT fleetlog.resume_loop('l1');
CREATE ROLE loop_stranger;
GRANT fleetlog_admin TO loop_stranger;
SET ROLE loop_stranger;
SELECT fleetlog.drop_loop('l1');
SELECT * FROM fleetlog.next_request('l1');
SELECT fleetlog.create_loop('l3', 'lp', 'fleetlog._policy_l1_1'::regproc, 'm', '1', requests => 'l1_request', responses => 'l1_response', decisions => 'l1_decision');
RESET ROLE;
DROP ROLE loop_stranger;
SELECT * FROM fleetlog.next_request('l1');
SELECT * FROM fleetlog.next_request('l1', 0);
SELECT fleetlog.answer(ROW('l1_request', 0, 0)::fleetlog.log_position, NULL, '{}');
SELECT fleetlog.answer(ROW('lp', 0, 0)::fleetlog.log_position, NULL, '{}');
SELECT fleetlog.drop_loop('l1'), fleetlog.drop_loop('l2');
SELECT proname FROM pg_proc WHERE proname LIKE '\_policy\_l%' ORDER BY 1;
SELECT count(*) FROM fleetlog.loop_position;
SELECT fleetlog.drop_stream('l1_request'), fleetlog.drop_stream('l1_response'), fleetlog.drop_stream('l1_decision'), fleetlog.drop_stream('lp'),
	fleetlog.drop_stream('l2_request'), fleetlog.drop_stream('l2_response'), fleetlog.drop_stream('l2_decision');
