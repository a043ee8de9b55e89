/*-------------------------------------------------------------------------
 *
 * decode.c
 *		Logical decoding: appended records become ordinary row INSERTs (L13).
 *
 * The batch's bytes are in the record's main data, so nothing is read but the
 * WAL.  No catalog is touched: the column layout is fixed, and rows are formed
 * with a descriptor made of built-in types of the same physical shape.
 *
 * A batch of more than FL_SPAN_PAGES pages comes as CONT records and then the
 * SPAN record with its head.  The parts are kept per relation file until the
 * head arrives; only one transaction appends to a file at a time, and a new
 * batch's first part drops what an aborted one left.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlogutils.h"
#include "catalog/pg_type.h"
#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "replication/snapbuild.h"
#include "utils/memutils.h"

#include "fleetlog/cursor.h"
#include "fleetlog/log_pack.h"
#include "fleetlog/watch.h"
#include "log_private.h"

/* ---- parts of a large batch --------------------------------------------------- */

typedef struct PendingBatch
{
	FlRelFile	file;			/* hash key */
	uint32		first_block;
	uint32		length;
	uint8	   *bytes;
} PendingBatch;

static HTAB *pending = NULL;
static MemoryContext pending_mcxt = NULL;

static void
forget_pending(void *arg)
{
	pending = NULL;
	pending_mcxt = NULL;
}

