-- Edges of the access method: batches of just so many records or pages, rows that bring their own time, streams that are
-- dropped by the transaction that wrote to them, messages taken back in a transaction that is prepared, far times.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('le', compression => 'none', segment_bytes => 1 << 30);

-- Batches of 1, 290, 291, 292, 583 and 1000 records with one time each: 291 are numbered on a page.
COPY le (shard, log_offset, ts, key, payload) FROM PROGRAM 'seq 0 0 | sed "s/.*/0\t&\t2020-01-01 00:00:01+00\tk\t\\\\\\\\x/"';
COPY le (shard, log_offset, ts, key, payload) FROM PROGRAM 'seq 1 290 | sed "s/.*/0\t&\t2020-01-01 00:00:02+00\tk\t\\\\\\\\x/"';
COPY le (shard, log_offset, ts, key, payload) FROM PROGRAM 'seq 291 581 | sed "s/.*/0\t&\t2020-01-01 00:00:03+00\tk\t\\\\\\\\x/"';
COPY le (shard, log_offset, ts, key, payload) FROM PROGRAM 'seq 582 873 | sed "s/.*/0\t&\t2020-01-01 00:00:04+00\tk\t\\\\\\\\x/"';
COPY le (shard, log_offset, ts, key, payload) FROM PROGRAM 'seq 874 1456 | sed "s/.*/0\t&\t2020-01-01 00:00:05+00\t\\\\N\t\\\\N/"';
COPY le (shard, log_offset, ts, key, payload) FROM PROGRAM 'seq 1457 2456 | sed "s/.*/0\t&\t2020-01-01 00:00:06+00\tk\t\\\\\\\\x00/"';
SELECT ts, count(*), count(DISTINCT ctid), min(log_offset), max(log_offset), min(length(payload)), count(key) FROM le GROUP BY ts ORDER BY ts;
-- Every row is found by its ctid, and is then the same row.
SELECT count(*) FROM le a JOIN LATERAL (SELECT * FROM le b WHERE b.tableoid = a.tableoid AND b.ctid = a.ctid) b ON a.log_offset = b.log_offset AND a.payload IS NOT DISTINCT FROM b.payload;
-- Backwards it is the same.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT log_offset FROM le;
MOVE FORWARD ALL IN c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD 2161 IN c;
FETCH BACKWARD 3 FROM c;
FETCH FORWARD 3 FROM c;
MOVE BACKWARD ALL IN c;
FETCH FORWARD 1 FROM c;
COMMIT;
-- Also inside of a compressed batch, columns asked for one after the other.
SELECT fleetlog.create_stream('lb');
COPY lb (shard, log_offset, ts, key, payload) FROM PROGRAM 'seq 0 999 | sed "s/.*/0\t&\t2020-01-01 00:00:06+00\tkey &\tpayload &/"';
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT log_offset, convert_from(payload, 'UTF8'), key FROM lb WHERE key LIKE 'key %' AND device IS NULL;
MOVE FORWARD ALL IN c;
FETCH BACKWARD 2 FROM c;
MOVE BACKWARD 500 IN c;
FETCH BACKWARD 2 FROM c;
FETCH FORWARD 2 FROM c;
MOVE BACKWARD ALL IN c;
FETCH FORWARD 1 FROM c;
COMMIT;
SELECT fleetlog.drop_stream('lb');

-- Single records that end near a page's end, on 1, 31, 32, 33 and 34 pages.
CREATE TABLE le_sizes AS SELECT row_number() OVER (ORDER BY pages, below) AS n, pages * 8136 - 120 - below AS len
  FROM unnest(ARRAY[1, 2, 31, 32, 33, 34]) pages, unnest(ARRAY[-13, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) below;
SELECT count((fleetlog.append('le', 'size', convert_to(repeat(chr(97 + (n % 26)::int), len), 'UTF8'))).log_offset) FROM le_sizes;
SELECT count(*), sum(length(payload)) = (SELECT sum(len) FROM le_sizes) AS whole FROM le WHERE key = 'size';
SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY log_offset) AS n, payload FROM le WHERE key = 'size') r JOIN le_sizes USING (n)
  WHERE payload <> convert_to(repeat(chr(97 + (n % 26)::int), len), 'UTF8') OR length(payload) <> len;
SELECT count(*) FROM fleetlog.read('le', 0, 2457) r JOIN le USING (shard, log_offset) WHERE r.payload = le.payload;
SELECT count(*) FROM le TABLESAMPLE SYSTEM (100);
SELECT count(*) FROM le TABLESAMPLE BERNOULLI (100);
DROP TABLE le_sizes;

