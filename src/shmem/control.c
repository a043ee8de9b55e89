/*-------------------------------------------------------------------------
 *
 * control.c
 *		fleetlog.pause() and fleetlog.resume(), and the nudge that CREATE EXTENSION
 *		gives the launcher.
 *
 * Paused is a flag in shared memory: it does not outlive the server, so that
 * nobody finds a fleet disconnected because of a pause of last month.  It is
 * not transactional either; a pause is over when resume() says so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "fleetlog/launcher.h"
#include "fleetlog/worker.h"
#include "shmem_internal.h"

#define PAUSE_WAIT_MS	10000
#define PAUSE_POLL_MS	20

PG_FUNCTION_INFO_V1(fl_sql_pause);
PG_FUNCTION_INFO_V1(fl_sql_resume);
PG_FUNCTION_INFO_V1(fl_sql_launcher_retry);

/* The first role that has a process, or FL_WORKER_NONE; the launcher does not count. */
static FlWorkerKind
any_worker(void)
{
	for (int i = 0; i < FL_MAX_WORKERS; i++)
	{
		FlWorkerSlot *slot = &fl_shared->slots[i];

		if (slot->pid != 0 && slot->kind != FL_WORKER_LAUNCHER)
			return slot->kind;
	}
	return FL_WORKER_NONE;
}

static void
wait_for_exit(void)
{
	for (int left = PAUSE_WAIT_MS / PAUSE_POLL_MS; left > 0 && any_worker() != FL_WORKER_NONE; left--)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 PAUSE_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	if (any_worker() != FL_WORKER_NONE)
		ereport(WARNING,
				(errmsg("the fleetlog %s has not ended yet", fl_worker_kind_name(any_worker())),
				 errhint("It ends as soon as what it waits for is over; see fleetlog.stat_worker.")));
}

Datum
fl_sql_pause(PG_FUNCTION_ARGS)
{
	fl_require_preload();
	fl_shared->paused = true;
	fl_launcher_retry();
	wait_for_exit();
	PG_RETURN_VOID();
}

Datum
fl_sql_resume(PG_FUNCTION_ARGS)
{
	fl_require_preload();
	fl_shared->paused = false;
	fl_launcher_retry();
	PG_RETURN_VOID();
}

static bool retry_wanted = false;

/* Server 15 does not let a callback remove itself, so it stays and looks at a flag. */
static void
retry_at_commit(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT && retry_wanted)
		fl_launcher_retry();
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		retry_wanted = false;
}

/*
 * Called by the install script, so that workers which found no extension look
 * again as soon as it is there.
 */
Datum
fl_sql_launcher_retry(PG_FUNCTION_ARGS)
{
	static bool registered = false;

	if (fl_shared == NULL)
		PG_RETURN_VOID();
	if (!registered)
		RegisterXactCallback(retry_at_commit, NULL);
	registered = true;
	retry_wanted = true;
	PG_RETURN_VOID();
}
