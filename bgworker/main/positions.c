/*-------------------------------------------------------------------------
 *
 * positions.c
 *		The positions worker: what Kafka's clients commit, ask and delete, done in the
 *		order in which it was asked (src/group).
 *
 * Front doors have no time to wait for a disk, so they put requests into a queue
 * in shared memory.  All that waits is done in one transaction, and answered when
 * that is flushed.  What is under way when this process ends stays in the queue
 * for the next one: each request can be done twice.
 *
 * An error aborts the transaction; its requests are then done one by one, so that
 * one of them alone is refused.
 *
 * What clients ask as administrators (topic_admin.h) goes through the same queue: one
 * request a turn, in a transaction of its own, so that commits wait for one of them at
 * most.  One that meets a lock stays in the queue and is done again a little later.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/groups.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "fleetlog/topic_admin.h"
#include "fleetlog/worker.h"

#define BATCH			128 /* requests of a transaction */
#define ANSWER_MAX		(256 * 1024 * 1024)
#define ADMIN_PAUSE_MS	200 /* after one that met a lock */

PGDLLEXPORT void fl_main_positions(Datum arg);

typedef struct Job
{
	uint64		id;
	uint8	   *body;
	int32		len;
	FlBuf		answer;
} Job;

static MemoryContext turn_context;

/* Admin requests are gone through in rounds: the last one that was done or tried, and when the next round may begin. */
static uint64 admin_last = 0;
static int64 admin_not_before = 0;	/* by fl_monotonic_us() */

static void
keep(Job *job, const FlGroupRequest *request, const uint8 *body)
{
	job->id = request->id;
	job->len = request->len;
	job->body = MemoryContextAlloc(turn_context, Max(request->len, 1));
	memcpy(job->body, body, Max(request->len, 0));
	fl_buf_init(&job->answer, NULL, ANSWER_MAX);
}

/*
 * Copy what waits; the queue keeps it.  Of admin requests the next of the round, or
 * the first of a new one; *waiting: there are some, but it is too soon for a new round.
 */
static int
collect(Job *jobs, Job *admin, bool *waiting)
{
	uint64		after = 0;
	int			n = 0;
	Job			first = {0};

	admin->id = 0;

	while (n < BATCH)
	{
		FlGroupOut *out = fl_groups_out();
		FlGroupCall *call = fl_groups_lock(0, InvalidOid, InvalidOid);
		FlGroupRequest request;
		bool		found = fl_group_next_request(call, after, out, &request);

		fl_groups_unlock(call);
		if (!found)
			break;
		if (!fl_group_out_fits(out))
		{
			fl_groups_grow();
			continue;
		}
		after = request.id;
		if (!fl_topic_admin_is(out->data, request.len))
			keep(&jobs[n++], &request, out->data);
		else if (request.id > admin_last && admin->id == 0)
			keep(admin, &request, out->data);
		else if (first.id == 0)
			keep(&first, &request, out->data);
	}
	*waiting = first.id != 0;
	if (admin->id == 0 && first.id != 0 && fl_monotonic_us() >= admin_not_before)
		*admin = first;
	if (admin->id != 0)
		admin_last = admin->id;
	return n;
}

static void
do_jobs(Job *jobs, int n)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < n; i++)
	{
		FlPositionsRequest request;

		if (fl_positions_read(jobs[i].body, jobs[i].len, &request))
			fl_positions_execute(&request, &jobs[i].answer);
		else
			fl_positions_begin_answer(&jobs[i].answer, FL_KAFKA_UNKNOWN_SERVER_ERROR, false);
		CommandCounterIncrement();
	}
	PopActiveSnapshot();
	FL_STOP_POINT("positions_before_commit");
	CommitTransactionCommand();
}

/* False: the transaction was aborted, for a reason that is in the log unless it is expected. */
static bool
try_jobs(Job *jobs, int n)
{
	volatile bool ok = true;
	MemoryContext old = CurrentMemoryContext;

	fl_worker_die_at_once = true;
	PG_TRY();
	{
		do_jobs(jobs, n);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		if (n == 1)
			EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		FL_COUNT(FL_C_ERRORS, 1);
		RESUME_INTERRUPTS();
		ok = false;
	}
	PG_END_TRY();
	fl_worker_die_at_once = false;
	MemoryContextSwitchTo(old);
	FL_COUNT(FL_C_TURNS, 1);
	return ok;
}

/* Only what is committed and flushed is answered. */
static void
answer_jobs(Job *jobs, int n)
{
	FlGroupCall *call = fl_groups_lock(0, InvalidOid, InvalidOid);

	for (int i = 0; i < n; i++)
		fl_group_answer_request(call, jobs[i].id, jobs[i].answer.data,
								jobs[i].answer.failed ? 0 : (int32) jobs[i].answer.len);
	fl_groups_unlock(call);
}

