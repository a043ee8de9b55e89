/*-------------------------------------------------------------------------
 *
 * sql_watch.c
 *		fleetlog.watch(): a state table, then its changes, as a long poll
 *		(REQUIREMENTS W1-W3).
 *
 * Without a position the state is told between its marks; with one, the changes
 * behind it, waiting for some if there are none.  The server keeps nothing between
 * two calls.  The changes are read from the log of the table's streams, so a watch
 * costs no replication slot and no process, and may be had by everybody who may read
 * both.
 *
 * Every change carries a position, behind which the next call goes on; that of the
 * last one is behind all that the call has looked at.  A call that has passed over
 * records and found no change returns one row `progress`.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "event.h"
#include "fleetlog/compat.h"
#include "watch_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_watch);

/* Columns of the result. */
enum
{
	COL_EVENT, COL_KEY, COL_SHARD, COL_OFFSET, COL_TS, COL_HEADERS, COL_PAYLOAD, COL_POSITION, COL_STREAM, N_COLUMNS
};

typedef struct Call
{
	FlWatch    *w;
	ReturnSetInfo *rsinfo;
	int			max;
	TimestampTz until;
	bool		waits;
} Call;

/* ---- rows of the result ------------------------------------------------------------ */

static void
put_row(Call *c, FlWatchKind kind, Datum *values, bool *nulls)
{
	values[COL_EVENT] = CStringGetTextDatum(fl_watch_kind_name(kind));
	nulls[COL_EVENT] = false;
	tuplestore_putvalues(c->rsinfo->setResult, c->rsinfo->setDesc, values, nulls);
	pfree(DatumGetPointer(values[COL_EVENT]));
}

/* One that is nothing but a kind and, unless it is 0, a position. */
static void
put_mark(Call *c, FlWatchKind kind, Datum position)
{
	Datum		values[N_COLUMNS] = {0};
	bool		nulls[N_COLUMNS];

	memset(nulls, true, sizeof(nulls));
	values[COL_POSITION] = position;
	nulls[COL_POSITION] = position == (Datum) 0;
	put_row(c, kind, values, nulls);
}

static Datum
nullable(struct varlena *v, bool *isnull)
{
	*isnull = v == NULL;
	return PointerGetDatum(v);
}

static void
put_change(Call *c, FlWatchKind kind, const FlStateChange *change, Datum position)
{
	Datum		values[N_COLUMNS];
	bool		nulls[N_COLUMNS] = {false};

	values[COL_KEY] = PointerGetDatum(change->key);
	values[COL_SHARD] = Int32GetDatum(change->pos.shard);
	values[COL_OFFSET] = Int64GetDatum(change->pos.log_offset);
	values[COL_TS] = TimestampTzGetDatum(change->pos.ts);
	values[COL_HEADERS] = nullable(change->headers, &nulls[COL_HEADERS]);
	values[COL_PAYLOAD] = nullable(change->payload, &nulls[COL_PAYLOAD]);
	values[COL_POSITION] = position;
	nulls[COL_POSITION] = position == (Datum) 0;
	values[COL_STREAM] = ObjectIdGetDatum(change->stream);
	put_row(c, kind, values, nulls);
}

/* ---- the state ------------------------------------------------------------------------ */

static void
on_snapshot_change(void *arg, const FlWatchChange *change)
{
	put_change(arg, FL_WATCH_ROW, &change->c, (Datum) 0);
}

static void
on_snapshot_row(void *arg, Datum *row, bool *isnull)
{
	static const int from[N_COLUMNS] = {
		[COL_KEY] = FL_WATCH_ROW_KEY,[COL_SHARD] = FL_WATCH_ROW_SHARD,[COL_OFFSET] = FL_WATCH_ROW_OFFSET,
		[COL_TS] = FL_WATCH_ROW_TS,[COL_HEADERS] = FL_WATCH_ROW_HEADERS,[COL_PAYLOAD] = FL_WATCH_ROW_PAYLOAD,
		[COL_STREAM] = FL_WATCH_ROW_STREAM
	};
	Datum		values[N_COLUMNS];
	bool		nulls[N_COLUMNS];

	for (int i = 0; i < N_COLUMNS; i++)
	{
		values[i] = row[from[i]];
		nulls[i] = isnull[from[i]];
	}
	values[COL_POSITION] = (Datum) 0;
	nulls[COL_POSITION] = true;
	put_row(arg, FL_WATCH_ROW, values, nulls);
}

static Datum
position_of(const FlWatch *w)
{
	FlShardPosition **at = palloc(sizeof(FlShardPosition *) * Max(w->nsources, 1));

	for (int i = 0; i < w->nsources; i++)
		at[i] = w->sources[i].shards;
	return fl_watch_positions_datum(w, at);
}

static void
tell_state(Call *c)
{
	FlWatchSink sink = {.change = on_snapshot_change,.row = on_snapshot_row,.arg = c};

	put_mark(c, FL_WATCH_BEGIN_SNAPSHOT, (Datum) 0);
	fl_watch_snapshot(c->w, &sink);
	put_mark(c, FL_WATCH_END_SNAPSHOT, position_of(c->w));
}

/* ---- changes ----------------------------------------------------------------------------- */

/* Positions as they were before a pass: those behind each of its changes are made from them. */
static FlShardPosition **
copy_positions(const FlWatch *w)
{
	FlShardPosition **copy = palloc(sizeof(FlShardPosition *) * Max(w->nsources, 1));

	for (int i = 0; i < w->nsources; i++)
	{
		Size		size = sizeof(FlShardPosition) * w->sources[i].nshards;

		copy[i] = palloc(size);
		memcpy(copy[i], w->sources[i].shards, size);
	}
	return copy;
}

