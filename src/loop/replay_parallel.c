/*-------------------------------------------------------------------------
 *
 * replay_parallel.c
 *		A replay by several processes: the session's side.  replay_worker.c is the
 *		other one.
 *
 *		session ── segment: the loop as the session's snapshot has it, ranges, settings, role ──► workers
 *		session ◄── a queue of rows and one of errors and notices from each ──────────────────── workers
 *
 * Workers go through three steps, each with units that they take one by one:
 *
 *		read		shards of responses and decisions	─► parts on disk, by the shard of request or reading
 *		requests	parts of the responses, and the requests of those shards	─► the same parts as decisions
 *		replay		parts: the records of some shards of the source, sorted, and these shards' readings	─► rows
 *
 * A part is a shard of the source where there are at most FL_REPLAY_MAX_PARTS.  So rows of a shard come in
 * the order of its readings, shards in any.
 *
 * They are background workers with transactions of their own, not parallel workers: a policy runs in a
 * subtransaction, which parallel workers of servers before 17 do not have, and need not be marked PARALLEL SAFE,
 * since it is called as in any session.  What it sees are its arguments.  So where it may see more, or where
 * something that it needs may have been made by this transaction and not be committed, the session replays by
 * itself (may_share); also where fewer than two workers would have something to do, or none can be had
 * (max_parallel_workers, max_worker_processes, segments of shared memory).
 *
 * Locks: workers are in the lock group of the session, as parallel workers are.  A session that waits for its
 * workers and holds, or has made somebody wait for, a lock that one of them wants would wait for ever otherwise.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tqueue.h"
#include "libpq/pqformat.h"
#include "libpq/pqmq.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/shm_mq.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "replay_parallel.h"

#define ROWS_QUEUE_SIZE		65536
#define MESSAGE_QUEUE_SIZE	16384
#define ROWS_OF_A_TURN		1000

int			fl_replay_workers = 2;
int			fl_replay_workers_min = 10000;

typedef struct Worker
{
	BackgroundWorkerHandle *handle;
	TupleQueueReader *rows;		/* NULL: all have come */
	shm_mq_handle *messages;	/* NULL: it has ended */
} Worker;

struct FlReplayParallel
{
	dsm_segment *segment;		/* NULL: detached */
	FlReplayShared *shared;
	int			n;
	Worker		workers[FL_REPLAY_MAX_WORKERS];
};

/* ---- whether, and by how many ----------------------------------------------------------- */

static int
shards_in(const FlReplayScope *scope)
{
	int			n = 0;

	for (int i = 0; i < scope->ranges.n; i++)
		n += i == 0 || scope->ranges.items[i].shard != scope->ranges.items[i - 1].shard;
	return n;
}

static int64
readings_in(const FlReplayScope *scope)
{
	int64		n = 0;

	for (int i = 0; i < scope->ranges.n; i++)
		n += scope->ranges.items[i].upper - scope->ranges.items[i].lower;
	return n;
}

/* The policies of the loop are checked, and _loop_policy_function() would make none of them anew: a worker cannot. */
static bool
policies_are_shareable(const FlReplayLoop *loop)
{
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {CStringGetTextDatum(loop->name)};
	bool		isnull;

	return fl_config_query_int("SELECT count(*) FROM fleetlog.loop_policy p WHERE p.loop = $1 AND NOT (p.replayable AND EXISTS"
							   " (SELECT FROM pg_proc f WHERE f.oid = to_regprocedure(p.function || '(fleetlog.log_record, jsonb, jsonb, timestamptz)')"
							   " AND pg_get_functiondef(f.oid) = p.policy_text AND f.proowner = p.policy_owner))",
							   1, types, values, &isnull) == 0;
}

static bool
may_share(const FlReplayLoop *loop, Oid given)
{
	return !TransactionIdIsValid(GetTopTransactionIdIfAny()) && (OidIsValid(given) || policies_are_shareable(loop));
}

static int
workers_wanted(const FlReplayLoop *loop, const FlReplayScope *scope, Oid given)
{
	int			n = Min(Min(fl_replay_workers, shards_in(scope)), FL_REPLAY_MAX_PARTS);

	return n > 1 && readings_in(scope) >= fl_replay_workers_min && may_share(loop, given) ? n : 0;
}

/* ---- the segment ------------------------------------------------------------------------- */

static void
on_setting(void *arg, HeapTuple tuple, TupleDesc desc)
{
	StringInfo	out = arg;
	bool		isnull;

	for (int i = 1; i <= 2; i++)
	{
		Datum		value = SPI_getbinval(tuple, desc, i, &isnull);
		char	   *string = TextDatumGetCString(value);

		appendBinaryStringInfo(out, string, strlen(string) + 1);
	}
}

