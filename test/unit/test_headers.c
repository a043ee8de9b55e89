/*-------------------------------------------------------------------------
 *
 * test_headers.c
 *	  The header list: golden bytes, round trips, limits, malformed input.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/headers.h"

#define VALID(bytes, len) fl_headers_validate((const uint8_t *) (bytes), len)

static void
test_golden_bytes(void)
{
	static const char expected[] = "\x01\x06" /* 1 reserved, 3 headers */
								   "\x0c"
								   "fl.qos"
								   "\x02"
								   "1"
								   "\x02"
								   "a"
								   "\x01" /* NULL */
								   "\x02"
								   "a"
								   "\x00"; /* empty */
	FlBuf buf;
	FlHeadersBuilder b;

	fl_buf_init(&buf, NULL, 1000);
	fl_write_bytes(&buf, "xyz", 3);
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add_reserved(&b, "fl.qos", 6, "1", 1);
	fl_headers_builder_add(&b, "a", 1, NULL, -1);
	fl_headers_builder_add(&b, "a", 1, "", 0);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_OK);
	FL_CHECK_INT(b.start, 3);
	FL_CHECK_BYTES(buf.data + 3, buf.len - 3, expected, sizeof(expected) - 1);

	/* The same with a header of ours that is encoded already, and it keeps the order. */
	buf.len = 3;
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add_encoded(&b, (const uint8_t *) "\x0c" "fl.qos" "\x02" "1", 9, 1);
	fl_headers_builder_add(&b, "a", 1, NULL, -1);
	fl_headers_builder_add(&b, "a", 1, "", 0);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_OK);
	FL_CHECK_BYTES(buf.data + 3, buf.len - 3, expected, sizeof(expected) - 1);
	buf.len = 3;
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add(&b, "a", 1, NULL, -1);
	fl_headers_builder_add_encoded(&b, (const uint8_t *) "\x0c" "fl.qos" "\x02" "1", 9, 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_MALFORMED);
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add_encoded(&b, (const uint8_t *) "", 0, FL_HEADERS_MAX_RESERVED + 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_TOO_LARGE);
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add_encoded(&b, (const uint8_t *) "\x0c" "fl.qos" "\x02" "1", 9, 1);
	fl_headers_builder_add(&b, "a", 1, NULL, -1);
	fl_headers_builder_add(&b, "a", 1, "", 0);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_OK);
	FL_CHECK_INT(fl_headers_validate(buf.data + 3, buf.len - 3), FL_OK);
	FL_CHECK_INT(fl_headers_validate_kafka(1, buf.data + 4, buf.len - 4), FL_OK);
	fl_buf_free(&buf);

	FL_CHECK_INT(fl_headers_validate(fl_headers_empty, FL_HEADERS_EMPTY_SIZE), FL_OK);
}

/* Lists of every length round trip, through both sizes of the count. */
static void
test_round_trip_of_every_count(void)
{
	for (int count = 0; count <= FL_HEADERS_MAX_COUNT; count++)
	{
		int reserved = count % (FL_HEADERS_MAX_RESERVED + 1);
		FlBuf buf;
		FlHeadersBuilder b;
		FlHeaderIter it;
		FlHeader h;
		uint8_t *copy;
		int seen = 0;

		if (count > 200 && count < FL_HEADERS_MAX_COUNT && count % 37 != 0)
			continue;
		fl_buf_init(&buf, NULL, 1 << 20);
		fl_headers_builder_begin(&b, &buf);
		for (int i = 0; i < count; i++)
		{
			char name[20];
			uint8_t value[300];
			int name_len = snprintf(name, sizeof(name), "n%d", i % 50);

			memset(value, i, sizeof(value));
			if (i < reserved)
				fl_headers_builder_add_reserved(&b, name, (size_t) name_len, value, i % 301 - 1);
			else
				fl_headers_builder_add(&b, name, (size_t) name_len, value, i % 301 - 1);
		}
		FL_CHECK_INT(fl_headers_builder_end(&b), FL_OK);

		copy = fl_unit_copy(buf.data, buf.len);
		FL_CHECK_INT(fl_headers_validate(copy, buf.len), FL_OK);
		fl_header_iter_init(&it, copy, buf.len);
		FL_CHECK_INT(it.count, count);
		while (fl_header_iter_next(&it, &h))
		{
			char name[20];
			int name_len = snprintf(name, sizeof(name), "n%d", seen % 50);

			FL_CHECK_BYTES(h.name, (size_t) h.name_len, name, (size_t) name_len);
			FL_CHECK_INT(h.value_len, seen % 301 - 1);
			FL_CHECK((h.value == NULL) == (h.value_len == -1));
			for (int i = 0; i < h.value_len; i++)
				FL_REQUIRE(h.value[i] == (uint8_t) seen);
			FL_CHECK_INT(h.index, seen);
			FL_CHECK_INT(h.is_reserved, seen < reserved);
			seen++;
		}
		FL_CHECK_INT(it.result, FL_OK);
		FL_CHECK_INT(seen, count);
		free(copy);
		fl_buf_free(&buf);
	}
}

