-- Topic filters and the partitioner.

-- The examples of MQTT 5.0, 4.7.
SELECT topic, filter, fleetlog.topic_matches(topic, filter), topic OPERATOR(fleetlog.~>) filter AS operator
FROM (VALUES ('sport/tennis/player1', 'sport/tennis/player1/#'), ('sport/tennis/player1/ranking', 'sport/tennis/player1/#'),
	('sport/tennis/player1/score/wimbledon', 'sport/tennis/player1/#'), ('sport', 'sport/#'), ('sports', 'sport/#'), ('sport/tennis/player1', 'sport/tennis/+'),
	('sport/tennis/player1/ranking', 'sport/tennis/+'), ('sport', 'sport/+'), ('sport/', 'sport/+'), ('/finance', '+/+'), ('/finance', '/+'), ('/finance', '+'),
	('$SYS/monitor/Clients', '#'), ('$SYS/monitor/Clients', '+/monitor/Clients'), ('$SYS/monitor/Clients', '$SYS/#'), ('$SYS/monitor/Clients', '$SYS/monitor/+'),
	('Accounts', 'ACCOUNTS'), ('a/b', 'a/b'), ('größe/1', 'größe/+')) v (topic, filter);

-- A text that is no topic matches nothing; a filter that is none is an error; NULL is NULL.
SELECT fleetlog.topic_matches('', '#') AS empty, fleetlog.topic_matches('a/+', 'a/#') AS wildcard, fleetlog.topic_matches('a/#', 'a/#') AS same,
	fleetlog.topic_matches(repeat('a', 65536), '#') AS long, fleetlog.topic_matches(repeat('a', 65535), '#') AS longest,
	fleetlog.topic_matches(NULL, '#') IS NULL AS no_topic, fleetlog.topic_matches('a', NULL) IS NULL AS no_filter;
SELECT fleetlog.topic_matches('a', '');
SELECT fleetlog.topic_matches('a', 'a#');
SELECT fleetlog.topic_matches('a', '#/a');
SELECT fleetlog.topic_matches('a', 'a/b+');

-- The planner sees an equality where there is no wildcard, and only there; the answer is the same either way.
CREATE TEMP TABLE fl_topics (topic text);
INSERT INTO fl_topics SELECT 'plant/' || i % 10 || '/' || i FROM generate_series(1, 1000) i;
INSERT INTO fl_topics VALUES (''), ('+'), ('#'), ('$SYS'), (NULL);
EXPLAIN (COSTS off) SELECT * FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) 'plant/1/11';
EXPLAIN (COSTS off) SELECT * FROM fl_topics WHERE fleetlog.topic_matches(topic, 'plant/1/11');
EXPLAIN (COSTS off) SELECT * FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) 'plant/1/#';
EXPLAIN (COSTS off) SELECT * FROM fl_topics WHERE 'plant/1/11' OPERATOR(fleetlog.~>) topic;
EXPLAIN (COSTS off) SELECT * FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) NULL;
SELECT count(*) FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) 'plant/1/11';
SELECT count(*) FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) ('plant/1/11' || left(topic, 0));
SELECT count(*) FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) 'plant/1/#';
SELECT count(*) FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) 'plant/+/11';
SELECT count(*) FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) '#';
SELECT count(*) FROM fl_topics WHERE topic OPERATOR(fleetlog.~>) '';
-- Case is never folded, whatever the collation.
CREATE COLLATION pg_temp.fl_caseless (PROVIDER = icu, LOCALE = 'und-u-ks-level2', DETERMINISTIC = false);
SELECT count(*) FROM fl_topics WHERE topic COLLATE pg_temp.fl_caseless = 'PLANT/1/11';
SELECT count(*) FROM fl_topics WHERE topic COLLATE pg_temp.fl_caseless OPERATOR(fleetlog.~>) 'PLANT/1/11';

-- The partitioner: the vectors of Kafka's own test, positive, modulo.
SELECT key, fleetlog._partition(convert_to(key, 'UTF8'), 1000) AS shard, ((hash & 2147483647) % 1000)::int AS expected
FROM (VALUES ('21', -973932308::bigint), ('foobar', -790332482), ('a-little-bit-long-string', -985981536), ('a-little-bit-longer-string', -1486304829),
	('lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58897971), ('abc', 479470107)) v (key, hash);
SELECT fleetlog._partition('', 1), fleetlog._partition('\x00ff', 1), fleetlog._partition(NULL, 1) IS NULL AS no_key;
SELECT fleetlog._partition('a', 0);
SELECT fleetlog._partition('a', -1);
SELECT min(s), max(s), count(DISTINCT s) FROM (SELECT fleetlog._partition(convert_to(i::text, 'UTF8'), 7) s FROM generate_series(1, 1000) i) t;
