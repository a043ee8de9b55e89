/*-------------------------------------------------------------------------
 *
 * retry.c
 *		Values of committed records that had to wait for a lock (state_pending), and
 *		old clears: what the state worker looks after.
 *
 * The values wait in a table, not in memory: their records are committed, so a
 * crash must not lose them.  Of each key the latest one is written, then all rows
 * of the key that were read go, in one transaction that is durable before the
 * publishers are answered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "fleetlog/config.h"
#include "state_internal.h"

#define RETRY_MAX	256			/* values looked at in one pass */
#define KEEP_CLEARED "1 hour"	/* at least; see fl_state_purge_cleared */

/* ---- reading ------------------------------------------------------------------------ */

typedef struct Pending
{
	MemoryContext mcxt;
	FlStateChange *changes;		/* room for RETRY_MAX */
	int			n;
} Pending;

static struct varlena *
varlena_column(HeapTuple tuple, TupleDesc desc, int n)
{
	bool		isnull;
	Datum		d = heap_getattr(tuple, n, desc, &isnull);

	return isnull ? NULL : PG_DETOAST_DATUM_COPY(d);
}

static void
read_row(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Pending    *p = arg;
	FlStateChange *c = &p->changes[p->n++];
	MemoryContext old = MemoryContextSwitchTo(p->mcxt);
	bool		isnull;

	memset(c, 0, sizeof(*c));
	c->pending_id = DatumGetInt64(heap_getattr(tuple, 1, desc, &isnull));
	c->state = DatumGetObjectId(heap_getattr(tuple, 2, desc, &isnull));
	c->stream = DatumGetObjectId(heap_getattr(tuple, 3, desc, &isnull));
	c->key = varlena_column(tuple, desc, 4);
	c->pos.shard = DatumGetInt32(heap_getattr(tuple, 5, desc, &isnull));
	c->pos.log_offset = DatumGetInt64(heap_getattr(tuple, 6, desc, &isnull));
	c->pos.ts = DatumGetTimestampTz(heap_getattr(tuple, 7, desc, &isnull));
	c->home = DatumGetInt32(heap_getattr(tuple, 8, desc, &isnull));
	c->cleared = DatumGetBool(heap_getattr(tuple, 9, desc, &isnull));
	c->tenant = varlena_column(tuple, desc, 10);
	c->device = varlena_column(tuple, desc, 11);
	c->headers = varlena_column(tuple, desc, 12);
	c->payload = varlena_column(tuple, desc, 13);
	MemoryContextSwitchTo(old);
}

/* ---- writing --------------------------------------------------------------------------- */

static bool
is_gone(const FlStateChange *c)
{
	return fl_stream_lookup(c->stream) == NULL || !fl_state_is_table(c->state);
}

/* Group first .. last - 1 of one key; true: it needs to wait no more. */
static bool
write_group(FlStateWriter *w, const Pending *p, int last)
{
	FlStateChange *c = &p->changes[last - 1];

	if (is_gone(c))
		return true;
	/* Shards may have been added since. */
	c->home = fl_state_home_of(c->stream, (const uint8 *) VARDATA_ANY(c->key), VARSIZE_ANY_EXHDR(c->key));
	return fl_state_lock_home(c) && fl_state_write(w, c) != FL_STATE_LOCKED;
}

static void
delete_rows(const Pending *p, const bool *done)
{
	Datum	   *ids = palloc(sizeof(Datum) * Max(p->n, 1));
	Oid			types[1] = {INT8ARRAYOID};
	Datum		values[1];
	int			n = 0;

	for (int i = 0; i < p->n; i++)
		if (done[i])
			ids[n++] = Int64GetDatum(p->changes[i].pending_id);
	if (n == 0)
		return;
	values[0] = PointerGetDatum(construct_array(ids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	fl_config_execute("DELETE FROM fleetlog.state_pending WHERE id = ANY ($1)", 1, types, values, NULL);
}

static int
write_pending(const Pending *p, bool *done)
{
	FlStateWriter writer;
	int			waiting = 0;

	qsort(p->changes, p->n, sizeof(FlStateChange), fl_state_change_cmp);
	fl_state_writer_begin(&writer);
	for (int i = 0; i < p->n;)
	{
		int			end = i + 1;
		bool		ok;

		while (end < p->n && fl_state_same_key(&p->changes[i], &p->changes[end]))
			end++;
		ok = write_group(&writer, p, end);
		for (; i < end; i++)
		{
			done[i] = ok;
			waiting += !ok;
		}
	}
	fl_state_writer_end(&writer);
	return waiting;
}

static void
answer(const Pending *p, const bool *done)
{
	TimestampTz oldest = PG_INT64_MAX;

	for (int i = 0; i < p->n; i++)
	{
		const FlStateChange *c = &p->changes[i];

		if (done[i])
		{
			fl_state_wait_remove(c->stream, c->pos.shard, c->pos.log_offset);
			pg_atomic_fetch_add_u64(&fl_state_stats()->retried, 1);
		}
		else
			oldest = Min(oldest, c->pos.ts);
	}
	fl_state_set_oldest_waiting(oldest);
	/* Doors that hold acknowledgements back look again. */
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, door);
}

int
fl_state_retry(void)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog state retry", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	Pending		p = {.mcxt = mcxt};
	bool	   *done;
	int			waiting;

	p.changes = palloc(sizeof(FlStateChange) * RETRY_MAX);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(mcxt);
	fl_config_query("SELECT id, state, stream, key, shard, log_offset, ts, home, cleared, tenant, device, headers, payload"
					" FROM fleetlog.state_pending ORDER BY id LIMIT " CppAsString2(RETRY_MAX), 0, NULL, NULL, read_row, &p);
	done = palloc0(Max(p.n, 1));
	waiting = write_pending(&p, done);
	delete_rows(&p, done);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(mcxt);
	if (p.n > 0)
		answer(&p, done);
	fl_state_set_pending(waiting > 0 || p.n == RETRY_MAX);
	if (p.n < RETRY_MAX)
		fl_state_wait_keep_only(p.changes, p.n);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mcxt);
	return waiting;
}

/*
 * A clear is remembered as long as a record that is older may still come here: one
 * whose transaction began before, or whose value waits for a lock.  An hour is for
 * clocks and for last values that are folded late.
 */
void
fl_state_purge_cleared(void)
{
	Oid			types[1] = {TIMESTAMPTZOID};
	Datum		values[1] = {TimestampTzGetDatum(fl_state_oldest_waiting())};

	fl_config_execute("DELETE FROM fleetlog.state_cleared WHERE ts < least($1,"
					  " (SELECT min(xact_start) FROM pg_catalog.pg_stat_activity"
					  " WHERE backend_xid IS NOT NULL OR backend_xmin IS NOT NULL),"
					  " now() - interval '" KEEP_CLEARED "')", 1, types, values, NULL);
}
