/*-------------------------------------------------------------------------
 *
 * record_batch.h
 *	  Kafka's RecordBatch, version 2 (magic 2): the body of every batch in a
 *	  stream, on the wire and on disk.
 *
 *	offset size field
 *	     0    8 base offset			not under the CRC
 *	     8    4 batch length		bytes behind this field; not under the CRC
 *	    12    4 leader epoch		not under the CRC
 *	    16    1 magic = 2			not under the CRC
 *	    17    4 CRC-32C				of everything that follows
 *	    21    2 attributes			bits 0-2 codec, 3 append time,
 *									4 transactional, 5 control
 *	    23    4 last offset delta	= records - 1
 *	    27    8 base timestamp		ms since 1970
 *	    35    8 max timestamp
 *	    43    8 producer id			-1 = none
 *	    51    2 producer epoch
 *	    53    4 base sequence
 *	    57    4 records count
 *	    61      records, compressed as a whole when the codec says so
 *
 *	record: varint length of what follows, int8 attributes, varlong timestamp
 *	delta, varint offset delta, varint key length (-1 = NULL), key, varint
 *	value length (-1 = NULL), value, header array (headers.h)
 *
 * All integers of the header are big-endian.  Kafka leaves the attributes of
 * a record unused; in our own batches they hold the number of reserved
 * headers.  A batch that a producer made must not be believed there: its
 * reserved count is 0, whatever the byte says.  The time of a record is base timestamp + delta, also where bit 3
 * is set: with append time only the header is stamped, the records stay as
 * the producer sent them.  A record without a time of its own has
 * FL_NO_TIMESTAMP.
 *
 * Invariants that fl_batch_verify checks and everything else here keeps: at
 * least one record, offset deltas 0 .. n-1 in order, no bytes left over.
 * (Kafka's compacted batches, whose deltas have holes, are never produced to
 * a log and are refused.)
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_RECORD_BATCH_H
#define FLEETLOG_RECORD_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

#define FL_BATCH_HEADER_SIZE 61
#define FL_BATCH_LENGTH_BASE 12 /* batch length counts from here */
#define FL_BATCH_CRC_START   21 /* the CRC covers from here to the end */
#define FL_BATCH_MAGIC       2

#define FL_BATCH_CODEC_MASK    0x07
#define FL_BATCH_APPEND_TIME   0x08
#define FL_BATCH_TRANSACTIONAL 0x10
#define FL_BATCH_CONTROL       0x20

#define FL_NO_TIMESTAMP      (-1)
#define FL_NO_PRODUCER_ID    (-1)
#define FL_NO_PRODUCER_EPOCH (-1)
#define FL_NO_SEQUENCE       (-1)

/* A batch is compressed from this raw size on, when it saves this much. */
#define FL_COMPRESS_MIN_BYTES 256
#define FL_COMPRESS_MIN_GAIN  12 /* percent */

#define FL_ZSTD_DEFAULT_LEVEL 3

/* The smallest record: length, attributes and five one-byte varints. */
#define FL_RECORD_MIN_SIZE 7

typedef enum FlCodec
{
	FL_CODEC_NONE = 0,
	FL_CODEC_GZIP = 1,
	FL_CODEC_SNAPPY = 2,
	FL_CODEC_LZ4 = 3, /* LZ4 frame format */
	FL_CODEC_ZSTD = 4
} FlCodec;

/* ---------- header ---------- */

typedef struct FlBatchInfo
{
	int64_t base_offset;
	int64_t base_timestamp; /* ms since 1970, or FL_NO_TIMESTAMP */
	int64_t max_timestamp;
	int64_t producer_id;
	size_t size; /* of the whole batch: batch length + 12 */
	int32_t leader_epoch;
	uint32_t crc;
	int32_t last_offset_delta;
	int32_t base_sequence;
	int32_t record_count;
	int16_t producer_epoch;
	uint16_t attributes;
	FlCodec codec; /* = attributes & FL_BATCH_CODEC_MASK */
} FlBatchInfo;

/*
 * Decodes the header at body.  len may be more than the batch has (as in a
 * Kafka record set); info->size tells where the next begins.  FL_INCOMPLETE:
 * with len >= 61 *info is filled and only records are missing; with less it
 * is not.  FL_UNSUPPORTED: another magic, or a codec number beyond zstd.
 * FL_MALFORMED: a length or count that cannot be.  The CRC is not checked.
 */
