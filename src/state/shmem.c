/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		What processes share about state tables: which records' values wait for a
 *		lock, counters, and whether the state worker is of use.
 *
 * Locking: `lock` protects the list; its length is an atomic, so that nobody takes
 * the lock while nothing waits, which is nearly always.
 *
 * When the list is full every retained publish is held back until nothing waits any
 * more: late answers, never false ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "fleetlog/shmem.h"
#include "state_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_state);

#define MAX_WAITING		1024
#define SETTLE_US		(60 * USECS_PER_SEC)	/* by then the transaction has ended, or is seen */
#define TRANCHE			"fleetlog state"

typedef struct Waiting
{
	Oid			stream;
	int32		shard;
	int64		log_offset;
	int64		since;			/* by fl_monotonic_us() */
} Waiting;

typedef struct StateShared
{
	LWLock	   *lock;
	pg_atomic_uint32 n;			/* entries of the list */
	pg_atomic_uint32 overflow;
	pg_atomic_uint32 worker_wanted;
	pg_atomic_uint32 follows;	/* last values are folded from the log */
	pg_atomic_uint32 flush_awaited;
	pg_atomic_uint32 pending;	/* rows are in state_pending */
	pg_atomic_uint64 oldest;	/* append time of the oldest value that waits */
	FlStateStats stats;
	Waiting		list[MAX_WAITING];
} StateShared;

static StateShared *shared = NULL;

Size
fl_state_shmem_size(void)
{
	RequestNamedLWLockTranche(TRANCHE, 1);
	return add_size(MAXALIGN(sizeof(StateShared)), fl_last_size());
}

void
fl_state_shmem_init(void)
{
	bool		found;

	fl_last_init();
	shared = ShmemInitStruct("fleetlog state", sizeof(StateShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(*shared));
	shared->lock = &GetNamedLWLockTranche(TRANCHE)[0].lock;
	pg_atomic_init_u32(&shared->n, 0);
	pg_atomic_init_u32(&shared->overflow, 0);
	pg_atomic_init_u32(&shared->worker_wanted, 0);
	pg_atomic_init_u32(&shared->follows, 0);
	pg_atomic_init_u32(&shared->flush_awaited, 0);
	pg_atomic_init_u32(&shared->pending, 0);
	pg_atomic_init_u64(&shared->oldest, PG_INT64_MAX);
	pg_atomic_init_u64(&shared->stats.applied, 0);
	pg_atomic_init_u64(&shared->stats.cleared, 0);
	pg_atomic_init_u64(&shared->stats.stale, 0);
	pg_atomic_init_u64(&shared->stats.deferred, 0);
	pg_atomic_init_u64(&shared->stats.retried, 0);
	pg_atomic_init_u64(&shared->stats.conflicts, 0);
}

FlStateStats *
fl_state_stats(void)
{
	return &shared->stats;
}

/* ---- the list ------------------------------------------------------------------- */

static int
find(Oid stream, int32 shard, int64 log_offset)
{
	int			n = (int) pg_atomic_read_u32(&shared->n);

	for (int i = 0; i < n; i++)
		if (shared->list[i].log_offset == log_offset && shared->list[i].stream == stream &&
			shared->list[i].shard == shard)
			return i;
	return -1;
}

void
fl_state_wait_add(Oid stream, int32 shard, int64 log_offset)
{
	int			n;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	n = (int) pg_atomic_read_u32(&shared->n);
	if (n == MAX_WAITING)
		pg_atomic_write_u32(&shared->overflow, 1);
	else if (find(stream, shard, log_offset) < 0)
	{
		shared->list[n] = (Waiting) {
			.stream = stream,.shard = shard,.log_offset = log_offset,.since = fl_monotonic_us()
		};
		pg_atomic_write_u32(&shared->n, (uint32) n + 1);
	}
	LWLockRelease(shared->lock);
}

static void
remove_at(int i)
{
	int			n = (int) pg_atomic_read_u32(&shared->n) - 1;

	shared->list[i] = shared->list[n];
	pg_atomic_write_u32(&shared->n, (uint32) n);
}

void
fl_state_wait_remove(Oid stream, int32 shard, int64 log_offset)
{
	int			i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = find(stream, shard, log_offset);
	if (i >= 0)
		remove_at(i);
	LWLockRelease(shared->lock);
}

static bool
is_listed(const Waiting *w, const FlStateChange *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i].stream == w->stream && list[i].pos.shard == w->shard && list[i].pos.log_offset == w->log_offset)
			return true;
	return false;
}

