/*-------------------------------------------------------------------------
 *
 * waiters.c
 *		Who waits for more of a stream: poll(), take() and watch().
 *
 * One entry a backend, at the place of its PGPROC, so that there is nothing to
 * allocate and nothing to run out of.  Entries that wait hang in a bucket by
 * stream; a publisher of tails walks one bucket, and only when it has anybody.
 * A thousand sessions that wait for a quiet stream therefore cost nothing: no
 * timer runs, and publications of other streams pass them by.
 *
 * Lost wake-ups: a waiter clears `woken` with a full barrier and then reads the
 * tails; a publisher writes the tail, has a full barrier, and then reads the
 * bucket's count and sets `woken`.  One of the two sees the other.  Between
 * being woken and looking, further publications of that stream set no latch.
 *
 * Locks: a bucket's lock for its list (exclusive to change it, shared to walk
 * it); it is taken last of all.  Counters of an entry are written by its owner,
 * `wakeups` by whoever wakes, all as atomics.
 *
 * Called by src/watch (the waiting side) and by every place that moves a durable
 * tail: flush.c, the end of a transaction (src/log/xact.c), and shards.c when a
 * stream is dropped.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/compat.h"
#include "fleetlog/tail_wait.h"
#include "shmem_internal.h"

#define FL_WAIT_BUCKETS		64
#define FL_WAIT_TRANCHE		"fleetlog_waiters"

/* Replay tells nobody of new records, so waiting on a standby is by timer. */
#define FL_STANDBY_LOOK_MS	100

typedef struct FlWaiter
{
	dlist_node	node;			/* in its bucket; bucket's lock */
	bool		listed;			/* owner only */
	FlShardKey	key;			/* stream it waits for; shard is not used */
	FlWaitKind	kind;
	int			pid;
	TimestampTz since;
	TimestampTz until;
	pg_atomic_uint32 gone;		/* the stream was dropped */
	pg_atomic_uint32 woken;
	pg_atomic_uint32 asleep;	/* has looked, found nothing and does nothing more */
	pg_atomic_uint64 wakeups;	/* in this wait */
} FlWaiter;

typedef struct FlWaitBucket
{
	dlist_head	waiters;
	pg_atomic_uint32 count;
} FlWaitBucket;

typedef struct FlWaitTable
{
	int			nwaiters;		/* size of the array */
	pg_atomic_uint64 waits;		/* begun since start */
	pg_atomic_uint64 wakeups;	/* latches set by publishers */
	pg_atomic_uint64 empty;		/* looks after a wake-up that found nothing */
	pg_atomic_uint64 timeouts;	/* waits that ended by their time */
	pg_atomic_uint64 records;	/* found by those who waited */
	FlWaitBucket buckets[FL_WAIT_BUCKETS];
	FlWaiter	waiters[FLEXIBLE_ARRAY_MEMBER];
} FlWaitTable;

static FlWaitTable *table = NULL;
static LWLockPadded *locks = NULL;
static FlWaiter *mine = NULL;	/* once this process has waited */
static bool was_woken = false;	/* the next look is due to a wake-up */

PG_FUNCTION_INFO_V1(fl_sql_stat_waiter);
PG_FUNCTION_INFO_V1(fl_sql_stat_wait);

/* ---- memory --------------------------------------------------------------------- */

Size
fl_waiters_size(void)
{
	return add_size(offsetof(FlWaitTable, waiters), mul_size(MaxBackends, sizeof(FlWaiter)));
}

void
fl_waiters_request(void)
{
	RequestNamedLWLockTranche(FL_WAIT_TRANCHE, FL_WAIT_BUCKETS);
}

void
fl_waiters_init(void)
{
	bool		found;

	locks = GetNamedLWLockTranche(FL_WAIT_TRANCHE);
	table = ShmemInitStruct("fleetlog waiters", fl_waiters_size(), &found);
	if (found)
		return;
	memset(table, 0, fl_waiters_size());
	table->nwaiters = MaxBackends;
	pg_atomic_init_u64(&table->waits, 0);
	pg_atomic_init_u64(&table->wakeups, 0);
	pg_atomic_init_u64(&table->empty, 0);
	pg_atomic_init_u64(&table->timeouts, 0);
	pg_atomic_init_u64(&table->records, 0);
	for (int i = 0; i < FL_WAIT_BUCKETS; i++)
	{
		dlist_init(&table->buckets[i].waiters);
		pg_atomic_init_u32(&table->buckets[i].count, 0);
	}
	for (int i = 0; i < table->nwaiters; i++)
	{
		pg_atomic_init_u32(&table->waiters[i].gone, 0);
		pg_atomic_init_u32(&table->waiters[i].woken, 0);
		pg_atomic_init_u32(&table->waiters[i].asleep, 0);
		pg_atomic_init_u64(&table->waiters[i].wakeups, 0);
	}
}

