/*-------------------------------------------------------------------------
 *
 * ring.c
 *		Both ends of the rings between front doors and the appender (ring.h).
 *
 * Positions only grow and are taken modulo the size of the ring.  The producer
 * writes bytes, then (after a barrier) its position; the consumer reads the
 * position, then (after a barrier) the bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/ring.h"
#include "fleetlog/settings.h"
#include "shmem_internal.h"

#define ENTRY_SIZE(body_len)	TYPEALIGN(8, sizeof(FlIngestEntry) + (Size) (body_len))

StaticAssertDecl(sizeof(FlIngestEntry) % 8 == 0, "bodies and entries begin at multiples of 8");
StaticAssertDecl((FL_RESULT_SLOTS & (FL_RESULT_SLOTS - 1)) == 0, "the slots are addressed by a mask");

uint32
fl_ring_max_body(void)
{
	return fl_door_ring_bytes() / 2 - (uint32) sizeof(FlIngestEntry) - 8 - FL_RING_MAX_EVENTS;
}

/* Bytes before the end of the ring, from this position on. */
static uint32
to_the_end(uint64 pos)
{
	return fl_door_ring_bytes() - (uint32) (pos & (fl_door_ring_bytes() - 1));
}

static FlIngestEntry *
entry_at(int door, uint64 pos)
{
	return (FlIngestEntry *) (fl_door_ring(door) + (pos & (fl_door_ring_bytes() - 1)));
}

/* ---- the door's side ----------------------------------------------------------- */

void
fl_ring_door_start(int door)
{
	FlDoor	   *d = &fl_shared->doors[door];

	pg_atomic_write_u64(&d->out_tail, pg_atomic_read_u64(&d->out_head));
	pg_atomic_write_u32(&d->owed, 0);
	pg_atomic_write_u32(&d->has_feed, 0);
}

bool
fl_ring_put(int door, FlIngestEntry *entry, const uint8 *body, uint32 body_len, const uint8 *events, uint64 *end)
{
	FlDoor	   *d = &fl_shared->doors[door];
	uint64		head = pg_atomic_read_u64(&d->in_head);
	uint64		used = head - pg_atomic_read_u64(&d->in_tail);
	Size		size = ENTRY_SIZE(body_len + entry->events_len);
	uint32		left = to_the_end(head);
	uint32		skip = left < size ? left : 0;

	if (used + skip + size > fl_door_ring_bytes())
		return false;
	pg_memory_barrier();		/* do not overwrite what the consumer still reads */
	if (skip >= sizeof(FlIngestEntry))
	{
		FlIngestEntry *filler = entry_at(door, head);

		memset(filler, 0, sizeof(*filler));
		filler->total_len = skip;
		filler->flags = FL_INGEST_WRAP;
	}
	head += skip;
	entry->total_len = (uint32) size;
	entry->body_len = body_len;
	memcpy(entry_at(door, head), entry, sizeof(*entry));
	memcpy(entry_at(door, head) + 1, body, body_len);
	if (entry->events_len > 0)
		memcpy((uint8 *) (entry_at(door, head) + 1) + body_len, events, entry->events_len);
	head += size;
	pg_write_barrier();
	pg_atomic_write_u64(&d->in_head, head);
	*end = head;
	return true;
}

bool
fl_ring_take_answer(int door, FlIngestResult *result)
{
	FlDoor	   *d = &fl_shared->doors[door];
	uint64		tail = pg_atomic_read_u64(&d->out_tail);

	if (tail == pg_atomic_read_u64(&d->out_head))
		return false;
	pg_read_barrier();
	*result = d->results[tail & (FL_RESULT_SLOTS - 1)];
	pg_memory_barrier();
	pg_atomic_write_u64(&d->out_tail, tail + 1);
	return true;
}

uint64
fl_ring_appender_generation(int door, uint64 *dropped_below)
{
	uint64		generation = pg_atomic_read_u64(&fl_core->appender_starts);

	pg_read_barrier();
	*dropped_below = pg_atomic_read_u64(&fl_core->dropped_below[door]);
	return generation;
}

uint64
fl_ring_used(int door)
{
	FlDoor	   *d = &fl_shared->doors[door];
	uint64		tail = pg_atomic_read_u64(&d->in_tail);

	return pg_atomic_read_u64(&d->in_head) - tail;
}

/* ---- the appender's side ----------------------------------------------------------- */

void
fl_ring_appender_start(void)
{
	for (int i = 0; i < FL_DOORS; i++)
	{
		FlDoor	   *d = &fl_shared->doors[i];
		uint64		head = pg_atomic_read_u64(&d->in_head);

		/*
		 * Where the predecessor was in the middle of something, what came
		 * behind it goes, too: sent again, it all keeps its order.
		 */
		if (pg_atomic_read_u32(&fl_core->in_doubt[i]) == 0)
			continue;
		pg_atomic_write_u32(&fl_core->in_doubt[i], 0);
		pg_atomic_write_u64(&fl_core->dropped_below[i], head);
		pg_atomic_write_u64(&d->in_tail, head);
	}
	pg_write_barrier();
	pg_atomic_fetch_add_u64(&fl_core->appender_starts, 1);
	for (int i = 0; i < FL_DOORS; i++)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
}

void
fl_ring_in_doubt(int door, bool in_doubt)
{
	uint32		value = in_doubt ? 1 : 0;

	if (pg_atomic_read_u32(&fl_core->in_doubt[door]) == value)
		return;
	pg_memory_barrier();
	pg_atomic_write_u32(&fl_core->in_doubt[door], value);
	pg_memory_barrier();
}

uint64
fl_ring_read_position(int door)
{
	return pg_atomic_read_u64(&fl_shared->doors[door].in_tail);
}

const FlIngestEntry *
fl_ring_next(int door, uint64 *pos)
{
	uint64		head = pg_atomic_read_u64(&fl_shared->doors[door].in_head);

	pg_read_barrier();
	while (*pos < head)
	{
		const FlIngestEntry *entry = entry_at(door, *pos);

		if (to_the_end(*pos) < sizeof(FlIngestEntry))
		{
			*pos += to_the_end(*pos);
			continue;
		}
		*pos += entry->total_len;
		if (!(entry->flags & FL_INGEST_WRAP))
			return entry;
	}
	return NULL;
}

bool
fl_ring_answer(int door, const FlIngestResult *result)
{
	FlDoor	   *d = &fl_shared->doors[door];
	uint64		head = pg_atomic_read_u64(&d->out_head);

	if (head - pg_atomic_read_u64(&d->out_tail) >= FL_RESULT_SLOTS)
		return false;
	pg_memory_barrier();
	d->results[head & (FL_RESULT_SLOTS - 1)] = *result;
	pg_write_barrier();
	pg_atomic_write_u64(&d->out_head, head + 1);
	return true;
}

void
fl_ring_consumed(int door, uint64 pos)
{
	pg_memory_barrier();
	pg_atomic_write_u64(&fl_shared->doors[door].in_tail, pos);
}
