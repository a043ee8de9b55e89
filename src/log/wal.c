/*-------------------------------------------------------------------------
 *
 * wal.c
 *		The custom resource manager: redo, masking, description, registration.
 *		Decoding into rows is in decode.c.
 *
 * A batch lies once in a record's main data, a small one in a shorter form
 * (log_pack.h).  Redo rebuilds the pages from it,
 * logical decoding reads the same bytes, so neither needs block data and a
 * full-page image in front of an existing page costs decoding nothing.
 *
 * The library must be preloaded wherever this WAL is replayed: crash recovery,
 * standbys, point-in-time recovery.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "storage/bufmgr.h"
#include "storage/standby.h"

#include "fleetlog/log_pack.h"
#include "log_private.h"

StaticAssertDecl(BLCKSZ == FL_PAGE_SIZE, "fleetlog_log pages are 8 KiB");
StaticAssertDecl(SizeOfPageHeaderData == FL_PAGE_HEADER_SIZE, "page header is 24 bytes");
StaticAssertDecl(FL_SPAN_PAGES <= XLR_MAX_BLOCK_ID, "a record names every page it initialises");
StaticAssertDecl(sizeof(xl_fl_append) == 40, "no padding in xl_fl_append");
StaticAssertDecl(sizeof(xl_fl_grow) == 64, "no padding in xl_fl_grow");

/* ---- redo --------------------------------------------------------------- */

static void
redo_meta(XLogReaderState *record)
{
	xl_fl_meta *xlrec = (xl_fl_meta *) XLogRecGetData(record);
	Buffer		buf;
	Page		page;

	/*
	 * Freezing lets vacuum truncate the clog on the primary's say, but a query
	 * on a standby may still hold a snapshot for which these transactions run.
	 */
	if (InHotStandby && TransactionIdIsNormal(xlrec->horizon))
	{
		FlRelFile	file;

		XLogRecGetBlockTag(record, 0, &file, NULL, NULL);
#if PG_VERSION_NUM >= 160000
		ResolveRecoveryConflictWithSnapshot(xlrec->horizon, false, file);
#else
		ResolveRecoveryConflictWithSnapshot(xlrec->horizon, file);
#endif
	}
	buf = XLogInitBufferForRedo(record, 0);
	page = BufferGetPage(buf);
	PageInit(page, BLCKSZ, FL_PAGE_SPECIAL_SIZE);
	{
		FlPageInfo	info = {.kind = FL_PAGE_META,.npages = 1};

		fl_page_write_special((uint8 *) page, &info);
	}
	memcpy((char *) page + FL_PAGE_HEADER_SIZE, (char *) xlrec + sizeof(xl_fl_meta), xlrec->len);
	fl_page_set_lower((uint8 *) page, FL_PAGE_HEADER_SIZE + xlrec->len);
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
	UnlockReleaseBuffer(buf);
}

static void
unpack_small(XLogReaderState *record, FlPacked *p)
{
	if (fl_pack_decode((uint8 *) XLogRecGetData(record), XLogRecGetDataLen(record),
					   XLogRecGetXid(record), p) != FL_OK)
		elog(PANIC, "fleetlog: batch in WAL makes no sense");
}

static void
redo_small(XLogReaderState *record)
{
	FlPacked	p;
	FlPageInfo	info = {.kind = FL_PAGE_BATCHES,.npages = 1};
	Buffer		buf;
	Page		page;

	unpack_small(record, &p);
	if (p.flags & FL_PACK_INIT_PAGE)
	{
		buf = XLogInitBufferForRedo(record, 0);
		page = BufferGetPage(buf);
		PageInit(page, BLCKSZ, FL_PAGE_SPECIAL_SIZE);
		info.first_block = BufferGetBlockNumber(buf);
		info.first_offset = p.info.base_offset;
	}
	else
	{
		if (XLogReadBufferForRedo(record, 0, &buf) != BLK_NEEDS_REDO)
		{
			if (BufferIsValid(buf))
				UnlockReleaseBuffer(buf);
			return;
		}
		page = BufferGetPage(buf);
		if (fl_page_read((uint8 *) page, &info) != FL_OK || info.kind != FL_PAGE_BATCHES ||
			info.lower != p.page_off)
			elog(PANIC, "fleetlog: page of a batch to be replayed does not end at byte %u",
				 p.page_off);
	}
	info.max_ts = p.max_ts;
	fl_page_write_special((uint8 *) page, &info);
	fl_pack_restore(&p, (uint8 *) page + p.page_off);
	fl_page_set_lower((uint8 *) page, (uint16) (p.page_off + p.head.length));
	PageSetLSN(page, record->EndRecPtr);
	MarkBufferDirty(buf);
	UnlockReleaseBuffer(buf);
}

