/*-------------------------------------------------------------------------
 *
 * scan.c
 *		Reading a segment for the executor: sequential (both directions) and
 *		parallel scans, fetch by ctid, ANALYZE, TABLESAMPLE.
 *
 * A page is copied out under its lock, so no pin is kept between calls and a
 * record's bytes cannot change under the executor.  The page's batches that the
 * snapshot sees are listed once; records are then handed out by number.
 *
 * The number of blocks is taken at the start: whatever is written later belongs
 * to a transaction or command that the snapshot does not see.
 *
 * A bounded scan (log_scan.h) is the same with a start that was sought and with
 * batches out of bounds left out.  It trusts that the offsets and append times
 * of visible batches never decrease within a segment; of dead batches it
 * expects nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/tsmapi.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log_scan.h"
#include "log_private.h"

#if PG_VERSION_NUM >= 170000
#include "storage/read_stream.h"
#endif

/* Smallest batch: head, record batch header, one record of seven bytes. */
#define MAX_BATCHES_PER_PAGE \
	(FL_PAGE_CAPACITY / (FL_HEAD_SIZE + FL_BATCH_HEADER_SIZE + FL_RECORD_MIN_SIZE) + 1)

/* A run of records on the current page, of one batch. */
typedef struct PageRun
{
	uint32		at;				/* of the head, in the FIRST or BATCHES page */
	int32		index;			/* number of its first record in the batch */
	int32		count;
	OffsetNumber item;			/* number of its first record on this block */
	FlXminState state;			/* ANALYZE only */
} PageRun;

typedef struct FlScan
{
	TableScanDescData base;		/* must come first */
	MemoryContext mcxt;
	BufferAccessStrategy strategy;
	ParallelBlockTableScanWorkerData pscan;
	BlockNumber nblocks;
	BlockNumber frozen_upto;
	int32		shard;
	int64		visible_from;	/* the shard's head when the scan began */
	BlockNumber first_block;	/* has it; earlier ones are not read in order */
	bool		inited;			/* position is set */

	const FlScanBounds *bounds; /* NULL: all records */
	FlScanCounts *counts;		/* likewise */
	bool		backward;		/* of a bounded scan */
	BlockNumber upto;			/* forward scans look at [first_block, upto) */
	BlockNumber last;			/* a backward scan begins here; Invalid: with the last block */
	bool		passed;			/* a visible batch lies behind the bounds, */
	bool		preceded;		/* ... or before them */

	BlockNumber block;			/* current block, InvalidBlockNumber before/after all */
	BlockNumber head_block;		/* where `page` comes from: FIRST of a spanning batch */
	FlPageInfo	info;
	uint8		page[FL_PAGE_SIZE];
	PageRun		runs[MAX_BATCHES_PER_PAGE];
	int			nruns;
	int			run;			/* current run */
	int32		cur;			/* record of the run returned last; -1 and count: before, after */

	FlBatch    *batch;			/* of runs[batch_run] */
	int			batch_run;		/* -1: none */
} FlScan;

/* ---- pages --------------------------------------------------------------- */

/* The batch at hand is done with: was there more to do than read its head? */
static void
count_batch(FlScan *scan)
{
	if (scan->counts && scan->batch && scan->batch_run >= 0 && scan->batch->inflated)
		scan->counts->batches_inflated++;
	scan->batch_run = -1;
}

/* Take the head at `at` of the copied page as the scan's batch object. */
static FlBatch *
scan_batch(FlScan *scan, int run)
{
	FlBatchHead head;
	uint32		at = scan->runs[run].at;
	FlResult	res;

	if (scan->batch_run == run)
		return scan->batch;
	count_batch(scan);
	if (scan->batch && scan->batch->refcount > 1)
	{
		/* A slot still shows a record of it. */
		fl_batch_release(scan->batch);
		scan->batch = NULL;
	}
	if (scan->batch == NULL)
		scan->batch = fl_batch_create(scan->mcxt, scan->base.rs_rd, scan->strategy);
	res = fl_head_decode(scan->page + at, scan->info.lower - at, true, &head);
	if (res != FL_OK)
		fl_report_corrupt(scan->base.rs_rd, scan->head_block, res, "batch head");
	fl_batch_set(scan->batch, scan->head_block, scan->page, &scan->info, at, &head, scan->shard);
	scan->batch_run = run;
	if (scan->counts)
		scan->counts->batches_read++;
	return scan->batch;
}

