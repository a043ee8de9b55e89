/*-------------------------------------------------------------------------
 *
 * reader.c
 *		Reading batches by position, below the durable tail: the live feed, Kafka
 *		fetches, read() and poll().
 *
 * No snapshot: below the durable tail everything that is not marked dead is
 * committed, because whoever reused offsets marked the aborted batches first.
 * One segment is open at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "fleetlog/catalog.h"
#include "log_private.h"

struct FlLogReader
{
	MemoryContext mcxt;
	Oid			stream;
	int32		shard;
	FlLogPosition *pos;			/* the caller's */
	int64		limit;
	bool		any;			/* a batch was returned */
	uint32		pages_left;		/* that may be looked at; 0: any number */
	bool		stopped;		/* none was left, or a segment is locked */
	bool		nowait;			/* for a lock on a segment */
	bool		locked;			/* stopped by one */
	bool		heads;			/* no more of a batch than its first page has */
	int64		min_created;	/* FL_NO_CREATED, or batches without a time that late are passed over */
	BufferAccessStrategy strategy;
	BufferAccessStrategy own_ring;
	Relation	rel;			/* open segment */
	int64		rel_upper;
	BlockNumber nblocks;
	BlockNumber block;			/* of `page`, or the next to load */
	bool		page_loaded;
	FlPageInfo	info;
	uint32		page_pos;
	uint8		page[FL_PAGE_SIZE];
	FlBatch    *batch;
};

FlLogReader *
fl_log_reader_begin(Oid stream, int32 shard, FlLogPosition *pos, int64 limit)
{
	FlLogReader *r = palloc0(sizeof(FlLogReader));
	int64		head = fl_log_head(stream, shard);

	if (pos->offset < head)
		fl_log_too_old(stream, shard, pos->offset, head);
	r->mcxt = CurrentMemoryContext;
	r->stream = stream;
	r->shard = shard;
	r->pos = pos;
	r->limit = limit;
	r->min_created = FL_NO_CREATED;
	return r;
}

void
fl_log_reader_nowait(FlLogReader *r)
{
	r->nowait = true;
}

void
fl_log_reader_created_from(FlLogReader *r, int64 ms)
{
	r->min_created = ms;
}

void
fl_log_reader_heads(FlLogReader *r)
{
	r->heads = true;
}

void
fl_log_reader_bound(FlLogReader *r, uint32 pages)
{
	r->pages_left = pages;
}

void
fl_log_reader_bulk(FlLogReader *r)
{
	r->strategy = r->own_ring = GetAccessStrategy(BAS_BULKREAD);
}

void
fl_log_reader_share_ring(FlLogReader *r, BufferAccessStrategy ring)
{
	r->strategy = ring;
}

bool
fl_log_reader_stopped(const FlLogReader *r)
{
	return r->stopped;
}

bool
fl_log_reader_locked(const FlLogReader *r)
{
	return r->locked;
}

static void
close_segment(FlLogReader *r)
{
	if (r->batch)
	{
		fl_batch_release(r->batch);
		r->batch = NULL;
	}
	if (r->rel)
	{
		table_close(r->rel, AccessShareLock);
		r->rel = NULL;
	}
}

/* Open the segment of pos->offset and find the page; false when there is none. */
static bool
open_segment(FlLogReader *r)
{
	FlSegment	seg;
	FlLeafInfo	leaf;
	BlockNumber blk;

	if (fl_leaf_lookup(r->stream, &leaf))
		seg = (FlSegment) {.leaf = r->stream,.upper = PG_INT64_MAX};
	else if (!fl_segment_find(r->stream, r->shard, r->pos->offset, &seg))
		return false;
	if (r->nowait && !ConditionalLockRelationOid(seg.leaf, AccessShareLock))
	{
		r->stopped = r->locked = true;
		return false;
	}
	r->rel = try_table_open(seg.leaf, AccessShareLock);
	if (r->nowait)
		UnlockRelationOid(seg.leaf, AccessShareLock);
	if (r->rel == NULL)
		return false;
	r->rel_upper = seg.upper;
	r->nblocks = RelationGetNumberOfBlocks(r->rel);
	if (r->pos->leaf == seg.leaf && r->pos->block > 0 && r->pos->block < r->nblocks)
		blk = r->pos->block;	/* where the last call stopped; checked while reading */
	else
		blk = fl_seek_offset(r->rel, r->pos->offset, NULL);
	if (blk == InvalidBlockNumber)
		blk = r->nblocks;
	r->block = blk;
	r->page_loaded = false;
	r->batch = fl_batch_create(r->mcxt, r->rel, r->strategy);
	return true;
}

