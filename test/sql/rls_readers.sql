-- I6: row-level security by tenant in everything that reads besides SELECT and read() (rls.sql): poll, take, state tables and
-- what is built on them, COPY, pushed-down conditions, plans that were made for another role, messages, statistics, segments.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE ROLE rr_a; CREATE ROLE rr_b; CREATE ROLE rr_owner; CREATE ROLE rr_all BYPASSRLS;
SELECT fleetlog.create_stream('rr', shards => 2), fleetlog.create_state('rr_now');
SELECT fleetlog.create_stream('rr_lag'), fleetlog.create_state('rr_last');
SELECT fleetlog.mount('rrt/', 'rr', state => 'rr_now', keep => 'last', state_lag => '0'),
    fleetlog.mount('rrl/', 'rr_lag', state => 'rr_last', keep => 'last', state_lag => '1 hour');
-- Tenant a has numbers, b has secrets. Nobody may learn of b's but b.
SELECT count(fleetlog.append('rr', 'rrt/' || t || '/' || n, convert_to(CASE t WHEN 'a' THEN n::text ELSE 'secret of b' END, 'UTF8'), tenant => t, device => t || n, shard => n % 2))
    FROM (SELECT n, CASE WHEN n % 3 = 0 THEN 'a' ELSE 'b' END AS t FROM generate_series(1, 30) n) x;
SELECT count(fleetlog.append('rr_lag', 'rrl/' || t || '/1', convert_to(CASE t WHEN 'a' THEN '1' ELSE 'secret of b' END, 'UTF8'), tenant => t, device => t || 1)) FROM unnest(ARRAY['a', 'b']) t;
ALTER TABLE rr ENABLE ROW LEVEL SECURITY;
ALTER TABLE rr_now ENABLE ROW LEVEL SECURITY;
ALTER TABLE rr_last ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rr FOR SELECT TO rr_a, rr_b USING (tenant = substr(current_user, 4));
CREATE POLICY own_tenant ON rr_now FOR SELECT TO rr_a, rr_b USING (tenant = substr(current_user, 4));
CREATE POLICY own_tenant ON rr_last FOR SELECT TO rr_a, rr_b USING (tenant = substr(current_user, 4));
GRANT SELECT ON rr, rr_now, rr_last, rr_lag TO rr_a, rr_b, rr_all;
ALTER TABLE rr_lag ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON rr_lag FOR SELECT TO rr_a, rr_b USING (tenant = substr(current_user, 4));

