/*-------------------------------------------------------------------------
 *
 * xact.h
 *		What src/log remembers of the current transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOG_XACT_H
#define FLEETLOG_LOG_XACT_H

#include "fleetlog/shmem.h"

/* This transaction holds the shard's lock (taken in a live subtransaction). */
extern bool fl_xact_holds(FlShard *shard);
extern bool fl_xact_holds_any(void);
extern void fl_xact_note_lock(FlShard *shard);

/* It wrote to the shard, whose lock it holds. */
extern void fl_xact_note_write(FlShard *shard);

/* It raised the shard's head (fl_shard_row_raise), whose lock it holds: that is not kept through the flush. */
extern void fl_xact_note_trim(FlShard *shard);

/* Number of shards written so far. */
extern int	fl_xact_written(void);

/* The transaction is over; disarms the timeout on holding shards. */
extern void fl_shard_lock_at_end(bool is_commit);

#endif							/* FLEETLOG_LOG_XACT_H */
