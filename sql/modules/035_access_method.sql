-- The access method of segments, and the row types of the log.

CREATE FUNCTION fleetlog._tableam_handler(internal) RETURNS table_am_handler
	AS 'MODULE_PATHNAME', 'fl_sql_tableam_handler' LANGUAGE C STRICT VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog._tableam_handler(internal) IS 'internal: handler of access method fleetlog_log';

CREATE ACCESS METHOD fleetlog_log TYPE TABLE HANDLER fleetlog._tableam_handler;
COMMENT ON ACCESS METHOD fleetlog_log IS 'append-only log segments of fleetlog streams';

CREATE TYPE fleetlog.log_position AS (
	stream regclass,
	shard int,
	log_offset bigint
);
COMMENT ON TYPE fleetlog.log_position IS 'where a record is: stream, shard and offset in the shard';

CREATE TYPE fleetlog.log_record AS (
	shard int,
	log_offset bigint,
	ts timestamptz,
	created timestamptz,
	tenant text,
	device text,
	key text,
	key_bytes bytea,
	headers fleetlog.headers,
	payload bytea
);
COMMENT ON TYPE fleetlog.log_record IS 'a record with the columns of a stream';
