/*-------------------------------------------------------------------------
 *
 * share.h
 *		Shared subscriptions (MQTT 5.0 clause 4.8.2): how far a group has got in
 *		a shard, and which front door takes the next record for its members.
 *
 * A group is a share name and a filter within a tenant.  Its members may be
 * connected to any front door, so its position in each shard ("place") stands in
 * shared memory: a door takes a record for one of its members by moving the
 * position behind it, and whoever comes second finds it moved.  So each record is
 * taken once, in offset order, and what nobody has room for stays in the log.
 *
 * Doors take turns, in proportion to their members.  Whose turn it is not waits,
 * but not for ever: a door that does not come is passed over and has to come back
 * by itself (busy).
 *
 * Records that a member had not acknowledged when it went are returned to the
 * place, and taken by others before anything new.
 *
 * For a crash, each door keeps below what it has under way that is not in the journal
 * (low): a session's checkpoint says that its groups go on there, so that nothing is
 * lost whichever session comes back first.  It is raised now and then, and lowered
 * with each record taken, so it may be too low and is never too high.
 *
 * A place stays without members while sessions that are away have the group: who
 * comes first goes on where it is, with what was returned.  How long, is told by
 * those who leave (fl_share_keep); whether a session still has it, when somebody
 * joins who has not (anew).  Where it had to go nevertheless, for a restart or for
 * lack of places, a session that comes back makes it again where its checkpoint says.
 *
 * Locking contract: everything under one lock of the module, which nobody holds
 * while taking another; position, returned and busy may be read without it.
 * A pointer to a place that has been freed stays readable, and the generation tells
 * whether it is still the same.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SHARE_H
#define FLEETLOG_SHARE_H

#include "datatype/timestamp.h"
#include "port/atomics.h"

#include "fleetlog/shmem.h"

#define FL_SHARE_PLACES		1024	/* over all groups and shards; more: SUBACK 0x97 */
#define FL_SHARE_RETURNED	512 /* records of a place that wait to be taken again */
#define FL_SHARE_RUN		16	/* records that a door takes in its turn */
#define FL_SHARE_NAME_MAX	320 /* bytes of a name for the view; what is longer is cut */

typedef struct FlShareKey
{
	uint8		group[16];		/* digest of tenant, share name and filter */
	Oid			stream;
	int32		shard;
} FlShareKey;

/* For the view: three texts, each behind the other. */
typedef struct FlShareName
{
	uint16		tenant_len;
	uint16		role_len;
	uint16		filter_len;		/* `$share/group/filter` */
	char		text[FL_SHARE_NAME_MAX];
} FlShareName;

typedef struct FlSharePlace
{
	FlShareKey	key;			/* hash key: must come first */
	uint64		generation;		/* 0: free */
	TimestampTz since;			/* records appended before are not for the group */
	TimestampTz kept_until;		/* it stays that long without members */
	int64		begun_at;		/* first position: what lies below was not given out by this place */
	pg_atomic_uint64 exact;		/* below, members have had what is at QoS 2, though the place does not know it */
	pg_atomic_uint64 position;	/* everything below has been taken, or is not for the group */
	pg_atomic_uint32 busy;		/* bit per door: it takes nothing now, pass it over */
	pg_atomic_uint32 nreturned;
	uint32		members;
	uint32		turn;			/* number of the member whose door goes next */
	uint32		run;			/* records taken in this turn */
	uint16		at_door[FL_MAX_FRONT_DOORS];	/* members of each door */
	int64		low[FL_MAX_FRONT_DOORS];	/* of each door: nothing below is under way that no journal has */
	FlShareName name;
	int64		returned[FL_SHARE_RETURNED];
} FlSharePlace;

/*
 * This door has so many members in the group (at least one); makes the place at
 * `from` if there is none, or if `anew` none with members.  NULL: all places are in use.
 * name is for the view.
 */
extern FlSharePlace *fl_share_enter(const FlShareKey *key, int door, uint16 members, int64 from, TimestampTz since,
									bool anew, const FlShareName *name);

/* A session of the group that comes back has had everything at QoS 2 below this record. */
extern void fl_share_raise_exact(FlSharePlace *place, int64 log_offset);

/* Has this group a place that stayed without members? */
extern bool fl_share_is_left(const uint8 group[16]);

/* A member that leaves may come back until then. */
extern void fl_share_keep(FlSharePlace *place, uint64 generation, TimestampTz until);

/* This door has so many members left; 0: it leaves the place. */
extern void fl_share_set_members(FlSharePlace *place, uint64 generation, int door, uint16 members);

/* A door begins anew: whatever an earlier process of its number had is gone. */
extern void fl_share_leave_door(int door);

typedef enum FlShareClaim
{
	FL_SHARE_MINE,				/* taken: nobody else will */
	FL_SHARE_TAKEN,				/* somebody else was first */
	FL_SHARE_WAIT				/* it is another door's turn */
} FlShareClaim;

/*
 * Take the record at log_offset; all below have been looked at.  force: do not
 * wait for the door whose turn it is.  *wake: a door whose turn it is now, or -1.
 */
extern FlShareClaim fl_share_claim(FlSharePlace *place, int door, int64 log_offset, bool force, int *wake);

/* Nothing below `to` is for the group. */
extern void fl_share_skip(FlSharePlace *place, int64 to);

/* This door has taken what there was: the next record is the next one's. */
extern void fl_share_end_turn(FlSharePlace *place, int door);

/*
 * Nothing below is under way to members of this door that is not in the journal with
 * their sessions; PG_INT64_MAX: nothing at all.  Taking a record lowers it by itself.
 */
extern void fl_share_set_low(FlSharePlace *place, uint64 generation, int door, int64 low);

/*
 * From where on the log has all that a crash would take from the group: below, each
 * record has been acknowledged or is in the journal.  own: what fl_share_set_low would
 * be told of this door.
 */
extern int64 fl_share_safe(FlSharePlace *place, int door, int64 own);

/* The same by the key, for who is no member yet; -1: there is no such place, or it has outlived its time. */
extern int64 fl_share_find_safe(const FlShareKey *key);

/* No member of this door has room now (true), or one has again. */
extern void fl_share_set_busy(FlSharePlace *place, int door, bool busy);

/*
 * A member has gone without acknowledging this record.  False: there is nobody
 * who could take it, or no room for it.  *wake: bits of doors with members.
 */
extern bool fl_share_return(FlSharePlace *place, uint64 generation, int64 log_offset, uint32 *wake);

/* The lowest returned record, taken out; false: none. */
extern bool fl_share_take_returned(FlSharePlace *place, int door, int64 *log_offset);

/* This one, for the member that returned it and is back; false: it is not there. */
extern bool fl_share_take_back(FlSharePlace *place, int64 log_offset);

#endif							/* FLEETLOG_SHARE_H */
