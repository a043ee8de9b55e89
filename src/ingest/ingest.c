/*-------------------------------------------------------------------------
 *
 * ingest.c
 *		The one path by which a front door's records enter the log (ingest.h).
 *
 * Each (stream, shard) has a queue of batches in the order of their records:
 *
 *		WRITTEN ... SENT ... READY ... OPEN
 *		   |         |         |        `- takes records
 *		   |         |         `- closed, waits for a place in the ring
 *		   |         `- in the ring or with the appender
 *		   `- committed, now or, where a producer has sent it again, before; waits until
 *			  the durable tail has passed it
 *
 * and leaves it at the front only, so acknowledgements keep the order.
 *
 * THE RULE (REQUIREMENTS L5, MQTT-4.3.2-4): `done` is called with FL_ERR_NONE in
 * release_batch and nowhere else, and only when the shard's durable tail, which
 * flush.c publishes, lies at or beyond the end of the batch.
 *
 * Pace (M13): a batch that somebody waits for goes at once when nothing of its
 * shard is under way; otherwise it gathers until what is under way is durable.
 * So a quiet shard has no delay, and a busy one commits as often as the disk
 * flushes, with as many records as have come in meanwhile.
 *
 * Called by front doors only, from their loop.  Needs no transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fleetlog/guest.h"
#include "fleetlog/headers.h"
#include "fleetlog/murmur2.h"
#include "fleetlog/ring.h"
#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "fleetlog/worker.h"
#include "ingest_internal.h"

/* What a record costs beyond its bytes: lengths, deltas, the place of a waiter. */
#define RECORD_OVERHEAD		64

/*
 * While the appender waits for the transaction budget, a second batch of a shard may wait with it,
 * so that what comes in meanwhile need not wait for another turn.  It costs no transaction but the
 * fixed bytes of a batch, which one record alone is not worth.
 */
#define BUDGET_SENT			2
#define BUDGET_RECORDS		2

/* What is a burst, and how long it must have been over for that to be believed: see lingers_until. */
#define BURST_RECORDS		8
#define BURST_DISTANCES		4
#define BURST_SILENCE_US	1000

/* Scratch for headers: a record's own plus the sender. */
#define SENDER_OVERHEAD		1024

/* ---- creation ----------------------------------------------------------------- */

static void
free_compressor(void *arg)
{
	fl_compressor_free((FlCompressor *) arg);
}

static HTAB *
make_table(MemoryContext mcxt, const char *name, Size keysize, Size entrysize)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = keysize;
	ctl.entrysize = entrysize;
	ctl.hcxt = mcxt;
	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

FlIngest *
fl_ingest_create(int door, FlIngestDone done, void *arg)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog ingest", ALLOCSET_DEFAULT_SIZES);
	FlIngest   *ing = MemoryContextAllocZero(mcxt, sizeof(FlIngest));
	MemoryContextCallback *callback = MemoryContextAllocZero(mcxt, sizeof(MemoryContextCallback));
	uint64		dropped;

	ing->mcxt = mcxt;
	ing->door = door;
	ing->done = done;
	ing->arg = arg;
	fl_context_allocator(&ing->alloc, mcxt);
	ing->compressor = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);
	if (ing->compressor == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	callback->func = free_compressor;
	callback->arg = ing->compressor;
	MemoryContextRegisterResetCallback(mcxt, callback);
	ing->shards = make_table(mcxt, "fleetlog ingest shards", sizeof(FlIngestShardKey), sizeof(FlIngestShard));
	ing->streams = make_table(mcxt, "fleetlog ingest streams", sizeof(Oid), sizeof(FlIngestStream));
	dlist_init(&ing->busy);
	dlist_init(&ing->held_back);
	ing->sent = MemoryContextAllocZero(mcxt, sizeof(FlIngestBatch *) * FL_RESULT_SLOTS);
	/* Numbers of a predecessor in this slot must not be mistaken for ours. */
	ing->first_seq = fl_my_slot != NULL ? (uint64) fl_my_slot->incarnation << 40 : 1;
	ing->next_seq = ing->first_seq;
	fl_buf_init(&ing->headers, &ing->alloc, fl_ring_max_body() + SENDER_OVERHEAD);
	fl_ring_door_start(door);
	ing->appender_generation = fl_ring_appender_generation(door, &dropped);
	return ing;
}

