/*-------------------------------------------------------------------------
 *
 * keys.c
 *		Conditions on shard, log_offset and ts as ranges that the scan can walk
 *		to (L11).
 *
 * A condition is taken apart twice: by the planner, to know that it is one, and
 * by the executor, from the same clause after parameters were put in.  Nothing
 * but the clause itself travels in the plan.
 *
 * Only the server's own b-tree operators of integers and of dates and times are
 * known here.  We apply their meaning ourselves, to values of the stream's
 * fixed columns; they are strict, so a NULL value matches nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_opfamily_d.h"
#include "catalog/pg_type_d.h"
#include "nodes/primnodes.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "scan_internal.h"

/* B-tree family datetime_ops, which the server's headers have no name for. */
#define DATETIME_BTREE_FAMILY	434

StaticAssertDecl((int) FL_KEY_LT == BTLessStrategyNumber &&
				 (int) FL_KEY_LE == BTLessEqualStrategyNumber &&
				 (int) FL_KEY_EQ == BTEqualStrategyNumber &&
				 (int) FL_KEY_GE == BTGreaterEqualStrategyNumber &&
				 (int) FL_KEY_GT == BTGreaterStrategyNumber,
				 "FlKeyOp follows the strategies of btree");

/* ---- recognising them ---------------------------------------------------------- */

AttrNumber
fl_scan_key_column(Node *node, Index varno)
{
	Var		   *var = (Var *) node;

	if (node == NULL || !IsA(node, Var) || (Index) var->varno != varno || var->varlevelsup != 0)
		return 0;
	switch (var->varattno)
	{
		case FL_ATT_SHARD:
		case FL_ATT_OFFSET:
		case FL_ATT_TS:
			return var->varattno;
		default:
			return 0;
	}
}

/* Set op and type for `column opno value`; false when we do not know the operator. */
static bool
match_operator(Oid opno, FlScanKey *key)
{
	Oid			family = key->column == FL_ATT_TS ? DATETIME_BTREE_FAMILY : INTEGER_BTREE_FAM_OID;
	int			strategy;
	Oid			left;

	if (!op_in_opfamily(opno, family))
		return false;
	get_op_opfamily_properties(opno, family, false, &strategy, &left, &key->type);
	key->op = (FlKeyOp) strategy;
	return true;
}

static bool
match_any(ScalarArrayOpExpr *any, Index varno, FlScanKey *key)
{
	if (!any->useOr)
		return false;
	key->column = fl_scan_key_column(linitial(any->args), varno);
	if (key->column != FL_ATT_SHARD && key->column != FL_ATT_OFFSET)
		return false;
	if (!match_operator(any->opno, key) || key->op != FL_KEY_EQ)
		return false;
	key->op = FL_KEY_ANY;
	key->value = lsecond(any->args);
	/* A list of offsets is searched as one range, from the least to the greatest. */
	key->exact = key->column == FL_ATT_SHARD;
	return true;
}

bool
fl_scan_key_match(Expr *clause, Index varno, FlScanKey *key)
{
	OpExpr	   *op = (OpExpr *) clause;
	Oid			opno;

	memset(key, 0, sizeof(*key));
	if (IsA(clause, ScalarArrayOpExpr))
		return match_any((ScalarArrayOpExpr *) clause, varno, key);
	if (!IsA(clause, OpExpr) || list_length(op->args) != 2)
		return false;
	opno = op->opno;
	key->column = fl_scan_key_column(linitial(op->args), varno);
	key->value = lsecond(op->args);
	if (key->column == 0)
	{
		key->column = fl_scan_key_column(lsecond(op->args), varno);
		key->value = linitial(op->args);
		opno = key->column != 0 ? get_commutator(opno) : InvalidOid;
	}
	key->exact = true;
	return key->column != 0 && OidIsValid(opno) && match_operator(opno, key);
}

/* ---- values ------------------------------------------------------------------------ */

void
fl_scan_range_init(FlScanRange *range)
{
	range->empty = false;
	memset(range->shards, true, sizeof(range->shards));
	range->bounds.from = 0;
	range->bounds.to = PG_INT64_MAX;
	range->bounds.ts_from = DT_NOBEGIN;
	range->bounds.ts_to = DT_NOEND;
}

