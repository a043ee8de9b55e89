/*-------------------------------------------------------------------------
 *
 * log.h
 *		The log as the rest of fleetlog sees it: lock a shard, append a batch,
 *		read batches from an offset, seek by time.  The page and batch format is
 *		in log_format.h and docs/formats.md; nobody outside src/log touches a page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOG_H
#define FLEETLOG_LOG_H

#include "datatype/timestamp.h"
#include "storage/block.h"
#include "storage/bufmgr.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "fleetlog/catalog.h"
#include "fleetlog/errors.h"
#include "fleetlog/record_batch.h"
#include "fleetlog/shmem.h"

/* Attribute numbers of a stream (REQUIREMENTS L2), fixed. */
typedef enum FlAttr
{
	FL_ATT_SHARD = 1,
	FL_ATT_OFFSET,
	FL_ATT_TS,
	FL_ATT_CREATED,
	FL_ATT_TENANT,
	FL_ATT_DEVICE,
	FL_ATT_KEY,
	FL_ATT_KEY_BYTES,
	FL_ATT_HEADERS,
	FL_ATT_PAYLOAD,
	FL_NATTS = FL_ATT_PAYLOAD
} FlAttr;

/* ---- Appending --------------------------------------------------------- */

/*
 * A batch ready to be written.  `body` is a record batch v2 whose base offset,
 * leader epoch and (append time) maximum timestamp are set by fl_log_append in
 * place, so it must be writable; it is borrowed for the call.
 */
typedef struct FlAppend
{
	uint8	   *body;
	uint32		body_len;
	uint32		nrecords;
	int64		min_created;	/* ms since 1970, FL_NO_CREATED if no record has one */
	int64		max_created;
	TimestampTz ts;				/* append time; 0 = the append clock (restore sets it) */
	const char *sender_tenant;	/* for a producer's own batch; NULL in our own */
	const char *sender_device;
	const char *sender_role;
	bool		foreign;		/* a producer's own batch: attributes are not ours */
	bool		hidden;			/* not seen by logical decoding */
} FlAppend;

typedef enum FlLockWait
{
	FL_LOCK_NOWAIT,				/* false when somebody else has it */
	FL_LOCK_TIMEOUT				/* fleetlog.shard_lock_timeout, then LF106 */
} FlLockWait;

/*
 * Take the shard's transactional lock (released at commit or abort).  It gives
 * the right to append; commit order is offset order because it is kept until
 * the transaction is visible.  Lock order for everybody: (stream oid, shard)
 * ascending.
 */
extern bool fl_shard_lock(FlShard *shard, FlLockWait wait);
extern bool fl_shard_lock_held(FlShard *shard);

/*
 * Append a batch to the shard; the lock must be held.  Returns the offset of
 * its first record.  Splits the batch where a segment ends.  Raises LF105,
 * 53100, ... ; on error the (sub)transaction must abort.
 */
extern int64 fl_log_append(FlShard *shard, FlAppend *batch);

/*
 * Will an append of so many records find everything prepared: the tail known, a
 * segment in use that has room, and its relation lock, which is taken here for the
 * rest of the transaction if it is to be had at once?  The shard's lock is held.  A
 * process that serves sockets asks before each append; after a yes it waits for
 * no lock.
 */
extern bool fl_log_is_ready(FlShard *shard, uint32 nrecords);

/*
 * Is the segment that takes the next record locked by somebody's DDL or LOCK TABLE,
 * so that an append would wait?  Or one in which the tail has to be looked for first?
 * The shard's lock is held.  Relation locks that were to be had are kept until the end
 * of the transaction.  May raise what reading the log raises.
 */
extern bool fl_log_is_blocked(FlShard *shard);

/*
 * Raise the head of a shard, whose lock is held, up to `head`, but not over a
 * held record: hold->id says which hold stopped it, 0: none.  Returns the head
 * as it is then; readers see it when the transaction has committed.
 */
extern int64 fl_log_raise_head(FlShard *shard, int64 head, FlHold *hold);

