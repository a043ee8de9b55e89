/*-------------------------------------------------------------------------
 *
 * write.c
 *		A front door that writes its batches by itself.
 *
 * The way over the appender costs a batch four changes of process: door,
 * appender, flusher, door.  On a quiet shard these are longer than everything
 * else together, so a door takes the short way whenever it is open:
 *
 *		the shard's lock is free, or becomes so within microseconds;
 *		the appender has nothing of this shard aside, and nothing of ours;
 *		the tail is known and the segment has room (no search on disk), and so are the
 *		shard's idempotent producers;
 *		the segment's relation lock is to be had at once (no DDL, no LOCK TABLE);
 *		the transaction budget has a token that the appender does not wait for;
 *		the disk flushes quickly, or nobody waits for the disk.
 *
 * Otherwise, and after any error, the batch goes into the ring as ever, and
 * the appender finds out what is wrong with it.  A door therefore never waits
 * for a lock, and never for a disk that is known to be slow.
 *
 * The order of records holds: of a shard that has a batch with the appender,
 * nothing is written here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/guest.h"
#include "fleetlog/producers.h"
#include "fleetlog/settings.h"
#include "fleetlog/turn.h"
#include "fleetlog/worker.h"
#include "ingest_internal.h"

/* Another door holds a shard for some 100 microseconds. */
#define LOCK_TRIES			3
#define LOCK_PAUSE_US		20

/* Shards written in one transaction at most. */
#define MAX_SHARDS			64

/* What one transaction writes. */
typedef struct Direct
{
	FlIngestShard *shards[MAX_SHARDS];
	int			nshards;
	bool		awaited;		/* somebody waits for one of the records */
	bool		wake_appender;	/* it may go on with one of the shards */
	bool		took_xid;
} Direct;

/* ---- what may be written ------------------------------------------------------ */

/* Tests that hold appender or flusher back mean everybody's records. */
static bool
is_allowed(void)
{
	return fl_door_writes && !RecoveryInProgress() && !fl_stop_points_hold("appender_") &&
		!fl_stop_points_hold("flusher_");
}

/* Batches that are closed, none of them behind one that the appender has. */
static bool
has_ready(const FlIngest *ing, FlIngestShard *s, bool *awaited)
{
	dlist_iter	iter;
	bool		ready = false;
	bool		waits = false;

	dlist_foreach(iter, &s->batches)
	{
		FlIngestBatch *b = dlist_container(FlIngestBatch, node, iter.cur);

		if (b->state == FL_BATCH_SENT || fl_ingest_is_stopped(s, b))
			return false;
		if (b->state != FL_BATCH_READY)
			continue;
		ready = true;
		waits |= fl_ingest_is_awaited(ing, b);
	}
	*awaited |= ready && waits;
	return ready;
}

static void
choose(FlIngest *ing, Direct *d)
{
	TimestampTz now = GetCurrentTimestamp();
	long		wait_ms = -1;
	dlist_iter	iter;

	dlist_foreach(iter, &ing->busy)
	{
		FlIngestShard *s = dlist_container(FlIngestShard, node, iter.cur);

		fl_ingest_close_due(ing, s, now, &wait_ms);
		if (d->nshards < MAX_SHARDS && has_ready(ing, s, &d->awaited))
			d->shards[d->nshards++] = s;
	}
}

static int
shard_cmp(const void *x, const void *y)
{
	const FlIngestShard *a = *(FlIngestShard *const *) x;
	const FlIngestShard *b = *(FlIngestShard *const *) y;

	if (a->key.stream != b->key.stream)
		return a->key.stream < b->key.stream ? -1 : 1;
	return a->key.shard - b->key.shard;
}

/* ---- writing ---------------------------------------------------------------------- */

static bool
lock_briefly(FlShard *shard)
{
	for (int i = 0;; i++)
	{
		if (shard->left_aside)
			return false;
		if (fl_shard_lock(shard, FL_LOCK_NOWAIT))
			return true;
		if (i == LOCK_TRIES)
			return false;
		pg_usleep(LOCK_PAUSE_US);
	}
}

static void
write_batch(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b, FlShard *shard, const FlStreamInfo *info)
{
	FlIngestEntry entry;
	FlWritten	written;

	fl_ingest_batch_finish(ing, b);
	fl_ingest_fill_entry(s, b, &entry);
	if (fl_turn_check(&entry, info) != FL_ERR_NONE || !fl_log_is_ready(shard, entry.nrecords) ||
		!fl_producers_are_ready(shard, b->foreign ? b->body.data : NULL, (uint32) b->body.len) ||
		fl_turn_write(shard, &entry, b->body.data, b->events.data, &written) != FL_ERR_NONE)
		return;
	b->base_offset = written.base;
	b->append_ts = written.ts;
}

