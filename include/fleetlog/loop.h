/*-------------------------------------------------------------------------
 *
 * loop.h
 *		Decision loops (D1-D3): what the runner calls, and what the rest of
 *		fleetlog needs to know of them.  docs/design/decisions-loop.md has the tables
 *		and the form of the records.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOOP_H
#define FLEETLOG_LOOP_H

#include "datatype/timestamp.h"

/* Readings of a shard that may wait behind pending requests (fleetlog.loop_max_waiting). */
extern int	fl_loop_max_waiting;

/* ---- Shared memory ---------------------------------------------------------- */

extern Size fl_loop_shmem_size(void);
extern void fl_loop_shmem_init(void);

/* Is there a loop, so that a runner is of use?  No transaction. */
extern bool fl_loop_runner_wanted(void);

/* Look whether there is one, and tell the launcher; in a transaction.  For the keeper. */
extern void fl_loop_want_runner(void);

/* ---- Streams of loops ------------------------------------------------------- */

/* Raises 2BP01, naming the loop or shadow model that reads or writes the stream.  In a transaction. */
extern void fl_loop_refuse_drop(Oid stream);

/* The same for a role that owns a loop, a policy, a shadow model or a data set of this database. */
extern void fl_loop_refuse_drop_role(Oid role);

/* ---- The runner --------------------------------------------------------------- */

/*
 * One pass over all loops: what is there of answers, lost leases and readings, each
 * shard in a transaction of its own.  Outside of a transaction.  `mcxt` is the turn's.
 * Returns the milliseconds after which it wants to be called although no durable tail
 * has moved; 0: at once.  Errors of one shard are logged or kept with the shard, and
 * do not come out.
 */
extern long fl_loop_turn(MemoryContext mcxt);

/* How many loops there are, and shards that an error has stopped, as of the last turn. */
extern void fl_loop_figures(int *loops, int *stopped);

#endif							/* FLEETLOG_LOOP_H */
