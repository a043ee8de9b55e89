/*-------------------------------------------------------------------------
 *
 * turn.c
 *		The part of a writing transaction that appender and front doors share
 *		(turn.h), so that a record means the same whoever wrote it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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

/* What stands behind a producer's own batch: tenant and device, each behind a byte that says whether it is there. */
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
		a->sender_device = p;
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

	a.foreign = (entry->flags & FL_INGEST_FOREIGN) != 0;
	if (a.foreign)
		take_sender(&a, events, entry->events_len);
	/* One time for all parts, should a segment end within the batch. */
	if (state || a.foreign)
		a.ts = fl_clock_now();
	out->base = fl_log_append(shard, &a);
	out->ts = shard->last_ts;
	if (state)
		fl_state_collect(shard, &a, out->base);
	if (!a.foreign)
		fl_journal_note(shard, out->base, events, entry->events_len);
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
