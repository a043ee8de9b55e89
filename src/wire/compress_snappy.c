/*-------------------------------------------------------------------------
 *
 * compress_snappy.c
 *	  Snappy for record batches: producers send it, our own batches never have it.
 *
 * Two forms are in use.  Java's library (xerial) writes a header of 16 bytes and
 * then blocks, each behind its length; librdkafka and others write one raw
 * block.  Both are read.  What we write, where a batch is divided between two
 * segments, has Java's form, which everybody reads.
 *
 *	0x82 "SNAPPY" 0x00, version (4), compatible from (4), { length (4), block }
 *
 * A block says how long it is inflated.  That is believed only behind a look at
 * the whole block, which allocates nothing and ends at the first contradiction.
 *
 * Called by compress.c.
 *
 *-------------------------------------------------------------------------
 */
#include "compress_internal.h"

#include <snappy-c.h>

static const uint8_t magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

#define XERIAL_HEADER  16
#define XERIAL_VERSION 1
#define XERIAL_BLOCK   (32 * 1024) /* what Java's library writes */

/* One raw block, which must be all of src; *room is what may still come out. */
static FlResult
decompress_block(const uint8_t *src, size_t len, size_t *room, FlBuf *out)
{
	size_t n;
	uint8_t *p;

	if (snappy_uncompressed_length((const char *) src, len, &n) != SNAPPY_OK)
		return FL_MALFORMED;
	if (n > *room)
		return FL_TOO_LARGE;
	if (snappy_validate_compressed_buffer((const char *) src, len) != SNAPPY_OK)
		return FL_MALFORMED;
	if (n == 0)
		return FL_OK;
	p = fl_buf_reserve(out, n);
	if (p == NULL)
		return FL_TOO_LARGE;
	if (snappy_uncompress((const char *) src, len, (char *) p, &n) != SNAPPY_OK)
		return FL_MALFORMED;
	out->len += n;
	*room -= n;
	return FL_OK;
}

FlResult
fl_snappy_decompress(const uint8_t *src, size_t len, size_t room, FlBuf *out)
{
	FlReader r;

	if (len < XERIAL_HEADER || memcmp(src, magic, sizeof(magic)) != 0)
		return decompress_block(src, len, &room, out);
	fl_reader_init(&r, src + XERIAL_HEADER, len - XERIAL_HEADER);
	while (fl_reader_left(&r) > 0)
	{
		uint32_t n = fl_read_be32(&r);
		const uint8_t *block = fl_read_bytes(&r, n);
		FlResult result;

		if (r.failed || n == 0)
			return FL_MALFORMED;
		result = decompress_block(block, n, &room, out);
		if (result != FL_OK)
			return result;
	}
	return FL_OK;
}

/* Appends one block with its length; *limit is what may still be written. */
static FlResult
compress_block(FlCompressor *c, const uint8_t *src, size_t len, size_t *limit, FlBuf *out)
{
	size_t n = snappy_max_compressed_length(len);
	uint8_t *p;

	if (!fl_compressor_reserve_scratch(c, n) ||
		snappy_compress((const char *) src, len, (char *) c->scratch, &n) != SNAPPY_OK || n + 4 > *limit)
		return FL_TOO_LARGE;
	p = fl_buf_reserve(out, n + 4);
	if (p == NULL)
		return FL_TOO_LARGE;
	fl_put_be32(p, (uint32_t) n);
	memcpy(p + 4, c->scratch, n);
	out->len += n + 4;
	*limit -= n + 4;
	return FL_OK;
}

FlResult
fl_snappy_compress(FlCompressor *c, const uint8_t *src, size_t len, size_t limit, FlBuf *out)
{
	uint8_t *p;

	if (limit < XERIAL_HEADER || (p = fl_buf_reserve(out, XERIAL_HEADER)) == NULL)
		return FL_TOO_LARGE;
	memcpy(p, magic, sizeof(magic));
	fl_put_be32(p + 8, XERIAL_VERSION);
	fl_put_be32(p + 12, XERIAL_VERSION);
	out->len += XERIAL_HEADER;
	limit -= XERIAL_HEADER;
	while (len > 0)
	{
		size_t n = len < XERIAL_BLOCK ? len : XERIAL_BLOCK;
		FlResult result = compress_block(c, src, n, &limit, out);

		if (result != FL_OK)
			return result;
		src += n;
		len -= n;
	}
	return FL_OK;
}
