/*-------------------------------------------------------------------------
 *
 * buffer.c
 *		Segment pages through shared buffers: copies for readers, the meta page,
 *		dead marks.  Nothing here keeps a pin over a call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "log_private.h"

void
fl_report_corrupt(Relation rel, BlockNumber blk, FlResult res, const char *what)
{
	if (res == FL_UNSUPPORTED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("block %u of segment \"%s\" has a format version or codec that this release does not know",
						blk, RelationGetRelationName(rel)),
				 errdetail("%s; this release reads format %d.", what, FL_FORMAT_MAJOR),
				 errhint("Upgrade the fleetlog library.")));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block %u of segment \"%s\" is damaged", blk, RelationGetRelationName(rel)),
			 errdetail("%s (%s).", what, fl_result_name(res)),
			 errhint("Records outside this block can still be read by offset; restore the segment from a backup or a standby.")));
}

void
fl_page_copy(Relation rel, BlockNumber blk, BufferAccessStrategy strategy,
			 uint8 *dst, FlPageInfo *info)
{
	Buffer		buf = ReadBufferExtended(rel, MAIN_FORKNUM, blk, RBM_NORMAL, strategy);
	Page		page;
	FlResult	res;

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buf);
	res = fl_page_read((uint8 *) page, info);
	if (res == FL_OK && info->kind != FL_PAGE_NEW)
	{
		/* Header and data; the hole is not worth copying, the special is in *info. */
		memcpy(dst, (uint8 *) page, info->lower);
	}
	UnlockReleaseBuffer(buf);
	if (res != FL_OK)
		fl_report_corrupt(rel, blk, res, "page special space");
}

bool
fl_meta_read(Relation rel, FlMeta *meta)
{
	uint8		page[FL_PAGE_SIZE];
	FlPageInfo	info;
	FlResult	res;

	if (RelationGetNumberOfBlocks(rel) == 0)
		return false;
	fl_page_copy(rel, 0, NULL, page, &info);
	if (info.kind == FL_PAGE_NEW)
		return false;
	if (info.kind != FL_PAGE_META)
		fl_report_corrupt(rel, 0, FL_MALFORMED, "no meta page");
	res = fl_meta_decode(page, meta);
	if (res != FL_OK)
		fl_report_corrupt(rel, 0, res, "meta page");
	return true;
}

/*
 * Write block 0 anew.  Whoever calls it holds the shard lock, or is the only
 * one who changes frozen_upto (vacuum's lock on the relation) and read the
 * rest under the same buffer lock; see vacuum.c.
 */
void
fl_meta_write(Relation rel, const FlMeta *meta, TransactionId horizon)
{
	Buffer		buf;
	Page		page;
	FlPageInfo	info = {.kind = FL_PAGE_META,.npages = 1};

	if (RelationGetNumberOfBlocks(rel) == 0)
	{
		LockRelationForExtension(rel, ExclusiveLock);
		if (RelationGetNumberOfBlocks(rel) == 0)
			ReleaseBuffer(ReadBufferExtended(rel, MAIN_FORKNUM, P_NEW, RBM_NORMAL, NULL));
		UnlockRelationForExtension(rel, ExclusiveLock);
	}
	buf = ReadBufferExtended(rel, MAIN_FORKNUM, 0, RBM_ZERO_AND_LOCK, NULL);
	page = BufferGetPage(buf);

	START_CRIT_SECTION();
	PageInit(page, BLCKSZ, FL_PAGE_SPECIAL_SIZE);
	fl_page_write_special((uint8 *) page, &info);
	fl_meta_encode((uint8 *) page, meta);
	MarkBufferDirty(buf);
	if (RelationNeedsWAL(rel))
	{
		xl_fl_meta	xlrec = {.horizon = horizon,.len = FL_META_SIZE};

		XLogBeginInsert();
		XLogRegisterBuffer(0, buf, REGBUF_WILL_INIT | REGBUF_STANDARD);
		XLogRegisterData((char *) &xlrec, sizeof(xlrec));
		XLogRegisterData((char *) page + FL_PAGE_HEADER_SIZE, FL_META_SIZE);
		fl_page_insert_wal(page, FL_RMGR_ID, XLOG_FL_META);
	}
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buf);
}

void
fl_mark_dead(Relation rel, BlockNumber blk, const uint16 *offs, int n)
{
	Buffer		buf = ReadBuffer(rel, blk);
	Page		page;

	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buf);
	START_CRIT_SECTION();
	for (int i = 0; i < n; i++)
		((uint8 *) page)[offs[i] + FL_HEAD_FLAGS] |= FL_BATCH_DEAD;
	MarkBufferDirty(buf);
	if (RelationNeedsWAL(rel))
	{
		xl_fl_dead	xlrec = {.n = n};

		XLogBeginInsert();
		XLogRegisterBuffer(0, buf, REGBUF_STANDARD);
		XLogRegisterData((char *) &xlrec, sizeof(xlrec));
		XLogRegisterData((char *) offs, n * sizeof(uint16));
		fl_page_insert_wal(page, FL_RMGR_ID, XLOG_FL_DEAD);
	}
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buf);
}
