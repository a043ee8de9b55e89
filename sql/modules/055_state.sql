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

CREATE FUNCTION fleetlog._stat_state_last(OUT state oid, OUT stream oid, OUT state_lag interval, OUT lag_in_force interval,
	OUT keys bigint, OUT flushes bigint, OUT early_flushes bigint, OUT flushed_at timestamptz) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_state_last' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION fleetlog._stat_state_last() IS 'internal: rows of fleetlog.stat_state_last';
REVOKE ALL ON FUNCTION fleetlog._stat_state_last() FROM PUBLIC;

CREATE VIEW fleetlog.stat_state_last AS
	SELECT state::regclass, stream::regclass, state_lag, lag_in_force, keys, flushes, early_flushes, flushed_at
	FROM fleetlog._stat_state_last();
COMMENT ON VIEW fleetlog.stat_state_last IS
	'mounts that keep last values with a lag, by table and stream: the lag, the one in force (longer while an old snapshot pins row versions), values not in the table yet';

-- Values that are not in their table yet.  Who asks was found to have the right on the table (fleetlog._retained).
CREATE FUNCTION fleetlog._last_values(state regclass, OUT stream regclass, OUT key text, OUT shard int, OUT log_offset bigint,
	OUT ts timestamptz, OUT tenant text, OUT device text, OUT headers fleetlog.headers, OUT payload bytea, OUT cleared bool)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_last_values' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION fleetlog._last_values(regclass) IS 'internal: last values that are not in their state table yet; needs SELECT on the table';

CREATE FUNCTION fleetlog._retained(OUT state regclass, OUT stream regclass, OUT key text, OUT shard int, OUT log_offset bigint,
	OUT ts timestamptz, OUT tenant text, OUT device text, OUT headers fleetlog.headers, OUT payload bytea)
	RETURNS SETOF record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1000 SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t regclass;
BEGIN
	FOR t IN SELECT c.state FROM fleetlog.state_config c WHERE has_table_privilege(c.state, 'SELECT') ORDER BY c.state LOOP
		-- Values that are not in the table yet go before those that are; with row-level security only the table knows who may see what.
		IF row_security_active(t) THEN
			RETURN QUERY EXECUTE format('SELECT %L::regclass, stream, key, shard, log_offset, ts, tenant, device, headers, payload FROM %s', t, t);
		ELSE
			RETURN QUERY EXECUTE format('WITH m AS MATERIALIZED (SELECT * FROM fleetlog._last_values(%L))'
				' SELECT %L::regclass, stream, key, shard, log_offset, ts, tenant, device, headers, payload FROM %s s'
				' WHERE NOT EXISTS (SELECT FROM m WHERE m.stream = s.stream AND m.key = s.key)'
				' UNION ALL SELECT %L::regclass, stream, key, shard, log_offset, ts, tenant, device, headers, payload FROM m WHERE NOT cleared',
				t, t, t, t);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION fleetlog._retained() IS 'internal: rows of fleetlog.retained';

CREATE VIEW fleetlog.retained AS SELECT * FROM fleetlog._retained();
COMMENT ON VIEW fleetlog.retained IS
	'values in force of all state tables that the caller may read, last values up to date; for one topic ask its table, which has an index';

CREATE FUNCTION fleetlog.rebuild_state(state regclass) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_rebuild_state' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.rebuild_state(regclass) IS
	'make a state table what the history of its streams implies, while writes go on; rows older than the history stay';
REVOKE ALL ON FUNCTION fleetlog.rebuild_state(regclass) FROM PUBLIC;

CREATE FUNCTION fleetlog.verify(stream regclass, OUT shard int, OUT check_name text, OUT ok bool, OUT detail text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_verify' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 16;
COMMENT ON FUNCTION fleetlog.verify(regclass) IS
	'read all of a stream: checksums, dense offsets, order of times by shard, and whether its state tables are what the history implies';
REVOKE ALL ON FUNCTION fleetlog.verify(regclass) FROM PUBLIC;
