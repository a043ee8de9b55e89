-- Who may connect: tenants, devices, credentials, policies, and the record of what was done with them.
--
-- The functions are SECURITY DEFINER with a pinned search_path, so that an administrator needs EXECUTE on them and no
-- right on the tables.  Triggers, not the functions, tell the front doors about revocations: a row that a superuser
-- deletes by hand closes connections just the same.

CREATE FUNCTION fleetlog._tenant_problem(name text) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_tenant_problem' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._tenant_problem(text) IS 'internal: what is wrong with a tenant name, NULL when nothing is';

CREATE FUNCTION fleetlog._device_problem(id text) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_device_problem' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._device_problem(text) IS 'internal: what is wrong with a device id, NULL when nothing is';

CREATE FUNCTION fleetlog._policy_problem(filter text) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_policy_problem' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._policy_problem(text) IS 'internal: what is wrong with the filter of a policy, NULL when nothing is';

CREATE FUNCTION fleetlog._identity_changed() RETURNS trigger
	AS 'MODULE_PATHNAME', 'fl_sql_identity_changed' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._identity_changed() IS 'internal: tells the front doors at commit which connections have lost their right';

CREATE TABLE fleetlog.tenant (
	name text PRIMARY KEY CHECK (fleetlog._tenant_problem(name) IS NULL),
	prefix text NOT NULL UNIQUE CHECK (prefix <> '' AND fleetlog._prefix_problem(prefix) IS NULL AND prefix NOT LIKE '$%'),
	max_packet_bytes int NOT NULL DEFAULT 1048576 CHECK (max_packet_bytes BETWEEN 1024 AND 268435455),
	max_inflight int NOT NULL DEFAULT 20 CHECK (max_inflight BETWEEN 1 AND 65535),
	max_topic_levels int NOT NULL DEFAULT 16 CHECK (max_topic_levels BETWEEN 1 AND 128),
	max_subscriptions int NOT NULL DEFAULT 100 CHECK (max_subscriptions BETWEEN 0 AND 1000000),
	max_wildcard_subscriptions int NOT NULL DEFAULT 8 CHECK (max_wildcard_subscriptions BETWEEN 0 AND 1000000),
	max_queued_messages int NOT NULL DEFAULT 1000 CHECK (max_queued_messages BETWEEN 1 AND 10000000),
	max_queued_bytes int NOT NULL DEFAULT 1048576 CHECK (max_queued_bytes >= 1024),
	max_session_expiry interval NOT NULL DEFAULT '1 hour' CHECK (max_session_expiry >= interval '0'),
	max_connections int NOT NULL DEFAULT 0 CHECK (max_connections >= 0),
	max_sessions int NOT NULL DEFAULT 0 CHECK (max_sessions >= 0),
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE fleetlog.tenant IS 'tenants: each is confined to the topics below its prefix; limits hold for each of its devices, those of connections and sessions for all of them together';

CREATE TABLE fleetlog.device (
	tenant text NOT NULL,
	id text NOT NULL CHECK (fleetlog._device_problem(id) IS NULL),
	model text,
	hardware_root text,
	firmware_version text,
	attributes jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(attributes) = 'object'),
	created_at timestamptz NOT NULL DEFAULT now(),
	revoked_at timestamptz,
	revoke_reason text,
	PRIMARY KEY (tenant, id)
);
CREATE INDEX device_id ON fleetlog.device (id);
COMMENT ON TABLE fleetlog.device IS 'registry of devices; ids are unique per tenant';

CREATE SEQUENCE fleetlog.credential_id_seq;
COMMENT ON SEQUENCE fleetlog.credential_id_seq IS 'ids of credentials';

