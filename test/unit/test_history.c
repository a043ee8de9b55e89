/*-------------------------------------------------------------------------
 *
 * test_history.c
 *	  Positions as clients write them: every form, what is refused, the topic
 *	  form, and that what is written is read back.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include <time.h>

#include "fleetlog/history.h"
#include "fleetlog/topic.h"

static FlResult
parse(const char *text, FlHistoryFrom *from, const char **why, uint8_t **copy)
{
	size_t len = strlen(text);

	*copy = fl_unit_copy(text, len);
	return fl_history_parse(*copy, len, from, why);
}

static int64_t
time_of(const char *text)
{
	FlHistoryFrom from;
	const char *why;
	uint8_t *copy;
	FlResult result = parse(text, &from, &why, &copy);

	free(copy);
	return result == FL_OK && from.kind == FL_HISTORY_TIME ? from.unix_us : -1;
}

static bool
is_refused(const char *text)
{
	FlHistoryFrom from;
	const char *why = NULL;
	uint8_t *copy;
	FlResult result = parse(text, &from, &why, &copy);

	free(copy);
	return result == FL_MALFORMED && why != NULL && why[0] != '\0';
}

static void
test_beginning(void)
{
	FlHistoryFrom from;
	const char *why;
	uint8_t *copy;

	FL_CHECK(parse("beginning", &from, &why, &copy) == FL_OK && from.kind == FL_HISTORY_BEGINNING);
	free(copy);
	FL_CHECK(is_refused(""));
	FL_CHECK(is_refused("Beginning"));
	FL_CHECK(is_refused("beginnin"));
	FL_CHECK(is_refused("beginning "));
	FL_CHECK(is_refused("beginning,0:1"));
}

static void
test_times(void)
{
	static const struct
	{
		const char *text;
		int64_t expected;
	} good[] = {
		{"1970-01-01T00:00:00Z", 0},
		{"1970-01-01T00:00:00.000001Z", 1},
		{"1970-01-01T00:00:00.0000019Z", 1},
		{"1970-01-01t00:00:01.5z", 1500000},
		{"1970-01-01T01:00:00+01:00", 0},
		{"1969-12-31T23:30:00-00:30", 0},
		{"2000-02-29T00:00:00Z", INT64_C(951782400000000)},
		{"2026-12-01T23:15:00.123Z", INT64_C(1796166900123000)},
		{"2016-12-31T23:59:60Z", INT64_C(1483228800000000)},
		{"9999-12-31T23:59:59Z", INT64_C(253402300799000000)},
		{"0", 0},
		{"1796166900", INT64_C(1796166900000000)},
		{"1796166900.25", INT64_C(1796166900250000)},
		{"253402300799", INT64_C(253402300799000000)},
	};
	static const char *const bad[] = {
		"2026-12-01",				 "2026-12-01T23:15:00",	  "2026-12-01 23:15:00Z",	  "2026-13-01T00:00:00Z",
		"2026-00-01T00:00:00Z",		 "2026-02-29T00:00:00Z",  "2026-04-31T00:00:00Z",	  "2026-01-00T00:00:00Z",
		"2026-12-01T24:00:00Z",		 "2026-12-01T23:60:00Z",  "2026-12-01T23:15:61Z",	  "2026-12-01T23:15:00.Z",
		"2026-12-01T23:15:00+1:00",	 "2026-12-01T23:15:00+0100", "2026-12-01T23:15:00+24:00", "2026-12-01T23:15:00Z ",
		"2026-12-01T23:15:00ZZ",	 "1900-02-29T00:00:00Z",  "26-12-01T23:15:00Z",		  "1796166900.",
		"1796166900.2x",			 "-1",					  "+1",						  "253402300800",
		"99999999999999999999999999", "1.2.3",				  "12a",					  "0x10",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!FL_CHECK_INT(time_of(good[i].text), good[i].expected))
			printf("# %s\n", good[i].text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!FL_CHECK(is_refused(bad[i])))
			printf("# %s\n", bad[i]);
}

/* Every day of four centuries, against the C library. */
static void
test_calendar(void)
{
	for (int64_t day = -146097; day < 146097; day++)
	{
		time_t t = (time_t) (day * 86400);
		struct tm tm;
		char text[64];

		gmtime_r(&t, &tm);
		strftime(text, sizeof(text), "%Y-%m-%dT00:00:00Z", &tm);
		FL_CHECK_INT(time_of(text), day * INT64_C(86400000000));
	}
}

