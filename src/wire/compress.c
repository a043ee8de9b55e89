/*-------------------------------------------------------------------------
 *
 * compress.c
 *	  LZ4 frames and zstd for record batches, with reusable contexts; gzip and
 *	  snappy, which only producers use, have files of their own.
 *
 * LZ4 frames are written the way Kafka's Java client insists on reading them:
 * independent blocks, no dictionary; neither content size nor checksum, since
 * the batch's CRC covers them.  Reading accepts whatever the frame format
 * allows.
 *
 * Reading bounds the output by the caller's limit, never by what a frame
 * claims.  zstd is inflated in one call into the output itself, growing it and
 * starting over when it was too small: the streaming interface would allocate
 * the window that the frame asks for, up to 128 MB.  LZ4's contexts are bounded
 * by the format (4 MB a block).
 *
 * Called by the batch builder, split and scans.  Contexts are in malloc memory
 * and survive a longjmp out of a buffer's allocator: each use starts by
 * resetting them.
 *
 *-------------------------------------------------------------------------
 */
#include "compress_internal.h"

#include <stdlib.h>
#include <zstd_errors.h>

/* Output to start from, as a multiple of the compressed size, and at least. */
#define FL_INFLATE_GUESS_FACTOR 4
#define FL_INFLATE_GUESS_MIN    4096

FlCompressor *
fl_compressor_create(int zstd_level)
{
	FlCompressor *c = calloc(1, sizeof(FlCompressor));

	if (c != NULL)
		fl_compressor_set_level(c, zstd_level);
	return c;
}

void
fl_compressor_free(FlCompressor *c)
{
	if (c == NULL)
		return;
	LZ4F_freeCompressionContext(c->lz4_cctx);
	LZ4F_freeDecompressionContext(c->lz4_dctx);
	ZSTD_freeCCtx(c->zstd_cctx);
	ZSTD_freeDCtx(c->zstd_dctx);
	fl_gzip_free(c);
	free(c->scratch);
	free(c);
}

void
fl_compressor_set_level(FlCompressor *c, int zstd_level)
{
	if (zstd_level < ZSTD_minCLevel())
		zstd_level = ZSTD_minCLevel();
	if (zstd_level > ZSTD_maxCLevel())
		zstd_level = ZSTD_maxCLevel();
	c->zstd_level = zstd_level;
}

/* ---------- LZ4 ---------- */

static LZ4F_preferences_t
fl_lz4_preferences(size_t len)
{
	LZ4F_preferences_t prefs = {0};

	prefs.frameInfo.blockMode = LZ4F_blockIndependent;
	if (len <= 64 * 1024)
		prefs.frameInfo.blockSizeID = LZ4F_max64KB;
	else if (len <= 256 * 1024)
		prefs.frameInfo.blockSizeID = LZ4F_max256KB;
	else
		prefs.frameInfo.blockSizeID = LZ4F_max1MB;
	prefs.autoFlush = 1; /* all input comes at once: buffer nothing */
	return prefs;
}

bool
fl_compressor_reserve_scratch(FlCompressor *c, size_t size)
{
	uint8_t *p;

	if (size <= c->scratch_size)
		return true;
	p = realloc(c->scratch, size);
	if (p == NULL)
		return false;
	c->scratch = p;
	c->scratch_size = size;
	return true;
}

static FlResult
fl_lz4_compress(FlCompressor *c, const uint8_t *src, size_t len, size_t limit, FlBuf *out)
{
	LZ4F_preferences_t prefs = fl_lz4_preferences(len);
	size_t bound = LZ4F_compressBound(len, &prefs) + LZ4F_HEADER_SIZE_MAX;
	size_t done;
	size_t n;
	uint8_t *p;

	if (c->lz4_cctx == NULL && LZ4F_isError(LZ4F_createCompressionContext(&c->lz4_cctx, LZ4F_VERSION)))
		return FL_TOO_LARGE;
	if (!fl_compressor_reserve_scratch(c, bound))
		return FL_TOO_LARGE;

	/* The only failure that is left with enough room is lack of memory. */
	done = LZ4F_compressBegin(c->lz4_cctx, c->scratch, bound, &prefs);
	if (LZ4F_isError(done))
		return FL_TOO_LARGE;
	n = LZ4F_compressUpdate(c->lz4_cctx, c->scratch + done, bound - done, src, len, NULL);
	if (LZ4F_isError(n))
		return FL_TOO_LARGE;
	done += n;
	n = LZ4F_compressEnd(c->lz4_cctx, c->scratch + done, bound - done, NULL);
	if (LZ4F_isError(n))
		return FL_TOO_LARGE;
	done += n;

	if (done > limit)
		return FL_TOO_LARGE;
	p = fl_buf_reserve(out, done);
	if (p == NULL)
		return FL_TOO_LARGE;
	memcpy(p, c->scratch, done);
	out->len += done;
	return FL_OK;
}

