/*-------------------------------------------------------------------------
 *
 * trim.c
 *		Where a shard begins: raising its head, trim_head(), "too old".
 *
 * A head is a row (shard_config), so it outlives the records; readers have a
 * copy in shared memory, which the commit of the raise moves.  From then on all
 * of them begin there.  Files go later, segment by segment, by the keeper
 * (bgworker/main/retention.c): whether they are still there shows nowhere.
 *
 * A head is raised only by who holds the shard's lock: the tail cannot move
 * while the condition of a trim is checked and until it has committed, and a
 * hold is either seen or comes later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/catalog.h"
#include "fleetlog/guest.h"
#include "fleetlog/producers.h"
#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "log_private.h"
#include "xact.h"

#define FLUSH_NAP_MS	20

PG_FUNCTION_INFO_V1(fl_sql_trim_head);
PG_FUNCTION_INFO_V1(fl_sql_oldest);

void
fl_log_too_old(Oid stream, int32 shard, int64 offset, int64 head)
{
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_OFFSET_TOO_OLD)),
			 errmsg("offset " INT64_FORMAT " of shard %d of stream \"%s\" is too old",
					offset, shard, get_rel_name(stream) ? get_rel_name(stream) : "?"),
			 errdetail("The oldest offset is " INT64_FORMAT ".", head)));
}

int64
fl_log_raise_head(FlShard *shard, int64 head, FlHold *hold)
{
	Oid			stream = shard->key.stream;
	int32		number = shard->key.shard;
	FlShardRow	row;

	Assert(fl_shard_lock_held(shard));
	(void) fl_shard_row_read(stream, number, &row);
	hold->id = 0;
	if (head <= row.head)
		return row.head;
	if (fl_hold_find(stream, number, row.head, head, hold))
	{
		head = Max(row.head, hold->lower);
		if (head == row.head)
			return head;
	}
	fl_shard_row_raise(stream, number, head, head);
	fl_xact_note_trim(shard);
	return head;
}

/*
 * While the query of this session is being cancelled: is it because the keeper
 * wants the segment that is being read?  Then the reader is told so.
 */
void
fl_check_evicted(Oid leaf)
{
	FlLeafInfo	info;
	FlShard    *shard;
	int64		head;

	if (InterruptHoldoffCount > 0 || CritSectionCount > 0 || QueryCancelHoldoffCount > 0)
		return;
	if (!fl_leaf_lookup(leaf, &info) || !OidIsValid(info.stream) ||
		(shard = fl_shard_find(info.stream, info.shard)) == NULL || !OidIsValid(shard->retention.evicting))
		return;
	head = (int64) pg_atomic_read_u64(&shard->head);
	if (shard->retention.evicting != leaf && info.upper > head)
		return;
	QueryCancelPending = false;
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_OFFSET_TOO_OLD)),
			 errmsg("records of shard %d of stream \"%s\" were removed while they were read",
					info.shard, get_rel_name(info.stream) ? get_rel_name(info.stream) : "?"),
			 errdetail("The oldest offset is " INT64_FORMAT ".", head),
			 errhint("Read faster, raise fleetlog.retention_grace, or keep them with fleetlog.hold().")));
}

/* ---- trim_head -------------------------------------------------------------------- */

static void
check_trim_args(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("stream, shard and before must not be NULL")));
	if (PG_GETARG_INT64(2) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("before must not be negative")));
}

static void
check_tail(FlShard *shard, int64 before, int64 tail, bool has_expected, int64 expected)
{
	const char *name = get_rel_name(shard->key.stream);
	int64		durable = fl_shard_durable_tail(shard);

	if (has_expected && expected != tail)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_TRIM_REFUSED)),
				 errmsg("shard %d of stream \"%s\" is not trimmed: its tail is not " INT64_FORMAT,
						shard->key.shard, name, expected),
				 errdetail("The tail is " INT64_FORMAT ".", tail)));
	if (before > tail)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("offset " INT64_FORMAT " lies beyond the tail of shard %d of stream \"%s\"",
						before, shard->key.shard, name),
				 errdetail("The tail is " INT64_FORMAT ".", tail)));
	/* What nobody may see yet is not old. */
	if (before > durable)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("records before offset " INT64_FORMAT " of shard %d of stream \"%s\" are not durable yet",
						before, shard->key.shard, name),
				 errdetail("Durable are those before " INT64_FORMAT ".", durable)));
}

