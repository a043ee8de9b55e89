/*-------------------------------------------------------------------------
 *
 * test_text.c
 *	  UTF-8, murmur2, the partitioner and CRC-32C.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/crc32c.h"
#include "fleetlog/murmur2.h"
#include "fleetlog/utf8.h"

/* Valid in each of the places where the fast path begins, ends or is left. */
static bool
utf8_everywhere(const char *s, size_t len, bool (*valid)(const uint8_t *, size_t))
{
	bool first = false;

	for (size_t before = 0; before <= 17; before++)
	{
		for (size_t after = 0; after <= 9; after += 3)
		{
			size_t total = before + len + after;
			uint8_t *copy = malloc(total > 0 ? total : 1);
			bool ok;

			memset(copy, 'a', total);
			memcpy(copy + before, s, len);
			ok = valid(copy, total);
			free(copy);
			if (before == 0 && after == 0)
				first = ok;
			else
				FL_CHECK_INT(ok, first);
		}
	}
	return first;
}

static size_t
utf8_encode(uint32_t cp, size_t width, char *out)
{
	static const uint8_t lead[] = {0, 0x00, 0xc0, 0xe0, 0xf0};

	for (size_t i = width; i-- > 1;)
	{
		out[i] = (char) (0x80 | (cp & 0x3f));
		cp >>= 6;
	}
	out[0] = (char) (lead[width] | cp);
	return width;
}

/* Every code point in every width in which it can be written at all. */
static void
test_utf8_every_code_point(void)
{
	static const uint32_t limit[] = {0, 0x80, 0x800, 0x10000, 0x200000};

	for (size_t width = 1; width <= 4; width++)
	{
		for (uint32_t cp = 0; cp < limit[width]; cp++)
		{
			char s[4];
			bool expected = cp >= limit[width - 1] && cp <= 0x10ffff && !(cp >= 0xd800 && cp <= 0xdfff);

			utf8_encode(cp, width, s);
			if (width == 1)
				expected = true;
			FL_CHECK_INT(fl_utf8_valid((uint8_t *) s, width), expected);
		}
	}
}

/* Every first and second byte, followed by two continuation bytes. */
static void
test_utf8_every_pair(void)
{
	for (int a = 0; a < 256; a++)
	{
		for (int b = 0; b < 256; b++)
		{
			uint8_t s[4] = {(uint8_t) a, (uint8_t) b, 0x80, 0x80};
			bool two = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
			bool three = (a == 0xe0 && b >= 0xa0 && b <= 0xbf) || (a == 0xed && b >= 0x80 && b <= 0x9f) ||
						 (a >= 0xe1 && a <= 0xef && a != 0xed && b >= 0x80 && b <= 0xbf);
			bool four = (a == 0xf0 && b >= 0x90 && b <= 0xbf) || (a == 0xf4 && b >= 0x80 && b <= 0x8f) ||
						(a >= 0xf1 && a <= 0xf3 && b >= 0x80 && b <= 0xbf);

			/* An ASCII byte in front leaves b to lead the sequence. */
			bool rest_two = a < 0x80 && b >= 0xc2 && b <= 0xdf;
			bool rest_three = a < 0x80 && b >= 0xe1 && b <= 0xef;

			FL_CHECK_INT(fl_utf8_valid(s, 2), two || (a < 0x80 && b < 0x80));
			FL_CHECK_INT(fl_utf8_valid(s, 3), three || rest_two);
			FL_CHECK_INT(fl_utf8_valid(s, 4), four || rest_three);
		}
	}
}

/* A reference written another way: decode, then look at the value. */
static bool
utf8_reference(const uint8_t *s, size_t len, bool nul_allowed)
{
	for (size_t i = 0; i < len;)
	{
		uint32_t cp = s[i];
		size_t n = cp < 0x80 ? 1 : cp < 0xc0 ? 0 : cp < 0xe0 ? 2 : cp < 0xf0 ? 3 : cp < 0xf8 ? 4 : 0;
		static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

		if (n == 0 || i + n > len)
			return false;
		if (n > 1)
			cp &= 0xff >> (n + 1);
		for (size_t k = 1; k < n; k++)
		{
			if ((s[i + k] & 0xc0) != 0x80)
				return false;
			cp = cp << 6 | (s[i + k] & 0x3f);
		}
		if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff) || (cp == 0 && !nul_allowed))
			return false;
		i += n;
	}
	return true;
}

static void
test_utf8_random_agrees_with_reference(void)
{
	static const uint8_t bytes[] = {0x00, 0x01, 'a',  0x7f, 0x80, 0x81, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1,
									0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};

	for (int i = 0; i < 300000; i++)
	{
		size_t len = fl_unit_random_below(24);
		uint8_t *s = malloc(len > 0 ? len : 1);

		for (size_t k = 0; k < len; k++)
			s[k] = fl_unit_random_below(3) > 0 ? (uint8_t) ('a' + fl_unit_random_below(20))
											   : bytes[fl_unit_random_below(sizeof(bytes))];
		FL_CHECK_INT(fl_utf8_valid(s, len), utf8_reference(s, len, true));
		FL_CHECK_INT(fl_utf8_valid_mqtt(s, len), utf8_reference(s, len, false));
		FL_CHECK_INT(fl_utf8_valid_text(s, len), utf8_reference(s, len, false));
		free(s);
	}
}