/* A library's error: out of memory is not the sender's fault. */
static FlResult
fl_lz4_result(size_t code)
{
	return strcmp(LZ4F_getErrorName(code), "ERROR_allocation_failed") == 0 ? FL_TOO_LARGE : FL_MALFORMED;
}

/*
 * Inflates one frame, which must be all of src.  Each call of the library
 * either moves on or ends the loop, so the work is linear in input and output.
 */
static FlResult
fl_lz4_decompress(FlCompressor *c, const uint8_t *src, size_t len, size_t room, FlBuf *out)
{
	const uint8_t *end = src + len;

	if (c->lz4_dctx == NULL && LZ4F_isError(LZ4F_createDecompressionContext(&c->lz4_dctx, LZ4F_VERSION)))
		return FL_TOO_LARGE;
	LZ4F_resetDecompressionContext(c->lz4_dctx);

	for (;;)
	{
		size_t produced;
		size_t consumed = (size_t) (end - src);
		size_t code;

		if (room > 0 && fl_buf_reserve(out, 1) == NULL)
			return FL_TOO_LARGE;
		produced = out->cap - out->len;
		if (produced > room)
			produced = room;
		code = LZ4F_decompress(c->lz4_dctx, out->data + out->len, &produced, src, &consumed, NULL);
		if (LZ4F_isError(code))
			return fl_lz4_result(code);
		src += consumed;
		out->len += produced;
		room -= produced;
		if (code == 0)
			return src == end ? FL_OK : FL_MALFORMED;
		if (consumed == 0 && produced == 0)
			return room == 0 && src < end ? FL_TOO_LARGE : FL_MALFORMED;
	}
}

/* ---------- zstd ---------- */

static FlResult
fl_zstd_result(size_t code)
{
	switch (ZSTD_getErrorCode(code))
	{
		case ZSTD_error_dstSize_tooSmall:
		case ZSTD_error_memory_allocation:
			return FL_TOO_LARGE;
		default:
			return FL_MALFORMED;
	}
}

static FlResult
fl_zstd_compress(FlCompressor *c, const uint8_t *src, size_t len, size_t limit, FlBuf *out)
{
	size_t room = ZSTD_compressBound(len);
	size_t n;
	uint8_t *p;

	if (c->zstd_cctx == NULL && (c->zstd_cctx = ZSTD_createCCtx()) == NULL)
		return FL_TOO_LARGE;
	if (room > limit)
		room = limit;
	if (room > out->max - out->len)
		room = out->max - out->len;
	p = fl_buf_reserve(out, room);
	if (p == NULL)
		return FL_TOO_LARGE;

	ZSTD_CCtx_reset(c->zstd_cctx, ZSTD_reset_session_and_parameters);
	ZSTD_CCtx_setParameter(c->zstd_cctx, ZSTD_c_compressionLevel, c->zstd_level);
	n = ZSTD_compress2(c->zstd_cctx, p, room, src, len);
	if (ZSTD_isError(n))
		return FL_TOO_LARGE;
	out->len += n;
	return FL_OK;
}

