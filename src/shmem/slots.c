/*-------------------------------------------------------------------------
 *
 * slots.c
 *		The slots of the workers, how they wake each other, stop points, and the
 *		table of listeners.
 *
 * Each role has a fixed slot, so that waking it needs no search and no lock:
 * a commit callback does it.  A latch may be set although its owner has just
 * gone; the process that has the PGPROC now then wakes up once for nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/compat.h"
#include "fleetlog/session.h"
#include "fleetlog/settings.h"
#include "fleetlog/totals.h"
#include "fleetlog/worker.h"
#include "shmem_internal.h"

#define FL_FIRST_DOOR_SLOT	13
#define FL_STOP_POLL_MS		10

StaticAssertDecl(FL_WORKER_RUNNER < FL_FIRST_DOOR_SLOT, "every single role has a slot before the doors");
StaticAssertDecl(FL_FIRST_DOOR_SLOT + FL_MAX_FRONT_DOORS <= FL_MAX_WORKERS, "every door has a slot");

FlWorkerSlot *fl_my_slot = NULL;

int
fl_slot_number(FlWorkerKind kind, int index)
{
	if (kind == FL_WORKER_FRONT_DOOR)
		return FL_FIRST_DOOR_SLOT + index;
	return (int) kind;
}

const char *
fl_worker_kind_name(FlWorkerKind kind)
{
	switch (kind)
	{
		case FL_WORKER_NONE:
			return "none";
		case FL_WORKER_LAUNCHER:
			return "launcher";
		case FL_WORKER_FRONT_DOOR:
			return "front_door";
		case FL_WORKER_APPENDER:
			return "appender";
		case FL_WORKER_FLUSHER:
			return "flusher";
		case FL_WORKER_CONFIRMER:
			return "confirmer";
		case FL_WORKER_KEEPER:
			return "keeper";
		case FL_WORKER_AUTH:
			return "auth";
		case FL_WORKER_STATE:
			return "state";
		case FL_WORKER_READER:
			return "reader";
		case FL_WORKER_POSITIONS:
			return "positions";
		case FL_WORKER_COMMANDS:
			return "commands";
		case FL_WORKER_RUNNER:
			return "runner";
	}
	return "unknown";
}

/* Runs when the process ends, whatever the reason, unless it crashes. */
static void
release_slot(int code, Datum arg)
{
	FlWorkerSlot *slot = (FlWorkerSlot *) DatumGetPointer(arg);
	FlWorkerKind kind = slot->kind;
	int			index = slot->index;

	/* An error may have brought us here from anywhere. */
	LWLockReleaseAll();
	ConditionVariableCancelSleep();
	/* Its sessions before anybody can take its clients over. */
	if (kind == FL_WORKER_FRONT_DOOR)
		fl_sessions_clear_door(index);
	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	slot->pid = 0;
	slot->pgprocno = 0;
	slot->stop_point[0] = '\0';
	LWLockRelease(fl_shared->slots_lock);
	fl_my_slot = NULL;
	if (kind == FL_WORKER_FRONT_DOOR)
	{
		pg_atomic_fetch_sub_u32(&fl_shared->doors_alive, 1);
		pg_atomic_write_u32(&fl_shared->doors[index].owed, 0);
		pg_atomic_write_u32(&fl_shared->doors[index].has_feed, 0);
		pg_atomic_write_u32(&fl_shared->doors[index].writing, 0);
		pg_atomic_write_u32(&fl_shared->doors[index].gathers, 0);
		fl_registry_clear_door(index);
		fl_listener_clear_door(index);
	}
	/* A sleeping backend must not wait for a flusher that is gone. */
	if (kind == FL_WORKER_FLUSHER)
		ConditionVariableBroadcast(&fl_core->published);
	fl_worker_wake(FL_WORKER_FLUSHER, 0);
	fl_worker_wake(FL_WORKER_LAUNCHER, 0);
}

static bool
claim_slot(FlWorkerSlot *slot, FlWorkerKind kind, int index, int number)
{
	bool		taken;

	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	taken = slot->pid != 0 && slot->pid != MyProcPid && kill(slot->pid, 0) == 0;
	if (!taken)
	{
		fl_totals_keep(slot);
		memset(slot->counters, 0, sizeof(slot->counters));
		slot->kind = kind;
		slot->index = index;
		slot->incarnation = ++fl_shared->incarnation[number];
		slot->started = GetCurrentTimestamp();
		slot->stop_point[0] = '\0';
		strlcpy(slot->state, "starting", sizeof(slot->state));
		slot->pgprocno = FL_MY_PROC_NUMBER;
		pg_write_barrier();
		slot->pid = MyProcPid;
	}
	LWLockRelease(fl_shared->slots_lock);
	return !taken;
}

FlWorkerSlot *
fl_worker_attach(FlWorkerKind kind, int index)
{
	int			number = fl_slot_number(kind, index);
	FlWorkerSlot *slot = &fl_shared->slots[number];

	if (!claim_slot(slot, kind, index, number))
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another process is already the fleetlog %s", fl_worker_kind_name(kind))));
	fl_my_slot = slot;
	if (kind == FL_WORKER_FRONT_DOOR)
	{
		/* What a predecessor left behind after an unclean end. */
		fl_registry_clear_door(index);
		fl_listener_clear_door(index);
		pg_atomic_fetch_add_u32(&fl_shared->doors_alive, 1);
	}
	on_shmem_exit(release_slot, PointerGetDatum(slot));
	return slot;
}

