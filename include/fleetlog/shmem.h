/*-------------------------------------------------------------------------
 *
 * shmem.h
 *		What the processes of fleetlog share: shards with their tails, worker
 *		slots, the rings between front doors and the appender, the connection
 *		registry, the append clock, the transaction budget and stop points.
 *
 * Locking contract
 *		- FlShard, "writer" part: only the holder of the shard's transactional
 *		  lock (fl_shard_lock) reads or writes it.
 *		- FlShard, "published" part: `mutex` (a spinlock, a few instructions).
 *		  The tails are also readable without it as single 8-byte atomics.
 *		- The shard map: fl_shared->shard_map_lock.  Entries never move; one is
 *		  freed only when its stream is dropped, so a pointer is good as long as
 *		  its key still matches (fl_shard_open checks).
 *		- Worker slots: a slot is claimed under fl_shared->slots_lock; its
 *		  counters are written by the owner only and read torn-free (uint64).
 *		- Rings: single producer, single consumer, positions are atomics.
 *		- Connection registry: fl_shared->registry_lock.
 *
 * Nothing here holds pointers into a process's private memory, so a process
 * that dies leaves nothing dangling.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SHMEM_H
#define FLEETLOG_SHMEM_H

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

struct PGPROC;

#define FL_MAX_FRONT_DOORS		32	/* fleetlog.workers, and the one that speaks Kafka */
#define FL_MAX_WORKERS			(FL_MAX_FRONT_DOORS + 16)
#define FL_STOP_POINT_LEN		48
#define FL_CLIENT_ID_KEEP		128 /* bytes of a client id kept for views */
#define FL_SOFTWARE_KEEP		32	/* bytes of a Kafka client's name and version */
#define FL_IDENTITY_KEEP		192 /* bytes of "tenant/device" kept for views */

/* ---- Shards ---------------------------------------------------------- */

typedef struct FlShardKey
{
	Oid			database;
	Oid			stream;			/* root table; or a leaf that is in no stream */
	int32		shard;
} FlShardKey;

/* What retention did to a shard, and what it waits for (stat_stream). */
typedef struct FlRetentionStat
{
	TimestampTz run_at;			/* last look at the shard; 0: none since server start */
	TimestampTz dropped_at;		/* when a segment went last; 0: none since server start */
	uint64		dropped;		/* segments since server start */
	Oid			evicting;		/* segment whose users are being cancelled */
	char		waits_for[96];	/* empty: nothing */
} FlRetentionStat;

typedef struct FlShard
{
	FlShardKey	key;			/* hash key: must come first */

	/* --- writer part: holder of the shard lock only ------------------- */
	bool		writer_valid;	/* false after an abort or a restart */
	Oid			leaf;			/* leaf that holds the tail, or InvalidOid */
	Oid			leaf_relnode;	/* its relfilenode when this was computed */
	int64		leaf_lower;		/* bounds of the leaf; lower inclusive */
	int64		leaf_upper;		/* exclusive */
	int64		next_offset;	/* next offset to give out, own writes included */
	TimestampTz last_ts;		/* append time of the last batch */
	TimestampTz run_max_ts;		/* running maximum over every page of the leaf */
	BlockNumber last_block;		/* last used block of the leaf, 0 if none */
	BlockNumber leaf_nblocks;	/* blocks the leaf's file has, zero pages included */
	BlockNumber extended_from;	/* blocks it had before it was last extended */
	TimestampTz extended_at;	/* when that was; 0: never */
	int32		last_items;		/* records numbered on last_block */
	uint32		last_free;		/* bytes free on last_block */
	bool		leaf_has_rows;	/* a live batch exists in the leaf */
	bool		last_block_open;	/* small batches may still be put on it */
	int32		leader_epoch;	/* of batches written from now on */
	bool		producers_known;	/* what is committed of idempotent producers is in the pool (producers.h) */
	bool		producers_have_row; /* there was one, ever; valid when known */
	int64		unsaved_bytes;	/* written since their row was, about */

	/* --- published part: mutex ----------------------------------------- */
	slock_t		mutex;
	bool		quorum;			/* durability = 'quorum' */
	bool		dirty;			/* (visible_tail, commit_lsn) not yet flushed */
	XLogRecPtr	commit_lsn;		/* end of the commit that made visible_tail */
	pg_atomic_uint64 visible_tail;	/* committed */
	pg_atomic_uint64 flushed_tail;	/* ... and flushed here */
	pg_atomic_uint64 confirmed_tail;	/* ... and confirmed by the standbys (quorum) */
	pg_atomic_uint64 head;		/* oldest offset that readers may see */
	XLogRecPtr	confirm_lsn;	/* LSN at which flushed_tail becomes confirmed */

	/* --- counters, relaxed --------------------------------------------- */
	pg_atomic_uint64 n_records;
	pg_atomic_uint64 n_batches;
	pg_atomic_uint64 n_bytes;
	pg_atomic_uint64 n_lock_waits;	/* conditional locks that failed */
	pg_atomic_uint64 n_off_key;	/* records of producers whose key belongs to another shard */
	bool		want_segment;	/* the tail leaf is half full: keeper, make the next */
	bool		left_aside;		/* the appender has batches that wait for the lock: it goes first */
	TimestampTz aside_since;	/* ... and for how long */

	/* --- retention: written by the keeper, mutex ------------------------- */
	FlRetentionStat retention;
} FlShard;

