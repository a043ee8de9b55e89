/*-------------------------------------------------------------------------
 *
 * append.c
 *		Putting batches on pages.
 *
 * A batch that fits one page joins others on it (BATCHES); a larger one gets
 * pages of its own (FIRST, CONT).  The WAL record has the batch once; pages of
 * a spanning batch beyond the first FL_SPAN_PAGES are logged before, the page
 * with its head last, so that no reader, at whatever point a crash or a restore
 * to a point in time stopped, finds a head whose pages are missing.  Such a batch
 * first initialises the pages that it will fill last, so that zero pages lie
 * behind the last written page only (extend.c).
 *
 * Item numbers and blocks are never reused, also after an abort; offsets are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/guest.h"
#include "fleetlog/log_pack.h"
#include "fleetlog/settings.h"
#include "log_private.h"
#include "xact.h"

/* Room for head and the longest sender (tenant and device are bounded). */
#define PREFIX_MAX	(FL_HEAD_SIZE + 6 + FL_TENANT_MAX + FL_DEVICE_MAX + FL_ROLE_MAX + 64)

/* A batch as bytes: prefix (head and sender) and body. */
typedef struct Pieces
{
	uint8		prefix[PREFIX_MAX];
	uint32		prefix_len;
	const uint8 *body;
	uint32		body_len;
	bool		hidden;			/* from logical decoding */
} Pieces;

static void
pieces_copy(const Pieces *p, uint32 off, uint32 len, uint8 *dst)
{
	if (off < p->prefix_len)
	{
		uint32		n = Min(len, p->prefix_len - off);

		memcpy(dst, p->prefix + off, n);
		dst += n;
		off += n;
		len -= n;
	}
	if (len > 0)
		memcpy(dst, p->body + (off - p->prefix_len), len);
}

static void
pieces_register(const Pieces *p, uint32 off, uint32 len)
{
	if (off < p->prefix_len)
	{
		uint32		n = Min(len, p->prefix_len - off);

		XLogRegisterData((char *) p->prefix + off, n);
		off += n;
		len -= n;
	}
	if (len > 0)
		XLogRegisterData((char *) p->body + (off - p->prefix_len), len);
}

/* ---- pages ------------------------------------------------------------------ */

/* Block 0 at the first batch of a segment, or when its first try was aborted. */
static void
ensure_meta(Relation rel, FlShard *w, int32 shard, int64 base)
{
	FlMeta		meta;

	if (w->leaf_has_rows)
		return;
	if (fl_meta_read(rel, &meta))
	{
		if (meta.flags & FL_META_SEALED)
			ereport(ERROR,
					(errcode(fl_error_sqlstate(FL_ERR_APPEND_ONLY)),
					 errmsg("segment \"%s\" is sealed", RelationGetRelationName(rel))));
		if ((int32) meta.shard == shard && meta.base_offset == base)
			return;
		meta.shard = (uint32) shard;
		meta.base_offset = base;
	}
	else
		meta = (FlMeta) {.shard = (uint32) shard,.base_offset = base};
	fl_meta_write(rel, &meta, InvalidTransactionId);
	w->leaf_nblocks = Max(w->leaf_nblocks, 1);
}

/* ---- one batch -------------------------------------------------------------- */

/* Register a small batch as redo wants it: short form, sender, records. */
static void
register_small(const Pieces *p, const FlBatchHead *head, const xl_fl_append *x, bool fresh,
			   uint8 *packed_bytes)
{
	FlPacked	packed = {.head = *head};
	uint32		skip = p->prefix_len + FL_BATCH_HEADER_SIZE;
	size_t		n;

	/* It was decoded when the batch was stamped, so it is one. */
	(void) fl_batch_decode_header(p->body, p->body_len, &packed.info);
	packed.flags = (fresh ? FL_PACK_INIT_PAGE : 0) | (p->hidden ? FL_PACK_NO_DECODE : 0);
	packed.shard = x->shard;
	packed.page_off = x->page_off;
	packed.max_ts = x->max_ts;
	n = fl_pack_encode(packed_bytes, &packed);
	XLogRegisterData((char *) packed_bytes, n);
	if (head->sender_len > 0)
		XLogRegisterData((char *) p->prefix + FL_HEAD_SIZE, head->sender_len);
	if (x->length > skip)
		pieces_register(p, skip, x->length - skip);
}

