/*-------------------------------------------------------------------------
 *
 * flusher.c
 *		The flusher: makes commits durable and says so.
 *
 * Woken by every commit that wrote to a stream.  While it waits for the disk,
 * further commits gather; the next pass flushes them all.  No tick, no delay:
 * commit_delay would make it sleep in the flush, so it is 0 here.
 *
 * It never waits for anything but the disk, least of all for a standby: that is
 * the confirmer's business, so that a lost standby stops no local stream.
 *
 * At shutdown it leaves last, because doors still owe acknowledgements for what
 * the appender has just committed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "fleetlog/worker.h"
#include "worker_internal.h"

#define REPORT_MS		1000	/* WAL statistics */
#define SHUTDOWN_POLL_MS 5

PGDLLEXPORT void fl_main_flusher(Datum arg);

static bool
others_need_us(void)
{
	return pg_atomic_read_u32(&fl_shared->doors_alive) > 0 ||
		fl_shared->slots[fl_slot_number(FL_WORKER_APPENDER, 0)].pid != 0;
}

static void
leave_last(void)
{
	TimestampTz deadline = GetCurrentTimestamp() + FL_SHUTDOWN_GRACE_MS * INT64CONST(1000);

	fl_worker_set_state("ending");
	while (others_need_us() && GetCurrentTimestamp() < deadline)
	{
		fl_flush_pass();
		fl_worker_wait(SHUTDOWN_POLL_MS);
	}
	fl_flush_pass();
}

static void
report_statistics(TimestampTz *last)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now - *last < REPORT_MS * INT64CONST(1000))
		return;
	*last = now;
	pgstat_report_wal(false);
}

void
fl_main_flusher(Datum arg)
{
	TimestampTz last_report = 0;

	fl_worker_begin(FL_WORKER_FLUSHER, 0, false);
	SetConfigOption("commit_delay", "0", PGC_SUSET, PGC_S_OVERRIDE);
	while (!fl_worker_should_stop())
	{
		fl_worker_turn();
		FL_COUNT(FL_C_TURNS, 1);
		if (!fl_flush_is_idle())
			FL_STOP_POINT("flusher_before_flush");
		/* An empty pass counts too: somebody may wait for one to begin. */
		fl_flush_pass();
		report_statistics(&last_report);
		if (fl_flush_is_idle())
			fl_worker_wait(-1);
	}
	leave_last();
	proc_exit(0);
}
