/*-------------------------------------------------------------------------
 *
 * size.c
 *		What the planner is told about a stream: how large it is, and how the
 *		values of its columns are distributed.
 *
 * Offsets are dense, so the number of records is known without looking at any
 * segment: tail minus head of each shard.  Pages follow from the density of a
 * segment or two.  For shard, log_offset and ts statistics are made up on the
 * spot, which ANALYZE could not keep right for a table that grows at its end.
 * Other columns have the statistics that ANALYZE gathered for the stream, or
 * else those of its youngest analysed segment (autovacuum analyses segments,
 * never a partitioned table).
 *
 * The times are those of the largest shard, from a few page headers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "fleetlog/log_tail.h"
#include "scan_internal.h"

/* Operator < of timestamptz, which the server's headers have no name for. */
#define TIMESTAMPTZ_LESS_OPERATOR	1322

#define HISTOGRAM_BOUNDS	101		/* as default_statistics_target has it */
#define TIME_SAMPLES		32
#define STATS_LEAVES		4		/* segments of a shard that are asked for statistics */

/* Density of a stream that nobody has written to: does not matter much. */
#define DEFAULT_RECORDS_PER_PAGE	40.0

/* ---- size ---------------------------------------------------------------------- */

/* Shared memory tells it where somebody has used the shard; asking must not take up an entry there. */
static int64
shard_tail(Oid stream, int32 shard)
{
	FlShard    *s = fl_shared != NULL && !RecoveryInProgress() ? fl_shard_find(stream, shard) : NULL;
	int64		tail,
				head;
	TimestampTz ts;

	if (s != NULL)
		return (int64) pg_atomic_read_u64(&s->visible_tail);
	fl_tail_read_committed(stream, shard, &tail, &head, &ts);
	return tail;
}

/* Blocks of a segment; 0 when it is gone. */
static BlockNumber
leaf_blocks(Oid leaf)
{
	Relation	rel = try_table_open(leaf, AccessShareLock);
	BlockNumber n;

	if (rel == NULL)
		return 0;
	n = RelationGetNumberOfBlocks(rel);
	table_close(rel, AccessShareLock);
	return n;
}

/* Records per page, from the last two segments of the largest shard. */
static double
density(const FlPlanRel *pr)
{
	double		records = 0;
	double		pages = 0;
	int			largest = 0;
	int			n;
	const FlSegment *list;
	FlSegment	last[2];
	int			nlast = 0;

	for (int i = 1; i < pr->shards; i++)
		if (pr->tails[i] - pr->heads[i] > pr->tails[largest] - pr->heads[largest])
			largest = i;
	list = fl_segment_list(pr->stream, largest, &n);
	for (int i = n - 1; i >= 0 && nlast < lengthof(last); i--)
		if (list[i].lower < pr->tails[largest])
			last[nlast++] = list[i];
	for (int i = 0; i < nlast; i++)
	{
		BlockNumber blocks = leaf_blocks(last[i].leaf);

		if (blocks > 1)
		{
			records += (double) (Min(last[i].upper, pr->tails[largest]) - last[i].lower);
			pages += blocks - 1;
		}
	}
	return records > 0 && pages > 0 ? records / pages : DEFAULT_RECORDS_PER_PAGE;
}

FlPlanRel *
fl_plan_rel_create(const FlStreamInfo *info)
{
	FlPlanRel  *pr = palloc0(sizeof(FlPlanRel));

	pr->stream = info->relid;
	pr->shards = Min(info->shards, FL_MAX_SHARDS);
	for (int i = 0; i < pr->shards; i++)
	{
		int			n;

		(void) fl_segment_list(pr->stream, i, &n);
		pr->leaves += n;
		pr->heads[i] = fl_log_head(pr->stream, i);
		pr->tails[i] = Max(shard_tail(info->relid, i), pr->heads[i]);
		pr->tuples += (double) (pr->tails[i] - pr->heads[i]);
	}
	pr->pages = ceil(pr->tuples / density(pr)) + pr->leaves;
	return pr;
}