/* Does one of them need a transaction id? */
static bool
writes(const Job *jobs, int n)
{
	for (int i = 0; i < n; i++)
	{
		FlPositionsRequest request;

		if (fl_positions_read(jobs[i].body, jobs[i].len, &request) && request.op != FL_POSITIONS_FETCH &&
			request.op != FL_POSITIONS_LIST)
			return true;
	}
	return false;
}

static void
run(Job *jobs, int n)
{
	if (try_jobs(jobs, n))
	{
		answer_jobs(jobs, n);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		if (n == 1 || !try_jobs(&jobs[i], 1))
			fl_positions_begin_answer(&jobs[i].answer, FL_KAFKA_COORDINATOR_NOT_AVAILABLE, false);
		answer_jobs(&jobs[i], 1);
	}
}

/* ---- admin requests ---------------------------------------------------------------- */

static void
do_admin(const FlTopicAdmin *admin, FlBuf *answer)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	fl_topic_admin_execute(admin, answer);
	PopActiveSnapshot();
	if (admin->validate_only)
		AbortCurrentTransaction();
	else
		CommitTransactionCommand();
}

/* NULL when it was done, else the error, in the turn's context. */
static ErrorData *
try_admin(const FlTopicAdmin *admin, FlBuf *answer)
{
	ErrorData  *volatile error = NULL;
	MemoryContext old = CurrentMemoryContext;

	fl_worker_die_at_once = true;
	PG_TRY();
	{
		do_admin(admin, answer);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(turn_context);
		error = CopyErrorData();
		if (!fl_topic_admin_is_told(admin, error))
			EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	fl_worker_die_at_once = false;
	MemoryContextSwitchTo(old);
	FL_COUNT(FL_C_TURNS, 1);
	return error;
}

/* One that meets a lock stays in the queue, for the next round. */
static void
run_admin(Job *job)
{
	FlTopicAdmin admin = {0};
	ErrorData  *error;

	if (!fl_topic_admin_read(job->body, job->len, &admin))
		fl_positions_begin_answer(&job->answer, FL_KAFKA_UNKNOWN_SERVER_ERROR, false);
	else if (GetCurrentTimestamp() > admin.deadline)
		fl_topic_admin_write_timeout(&job->answer);
	else if ((error = try_admin(&admin, &job->answer)) != NULL)
	{
		TimestampTz again = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ADMIN_PAUSE_MS);

		if (fl_topic_admin_may_pass(&admin, error) && again <= admin.deadline)
		{
			admin_not_before = fl_monotonic_us() + ADMIN_PAUSE_MS * INT64CONST(1000);
			return;
		}
		/* The message may have to be converted. */
		StartTransactionCommand();
		fl_topic_admin_write_error(&job->answer, &admin, error);
		CommitTransactionCommand();
	}
	answer_jobs(job, 1);
}

/* Milliseconds for which there is nothing to do but what is put into the queue. */
static long
idle_ms(bool admins_wait)
{
	if (!admins_wait)
		return 10000;
	return 1 + (long) Max(admin_not_before - fl_monotonic_us(), 0) / 1000;
}

void
fl_main_positions(Datum arg)
{
	Job			jobs[BATCH];
	Job			admin;
	bool		admins_wait;

	fl_worker_begin(FL_WORKER_POSITIONS, 0, true);
	/* Rows that are held are passed over; this is for those that another makes at the same time. */
	SetConfigOption("lock_timeout", "500ms", PGC_SUSET, PGC_S_OVERRIDE);
	/* Flushed before it is answered; no standby is waited for here. */
	SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
	turn_context = AllocSetContextCreate(TopMemoryContext, "fleetlog positions turn", ALLOCSET_DEFAULT_SIZES);
	fl_groups_begin_positions();
	fl_worker_set_state("running");
	while (!fl_worker_should_stop())
	{
		int			n;
		long		pause_us = 0;

		MemoryContextReset(turn_context);
		MemoryContextSwitchTo(turn_context);
		fl_worker_turn();
		n = collect(jobs, &admin, &admins_wait);
		/* Over the budget of transactions: more will have come when it is looked at again. */
		if (admin.id != 0 || (n > 0 && writes(jobs, n)))
			pause_us = fl_budget_take();
		if (n > 0 && pause_us == 0)
			run(jobs, n);
		if (admin.id != 0 && pause_us == 0)
			run_admin(&admin);
		for (int i = 0; i < n; i++)
			fl_buf_free(&jobs[i].answer);
		if (admin.id != 0)
			fl_buf_free(&admin.answer);
		pgstat_report_stat(false);
		if (pause_us > 0)
			fl_worker_wait(1 + pause_us / 1000);
		else if (n == 0 && admin.id == 0)
			fl_worker_wait(idle_ms(admins_wait));
	}
	proc_exit(0);
}
