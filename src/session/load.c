/*-------------------------------------------------------------------------
 *
 * load.c
 *		The store at start: the last snapshot, and the journal from where it says.
 *
 * A snapshot is one transaction, so what is there of it is all of it.  It names the
 * journal that it belongs to: tables that a dump has brought into another database
 * have another oid, and the sessions in them are those of another server, whose
 * clients do not know this one.  They are left alone; the first snapshot removes them.
 *
 * An error ends the attempt and is tried again by the keeper; no front door listens
 * meanwhile, because a session that is there and not known would be one lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fleetlog/log.h"
#include "session_internal.h"

/* What has been read of the snapshot. */
typedef struct Loading
{
	Oid			journal;
	bool		found;			/* a snapshot of this journal */
	bool		complete;
	int64		from;			/* offset of the journal from which to go on */
} Loading;

typedef void (*PayloadFn) (Loading *loading, const uint8 *payload, size_t len);

static void
broken(Oid stream, int64 offset, FlResult why)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("the session journal cannot be read: record " INT64_FORMAT " of stream %u is %s",
					offset, stream, fl_result_name(why)),
			 errhint("Without its sessions the server starts after fleetlog.drop_stream('fleetlog.session_journal').")));
}

/* The kind of a snapshot's payload is that of its first event. */
static void
take_snapshot(Loading *loading, const uint8 *payload, size_t len)
{
	FlSessionReader reader;
	FlSessionEvent event;

	fl_session_reader_init(&reader, payload, len);
	if (!fl_session_next_event(&reader, &event))
		return;
	if (event.type == FL_SESSION_SNAPSHOT)
	{
		fl_store_reset(MyDatabaseId);
		loading->found = event.stream == loading->journal;
		loading->complete = false;
		loading->from = event.log_offset;
	}
	else if (event.type == FL_SESSION_SNAPSHOT_END)
		loading->complete = true;
	else if (loading->found)
		(void) fl_store_apply(payload, len);
}

static void
take_journal(Loading *loading, const uint8 *payload, size_t len)
{
	(void) fl_store_apply(payload, len);
}

static void
check_payload(Oid stream, const FlLogRecord *rec)
{
	FlSessionReader reader;
	FlSessionEvent event;

	fl_session_reader_init(&reader, rec->payload, rec->payload_len > 0 ? (size_t) rec->payload_len : 0);
	while (fl_session_next_event(&reader, &event))
		;
	if (reader.result != FL_OK)
		broken(stream, rec->log_offset, reader.result);
}

static void
read_stream(Loading *loading, Oid stream, int64 from, PayloadFn take)
{
	FlLogPosition pos = {.offset = from};
	FlBatchDecoder *decoder = fl_batch_decoder_create(CurrentMemoryContext);
	int64		tail = fl_log_tail(stream, 0);
	FlLogReader *reader;
	FlStoredBatch batch;
	FlLogRecord rec;

	if (from >= tail)
		return;
	reader = fl_log_reader_begin(stream, 0, &pos, tail);
	while (fl_log_reader_next(reader, &batch))
	{
		CHECK_FOR_INTERRUPTS();
		fl_batch_decoder_open(decoder, &batch);
		while (fl_batch_decoder_next(decoder, &rec))
		{
			if (rec.log_offset < from)
				continue;
			check_payload(stream, &rec);
			take(loading, rec.payload, rec.payload_len > 0 ? (size_t) rec.payload_len : 0);
		}
	}
	fl_log_reader_end(reader);
}

void
fl_sessions_load(void)
{
	Loading		loading = {0};

	Oid			snapshot;

	fl_store_reset(MyDatabaseId);
	fl_journal_publish(InvalidOid, InvalidOid);
	if (fl_journal_look_up(&loading.journal, &snapshot))
	{
		read_stream(&loading, snapshot, fl_log_head(snapshot, 0), take_snapshot);
		if (loading.found && !loading.complete)
			broken(snapshot, fl_log_tail(snapshot, 0), FL_INCOMPLETE);
		if (loading.found)
		{
			read_stream(&loading, loading.journal, loading.from, take_journal);
			fl_journal_publish(loading.journal, snapshot);
		}
	}
	fl_store_loaded(GetCurrentTimestamp());
	ereport(LOG, (errmsg("fleetlog: %u sessions are known", fl_store->n_kept)));
}
