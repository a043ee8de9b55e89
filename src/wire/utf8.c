/*-------------------------------------------------------------------------
 *
 * utf8.c
 *	  UTF-8 validation.
 *
 * Keys, topics and header names are ASCII nearly always, so eight bytes are
 * looked at together while no high bit is set.  A multi-byte sequence is
 * checked against the ranges of Unicode's table 3-7, where the second byte
 * alone tells overlong forms, surrogates and values beyond U+10FFFF apart.
 *
 * Called for every string that enters from a socket or SQL.  Must not read
 * beyond s + len, not even within the same word.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/utf8.h"

#include <string.h>

#define FL_HIGH_BITS UINT64_C(0x8080808080808080)
#define FL_LOW_BITS  UINT64_C(0x0101010101010101)

/*
 * Length of the valid multi-byte sequence at s, of which at most n bytes may
 * be read, or 0.
 */
static size_t
fl_utf8_sequence(const uint8_t *s, size_t n)
{
	uint8_t lead = s[0];
	uint8_t low = 0x80;
	uint8_t high = 0xbf;
	size_t len;

	if (lead >= 0xc2 && lead <= 0xdf)
		len = 2;
	else if (lead >= 0xe0 && lead <= 0xef)
	{
		len = 3;
		if (lead == 0xe0)
			low = 0xa0; /* below: overlong */
		else if (lead == 0xed)
			high = 0x9f; /* above: surrogates */
	}
	else if (lead >= 0xf0 && lead <= 0xf4)
	{
		len = 4;
		if (lead == 0xf0)
			low = 0x90; /* below: overlong */
		else if (lead == 0xf4)
			high = 0x8f; /* above: beyond U+10FFFF */
	}
	else
		return 0;

	if (len > n || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
	{
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return len;
}

static bool
fl_utf8_check(const uint8_t *s, size_t len, bool nul_allowed)
{
	size_t i = 0;

	while (i < len)
	{
		size_t n;

		if (len - i >= 8)
		{
			uint64_t word;
			uint64_t stop;

			memcpy(&word, s + i, 8);
			stop = word & FL_HIGH_BITS;

			/*
			 * With all high bits clear, subtracting one from each byte sets a
			 * high bit exactly where some byte was zero (or borrowed from one
			 * that was).
			 */
			if (!nul_allowed)
				stop |= (word - FL_LOW_BITS) & FL_HIGH_BITS;
			if (stop == 0)
			{
				i += 8;
				continue;
			}
		}

		if (s[i] < 0x80)
		{
			if (s[i] == 0 && !nul_allowed)
				return false;
			i++;
			continue;
		}
		n = fl_utf8_sequence(s + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

bool
fl_utf8_valid(const uint8_t *s, size_t len)
{
	return fl_utf8_check(s, len, true);
}

bool
fl_utf8_valid_mqtt(const uint8_t *s, size_t len)
{
	return fl_utf8_check(s, len, false);
}

bool
fl_utf8_valid_text(const uint8_t *s, size_t len)
{
	return fl_utf8_check(s, len, false);
}