-- Rows of one COPY whose time goes back, before anything of it is written.
SELECT fleetlog.create_stream('lt');
COPY lt (shard, log_offset, ts, key) FROM STDIN;
0	0	2020-01-01 00:00:10+00	a
0	1	2020-01-01 00:00:05+00	b
\.
COPY lt (shard, log_offset, ts, key) FROM STDIN;
0	0	2020-01-01 00:00:10+00	a
0	1	2020-01-01 00:00:10+00	b
0	2	2020-01-01 00:00:11+00	c
0	3	2020-01-01 00:00:10+00	d
\.
SELECT count(*) FROM lt;
-- The append clock never steps back, so only an import may state a time in the future.
CREATE ROLE le_writer;
GRANT INSERT, SELECT ON lt TO le_writer;
SET ROLE le_writer;
INSERT INTO lt (shard, log_offset, ts, key) VALUES (0, 0, '2250-01-01', 'future');
INSERT INTO lt (shard, log_offset, ts, key) VALUES (0, 0, now(), 'now');
RESET ROLE;
REVOKE ALL ON lt FROM le_writer;
DROP ROLE le_writer;

-- The last moment of timestamptz as the record's own time.
SELECT (fleetlog.append('lt', 'far', NULL, created => '294276-12-31 23:59:59.999999+00')).log_offset;
SELECT (fleetlog.append('lt', 'early', NULL, created => '1970-01-01 00:00:00.0009+00')).log_offset;
INSERT INTO lt (shard, log_offset, ts, key, created) VALUES (0, 3, clock_timestamp(), 'far', '294276-12-31 23:59:59.999999+00');
SELECT key, created FROM lt WHERE log_offset >= 1 ORDER BY log_offset;

-- The transaction that wrote to a stream drops it, with and without something rolled back before.
BEGIN;
SELECT (fleetlog.append('lt', 'k', 'x')).log_offset;
SELECT fleetlog.drop_stream('lt');
COMMIT;
SELECT fleetlog.create_stream('lt');
BEGIN;
SELECT (fleetlog.append('lt', 'k', 'x')).log_offset;
SAVEPOINT s;
SELECT (fleetlog.append('lt', 'k', 'y')).log_offset;
ROLLBACK TO s;
SELECT fleetlog.drop_stream('lt');
COMMIT;
SELECT fleetlog.create_stream('lt');
SELECT (fleetlog.append('lt', 'k', 'x')).log_offset;
BEGIN;
SELECT (fleetlog.append('lt', 'k', 'y')).log_offset;
SAVEPOINT s;
SELECT fleetlog.drop_stream('lt');
ROLLBACK TO s;
SELECT (fleetlog.append('lt', 'k', 'z')).log_offset;
COMMIT;
SELECT log_offset, fleetlog.text(payload) FROM lt ORDER BY 1;

-- A cursor of the outer level takes the shard inside a savepoint that is rolled back.
BEGIN;
DECLARE c CURSOR FOR SELECT (fleetlog.append('lt', 'cursor', convert_to(n::text, 'UTF8'))).log_offset FROM generate_series(1, 10) n;
SAVEPOINT s;
FETCH 2 FROM c;
ROLLBACK TO s;
SELECT (fleetlog.append('lt', 'k', 'outer')).log_offset;
FETCH 2 FROM c;
COMMIT;
SELECT log_offset, key, fleetlog.text(payload) FROM lt WHERE log_offset >= 3 ORDER BY 1;
-- The same, held over the commit.
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT (fleetlog.append('lt', 'held', convert_to(n::text, 'UTF8'))).log_offset FROM generate_series(1, 3) n;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
SELECT log_offset, key, fleetlog.text(payload) FROM lt WHERE key = 'held' ORDER BY 1;

-- A command sees what commands before it wrote, not its own; a trigger on another table writes to the stream.
CREATE TABLE le_source (n int, doc text);
ALTER TABLE le_source ALTER doc SET STORAGE EXTERNAL;
CREATE FUNCTION le_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fleetlog.append('lt', 'audit', convert_to(NEW.doc, 'UTF8'));
    RETURN NEW;
END $$;
CREATE TRIGGER le_audit AFTER INSERT ON le_source FOR EACH ROW EXECUTE FUNCTION le_audit();
INSERT INTO le_source SELECT n, repeat(n::text, 3000) FROM generate_series(1, 3) n;
SELECT count(*), sum(length(payload)) FROM lt WHERE key = 'audit';
-- Values out of another table's TOAST stay when that table is gone.
INSERT INTO lt (shard, log_offset, ts, key, payload) SELECT 0, (SELECT fleetlog.tail('lt', 0)) + n - 1, clock_timestamp(), 'toast', doc::bytea FROM le_source ORDER BY n;
DROP TABLE le_source;
DROP FUNCTION le_audit();
SELECT key, length(payload), md5(payload) = md5(repeat((log_offset - (SELECT min(log_offset) FROM lt WHERE key = 'toast') + 1)::text, 3000)) AS same FROM lt WHERE key = 'toast' ORDER BY log_offset;

SELECT fleetlog.drop_stream('le'), fleetlog.drop_stream('lt');
