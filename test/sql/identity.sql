-- Tenants, devices, credentials, policies, and what they allow.
SET client_min_messages = warning;
\set SHOW_CONTEXT never

-- Tenants: a name, and a prefix that no other tenant's touches.
SELECT fleetlog.create_tenant('plant', 'plant/');
SELECT fleetlog.create_tenant('farm', 'eu/land/', max_subscriptions => 5, max_session_expiry => '1 day');
SELECT name, prefix, max_packet_bytes, max_inflight, max_topic_levels, max_subscriptions, max_wildcard_subscriptions,
	max_queued_messages, max_queued_bytes, max_session_expiry FROM fleetlog.tenant ORDER BY name;
SELECT fleetlog.create_tenant('plant', 'plant2/');
SELECT fleetlog.create_tenant('other', 'plant/');
SELECT fleetlog.create_tenant('other', 'plant/line/');
SELECT fleetlog.create_tenant('other', 'eu/');
SELECT fleetlog.create_tenant('other', 'no-slash');
SELECT fleetlog.create_tenant('other', '');
SELECT fleetlog.create_tenant('other', NULL);
SELECT fleetlog.create_tenant('other', '$x/');
SELECT fleetlog.create_tenant('other', '+/');
SELECT fleetlog.create_tenant('other', 'cmd/');
SELECT fleetlog.create_tenant('a/b', 'x/');
SELECT fleetlog.create_tenant('', 'x/');
SELECT fleetlog.create_tenant(NULL, 'x/');
\set VERBOSITY terse
SELECT fleetlog.create_tenant('other', 'x/', max_inflight => 0);
\set VERBOSITY default
SELECT fleetlog.alter_tenant('farm', max_inflight => 7);
SELECT max_inflight, max_subscriptions FROM fleetlog.tenant WHERE name = 'farm';
SELECT fleetlog.alter_tenant('nobody', max_inflight => 7);

-- Devices: a generated password comes once, a given one is kept as a verifier only.
SELECT length(fleetlog.create_device('d1', 'plant')) AS generated;
SELECT fleetlog.create_device('d2', 'plant', 'secret', model => 'm', firmware_version => '1.0', attributes => '{"hall": 3}') IS NULL AS given;
SELECT fleetlog.create_device('d3', 'plant', 'SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$wuBdLCbvdHLCGOBk4YwJeTi9LKT0Iy04fhKwz8DG2q0=:wuBdLCbvdHLCGOBk4YwJeTi9LKT0Iy04fhKwz8DG2q0=');
SELECT fleetlog.create_device('d1', 'farm', 'x');
SELECT fleetlog.create_device('häuschen 7', 'farm', 'x');
SELECT tenant, id, model, hardware_root, firmware_version, attributes, revoked_at FROM fleetlog.device ORDER BY tenant, id;
SELECT tenant, device, kind, left(verifier, 19), verifier LIKE '%secret%' FROM fleetlog.credential ORDER BY tenant, device;

-- Ids that would mean something else where they are put (O-A, O-E), and other things that are refused.
SELECT id, fleetlog._device_problem(id) FROM unnest(ARRAY['+', '#', 'a+', 'a/b', '/', '', '$x', 'cmd', 'cmd2', E'a\nb', repeat('x', 128), repeat('x', 129), 'ok-7']) id;
SELECT fleetlog.create_device('+', 'plant');
SELECT fleetlog.create_device('#', 'plant');
SELECT fleetlog.create_device('a/b', 'plant');
SELECT fleetlog.create_device('', 'plant');
SELECT fleetlog.create_device('cmd', 'plant');
SELECT fleetlog.create_device('$d', 'plant');
SELECT fleetlog.create_device(NULL, 'plant');
SELECT fleetlog.create_device('d9', 'nobody');
SELECT fleetlog.create_device('d9', NULL);
SELECT fleetlog.create_device('d1', 'plant');
SELECT fleetlog.create_device('d9', 'plant', certificate_subject => '');
SELECT fleetlog.create_device('d9', 'plant', certificate_subject => repeat('x', 256));
SELECT fleetlog.create_device('d9', 'plant', certificate_subject => E'a\nb');
SELECT fleetlog.create_device('d9', 'plant', psk => '\x00');
SELECT fleetlog.create_device('d9', 'plant', psk => decode(repeat('00', 65), 'hex'));
SELECT fleetlog.create_device('d9', 'plant', '');
SELECT fleetlog.create_device('d9', 'plant', repeat('x', 513));
SELECT fleetlog.create_device('d9', 'plant', 'SCRAM-SHA-256$broken');
SELECT fleetlog.create_device('d9', 'plant', 'md5' || repeat('0', 32));
\set VERBOSITY terse
INSERT INTO fleetlog.device (tenant, id) VALUES ('plant', 'a/b');
\set VERBOSITY default
SELECT count(*) FROM fleetlog.device WHERE id = 'd9';

