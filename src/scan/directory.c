/*-------------------------------------------------------------------------
 *
 * directory.c
 *		The list of segments that a scan walks through, and the steps over those
 *		that cannot have a record of its range.
 *
 * The list is read when execution begins, not when the query is planned, so
 * that a cached plan finds the segments that were made since.  It must have
 * every segment in which the snapshot sees a record.  Two things could make the
 * cached list too old: invalidations that lie unread (we read them), and those
 * that a committed transaction has not sent yet, between becoming visible and
 * telling others.  The latter shows in the shard's tail, which is beyond the
 * last segment then; we read the catalogs again.
 *
 * Heads are taken at the same moment: what retention hides later stays in a
 * scan that has begun, or ends it with an error when it is gone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/inval.h"

#include "scan_internal.h"

/*
 * Offset behind the last record that anybody committed, as far as shared memory
 * knows; 0: nothing.  A writer that has just become visible and has not told his
 * tail yet has moved the next offset before.
 */
static int64
known_tail(Oid stream, int32 shard)
{
	FlShard    *s = fl_shared != NULL && !RecoveryInProgress() ? fl_shard_find(stream, shard) : NULL;
	int64		tail;

	if (s == NULL)
		return 0;
	tail = (int64) pg_atomic_read_u64(&s->visible_tail);
	return s->writer_valid ? Max(tail, s->next_offset) : tail;
}

static void
add_shard(FlDirectory *dir, Oid stream, int32 shard)
{
	int			n;
	const FlSegment *list = fl_segment_list(stream, shard, &n);

	if (known_tail(stream, shard) > (n > 0 ? list[n - 1].upper : 0))
	{
		fl_segment_list_reread(stream);
		list = fl_segment_list(stream, shard, &n);
	}
	if (n == 0)
		return;
	if (dir->segments == NULL)
		dir->segments = palloc(sizeof(FlSegment) * n);
	else
		dir->segments = repalloc(dir->segments, sizeof(FlSegment) * (dir->nsegments + n));
	memcpy(dir->segments + dir->nsegments, list, sizeof(FlSegment) * n);
	dir->nsegments += n;
}

void
fl_directory_read(FlDirectory *dir, Oid stream)
{
	const FlStreamInfo *info;

	AcceptInvalidationMessages();
	info = fl_stream_lookup(stream);
	if (info == NULL)
		elog(ERROR, "relation %u is not a stream", stream);
	dir->nshards = Min(info->shards, FL_MAX_SHARDS);
	dir->nsegments = 0;
	dir->segments = NULL;
	for (int32 i = 0; i < dir->nshards; i++)
	{
		add_shard(dir, stream, i);
		dir->heads[i] = fl_log_head(stream, i);
	}
	fl_directory_index(dir);
}

void
fl_directory_index(FlDirectory *dir)
{
	int			i = 0;

	for (int32 shard = 0; shard < dir->nshards; shard++)
	{
		dir->starts[shard] = i;
		while (i < dir->nsegments && dir->segments[i].shard == shard)
			i++;
	}
	dir->starts[dir->nshards] = i;
}

/* First of [i, end) whose upper bound is above the offset. */
static int
first_above(const FlDirectory *dir, int i, int end, int64 offset)
{
	while (i < end)
	{
		int			mid = i + (end - i) / 2;

		if (dir->segments[mid].upper > offset)
			end = mid;
		else
			i = mid + 1;
	}
	return i;
}

/* Last of [start, i] whose lower bound is below the offset; start - 1: none. */
static int
last_below(const FlDirectory *dir, int start, int i, int64 offset)
{
	while (start <= i)
	{
		int			mid = start + (i - start) / 2;

		if (dir->segments[mid].lower < offset)
			start = mid + 1;
		else
			i = mid - 1;
	}
	return i;
}

static int
next_forward(const FlDirectory *dir, const FlScanRange *range, int i)
{
	while (i < dir->nsegments)
	{
		int32		shard = dir->segments[i].shard;
		int			end = dir->starts[shard + 1];

		if (range->shards[shard])
			i = first_above(dir, i, end, Max(range->bounds.from, dir->heads[shard]));
		else
			i = end;
		if (i < end && dir->segments[i].lower < range->bounds.to)
			return i;
		i = end;
	}
	return -1;
}

static int
next_backward(const FlDirectory *dir, const FlScanRange *range, int i)
{
	while (i >= 0)
	{
		int32		shard = dir->segments[i].shard;
		int			start = dir->starts[shard];

		if (range->shards[shard])
			i = last_below(dir, start, i, range->bounds.to);
		else
			i = start - 1;
		if (i >= start && dir->segments[i].upper > Max(range->bounds.from, dir->heads[shard]))
			return i;
		i = start - 1;
	}
	return -1;
}

int
fl_directory_next(const FlDirectory *dir, const FlScanRange *range, int i, bool backward)
{
	if (range->empty)
		return -1;
	return backward ? next_backward(dir, range, i) : next_forward(dir, range, i);
}