/* Find or create the shared entry; in a transaction.  Never returns NULL. */
extern FlShard *fl_shard_open(Oid stream, int32 shard, bool quorum);

/* Like fl_shard_open but returns NULL when nobody has used the shard yet. */
extern FlShard *fl_shard_find(Oid stream, int32 shard);

/* The offset below which everything is durable under the stream's policy (L5). */
extern int64 fl_shard_durable_tail(FlShard *shard);

/* Forget the entries of a dropped stream (at commit of the drop). */
extern void fl_shard_forget(Oid stream);

/*
 * A writer committed: publish its tail.  Called with the shard lock held.  The
 * flusher is woken unless this process has said that it will flush by itself
 * (fl_flush_by_myself).
 */
extern void fl_shard_publish(FlShard *shard, int64 tail, XLogRecPtr lsn);
extern bool fl_flush_by_myself;

/*
 * A head was raised and the raise has committed: rows below are hidden from now
 * on.  Nothing happens where nobody has used the shard yet.  Cannot fail.
 */
extern void fl_shard_publish_head(Oid stream, int32 shard, int64 head);

/*
 * A restore has brought the row of a shard that says which offsets were given
 * out: none below `tail` is the next one.  Somebody may have looked at the shard
 * before, since a parallel restore brings rows in any order.  Cannot fail.
 */
extern void fl_shard_publish_restored(Oid stream, int32 shard, int64 tail);

/*
 * The appender waits for the shard's lock, or does so no more (then sessions that
 * have let it go first are woken).  Called by the appender only; it begins with
 * fl_aside_start, which takes off what its predecessor has left.
 */
extern void fl_aside_mark(FlShard *shard, bool waits);
extern void fl_aside_start(void);

/* Has the appender waited so long for the shard that SQL should let it go first? */
extern bool fl_aside_is_due(const FlShard *shard);

/* Wait, without the shard's lock, until the appender has had it; a tenth of a second at most. */
extern void fl_aside_yield(const FlShard *shard);

/* ---- Rings between a front door and the appender ---------------------- */

/*
 * One entry of the door -> appender ring: a batch that is ready to be written
 * but for its base offset, leader epoch and append time.
 */
typedef struct FlIngestEntry
{
	uint32		total_len;		/* of this entry, header included, 8-aligned */
	uint32		body_len;		/* record batch v2 bytes behind the header */
	uint64		seq;			/* the door's own number; comes back in the result */
	Oid			stream;
	int32		shard;
	uint32		nrecords;
	uint32		flags;			/* FL_INGEST_* */
	int64		min_created;	/* ms since 1970 or FL_NO_CREATED */
	int64		max_created;
	int32		shards;			/* number of shards the door routed by */
	uint32		mounts;			/* fl_catalog_mounts_digest of the mounts it routed by */
	uint64		settled;		/* failed batches of the shard up to this number are settled at the door */
	uint32		generation;		/* of the appender, as the door knows it */
	uint32		events_len;		/* session events behind the body (session_event.h), or a foreign batch's sender */
	uint32		off_key;		/* records whose key belongs to another shard */
	uint32		unused;
	/* body and events follow */
} FlIngestEntry;

#define FL_INGEST_STATE		0x00000001u /* has records whose values go into a state table */
#define FL_INGEST_FOREIGN	0x00000002u /* a producer's own batch: kept as it is */
#define FL_INGEST_WRAP		0x80000000u /* filler up to the end of the ring */
#define FL_NO_CREATED		PG_INT64_MIN

