-- Shadow models (D4): the recorded requests of a loop go to another model, its answers to a stream of their own, and the policy says what it
-- would have decided with them.  docs/shadow-models.md
--
-- Nothing here writes anywhere but into these tables and that stream: there is no path to a command, to the streams of the loop or to its state.
-- The policy is only ever called by _loop_policy_call, in which nothing can be written.

CREATE TABLE fleetlog.shadow_model_config (
	loop text NOT NULL,
	name text NOT NULL,
	requests regclass NOT NULL,
	responses regclass NOT NULL,
	owner regrole NOT NULL,
	model text NOT NULL,
	version text NOT NULL,
	parameters jsonb,
	max_attempts int NOT NULL CHECK (max_attempts > 0),
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (loop, name)
);
COMMENT ON TABLE fleetlog.shadow_model_config IS 'shadow models of decision loops; written by create_shadow_model and drop_shadow_model';

CREATE TABLE fleetlog.shadow_model_range (
	loop text NOT NULL,
	name text NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	from_offset bigint NOT NULL CHECK (from_offset >= 0),
	to_offset bigint CHECK (to_offset >= from_offset),
	next_offset bigint NOT NULL,
	gone bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (loop, name, shard, from_offset)
) WITH (fillfactor = 50);
COMMENT ON TABLE fleetlog.shadow_model_range IS
	'which requests a shadow model is given, to_offset not included, NULL: all that come; the next one, and how many were gone before they were given';

CREATE TABLE fleetlog.shadow_model_request (
	loop text NOT NULL,
	name text NOT NULL,
	request_shard int NOT NULL,
	request_offset bigint NOT NULL,
	attempts int NOT NULL DEFAULT 0,
	lease bigint,
	leases bigint[] NOT NULL DEFAULT '{}',
	leased_at timestamptz,
	leased_until timestamptz,
	leased_by text,
	last_error text,
	response_shard int,
	response_offset bigint,
	PRIMARY KEY (loop, name, request_shard, request_offset)
) WITH (fillfactor = 70);
CREATE INDEX shadow_model_request_open ON fleetlog.shadow_model_request (loop, name, request_offset, request_shard) WHERE response_offset IS NULL;
COMMENT ON TABLE fleetlog.shadow_model_request IS 'requests that a shadow model was given and has not answered, or whose answer the runner has not seen';

CREATE TABLE fleetlog.shadow_model_position (
	loop text NOT NULL,
	name text NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	log_offset bigint NOT NULL CHECK (log_offset >= 0),
	late bigint NOT NULL DEFAULT 0,
	malformed bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (loop, name, shard)
) WITH (fillfactor = 50);
COMMENT ON TABLE fleetlog.shadow_model_position IS 'how far the answers of a shadow model have been taken from each shard of their stream, and what could not be used there';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.shadow_model_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.shadow_model_range', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.shadow_model_request', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.shadow_model_position', '');
REVOKE ALL ON fleetlog.shadow_model_config, fleetlog.shadow_model_range, fleetlog.shadow_model_request, fleetlog.shadow_model_position FROM PUBLIC;

-- The runner takes answers of the shadow models that it knows.
CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.shadow_model_config
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();

-- drop_loop takes the shadows of a loop along; their streams stay, as its own do.
CREATE FUNCTION fleetlog._shadow_loop_dropped() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM fleetlog.shadow_model_request q WHERE q."loop" = OLD."loop";
	DELETE FROM fleetlog.shadow_model_range r WHERE r."loop" = OLD."loop";
	DELETE FROM fleetlog.shadow_model_position p WHERE p."loop" = OLD."loop";
	DELETE FROM fleetlog.shadow_model_config s WHERE s."loop" = OLD."loop";
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_loop_dropped() IS 'internal: trigger of loop_config';
CREATE TRIGGER shadow_models AFTER DELETE ON fleetlog.loop_config FOR EACH ROW EXECUTE FUNCTION fleetlog._shadow_loop_dropped();

-- ---- create, drop -----------------------------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog._shadow_add_ranges(s fleetlog.shadow_model_config, ranges jsonb) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	g record;
	shards int := (SELECT c.shards FROM fleetlog.stream_config c WHERE c.stream = s.requests);
BEGIN
	IF jsonb_typeof(ranges) <> 'object' THEN
		RAISE EXCEPTION 'ranges must be an object of shards, each with a list of ranges' USING ERRCODE = 'invalid_parameter_value', HINT = 'As in {"0": [[100, 200], [900, null]]}.';
	END IF;
	FOR g IN SELECT e.key AS shard, r.value AS range FROM jsonb_each(ranges) e
		CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(e.value) WHEN 'array' THEN e.value ELSE jsonb_build_array(e.value) END) r
	LOOP
		IF g.shard !~ '^[0-9]{1,3}$' OR g.shard::int >= shards THEN
			RAISE EXCEPTION '% has no shard %', s.requests, g.shard USING ERRCODE = 'invalid_parameter_value';
		END IF;
		IF jsonb_typeof(g.range) <> 'array' OR jsonb_array_length(g.range) <> 2 OR jsonb_typeof(g.range -> 0) <> 'number' OR jsonb_typeof(g.range -> 1) NOT IN ('number', 'null')
			OR (g.range ->> 0)::numeric NOT BETWEEN 0 AND 9e18 OR (g.range ->> 1)::numeric NOT BETWEEN (g.range ->> 0)::numeric AND 9e18 THEN
			RAISE EXCEPTION 'range % of shard % is not [from, to]', g.range, g.shard USING ERRCODE = 'invalid_parameter_value';
		END IF;
		IF EXISTS (SELECT FROM fleetlog.shadow_model_range r WHERE r."loop" = s."loop" AND r.name = s.name AND r.shard = g.shard::int
				AND int8range(r.from_offset, r.to_offset) && int8range((g.range ->> 0)::bigint, (g.range ->> 1)::bigint)) THEN
			RAISE EXCEPTION 'ranges of shard % overlap', g.shard USING ERRCODE = 'invalid_parameter_value';
		END IF;
		INSERT INTO fleetlog.shadow_model_range (loop, name, shard, from_offset, to_offset, next_offset)
			VALUES (s."loop", s.name, g.shard::int, (g.range ->> 0)::bigint, (g.range ->> 1)::bigint, (g.range ->> 0)::bigint);
	END LOOP;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_add_ranges(fleetlog.shadow_model_config, jsonb) IS 'internal: note which requests a shadow model is given';

