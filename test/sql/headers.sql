-- fleetlog.headers: the text form is lossless, JSON goes in and out, damage is refused.

\pset null '(null)'

-- What people type.
SELECT '[]'::fleetlog.headers;
SELECT '{}'::fleetlog.headers;
SELECT '[["content-type","application/json",true],["trace","1"],["trace","2"],["trace",null]]'::fleetlog.headers;
SELECT ' [ [ "a" , "b" , false ] , [ "" , "" ] ] '::fleetlog.headers;
SELECT '{"zeta":"1","a":"2","zeta":null,"n":1.50,"t":true,"o":{"x": [1, 2]},"l":[ ]}'::fleetlog.headers;
SELECT '[["n",1.50],["t",true],["o",{"x": [1, 2]}],["l",[1,"2"]],["b",{"base64":"/wA="}],["p",{"base64":"cGxhaW4="}]]'::fleetlog.headers;
SELECT '[["b",{"base64":1}],["b",{"base64":"x","y":1}],["b",{"Base64":"eA=="}]]'::fleetlog.headers;
SELECT '{"o":{"base64":"eA=="}}'::fleetlog.headers;
SELECT $$[["quote\"d","tab\t line\n \\ \u00e9 \ud83d\ude00"]]$$::fleetlog.headers;

-- What is refused, and how it is said.
CREATE FUNCTION pg_temp.refused(input text) RETURNS TABLE (state text, message text, detail text)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM input::fleetlog.headers;
	RETURN QUERY SELECT 'accepted'::text, NULL::text, NULL::text;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN NEXT;
END
$$;
SELECT input, r.state, r.detail
FROM (VALUES (''), ('null'), ('"a"'), ('1'), ('['), ('[1]'), ('["a","b"]'), ('[["a"]]'), ('[["a","b"'), ('[["a","b"]'), ('[[1,"b"]]'),
	('[["a","b",1]]'), ('[["a","b",true,true]]'), ('[["a","b","true"]]'), ('[["a","b"],]'), ('[["a","b"]] x'), ('[["a","b"]][]'),
	('{"a"}'), ('{"a":}'), ('{"a":"b",}'), ('{"a":"b"} {}'), ('{a:"b"}'), ('[["a","\u0000"]]'), ('[["\u0000","a"]]'), ('[["a","\ud800"]]'),
	('[["a","b"],["c","d",true]]'), ('[["a",{"base64":"x"}]]'), ('[["a",{"base64":"eB=="}]]'), ('[["a",[1]'), ('[["a",{"x":]]')) v (input),
	LATERAL pg_temp.refused(input) r;
SELECT r.* FROM pg_temp.refused('{') r;
SELECT r.* FROM pg_temp.refused('[["a",' || repeat('[', 300) || ']]') r;
SELECT r.* FROM pg_temp.refused((SELECT jsonb_agg(jsonb_build_array('n', i)) FROM generate_series(1, 1025) i)::text) r;
SELECT r.* FROM pg_temp.refused((SELECT jsonb_agg(jsonb_build_array('n', i)) FROM generate_series(1, 1024) i)::text) r;
SELECT r.* FROM pg_temp.refused((SELECT jsonb_agg(jsonb_build_array('n', i, true)) FROM generate_series(1, 128) i)::text) r;
SELECT r.* FROM pg_temp.refused((SELECT jsonb_agg(jsonb_build_array('n', i, true)) FROM generate_series(1, 127) i)::text) r;
SELECT r.* FROM pg_temp.refused(format('[["%s",""]]', repeat('n', 32769))) r;
SELECT r.* FROM pg_temp.refused(format('[["%s",""]]', repeat('n', 32768))) r;

-- To jsonb: last value of each name; the cast is implicit.
SELECT h::jsonb, h ->> 'a' AS a, h -> 'b' AS b, h ? 'c' AS c, h ->> 'x' AS x, h @> '{"a":"2"}' AS contains
FROM (VALUES ('[["a","1",true],["a","2"],["b",null],["x",{"base64":"/w=="}]]'::fleetlog.headers)) v (h);
SELECT h ->> 'name' IS NULL AS absent FROM (VALUES ('[]'::fleetlog.headers)) v (h);

-- From jsonb, as a function and on assignment.
SELECT fleetlog.headers('{"b":"1","a":null,"n":2}'::jsonb), fleetlog.headers('[["z","1"],["a","2",false]]'::jsonb);
SELECT fleetlog.headers(jsonb_build_object('k', 'v')) ->> 'k' AS v;
SELECT fleetlog.headers('"x"'::jsonb);
CREATE TEMP TABLE fl_headers (id int, h fleetlog.headers);
INSERT INTO fl_headers VALUES (1, jsonb_build_object('k', 'v'));
SELECT * FROM fl_headers;

-- The lossless list.
SELECT * FROM fleetlog.headers_array('[["a","1",true],["a",null],["b",{"base64":"/wA="}],["",""]]');
SELECT * FROM fleetlog.headers_array('[]');
SELECT * FROM fleetlog.headers_array(NULL);
SELECT count(*), max(ordinal), bool_and(value = convert_to(ordinal::text, 'UTF8'))
FROM fleetlog.headers_array((SELECT fleetlog.headers(jsonb_agg(jsonb_build_array('n', i))) FROM generate_series(1, 1000) i));

-- Every byte alone, all together, and lists of every length come back as they were, through text and binary.
TRUNCATE fl_headers;
INSERT INTO fl_headers
SELECT i, format('[["byte",{"base64":"%s"}],["byte",{"base64":"%s"}]]',
	encode(decode(lpad(to_hex(i), 2, '0'), 'hex'), 'base64'),
	encode(decode(lpad(to_hex(i), 2, '0') || lpad(to_hex(255 - i), 2, '0'), 'hex'), 'base64'))::fleetlog.headers
