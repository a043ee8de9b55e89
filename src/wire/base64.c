/*-------------------------------------------------------------------------
 *
 * base64.c
 *	  Base64 there and back.
 *
 * The decoder is strict because the text form of fleetlog.headers must be one
 * to one with its bytes.
 *
 * Called by fleetlog.headers and fleetlog.cbor().
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/base64.h"

static const char fl_base64_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
fl_base64_encode(char *dst, const uint8_t *src, size_t len)
{
	while (len > 0)
	{
		uint32_t group =
			(uint32_t) src[0] << 16 | (uint32_t) (len > 1 ? src[1] : 0) << 8 | (uint32_t) (len > 2 ? src[2] : 0);

		dst[0] = fl_base64_alphabet[group >> 18];
		dst[1] = fl_base64_alphabet[(group >> 12) & 63];
		dst[2] = len > 1 ? fl_base64_alphabet[(group >> 6) & 63] : '=';
		dst[3] = len > 2 ? fl_base64_alphabet[group & 63] : '=';
		dst += 4;
		src += len > 3 ? 3 : len;
		len -= len > 3 ? 3 : len;
	}
}

/* The six bits of a character, or -1. */
static int
fl_base64_value(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	if (c == '/')
		return 63;
	return -1;
}

FlResult
fl_base64_decode(const uint8_t *src, size_t len, FlBuf *out)
{
	if (len % 4 != 0)
		return FL_MALFORMED;

	for (; len > 0; src += 4, len -= 4)
	{
		int bytes = 3;
		uint32_t group = 0;

		if (len == 4 && src[3] == '=')
			bytes = src[2] == '=' ? 1 : 2;
		for (int i = 0; i < 4; i++)
		{
			int value = i <= bytes ? fl_base64_value(src[i]) : 0;

			if (value < 0)
				return FL_MALFORMED;
			group = group << 6 | (uint32_t) value;
		}
		if ((group & ((UINT32_C(1) << (8 * (3 - bytes))) - 1)) != 0)
			return FL_MALFORMED;

		fl_write_u8(out, (uint8_t) (group >> 16));
		if (bytes > 1)
			fl_write_u8(out, (uint8_t) (group >> 8));
		if (bytes > 2)
			fl_write_u8(out, (uint8_t) group);
	}
	return out->failed ? FL_TOO_LARGE : FL_OK;
}
