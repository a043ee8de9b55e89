/*-------------------------------------------------------------------------
 *
 * shmem_internal.h
 *		The part of shared memory that only src/shmem touches.
 *
 * Locking contract
 *		- FlShardEntry.in_dirty_list and the list itself: fl_core->dirty_lock.
 *		- pending pairs, provisional: the shard's mutex.
 *		- listeners: fl_shared->slots_lock, counters written by their door only.
 *		- evictions: fl_shared->registry_lock.
 *		- places of shared subscriptions: share_lock, which is held alone.
 *		- the ring of memory-only topics: memory_lock, likewise.
 *		- all others: atomics, or a single writer as said beside them.
 *		Order: shard_map_lock, dirty_lock, then a shard's mutex.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SHMEM_INTERNAL_H
#define FLEETLOG_SHMEM_INTERNAL_H

#include "lib/ilist.h"
#include "storage/condition_variable.h"
#include "storage/proc.h"
#include "utils/hsearch.h"

#include "fleetlog/guest.h"
#include "fleetlog/shmem.h"
#include "fleetlog/totals.h"

/*
 * Pairs (tail, LSN) of a quorum shard that were flushed and are not confirmed
 * yet.  With one pair only, a busy shard would never be confirmed: each flush
 * would replace it before the standby's answer is there.
 */
#define FL_PENDING_PAIRS	8

typedef struct FlPendingPair
{
	int64		tail;
	XLogRecPtr	lsn;
} FlPendingPair;

/* An entry of the shard map: what everybody sees, and what is only ours. */
typedef struct FlShardEntry
{
	FlShard		shard;			/* hash key: must come first */
	bool		provisional;	/* tails were read during recovery */
	bool		in_dirty_list;
	dlist_node	dirty_node;
	int			npending;
	FlPendingPair pending[FL_PENDING_PAIRS];
} FlShardEntry;

#define FL_EVICTION_QUEUE	1024

typedef struct FlEvictionQueue
{
	uint32		head;
	uint32		tail;
	bool		overflow;		/* look through the whole registry */
	uint64		conn_ids[FL_EVICTION_QUEUE];
	uint8		reasons[FL_EVICTION_QUEUE];
} FlEvictionQueue;

/* What the workers have found out about the place where they should work. */
typedef enum FlReadiness
{
	FL_READINESS_UNKNOWN = 0,	/* nobody has looked: the keeper goes first */
	FL_READINESS_READY,
	FL_READINESS_MISSING		/* see dormant_reason */
} FlReadiness;

/* What totals.c keeps; slots_lock. */
typedef struct FlTotalsShared
{
	TimestampTz since;			/* server start, or the restart after a crash */
	TimestampTz sampled;		/* 0: never */
	uint64		past[FL_N_COUNTERS];	/* of doors whose process has ended */
	uint64		seen[FL_N_LOADS];	/* at the last sample */
	double		load[FL_N_LOADS][FL_LOAD_WINDOWS];
} FlTotalsShared;

typedef struct FlCore
{
	LWLock	   *dirty_lock;
	LWLock	   *share_lock;		/* places of shared subscriptions */
	LWLock	   *memory_lock;	/* ring of memory-only topics */
	dlist_head	dirty;			/* FlShardEntry with something to flush */
	ConditionVariable published;	/* signalled after every pass of the flusher */
	ConditionVariable aside_over;	/* the appender has had a shard for which it waited */
	pg_atomic_uint64 passes_begun;	/* passes are numbered from 1 */
	pg_atomic_uint64 passes_done;	/* highest number of a finished one */

	pg_atomic_uint32 disk_reserve;	/* reached? */
	pg_atomic_uint64 disk_looked_at;	/* WAL position of the last look by a writer */

	uint64		appender_generation[FL_MAX_FRONT_DOORS];
	pg_atomic_uint64 dropped_below[FL_MAX_FRONT_DOORS];
	pg_atomic_uint32 in_doubt[FL_MAX_FRONT_DOORS];	/* see fl_ring_in_doubt */
	pg_atomic_uint64 appender_starts;

	FlListenerInfo listeners[FL_MAX_LISTENERS];

	pg_atomic_uint64 next_conn_id;
	pg_atomic_uint64 n_connections;
	int64		max_clients;	/* most entries of the registry at one time; registry_lock */
	pg_atomic_uint32 evictions_wanted[FL_MAX_FRONT_DOORS];
	FlEvictionQueue evictions[FL_MAX_FRONT_DOORS];

	FlTotalsShared totals;

	/* launcher and workers; slots_lock */
	char		served_database[NAMEDATALEN];	/* launcher's own: readiness is about this one */
	FlReadiness readiness;
	pg_atomic_uint32 retry_now; /* raised when it is worth to look again at once */
	char		dormant_reason[160];
	char		dormant_hint[160];
	char		launcher_state[192];	/* longer than a slot's state, for reasons */
} FlCore;

extern FlCore *fl_core;
extern HTAB *fl_shard_map;
extern HTAB *fl_registry;

/* Sizes and initialisation of the parts, called by shmem.c. */
extern Size fl_shard_map_size(void);
extern void fl_shard_map_init(void);
extern Size fl_registry_size(void);
extern void fl_registry_init(void);
extern Size fl_waiters_size(void);
extern void fl_waiters_request(void);
extern void fl_waiters_init(void);
extern Size fl_mount_stats_size(void);
extern void fl_mount_stats_init(void);
extern Size fl_share_size(void);
extern void fl_share_init(void);
extern Size fl_memory_size(void);
extern void fl_memory_init(void);

/* The commit-time half of the flusher's work: put a shard on the list. */
extern void fl_dirty_add(FlShardEntry *entry);
extern void fl_dirty_remove(FlShardEntry *entry);

/* Remember a flushed pair of a quorum shard; its mutex is held. */
extern void fl_pending_push(FlShardEntry *entry, int64 tail, XLogRecPtr lsn);

/* WAL position that covers everything recovered at start; Invalid in recovery. */
extern XLogRecPtr fl_recovery_end(void);

/* Wake doors that wait for durable tails. */
extern void fl_wake_doors(void);

/* Raise an atomic to at least this value. */
extern void fl_atomic_raise(pg_atomic_uint64 *a, uint64 value);

/* The launcher's state, at full length. */
extern void fl_launcher_set_state(const char *fmt,...) pg_attribute_printf(1, 2);

/* Slot of a role; there is one for each. */
extern int	fl_slot_number(FlWorkerKind kind, int index);

#endif							/* FLEETLOG_SHMEM_INTERNAL_H */