static int64
int_value(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		case INT8OID:
			return DatumGetInt64(value);
	}
	elog(ERROR, "unexpected type %u of a bound", type);
	return 0;
}

/* As the server's comparisons across types do it: in the session's time zone, saturating. */
static TimestampTz
time_value(Datum value, Oid type)
{
	int			overflow;

	switch (type)
	{
		case TIMESTAMPTZOID:
			return DatumGetTimestampTz(value);
		case TIMESTAMPOID:
			return timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value), &overflow);
		case DATEOID:
			return date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow);
	}
	elog(ERROR, "unexpected type %u of a bound", type);
	return 0;
}

/* The condition as an inclusive range of whole numbers; false: empty. */
static bool
inclusive(FlKeyOp op, int64 v, int64 *low, int64 *high)
{
	*low = PG_INT64_MIN;
	*high = PG_INT64_MAX;
	switch (op)
	{
		case FL_KEY_LT:
			*high = v - (v > PG_INT64_MIN);
			return v > PG_INT64_MIN;
		case FL_KEY_LE:
			*high = v;
			return true;
		case FL_KEY_EQ:
			*low = *high = v;
			return true;
		case FL_KEY_GE:
			*low = v;
			return true;
		case FL_KEY_GT:
			*low = v + (v < PG_INT64_MAX);
			return v < PG_INT64_MAX;
		case FL_KEY_ANY:
			break;
	}
	return true;
}

static void
narrow_shards(FlScanRange *range, int64 low, int64 high)
{
	for (int64 i = 0; i < FL_MAX_SHARDS; i++)
		if (i < low || i > high)
			range->shards[i] = false;
}

static void
narrow_offsets(FlScanRange *range, int64 low, int64 high)
{
	FlScanBounds *b = &range->bounds;

	b->from = Max(b->from, low);
	if (high < PG_INT64_MAX)
		b->to = Min(b->to, high + 1);
	if (b->from >= b->to)
		range->empty = true;
}

static void
narrow_times(FlScanRange *range, TimestampTz low, TimestampTz high)
{
	FlScanBounds *b = &range->bounds;

	b->ts_from = Max(b->ts_from, low);
	b->ts_to = Min(b->ts_to, high);
	if (b->ts_from > b->ts_to)
		range->empty = true;
}

static void
add_array(FlScanRange *range, const FlScanKey *key, ArrayType *array)
{
	bool		wanted[FL_MAX_SHARDS] = {false};
	int64		low = PG_INT64_MAX;
	int64		high = PG_INT64_MIN;
	int16		len;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	get_typlenbyvalalign(key->type, &len, &byval, &align);
	deconstruct_array(array, key->type, len, byval, align, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		int64		v;

		if (nulls[i])
			continue;
		v = int_value(values[i], key->type);
		low = Min(low, v);
		high = Max(high, v);
		if (v >= 0 && v < FL_MAX_SHARDS)
			wanted[v] = true;
	}
	if (low > high)
		range->empty = true;
	else if (key->column == FL_ATT_OFFSET)
		narrow_offsets(range, low, high);
	else
		for (int i = 0; i < FL_MAX_SHARDS; i++)
			range->shards[i] = range->shards[i] && wanted[i];
}

void
fl_scan_range_add(FlScanRange *range, const FlScanKey *key, Datum value, bool isnull)
{
	int64		low,
				high;

	if (isnull)
	{
		range->empty = true;
		return;
	}
	if (key->op == FL_KEY_ANY)
	{
		add_array(range, key, DatumGetArrayTypeP(value));
		return;
	}
	if (!inclusive(key->op, key->column == FL_ATT_TS ? time_value(value, key->type) :
				   int_value(value, key->type), &low, &high))
		range->empty = true;
	else if (key->column == FL_ATT_SHARD)
		narrow_shards(range, low, high);
	else if (key->column == FL_ATT_OFFSET)
		narrow_offsets(range, low, high);
	else
		narrow_times(range, low, high);
}
