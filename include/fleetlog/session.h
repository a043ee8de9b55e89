/*-------------------------------------------------------------------------
 *
 * session.h
 *		Sessions that outlive their connection (M4, M7): the store in shared
 *		memory, the journal that makes it survive a crash.
 *
 * docs/design/journal.md tells what is written when, and what a crash at each
 * point means.  In short: a change of a session is an event; events are written
 * to the stream fleetlog.session_journal in the transaction of what they belong
 * to (of the record, for QoS 2) and applied to the store when it commits; every
 * so often the store is written to fleetlog.session_snapshot, and the journal
 * before that is given up.
 *
 * Who calls what
 *		front doors		find, attach, detach, and events through ingest
 *		turns			fl_journal_* (src/ingest/turn.c), in appender and doors
 *		keeper			fl_sessions_keep: load at start, snapshots, expiry
 *
 * Locking contract: the store has one LWLock, held for some hundred instructions
 * at a time; nothing else is acquired under it.  Whoever changes the store by
 * an event holds the journal's shard lock as well, so that a holder of that lock
 * finds store and journal in agreement.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SESSION_H
#define FLEETLOG_SESSION_H

#include "datatype/timestamp.h"

#include "fleetlog/session_event.h"
#include "fleetlog/shmem.h"

/* ---- settings ---------------------------------------------------------- */

extern int	fl_max_sessions;	/* fleetlog.max_sessions */
extern int	fl_session_memory_kb;	/* fleetlog.session_memory */
extern int	fl_max_session_expiry_s;	/* fleetlog.max_session_expiry */
extern int	fl_journal_kb;		/* fleetlog.session_journal_size */

/* ---- the store ---------------------------------------------------------- */

/* A session as its connection knows it; number 0: none. */
typedef struct FlSessionRef
{
	uint32		number;
	uint16		generation;
} FlSessionRef;

/* What an item of a session is. */
typedef enum FlSessionItemKind
{
	FL_ITEM_RECEIVED,			/* a message of its client; packet_id is the client's */
	FL_ITEM_BOOKMARK,			/* from this record of the shard on nothing was sent */
	FL_ITEM_EXACT,				/* nothing below this record is sent at its QoS any more but what is under way */
	FL_ITEM_SENT,				/* a record is under way to the client; packet_id is ours */
	FL_ITEM_SENT_RELEASED,		/* likewise, and its PUBREC has come */
	FL_ITEM_START				/* nothing below this record is for the filter of this hash, and of length packet_id */
} FlSessionItemKind;

#define FL_SENT_RETAIN	1		/* it left with RETAIN 1 */
#define FL_SENT_ASIDE	2		/* it was not read by the bookmark */
#define FL_SENT_SHARED	4		/* a group gave it to this member */

/* One thing that a session remembers of a record, or of a place in a shard. */
typedef struct FlSessionItem
{
	uint16		packet_id;
	uint8		qos;			/* of a message 1 or 2; of EXACT 0 or 2 */
	uint8		kind;			/* FlSessionItemKind */
	uint32		hash;			/* of RECEIVED and START; of SENT: which came first */
	Oid			stream;
	uint16		shard;
	uint16		order;			/* of RECEIVED at QoS 1: which came first; of SENT: FL_SENT_... */
	int64		log_offset;
} FlSessionItem;

/* What is known of a session that was found by its key. */
typedef struct FlSessionFound
{
	FlSessionRef ref;
	uint32		expiry_s;
	uint16		window;
	bool		expired;		/* over, and not forgotten yet */
	bool		draining;		/* something of it may still be with the appender */
	uint32		will;			/* number of the will that it keeps; 0: none */
} FlSessionFound;

extern Size fl_sessions_size(void);
extern void fl_sessions_init(void);

/* The store is loaded for the database of this process. */
extern bool fl_sessions_ready(void);

/* False: no session has this key. */
extern bool fl_session_find(const FlConnKey *key, FlSessionFound *found);

/*
 * A number for a session that is about to be opened by an event; until then it is
 * found by nobody.  tenant: digest of the tenant's name, 0: none; max_of_tenant:
 * how many it may have, this one included, 0: no limit.
 */
typedef enum FlSessionRoom
{
	FL_SESSION_ROOM,
	FL_SESSION_FULL,			/* fleetlog.max_sessions or fleetlog.session_memory is used up */
	FL_SESSION_TENANT_FULL
} FlSessionRoom;

