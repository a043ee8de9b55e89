/*-------------------------------------------------------------------------
 *
 * session_internal.h
 *		What the files of src/session share.
 *
 * The store is two arrays in shared memory: sessions, whose numbers are the places
 * in it, and blocks of items.  Number 0 of both is nobody's, so that 0 means none.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_SESSION_INTERNAL_H
#define FL_SESSION_INTERNAL_H

#include "fleetlog/session.h"

#define FL_BLOCK_ITEMS			5	/* items in a block */
#define FL_SESSION_NAME_ROOM	72	/* bytes of a name before it goes on in blocks */

typedef enum FlSessionState
{
	FL_SESSION_FREE,			/* nobody's */
	FL_SESSION_RESERVED,		/* its event is on the way; found by nobody */
	FL_SESSION_KEPT,
	FL_SESSION_ENDING			/* its time is up, or memory ran out and its items are not complete */
} FlSessionState;

typedef struct FlSession
{
	uint8		key[FL_SESSION_KEY_LEN];
	uint32		next;			/* in its hash chain, or in the free list */
	uint32		items;			/* first block of items; only that one may have room */
	uint32		expiry_s;
	uint16		generation;
	uint8		state;			/* FlSessionState */
	uint8		name_len;
	uint64		conn_id;		/* 0: nobody is connected */
	uint64		tenant;			/* digest of the tenant that it is counted for; 0: none */
	TimestampTz since;			/* connected, or gone, since */
	uint64		drain_to;		/* position of its late door's ring that has to be consumed; 0: none */
	uint16		n_items;
	uint16		window;
	uint16		order;			/* of the last QoS 1 item */
	int16		door;
	uint32		subscriptions;	/* first block of the first one */
	uint32		subscription_bytes; /* their events would have */
	uint32		sent_order;		/* of the last delivery */
	uint16		n_subscriptions;
	uint16		n_received;		/* of the items, how many are messages of the client */
	uint32		will;			/* block of its will; 0: none */
	uint32		more_name;		/* first block of what does not fit; 0: all does */
	char		name[FL_SESSION_NAME_ROOM];	/* identity, NUL, client id */
} FlSession;

typedef struct FlItemBlock
{
	uint32		next;
	uint32		n;
	FlSessionItem items[FL_BLOCK_ITEMS];
} FlItemBlock;

#define FL_SUBSCRIPTION_TEXT	104 /* bytes of a filter in its first block */
#define FL_TEXT_BYTES			120 /* and in each further one */

/* A block seen as the head of a subscription; whose filter is longer has FlTextBlocks behind it. */
typedef struct FlSubscriptionBlock
{
	uint32		next;			/* subscription of the session */
	uint32		more;			/* first further block of its text */
	uint32		id;
	uint16		len;
	uint8		qos;
	bool		no_local:1;
	bool		as_published:1;
	bool		end_on_drop:1;
	uint8		position:2;
	TimestampTz since;
	char		text[FL_SUBSCRIPTION_TEXT];
} FlSubscriptionBlock;

typedef struct FlTextBlock
{
	uint32		next;
	uint32		unused;
	char		text[FL_TEXT_BYTES];
} FlTextBlock;

/* A block seen as the head of a will; FlTextBlocks behind it have what does not fit. */
#define FL_WILL_BYTES			96

typedef struct FlWillBlock
{
	uint32		more;			/* first further block of its bytes */
	uint32		number;			/* by which the event that ends it names it */
	uint32		len;
	uint32		delay_s;
	uint64		drain_to;		/* one more than the position of the door's ring behind which its fate is known; 0: the door knows */
	int16		door;			/* which publishes it; -1: nobody does */
	uint16		unused[3];
	char		bytes[FL_WILL_BYTES];
} FlWillBlock;

#define FL_MAX_DUE_WILLS		1024	/* that are listed for the doors at a time */

