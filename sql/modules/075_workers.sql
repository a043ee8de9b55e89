-- Workers: pause and resume, and what they show of themselves.

CREATE FUNCTION fleetlog.pause() RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_pause' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.pause() IS 'ends all workers but the launcher and disconnects every device, until fleetlog.resume() or a restart of the server';

CREATE FUNCTION fleetlog.resume() RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_resume' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.resume() IS 'starts the workers again after fleetlog.pause()';

CREATE FUNCTION fleetlog._launcher_retry() RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_launcher_retry' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._launcher_retry() IS 'internal: at commit, tells the launcher to look again whether the workers can run';

REVOKE ALL ON FUNCTION fleetlog.pause(), fleetlog.resume(), fleetlog._launcher_retry() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog.pause(), fleetlog.resume() TO fleetlog_admin;

-- Set-returning functions over shared memory.

CREATE FUNCTION fleetlog._stat_worker(
		OUT kind text, OUT index int, OUT pid int, OUT started timestamptz, OUT restarts bigint, OUT state text, OUT stop_point text,
		OUT connections bigint, OUT connects bigint, OUT disconnects bigint, OUT refused_connects bigint,
		OUT bytes_in bigint, OUT bytes_out bigint, OUT publish_in bigint, OUT publish_out bigint, OUT publish_refused bigint,
		OUT dropped_qos0 bigint, OUT dropped_too_large bigint, OUT lagging bigint, OUT subscriptions bigint, OUT protocol_errors bigint,
		OUT turns bigint, OUT batches bigint, OUT records bigint, OUT errors bigint, OUT flushes bigint, OUT takeovers bigint,
		OUT memory bigint, OUT lost_memory bigint, OUT packets_in bigint, OUT packets_out bigint, OUT logins bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_worker' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION fleetlog._stat_worker() IS 'internal: rows of fleetlog.stat_worker';

CREATE FUNCTION fleetlog._stat_listener(
		OUT protocol text, OUT address text, OUT door int, OUT pid int, OUT state text, OUT open bigint, OUT accepted bigint,
		OUT handshakes bigint, OUT resumed_handshakes bigint, OUT failed_handshakes bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_listener' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION fleetlog._stat_listener() IS 'internal: rows of fleetlog.stat_listener';

CREATE FUNCTION fleetlog._stat_connection(
		OUT conn_id bigint, OUT client_id text, OUT identity text, OUT peer text, OUT protocol text, OUT door int, OUT keep_alive int,
		OUT connected_at timestamptz, OUT published bigint, OUT delivered bigint, OUT dropped bigint, OUT subscriptions int,
		OUT queued int, OUT lagging bool, OUT evicted bool, OUT evict_reason int, OUT tenant text, OUT device text, OUT role text,
		OUT listener text, OUT tls_version text, OUT tls_cipher text, OUT packets_in bigint, OUT packets_out bigint,
		OUT bytes_in bigint, OUT bytes_out bigint, OUT inflight int, OUT session bool, OUT session_expiry_seconds bigint,
		OUT software text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_connection' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION fleetlog._stat_connection() IS 'internal: rows of fleetlog.stat_connection';

CREATE FUNCTION fleetlog._stat_shard(
		OUT stream oid, OUT shard int, OUT head bigint, OUT visible_tail bigint, OUT flushed_tail bigint, OUT confirmed_tail bigint,
		OUT durable_tail bigint, OUT commit_lsn pg_lsn, OUT confirm_lsn pg_lsn, OUT records bigint, OUT batches bigint,
		OUT bytes bigint, OUT lock_waits bigint, OUT off_key_records bigint, OUT retention_run_at timestamptz, OUT segment_dropped_at timestamptz,
		OUT segments_dropped bigint, OUT retention_waits_for text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_shard' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 16;
COMMENT ON FUNCTION fleetlog._stat_shard() IS 'internal: rows of fleetlog.stat_stream';

CREATE FUNCTION fleetlog._stat_server(
		OUT paused bool, OUT disk_reserve_reached bool, OUT xids_used bigint, OUT xids_since timestamptz, OUT xids_per_day bigint,
		OUT commit_lsn pg_lsn, OUT flushed_lsn pg_lsn, OUT confirm_wanted_lsn pg_lsn, OUT confirmed_lsn pg_lsn)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_server' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1;
COMMENT ON FUNCTION fleetlog._stat_server() IS 'internal: row of fleetlog.stat_server';

CREATE FUNCTION fleetlog._stat_mount(
		OUT prefix text, OUT messages_in bigint, OUT bytes_in bigint, OUT refused bigint, OUT messages_out bigint, OUT bytes_out bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_mount' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 16;
COMMENT ON FUNCTION fleetlog._stat_mount() IS 'internal: counters of fleetlog.stat_mount';

REVOKE ALL ON FUNCTION fleetlog._stat_mount(), fleetlog._stat_worker(), fleetlog._stat_listener(), fleetlog._stat_connection(), fleetlog._stat_shard(),
	fleetlog._stat_server() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._stat_mount(), fleetlog._stat_worker(), fleetlog._stat_listener(), fleetlog._stat_connection(), fleetlog._stat_shard(),
	fleetlog._stat_server() TO fleetlog_admin, pg_monitor;

CREATE VIEW fleetlog.stat_worker AS SELECT * FROM fleetlog._stat_worker();
COMMENT ON VIEW fleetlog.stat_worker IS 'processes of fleetlog: what each does now, and its counters since it was started';

CREATE VIEW fleetlog.stat_listener AS SELECT * FROM fleetlog._stat_listener();
COMMENT ON VIEW fleetlog.stat_listener IS 'addresses at which front doors listen, or why they do not';

CREATE VIEW fleetlog.stat_connection AS
	SELECT conn_id, client_id, identity, tenant, device, role, peer, listener, tls_version, tls_cipher, protocol, door, keep_alive, connected_at,
		   packets_in, packets_out, bytes_in, bytes_out, published, delivered, dropped, subscriptions, inflight, queued, lagging,
		   session, pg_catalog.make_interval(secs => session_expiry_seconds) AS session_expiry, evicted, evict_reason,
		   software
	FROM fleetlog._stat_connection();
COMMENT ON VIEW fleetlog.stat_connection IS 'devices and applications that are connected, by MQTT or Kafka; what only MQTT has is NULL of Kafka clients';

CREATE VIEW fleetlog.stat_server AS SELECT * FROM fleetlog._stat_server();
COMMENT ON VIEW fleetlog.stat_server IS 'one row: transaction ids that the workers used, how far commits are durable, whether publishes are refused';

CREATE VIEW fleetlog.stat_stream AS
	SELECT c.stream, s.shard, c.durability, s.head, s.visible_tail, s.flushed_tail, s.confirmed_tail, s.durable_tail,
		   CASE
			   WHEN s.flushed_tail < s.visible_tail THEN 'flush'
			   WHEN c.durability = 'quorum' AND s.confirmed_tail < s.flushed_tail THEN
				   CASE
					   WHEN pg_catalog.current_setting('synchronous_standby_names') = '' THEN 'synchronous_standby_names is empty'
					   ELSE 'confirmation by synchronous standbys'
				   END
		   END AS waits_for,
		   s.commit_lsn, s.confirm_lsn, s.records, s.batches, s.bytes, s.lock_waits, s.off_key_records,
		   g.segments, g.stored_bytes, fleetlog._oldest(c.stream, s.shard) AS oldest, h.holds,
		   s.retention_run_at, s.segment_dropped_at, s.segments_dropped, s.retention_waits_for
	FROM fleetlog._stat_shard() s
	JOIN fleetlog.stream_config c ON c.stream = s.stream::pg_catalog.regclass
	LEFT JOIN LATERAL (
		SELECT count(*)::int AS segments, coalesce(sum(pg_catalog.pg_relation_size(segment)), 0)::bigint AS stored_bytes
		FROM fleetlog._segments(c.stream) WHERE shard = s.shard) g ON true
	LEFT JOIN LATERAL (
		SELECT count(DISTINCT hold)::int AS holds FROM fleetlog.hold_range_config r
		WHERE r.stream = c.stream AND r.shard = s.shard) h ON true;
COMMENT ON VIEW fleetlog.stat_stream IS 'shards that were used since server start: how far they are durable, what they wait for, what was written, and what retention does';

CREATE VIEW fleetlog.stat_mount AS
	SELECT m.prefix, m.stream, coalesce(s.messages_in, 0) AS messages_in, coalesce(s.bytes_in, 0) AS bytes_in, coalesce(s.refused, 0) AS refused,
		   coalesce(s.messages_out, 0) AS messages_out, coalesce(s.bytes_out, 0) AS bytes_out
	FROM fleetlog.mount_config m
	LEFT JOIN fleetlog._stat_mount() s USING (prefix);
COMMENT ON VIEW fleetlog.stat_mount IS 'mounts: messages and payload bytes that front doors took in, refused and delivered since server start';

GRANT SELECT ON fleetlog.stat_mount, fleetlog.stat_worker, fleetlog.stat_listener, fleetlog.stat_connection, fleetlog.stat_server, fleetlog.stat_stream
	TO fleetlog_admin, pg_monitor;

-- Workers that found no extension look again when this transaction commits.
SELECT fleetlog._launcher_retry();