/* Is the batch visible?  A serializable reader notes what it had to skip. */
static bool
scan_sees(FlScan *scan, BlockNumber blk, const FlBatchHead *head)
{
	Snapshot	snapshot = scan->base.rs_snapshot;
	bool		visible = fl_batch_visible(scan->base.rs_rd, blk, scan->frozen_upto, head, snapshot);

	if (!visible && !(head->flags & FL_BATCH_DEAD) && IsolationIsSerializable() &&
		CheckForSerializableConflictOutNeeded(scan->base.rs_rd, snapshot))
		CheckForSerializableConflictOut(scan->base.rs_rd, head->xmin, snapshot);
	return visible;
}

static void
add_run(FlScan *scan, uint32 at, int32 index, int32 count, OffsetNumber item, const FlBatchHead *head)
{
	PageRun    *r;
	int64		hidden = scan->visible_from - fl_head_base_offset(scan->page + at, head) - index;

	/* What is below the head of the shard is gone for everybody. */
	if (hidden >= count)
		return;
	if (hidden > 0)
	{
		index += (int32) hidden;
		item += (OffsetNumber) hidden;
		count -= (int32) hidden;
	}
	if (scan->nruns >= MAX_BATCHES_PER_PAGE)
		fl_report_corrupt(scan->base.rs_rd, scan->block, FL_MALFORMED, "too many batches");
	r = &scan->runs[scan->nruns++];
	r->at = at;
	r->index = index;
	r->count = count;
	r->item = item;
}

/* List a visible batch of a sequential scan, as far as it lies within the bounds. */
static void
list_batch(FlScan *scan, uint32 at, const FlBatchHead *head)
{
	const FlScanBounds *b = scan->bounds;
	int64		count = fl_head_record_count(scan->page + at, head);
	int64		base,
				from,
				to;

	if (b == NULL)
	{
		add_run(scan, at, 0, (int32) count, head->first_item, head);
		return;
	}
	base = fl_head_base_offset(scan->page + at, head);
	from = Max(base, b->from);
	to = Min(base + count, b->to);
	if (base >= b->to || head->append_ts > b->ts_to)
		scan->passed = true;
	else if (base + count <= b->from || head->append_ts < b->ts_from)
		scan->preceded = true;
	else
	{
		add_run(scan, at, (int32) (from - base), (int32) (to - from), head->first_item, head);
		return;
	}
	scan->counts->batches_skipped++;
}

/*
 * Copy a block and list its visible batches.  by_tid: list what is numbered on
 * this very block (a CONT page then leads to its FIRST page); otherwise a
 * spanning batch is listed whole on its first block and CONT pages have none.
 * With all set, invisible batches are listed too.
 */
