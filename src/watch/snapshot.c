/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *		watch(): the values in force, and the position behind which their changes
 *		follow.
 *
 * One cut through table and log without stopping anybody:
 *
 *	T	the durable tails; what lies below was committed before
 *	S	a snapshot, later than T: shows the table, what waits for a lock
 *		(state_pending), and how far last values have come (state_flushed)
 *	E	tails that cover all that S shows; we wait until they are durable
 *
 * The value of a key at E is the newest of its row in S, of what waits for it, of
 * the records between T and E, and, where last values follow the log, of those between
 * what is flushed and E.  So the position is E, exactly: nothing that is told
 * here comes again behind it, and nothing is left out.
 *
 * Rows come through the executor with the caller's rights and policies.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/guest.h"
#include "fleetlog/state.h"
#include "watch_internal.h"

#define FETCH_ROWS		1000

/* Records that are read here rather than waited for until the folder has written them. */
#define FOLD_READ_MAX	100000
#define FOLD_WAITS		50		/* of 100 ms */

/* The cut of one shard. */
typedef struct ShardCut
{
	int64		head;			/* at T */
	int64		durable;		/* T */
	int64		flushed;		/* of last values, as S shows it; PG_INT64_MAX: none follow the log */
	int64		end;			/* E */
} ShardCut;

/* A value that waits for a lock, as S shows it. */
typedef struct Waiting
{
	int			source;
	int32		shard;
	int64		log_offset;
} Waiting;

typedef struct Cut
{
	FlWatch    *w;
	ShardCut  **shards;			/* by source and shard */
	Waiting    *waiting;
	int			nwaiting;
	int			max_waiting;
	Snapshot	snapshot;
	FlWatchChanges *changes;
	const FlWatchSink *sink;
} Cut;

/* ---- the tails -------------------------------------------------------------------- */

static void
nap(long ms)
{
	CHECK_FOR_INTERRUPTS();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* Has the stream mounts whose values come to this table behind the log? */
static bool
has_followers(const FlWatch *w, Oid stream)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);

	for (int i = 0; i < n; i++)
		if (mounts[i].state == w->state && mounts[i].stream == stream && fl_state_is_folded(&mounts[i]))
			return true;
	return false;
}

static bool
folder_is_far_behind(const FlWatch *w)
{
	for (int i = 0; i < w->nsources; i++)
		for (int32 s = 0; s < w->sources[i].nshards; s++)
			if (!fl_state_is_flushed_to(w->state, w->sources[i].stream, s,
										fl_watch_tail(w, w->sources[i].stream, s) - FOLD_READ_MAX))
				return true;
	return false;
}

static void
read_durable_tails(Cut *c)
{
	FlWatch    *w = c->w;

	c->shards = palloc(sizeof(ShardCut *) * Max(w->nsources, 1));
	for (int i = 0; i < w->nsources; i++)
	{
		int64		flushed = has_followers(w, w->sources[i].stream) ? 0 : PG_INT64_MAX;

		c->shards[i] = palloc0(sizeof(ShardCut) * w->sources[i].nshards);
		for (int32 s = 0; s < w->sources[i].nshards; s++)
			c->shards[i][s] = (ShardCut) {
				.head = fl_log_head(w->sources[i].stream, s),
				.durable = fl_watch_tail(w, w->sources[i].stream, s),.flushed = flushed
			};
	}
	/* While a commit is replayed its rows are committed a moment before snapshots show them. */
	if (RecoveryInProgress())
	{
		XLogRecPtr	replaying = GetCurrentReplayRecPtr(NULL);

		while (GetXLogReplayRecPtr(NULL) < replaying && RecoveryInProgress())
			nap(1);
	}
}

static void
wait_until_durable(Oid stream, FlShard *shard, int64 end)
{
	fl_tail_wait_begin(stream, FL_WAIT_WATCH, DT_NOEND);
	PG_TRY();
	{
		for (;;)
		{
			fl_tail_wait_arm();
			if (pg_atomic_read_u64(&shard->flushed_tail) < (uint64) end)
				fl_flush_published();
			if (fl_shard_durable_tail(shard) >= end)
				break;
			(void) fl_tail_wait_sleep(TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1000));
			if (fl_tail_wait_is_gone())
				ereport(ERROR,
						(errcode(ERRCODE_UNDEFINED_TABLE),
						 errmsg("the stream was dropped while this session waited for it")));
		}
	}
	PG_FINALLY();
	{
		fl_tail_wait_end();
	}
	PG_END_TRY();
}

/* E of each shard. */
static void
settle(Cut *c)
{
	FlWatch    *w = c->w;

	for (int i = 0; i < w->nsources; i++)
	{
		Oid			stream = w->sources[i].stream;

		if (!RecoveryInProgress())
			fl_state_wait_for_writers(stream, w->sources[i].nshards);
		for (int32 s = 0; s < w->sources[i].nshards; s++)
		{
			FlShard    *shard = RecoveryInProgress() ? NULL : fl_shard_find(stream, s);

			c->shards[i][s].end = shard != NULL ? (int64) pg_atomic_read_u64(&shard->visible_tail) : fl_log_tail(stream, s);
		}
	}
	for (int i = 0; i < w->nsources; i++)
		for (int32 s = 0; s < w->sources[i].nshards; s++)
		{
			FlShard    *shard = RecoveryInProgress() ? NULL : fl_shard_find(w->sources[i].stream, s);

			if (shard != NULL)
				wait_until_durable(w->sources[i].stream, shard, c->shards[i][s].end);
		}
}

