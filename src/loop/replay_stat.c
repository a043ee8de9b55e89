/*-------------------------------------------------------------------------
 *
 * replay_stat.c
 *		How far replays are: view fleetlog.stat_replay.
 *
 * A replay claims a slot by its pid; when all are taken it runs unseen.  Only the
 * process that has a slot and its workers, which it waits for, write to it.
 *
 * Locks: a spinlock for claiming and for the text; the counters are atomics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/replay.h"
#include "fleetlog/shmem.h"
#include "replay_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_replay);

#define SLOTS		64
#define LOOP_LEN	64

typedef struct ReplaySlot
{
	int			pid;			/* 0: free */
	Oid			database;
	Oid			role;
	char		loop[LOOP_LEN];
	TimestampTz started_at;
	pg_atomic_uint32 phase;
	pg_atomic_uint32 workers;
	pg_atomic_uint64 total;
	pg_atomic_uint64 records;
	pg_atomic_uint64 readings;
	pg_atomic_uint64 same;
	pg_atomic_uint64 differing;
} ReplaySlot;

typedef struct ReplayShared
{
	slock_t		mutex;
	ReplaySlot	slots[SLOTS];
} ReplayShared;

static ReplayShared *shared = NULL;
static ReplaySlot *mine = NULL;

Size
fl_replay_shmem_size(void)
{
	return MAXALIGN(sizeof(ReplayShared));
}

void
fl_replay_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("fleetlog replays", sizeof(ReplayShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(ReplayShared));
	SpinLockInit(&shared->mutex);
	for (int i = 0; i < SLOTS; i++)
	{
		ReplaySlot *s = &shared->slots[i];

		pg_atomic_init_u32(&s->phase, 0);
		pg_atomic_init_u32(&s->workers, 0);
		pg_atomic_init_u64(&s->total, 0);
		pg_atomic_init_u64(&s->records, 0);
		pg_atomic_init_u64(&s->readings, 0);
		pg_atomic_init_u64(&s->same, 0);
		pg_atomic_init_u64(&s->differing, 0);
	}
}

static void
replay_ends(int code, Datum arg)
{
	fl_replay_progress_end();
}

bool
fl_replay_progress_begin(const char *loop)
{
	static bool registered = false;
	TimestampTz now = GetCurrentTimestamp();

	/* One replay inside of another, in a policy, is shown as the outer one. */
	if (mine != NULL)
		return false;
	if (!registered)
		before_shmem_exit(replay_ends, (Datum) 0);
	registered = true;
	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < SLOTS && mine == NULL; i++)
		if (shared->slots[i].pid == 0)
			mine = &shared->slots[i];
	if (mine != NULL)
	{
		mine->pid = MyProcPid;
		mine->database = MyDatabaseId;
		mine->role = GetUserId();
		strlcpy(mine->loop, loop, LOOP_LEN);
		mine->started_at = now;
		pg_atomic_write_u32(&mine->phase, FL_REPLAY_READING);
		pg_atomic_write_u32(&mine->workers, 0);
		pg_atomic_write_u64(&mine->total, 0);
		pg_atomic_write_u64(&mine->records, 0);
		pg_atomic_write_u64(&mine->readings, 0);
		pg_atomic_write_u64(&mine->same, 0);
		pg_atomic_write_u64(&mine->differing, 0);
	}
	SpinLockRelease(&shared->mutex);
	return mine != NULL;
}

int
fl_replay_progress_slot(void)
{
	return mine == NULL ? -1 : (int) (mine - shared->slots);
}

void
fl_replay_progress_join(int slot)
{
	if (slot >= 0 && slot < SLOTS)
		mine = &shared->slots[slot];
}

void
fl_replay_progress_workers(int n)
{
	if (mine != NULL)
		pg_atomic_write_u32(&mine->workers, (uint32) n);
}

void
fl_replay_progress_end(void)
{
	if (mine == NULL)
		return;
	SpinLockAcquire(&shared->mutex);
	mine->pid = 0;
	SpinLockRelease(&shared->mutex);
	mine = NULL;
}

void
fl_replay_progress_total(int64 readings)
{
	if (mine != NULL)
		pg_atomic_write_u64(&mine->total, (uint64) readings);
}

void
fl_replay_progress_phase(FlReplayPhase phase)
{
	if (mine != NULL)
		pg_atomic_write_u32(&mine->phase, phase);
}

static inline void
add(pg_atomic_uint64 *counter, int64 n)
{
	pg_atomic_fetch_add_u64(counter, n);
}

void
fl_replay_progress_records(int64 n)
{
	if (mine != NULL)
		add(&mine->records, n);
}

void
fl_replay_progress_readings(int64 n)
{
	if (mine != NULL)
		add(&mine->readings, n);
}

void
fl_replay_progress_verdict(bool same)
{
	if (mine != NULL)
		add(same ? &mine->same : &mine->differing, 1);
}

/* _stat_replay() -> pid, database oid, role oid, loop, started_at, phase, readings_total, records_read, readings_done, same, differing, workers */
Datum
fl_sql_stat_replay(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	for (int i = 0; i < SLOTS; i++)
	{
		ReplaySlot *slot = &shared->slots[i];
		char		loop[LOOP_LEN];
		int			pid;
		Datum		values[12];
		bool		nulls[12] = {false};

		SpinLockAcquire(&shared->mutex);
		pid = slot->pid;
		memcpy(loop, slot->loop, LOOP_LEN);
		values[1] = ObjectIdGetDatum(slot->database);
		values[2] = ObjectIdGetDatum(slot->role);
		values[4] = TimestampTzGetDatum(slot->started_at);
		SpinLockRelease(&shared->mutex);
		if (pid == 0)
			continue;
		values[0] = Int32GetDatum(pid);
		values[3] = CStringGetTextDatum(loop);
		values[5] = CStringGetTextDatum(pg_atomic_read_u32(&slot->phase) == FL_REPLAY_READING ? "reading records" : "replaying");
		values[6] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->total));
		values[7] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->records));
		values[8] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->readings));
		values[9] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->same));
		values[10] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->differing));
		values[11] = Int32GetDatum((int32) pg_atomic_read_u32(&slot->workers));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