static void
scan_load(FlScan *scan, BlockNumber blk, bool by_tid, bool all)
{
	Relation	rel = scan->base.rs_rd;
	FlBatchHead head;
	FlResult	res;

	FL_STOP_POINT("scan_page");
	if (unlikely(QueryCancelPending))
		fl_check_evicted(RelationGetRelid(rel));
	CHECK_FOR_INTERRUPTS();
	scan->block = scan->head_block = blk;
	scan->nruns = 0;
	count_batch(scan);
	fl_page_copy(rel, blk, scan->strategy, scan->page, &scan->info);

	if (scan->info.kind == FL_PAGE_CONT && by_tid)
	{
		BlockNumber first = scan->info.first_block;
		uint32		npages = scan->info.npages;

		fl_page_copy(rel, first, scan->strategy, scan->page, &scan->info);
		/* A crash or abort may leave continuation pages whose first page never came. */
		if (scan->info.kind != FL_PAGE_FIRST || scan->info.npages != npages)
			return;
		scan->head_block = first;
	}
	if (scan->info.kind == FL_PAGE_FIRST)
	{
		uint8	   *p = scan->page + FL_PAGE_HEADER_SIZE;
		int32		count;
		int32		skip = (int32) (blk - scan->head_block) * FL_ITEMS_PER_PAGE;

		res = fl_head_decode(p, scan->info.lower - FL_PAGE_HEADER_SIZE, true, &head);
		if (res != FL_OK)
			fl_report_corrupt(rel, scan->head_block, res, "batch head");
		if (!all && !scan_sees(scan, scan->head_block, &head))
			return;
		count = (int32) fl_head_record_count(p, &head);
		if (!by_tid)
			list_batch(scan, FL_PAGE_HEADER_SIZE, &head);
		else if (count > skip)
			add_run(scan, FL_PAGE_HEADER_SIZE, skip, Min(count - skip, FL_ITEMS_PER_PAGE), 1, &head);
	}
	else if (scan->info.kind == FL_PAGE_BATCHES)
	{
		uint32		pos = 0,
					at;

		while ((res = fl_page_next_batch(scan->page, &scan->info, &pos, &at, &head)) == FL_OK)
		{
			if (!all && !scan_sees(scan, blk, &head))
				continue;
			if (by_tid)
				add_run(scan, at, 0, (int32) fl_head_record_count(scan->page + at, &head),
						head.first_item, &head);
			else
				list_batch(scan, at, &head);
		}
		if (res != FL_INCOMPLETE)
			fl_report_corrupt(rel, blk, res, "batch head");
	}
}

/* ---- life cycle ------------------------------------------------------------- */

/*
 * The head of the shard that a segment belongs to; 0 outside a stream.  A
 * sequential scan in a transaction that keeps its snapshot has the head of that
 * snapshot: a dump writes down heads and segments at different times, and what it
 * restores must have no hole between the two.  The locks of a dump keep the files.
 */
static int64
shard_head(FlScan *scan)
{
	FlLeafInfo	leaf;

	if (!fl_leaf_lookup(RelationGetRelid(scan->base.rs_rd), &leaf) || !OidIsValid(leaf.stream))
		return 0;
	if ((scan->base.rs_flags & SO_TYPE_SEQSCAN) && IsolationUsesXactSnapshot() && IsMVCCSnapshot(scan->base.rs_snapshot))
		return fl_shard_row_head_seen(leaf.stream, leaf.shard, scan->base.rs_snapshot);
	return fl_log_head(leaf.stream, leaf.shard);
}

/* Before the first record. */
static void
scan_restart(FlScan *scan)
{
	scan->inited = false;
	scan->block = InvalidBlockNumber;
	scan->nruns = 0;
	scan->run = 0;
	scan->cur = -1;
	scan->passed = scan->preceded = false;
	count_batch(scan);
}

static void
scan_start(FlScan *scan)
{
	Relation	rel = scan->base.rs_rd;
	FlMeta		meta;

	scan->nblocks = scan->base.rs_parallel ?
		((ParallelBlockTableScanDesc) scan->base.rs_parallel)->phs_nblocks :
		RelationGetNumberOfBlocks(rel);
	scan->frozen_upto = 0;
	scan->shard = 0;
	scan->visible_from = 0;
	scan->first_block = 1;
	if (scan->nblocks > 0 && fl_meta_read(rel, &meta))
	{
		scan->frozen_upto = meta.frozen_upto;
		scan->shard = (int32) meta.shard;
		/* Bounds come with the head that their scan began with. */
		if (scan->bounds == NULL)
			scan->visible_from = shard_head(scan);
		if (scan->visible_from > meta.base_offset)
			scan->first_block = fl_seek_offset(rel, scan->visible_from, NULL);
		if (scan->first_block == InvalidBlockNumber)
			scan->first_block = 1;
	}
	scan->upto = scan->nblocks;
	scan->last = InvalidBlockNumber;
	scan_restart(scan);
}

