-- State tables (R1, R2): one row per topic, the value that is in force.  The table itself is made by create_state, belongs
-- to its creator and is written by the log only; here is what goes with it.

CREATE TABLE fleetlog.state_config (
	state regclass PRIMARY KEY,
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE fleetlog.state_config IS 'state tables; written by create_state';

-- The last clear of a key, by which a record that is older and comes later is told from a new value, and from which
-- watchers learn at which position a key was cleared.  A row is taken away when the key is set again, or by the state
-- worker when nothing older can be under way any more.
CREATE TABLE fleetlog.state_cleared (
	state regclass NOT NULL,
	stream regclass NOT NULL,
	key text COLLATE "C" NOT NULL,
	shard int NOT NULL,
	log_offset bigint NOT NULL,
	ts timestamptz NOT NULL,
	PRIMARY KEY (state, stream, key)
);
COMMENT ON TABLE fleetlog.state_cleared IS 'position and time at which keys of state tables were cleared; rows go when the key is set again or after a while';

-- A value whose row, or whose key's shard, was locked by somebody: its record is committed, this row with it, and the state
-- worker writes the value when the lock is gone.  No unique key, so that nobody ever waits here.
CREATE TABLE fleetlog.state_pending (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	state regclass NOT NULL,
	stream regclass NOT NULL,
	key text COLLATE "C" NOT NULL,
	shard int NOT NULL,
	log_offset bigint NOT NULL,
	ts timestamptz NOT NULL,
	home int NOT NULL,
	cleared bool NOT NULL,
	tenant text,
	device text,
	headers fleetlog.headers,
	payload bytea
);
COMMENT ON TABLE fleetlog.state_pending IS 'values of committed records that could not be written to their state table yet, because of a lock on its row';

-- keep => 'last': below which offset a shard's records are in the table.
CREATE TABLE fleetlog.state_flushed (
	state regclass NOT NULL,
	stream regclass NOT NULL,
	shard int NOT NULL,
	log_offset bigint NOT NULL,
	PRIMARY KEY (state, stream, shard)
);
COMMENT ON TABLE fleetlog.state_flushed IS 'for mounts that keep last values: the offset below which the records of a shard are in the state table';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.state_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.state_cleared', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.state_pending', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.state_pending_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.state_flushed', '');

CREATE TRIGGER catalog_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON fleetlog.state_config
	FOR EACH STATEMENT EXECUTE FUNCTION fleetlog._catalog_changed();

CREATE FUNCTION fleetlog.create_state(name text) RETURNS regclass
	AS 'MODULE_PATHNAME', 'fl_sql_create_state' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.create_state(text) IS
	'create a state table: a row per stream and topic with the value in force; name it in fleetlog.mount';
REVOKE ALL ON FUNCTION fleetlog.create_state(text) FROM PUBLIC;

CREATE FUNCTION fleetlog._stat_state(OUT applied bigint, OUT cleared bigint, OUT stale bigint, OUT deferred bigint,
	OUT waiting bigint, OUT retried bigint, OUT conflicts bigint)
	AS 'MODULE_PATHNAME', 'fl_sql_stat_state' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION fleetlog._stat_state() IS 'internal: the row of fleetlog.stat_state';
REVOKE ALL ON FUNCTION fleetlog._stat_state() FROM PUBLIC;

CREATE VIEW fleetlog.stat_state AS SELECT * FROM fleetlog._stat_state();
COMMENT ON VIEW fleetlog.stat_state IS
	'one row: values written to state tables since server start, cleared, found older than the row (stale), put off because of a lock (deferred), still waiting for it, written by a retry';
