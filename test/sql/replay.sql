-- D3, D6: replay over records in the documented forms, written here as the runner would; evidence and pins.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET timezone = 'UTC';
SELECT fleetlog.create_stream('rp') IS NULL AS failed;
SELECT count(fleetlog.append('rp', 'valve-' || n % 5, convert_to(format('{"v": %s}', (n * 37) % 150), 'UTF8'), headers => CASE WHEN n % 4 = 0 THEN fleetlog.headers('{"unit": "bar"}') END)) FROM generate_series(1, 300) n;
-- Above 100 the model is asked, above 70 it is decided; the state counts readings of a key.
CREATE FUNCTION rp_policy(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN response IS NOT NULL THEN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('close', coalesce((response ->> 'p')::float8 > 0.5, false), 'n', (state ->> 'n')::int, 'at', at)),
			'commands', CASE WHEN (response ->> 'p')::float8 > 0.5 THEN jsonb_build_array(jsonb_build_object('device', reading.key, 'name', 'close', 'payload', response)) ELSE '[]' END)
		WHEN (fleetlog.json(reading.payload) ->> 'v')::int > 100 THEN jsonb_build_object('ask', jsonb_build_object('v', fleetlog.json(reading.payload) -> 'v'), 'state', jsonb_build_object('n', coalesce((state ->> 'n')::int, 0) + 1))
		WHEN (fleetlog.json(reading.payload) ->> 'v')::int > 70 THEN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('warn', fleetlog.json(reading.payload) -> 'v', 'unit', reading.headers ->> 'unit')), 'state', jsonb_build_object('n', coalesce((state ->> 'n')::int, 0) + 1))
		ELSE jsonb_build_object('state', jsonb_build_object('n', coalesce((state ->> 'n')::int, 0) + 1))
	END $$;
