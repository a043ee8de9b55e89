-- State tables: what is in force per topic, written with its record (R1, R2).
SET client_min_messages = warning;
SELECT fleetlog.create_stream('st', shards => 4);
SELECT fleetlog.create_state('st_now');
SELECT fleetlog.mount('st/', 'st', state => 'st_now');
SELECT prefix, stream, state, keep, state_lag FROM fleetlog.mount;

-- A retained value is there when the transaction is over, and its record with it.
SELECT fleetlog.publish('st/a/temp', '20.5', retain => true);
SELECT fleetlog.publish('st/a/hum', '41');
SELECT stream, key, tenant, device, convert_from(payload, 'UTF8') AS payload, headers ->> 'fl.retain' AS retain FROM st_now;
SELECT n.key, n.shard = s.shard AND n.log_offset = s.log_offset AND n.ts = s.ts AND n.headers = s.headers AS same
	FROM st_now n JOIN st s USING (key) WHERE s.headers ->> 'fl.retain' = '1';

-- Only the last value of a transaction makes a version; a savepoint that is rolled back takes its values along.
BEGIN;
SELECT fleetlog.publish('st/a/temp', '21', retain => true);
SELECT fleetlog.publish('st/a/temp', '22', retain => true);
SAVEPOINT one;
SELECT fleetlog.publish('st/a/temp', '23', retain => true);
SELECT fleetlog.publish('st/a/gone', 'x', retain => true);
ROLLBACK TO one;
COMMIT;
SELECT key, convert_from(payload, 'UTF8') AS payload FROM st_now ORDER BY key;
BEGIN;
SELECT fleetlog.publish('st/a/temp', '99', retain => true);
ROLLBACK;
SELECT key, convert_from(payload, 'UTF8') AS payload FROM st_now ORDER BY key;

-- An empty retained payload clears, as does a tombstone; setting it again works.
SELECT fleetlog.publish('st/a/temp', '', retain => true);
SELECT count(*) FROM st_now;
SELECT key, log_offset >= 0 AS has_position FROM fleetlog.state_cleared;
SELECT fleetlog.publish('st/a/temp', '24', retain => true);
SELECT key, convert_from(payload, 'UTF8') AS payload FROM st_now;
SELECT count(*) FROM fleetlog.state_cleared;
SELECT (fleetlog.append('st', 'st/a/temp', NULL)).stream;
SELECT count(*) FROM st_now;

-- What is no text topic, or another stream's, is no value.
SELECT fleetlog.create_stream('st_other');
SELECT (fleetlog.append('st_other', 'st/a/temp', NULL)).log_offset;
SELECT fleetlog.publish('st/a/temp', '25', retain => true);
SELECT (fleetlog.append('st_other', 'st/a/temp', NULL)).log_offset;
SELECT key, convert_from(payload, 'UTF8') AS payload FROM st_now;

-- keep => 'last' with state_lag 0: every record, in its transaction.
SELECT fleetlog.create_state('st_last');
SELECT fleetlog.mount('sl/', 'st', state => 'st_last', keep => 'last', state_lag => '0', record_key => 'k', shard_key => '{level 2}');
SELECT fleetlog.publish('sl/d1/t', '1');
SELECT fleetlog.publish('sl/d1/t', '2');
SELECT fleetlog.publish('sl/d1/t', '');
SELECT key, payload, headers ->> 'fl.topic' AS topic FROM st_last;
SELECT fleetlog.publish('sl/d1/t', '', retain => true);
SELECT count(*) FROM st_last;

-- A record on a shard that is not its key's: later is greater (ts, shard, offset), whichever shard it is on.
SELECT (fleetlog._route('st/f')).shard AS home \gset
SELECT fleetlog.publish('st/f', 'mine', retain => true);
SELECT (fleetlog.append('st', 'st/f', NULL, shard => (:home + 1) % 4)).stream;
SELECT count(*) FROM st_now WHERE key = 'st/f';
SELECT fleetlog.publish('st/f', 'again', retain => true);
SELECT convert_from(payload, 'UTF8') AS payload FROM st_now WHERE key = 'st/f';