/* appender -> door */
typedef struct FlIngestResult
{
	uint64		seq;
	int64		base_offset;	/* first offset, when status is FL_ERR_NONE */
	TimestampTz append_ts;		/* of the batch, likewise */
	int32		status;			/* FlError, see errors.h, or FL_RESULT_RETURNED */
	uint32		nrecords;
} FlIngestResult;

/*
 * Not written, because an older batch of the door's shard has failed, whose
 * number is in base_offset, or because it was for the appender before this one.
 */
#define FL_RESULT_RETURNED	(-1)

#define FL_RESULT_SLOTS		8192	/* a door has at most this many batches under way */

typedef struct FlDoor
{
	/* producer: the door; consumer: the appender */
	pg_atomic_uint64 in_head;	/* bytes produced */
	pg_atomic_uint64 in_tail;	/* bytes consumed */
	/* producer: the appender; consumer: the door */
	pg_atomic_uint64 out_head;
	pg_atomic_uint64 out_tail;
	FlIngestResult results[FL_RESULT_SLOTS];
	pg_atomic_uint32 owed;		/* door waits for durable tails: flusher, wake it */
	pg_atomic_uint32 has_feed;	/* door has subscribers: flusher, wake it */
	pg_atomic_uint32 writing;	/* door writes and flushes by itself */
	pg_atomic_uint32 gathers;	/* door waits until another has written: wake it */
} FlDoor;

/* ---- Workers ----------------------------------------------------------- */

typedef enum FlWorkerKind
{
	FL_WORKER_NONE = 0,
	FL_WORKER_LAUNCHER,
	FL_WORKER_FRONT_DOOR,
	FL_WORKER_APPENDER,
	FL_WORKER_FLUSHER,
	FL_WORKER_CONFIRMER,
	FL_WORKER_KEEPER,
	FL_WORKER_AUTH,
	FL_WORKER_STATE,
	FL_WORKER_READER,
	FL_WORKER_POSITIONS,
	FL_WORKER_COMMANDS,
	FL_WORKER_RUNNER
} FlWorkerKind;

typedef enum FlCounter
{
	FL_C_CONNECTIONS = 0,		/* open now */
	FL_C_CONNECTS,				/* accepted since start */
	FL_C_DISCONNECTS,
	FL_C_REFUSED_CONNECTS,		/* authentication, limits */
	FL_C_BYTES_IN,
	FL_C_BYTES_OUT,
	FL_C_PUBLISH_IN,			/* PUBLISH packets received */
	FL_C_PUBLISH_OUT,			/* PUBLISH packets sent */
	FL_C_PUBLISH_REFUSED,		/* not authorised, no mount, too large ... */
	FL_C_DROPPED_QOS0,			/* deliveries dropped at a full queue */
	FL_C_DROPPED_TOO_LARGE,		/* deliveries above the client's maximum packet size */
	FL_C_LAGGING,				/* connections that read the log on their own now */
	FL_C_SUBSCRIPTIONS,			/* held now */
	FL_C_PROTOCOL_ERRORS,
	FL_C_TURNS,					/* loop passes; transactions for the appender */
	FL_C_BATCHES,				/* batches handed over / written */
	FL_C_RECORDS,
	FL_C_ERRORS,				/* caught errors */
	FL_C_FLUSHES,				/* flusher: XLogFlush calls */
	FL_C_TAKEOVERS,
	FL_C_MEMORY,				/* bytes of connection memory now */
	FL_C_LOST_MEMORY,			/* messages of memory-only topics that were overwritten unread */
	FL_C_PACKETS_IN,			/* MQTT packets of any kind */
	FL_C_PACKETS_OUT,
	FL_C_LOGINS,				/* clients that were let in */
	FL_N_COUNTERS
} FlCounter;

typedef struct FlWorkerSlot
{
	FlWorkerKind kind;
	int			index;			/* front door number, 0-based; else 0 */
	int			pid;			/* 0: free */
	int			pgprocno;		/* for its latch */
	uint32		incarnation;	/* raised at every start of this role */
	TimestampTz started;
	char		state[64];		/* one word and a reason, for stat_worker */
	char		stop_point[FL_STOP_POINT_LEN];
	uint64		counters[FL_N_COUNTERS];
} FlWorkerSlot;

