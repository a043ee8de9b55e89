/*-------------------------------------------------------------------------
 *
 * journal.c
 *		The session journal: events are written in the transaction of what they
 *		belong to, and applied to the store when it commits.
 *
 * A turn (appender, or a door that writes by itself) notes the events that came
 * with its batches.  Those of a batch of records go into one record of the
 * journal, the last thing that the transaction writes; those of the journal's own
 * batches (openings, releases: what belongs to no record) are records already.
 * Both are applied in the commit callback, in the order of the journal, while the
 * journal's shard is still locked.
 *
 * Locks: the journal's shard is the last one that a transaction takes, whatever
 * its oid, and who has it waits for nothing until commit.  So taking it may be
 * waited for, briefly, without a deadlock.
 *
 * The streams are made by the keeper when a door first needs them, as ordinary
 * streams in schema fleetlog that are not decoded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log.h"
#include "fleetlog/worker.h"
#include "session_internal.h"

/* A holder commits within some hundred microseconds. */
#define LOCK_PAUSE_US		20
#define LOCK_TRIES_DOOR		50	/* then the appender writes */
#define LOCK_TRIES			25000	/* then the turn is tried again */

#define MAX_EVENTS			(64 * 1024 * 1024)	/* of one transaction */

static FlBuf to_write;			/* events that have no record yet */
static FlBuf to_apply;			/* events of the journal's own batches, for commit */
static bool buffers_made = false;
static bool noted = false;

/* ---- the streams -------------------------------------------------------------------- */

bool
fl_journal_look_up(Oid *journal_out, Oid *snapshot_out)
{
	Oid			schema = get_namespace_oid("fleetlog", true);
	Oid			journal = OidIsValid(schema) ? get_relname_relid("session_journal", schema) : InvalidOid;
	Oid			snapshot = OidIsValid(schema) ? get_relname_relid("session_snapshot", schema) : InvalidOid;

	if (fl_stream_lookup(journal) == NULL || fl_stream_lookup(snapshot) == NULL)
		return false;
	*journal_out = journal;
	*snapshot_out = snapshot;
	return true;
}

void
fl_journal_publish(Oid journal, Oid snapshot)
{
	pg_atomic_write_u32(&fl_store->snapshot, snapshot);
	pg_write_barrier();
	pg_atomic_write_u32(&fl_store->journal, journal);
}

bool
fl_journal_stream(Oid *stream)
{
	*stream = pg_atomic_read_u32(&fl_store->journal);
	if (OidIsValid(*stream) && fl_stream_lookup(*stream) != NULL)
		return true;
	pg_atomic_write_u32(&fl_store->wanted, 1);
	fl_worker_wake(FL_WORKER_KEEPER, 0);
	return false;
}

FlShard *
fl_journal_open(Oid stream)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);

	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the stream of the session journal has been dropped")));
	return fl_shard_open(stream, 0, info->durability == FL_DURABILITY_QUORUM);
}

bool
fl_journal_is_internal(Oid stream)
{
	return fl_store != NULL && OidIsValid(stream) &&
		(stream == pg_atomic_read_u32(&fl_store->journal) || stream == pg_atomic_read_u32(&fl_store->snapshot));
}

/* ---- noting --------------------------------------------------------------------------- */

static void *
lasting_realloc(void *ctx, void *old, size_t old_size, size_t new_size)
{
	return old == NULL ? MemoryContextAllocHuge(TopMemoryContext, new_size) : repalloc_huge(old, new_size);
}

static void
lasting_free(void *ctx, void *p)
{
	if (p != NULL)
		pfree(p);
}

/* The buffers outlive every transaction. */
static void
make_buffers(void)
{
	static const FlAllocator lasting = {lasting_realloc, lasting_free, NULL};

	if (buffers_made)
		return;
	fl_buf_init(&to_write, &lasting, MAX_EVENTS);
	fl_buf_init(&to_apply, &lasting, MAX_EVENTS);
	buffers_made = true;
}

void
fl_journal_begin(void)
{
	if (!noted)
		return;
	fl_buf_reset(&to_write);
	fl_buf_reset(&to_apply);
	noted = false;
}

