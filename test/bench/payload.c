/*-------------------------------------------------------------------------
 *
 * payload.c
 *		What the messages say.
 *
 * Every payload begins with a stamp: the time it counts from, the number of
 * its connection and its place in that connection's sequence.  A subscriber
 * reads the stamp back, and a checker can find each message in a table.  What
 * follows is made by a generator seeded with just these, so that a message
 * sent again has the same bytes, while no two messages are equal: a reading
 * whose values wander as a device's do, or noise.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <string.h>

static const char stamp_begin[] = "{\"t\":";

uint64_t
fl_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static char *
put_text(char *at, const char *s)
{
	size_t len = strlen(s);

	memcpy(at, s, len);
	return at + len;
}

static char *
put_number(char *at, uint64_t v)
{
	char digits[20];
	int n = 0;

	do
		digits[n++] = '0' + v % 10;
	while ((v /= 10) > 0);
	while (n > 0)
		*at++ = digits[--n];
	return at;
}

/* A value in hundredths. */
static char *
put_decimal(char *at, uint64_t hundredths)
{
	at = put_number(at, hundredths / 100);
	*at++ = '.';
	*at++ = '0' + hundredths / 10 % 10;
	*at++ = '0' + hundredths % 10;
	return at;
}

/*
 * Named values, as many as fit.  Each is the device's own level plus noise of a few per cent, which is about how well
 * real readings compress.
 */
static char *
put_readings(char *at, char *end, int number, uint64_t *rng)
{
	static const struct
	{
		const char *name;
		unsigned level;
		unsigned spread;
	} quantity[] = {{",\"temperature\":", 2150, 400}, {",\"humidity\":", 4500, 900}, {",\"pressure\":", 101300, 700},
					{",\"voltage\":", 23010, 300},    {",\"current\":", 742, 120},   {",\"vibration\":", 31, 30},
					{",\"speed\":", 148000, 2000},    {",\"battery\":", 371, 8}};

	for (int i = 0; end - at > 32; i++)
	{
		uint64_t noise = fl_random(rng);
		int which = i % (int) (sizeof(quantity) / sizeof(quantity[0]));

		at = put_text(at, quantity[which].name);
		if (i != which)
		{
			/* Another round of the same quantities: JSON wants its names distinct. */
			at[-2] = '_';
			at = put_number(at - 1, i / (sizeof(quantity) / sizeof(quantity[0])));
			at = put_text(at, "\":");
		}
		at = put_decimal(at, quantity[which].level + (unsigned) number % 97 + noise % quantity[which].spread);
	}
	return at;
}

static char *
put_noise(char *at, char *end, uint64_t *rng)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	while (at < end)
	{
		uint64_t bits = fl_random(rng);

		for (int i = 0; i < 10 && at < end; i++, bits >>= 6)
			*at++ = letters[bits & 63];
	}
	return at;
}

void
fl_payload_make(const FlOptions *o, uint8_t *out, int number, uint64_t seq, int64_t stamp)
{
	uint64_t rng = o->seed ^ (uint64_t) number << 40 ^ seq;
	char *at = (char *) out;
	char *end = at + o->size;

	at = put_text(at, stamp_begin);
	at = put_number(at, (uint64_t) stamp);
	at = put_text(at, ",\"c\":");
	at = put_number(at, (uint64_t) number);
	at = put_text(at, ",\"n\":");
	at = put_number(at, seq);
	if (o->payload == FL_PAYLOAD_JSON)
		at = put_readings(at, end, number, &rng);

	/* A last member of text makes up the exact size; where even its frame does not fit, white space does. */
	if (end - at >= 8)
	{
		at = put_text(at, ",\"x\":\"");
		at = put_noise(at, end - 2, &rng);
		*at++ = '"';
	}
	*at++ = '}';
	memset(at, ' ', end - at);
}

static bool
get_number(const uint8_t **at, const uint8_t *end, uint64_t *v)
{
	const uint8_t *begin = *at;

	*v = 0;
	while (*at < end && **at >= '0' && **at <= '9' && *at - begin < 19)
		*v = *v * 10 + (*(*at)++ - '0');
	return *at > begin;
}

static bool
expect(const uint8_t **at, const uint8_t *end, const char *s)
{
	size_t len = strlen(s);

	if ((size_t) (end - *at) < len || memcmp(*at, s, len) != 0)
		return false;
	*at += len;
	return true;
}

bool
fl_payload_read(const uint8_t *payload, size_t len, int *number, uint64_t *seq, int64_t *stamp)
{
	const uint8_t *at = payload;
	const uint8_t *end = payload + len;
	uint64_t t, c;

	if (!expect(&at, end, stamp_begin) || !get_number(&at, end, &t) || !expect(&at, end, ",\"c\":") ||
		!get_number(&at, end, &c) || !expect(&at, end, ",\"n\":") || !get_number(&at, end, seq))
		return false;
	*stamp = (int64_t) t;
	*number = (int) c;
	return true;
}
