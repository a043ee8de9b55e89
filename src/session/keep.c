/*-------------------------------------------------------------------------
 *
 * keep.c
 *		What the keeper does for sessions: load them at start, make their streams
 *		when a door first needs them, end those that are over, write snapshots.
 *
 * It is called once in each of the keeper's turns.  After an error it waits a
 * while, so that a journal that cannot be read fills no log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/config.h"
#include "fleetlog/log.h"
#include "fleetlog/settings.h"
#include "fleetlog/worker.h"
#include "session_internal.h"

#define RETRY			(10 * USECS_PER_SEC)
#define EXPIRED			1000	/* ended in one transaction */

void
fl_keep_begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

void
fl_keep_commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

static void
wake_doors(void)
{
	for (int i = 0; i < fl_workers; i++)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
}

static void
load(void)
{
	fl_keep_begin();
	fl_sessions_load();
	fl_keep_commit();
	wake_doors();
}

/*
 * The first snapshot says which journal is meant: a crash before it leaves streams
 * that nobody has written to.
 */
static void
make_streams(void)
{
	Oid			journal;
	Oid			snapshot;
	bool		found;

	fl_keep_begin();
	found = fl_journal_look_up(&journal, &snapshot);
	if (!found)
	{
		fl_config_execute("SELECT fleetlog._make_session_streams()", 0, NULL, NULL, NULL);
		ereport(LOG, (errmsg("fleetlog: the streams of the session journal were made")));
	}
	fl_keep_commit();
	if (!found)
	{
		fl_keep_begin();
		fl_catalog_refresh();
		found = fl_journal_look_up(&journal, &snapshot);
		fl_keep_commit();
	}
	if (!found)
		return;
	fl_snapshot_write(journal, snapshot);
	fl_journal_publish(journal, snapshot);
	pg_atomic_write_u32(&fl_store->wanted, 0);
	wake_doors();
}

static void
end_expired(void)
{
	int			n;

	do
	{
		FlBuf		buf;

		fl_keep_begin();
		fl_buf_init(&buf, fl_server_allocator(), MaxAllocSize);
		n = fl_store_dump_expired(&buf, GetCurrentTimestamp(), EXPIRED);
		if (buf.len > 0)
			fl_journal_write(&buf);
		fl_buf_free(&buf);
		fl_keep_commit();
		pg_atomic_fetch_add_u64(&fl_store->expired, n);
	} while (n == EXPIRED);
	if (fl_session_wills_wait())
		wake_doors();
}

/* Somebody dropped the streams: that is how sessions are forgotten on purpose. */
static bool
streams_are_gone(void)
{
	Oid			journal = pg_atomic_read_u32(&fl_store->journal);

	return OidIsValid(journal) &&
		(fl_stream_lookup(journal) == NULL || fl_stream_lookup(pg_atomic_read_u32(&fl_store->snapshot)) == NULL);
}

static void
keep(void)
{
	if (!fl_sessions_ready() || streams_are_gone())
		load();
	if (!OidIsValid(pg_atomic_read_u32(&fl_store->journal)))
	{
		if (pg_atomic_read_u32(&fl_store->wanted) == 0)
			return;
		make_streams();
	}
	end_expired();
	if (fl_snapshot_is_due())
		fl_snapshot_write(pg_atomic_read_u32(&fl_store->journal), pg_atomic_read_u32(&fl_store->snapshot));
}

void
fl_sessions_keep(void)
{
	static TimestampTz retry_at = 0;
	MemoryContext caller = CurrentMemoryContext;

	if (retry_at != 0 && GetCurrentTimestamp() < retry_at)
		return;
	retry_at = 0;
	PG_TRY();
	{
		keep();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(caller);
		EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		FL_COUNT(FL_C_ERRORS, 1);
		retry_at = GetCurrentTimestamp() + RETRY;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
}