/* ---- statistics that are gathered ------------------------------------------------ */

/* The stream's own, else those of a young segment; NULL: none. */
static HeapTuple
gathered(const FlPlanRel *pr, AttrNumber attno)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(pr->stream),
										Int16GetDatum(attno), BoolGetDatum(true));

	for (int shard = 0; shard < pr->shards && tuple == NULL; shard++)
	{
		int			n;
		const FlSegment *list = fl_segment_list(pr->stream, shard, &n);

		for (int i = n - 1; i >= Max(0, n - STATS_LEAVES) && tuple == NULL; i--)
			tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(list[i].leaf),
									Int16GetDatum(attno), BoolGetDatum(false));
		if (shard >= STATS_LEAVES)
			break;
	}
	return tuple;
}

int32
fl_plan_column_width(const FlPlanRel *pr, AttrNumber attno)
{
	HeapTuple	tuple = gathered(pr, attno);
	int32		width = 0;

	if (tuple != NULL)
	{
		width = ((Form_pg_statistic) GETSTRUCT(tuple))->stawidth;
		ReleaseSysCache(tuple);
	}
	return width;
}

/* ---- statistics that are made up -------------------------------------------------- */

/* One slot of a pg_statistic row. */
typedef struct StatSlot
{
	int			kind;			/* STATISTIC_KIND_..., 0: no slot */
	Oid			op;
	Datum	   *values;
	int			nvalues;
	float4	   *numbers;		/* NULL: none */
} StatSlot;

static HeapTuple
make_statistics(Oid stream, AttrNumber attno, Oid type, double ndistinct, const StatSlot *slot)
{
	Relation	rel = table_open(StatisticRelationId, AccessShareLock);
	Datum		values[Natts_pg_statistic] = {0};
	bool		nulls[Natts_pg_statistic] = {false};
	HeapTuple	tuple;

	values[Anum_pg_statistic_starelid - 1] = ObjectIdGetDatum(stream);
	values[Anum_pg_statistic_staattnum - 1] = Int16GetDatum(attno);
	values[Anum_pg_statistic_stainherit - 1] = BoolGetDatum(true);
	values[Anum_pg_statistic_stanullfrac - 1] = Float4GetDatum(0);
	values[Anum_pg_statistic_stawidth - 1] = Int32GetDatum(get_typlen(type));
	values[Anum_pg_statistic_stadistinct - 1] = Float4GetDatum((float4) ndistinct);
	for (int i = 0; i < STATISTIC_NUM_SLOTS; i++)
	{
		nulls[Anum_pg_statistic_stanumbers1 - 1 + i] = true;
		nulls[Anum_pg_statistic_stavalues1 - 1 + i] = true;
	}
	if (slot->kind != 0)
	{
		int16		len;
		bool		byval;
		char		align;

		get_typlenbyvalalign(type, &len, &byval, &align);
		values[Anum_pg_statistic_stakind1 - 1] = Int16GetDatum(slot->kind);
		values[Anum_pg_statistic_staop1 - 1] = ObjectIdGetDatum(slot->op);
		values[Anum_pg_statistic_stavalues1 - 1] =
			PointerGetDatum(construct_array(slot->values, slot->nvalues, type, len, byval, align));
		nulls[Anum_pg_statistic_stavalues1 - 1] = false;
	}
	if (slot->numbers != NULL)
	{
		Datum	   *numbers = palloc(sizeof(Datum) * slot->nvalues);

		for (int i = 0; i < slot->nvalues; i++)
			numbers[i] = Float4GetDatum(slot->numbers[i]);
		values[Anum_pg_statistic_stanumbers1 - 1] =
			PointerGetDatum(construct_array(numbers, slot->nvalues, FLOAT4OID, sizeof(float4), true, TYPALIGN_INT));
		nulls[Anum_pg_statistic_stanumbers1 - 1] = false;
	}
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	table_close(rel, AccessShareLock);
	return tuple;
}

