/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		What all processes know of loops: whether a runner is of use, and answers
 *		that were refused.
 *
 * A refused answer is an error, whose transaction can keep nothing; so it is counted
 * here, by loop, since server start.  Loops share a slot when there are very many.
 *
 * Locks: none: everything is an atomic, or belongs to the runner, of which there is one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/loop.h"
#include "fleetlog/shmem.h"
#include "loop_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_loop_refused);

#define SLOTS	1024

#define NAME_MAX_BYTES	64		/* create_loop takes 40 */

typedef struct LoopShared
{
	pg_atomic_uint32 runner_wanted;
	/* The reading at which a policy had to be ended with its runner: written by that, read by the next one. */
	pg_atomic_uint32 has_stuck;
	char		stuck_loop[NAME_MAX_BYTES];
	int32		stuck_shard;
	int64		stuck_offset;
	pg_atomic_uint64 refused[SLOTS];
} LoopShared;

static LoopShared *shared = NULL;

int			fl_loop_max_waiting = 10000;

Size
fl_loop_shmem_size(void)
{
	return MAXALIGN(sizeof(LoopShared));
}

void
fl_loop_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("fleetlog loops", sizeof(LoopShared), &found);
	if (found)
		return;
	pg_atomic_init_u32(&shared->runner_wanted, 0);
	pg_atomic_init_u32(&shared->has_stuck, 0);
	for (int i = 0; i < SLOTS; i++)
		pg_atomic_init_u64(&shared->refused[i], 0);
}

bool
fl_loop_runner_wanted(void)
{
	return pg_atomic_read_u32(&shared->runner_wanted) != 0;
}

void
fl_loop_want_runner(void)
{
	static uint64 seen = PG_UINT64_MAX;
	uint64		generation = pg_atomic_read_u64(&fl_shared->catalog_generation);
	bool		isnull;
	uint32		wanted;

	/* A loop that comes or goes moves it. */
	if (generation == seen)
		return;
	wanted = fl_config_query_int("SELECT 1::bigint FROM fleetlog.loop_config LIMIT 1", 0, NULL, NULL, &isnull) != 0;

	seen = generation;
	if (pg_atomic_exchange_u32(&shared->runner_wanted, wanted) != wanted)
		fl_worker_wake(FL_WORKER_LAUNCHER, 0);
}

/* Also in a signal handler. */
void
fl_loop_note_stuck(const char *loop, int32 shard, int64 log_offset)
{
	strlcpy(shared->stuck_loop, loop, NAME_MAX_BYTES);
	shared->stuck_shard = shard;
	shared->stuck_offset = log_offset;
	pg_write_barrier();
	pg_atomic_write_u32(&shared->has_stuck, 1);
}

bool
fl_loop_was_stuck(char **loop, int32 *shard, int64 *log_offset)
{
	if (pg_atomic_read_u32(&shared->has_stuck) == 0)
		return false;
	pg_read_barrier();
	*loop = pstrdup(shared->stuck_loop);
	*shard = shared->stuck_shard;
	*log_offset = shared->stuck_offset;
	return true;
}

void
fl_loop_forget_stuck(void)
{
	pg_atomic_write_u32(&shared->has_stuck, 0);
}

/* _loop_refused(loop, more): add to the count of refused answers, and return it. */
Datum
fl_sql_loop_refused(PG_FUNCTION_ARGS)
{
	text	   *loop = PG_GETARG_TEXT_PP(0);
	uint32		hash;

	fl_require_preload();
	hash = hash_combine(DatumGetUInt32(hash_any((unsigned char *) VARDATA_ANY(loop), VARSIZE_ANY_EXHDR(loop))),
						murmurhash32(MyDatabaseId));
	PG_RETURN_INT64((int64) pg_atomic_add_fetch_u64(&shared->refused[hash % SLOTS], PG_GETARG_INT32(1)));
}
