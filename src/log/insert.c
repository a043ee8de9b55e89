/*-------------------------------------------------------------------------
 *
 * insert.c
 *		Rows that bring their own offset: INSERT, COPY, restore, logical apply.
 *
 * Three cases, decided per row by its offset:
 *
 *		the shard's next offset			an append like any other
 *		a leaf's own next offset, below the shard's tail
 *										history: a dump is being restored leaf by
 *										leaf, in any order
 *		an empty leaf					its first row sets where it begins; beyond
 *										the tail only while the stream is not
 *										registered (a dump brings that row too)
 *
 * Everything else is LF104.  Rows are written through: nothing is held over
 * calls.  A run of rows with one append time becomes one batch; a single row
 * joins the last batch of its own command while that fits the page.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "fleetlog/catalog.h"
#include "fleetlog/settings.h"
#include "log_private.h"
#include "xact.h"

/* Raw bytes of a batch made from rows; the server hands COPY over in 64 KB pieces. */
#define ROW_BATCH_BYTES		(128 * 1024)

/* Where a row goes. */
typedef struct Target
{
	FlShard    *shard;			/* the shard, locked */
	FlShard    *w;				/* writer state: the shard's, or an import's */
	FlShard		import;
	bool		is_import;
	int			codec;
	int32		max_record;
} Target;

/* ---- rights --------------------------------------------------------------------- */

/*
 * tenant, device and fl.* headers say who sent a record.  Only an import may
 * state them: the owner (restore), a superuser (apply), a member of
 * fleetlog_ingest.
 */
static bool
may_import(Relation rel)
{
	Oid			user = GetUserId();
	Oid			ingest;

	if (superuser_arg(user) || FL_OWNS_TABLE(RelationGetRelid(rel), user))
		return true;
	ingest = get_role_oid("fleetlog_ingest", true);
	return OidIsValid(ingest) && has_privs_of_role(user, ingest);
}

static void
check_identity_right(Relation rel)
{
	if (may_import(rel))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("must be a member of fleetlog_ingest to state the sender of a record"),
			 errhint("Leave tenant, device and fl.* headers out.")));
}

/*
 * The append clock never steps back, so one row from the future would move it
 * for every stream of the server.
 */
static void
check_future(Relation rel, TimestampTz ts)
{
	if (ts <= fl_wall_now() || may_import(rel))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("must be a member of fleetlog_ingest to state an append time in the future"),
			 errhint("Leave \"ts\" out; \"created\" takes the record's own time.")));
}

static void
check_row(Relation rel, const FlRow *row, const Target *t)
{
	Size		len = (row->key_len > 0 ? row->key_len : 0) +
		(row->payload_len > 0 ? row->payload_len : 0) + row->headers_len;

	if (row->claims_identity)
		check_identity_right(rel);
	if (row->has_ts)
		check_future(rel, row->ts);
	if (len > (Size) t->max_record)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("record of %zu bytes is larger than the limit of %d bytes", len, t->max_record),
				 errhint("Raise max_record_bytes of the stream or fleetlog.max_record_size.")));
}

/* ---- where to ---------------------------------------------------------------------- */

static void
not_next(Relation rel, int64 given, int64 next)
{
	if (next < 0)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_NOT_NEXT)),
				 errmsg("offset " INT64_FORMAT " is not one that segment \"%s\" can begin with",
						given, RelationGetRelationName(rel)),
				 errhint("Use fleetlog.append(), which finds the offset itself.")));
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_NOT_NEXT)),
			 errmsg("offset " INT64_FORMAT " is not the next offset of segment \"%s\"",
					given, RelationGetRelationName(rel)),
			 errdetail("The next offset is " INT64_FORMAT ".", next),
			 errhint("A stream is append-only; use fleetlog.append(), which finds the offset itself.")));
}

static void
check_bounds(Relation rel, const FlLeafInfo *leaf, const FlRow *row)
{
	if (row->shard < 0 || row->log_offset < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shard and log_offset of a record must not be negative")));
	if (leaf->shard >= 0 && leaf->shard != row->shard)
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("segment \"%s\" belongs to shard %d, not %d",
						RelationGetRelationName(rel), leaf->shard, row->shard)));
	if (leaf->upper > leaf->lower &&
		(row->log_offset < leaf->lower || row->log_offset >= leaf->upper))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("offset " INT64_FORMAT " lies outside segment \"%s\"",
						row->log_offset, RelationGetRelationName(rel))));
}

