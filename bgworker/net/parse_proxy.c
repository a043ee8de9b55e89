/*
 * parse_proxy.c
 *		The PROXY protocol's binary header, which a load balancer puts in front of
 *		a connection to tell whose it is.
 *
 * Layout: signature of 12 bytes; version and command; family and transport;
 * length (big-endian) of the rest; addresses; TLVs, which are skipped.  Version
 * 1, which is text, is not spoken: it has no length in front, so that a reader
 * has to guess where TLS begins.
 *
 * Called by layer.c, for peers that are configured as balancers only.
 */
#include "parse.h"

#include <string.h>

#define COMMAND_LOCAL 0
#define COMMAND_PROXY 1
#define FAMILY_INET   1
#define FAMILY_INET6  2
#define STREAM        1

static const uint8_t signature[12] = {0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A};

/* The addresses: source, destination, source port, destination port. */
static FlResult
take_source(const uint8_t *data, size_t len, uint8_t family, size_t width, FlProxyHeader *out)
{
	if (len < 2 * width + 4)
		return FL_MALFORMED;
	out->family = family;
	memcpy(out->address, data, width);
	out->port = (uint16_t) (data[2 * width] << 8 | data[2 * width + 1]);
	return FL_OK;
}

FlResult
fl_proxy_decode(const uint8_t *data, size_t len, FlProxyHeader *out, size_t *total)
{
	size_t rest;
	size_t known = len < sizeof(signature) ? len : sizeof(signature);

	memset(out, 0, sizeof(*out));
	*total = FL_PROXY_FIXED;
	if (known > 0 && memcmp(data, signature, known) != 0)
		return FL_MALFORMED;
	if (len < FL_PROXY_FIXED)
		return FL_INCOMPLETE;
	if (data[12] >> 4 != 2 || (data[12] & 0x0F) > COMMAND_PROXY)
		return FL_MALFORMED;
	rest = (size_t) (data[14] << 8 | data[15]);
	*total = FL_PROXY_FIXED + rest;
	if (*total > FL_PROXY_MAX)
		return FL_TOO_LARGE;
	if (len < *total)
		return FL_INCOMPLETE;
	/* The balancer speaks for itself, or of something that has no such address. */
	if ((data[12] & 0x0F) == COMMAND_LOCAL || (data[13] & 0x0F) != STREAM)
		return FL_OK;
	switch (data[13] >> 4)
	{
		case FAMILY_INET:
			return take_source(data + FL_PROXY_FIXED, rest, 4, 4, out);
		case FAMILY_INET6:
			return take_source(data + FL_PROXY_FIXED, rest, 6, 16, out);
	}
	return FL_OK;
}
