/*-------------------------------------------------------------------------
 *
 * order.c
 *		The order of a connection's records when one of its batches has failed.
 *
 * Several batches of a shard may be under way.  When one of them is not written,
 * connections end, and their devices send again what was not acknowledged, in
 * order.  If the batches behind it were written all the same, a record would stand
 * in the log before one that was sent before it.  Therefore
 *
 *	- the appender returns what comes behind a failed batch of the same door and
 *	  shard, until the door says that it has dealt with the failure (`settled`);
 *	- the queue stands still until the failed batch is released at its front, and
 *	  behind those that the appender has yet to return;
 *	- then the records that the ended connections have in later batches are taken
 *	  out of them, and what is left goes again, in its order.
 *
 * So a failure costs nobody but the connections that have a record in the failed
 * batch.  A connection that goes on (MQTT 5.0 is told by the PUBACK what was refused)
 * keeps its later records.  Records that nobody waits for stay, too: they are not sent
 * again.
 *
 * Called by ingest.c while it releases batches.  No transaction.  `done` is called for
 * connections that have ended, and so adds nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ingest_internal.h"

void
fl_ingest_note_ended(FlIngest *ing, uint64 conn_id)
{
	/* Records of one connection come in a row, mostly. */
	if (ing->nended > 0 && ing->ended[ing->nended - 1] == conn_id)
		return;
	if (ing->nended == ing->ended_cap)
	{
		int			cap = Max(64, ing->ended_cap * 2);

		ing->ended = ing->ended ? repalloc(ing->ended, sizeof(uint64) * cap) :
			MemoryContextAlloc(ing->mcxt, sizeof(uint64) * cap);
		ing->ended_cap = cap;
	}
	ing->ended[ing->nended++] = conn_id;
}

static int
id_cmp(const void *x, const void *y)
{
	uint64		a = *(const uint64 *) x;
	uint64		b = *(const uint64 *) y;

	return a < b ? -1 : a > b;
}

static void
mark_ended(const FlIngest *ing, FlIngestBatch *b)
{
	/* Its records cannot be taken out of it; its sequence says whether it may follow. */
	if (b->foreign)
		return;
	for (int i = 0; i < b->nwaiters; i++)
	{
		FlWaiter   *w = &b->waiters[i];

		if (w->ended || bsearch(&w->conn_id, ing->ended, ing->nended, sizeof(uint64), id_cmp) == NULL)
			continue;
		w->ended = true;
		b->nended++;
	}
}

/* The records that stay, encoded anew, for numbers and times of records hang together. */
static void
build_rest(FlIngest *ing, FlIngestBatch *b, FlBatchBuilder *rest)
{
	FlBatchInfo info = {.base_timestamp = b->builder.base_timestamp,.record_count = b->builder.count};
	FlRecordIter it;
	FlRecord	rec;
	int			w = 0;

	fl_batch_builder_init(rest, &ing->alloc, b->builder.buf.max);
	fl_record_iter_init(&it, &info, b->builder.buf.data + FL_BATCH_HEADER_SIZE,
						b->builder.buf.len - FL_BATCH_HEADER_SIZE);
	for (int32 i = 0; fl_record_iter_next(&it, &rec); i++)
	{
		while (w < b->nwaiters && b->waiters[w].index < i)
			w++;
		if (w < b->nwaiters && b->waiters[w].index == i && b->waiters[w].ended)
			continue;
		if (fl_batch_builder_add(rest, rec.timestamp_ms, rec.key, rec.key_len, rec.value, rec.value_len,
								 rec.attributes, rec.headers, rec.headers_len) != FL_OK)
			elog(ERROR, "a batch cannot be encoded without some of its records");
	}
	if (it.result != FL_OK)
		elog(ERROR, "a batch of our own cannot be read: %s", fl_result_name(it.result));
}

/* Room for all that may go from the batch.  May raise, hence comes before anything has changed. */
static void
reserve_gone(FlIngest *ing, int n)
{
	int			cap = Max(64, ing->gone_cap * 2);

	if (ing->ngone + n <= ing->gone_cap)
		return;
	cap = Max(cap, ing->ngone + n);
	ing->gone = ing->gone ? repalloc(ing->gone, sizeof(FlGone) * cap) :
		MemoryContextAlloc(ing->mcxt, sizeof(FlGone) * cap);
	ing->gone_cap = cap;
}