/*
 * `list` is all that waits, as a snapshot has it.  What is not in it has been
 * written, or its transaction died without saying so, or has not ended yet:
 * young entries stay.
 */
void
fl_state_wait_keep_only(const FlStateChange *list, int n)
{
	int64		now = fl_monotonic_us();

	if (pg_atomic_read_u32(&shared->n) == 0 && pg_atomic_read_u32(&shared->overflow) == 0)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (int i = (int) pg_atomic_read_u32(&shared->n) - 1; i >= 0; i--)
		if (now - shared->list[i].since > SETTLE_US && !is_listed(&shared->list[i], list, n))
			remove_at(i);
	if (n == 0 && pg_atomic_read_u32(&shared->n) == 0)
		pg_atomic_write_u32(&shared->overflow, 0);
	LWLockRelease(shared->lock);
}

bool
fl_state_is_waiting(Oid stream, int32 shard, int64 log_offset)
{
	bool		result;

	if (pg_atomic_read_u32(&shared->n) == 0 && pg_atomic_read_u32(&shared->overflow) == 0)
		return false;
	if (pg_atomic_read_u32(&shared->overflow) != 0)
		return true;
	LWLockAcquire(shared->lock, LW_SHARED);
	result = find(stream, shard, log_offset) >= 0;
	LWLockRelease(shared->lock);
	return result;
}

int
fl_state_waiting(void)
{
	return (int) pg_atomic_read_u32(&shared->n);
}

void
fl_state_set_pending(bool pending)
{
	pg_atomic_write_u32(&shared->pending, pending ? 1 : 0);
}

bool
fl_state_retry_wanted(void)
{
	return pg_atomic_read_u32(&shared->n) != 0 || pg_atomic_read_u32(&shared->overflow) != 0 ||
		pg_atomic_read_u32(&shared->pending) != 0;
}

void
fl_state_set_oldest_waiting(TimestampTz ts)
{
	pg_atomic_write_u64(&shared->oldest, (uint64) ts);
}

TimestampTz
fl_state_oldest_waiting(void)
{
	return (TimestampTz) pg_atomic_read_u64(&shared->oldest);
}

/* ---- the worker ----------------------------------------------------------------------- */

bool
fl_state_worker_wanted(void)
{
	return pg_atomic_read_u32(&shared->worker_wanted) != 0;
}

void
fl_state_want_worker(void)
{
	if (fl_state_worker_wanted())
		return;
	pg_atomic_write_u32(&shared->worker_wanted, 1);
	fl_worker_wake(FL_WORKER_LAUNCHER, 0);
}

void
fl_state_tail_moved(void)
{
	if (pg_atomic_read_u32(&shared->follows) != 0)
		fl_worker_wake(FL_WORKER_STATE, 0);
}

pg_atomic_uint32 *
fl_state_follows(void)
{
	return &shared->follows;
}

void
fl_state_await_flush(void)
{
	if (pg_atomic_exchange_u32(&shared->flush_awaited, 1) == 0)
		fl_worker_wake(FL_WORKER_STATE, 0);
}

bool
fl_state_flush_is_awaited(void)
{
	return pg_atomic_exchange_u32(&shared->flush_awaited, 0) != 0;
}

/* ---- the view --------------------------------------------------------------------------- */

Datum
fl_sql_stat_state(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[7];
	bool		nulls[7] = {false};

	fl_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->stats.applied));
	values[1] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->stats.cleared));
	values[2] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->stats.stale));
	values[3] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->stats.deferred));
	values[4] = Int64GetDatum((int64) fl_state_waiting());
	values[5] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->stats.retried));
	values[6] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->stats.conflicts));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
