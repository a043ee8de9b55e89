/*-------------------------------------------------------------------------
 *
 * batch.c
 *		A front door's batches: gather records, put the sender into the headers,
 *		compress.
 *
 * tenant and device of a record are the first of its reserved headers (fl.tenant
 * and fl.device); the access method makes columns of them.  They come from the
 * authenticated connection only: what a device itself sends under these names
 * lies behind the reserved headers and is never taken for ours.
 *
 * Used by ingest.c.  Memory is the door's context; buffers of a few batches are
 * kept, so that a busy door does not ask the system for 256 KB at every turn.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fleetlog/headers.h"
#include "fleetlog/ring.h"
#include "ingest_internal.h"

/* Larger buffers than this are given back. */
#define KEEP_BUFFER		(2 * FL_INGEST_MAX_RAW)
#define KEEP_EVENTS		(64 * 1024)

static void
reset_batch(FlIngestBatch *batch)
{
	batch->state = FL_BATCH_OPEN;
	batch->finished = false;
	batch->has_state = false;
	batch->foreign = false;
	batch->off_key = 0;
	batch->nrecords = 0;
	batch->nwaiters = 0;
	batch->nended = 0;
	batch->ntold = 0;
	batch->seq = 0;
	batch->settled = 0;
	batch->min_created = FL_NO_CREATED;
	batch->max_created = FL_NO_CREATED;
	batch->charged = 0;
	batch->err = FL_ERR_NONE;
	batch->base_offset = -1;
	fl_batch_builder_reset(&batch->builder);
	fl_buf_reset(&batch->body);
	fl_buf_reset(&batch->events);
	fl_buf_reset(&batch->spans);
}

FlIngestBatch *
fl_ingest_batch_open(FlIngest *ing, const FlIngestRecord *rec)
{
	FlIngestBatch *batch;

	if (ing->nkept > 0)
		batch = ing->kept[--ing->nkept];
	else
	{
		batch = MemoryContextAllocZero(ing->mcxt, sizeof(FlIngestBatch));
		fl_batch_builder_init(&batch->builder, &ing->alloc, fl_ring_max_body());
		fl_buf_init(&batch->body, &ing->alloc, fl_ring_max_body());
		fl_buf_init(&batch->events, &ing->alloc, FL_INGEST_MAX_EVENTS);
		fl_buf_init(&batch->spans, &ing->alloc, sizeof(FlEventSpan) * FL_INGEST_MAX_RECORDS);
	}
	reset_batch(batch);
	batch->codec = rec->codec;
	batch->shards = rec->shards;
	batch->before = ing->added;
	batch->mounts = rec->mounts;
	batch->since = batch->grown = GetCurrentTimestamp();
	batch->seen = 0;
	return batch;
}

void
fl_ingest_batch_free(FlIngest *ing, FlIngestBatch *batch)
{
	if (ing->nkept < FL_INGEST_KEEP &&
		batch->builder.buf.cap <= KEEP_BUFFER && batch->body.cap <= KEEP_BUFFER && batch->events.cap <= KEEP_EVENTS)
	{
		ing->kept[ing->nkept++] = batch;
		return;
	}
	fl_batch_builder_free(&batch->builder);
	fl_buf_free(&batch->body);
	fl_buf_free(&batch->events);
	fl_buf_free(&batch->spans);
	if (batch->waiters != NULL)
		pfree(batch->waiters);
	pfree(batch);
}

/* May raise out of memory, hence comes before the record is in the batch. */
static void
reserve_waiter(FlIngest *ing, FlIngestBatch *batch)
{
	int			cap = Max(16, batch->waiters_cap * 2);

	if (batch->nwaiters < batch->waiters_cap)
		return;
	if (batch->waiters == NULL)
		batch->waiters = MemoryContextAlloc(ing->mcxt, sizeof(FlWaiter) * cap);
	else
		batch->waiters = repalloc(batch->waiters, sizeof(FlWaiter) * cap);
	batch->waiters_cap = cap;
}

static void
add_waiter(FlIngestBatch *batch, const FlIngestRecord *rec)
{
	FlWaiter   *w;

	w = &batch->waiters[batch->nwaiters++];
	w->conn_id = rec->conn_id;
	w->cookie = rec->cookie;
	w->index = batch->nrecords;
	w->state = rec->state;
	w->ended = false;
}

static void
note_created(FlIngestBatch *batch, int64 created)
{
	if (created == FL_NO_TIMESTAMP)
		return;
	if (batch->min_created == FL_NO_CREATED || created < batch->min_created)
		batch->min_created = created;
	if (batch->max_created == FL_NO_CREATED || created > batch->max_created)
		batch->max_created = created;
}

/* Room was made before. */
static void
add_events(FlIngestBatch *batch, const FlIngestRecord *rec, const uint8 *events, uint32 len)
{
	FlEventSpan span = {.index = batch->nrecords,.len = len};

	span.counted = rec->event != NULL && rec->event[0] == FL_SESSION_RECEIVED;
	if (span.counted)
		fl_session_set_distance(rec->event, (uint16) span.index);
	fl_write_bytes(&batch->events, events, len);
	fl_write_bytes(&batch->spans, &span, sizeof(span));
}

