-- C1, C2: what send_command refuses and writes, who may send to whom and see it, cancelling, and how answers, receipts and
-- the clock change a row.  All in one transaction, so that the dispatcher of this server has no part in it.
\set VERBOSITY terse
\set ON_ERROR_ROLLBACK on
BEGIN;
SELECT fleetlog.create_tenant('cmda', 'cmda/'), fleetlog.create_tenant('cmdb', 'cmdb/');
SELECT fleetlog.create_device('d1', 'cmda', password => 'x'), fleetlog.create_device('d1', 'cmdb', password => 'x'), fleetlog.create_device('gone', 'cmda', password => 'x');
SELECT fleetlog.revoke_device('cmda/gone');

-- refused
SELECT fleetlog.send_command('cmda/nobody', 'x', '{}');
SELECT fleetlog.send_command('d1', 'x', '{}');
SELECT fleetlog.send_command('cmda/gone', 'x', '{}');
SELECT fleetlog.send_command(NULL, 'x', '{}');
SELECT fleetlog.send_command('cmda/d1', NULL, '{}');
SELECT fleetlog.send_command('cmda/d1', 'x', NULL);
SELECT fleetlog.send_command('cmda/d1', 'x', '{}', ttl => NULL);
SELECT fleetlog.send_command('cmda/d1', '', '{}');
SELECT fleetlog.send_command('cmda/d1', 'a/b', '{}');
SELECT fleetlog.send_command('cmda/d1', '+', '{}');
SELECT fleetlog.send_command('cmda/d1', 'é', '{}');
SELECT fleetlog.send_command('cmda/d1', repeat('n', 65), '{}');
SELECT fleetlog.send_command('cmda/d1', 'x', '{}', ttl => '0');
SELECT fleetlog.send_command('cmda/d1', 'x', '{}', ttl => '-1 s');
SELECT fleetlog.send_command('cmda/d1', 'x', '{}', ttl => '8 days');
SELECT fleetlog.send_command('cmda/d1', 'x', '{}', answer_timeout => '0');
SELECT fleetlog.send_command('cmda/d1', 'x', to_jsonb(repeat('p', 65535)));
SELECT count(*) FROM fleetlog.command;

-- written
SELECT fleetlog.send_command('cmda/d1', repeat('n', 64), '{"a": 1}') AS id \gset
SELECT tenant, device, length(name), payload, state, late, issued_by = current_user AS by_me, issued_login = session_user AS login, expires_at - issued_at AS ttl, answer_timeout,
	sent_at, finished_at FROM fleetlog.command WHERE id = :'id';
SELECT event, late, detail = current_user AS by_me FROM fleetlog.command_event WHERE command = :'id' ORDER BY number;
SELECT tenant, state, commands, late FROM fleetlog.stat_command ORDER BY 1, 2;
SAVEPOINT a;
SELECT count(fleetlog.send_command('cmda/d1', 'x', '{}'));
ROLLBACK TO a;
SELECT count(*), (SELECT count(*) FROM fleetlog.command_event) FROM fleetlog.command;

-- cancelled
SELECT fleetlog.cancel_command(:'id');
SELECT fleetlog.cancel_command(:'id');
SELECT state, detail = 'by ' || current_user AS detail, finished_at IS NOT NULL AS finished FROM fleetlog.command WHERE id = :'id';
SELECT fleetlog.cancel_command('00000000-0000-4000-8000-000000000000');
SELECT fleetlog.cancel_command(NULL);