static FlScan *
scan_create(Relation rel, Snapshot snapshot, int nkeys, ParallelTableScanDesc pscan, uint32 flags)
{
	FlScan	   *scan;

	RelationIncrementReferenceCount(rel);
	scan = palloc0(sizeof(FlScan));
	scan->batch_run = -1;
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = pscan;
	scan->mcxt = CurrentMemoryContext;
	if (flags & SO_TYPE_SEQSCAN)
	{
		pgstat_count_heap_scan(rel);
		if (flags & SO_ALLOW_STRAT)
			scan->strategy = GetAccessStrategy(BAS_BULKREAD);
	}
	if (snapshot && IsMVCCSnapshot(snapshot))
	{
		/* L5: nobody reads what a crash could still take back. */
		fl_read_barrier();
		if (flags & (SO_TYPE_SEQSCAN | SO_TYPE_SAMPLESCAN))
			PredicateLockRelation(rel, snapshot);
	}
	return scan;
}

TableScanDesc
fl_scan_begin(Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *key,
			  ParallelTableScanDesc pscan, uint32 flags)
{
	FlScan	   *scan = scan_create(rel, snapshot, nkeys, pscan, flags);

	scan_start(scan);
	return (TableScanDesc) scan;
}

void
fl_scan_end(TableScanDesc sscan)
{
	FlScan	   *scan = (FlScan *) sscan;

	count_batch(scan);
	if (scan->batch)
	{
		/* A slot may keep the batch and load the rest of it without our ring. */
		scan->batch->strategy = NULL;
		fl_batch_release(scan->batch);
	}
	if (scan->strategy)
		FreeAccessStrategy(scan->strategy);
	RelationDecrementReferenceCount(scan->base.rs_rd);
	if (scan->base.rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(scan->base.rs_snapshot);
	pfree(scan);
}

void
fl_scan_rescan(TableScanDesc sscan, struct ScanKeyData *key, bool set_params,
			   bool allow_strat, bool allow_sync, bool allow_pagemode)
{
	scan_start((FlScan *) sscan);
}

/* ---- sequential and parallel scans --------------------------------------------- */

static BlockNumber
next_block_parallel(FlScan *scan)
{
	ParallelBlockTableScanDesc pb = (ParallelBlockTableScanDesc) scan->base.rs_parallel;

	if (!scan->inited)
	{
		table_block_parallelscan_startblock_init(scan->base.rs_rd, &scan->pscan, pb);
		scan->inited = true;
	}
	return table_block_parallelscan_nextpage(scan->base.rs_rd, &scan->pscan, pb);
}

static BlockNumber
next_block_forward(FlScan *scan)
{
	BlockNumber blk;

	if (scan->base.rs_parallel)
		return next_block_parallel(scan);
	if (!scan->inited)
	{
		scan->inited = true;
		blk = scan->first_block;
	}
	else if (scan->block == InvalidBlockNumber || (scan->passed && !scan->backward))
		return InvalidBlockNumber;
	else
		blk = scan->block + (scan->info.kind == FL_PAGE_FIRST ? scan->info.npages : 1);
	return blk < scan->upto ? blk : InvalidBlockNumber;
}

static BlockNumber
next_block_backward(FlScan *scan)
{
	BlockNumber blk;
	FlPageInfo	info;

	if (!scan->inited || scan->block == InvalidBlockNumber)
	{
		scan->inited = true;
		if (scan->last != InvalidBlockNumber)
			return scan->last;
		blk = scan->upto;
	}
	else if (scan->preceded && scan->backward)
		return InvalidBlockNumber;
	else
		blk = scan->block;
	if (blk <= scan->first_block)
		return InvalidBlockNumber;
	blk--;
	fl_page_copy(scan->base.rs_rd, blk, scan->strategy, scan->page, &info);
	if (info.kind == FL_PAGE_CONT)
	{
		FlPageInfo	first;

		fl_page_copy(scan->base.rs_rd, info.first_block, scan->strategy, scan->page, &first);
		if (first.kind == FL_PAGE_FIRST && first.npages == info.npages)
			return info.first_block;
	}
	return blk;
}

/* Move to the next block with visible records; false at the end. */
static bool
scan_advance(FlScan *scan, bool forward)
{
	for (;;)
	{
		BlockNumber blk = forward ? next_block_forward(scan) : next_block_backward(scan);

		if (blk == InvalidBlockNumber)
		{
			/* As with heap, the next call begins anew, from the end its direction says. */
			scan->block = InvalidBlockNumber;
			scan->inited = false;
			scan->nruns = 0;
			count_batch(scan);
			return false;
		}
		if (blk == 0)
			continue;			/* the meta page, handed out by a parallel scan */
		scan_load(scan, blk, false, false);
		if (scan->nruns > 0)
		{
			scan->run = forward ? 0 : scan->nruns - 1;
			scan->cur = forward ? -1 : scan->runs[scan->run].count;
			return true;
		}
	}
}

bool
fl_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	FlScan	   *scan = (FlScan *) sscan;
	bool		forward = !ScanDirectionIsBackward(direction);
	PageRun    *r;
	FlBatch    *batch;
	int32		i;
	ItemPointerData tid;

	if (unlikely(QueryCancelPending))
		fl_check_evicted(RelationGetRelid(scan->base.rs_rd));
	for (;;)
	{
		if (scan->nruns > 0)
		{
			r = &scan->runs[scan->run];
			if (forward ? scan->cur + 1 < r->count : scan->cur > 0)
				break;
			/* The next batch on this page, so that the slot lets go of this one. */
			ExecClearTuple(slot);
			if (forward && scan->run + 1 < scan->nruns)
			{
				scan->run++;
				scan->cur = -1;
				continue;
			}
			if (!forward && scan->run > 0)
			{
				scan->run--;
				scan->cur = scan->runs[scan->run].count;
				continue;
			}
		}
		ExecClearTuple(slot);
		if (!scan_advance(scan, forward))
			return false;
	}
	batch = scan_batch(scan, scan->run);
	scan->cur += forward ? 1 : -1;
	i = r->index + scan->cur;
	fl_tid_set(&tid, scan->head_block, batch->npages, batch->head.first_item, i);
	fl_slot_store(slot, batch, i, &tid, RelationGetRelid(scan->base.rs_rd));
	pgstat_count_heap_getnext(scan->base.rs_rd);
	return true;
}

