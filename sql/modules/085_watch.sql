-- Watching state tables.  The output plugin needs no SQL; this is what goes with it, and watch(), which needs no plugin.

-- Who may read the table and its streams may watch: the function asks for both.
CREATE FUNCTION fleetlog.watch(state regclass, since jsonb = NULL, keys text[] = NULL, prefix text = NULL, wait interval = '0',
		max_changes int = 1000,
		OUT event text, OUT key text, OUT shard int, OUT log_offset bigint, OUT ts timestamptz, OUT headers fleetlog.headers,
		OUT payload bytea, OUT "position" jsonb, OUT stream regclass)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_watch' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION fleetlog.watch(regclass, jsonb, text[], text, interval, int) IS
	'the state between begin-snapshot and end-snapshot, or the changes (set, clear) behind position since, waiting for some if there are none';

CREATE FUNCTION fleetlog._watch_json(event text, stream regclass, key text, shard int, log_offset bigint, ts timestamptz, headers fleetlog.headers,
		payload bytea, "position" jsonb) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_watch_json' LANGUAGE C CALLED ON NULL INPUT STABLE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._watch_json(text, regclass, text, int, bigint, timestamptz, fleetlog.headers, bytea, jsonb) IS
	'internal: an event of a watch as the output plugin writes it, for the rows of a snapshot';

CREATE VIEW fleetlog.stat_watch AS
	SELECT s.slot_name, s.database, s.active_pid, s.temporary, s.restart_lsn, s.confirmed_flush_lsn,
		   pg_catalog.pg_wal_lsn_diff(w.now, s.restart_lsn)::bigint AS retained_wal,
		   pg_catalog.pg_wal_lsn_diff(w.now, s.confirmed_flush_lsn)::bigint AS unconfirmed_wal,
		   s.safe_wal_size,
		   CASE WHEN pg_catalog.current_setting('max_slot_wal_keep_size') = '-1' THEN NULL
			   ELSE pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')) END AS limit_of_retained_wal,
		   CASE WHEN s.wal_status = 'lost' THEN 'lost: attach again for a fresh snapshot'
			   WHEN s.active_pid IS NULL THEN 'nobody is attached'
			   WHEN r.state IS NULL THEN 'attached'
			   ELSE r.state END AS state
	FROM pg_catalog.pg_replication_slots s
		LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid,
		(SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END AS now) w
	WHERE s.plugin = 'fleetlog';
COMMENT ON VIEW fleetlog.stat_watch IS
	'slots of watches: bytes of WAL that each keeps from being removed, how far its client has confirmed, and what limits it';
GRANT SELECT ON fleetlog.stat_watch TO fleetlog_admin, pg_monitor;