-- rights: fleetlog_admin everywhere, others by tenant
CREATE ROLE regress_cmd_admin IN ROLE fleetlog_admin;
CREATE ROLE regress_cmd_a;
SELECT fleetlog.allow_commands('nowhere', 'regress_cmd_a');
SELECT fleetlog.send_command('cmdb/d1', 'b', '1') AS b \gset
SET LOCAL ROLE regress_cmd_a;
SELECT fleetlog.send_command('cmda/d1', 'x', '{}');
SELECT fleetlog.allow_commands('cmda', 'regress_cmd_a');
SELECT count(*) FROM fleetlog.command;
RESET ROLE;
SELECT fleetlog.allow_commands('cmda', 'regress_cmd_a');
SET LOCAL ROLE regress_cmd_a;
SELECT fleetlog.send_command('cmda/d1', 'mine', '{}') AS mine \gset
SELECT fleetlog.send_command('cmdb/d1', 'x', '{}');
SELECT name, issued_by, issued_login = session_user AS login FROM fleetlog.command WHERE name = 'mine';
SELECT count(*), count(*) FILTER (WHERE tenant <> 'cmda') AS others FROM fleetlog.command;
SELECT count(*) FILTER (WHERE tenant <> 'cmda') AS others FROM fleetlog.command_event;
INSERT INTO fleetlog.command SELECT * FROM fleetlog.command;
UPDATE fleetlog.command SET state = 'succeeded';
SELECT fleetlog._command_dispatch(1);
RESET ROLE;
-- nobody learns what others have: the same answer whether it is there or not
INSERT INTO fleetlog.job_config (name, command, payload, devices, targets, wave, concurrency, ttl, answer_timeout, state, issued_by, issued_login, created_at, changed_at)
	VALUES ('cmdb-job', 'x', '1', 'SELECT', 1, 1, 1, '1 min', '1 min', 'paused', 'x', 'x', now(), now());
INSERT INTO fleetlog.job_target (job, number, tenant, device) VALUES ('cmdb-job', 1, 'cmdb', 'only-b');
SELECT fleetlog.create_device('only-b', 'cmdb', password => 'x'), fleetlog.create_device('gone-b', 'cmdb', password => 'x'), fleetlog.create_device('only-a', 'cmda', password => 'x');
SELECT fleetlog.revoke_device('cmdb/gone-b');
SELECT fleetlog.send_command('cmdb/only-b', 'b', '1') AS b \gset
CREATE ROLE regress_cmd_none;
GRANT EXECUTE ON FUNCTION fleetlog.create_job(text, text, jsonb, text, int, interval, float8, int, interval), fleetlog.pause_job(text), fleetlog.resume_job(text, float8),
	fleetlog.cancel_job(text) TO regress_cmd_none, regress_cmd_a;
CREATE FUNCTION pg_temp.says(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	told text;
BEGIN
	EXECUTE sql;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS told = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' | ', SQLSTATE, regexp_replace(SQLERRM, '[0-9a-f-]{36}', '(id)'), nullif(told, ''));
END $$;
-- Each pair: one that is there, and one that is not.
CREATE TEMP TABLE pairs AS SELECT * FROM (VALUES
	(1, $$SELECT fleetlog.send_command('%s', 'x', '1')$$, 'cmdb/only-b', 'cmdb/nobody'), (2, $$SELECT fleetlog.send_command('%s', 'x', '1')$$, 'cmdb/gone-b', 'nowhere/x'),
	(3, $$SELECT fleetlog.send_command('%s', 'x', '1')$$, 'only-b', 'nobody'), (4, $$SELECT fleetlog.send_command('%s', 'x', '1')$$, 'gone-b', 'nobody'),
	(5, $$SELECT fleetlog.cancel_command('%s')$$, :'b', '00000000-0000-4000-8000-000000000000'),
	(6, $$SELECT fleetlog.create_job('j', 'x', '1', $q$SELECT '%s'$q$)$$, 'cmdb/only-b', 'cmdb/nobody'), (7, $$SELECT fleetlog.create_job('j', 'x', '1', $q$SELECT '%s'$q$)$$, 'only-b', 'nobody'),
	(8, $$SELECT fleetlog.create_job('j', 'x', '1', $q$SELECT '%s'$q$)$$, 'gone-b', 'nobody'), (9, $$SELECT fleetlog.pause_job('%s')$$, 'cmdb-job', 'no-job'),
	(10, $$SELECT fleetlog.resume_job('%s')$$, 'cmdb-job', 'no-job'), (11, $$SELECT fleetlog.cancel_job('%s')$$, 'cmdb-job', 'no-job')) v(n, call, there, not_there);
