-- Replay of decisions (D3), and evidence that outlives retention (D6): pins.

CREATE FUNCTION fleetlog.replay(loop text, from_ts timestamptz = NULL, to_ts timestamptz = NULL, ranges jsonb = NULL, dataset text = NULL, policy regprocedure = NULL,
		OUT decision fleetlog.log_position, OUT verdict text, OUT recorded jsonb, OUT replayed jsonb, OUT reason text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_replay' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE ROWS 10000;
COMMENT ON FUNCTION fleetlog.replay(text, timestamptz, timestamptz, jsonb, text, regprocedure) IS
	'run the policy of a loop, or another one, again over recorded readings and responses: same, different, missing, reading gone; writes nothing';

CREATE FUNCTION fleetlog._stat_replay(OUT pid int, OUT database oid, OUT role oid, OUT loop text, OUT started_at timestamptz, OUT phase text, OUT readings_total bigint,
		OUT records_read bigint, OUT readings_done bigint, OUT same bigint, OUT differing bigint, OUT workers int)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_stat_replay' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 4;
COMMENT ON FUNCTION fleetlog._stat_replay() IS 'internal: replays that run now';
REVOKE ALL ON FUNCTION fleetlog._stat_replay() FROM PUBLIC;

CREATE VIEW fleetlog.stat_replay AS
	SELECT r.pid, d.datname AS database, pg_get_userbyid(r.role) AS role, r.loop, r.phase, r.records_read, r.readings_total, r.readings_done, r.same, r.differing, r.started_at, r.workers
	FROM fleetlog._stat_replay() r LEFT JOIN pg_catalog.pg_database d ON d.oid = r.database;
COMMENT ON VIEW fleetlog.stat_replay IS 'replays that run now: how many readings they have gone through, and what was found';
GRANT EXECUTE ON FUNCTION fleetlog._stat_replay() TO fleetlog_admin, pg_monitor;
GRANT SELECT ON fleetlog.stat_replay TO fleetlog_admin, pg_monitor;

-- ---- pins ------------------------------------------------------------------------------------------------------------------------------

-- A loop with evidence => 'pin' has a hold on each shard of its source, from the first reading that it pinned on.
CREATE TABLE fleetlog.loop_pin (
	loop text NOT NULL,
	shard int NOT NULL CHECK (shard >= 0),
	hold bigint NOT NULL,
	PRIMARY KEY (loop, shard)
);
COMMENT ON TABLE fleetlog.loop_pin IS 'holds on the sources of loops whose evidence is pinned';
SELECT pg_catalog.pg_extension_config_dump('fleetlog.loop_pin', '');

CREATE FUNCTION fleetlog._loop_pin_shard(loop text, shard int, from_offset bigint) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c fleetlog.loop_config;
	id bigint;
	old bigint;
BEGIN
	SELECT * INTO c FROM fleetlog.loop_config l WHERE l."loop" = loop;
	IF NOT pg_has_role(c.owner, (SELECT relowner FROM pg_class WHERE oid = c.source), 'USAGE') THEN
		RAISE EXCEPTION 'must be owner of table % to pin its records', c.source USING ERRCODE = 'insufficient_privilege',
			HINT = 'Evidence can be copied without: evidence => ''copy''.';
	END IF;
	SELECT p.hold INTO old FROM fleetlog.loop_pin p WHERE p."loop" = loop AND p.shard = shard;
	IF old IS NOT NULL THEN
		UPDATE fleetlog.hold_range_config r SET upper_offset = 9223372036854775807 WHERE r.hold = old;
		UPDATE fleetlog.hold_config h SET ranges = jsonb_set(h.ranges, ARRAY[shard::text, '0', '1'], 'null') WHERE h.id = old;
		RETURN;
	END IF;
	id := fleetlog.hold(c.source, jsonb_build_object(shard::text, jsonb_build_array(jsonb_build_array(from_offset, NULL))), format('evidence of loop "%s"', loop));
	UPDATE fleetlog.hold_config h SET role = c.owner::text WHERE h.id = id;
	INSERT INTO fleetlog.loop_pin (loop, shard, hold) VALUES (loop, shard, id);
END
$$;
COMMENT ON FUNCTION fleetlog._loop_pin_shard(text, int, bigint) IS 'internal: pins readings of a shard for a loop, from an offset on';

CREATE FUNCTION fleetlog._loop_unpin(loop text, shard int) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	gone bigint;
BEGIN
	FOR gone IN DELETE FROM fleetlog.loop_pin p WHERE p."loop" = _loop_unpin."loop" AND p.shard = coalesce(_loop_unpin.shard, p.shard) RETURNING p.hold LOOP
		DELETE FROM fleetlog.hold_range_config r WHERE r.hold = gone;
		DELETE FROM fleetlog.hold_config h WHERE h.id = gone;
	END LOOP;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_unpin(text, int) IS 'internal: ends the pins of a loop, on one shard or all';

CREATE FUNCTION fleetlog._loop_shard_made() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF EXISTS (SELECT FROM fleetlog.loop_config l WHERE l."loop" = NEW."loop" AND l.evidence = 'pin') THEN
		PERFORM fleetlog._loop_pin_shard(NEW."loop", NEW.shard, NEW.log_offset);
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_shard_made() IS 'internal: a shard that a loop begins to read is pinned, if its evidence is';

-- Not while a dump is restored, which brings the holds itself: its rows are older than the transaction.
CREATE TRIGGER shard_made AFTER INSERT ON fleetlog.loop_position
	FOR EACH ROW WHEN (NEW.updated_at = now()) EXECUTE FUNCTION fleetlog._loop_shard_made();

CREATE FUNCTION fleetlog._loop_evidence_changed() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o record;
BEGIN
	IF TG_OP = 'DELETE' THEN
		PERFORM fleetlog._loop_unpin(OLD."loop", NULL);
		RETURN NULL;
	END IF;
	FOR o IN SELECT p.shard, least(p.log_offset, (SELECT min(w.log_offset) FROM fleetlog.loop_waiting w WHERE w."loop" = p."loop" AND w.shard = p.shard)) AS log_offset
		FROM fleetlog.loop_position p WHERE p."loop" = NEW."loop" ORDER BY p.shard
	LOOP
		IF NEW.evidence = 'pin' THEN
			PERFORM fleetlog._loop_pin_shard(NEW."loop", o.shard, o.log_offset);
		ELSIF EXISTS (SELECT FROM fleetlog.hold_range_config r JOIN fleetlog.loop_pin p ON p.hold = r.hold
				WHERE p."loop" = NEW."loop" AND p.shard = o.shard AND r.lower_offset >= o.log_offset) THEN
			PERFORM fleetlog._loop_unpin(NEW."loop", o.shard);
		ELSE
			-- What was pinned stays so; later readings are not.
			UPDATE fleetlog.hold_range_config r SET upper_offset = o.log_offset FROM fleetlog.loop_pin p
				WHERE p."loop" = NEW."loop" AND p.shard = o.shard AND r.hold = p.hold;
			UPDATE fleetlog.hold_config h SET ranges = jsonb_set(h.ranges, ARRAY[o.shard::text, '0', '1'], to_jsonb(o.log_offset)) FROM fleetlog.loop_pin p
				WHERE p."loop" = NEW."loop" AND p.shard = o.shard AND h.id = p.hold;
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION fleetlog._loop_evidence_changed() IS 'internal: pins begin and end with the evidence of a loop, and end with the loop';

CREATE TRIGGER evidence_changed AFTER UPDATE OF evidence ON fleetlog.loop_config
	FOR EACH ROW WHEN (NEW.evidence IS DISTINCT FROM OLD.evidence) EXECUTE FUNCTION fleetlog._loop_evidence_changed();
CREATE TRIGGER evidence_dropped AFTER DELETE ON fleetlog.loop_config
	FOR EACH ROW EXECUTE FUNCTION fleetlog._loop_evidence_changed();

-- What the remaining requests and decisions do not refer to need not be kept.
CREATE FUNCTION fleetlog._release_pins(caller oid, loop text) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	c fleetlog.loop_config := fleetlog._loop_own(caller, loop);
	o record;
	released bigint := 0;
BEGIN
	PERFORM FROM fleetlog.loop_position p WHERE p."loop" = c."loop" ORDER BY p.shard FOR UPDATE;
	FOR o IN EXECUTE format(
		$q$SELECT p.shard, p.hold, h.lower_offset, h.upper_offset,
				  least(l.log_offset, (SELECT min(w.log_offset) FROM fleetlog.loop_waiting w WHERE w."loop" = p."loop" AND w.shard = p.shard),
						(SELECT min(r.log_offset) FROM fleetlog.loop_request r WHERE r."loop" = p."loop" AND r.shard = p.shard), e.oldest) AS oldest
		   FROM fleetlog.loop_pin p
		   JOIN fleetlog.hold_range_config h ON h.hold = p.hold
		   JOIN fleetlog.loop_position l ON l."loop" = p."loop" AND l.shard = p.shard
		   LEFT JOIN (SELECT (j -> 'reading' ->> 'shard')::int AS shard, min((j -> 'reading' ->> 'offset')::bigint) AS oldest
					  FROM (SELECT fleetlog.json(payload) AS j FROM %s UNION ALL SELECT fleetlog.json(payload) FROM %s) x
					  WHERE jsonb_typeof(j -> 'reading' -> 'shard') = 'number' AND jsonb_typeof(j -> 'reading' -> 'offset') = 'number' GROUP BY 1) e ON e.shard = p.shard
		   WHERE p."loop" = $1 ORDER BY p.shard$q$, c.requests, c.decisions) USING c."loop"
	LOOP
		IF o.oldest <= o.lower_offset THEN
			CONTINUE;
		END IF;
		released := released + least(o.oldest, o.upper_offset) - o.lower_offset;
		IF o.oldest >= o.upper_offset THEN
			PERFORM fleetlog._loop_unpin(c."loop", o.shard);
		ELSE
			UPDATE fleetlog.hold_range_config r SET lower_offset = o.oldest WHERE r.hold = o.hold;
			UPDATE fleetlog.hold_config h SET ranges = jsonb_set(h.ranges, ARRAY[o.shard::text, '0', '0'], to_jsonb(o.oldest)) WHERE h.id = o.hold;
		END IF;
	END LOOP;
	RETURN released;
END
$$;
COMMENT ON FUNCTION fleetlog._release_pins(oid, text) IS 'internal: release_pins';

CREATE FUNCTION fleetlog.release_pins(loop text) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.release_pins(text) IS
	'let readings go that a loop has pinned and that no request or decision in its streams refers to any more; returns how many';

REVOKE ALL ON FUNCTION fleetlog._loop_pin_shard(text, int, bigint), fleetlog._loop_unpin(text, int), fleetlog._loop_shard_made(), fleetlog._loop_evidence_changed(),
	fleetlog._release_pins(oid, text), fleetlog.release_pins(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog.release_pins(text) TO fleetlog_admin;
