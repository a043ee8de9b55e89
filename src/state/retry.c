/*-------------------------------------------------------------------------
 *
 * retry.c
 *		Values of committed records that had to wait for a lock (state_pending), and
 *		old clears: what the state worker looks after.
 *
 * The values wait in a table, not in memory: their records are committed, so a
 * crash must not lose them.  Of each key the latest one that was read is written, then
 * all rows of the key that were read go, in one transaction that is durable before the
 * publishers are answered.  (A later one that is read later replaces it.)
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

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/shmem.h"
#include "state_internal.h"

#define PAGE_MAX	256			/* values looked at, and written, in one transaction */
#define PASS_PAGES	64			/* pages in one pass */
#define LISTED_MAX	4096		/* beyond, entries of records that wait no more stay for now */
#define REPORT_US	(10 * USECS_PER_SEC)
#define KEEP_CLEARED "1 hour"	/* at least; see fl_state_purge_cleared */

/* ---- reading ------------------------------------------------------------------------ */

/* Consecutive rows by id; sorted by key when they are written. */
typedef struct PendingPage
{
	MemoryContext mcxt;
	FlStateChange *changes;		/* room for PAGE_MAX */
	bool	   *done;
	int			n;
	int64		last_id;
} PendingPage;

/*
 * A round over all rows, in the order of their ids, which may take several passes: rows
 * that wait for long must not keep those behind them from being looked at.
 */
typedef struct Round
{
	int64		after;			/* id of the last row that was looked at, 0: it begins */
	int			waiting;
	TimestampTz oldest;
	FlStateChange *listed;		/* positions of those that wait, LISTED_MAX at most */
	int			nlisted;
} Round;

static Round current;

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
	PendingPage	   *p = arg;
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
	p->last_id = c->pending_id;
	MemoryContextSwitchTo(old);
}

static void
read_page(PendingPage *p, int64 after)
{
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(after)};

	p->changes = palloc(sizeof(FlStateChange) * PAGE_MAX);
	p->done = palloc0(sizeof(bool) * PAGE_MAX);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(p->mcxt);
	fl_config_query("SELECT id, state, stream, key, shard, log_offset, ts, home, cleared, tenant, device, headers, payload"
					" FROM fleetlog.state_pending WHERE id > $1 ORDER BY id LIMIT " CppAsString2(PAGE_MAX),
					1, types, values, read_row, p);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(p->mcxt);
}

/* ---- writing --------------------------------------------------------------------------- */

static bool
is_gone(const FlStateChange *c)
{
	return fl_stream_lookup(c->stream) == NULL || !fl_state_is_table(c->state);
}

/* The last change of a key; true: the key needs to wait no more. */
static bool
write_last(FlStateWriter *w, FlStateChange *c)
{
	if (is_gone(c))
		return true;
	/* Shards may have been added since. */
	c->home = fl_state_home_of(c->stream, (const uint8 *) VARDATA_ANY(c->key), VARSIZE_ANY_EXHDR(c->key));
	return fl_state_lock_home(c) && fl_state_write(w, c) != FL_STATE_LOCKED;
}