static void
write_small(Relation rel, FlShard *w, const Pieces *p, const FlBatchHead *head, xl_fl_append *x,
			bool fresh, uint32 count)
{
	uint8		packed[FL_PACK_MAX];
	Buffer		buf;
	Page		page;
	FlPageInfo	info = {.kind = FL_PAGE_BATCHES,.npages = 1};

	if (fresh)
		buf = fl_new_page(rel, w, x->first_block);
	else
	{
		buf = ReadBuffer(rel, x->first_block);
		LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
		if (fl_page_read((uint8 *) BufferGetPage(buf), &info) != FL_OK ||
			info.kind != FL_PAGE_BATCHES || info.lower != x->page_off)
			elog(ERROR, "block %u of segment \"%s\" does not end at byte %u",
				 x->first_block, RelationGetRelationName(rel), x->page_off);
	}
	page = BufferGetPage(buf);
	info.max_ts = x->max_ts;

	START_CRIT_SECTION();
	if (fresh)
	{
		PageInit(page, BLCKSZ, FL_PAGE_SPECIAL_SIZE);
		info.first_block = x->first_block;
		info.first_offset = x->first_offset;
	}
	fl_page_write_special((uint8 *) page, &info);
	pieces_copy(p, 0, x->length, (uint8 *) page + x->page_off);
	fl_page_set_lower((uint8 *) page, (uint16) (x->page_off + x->length));
	MarkBufferDirty(buf);
	if (RelationNeedsWAL(rel))
	{
		XLogBeginInsert();
		XLogRegisterBuffer(0, buf, REGBUF_STANDARD | (fresh ? REGBUF_WILL_INIT : 0));
		register_small(p, head, x, fresh, packed);
		XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		fl_page_insert_wal(page, FL_RMGR_ID, XLOG_FL_SMALL);
	}
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buf);

	w->last_block = x->first_block;
	w->last_block_open = true;
	w->last_free = FL_PAGE_DATA_END - (x->page_off + x->length);
	w->last_items = fresh ? (int32) count : w->last_items + (int32) count;
}

/*
 * Pages page_no .. page_no + n - 1 of a spanning batch, in one record.  Reserving
 * them only initialises them: nothing is to be read there yet, but no page in
 * front of a written one is ever all zero.
 */
static void
write_span_part(Relation rel, FlShard *w, const Pieces *p, xl_fl_append *x, uint32 page_no,
				uint32 n, bool reserve)
{
	Buffer		bufs[FL_SPAN_PAGES];
	uint32		off = page_no * FL_PAGE_CAPACITY;
	uint32		len = reserve || off >= x->length ? 0 : Min(x->length - off, n * FL_PAGE_CAPACITY);

	x->page_no = page_no;
	x->flags = (reserve ? FL_XL_RESERVE : 0) | (p->hidden ? FL_XL_NO_DECODE : 0);
	for (uint32 i = 0; i < n; i++)
		bufs[i] = fl_new_page(rel, w, x->first_block + page_no + i);
	if (RelationNeedsWAL(rel))
		XLogEnsureRecordSpace(n, 20);

	START_CRIT_SECTION();
	for (uint32 i = 0; i < n; i++)
	{
		Page		page = BufferGetPage(bufs[i]);
		uint32		at = i * FL_PAGE_CAPACITY;
		uint32		here = at >= len ? 0 : Min(len - at, FL_PAGE_CAPACITY);

		fl_page_init_span((uint8 *) page, x, i);
		if (here > 0)
			pieces_copy(p, off + at, here, (uint8 *) page + FL_PAGE_HEADER_SIZE);
		fl_page_set_lower((uint8 *) page, (uint16) (FL_PAGE_HEADER_SIZE + here));
		MarkBufferDirty(bufs[i]);
	}
	if (RelationNeedsWAL(rel))
	{
		XLogRecPtr	lsn;

		XLogBeginInsert();
		for (uint32 i = 0; i < n; i++)
			XLogRegisterBuffer(i, bufs[i], REGBUF_STANDARD | REGBUF_WILL_INIT);
		XLogRegisterData((char *) x, sizeof(*x));
		if (len > 0)
			pieces_register(p, off, len);
		XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		lsn = XLogInsert(FL_RMGR_ID, page_no == 0 && !reserve ? XLOG_FL_SPAN : XLOG_FL_CONT);
		for (uint32 i = 0; i < n; i++)
			PageSetLSN(BufferGetPage(bufs[i]), lsn);
	}
	END_CRIT_SECTION();
	for (uint32 i = 0; i < n; i++)
		UnlockReleaseBuffer(bufs[i]);
}