/* ---- adding ------------------------------------------------------------------------ */

static FlIngestStream *
find_stream(FlIngest *ing, Oid stream)
{
	FlIngestStream *st;
	bool		found;

	st = hash_search(ing->streams, &stream, HASH_ENTER, &found);
	if (!found)
	{
		st->turn = 0;
		st->shards = 0;
		st->nrecords = 0;
	}
	return st;
}

FlIngestShard *
fl_ingest_find_shard(FlIngest *ing, Oid stream, int32 shard)
{
	FlIngestShardKey key;
	FlIngestShard *s;
	FlIngestStream *st;
	bool		found;

	key.stream = stream;
	key.shard = shard;
	s = hash_search(ing->shards, &key, HASH_FIND, NULL);
	if (s != NULL)
		return s;
	st = find_stream(ing, stream);
	s = hash_search(ing->shards, &key, HASH_ENTER, &found);
	s->stream = st;
	dlist_init(&s->batches);
	s->open = NULL;
	s->nunderway = 0;
	/* Failures of a predecessor in this slot are none of ours. */
	s->settled = ing->first_seq - 1;
	s->charged = 0;
	s->busy = false;
	return s;
}

static int32
choose_shard(FlIngest *ing, const FlIngestRecord *rec)
{
	if (rec->shards <= 1)
		return 0;
	if (rec->shard_key != NULL)
		return fl_partition(rec->shard_key, rec->shard_key_len, rec->shards);
	/* Without a key one shard takes a whole batch, then it is the next one's turn. */
	return find_stream(ing, rec->stream)->turn % rec->shards;
}

void
fl_ingest_close_batch(FlIngest *ing, FlIngestShard *s)
{
	FlIngestStream *st = s->stream;

	s->open->state = FL_BATCH_READY;
	if (st->turn % s->open->shards == s->key.shard)
		st->turn = (s->key.shard + 1) % s->open->shards;
	s->open = NULL;
}

void
fl_ingest_drop_batch(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b)
{
	dlist_delete(&b->node);
	if (s->open == b)
		s->open = NULL;
	fl_ingest_charge(ing, s, b, -b->charged);
	fl_ingest_batch_free(ing, b);
}

static bool
may_join(const FlIngestBatch *b, const FlIngestRecord *rec, int64 size, uint32 events_len)
{
	return b->events.len + events_len <= FL_INGEST_MAX_EVENTS &&
		b->nrecords < FL_INGEST_MAX_RECORDS && fl_batch_builder_bytes(&b->builder) + size <= FL_INGEST_MAX_RAW &&
		b->shards == rec->shards && b->codec == rec->codec && b->mounts == rec->mounts;
}

void
fl_ingest_queue(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b)
{
	dlist_push_tail(&s->batches, &b->node);
	if (!s->busy)
		dlist_push_tail(&ing->busy, &s->node);
	s->busy = true;
}

/*
 * The open batch that this record may join; closes one that it does not fit.  One
 * that has stayed empty, because its first record failed, is not worth closing.
 */
static FlIngestBatch *
batch_for(FlIngest *ing, FlIngestShard *s, const FlIngestRecord *rec, int64 size, uint32 events_len)
{
	FlIngestBatch *b = s->open;

	if (b != NULL && b->nrecords == 0)
		fl_ingest_drop_batch(ing, s, b);
	else if (b != NULL && !may_join(b, rec, size, events_len))
		fl_ingest_close_batch(ing, s);
	if (s->open == NULL)
	{
		s->open = fl_ingest_batch_open(ing, rec);
		fl_ingest_queue(ing, s, s->open);
	}
	return s->open;
}

/*
 * The number of shards has changed, and batches by the old one are under way.  They
 * will be refused, and then their connections end, so that nothing that was read
 * behind them may go another way before.
 */
static bool
map_is_changing(const FlIngestStream *st, const FlIngestRecord *rec)
{
	return st->nrecords > 0 && st->shards != rec->shards;
}

int64
fl_ingest_memory_limit(void)
{
	return (int64) fl_ingest_memory_kb * 1024;
}

bool
fl_ingest_has_room(FlIngest *ing)
{
	return ing->charged < fl_ingest_memory_limit();
}

