-- Jobs: a command to many devices, in waves, that stops itself when too many fail (C3).
--
-- create_job asks its query once and keeps the devices; the dispatcher issues their commands as waves and concurrency
-- allow, each device once.  The job's row is locked while it does, so pause_job and cancel_job are exact.

CREATE TABLE fleetlog.job_config (
	name text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255),
	command text NOT NULL,
	payload jsonb NOT NULL,
	devices text NOT NULL,
	targets int NOT NULL,
	wave int NOT NULL CHECK (wave > 0),
	concurrency int NOT NULL CHECK (concurrency > 0),
	ttl interval NOT NULL,
	answer_timeout interval NOT NULL,
	stop_at_failure_rate float8 CHECK (stop_at_failure_rate > 0 AND stop_at_failure_rate <= 1),
	state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'stopped', 'cancelled', 'finished')),
	detail text,
	issued_by text NOT NULL,
	issued_login text NOT NULL,
	created_at timestamptz NOT NULL,
	changed_at timestamptz NOT NULL,
	finished_at timestamptz
);
COMMENT ON TABLE fleetlog.job_config IS 'jobs: a command to the devices that a query named';
CREATE TABLE fleetlog.job_target (
	job text NOT NULL,
	number int NOT NULL,
	tenant text NOT NULL,
	device text NOT NULL,
	command uuid,
	PRIMARY KEY (job, number),
	UNIQUE (job, tenant, device)
);
COMMENT ON TABLE fleetlog.job_target IS 'the devices of jobs in their order, with the command that was issued to each';
SELECT pg_catalog.pg_extension_config_dump('fleetlog.job_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.job_target', '');
REVOKE ALL ON fleetlog.job_config, fleetlog.job_target FROM PUBLIC;
GRANT SELECT ON fleetlog.job_config, fleetlog.job_target TO fleetlog_admin, pg_monitor;

CREATE VIEW fleetlog.job WITH (security_barrier) AS
	SELECT j.name, j.state, j.command, j.payload, j.devices, j.targets, j.wave AS wave_size,
		(j.targets + j.wave - 1) / j.wave AS waves, (c.issued + j.wave - 1) / j.wave AS wave, j.concurrency, j.stop_at_failure_rate,
		j.targets - c.issued AS waiting, c.open, c.succeeded, c.failed, c.unknown, c.expired, c.cancelled,
		CASE WHEN c.issued > 0 THEN (c.failed + c.unknown + c.expired + c.cancelled) / least(j.targets, (c.issued + j.wave - 1) / j.wave * j.wave)::float8 END AS failure_rate,
		round((c.issued - c.open) * 100.0 / j.targets, 1) AS progress,
		j.ttl, j.answer_timeout, j.issued_by, j.issued_login, j.created_at, j.changed_at, j.finished_at, j.detail
	FROM fleetlog.job_config j, LATERAL (
		SELECT count(*)::int AS issued, (count(*) FILTER (WHERE s.state IN ('pending', 'sent', 'delivered', 'acknowledged')))::int AS open,
			(count(*) FILTER (WHERE s.state = 'succeeded'))::int AS succeeded, (count(*) FILTER (WHERE s.state = 'failed'))::int AS failed,
			(count(*) FILTER (WHERE s.state = 'unknown'))::int AS unknown, (count(*) FILTER (WHERE s.state = 'expired'))::int AS expired,
			(count(*) FILTER (WHERE s.state = 'cancelled'))::int AS cancelled
		FROM fleetlog.command s WHERE s.job = j.name) c
	WHERE j.issued_by = current_user OR pg_catalog.pg_has_role('fleetlog_admin', 'MEMBER') OR pg_catalog.pg_has_role('pg_monitor', 'MEMBER');
COMMENT ON VIEW fleetlog.job IS
	'jobs and how far they are: devices that wait for their command, whose command is open, and what became of the others; failure_rate: those that did not succeed, of the devices of all waves begun; progress in percent';
GRANT SELECT ON fleetlog.job TO PUBLIC;

CREATE FUNCTION fleetlog.create_job(name text, command text, payload jsonb, devices text, wave int = NULL, ttl interval = '5 min', stop_at_failure_rate float8 = NULL,
		concurrency int = NULL, answer_timeout interval = NULL) RETURNS int
	AS 'MODULE_PATHNAME', 'fl_sql_create_job' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.create_job(text, text, jsonb, text, int, interval, float8, int, interval) IS
	'a command to every device that a query returns (first column: tenant/device, or the id), wave devices at a time, the next wave when the last is over; stops when so large a part of the devices of the waves begun did not succeed; returns how many devices';
