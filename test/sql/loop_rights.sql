-- D2, D4, I6: what a loop needs cannot be dropped under it; who may make, run, answer and look at what; another's function, another's
-- lease, another's tenant.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
SET timezone = 'UTC';
CREATE ROLE lr_owner; CREATE ROLE lr_other; CREATE ROLE lr_model; CREATE ROLE lr_a; CREATE ROLE lr_b;
GRANT fleetlog_admin TO lr_owner, lr_other;
CREATE SCHEMA lr AUTHORIZATION lr_owner;
SET ROLE lr_owner;
SELECT fleetlog.create_stream('lr.src') IS NULL AS failed;
CREATE FUNCTION lr.pol(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF response IS NULL THEN
		RETURN '{"ask": {"n": 1}}';
	END IF;
	RETURN jsonb_build_object('decisions', jsonb_build_array(response));
END $$;
SET search_path = lr, public;
SELECT fleetlog.create_loop('lr', 'src', 'pol'::regproc, 'm', '1');
SELECT fleetlog.create_shadow_model('lr', 'mk2', 'm', '2');

-- ---- dropping what a loop needs ----
SELECT fleetlog.drop_stream('src');
SELECT fleetlog.drop_stream('lr_request');
DROP TABLE lr_response;
DROP TABLE lr_decision CASCADE;
SELECT fleetlog.drop_stream('lr_shadow_mk2');
RESET ROLE;
DROP SCHEMA lr CASCADE;
DROP OWNED BY lr_owner CASCADE;
SELECT count(*) FROM fleetlog.stream WHERE schema = 'lr';
-- Other names and schemas do no harm; neither does dropping the function, whose text is kept.
CREATE SCHEMA lr2;
ALTER TABLE lr.src RENAME TO source;
ALTER TABLE lr.lr_request SET SCHEMA lr2;
SELECT source, requests FROM fleetlog.loop WHERE loop = 'lr';
ALTER TABLE lr2.lr_request SET SCHEMA lr;
DROP FUNCTION lr.pol;
SELECT fleetlog._loop_policy_function('lr', 1);
-- A function that the kept text depends on by name is a dependency as any other.
CREATE FUNCTION lr.helper(i int) RETURNS int LANGUAGE sql IMMUTABLE RETURN i + 1;
CREATE FUNCTION lr.pol_atomic(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE
	RETURN jsonb_build_object('decisions', jsonb_build_array(lr.helper(1)));
ALTER FUNCTION lr.helper(int) OWNER TO lr_owner;
ALTER FUNCTION lr.pol_atomic(fleetlog.log_record, jsonb, jsonb, timestamptz) OWNER TO lr_owner;
SET ROLE lr_owner;
SELECT fleetlog.alter_loop('lr', policy => 'pol_atomic'::regproc);
DROP FUNCTION pol_atomic;
DROP FUNCTION helper;

-- ---- another's function ----
RESET ROLE;
CREATE TABLE lr.secret AS SELECT 'of the owner' AS what;
ALTER TABLE lr.secret OWNER TO lr_owner;
SET ROLE lr_owner;
CREATE FUNCTION lr.tells(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS
	$$ SELECT jsonb_build_object('decisions', jsonb_agg(what)) FROM lr.secret $$;
CREATE FUNCTION lr.lies(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
	$$ SELECT jsonb_build_object('decisions', jsonb_agg(what)) FROM lr.secret $$;
GRANT USAGE ON SCHEMA lr TO PUBLIC;
RESET ROLE;
CREATE SCHEMA lr_other AUTHORIZATION lr_other;
SET ROLE lr_other;
SET search_path = lr_other;
SELECT fleetlog.create_stream('src') IS NULL AS failed;
SELECT fleetlog.create_loop('steal', 'src', 'lr.tells'::regproc, 'm', '1', replayable => false);
SELECT fleetlog.create_loop('steal', 'src', 'lr.lies'::regproc, 'm', '1', replayable => false);
-- One that keeps to its arguments is anybody's who may execute it; it cannot be declared to read more afterwards.
SELECT fleetlog.create_loop('steal', 'src', 'lr.lies'::regproc, 'm', '1');
SELECT fleetlog.alter_loop('steal', replayable => false);
SELECT fleetlog.alter_loop('steal', policy => 'lr.tells'::regproc, replayable => false);
-- Of his own: may be declared so, and back only where it is IMMUTABLE.
CREATE FUNCTION mine(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $$ SELECT NULL::jsonb $$;
SELECT fleetlog.alter_loop('steal', policy => 'mine'::regproc, replayable => false);
SELECT fleetlog.alter_loop('steal', replayable => true);
-- Nor are loops of others his.
SELECT fleetlog.alter_loop('lr', version => '2');
SELECT fleetlog.pause_loop('lr');
SELECT fleetlog.resume_loop('lr');
SELECT fleetlog.drop_loop('lr');
SELECT fleetlog.release_pins('lr');
SELECT fleetlog.create_shadow_model('lr', 'spy', 'm', '3');
SELECT fleetlog.drop_shadow_model('lr', 'mk2');
SELECT fleetlog.create_loop('spy', 'lr.source', 'mine'::regproc, 'm', '1', replayable => false);
SELECT fleetlog.create_loop('spy', 'src', 'mine'::regproc, 'm', '1', replayable => false, requests => 'lr.lr_request', responses => 'lr.lr_response', decisions => 'lr.lr_decision');
SELECT count(*) FROM fleetlog.replay('lr');
SELECT * FROM fleetlog.next_request('lr');
SELECT fleetlog.answer(ROW('lr.lr_request', 0, 0)::fleetlog.log_position, NULL, '{"n": 1}');
SELECT fleetlog.fail_request(ROW('lr.lr_request', 0, 0)::fleetlog.log_position, 1, 'no');
SELECT * FROM fleetlog.explain_decision(ROW('lr.lr_decision', 0, 0)::fleetlog.log_position);
SELECT * FROM fleetlog.shadow_decisions('lr', 'mk2');
-- The twins that do it are nobody's.
SELECT fleetlog._drop_loop(10, 'lr');
SELECT fleetlog._answer(10, ROW('lr.lr_request', 0, 0)::fleetlog.log_position, NULL, '{}');
SELECT fleetlog._loop_policy_function('lr', 1);
SELECT fleetlog._policy_lr_1(NULL, NULL, NULL, now());
RESET ROLE;
-- Another owner: a role that one may act as, and that may do what the loop does.
SET ROLE lr_owner;
SELECT fleetlog.alter_loop('lr', owner => 'lr_other');
RESET ROLE;
SELECT fleetlog.alter_loop('lr', owner => 'lr_other');
CREATE ROLE lr_heir IN ROLE lr_owner;
SELECT fleetlog.alter_loop('lr', owner => 'lr_heir');
SELECT owner FROM fleetlog.loop WHERE loop = 'lr';
-- No loop is left to a role that is gone.
DROP OWNED BY lr_heir;
DROP ROLE lr_heir;
SELECT fleetlog.alter_loop('lr', owner => 'lr_owner');
DROP ROLE lr_heir;
-- Names of the caller's schemas mean nothing to them.
SET ROLE lr_other;
CREATE FUNCTION lr_other.eq(text, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'called as %', current_user; RETURN true; END $$;
CREATE OPERATOR lr_other.= (LEFTARG = text, RIGHTARG = text, FUNCTION = lr_other.eq);
CREATE OPERATOR lr_other.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = lr_other.eq);
SET search_path = lr_other, pg_catalog;
SELECT fleetlog.create_loop('games', 'src', 'mine'::regproc, 'm', '1', replayable => false);
SELECT fleetlog.pause_loop('games'), fleetlog.alter_loop('games', version => '2'), fleetlog.drop_loop('games');
SELECT count(*) FROM fleetlog.next_request('steal');
RESET ROLE;
SET search_path = lr, public;

-- ---- a model of one tenant ----
GRANT SELECT ON lr.lr_request TO lr_model;
GRANT INSERT ON lr.lr_response, lr.lr_shadow_mk2 TO lr_model;
SET ROLE lr_model;
SELECT count(*) FROM fleetlog.next_request('lr');
SELECT count(*) FROM fleetlog.next_shadow_request('lr', 'mk2');
RESET ROLE;
ALTER TABLE lr.lr_request ENABLE ROW LEVEL SECURITY;
SET ROLE lr_model;
SELECT count(*) FROM fleetlog.next_request('lr');
SELECT count(*) FROM fleetlog.next_shadow_request('lr', 'mk2');
RESET ROLE;
ALTER TABLE lr.lr_request DISABLE ROW LEVEL SECURITY;
ALTER TABLE lr.lr_response ENABLE ROW LEVEL SECURITY;
SET ROLE lr_model;
SELECT fleetlog.answer(ROW('lr.lr_request', 0, 0)::fleetlog.log_position, NULL, '{"n": 1}');
RESET ROLE;
ALTER ROLE lr_model BYPASSRLS;
SET ROLE lr_model;
SELECT count(*) FROM fleetlog.next_request('lr');
RESET ROLE;
ALTER TABLE lr.lr_response DISABLE ROW LEVEL SECURITY;

-- ---- decisions of one tenant ----
-- A record as the runner writes it has the tenant of its reading: row-level rules of streams hold for it, and for what is told of it.
SELECT count(fleetlog.append('lr.lr_decision', t || '/d1', convert_to(format('{"loop": "lr", "policy_version": 1, "reading": {"shard": 0, "offset": 0, "tenant": "%s", "device": "d1", "payload": "secret of %s"}, "decisions": ["of %s"], "commands": []}', t, t, t), 'UTF8'),
	device => 'd1', tenant => t)) FROM unnest(ARRAY['a', 'b']) t;
SELECT fleetlog._loop_link('lr.lr_decision', 0, 0, 2) AS links;
GRANT SELECT ON lr.lr_decision TO lr_a, lr_b;
ALTER TABLE lr.lr_decision ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON lr.lr_decision FOR SELECT TO lr_a, lr_b USING (tenant = substr(current_user, 4));
SET ROLE lr_a;
SELECT fleetlog.text(payload) ~ 'of b' AS of_b, tenant, device FROM lr.lr_decision;
SELECT tenant, device FROM fleetlog.loop_decision_link;
SELECT step, what, detail FROM fleetlog.explain_decision('d1', now(), '1 day');
SELECT count(*) FROM fleetlog.explain_decision('b/d1', now(), '1 day');
SELECT count(*) FROM fleetlog.explain_decision(ROW('lr.lr_decision', 0, 1)::fleetlog.log_position);
SET ROLE lr_b;
SELECT step, detail::text ~ 'of a' AS of_a FROM fleetlog.explain_decision('d1', now(), '1 day');
RESET ROLE;

-- ---- the end ----
SELECT fleetlog.drop_shadow_model('lr', 'mk2');
SELECT fleetlog.drop_stream('lr.lr_shadow_mk2');
SELECT fleetlog.drop_loop('lr'), fleetlog.drop_loop('steal');
RESET search_path;
SELECT fleetlog.drop_stream('lr.lr_request');
DROP TABLE lr.lr_response;
DROP SCHEMA lr, lr2, lr_other CASCADE;
SELECT count(*) FROM fleetlog.loop;
DROP OWNED BY lr_owner, lr_other, lr_model, lr_a, lr_b;
DROP ROLE lr_owner, lr_other, lr_model, lr_a, lr_b;
