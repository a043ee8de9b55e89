/*-------------------------------------------------------------------------
 *
 * fuzz_text.c
 *	  Arbitrary bytes as a header list, as UTF-8, and as topic and filter.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/headers.h"
#include "fleetlog/topic.h"
#include "fleetlog/utf8.h"

/* What validates must be rebuilt to the same list. */
static void
check_headers(const uint8_t *data, size_t size)
{
	FlHeaderIter it;
	FlHeader h;
	FlHeadersBuilder b;
	FlBuf out;
	bool valid = fl_headers_validate(data, size) == FL_OK;

	fl_buf_init(&out, NULL, size * 2 + 16);
	fl_headers_builder_begin(&b, &out);
	fl_header_iter_init(&it, data, size);
	while (fl_header_iter_next(&it, &h))
	{
		if (h.is_reserved)
			fl_headers_builder_add_reserved(&b, h.name, (size_t) h.name_len, h.value, h.value_len);
		else
			fl_headers_builder_add(&b, h.name, (size_t) h.name_len, h.value, h.value_len);
	}
	if (valid)
	{
		FL_FUZZ_ASSERT(it.result == FL_OK);
		FL_FUZZ_ASSERT(fl_headers_builder_end(&b) == FL_OK);
		FL_FUZZ_ASSERT(fl_headers_validate(out.data, out.len) == FL_OK);
		/* Padded varints become shorter; nothing else may change. */
		FL_FUZZ_ASSERT(out.len <= size);
		if (out.len == size)
			FL_FUZZ_ASSERT(memcmp(out.data, data, size) == 0);
	}
	fl_headers_find_reserved(data, size, "fl.qos", &h);
	fl_buf_free(&out);
}

/* The first byte tells where the topic ends and the filter begins. */
static void
check_topic(const uint8_t *data, size_t size)
{
	const uint8_t *group;
	const uint8_t *inner;
	size_t group_len;
	size_t inner_len;
	size_t cut;

	if (size < 1)
		return;
	cut = data[0] < size ? data[0] : size - 1;
	data++;
	size--;

	fl_topic_levels(data, cut);
	fl_topic_prefix_valid(data, cut);
	fl_topic_prefix_matches(data, cut, data + cut, size - cut);
	if (fl_topic_name_valid(data, cut))
	{
		FL_FUZZ_ASSERT(fl_topic_filter_valid(data, cut));
		FL_FUZZ_ASSERT(fl_topic_matches(data, cut, data, cut));
		FL_FUZZ_ASSERT(fl_topic_matches(data, cut, (const uint8_t *) "#", 1) == (data[0] != '$'));
	}
	fl_topic_matches(data, cut, data + cut, size - cut);
	if (fl_topic_share_parse(data, size, &group, &group_len, &inner, &inner_len) == FL_SHARE_OK)
	{
		FL_FUZZ_ASSERT(group_len > 0 && inner + inner_len == data + size);
		FL_FUZZ_ASSERT(fl_topic_filter_valid(inner, inner_len));
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool valid = fl_utf8_valid(data, size);
	bool nul = size > 0 && memchr(data, 0, size) != NULL;

	FL_FUZZ_ASSERT(fl_utf8_valid_text(data, size) == (valid && !nul));
	check_headers(data, size);
	check_topic(data, size);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void) argc;
	(void) argv;
#define SEED(name, s) fl_fuzz_seed(name, (const uint8_t *) (s), sizeof(s) - 1)
	SEED("topic", "\x05plantplant/+/#");
	SEED("share", "\x10$share/group/a/+");
	SEED("system", "\x04$SYS#");
	SEED("headers", "\x01\x06\x0c"
					"fl.qos\x02"
					"1\x02"
					"a\x01\x02"
					"a\x00");
	SEED("utf8", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/+");
#undef SEED
	return 0;
}
