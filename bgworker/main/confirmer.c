/*-------------------------------------------------------------------------
 *
 * confirmer.c
 *		The confirmer: publishes what the synchronous standbys have confirmed, for
 *		streams with durability 'quorum'.
 *
 * What it publishes is WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH], read under
 * SyncRepLock, and nothing else.  That value moves only when a WAL sender has
 * counted the answers of the standbys that synchronous_standby_names asks for.
 * So nothing can fake it: no cancelled wait, no emptied names, no
 * synchronous_commit = local, no shutdown.
 *
 * It polls instead of calling SyncRepWaitForLSN, which sleeps without a timeout
 * and without processing interrupts, and whose return means nothing by itself
 * (facts are in README.md of this folder).  While something waits, the pause
 * is a millisecond at first and grows to MAX_PAUSE_MS when no answer comes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"

#include "fleetlog/worker.h"
#include "worker_internal.h"

#define MIN_PAUSE_MS		1
#define PATIENT_POLLS		100 /* polls at the shortest pause before it grows */
#define MAX_PAUSE_MS		50
#define NO_STANDBY_PAUSE_MS 1000

PGDLLEXPORT void fl_main_confirmer(Datum arg);

static XLogRecPtr
read_confirmed(void)
{
	XLogRecPtr	lsn;

	LWLockAcquire(SyncRepLock, LW_SHARED);
	lsn = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH];
	LWLockRelease(SyncRepLock);
	return lsn;
}

static bool
standbys_configured(void)
{
	return SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0' && max_wal_senders > 0;
}

/* The state for the view, and one line in the log when quorum streams begin to wait. */
static void
show_state(bool waiting, bool configured)
{
	static bool said = false;

	if (waiting && !configured)
	{
		fl_worker_set_state("waiting: synchronous_standby_names is empty");
		if (!said)
			ereport(LOG,
					(errmsg("publishes to quorum streams wait: no synchronous standby is configured"),
					 errhint("Set synchronous_standby_names, or alter the streams to durability 'local'.")));
		said = true;
		return;
	}
	said = false;
	if (waiting)
		fl_worker_set_state("waiting for synchronous standbys");
	else
		fl_worker_set_state("running");
}

static long
next_pause(bool waiting, bool configured, bool moved)
{
	static int	polls = 0;

	if (!waiting || moved)
		polls = 0;
	if (!waiting)
		return -1;
	if (!configured)
		return NO_STANDBY_PAUSE_MS;
	if (++polls <= PATIENT_POLLS)
		return MIN_PAUSE_MS;
	return Min(MIN_PAUSE_MS + (polls - PATIENT_POLLS) / 10, MAX_PAUSE_MS);
}

void
fl_main_confirmer(Datum arg)
{
	XLogRecPtr	published = InvalidXLogRecPtr;

	fl_worker_begin(FL_WORKER_CONFIRMER, 0, false);
	while (!fl_worker_should_stop())
	{
		XLogRecPtr	confirmed;
		bool		waiting;
		bool		configured;

		fl_worker_turn();
		FL_COUNT(FL_C_TURNS, 1);
		confirmed = read_confirmed();
		waiting = fl_confirm_pass(confirmed);
		configured = standbys_configured();
		show_state(waiting, configured);
		fl_worker_wait(next_pause(waiting, configured, confirmed > published));
		published = confirmed;
	}
	proc_exit(0);
}
