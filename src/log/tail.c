/*-------------------------------------------------------------------------
 *
 * tail.c
 *		Where a shard ends, as its files tell it.
 *
 * The tail is not stored per append: the last live batch says it.  Whoever
 * takes the shard's lock and finds the shared writer state invalid (after a
 * start, an abort, a rolled back savepoint, a changed file) walks back from the
 * end of the youngest segment to the last batch that is not aborted, marks the
 * aborted ones dead on their pages (WAL-logged) and knows the next offset.
 * Marking comes first, so a reader below the durable tail needs no commit log:
 * what is not marked is committed.
 *
 * The row in shard_config is a floor that outlives the records: when retention
 * has removed them all, the next offset is still not one that was used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log_tail.h"
#include "log_private.h"

/* How one segment ends. */
typedef struct LeafTail
{
	BlockNumber nblocks;
	bool		has_rows;
	int64		tail;			/* valid when has_rows */
	TimestampTz last_ts;		/* likewise */
	BlockNumber last_block;		/* last used block; 0 when none */
	bool		open;			/* a small batch may go on last_block */
	int32		items;			/* numbered on it */
	uint32		free;			/* bytes left on it */
	TimestampTz run_max;		/* running maximum of append times */
} LeafTail;

/* One batch seen while walking back. */
static bool
batch_is_live(Relation rel, BlockNumber blk, BlockNumber frozen, const FlBatchHead *head,
			  bool writer)
{
	FlXminState state;

	if (head->flags & FL_BATCH_DEAD)
		return false;
	if (blk < frozen)
		return true;
	state = fl_xmin_state(rel, blk, head->xmin);
	if (state == FL_XMIN_IN_PROGRESS && writer)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("segment \"%s\" has a batch of running transaction %u although its shard is locked",
						RelationGetRelationName(rel), head->xmin)));
	return state == FL_XMIN_COMMITTED || (state == FL_XMIN_OWN && writer);
}

static void
set_live(LeafTail *lt, const uint8 *p, const FlBatchHead *head)
{
	lt->has_rows = true;
	lt->tail = fl_head_base_offset(p, head) + fl_head_record_count(p, head);
#ifdef FL_PLANT_REUSED_OFFSET	/* a fault that the chaos checker must find */
	lt->tail--;
#endif
	lt->last_ts = head->append_ts;
}

/* A page of small batches, youngest first.  Marks aborted ones when writing. */
static void
walk_batches(Relation rel, BlockNumber blk, const uint8 *page, const FlPageInfo *info,
			 BlockNumber frozen, bool writer, bool is_last, LeafTail *lt)
{
	uint32		ats[FL_PAGE_CAPACITY / FL_HEAD_SIZE];
	uint16		dead[FL_PAGE_CAPACITY / FL_HEAD_SIZE];
	FlBatchHead head;
	uint32		pos = 0,
				at;
	int			n = 0,
				ndead = 0;
	FlResult	res;

	while ((res = fl_page_next_batch(page, info, &pos, &at, &head)) == FL_OK)
	{
		ats[n++] = at;
		if (is_last)
			lt->items = head.first_item - 1 + (int32) fl_head_record_count(page + at, &head);
	}
	if (res != FL_INCOMPLETE)
		fl_report_corrupt(rel, blk, res, "batch head");
	if (is_last)
	{
		lt->open = blk >= frozen;
		lt->free = FL_PAGE_DATA_END - info->lower;
	}
	for (int i = n - 1; i >= 0; i--)
	{
		if (fl_head_decode(page + ats[i], info->lower - ats[i], false, &head) != FL_OK)
			fl_report_corrupt(rel, blk, FL_MALFORMED, "batch head");
		if (batch_is_live(rel, blk, frozen, &head, writer))
		{
			set_live(lt, page + ats[i], &head);
			break;
		}
		if (!(head.flags & FL_BATCH_DEAD))
			dead[ndead++] = (uint16) ats[i];
	}
	if (writer && ndead > 0)
		fl_mark_dead(rel, blk, dead, ndead);
}

