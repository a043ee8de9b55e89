-- Commands to devices: durable before they are sent, with an expiry, and a fate that is told (C1-C3).
--
-- send_command only writes a row.  The dispatcher (bgworker/commands) appends due commands to the stream
-- fleetlog.command_log, whose records reach devices as all others do, and changes their rows in the same transaction; what
-- devices and front doors say comes back as records of the same stream, which the dispatcher takes in order.

CREATE SEQUENCE fleetlog.command_number_seq;
COMMENT ON SEQUENCE fleetlog.command_number_seq IS 'order of commands';
CREATE SEQUENCE fleetlog.command_event_number_seq;
COMMENT ON SEQUENCE fleetlog.command_event_number_seq IS 'order of what happened to commands';

CREATE TABLE fleetlog.command (
	id uuid PRIMARY KEY,
	tenant text NOT NULL,
	device text NOT NULL,
	name text NOT NULL,
	payload jsonb NOT NULL,
	state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'delivered', 'acknowledged', 'succeeded', 'failed', 'expired', 'unknown', 'cancelled')),
	late bool NOT NULL DEFAULT false,
	issued_by text NOT NULL,
	issued_login text NOT NULL,
	issued_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	answer_timeout interval NOT NULL,
	sent_at timestamptz,
	answer_by timestamptz,
	delivered_at timestamptz,
	acknowledged_at timestamptz,
	answered_at timestamptz,
	finished_at timestamptz,
	answer jsonb,
	detail text,
	job text,
	shard int,
	log_offset bigint,
	number bigint NOT NULL DEFAULT nextval('fleetlog.command_number_seq')
);
CREATE INDEX command_pending ON fleetlog.command (number) WHERE state = 'pending';
CREATE INDEX command_pending_expiry ON fleetlog.command (expires_at) WHERE state = 'pending';
CREATE INDEX command_open ON fleetlog.command (answer_by) WHERE state IN ('sent', 'delivered', 'acknowledged');
CREATE INDEX command_position ON fleetlog.command (log_offset, shard) WHERE log_offset IS NOT NULL;
CREATE INDEX command_device ON fleetlog.command (tenant, device, number);
CREATE INDEX command_finished ON fleetlog.command (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX command_job ON fleetlog.command (job, state) WHERE job IS NOT NULL;
COMMENT ON TABLE fleetlog.command IS
	'commands and what is known of each: who sent it (issued_by), when it left (sent_at, at shard and log_offset of fleetlog.command_log), when the device had it (delivered_at, acknowledged_at) and what it said (answered_at, answer, detail); unknown: no answer until answer_by; late: an answer came after that';

CREATE TABLE fleetlog.command_event (
	command uuid NOT NULL,
	tenant text NOT NULL,
	at timestamptz NOT NULL,
	event text NOT NULL,
	late bool NOT NULL DEFAULT false,
	detail text,
	shard int,
	log_offset bigint,
	number bigint NOT NULL DEFAULT nextval('fleetlog.command_event_number_seq')
);
CREATE INDEX command_event_command ON fleetlog.command_event (command, number);
ALTER TABLE fleetlog.command_event REPLICA IDENTITY FULL;
COMMENT ON TABLE fleetlog.command_event IS
	'all that happened to commands, in order: each change of state under its name, and refused (the device acknowledged the delivery with an error), repeated (it answered again); with the position of the record in fleetlog.command_log that told it';

CREATE TABLE fleetlog.command_grant (
	tenant text NOT NULL,
	role regrole NOT NULL,
	granted_by text NOT NULL DEFAULT session_user,
	granted_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (tenant, role)
);
COMMENT ON TABLE fleetlog.command_grant IS 'which roles may send commands to the devices of which tenants, besides fleetlog_admin';

CREATE TABLE fleetlog.command_ignored (
	reason text PRIMARY KEY,
	answers bigint NOT NULL,
	last_at timestamptz NOT NULL,
	last_tenant text,
	last_device text,
	last_topic text
);
COMMENT ON TABLE fleetlog.command_ignored IS 'answers of devices that belong to no command of theirs or cannot be read, by reason, with the last of each';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.command_number_seq', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.command_event_number_seq', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.command', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.command_event', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.command_grant', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.command_ignored', '');

