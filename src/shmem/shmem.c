/*-------------------------------------------------------------------------
 *
 * shmem.c
 *		Asks the server for our shared memory and lays it out.
 *
 * Called from the hooks that _PG_init installs when the library is preloaded;
 * everything else in this folder works on what is set up here.  In a process
 * where the library was loaded later fl_shared stays NULL, and
 * fl_require_preload says what to do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "fleetlog/auth.h"
#include "fleetlog/groups.h"
#include "fleetlog/loop.h"
#include "fleetlog/producers.h"
#include "fleetlog/net.h"
#include "fleetlog/read.h"
#include "fleetlog/replay.h"
#include "fleetlog/ring.h"
#include "fleetlog/session.h"
#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "shmem_internal.h"

#define FL_N_LWLOCKS		7
#define FL_TRANCHE			"fleetlog"

/* A ring takes at least two of the largest records, with what surrounds them. */
#define FL_RING_OVERHEAD	(64 * 1024 + FL_RING_MAX_EVENTS)

FlShared   *fl_shared = NULL;
FlCore	   *fl_core = NULL;
static uint8 *rings = NULL;
static uint32 ring_bytes = 0;

/*
 * The size is computed once, in the postmaster, from settings that cannot
 * change while it lives (max_record_size can: fl_ring_max_body is the limit
 * then).
 */
uint32
fl_door_ring_bytes(void)
{
	if (ring_bytes == 0)
	{
		uint64		wanted = (uint64) fl_ingest_ring_kb * 1024;
		uint64		least = 2 * ((uint64) fl_max_record_kb * 1024 + FL_RING_OVERHEAD);

		ring_bytes = (uint32) pg_nextpower2_64(Min(Max(wanted, least), UINT64CONST(1) << 30));
	}
	return ring_bytes;
}

uint8 *
fl_door_ring(int door)
{
	Assert(door >= 0 && door < FL_DOORS);
	return rings + (Size) door * fl_door_ring_bytes();
}

static Size
rings_size(void)
{
	return mul_size(FL_DOORS, fl_door_ring_bytes());
}

void
fl_shmem_request(void)
{
	Size		size = 0;

	size = add_size(size, MAXALIGN(sizeof(FlShared)));
	size = add_size(size, MAXALIGN(sizeof(FlCore)));
	size = add_size(size, rings_size());
	size = add_size(size, fl_shard_map_size());
	size = add_size(size, fl_registry_size());
	size = add_size(size, fl_mount_stats_size());
	size = add_size(size, fl_share_size());
	size = add_size(size, fl_memory_size());
	size = add_size(size, fl_waiters_size());
	size = add_size(size, MAXALIGN(fl_auth_shmem_size()));
	size = add_size(size, fl_state_shmem_size());
	size = add_size(size, fl_loop_shmem_size());
	size = add_size(size, fl_replay_shmem_size());
	size = add_size(size, fl_net_shmem_size());
	size = add_size(size, fl_sessions_size());
	size = add_size(size, fl_groups_size());
	size = add_size(size, fl_producers_size());
	size = add_size(size, fl_read_size());
	RequestAddinShmemSpace(size);
	RequestNamedLWLockTranche(FL_TRANCHE, FL_N_LWLOCKS);
	fl_waiters_request();
	fl_groups_request();
	fl_producers_request();
}

