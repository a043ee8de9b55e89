/*-------------------------------------------------------------------------
 *
 * views.c
 *		The set-returning function under fleetlog.stat_session.
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
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "session_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_session);

#define COLUMNS 8

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

Datum
fl_sql_stat_session(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	for (uint32 number = 1; number < fl_store->sessions.fresh; number++)
	{
		Datum		values[COLUMNS];
		bool		nulls[COLUMNS] = {0};
		FlSession	s;

		if (!copy_session(number, &s))
			continue;
		put_names(&s, values, nulls);
		values[2] = BoolGetDatum(s.conn_id != 0);
		nulls[3] = s.conn_id == 0;
		values[3] = Int32GetDatum(s.door);
		values[4] = TimestampTzGetDatum(s.since);
		values[5] = Int64GetDatum((int64) s.expiry_s);
		values[6] = Int32GetDatum(s.n_received);
		values[7] = BoolGetDatum(s.state == FL_SESSION_ENDING);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
