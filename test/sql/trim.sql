-- L7, L8, R: the head of a shard: trimmed on a condition, stopped by holds, hidden in every reader at once.
SET client_min_messages = warning;
SELECT fleetlog.create_stream('tr', shards => 2, segment_bytes => 65536);
SELECT count(fleetlog.append('tr', 'k' || n, convert_to('p' || n, 'UTF8'), shard => n % 2)) FROM generate_series(1, 5000) n;

-- Only where the tail is as expected; NULL is whatever it is.  The new tail is told.
SELECT fleetlog.trim_head('tr', 0, 100, 2500);
SELECT fleetlog.trim_head('tr', 0, 200, 2499);
SELECT fleetlog.trim_head('tr', 0, 150, NULL);
-- A head never goes back, and never beyond the tail.
SELECT fleetlog.trim_head('tr', 0, 10, NULL);
SELECT fleetlog.trim_head('tr', 0, 2501, NULL);
\set VERBOSITY sqlstate
SELECT fleetlog.trim_head('tr', 0, 200, 2499);
SELECT fleetlog.trim_head('tr', 2, 200, NULL);
SELECT fleetlog.trim_head('tr', 0, -1, NULL);
SELECT fleetlog.trim_head('tr', 0, NULL, NULL);
SELECT fleetlog.trim_head('pg_class', 0, 1, NULL);
\set VERBOSITY default

-- Every reader begins at the head: in order, backwards, by offset, by ctid, sampled, counted, copied out.
SELECT fleetlog.head('tr', 0), fleetlog.tail('tr', 0), fleetlog.head('tr', 1);
SELECT shard, count(*), min(log_offset), max(log_offset), min(key) FROM tr GROUP BY shard ORDER BY shard;
SELECT count(*) FROM tr WHERE shard = 0 AND log_offset < 150;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT log_offset FROM tr WHERE shard = 0 AND log_offset < 153;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
COMMIT;
SELECT count(*) FROM tr_0_0;
SELECT count(*) FROM tr_0_0 WHERE ctid IN (SELECT format('(1,%s)', n)::tid FROM generate_series(1, 60) n);
SELECT count(*) FROM tr TABLESAMPLE SYSTEM (100) WHERE shard = 0;
CREATE TEMP TABLE copied AS SELECT * FROM tr WHERE shard = 0;
SELECT min(log_offset), count(*) FROM copied;
SELECT fleetlog.offset_for_time('tr', 0, '1970-01-01');
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT count(*), min(log_offset) FROM tr WHERE shard = 0;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
ANALYZE tr_0_0;
SELECT reltuples FROM pg_class WHERE relname = 'tr_0_0';
-- Reading below the head is an error of its own, with the oldest offset; never a short read.
SELECT count(*), min(log_offset) FROM fleetlog.read('tr', 0, 150, 10);
SELECT * FROM fleetlog.read('tr', 0, 149, 10);

-- A trim is part of its transaction.
BEGIN;
SELECT fleetlog.trim_head('tr', 1, 1000, 2500);
ROLLBACK;
SELECT fleetlog.head('tr', 1);
BEGIN;
SAVEPOINT a;
SELECT fleetlog.trim_head('tr', 1, 1000, 2500);
ROLLBACK TO a;
SELECT fleetlog.trim_head('tr', 1, 20, 2500);
COMMIT;
SELECT fleetlog.head('tr', 1), (SELECT min(log_offset) FROM tr WHERE shard = 1);
-- In a transaction that appended, the tail is as this transaction sees it; what it wrote itself cannot be trimmed.
BEGIN;
SELECT (fleetlog.append('tr', 'k', 'x', shard => 1)).log_offset;
SELECT fleetlog.trim_head('tr', 1, 30, 2501);
SAVEPOINT a;
SELECT fleetlog.trim_head('tr', 1, 2501, 2501);
ROLLBACK;

