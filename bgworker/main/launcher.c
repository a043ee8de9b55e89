/*-------------------------------------------------------------------------
 *
 * launcher.c
 *		The launcher starts all other workers, starts them again when they end,
 *		and stops them when they are not wanted.
 *
 * It is registered at server start and restarted by the postmaster; it has no
 * database (a database connection would be in the way of DROP DATABASE), only
 * the shared catalogs, in which it looks for the database and the role.
 * Whether the extension is there only a process inside the database can see:
 * until one has seen it, the keeper alone is started, to look.
 *
 * All others are dynamic workers that the postmaster never restarts.  What is
 * running is told by the slots in shared memory, not by what this process
 * remembers, so a new launcher takes over the workers of the one before.
 *
 *		missing something -> dormant, one line in the log, looks again later
 *		worker ended      -> started again after a pause that doubles, up to 1 min
 *		paused, or no database named -> everything is stopped, nothing started
 *
 * It must do nothing that can block, and never exit with code 0: the
 * postmaster would not start it again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/logicallauncher.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "fleetlog/launcher.h"
#include "fleetlog/loop.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "fleetlog/state.h"
#include "fleetlog/worker.h"
#include "worker_internal.h"

#define MAX_BACKOFF_MS		60000
#define SETTLED_MS			60000	/* a worker that lived so long starts with a short pause again */
#define TERMINATE_AGAIN_MS	1000
#define LOOK_MS				10000	/* longest sleep */
#define PLACE_TRUST_MS		5000	/* how long the last look at database and role counts */

typedef struct FlRole
{
	FlWorkerKind kind;
	int			index;
	const char *function;
	bool		with_doors;		/* only of use where something listens */
	bool		with_state;		/* only of use where a mount has a state table */
	bool		with_loops;		/* only of use where there is a decision loop */
	bool		with_kafka;		/* only of use where something listens for Kafka */
	BackgroundWorkerHandle *handle; /* of our last start, until it has ended */
	bool		running;
	int			backoff_ms;
	int64		started_at;		/* this and the following by fl_monotonic_us() */
	int64		next_start;		/* 0: at once */
	int64		terminated_at;
} FlRole;

static FlRole roles[FL_MAX_FRONT_DOORS + 10];
static int	nroles = 0;

/* What was logged last, so that each change is logged once. */
static char logged_reason[160];
static uint32 seen_retry = 0;
static int	dormant_backoff_ms = 0;
static int64 place_seen = 0;	/* when database and role were last there */
static bool slots_warned = false;

PGDLLEXPORT void fl_main_launcher(Datum arg);

