/*-------------------------------------------------------------------------
 *
 * attach.c
 *		Sessions and their connections: found, reserved, taken up, left.
 *
 * Who is connected is known to shared memory only; after a crash nobody is.  A
 * door calls these once a connection, never per message.
 *
 * A door that dies may leave batches in its ring, which the appender writes later,
 * with their events.  Its sessions are found again, but "draining" until the ring
 * has been consumed up to where it was, so that a message that is sent again is
 * not taken for a new one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "session_internal.h"

#define COUNTED_AT_ONCE 1000

bool
fl_session_is_over(const FlSession *s, TimestampTz now)
{
	if (s->state == FL_SESSION_ENDING)
		return true;
	return s->conn_id == 0 && now - s->since >= (int64) s->expiry_s * USECS_PER_SEC;
}

bool
fl_session_is_draining(const FlSession *s)
{
	return s->drain_to != 0 && pg_atomic_read_u64(&fl_shared->doors[s->door].in_tail) < s->drain_to;
}

bool
fl_session_find(const FlConnKey *key, FlSessionFound *found)
{
	bool		is_found = false;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	for (uint32 number = *fl_store_bucket(key->digest); number != 0; number = fl_store_sessions[number].next)
	{
		const FlSession *s = &fl_store_sessions[number];

		if (memcmp(s->key, key->digest, FL_SESSION_KEY_LEN) != 0)
			continue;
		found->ref.number = number;
		found->ref.generation = s->generation;
		found->expiry_s = s->expiry_s;
		found->window = s->window;
		found->expired = fl_session_is_over(s, GetCurrentTimestamp());
		found->draining = fl_session_is_draining(s);
		found->will = s->will != 0 ? fl_will_number(s) : 0;
		is_found = true;
		break;
	}
	LWLockRelease(fl_store->lock);
	return is_found;
}

/*
 * A sixteenth of the items is left to the sessions that are there, so that new ones
 * are refused before old ones have to end.
 */
static bool
has_room(void)
{
	const FlPool *blocks = &fl_store->blocks;

	return blocks->used < blocks->size - blocks->size / 16;
}

FlSessionRoom
fl_session_reserve(int door, uint64 tenant, uint32 max_of_tenant, FlSessionRef *ref)
{
	FlSessionRoom room = FL_SESSION_ROOM;
	uint32		number = 0;

	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	if (max_of_tenant > 0 && fl_store_sessions_of(tenant) >= max_of_tenant)
		room = FL_SESSION_TENANT_FULL;
	else if (!has_room() || (number = fl_store_take_number()) == 0)
		room = FL_SESSION_FULL;
	if (number != 0)
	{
		FlSession  *s = &fl_store_sessions[number];

		s->state = FL_SESSION_RESERVED;
		fl_store_set_tenant(s, tenant);
		s->generation = ++fl_store->generation;
		s->door = (int16) door;
		s->since = GetCurrentTimestamp();
		ref->number = number;
		ref->generation = s->generation;
	}
	LWLockRelease(fl_store->lock);
	return room;
}

void
fl_session_unreserve(const FlSessionRef *ref)
{
	FlSession  *s;

	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	s = fl_store_session(ref->number, ref->generation);
	if (s != NULL && s->state == FL_SESSION_RESERVED)
		fl_store_give_number(ref->number);
	LWLockRelease(fl_store->lock);
}

int
fl_session_item_count(const FlSessionRef *ref)
{
	const FlSession *s;
	int			n;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	s = fl_store_session(ref->number, ref->generation);
	n = s != NULL ? s->n_items : 0;
	LWLockRelease(fl_store->lock);
	return n;
}

bool
fl_session_any_awaits(void)
{
	bool		found = false;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	for (uint32 i = 1; i < fl_store->sessions.fresh && !found; i++)
	{
		const FlSession *s = &fl_store_sessions[i];

		found = s->state == FL_SESSION_KEPT && s->conn_id == 0 && s->n_subscriptions > 0;
	}
	LWLockRelease(fl_store->lock);
	return found;
}

static int
copy_items(const FlSession *s, FlSessionItem *items, int max)
{
	int			n = 0;

	for (uint32 b = s->items; b != 0; b = fl_store_blocks[b].next)
	{
		const FlItemBlock *block = &fl_store_blocks[b];

		for (uint32 i = 0; i < block->n && n < max; i++)
			if (block->items[i].kind == FL_ITEM_RECEIVED)
				items[n++] = block->items[i];
	}
	return n;
}

int
fl_session_attach(const FlSessionRef *ref, int door, uint64 conn_id, FlSessionItem *items, int max)
{
	FlSession  *s;
	int			n = -1;

	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	s = fl_store_session(ref->number, ref->generation);
	/* Who comes back while his will is being published waits for its end. */
	if (s != NULL && s->state == FL_SESSION_KEPT && !fl_will_is_taken(s))
	{
		s->conn_id = conn_id;
		s->door = (int16) door;
		s->drain_to = 0;
		s->since = GetCurrentTimestamp();
		n = copy_items(s, items, max);
	}
	LWLockRelease(fl_store->lock);
	return n;
}

void
fl_session_detach(const FlSessionRef *ref, uint64 conn_id)
{
	FlSession  *s;

	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	s = fl_store_session(ref->number, ref->generation);
	if (s != NULL && s->conn_id == conn_id)
	{
		s->conn_id = 0;
		s->since = GetCurrentTimestamp();
	}
	LWLockRelease(fl_store->lock);
}

/*
 * A stretch at a time, so that nobody waits for a hundred thousand of them; one that
 * moves meanwhile is counted once or not at all.
 */
void
fl_session_counts(FlSessionCounts *counts)
{
	uint32		number = 1;
	bool		more = fl_sessions_ready();

	memset(counts, 0, sizeof(*counts));
	while (more)
	{
		LWLockAcquire(fl_store->lock, LW_SHARED);
		for (int i = 0; i < COUNTED_AT_ONCE && number < fl_store->sessions.fresh; i++, number++)
		{
			const FlSession *s = &fl_store_sessions[number];

			if (s->state != FL_SESSION_KEPT || s->conn_id != 0)
				continue;
			counts->away++;
			counts->subscriptions_away += s->n_subscriptions;
		}
		more = number < fl_store->sessions.fresh;
		LWLockRelease(fl_store->lock);
	}
	counts->expired = pg_atomic_read_u64(&fl_store->expired);
}

/* The postmaster's children only: in a server without the library there is no store. */
void
fl_sessions_clear_door(int door)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		ring = pg_atomic_read_u64(&fl_shared->doors[door].in_head);

	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	for (uint32 number = 1; number < fl_store->sessions.fresh; number++)
	{
		FlSession  *s = &fl_store_sessions[number];

		if (s->state == FL_SESSION_FREE || s->door != door ||
			(s->conn_id == 0 && s->state != FL_SESSION_RESERVED))
			continue;
		s->conn_id = 0;
		s->since = now;
		s->drain_to = ring;
	}
	fl_wills_clear_door(door, ring);
	LWLockRelease(fl_store->lock);
}