-- Holds: ranges that stop a trim, and are named.
SELECT fleetlog.hold('tr', '{"0": [[300, 310], [200, 201]], "1": [[2400, null]]}', 'the incident of May') AS hold \gset
SELECT stream, ranges, reason FROM fleetlog.stream_hold WHERE id = :hold;
SELECT shard, lower_offset, upper_offset FROM fleetlog.hold_range_config WHERE hold = :hold ORDER BY 1, 2;
SELECT fleetlog.trim_head('tr', 0, 200, NULL);
\set VERBOSITY sqlstate
SELECT fleetlog.trim_head('tr', 0, 201, NULL);
SELECT fleetlog.trim_head('tr', 0, 2500, NULL);
SELECT fleetlog.trim_head('tr', 1, 2500, NULL);
SELECT fleetlog.drop_stream('tr');
DROP TABLE tr;
-- What is gone cannot be held; what makes no sense is refused.
SELECT fleetlog.hold('tr', '{"0": [[100, 300]]}', 'x');
\set VERBOSITY terse
SELECT fleetlog.hold('tr', '{"7": [[100, 300]]}', 'x');
SELECT fleetlog.hold('tr', '{"0": [[300, 300]]}', 'x');
SELECT fleetlog.hold('tr', '{"0": [300, 400]}', 'x');
SELECT fleetlog.hold('tr', '{"0": [[300]]}', 'x');
SELECT fleetlog.hold('tr', '{"0": [[300, 1.5]]}', 'x');
SELECT fleetlog.hold('tr', '{"0": [[300, 400, 500]]}', 'x');
SELECT fleetlog.hold('tr', '{"0": [[[300, 400]]]}', 'x');
SELECT fleetlog.hold('tr', '{"0": [{"a": 1}]}', 'x');
SELECT fleetlog.hold('tr', '{"0": 5}', 'x');
SELECT fleetlog.hold('tr', '[[300, 400]]', 'x');
SELECT fleetlog.hold('tr', '{}', 'x');
SELECT fleetlog.release_hold(-5);
\set VERBOSITY default
-- Two holds of one range: both have to end.
SELECT fleetlog.hold('tr', '{"0": [[200, 205]]}', 'another') AS other \gset
SELECT fleetlog.release_hold(:hold);
\set VERBOSITY sqlstate
SELECT fleetlog.trim_head('tr', 0, 500, NULL);
\set VERBOSITY default
SELECT fleetlog.release_hold(:other);
SELECT fleetlog.trim_head('tr', 0, 500, NULL);

-- Everything: the next offset follows the last ever given.
SELECT fleetlog.trim_head('tr', 0, 2500, 2500), fleetlog.trim_head('tr', 1, 2500, 2500);
SELECT count(*) FROM tr;
SELECT fleetlog.head('tr', 0), fleetlog.tail('tr', 0), fleetlog.offset_for_time('tr', 0, '1970-01-01');
SELECT (fleetlog.append('tr', 'k', 'after', shard => 0)).log_offset;
SELECT log_offset, fleetlog.text(payload) FROM tr;

-- A held stream is not dropped, whatever the command.
CREATE SCHEMA trim_held;
SELECT fleetlog.create_stream('trim_held.t') IS NULL AS failed;
SELECT fleetlog.hold('trim_held.t', '{"0": [[0, null]]}', 'x') AS hold \gset
CREATE ROLE trim_owner;
ALTER TABLE trim_held.t OWNER TO trim_owner;
\set VERBOSITY sqlstate
DROP TABLE trim_held.t;
DROP SCHEMA trim_held CASCADE;
DROP OWNED BY trim_owner;
SELECT fleetlog.drop_stream('trim_held.t');
\set VERBOSITY default
SELECT fleetlog.release_hold(:hold);
DROP OWNED BY trim_owner;
DROP ROLE trim_owner;
DROP SCHEMA trim_held CASCADE;

-- Rights: the owner trims and holds.
CREATE ROLE trim_reader; GRANT SELECT, INSERT ON tr TO trim_reader; GRANT fleetlog_admin TO trim_reader;
SET ROLE trim_reader;
\set VERBOSITY sqlstate
SELECT fleetlog.trim_head('tr', 0, 2501, NULL);
SELECT fleetlog.hold('tr', '{"0": [[2500, 2501]]}', 'x');
RESET ROLE;
REVOKE fleetlog_admin FROM trim_reader;
SET ROLE trim_reader;
SELECT fleetlog.trim_head('tr', 0, 2501, NULL);
UPDATE fleetlog.shard_config SET head = 9;
SELECT * FROM fleetlog.hold_config;
RESET ROLE;
\set VERBOSITY default
DROP TABLE tr;
SELECT count(*) FROM fleetlog.shard_config WHERE stream::oid NOT IN (SELECT stream FROM fleetlog.stream_config);
DROP ROLE trim_reader;

-- Widths: a power of two that fills a sixteenth of the retention, whatever the rate; above the ceilings they double.
SELECT rate, fleetlog._segment_width('7 days', NULL, 1, rate, 100, 5, 5) AS offsets FROM unnest(ARRAY[0, 1 / 60.0, 1, 100, 50000, 1e9]) rate;
SELECT shards, fleetlog._segment_width('7 days', NULL, shards, 100, 100, 4, 4 * shards) AS offsets FROM unnest(ARRAY[1, 16, 64, 256]) shards;
SELECT n, fleetlog._segment_width(NULL, NULL, 1, 1, 100, n, n) AS offsets FROM unnest(ARRAY[0, 31, 32, 33, 40, 60]) n;
SELECT fleetlog._segment_width(NULL, 1000000000, 1, 50000, 100, 5, 5) AS by_size, fleetlog._segment_width(NULL, NULL, 1, 50000, 100, 5, 5, 1000000) AS by_target,
    fleetlog._segment_width(NULL, NULL, 1, 50, 100, 5, 5, NULL, '1 hour') AS by_age;