-- Naming a device.
SELECT * FROM fleetlog._find_device('d2');
SELECT * FROM fleetlog._find_device('farm/d1');
SELECT * FROM fleetlog._find_device('d1');
SELECT * FROM fleetlog._find_device('nobody/d1');
SELECT * FROM fleetlog._find_device('d7');
SELECT * FROM fleetlog._find_device(NULL);

-- Rights without any rule: below the own id, its commands, nothing else (I4).  Publishing needs a mount besides.
SELECT fleetlog.create_stream('fl_i');
SELECT fleetlog.mount('', 'fl_i');
CREATE TABLE fl_ask (n serial, who text, action text, topic text);
INSERT INTO fl_ask (who, action, topic) VALUES
	('plant/d2', 'publish', 'plant/d2/temp'), ('plant/d2', 'publish', 'plant/d2/'), ('plant/d2', 'publish', 'plant/d2'),
	('plant/d2', 'publish', 'plant/d22/temp'), ('plant/d2', 'publish', 'plant/d1/temp'), ('plant/d2', 'publish', 'farm/d2/temp'),
	('plant/d2', 'publish', 'plant/temp'), ('plant/d2', 'publish', '$SYS/x'), ('plant/d2', 'publish', 'plant/d2/#'), ('plant/d2', 'publish', ''),
	('plant/d2', 'publish', 'plant/cmd/d2/ack/17'), ('plant/d2', 'publish', 'plant/cmd/d2/res/17'), ('plant/d2', 'publish', 'plant/cmd/d2/res/1/7'),
	('plant/d2', 'publish', 'plant/cmd/d2/res/'), ('plant/d2', 'publish', 'plant/cmd/d2/req/open'), ('plant/d2', 'publish', 'plant/cmd/d1/ack/17'), ('plant/d2', 'publish', 'cmd/d2/ack/17'),
	('plant/d2', 'subscribe', 'plant/d2/#'), ('plant/d2', 'subscribe', 'plant/d2/+/x'), ('plant/d2', 'subscribe', 'plant/d2'), ('plant/d2', 'subscribe', 'plant/+/temp'),
	('plant/d2', 'subscribe', 'plant/#'), ('plant/d2', 'subscribe', '#'), ('plant/d2', 'subscribe', '+/d2/temp'), ('plant/d2', 'subscribe', 'plant/d1/#'),
	('plant/d2', 'subscribe', 'plant/cmd/d2/req/+'), ('plant/d2', 'subscribe', 'plant/cmd/d2/#'), ('plant/d2', 'subscribe', 'plant/cmd/#'), ('plant/d2', 'subscribe', 'plant/cmd/+/req/x'),
	('plant/d2', 'subscribe', '$SYS/#'), ('plant/d2', 'subscribe', 'plant/d2/#/x'),
	('farm/d1', 'publish', 'eu/land/d1/x'), ('farm/d1', 'publish', 'plant/d1/x'), ('farm/häuschen 7', 'publish', 'eu/land/häuschen 7/x');
SELECT who, action, topic, c.allowed, c.reason FROM fl_ask, fleetlog.can(who, action, topic) c ORDER BY n;

-- Rules: filters with placeholders, confined to the tenant's prefix.
SELECT fleetlog.allow('plant', 'subscribe', 'plant/shared/#');
SELECT fleetlog.allow('plant', 'subscribe', 'plant/+/status');
SELECT fleetlog.allow('plant', 'publish', 'plant/by-device/dev-{device}/in');
SELECT fleetlog.allow('plant', 'publish', 'plant/by-client/{client_id}/in');
SELECT fleetlog.allow('plant', 'subscribe', 'plant/by-client/{client_id}/#');
SELECT fleetlog.allow('plant', 'publish', 'plant/{tenant}-all');
SELECT fleetlog.allow('plant', 'subscribe', 'plant/shared/#');
SELECT tenant, action, filter FROM fleetlog.policy ORDER BY 1, 2, 3;
SELECT action, topic, c.allowed, c.reason FROM (VALUES
	(1, 'subscribe', 'plant/shared/#'), (2, 'subscribe', 'plant/shared'), (3, 'subscribe', 'plant/shared/a/+'), (4, 'subscribe', 'plant/d1/status'), (5, 'subscribe', 'plant/+/status'),
	(6, 'subscribe', 'plant/+/+'), (7, 'subscribe', 'plant/+/status/x'), (8, 'subscribe', 'plant/#'), (9, 'publish', 'plant/d1/status'), (10, 'publish', 'plant/by-device/dev-d2/in'),
	(11, 'publish', 'plant/by-device/dev-d1/in'), (12, 'publish', 'plant/by-device/dev-/in'), (13, 'publish', 'plant/plant-all'), (14, 'subscribe', 'plant/cmd/status')) q(n, action, topic),
	fleetlog.can('plant/d2', action, topic) c ORDER BY n;