/* Names and values, each with its zero byte, of what this session has otherwise than the server's configuration. */
static void
collect_settings(StringInfo out)
{
	initStringInfo(out);
	appendBinaryStringInfo(out, "search_path", 12);
	appendBinaryStringInfo(out, namespace_search_path, strlen(namespace_search_path) + 1);
	/* Role and encoding are seen to; what is told of a transaction is that of the statement that asks. */
	fl_config_query("SELECT s.name, s.setting FROM pg_catalog.pg_settings s WHERE s.context IN ('user', 'superuser') AND s.setting IS NOT NULL"
					" AND s.source NOT IN ('default', 'configuration file', 'environment variable', 'command line')"
					" AND s.name NOT IN ('search_path', 'role', 'session_authorization', 'client_encoding')"
					" AND s.name NOT LIKE 'transaction\\_%' AND s.name NOT LIKE 'default\\_transaction\\_%'",
					0, NULL, NULL, on_setting, out);
}

static void
estimate(shm_toc_estimator *e, const FlReplayShared *shared, const char *loop)
{
	Size		chunks[] = {
		sizeof(FlReplayShared), strlen(loop) + 1, shared->settings_size, sizeof(FlRange) * shared->n_ranges,
		sizeof(FlVersionRange) * shared->n_versions, sizeof(FlPosition) * shared->n_pending, 2 * sizeof(int64) * shared->n_shards
	};

	shm_toc_initialize_estimator(e);
	for (int i = 0; i < lengthof(chunks); i++)
		shm_toc_estimate_chunk(e, Max(chunks[i], 1));
	for (int i = 0; i < shared->n_workers; i++)
	{
		shm_toc_estimate_chunk(e, ROWS_QUEUE_SIZE);
		shm_toc_estimate_chunk(e, MESSAGE_QUEUE_SIZE);
	}
	for (int i = 0; i < shared->n_response_parts + shared->n_record_parts; i++)
		shm_toc_estimate_chunk(e, sts_estimate(shared->n_workers));
	shm_toc_estimate_keys(e, lengthof(chunks) + 2 * shared->n_workers + shared->n_response_parts + shared->n_record_parts);
}

static void
put(shm_toc *toc, uint64 key, const void *data, Size size)
{
	void	   *at = shm_toc_allocate(toc, Max(size, 1));

	if (size > 0)
		memcpy(at, data, size);
	shm_toc_insert(toc, key, at);
}

static void
put_store(shm_toc *toc, uint64 key, FlReplayShared *shared, const char *kind, int number)
{
	SharedTuplestore *sts = shm_toc_allocate(toc, sts_estimate(shared->n_workers));
	char		name[NAMEDATALEN];

	snprintf(name, sizeof(name), "%s%d", kind, number);
	memset(sts, 0, sts_estimate(shared->n_workers));
	(void) sts_initialize(sts, shared->n_workers, 0, 0, SHARED_TUPLESTORE_SINGLE_PASS, &shared->files, name);
	shm_toc_insert(toc, key, sts);
}

/* Receiving ends are ours; each worker finds its sending ends. */
static shm_mq *
put_queue(shm_toc *toc, uint64 key, Size size)
{
	shm_mq	   *mq = shm_mq_create(shm_toc_allocate(toc, size), size);

	shm_mq_set_receiver(mq, MyProc);
	shm_toc_insert(toc, key, mq);
	return mq;
}

static void
fill(FlReplayParallel *p, const FlReplayShared *plan, const FlReplayLoop *loop, const FlReplayScope *scope, const char *settings, Size size)
{
	shm_toc    *toc = shm_toc_create(FL_REPLAY_MAGIC, dsm_segment_address(p->segment), size);
	FlReplayShared *shared;
	int64	   *shards = palloc(2 * sizeof(int64) * plan->n_shards);

	memcpy(shards, loop->positions, sizeof(int64) * plan->n_shards);
	memcpy(shards + plan->n_shards, loop->firsts, sizeof(int64) * plan->n_shards);
	put(toc, FL_REPLAY_KEY_SHARED, plan, sizeof(FlReplayShared));
	p->shared = shared = shm_toc_lookup(toc, FL_REPLAY_KEY_SHARED, false);
	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->step_done);
	SharedFileSetInit(&shared->files, p->segment);
	put(toc, FL_REPLAY_KEY_LOOP, loop->name, strlen(loop->name) + 1);
	put(toc, FL_REPLAY_KEY_SETTINGS, settings, plan->settings_size);
	put(toc, FL_REPLAY_KEY_RANGES, scope->ranges.items, sizeof(FlRange) * plan->n_ranges);
	put(toc, FL_REPLAY_KEY_VERSIONS, loop->versions, sizeof(FlVersionRange) * plan->n_versions);
	put(toc, FL_REPLAY_KEY_PENDING, loop->pending, sizeof(FlPosition) * plan->n_pending);
	put(toc, FL_REPLAY_KEY_SHARDS, shards, 2 * sizeof(int64) * plan->n_shards);
	for (int i = 0; i < plan->n_response_parts; i++)
		put_store(toc, FL_REPLAY_KEY_RESPONSES + i, shared, "responses", i);
	for (int i = 0; i < plan->n_record_parts; i++)
		put_store(toc, FL_REPLAY_KEY_RECORDS + i, shared, "records", i);
	for (int i = 0; i < plan->n_workers; i++)
	{
		p->workers[i].rows = CreateTupleQueueReader(shm_mq_attach(put_queue(toc, FL_REPLAY_KEY_ROWS + i, ROWS_QUEUE_SIZE), p->segment, NULL));
		p->workers[i].messages = shm_mq_attach(put_queue(toc, FL_REPLAY_KEY_MESSAGES + i, MESSAGE_QUEUE_SIZE), p->segment, NULL);
	}
	pfree(shards);
}