/* An empty queue takes any record that the size limit allows. */
static bool
has_room(FlIngest *ing, FlIngestShard *s, int64 size)
{
	if (ing->charged > 0 && ing->charged + size > fl_ingest_memory_limit())
		return false;
	return s->charged == 0 || s->charged + size <= fl_ingest_memory_limit() / FL_INGEST_SHARD_PART;
}

static int64
record_bytes(const FlIngestRecord *rec)
{
	return (int64) (rec->key != NULL ? rec->key_len : 0) +
		(rec->payload != NULL ? rec->payload_len : 0) +
		(rec->headers != NULL ? rec->headers_len : 0);
}

static FlError
check_record(const FlIngestRecord *rec)
{
	int64		limit = rec->max_record_bytes > 0 ? rec->max_record_bytes : (int64) fl_max_record_kb * 1024;

	if (fl_disk_reserve_reached())
		return FL_ERR_DISK_RESERVE;
	/* The ring is sized at server start; a limit raised since then does not count beyond it. */
	limit = Min(limit, (int64) fl_ring_max_body() - FL_BATCH_HEADER_SIZE - RECORD_OVERHEAD - SENDER_OVERHEAD);
	if (record_bytes(rec) > limit)
		return FL_ERR_RECORD_TOO_LARGE;
	return FL_ERR_NONE;
}

/* The record has been checked; its headers are complete. */
static FlError
add_record(FlIngest *ing, const FlIngestRecord *rec, int reserved, const uint8 *headers, size_t headers_len,
		   const uint8 *events, uint32 events_len)
{
	int64		size = record_bytes(rec) + RECORD_OVERHEAD;
	FlIngestShard *s = fl_ingest_find_shard(ing, rec->stream, choose_shard(ing, rec));
	FlIngestBatch *b;
	FlResult	res;

	if (map_is_changing(s->stream, rec) || !has_room(ing, s, size))
		return FL_ERR_SHARD_BUSY;
	b = batch_for(ing, s, rec, size, events_len);
	res = fl_ingest_batch_add(ing, b, rec, reserved, headers, headers_len, events, events_len);
	if (res != FL_OK)
		return res == FL_TOO_LARGE ? FL_ERR_RECORD_TOO_LARGE : FL_ERR_MALFORMED;
	fl_ingest_charge(ing, s, b, size);
	ing->nrecords++;
	ing->added++;
	s->stream->nrecords++;
	s->stream->shards = rec->shards;
	if (b->nrecords >= FL_INGEST_MAX_RECORDS)
		fl_ingest_close_batch(ing, s);
	return FL_ERR_NONE;
}

FlError
fl_ingest_add(FlIngest *ing, const FlIngestRecord *rec)
{
	const uint8 *headers;
	size_t		headers_len;
	int			reserved;
	FlError		err;

	err = check_record(rec);
	if (err == FL_ERR_NONE)
		err = fl_ingest_headers(ing, rec, &reserved, &headers, &headers_len);
	if (err != FL_ERR_NONE)
		return err;
	return add_record(ing, rec, reserved, headers, headers_len, rec->event,
					  rec->event != NULL ? rec->event_len : 0);
}

/*
 * The disk reserve does not stop them: they are few bytes, and who has published
 * before it was reached must be able to come to an end.
 */
FlError
fl_ingest_add_events(FlIngest *ing, const FlIngestEvents *events)
{
	FlIngestRecord rec = {
		.stream = events->journal,.shards = 1,.codec = FL_CODEC_LZ4,.payload = events->bytes,
		.payload_len = (int32) events->len,.created_ms = FL_NO_TIMESTAMP,.wait = events->wait,
		.conn_id = events->conn_id,.cookie = events->cookie
	};

	if (events->len > FL_INGEST_MAX_EVENTS)
		return FL_ERR_RECORD_TOO_LARGE;
	return add_record(ing, &rec, 0, NULL, 0, events->bytes, events->len);
}

/* ---- handing over -------------------------------------------------------------------- */

bool
fl_ingest_is_awaited(const FlIngest *ing, const FlIngestBatch *b)
{
	return b->nwaiters > 0 || b->before < ing->awaited;
}