-- What is filled in is never a wildcard, and one with "/" matches nothing.
SELECT client, action, topic, a.allowed FROM (VALUES
	(1, 'c1', 'publish', 'plant/by-client/c1/in'), (2, 'c1', 'publish', 'plant/by-client/c2/in'), (3, '+', 'publish', 'plant/by-client/c2/in'), (4, '#', 'publish', 'plant/by-client/x/in'),
	(5, '+', 'subscribe', 'plant/by-client/+/#'), (6, '#', 'subscribe', 'plant/by-client/#'), (7, 'a/b', 'publish', 'plant/by-client/a/b/in'), (8, '', 'publish', 'plant/by-client//in'),
	(9, NULL, 'publish', 'plant/by-client/{client_id}/in'), (10, 'c1', 'subscribe', 'plant/by-client/c1/#'), (11, 'c', 'publish', 'plant/by-client/c1/in')) q(n, client, action, topic),
	fleetlog._acl('plant', 'd2', client, action, topic) a ORDER BY n;
-- Rules of one tenant give nothing to another's devices; an empty set gives nothing more (O-B).
SELECT c.allowed, c.reason FROM fleetlog.can('farm/d1', 'subscribe', 'plant/shared/x') c;
SELECT fleetlog.allow('plant', 'subscribe', 'eu/land/#');
SELECT fleetlog.allow('plant', 'subscribe', '#');
SELECT fleetlog.allow('plant', 'subscribe', 'plant/#/x');
SELECT fleetlog.allow('plant', 'subscribe', 'plant/{devize}/x');
SELECT fleetlog.allow('plant', 'subscribe', 'plant/a+/x');
SELECT fleetlog.allow('plant', 'read', 'plant/x');
SELECT fleetlog.allow('nobody', 'publish', 'plant/x');
SELECT fleetlog.allow('plant', 'publish', NULL);
SELECT fleetlog.disallow('plant', 'subscribe', 'plant/shared/#');
SELECT fleetlog.disallow('plant', 'subscribe', 'plant/shared/#');
SELECT c.allowed, c.reason FROM fleetlog.can('plant/d2', 'subscribe', 'plant/shared/#') c;
SELECT fleetlog.can('plant/d2', 'read', 'plant/x');
SELECT fleetlog.can('nobody', 'publish', 'plant/x');
-- A name of a device and of a role, a role, an anonymous client.
SELECT fleetlog.create_device('regress_fl_both', 'plant', 'x');
CREATE ROLE regress_fl_both LOGIN;
SELECT * FROM fleetlog.can('regress_fl_both', 'publish', 'plant/regress_fl_both/x');
SELECT * FROM fleetlog.can('plant/regress_fl_both', 'publish', 'plant/regress_fl_both/x');
DROP ROLE regress_fl_both;
SELECT * FROM fleetlog.can('regress_fl_both', 'publish', 'plant/regress_fl_both/x');
SELECT fleetlog.drop_device('regress_fl_both');
SELECT * FROM fleetlog.can('fleetlog_worker', 'publish', 'plant/d2/x');
SELECT a.* FROM unnest(ARRAY['plant/x', '#', 'cmd/x/req/y', 'plant/cmd/d1/#', '$SYS/#']) t, fleetlog._acl(NULL, NULL, NULL, 'subscribe', t) a;
SELECT fleetlog.unmount('');
SELECT * FROM fleetlog.can('plant/d2', 'publish', 'plant/d2/x');

