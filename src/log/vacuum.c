/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *		Freezing.  There is nothing to clean: rows never die.  But transaction ids
 *		on pages grow old, and the server stops when they are not taken care of.
 *
 * The meta page's frozen_upto says: below this block every batch that is not
 * marked dead is committed, for every snapshot.  It moves over pages whose
 * transactions are all older than the horizon; aborted ones are marked dead
 * first.  The last page may be included only under the shard's lock, because a
 * writer may go on there; after that nobody does (append starts a new page),
 * so an idle stream holds nothing back.
 *
 * A large batch is written from behind: its CONT pages come before its FIRST
 * page.  So the mark comes to rest only behind pages with a transaction that was
 * over before the walk began.  Whoever wrote that page came after, or is, the
 * writer of every block below it; none of them can still get its first page.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log_tail.h"
#include "log_private.h"

typedef struct FreezeState
{
	Relation	rel;
	BufferAccessStrategy strategy;
	TransactionId horizon;		/* older ones are over for every snapshot */
	TransactionId newest;		/* newest xid that got frozen */
	BlockNumber upto;			/* new mark */
	bool		page_settles;	/* the page has a batch older than the horizon */
	bool		want_oldest;	/* VACUUM: it moves relfrozenxid */
	TransactionId oldest_left;	/* then: oldest xid beyond the mark; Invalid: none */
} FreezeState;

/* Can this batch be frozen?  An aborted one is noted in dead[]. */
static bool
freeze_batch(FreezeState *st, BlockNumber blk, uint16 at, const FlBatchHead *head,
			 uint16 *dead, int *ndead)
{
	if (head->flags & FL_BATCH_DEAD)
		return true;
	if (!TransactionIdPrecedes(head->xmin, st->horizon))
		return false;
	switch (fl_xmin_state(st->rel, blk, head->xmin))
	{
		case FL_XMIN_COMMITTED:
			break;
		case FL_XMIN_ABORTED:
			dead[(*ndead)++] = at;
			break;
		case FL_XMIN_OWN:
		case FL_XMIN_IN_PROGRESS:
			return false;
	}
	st->page_settles = true;
	if (!TransactionIdIsValid(st->newest) || TransactionIdFollows(head->xmin, st->newest))
		st->newest = head->xmin;
	return true;
}

static bool
freeze_page(FreezeState *st, BlockNumber blk, const uint8 *page, const FlPageInfo *info)
{
	uint16		dead[FL_PAGE_CAPACITY / FL_HEAD_SIZE];
	int			ndead = 0;
	FlBatchHead head;
	FlResult	res;
	bool		ok = true;

	if (info->kind == FL_PAGE_FIRST)
	{
		res = fl_head_decode(page + FL_PAGE_HEADER_SIZE, info->lower - FL_PAGE_HEADER_SIZE,
							 true, &head);
		if (res != FL_OK)
			fl_report_corrupt(st->rel, blk, res, "batch head");
		ok = freeze_batch(st, blk, FL_PAGE_HEADER_SIZE, &head, dead, &ndead);
	}
	else if (info->kind == FL_PAGE_BATCHES)
	{
		uint32		pos = 0,
					at;

		while (ok && (res = fl_page_next_batch(page, info, &pos, &at, &head)) == FL_OK)
			ok = freeze_batch(st, blk, (uint16) at, &head, dead, &ndead);
		if (ok && res != FL_INCOMPLETE)
			fl_report_corrupt(st->rel, blk, res, "batch head");
	}
	if (ndead > 0)
		fl_mark_dead(st->rel, blk, dead, ndead);
	if (!ok)
		st->oldest_left = head.xmin;
	return ok;
}

/* Older transactions than the one we stopped at may lie on later pages: look at all. */
static void
find_oldest_left(FreezeState *st, BlockNumber from, BlockNumber nblocks)
{
	uint8		page[FL_PAGE_SIZE];
	FlPageInfo	info;
	FlBatchHead head;

	for (BlockNumber blk = from; blk < nblocks; blk++)
	{
		uint32		pos = 0,
					at;

		CHECK_FOR_INTERRUPTS();
		fl_page_copy(st->rel, blk, st->strategy, page, &info);
		if (info.kind == FL_PAGE_FIRST &&
			fl_head_decode(page + FL_PAGE_HEADER_SIZE, info.lower - FL_PAGE_HEADER_SIZE,
						   true, &head) == FL_OK)
		{
			if (!(head.flags & FL_BATCH_DEAD) &&
				(!TransactionIdIsValid(st->oldest_left) ||
				 TransactionIdPrecedes(head.xmin, st->oldest_left)))
				st->oldest_left = head.xmin;
			continue;
		}
		if (info.kind != FL_PAGE_BATCHES)
			continue;
		while (fl_page_next_batch(page, &info, &pos, &at, &head) == FL_OK)
			if (!(head.flags & FL_BATCH_DEAD) &&
				(!TransactionIdIsValid(st->oldest_left) ||
				 TransactionIdPrecedes(head.xmin, st->oldest_left)))
				st->oldest_left = head.xmin;
	}
}

/*
 * Move the mark of one segment as far as it goes.  with_last: the caller holds
 * the shard's lock, so the last page may be closed.
 */
