-- History that ends: heads, trims and holds.  Retention itself is the keeper's work (bgworker/main/retention.c).

-- A raised head hides rows from every reader when it commits, whoever writes the row: a trim, retention, a restore.
CREATE FUNCTION fleetlog._head_changed() RETURNS trigger
	AS 'MODULE_PATHNAME', 'fl_sql_head_changed' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._head_changed() IS 'internal: tells readers the oldest offset of a shard, of one that is restored the next offset as well';
REVOKE ALL ON FUNCTION fleetlog._head_changed() FROM PUBLIC;

CREATE TRIGGER head_raised AFTER UPDATE OF head ON fleetlog.shard_config
	FOR EACH ROW WHEN (NEW.head > OLD.head) EXECUTE FUNCTION fleetlog._head_changed();
CREATE TRIGGER head_restored AFTER INSERT ON fleetlog.shard_config
	FOR EACH ROW WHEN (NEW.head > 0 OR NEW.tail > 0) EXECUTE FUNCTION fleetlog._head_changed();

-- A hold and its ranges.  The ranges are rows of their own so that whoever raises a head finds those of one shard by an
-- index, with the newest snapshot, whatever the isolation level of the transaction.
CREATE TABLE fleetlog.hold_config (
	id bigint PRIMARY KEY,
	stream regclass NOT NULL,
	ranges jsonb NOT NULL,
	reason text NOT NULL,
	role text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE fleetlog.hold_config IS 'holds: ranges of streams that neither retention nor trim_head removes; written by hold and release_hold';

CREATE TABLE fleetlog.hold_range_config (
	stream regclass NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	lower_offset bigint NOT NULL CHECK (lower_offset >= 0),
	upper_offset bigint NOT NULL CHECK (upper_offset > lower_offset),
	hold bigint NOT NULL
);
CREATE INDEX hold_range_config_key ON fleetlog.hold_range_config (stream, shard);
ALTER TABLE fleetlog.hold_range_config REPLICA IDENTITY FULL;
COMMENT ON TABLE fleetlog.hold_range_config IS 'ranges of holds by shard, upper offset not included';

CREATE SEQUENCE fleetlog.hold_id_seq OWNED BY fleetlog.hold_config.id;
COMMENT ON SEQUENCE fleetlog.hold_id_seq IS 'ids of holds';

-- Segments that have left their stream and are to be dropped: detaching needs the shard's table for a moment and must not
-- wait for a disk, dropping a file does.  A row stays behind only when the server stops in between.
CREATE TABLE fleetlog.detached_segment (
	segment regclass NOT NULL
);
ALTER TABLE fleetlog.detached_segment REPLICA IDENTITY FULL;
COMMENT ON TABLE fleetlog.detached_segment IS 'segments that retention has detached and not dropped yet';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.hold_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.hold_range_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.hold_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.detached_segment', '');

CREATE FUNCTION fleetlog.trim_head(stream regclass, shard int, before bigint, expected_tail bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_trim_head' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.trim_head(regclass, int, bigint, bigint) IS
	'remove what is before an offset of a shard, if its tail is the expected one (NULL: whatever it is); returns the head';

CREATE FUNCTION fleetlog.hold(stream regclass, ranges jsonb, reason text) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_hold' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.hold(regclass, jsonb, text) IS
	'keep ranges {"<shard>": [[from, to], ...]} from retention and trims until release_hold; returns the id of the hold';

CREATE FUNCTION fleetlog.release_hold(id bigint) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_release_hold' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.release_hold(bigint) IS 'end a hold: what only it kept goes by retention again';

CREATE VIEW fleetlog.stream_hold AS
	SELECT id, stream, ranges, reason, role, created_at FROM fleetlog.hold_config;
COMMENT ON VIEW fleetlog.stream_hold IS 'holds: which ranges of which streams neither retention nor trim_head removes, and why';

CREATE FUNCTION fleetlog._oldest(stream regclass, shard int) RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'fl_sql_oldest' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._oldest(regclass, int) IS 'internal: append time of the oldest record of a shard, NULL when there is none';
REVOKE ALL ON FUNCTION fleetlog._oldest(regclass, int) FROM PUBLIC;

CREATE FUNCTION fleetlog._segment_width(retention_age interval, retention_bytes bigint, shards int, rate float8, record_bytes float8,
	segments_of_shard int, segments_of_stream int, segment_bytes bigint = NULL, segment_age interval = NULL) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_segment_width' LANGUAGE C CALLED ON NULL INPUT IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._segment_width(interval, bigint, int, float8, float8, int, int, bigint, interval) IS
	'internal: how many offsets the next segment of a shard takes at this rate (records per second)';

REVOKE ALL ON FUNCTION fleetlog.trim_head(regclass, int, bigint, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.hold(regclass, jsonb, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog.release_hold(bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION fleetlog._segment_width(interval, bigint, int, float8, float8, int, int, bigint, interval) FROM PUBLIC;