/* A leaf that was written before but holds another shard's records. */
static void
check_meta(Relation rel, int32 shard)
{
	FlMeta		meta;

	if (fl_meta_read(rel, &meta) && (int32) meta.shard != shard)
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("segment \"%s\" holds shard %u, not %d",
						RelationGetRelationName(rel), meta.shard, shard)));
}

/*
 * Is the offset one that this shard has never reached?  A shard without a row is
 * being restored: a parallel pg_restore may bring the row that registers the
 * stream first, then segments, then the shards' tails.
 */
static bool
beyond_tail(const FlShard *shard, int64 offset)
{
	FlShardRow	row;

	return offset > shard->next_offset &&
		fl_shard_row_read(shard->key.stream, shard->key.shard, &row) && offset > row.tail;
}

static void
find_target(Relation rel, const FlRow *row, Target *t)
{
	FlLeafInfo	leaf;
	const FlStreamInfo *info;
	Oid			stream;

	/* A materialized view, for instance. */
	if (!fl_leaf_lookup(RelationGetRelid(rel), &leaf))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" is not a segment", RelationGetRelationName(rel)),
				 errhint("Only tables use the access method fleetlog_log; create streams with fleetlog.create_stream().")));
	check_bounds(rel, &leaf, row);
	if (leaf.shard < 0)
	{
		/*
		 * Outside a stream only its first row says which shard it holds: one
		 * writer at a time, whatever shard he names.
		 */
		LockRelationOid(RelationGetRelid(rel), ShareUpdateExclusiveLock);
		check_meta(rel, row->shard);
	}
	stream = OidIsValid(leaf.stream) ? leaf.stream : RelationGetRelid(rel);
	info = fl_stream_lookup(stream);
	t->codec = info ? info->codec : FL_CODEC_LZ4;
	t->max_record = info && info->max_record_bytes > 0 ? info->max_record_bytes :
		fl_max_record_kb * 1024;
	t->shard = fl_shard_open(stream, row->shard,
							 info && info->durability == FL_DURABILITY_QUORUM);
	fl_shard_lock(t->shard, FL_LOCK_TIMEOUT);
	fl_writer_prepare(t->shard);

	if (t->shard->leaf == RelationGetRelid(rel) && FL_REL_FILE_NUMBER(rel) != t->shard->leaf_relnode)
	{
		t->shard->writer_valid = false;
		fl_writer_prepare(t->shard);
	}
	if (t->shard->leaf == RelationGetRelid(rel) &&
		(t->shard->leaf_has_rows || row->log_offset == t->shard->next_offset))
	{
		t->is_import = false;
		t->w = t->shard;
		if (row->log_offset != t->shard->next_offset)
			not_next(rel, row->log_offset, t->shard->next_offset);
		if (!t->shard->leaf_has_rows)
			check_meta(rel, row->shard);
		return;
	}

	/* History, or the first rows of a leaf. */
	memset(&t->import, 0, sizeof(t->import));
	t->import.key = t->shard->key;
	t->import.leader_epoch = t->shard->leader_epoch;
	t->is_import = true;
	t->w = &t->import;
	fl_writer_prepare_import(&t->import, rel, &leaf);
	if (t->import.next_offset >= 0 && row->log_offset != t->import.next_offset)
		not_next(rel, row->log_offset, t->import.next_offset);
	if (info != NULL && beyond_tail(t->shard, row->log_offset))
		not_next(rel, row->log_offset, t->shard->next_offset);
	if (t->import.next_offset < 0)
	{
		check_meta(rel, row->shard);
		t->import.next_offset = row->log_offset;
	}
}

/* Rows went around the shard's own state: it looks at the files again. */
static void
target_done(Target *t)
{
	if (t->is_import)
		t->shard->writer_valid = false;
}

/*
 * Append time of a row.  `batch` holds the rows before it that are not written
 * yet; those that bring no time share one.
 */
static TimestampTz
row_ts(const Target *t, const FlAppend *batch, const FlRow *row, Relation rel)
{
	bool		first = batch->nrecords == 0;

	if (!row->has_ts)
		return first ? Max(fl_clock_now(), t->w->last_ts) : batch->ts;
	if (row->ts < (first ? t->w->last_ts : batch->ts))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("append time of offset " INT64_FORMAT " of segment \"%s\" goes back",
						row->log_offset, RelationGetRelationName(rel)),
				 errhint("ts never decreases in a shard; \"created\" takes the record's own time.")));
	return row->ts;
}

