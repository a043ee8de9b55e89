/*-------------------------------------------------------------------------
 *
 * flush.c
 *		From committed to flushed to confirmed: publication of tails.
 *
 * A commit leaves (visible tail, commit LSN) in its shard and the shard on the
 * dirty list.  A pass copies these pairs, flushes WAL to the newest LSN, and
 * publishes the tails that it copied, never those it finds afterwards: they
 * may belong to commits that are not flushed.  A shard leaves the list only
 * when nothing was committed since the copy, so a pass that dies half way loses
 * nothing.
 *
 * The pass is the flusher's, and that of doors and appender for what they have
 * committed themselves, while the disk is quick (fl_flush_is_quick): it saves a
 * change of process.  Where no flusher runs (no workers configured, paused,
 * shutting down) any backend does it for itself; while one runs, backends leave
 * it to it.  Passes may overlap: each publishes only what it copied.
 *
 * This is the one place that says "durable": acknowledgements are released by
 * what is published here and by nothing else (REQUIREMENTS L5).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "fleetlog/tail_wait.h"
#include "shmem_internal.h"

/* How long a backend waits for the flusher to publish. */
#define PUBLISH_WAIT_MS		1000
#define PUBLISH_POLL_MS		20

/* A slower disk is waited for by the flusher alone; every so often another one tries. */
#define FL_QUICK_FLUSH_US	2000
#define FL_QUICK_RETRY		256

typedef struct FlCopiedTail
{
	FlShardEntry *entry;
	FlShardKey	key;
	int64		tail;
	XLogRecPtr	lsn;
	bool		moved;			/* the durable tail, by this pass */
} FlCopiedTail;

/* ---- the dirty list ------------------------------------------------------- */

void
fl_dirty_add(FlShardEntry *entry)
{
	LWLockAcquire(fl_core->dirty_lock, LW_EXCLUSIVE);
	if (!entry->in_dirty_list)
	{
		dlist_push_tail(&fl_core->dirty, &entry->dirty_node);
		entry->in_dirty_list = true;
	}
	LWLockRelease(fl_core->dirty_lock);
}

void
fl_dirty_remove(FlShardEntry *entry)
{
	LWLockAcquire(fl_core->dirty_lock, LW_EXCLUSIVE);
	if (entry->in_dirty_list)
	{
		dlist_delete(&entry->dirty_node);
		entry->in_dirty_list = false;
	}
	LWLockRelease(fl_core->dirty_lock);
}

bool
fl_flush_is_idle(void)
{
	bool		idle;

	LWLockAcquire(fl_core->dirty_lock, LW_SHARED);
	idle = dlist_is_empty(&fl_core->dirty);
	LWLockRelease(fl_core->dirty_lock);
	return idle;
}

/* ---- a pass ------------------------------------------------------------------ */

/*
 * The copies live in a buffer that grows outside of locks and is kept: at most
 * fleetlog.max_shards entries.
 */
static FlCopiedTail *copies = NULL;
static int	copies_cap = 0;

static void
grow_copies(int needed)
{
	int			cap = Max(64, copies_cap);

	while (cap < needed)
		cap *= 2;
	if (cap == copies_cap)
		return;
	if (copies != NULL)
		pfree(copies);
	copies = NULL;
	copies_cap = 0;
	copies = MemoryContextAlloc(TopMemoryContext, sizeof(FlCopiedTail) * cap);
	copies_cap = cap;
}

/* Returns how many there were; a number above the capacity means: grow and repeat. */
static int
copy_dirty(XLogRecPtr *highest)
{
	dlist_iter	iter;
	int			n = 0;

	*highest = InvalidXLogRecPtr;
	LWLockAcquire(fl_core->dirty_lock, LW_SHARED);
	dlist_foreach(iter, &fl_core->dirty)
	{
		FlShardEntry *entry = dlist_container(FlShardEntry, dirty_node, iter.cur);
		FlShard    *shard = &entry->shard;

		if (n < copies_cap)
		{
			copies[n].entry = entry;
			copies[n].key = shard->key;
			copies[n].moved = false;
			SpinLockAcquire(&shard->mutex);
			copies[n].tail = (int64) pg_atomic_read_u64(&shard->visible_tail);
			copies[n].lsn = shard->commit_lsn;
			SpinLockRelease(&shard->mutex);
			*highest = Max(*highest, copies[n].lsn);
		}
		n++;
	}
	LWLockRelease(fl_core->dirty_lock);
	return n;
}

