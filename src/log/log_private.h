/*-------------------------------------------------------------------------
 *
 * log_private.h
 *		What the files of src/log share among themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOG_PRIVATE_H
#define FLEETLOG_LOG_PRIVATE_H

#include "access/tableam.h"
#include "access/xlogreader.h"
#include "executor/tuptable.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#include "fleetlog/compat.h"
#include "fleetlog/log.h"
#include "fleetlog/log_format.h"
#include "fleetlog/log_scan.h"

struct LogicalDecodingContext;
struct XLogRecordBuffer;

/* ---- WAL (wal.c) ------------------------------------------------------- */

/*
 * Resource manager id.  128 is shared by everybody's experiments; 129, 137,
 * 138, 149 and 241 are in use elsewhere.
 */
#define FL_RMGR_ID			176
#define FL_RMGR_NAME		"fleetlog"

/* X(symbol, info, name, redo function): the only place that knows the records. */
#define FL_WAL_RECORDS(X) \
	X(XLOG_FL_META,		0x00, "META",	redo_meta) \
	X(XLOG_FL_SMALL,	0x10, "SMALL",	redo_small) \
	X(XLOG_FL_SPAN,		0x20, "SPAN",	redo_span) \
	X(XLOG_FL_CONT,		0x30, "CONT",	redo_cont) \
	X(XLOG_FL_GROW,		0x40, "GROW",	redo_grow) \
	X(XLOG_FL_DEAD,		0x50, "DEAD",	redo_dead)

enum
{
#define X(sym, info, name, redo) sym = info,
	FL_WAL_RECORDS(X)
#undef X
};

/* Pages of a spanning batch that one record initialises (33 block references at most). */
#define FL_SPAN_PAGES		32

/* XLOG_FL_META: block 0 is rewritten as a whole. */
typedef struct xl_fl_meta
{
	TransactionId horizon;		/* freezing: newest xid frozen, else invalid */
	uint32		len;			/* FL_META_SIZE */
	/* encoded meta follows */
} xl_fl_meta;

/*
 * XLOG_FL_SMALL is told in fleetlog/log_pack.h.
 *
 * XLOG_FL_SPAN, XLOG_FL_CONT: the bytes of the batch (head, sender, body; for
 * CONT a later part of them) follow, once, and serve redo and decoding alike.
 * Among the writer's functions it says where a small batch goes, too.
 */
typedef struct xl_fl_append
{
	int64		first_offset;
	int64		max_ts;			/* special: running maximum */
	uint32		shard;
	uint32		length;			/* of the whole batch */
	uint32		npages;			/* of the whole batch */
	uint32		page_no;		/* of the first page in this record */
	uint32		first_block;
	uint16		page_off;		/* where on the page its head lies */
	uint16		flags;			/* FL_XL_* */
} xl_fl_append;

#define FL_XL_NO_DECODE		0x0002	/* rows that nobody decodes */
#define FL_XL_RESERVE		0x0004	/* CONT: the first pages, initialised only */

/* XLOG_FL_GROW: one more record behind an uncompressed batch. */
typedef struct xl_fl_grow
{
	int64		offset;			/* of the new record */
	int64		append_ts;
	int64		created_ms;
	int64		max_timestamp;	/* of the batch now */
	int64		min_created;
	int64		max_created;
	uint32		shard;
	uint32		count;			/* of the batch now */
	uint16		page_off;		/* of the head */
	uint16		record_len;
	uint32		padding;
	/* encoded record follows */
} xl_fl_grow;

/* XLOG_FL_DEAD: heads on the page that are to be marked. */
typedef struct xl_fl_dead
{
	uint32		n;
	/* n uint16 page offsets follow */
} xl_fl_dead;

/* The writer and redo initialise pages of a spanning batch by this. */
extern void fl_page_init_span(uint8 *page, const xl_fl_append *x, uint32 i);

/* XLOG_FL_SMALL on an existing page and GROW patch bytes by these, as redo does. */
extern void fl_page_apply_grow(uint8 *page, uint16 page_off, const uint8 *record,
							   const xl_fl_grow *g);

extern void fl_wal_decode(struct LogicalDecodingContext *ctx, struct XLogRecordBuffer *buf);
extern void fl_wal_register(void);

/* Insert the registered record and stamp the page; PageSetLSN alone would insert it twice. */
#define fl_page_insert_wal(page, rmgr, info) \
	do { \
		XLogRecPtr	lsn_ = XLogInsert((rmgr), (info)); \
		PageSetLSN((page), lsn_); \
	} while (0)

/* ---- pages through shared buffers (buffer.c) ------------------------------ */

/* Raise 'data corrupted' with relation, block and what is wrong. */
FL_NORETURN extern void fl_report_corrupt(Relation rel, BlockNumber blk, FlResult res, const char *what);

/* Copy a page into `dst` under a share lock and check its special space. */
extern void fl_page_copy(Relation rel, BlockNumber blk, BufferAccessStrategy strategy,
						 uint8 *dst, FlPageInfo *info);