void
fl_ingest_batch_strip_events(FlIngestBatch *batch)
{
	int			nspans = (int) (batch->spans.len / sizeof(FlEventSpan));
	uint8	   *from = batch->events.data;
	uint8	   *to = from;
	int			keep = 0;
	int			w = 0;
	int			gone = 0;

	for (int i = 0; i < nspans; i++)
	{
		FlEventSpan *spans = (FlEventSpan *) batch->spans.data;
		FlEventSpan span = spans[i];
		bool		ended;

		for (; w < batch->nwaiters && batch->waiters[w].index < span.index; w++)
			gone += batch->waiters[w].ended;
		ended = w < batch->nwaiters && batch->waiters[w].index == span.index && batch->waiters[w].ended;
		if (!ended)
		{
			memmove(to, from, span.len);
			span.index -= gone;
			if (span.counted)
				fl_session_set_distance(to, (uint16) span.index);
			to += span.len;
			spans[keep++] = span;
		}
		from += span.len;
	}
	if (nspans == 0)
		return;
	batch->events.len = (size_t) (to - batch->events.data);
	batch->spans.len = sizeof(FlEventSpan) * (size_t) keep;
}

FlResult
fl_ingest_batch_add(FlIngest *ing, FlIngestBatch *batch, const FlIngestRecord *rec,
					int reserved, const uint8 *headers, size_t headers_len,
					const uint8 *events, uint32 events_len)
{
	FlResult	res;

	/* The batch's bytes and its count must agree, whatever fails. */
	if (rec->wait)
		reserve_waiter(ing, batch);
	if (events_len > 0 && (fl_buf_reserve(&batch->events, events_len) == NULL ||
						   fl_buf_reserve(&batch->spans, sizeof(FlEventSpan)) == NULL))
		return FL_TOO_LARGE;
	res = fl_batch_builder_add(&batch->builder, rec->created_ms,
							   rec->key, rec->key != NULL ? rec->key_len : -1,
							   rec->payload, rec->payload != NULL ? rec->payload_len : -1,
							   (uint8) reserved, headers, headers_len);
	if (res != FL_OK)
		return res;
	if (rec->wait)
		add_waiter(batch, rec);
	if (events_len > 0)
		add_events(batch, rec, events, events_len);
	batch->has_state |= rec->state;
	note_created(batch, rec->created_ms);
	batch->nrecords++;
	return FL_OK;
}

void
fl_ingest_batch_finish(FlIngest *ing, FlIngestBatch *batch)
{
	FlResult	res;

	if (batch->finished || batch->foreign)
		return;
	res = fl_batch_builder_finish(&batch->builder, (FlCodec) batch->codec, ing->compressor, &batch->body);
	if (res != FL_OK)
		elog(ERROR, "could not finish a batch of %d records: %s", batch->nrecords, fl_result_name(res));
	batch->finished = true;
}

/* ---- headers ------------------------------------------------------------------ */

static void
write_sender(FlBuf *out, const char *name, const char *value)
{
	size_t		name_len = strlen(name);
	size_t		value_len = strlen(value);

	fl_write_varint(out, (int32) name_len);
	fl_write_bytes(out, name, name_len);
	fl_write_varint(out, (int32) value_len);
	fl_write_bytes(out, value, value_len);
}

FlError
fl_ingest_headers(FlIngest *ing, const FlIngestRecord *rec, int *reserved,
				  const uint8 **headers, size_t *headers_len)
{
	int			more = (rec->tenant != NULL) + (rec->device != NULL);
	int32		count = 0;
	FlReader	r;

	*reserved = rec->reserved + more;
	*headers = rec->headers;
	*headers_len = rec->headers != NULL ? rec->headers_len : 0;
	if (rec->sender_in_headers)
		*reserved = rec->reserved;
	if (more == 0 || rec->sender_in_headers)
		return FL_ERR_NONE;

	fl_reader_init(&r, rec->headers, *headers_len);
	if (*headers_len > 0)
		count = fl_read_varint(&r);
	if (r.failed || count < rec->reserved)
		return FL_ERR_MALFORMED;
	if (count + more > FL_HEADERS_MAX_COUNT || *reserved > FL_HEADERS_MAX_RESERVED)
		return FL_ERR_RECORD_TOO_LARGE;

	fl_buf_reset(&ing->headers);
	fl_write_varint(&ing->headers, count + more);
	if (rec->tenant != NULL)
		write_sender(&ing->headers, "fl.tenant", rec->tenant);
	if (rec->device != NULL)
		write_sender(&ing->headers, "fl.device", rec->device);
	fl_write_bytes(&ing->headers, r.pos, fl_reader_left(&r));
	if (ing->headers.failed)
		return FL_ERR_RECORD_TOO_LARGE;
	*headers = ing->headers.data;
	*headers_len = ing->headers.len;
	return FL_ERR_NONE;
}

void
fl_ingest_charge(FlIngest *ing, FlIngestShard *shard, FlIngestBatch *batch, int64 bytes)
{
	batch->charged += bytes;
	shard->charged += bytes;
	ing->charged += bytes;
}