-- Everybody sees the commands of the tenants that he may command.
ALTER TABLE fleetlog.command ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleetlog.command FOR SELECT USING (
	(SELECT pg_catalog.pg_has_role('fleetlog_admin', 'MEMBER') OR pg_catalog.pg_has_role('pg_monitor', 'MEMBER'))
	OR tenant IN (SELECT g.tenant FROM fleetlog.command_grant g WHERE pg_catalog.pg_has_role(g.role::oid, 'MEMBER')));
ALTER TABLE fleetlog.command_event ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleetlog.command_event FOR SELECT USING (
	(SELECT pg_catalog.pg_has_role('fleetlog_admin', 'MEMBER') OR pg_catalog.pg_has_role('pg_monitor', 'MEMBER'))
	OR tenant IN (SELECT g.tenant FROM fleetlog.command_grant g WHERE pg_catalog.pg_has_role(g.role::oid, 'MEMBER')));
-- The policies above read what their user may see of this: his own.
ALTER TABLE fleetlog.command_grant ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleetlog.command_grant FOR SELECT USING (
	(SELECT pg_catalog.pg_has_role('fleetlog_admin', 'MEMBER') OR pg_catalog.pg_has_role('pg_monitor', 'MEMBER'))
	OR pg_catalog.pg_has_role(role::oid, 'MEMBER'));
REVOKE ALL ON fleetlog.command, fleetlog.command_event, fleetlog.command_grant, fleetlog.command_ignored FROM PUBLIC;
GRANT SELECT ON fleetlog.command, fleetlog.command_event, fleetlog.command_grant TO PUBLIC;
GRANT SELECT ON fleetlog.command_ignored TO fleetlog_admin, pg_monitor;

CREATE VIEW fleetlog.stat_command WITH (security_invoker = on) AS
	SELECT tenant, state, count(*) AS commands, min(issued_at) AS oldest, max(issued_at) AS newest, count(*) FILTER (WHERE late) AS late
	FROM fleetlog.command GROUP BY tenant, state
	ORDER BY tenant, array_position(ARRAY['pending', 'sent', 'delivered', 'acknowledged', 'succeeded', 'failed', 'expired', 'unknown', 'cancelled'], state);
COMMENT ON VIEW fleetlog.stat_command IS 'how many commands there are of each tenant in each state; unknown is neither pending nor failed';
GRANT SELECT ON fleetlog.stat_command TO PUBLIC;

-- ---- for applications -----------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog.send_command(device text, name text, payload jsonb, ttl interval = '5 min', answer_timeout interval = NULL) RETURNS uuid
	AS 'MODULE_PATHNAME', 'fl_sql_send_command' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.send_command(text, text, jsonb, interval, interval) IS
	'a command to a device, sent when the transaction has committed and never after its ttl; returns its id in fleetlog.command; answer_timeout counts from when it is sent and is ttl + 30 s unless given';

CREATE FUNCTION fleetlog.cancel_command(command uuid) RETURNS bool
	AS 'MODULE_PATHNAME', 'fl_sql_cancel_command' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.cancel_command(uuid) IS
	'take back a command that has not been sent; false: it has been, or is over';

CREATE FUNCTION fleetlog.allow_commands(tenant text, role regrole) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
	PERFORM FROM fleetlog.tenant t WHERE t.name = tenant FOR KEY SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('tenant "%s" does not exist', tenant);
	END IF;
	INSERT INTO fleetlog.command_grant (tenant, role) VALUES (tenant, role) ON CONFLICT DO NOTHING;
	PERFORM fleetlog._audit('allow_commands', tenant, jsonb_build_object('role', role::text));