static void
tell_changes(Call *c, const FlWatchChanges *changes, FlShardPosition **at)
{
	for (int i = 0; i < changes->n; i++)
	{
		const FlWatchChange *change = &changes->list[i];
		FlShardPosition *p = &at[change->source][change->c.pos.shard];
		Datum		position;

		p->at.offset = change->c.pos.log_offset + 1;
		p->epoch = change->epoch;
		/* The last one stands for all that was looked at. */
		position = i == changes->n - 1 ? position_of(c->w) : fl_watch_positions_datum(c->w, at);
		put_change(c, change->c.cleared ? FL_WATCH_CLEAR : FL_WATCH_SET, &change->c, position);
		pfree(DatumGetPointer(position));
	}
}

typedef enum PassEnd
{
	PASS_NOTHING,				/* wait for more */
	PASS_TOLD,
	PASS_ENOUGH,				/* has looked at so much that the caller should be told */
	PASS_STATE					/* the state has to be told afresh */
} PassEnd;

static PassEnd
one_pass(Call *c, MemoryContext mcxt)
{
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	FlWatchChanges *changes = fl_watch_changes_create(mcxt, false);
	FlShardPosition **before = copy_positions(c->w);
	PassEnd		end = PASS_NOTHING;

	if (!fl_watch_follow(c->w, c->max, changes))
		end = PASS_STATE;
	else if (changes->n > 0)
	{
		tell_changes(c, changes, before);
		end = PASS_TOLD;
	}
	else if (c->w->looked_at >= FL_TAIL_MAX_LOOK)
		end = PASS_ENOUGH;
	if (c->waits)
		fl_tail_wait_found(changes->n);
	MemoryContextSwitchTo(old);
	return end;
}

/*
 * What may have happened while we slept: other mounts, more shards, other rights, no
 * table any more.  True: the state has to be told afresh.
 */
static bool
look_again(Call *c)
{
	if (fl_tail_wait_is_gone())
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the stream was dropped while this session waited for it")));
	AcceptInvalidationMessages();
	c->w->ask_flusher = false;
	return fl_watch_find_sources(c->w);
}

/* Passes until there is something to tell or the time has come. */
static PassEnd
follow(Call *c)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog watch pass", ALLOCSET_DEFAULT_SIZES);
	volatile PassEnd end = PASS_NOTHING;

	c->waits = c->until > GetCurrentTimestamp();
	if (!c->waits)
		return one_pass(c, mcxt);
	fl_tail_wait_begin(c->w->nsources == 1 ? c->w->sources[0].stream : InvalidOid, FL_WAIT_WATCH, c->until);
	PG_TRY();
	{
		for (;;)
		{
			MemoryContext old;
			bool		others;

			fl_tail_wait_arm();
			end = one_pass(c, mcxt);
			if (end != PASS_NOTHING || !fl_tail_wait_sleep(c->until))
				break;
			MemoryContextReset(mcxt);
			old = MemoryContextSwitchTo(mcxt);
			others = look_again(c);
			MemoryContextSwitchTo(old);
			if (others)
			{
				end = PASS_STATE;
				break;
			}
		}
	}
	PG_FINALLY();
	{
		fl_tail_wait_end();
	}
	PG_END_TRY();
	return end;
}

/* ---- the function --------------------------------------------------------------------------- */

static void
set_filter(FlWatchFilter *f, ArrayType *keys, text *prefix)
{
	if (keys != NULL)
	{
		Datum	   *items;
		bool	   *nulls;
		int			n;

		f->by_keys = true;
		deconstruct_array(keys, TEXTOID, -1, false, TYPALIGN_INT, &items, &nulls, &n);
		for (int i = 0; i < n; i++)
			if (!nulls[i])
				fl_watch_filter_add(f, DatumGetTextPP(items[i]));
		fl_watch_filter_sort(f);
	}
	if (prefix != NULL)
	{
		f->prefix = text_to_cstring(prefix);
		f->prefix_len = strlen(f->prefix);
	}
}

Datum
fl_sql_watch(PG_FUNCTION_ARGS)
{
	Call		c = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo};
	PassEnd		end = PASS_STATE;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(4) || PG_ARGISNULL(5))
		return (Datum) 0;
	c.w = palloc0(sizeof(FlWatch));
	c.w->state = PG_GETARG_OID(0);
	c.w->ask_flusher = true;
	c.max = PG_GETARG_INT32(5);
	if (c.max < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_changes must be at least 1")));
	set_filter(&c.w->filter, PG_ARGISNULL(2) ? NULL : PG_GETARG_ARRAYTYPE_P(2), PG_ARGISNULL(3) ? NULL : PG_GETARG_TEXT_PP(3));
	(void) fl_watch_find_sources(c.w);
	c.until = fl_wait_until(PG_GETARG_INTERVAL_P(4));
	if (!PG_ARGISNULL(1) && fl_watch_parse_positions(c.w, PG_GETARG_JSONB_P(1)))
		end = follow(&c);
	if (end == PASS_STATE)
		tell_state(&c);
	else if (end != PASS_TOLD && c.w->moved)
		put_mark(&c, FL_WATCH_PROGRESS, position_of(c.w));
	return (Datum) 0;
}