GRANT SELECT ON pairs TO PUBLIC;
SET LOCAL ROLE regress_cmd_none;
SELECT n, pg_temp.says(format(call, not_there)) AS told, replace(pg_temp.says(format(call, there)), there, '') = replace(pg_temp.says(format(call, not_there)), not_there, '') AS same FROM pairs WHERE n <> 2 ORDER BY n;
SELECT (SELECT count(*) FROM fleetlog.command) AS commands, (SELECT count(*) FROM fleetlog.command_event) AS events, (SELECT count(*) FROM fleetlog.stat_command) AS stat,
	(SELECT count(*) FROM fleetlog.job) AS jobs, (SELECT count(*) FROM fleetlog.command_grant) AS grants;
SELECT count(*) FROM fleetlog.device;
SET LOCAL ROLE regress_cmd_a;
SELECT n, pg_temp.says(format(call, not_there)) AS told, replace(pg_temp.says(format(call, there)), there, '') = replace(pg_temp.says(format(call, not_there)), not_there, '') AS same FROM pairs WHERE n <> 2 ORDER BY n;
SELECT pg_temp.says($$SELECT fleetlog.send_command('cmdb/gone-b', 'x', '1')$$), pg_temp.says($$SELECT fleetlog.send_command('nowhere/x', 'x', '1')$$);
SELECT count(*) FILTER (WHERE tenant <> 'cmda') AS commands, (SELECT count(*) FILTER (WHERE tenant <> 'cmda') FROM fleetlog.command_event) AS events,
	(SELECT count(*) FILTER (WHERE tenant <> 'cmda') FROM fleetlog.stat_command) AS stat, (SELECT count(*) FROM fleetlog.job) AS jobs, (SELECT count(*) FROM fleetlog.command_grant) AS grants
	FROM fleetlog.command;
-- a bare id is looked for among his own: another tenant's device of the same name makes it not ambiguous
SELECT pg_temp.says($$SELECT fleetlog.send_command('d1', 'bare', '1')$$), pg_temp.says($$SELECT fleetlog.create_job('mine', 'x', '1', $q$SELECT * FROM unnest(ARRAY['d1', 'cmda/d1', 'only-a', 'gone']) $q$)$$);
SELECT name, targets FROM fleetlog.job;
SELECT pg_temp.says($$SELECT fleetlog.pause_job('mine')$$);
RESET ROLE;
DELETE FROM fleetlog.job_config WHERE name IN ('mine', 'cmdb-job');
SET LOCAL ROLE regress_cmd_admin;
SELECT count(fleetlog.send_command('cmdb/d1', 'x', '{}'));
SELECT count(DISTINCT tenant) FROM fleetlog.command;
SELECT fleetlog.disallow_commands('cmda', 'regress_cmd_a');
SELECT fleetlog.disallow_commands('cmda', 'regress_cmd_a');
SET LOCAL ROLE regress_cmd_a;
SELECT fleetlog.send_command('cmda/d1', 'x', '{}');
RESET ROLE;

-- what comes back, as the dispatcher takes it
CREATE FUNCTION pg_temp.sent(name text, pos bigint) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
	new uuid := fleetlog.send_command('cmda/d1', name, '{}', answer_timeout => '1 h');
BEGIN
	UPDATE fleetlog.command SET state = 'sent', sent_at = clock_timestamp(), answer_by = clock_timestamp() + answer_timeout, shard = 0, log_offset = pos WHERE id = new;
	RETURN new;
END $$;
CREATE FUNCTION pg_temp.says(what text, id uuid, payload text, headers jsonb = '{}', after interval = '1 s') RETURNS text LANGUAGE sql AS $$
	SELECT fleetlog._command_answer('cmda/cmd/d1/' || what || '/' || id, 'cmda', 'd1', clock_timestamp() + after, headers, convert_to(payload, 'UTF8'), 0, 1000);
	SELECT state || CASE WHEN late THEN ' late' ELSE '' END || ': ' || (SELECT string_agg(event || CASE WHEN late THEN ' late' ELSE '' END || coalesce(' (' || detail || ')', ''), ', ' ORDER BY number) FROM fleetlog.command_event WHERE command = id AND event <> 'pending')
	FROM fleetlog.command c WHERE c.id = says.id $$;
