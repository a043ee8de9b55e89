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

#define SESSION_BYTES		(56 + FL_SESSION_NAME_MAX)	/* of its opening, and since when it is away */
#define ITEM_BYTES			40	/* at most, of one item */

/* Filled under the lock, where nothing may fail; as large as the number of items can be. */
static FlSessionItem *sorted = NULL;

static void
make_room_to_sort(void)
{
	if (sorted == NULL)
		sorted = MemoryContextAlloc(TopMemoryContext, sizeof(FlSessionItem) * PG_UINT16_MAX);
}

static void
dump_item(FlBuf *out, const FlSessionEvent *session, const FlSessionItem *item)
{
	FlSessionEvent e = {
		.type = FL_SESSION_AT,.stream = item->stream,.shard = item->shard,.log_offset = item->log_offset,
		.session = session->session,.generation = session->generation,.packet_id = item->packet_id,
		.qos = item->qos,.hash = item->hash
	};

	e.retain = item->kind != FL_ITEM_RECEIVED && (item->order & FL_SENT_RETAIN) != 0;
	e.aside = item->kind != FL_ITEM_RECEIVED && (item->order & FL_SENT_ASIDE) != 0;
	e.shared = item->kind != FL_ITEM_RECEIVED && (item->order & FL_SENT_SHARED) != 0;
	switch ((FlSessionItemKind) item->kind)
	{
		case FL_ITEM_RECEIVED:
			fl_session_encode_event(out, &e);
			e.type = FL_SESSION_RECEIVED;
			break;
		case FL_ITEM_BOOKMARK:
			e.type = FL_SESSION_BOOKMARK;
			break;
		case FL_ITEM_EXACT:
			e.type = FL_SESSION_EXACT;
			break;
		case FL_ITEM_START:
			e.type = FL_SESSION_START;
			e.text_len = item->packet_id;
			break;
		case FL_ITEM_SENT:
			fl_session_encode_event(out, &e);
			e.type = FL_SESSION_SENT;
			break;
		case FL_ITEM_SENT_RELEASED:
			fl_session_encode_event(out, &e);
			e.type = FL_SESSION_SENT;
			fl_session_encode_event(out, &e);
			e.type = FL_SESSION_SENT_RELEASED;
			break;
	}
	fl_session_encode_event(out, &e);
}

/* Messages of QoS 1 in the order of arrival, because the oldest is forgotten first; deliveries as they were sent. */
static int
by_order(const void *x, const void *y)
{
	const FlSessionItem *a = x;
	const FlSessionItem *b = y;
	bool		a_received = a->kind == FL_ITEM_RECEIVED;
	bool		b_received = b->kind == FL_ITEM_RECEIVED;
	int32		d = a_received ? (int16) (a->order - b->order) : (int32) (a->hash - b->hash);

	if (a_received != b_received)
		return a_received ? -1 : 1;
	return d < 0 ? -1 : d > 0;
}

static void
dump_items(FlBuf *out, const FlSessionEvent *session, const FlSession *s)
{
	int			n = 0;

	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
		for (uint32 i = 0; i < fl_store_blocks[b].n; i++)
			sorted[n++] = fl_store_blocks[b].items[i];
	qsort(sorted, n, sizeof(FlSessionItem), by_order);
	for (int i = 0; i < n; i++)
		dump_item(out, session, &sorted[i]);
}

size_t
fl_store_dump_bound(const FlSession *s)
{
	return SESSION_BYTES + ITEM_BYTES * (size_t) s->n_items + s->subscription_bytes + fl_wills_dump_bound(s);
}

void
fl_store_dump_session(FlBuf *out, uint32 number, const FlSession *s)
{
	FlSessionEvent e = {
		.type = FL_SESSION_OPENED,.session = number,.generation = s->generation,.expiry_s = s->expiry_s,
		.window = s->window,.key = s->key,.name_len = s->name_len
	};
	char		name[FL_SESSION_NAME_MAX];

	e.name = (const uint8 *) fl_store_name(s, name);

	fl_session_encode_event(out, &e);
	fl_wills_dump(out, s, &e);
	if (s->conn_id == 0)
	{
		e.type = FL_SESSION_AWAY;
		e.since = s->since;
		fl_session_encode_event(out, &e);
	}
	fl_subscriptions_dump(out, s, &e);
	dump_items(out, &e, s);
}

/* Sessions until the room is used; returns how much room the one needs that did not fit, 0: none. */
static size_t
dump_some(FlBuf *out, uint32 *next, size_t room)
{
	size_t		needed = 0;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	while (*next < fl_store->sessions.fresh && out->len < room)
	{
		const FlSession *s = &fl_store_sessions[*next];

		if (s->state == FL_SESSION_KEPT)
		{
			needed = fl_store_dump_bound(s);
			if (out->len + needed > room)
				break;
			fl_store_dump_session(out, *next, s);
		}
		needed = 0;
		(*next)++;
	}
	LWLockRelease(fl_store->lock);
	return needed;
}

/*
 * Allocation may fail, which must not happen under the lock: room is made before,
 * and more of it for a session that turns out to need more.
 */
bool
fl_store_dump(FlBuf *out, uint32 *next, size_t room)
{
	size_t		needed;

	make_room_to_sort();
	Assert(out->len == 0);
	do
	{
		if (fl_buf_reserve(out, room) == NULL)
			elog(ERROR, "out of memory for a snapshot of sessions");
		needed = dump_some(out, next, room);
		room = Max(room, needed);
	} while (needed != 0 && out->len == 0);
	return out->len > 0 || *next < fl_store->sessions.fresh;
}

bool
fl_session_copy(const FlSessionRef *ref, FlBuf *out)
{
	size_t		room = 4096;
	bool		copied = false;

	make_room_to_sort();
	fl_buf_reset(out);
	while (!copied)
	{
		const FlSession *s;
		size_t		needed = 0;

		if (fl_buf_reserve(out, room) == NULL)
			elog(ERROR, "out of memory for a session");
		LWLockAcquire(fl_store->lock, LW_SHARED);
		s = fl_store_session(ref->number, ref->generation);
		if (s != NULL && s->state == FL_SESSION_KEPT)
			needed = fl_store_dump_bound(s);
		if (needed != 0 && needed <= room)
		{
			fl_store_dump_session(out, ref->number, s);
			copied = true;
		}
		LWLockRelease(fl_store->lock);
		if (needed == 0)
			return false;
		room = Max(room, needed);
	}
	return true;
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
	{
		at = 1;
		/* Those that nobody has taken since are found again. */
		pg_atomic_write_u32(&fl_store->n_due, 0);
		fl_store->more_due = false;
	}
	for (; at < fl_store->sessions.fresh && n < max; at++)
	{
		FlSession  *s = &fl_store_sessions[at];
		FlSessionEvent e = {.type = FL_SESSION_ENDED,.session = at,.generation = s->generation};

		if (is_abandoned(s))
			fl_store_give_number(at);
		else if (s->state >= FL_SESSION_KEPT && s->will != 0)
		{
			/* It ends when its will is in the log. */
			if (fl_will_is_due(s, now))
				fl_will_list(at, s);
		}
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
