/*-------------------------------------------------------------------------
 *
 * xact.c
 *		The end of a transaction that wrote to streams.
 *
 *	pre-commit		tails are computed (again, where a savepoint was rolled back);
 *					synchronous_commit is set off, so that the shard's lock is not
 *					held through the flush and the standbys' answer
 *	commit			visible already, lock still held: each shard's (tail, commit
 *					LSN) is published, in order, for the flusher
 *	after locks		synchronous_commit is restored and the session waits as it
 *					would have: flush, then standbys.  COMMIT returns as late as
 *					ever, but the shard was free all the while, and a lost standby
 *					freezes no shard
 *	abort			whoever takes the lock next looks for the tail on disk
 *
 * The callback is registered when the library is loaded, so it runs after
 * those of other extensions and after publish(), which registers later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "fleetlog/log_tail.h"
#include "fleetlog/settings.h"
#include "fleetlog/tail_wait.h"
#include "log_private.h"
#include "xact.h"

/* A shard whose lock this transaction holds. */
typedef struct Held
{
	FlShard    *shard;
	FlShardKey	key;			/* whose entry it was when the lock was taken */
	SubTransactionId subid;		/* that took the lock, or its committed parent */
	bool		written;
	int64		tail;			/* at commit */
	bool		trimmed;
} Held;

static Held *held = NULL;
static int	n_held = 0;
static int	max_held = 0;

static bool committing = false; /* counted in fl_shared->committing */
static bool sync_saved = false; /* synchronous_commit is off on our behalf */
static int	saved_sync_commit;
static bool wrote = false;		/* the transaction that just ended wrote */

static Held *
find_held(FlShard *shard)
{
	for (int i = n_held - 1; i >= 0; i--)
		if (held[i].shard == shard)
			return &held[i];
	return NULL;
}

bool
fl_xact_holds(FlShard *shard)
{
	return find_held(shard) != NULL;
}

bool
fl_xact_holds_any(void)
{
	return n_held > 0;
}

void
fl_xact_note_lock(FlShard *shard)
{
	if (n_held == max_held)
	{
		int			n = max_held ? max_held * 2 : 16;

		held = held ? repalloc(held, n * sizeof(Held)) :
			MemoryContextAlloc(TopMemoryContext, n * sizeof(Held));
		max_held = n;
	}
	held[n_held++] = (Held) {
		.shard = shard,.key = shard->key,.subid = GetCurrentSubTransactionId()
	};
}

void
fl_xact_note_write(FlShard *shard)
{
	Held	   *h = find_held(shard);

	if (h == NULL)
		elog(ERROR, "shard written without its lock");
	h->written = true;
}

void
fl_xact_note_trim(FlShard *shard)
{
	Held	   *h = find_held(shard);

	if (h == NULL)
		elog(ERROR, "shard trimmed without its lock");
	h->trimmed = true;
}

/*
 * Did it do something that COMMIT waits for after the locks are gone?  Heads
 * are published by src/catalog/change.c.
 */
static bool
has_changes(void)
{
	for (int i = 0; i < n_held; i++)
		if (held[i].written || held[i].trimmed)
			return true;
	return false;
}

int
fl_xact_written(void)
{
	int			n = 0;

	for (int i = 0; i < n_held; i++)
		n += held[i].written;
	return n;
}

/* ---- top-level transaction ------------------------------------------------- */

/*
 * The entry is still the one that was written to.  It is not when the stream
 * has been dropped: by this transaction, or by another one after our locks had
 * gone.  The memory may serve another shard by then.
 */
static bool
same_entry(const Held *h)
{
	return memcmp(&h->shard->key, &h->key, sizeof(FlShardKey)) == 0;
}

/*
 * A stream that this transaction dropped after writing to it has no tail to
 * tell.  Should the commit still fail, its files are looked at again.
 */
static void
forget_dropped(void)
{
	for (int i = 0; i < n_held; i++)
		if ((held[i].written || held[i].trimmed) &&
			!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(held[i].key.stream)))
		{
			held[i].shard->writer_valid = false;
			held[i].written = held[i].trimmed = false;
		}
}

static void
pre_commit(void)
{
	if (!has_changes())
		return;
	forget_dropped();
	if (!has_changes())
		return;
	for (int i = 0; i < n_held; i++)
	{
		if (!held[i].written)
			continue;
		fl_writer_prepare(held[i].shard);
		held[i].tail = held[i].shard->next_offset;
	}
	if (!committing)
	{
		pg_atomic_fetch_add_u32(&fl_shared->committing, 1);
		committing = true;
	}
	if (!sync_saved)
	{
		saved_sync_commit = synchronous_commit;
		sync_saved = true;
		synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	}
}

static void
stop_committing(void)
{
	if (committing)
	{
		pg_atomic_fetch_sub_u32(&fl_shared->committing, 1);
		committing = false;
	}
}

/*
 * The session has flushed its own commit: its tails are known to be flushed.
 * The locks are gone by now, so the stream may have been dropped and its entry
 * be another shard's; the map lock keeps entries from being freed meanwhile.
 */