/* Has all that was added first left its queues?  These are left at their front only. */
static bool
has_passed(FlIngest *ing, uint64 added)
{
	dlist_iter	iter;

	dlist_foreach(iter, &ing->busy)
	{
		FlIngestShard *s = dlist_container(FlIngestShard, node, iter.cur);

		const FlIngestBatch *first;

		if (dlist_is_empty(&s->batches))
			continue;
		first = dlist_head_element(FlIngestBatch, node, &s->batches);
		if (first->nrecords > 0 && first->before < added)
			return false;
	}
	return ing->releasing == NULL || ing->releasing->before >= added;
}

uint64
fl_ingest_added(const FlIngest *ing)
{
	return ing->added;
}

bool
fl_ingest_await(FlIngest *ing, uint64 added)
{
	if (has_passed(ing, added))
		return true;
	ing->awaited = Max(ing->awaited, added);
	fl_ingest_note_owed(ing);
	return false;
}

void
fl_ingest_note_owed(FlIngest *ing)
{
	uint32		owed;

	if (ing->awaited != 0 && has_passed(ing, ing->awaited))
		ing->awaited = 0;
	owed = ing->nwaiting > 0 || ing->awaited != 0 ? 1 : 0;

	if (pg_atomic_read_u32(&fl_shared->doors[ing->door].owed) != owed)
		pg_atomic_write_u32(&fl_shared->doors[ing->door].owed, owed);
}

void
fl_ingest_fill_entry(const FlIngestShard *s, const FlIngestBatch *b, FlIngestEntry *entry)
{
	memset(entry, 0, sizeof(*entry));
	entry->body_len = (uint32) b->body.len;
	entry->stream = s->key.stream;
	entry->shard = s->key.shard;
	entry->nrecords = b->nrecords;
	entry->min_created = b->min_created;
	entry->max_created = b->max_created;
	entry->shards = b->shards;
	entry->mounts = b->mounts;
	entry->settled = s->settled;
	entry->flags = (b->has_state ? FL_INGEST_STATE : 0) | (b->foreign ? FL_INGEST_FOREIGN : 0);
	entry->off_key = b->off_key;
	entry->events_len = (uint32) b->events.len;
}

/*
 * Somebody has the batch's bytes now; what is left to pay for are the waiters.  A
 * producer's batch is paid for until it is released: any number of them may be under
 * way, and each has its bytes.
 */
void
fl_ingest_under_way(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b)
{
	s->nunderway++;
	if (b->foreign)
		return;
	fl_ingest_charge(ing, s, b, (int64) sizeof(FlWaiter) * b->nwaiters - b->charged);
}

/* False when the ring has no room. */
static bool
send_batch(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b)
{
	FlIngestEntry entry;

	if (ing->nsent >= FL_RESULT_SLOTS || ing->sent[ing->next_seq % FL_RESULT_SLOTS] != NULL)
		return false;
	fl_ingest_batch_finish(ing, b);
	fl_ingest_fill_entry(s, b, &entry);
	entry.seq = ing->next_seq;
	entry.generation = (uint32) ing->appender_generation;

	/* From here on whoever waits is owed an answer: the flusher must wake us. */
	ing->nwaiting += b->nwaiters;
	fl_ingest_note_owed(ing);
	if (!fl_ring_put(ing->door, &entry, b->body.data, (uint32) b->body.len, b->events.data, &b->ring_end))
	{
		ing->nwaiting -= b->nwaiters;
		fl_ingest_note_owed(ing);
		return false;
	}
	b->seq = ing->next_seq++;
	b->settled = s->settled;
	b->state = FL_BATCH_SENT;
	ing->sent[b->seq % FL_RESULT_SLOTS] = b;
	ing->nsent++;
	fl_ingest_under_way(ing, s, b);
	FL_COUNT(FL_C_BATCHES, 1);
	FL_COUNT(FL_C_RECORDS, b->nrecords);
	return true;
}

static bool
may_join_turn(const FlIngestShard *s)
{
	return s->nunderway < BUDGET_SENT && s->open->nrecords >= BUDGET_RECORDS && fl_budget_is_awaited();
}

/*
 * When has a batch that nobody waits for lingered enough?  After
 * fleetlog.linger; and earlier when what came was a burst, which has ended:
 * several times the mean distance of its records has passed, and nothing came.
 * A steady flow is never taken for a burst, as its next record is due long
 * before that, and a few records tell nothing.
 */
