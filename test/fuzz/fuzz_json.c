/*-------------------------------------------------------------------------
 *
 * fuzz_json.c
 *	  Arbitrary bytes as JSON and as base64.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/base64.h"
#include "fleetlog/json.h"
#include "fleetlog/utf8.h"

static void
check_json(const uint8_t *data, size_t size)
{
	FlJson j;
	FlJsonToken token;
	FlBuf out;
	int balance = 0;

	fl_buf_init(&out, NULL, size);
	fl_json_init(&j, data, size);
	while ((token = fl_json_next(&j)) != FL_JSON_END && token != FL_JSON_ERROR)
	{
		size_t integer;
		size_t fraction;
		int64_t exponent;

		FL_FUZZ_ASSERT(j.token_len <= size);
		balance += token == FL_JSON_OBJECT || token == FL_JSON_ARRAY;
		balance -= token == FL_JSON_OBJECT_END || token == FL_JSON_ARRAY_END;
		FL_FUZZ_ASSERT(balance == j.depth && balance >= 0 && balance <= FL_JSON_MAX_DEPTH);
		if (token == FL_JSON_KEY || token == FL_JSON_STRING)
		{
			fl_buf_reset(&out);
			fl_json_unescape(j.token, j.token_len, &out);
			FL_FUZZ_ASSERT(!out.failed && fl_utf8_valid_text(out.data, out.len));
		}
		if (token == FL_JSON_NUMBER)
			fl_json_number_shape(j.token, j.token_len, &integer, &fraction, &exponent);
	}
	if (token == FL_JSON_END)
		FL_FUZZ_ASSERT(balance == 0 && fl_utf8_valid_text(data, size));
	fl_buf_free(&out);
}

/* What decodes must encode to the same characters. */
static void
check_base64(const uint8_t *data, size_t size)
{
	FlBuf out;

	fl_buf_init(&out, NULL, size);
	if (fl_base64_decode(data, size, &out) == FL_OK && out.len > 0)
	{
		char *again = malloc(fl_base64_size(out.len));

		FL_FUZZ_ASSERT(again != NULL && fl_base64_size(out.len) == size);
		fl_base64_encode(again, out.data, out.len);
		FL_FUZZ_ASSERT(memcmp(again, data, size) == 0);
		free(again);
	}
	fl_buf_free(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_json(data, size);
	check_base64(data, size);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void) argc;
	(void) argv;
#define SEED(name, s) fl_fuzz_seed(name, (const uint8_t *) (s), sizeof(s) - 1)
	SEED("object", "{\"a\": [1, -2.5e+3, true, false, null], \"b\\n\": {\"\": \"\\ud83d\\ude00\\u00e9\"}}");
	SEED("array", "[[], {}, \"\\\"\\\\\\/\", 0.1e-2]");
	SEED("string", "\"\\u0041\xc3\xa9\"");
	SEED("base64", "Zm9vYmE=");
#undef SEED
	return 0;
}
