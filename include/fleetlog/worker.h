/*-------------------------------------------------------------------------
 *
 * worker.h
 *		What all background workers have in common: how they start, how they are
 *		told to stop, and what they tell the launcher when they leave.
 *
 * A worker is written as
 *
 *		void
 *		fl_main_keeper(Datum arg)
 *		{
 *			fl_worker_begin(FL_WORKER_KEEPER, 0, true);
 *			while (!fl_worker_should_stop())
 *			{
 *				fl_worker_turn();
 *				...
 *				fl_worker_wait(1000);
 *			}
 *			proc_exit(0);
 *		}
 *
 * SIGTERM only sets a flag and the latch, so that a turn is ended in order (a
 * door still sends what it owes); around work that may block for long (a lock,
 * a disk) set fl_worker_die_at_once, then SIGTERM raises FATAL there as it does
 * in any session.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_WORKER_H
#define FLEETLOG_WORKER_H

#include <signal.h>

#include "fleetlog/compat.h"
#include "fleetlog/shmem.h"

/* The role that connected workers run as (REQUIREMENTS I6). */
#define FL_WORKER_ROLE		"fleetlog_worker"

/* How long a shutdown may take for acks that are still owed (DESIGN "Acknowledgement"). */
#define FL_SHUTDOWN_GRACE_MS	1000

/*
 * First call of every worker: signal handlers, slot, and, with `connect`, the
 * connection to fleetlog.database as fleetlog_worker.  Exits with code 0 when
 * the extension is not there; the launcher has then been told why and logs it.
 */
extern void fl_worker_begin(FlWorkerKind kind, int index, bool connect);

/* From now on nobody can cancel what the worker does; its lock_timeout still ends waits for locks. */
extern void fl_worker_ignore_cancels(void);

/* Set by SIGTERM. */
extern bool fl_worker_should_stop(void);
extern volatile sig_atomic_t fl_worker_die_at_once;

/* To be called in every turn: interrupts (barriers included), reload, resource owner. */
extern void fl_worker_turn(void);

/*
 * The server's hashes and HMACs crash without a current resource owner, which
 * the end of each transaction leaves behind.  This sets one of the process
 * itself where there is none; call it before such work outside of transactions.
 */
extern void fl_worker_own_resources(void);

/*
 * For PG_CATCH of a turn: the error is logged, the transaction, if any, and LWLocks are
 * gone, the resource owner is there, and `context` is the current one.
 */
extern void fl_worker_absorb_error(MemoryContext context);

/* Wait for the latch, at most so many milliseconds (-1: no limit), and reset it. */
extern void fl_worker_wait(long timeout_ms);

/* Leave because something is missing; the launcher tries again later. */
FL_NORETURN extern void fl_worker_exit_dormant(const char *reason, const char *hint);

/* Name of a kind, as views and messages show it. */
extern const char *fl_worker_kind_name(FlWorkerKind kind);

#endif							/* FLEETLOG_WORKER_H */
