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
#define SUBSCRIPTION_COLUMNS 13

/* What the events of a session say of how it stands. */
typedef struct Standing
{
	int			inflight;
	int64		lag;
	int64		gap;
	bool		known;			/* the tails of all its bookmarks' shards are */
} Standing;

/* A session, copied, and the two parts of its name. */
typedef struct Copy
{
	FlSession	s;
	char		name[FL_SESSION_NAME_MAX];
	int			identity_len;
	const char *client;
	int			client_len;
} Copy;

/* False: the place holds no session. */
static bool
copy_session(uint32 number, Copy *copy)
{
	const char *name;
	const char *end;

	LWLockAcquire(fl_store->lock, LW_SHARED);
	copy->s = fl_store_sessions[number];
	if (copy->s.state != FL_SESSION_KEPT && copy->s.state != FL_SESSION_ENDING)
	{
		LWLockRelease(fl_store->lock);
		return false;
	}
	name = fl_store_name(&copy->s, copy->name);
	LWLockRelease(fl_store->lock);
	if (name != copy->name)
		memcpy(copy->name, name, copy->s.name_len);
	/* Identity, NUL, client id; where memory was short, only the beginning of the identity. */
	end = memchr(copy->name, '\0', copy->s.name_len);
	copy->identity_len = end != NULL ? (int) (end - copy->name) : copy->s.name_len;
	copy->client = end != NULL ? end + 1 : copy->name + copy->s.name_len;
	copy->client_len = copy->s.name_len - (int) (copy->client - copy->name);
	return true;
}

static void
put_names(const Copy *copy, Datum *values, bool *nulls)
{
	nulls[0] = copy->identity_len == 0;
	if (copy->identity_len > 0)
		values[0] = PointerGetDatum(cstring_to_text_with_len(copy->name, copy->identity_len));
	values[1] = PointerGetDatum(cstring_to_text_with_len(copy->client, copy->client_len));
}

/* Columns tenant, device and role. */
static void
put_identity(const Copy *copy, Datum *values, bool *nulls)
{
	int			len = copy->identity_len;
	const char *slash = len > 0 ? memchr(copy->name, '/', len) : NULL;

	nulls[0] = nulls[1] = slash == NULL;
	nulls[2] = len == 0 || slash != NULL;
	if (slash != NULL)
	{
		values[0] = PointerGetDatum(cstring_to_text_with_len(copy->name, (int) (slash - copy->name)));
		values[1] = PointerGetDatum(cstring_to_text_with_len(slash + 1, (int) (copy->name + len - slash - 1)));
	}
	else if (len > 0)
		values[2] = PointerGetDatum(cstring_to_text_with_len(copy->name, len));
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
		Copy		copy;
		const FlSession *s = &copy.s;

		CHECK_FOR_INTERRUPTS();
		if (!copy_session(number, &copy))
			continue;
		if (read_session(number, s, &events, &reader))
			find_standing(&reader, &standing);
		put_names(&copy, values, nulls);
		values[2] = BoolGetDatum(s->conn_id != 0);
		nulls[3] = s->conn_id == 0;
		values[3] = Int32GetDatum(s->door);
		values[4] = TimestampTzGetDatum(s->since);
		values[5] = Int64GetDatum((int64) s->expiry_s);
		values[6] = Int32GetDatum(s->n_received);
		values[7] = BoolGetDatum(s->state == FL_SESSION_ENDING);
		put_identity(&copy, values + 8, nulls + 8);
		values[11] = Int32GetDatum(s->n_subscriptions);
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
put_subscription(ReturnSetInfo *rsinfo, const Copy *copy, const FlSessionEvent *e)
{
	static const char *const positions[] = {"off", "on", "with stream"};
	Datum		values[SUBSCRIPTION_COLUMNS];
	bool		nulls[SUBSCRIPTION_COLUMNS] = {0};

	put_names(copy, values, nulls);
	values[2] = BoolGetDatum(copy->s.conn_id != 0);
	values[3] = PointerGetDatum(cstring_to_text_with_len((const char *) e->text, e->text_len));
	values[4] = Int32GetDatum(e->qos);
	nulls[5] = e->id == 0;
	values[5] = Int64GetDatum((int64) e->id);
	values[6] = BoolGetDatum(e->no_local);
	values[7] = BoolGetDatum(e->as_published);
	values[8] = CStringGetTextDatum(positions[Min(e->position, 2)]);
	values[9] = TimestampTzGetDatum(e->since);
	put_identity(copy, values + 10, nulls + 10);
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
		Copy		copy;

		CHECK_FOR_INTERRUPTS();
		if (!copy_session(number, &copy) || !read_session(number, &copy.s, &events, &reader))
			continue;
		while (fl_session_next_event(&reader, &e))
			if (e.type == FL_SESSION_SUBSCRIBED)
				put_subscription(rsinfo, &copy, &e);
	}
	fl_buf_free(&events);
	return (Datum) 0;
}
