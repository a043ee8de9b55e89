-- What the server must have before anything else is made.  Each missing piece is one message with its remedy.
DO $$
DECLARE
	missing text;
BEGIN
	IF current_setting('shared_preload_libraries') !~ '(^|[,/"[:space:]])fleetlog(\.so)?($|[,"[:space:]])' THEN
		RAISE EXCEPTION USING
			ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = 'fleetlog must be loaded via shared_preload_libraries',
			DETAIL = 'Its log needs shared memory and a WAL resource manager, which exist only from server start.',
			HINT = 'Add fleetlog to shared_preload_libraries in postgresql.conf and restart the server.';
	END IF;
	IF (SELECT encoding FROM pg_catalog.pg_database WHERE datname = current_database()) <> pg_catalog.pg_char_to_encoding('UTF8') THEN
		RAISE EXCEPTION USING
			ERRCODE = 'feature_not_supported',
			MESSAGE = 'fleetlog needs a database with encoding UTF8',
			DETAIL = format('Database "%s" uses %s, while topics and header names are UTF-8 text.',
							current_database(), current_setting('server_encoding')),
			HINT = 'Create one with CREATE DATABASE ... TEMPLATE template0 ENCODING ''UTF8''.';
	END IF;
	SELECT string_agg(r, ', ' ORDER BY r) INTO missing
	FROM unnest(ARRAY['fleetlog_admin', 'fleetlog_ingest', 'fleetlog_worker']) r
	WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r);
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION USING
			ERRCODE = 'undefined_object',
			MESSAGE = format('fleetlog needs roles that do not exist: %s', missing),
			DETAIL = 'Roles belong to the whole cluster, so CREATE EXTENSION does not make them.',
			HINT = 'As superuser: CREATE ROLE fleetlog_admin NOLOGIN; CREATE ROLE fleetlog_ingest NOLOGIN; CREATE ROLE fleetlog_worker LOGIN CONNECTION LIMIT 0;';
	END IF;
END
$$;

-- Made here and not by the control file, so that it is a member of the extension and goes with it.
CREATE SCHEMA fleetlog;
COMMENT ON SCHEMA fleetlog IS 'fleetlog: a device fleet on one log';
GRANT USAGE ON SCHEMA fleetlog TO PUBLIC;
