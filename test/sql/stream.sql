-- Streams: creating, changing and dropping them, and what their owner may do.
SET client_min_messages = warning;

SELECT fleetlog.create_stream('fl_a', shards => 2);
SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'fl_a'::regclass AND attnum > 0 ORDER BY attnum;
SELECT c.relname, c.relkind, a.amname, pg_get_expr(c.relpartbound, c.oid) AS bound, pg_get_partkeydef(c.oid) AS key
FROM pg_partition_tree('fl_a') t JOIN pg_class c ON c.oid = t.relid LEFT JOIN pg_am a ON a.oid = c.relam ORDER BY t.level, c.relname;
SELECT stream, schema, name, shards, durability, compression, timestamp_type, segment_bytes, segment_age, retention_age, retention_bytes, max_record_bytes
FROM fleetlog.stream WHERE stream = 'fl_a'::regclass;
SELECT stream, shard, first_offset, created_up_to, segments, head, tail_at_least FROM fleetlog.stream_shard WHERE stream = 'fl_a'::regclass ORDER BY shard;

-- All options; a name is placed as CREATE TABLE would place it.
CREATE SCHEMA fl_schema;
SELECT fleetlog.create_stream('fl_schema."Odd name"', 1, 'local', 'zstd', 'create', 1024 * 1024, '1 day', '30 days', 1000000000, 65536);
SELECT schema, name, compression, timestamp_type, segment_bytes, segment_age, retention_age, retention_bytes, max_record_bytes FROM fleetlog.stream WHERE schema = 'fl_schema';
SELECT created_up_to FROM fleetlog.stream_shard WHERE stream = 'fl_schema."Odd name"'::regclass;
SET search_path = fl_schema, public;
SELECT fleetlog.create_stream('placed', compression => 'none');
RESET search_path;
SELECT schema, name FROM fleetlog.stream WHERE name = 'placed';

-- A name so long that shards and segments must cut it, and a name that is taken.
SELECT fleetlog.create_stream('fl_schema.' || repeat('x', 63));
SELECT fleetlog.create_stream('fl_schema.' || repeat('x', 63));
CREATE TABLE fl_b_0 ();
SELECT fleetlog.create_stream('fl_b');
SELECT relid FROM pg_partition_tree('fl_b') ORDER BY level;

-- What is refused.
\set SHOW_CONTEXT never
SELECT fleetlog.create_stream(NULL);
SELECT fleetlog.create_stream('fl_c', shards => 0);
SELECT fleetlog.create_stream('fl_c', shards => 257);
SELECT fleetlog.create_stream('fl_c', shards => -1);
SELECT fleetlog.create_stream('fl_c', durability => 'often');
SELECT fleetlog.create_stream('fl_c', durability => 'quorum');
SELECT fleetlog.create_stream('fl_c', compression => 'gzip');
SELECT fleetlog.create_stream('fl_c', timestamp_type => 'now');
SELECT fleetlog.create_stream('fl_c', cleanup_policy => 'delete,compact');
SELECT fleetlog.create_stream('fl_c', segment_bytes => 0);
SELECT fleetlog.create_stream('fl_c', retention_age => '-1 day');
SELECT fleetlog.create_stream('fl_c', max_record_bytes => 0);
SELECT fleetlog.create_stream('pg_temp.fl_c');
SELECT fleetlog.create_stream('no_such_schema.fl_c');
SELECT fleetlog.create_stream('fl_a');
SELECT fleetlog.create_stream('a.b.c.d');
SELECT count(*) FROM fleetlog.stream WHERE name = 'fl_c';

-- alter_stream: NULL leaves alone, 0 removes.
SELECT fleetlog.alter_stream('fl_a', compression => 'zstd', retention_age => '7 days', retention_bytes => 5000, segment_bytes => 4096, max_record_bytes => 100);
SELECT shards, durability, compression, segment_bytes, retention_age, retention_bytes, max_record_bytes FROM fleetlog.stream WHERE name = 'fl_a';
SELECT fleetlog.alter_stream('fl_a', retention_age => '0', retention_bytes => 0, segment_bytes => 0, max_record_bytes => 0);
SELECT shards, durability, compression, segment_bytes, retention_age, retention_bytes, max_record_bytes FROM fleetlog.stream WHERE name = 'fl_a';
SELECT fleetlog.alter_stream('fl_a', timestamp_type => 'create', cleanup_policy => 'compact');
SELECT fleetlog.alter_stream('fl_a');
SELECT timestamp_type, cleanup_policy FROM fleetlog.stream WHERE name = 'fl_a';
SELECT fleetlog.alter_stream('fl_a', timestamp_type => 'append', cleanup_policy => 'delete');
SELECT fleetlog.alter_stream('fl_a', shards => 4);
SELECT generation, shards, cardinality(tails) FROM fleetlog.shard_map_config WHERE stream = 'fl_a'::regclass ORDER BY generation;
SELECT relid FROM pg_partition_tree('fl_a') ORDER BY level, relid::text;
SELECT fleetlog.alter_stream('fl_a', shards => 3);
SELECT fleetlog.alter_stream('fl_a', shards => 4);
SELECT fleetlog.alter_stream('fl_a', durability => 'quorum');
SELECT fleetlog.alter_stream('pg_class', shards => 3);
SELECT fleetlog.alter_stream(NULL, shards => 3);