void
fl_launcher_register(void)
{
	BackgroundWorker worker;

	/* pg_upgrade must find the server without anybody who writes. */
	if (IsBinaryUpgrade)
		return;
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "fleetlog", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "fl_main_launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "fleetlog launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "fleetlog launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

void
fl_launcher_retry(void)
{
	if (fl_shared == NULL)
		return;
	pg_atomic_fetch_add_u32(&fl_core->retry_now, 1);
	fl_worker_wake(FL_WORKER_LAUNCHER, 0);
}

/* ---- what should run ------------------------------------------------------------ */

static void
add_role(FlWorkerKind kind, int index, const char *function, bool with_doors)
{
	FlRole	   *role = &roles[nroles++];

	memset(role, 0, sizeof(*role));
	role->kind = kind;
	role->index = index;
	role->function = function;
	role->with_doors = with_doors;
	role->with_state = kind == FL_WORKER_STATE;
	role->with_loops = kind == FL_WORKER_RUNNER;
	role->with_kafka = kind == FL_WORKER_POSITIONS || (kind == FL_WORKER_FRONT_DOOR && index == FL_KAFKA_DOOR);
	role->backoff_ms = fl_worker_retry_ms;
}

static void
make_roles(void)
{
	nroles = 0;
	add_role(FL_WORKER_KEEPER, 0, "fl_main_keeper", false);
	add_role(FL_WORKER_FLUSHER, 0, "fl_main_flusher", false);
	add_role(FL_WORKER_CONFIRMER, 0, "fl_main_confirmer", false);
	add_role(FL_WORKER_STATE, 0, "fl_main_state", false);
	add_role(FL_WORKER_RUNNER, 0, "fl_main_runner", false);
	add_role(FL_WORKER_APPENDER, 0, "fl_main_appender", true);
	add_role(FL_WORKER_AUTH, 0, "fl_main_auth", true);
	add_role(FL_WORKER_READER, 0, "fl_main_reader", true);
	add_role(FL_WORKER_POSITIONS, 0, "fl_main_positions", true);
	add_role(FL_WORKER_COMMANDS, 0, "fl_main_commands", true);
	for (int i = 0; i < fl_workers; i++)
		add_role(FL_WORKER_FRONT_DOOR, i, "fl_main_front_door", true);
	add_role(FL_WORKER_FRONT_DOOR, FL_KAFKA_DOOR, "fl_main_kafka_door", true);
}

/* Front doors define their settings, not we. */
static bool
is_set(const char *name)
{
	const char *value = GetConfigOption(name, true, false);

	return value != NULL && value[0] != '\0';
}

static bool
kafka_listens(void)
{
	return is_set("fleetlog.kafka_listen") || is_set("fleetlog.kafkas_listen");
}

/* Is any listener configured? */
static bool
something_listens(void)
{
	static const char *const names[] = {
		"fleetlog.mqtt_listen", "fleetlog.mqtts_listen", "fleetlog.ws_listen", "fleetlog.wss_listen",
		"fleetlog.http_listen",
	};

	for (int i = 0; i < lengthof(names); i++)
	{
		if (is_set(names[i]))
			return true;
	}
	return kafka_listens();
}

static bool
is_of_use(const FlRole *role, bool doors)
{
	return (doors || !role->with_doors) && (fl_state_worker_wanted() || !role->with_state) &&
		(fl_loop_runner_wanted() || !role->with_loops) && (kafka_listens() || !role->with_kafka);
}

/*
 * Worker slots of the server that we need: the launcher, one for each role, and
 * one that the server's own launcher of logical replication always takes.
 */
static int
slots_needed(bool doors)
{
	int			n = 1 + (max_logical_replication_workers > 0 ? 1 : 0);

	for (int i = 0; i < nroles; i++)
	{
		if (is_of_use(&roles[i], doors))
			n++;
	}
	return n;
}

static void
warn_slots(int needed)
{
	if (!slots_warned)
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("fleetlog cannot start its workers: max_worker_processes is %d, at least %d are needed",
						max_worker_processes, needed),
				 errhint("Set max_worker_processes to %d or more, besides what parallel queries and other "
						 "extensions use, and restart the server.", needed)));
	slots_warned = true;
}

/* ---- what is missing ------------------------------------------------------------- */

/*
 * Without a database a process has no indexes of the shared catalogs when the
 * server's cache file is not there yet, so these look at every row.
 */