-- Passwords are replaced, devices and credentials revoked.
SELECT fleetlog.set_password('d2', 'new') IS NULL AS given, length(fleetlog.set_password('d2')) AS generated;
SELECT device, kind, revoked_at IS NOT NULL AS revoked, revoke_reason FROM fleetlog.device_credential WHERE device = 'd2' ORDER BY id;
SELECT fleetlog.set_password('d1');
SELECT fleetlog.set_password('d2', '');
SELECT fleetlog.revoke_credential(id, 'leaked') FROM fleetlog.device_credential WHERE device = 'd2' AND revoked_at IS NULL;
SELECT revoke_reason FROM fleetlog.device_credential WHERE device = 'd2' ORDER BY id;
SELECT fleetlog.revoke_credential(-1, 'x');
-- Certificates and pre-shared keys.
SELECT fleetlog.create_device('tls1', 'plant', certificate_subject => 'tls1', psk => decode(repeat('5ec8e7', 16), 'hex')) IS NULL AS no_password;
SELECT fleetlog.create_device('tls2', 'plant', certificate_subject => 'tls1');
SELECT fleetlog.create_device('tls2', 'plant', 'pw') IS NULL AS given;
SELECT fleetlog.set_certificate('tls2', 'tls1');
SELECT fleetlog.set_certificate('tls1', 'tls1b');
SELECT fleetlog.set_certificate('tls2', 'tls1');
SELECT fleetlog.set_certificate('tls1', NULL);
SELECT fleetlog.set_psk('tls1', '\x01');
SELECT length(fleetlog.set_psk('tls1')) AS generated, fleetlog.set_psk('tls2', decode(repeat('5ec8e7', 6), 'hex')) IS NULL AS given;
SELECT device, kind, revoked_at IS NOT NULL AS revoked, revoke_reason FROM fleetlog.device_credential WHERE device LIKE 'tls%' ORDER BY id;
SELECT fleetlog.revoke_device('tls2', 'gone');
SELECT fleetlog.set_certificate('tls2', 'again');
SELECT fleetlog.set_psk('tls2');
SELECT fleetlog.set_certificate('tls1', 'tls1');
SELECT fleetlog.drop_device('tls1'), fleetlog.drop_device('tls2');
SELECT fleetlog.revoke_device('plant/d1', 'stolen');
SELECT tenant, id, revoke_reason, revoked_at IS NOT NULL AS revoked FROM fleetlog.device WHERE id = 'd1' ORDER BY tenant;
SELECT * FROM fleetlog.can('plant/d1', 'publish', 'plant/d1/x');
SELECT fleetlog.set_password('plant/d1');
SELECT fleetlog.alter_device('d3', model => 'x9');
SELECT model FROM fleetlog.device WHERE id = 'd3';
SELECT fleetlog.drop_tenant('plant');

-- What was done is on record, without secrets.
SELECT event, object, detail - 'credential' AS detail FROM fleetlog.audit WHERE event NOT LIKE 'create_%' ORDER BY at, event;
SELECT count(*) FROM fleetlog.audit WHERE detail::text ~ 'secret|SCRAM|5ec8e7';

-- Administrators manage devices and see no verifier; others see nothing.
CREATE ROLE regress_fl_admin IN ROLE fleetlog_admin;
CREATE ROLE regress_fl_user;
SET ROLE regress_fl_admin;
SELECT length(fleetlog.create_device('d8', 'plant')) AS generated;
SELECT count(*) FROM fleetlog.device_credential WHERE device = 'd8';
SELECT verifier FROM fleetlog.credential;
INSERT INTO fleetlog.device (tenant, id) VALUES ('plant', 'd9');
SELECT fleetlog._password_verifier('x');
SET ROLE regress_fl_user;
SELECT fleetlog.create_device('d10', 'plant');
SELECT * FROM fleetlog.device;
SELECT * FROM fleetlog.can('plant/d2', 'publish', 'plant/d2/x');
RESET ROLE;
DROP ROLE regress_fl_admin, regress_fl_user;

-- Every function of ours that PUBLIC may execute, and every one without a comment.
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'fleetlog'::regnamespace
	AND p.proname ~ '^(create|alter|drop|set|revoke|allow|disallow|mount|unmount|pause|resume|quickstart|can)'
	AND p.proname <> 'cancel_command' -- asks by itself, as send_command does
	AND has_function_privilege('public', p.oid, 'execute');
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'fleetlog'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL;
SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'fleetlog'::regnamespace AND c.relkind IN ('r', 'v') AND obj_description(c.oid, 'pg_class') IS NULL;

SELECT fleetlog.drop_device(tenant || '/' || id) FROM fleetlog.device ORDER BY tenant, id;
SELECT fleetlog.drop_tenant(name) FROM fleetlog.tenant ORDER BY name;
SELECT count(*) FROM fleetlog.credential;
SELECT count(*) FROM fleetlog.policy;
SELECT fleetlog.drop_stream('fl_i');
DROP TABLE fl_ask;
DELETE FROM fleetlog.audit;