extern FlResult fl_batch_decode_header(const uint8_t *body, size_t len, FlBatchInfo *info);

/* Writes all 61 bytes except that the CRC is info->crc as given. */
extern void fl_batch_encode_header(uint8_t *body, const FlBatchInfo *info);

/*
 * Header, exact length, CRC, and, where not compressed, every record with its
 * headers.  For a compressed batch inflate it and call fl_records_verify too.
 */
extern FlResult fl_batch_verify(const uint8_t *body, size_t len);
extern FlResult fl_records_verify(const FlBatchInfo *info, const uint8_t *records, size_t len);

/*
 * Sets base offset and leader epoch.  With append_time also what Kafka calls
 * LogAppendTime: the type bit and the max timestamp, and the CRC anew.
 */
extern FlResult fl_batch_stamp(uint8_t *body, size_t len, int64_t base_offset, int32_t leader_epoch, bool append_time,
							   int64_t append_ms);

/* Sets the CRC of a whole batch of len bytes (at least 61). */
extern void fl_batch_update_crc(uint8_t *body, size_t len);

/* ---------- records, read ---------- */

typedef struct FlRecord
{
	const uint8_t *key;     /* NULL when key_len is -1 */
	const uint8_t *value;   /* NULL when value_len is -1 */
	const uint8_t *headers; /* Kafka array, count included */
	const uint8_t *raw;     /* whole record, length varint included */
	int64_t timestamp_ms;   /* absolute, or FL_NO_TIMESTAMP */
	int32_t key_len;
	int32_t value_len;
	uint32_t headers_len;
	uint32_t raw_len;
	int32_t offset_delta;
	uint8_t attributes; /* ours: number of reserved headers */
} FlRecord;

typedef struct FlRecordIter
{
	FlReader r;
	int64_t base_timestamp;
	int32_t count;
	int32_t next;
	FlResult result; /* FL_OK, or why the iteration ended early */
} FlRecordIter;

/* records is the raw records section (see fl_batch_inflate), borrowed. */
extern void fl_record_iter_init(FlRecordIter *it, const FlBatchInfo *info, const uint8_t *records, size_t len);

/*
 * True and the next record, or false at the end; then it->result is FL_OK when
 * there were exactly as many well-formed records as the header says.  The
 * inside of the header array is left to FlHeaderIter, which has its own bounds.
 */
extern bool fl_record_iter_next(FlRecordIter *it, FlRecord *rec);

/* ---------- records, written ---------- */

/* Bytes that fl_batch_encode_record writes for the same arguments. */
extern size_t fl_batch_record_size(int32_t offset_delta, int64_t timestamp_delta, int64_t key_len, int64_t value_len,
								   size_t headers_len);

/*
 * Appends one record.  timestamp_delta is against the batch's base timestamp.
 * A length of -1 is NULL.  headers is a Kafka array; NULL means an empty one.
 * FL_TOO_LARGE when the buffer's limit or 2 GB is exceeded: nothing is written
 * and the buffer is not marked failed, so that the caller can start another
 * batch.
 */
extern FlResult fl_batch_encode_record(FlBuf *out, int32_t offset_delta, int64_t timestamp_delta,
									   uint8_t reserved_count, const uint8_t *key, int64_t key_len,
									   const uint8_t *value, int64_t value_len, const uint8_t *headers,
									   size_t headers_len);

/*
 * After records were put behind an uncompressed batch: sets length, count,
 * last offset delta, max timestamp and CRC.  FL_UNSUPPORTED when the batch is
 * compressed.
 */
extern FlResult fl_batch_grow_header(uint8_t *body, size_t new_len, int32_t new_count, int64_t max_timestamp);

/* ---------- compression ---------- */

/*
 * Reusable contexts of the libraries, made when first needed.  They live in
 * malloc memory: server code frees them by a memory context callback.
 */
typedef struct FlCompressor FlCompressor;

/* NULL when there is no memory. */
extern FlCompressor *fl_compressor_create(int zstd_level);
extern void fl_compressor_free(FlCompressor *c);

/* Changes the level for the following batches; clamped to what zstd knows. */
extern void fl_compressor_set_level(FlCompressor *c, int zstd_level);