/* Meta page; false when the segment has none yet (no batch was ever written). */
extern bool fl_meta_read(Relation rel, FlMeta *meta);
extern void fl_meta_write(Relation rel, const FlMeta *meta, TransactionId horizon);

/* A query is being cancelled while it reads this segment: LF101 when it is for retention (trim.c). */
extern void fl_check_evicted(Oid leaf);

/* Set FL_BATCH_DEAD on heads of a page, WAL-logged. */
extern void fl_mark_dead(Relation rel, BlockNumber blk, const uint16 *offs, int n);

/* ---- visibility (visibility.c) -------------------------------------------- */

typedef enum FlXminState
{
	FL_XMIN_COMMITTED,
	FL_XMIN_ABORTED,
	FL_XMIN_OWN,				/* by the current transaction, not aborted */
	FL_XMIN_IN_PROGRESS
} FlXminState;

/* What became of an inserting transaction; blk tells where, for frozen segments. */
extern FlXminState fl_xmin_state(Relation rel, BlockNumber blk, TransactionId xmin);

/* Is a batch visible to the snapshot? head->flags, xmin and cmin decide. */
extern bool fl_batch_visible(Relation rel, BlockNumber blk, BlockNumber frozen_upto,
							 const FlBatchHead *head, Snapshot snapshot);

/* ---- batches in memory (batch.c) ------------------------------------------- */

/*
 * A batch as a scan holds it: head known, bytes loaded when asked for, records
 * inflated when asked for.  Reference counted, because a slot may outlive the
 * scan's step to the next batch.
 */
typedef struct FlBatch
{
	MemoryContext mcxt;			/* where buffers live */
	int			refcount;
	Relation	rel;			/* for loading the rest of a spanning batch */
	BufferAccessStrategy strategy;
	BlockNumber block;			/* first block */
	uint32		npages;
	int32		shard;
	FlBatchHead head;
	FlBatchInfo info;			/* record batch header; offsets as on disk */
	bool		header_known;	/* info is filled */
	bool		loaded;			/* bytes are all there */
	bool		inflated;
	uint8	   *bytes;			/* head, sender, body */
	size_t		bytes_cap;
	uint32		bytes_len;		/* how many are there */
	FlBuf		raw;			/* inflated records, when compressed */
	const uint8 *records;
	size_t		records_len;
	FlRecordIter iter;
	FlRecord	current;		/* record at iter.next - 1 */
	int32		current_index;	/* -1: none yet */
	uint32	   *starts;			/* where each record begins, once somebody goes backwards */
	int32		starts_cap;
	bool		starts_known;
	FlSender	sender;			/* of a foreign batch */
} FlBatch;

extern FlBatch *fl_batch_create(MemoryContext mcxt, Relation rel, BufferAccessStrategy strategy);
extern void fl_batch_release(FlBatch *batch);

/* Point the object at a batch whose first page is `page` (copied by caller). */
extern void fl_batch_set(FlBatch *batch, BlockNumber blk, const uint8 *page,
						 const FlPageInfo *info, uint32 at, const FlBatchHead *head, int32 shard);
extern void fl_batch_load(FlBatch *batch);
extern void fl_batch_get_record(FlBatch *batch, int32 index, FlLogRecord *out);
extern const FlAllocator fl_palloc_allocator;

/* A batch without a sender: none, or one in the headers of each record. */
extern const FlSender fl_no_sender;

/* Split a record of a batch into columns (shared by scan, reader and decoding). */
extern void fl_record_split(const FlRecord *rec, bool foreign, const FlSender *sender, FlLogRecord *out);

static inline int64
fl_batch_base(const FlBatch *batch)
{
	return batch->info.base_offset;
}

static inline const uint8 *
fl_batch_body(const FlBatch *batch)
{
	return batch->bytes + FL_HEAD_SIZE + batch->head.sender_len;
}

/* Number of records of the batch whose head lies at `p` (checked by fl_head_decode). */
static inline uint32
fl_head_record_count(const uint8 *p, const FlBatchHead *head)
{
	return fl_get_be32(p + FL_HEAD_SIZE + head->sender_len + 57);
}

static inline int64
fl_head_base_offset(const uint8 *p, const FlBatchHead *head)
{
	return (int64) fl_get_be64(p + FL_HEAD_SIZE + head->sender_len);
}

/* ---- columns (columns.c) ------------------------------------------------------ */

/* A row as INSERT and COPY bring it, flattened; the buffers are the caller's context. */
typedef struct FlRow
{
	int32		shard;
	int64		log_offset;
	TimestampTz ts;
	bool		has_ts;
	int64		created_ms;
	const uint8 *key;
	int32		key_len;
	const uint8 *payload;
	int32		payload_len;
	int			reserved;		/* headers: ours first */
	const uint8 *headers;		/* Kafka array with count, sender included */
	int32		headers_len;
	bool		claims_identity;	/* tenant, device or a reserved fl.* header is given */
} FlRow;

