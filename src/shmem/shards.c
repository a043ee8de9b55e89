/*-------------------------------------------------------------------------
 *
 * shards.c
 *		The map of shards: find or create an entry, answer for its durable tail,
 *		take the tail of a commit.
 *
 * An entry comes into being when a shard is first read or written after server
 * start, with the tail that its files hold.  Nobody needs a lock for reading
 * the files: whoever appends opens the entry first, so while there is no entry
 * the files do not change, and if one appears meanwhile, that one is taken and
 * what we read is thrown away.  (Holding an LWLock over it would be wrong: the
 * reading takes heavyweight locks, and a deadlock between the two kinds is
 * seen by nobody.)
 *
 * On a standby the files change by replay, without an entry's knowledge.  Tails
 * read there are provisional and are read again at the first opening after
 * promotion, before anybody has appended.
 *
 * Called by the access method, by readers, and from the commit callback
 * (fl_shard_publish), which therefore must not raise errors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log_tail.h"
#include "fleetlog/producers.h"
#include "fleetlog/settings.h"
#include "fleetlog/tail_wait.h"
#include "shmem_internal.h"

HTAB	   *fl_shard_map = NULL;

/* Pointers that this process has found before; checked at each use. */
typedef struct FlCachedShard
{
	FlShardKey	key;
	FlShardEntry *entry;
} FlCachedShard;

static HTAB *cache = NULL;

Size
fl_shard_map_size(void)
{
	return hash_estimate_size(fl_max_shards, sizeof(FlShardEntry));
}

