-- Consumer groups: what their coordinator has in shared memory, and how far they are.

CREATE FUNCTION fleetlog._stat_group_member(OUT name text, OUT owner oid, OUT state text, OUT generation int, OUT protocol_type text, OUT protocol text,
	OUT member_id text, OUT instance_id text, OUT client_id text, OUT host text, OUT leader bool, OUT session_timeout interval,
	OUT rebalance_timeout interval, OUT expires interval, OUT assignment jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_group_member' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION fleetlog._stat_group_member() IS 'internal: rows of fleetlog.stat_group_member';
REVOKE ALL ON FUNCTION fleetlog._stat_group_member() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._stat_group_member() TO fleetlog_admin, pg_monitor;

CREATE VIEW fleetlog.stat_group_member AS
	SELECT name, owner::pg_catalog.regrole AS owner, state, generation, protocol, member_id, instance_id, client_id, host, leader,
		session_timeout, rebalance_timeout, expires, assignment
	FROM fleetlog._stat_group_member() WHERE member_id IS NOT NULL;
COMMENT ON VIEW fleetlog.stat_group_member IS
	'members of Kafka''s consumer groups: state and generation of the group, when the member''s session ends unless it is heard of (NULL: its request waits for others), and what it has been assigned, by topic';

-- A device's groups bear its tenant's name in front, and belong to the workers' role.
CREATE VIEW fleetlog.stat_group AS
	WITH g AS (
		SELECT m.name, m.owner, m.state, m.generation, pg_catalog.count(m.member_id)::int AS members
		FROM fleetlog._stat_group_member() m GROUP BY m.name, m.owner, m.state, m.generation
	), p AS (
		SELECT coalesce(c.consumer, g.name) AS name, coalesce(c.owner, g.owner)::pg_catalog.oid AS owner, c.stream, c.shard, c.log_offset,
			coalesce(g.members, 0) AS members, g.state, g.generation
		FROM fleetlog.consumer_position c FULL JOIN g ON g.name OPERATOR(pg_catalog.=) c.consumer
	)
	SELECT 'consumer' AS kind, t.name AS tenant, CASE WHEN t.name IS NULL THEN pg_catalog.pg_get_userbyid(p.owner)::text END AS role,
		CASE WHEN t.name IS NULL THEN p.name ELSE pg_catalog.substr(p.name, pg_catalog.length(t.name) + 2) END AS name,
		NULL::text AS filter, p.stream, p.shard, p.log_offset AS "position", greatest(s.durable_tail - p.log_offset, 0) AS lag,
		p.members, NULL::int AS returned, p.state, p.generation
	FROM p
	LEFT JOIN fleetlog._stat_shard() s ON s.stream OPERATOR(pg_catalog.=) p.stream::pg_catalog.oid AND s.shard OPERATOR(pg_catalog.=) p.shard
	LEFT JOIN fleetlog.tenant t ON pg_catalog.pg_get_userbyid(p.owner) OPERATOR(pg_catalog.=) 'fleetlog_worker'
		AND t.name OPERATOR(pg_catalog.=) pg_catalog.split_part(p.name, '/', 1)
	UNION ALL
	SELECT 'mqtt', g.tenant, g.role, pg_catalog.split_part(g.filter, '/', 2), g.filter, g.stream::pg_catalog.regclass, g.shard, g."position",
		greatest(s.durable_tail - g."position", 0), g.members, g.returned, NULL, NULL
	FROM fleetlog._stat_share() g
	LEFT JOIN fleetlog._stat_shard() s ON s.stream OPERATOR(pg_catalog.=) g.stream AND s.shard OPERATOR(pg_catalog.=) g.shard;
COMMENT ON VIEW fleetlog.stat_group IS
	'consumers of take(), consumer groups of Kafka and groups of shared subscriptions of MQTT, by shard: their position, how many records behind it (lag; NULL: nobody has used the shard since server start), members, state and generation of the group (NULL: the coordinator does not know it); of MQTT returned: records that a member has not acknowledged and that wait to be sent again; such a group is shown while the session of a member may come back';

GRANT SELECT ON fleetlog.stat_group, fleetlog.stat_group_member TO fleetlog_admin, pg_monitor;
