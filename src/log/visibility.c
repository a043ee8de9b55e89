/*-------------------------------------------------------------------------
 *
 * visibility.c
 *		Which batches a snapshot sees.
 *
 * One decision per batch, from its inserting (sub)transaction and command, by
 * the rules that heap uses for freshly inserted rows.  There are no hint bits:
 * instead the meta page says below which block everything that is not marked
 * dead is committed and old enough for everybody (frozen_upto).
 *
 * The race with clog truncation: a reader takes frozen_upto, vacuum moves it
 * on, relfrozenxid advances, the clog is truncated, and the reader asks for a
 * transaction that is no longer there.  Therefore an old xid is looked up
 * under XactTruncationLock, and when it lies before the clog the page and the
 * mark are read again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "log_private.h"

/* Has an old transaction committed?  Handles a clog that was truncated meanwhile. */
static bool
old_xid_committed(Relation rel, BlockNumber blk, TransactionId xmin)
{
	FlMeta		meta;
	bool		known;
	bool		committed = false;

	LWLockAcquire(XactTruncationLock, LW_SHARED);
	known = !TransactionIdPrecedes(xmin, FL_OLDEST_CLOG_XID());
	if (known)
		committed = TransactionIdDidCommit(xmin);
	LWLockRelease(XactTruncationLock);
	if (known)
		return committed;

	/* Truncated: then vacuum has frozen this block or marked the batch dead. */
	if (fl_meta_read(rel, &meta) && blk < meta.frozen_upto)
	{
		uint8		page[FL_PAGE_SIZE];
		FlPageInfo	info;
		FlBatchHead head;
		uint32		pos = 0,
					at;

		fl_page_copy(rel, blk, NULL, page, &info);
		if (info.kind == FL_PAGE_FIRST)
			return fl_head_decode(page + FL_PAGE_HEADER_SIZE, info.lower - FL_PAGE_HEADER_SIZE,
								  true, &head) == FL_OK && !(head.flags & FL_BATCH_DEAD);
		while (fl_page_next_batch(page, &info, &pos, &at, &head) == FL_OK)
		{
			/*
			 * All batches of one transaction on a page share its fate, but for
			 * marks set one by one; any unmarked one of this xmin decides.
			 */
			if (head.xmin == xmin)
				return !(head.flags & FL_BATCH_DEAD);
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block %u of segment \"%s\" has transaction %u, which is older than the commit log",
					blk, RelationGetRelationName(rel), xmin)));
}

FlXminState
fl_xmin_state(Relation rel, BlockNumber blk, TransactionId xmin)
{
	if (TransactionIdIsCurrentTransactionId(xmin))
		return FL_XMIN_OWN;
	if (TransactionIdIsInProgress(xmin))
		return FL_XMIN_IN_PROGRESS;
	return old_xid_committed(rel, blk, xmin) ? FL_XMIN_COMMITTED : FL_XMIN_ABORTED;
}

/* A historic snapshot (logical decoding): xip and subxip have another meaning there. */
static bool
visible_historic(const FlBatchHead *head, Snapshot snapshot)
{
	if (bsearch(&head->xmin, snapshot->subxip, snapshot->subxcnt,
				sizeof(TransactionId), xidComparator))
		return head->cmin < snapshot->curcid;
	if (TransactionIdPrecedes(head->xmin, snapshot->xmin))
		return TransactionIdDidCommit(head->xmin);
	if (TransactionIdFollowsOrEquals(head->xmin, snapshot->xmax))
		return false;
	return bsearch(&head->xmin, snapshot->xip, snapshot->xcnt,
				   sizeof(TransactionId), xidComparator) != NULL;
}

static bool
visible_mvcc(Relation rel, BlockNumber blk, const FlBatchHead *head, Snapshot snapshot)
{
	TransactionId xmin = head->xmin;

	if (TransactionIdIsCurrentTransactionId(xmin))
		return head->cmin < snapshot->curcid;
	if (XidInMVCCSnapshot(xmin, snapshot))
		return false;
	return old_xid_committed(rel, blk, xmin);
}

bool
fl_batch_visible(Relation rel, BlockNumber blk, BlockNumber frozen_upto,
				 const FlBatchHead *head, Snapshot snapshot)
{
	if (head->flags & FL_BATCH_DEAD)
		return false;
	if (blk < frozen_upto)
		return true;
	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			return visible_mvcc(rel, blk, head, snapshot);
		case SNAPSHOT_SELF:
		case SNAPSHOT_TOAST:
			{
				FlXminState st = fl_xmin_state(rel, blk, head->xmin);

				return st == FL_XMIN_OWN || st == FL_XMIN_COMMITTED;
			}
		case SNAPSHOT_ANY:
			return true;
		case SNAPSHOT_DIRTY:
			{
				FlXminState st = fl_xmin_state(rel, blk, head->xmin);

				snapshot->xmin = snapshot->xmax = InvalidTransactionId;
				snapshot->speculativeToken = 0;
				if (st == FL_XMIN_IN_PROGRESS)
					snapshot->xmin = head->xmin;	/* the caller waits for it */
				return st != FL_XMIN_ABORTED;
			}
		case SNAPSHOT_NON_VACUUMABLE:
			return fl_xmin_state(rel, blk, head->xmin) != FL_XMIN_ABORTED;
		case SNAPSHOT_HISTORIC_MVCC:
			return visible_historic(head, snapshot);
	}
	return false;
}