void
fl_pending_push(FlShardEntry *entry, int64 tail, XLogRecPtr lsn)
{
	/* When all places are taken the newest pair is replaced, which only delays it. */
	if (entry->npending == FL_PENDING_PAIRS)
		entry->npending--;
	entry->pending[entry->npending].tail = tail;
	entry->pending[entry->npending].lsn = lsn;
	entry->npending++;
	entry->shard.confirm_lsn = lsn;
}

/*
 * Publish a copied tail.  A session that flushed its own commit may have raised
 * flushed_tail already; confirmation is ours to arrange in any case.  Returns
 * the LSN that the confirmer should wait for, if any.
 */
static XLogRecPtr
publish_flushed(FlCopiedTail *copy)
{
	FlShardEntry *entry = copy->entry;
	FlShard    *shard = &entry->shard;
	XLogRecPtr	wanted = InvalidXLogRecPtr;
	int64		arranged;

	copy->moved = !shard->quorum && (int64) pg_atomic_read_u64(&shard->flushed_tail) < copy->tail;
	fl_atomic_raise(&shard->flushed_tail, (uint64) copy->tail);
	SpinLockAcquire(&shard->mutex);
	arranged = entry->npending > 0 ? entry->pending[entry->npending - 1].tail :
		(int64) pg_atomic_read_u64(&shard->confirmed_tail);
	if (copy->tail > arranged)
	{
		if (shard->quorum)
		{
			fl_pending_push(entry, copy->tail, copy->lsn);
			wanted = copy->lsn;
		}
		else if (entry->npending == 0)
			pg_atomic_write_u64(&shard->confirmed_tail, (uint64) copy->tail);
	}
	if (shard->dirty && shard->commit_lsn == copy->lsn)
	{
		shard->dirty = false;
		dlist_delete(&entry->dirty_node);
		entry->in_dirty_list = false;
	}
	SpinLockRelease(&shard->mutex);
	return wanted;
}

