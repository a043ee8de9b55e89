-- Writing to and reading from streams by position.

-- What idempotent producers have written last (L9): a row per shard and producer, written with the record it speaks of.
CREATE TABLE fleetlog.producer_config (
	stream regclass NOT NULL,
	shard int NOT NULL,
	producer_id bigint NOT NULL,
	epoch int NOT NULL,
	sequences bigint[] NOT NULL,
	offsets bigint[] NOT NULL,
	PRIMARY KEY (stream, shard, producer_id)
);
COMMENT ON TABLE fleetlog.producer_config IS 'last sequences of idempotent producers and the offsets of their records, newest last';
SELECT pg_catalog.pg_extension_config_dump('fleetlog.producer_config', '');
REVOKE ALL ON fleetlog.producer_config FROM PUBLIC;

-- What was known of Kafka's idempotent producers at an offset of a shard; what they have written since stands in the log. Not dumped:
-- records that are restored do not say any more who has sent them, so producers begin anew there.
CREATE TABLE fleetlog.producer_snapshot (
	stream regclass NOT NULL,
	shard int NOT NULL,
	log_offset bigint NOT NULL,
	state bytea NOT NULL,
	PRIMARY KEY (stream, shard)
);
ALTER TABLE fleetlog.producer_snapshot ALTER COLUMN state SET STORAGE EXTERNAL;
COMMENT ON TABLE fleetlog.producer_snapshot IS 'newest batches of Kafka''s idempotent producers, as known at an offset of the log';
REVOKE ALL ON fleetlog.producer_snapshot FROM PUBLIC;

-- Producer ids that were given out, in one row. Another server, or another timeline, goes on in a range of its own.
CREATE TABLE fleetlog.producer_id_config (
	only_row bool PRIMARY KEY DEFAULT true CHECK (only_row),
	system bigint NOT NULL,
	timeline bigint NOT NULL,
	salt int NOT NULL,
	next_id bigint NOT NULL
);
COMMENT ON TABLE fleetlog.producer_id_config IS 'which producer ids were given out, on which server and timeline';
SELECT pg_catalog.pg_extension_config_dump('fleetlog.producer_id_config', '');
REVOKE ALL ON fleetlog.producer_id_config FROM PUBLIC;

CREATE FUNCTION fleetlog.append(
	stream regclass, key text, payload bytea, headers fleetlog.headers = NULL, shard int = NULL,
	created timestamptz = NULL, producer_id bigint = NULL, producer_epoch int = NULL, sequence bigint = NULL,
	device text = NULL, tenant text = NULL) RETURNS fleetlog.log_position
	AS 'MODULE_PATHNAME', 'fl_sql_append' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.append(regclass, text, bytea, fleetlog.headers, int, timestamptz, bigint, int, bigint, text, text)
	IS 'append a record to a stream and return its position; the shard is held until commit';

CREATE FUNCTION fleetlog.publish(
	topic text, payload bytea, headers fleetlog.headers = NULL, retain bool = false, qos int = 1) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_publish' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.publish(text, bytea, fleetlog.headers, bool, int)
	IS 'publish a message through the mount of its topic; written when the transaction commits';

CREATE FUNCTION fleetlog.read(stream regclass, shard int, from_offset bigint, max_records int = 1000)
	RETURNS SETOF fleetlog.log_record
	AS 'MODULE_PATHNAME', 'fl_sql_read' LANGUAGE C VOLATILE PARALLEL UNSAFE STRICT ROWS 1000;
COMMENT ON FUNCTION fleetlog.read(regclass, int, bigint, int)
	IS 'records of a shard from an offset on, up to what is durable';

CREATE FUNCTION fleetlog.head(stream regclass, shard int) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_head' LANGUAGE C VOLATILE PARALLEL UNSAFE STRICT;
COMMENT ON FUNCTION fleetlog.head(regclass, int) IS 'oldest offset of a shard';

CREATE FUNCTION fleetlog.tail(stream regclass, shard int) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_tail' LANGUAGE C VOLATILE PARALLEL UNSAFE STRICT;
COMMENT ON FUNCTION fleetlog.tail(regclass, int) IS 'next offset of a shard: all below are durable';

CREATE FUNCTION fleetlog.offset_for_time(stream regclass, shard int, at timestamptz) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_offset_for_time' LANGUAGE C VOLATILE PARALLEL UNSAFE STRICT;
COMMENT ON FUNCTION fleetlog.offset_for_time(regclass, int, timestamptz)
	IS 'first offset of a shard whose append time is not before this; NULL when nothing is that new';
