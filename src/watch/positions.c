/*-------------------------------------------------------------------------
 *
 * positions.c
 *		Positions of a stream as users write and read them.
 *
 *		{"0": 17, "1": {"offset": 4, "epoch": 2}}
 *
 * names the next offset to be read of each shard; a shard that is not named
 * begins at its head.  With an epoch (that of the record before the position)
 * a reader learns when the log is another one than the one it has read: after a
 * failover to a standby that had less, or a restore to a point in time, offsets
 * are given out again in a new epoch, and a position beyond the end of its own
 * epoch stands behind records that this log does not have.  Without an epoch
 * such a position cannot be told from a good one.
 *
 * A position beyond the tail is no error: a reader may know an offset that this
 * server has yet to confirm (quorum, after a restart) or to replay (a standby).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "fleetlog/catalog.h"
#include "fleetlog/errors.h"
#include "fleetlog/watch.h"

static void
bad_position(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("positions are not valid"),
			 errdetail("%s", detail),
			 errhint("Write {\"<shard>\": offset} or {\"<shard>\": {\"offset\": n, \"epoch\": e}}.")));
}

static int64
integer_of(const JsonbValue *v, const char *what)
{
	int64		result;
	Datum		d;

	if (v->type != jbvNumeric)
		bad_position(psprintf("%s is not a number.", what));
	d = DirectFunctionCall1(numeric_int8, NumericGetDatum(v->val.numeric));
	result = DatumGetInt64(d);
	/* Rounding up would pass over a record. */
	if (!DatumGetBool(DirectFunctionCall2(numeric_eq, NumericGetDatum(v->val.numeric), DirectFunctionCall1(int8_numeric, d))))
		bad_position(psprintf("%s is not a whole number.", what));
	if (result < 0)
		bad_position(psprintf("%s is negative.", what));
	return result;
}

static int
shard_of(Oid stream, int nshards, const JsonbValue *key)
{
	char	   *text = pnstrdup(key->val.string.val, key->val.string.len);
	char	   *end;
	long		shard = strtol(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '\0')
		bad_position(psprintf("\"%s\" is no shard.", text));
	if (shard >= nshards)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" has no shard %s", get_rel_name(stream), text),
				 errdetail("Its shards are 0 to %d.", nshards - 1)));
	return (int) shard;
}

/* {"offset": n, "epoch": e}; without an epoch: begin to tell epochs. */
static void
parse_object(Oid stream, int shard, JsonbContainer *object, FlShardPosition *out)
{
	JsonbValue	buf;
	JsonbValue *v = NULL;
	int64		epoch;

	if (JsonContainerIsObject(object))
		v = getKeyJsonValueFromContainer(object, "offset", strlen("offset"), &buf);
	if (v == NULL)
		bad_position("A position is a number, or an object with \"offset\".");
	out->at.offset = integer_of(v, "An offset");
	v = getKeyJsonValueFromContainer(object, "epoch", strlen("epoch"), &buf);
	if (v == NULL || v->type == jbvNull)
		return;
	epoch = integer_of(v, "An epoch");
	if (epoch > PG_INT32_MAX)
		bad_position("An epoch is too large.");
	out->epoch = (int32) epoch;
	fl_position_check_epoch(stream, shard, out->at.offset, out->epoch);
}

void
fl_position_check_epoch(Oid stream, int32 shard, int64 offset, int32 epoch)
{
	bool		known;
	int64		end = fl_epoch_end(stream, shard, epoch, &known);

	if (known && offset <= end)
		return;
	if (!known)
	{
		end = Min(offset, fl_log_tail(stream, shard));
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_DIVERGED)),
				 errmsg("position " INT64_FORMAT " of shard %d of stream \"%s\" is not in this log",
						offset, shard, get_rel_name(stream)),
				 errdetail("Its epoch %d is not known here.", epoch),
				 errhint("Resume at " INT64_FORMAT ", or earlier if records of this log may have been missed.", end)));
	}
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_DIVERGED)),
			 errmsg("position " INT64_FORMAT " of shard %d of stream \"%s\" is not in this log",
					offset, shard, get_rel_name(stream)),
			 errdetail("Epoch %d of the shard ends at offset " INT64_FORMAT ": the records behind it that were read are gone.",
					   epoch, end),
			 errhint("Resume at " INT64_FORMAT ".", end)));
}

static FlPositions *
positions_at_heads(Oid stream, int nshards)
{
	FlPositions *p = palloc0(sizeof(FlPositions));

	p->stream = stream;
	fl_positions_grow(p, nshards);
	return p;
}

void
fl_positions_grow(FlPositions *p, int nshards)
{
	FlShardPosition *more;

	if (nshards <= p->nshards)
		return;
	more = MemoryContextAllocZero(GetMemoryChunkContext(p), sizeof(FlShardPosition) * nshards);
	for (int s = 0; s < nshards; s++)
	{
		if (s < p->nshards)
			more[s] = p->shards[s];
		else
		{
			more[s].at.offset = fl_log_head(p->stream, s);
			more[s].epoch = FL_NO_EPOCH;
		}
	}
	p->shards = more;
	p->nshards = nshards;
}

FlPositions *
fl_positions_parse(Oid stream, int nshards, Jsonb *json)
{
	FlPositions *p = positions_at_heads(stream, nshards);
	JsonbIterator *it;
	JsonbIteratorToken tok;
	JsonbValue	v;
	int			shard = 0;

	if (json == NULL)
		return p;
	if (!JB_ROOT_IS_OBJECT(json))
		bad_position("They are not an object.");
	it = JsonbIteratorInit(&json->root);
	while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (tok == WJB_KEY)
			shard = shard_of(stream, nshards, &v);
		else if (tok == WJB_VALUE && v.type == jbvBinary)
		{
			p->with_epochs = true;
			parse_object(stream, shard, v.val.binary.data, &p->shards[shard]);
		}
		else if (tok == WJB_VALUE && v.type != jbvNull)
			p->shards[shard].at.offset = integer_of(&v, "An offset");
	}
	return p;
}

/* The epoch of what was read last, or of what lies before the position. */
static int32
epoch_at(const FlPositions *p, int shard)
{
	if (p->shards[shard].epoch != FL_NO_EPOCH)
		return p->shards[shard].epoch;
	return fl_epoch_of(p->stream, shard, p->shards[shard].at.offset - 1);
}

Datum
fl_positions_datum(const FlPositions *p)
{
	StringInfoData buf;
	Datum		result;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	for (int s = 0; s < p->nshards; s++)
	{
		appendStringInfo(&buf, "%s\"%d\":", s > 0 ? "," : "", s);
		if (p->with_epochs)
			appendStringInfo(&buf, "{\"offset\":" INT64_FORMAT ",\"epoch\":%d}",
							 p->shards[s].at.offset, epoch_at(p, s));
		else
			appendStringInfo(&buf, INT64_FORMAT, p->shards[s].at.offset);
	}
	appendStringInfoChar(&buf, '}');
	result = DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data));
	pfree(buf.data);
	return result;
}