-- What the runner does, one reading after the other, with a model that says something else each time.
CREATE TABLE rp_state (key text PRIMARY KEY, state jsonb);
CREATE FUNCTION rp_copy(r fleetlog.log_record, evidence text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE WHEN evidence = 'copy' THEN jsonb_strip_nulls(jsonb_build_object('shard', r.shard, 'offset', r.log_offset, 'ts', r.ts, 'created', r.created, 'tenant', r.tenant, 'device', r.device,
		'key', r.key, 'headers', r.headers::text::jsonb, 'payload', fleetlog.text(r.payload)))
	ELSE jsonb_build_object('shard', r.shard, 'offset', r.log_offset, 'ts', r.ts) END $$;
CREATE FUNCTION rp_add(stream regclass, key text, body jsonb) RETURNS fleetlog.log_position LANGUAGE sql AS $$ SELECT fleetlog.append(stream, key, convert_to(body::text, 'UTF8')) $$;
CREATE FUNCTION rp_turn(l text, upto bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	c fleetlog.loop_config;
	r fleetlog.log_record;
	s jsonb; s2 jsonb; res jsonb; ans jsonb; q fleetlog.log_position; a fleetlog.log_position; base jsonb; at timestamptz;
	f regprocedure;
	v int;
BEGIN
	SELECT * INTO c FROM fleetlog.loop_config WHERE loop = l;
	FOR r IN SELECT x.* FROM fleetlog.loop_position p, fleetlog.read(c.source, 0, p.log_offset, (upto - p.log_offset)::int) x WHERE p."loop" = l ORDER BY x.log_offset LOOP
		SELECT policy_version INTO v FROM fleetlog.loop_policy_range WHERE loop = l AND from_offset <= r.log_offset ORDER BY policy_version DESC LIMIT 1;
		f := fleetlog._loop_policy_function(l, v);
		s := (SELECT state FROM rp_state WHERE key = l || r.key);
		EXECUTE format('SELECT %s($1, NULL, $2, $3)', f::regproc) INTO res USING r, s, r.ts;
		base := jsonb_build_object('loop', l, 'policy_version', v, 'reading', rp_copy(r, c.evidence), 'at', r.ts, 'state_before', s) || CASE WHEN res ? 'state' THEN jsonb_build_object('state', res -> 'state') ELSE '{}' END;
		s2 := coalesce(res -> 'state', s);
		IF jsonb_array_length(coalesce(res -> 'decisions', '[]')) + jsonb_array_length(coalesce(res -> 'commands', '[]')) > 0 THEN
			PERFORM rp_add(c.decisions, r.key, base || jsonb_build_object('decisions', coalesce(res -> 'decisions', '[]'), 'commands', coalesce(res -> 'commands', '[]')));
		END IF;
		IF res ->> 'ask' IS NOT NULL THEN
			q := rp_add(c.requests, r.key, base || jsonb_build_object('model', 'm', 'version', '1', 'parameters', '{}'::jsonb, 'ask', res -> 'ask'));
			-- A late second answer is no answer; every tenth request gets none.
			ans := CASE WHEN random() < 0.1 THEN '{"unanswered": true}'::jsonb ELSE jsonb_build_object('p', random()) END;
			a := rp_add(c.responses, r.key, jsonb_build_object('request', jsonb_build_object('shard', q.shard, 'offset', q.log_offset)) || CASE WHEN ans ? 'unanswered' THEN ans || '{"attempts": 3}' ELSE jsonb_build_object('lease', 1, 'response', ans) END);
			PERFORM rp_add(c.responses, r.key, jsonb_build_object('request', format('%s:%s', q.shard, q.log_offset), 'response', '{"p": 7}'::jsonb));
			at := clock_timestamp();
			EXECUTE format('SELECT %s($1, $2, $3, $4)', f::regproc) INTO res USING r, ans, s2, at;
			PERFORM rp_add(c.decisions, r.key, jsonb_build_object('loop', l, 'policy_version', v, 'reading', rp_copy(r, 'reference'), 'request', jsonb_build_object('shard', q.shard, 'offset', q.log_offset),
				'response', jsonb_build_object('shard', a.shard, 'offset', a.log_offset), 'at', at, 'state_before', s2, 'decisions', res -> 'decisions',
				'commands', (SELECT coalesce(jsonb_agg(x || jsonb_build_object('id', gen_random_uuid(), 'ttl', NULL)), '[]') FROM jsonb_array_elements(res -> 'commands') x)));
		END IF;
		INSERT INTO rp_state VALUES (l || r.key, s2) ON CONFLICT (key) DO UPDATE SET state = excluded.state;
		UPDATE fleetlog.loop_position SET log_offset = r.log_offset + 1 WHERE loop = l;
	END LOOP;
END $$;
CREATE FUNCTION rp_make(l text, evidence text, positions jsonb = '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM fleetlog.create_loop(l, 'rp', 'rp_policy'::regproc, 'm', '1', positions => positions, evidence => evidence);
	PERFORM fleetlog.pause_loop(l);
END $$;
SELECT rp_make('rc', 'copy'), rp_make('rr', 'reference');
SELECT rp_turn('rc', 200), rp_turn('rr', 200);
-- Every decision comes out again, though the model never would.
SELECT verdict, count(*) = (SELECT count(*) FROM rc_decision) AS all, count(DISTINCT decision) = count(*) AS once, bool_and(recorded = replayed) AS equal, max(reason) FROM fleetlog.replay('rc') GROUP BY 1;
SELECT verdict, count(*) = (SELECT count(*) FROM rr_decision) AS all FROM fleetlog.replay('rr') GROUP BY 1;
SELECT recorded FROM fleetlog.replay('rc') WHERE recorded ? 'state' ORDER BY (decision).log_offset LIMIT 3;
-- The policy changes; what was decided before is replayed with the old text.  The original is gone.
CREATE OR REPLACE FUNCTION rp_policy(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('new', fleetlog.json(reading.payload) -> 'v', 'n', coalesce((state ->> 'n')::int, 0))));
END $$;
SELECT verdict, count(*) > 0 AS some FROM fleetlog.replay('rc') GROUP BY 1;
SELECT fleetlog.alter_loop('rc', policy => 'rp_policy'::regproc);
SELECT rp_turn('rc', 250);
SELECT verdict, count(*) = (SELECT count(*) FROM rc_decision) AS all, count(*) FILTER (WHERE recorded -> 'decisions' -> 0 ? 'new') AS new FROM fleetlog.replay('rc') GROUP BY 1;
-- Ranges, times and data sets.
SELECT verdict, count(*) FROM fleetlog.replay('rc', ranges => '{"0": [[200, 205], [203, 210], [249, 900]]}') GROUP BY 1;
SELECT ts AS t0 FROM rp WHERE log_offset = 200 \gset
SELECT verdict, count(*) >= 50 AS enough FROM fleetlog.replay('rc', from_ts => :'t0') GROUP BY 1;
SELECT count(*) FROM fleetlog.replay('rc', to_ts => '2000-01-01');
SELECT count(*) FROM fleetlog.replay('rc', from_ts => now() + interval '1 day');
SELECT records FROM fleetlog.create_dataset('rp-set', 'rp', '{"0": [[205, 215]]}');
SELECT verdict, count(*) FROM fleetlog.replay('rc', dataset => 'rp-set') GROUP BY 1;
SELECT count(*) FROM fleetlog.replay('rc', dataset => 'none');
SELECT count(*) FROM fleetlog.replay('rc', dataset => 'rp-set', ranges => '{"0": [[205, 215]]}');
SELECT count(*) FROM fleetlog.replay('none');
SELECT count(*) FROM fleetlog.replay('rc', ranges => '{"1": [[205, 215]]}');
SELECT fleetlog.drop_dataset('rp-set');
-- What would another rule have done?
CREATE FUNCTION rp_other(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN (fleetlog.json(reading.payload) ->> 'v')::int > 140 THEN jsonb_build_object('decisions', jsonb_build_array(jsonb_build_object('warn', fleetlog.json(reading.payload) -> 'v', 'seen', state)), 'state', coalesce(state, '0')::int + 1) END $$;
SELECT verdict, recorded IS NULL AS nothing, replayed ? 'decisions' AS decides, regexp_replace(reason, '\d+:\d+', 'N') AS reason, count(*) FROM fleetlog.replay('rr', policy => 'rp_other'::regproc) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
CREATE FUNCTION rp_all(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT '{"decisions": [1]}'::jsonb $$;
SELECT verdict, count(*), count(decision) AS positions FROM fleetlog.replay('rr', policy => 'rp_all'::regproc, ranges => '{"0": [[0, 10]]}') GROUP BY 1 ORDER BY 1;
CREATE FUNCTION rp_asks(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN response IS NULL THEN '{"ask": {"x": 1}}' ELSE '{"decisions": [2]}' END::jsonb $$;
SELECT verdict, regexp_replace(reason, '\d+:\d+', 'N') AS reason, count(*) FROM fleetlog.replay('rr', policy => 'rp_asks'::regproc, ranges => '{"0": [[0, 10]]}') GROUP BY 1, 2 ORDER BY 1, 2;
-- One that reads more than its arguments is caught, whatever it says it is; one that fails says why.
CREATE TABLE rp_limits AS SELECT 70 AS v;
CREATE FUNCTION rp_bad(kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE OR REPLACE FUNCTION rp_bad(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS %L',
		'BEGIN ' || kind || ' RETURN jsonb_build_object(''decisions'', jsonb_build_array(1)); END');
END $$;
CREATE FUNCTION rp_try(kind text) RETURNS TABLE (verdict text, reason text, n bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM rp_bad(kind);
	RETURN QUERY SELECT r.verdict, regexp_replace(r.reason, '\d+:\d+', 'N'), count(*) FROM fleetlog.replay('rr', policy => 'rp_bad(fleetlog.log_record, jsonb, jsonb, timestamptz)'::regprocedure, ranges => '{"0": [[0, 4]]}') r GROUP BY 1, 2 ORDER BY 1, 2;
END $$;
SELECT * FROM rp_try('PERFORM now();');
SELECT * FROM rp_try('IF current_timestamp < at THEN RETURN NULL; END IF;');
SELECT * FROM rp_try('PERFORM random();');
SELECT * FROM rp_try('PERFORM v FROM public.rp_limits;');
SELECT * FROM rp_try('EXECUTE ''DELETE FROM public.rp_limits'';');
SELECT * FROM rp_try('PERFORM fleetlog.append(''public.rp'', ''k'', ''x'');');
SELECT * FROM rp_try('PERFORM 1 / 0;');
SELECT * FROM rp_try('RETURN ''[1]'';');
DO $$ BEGIN
	PERFORM rp_try('RAISE EXCEPTION ''no room'' USING ERRCODE = ''insufficient_resources'';');
EXCEPTION WHEN insufficient_resources THEN
	RAISE WARNING 'what is not the policy''s is an error: %', SQLERRM;
	INSERT INTO rp_limits VALUES (71);
END $$;
SELECT count(*) FROM fleetlog.stat_replay;
SELECT * FROM rp_try('PERFORM pg_cancel_backend(pg_backend_pid());');
SELECT count(*) AS limits FROM rp_limits;
CREATE FUNCTION rp_stable(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $$ SELECT '{}'::jsonb $$;
SELECT count(*) FROM fleetlog.replay('rr', policy => 'rp_stable'::regproc);
SELECT count(*) FROM fleetlog.replay('rr', policy => 'lower(text)'::regprocedure);
-- A policy that is declared not replayable: replay finds the difference and says so.
CREATE FUNCTION rp_random(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql VOLATILE AS $$ SELECT jsonb_build_object('decisions', jsonb_build_array(random())) $$;
CREATE FUNCTION rp_now(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $$ SELECT jsonb_build_object('decisions', jsonb_build_array(now())) $$;
SELECT fleetlog.alter_loop('rr', policy => 'rp_random'::regproc, replayable => false);
SELECT rp_turn('rr', 203);
SELECT fleetlog.alter_loop('rr', policy => 'rp_now'::regproc, replayable => false);
SELECT rp_turn('rr', 206);
SELECT verdict, regexp_replace(reason, '\d+:\d+', 'N') AS reason, count(*) FROM fleetlog.replay('rr', ranges => '{"0": [[200, 250]]}') GROUP BY 1, 2 ORDER BY 1, 2;
CREATE ROLE rp_reader;
GRANT SELECT ON rp, rr_request, rr_response, rr_decision TO rp_reader;
SET ROLE rp_reader;
SELECT count(*) FROM fleetlog.replay('rr', ranges => '{"0": [[200, 250]]}');
RESET ROLE;
-- Records that were tampered with.
SELECT rp_make('rt', 'copy', '{"0": 290}');
SELECT rp_turn('rt', 300);
SELECT (rp_add('rt_decision', 'valve-1', fleetlog.json(payload) || '{"decisions": ["forged"]}')).log_offset > 0 AS forged FROM rt_decision LIMIT 1;
SELECT verdict, regexp_replace(reason, '\d+:\d+', 'N') AS reason, count(*) FROM fleetlog.replay('rt') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT rp_add('rt_decision', 'k', '{"a": 1}'), fleetlog.append('rt_request', 'k', 'no json'), fleetlog.append('rt_response', 'k', NULL) IS NOT NULL;
SELECT verdict, count(*) FROM fleetlog.replay('rt') GROUP BY 1 ORDER BY 1;
-- Evidence: retention takes readings; copies still come out, references are gone, never missing.
SELECT fleetlog.trim_head('rp', 0, 150, NULL);
SELECT verdict, count(*) = (SELECT count(*) FROM rc_decision) AS all FROM fleetlog.replay('rc') GROUP BY 1;
SELECT verdict, regexp_replace(reason, '\d+:\d+', 'N') AS reason, count(*) > 10 AS some FROM fleetlog.replay('rr', ranges => '{"0": [[0, 200]]}') GROUP BY 1, 2 ORDER BY 1, 2;
SELECT verdict, count(*) > 10 AS some FROM fleetlog.replay('rc', from_ts => (SELECT (fleetlog.json(payload) -> 'reading' ->> 'ts')::timestamptz FROM rc_decision WHERE log_offset = 5), to_ts => (SELECT (fleetlog.json(payload) -> 'reading' ->> 'ts')::timestamptz + interval '1 us' FROM rc_decision WHERE log_offset = 30)) GROUP BY 1;
-- Pins: named in the refusal, and in the view.
SELECT rp_make('pinned', 'pin', '{"0": 160}');
SELECT rp_turn('pinned', 200);
SELECT stream, ranges, reason, role = current_user AS mine FROM fleetlog.stream_hold;
\set VERBOSITY default
DO $$ BEGIN PERFORM fleetlog.trim_head('rp', 0, 170, NULL); EXCEPTION WHEN SQLSTATE 'LF108' THEN RAISE WARNING '%', regexp_replace(SQLERRM, 'hold \d+', 'hold N'); END $$;
DO $$ BEGIN PERFORM fleetlog.release_hold((SELECT hold FROM fleetlog.loop_pin)); EXCEPTION WHEN SQLSTATE 'LF108' THEN RAISE WARNING '%', regexp_replace(SQLERRM, 'hold \d+', 'hold N'); END $$;
\set VERBOSITY terse
SELECT verdict, count(*) = (SELECT count(*) FROM pinned_decision) AS all FROM fleetlog.replay('pinned') GROUP BY 1;
SELECT fleetlog.release_pins('pinned') AS few;
SELECT min((fleetlog.json(payload) -> 'reading' ->> 'offset')::bigint) = (SELECT lower_offset FROM fleetlog.hold_range_config) AS at_oldest FROM (SELECT payload FROM pinned_request UNION ALL SELECT payload FROM pinned_decision) x;
SELECT fleetlog.alter_loop('pinned', evidence => 'copy');
SELECT ranges -> '0' -> 0 ->> 1 AS upto FROM fleetlog.stream_hold;
SELECT fleetlog.alter_loop('pinned', evidence => 'pin');
SELECT ranges -> '0' -> 0 -> 1 AS upto FROM fleetlog.stream_hold;
SELECT fleetlog.drop_loop('pinned');
SELECT count(*) FROM fleetlog.stream_hold;
-- Rights: SELECT on all four streams.
GRANT SELECT ON rp, rc_request, rc_decision TO rp_reader;
SET ROLE rp_reader;
SELECT count(*) FROM fleetlog.replay('rc');
RESET ROLE;
GRANT SELECT ON rc_response TO rp_reader;
SET ROLE rp_reader;
SELECT verdict, count(*) > 0 AS some FROM fleetlog.replay('rc') GROUP BY 1;
SELECT * FROM fleetlog.stat_replay;
RESET ROLE;
ALTER TABLE rc_decision ENABLE ROW LEVEL SECURITY;
SET ROLE rp_reader;
SELECT count(*) FROM fleetlog.replay('rc');
RESET ROLE;
ALTER TABLE rc_decision DISABLE ROW LEVEL SECURITY;
-- In a transaction that may not write.
SELECT count(*) FROM fleetlog.stat_replay;
BEGIN READ ONLY;
SELECT verdict, count(*) > 0 AS some FROM fleetlog.replay('rc') GROUP BY 1;
COMMIT;
SELECT fleetlog.drop_loop('rc'), fleetlog.drop_loop('rr'), fleetlog.drop_loop('rt');
DROP OWNED BY rp_reader;
DROP ROLE rp_reader;
SELECT count(fleetlog.drop_stream(stream)) FROM fleetlog.stream WHERE stream::text ~ '^(r[crt]|pinned)_(request|response|decision)$';
SELECT fleetlog.drop_stream('rp');
DROP TABLE rp_state, rp_limits;
