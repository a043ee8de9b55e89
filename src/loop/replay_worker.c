/*-------------------------------------------------------------------------
 *
 * replay_worker.c
 *		A process that takes part in the replay of a session: replay_parallel.c.
 *
 * It is in the session's lock group before it takes any lock, connects as the role that
 * the session has logged in as, takes over its settings, and does its work in one
 * read-only transaction as the session's role.  Errors and notices go to the session, as
 * rows do.  When the session ends or fails it is told to end (SIGTERM).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/tqueue.h"
#include "libpq/pqmq.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/shm_mq.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "fleetlog/compat.h"
#include "fleetlog/replay.h"
#include "replay_parallel.h"

PGDLLEXPORT void fl_main_replay(Datum arg);

typedef struct Work
{
	int			number;
	shm_toc    *toc;
	FlReplayShared *shared;
	FlReplayLoop loop;
	FlReplayScope scope;
	FlRecordParts responses;
	FlRecordParts records;
	bool		busy;			/* has taken a unit of this step */
	FlReplay   *replay;
	DestReceiver *rows;
	TupleTableSlot *slot;
	MemoryContext unit_mcxt;
} Work;

/* ---- steps --------------------------------------------------------------------------------- */

static bool
take_unit(Work *w, FlReplayStep step, int *unit)
{
	FlReplayShared *shared = w->shared;
	bool		found;

	SpinLockAcquire(&shared->mutex);
	found = shared->next[step] < shared->units[step];
	if (found)
	{
		*unit = shared->next[step]++;
		if (!w->busy)
			shared->busy[step]++;
		w->busy = true;
	}
	SpinLockRelease(&shared->mutex);
	return found;
}

