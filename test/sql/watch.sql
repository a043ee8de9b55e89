-- W1-W3: watch(): the state between its marks, changes behind a position, filters, kept kinds, fallback, rights.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('ws', shards => 2), fleetlog.create_state('wr'), fleetlog.create_state('wl');
SELECT fleetlog.mount('wr/', 'ws', state => 'wr'), fleetlog.mount('wl/', 'ws', state => 'wl', keep => 'last', state_lag => '10 min');
-- Nothing there: two marks. Afterwards: nothing.
SELECT event, key, position IS NOT NULL AS position FROM fleetlog.watch('wr');
SELECT position AS p FROM fleetlog.watch('wr') WHERE event = 'end-snapshot' \gset
SELECT position AS l FROM fleetlog.watch('wl') WHERE event = 'end-snapshot' \gset
SELECT count(*) FROM fleetlog.watch('wr', :'p');
-- What is no value is no event; what sets and clears is one each, in the order in which it happened.
SELECT fleetlog.publish('wr/a', '1', retain => true);
SELECT fleetlog.publish('wr/a', 'not retained');
SELECT fleetlog.publish('wl/a', '1');
SELECT fleetlog.publish('wr/b', '2', '{"unit": "C"}', retain => true);
SELECT fleetlog.publish('wr/a', '3', retain => true);
BEGIN; SELECT fleetlog.publish('wr/a', 'rolled back', retain => true); ROLLBACK;
SELECT fleetlog.publish('wr/b', '', retain => true);
SELECT fleetlog.publish('wl/b', '\x00ff');
SELECT fleetlog.publish('wr/c', '4', retain => true);
SELECT event, key, stream, fleetlog.text(payload) AS payload, headers ->> 'unit' AS unit, ts IS NOT NULL AS ts FROM fleetlog.watch('wr', :'p');
SELECT event, key, payload FROM fleetlog.watch('wl', :'l');
-- Each event stands where its record does.
SELECT count(*) AS events, count(*) FILTER (WHERE r.key = w.key AND r.ts = w.ts AND r.payload IS NOT DISTINCT FROM CASE w.event WHEN 'clear' THEN '' ELSE w.payload END) AS agree
    FROM fleetlog.watch('wr', :'p') w LEFT JOIN ws r USING (shard, log_offset);
