-- Device shadows (R3): what is desired of a device and what it has reported, as fleet platforms know it, by SQL and by the
-- topics $fleetlog/things/<device>/shadow[/name/<n>]/{get,update,delete}.
--
-- Requests are records of the stream fleetlog.shadow_log, in order; the state worker takes them, changes the shadow and
-- publishes the answers in one transaction, so that each request has its effect exactly once, also across a crash.

CREATE TABLE fleetlog.shadow_config (
	tenant text NOT NULL,
	device text NOT NULL,
	name text NOT NULL DEFAULT '',
	version bigint NOT NULL CHECK (version > 0),
	deleted bool NOT NULL DEFAULT false,
	desired jsonb,
	reported jsonb,
	desired_metadata jsonb,
	reported_metadata jsonb,
	updated_at timestamptz NOT NULL,
	PRIMARY KEY (tenant, device, name)
);
COMMENT ON TABLE fleetlog.shadow_config IS 'device shadows, named ones by their name; a deleted one stays as its version';
SELECT pg_catalog.pg_extension_config_dump('fleetlog.shadow_config', '');

CREATE VIEW fleetlog.shadow AS
	SELECT tenant, device, nullif(name, '') AS name, version, desired, reported, updated_at FROM fleetlog.shadow_config WHERE NOT deleted;
COMMENT ON VIEW fleetlog.shadow IS 'device shadows: what is desired and what was reported; name NULL: the classic one';