static int
bucket_of(Oid database, Oid stream)
{
	return (int) (hash_combine(murmurhash32(database), murmurhash32(stream)) % FL_WAIT_BUCKETS);
}

/* ---- waiting ----------------------------------------------------------------------- */

static void
leave_at_exit(int code, Datum arg)
{
	fl_tail_wait_end();
}

void
fl_tail_wait_begin(Oid stream, FlWaitKind kind, TimestampTz until)
{
	int			b = bucket_of(MyDatabaseId, stream);

	fl_require_preload();
	if (mine == NULL)
	{
		Assert(FL_MY_PROC_NUMBER >= 0 && FL_MY_PROC_NUMBER < table->nwaiters);
		mine = &table->waiters[FL_MY_PROC_NUMBER];
		before_shmem_exit(leave_at_exit, (Datum) 0);
	}
	fl_tail_wait_end();
	mine->key.database = MyDatabaseId;
	mine->key.stream = stream;
	mine->kind = kind;
	mine->pid = MyProcPid;
	mine->since = GetCurrentTimestamp();
	mine->until = until;
	pg_atomic_write_u32(&mine->gone, 0);
	pg_atomic_write_u32(&mine->woken, 0);
	pg_atomic_write_u32(&mine->asleep, 0);
	pg_atomic_write_u64(&mine->wakeups, 0);
	was_woken = false;
	pg_atomic_fetch_add_u64(&table->waits, 1);
	LWLockAcquire(&locks[b].lock, LW_EXCLUSIVE);
	dlist_push_tail(&table->buckets[b].waiters, &mine->node);
	mine->listed = true;
	pg_atomic_fetch_add_u32(&table->buckets[b].count, 1);
	LWLockRelease(&locks[b].lock);
}

void
fl_tail_wait_end(void)
{
	int			b;

	if (mine == NULL || !mine->listed)
		return;
	b = bucket_of(mine->key.database, mine->key.stream);
	/* An error may have left this very lock held. */
	if (LWLockHeldByMe(&locks[b].lock))
		LWLockRelease(&locks[b].lock);
	LWLockAcquire(&locks[b].lock, LW_EXCLUSIVE);
	dlist_delete(&mine->node);
	mine->listed = false;
	pg_atomic_fetch_sub_u32(&table->buckets[b].count, 1);
	LWLockRelease(&locks[b].lock);
}

void
fl_tail_wait_arm(void)
{
	pg_atomic_write_u32(&mine->asleep, 0);
	/* An exchange is a full barrier: the tails are read after it. */
	pg_atomic_exchange_u32(&mine->woken, 0);
}

/*
 * Sleep; a client that has gone ends the session as the server's own check of
 * connections would (client_connection_check_interval), but without a timer.
 */
static void
sleep_once(long timeout)
{
	WaitEvent	events[3];
	int			n;

	if (FeBeWaitSet == NULL || !WaitEventSetCanReportClosed())
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, timeout, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		return;
	}
	/* Whoever reads from the client next says anew what he waits for. */
	ModifyWaitEvent(FeBeWaitSet, FL_FEBE_SOCKET, WL_SOCKET_CLOSED, NULL);
	n = WaitEventSetWait(FeBeWaitSet, timeout, events, lengthof(events), PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	for (int i = 0; i < n; i++)
	{
		if (events[i].events & WL_POSTMASTER_DEATH)
			proc_exit(1);
		if (events[i].events & WL_SOCKET_CLOSED)
		{
			ClientConnectionLost = true;
			InterruptPending = true;
		}
	}
}

bool
fl_tail_wait_sleep(TimestampTz until)
{
	for (;;)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_read_u32(&mine->woken) != 0)
		{
			was_woken = true;
			return true;
		}
		if (left <= 0)
		{
			pg_atomic_fetch_add_u64(&table->timeouts, 1);
			return false;
		}
		if (RecoveryInProgress())
			left = Min(left, FL_STANDBY_LOOK_MS);
		pg_atomic_write_u32(&mine->asleep, 1);
		sleep_once(left);
		if (RecoveryInProgress())
			return true;
	}
}

bool
fl_tail_wait_is_gone(void)
{
	return pg_atomic_read_u32(&mine->gone) != 0;
}

void
fl_tail_wait_found(uint64 records)
{
	if (was_woken && records == 0)
		pg_atomic_fetch_add_u64(&table->empty, 1);
	pg_atomic_fetch_add_u64(&table->records, records);
	was_woken = false;
}

/* ---- waking -------------------------------------------------------------------------- */

