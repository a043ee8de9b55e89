-- S2: take(): a consumer's records and its position in the caller's transaction.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('tk', shards => 2);
SELECT count(fleetlog.append('tk', 'k' || n, convert_to('v' || n, 'UTF8'), shard => n % 2)) FROM generate_series(0, 9) n;
CREATE VIEW positions AS SELECT consumer, shard, log_offset, epoch IS NOT NULL AS has_epoch, owner FROM fleetlog.consumer_position WHERE stream = 'tk'::regclass ORDER BY consumer, shard;
SELECT shard, log_offset, key FROM fleetlog.take('a', 'tk', 4) ORDER BY 1, 2;
SELECT * FROM positions;
-- Rolled back: nothing taken, by a transaction or by a savepoint, or by an error in what the caller does with it.
BEGIN;
SELECT count(*) FROM fleetlog.take('a', 'tk');
SELECT count(*) FROM fleetlog.take('a', 'tk');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT count(*) FROM fleetlog.take('a', 'tk');
ROLLBACK TO s;
SELECT shard, log_offset FROM fleetlog.take('a', 'tk', 2) ORDER BY 1, 2;
COMMIT;
CREATE TABLE done (shard int, log_offset bigint, CHECK (log_offset < 4));
INSERT INTO done SELECT shard, log_offset FROM fleetlog.take('a', 'tk');
SELECT log_offset FROM positions WHERE consumer = 'a';
INSERT INTO done SELECT shard, log_offset FROM fleetlog.take('a', 'tk', 2);
SELECT * FROM done ORDER BY 1, 2;
SELECT shard, log_offset FROM fleetlog.take('a', 'tk') ORDER BY 1, 2;
SELECT count(*) FROM fleetlog.take('a', 'tk');
SELECT count(*) FROM fleetlog.take('a', 'tk', wait => '10 ms');
-- Consumers do not know each other, nor does one know itself on another stream.
SELECT count(*) FROM fleetlog.take('b', 'tk');
SELECT * FROM positions;
-- Setting a position, forgetting it.
SELECT fleetlog.seek_consumer('a', 'tk', '{"1": 3}');
SELECT * FROM positions WHERE consumer = 'a';
SELECT count(*) FROM fleetlog.take('a', 'tk');
SELECT fleetlog.forget_consumer('a', 'tk'), fleetlog.forget_consumer('a', 'tk');
SELECT count(*) FROM fleetlog.take('a', 'tk');
-- More shards: they are taken too.
SELECT fleetlog.alter_stream('tk', shards => 3);
SELECT (fleetlog.append('tk', 'new', 'x', shard => 2)).shard;
SELECT shard, log_offset FROM fleetlog.take('b', 'tk');
SELECT count(*) FROM positions WHERE consumer = 'b';
-- A position of another history is refused, not followed.
INSERT INTO fleetlog.epoch_config SELECT stream, shard, epoch + 1, 3, timeline FROM fleetlog.epoch_config WHERE stream = 'tk'::regclass AND shard = 0;
\set VERBOSITY sqlstate
SELECT count(*) FROM fleetlog.take('a', 'tk');
SELECT count(*) FROM fleetlog.take('', 'tk');
SELECT count(*) FROM fleetlog.take(repeat('x', 256), 'tk');
SELECT count(*) FROM fleetlog.take('a', 'tk', -1);
SELECT count(*) FROM fleetlog.take('a', 'pg_class');
\set VERBOSITY default
-- A consumer belongs to the role that used it first.
CREATE ROLE tk_one;
CREATE ROLE tk_two;
GRANT SELECT ON tk TO tk_one, tk_two;
SET ROLE tk_one;
SELECT count(*) FROM fleetlog.take('one', 'tk', 3);
SELECT consumer, shard, log_offset, owner FROM fleetlog.consumer_position;
SET ROLE tk_two;
SELECT count(*) FROM fleetlog.take('one', 'tk', 3);
SELECT fleetlog.seek_consumer('one', 'tk');
SELECT fleetlog.forget_consumer('one', 'tk');
SELECT consumer, shard, log_offset, owner FROM fleetlog.consumer_position;
UPDATE fleetlog.consumer_position SET log_offset = 0;
RESET ROLE;
REVOKE ALL ON tk FROM tk_one, tk_two;
SET ROLE tk_one;
SELECT count(*) FROM fleetlog.take('one', 'tk', 3);
RESET ROLE;
-- What a consumer would take next has been trimmed: the oldest offset is told, and it stays where it is until it is set.
SELECT count(*) FROM fleetlog.take('late', 'tk', 0);
SELECT fleetlog.trim_head('tk', 1, 2, NULL);
SELECT count(*) FROM fleetlog.take('late', 'tk');
SELECT shard, log_offset FROM positions WHERE consumer = 'late';
SELECT fleetlog.seek_consumer('late', 'tk');
SELECT shard, min(log_offset), count(*) FROM fleetlog.take('late', 'tk') GROUP BY shard ORDER BY shard;
-- Positions go with their stream.
DROP VIEW positions;
DROP TABLE done;
SELECT fleetlog.drop_stream('tk');
SELECT count(*) FROM fleetlog.consumer_position;
DROP ROLE tk_one, tk_two;