/* ---- bounded scans -------------------------------------------------------------- */

/* Where a forward scan begins; beyond the end when nothing is within the bounds. */
static void
seek_first(FlScan *scan)
{
	const FlScanBounds *b = scan->bounds;
	BlockNumber blk;

	if (b->from > 0)
	{
		blk = fl_seek_offset(scan->base.rs_rd, b->from, NULL);
		if (blk != InvalidBlockNumber)
			scan->first_block = Max(scan->first_block, blk);
	}
	if (b->ts_from > DT_NOBEGIN)
	{
		blk = fl_seek_time(scan->base.rs_rd, b->ts_from, NULL);
		scan->first_block = blk == InvalidBlockNumber ? scan->nblocks : Max(scan->first_block, blk);
	}
}

/*
 * The block of the last batch with ts <= ts_to, or a later one.  The seek knows
 * a running maximum that counts dead batches too, so we go on from there until
 * a visible batch is newer; as a rule the first one is.
 */
static BlockNumber
last_by_time(FlScan *scan)
{
	FlScanCounts before = *scan->counts;
	BlockNumber blk = fl_seek_time(scan->base.rs_rd, scan->bounds->ts_to + 1, NULL);

	if (blk == InvalidBlockNumber)
		return InvalidBlockNumber;
	while (blk < scan->nblocks)
	{
		scan_load(scan, blk, false, false);
		if (scan->passed)
			break;
		blk += scan->info.kind == FL_PAGE_FIRST ? scan->info.npages : 1;
	}
	*scan->counts = before;
	scan_restart(scan);
	return blk < scan->nblocks ? blk : InvalidBlockNumber;
}