/*
 * Claim a slot for this process; releases it at exit.  FATAL when another live
 * process already has this role.
 */
extern FlWorkerSlot *fl_worker_attach(FlWorkerKind kind, int index);
extern FlWorkerSlot *fl_my_slot;	/* NULL in ordinary backends */
extern void fl_worker_set_state(const char *fmt,...) pg_attribute_printf(1, 2);

/* Set the latch of a role's process, if there is one.  Async-signal unsafe. */
extern void fl_worker_wake(FlWorkerKind kind, int index);

#define FL_COUNT(c, n) \
	do { if (fl_my_slot) fl_my_slot->counters[(c)] += (n); } while (0)

/* ---- The whole ---------------------------------------------------------- */

typedef struct FlShared
{
	LWLock	   *shard_map_lock;
	LWLock	   *slots_lock;
	LWLock	   *registry_lock;
	LWLock	   *shard_init_lock;

	FlWorkerSlot slots[FL_MAX_WORKERS];
	uint32		incarnation[FL_MAX_WORKERS];

	pg_atomic_uint64 append_clock;	/* last append time given out (TimestampTz) */
	pg_atomic_uint32 command_stream;	/* whose tails the dispatcher of commands waits for; 0: it does not */
	pg_atomic_uint64 catalog_generation;	/* raised when identity or mounts change */

	/* read barrier: highest registered commit, and commits in their window */
	pg_atomic_uint64 max_commit_lsn;
	pg_atomic_uint32 committing;

	/* flusher: what has been flushed and published last */
	pg_atomic_uint64 published_lsn;
	pg_atomic_uint64 any_dirty;	/* raised with every publish, so the flusher sees work */
	pg_atomic_uint32 flush_us;	/* how long a flush took lately, smoothed */

	/* confirmer */
	pg_atomic_uint64 confirm_wanted;	/* highest LSN a quorum stream needs */
	pg_atomic_uint64 confirmed_lsn;
	XLogRecPtr	recovery_end;	/* quorum tails of before are confirmed past this */

	/* transaction budget of the workers (O6) */
	slock_t		budget_mutex;
	double		budget_tokens;
	TimestampTz budget_at;
	bool		budget_awaited;	/* the appender waits for the next token: it is its */
	uint64		xids_used;
	TimestampTz xids_since;

	bool		paused;			/* fleetlog.pause() */

	/* shutdown: front doors still alive; the flusher leaves last */
	pg_atomic_uint32 doors_alive;

	FlDoor		doors[FL_MAX_FRONT_DOORS];
	/* ring memory, the connection registry and the auth queue follow */
} FlShared;

extern FlShared *fl_shared;		/* NULL when the library was not preloaded */

/* Raise an error with the remedy when the library was not preloaded. */
extern void fl_require_preload(void);

extern void fl_shmem_request(void);
extern void fl_shmem_startup(void);

/* Ring of door i: FL ring bytes, a power of two (fleetlog.ingest_ring). */
extern uint8 *fl_door_ring(int door);

/* ---- Clock, budget, stop points ----------------------------------------- */

/*
 * The server-wide append clock: wall time, but never behind a time that it
 * gave out or was shown before (fl_clock_raise; times more than a day ahead of
 * the wall clock are not taken over).  fleetlog.clock_offset moves the wall time
 * in tests.
 */
extern TimestampTz fl_clock_now(void);
extern void fl_clock_raise(TimestampTz seen);

/* A time that divides: given out after all others, and before all that come. */
extern TimestampTz fl_clock_tick(void);
extern TimestampTz fl_wall_now(void);	/* GetCurrentTimestamp + test offset */

/*
 * Microseconds for pauses and graces.  Not the time of day: were that set back by
 * an hour, nothing would be tried again for so long, and forward, a grace would be
 * over at once.
 */
extern int64 fl_monotonic_us(void);

/*
 * Transaction budget: take one transaction id; returns 0 when granted, else
 * microseconds to wait before asking again (fleetlog.max_xids_per_second).
 */
extern long fl_budget_take(void);

/* The same for somebody who need not wait: false when there is none, or the appender waits for it. */
extern bool fl_budget_try(void);

/* The appender waits for a token. */
extern bool fl_budget_is_awaited(void);

/* Nothing was written with the one that was taken last. */
extern void fl_budget_give_back(void);

/* Wait here while fleetlog.stop_points names this point (tests only). */
extern void fl_stop_point_slow(const char *name);