static void
test_builder_limits(void)
{
	FlBuf buf;
	FlHeadersBuilder b;
	static char name[FL_HEADERS_MAX_NAME + 1];

	fl_buf_init(&buf, NULL, 1 << 20);
	memset(name, 'n', sizeof(name));

	fl_headers_builder_begin(&b, &buf);
	for (int i = 0; i <= FL_HEADERS_MAX_COUNT; i++)
		fl_headers_builder_add(&b, "n", 1, "v", 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_TOO_LARGE);
	FL_CHECK_INT(buf.len, 0);

	fl_headers_builder_begin(&b, &buf);
	for (int i = 0; i <= FL_HEADERS_MAX_RESERVED; i++)
		fl_headers_builder_add_reserved(&b, "n", 1, "v", 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_TOO_LARGE);

	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add(&b, name, FL_HEADERS_MAX_NAME, "v", 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_OK);
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add(&b, name, FL_HEADERS_MAX_NAME + 1, "v", 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_TOO_LARGE);
	FL_CHECK_INT(buf.len, b.start);

	/* Ours must come first. */
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add(&b, "n", 1, "v", 1);
	fl_headers_builder_add_reserved(&b, "n", 1, "v", 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_MALFORMED);

	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add(&b, "\xff", 1, "v", 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_MALFORMED);
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add(&b, "a\0b", 3, "v", 1);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_MALFORMED);
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add(&b, "a", 1, "v", -2);
	FL_CHECK_INT(fl_headers_builder_end(&b), FL_MALFORMED);
	fl_buf_free(&buf);

	/* A buffer of every size that is too small, and the first that is not. */
	for (size_t max = 0; max <= 10; max++)
	{
		fl_buf_init(&buf, NULL, max);
		fl_headers_builder_begin(&b, &buf);
		fl_headers_builder_add(&b, "abc", 3, "def", 3);
		FL_CHECK_INT(fl_headers_builder_end(&b), max < 10 ? FL_TOO_LARGE : FL_OK);
		FL_CHECK_INT(buf.len, max < 10 ? 0 : 10);
		fl_buf_free(&buf);
	}
}

static void
test_malformed(void)
{
	FL_CHECK_INT(VALID("", 0), FL_MALFORMED);
	FL_CHECK_INT(VALID("\0", 1), FL_MALFORMED);
	FL_CHECK_INT(VALID("\0\0", 2), FL_OK);
	FL_CHECK_INT(VALID("\0\0\0", 3), FL_MALFORMED); /* left over */
	FL_CHECK_INT(VALID("\0\1", 2), FL_MALFORMED);   /* count -1 */
	FL_CHECK_INT(VALID("\1\0", 2), FL_MALFORMED);   /* more reserved than there are */
	FL_CHECK_INT(VALID("\0\2\2a\0", 5), FL_OK);
	FL_CHECK_INT(VALID("\1\2\2a\0", 5), FL_OK);
	FL_CHECK_INT(VALID("\2\2\2a\0", 5), FL_MALFORMED);
	FL_CHECK_INT(VALID("\x80\2\2a\0", 5), FL_MALFORMED);
	FL_CHECK_INT(VALID("\0\2\1\0", 4), FL_MALFORMED);               /* name length -1 */
	FL_CHECK_INT(VALID("\0\2\0\0", 4), FL_OK);                      /* empty name and value */
	FL_CHECK_INT(VALID("\0\2\0\3", 4), FL_MALFORMED);               /* value length -2 */
	FL_CHECK_INT(VALID("\0\2\0\1", 4), FL_OK);                      /* NULL */
	FL_CHECK_INT(VALID("\0\2\2\xff\0", 5), FL_MALFORMED);           /* not UTF-8 */
	FL_CHECK_INT(VALID("\0\2\2\0\0", 5), FL_MALFORMED);             /* U+0000 */
	FL_CHECK_INT(VALID("\0\2\2a\2", 5), FL_MALFORMED);              /* value beyond the end */
	FL_CHECK_INT(VALID("\0\xfe\xff\xff\xff\x0f", 6), FL_TOO_LARGE); /* count 2^31 - 1 */
	FL_CHECK_INT(VALID("\0\x82\x10\0\0", 5), FL_TOO_LARGE);         /* count 1025 */
	FL_CHECK_INT(VALID("\0\x80\x10\0\0", 5), FL_MALFORMED);         /* count 1024, one there */
	FL_CHECK_INT(VALID("\0\2\xfe\xff\xff\xff\x0f", 7), FL_MALFORMED);
}