extern void fl_row_from_slot(TupleTableSlot *slot, FlRow *row);

/* Reserved headers with the sender in front, as records of our own batches have it. */
extern void fl_headers_with_sender(FlBuf *out, int *reserved,
								   const char *tenant, int32 tenant_len,
								   const char *device, int32 device_len,
								   int in_reserved, const uint8 *kafka, size_t kafka_len);

extern void fl_check_descriptor(Relation rel);

/* ---- writing (append.c, insert.c, tail.c, shard_lock.c) ------------------------- */

/* Open the leaf for the shard's next offset; sets the writer part. Lock held. */
extern void fl_writer_prepare(FlShard *shard);

/* The same without waiting for a relation's lock.  False: somebody has it. */
extern bool fl_writer_try_prepare(FlShard *shard);
extern Relation fl_writer_open_leaf(FlShard *shard);

struct FlLeafInfo;

/* A writer state of its own for importing into one leaf; next_offset -1: empty. */
extern void fl_writer_prepare_import(FlShard *local, Relation rel, const struct FlLeafInfo *leaf);

/* Make the segment that takes `offset`, behind the last one there is. */
extern void fl_segment_extend(Oid stream, int32 shard, int64 offset);

/* Write one batch that fits the leaf; returns the TID of its first record. */
extern void fl_write_batch(Relation rel, FlShard *shard, FlAppend *batch, CommandId cid,
						   ItemPointer first_tid);

/* Try to put one more record behind the last batch; false when it must be a new one. */
extern bool fl_write_grow(Relation rel, FlShard *shard, const FlRow *row, CommandId cid,
						  TimestampTz ts, ItemPointer tid);


/* ---- longer files (extend.c) --------------------------------------------------- */

/* See that the writer's leaf has at least n blocks. */
extern void fl_extend_to(Relation rel, FlShard *w, BlockNumber n);

/* A block to be initialised, zeroed and locked exclusively; the file grows as needed. */
extern Buffer fl_new_page(Relation rel, FlShard *w, BlockNumber blk);

/* TID of record `index` of a batch. */
static inline void
fl_tid_set(ItemPointer tid, BlockNumber blk, uint32 npages, uint16 first_item, int32 index)
{
	if (npages > 1)
		ItemPointerSet(tid, blk + index / FL_ITEMS_PER_PAGE,
					   (OffsetNumber) (index % FL_ITEMS_PER_PAGE + 1));
	else
		ItemPointerSet(tid, blk, (OffsetNumber) (first_item + index));
}

/* ---- slots (slot.c) -------------------------------------------------------------- */

extern void fl_slot_store(TupleTableSlot *slot, FlBatch *batch, int32 index, ItemPointer tid,
						  Oid tableoid);

/* ---- the access method (scan.c, insert.c, vacuum.c, tableam.c) -------------------- */

extern TableScanDesc fl_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
								   struct ScanKeyData *key, ParallelTableScanDesc pscan,
								   uint32 flags);
extern void fl_scan_end(TableScanDesc scan);
extern void fl_scan_rescan(TableScanDesc scan, struct ScanKeyData *key, bool set_params,
						   bool allow_strat, bool allow_sync, bool allow_pagemode);
extern bool fl_scan_getnextslot(TableScanDesc scan, ScanDirection direction, TupleTableSlot *slot);
extern bool fl_fetch_tid(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot);
extern bool fl_scan_sample_next_block(TableScanDesc scan, struct SampleScanState *state);
extern bool fl_scan_sample_next_tuple(TableScanDesc scan, struct SampleScanState *state,
									  TupleTableSlot *slot);
extern bool fl_scan_analyze_next_tuple(TableScanDesc scan, TransactionId oldest_xmin,
									   double *liverows, double *deadrows, TupleTableSlot *slot);
extern bool fl_scan_tid_valid(TableScanDesc scan, ItemPointer tid);
#if PG_VERSION_NUM >= 170000
struct ReadStream;
extern bool fl_scan_analyze_next_block(TableScanDesc scan, struct ReadStream *stream);
#else
extern bool fl_scan_analyze_next_block(TableScanDesc scan, BlockNumber blockno,
									   BufferAccessStrategy bstrategy);
#endif

extern void fl_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							struct BulkInsertStateData *bistate);
extern void fl_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
							int options, struct BulkInsertStateData *bistate);

struct VacuumParams;
extern void fl_relation_vacuum(Relation rel, struct VacuumParams *params,
							   BufferAccessStrategy bstrategy);

/* Block of the page that has `offset`, or InvalidBlockNumber; counts pages read. */
extern BlockNumber fl_seek_offset(Relation rel, int64 offset, int *pages_read);
extern BlockNumber fl_seek_time(Relation rel, TimestampTz at, int *pages_read);

/* The last block of the first nblocks that is written; 0 when none is. */
extern BlockNumber fl_seek_last(Relation rel, BlockNumber nblocks);

#endif							/* FLEETLOG_LOG_PRIVATE_H */
