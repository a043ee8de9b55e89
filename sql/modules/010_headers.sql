-- The type of a record's header list.  Everything about it is immutable: text, binary and JSON forms depend on
-- nothing but the value.

CREATE TYPE fleetlog.headers;

CREATE FUNCTION fleetlog.headers_in(cstring) RETURNS fleetlog.headers
	AS 'MODULE_PATHNAME', 'fl_sql_headers_in'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_in(cstring) IS 'input function of type headers';

CREATE FUNCTION fleetlog.headers_out(fleetlog.headers) RETURNS cstring
	AS 'MODULE_PATHNAME', 'fl_sql_headers_out'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_out(fleetlog.headers) IS 'output function of type headers';

CREATE FUNCTION fleetlog.headers_recv(internal) RETURNS fleetlog.headers
	AS 'MODULE_PATHNAME', 'fl_sql_headers_recv'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_recv(internal) IS 'binary input function of type headers';

CREATE FUNCTION fleetlog.headers_send(fleetlog.headers) RETURNS bytea
	AS 'MODULE_PATHNAME', 'fl_sql_headers_send'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_send(fleetlog.headers) IS 'binary output function of type headers';

CREATE TYPE fleetlog.headers (
	INPUT = fleetlog.headers_in,
	OUTPUT = fleetlog.headers_out,
	RECEIVE = fleetlog.headers_recv,
	SEND = fleetlog.headers_send,
	INTERNALLENGTH = VARIABLE,
	STORAGE = extended
);
COMMENT ON TYPE fleetlog.headers IS
	'headers of a record, in order: text form [["name","value"],...], a third element true marks a reserved one';

-- Equality by bytes, with hashing, so that DISTINCT, GROUP BY and EXCEPT work over streams.

CREATE FUNCTION fleetlog.headers_eq(fleetlog.headers, fleetlog.headers) RETURNS boolean
	AS 'MODULE_PATHNAME', 'fl_sql_headers_eq'
	LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_eq(fleetlog.headers, fleetlog.headers) IS 'implementation of = operator';

CREATE FUNCTION fleetlog.headers_ne(fleetlog.headers, fleetlog.headers) RETURNS boolean
	AS 'MODULE_PATHNAME', 'fl_sql_headers_ne'
	LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_ne(fleetlog.headers, fleetlog.headers) IS 'implementation of <> operator';

CREATE FUNCTION fleetlog.headers_hash(fleetlog.headers) RETURNS integer
	AS 'MODULE_PATHNAME', 'fl_sql_headers_hash'
	LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_hash(fleetlog.headers) IS 'hash';

CREATE FUNCTION fleetlog.headers_hash_extended(fleetlog.headers, bigint) RETURNS bigint
	AS 'MODULE_PATHNAME', 'fl_sql_headers_hash_extended'
	LANGUAGE C IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_hash_extended(fleetlog.headers, bigint) IS 'hash';

CREATE OPERATOR fleetlog.= (
	LEFTARG = fleetlog.headers,
	RIGHTARG = fleetlog.headers,
	FUNCTION = fleetlog.headers_eq,
	COMMUTATOR = OPERATOR(fleetlog.=),
	NEGATOR = OPERATOR(fleetlog.<>),
	RESTRICT = eqsel,
	JOIN = eqjoinsel,
	HASHES
);
COMMENT ON OPERATOR fleetlog.= (fleetlog.headers, fleetlog.headers) IS 'equal';

CREATE OPERATOR fleetlog.<> (
	LEFTARG = fleetlog.headers,
	RIGHTARG = fleetlog.headers,
	FUNCTION = fleetlog.headers_ne,
	COMMUTATOR = OPERATOR(fleetlog.<>),
	NEGATOR = OPERATOR(fleetlog.=),
	RESTRICT = neqsel,
	JOIN = neqjoinsel
);
COMMENT ON OPERATOR fleetlog.<> (fleetlog.headers, fleetlog.headers) IS 'not equal';

CREATE OPERATOR CLASS fleetlog.headers_ops
	DEFAULT FOR TYPE fleetlog.headers USING hash AS
	OPERATOR 1 fleetlog.= (fleetlog.headers, fleetlog.headers),
	FUNCTION 1 fleetlog.headers_hash(fleetlog.headers),
	FUNCTION 2 fleetlog.headers_hash_extended(fleetlog.headers, bigint);
COMMENT ON OPERATOR CLASS fleetlog.headers_ops USING hash IS 'hashing of header lists';

-- To and from JSON.  The cast is implicit so that headers ->> 'name' works.

CREATE FUNCTION fleetlog.headers_to_jsonb(fleetlog.headers) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'fl_sql_headers_to_jsonb'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers_to_jsonb(fleetlog.headers) IS
	'object with the last value of each name; values that are not text in base64';

CREATE CAST (fleetlog.headers AS jsonb)
	WITH FUNCTION fleetlog.headers_to_jsonb(fleetlog.headers) AS IMPLICIT;
COMMENT ON CAST (fleetlog.headers AS jsonb) IS 'object with the last value of each name';

CREATE FUNCTION fleetlog.headers(jsonb) RETURNS fleetlog.headers
	AS 'MODULE_PATHNAME', 'fl_sql_headers_from_jsonb'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.headers(jsonb) IS
	'header list of an object {"name":"value",...} or of pairs [["name","value"],...]';

CREATE CAST (jsonb AS fleetlog.headers)
	WITH FUNCTION fleetlog.headers(jsonb) AS ASSIGNMENT;
COMMENT ON CAST (jsonb AS fleetlog.headers) IS 'header list of an object or of pairs';

CREATE FUNCTION fleetlog.headers_array(headers fleetlog.headers)
	RETURNS TABLE (ordinal integer, name text, value bytea, reserved boolean)
	AS 'MODULE_PATHNAME', 'fl_sql_headers_array'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 5;
COMMENT ON FUNCTION fleetlog.headers_array(fleetlog.headers) IS
	'one row per header, in order and without loss; reserved ones were written by fleetlog itself';
