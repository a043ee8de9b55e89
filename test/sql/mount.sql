-- Mounts: prefixes, key templates, which mount takes a topic.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
SELECT fleetlog.create_stream('fl_m1', shards => 8);
SELECT fleetlog.create_stream('fl_m2');

SELECT fleetlog.mount('plant/', 'fl_m1');
SELECT fleetlog.mount('plant/line-1/', 'fl_m2', class => 'event', record_key => '{device}:{level 3}', shard_key => '{tenant}/{device}', dedupe => 'off', max_payload_bytes => 1000);
SELECT prefix, stream, class, record_key, shard_key, dedupe, max_payload_bytes FROM fleetlog.mount ORDER BY prefix;

-- The longest prefix wins; a prefix is whole levels; the keys are made from topic and sender.
SELECT topic, r.prefix, r.stream, r.record_key, r.shard_key, r.shard
FROM unnest(ARRAY['plant/d1/temp', 'plant/line-1/d1/temp', 'plant/line-1', 'plant/line-10/x', 'plant', 'plant/', 'plant/line-1/', 'plantx/d', 'other/d1',
	'plant//x', '/plant/x', '$SYS/plant/', 'plant/+', '']) WITH ORDINALITY t(topic, n), fleetlog._route(topic, 'acme', 'd1') r ORDER BY n;
SELECT record_key, shard_key FROM fleetlog._route('plant/line-1/d1');
SELECT (fleetlog._route(NULL)).prefix;

-- The empty prefix takes the rest, but nothing that begins with "$" and no command.
SELECT fleetlog.mount('', 'fl_m2');
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.mount('acme/', 'fl_m1');
SELECT topic, coalesce(quote_literal(r.prefix), 'none') AS prefix FROM unnest(ARRAY['other/d1', 'x', '$SYS/x', '$x', 'cmd', 'cmd/d1/req/x', 'cmdx/y', 'acme/d1/x', 'acme/cmd', 'acme/cmd/d1/req/x', 'acme/cmdx/y',
	'acme/d1/cmd/x', 'other/cmd/x']) WITH ORDINALITY t(topic, n), fleetlog._route(topic) r ORDER BY n;

-- Prefixes that are not allowed.
SELECT fleetlog.mount('plant', 'fl_m1');
SELECT fleetlog.mount('pl+nt/', 'fl_m1');
SELECT fleetlog.mount('+/', 'fl_m1');
SELECT fleetlog.mount('#', 'fl_m1');
SELECT fleetlog.mount('$SYS/', 'fl_m1');
SELECT fleetlog.mount('$share/x/', 'fl_m1');
SELECT fleetlog.mount('cmd/', 'fl_m1');
SELECT fleetlog.mount('cmd/d1/', 'fl_m1');
SELECT fleetlog.mount('acme/cmd/', 'fl_m1');
SELECT fleetlog.mount(repeat('a/', 17), 'fl_m1');
SELECT fleetlog.mount(repeat('a', 255) || '/', 'fl_m1');
SELECT fleetlog.mount(NULL, 'fl_m1');
SELECT fleetlog.mount('plant/', 'fl_m2');
\set VERBOSITY terse
INSERT INTO fleetlog.mount_config (prefix, stream) VALUES ('no-slash', 'fl_m1');
\set VERBOSITY default

-- Templates that are not allowed, and braces that stand for themselves.
SELECT fleetlog.mount('t1/', 'fl_m1', record_key => '');
SELECT fleetlog.mount('t1/', 'fl_m1', record_key => '{devise}');
SELECT fleetlog.mount('t1/', 'fl_m1', record_key => '{level}');
SELECT fleetlog.mount('t1/', 'fl_m1', record_key => '{level 0}');
SELECT fleetlog.mount('t1/', 'fl_m1', record_key => '{level 999}');
SELECT fleetlog.mount('t1/', 'fl_m1', record_key => '{level x}');
SELECT fleetlog.mount('t1/', 'fl_m1', shard_key => 'a{topic');
SELECT fleetlog.mount('t1/', 'fl_m1', shard_key => 'a}');
SELECT fleetlog.mount('t1/', 'fl_m1', record_key => '{{{level 2}}}-{level 9}', shard_key => 'constant');
SELECT record_key, shard_key FROM fleetlog._route('t1/x/y');