/* ---- one more record behind the last batch ------------------------------------------- */

/* The last batch of the last page, when it is ours, of this command, and can grow. */
static bool
find_growable(const uint8 *page, const FlPageInfo *info, CommandId cid, TimestampTz ts,
			  uint32 *at, FlBatchHead *head, FlBatchInfo *binfo)
{
	uint32		pos = 0,
				here;
	FlBatchHead h;
	bool		any = false;

	memset(head, 0, sizeof(*head));
	*at = 0;
	while (fl_page_next_batch(page, info, &pos, &here, &h) == FL_OK)
	{
		any = true;
		*at = here;
		*head = h;
	}
	if (!any || head->xmin != GetCurrentTransactionId() || head->cmin != cid ||
		head->append_ts != ts || head->flags != 0)
		return false;
	if (fl_batch_decode_header(page + *at + FL_HEAD_SIZE + head->sender_len,
							   head->length - FL_HEAD_SIZE - head->sender_len, binfo) != FL_OK)
		return false;
	return binfo->codec == FL_CODEC_NONE;
}

static int64
merge_created(int64 have, int64 ms, bool want_min)
{
	if (ms == FL_NO_TIMESTAMP)
		return have;
	if (have == FL_NO_CREATED)
		return ms;
	return want_min ? Min(have, ms) : Max(have, ms);
}

bool
fl_write_grow(Relation rel, FlShard *w, const FlRow *row, CommandId cid,
			  TimestampTz ts, ItemPointer tid)
{
	Buffer		buf;
	Page		page;
	FlPageInfo	info;
	FlBatchHead head;
	FlBatchInfo binfo;
	FlBuf		rec;
	uint32		at;
	xl_fl_grow	x = {0};

	if (!w->last_block_open || w->last_block == 0 || w->last_items >= FL_ITEMS_PER_PAGE ||
		w->last_ts != ts)
		return false;
	fl_buf_init(&rec, &fl_palloc_allocator, MaxAllocSize);
	buf = ReadBuffer(rel, w->last_block);
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buf);
	if (fl_page_read((uint8 *) page, &info) != FL_OK || info.kind != FL_PAGE_BATCHES ||
		!find_growable((uint8 *) page, &info, cid, ts, &at, &head, &binfo) ||
		fl_batch_encode_record(&rec, binfo.record_count, row->created_ms - binfo.base_timestamp,
							   (uint8) row->reserved, row->key, row->key_len,
							   row->payload, row->payload_len,
							   row->headers, row->headers_len) != FL_OK ||
		rec.len > w->last_free || rec.len > PG_UINT16_MAX)
	{
		UnlockReleaseBuffer(buf);
		fl_buf_free(&rec);
		return false;
	}
	x.offset = w->next_offset;
	x.append_ts = ts;
	x.created_ms = row->created_ms;
	x.max_timestamp = (binfo.attributes & FL_BATCH_APPEND_TIME) ? binfo.max_timestamp :
		Max(binfo.max_timestamp, row->created_ms);
	x.min_created = merge_created(head.min_created, row->created_ms, true);
	x.max_created = merge_created(head.max_created, row->created_ms, false);
	x.shard = (uint32) w->key.shard;
	x.count = (uint32) binfo.record_count + 1;
	x.page_off = (uint16) at;
	x.record_len = (uint16) rec.len;

	START_CRIT_SECTION();
	fl_page_apply_grow((uint8 *) page, x.page_off, rec.data, &x);
	MarkBufferDirty(buf);
	if (RelationNeedsWAL(rel))
	{
		XLogBeginInsert();
		XLogRegisterBuffer(0, buf, REGBUF_STANDARD);
		XLogRegisterData((char *) &x, sizeof(x));
		XLogRegisterData((char *) rec.data, rec.len);
		XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		fl_page_insert_wal(page, FL_RMGR_ID, XLOG_FL_GROW);
	}
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buf);

	w->last_items++;
	w->last_free -= rec.len;
	w->next_offset++;
	ItemPointerSet(tid, w->last_block, (OffsetNumber) w->last_items);
	pgstat_count_heap_insert(rel, 1);
	fl_buf_free(&rec);
	return true;
}

/* ---- callbacks of the access method ---------------------------------------------------- */

