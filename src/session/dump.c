/*-------------------------------------------------------------------------
 *
 * dump.c
 *		What is in the store, as events: for snapshots, and to end what is over.
 *
 * A snapshot of a session is its opening and the events that would give it what
 * it has, so that loading knows nothing but events.  Sessions come in the order of
 * their numbers, some at a time, since the lock is not held for long.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "session_internal.h"

static void
dump_item(FlBuf *out, const FlSessionEvent *session, const FlSessionItem *item)
{
	FlSessionEvent e = {
		.type = FL_SESSION_AT,.stream = item->stream,.shard = item->shard,.log_offset = item->log_offset
	};

	fl_session_encode_event(out, &e);
	e.type = FL_SESSION_RECEIVED;
	e.session = session->session;
	e.generation = session->generation;
	e.packet_id = item->packet_id;
	e.qos = item->qos;
	e.hash = item->hash;
	fl_session_encode_event(out, &e);
}

/* QoS 1 in the order of arrival, because the oldest is forgotten first. */
static int
by_order(const void *x, const void *y)
{
	const FlSessionItem *a = x;
	const FlSessionItem *b = y;
	int16		d = (int16) (a->order - b->order);

	return d < 0 ? -1 : d > 0;
}

static void
dump_items(FlBuf *out, const FlSessionEvent *session, const FlSession *s, FlSessionItem *items)
{
	int			n = 0;

	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
		for (uint32 i = 0; i < fl_store_blocks[b].n; i++)
			items[n++] = fl_store_blocks[b].items[i];
	qsort(items, n, sizeof(FlSessionItem), by_order);
	for (int i = 0; i < n; i++)
		dump_item(out, session, &items[i]);
}

static void
dump_session(FlBuf *out, uint32 number, const FlSession *s, FlSessionItem *items)
{
	FlSessionEvent e = {
		.type = FL_SESSION_OPENED,.session = number,.generation = s->generation,.expiry_s = s->expiry_s,
		.window = s->window,.key = s->key,.name = (const uint8 *) s->name,.name_len = s->name_len
	};

	fl_session_encode_event(out, &e);
	if (s->conn_id == 0)
	{
		e.type = FL_SESSION_AWAY;
		e.since = s->since;
		fl_session_encode_event(out, &e);
	}
	dump_items(out, &e, s, items);
}

/*
 * Allocation may fail, which must not happen under the lock: room is made before,
 * for the session with the most items that there can be.
 */
bool
fl_store_dump(FlBuf *out, uint32 *next, size_t room)
{
	static FlSessionItem *items = NULL;
	size_t		largest = 128 + PG_UINT16_MAX * (size_t) 32;
	bool		some = false;

	if (items == NULL)
		items = MemoryContextAlloc(TopMemoryContext, sizeof(FlSessionItem) * PG_UINT16_MAX);
	if (fl_buf_reserve(out, room + largest) == NULL)
		elog(ERROR, "out of memory for a snapshot of sessions");
	LWLockAcquire(fl_store->lock, LW_SHARED);
	while (*next < fl_store->sessions.fresh && out->len < room)
	{
		uint32		number = (*next)++;
		const FlSession *s = &fl_store_sessions[number];

		if (s->state != FL_SESSION_KEPT)
			continue;
		dump_session(out, number, s, items);
		some = true;
	}
	LWLockRelease(fl_store->lock);
	return some || *next < fl_store->sessions.fresh;
}

/* A session that was reserved by a door that has died, and whose opening never came. */
static bool
is_abandoned(const FlSession *s)
{
	return s->state == FL_SESSION_RESERVED && s->drain_to != 0 &&
		pg_atomic_read_u64(&fl_shared->doors[s->door].in_tail) >= s->drain_to;
}

int
fl_store_dump_expired(FlBuf *out, TimestampTz now, int max)
{
	static uint32 at = 1;
	int			n = 0;

	if (fl_buf_reserve(out, (size_t) max * 16) == NULL)
		elog(ERROR, "out of memory for the ends of sessions");
	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	if (at >= fl_store->sessions.fresh)
		at = 1;
	for (; at < fl_store->sessions.fresh && n < max; at++)
	{
		FlSession  *s = &fl_store_sessions[at];
		FlSessionEvent e = {.type = FL_SESSION_ENDED,.session = at,.generation = s->generation};

		if (is_abandoned(s))
			fl_store_give_number(at);
		else if (s->state >= FL_SESSION_KEPT && s->conn_id == 0 && fl_session_is_over(s, now))
		{
			/* Nobody takes it up any more, whether or not the event can be written. */
			s->state = FL_SESSION_ENDING;
			fl_session_encode_event(out, &e);
			n++;
		}
	}
	LWLockRelease(fl_store->lock);
	return n;
}
