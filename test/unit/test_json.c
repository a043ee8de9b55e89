/*-------------------------------------------------------------------------
 *
 * test_json.c
 *	  The JSON scanner and base64.  That the scanner is as strict as the
 *	  server's own parser is tested in SQL (test/sql/payload.sql).
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/base64.h"
#include "fleetlog/json.h"
#include "fleetlog/utf8.h"

/* Runs to the end; tokens as letters, for comparison. */
static FlResult
scan(const char *text, size_t len, char *letters, size_t size)
{
	static const char letter[] = "!.{}[]ksntfz";
	uint8_t *copy = fl_unit_copy(text, len);
	FlJson j;
	FlJsonToken token;
	size_t n = 0;

	fl_json_init(&j, copy, len);
	while ((token = fl_json_next(&j)) != FL_JSON_END && token != FL_JSON_ERROR)
	{
		FL_CHECK(j.token >= copy && j.token + j.token_len <= copy + len);
		if (n + 1 < size)
			letters[n++] = letter[token];
	}
	letters[n] = '\0';
	FL_CHECK_INT(fl_json_next(&j), token);
	FL_CHECK_INT(token == FL_JSON_END, j.result == FL_OK);
	free(copy);
	return j.result;
}

static void
test_accepted(void)
{
	static const struct
	{
		const char *text;
		const char *tokens;
	} table[] = {
		{"null", "z"},
		{"true", "t"},
		{"false", "f"},
		{" \t\r\n0\n", "n"},
		{"\"\"", "s"},
		{"{}", "{}"},
		{"[]", "[]"},
		{"-0", "n"},
		{"0.0", "n"},
		{"-12.5e+10", "n"},
		{"1E5", "n"},
		{"1e-5", "n"},
		{"10", "n"},
		{"[1,2 , 3]", "[nnn]"},
		{"{\"a\":1,\"b\" : [ ] , \"a\":{}}", "{knk[]k{}}"},
		{"[[],{},[{}]]", "[[]{}[{}]]"},
		{"[null,true,false]", "[ztf]"},
		{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"", "s"},
		{"\"\\ud83d\\ude00\"", "s"},
		{"\"\\uD83D\\uDE00\"", "s"},
		{"\"\xc3\xa9\"", "s"},
		{"\"\x7f\"", "s"},
		{"{\"\":\"\"}", "{ks}"},
		{"\"\\uffff\"", "s"},
		{"\"\\u0001\"", "s"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		char letters[100];
		size_t len = strlen(table[i].text);

		if (!FL_CHECK_INT(scan(table[i].text, len, letters, sizeof(letters)), FL_OK))
			printf("# text %s\n", table[i].text);
		FL_CHECK_BYTES(letters, strlen(letters), table[i].tokens, strlen(table[i].tokens));

		/* Cut anywhere, it is no longer a text, save for spaces and numbers. */
		for (size_t cut = 0; cut < len; cut++)
		{
			FlResult result = scan(table[i].text, cut, letters, sizeof(letters));

			if (strpbrk(table[i].text, "0123456789 ") == NULL)
				FL_CHECK_INT(result, FL_MALFORMED);
		}
	}
}

static void
test_refused(void)
{
	static const char *const table[] = {
		"",
		" ",
		"nul",
		"nulll",
		"True",
		"truefalse",
		"NaN",
		"Infinity",
		"-",
		"+1",
		"01",
		"-01",
		"1.",
		".5",
		"1.e5",
		"1e",
		"1e+",
		"0x10",
		"1 2",
		"1,",
		",1",
		"[",
		"]",
		"[1",
		"[1,",
		"[1,]",
		"[,1]",
		"[1 2]",
		"[1}",
		"{",
		"}",
		"{\"a\"",
		"{\"a\":",
		"{\"a\":1",
		"{\"a\":1,",
		"{\"a\":1,}",
		"{\"a\" 1}",
		"{a:1}",
		"{1:1}",
		"{\"a\":1]",
		"{null:1}",
		"{\"a\":1 \"b\":2}",
		"{,}",
		"\"",
		"\"a",
		"\"\\\"",
		"\"\\",
		"\"\\x\"",
		"\"\\u\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"\n\"",
		"\"\t\"",
		"\"\x01\"",
		"'a'",
		"\"\\u0000\"",
		"\"\\ud800\"",
		"\"\\ud800x\"",
		"\"\\ud800\\n\"",
		"\"\\ud800\\u0041\"",
		"\"\\ud800\\ud800\"",
		"\"\\udc00\"",
		"\"\\udc00\\ud800\"",
		"\"\xff\"",
		"\"\xc3\"",
		"\"\xed\xa0\x80\"",
		"\xef\xbb\xbf"
		"1",
		"1\xc2\xa0",
		"/**/1",
		"[]]",
		"{}{}",
		"[\"a\":1]",
		"\"\\ud83d\\ude0\"",
		"\"\\ud83d\\u\"",
		"{\"\\u0000\":1}",
	};
	char letters[100];

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		if (!FL_CHECK_INT(scan(table[i], strlen(table[i]), letters, sizeof(letters)), FL_MALFORMED))
			printf("# text %s\n", table[i]);
	}
	FL_CHECK_INT(scan("1\0", 2, letters, sizeof(letters)), FL_MALFORMED);
	FL_CHECK_INT(scan("\"a\0b\"", 5, letters, sizeof(letters)), FL_MALFORMED);
	FL_CHECK_INT(scan("\"\\\0\"", 4, letters, sizeof(letters)), FL_MALFORMED);
	FL_CHECK_INT(scan(NULL, 0, letters, sizeof(letters)), FL_MALFORMED);
}