static void
test_places(void)
{
	FlHistoryFrom from;
	FlHistoryCursor at = {0};
	FlHistoryPlace place;
	const char *why;
	uint8_t *copy;

	FL_REQUIRE(parse("0:17@2,1:5,tele.metry-1:2:9223372036854775807@2147483647,%32a%2Fb:3:0", &from, &why, &copy) ==
			   FL_OK);
	FL_CHECK(from.kind == FL_HISTORY_PLACES && from.with_streams);
	FL_CHECK_INT(from.place_count, 4);
	FL_CHECK(fl_history_next(&from, &at, &place) && place.stream_len == 0 && place.shard == 0 && place.offset == 17 &&
			 place.epoch == 2 && !fl_history_names(&place, ""));
	FL_CHECK(fl_history_next(&from, &at, &place) && place.shard == 1 && place.offset == 5 && place.epoch == -1);
	FL_CHECK(fl_history_next(&from, &at, &place) && fl_history_names(&place, "tele.metry-1") && place.shard == 2 &&
			 place.offset == INT64_MAX && place.epoch == INT32_MAX);
	FL_CHECK(!fl_history_names(&place, "tele.metry-") && !fl_history_names(&place, "tele.metry-12"));
	FL_CHECK(fl_history_next(&from, &at, &place) && fl_history_names(&place, "2a/b") && place.shard == 3);
	FL_CHECK(!fl_history_next(&from, &at, &place));
	free(copy);
	FL_CHECK(parse("5:6", &from, &why, &copy) == FL_OK && !from.with_streams);
	free(copy);
}

static void
test_bad_places(void)
{
	static const char *const bad[] = {
		"0:",	 ":5",	   "0:5,",	  ",0:5",	"0:5,,1:5", "0:-1",	  "-1:0",  "0:9223372036854775808",
		"2147483648:0", "0:5@", "0:5@2147483648", "0:5@x", "0 :5",	 "0:5 ",   "a:0",  "a:b:0",
		"a:0:",	 "a%:0:5", "a%2:0:5", "a%zz:0:5", "%00:0:5",	"2a:0:5", "a b:0:5", "0:5;1:5",
		"a::5",	 "0:5@1@2", "0:1:2:3", ".a:0:5",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!FL_CHECK(is_refused(bad[i])))
			printf("# %s\n", bad[i]);
}

static void
test_many_places(void)
{
	size_t room = (FL_HISTORY_MAX_PLACES + 1) * 4;
	char *text = malloc(room + 1);
	FlHistoryFrom from;
	const char *why;

	for (size_t i = 0; i <= FL_HISTORY_MAX_PLACES; i++)
		memcpy(text + i * 4, "0:5,", 5);
	FL_CHECK(fl_history_parse((uint8_t *) text, room - 5, &from, &why) == FL_OK);
	FL_CHECK_INT(from.place_count, FL_HISTORY_MAX_PLACES);
	FL_CHECK(fl_history_parse((uint8_t *) text, room - 1, &from, &why) == FL_TOO_LARGE);
	free(text);
}