/*
 * Appends the compressed form of src to out; every codec but none.  With
 * limit less than what is needed FL_TOO_LARGE, and out is as before.
 */
extern FlResult fl_compress(FlCompressor *c, FlCodec codec, const uint8_t *src, size_t len, size_t limit, FlBuf *out);

/*
 * Appends the plain form of src to out, at most max_raw bytes, else
 * FL_TOO_LARGE.
 */
extern FlResult fl_decompress(FlCompressor *c, FlCodec codec, const uint8_t *src, size_t len, size_t max_raw,
							  FlBuf *out);

/*
 * The raw records section of a batch.  Without compression *records points
 * into body and out is not touched; else out is reset and filled, and *records
 * points into it.  The section is at most max_raw bytes, else FL_TOO_LARGE.
 */
extern FlResult fl_batch_inflate(const FlBatchInfo *info, const uint8_t *body, size_t len, FlCompressor *c,
								 size_t max_raw, FlBuf *out, const uint8_t **records, size_t *records_len);

/* ---------- builder ---------- */

/*
 * Gathers records of one batch.  Fields marked (set) may be assigned between
 * init or reset and finish.
 */
typedef struct FlBatchBuilder
{
	FlBuf buf; /* 61 bytes for the header, then records */
	int32_t count;
	int64_t base_timestamp; /* that of the first record */
	int64_t max_timestamp;
	int64_t base_offset;    /* (set) default 0 */
	int32_t leader_epoch;   /* (set) default -1 */
	int64_t producer_id;    /* (set) default -1 */
	int16_t producer_epoch; /* (set) default -1 */
	int32_t base_sequence;  /* (set) default -1 */
	uint16_t flags;         /* (set) FL_BATCH_TRANSACTIONAL and so on */
} FlBatchBuilder;

/* max_bytes bounds the batch before compression, header included. */
extern void fl_batch_builder_init(FlBatchBuilder *b, const FlAllocator *alloc, size_t max_bytes);
extern void fl_batch_builder_reset(FlBatchBuilder *b);
extern void fl_batch_builder_free(FlBatchBuilder *b);

/*
 * Adds a record; the bytes are copied.  timestamp_ms may be FL_NO_TIMESTAMP,
 * lengths -1 for NULL, kafka_headers NULL for none.  FL_TOO_LARGE: the record
 * does not fit and the builder is as before; the headers are not validated.
 */
extern FlResult fl_batch_builder_add(FlBatchBuilder *b, int64_t timestamp_ms, const uint8_t *key, int64_t key_len,
									 const uint8_t *value, int64_t value_len, uint8_t reserved_count,
									 const uint8_t *kafka_headers, size_t headers_len);

/* Records so far, and bytes of the uncompressed batch so far, header included. */
static inline int32_t
fl_batch_builder_count(const FlBatchBuilder *b)
{
	return b->count;
}

static inline size_t
fl_batch_builder_bytes(const FlBatchBuilder *b)
{
	return b->buf.len > FL_BATCH_HEADER_SIZE ? b->buf.len : FL_BATCH_HEADER_SIZE;
}

/*
 * Appends the whole batch to out, compressed with codec when that is worth it
 * (FL_COMPRESS_*), else plain.  c may be NULL when codec is none.  The builder
 * keeps its records.  FL_MALFORMED when it has none.
 */
extern FlResult fl_batch_builder_finish(FlBatchBuilder *b, FlCodec codec, FlCompressor *c, FlBuf *out);

/* ---------- split ---------- */

/*
 * Appends two batches to a and b: the first first_count records, and the rest.
 * Both have the codec, flags, epoch and producer of the original; offsets and
 * sequence of the second are advanced.  The raw section must not exceed
 * max_raw.  FL_MALFORMED also when first_count leaves one of them empty.
 */
extern FlResult fl_batch_split(const uint8_t *body, size_t len, FlCompressor *c, size_t max_raw, int32_t first_count,
							   FlBuf *a, FlBuf *b);

/* Kafka's sequence arithmetic: wraps from 2^31 - 1 to 0; -1 stays -1. */
extern int32_t fl_sequence_add(int32_t sequence, int32_t n);

#endif /* FLEETLOG_RECORD_BATCH_H */
