/*-------------------------------------------------------------------------
 *
 * seek.c
 *		Finding the page of an offset or a time by binary search over the pages'
 *		special spaces (L6): at most log2(pages) + a few pages are touched.
 *
 * "First offset on the page" never decreases from page to page, although
 * aborted batches' offsets are used again: what is appended later begins at or
 * above what was committed before.  So the last page that begins at or below an
 * offset has its live batch, or belongs to it.  The running maximum of append
 * times never decreases either.
 *
 * A page that was extended but never written (all zero) tells nothing; the
 * search steps down to the next written page below it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "log_private.h"

typedef struct Probe
{
	Relation	rel;
	int		   *pages_read;
} Probe;

/*
 * Special space of the last written page at or below blk, not below floor.
 * Returns its block, or InvalidBlockNumber when all of them are empty.
 */
static BlockNumber
probe(Probe *p, BlockNumber blk, BlockNumber floor, FlPageInfo *info)
{
	uint8		page[FL_PAGE_SIZE];

	for (;; blk--)
	{
		fl_page_copy(p->rel, blk, NULL, page, info);
		if (p->pages_read)
			(*p->pages_read)++;
		if (info->kind == FL_PAGE_BATCHES || info->kind == FL_PAGE_FIRST ||
			info->kind == FL_PAGE_CONT)
			return blk;
		if (blk == floor)
			return InvalidBlockNumber;
	}
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
	Probe		p = {rel, pages_read};
	BlockNumber lo = 1,
				hi,				/* invariant: the answer is in [lo, hi) or none */
				found = InvalidBlockNumber;
	FlPageInfo	info;

	hi = RelationGetNumberOfBlocks(rel);
	while (lo < hi)
	{
		BlockNumber mid = lo + (hi - lo) / 2;
		BlockNumber at = probe(&p, mid, lo, &info);

		if (at == InvalidBlockNumber)
			lo = mid + 1;		/* nothing written in [lo, mid] */
		else if (info.first_offset <= offset)
		{
			found = batch_start(at, &info);
			lo = mid + 1;
		}
		else
			hi = at;
	}
	return found;
}

/* First block from which records with ts >= at may be found; Invalid: none. */
BlockNumber
fl_seek_time(Relation rel, TimestampTz at, int *pages_read)
{
	Probe		p = {rel, pages_read};
	BlockNumber lo = 1,
				hi,
				found = InvalidBlockNumber;
	FlPageInfo	info;

	hi = RelationGetNumberOfBlocks(rel);
	while (lo < hi)
	{
		BlockNumber mid = lo + (hi - lo) / 2;
		BlockNumber blk = probe(&p, mid, lo, &info);

		if (blk == InvalidBlockNumber)
			lo = mid + 1;
		else if (info.max_ts >= at)
		{
			found = batch_start(blk, &info);
			hi = blk;
		}
		else
			lo = mid + 1;
	}
	return found;
}
