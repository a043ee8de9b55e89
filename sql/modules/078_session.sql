-- Sessions that outlive their connections.  What they remember is written to two streams of our own, which the keeper
-- makes when the first client asks for such a session.

CREATE FUNCTION fleetlog._make_session_streams() RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF to_regclass('fleetlog.session_journal') IS NULL THEN
		PERFORM fleetlog.create_stream('fleetlog.session_journal');
		COMMENT ON TABLE fleetlog.session_journal IS 'events of sessions that outlive their connection, since the last snapshot; not decoded';
	END IF;
	IF to_regclass('fleetlog.session_snapshot') IS NULL THEN
		PERFORM fleetlog.create_stream('fleetlog.session_snapshot');
		COMMENT ON TABLE fleetlog.session_snapshot IS 'snapshots of all such sessions; not decoded';
	END IF;
END
$$;
COMMENT ON FUNCTION fleetlog._make_session_streams() IS 'internal: makes the streams of the session journal, where they are not there';
REVOKE ALL ON FUNCTION fleetlog._make_session_streams() FROM PUBLIC;

CREATE FUNCTION fleetlog._stat_session(OUT identity text, OUT client_id text, OUT connected bool, OUT door int, OUT since timestamptz,
	OUT expiry_seconds bigint, OUT remembered int, OUT ending bool,
	OUT tenant text, OUT device text, OUT role text, OUT subscriptions int, OUT inflight int, OUT lag bigint, OUT gap bigint) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_session' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION fleetlog._stat_session() IS 'internal: the rows of fleetlog.stat_session';
REVOKE ALL ON FUNCTION fleetlog._stat_session() FROM PUBLIC;

CREATE VIEW fleetlog.stat_session AS
	SELECT identity, tenant, device, role, client_id, connected, door, since, pg_catalog.make_interval(secs => expiry_seconds) AS expiry,
		   subscriptions, inflight, lag, gap, remembered, ending
	FROM fleetlog._stat_session();
COMMENT ON VIEW fleetlog.stat_session IS
	'sessions that outlive their connection: connected or gone since when, for how long they are kept then, their subscriptions, deliveries under way, records behind (lag) or lost to retention (gap) since the last checkpoint, and how many messages they remember';

CREATE FUNCTION fleetlog._stat_subscription(OUT identity text, OUT client_id text, OUT connected bool, OUT filter text, OUT qos int,
	OUT subscription_id bigint, OUT no_local bool, OUT retain_as_published bool, OUT positions text, OUT since timestamptz,
	OUT tenant text, OUT device text, OUT role text) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_subscription' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 1000;
COMMENT ON FUNCTION fleetlog._stat_subscription() IS 'internal: the rows of fleetlog.stat_subscription';
REVOKE ALL ON FUNCTION fleetlog._stat_subscription() FROM PUBLIC;

CREATE VIEW fleetlog.stat_subscription AS
	SELECT identity, tenant, device, role, client_id, connected, filter, qos, subscription_id, no_local, retain_as_published, positions, since
	FROM fleetlog._stat_subscription();
COMMENT ON VIEW fleetlog.stat_subscription IS
	'subscriptions of sessions that outlive their connection, connected or not; those of other connections are counted in stat_connection';

CREATE VIEW fleetlog.presence AS
	WITH connection AS MATERIALIZED (SELECT * FROM fleetlog._stat_connection()),
		 away AS MATERIALIZED (SELECT * FROM fleetlog._stat_session() s WHERE NOT s.connected)
	SELECT c.identity, c.tenant, c.device, c.role, c.client_id, true AS online, c.connected_at AS since, c.peer, c.session
	FROM connection c
	UNION ALL
	SELECT a.identity, a.tenant, a.device, a.role, a.client_id, false, a.since, NULL, true
	FROM away a
	UNION ALL
	SELECT d.tenant || '/' || d.id, d.tenant, d.id, NULL, NULL, false, NULL, NULL, false
	FROM fleetlog.device d
	WHERE NOT EXISTS (SELECT FROM connection c WHERE c.tenant = d.tenant AND c.device = d.id)
	  AND NOT EXISTS (SELECT FROM away a WHERE a.tenant = d.tenant AND a.device = d.id);
COMMENT ON VIEW fleetlog.presence IS
	'who is online, and since when: connected clients, clients that are away and have a session that waits for them, and devices with neither';
GRANT SELECT ON fleetlog.presence TO fleetlog_admin, pg_monitor;

CREATE FUNCTION fleetlog._stat_share(OUT tenant text, OUT role text, OUT filter text, OUT stream oid, OUT shard int, OUT "position" bigint,
	OUT members int, OUT returned int) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_share' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION fleetlog._stat_share() IS 'internal: groups of shared subscriptions, for fleetlog.stat_group';
REVOKE ALL ON FUNCTION fleetlog._stat_share() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._stat_share() TO fleetlog_admin, pg_monitor;

GRANT EXECUTE ON FUNCTION fleetlog._stat_subscription() TO fleetlog_admin, pg_monitor;
GRANT SELECT ON fleetlog.stat_subscription TO fleetlog_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION fleetlog._stat_session() TO fleetlog_admin, pg_monitor;
GRANT SELECT ON fleetlog.stat_session TO fleetlog_admin, pg_monitor;
