/*-------------------------------------------------------------------------
 *
 * state.c
 *		The state worker: values that had to wait for a lock are written when it is
 *		gone, last values are folded from the log (src/state/fold.c), and clears that
 *		nothing older can follow are forgotten; requests to device shadows are served.
 *
 * It runs only where a mount has a state table, or device shadows are enabled.  Each piece of work is a transaction
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
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/shmem.h"
#include "fleetlog/state.h"
#include "fleetlog/worker.h"

#define MIN_PAUSE_MS	5
#define MAX_PAUSE_MS	200
#define ERROR_PAUSE_MS	1000
#define GATHER_MS		2
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

typedef struct Turn
{
	MemoryContext mcxt;
	bool		purge;
	bool		look;			/* at state_pending, although nobody says that something is there */
	long		fold_wait;		/* until the folder wants to be called again */
	bool		more;			/* requests to shadows */
	int			waiting;		/* values that wait for a lock, -1 after an error */
} Turn;

static void
run_turn(volatile Turn *turn)
{
	turn->waiting = -1;
	turn->fold_wait = -1;
	turn->more = false;
	fl_worker_die_at_once = true;
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		turn->fold_wait = fl_state_fold_run(turn->mcxt);
		turn->more = fl_state_shadow_run();
		turn->waiting = turn->look || fl_state_retry_wanted() ? fl_state_retry() : 0;
		if (turn->purge)
			purge();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		FL_COUNT(FL_C_ERRORS, 1);
		RESUME_INTERRUPTS();
		turn->waiting = -1;
	}
	PG_END_TRY();
	fl_worker_die_at_once = false;
	FL_COUNT(FL_C_TURNS, 1);
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

/* Wait for a tail to move, but let some of it gather. */
static void
rest(const volatile Turn *turn)
{
	long		pause = next_pause(turn->waiting);

	if (turn->waiting >= 0 && (turn->fold_wait == 0 || turn->more))
		return;
	(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, GATHER_MS, PG_WAIT_EXTENSION);
	fl_worker_wait(turn->waiting >= 0 && turn->fold_wait > 0 ? Min(pause, turn->fold_wait) : pause);
}

void
fl_main_state(Datum arg)
{
	int64		last_purge;
	int64		last_look = 0;
	Turn		turn = {0};

	fl_worker_begin(FL_WORKER_STATE, 0, true);
	SetConfigOption("lock_timeout", "500ms", PGC_SUSET, PGC_S_OVERRIDE);
	/* What it commits is answered to publishers: flushed, but no standby is waited for here. */
	SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
	turn.mcxt = AllocSetContextCreate(TopMemoryContext, "fleetlog state turn", ALLOCSET_DEFAULT_SIZES);
	last_purge = fl_monotonic_us();
	while (!fl_worker_should_stop())
	{
		int64		now = fl_monotonic_us();

		turn.purge = now - last_purge >= PURGE_MS * INT64CONST(1000);
		turn.look = now - last_look >= LOOK_MS * INT64CONST(1000);
		MemoryContextReset(turn.mcxt);
		MemoryContextSwitchTo(turn.mcxt);
		fl_worker_turn();
		run_turn(&turn);
		if (turn.purge)
			last_purge = now;
		if (turn.look)
			last_look = now;
		if (turn.waiting > 0)
			fl_worker_set_state("running: %d values wait for a lock", turn.waiting);
		else
			fl_worker_set_state("running");
		pgstat_report_stat(false);
		rest(&turn);
	}
	proc_exit(0);
}
