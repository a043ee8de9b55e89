-- fleetlog.text, json and cbor: NULL and never an error for what is not that.

\pset null '(null)'

-- Text.
SELECT fleetlog.text('plain'), fleetlog.text(''), fleetlog.text('\xc3a9'), fleetlog.text('\xff'), fleetlog.text('\x6100'), fleetlog.text('\xeda080'), fleetlog.text(NULL);

-- JSON: accepted as jsonb has it.
SELECT p, fleetlog.json(convert_to(p, 'UTF8'))
FROM (VALUES ('{"temperature": 20.5, "unit": "C", "temperature": 21}'), ('[1, -0.5e+3, true, null, "x"]'), ('5'), ('"s"'), ('null'), ('{}'),
	(' [ ] '), ('"\u00e9\ud83d\ude00\n"'), ('1e10'), ('1E-5'), ('-0')) v (p);
SELECT fleetlog.json(NULL), fleetlog.json('') IS NULL AS empty;

-- JSON that jsonb cannot hold, and what is no JSON at all.
SELECT p, fleetlog.json(convert_to(p, 'UTF8'))
FROM (VALUES ('{"a":"\u0000"}'), ('"\ud800"'), ('"\udc00\ud800"'), ('1e131072'), ('1e-16384'), ('1e999999999999999999'), ('1e-999999999999999999'), ('0e-20000'),
	('{'), ('{"a":1,}'), ('[1 2]'), ('01'), ('1.'), ('nul'), ('NaN'), ('hello'), ('{} {}'), ('"a'), (E'"a\nb"'), ('''a''')) v (p);
SELECT fleetlog.json('\x22ff22'), fleetlog.json('\x2200'), fleetlog.json('\x22006122'), fleetlog.json('\xefbbbf7b7d'), fleetlog.json('\x7b7d00');
SELECT fleetlog.json('1e131071') IS NOT NULL AS large, fleetlog.json('1e-16383') IS NOT NULL AS small,
	fleetlog.json(convert_to(repeat('9', 131072), 'UTF8')) IS NOT NULL AS long, fleetlog.json(convert_to(repeat('9', 131073), 'UTF8')) IS NULL AS too_long,
	fleetlog.json(convert_to('0.' || repeat('9', 16383), 'UTF8')) IS NOT NULL AS fine, fleetlog.json(convert_to('0.' || repeat('9', 16384), 'UTF8')) IS NULL AS too_fine;
SELECT d, fleetlog.json(convert_to(repeat('[', d) || repeat(']', d), 'UTF8')) IS NOT NULL AS arrays,
	fleetlog.json(convert_to(repeat('{"a":', d) || '1' || repeat('}', d), 'UTF8')) IS NOT NULL AS objects
FROM (VALUES (1), (256), (257), (100000)) v (d);

-- Limits of jsonb's own: many members and long strings are NULL, not an error.
SELECT fleetlog.json(convert_to('[' || repeat('1,', 5000000) || '1]', 'UTF8')) IS NULL AS members;
SELECT jsonb_array_length(fleetlog.json(convert_to('[' || repeat('1,', 100000) || '1]', 'UTF8'))) AS members;

-- The scanner is as strict as the server's parser: random changes to random texts are NULL exactly when a cast fails.
-- The counts say that neither side of the comparison was empty.
DO $$
DECLARE
	seeds text[] := ARRAY['{"temperature": 20.5, "unit": "C\u00b0", "ok": true}', '[1, -2.5e+3, {"a": [null, false]}, "x\ud83d\ude00y"]',
		'"\"\\\/\b\f\n\r\t"', '{"a":{"b":{"c":[[],{}]}}}', ' [0.1e-2 , 10E5] ', '123456789012345678901234567890.5'];
	alphabet text := '{}[]",:\ue+-.0123456789abcdtrfalsn é' || E'\t\n';
	s text;
	expected jsonb;
	got jsonb;
	accepted int := 0;
	refused int := 0;
	wrong int := 0;