CREATE FUNCTION fleetlog._publish_as(topic text, payload bytea, headers fleetlog.headers, retain bool, qos int, tenant text, device text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_publish' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._publish_as(text, bytea, fleetlog.headers, bool, int, text, text) IS 'internal: publish() for a device; needs the rights of an importer';
REVOKE ALL ON FUNCTION fleetlog._publish_as(text, bytea, fleetlog.headers, bool, int, text, text) FROM PUBLIC;

CREATE FUNCTION fleetlog.enable_shadows(shards int = 1) RETURNS regclass
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF to_regclass('fleetlog.shadow_log') IS NULL THEN
		PERFORM fleetlog.create_stream('fleetlog.shadow_log', shards => shards, retention_age => interval '7 days');
		PERFORM fleetlog.mount('$fleetlog/things/', 'fleetlog.shadow_log', shard_key => '{level 3}');
	END IF;
	RETURN to_regclass('fleetlog.shadow_log');
END
$$;
COMMENT ON FUNCTION fleetlog.enable_shadows(int) IS
	'make the stream and the mount of device shadows, once; set_desired does so by itself';

-- ---- documents ------------------------------------------------------------------------------------------------------------

-- Objects are merged at every depth, null removes, everything else replaces.
CREATE FUNCTION fleetlog._shadow_merge(base jsonb, patch jsonb) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result jsonb := CASE WHEN jsonb_typeof(base) = 'object' THEN base ELSE '{}' END;
	k text;
	v jsonb;
BEGIN
	FOR k, v IN SELECT key, value FROM jsonb_each(patch) LOOP
		result := CASE jsonb_typeof(v)
			WHEN 'null' THEN result - k
			WHEN 'object' THEN result || jsonb_build_object(k, fleetlog._shadow_merge(result -> k, v))
			ELSE result || jsonb_build_object(k, v) END;
	END LOOP;
	RETURN result;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_merge(jsonb, jsonb) IS 'internal: a document with a patch merged into it';

-- The same for metadata: where the patch has a value stands when it came.
CREATE FUNCTION fleetlog._shadow_stamp(base jsonb, patch jsonb, at bigint) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result jsonb := CASE WHEN jsonb_typeof(base) = 'object' AND jsonb_typeof(base -> 'timestamp') IS DISTINCT FROM 'number' THEN base ELSE '{}' END;
	k text;
	v jsonb;
BEGIN
	FOR k, v IN SELECT key, value FROM jsonb_each(patch) LOOP
		result := CASE jsonb_typeof(v)
			WHEN 'null' THEN result - k
			WHEN 'object' THEN result || jsonb_build_object(k, fleetlog._shadow_stamp(result -> k, v, at))
			ELSE result || jsonb_build_object(k, jsonb_build_object('timestamp', at)) END;
	END LOOP;
	RETURN result;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_stamp(jsonb, jsonb, bigint) IS 'internal: metadata with the time of a patch';

-- What is desired and not reported so; NULL: nothing.
CREATE FUNCTION fleetlog._shadow_delta(desired jsonb, reported jsonb) RETURNS jsonb
	LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result jsonb;
	k text;
	v jsonb;
	d jsonb;
BEGIN
	FOR k, v IN SELECT key, value FROM jsonb_each(desired) LOOP
		IF reported -> k IS NOT DISTINCT FROM v THEN
			CONTINUE;
		END IF;
		d := CASE WHEN jsonb_typeof(v) = 'object' AND jsonb_typeof(reported -> k) = 'object' THEN fleetlog._shadow_delta(v, reported -> k) ELSE v END;
		IF d IS NOT NULL THEN
			result := coalesce(result, '{}') || jsonb_build_object(k, d);
		END IF;
	END LOOP;
	RETURN result;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_delta(jsonb, jsonb) IS 'internal: what differs between desired and reported';

-- The part of metadata that belongs to a delta.
CREATE FUNCTION fleetlog._shadow_pick(metadata jsonb, shape jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(jsonb_object_agg(s.key, CASE WHEN jsonb_typeof(s.value) = 'object' THEN fleetlog._shadow_pick(metadata -> s.key, s.value) ELSE metadata -> s.key END), '{}')
	FROM jsonb_each(shape) s WHERE metadata ? s.key
$$;
COMMENT ON FUNCTION fleetlog._shadow_pick(jsonb, jsonb) IS 'internal: the metadata of a delta';

CREATE FUNCTION fleetlog._shadow_document(s fleetlog.shadow_config) RETURNS jsonb
	LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT jsonb_build_object(
		'state', jsonb_strip_nulls(jsonb_build_object('delta', fleetlog._shadow_delta(s.desired, s.reported)))
			|| CASE WHEN s.desired IS NULL THEN '{}' ELSE jsonb_build_object('desired', s.desired) END
			|| CASE WHEN s.reported IS NULL THEN '{}' ELSE jsonb_build_object('reported', s.reported) END,
		'metadata', jsonb_strip_nulls(jsonb_build_object('desired', s.desired_metadata, 'reported', s.reported_metadata)),
		'version', s.version, 'timestamp', extract(epoch FROM s.updated_at)::bigint)
$$;
COMMENT ON FUNCTION fleetlog._shadow_document(fleetlog.shadow_config) IS 'internal: a shadow as get/accepted shows it';

CREATE FUNCTION fleetlog._shadow_depth(doc jsonb) RETURNS int
	LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	WITH RECURSIVE d(v, n) AS (
		SELECT doc, 0
		UNION ALL
		SELECT c.value, n + 1 FROM d, LATERAL (
			SELECT value FROM jsonb_each(CASE WHEN jsonb_typeof(v) = 'object' THEN v ELSE '{}' END)
			UNION ALL SELECT value FROM jsonb_array_elements(CASE WHEN jsonb_typeof(v) = 'array' THEN v ELSE '[]' END)) c
		WHERE n < 20)
	SELECT max(n) FROM d
$$;
COMMENT ON FUNCTION fleetlog._shadow_depth(jsonb) IS 'internal: how deep a document is nested, 20 at most';

-- ---- changing ---------------------------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog._shadow_topic(device text, name text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$ SELECT '$fleetlog/things/' || device || '/shadow' || CASE WHEN name = '' THEN '' ELSE '/name/' || name END $$;
COMMENT ON FUNCTION fleetlog._shadow_topic(text, text) IS 'internal: what the topics of a shadow begin with';

CREATE FUNCTION fleetlog._shadow_say(tenant text, device text, name text, tail text, document jsonb, token text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT fleetlog._publish_as(fleetlog._shadow_topic(device, name) || tail,
		convert_to((CASE WHEN token IS NULL THEN document ELSE document || jsonb_build_object('clientToken', token) END)::text, 'UTF8'),
		NULL, false, 1, tenant, device)
$$;
COMMENT ON FUNCTION fleetlog._shadow_say(text, text, text, text, jsonb, text) IS 'internal: publish an answer or a notice of a shadow';

-- One section after a patch: null removes it whole, a missing one stays.
CREATE FUNCTION fleetlog._shadow_section(section jsonb, patch jsonb, key text) RETURNS jsonb
	LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN NOT patch ? key THEN section
		WHEN jsonb_typeof(patch -> key) = 'null' THEN NULL
		ELSE fleetlog._shadow_merge(section, patch -> key) END
$$;
COMMENT ON FUNCTION fleetlog._shadow_section(jsonb, jsonb, text) IS 'internal: desired or reported after a patch';

-- Raises LF301 for a stale version, 22023 for what is no patch, 55P03 when somebody else is changing the shadow.
CREATE FUNCTION fleetlog._shadow_update(tenant text, device text, name text, patch jsonb, expected_version bigint, token text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	old fleetlog.shadow_config;
	new fleetlog.shadow_config;
	at bigint := extract(epoch FROM clock_timestamp())::bigint;
	delta jsonb;
	section text;
BEGIN
	IF jsonb_typeof(patch) IS DISTINCT FROM 'object' OR patch = '{}' THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a shadow update needs an object "state" with "desired" or "reported"';
	END IF;
	FOR section IN SELECT jsonb_object_keys(patch) LOOP
		IF section NOT IN ('desired', 'reported') OR jsonb_typeof(patch -> section) NOT IN ('object', 'null') THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('"%s" is no section of a shadow''s state, or no object', section);
		END IF;
	END LOOP;
	IF fleetlog._shadow_depth(patch) > 9 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the document is nested more than 8 levels deep';
	END IF;
	INSERT INTO fleetlog.shadow_config VALUES (tenant, device, name, 1, true, NULL, NULL, NULL, NULL, clock_timestamp())
		ON CONFLICT DO NOTHING;
	SELECT s.* INTO STRICT old FROM fleetlog.shadow_config s
		WHERE s.tenant = _shadow_update.tenant AND s.device = _shadow_update.device AND s.name = _shadow_update.name FOR UPDATE NOWAIT;
	-- One that was just made has version 0 for whoever asks.
	IF old.deleted AND old.version = 1 THEN
		old.version := 0;
	END IF;
	IF expected_version IS NOT NULL AND expected_version <> old.version THEN
		RAISE EXCEPTION USING ERRCODE = 'LF301', MESSAGE = format('shadow version is %s, not %s', old.version, expected_version),
			HINT = 'Read the shadow again.';
	END IF;
	new := old;
	new.version := old.version + 1;
	new.deleted := false;
	new.desired := fleetlog._shadow_section(old.desired, patch, 'desired');
	new.reported := fleetlog._shadow_section(old.reported, patch, 'reported');
	new.desired_metadata := CASE WHEN new.desired IS NULL THEN NULL WHEN patch ? 'desired' THEN fleetlog._shadow_stamp(old.desired_metadata, patch -> 'desired', at) ELSE old.desired_metadata END;
	new.reported_metadata := CASE WHEN new.reported IS NULL THEN NULL WHEN patch ? 'reported' THEN fleetlog._shadow_stamp(old.reported_metadata, patch -> 'reported', at) ELSE old.reported_metadata END;
	new.updated_at := to_timestamp(at);
	UPDATE fleetlog.shadow_config s SET (version, deleted, desired, reported, desired_metadata, reported_metadata, updated_at) =
		(new.version, false, new.desired, new.reported, new.desired_metadata, new.reported_metadata, new.updated_at)
		WHERE s.tenant = _shadow_update.tenant AND s.device = _shadow_update.device AND s.name = _shadow_update.name;

	PERFORM fleetlog._shadow_say(tenant, device, name, '/update/accepted', jsonb_build_object('state', patch,
		'metadata', jsonb_strip_nulls(jsonb_build_object('desired', nullif(fleetlog._shadow_pick(new.desired_metadata, nullif(patch -> 'desired', 'null')), '{}'),
			'reported', nullif(fleetlog._shadow_pick(new.reported_metadata, nullif(patch -> 'reported', 'null')), '{}'))),
		'version', new.version, 'timestamp', at), token);
	delta := fleetlog._shadow_delta(new.desired, new.reported);
	IF delta IS NOT NULL AND delta IS DISTINCT FROM fleetlog._shadow_delta(old.desired, old.reported) THEN
		PERFORM fleetlog._shadow_say(tenant, device, name, '/update/delta', jsonb_build_object('state', delta,
			'metadata', fleetlog._shadow_pick(new.desired_metadata, delta), 'version', new.version, 'timestamp', at), token);
	END IF;
	PERFORM fleetlog._shadow_say(tenant, device, name, '/update/documents', jsonb_build_object(
		'previous', CASE WHEN old.version = 0 OR old.deleted THEN 'null'::jsonb ELSE (fleetlog._shadow_document(old) #- '{state,delta}'::text[]) - 'timestamp'::text END,
		'current', (fleetlog._shadow_document(new) #- '{state,delta}'::text[]) - 'timestamp'::text, 'timestamp', at), token);
	RETURN new.version;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_update(text, text, text, jsonb, bigint, text) IS 'internal: merge a patch into a shadow and tell';

CREATE FUNCTION fleetlog._shadow_delete(tenant text, device text, name text, token text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	old fleetlog.shadow_config;
BEGIN
	SELECT s.* INTO old FROM fleetlog.shadow_config s
		WHERE s.tenant = _shadow_delete.tenant AND s.device = _shadow_delete.device AND s.name = _shadow_delete.name AND NOT deleted FOR UPDATE NOWAIT;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = 'no shadow exists with this name';
	END IF;
	UPDATE fleetlog.shadow_config s SET (version, deleted, desired, reported, desired_metadata, reported_metadata, updated_at) =
		(old.version + 1, true, NULL, NULL, NULL, NULL, clock_timestamp())
		WHERE s.tenant = old.tenant AND s.device = old.device AND s.name = old.name;
	PERFORM fleetlog._shadow_say(tenant, device, name, '/delete/accepted',
		jsonb_build_object('version', old.version, 'timestamp', extract(epoch FROM clock_timestamp())::bigint), token);
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_delete(text, text, text, text) IS 'internal: delete a shadow and tell; its version goes on counting';

CREATE FUNCTION fleetlog._shadow_get(tenant text, device text, name text, token text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s fleetlog.shadow_config;
BEGIN
	SELECT c.* INTO s FROM fleetlog.shadow_config c
		WHERE c.tenant = _shadow_get.tenant AND c.device = _shadow_get.device AND c.name = _shadow_get.name AND NOT deleted;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'P0002', MESSAGE = 'no shadow exists with this name';
	END IF;
	PERFORM fleetlog._shadow_say(tenant, device, name, '/get/accepted', fleetlog._shadow_document(s)
		|| jsonb_build_object('timestamp', extract(epoch FROM clock_timestamp())::bigint), token);
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_get(text, text, text, text) IS 'internal: answer with a shadow';

-- ---- requests over MQTT ------------------------------------------------------------------------------------------------------

-- Whatever is wrong with a request is told to its sender and harms no other.
CREATE FUNCTION fleetlog._shadow_request(topic text, tenant text, device text, payload bytea) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	part text[] := regexp_match(topic, '^\$fleetlog/things/([^/]+)/shadow(?:/name/([^/]+))?/(get|update|delete)$');
	name text := coalesce(part[2], '');
	document jsonb;
	token text;
	code int;
	message text;
BEGIN
	IF part IS NULL THEN
		RETURN;
	END IF;
	-- A client without identity names a device by its id, if exactly one has it.
	IF device IS NULL THEN
		SELECT min(d.tenant), min(d.id) INTO tenant, device FROM fleetlog.device d WHERE d.id = part[1] HAVING count(*) = 1;
	END IF;
	IF device IS DISTINCT FROM part[1] THEN
		RETURN;
	END IF;
	BEGIN
		IF octet_length(payload) > 65536 THEN
			RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'the payload exceeds the maximum size of 65536 bytes';
		END IF;
		document := CASE WHEN payload IS NULL OR payload = '' THEN '{}' ELSE fleetlog.json(payload) END;
		IF jsonb_typeof(document) IS DISTINCT FROM 'object' THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the payload is no JSON object';
		END IF;
		IF jsonb_typeof(document -> 'clientToken') = 'string' AND octet_length(document ->> 'clientToken') <= 64 THEN
			token := document ->> 'clientToken';
		ELSIF document ? 'clientToken' THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'clientToken must be a string of at most 64 bytes';
		END IF;
		IF document ? 'version' AND (jsonb_typeof(document -> 'version') <> 'number' OR document ->> 'version' !~ '^[0-9]{1,18}$') THEN
			RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'version must be a whole number';
		END IF;
		CASE part[3]
			WHEN 'get' THEN PERFORM fleetlog._shadow_get(tenant, device, name, token);
			WHEN 'delete' THEN PERFORM fleetlog._shadow_delete(tenant, device, name, token);
			ELSE PERFORM fleetlog._shadow_update(tenant, device, name, document -> 'state', (document ->> 'version')::bigint, token);
		END CASE;
	EXCEPTION WHEN OTHERS THEN
		message := SQLERRM;
		code := CASE SQLSTATE WHEN 'LF301' THEN 409 WHEN 'P0002' THEN 404 WHEN '22023' THEN 400 WHEN '54000' THEN 413 WHEN '55P03' THEN 503 ELSE 500 END;
		IF code = 503 THEN
			message := 'the shadow is being changed by somebody else; try again';
		END IF;
	END;
	IF code IS NOT NULL THEN
		PERFORM fleetlog._shadow_say(tenant, device, name, '/' || part[3] || '/rejected',
			jsonb_build_object('code', code, 'message', message, 'timestamp', extract(epoch FROM clock_timestamp())::bigint), token);
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_request(text, text, text, bytea) IS 'internal: serve a request to a shadow';

-- Called by the state worker; returns how many records it looked at.
CREATE FUNCTION fleetlog._shadow_run(max_records int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
	n bigint := 0;
BEGIN
	FOR r IN SELECT coalesce(headers ->> 'fl.topic', key) AS topic, tenant, device, payload FROM fleetlog.take('fleetlog.shadow', 'fleetlog.shadow_log', max_records) LOOP
		PERFORM fleetlog._shadow_request(r.topic, r.tenant, r.device, r.payload);
		n := n + 1;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._shadow_run(int) IS 'internal: serve what was requested over MQTT';

-- ---- for applications ---------------------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog.device_shadow(device text, name text = NULL) RETURNS jsonb
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._find_device(device);
	s fleetlog.shadow_config;
BEGIN
	SELECT c.* INTO s FROM fleetlog.shadow_config c
		WHERE c.tenant = who.tenant AND c.device = who.device AND c.name = coalesce(device_shadow.name, '') AND NOT deleted;
	RETURN CASE WHEN FOUND THEN fleetlog._shadow_document(s) END;
END
$$;
COMMENT ON FUNCTION fleetlog.device_shadow(text, text) IS 'the shadow of a device (state with desired, reported and delta, metadata, version, timestamp); NULL: none';

CREATE FUNCTION fleetlog.set_desired(device text, patch jsonb, expected_version bigint = NULL, name text = NULL) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._find_device(device);
BEGIN
	IF name ~ '[/+#]' OR name = '' OR octet_length(name) > 64 THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('"%s" is no name of a shadow', name), HINT = 'One topic level of at most 64 bytes.';
	END IF;
	PERFORM fleetlog.enable_shadows();
	RETURN fleetlog._shadow_update(who.tenant, who.device, coalesce(name, ''), jsonb_build_object('desired', patch), expected_version, NULL);
END
$$;
COMMENT ON FUNCTION fleetlog.set_desired(text, jsonb, bigint, text) IS
	'merge a patch into what is desired of a device (null removes) and tell the device at commit; returns the new version, LF301 when the version is not the expected one';

REVOKE ALL ON FUNCTION fleetlog.enable_shadows(int), fleetlog._shadow_say(text, text, text, text, jsonb, text),
	fleetlog._shadow_update(text, text, text, jsonb, bigint, text), fleetlog._shadow_delete(text, text, text, text),
	fleetlog._shadow_get(text, text, text, text), fleetlog._shadow_request(text, text, text, bytea), fleetlog._shadow_run(int),
	fleetlog.device_shadow(text, text), fleetlog.set_desired(text, jsonb, bigint, text) FROM PUBLIC;
