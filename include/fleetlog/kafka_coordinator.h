/*-------------------------------------------------------------------------
 *
 * kafka_coordinator.h
 *	  The coordinator of Kafka's classic consumer groups: members, generations,
 *	  rebalances, and the queue of what is to be done to their positions.
 *
 * All of it lives in one piece of memory of fixed size ("area"), which all
 * processes that talk to group members share; references in it are numbers of
 * 256-byte chunks, so it has no address and no length that a peer chose is ever
 * allocated in one piece.  Nothing here does I/O, allocates elsewhere, reads a
 * clock or takes a lock: whoever calls holds the area's lock (kafka_groups.h),
 * says what time it is, and is told whom to wake.
 *
 *		Empty ──join──► PreparingRebalance ──all rejoined, or time over──► CompletingRebalance
 *		  ▲                │   ▲      ▲                                          │
 *		  └── all gone ────┘   │      └───── join, leave, expiry ────────────────┤
 *		                       │                                                 │ leader's SyncGroup
 *		                       └────────── join, leave, expiry ─── Stable ◄──────┘
 *
 * A request that has to wait (JoinGroup, SyncGroup) gets a ticket.  When its
 * answer is there, the door that has the connection is named in call->wake and
 * its count in fl_group_ready moves; it asks with fl_group_take.  Requests that
 * need not wait take the same way, and find their answer at once.
 *
 * Each function either does all it was asked or, with an error code of the
 * protocol, nothing, so that the area is consistent between any two calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_KAFKA_COORDINATOR_H
#define FLEETLOG_KAFKA_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/kafka_group.h"

#define FL_GROUP_DOORS     32  /* doors are bits of a word */
#define FL_GROUP_NAME_MAX  255 /* bytes of a group's name, a tenant's included */
#define FL_GROUP_MEMBER_ID 240 /* bytes that a member id of ours may have */
#define FL_GROUP_NEVER     INT64_MAX

typedef struct FlGroupArea FlGroupArea;

/* From settings (docs/settings.md). */
typedef struct FlGroupLimits
{
	int32_t min_session_ms;
	int32_t max_session_ms;
	int32_t initial_delay_ms; /* a group that was empty waits so long for more members */
	int32_t max_members;      /* of a group, those included that were only given an id */
	int32_t max_bytes;        /* of subscriptions and assignments of a group */
} FlGroupLimits;

/* Who calls, and when; wake is added to. */
typedef struct FlGroupCall
{
	FlGroupArea *area;
	const FlGroupLimits *limits;
	int64_t now;     /* ms, of a clock that all processes share */
	int door;        /* 0 .. FL_GROUP_DOORS - 1 */
	uint32_t owner;  /* whose the group is if it is made now */
	uint32_t owner2; /* an owner for which the caller may act besides; the same where there is none */
	uint32_t wake;   /* bits of doors that have answers to take, bit 0 of door 0 */
} FlGroupCall;

typedef enum FlGroupState
{
	FL_GROUP_EMPTY,      /* no members; positions may be there */
	FL_GROUP_PREPARING,  /* waits until all members have joined (again) */
	FL_GROUP_COMPLETING, /* waits for the leader's assignment */
	FL_GROUP_STABLE,     /* members have their assignments */
	FL_GROUP_DEAD        /* there is no such group */
} FlGroupState;

/* "Stable" and so on, as the protocol has it. */
extern const char *fl_group_state_name(FlGroupState state);

/* ---------- the area ---------- */

/* Smallest area of any use, and how to make one of that many bytes (8-aligned). */
#define FL_GROUP_AREA_MIN (128 * 1024)
extern void fl_group_area_init(FlGroupArea *area, size_t size);

/* The area is for this database from now on; what it holds of another one is forgotten. */
extern void fl_group_area_use(FlGroupArea *area, size_t size, uint32_t database);

/* Bytes in use, and in all. */
extern void fl_group_area_usage(const FlGroupArea *area, size_t *used, size_t *total);

/* Moves whenever something is there to be taken for the door; read without the lock. */
extern uint32_t fl_group_ready(const FlGroupArea *area, int door);

/* When fl_group_tick has something to do; read without the lock. FL_GROUP_NEVER: not by itself. */
extern int64_t fl_group_deadline(const FlGroupArea *area);

/* Whatever is due: sessions that expired, rebalances whose time is over. */
extern void fl_group_tick(FlGroupCall *call);

/* A door has begun anew: nobody is there to be answered. */
extern void fl_group_forget_door(FlGroupCall *call);

/* ---------- memory of the caller for what is copied out ---------- */

/*
 * Filled from its start.  When room is too small the result is incomplete and
 * need says how much it takes: give that and ask again.
 */
typedef struct FlGroupOut
{
	uint8_t *data; /* 8-aligned */
	size_t room;
	size_t need;
} FlGroupOut;

static inline bool
fl_group_out_fits(const FlGroupOut *out)
{
	return out->need <= out->room;
}

/* ---------- requests of members ---------- */

typedef struct FlGroupTicket
{
	uint32_t member; /* chunk */
	uint32_t wait;   /* number of the wait */
	uint64_t serial; /* of the member */
} FlGroupTicket;

typedef struct FlGroupJoin
{
	FlKafkaBytes group; /* the name that the area and consumer_position have */
	const FlKafkaJoinGroupRequest *request;
	int16_t version;
	FlKafkaBytes client_id;
	FlKafkaBytes client_host;
	uint8_t random[16]; /* a new one for each call: a member id may be made of it */
} FlGroupJoin;