extern FlSessionRoom fl_session_reserve(int door, uint64 tenant, uint32 max_of_tenant, FlSessionRef *ref);

/* The digest by which sessions and connections of a tenant are counted. */
extern uint64 fl_session_tenant(const char *name, Size len);

/* The event did not come: the number is free. */
extern void fl_session_unreserve(const FlSessionRef *ref);

/*
 * A connection has the session from now on.  Its client's messages (RECEIVED) are
 * copied to *items, which has room for `max`; returns their number, -1 when the session is gone.
 */
extern int	fl_session_attach(const FlSessionRef *ref, int door, uint64 conn_id, FlSessionItem *items, int max);

/* How many items a session has, to make room for attach. */
extern int	fl_session_item_count(const FlSessionRef *ref);

/*
 * Is there a session with subscriptions whose client is away?  Looks at every
 * session: not for the ordinary way of a message.
 */
extern bool fl_session_any_awaits(void);

/*
 * What a session has, as events, OPENED first: filters, bookmarks, deliveries under
 * way in the order in which they were sent.  False: it is gone.  Out of memory: ERROR.
 */
extern bool fl_session_copy(const FlSessionRef *ref, FlBuf *out);

/* The connection has gone; from now on the session's time runs. */
extern void fl_session_detach(const FlSessionRef *ref, uint64 conn_id);

/* Does a session, another than this one, have this filter?  Looks at all of them. */
extern bool fl_session_any_has(const uint8 *text, uint16 len, const FlSessionRef *except);

/* A door has died: its connections have gone. */
extern void fl_sessions_clear_door(int door);

/* ---- wills that are kept with their session ------------------------------------ */

/* Is there memory for a will of so many bytes, beyond what is left to sessions that are there? */
extern bool fl_session_has_room(size_t bytes);

/* Is this will still kept?  Else its session has ended, or never had the memory. */
extern bool fl_session_keeps_will(const FlSessionRef *ref, uint32 number);

/* A will that a door publishes. */
typedef struct FlSessionWill
{
	FlSessionRef ref;
	uint32		number;
} FlSessionWill;

/*
 * The keeper has found some that are due?  The next of them, for this door alone from
 * now on, its bytes in `out`; false: there is none.  Its record is written together
 * with WILL_DONE, or it is given back.
 */
extern bool fl_session_wills_wait(void);
extern bool fl_session_next_will(int door, FlSessionWill *will, FlBuf *out);

/* Likewise the will of a session that is to end now; false: it has none, or a door has it. */
extern bool fl_session_take_will(const FlSessionRef *ref, int door, FlSessionWill *will, FlBuf *out);

/*
 * It was not written, as far as this door knows: it is due again, in_doubt: when the
 * appender has consumed all that the door has given it.
 */
extern void fl_session_return_will(const FlSessionWill *will, int door, bool in_doubt);

/* How many there are, for $SYS. */
typedef struct FlSessionCounts
{
	int64		away;			/* kept, and nobody is connected */
	int64		subscriptions_away; /* of these */
	uint64		expired;		/* ended since server start because their time was up, or memory */
} FlSessionCounts;

extern void fl_session_counts(FlSessionCounts *counts);

/* ---- the journal, for turns ---------------------------------------------------- */

/*
 * The journal's stream; false: it is not there yet, and the keeper has been asked
 * to make it.
 */
extern bool fl_journal_stream(Oid *stream);

/* Is this one of the two streams of sessions, which are not decoded? */
extern bool fl_journal_is_internal(Oid stream);

/* Forget what an aborted turn left. */
extern void fl_journal_begin(void);

/*
 * `events` came with a batch that was just written to the shard at `base`.  A
 * batch of the journal itself is its own record; others' events are written by
 * fl_journal_finish.
 */
extern void fl_journal_note(const FlShard *shard, int64 base, const uint8 *events, uint32 len);

/* Write what was noted, as the last thing of the transaction. */
extern void fl_journal_finish(void);

/* ---- the keeper ------------------------------------------------------------------ */

/*
 * What is to be done now: load, make the streams, end what has expired, write a
 * snapshot.  Outside of transactions; each piece is one of its own.
 */
extern void fl_sessions_keep(void);

/* Settings and callbacks; from _PG_init. */
extern void fl_session_define_settings(void);
extern void fl_session_callbacks_init(void);

#endif							/* FLEETLOG_SESSION_H */