/* Raises LF101 with the oldest offset as detail. */
extern void fl_log_too_old(Oid stream, int32 shard, int64 offset, int64 head);

/* What the keeper needs to know of a segment. */
typedef struct FlSegmentStat
{
	BlockNumber blocks;
	int64		first_offset;	/* -1: it holds no batch; the others are unset then */
	TimestampTz first_ts;		/* append time of its first batch */
	TimestampTz last_ts;		/* latest append time */
} FlSegmentStat;

/* False when the segment is gone.  Takes AccessShareLock for the time of the call. */
extern bool fl_log_segment_stat(Oid leaf, FlSegmentStat *stat);

/*
 * Records a second since the segment began (of a burst: fewer), and stored bytes per record, where
 * `tail` is the shard's next offset; zeros: not known.
 */
extern void fl_log_segment_rate(const FlStreamInfo *stream, Oid leaf, int64 tail, double *rate, double *record_bytes);

/* Next offset to be given out; lock held. */
extern int64 fl_log_next_offset(FlShard *shard);

/* ---- Reading ------------------------------------------------------------ */

/* Where a reader stands; offset is the truth, the rest a hint that may be stale. */
typedef struct FlLogPosition
{
	int64		offset;
	Oid			leaf;
	BlockNumber block;
} FlLogPosition;

/* A stored batch, contiguous in the reader's memory until the next call. */
typedef struct FlStoredBatch
{
	int64		base_offset;
	int32		count;
	int32		leader_epoch;
	TimestampTz append_ts;
	int64		min_created;
	int64		max_created;
	bool		foreign;
	const char *tenant;			/* sender of a foreign batch, else NULL */
	const char *device;
	const char *role;
	const uint8 *body;			/* record batch v2 */
	uint32		body_len;
} FlStoredBatch;

typedef struct FlLogReader FlLogReader;

/*
 * Read batches of a shard from pos->offset up to (not including) `limit`, which
 * must not lie beyond the durable tail: below it no snapshot is needed, what is
 * not marked dead is committed.  In a transaction; memory is a child of the
 * current context; end it before the transaction ends.  The first batch may
 * begin below pos->offset: skip its first records.  fl_log_reader_next moves
 * pos past the batch it returns.
 * Raises LF101 (detail: oldest offset) when pos->offset is below the head.
 */
extern FlLogReader *fl_log_reader_begin(Oid stream, int32 shard, FlLogPosition *pos, int64 limit);
extern bool fl_log_reader_next(FlLogReader *reader, FlStoredBatch *out);

/*
 * For who must not be held up: look at no more than so many pages.  Where an append
 * of millions was aborted there may be as many in a row without a batch; then
 * fl_log_reader_next ends, fl_log_reader_stopped says why, and pos keeps how far it
 * has come, for the next reader.
 */
extern void fl_log_reader_bound(FlLogReader *reader, uint32 pages);
extern bool fl_log_reader_stopped(const FlLogReader *reader);

/*
 * For who must not be held up by a lock on a segment, either: where somebody has it,
 * the reader stops before the segment, and is locked.  To be said before the first
 * batch.
 */
extern void fl_log_reader_nowait(FlLogReader *reader);
extern bool fl_log_reader_locked(const FlLogReader *reader);

/*
 * Batches none of whose records has a time of its own at or after `ms` (since 1970)
 * are passed over, and of those only heads are read.  May be raised between batches.
 */
extern void fl_log_reader_created_from(FlLogReader *reader, int64 ms);

/*
 * For who wants to know which batches there are: of each, body begins with the record
 * batch's header and ends where its page does, and senders are left out.  To be said
 * before the first batch.
 */
extern void fl_log_reader_heads(FlLogReader *reader);

/*
 * For who reads much that nobody else wants soon: pages that have to be fetched go
 * through a few buffers.  To be said before the first batch.  Where one pass has many
 * readers they share a ring, which is the caller's: else each would take buffers anew.
 */
extern void fl_log_reader_bulk(FlLogReader *reader);
extern void fl_log_reader_share_ring(FlLogReader *reader, BufferAccessStrategy ring);
extern void fl_log_reader_end(FlLogReader *reader);

