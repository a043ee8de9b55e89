/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *		What is known of a shard's producers over a restart: saved in a row now and
 *		then, and found again from that row and the log behind it.
 *
 * Saving costs some 150 bytes a producer for every SAVE_BYTES of log, and is done by
 * whoever has the shard's lock anyway, in the transaction that he is in.  A load reads
 * the heads of what was written since: one page of a large batch, and all pages of small
 * ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "fleetlog/log.h"
#include "producer_internal.h"

#define SAVE_BYTES		(32 * 1024 * 1024)
#define STATE_MAX		(512 * 1024 * 1024)

/* So that a snapshot is a small part of what is written, many producers or not. */
#define BYTES_PER_STATE_BYTE	16

/* ---- saving ---------------------------------------------------------------------- */

static void
write_state(void *arg, const FlProducerState *state)
{
	if (!fl_producer_is_expired(&state->window))
		fl_producer_encode(arg, state->key.id, &state->window);
}

static void
collect(const FlShard *shard, FlBuf *buf)
{
	int			n;
	FlProducerState *list = fl_producer_pool_copy(&shard->key, &n);

	for (int i = 0; i < n; i++)
		if (fl_producer_noted(&list[i].key) == NULL)
			write_state(buf, &list[i]);
	pfree(list);
	fl_producer_each_noted(&shard->key, write_state, buf);
	if (buf->failed)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("what is known of the idempotent producers of a shard does not fit into a row"),
				 errhint("Lower fleetlog.kafka_max_producers and restart the server.")));
}

static void
save(FlShard *shard)
{
	FlBuf		buf;

	fl_buf_init(&buf, fl_server_allocator(), STATE_MAX);
	collect(shard, &buf);
	fl_producer_row_write(shard->key.stream, shard->key.shard, fl_log_next_offset(shard), buf.data, buf.len);
	/* Should this be rolled back, the next time comes later: more is read, nothing is lost. */
	shard->unsaved_bytes = -(int64) buf.len * BYTES_PER_STATE_BYTE;
	fl_buf_free(&buf);
}

/* False: the shard has never had an idempotent producer. */
static bool
knows_any(FlShard *shard)
{
	if (!shard->producers_known)
		fl_producers_load(shard);
	return shard->producers_have_row;
}

/* A transaction with an old snapshot could not change the row, if another one has since. */
void
fl_producers_save_if_due(FlShard *shard)
{
	if (shard->unsaved_bytes < SAVE_BYTES || IsolationUsesXactSnapshot())
		return;
	if (knows_any(shard))
		save(shard);
	else
		shard->unsaved_bytes = 0;
}

bool
fl_producers_are_ready(const FlShard *shard, const uint8 *body, uint32 body_len)
{
	FlBatchInfo info;

	if (shard->producers_known)
		return true;
	if (shard->unsaved_bytes >= SAVE_BYTES)
		return false;
	return body == NULL || fl_batch_decode_header(body, body_len, &info) != FL_OK || info.producer_id < 0;
}

/* The log will not tell any more what lies below the head. */
void
fl_producers_before_trim(FlShard *shard, int64 head)
{
	int64		log_offset;
	uint8	   *state;
	Size		len;

	if (!fl_producer_row_read(shard->key.stream, shard->key.shard, &log_offset, &state, &len))
		return;
	if (log_offset < head && knows_any(shard))
		save(shard);
}

/* ---- loading --------------------------------------------------------------------- */

static HTAB *
create_table(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(FlProducerKey);
	ctl.entrysize = sizeof(FlProducerState);
	ctl.hcxt = CurrentMemoryContext;
	return hash_create("fleetlog producers found", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static FlProducerWindow *
find(HTAB *found, const FlShard *shard, int64 id)
{
	FlProducerKey key = fl_producer_key(&shard->key, id);
	bool		exists;
	FlProducerState *state = hash_search(found, &key, HASH_ENTER, &exists);

	if (!exists)
		memset(&state->window, 0, sizeof(state->window));
	return &state->window;
}

static void
read_row(HTAB *found, const FlShard *shard, const uint8 *bytes, Size len)
{
	FlReader	r;
	FlProducerWindow w;
	int64		id;

	fl_reader_init(&r, bytes, len);
	while (fl_producer_decode(&r, &id, &w))
		*find(found, shard, id) = w;
	if (r.failed)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("what is known of the idempotent producers of shard %d of stream %u cannot be read",
						shard->key.shard, shard->key.stream),
				 errhint("Delete its row of fleetlog.producer_snapshot: its producers then begin anew.")));
}

static void
read_log(HTAB *found, FlShard *shard, int64 from)
{
	FlLogPosition pos = {.offset = Max(from, fl_log_head(shard->key.stream, shard->key.shard))};
	FlLogReader *reader = fl_log_reader_begin(shard->key.stream, shard->key.shard, &pos, fl_log_next_offset(shard));
	FlStoredBatch batch;
	FlBatchInfo info;
	int64		bytes = 0;

	fl_log_reader_heads(reader);
	while (fl_log_reader_next(reader, &batch))
	{
		/* The records may be missing. */
		FlResult	res = fl_batch_decode_header(batch.body, batch.body_len, &info);

		if (res != FL_OK && res != FL_INCOMPLETE)
			elog(ERROR, "the header of the batch at offset " INT64_FORMAT " cannot be read", batch.base_offset);
		bytes += (int64) info.size;
		if (!batch.foreign || info.producer_id < 0)
			continue;
		fl_producer_note(find(found, shard, info.producer_id), info.producer_epoch, info.base_sequence,
						 info.record_count, batch.base_offset, batch.append_ts);
	}
	fl_log_reader_end(reader);
	shard->unsaved_bytes = Max(shard->unsaved_bytes, bytes);
}

static int
by_time(const void *x, const void *y)
{
	int64		a = fl_producer_last_ts(&((const FlProducerState *) x)->window);
	int64		b = fl_producer_last_ts(&((const FlProducerState *) y)->window);

	return a < b ? -1 : a > b;
}

/* Oldest first, so that these go first where the pool is full. */
static void
put_all(HTAB *found)
{
	int			n = (int) hash_get_num_entries(found);
	FlProducerState *list = palloc_extended(sizeof(FlProducerState) * Max(n, 1), MCXT_ALLOC_HUGE);
	HASH_SEQ_STATUS scan;
	FlProducerState *state;

	n = 0;
	hash_seq_init(&scan, found);
	while ((state = hash_seq_search(&scan)) != NULL)
		if (!fl_producer_is_expired(&state->window))
			list[n++] = *state;
	qsort(list, n, sizeof(FlProducerState), by_time);
	for (int i = 0; i < n; i++)
		fl_producer_pool_put(&list[i].key, &list[i].window);
	pfree(list);
}

/*
 * The shard's lock is held, and this transaction has appended no idempotent batch to
 * it: what is found is committed.
 */
void
fl_producers_load(FlShard *shard)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fleetlog producers", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	int64		log_offset;
	uint8	   *state;
	Size		len;
	bool		has_row = fl_producer_row_read(shard->key.stream, shard->key.shard, &log_offset, &state, &len);

	Assert(fl_shard_lock_held(shard));
	if (has_row)
	{
		HTAB	   *found = create_table();

		read_row(found, shard, state, len);
		read_log(found, shard, log_offset);
		put_all(found);
	}
	shard->producers_have_row = has_row;
	shard->producers_known = true;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
