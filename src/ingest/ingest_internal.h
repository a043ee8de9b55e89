/*-------------------------------------------------------------------------
 *
 * ingest_internal.h
 *		Batches and queues of a front door, shared by the files of src/ingest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_INGEST_INTERNAL_H
#define FLEETLOG_INGEST_INTERNAL_H

#include "lib/ilist.h"
#include "utils/hsearch.h"

#include "fleetlog/ingest.h"
#include "fleetlog/record_batch.h"
#include "fleetlog/ring.h"
#include "fleetlog/session_event.h"

/* A batch is closed when it has so many records or would have more raw bytes. */
#define FL_INGEST_MAX_RECORDS	1000
#define FL_INGEST_MAX_RAW		(256 * 1024)
#define FL_INGEST_MAX_EVENTS	FL_RING_MAX_EVENTS	/* bytes of session events */

/* Full batches of one shard that may be with the appender at the same time. */
#define FL_INGEST_MAX_SENT		4

/* Batches of producers, which come as they are: a commit takes many small ones. */
#define FL_INGEST_MAX_FOREIGN	1024

/* One shard may use this part of fleetlog.ingest_memory, so that a held one stops no other. */
#define FL_INGEST_SHARD_PART	4

/* Batches, with their buffers, that are kept for use again. */
#define FL_INGEST_KEEP			8

typedef enum FlBatchState
{
	FL_BATCH_OPEN,				/* takes records */
	FL_BATCH_READY,				/* closed, not handed over yet */
	FL_BATCH_SENT,				/* in the ring or with the appender */
	FL_BATCH_RETURNED,			/* by the appender, because an older one failed: to be sent again */
	FL_BATCH_WRITTEN,			/* committed at base_offset, maybe not durable */
	FL_BATCH_REFUSED,			/* by its producer's sequence: err says why, nothing behind it is concerned */
	FL_BATCH_FAILED				/* err says why */
} FlBatchState;

/* Somebody who waits for a record. */
typedef struct FlWaiter
{
	uint64		conn_id;
	uint64		cookie;
	int32		index;			/* of the record in its batch */
	bool		state;			/* its value may have to wait for a lock */
	bool		ended;			/* its connection has ended: the record is not to be written */
} FlWaiter;

/* Which record some of a batch's events belong to. */
typedef struct FlEventSpan
{
	int32		index;			/* of the record in its batch */
	uint32		len;
	bool		counted;		/* the event has the distance to it */
} FlEventSpan;

typedef struct FlIngestBatch
{
	dlist_node	node;			/* in the shard's queue, oldest first */
	FlBatchState state;
	FlBatchBuilder builder;
	FlBuf		body;			/* finished batch, until it is in the ring */
	FlBuf		events;			/* session events of its records */
	FlBuf		spans;			/* FlEventSpan for each of them */
	bool		finished;
	bool		has_state;		/* a record of it goes into a state table */
	bool		foreign;		/* a producer's own batch, closed from the beginning; events are its sender */
	uint32		off_key;		/* of a foreign one: records whose key belongs to another shard */
	int			codec;
	int32		shards;
	uint32		mounts;			/* digest of the mounts by which its records were routed */
	int32		nrecords;
	int64		min_created;
	int64		max_created;
	TimestampTz since;			/* first record */
	uint64		before;			/* how many records had been added before it */
	TimestampTz grown;			/* when fl_ingest_flush first saw what is in it now */
	int32		seen;			/* records that it saw then */
	FlWaiter   *waiters;
	int			nwaiters;
	int			waiters_cap;
	int			nended;			/* waiters whose connections have ended */
	int			ntold;			/* waiters that release_waiters is through with */
	uint64		seq;
	uint64		settled;		/* its shard's, when it was sent */
	uint64		ring_end;
	int64		base_offset;
	TimestampTz append_ts;
	FlError		err;
	int64		charged;		/* bytes counted against the limits */
} FlIngestBatch;

typedef struct FlIngestShardKey
{
	Oid			stream;
	int32		shard;
} FlIngestShardKey;

/* What the queues of one stream have in common. */
typedef struct FlIngestStream
{
	Oid			stream;			/* hash key: must come first */
	int32		turn;			/* round robin for records without a shard key */
	int32		shards;			/* by which its records were routed */
	int64		nrecords;		/* in all its queues */
} FlIngestStream;

typedef struct FlIngestShard
{
	FlIngestShardKey key;		/* hash key: must come first */
	FlIngestStream *stream;
	dlist_node	node;			/* in the list of busy shards, while it has batches */
	dlist_head	batches;		/* of any state, in the order of their records */
	FlIngestBatch *open;		/* the last one, when it is open */
	int			nunderway;		/* sent, or written and waited for */
	uint64		settled;		/* failed batches up to this number have been dealt with */
	int64		charged;
	bool		busy;
} FlIngestShard;

/* A durable record whose value waits for a lock: its publisher is not answered yet. */
typedef struct FlHeldBack
{
	dlist_node	node;
	FlIngestShardKey key;
	FlWaiter	waiter;
	int64		log_offset;
} FlHeldBack;

/* A record of a connection that has ended, taken out of a batch: nobody but its connection is left to be told. */
typedef struct FlGone
{
	FlIngestShardKey key;
	uint64		conn_id;
	uint64		cookie;
} FlGone;

