/*-------------------------------------------------------------------------
 *
 * runner.c
 *		The runner of decision loops (D2).  What it does is src/loop; here is only the
 *		process: it sleeps until a durable tail of the database moves, the configuration
 *		changes, or a request's time is over.
 *
 * There is one of it (its slot in shared memory).  All that it knows is rows, and each
 * of its steps is a transaction that locks the row of what it works on, so the one
 * that is started after a crash or a failover goes on, and two would not harm.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "fleetlog/loop.h"
#include "fleetlog/tail_wait.h"
#include "fleetlog/worker.h"

#define GATHER_MS	2			/* readings that come one by one are decided together */

PGDLLEXPORT void fl_main_runner(Datum arg);

static void
show_state(void)
{
	int			loops;
	int			stopped;

	fl_loop_figures(&loops, &stopped);
	if (stopped > 0)
		fl_worker_set_state("running: %d loops, errors at %d shards", loops, stopped);
	else
		fl_worker_set_state("running: %d loops", loops);
}

void
fl_main_runner(Datum arg)
{
	MemoryContext turn_context;

	fl_worker_begin(FL_WORKER_RUNNER, 0, true);
	/* Rows that somebody holds are passed over where that is possible. */
	SetConfigOption("lock_timeout", "5s", PGC_SUSET, PGC_S_OVERRIDE);
	/* Readers wait for what is durable anyway; no standby is waited for here. */
	SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
	turn_context = AllocSetContextCreate(TopMemoryContext, "fleetlog runner turn", ALLOCSET_DEFAULT_SIZES);
	while (!fl_worker_should_stop())
	{
		long		wait;

		MemoryContextReset(turn_context);
		MemoryContextSwitchTo(turn_context);
		fl_worker_turn();
		/* Before looking: a tail that moves from here on sets the latch. */
		fl_tail_wait_begin(InvalidOid, FL_WAIT_RUNNER, DT_NOEND);
		fl_tail_wait_arm();
		fl_worker_die_at_once = true;
		wait = fl_loop_turn(turn_context);
		fl_worker_die_at_once = false;
		FL_COUNT(FL_C_TURNS, 1);
		show_state();
		pgstat_report_stat(false);
		if (wait <= 0)
			continue;
		fl_worker_wait(wait);
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, GATHER_MS, PG_WAIT_EXTENSION);
	}
	fl_tail_wait_end();
	proc_exit(0);
}
