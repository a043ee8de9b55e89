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
#include "fleetlog/worker.h"

#define BATCH			128 /* requests of a transaction */
#define ANSWER_MAX		(256 * 1024 * 1024)

PGDLLEXPORT void fl_main_positions(Datum arg);

typedef struct Job
{
	uint64		id;
	uint8	   *body;
	int32		len;
	FlBuf		answer;
} Job;

static MemoryContext turn_context;

/* Copy what waits; the queue keeps it. */
static int
collect(Job *jobs)
{
	uint64		after = 0;
	int			n = 0;

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
		jobs[n].id = after = request.id;
		jobs[n].len = request.len;
		jobs[n].body = MemoryContextAlloc(turn_context, Max(request.len, 1));
		memcpy(jobs[n].body, out->data, Max(request.len, 0));
		fl_buf_init(&jobs[n].answer, NULL, ANSWER_MAX);
		n++;
	}
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

void
fl_main_positions(Datum arg)
{
	Job			jobs[BATCH];

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
		n = collect(jobs);
		/* Over the budget of transactions: more will have come when it is looked at again. */
		if (n > 0 && writes(jobs, n))
			pause_us = fl_budget_take();
		if (n > 0 && pause_us == 0)
			run(jobs, n);
		for (int i = 0; i < n; i++)
			fl_buf_free(&jobs[i].answer);
		pgstat_report_stat(false);
		if (n == 0 || pause_us > 0)
			fl_worker_wait(n == 0 ? 10000 : 1 + pause_us / 1000);
	}
	proc_exit(0);
}
