-- L4: importing history with explicit next offsets by INSERT and COPY works; an out-of-order offset is refused, also in
-- the middle of a COPY; so is a row for a shard that the leaf is not for.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('li', shards => 2);
INSERT INTO li (shard, log_offset, ts, key, payload) VALUES (0, 0, '2020-01-01', 'a', 'one'), (1, 0, '2020-01-01', 'b', 'two'), (0, 1, '2020-01-02', 'a', 'three');
SELECT shard, log_offset, key, fleetlog.text(payload) FROM li ORDER BY 1, 2;
COPY li (shard, log_offset, ts, created, key, headers, payload) FROM STDIN;
0	2	2020-01-03	2020-01-01 00:00:00	a	[["h","v"],["h",null]]	\\x00ff
0	3	2020-01-03	\N	\N	\N	\N
1	1	2020-01-03	\N	b	\N	\\x
\.
SELECT shard, log_offset, created IS NOT NULL AS created, key, headers, payload FROM li WHERE log_offset > 0 ORDER BY 1, 2;
SELECT fleetlog.tail('li', 0), fleetlog.tail('li', 1);
\set VERBOSITY sqlstate
-- A hole, a repetition, a step back, a negative offset, no such shard, missing columns.
INSERT INTO li (shard, log_offset, ts, key, payload) VALUES (0, 5, '2020-01-04', 'a', 'x');
INSERT INTO li (shard, log_offset, ts, key, payload) VALUES (0, 3, '2020-01-04', 'a', 'x');
INSERT INTO li (shard, log_offset, ts, key, payload) VALUES (0, 0, '2020-01-04', 'a', 'x');
INSERT INTO li (shard, log_offset, ts, key, payload) VALUES (0, -1, '2020-01-04', 'a', 'x');
INSERT INTO li (shard, log_offset, ts, key, payload) VALUES (7, 0, '2020-01-04', 'a', 'x');
INSERT INTO li (shard, ts, key, payload) VALUES (0, '2020-01-04', 'a', 'x');
COPY li (shard, log_offset, ts, key, payload) FROM STDIN;
0	4	2020-01-05	a	\\x01
0	6	2020-01-05	a	\\x02
\.
\set VERBOSITY default
SELECT fleetlog.tail('li', 0), count(*) FROM li;
-- Time in a shard never decreases, whatever an import says.
INSERT INTO li (shard, log_offset, ts, key, payload) VALUES (0, 4, '2019-01-01', 'old', 'x');
SELECT count(*) FROM (SELECT ts < lag(ts) OVER (ORDER BY log_offset) AS back FROM li WHERE shard = 0) x WHERE back;
-- append() goes on behind an import.
SELECT shard, log_offset FROM fleetlog.append('li', 'a', 'after');
-- Into a leaf directly.
SELECT relid::regclass AS leaf FROM pg_partition_tree('li') WHERE isleaf ORDER BY relid::regclass::text LIMIT 1 \gset
SELECT fleetlog.tail('li', 0) AS next \gset
INSERT INTO :leaf (shard, log_offset, ts, key, payload) VALUES (0, :next, now(), 'leaf', 'x');
SELECT fleetlog.tail('li', 0) = :next + 1 AS counted;
SELECT bool_and(log_offset = expected) AS dense FROM (SELECT log_offset, row_number() OVER (PARTITION BY shard ORDER BY log_offset) - 1 AS expected FROM li) x;
-- Restoring into a table that is no stream yet, as pg_dump does: the leaf learns its shard and base from its first row.
CREATE TABLE li_alone (LIKE li) USING fleetlog_log;
INSERT INTO li_alone SELECT * FROM li WHERE shard = 1 ORDER BY log_offset;
SELECT count(*), min(log_offset), max(log_offset) FROM li_alone;
-- ... and holds to it.
INSERT INTO li_alone SELECT * FROM li WHERE shard = 0 ORDER BY log_offset;
DROP TABLE li_alone;
-- An import from the future moves the time of its own shard only.
SELECT fleetlog.create_stream('li_future');
INSERT INTO li_future (shard, log_offset, ts, key, payload) VALUES (0, 0, now() + interval '10 years', 'a', 'x');
SELECT (fleetlog.append('li_future', 'a', 'follows')).log_offset;
SELECT count(*) = 2 AS follows FROM li_future WHERE ts > now() + interval '9 years';
SELECT (fleetlog.append('li', 'a', 'now', shard => 1)).shard;
SELECT max(ts) < now() + interval '1 day' AS unmoved FROM li WHERE shard = 1;
SELECT fleetlog.drop_stream('li_future');
SELECT fleetlog.drop_stream('li');
