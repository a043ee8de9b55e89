/*-------------------------------------------------------------------------
 *
 * worker.c
 *		What all background workers have in common (worker.h).
 *
 * A worker that cannot work because something is missing is no error: it tells
 * the launcher what is missing and leaves with exit code 0, so that a server
 * where nobody has made the extension yet has a quiet log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

#include "fleetlog/settings.h"
#include "fleetlog/worker.h"
#include "worker_internal.h"

volatile sig_atomic_t fl_worker_die_at_once = false;

/*
 * The server's cryptography and wait event sets register what they hold with a
 * resource owner, and have none outside of transactions.
 */
static ResourceOwner process_owner = NULL;

static bool ignores_cancels = false;

void
fl_worker_own_resources(void)
{
	if (process_owner == NULL)
		process_owner = ResourceOwnerCreate(NULL, "fleetlog worker");
	if (CurrentResourceOwner == NULL)
		CurrentResourceOwner = process_owner;
}

void
fl_worker_absorb_error(MemoryContext context)
{
	MemoryContextSwitchTo(context);
	HOLD_INTERRUPTS();
	/* Outside of transactions there is nobody else to release them. */
	LWLockReleaseAll();
	EmitErrorReport();
	AbortOutOfAnyTransaction();
	fl_worker_own_resources();
	MemoryContextSwitchTo(context);
	FlushErrorState();
	RESUME_INTERRUPTS();
}

static void
handle_sigterm(SIGNAL_ARGS)
{
	int			save_errno = errno;

	ShutdownRequestPending = true;
	if (fl_worker_die_at_once)
		die(postgres_signal_arg);
	SetLatch(MyLatch);
	errno = save_errno;
}

/* The server's lock_timeout sends this signal too: its indicator tells it from others'. */
static void
handle_lock_timeout(SIGNAL_ARGS)
{
	if (get_timeout_indicator(LOCK_TIMEOUT, false))
		StatementCancelHandler(postgres_signal_arg);
}

void
fl_worker_ignore_cancels(void)
{
	ignores_cancels = true;
	pqsignal(SIGINT, handle_lock_timeout);
}

static void
set_readiness(FlReadiness readiness, const char *reason, const char *hint)
{
	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	fl_core->readiness = readiness;
	strlcpy(fl_core->dormant_reason, reason, sizeof(fl_core->dormant_reason));
	strlcpy(fl_core->dormant_hint, hint, sizeof(fl_core->dormant_hint));
	LWLockRelease(fl_shared->slots_lock);
}

void
fl_worker_exit_dormant(const char *reason, const char *hint)
{
	set_readiness(FL_READINESS_MISSING, reason, hint);
	/* The slot's release wakes the launcher, which has the last word in the log. */
	proc_exit(0);
}

bool
fl_extension_exists(void)
{
	return OidIsValid(get_extension_oid("fleetlog", true));
}

static void
check_extension(void)
{
	bool		exists;
	bool		was_ready;
	char		reason[160];

	StartTransactionCommand();
	exists = fl_extension_exists();
	CommitTransactionCommand();
	snprintf(reason, sizeof(reason), "extension \"fleetlog\" does not exist in database \"%s\"", fl_database);
	if (!exists)
		fl_worker_exit_dormant(reason, "Connect to that database and run CREATE EXTENSION fleetlog, "
							   "or set fleetlog.database to another one.");
	was_ready = fl_core->readiness == FL_READINESS_READY;
	set_readiness(FL_READINESS_READY, "", "");
	if (!was_ready)
		fl_worker_wake(FL_WORKER_LAUNCHER, 0);
}

/*
 * What an administrator sets for sessions must not change what workers do: a
 * read-only default would stop ingestion, a foreign search_path would have
 * them call foreign functions.
 */
static void
override_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"session_replication_role", "origin"},
		{"jit", "off"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

void
fl_worker_begin(FlWorkerKind kind, int index, bool connect)
{
	if (fl_shared == NULL)
		proc_exit(1);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, handle_sigterm);
	if (!connect)
		pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	/*
	 * The server lets a new worker ignore reloads until it has set its handler, so one that
	 * came since the fork is lost, and what the worker inherited may be out of date for good.
	 */
	ProcessConfigFile(PGC_SIGHUP);
	fl_worker_attach(kind, index);

	/*
	 * A process without a database takes part in the server's life all the
	 * same: it is seen in pg_stat_activity and answers barriers.
	 */
	if (!connect)
	{
		BackgroundWorkerInitializeConnection(NULL, NULL, 0);
		fl_worker_own_resources();
		fl_worker_set_state("running");
		return;
	}
	BackgroundWorkerInitializeConnection(fl_database, FL_WORKER_ROLE, 0);
	override_settings();
	check_extension();
	fl_worker_own_resources();
	fl_worker_set_state("running");
}

bool
fl_worker_should_stop(void)
{
	return ShutdownRequestPending;
}

void
fl_worker_turn(void)
{
	/* The lock was got just before the timeout: nobody's business any more. */
	if (ignores_cancels)
		QueryCancelPending = false;
	CHECK_FOR_INTERRUPTS();
	fl_worker_own_resources();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

void
fl_worker_wait(long timeout_ms)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

	if (timeout_ms >= 0)
		events |= WL_TIMEOUT;
	(void) WaitLatch(MyLatch, events, timeout_ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}