/* The page that is next would be one too many: here the next reader goes on. */
static bool
must_stop(FlLogReader *r)
{
	if (r->pages_left == 0 || --r->pages_left > 0)
		return false;
	r->stopped = true;
	r->pos->leaf = RelationGetRelid(r->rel);
	r->pos->block = r->block;
	return true;
}

/* Next live head in the open segment; false at its end, or when it has to stop. */
static bool
next_head(FlLogReader *r, uint32 *at, FlBatchHead *head)
{
	for (;;)
	{
		FlResult	res;

		if (!r->page_loaded)
		{
			if (r->block >= r->nblocks || must_stop(r))
				return false;
			CHECK_FOR_INTERRUPTS();
			fl_page_copy(r->rel, r->block, r->strategy, r->page, &r->info);
			r->page_pos = 0;
			r->page_loaded = true;
		}
		if (r->info.kind == FL_PAGE_BATCHES)
		{
			res = fl_page_next_batch(r->page, &r->info, &r->page_pos, at, head);
			if (res == FL_OK)
			{
				if (head->flags & FL_BATCH_DEAD)
					continue;
				return true;
			}
			if (res != FL_INCOMPLETE)
				fl_report_corrupt(r->rel, r->block, res, "batch head");
			r->block++;
		}
		else if (r->info.kind == FL_PAGE_FIRST && r->page_pos == 0)
		{
			res = fl_head_decode(r->page + FL_PAGE_HEADER_SIZE,
								 r->info.lower - FL_PAGE_HEADER_SIZE, true, head);
			if (res != FL_OK)
				fl_report_corrupt(r->rel, r->block, res, "batch head");
			r->page_pos = 1;
			*at = FL_PAGE_HEADER_SIZE;
			if (!(head->flags & FL_BATCH_DEAD))
				return true;
			continue;
		}
		else
			r->block += r->info.kind == FL_PAGE_FIRST ? r->info.npages : 1;
		r->page_loaded = false;
	}
}

static const char *
copy_name(const uint8 *name, int32 len)
{
	return name != NULL ? pnstrdup((const char *) name, len) : NULL;
}

static void
fill_batch(FlLogReader *r, FlStoredBatch *out)
{
	FlBatch    *b = r->batch;

	fl_batch_load(b);
	out->base_offset = b->info.base_offset;
	out->count = b->info.record_count;
	out->leader_epoch = b->info.leader_epoch;
	out->append_ts = b->head.append_ts;
	out->min_created = b->head.min_created;
	out->max_created = b->head.max_created;
	out->foreign = (b->head.flags & FL_BATCH_FOREIGN) != 0;
	out->tenant = out->device = out->role = NULL;
	if (out->foreign && b->head.sender_len > 0)
	{
		FlSender	sender;

		if (fl_sender_decode(b->bytes + FL_HEAD_SIZE, b->head.sender_len, &sender) != FL_OK)
			fl_report_corrupt(r->rel, b->block, FL_MALFORMED, "sender of a batch");
		out->tenant = copy_name(sender.tenant, sender.tenant_len);
		out->device = copy_name(sender.device, sender.device_len);
		out->role = copy_name(sender.role, sender.role_len);
	}
	out->body = fl_batch_body(b);
	out->body_len = (uint32) b->info.size;
}

/* As much of the batch as the page at hand has. */
static void
fill_head(FlLogReader *r, uint32 at, const FlBatchHead *head, FlStoredBatch *out)
{
	uint32		prefix = FL_HEAD_SIZE + head->sender_len;
	uint32		here = Min(head->length, r->info.lower - at);

	if (here < prefix + FL_BATCH_HEADER_SIZE)
		fl_report_corrupt(r->rel, r->block, FL_MALFORMED, "batch head");
	memset(out, 0, sizeof(*out));
	out->base_offset = fl_head_base_offset(r->page + at, head);
	out->count = (int32) fl_head_record_count(r->page + at, head);
	out->append_ts = head->append_ts;
	out->min_created = head->min_created;
	out->max_created = head->max_created;
	out->foreign = (head->flags & FL_BATCH_FOREIGN) != 0;
	out->body = r->page + at + prefix;
	out->body_len = here - prefix;
}

/*
 * The head has passed the position while we read.  Who has got something goes
 * on with that, and is told at the next call: an end here must not look like
 * the end of the log to who has got nothing.
 */
static bool
was_trimmed(FlLogReader *r)
{
	int64		head = fl_log_head(r->stream, r->shard);

	if (r->pos->offset >= head)
		return false;
	if (!r->any)
		fl_log_too_old(r->stream, r->shard, r->pos->offset, head);
	return true;
}