int
fl_ingest_tell_gone(FlIngest *ing)
{
	int			calls = 0;

	while (ing->ngone_told < ing->ngone)
	{
		/* `done` may raise, and must not be called for it again. */
		FlGone		g = ing->gone[ing->ngone_told++];

		(void) ing->done(ing->arg, g.conn_id, g.cookie, FL_ERR_INTERNAL, g.key.stream, g.key.shard, -1);
		calls++;
	}
	ing->ngone = ing->ngone_told = 0;
	return calls;
}

/* Waiters of records that stay, with their new numbers; the others will be told what became of theirs. */
static void
keep_rest(FlIngest *ing, const FlIngestShard *s, FlIngestBatch *b)
{
	int			keep = 0;
	int			gone = 0;

	for (int i = 0; i < b->nwaiters; i++)
	{
		FlWaiter	w = b->waiters[i];

		if (w.ended)
		{
			gone++;
			ing->gone[ing->ngone++] = (FlGone) {.key = s->key,.conn_id = w.conn_id,.cookie = w.cookie};
			continue;
		}
		w.index -= gone;
		b->waiters[keep++] = w;
	}
	b->nwaiters = keep;
	b->nended = 0;
	b->nrecords -= gone;
}

/* Take the records of ended connections out of a batch that nobody else has. */
static void
strip_batch(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b)
{
	FlBatchBuilder rest;

	if (b->nended == 0)
		return;
	reserve_gone(ing, b->nended);
	if (b->nended < b->nrecords)
	{
		build_rest(ing, b, &rest);
		fl_batch_builder_free(&b->builder);
		b->builder = rest;
	}
	fl_ingest_batch_strip_events(b);
	ing->nrecords -= b->nended;
	s->stream->nrecords -= b->nended;
	keep_rest(ing, s, b);
	b->finished = false;
	fl_buf_reset(&b->body);
	if (b->nrecords == 0)
		fl_ingest_drop_batch(ing, s, b);
}

bool
fl_ingest_is_stopped(const FlIngestShard *s, const FlIngestBatch *b)
{
	/* Sent before the failure was settled: the appender is about to return it, and takes what we send now. */
	if (b->state == FL_BATCH_SENT)
		return b->settled < s->settled;
	return b->state == FL_BATCH_FAILED || b->state == FL_BATCH_RETURNED;
}

/*
 * Only marks, which cannot fail; fl_ingest_take_back, which comes behind it at every
 * poll, does the rest.
 */
void
fl_ingest_settle(FlIngest *ing, FlIngestShard *s, uint64 seq)
{
	dlist_iter	iter;

	s->settled = Max(s->settled, seq);
	if (ing->nended == 0)
		return;
	qsort(ing->ended, ing->nended, sizeof(uint64), id_cmp);
	dlist_foreach(iter, &s->batches)
		mark_ended(ing, dlist_container(FlIngestBatch, node, iter.cur));
	ing->nended = 0;
}

/* It is ours again, with all its bytes. */
static void
take_back_batch(FlIngest *ing, FlIngestShard *s, FlIngestBatch *b)
{
	b->state = FL_BATCH_READY;
	s->nunderway--;
	ing->nwaiting -= b->nwaiters;
	if (b->foreign)
		return;
	fl_ingest_charge(ing, s, b, (int64) fl_batch_builder_bytes(&b->builder) - b->charged);
	strip_batch(ing, s, b);
}

/* What the appender still has it will return; what comes behind that waits for it. */
void
fl_ingest_take_back(FlIngest *ing, FlIngestShard *s)
{
	dlist_mutable_iter iter;
	bool		first = true;

	dlist_foreach_modify(iter, &s->batches)
	{
		FlIngestBatch *b = dlist_container(FlIngestBatch, node, iter.cur);

		if (b->state == FL_BATCH_FAILED || b->state == FL_BATCH_SENT)
			first = false;
		else if (b->state == FL_BATCH_RETURNED && first)
			take_back_batch(ing, s, b);
		else if (b->state == FL_BATCH_READY || b->state == FL_BATCH_OPEN)
			strip_batch(ing, s, b);
	}
}