static void
make_plan(FlReplayShared *plan, const FlReplayLoop *loop, const FlReplayScope *scope, int n_workers)
{
	int			requests = fl_stream_lookup(loop->requests)->shards;

	plan->leader = MyProc;
	plan->leader_pid = MyProcPid;
	plan->database = MyDatabaseId;
	plan->authenticated = GetAuthenticatedUserId();
	GetUserIdAndSecContext(&plan->role, &plan->sec_context);
	plan->slot = fl_replay_progress_slot();
	plan->source = loop->source;
	plan->requests = loop->requests;
	plan->responses = loop->responses;
	plan->decisions = loop->decisions;
	plan->from_ts = scope->from_ts;
	plan->to_ts = scope->to_ts;
	plan->n_ranges = scope->ranges.n;
	plan->n_versions = loop->n_versions;
	plan->n_pending = loop->n_pending;
	plan->n_shards = loop->info->shards;
	plan->n_response_shards = fl_stream_lookup(loop->responses)->shards;
	plan->n_workers = n_workers;
	plan->n_response_parts = Min(requests, FL_REPLAY_MAX_PARTS);
	plan->n_record_parts = Min(loop->info->shards, FL_REPLAY_MAX_PARTS);
	plan->units[FL_REPLAY_STEP_READ] = plan->n_response_shards + fl_stream_lookup(loop->decisions)->shards;
	plan->units[FL_REPLAY_STEP_REQUESTS] = plan->n_response_parts;
	plan->units[FL_REPLAY_STEP_REPLAY] = plan->n_record_parts;
}

/* ---- starting workers ----------------------------------------------------------------------- */

/*
 * They add to our slot of stat_replay and are in our lock group.  And the last one to leave the segment removes the
 * files, and counts them for statistics, which a process that exits has left by then: that must be the session.
 */
static void
wait_for_ends(FlReplayParallel *p, bool terminate)
{
	for (int i = 0; terminate && i < p->n; i++)
		TerminateBackgroundWorker(p->workers[i].handle);
	HOLD_INTERRUPTS();
	for (int i = 0; i < p->n; i++)
		(void) WaitForBackgroundWorkerShutdown(p->workers[i].handle);
	RESUME_INTERRUPTS();
}

/* However the session comes to its end, its workers do, too, and before. */
static void
on_detach(dsm_segment *segment, Datum arg)
{
	wait_for_ends((FlReplayParallel *) DatumGetPointer(arg), true);
}

static void
start_workers(FlReplayParallel *p)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION | BGWORKER_CLASS_PARALLEL;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(p->segment));
	worker.bgw_notify_pid = MyProcPid;
	strlcpy(worker.bgw_library_name, "fleetlog", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "fl_main_replay", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "fleetlog replay worker", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN, "fleetlog replay worker for PID %d", MyProcPid);
	while (p->n < p->shared->n_workers)
	{
		memcpy(worker.bgw_extra, &p->n, sizeof(int));
		if (!RegisterDynamicBackgroundWorker(&worker, &p->workers[p->n].handle))
			break;
		shm_mq_set_handle(p->workers[p->n].messages, p->workers[p->n].handle);
		p->n++;
	}
}

FlReplayParallel *
fl_replay_parallel_begin(const FlReplayLoop *loop, const FlReplayScope *scope, Oid given, TimestampTz first, TupleDesc desc)
{
	int			n_workers = Min(workers_wanted(loop, scope, given), FL_REPLAY_MAX_WORKERS);
	FlReplayShared plan = {.given = given,.first = first,.position_type = TupleDescAttr(desc, 0)->atttypid};
	FlReplayParallel *p;
	StringInfoData settings;
	shm_toc_estimator e;
	Size		size;

	if (n_workers == 0)
		return NULL;
	make_plan(&plan, loop, scope, n_workers);
	collect_settings(&settings);
	plan.settings_size = settings.len;
	estimate(&e, &plan, loop->name);
	size = shm_toc_estimate(&e);
	p = palloc0(sizeof(FlReplayParallel));
	p->segment = dsm_create(size, DSM_CREATE_NULL_IF_MAXSEGMENTS);
	if (p->segment == NULL)
		return NULL;
	fill(p, &plan, loop, scope, settings.data, size);
	/* The last one to be registered is the first one to be called. */
	on_dsm_detach(p->segment, on_detach, PointerGetDatum(p));
	BecomeLockGroupLeader();
	start_workers(p);
	fl_replay_progress_workers(p->n);
	return p;
}

