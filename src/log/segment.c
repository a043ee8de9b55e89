/*-------------------------------------------------------------------------
 *
 * segment.c
 *		What a segment's file tells about it, and making the next one when nobody
 *		made it ahead.
 *
 * The keeper creates segments before they are needed; fl_segment_extend is the
 * way for whoever finds none: a database without workers, or a load that outran
 * the keeper.  A session that reads the stream in the same transaction cannot do
 * it (the shard's table is in use) and is told so by the server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "log_private.h"

/* The head of the first batch on a page; false when none begins there. */
static bool
first_head(Relation rel, BlockNumber blk, int64 *offset, TimestampTz *ts)
{
	uint8		page[FL_PAGE_SIZE];
	FlPageInfo	info;
	FlBatchHead head;
	const uint8 *p = page + FL_PAGE_HEADER_SIZE;

	fl_page_copy(rel, blk, NULL, page, &info);
	if (info.kind != FL_PAGE_BATCHES && info.kind != FL_PAGE_FIRST)
		return false;
	if (info.lower <= FL_PAGE_HEADER_SIZE ||
		fl_head_decode(p, info.lower - FL_PAGE_HEADER_SIZE, info.kind == FL_PAGE_FIRST, &head) != FL_OK)
		fl_report_corrupt(rel, blk, FL_MALFORMED, "batch head");
	*offset = fl_head_base_offset(p, &head);
	*ts = head.append_ts;
	return true;
}

static void
read_stat(Relation rel, FlSegmentStat *stat)
{
	uint8		page[FL_PAGE_SIZE];
	FlPageInfo	info;

	for (BlockNumber blk = 1; blk < stat->blocks && stat->first_offset < 0; blk++)
	{
		CHECK_FOR_INTERRUPTS();
		(void) first_head(rel, blk, &stat->first_offset, &stat->first_ts);
	}
	if (stat->first_offset < 0)
		return;
	stat->last_ts = stat->first_ts;
	for (BlockNumber blk = stat->blocks - 1; blk > 0; blk--)
	{
		fl_page_copy(rel, blk, NULL, page, &info);
		if (info.kind == FL_PAGE_NEW)
			continue;
		stat->last_ts = Max(stat->last_ts, info.max_ts);
		break;
	}
}

bool
fl_log_segment_stat(Oid leaf, FlSegmentStat *stat)
{
	Relation	rel = try_table_open(leaf, AccessShareLock);

	memset(stat, 0, sizeof(*stat));
	stat->first_offset = -1;
	if (rel == NULL)
		return false;
	stat->blocks = RelationGetNumberOfBlocks(rel);
	read_stat(rel, stat);
	table_close(rel, AccessShareLock);
	return true;
}

/*
 * A burst is no rate: what came within a 64th of the time that a segment should
 * take counts as if it had taken that long.  From a real rate this is 64 times too
 * low at worst, and the next segment knows better.
 */
void
fl_log_segment_rate(const FlStreamInfo *stream, Oid leaf, int64 tail, double *rate, double *record_bytes)
{
	FlSegmentStat stat;
	double		seconds;
	double		records;

	*rate = *record_bytes = 0;
	if (!fl_log_segment_stat(leaf, &stat) || stat.first_offset < 0 || tail <= stat.first_offset)
		return;
	records = (double) (tail - stat.first_offset);
	seconds = (double) (fl_wall_now() - stat.first_ts) / USECS_PER_SEC;
	*rate = records / Max(seconds, fl_segment_span(stream) / 64);
	*record_bytes = (double) stat.blocks * BLCKSZ / records;
}

void
fl_segment_extend(Oid stream, int32 shard, int64 offset)
{
	const FlSegment *list;
	int			n;
	double		rate = 0;
	double		record_bytes = 0;
	const FlStreamInfo *info = fl_stream_lookup(stream);

	list = fl_segment_list(stream, shard, &n);
	for (int i = n - 1; i >= 0 && info != NULL; i--)
		if (list[i].upper <= offset)
		{
			fl_log_segment_rate(info, list[i].leaf, offset, &rate, &record_bytes);
			break;
		}
	(void) fl_segment_create_next(stream, shard, offset, rate, record_bytes);
}
