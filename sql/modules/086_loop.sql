-- Decision loops (D1-D3): readings become requests to a model outside, answers, decisions and commands, each exactly once.
-- docs/design/decisions-loop.md tells what each table and record is for; src/loop runs them.

CREATE TABLE fleetlog.loop_config (
	loop text PRIMARY KEY,
	source regclass NOT NULL,
	requests regclass NOT NULL,
	responses regclass NOT NULL,
	decisions regclass NOT NULL,
	owner regrole NOT NULL,
	command_prefix text NOT NULL,
	evidence text NOT NULL CHECK (evidence IN ('copy', 'pin', 'reference')),
	max_attempts int NOT NULL CHECK (max_attempts > 0),
	answer_timeout interval CHECK (answer_timeout > interval '0'),
	paused bool NOT NULL DEFAULT false,
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE fleetlog.loop_config IS 'decision loops; written by create_loop, alter_loop, drop_loop, pause_loop and resume_loop';

CREATE TABLE fleetlog.loop_policy (
	loop text NOT NULL,
	policy_version int NOT NULL CHECK (policy_version > 0),
	policy text NOT NULL,
	function text NOT NULL,
	policy_text text NOT NULL,
	language text NOT NULL,
	policy_owner regrole NOT NULL,
	search_path text,
	replayable bool NOT NULL,
	model text NOT NULL,
	model_version text NOT NULL,
	parameters jsonb NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (loop, policy_version)
);
COMMENT ON TABLE fleetlog.loop_policy IS 'versions of the policy of a loop, by their text, each with the model that it asks';

CREATE TABLE fleetlog.loop_policy_range (
	loop text NOT NULL,
	policy_version int NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	from_offset bigint NOT NULL CHECK (from_offset >= 0),
	PRIMARY KEY (loop, policy_version, shard)
);
COMMENT ON TABLE fleetlog.loop_policy_range IS 'from which reading of each shard on a version of a policy decides';

CREATE TABLE fleetlog.loop_position (
	loop text NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	log_offset bigint NOT NULL CHECK (log_offset >= 0),
	readings bigint NOT NULL DEFAULT 0,
	requests bigint NOT NULL DEFAULT 0,
	decisions bigint NOT NULL DEFAULT 0,
	commands bigint NOT NULL DEFAULT 0,
	answered bigint NOT NULL DEFAULT 0,
	unanswered bigint NOT NULL DEFAULT 0,
	gone bigint NOT NULL DEFAULT 0,
	error text,
	error_offset bigint,
	error_at timestamptz,
	rate float8 NOT NULL DEFAULT 0,
	updated_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (loop, shard)
) WITH (fillfactor = 50);
COMMENT ON TABLE fleetlog.loop_position IS 'how far a loop has read each shard of its source, what it counted there, and the error that stopped it';

CREATE TABLE fleetlog.loop_response_position (
	loop text NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	log_offset bigint NOT NULL CHECK (log_offset >= 0),
	late bigint NOT NULL DEFAULT 0,
	malformed bigint NOT NULL DEFAULT 0,
	deferred bigint[] NOT NULL DEFAULT '{}',
	PRIMARY KEY (loop, shard)
) WITH (fillfactor = 50);
COMMENT ON TABLE fleetlog.loop_response_position IS 'how far a loop has read each shard of its responses, what it could not use there, and what it has left for later';

CREATE TABLE fleetlog.loop_state (
	loop text NOT NULL,
	shard int NOT NULL,
	key text NOT NULL COLLATE "C",
	state jsonb NOT NULL,
	log_offset bigint NOT NULL,
	PRIMARY KEY (loop, shard, key)
) WITH (fillfactor = 80);
COMMENT ON TABLE fleetlog.loop_state IS 'state of each device (or key) of a loop, as its policy left it at the reading log_offset';

CREATE TABLE fleetlog.loop_request (
	loop text NOT NULL,
	request_shard int NOT NULL,
	request_offset bigint NOT NULL,
	shard int NOT NULL,
	log_offset bigint NOT NULL,
	key text NOT NULL COLLATE "C",
	policy_version int NOT NULL,
	reading fleetlog.log_record NOT NULL,
	ask jsonb NOT NULL,
	asked_at timestamptz NOT NULL,
	attempts int NOT NULL DEFAULT 0,
	lease bigint,
	leases bigint[] NOT NULL DEFAULT '{}',
	leased_at timestamptz,
	leased_until timestamptz,
	leased_by text,
	last_error text,
	response_shard int,
	response_offset bigint,
	response jsonb,
	responded_at timestamptz,
	PRIMARY KEY (loop, request_shard, request_offset)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX loop_request_key ON fleetlog.loop_request (loop, shard, key);
CREATE INDEX loop_request_open ON fleetlog.loop_request (loop, asked_at, request_shard, request_offset) WHERE response_offset IS NULL;
CREATE INDEX loop_request_answered ON fleetlog.loop_request (loop, shard, log_offset) WHERE responded_at IS NOT NULL;
COMMENT ON TABLE fleetlog.loop_request IS 'requests of loops that are pending: asked, leased, or answered and not yet seen by the policy';

CREATE TABLE fleetlog.loop_waiting (
	loop text NOT NULL,
	shard int NOT NULL,
	log_offset bigint NOT NULL,
	key text NOT NULL COLLATE "C",
	PRIMARY KEY (loop, shard, log_offset)
);
CREATE INDEX loop_waiting_key ON fleetlog.loop_waiting (loop, shard, key, log_offset);
COMMENT ON TABLE fleetlog.loop_waiting IS 'readings of devices that wait behind a pending request of theirs';

CREATE SEQUENCE fleetlog.loop_lease_seq;
COMMENT ON SEQUENCE fleetlog.loop_lease_seq IS 'numbers of leases';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_policy', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_policy_range', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_position', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_response_position', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_state', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_request', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_waiting', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_lease_seq', '');

-- The runner keeps loops and policies in memory until this tells it to look again.
CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.loop_config
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();
CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.loop_policy
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();

-- ---- policies -----------------------------------------------------------------------------------------------------------------

-- Functions of this page whose first argument is `caller` are run by C functions of almost the same name (src/loop/call.c) as the
-- owner of the extension, with the OID of the role that called; nobody else may execute them.

CREATE FUNCTION fleetlog._loop_own(caller oid, loop text) RETURNS fleetlog.loop_config
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c fleetlog.loop_config;
BEGIN
	SELECT * INTO c FROM fleetlog.loop_config l WHERE l."loop" = _loop_own.loop;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'loop "%" does not exist', loop USING ERRCODE = 'undefined_object', HINT = 'Loops are listed in the view fleetlog.loop.';
	END IF;
	IF NOT pg_has_role(caller, c.owner, 'USAGE') THEN
		RAISE EXCEPTION 'must be owner of loop "%"', loop USING ERRCODE = 'insufficient_privilege';
	END IF;
	RETURN c;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_own(oid, text) IS 'internal: the loop, which the caller must own';

-- The function that runs a version of a policy, made from the text where it is not there as the text says.
CREATE FUNCTION fleetlog._loop_policy_function(loop text, policy_version int) RETURNS regprocedure
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET check_function_bodies = off
AS $$
DECLARE
	p fleetlog.loop_policy;
	f regprocedure;
	signature text := '(fleetlog.log_record, jsonb, jsonb, timestamptz)';
BEGIN
	SELECT * INTO p FROM fleetlog.loop_policy l
		WHERE l."loop" = _loop_policy_function.loop AND l.policy_version = _loop_policy_function.policy_version;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'loop "%" has no policy version %', loop, policy_version USING ERRCODE = 'undefined_object';
	END IF;
	f := to_regprocedure(p.function || signature);
	IF f IS NULL OR pg_get_functiondef(f) <> p.policy_text OR (SELECT proowner FROM pg_proc WHERE oid = f) <> p.policy_owner THEN
		EXECUTE p.policy_text;
		f := to_regprocedure(p.function || signature);
		EXECUTE format('ALTER FUNCTION %s%s OWNER TO %s', p.function, signature, p.policy_owner);
		EXECUTE format('REVOKE ALL ON FUNCTION %s%s FROM PUBLIC', p.function, signature);
		EXECUTE format('ALTER FUNCTION %s%s DEPENDS ON EXTENSION fleetlog', p.function, signature);
	END IF;
	RETURN f;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_policy_function(text, int) IS 'internal: the function that runs a version of the policy of a loop, made from its text where need be';

CREATE FUNCTION fleetlog._loop_policy_call(policy regprocedure, replayable bool, reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'fl_sql_loop_policy_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._loop_policy_call(regprocedure, bool, fleetlog.log_record, jsonb, jsonb, timestamptz) IS
	'internal: calls a policy as the runner does: as its owner, read-only, with pinned settings; LF602 where it reads more than its arguments and must not';

-- The other way: src/loop/record.c.
CREATE FUNCTION fleetlog._loop_reading(reading jsonb) RETURNS fleetlog.log_record
	LANGUAGE sql STABLE PARALLEL SAFE
RETURN ROW((reading ->> 'shard')::int, (reading ->> 'offset')::bigint, (reading ->> 'ts')::timestamptz, (reading ->> 'created')::timestamptz,
	reading ->> 'tenant', reading ->> 'device', reading ->> 'key',
	decode(reading ->> 'key_base64', 'base64'), (reading -> 'headers')::text::fleetlog.headers,
	coalesce(decode(reading ->> 'payload_base64', 'base64'), convert_to(reading ->> 'payload', 'UTF8')))::fleetlog.log_record;
COMMENT ON FUNCTION fleetlog._loop_reading(jsonb) IS 'internal: the record that a copy in a request or decision stands for; of a mere position, shard, offset and time';

-- May the caller let it run with the rights of its owner, and is it what it says?  What reads its arguments only tells nothing else.
CREATE FUNCTION fleetlog._loop_check_replayable(caller oid, policy regprocedure, replayable bool) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	p pg_proc;
BEGIN
	SELECT * INTO p FROM pg_proc WHERE oid = policy;
	IF replayable AND p.provolatile <> 'i' THEN
		RAISE EXCEPTION 'policy % is not IMMUTABLE, so its decisions could not be replayed', policy USING ERRCODE = 'invalid_function_definition',
			HINT = 'Let it read nothing but its arguments and declare it IMMUTABLE, or say replayable => false.';
	END IF;
	IF NOT replayable AND NOT pg_has_role(caller, p.proowner, 'USAGE') THEN
		RAISE EXCEPTION 'must be able to act as role "%" to let its policy read more than its arguments', p.proowner::regrole USING ERRCODE = 'insufficient_privilege',
			HINT = 'A policy runs as its owner. Make a copy of the function that is your own, or let it be IMMUTABLE.';
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_check_replayable(oid, regprocedure, bool) IS 'internal: may this policy be declared replayable, or not?';

CREATE FUNCTION fleetlog._loop_check_policy(caller oid, policy regprocedure, replayable bool) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	p pg_proc;
BEGIN
	IF policy IS NULL THEN
		RAISE EXCEPTION 'policy must not be NULL' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	SELECT * INTO p FROM pg_proc WHERE oid = policy;
	IF p.prokind <> 'f' OR p.proretset OR p.prorettype <> 'jsonb'::regtype OR p.provariadic <> 0
		OR (SELECT array_agg(a) FROM unnest(p.proargtypes) a) IS DISTINCT FROM
			ARRAY['fleetlog.log_record'::regtype, 'jsonb'::regtype, 'jsonb'::regtype, 'timestamptz'::regtype]::oid[] THEN
		RAISE EXCEPTION 'function % is not a policy', policy USING ERRCODE = 'invalid_function_definition',
			HINT = 'A policy is a function (reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb.';
	END IF;
	IF (SELECT lanname FROM pg_language WHERE oid = p.prolang) IN ('c', 'internal') THEN
		RAISE EXCEPTION 'a policy must be written in SQL or a procedural language, so that its text can be kept' USING ERRCODE = 'feature_not_supported';
	END IF;
	IF NOT has_function_privilege(caller, policy, 'EXECUTE') THEN
		RAISE EXCEPTION 'permission denied for function %', policy USING ERRCODE = 'insufficient_privilege';
	END IF;
	PERFORM fleetlog._loop_check_replayable(caller, policy, replayable);
END
$$;
COMMENT ON FUNCTION fleetlog._loop_check_policy(oid, regprocedure, bool) IS 'internal: may this function be the policy of a loop?';

CREATE FUNCTION fleetlog._loop_add_policy(loop text, version int, policy regprocedure, replayable bool, model text, model_version text, parameters jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	p pg_proc;
	original text;
	made text := format('fleetlog.%I', '_policy_' || loop || '_' || version);
BEGIN
	SELECT * INTO p FROM pg_proc WHERE oid = policy;
	original := format('CREATE OR REPLACE FUNCTION %I.%I(', (SELECT nspname FROM pg_namespace WHERE oid = p.pronamespace), p.proname);
	INSERT INTO fleetlog.loop_policy (loop, policy_version, policy, function, policy_text, language, policy_owner, search_path, replayable, model, model_version, parameters)
		VALUES (loop, version, policy::text, made, 'CREATE OR REPLACE FUNCTION ' || made || '(' || substr(pg_get_functiondef(policy), length(original) + 1),
			(SELECT lanname FROM pg_language WHERE oid = p.prolang), p.proowner,
			(SELECT substr(c, length('search_path=') + 1) FROM unnest(p.proconfig) c WHERE c LIKE 'search_path=%'), replayable, model, model_version, parameters);
	PERFORM fleetlog._loop_policy_function(loop, version);
END
$$;
COMMENT ON FUNCTION fleetlog._loop_add_policy(text, int, regprocedure, bool, text, text, jsonb) IS 'internal: keep the text of a policy as the next version of a loop';

-- ---- create, alter, drop, pause, resume -------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog._loop_check_streams(caller oid, source regclass, VARIADIC own regclass[]) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s regclass;
BEGIN
	FOREACH s IN ARRAY source || own LOOP
		-- Who drops a stream waits, and then finds the loop.
		IF EXISTS (SELECT FROM pg_class c WHERE c.oid = s AND c.relkind = 'p') THEN
			EXECUTE format('LOCK TABLE ONLY %s IN ACCESS SHARE MODE', s);
		END IF;
		IF NOT EXISTS (SELECT FROM fleetlog.stream_config c WHERE c.stream = s) THEN
			RAISE EXCEPTION '"%" is not a stream', s USING ERRCODE = 'wrong_object_type', HINT = 'Streams are listed in the view fleetlog.stream.';
		END IF;
		IF NOT has_table_privilege(caller, s, CASE WHEN s = source THEN 'SELECT' ELSE 'INSERT' END) THEN
			RAISE EXCEPTION 'permission denied for table %', s USING ERRCODE = 'insufficient_privilege';
		END IF;
	END LOOP;
	IF source = ANY (own) OR (SELECT count(DISTINCT o) FROM unnest(own) o) < cardinality(own) THEN
		RAISE EXCEPTION 'source, requests, responses and decisions must be different streams' USING ERRCODE = 'invalid_parameter_value';
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_check_streams(oid, regclass, regclass[]) IS 'internal: streams of a loop, and rights on them';

CREATE FUNCTION fleetlog._loop_register_as(caller oid, name text, source regclass, policy regprocedure, model text, version text, parameters jsonb,
		command_prefix text, evidence text, max_attempts int, replayable bool, requests regclass, responses regclass, decisions regclass,
		answer_timeout interval, positions jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s int;
	at jsonb;
	o bigint;
BEGIN
	IF model IS NULL OR version IS NULL OR parameters IS NULL OR command_prefix IS NULL OR evidence IS NULL OR max_attempts IS NULL OR replayable IS NULL THEN
		RAISE EXCEPTION 'model, version, parameters, command_prefix, evidence, max_attempts and replayable must not be NULL' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF command_prefix <> 'cmd/' THEN
		RAISE EXCEPTION 'commands go below "cmd/"' USING ERRCODE = 'feature_not_supported';
	END IF;
	IF evidence NOT IN ('copy', 'pin', 'reference') THEN
		RAISE EXCEPTION 'evidence must be copy, pin or reference' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	PERFORM fleetlog._loop_check_policy(caller, policy, replayable);
	PERFORM fleetlog._loop_check_streams(caller, source, requests, responses, decisions);
	IF EXISTS (SELECT FROM fleetlog.loop_config l WHERE requests IN (l.requests, l.responses, l.decisions) OR responses IN (l.requests, l.responses, l.decisions)
			OR decisions IN (l.requests, l.responses, l.decisions)) THEN
		RAISE EXCEPTION 'another loop has one of these streams already' USING ERRCODE = 'object_in_use';
	END IF;
	INSERT INTO fleetlog.loop_config (loop, source, requests, responses, decisions, owner, command_prefix, evidence, max_attempts, answer_timeout)
		VALUES (name, source, requests, responses, decisions, caller::regrole, command_prefix, evidence, max_attempts, answer_timeout);
	PERFORM fleetlog._loop_add_policy(name, 1, policy, replayable, model, version, parameters);
	FOR s IN SELECT generate_series(0, c.shards - 1) FROM fleetlog.stream_config c WHERE c.stream = source LOOP
		at := positions -> s::text;
		o := CASE WHEN positions IS NULL THEN fleetlog.tail(source, s)
			WHEN jsonb_typeof(at) = 'object' THEN (at ->> 'offset')::bigint
			WHEN at IS NULL THEN fleetlog.head(source, s)
			ELSE (at #>> '{}')::bigint END;
		IF o < fleetlog.head(source, s) OR o > fleetlog.tail(source, s) OR o IS NULL THEN
			RAISE EXCEPTION 'shard % of % has no offset %', s, source, o USING ERRCODE = 'invalid_parameter_value';
		END IF;
		INSERT INTO fleetlog.loop_position (loop, shard, log_offset) VALUES (name, s, o);
		INSERT INTO fleetlog.loop_policy_range (loop, policy_version, shard, from_offset) VALUES (name, 1, s, o);
	END LOOP;
	INSERT INTO fleetlog.loop_response_position (loop, shard, log_offset)
		SELECT name, g, fleetlog.tail(responses, g) FROM fleetlog.stream_config c, generate_series(0, c.shards - 1) g WHERE c.stream = responses;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_register_as(oid, text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb) IS
	'internal: what create_loop does as the owner of the extension';

CREATE FUNCTION fleetlog._loop_register(name text, source regclass, policy regprocedure, model text, version text, parameters jsonb,
		command_prefix text, evidence text, max_attempts int, replayable bool, requests regclass, responses regclass, decisions regclass,
		answer_timeout interval, positions jsonb) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._loop_register(text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb) IS
	'internal: the second half of create_loop';

-- The streams are made as the caller, where his CREATE TABLE would put them.
CREATE FUNCTION fleetlog.create_loop(name text, source regclass, policy regprocedure, model text, version text, parameters jsonb = '{}', command_prefix text = 'cmd/',
		evidence text = 'copy', max_attempts int = 3, replayable bool = true, requests regclass = NULL, responses regclass = NULL, decisions regclass = NULL,
		answer_timeout interval = NULL, positions jsonb = NULL) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	like_source fleetlog.stream;
BEGIN
	IF name IS NULL OR NOT name OPERATOR(pg_catalog.~) '^[A-Za-z0-9_-]{1,40}$' THEN
		RAISE EXCEPTION 'the name of a loop must be 1 to 40 letters, digits, _ or -' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF EXISTS (SELECT FROM fleetlog.loop l WHERE l."loop" OPERATOR(pg_catalog.=) name) THEN
		RAISE EXCEPTION 'loop "%" already exists', name USING ERRCODE = 'duplicate_object';
	END IF;
	-- What a loop has done must not be less sure than what it did it from: a decision that a failover takes back would be made again.
	SELECT * INTO like_source FROM fleetlog.stream s WHERE s.stream OPERATOR(pg_catalog.=) source;
	requests := coalesce(requests, fleetlog.create_stream(pg_catalog.quote_ident(pg_catalog.concat(name, '_request')),
		shards => coalesce(like_source.shards, 1), durability => coalesce(like_source.durability, 'local')));
	responses := coalesce(responses, fleetlog.create_stream(pg_catalog.quote_ident(pg_catalog.concat(name, '_response')),
		shards => coalesce(like_source.shards, 1), durability => coalesce(like_source.durability, 'local')));
	decisions := coalesce(decisions, fleetlog.create_stream(pg_catalog.quote_ident(pg_catalog.concat(name, '_decision')),
		shards => coalesce(like_source.shards, 1), durability => coalesce(like_source.durability, 'local')));
	PERFORM fleetlog._loop_register(name, source, policy, model, version, parameters, command_prefix, evidence, max_attempts, replayable,
		requests, responses, decisions, answer_timeout, positions);
	RETURN name;
END
$$;
COMMENT ON FUNCTION fleetlog.create_loop(text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb) IS
	'make a decision loop over a stream: a policy that asks a model and decides; begins with the next reading, or at positions';

-- To a role that the caller may act as, and that may do what the loop does.
CREATE FUNCTION fleetlog._loop_give(caller oid, c fleetlog.loop_config, owner regrole) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	p fleetlog.loop_policy;
BEGIN
	IF NOT pg_has_role(caller, owner, 'USAGE') THEN
		RAISE EXCEPTION 'must be able to act as role "%"', owner USING ERRCODE = 'insufficient_privilege';
	END IF;
	PERFORM fleetlog._loop_check_streams(owner, c.source, c.requests, c.responses, c.decisions);
	SELECT * INTO p FROM fleetlog.loop_policy l WHERE l."loop" = c."loop" ORDER BY l.policy_version DESC LIMIT 1;
	PERFORM fleetlog._loop_check_replayable(owner, fleetlog._loop_policy_function(c."loop", p.policy_version), p.replayable);
	UPDATE fleetlog.loop_config l SET owner = owner WHERE l."loop" = c."loop";
	UPDATE fleetlog.hold_config h SET role = owner::text FROM fleetlog.loop_pin n WHERE n."loop" = c."loop" AND h.id = n.hold;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_give(oid, fleetlog.loop_config, regrole) IS 'internal: another owner for a loop';

CREATE FUNCTION fleetlog._alter_loop(caller oid, loop text, policy regprocedure, model text, version text, parameters jsonb, evidence text, max_attempts int,
		replayable bool, answer_timeout interval, owner regrole) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c fleetlog.loop_config := fleetlog._loop_own(caller, loop);
	p fleetlog.loop_policy;
	f regprocedure;
BEGIN
	-- Behind the turn that each shard is in.
	PERFORM FROM fleetlog.loop_position o WHERE o."loop" = c."loop" ORDER BY o.shard FOR UPDATE;
	IF owner IS NOT NULL THEN
		PERFORM fleetlog._loop_give(caller, c, owner);
	END IF;
	UPDATE fleetlog.loop_config l SET evidence = coalesce(_alter_loop.evidence, l.evidence), max_attempts = coalesce(_alter_loop.max_attempts, l.max_attempts),
		answer_timeout = CASE WHEN _alter_loop.answer_timeout = interval '0' THEN NULL ELSE coalesce(_alter_loop.answer_timeout, l.answer_timeout) END
		WHERE l."loop" = c."loop";
	IF policy IS NULL AND model IS NULL AND version IS NULL AND parameters IS NULL AND replayable IS NULL THEN
		RETURN;
	END IF;
	SELECT * INTO p FROM fleetlog.loop_policy l WHERE l."loop" = c."loop" ORDER BY l.policy_version DESC LIMIT 1;
	f := coalesce(policy, fleetlog._loop_policy_function(c."loop", p.policy_version));
	replayable := coalesce(replayable, CASE WHEN policy IS NULL THEN p.replayable ELSE true END);
	IF policy IS NOT NULL THEN
		PERFORM fleetlog._loop_check_policy(caller, policy, replayable);
	ELSIF replayable <> p.replayable THEN
		PERFORM fleetlog._loop_check_replayable(caller, f, replayable);
	END IF;
	PERFORM fleetlog._loop_add_policy(c."loop", p.policy_version + 1, f, replayable, coalesce(model, p.model), coalesce(version, p.model_version),
		coalesce(parameters, p.parameters));
	IF policy IS NULL THEN
		UPDATE fleetlog.loop_policy l SET policy = p.policy WHERE l."loop" = c."loop" AND l.policy_version = p.policy_version + 1;
	END IF;
	-- Where a shard has stopped, the reading that stopped it is the first that the new policy decides.
	INSERT INTO fleetlog.loop_policy_range (loop, policy_version, shard, from_offset)
		SELECT c."loop", p.policy_version + 1, o.shard, least(o.log_offset, coalesce(o.error_offset, o.log_offset)) FROM fleetlog.loop_position o WHERE o."loop" = c."loop";
	UPDATE fleetlog.loop_request r SET policy_version = p.policy_version + 1 FROM fleetlog.loop_position o
		WHERE r."loop" = c."loop" AND o."loop" = c."loop" AND o.shard = r.shard AND o.error IS NOT NULL AND o.error_offset = r.log_offset;
	UPDATE fleetlog.loop_position o SET error = NULL, error_offset = NULL, error_at = NULL WHERE o."loop" = c."loop" AND o.error IS NOT NULL;
END
$$;
COMMENT ON FUNCTION fleetlog._alter_loop(oid, text, regprocedure, text, text, jsonb, text, int, bool, interval, regrole) IS 'internal: alter_loop';

CREATE FUNCTION fleetlog.alter_loop(loop text, policy regprocedure = NULL, model text = NULL, version text = NULL, parameters jsonb = NULL, evidence text = NULL,
		max_attempts int = NULL, replayable bool = NULL, answer_timeout interval = NULL, owner regrole = NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.alter_loop(text, regprocedure, text, text, jsonb, text, int, bool, interval, regrole) IS
	'change a loop: another policy or model decides from the next reading of each shard on; NULL leaves a value as it is, an answer_timeout of 0 removes it';

CREATE FUNCTION fleetlog._drop_loop(caller oid, loop text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c fleetlog.loop_config := fleetlog._loop_own(caller, loop);
	f text;
BEGIN
	PERFORM FROM fleetlog.loop_position o WHERE o."loop" = c."loop" ORDER BY o.shard FOR UPDATE;
	FOR f IN SELECT p.function FROM fleetlog.loop_policy p WHERE p."loop" = c."loop" LOOP
		EXECUTE format('DROP FUNCTION IF EXISTS %s(fleetlog.log_record, jsonb, jsonb, timestamptz)', f);
	END LOOP;
	DELETE FROM fleetlog.loop_waiting w WHERE w."loop" = c."loop";
	DELETE FROM fleetlog.loop_request r WHERE r."loop" = c."loop";
	DELETE FROM fleetlog.loop_state s WHERE s."loop" = c."loop";
	DELETE FROM fleetlog.loop_response_position p WHERE p."loop" = c."loop";
	DELETE FROM fleetlog.loop_position o WHERE o."loop" = c."loop";
	DELETE FROM fleetlog.loop_policy_range r WHERE r."loop" = c."loop";
	DELETE FROM fleetlog.loop_policy p WHERE p."loop" = c."loop";
	DELETE FROM fleetlog.loop_config l WHERE l."loop" = c."loop";
END
$$;
COMMENT ON FUNCTION fleetlog._drop_loop(oid, text) IS 'internal: drop_loop';

CREATE FUNCTION fleetlog.drop_loop(loop text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.drop_loop(text) IS 'end a loop and forget its state, pending requests and policies; its streams stay';

CREATE FUNCTION fleetlog._pause_loop(caller oid, loop text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c fleetlog.loop_config := fleetlog._loop_own(caller, loop);
BEGIN
	PERFORM FROM fleetlog.loop_position o WHERE o."loop" = c."loop" ORDER BY o.shard FOR UPDATE;
	UPDATE fleetlog.loop_config l SET paused = true WHERE l."loop" = c."loop";
END
$$;
COMMENT ON FUNCTION fleetlog._pause_loop(oid, text) IS 'internal: pause_loop';

CREATE FUNCTION fleetlog.pause_loop(loop text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.pause_loop(text) IS 'stop a loop where it is; answers are taken, and decided about when it is resumed';

CREATE FUNCTION fleetlog._resume_loop(caller oid, loop text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c fleetlog.loop_config := fleetlog._loop_own(caller, loop);
BEGIN
	PERFORM FROM fleetlog.loop_position o WHERE o."loop" = c."loop" ORDER BY o.shard FOR UPDATE;
	UPDATE fleetlog.loop_position o SET error = NULL, error_offset = NULL, error_at = NULL WHERE o."loop" = c."loop" AND o.error IS NOT NULL;
	UPDATE fleetlog.loop_config l SET paused = false WHERE l."loop" = c."loop";
END
$$;
COMMENT ON FUNCTION fleetlog._resume_loop(oid, text) IS 'internal: resume_loop';

CREATE FUNCTION fleetlog.resume_loop(loop text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.resume_loop(text) IS 'let a paused loop go on, and shards that an error has stopped try again';

-- ---- models: leases and answers -----------------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog._loop_refused(loop text, more int) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_loop_refused' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._loop_refused(text, int) IS 'internal: adds to the count of answers of a loop that were refused, and returns it';

-- Row-level rules would hide records of the stream from the role, or hinder it from appending.
CREATE FUNCTION fleetlog._loop_is_restricted(role oid, stream regclass) RETURNS bool
	LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT c.relrowsecurity AND NOT r.rolsuper AND NOT r.rolbypassrls AND (c.relforcerowsecurity OR NOT pg_has_role(r.oid, c.relowner, 'USAGE'))
	FROM pg_class c, pg_roles r WHERE c.oid = stream AND r.oid = role
$$;
COMMENT ON FUNCTION fleetlog._loop_is_restricted(oid, regclass) IS 'internal: does row-level security restrict the role on the stream?';

-- A model is given all requests: one that may not read them all is given none.
CREATE FUNCTION fleetlog._loop_check_model(caller oid, requests regclass, responses regclass) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	restricted regclass := CASE WHEN fleetlog._loop_is_restricted(caller, requests) THEN requests WHEN fleetlog._loop_is_restricted(caller, responses) THEN responses END;
BEGIN
	IF NOT has_table_privilege(caller, requests, 'SELECT') OR NOT has_table_privilege(caller, responses, 'INSERT') THEN
		RAISE EXCEPTION 'permission denied for table %', CASE WHEN has_table_privilege(caller, responses, 'INSERT') THEN requests ELSE responses END
			USING ERRCODE = 'insufficient_privilege', HINT = 'A model needs SELECT on the stream of requests and INSERT on that of responses.';
	END IF;
	IF restricted IS NOT NULL THEN
		RAISE EXCEPTION 'row-level security restricts role "%" on %', caller::regrole, restricted USING ERRCODE = 'insufficient_privilege',
			HINT = 'A model is given the requests of all tenants: let it be a role with BYPASSRLS.';
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_check_model(oid, regclass, regclass) IS 'internal: rights of a model';

CREATE FUNCTION fleetlog._loop_check_lease(caller oid, requests regclass, responses regclass, max int, lease_time interval) RETURNS void
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM fleetlog._loop_check_model(caller, requests, responses);
	IF max IS NULL OR max < 1 OR lease_time IS NULL OR lease_time <= interval '0' THEN
		RAISE EXCEPTION 'max and lease_time must be positive' USING ERRCODE = 'invalid_parameter_value';
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_check_lease(oid, regclass, regclass, int, interval) IS 'internal: may requests be leased so?';

-- What is told of an error that is stored or recorded.
CREATE FUNCTION fleetlog._loop_short(error text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN pg_catalog.length(error) OPERATOR(pg_catalog.>) 1000 THEN pg_catalog.concat(pg_catalog.left(error, 1000), ' ...') ELSE error END;
COMMENT ON FUNCTION fleetlog._loop_short(text) IS 'internal: an error message, not longer than it is of use';

CREATE FUNCTION fleetlog._next_request(caller oid, loop text, max int, lease_time interval,
		OUT request fleetlog.log_position, OUT lease bigint, OUT model text, OUT version text, OUT parameters jsonb, OUT reading fleetlog.log_record,
		OUT ask jsonb, OUT attempt int, OUT leased_until timestamptz)
	RETURNS SETOF record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	c fleetlog.loop_config;
BEGIN
	SELECT * INTO c FROM fleetlog.loop_config l WHERE l."loop" = _next_request.loop;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'loop "%" does not exist', _next_request.loop USING ERRCODE = 'undefined_object', HINT = 'Loops are listed in the view fleetlog.loop.';
	END IF;
	PERFORM fleetlog._loop_check_lease(caller, c.requests, c.responses, _next_request.max, _next_request.lease_time);
	RETURN QUERY
		WITH due AS (
			SELECT r.request_shard, r.request_offset FROM fleetlog.loop_request r
			WHERE r."loop" = c."loop" AND r.response_offset IS NULL AND r.attempts < c.max_attempts
				-- Given later than now: the clock was set back, and nobody knows when it ends.
				AND (r.leased_until IS NULL OR r.leased_until <= clock_timestamp() OR r.leased_at > clock_timestamp())
				AND (c.answer_timeout IS NULL OR r.asked_at + c.answer_timeout > clock_timestamp())
			ORDER BY r.asked_at, r.request_shard, r.request_offset LIMIT _next_request.max FOR UPDATE SKIP LOCKED),
		given AS (
			UPDATE fleetlog.loop_request r SET attempts = r.attempts + 1, lease = g.number, leases = r.leases || g.number,
				leased_at = clock_timestamp(), leased_until = clock_timestamp() + _next_request.lease_time, leased_by = caller::regrole::text
			FROM (SELECT d.*, nextval('fleetlog.loop_lease_seq') AS number FROM due d) g
			WHERE r."loop" = c."loop" AND r.request_shard = g.request_shard AND r.request_offset = g.request_offset
			RETURNING r.*)
		SELECT ROW(c.requests, g.request_shard, g.request_offset)::fleetlog.log_position, g.lease, p.model, p.model_version, p.parameters, g.reading,
			g.ask, g.attempts, g.leased_until
		FROM given g JOIN fleetlog.loop_policy p ON p."loop" = g."loop" AND p.policy_version = g.policy_version
		ORDER BY g.asked_at, g.request_shard, g.request_offset;
END
$$;
COMMENT ON FUNCTION fleetlog._next_request(oid, text, int, interval) IS 'internal: next_request';

CREATE FUNCTION fleetlog.next_request(loop text, max int = 1, lease_time interval = '30 s',
		OUT request fleetlog.log_position, OUT lease bigint, OUT model text, OUT version text, OUT parameters jsonb, OUT reading fleetlog.log_record,
		OUT ask jsonb, OUT attempt int, OUT leased_until timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION fleetlog.next_request(text, int, interval) IS
	'lease requests of a loop that wait for a model: answer them before the lease ends, else another may get them';

-- The pending request, locked; the reason is raised when there is none.
CREATE FUNCTION fleetlog._loop_pending(caller oid, request fleetlog.log_position, lease bigint) RETURNS fleetlog.loop_request
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c fleetlog.loop_config;
	r fleetlog.loop_request;
BEGIN
	SELECT * INTO c FROM fleetlog.loop_config l WHERE l.requests = (request).stream;
	IF NOT FOUND THEN
		RAISE EXCEPTION '% holds no requests of a loop', (request).stream USING ERRCODE = 'undefined_object';
	END IF;
	IF NOT has_table_privilege(caller, c.responses, 'INSERT') OR fleetlog._loop_is_restricted(caller, c.responses) THEN
		RAISE EXCEPTION 'permission denied for table %', c.responses USING ERRCODE = 'insufficient_privilege';
	END IF;
	SELECT * INTO r FROM fleetlog.loop_request l
		WHERE l."loop" = c."loop" AND l.request_shard = (request).shard AND l.request_offset = (request).log_offset FOR UPDATE;
	IF NOT FOUND AND ((request).shard IS NULL OR (request).log_offset IS NULL OR (request).log_offset < 0
			OR NOT (request).shard BETWEEN 0 AND (SELECT s.shards - 1 FROM fleetlog.stream_config s WHERE s.stream = c.requests)) THEN
		RAISE EXCEPTION 'loop "%" has no such request', c."loop" USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF NOT FOUND AND (request).log_offset >= fleetlog.tail((request).stream, (request).shard) THEN
		RAISE EXCEPTION 'loop "%" has no request at offset % of shard %', c."loop", (request).log_offset, (request).shard USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF r."loop" IS NULL OR r.response_offset IS NOT NULL THEN
		PERFORM fleetlog._loop_refused(c."loop", 1);
		RAISE EXCEPTION 'request already answered' USING ERRCODE = 'LF601',
			DETAIL = CASE WHEN r."loop" IS NULL THEN 'The loop has decided, or ended the request as unanswered.' ELSE format('The answer is at offset %s of shard %s of %s.', r.response_offset, r.response_shard, c.responses) END;
	END IF;
	IF lease IS NOT NULL AND NOT lease = ANY (r.leases) THEN
		RAISE EXCEPTION 'lease % was not given for this request', lease USING ERRCODE = 'invalid_parameter_value';
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_pending(oid, fleetlog.log_position, bigint) IS 'internal: a pending request, locked';

-- A record of a stream of responses: it has the tenant and device of the reading that was asked about.
CREATE FUNCTION fleetlog._loop_append_response(responses regclass, key text, tenant text, device text, request_shard int, request_offset bigint, body jsonb)
	RETURNS fleetlog.log_position
	LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT fleetlog.append(responses, key,
		convert_to((jsonb_build_object('request', jsonb_build_object('shard', request_shard, 'offset', request_offset)) || body)::text, 'UTF8'),
		headers => fleetlog.headers(jsonb_build_object('content-type', 'application/json')), device => device, tenant => tenant)
$$;
COMMENT ON FUNCTION fleetlog._loop_append_response(regclass, text, text, text, int, bigint, jsonb) IS 'internal: append what a model has said, or that it has not';

-- Appends the record that ends a request, and notes that it does.
CREATE FUNCTION fleetlog._loop_end_request(r fleetlog.loop_request, record jsonb) RETURNS fleetlog.log_position
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at fleetlog.log_position;
BEGIN
	at := fleetlog._loop_append_response((SELECT l.responses FROM fleetlog.loop_config l WHERE l."loop" = r."loop"), r.key,
		(r.reading).tenant, (r.reading).device, r.request_shard, r.request_offset, record);
	UPDATE fleetlog.loop_request l SET response_shard = at.shard, response_offset = at.log_offset
		WHERE l."loop" = r."loop" AND l.request_shard = r.request_shard AND l.request_offset = r.request_offset;
	RETURN at;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_end_request(fleetlog.loop_request, jsonb) IS 'internal: append the record that ends a request';

CREATE FUNCTION fleetlog._answer(caller oid, request fleetlog.log_position, lease bigint, response jsonb) RETURNS fleetlog.log_position
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF response IS NULL THEN
		RAISE EXCEPTION 'response must not be NULL' USING ERRCODE = 'null_value_not_allowed', HINT = 'Say fail_request() when the model has no answer.';
	END IF;
	RETURN fleetlog._loop_end_request(fleetlog._loop_pending(caller, request, lease),
		jsonb_strip_nulls(jsonb_build_object('lease', lease)) || jsonb_build_object('by', caller::regrole::text, 'response', response));
END
$$;
COMMENT ON FUNCTION fleetlog._answer(oid, fleetlog.log_position, bigint, jsonb) IS 'internal: answer';

CREATE FUNCTION fleetlog.answer(request fleetlog.log_position, lease bigint, response jsonb) RETURNS fleetlog.log_position
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.answer(fleetlog.log_position, bigint, jsonb) IS
	'answer a request that next_request has leased; returns where the response is; LF601 when another answer was first';

CREATE FUNCTION fleetlog._fail_request(caller oid, request fleetlog.log_position, lease bigint, error text) RETURNS bool
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	r fleetlog.loop_request := fleetlog._loop_pending(caller, request, lease);
BEGIN
	IF lease IS NULL THEN
		RAISE EXCEPTION 'lease must not be NULL' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	error := fleetlog._loop_short(error);
	-- Given back before, or another has it by now: it is his to fail.
	IF lease <> r.lease OR r.leased_until IS NULL THEN
		RETURN false;
	END IF;
	IF r.attempts >= (SELECT l.max_attempts FROM fleetlog.loop_config l WHERE l."loop" = r."loop") THEN
		PERFORM fleetlog._loop_end_request(r, jsonb_strip_nulls(jsonb_build_object('unanswered', true, 'attempts', r.attempts, 'error', error)));
	ELSE
		UPDATE fleetlog.loop_request l SET leased_until = NULL, last_error = error
			WHERE l."loop" = r."loop" AND l.request_shard = r.request_shard AND l.request_offset = r.request_offset;
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION fleetlog._fail_request(oid, fleetlog.log_position, bigint, text) IS 'internal: fail_request';

CREATE FUNCTION fleetlog.fail_request(request fleetlog.log_position, lease bigint, error text) RETURNS bool
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.fail_request(fleetlog.log_position, bigint, text) IS
	'give a leased request back without an answer; after max_attempts it ends as unanswered; false: the lease has ended before';

-- Requests whose time is over.  For the runner; returns how many.
CREATE FUNCTION fleetlog._loop_expire(loop text, max int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c fleetlog.loop_config;
	r fleetlog.loop_request;
	n bigint := 0;
BEGIN
	SELECT * INTO c FROM fleetlog.loop_config l WHERE l."loop" = _loop_expire.loop;
	-- The clock was set back: what was asked by the other time has all its time from now on.
	UPDATE fleetlog.loop_request q SET asked_at = clock_timestamp()
		WHERE q."loop" = c."loop" AND q.response_offset IS NULL AND q.asked_at > clock_timestamp();
	FOR r IN SELECT q.* FROM fleetlog.loop_request q
		WHERE q."loop" = c."loop" AND q.response_offset IS NULL
			AND (q.attempts >= c.max_attempts AND (q.leased_until IS NULL OR q.leased_until <= clock_timestamp() OR q.leased_at > clock_timestamp()) OR q.asked_at + c.answer_timeout <= clock_timestamp())
		ORDER BY q.request_shard, q.request_offset LIMIT max FOR UPDATE SKIP LOCKED
	LOOP
		PERFORM fleetlog._loop_end_request(r, jsonb_strip_nulls(jsonb_build_object('unanswered', true, 'attempts', r.attempts, 'error', r.last_error)));
		n := n + 1;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_expire(text, int) IS 'internal: ends requests whose last lease or time is over as unanswered';

CREATE FUNCTION fleetlog._loop_expiry_ms(loop text, lead_ms int) RETURNS bigint
	LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT (extract(epoch FROM min(least(CASE WHEN q.attempts >= c.max_attempts THEN coalesce(q.leased_until, clock_timestamp()) ELSE 'infinity' END,
			coalesce(q.asked_at + c.answer_timeout, 'infinity'), clock_timestamp() + interval '1 day')) - clock_timestamp()) * 1000)::bigint - lead_ms
	FROM fleetlog.loop_request q JOIN fleetlog.loop_config c ON c."loop" = q."loop" WHERE q."loop" = $1 AND q.response_offset IS NULL
$$;
COMMENT ON FUNCTION fleetlog._loop_expiry_ms(text, int) IS 'internal: milliseconds until the first request ends as unanswered, a day at most; NULL: none is pending';

-- ---- what the runner takes from the stream of responses --------------------------------------------------------------------------------

-- Which request a record answers, by which lease, and with what; nothing where it cannot be read.
CREATE FUNCTION fleetlog._loop_parse_response(rec fleetlog.log_record, OUT request_shard int, OUT request_offset bigint, OUT lease bigint, OUT response jsonb, OUT unanswered bool)
	LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p jsonb := fleetlog.json(rec.payload);
	r jsonb;
	said text;
BEGIN
	unanswered := false;
	IF p IS NULL THEN
		RETURN;
	END IF;
	IF jsonb_typeof(p) = 'object' AND p ? 'request' AND (p ? 'response' OR p -> 'unanswered' = 'true') THEN
		r := p -> 'request';
		said := CASE jsonb_typeof(r) WHEN 'string' THEN r #>> '{}' WHEN 'object' THEN concat(r ->> 'shard', ':', r ->> 'offset') END;
		IF p ? 'lease' AND p ->> 'lease' !~ '^[0-9]{1,18}$' THEN
			RETURN;
		END IF;
		lease := (p ->> 'lease')::bigint;
		unanswered := NOT p ? 'response';
		response := CASE WHEN unanswered THEN '{"unanswered": true}' ELSE p -> 'response' END;
	ELSE
		SELECT fleetlog.text(h.value) INTO said FROM fleetlog.headers_array(rec.headers) h WHERE h.name = 'correlation-data' ORDER BY h.reserved DESC, h.ordinal LIMIT 1;
		response := p;
	END IF;
	IF said ~ '^[0-9]{1,9}:[0-9]{1,18}$' THEN
		request_shard := split_part(said, ':', 1)::int;
		request_offset := split_part(said, ':', 2)::bigint;
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_parse_response(fleetlog.log_record) IS 'internal: which request a record of the stream of responses answers, and with what';

-- One response.  Says taken, late, malformed, or busy: another transaction has the request, and nothing is known yet.
CREATE FUNCTION fleetlog._loop_take_response(c fleetlog.loop_config, said record, rec fleetlog.log_record) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r fleetlog.loop_request;
BEGIN
	IF said.request_offset IS NULL THEN
		RETURN 'malformed';
	END IF;
	SELECT * INTO r FROM fleetlog.loop_request q
		WHERE q."loop" = c."loop" AND q.request_shard = said.request_shard AND q.request_offset = said.request_offset FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN CASE WHEN EXISTS (SELECT FROM fleetlog.loop_request q
			WHERE q."loop" = c."loop" AND q.request_shard = said.request_shard AND q.request_offset = said.request_offset) THEN 'busy' ELSE 'late' END;
	ELSIF r.responded_at IS NOT NULL OR (r.response_offset IS NOT NULL AND (r.response_shard, r.response_offset) <> (rec.shard, rec.log_offset)) THEN
		RETURN 'late';
	ELSIF r.response_offset IS NULL AND said.unanswered THEN
		-- Only the runner and fail_request() say so.
		RETURN 'malformed';
	ELSIF r.response_offset IS NULL AND said.lease IS NOT NULL AND NOT said.lease = ANY (r.leases) THEN
		RETURN 'late';
	END IF;
	UPDATE fleetlog.loop_request q SET response_shard = rec.shard, response_offset = rec.log_offset, response = said.response, responded_at = rec.ts
		WHERE q."loop" = r."loop" AND q.request_shard = r.request_shard AND q.request_offset = r.request_offset;
	RETURN 'taken';
END
$$;
COMMENT ON FUNCTION fleetlog._loop_take_response(fleetlog.loop_config, record, fleetlog.log_record) IS 'internal: marks a request as answered';

-- For the runner; returns how many records it took, -1: some are left for later, since another transaction has their requests.
CREATE FUNCTION fleetlog._loop_intake(loop text, shard int, max int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	c fleetlog.loop_config;
	p fleetlog.loop_response_position;
	rec fleetlog.log_record;
	said record;
	verdict text;
	head bigint;
	busy text[] := '{}';
	later bigint[] := '{}';
	n bigint := 0;
BEGIN
	SELECT * INTO p FROM fleetlog.loop_response_position o WHERE o."loop" = _loop_intake.loop AND o.shard = _loop_intake.shard FOR UPDATE SKIP LOCKED;
	SELECT * INTO c FROM fleetlog.loop_config l WHERE l."loop" = p."loop";
	IF NOT FOUND THEN
		RETURN 0;
	END IF;
	head := fleetlog.head(c.responses, p.shard);
	IF head > least(p.log_offset, p.deferred[1]) THEN
		-- An answer that was removed before it was taken is none: its request is asked again.
		UPDATE fleetlog.loop_request q SET response_shard = NULL, response_offset = NULL
			WHERE q."loop" = c."loop" AND q.response_shard = p.shard AND q.response_offset < head AND q.responded_at IS NULL;
		p.log_offset := greatest(p.log_offset, head);
	END IF;
	FOR rec IN SELECT x.* FROM unnest(p.deferred) d(o), fleetlog.read(c.responses, p.shard, d.o, 1) x WHERE d.o >= head
		UNION ALL SELECT * FROM fleetlog.read(c.responses, p.shard, p.log_offset, _loop_intake.max) ORDER BY log_offset
	LOOP
		said := fleetlog._loop_parse_response(rec);
		-- What comes behind an answer that is left for later, to the same request, is too.
		verdict := CASE WHEN concat(said.request_shard, ':', said.request_offset) = ANY (busy) THEN 'busy' ELSE fleetlog._loop_take_response(c, said, rec) END;
		IF verdict = 'busy' THEN
			-- So many, and no more: from there on all wait.
			EXIT WHEN cardinality(later) >= 2 * _loop_intake.max;
			busy := busy || concat(said.request_shard, ':', said.request_offset);
			later := later || rec.log_offset;
		END IF;
		p.late := p.late + (verdict = 'late')::int;
		p.malformed := p.malformed + (verdict = 'malformed')::int;
		p.log_offset := greatest(p.log_offset, rec.log_offset + 1);
		n := n + 1;
	END LOOP;
	UPDATE fleetlog.loop_response_position o SET log_offset = p.log_offset, late = p.late, malformed = p.malformed, deferred = later
		WHERE o."loop" = p."loop" AND o.shard = p.shard
			AND (o.log_offset, o.late, o.malformed, o.deferred) IS DISTINCT FROM (p.log_offset, p.late, p.malformed, later);
	RETURN CASE WHEN later = '{}' THEN n ELSE -1 END;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_intake(text, int, int) IS 'internal: takes responses that were appended to their stream';

-- Shards that a stream was given since: their readings are those of its newest policy, from the first on.  For the runner.
CREATE FUNCTION fleetlog._loop_add_shards() RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n bigint;
BEGIN
	WITH added AS (
		INSERT INTO fleetlog.loop_position (loop, shard, log_offset)
		SELECT l."loop", g, 0 FROM fleetlog.loop_config l JOIN fleetlog.stream_config s ON s.stream = l.source, generate_series(0, s.shards - 1) g
		WHERE NOT EXISTS (SELECT FROM fleetlog.loop_position o WHERE o."loop" = l."loop" AND o.shard = g)
			-- Where a loop has none at all, a dump is being restored: the rows are yet to come.
			AND EXISTS (SELECT FROM fleetlog.loop_position o WHERE o."loop" = l."loop")
		RETURNING loop, shard)
	INSERT INTO fleetlog.loop_policy_range (loop, policy_version, shard, from_offset)
	SELECT a."loop", (SELECT max(p.policy_version) FROM fleetlog.loop_policy p WHERE p."loop" = a."loop"), a.shard, 0 FROM added a;
	GET DIAGNOSTICS n = ROW_COUNT;
	INSERT INTO fleetlog.loop_response_position (loop, shard, log_offset)
	SELECT l."loop", g, 0 FROM fleetlog.loop_config l JOIN fleetlog.stream_config s ON s.stream = l.responses, generate_series(0, s.shards - 1) g
	WHERE NOT EXISTS (SELECT FROM fleetlog.loop_response_position o WHERE o."loop" = l."loop" AND o.shard = g)
		AND EXISTS (SELECT FROM fleetlog.loop_response_position o WHERE o."loop" = l."loop");
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_add_shards() IS 'internal: positions of shards that the streams of loops were given since';

-- ---- views --------------------------------------------------------------------------------------------------------------------------

CREATE VIEW fleetlog.loop AS
	SELECT l."loop", l.source, p.policy, p.policy_version, p.model, p.model_version, p.parameters, p.replayable, l.evidence, l.max_attempts, l.answer_timeout,
		   l.command_prefix, l.paused, l.requests, l.responses, l.decisions, l.owner, l.created_at
	FROM fleetlog.loop_config l
	CROSS JOIN LATERAL (SELECT * FROM fleetlog.loop_policy p WHERE p."loop" = l."loop" ORDER BY p.policy_version DESC LIMIT 1) p;
COMMENT ON VIEW fleetlog.loop IS 'decision loops, each with the newest version of its policy and model';

CREATE VIEW fleetlog.stat_loop AS
	SELECT o."loop", o.shard,
		   CASE WHEN l.paused THEN 'paused' WHEN o.error_offset IS NOT NULL THEN 'stopped' WHEN o.error IS NOT NULL THEN 'failing'
			   WHEN w.waiting >= pg_catalog.current_setting('fleetlog.loop_max_waiting')::bigint THEN 'waiting for answers' ELSE 'running' END AS state,
		   o.log_offset, greatest(0, t.durable_tail - o.log_offset) AS lag, o.rate * exp(-greatest(0, extract(epoch FROM clock_timestamp() - o.updated_at)) / 60) AS readings_per_second,
		   o.readings, o.requests, o.decisions, o.commands, r.pending, r.leased, w.waiting, o.answered, o.unanswered, o.gone,
		   CASE WHEN o.shard = 0 THEN p.late + fleetlog._loop_refused(o."loop", 0) ELSE 0 END AS late_answers,
		   CASE WHEN o.shard = 0 THEN p.malformed ELSE 0 END AS malformed_answers,
		   o.error, o.error_offset, o.error_at, r.oldest_request, o.updated_at
	FROM fleetlog.loop_position o
	JOIN fleetlog.loop_config l ON l."loop" = o."loop"
	LEFT JOIN fleetlog._stat_shard() t ON t.stream = l.source AND t.shard = o.shard
	CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE q.responded_at IS NULL) AS pending,
			count(*) FILTER (WHERE q.response_offset IS NULL AND q.leased_until > clock_timestamp()) AS leased, min(q.asked_at) AS oldest_request
		FROM fleetlog.loop_request q WHERE q."loop" = o."loop" AND q.shard = o.shard) r
	CROSS JOIN LATERAL (SELECT count(*) AS waiting FROM fleetlog.loop_waiting q WHERE q."loop" = o."loop" AND q.shard = o.shard) w
	CROSS JOIN LATERAL (SELECT coalesce(sum(q.late), 0)::bigint AS late, coalesce(sum(q.malformed), 0)::bigint AS malformed
		FROM fleetlog.loop_response_position q WHERE q."loop" = o."loop") p;
COMMENT ON VIEW fleetlog.stat_loop IS
	'shards of decision loops: how far behind, rates and counts, requests that are pending, readings that wait behind them, and the error that stopped one';

REVOKE ALL ON FUNCTION fleetlog._loop_policy_call(regprocedure, bool, fleetlog.log_record, jsonb, jsonb, timestamptz), fleetlog._loop_own(oid, text), fleetlog._loop_policy_function(text, int), fleetlog._loop_check_policy(oid, regprocedure, bool),
	fleetlog._loop_check_replayable(oid, regprocedure, bool),
	fleetlog._loop_add_policy(text, int, regprocedure, bool, text, text, jsonb), fleetlog._loop_check_streams(oid, regclass, regclass[]),
	fleetlog._loop_register_as(oid, text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb),
	fleetlog._loop_register(text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb),
	fleetlog.create_loop(text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb),
	fleetlog._loop_give(oid, fleetlog.loop_config, regrole), fleetlog._alter_loop(oid, text, regprocedure, text, text, jsonb, text, int, bool, interval, regrole),
	fleetlog.alter_loop(text, regprocedure, text, text, jsonb, text, int, bool, interval, regrole),
	fleetlog._drop_loop(oid, text), fleetlog.drop_loop(text), fleetlog._pause_loop(oid, text), fleetlog.pause_loop(text),
	fleetlog._resume_loop(oid, text), fleetlog.resume_loop(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
	fleetlog._loop_register(text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb),
	fleetlog.create_loop(text, regclass, regprocedure, text, text, jsonb, text, text, int, bool, regclass, regclass, regclass, interval, jsonb),
	fleetlog.alter_loop(text, regprocedure, text, text, jsonb, text, int, bool, interval, regrole), fleetlog.drop_loop(text),
	fleetlog.pause_loop(text), fleetlog.resume_loop(text) TO fleetlog_admin;
GRANT SELECT ON fleetlog.loop TO PUBLIC;
GRANT SELECT ON fleetlog.stat_loop TO fleetlog_admin, pg_monitor;

-- Models need no more than rights on the streams; the functions look at them.
REVOKE ALL ON FUNCTION fleetlog._next_request(oid, text, int, interval), fleetlog._loop_is_restricted(oid, regclass),
	fleetlog._loop_check_model(oid, regclass, regclass), fleetlog._loop_check_lease(oid, regclass, regclass, int, interval), fleetlog._loop_pending(oid, fleetlog.log_position, bigint),
	fleetlog._loop_append_response(regclass, text, text, text, int, bigint, jsonb),
	fleetlog._loop_end_request(fleetlog.loop_request, jsonb), fleetlog._answer(oid, fleetlog.log_position, bigint, jsonb),
	fleetlog._fail_request(oid, fleetlog.log_position, bigint, text), fleetlog._loop_expire(text, int), fleetlog._loop_expiry_ms(text, int),
	fleetlog._loop_take_response(fleetlog.loop_config, record, fleetlog.log_record), fleetlog._loop_intake(text, int, int), fleetlog._loop_add_shards(), fleetlog._loop_refused(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._loop_refused(text, int) TO fleetlog_admin, pg_monitor;