/* Is a batch that begins at or behind the bounds' end on this page, and one that begins before it? */
static void
look_at_bases(FlScan *scan, BlockNumber blk, const uint8 *page, const FlPageInfo *info,
			  bool *before, bool *behind)
{
	FlBatchHead head;
	uint32		pos = 0,
				at;
	FlResult	res;

	*before = *behind = false;
	if (info->kind == FL_PAGE_FIRST)
	{
		const uint8 *p = page + FL_PAGE_HEADER_SIZE;

		res = fl_head_decode(p, info->lower - FL_PAGE_HEADER_SIZE, true, &head);
		if (res != FL_OK)
			fl_report_corrupt(scan->base.rs_rd, blk, res, "batch head");
		if (!(head.flags & FL_BATCH_DEAD))
			*(fl_head_base_offset(p, &head) < scan->bounds->to ? before : behind) = true;
		return;
	}
	if (info->kind != FL_PAGE_BATCHES)
		return;
	while (!*behind && (res = fl_page_next_batch(page, info, &pos, &at, &head)) == FL_OK)
		if (!(head.flags & FL_BATCH_DEAD))
			*(fl_head_base_offset(page + at, &head) < scan->bounds->to ? before : behind) = true;
	if (!*behind && res != FL_INCOMPLETE)
		fl_report_corrupt(scan->base.rs_rd, blk, res, "batch head");
}

/*
 * The block of the last batch that begins before the bounds' end, given the one
 * that a seek found.  Pages of an aborted batch may begin at offsets beyond those
 * that were given out again on pages behind them, so a seek may stop too early.
 * From there on we look for a batch behind the bounds that is not marked dead: what
 * lies behind that one and is below its offset can only have been written after
 * it was aborted and marked, so after our snapshot was taken.  As a rule it is on
 * this page or the next.
 */
static BlockNumber
last_by_offset(FlScan *scan, BlockNumber blk)
{
	BlockNumber last = blk;
	bool		before,
				behind = false;

	while (blk < scan->upto && !behind)
	{
		uint8		page[FL_PAGE_SIZE];
		FlPageInfo	info;

		CHECK_FOR_INTERRUPTS();
		fl_page_copy(scan->base.rs_rd, blk, scan->strategy, page, &info);
		look_at_bases(scan, blk, page, &info, &before, &behind);
		if (before)
			last = blk;
		blk += info.kind == FL_PAGE_FIRST ? info.npages : 1;
	}
	return last;
}

/* Where a backward scan begins; no blocks at all when nothing is within the bounds. */
static void
seek_last(FlScan *scan)
{
	const FlScanBounds *b = scan->bounds;
	BlockNumber blk;

	/* Zero pages lie behind the written ones. */
	scan->upto = fl_seek_last(scan->base.rs_rd, scan->nblocks) + 1;
	if (b->to < PG_INT64_MAX)
	{
		blk = fl_seek_offset(scan->base.rs_rd, b->to - 1, NULL);
		if (blk == InvalidBlockNumber)
			scan->upto = scan->first_block;
		else
			scan->last = last_by_offset(scan, blk);
	}
	if (b->ts_to < DT_NOEND && scan->first_block < scan->upto)
	{
		blk = last_by_time(scan);
		if (blk < scan->nblocks && (scan->last == InvalidBlockNumber || blk < scan->last))
			scan->last = blk;
	}
}

