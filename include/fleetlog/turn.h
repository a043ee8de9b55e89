/*-------------------------------------------------------------------------
 *
 * turn.h
 *		What every transaction that writes batches for clients does, whichever
 *		process runs it: the appender, or a front door that writes by itself.
 *
 *		StartTransactionCommand, snapshot
 *		fl_turn_begin()
 *		per batch, shards ascending, each shard locked: fl_turn_check, fl_turn_write
 *		fl_turn_finish()		what follows from the batches and must agree with them
 *		commit
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_TURN_H
#define FLEETLOG_TURN_H

#include "fleetlog/catalog.h"
#include "fleetlog/errors.h"
#include "fleetlog/log.h"
#include "fleetlog/shmem.h"

/* Forget what an aborted turn left behind. */
extern void fl_turn_begin(void);

/*
 * May this batch go where its door routed it?  `info` is the stream as this
 * transaction sees it, NULL when there is none.
 */
extern FlError fl_turn_check(const FlIngestEntry *entry, const FlStreamInfo *info);

/* Where a batch stands. */
typedef struct FlWritten
{
	int64		base;			/* offset of its first record */
	TimestampTz ts;				/* append time */
} FlWritten;

/*
 * Append the batch to its shard, whose lock is held.  `body` is the entry's body
 * and is stamped in place; `events` are its session events, or the sender of a
 * producer's own batch (fl_ingest_encode_sender).  Anything but FL_ERR_NONE: the
 * batch is not to be written, and nothing has happened.  Raises what fl_log_append
 * raises.
 */
extern FlError fl_turn_write(FlShard *shard, const FlIngestEntry *entry, uint8 *body, const uint8 *events,
							 FlWritten *out);

/* All batches are written: do what belongs into the same transaction. */
extern void fl_turn_finish(void);

#endif							/* FLEETLOG_TURN_H */