/* fleetlog.stop_points names a point that begins so (tests only). */
extern bool fl_stop_points_hold(const char *prefix);
extern char *fl_stop_points;
#define FL_STOP_POINT(name) \
	do { if (unlikely(fl_stop_points && fl_stop_points[0])) fl_stop_point_slow(name); } while (0)

/* ---- Connection registry -------------------------------------------------- */

/*
 * One entry per connected MQTT client, keyed by (identity, client id) so that
 * a second CONNECT finds the first (MQTT-3.1.4-3), whatever worker has it; and one
 * per connection of a Kafka client, keyed by its number.
 */
typedef struct FlConnKey
{
	uint8		digest[16];		/* first half of SHA-256 over identity and client id */
} FlConnKey;

/* Who it is; FlIdentityKind in the same order. */
typedef enum FlConnKind
{
	FL_CONN_ANONYMOUS,
	FL_CONN_DEVICE,
	FL_CONN_ROLE
} FlConnKind;

#define FL_CONN_KAFKA			100 /* protocol of a Kafka client's connection */

typedef struct FlConnInfo
{
	FlConnKey	key;			/* hash key: must come first */
	int			door;			/* front door that owns the socket */
	uint64		conn_id;		/* unique over the server's life time */
	bool		evict;			/* another CONNECT or an operator wants it gone */
	uint8		evict_reason;	/* MQTT 5 reason code for the DISCONNECT */
	uint64		client_hash;	/* of the whole client id */
	uint8		kind;			/* FlConnKind */
	uint8		listener;		/* FL_NET_KIND_* */
	bool		session;		/* it has one that outlives the connection */
	uint16		tls_version;	/* as TLS numbers them, 0: no TLS */
	uint16		tls_cipher;
	uint32		session_expiry; /* seconds */
	char		client_id[FL_CLIENT_ID_KEEP];	/* NUL-terminated, cut at a character */
	char		identity[FL_IDENTITY_KEEP]; /* "tenant/device", role, or "" */
	uint64		tenant;			/* digest of its name, 0: none */
	char		peer[64];
	char		software[FL_SOFTWARE_KEEP]; /* name/version of a Kafka client, cut; "": not known */
	uint8		protocol;		/* 3, 4, 5 of MQTT, or FL_CONN_KAFKA */
	uint16		keep_alive;
	TimestampTz connected_at;
	uint64		n_in;			/* PUBLISH received */
	uint64		n_out;			/* PUBLISH sent */
	uint64		n_dropped;
	uint64		packets_in;
	uint64		packets_out;
	uint64		bytes_in;
	uint64		bytes_out;
	uint32		n_subscriptions;
	uint32		queued;
	uint32		inflight;		/* sent at QoS 1 or 2, not complete */
	bool		lagging;
} FlConnInfo;

typedef enum FlRegisterResult
{
	FL_REGISTERED,				/* the key is ours now */
	FL_REGISTER_TAKEOVER,		/* another connection has it; it was told to go
								 * (evict set, its door woken): ask again later */
	FL_REGISTER_FULL,			/* fleetlog.max_connections reached */
	FL_REGISTER_TENANT_FULL		/* the tenant has as many connections as it may have */
} FlRegisterResult;

extern uint64 fl_registry_next_id(void);
/* max_of_tenant: how many connections info->tenant may have, this one included; 0: no limit. */
extern FlRegisterResult fl_registry_register(const FlConnInfo *info, uint8 evict_reason, uint32 max_of_tenant);
extern void fl_registry_unregister(const FlConnKey *key, uint64 conn_id);

/* Copy counters into the entry; returns true when the entry asks for eviction. */
extern bool fl_registry_update(const FlConnInfo *info, uint8 *evict_reason);

/* Ids of this door's connections that are to be evicted; returns how many. */
extern int	fl_registry_evictions(int door, uint64 *conn_ids, uint8 *reasons, int max);

/* Everything of a door that died or starts anew. */
extern void fl_registry_clear_door(int door);

/*
 * Mark by client id, or by "tenant/device" or a role's name (operator's
 * fleetlog.disconnect), of one tenant's devices or, NULL, of all; returns how many.
 */
extern int	fl_registry_evict_client(const char *name, const char *tenant, uint8 reason);

/* What FlConnInfo keeps of a whole client id. */
extern uint64 fl_registry_client_hash(const char *client_id, size_t len);

#endif							/* FLEETLOG_SHMEM_H */