FROM generate_series(0, 255) i;
INSERT INTO fl_headers
SELECT 256, format('[["all",{"base64":"%s"}]]', replace(encode(string_agg(decode(lpad(to_hex(i), 2, '0'), 'hex'), '' ORDER BY i), 'base64'), E'\n', ''))::fleetlog.headers
FROM generate_series(0, 255) i;
INSERT INTO fl_headers
SELECT 300 + n, coalesce((SELECT jsonb_agg(CASE WHEN i <= n / 4 THEN jsonb_build_array(repeat('é', i), repeat('v', i), true) ELSE jsonb_build_array(repeat('é', i), repeat('v', i)) END ORDER BY i)
	FROM generate_series(1, n) i), '[]')
FROM generate_series(0, 100) n;
SELECT count(*) AS lists, count(*) FILTER (WHERE h OPERATOR(fleetlog.=) h::text::fleetlog.headers) AS by_text,
	count(*) FILTER (WHERE h OPERATOR(fleetlog.=) (SELECT coalesce(jsonb_agg(CASE WHEN fleetlog.text(value) IS NULL
		THEN jsonb_build_array(name, jsonb_build_object('base64', replace(encode(value, 'base64'), E'\n', '')), reserved)
		ELSE jsonb_build_array(name, fleetlog.text(value), reserved) END ORDER BY ordinal), '[]') FROM fleetlog.headers_array(h))::text::fleetlog.headers) AS by_list
FROM fl_headers;
COPY fl_headers TO PROGRAM 'cat > fl_headers.copy' (FORMAT binary);
CREATE TEMP TABLE fl_headers_back (LIKE fl_headers);
COPY fl_headers_back FROM PROGRAM 'cat fl_headers.copy && rm fl_headers.copy' (FORMAT binary);
SELECT count(*) FILTER (WHERE a.h OPERATOR(fleetlog.=) b.h) AS same, count(*) FILTER (WHERE a.h OPERATOR(fleetlog.<>) b.h) AS different
FROM fl_headers a JOIN fl_headers_back b USING (id);
SELECT encode(fleetlog.headers_send('[["ab","c",true],["d",null]]'), 'hex') AS sent, encode(fleetlog.headers_send('[]'), 'hex') AS empty;

-- Binary input is checked: leftover bytes, a name that is not UTF-8, too many headers.
TRUNCATE fl_headers_back;
COPY fl_headers_back (h) FROM PROGRAM $$printf "PGCOPY\n\377\r\n\000\000\000\000\000\000\000\000\000\000\001\000\000\000\006\000\002\002a\002b\377\377"$$ (FORMAT binary);
COPY fl_headers_back (h) FROM PROGRAM $$printf "PGCOPY\n\377\r\n\000\000\000\000\000\000\000\000\000\000\001\000\000\000\003\000\000\000\377\377"$$ (FORMAT binary);
COPY fl_headers_back (h) FROM PROGRAM $$printf "PGCOPY\n\377\r\n\000\000\000\000\000\000\000\000\000\000\001\000\000\000\006\000\002\002\377\002b\377\377"$$ (FORMAT binary);
COPY fl_headers_back (h) FROM PROGRAM $$printf "PGCOPY\n\377\r\n\000\000\000\000\000\000\000\000\000\000\001\000\000\000\003\000\202\020\377\377"$$ (FORMAT binary);
SELECT h FROM fl_headers_back;

-- Equality is by bytes, so order and reservation count.  The operator lives in schema fleetlog; where that is not in
-- search_path a bare = compares as jsonb, by way of the implicit cast.
SELECT a OPERATOR(fleetlog.=) b AS same, a OPERATOR(fleetlog.<>) b AS differ, a = b AS as_jsonb
FROM (VALUES ('[["a","1"]]'::fleetlog.headers, '{"a":"1"}'::fleetlog.headers), ('[["a","1"]]', '[["a","1",true]]'),
	('[["a","1"],["b","2"]]', '[["b","2"],["a","1"]]'), ('[]', '[["a",null]]'), ('[["a",null]]', '[["a",""]]')) v (a, b);
SELECT count(*), count(DISTINCT h::text) FROM (SELECT h FROM fl_headers UNION SELECT h FROM fl_headers) s;
SELECT count(*) FROM (TABLE fl_headers EXCEPT TABLE fl_headers) s;
SELECT count(*) FROM fl_headers a JOIN fl_headers b ON a.h OPERATOR(fleetlog.=) b.h;
SET enable_nestloop = off;
EXPLAIN (COSTS off) SELECT count(*) FROM fl_headers a JOIN fl_headers b ON a.h OPERATOR(fleetlog.=) b.h;
RESET enable_nestloop;
SELECT fleetlog.headers_hash(h) = fleetlog.headers_hash(h::text::fleetlog.headers) AS hash, fleetlog.headers_hash_extended(h, 1) <> fleetlog.headers_hash_extended(h, 2) AS extended
FROM (VALUES ('[["a","1"]]'::fleetlog.headers)) v (h);
SELECT h, count(*) FROM (VALUES ('{"a":"1"}'::fleetlog.headers), ('[["a","1"]]'), ('[]')) v (h) GROUP BY h ORDER BY 2;

-- Large values are stored out of line and read back.
INSERT INTO fl_headers SELECT 1000, jsonb_build_array(jsonb_build_array('big', string_agg(md5(i::text), '' ORDER BY i))) FROM generate_series(1, 5000) i;
SELECT length(h ->> 'big'), pg_column_size(h) > 2000 AS big FROM fl_headers WHERE id = 1000;
