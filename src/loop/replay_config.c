/*-------------------------------------------------------------------------
 *
 * replay_config.c
 *		What replay has to know of a loop: its streams, the versions of its policy
 *		and where each holds, how far it has read, and what is pending.
 *
 * It is read before any tail is: so all that it says was done is in the streams, and
 * what the loop does meanwhile lies beyond the positions and is left out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/replay.h"
#include "replay_internal.h"

static int64
int_column(HeapTuple tuple, TupleDesc desc, int att)
{
	bool		isnull;
	Datum		d = SPI_getbinval(tuple, desc, att, &isnull);

	if (isnull)
		return -1;
	return TupleDescAttr(desc, att - 1)->atttypid == INT8OID ? DatumGetInt64(d) : DatumGetInt32(d);
}

static void
on_loop(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlReplayLoop *loop = arg;
	bool		isnull;

	loop->source = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	loop->requests = DatumGetObjectId(SPI_getbinval(tuple, desc, 2, &isnull));
	loop->responses = DatumGetObjectId(SPI_getbinval(tuple, desc, 3, &isnull));
	loop->decisions = DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull));
}

static void
on_version(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlReplayLoop *loop = arg;
	FlVersionRange *v;

	if (loop->versions == NULL)
		loop->versions = MemoryContextAlloc(loop->mcxt, sizeof(FlVersionRange) * 64);
	else if (loop->n_versions >= 64 && (loop->n_versions & (loop->n_versions - 1)) == 0)
		loop->versions = repalloc(loop->versions, sizeof(FlVersionRange) * loop->n_versions * 2);
	v = &loop->versions[loop->n_versions++];
	v->shard = (int32) int_column(tuple, desc, 1);
	v->version = (int32) int_column(tuple, desc, 2);
	v->from = int_column(tuple, desc, 3);
}

static void
on_position(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlReplayLoop *loop = arg;
	int32		shard = (int32) int_column(tuple, desc, 1);

	if (shard < loop->info->shards)
		loop->positions[shard] = int_column(tuple, desc, 2);
}

static void
on_pending(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlReplayLoop *loop = arg;

	if (loop->pending == NULL)
		loop->pending = MemoryContextAllocHuge(loop->mcxt, sizeof(FlPosition) * 64);
	else if (loop->n_pending >= 64 && (loop->n_pending & (loop->n_pending - 1)) == 0)
		loop->pending = repalloc_huge(loop->pending, sizeof(FlPosition) * loop->n_pending * 2);
	loop->pending[loop->n_pending].shard = (int32) int_column(tuple, desc, 1);
	loop->pending[loop->n_pending++].offset = int_column(tuple, desc, 2);
}

/* One statement: one snapshot for positions and what is pending. */
static void
on_row(void *arg, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	int32		kind = DatumGetInt32(SPI_getbinval(tuple, desc, 4, &isnull));

	if (kind == 0)
		on_version(arg, tuple, desc);
	else if (kind == 1)
		on_position(arg, tuple, desc);
	else
		on_pending(arg, tuple, desc);
}

FlReplayLoop *
fl_replay_loop(const char *name)
{
	static const char *const rows =
		"SELECT shard, policy_version, from_offset, 0 AS kind FROM fleetlog.loop_policy_range WHERE loop = $1"
		" UNION ALL SELECT shard, log_offset, 0, 1 FROM fleetlog.loop_position WHERE loop = $1"
		" UNION ALL SELECT request_shard, request_offset, 0, 2 FROM fleetlog.loop_request WHERE loop = $1"
		" ORDER BY 4, 1, 2";
	FlReplayLoop *loop = palloc0(sizeof(FlReplayLoop));
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {CStringGetTextDatum(name)};

	loop->mcxt = CurrentMemoryContext;
	loop->name = pstrdup(name);
	fl_config_query("SELECT source, requests, responses, decisions FROM fleetlog.loop_config WHERE loop = $1", 1, types, values, on_loop, loop);
	if (!OidIsValid(loop->source))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("loop \"%s\" does not exist", name),
				 errhint("Loops are listed in the view fleetlog.loop.")));
	loop->info = fl_replay_stream(loop->source);
	(void) fl_replay_stream(loop->requests);
	(void) fl_replay_stream(loop->responses);
	(void) fl_replay_stream(loop->decisions);
	loop->positions = palloc0(sizeof(int64) * loop->info->shards);
	loop->firsts = palloc(sizeof(int64) * loop->info->shards);
	fl_config_query(rows, 1, types, values, on_row, loop);
	for (int i = 0; i < loop->info->shards; i++)
		loop->firsts[i] = -1;
	for (int i = 0; i < loop->n_versions; i++)
	{
		FlVersionRange *v = &loop->versions[i];

		if (v->shard < loop->info->shards && (loop->firsts[v->shard] < 0 || v->from < loop->firsts[v->shard]))
			loop->firsts[v->shard] = v->from;
	}
	return loop;
}

