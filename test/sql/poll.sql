-- S1: poll(): records of all shards from positions on, the next positions, waiting, filter, epochs, heads, rights.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('po', shards => 2);
-- Nothing there: no row.
SELECT count(*) FROM fleetlog.poll('po');
SELECT count(fleetlog.append('po', 'plant/' || n || '/t', convert_to('v' || n, 'UTF8'), shard => n % 2)) FROM generate_series(0, 9) n;
SELECT shard, log_offset, key, fleetlog.text(payload) AS payload, next FROM fleetlog.poll('po') ORDER BY shard, log_offset;
-- Every column is what SELECT shows.
SELECT count(*) FROM (SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers::text, payload FROM fleetlog.poll('po')
    EXCEPT ALL SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers::text, payload FROM po) x;
-- From positions; a shard that is not named begins at its head; what is shared out is no more than max.
SELECT shard, log_offset, next FROM fleetlog.poll('po', '{"0": 4}') ORDER BY 1, 2;
SELECT shard, log_offset, next FROM fleetlog.poll('po', '{"0": 0, "1": 0}', 4) ORDER BY 1, 2;
SELECT count(*) FROM fleetlog.poll('po', '{"0": 5, "1": 5}');
SELECT count(*) FROM fleetlog.poll('po', '{"0": 500, "1": 500}');
SELECT count(*) FROM fleetlog.poll('po', NULL, 0);
-- One at a time, going on at next, returns everything once, and no shard is forgotten.
DO $$
DECLARE at jsonb := '{}'; r record; seen text[] := '{}'; before jsonb;
BEGIN
    FOR i IN 1 .. 20 LOOP
        before := at;
        FOR r IN SELECT * FROM fleetlog.poll('po', at, 1) LOOP seen := seen || (r.shard || '/' || r.log_offset); at := r.next; END LOOP;
        EXIT WHEN at = before;
    END LOOP;
    RAISE WARNING '% records, % of them different', cardinality(seen), (SELECT count(DISTINCT x) FROM unnest(seen) x);
END $$;

-- A filter selects by topic. Who skipped all gets one row with nothing but where to go on.
SELECT key, next FROM fleetlog.poll('po', '{}', filter => 'plant/+/t') ORDER BY shard, log_offset LIMIT 2;
SELECT key, next FROM fleetlog.poll('po', '{}', filter => 'plant/7/#');
SELECT * FROM fleetlog.poll('po', '{"0": 1}', filter => 'other/#');
SELECT count(*) FROM fleetlog.poll('po', '{"0": 5, "1": 5}', filter => 'other/#');

-- The form with epochs is given back by who gave it.
SELECT next FROM fleetlog.poll('po', '{"0": {"offset": 0}}') LIMIT 1;
SELECT e.epoch AS now FROM (SELECT max(epoch) AS epoch FROM fleetlog.epoch_config WHERE stream = 'po'::regclass) e \gset
SELECT shard, log_offset, next = format('{"0": {"offset": 5, "epoch": %s}, "1": {"offset": 5, "epoch": %s}}', :now, :now)::jsonb AS as_expected
    FROM fleetlog.poll('po', format('{"0": {"offset": 4, "epoch": %s}, "1": 4}', :now)::jsonb) ORDER BY 1, 2;
-- A later epoch began at 3 of shard 0: who stands behind 3 in the earlier one has read what is not here.
INSERT INTO fleetlog.epoch_config SELECT stream, shard, epoch + 1, 3, timeline FROM fleetlog.epoch_config WHERE stream = 'po'::regclass AND shard = 0;
SELECT count(*) FROM fleetlog.poll('po', format('{"0": {"offset": 3, "epoch": %s}, "1": 5}', :now)::jsonb);
SELECT count(*) FROM fleetlog.poll('po', format('{"0": {"offset": 4, "epoch": %s}, "1": 5}', :now)::jsonb);
SELECT count(*) FROM fleetlog.poll('po', format('{"0": {"offset": 4, "epoch": %s}, "1": 5}', :now + 1)::jsonb);
\set VERBOSITY sqlstate
SELECT count(*) FROM fleetlog.poll('po', format('{"0": {"offset": 4, "epoch": %s}, "1": 5}', :now + 7)::jsonb);

