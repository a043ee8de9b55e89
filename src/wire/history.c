/*-------------------------------------------------------------------------
 *
 * history.c
 *	  Reading and writing of history positions (history.h).
 *
 * The three forms are told apart by their beginning: a word; four digits and a
 * `-`, which is a time; digits alone, which are seconds; else places.  A name
 * that would look like one of the first is written with its first byte encoded,
 * so a text never has two meanings.
 *
 * Called by the MQTT front door; compiled alone for unit tests and the fuzzer.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/history.h"

#include <string.h>

#include "fleetlog/topic.h"

#define TOPIC_PREFIX     "$s/"
#define TOPIC_PREFIX_LEN 3
#define SHARE_PREFIX     "$share/"
#define SHARE_PREFIX_LEN 7

#define US_PER_SECOND    INT64_C(1000000)
#define SECONDS_PER_DAY  INT64_C(86400)
#define MAX_SECONDS      INT64_C(253402300799) /* the end of the year 9999 */

/* Text and how far it has been read. */
typedef struct Text
{
	const uint8_t *p;
	const uint8_t *end;
} Text;

static bool
is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool
is_letter(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
take(Text *t, uint8_t c)
{
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

/* All digits that follow, at least one; false when they are more than max. */
static bool
take_number(Text *t, int64_t max, int64_t *out)
{
	int64_t n = 0;

	if (t->p == t->end || !is_digit(*t->p))
		return false;
	for (; t->p < t->end && is_digit(*t->p); t->p++)
	{
		int digit = *t->p - '0';

		if (n > (max - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*out = n;
	return true;
}

/* ---- times ---- */

/* Exactly so many digits. */
static bool
take_digits(Text *t, int count, int *out)
{
	*out = 0;
	for (int i = 0; i < count; i++, t->p++)
	{
		if (t->p == t->end || !is_digit(*t->p))
			return false;
		*out = *out * 10 + (*t->p - '0');
	}
	return true;
}

/* `.` and digits, if they are there.  Finer than a microsecond is cut off: nothing is passed over thereby. */
static bool
take_fraction(Text *t, int64_t *us)
{
	int64_t unit = US_PER_SECOND / 10;

	*us = 0;
	if (!take(t, '.'))
		return true;
	if (t->p == t->end || !is_digit(*t->p))
		return false;
	for (; t->p < t->end && is_digit(*t->p); t->p++, unit /= 10)
		*us += unit * (*t->p - '0');
	return true;
}

static int
days_in_month(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* Days from 1970-01-01 to a day of the Gregorian calendar, whose years begin in March here. */
static int64_t
days_since_1970(int year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1;
	int64_t m = month > 2 ? month - 3 : month + 9;

	/* Years from -1 on: 400 of them make division of a positive number of it. */
	y += 400;
	return y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468 - 146097;
}

/* `Z` or the distance from UTC, in seconds. */
static bool
take_zone(Text *t, int *seconds)
{
	int hours;
	int minutes;
	bool west;

	*seconds = 0;
	if (take(t, 'Z') || take(t, 'z'))
		return true;
	west = t->p < t->end && *t->p == '-';
	if (!take(t, '+') && !take(t, '-'))
		return false;
	if (!take_digits(t, 2, &hours) || !take(t, ':') || !take_digits(t, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*seconds = (hours * 60 + minutes) * 60 * (west ? -1 : 1);
	return true;
}

static bool
parse_rfc3339(Text t, int64_t *unix_us)
{
	int year;
	int month;
	int day;
	int hour;
	int minute;
	int second;
	int zone;
	int64_t us;

	if (!take_digits(&t, 4, &year) || !take(&t, '-') || !take_digits(&t, 2, &month) || !take(&t, '-') ||
		!take_digits(&t, 2, &day) || !(take(&t, 'T') || take(&t, 't')) || !take_digits(&t, 2, &hour) ||
		!take(&t, ':') || !take_digits(&t, 2, &minute) || !take(&t, ':') || !take_digits(&t, 2, &second) ||
		!take_fraction(&t, &us) || !take_zone(&t, &zone) || t.p != t.end)
		return false;
	/* A leap second is the one after it. */
	if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 || minute > 59 ||
		second > 60)
		return false;
	*unix_us = (days_since_1970(year, month, day) * SECONDS_PER_DAY + (hour * 60 + minute) * 60 + second - zone) *
				   US_PER_SECOND +
			   us;
	return true;
}

static bool
parse_seconds(Text t, int64_t *unix_us)
{
	int64_t seconds;
	int64_t us;

	if (!take_number(&t, MAX_SECONDS, &seconds) || !take_fraction(&t, &us) || t.p != t.end)
		return false;
	*unix_us = seconds * US_PER_SECOND + us;
	return true;
}

/* ---- places ---- */

static int
hex_value(uint8_t c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A byte of a name; NUL is none.  The caller has seen that the name is well formed, or checks for -1. */
static int
take_name_byte(Text *t)
{
	int high;
	int low;

	if (!take(t, '%'))
		return *t->p++;
	if (t->end - t->p < 2)
		return -1;
	high = hex_value(t->p[0]);
	low = hex_value(t->p[1]);
	t->p += 2;
	return high < 0 || low < 0 || high * 16 + low == 0 ? -1 : high * 16 + low;
}

/* `name:`, if the place begins with a name. */
static bool
take_stream(Text *t, FlHistoryPlace *place)
{
	place->stream = t->p;
	place->stream_len = 0;
	if (t->p == t->end || !(is_letter(*t->p) || *t->p == '%'))
		return true;
	while (t->p < t->end && (is_letter(*t->p) || is_digit(*t->p) || *t->p == '.' || *t->p == '-' || *t->p == '%'))
		if (take_name_byte(t) < 0)
			return false;
	place->stream_len = (size_t) (t->p - place->stream);
	return take(t, ':');
}

static bool
take_place(Text *t, FlHistoryPlace *place)
{
	int64_t shard;
	int64_t epoch = -1;

	if (!take_stream(t, place) || !take_number(t, INT32_MAX, &shard) || !take(t, ':') ||
		!take_number(t, INT64_MAX, &place->offset))
		return false;
	if (take(t, '@') && !take_number(t, INT32_MAX, &epoch))
		return false;
	place->shard = (int32_t) shard;
	place->epoch = (int32_t) epoch;
	return true;
}

static FlResult
parse_places(Text t, FlHistoryFrom *from, const char **why)
{
	FlHistoryPlace place;

	from->places = t.p;
	from->places_len = (size_t) (t.end - t.p);
	do
	{
		if (from->place_count == FL_HISTORY_MAX_PLACES)
		{
			*why = "too many positions";
			return FL_TOO_LARGE;
		}
		if (!take_place(&t, &place))
			return FL_MALFORMED;
		from->place_count++;
		from->with_streams = from->with_streams || place.stream_len > 0;
	} while (take(&t, ','));
	return t.p == t.end ? FL_OK : FL_MALFORMED;
}

bool
fl_history_next(const FlHistoryFrom *from, FlHistoryCursor *at, FlHistoryPlace *place)
{
	Text t;

	if (from->kind != FL_HISTORY_PLACES || at->at >= from->places_len)
		return false;
	t.p = from->places + at->at;
	t.end = from->places + from->places_len;
	if (!take_place(&t, place))
		return false;
	(void) take(&t, ',');
	at->at = (size_t) (t.p - from->places);
	return true;
}

bool
fl_history_names(const FlHistoryPlace *place, const char *name)
{
	Text t = {place->stream, place->stream + place->stream_len};

	if (place->stream_len == 0)
		return false;
	for (; t.p < t.end; name++)
		if (*name == '\0' || take_name_byte(&t) != (uint8_t) *name)
			return false;
	return *name == '\0';
}

/* ---- the whole ---- */

FlResult
fl_history_parse(const uint8_t *text, size_t len, FlHistoryFrom *from, const char **why)
{
	static const char word[] = "beginning";
	Text t = {text, text + len};
	size_t digits = 0;

	memset(from, 0, sizeof(*from));
	*why = "not beginning, an RFC 3339 time, unix seconds, or <shard>:<offset>[@<epoch>],...";
	while (digits < len && is_digit(text[digits]))
		digits++;
	if (len == sizeof(word) - 1 && memcmp(text, word, len) == 0)
	{
		from->kind = FL_HISTORY_BEGINNING;
		return FL_OK;
	}
	from->kind = FL_HISTORY_TIME;
	if (digits == 4 && len > 4 && text[4] == '-')
	{
		*why = "not a time of RFC 3339";
		return parse_rfc3339(t, &from->unix_us) ? FL_OK : FL_MALFORMED;
	}
	if (digits > 0 && (digits == len || text[digits] == '.'))
		return parse_seconds(t, &from->unix_us) ? FL_OK : FL_MALFORMED;
	from->kind = FL_HISTORY_PLACES;
	return parse_places(t, from, why);
}

FlHistoryTopic
fl_history_topic_parse(const uint8_t *s, size_t len, FlHistoryFrom *from, size_t *skip, const char **why)
{
	const uint8_t *filter;
	const uint8_t *slash;
	size_t filter_len;

	if (len < TOPIC_PREFIX_LEN || memcmp(s, TOPIC_PREFIX, TOPIC_PREFIX_LEN) != 0)
		return FL_HISTORY_TOPIC_NONE;
	slash = memchr(s + TOPIC_PREFIX_LEN, '/', len - TOPIC_PREFIX_LEN);
	*why = "not $s/<from>/<filter>";
	if (slash == NULL)
		return FL_HISTORY_TOPIC_INVALID;
	filter = slash + 1;
	filter_len = len - (size_t) (filter - s);
	*skip = len - filter_len;
	if (!fl_topic_filter_valid(filter, filter_len) ||
		(filter_len >= TOPIC_PREFIX_LEN && memcmp(filter, TOPIC_PREFIX, TOPIC_PREFIX_LEN) == 0) ||
		(filter_len >= SHARE_PREFIX_LEN && memcmp(filter, SHARE_PREFIX, SHARE_PREFIX_LEN) == 0))
		return FL_HISTORY_TOPIC_INVALID;
	if (fl_history_parse(s + TOPIC_PREFIX_LEN, (size_t) (slash - s) - TOPIC_PREFIX_LEN, from, why) != FL_OK)
		return FL_HISTORY_TOPIC_INVALID;
	return FL_HISTORY_TOPIC_OK;
}

/* ---- writing ---- */

typedef struct Out
{
	char *p;
	char *end;
	bool failed;
} Out;

static void
put(Out *out, char c)
{
	if (out->p == out->end)
		out->failed = true;
	else
		*out->p++ = c;
}

static void
put_number(Out *out, int64_t n)
{
	char digits[20];
	int count = 0;

	do
		digits[count++] = (char) ('0' + n % 10);
	while ((n /= 10) != 0);
	while (count > 0)
		put(out, digits[--count]);
}

static void
put_name(Out *out, const char *name)
{
	static const char hex[] = "0123456789ABCDEF";

	for (const char *p = name; *p != '\0'; p++)
	{
		uint8_t c = (uint8_t) *p;

		if (is_letter(c) || (p > name && (is_digit(c) || c == '.' || c == '-')))
			put(out, *p);
		else
		{
			put(out, '%');
			put(out, hex[c >> 4]);
			put(out, hex[c & 15]);
		}
	}
	put(out, ':');
}

size_t
fl_history_format_place(char *out, size_t room, const char *name, int32_t shard, int64_t offset, int32_t epoch)
{
	Out to = {out, out + room, false};

	if (name != NULL)
		put_name(&to, name);
	put_number(&to, shard);
	put(&to, ':');
	put_number(&to, offset);
	if (epoch >= 0)
	{
		put(&to, '@');
		put_number(&to, epoch);
	}
	return to.failed ? 0 : (size_t) (to.p - out);
}
