/*-------------------------------------------------------------------------
 *
 * dispatcher.c
 *		The dispatcher of commands: sends those that are due, takes what devices
 *		and front doors say of them, and looks at the clock.
 *
 * What is done is SQL (sql/modules/088_command.sql); here is only the moment.
 * Every piece of work is one transaction: commands are appended to their stream
 * in the transaction that marks them as sent, and an answer is taken in the one
 * that moves the position, so a crash at any point does neither twice.
 *
 *		send, as long as some wait ─► take, as long as there is something ─► the clock ─► jobs
 *
 * The clock comes last and only when all was taken: an answer that is in the log
 * already must not come late because this process did.
 *
 * There is one of it (its slot in shared memory), and its position and all
 * states are rows, so the one that is started after a crash or a failover goes on.
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

#include "fleetlog/catalog.h"
#include "fleetlog/command.h"
#include "fleetlog/config.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "fleetlog/worker.h"

#define BATCH			"500"	/* commands, or records, of a transaction */
#define LOOK_MS			5000	/* for what a wake-up that was lost has left */
#define ERROR_PAUSE_MS	1000
#define SKIPPED_MS		100		/* a row that another transaction holds is looked at again */
#define FORGET_MS		60000

PGDLLEXPORT void fl_main_commands(Datum arg);

/* When the clock has to be looked at. */
static int64 next_deadline = 0;
static int64 next_forget = 0;

/* Sum of the durable tails of the stream of commands, -1: there is none. */
static int64
tails(void)
{
	const FlStreamInfo *info = fl_stream_lookup(fl_command_stream());
	int64		sum = 0;

	if (info == NULL)
		return -1;
	for (int32 s = 0; s < info->shards; s++)
		sum += fl_shard_durable_tail(fl_shard_open(info->relid, s, info->durability == FL_DURABILITY_QUORUM));
	return sum;
}

/* Runs a query in a transaction of its own; returns its number. */
static int64
run_query(const char *sql, const char *before_commit, const char *after_commit, bool *isnull)
{
	int64		n;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	n = fl_config_query_int(sql, 0, NULL, NULL, isnull);
	PopActiveSnapshot();
	FL_STOP_POINT(before_commit);
	CommitTransactionCommand();
	FL_STOP_POINT(after_commit);
	return n;
}

static void
send_commands(void)
{
	bool		isnull;
	int64		n;

	do
	{
		n = run_query("SELECT fleetlog._command_dispatch(" BATCH ")::bigint", "command_before_commit", "command_after_commit", &isnull);
		if (n > 0)
		{
			FL_COUNT(FL_C_RECORDS, n);
			/* Answers of these may be due before anything else is. */
			next_deadline = 0;
		}
	} while (n != 0 && !fl_worker_should_stop());
}

/* False: there is more.  Over the budget of transactions, *pause_ms is when to come again. */
static bool
take_answers(long *pause_ms)
{
	static int64 seen = -1;		/* at start there may be some of before */
	bool		isnull;
	int64		now;
	int64		n;

	StartTransactionCommand();
	now = tails();
	pg_atomic_write_u32(&fl_shared->command_stream, fl_command_stream());
	CommitTransactionCommand();
	if (now < 0 || now == seen)
		return true;
	/* More will have come when it is looked at again. */
	*pause_ms = (fl_budget_take() + 999) / 1000;
	if (*pause_ms > 0)
		return false;
	n = run_query("SELECT fleetlog._command_take(" BATCH ")", "command_take_before_commit", "command_take_after_commit", &isnull);
	/* As long as it finds some there may be more. */
	if (n == 0)
		seen = now;
	else
		next_deadline = 0;
	return n == 0;
}

static void
look_at_clock(void)
{
	int64		now = fl_monotonic_us();
	bool		isnull;
	int64		us;

	if (now >= next_deadline)
	{
		us = run_query("SELECT fleetlog._command_deadlines(" BATCH ")", "command_clock_before_commit", "command_clock_after_commit", &isnull);
		next_deadline = now + (isnull ? LOOK_MS * INT64CONST(1000) : Min(us, LOOK_MS * INT64CONST(1000)));
	}
	if (now >= next_forget)
	{
		while (run_query("SELECT fleetlog._command_forget(" BATCH ")", "command_forget_before_commit", "command_forget_after_commit", &isnull) > 0 && !fl_worker_should_stop())
			;
		next_forget = now + FORGET_MS * INT64CONST(1000);
	}
}

/* True: commands were issued, and are to be sent. */
static bool
go_on_with_jobs(void)
{
	bool		isnull;

	return run_query("SELECT fleetlog._job_run(" BATCH ")", "job_before_commit", "job_after_commit", &isnull) > 0;
}

/* Milliseconds to wait. */
static long
run_turn(void)
{
	int64		now;
	long		pause_ms = 0;

	send_commands();
	if (!take_answers(&pause_ms))
		return pause_ms;
	look_at_clock();
	if (go_on_with_jobs())
		return 0;
	now = fl_monotonic_us();
	if (next_deadline > now)
		return Max(1, (long) ((next_deadline - now) / 1000));
	/* It was due, and is: somebody holds the row. */
	return SKIPPED_MS;
}

static long
try_turn(MemoryContext turn_context)
{
	volatile long wait = ERROR_PAUSE_MS;

	fl_worker_die_at_once = true;
	PG_TRY();
	{
		wait = run_turn();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		FL_COUNT(FL_C_ERRORS, 1);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	fl_worker_die_at_once = false;
	MemoryContextSwitchTo(turn_context);
	FL_COUNT(FL_C_TURNS, 1);
	return wait;
}

void
fl_main_commands(Datum arg)
{
	MemoryContext turn_context;

	fl_worker_begin(FL_WORKER_COMMANDS, 0, true);
	/* Rows that somebody holds are passed over where that is possible. */
	SetConfigOption("lock_timeout", "5s", PGC_SUSET, PGC_S_OVERRIDE);
	/* Readers wait for what is durable anyway; no standby is waited for here. */
	SetConfigOption("synchronous_commit", "local", PGC_SUSET, PGC_S_OVERRIDE);
	turn_context = AllocSetContextCreate(TopMemoryContext, "fleetlog commands turn", ALLOCSET_DEFAULT_SIZES);
	fl_worker_set_state("running");
	while (!fl_worker_should_stop())
	{
		long		wait;

		MemoryContextReset(turn_context);
		MemoryContextSwitchTo(turn_context);
		fl_worker_turn();
		wait = try_turn(turn_context);
		pgstat_report_stat(false);
		if (wait > 0)
			fl_worker_wait(wait);
	}
	proc_exit(0);
}