/* ---- what comes from them ---------------------------------------------------------------------- */

bool
fl_replay_step_is_done(FlReplayShared *shared, FlReplayStep step)
{
	bool		done;

	SpinLockAcquire(&shared->mutex);
	done = shared->next[step] >= shared->units[step] && shared->busy[step] == 0;
	SpinLockRelease(&shared->mutex);
	return done;
}

/* An error of a worker is ours; that it was told to end by somebody is no reason for us to. */
static void
take_message(void *data, Size len)
{
	StringInfoData msg;
	ErrorData	edata;
	char		type;

	initStringInfo(&msg);
	appendBinaryStringInfo(&msg, data, len);
	type = pq_getmsgbyte(&msg);
	if (type != 'E' && type != 'N')
		return;
	pq_parse_errornotice(&msg, &edata);
	edata.elevel = Min(edata.elevel, ERROR);
	ThrowErrorData(&edata);
	pfree(msg.data);
}

/* Raises the worker's error.  After its last message: how it ended. */
static void
take_messages(FlReplayParallel *p, int number)
{
	Worker	   *w = &p->workers[number];
	FlReplayWorkerState state;
	shm_mq_result result;
	Size		len;
	void	   *data;

	while ((result = shm_mq_receive(w->messages, &len, &data, true)) == SHM_MQ_SUCCESS)
		take_message(data, len);
	if (result == SHM_MQ_WOULD_BLOCK)
		return;
	w->messages = NULL;
	SpinLockAcquire(&p->shared->mutex);
	state = p->shared->state[number];
	SpinLockRelease(&p->shared->mutex);
	if (state == FL_REPLAY_WORKER_RUNNING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a worker of the replay has ended before its work")));
	if (state == FL_REPLAY_WORKER_NONE)
	{
		DestroyTupleQueueReader(w->rows);
		w->rows = NULL;
	}
}

/* True: more may be there at once. */
static bool
take_rows(Worker *w, Tuplestorestate *out, TupleTableSlot *slot)
{
	bool		done = false;

	for (int i = 0; i < ROWS_OF_A_TURN; i++)
	{
		MinimalTuple tuple = TupleQueueReaderNext(w->rows, true, &done);

		if (tuple == NULL)
			break;
		ExecStoreMinimalTuple(tuple, slot, false);
		tuplestore_puttupleslot(out, slot);
		if (i == ROWS_OF_A_TURN - 1)
			return true;
	}
	if (done)
	{
		DestroyTupleQueueReader(w->rows);
		w->rows = NULL;
	}
	return false;
}

static void
wait_for_workers(FlReplayParallel *p, Tuplestorestate *out, TupleTableSlot *slot)
{
	for (;;)
	{
		bool		running = false;
		bool		more = false;

		for (int i = 0; i < p->n; i++)
		{
			Worker	   *w = &p->workers[i];

			if (w->rows != NULL)
				more |= take_rows(w, out, slot);
			if (w->messages != NULL)
				take_messages(p, i);
			running |= w->rows != NULL || w->messages != NULL;
		}
		CHECK_FOR_INTERRUPTS();
		if (!running)
			break;
		if (more)
			continue;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH, -1, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

bool
fl_replay_parallel_run(FlReplayParallel *p, Tuplestorestate *out, TupleDesc desc)
{
	TupleTableSlot *slot;
	bool		begun = false;

	if (p->n == 0)
		return false;
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	wait_for_workers(p, out, slot);
	ExecDropSingleTupleTableSlot(slot);
	for (int i = 0; i < p->n; i++)
		begun |= p->shared->state[i] != FL_REPLAY_WORKER_NONE;
	if (begun && !fl_replay_step_is_done(p->shared, FL_REPLAY_STEP_REPLAY))
		elog(ERROR, "workers of the replay have left some of it undone");
	if (!begun)
		fl_replay_progress_workers(0);
	return begun;
}

void
fl_replay_parallel_end(FlReplayParallel *p, bool failed)
{
	if (p->segment == NULL)
		return;
	wait_for_ends(p, failed);
	cancel_on_dsm_detach(p->segment, on_detach, PointerGetDatum(p));
	dsm_detach(p->segment);
	p->segment = NULL;
}
