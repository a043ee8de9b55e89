/*-------------------------------------------------------------------------
 *
 * shared.c
 *		The pool: what is committed of idempotent producers, in shared memory.
 *
 * An entry for each pair of shard and producer id, fleetlog.kafka_max_producers in
 * all.  Where there is no room the least recently used one goes; its producer is one
 * that nobody knows then.  One LWLock over the pool, held for microseconds, taken
 * alone; nothing that is done under it can raise an error.  What an entry says is
 * changed only by who has its shard's lock, so a copy is good as long as that is held.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "producer_internal.h"

#define PRODUCERS_TRANCHE	"fleetlog_producers"

typedef struct Entry
{
	FlProducerState state;		/* its key is the hash key: must come first */
	dlist_node	node;			/* in area->used */
} Entry;

typedef struct Area
{
	dlist_head	used;			/* Entry, least recently used first */

	/* Ids given since the start, none of which was ever forgotten; equal: none. */
	int64		fresh_from;
	int64		fresh_to;
} Area;

static int	max_producers = 20000;
int			fl_producer_expiration_s = 86400;

static LWLock *lock = NULL;
static Area *area = NULL;
static HTAB *pool = NULL;

StaticAssertDecl(sizeof(FlProducerKey) == 24, "the key is hashed as bytes and must have no padding");

void
fl_producers_define_settings(void)
{
	DefineCustomIntVariable("fleetlog.kafka_max_producers",
							"Idempotent Kafka producers that are remembered, each counted once a shard that it writes to.",
							"Beyond it the one that has written nothing for the longest time is forgotten.",
							&max_producers, 20000, 100, 10000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_producer_expiration",
							"How long an idempotent Kafka producer is remembered that writes nothing.",
							"Afterwards its next batch is taken whatever its sequence is.",
							&fl_producer_expiration_s, 86400, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

Size
fl_producers_size(void)
{
	return add_size(MAXALIGN(sizeof(Area)), hash_estimate_size(max_producers, sizeof(Entry)));
}

void
fl_producers_request(void)
{
	RequestNamedLWLockTranche(PRODUCERS_TRANCHE, 1);
}

void
fl_producers_init(void)
{
	HASHCTL		ctl;
	bool		found;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(FlProducerKey);
	ctl.entrysize = sizeof(Entry);
	lock = &GetNamedLWLockTranche(PRODUCERS_TRANCHE)[0].lock;
	area = ShmemInitStruct("fleetlog producers used", sizeof(Area), &found);
	if (!found)
	{
		dlist_init(&area->used);
		area->fresh_from = area->fresh_to = 0;
	}
	pool = ShmemInitHash("fleetlog producers", max_producers, max_producers, &ctl,
						 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

FlProducerKey
fl_producer_key(const FlShardKey *shard, int64 id)
{
	FlProducerKey key;

	memset(&key, 0, sizeof(key));
	key.shard = *shard;
	key.id = id;
	return key;
}

bool
fl_producer_is_expired(const FlProducerWindow *w)
{
	return fl_producer_last_ts(w) + fl_producer_expiration_s * USECS_PER_SEC < fl_wall_now();
}

bool
fl_producer_pool_get(const FlProducerKey *key, FlProducerWindow *w)
{
	Entry	   *entry;

	LWLockAcquire(lock, LW_SHARED);
	entry = hash_search(pool, key, HASH_FIND, NULL);
	if (entry != NULL)
		*w = entry->state.window;
	LWLockRelease(lock);
	return entry != NULL;
}

/* The lock is held. */
static void
remove_entry(Entry *entry)
{
	FlProducerKey key = entry->state.key;

	dlist_delete(&entry->node);
	hash_search(pool, &key, HASH_REMOVE, NULL);
	/* Those that were given before it, too: one number tells all. */
	if (key.id >= area->fresh_from && key.id < area->fresh_to)
		area->fresh_from = key.id + 1;
}

void
fl_producers_given(int64 first, int64 n)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* Ids go up, but for where they get other random bits (ids.c). */
	if (first < area->fresh_to || area->fresh_from == area->fresh_to || (first >> 32) != (area->fresh_from >> 32))
		area->fresh_from = first;
	area->fresh_to = first + n;
	LWLockRelease(lock);
}

bool
fl_producer_is_fresh(int64 id)
{
	bool		fresh;

	LWLockAcquire(lock, LW_SHARED);
	fresh = id >= area->fresh_from && id < area->fresh_to;
	LWLockRelease(lock);
	return fresh;
}

void
fl_producer_pool_put(const FlProducerKey *key, const FlProducerWindow *w)
{
	Entry	   *entry;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	entry = hash_search(pool, key, HASH_FIND, NULL);
	if (entry != NULL)
		dlist_delete(&entry->node);
	else
	{
		if (hash_get_num_entries(pool) >= max_producers)
			remove_entry(dlist_head_element(Entry, node, &area->used));
		/* All its elements were allocated when it was made. */
		entry = hash_search(pool, key, HASH_ENTER_NULL, NULL);
	}
	if (entry != NULL)
	{
		entry->state.window = *w;
		dlist_push_tail(&area->used, &entry->node);
	}
	LWLockRelease(lock);
}

static int
count_of_shard(const FlShardKey *shard)
{
	dlist_iter	iter;
	int			n = 0;

	LWLockAcquire(lock, LW_SHARED);
	dlist_foreach(iter, &area->used)
		n += memcmp(&dlist_container(Entry, node, iter.cur)->state.key.shard, shard, sizeof(*shard)) == 0;
	LWLockRelease(lock);
	return n;
}

/* Only who has the shard's lock adds to it: between the two looks it can but have become less. */
FlProducerState *
fl_producer_pool_copy(const FlShardKey *shard, int *n)
{
	int			room = count_of_shard(shard);
	FlProducerState *copy = palloc_extended(sizeof(FlProducerState) * Max(room, 1), MCXT_ALLOC_HUGE);
	dlist_iter	iter;

	*n = 0;
	LWLockAcquire(lock, LW_SHARED);
	dlist_foreach(iter, &area->used)
	{
		const FlProducerState *state = &dlist_container(Entry, node, iter.cur)->state;

		if (*n < room && memcmp(&state->key.shard, shard, sizeof(*shard)) == 0)
			copy[(*n)++] = *state;
	}
	LWLockRelease(lock);
	return copy;
}

void
fl_producers_forget(Oid stream)
{
	dlist_mutable_iter iter;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	dlist_foreach_modify(iter, &area->used)
	{
		Entry	   *entry = dlist_container(Entry, node, iter.cur);

		if (entry->state.key.shard.database == MyDatabaseId && entry->state.key.shard.stream == stream)
			remove_entry(entry);
	}
	LWLockRelease(lock);
}
