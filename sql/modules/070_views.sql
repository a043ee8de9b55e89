-- What is configured, as users see it.  Views over running processes are in 075_workers.sql.

CREATE VIEW fleetlog.stream AS
	SELECT c.stream, n.nspname AS schema, r.relname AS name, pg_catalog.pg_get_userbyid(r.relowner) AS owner,
		c.shards, c.durability, c.compression, c.timestamp_type, c.segment_bytes, c.segment_age,
		c.retention_age, c.retention_bytes, c.max_record_bytes, c.created_at, c.cleanup_policy
	FROM fleetlog.stream_config c
		JOIN pg_catalog.pg_class r ON r.oid = c.stream
		JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace;
COMMENT ON VIEW fleetlog.stream IS 'streams and their settings';

CREATE FUNCTION fleetlog._segments(stream regclass,
	OUT shard int, OUT segment regclass, OUT lower bigint, OUT upper bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_segments' LANGUAGE C STRICT STABLE PARALLEL RESTRICTED ROWS 32;
COMMENT ON FUNCTION fleetlog._segments(regclass) IS 'internal: segments of a stream with their offsets, upper not included';

CREATE VIEW fleetlog.stream_shard AS
	SELECT c.stream, s.shard, min(g.lower) AS first_offset, max(g.upper) AS created_up_to, count(g.segment)::int AS segments,
		coalesce(sum(pg_catalog.pg_relation_size(g.segment)), 0)::bigint AS bytes, s.head, s.tail AS tail_at_least
	FROM fleetlog.stream_config c
		JOIN (SELECT stream, shard, max(head) AS head, max(tail) AS tail FROM fleetlog.shard_config GROUP BY stream, shard) s USING (stream)
		LEFT JOIN LATERAL fleetlog._segments(c.stream) g ON g.shard = s.shard
	GROUP BY c.stream, s.shard, s.head, s.tail;
COMMENT ON VIEW fleetlog.stream_shard IS
	'shards: their segments, and head and tail as a dump would carry them; the exact ones are fleetlog.head and fleetlog.tail';

CREATE VIEW fleetlog.mount AS
	SELECT prefix, stream, class, record_key, shard_key, dedupe, max_payload_bytes, created_at, state, keep,
		CASE WHEN keep = 'last' THEN coalesce(state_lag, interval '1 s') END AS state_lag, max_topic_levels
	FROM fleetlog.mount_config;
COMMENT ON VIEW fleetlog.mount IS 'mounts: which stream takes the topics below a prefix (NULL: carried in memory only), the longest prefix wins';

CREATE FUNCTION fleetlog._stat_auth(OUT known bigint, OUT accepted bigint, OUT refused bigint, OUT unavailable bigint, OUT busy bigint,
	OUT malformed bigint, OUT waiting int, OUT remembered bigint)
	AS 'MODULE_PATHNAME', 'fl_sql_stat_auth' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION fleetlog._stat_auth() IS 'internal: the row of fleetlog.stat_auth';

CREATE VIEW fleetlog.stat_auth AS SELECT * FROM fleetlog._stat_auth();
COMMENT ON VIEW fleetlog.stat_auth IS
	'one row: logins since server start by outcome (known: a pair that was verified before), checks that wait, pairs that are remembered';
