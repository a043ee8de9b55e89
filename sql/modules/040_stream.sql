-- Streams: what is configured for them, and the functions that make, change and drop them.  The tables are the
-- configuration that pg_dump carries; the rows of a stream are in its own table.

CREATE FUNCTION fleetlog._catalog_changed() RETURNS trigger
	AS 'MODULE_PATHNAME', 'fl_sql_catalog_changed' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._catalog_changed() IS 'internal: tells every process that the configuration has changed';
REVOKE ALL ON FUNCTION fleetlog._catalog_changed() FROM PUBLIC;

-- No foreign keys between these tables, nor between those of identity: pg_restore --jobs loads the tables of an extension
-- side by side, in no order.  Rows go with their stream in the drop hook of src/catalog/refuse.c, and with their device or tenant in the
-- functions that remove those.
CREATE TABLE fleetlog.stream_config (
	stream regclass PRIMARY KEY,
	shards int NOT NULL CHECK (shards BETWEEN 1 AND 256),
	durability text NOT NULL DEFAULT 'local' CHECK (durability IN ('local', 'quorum')),
	compression text NOT NULL DEFAULT 'lz4' CHECK (compression IN ('none', 'lz4', 'zstd')),
	timestamp_type text NOT NULL DEFAULT 'append' CHECK (timestamp_type IN ('append', 'create')),
	segment_bytes bigint CHECK (segment_bytes > 0),
	segment_age interval CHECK (segment_age > interval '0'),
	retention_age interval CHECK (retention_age > interval '0'),
	retention_bytes bigint CHECK (retention_bytes > 0),
	max_record_bytes int CHECK (max_record_bytes > 0),
	created_at timestamptz NOT NULL DEFAULT now(),
	cleanup_policy text NOT NULL DEFAULT 'delete' CHECK (cleanup_policy IN ('delete', 'compact', 'compact,delete'))
);
COMMENT ON TABLE fleetlog.stream_config IS 'configuration of streams; written by create_stream, alter_stream and drop_stream';

-- Rows of this table and of epoch_config are written by appends too, and so by the COPY of a segment during a restore,
-- perhaps before the row of the dump arrives.  Neither may fail then, so there is no unique key: readers take the
-- greatest values of all rows of a shard, which only ever rise.
CREATE TABLE fleetlog.shard_config (
	stream regclass NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	head bigint NOT NULL DEFAULT 0 CHECK (head >= 0),
	tail bigint NOT NULL DEFAULT 0 CHECK (tail >= 0)
);
CREATE INDEX shard_config_key ON fleetlog.shard_config (stream, shard);
ALTER TABLE fleetlog.shard_config REPLICA IDENTITY FULL;
COMMENT ON TABLE fleetlog.shard_config IS 'oldest offset of each shard, and an offset that its tail has reached at least';

CREATE TABLE fleetlog.shard_map_config (
	stream regclass NOT NULL,
	generation int NOT NULL CHECK (generation > 0),
	shards int NOT NULL CHECK (shards BETWEEN 1 AND 256),
	tails bigint[] NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (stream, generation)
);
COMMENT ON TABLE fleetlog.shard_map_config IS 'history of the number of shards, each with the tails of the shards before it at the switch';

CREATE TABLE fleetlog.epoch_config (
	stream regclass NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	epoch int NOT NULL CHECK (epoch >= 0),
	first_offset bigint NOT NULL CHECK (first_offset >= 0),
	timeline bigint NOT NULL
);
CREATE INDEX epoch_config_key ON fleetlog.epoch_config (stream, shard, epoch);
ALTER TABLE fleetlog.epoch_config REPLICA IDENTITY FULL;
COMMENT ON TABLE fleetlog.epoch_config IS 'leader epochs of each shard, the offset at which each begins and the WAL timeline it was raised on';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.stream_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.shard_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.shard_map_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.epoch_config', '');

CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.stream_config
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();

-- A row here makes the table a stream, whoever writes it (a restore does); the root then depends on the access method
-- as its segments do, so that DROP EXTENSION ... CASCADE takes it whole.
CREATE FUNCTION fleetlog._stream_registered() RETURNS trigger
	AS 'MODULE_PATHNAME', 'fl_sql_stream_registered' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._stream_registered() IS 'internal: makes a registered stream depend on the access method';
REVOKE ALL ON FUNCTION fleetlog._stream_registered() FROM PUBLIC;

CREATE TRIGGER stream_registered AFTER INSERT ON fleetlog.stream_config
	FOR EACH ROW EXECUTE FUNCTION fleetlog._stream_registered();

CREATE FUNCTION fleetlog.create_stream(
	name text,
	shards int = 1,
	durability text = 'local',
	compression text = 'lz4',
	timestamp_type text = 'append',
	segment_bytes bigint = NULL,
	segment_age interval = NULL,
	retention_age interval = NULL,
	retention_bytes bigint = NULL,
	max_record_bytes int = NULL,
	cleanup_policy text = 'delete'
) RETURNS regclass
	AS 'MODULE_PATHNAME', 'fl_sql_create_stream' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.create_stream(text, int, text, text, text, bigint, interval, interval, bigint, int, text) IS
	'create a stream: a partitioned table of append-only shards, owned by the caller';

CREATE FUNCTION fleetlog.alter_stream(
	stream regclass,
	shards int = NULL,
	durability text = NULL,
	compression text = NULL,
	segment_bytes bigint = NULL,
	segment_age interval = NULL,
	retention_age interval = NULL,
	retention_bytes bigint = NULL,
	max_record_bytes int = NULL,
	timestamp_type text = NULL,
	cleanup_policy text = NULL
) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_alter_stream' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.alter_stream(regclass, int, text, text, bigint, interval, interval, bigint, int, text, text) IS
	'change a stream: NULL leaves a value as it is, 0 removes a target or limit; shards can only be added';

CREATE FUNCTION fleetlog.drop_stream(stream regclass) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_drop_stream' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.drop_stream(regclass) IS 'drop a stream with all its records; refused while a topic prefix is mounted on it';

CREATE FUNCTION fleetlog._create_segment(stream regclass, shard int, lower bigint, upper bigint) RETURNS regclass
	AS 'MODULE_PATHNAME', 'fl_sql_create_segment' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._create_segment(regclass, int, bigint, bigint) IS
	'internal: create the segment of a shard for offsets from lower up to, not including, upper';

REVOKE ALL ON FUNCTION fleetlog.create_stream(text, int, text, text, text, bigint, interval, interval, bigint, int, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.alter_stream(regclass, int, text, text, bigint, interval, interval, bigint, int, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.drop_stream(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._create_segment(regclass, int, bigint, bigint) FROM PUBLIC;