bool
fl_log_reader_next(FlLogReader *r, FlStoredBatch *out)
{
	uint32		at;
	FlBatchHead head;

	while (r->pos->offset < r->limit && !r->stopped)
	{
		if (was_trimmed(r))
			return false;
		if (r->rel == NULL && !open_segment(r))
		{
			/* It may have gone between the two looks. */
			if (!r->stopped)
				(void) was_trimmed(r);
			return false;
		}
		while (next_head(r, &at, &head))
		{
			int64		base = fl_head_base_offset(r->page + at, &head);
			int64		end = base + fl_head_record_count(r->page + at, &head);

			if (end <= r->pos->offset)
				continue;
			/*
			 * Beyond the limit lies what is not durable yet; and a hint that
			 * led past the wanted offset is no hint.
			 */
			if (base >= r->limit || base > r->pos->offset)
				return false;
			if (head.max_created < r->min_created)
			{
				r->pos->offset = end;
				continue;
			}
			r->pos->leaf = RelationGetRelid(r->rel);
			r->pos->block = r->block;
			if (r->heads)
				fill_head(r, at, &head, out);
			else
			{
				fl_batch_set(r->batch, r->block, r->page, &r->info, at, &head, r->shard);
				fill_batch(r, out);
			}
			r->pos->offset = end;
			r->any = true;
			return true;
		}
		if (r->stopped)
			return false;
		if (r->pos->offset < r->rel_upper)
		{
			/* Retention may have emptied it. */
			(void) was_trimmed(r);
			return false;
		}
		close_segment(r);
	}
	return false;
}

void
fl_log_reader_end(FlLogReader *r)
{
	close_segment(r);
	if (r->own_ring != NULL)
		FreeAccessStrategy(r->own_ring);
	pfree(r);
}

/* ---- records of a stored batch ----------------------------------------------------- */

struct FlBatchDecoder
{
	FlAllocator alloc;
	FlBuf		raw;
	FlRecordIter it;
	FlBatchInfo info;
	FlStoredBatch batch;
	FlSender	sender;
};

FlBatchDecoder *
fl_batch_decoder_create(MemoryContext parent)
{
	FlBatchDecoder *dec = MemoryContextAllocZero(parent, sizeof(FlBatchDecoder));

	dec->alloc = fl_palloc_allocator;
	dec->alloc.ctx = parent;
	fl_buf_init(&dec->raw, &dec->alloc, FL_MAX_BATCH_BYTES);
	return dec;
}

static int32
name_length(const char *name)
{
	return name != NULL ? (int32) strlen(name) : -1;
}

void
fl_batch_decoder_open(FlBatchDecoder *dec, const FlStoredBatch *batch)
{
	const uint8 *records;
	size_t		len;
	FlResult	res;

	dec->batch = *batch;
	dec->sender = (FlSender) {
		.tenant = (const uint8 *) batch->tenant,.tenant_len = name_length(batch->tenant),
		.device = (const uint8 *) batch->device,.device_len = name_length(batch->device),
		.role = (const uint8 *) batch->role,.role_len = name_length(batch->role)
	};
	res = fl_batch_decode_header(batch->body, batch->body_len, &dec->info);
	if (res == FL_OK)
		res = fl_batch_inflate(&dec->info, batch->body, batch->body_len, fl_server_compressor(),
							   FL_MAX_BATCH_BYTES, &dec->raw, &records, &len);
	if (res != FL_OK)
		ereport(ERROR,
				(errcode(res == FL_UNSUPPORTED ? ERRCODE_FEATURE_NOT_SUPPORTED : ERRCODE_DATA_CORRUPTED),
				 errmsg("batch at offset " INT64_FORMAT " cannot be read (%s)",
						batch->base_offset, fl_result_name(res))));
	fl_record_iter_init(&dec->it, &dec->info, records, len);
}

bool
fl_batch_decoder_next(FlBatchDecoder *dec, FlLogRecord *rec)
{
	FlRecord	r;

	if (!fl_record_iter_next(&dec->it, &r))
	{
		if (dec->it.result != FL_OK)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("batch at offset " INT64_FORMAT " has a malformed record",
							dec->batch.base_offset)));
		return false;
	}
	rec->log_offset = dec->info.base_offset + r.offset_delta;
	rec->ts = dec->batch.append_ts;
	rec->leader_epoch = dec->batch.leader_epoch;
	fl_record_split(&r, dec->batch.foreign, &dec->sender, rec);
	return true;
}
