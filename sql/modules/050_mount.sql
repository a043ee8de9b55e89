-- Mounts: which stream takes the records of the topics below a prefix, and how their keys are made.

CREATE FUNCTION fleetlog._prefix_problem(prefix text) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_prefix_problem' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._prefix_problem(text) IS 'internal: what is wrong with a topic prefix, NULL when nothing is';

CREATE FUNCTION fleetlog._template_problem(template text) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_template_problem' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._template_problem(text) IS 'internal: what is wrong with a key template, NULL when nothing is';

CREATE TABLE fleetlog.mount_config (
	prefix text PRIMARY KEY CHECK (fleetlog._prefix_problem(prefix) IS NULL),
	stream regclass,
	record_key text NOT NULL DEFAULT '{topic}' CHECK (fleetlog._template_problem(record_key) IS NULL),
	shard_key text NOT NULL DEFAULT '{topic}' CHECK (fleetlog._template_problem(shard_key) IS NULL),
	class text CHECK (class IN ('telemetry', 'event', 'command', 'safety')),
	dedupe text NOT NULL DEFAULT 'mark' CHECK (dedupe IN ('off', 'mark', 'drop')),
	max_payload_bytes int CHECK (max_payload_bytes > 0),
	created_at timestamptz NOT NULL DEFAULT now(),
	state regclass,
	keep text CHECK (keep IN ('retained', 'last')),
	state_lag interval CHECK (state_lag >= interval '0'),
	max_topic_levels int CHECK (max_topic_levels BETWEEN 1 AND 1000),
	CHECK ((state IS NULL) = (keep IS NULL)),
	CHECK (stream IS NOT NULL OR state IS NULL),
	CHECK (state_lag IS NULL OR keep = 'last')
);
COMMENT ON TABLE fleetlog.mount_config IS 'configuration of mounts; written by mount, alter_mount and unmount; stream NULL: carried in memory only';
CREATE INDEX mount_config_stream ON fleetlog.mount_config (stream);
SELECT pg_catalog.pg_extension_config_dump('fleetlog.mount_config', '');
CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.mount_config
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();

CREATE FUNCTION fleetlog.mount(
	prefix text,
	stream regclass,
	state regclass = NULL,
	keep text = 'retained',
	state_lag interval = NULL,
	class text = NULL,
	record_key text = NULL,
	shard_key text = NULL,
	dedupe text = 'mark',
	max_payload_bytes int = NULL,
	max_topic_levels int = NULL
) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_mount' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.mount(text, regclass, regclass, text, interval, text, text, text, text, int, int) IS
	'make every topic below a prefix a record of a stream, or carry it in memory only (stream NULL); the longest prefix wins';

CREATE FUNCTION fleetlog.alter_mount(
	prefix text,
	stream regclass = NULL,
	class text = NULL,
	record_key text = NULL,
	shard_key text = NULL,
	dedupe text = NULL,
	max_payload_bytes int = NULL,
	state regclass = NULL,
	keep text = NULL,
	state_lag interval = NULL,
	max_topic_levels int = NULL
) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_alter_mount' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.alter_mount(text, regclass, text, text, text, text, int, regclass, text, interval, int) IS
	'change a mount: NULL leaves a value as it is, an empty class or a limit of 0 removes it, an empty keep removes the state table';

CREATE FUNCTION fleetlog.unmount(prefix text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_unmount' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.unmount(text) IS 'remove a mount; the records stay in the stream';

-- What a door would do with a topic, for operators and tests.
CREATE FUNCTION fleetlog._route(topic text, tenant text = NULL, device text = NULL,
	OUT prefix text, OUT stream regclass, OUT record_key text, OUT shard_key text, OUT shard int)
	AS 'MODULE_PATHNAME', 'fl_sql_route' LANGUAGE C CALLED ON NULL INPUT STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION fleetlog._route(text, text, text) IS
	'internal: the mount that takes a topic, and the keys and the shard its record gets; NULLs when no mount does';

REVOKE ALL ON FUNCTION fleetlog.mount(text, regclass, regclass, text, interval, text, text, text, text, int, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.alter_mount(text, regclass, text, text, text, text, int, regclass, text, interval, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.unmount(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._route(text, text, text) FROM PUBLIC;
