/*-------------------------------------------------------------------------
 *
 * views.c
 *		The set-returning functions under fleetlog.stat_session and
 *		fleetlog.stat_subscription.
 *
 * Sessions are copied one at a time, so that the store is not locked while rows
 * are made; who may call it is said by grants in sql/modules/078_session.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/log.h"
#include "fleetlog/session_event.h"
#include "session_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_session);
PG_FUNCTION_INFO_V1(fl_sql_stat_subscription);

#define COLUMNS 15
#define SUBSCRIPTION_COLUMNS 10

/* What the events of a session say of how it stands. */
typedef struct Standing
{
	int			inflight;
	int64		lag;
	int64		gap;
	bool		known;			/* the tails of all its bookmarks' shards are */
} Standing;

/* False: the place holds no session. */
static bool
copy_session(uint32 number, FlSession *copy)
{
	LWLockAcquire(fl_store->lock, LW_SHARED);
	*copy = fl_store_sessions[number];
	LWLockRelease(fl_store->lock);
	return copy->state == FL_SESSION_KEPT || copy->state == FL_SESSION_ENDING;
}

/* Two texts with a NUL between them: identity, client id; cut where they were too long. */
static void
put_names(const FlSession *s, Datum *values, bool *nulls)
{
	const char *end = memchr(s->name, '\0', s->name_len);
	int			len = end != NULL ? (int) (end - s->name) : 0;
	const char *client = end != NULL ? end + 1 : s->name;

	nulls[0] = len == 0;
	if (len > 0)
		values[0] = PointerGetDatum(cstring_to_text_with_len(s->name, len));
	values[1] = PointerGetDatum(cstring_to_text_with_len(client, s->name_len - (int) (client - s->name)));
}

/* Columns tenant, device and role. */
static void
put_identity(const FlSession *s, Datum *values, bool *nulls)
{
	const char *end = memchr(s->name, '\0', s->name_len);
	int			len = end != NULL ? (int) (end - s->name) : 0;
	const char *slash = len > 0 ? memchr(s->name, '/', len) : NULL;

	nulls[0] = nulls[1] = slash == NULL;
	nulls[2] = len == 0 || slash != NULL;
	if (slash != NULL)
	{
		values[0] = PointerGetDatum(cstring_to_text_with_len(s->name, (int) (slash - s->name)));
		values[1] = PointerGetDatum(cstring_to_text_with_len(slash + 1, (int) (s->name + len - slash - 1)));
	}
	else if (len > 0)
		values[2] = PointerGetDatum(cstring_to_text_with_len(s->name, len));
}

/* All that the session has, as events; false: it has ended meanwhile, or is ending. */
static bool
read_session(uint32 number, const FlSession *s, FlBuf *events, FlSessionReader *reader)
{
	FlSessionRef ref = {.number = number, .generation = s->generation};

	if (s->state != FL_SESSION_KEPT || !fl_session_copy(&ref, events))
		return false;
	fl_session_reader_init(reader, events->data, events->len);
	return true;
}

/* How far a bookmark is behind its shard, and how much of that retention has taken. */
static void
add_bookmark(Standing *standing, const FlSessionEvent *e)
{
	FlShard    *shard = fl_shard_find(e->stream, e->shard);
	int64		head;

	if (shard == NULL)
	{
		standing->known = false;
		return;
	}
	head = (int64) pg_atomic_read_u64(&shard->head);
	standing->lag += Max(fl_shard_durable_tail(shard) - Max(e->log_offset, head), 0);
	standing->gap += Max(head - e->log_offset, 0);
}

static void
find_standing(FlSessionReader *reader, Standing *standing)
{
	FlSessionEvent e;

	while (fl_session_next_event(reader, &e))
	{
		if (e.type == FL_SESSION_SENT)
			standing->inflight++;
		else if (e.type == FL_SESSION_BOOKMARK)
			add_bookmark(standing, &e);
	}
}

Datum
fl_sql_stat_session(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FlBuf		events;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	fl_buf_init(&events, fl_server_allocator(), MaxAllocSize);
	for (uint32 number = 1; number < fl_store->sessions.fresh; number++)
	{
		Datum		values[COLUMNS];
		bool		nulls[COLUMNS] = {0};
		Standing	standing = {.known = true};
		FlSessionReader reader;
		FlSession	s;

		CHECK_FOR_INTERRUPTS();
		if (!copy_session(number, &s))
			continue;
		if (read_session(number, &s, &events, &reader))
			find_standing(&reader, &standing);
		put_names(&s, values, nulls);
		values[2] = BoolGetDatum(s.conn_id != 0);
		nulls[3] = s.conn_id == 0;
		values[3] = Int32GetDatum(s.door);
		values[4] = TimestampTzGetDatum(s.since);
		values[5] = Int64GetDatum((int64) s.expiry_s);
		values[6] = Int32GetDatum(s.n_received);
		values[7] = BoolGetDatum(s.state == FL_SESSION_ENDING);
		put_identity(&s, values + 8, nulls + 8);
		values[11] = Int32GetDatum(s.n_subscriptions);
		values[12] = Int32GetDatum(standing.inflight);
		nulls[13] = !standing.known;
		values[13] = Int64GetDatum(standing.lag);
		values[14] = Int64GetDatum(standing.gap);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	fl_buf_free(&events);
	return (Datum) 0;
}

static void
put_subscription(ReturnSetInfo *rsinfo, const FlSession *s, const FlSessionEvent *e)
{
	static const char *const positions[] = {"off", "on", "with stream"};
	Datum		values[SUBSCRIPTION_COLUMNS];
	bool		nulls[SUBSCRIPTION_COLUMNS] = {0};

	put_names(s, values, nulls);
	values[2] = BoolGetDatum(s->conn_id != 0);
	values[3] = PointerGetDatum(cstring_to_text_with_len((const char *) e->text, e->text_len));
	values[4] = Int32GetDatum(e->qos);
	nulls[5] = e->id == 0;
	values[5] = Int64GetDatum((int64) e->id);
	values[6] = BoolGetDatum(e->no_local);
	values[7] = BoolGetDatum(e->as_published);
	values[8] = CStringGetTextDatum(positions[Min(e->position, 2)]);
	values[9] = TimestampTzGetDatum(e->since);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Datum
fl_sql_stat_subscription(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FlBuf		events;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	fl_buf_init(&events, fl_server_allocator(), MaxAllocSize);
	for (uint32 number = 1; number < fl_store->sessions.fresh; number++)
	{
		FlSessionReader reader;
		FlSessionEvent e;
		FlSession	s;

		CHECK_FOR_INTERRUPTS();
		if (!copy_session(number, &s) || !read_session(number, &s, &events, &reader))
			continue;
		while (fl_session_next_event(&reader, &e))
			if (e.type == FL_SESSION_SUBSCRIBED)
				put_subscription(rsinfo, &s, &e);
	}
	fl_buf_free(&events);
	return (Datum) 0;
}
