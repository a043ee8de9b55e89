/*-------------------------------------------------------------------------
 *
 * position.c
 *		Head, tail and time of a shard; read(), head(), tail(), offset_for_time().
 *
 * The tail that anybody is told is the durable one (L5).  On a standby there is
 * no shared state: the files, as far as they are replayed, tell it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/guest.h"
#include "fleetlog/log_tail.h"
#include "fleetlog/rls.h"
#include "log_private.h"

PG_FUNCTION_INFO_V1(fl_sql_read);
PG_FUNCTION_INFO_V1(fl_sql_head);
PG_FUNCTION_INFO_V1(fl_sql_tail);
PG_FUNCTION_INFO_V1(fl_sql_offset_for_time);

static FlShard *
shared_shard(Oid stream, int32 shard)
{
	const FlStreamInfo *info;

	if (fl_shared == NULL || RecoveryInProgress())
		return NULL;
	info = fl_stream_lookup(stream);
	return fl_shard_open(stream, shard, info && info->durability == FL_DURABILITY_QUORUM);
}

int64
fl_log_tail(Oid stream, int32 shard)
{
	FlShard    *s = shared_shard(stream, shard);
	int64		tail,
				head;
	TimestampTz ts;

	if (s == NULL)
	{
		fl_tail_read_committed(stream, shard, &tail, &head, &ts);
		return tail;
	}
	if (pg_atomic_read_u64(&s->flushed_tail) < pg_atomic_read_u64(&s->visible_tail))
		fl_flush_published();
	/* After a start nothing of a quorum stream is confirmed yet, but what was trimmed is of no concern any more. */
	tail = fl_shard_durable_tail(s);
	head = (int64) pg_atomic_read_u64(&s->head);
	return Max(tail, head);
}

int64
fl_log_head(Oid stream, int32 shard)
{
	FlShard    *s = fl_shared == NULL || RecoveryInProgress() ? NULL : fl_shard_find(stream, shard);
	FlShardRow	row;

	if (s)
		return (int64) pg_atomic_read_u64(&s->head);
	return fl_shard_row_read(stream, shard, &row) ? row.head : 0;
}

/* First live batch of a segment, from blk on, that is not older than `at`. */
static int64
scan_for_time(Relation rel, BlockNumber blk, TimestampTz at, int64 tail)
{
	uint8		page[FL_PAGE_SIZE];
	FlPageInfo	info;
	FlBatchHead head;
	BlockNumber n = RelationGetNumberOfBlocks(rel);

	while (blk < n)
	{
		uint32		pos = 0,
					off;

		CHECK_FOR_INTERRUPTS();
		fl_page_copy(rel, blk, NULL, page, &info);
		if (info.kind == FL_PAGE_FIRST)
		{
			if (fl_head_decode(page + FL_PAGE_HEADER_SIZE, info.lower - FL_PAGE_HEADER_SIZE,
							   true, &head) != FL_OK)
				fl_report_corrupt(rel, blk, FL_MALFORMED, "batch head");
			if (!(head.flags & FL_BATCH_DEAD) && head.append_ts >= at)
			{
				int64		base = fl_head_base_offset(page + FL_PAGE_HEADER_SIZE, &head);

				return base < tail ? base : -1;
			}
			blk += info.npages;
			continue;
		}
		if (info.kind == FL_PAGE_BATCHES)
			while (fl_page_next_batch(page, &info, &pos, &off, &head) == FL_OK)
				if (!(head.flags & FL_BATCH_DEAD) && head.append_ts >= at)
				{
					int64		base = fl_head_base_offset(page + off, &head);

					return base < tail ? base : -1;
				}
		blk++;
	}
	return -1;
}

/*
 * The largest append time of each closed segment that this session has looked
 * for: it never changes, and a search by time shall not cost pages of every
 * segment of a long history.
 */
typedef struct ClosedSegment
{
	Oid			leaf;			/* hash key */
	Oid			relnode;		/* its file when that was read */
	TimestampTz max_ts;
} ClosedSegment;

static HTAB *closed_segments = NULL;

/* More than a stream has: then sessions that look at many streams begin anew. */
#define CLOSED_SEGMENTS_MAX		4096

