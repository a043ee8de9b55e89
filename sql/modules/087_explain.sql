-- Why was it decided so (D5): from a decision, or from a device and a time, the chain reading -> request -> response -> decision -> command -> delivery -> answer.
--
-- Links lead from a device and a time to decisions.  The runner writes them in the transaction that writes the decisions, so they are never behind;
-- they go with the records, when the head of the stream has passed those.

CREATE TABLE fleetlog.loop_decision_link (
	stream regclass NOT NULL,
	shard int NOT NULL,
	log_offset bigint NOT NULL,
	ts timestamptz NOT NULL,
	tenant text NOT NULL COLLATE "C",
	device text NOT NULL COLLATE "C",
	PRIMARY KEY (stream, shard, log_offset, tenant, device)
);
CREATE INDEX loop_decision_link_device ON fleetlog.loop_decision_link (device, tenant, ts);
COMMENT ON TABLE fleetlog.loop_decision_link IS
	'which decisions there are about a device: those about a reading of its, and those that sent it a command; without a tenant, device is the key of the reading';

-- Where the chain of a decision lies, also when the loop has been dropped.
CREATE TABLE fleetlog.loop_decision_stream (
	stream regclass NOT NULL,
	loop text NOT NULL,
	source regclass NOT NULL,
	requests regclass NOT NULL,
	responses regclass NOT NULL,
	PRIMARY KEY (stream, loop)
);
COMMENT ON TABLE fleetlog.loop_decision_stream IS 'streams of the loops that have written into a stream of decisions';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_decision_link', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_decision_stream', '');

-- Whoever may read a decision sees its links: the right on the stream, and its row-level rules where it has some.
CREATE FUNCTION fleetlog._loop_link_visible(stream regclass, shard int, log_offset bigint) RETURNS bool
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found bool;
BEGIN
	EXECUTE format('SELECT EXISTS (SELECT FROM %s d WHERE d.shard = $1 AND d.log_offset = $2)', stream) INTO found USING shard, log_offset;
	RETURN found;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_link_visible(regclass, int, bigint) IS 'internal: does the caller see this record?';

ALTER TABLE fleetlog.loop_decision_link ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleetlog.loop_decision_link FOR SELECT USING (pg_catalog.has_table_privilege(stream, 'SELECT')
	AND (NOT pg_catalog.row_security_active(stream) OR fleetlog._loop_link_visible(stream, shard, log_offset)));
REVOKE ALL ON fleetlog.loop_decision_link, fleetlog.loop_decision_stream FROM PUBLIC;
GRANT SELECT ON fleetlog.loop_decision_link, fleetlog.loop_decision_stream TO PUBLIC;

-- For the runner, in the transaction that has appended the records [from_offset, to_offset) of a shard of decisions; called again, it adds
-- what is missing.  Returns the number of new links.
CREATE FUNCTION fleetlog._loop_link(decisions regclass, shard int, from_offset bigint, to_offset bigint) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp SET fleetlog.read_barrier = off
AS $$
#variable_conflict use_variable
DECLARE
	n bigint;
