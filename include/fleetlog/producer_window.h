/*-------------------------------------------------------------------------
 *
 * producer_window.h
 *	  What a shard remembers of an idempotent producer, and what its next batch is
 *	  by that: new, seen before, or out of order.
 *
 * A producer numbers its records per shard, from 0 in each epoch, and after
 * 2^31 - 1 comes 0 again.  Of its newest batches we know where they lie, so that one
 * that is sent again is answered as it was the first time.  (Kafka's
 * ProducerStateEntry and ProducerAppendInfo; docs/design/kafka.md says where we
 * differ.)
 *
 * No server code: unit-tested and fuzzed alone.  Who calls it, and under which lock:
 * fleetlog/producers.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_PRODUCER_WINDOW_H
#define FLEETLOG_PRODUCER_WINDOW_H

#include "fleetlog/cursor.h"

/* Batches that may be in flight on a connection, hence may have to be recognised. */
#define FL_PRODUCER_BATCHES 5

/* Records in a row that were written, all at once. */
typedef struct FlProducerBatch
{
	int32_t first; /* sequence of the first record */
	int32_t last;  /* and of the last one; less than first where the numbers wrap */
	int64_t base_offset;
	int64_t append_ts; /* microseconds since 2000-01-01 UTC */
} FlProducerBatch;

/* All zero: nothing is known of the producer. */
typedef struct FlProducerWindow
{
	int16_t epoch;
	uint8_t n;    /* batches; 0: nothing is known */
	int64_t seen; /* records of this epoch that are known to have been written, in a row up to the last one */
	FlProducerBatch batches[FL_PRODUCER_BATCHES]; /* oldest first */
} FlProducerWindow;

typedef enum FlProducerVerdict
{
	FL_PRODUCER_NEXT,      /* to be written: the next one, a new epoch's first one, or one of a producer nobody knows */
	FL_PRODUCER_DUPLICATE, /* is written already, and it is known where */
	FL_PRODUCER_OLD,       /* is written already, nobody knows where any more */
	FL_PRODUCER_GAP,       /* neither the next one, nor wholly one of before */
	FL_PRODUCER_FENCED     /* of an epoch that is over */
} FlProducerVerdict;

/*
 * What is a batch of `count` (at least 1) records whose first one has this sequence?
 * For a duplicate *offset and *append_ts are set to where its first record is.
 */
extern FlProducerVerdict fl_producer_check(const FlProducerWindow *w, int16_t epoch, int32_t first, int32_t count,
										   int64_t *offset, int64_t *append_ts);

/*
 * It is written.  Also for what is read back from the log, where a batch that the end
 * of a segment has divided is two: parts that follow each other in everything, and
 * are of one time, are one again.
 */
extern void fl_producer_note(FlProducerWindow *w, int16_t epoch, int32_t first, int32_t count, int64_t base_offset,
							 int64_t append_ts);

/* Append time of its last batch; it must have one. */
extern int64_t fl_producer_last_ts(const FlProducerWindow *w);

/*
 * As kept in a row.  Decoding: false at the end and, with r->failed set, where the bytes
 * are no window.
 */
extern void fl_producer_encode(FlBuf *buf, int64_t producer_id, const FlProducerWindow *w);
extern bool fl_producer_decode(FlReader *r, int64_t *producer_id, FlProducerWindow *w);

#endif /* FLEETLOG_PRODUCER_WINDOW_H */