static void
freeze_segment(FreezeState *st, FlMeta *meta, bool with_last)
{
	uint8		page[FL_PAGE_SIZE];
	FlPageInfo	info;
	BlockNumber nblocks = RelationGetNumberOfBlocks(st->rel);
	BlockNumber blk = Max(meta->frozen_upto, 1);
	BlockNumber last = nblocks;	/* the last written page and what is behind stay open */

	if (!with_last)
	{
		while (last > blk)
		{
			fl_page_copy(st->rel, last - 1, st->strategy, page, &info);
			last--;
			if (info.kind != FL_PAGE_NEW)
				break;
		}
	}
	st->upto = blk;
	st->oldest_left = InvalidTransactionId;
	while (blk < last)
	{
		uint32		n = 1;

		FL_VACUUM_DELAY_POINT();
		fl_page_copy(st->rel, blk, st->strategy, page, &info);
		if (info.kind == FL_PAGE_FIRST)
			n = info.npages;
		st->page_settles = false;
		if (blk + n > last || !freeze_page(st, blk, page, &info))
			break;
		blk += n;
		/* Not behind zero pages, CONT pages or dead batches alone: see above. */
		if (st->page_settles)
			st->upto = blk;
	}
	if (st->want_oldest && st->upto < nblocks)
		find_oldest_left(st, st->upto, nblocks);
	if (st->upto > meta->frozen_upto && TransactionIdIsValid(st->newest))
	{
		meta->frozen_upto = st->upto;
		fl_meta_write(st->rel, meta, st->newest);
	}
}

/* The shard's lock, when nobody has it; the writer must look at the file again. */
static bool
lock_shard_of(Relation rel)
{
	FlLeafInfo	leaf;
	const FlStreamInfo *info;
	FlShard    *shard;
	FlMeta		meta;
	Oid			stream;

	if (fl_shared == NULL || !fl_leaf_lookup(RelationGetRelid(rel), &leaf) ||
		!fl_meta_read(rel, &meta))
		return false;
	stream = OidIsValid(leaf.stream) ? leaf.stream : RelationGetRelid(rel);
	info = fl_stream_lookup(stream);
	shard = fl_shard_open(stream, (int32) meta.shard,
						  info && info->durability == FL_DURABILITY_QUORUM);
	if (!fl_shard_lock(shard, FL_LOCK_NOWAIT))
		return false;
	shard->writer_valid = false;
	return true;
}

/* ---- VACUUM ----------------------------------------------------------------------- */

static TransactionId
vacuum_horizon(Relation rel)
{
	return GetOldestNonRemovableTransactionId(rel);
}

void
fl_relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy bstrategy)
{
	FreezeState st = {.rel = rel,.strategy = bstrategy,.want_oldest = true};
	FlMeta		meta;
	BlockNumber nblocks;
	TransactionId frozen;
	double		tuples;
#if PG_VERSION_NUM >= 180000
	TimestampTz started = GetCurrentTimestamp();
#endif

	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	st.horizon = vacuum_horizon(rel);
	frozen = st.horizon;
	if (fl_meta_read(rel, &meta))
	{
		/* All but the last page first, so that the shard is held for a moment only. */
		freeze_segment(&st, &meta, false);
		if (TransactionIdIsValid(st.oldest_left) && lock_shard_of(rel) && fl_meta_read(rel, &meta))
			freeze_segment(&st, &meta, true);
		if (TransactionIdIsValid(st.oldest_left) &&
			TransactionIdPrecedes(st.oldest_left, frozen))
			frozen = st.oldest_left;
	}
	nblocks = RelationGetNumberOfBlocks(rel);
	tuples = rel->rd_rel->reltuples;
#if PG_VERSION_NUM >= 180000
	vac_update_relstats(rel, nblocks, tuples, 0, 0, false, frozen, GetOldestMultiXactId(),
						NULL, NULL, false);
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 Max(tuples, 0), 0, started);
#elif PG_VERSION_NUM >= 160000
	vac_update_relstats(rel, nblocks, tuples, 0, false, frozen, GetOldestMultiXactId(),
						NULL, NULL, false);
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, Max(tuples, 0), 0);
#else
	vac_update_relstats(rel, nblocks, tuples, 0, false, frozen, GetOldestMultiXactId(),
						NULL, NULL, false);
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared, Max(tuples, 0), 0);
#endif
	pgstat_progress_end_command();
}

/* ---- the keeper ---------------------------------------------------------------------- */

void
fl_log_freeze_stream(Oid stream)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	int32		shards = info ? info->shards : 0;

	for (int32 shard = 0; shard < shards; shard++)
	{
		int			n;
		const FlSegment *list = fl_segment_list(stream, shard, &n);
		FlSegment  *segs = palloc(sizeof(FlSegment) * Max(n, 1));

		memcpy(segs, list, sizeof(FlSegment) * n);
		for (int i = 0; i < n; i++)
		{
			FreezeState st = {0};
			FlMeta		meta;

			CHECK_FOR_INTERRUPTS();
			/* The lock that vacuum takes: one freezer at a time. */
			if (!ConditionalLockRelationOid(segs[i].leaf, ShareUpdateExclusiveLock))
				continue;
			st.rel = try_table_open(segs[i].leaf, NoLock);
			if (st.rel == NULL)
				continue;
			st.horizon = vacuum_horizon(st.rel);
			if (fl_meta_read(st.rel, &meta))
				freeze_segment(&st, &meta, false);
			table_close(st.rel, NoLock);
		}
		pfree(segs);
	}
}
