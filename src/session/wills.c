/*-------------------------------------------------------------------------
 *
 * wills.c
 *		Wills with a delay, which are kept with their session (MQTT-3.1.2-8,
 *		MQTT-3.1.3-9): in blocks of the store, and published by a door when they are
 *		due.
 *
 *	WILL (CONNECT) ──► kept ──due──► listed (keeper) ──► taken (a door) ──► WILL_DONE
 *	                    │                                    │ not written      ▲ with the record
 *	                    │ next CONNECT, DISCONNECT           └──► kept          │
 *	                    └──────────────────────────────────────────────────────┘
 *
 * A will is due when nobody has been connected for its delay, or the session is over.
 * WILL_DONE is in the transaction of its record, so the record is in the log and the
 * will gone, or neither, whatever crashes: the will is published exactly once.
 * That a door has it is known to shared memory only.  A door that dies may leave the
 * record in its ring; until the appender has come that far nobody else takes it.
 *
 * While a will is taken nobody takes up its session, so that no will is published that
 * a CONNECT has called back.
 *
 * What apply functions and those of the keeper's scan do is done with the store's lock
 * held; nothing there allocates or fails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "fleetlog/worker.h"
#include "session_internal.h"

/* Type 1, session 6, number 4, delay 4, length 4. */
#define EVENT_BYTES			19

StaticAssertDecl(sizeof(FlWillBlock) == sizeof(FlItemBlock), "the head of a will is a block");

static FlWillBlock *
will_of(const FlSession *s)
{
	return (FlWillBlock *) &fl_store_blocks[s->will];
}

/* ---- events ----------------------------------------------------------------------------- */

void
fl_wills_drop(FlSession *s)
{
	uint32		more;

	if (s->will == 0)
		return;
	more = will_of(s)->more;
	fl_store_give_block(s->will);
	fl_store_give_text(more);
	s->will = 0;
}

/*
 * While the journal is loaded the event says that its client was connected then, whatever
 * a snapshot has said before: its time runs from the start of the server on.
 */
static void
forget_away(FlSession *s)
{
	if (pg_atomic_read_u32(&fl_store->state) != FL_STORE_READY)
		s->since = 0;
}

void
fl_wills_apply_will(FlSession *s, const FlSessionEvent *e)
{
	FlWillBlock *w;
	Size		first = Min(e->data_len, FL_WILL_BYTES);

	fl_wills_drop(s);
	s->will = fl_store_take_block();
	if (s->will == 0)
	{
		fl_store_break(s);
		return;
	}
	w = will_of(s);
	memset(w, 0, sizeof(*w));
	w->number = e->number;
	w->len = e->data_len;
	w->delay_s = e->delay_s;
	w->door = -1;
	memcpy(w->bytes, e->data, first);
	if (!fl_store_add_text(&w->more, e->data + first, e->data_len - first))
	{
		fl_wills_drop(s);
		fl_store_break(s);
		return;
	}
	forget_away(s);
}

/* One that has been replaced meanwhile is not meant. */
void
fl_wills_apply_done(FlSession *s, const FlSessionEvent *e)
{
	if (s->will == 0 || will_of(s)->number != e->number)
		return;
	fl_wills_drop(s);
	forget_away(s);
}

static void
copy_bytes(const FlWillBlock *w, uint8 *to)
{
	Size		first = Min(w->len, FL_WILL_BYTES);

	memcpy(to, w->bytes, first);
	fl_store_copy_text(w->more, to + first, w->len - first);
}

size_t
fl_wills_dump_bound(const FlSession *s)
{
	return s->will != 0 ? EVENT_BYTES + will_of(s)->len : 0;
}

/* Loading, since when nobody is connected comes behind it: the event takes that for over. */
void
fl_wills_dump(FlBuf *out, const FlSession *s, FlSessionEvent *e)
{
	static uint8 bytes[FL_SESSION_MAX_WILL];
	const FlWillBlock *w;

	if (s->will == 0)
		return;
	w = will_of(s);
	copy_bytes(w, bytes);
	e->type = FL_SESSION_WILL;
	e->number = w->number;
	e->delay_s = w->delay_s;
	e->data = bytes;
	e->data_len = w->len;
	fl_session_encode_event(out, e);
}

/* ---- who publishes it -------------------------------------------------------------------- */

uint32
fl_will_number(const FlSession *s)
{
	return will_of(s)->number;
}

bool
fl_will_is_taken(const FlSession *s)
{
	const FlWillBlock *w;

	if (s->will == 0 || (w = will_of(s))->door < 0)
		return false;
	return w->drain_to == 0 || pg_atomic_read_u64(&fl_shared->doors[w->door].in_tail) + 1 < w->drain_to;
}