CREATE TABLE fleetlog.credential (
	id bigint PRIMARY KEY DEFAULT nextval('fleetlog.credential_id_seq'),
	tenant text NOT NULL,
	device text NOT NULL,
	kind text NOT NULL CHECK (kind IN ('password', 'certificate', 'psk')),
	verifier text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	revoked_at timestamptz,
	revoke_reason text,
	verifier_512 text
);
CREATE INDEX credential_device ON fleetlog.credential (tenant, device);
-- Two, because a certificate that was revoked must still be known as such, and may be given again.
CREATE INDEX credential_certificate ON fleetlog.credential (verifier) WHERE kind = 'certificate';
CREATE UNIQUE INDEX credential_certificate_valid ON fleetlog.credential (verifier) WHERE kind = 'certificate' AND revoked_at IS NULL;
COMMENT ON TABLE fleetlog.credential IS 'credentials of devices: verifiers of passwords, names of certificates, pre-shared keys (in hexadecimal); no role but the owner can read them';

CREATE TABLE fleetlog.policy (
	tenant text NOT NULL,
	action text NOT NULL CHECK (action IN ('publish', 'subscribe')),
	filter text NOT NULL CHECK (fleetlog._policy_problem(filter) IS NULL),
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, action, filter)
);
COMMENT ON TABLE fleetlog.policy IS 'what the devices of a tenant may do beyond their own topics; {device}, {tenant} and {client_id} are filled in literally';

CREATE TABLE fleetlog.audit (
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	actor text NOT NULL DEFAULT session_user,
	event text NOT NULL,
	object text NOT NULL,
	detail jsonb
);
CREATE INDEX audit_at ON fleetlog.audit (at);
ALTER TABLE fleetlog.audit REPLICA IDENTITY FULL;
COMMENT ON TABLE fleetlog.audit IS 'what was done to tenants, devices, credentials and policies, by whom';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.tenant', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.device', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.credential_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.credential', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.policy', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.audit', '');

CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.tenant
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();
CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.policy
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();
CREATE TRIGGER identity_changed AFTER INSERT OR UPDATE OR DELETE ON fleetlog.device
	FOR EACH ROW EXECUTE FUNCTION fleetlog._identity_changed();
CREATE TRIGGER identity_truncated AFTER TRUNCATE ON fleetlog.device
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._identity_changed();
CREATE TRIGGER identity_changed AFTER UPDATE OR DELETE ON fleetlog.credential
	FOR EACH ROW EXECUTE FUNCTION fleetlog._identity_changed();
CREATE TRIGGER identity_truncated AFTER TRUNCATE ON fleetlog.credential
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._identity_changed();

-- Credentials as administrators may see them.
CREATE VIEW fleetlog.device_credential AS
	SELECT id, tenant, device, kind, created_at, revoked_at, revoke_reason FROM fleetlog.credential;
COMMENT ON VIEW fleetlog.device_credential IS 'credentials of devices, without their verifiers';

CREATE FUNCTION fleetlog._audit(event text, object text, detail jsonb = NULL) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
	AS $$ INSERT INTO fleetlog.audit (event, object, detail) VALUES (event, object, detail) $$;
COMMENT ON FUNCTION fleetlog._audit(text, text, jsonb) IS 'internal: add a row to fleetlog.audit';

CREATE FUNCTION fleetlog._random_password() RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_random_password' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._random_password() IS 'internal: 24 random characters, 144 bits';

CREATE FUNCTION fleetlog._password_verifier(password text) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_password_verifier' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._password_verifier(text) IS 'internal: the SCRAM-SHA-256 verifier of a password; a verifier is returned as it is';

CREATE FUNCTION fleetlog._password_verifier_512(password text) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_password_verifier_512' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._password_verifier_512(text) IS 'internal: the SCRAM-SHA-512 verifier of a password; NULL of what is a verifier already';