static FlResult
fl_zstd_decompress(FlCompressor *c, const uint8_t *src, size_t len, size_t room, FlBuf *out)
{
	unsigned long long claimed = ZSTD_getFrameContentSize(src, len);
	size_t cap;

	if (claimed == ZSTD_CONTENTSIZE_ERROR)
		return FL_MALFORMED;
	if (c->zstd_dctx == NULL && (c->zstd_dctx = ZSTD_createDCtx()) == NULL)
		return FL_TOO_LARGE;

	if (claimed != ZSTD_CONTENTSIZE_UNKNOWN)
	{
		if (claimed > room)
			return FL_TOO_LARGE;
		cap = (size_t) claimed;
	}
	else
	{
		cap = len > room / FL_INFLATE_GUESS_FACTOR ? room : len * FL_INFLATE_GUESS_FACTOR;
		if (cap < FL_INFLATE_GUESS_MIN)
			cap = room < FL_INFLATE_GUESS_MIN ? room : FL_INFLATE_GUESS_MIN;
	}

	for (;;)
	{
		uint8_t *p = fl_buf_reserve(out, cap);
		size_t n;

		if (p == NULL)
			return FL_TOO_LARGE;
		n = ZSTD_decompressDCtx(c->zstd_dctx, p, cap, src, len);
		if (!ZSTD_isError(n))
		{
			out->len += n;
			return FL_OK;
		}
		if (ZSTD_getErrorCode(n) != ZSTD_error_dstSize_tooSmall || cap >= room)
			return fl_zstd_result(n);
		cap = cap > room / FL_INFLATE_GUESS_FACTOR ? room : cap * FL_INFLATE_GUESS_FACTOR;
		if (cap == 0)
			cap = room < FL_INFLATE_GUESS_MIN ? room : FL_INFLATE_GUESS_MIN;
	}
}

/* ---------- all ---------- */

FlResult
fl_compress(FlCompressor *c, FlCodec codec, const uint8_t *src, size_t len, size_t limit, FlBuf *out)
{
	size_t start = out->len;
	FlResult result = FL_UNSUPPORTED;

	if (codec == FL_CODEC_LZ4)
		result = fl_lz4_compress(c, src, len, limit, out);
	else if (codec == FL_CODEC_ZSTD)
		result = fl_zstd_compress(c, src, len, limit, out);
	else if (codec == FL_CODEC_GZIP)
		result = fl_gzip_compress(c, src, len, limit, out);
	else if (codec == FL_CODEC_SNAPPY)
		result = fl_snappy_compress(c, src, len, limit, out);
	if (result != FL_OK)
		out->len = start;
	return result;
}

FlResult
fl_decompress(FlCompressor *c, FlCodec codec, const uint8_t *src, size_t len, size_t max_raw, FlBuf *out)
{
	size_t start = out->len;
	size_t room = out->max - out->len;
	FlResult result = FL_UNSUPPORTED;

	if (room > max_raw)
		room = max_raw;
	if (fl_buf_reserve(out, 0) == NULL)
		return FL_TOO_LARGE;
	if (codec == FL_CODEC_LZ4)
		result = fl_lz4_decompress(c, src, len, room, out);
	else if (codec == FL_CODEC_ZSTD)
		result = fl_zstd_decompress(c, src, len, room, out);
	else if (codec == FL_CODEC_GZIP)
		result = fl_gzip_decompress(c, src, len, room, out);
	else if (codec == FL_CODEC_SNAPPY)
		result = fl_snappy_decompress(src, len, room, out);
	if (result != FL_OK)
		out->len = start;
	return result;
}

FlResult
fl_batch_inflate(const FlBatchInfo *info, const uint8_t *body, size_t len, FlCompressor *c, size_t max_raw, FlBuf *out,
				 const uint8_t **records, size_t *records_len)
{
	const uint8_t *section = body + FL_BATCH_HEADER_SIZE;
	size_t section_len;
	FlResult result;

	if (info->size < FL_BATCH_HEADER_SIZE)
		return FL_MALFORMED;
	if (len < info->size)
		return FL_INCOMPLETE;
	section_len = info->size - FL_BATCH_HEADER_SIZE;

	if (info->codec == FL_CODEC_NONE)
	{
		if (section_len > max_raw)
			return FL_TOO_LARGE;
		*records = section;
		*records_len = section_len;
		return FL_OK;
	}

	fl_buf_reset(out);
	result = fl_decompress(c, info->codec, section, section_len, max_raw, out);
	if (result == FL_OK)
	{
		*records = out->data;
		*records_len = out->len;
	}
	return result;
}