/* Those who wait for this stream; InvalidOid: those who wait for any. */
static void
wake_listed(Oid database, Oid stream, bool gone)
{
	int			b = bucket_of(database, stream);
	dlist_iter	iter;

	if (pg_atomic_read_u32(&table->buckets[b].count) == 0)
		return;
	LWLockAcquire(&locks[b].lock, LW_SHARED);
	dlist_foreach(iter, &table->buckets[b].waiters)
	{
		FlWaiter   *w = dlist_container(FlWaiter, node, iter.cur);

		if (w->key.stream != stream || w->key.database != database)
			continue;
		if (gone)
			pg_atomic_write_u32(&w->gone, 1);
		if (pg_atomic_exchange_u32(&w->woken, 1) != 0)
			continue;
		pg_atomic_fetch_add_u64(&w->wakeups, 1);
		pg_atomic_fetch_add_u64(&table->wakeups, 1);
		SetLatch(&ProcGlobal->allProcs[w - table->waiters].procLatch);
	}
	LWLockRelease(&locks[b].lock);
}

static void
wake(const FlShardKey *key, bool gone)
{
	if (table == NULL)
		return;
	/* The tail was written before this; see the head of the file. */
	pg_memory_barrier();
	wake_listed(key->database, key->stream, gone);
	wake_listed(key->database, InvalidOid, false);
}

void
fl_tail_moved(const FlShardKey *key)
{
	wake(key, false);
	if (key->stream == (Oid) pg_atomic_read_u32(&fl_shared->command_stream))
		fl_worker_wake(FL_WORKER_COMMANDS, 0);
}

void
fl_tail_gone(Oid stream)
{
	wake(&(FlShardKey) {.database = MyDatabaseId,.stream = stream}, true);
}

/* ---- views ---------------------------------------------------------------------------- */

static const char *
kind_name(FlWaitKind kind)
{
	switch (kind)
	{
		case FL_WAIT_POLL:
			return "poll";
		case FL_WAIT_TAKE:
			return "take";
		case FL_WAIT_WATCH:
			return "watch";
		case FL_WAIT_RUNNER:
			return "runner";
	}
	return "unknown";
}

/*
 * Does the entry say of its session that it sleeps?  One that looks for the first
 * time, which may have to wait for a flush, or again because it was woken, is at
 * work.
 */
static bool
is_asleep(FlWaiter *w)
{
	return pg_atomic_read_u32(&w->asleep) != 0 && pg_atomic_read_u32(&w->woken) == 0;
}

typedef struct FlWaiterRow
{
	FlShardKey	key;
	FlWaitKind	kind;
	int			pid;
	TimestampTz since;
	TimestampTz until;
	uint64		wakeups;
} FlWaiterRow;

/* Those of this database that wait now. */
Datum
fl_sql_stat_waiter(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FlWaiterRow *rows;
	int			n = 0;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	rows = palloc(sizeof(FlWaiterRow) * table->nwaiters);
	for (int b = 0; b < FL_WAIT_BUCKETS; b++)
	{
		dlist_iter	iter;

		LWLockAcquire(&locks[b].lock, LW_SHARED);
		dlist_foreach(iter, &table->buckets[b].waiters)
		{
			FlWaiter   *w = dlist_container(FlWaiter, node, iter.cur);

			if (w->key.database == MyDatabaseId && n < table->nwaiters && is_asleep(w))
				rows[n++] = (FlWaiterRow) {
				.key = w->key,.kind = w->kind,.pid = w->pid,.since = w->since,.until = w->until,
				.wakeups = pg_atomic_read_u64(&w->wakeups)
			};
		}
		LWLockRelease(&locks[b].lock);
	}
	for (int i = 0; i < n; i++)
	{
		Datum		values[6];
		bool		nulls[6] = {0};

		values[0] = Int32GetDatum(rows[i].pid);
		values[1] = CStringGetTextDatum(kind_name(rows[i].kind));
		values[2] = ObjectIdGetDatum(rows[i].key.stream);
		values[3] = TimestampTzGetDatum(rows[i].since);
		values[4] = TimestampTzGetDatum(rows[i].until);
		values[5] = Int64GetDatum((int64) rows[i].wakeups);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static int64
count_asleep(void)
{
	int64		n = 0;

	for (int b = 0; b < FL_WAIT_BUCKETS; b++)
	{
		dlist_iter	iter;

		LWLockAcquire(&locks[b].lock, LW_SHARED);
		dlist_foreach(iter, &table->buckets[b].waiters)
			n += is_asleep(dlist_container(FlWaiter, node, iter.cur));
		LWLockRelease(&locks[b].lock);
	}
	return n;
}

/* One row: counters since server start, over all databases. */
Datum
fl_sql_stat_wait(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[6];
	bool		nulls[6] = {0};

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	values[0] = Int64GetDatum(count_asleep());
	values[1] = Int64GetDatum((int64) pg_atomic_read_u64(&table->waits));
	values[2] = Int64GetDatum((int64) pg_atomic_read_u64(&table->wakeups));
	values[3] = Int64GetDatum((int64) pg_atomic_read_u64(&table->empty));
	values[4] = Int64GetDatum((int64) pg_atomic_read_u64(&table->timeouts));
	values[5] = Int64GetDatum((int64) pg_atomic_read_u64(&table->records));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}
