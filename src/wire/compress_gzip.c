/*-------------------------------------------------------------------------
 *
 * compress_gzip.c
 *	  gzip for record batches: producers send it, our own batches never have it.
 *
 * It is written only where a producer's batch is divided between two segments
 * and its halves keep their codec.
 *
 * One member, which must be all of the input.  zlib's state has a fixed size
 * (40 KB to read, 270 KB to write), the output grows as it comes, up to the
 * caller's limit.  The states live in the compressor, so that an allocator that
 * leaves by longjmp loses none; each use resets them.
 *
 * Called by compress.c.
 *
 *-------------------------------------------------------------------------
 */
#include "compress_internal.h"

#include <limits.h>

#define GZIP_WINDOW (15 + 16) /* the largest, with gzip's header and checksum */
#define GZIP_STEP   4096      /* room for output to begin with */

void
fl_gzip_free(FlCompressor *c)
{
	if (c->gzip_in_made)
		inflateEnd(&c->gzip_in);
	if (c->gzip_out_made)
		deflateEnd(&c->gzip_out);
	c->gzip_in_made = c->gzip_out_made = false;
}

/* Room for some more output, at most `room` in all; 0: there is none. */
static size_t
make_room(FlBuf *out, size_t room)
{
	size_t n = out->cap - out->len;

	if (room > 0 && n == 0)
	{
		if (fl_buf_reserve(out, room < GZIP_STEP ? room : GZIP_STEP) == NULL)
			return 0;
		n = out->cap - out->len;
	}
	n = n < room ? n : room;
	return n < UINT_MAX ? n : UINT_MAX;
}

FlResult
fl_gzip_decompress(FlCompressor *c, const uint8_t *src, size_t len, size_t room, FlBuf *out)
{
	z_stream *z = &c->gzip_in;
	uint8_t none;

	if (len > UINT_MAX)
		return FL_TOO_LARGE;
	if (!c->gzip_in_made && inflateInit2(z, GZIP_WINDOW) != Z_OK)
		return FL_TOO_LARGE;
	c->gzip_in_made = true;
	if (inflateReset(z) != Z_OK)
		return FL_MALFORMED;
	z->next_in = (Bytef *) src;
	z->avail_in = (uInt) len;
	for (;;)
	{
		size_t n = make_room(out, room);
		uInt before = z->avail_in;
		int code;

		if (out->failed)
			return FL_TOO_LARGE;
		/* Without room for a byte the end of the stream may still be seen. */
		z->next_out = n > 0 ? out->data + out->len : &none;
		z->avail_out = (uInt) n;
		code = inflate(z, Z_NO_FLUSH);
		out->len += n - z->avail_out;
		room -= n - z->avail_out;
		if (code == Z_STREAM_END)
			return z->avail_in == 0 ? FL_OK : FL_MALFORMED;
		if (code == Z_MEM_ERROR)
			return FL_TOO_LARGE;
		if (code != Z_OK && code != Z_BUF_ERROR)
			return FL_MALFORMED;
		if (z->avail_out == n && z->avail_in == before)
			return n == 0 ? FL_TOO_LARGE : FL_MALFORMED;
	}
}

FlResult
fl_gzip_compress(FlCompressor *c, const uint8_t *src, size_t len, size_t limit, FlBuf *out)
{
	z_stream *z = &c->gzip_out;
	size_t room;
	uint8_t *p;

	if (len > UINT_MAX / 2)
		return FL_TOO_LARGE;
	if (!c->gzip_out_made &&
		deflateInit2(z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL - 1, Z_DEFAULT_STRATEGY) != Z_OK)
		return FL_TOO_LARGE;
	c->gzip_out_made = true;
	if (deflateReset(z) != Z_OK)
		return FL_TOO_LARGE;
	room = deflateBound(z, (uLong) len);
	if (room > limit)
		room = limit;
	if (room > out->max - out->len)
		room = out->max - out->len;
	p = fl_buf_reserve(out, room);
	if (p == NULL)
		return FL_TOO_LARGE;
	z->next_in = (Bytef *) src;
	z->avail_in = (uInt) len;
	z->next_out = p;
	z->avail_out = (uInt) room;
	if (deflate(z, Z_FINISH) != Z_STREAM_END)
		return FL_TOO_LARGE;
	out->len += room - z->avail_out;
	return FL_OK;
}