/*
 * Last values that follow the log are in the log until their table has them.  The state
 * worker brings them there within a second when it is asked, unless somebody has locked
 * the table.
 */
static void
wait_for_last_values(Oid stream, int32 shard, int64 before)
{
	TimestampTz give_up = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), fl_shard_lock_timeout_ms);

	while (fl_state_flushed_floor(stream, shard) < before)
	{
		CHECK_FOR_INTERRUPTS();
		if (GetCurrentTimestamp() >= give_up)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("last values of shard %d of stream \"%s\" are not in their table yet", shard, get_rel_name(stream)),
					 errdetail("They are up to offset " INT64_FORMAT ".", fl_state_flushed_floor(stream, shard)),
					 errhint("Somebody may have locked the state table; see fleetlog.stat_state_last.")));
		fl_state_await_flush();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, FLUSH_NAP_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

Datum
fl_sql_trim_head(PG_FUNCTION_ARGS)
{
	const FlStreamInfo *info;
	FlShard    *shard;
	FlHold		hold;
	int64		before;
	int64		head;
	Oid			stream;
	int32		number;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog.trim_head()");
	PreventCommandIfParallelMode("fleetlog.trim_head()");
	check_trim_args(fcinfo);
	stream = PG_GETARG_OID(0);
	number = PG_GETARG_INT32(1);
	before = PG_GETARG_INT64(2);
	info = fl_stream_own(stream);
	if (number < 0 || number >= info->shards)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" has no shard %d", info->name, number),
				 errdetail("Its shards are 0 to %d.", info->shards - 1)));

	/* What has committed is flushed before the lock is taken, not under it. */
	(void) fl_log_tail(stream, number);
	wait_for_last_values(stream, number, Min(before, fl_log_tail(stream, number)));

	/*
	 * With the lock no record can come between the check and the commit; those
	 * that this very transaction appended count as there.
	 */
	shard = fl_shard_open(stream, number, info->durability == FL_DURABILITY_QUORUM);
	fl_shard_lock(shard, FL_LOCK_TIMEOUT);
	check_tail(shard, before, fl_log_next_offset(shard), !PG_ARGISNULL(3),
			   PG_ARGISNULL(3) ? 0 : PG_GETARG_INT64(3));
	fl_producers_before_trim(shard, before);
	head = fl_log_raise_head(shard, before, &hold);
	if (hold.id != 0)
		fl_hold_refuse(stream, number, &hold);
	fl_worker_wake(FL_WORKER_KEEPER, 0);
	PG_RETURN_INT64(head);
}

/* ---- for views ---------------------------------------------------------------------- */

/* Append time of the oldest record that readers may see. */
Datum
fl_sql_oldest(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	int32		shard = PG_GETARG_INT32(1);
	const FlStreamInfo *info = fl_stream_lookup(stream);
	FlLogPosition pos = {0};
	FlLogReader *reader;
	FlStoredBatch batch;
	TimestampTz ts = 0;
	bool		found = false;
	int64		tail;

	if (info == NULL || shard < 0 || shard >= info->shards)
		PG_RETURN_NULL();
	tail = fl_log_tail(stream, shard);
	pos.offset = fl_log_head(stream, shard);
	if (pos.offset >= tail)
		PG_RETURN_NULL();
	reader = fl_log_reader_begin(stream, shard, &pos, tail);
	if (fl_log_reader_next(reader, &batch))
	{
		found = true;
		ts = batch.append_ts;
	}
	fl_log_reader_end(reader);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(ts);
}
