-- Following a stream from SQL: poll() with positions that the reader keeps, take() with positions that are rows.

CREATE FUNCTION fleetlog.poll(stream regclass, positions jsonb = NULL, max_records int = 1000, wait interval = '0', filter text = NULL,
		OUT shard int, OUT log_offset bigint, OUT ts timestamptz, OUT created timestamptz, OUT tenant text, OUT device text,
		OUT key text, OUT key_bytes bytea, OUT headers fleetlog.headers, OUT payload bytea, OUT next jsonb)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_poll' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION fleetlog.poll(regclass, jsonb, int, interval, text) IS
	'durable records of all shards from these positions on, waiting for some if there are none; next is where to go on, the same in every row';

-- One row per consumer, stream and shard: take() and Kafka groups.  No foreign key, for the reason given in 040_stream.sql;
-- rows go with their stream.
CREATE TABLE fleetlog.consumer_position (
	consumer text NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND 255),
	stream regclass NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	owner regrole NOT NULL,
	log_offset bigint NOT NULL CHECK (log_offset >= 0),
	epoch int CHECK (epoch >= 0),
	metadata text,
	updated timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (consumer, stream, shard)
);
COMMENT ON TABLE fleetlog.consumer_position IS
	'where consumers stand: the next offset of each shard, the leader epoch of the record before it, and the role that owns the consumer';
SELECT pg_catalog.pg_extension_config_dump('fleetlog.consumer_position', '');

-- Everybody sees the consumers of roles that he belongs to.
ALTER TABLE fleetlog.consumer_position ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON fleetlog.consumer_position FOR SELECT
	USING (pg_catalog.pg_has_role(owner::oid, 'MEMBER') OR pg_catalog.pg_has_role('fleetlog_admin', 'MEMBER') OR pg_catalog.pg_has_role('pg_monitor', 'MEMBER'));
REVOKE ALL ON fleetlog.consumer_position FROM PUBLIC;
GRANT SELECT ON fleetlog.consumer_position TO PUBLIC;

CREATE FUNCTION fleetlog.take(consumer text, stream regclass, max_records int = 1000, wait interval = '0') RETURNS SETOF fleetlog.log_record
	AS 'MODULE_PATHNAME', 'fl_sql_take' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 1000;
COMMENT ON FUNCTION fleetlog.take(text, regclass, int, interval) IS
	'a consumer''s next records; its position moves in this transaction, so that it is taken back when the transaction is';

-- Both ask for SELECT on the stream and act on consumers of the caller's own roles only, so they are open to all, as take() is.
CREATE FUNCTION fleetlog.seek_consumer(consumer text, stream regclass, positions jsonb = NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_seek_consumer' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.seek_consumer(text, regclass, jsonb) IS
	'make a consumer go on at these positions; a shard that is not named begins at its oldest record';

CREATE FUNCTION fleetlog.forget_consumer(consumer text, stream regclass) RETURNS bool
	AS 'MODULE_PATHNAME', 'fl_sql_forget_consumer' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.forget_consumer(text, regclass) IS 'forget where a consumer of a stream stands; false when there was none';

CREATE FUNCTION fleetlog._stat_waiter(OUT pid int, OUT kind text, OUT stream oid, OUT since timestamptz, OUT until timestamptz, OUT wakeups bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_waiter' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION fleetlog._stat_waiter() IS 'internal: rows of fleetlog.stat_waiter';

CREATE FUNCTION fleetlog._stat_wait(OUT waiting bigint, OUT waits bigint, OUT wakeups bigint, OUT empty_wakeups bigint, OUT timeouts bigint, OUT records bigint)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_wait' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 1;
COMMENT ON FUNCTION fleetlog._stat_wait() IS 'internal: row of fleetlog.stat_wait';

REVOKE ALL ON FUNCTION fleetlog._stat_waiter(), fleetlog._stat_wait() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._stat_waiter(), fleetlog._stat_wait() TO fleetlog_admin, pg_monitor;

CREATE VIEW fleetlog.stat_waiter AS
	SELECT pid, kind, stream::pg_catalog.regclass AS stream, since, until, wakeups FROM fleetlog._stat_waiter();
COMMENT ON VIEW fleetlog.stat_waiter IS 'sessions that wait for more of a stream now: since and until when, and how often they were woken';

CREATE VIEW fleetlog.stat_wait AS SELECT * FROM fleetlog._stat_wait();
COMMENT ON VIEW fleetlog.stat_wait IS
	'one row: sessions that wait for more of a stream; since server start, waits, latches set for them, looks that found nothing, waits that timed out, records found';

GRANT SELECT ON fleetlog.stat_waiter, fleetlog.stat_wait TO fleetlog_admin, pg_monitor;