static void
walk_first(Relation rel, BlockNumber blk, const uint8 *page, const FlPageInfo *info,
		   BlockNumber frozen, bool writer, LeafTail *lt)
{
	FlBatchHead head;
	FlResult	res = fl_head_decode(page + FL_PAGE_HEADER_SIZE, info->lower - FL_PAGE_HEADER_SIZE,
									 true, &head);
	uint16		off = FL_PAGE_HEADER_SIZE;

	if (res != FL_OK)
		fl_report_corrupt(rel, blk, res, "batch head");
	if (batch_is_live(rel, blk, frozen, &head, writer))
		set_live(lt, page + FL_PAGE_HEADER_SIZE, &head);
	else if (writer && !(head.flags & FL_BATCH_DEAD))
		fl_mark_dead(rel, blk, &off, 1);
}

/*
 * Blocks of one file that hold nothing live and never will: the writer has gone
 * past them.  A loop whose every turn is rolled back would otherwise walk over
 * all its own dead batches again and again.
 */
typedef struct DeadRun
{
	Oid			leaf;
	Oid			relnode;
	BlockNumber above;			/* the run begins behind this block */
	BlockNumber upto;			/* and ends with this one */
} DeadRun;

static DeadRun dead_run;

static bool
in_dead_run(Relation rel, BlockNumber blk)
{
	return dead_run.leaf == RelationGetRelid(rel) && dead_run.relnode == FL_REL_FILE_NUMBER(rel) &&
		blk > dead_run.above && blk <= dead_run.upto;
}

/* The walk ended at `blk`; the last block may still take a batch. */
static void
note_dead_run(Relation rel, BlockNumber blk, const LeafTail *lt)
{
	if (!lt->has_rows)
		blk = 0;
	if (lt->last_block <= blk + 1)
		return;
	dead_run.leaf = RelationGetRelid(rel);
	dead_run.relnode = FL_REL_FILE_NUMBER(rel);
	dead_run.above = blk;
	dead_run.upto = lt->last_block - 1;
}

static void
leaf_tail(Relation rel, bool writer, LeafTail *lt)
{
	uint8		page[FL_PAGE_SIZE];
	FlPageInfo	info;
	FlMeta		meta;
	BlockNumber frozen = 0;
	BlockNumber blk;

	memset(lt, 0, sizeof(*lt));
	lt->run_max = PG_INT64_MIN;
	lt->nblocks = RelationGetNumberOfBlocks(rel);
	if (lt->nblocks > 0 && fl_meta_read(rel, &meta))
		frozen = meta.frozen_upto;
	blk = lt->nblocks;
	while (!lt->has_rows && blk > 1)
	{
		bool		is_last;

		CHECK_FOR_INTERRUPTS();
		blk--;
		if (lt->last_block != 0 && in_dead_run(rel, blk))
		{
			blk = dead_run.above + 1;
			continue;
		}
		fl_page_copy(rel, blk, NULL, page, &info);
		if (info.kind == FL_PAGE_NEW)
			continue;			/* extended before a crash, never written */
		is_last = lt->last_block == 0;
		if (is_last)
		{
			lt->last_block = blk;
			lt->run_max = info.max_ts;
		}
		if (info.kind == FL_PAGE_CONT)
		{
			BlockNumber first = info.first_block;
			uint32		npages = info.npages;

			fl_page_copy(rel, first, NULL, page, &info);
			if (info.kind != FL_PAGE_FIRST || info.npages != npages)
				continue;		/* its first page never came */
			blk = first;
		}
		if (info.kind == FL_PAGE_FIRST)
			walk_first(rel, blk, page, &info, frozen, writer, lt);
		else if (info.kind == FL_PAGE_BATCHES)
			walk_batches(rel, blk, page, &info, frozen, writer, is_last, lt);
	}
	if (writer)
		note_dead_run(rel, blk, lt);
}

/* ---- a shard's segments ------------------------------------------------------ */

/* The segments of a shard; a leaf outside any stream is a shard of its own. */
static const FlSegment *
shard_segments(Oid stream, int32 shard, FlSegment *standalone, int *n)
{
	FlLeafInfo	leaf;

	if (fl_leaf_lookup(stream, &leaf))
	{
		standalone->leaf = stream;
		standalone->shard = shard;
		standalone->lower = 0;
		standalone->upper = PG_INT64_MAX;
		*n = 1;
		return standalone;
	}
	return fl_segment_list(stream, shard, n);
}

/* How a leaf is opened whose lock somebody may hold. */
typedef enum LeafAccess
{
	LEAF_READ,
	LEAF_WRITE,
	LEAF_WRITE_NOWAIT
} LeafAccess;