CREATE FUNCTION pg_temp.told(what text, pos bigint, id uuid, code int = 0, device text = 'd1') RETURNS text LANGUAGE sql AS $$
	SELECT fleetlog._command_receipt(ARRAY[what, '0', pos::text, code::text], 'cmda', device, clock_timestamp(), 0, 2000);
	SELECT state FROM fleetlog.command c WHERE c.id = told.id $$;
SELECT pg_temp.sent('one', 1) AS one, pg_temp.sent('two', 2) AS two, pg_temp.sent('three', 3) AS three, pg_temp.sent('four', 4) AS four, pg_temp.sent('five', 5) AS five, pg_temp.sent('six', 6) AS six \gset
SELECT pg_temp.told('delivered', 1, :'one', 135), pg_temp.told('delivered', 1, :'one', 0, 'd2'), pg_temp.told('delivered', 1, :'one'), pg_temp.told('delivered', 1, :'one');
SELECT pg_temp.says('ack', :'one', '');
SELECT pg_temp.says('ack', :'one', '{"detail": "again"}');
SELECT pg_temp.says('res', :'one', '{"status": "failed", "detail": "stuck", "n": 1}');
SELECT pg_temp.says('res', :'one', 'succeeded');
SELECT answer, detail FROM fleetlog.command WHERE id = :'one';
-- a result without anything before it; what comes behind it moves nothing back
SELECT pg_temp.says('res', :'two', '"succeeded"');
SELECT pg_temp.told('delivered', 2, :'two');
SELECT pg_temp.says('ack', :'two', '');
-- the property goes before the document, and the payload is free
SELECT pg_temp.says('res', :'three', '{"status": "succeeded"}', '{"fl-status": "expired", "fl-detail": "too old"}');
-- no status, no result
SELECT pg_temp.says('res', :'four', ''), pg_temp.says('res', :'four', '{"status": "ok"}'), pg_temp.says('res', :'four', '[]');
-- out of time, also when nobody has looked at the clock
SELECT pg_temp.says('ack', :'four', '', after => '2 h');
SELECT pg_temp.says('res', :'four', 'succeeded', after => '3 h');
SELECT finished_at > answer_by AS after, late FROM fleetlog.command WHERE id = :'four';
-- left out by a front door
SELECT pg_temp.told('expired', 5, :'five'), pg_temp.told('expired', 1, :'one');
SELECT pg_temp.says('res', :'five', 'succeeded');
-- not theirs
SELECT fleetlog._command_answer('cmda/cmd/d1/res/x', 'cmda', 'd1', now(), '{}', 'succeeded', 0, 1);
SELECT fleetlog._command_answer('cmdb/cmd/d1/res/' || :'six', 'cmdb', 'd1', now(), '{}', 'succeeded', 0, 1);
SELECT fleetlog._command_answer('cmda/cmd/d1/res/' || :'mine', 'cmda', 'd1', now(), '{}', 'succeeded', 0, 1);
SELECT reason, answers, last_tenant FROM fleetlog.command_ignored ORDER BY reason;
SELECT state FROM fleetlog.command WHERE id IN (:'six', :'mine') ORDER BY state;

-- the clock
UPDATE fleetlog.command SET answer_by = clock_timestamp() - interval '1 s' WHERE id = :'six';
UPDATE fleetlog.command SET expires_at = clock_timestamp() - interval '1 s' WHERE id = :'mine';
SELECT fleetlog._command_deadlines(100) BETWEEN 1 AND 300000000 AS next;
SELECT name, state, detail FROM fleetlog.command WHERE id IN (:'six', :'mine') ORDER BY name;

-- forgetting
SELECT fleetlog._command_forget(100);
UPDATE fleetlog.command SET finished_at = now() - interval '31 days' WHERE id = :'one';
SELECT fleetlog._command_forget(100);
SELECT count(*), (SELECT count(*) FROM fleetlog.command_event WHERE command = :'one') FROM fleetlog.command WHERE id = :'one';
-- publish() is no way around it
SELECT fleetlog.publish('cmda/cmd/d1/req/x', '1');
ROLLBACK;
