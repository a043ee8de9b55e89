/*-------------------------------------------------------------------------
 *
 * aside.c
 *		Shards for which the appender waits, and how SQL lets it go first.
 *
 * Workers take a shard's lock only when it is free, so that one shard that is held
 * holds up no other.  Sessions queue for it: with two of them the lock goes from one
 * to the next and is never free, and devices would wait for as long as SQL writes.
 * Therefore a session that has got the lock of a shard for which the appender has
 * waited some time gives it back once, and waits until the appender has had it.
 *
 * The wait is bounded, for the appender may be gone, or out of its budget, and what
 * the session holds besides is hidden from the detector of deadlocks meanwhile.
 *
 * Called by appender.c (marks) and shard_lock.c (waits).  No lock but the condition
 * variable's; marks are written by the appender only and read by others as they come.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "shmem_internal.h"

/* So long SQL goes on undisturbed: a turn of the appender costs all who queue a wake-up. */
#define YIELD_AFTER_US	5000
#define YIELD_MS		100

void
fl_aside_mark(FlShard *shard, bool waits)
{
	if (shard->left_aside == waits)
		return;
	if (waits)
		shard->aside_since = GetCurrentTimestamp();
	shard->left_aside = waits;
	if (!waits)
		ConditionVariableBroadcast(&fl_core->aside_over);
}

/* Marks of an appender that is no more. */
void
fl_aside_start(void)
{
	HASH_SEQ_STATUS scan;
	FlShardEntry *entry;

	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	hash_seq_init(&scan, fl_shard_map);
	while ((entry = hash_seq_search(&scan)) != NULL)
		fl_aside_mark(&entry->shard, false);
	LWLockRelease(fl_shared->shard_map_lock);
}

bool
fl_aside_is_due(const FlShard *shard)
{
	return shard->left_aside && GetCurrentTimestamp() - shard->aside_since >= YIELD_AFTER_US;
}

void
fl_aside_yield(const FlShard *shard)
{
	TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), YIELD_MS);

	ConditionVariablePrepareToSleep(&fl_core->aside_over);
	fl_worker_wake(FL_WORKER_APPENDER, 0);
	while (shard->left_aside)
	{
		long		ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);

		if (ms <= 0 || ConditionVariableTimedSleep(&fl_core->aside_over, ms, PG_WAIT_EXTENSION))
			break;
	}
	ConditionVariableCancelSleep();
}