static bool
database_exists(void)
{
	Relation	rel = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(rel, 0, NULL);
	HeapTuple	tuple;
	bool		result = false;

	while (!result && (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
		result = strcmp(NameStr(((Form_pg_database) GETSTRUCT(tuple))->datname), fl_database) == 0;
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

static bool
role_can_login(void)
{
	Relation	rel = table_open(AuthIdRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(rel, 0, NULL);
	HeapTuple	tuple;
	bool		result = false;

	while (!result && (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_authid role = (Form_pg_authid) GETSTRUCT(tuple);

		result = role->rolcanlogin && strcmp(NameStr(role->rolname), FL_WORKER_ROLE) == 0;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

/* False and the reason when database or role is missing. */
static bool
place_exists(char *reason, size_t reason_size, const char **hint)
{
	bool		ok = true;

	StartTransactionCommand();
	if (!database_exists())
	{
		snprintf(reason, reason_size, "database \"%s\" does not exist", fl_database);
		*hint = "Create it, or set fleetlog.database to another one.";
		ok = false;
	}
	else if (!role_can_login())
	{
		snprintf(reason, reason_size, "role \"%s\" does not exist or may not log in", FL_WORKER_ROLE);
		*hint = "Run CREATE ROLE fleetlog_worker LOGIN CONNECTION LIMIT 0.";
		ok = false;
	}
	CommitTransactionCommand();
	return ok;
}

/* One line in the log for each new reason. */
static void
say_dormant(const char *reason, const char *hint)
{
	fl_launcher_set_state("dormant: %s", reason);
	if (strcmp(reason, logged_reason) == 0)
		return;
	strlcpy(logged_reason, reason, sizeof(logged_reason));
	ereport(LOG,
			(errmsg("fleetlog is dormant: %s", reason),
			 hint[0] != '\0' ? errhint("%s", hint) : 0));
}

static void
say_running(void)
{
	fl_launcher_set_state("running");
	if (logged_reason[0] != '\0')
		ereport(LOG, (errmsg("fleetlog serves database \"%s\"", fl_database)));
	logged_reason[0] = '\0';
	dormant_backoff_ms = 0;
}

/* ---- starting and stopping ---------------------------------------------------------- */

static FlWorkerSlot *
slot_of(const FlRole *role)
{
	return &fl_shared->slots[fl_slot_number(role->kind, role->index)];
}

static void
schedule(FlRole *role, int64 now)
{
	if (now - role->started_at >= SETTLED_MS * INT64CONST(1000) || role->backoff_ms < fl_worker_retry_ms)
		role->backoff_ms = fl_worker_retry_ms;
	role->next_start = now + role->backoff_ms * INT64CONST(1000);
	role->backoff_ms = Min(role->backoff_ms * 2, MAX_BACKOFF_MS);
}

/* Find out whether it runs, and plan its next start when it has just ended. */
static void
observe(FlRole *role, int64 now)
{
	bool		running = slot_of(role)->pid != 0;

	if (role->handle != NULL)
	{
		pid_t		pid;

		switch (GetBackgroundWorkerPid(role->handle, &pid))
		{
			case BGWH_STARTED:
			case BGWH_NOT_YET_STARTED:
				running = true;
				break;
			case BGWH_STOPPED:
				pfree(role->handle);
				role->handle = NULL;
				break;
			case BGWH_POSTMASTER_DIED:
				proc_exit(1);
		}
	}
	if (role->running && !running)
		schedule(role, now);
	role->running = running;
}

static void
start(FlRole *role, int64 now, bool doors)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "fleetlog", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, role->function, BGW_MAXLEN);
	if (role->kind == FL_WORKER_FRONT_DOOR)
	{
		strlcpy(worker.bgw_type, "fleetlog front door", BGW_MAXLEN);
		snprintf(worker.bgw_name, BGW_MAXLEN, role->with_kafka ? "fleetlog Kafka door" : "fleetlog front door %d",
				 role->index);
	}
	else
	{
		snprintf(worker.bgw_type, BGW_MAXLEN, "fleetlog %s", fl_worker_kind_name(role->kind));
		strlcpy(worker.bgw_name, worker.bgw_type, BGW_MAXLEN);
	}
	worker.bgw_main_arg = Int32GetDatum(role->index);
	worker.bgw_notify_pid = MyProcPid;

	role->started_at = now;
	if (RegisterDynamicBackgroundWorker(&worker, &role->handle))
		role->running = true;
	else
	{
		/* Somebody else has taken the slots that the setting promises. */
		warn_slots(slots_needed(doors));
		fl_launcher_set_state("waiting for worker slots (max_worker_processes)");
		schedule(role, now);
	}
}

static void
stop(FlRole *role, int64 now)
{
	int			pid = slot_of(role)->pid;

	if (now - role->terminated_at < TERMINATE_AGAIN_MS * INT64CONST(1000))
		return;
	role->terminated_at = now;
	if (role->handle != NULL)
		TerminateBackgroundWorker(role->handle);
	else if (pid != 0)
		kill(pid, SIGTERM);
}

static void
forget_pauses(void)
{
	for (int i = 0; i < nroles; i++)
	{
		roles[i].backoff_ms = fl_worker_retry_ms;
		roles[i].next_start = 0;
	}
	dormant_backoff_ms = 0;
	place_seen = 0;
	slots_warned = false;
}

/*
 * Bring every role to where it should be.  active: something should run at all;
 * ready: the extension was seen, so that everybody is of use.
 */
static void
supervise(bool active, bool ready, bool doors, int64 now)
{
	for (int i = 0; i < nroles; i++)
	{
		FlRole	   *role = &roles[i];
		bool		wanted = active && (ready || role->kind == FL_WORKER_KEEPER) && is_of_use(role, doors);

		observe(role, now);
		if (!wanted && role->running)
			stop(role, now);
		else if (wanted && !role->running && role->next_start <= now)
			start(role, now, doors);
		if (!active && !role->running)
			role->next_start = 0;
	}
}

/* Milliseconds until something has to be done without a wake-up. */
static long
next_look(int64 now, int64 next_check)
{
	long		wait = LOOK_MS;

	if (next_check != 0)
		wait = Min(wait, Max(1, (next_check - now) / 1000 + 1));
	for (int i = 0; i < nroles; i++)
	{
		if (roles[i].terminated_at != 0 && roles[i].running)
			wait = Min(wait, TERMINATE_AGAIN_MS);
		if (!roles[i].running && roles[i].next_start > now)
			wait = Min(wait, (roles[i].next_start - now) / 1000 + 1);
	}
	return wait;
}

/* ---- the loop ----------------------------------------------------------------------- */

/* Is there any reason why nothing should run?  Says so, if there is. */
static bool
may_run(bool doors)
{
	if (fl_shared->paused)
	{
		say_dormant("paused", "Call fleetlog.resume().");
		return false;
	}
	if (fl_database[0] == '\0')
	{
		say_dormant("fleetlog.database is empty", "");
		return false;
	}
	if (max_worker_processes < slots_needed(doors))
	{
		warn_slots(slots_needed(doors));
		fl_launcher_set_state("dormant: too few worker slots, %d needed", slots_needed(doors));
		return false;
	}
	return true;
}

static bool
look_for_place(int64 now, int64 *next_check)
{
	char		reason[160];
	const char *hint = "";

	/* Neither can go away while our workers are connected. */
	if (place_seen != 0 && now - place_seen < PLACE_TRUST_MS * INT64CONST(1000))
		return true;
	if (place_exists(reason, sizeof(reason), &hint))
	{
		place_seen = now;
		return true;
	}
	place_seen = 0;
	say_dormant(reason, hint);
	dormant_backoff_ms = dormant_backoff_ms == 0 ? fl_worker_retry_ms :
		Min(dormant_backoff_ms * 2, MAX_BACKOFF_MS);
	*next_check = now + dormant_backoff_ms * INT64CONST(1000);
	return false;
}

/* The extension was looked for: show what came out.  Returns true when it is there. */
static bool
extension_seen(void)
{
	FlReadiness readiness;
	char		reason[sizeof(fl_core->dormant_reason)];
	char		hint[sizeof(fl_core->dormant_hint)];

	LWLockAcquire(fl_shared->slots_lock, LW_SHARED);
	readiness = fl_core->readiness;
	strlcpy(reason, fl_core->dormant_reason, sizeof(reason));
	strlcpy(hint, fl_core->dormant_hint, sizeof(hint));
	LWLockRelease(fl_shared->slots_lock);

	if (readiness == FL_READINESS_READY)
		say_running();
	else if (readiness == FL_READINESS_MISSING)
		say_dormant(reason, hint);
	else
		fl_launcher_set_state("looking for the extension");
	return readiness == FL_READINESS_READY;
}

static void
note_changes(void)
{
	uint32		retry = pg_atomic_read_u32(&fl_core->retry_now);

	if (retry != seen_retry)
	{
		seen_retry = retry;
		forget_pauses();
	}
	if (strcmp(fl_core->served_database, fl_database) != 0)
	{
		strlcpy(fl_core->served_database, fl_database, sizeof(fl_core->served_database));
		LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
		fl_core->readiness = FL_READINESS_UNKNOWN;
		LWLockRelease(fl_shared->slots_lock);
		forget_pauses();
	}
}

/* Workers of another database have to go before those of the new one can start. */
static bool
database_changed(void)
{
	return fl_core->served_database[0] != '\0' && strcmp(fl_core->served_database, fl_database) != 0;
}

static bool
anything_runs(void)
{
	for (int i = 0; i < nroles; i++)
	{
		if (roles[i].running)
			return true;
	}
	return false;
}

void
fl_main_launcher(Datum arg)
{
	fl_worker_begin(FL_WORKER_LAUNCHER, 0, false);
	make_roles();
	seen_retry = pg_atomic_read_u32(&fl_core->retry_now);
	while (!fl_worker_should_stop())
	{
		int64		now = fl_monotonic_us();
		int64		next_check = 0;
		bool		reload = ConfigReloadPending;
		bool		doors;
		bool		active;

		fl_worker_turn();
		if (reload)
			forget_pauses();
		doors = something_listens();
		if (database_changed())
		{
			supervise(false, false, false, now);
			if (anything_runs())
			{
				fl_worker_wait(next_look(now, 0));
				continue;
			}
		}
		note_changes();
		active = may_run(doors) && look_for_place(now, &next_check);
		supervise(active, active && extension_seen(), doors, now);
		fl_worker_wait(next_look(now, next_check));
	}
	/* Code 1, so that the postmaster starts us again unless it is shutting down. */
	proc_exit(1);
}
