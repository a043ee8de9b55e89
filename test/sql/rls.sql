-- I6: row-level security by tenant: a role that policies confine to one tenant sees nothing of another in any reader,
-- whatever conditions it brings along.
SET client_min_messages = warning;
CREATE ROLE rls_a; CREATE ROLE rls_b; CREATE ROLE rls_none; CREATE ROLE rls_all BYPASSRLS;
SELECT fleetlog.create_stream('rs', shards => 2, segment_bytes => 65536);
SELECT count(fleetlog.append('rs', 'k' || n, convert_to('secret of ' || t || ' ' || n, 'UTF8'), tenant => t, device => t || n, shard => n % 2))
    FROM generate_series(1, 3000) n, LATERAL (SELECT CASE WHEN n % 3 = 0 THEN 'a' ELSE 'b' END AS t) x;
ALTER TABLE rs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rs FOR SELECT TO rls_a, rls_b USING (tenant = substr(current_user, 5));
GRANT SELECT ON rs TO rls_a, rls_b, rls_none, rls_all;

-- A condition that tells what it sees.  It must see nothing that the policy hides.
CREATE FUNCTION tells(what text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS
    $$ BEGIN IF what ~ 'secret of b|^b' THEN RAISE WARNING 'leaked: %', what; END IF; RETURN true; END $$;
CREATE FUNCTION tells_int(what text, x int) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS
    $$ BEGIN IF what ~ '^b' THEN RAISE WARNING 'leaked: %', what; END IF; RETURN true; END $$;
CREATE OPERATOR <<>> (LEFTARG = text, RIGHTARG = int, FUNCTION = tells_int);
GRANT EXECUTE ON FUNCTION tells(text), tells_int(text, int) TO PUBLIC;

SET ROLE rls_a;
SELECT tenant, count(*) FROM rs GROUP BY tenant;
SELECT count(*) FROM rs WHERE tells(fleetlog.text(payload));
SELECT count(*) FROM rs WHERE tells(tenant) AND shard = 0 AND log_offset < 100;
SELECT count(*) FROM rs WHERE tenant <<>> 5;
SELECT count(*) FROM (SELECT * FROM rs OFFSET 0) x WHERE tells(tenant);
-- Division by zero is told by an error, not by a message.
SELECT count(*) FROM rs WHERE 1 / (CASE WHEN tenant = 'b' THEN 0 ELSE 1 END) = 1;
SELECT count(*) FROM rs WHERE shard = 0 AND log_offset >= 0 AND ts > '2020-01-01' AND tells(device);
SELECT count(*) FROM rs a JOIN rs b USING (shard, log_offset) WHERE tells(a.tenant) AND tells(fleetlog.text(b.payload));
PREPARE by_tenant(text) AS SELECT count(*) FROM rs WHERE tenant = $1 AND tells(tenant);
EXECUTE by_tenant('b');
EXECUTE by_tenant('a');
SET plan_cache_mode = force_generic_plan;
EXECUTE by_tenant('b');
RESET plan_cache_mode;
SELECT count(*) FROM rs TABLESAMPLE SYSTEM (100) WHERE tells(tenant);
CREATE TEMP VIEW of_rs AS SELECT * FROM rs;
SELECT count(*) FROM of_rs WHERE tells(tenant);
COPY (SELECT DISTINCT tenant FROM rs WHERE tells(tenant)) TO STDOUT;
-- read(): bounded, counted by what is visible, in order, to the end.
SELECT count(*), count(*) FILTER (WHERE tenant <> 'a') AS others FROM fleetlog.read('rs', 0, 0, 100000);
SELECT log_offset, tenant FROM fleetlog.read('rs', 0, 10, 3);
SELECT count(*) FROM fleetlog.read('rs', 1, 0, 100000) WHERE tells(tenant);
\set VERBOSITY sqlstate
-- Not around the stream: segments, shards and configuration are not for it.
SELECT count(*) FROM rs_0;
SELECT count(*) FROM rs_0_0;
COPY rs_0_0 TO STDOUT;
SELECT fleetlog.append('rs', 'k', 'x');
INSERT INTO rs (shard, log_offset, ts) VALUES (0, 5000, now());
SET row_security = off;
SELECT count(*) FROM rs;
SELECT count(*) FROM fleetlog.read('rs', 0, 0);
RESET row_security;
\set VERBOSITY default
-- Statistics of the columns do not tell values either.
RESET ROLE;
ANALYZE rs;
SET ROLE rls_a;
SELECT count(*) FROM pg_stats WHERE tablename LIKE 'rs%';
EXPLAIN (COSTS OFF) SELECT 1 FROM rs WHERE false;

SET ROLE rls_b;
SELECT tenant, count(*) FROM rs GROUP BY tenant;
SELECT count(*), count(*) FILTER (WHERE tenant <> 'b') AS others FROM fleetlog.read('rs', 0, 0, 100000);
SET ROLE rls_none;
SELECT count(*) FROM rs;
SELECT count(*) FROM fleetlog.read('rs', 0, 0);
SET ROLE rls_all;
SELECT tenant, count(*) FROM rs GROUP BY tenant ORDER BY 1;
SELECT count(*), count(DISTINCT tenant) FROM fleetlog.read('rs', 0, 0, 100000);
RESET ROLE;

-- An old snapshot does not hide from read() what is durable.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SET LOCAL ROLE rls_a;
SELECT count(*) FROM rs WHERE shard = 0;
SELECT count(*) FROM fleetlog.read('rs', 0, 0, 100000);
COMMIT;

-- Trimmed: too old is told to a restricted role, too, and the executor's path shows no gap.
SELECT fleetlog.trim_head('rs', 0, 500, NULL);
SET ROLE rls_a;
SELECT min(log_offset) >= 500 AS hidden FROM fleetlog.read('rs', 0, 500, 100000);
SELECT count(*) FROM fleetlog.read('rs', 0, 499);
SELECT min(log_offset) >= 500 AS hidden FROM rs WHERE shard = 0;
RESET ROLE;

-- A new segment is behind the same policy.
SELECT fleetlog._create_segment('rs', 1, 1048576, 1049600) IS NOT NULL AS made;
SELECT count(fleetlog.append('rs', 'n' || n, 'secret of b', tenant => 'b', device => 'b', shard => 1)) FROM generate_series(1, 3000) n;
SET ROLE rls_a;
SELECT count(*) FROM rs WHERE tenant <> 'a' OR tells(fleetlog.text(payload)) IS NULL;
RESET ROLE;
-- Forced for the owner as well, also in read().
CREATE ROLE rls_owner; GRANT CREATE ON SCHEMA public TO rls_owner; ALTER TABLE rs OWNER TO rls_owner;
ALTER TABLE rs FORCE ROW LEVEL SECURITY;
-- On segments as well, on those to come, too.
SELECT fleetlog._create_segment('rs', 1, 2097152, 2098176) IS NOT NULL AS made;
CREATE FUNCTION forced() RETURNS TABLE (tables bigint, enabled bigint, forced bigint) LANGUAGE sql AS $$
	SELECT count(*), count(*) FILTER (WHERE relrowsecurity), count(*) FILTER (WHERE relforcerowsecurity)
	FROM pg_class WHERE oid IN (SELECT relid FROM pg_partition_tree('rs'))
$$;
SELECT tables > 4 AS many, tables = enabled AS all_enabled, tables = forced AS all_forced FROM forced();
SET ROLE rls_owner;
SELECT count(*) FROM rs;
SELECT count(*) FROM fleetlog.read('rs', 0, 500);
ALTER TABLE rs NO FORCE ROW LEVEL SECURITY;
SELECT tables = enabled AS all_enabled, forced FROM forced();
RESET ROLE;
DROP VIEW of_rs;
DROP TABLE rs;
DROP FUNCTION forced();
DROP OPERATOR <<>> (text, int); DROP FUNCTION tells(text), tells_int(text, int);
REVOKE CREATE ON SCHEMA public FROM rls_owner;
DROP ROLE rls_a, rls_b, rls_none, rls_all, rls_owner;
