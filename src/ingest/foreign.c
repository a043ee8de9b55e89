/*-------------------------------------------------------------------------
 *
 * foreign.c
 *		Batches as producers have built them.
 *
 * They stand in the queues of ingest.c like our own, but closed from the beginning:
 * nothing joins them, nothing is taken out of them, and they are written byte for
 * byte (REQUIREMENTS K5) but for what the log stamps.  One waiter speaks for the
 * whole batch.
 *
 * Since each brings its bytes with it, they are charged until they are released, and
 * as many of a shard may be under way as the memory allows: a commit takes all that
 * came while the last one was flushed, so small batches of many producers share it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/batch_check.h"
#include "fleetlog/guest.h"
#include "fleetlog/ring.h"
#include "ingest_internal.h"

/* What a batch costs beyond its bytes. */
#define BATCH_OVERHEAD	(sizeof(FlIngestBatch) + 16 * sizeof(FlWaiter))

bool
fl_ingest_foreign_fits(FlIngest *ing, Oid stream, int32 shards, int32 shard, int64 bytes, int64 all)
{
	FlIngestShard *s = fl_ingest_find_shard(ing, stream, shard);
	int64		limit = fl_ingest_memory_limit();

	if (s->stream->nrecords > 0 && s->stream->shards != shards)
		return false;
	if (ing->charged > 0 && ing->charged + all > limit)
		return false;
	return s->charged == 0 || s->charged + bytes + (int64) BATCH_OVERHEAD <= limit / FL_INGEST_SHARD_PART;
}

static void
write_name(FlBuf *out, const char *name)
{
	fl_write_u8(out, name != NULL);
	if (name != NULL)
		fl_write_bytes(out, name, strlen(name) + 1);
}

/* As fl_turn_write reads it. */
static void
write_sender(FlBuf *out, const FlIngestForeign *f)
{
	if (f->tenant == NULL && f->device == NULL && f->role == NULL)
		return;
	write_name(out, f->tenant);
	write_name(out, f->device);
	write_name(out, f->role);
}

static void
add_waiter(FlIngest *ing, FlIngestBatch *b, const FlIngestForeign *f)
{
	if (b->waiters == NULL)
	{
		b->waiters = MemoryContextAlloc(ing->mcxt, sizeof(FlWaiter));
		b->waiters_cap = 1;
	}
	b->waiters[0] = (FlWaiter) {.conn_id = f->conn_id,.cookie = f->cookie};
	b->nwaiters = 1;
}

static void
fill_batch(FlIngestBatch *b, const FlIngestForeign *f)
{
	fl_write_bytes(&b->body, f->body, f->body_len);
	write_sender(&b->events, f);
	if (b->body.failed || b->events.failed)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	if (f->max_timestamp != FL_NO_CREATED)
		fl_batch_set_max_timestamp(b->body.data, b->body.len, f->max_timestamp);
	b->foreign = true;
	b->finished = true;
	b->has_state = f->state;
	b->off_key = f->off_key;
	b->nrecords = f->nrecords;
	b->min_created = f->min_created;
	b->max_created = f->max_created;
	b->state = FL_BATCH_READY;
}

FlError
fl_ingest_add_foreign(FlIngest *ing, const FlIngestForeign *f)
{
	FlIngestRecord rec = {.shards = f->shards,.codec = FL_CODEC_NONE,.mounts = f->mounts};
	FlIngestShard *s = fl_ingest_find_shard(ing, f->stream, f->shard);
	FlIngestBatch *b;

	if (fl_disk_reserve_reached())
		return FL_ERR_DISK_RESERVE;
	if (f->body_len > fl_ring_max_body())
		return FL_ERR_RECORD_TOO_LARGE;
	b = fl_ingest_batch_open(ing, &rec);
	PG_TRY();
	{
		fill_batch(b, f);
		add_waiter(ing, b, f);
	}
	PG_CATCH();
	{
		fl_ingest_batch_free(ing, b);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (s->open != NULL)
		fl_ingest_close_batch(ing, s);
	fl_ingest_queue(ing, s, b);
	fl_ingest_charge(ing, s, b, (int64) f->body_len + (int64) BATCH_OVERHEAD);
	ing->nrecords += f->nrecords;
	s->stream->nrecords += f->nrecords;
	s->stream->shards = f->shards;
	return FL_ERR_NONE;
}