-- The state, also of values that are not in their table yet.
SELECT event, key, fleetlog.text(payload) AS payload FROM fleetlog.watch('wr');
SELECT count(*) AS in_table FROM wl;
SELECT event, key, payload FROM fleetlog.watch('wl');
SELECT event, key, payload FROM fleetlog.watch('wl', keys => '{wl/b,wl/nothing}');
SELECT event, key FROM fleetlog.watch('wr', prefix => 'wr/a');
SELECT event, key FROM fleetlog.watch('wr', keys => '{wr/c}', prefix => 'wr/a');
SELECT event, key FROM fleetlog.watch('wr', keys => '{}');
-- Going on behind each event gives the rest; no event comes twice and none is left out.
CREATE FUNCTION follow(since jsonb, step int, prefix text = NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record; at jsonb := since; told text := ''; found bool;
BEGIN
    FOR i IN 1 .. 100 LOOP
        found := false;
        FOR r IN SELECT * FROM fleetlog.watch('wr', at, prefix => follow.prefix, max_changes => step) LOOP
            found := true;
            told := told || CASE r.event WHEN 'set' THEN ' ' || r.key || '=' || fleetlog.text(r.payload) WHEN 'clear' THEN ' ' || r.key || '-' WHEN 'progress' THEN '' ELSE ' ' || r.event END;
            at := r.position;
            -- A reader who stops anywhere.
            EXIT WHEN step = 1 OR random() < 0.5;
        END LOOP;
        EXIT WHEN NOT found;
    END LOOP;
    RETURN told;
END $$;
SELECT follow(:'p', 1), follow(:'p', 2) = follow(:'p', 1000) AS same;
-- With a filter: where nothing is wanted, one row says how far it has come, and another filter's position is not taken for its own.
SELECT position AS f FROM fleetlog.watch('wr', prefix => 'wr/z') WHERE event = 'end-snapshot' \gset
SELECT fleetlog.publish('wr/a', '5', retain => true);
SELECT event, key, position <> :'f' AS moved FROM fleetlog.watch('wr', :'f', prefix => 'wr/z');
SELECT event FROM fleetlog.watch('wr', :'f', prefix => 'wr/y');
SELECT event FROM fleetlog.watch('wr', :'f');
-- What follows is gone: the state, in which deleted keys are no more.
SELECT fleetlog.trim_head('ws', s, fleetlog.tail('ws', s), NULL) >= 0 AS trimmed FROM generate_series(0, 1) s;
SELECT event, key, fleetlog.text(payload) AS payload FROM fleetlog.watch('wr', :'p');
SELECT position AS p FROM fleetlog.watch('wr') WHERE event = 'end-snapshot' \gset
-- Another log: the position's epoch ends before it, or is not known.
SELECT event FROM fleetlog.watch('wr', jsonb_set(:'p', '{streams,public.ws,0,epoch}', '7'));
-- Another mount of the table, and one that keeps other things: the state again.
SELECT fleetlog.mount('wr/more/', 'ws', state => 'wr');
SELECT event FROM fleetlog.watch('wr', :'p') WHERE event <> 'row';
SELECT position AS p FROM fleetlog.watch('wr') WHERE event = 'end-snapshot' \gset
SELECT fleetlog.publish('wr/more/x', '6', retain => true);
SELECT event, key FROM fleetlog.watch('wr', :'p');
-- More shards: the new ones are followed from their beginning.
SELECT fleetlog.alter_stream('ws', shards => 3);
SELECT fleetlog.publish('wr/' || k, '7', retain => true) FROM generate_series(1, 12) k;
SELECT count(*) AS events, count(DISTINCT key) AS keys, count(DISTINCT shard) AS shards FROM fleetlog.watch('wr', :'p') WHERE event = 'set' AND key <> 'wr/more/x';
-- Records of one topic on several shards are told in their order; one that is read when a later one was told is left out.
SELECT position AS p FROM fleetlog.watch('wr') WHERE event = 'end-snapshot' \gset
SELECT (fleetlog.append('ws', 'wr/f', ('a' || s)::bytea, '[["fl.retain", "1", true]]', shard => s)).shard FROM generate_series(2, 0, -1) s;
SELECT event, key, shard, fleetlog.text(payload) AS payload FROM fleetlog.watch('wr', :'p');
SELECT event, key, shard, fleetlog.text(payload) AS payload FROM fleetlog.watch('wr', jsonb_set(:'p', '{streams,public.ws,0,offset}', to_jsonb(fleetlog.tail('ws', 0))));
SELECT event, key, shard, fleetlog.text(payload) AS payload FROM fleetlog.watch('wr', keys => '{wr/f}');
SELECT fleetlog.text(payload) FROM wr WHERE key = 'wr/f';
-- Two streams in one table.
SELECT fleetlog.create_stream('ws2');
SELECT fleetlog.mount('wr2/', 'ws2', state => 'wr');
SELECT position AS p FROM fleetlog.watch('wr') WHERE event = 'end-snapshot' \gset
SELECT fleetlog.publish('wr2/a', '8', retain => true), fleetlog.publish('wr/a', '', retain => true);
SELECT event, key, stream FROM fleetlog.watch('wr', :'p') ORDER BY key;
SELECT event FROM fleetlog.watch('wr', :'p', wait => '1 s') ORDER BY key;
-- A table without mounts has a state and no changes.
SELECT fleetlog.create_state('alone');
SELECT event, position -> 'streams' AS streams FROM fleetlog.watch('alone');
-- As a line.
SELECT fleetlog._watch_json('progress', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{"a": 1}'), fleetlog._watch_json(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

\set VERBOSITY terse
SELECT count(*) FROM fleetlog.watch('ws');
SELECT count(*) FROM fleetlog.watch('wr', '[]');
SELECT count(*) FROM fleetlog.watch('wr', '{}');
SELECT count(*) FROM fleetlog.watch('wr', '{"lsn": "0/1", "n": 1}');
SELECT count(*) FROM fleetlog.watch('wr', jsonb_set(:'p', '{streams}', '1'));
SELECT count(*) FROM fleetlog.watch('wr', jsonb_set(:'p', '{streams,public.ws,0}', '1'));
SELECT count(*) FROM fleetlog.watch('wr', jsonb_set(:'p', '{streams,public.ws,0,offset}', '-1'));
SELECT count(*) FROM fleetlog.watch('wr', jsonb_set(:'p', '{streams,public.ws,0,epoch}', '"x"'));
SELECT count(*) FROM fleetlog.watch('wr', wait => '-1 s');
SELECT count(*) FROM fleetlog.watch('wr', max_changes => 0);
SELECT count(*) FROM fleetlog.watch(NULL);

-- Rights: the table's and the stream's. Row-level security restricts both, or the watch is refused.
CREATE ROLE watch_a; CREATE ROLE watch_b;
SET ROLE watch_a;
SELECT count(*) FROM fleetlog.watch('wr');
RESET ROLE;
GRANT SELECT ON wr TO watch_a, watch_b;
SET ROLE watch_a;
SELECT count(*) FROM fleetlog.watch('wr');
RESET ROLE;
GRANT SELECT ON ws, ws2 TO watch_a, watch_b;
SET ROLE watch_a;
SELECT count(*) > 2 AS sees FROM fleetlog.watch('wr');
RESET ROLE;
ALTER TABLE wr ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON wr FOR SELECT USING (tenant = substr(current_user, 7));
SET ROLE watch_a;
SELECT count(*) FROM fleetlog.watch('wr');
RESET ROLE;
ALTER TABLE ws ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ws FOR SELECT USING (tenant = substr(current_user, 7));
ALTER TABLE ws2 ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON ws2 FOR SELECT USING (tenant = substr(current_user, 7));
SET ROLE watch_a;
SELECT event, key FROM fleetlog.watch('wr');
SELECT position AS p FROM fleetlog.watch('wr') WHERE event = 'end-snapshot' \gset
RESET ROLE;
SELECT count(fleetlog.append('ws', 'wr/' || t || n % 7, (t || n)::bytea, '[["fl.retain", "1", true]]', tenant => t)) FROM generate_series(1, 3000) n, LATERAL (SELECT CASE WHEN n % 3 = 0 THEN 'a' ELSE 'b' END AS t) x;
SET ROLE watch_a;
SELECT count(*), count(*) FILTER (WHERE fleetlog.text(payload) !~ '^a' OR key !~ '^wr/a') AS others FROM fleetlog.watch('wr', :'p', max_changes => 100000);
SELECT count(*), count(*) FILTER (WHERE key !~ '^wr/a') AS others FROM fleetlog.watch('wr') WHERE event = 'row';
SELECT event, key FROM fleetlog.watch('wr', prefix => 'wr/b');
SELECT event, key FROM fleetlog.watch('wr', keys => '{wr/b1,wr/a1}');
SET ROLE watch_b;
SELECT count(*), count(*) FILTER (WHERE fleetlog.text(payload) !~ '^b') AS others FROM fleetlog.watch('wr', :'p', max_changes => 100000);
SET row_security = off;
SELECT count(*) FROM fleetlog.watch('wr');
RESET row_security;
RESET ROLE;
DROP FUNCTION follow(jsonb, int, text);
SELECT fleetlog.unmount('wr/'), fleetlog.unmount('wr/more/'), fleetlog.unmount('wl/'), fleetlog.unmount('wr2/');
SELECT fleetlog.drop_stream('ws'), fleetlog.drop_stream('ws2');
SELECT event FROM fleetlog.watch('wr', :'p');
DROP TABLE wr, wl, alone;
SELECT count(*) FROM fleetlog.watch(1::oid::regclass);
DROP ROLE watch_a, watch_b;