/* Add a row to a builder; false when it is full. */
static bool
builder_add(FlBatchBuilder *b, const FlRow *row, FlAppend *a)
{
	FlResult	res = fl_batch_builder_add(b, row->created_ms, row->key, row->key_len,
										   row->payload, row->payload_len,
										   (uint8) row->reserved, row->headers, row->headers_len);

	if (res == FL_TOO_LARGE && b->count > 0)
		return false;
	if (res != FL_OK)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("record cannot be encoded (%s)", fl_result_name(res))));
	a->min_created = merge_created(a->min_created, row->created_ms, true);
	a->max_created = merge_created(a->max_created, row->created_ms, false);
	a->nrecords++;
	return true;
}

static void
builder_write(Relation rel, Target *t, FlBatchBuilder *b, FlAppend *a, CommandId cid,
			  TupleTableSlot **slots)
{
	FlBuf		out;
	ItemPointerData tid;
	uint32		npages;
	uint16		item;

	fl_buf_init(&out, &fl_palloc_allocator, FL_MAX_BATCH_BYTES);
	if (fl_batch_builder_finish(b, t->codec, fl_server_compressor(), &out) != FL_OK)
		elog(ERROR, "record batch cannot be finished");
	a->body = out.data;
	a->body_len = (uint32) out.len;
	npages = fl_batch_pages(FL_HEAD_SIZE + a->body_len, a->nrecords);
	fl_write_batch(rel, t->w, a, cid, &tid);
	item = ItemPointerGetOffsetNumber(&tid);
	for (uint32 i = 0; i < a->nrecords; i++)
	{
		fl_tid_set(&slots[i]->tts_tid, ItemPointerGetBlockNumber(&tid), npages, item, (int32) i);
		slots[i]->tts_tableOid = RelationGetRelid(rel);
	}
	fl_buf_free(&out);
	fl_batch_builder_reset(b);
	*a = (FlAppend) {.min_created = FL_NO_CREATED,.max_created = FL_NO_CREATED};
}

/* Rows of one call that follow each other, from `first` on; returns how many were written. */
static int
insert_run(Relation rel, TupleTableSlot **slots, int first, int nslots, CommandId cid)
{
	Target		t;
	FlRow		row;
	FlBatchBuilder b;
	FlAppend	a = {.min_created = FL_NO_CREATED,.max_created = FL_NO_CREATED};
	int			done = first;
	int			start = first;

	fl_row_from_slot(slots[first], &row);
	find_target(rel, &row, &t);
	check_row(rel, &row, &t);
	fl_xact_note_write(t.shard);
	if (nslots - first == 1)
	{
		TimestampTz ts = row_ts(&t, &a, &row, rel);

		if (fl_write_grow(rel, t.w, &row, cid, ts, &slots[first]->tts_tid))
		{
			slots[first]->tts_tableOid = RelationGetRelid(rel);
			target_done(&t);
			return first + 1;
		}
	}
	fl_batch_builder_init(&b, &fl_palloc_allocator, FL_MAX_BATCH_BYTES);
	while (done < nslots)
	{
		TimestampTz ts;

		if (done > first)
		{
			fl_row_from_slot(slots[done], &row);
			if (row.shard != t.shard->key.shard ||
				row.log_offset != t.w->next_offset + a.nrecords)
				break;			/* looked at as a run of its own */
			check_row(rel, &row, &t);
		}
		ts = row_ts(&t, &a, &row, rel);
		if (a.nrecords > 0 &&
			(ts != a.ts || fl_batch_builder_bytes(&b) > ROW_BATCH_BYTES))
		{
			builder_write(rel, &t, &b, &a, cid, slots + start);
			start = done;
		}
		a.ts = ts;
		if (!builder_add(&b, &row, &a))
			elog(ERROR, "record batch is full");
		done++;
	}
	if (a.nrecords > 0)
		builder_write(rel, &t, &b, &a, cid, slots + start);
	fl_batch_builder_free(&b);
	target_done(&t);
	return done;
}

void
fl_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
				int options, struct BulkInsertStateData *bistate)
{
	/* Rows are flattened and encoded in a context of their own. */
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog insert",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(mcxt);

	fl_require_preload();
	for (int i = 0; i < nslots;)
		i = insert_run(rel, slots, i, nslots, cid);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(mcxt);
}

void
fl_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				struct BulkInsertStateData *bistate)
{
	fl_multi_insert(rel, &slot, 1, cid, options, bistate);
}
