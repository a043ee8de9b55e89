/*-------------------------------------------------------------------------
 *
 * shared.c
 *		The coordinator's area in shared memory: its size, its lock, its settings,
 *		and waking those whom a call has released.
 *
 * One lock for all groups: a heartbeat holds it for less than a microsecond, and a
 * thousand members send a few hundred of them a second.  docs/design/kafka.md has
 * the figures.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <time.h>

#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "fleetlog/groups.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"

#define GROUPS_TRANCHE	"fleetlog_groups"
#define OUT_START		(64 * 1024)

StaticAssertDecl(FL_MAX_FRONT_DOORS <= FL_GROUP_DOORS, "every door has a bit");

static int	memory_kb = 4096;
static int	max_members = 1000;
static int	max_kb = 1024;
static int	min_session_ms = 6000;
static int	max_session_ms = 1800000;
static int	initial_delay_ms = 3000;
int			fl_kafka_offset_metadata_max = 4096;

static FlGroupArea *area = NULL;
static LWLock *lock = NULL;

static FlGroupLimits limits;
static FlGroupCall the_call;
static FlGroupOut out;

void
fl_groups_define_settings(void)
{
	DefineCustomIntVariable("fleetlog.kafka_group_memory",
							"Shared memory for consumer groups, their members, and commits that are under way.",
							"When it is used up newcomers are told to come again later.",
							&memory_kb, 4096, FL_GROUP_AREA_MIN / 1024, 1048576,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_group_members",
							"Members that a consumer group may have.",
							"One more is refused with error 81.",
							&max_members, 1000, 1, 100000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_group_size",
							"Subscriptions and assignments of all members of a consumer group together.",
							"Beyond it a member is refused with error 81.",
							&max_kb, 1024, 1, 1048576,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_session_timeout_min",
							"Shortest session timeout that a group member may ask for.",
							"A shorter one is refused with error 26.",
							&min_session_ms, 6000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_session_timeout_max",
							"Longest session timeout that a group member may ask for.",
							"A longer one is refused with error 26.",
							&max_session_ms, 1800000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_rebalance_delay",
							"How long a consumer group that was empty waits for more members before it begins.",
							NULL,
							&initial_delay_ms, 3000, 0, 600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_offset_metadata_size",
							"Longest text that a client may commit with an offset.",
							"A longer one is refused with error 12.",
							&fl_kafka_offset_metadata_max, 4096, 0, 1048576,
							PGC_SIGHUP, GUC_UNIT_BYTE, NULL, NULL, NULL);
}

/* ---- shared memory ------------------------------------------------------------ */

Size
fl_groups_size(void)
{
	return MAXALIGN((Size) memory_kb * 1024);
}

void
fl_groups_request(void)
{
	RequestNamedLWLockTranche(GROUPS_TRANCHE, 1);
}

void
fl_groups_init(void)
{
	bool		found;

	lock = &GetNamedLWLockTranche(GROUPS_TRANCHE)[0].lock;
	area = ShmemInitStruct("fleetlog groups", fl_groups_size(), &found);
	if (!found)
		fl_group_area_init(area, fl_groups_size());
}

/* ---- calls ---------------------------------------------------------------------- */

/* Monotonic, the same in all processes; moved in tests. */
static int64
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + fl_clock_offset_ms;
}

FlGroupCall *
fl_groups_lock(int door, Oid owner, Oid owner2)
{
	limits.min_session_ms = min_session_ms;
	limits.max_session_ms = max_session_ms;
	limits.initial_delay_ms = initial_delay_ms;
	limits.max_members = max_members;
	limits.max_bytes = (int32) Min((int64) max_kb * 1024, INT_MAX);
	the_call.area = area;
	the_call.limits = &limits;
	the_call.door = door;
	the_call.owner = owner;
	the_call.owner2 = owner2;
	the_call.wake = 0;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* Behind the lock, so that time does not go back from one call to the next. */
	the_call.now = now_ms();
	return &the_call;
}

void
fl_groups_unlock(FlGroupCall *call)
{
	uint32		wake = call->wake;

	LWLockRelease(lock);
	for (int door = 0; wake != 0; door++, wake >>= 1)
		if (wake & 1)
			fl_worker_wake(FL_WORKER_FRONT_DOOR, door);
}

bool
fl_groups_news(int door)
{
	static uint32 seen = 0;
	uint32		ready = fl_group_ready(area, door);
	bool		news = ready != seen;

	seen = ready;
	return news;
}

long
fl_groups_timeout(void)
{
	int64		deadline = fl_group_deadline(area);
	int64		left;

	if (deadline == FL_GROUP_NEVER)
		return -1;
	left = deadline - now_ms();
	return left <= 0 ? 0 : (long) Min(left, INT_MAX);
}

void
fl_groups_tick(int door)
{
	FlGroupCall *call;

	if (fl_groups_timeout() != 0)
		return;
	call = fl_groups_lock(door, InvalidOid, InvalidOid);
	fl_group_tick(call);
	fl_groups_unlock(call);
}

void
fl_groups_begin_door(int door)
{
	FlGroupCall *call = fl_groups_lock(door, InvalidOid, InvalidOid);

	fl_group_area_use(area, fl_groups_size(), MyDatabaseId);
	fl_group_forget_door(call);
	fl_groups_unlock(call);
}

void
fl_groups_begin_positions(void)
{
	FlGroupCall *call = fl_groups_lock(0, InvalidOid, InvalidOid);

	fl_group_area_use(area, fl_groups_size(), MyDatabaseId);
	fl_groups_unlock(call);
}

/* ---- memory for what is copied out ------------------------------------------------- */

FlGroupOut *
fl_groups_out(void)
{
	if (out.data == NULL)
	{
		out.data = MemoryContextAlloc(TopMemoryContext, OUT_START);
		out.room = OUT_START;
	}
	return &out;
}

/* What there is may grow before it is asked for again. */
void
fl_groups_grow(void)
{
	Size		room = out.need + out.need / 4;
	uint8	   *data = MemoryContextAllocHuge(TopMemoryContext, room);

	pfree(out.data);
	out.data = data;
	out.room = room;
}