/* `written` by this worker can be read, then what all others have written. */
static void
end_step(Work *w, FlReplayStep step, FlRecordParts *written)
{
	FlReplayShared *shared = w->shared;

	for (int i = 0; written != NULL && i < written->n; i++)
		sts_end_write(written->stores[i]);
	if (w->busy)
	{
		SpinLockAcquire(&shared->mutex);
		shared->busy[step]--;
		/* Who has read decisions goes on writing to the same parts, or has them to end at least. */
		w->busy = step == FL_REPLAY_STEP_READ;
		shared->busy[FL_REPLAY_STEP_REQUESTS] += w->busy;
		SpinLockRelease(&shared->mutex);
		ConditionVariableBroadcast(&shared->step_done);
	}
	ConditionVariablePrepareToSleep(&shared->step_done);
	while (!fl_replay_step_is_done(shared, step))
		ConditionVariableSleep(&shared->step_done, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

static void
do_unit(Work *w, FlReplayStep step, int unit)
{
	FlReplayShared *shared = w->shared;
	MemoryContext old = MemoryContextSwitchTo(w->unit_mcxt);
	FlRecords  *records;

	switch (step)
	{
		case FL_REPLAY_STEP_READ:
			if (unit < shared->n_response_shards)
				fl_records_part_responses(&w->loop, &w->scope, shared->first, unit, &w->responses);
			else
				fl_records_part_decisions(&w->loop, &w->scope, shared->first, unit - shared->n_response_shards, &w->records);
			break;
		case FL_REPLAY_STEP_REQUESTS:
			fl_records_part_requests(&w->loop, &w->scope, shared->first, &w->responses, unit, &w->records);
			break;
		case FL_REPLAY_STEP_REPLAY:
			records = fl_records_part_read(&w->records, unit);
			fl_replay_part(w->replay, records, unit, w->records.n);
			fl_replay_end(w->replay);
			fl_records_end(records);
			break;
		case FL_REPLAY_STEPS:
			break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(w->unit_mcxt);
}

static void
do_step(Work *w, FlReplayStep step, FlRecordParts *written)
{
	int			unit;

	if (step == FL_REPLAY_STEP_REPLAY)
		fl_replay_progress_phase(FL_REPLAY_REPLAYING);
	while (take_unit(w, step, &unit))
	{
		CHECK_FOR_INTERRUPTS();
		do_unit(w, step, unit);
	}
	end_step(w, step, written);
}

static void
do_all(Work *w)
{
	w->unit_mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog replay unit", ALLOCSET_DEFAULT_SIZES);
	do_step(w, FL_REPLAY_STEP_READ, &w->responses);
	do_step(w, FL_REPLAY_STEP_REQUESTS, &w->records);
	do_step(w, FL_REPLAY_STEP_REPLAY, NULL);
}

/* ---- what it is told --------------------------------------------------------------------------- */

static void
apply_settings(Work *w)
{
	const char *at = shm_toc_lookup(w->toc, FL_REPLAY_KEY_SETTINGS, false);
	const char *end = at + w->shared->settings_size;

	while (at < end)
	{
		const char *name = at;
		const char *value = name + strlen(name) + 1;

		at = value + strlen(value) + 1;
		/* The session has them, so they are allowed; one that cannot be had here, such as a library's that is not loaded, is none of a policy's. */
		(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SET, true, DEBUG1, false);
	}
}

static void
take_loop(Work *w)
{
	FlReplayShared *shared = w->shared;
	FlReplayLoop *loop = &w->loop;
	int64	   *shards = shm_toc_lookup(w->toc, FL_REPLAY_KEY_SHARDS, false);

	loop->mcxt = CurrentMemoryContext;
	loop->name = shm_toc_lookup(w->toc, FL_REPLAY_KEY_LOOP, false);
	loop->source = shared->source;
	loop->requests = shared->requests;
	loop->responses = shared->responses;
	loop->decisions = shared->decisions;
	loop->info = fl_replay_stream(loop->source);
	(void) fl_replay_stream(loop->requests);
	(void) fl_replay_stream(loop->responses);
	(void) fl_replay_stream(loop->decisions);
	loop->n_versions = shared->n_versions;
	loop->versions = shm_toc_lookup(w->toc, FL_REPLAY_KEY_VERSIONS, false);
	loop->positions = shards;
	loop->firsts = shards + shared->n_shards;
	loop->n_pending = shared->n_pending;
	loop->pending = shm_toc_lookup(w->toc, FL_REPLAY_KEY_PENDING, false);
	w->scope.ranges.n = shared->n_ranges;
	w->scope.ranges.items = shm_toc_lookup(w->toc, FL_REPLAY_KEY_RANGES, false);
	w->scope.from_ts = shared->from_ts;
	w->scope.to_ts = shared->to_ts;
}

static void
attach_parts(Work *w, FlRecordParts *parts, int n, int key)
{
	parts->n = n;
	parts->mcxt = CurrentMemoryContext;
	parts->stores = palloc(sizeof(SharedTuplestoreAccessor *) * n);
	for (int i = 0; i < n; i++)
		parts->stores[i] = sts_attach(shm_toc_lookup(w->toc, key + i, false), w->number, &w->shared->files);
}

static void
send_row(void *arg, Datum *values, bool *nulls)
{
	Work	   *w = arg;

	ExecClearTuple(w->slot);
	memcpy(w->slot->tts_values, values, sizeof(Datum) * w->slot->tts_tupleDescriptor->natts);
	memcpy(w->slot->tts_isnull, nulls, sizeof(bool) * w->slot->tts_tupleDescriptor->natts);
	ExecStoreVirtualTuple(w->slot);
	/* Who reads no more has told us to end, or is gone. */
	if (!w->rows->receiveSlot(w->slot, w->rows))
		proc_exit(0);
}

/* The columns of replay(). */
static TupleDesc
row_desc(Oid type)
{
	TupleDesc	desc = CreateTemplateTupleDesc(5);

	TupleDescInitEntry(desc, 1, "decision", type, -1, 0);
	TupleDescInitEntry(desc, 2, "verdict", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, 3, "recorded", JSONBOID, -1, 0);
	TupleDescInitEntry(desc, 4, "replayed", JSONBOID, -1, 0);
	TupleDescInitEntry(desc, 5, "reason", TEXTOID, -1, 0);
	return desc;
}

static void
set_state(Work *w, FlReplayWorkerState state)
{
	SpinLockAcquire(&w->shared->mutex);
	w->shared->state[w->number] = state;
	SpinLockRelease(&w->shared->mutex);
}

static void
describe_work(void *arg)
{
	errcontext("worker of the replay of loop \"%s\"", ((Work *) arg)->loop.name);
}

static void
work(Work *w)
{
	ErrorContextCallback context = {.callback = describe_work,.arg = w,.previous = error_context_stack};
	TupleDesc	desc;

	w->loop.name = shm_toc_lookup(w->toc, FL_REPLAY_KEY_LOOP, false);
	error_context_stack = &context;
	StartTransactionCommand();
	apply_settings(w);
	CommitTransactionCommand();
	/* What it sends is for the session, which has the encoding of the database. */
	(void) SetClientEncoding(GetDatabaseEncoding());
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	XactIsoLevel = XACT_READ_COMMITTED;
	XactReadOnly = true;
	PushActiveSnapshot(GetTransactionSnapshot());
	SetUserIdAndSecContext(w->shared->role, w->shared->sec_context | SECURITY_LOCAL_USERID_CHANGE);
	take_loop(w);
	attach_parts(w, &w->responses, w->shared->n_response_parts, FL_REPLAY_KEY_RESPONSES);
	attach_parts(w, &w->records, w->shared->n_record_parts, FL_REPLAY_KEY_RECORDS);
	desc = row_desc(w->shared->position_type);
	w->slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	w->replay = fl_replay_create(&w->loop, &w->scope, w->shared->given, desc, send_row, w);
	do_all(w);
	ExecDropSingleTupleTableSlot(w->slot);
	w->rows->rShutdown(w->rows);
	set_state(w, FL_REPLAY_WORKER_DONE);
	PopActiveSnapshot();
	CommitTransactionCommand();
	error_context_stack = context.previous;
}

/* ---- the process ---------------------------------------------------------------------------------- */

static shm_mq_handle *
attach_queue(Work *w, dsm_segment *segment, int key)
{
	shm_mq	   *mq = shm_toc_lookup(w->toc, key + w->number, false);

	shm_mq_set_sender(mq, MyProc);
	return shm_mq_attach(mq, segment, NULL);
}

void
fl_main_replay(Datum arg)
{
	Work	   *w;
	dsm_segment *segment;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext, "fleetlog replay worker", ALLOCSET_DEFAULT_SIZES));
	w = palloc0(sizeof(Work));
	memcpy(&w->number, MyBgworkerEntry->bgw_extra, sizeof(int));
	segment = dsm_attach(DatumGetUInt32(arg));
	/* The session has ended its replay already. */
	if (segment == NULL)
		proc_exit(0);
	w->toc = shm_toc_attach(FL_REPLAY_MAGIC, dsm_segment_address(segment));
	w->shared = shm_toc_lookup(w->toc, FL_REPLAY_KEY_SHARED, false);
	pq_redirect_to_shm_mq(segment, attach_queue(w, segment, FL_REPLAY_KEY_MESSAGES));
	w->rows = CreateTupleQueueDestReceiver(attach_queue(w, segment, FL_REPLAY_KEY_ROWS));
	set_state(w, FL_REPLAY_WORKER_RUNNING);
	SharedFileSetAttach(&w->shared->files, segment);
	if (!BecomeLockGroupMember(w->shared->leader, w->shared->leader_pid))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(w->shared->database, w->shared->authenticated, BGWORKER_BYPASS_ALLOWCONN);
	pgstat_report_activity(STATE_RUNNING, MyBgworkerEntry->bgw_name);
	fl_replay_progress_join(w->shared->slot);
	work(w);
	dsm_detach(segment);
	proc_exit(0);
}