/* ---- our own tables, with S ---------------------------------------------------------- */

static int
source_of(const FlWatch *w, Oid stream)
{
	for (int i = 0; i < w->nsources; i++)
		if (w->sources[i].stream == stream)
			return i;
	return -1;
}

/* Rows of this state table; state, stream are columns `first` and the next one. */
static void
each_row(Cut *c, const char *name, int first, void (*f) (Cut *c, int source, HeapTuple tuple, TupleDesc desc))
{
	Relation	rel = table_open(get_relname_relid(name, get_namespace_oid("fleetlog", false)), AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, c->snapshot, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		int			source = source_of(c->w, DatumGetObjectId(heap_getattr(tuple, first + 1, desc, &isnull)));

		if (source >= 0 && DatumGetObjectId(heap_getattr(tuple, first, desc, &isnull)) == c->w->state)
			f(c, source, tuple, desc);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
on_flushed(Cut *c, int source, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	int32		shard = DatumGetInt32(heap_getattr(tuple, 3, desc, &isnull));

	if (shard >= 0 && shard < c->w->sources[source].nshards && c->shards[source][shard].flushed != PG_INT64_MAX)
		c->shards[source][shard].flushed = DatumGetInt64(heap_getattr(tuple, 4, desc, &isnull));
}

static void
on_waiting(Cut *c, int source, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	int32		shard = DatumGetInt32(heap_getattr(tuple, 5, desc, &isnull));

	if (shard < 0 || shard >= c->w->sources[source].nshards)
		return;
	if (c->nwaiting == c->max_waiting)
	{
		c->max_waiting = Max(16, c->max_waiting * 2);
		c->waiting = c->waiting ? repalloc_huge(c->waiting, sizeof(Waiting) * c->max_waiting) :
			palloc(sizeof(Waiting) * c->max_waiting);
	}
	c->waiting[c->nwaiting++] = (Waiting) {
		.source = source,.shard = shard,.log_offset = DatumGetInt64(heap_getattr(tuple, 6, desc, &isnull))
	};
}

/* ---- the log ------------------------------------------------------------------------------ */

static void
read_log(Cut *c)
{
	FlWatch    *w = c->w;

	for (int i = 0; i < w->nsources; i++)
		for (int32 s = 0; s < w->sources[i].nshards; s++)
		{
			const ShardCut *cut = &c->shards[i][s];
			FlWatchRange r = {
				.source = i,.shard = s,.upto = cut->end,
				.values_from = cut->durable,.folded_from = cut->flushed
			};

			r.at.offset = Max(Min(cut->durable, cut->flushed), fl_log_head(w->sources[i].stream, s));
			fl_watch_read_range(w, &r, c->changes);
		}
	for (int i = 0; i < c->nwaiting; i++)
	{
		const Waiting *v = &c->waiting[i];
		FlWatchRange r = {.source = v->source,.shard = v->shard,.upto = v->log_offset + 1};

		r.at.offset = v->log_offset;
		if (v->log_offset >= fl_log_head(w->sources[v->source].stream, v->shard) &&
			v->log_offset < c->shards[v->source][v->shard].end)
			fl_watch_read_range(w, &r, c->changes);
	}
	fl_watch_changes_compact(c->changes);
}

/*
 * Has a trim taken records that S does not show, before they were read?  What lies
 * below the head at T was in the table before, and S is later.
 */
static bool
is_trimmed(const Cut *c)
{
	const FlWatch *w = c->w;

	for (int i = 0; i < w->nsources; i++)
		for (int32 s = 0; s < w->sources[i].nshards; s++)
		{
			const ShardCut *cut = &c->shards[i][s];

			if (fl_log_head(w->sources[i].stream, s) > Max(cut->head, Min(cut->durable, cut->flushed)))
				return true;
		}
	return false;
}

/* ---- the table ----------------------------------------------------------------------------- */

static void
on_row(Cut *c, HeapTuple tuple, TupleDesc desc)
{
	Datum		values[FL_WATCH_ROW_COLUMNS];
	bool		nulls[FL_WATCH_ROW_COLUMNS];
	FlWatchChange *change;
	FlStatePos	pos;

	heap_deform_tuple(tuple, desc, values, nulls);
	change = fl_watch_changes_find(c->changes, DatumGetObjectId(values[FL_WATCH_ROW_STREAM]),
								   DatumGetTextPP(values[FL_WATCH_ROW_KEY]));
	if (change == NULL)
	{
		c->sink->row(c->sink->arg, values, nulls);
		return;
	}
	pos = (FlStatePos) {
		.ts = DatumGetTimestampTz(values[FL_WATCH_ROW_TS]),.shard = DatumGetInt32(values[FL_WATCH_ROW_SHARD]),
		.log_offset = DatumGetInt64(values[FL_WATCH_ROW_OFFSET])
	};
	change->shown = true;
	if (fl_state_pos_cmp(&change->c.pos, &pos) <= 0)
		c->sink->row(c->sink->arg, values, nulls);
	else if (!change->c.cleared)
		c->sink->change(c->sink->arg, change);
}

/* With keys or a prefix the primary key, which begins with the stream, finds them. */
static char *
query_of(const FlWatch *w)
{
	const FlWatchFilter *f = &w->filter;
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT stream, key, shard, log_offset, ts, headers, payload FROM %s",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(w->state)), get_rel_name(w->state)));
	if (f->by_keys || f->prefix)
		appendStringInfo(&sql, " WHERE stream OPERATOR(pg_catalog.=) ANY ($1) AND (%s%s%s)",
						 f->by_keys ? "key OPERATOR(pg_catalog.=) ANY ($2)" : "",
						 f->by_keys && f->prefix ? " OR " : "",
						 f->prefix ? "key OPERATOR(pg_catalog.^@) $3" : "");
	return sql.data;
}

static void
filter_values(const FlWatch *w, Datum *values)
{
	const FlWatchFilter *f = &w->filter;
	int			n;
	const Oid  *streams = fl_stream_list(&n);
	Datum	   *items = palloc(sizeof(Datum) * Max(Max(n, f->nkeys), 1));

	for (int i = 0; i < n; i++)
		items[i] = ObjectIdGetDatum(streams[i]);
	values[0] = PointerGetDatum(construct_array(items, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	for (int i = 0; i < f->nkeys; i++)
		items[i] = PointerGetDatum(f->keys[i]);
	values[1] = PointerGetDatum(construct_array(items, f->nkeys, TEXTOID, -1, false, TYPALIGN_INT));
	values[2] = PointerGetDatum(cstring_to_text_with_len(f->prefix ? f->prefix : "", (int) f->prefix_len));
}

static void
read_table(Cut *c)
{
	Oid			types[3] = {OIDARRAYOID, TEXTARRAYOID, TEXTOID};
	Datum		values[3];
	char	   *sql = query_of(c->w);
	Portal		portal;

	filter_values(c->w, values);
	SPI_connect();
	portal = SPI_cursor_open_with_args(NULL, sql, 3, types, values, NULL, true, CURSOR_OPT_NO_SCROLL);
	for (;;)
	{
		SPI_cursor_fetch(portal, true, FETCH_ROWS);
		if (SPI_processed == 0)
			break;
		CHECK_FOR_INTERRUPTS();
		for (uint64 i = 0; i < SPI_processed; i++)
			on_row(c, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	SPI_finish();
}

/* Keys that have no row yet. */
static void
tell_new_keys(Cut *c)
{
	for (int i = 0; i < c->changes->n; i++)
	{
		const FlWatchChange *change = &c->changes->list[i];

		if (!change->shown && !change->c.cleared && !fl_watch_is_superseded(c->w, change))
			c->sink->change(c->sink->arg, change);
	}
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void
set_positions(const Cut *c)
{
	for (int i = 0; i < c->w->nsources; i++)
		for (int32 s = 0; s < c->w->sources[i].nshards; s++)
		{
			FlShardPosition *p = &c->w->sources[i].shards[s];

			memset(p, 0, sizeof(*p));
			p->at.offset = c->shards[i][s].end;
			p->epoch = fl_epoch_of(c->w->sources[i].stream, s, p->at.offset - 1);
		}
}

static void
begin_cut(Cut *c, MemoryContext mcxt)
{
	read_durable_tails(c);
	c->snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(c->snapshot);
	c->changes = fl_watch_changes_create(mcxt, true);
	c->nwaiting = 0;
	each_row(c, "state_flushed", 1, on_flushed);
	each_row(c, "state_pending", 2, on_waiting);
	settle(c);
	read_log(c);
}

static void
end_cut(Cut *c)
{
	PopActiveSnapshot();
	UnregisterSnapshot(c->snapshot);
}

void
fl_watch_snapshot(FlWatch *w, const FlWatchSink *sink)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog watch snapshot", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	Cut			c = {.w = w,.sink = sink};

	w->ask_flusher = false;
	/* Where the lag is stretched: better wait a moment than fold millions of records here. */
	for (int i = 0; i < FOLD_WAITS && !RecoveryInProgress() && folder_is_far_behind(w); i++)
	{
		fl_state_await_flush();
		nap(100);
	}
	for (begin_cut(&c, mcxt); is_trimmed(&c); begin_cut(&c, mcxt))
	{
		CHECK_FOR_INTERRUPTS();
		end_cut(&c);
		MemoryContextReset(mcxt);
		c.waiting = NULL;
		c.max_waiting = 0;
	}
	read_table(&c);
	set_positions(&c);
	tell_new_keys(&c);
	end_cut(&c);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mcxt);
}