BEGIN
	PERFORM setseed(0.25);
	FOR i IN 1 .. 20000 LOOP
		s := seeds[1 + i % 6];
		FOR k IN 0 .. (random() * 2)::int LOOP
			s := overlay(s PLACING substr(alphabet, 1 + (random() * (length(alphabet) - 1))::int, (random() * 2)::int)
				FROM 1 + (random() * length(s))::int FOR (random() * 2)::int);
		END LOOP;
		BEGIN
			expected := s::jsonb;
			accepted := accepted + 1;
		EXCEPTION WHEN OTHERS THEN
			expected := NULL;
			refused := refused + 1;
		END;
		got := fleetlog.json(convert_to(s, 'UTF8'));
		IF got IS DISTINCT FROM expected THEN
			wrong := wrong + 1;
			RAISE NOTICE 'differs: % is %, expected %', s, got, expected;
		END IF;
	END LOOP;
	RAISE NOTICE 'wrong: %, accepted enough: %, refused enough: %', wrong, accepted > 3000, refused > 3000;
END
$$;

-- CBOR: the examples of RFC 8949, appendix A.
SELECT h, fleetlog.cbor(decode(h, 'hex'))
FROM (VALUES ('00'), ('01'), ('0a'), ('17'), ('1818'), ('1819'), ('1864'), ('1903e8'), ('1a000f4240'), ('1b000000e8d4a51000'), ('1bffffffffffffffff'),
	('c249010000000000000000'), ('3bffffffffffffffff'), ('c349010000000000000000'), ('20'), ('29'), ('3863'), ('3903e7'), ('3b7fffffffffffffff'), ('f90000'), ('f98000'), ('f93c00'),
	('fb3ff199999999999a'), ('f93e00'), ('f97bff'), ('fa47c35000'), ('fa7f7fffff'), ('fb7e37e43c8800759c'), ('f90001'), ('f90400'), ('f9c400'),
	('fbc010666666666666'), ('f97c00'), ('f97e00'), ('f9fc00'), ('fa7f800000'), ('fa7fc00000'), ('faff800000'), ('fb7ff0000000000000'),
	('fb7ff8000000000000'), ('fbfff0000000000000'), ('f4'), ('f5'), ('f6'), ('f7'), ('f0'), ('f8ff'), ('c074323031332d30332d32315432303a30343a30305a'),
	('c11a514b67b0'), ('c1fb41d452d9ec200000'), ('d74401020304'), ('d818456449455446'), ('d82076687474703a2f2f7777772e6578616d706c652e636f6d'),
	('40'), ('4401020304'), ('60'), ('6161'), ('6449455446'), ('62225c'), ('62c3bc'), ('63e6b0b4'), ('64f0908591'), ('80'), ('83010203'),
	('8301820203820405'), ('98190102030405060708090a0b0c0d0e0f101112131415161718181819'), ('a0'), ('a201020304'), ('a26161016162820203'),
	('826161a161626163'), ('a56161614161626142616361436164614461656145'), ('5f42010243030405ff'), ('7f657374726561646d696e67ff'), ('9fff'),
	('9f018202039f0405ffff'), ('9f01820203820405ff'), ('83018202039f0405ff'), ('83019f0203ff820405'), ('9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff'),
	('bf61610161629f0203ffff'), ('826161bf61626163ff'), ('bf6346756ef563416d7421ff')) v (h);