CREATE FUNCTION fleetlog._shadow_register_as(caller oid, loop text, name text, model text, version text, parameters jsonb, from_ts timestamptz, to_ts timestamptz,
		ranges jsonb, max_attempts int, responses regclass) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c fleetlog.loop_config := fleetlog._loop_own(caller, loop);
	s fleetlog.shadow_model_config;
BEGIN
	IF model IS NULL OR version IS NULL OR max_attempts IS NULL THEN
		RAISE EXCEPTION 'model, version and max_attempts must not be NULL' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF name IS NULL OR name !~ '^[A-Za-z0-9_-]{1,40}$' THEN
		RAISE EXCEPTION 'the name of a shadow model must be 1 to 40 letters, digits, _ or -' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF ranges IS NOT NULL AND (from_ts IS NOT NULL OR to_ts IS NOT NULL) THEN
		RAISE EXCEPTION 'give ranges or times, not both' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF EXISTS (SELECT FROM fleetlog.shadow_model_config k WHERE k."loop" = c."loop" AND k.name = name) THEN
		RAISE EXCEPTION 'shadow model "%" of loop "%" already exists', name, c."loop" USING ERRCODE = 'duplicate_object';
	END IF;
	PERFORM fleetlog._loop_check_streams(caller, c.source, responses);
	IF EXISTS (SELECT FROM fleetlog.loop_config l WHERE responses IN (l.source, l.requests, l.responses, l.decisions))
		OR EXISTS (SELECT FROM fleetlog.shadow_model_config k WHERE k.responses = responses) OR EXISTS (SELECT FROM fleetlog.mount m WHERE m.stream = responses) THEN
		RAISE EXCEPTION 'answers of a shadow model need a stream of their own' USING ERRCODE = 'object_in_use',
			DETAIL = format('"%s" has another use.', responses);
	END IF;
	INSERT INTO fleetlog.shadow_model_config (loop, name, requests, responses, owner, model, version, parameters, max_attempts)
		VALUES (c."loop", name, c.requests, responses, caller::regrole, model, version, parameters, max_attempts) RETURNING * INTO s;
	INSERT INTO fleetlog.shadow_model_position (loop, name, shard, log_offset)
		SELECT s."loop", s.name, g, fleetlog.tail(responses, g) FROM fleetlog.stream_config k, generate_series(0, k.shards - 1) g WHERE k.stream = responses;
	IF ranges IS NULL THEN
		SELECT jsonb_object_agg(g, jsonb_build_array(jsonb_build_array(r.first, CASE WHEN to_ts IS NOT NULL THEN greatest(r.first, r.last) END))) INTO ranges
		FROM fleetlog.stream_config k CROSS JOIN LATERAL generate_series(0, k.shards - 1) g
			CROSS JOIN LATERAL (SELECT fleetlog.tail(c.requests, g) AS tail) t
			CROSS JOIN LATERAL (SELECT CASE WHEN from_ts IS NOT NULL THEN coalesce(fleetlog.offset_for_time(c.requests, g, from_ts), t.tail)
					WHEN to_ts IS NOT NULL THEN fleetlog.head(c.requests, g) ELSE t.tail END AS first,
				coalesce(fleetlog.offset_for_time(c.requests, g, to_ts), t.tail) AS last) r
		WHERE k.stream = c.requests;
	END IF;
	PERFORM fleetlog._shadow_add_ranges(s, ranges);
	RETURN name;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_register_as(oid, text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass) IS
	'internal: what create_shadow_model does as the owner of the extension';

CREATE FUNCTION fleetlog._shadow_register(loop text, name text, model text, version text, parameters jsonb, from_ts timestamptz, to_ts timestamptz,
		ranges jsonb, max_attempts int, responses regclass) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._shadow_register(text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass) IS 'internal: the second half of create_shadow_model';

-- The stream is made as the caller, where his CREATE TABLE would put it.
CREATE FUNCTION fleetlog.create_shadow_model(loop text, name text, model text, version text, parameters jsonb = NULL, from_ts timestamptz = NULL, to_ts timestamptz = NULL,
		ranges jsonb = NULL, max_attempts int = 3, responses regclass = NULL) RETURNS text
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT fleetlog._shadow_register(loop, name, model, version, parameters, from_ts, to_ts, ranges, max_attempts,
		coalesce(responses, fleetlog.create_stream(pg_catalog.quote_ident(pg_catalog.concat(loop, '_shadow_', name)),
			shards => coalesce((SELECT s.shards FROM fleetlog.loop l JOIN fleetlog.stream s ON s.stream OPERATOR(pg_catalog.=) l.requests
				WHERE l."loop" OPERATOR(pg_catalog.=) create_shadow_model.loop), 1))));
END;
COMMENT ON FUNCTION fleetlog.create_shadow_model(text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass) IS
	'let another model answer requests of a loop, those to come or recorded ones, without effect; compare_shadow_model() tells what it would have changed';

