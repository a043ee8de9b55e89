/*-------------------------------------------------------------------------
 *
 * turn.c
 *		The part of a writing transaction that appender and front doors share
 *		(turn.h), so that a record means the same whoever wrote it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/guest.h"
#include "fleetlog/producers.h"
#include "fleetlog/session.h"
#include "fleetlog/state.h"
#include "fleetlog/turn.h"

void
fl_turn_begin(void)
{
	fl_journal_begin();
}

FlError
fl_turn_check(const FlIngestEntry *entry, const FlStreamInfo *info)
{
	if (info == NULL)
		return FL_ERR_NO_STREAM;
	if (entry->shards != info->shards)
		return FL_ERR_MAP_CHANGED;
	if (entry->shard < 0 || entry->shard >= info->shards)
		return FL_ERR_NO_SHARD;
	/* Doors have taken it before; all that they hold may be more than the reserve. */
	if (fl_disk_reserve_reached() && !fl_journal_is_internal(entry->stream))
		return FL_ERR_DISK_RESERVE;
	return FL_ERR_NONE;
}

/*
 * Is a record of the batch a value?  The door has said so by the mounts that it knew;
 * where these have changed since, all records are looked at by those of now.
 */
static bool
has_values(const FlIngestEntry *entry)
{
	return (entry->flags & FL_INGEST_STATE) != 0 ||
		(entry->mounts != fl_catalog_mounts_digest() && fl_state_concerns(entry->stream));
}

/* What stands behind a producer's own batch: tenant, device and role, each behind a byte that says whether it is there. */
static void
take_sender(FlAppend *a, const uint8 *bytes, uint32 len)
{
	const char *p = (const char *) bytes;

	if (len == 0)
		return;
	if (*p++ != 0)
	{
		a->sender_tenant = p;
		p += strlen(p) + 1;
	}
	if (*p++ != 0)
	{
		a->sender_device = p;
		p += strlen(p) + 1;
	}
	if (*p++ != 0)
		a->sender_role = p;
}

/* A producer's own batch.  *write false: it was written before, and *out says where. */
static FlError
check_producer(FlShard *shard, const FlIngestEntry *entry, const uint8 *body, FlBatchInfo *batch, bool *write,
			   FlWritten *out)
{
	FlOriginal	original;
	FlError		err;

	/* It has passed fl_batch_check. */
	if (fl_batch_decode_header(body, entry->body_len, batch) != FL_OK)
		return FL_ERR_MALFORMED;
	err = fl_producers_check(shard, batch, write, &original);
	if (err == FL_ERR_NONE && !*write)
		*out = (FlWritten) {.base = original.base_offset,.ts = original.ts};
	return err;
}

FlError
fl_turn_write(FlShard *shard, const FlIngestEntry *entry, uint8 *body, const uint8 *events, FlWritten *out)
{
	FlAppend	a = {
		.body = body,
		.body_len = entry->body_len,
		.nrecords = entry->nrecords,
		.min_created = entry->min_created,
		.max_created = entry->max_created,
		.hidden = fl_journal_is_internal(entry->stream)
	};
	bool		state = has_values(entry);
	FlBatchInfo batch = {.producer_id = FL_NO_PRODUCER_ID};

	a.foreign = (entry->flags & FL_INGEST_FOREIGN) != 0;
	if (a.foreign)
	{
		bool		write;
		FlError		err = check_producer(shard, entry, body, &batch, &write, out);

		if (err != FL_ERR_NONE || !write)
			return err;
		take_sender(&a, events, entry->events_len);
	}
	if (batch.producer_id >= 0)
		fl_producers_begin(shard);
	/* One time for all parts, should a segment end within the batch. */
	if (state || a.foreign)
		a.ts = fl_clock_now();
	out->base = fl_log_append(shard, &a);
	out->ts = shard->last_ts;
	if (state)
		fl_state_collect(shard, &a, out->base);
	if (!a.foreign)
		fl_journal_note(shard, out->base, events, entry->events_len);
	if (batch.producer_id >= 0)
		fl_producers_note(shard, &batch, out->base, out->ts);
	fl_producers_save_if_due(shard);
	if (entry->off_key > 0)
		pg_atomic_fetch_add_u64(&shard->n_off_key, entry->off_key);
	FL_COUNT(FL_C_BATCHES, 1);
	FL_COUNT(FL_C_RECORDS, entry->nrecords);
	return FL_ERR_NONE;
}

void
fl_turn_finish(void)
{
	fl_state_apply();
	fl_journal_finish();
}
