-- Data sets (D6): named ranges of a stream with count and content hash, held, and linked to the models that were trained on them.

CREATE TABLE fleetlog.dataset_config (
	name text PRIMARY KEY,
	stream regclass NOT NULL,
	ranges jsonb NOT NULL,
	records bigint NOT NULL,
	payload_bytes bigint NOT NULL,
	content_hash bytea NOT NULL,
	hold bigint NOT NULL,
	owner regrole NOT NULL,
	description text,
	created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE fleetlog.dataset_config IS 'data sets; written by create_dataset, alter_dataset and drop_dataset';

CREATE TABLE fleetlog.dataset_model (
	dataset text NOT NULL,
	model text NOT NULL,
	model_version text NOT NULL,
	role text NOT NULL,
	linked_at timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (dataset, model, model_version)
);
COMMENT ON TABLE fleetlog.dataset_model IS 'which versions of models were trained on a data set; written by link_dataset and unlink_dataset';

SELECT pg_catalog.pg_extension_config_dump('fleetlog.dataset_config', '');
SELECT pg_catalog.pg_extension_config_dump('fleetlog.dataset_model', '');

-- A hold that belongs to a data set or, as a pin, to a loop ends with it, not before: who drops that removes its row first.
CREATE FUNCTION fleetlog._hold_is_owned() RETURNS trigger
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	set_name text := (SELECT d.name FROM fleetlog.dataset_config d WHERE d.hold = OLD.id);
	pinned_by text := (SELECT p."loop" FROM fleetlog.loop_pin p WHERE p.hold = OLD.id);
BEGIN
	IF set_name IS NOT NULL THEN
		RAISE EXCEPTION 'hold % belongs to data set "%"', OLD.id, set_name USING ERRCODE = 'LF108', HINT = format('It ends with fleetlog.drop_dataset(%L).', set_name);
	END IF;
	IF pinned_by IS NOT NULL THEN
		RAISE EXCEPTION 'hold % has the evidence of loop "%"', OLD.id, pinned_by USING ERRCODE = 'LF108',
			HINT = format('It follows what the loop''s streams still refer to with fleetlog.release_pins(%L), and ends with the loop.', pinned_by);
	END IF;
	RETURN OLD;
END
$$;
COMMENT ON FUNCTION fleetlog._hold_is_owned() IS 'internal: keeps the hold of a data set, or of a loop''s evidence, from being released';

CREATE TRIGGER hold_is_owned BEFORE DELETE ON fleetlog.hold_config
	FOR EACH ROW EXECUTE FUNCTION fleetlog._hold_is_owned();

CREATE FUNCTION fleetlog._dataset_sum(stream regclass, ranges jsonb, OUT records bigint, OUT payload_bytes bigint, OUT content_hash bytea)
	AS 'MODULE_PATHNAME', 'fl_sql_dataset_sum' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog._dataset_sum(regclass, jsonb) IS 'internal: count and SHA-256 of the records of ranges';

CREATE FUNCTION fleetlog._dataset_records(stream regclass, ranges jsonb) RETURNS SETOF fleetlog.log_record
	AS 'MODULE_PATHNAME', 'fl_sql_dataset_records' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 100000;
COMMENT ON FUNCTION fleetlog._dataset_records(regclass, jsonb) IS 'internal: the records of ranges, in order of shard and offset';

CREATE FUNCTION fleetlog._dataset_register_as(caller oid, name text, stream regclass, ranges jsonb, hold bigint, description text,
		OUT records bigint, OUT content_hash text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	s record;
BEGIN
	-- Whoever made the hold is entitled to what it holds.
	IF NOT EXISTS (SELECT FROM fleetlog.hold_config h WHERE h.id = hold AND h.stream = stream AND h.ranges = ranges AND h.role = caller::regrole::text)
		OR EXISTS (SELECT FROM fleetlog.dataset_config d WHERE d.hold = hold) THEN
		RAISE EXCEPTION 'hold % is not that of a new data set', hold USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT * INTO s FROM fleetlog._dataset_sum(stream, ranges);
	INSERT INTO fleetlog.dataset_config (name, stream, ranges, records, payload_bytes, content_hash, hold, owner, description)
		VALUES (name, stream, ranges, s.records, s.payload_bytes, s.content_hash, hold, caller::regrole, description);
	records := s.records;
	content_hash := encode(s.content_hash, 'hex');
END
$$;
COMMENT ON FUNCTION fleetlog._dataset_register_as(oid, text, regclass, jsonb, bigint, text) IS 'internal: what create_dataset does as the owner of the extension';

CREATE FUNCTION fleetlog._dataset_register(name text, stream regclass, ranges jsonb, hold bigint, description text, OUT records bigint, OUT content_hash text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION fleetlog._dataset_register(text, regclass, jsonb, bigint, text) IS 'internal: the second half of create_dataset';

-- Holding first: from then on nothing of it can go, and the hash is that of what stays.
CREATE FUNCTION fleetlog.create_dataset(name text, stream regclass, ranges jsonb, description text = NULL, OUT records bigint, OUT content_hash text)
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	hold bigint;
BEGIN
	IF name IS NULL OR stream IS NULL OR ranges IS NULL THEN
		RAISE EXCEPTION 'name, stream and ranges must not be NULL' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	IF NOT name OPERATOR(pg_catalog.~) '^[A-Za-z0-9_.-]{1,63}$' THEN
		RAISE EXCEPTION 'the name of a data set must be 1 to 63 letters, digits, _, . or -' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF EXISTS (SELECT FROM fleetlog.dataset d WHERE d.name OPERATOR(pg_catalog.=) name) THEN
		RAISE EXCEPTION 'data set "%" already exists', name USING ERRCODE = 'duplicate_object';
	END IF;
	hold := fleetlog.hold(stream, ranges, pg_catalog.format('data set "%s"', name));
	SELECT r.records, r.content_hash INTO records, content_hash FROM fleetlog._dataset_register(name, stream, ranges, hold, description) r;
END
$$;
COMMENT ON FUNCTION fleetlog.create_dataset(text, regclass, jsonb, text) IS
	'name ranges {"<shard>": [[from, to], ...]} of a stream: counted, hashed, and held until drop_dataset';

CREATE FUNCTION fleetlog._dataset_own(caller oid, name text) RETURNS fleetlog.dataset_config
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	d fleetlog.dataset_config;
BEGIN
	SELECT * INTO d FROM fleetlog.dataset_config c WHERE c.name = name FOR UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'data set "%" does not exist', name USING ERRCODE = 'undefined_object', HINT = 'Data sets are listed in the view fleetlog.dataset.';
	END IF;
	IF NOT pg_has_role(caller, d.owner, 'USAGE') THEN
		RAISE EXCEPTION 'must be owner of data set "%"', name USING ERRCODE = 'insufficient_privilege';
	END IF;
	RETURN d;
END
$$;
COMMENT ON FUNCTION fleetlog._dataset_own(oid, text) IS 'internal: the data set, which the caller must own';

CREATE FUNCTION fleetlog._alter_dataset(caller oid, name text, description text, owner regrole) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	d fleetlog.dataset_config := fleetlog._dataset_own(caller, name);
BEGIN
	IF owner IS NOT NULL AND NOT pg_has_role(caller, owner, 'USAGE') THEN
		RAISE EXCEPTION 'must be member of role "%"', owner USING ERRCODE = 'insufficient_privilege';
	END IF;
	UPDATE fleetlog.dataset_config c SET description = coalesce(description, c.description), owner = coalesce(owner, c.owner) WHERE c.name = d.name;
END
$$;
COMMENT ON FUNCTION fleetlog._alter_dataset(oid, text, text, regrole) IS 'internal: alter_dataset';

CREATE FUNCTION fleetlog.alter_dataset(name text, description text = NULL, owner regrole = NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.alter_dataset(text, text, regrole) IS 'change description or owner of a data set; what is in it never changes';

CREATE FUNCTION fleetlog._drop_dataset(caller oid, name text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d fleetlog.dataset_config := fleetlog._dataset_own(caller, name);
BEGIN
	DELETE FROM fleetlog.dataset_model m WHERE m.dataset = d.name;
	DELETE FROM fleetlog.dataset_config c WHERE c.name = d.name;
	DELETE FROM fleetlog.hold_range_config r WHERE r.hold = d.hold;
	DELETE FROM fleetlog.hold_config h WHERE h.id = d.hold;
END
$$;
COMMENT ON FUNCTION fleetlog._drop_dataset(oid, text) IS 'internal: drop_dataset';

CREATE FUNCTION fleetlog.drop_dataset(name text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.drop_dataset(text) IS 'forget a data set and its links; its records go by retention again';

CREATE FUNCTION fleetlog._link_dataset(caller oid, name text, model text, version text) RETURNS void
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d fleetlog.dataset_config := fleetlog._dataset_own(caller, name);
BEGIN
	INSERT INTO fleetlog.dataset_model (dataset, model, model_version, role) VALUES (d.name, model, version, caller::regrole::text)
		ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION fleetlog._link_dataset(oid, text, text, text) IS 'internal: link_dataset';

CREATE FUNCTION fleetlog.link_dataset(name text, model text, version text) RETURNS void
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.link_dataset(text, text, text) IS 'note that a version of a model was trained on a data set';

CREATE FUNCTION fleetlog._unlink_dataset(caller oid, name text, model text, version text) RETURNS bool
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d fleetlog.dataset_config := fleetlog._dataset_own(caller, name);
BEGIN
	DELETE FROM fleetlog.dataset_model m WHERE m.dataset = d.name AND m.model = _unlink_dataset.model AND m.model_version = _unlink_dataset.version;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION fleetlog._unlink_dataset(oid, text, text, text) IS 'internal: unlink_dataset';

CREATE FUNCTION fleetlog.unlink_dataset(name text, model text, version text) RETURNS bool
	AS 'MODULE_PATHNAME', 'fl_sql_loop_call' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION fleetlog.unlink_dataset(text, text, text) IS 'take the note back that a version of a model was trained on a data set; false: there was none';

-- ---- what is in it ---------------------------------------------------------------------------------------------------------------

CREATE VIEW fleetlog.dataset AS
	SELECT d.name, d.stream, d.ranges, d.records, d.payload_bytes, encode(d.content_hash, 'hex') AS content_hash, d.hold,
		   (SELECT coalesce(jsonb_agg(jsonb_build_object('model', m.model, 'version', m.model_version) ORDER BY m.linked_at, m.model, m.model_version), '[]')
			FROM fleetlog.dataset_model m WHERE m.dataset = d.name) AS models,
		   d.description, d.owner, d.created_at,
		   (SELECT format('SELECT * FROM %s WHERE %s ORDER BY shard, log_offset', d.stream,
				   string_agg(format('shard = %s AND log_offset >= %s AND log_offset < %s', s.key, r.value ->> 0, r.value ->> 1), ' OR '
							  ORDER BY s.key::int, (r.value ->> 0)::bigint))
			FROM jsonb_each(d.ranges) s, jsonb_array_elements(s.value) r) AS query
	FROM fleetlog.dataset_config d WHERE has_table_privilege(d.stream::oid, 'SELECT');
COMMENT ON VIEW fleetlog.dataset IS 'data sets of streams that one may read: ranges, count, content hash, the hold that keeps them, and the models trained on them';

CREATE FUNCTION fleetlog._dataset_find(name text) RETURNS fleetlog.dataset
	LANGUAGE plpgsql STABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	d fleetlog.dataset;
BEGIN
	SELECT * INTO d FROM fleetlog.dataset c WHERE c.name OPERATOR(pg_catalog.=) name;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'data set "%" does not exist', name USING ERRCODE = 'undefined_object',
			HINT = 'The view fleetlog.dataset lists those of streams that you may read.';
	END IF;
	RETURN d;
END
$$;
COMMENT ON FUNCTION fleetlog._dataset_find(text) IS 'internal: a data set by name, or an error';

CREATE FUNCTION fleetlog.export_dataset(name text) RETURNS SETOF fleetlog.log_record
	LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE ROWS 100000 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	d fleetlog.dataset := fleetlog._dataset_find(name);
BEGIN
	RETURN QUERY SELECT * FROM fleetlog._dataset_records(d.stream, d.ranges);
END
$$;
COMMENT ON FUNCTION fleetlog.export_dataset(text) IS 'records of a data set, for COPY (SELECT * FROM fleetlog.export_dataset(...)) TO';

CREATE FUNCTION fleetlog.verify_dataset(name text, OUT ok bool, OUT records bigint, OUT content_hash text)
	LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	d fleetlog.dataset := fleetlog._dataset_find(name);
	sum record;
BEGIN
	SELECT * INTO sum FROM fleetlog._dataset_sum(d.stream, d.ranges);
	records := sum.records;
	content_hash := pg_catalog.encode(sum.content_hash, 'hex');
	ok := records OPERATOR(pg_catalog.=) d.records AND content_hash OPERATOR(pg_catalog.=) d.content_hash;
END
$$;
COMMENT ON FUNCTION fleetlog.verify_dataset(text) IS 'count and hash the records of a data set again: are they what it was made of?';

REVOKE ALL ON FUNCTION fleetlog._hold_is_owned(), fleetlog._dataset_register_as(oid, text, regclass, jsonb, bigint, text),
	fleetlog._dataset_register(text, regclass, jsonb, bigint, text), fleetlog.create_dataset(text, regclass, jsonb, text),
	fleetlog._dataset_own(oid, text), fleetlog._alter_dataset(oid, text, text, regrole), fleetlog.alter_dataset(text, text, regrole),
	fleetlog._drop_dataset(oid, text), fleetlog.drop_dataset(text), fleetlog._link_dataset(oid, text, text, text), fleetlog.link_dataset(text, text, text),
	fleetlog._unlink_dataset(oid, text, text, text), fleetlog.unlink_dataset(text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION fleetlog._dataset_register(text, regclass, jsonb, bigint, text), fleetlog.create_dataset(text, regclass, jsonb, text),
	fleetlog.alter_dataset(text, text, regrole), fleetlog.drop_dataset(text), fleetlog.link_dataset(text, text, text), fleetlog.unlink_dataset(text, text, text)
	TO fleetlog_admin;
GRANT SELECT ON fleetlog.dataset TO PUBLIC;
