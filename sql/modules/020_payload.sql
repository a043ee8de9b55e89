-- A payload as text, JSON or CBOR.  Not being that is an answer, not an error: the result is then NULL.

CREATE FUNCTION fleetlog.text(payload bytea) RETURNS text
	AS 'MODULE_PATHNAME', 'fl_sql_text'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fleetlog.text(bytea) IS 'payload as text; NULL when it is not valid UTF-8 text';

CREATE FUNCTION fleetlog.json(payload bytea) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'fl_sql_json'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION fleetlog.json(bytea) IS 'payload as jsonb; NULL when it is not JSON that jsonb can hold';

CREATE FUNCTION fleetlog.cbor(payload bytea) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'fl_sql_cbor'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION fleetlog.cbor(bytea) IS 'CBOR payload as jsonb; NULL when it is not exactly one well-formed item';
