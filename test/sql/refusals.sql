-- What streams do not do is refused by name, also where no row matches.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
SELECT fleetlog.create_stream('fl_r');
CREATE TABLE fl_other (shard int, log_offset bigint, n int);

-- Changing rows: class LF, "append-only".
\set VERBOSITY sqlstate
UPDATE fl_r SET key = 'x';
UPDATE fl_r SET key = 'x' WHERE false;
UPDATE fl_r_0_0 SET key = 'x';
DELETE FROM fl_r;
DELETE FROM fl_r WHERE shard = 77;
DELETE FROM ONLY fl_r_0_0;
MERGE INTO fl_r r USING fl_other o ON r.log_offset = o.log_offset WHEN MATCHED THEN DELETE;
MERGE INTO fl_r r USING fl_other o ON r.log_offset = o.log_offset WHEN NOT MATCHED THEN INSERT (shard, log_offset, ts) VALUES (0, 0, now());
INSERT INTO fl_r (shard, log_offset, ts) VALUES (0, 0, now()) ON CONFLICT DO NOTHING;
WITH gone AS (DELETE FROM fl_r RETURNING *) SELECT count(*) FROM gone;
WITH changed AS (UPDATE fl_r SET key = NULL RETURNING 1) INSERT INTO fl_other SELECT FROM changed;
EXPLAIN DELETE FROM fl_r;
TRUNCATE fl_r;
TRUNCATE fl_r_0;
DO $$ BEGIN DELETE FROM fl_r; EXCEPTION WHEN SQLSTATE 'LF103' THEN RAISE WARNING 'caught'; END $$;
\set VERBOSITY default
DELETE FROM fl_r;
TRUNCATE fl_r;

-- Locking rows.
SELECT * FROM fl_r FOR UPDATE;
SELECT * FROM fl_r FOR KEY SHARE;
SELECT o.n FROM fl_other o, fl_r r FOR SHARE OF r;
SELECT o.n FROM fl_other o, fl_r r WHERE false FOR SHARE OF o;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM fl_r FOR UPDATE;
ROLLBACK;

-- Columns.
ALTER TABLE fl_r ADD COLUMN extra int;
ALTER TABLE fl_r DROP COLUMN key;
ALTER TABLE fl_r ALTER COLUMN payload TYPE text USING NULL;
ALTER TABLE fl_r ALTER COLUMN payload SET DEFAULT '';
ALTER TABLE fl_r ALTER COLUMN ts DROP NOT NULL;
ALTER TABLE fl_r RENAME COLUMN payload TO body;
ALTER TABLE fl_r_0_0 ADD COLUMN extra int;

-- Constraints, indexes, triggers, rules.
ALTER TABLE fl_r ADD CHECK (shard >= 0);
ALTER TABLE fl_r ADD PRIMARY KEY (shard, log_offset);
ALTER TABLE fl_r ADD UNIQUE (shard, log_offset) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE fl_r ADD FOREIGN KEY (key) REFERENCES fl_other;
ALTER TABLE fl_other ADD FOREIGN KEY (shard, log_offset) REFERENCES fl_r (shard, log_offset);
CREATE INDEX ON fl_r (device);
CREATE INDEX ON fl_r_0_0 (device);
CREATE FUNCTION fl_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON fl_r FOR EACH ROW EXECUTE FUNCTION fl_trigger();
CREATE TRIGGER t AFTER INSERT ON fl_r_0_0 FOR EACH STATEMENT EXECUTE FUNCTION fl_trigger();
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON fl_r DEFERRABLE FOR EACH ROW EXECUTE FUNCTION fl_trigger();
CREATE RULE r AS ON INSERT TO fl_r DO INSTEAD NOTHING;
CLUSTER fl_r_0_0;

-- Structure.
ALTER TABLE fl_r_0_0 SET UNLOGGED;
ALTER TABLE fl_r_0_0 SET ACCESS METHOD heap;
ALTER TABLE fl_r DETACH PARTITION fl_r_0;
ALTER TABLE fl_r_0 DETACH PARTITION fl_r_0_0;
ALTER TABLE fl_r_0 DETACH PARTITION fl_r_0_0 CONCURRENTLY;
DROP TABLE fl_r_0_0;
DROP TABLE fl_r_0;
CREATE TABLE fl_part PARTITION OF fl_r FOR VALUES IN (7);
CREATE TABLE fl_part PARTITION OF fl_r_0 DEFAULT;
CREATE TABLE fl_heap (LIKE fl_r);
ALTER TABLE fl_r_0 ATTACH PARTITION fl_heap FOR VALUES FROM (1048576) TO (2097152);
ALTER TABLE fl_r ATTACH PARTITION fl_heap DEFAULT;
CREATE TABLE fl_alone (LIKE fl_r) USING fleetlog_log;
CREATE TABLE fl_child () INHERITS (fl_alone);
ALTER TABLE fl_heap INHERIT fl_alone;
CREATE TEMP TABLE fl_temp (LIKE fl_r) USING fleetlog_log;
CREATE UNLOGGED TABLE fl_unlogged (LIKE fl_r) USING fleetlog_log;
SET default_table_access_method = fleetlog_log;
CREATE TEMP TABLE fl_temp (LIKE fl_r);
RESET default_table_access_method;

-- A table of the access method in no stream is append-only just the same; emptying an empty one changes nothing.
UPDATE fl_alone SET key = 'x';
TRUNCATE ONLY fl_alone;

-- What pg_dump writes, and what changes nothing of the records, passes.
COMMENT ON TABLE fl_r IS 'a stream';
GRANT SELECT ON fl_r TO PUBLIC;
ALTER TABLE fl_r OWNER TO CURRENT_USER;
ALTER TABLE fl_r ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON fl_r FOR SELECT USING (tenant = 'plant');
ALTER TABLE fl_r DISABLE ROW LEVEL SECURITY;
ALTER TABLE fl_r_0_0 DISABLE TRIGGER ALL;
ALTER TABLE fl_r_0_0 ENABLE TRIGGER ALL;
ALTER TABLE fl_r ALTER COLUMN device SET STATISTICS 200;
ALTER TABLE fl_r_0 RENAME TO fl_r_zero;
CREATE TABLE fl_seg (LIKE fl_r) USING fleetlog_log;
ALTER TABLE fl_r_zero ATTACH PARTITION fl_seg FOR VALUES FROM (1048576) TO (2097152);
SELECT segment, lower, upper FROM fleetlog._segments('fl_r') ORDER BY lower;
CREATE VIEW fl_view AS SELECT key FROM fl_r;
DELETE FROM fl_view;
DROP VIEW fl_view;

DROP TABLE fl_r, fl_heap, fl_other, fl_alone;
DROP FUNCTION fl_trigger();