static void
test_utf8_boundaries(void)
{
#define UTF8(s, expected) FL_CHECK_INT(utf8_everywhere(s, sizeof(s) - 1, fl_utf8_valid), expected)
	UTF8("", true);
	UTF8("\xc2\x80", true);
	UTF8("\xdf\xbf", true);
	UTF8("\xe0\xa0\x80", true);
	UTF8("\xef\xbf\xbf", true);
	UTF8("\xed\x9f\xbf", true);
	UTF8("\xee\x80\x80", true);
	UTF8("\xf0\x90\x80\x80", true);
	UTF8("\xf4\x8f\xbf\xbf", true);
	UTF8("\xef\xbb\xbf", true); /* U+FEFF is no more than a character */
	UTF8("\xc0\x80", false);    /* overlong U+0000 */
	UTF8("\xc1\xbf", false);
	UTF8("\xe0\x9f\xbf", false);
	UTF8("\xf0\x8f\xbf\xbf", false);
	UTF8("\xed\xa0\x80", false); /* U+D800 */
	UTF8("\xed\xbf\xbf", false);
	UTF8("\xf4\x90\x80\x80", false); /* U+110000 */
	UTF8("\xf5\x80\x80\x80", false);
	UTF8("\xf8\x88\x80\x80\x80", false);
	UTF8("\x80", false);
	UTF8("\xff", false);
	UTF8("\xc2", false);
	UTF8("\xe2\x82", false);
	UTF8("\xf0\x9f\x98", false);
#undef UTF8
	FL_CHECK(fl_utf8_valid(NULL, 0));
	FL_CHECK(utf8_everywhere("\0", 1, fl_utf8_valid));
	FL_CHECK(!utf8_everywhere("\0", 1, fl_utf8_valid_mqtt));
	FL_CHECK(!utf8_everywhere("\0", 1, fl_utf8_valid_text));
	FL_CHECK(utf8_everywhere("\x01", 1, fl_utf8_valid_mqtt));
}

/* The vectors of Kafka's own UtilsTest.testMurmur2. */
static void
test_murmur2_kafka_vectors(void)
{
	static const struct
	{
		const char *key;
		int32_t hash;
	} vectors[] = {
		{"21", -973932308},
		{"foobar", -790332482},
		{"a-little-bit-long-string", -985981536},
		{"a-little-bit-longer-string", -1486304829},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
		{"abc", 479470107},
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
	{
		size_t len = strlen(vectors[i].key);
		uint8_t *copy = fl_unit_copy(vectors[i].key, len);

		FL_CHECK_INT((int32_t) fl_murmur2(copy, len), vectors[i].hash);
		FL_CHECK_INT(fl_partition(copy, len, 1000), (vectors[i].hash & 0x7fffffff) % 1000);
		free(copy);
	}
}

static void
test_partition_range(void)
{
	int seen[7] = {0};

	FL_CHECK_INT(fl_partition(NULL, 0, 1), 0);
	FL_CHECK_INT(fl_partition(NULL, 0, 16), (int) (fl_murmur2(NULL, 0) & 0x7fffffff) % 16);
	for (uint32_t i = 0; i < 70000; i++)
	{
		int shard = fl_partition((uint8_t *) &i, sizeof(i), 7);

		FL_REQUIRE(shard >= 0 && shard < 7);
		seen[shard]++;
	}
	for (int i = 0; i < 7; i++)
		FL_CHECK(seen[i] > 9000 && seen[i] < 11000);
}

/* RFC 3720, B.4, and the usual check value. */
static void
test_crc32c_known_values(void)
{
	uint8_t bytes[32];

	FL_CHECK_INT(fl_crc32c("123456789", 9), UINT32_C(0xE3069283));
	FL_CHECK_INT(fl_crc32c("", 0), 0);
	memset(bytes, 0, sizeof(bytes));
	FL_CHECK_INT(fl_crc32c(bytes, 32), UINT32_C(0x8A9136AA));
	memset(bytes, 0xff, sizeof(bytes));
	FL_CHECK_INT(fl_crc32c(bytes, 32), UINT32_C(0x62A8AB43));
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t) i;
	FL_CHECK_INT(fl_crc32c(bytes, 32), UINT32_C(0x46DD794E));
}

static void
test_crc32c_in_pieces(void)
{
	uint8_t bytes[300];
	uint32_t whole;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t) fl_unit_random();
	whole = fl_crc32c(bytes, sizeof(bytes));
	for (size_t cut = 0; cut <= sizeof(bytes); cut++)
	{
		uint32_t state = fl_crc32c_begin();

		state = fl_crc32c_add(state, bytes, cut);
		state = fl_crc32c_add(state, bytes + cut, sizeof(bytes) - cut);
		FL_CHECK_INT(fl_crc32c_end(state), whole);
	}
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_utf8_every_code_point);
	FL_RUN(test_utf8_every_pair);
	FL_RUN(test_utf8_random_agrees_with_reference);
	FL_RUN(test_utf8_boundaries);
	FL_RUN(test_murmur2_kafka_vectors);
	FL_RUN(test_partition_range);
	FL_RUN(test_crc32c_known_values);
	FL_RUN(test_crc32c_in_pieces);
	return fl_unit_end();
}