static void
raise_flushed(void)
{
	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	for (int i = 0; i < n_held; i++)
	{
		FlShard    *shard = held[i].shard;
		uint64		tail = (uint64) held[i].tail;
		uint64		old;

		if (!held[i].written || memcmp(&shard->key, &held[i].key, sizeof(FlShardKey)) != 0)
			continue;
		old = pg_atomic_read_u64(&shard->flushed_tail);
		while (old < tail &&
			   !pg_atomic_compare_exchange_u64(&shard->flushed_tail, &old, tail))
			;
		/* For a quorum stream that is not durable yet. */
		if (old < tail && !shard->quorum)
			fl_tail_moved(&held[i].key);
	}
	LWLockRelease(fl_shared->shard_map_lock);
}

static void
at_commit(void)
{
	for (int i = 0; i < n_held; i++)
	{
		if (!same_entry(&held[i]))
			continue;
		if (held[i].written)
			fl_shard_publish(held[i].shard, held[i].tail, XactLastCommitEnd);
		wrote = wrote || held[i].written || held[i].trimmed;
	}
	if (!wrote)
		n_held = 0;
	stop_committing();
}

static void
at_abort(void)
{
	for (int i = 0; i < n_held; i++)
		if (held[i].written)
			held[i].shard->writer_valid = false;
	stop_committing();
	wrote = false;
	n_held = 0;
	fl_shard_lock_at_end(false);
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			pre_commit();
			break;
		case XACT_EVENT_COMMIT:
			at_commit();
			fl_shard_lock_at_end(true);
			break;
		case XACT_EVENT_ABORT:
			at_abort();
			break;
		case XACT_EVENT_PRE_PREPARE:
			if (n_held > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has written to a stream"),
						 errdetail("It would hold the stream's shard until COMMIT PREPARED."),
						 errhint("Commit the transaction in one phase.")));
			break;
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

/* ---- subtransactions --------------------------------------------------------- */

static void
subxact_callback(SubXactEvent event, SubTransactionId my, SubTransactionId parent, void *arg)
{
	int			keep = 0;

	if (n_held == 0)
		return;
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			for (int i = 0; i < n_held; i++)
				if (held[i].subid == my)
					held[i].subid = parent;
			break;
		case SUBXACT_EVENT_ABORT_SUB:

			/*
			 * The offsets it used are to be given out again.  Locks it took go
			 * with it; those of its parents stay, and their tail is looked for
			 * again before the next append or at commit.
			 */
			for (int i = 0; i < n_held; i++)
			{
				if (held[i].written)
					held[i].shard->writer_valid = false;
				if (held[i].subid != my)
					held[keep++] = held[i];
			}
			n_held = keep;
			break;
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

/* ---- after the locks are gone --------------------------------------------------- */

static void
release_callback(ResourceReleasePhase phase, bool is_commit, bool is_top, void *arg)
{
	int			level;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top)
		return;
	if (!sync_saved)
		return;
	sync_saved = false;
	level = saved_sync_commit;
	synchronous_commit = level;
	if (!is_commit || !wrote)
	{
		wrote = false;
		n_held = 0;
		return;
	}
	wrote = false;
	if (fl_my_slot == NULL && level > SYNCHRONOUS_COMMIT_OFF)
	{
		XLogFlush(XactLastCommitEnd);
		raise_flushed();
		if (level > SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
			SyncRepWaitForLSN(XactLastCommitEnd, true);
	}
	n_held = 0;
	/* A worker that had to leave one of these shards aside may go on. */
	if (fl_my_slot == NULL)
		fl_worker_wake(FL_WORKER_APPENDER, 0);
}

void
fl_xact_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
	RegisterResourceReleaseCallback(release_callback, NULL);
}

/* ---- read barrier ------------------------------------------------------------------ */

/* The end of WAL inserted so far, as a position that XLogFlush accepts. */
static XLogRecPtr
insert_end(void)
{
	XLogRecPtr	lsn = GetXLogInsertRecPtr();
	uint32		off = XLogSegmentOffset(lsn, wal_segment_size);

	/* At a page boundary it names the byte behind a header that is not there yet. */
	if (off == SizeOfXLogLongPHD)
		lsn -= SizeOfXLogLongPHD;
	else if (off % XLOG_BLCKSZ == SizeOfXLogShortPHD)
		lsn -= SizeOfXLogShortPHD;
	return lsn;
}

/*
 * A snapshot may see commits that are not flushed yet, since streams commit
 * asynchronously.  All of them are registered by now, unless a writer is just
 * between becoming visible and registering; then flush to the end of WAL.
 */
void
fl_read_barrier(void)
{
	XLogRecPtr	lsn;

	if (!fl_read_barrier_on || fl_shared == NULL || RecoveryInProgress())
		return;
	pg_memory_barrier();

	/*
	 * The counter first: a writer that has left its window has registered
	 * before, so the position read afterwards has it.
	 */
	if (pg_atomic_read_u32(&fl_shared->committing) > (committing ? 1 : 0))
		lsn = insert_end();
	else
	{
		pg_read_barrier();
		lsn = pg_atomic_read_u64(&fl_shared->max_commit_lsn);
	}
	if (XLogNeedsFlush(lsn))
		XLogFlush(lsn);
}