/*
 * One record of a stored batch, columns split off: tenant and device are the
 * sender's, headers exclude them.  Pointers borrow from the inflated batch.
 *
 * The role of a foreign batch counts as one more header of ours, fl.role, in front of
 * `headers`, which are as the producer sent them: fl_record_put_headers has both.
 */
typedef struct FlLogRecord
{
	int64		log_offset;
	TimestampTz ts;
	int32		leader_epoch;
	int64		created_ms;		/* FL_NO_TIMESTAMP if none */
	const uint8 *tenant;
	int32		tenant_len;		/* -1: NULL */
	const uint8 *device;
	int32		device_len;
	const uint8 *role;			/* NULL: in the headers, or none */
	int32		role_len;
	const uint8 *key;
	int32		key_len;		/* -1: no key */
	const uint8 *payload;
	int32		payload_len;	/* -1: NULL (tombstone) */
	int			reserved;		/* how many of the headers are ours */
	const uint8 *headers;		/* Kafka array without count */
	int32		headers_len;
	int32		headers_count;
} FlLogRecord;

typedef struct FlBatchDecoder FlBatchDecoder;

/* A decoder keeps its buffers and codec contexts over batches; free by context. */
extern FlBatchDecoder *fl_batch_decoder_create(MemoryContext parent);
extern void fl_batch_decoder_open(FlBatchDecoder *dec, const FlStoredBatch *batch);
extern bool fl_batch_decoder_next(FlBatchDecoder *dec, FlLogRecord *rec);

/*
 * The headers of a record, the role included, in the form of the SQL type
 * (fleetlog/headers.h): how many bytes at most, 0 for no headers at all, and these
 * bytes.  Returns where they end.
 */
extern Size fl_record_headers_room(const FlLogRecord *rec);
extern uint8 *fl_record_put_headers(uint8 *p, const FlLogRecord *rec);

/*
 * The row of a record: its columns from number `from` up to and including
 * `upto`.  Columns of variable length lie in *scratch, which grows in mcxt and
 * is the caller's to keep or free; it is used again by the next call.
 */
extern void fl_columns_build(const FlLogRecord *rec, int32 shard, int from, int upto,
							 char **scratch, size_t *scratch_cap, MemoryContext mcxt,
							 Datum *values, bool *isnull);

/*
 * The same in steps, for who does not know yet how many columns will be asked
 * for: room for all of them, then those behind number `have`, up to and with
 * `upto` and what comes with it, written from *p on.  Returns the number of the
 * last one built.
 */
extern void fl_columns_reserve(const FlLogRecord *rec, char **scratch, size_t *scratch_cap,
							   MemoryContext mcxt);
extern int	fl_columns_more(const FlLogRecord *rec, int have, int upto, char **p,
							Datum *values, bool *isnull);

/* ---- Seeking, tails ------------------------------------------------------ */

/* Durable tail and head of a shard, also on a standby (replayed tail there). */
extern int64 fl_log_tail(Oid stream, int32 shard);
extern int64 fl_log_head(Oid stream, int32 shard);

/* First offset with ts >= at, below the durable tail; -1 when nothing is that new. */
extern int64 fl_log_offset_for_time(Oid stream, int32 shard, TimestampTz at);

/* Wait until all that a snapshot can see of the streams is flushed (L5). */
extern void fl_read_barrier(void);

/* Codec contexts and a palloc based allocator of this process, for whoever builds batches. */
extern FlCompressor *fl_server_compressor(void);
extern const FlAllocator *fl_server_allocator(void);

/* An allocator of what lives in `context`; it raises an error where memory is short. */
extern void fl_context_allocator(FlAllocator *alloc, MemoryContext context);

/* Largest record batch that anybody may build or send (bytes, header included). */
#define FL_MAX_RECORD_BATCH		(128 * 1024 * 1024)

/* Called from _PG_init. */
extern void fl_log_init(void);
extern void fl_xact_init(void);

#endif							/* FLEETLOG_LOG_H */