/* An array whose places are given out and taken back. */
typedef struct FlPool
{
	uint32		size;			/* places, the one of number 0 included */
	uint32		fresh;			/* from here on none was ever used */
	uint32		free;			/* list of those that were */
	uint32		used;
} FlPool;

typedef enum FlStoreState
{
	FL_STORE_EMPTY,				/* nothing was loaded yet */
	FL_STORE_READY
} FlStoreState;

typedef struct FlSessionStore
{
	LWLock	   *lock;
	Oid			database;		/* whose sessions these are */
	pg_atomic_uint32 state;		/* FlStoreState */
	pg_atomic_uint32 journal;	/* Oid of the streams, InvalidOid: not there */
	pg_atomic_uint32 snapshot;
	pg_atomic_uint32 wanted;	/* a door needs the streams */
	pg_atomic_uint64 journaled; /* bytes of events since server start */
	pg_atomic_uint64 broken;	/* sessions that had to end for want of memory */
	pg_atomic_uint64 expired;	/* sessions that the keeper ended */

	/* lock */
	FlPool		sessions;
	FlPool		blocks;
	uint32		n_buckets;		/* a power of two */
	uint32		n_kept;			/* sessions that can be found */
	uint16		generation;		/* last one given out */
	FlSessionRef due[FL_MAX_DUE_WILLS]; /* sessions whose will is due */
	bool		more_due;		/* there are more than these */
	pg_atomic_uint32 n_due;		/* written under the lock */
} FlSessionStore;

extern FlSessionStore *fl_store;
extern FlSession *fl_store_sessions;
extern FlItemBlock *fl_store_blocks;
extern uint32 *fl_store_buckets;

/* ---- store.c ---- */

/*
 * Apply a row of events; never fails for want of memory.  FL_OK, or what is wrong
 * with the bytes; what comes before the fault is applied.
 */
extern FlResult fl_store_apply(const uint8 *events, size_t len);

/* Forget everything; what is applied from now on is being loaded, for this database. */
extern void fl_store_reset(Oid database);

/* All is loaded: nobody is connected, and numbers may be given out. */
extern void fl_store_loaded(TimestampTz now);

/* The session that a number means; NULL: it is no more.  The lock is held. */
extern FlSession *fl_store_session(uint32 number, uint16 generation);
extern uint32 *fl_store_bucket(const uint8 *key);
extern uint32 fl_store_take_number(void);
extern void fl_store_give_number(uint32 number);

/* The session counts for this tenant from now on, and no longer for the one before; 0: for none. */
extern void fl_store_set_tenant(FlSession *s, uint64 tenant);
extern uint32 fl_store_sessions_of(uint64 tenant);

/* Its whole name, in `room` where it is not in one piece.  The lock is held, or *s and its blocks are nobody else's. */
extern const char *fl_store_name(const FlSession *s, char room[FL_SESSION_NAME_MAX]);

/* Places for items, in blocks; 0: no memory is left.  The lock is held. */
extern uint32 fl_store_take_block(void);
extern void fl_store_give_block(uint32 number);

/* It cannot remember what it should, and ends rather than forget.  The lock is held. */
extern void fl_store_break(FlSession *s);

/* ---- items.c: what a session has; the lock is held ---- */

/* Apply an event to a session that is kept. */
extern void fl_items_apply_received(FlSession *s, const FlSessionEvent *e);
extern void fl_items_apply_released(FlSession *s, const FlSessionEvent *e);
extern void fl_items_apply_checkpoint(FlSession *s);
extern void fl_items_apply_bookmark(FlSession *s, const FlSessionEvent *e);
extern void fl_items_apply_exact(FlSession *s, const FlSessionEvent *e);
extern void fl_items_apply_start(FlSession *s, const FlSessionEvent *e);
extern void fl_items_apply_sent(FlSession *s, const FlSessionEvent *e);
extern void fl_items_apply_answered(FlSession *s, const FlSessionEvent *e);
extern void fl_items_drop(FlSession *s);

/* ---- subscriptions.c: likewise, of its filters ---- */

