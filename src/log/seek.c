/*-------------------------------------------------------------------------
 *
 * seek.c
 *		Finding the page of an offset or a time by binary search over the pages'
 *		special spaces (L6): at most log2(pages) + a few pages are touched.
 *
 * "First offset on the page" grows from page to page, but for those of aborted
 * batches, whose offsets are given out again behind them.  What is appended later
 * begins at or above what was committed before, so every page behind that of a
 * live offset begins beyond it: a search for it may end early, on a page of
 * aborted batches, but never late.  Whoever wants the last page below an offset
 * goes on from there (scan.c).  The running maximum of append times never
 * decreases.
 *
 * A zero page lies behind all written ones (extend.c), so the search takes it for
 * one that begins beyond everything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "log_private.h"

/* Special space of a block; false when it is not written yet. */
static bool
probe(Relation rel, BlockNumber blk, FlPageInfo *info, int *pages_read)
{
	uint8		page[FL_PAGE_SIZE];

	fl_page_copy(rel, blk, NULL, page, info);
	if (pages_read)
		(*pages_read)++;
	return info->kind == FL_PAGE_BATCHES || info->kind == FL_PAGE_FIRST ||
		info->kind == FL_PAGE_CONT;
}

/* The block where a batch begins whose page was found. */
static BlockNumber
batch_start(BlockNumber blk, const FlPageInfo *info)
{
	return info->kind == FL_PAGE_CONT ? info->first_block : blk;
}

BlockNumber
fl_seek_offset(Relation rel, int64 offset, int *pages_read)
{
	BlockNumber lo = 1,
				hi = RelationGetNumberOfBlocks(rel),	/* invariant: the answer is in [lo, hi) or
														 * found */
				found = InvalidBlockNumber;
	FlPageInfo	info;

	while (lo < hi)
	{
		BlockNumber mid = lo + (hi - lo) / 2;

		if (probe(rel, mid, &info, pages_read) && info.first_offset <= offset)
		{
			found = batch_start(mid, &info);
			lo = mid + 1;
		}
		else
			hi = mid;
	}
	return found;
}

/* First block from which records with ts >= at may be found; Invalid: none. */
BlockNumber
fl_seek_time(Relation rel, TimestampTz at, int *pages_read)
{
	BlockNumber lo = 1,
				hi = RelationGetNumberOfBlocks(rel),
				found = InvalidBlockNumber;
	FlPageInfo	info;

	while (lo < hi)
	{
		BlockNumber mid = lo + (hi - lo) / 2;

		if (!probe(rel, mid, &info, pages_read))
			hi = mid;
		else if (info.max_ts >= at)
		{
			found = batch_start(mid, &info);
			hi = mid;
		}
		else
			lo = mid + 1;
	}
	return found;
}

/* The last written block, or 0: zero pages lie behind it only. */
BlockNumber
fl_seek_last(Relation rel, BlockNumber nblocks)
{
	BlockNumber lo = 1,
				hi = nblocks;
	BlockNumber step = 1;
	FlPageInfo	info;

	/* It is near the end: backwards in doubling steps, then between the last two. */
	while (lo < hi)
	{
		BlockNumber mid = hi - lo > step ? hi - step : lo;

		if (probe(rel, mid, &info, NULL))
			lo = mid + 1;
		else
			hi = mid;
		step = lo > 1 ? Max((hi - lo) / 2, 1) : step * 2;
	}
	return lo - 1;
}

int
fl_leaf_sample_times(Relation leaf, int n, FlTimeSample *samples)
{
	BlockNumber blocks = RelationGetNumberOfBlocks(leaf);
	BlockNumber last = 0;
	int			found = 0;

	for (int i = 0; i < n && blocks > 1; i++)
	{
		BlockNumber blk = 1 + (BlockNumber) ((uint64) (blocks - 2) * i / Max(n - 1, 1));
		FlPageInfo	info;

		if (blk <= last)
			continue;
		last = blk;
		if (!probe(leaf, blk, &info, NULL))
			break;
		samples[found].offset = info.first_offset;
		samples[found].ts = found > 0 ? Max(info.max_ts, samples[found - 1].ts) : info.max_ts;
		found++;
	}
	return found;
}