END
$$;
COMMENT ON FUNCTION fleetlog.allow_commands(text, regrole) IS 'let a role send commands to the devices of a tenant, and see them';

CREATE FUNCTION fleetlog.disallow_commands(tenant text, role regrole) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM fleetlog.command_grant g WHERE g.tenant = disallow_commands.tenant AND g.role = disallow_commands.role;
	IF NOT FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('role "%s" was not allowed to send commands to tenant "%s"', role, tenant);
	END IF;
	PERFORM fleetlog._audit('disallow_commands', tenant, jsonb_build_object('role', role::text));
END
$$;
COMMENT ON FUNCTION fleetlog.disallow_commands(text, regrole) IS 'take that back';

-- ---- sending --------------------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog._make_command_stream() RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF to_regclass('fleetlog.command_log') IS NULL THEN
		PERFORM fleetlog.create_stream('fleetlog.command_log', retention_age => interval '8 days');
		COMMENT ON TABLE fleetlog.command_log IS 'commands as they are sent to devices, what devices answer, and receipts of front doors; see fleetlog.command';
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._make_command_stream() IS 'internal: makes the stream of commands, where it is not there';

CREATE FUNCTION fleetlog._command_append(topics text[], devices text[], responses text[], ids text[], payloads text[], issued text[], expires text[],
		OUT shards int[], OUT log_offsets bigint[])
	AS 'MODULE_PATHNAME', 'fl_sql_command_append' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._command_append(text[], text[], text[], text[], text[], text[], text[]) IS 'internal: append commands to their stream; returns their positions';