/* A member id that was made, for the error MEMBER_ID_REQUIRED. */
typedef struct FlGroupMemberId
{
	int32_t len;
	char text[FL_GROUP_MEMBER_ID];
} FlGroupMemberId;

/* 0 and a ticket, or an error; id is set with MEMBER_ID_REQUIRED, and empty otherwise. */
extern int16_t fl_group_join(FlGroupCall *call, const FlGroupJoin *join, FlGroupTicket *ticket, FlGroupMemberId *id);

extern int16_t fl_group_sync(FlGroupCall *call, FlKafkaBytes group, const FlKafkaSyncGroupRequest *request,
							 FlGroupTicket *ticket);

/* What answers a ticket; fields that the kind of request has no use for are empty. */
typedef struct FlGroupAnswer
{
	int16_t error;
	int32_t generation;
	bool skip_assignment;
	FlKafkaBytes protocol_type;
	FlKafkaBytes protocol;
	FlKafkaBytes leader;
	FlKafkaBytes member_id;
	FlKafkaJoinGroupResponseMember *members;
	int32_t nmembers;
	FlKafkaBytes assignment;
} FlGroupAnswer;

/*
 * False: not yet.  True: answered, and the ticket is used up, unless out was too
 * small (fl_group_out_fits).  version is that of the request.
 */
extern bool fl_group_take(FlGroupCall *call, const FlGroupTicket *ticket, int16_t version, FlGroupOut *out,
						  FlGroupAnswer *answer);

/* The connection that has this ticket is gone: the member's session runs from now. */
extern void fl_group_abandon(FlGroupCall *call, const FlGroupTicket *ticket);

extern int16_t fl_group_heartbeat(FlGroupCall *call, FlKafkaBytes group, int32_t generation, FlKafkaBytes member_id,
								  FlKafkaBytes instance);

/* One member leaves: by its id, or by its instance id with an empty member id. */
extern int16_t fl_group_leave(FlGroupCall *call, FlKafkaBytes group, FlKafkaBytes member_id, FlKafkaBytes instance);

/* May this member (or, with generation -1, somebody who is no member) commit positions? */
extern int16_t fl_group_check_commit(FlGroupCall *call, FlKafkaBytes group, int32_t generation, FlKafkaBytes member_id,
									 FlKafkaBytes instance);

/* ---------- looking and deleting ---------- */

typedef struct FlGroupMemberView
{
	FlKafkaBytes id;
	FlKafkaBytes instance; /* may be null */
	FlKafkaBytes client_id;
	FlKafkaBytes client_host;
	FlKafkaBytes metadata; /* for the chosen protocol */
	FlKafkaBytes assignment;
	int32_t session_ms;
	int32_t rebalance_ms;
	int64_t expires_in; /* ms; FL_GROUP_NEVER while its request waits */
	bool leader;
} FlGroupMemberView;

typedef struct FlGroupView
{
	FlKafkaBytes name;
	FlKafkaBytes protocol_type;
	FlKafkaBytes protocol;
	FlGroupState state;
	int32_t generation;
	uint32_t owner;
	FlGroupMemberView *members;
	int32_t nmembers; /* also where members were not asked for */
} FlGroupView;

/* False: the area has no such group (it may have positions). */
extern bool fl_group_describe(FlGroupCall *call, FlKafkaBytes group, FlGroupOut *out, FlGroupView *view);

/* All groups, with or without their members, whoever's they are. */
extern FlGroupView *fl_group_list(FlGroupCall *call, bool with_members, FlGroupOut *out, int32_t *n);

/* 0 the group is gone from the area; NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND. */
extern int16_t fl_group_delete(FlGroupCall *call, FlKafkaBytes group);

/* True and the owner, if the area has the group. */
extern bool fl_group_owner(FlGroupCall *call, FlKafkaBytes group, uint32_t *owner);

/* ---------- the queue to whoever writes positions ---------- */

/*
 * First in, first out over all groups: a commit that was checked is in the queue
 * before the lock is given back, so a later generation's commits and reads come
 * behind it.  One process takes; what it has taken stays in the queue until it is
 * answered, so that its successor does it again.
 */
typedef struct FlGroupRequest
{
	uint64_t id; /* ascending */
	int door;
	int32_t len;          /* bytes of the body */
} FlGroupRequest;

/* Bytes of the largest request that there can be room for. */
extern size_t fl_group_request_max(const FlGroupArea *area);

/* False: the queue is full. */
extern bool fl_group_put_request(FlGroupCall *call, const uint8_t *body, int32_t len, uint64_t *id);

/* The first request behind `after` (0: the first); body in out.  False: there is none. */
extern bool fl_group_next_request(FlGroupCall *call, uint64_t after, FlGroupOut *out, FlGroupRequest *request);

/*
 * The request is done.  The answer waits for its door; where it cannot be kept for
 * lack of room the door finds an empty one.  A door that has begun anew finds
 * answers to its predecessor's requests, whose numbers it does not know.
 */
extern void fl_group_answer_request(FlGroupCall *call, uint64_t id, const uint8_t *body, int32_t len);

/* An answer for this door, its body in out (len 0: it failed).  False: there is none. */
extern bool fl_group_take_answer(FlGroupCall *call, FlGroupOut *out, uint64_t *id, int32_t *len);

#endif /* FLEETLOG_KAFKA_COORDINATOR_H */