-- Conditions and operators that tell what they are shown; they look cheap, so that the planner would like them first.
CREATE FUNCTION rr_tells(what text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS
    $$ BEGIN IF what ~ '^(secret of )?b|/b/' THEN RAISE WARNING 'leaked: %', what; END IF; RETURN true; END $$;
CREATE FUNCTION rr_tells_offset(what bigint, than bigint) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS
    $$ BEGIN IF what = 0 THEN RAISE WARNING 'leaked: offset %', what; END IF; RETURN true; END $$;
CREATE FUNCTION rr_tells_two(a text, b text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS
    $$ BEGIN RETURN rr_tells(a) AND rr_tells(b); END $$;
CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = rr_tells_two, RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR <<< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = rr_tells_offset, RESTRICT = scalarltsel);
CREATE FUNCTION rr_plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS
    $$ BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query; END $$;
GRANT EXECUTE ON FUNCTION rr_plan(text), rr_tells(text), rr_tells_offset(bigint, bigint), rr_tells_two(text, text) TO PUBLIC;
-- They do tell, where they are shown something.
SELECT rr_tells('b1'), 'x' === 'rrt/b/1', 0::bigint <<< 1::bigint;

SET ROLE rr_a;
-- poll: what it returns, in one call and one by one, with a filter that asks for b's, in conditions upon it.
SELECT tenant, count(*) FROM fleetlog.poll('rr') GROUP BY tenant;
SELECT next FROM fleetlog.poll('rr') LIMIT 1;
SELECT * FROM fleetlog.poll('rr', filter => 'rrt/b/#');
SELECT key FROM fleetlog.poll('rr', '{"0": 3}', 3) ORDER BY shard, log_offset;
DO $$
DECLARE at jsonb := '{}'; before jsonb; r record; seen int := 0; foreign_seen int := 0;
BEGIN
    FOR i IN 1 .. 100 LOOP
        before := at;
        FOR r IN SELECT * FROM fleetlog.poll('rr', at, 1) LOOP
            at := r.next; seen := seen + (r.key IS NOT NULL)::int; foreign_seen := foreign_seen + (coalesce(r.tenant, 'a') <> 'a')::int;
        END LOOP;
        EXIT WHEN at = before;
    END LOOP;
    RAISE WARNING '% records one by one, % of another tenant', seen, foreign_seen;
END $$;
SELECT count(*) FROM fleetlog.poll('rr') p WHERE rr_tells(p.key) AND rr_tells(fleetlog.text(p.payload)) AND p.tenant === p.device;
-- take: the same; the position moves past what is not shown.
SELECT tenant, count(*) FROM fleetlog.take('rr_consumer', 'rr', 4) GROUP BY tenant;
SELECT tenant, count(*) FROM fleetlog.take('rr_consumer', 'rr') t WHERE rr_tells(t.key) GROUP BY tenant;
SELECT shard, log_offset FROM fleetlog.consumer_position ORDER BY shard;

-- The values in force: the table, the view over all tables, and what is not in its table yet.
SELECT tenant, count(*) FROM rr_now GROUP BY tenant;
SELECT count(*) FROM rr_now WHERE rr_tells(key) AND rr_tells(fleetlog.text(payload)) AND tenant === device;
SELECT count(*) FROM rr_now WHERE stream = 'rr'::regclass AND key = 'rrt/b/1';
SELECT count(*) FROM rr_last WHERE rr_tells(key);
-- watch: its state and the changes behind a position, those in memory too.
SELECT event, tenant_of_key, count(*) FROM fleetlog.watch('rr_now') w, split_part(w.key, '/', 2) tenant_of_key
    WHERE rr_tells(w.key) AND rr_tells(fleetlog.text(w.payload)) GROUP BY 1, 2 ORDER BY 1;
SELECT event, key FROM fleetlog.watch('rr_now', prefix => 'rrt/b/');
SELECT event, key FROM fleetlog.watch('rr_last');
SELECT state, tenant, count(*) FROM fleetlog.retained WHERE rr_tells(key) AND rr_tells(tenant) GROUP BY 1, 2 ORDER BY 1;
\set VERBOSITY sqlstate
SELECT * FROM fleetlog._last_values('rr_last');
SET row_security = off;
SELECT * FROM fleetlog.retained;
SELECT * FROM fleetlog.poll('rr');
SELECT * FROM fleetlog.take('rr_consumer', 'rr');
COPY rr TO STDOUT;
RESET row_security;

-- Not for it at all: what reads or tells of everybody's records.
SELECT * FROM fleetlog.verify('rr');
SELECT fleetlog.rebuild_state('rr_now');
SELECT fleetlog.hold('rr', '{"0": [[0, 1]]}', 'mine');
SELECT fleetlog.trim_head('rr', 0, 1, NULL);
SELECT * FROM fleetlog.shadow;
SELECT fleetlog.device_shadow('b/b1');
SELECT fleetlog.set_desired('b/b1', '{"x": 1}');
SELECT * FROM fleetlog.stat_stream;
SELECT * FROM fleetlog.stat_state_last;
SELECT * FROM fleetlog.stat_waiter;
SELECT * FROM fleetlog.stat_connection;
SELECT * FROM fleetlog.device;
SELECT * FROM fleetlog.stream_hold;
SELECT * FROM fleetlog.state_pending;
SELECT * FROM fleetlog.state_cleared;
SELECT * FROM pg_logical_slot_peek_changes('none', NULL, NULL);
INSERT INTO rr_now SELECT * FROM rr_now;
DELETE FROM rr_now;
SELECT fleetlog.append('rr', 'rrt/a/1', 'x');
SELECT fleetlog.publish('rrt/a/1', 'x');
\set VERBOSITY default

-- COPY.
COPY rr (tenant, key) TO STDOUT;
COPY (SELECT key FROM rr WHERE rr_tells(key) ORDER BY 1 LIMIT 2) TO STDOUT;
COPY rr_last (tenant, key) TO STDOUT;

-- The scan node: the policy comes first, and a comparison is walked to only if it can be trusted not to tell.
EXPLAIN (COSTS OFF) SELECT 1 FROM rr WHERE rr_tells(key) AND log_offset < 10 AND shard = 0;
EXPLAIN (COSTS OFF) SELECT 1 FROM rr WHERE ts > '2020-01-01'::timestamp AND log_offset <<< 10;
SELECT count(*) FROM rr WHERE log_offset <<< 10 AND rr_tells(key);
SELECT count(*) FROM rr WHERE ts > '2020-01-01'::timestamp AND rr_tells(tenant);
-- A value that one leaky condition computes from another row, on both sides of a join, in LATERAL, in sub-selects.
SELECT count(*) FROM rr x JOIN rr y ON x.shard = y.shard AND y.log_offset = x.log_offset + rr_tells(x.key)::int WHERE rr_tells(y.key);
SELECT count(*) FROM rr x, LATERAL (SELECT * FROM rr y WHERE y.shard = x.shard AND y.log_offset <= x.log_offset AND rr_tells(y.key) LIMIT 2) z WHERE rr_tells(z.key);
SELECT count(*) FROM rr x WHERE log_offset = (SELECT max(y.log_offset) FROM rr y WHERE rr_tells(y.key) AND y.shard = x.shard);
SELECT count(*) FROM rr_now n JOIN rr USING (shard, log_offset) WHERE rr_tells(n.key) AND rr_tells(rr.key);
SELECT count(*) FROM rr_now n JOIN rr ON rr.key === n.key;
SELECT min(log_offset), max(log_offset), count(*) FROM rr WHERE shard = 1;
SELECT tenant FROM rr ORDER BY shard DESC, log_offset DESC LIMIT 1;
SELECT DISTINCT tenant FROM (SELECT * FROM rr UNION ALL SELECT * FROM rr) u WHERE rr_tells(key);
SET fleetlog.enable_stream_scan = off;
SELECT count(*) FROM rr WHERE rr_tells(key) AND log_offset <<< 10;
RESET fleetlog.enable_stream_scan;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT bool_or(l ~ 'Parallel Custom Scan') AS parallel FROM rr_plan('SELECT key FROM rr') l;
SELECT tenant, count(*) FROM rr GROUP BY tenant;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;

-- Messages: one that would quote b's payload does not come.
SELECT sum(fleetlog.text(payload)::int) FROM rr;
SELECT sum(fleetlog.text(payload)::int) FROM fleetlog.poll('rr');
SELECT sum(fleetlog.text(payload)::int) FROM fleetlog.read('rr', 0, 0);
SELECT sum(fleetlog.text(payload)::int) FROM rr_now;
SELECT sum(fleetlog.text(payload)::int) FROM fleetlog.retained;

-- Plans that were made for somebody else.
RESET ROLE;
SET plan_cache_mode = force_generic_plan;
PREPARE by_tenant AS SELECT tenant, count(*) FROM rr GROUP BY tenant ORDER BY 1;
PREPARE by_offset(bigint) AS SELECT count(*) FROM rr WHERE log_offset < $1 AND rr_tells(tenant || $1);
CREATE FUNCTION rr_count() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM rr';
CREATE FUNCTION rr_count_plpgsql() RETURNS bigint LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN (SELECT count(*) FROM rr); END $$;
CREATE VIEW rr_view WITH (security_invoker = true) AS SELECT * FROM rr;
GRANT SELECT ON rr_view TO rr_a;
EXECUTE by_tenant;
SELECT rr_count(), rr_count_plpgsql(), (SELECT count(*) FROM rr_view);
SET ROLE rr_a;
EXECUTE by_tenant;
EXECUTE by_offset(100);
SELECT rr_count(), rr_count_plpgsql(), (SELECT count(*) FROM rr_view WHERE rr_tells(key));
SET ROLE rr_b;
EXECUTE by_tenant;
SET ROLE rr_all;
EXECUTE by_tenant;
RESET ROLE;
EXECUTE by_tenant;
RESET plan_cache_mode;

-- Statistics: neither shown nor used by an operator that tells, as they are for who may see all.
ANALYZE rr, rr_now;
SELECT count(*) > 0 AS planned FROM rr_plan('SELECT 1 FROM rr_now WHERE tenant === $$nobody$$');
SET ROLE rr_a;
SELECT count(*) FROM pg_stats WHERE tablename ~ '^rr';
SELECT count(*) > 0 AS planned FROM rr_plan('SELECT 1 FROM rr WHERE tenant === $$nobody$$');
SELECT count(*) > 0 AS planned FROM rr_plan('SELECT 1 FROM rr x JOIN rr y ON x.tenant === y.tenant WHERE x.log_offset <<< 5');
SELECT count(*) > 0 AS planned FROM rr_plan('SELECT 1 FROM rr_now WHERE tenant === $$nobody$$');

-- Segments: a right that was given on all tables shows nothing there, in old ones, in new ones, in those of a new shard.
RESET ROLE;
SELECT fleetlog.alter_stream('rr', shards => 3);
SELECT fleetlog._create_segment('rr', 2, 1048576, 2097152) IS NOT NULL AS made;
SELECT count(fleetlog.append('rr', 'rrt/b/new', 'secret of b', tenant => 'b', device => 'b', shard => 2)) FROM generate_series(1, 3) n;
CREATE FUNCTION rr_visible(name regclass) RETURNS bigint LANGUAGE plpgsql AS
    $$ DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %s WHERE public.rr_tells(key)', name) INTO n; RETURN n; END $$;
CREATE VIEW rr_tables AS SELECT oid::regclass AS name, relkind FROM pg_class WHERE relname ~ '^rr_[0-2]' AND relkind IN ('r', 'p') ORDER BY relname;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO rr_a;
SELECT name, relkind FROM rr_tables;
ANALYZE rr;
SET ROLE rr_a;
SELECT rr_visible(name) AS visible, count(*) FROM rr_tables GROUP BY 1;
COPY rr_0_0 TO STDOUT;
SELECT count(*) FROM pg_stats WHERE tablename ~ '^rr_[0-2]';
SELECT count(*) FROM rr;
RESET ROLE;
SELECT count(*) FROM rr_0_0;
-- The owner reads them as ever; without row security of the stream they have none.
ALTER TABLE rr OWNER TO rr_owner;
SET ROLE rr_owner;
SELECT count(*) FROM rr_0_0;
ALTER TABLE rr DISABLE ROW LEVEL SECURITY;
SET ROLE rr_a;
SELECT count(*) FROM rr_0_0;
SET ROLE rr_owner;
ALTER TABLE rr ENABLE ROW LEVEL SECURITY;
SELECT count(*) FROM pg_class WHERE relname ~ '^rr_[0-2]' AND relkind IN ('r', 'p') AND NOT relrowsecurity;
RESET ROLE;

-- Consumers of another role: not seen, not moved, not taken over.
SET ROLE rr_b;
SELECT count(*) FROM fleetlog.consumer_position;
\set VERBOSITY sqlstate
SELECT * FROM fleetlog.take('rr_consumer', 'rr');
SELECT fleetlog.seek_consumer('rr_consumer', 'rr');
SELECT fleetlog.forget_consumer('rr_consumer', 'rr');
\set VERBOSITY default
SELECT tenant, count(*) FROM fleetlog.take('rr_consumer_b', 'rr') GROUP BY tenant;
RESET ROLE;

-- A policy that changes while positions stay: what it hides now is passed over from now on.
ALTER POLICY own_tenant ON rr TO rr_a, rr_b USING (tenant = 'nobody');
SET ROLE rr_a;
SELECT count(*), count(key) FROM fleetlog.poll('rr');
SELECT count(*) FROM fleetlog.read('rr', 0, 0);
RESET ROLE;

DEALLOCATE ALL;
SELECT fleetlog.unmount('rrt/'), fleetlog.unmount('rrl/');
DROP VIEW rr_view, rr_tables;
DROP FUNCTION rr_count(), rr_count_plpgsql(), rr_visible(regclass);
DROP OPERATOR === (text, text); DROP OPERATOR <<< (bigint, bigint);
DROP FUNCTION rr_tells_two(text, text), rr_tells(text), rr_tells_offset(bigint, bigint), rr_plan(text);
DROP TABLE rr, rr_lag, rr_now, rr_last;
DROP OWNED BY rr_a, rr_b, rr_owner, rr_all;
DROP ROLE rr_a, rr_b, rr_owner, rr_all;