CREATE FUNCTION fleetlog._drop_shadow_model(caller oid, loop text, name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s fleetlog.shadow_model_config;
BEGIN
	SELECT * INTO s FROM fleetlog.shadow_model_config k WHERE k."loop" = loop AND k.name = name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'loop "%" has no shadow model "%"', loop, name USING ERRCODE = 'undefined_object';
	END IF;
	IF NOT pg_has_role(caller, s.owner, 'USAGE') THEN
		RAISE EXCEPTION 'must be owner of shadow model "%"', name USING ERRCODE = 'insufficient_privilege';
	END IF;
	DELETE FROM fleetlog.shadow_model_request q WHERE q."loop" = s."loop" AND q.name = s.name;
	DELETE FROM fleetlog.shadow_model_range r WHERE r."loop" = s."loop" AND r.name = s.name;
	DELETE FROM fleetlog.shadow_model_position p WHERE p."loop" = s."loop" AND p.name = s.name;
	DELETE FROM fleetlog.shadow_model_config k WHERE k."loop" = s."loop" AND k.name = s.name;
END
$$;
COMMENT ON FUNCTION fleetlog._drop_shadow_model(oid, text, text) IS 'internal: drop_shadow_model';

CREATE FUNCTION fleetlog.drop_shadow_model(loop text, name text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.drop_shadow_model(text, text) IS 'end a shadow model; the stream of its answers stays';

-- ---- requests and answers -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog._shadow_find(caller oid, loop text, name text) RETURNS fleetlog.shadow_model_config
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s fleetlog.shadow_model_config;
BEGIN
	SELECT * INTO s FROM fleetlog.shadow_model_config k WHERE k."loop" = loop AND k.name = name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'loop "%" has no shadow model "%"', loop, name USING ERRCODE = 'undefined_object', HINT = 'They are listed in the view fleetlog.shadow_model.';
	END IF;
	PERFORM fleetlog._loop_check_model(caller, s.requests, s.responses);
	RETURN s;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_find(oid, text, text) IS 'internal: a shadow model that the caller may answer for';

-- Appends the record that ends a request, and notes that it does.
CREATE FUNCTION fleetlog._shadow_end_request(s fleetlog.shadow_model_config, q fleetlog.shadow_model_request, body jsonb) RETURNS fleetlog.log_position
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	asked record;
	at fleetlog.log_position;
BEGIN
	EXECUTE format('SELECT r.key, r.tenant, r.device FROM %s r WHERE r.shard = $1 AND r.log_offset = $2', s.requests) INTO asked USING q.request_shard, q.request_offset;
	at := fleetlog._loop_append_response(s.responses, asked.key, asked.tenant, asked.device, q.request_shard, q.request_offset, body);
	UPDATE fleetlog.shadow_model_request d SET response_shard = at.shard, response_offset = at.log_offset
		WHERE d."loop" = q."loop" AND d.name = q.name AND d.request_shard = q.request_shard AND d.request_offset = q.request_offset;
	RETURN at;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_end_request(fleetlog.shadow_model_config, fleetlog.shadow_model_request, jsonb) IS
	'internal: append the record that ends a request of a shadow model';

-- Takes up to `max` more requests from the ranges that nobody else is taking from.
CREATE FUNCTION fleetlog._shadow_take(s fleetlog.shadow_model_config, max int) RETURNS int
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	g fleetlog.shadow_model_range;
	head bigint;
	till bigint;
	n int := 0;
BEGIN
	FOR g IN SELECT * FROM fleetlog.shadow_model_range r WHERE r."loop" = s."loop" AND r.name = s.name AND (r.to_offset IS NULL OR r.next_offset < r.to_offset)
		ORDER BY r.shard, r.from_offset FOR UPDATE SKIP LOCKED
	LOOP
		head := least(greatest(fleetlog.head(s.requests, g.shard), g.next_offset), g.to_offset);
		till := least(fleetlog.tail(s.requests, g.shard), g.to_offset, head + (max - n));
		CONTINUE WHEN head = g.next_offset AND till <= head;
		INSERT INTO fleetlog.shadow_model_request (loop, name, request_shard, request_offset)
			SELECT s."loop", s.name, g.shard, o FROM generate_series(head, till - 1) o;
		UPDATE fleetlog.shadow_model_range r SET next_offset = greatest(till, head), gone = r.gone + (head - g.next_offset)
			WHERE r."loop" = g."loop" AND r.name = g.name AND r.shard = g.shard AND r.from_offset = g.from_offset;
		n := n + greatest(0, till - head)::int;
		EXIT WHEN n >= max;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_take(fleetlog.shadow_model_config, int) IS 'internal: more requests for a shadow model';

-- The reading of a request: its copy, or the record that it refers to.
CREATE FUNCTION fleetlog._shadow_reading(source regclass, reading jsonb) RETURNS fleetlog.log_record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r fleetlog.log_record;
BEGIN
	IF reading ?| ARRAY['payload', 'payload_base64', 'key', 'key_base64', 'headers', 'tenant'] THEN
		RETURN fleetlog._loop_reading(reading);
	END IF;
	EXECUTE format('SELECT r.shard, r.log_offset, r.ts, r.created, r.tenant, r.device, r.key, r.key_bytes, r.headers, r.payload FROM %s r
		WHERE r.shard = $1 AND r.log_offset = $2', source) INTO r USING (reading ->> 'shard')::int, (reading ->> 'offset')::bigint;
	RETURN CASE WHEN r.log_offset IS NOT NULL THEN r END;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_reading(regclass, jsonb) IS 'internal: the reading of a request; NULL: it is gone';

-- One request that is due, leased; NULL: it is gone, is none, or its reading is gone, and it was forgotten.
CREATE FUNCTION fleetlog._shadow_lease(caller oid, s fleetlog.shadow_model_config, q fleetlog.shadow_model_request, lease_time interval,
		OUT request fleetlog.log_position, OUT lease bigint, OUT model text, OUT version text, OUT parameters jsonb, OUT reading fleetlog.log_record,
		OUT ask jsonb, OUT attempt int, OUT leased_until timestamptz)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	j jsonb;
BEGIN
	EXECUTE format('SELECT fleetlog.json(r.payload) FROM %s r WHERE r.shard = $1 AND r.log_offset = $2', s.requests) INTO j USING q.request_shard, q.request_offset;
	IF j ->> 'loop' = s."loop" THEN
		reading := fleetlog._shadow_reading((SELECT l.source FROM fleetlog.loop_config l WHERE l."loop" = s."loop"), j -> 'reading');
	END IF;
	IF reading IS NULL THEN
		DELETE FROM fleetlog.shadow_model_request d WHERE d."loop" = s."loop" AND d.name = s.name AND d.request_shard = q.request_shard AND d.request_offset = q.request_offset;
		UPDATE fleetlog.shadow_model_range r SET gone = r.gone + 1 WHERE r."loop" = s."loop" AND r.name = s.name AND r.shard = q.request_shard
			AND r.from_offset <= q.request_offset AND (r.to_offset IS NULL OR q.request_offset < r.to_offset);
		RETURN;
	END IF;
	request := ROW(s.requests, q.request_shard, q.request_offset);
	model := s.model;
	version := s.version;
	parameters := coalesce(s.parameters, j -> 'parameters');
	ask := j -> 'ask';
	UPDATE fleetlog.shadow_model_request d SET attempts = d.attempts + 1, lease = g.number, leases = d.leases || g.number,
			leased_at = clock_timestamp(), leased_until = clock_timestamp() + lease_time, leased_by = caller::regrole::text
		FROM (SELECT nextval('fleetlog.loop_lease_seq') AS number) g
		WHERE d."loop" = s."loop" AND d.name = s.name AND d.request_shard = q.request_shard AND d.request_offset = q.request_offset
		RETURNING g.number, d.attempts, d.leased_until INTO lease, attempt, leased_until;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_lease(oid, fleetlog.shadow_model_config, fleetlog.shadow_model_request, interval) IS 'internal: lease one request to a shadow model';

CREATE FUNCTION fleetlog._next_shadow_request(caller oid, loop text, name text, max int, lease_time interval,
		OUT request fleetlog.log_position, OUT lease bigint, OUT model text, OUT version text, OUT parameters jsonb, OUT reading fleetlog.log_record,
		OUT ask jsonb, OUT attempt int, OUT leased_until timestamptz)
	RETURNS SETOF record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s fleetlog.shadow_model_config := fleetlog._shadow_find(caller, loop, name);
	q fleetlog.shadow_model_request;
	due int;
	given int := 0;
	seen int;
BEGIN
	PERFORM fleetlog._loop_check_lease(caller, s.requests, s.responses, max, lease_time);
	LOOP
		-- First what others were given and did not answer, then new ones.
		SELECT count(*) INTO due FROM fleetlog.shadow_model_request d
			WHERE d."loop" = s."loop" AND d.name = s.name AND d.response_offset IS NULL
				AND (d.leased_until IS NULL OR d.leased_until <= clock_timestamp() OR d.leased_at > clock_timestamp());
		IF due < max - given THEN
			PERFORM fleetlog._shadow_take(s, max - given - due);
		END IF;
		seen := 0;
		FOR q IN SELECT d.* FROM fleetlog.shadow_model_request d
			WHERE d."loop" = s."loop" AND d.name = s.name AND d.response_offset IS NULL
				AND (d.leased_until IS NULL OR d.leased_until <= clock_timestamp() OR d.leased_at > clock_timestamp())
			ORDER BY d.request_offset, d.request_shard LIMIT max - given FOR UPDATE SKIP LOCKED
		LOOP
			seen := seen + 1;
			IF q.attempts >= s.max_attempts THEN
				PERFORM fleetlog._shadow_end_request(s, q, jsonb_strip_nulls(jsonb_build_object('unanswered', true, 'attempts', q.attempts, 'error', q.last_error)));
				CONTINUE;
			END IF;
			RETURN QUERY SELECT r.* FROM fleetlog._shadow_lease(caller, s, q, lease_time) r WHERE r.lease IS NOT NULL;
			IF FOUND THEN
				given := given + 1;
			END IF;
		END LOOP;
		-- Again where some of them were none to give: gone, or at the end of their attempts.
		EXIT WHEN given >= max OR seen = 0;
	END LOOP;
END
$$;
COMMENT ON FUNCTION fleetlog._next_shadow_request(oid, text, text, int, interval) IS 'internal: next_shadow_request';

CREATE FUNCTION fleetlog.next_shadow_request(loop text, name text, max int = 1, lease_time interval = '30 s',
		OUT request fleetlog.log_position, OUT lease bigint, OUT model text, OUT version text, OUT parameters jsonb, OUT reading fleetlog.log_record,
		OUT ask jsonb, OUT attempt int, OUT leased_until timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION fleetlog.next_shadow_request(text, text, int, interval) IS
	'lease recorded requests of a loop to a shadow model: answer_shadow() them before the lease ends, else another may get them';

-- A request that was given and not answered, locked; the reason is raised when there is none.
CREATE FUNCTION fleetlog._shadow_pending(s fleetlog.shadow_model_config, request fleetlog.log_position, lease bigint) RETURNS fleetlog.shadow_model_request
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	q fleetlog.shadow_model_request;
BEGIN
	IF (request).stream IS DISTINCT FROM s.requests THEN
		RAISE EXCEPTION '% holds no requests of loop "%"', (request).stream, s."loop" USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT * INTO q FROM fleetlog.shadow_model_request d
		WHERE d."loop" = s."loop" AND d.name = s.name AND d.request_shard = (request).shard AND d.request_offset = (request).log_offset FOR UPDATE;
	IF NOT FOUND OR q.response_offset IS NOT NULL THEN
		IF q.response_offset IS NOT NULL OR EXISTS (SELECT FROM fleetlog.shadow_model_range r WHERE r."loop" = s."loop" AND r.name = s.name AND r.shard = (request).shard
				AND (request).log_offset >= r.from_offset AND (request).log_offset < r.next_offset) THEN
			RAISE EXCEPTION 'request already answered' USING ERRCODE = 'LF601';
		END IF;
		RAISE EXCEPTION 'shadow model "%" was not given this request', s.name USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF lease IS NULL OR NOT lease = ANY (q.leases) THEN
		RAISE EXCEPTION 'lease % was not given for this request', lease USING ERRCODE = 'invalid_parameter_value';
	END IF;
	RETURN q;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_pending(fleetlog.shadow_model_config, fleetlog.log_position, bigint) IS 'internal: a request that a shadow model has not answered, locked';

CREATE FUNCTION fleetlog._answer_shadow(caller oid, loop text, name text, request fleetlog.log_position, lease bigint, response jsonb) RETURNS fleetlog.log_position
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s fleetlog.shadow_model_config := fleetlog._shadow_find(caller, loop, name);
BEGIN
	IF response IS NULL THEN
		RAISE EXCEPTION 'response must not be NULL' USING ERRCODE = 'null_value_not_allowed', HINT = 'Say fail_shadow_request() when the model has no answer.';
	END IF;
	RETURN fleetlog._shadow_end_request(s, fleetlog._shadow_pending(s, request, lease),
		jsonb_build_object('lease', lease, 'by', caller::regrole::text, 'model', s.model, 'version', s.version, 'response', response));
END
$$;
COMMENT ON FUNCTION fleetlog._answer_shadow(oid, text, text, fleetlog.log_position, bigint, jsonb) IS 'internal: answer_shadow';

CREATE FUNCTION fleetlog.answer_shadow(loop text, name text, request fleetlog.log_position, lease bigint, response jsonb) RETURNS fleetlog.log_position
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.answer_shadow(text, text, fleetlog.log_position, bigint, jsonb) IS
	'answer a request that next_shadow_request has leased; returns where the response is; LF601 when another answer was first';

CREATE FUNCTION fleetlog._fail_shadow_request(caller oid, loop text, name text, request fleetlog.log_position, lease bigint, error text) RETURNS bool
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s fleetlog.shadow_model_config := fleetlog._shadow_find(caller, loop, name);
	q fleetlog.shadow_model_request := fleetlog._shadow_pending(s, request, lease);
BEGIN
	error := fleetlog._loop_short(error);
	-- Given back before, or another has it by now: it is his to fail.
	IF lease <> q.lease OR q.leased_until IS NULL THEN
		RETURN false;
	END IF;
	IF q.attempts >= s.max_attempts THEN
		PERFORM fleetlog._shadow_end_request(s, q, jsonb_strip_nulls(jsonb_build_object('unanswered', true, 'attempts', q.attempts, 'error', error)));
	ELSE
		UPDATE fleetlog.shadow_model_request d SET leased_until = NULL, last_error = error
			WHERE d."loop" = q."loop" AND d.name = q.name AND d.request_shard = q.request_shard AND d.request_offset = q.request_offset;
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION fleetlog._fail_shadow_request(oid, text, text, fleetlog.log_position, bigint, text) IS 'internal: fail_shadow_request';

CREATE FUNCTION fleetlog.fail_shadow_request(loop text, name text, request fleetlog.log_position, lease bigint, error text) RETURNS bool
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.fail_shadow_request(text, text, fleetlog.log_position, bigint, text) IS
	'give a leased request of a shadow model back without an answer; after max_attempts it ends as unanswered; false: the lease has ended before';

-- ---- what the runner takes from the stream of answers -----------------------------------------------------------------------------------

-- An answer to a request that nobody was given yet gives it, and those before it.  False: the shadow model is not asked about it.
CREATE FUNCTION fleetlog._shadow_give_up_to(s fleetlog.shadow_model_config, shard int, log_offset bigint) RETURNS bool
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	g fleetlog.shadow_model_range;
BEGIN
	SELECT * INTO g FROM fleetlog.shadow_model_range r WHERE r."loop" = s."loop" AND r.name = s.name AND r.shard = shard
		AND r.next_offset <= log_offset AND (r.to_offset IS NULL OR log_offset < r.to_offset) FOR UPDATE;
	IF NOT FOUND OR log_offset >= fleetlog.tail(s.requests, shard) OR log_offset < fleetlog.head(s.requests, shard) THEN
		RETURN false;
	END IF;
	INSERT INTO fleetlog.shadow_model_request (loop, name, request_shard, request_offset)
		SELECT s."loop", s.name, shard, o FROM generate_series(greatest(g.next_offset, fleetlog.head(s.requests, shard)), log_offset) o;
	UPDATE fleetlog.shadow_model_range r SET next_offset = log_offset + 1, gone = r.gone + greatest(0, fleetlog.head(s.requests, shard) - g.next_offset)
		WHERE r."loop" = g."loop" AND r.name = g.name AND r.shard = g.shard AND r.from_offset = g.from_offset;
	RETURN true;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_give_up_to(fleetlog.shadow_model_config, int, bigint) IS 'internal: note requests of a shadow model as given, up to one that it has answered';

-- One answer: false where it comes too late, or about nothing.  A request that another transaction has is waited for.
CREATE FUNCTION fleetlog._shadow_take_answer(s fleetlog.shadow_model_config, request_shard int, request_offset bigint, lease bigint, shard int, log_offset bigint) RETURNS bool
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	q fleetlog.shadow_model_request;
BEGIN
	PERFORM fleetlog._shadow_give_up_to(s, request_shard, request_offset)
		FROM fleetlog.stream_config k WHERE k.stream = s.requests AND request_shard < k.shards;
	SELECT * INTO q FROM fleetlog.shadow_model_request d
		WHERE d."loop" = s."loop" AND d.name = s.name AND d.request_shard = request_shard AND d.request_offset = request_offset FOR UPDATE;
	IF NOT FOUND OR (q.response_offset IS NOT NULL AND (q.response_shard, q.response_offset) <> (shard, log_offset))
		OR (q.response_offset IS NULL AND lease IS NOT NULL AND NOT lease = ANY (q.leases)) THEN
		RETURN false;
	END IF;
	DELETE FROM fleetlog.shadow_model_request d
		WHERE d."loop" = s."loop" AND d.name = s.name AND d.request_shard = request_shard AND d.request_offset = request_offset;
	RETURN true;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_take_answer(fleetlog.shadow_model_config, int, bigint, bigint, int, bigint) IS 'internal: an answer of a shadow model ends its request';

-- For the runner; returns how many records it took of all shadow models of the loop.
CREATE FUNCTION fleetlog._shadow_intake(loop text, max int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	p fleetlog.shadow_model_position;
	s fleetlog.shadow_model_config;
	rec fleetlog.log_record;
	said record;
	n bigint := 0;
BEGIN
	FOR p IN SELECT * FROM fleetlog.shadow_model_position o WHERE o."loop" = _shadow_intake."loop" ORDER BY o.name, o.shard FOR UPDATE SKIP LOCKED LOOP
		SELECT * INTO s FROM fleetlog.shadow_model_config k WHERE k."loop" = p."loop" AND k.name = p.name;
		CONTINUE WHEN NOT FOUND OR fleetlog.tail(s.responses, p.shard) <= p.log_offset;
		p.log_offset := greatest(p.log_offset, fleetlog.head(s.responses, p.shard));
		FOR rec IN SELECT * FROM fleetlog.read(s.responses, p.shard, p.log_offset, _shadow_intake.max) LOOP
			said := fleetlog._loop_parse_response(rec);
			IF said.request_offset IS NULL THEN
				p.malformed := p.malformed + 1;
			ELSIF NOT fleetlog._shadow_take_answer(s, said.request_shard, said.request_offset, said.lease, p.shard, rec.log_offset) THEN
				p.late := p.late + 1;
			END IF;
			p.log_offset := rec.log_offset + 1;
			n := n + 1;
		END LOOP;
		UPDATE fleetlog.shadow_model_position o SET log_offset = p.log_offset, late = p.late, malformed = p.malformed
			WHERE o."loop" = p."loop" AND o.name = p.name AND o.shard = p.shard;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_intake(text, int) IS 'internal: takes answers that were appended to the streams of shadow models';

-- ---- compare ----------------------------------------------------------------------------------------------------------------------------

-- What kind of outcome it is: decisions by their text, or by what names them, and commands by name.
CREATE FUNCTION fleetlog._shadow_kind(decisions jsonb, commands jsonb) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (SELECT coalesce(string_agg(k.kind, ', ' ORDER BY k.part, k.n), 'nothing') FROM (
		SELECT 1 AS part, d.n, CASE jsonb_typeof(d.e) WHEN 'object' THEN coalesce(d.e ->> 'kind', d.e ->> 'decision', d.e ->> 'action', d.e ->> 'name', d.e ->> 'type', 'decision')
			WHEN 'array' THEN 'decision' ELSE d.e #>> '{}' END AS kind
		FROM jsonb_array_elements(CASE jsonb_typeof(decisions) WHEN 'array' THEN decisions ELSE '[]' END) WITH ORDINALITY d(e, n)
		UNION ALL
		SELECT 2, c.n, 'command ' || (c.e ->> 'name') FROM jsonb_array_elements(CASE jsonb_typeof(commands) WHEN 'array' THEN commands ELSE '[]' END) WITH ORDINALITY c(e, n)) k);
COMMENT ON FUNCTION fleetlog._shadow_kind(jsonb, jsonb) IS 'internal: a line that says what was decided';

-- An outcome without what differs from run to run: ids of commands, or why they could not be sent, and members that are null.
CREATE FUNCTION fleetlog._shadow_outcome(body jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN jsonb_build_object('decisions', CASE jsonb_typeof(body -> 'decisions') WHEN 'array' THEN body -> 'decisions' ELSE '[]' END,
		'commands', (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(c.e - '{id,error}'::text[]) || jsonb_build_object('payload', coalesce(c.e -> 'payload', 'null')) ORDER BY c.n), '[]')
			FROM jsonb_array_elements(CASE jsonb_typeof(body -> 'commands') WHEN 'array' THEN body -> 'commands' ELSE '[]' END) WITH ORDINALITY c(e, n)));
COMMENT ON FUNCTION fleetlog._shadow_outcome(jsonb) IS 'internal: decisions and commands as they are compared';

-- Requests that the loop has not decided about, and its policies made ready.
CREATE FUNCTION fleetlog._shadow_waiting_as(caller oid, loop text, name text, OUT request_shard int, OUT request_offset bigint) RETURNS SETOF record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	c fleetlog.loop_config;
BEGIN
	SELECT * INTO c FROM fleetlog.loop_config l WHERE l."loop" = _shadow_waiting_as.loop;
	IF NOT has_table_privilege(caller, c.requests, 'SELECT') OR NOT has_table_privilege(caller, c.decisions, 'SELECT') THEN
		RAISE EXCEPTION 'permission denied for decisions of loop "%"', c."loop" USING ERRCODE = 'insufficient_privilege',
			HINT = 'Comparing needs SELECT on the requests and decisions of the loop and on the responses of the shadow model.';
	END IF;
	IF EXISTS (SELECT FROM fleetlog.loop_policy p WHERE p."loop" = c."loop" AND NOT p.replayable AND NOT pg_has_role(caller, p.policy_owner, 'USAGE')) THEN
		RAISE EXCEPTION 'must be able to act as the owner of the policy of loop "%", which is not replayable', c."loop" USING ERRCODE = 'insufficient_privilege';
	END IF;
	PERFORM fleetlog._loop_policy_function(c."loop", p.policy_version) FROM fleetlog.loop_policy p WHERE p."loop" = c."loop";
	RETURN QUERY SELECT q.request_shard, q.request_offset FROM fleetlog.loop_request q WHERE q."loop" = c."loop";
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_waiting_as(oid, text, text) IS 'internal: requests that the loop has not decided about';

CREATE FUNCTION fleetlog._shadow_waiting(loop text, name text, OUT request_shard int, OUT request_offset bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._shadow_waiting(text, text) IS 'internal: requests that the loop has not decided about';

-- What a version of the policy says; {"error": …} where it fails.
CREATE FUNCTION fleetlog._shadow_decide_as(caller oid, loop text, policy_version int, reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	p fleetlog.loop_policy;
BEGIN
	SELECT k.* INTO p FROM fleetlog.loop_policy k JOIN fleetlog.loop_config l ON l."loop" = k."loop"
		WHERE k."loop" = loop AND k.policy_version = policy_version AND has_table_privilege(caller, l.decisions, 'SELECT')
			AND (k.replayable OR pg_has_role(caller, k.policy_owner, 'USAGE'));
	IF NOT FOUND THEN
		RETURN jsonb_build_object('error', format('no policy version %s', policy_version));
	END IF;
	RETURN coalesce(fleetlog._loop_policy_call((p.function || '(fleetlog.log_record, jsonb, jsonb, timestamptz)')::regprocedure, p.replayable, reading, response, state, at), '{}');
EXCEPTION WHEN OTHERS THEN
	RETURN jsonb_build_object('error', SQLERRM);
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_decide_as(oid, text, int, fleetlog.log_record, jsonb, jsonb, timestamptz) IS 'internal: what a policy says to the answer of a shadow model';

CREATE FUNCTION fleetlog._shadow_decide(loop text, policy_version int, reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._shadow_decide(text, int, fleetlog.log_record, jsonb, jsonb, timestamptz) IS 'internal: what a policy says to the answer of a shadow model';

CREATE VIEW fleetlog.shadow_model AS
	SELECT s."loop", s.name, s.model, s.version, s.parameters, s.max_attempts, s.requests, s.responses, s.owner, s.created_at
	FROM fleetlog.shadow_model_config s;
COMMENT ON VIEW fleetlog.shadow_model IS 'shadow models of decision loops';

CREATE VIEW fleetlog.stat_shadow_model AS
	SELECT r."loop", r.name, r.shard, r.from_offset, r.to_offset, r.next_offset, greatest(0, least(t.durable_tail, r.to_offset) - r.next_offset) AS lag, q.pending, q.leased, r.gone,
		   CASE WHEN r.shard = f.shard AND r.from_offset = f.from_offset THEN p.late ELSE 0 END AS late_answers,
		   CASE WHEN r.shard = f.shard AND r.from_offset = f.from_offset THEN p.malformed ELSE 0 END AS malformed_answers
	FROM fleetlog.shadow_model_range r
	JOIN fleetlog.shadow_model_config s ON s."loop" = r."loop" AND s.name = r.name
	LEFT JOIN fleetlog._stat_shard() t ON t.stream = s.requests AND t.shard = r.shard
	CROSS JOIN LATERAL (SELECT count(*) AS pending, count(*) FILTER (WHERE d.leased_until > clock_timestamp()) AS leased FROM fleetlog.shadow_model_request d
		WHERE d."loop" = r."loop" AND d.name = r.name AND d.response_offset IS NULL AND d.request_shard = r.shard AND d.request_offset >= r.from_offset AND d.request_offset < r.next_offset) q
	CROSS JOIN LATERAL (SELECT coalesce(sum(o.late), 0)::bigint AS late, coalesce(sum(o.malformed), 0)::bigint AS malformed
		FROM fleetlog.shadow_model_position o WHERE o."loop" = r."loop" AND o.name = r.name) p
	CROSS JOIN LATERAL (SELECT g.shard, g.from_offset FROM fleetlog.shadow_model_range g WHERE g."loop" = r."loop" AND g.name = r.name ORDER BY 1, 2 LIMIT 1) f;
COMMENT ON VIEW fleetlog.stat_shadow_model IS
	'how far shadow models are: requests of each range that are still to be given, that were given and not answered, and that were gone; answers that were late or malformed stand with the first range';

-- The rows to compare: each request that the shadow model has answered, with what was decided.
CREATE FUNCTION fleetlog._shadow_pairs(s fleetlog.shadow_model, decisions regclass, tails bigint[], from_ts timestamptz, to_ts timestamptz)
	RETURNS TABLE (shard int, log_offset bigint, ts timestamptz, key text, request jsonb, answer jsonb, decision jsonb)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY EXECUTE format($q$
		WITH q AS (
			SELECT r.shard, r.log_offset, r.ts, r.key, fleetlog.json(r.payload) AS body FROM %1$s r WHERE r.ts >= $3 AND r.ts <= $4),
		a AS (
			SELECT DISTINCT ON (y.request_shard, y.request_offset) y.request_shard AS shard, y.request_offset AS log_offset,
				jsonb_build_object('response', y.response) AS body
			FROM (SELECT r.ts, r.shard, r.log_offset, ROW(r.*)::fleetlog.log_record AS rec FROM %2$s r WHERE r.ts >= $3 AND r.log_offset < $2[r.shard + 1]) x
				CROSS JOIN LATERAL fleetlog._loop_parse_response(x.rec) y
			WHERE y.request_offset IS NOT NULL
			ORDER BY y.request_shard, y.request_offset, x.ts, x.shard, x.log_offset),
		d AS (
			SELECT (x.body #>> '{request,shard}')::int AS shard, (x.body #>> '{request,offset}')::bigint AS log_offset, x.body
			FROM (SELECT fleetlog.json(r.payload) AS body FROM %3$s r WHERE r.ts >= $3) x
			WHERE x.body ->> 'loop' = $1 AND jsonb_typeof(x.body #> '{request,shard}') = 'number' AND jsonb_typeof(x.body #> '{request,offset}') = 'number')
		SELECT q.shard, q.log_offset, q.ts, q.key, q.body, a.body, d.body
		FROM q JOIN a ON a.shard = q.shard AND a.log_offset = q.log_offset LEFT JOIN d ON d.shard = q.shard AND d.log_offset = q.log_offset
		WHERE q.body ->> 'loop' = $1
		ORDER BY q.ts, q.shard, q.log_offset
		$q$, s.requests, s.responses, decisions) USING s."loop", tails, coalesce(from_ts, '-infinity'), coalesce(to_ts, 'infinity');
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_pairs(fleetlog.shadow_model, regclass, bigint[], timestamptz, timestamptz) IS 'internal: answers of a shadow model with what was decided';

CREATE FUNCTION fleetlog.shadow_decisions(loop text, name text, from_ts timestamptz = NULL, to_ts timestamptz = NULL)
	RETURNS TABLE (request fleetlog.log_position, ts timestamptz, key text, verdict text, recorded_kind text, shadow_kind text, recorded jsonb, shadow jsonb, response jsonb, reason text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	s fleetlog.shadow_model;
	l fleetlog.loop;
	tails bigint[];
	waiting jsonb;
	p record;
	r fleetlog.log_record;
	said jsonb;
BEGIN
	SELECT * INTO s FROM fleetlog.shadow_model m WHERE m."loop" = shadow_decisions.loop AND m.name = shadow_decisions.name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'loop "%" has no shadow model "%"', loop, name USING ERRCODE = 'undefined_object', HINT = 'They are listed in the view fleetlog.shadow_model.';
	END IF;
	SELECT * INTO l FROM fleetlog.loop v WHERE v."loop" = s."loop";
	-- In this order: a request answered below these tails was asked before, and if it does not wait now, its decision is seen from here on.
	SELECT array_agg(fleetlog.tail(s.responses, g) ORDER BY g) INTO tails FROM fleetlog.stream k, generate_series(0, k.shards - 1) g WHERE k.stream = s.responses;
	SELECT coalesce(jsonb_object_agg(w.request_shard || ':' || w.request_offset, true), '{}') INTO waiting FROM fleetlog._shadow_waiting(s."loop", s.name) w;
	FOR p IN SELECT * FROM fleetlog._shadow_pairs(s, l.decisions, tails, from_ts, to_ts) LOOP
		request := ROW(s.requests, p.shard, p.log_offset);
		ts := p.ts;
		key := p.key;
		response := p.answer -> 'response';
		recorded := fleetlog._shadow_outcome(p.decision);
		recorded_kind := fleetlog._shadow_kind(recorded -> 'decisions', recorded -> 'commands');
		shadow := NULL;
		shadow_kind := NULL;
		reason := NULL;
		r := fleetlog._shadow_reading(l.source, p.request -> 'reading');
		IF waiting ? (p.shard || ':' || p.log_offset) THEN
			verdict := 'waiting';
			recorded := NULL;
			recorded_kind := NULL;
		ELSIF r IS NULL THEN
			verdict := 'reading gone';
		ELSE
			said := fleetlog._shadow_decide(s."loop", (p.request ->> 'policy_version')::int, r, response,
				nullif(CASE WHEN p.decision IS NOT NULL THEN p.decision -> 'state_before' WHEN p.request ? 'state' THEN p.request -> 'state' ELSE p.request -> 'state_before' END, 'null'),
				coalesce((p.decision ->> 'at')::timestamptz, p.ts));
			shadow := fleetlog._shadow_outcome(said);
			shadow_kind := fleetlog._shadow_kind(shadow -> 'decisions', shadow -> 'commands');
			verdict := CASE WHEN said ? 'error' THEN 'failed' WHEN shadow = recorded THEN 'same' ELSE 'different' END;
			IF verdict = 'failed' THEN
				reason := said ->> 'error';
				shadow := NULL;
				shadow_kind := 'failed';
			END IF;
		END IF;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION fleetlog.shadow_decisions(text, text, timestamptz, timestamptz) IS
	'each request that a shadow model has answered: what was decided, and what the policy would have decided with its answer';

CREATE FUNCTION fleetlog.compare_shadow_model(loop text, name text, from_ts timestamptz = NULL, to_ts timestamptz = NULL, bucket interval = '1 hour', differences int = 10)
	RETURNS TABLE (part text, item text, compared bigint, same bigint, agreement numeric, detail jsonb)
	LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH d AS MATERIALIZED (SELECT * FROM fleetlog.shadow_decisions(loop, name, from_ts, to_ts)),
	c AS (SELECT d.*, d.verdict OPERATOR(pg_catalog.=) 'same' AS agrees FROM d WHERE d.verdict OPERATOR(pg_catalog.=) ANY (ARRAY['same', 'different', 'failed'])),
	parts AS (
		SELECT 1 AS n, 'all' AS part, '' AS item, pg_catalog.count(*) AS compared, pg_catalog.count(*) FILTER (WHERE c.agrees) AS same,
			pg_catalog.jsonb_build_object('waiting', (SELECT pg_catalog.count(*) FROM d WHERE d.verdict OPERATOR(pg_catalog.=) 'waiting'),
				'reading gone', (SELECT pg_catalog.count(*) FROM d WHERE d.verdict OPERATOR(pg_catalog.=) 'reading gone'),
				'failed', pg_catalog.count(*) FILTER (WHERE c.verdict OPERATOR(pg_catalog.=) 'failed'),
				'unanswered', pg_catalog.count(*) FILTER (WHERE c.response OPERATOR(pg_catalog.@>) '{"unanswered": true}')) AS detail, 0::bigint AS rank
		FROM c
		UNION ALL
		SELECT 2, 'kind', k.recorded_kind, pg_catalog.sum(k.n)::bigint, coalesce(pg_catalog.sum(k.n) FILTER (WHERE k.agrees), 0)::bigint,
			pg_catalog.jsonb_object_agg(CASE WHEN k.shadow_kind OPERATOR(pg_catalog.=) k.recorded_kind THEN pg_catalog.concat(k.shadow_kind, ', otherwise') ELSE k.shadow_kind END, k.n)
				FILTER (WHERE NOT k.agrees), (pg_catalog.sum(k.n) OPERATOR(pg_catalog.*) (-1))::bigint
		FROM (SELECT c.recorded_kind, c.shadow_kind, c.agrees, pg_catalog.count(*) AS n FROM c GROUP BY 1, 2, 3) k GROUP BY k.recorded_kind
		UNION ALL
		SELECT 3, 'key', k.key, pg_catalog.sum(k.n)::bigint, coalesce(pg_catalog.sum(k.n) FILTER (WHERE k.agrees), 0)::bigint,
			pg_catalog.jsonb_object_agg(pg_catalog.concat(k.recorded_kind, ' -> ', k.shadow_kind), k.n) FILTER (WHERE NOT k.agrees),
			(coalesce(pg_catalog.sum(k.n) FILTER (WHERE NOT k.agrees), 0) OPERATOR(pg_catalog.*) (-1))::bigint
		FROM (SELECT c.key, c.recorded_kind, c.shadow_kind, c.agrees, pg_catalog.count(*) AS n FROM c GROUP BY 1, 2, 3, 4) k GROUP BY k.key
		HAVING pg_catalog.bool_or(NOT k.agrees)
		UNION ALL
		SELECT 4, 'time', pg_catalog.date_bin(bucket, c.ts, '2000-01-01 00:00:00+00')::text, pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE c.agrees), NULL::jsonb,
			pg_catalog.date_part('epoch', pg_catalog.date_bin(bucket, c.ts, '2000-01-01 00:00:00+00'))::bigint
		FROM c GROUP BY pg_catalog.date_bin(bucket, c.ts, '2000-01-01 00:00:00+00')
		UNION ALL
		(SELECT 5, 'difference', c.request::text, 1, 0, pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object('ts', c.ts, 'key', c.key, 'recorded', c.recorded, 'shadow', c.shadow,
				'response', c.response, 'reason', c.reason)), pg_catalog.row_number() OVER (ORDER BY c.ts, (c.request).shard, (c.request).log_offset)
		FROM c WHERE NOT c.agrees ORDER BY 7 LIMIT differences))
	SELECT p.part, p.item, p.compared, p.same, pg_catalog.round(p.same::numeric OPERATOR(pg_catalog./) nullif(p.compared, 0), 4), p.detail
	FROM parts p ORDER BY p.n, p.rank, p.item;
END;
COMMENT ON FUNCTION fleetlog.compare_shadow_model(text, text, timestamptz, timestamptz, interval, int) IS
	'what a shadow model would have changed: agreement in all, by kind of decision, by key where it differs, over time, and the first differences';

REVOKE ALL ON FUNCTION fleetlog._shadow_register(text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass),
	fleetlog._shadow_register_as(oid, text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass),
	fleetlog.create_shadow_model(text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass),
	fleetlog._drop_shadow_model(oid, text, text), fleetlog.drop_shadow_model(text, text), fleetlog._shadow_add_ranges(fleetlog.shadow_model_config, jsonb),
	fleetlog._shadow_find(oid, text, text), fleetlog._shadow_end_request(fleetlog.shadow_model_config, fleetlog.shadow_model_request, jsonb),
	fleetlog._shadow_take(fleetlog.shadow_model_config, int), fleetlog._shadow_lease(oid, fleetlog.shadow_model_config, fleetlog.shadow_model_request, interval),
	fleetlog._next_shadow_request(oid, text, text, int, interval), fleetlog._shadow_pending(fleetlog.shadow_model_config, fleetlog.log_position, bigint),
	fleetlog._answer_shadow(oid, text, text, fleetlog.log_position, bigint, jsonb), fleetlog._fail_shadow_request(oid, text, text, fleetlog.log_position, bigint, text),
	fleetlog._shadow_waiting_as(oid, text, text), fleetlog._shadow_decide_as(oid, text, int, fleetlog.log_record, jsonb, jsonb, timestamptz),
	fleetlog._shadow_loop_dropped(), fleetlog._shadow_give_up_to(fleetlog.shadow_model_config, int, bigint),
	fleetlog._shadow_take_answer(fleetlog.shadow_model_config, int, bigint, bigint, int, bigint), fleetlog._shadow_intake(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._shadow_register(text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass),
	fleetlog.create_shadow_model(text, text, text, text, jsonb, timestamptz, timestamptz, jsonb, int, regclass), fleetlog.drop_shadow_model(text, text) TO fleetlog_admin;
GRANT SELECT ON fleetlog.shadow_model TO PUBLIC;
GRANT SELECT ON fleetlog.stat_shadow_model TO fleetlog_admin, pg_monitor;