static void
write_span(Relation rel, FlShard *w, const Pieces *p, xl_fl_append *x)
{
	/* All of them at once, so that one large batch is not taken for a high rate. */
	fl_extend_to(rel, w, x->first_block + x->npages);
	if (x->npages > FL_SPAN_PAGES)
	{
		write_span_part(rel, w, p, x, 0, FL_SPAN_PAGES, true);
		for (uint32 at = FL_SPAN_PAGES; at < x->npages; at += FL_SPAN_PAGES)
			write_span_part(rel, w, p, x, at, Min(x->npages - at, FL_SPAN_PAGES), false);
		FL_STOP_POINT("append_between_parts");
	}
	write_span_part(rel, w, p, x, 0, Min(x->npages, FL_SPAN_PAGES), false);
	w->last_block = x->first_block + x->npages - 1;
	w->last_block_open = false;
	w->last_items = FL_ITEMS_PER_PAGE;
	w->last_free = 0;
}

/* Does the stream's clock go into the batch's header, as Kafka's LogAppendTime does? */
static bool
stamps_append_time(FlShard *w)
{
	const FlStreamInfo *info = fl_stream_lookup(w->key.stream);

	return info == NULL || info->timestamp_type == FL_TIMESTAMP_APPEND;
}

static int64
timestamptz_to_ms(TimestampTz ts)
{
	return ts / 1000 + ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)) * SECS_PER_DAY * 1000;
}

/*
 * Write a batch that fits the leaf at the writer's next offset.  `w` is the
 * shard, or an import's own state for the leaf.  batch->ts must be set.
 */
void
fl_write_batch(Relation rel, FlShard *w, FlAppend *batch, CommandId cid, ItemPointer first_tid)
{
	Pieces		p;
	FlBatchHead head = {0};
	xl_fl_append x = {0};
	bool		fresh = false;
	TransactionId xid = GetCurrentTransactionId();
	int64		base = w->next_offset;

	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
	if (fl_batch_stamp(batch->body, batch->body_len, base, w->leader_epoch,
					   stamps_append_time(w), timestamptz_to_ms(batch->ts)) != FL_OK)
		elog(ERROR, "record batch cannot be stamped");

	head.sender_len = batch->foreign ?
		(uint16) fl_sender_size(batch->sender_tenant, batch->sender_device, batch->sender_role) : 0;
	p.prefix_len = FL_HEAD_SIZE + head.sender_len;
	if (p.prefix_len + FL_BODY_PREFIX > PREFIX_MAX)
		elog(ERROR, "sender of a batch is too long");
	head.length = p.prefix_len + batch->body_len;
	if (head.length > FL_MAX_BATCH_BYTES)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("record batch of %u bytes is too large", batch->body_len)));
	head.xmin = xid;
	head.cmin = cid;
	head.version = FL_BATCH_VERSION;
	head.flags = batch->foreign ? FL_BATCH_FOREIGN : 0;
	head.append_ts = batch->ts;
	head.min_created = batch->min_created;
	head.max_created = batch->max_created;

	x.first_offset = base;
	x.max_ts = Max(w->run_max_ts, batch->ts);
	x.shard = (uint32) w->key.shard;
	x.length = head.length;
	x.npages = fl_batch_pages(head.length, batch->nrecords);

	ensure_meta(rel, w, w->key.shard, base);
	if (x.npages == 1 && w->last_block_open && head.length <= w->last_free &&
		w->last_items + (int32) batch->nrecords <= FL_ITEMS_PER_PAGE)
	{
		x.first_block = w->last_block;
		x.page_off = (uint16) (FL_PAGE_DATA_END - w->last_free);
		head.first_item = (uint16) (w->last_items + 1);
	}
	else
	{
		x.first_block = Max(w->last_block, 0) + 1;
		x.page_off = FL_PAGE_HEADER_SIZE;
		fresh = true;
		head.first_item = 1;
	}
	p.hidden = batch->hidden;
	p.body = batch->body;
	p.body_len = batch->body_len;
	fl_head_encode(p.prefix, &head);
	if (head.sender_len > 0)
		fl_sender_encode(p.prefix + FL_HEAD_SIZE, batch->sender_tenant, batch->sender_device, batch->sender_role);
	/* The CRC reads the first bytes of the body right behind the prefix. */
	memcpy(p.prefix + p.prefix_len, batch->body, FL_BODY_PREFIX);
	head.crc = fl_head_crc(p.prefix, head.sender_len);
	fl_head_encode(p.prefix, &head);

	if (first_tid)
		fl_tid_set(first_tid, x.first_block, x.npages, head.first_item, 0);
	if (x.npages == 1)
		write_small(rel, w, &p, &head, &x, fresh, batch->nrecords);
	else
		write_span(rel, w, &p, &x);

	w->leaf_has_rows = true;
	w->next_offset = base + batch->nrecords;
	w->last_ts = batch->ts;
	w->unsaved_bytes += batch->body_len;
	w->run_max_ts = x.max_ts;
	fl_disk_reserve_wrote(XactLastRecEnd);
	pgstat_count_heap_insert(rel, batch->nrecords);
}

