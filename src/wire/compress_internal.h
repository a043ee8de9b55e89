/*-------------------------------------------------------------------------
 *
 * compress_internal.h
 *	  What compress.c and the codecs in files of their own share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_COMPRESS_INTERNAL_H
#define FL_COMPRESS_INTERNAL_H

#include "fleetlog/record_batch.h"

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

struct FlCompressor
{
	int zstd_level;
	LZ4F_cctx *lz4_cctx;
	LZ4F_dctx *lz4_dctx;
	ZSTD_CCtx *zstd_cctx;
	ZSTD_DCtx *zstd_dctx;
	z_stream gzip_in;  /* inflating */
	z_stream gzip_out; /* deflating */
	bool gzip_in_made;
	bool gzip_out_made;
	uint8_t *scratch; /* LZ4 and snappy want room for the worst case */
	size_t scratch_size;
};

/* Makes c->scratch so large; false where memory is short. */
extern bool fl_compressor_reserve_scratch(FlCompressor *c, size_t size);

/* ---- compress_gzip.c, compress_snappy.c: as fl_compress and fl_decompress, for one codec ---- */

extern FlResult fl_gzip_compress(FlCompressor *c, const uint8_t *src, size_t len, size_t limit, FlBuf *out);
extern FlResult fl_gzip_decompress(FlCompressor *c, const uint8_t *src, size_t len, size_t room, FlBuf *out);
extern void fl_gzip_free(FlCompressor *c);
extern FlResult fl_snappy_compress(FlCompressor *c, const uint8_t *src, size_t len, size_t limit, FlBuf *out);
extern FlResult fl_snappy_decompress(const uint8_t *src, size_t len, size_t room, FlBuf *out);

#endif /* FL_COMPRESS_INTERNAL_H */