void
fl_worker_set_state(const char *fmt,...)
{
	char		text[sizeof(fl_my_slot->state)];
	va_list		args;

	if (fl_my_slot == NULL)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (strcmp(text, fl_my_slot->state) == 0)
		return;
	/* A reader may see a mixture of two texts for an instant; it is for eyes only. */
	strlcpy(fl_my_slot->state, text, sizeof(fl_my_slot->state));
}

void
fl_launcher_set_state(const char *fmt,...)
{
	char		text[sizeof(fl_core->launcher_state)];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	strlcpy(fl_core->launcher_state, text, sizeof(fl_core->launcher_state));
	LWLockRelease(fl_shared->slots_lock);
}

void
fl_worker_wake(FlWorkerKind kind, int index)
{
	volatile FlWorkerSlot *slot = &fl_shared->slots[fl_slot_number(kind, index)];
	int			procno = slot->pgprocno;

	if (slot->pid != 0)
		SetLatch(&ProcGlobal->allProcs[procno].procLatch);
}

/* ---- stop points ------------------------------------------------------------ */

static bool
stop_point_is_set(const char *name)
{
	size_t		len = strlen(name);
	const char *p = fl_stop_points;

	while (p != NULL && *p != '\0')
	{
		const char *end;

		while (*p == ' ' || *p == ',')
			p++;
		end = p + strcspn(p, ", ");
		if ((size_t) (end - p) == len && strncmp(p, name, len) == 0)
			return true;
		p = end;
	}
	return false;
}

bool
fl_stop_points_hold(const char *prefix)
{
	size_t		len = strlen(prefix);
	const char *p = fl_stop_points;

	while (unlikely(p != NULL && *p != '\0'))
	{
		p += strspn(p, " ,");
		if (strncmp(p, prefix, len) == 0)
			return true;
		p += strcspn(p, ", ");
	}
	return false;
}

/*
 * Tests only.  The process stays here until the setting no longer names the
 * point, or until it is told to end; it reads the configuration itself because
 * its own loop does not run meanwhile.
 */
void
fl_stop_point_slow(const char *name)
{
	bool		reloaded = false;

	if (!stop_point_is_set(name))
		return;
	if (fl_my_slot != NULL)
		strlcpy(fl_my_slot->stop_point, name, sizeof(fl_my_slot->stop_point));
	while (stop_point_is_set(name) && !ShutdownRequestPending && !ProcDiePending)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 FL_STOP_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		/* In a session: what stands behind the point may have its own word for this. */
		if (fl_my_slot == NULL && QueryCancelPending)
			return;
		if (INTERRUPTS_CAN_BE_PROCESSED())
			CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			reloaded = true;
		}
	}
	/* The loop may have more to do at a reload than to read the file. */
	if (reloaded)
		ConfigReloadPending = true;
	if (fl_my_slot != NULL)
		fl_my_slot->stop_point[0] = '\0';
	/* We may have swallowed a wake-up that was meant for the loop. */
	SetLatch(MyLatch);
}

/* ---- listeners --------------------------------------------------------------- */

int
fl_listener_show(int door, const char *protocol, const char *address, const char *state)
{
	int			free_place = -1;
	int			result = -1;

	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	for (int i = 0; i < FL_MAX_LISTENERS; i++)
	{
		FlListenerInfo *l = &fl_core->listeners[i];

		if (l->door < 0)
			free_place = free_place < 0 ? i : free_place;
		else if (l->door == door && strcmp(l->protocol, protocol) == 0 &&
				 strcmp(l->address, address) == 0)
			result = i;
	}
	if (result < 0 && free_place >= 0)
	{
		result = free_place;
		memset(&fl_core->listeners[result], 0, sizeof(FlListenerInfo));
	}
	if (result >= 0)
	{
		FlListenerInfo *l = &fl_core->listeners[result];

		l->door = door;
		l->pid = MyProcPid;
		strlcpy(l->protocol, protocol, sizeof(l->protocol));
		strlcpy(l->address, address, sizeof(l->address));
		strlcpy(l->state, state, sizeof(l->state));
	}
	LWLockRelease(fl_shared->slots_lock);
	return result;
}

void
fl_listener_hide(int listener)
{
	if (listener < 0)
		return;
	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	fl_core->listeners[listener].door = -1;
	LWLockRelease(fl_shared->slots_lock);
}

void
fl_listener_count(int listener, int accepted, int delta_open)
{
	if (listener < 0)
		return;
	fl_core->listeners[listener].accepted += accepted;
	fl_core->listeners[listener].open += delta_open;
}

void
fl_listener_tls(int listener, bool succeeded, bool resumed)
{
	if (listener < 0)
		return;
	if (succeeded)
		fl_core->listeners[listener].handshakes++;
	else
		fl_core->listeners[listener].failed_handshakes++;
	if (resumed)
		fl_core->listeners[listener].resumed++;
}

void
fl_listener_clear_door(int door)
{
	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	for (int i = 0; i < FL_MAX_LISTENERS; i++)
	{
		if (fl_core->listeners[i].door == door)
			fl_core->listeners[i].door = -1;
	}
	LWLockRelease(fl_shared->slots_lock);
}