CREATE FUNCTION fleetlog._add_certificate(tenant text, device text, subject text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	owner text;
BEGIN
	IF subject = '' OR octet_length(subject) > 255 OR subject ~ '[[:cntrl:]]' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'the name of a certificate has 1 to 255 bytes and no control characters';
	END IF;
	INSERT INTO fleetlog.credential (tenant, device, kind, verifier) VALUES (tenant, device, 'certificate', subject);
EXCEPTION WHEN unique_violation THEN
	SELECT c.tenant || '/' || c.device INTO owner FROM fleetlog.credential c
	WHERE c.kind = 'certificate' AND c.verifier = subject AND c.revoked_at IS NULL;
	RAISE EXCEPTION USING ERRCODE = 'duplicate_object',
		MESSAGE = format('certificate "%s" belongs to device "%s"', subject, owner);
END
$$;
COMMENT ON FUNCTION fleetlog._add_certificate(text, text, text) IS 'internal: give a device the certificates that bear a name';

CREATE FUNCTION fleetlog._add_psk(tenant text, device text, psk bytea) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF length(psk) NOT BETWEEN 16 AND 64 THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'a pre-shared key has 16 to 64 bytes';
	END IF;
	INSERT INTO fleetlog.credential (tenant, device, kind, verifier) VALUES (tenant, device, 'psk', encode(psk, 'hex'));
END
$$;
COMMENT ON FUNCTION fleetlog._add_psk(text, text, bytea) IS 'internal: give a device a pre-shared key';

-- "tenant/device", or the bare id where only one tenant has it.
CREATE FUNCTION fleetlog._find_device(client text, among text[] = NULL, OUT tenant text, OUT device text)
	LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	slash int := strpos(client, '/');
	found_in text[];
BEGIN
	IF client IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'device must not be null';
	END IF;
	-- Two statements, each with a plan that fits every device.
	IF slash > 0 THEN
		SELECT ARRAY[d.tenant], d.id INTO found_in, device
		FROM fleetlog.device d
		WHERE d.tenant = left(client, slash - 1) AND d.id = substr(client, slash + 1) AND (among IS NULL OR d.tenant = ANY (among));
	ELSE
		SELECT array_agg(d.tenant ORDER BY d.tenant), min(d.id) INTO found_in, device
		FROM fleetlog.device d
		WHERE d.id = client AND (among IS NULL OR d.tenant = ANY (among));
	END IF;
	IF found_in IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('device "%s" does not exist', client);
	ELSIF cardinality(found_in) > 1 THEN
		RAISE EXCEPTION USING ERRCODE = 'ambiguous_parameter',
			MESSAGE = format('device "%s" exists in more than one tenant', client),
			DETAIL = format('Tenants that have it: %s.', array_to_string(found_in, ', ')),
			HINT = format('Name it with its tenant, as in "%s/%s".', found_in[1], client);
	END IF;
	tenant := found_in[1];
END
$$;
COMMENT ON FUNCTION fleetlog._find_device(text, text[]) IS 'internal: tenant and id of the device that a text names, of some tenants or (NULL) of all';

CREATE FUNCTION fleetlog.create_tenant(
	name text,
	prefix text,
	max_packet_bytes int = NULL,
	max_inflight int = NULL,
	max_topic_levels int = NULL,
	max_subscriptions int = NULL,
	max_wildcard_subscriptions int = NULL,
	max_queued_messages int = NULL,
	max_queued_bytes int = NULL,
	max_session_expiry interval = NULL,
	max_connections int = NULL,
	max_sessions int = NULL
) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problem text;
	other fleetlog.tenant;
BEGIN
	problem := coalesce(fleetlog._tenant_problem(name), CASE WHEN name IS NULL THEN 'it is null' END);
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = format('tenant name "%s" is not valid: %s', name, problem);
	END IF;
	problem := coalesce(fleetlog._prefix_problem(prefix), CASE
		WHEN prefix IS NULL THEN 'it is null'
		WHEN prefix = '' THEN 'it is empty'
		WHEN prefix LIKE '$%' THEN 'it begins with "$"' END);
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = format('tenant prefix "%s" is not valid: %s', prefix, problem),
			HINT = 'A tenant''s prefix is one or more whole topic levels and ends in "/", as in "plant/".';
	END IF;

	-- Two tenants made at the same time must see each other's prefix.
	LOCK TABLE fleetlog.tenant IN SHARE ROW EXCLUSIVE MODE;
	SELECT * INTO other FROM fleetlog.tenant t
	WHERE t.name = create_tenant.name OR starts_with(t.prefix, create_tenant.prefix) OR starts_with(create_tenant.prefix, t.prefix)
	ORDER BY t.name = create_tenant.name DESC LIMIT 1;
	IF other.name = name THEN
		RAISE EXCEPTION USING ERRCODE = 'duplicate_object', MESSAGE = format('tenant "%s" already exists', name);
	ELSIF other.name IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = format('prefix "%s" overlaps prefix "%s" of tenant "%s"', prefix, other.prefix, other.name),
			DETAIL = 'A device of one tenant could reach the topics of the other.';
	END IF;

	INSERT INTO fleetlog.tenant AS t (name, prefix, max_packet_bytes, max_inflight, max_topic_levels, max_subscriptions,
		max_wildcard_subscriptions, max_queued_messages, max_queued_bytes, max_session_expiry, max_connections, max_sessions)
	VALUES (name, prefix, coalesce(max_packet_bytes, 1048576), coalesce(max_inflight, 20), coalesce(max_topic_levels, 16),
		coalesce(max_subscriptions, 100), coalesce(max_wildcard_subscriptions, 8), coalesce(max_queued_messages, 1000),
		coalesce(max_queued_bytes, 1048576), coalesce(max_session_expiry, interval '1 hour'),
		coalesce(max_connections, 0), coalesce(max_sessions, 0));
	PERFORM fleetlog._audit('create_tenant', name, jsonb_build_object('prefix', prefix));
END
$$;
COMMENT ON FUNCTION fleetlog.create_tenant(text, text, int, int, int, int, int, int, int, interval, int, int) IS
	'create a tenant, confined to the topics below a prefix; a limit that is NULL takes its default';

CREATE FUNCTION fleetlog.alter_tenant(
	name text,
	max_packet_bytes int = NULL,
	max_inflight int = NULL,
	max_topic_levels int = NULL,
	max_subscriptions int = NULL,
	max_wildcard_subscriptions int = NULL,
	max_queued_messages int = NULL,
	max_queued_bytes int = NULL,
	max_session_expiry interval = NULL,
	max_connections int = NULL,
	max_sessions int = NULL
) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE fleetlog.tenant t SET
		max_packet_bytes = coalesce(alter_tenant.max_packet_bytes, t.max_packet_bytes),
		max_inflight = coalesce(alter_tenant.max_inflight, t.max_inflight),
		max_topic_levels = coalesce(alter_tenant.max_topic_levels, t.max_topic_levels),
		max_subscriptions = coalesce(alter_tenant.max_subscriptions, t.max_subscriptions),
		max_wildcard_subscriptions = coalesce(alter_tenant.max_wildcard_subscriptions, t.max_wildcard_subscriptions),
		max_queued_messages = coalesce(alter_tenant.max_queued_messages, t.max_queued_messages),
		max_queued_bytes = coalesce(alter_tenant.max_queued_bytes, t.max_queued_bytes),
		max_session_expiry = coalesce(alter_tenant.max_session_expiry, t.max_session_expiry),
		max_connections = coalesce(alter_tenant.max_connections, t.max_connections),
		max_sessions = coalesce(alter_tenant.max_sessions, t.max_sessions)
	WHERE t.name = alter_tenant.name;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('tenant "%s" does not exist', name);
	END IF;
	PERFORM fleetlog._audit('alter_tenant', name);
END
$$;
COMMENT ON FUNCTION fleetlog.alter_tenant(text, int, int, int, int, int, int, int, interval, int, int) IS
	'change the limits of a tenant; NULL leaves a value as it is';

CREATE FUNCTION fleetlog.drop_tenant(name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- Waits for devices and policies that are being created under it.
	PERFORM FROM fleetlog.tenant t WHERE t.name = drop_tenant.name FOR UPDATE;
	IF EXISTS (SELECT FROM fleetlog.device d WHERE d.tenant = name) THEN
		RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
			MESSAGE = format('tenant "%s" still has devices', name),
			HINT = 'Remove them with fleetlog.drop_device first.';
	END IF;
	DELETE FROM fleetlog.policy p WHERE p.tenant = name;
	DELETE FROM fleetlog.tenant t WHERE t.name = drop_tenant.name;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('tenant "%s" does not exist', name);
	END IF;
	PERFORM fleetlog._audit('drop_tenant', name);
END
$$;
COMMENT ON FUNCTION fleetlog.drop_tenant(text) IS 'remove a tenant that has no devices, with its policies';

CREATE FUNCTION fleetlog.create_device(
	id text,
	tenant text,
	password text = NULL,
	certificate_subject text = NULL,
	psk bytea = NULL,
	model text = NULL,
	hardware_root text = NULL,
	firmware_version text = NULL,
	attributes jsonb = NULL
) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	problem text := coalesce(fleetlog._device_problem(id), CASE WHEN id IS NULL THEN 'it is null' END);
	generated text;
BEGIN
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('device id "%s" is not valid: %s', id, problem);
	END IF;
	PERFORM FROM fleetlog.tenant t WHERE t.name = tenant FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('tenant "%s" does not exist', tenant),
			HINT = 'Create it with fleetlog.create_tenant.';
	END IF;
	IF password IS NULL AND certificate_subject IS NULL AND psk IS NULL THEN
		generated := fleetlog._random_password();
	END IF;
	BEGIN
		INSERT INTO fleetlog.device (tenant, id, model, hardware_root, firmware_version, attributes)
		VALUES (tenant, id, model, hardware_root, firmware_version, coalesce(attributes, '{}'));
	EXCEPTION WHEN unique_violation THEN
		RAISE EXCEPTION USING ERRCODE = 'duplicate_object', MESSAGE = format('device "%s/%s" already exists', tenant, id),
			HINT = 'fleetlog.set_password gives it a new password.';
	END;
	IF coalesce(password, generated) IS NOT NULL THEN
		INSERT INTO fleetlog.credential (tenant, device, kind, verifier, verifier_512)
		VALUES (tenant, id, 'password', fleetlog._password_verifier(coalesce(password, generated)),
			fleetlog._password_verifier_512(coalesce(password, generated)));
	END IF;
	IF certificate_subject IS NOT NULL THEN
		PERFORM fleetlog._add_certificate(tenant, id, certificate_subject);
	END IF;
	IF psk IS NOT NULL THEN
		PERFORM fleetlog._add_psk(tenant, id, psk);
	END IF;
	PERFORM fleetlog._audit('create_device', tenant || '/' || id, jsonb_build_object('generated_password', generated IS NOT NULL));
	RETURN generated;
END
$$;
COMMENT ON FUNCTION fleetlog.create_device(text, text, text, text, bytea, text, text, text, jsonb) IS
	'register a device; returns a generated password, once, when no credential is given';

CREATE FUNCTION fleetlog.alter_device(
	device text,
	model text = NULL,
	hardware_root text = NULL,
	firmware_version text = NULL,
	attributes jsonb = NULL
) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._find_device(device);
BEGIN
	UPDATE fleetlog.device d SET
		model = coalesce(alter_device.model, d.model),
		hardware_root = coalesce(alter_device.hardware_root, d.hardware_root),
		firmware_version = coalesce(alter_device.firmware_version, d.firmware_version),
		attributes = coalesce(alter_device.attributes, d.attributes)
	WHERE d.tenant = who.tenant AND d.id = who.device;
	PERFORM fleetlog._audit('alter_device', who.tenant || '/' || who.device);
END
$$;
COMMENT ON FUNCTION fleetlog.alter_device(text, text, text, text, jsonb) IS
	'change what the registry says about a device; NULL leaves a value as it is';

CREATE FUNCTION fleetlog.drop_device(device text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._find_device(device);
BEGIN
	DELETE FROM fleetlog.device d WHERE d.tenant = who.tenant AND d.id = who.device;
	DELETE FROM fleetlog.credential c WHERE c.tenant = who.tenant AND c.device = who.device;
	PERFORM fleetlog._command_device_gone(who.tenant, who.device);
	PERFORM fleetlog._audit('drop_device', who.tenant || '/' || who.device);
END
$$;
COMMENT ON FUNCTION fleetlog.drop_device(text) IS 'remove a device from the registry; its connection is closed, its records stay';

CREATE FUNCTION fleetlog.set_password(device text, password text = NULL) RETURNS text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._find_device(device);
	generated text;
	revoked timestamptz;
BEGIN
	-- The row lock makes two simultaneous calls leave one valid password.
	SELECT d.revoked_at INTO revoked FROM fleetlog.device d WHERE d.tenant = who.tenant AND d.id = who.device FOR UPDATE;
	IF revoked IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('device "%s/%s" is revoked', who.tenant, who.device),
			HINT = 'Remove it with fleetlog.drop_device and create it anew.';
	END IF;
	IF password IS NULL THEN
		generated := fleetlog._random_password();
	END IF;
	UPDATE fleetlog.credential c SET revoked_at = now(), revoke_reason = 'replaced'
	WHERE c.tenant = who.tenant AND c.device = who.device AND c.kind = 'password' AND c.revoked_at IS NULL;
	INSERT INTO fleetlog.credential (tenant, device, kind, verifier, verifier_512)
	VALUES (who.tenant, who.device, 'password', fleetlog._password_verifier(coalesce(password, generated)),
		fleetlog._password_verifier_512(coalesce(password, generated)));
	PERFORM fleetlog._audit('set_password', who.tenant || '/' || who.device, jsonb_build_object('generated_password', generated IS NOT NULL));
	RETURN generated;
END
$$;
COMMENT ON FUNCTION fleetlog.set_password(text, text) IS
	'replace the password of a device; returns a generated one when none is given; connections made with the old one are closed';

-- The device that is to have its credential of a kind replaced, which must not be revoked.  The row lock makes two
-- simultaneous calls leave one valid credential.
CREATE FUNCTION fleetlog._replace_credential(device text, kind text, OUT tenant text, OUT id text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._find_device(device);
	revoked timestamptz;
BEGIN
	SELECT d.revoked_at INTO revoked FROM fleetlog.device d WHERE d.tenant = who.tenant AND d.id = who.device FOR UPDATE;
	IF revoked IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('device "%s/%s" is revoked', who.tenant, who.device),
			HINT = 'Remove it with fleetlog.drop_device and create it anew.';
	END IF;
	UPDATE fleetlog.credential c SET revoked_at = now(), revoke_reason = 'replaced'
	WHERE c.tenant = who.tenant AND c.device = who.device AND c.kind = _replace_credential.kind AND c.revoked_at IS NULL;
	tenant := who.tenant;
	id := who.device;
END
$$;
COMMENT ON FUNCTION fleetlog._replace_credential(text, text) IS 'internal: revoke what a device has of a kind of credential';

CREATE FUNCTION fleetlog.set_certificate(device text, certificate_subject text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._replace_credential(device, 'certificate');
BEGIN
	IF certificate_subject IS NOT NULL THEN
		PERFORM fleetlog._add_certificate(who.tenant, who.id, certificate_subject);
	END IF;
	PERFORM fleetlog._audit('set_certificate', who.tenant || '/' || who.id, jsonb_build_object('subject', certificate_subject));
END
$$;
COMMENT ON FUNCTION fleetlog.set_certificate(text, text) IS
	'let a device log in by certificates that bear a name, instead of those it had; NULL: by none; connections made with the old ones are closed';

CREATE FUNCTION fleetlog.set_psk(device text, psk bytea = NULL) RETURNS bytea
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._replace_credential(device, 'psk');
	generated bytea;
BEGIN
	IF psk IS NULL THEN
		generated := sha256(convert_to(fleetlog._random_password() || fleetlog._random_password(), 'UTF8'));
	END IF;
	PERFORM fleetlog._add_psk(who.tenant, who.id, coalesce(psk, generated));
	PERFORM fleetlog._audit('set_psk', who.tenant || '/' || who.id, jsonb_build_object('generated_key', generated IS NOT NULL));
	RETURN generated;
END
$$;
COMMENT ON FUNCTION fleetlog.set_psk(text, bytea) IS
	'replace the pre-shared key of a device; returns a generated one when none is given; connections made with the old one are closed';

CREATE FUNCTION fleetlog.revoke_device(device text, reason text = NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record := fleetlog._find_device(device);
BEGIN
	UPDATE fleetlog.device d SET revoked_at = coalesce(d.revoked_at, now()), revoke_reason = coalesce(reason, d.revoke_reason)
	WHERE d.tenant = who.tenant AND d.id = who.device;
	UPDATE fleetlog.credential c SET revoked_at = now(), revoke_reason = reason
	WHERE c.tenant = who.tenant AND c.device = who.device AND c.revoked_at IS NULL;
	PERFORM fleetlog._command_device_gone(who.tenant, who.device);
	PERFORM fleetlog._audit('revoke_device', who.tenant || '/' || who.device, jsonb_build_object('reason', reason));
END
$$;
COMMENT ON FUNCTION fleetlog.revoke_device(text, text) IS 'revoke a device and all its credentials; its connections are closed within a second';

CREATE FUNCTION fleetlog.revoke_credential(id bigint, reason text = NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who text;
BEGIN
	UPDATE fleetlog.credential c SET revoked_at = coalesce(c.revoked_at, now()), revoke_reason = coalesce(reason, c.revoke_reason)
	WHERE c.id = revoke_credential.id
	RETURNING c.tenant || '/' || c.device INTO who;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('credential %s does not exist', id);
	END IF;
	PERFORM fleetlog._audit('revoke_credential', who, jsonb_build_object('credential', id, 'reason', reason));
END
$$;
COMMENT ON FUNCTION fleetlog.revoke_credential(bigint, text) IS 'revoke one credential; connections made with it are closed within a second';

CREATE FUNCTION fleetlog.allow(tenant text, action text, filter text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	problem text := coalesce(fleetlog._policy_problem(filter), CASE WHEN filter IS NULL THEN 'it is null' END);
	inside text;
BEGIN
	SELECT t.prefix INTO inside FROM fleetlog.tenant t WHERE t.name = tenant FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('tenant "%s" does not exist', tenant);
	END IF;
	IF action IS NULL OR action NOT IN ('publish', 'subscribe') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('action "%s" is not valid', action),
			HINT = 'An action is "publish" or "subscribe".';
	END IF;
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('filter "%s" is not valid: %s', filter, problem);
	END IF;
	IF NOT starts_with(filter, inside) THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
			MESSAGE = format('filter "%s" is not below prefix "%s" of tenant "%s"', filter, inside, tenant),
			DETAIL = 'A tenant is confined to its prefix.';
	END IF;
	INSERT INTO fleetlog.policy (tenant, action, filter) VALUES (tenant, action, filter) ON CONFLICT DO NOTHING;
	PERFORM fleetlog._audit('allow', tenant, jsonb_build_object('action', action, 'filter', filter));
END
$$;
COMMENT ON FUNCTION fleetlog.allow(text, text, text) IS
	'let all devices of a tenant publish or subscribe beyond their own topics; {device}, {tenant} and {client_id} may stand in the filter';

CREATE FUNCTION fleetlog.disallow(tenant text, action text, filter text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM fleetlog.policy p
	WHERE p.tenant = disallow.tenant AND p.action = disallow.action AND p.filter = disallow.filter;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object',
			MESSAGE = format('tenant "%s" has no rule to %s "%s"', tenant, action, filter),
			HINT = 'The rules are in fleetlog.policy; what a device may do below its own topics is no rule and cannot be taken away.';
	END IF;
	PERFORM fleetlog._audit('disallow', tenant, jsonb_build_object('action', action, 'filter', filter));
END
$$;
COMMENT ON FUNCTION fleetlog.disallow(text, text, text) IS 'take a rule back; subscriptions that rested on it end';

CREATE FUNCTION fleetlog._acl(tenant text, device text, client_id text, action text, topic text, role text = NULL, OUT allowed bool, OUT reason text)
	AS 'MODULE_PATHNAME', 'fl_sql_acl' LANGUAGE C CALLED ON NULL INPUT STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION fleetlog._acl(text, text, text, text, text, text) IS
	'internal: what the front doors decide for a device or a role, or for an anonymous client when both are NULL';

CREATE FUNCTION fleetlog.can(client text, action text, topic text, OUT allowed bool, OUT reason text)
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record;
	target regclass;
	is_device bool := EXISTS (SELECT FROM fleetlog.device d WHERE d.tenant || '/' || d.id = client OR d.id = client);
BEGIN
	IF action IS NULL OR action NOT IN ('publish', 'subscribe') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('action "%s" is not valid', action),
			HINT = 'An action is "publish" or "subscribe".';
	END IF;
	IF coalesce(client, '') = '' THEN
		SELECT a.allowed, a.reason INTO allowed, reason FROM fleetlog._acl(NULL, NULL, NULL, action, topic) a;
		IF NOT coalesce(current_setting('fleetlog.allow_anonymous', true), 'off')::bool THEN
			allowed := false;
			reason := 'anonymous clients are not let in (fleetlog.allow_anonymous is off)';
		END IF;
	ELSIF is_device AND strpos(client, '/') = 0 AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = client AND r.rolcanlogin) THEN
		allowed := false;
		reason := 'the name is both a device''s and a login role''s; a device logs in as tenant/device then';
	ELSIF NOT is_device AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = client) THEN
		SELECT a.allowed, a.reason INTO allowed, reason FROM fleetlog._acl(NULL, NULL, NULL, action, topic, client) a;
	ELSE
		who := fleetlog._find_device(client);
		IF EXISTS (SELECT FROM fleetlog.device d WHERE d.tenant = who.tenant AND d.id = who.device AND d.revoked_at IS NOT NULL) THEN
			allowed := false;
			reason := 'the device is revoked';
		ELSE
			SELECT a.allowed, a.reason INTO allowed, reason FROM fleetlog._acl(who.tenant, who.device, NULL, action, topic) a;
		END IF;
	END IF;
	IF allowed AND action = 'publish' THEN
		SELECT r.stream INTO target FROM fleetlog._route(topic) r;
		-- The stream of commands is made with the first of them.
		IF target IS NULL AND reason <> 'a device may answer its own commands' THEN
			allowed := false;
			reason := 'no mount takes this topic; make one with fleetlog.mount';
		END IF;
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog.can(text, text, text) IS
	'may this client publish to the topic, or subscribe to the filter, and why; an empty client is an anonymous one';

CREATE FUNCTION fleetlog._disconnect(client text, tenant text) RETURNS int
	AS 'MODULE_PATHNAME', 'fl_sql_disconnect' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._disconnect(text, text) IS 'internal: tell the front doors which connections to close';

CREATE FUNCTION fleetlog.disconnect(client_id text, tenant text = NULL) RETURNS int
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	closed int := fleetlog._disconnect(client_id, tenant);
BEGIN
	IF closed > 0 THEN
		PERFORM fleetlog._audit('disconnect', client_id, jsonb_build_object('tenant', tenant, 'connections', closed));
	END IF;
	RETURN closed;
END
$$;
COMMENT ON FUNCTION fleetlog.disconnect(text, text) IS
	'close the connections (MQTT: with reason code 0x98; Kafka) with this client id, or of this tenant/device or role; tenant: of its devices only; returns how many';

REVOKE ALL ON FUNCTION fleetlog._disconnect(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.disconnect(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._identity_changed() FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._audit(text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._random_password() FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._password_verifier(text), fleetlog._password_verifier_512(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._find_device(text, text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._acl(text, text, text, text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.create_tenant(text, text, int, int, int, int, int, int, int, interval, int, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.alter_tenant(text, int, int, int, int, int, int, int, interval, int, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.drop_tenant(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.create_device(text, text, text, text, bytea, text, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.alter_device(text, text, text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.drop_device(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.set_password(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.set_certificate(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.set_psk(text, bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._add_certificate(text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._add_psk(text, text, bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._replace_credential(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.revoke_device(text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.revoke_credential(bigint, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.allow(text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.disallow(text, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.can(text, text, text) FROM PUBLIC;