CREATE FUNCTION fleetlog.pause_job(name text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_pause_job' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.pause_job(text) IS 'issue no more commands of a job; those that are under way go on';
CREATE FUNCTION fleetlog.resume_job(name text, stop_at_failure_rate float8 = NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_resume_job' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.resume_job(text, float8) IS 'go on with a job that was paused or has stopped; one that has stopped stops again unless it is given a higher rate';
CREATE FUNCTION fleetlog.cancel_job(name text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_cancel_job' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.cancel_job(text) IS 'end a job; commands that have not been sent are cancelled, those that have go on';

-- The devices that names stand for, of some tenants or (NULL) of all, in the order of the names; those that are revoked are left out,
-- unknown ones an error.
CREATE FUNCTION fleetlog._job_targets(names text[], among text[], OUT number int, OUT tenant text, OUT device text) RETURNS SETOF record
	LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	bad text;
BEGIN
	SELECT q.name INTO bad FROM (
		SELECT u.name, u.i FROM unnest(names) WITH ORDINALITY u(name, i)
		LEFT JOIN fleetlog.device d ON d.id = substr(u.name, strpos(u.name, '/') + 1) AND (strpos(u.name, '/') = 0 OR d.tenant = split_part(u.name, '/', 1))
			AND (among IS NULL OR d.tenant = ANY (among))
		GROUP BY u.name, u.i HAVING count(d.id) <> 1) q
	ORDER BY q.i LIMIT 1;
	IF FOUND THEN
		PERFORM fleetlog._find_device(bad, among);
	END IF;
	RETURN QUERY
		SELECT (row_number() OVER (ORDER BY min(u.i)))::int, d.tenant, d.id
		FROM unnest(names) WITH ORDINALITY u(name, i)
		JOIN fleetlog.device d ON d.id = substr(u.name, strpos(u.name, '/') + 1) AND (strpos(u.name, '/') = 0 OR d.tenant = split_part(u.name, '/', 1))
			AND (among IS NULL OR d.tenant = ANY (among))
		WHERE d.revoked_at IS NULL
		GROUP BY d.tenant, d.id;
END
$$;
COMMENT ON FUNCTION fleetlog._job_targets(text[], text[]) IS 'internal: devices of a job';

-- Issue what the waves and the concurrency of a job allow now; returns how many commands.
CREATE FUNCTION fleetlog._job_step(j fleetlog.job_config, max_commands int) RETURNS int
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	issued int;
	still_open int;
	failures int;
	wave_end int;
	n int;
	at timestamptz := clock_timestamp();
BEGIN
	SELECT count(*), count(*) FILTER (WHERE c.state IN ('pending', 'sent', 'delivered', 'acknowledged')), count(*) FILTER (WHERE c.state IN ('failed', 'unknown', 'expired', 'cancelled'))
	INTO issued, still_open, failures FROM fleetlog.command c WHERE c.job = j.name;
	wave_end := least(j.targets, (issued + j.wave - 1) / j.wave * j.wave);
	IF failures > 0 AND failures >= j.stop_at_failure_rate * wave_end THEN
		UPDATE fleetlog.job_config u SET state = 'stopped', changed_at = at,
			detail = format('%s of %s devices of the waves begun did not succeed', failures, wave_end) WHERE u.name = j.name;
		RETURN 0;
	END IF;
	IF issued = j.targets THEN
		IF still_open = 0 THEN
			UPDATE fleetlog.job_config u SET state = 'finished', changed_at = at, finished_at = at WHERE u.name = j.name;
		END IF;
		RETURN 0;
	END IF;
	-- A wave begins when the last one is over.
	IF issued = wave_end THEN
		IF still_open > 0 THEN
			RETURN 0;
		END IF;
		wave_end := least(j.targets, wave_end + j.wave);
	END IF;
	n := least(wave_end - issued, j.concurrency - still_open, max_commands);
	IF n <= 0 THEN
		RETURN 0;
	END IF;
	WITH t AS (
		UPDATE fleetlog.job_target t SET command = gen_random_uuid()
		WHERE t.job = j.name AND t.number > issued AND t.number <= issued + n AND t.command IS NULL
		RETURNING t.number, t.tenant, t.device, t.command
	), e AS (
		INSERT INTO fleetlog.command_event (command, tenant, at, event, detail)
		SELECT t.command, t.tenant, at, 'pending', 'job ' || j.name FROM t ORDER BY t.number)
	INSERT INTO fleetlog.command (id, tenant, device, name, payload, issued_by, issued_login, issued_at, expires_at, answer_timeout, job)
	SELECT t.command, t.tenant, t.device, j.command, j.payload, j.issued_by, j.issued_login, at, at + j.ttl, j.answer_timeout, j.name FROM t ORDER BY t.number;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._job_step(fleetlog.job_config, int) IS 'internal: issue commands of a job';

CREATE FUNCTION fleetlog._job_run(max_commands int) RETURNS bigint
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	j fleetlog.job_config;
	n bigint := 0;
BEGIN
	FOR j IN SELECT * FROM fleetlog.job_config WHERE state = 'running' ORDER BY created_at FOR UPDATE SKIP LOCKED LOOP
		n := n + fleetlog._job_step(j, max_commands);
	END LOOP;
	PERFORM fleetlog._command_point('job_issued');
	RETURN n;
END
$$;
COMMENT ON FUNCTION fleetlog._job_run(int) IS 'internal: go on with all jobs; returns how many commands were issued';

REVOKE ALL ON FUNCTION fleetlog.create_job(text, text, jsonb, text, int, interval, float8, int, interval), fleetlog.pause_job(text), fleetlog.resume_job(text, float8),
	fleetlog.cancel_job(text), fleetlog._job_targets(text[], text[]), fleetlog._job_step(fleetlog.job_config, int), fleetlog._job_run(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog.create_job(text, text, jsonb, text, int, interval, float8, int, interval), fleetlog.pause_job(text), fleetlog.resume_job(text, float8),
	fleetlog.cancel_job(text) TO fleetlog_admin;