-- What is no position.
SELECT count(*) FROM fleetlog.poll('po', '[]');
SELECT count(*) FROM fleetlog.poll('po', '{"a": 1}');
SELECT count(*) FROM fleetlog.poll('po', '{"2": 1}');
SELECT count(*) FROM fleetlog.poll('po', '{"0": -1}');
SELECT count(*) FROM fleetlog.poll('po', '{"0": "1"}');
SELECT count(*) FROM fleetlog.poll('po', '{"0": {"epoch": 1}}');
SELECT count(*) FROM fleetlog.poll('po', '{"0": [1]}');
SELECT count(*) FROM fleetlog.poll('po', '{"0": 99999999999999999999}');
SELECT count(*) FROM fleetlog.poll('po', NULL, -1);
SELECT count(*) FROM fleetlog.poll('po', NULL, 1, '-1 s');
SELECT count(*) FROM fleetlog.poll('po', filter => 'a#');
SELECT count(*) FROM fleetlog.poll('pg_class');
\set VERBOSITY default

-- A wait ends by its time, by statement_timeout, and at once when there is something.
SELECT timeouts AS before FROM fleetlog.stat_wait \gset
SELECT count(*) FROM fleetlog.poll('po', '{"0": 5, "1": 5}', wait => '50 ms');
SELECT timeouts - :before AS timed_out, waiting FROM fleetlog.stat_wait;
SET statement_timeout = '50 ms';
SELECT count(*) FROM fleetlog.poll('po', '{"0": 5, "1": 5}', wait => '1 day');
RESET statement_timeout;
SELECT waiting FROM fleetlog.stat_wait;
SELECT count(*) FROM fleetlog.poll('po', '{"0": 4, "1": 5}', wait => '1 day');
SELECT timeouts - :before AS timed_out, waiting FROM fleetlog.stat_wait;

-- Rights, and row security: what a policy hides is passed over.
CREATE ROLE po_reader;
SET ROLE po_reader;
SELECT count(*) FROM fleetlog.poll('po');
RESET ROLE;
GRANT SELECT ON po TO po_reader;
ALTER TABLE po ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON po FOR SELECT TO po_reader USING (key IN ('plant/3/t', 'plant/4/t'));
SET ROLE po_reader;
SELECT shard, key, next FROM fleetlog.poll('po') ORDER BY 1, 2;
SELECT shard, key, next FROM fleetlog.poll('po', filter => 'plant/4/#') ORDER BY 1, 2;
SELECT * FROM fleetlog.poll('po', '{"0": 3, "1": 3}');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM fleetlog.poll('po');
COMMIT;
RESET ROLE;
ALTER TABLE po DISABLE ROW LEVEL SECURITY;
DROP POLICY own ON po;
REVOKE ALL ON po FROM po_reader;
DROP ROLE po_reader;

-- Segments without a match.
SELECT fleetlog.create_stream('po_long');
SELECT count(fleetlog.append('po_long', 'k', 'x')) FROM generate_series(1, 1000) n;
SELECT key, next FROM fleetlog.poll('po_long', filter => 'never/#', wait => '10 ms');
SELECT fleetlog.drop_stream('po_long'), fleetlog.drop_stream('po');

-- The topic of a record whose key is another is in its header.
SELECT fleetlog.create_stream('po_topic');
SELECT fleetlog.mount('po/', 'po_topic', record_key => '{level 2}');
BEGIN;
SELECT fleetlog.publish('po/a/t', '1'), fleetlog.publish('po/b/t', '2');
COMMIT;
SELECT key, fleetlog.text(payload) AS payload FROM fleetlog.poll('po_topic', '{}', filter => 'po/b/#');
SELECT key, next FROM fleetlog.poll('po_topic', '{}', filter => 'a');
SELECT fleetlog.unmount('po/'), fleetlog.drop_stream('po_topic');