CREATE FUNCTION fleetlog._command_point(name text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_command_point' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._command_point(text) IS 'internal: where tests may hold the dispatcher';

CREATE FUNCTION fleetlog._command_time(at timestamptz) RETURNS text
	LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.to_char(pg_catalog.timezone('UTC', at), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
COMMENT ON FUNCTION fleetlog._command_time(timestamptz) IS 'internal: RFC 3339 in UTC';

CREATE FUNCTION fleetlog._command_note(command uuid, tenant text, at timestamptz, event text, late bool = false, detail text = NULL, shard int = NULL, log_offset bigint = NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO fleetlog.command_event (command, tenant, at, event, late, detail, shard, log_offset)
	VALUES (command, tenant, at, event, late, detail, shard, log_offset);
END
$$;
COMMENT ON FUNCTION fleetlog._command_note(uuid, text, timestamptz, text, bool, text, int, bigint) IS 'internal: write down what happened to a command';

-- Called where a device is removed or revoked: one that gets its name later must not get its commands.
CREATE FUNCTION fleetlog._command_device_gone(tenant text, device text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
	WITH gone AS (
		UPDATE fleetlog.command c SET state = 'cancelled', finished_at = clock_timestamp(), detail = 'the device was revoked or removed'
		WHERE c.tenant = _command_device_gone.tenant AND c.device = _command_device_gone.device AND c.state = 'pending' RETURNING c.id, c.tenant, c.finished_at, c.detail)
	INSERT INTO fleetlog.command_event (command, tenant, at, event, detail) SELECT g.id, g.tenant, g.finished_at, 'cancelled', g.detail FROM gone g
$$;
COMMENT ON FUNCTION fleetlog._command_device_gone(text, text) IS 'internal: cancel what waits for a device that goes';

-- Returns how many were sent, -1: the stream was made, and it is to be called again.
CREATE FUNCTION fleetlog._command_dispatch(max_commands int) RETURNS int
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	q record;
	p record;
	at timestamptz;
BEGIN
	PERFORM FROM fleetlog.command WHERE state = 'pending' LIMIT 1;
	IF NOT FOUND THEN
		RETURN 0;
	ELSIF to_regclass('fleetlog.command_log') IS NULL THEN
		PERFORM fleetlog._make_command_stream();
		RETURN -1;
	END IF;
	at := clock_timestamp();
	-- Devices that went while a command to them was being written, and those of jobs.  Where there is no tenant either, a dump is being
	-- restored: the rows are yet to come.
	WITH gone AS (
		UPDATE fleetlog.command c SET state = 'cancelled', finished_at = at, detail = 'the device was revoked or removed'
		WHERE c.id IN (
			SELECT g.id FROM fleetlog.command g JOIN fleetlog.tenant t ON t.name = g.tenant WHERE g.state = 'pending' AND NOT EXISTS (
				SELECT FROM fleetlog.device d WHERE d.tenant = g.tenant AND d.id = g.device AND d.revoked_at IS NULL)
			FOR UPDATE OF g SKIP LOCKED)
		RETURNING c.id, c.tenant, c.detail)
	INSERT INTO fleetlog.command_event (command, tenant, at, event, detail) SELECT g.id, g.tenant, at, 'cancelled', g.detail FROM gone g;

	SELECT array_agg(c.id) AS ids, array_agg(c.tenant) AS tenants, array_agg(c.device) AS devices, array_agg(c.id::text) AS texts,
		array_agg(c.topic || '/req/' || c.name) AS topics, array_agg(c.topic || '/res/' || c.id) AS responses, array_agg(c.payload::text) AS payloads,
		array_agg(fleetlog._command_time(c.issued_at)) AS issued, array_agg(fleetlog._command_time(c.expires_at)) AS expires
	INTO q FROM (
		SELECT c.id, c.tenant, c.device, c.name, c.payload, c.issued_at, c.expires_at, t.prefix || 'cmd/' || c.device AS topic
		FROM fleetlog.command c JOIN fleetlog.tenant t ON t.name = c.tenant
		WHERE c.state = 'pending' AND c.expires_at > at
		ORDER BY c.number LIMIT max_commands FOR UPDATE OF c SKIP LOCKED) c;
	IF q.ids IS NULL THEN
		RETURN 0;
	END IF;
	PERFORM fleetlog._command_point('command_chosen');
	SELECT * INTO p FROM fleetlog._command_append(q.topics, q.devices, q.responses, q.texts, q.payloads, q.issued, q.expires);
	PERFORM fleetlog._command_point('command_appended');
	-- What the stream does not take, since its limit was lowered after the call.
	UPDATE fleetlog.command c SET state = 'cancelled', finished_at = at, detail = 'it is too large for the stream of commands'
	FROM unnest(q.ids, p.log_offsets) s(id, log_offset) WHERE c.id = s.id AND s.log_offset < 0;
	INSERT INTO fleetlog.command_event (command, tenant, at, event, detail)
	SELECT s.id, s.tenant, at, 'cancelled', 'it is too large for the stream of commands' FROM unnest(q.ids, q.tenants, p.log_offsets) s(id, tenant, log_offset) WHERE s.log_offset < 0;
	UPDATE fleetlog.command c SET state = 'sent', sent_at = at, answer_by = at + c.answer_timeout, shard = s.shard, log_offset = s.log_offset
	FROM unnest(q.ids, p.shards, p.log_offsets) s(id, shard, log_offset) WHERE c.id = s.id AND s.log_offset >= 0;
	INSERT INTO fleetlog.command_event (command, tenant, at, event, shard, log_offset)
	SELECT s.id, s.tenant, at, 'sent', s.shard, s.log_offset FROM unnest(q.ids, q.tenants, p.shards, p.log_offsets) s(id, tenant, shard, log_offset) WHERE s.log_offset >= 0;
	RETURN cardinality(q.ids);
END
$$;
COMMENT ON FUNCTION fleetlog._command_dispatch(int) IS 'internal: send commands that wait, oldest first; the records and the change of state are one transaction';

-- ---- what comes back ------------------------------------------------------------------------------------------------

CREATE FUNCTION fleetlog._command_ignore(reason text, at timestamptz, tenant text, device text, topic text) RETURNS void
	LANGUAGE sql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
	INSERT INTO fleetlog.command_ignored AS i VALUES (reason, 1, at, tenant, device, left(topic, 200))
	ON CONFLICT ON CONSTRAINT command_ignored_pkey DO UPDATE SET answers = i.answers + 1, last_at = excluded.last_at, last_tenant = excluded.last_tenant,
		last_device = excluded.last_device, last_topic = excluded.last_topic
$$;
COMMENT ON FUNCTION fleetlog._command_ignore(text, timestamptz, text, text, text) IS 'internal: count an answer that is not taken';

-- What the row of an unknown command tells: how far it is known to have come.
CREATE FUNCTION fleetlog._command_silence(delivered_at timestamptz, acknowledged_at timestamptz) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN acknowledged_at IS NOT NULL THEN 'the device has acknowledged it and told no result in time'
	WHEN delivered_at IS NOT NULL THEN 'the device has it and did not answer in time' ELSE 'sent, not known to have reached the device, no answer in time' END;
COMMENT ON FUNCTION fleetlog._command_silence(timestamptz, timestamptz) IS 'internal: what is known of a command that was not answered in time';

-- A row is locked; what comes after its time comes late, also when nobody has looked at the clock yet.
CREATE FUNCTION fleetlog._command_overdue(c fleetlog.command, at timestamptz) RETURNS fleetlog.command
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF c.state IN ('sent', 'delivered', 'acknowledged') AND at > c.answer_by THEN
		UPDATE fleetlog.command u SET state = 'unknown', finished_at = c.answer_by, detail = fleetlog._command_silence(u.delivered_at, u.acknowledged_at) WHERE u.id = c.id RETURNING u.* INTO c;
		PERFORM fleetlog._command_note(c.id, c.tenant, c.answer_by, 'unknown', detail => 'no answer in time');
	END IF;
	RETURN c;
END
$$;
COMMENT ON FUNCTION fleetlog._command_overdue(fleetlog.command, timestamptz) IS 'internal: a command that should have been answered by then is unknown';

-- What is said again, without end maybe: the first are kept, all others counted.
CREATE FUNCTION fleetlog._command_repeated(c fleetlog.command, at timestamptz, event text, is_late bool, said text, shard int, log_offset bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
	IF 20 <= (SELECT count(*) FROM fleetlog.command_event v WHERE v.command = c.id AND v.event IN ('repeated', 'refused')) THEN
		PERFORM fleetlog._command_ignore('repeated more than 20 times', at, c.tenant, c.device, 'command ' || c.id);
	ELSE
		PERFORM fleetlog._command_note(c.id, c.tenant, at, event, is_late, said, shard, log_offset);
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._command_repeated(fleetlog.command, timestamptz, text, bool, text, int, bigint) IS 'internal: write down that something was said again';

-- A front door tells that a delivery was acknowledged, or that it has left one out because it had expired.
CREATE FUNCTION fleetlog._command_receipt(said text[], tenant text, device text, at timestamptz, shard int, log_offset bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	c fleetlog.command;
	reason int := said[4];
BEGIN
	SELECT * INTO c FROM fleetlog.command WHERE log_offset = said[3]::bigint AND shard = said[2]::int
		AND tenant = _command_receipt.tenant AND device = _command_receipt.device
		-- Where the stream was made anew, an old one may have had the position.
		ORDER BY number DESC LIMIT 1 FOR UPDATE;
	-- What a device hears of its own answers is acknowledged, too.
	IF NOT FOUND THEN
		RETURN;
	END IF;
	c := fleetlog._command_overdue(c, at);
	IF said[1] = 'expired' THEN
		IF c.state IN ('sent', 'unknown') AND c.delivered_at IS NULL AND c.acknowledged_at IS NULL THEN
			UPDATE fleetlog.command SET state = 'expired', finished_at = at, detail = 'it expired before it could be delivered' WHERE id = c.id;
			PERFORM fleetlog._command_note(c.id, c.tenant, at, 'expired', c.state = 'unknown', 'before it could be delivered', _command_receipt.shard, _command_receipt.log_offset);
		END IF;
	ELSIF reason >= 128 THEN
		PERFORM fleetlog._command_repeated(c, at, 'refused', c.state = 'unknown', format('reason code 0x%s', to_hex(reason)), _command_receipt.shard, _command_receipt.log_offset);
	ELSIF c.delivered_at IS NULL THEN
		UPDATE fleetlog.command SET delivered_at = at, state = CASE c.state WHEN 'sent' THEN 'delivered' ELSE c.state END WHERE id = c.id;
		PERFORM fleetlog._command_note(c.id, c.tenant, at, 'delivered', c.state = 'unknown', NULL, _command_receipt.shard, _command_receipt.log_offset);
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._command_receipt(text[], text, text, timestamptz, int, bigint) IS 'internal: what a front door says about a delivery';

-- The status that a result states: user property fl-status, or "status" of a JSON object, or the payload itself; NULL: none.
CREATE FUNCTION fleetlog._command_status(property text, document jsonb, plain text) RETURNS text
	LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s FROM (SELECT coalesce(property, CASE WHEN jsonb_typeof(document) = 'object' THEN document ->> 'status' END, CASE jsonb_typeof(document) WHEN 'string' THEN document #>> '{}' ELSE plain END) AS s) q
	WHERE s IN ('succeeded', 'failed', 'expired')
$$;
COMMENT ON FUNCTION fleetlog._command_status(text, jsonb, text) IS 'internal: what a device''s result says';

CREATE FUNCTION fleetlog._command_acknowledge(c fleetlog.command, at timestamptz, said text, shard int, log_offset bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	is_late bool := c.state = 'unknown';
BEGIN
	IF c.acknowledged_at IS NOT NULL THEN
		PERFORM fleetlog._command_repeated(c, at, 'repeated', is_late, 'acknowledged', shard, log_offset);
		RETURN;
	END IF;
	UPDATE fleetlog.command u SET acknowledged_at = at, late = c.late OR is_late,
		state = CASE WHEN c.state IN ('sent', 'delivered') THEN 'acknowledged' ELSE c.state END WHERE u.id = c.id;
	PERFORM fleetlog._command_note(c.id, c.tenant, at, 'acknowledged', is_late, said, shard, log_offset);
END
$$;
COMMENT ON FUNCTION fleetlog._command_acknowledge(fleetlog.command, timestamptz, text, int, bigint) IS 'internal: a device says that it has a command';

-- The first result counts, whenever it comes.
CREATE FUNCTION fleetlog._command_result(c fleetlog.command, at timestamptz, status text, said text, document jsonb, shard int, log_offset bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	is_late bool := c.finished_at IS NOT NULL;
BEGIN
	IF c.answered_at IS NOT NULL THEN
		-- The command is over in any case: late is what came after its time.
		PERFORM fleetlog._command_repeated(c, at, 'repeated', coalesce(at > c.answer_by, false), status || coalesce(': ' || said, ''), shard, log_offset);
		RETURN;
	END IF;
	UPDATE fleetlog.command u SET state = status, answered_at = at, finished_at = at, late = c.late OR is_late, answer = document, detail = said WHERE u.id = c.id;
	PERFORM fleetlog._command_note(c.id, c.tenant, at, status, is_late, said, shard, log_offset);
END
$$;
COMMENT ON FUNCTION fleetlog._command_result(fleetlog.command, timestamptz, text, text, jsonb, int, bigint) IS 'internal: a device says what became of a command';

CREATE FUNCTION fleetlog._command_answer(topic text, tenant text, device text, at timestamptz, headers jsonb, payload bytea, shard int, log_offset bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	part text[] := regexp_match(topic, '/cmd/[^/]+/(ack|res)/([^/]+)$');
	c fleetlog.command;
	document jsonb := fleetlog.json(payload);
	plain text := fleetlog.text(payload);
	status text;
	said text := headers ->> 'fl-detail';
BEGIN
	IF part IS NULL THEN
		RETURN;
	END IF;
	IF part[2] ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
		SELECT k.* INTO c FROM fleetlog.command k WHERE k.id = part[2]::uuid;
	END IF;
	IF c.id IS NULL OR c.log_offset IS NULL THEN
		PERFORM fleetlog._command_ignore('unknown id', at, tenant, device, topic);
		RETURN;
	ELSIF c.tenant <> tenant OR c.device <> device THEN
		PERFORM fleetlog._command_ignore('command of another device', at, tenant, device, topic);
		RETURN;
	END IF;
	-- Only now: whose command it is not must not wait for somebody who holds it.
	SELECT k.* INTO c FROM fleetlog.command k WHERE k.id = c.id FOR UPDATE;
	IF jsonb_typeof(document) = 'object' AND said IS NULL THEN
		said := document ->> 'detail';
	END IF;
	said := left(said, 1000);
	IF part[1] = 'ack' THEN
		PERFORM fleetlog._command_acknowledge(fleetlog._command_overdue(c, at), at, said, shard, log_offset);
		RETURN;
	END IF;
	status := fleetlog._command_status(headers ->> 'fl-status', document, plain);
	IF status IS NULL THEN
		PERFORM fleetlog._command_ignore('result without a status', at, tenant, device, topic);
		RETURN;
	END IF;
	PERFORM fleetlog._command_result(fleetlog._command_overdue(c, at), at, status, said,
		CASE WHEN octet_length(payload) <= 65536 THEN coalesce(document, to_jsonb(nullif(plain, ''))) END, shard, log_offset);
END
$$;
COMMENT ON FUNCTION fleetlog._command_answer(text, text, text, timestamptz, jsonb, bytea, int, bigint) IS 'internal: what a device says about a command';

-- Returns how many records it looked at.
CREATE FUNCTION fleetlog._command_take(max_records int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
	n bigint := 0;
BEGIN
	FOR r IN SELECT * FROM fleetlog.take('fleetlog.commands', 'fleetlog.command_log', max_records) LOOP
		n := n + 1;
		CONTINUE WHEN r.tenant IS NULL OR r.key IS NULL;
		IF r.key = '$fleetlog/command/receipt' THEN
			PERFORM fleetlog._command_receipt(string_to_array(fleetlog.text(r.payload), ' '), r.tenant, r.device, r.ts, r.shard, r.log_offset);
		ELSE
			PERFORM fleetlog._command_answer(r.key, r.tenant, r.device, r.ts, r.headers::jsonb, r.payload, r.shard, r.log_offset);
		END IF;
	END LOOP;
	PERFORM fleetlog._command_point('command_taken');
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._command_take(int) IS 'internal: take what devices and front doors have said';

-- ---- the clock ------------------------------------------------------------------------------------------------------

-- Returns microseconds until it has to be called again, NULL: nothing is due.
CREATE FUNCTION fleetlog._command_deadlines(max_commands int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	now timestamptz := clock_timestamp();
	next timestamptz;
BEGIN
	WITH due AS (
		SELECT c.id FROM fleetlog.command c WHERE c.state = 'pending' AND c.expires_at <= now ORDER BY c.expires_at LIMIT max_commands FOR UPDATE SKIP LOCKED
	), u AS (
		UPDATE fleetlog.command c SET state = 'expired', finished_at = now, detail = 'it expired before it was sent' FROM due WHERE c.id = due.id RETURNING c.id, c.tenant)
	INSERT INTO fleetlog.command_event (command, tenant, at, event, detail) SELECT u.id, u.tenant, now, 'expired', 'before it was sent' FROM u;

	WITH due AS (
		SELECT c.id FROM fleetlog.command c WHERE c.state IN ('sent', 'delivered', 'acknowledged') AND c.answer_by <= now ORDER BY c.answer_by LIMIT max_commands FOR UPDATE SKIP LOCKED
	), u AS (
		UPDATE fleetlog.command c SET state = 'unknown', finished_at = now, detail = fleetlog._command_silence(c.delivered_at, c.acknowledged_at) FROM due WHERE c.id = due.id RETURNING c.id, c.tenant)
	INSERT INTO fleetlog.command_event (command, tenant, at, event, detail) SELECT u.id, u.tenant, now, 'unknown', 'no answer in time' FROM u;

	SELECT least((SELECT min(c.expires_at) FROM fleetlog.command c WHERE c.state = 'pending'),
		(SELECT min(c.answer_by) FROM fleetlog.command c WHERE c.state IN ('sent', 'delivered', 'acknowledged'))) INTO next;
	RETURN greatest(0, extract(epoch FROM next - clock_timestamp()) * 1000000)::bigint;
END
$$;
COMMENT ON FUNCTION fleetlog._command_deadlines(int) IS 'internal: commands that were not sent or not answered in time';

-- Returns how many commands were forgotten.
CREATE FUNCTION fleetlog._command_forget(max_commands int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	keep interval := current_setting('fleetlog.command_retention')::interval;
	n bigint;
BEGIN
	IF keep = interval '0' THEN
		RETURN 0;
	END IF;
	-- Of a job all are kept as long as the job is.
	WITH j AS (
		DELETE FROM fleetlog.job_config j WHERE j.finished_at < clock_timestamp() - keep RETURNING j.name)
	DELETE FROM fleetlog.job_target t USING j WHERE t.job = j.name;
	WITH old AS (
		SELECT c.id FROM fleetlog.command c WHERE c.finished_at < clock_timestamp() - keep
			AND (c.job IS NULL OR NOT EXISTS (SELECT FROM fleetlog.job_config j WHERE j.name = c.job)) ORDER BY c.finished_at LIMIT max_commands FOR UPDATE SKIP LOCKED
	), e AS (
		DELETE FROM fleetlog.command_event v USING old WHERE v.command = old.id
	), d AS (
		DELETE FROM fleetlog.command c USING old WHERE c.id = old.id RETURNING 1)
	SELECT count(*) INTO n FROM d;
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._command_forget(int) IS 'internal: remove commands that have been over for fleetlog.command_retention';

REVOKE ALL ON FUNCTION fleetlog.allow_commands(text, regrole), fleetlog.disallow_commands(text, regrole), fleetlog._make_command_stream(),
	fleetlog._command_append(text[], text[], text[], text[], text[], text[], text[]), fleetlog._command_point(text), fleetlog._command_time(timestamptz),
	fleetlog._command_silence(timestamptz, timestamptz),
	fleetlog._command_note(uuid, text, timestamptz, text, bool, text, int, bigint), fleetlog._command_dispatch(int), fleetlog._command_device_gone(text, text),
	fleetlog._command_ignore(text, timestamptz, text, text, text), fleetlog._command_repeated(fleetlog.command, timestamptz, text, bool, text, int, bigint), fleetlog._command_overdue(fleetlog.command, timestamptz),
	fleetlog._command_receipt(text[], text, text, timestamptz, int, bigint), fleetlog._command_status(text, jsonb, text),
	fleetlog._command_acknowledge(fleetlog.command, timestamptz, text, int, bigint),
	fleetlog._command_result(fleetlog.command, timestamptz, text, text, jsonb, int, bigint),
	fleetlog._command_answer(text, text, text, timestamptz, jsonb, bytea, int, bigint), fleetlog._command_take(int),
	fleetlog._command_deadlines(int), fleetlog._command_forget(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog.allow_commands(text, regrole), fleetlog.disallow_commands(text, regrole) TO fleetlog_admin;