/*
 * Initialise page number `i` of those in a record of a spanning batch.  Used by
 * the writer and by redo alike.  The page of the head is reserved as a page that
 * has no batches yet, so that nobody takes it for a head.
 */
void
fl_page_init_span(uint8 *page, const xl_fl_append *x, uint32 i)
{
	FlPageInfo	info = {0};

	info.page_no = x->page_no + i;
	info.kind = info.page_no == 0 ? FL_PAGE_FIRST : FL_PAGE_CONT;
	info.first_block = x->first_block;
	info.npages = x->npages;
	info.first_offset = x->first_offset;
	info.max_ts = x->max_ts;
	if (info.kind == FL_PAGE_FIRST && (x->flags & FL_XL_RESERVE))
	{
		info.kind = FL_PAGE_BATCHES;
		info.npages = 1;
	}
	PageInit((Page) page, BLCKSZ, FL_PAGE_SPECIAL_SIZE);
	fl_page_write_special(page, &info);
}

/* The pages of a spanning batch that this record carries, in order. */
static void
redo_span_pages(XLogReaderState *record)
{
	xl_fl_append *xlrec = (xl_fl_append *) XLogRecGetData(record);
	const char *bytes = (const char *) xlrec + sizeof(xl_fl_append);
	uint32		avail = XLogRecGetDataLen(record) - sizeof(xl_fl_append);
	uint32		at = 0;

	for (int i = 0; i <= XLogRecMaxBlockId(record); i++)
	{
		Buffer		buf = XLogInitBufferForRedo(record, i);
		Page		page = BufferGetPage(buf);
		uint32		n = Min(avail - at, FL_PAGE_CAPACITY);

		fl_page_init_span((uint8 *) page, xlrec, i);
		memcpy((char *) page + FL_PAGE_HEADER_SIZE, bytes + at, n);
		fl_page_set_lower((uint8 *) page, FL_PAGE_HEADER_SIZE + n);
		at += n;
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buf);
		UnlockReleaseBuffer(buf);
	}
}

static void
redo_span(XLogReaderState *record)
{
	redo_span_pages(record);
}

static void
redo_cont(XLogReaderState *record)
{
	redo_span_pages(record);
}

/*
 * Put an encoded record behind the uncompressed batch whose head lies at
 * page_off, the last on the page.  Used by the writer and by redo alike, so
 * that both make the same bytes.
 */
void
fl_page_apply_grow(uint8 *page, uint16 page_off, const uint8 *record, const xl_fl_grow *g)
{
	FlBatchHead head;
	uint16		lower = fl_page_lower(page);
	uint8	   *body;

	if (fl_head_decode(page + page_off, lower - page_off, false, &head) != FL_OK ||
		page_off + head.length != lower || lower + g->record_len > FL_PAGE_DATA_END)
		elog(PANIC, "fleetlog: batch at byte %u cannot take one more record", page_off);
	memcpy(page + lower, record, g->record_len);
	head.length += g->record_len;
	head.min_created = g->min_created;
	head.max_created = g->max_created;
	body = page + page_off + FL_HEAD_SIZE + head.sender_len;
	if (fl_batch_grow_header(body, head.length - FL_HEAD_SIZE - head.sender_len,
							 (int32) g->count, g->max_timestamp) != FL_OK)
		elog(PANIC, "fleetlog: batch at byte %u is not one that grows", page_off);
	fl_head_encode(page + page_off, &head);
	head.crc = fl_head_crc(page + page_off, head.sender_len);
	fl_head_encode(page + page_off, &head);
	fl_page_set_lower(page, lower + g->record_len);
}

static void
redo_grow(XLogReaderState *record)
{
	xl_fl_grow *xlrec = (xl_fl_grow *) XLogRecGetData(record);
	Buffer		buf;

	if (XLogReadBufferForRedo(record, 0, &buf) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buf);

		fl_page_apply_grow((uint8 *) page, xlrec->page_off,
						   (uint8 *) xlrec + sizeof(xl_fl_grow), xlrec);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buf);
	}
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
}