static ClosedSegment *
closed_segment(Oid leaf, HASHACTION action)
{
	if (closed_segments && action == HASH_ENTER &&
		hash_get_num_entries(closed_segments) >= CLOSED_SEGMENTS_MAX)
	{
		hash_destroy(closed_segments);
		closed_segments = NULL;
	}
	if (closed_segments == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(ClosedSegment)};

		closed_segments = hash_create("fleetlog closed segments", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	return hash_search(closed_segments, &leaf, action, NULL);
}

/* Is all of an open segment older than `at`?  Only said of those that take no more records. */
static bool
segment_is_older(Relation rel, bool closed, TimestampTz at)
{
	ClosedSegment *c;

	if (!closed)
		return false;
	c = closed_segment(RelationGetRelid(rel), HASH_FIND);
	if (c == NULL || c->relnode != FL_REL_FILE_NUMBER(rel))
	{
		BlockNumber last = fl_seek_last(rel, RelationGetNumberOfBlocks(rel));
		uint8		page[FL_PAGE_SIZE];
		FlPageInfo	info;

		if (last == 0)
			return false;
		fl_page_copy(rel, last, NULL, page, &info);
		c = closed_segment(RelationGetRelid(rel), HASH_ENTER);
		c->relnode = FL_REL_FILE_NUMBER(rel);
		c->max_ts = info.max_ts;
	}
	return c->max_ts < at;
}

int64
fl_log_offset_for_time(Oid stream, int32 shard, TimestampTz at)
{
	int64		tail = fl_log_tail(stream, shard);
	int64		head = fl_log_head(stream, shard);
	int			n;
	const FlSegment *list = fl_segment_list(stream, shard, &n);
	FlSegment  *segs = palloc(sizeof(FlSegment) * Max(n, 1));
	int64		found = -1;

	memcpy(segs, list, sizeof(FlSegment) * n);
	for (int i = 0; i < n && found < 0; i++)
	{
		Relation	rel;
		BlockNumber blk;

		if (segs[i].upper <= head || segs[i].lower >= tail)
			continue;
		rel = try_table_open(segs[i].leaf, AccessShareLock);
		if (rel == NULL)
			continue;
		if (!segment_is_older(rel, segs[i].upper <= tail, at))
		{
			blk = fl_seek_time(rel, at, NULL);
			if (blk != InvalidBlockNumber)
				found = scan_for_time(rel, blk, at, tail);
		}
		table_close(rel, AccessShareLock);
	}
	pfree(segs);
	found = found < 0 ? -1 : Max(found, head);
	/* Records below the head may still lie there; where all are below, nothing is left to point to. */
	return found < tail ? found : -1;
}

/* ---- SQL ------------------------------------------------------------------------ */

/* The stream and shard that a caller named; he must be allowed to read it. */
static const FlStreamInfo *
checked_stream(Oid stream, int32 shard)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	AclResult	acl;

	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", get_rel_name(stream) ? get_rel_name(stream) : "?"),
				 errhint("Streams are listed in the view fleetlog.stream.")));
	acl = pg_class_aclcheck(stream, GetUserId(), ACL_SELECT);
	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_TABLE, get_rel_name(stream));
	if (shard < 0 || shard >= info->shards)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" has no shard %d", get_rel_name(stream), shard),
				 errdetail("Its shards are 0 to %d.", info->shards - 1)));
	return info;
}

Datum
fl_sql_head(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	int32		shard = PG_GETARG_INT32(1);

	checked_stream(stream, shard);
	PG_RETURN_INT64(fl_log_head(stream, shard));
}

Datum
fl_sql_tail(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	int32		shard = PG_GETARG_INT32(1);

	checked_stream(stream, shard);
	PG_RETURN_INT64(fl_log_tail(stream, shard));
}

Datum
fl_sql_offset_for_time(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	int32		shard = PG_GETARG_INT32(1);
	int64		off;

	checked_stream(stream, shard);
	off = fl_log_offset_for_time(stream, shard, PG_GETARG_TIMESTAMPTZ(2));
	if (off < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(off);
}

/* Row security applies to the caller: the executor reads, with its policies. */
static void
put_row(void *arg, Datum *values, bool *isnull)
{
	ReturnSetInfo *rsinfo = arg;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
}

static void
read_log(ReturnSetInfo *rsinfo, Oid stream, int32 shard, int64 from, int64 tail, int32 max)
{
	FlLogPosition pos = {.offset = from};
	FlLogReader *r = fl_log_reader_begin(stream, shard, &pos, tail);
	FlBatchDecoder *dec = fl_batch_decoder_create(CurrentMemoryContext);
	FlStoredBatch batch;
	char	   *scratch = NULL;
	size_t		scratch_cap = 0;
	int32		n = 0;

	while (n < max && fl_log_reader_next(r, &batch))
	{
		FlLogRecord rec;

		fl_batch_decoder_open(dec, &batch);
		while (n < max && fl_batch_decoder_next(dec, &rec))
		{
			Datum		values[FL_NATTS];
			bool		isnull[FL_NATTS];

			CHECK_FOR_INTERRUPTS();
			if (rec.log_offset < from)
				continue;
			fl_columns_build(&rec, shard, 1, FL_NATTS, &scratch, &scratch_cap,
							 CurrentMemoryContext, values, isnull);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
			n++;
		}
	}
	fl_log_reader_end(r);
}

Datum
fl_sql_read(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	int32		shard = PG_GETARG_INT32(1);
	int64		from = PG_GETARG_INT64(2);
	int32		max = PG_GETARG_INT32(3);
	int64		head,
				tail;

	checked_stream(stream, shard);
	if (from < 0 || max < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("from_offset and max_records must not be negative")));
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	tail = fl_log_tail(stream, shard);
	head = fl_log_head(stream, shard);
	if (from < head)
		fl_log_too_old(stream, shard, from, head);
	if (from >= tail || max == 0)
		return (Datum) 0;
	if (fl_rls_applies(stream))
		(void) fl_rls_read(stream, shard, from, tail, max, put_row, fcinfo->resultinfo);
	else
		read_log((ReturnSetInfo *) fcinfo->resultinfo, stream, shard, from, tail, max);
	return (Datum) 0;
}