static void
test_depth(void)
{
	for (int depth = 1; depth <= FL_JSON_MAX_DEPTH + 1; depth++)
	{
		char *text = malloc((size_t) depth * 6 + 1);
		char letters[2000];
		size_t n = 0;

		/* Objects and arrays by turns, so that the bits of levels matter. */
		for (int i = 0; i < depth; i++)
		{
			memcpy(text + n, i % 3 ? "{\"\":" : "[", i % 3 ? 4 : 1);
			n += i % 3 ? 4 : 1;
		}
		text[n++] = '1';
		for (int i = depth; i-- > 0;)
			text[n++] = i % 3 ? '}' : ']';
		FL_CHECK_INT(scan(text, n, letters, sizeof(letters)), depth <= FL_JSON_MAX_DEPTH ? FL_OK : FL_TOO_LARGE);
		text[n - 1] = '}';
		FL_CHECK_INT(scan(text, n, letters, sizeof(letters)), depth <= FL_JSON_MAX_DEPTH ? FL_MALFORMED : FL_TOO_LARGE);
		free(text);
	}
}

static void
check_unescape(const char *token, const char *expected)
{
	FlBuf out;

	fl_buf_init(&out, NULL, strlen(token));
	fl_json_unescape((const uint8_t *) token, strlen(token), &out);
	FL_CHECK(!out.failed);
	FL_CHECK_BYTES(out.data, out.len, expected, strlen(expected));
	FL_CHECK(fl_utf8_valid(out.data, out.len));
	fl_buf_free(&out);
}

static void
test_unescape(void)
{
	check_unescape("plain", "plain");
	check_unescape("", "");
	check_unescape("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t");
	check_unescape("a\\u0041b", "aAb");
	check_unescape("\\u00e9\\u20ac\\ud83d\\ude00", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
	check_unescape("\\u007f\\u0080\\u07ff\\u0800\\uffff", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf");
	check_unescape("\\ud800\\udc00\\udbff\\udfff", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

static void
test_number_shape(void)
{
	static const struct
	{
		const char *token;
		size_t integer;
		size_t fraction;
		int64_t exponent;
	} table[] = {
		{"0", 1, 0, 0},
		{"-12", 2, 0, 0},
		{"12.345", 2, 3, 0},
		{"1e5", 1, 0, 5},
		{"1E+5", 1, 0, 5},
		{"-1.50e-07", 1, 2, -7},
		{"1e99999999999999999999999999", 1, 0, 1000000000},
		{"1e-99999999999999999999999999", 1, 0, -1000000000},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		size_t integer;
		size_t fraction;
		int64_t exponent;

		fl_json_number_shape((const uint8_t *) table[i].token, strlen(table[i].token), &integer, &fraction, &exponent);
		FL_CHECK_INT(integer, table[i].integer);
		FL_CHECK_INT(fraction, table[i].fraction);
		FL_CHECK_INT(exponent, table[i].exponent);
	}
}

static void
test_base64(void)
{
	/* RFC 4648, clause 10 */
	static const char *const plain[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
	static const char *const coded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
	static const char *const bad[] = {"Z",    "Zg",       "Zg=",      "Zg===", "=Zg=",   "Z===", "====",  "Zh==",
									  "Zm9=", "Zg==Zg==", "Zm8=Zm8=", "Z g=",  "Zg==\n", "Zm-_", "Zm9v\n"};
	FlBuf out;

	fl_buf_init(&out, NULL, 1000);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
	{
		char text[20];
		size_t len = strlen(plain[i]);

		FL_CHECK_INT(fl_base64_size(len), strlen(coded[i]));
		fl_base64_encode(text, (const uint8_t *) plain[i], len);
		FL_CHECK_BYTES(text, fl_base64_size(len), coded[i], strlen(coded[i]));
		fl_buf_reset(&out);
		FL_CHECK_INT(fl_base64_decode((const uint8_t *) coded[i], strlen(coded[i]), &out), FL_OK);
		FL_CHECK_BYTES(out.data, out.len, plain[i], len);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		FL_CHECK_INT(fl_base64_decode((const uint8_t *) bad[i], strlen(bad[i]), &out), FL_MALFORMED);
	for (int i = 0; i < 20000; i++)
	{
		uint8_t bytes[50];
		char text[80];
		size_t len = fl_unit_random_below(sizeof(bytes));

		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t) fl_unit_random();
		fl_base64_encode(text, bytes, len);
		fl_buf_reset(&out);
		FL_CHECK_INT(fl_base64_decode((uint8_t *) text, fl_base64_size(len), &out), FL_OK);
		FL_CHECK_BYTES(out.data, out.len, bytes, len);
	}
	fl_buf_free(&out);
	fl_buf_init(&out, NULL, 2);
	FL_CHECK_INT(fl_base64_decode((const uint8_t *) "Zm9v", 4, &out), FL_TOO_LARGE);
	fl_buf_free(&out);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_accepted);
	FL_RUN(test_refused);
	FL_RUN(test_depth);
	FL_RUN(test_unescape);
	FL_RUN(test_number_shape);
	FL_RUN(test_base64);
	return fl_unit_end();
}
