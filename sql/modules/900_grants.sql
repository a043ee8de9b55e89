-- Who may do what.  Functions that change or reveal anything were closed for PUBLIC where they were made; here is who
-- gets them.  Tables are written through functions only.

GRANT EXECUTE ON FUNCTION
	fleetlog.create_stream(text, int, text, text, text, bigint, interval, interval, bigint, int, text),
	fleetlog.alter_stream(regclass, int, text, text, bigint, interval, interval, bigint, int, text, text),
	fleetlog.drop_stream(regclass),
	fleetlog.trim_head(regclass, int, bigint, bigint),
	fleetlog.hold(regclass, jsonb, text),
	fleetlog.release_hold(bigint),
	fleetlog._segment_width(interval, bigint, int, float8, float8, int, int, bigint, interval),
	fleetlog._create_segment(regclass, int, bigint, bigint),
	fleetlog.create_state(text),
	fleetlog.enable_shadows(int),
	fleetlog.device_shadow(text, text),
	fleetlog.set_desired(text, jsonb, bigint, text),
	fleetlog.rebuild_state(regclass),
	fleetlog.verify(regclass),
	fleetlog.mount(text, regclass, regclass, text, interval, text, text, text, text, int, int),
	fleetlog.alter_mount(text, regclass, text, text, text, text, int, regclass, text, interval, int),
	fleetlog.unmount(text),
	fleetlog._route(text, text, text),
	fleetlog.create_tenant(text, text, int, int, int, int, int, int, int, interval, int, int),
	fleetlog.alter_tenant(text, int, int, int, int, int, int, int, interval, int, int),
	fleetlog.drop_tenant(text),
	fleetlog.create_device(text, text, text, text, bytea, text, text, text, jsonb),
	fleetlog.alter_device(text, text, text, text, jsonb),
	fleetlog.drop_device(text),
	fleetlog.set_password(text, text),
	fleetlog.set_certificate(text, text),
	fleetlog.set_psk(text, bytea),
	fleetlog.revoke_device(text, text),
	fleetlog.revoke_credential(bigint, text),
	fleetlog.allow(text, text, text),
	fleetlog.disallow(text, text, text),
	fleetlog.can(text, text, text),
	fleetlog.disconnect(text, text),
	fleetlog.quickstart(text)
	TO fleetlog_admin;

-- Which streams and mounts there are is no secret, as which tables there are is none in PostgreSQL.
GRANT SELECT ON fleetlog.stream, fleetlog.stream_shard, fleetlog.mount TO PUBLIC;
GRANT SELECT ON fleetlog.state_config TO PUBLIC;
GRANT SELECT ON fleetlog.stream_hold, fleetlog.hold_range_config, fleetlog.detached_segment, fleetlog.tenant, fleetlog.device, fleetlog.device_credential, fleetlog.policy, fleetlog.audit,
	fleetlog.shard_map_config, fleetlog.epoch_config TO fleetlog_admin;

GRANT EXECUTE ON FUNCTION fleetlog._oldest(regclass, int) TO fleetlog_admin, pg_monitor;

REVOKE ALL ON FUNCTION fleetlog._stat_auth() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._stat_auth() TO fleetlog_admin, pg_monitor;
GRANT SELECT ON fleetlog.stat_auth TO fleetlog_admin, pg_monitor;

GRANT EXECUTE ON FUNCTION fleetlog._stat_state() TO fleetlog_admin, pg_monitor;
GRANT SELECT ON fleetlog.stat_state TO fleetlog_admin, pg_monitor;
GRANT EXECUTE ON FUNCTION fleetlog._stat_state_last() TO fleetlog_admin, pg_monitor;
GRANT SELECT ON fleetlog.stat_state_last TO fleetlog_admin, pg_monitor;
GRANT SELECT ON fleetlog.retained TO PUBLIC;
GRANT SELECT ON fleetlog.shadow TO fleetlog_admin;
