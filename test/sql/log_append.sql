-- L3, L4, Q1: appending from SQL: positions, dense offsets over aborts, savepoints and exception blocks, cursors,
-- INSERT ... SELECT from the stream itself, producers' duplicates.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('la');
-- A position says where the record is.
SELECT * FROM fleetlog.append('la', 'k', 'first');
SELECT (p).stream, (p).shard, (p).log_offset FROM fleetlog.append('la', NULL, NULL) p;
SELECT shard, log_offset, ts IS NOT NULL AS ts, created, tenant, device, key, key_bytes, fleetlog.text(payload) AS payload FROM la ORDER BY log_offset;
SELECT fleetlog.head('la', 0), fleetlog.tail('la', 0);

-- An aborted append leaves no hole.
BEGIN;
SELECT (fleetlog.append('la', 'k', 'aborted')).log_offset;
SELECT count(*) FROM la;
ROLLBACK;
SELECT (fleetlog.append('la', 'k', 'second')).log_offset;

-- Savepoints, nested; own writes are seen, rolled back ones are not.
BEGIN;
SELECT (fleetlog.append('la', 'k', 'a')).log_offset;
SAVEPOINT one;
SELECT (fleetlog.append('la', 'k', 'gone')).log_offset;
SAVEPOINT two;
SELECT (fleetlog.append('la', 'k', 'gone too')).log_offset;
ROLLBACK TO two;
SELECT (fleetlog.append('la', 'k', 'gone as well')).log_offset;
ROLLBACK TO one;
SELECT (fleetlog.append('la', 'k', 'b')).log_offset;
SAVEPOINT three;
SELECT (fleetlog.append('la', 'k', 'c')).log_offset;
RELEASE three;
SELECT log_offset, fleetlog.text(payload) FROM la WHERE log_offset >= 3 ORDER BY log_offset;
COMMIT;
SELECT log_offset, fleetlog.text(payload) FROM la ORDER BY log_offset;

-- Exception blocks of PL/pgSQL, in a loop.
DO $$
BEGIN
    FOR i IN 1 .. 20 LOOP
        BEGIN
            PERFORM fleetlog.append('la', 'loop', convert_to('i' || i, 'UTF8'));
            IF i % 3 = 0 THEN RAISE EXCEPTION 'no'; END IF;
        EXCEPTION WHEN raise_exception THEN
            PERFORM fleetlog.append('la', 'handler', convert_to('h' || i, 'UTF8'));
        END;
    END LOOP;
END $$;
SELECT count(*), min(log_offset), max(log_offset), count(*) FILTER (WHERE key = 'handler') AS handled FROM la WHERE log_offset >= 6;
SELECT string_agg(fleetlog.text(payload), ' ' ORDER BY log_offset) FROM la WHERE log_offset >= 6;

-- A cursor sees what was there when it was opened, not what its own transaction appends later.
BEGIN;
DECLARE c CURSOR FOR SELECT log_offset FROM la WHERE log_offset >= 24 ORDER BY log_offset;
DECLARE scan NO SCROLL CURSOR FOR SELECT log_offset FROM la;
FETCH 1 FROM c;
FETCH 2 FROM scan;
SELECT count(fleetlog.append('la', 'later', 'x')) FROM generate_series(1, 5);
FETCH ALL FROM c;
MOVE FORWARD ALL IN scan;
SELECT count(*) FROM la;
COMMIT;

-- INSERT ... SELECT from the stream itself ends, and copies only what was there.
INSERT INTO la (shard, log_offset, ts, key, payload)
    SELECT shard, log_offset + fleetlog.tail('la', 0), now(), 'copy', payload FROM la ORDER BY log_offset;
SELECT count(*), max(log_offset), count(*) FILTER (WHERE key = 'copy') AS copies FROM la;
-- The same by append() over its own source.
SELECT count(fleetlog.append('la', 'again', payload)) FROM la;
SELECT count(*), max(log_offset), count(*) FILTER (WHERE key = 'again') AS copies FROM la;