bool
fl_will_is_due(const FlSession *s, TimestampTz now)
{
	if (s->will == 0 || s->conn_id != 0 || fl_will_is_taken(s) || fl_session_is_draining(s))
		return false;
	return fl_session_is_over(s, now) || now - s->since >= (int64) will_of(s)->delay_s * USECS_PER_SEC;
}

void
fl_will_list(uint32 number, const FlSession *s)
{
	uint32		n = pg_atomic_read_u32(&fl_store->n_due);

	if (n == FL_MAX_DUE_WILLS)
	{
		fl_store->more_due = true;
		return;
	}
	fl_store->due[n].number = number;
	fl_store->due[n].generation = s->generation;
	pg_atomic_write_u32(&fl_store->n_due, n + 1);
}

void
fl_wills_clear_door(int door, uint64 ring)
{
	for (uint32 number = 1; number < fl_store->sessions.fresh; number++)
	{
		FlSession  *s = &fl_store_sessions[number];

		if (s->state >= FL_SESSION_KEPT && s->will != 0 && will_of(s)->door == door)
			will_of(s)->drain_to = ring + 1;
	}
}

bool
fl_session_has_room(size_t bytes)
{
	const FlPool *blocks = &fl_store->blocks;
	size_t		needed = 2 + bytes / FL_TEXT_BYTES;
	bool		has;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	has = blocks->used + needed < blocks->size - blocks->size / 16;
	LWLockRelease(fl_store->lock);
	return has;
}

bool
fl_session_keeps_will(const FlSessionRef *ref, uint32 number)
{
	const FlSession *s;
	bool		keeps;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	s = fl_store_session(ref->number, ref->generation);
	keeps = s != NULL && s->state >= FL_SESSION_KEPT && s->will != 0 && will_of(s)->number == number;
	LWLockRelease(fl_store->lock);
	return keeps;
}

bool
fl_session_wills_wait(void)
{
	return pg_atomic_read_u32(&fl_store->n_due) > 0;
}

/* The lock is held, and `out` has room for the largest. */
static bool
take(const FlSessionRef *ref, int door, bool at_once, FlSessionWill *will, FlBuf *out)
{
	FlSession  *s = fl_store_session(ref->number, ref->generation);
	FlWillBlock *w;

	if (s == NULL || s->state < FL_SESSION_KEPT || s->will == 0 || s->conn_id != 0 || fl_will_is_taken(s) ||
		fl_session_is_draining(s))
		return false;
	if (!at_once && !fl_will_is_due(s, GetCurrentTimestamp()))
		return false;
	w = will_of(s);
	w->door = (int16) door;
	w->drain_to = 0;
	will->ref = *ref;
	will->number = w->number;
	copy_bytes(w, out->data);
	out->len = w->len;
	return true;
}

static void
make_room(FlBuf *out)
{
	fl_buf_reset(out);
	if (fl_buf_reserve(out, FL_SESSION_MAX_WILL) == NULL)
		elog(ERROR, "out of memory for a will");
}

bool
fl_session_next_will(int door, FlSessionWill *will, FlBuf *out)
{
	bool		taken = false;
	bool		more;
	uint32		n;

	make_room(out);
	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&fl_store->n_due);
	while (n > 0 && !taken)
		taken = take(&fl_store->due[--n], door, false, will, out);
	pg_atomic_write_u32(&fl_store->n_due, n);
	more = n == 0 && fl_store->more_due;
	LWLockRelease(fl_store->lock);
	if (more)
		fl_worker_wake(FL_WORKER_KEEPER, 0);
	return taken;
}

bool
fl_session_take_will(const FlSessionRef *ref, int door, FlSessionWill *will, FlBuf *out)
{
	bool		taken;

	make_room(out);
	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	taken = take(ref, door, true, will, out);
	LWLockRelease(fl_store->lock);
	return taken;
}

void
fl_session_return_will(const FlSessionWill *will, int door, bool in_doubt)
{
	FlSession  *s;

	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	s = fl_store_session(will->ref.number, will->ref.generation);
	if (s != NULL && s->state >= FL_SESSION_KEPT && s->will != 0 && will_of(s)->number == will->number &&
		will_of(s)->door == door)
	{
		if (in_doubt)
			will_of(s)->drain_to = pg_atomic_read_u64(&fl_shared->doors[door].in_head) + 1;
		else
			will_of(s)->door = -1;
	}
	LWLockRelease(fl_store->lock);
}