/* ---- the entry for everybody ---------------------------------------------------- */

static void
append_split(FlShard *shard, FlAppend *batch, int32 first)
{
	FlBuf		a,
				b;
	FlAppend	part = *batch;
	FlResult	res;

	fl_buf_init(&a, &fl_palloc_allocator, FL_MAX_BATCH_BYTES);
	fl_buf_init(&b, &fl_palloc_allocator, FL_MAX_BATCH_BYTES);
	res = fl_batch_split(batch->body, batch->body_len, fl_server_compressor(),
						 FL_MAX_BATCH_BYTES, first, &a, &b);
	if (res != FL_OK)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(res == FL_UNSUPPORTED ? FL_ERR_UNSUPPORTED : FL_ERR_MALFORMED)),
				 errmsg("record batch cannot be divided between two segments (%s)",
						fl_result_name(res))));
	part.body = a.data;
	part.body_len = (uint32) a.len;
	part.nrecords = (uint32) first;
	fl_log_append(shard, &part);
	part = *batch;
	part.body = b.data;
	part.body_len = (uint32) b.len;
	part.nrecords = batch->nrecords - (uint32) first;
	fl_log_append(shard, &part);
	fl_buf_free(&a);
	fl_buf_free(&b);
}

/* First batch in a leaf: keep the floor of the tail where pg_dump finds it. */
static void
note_leaf_switch(FlShard *shard)
{
	FlLeafInfo	leaf;
	FlShardRow	row;

	if (fl_leaf_lookup(shard->key.stream, &leaf))
		return;					/* a leaf of its own has no row */
	if (fl_stream_lookup(shard->key.stream) == NULL)
		return;					/* a dump is being restored; its rows bring it */
	if (!fl_shard_row_read(shard->key.stream, shard->key.shard, &row))
		return;					/* so does this one, registered already */
	fl_shard_row_raise(shard->key.stream, shard->key.shard, 0, shard->next_offset);
}

int64
fl_log_append(FlShard *shard, FlAppend *batch)
{
	Relation	rel;
	int64		base;

	Assert(fl_shard_lock_held(shard));
	rel = fl_writer_open_leaf(shard);
	base = shard->next_offset;
	if (base + batch->nrecords > shard->leaf_upper)
	{
		table_close(rel, NoLock);
		append_split(shard, batch, (int32) (shard->leaf_upper - base));
		return base;
	}
	if (batch->ts == 0)
		batch->ts = fl_clock_now();
	batch->ts = Max(batch->ts, shard->last_ts);
	if (!shard->leaf_has_rows && base > 0)
		note_leaf_switch(shard);
	fl_xact_note_write(shard);
	fl_write_batch(rel, shard, batch, GetCurrentCommandId(true), NULL);
	table_close(rel, NoLock);

	pg_atomic_fetch_add_u64(&shard->n_records, batch->nrecords);
	pg_atomic_fetch_add_u64(&shard->n_batches, 1);
	pg_atomic_fetch_add_u64(&shard->n_bytes, batch->body_len);
	if (!shard->want_segment &&
		shard->next_offset - shard->leaf_lower > (shard->leaf_upper - shard->leaf_lower) / 2)
	{
		shard->want_segment = true;
		fl_worker_wake(FL_WORKER_KEEPER, 0);
	}
	return base;
}

/*
 * Lock the segment as an append does, unless somebody is in the way; the lock stays
 * until the end of the transaction.  False also when its file is no longer the one
 * that the writer's state was made for.
 */
static bool
lock_leaf_briefly(FlShard *shard)
{
	Relation	rel;
	bool		same;

	if (!ConditionalLockRelationOid(shard->leaf, RowExclusiveLock))
		return false;
	rel = try_table_open(shard->leaf, NoLock);
	if (rel == NULL)
		return false;
	same = FL_REL_FILE_NUMBER(rel) == shard->leaf_relnode;
	table_close(rel, NoLock);
	return same;
}

bool
fl_log_is_ready(FlShard *shard, uint32 nrecords)
{
	return shard->writer_valid && OidIsValid(shard->leaf) &&
		shard->next_offset + nrecords <= shard->leaf_upper &&
		(shard->leaf_has_rows || shard->next_offset == 0) && lock_leaf_briefly(shard);
}

bool
fl_log_is_blocked(FlShard *shard)
{
	return !fl_writer_try_prepare(shard) ||
		(OidIsValid(shard->leaf) && !ConditionalLockRelationOid(shard->leaf, RowExclusiveLock));
}

int64
fl_log_next_offset(FlShard *shard)
{
	fl_writer_prepare(shard);
	return shard->next_offset;
}