struct FlIngest
{
	MemoryContext mcxt;
	int			door;
	FlIngestDone done;
	void	   *arg;
	FlAllocator alloc;
	FlCompressor *compressor;
	HTAB	   *shards;			/* FlIngestShard */
	HTAB	   *streams;		/* FlIngestStream */
	dlist_head	busy;			/* FlIngestShard with batches */
	dlist_head	held_back;		/* FlHeldBack */
	FlIngestBatch *releasing;	/* off its queue, not all of its waiters told; NULL = none */
	FlIngestShard *releasing_shard; /* entries of `shards` are never removed, so this one is still there */
	FlGone	   *gone;			/* to be told that their records were taken out */
	int			ngone;
	int			ngone_told;
	int			gone_cap;
	FlIngestBatch **sent;		/* by seq modulo FL_RESULT_SLOTS, until answered */
	uint64		first_seq;
	uint64		next_seq;
	uint64		appender_generation;
	int			nsent;			/* not answered */
	int64		charged;		/* bytes */
	int64		nrecords;		/* queued or under way */
	uint64		added;			/* ever */
	uint64		awaited;		/* so many of these are waited for, waiters or not; 0: none */
	int64		nwaiting;		/* records somebody waits for, of batches handed over */
	FlIngestBatch *kept[FL_INGEST_KEEP];
	int			nkept;
	FlBuf		headers;		/* scratch: headers with the sender in front */
	uint64	   *ended;			/* scratch: connections that a failed batch has ended */
	int			nended;
	int			ended_cap;
};

/* ---- gather.c -------------------------------------------------------------- */

/* This door writes and flushes from here to there. */
extern void fl_gather_begin_write(int door);
extern void fl_gather_end_write(int door);

/* Another door writes: a batch that is due since then had better wait for it.  Lowers *wait_ms if so. */
extern bool fl_gather_is_wise(int door, TimestampTz since, TimestampTz now, long *wait_ms);

/* ---- batch.c --------------------------------------------------------------- */

extern FlIngestBatch *fl_ingest_batch_open(FlIngest *ing, const FlIngestRecord *rec);
extern void fl_ingest_batch_free(FlIngest *ing, FlIngestBatch *batch);

/*
 * Add a record with its complete headers, and its session events.  FL_TOO_LARGE:
 * it does not fit.  The bytes that the batch has grown by are charged by the caller.
 */
extern FlResult fl_ingest_batch_add(FlIngest *ing, FlIngestBatch *batch, const FlIngestRecord *rec,
									int reserved, const uint8 *headers, size_t headers_len,
									const uint8 *events, uint32 events_len);

/* Leave out the events of records whose waiters' connections have ended; the others get their new numbers. */
extern void fl_ingest_batch_strip_events(FlIngestBatch *batch);

/* Compress; afterwards batch->body is what goes into the ring. */
extern void fl_ingest_batch_finish(FlIngest *ing, FlIngestBatch *batch);

/*
 * The record's headers with the authenticated sender in front, as reserved
 * headers; *headers may point into ing->headers or be the record's own.
 */
extern FlError fl_ingest_headers(FlIngest *ing, const FlIngestRecord *rec, int *reserved,
								 const uint8 **headers, size_t *headers_len);

/* ---- order.c --------------------------------------------------------------- */

/* The connection has not survived the failure of the batch that is being released. */
extern void fl_ingest_note_ended(FlIngest *ing, uint64 conn_id);

/*
 * A batch with this number has failed and has left the queue: what the connections
 * noted as ended have in later batches is not written any more.
 */
extern void fl_ingest_settle(FlIngest *ing, FlIngestShard *s, uint64 seq);

/* Batches that the appender has returned may go again, unless others are before them. */
extern void fl_ingest_take_back(FlIngest *ing, FlIngestShard *s);

/* Call `done` for what fl_ingest_take_back has taken out.  Returns how many calls it made. */
extern int	fl_ingest_tell_gone(FlIngest *ing);

/* Is the queue to stand still here?  (The batch has failed, or comes behind one that has and will be sent again.) */
extern bool fl_ingest_is_stopped(const FlIngestShard *s, const FlIngestBatch *b);

/* ---- ingest.c, for write.c, order.c and foreign.c ----------------------------------------- */

extern FlIngestShard *fl_ingest_find_shard(FlIngest *ing, Oid stream, int32 shard);
extern int64 fl_ingest_memory_limit(void);
extern void fl_ingest_close_batch(FlIngest *ing, FlIngestShard *s);

/* Put a batch at the end of its shard's queue. */
extern void fl_ingest_queue(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b);

/* Close the open batch of the shard when it may go now; else *wait_ms is lowered to when it wants to. */
extern void fl_ingest_close_due(FlIngest *ing, FlIngestShard *s, TimestampTz now, long *wait_ms);
extern void fl_ingest_fill_entry(const FlIngestShard *s, const FlIngestBatch *b, FlIngestEntry *entry);
extern void fl_ingest_under_way(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b);
extern void fl_ingest_note_owed(FlIngest *ing);

/* Does somebody wait for a record of the batch, or for all up to one of it? */
extern bool fl_ingest_is_awaited(const FlIngest *ing, const FlIngestBatch *b);

/* Take a batch off its queue and free it. */
extern void fl_ingest_drop_batch(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b);

extern void fl_ingest_charge(FlIngest *ing, FlIngestShard *shard, FlIngestBatch *batch, int64 bytes);

#endif							/* FLEETLOG_INGEST_INTERNAL_H */
