/*-------------------------------------------------------------------------
 *
 * ranges.c
 *		Ranges of offsets by shard, as users write them: {"0": [[from, to], ...]}.
 *
 * Called by holds, data sets and replay.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "fleetlog/ranges.h"

#define MAX_RANGES	10000		/* of one document */

static void
bad_ranges(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("ranges are not valid: %s", what),
			 errhint("Write {\"<shard>\": [[from, to], ...]}, \"to\" not included; null for \"to\" holds all that comes.")));
}

static int64
range_number(const JsonbValue *v, bool null_is_end)
{
	Datum		d;

	if (null_is_end && v->type == jbvNull)
		return PG_INT64_MAX;
	if (v->type != jbvNumeric)
		bad_ranges("an offset is a number");
	d = DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric));
	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(v->val.numeric), DirectFunctionCall1(int8_numeric, d))))
		bad_ranges("an offset is a whole number");
	return DatumGetInt64(d);
}

static int32
shard_number(const JsonbValue *v, const FlStreamInfo *info)
{
	char	   *text = pnstrdup(v->val.string.val, v->val.string.len);
	char	   *end;
	long		n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || n < 0 || n >= info->shards)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" has no shard \"%s\"", info->name, text),
				 errdetail("Its shards are 0 to %d.", info->shards - 1)));
	pfree(text);
	return (int32) n;
}

static void
add_range(FlRanges *r, int32 shard, int64 lower, int64 upper)
{
	if (lower < 0 || upper <= lower)
		bad_ranges("a range begins at 0 or later and ends behind its beginning");
	if (r->n >= MAX_RANGES)
		bad_ranges("too many ranges");
	if (r->items == NULL)
		r->items = palloc(sizeof(FlRange) * 16);
	else if (r->n >= 16 && (r->n & (r->n - 1)) == 0)
		r->items = repalloc(r->items, sizeof(FlRange) * r->n * 2);
	r->items[r->n++] = (FlRange) {
		.shard = shard,.lower = lower,.upper = upper
	};
}

static int
compare_ranges(const void *a, const void *b)
{
	const FlRange *x = a;
	const FlRange *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->lower < y->lower ? -1 : x->lower > y->lower;
}

/*
 * The iterator hands out the document token by token: an object of arrays of
 * arrays of two numbers.
 */
FlRanges
fl_ranges_parse(Jsonb *doc, const FlStreamInfo *info)
{
	FlRanges	r = {0};
	JsonbIterator *it;
	JsonbValue	v;
	JsonbIteratorToken tok;
	int			arrays = 0;
	int			nth = 0;
	int32		shard = -1;
	int64		bounds[2] = {0, 0};

	if (!JB_ROOT_IS_OBJECT(doc))
		bad_ranges("not an object");
	it = JsonbIteratorInit(&doc->root);
	while ((tok = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		switch (tok)
		{
			case WJB_KEY:
				shard = shard_number(&v, info);
				break;
			case WJB_BEGIN_ARRAY:
				if (++arrays > 2)
					bad_ranges("too many brackets");
				nth = 0;
				break;
			case WJB_ELEM:
				if (arrays != 2 || nth >= 2)
					bad_ranges("a range has two numbers");
				bounds[nth] = range_number(&v, nth == 1);
				nth++;
				break;
			case WJB_END_ARRAY:
				if (arrays-- == 2)
				{
					if (nth != 2)
						bad_ranges("a range has two numbers");
					add_range(&r, shard, bounds[0], bounds[1]);
				}
				break;
			case WJB_VALUE:
				bad_ranges("a shard has a list of ranges");
				break;
			case WJB_BEGIN_OBJECT:
				if (shard >= 0)
					bad_ranges("a shard has a list of ranges");
				break;
			default:
				break;
		}
	}
	if (r.n == 0)
		bad_ranges("none is given");
	qsort(r.items, r.n, sizeof(FlRange), compare_ranges);
	return r;
}

void
fl_ranges_merge(FlRanges *r)
{
	int			n = 0;

	for (int i = 0; i < r->n; i++)
	{
		if (n > 0 && r->items[n - 1].shard == r->items[i].shard && r->items[n - 1].upper >= r->items[i].lower)
			r->items[n - 1].upper = Max(r->items[n - 1].upper, r->items[i].upper);
		else
			r->items[n++] = r->items[i];
	}
	r->n = n;
}
