/*-------------------------------------------------------------------------
 *
 * state.c
 *		The state worker: values that had to wait for a lock are written when it is
 *		gone, and clears that nothing older can follow are forgotten.
 *
 * It runs only where a mount has a state table.  Each piece of work is a transaction
 * of its own; an error is logged and the work is tried again after a while.
 *
 * While values wait it looks again every few milliseconds, more and more seldom up to
 * MAX_PAUSE_MS: a row that somebody holds for a minute must not cost a core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/state.h"
#include "fleetlog/worker.h"

#define MIN_PAUSE_MS	5
#define MAX_PAUSE_MS	200
#define ERROR_PAUSE_MS	1000
#define PURGE_MS		60000
#define LOOK_MS			10000	/* for values that a crash has left waiting */

PGDLLEXPORT void fl_main_state(Datum arg);

static void
purge(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	fl_state_purge_cleared();
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* One turn; returns how many values still wait, -1 after an error. */
static int
run_turn(bool purge_too)
{
	volatile int waiting = -1;

	fl_worker_die_at_once = true;
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		waiting = fl_state_retry();
		if (purge_too)
			purge();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		FL_COUNT(FL_C_ERRORS, 1);
		RESUME_INTERRUPTS();
		waiting = -1;
	}
	PG_END_TRY();
	fl_worker_die_at_once = false;
	FL_COUNT(FL_C_TURNS, 1);
	return waiting;
}

static long
next_pause(int waiting)
{
	static long pause = MIN_PAUSE_MS;

	if (waiting < 0)
		return ERROR_PAUSE_MS;
	if (waiting == 0)
	{
		pause = MIN_PAUSE_MS;
		return LOOK_MS;
	}
	pause = Min(pause * 2, MAX_PAUSE_MS);
	return pause;
}

void
fl_main_state(Datum arg)
{
	MemoryContext turn_context;
	TimestampTz last_purge;

	fl_worker_begin(FL_WORKER_STATE, 0, true);
	SetConfigOption("lock_timeout", "500ms", PGC_SUSET, PGC_S_OVERRIDE);
	/* What it commits is answered to publishers: flushed, but no standby is waited for here. */
	SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
	turn_context = AllocSetContextCreate(TopMemoryContext, "fleetlog state turn", ALLOCSET_DEFAULT_SIZES);
	last_purge = GetCurrentTimestamp();
	while (!fl_worker_should_stop())
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		purge_too = now - last_purge >= PURGE_MS * INT64CONST(1000);
		int			waiting;

		MemoryContextReset(turn_context);
		MemoryContextSwitchTo(turn_context);
		fl_worker_turn();
		waiting = run_turn(purge_too);
		if (purge_too)
			last_purge = now;
		if (waiting > 0)
			fl_worker_set_state("running: %d values wait for a lock", waiting);
		else
			fl_worker_set_state("running");
		pgstat_report_stat(false);
		fl_worker_wait(next_pause(waiting));
	}
	proc_exit(0);
}