TableScanDesc
fl_bounded_scan_begin(Relation leaf, Snapshot snapshot, bool backward, bool ring,
					  const FlScanBounds *bounds, FlScanCounts *counts)
{
	FlScan	   *scan = scan_create(leaf, snapshot, 0, NULL,
								   SO_TYPE_SEQSCAN | (ring ? SO_ALLOW_STRAT : 0));

	scan->bounds = bounds;
	scan->counts = counts;
	scan->backward = backward;
	scan_start(scan);
	if (scan->nblocks <= 1)
		scan->upto = scan->first_block;
	else
	{
		seek_first(scan);
		if (backward)
			seek_last(scan);
	}
	return (TableScanDesc) scan;
}

bool
fl_bounded_scan_blocks(TableScanDesc desc, BlockNumber *first, BlockNumber *upto)
{
	FlScan	   *scan = (FlScan *) desc;

	*first = scan->first_block;
	*upto = scan->upto;
	return scan->first_block < scan->upto;
}

void
fl_bounded_scan_window(TableScanDesc desc, BlockNumber first, BlockNumber upto)
{
	FlScan	   *scan = (FlScan *) desc;

	scan_restart(scan);
	scan->first_block = first;
	scan->upto = upto;
}

bool
fl_bounded_scan_next(TableScanDesc desc, TupleTableSlot *slot)
{
	FlScan	   *scan = (FlScan *) desc;

	if (scan->first_block >= scan->upto)
	{
		ExecClearTuple(slot);
		return false;
	}
	return fl_scan_getnextslot(desc, scan->backward ? BackwardScanDirection : ForwardScanDirection,
							   slot);
}

bool
fl_bounded_scan_passed(TableScanDesc desc)
{
	return ((FlScan *) desc)->passed;
}

void
fl_bounded_scan_end(TableScanDesc desc)
{
	fl_scan_end(desc);
}

/* ---- by tid ----------------------------------------------------------------------- */

/* Store the record with this item number of the loaded block; false if there is none. */
static bool
store_item(FlScan *scan, OffsetNumber item, TupleTableSlot *slot)
{
	for (int i = 0; i < scan->nruns; i++)
	{
		PageRun    *r = &scan->runs[i];
		ItemPointerData tid;

		if (item < r->item || item >= r->item + r->count)
			continue;
		ItemPointerSet(&tid, scan->block, item);
		ExecClearTuple(slot);
		fl_slot_store(slot, scan_batch(scan, i), r->index + (item - r->item), &tid,
					  RelationGetRelid(scan->base.rs_rd));
		return true;
	}
	return false;
}

bool
fl_fetch_tid(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	FlScan	   *scan;
	bool		found = false;
	BlockNumber blk = ItemPointerGetBlockNumber(tid);

	scan = (FlScan *) fl_scan_begin(rel, snapshot, 0, NULL, NULL, 0);
	scan->mcxt = slot->tts_mcxt;
	if (blk > 0 && blk < scan->nblocks)
	{
		scan_load(scan, blk, true, false);
		found = store_item(scan, ItemPointerGetOffsetNumber(tid), slot);
	}
	fl_scan_end((TableScanDesc) scan);
	return found;
}

bool
fl_scan_tid_valid(TableScanDesc sscan, ItemPointer tid)
{
	FlScan	   *scan = (FlScan *) sscan;

	return ItemPointerIsValid(tid) && ItemPointerGetBlockNumber(tid) > 0 &&
		ItemPointerGetBlockNumber(tid) < scan->nblocks;
}

/* ---- ANALYZE ------------------------------------------------------------------------- */