static void
publish_copies(int n)
{
	XLogRecPtr	wanted = InvalidXLogRecPtr;

	/* The map lock keeps entries from being freed, the list lock orders us with commits. */
	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	LWLockAcquire(fl_core->dirty_lock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
	{
		FlShardEntry *entry = copies[i].entry;

		/*
		 * Somebody else's pass may have published it, or the stream may be
		 * gone and its entry in use by another shard.
		 */
		if (entry->in_dirty_list &&
			memcmp(&entry->shard.key, &copies[i].key, sizeof(FlShardKey)) == 0)
		{
			XLogRecPtr	lsn = publish_flushed(&copies[i]);

			wanted = Max(wanted, lsn);
		}
	}
	LWLockRelease(fl_core->dirty_lock);
	LWLockRelease(fl_shared->shard_map_lock);

	if (!XLogRecPtrIsInvalid(wanted))
	{
		fl_atomic_raise(&fl_shared->confirm_wanted, wanted);
		fl_worker_wake(FL_WORKER_CONFIRMER, 0);
	}
}

void
fl_wake_doors(void)
{
	fl_state_tail_moved();
	for (int i = 0; i < FL_DOORS; i++)
	{
		FlDoor	   *door = &fl_shared->doors[i];

		/* A door that flushes looks by itself afterwards. */
		if (fl_my_slot != NULL && fl_my_slot == &fl_shared->slots[fl_slot_number(FL_WORKER_FRONT_DOOR, i)])
			continue;
		if (pg_atomic_read_u32(&door->owed) != 0 || pg_atomic_read_u32(&door->has_feed) != 0)
			fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
	}
}

/*
 * Is the disk quick enough that a process with other duties may wait for it?
 * While it is not, one call in so many is told yes, to find out whether it has
 * become so.  Tests that hold the flusher back mean everybody's flushes, and
 * those that hold a door back mean one that writes, on whatever disk.
 */
bool
fl_flush_is_quick(void)
{
	static int	refused = 0;

	if (fl_stop_points_hold("flusher_"))
		return false;
	if (fl_stop_points_hold("door_"))
		return true;
	if (pg_atomic_read_u32(&fl_shared->flush_us) <= FL_QUICK_FLUSH_US)
		return true;
	if (++refused < FL_QUICK_RETRY)
		return false;
	refused = 0;
	return true;
}

/* The average follows slowly upwards and downwards: an eighth of each new value. */
static void
flush_timed(XLogRecPtr lsn)
{
	instr_time	before;
	instr_time	took;
	uint32		average = pg_atomic_read_u32(&fl_shared->flush_us);

	INSTR_TIME_SET_CURRENT(before);
#ifndef FL_PLANT_ACK_BEFORE_FLUSH	/* a fault that the chaos checker must find */
	XLogFlush(lsn);
#endif
	INSTR_TIME_SET_CURRENT(took);
	INSTR_TIME_SUBTRACT(took, before);
	/* Two at a time may overwrite each other's value; it is an estimate. */
	pg_atomic_write_u32(&fl_shared->flush_us,
						(uint32) ((average * 7 + Min(INSTR_TIME_GET_MICROSEC(took), 10000000)) / 8));
}

bool
fl_flush_pass(void)
{
	XLogRecPtr	highest;
	uint64		pass = pg_atomic_add_fetch_u64(&fl_core->passes_begun, 1);
	int			n;

	while ((n = copy_dirty(&highest)) > copies_cap)
		grow_copies(n);
	if (n > 0)
	{
		flush_timed(highest);
		FL_COUNT(FL_C_FLUSHES, 1);
		FL_STOP_POINT("flusher_before_publish");
		publish_copies(n);
		for (int i = 0; i < n; i++)
			if (copies[i].moved)
				fl_tail_moved(&copies[i].key);
		fl_atomic_raise(&fl_shared->published_lsn, highest);
		fl_wake_doors();
	}
	fl_atomic_raise(&fl_core->passes_done, pass);
	ConditionVariableBroadcast(&fl_core->published);
	return n > 0;
}

bool
fl_flusher_runs(void)
{
	return fl_shared->slots[fl_slot_number(FL_WORKER_FLUSHER, 0)].pid != 0;
}

void
fl_flush_published(void)
{
	uint64		target;
	int			left = PUBLISH_WAIT_MS / PUBLISH_POLL_MS;

	if (fl_shared == NULL || RecoveryInProgress() || fl_flush_is_idle())
		return;

	/* A worker's loop waits for nobody; it will be woken. */
	if (fl_my_slot != NULL)
	{
		fl_worker_wake(FL_WORKER_FLUSHER, 0);
		return;
	}

	/* What is on the list now is covered by every pass that begins from now on. */
	target = pg_atomic_read_u64(&fl_core->passes_begun) + 1;
	if (fl_flusher_runs())
	{
		ConditionVariablePrepareToSleep(&fl_core->published);
		fl_worker_wake(FL_WORKER_FLUSHER, 0);
		while (fl_flusher_runs() && left-- > 0 &&
			   pg_atomic_read_u64(&fl_core->passes_done) < target)
			ConditionVariableTimedSleep(&fl_core->published, PUBLISH_POLL_MS, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
	}
	if (!fl_flusher_runs())
		fl_flush_pass();
}

/* ---- confirmation ----------------------------------------------------------- */

/* Returns true when pairs are left that wait for more. */
static bool
confirm_shard(FlShardEntry *entry, XLogRecPtr confirmed, bool *moved)
{
	FlShard    *shard = &entry->shard;
	int			done = 0;
	bool		left;

	SpinLockAcquire(&shard->mutex);
	if (!shard->quorum && entry->npending > 0)
	{
		/* The stream became local: what is flushed is durable. */
		entry->npending = 0;
		pg_atomic_write_u64(&shard->confirmed_tail, pg_atomic_read_u64(&shard->flushed_tail));
	}
	while (done < entry->npending && entry->pending[done].lsn <= confirmed)
		done++;
	if (done > 0)
	{
		int64		tail = entry->pending[done - 1].tail;

		if ((int64) pg_atomic_read_u64(&shard->confirmed_tail) < tail)
		{
			pg_atomic_write_u64(&shard->confirmed_tail, (uint64) tail);
			*moved = true;
		}
		entry->npending -= done;
		memmove(entry->pending, entry->pending + done, sizeof(FlPendingPair) * entry->npending);
	}
	left = entry->npending > 0;
	SpinLockRelease(&shard->mutex);
	return left;
}

bool
fl_confirm_pass(XLogRecPtr confirmed)
{
	HASH_SEQ_STATUS scan;
	FlShardEntry *entry;
	bool		left = false;
	bool		moved = false;

	fl_atomic_raise(&fl_shared->confirmed_lsn, confirmed);
	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	hash_seq_init(&scan, fl_shard_map);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		bool		this_moved = false;

		if (entry->npending == 0)
			continue;
		left |= confirm_shard(entry, confirmed, &this_moved);
		if (this_moved)
			fl_tail_moved(&entry->shard.key);
		moved |= this_moved;
	}
	LWLockRelease(fl_shared->shard_map_lock);
	if (moved)
		fl_wake_doors();
	return left;
}

void
fl_confirm_want(XLogRecPtr lsn)
{
	fl_atomic_raise(&fl_shared->confirm_wanted, lsn);
	fl_worker_wake(FL_WORKER_CONFIRMER, 0);
}
