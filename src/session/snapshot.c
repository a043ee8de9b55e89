/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *		Snapshots of the store, so that the journal need not be kept for ever.
 *
 *	1	under the journal's lock: its next offset, at which store and journal agree
 *	2	one transaction: this offset, the sessions, the end mark
 *	3	when that is flushed: the heads of both streams rise, and retention drops
 *		what lies below
 *
 * The sessions are copied while events go on, some at a time, so the copy of one
 * may be later than the offset of step 1.  Events are absolute, hence reading the
 * journal from that offset again gives the same (store.c).  A crash between the
 * steps leaves the last snapshot, and the journal from its offset on.
 *
 * When: after fleetlog.session_journal_size bytes of events; and once a minute if
 * as many bytes have come as the last snapshot had, so that snapshots at most
 * double what is written.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/guest.h"
#include "fleetlog/log.h"
#include "fleetlog/worker.h"
#include "session_internal.h"

#define MINUTE			(60 * USECS_PER_SEC)
#define PIECE			(64 * 1024)	/* bytes of events copied at a time */

/* This process's, which is the only one that writes snapshots. */
static TimestampTz written_at = 0;
static uint64 written_upto = 0; /* of fl_store->journaled */
static uint64 last_size = 0;

bool
fl_snapshot_is_due(void)
{
	uint64		fresh = pg_atomic_read_u64(&fl_store->journaled) - written_upto;

	if (!OidIsValid(pg_atomic_read_u32(&fl_store->journal)) || fresh == 0)
		return false;
	if (fresh >= (uint64) fl_journal_kb * 1024)
		return true;
	return fresh >= last_size && GetCurrentTimestamp() - written_at >= MINUTE;
}

/* Everything below is in the store, because who wrote it held this lock until it was. */
static int64
find_offset(Oid journal)
{
	FlShard    *shard;
	int64		offset;

	fl_keep_begin();
	shard = fl_journal_open(journal);
	fl_shard_lock(shard, FL_LOCK_TIMEOUT);
	offset = fl_log_next_offset(shard);
	fl_keep_commit();
	return offset;
}

static void
append_event(FlShard *shard, FlBuf *buf, const FlSessionEvent *event)
{
	fl_buf_reset(buf);
	fl_session_encode_event(buf, event);
	fl_journal_append(shard, buf->data, buf->len);
}

/* Returns the offset at which the snapshot begins. */
static int64
write_sessions(Oid journal, Oid snapshot, int64 journal_offset)
{
	FlSessionEvent head = {.type = FL_SESSION_SNAPSHOT,.stream = journal,.log_offset = journal_offset};
	FlSessionEvent end = {.type = FL_SESSION_SNAPSHOT_END};
	FlBuf		buf;
	FlShard    *shard;
	uint32		next = 1;
	int64		first;

	fl_keep_begin();
	fl_buf_init(&buf, fl_server_allocator(), MaxAllocSize);
	shard = fl_journal_open(snapshot);
	fl_shard_lock(shard, FL_LOCK_TIMEOUT);
	first = fl_log_next_offset(shard);
	append_event(shard, &buf, &head);
	last_size = 0;
	for (;;)
	{
		fl_buf_reset(&buf);
		if (!fl_store_dump(&buf, &next, PIECE))
			break;
		if (buf.len == 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		fl_journal_append(shard, buf.data, buf.len);
		last_size += buf.len;
	}
	append_event(shard, &buf, &end);
	fl_buf_free(&buf);
	FL_STOP_POINT("snapshot_before_commit");
	fl_keep_commit();
	return first;
}

static void
raise_head(Oid stream, int64 head)
{
	FlShard    *shard;
	FlHold		hold;

	fl_keep_begin();
	shard = fl_journal_open(stream);
	fl_shard_lock(shard, FL_LOCK_TIMEOUT);
	/* Somebody may hold it for reasons of his own; then it is only longer. */
	(void) fl_log_raise_head(shard, head, &hold);
	fl_keep_commit();
}

void
fl_snapshot_write(Oid journal, Oid snapshot)
{
	uint64		upto = pg_atomic_read_u64(&fl_store->journaled);
	int64		offset = find_offset(journal);
	int64		first = write_sessions(journal, snapshot, offset);

	written_at = GetCurrentTimestamp();
	written_upto = upto;
	fl_flush_published();
	FL_STOP_POINT("snapshot_after_commit");
	raise_head(journal, offset);
	raise_head(snapshot, first);
}