static bool
analyze_load(FlScan *scan, BlockNumber blk)
{
	if (blk == 0 || blk >= RelationGetNumberOfBlocks(scan->base.rs_rd))
		return false;
	scan_load(scan, blk, true, true);
	for (int i = 0; i < scan->nruns; i++)
	{
		FlBatchHead head;

		if (fl_head_decode(scan->page + scan->runs[i].at, scan->info.lower - scan->runs[i].at,
						   true, &head) != FL_OK)
			fl_report_corrupt(scan->base.rs_rd, scan->head_block, FL_MALFORMED, "batch head");
		if (head.flags & FL_BATCH_DEAD)
			scan->runs[i].state = FL_XMIN_ABORTED;
		else if (scan->head_block < scan->frozen_upto)
			scan->runs[i].state = FL_XMIN_COMMITTED;
		else
			scan->runs[i].state = fl_xmin_state(scan->base.rs_rd, scan->head_block, head.xmin);
	}
	scan->run = 0;
	scan->cur = -1;
	return true;
}

#if PG_VERSION_NUM >= 170000
bool
fl_scan_analyze_next_block(TableScanDesc sscan, ReadStream *stream)
{
	for (;;)
	{
		Buffer		buf = read_stream_next_buffer(stream, NULL);
		BlockNumber blk;

		if (!BufferIsValid(buf))
			return false;
		blk = BufferGetBlockNumber(buf);
		ReleaseBuffer(buf);
		if (analyze_load((FlScan *) sscan, blk))
			return true;
	}
}
#else
bool
fl_scan_analyze_next_block(TableScanDesc sscan, BlockNumber blockno, BufferAccessStrategy bstrategy)
{
	FlScan	   *scan = (FlScan *) sscan;

	return analyze_load(scan, blockno);
}
#endif

bool
fl_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId oldest_xmin,
						   double *liverows, double *deadrows, TupleTableSlot *slot)
{
	FlScan	   *scan = (FlScan *) sscan;

	for (; scan->run < scan->nruns; scan->run++, scan->cur = -1)
	{
		PageRun    *r = &scan->runs[scan->run];

		if (r->state == FL_XMIN_ABORTED)
		{
			*deadrows += r->count;
			continue;
		}
		if (r->state == FL_XMIN_IN_PROGRESS)
			continue;			/* counted when it has committed */
		if (scan->cur + 1 < r->count)
		{
			*liverows += 1;
			return store_item(scan, (OffsetNumber) (r->item + ++scan->cur), slot);
		}
	}
	ExecClearTuple(slot);
	return false;
}

/* ---- TABLESAMPLE --------------------------------------------------------------------- */

bool
fl_scan_sample_next_block(TableScanDesc sscan, SampleScanState *state)
{
	FlScan	   *scan = (FlScan *) sscan;
	TsmRoutine *tsm = state->tsmroutine;
	BlockNumber blk;

	if (scan->nblocks == 0)
		return false;
	if (tsm->NextSampleBlock)
		blk = tsm->NextSampleBlock(state, scan->nblocks);
	else
		blk = !scan->inited ? 0 : scan->block + 1;
	scan->inited = true;
	if (blk == InvalidBlockNumber || blk >= scan->nblocks)
		return false;
	if (blk == 0)
	{
		scan->block = 0;
		scan->nruns = 0;
		return true;
	}
	scan_load(scan, blk, true, false);
	return true;
}

bool
fl_scan_sample_next_tuple(TableScanDesc sscan, SampleScanState *state, TupleTableSlot *slot)
{
	FlScan	   *scan = (FlScan *) sscan;
	TsmRoutine *tsm = state->tsmroutine;
	OffsetNumber maxoff = 0;

	for (int i = 0; i < scan->nruns; i++)
		maxoff = Max(maxoff, scan->runs[i].item + scan->runs[i].count - 1);
	for (;;)
	{
		OffsetNumber off = tsm->NextSampleTuple(state, scan->block, maxoff);

		if (!OffsetNumberIsValid(off))
		{
			ExecClearTuple(slot);
			return false;
		}
		if (store_item(scan, off, slot))
			return true;
	}
}