extern void fl_subscriptions_apply_subscribed(FlSession *s, const FlSessionEvent *e);
extern void fl_subscriptions_apply_unsubscribed(FlSession *s, const FlSessionEvent *e);
extern void fl_subscriptions_drop(FlSession *s);

/* Append them as events, whose session and generation are set in *e. */
extern void fl_subscriptions_dump(FlBuf *out, const FlSession *s, FlSessionEvent *e);

/* A text in FlTextBlocks behind *link; false: no memory is left, and what was taken is in the chain. */
extern bool fl_store_add_text(uint32 *link, const uint8 *text, Size len);
extern void fl_store_give_text(uint32 number);
extern void fl_store_copy_text(uint32 number, uint8 *to, Size len);

/* ---- wills.c: likewise, of its will ---- */

extern void fl_wills_apply_will(FlSession *s, const FlSessionEvent *e);
extern void fl_wills_apply_done(FlSession *s, const FlSessionEvent *e);
extern void fl_wills_drop(FlSession *s);
extern size_t fl_wills_dump_bound(const FlSession *s);
extern void fl_wills_dump(FlBuf *out, const FlSession *s, FlSessionEvent *e);

extern uint32 fl_will_number(const FlSession *s);

/* Does a door publish it, as far as is known? */
extern bool fl_will_is_taken(const FlSession *s);

/* The session is nobody's now; its will, if any, has to be published before it may end. */
extern bool fl_will_is_due(const FlSession *s, TimestampTz now);

/* List it for the doors, which are to be told. */
extern void fl_will_list(uint32 number, const FlSession *s);

/* A door has died that may have had wills. */
extern void fl_wills_clear_door(int door, uint64 ring);

/* ---- attach.c ---- */

/* Something of the session may still lie in the ring of the door that it had. */
extern bool fl_session_is_draining(const FlSession *s);

/* Its time is up, and nobody is connected; or it must end for want of memory. */
extern bool fl_session_is_over(const FlSession *s, TimestampTz now);

/* ---- dump.c ---- */

/* The most bytes that one session's events can have now. */
extern size_t fl_store_dump_bound(const FlSession *s);

/* Append all it has as events, in an order that gives the same when applied; there must be room. */
extern void fl_store_dump_session(FlBuf *out, uint32 number, const FlSession *s);

/*
 * Append the events that make up sessions *next and behind, until about `room`
 * bytes are used or none is left; *next moves on.  False: none was left.
 */
extern bool fl_store_dump(FlBuf *out, uint32 *next, size_t room);

/* Append an end for sessions that are over, at most `max`; returns how many. */
extern int	fl_store_dump_expired(FlBuf *out, TimestampTz now, int max);

/* ---- journal.c ---- */

/* Write a payload of events by itself, in the current transaction. */
extern void fl_journal_write(const FlBuf *events);

/* Append one record to a stream of ours, whose shard lock is held. */
extern int64 fl_journal_append(FlShard *shard, const uint8 *payload, size_t len);

/* The shard of one of the streams. */
extern FlShard *fl_journal_open(Oid stream);

/* Look the streams up by name, in a transaction; false: they are not there. */
extern bool fl_journal_look_up(Oid *journal, Oid *snapshot);

/* From now on doors may write to the journal: there is a snapshot that names it. */
extern void fl_journal_publish(Oid journal, Oid snapshot);

/* ---- load.c ---- */

/* Fill the store from snapshot and journal, in a transaction. */
extern void fl_sessions_load(void);

/* ---- keep.c ---- */

/* A transaction of the keeper, with a snapshot. */
extern void fl_keep_begin(void);
extern void fl_keep_commit(void);

/* ---- snapshot.c ---- */

/* Outside of transactions; in the keeper only. */
extern void fl_snapshot_write(Oid journal, Oid snapshot);
extern bool fl_snapshot_is_due(void);

#endif							/* FL_SESSION_INTERNAL_H */