static void
check_memory(const FlBuf *buf)
{
	if (buf->failed)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("too many session events in one transaction")));
}

void
fl_journal_note(const FlShard *shard, int64 base, const uint8 *events, uint32 len)
{
	FlSessionEvent at = {
		.type = FL_SESSION_AT,.stream = shard->key.stream,.shard = (uint16) shard->key.shard,.log_offset = base
	};

	if (len == 0)
		return;
	make_buffers();
	noted = true;
	pg_atomic_fetch_add_u64(&fl_store->journaled, len);
	if (shard->key.stream == pg_atomic_read_u32(&fl_store->journal))
	{
		fl_write_bytes(&to_apply, events, len);
		check_memory(&to_apply);
		return;
	}
	fl_session_encode_event(&to_write, &at);
	fl_write_bytes(&to_write, events, len);
	check_memory(&to_write);
}

/* ---- writing ---------------------------------------------------------------------------- */

int64
fl_journal_append(FlShard *shard, const uint8 *payload, size_t len)
{
	FlBatchBuilder builder;
	FlBuf		body;
	FlAppend	a = {.nrecords = 1,.min_created = FL_NO_CREATED,.max_created = FL_NO_CREATED,.hidden = true};
	int64		base;

	fl_batch_builder_init(&builder, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	fl_buf_init(&body, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	if (fl_batch_builder_add(&builder, FL_NO_TIMESTAMP, NULL, -1, payload, (int64) len, 0, NULL, 0) != FL_OK ||
		fl_batch_builder_finish(&builder, FL_CODEC_LZ4, fl_server_compressor(), &body) != FL_OK)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("session events could not be put into a batch")));
	a.body = body.data;
	a.body_len = (uint32) body.len;
	base = fl_log_append(shard, &a);
	fl_batch_builder_free(&builder);
	fl_buf_free(&body);
	return base;
}

static void
lock_journal(FlShard *shard)
{
	bool		door = fl_my_slot != NULL && fl_my_slot->kind == FL_WORKER_FRONT_DOOR;

	for (int i = door ? LOCK_TRIES_DOOR : LOCK_TRIES; !fl_shard_lock(shard, FL_LOCK_NOWAIT); i--)
	{
		if (i == 0)
			ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE), errmsg("the session journal is locked")));
		pg_usleep(LOCK_PAUSE_US);
	}
	/* Nobody's DDL is waited for, and by a door no segment either: the turn is the appender's then. */
	if (door ? !fl_log_is_ready(shard, 1) : fl_log_is_blocked(shard))
		ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE), errmsg("the session journal is not ready")));
}

void
fl_journal_finish(void)
{
	FlShard    *shard;

	if (!noted || to_write.len == 0)
		return;
	shard = fl_journal_open(pg_atomic_read_u32(&fl_store->journal));
	lock_journal(shard);
	fl_journal_append(shard, to_write.data, to_write.len);
	FL_STOP_POINT("journal_after_write");
}

void
fl_journal_write(const FlBuf *events)
{
	FlShard    *shard = fl_journal_open(pg_atomic_read_u32(&fl_store->journal));

	make_buffers();
	fl_journal_begin();
	lock_journal(shard);
	noted = true;
	fl_write_bytes(&to_write, events->data, events->len);
	check_memory(&to_write);
	pg_atomic_fetch_add_u64(&fl_store->journaled, events->len);
	fl_journal_append(shard, events->data, events->len);
}

/* ---- the end of the transaction ------------------------------------------------------------- */

/*
 * Nothing here may fail.  The bytes were checked when they were made; should they
 * be wrong all the same, what is left of them is not applied, and a restart will
 * say so.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	if (!noted)
		return;
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			(void) fl_store_apply(to_apply.data, to_apply.len);
			(void) fl_store_apply(to_write.data, to_write.len);
			fl_journal_begin();
			break;
		case XACT_EVENT_ABORT:
			fl_journal_begin();
			break;
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			break;
	}
}

void
fl_session_callbacks_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}
