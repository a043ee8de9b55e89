-- verify and rebuild_state: state tables are what the history implies, and a planted fault is found and mended (Q4, R4).
SET client_min_messages = warning;
SELECT fleetlog.create_stream('sv', shards => 3);
SELECT fleetlog.create_state('sv_now'), fleetlog.create_state('sv_last');
SELECT fleetlog.mount('sv/', 'sv', state => 'sv_now'),
	fleetlog.mount('sv/last/', 'sv', state => 'sv_last', keep => 'last', state_lag => '0');
SELECT count(fleetlog.publish('sv/' || i % 20, convert_to(i::text, 'UTF8'), retain => i % 3 = 0)) FROM generate_series(1, 200) i;
SELECT count(fleetlog.publish('sv/last/' || i % 7, convert_to(i::text, 'UTF8'), '{"a": "b"}'::jsonb::fleetlog.headers)) FROM generate_series(1, 50) i;
SELECT fleetlog.publish('sv/3', '', retain => true);
SELECT (fleetlog.append('sv', 'sv/4', NULL, shard => 1)).shard;
SELECT check_name, bool_and(ok) AS ok, count(*), sum(split_part(detail, ' ', 1)::int) FILTER (WHERE detail LIKE '%records in%') AS records
	FROM fleetlog.verify('sv') GROUP BY 1 ORDER BY 1;
SELECT check_name, ok, detail FROM fleetlog.verify('sv') WHERE shard IS NULL ORDER BY 1;

-- Faults, planted by a superuser: another value, a row of an older record, a row too many, one too few.
UPDATE sv_now SET payload = 'lie' WHERE key = 'sv/6';
UPDATE sv_now SET log_offset = log_offset - 1 WHERE key = 'sv/9';
INSERT INTO sv_now SELECT stream, 'sv/made-up', shard, log_offset, ts, tenant, device, headers, payload FROM sv_now WHERE key = 'sv/12';
INSERT INTO sv_now SELECT stream, 'sv/3', shard, log_offset, ts, tenant, device, headers, payload FROM sv_now WHERE key = 'sv/12';
DELETE FROM sv_now WHERE key = 'sv/15';
UPDATE sv_last SET headers = NULL WHERE key = 'sv/last/2';
SELECT check_name, ok, regexp_replace(detail, 'differ: .*', 'differ') AS detail FROM fleetlog.verify('sv') WHERE shard IS NULL ORDER BY 1;
SELECT 'faults named: ' || count(*) FROM fleetlog.verify('sv') v,
	unnest(ARRAY['"sv/6" has another value', '"sv/9" has a row of another record', '"sv/made-up" has a row, and no record', '"sv/3" has a row, and was cleared',
		'"sv/15" has no row', '"sv/last/2" has another value']) f(text) WHERE position(f.text IN v.detail) > 0;

-- Mended, and only what differs is written.
SET client_min_messages = notice;
SELECT fleetlog.rebuild_state('sv_now');
SELECT fleetlog.rebuild_state('sv_last');
SELECT fleetlog.rebuild_state('sv_last');
SET client_min_messages = warning;
SELECT check_name, ok, detail FROM fleetlog.verify('sv') WHERE shard IS NULL ORDER BY 1;
SELECT convert_from(payload, 'UTF8') FROM sv_now WHERE key = 'sv/6';

-- From nothing.
TRUNCATE sv_now;
SELECT fleetlog.rebuild_state('sv_now');
SELECT check_name, ok, detail FROM fleetlog.verify('sv') WHERE shard IS NULL ORDER BY 1;
-- A value that was in force before its mount kept values comes by a rebuild, too.
SELECT fleetlog.create_state('sv_other');
SELECT fleetlog.alter_mount('sv/', state => 'sv_other');
SELECT ok, detail FROM fleetlog.verify('sv') WHERE check_name = 'state sv_other' AND NOT ok AND detail LIKE '%differ%' LIMIT 0;
SELECT fleetlog.rebuild_state('sv_other');
SELECT (SELECT count(*) FROM sv_other) = (SELECT count(*) FROM sv_now) AS same,
	NOT EXISTS (SELECT * FROM sv_other EXCEPT SELECT * FROM sv_now) AS equal;

-- Rows older than the history that is left are kept and said so.
SELECT fleetlog.trim_head('sv', s, fleetlog.tail('sv', s), NULL) > 0 FROM generate_series(0, 2) s;
SELECT check_name, ok, detail FROM fleetlog.verify('sv') WHERE shard IS NULL ORDER BY 1;
SELECT fleetlog.rebuild_state('sv_other');
SELECT count(*) FROM sv_other;

SELECT * FROM fleetlog.verify('sv_now');
SELECT fleetlog.rebuild_state('sv');
SELECT fleetlog.unmount('sv/'), fleetlog.unmount('sv/last/');
SELECT fleetlog.drop_stream('sv');
SELECT count(*) FROM sv_now;
DROP TABLE sv_now, sv_last, sv_other;