static TimestampTz
lingers_until(FlIngestBatch *b, TimestampTz now)
{
	TimestampTz latest = b->since + (TimestampTz) fl_linger_ms * 1000;
	TimestampTz silence;

	if (b->seen != b->nrecords)
	{
		b->seen = b->nrecords;
		b->grown = now;
	}
	if (b->nrecords < BURST_RECORDS)
		return latest;
	silence = Max((b->grown - b->since) / b->nrecords * BURST_DISTANCES, BURST_SILENCE_US);
	return Min(latest, b->grown + silence);
}

/* May the open batch go now?  If not, *wait_ms is lowered to when it wants to. */
static bool
open_batch_is_due(FlIngest *ing, FlIngestShard *s, TimestampTz now, long *wait_ms)
{
	FlIngestBatch *b = s->open;
	TimestampTz until;

	if (b == NULL || b->nrecords == 0)
		return false;
	if (s->nunderway > 0 && !may_join_turn(s))
		return false;
	if (fl_ingest_is_awaited(ing, b))
		return !fl_gather_is_wise(ing->door, b->since, now, wait_ms);
	until = lingers_until(b, now);
	if (now >= until)
		return true;
	/* Rounded up: a wait that ends a moment too early would be followed by one of nothing. */
	if (*wait_ms < 0 || (until - now + 999) / 1000 < *wait_ms)
		*wait_ms = (long) ((until - now + 999) / 1000);
	return false;
}

void
fl_ingest_close_due(FlIngest *ing, FlIngestShard *s, TimestampTz now, long *wait_ms)
{
	if (open_batch_is_due(ing, s, now, wait_ms))
		fl_ingest_close_batch(ing, s);
}

static bool
may_follow(const FlIngestShard *s, const FlIngestBatch *b)
{
	return s->nunderway < (b->foreign ? FL_INGEST_MAX_FOREIGN : FL_INGEST_MAX_SENT);
}

/* Hand over what this shard has to give now.  False when the ring is full. */
static bool
flush_shard(FlIngest *ing, FlIngestShard *s, TimestampTz now, bool *sent, long *wait_ms)
{
	dlist_iter	iter;

	fl_ingest_close_due(ing, s, now, wait_ms);
	dlist_foreach(iter, &s->batches)
	{
		FlIngestBatch *b = dlist_container(FlIngestBatch, node, iter.cur);

		if (fl_ingest_is_stopped(s, b))
			break;
		if (b->state != FL_BATCH_READY)
			continue;
		if (!may_follow(s, b))
			break;
		if (!send_batch(ing, s, b))
			return false;
		*sent = true;
	}
	return true;
}

long
fl_ingest_flush(FlIngest *ing)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		sent = false;
	long		wait_ms = -1;
	dlist_iter	iter;

	dlist_foreach(iter, &ing->busy)
	{
		FlIngestShard *s = dlist_container(FlIngestShard, node, iter.cur);

		if (!flush_shard(ing, s, now, &sent, &wait_ms))
			break;
	}

	/*
	 * Who comes first gets the ring; let it be another shard next time, so
	 * that a full ring starves nobody.
	 */
	if (!dlist_is_empty(&ing->busy))
		dlist_push_tail(&ing->busy, dlist_pop_head_node(&ing->busy));
	if (sent)
		fl_worker_wake(FL_WORKER_APPENDER, 0);
	return wait_ms;
}

static bool
has_ready_batch(FlIngestShard *s)
{
	dlist_iter	iter;

	dlist_foreach(iter, &s->batches)
	{
		const FlIngestBatch *b = dlist_container(FlIngestBatch, node, iter.cur);

		if (fl_ingest_is_stopped(s, b))
			return false;
		if (b->state == FL_BATCH_READY)
			return may_follow(s, b);
	}
	return false;
}

/*
 * What has been released makes room for what gathered meanwhile, of which nobody else
 * will remind us.
 */