-- Nobody but the log writes, not even the owner.
CREATE ROLE st_owner;
GRANT fleetlog_admin TO st_owner;
GRANT CREATE ON SCHEMA public TO st_owner;
SET SESSION AUTHORIZATION st_owner;
SELECT fleetlog.create_stream('so');
SELECT fleetlog.create_state('so_now');
SELECT fleetlog.mount('so/', 'so', state => 'so_now');
SELECT fleetlog.publish('so/x', '1', retain => true);
SELECT key FROM so_now;
UPDATE so_now SET payload = 'y';
DELETE FROM so_now;
INSERT INTO so_now SELECT * FROM so_now;
TRUNCATE so_now;
SELECT fleetlog.mount('so/not/', 'so', state => 'st_now');
RESET SESSION AUTHORIZATION;

-- Refusals.
SELECT fleetlog.publish('nowhere/x', '1', retain => true);
SELECT fleetlog.create_stream('plain');
SELECT fleetlog.mount('plain/', 'plain');
SELECT fleetlog.publish('plain/x', '1', retain => true);
SELECT fleetlog.mount('bad/', 'st', state => 'plain');
SELECT fleetlog.mount('bad/', 'st', state => 'st_now', keep => 'all');
SELECT fleetlog.mount('bad/', 'st', state => 'st_now', state_lag => '1 s');
SELECT fleetlog.mount('bad/', 'st', state => 'st_now', keep => 'last', state_lag => '-1 s');
SELECT fleetlog.mount('bad/', 'st', state => 'st_now', shard_key => '{device}');
SELECT fleetlog.mount('bad/', 'st', state => 'st_now', shard_key => '{tenant}/{level 2}');
SELECT fleetlog.publish('st/' || repeat('x', 2100), '1', retain => true);

-- Settings of a mount can be changed, and hang together.
SELECT fleetlog.alter_mount('plain/', keep => 'last');
SELECT fleetlog.alter_mount('plain/', state => 'st_now', keep => 'last', state_lag => '2 s');
SELECT prefix, state, keep, state_lag FROM fleetlog.mount WHERE prefix = 'plain/';
SELECT fleetlog.alter_mount('plain/', shard_key => '{device}');
SELECT fleetlog.alter_mount('plain/', keep => 'retained');
SELECT prefix, state, keep, state_lag FROM fleetlog.mount WHERE prefix = 'plain/';
SELECT fleetlog.alter_mount('plain/', keep => '');
SELECT prefix, state, keep, state_lag FROM fleetlog.mount WHERE prefix = 'plain/';

-- An owner's own column and index stay, and keep their values.
ALTER TABLE st_now ADD COLUMN note text DEFAULT 'n';
CREATE INDEX st_now_payload ON st_now (md5(payload));
SELECT fleetlog.publish('st/f', 'noted', retain => true);
SELECT convert_from(payload, 'UTF8') AS payload, note FROM st_now WHERE key = 'st/f';
SET enable_seqscan = off;
SELECT key FROM st_now WHERE md5(payload) = md5('noted'::bytea);
RESET enable_seqscan;

-- A dropped table or stream takes its bookkeeping along.
SET client_min_messages = notice;
DROP TABLE st_last;
SELECT count(*) FROM fleetlog.state_config WHERE state::text LIKE '%st_last%';
SELECT state, keep FROM fleetlog.mount WHERE prefix = 'sl/';
SET client_min_messages = warning;
SELECT fleetlog.unmount('sl/');
SELECT fleetlog.unmount('st/');
SELECT fleetlog.drop_stream('st');
DROP TABLE st_now;
SELECT fleetlog.unmount('so/');
SELECT fleetlog.drop_stream('so');
DROP TABLE so_now;
SELECT fleetlog.unmount('plain/');
SELECT fleetlog.drop_stream('plain');
SELECT fleetlog.drop_stream('st_other');
SELECT (SELECT count(*) FROM fleetlog.state_config) AS states, (SELECT count(*) FROM fleetlog.state_cleared) AS cleared;
REVOKE CREATE ON SCHEMA public FROM st_owner;
DROP ROLE st_owner;