/* NULL: dropped meanwhile, or (*blocked) locked by somebody and not to be waited for. */
static Relation
open_leaf(Oid leaf, LeafAccess access, bool *blocked)
{
	Relation	rel;

	*blocked = false;
	if (access != LEAF_WRITE_NOWAIT)
		return try_table_open(leaf, access == LEAF_READ ? AccessShareLock : RowExclusiveLock);
	*blocked = !ConditionalLockRelationOid(leaf, RowExclusiveLock);
	if (*blocked)
		return NULL;
	rel = try_table_open(leaf, NoLock);
	if (rel == NULL)
		UnlockRelationOid(leaf, RowExclusiveLock);
	return rel;
}

/*
 * The end of the youngest segment with live records.  The list is copied
 * first, for opening a relation may process invalidations.
 */
static bool
find_tail(Oid stream, int32 shard, LeafAccess access, LeafTail *lt, bool *blocked)
{
	FlSegment	standalone;
	int			n;
	const FlSegment *list = shard_segments(stream, shard, &standalone, &n);
	FlSegment  *segs = palloc(sizeof(FlSegment) * Max(n, 1));
	bool		found = false;

	*blocked = false;
	memcpy(segs, list, sizeof(FlSegment) * n);
	for (int i = n - 1; i >= 0 && !found && !*blocked; i--)
	{
		Relation	rel = open_leaf(segs[i].leaf, access, blocked);

		if (rel == NULL)
			continue;
		leaf_tail(rel, access != LEAF_READ, lt);
		found = lt->has_rows;
		table_close(rel, access == LEAF_READ ? AccessShareLock : NoLock);
	}
	pfree(segs);
	return found;
}

void
fl_tail_read_committed(Oid stream, int32 shard, int64 *tail, int64 *head, TimestampTz *last_ts)
{
	FlShardRow	row = {0, 0};
	LeafTail	lt;
	bool		blocked;

	(void) fl_shard_row_read(stream, shard, &row);
	*head = row.head;
	*tail = row.tail;
	*last_ts = DT_NOBEGIN;
	if (find_tail(stream, shard, LEAF_READ, &lt, &blocked))
	{
		*tail = Max(*tail, lt.tail);
		*last_ts = lt.last_ts;
	}
}

/* ---- the writer's state ---------------------------------------------------------- */

/* Which leaf takes next_offset; false when there is none yet. */
static bool
find_leaf(FlShard *shard, FlSegment *seg)
{
	FlLeafInfo	leaf;

	if (fl_leaf_lookup(shard->key.stream, &leaf))
	{
		seg->leaf = shard->key.stream;
		seg->lower = 0;
		seg->upper = PG_INT64_MAX;
		return true;
	}
	return fl_segment_find(shard->key.stream, shard->key.shard, shard->next_offset, seg);
}

static void
take_leaf(FlShard *shard, Relation rel, const LeafTail *lt)
{
	shard->leaf = RelationGetRelid(rel);
	shard->leaf_relnode = FL_REL_FILE_NUMBER(rel);
	shard->leaf_nblocks = lt->nblocks;
	shard->leaf_has_rows = lt->has_rows;
	shard->last_block = lt->last_block;
	shard->last_block_open = lt->open;
	shard->last_items = lt->items;
	shard->last_free = lt->free;
	shard->run_max_ts = Max(lt->run_max, shard->last_ts);
}

/*
 * Position the writer on the leaf for next_offset, which may not exist yet.  False:
 * somebody has locked it.
 */
static bool
enter_leaf(FlShard *shard, LeafAccess access)
{
	FlSegment	seg;
	Relation	rel;
	LeafTail	lt;
	bool		blocked;

	shard->leaf = InvalidOid;
	if (!find_leaf(shard, &seg))
		return true;
	shard->leaf_lower = seg.lower;
	shard->leaf_upper = seg.upper;
	rel = open_leaf(seg.leaf, access, &blocked);
	if (blocked)
		return false;
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("a segment of stream \"%s\" was dropped at the same time",
						get_rel_name(shard->key.stream) ? get_rel_name(shard->key.stream) : "?")));
	leaf_tail(rel, true, &lt);
	take_leaf(shard, rel, &lt);
	table_close(rel, NoLock);
	return true;
}