-- Other arguments.
SELECT fleetlog.mount('t2/', 'fl_m1', state => 'fl_m2');
SELECT fleetlog.mount('t2/', 'fl_m1', state_lag => '1 s');
SELECT fleetlog.mount('t2/', 'fl_m1', class => 'vital');
SELECT fleetlog.mount('t2/', 'fl_m1', dedupe => 'drop');
SELECT fleetlog.mount('t2/', 'fl_m1', dedupe => 'maybe');
SELECT fleetlog.mount('t2/', 'fl_m1', max_payload_bytes => 0);
SELECT fleetlog.mount('t2/', 'pg_class');
SELECT fleetlog.mount('t2/', 'fl_m1', max_topic_levels => 0);
SELECT fleetlog.mount('t2/', NULL, state => 'fl_m1');

-- Without a stream: in memory only.
SELECT fleetlog.mount('t3/', NULL, max_topic_levels => 5);
SELECT fleetlog.mount('t3/', 'fl_m1');
SELECT prefix, stream, max_topic_levels FROM fleetlog.mount WHERE prefix = 't3/';
SELECT fleetlog.publish('t3/x', 'y');
SELECT fleetlog.alter_mount('t3/', state => 'fl_m1');
SELECT fleetlog.unmount('t3/');

-- Changing and removing.
SELECT fleetlog.alter_mount('t1/', stream => 'fl_m2', record_key => '{topic}', class => 'safety', max_payload_bytes => 5);
SELECT * FROM fleetlog.alter_mount('t1/', class => '', max_payload_bytes => 0);
SELECT prefix, stream, class, record_key, shard_key, dedupe, max_payload_bytes FROM fleetlog.mount WHERE prefix = 't1/';
SELECT fleetlog.alter_mount('nowhere/', class => 'event');
SELECT fleetlog.alter_mount('t1/', record_key => '{x}');
SELECT fleetlog.unmount('t1/');
SELECT fleetlog.unmount('t1/');

-- A mounted stream is not dropped by the function; DROP TABLE says what it unmounts.
SELECT fleetlog.drop_stream('fl_m1');
SET client_min_messages = notice;
BEGIN;
DROP TABLE fl_m2;
SELECT prefix FROM fleetlog.mount ORDER BY prefix;
SELECT prefix FROM fleetlog._route('plant/line-1/d1/temp');
ROLLBACK;
SET client_min_messages = warning;
SELECT prefix FROM fleetlog._route('plant/line-1/d1/temp');

-- Only the owner of a stream lets devices write into it.
CREATE ROLE regress_fl_admin IN ROLE fleetlog_admin;
SET ROLE regress_fl_admin;
SELECT fleetlog.mount('t3/', 'fl_m1');
SELECT fleetlog.unmount('plant/');
SELECT fleetlog.alter_mount('plant/', class => 'event');
RESET ROLE;
DROP ROLE regress_fl_admin;

-- Kafka's default partitioner decides the shard: murmur2 of the key, made positive, modulo shards.
SELECT fleetlog.mount('p/', 'fl_m1', shard_key => '{level 2}');
SELECT k, (fleetlog._route('p/' || k)).shard FROM unnest(ARRAY['21', 'foobar', 'a-little-bit-long-string', 'abc']) k;

SELECT fleetlog.unmount(prefix) FROM fleetlog.mount;
SELECT fleetlog.drop_tenant('acme');
SELECT fleetlog.drop_stream('fl_m1');
SELECT fleetlog.drop_stream('fl_m2');
DELETE FROM fleetlog.audit;
