/*-------------------------------------------------------------------------
 *
 * producers.h
 *		Idempotent producers of Kafka: which of their batches a shard has, as the
 *		processes that append share it, and as crashes, restarts and failovers
 *		leave it behind.
 *
 * THE RULE.  A batch is checked by whoever appends it, under the shard's
 * transactional lock, in the transaction that appends it (fl_turn_write), and
 * nowhere else: not when it comes in, not when it is queued.  That lock is held until
 * the transaction is visible, so between check and commit nobody else can append
 * to the shard, from whatever door, and whoever has the lock sees what is
 * committed and what his own transaction has written.  Therefore
 *
 *	- what a transaction has written is noted in its process; it goes to shared
 *	  memory in the commit callback, which runs when the commit is in WAL and the
 *	  lock is still held, and cannot fail.  An abort forgets it: shared memory
 *	  never holds what was not committed;
 *	- a duplicate of a batch of the same transaction is found among what is noted,
 *	  and is answered only if that commits;
 *	- a duplicate is answered as durable by the same rule as its original: when the
 *	  shard's durable tail has passed it (release_batch in src/ingest/ingest.c);
 *	- a batch behind one that was refused or has failed is a gap by then, and is
 *	  refused, whatever had been sent or queued before.
 *
 * After a start nothing is known of a shard until it is asked for.  Then it is read:
 * the row of fleetlog.producer_snapshot, and behind its offset the heads of the
 * batches in the log, which name producer, epoch and sequence.  Row and batches
 * are of the same WAL, so whatever a crash, a restore or a promotion leaves of the
 * log is what is known of producers.  The row is made with the shard's first
 * idempotent batch, in its transaction, and written anew after some 32 MB and
 * before a head is raised over it; a shard without a row never had such a batch.
 *
 * Locks: the shard's lock; inside it the LWLock of the pool, for microseconds, alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_PRODUCERS_H
#define FLEETLOG_PRODUCERS_H

#include "fleetlog/errors.h"
#include "fleetlog/producer_window.h"
#include "fleetlog/record_batch.h"
#include "fleetlog/shmem.h"

/* Shared memory, settings, callbacks; called by src/shmem and _PG_init. */
extern Size fl_producers_size(void);
extern void fl_producers_request(void);
extern void fl_producers_init(void);
extern void fl_producers_define_settings(void);
extern void fl_producers_callbacks_init(void);

/* ---- for who appends; the shard's lock is held ----------------------------- */

/* What became of a batch that is not to be written. */
typedef struct FlOriginal
{
	int64		base_offset;
	TimestampTz ts;				/* append time */
} FlOriginal;

/*
 * Will the batch be dealt with without reading anything from disk?  For a process that
 * serves sockets; `body` is NULL for one that is not a producer's own.
 */
extern bool fl_producers_are_ready(const FlShard *shard, const uint8 *body, uint32 body_len);

/*
 * Is the batch to be written?  FL_ERR_NONE and true: yes.  FL_ERR_NONE and false: it
 * was before, where *original says.  FL_ERR_STALE_PRODUCER, FL_ERR_FENCED_PRODUCER,
 * FL_ERR_OLD_DUPLICATE: no.  May read the log, and raise what that raises.
 */
extern FlError fl_producers_check(FlShard *shard, const FlBatchInfo *batch, bool *write, FlOriginal *original);

/*
 * It is about to be written at the shard's next offset: the shard's first one makes
 * its row.
 */
extern void fl_producers_begin(FlShard *shard);

/* It has been written. */
extern void fl_producers_note(FlShard *shard, const FlBatchInfo *batch, int64 base_offset, TimestampTz ts);

/* Any batch has been written: so many that a restart had better not read them all? */
extern void fl_producers_save_if_due(FlShard *shard);

/* Readers will see nothing below this offset any more. */
extern void fl_producers_before_trim(FlShard *shard, int64 head);

/* ---- others ------------------------------------------------------------------ */

/* The stream is dropped (fl_shard_forget). */
extern void fl_producers_forget(Oid stream);

/*
 * Producer ids that nobody was ever given, FL_PRODUCER_IDS in a row; returns the first.
 * In a transaction, which must be flushed before one of them is given to anybody.
 */
#define FL_PRODUCER_IDS		1024
extern int64 fl_producer_ids_take(void);

/* ---- catalog (src/catalog/producer_rows.c) -------------------------------------- */

/* What is kept of a shard's producers, palloc'd; false: nothing was ever. */
extern bool fl_producer_row_read(Oid stream, int32 shard, int64 *log_offset, uint8 **state, Size *len);
extern void fl_producer_row_write(Oid stream, int32 shard, int64 log_offset, const uint8 *state, Size len);

#endif							/* FLEETLOG_PRODUCERS_H */