long
fl_ingest_due_in(FlIngest *ing)
{
	TimestampTz now = GetCurrentTimestamp();
	long		wait_ms = -1;
	dlist_iter	iter;

	dlist_foreach(iter, &ing->busy)
	{
		FlIngestShard *s = dlist_container(FlIngestShard, node, iter.cur);

		if (open_batch_is_due(ing, s, now, &wait_ms) || has_ready_batch(s))
			return 0;
	}
	return wait_ms;
}

/* ---- results ---------------------------------------------------------------------------- */

static void
take_answers(FlIngest *ing)
{
	FlIngestResult r;

	while (fl_ring_take_answer(ing->door, &r))
	{
		FlIngestBatch **place = &ing->sent[r.seq % FL_RESULT_SLOTS];
		FlIngestBatch *b = *place;

		/* An answer to a predecessor, or to something already given up. */
		if (b == NULL || b->seq != r.seq)
			continue;
		*place = NULL;
		ing->nsent--;
		if (r.status == FL_RESULT_RETURNED)
		{
			b->state = FL_BATCH_RETURNED;
			continue;
		}
		b->err = (FlError) r.status;
		b->base_offset = r.base_offset;
		b->append_ts = r.append_ts;
		b->state = b->err == FL_ERR_NONE ? FL_BATCH_WRITTEN :
			fl_error_is_of_sequence(b->err) ? FL_BATCH_REFUSED : FL_BATCH_FAILED;
	}
}

/*
 * A new appender has thrown away what was in the ring.  Whether the old one had
 * committed some of it nobody can say, so nobody is told that it is stored:
 * the devices send again.
 */
static void
fail_dropped(FlIngest *ing, uint64 dropped_below)
{
	for (int i = 0; i < FL_RESULT_SLOTS && ing->nsent > 0; i++)
	{
		FlIngestBatch *b = ing->sent[i];

		if (b == NULL || b->ring_end > dropped_below)
			continue;
		ing->sent[i] = NULL;
		ing->nsent--;
		b->state = FL_BATCH_FAILED;
		b->err = FL_ERR_INTERNAL;
	}
}

static int64
durable_tail(const FlIngestShard *s, bool *gone)
{
	FlShard    *shard = fl_shard_find(s->key.stream, s->key.shard);

	*gone = shard == NULL;
	return shard != NULL ? fl_shard_durable_tail(shard) : 0;
}

/*
 * The record is durable, but its value is not in the state table yet: a publisher
 * who asked for retain is answered when it is, all others at once.
 */
static bool
hold_back(FlIngest *ing, const FlIngestShard *s, const FlIngestBatch *b, const FlWaiter *w)
{
	FlHeldBack *h;

	if (!w->state || b->err != FL_ERR_NONE ||
		!fl_state_is_waiting(s->key.stream, s->key.shard, b->base_offset + w->index))
		return false;
	h = MemoryContextAlloc(ing->mcxt, sizeof(FlHeldBack));
	h->key = s->key;
	h->waiter = *w;
	h->log_offset = b->base_offset + w->index;
	dlist_push_tail(&ing->held_back, &h->node);
	return true;
}

static int
release_held_back(FlIngest *ing)
{
	dlist_mutable_iter iter;
	int			calls = 0;

	dlist_foreach_modify(iter, &ing->held_back)
	{
		FlHeldBack *h = dlist_container(FlHeldBack, node, iter.cur);
		FlHeldBack	told;

		if (fl_state_is_waiting(h->key.stream, h->key.shard, h->log_offset))
			continue;
		/* `done` may raise, and must not be called for it again. */
		told = *h;
		dlist_delete(&h->node);
		pfree(h);
		ing->done(ing->arg, told.waiter.conn_id, told.waiter.cookie, FL_ERR_NONE, told.key.stream, told.key.shard,
				  told.log_offset);
		calls++;
	}
	return calls;
}

/*
 * Tell the waiters of the batch that is being released, from where an earlier
 * attempt has got to.  An error that `done` raises is the fault of one connection,
 * which the door then closes: the others are told in the next turn, before anything
 * else.  The only place that tells anybody that a record is stored.
 */