-- Not well formed: RFC 8949, appendix F, and what jsonb cannot hold.
SELECT h, fleetlog.cbor(decode(h, 'hex')) IS NULL AS refused
FROM (VALUES (''), ('18'), ('19'), ('1a'), ('1b'), ('1901'), ('1a0102'), ('1b01020304050607'), ('38'), ('58'), ('78'), ('98'), ('9a01ff00'), ('b8'), ('d8'), ('f8'), ('f900'), ('fa0000'), ('fb000000'),
	('41'), ('61'), ('5affffffff00'), ('5bffffffffffffffff010203'), ('7affffffff00'), ('7b7fffffffffffffff010203'), ('81'), ('818181818181818181'), ('8200'), ('a1'), ('a20102'), ('a100'), ('a2000000'),
	('9bffffffffffffffff00'), ('bbffffffffffffffff0000'), ('9a0fffffff00'), ('c0'), ('5f4100'), ('7f6100'), ('9f'), ('9f0102'), ('bf'), ('bf01020102'), ('819f'), ('9f8000'), ('9f9f9f9f9fffffffff'), ('9f819f819f9fffffff'),
	('1c'), ('1d'), ('1e'), ('3c'), ('5c'), ('7c'), ('9c'), ('bc'), ('dc'), ('fc'), ('fd'), ('fe'), ('f800'), ('f801'), ('f818'), ('f81f'), ('5f00ff'), ('5f21ff'), ('5f6100ff'), ('5f80ff'), ('5fa0ff'), ('5fc000ff'), ('5fe0ff'), ('7f4100ff'),
	('5f5f4100ffff'), ('7f7f6100ffff'), ('ff'), ('81ff'), ('8200ff'), ('a1ff'), ('a1ff00'), ('a100ff'), ('a20000ff'), ('9f81ff'), ('9f829f819f9fffffffff'), ('bf00ff'), ('bf000000ff'), ('1f'), ('3f'), ('df'), ('c0ff'), ('9fc0ff'),
	('0000'), ('8000'), ('61ff'), ('6100'), ('7f61ffff'), ('7f61c361a9ff'), ('a1800000'), ('a1a000'), ('a18000')) v (h)
WHERE fleetlog.cbor(decode(h, 'hex')) IS NOT NULL;

-- Keys that are not text; the last value of a key.
SELECT fleetlog.cbor('\xa701022003f504f605420102f93e00076161f93e000a'), fleetlog.cbor('\xa2616101616102'), fleetlog.cbor('\xa15f41014102ff00');
-- Depth.
SELECT d, fleetlog.cbor(decode(repeat('81', d) || '00', 'hex')) IS NOT NULL AS arrays, fleetlog.cbor(decode(repeat('a100', d) || '00', 'hex')) IS NOT NULL AS maps,
	fleetlog.cbor(decode(repeat('9f', d) || repeat('ff', d), 'hex')) IS NOT NULL AS open, fleetlog.cbor(decode(repeat('c1', d) || '00', 'hex')) AS tags
FROM (VALUES (1), (64), (65), (100000)) v (d);
SELECT fleetlog.cbor(decode('9a004c4b40' || repeat('01', 5000000), 'hex')) IS NULL AS members;
SELECT length(fleetlog.cbor(decode('5a00100000' || repeat('ab', 1048576), 'hex')) #>> '{}') AS base64;

-- Random damage is never an error, and what it leaves can be read and written by the server.
DO $$
DECLARE
	seeds bytea[] := ARRAY['\xbf61610161629f0203ffff', '\xa56161614161626142616361436164614461656145', '\x83019f0203ff82fb3ff199999999999af5',
		'\x5f42010243030405ff', '\x7f657374726561646d696e67ff', '\xd82076687474703a2f2f7777772e6578616d706c652e636f6d', '\x9f018202039f0405ffff'];
	b bytea;
	j jsonb;
	n int := 0;
BEGIN
	PERFORM setseed(0.5);
	FOR i IN 1 .. 50000 LOOP
		b := seeds[1 + i % 7];
		FOR k IN 0 .. (random() * 3)::int LOOP
			b := set_byte(b, (random() * (length(b) - 1))::int, (random() * 255)::int);
		END LOOP;
		j := fleetlog.cbor(substr(b, 1, length(b) - greatest(0, (random() * 8)::int - 6)));
		IF j IS NOT NULL THEN
			n := n + 1;
			IF j <> j::text::jsonb THEN
				RAISE EXCEPTION '% gave %', b, j;
			END IF;
		END IF;
	END LOOP;
	RAISE NOTICE 'well formed often enough: %', n > 5000;
END
$$;