void
fl_shard_map_init(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(FlShardKey);
	ctl.entrysize = sizeof(FlShardEntry);
	fl_shard_map = ShmemInitHash("fleetlog shards", fl_max_shards, fl_max_shards, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

static void
make_key(FlShardKey *key, Oid stream, int32 shard)
{
	StaticAssertStmt(sizeof(FlShardKey) == 12, "the key is hashed as bytes and must have no padding");
	key->database = MyDatabaseId;
	key->stream = stream;
	key->shard = shard;
}

static bool
same_key(const FlShardKey *a, const FlShardKey *b)
{
	return a->database == b->database && a->stream == b->stream && a->shard == b->shard;
}

static FlCachedShard *
cache_slot(const FlShardKey *key)
{
	FlCachedShard *slot;
	bool		found;

	if (cache == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(FlShardKey);
		ctl.entrysize = sizeof(FlCachedShard);
		ctl.hcxt = TopMemoryContext;
		cache = hash_create("fleetlog shard pointers", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	slot = hash_search(cache, key, HASH_ENTER, &found);
	if (!found)
		slot->entry = NULL;
	return slot;
}

static FlShardEntry *
find_entry(const FlShardKey *key)
{
	FlCachedShard *slot = cache_slot(key);

	/* The entry may have been freed, and even used again for another shard. */
	if (slot->entry != NULL && same_key(&slot->entry->shard.key, key))
		return slot->entry;
	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	slot->entry = hash_search(fl_shard_map, key, HASH_FIND, NULL);
	LWLockRelease(fl_shared->shard_map_lock);
	return slot->entry;
}

/*
 * Recovery has ended below this position.  What an entry is created with was
 * recovered, hence is flushed here; for a quorum stream it must be confirmed
 * by the standbys before it may be shown, for the standby we were before may
 * have replayed more than its quorum had.
 */
XLogRecPtr
fl_recovery_end(void)
{
	if (XLogRecPtrIsInvalid(fl_shared->recovery_end) && !RecoveryInProgress())
		fl_shared->recovery_end = GetFlushRecPtr(NULL);
	return fl_shared->recovery_end;
}

/*
 * Set what readers see from the files; the mutex is held or nobody else knows
 * the entry.  While recovery goes on nothing is durable by our word: readers
 * look at the files.
 */
static void
set_tails(FlShardEntry *entry, int64 tail, int64 head, XLogRecPtr recovered)
{
	FlShard    *shard = &entry->shard;

	if (entry->provisional)
		return;
	pg_atomic_write_u64(&shard->visible_tail, (uint64) tail);
	pg_atomic_write_u64(&shard->flushed_tail, (uint64) tail);
	pg_atomic_write_u64(&shard->head, (uint64) head);
	if (!shard->quorum || pg_atomic_read_u64(&fl_shared->confirmed_lsn) >= recovered)
		pg_atomic_write_u64(&shard->confirmed_tail, (uint64) tail);
	else if (tail > 0)
		fl_pending_push(entry, tail, recovered);
}

static void
init_entry(FlShardEntry *entry, bool quorum, bool provisional)
{
	FlShard    *shard = &entry->shard;
	FlShardKey	key = shard->key;

	memset(entry, 0, sizeof(*entry));
	shard->key = key;
	entry->provisional = provisional;
	shard->quorum = quorum;
	shard->last_ts = DT_NOBEGIN;
	shard->run_max_ts = DT_NOBEGIN;
	SpinLockInit(&shard->mutex);
	pg_atomic_init_u64(&shard->visible_tail, 0);
	pg_atomic_init_u64(&shard->flushed_tail, 0);
	pg_atomic_init_u64(&shard->confirmed_tail, 0);
	pg_atomic_init_u64(&shard->head, 0);
	pg_atomic_init_u64(&shard->n_records, 0);
	pg_atomic_init_u64(&shard->n_batches, 0);
	pg_atomic_init_u64(&shard->n_bytes, 0);
	pg_atomic_init_u64(&shard->n_lock_waits, 0);
	pg_atomic_init_u64(&shard->n_off_key, 0);
}

static void
wake_confirmer(bool quorum, XLogRecPtr lsn)
{
	if (!quorum)
		return;
	fl_atomic_raise(&fl_shared->confirm_wanted, lsn);
	fl_worker_wake(FL_WORKER_CONFIRMER, 0);
}

/*
 * A restore may have committed the shard's row between our look at it and the moment
 * from which its news finds the entry (fl_shard_publish_head).
 */
static void
look_again(FlShardEntry *entry)
{
	const FlShardKey *key = &entry->shard.key;
	int64		seen = (int64) pg_atomic_read_u64(&entry->shard.visible_tail);
	FlShardRow	row;

	if (!fl_shard_row_read(key->stream, key->shard, &row))
		return;
	fl_shard_publish_head(key->stream, key->shard, row.head);
	if (Max(row.head, row.tail) > seen)
		fl_shard_publish_restored(key->stream, key->shard, Max(row.head, row.tail));
}

static FlShardEntry *
create_entry(const FlShardKey *key, bool quorum)
{
	bool		provisional = RecoveryInProgress();
	XLogRecPtr	recovered = fl_recovery_end();
	FlShardEntry *entry;
	TimestampTz last_ts = DT_NOBEGIN;
	int64		tail = 0;
	int64		head = 0;
	bool		found;

	fl_tail_read_committed(key->stream, key->shard, &tail, &head, &last_ts);
	fl_clock_raise(last_ts);
	FL_STOP_POINT("shard_before_entry");

	LWLockAcquire(fl_shared->shard_map_lock, LW_EXCLUSIVE);
	entry = hash_search(fl_shard_map, key, HASH_ENTER_NULL, &found);
	if (entry != NULL && !found)
	{
		init_entry(entry, quorum, provisional);
		set_tails(entry, tail, head, recovered);
	}
	LWLockRelease(fl_shared->shard_map_lock);
	if (entry == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("too many shards are in use"),
				 errdetail("The limit is %d.", fl_max_shards),
				 errhint("Raise fleetlog.max_shards and restart the server.")));
	wake_confirmer(quorum && tail > 0, recovered);
	if (!found && !provisional)
		look_again(entry);
	cache_slot(key)->entry = entry;
	return entry;
}

/* The server was promoted since the tails were read. */
static void
settle_provisional(FlShardEntry *entry)
{
	XLogRecPtr	recovered = fl_recovery_end();
	TimestampTz last_ts = DT_NOBEGIN;
	int64		tail = 0;
	int64		head = 0;

	fl_tail_read_committed(entry->shard.key.stream, entry->shard.key.shard, &tail, &head, &last_ts);
	fl_clock_raise(last_ts);
	SpinLockAcquire(&entry->shard.mutex);
	if (entry->provisional)
	{
		entry->provisional = false;
		entry->shard.writer_valid = false;
		set_tails(entry, tail, head, recovered);
	}
	SpinLockRelease(&entry->shard.mutex);
	wake_confirmer(entry->shard.quorum, recovered);
	look_again(entry);
}

FlShard *
fl_shard_open(Oid stream, int32 shard, bool quorum)
{
	FlShardEntry *entry;
	FlShardKey	key;

	fl_require_preload();
	make_key(&key, stream, shard);
	entry = find_entry(&key);
	if (entry == NULL)
		entry = create_entry(&key, quorum);
	if (entry->shard.quorum != quorum)
	{
		/* alter_stream changed it; confirmed_tail goes on from where it is. */
		SpinLockAcquire(&entry->shard.mutex);
		entry->shard.quorum = quorum;
		SpinLockRelease(&entry->shard.mutex);
		/* Pairs that were to be confirmed need it no more. */
		if (!quorum)
			fl_worker_wake(FL_WORKER_CONFIRMER, 0);
	}
	if (entry->provisional && !RecoveryInProgress())
		settle_provisional(entry);
	return &entry->shard;
}

FlShard *
fl_shard_find(Oid stream, int32 shard)
{
	FlShardEntry *entry;
	FlShardKey	key;

	if (fl_shared == NULL)
		return NULL;
	make_key(&key, stream, shard);
	entry = find_entry(&key);
	if (entry == NULL)
		return NULL;
	if (entry->provisional && !RecoveryInProgress())
		settle_provisional(entry);
	return &entry->shard;
}

int64
fl_shard_durable_tail(FlShard *shard)
{
	return (int64) pg_atomic_read_u64(shard->quorum ? &shard->confirmed_tail : &shard->flushed_tail);
}

void
fl_shard_forget(Oid stream)
{
	HASH_SEQ_STATUS scan;
	FlShardEntry *entry;

	if (fl_shared == NULL)
		return;
	LWLockAcquire(fl_shared->shard_map_lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, fl_shard_map);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->shard.key.database != MyDatabaseId || entry->shard.key.stream != stream)
			continue;
		fl_dirty_remove(entry);
		hash_search(fl_shard_map, &entry->shard.key, HASH_REMOVE, NULL);
		/* The memory keeps its content: make cached pointers to it fail their check. */
		entry->shard.key.database = InvalidOid;
	}
	LWLockRelease(fl_shared->shard_map_lock);
	fl_producers_forget(stream);
	/* Whoever waits for more of it is to learn that it is gone. */
	fl_tail_gone(stream);
}

/*
 * Inside a commit as well.  An entry that is being created meanwhile either is
 * found here, or whoever creates it finds the row when he looks again: a head is
 * raised under the shard's lock, which needs an entry, or by a restore.  A restore
 * may bring the row after somebody has looked at the shard.  When all records were
 * gone, its entry then knows of no tail, which no head is ever above.
 */
void
fl_shard_publish_head(Oid stream, int32 shard, int64 head)
{
	FlShardEntry *entry;
	FlShardKey	key;

	if (fl_shared == NULL)
		return;
	make_key(&key, stream, shard);
	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	entry = hash_search(fl_shard_map, &key, HASH_FIND, NULL);
	if (entry != NULL)
	{
		FlShard    *shard = &entry->shard;

		fl_atomic_raise(&shard->head, (uint64) head);
		if (pg_atomic_read_u64(&shard->visible_tail) < (uint64) head)
		{
			fl_atomic_raise(&shard->visible_tail, (uint64) head);
			fl_atomic_raise(&shard->flushed_tail, (uint64) head);
			fl_atomic_raise(&shard->confirmed_tail, (uint64) head);
		}
	}
	LWLockRelease(fl_shared->shard_map_lock);
}

void
fl_shard_publish_restored(Oid stream, int32 shard, int64 tail)
{
	XLogRecPtr	lsn = GetXLogInsertRecPtr();
	FlShardEntry *entry;
	FlShardKey	key;
	bool		confirm = false;

	if (fl_shared == NULL)
		return;
	make_key(&key, stream, shard);
	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	entry = hash_search(fl_shard_map, &key, HASH_FIND, NULL);
	if (entry != NULL && !entry->provisional)
	{
		FlShard    *s = &entry->shard;

		SpinLockAcquire(&s->mutex);
		fl_atomic_raise(&s->visible_tail, (uint64) tail);
		fl_atomic_raise(&s->flushed_tail, (uint64) tail);
		confirm = s->quorum && (int64) pg_atomic_read_u64(&s->confirmed_tail) < tail;
		if (confirm)
			fl_pending_push(entry, tail, lsn);
		else
			fl_atomic_raise(&s->confirmed_tail, (uint64) tail);
		SpinLockRelease(&s->mutex);
	}
	LWLockRelease(fl_shared->shard_map_lock);
	wake_confirmer(confirm, lsn);
}

/*
 * Runs inside the commit of the writer, its shard lock still held, hence in
 * offset order; nothing here can fail.
 */
bool		fl_flush_by_myself = false;

void
fl_shard_publish(FlShard *shard, int64 tail, XLogRecPtr lsn)
{
	bool		was_dirty;

	SpinLockAcquire(&shard->mutex);
	pg_atomic_write_u64(&shard->visible_tail, (uint64) tail);
	shard->commit_lsn = lsn;
	was_dirty = shard->dirty;
	shard->dirty = true;
	SpinLockRelease(&shard->mutex);
	fl_atomic_raise(&fl_shared->max_commit_lsn, lsn);
	if (!was_dirty)
		fl_dirty_add((FlShardEntry *) shard);
	pg_atomic_fetch_add_u64(&fl_shared->any_dirty, 1);
	if (!fl_flush_by_myself)
		fl_worker_wake(FL_WORKER_FLUSHER, 0);
	/* Where nobody else publishes, those who wait do it for themselves. */
	if (!fl_flusher_runs())
		fl_tail_moved(&shard->key);
}
