/*-------------------------------------------------------------------------
 *
 * shard_lock.c
 *		The transactional lock of a shard.
 *
 * Commit order is offset order because this lock is kept until the transaction
 * is visible to everybody (locks go after ProcArrayEndTransaction).  It is an
 * ordinary heavyweight lock on (pg_class, stream, shard), so deadlocks between
 * SQL transactions are found by the server, and users' advisory locks cannot
 * collide with it.
 *
 * Workers only ever take it conditionally; so that sessions that queue for it do not
 * keep it from them for ever, a session lets a worker that has waited go first
 * (fl_aside_yield).  A SQL session waits at most
 * fleetlog.shard_lock_timeout (LF106) and, once it has the lock, is ended when
 * it holds it longer than fleetlog.shard_hold_timeout: no idle transaction may
 * keep a fleet waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/timeout.h"

#include "fleetlog/settings.h"
#include "log_private.h"
#include "xact.h"

static bool hold_timeout_registered = false;
static TimeoutId hold_timeout_id;
static volatile sig_atomic_t hold_timeout_fired = false;
static volatile int idle_timeout_saved = 0;

/*
 * In a signal handler.  The server has no place for an extension's own
 * interrupt, so the session ends the way an idle transaction does (25P03); the
 * log line with the cause is written when it aborts.
 */
static void
hold_timeout_handler(void)
{
	hold_timeout_fired = true;
	idle_timeout_saved = IdleInTransactionSessionTimeout;
	if (IdleInTransactionSessionTimeout <= 0)
		IdleInTransactionSessionTimeout = 1;
	IdleInTransactionSessionTimeoutPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

static void
arm_hold_timeout(void)
{
	if (fl_shard_hold_timeout_ms <= 0 || fl_my_slot != NULL)
		return;
	if (!hold_timeout_registered)
	{
		hold_timeout_id = RegisterTimeout(USER_TIMEOUT, hold_timeout_handler);
		hold_timeout_registered = true;
	}
	if (!get_timeout_active(hold_timeout_id))
		enable_timeout_after(hold_timeout_id, fl_shard_hold_timeout_ms);
}

/* The transaction is over: nothing is held any more. */
void
fl_shard_lock_at_end(bool is_commit)
{
	if (hold_timeout_registered && get_timeout_active(hold_timeout_id))
		disable_timeout(hold_timeout_id, false);
	if (!hold_timeout_fired)
		return;
	hold_timeout_fired = false;
	if (is_commit)
	{
		/* It ended by itself before the session noticed: let the session live. */
		IdleInTransactionSessionTimeoutPending = false;
		IdleInTransactionSessionTimeout = idle_timeout_saved;
	}
	else
		ereport(LOG,
				(errcode(ERRCODE_IDLE_IN_TRANSACTION_SESSION_TIMEOUT),
				 errmsg("session ended because its transaction held a stream's shard for more than %d ms",
						fl_shard_hold_timeout_ms),
				 errhint("Commit soon after fleetlog.append(), use fleetlog.publish(), which takes the shard at commit, or raise fleetlog.shard_hold_timeout.")));
}

static void
wait_for_lock(const LOCKTAG *tag, FlShard *shard)
{
	MemoryContext old = CurrentMemoryContext;
	volatile int saved = LockTimeout;
	int			ours = fl_shard_lock_timeout_ms;

	LockTimeout = (saved > 0 && saved < ours) ? saved : ours;
	PG_TRY();
	{
		(void) LockAcquire(tag, ExclusiveLock, false, false);
		LockTimeout = saved;
	}
	PG_CATCH();
	{
		ErrorData  *edata;

		LockTimeout = saved;
		MemoryContextSwitchTo(old);
		edata = CopyErrorData();
		if (edata->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		FlushErrorState();
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_SHARD_BUSY)),
				 errmsg("shard %d of stream \"%s\" is busy", shard->key.shard,
						get_rel_name(shard->key.stream) ? get_rel_name(shard->key.stream) : "?"),
				 errdetail("Another transaction appended to it and has not ended within %d ms.", ours),
				 errhint("Retry, or find the holder in pg_locks (locktype object, classid pg_class, objsubid = shard).")));
	}
	PG_END_TRY();
}

bool
fl_shard_lock_held(FlShard *shard)
{
	return fl_xact_holds(shard);
}

static bool
acquire(const LOCKTAG *tag, FlShard *shard, FlLockWait wait)
{
	if (LockAcquire(tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL)
		return true;
	pg_atomic_fetch_add_u64(&shard->n_lock_waits, 1);
	if (wait == FL_LOCK_NOWAIT)
		return false;
	wait_for_lock(tag, shard);
	return true;
}

/*
 * Should this session give the lock that it has just got back once?  Not who has
 * other shards: their writers would wait with it.
 */
static bool
lets_appender_go_first(const FlShard *shard, FlLockWait wait)
{
	return wait == FL_LOCK_TIMEOUT && fl_my_slot == NULL && !fl_xact_holds_any() && fl_aside_is_due(shard);
}

bool
fl_shard_lock(FlShard *shard, FlLockWait wait)
{
	LOCKTAG		tag;
	FlShardKey	key = shard->key;

	if (fl_xact_holds(shard))
		return true;
	SET_LOCKTAG_OBJECT(tag, key.database, RelationRelationId, key.stream, (uint16) key.shard);
	if (!acquire(&tag, shard, wait))
		return false;
	if (lets_appender_go_first(shard, wait))
	{
		LockRelease(&tag, ExclusiveLock, false);
		fl_aside_yield(shard);
		(void) acquire(&tag, shard, wait);
	}
	/* Dropped while we waited: the entry may be another shard's by now. */
	if (memcmp(&shard->key, &key, sizeof(key)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the stream has been dropped")));
	fl_xact_note_lock(shard);
	arm_hold_timeout();
	/* Who changes a stream or its mounts holds its shards until commit: now it is seen. */
	AcceptInvalidationMessages();
	return true;
}