static void
delete_rows(const PendingPage *p, int first, int last)
{
	Datum	   *ids = palloc(sizeof(Datum) * Max(last - first, 1));
	Oid			types[1] = {INT8ARRAYOID};
	Datum		values[1];
	int			n = 0;

	for (int i = first; i < last; i++)
		if (p->done[i])
			ids[n++] = Int64GetDatum(p->changes[i].pending_id);
	if (n == 0)
		return;
	values[0] = PointerGetDatum(construct_array(ids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	fl_config_execute("DELETE FROM fleetlog.state_pending WHERE id = ANY ($1)", 1, types, values, NULL);
}

/* Behind the rows of the key at i, at `last` at most. */
static int
end_of_key(const PendingPage *p, int i, int last)
{
	int			end = i + 1;

	while (end < last && fl_state_same_key(&p->changes[i], &p->changes[end]))
		end++;
	return end;
}

static void
write_rows(PendingPage *p, int first, int last)
{
	FlStateWriter writer;

	fl_state_writer_begin(&writer);
	for (int i = first; i < last;)
	{
		int			end = end_of_key(p, i, last);
		bool		ok = write_last(&writer, &p->changes[end - 1]);

		for (; i < end; i++)
			p->done[i] = ok;
	}
	fl_state_writer_end(&writer);
	delete_rows(p, first, last);
}

/* It is tried again several times a second, which is of no news. */
static void
report_error(void)
{
	static int64 reported = 0;
	int64		now = fl_monotonic_us();

	if (reported != 0 && now - reported < REPORT_US)
		return;
	reported = now;
	EmitErrorReport();
}

/* One transaction, durable when it returns.  False: it failed, and nothing of it is done. */
static bool
try_rows(PendingPage *p, int first, int last)
{
	volatile bool ok = false;

	PG_TRY();
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		MemoryContextSwitchTo(p->mcxt);
		write_rows(p, first, last);
		PopActiveSnapshot();
		CommitTransactionCommand();
		ok = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(p->mcxt);
		report_error();
		FlushErrorState();
		AbortCurrentTransaction();
		FL_COUNT(FL_C_ERRORS, 1);
		for (int i = first; i < last; i++)
			p->done[i] = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(p->mcxt);
	return ok;
}

/* A value that cannot be written at all (an index expression of the owner's fails) costs itself only. */
static void
run_rows(PendingPage *p, int first, int last)
{
	int			middle;

	if (first == last || try_rows(p, first, last))
		return;
	middle = end_of_key(p, first + (last - first) / 2, last);
	if (middle == last)
		for (middle = first; end_of_key(p, middle, last) < last;)
			middle = end_of_key(p, middle, last);
	if (middle == first)
		return;
	run_rows(p, first, middle);
	run_rows(p, middle, last);
}

/* ---- afterwards ---------------------------------------------------------------------- */

static void
note_waiting(const FlStateChange *c)
{
	current.waiting++;
	current.oldest = Min(current.oldest, c->pos.ts);
	if (current.listed == NULL)
		current.listed = MemoryContextAlloc(TopMemoryContext, sizeof(FlStateChange) * LISTED_MAX);
	if (current.nlisted < LISTED_MAX)
		current.listed[current.nlisted] = (FlStateChange) {.stream = c->stream,.pos = c->pos};
	current.nlisted++;
}

static void
answer(const PendingPage *p)
{
	int			retried = 0;

	for (int i = 0; i < p->n; i++)
	{
		const FlStateChange *c = &p->changes[i];

		if (!p->done[i])
		{
			note_waiting(c);
			continue;
		}
		fl_state_wait_remove(c->stream, c->pos.shard, c->pos.log_offset);
		retried++;
	}
	if (retried == 0)
		return;
	pg_atomic_fetch_add_u64(&fl_state_stats()->retried, retried);
	/* Doors that hold acknowledgements back look again. */
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, door);
}

/* False: there are no rows behind these. */
static bool
run_page(void)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog state retry", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	PendingPage		p = {.mcxt = mcxt};
	bool		more;

	read_page(&p, current.after);
	more = p.n == PAGE_MAX;
	if (p.n > 0)
	{
		current.after = p.last_id;
		qsort(p.changes, p.n, sizeof(FlStateChange), fl_state_change_cmp);
		run_rows(&p, 0, p.n);
		answer(&p);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mcxt);
	return more;
}

/* All rows have been looked at. */
static void
end_round(void)
{
	fl_state_set_oldest_waiting(current.oldest);
	if (current.nlisted <= LISTED_MAX)
		fl_state_wait_keep_only(current.listed, current.nlisted);
	current.after = 0;
}

int
fl_state_retry(void)
{
	bool		more = true;
	int			waiting;

	if (current.after == 0)
	{
		current.waiting = current.nlisted = 0;
		current.oldest = PG_INT64_MAX;
	}
	for (int i = 0; i < PASS_PAGES && more; i++)
		more = run_page();
	waiting = current.waiting;
	if (!more)
		end_round();
	else
		/* Of what has not been looked at in this round nothing is known. */
		fl_state_set_oldest_waiting(DT_NOBEGIN);
	/* Others who add rows have them awaited, and only we take rows away. */
	fl_state_set_pending(more || waiting > 0);
	return Max(waiting, more ? 1 : 0);
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
