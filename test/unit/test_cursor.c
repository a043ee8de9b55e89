/*-------------------------------------------------------------------------
 *
 * test_cursor.c
 *	  FlReader and FlBuf: every width, every end, every limit.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

static void
test_fixed_width_round_trip(void)
{
	FlBuf b;
	FlReader r;

	fl_buf_init(&b, NULL, SIZE_MAX);
	fl_write_u8(&b, 0x01);
	fl_write_be16(&b, 0x0203);
	fl_write_be32(&b, 0x04050607);
	fl_write_be64(&b, UINT64_C(0x08090a0b0c0d0e0f));
	fl_write_le16(&b, 0x1110);
	fl_write_le32(&b, 0x15141312);
	fl_write_le64(&b, UINT64_C(0x1d1c1b1a19181716));
	FL_CHECK(!b.failed);
	FL_CHECK_INT(b.len, 29);
	/* Written in order of value, the bytes must count up. */
	for (size_t i = 0; i < b.len; i++)
		FL_CHECK_INT(b.data[i], i + 1);

	fl_reader_init(&r, b.data, b.len);
	FL_CHECK_INT(fl_read_u8(&r), 0x01);
	FL_CHECK_INT(fl_read_be16(&r), 0x0203);
	FL_CHECK_INT(fl_read_be32(&r), 0x04050607);
	FL_CHECK(fl_read_be64(&r) == UINT64_C(0x08090a0b0c0d0e0f));
	FL_CHECK_INT(fl_read_le16(&r), 0x1110);
	FL_CHECK_INT(fl_read_le32(&r), 0x15141312);
	FL_CHECK(fl_read_le64(&r) == UINT64_C(0x1d1c1b1a19181716));
	FL_CHECK(!r.failed);
	FL_CHECK_INT(fl_reader_left(&r), 0);
	FL_CHECK_INT(fl_read_u8(&r), 0);
	FL_CHECK(r.failed);
	fl_buf_free(&b);
}

static void
test_reader_failure_is_sticky(void)
{
	uint8_t *data = fl_unit_copy("abcdefg", 7);
	FlReader r;

	fl_reader_init(&r, data, 7);
	FL_CHECK(fl_read_be64(&r) == 0);
	FL_CHECK(r.failed);
	FL_CHECK(fl_read_bytes(&r, 1) == NULL);
	FL_CHECK(fl_read_bytes(&r, 0) == NULL);
	FL_CHECK_INT(fl_read_varint(&r), 0);
	FL_CHECK_INT(fl_reader_left(&r), 7);

	fl_reader_init(&r, NULL, 0);
	FL_CHECK(fl_read_bytes(&r, 0) != NULL);
	FL_CHECK(!r.failed);
	FL_CHECK(fl_read_bytes(&r, SIZE_MAX) == NULL);
	FL_CHECK(r.failed);
	free(data);
}

static void
check_varlong(int64_t v)
{
	uint8_t bytes[FL_VARLONG_MAX];
	size_t n = (size_t) (fl_put_varlong(bytes, v) - bytes);
	uint8_t *copy = fl_unit_copy(bytes, n);
	FlReader r;

	FL_CHECK_INT(fl_varlong_size(v), n);
	fl_reader_init(&r, copy, n);
	FL_CHECK_INT(fl_read_varlong(&r), v);
	FL_CHECK(!r.failed && fl_reader_left(&r) == 0);

	fl_reader_init(&r, copy, n);
	if (v >= INT32_MIN && v <= INT32_MAX)
	{
		FL_CHECK_INT(fl_read_varint(&r), v);
		FL_CHECK(!r.failed && fl_reader_left(&r) == 0);
		FL_CHECK(fl_varint_size((int32_t) v) == n && n <= FL_VARINT_MAX);
	}
	else
	{
		fl_read_varint(&r);
		FL_CHECK(r.failed);
	}

	for (size_t cut = 0; cut < n; cut++)
	{
		uint8_t *part = fl_unit_copy(bytes, cut);

		fl_reader_init(&r, part, cut);
		FL_CHECK_INT(fl_read_varlong(&r), 0);
		FL_CHECK(r.failed);
		free(part);
	}
	free(copy);
}

