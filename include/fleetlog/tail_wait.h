/*-------------------------------------------------------------------------
 *
 * tail_wait.h
 *		Waiting until more of a stream is durable, without a timer: who waits
 *		stands in a table in shared memory, and whoever moves a durable tail sets
 *		the latches of those who wait for that stream (REQUIREMENTS S1).
 *
 * The waiter's side, in this order:
 *		fl_tail_wait_begin(stream, until);
 *		for (;;) { fl_tail_wait_arm(); look at the tails; if satisfied break;
 *				   fl_tail_wait_sleep(...); }
 *		fl_tail_wait_end();			also on error: PG_FINALLY
 * Arming comes before looking: a tail that moves afterwards sets the latch.
 *
 * The publisher's side: fl_tail_moved(), after the new tail can be read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_TAIL_WAIT_H
#define FLEETLOG_TAIL_WAIT_H

#include "datatype/timestamp.h"

#include "fleetlog/shmem.h"

/* What a waiter is doing, for the view. */
typedef enum FlWaitKind
{
	FL_WAIT_POLL,
	FL_WAIT_TAKE,
	FL_WAIT_WATCH,
	FL_WAIT_RUNNER
} FlWaitKind;

/*
 * This process waits for the stream from now on; a process waits for one stream
 * at a time, or for any one of its database (InvalidOid).  `until` is for the view.
 * The entry goes with the process, however that ends.  Raises an error when the
 * library was not preloaded.
 */
extern void fl_tail_wait_begin(Oid stream, FlWaitKind kind, TimestampTz until);

/* Before looking at the tails: wake-ups from now on count. */
extern void fl_tail_wait_arm(void);

/*
 * Sleep until a tail of the stream moves, or the time has come.  Handles
 * interrupts, so it may raise an error.  False when the time has come.
 */
extern bool fl_tail_wait_sleep(TimestampTz until);

/* Found: how many records the last look had, for the counters. */
extern void fl_tail_wait_found(uint64 records);

/* Idempotent; raises no error. */
extern void fl_tail_wait_end(void);

/*
 * The stream was dropped while we slept.  The caches of this process may not
 * know it yet: waiters are woken before invalidations are sent.
 */
extern bool fl_tail_wait_is_gone(void);

/*
 * A durable tail of this shard has moved.  Costs a
 * barrier and a read when nobody waits.  Takes an LWLock: call it without a
 * spinlock.  Raises no error.
 */
extern void fl_tail_moved(const FlShardKey *key);

/* The drop of a stream of this database is committed. */
extern void fl_tail_gone(Oid stream);

#endif							/* FLEETLOG_TAIL_WAIT_H */