static void
init_shared(void)
{
	LWLockPadded *locks = GetNamedLWLockTranche(FL_TRANCHE);

	memset(fl_shared, 0, sizeof(FlShared));
	fl_shared->shard_map_lock = &locks[0].lock;
	fl_shared->slots_lock = &locks[1].lock;
	fl_shared->registry_lock = &locks[2].lock;
	fl_shared->shard_init_lock = &locks[3].lock;
	pg_atomic_init_u64(&fl_shared->append_clock, 0);
	pg_atomic_init_u32(&fl_shared->command_stream, 0);
	pg_atomic_init_u64(&fl_shared->catalog_generation, 1);
	pg_atomic_init_u64(&fl_shared->max_commit_lsn, 0);
	pg_atomic_init_u32(&fl_shared->committing, 0);
	pg_atomic_init_u64(&fl_shared->published_lsn, 0);
	pg_atomic_init_u64(&fl_shared->any_dirty, 0);
	pg_atomic_init_u32(&fl_shared->flush_us, 0);
	pg_atomic_init_u64(&fl_shared->confirm_wanted, 0);
	pg_atomic_init_u64(&fl_shared->confirmed_lsn, 0);
	pg_atomic_init_u32(&fl_shared->doors_alive, 0);
	SpinLockInit(&fl_shared->budget_mutex);
	for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
	{
		FlDoor	   *door = &fl_shared->doors[i];

		pg_atomic_init_u64(&door->in_head, 0);
		pg_atomic_init_u64(&door->in_tail, 0);
		pg_atomic_init_u64(&door->out_head, 0);
		pg_atomic_init_u64(&door->out_tail, 0);
		pg_atomic_init_u32(&door->owed, 0);
		pg_atomic_init_u32(&door->has_feed, 0);
		pg_atomic_init_u32(&door->writing, 0);
		pg_atomic_init_u32(&door->gathers, 0);
	}
}

static void
init_core(void)
{
	memset(fl_core, 0, sizeof(FlCore));
	fl_core->dirty_lock = &GetNamedLWLockTranche(FL_TRANCHE)[4].lock;
	fl_core->share_lock = &GetNamedLWLockTranche(FL_TRANCHE)[5].lock;
	fl_core->memory_lock = &GetNamedLWLockTranche(FL_TRANCHE)[6].lock;
	dlist_init(&fl_core->dirty);
	ConditionVariableInit(&fl_core->published);
	ConditionVariableInit(&fl_core->aside_over);
	fl_totals_init();
	pg_atomic_init_u64(&fl_core->passes_begun, 0);
	pg_atomic_init_u64(&fl_core->passes_done, 0);
	pg_atomic_init_u32(&fl_core->disk_reserve, 0);
	pg_atomic_init_u64(&fl_core->disk_looked_at, 0);
	pg_atomic_init_u64(&fl_core->appender_starts, 0);
	pg_atomic_init_u64(&fl_core->next_conn_id, 1);
	pg_atomic_init_u64(&fl_core->n_connections, 0);
	pg_atomic_init_u32(&fl_core->retry_now, 0);
	for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
	{
		pg_atomic_init_u64(&fl_core->dropped_below[i], 0);
		pg_atomic_init_u32(&fl_core->in_doubt[i], 0);
		pg_atomic_init_u32(&fl_core->evictions_wanted[i], 0);
	}
	for (int i = 0; i < FL_MAX_LISTENERS; i++)
		fl_core->listeners[i].door = -1;
}

void
fl_shmem_startup(void)
{
	bool		found;
	bool		found_core;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	fl_shared = ShmemInitStruct("fleetlog", sizeof(FlShared), &found);
	if (!found)
		init_shared();
	fl_core = ShmemInitStruct("fleetlog core", sizeof(FlCore), &found_core);
	if (!found_core)
		init_core();
	rings = ShmemInitStruct("fleetlog rings", rings_size(), &found);
	fl_shard_map_init();
	fl_registry_init();
	fl_mount_stats_init();
	fl_share_init();
	fl_memory_init();
	fl_waiters_init();
	fl_auth_shmem_init();
	fl_net_shmem_init();
	fl_state_shmem_init();
	fl_loop_shmem_init();
	fl_replay_shmem_init();
	fl_sessions_init();
	fl_groups_init();
	fl_producers_init();
	fl_read_init();
	LWLockRelease(AddinShmemInitLock);
}

void
fl_require_preload(void)
{
	if (fl_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("fleetlog must be loaded via shared_preload_libraries"),
				 errhint("Add fleetlog to shared_preload_libraries in postgresql.conf and restart the server.")));
}

void
fl_atomic_raise(pg_atomic_uint64 *a, uint64 value)
{
	uint64		now = pg_atomic_read_u64(a);

	while (now < value && !pg_atomic_compare_exchange_u64(a, &now, value))
		;
}