static void
redo_dead(XLogReaderState *record)
{
	xl_fl_dead *xlrec = (xl_fl_dead *) XLogRecGetData(record);
	Buffer		buf;

	if (XLogReadBufferForRedo(record, 0, &buf) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buf);

		for (uint32 i = 0; i < xlrec->n; i++)
		{
			uint16		off;

			memcpy(&off, (char *) xlrec + sizeof(xl_fl_dead) + i * sizeof(off), sizeof(off));
			((uint8 *) page)[off + FL_HEAD_FLAGS] |= FL_BATCH_DEAD;
		}
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buf);
	}
	if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
}

static void
fl_redo(XLogReaderState *record)
{
#ifdef FL_PLANT_SKIPPED_REDO	/* a fault that the chaos checker must find */
	if ((XLogRecGetInfo(record) & XLR_RMGR_INFO_MASK) == XLOG_FL_SPAN)
		return;
#endif
	switch (XLogRecGetInfo(record) & XLR_RMGR_INFO_MASK)
	{
#define X(sym, info, name, redo) case sym: redo(record); break;
			FL_WAL_RECORDS(X)
#undef X
		default:
			elog(PANIC, "fleetlog: unknown WAL record type %u",
				 XLogRecGetInfo(record) & XLR_RMGR_INFO_MASK);
	}
}

/* ---- description, consistency -------------------------------------------- */

static const char *
fl_identify(uint8 info)
{
	switch (info & XLR_RMGR_INFO_MASK)
	{
#define X(sym, info, name, redo) case sym: return name;
			FL_WAL_RECORDS(X)
#undef X
	}
	return NULL;
}

static void
fl_desc(StringInfo buf, XLogReaderState *record)
{
	char	   *data = XLogRecGetData(record);

	switch (XLogRecGetInfo(record) & XLR_RMGR_INFO_MASK)
	{
		case XLOG_FL_SMALL:
			{
				FlPacked	p;

				if (fl_pack_decode((uint8 *) data, XLogRecGetDataLen(record),
								   XLogRecGetXid(record), &p) == FL_OK)
					appendStringInfo(buf, "shard %u offset " INT64_FORMAT " length %u at %u",
									 p.shard, p.info.base_offset, p.head.length, p.page_off);
				break;
			}
		case XLOG_FL_SPAN:
		case XLOG_FL_CONT:
			{
				xl_fl_append *x = (xl_fl_append *) data;

				appendStringInfo(buf, "shard %u offset " INT64_FORMAT " length %u pages %u page %u",
								 x->shard, x->first_offset, x->length, x->npages, x->page_no);
				break;
			}
		case XLOG_FL_GROW:
			{
				xl_fl_grow *x = (xl_fl_grow *) data;

				appendStringInfo(buf, "shard %u offset " INT64_FORMAT " length %u at %u",
								 x->shard, x->offset, x->record_len, x->page_off);
				break;
			}
		case XLOG_FL_DEAD:
			appendStringInfo(buf, "batches %u", ((xl_fl_dead *) data)->n);
			break;
		case XLOG_FL_META:
			appendStringInfo(buf, "horizon %u", ((xl_fl_meta *) data)->horizon);
			break;
		default:
			break;
	}
}

/*
 * Everything we write is the same on a standby, byte for byte, but the LSN,
 * the checksum, and what bufmgr may leave in the hole.
 */
static void
fl_mask(char *page, BlockNumber blkno)
{
#ifndef FL_PLANT_BROKEN_MASK	/* a fault that wal_consistency_checking must find */
	mask_page_lsn_and_checksum(page);
#endif
	mask_page_hint_bits(page);
	mask_unused_space(page);
}

static void
fl_rm_decode(struct LogicalDecodingContext *ctx, struct XLogRecordBuffer *buf)
{
	fl_wal_decode(ctx, buf);
}

static
#if PG_VERSION_NUM >= 160000
const
#endif
RmgrData	fl_rmgr = {
	.rm_name = FL_RMGR_NAME,
	.rm_redo = fl_redo,
	.rm_desc = fl_desc,
	.rm_identify = fl_identify,
	.rm_mask = fl_mask,
	.rm_decode = fl_rm_decode,
};

void
fl_wal_register(void)
{
	RegisterCustomRmgr(FL_RMGR_ID, &fl_rmgr);
}