/* Whatever bytes a name has, it is read back as it was, and never taken for another form. */
static void
test_written_places(void)
{
	char text[FL_HISTORY_PLACE_MAX];
	char name[64];
	FlHistoryFrom from;
	FlHistoryCursor at;
	FlHistoryPlace place;
	const char *why;

	for (int round = 0; round < 100000; round++)
	{
		int len = 1 + (int) (fl_unit_random() % 63);
		int64_t offset = (int64_t) (fl_unit_random() >> (1 + fl_unit_random() % 63));
		int32_t shard = (int32_t) (fl_unit_random() % 256);
		int32_t epoch = (int32_t) (fl_unit_random() % 5) - 1;
		bool named = fl_unit_random() % 4 > 0;
		size_t n;

		for (int i = 0; i < len; i++)
			name[i] = fl_unit_random() % 2 ? "a-.0T_:,@%/Z"[fl_unit_random() % 12] : (char) (1 + fl_unit_random() % 255);
		name[len] = '\0';
		n = fl_history_format_place(text, sizeof(text), named ? name : NULL, shard, offset, epoch);
		FL_REQUIRE(n > 0);
		FL_REQUIRE(fl_history_parse((uint8_t *) text, n, &from, &why) == FL_OK && from.kind == FL_HISTORY_PLACES);
		at.at = 0;
		FL_REQUIRE(fl_history_next(&from, &at, &place));
		FL_CHECK(place.shard == shard && place.offset == offset && place.epoch == epoch);
		FL_CHECK(named ? fl_history_names(&place, name) : place.stream_len == 0);
		FL_CHECK_INT(fl_history_format_place(text, n - 1, named ? name : NULL, shard, offset, epoch), 0);
	}
}

static FlHistoryTopic
topic(const char *text, FlHistoryFrom *from, const char **rest)
{
	size_t len = strlen(text);
	uint8_t *copy = fl_unit_copy(text, len);
	const char *why = NULL;
	size_t skip = 0;
	FlHistoryTopic result = fl_history_topic_parse(copy, len, from, &skip, &why);

	FL_CHECK(result != FL_HISTORY_TOPIC_INVALID || why != NULL);
	*rest = text + skip;
	free(copy);
	return result;
}

static void
test_topics(void)
{
	static const char *const bad[] = {"$s/",
									  "$s/beginning",
									  "$s/beginning/",
									  "$s//a",
									  "$s/a/b",
									  "$s/beginning/a/#/b",
									  "$s/beginning/$s/beginning/a",
									  "$s/beginning/$share/g/a",
									  "$s/+/a",
									  "$s/0:/a"};
	FlHistoryFrom from;
	const char *rest;

	FL_CHECK(topic("$s/beginning/a/#", &from, &rest) == FL_HISTORY_TOPIC_OK && strcmp(rest, "a/#") == 0);
	FL_CHECK(topic("$s/1796166900/a", &from, &rest) == FL_HISTORY_TOPIC_OK && strcmp(rest, "a") == 0 &&
			 from.unix_us == INT64_C(1796166900000000));
	FL_CHECK(topic("$s/0:5@1,1:6//", &from, &rest) == FL_HISTORY_TOPIC_OK && strcmp(rest, "/") == 0 &&
			 from.place_count == 2);
	FL_CHECK(topic("$s/2026-12-01T23:15:00Z/+/b", &from, &rest) == FL_HISTORY_TOPIC_OK && strcmp(rest, "+/b") == 0);
	FL_CHECK(topic("$s", &from, &rest) == FL_HISTORY_TOPIC_NONE);
	FL_CHECK(topic("$sys/a", &from, &rest) == FL_HISTORY_TOPIC_NONE);
	FL_CHECK(topic("a/$s/beginning/b", &from, &rest) == FL_HISTORY_TOPIC_NONE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!FL_CHECK(topic(bad[i], &from, &rest) == FL_HISTORY_TOPIC_INVALID))
			printf("# %s\n", bad[i]);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_beginning);
	FL_RUN(test_times);
	FL_RUN(test_calendar);
	FL_RUN(test_places);
	FL_RUN(test_bad_places);
	FL_RUN(test_many_places);
	FL_RUN(test_written_places);
	FL_RUN(test_topics);
	return fl_unit_end();
}