-- Rows as columns of L2: headers, key that is no text, created, tombstone and empty payload.
SELECT (fleetlog.append('la', 'k', '', '[["n","1"],["n",null]]', created => '2026-02-03 04:05:06.789+00')).log_offset;
SELECT created AT TIME ZONE 'UTC' AS created, payload IS NULL AS tombstone, length(payload), headers -> 'n' AS n FROM la ORDER BY log_offset DESC LIMIT 1;
SELECT name, convert_from(value, 'UTF8') AS value, reserved FROM la, fleetlog.headers_array(headers) WHERE key = 'k' AND log_offset = 124 AND name = 'n' ORDER BY ordinal;
-- A role with INSERT appends in its own name only; the right is INSERT on the stream.
CREATE ROLE la_writer;
SET ROLE la_writer;
\set VERBOSITY sqlstate
SELECT fleetlog.append('la', 'role', 'x');
\set VERBOSITY default
RESET ROLE;
GRANT INSERT ON la TO la_writer;
SET ROLE la_writer;
SELECT (fleetlog.append('la', 'role', 'x')).log_offset;
\set VERBOSITY sqlstate
SELECT fleetlog.append('la', 'role', 'x', device => 'd', tenant => 't');
\set VERBOSITY default
RESET ROLE;
SELECT tenant, device, headers ->> 'fl.role' AS role FROM la WHERE key = 'role';
-- A member of fleetlog_ingest imports: it may say who sent a record.
GRANT fleetlog_ingest TO la_writer;
SET ROLE la_writer;
SELECT (fleetlog.append('la', 'import', 'x', device => 'd', tenant => 't')).log_offset;
RESET ROLE;
SELECT tenant, device, headers ->> 'fl.role' AS role FROM la WHERE key = 'import';
REVOKE ALL ON la FROM la_writer;
DROP ROLE la_writer;

-- Large and many.
SELECT count(fleetlog.append('la', 'many', convert_to(repeat('x', n), 'UTF8'))) FROM generate_series(1, 2000) n;
SELECT (fleetlog.append('la', 'large', decode(repeat('0123456789abcdef', 30000), 'hex'))).log_offset > 0;
SELECT count(*) = max(log_offset) + 1 AS dense, count(*) FILTER (WHERE length(payload) = 240000) AS large,
    sum(length(payload)) FILTER (WHERE key = 'many') AS many FROM la;

-- Idempotent producers (L9): the same sequence again gives the first offset and writes nothing.
SELECT fleetlog.create_stream('lp');
SELECT (fleetlog.append('lp', 'k', 'one', producer_id => 7, producer_epoch => 0, sequence => 0)).log_offset;
SELECT (fleetlog.append('lp', 'k', 'two', producer_id => 7, producer_epoch => 0, sequence => 1)).log_offset;
SELECT (fleetlog.append('lp', 'k', 'one', producer_id => 7, producer_epoch => 0, sequence => 0)).log_offset;
SELECT (fleetlog.append('lp', 'k', 'two', producer_id => 7, producer_epoch => 0, sequence => 1)).log_offset;
\set VERBOSITY sqlstate
SELECT fleetlog.append('lp', 'k', 'hole', producer_id => 7, producer_epoch => 0, sequence => 5);
SELECT (fleetlog.append('lp', 'k', 'new epoch', producer_id => 7, producer_epoch => 1, sequence => 0)).log_offset;
SELECT fleetlog.append('lp', 'k', 'old epoch', producer_id => 7, producer_epoch => 0, sequence => 2);
\set VERBOSITY default
SELECT log_offset, fleetlog.text(payload) FROM lp ORDER BY 1;
-- One that was rolled back was never first.
BEGIN;
SELECT (fleetlog.append('lp', 'k', 'rolled back', producer_id => 7, producer_epoch => 1, sequence => 1)).log_offset;
ROLLBACK;
SELECT (fleetlog.append('lp', 'k', 'stays', producer_id => 7, producer_epoch => 1, sequence => 1)).log_offset;
SELECT log_offset, fleetlog.text(payload) FROM lp ORDER BY 1;

-- publish(): written at commit, in order, none when rolled back, the savepoint's part gone.
SELECT fleetlog.mount('la/', 'la');
BEGIN;
SELECT fleetlog.publish('la/t', 'p1');
SAVEPOINT s;
SELECT fleetlog.publish('la/t', 'p2 gone');
ROLLBACK TO s;
SELECT fleetlog.publish('la/t', 'p3');
SELECT count(*) AS before_commit FROM la WHERE key = 'la/t';
COMMIT;
SELECT fleetlog.text(payload) FROM la WHERE key = 'la/t' ORDER BY log_offset;
BEGIN;
SELECT fleetlog.publish('la/t', 'p4 gone');
ROLLBACK;
SELECT count(*) FROM la WHERE key = 'la/t';
\set VERBOSITY sqlstate
SELECT fleetlog.publish('nowhere/t', 'x');
SELECT fleetlog.publish('la/+', 'x');
BEGIN;
SELECT fleetlog.append('la', 'k', 'x');
PREPARE TRANSACTION 'two';
\set VERBOSITY default
SELECT count(*) = max(log_offset) + 1 AS dense FROM la;
SELECT fleetlog.unmount('la/');
SELECT fleetlog.drop_stream('la'), fleetlog.drop_stream('lp');