/*
 * Leader epoch of batches written from now on: a counter of our own, raised at
 * the first write to the shard after the WAL timeline has changed (promotion,
 * point-in-time recovery, upgrade), so that a position of the lost history can
 * be told from one of this history.
 */
static int32
current_epoch(FlShard *shard)
{
	int64		here = (int64) FL_CURRENT_TLI();
	int32		epoch;
	int64		first,
				timeline;

	if (fl_stream_lookup(shard->key.stream) == NULL)
		return 0;				/* standalone, or a dump that is being restored */
	if (!fl_epoch_last(shard->key.stream, shard->key.shard, &epoch, &first, &timeline))
		epoch = 0;
	else if (timeline == here)
		return epoch;
	else
		epoch++;
	fl_epoch_add(shard->key.stream, shard->key.shard, epoch, shard->next_offset, here);
	return epoch;
}

/* False: a segment that has to be looked at is locked by somebody. */
static bool
recover_writer(FlShard *shard, LeafAccess access)
{
	FlShardRow	row = {0, 0};
	LeafTail	lt;
	bool		blocked;

	(void) fl_shard_row_read(shard->key.stream, shard->key.shard, &row);
	shard->next_offset = row.tail;
	shard->last_ts = DT_NOBEGIN;
	if (find_tail(shard->key.stream, shard->key.shard, access, &lt, &blocked))
	{
		shard->next_offset = Max(row.tail, lt.tail);
		shard->last_ts = lt.last_ts;
	}
	if (blocked)
		return false;
	if (shard->last_ts != DT_NOBEGIN)
		fl_clock_raise(shard->last_ts);
	shard->leader_epoch = current_epoch(shard);
	if (!enter_leaf(shard, access))
		return false;
	shard->writer_valid = true;
	return true;
}

static bool
prepare(FlShard *shard, LeafAccess access)
{
	Assert(fl_shard_lock_held(shard));
	if (!shard->writer_valid && !recover_writer(shard, access))
		return false;
	if (OidIsValid(shard->leaf) && shard->next_offset >= shard->leaf_upper)
	{
		/* It may fail between (a lock, a cancel): then the next one starts over. */
		shard->writer_valid = false;
		if (!enter_leaf(shard, access))
			return false;
		shard->writer_valid = true;
	}
	return true;
}

void
fl_writer_prepare(FlShard *shard)
{
	(void) prepare(shard, LEAF_WRITE);
}

bool
fl_writer_try_prepare(FlShard *shard)
{
	return prepare(shard, LEAF_WRITE_NOWAIT);
}

/* A state for importing into one leaf, without the shard's own. */
void
fl_writer_prepare_import(FlShard *local, Relation rel, const FlLeafInfo *leaf)
{
	LeafTail	lt;

	leaf_tail(rel, true, &lt);
	local->leaf_lower = leaf->lower;
	local->leaf_upper = leaf->upper > leaf->lower ? leaf->upper : PG_INT64_MAX;
	local->next_offset = lt.has_rows ? lt.tail : -1;
	local->last_ts = lt.has_rows ? lt.last_ts : DT_NOBEGIN;
	local->writer_valid = true;
	take_leaf(local, rel, &lt);
}

/*
 * The leaf for the next batch, opened with a lock that lasts until the end of
 * the transaction; made here when nobody made it ahead.
 */
Relation
fl_writer_open_leaf(FlShard *shard)
{
	for (int tries = 0; tries < 3; tries++)
	{
		Relation	rel;

		fl_writer_prepare(shard);
		if (!OidIsValid(shard->leaf))
		{
			fl_segment_extend(shard->key.stream, shard->key.shard, shard->next_offset);
			shard->writer_valid = false;
			(void) enter_leaf(shard, LEAF_WRITE);
			shard->writer_valid = true;
			if (!OidIsValid(shard->leaf))
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("stream \"%s\" has no segment for offset " INT64_FORMAT " of shard %d",
								get_rel_name(shard->key.stream), shard->next_offset,
								shard->key.shard)));
		}
		rel = try_table_open(shard->leaf, RowExclusiveLock);
		if (rel && FL_REL_FILE_NUMBER(rel) == shard->leaf_relnode)
			return rel;
		/* Its file was replaced (SET TABLESPACE, VACUUM FULL), or it was dropped. */
		if (rel)
			table_close(rel, NoLock);
		shard->writer_valid = false;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("segments of stream \"%s\" keep changing", get_rel_name(shard->key.stream))));
}