/* The table lives as long as the decoding context. */
static HTAB *
pending_table(LogicalDecodingContext *ctx)
{
	HASHCTL		ctl = {0};
	MemoryContextCallback *cb;

	if (pending)
		return pending;
	pending_mcxt = AllocSetContextCreate(ctx->context, "fleetlog large batches",
										 ALLOCSET_DEFAULT_SIZES);
	cb = MemoryContextAllocZero(pending_mcxt, sizeof(*cb));
	cb->func = forget_pending;
	MemoryContextRegisterResetCallback(pending_mcxt, cb);
	ctl.keysize = sizeof(FlRelFile);
	ctl.entrysize = sizeof(PendingBatch);
	ctl.hcxt = pending_mcxt;
	pending = hash_create("fleetlog large batches", 16, &ctl,
						  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return pending;
}

static void
drop_pending(FlRelFile file)
{
	PendingBatch *pb;

	if (pending == NULL)
		return;
	pb = hash_search(pending, &file, HASH_FIND, NULL);
	if (pb)
	{
		pfree(pb->bytes);
		hash_search(pending, &file, HASH_REMOVE, NULL);
	}
}

static PendingBatch *
take_part(LogicalDecodingContext *ctx, FlRelFile file, const xl_fl_append *x,
		  const uint8 *data, uint32 len)
{
	PendingBatch *pb;
	bool		found;
	uint32		at = x->page_no * FL_PAGE_CAPACITY;

	pb = hash_search(pending_table(ctx), &file, HASH_ENTER, &found);
	if (!found || pb->first_block != x->first_block || pb->length != x->length)
	{
		if (found)
			pfree(pb->bytes);
		pb->bytes = MemoryContextAllocExtended(pending_mcxt, x->length,
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
		pb->first_block = x->first_block;
		pb->length = x->length;
	}
	if (at < x->length)
		memcpy(pb->bytes + at, data, Min(len, x->length - at));
	return pb;
}

/* ---- rows ------------------------------------------------------------------------ */

static TupleDesc
row_descriptor(void)
{
	static TupleDesc desc = NULL;
	MemoryContext old;

	if (desc)
		return desc;
	old = MemoryContextSwitchTo(TopMemoryContext);
	desc = CreateTemplateTupleDesc(FL_NATTS);
	/* timestamptz has the shape of int8, the other columns that of text. */
	TupleDescInitBuiltinEntry(desc, FL_ATT_SHARD, "shard", INT4OID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_OFFSET, "log_offset", INT8OID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_TS, "ts", INT8OID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_CREATED, "created", INT8OID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_TENANT, "tenant", TEXTOID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_DEVICE, "device", TEXTOID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_KEY, "key", TEXTOID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_KEY_BYTES, "key_bytes", TEXTOID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_HEADERS, "headers", TEXTOID, -1, 0);
	TupleDescInitBuiltinEntry(desc, FL_ATT_PAYLOAD, "payload", TEXTOID, -1, 0);
	MemoryContextSwitchTo(old);
	return desc;
}

typedef struct RowSink
{
	LogicalDecodingContext *ctx;
	XLogRecordBuffer *buf;
	FlRelFile	file;
	int32		shard;
	char	   *scratch;
	size_t		scratch_cap;
	MemoryContext mcxt;
} RowSink;

static void
queue_row(RowSink *sink, const FlLogRecord *rec)
{
	Datum		values[FL_NATTS];
	bool		isnull[FL_NATTS];
	HeapTuple	tup;
	ReorderBufferChange *change;

	/* Queueing the row before may have sent out a part of the transaction, which leaves another context. */
	MemoryContextSwitchTo(sink->mcxt);

	fl_columns_build(rec, sink->shard, 1, FL_NATTS, &sink->scratch, &sink->scratch_cap,
					 sink->mcxt, values, isnull);
	tup = heap_form_tuple(row_descriptor(), values, isnull);

	change = FL_REORDER_ALLOC_CHANGE(sink->ctx->reorder);
	change->action = REORDER_BUFFER_CHANGE_INSERT;
	change->origin_id = XLogRecGetOrigin(sink->buf->record);
	FL_CHANGE_FILE(change) = sink->file;
	change->data.tp.clear_toast_afterwards = true;
	change->data.tp.newtuple = FL_REORDER_ALLOC_TUPLE(sink->ctx->reorder, tup->t_len);
	{
		HeapTuple	dst = FL_REORDER_TUPLE(change->data.tp.newtuple);

		dst->t_len = tup->t_len;
		ItemPointerSetInvalid(&dst->t_self);
		dst->t_tableOid = InvalidOid;
		memcpy(dst->t_data, tup->t_data, tup->t_len);
	}
	heap_freetuple(tup);
	ReorderBufferQueueChange(sink->ctx->reorder, XLogRecGetXid(sink->buf->record),
							 sink->buf->origptr, change, false);
}

/* All records of a batch, `bytes` being head, sender and body. */
static void
queue_batch(RowSink *sink, const uint8 *bytes, uint32 length)
{
	FlBatchHead head;
	FlBatchInfo info;
	FlLogRecord rec;
	FlRecord	r;
	FlRecordIter it;
	FlBuf		raw;
	const uint8 *records;
	size_t		records_len;
	FlSender	sender = fl_no_sender;
	const uint8 *body;
	bool		foreign;

	if (fl_head_decode(bytes, length, false, &head) != FL_OK ||
		fl_batch_decode_header(body = bytes + FL_HEAD_SIZE + head.sender_len,
							   length - FL_HEAD_SIZE - head.sender_len, &info) != FL_OK)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("batch in WAL cannot be decoded")));
	foreign = head.flags & FL_BATCH_FOREIGN;
	if (foreign && head.sender_len > 0 &&
		fl_sender_decode(bytes + FL_HEAD_SIZE, head.sender_len, &sender) != FL_OK)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("sender of the batch at offset " INT64_FORMAT " in WAL is malformed",
							   info.base_offset)));
	fl_buf_init(&raw, &fl_palloc_allocator, FL_MAX_BATCH_BYTES);
	if (fl_batch_inflate(&info, body, length - FL_HEAD_SIZE - head.sender_len,
						 fl_server_compressor(), FL_MAX_BATCH_BYTES, &raw,
						 &records, &records_len) != FL_OK)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("batch at offset " INT64_FORMAT " in WAL cannot be inflated",
							   info.base_offset)));
	fl_record_iter_init(&it, &info, records, records_len);
	while (fl_record_iter_next(&it, &r))
	{
		rec.log_offset = info.base_offset + r.offset_delta;
		rec.ts = head.append_ts;
		fl_record_split(&r, foreign, &sender, &rec);
		queue_row(sink, &rec);
	}
	if (it.result != FL_OK)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("batch at offset " INT64_FORMAT " in WAL has a malformed record",
							   info.base_offset)));
	fl_buf_free(&raw);
}