int32
fl_replay_version(const FlReplayLoop *loop, int32 shard, int64 offset)
{
	int32		found = 0;

	for (int i = 0; i < loop->n_versions && loop->versions[i].shard <= shard; i++)
		if (loop->versions[i].shard == shard && loop->versions[i].from <= offset)
			found = loop->versions[i].version;
	return found;
}

bool
fl_replay_is_pending(const FlReplayLoop *loop, FlPosition request)
{
	int			lo = 0,
				hi = loop->n_pending;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;
		const FlPosition *p = &loop->pending[mid];

		if (p->shard == request.shard && p->offset == request.offset)
			return true;
		if (p->shard < request.shard || (p->shard == request.shard && p->offset < request.offset))
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

/* ---- what to replay ---------------------------------------------------------------- */

/* Cut to what the loop has read. */
static void
clip(const FlReplayLoop *loop, FlRanges *r)
{
	int			n = 0;

	for (int i = 0; i < r->n; i++)
	{
		FlRange		x = r->items[i];

		if (loop->firsts[x.shard] < 0)
			continue;
		x.lower = Max(x.lower, loop->firsts[x.shard]);
		x.upper = Min(x.upper, loop->positions[x.shard]);
		if (x.lower < x.upper)
			r->items[n++] = x;
	}
	r->n = n;
}

/*
 * An end in time is an end in offsets.  So is a beginning, unless readings before the head are meant: those are told by the
 * times that the records of them name.
 */
static void
clip_times(const FlReplayLoop *loop, FlReplayScope *scope)
{
	FlRanges   *r = &scope->ranges;

	for (int i = 0; i < r->n; i++)
	{
		FlRange    *x = &r->items[i];
		int64		o;

		if (scope->from_ts != DT_NOBEGIN)
		{
			o = fl_log_offset_for_time(loop->source, x->shard, scope->from_ts);
			if (o < 0 || o > fl_log_head(loop->source, x->shard))
				x->lower = Max(x->lower, o < 0 ? x->upper : o);
		}
		if (scope->to_ts != DT_NOEND)
		{
			o = fl_log_offset_for_time(loop->source, x->shard, scope->to_ts);
			if (o >= 0)
				x->upper = Min(x->upper, o);
		}
	}
	clip(loop, r);
}

void
fl_replay_scope(const FlReplayLoop *loop, Jsonb *ranges, FlReplayScope *scope)
{
	if (ranges)
		scope->ranges = fl_ranges_parse(ranges, loop->info);
	else
	{
		scope->ranges.n = loop->info->shards;
		scope->ranges.items = palloc(sizeof(FlRange) * loop->info->shards);
		for (int i = 0; i < loop->info->shards; i++)
			scope->ranges.items[i] = (FlRange) {
				.shard = i,.lower = 0,.upper = PG_INT64_MAX
			};
	}
	fl_ranges_merge(&scope->ranges);
	clip(loop, &scope->ranges);
	clip_times(loop, scope);
}

typedef struct Dataset
{
	MemoryContext mcxt;
	Oid			stream;
	Jsonb	   *ranges;
} Dataset;

static void
on_dataset(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Dataset    *d = arg;
	MemoryContext old = MemoryContextSwitchTo(d->mcxt);
	bool		isnull;

	d->stream = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	d->ranges = DatumGetJsonbPCopy(SPI_getbinval(tuple, desc, 2, &isnull));
	MemoryContextSwitchTo(old);
}

Jsonb *
fl_replay_dataset(const char *name, Oid stream)
{
	Dataset		d = {.mcxt = CurrentMemoryContext};
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {CStringGetTextDatum(name)};

	fl_config_query("SELECT stream, ranges FROM fleetlog.dataset_config WHERE name = $1", 1, types, values, on_dataset, &d);
	if (d.ranges == NULL || pg_class_aclcheck(d.stream, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("data set \"%s\" does not exist", name),
				 errhint("The view fleetlog.dataset lists those of streams that you may read.")));
	if (d.stream != stream)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("data set \"%s\" is not of the source of the loop", name)));
	return d.ranges;
}