static void
test_varint_boundaries(void)
{
	for (int shift = 0; shift < 64; shift++)
	{
		int64_t v = (int64_t) (UINT64_C(1) << shift);

		for (int64_t d = -2; d <= 2; d++)
		{
			check_varlong((int64_t) ((uint64_t) v + (uint64_t) d));
			check_varlong((int64_t) (0 - (uint64_t) v + (uint64_t) d));
		}
	}
	check_varlong(INT32_MAX);
	check_varlong(INT32_MIN);
	check_varlong(INT64_MAX);
	check_varlong(INT64_MIN);
	for (int i = 0; i < 100000; i++)
		check_varlong((int64_t) (fl_unit_random() >> fl_unit_random_below(64)));
}

/* From Kafka's protocol guide: 0 -1 1 -2 2 ... are 0 1 2 3 4 ... */
static void
test_varint_known_bytes(void)
{
	static const struct
	{
		int64_t value;
		const char *bytes;
		size_t len;
	} known[] = {
		{0, "\x00", 1},
		{-1, "\x01", 1},
		{1, "\x02", 1},
		{63, "\x7e", 1},
		{-64, "\x7f", 1},
		{64, "\x80\x01", 2},
		{-65, "\x81\x01", 2},
		{8191, "\xfe\x7f", 2},
		{8192, "\x80\x80\x01", 3},
		{INT32_MAX, "\xfe\xff\xff\xff\x0f", 5},
		{INT32_MIN, "\xff\xff\xff\xff\x0f", 5},
		{INT64_MAX, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
		{INT64_MIN, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		FlBuf b;

		fl_buf_init(&b, NULL, 100);
		fl_write_varlong(&b, known[i].value);
		FL_CHECK_BYTES(b.data, b.len, known[i].bytes, known[i].len);
		fl_buf_free(&b);
	}
}

static void
test_varint_overlong_is_refused(void)
{
	static const struct
	{
		const char *bytes;
		size_t len;
		bool ok32;
		bool ok64;
	} cases[] = {
		{"\x80\x00", 2, true, true}, /* padded, still in width */
		{"\x80\x80\x80\x80\x00", 5, true, true},
		{"\xff\xff\xff\xff\x0f", 5, true, true},
		{"\xff\xff\xff\xff\x10", 5, false, true}, /* bit 33 */
		{"\xff\xff\xff\xff\x7f", 5, false, true},
		{"\x80\x80\x80\x80\x80\x00", 6, false, true},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 10, false, true},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, false, true},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, false, false},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint8_t *copy = fl_unit_copy(cases[i].bytes, cases[i].len);
		FlReader r;

		fl_reader_init(&r, copy, cases[i].len);
		fl_read_varint(&r);
		FL_CHECK_INT(!r.failed, cases[i].ok32);
		fl_reader_init(&r, copy, cases[i].len);
		fl_read_varlong(&r);
		FL_CHECK_INT(!r.failed, cases[i].ok64);
		free(copy);
	}
}

static void
test_buffer_never_exceeds_its_limit(void)
{
	for (size_t max = 0; max < 600; max++)
	{
		FlBuf b;

		fl_buf_init(&b, NULL, max);
		for (size_t i = 0; i < max; i++)
			fl_write_u8(&b, (uint8_t) i);
		FL_CHECK(!b.failed);
		FL_CHECK_INT(b.len, max);
		FL_CHECK(b.cap <= max);
		fl_write_u8(&b, 1);
		FL_CHECK(b.failed);
		FL_CHECK_INT(b.len, max);
		fl_write_bytes(&b, "x", 1);
		FL_CHECK_INT(b.len, max);
		FL_CHECK(fl_buf_reserve(&b, 0) == NULL);

		fl_buf_reset(&b);
		FL_CHECK(!b.failed);
		FL_CHECK(fl_buf_reserve(&b, max) != NULL);
		FL_CHECK(fl_buf_reserve(&b, max + 1) == NULL);
		fl_buf_reset(&b);
		FL_CHECK(fl_buf_reserve(&b, SIZE_MAX) == NULL);
		fl_buf_free(&b);
		FL_CHECK(b.data == NULL && b.len == 0 && !b.failed);
	}
}

