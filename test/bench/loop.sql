-- How many readings a second the runner decides, :n of them in one shard, of 1,000 devices: with a policy that decides about one in a hundred,
-- one that decides about each, and one that asks about each, whose requests are answered 500 at a time as they come.  And what links cost.
\set QUIET on
\pset tuples_only on
\pset format unaligned
SET client_min_messages = warning;
SET fleetlog.shard_hold_timeout = 0;
SELECT fleetlog.create_stream('loop_source') IS NULL \g /dev/null
SELECT count(fleetlog.append('loop_source', 'plant/valve-' || n % 1000, convert_to(format('{"pressure": %s.%s, "valve": "valve-%s", "seq": %s}', n * 7919 % 1000, n % 10, n % 1000, n), 'UTF8')))
	FROM generate_series(1, :n) n \g /dev/null
CREATE FUNCTION loop_seldom(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN (fleetlog.json(reading.payload) ->> 'pressure')::float8 >= 990 THEN '{"decisions": ["alarm"]}'::jsonb END $$;
CREATE FUNCTION loop_each(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN (fleetlog.json(reading.payload) ->> 'pressure')::float8 >= 990 THEN '{"decisions": ["alarm"]}'::jsonb ELSE '{"decisions": ["none"]}'::jsonb END $$;
CREATE FUNCTION loop_asks(reading fleetlog.log_record, response jsonb, state jsonb, at timestamptz) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN response IS NULL THEN '{"ask": {"p": 1}}'::jsonb ELSE '{"decisions": ["answered"]}'::jsonb END $$;
CREATE TABLE loop_rate (loop text, readings_per_second float8, decisions bigint);
-- Until all is decided; answers what is asked meanwhile.
CREATE PROCEDURE loop_measure(name text) LANGUAGE plpgsql AS $$
DECLARE
	begun timestamptz;
	answered bigint;
	todo bigint;
BEGIN
	PERFORM fleetlog.create_loop(name, 'loop_source', ('loop_' || name)::regproc, 'm', '1', positions => '{}');
	begun := clock_timestamp();
	COMMIT;
	LOOP
		WITH q AS MATERIALIZED (SELECT request, lease FROM fleetlog.next_request(name, 500)), a AS MATERIALIZED (SELECT fleetlog.answer(request, lease, '{"p": 0.5}') FROM q)
			SELECT count(*) INTO answered FROM a;
		COMMIT;
		CONTINUE WHEN answered > 0;
		SELECT sum(lag + waiting) + (SELECT count(*) FROM fleetlog.loop_request r WHERE r.loop = name) INTO todo FROM fleetlog.stat_loop l WHERE l.loop = name;
		EXIT WHEN todo = 0;
		COMMIT;
		PERFORM pg_sleep(0.002);
	END LOOP;
	INSERT INTO loop_rate SELECT name, (SELECT count(*) FROM loop_source) / extract(epoch FROM clock_timestamp() - begun), (SELECT sum(l.decisions) FROM fleetlog.stat_loop l WHERE l.loop = name);
END $$;
CALL loop_measure('seldom');
CALL loop_measure('each');
CALL loop_measure('asks');
SELECT format('loop %s: %s readings, %s decisions: %s readings/s', loop, :n, decisions, round(readings_per_second::numeric)) FROM loop_rate;
-- The links of a loop's decisions once more, as many at a time as a turn of the runner has.
SELECT pg_total_relation_size('fleetlog.loop_decision_link') / (SELECT count(*) FROM fleetlog.loop_decision_link) AS bytes \gset
DELETE FROM fleetlog.loop_decision_link;
SELECT clock_timestamp() AS begun \gset
DO $$
BEGIN
	FOR o IN 0 .. fleetlog.tail('each_decision', 0) - 1 BY 1000 LOOP
		PERFORM fleetlog._loop_link('each_decision', 0, o, least(o + 1000, fleetlog.tail('each_decision', 0)));
	END LOOP;
END $$;
SELECT format('links: %s bytes a decision with their indexes, %s us to write', :bytes, round((extract(epoch FROM clock_timestamp() - :'begun'::timestamptz) * 1e6 / fleetlog.tail('each_decision', 0))::numeric, 1));
SELECT format('WRONG: loop "%s" has %s decisions', loop, decisions) FROM loop_rate WHERE decisions <> CASE loop WHEN 'seldom' THEN (SELECT count(*) FROM seldom_decision) ELSE :n END;