-- Segments: named after their first offset, found again instead of made twice.
SELECT fleetlog._create_segment('fl_a', 0, 1048576, 2097152);
SELECT fleetlog._create_segment('fl_a', 0, 1048576, 2097152);
SELECT fleetlog._create_segment('fl_a', 0, 2000000, 3000000);
SELECT fleetlog._create_segment('fl_a', 9, 0, 10);
SELECT fleetlog._create_segment('fl_a', 0, 10, 10);
SELECT * FROM fleetlog._segments('fl_a') ORDER BY shard, lower;

-- Rights: EXECUTE is for administrators, the schema's CREATE is for the caller, the tables are his.
CREATE ROLE regress_fl_admin IN ROLE fleetlog_admin;
CREATE ROLE regress_fl_user;
GRANT USAGE ON SCHEMA fl_schema TO regress_fl_admin, regress_fl_user;
SET ROLE regress_fl_user;
SELECT fleetlog.create_stream('fl_schema.mine');
SELECT fleetlog.drop_stream('fl_a');
SELECT name FROM fleetlog.stream WHERE name = 'fl_a';
SELECT * FROM fleetlog.stream_config;
RESET ROLE;
SET ROLE regress_fl_admin;
SELECT fleetlog.create_stream('fl_schema.mine');
RESET ROLE;
GRANT CREATE ON SCHEMA fl_schema TO regress_fl_admin;
SET ROLE regress_fl_admin;
SELECT fleetlog.create_stream('fl_schema.mine', shards => 1);
SELECT fleetlog.alter_stream('fl_a', shards => 5);
SELECT fleetlog.drop_stream('fl_a');
RESET ROLE;
SELECT c.relname, pg_get_userbyid(c.relowner) FROM pg_partition_tree('fl_schema.mine') t JOIN pg_class c ON c.oid = t.relid ORDER BY t.level;
-- A segment follows the owner, the grants and the tablespace of its shard, also when the owner may not create any more.
GRANT SELECT ON fl_schema.mine, fl_schema.mine_0 TO regress_fl_user;
GRANT INSERT ON fl_schema.mine_0 TO regress_fl_user WITH GRANT OPTION;
REVOKE CREATE ON SCHEMA fl_schema FROM regress_fl_admin;
SELECT fleetlog._create_segment('fl_schema.mine', 0, 1048576, 2097152);
-- Server 17 has one more right on tables (m), which an owner has like all others.
SELECT relname, pg_get_userbyid(relowner) AS owner, replace(relacl::text, 'Dxtm/', 'Dxt/') AS relacl FROM pg_class WHERE relname IN ('mine_0', 'mine_0_0', 'mine_0_1048576') ORDER BY relname;
-- The owner of the stream is the owner of all its parts.
ALTER TABLE fl_schema.mine OWNER TO regress_fl_user;
SELECT c.relname, pg_get_userbyid(c.relowner) FROM pg_partition_tree('fl_schema.mine') t JOIN pg_class c ON c.oid = t.relid ORDER BY t.level, c.relname;

-- Renaming and moving.
ALTER TABLE fl_b RENAME TO fl_renamed;
ALTER TABLE fl_renamed SET SCHEMA fl_schema;
SELECT schema, name FROM fleetlog.stream WHERE name LIKE 'fl_renamed';
COMMENT ON TABLE fl_schema.fl_renamed IS 'a comment';

-- Dropping: by function, by DROP TABLE, with its schema; the configuration goes along, a savepoint brings it back.
BEGIN;
SAVEPOINT s;
DROP TABLE fl_a;
SELECT count(*) FROM fleetlog.stream WHERE name = 'fl_a';
ROLLBACK TO s;
SELECT count(*) FROM fleetlog.stream WHERE name = 'fl_a';
SELECT count(*) FROM fleetlog._segments('fl_a');
COMMIT;
SELECT fleetlog.drop_stream('fl_a');
SELECT to_regclass('fl_a'), to_regclass('fl_a_0_0');
SELECT fleetlog.drop_stream('pg_class');
DROP TABLE fl_b_0;
DROP SCHEMA fl_schema CASCADE;
SELECT count(*) FROM fleetlog.stream WHERE name LIKE 'fl\_%' OR schema = 'fl_schema';
SELECT count(*) FROM fleetlog.stream_config c WHERE NOT EXISTS (SELECT FROM pg_class r WHERE r.oid = c.stream);
DROP ROLE regress_fl_user;
DROP ROLE regress_fl_admin;
