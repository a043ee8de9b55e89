/*-------------------------------------------------------------------------
 *
 * gather.c
 *		Front doors let each other finish.
 *
 * Doors that write at the same time gain nothing: they take turns at the shard's
 * lock and at the flush, and each commits the few records that came in between.
 * So a door whose batch is due while another one writes and flushes goes on
 * reading its sockets, and writes all it has when the other is through, who
 * wakes it.  This is the rule of pace (ingest.c) over all doors of a server.
 *
 * It is a matter of speed only.  A door that dies while it writes takes its mark
 * with it (slots.c), and nobody waits longer than a write and a flush take.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"

#include "fleetlog/settings.h"
#include "ingest_internal.h"

/* A batch gathers behind another door for two flushes and this long. */
#define GATHER_EXTRA_US		500

/* A latch counts in milliseconds: the wait, should nobody wake us. */
#define GATHER_WAIT_MS		1

void
fl_gather_begin_write(int door)
{
	pg_atomic_write_u32(&fl_shared->doors[door].writing, 1);
	pg_memory_barrier();
}

/* The mark goes first, then who waits is read: fl_gather_is_wise does it the other way round. */
void
fl_gather_end_write(int door)
{
	if (pg_atomic_read_u32(&fl_shared->doors[door].writing) == 0)
		return;
	pg_atomic_write_u32(&fl_shared->doors[door].writing, 0);
	pg_memory_barrier();
	for (int i = 0; i < FL_DOORS; i++)
	{
		FlDoor	   *other = &fl_shared->doors[i];

		if (i == door || pg_atomic_read_u32(&other->gathers) == 0)
			continue;
		pg_atomic_write_u32(&other->gathers, 0);
		fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
	}
}

static bool
another_writes(int door)
{
	for (int i = 0; i < FL_DOORS; i++)
		if (i != door && pg_atomic_read_u32(&fl_shared->doors[i].writing) != 0)
			return true;
	return false;
}

bool
fl_gather_is_wise(int door, TimestampTz since, TimestampTz now, long *wait_ms)
{
	int64		limit = 2 * (int64) pg_atomic_read_u32(&fl_shared->flush_us) + GATHER_EXTRA_US;

	if (!fl_door_writes || now - since >= limit || !another_writes(door))
		return false;
	pg_atomic_write_u32(&fl_shared->doors[door].gathers, 1);
	pg_memory_barrier();
	if (!another_writes(door))
	{
		pg_atomic_write_u32(&fl_shared->doors[door].gathers, 0);
		return false;
	}
	if (*wait_ms < 0 || *wait_ms > GATHER_WAIT_MS)
		*wait_ms = GATHER_WAIT_MS;
	return true;
}
