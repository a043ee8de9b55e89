/*-------------------------------------------------------------------------
 *
 * base64.h
 *	  Base64 (RFC 4648, clause 4: standard alphabet, padded, no line breaks),
 *	  how bytes that are not text appear in JSON.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_BASE64_H
#define FLEETLOG_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

/* Characters that len bytes become; len is at most SIZE_MAX / 2. */
static inline size_t
fl_base64_size(size_t len)
{
	return (len + 2) / 3 * 4;
}

/* Writes fl_base64_size(len) characters at dst, without a zero byte behind. */
extern void fl_base64_encode(char *dst, const uint8_t *src, size_t len);

/*
 * Appends the bytes to out.  Strict: whole groups of four, padding only at the
 * end and with zero bits behind the data, so that every sequence of bytes has
 * exactly one form.  FL_MALFORMED, or FL_TOO_LARGE when out is full.
 */
extern FlResult fl_base64_decode(const uint8_t *src, size_t len, FlBuf *out);

#endif /* FLEETLOG_BASE64_H */
