-- One of each, and what to type.

CREATE FUNCTION fleetlog.quickstart(prefix text = 'plant/') RETURNS SETOF text
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	base text := nullif(regexp_replace(lower(rtrim(prefix, '/')), '[^a-z0-9_]+', '_', 'g'), '');
	tenant text;
	device text := 'device-1';
	stream regclass;
	stream_name text;
	state regclass;
	state_name text;
	password text;
	listen text := split_part(coalesce(current_setting('fleetlog.mqtt_listen', true), ''), ',', 1);
	host text;
	port text;
	topic text;
BEGIN
	IF base IS NULL OR prefix NOT LIKE '%/' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('prefix "%s" is not valid', prefix),
			HINT = 'A prefix is one or more whole topic levels and ends in "/", as in "plant/".';
	END IF;

	-- Everything is looked for first, so that a second call makes nothing twice.
	SELECT m.stream, m.state INTO stream, state FROM fleetlog.mount m WHERE m.prefix = prefix;
	IF stream IS NULL THEN
		-- The stream goes where the caller's own CREATE TABLE would put it most often.
		stream_name := left(base, 50);
		stream := to_regclass('public.' || quote_ident(stream_name));
		IF stream IS NULL THEN
			stream := fleetlog.create_stream('public.' || quote_ident(stream_name));
		END IF;
		state_name := left(base, 50) || '_now';
		state := to_regclass('public.' || quote_ident(state_name));
		IF state IS NULL THEN
			state := fleetlog.create_state('public.' || quote_ident(state_name));
		END IF;
		PERFORM fleetlog.mount(prefix, stream, state => state, keep => 'last');
	END IF;
	SELECT t.name INTO tenant FROM fleetlog.tenant t WHERE t.prefix = prefix;
	IF tenant IS NULL THEN
		tenant := left(base, 50);
		PERFORM fleetlog.create_tenant(tenant, prefix);
	END IF;
	IF NOT EXISTS (SELECT FROM fleetlog.device d WHERE d.tenant = tenant AND d.id = device) THEN
		password := fleetlog.create_device(device, tenant);
	END IF;

	host := coalesce(nullif(substring(listen FROM '^(.*):[0-9]+$'), ''), '127.0.0.1');
	port := coalesce(substring(listen FROM '([0-9]+)$'), '1883');
	IF host IN ('*', '0.0.0.0', '[::]') THEN
		host := '127.0.0.1';
	END IF;
	host := trim(BOTH '[]' FROM host);
	topic := prefix || device || '/temperature';

	RETURN NEXT format('-- Stream %s takes all topics below "%s"%s.', stream, prefix,
		CASE WHEN state IS NULL THEN '' ELSE format('; table %s has the last value of each', state) END);
	IF password IS NOT NULL THEN
		RETURN NEXT format('-- Device %s/%s has password %s (shown once; fleetlog.set_password makes another).', tenant, device, password);
	ELSE
		RETURN NEXT format('-- Device %s/%s is there already; SELECT fleetlog.set_password(''%s/%s'') makes another password.',
			tenant, device, tenant, device);
	END IF;
	IF listen = '' THEN
		RETURN NEXT '-- No MQTT listener is configured yet: ALTER SYSTEM SET fleetlog.mqtt_listen = ''127.0.0.1:1883''; SELECT pg_reload_conf();';
	END IF;
	RETURN NEXT '-- Listen to the device (in another terminal):';
	RETURN NEXT format('mosquitto_sub -h %s -p %s -u %s/%s -P %s -t ''%s%s/#'' -v', host, port, tenant, device,
		coalesce(password, '''<password>'''), prefix, device);
	RETURN NEXT '-- Publish a reading; it returns when the reading is durable:';
	RETURN NEXT format('mosquitto_pub -h %s -p %s -u %s/%s -P %s -t %s -q 1 -m ''{"celsius": 21.5}''', host, port, tenant, device,
		coalesce(password, '''<password>'''), topic);
	RETURN NEXT '-- Read it by SQL:';
	RETURN NEXT format('psql -d %s -c "SELECT log_offset, ts, device, key, fleetlog.text(payload) FROM %s ORDER BY ts DESC LIMIT 10"',
		quote_ident(current_database()), stream);
	IF state IS NOT NULL THEN
		RETURN NEXT '-- What holds now, a row a topic (a second later at most):';
		RETURN NEXT format('psql -d %s -c "SELECT key, ts, fleetlog.text(payload) FROM %s"', quote_ident(current_database()), state);
	END IF;
	RETURN NEXT '-- Wait for what comes next:';
	RETURN NEXT format('psql -d %s -c "SELECT key, fleetlog.text(payload) FROM fleetlog.take(''me'', ''%s'', wait => ''1 min'')"',
		quote_ident(current_database()), stream);
END
$$;
COMMENT ON FUNCTION fleetlog.quickstart(text) IS
	'make a stream, a state table, a mount, a tenant and a device, and say what to type; a second call makes nothing twice';
REVOKE ALL ON FUNCTION fleetlog.quickstart(text) FROM PUBLIC;