BEGIN
	EXECUTE format($q$
		WITH d AS MATERIALIZED (
			SELECT s.log_offset, s.ts, s.tenant, s.device, s.key, fleetlog.json(s.payload) AS body FROM %s s
			WHERE s.shard = $2 AND s.log_offset >= $3 AND s.log_offset < $4),
		about AS (
			SELECT d.log_offset, d.ts, coalesce(d.tenant, d.body #>> '{reading,tenant}', v.tenant, '') AS tenant,
				coalesce(d.device, d.body #>> '{reading,device}', v.id, d.key, '') AS device
			FROM d LEFT JOIN fleetlog.device v ON d.device IS NULL AND v.tenant = split_part(d.key, '/', 1) AND v.id = substr(d.key, strpos(d.key, '/') + 1)
			UNION
			SELECT d.log_offset, d.ts, coalesce(c.tenant, CASE WHEN n.name LIKE '%%/%%' THEN split_part(n.name, '/', 1) END, ''),
				coalesce(c.device, substr(n.name, strpos(n.name, '/') + 1))
			FROM d CROSS JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(d.body -> 'commands') WHEN 'array' THEN d.body -> 'commands' ELSE '[]' END) e
				CROSS JOIN LATERAL (SELECT e ->> 'device' AS name) n
				LEFT JOIN fleetlog.command c ON c.id = CASE WHEN e ->> 'id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (e ->> 'id')::uuid END
			WHERE coalesce(c.device, n.name) IS NOT NULL)
		INSERT INTO fleetlog.loop_decision_link (stream, shard, log_offset, ts, tenant, device)
			SELECT $1, $2, a.log_offset, a.ts, a.tenant, a.device FROM about a ON CONFLICT DO NOTHING
		$q$, decisions) USING decisions, shard, from_offset, to_offset;
	GET DIAGNOSTICS n = ROW_COUNT;
	INSERT INTO fleetlog.loop_decision_stream (stream, loop, source, requests, responses)
		SELECT l.decisions, l."loop", l.source, l.requests, l.responses FROM fleetlog.loop_config l
		WHERE l.decisions = _loop_link.decisions AND NOT EXISTS (SELECT FROM fleetlog.loop_decision_stream s WHERE s.stream = l.decisions AND s."loop" = l."loop"
			AND (s.source, s.requests, s.responses) = (l.source, l.requests, l.responses))
		ON CONFLICT (stream, loop) DO UPDATE SET source = EXCLUDED.source, requests = EXCLUDED.requests, responses = EXCLUDED.responses;
	DELETE FROM fleetlog.loop_decision_link l WHERE l.stream = decisions AND l.shard = _loop_link.shard AND l.log_offset < fleetlog.head(decisions, _loop_link.shard);
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_link(regclass, int, bigint, bigint) IS
	'internal: links devices to new decisions, and forgets links whose decisions are gone';

-- ---- explain ------------------------------------------------------------------------------------------------------------------

-- A record as the caller may read it, else why there is none.
CREATE FUNCTION fleetlog._explain_record(stream regclass, shard int, log_offset bigint, OUT record fleetlog.log_record, OUT missing text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
	IF stream IS NULL OR shard IS NULL OR log_offset IS NULL THEN
		missing := 'its position is not known';
	ELSIF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = stream) THEN
		missing := 'its stream was dropped';
	ELSIF NOT has_table_privilege(stream, 'SELECT') THEN
		missing := format('no right to read %s', stream);
	ELSE
		EXECUTE format('SELECT r.shard, r.log_offset, r.ts, r.created, r.tenant, r.device, r.key, r.key_bytes, r.headers, r.payload
			FROM %s r WHERE r.shard = $1 AND r.log_offset = $2', stream) INTO record USING shard, log_offset;
		IF record.log_offset IS NULL THEN
			missing := CASE WHEN log_offset < fleetlog.head(stream, shard) THEN 'gone: retention or a trim has removed it' ELSE format('not visible in %s', stream) END;
		END IF;
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._explain_record(regclass, int, bigint) IS 'internal: a record as the caller may read it, else why there is none';

-- A payload to look at: JSON where it is that, else text, else base64.
CREATE FUNCTION fleetlog._explain_payload(payload bytea) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN coalesce(fleetlog.json(payload), to_jsonb(fleetlog.text(payload)), to_jsonb(translate(encode(payload, 'base64'), E'\n', '')));
COMMENT ON FUNCTION fleetlog._explain_payload(bytea) IS 'internal: a payload to look at';

CREATE FUNCTION fleetlog._explain_position(stream regclass, at jsonb) RETURNS fleetlog.log_position
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN CASE WHEN stream IS NOT NULL AND jsonb_typeof(at -> 'shard') = 'number' AND jsonb_typeof(at -> 'offset') = 'number'
		THEN ROW(stream, (at ->> 'shard')::int, (at ->> 'offset')::bigint)::fleetlog.log_position END;
COMMENT ON FUNCTION fleetlog._explain_position(regclass, jsonb) IS 'internal: a position as records have it';

-- The reading: from its stream, else from the copy that the request or the decision keeps.
CREATE FUNCTION fleetlog._explain_reading(source regclass, copy jsonb, OUT step text, OUT ts timestamptz, OUT "position" fleetlog.log_position, OUT what text, OUT detail jsonb)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	found record;
	r fleetlog.log_record;
BEGIN
	step := 'reading';
	"position" := fleetlog._explain_position(source, copy);
	found := fleetlog._explain_record(source, ("position").shard, ("position").log_offset);
	r := found.record;
	IF found.missing IS NULL THEN
		ts := r.ts;
		what := concat_ws(' ', r.tenant || '/' || r.device, coalesce(r.key, encode(r.key_bytes, 'base64')));
		detail := jsonb_strip_nulls(jsonb_build_object('payload', fleetlog._explain_payload(r.payload), 'created', r.created));
	ELSIF copy ?| ARRAY['payload', 'payload_base64', 'key', 'key_base64'] THEN
		ts := (copy ->> 'ts')::timestamptz;
		what := concat_ws(' ', (copy ->> 'tenant') || '/' || (copy ->> 'device'), coalesce(copy ->> 'key', copy ->> 'key_base64'), '(from the copy)');
		detail := jsonb_strip_nulls(jsonb_build_object('payload', coalesce(fleetlog.json(convert_to(copy ->> 'payload', 'UTF8')), copy -> 'payload', copy -> 'payload_base64'),
			'created', copy -> 'created', 'record', found.missing));
	ELSE
		ts := (copy ->> 'ts')::timestamptz;
		what := CASE WHEN found.missing LIKE 'gone:%' THEN 'reading gone' ELSE found.missing END;
		detail := jsonb_build_object('record', found.missing);
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._explain_reading(regclass, jsonb) IS 'internal: a step of explain_decision';

CREATE FUNCTION fleetlog._explain_request(record fleetlog.log_record, missing text, OUT what text, OUT detail jsonb)
	LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	j jsonb := fleetlog.json(record.payload);
BEGIN
	what := coalesce(missing, format('model %s, version %s, asked by policy version %s', j ->> 'model', j ->> 'version', j ->> 'policy_version'));
	detail := nullif(jsonb_strip_nulls(jsonb_build_object('ask', j -> 'ask', 'parameters', nullif(j -> 'parameters', '{}'), 'state_before', j -> 'state_before')), '{}');
END
$$;
COMMENT ON FUNCTION fleetlog._explain_request(fleetlog.log_record, text) IS 'internal: a step of explain_decision';

-- What a model said is under "response", or the whole payload where an MQTT responder sent just that.
CREATE FUNCTION fleetlog._explain_response(record fleetlog.log_record, missing text, OUT what text, OUT detail jsonb)
	LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	j jsonb := fleetlog.json(record.payload);
BEGIN
	IF missing IS NOT NULL THEN
		what := missing;
	ELSIF (j -> 'unanswered') = 'true' THEN
		what := concat_ws(': ', format('unanswered after %s attempts', coalesce(j ->> 'attempts', '0')), j ->> 'error');
		detail := jsonb_build_object('unanswered', true);
	ELSE
		what := concat_ws(' ', 'answered', 'by ' || coalesce(j ->> 'by', record.tenant || '/' || record.device, record.headers::jsonb ->> 'fl.role'), 'under lease ' || (j ->> 'lease'));
		detail := CASE WHEN j ? 'request' AND j ? 'response' THEN j -> 'response' ELSE j END;
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._explain_response(fleetlog.log_record, text) IS 'internal: a step of explain_decision';

-- A command of a decision and all that became of it, as far as the caller may see it.
CREATE FUNCTION fleetlog._explain_command(command jsonb, decided_at timestamptz)
	RETURNS TABLE (step text, ts timestamptz, "position" fleetlog.log_position, what text, detail jsonb)
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	c fleetlog.command;
	log regclass := to_regclass('fleetlog.command_log');
BEGIN
	IF command ? 'error' THEN
		RETURN QUERY SELECT 'command', decided_at, NULL::fleetlog.log_position, format('%s to %s was not sent: %s', command ->> 'name', command ->> 'device', command ->> 'error'),
			jsonb_strip_nulls(jsonb_build_object('payload', command -> 'payload'));
		RETURN;
	END IF;
	SELECT * INTO c FROM fleetlog.command k
		WHERE k.id = CASE WHEN command ->> 'id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN (command ->> 'id')::uuid END;
	RETURN QUERY SELECT 'command', coalesce(c.issued_at, decided_at), NULL::fleetlog.log_position,
		format('%s to %s%s', command ->> 'name', coalesce(c.tenant || '/' || c.device, command ->> 'device'), CASE WHEN c.id IS NULL THEN '' ELSE ': ' || c.state END),
		jsonb_strip_nulls(jsonb_build_object('id', command -> 'id', 'payload', command -> 'payload', 'expires_at', c.expires_at));
	IF c.id IS NULL THEN
		RETURN QUERY SELECT 'delivery', NULL::timestamptz, NULL::fleetlog.log_position, 'not known: the command is no longer kept, or not for you to see', NULL::jsonb;
		RETURN;
	END IF;
	RETURN QUERY SELECT CASE WHEN e.event IN ('sent', 'delivered', 'refused', 'cancelled', 'unknown')
				OR e.event = 'expired' AND c.answered_at IS NULL THEN 'delivery' ELSE 'answer' END,
			e.at, CASE WHEN e.log_offset IS NOT NULL THEN ROW(log, e.shard, e.log_offset)::fleetlog.log_position END,
			concat_ws(': ', e.event || CASE WHEN e.late THEN ' (late)' ELSE '' END, e.detail),
			CASE WHEN e.event = c.state AND c.answered_at IS NOT NULL THEN c.answer END
		FROM fleetlog.command_event e WHERE e.command = c.id AND e.event <> 'pending' ORDER BY e.number;
END
$$;
COMMENT ON FUNCTION fleetlog._explain_command(jsonb, timestamptz) IS 'internal: steps of explain_decision';

CREATE FUNCTION fleetlog._explain_decision(stream regclass, record fleetlog.log_record)
	RETURNS TABLE (step text, ts timestamptz, "position" fleetlog.log_position, what text, detail jsonb, decision fleetlog.log_position)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	this fleetlog.log_position := ROW(stream, record.shard, record.log_offset);
	j jsonb := fleetlog.json(record.payload);
	s fleetlog.loop_decision_stream;
	asked fleetlog.log_position;
	answered fleetlog.log_position;
	q record;
	a record;
	copy jsonb := j -> 'reading';
BEGIN
	SELECT l.decisions, l."loop", l.source, l.requests, l.responses INTO s FROM fleetlog.loop l WHERE l.decisions = _explain_decision.stream AND l."loop" = j ->> 'loop';
	IF NOT FOUND THEN
		SELECT * INTO s FROM fleetlog.loop_decision_stream d WHERE d.stream = _explain_decision.stream AND d."loop" = j ->> 'loop';
	END IF;
	asked := fleetlog._explain_position(s.requests, j -> 'request');
	answered := fleetlog._explain_position(s.responses, j -> 'response');
	IF j ? 'request' THEN
		q := fleetlog._explain_record(s.requests, asked.shard, asked.log_offset);
		copy := coalesce(fleetlog.json((q.record).payload) -> 'reading', copy);
	END IF;
	RETURN QUERY SELECT r.*, this FROM fleetlog._explain_reading(s.source, copy) r;
	IF j ? 'request' THEN
		RETURN QUERY SELECT 'request', (q.record).ts, asked, r.*, this FROM fleetlog._explain_request(q.record, q.missing) r;
	END IF;
	IF j ? 'response' THEN
		a := fleetlog._explain_record(s.responses, answered.shard, answered.log_offset);
		RETURN QUERY SELECT 'response', (a.record).ts, answered, r.*, this FROM fleetlog._explain_response(a.record, a.missing) r;
	END IF;
	RETURN QUERY SELECT 'decision', record.ts, this, format('loop %s, policy version %s', j ->> 'loop', j ->> 'policy_version'),
		jsonb_strip_nulls(jsonb_build_object('decisions', j -> 'decisions', 'state_before', j -> 'state_before', 'state', j -> 'state')), this;
	RETURN QUERY SELECT r.step, r.ts, r."position", r.what, r.detail, this
		FROM jsonb_array_elements(CASE jsonb_typeof(j -> 'commands') WHEN 'array' THEN j -> 'commands' ELSE '[]' END) WITH ORDINALITY c(command, n)
			CROSS JOIN LATERAL fleetlog._explain_command(c.command, record.ts) WITH ORDINALITY r(step, ts, "position", what, detail, m) ORDER BY c.n, r.m;
END
$$;
COMMENT ON FUNCTION fleetlog._explain_decision(regclass, fleetlog.log_record) IS 'internal: the chain of a decision';

CREATE FUNCTION fleetlog.explain_decision(decision fleetlog.log_position)
	RETURNS TABLE (step text, ts timestamptz, "position" fleetlog.log_position, what text, detail jsonb, of_decision fleetlog.log_position)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 8 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	d record;
BEGIN
	IF decision IS NULL OR (decision).stream IS NULL OR (decision).shard IS NULL OR (decision).log_offset IS NULL THEN
		RAISE EXCEPTION 'decision must not be NULL' USING ERRCODE = 'null_value_not_allowed', HINT = $h$Write the position as ROW('valves_decision', 0, 17).$h$;
	END IF;
	IF NOT EXISTS (SELECT FROM fleetlog.stream s WHERE s.stream = (decision).stream) THEN
		RAISE EXCEPTION '"%" is not a stream', (decision).stream USING ERRCODE = 'wrong_object_type', HINT = 'Streams are listed in the view fleetlog.stream.';
	END IF;
	IF NOT has_table_privilege((decision).stream, 'SELECT') THEN
		RAISE EXCEPTION 'permission denied for table %', (decision).stream USING ERRCODE = 'insufficient_privilege';
	END IF;
	d := fleetlog._explain_record((decision).stream, (decision).shard, (decision).log_offset);
	IF d.missing LIKE 'gone:%' THEN
		RAISE EXCEPTION 'decision % of shard % of % is gone', (decision).log_offset, (decision).shard, (decision).stream USING ERRCODE = 'LF101',
			DETAIL = format('Oldest offset: %s.', fleetlog.head((decision).stream, (decision).shard));
	END IF;
	IF d.missing IS NOT NULL OR jsonb_typeof(fleetlog.json((d.record).payload) -> 'reading') IS DISTINCT FROM 'object' THEN
		RAISE EXCEPTION '% holds no decision at offset % of shard %', (decision).stream, (decision).log_offset, (decision).shard USING ERRCODE = 'invalid_parameter_value';
	END IF;
	RETURN QUERY SELECT * FROM fleetlog._explain_decision((decision).stream, d.record);
END
$$;
COMMENT ON FUNCTION fleetlog.explain_decision(fleetlog.log_position) IS
	'why it was decided so: the reading, what the model was asked and answered, the decision, its commands and what became of them, a row a step';

-- Links of a device, tenant/device or the bare id where one tenant has it, or of a key: one index range for each tenant that has the id.
CREATE FUNCTION fleetlog._explain_links(name text, from_ts timestamptz, to_ts timestamptz) RETURNS SETOF fleetlog.loop_decision_link
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	slash int := strpos(name, '/');
	found_in text[] := '{}';
	t text := (SELECT min(l.tenant) FROM fleetlog.loop_decision_link l WHERE l.device = name);
BEGIN
	WHILE t IS NOT NULL LOOP
		found_in := found_in || t;
		t := (SELECT min(l.tenant) FROM fleetlog.loop_decision_link l WHERE l.device = name AND l.tenant > t);
	END LOOP;
	RETURN QUERY
		SELECT l.* FROM fleetlog.loop_decision_link l WHERE l.device = name AND l.tenant = ANY (found_in) AND l.ts BETWEEN from_ts AND to_ts
		UNION ALL
		SELECT l.* FROM fleetlog.loop_decision_link l
		WHERE slash > 0 AND l.device = substr(name, slash + 1) AND l.tenant = left(name, slash - 1) AND l.ts BETWEEN from_ts AND to_ts
		ORDER BY 4, 1, 2, 3;
END
$$;
COMMENT ON FUNCTION fleetlog._explain_links(text, timestamptz, timestamptz) IS 'internal: decisions about a device in a time';

CREATE FUNCTION fleetlog.explain_decision(device text, at timestamptz, slack interval = '1 min')
	RETURNS TABLE (step text, ts timestamptz, "position" fleetlog.log_position, what text, detail jsonb, of_decision fleetlog.log_position)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	l fleetlog.loop_decision_link;
	d record;
	tenants text[] := '{}';
BEGIN
	IF device IS NULL OR at IS NULL OR slack IS NULL THEN
		RAISE EXCEPTION 'device, at and slack must not be NULL' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF slack < interval '0' THEN
		RAISE EXCEPTION 'slack must not be negative' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	FOR l IN SELECT * FROM fleetlog._explain_links(device, at - slack, at + slack) LOOP
		IF l.tenant <> '' AND strpos(device, '/') = 0 AND l.tenant <> ALL (tenants) THEN
			tenants := tenants || l.tenant;
			IF cardinality(tenants) > 1 THEN
				RAISE EXCEPTION 'device "%" exists in more than one tenant', device USING ERRCODE = 'ambiguous_parameter',
					HINT = format('Name it with its tenant, as in "%s/%s".', tenants[1], device);
			END IF;
		END IF;
		d := fleetlog._explain_record(l.stream, l.shard, l.log_offset);
		-- Gone since the link was read, or before the runner has forgotten the link.
		CONTINUE WHEN d.missing IS NOT NULL;
		RETURN QUERY SELECT * FROM fleetlog._explain_decision(l.stream, d.record);
	END LOOP;
END
$$;
COMMENT ON FUNCTION fleetlog.explain_decision(text, timestamptz, interval) IS
	'why it was decided so about a device, or a key, at about a time: the chains of all decisions about a reading of its, or that sent it a command';

REVOKE ALL ON FUNCTION fleetlog._loop_link(regclass, int, bigint, bigint) FROM PUBLIC;
