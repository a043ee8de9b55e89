/*-------------------------------------------------------------------------
 *
 * batch.c
 *		A batch in memory: loaded and inflated only as far as somebody asks, and
 *		its records split into columns.
 *
 * count(*) never loads more than the first page of a batch and never inflates;
 * shard, log_offset and ts come from the head.
 *
 * Pages of a batch never change once its transaction has committed, so bytes
 * may be loaded later than the head was read; the caller's lock on the segment
 * keeps the file.  A batch of the own transaction may grow, but only behind
 * the records that its head counted when it was read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "fleetlog/crc32c.h"
#include "fleetlog/cursor.h"
#include "fleetlog/headers.h"
#include "fleetlog/settings.h"
#include "log_private.h"

/* ---- allocator for the codecs --------------------------------------------- */

static void *
palloc_realloc(void *ctx, void *old, size_t old_size, size_t new_size)
{
	if (old == NULL)
		return MemoryContextAllocExtended(ctx ? (MemoryContext) ctx : CurrentMemoryContext,
										  new_size, MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	/* repalloc_huge raises on lack of memory, which is an error boundary here too. */
	return repalloc_huge(old, new_size);
}

static void
palloc_free(void *ctx, void *ptr)
{
	if (ptr)
		pfree(ptr);
}

const FlAllocator fl_palloc_allocator = {palloc_realloc, palloc_free, NULL};

const FlAllocator *
fl_server_allocator(void)
{
	return &fl_palloc_allocator;
}

static void *
context_realloc(void *ctx, void *old, size_t old_size, size_t new_size)
{
	if (old == NULL)
		return MemoryContextAllocHuge((MemoryContext) ctx, new_size);
	return repalloc_huge(old, new_size);
}

void
fl_context_allocator(FlAllocator *alloc, MemoryContext context)
{
	alloc->realloc = context_realloc;
	alloc->free = palloc_free;
	alloc->ctx = context;
}

FlCompressor *
fl_server_compressor(void)
{
	static FlCompressor *compressor = NULL;

	if (compressor == NULL)
	{
		/* Lives as long as the process. */
		compressor = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);
		if (compressor == NULL)
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	return compressor;
}

/* ---- life cycle ------------------------------------------------------------- */

/* Each batch object has an allocator that knows its context. */
typedef struct BatchAlloc
{
	FlBatch		batch;
	FlAllocator alloc;
} BatchAlloc;

FlBatch *
fl_batch_create(MemoryContext mcxt, Relation rel, BufferAccessStrategy strategy)
{
	BatchAlloc *ba = MemoryContextAllocZero(mcxt, sizeof(BatchAlloc));
	FlBatch    *batch = &ba->batch;

	ba->alloc = fl_palloc_allocator;
	ba->alloc.ctx = mcxt;
	batch->mcxt = mcxt;
	batch->rel = rel;
	batch->strategy = strategy;
	batch->refcount = 1;
	fl_buf_init(&batch->raw, &ba->alloc, FL_MAX_BATCH_BYTES);
	return batch;
}

void
fl_batch_release(FlBatch *batch)
{
	Assert(batch->refcount > 0);
	if (--batch->refcount > 0)
		return;
	fl_buf_free(&batch->raw);
	if (batch->bytes)
		pfree(batch->bytes);
	if (batch->starts)
		pfree(batch->starts);
	pfree(batch);
}

static void
reserve_bytes(FlBatch *batch, size_t want)
{
	if (batch->bytes_cap >= want)
		return;
	want = Max(want, FL_PAGE_SIZE);
	if (batch->bytes)
		pfree(batch->bytes);
	batch->bytes = MemoryContextAllocHuge(batch->mcxt, want);
	batch->bytes_cap = want;
}

void
fl_batch_set(FlBatch *batch, BlockNumber blk, const uint8 *page, const FlPageInfo *info,
			 uint32 at, const FlBatchHead *head, int32 shard)
{
	uint32		here = Min(head->length, info->lower - at);
	FlResult	res;

	batch->block = blk;
	batch->npages = info->kind == FL_PAGE_FIRST ? info->npages : 1;
	batch->shard = shard;
	batch->head = *head;
	reserve_bytes(batch, here);
	memcpy(batch->bytes, page + at, here);
	batch->bytes_len = here;
	batch->loaded = here == head->length;
	batch->inflated = false;
	batch->current_index = -1;
	batch->starts_known = false;
	batch->sender = fl_no_sender;
	res = fl_batch_decode_header(fl_batch_body(batch), here - FL_HEAD_SIZE - head->sender_len,
								 &batch->info);
	if (res != FL_OK && res != FL_INCOMPLETE)
		fl_report_corrupt(batch->rel, blk, res, "record batch header");
	if (here < FL_HEAD_SIZE + head->sender_len + FL_BATCH_HEADER_SIZE ||
		batch->info.size != head->length - FL_HEAD_SIZE - head->sender_len)
		fl_report_corrupt(batch->rel, blk, FL_MALFORMED, "record batch length");
	batch->header_known = true;
}

/* Read the further pages of a spanning batch. */
void
fl_batch_load(FlBatch *batch)
{
	uint8		page[FL_PAGE_SIZE];

	if (batch->loaded)
		return;
	if (batch->bytes_cap < batch->head.length)
	{
		/* Some more, since the next batch of the scan will be about as large. */
		Size		cap = (Size) batch->head.length + batch->head.length / 4;

		batch->bytes = repalloc_huge(batch->bytes, cap);
		batch->bytes_cap = cap;
	}
	for (uint32 i = 1; i < batch->npages && batch->bytes_len < batch->head.length; i++)
	{
		FlPageInfo	info;
		uint32		n;

		CHECK_FOR_INTERRUPTS();
		fl_page_copy(batch->rel, batch->block + i, batch->strategy, page, &info);
		if (info.kind != FL_PAGE_CONT || info.page_no != i || info.first_block != batch->block)
			fl_report_corrupt(batch->rel, batch->block + i, FL_MALFORMED,
							  "not the continuation of its batch");
		n = Min(info.lower - FL_PAGE_HEADER_SIZE, batch->head.length - batch->bytes_len);
		memcpy(batch->bytes + batch->bytes_len, page + FL_PAGE_HEADER_SIZE, n);
		batch->bytes_len += n;
	}
	if (batch->bytes_len != batch->head.length)
		fl_report_corrupt(batch->rel, batch->block, FL_MALFORMED, "batch is cut short");
	batch->loaded = true;
}

static void
inflate(FlBatch *batch)
{
	const uint8 *body;
	size_t		len;
	FlResult	res;

	if (batch->inflated)
		return;
	fl_batch_load(batch);
	body = fl_batch_body(batch);
	len = batch->info.size;
	if (fl_crc32c(body + FL_BATCH_CRC_START, len - FL_BATCH_CRC_START) != batch->info.crc)
		fl_report_corrupt(batch->rel, batch->block, FL_MALFORMED,
						  psprintf("checksum of the batch at offsets " INT64_FORMAT " to " INT64_FORMAT,
								   batch->info.base_offset,
								   batch->info.base_offset + batch->info.last_offset_delta));
	res = fl_batch_inflate(&batch->info, body, len, fl_server_compressor(),
						   FL_MAX_BATCH_BYTES, &batch->raw, &batch->records, &batch->records_len);
	if (res != FL_OK)
		fl_report_corrupt(batch->rel, batch->block, res,
						  psprintf("records of the batch at offsets " INT64_FORMAT " to " INT64_FORMAT,
								   batch->info.base_offset,
								   batch->info.base_offset + batch->info.last_offset_delta));
	if ((batch->head.flags & FL_BATCH_FOREIGN) && batch->head.sender_len > 0)
	{
		res = fl_sender_decode(batch->bytes + FL_HEAD_SIZE, batch->head.sender_len, &batch->sender);
		if (res != FL_OK)
			fl_report_corrupt(batch->rel, batch->block, res, "sender of a batch");
	}
	batch->inflated = true;
	batch->current_index = -1;
	fl_record_iter_init(&batch->iter, &batch->info, batch->records, batch->records_len);
}

/* ---- records ------------------------------------------------------------------ */

/* Do these header bytes name this reserved header? */
static bool
header_is(const FlHeader *h, const char *name)
{
	size_t		n = strlen(name);

	return (size_t) h->name_len == n && memcmp(h->name, name, n) == 0;
}

const FlSender fl_no_sender = {.tenant_len = -1,.device_len = -1,.role_len = -1};

/*
 * Split off what our own batches keep as the first reserved headers: fl.tenant
 * and fl.device are columns, the rest stays headers.
 */
void
fl_record_split(const FlRecord *rec, bool foreign, const FlSender *sender, FlLogRecord *out)
{
	FlHeaderIter it;
	FlHeader	h;
	FlReader	r;
	int			reserved = foreign ? 0 : rec->attributes;

	out->created_ms = rec->timestamp_ms;
	out->tenant = sender->tenant;
	out->tenant_len = sender->tenant_len;
	out->device = sender->device;
	out->device_len = sender->device_len;
	out->role = sender->role;
	out->role_len = sender->role_len;
	out->key = rec->key;
	out->key_len = rec->key_len;
	out->payload = rec->value;
	out->payload_len = rec->value_len;
	out->reserved = reserved;
	fl_reader_init(&r, rec->headers, rec->headers_len);
	out->headers_count = fl_read_varint(&r);
	out->headers = r.pos;
	out->headers_len = (int32) (r.end - r.pos);
	if (reserved == 0)
		return;
	fl_header_iter_init_kafka(&it, (uint8) reserved, rec->headers, rec->headers_len);
	while (out->reserved > 0 && fl_header_iter_next(&it, &h))
	{
		if (header_is(&h, "fl.tenant"))
		{
			out->tenant = h.value;
			out->tenant_len = (int32) h.value_len;
		}
		else if (header_is(&h, "fl.device"))
		{
			out->device = h.value;
			out->device_len = (int32) h.value_len;
		}
		else
			break;
		out->reserved--;
		out->headers_count--;
		out->headers = it.r.pos;
		out->headers_len = (int32) (r.end - it.r.pos);
	}
}

static void
next_record(FlBatch *batch)
{
	if (!fl_record_iter_next(&batch->iter, &batch->current))
		fl_report_corrupt(batch->rel, batch->block, FL_MALFORMED,
						  psprintf("record at offset " INT64_FORMAT,
								   batch->info.base_offset + batch->current_index + 1));
	batch->current_index++;
}

/* Where each record begins: a record's length is in front of it, so only walking tells. */
static void
find_starts(FlBatch *batch)
{
	int32		count = batch->info.record_count;

	if ((size_t) count > batch->records_len / FL_RECORD_MIN_SIZE)
		fl_report_corrupt(batch->rel, batch->block, FL_MALFORMED, "number of records of a batch");
	if (batch->starts_cap < count)
	{
		if (batch->starts)
			pfree(batch->starts);
		batch->starts = NULL;
		batch->starts_cap = 0;
		batch->starts = MemoryContextAllocHuge(batch->mcxt, (Size) count * sizeof(uint32));
		batch->starts_cap = count;
	}
	fl_record_iter_init(&batch->iter, &batch->info, batch->records, batch->records_len);
	batch->current_index = -1;
	for (int32 i = 0; i < count; i++)
	{
		next_record(batch);
		batch->starts[i] = (uint32) (batch->current.raw - batch->records);
	}
	batch->starts_known = true;
}

/* Make `index` the record that comes next, from any place. */
static void
rewind_to(FlBatch *batch, int32 index)
{
	if (!batch->starts_known)
		find_starts(batch);
	fl_record_iter_init(&batch->iter, &batch->info, batch->records, batch->records_len);
	batch->iter.r.pos += batch->starts[index];
	batch->iter.next = index;
	batch->current_index = index - 1;
}

void
fl_batch_get_record(FlBatch *batch, int32 index, FlLogRecord *out)
{
	inflate(batch);
	if (batch->current_index > index)
		rewind_to(batch, index);
	while (batch->current_index < index)
		next_record(batch);
	out->log_offset = batch->info.base_offset + index;
	out->ts = batch->head.append_ts;
	fl_record_split(&batch->current, (batch->head.flags & FL_BATCH_FOREIGN) != 0, &batch->sender, out);
}