static int
release_waiters(FlIngest *ing)
{
	FlIngestBatch *b = ing->releasing;
	FlIngestShard *s = ing->releasing_shard;
	FlError		err = b->err;
	bool		settles = err != FL_ERR_NONE && b->state != FL_BATCH_REFUSED;
	uint64		seq = b->seq;
	int			from = b->ntold;
	int			n = b->nwaiters - from;

	/* One at which `done` has raised is behind us, and its connection has ended. */
	if (from > 0 && settles)
		fl_ingest_note_ended(ing, b->waiters[from - 1].conn_id);
	while (b->ntold < b->nwaiters)
	{
		FlWaiter   *w = &b->waiters[b->ntold];

		if (hold_back(ing, s, b, w))
		{
			b->ntold++;
			continue;
		}
		b->ntold++;
		if (!ing->done(ing->arg, w->conn_id, w->cookie, err, s->key.stream, s->key.shard,
					   err == FL_ERR_NONE ? b->base_offset + w->index : -1) && settles)
			fl_ingest_note_ended(ing, w->conn_id);
	}
	ing->releasing = NULL;
	fl_ingest_batch_free(ing, b);
	if (settles)
		fl_ingest_settle(ing, s, seq);
	return n;
}

/* The batch has been taken off its queue: `done` may add records. */
static int
release_batch(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b)
{
	int			n = b->nwaiters;

	s->nunderway--;
	s->stream->nrecords -= b->nrecords;
	ing->nrecords -= b->nrecords;
	ing->nwaiting -= n;
	fl_ingest_charge(ing, s, b, -b->charged);
	/* Those that nobody waits for are lost silently to their senders, but not to the views. */
	if (b->err != FL_ERR_NONE && !b->foreign)
		FL_COUNT(FL_C_DROPPED_QOS0, b->nrecords - n);
	ing->releasing = b;
	ing->releasing_shard = s;
	return release_waiters(ing);
}

/* Is the fate of the batch at the front of the queue known? */
static bool
batch_is_over(FlIngestShard *s, FlIngestBatch *b)
{
	bool		gone;

	switch (b->state)
	{
		case FL_BATCH_OPEN:
		case FL_BATCH_READY:
		case FL_BATCH_SENT:
		case FL_BATCH_RETURNED:
			return false;
		case FL_BATCH_REFUSED:
		case FL_BATCH_FAILED:
			return true;
		case FL_BATCH_WRITTEN:
			break;
	}
	if (b->nwaiters == 0)
		return true;
	if (durable_tail(s, &gone) >= b->base_offset + b->nrecords)
		return true;
	if (!gone)
		return false;
	/* The stream was dropped between commit and flush. */
	b->err = FL_ERR_NO_STREAM;
	return true;
}

static int
release_shard(FlIngest *ing, FlIngestShard *s)
{
	int			calls = 0;

	while (!dlist_is_empty(&s->batches))
	{
		FlIngestBatch *b = dlist_head_element(FlIngestBatch, node, &s->batches);

		if (!batch_is_over(s, b))
			break;
		if (b->nwaiters > 0)
			FL_STOP_POINT("door_before_ack");
		dlist_delete(&b->node);
		calls += release_batch(ing, s, b);
	}
	fl_ingest_take_back(ing, s);
	return calls + fl_ingest_tell_gone(ing);
}

int
fl_ingest_poll(FlIngest *ing)
{
	uint64		dropped_below;
	uint64		generation = fl_ring_appender_generation(ing->door, &dropped_below);
	dlist_mutable_iter iter;
	int			calls = 0;

	/* What an error has left half done comes first, so that acknowledgements keep their order. */
	if (ing->releasing != NULL)
		calls += release_waiters(ing);
	calls += fl_ingest_tell_gone(ing);
	take_answers(ing);
	if (generation != ing->appender_generation)
	{
		ing->appender_generation = generation;
		fail_dropped(ing, dropped_below);
	}
	dlist_foreach_modify(iter, &ing->busy)
	{
		FlIngestShard *s = dlist_container(FlIngestShard, node, iter.cur);

		calls += release_shard(ing, s);
		if (dlist_is_empty(&s->batches))
		{
			dlist_delete(&s->node);
			s->busy = false;
		}
	}
	calls += release_held_back(ing);
	fl_ingest_note_owed(ing);
	return calls;
}

TimestampTz
fl_ingest_append_time(const FlIngest *ing)
{
	return ing->releasing != NULL ? ing->releasing->append_ts : 0;
}

int64
fl_ingest_outstanding(FlIngest *ing)
{
	return ing->nrecords;
}