static void
test_every_truncation_and_flip(void)
{
	FlBuf buf;
	FlHeadersBuilder b;

	fl_buf_init(&buf, NULL, 1000);
	fl_headers_builder_begin(&b, &buf);
	fl_headers_builder_add_reserved(&b, "content-type", 12, "text/plain", 10);
	for (int i = 0; i < 70; i++)
		fl_headers_builder_add(&b, "k", 1, "value", i % 7 - 1);
	FL_REQUIRE(fl_headers_builder_end(&b) == FL_OK);

	for (size_t len = 0; len < buf.len; len++)
	{
		uint8_t *copy = fl_unit_copy(buf.data, len);

		FL_CHECK_INT(fl_headers_validate(copy, len), FL_MALFORMED);
		free(copy);
	}
	for (int i = 0; i < 200000; i++)
	{
		uint8_t *copy = fl_unit_copy(buf.data, buf.len);
		FlHeaderIter it;
		FlHeader h;
		volatile unsigned sum = 0;

		for (uint32_t n = fl_unit_random_below(4) + 1; n > 0; n--)
			copy[fl_unit_random_below((uint32_t) buf.len)] = (uint8_t) fl_unit_random();
		fl_headers_validate(copy, buf.len);
		fl_header_iter_init(&it, copy, buf.len);
		while (fl_header_iter_next(&it, &h))
		{
			for (int k = 0; k < h.name_len; k++)
				sum += h.name[k];
			for (int k = 0; k < h.value_len; k++)
				sum += h.value[k];
		}
		/* Newer compilers want a variable that is written to be read as well. */
		(void) sum;
		free(copy);
	}
	fl_buf_free(&buf);
}

static void
test_find_reserved(void)
{
	static const uint8_t list[] = "\x02\x08"
								  "\x02"
								  "a"
								  "\x02"
								  "1"
								  "\x04"
								  "bb"
								  "\x02"
								  "2"
								  "\x02"
								  "a"
								  "\x02"
								  "3"
								  "\x02"
								  "c"
								  "\x02"
								  "4";
	FlHeader h;

	FL_REQUIRE(fl_headers_find_reserved(list, sizeof(list) - 1, "a", &h));
	FL_CHECK_BYTES(h.value, (size_t) h.value_len, "1", 1);
	FL_REQUIRE(fl_headers_find_reserved(list, sizeof(list) - 1, "bb", &h));
	FL_CHECK_BYTES(h.value, (size_t) h.value_len, "2", 1);
	FL_CHECK_INT(h.index, 1);
	FL_CHECK(!fl_headers_find_reserved(list, sizeof(list) - 1, "c", &h));
	FL_CHECK(!fl_headers_find_reserved(list, sizeof(list) - 1, "b", &h));
	FL_CHECK(!fl_headers_find_reserved(list, sizeof(list) - 1, "", &h));
	FL_CHECK(!fl_headers_find_reserved(fl_headers_empty, FL_HEADERS_EMPTY_SIZE, "a", &h));
	FL_CHECK(!fl_headers_find_reserved(NULL, 0, "a", &h));
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_golden_bytes);
	FL_RUN(test_round_trip_of_every_count);
	FL_RUN(test_builder_limits);
	FL_RUN(test_malformed);
	FL_RUN(test_every_truncation_and_flip);
	FL_RUN(test_find_reserved);
	return fl_unit_end();
}