/* Stops at the first batch that is not written: what follows must not overtake it. */
static void
write_shard(FlIngest *ing, FlIngestShard *s)
{
	const FlStreamInfo *info = fl_stream_lookup(s->key.stream);
	FlShard    *shard;
	dlist_iter	iter;

	if (info == NULL)
		return;
	/* To open it tables are read, which somebody may have locked: that is for the appender. */
	if (fl_shard_find(s->key.stream, s->key.shard) == NULL)
		return;
	shard = fl_shard_open(s->key.stream, s->key.shard, info->durability == FL_DURABILITY_QUORUM);
	if (!lock_briefly(shard))
		return;
	/* As it is now that nobody can change it any more. */
	info = fl_stream_lookup(s->key.stream);
	dlist_foreach(iter, &s->batches)
	{
		FlIngestBatch *b = dlist_container(FlIngestBatch, node, iter.cur);

		if (b->state != FL_BATCH_READY)
			continue;
		write_batch(ing, s, b, shard, info);
		if (b->base_offset < 0)
			break;
	}
}

static bool
run_transaction(FlIngest *ing, Direct *d)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		fl_turn_begin();
		for (int i = 0; i < d->nshards; i++)
			write_shard(ing, d->shards[i]);
		fl_turn_finish();
		d->took_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());
		FL_STOP_POINT("door_after_write");
		PopActiveSnapshot();
		fl_flush_by_myself = d->awaited;
		CommitTransactionCommand();
		done = true;
	}
	PG_CATCH();
	{
		/* The appender will find the batch at fault, and say what is wrong. */
		MemoryContextSwitchTo(caller);
		d->took_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());
		FlushErrorState();
		AbortCurrentTransaction();
		FL_COUNT(FL_C_ERRORS, 1);
		/* An error behind the commit: it has told nobody. */
		fl_worker_wake(FL_WORKER_FLUSHER, 0);
	}
	PG_END_TRY();
	fl_flush_by_myself = false;
	MemoryContextSwitchTo(caller);
	return done;
}

/* ---- afterwards --------------------------------------------------------------------- */

/* The transaction is over: batches are written, or as they were. */
static int
settle_shard(FlIngest *ing, Direct *d, FlIngestShard *s, bool committed)
{
	FlShard    *shard = fl_shard_find(s->key.stream, s->key.shard);
	dlist_iter	iter;
	int			written = 0;

	dlist_foreach(iter, &s->batches)
	{
		FlIngestBatch *b = dlist_container(FlIngestBatch, node, iter.cur);

		if (b->state != FL_BATCH_READY || b->base_offset < 0)
			continue;
		if (!committed)
		{
			b->base_offset = -1;
			continue;
		}
		b->state = FL_BATCH_WRITTEN;
		ing->nwaiting += b->nwaiters;
		fl_ingest_under_way(ing, s, b);
		written++;
	}
	if (shard != NULL && shard->left_aside)
		d->wake_appender = true;
	return written;
}

static void
make_durable(void)
{
	FL_STOP_POINT("door_before_flush");
	fl_flush_pass();
}

bool
fl_ingest_write(FlIngest *ing)
{
	Direct		d = {.nshards = 0};
	bool		committed;
	int			written = 0;

	/* An error in a flush leaves the mark. */
	fl_gather_end_write(ing->door);
	if (dlist_is_empty(&ing->busy) || !is_allowed())
		return false;
	choose(ing, &d);
	if (d.nshards == 0 || (d.awaited && !fl_flush_is_quick()) || !fl_budget_try())
		return false;
	qsort(d.shards, d.nshards, sizeof(FlIngestShard *), shard_cmp);
	if (d.awaited)
		fl_gather_begin_write(ing->door);
	committed = run_transaction(ing, &d);
	if (!d.took_xid)
		fl_budget_give_back();
	for (int i = 0; i < d.nshards; i++)
		written += settle_shard(ing, &d, d.shards[i], committed);
	if (d.wake_appender)
		fl_worker_wake(FL_WORKER_APPENDER, 0);
	if (written > 0)
	{
		FL_STOP_POINT("door_after_commit");
		fl_ingest_note_owed(ing);
		if (d.awaited)
			make_durable();
	}
	if (d.awaited)
		fl_gather_end_write(ing->door);
	return written > 0;
}