static void
queue_grown(RowSink *sink, const xl_fl_grow *x, const uint8 *record)
{
	FlBatchInfo info = {0};
	FlLogRecord rec;
	FlRecord	r;
	FlRecordIter it;

	info.record_count = (int32) x->count;
	fl_record_iter_init(&it, &info, record, x->record_len);
	it.next = (int32) x->count - 1;
	if (!fl_record_iter_next(&it, &r))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("record at offset " INT64_FORMAT " in WAL is malformed", x->offset)));
	r.timestamp_ms = x->created_ms;
	rec.log_offset = x->offset;
	rec.ts = x->append_ts;
	fl_record_split(&r, false, &fl_no_sender, &rec);
	queue_row(sink, &rec);
}

/* ---- the callback ------------------------------------------------------------------- */

static bool
filtered_by_origin(LogicalDecodingContext *ctx, RepOriginId origin)
{
	return ctx->callbacks.filter_by_origin_cb != NULL && filter_by_origin_cb_wrapper(ctx, origin);
}

static void
queue_small(RowSink *sink)
{
	XLogReaderState *r = sink->buf->record;
	FlPacked	p;
	uint8	   *bytes;

	if (fl_pack_decode((uint8 *) XLogRecGetData(r), XLogRecGetDataLen(r), XLogRecGetXid(r),
					   &p) != FL_OK)
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
						errmsg("batch in WAL cannot be decoded")));
	if (p.flags & FL_PACK_NO_DECODE)
		return;
	sink->shard = (int32) p.shard;
	bytes = palloc(p.head.length);
	fl_pack_restore(&p, bytes);
	queue_batch(sink, bytes, p.head.length);
}

static void
decode_append(RowSink *sink, uint8 info)
{
	XLogReaderState *r = sink->buf->record;
	uint32		len = XLogRecGetDataLen(r);

	if (info == XLOG_FL_SMALL)
		queue_small(sink);
	else if (info == XLOG_FL_GROW)
	{
		xl_fl_grow	x;

		memcpy(&x, XLogRecGetData(r), sizeof(x));
		sink->shard = (int32) x.shard;
		queue_grown(sink, &x, (uint8 *) XLogRecGetData(r) + sizeof(x));
	}
	else
	{
		xl_fl_append x;
		const uint8 *bytes = (uint8 *) XLogRecGetData(r) + sizeof(x);

		memcpy(&x, XLogRecGetData(r), sizeof(x));
		if (x.flags & (FL_XL_NO_DECODE | FL_XL_RESERVE))
			return;
		len -= sizeof(x);
		sink->shard = (int32) x.shard;
		if (info == XLOG_FL_CONT)
			take_part(sink->ctx, sink->file, &x, bytes, len);
		else if (len < x.length)
		{
			PendingBatch *pb = take_part(sink->ctx, sink->file, &x, bytes, len);

			queue_batch(sink, pb->bytes, pb->length);
			drop_pending(sink->file);
		}
		else
			queue_batch(sink, bytes, x.length);
	}
}

void
fl_wal_decode(struct LogicalDecodingContext *ctx, struct XLogRecordBuffer *buf)
{
	XLogReaderState *r = buf->record;
	uint8		info = XLogRecGetInfo(r) & XLR_RMGR_INFO_MASK;
	TransactionId xid = XLogRecGetXid(r);
	RowSink		sink = {.ctx = ctx,.buf = buf};
	MemoryContext old;

	ReorderBufferProcessXid(ctx->reorder, xid, buf->origptr);
	if (info == XLOG_FL_META || info == XLOG_FL_DEAD)
		return;
	if (SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_FULL_SNAPSHOT ||
		!SnapBuildProcessChange(ctx->snapshot_builder, xid, buf->origptr) ||
		ctx->fast_forward || !fl_watch_wants_streams(ctx))
		return;
	XLogRecGetBlockTag(r, 0, &sink.file, NULL, NULL);
	if (FL_FILE_DB(sink.file) != ctx->slot->data.database ||
		filtered_by_origin(ctx, XLogRecGetOrigin(r)))
		return;

	sink.mcxt = AllocSetContextCreate(ctx->context, "fleetlog decode", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(sink.mcxt);
	decode_append(&sink, info);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(sink.mcxt);
}