static void
test_buffer_write_is_all_or_nothing(void)
{
	FlBuf b;

	fl_buf_init(&b, NULL, 10);
	fl_write_be64(&b, 1);
	fl_write_be32(&b, 2);
	FL_CHECK(b.failed);
	FL_CHECK_INT(b.len, 8);
	fl_buf_free(&b);
}

static void
test_buffer_over_fixed_memory(void)
{
	uint8_t *memory = malloc(10);
	FlBuf b;

	fl_buf_init_fixed(&b, memory, 10);
	fl_write_be64(&b, 7);
	fl_write_be16(&b, 8);
	FL_CHECK(!b.failed && b.data == memory);
	FL_CHECK(fl_buf_reserve(&b, 0) != NULL);
	fl_write_u8(&b, 1);
	FL_CHECK(b.failed && b.len == 10);
	fl_buf_free(&b);
	FL_CHECK(fl_buf_reserve(&b, 1) == NULL);
	free(memory);
}

/* An allocator that fails on request and counts what it gave. */
static int test_alloc_left;
static size_t test_alloc_old_size;

static void *
test_realloc(void *ctx, void *old, size_t old_size, size_t new_size)
{
	(void) ctx;
	test_alloc_old_size = old_size;
	return test_alloc_left-- > 0 ? realloc(old, new_size) : NULL;
}

static void
test_free(void *ctx, void *p)
{
	(*(int *) ctx)++;
	free(p);
}

static void
test_buffer_survives_lack_of_memory(void)
{
	int frees = 0;
	FlAllocator alloc = {test_realloc, test_free, &frees};
	FlBuf b;

	fl_buf_init(&b, &alloc, SIZE_MAX);
	test_alloc_left = 2;
	while (!b.failed)
		fl_write_be64(&b, b.len);
	FL_CHECK_INT(b.len, 512);
	FL_CHECK_INT(test_alloc_old_size, 512);
	for (size_t i = 0; i < b.len; i += 8)
		FL_CHECK_INT(fl_get_be64(b.data + i), i);
	fl_buf_free(&b);
	fl_buf_free(&b);
	FL_CHECK_INT(frees, 1);
}

static void
test_result_names(void)
{
	FL_CHECK(strcmp(fl_result_name(FL_OK), "ok") == 0);
	FL_CHECK(strcmp(fl_result_name(FL_INCOMPLETE), "incomplete") == 0);
	FL_CHECK(strcmp(fl_result_name(FL_MALFORMED), "malformed") == 0);
	FL_CHECK(strcmp(fl_result_name(FL_TOO_LARGE), "too large") == 0);
	FL_CHECK(strcmp(fl_result_name(FL_UNSUPPORTED), "unsupported") == 0);
	FL_CHECK(strcmp(fl_result_name((FlResult) 99), "unknown") == 0);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_fixed_width_round_trip);
	FL_RUN(test_reader_failure_is_sticky);
	FL_RUN(test_varint_boundaries);
	FL_RUN(test_varint_known_bytes);
	FL_RUN(test_varint_overlong_is_refused);
	FL_RUN(test_buffer_never_exceeds_its_limit);
	FL_RUN(test_buffer_write_is_all_or_nothing);
	FL_RUN(test_buffer_over_fixed_memory);
	FL_RUN(test_buffer_survives_lack_of_memory);
	FL_RUN(test_result_names);
	return fl_unit_end();
}
