/*-------------------------------------------------------------------------
 *
 * batch_check.h
 *	  Is what a Kafka producer sends a batch that the log may keep?
 *
 * A producer's batch is kept byte for byte, so everything that ever reads it has
 * to be sure of it once: lengths, checksum, codec, number of records, each record
 * with its headers, times.  What the log wants to know of the records comes out
 * of the same walk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_BATCH_CHECK_H
#define FLEETLOG_BATCH_CHECK_H

#include "fleetlog/record_batch.h"

typedef enum FlBatchVerdict
{
	FL_BATCH_GOOD,
	FL_BATCH_CORRUPT,          /* a length or the checksum is wrong */
	FL_BATCH_OLD_FORMAT,       /* magic 0 or 1: message sets of before Kafka 0.11 */
	FL_BATCH_INVALID,          /* well transmitted, but not what a producer may send */
	FL_BATCH_UNKNOWN_CODEC,    /* 5 to 7 */
	FL_BATCH_RAW_TOO_LARGE,    /* inflated it exceeds max_raw */
	FL_BATCH_RECORD_TOO_LARGE, /* a record exceeds max_record */
	FL_BATCH_FORBIDDEN,        /* may_write has refused a record */
	FL_BATCH_BAD_TIME          /* a time that cannot be, or the log's own type of time */
} FlBatchVerdict;

typedef struct FlBatchCheck
{
	/* what is asked */
	size_t max_raw;    /* bytes of the records section, inflated */
	size_t max_record; /* bytes of key, value and headers of a record */
	int64_t max_time;  /* ms since 1970 that can be kept */
	int32_t shards;    /* of the stream */
	int32_t shard;     /* where the producer wants it */
	int headers_more;  /* headers of ours that readers see in front of a record's own */
	bool needs_keys;   /* a record without a key is invalid */
	/* May the producer write this record?  NULL: yes; else a constant text.  NULL itself: all of them. */
	const char *(*may_write)(void *arg, const uint8_t *key, int32_t key_len, int32_t value_len);
	void *arg;

	/* what was found; only info where the verdict is not FL_BATCH_GOOD, and that only behind FL_BATCH_CORRUPT */
	FlBatchInfo info;
	int64_t min_time; /* of the records; FL_NO_TIMESTAMP: none has one */
	int64_t max_time_found;
	int32_t off_key;    /* records whose key belongs to another shard */
	int32_t bad_record; /* number of the record at fault, -1: the batch */
	const char *why;    /* a constant text for a client's log; NULL where good */
} FlBatchCheck;

/*
 * `raw` is scratch for the inflated records; c may not be NULL.  Nothing is
 * allocated by a length that the input claims beyond max_raw.
 */
extern FlBatchVerdict fl_batch_check(FlBatchCheck *check, const uint8_t *body, size_t len, FlCompressor *c, FlBuf *raw);

/* Puts the header's max timestamp right, and the CRC: some producers leave it unset. */
extern void fl_batch_set_max_timestamp(uint8_t *body, size_t len, int64_t max_timestamp);

#endif /* FLEETLOG_BATCH_CHECK_H */