-- A year of each of these rates under retention: how many segments a shard has at most, and how much longer than asked a
-- record stays at most.  A segment is begun when the one before is half full; one that fills too slowly is cut.
CREATE FUNCTION pg_temp.simulate(phases float8[], retention interval, shards int, OUT most int, OUT most_of_stream int, OUT longest interval) LANGUAGE plpgsql AS $$
DECLARE
	keep float8 := extract(epoch FROM retention);
	span float8 := greatest(60, keep / greatest(1, least(16, 1000 / shards - 3)));
	uppers float8[] := ARRAY[16384];	-- offsets at which segments end, oldest first
	lowers float8[] := ARRAY[0];
	starts float8[] := ARRAY[NULL];	-- when the first record came
	ends float8[] := ARRAY[NULL];	-- when the last one came
	n float8 := 0;	-- tail
	t float8 := 0;
	rate float8;
	step float8;
	k int;
	phase int;
	late float8 := 0;
BEGIN
	most := 0;
	FOR phase IN 1 .. array_length(phases, 1) LOOP
		rate := phases[phase];
		FOR i IN 1 .. 600 LOOP
			step := keep / 200;
			-- Fill segments for this long.
			LOOP
				k := array_length(uppers, 1);
				IF n >= uppers[k - 1] OR k = 1 THEN NULL; ELSE k := k - 1; END IF;	-- the one with the tail
				starts[k] := coalesce(starts[k], t);
				-- Half full: the next one is made.
				IF k = array_length(uppers, 1) AND (n + rate * step - lowers[k]) * 2 >= uppers[k] - lowers[k] THEN
					lowers := lowers || uppers[k];
					uppers := uppers || (uppers[k] + fleetlog._segment_width(retention, NULL, shards,
						greatest((uppers[k] - lowers[k]) / 2, n - lowers[k]) /
							(t - starts[k] + greatest((uppers[k] - lowers[k]) / 2 - (n - lowers[k]), 0.5) / rate), 100,
						array_length(uppers, 1), array_length(uppers, 1) * shards));
					starts := starts || NULL::float8; ends := ends || NULL::float8;
				END IF;
				EXIT WHEN n + rate * step < uppers[k];
				step := step - (uppers[k] - n) / rate;
				t := t + (uppers[k] - n) / rate;
				n := uppers[k];
				ends[k] := t;
			END LOOP;
			n := n + rate * step; t := t + step; ends[k] := t;
			-- Cut what would take too long.
			IF t - starts[k] > 2 * span AND uppers[k] - n > (n - lowers[k]) * span / (t - starts[k]) AND n - lowers[k] > 1024
				AND k = array_length(uppers, 1) THEN
				uppers[k] := n;
				lowers := lowers || n;
				uppers := uppers || (n + fleetlog._segment_width(retention, NULL, shards, (n - lowers[k]) / (t - starts[k]), 100, k, k * shards));
				starts := starts || NULL::float8; ends := ends || NULL::float8;
			END IF;
			most := greatest(most, array_length(uppers, 1));
			-- What has expired as a whole goes.
			WHILE array_length(uppers, 1) > 2 AND uppers[1] <= n AND ends[1] < t - keep LOOP
				late := greatest(late, t - starts[1] - keep);
				uppers := uppers[2:]; lowers := lowers[2:]; starts := starts[2:]; ends := ends[2:];
			END LOOP;
		END LOOP;
	END LOOP;
	most_of_stream := most * shards;
	longest := late / keep * retention;
END $$;
SELECT name, s.most <= 32 AS "below 32", s.most_of_stream <= 1000 + shards AS "near 1000", s.longest < retention / 2 AS "in time" FROM (VALUES
	('one a minute', ARRAY[1 / 60.0], interval '7 days', 1), ('50,000 a second', ARRAY[50000], interval '7 days', 1),
	('50,000 a second, an hour', ARRAY[50000], interval '1 hour', 1), ('64 shards', ARRAY[1000], interval '30 days', 64),
	('256 shards', ARRAY[1000], interval '30 days', 256), ('up', ARRAY[1, 10, 100, 1000, 50000], interval '7 days', 1),
	('a leap', ARRAY[1 / 60.0, 50000], interval '7 days', 1)) v(name, phases, retention, shards), pg_temp.simulate(phases, retention, shards) s;
-- A restore may bring the row of a shard after somebody has looked at it: its head and tail count from then on.
SELECT fleetlog.create_stream('tr_late');
DELETE FROM fleetlog.shard_config WHERE stream = 'tr_late'::regclass;
SELECT fleetlog.head('tr_late', 0), fleetlog.tail('tr_late', 0);
INSERT INTO fleetlog.shard_config (stream, shard, head, tail) VALUES ('tr_late', 0, 10, 15);
SELECT fleetlog.head('tr_late', 0), fleetlog.tail('tr_late', 0);
SELECT (fleetlog.append('tr_late', 'k', 'x')).log_offset;
SELECT fleetlog.drop_stream('tr_late');