/* How many of the records each shard has. */
static HeapTuple
shard_statistics(const FlPlanRel *pr)
{
	Datum	   *values = palloc(sizeof(Datum) * pr->shards);
	float4	   *numbers = palloc(sizeof(float4) * pr->shards);
	StatSlot	slot = {STATISTIC_KIND_MCV, Int4EqualOperator, values, 0, numbers};

	for (int i = 0; i < pr->shards; i++)
	{
		double		n = (double) (pr->tails[i] - pr->heads[i]);

		if (n <= 0)
			continue;
		values[slot.nvalues] = Int32GetDatum(i);
		numbers[slot.nvalues++] = (float4) (n / pr->tuples);
	}
	if (slot.nvalues == 0)
		slot = (StatSlot) {0};
	return make_statistics(pr->stream, FL_ATT_SHARD, INT4OID, Max(slot.nvalues, 1), &slot);
}

static int
compare_int64(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/*
 * A histogram of the union of the shards' ranges: between two neighbouring heads
 * or tails the density is constant, the number of shards that are there.
 */
static HeapTuple
offset_statistics(const FlPlanRel *pr)
{
	int			n = 2 * pr->shards;
	int64	   *cuts = palloc(sizeof(int64) * n);
	Datum	   *values = palloc(sizeof(Datum) * HISTOGRAM_BOUNDS);
	StatSlot	slot = {STATISTIC_KIND_HISTOGRAM, Int8LessOperator, values, 0, NULL};
	double		below = 0;

	for (int i = 0; i < pr->shards; i++)
	{
		cuts[2 * i] = pr->heads[i];
		cuts[2 * i + 1] = pr->tails[i];
	}
	qsort(cuts, n, sizeof(int64), compare_int64);
	for (int i = 0; i + 1 < n; i++)
	{
		double		width = (double) (cuts[i + 1] - cuts[i]);
		double		here = 0;

		for (int s = 0; s < pr->shards; s++)
			if (pr->heads[s] <= cuts[i] && pr->tails[s] >= cuts[i + 1])
				here += width;
		while (here > 0 && slot.nvalues < HISTOGRAM_BOUNDS &&
			   pr->tuples * slot.nvalues / (HISTOGRAM_BOUNDS - 1) <= below + here)
		{
			double		part = (pr->tuples * slot.nvalues / (HISTOGRAM_BOUNDS - 1) - below) / here;

			values[slot.nvalues++] = Int64GetDatum(cuts[i] + (int64) (width * Max(part, 0)));
		}
		below += here;
	}
	if (slot.nvalues < 2)
		slot.kind = 0;
	return make_statistics(pr->stream, FL_ATT_OFFSET, INT8OID,
						   Max(1, (double) (cuts[n - 1] - cuts[0])), &slot);
}

/* Points (offset, time) of the largest shard, ascending. */
static int
sample_times(const FlPlanRel *pr, FlTimeSample *samples)
{
	int			largest = 0;
	int			n;
	int			nleaves = 0;
	int			nsamples = 0;
	const FlSegment *list;
	FlSegment  *leaves;

	for (int i = 1; i < pr->shards; i++)
		if (pr->tails[i] - pr->heads[i] > pr->tails[largest] - pr->heads[largest])
			largest = i;
	list = fl_segment_list(pr->stream, largest, &n);
	leaves = palloc(sizeof(FlSegment) * Max(n, 1));
	for (int i = 0; i < n; i++)
		if (list[i].upper > pr->heads[largest] && list[i].lower < pr->tails[largest])
			leaves[nleaves++] = list[i];
	for (int i = 0; i < nleaves; i++)
	{
		int			from = i * TIME_SAMPLES / nleaves;
		int			want = (i + 1) * TIME_SAMPLES / nleaves - from;
		Relation	rel = want > 0 ? try_table_open(leaves[i].leaf, AccessShareLock) : NULL;

		if (rel == NULL)
			continue;
		nsamples += fl_leaf_sample_times(rel, want, samples + nsamples);
		table_close(rel, AccessShareLock);
	}
	pfree(leaves);
	if (nsamples > 0)
	{
		samples[nsamples].offset = pr->tails[largest];
		samples[nsamples++].ts = GetCurrentTimestamp();
	}
	/* Imported history may have segments out of order. */
	for (int i = 1; i < nsamples; i++)
		samples[i].ts = Max(samples[i].ts, samples[i - 1].ts);
	return nsamples;
}

/* Times by offset, drawn as a line through the samples; the last is now. */
static HeapTuple
time_statistics(const FlPlanRel *pr)
{
	FlTimeSample samples[TIME_SAMPLES + 1];
	int			n = sample_times(pr, samples);
	Datum	   *values = palloc(sizeof(Datum) * HISTOGRAM_BOUNDS);
	StatSlot	slot = {STATISTIC_KIND_HISTOGRAM, TIMESTAMPTZ_LESS_OPERATOR, values, HISTOGRAM_BOUNDS, NULL};
	int			at = 0;
	int64		first,
				last;

	if (n < 2)
		slot.kind = 0;
	first = n > 0 ? samples[0].offset : 0;
	last = n > 0 ? samples[n - 1].offset : 0;
	for (int i = 0; i < HISTOGRAM_BOUNDS && n >= 2; i++)
	{
		double		offset = first + (double) (last - first) * i / (HISTOGRAM_BOUNDS - 1);
		double		step;

		while (at + 2 < n && (double) samples[at + 1].offset <= offset)
			at++;
		step = (double) (samples[at + 1].offset - samples[at].offset);
		step = step > 0 ? Min(1.0, (offset - (double) samples[at].offset) / step) : 0;
		values[i] = TimestampTzGetDatum(samples[at].ts +
										(TimestampTz) (step * (double) (samples[at + 1].ts - samples[at].ts)));
	}
	/* Batches share a time: a few records each. */
	return make_statistics(pr->stream, FL_ATT_TS, TIMESTAMPTZOID, -0.2, &slot);
}

/* ---- the planner's hook --------------------------------------------------------------- */

static get_relation_stats_hook_type prev_relation_stats = NULL;

/* The planner may show values to operators of the user only where he may read all rows anyway. */
static bool
may_see_values(const RelOptInfo *rel, const RangeTblEntry *rte)
{
	Oid			user = OidIsValid(rel->userid) ? rel->userid : GetUserId();

	return rte->securityQuals == NIL &&
		pg_class_aclcheck(rte->relid, user, ACL_SELECT) == ACLCHECK_OK;
}

static void
release_made_up(HeapTuple tuple)
{
	heap_freetuple(tuple);
}

static bool
relation_stats(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attno, VariableStatData *vardata)
{
	RelOptInfo *rel;
	FlPlanRel  *pr = fl_plan_rel_find(root, rte, &rel);

	if (pr == NULL)
		return prev_relation_stats != NULL && prev_relation_stats(root, rte, attno, vardata);
	switch (attno)
	{
		case FL_ATT_SHARD:
			vardata->statsTuple = shard_statistics(pr);
			vardata->freefunc = release_made_up;
			break;
		case FL_ATT_OFFSET:
			vardata->statsTuple = offset_statistics(pr);
			vardata->freefunc = release_made_up;
			break;
		case FL_ATT_TS:
			vardata->statsTuple = time_statistics(pr);
			vardata->freefunc = release_made_up;
			break;
		default:
			vardata->statsTuple = gathered(pr, attno);
			vardata->freefunc = ReleaseSysCache;
			break;
	}
	vardata->acl_ok = vardata->statsTuple == NULL || may_see_values(rel, rte);
	return true;
}

void
fl_size_init(void)
{
	prev_relation_stats = get_relation_stats_hook;
	get_relation_stats_hook = relation_stats;
}
