/*-------------------------------------------------------------------------
 *
 * group_internal.h
 *	  The area of consumer groups: chunks, blobs, groups, members, requests.
 *
 * A chunk is 256 bytes and known by its number, from 1.  It holds one struct or
 * one piece of a blob; blobs are chains of chunks.  So everything can be freed in
 * any order, nothing ever moves, and the only question about memory is how many
 * chunks are free.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_GROUP_INTERNAL_H
#define FLEETLOG_GROUP_INTERNAL_H

#include "fleetlog/kafka_coordinator.h"
#include "fleetlog/kafka_errors.h"

#define FL_GROUP_CHUNK_DATA 248

/*
 * Protocols that a member can name; clients have one or two.  Agreement takes
 * members × this × this comparisons under the lock.
 */
#define FL_GROUP_PROTOCOLS_MAX 16

typedef uint32_t FlGroupRef; /* of a chunk; 0: none */

typedef enum FlGroupChunkKind
{
	FL_GROUP_CHUNK_FREE,
	FL_GROUP_CHUNK_BLOB,
	FL_GROUP_CHUNK_GROUP,
	FL_GROUP_CHUNK_MEMBER,
	FL_GROUP_CHUNK_REQUEST
} FlGroupChunkKind;

typedef struct FlGroupChunk
{
	FlGroupRef next; /* of the blob, or of the free list */
	uint32_t kind;   /* FlGroupChunkKind */
	uint8_t data[FL_GROUP_CHUNK_DATA];
} FlGroupChunk;

typedef struct FlGroupBlob
{
	FlGroupRef first;
	int32_t len; /* -1: null */
} FlGroupBlob;

typedef enum FlGroupWait
{
	FL_GROUP_WAIT_NONE,
	FL_GROUP_WAIT_JOIN,
	FL_GROUP_WAIT_SYNC
} FlGroupWait;

typedef struct FlGroupMember
{
	FlGroupRef hash_next;
	FlGroupRef next; /* in the group, in the order of joining */
	FlGroupRef group;
	uint32_t hash; /* of group and id */
	uint64_t serial;
	uint64_t old_serial; /* of the static member that this one has replaced; 0: of none */
	FlGroupBlob id;
	FlGroupBlob old_id;   /* of the leader that this one has replaced, for who must not think that it leads */
	FlGroupBlob instance; /* null: a dynamic member */
	FlGroupBlob client_id;
	FlGroupBlob client_host;
	FlGroupBlob protocols; /* see fl_group_protocols_* */
	FlGroupBlob assignment;
	FlGroupBlob next_assignment; /* only while an assignment is taken over */
	int64_t expires;
	int32_t session_ms;
	int32_t rebalance_ms;
	int32_t generation; /* the last one that it was part of */
	int16_t error;      /* for who waits, when ready */
	uint8_t wait;       /* FlGroupWait */
	bool ready;
	bool pending; /* was only given its id */
	bool synced;  /* has asked for its assignment in this generation, or need not */
	bool skip;    /* leads, but has nothing to assign */
	uint8_t door; /* that waits */
	uint32_t wait_number;
} FlGroupMember;

typedef struct FlGroup
{
	FlGroupRef hash_next;
	FlGroupRef members;
	FlGroupRef leader;
	uint32_t hash;
	FlGroupBlob name;
	FlGroupBlob protocol_type;
	FlGroupBlob protocol;
	int64_t deadline;    /* of the state; FL_GROUP_NEVER: it has none */
	int64_t initial_end; /* the initial delay ends then at the latest */
	int64_t since;       /* in this state */
	int32_t nmembers;    /* without pending ones */
	int32_t npending;
	int32_t generation;
	int32_t bytes; /* of subscriptions and assignments */
	uint32_t owner;
	uint8_t state;    /* FlGroupState */
	bool initial;     /* the initial delay is running */
	bool pinned;      /* must not be thrown out for lack of room */
} FlGroup;

typedef struct FlGroupQueued
{
	FlGroupRef next;
	uint64_t id;
	FlGroupBlob body; /* the request's, later its answer's */
	uint8_t door;
} FlGroupQueued;

typedef struct FlGroupQueue
{
	FlGroupRef first;
	FlGroupRef last;
} FlGroupQueue;

#define FL_GROUP_BUCKETS        512  /* powers of two */
#define FL_GROUP_MEMBER_BUCKETS 2048

struct FlGroupArea
{
	uint32_t database; /* whose groups they are */
	uint32_t nchunks;
	uint32_t nfree;
	FlGroupRef free;
	FlGroupRef fresh; /* this and all behind it have never been used */
	uint32_t queue_chunks; /* used by requests and their answers */
	uint64_t last_serial;
	uint64_t last_request;
	int64_t deadline;
	uint32_t ready[FL_GROUP_DOORS];
	FlGroupQueue requests;
	FlGroupQueue answers[FL_GROUP_DOORS];
	FlGroupRef groups[FL_GROUP_BUCKETS];
	FlGroupRef members[FL_GROUP_MEMBER_BUCKETS];
	FlGroupChunk chunks[]; /* number 1 is chunks[0] */
};

/* ---- in pool.c ---- */

static inline FlGroupChunk *
fl_group_chunk(FlGroupArea *area, FlGroupRef ref)
{
	return &area->chunks[ref - 1];
}

static inline FlGroup *
fl_group_at(FlGroupArea *area, FlGroupRef ref)
{
	return (FlGroup *) (void *) fl_group_chunk(area, ref)->data;
}

static inline FlGroupMember *
fl_group_member_at(FlGroupArea *area, FlGroupRef ref)
{
	return (FlGroupMember *) (void *) fl_group_chunk(area, ref)->data;
}

static inline FlGroupQueued *
fl_group_queued_at(FlGroupArea *area, FlGroupRef ref)
{
	return (FlGroupQueued *) (void *) fl_group_chunk(area, ref)->data;
}

/* Chunks that a blob of so many bytes takes. */
static inline uint32_t
fl_group_blob_chunks(int32_t len)
{
	return len <= 0 ? 0 : ((uint32_t) len + FL_GROUP_CHUNK_DATA - 1) / FL_GROUP_CHUNK_DATA;
}

/* A zeroed struct, or 0: no chunk is free. */
extern FlGroupRef fl_group_alloc(FlGroupArea *area, FlGroupChunkKind kind);
extern void fl_group_free(FlGroupArea *area, FlGroupRef ref);

/* Room for len bytes (-1: a null), all or nothing; and what is in it goes away. */
extern bool fl_group_blob_alloc(FlGroupArea *area, int32_t len, FlGroupBlob *blob);
extern void fl_group_blob_free(FlGroupArea *area, FlGroupBlob *blob);

/* The same with a content. */
extern bool fl_group_blob_make(FlGroupArea *area, FlKafkaBytes from, FlGroupBlob *blob);

/* A place in a blob, for reading or writing; stepping beyond its end is an error of ours and does nothing. */
typedef struct FlGroupPlace
{
	FlGroupArea *area;
	FlGroupRef chunk;
	int32_t at; /* in the chunk */
	int32_t left;
} FlGroupPlace;

extern FlGroupPlace fl_group_blob_begin(FlGroupArea *area, const FlGroupBlob *blob);
extern void fl_group_write(FlGroupPlace *p, const void *from, int32_t len);
/* to NULL: skip */
extern void fl_group_read(FlGroupPlace *p, void *to, int32_t len);
/* Steps over len bytes and says whether they are these. */
extern bool fl_group_read_is(FlGroupPlace *p, const uint8_t *bytes, int32_t len);
extern int32_t fl_group_read_int(FlGroupPlace *p);
extern void fl_group_write_int(FlGroupPlace *p, int32_t value);

extern bool fl_group_blob_is(FlGroupArea *area, const FlGroupBlob *blob, FlKafkaBytes bytes);

/* Copies out; NULL where it does not fit. */
extern void *fl_group_out_alloc(FlGroupOut *out, size_t size);
extern FlKafkaBytes fl_group_blob_out(FlGroupArea *area, const FlGroupBlob *blob, FlGroupOut *out);
extern FlKafkaBytes fl_group_place_out(FlGroupPlace *p, int32_t len, FlGroupOut *out);

/* ---- in protocols.c: the protocols that a member can speak, in the order of its preference ---- */

/* Bytes that they take; -1: too many. */
extern int32_t fl_group_protocols_size(const FlKafkaJoinGroupRequest *request);
extern bool fl_group_protocols_make(FlGroupArea *area, const FlKafkaJoinGroupRequest *request, FlGroupBlob *blob);
extern bool fl_group_protocols_are(FlGroupArea *area, const FlGroupBlob *blob, const FlKafkaJoinGroupRequest *request);

/* A place at the metadata of the protocol of this name. */
extern bool fl_group_protocol_find(FlGroupArea *area, const FlGroupMember *m, FlKafkaBytes name, FlGroupPlace *at,
								   int32_t *len);
extern bool fl_group_protocol_find_blob(FlGroupArea *area, const FlGroupMember *m, const FlGroupBlob *name,
										FlGroupPlace *at, int32_t *len);

/* Can all members but this one do with one of these? */
extern bool fl_group_protocols_fit(FlGroupArea *area, const FlGroup *g, FlGroupRef but,
								   const FlKafkaJoinGroupRequest *request);

/* Chooses what most members like best; sets g->protocol. */
extern bool fl_group_choose_protocol(FlGroupArea *area, FlGroup *g);

/* ---- in group.c ---- */

extern bool fl_group_may(const FlGroupCall *call, const FlGroup *g);

/* 0 and no error: there is none.  0 and an error: it is somebody else's. */
extern FlGroupRef fl_group_find(FlGroupCall *call, FlKafkaBytes name, int16_t *error);
extern FlGroupRef fl_group_make(FlGroupCall *call, const FlGroupJoin *join);
extern void fl_group_drop(FlGroupArea *area, FlGroupRef ref);

/* Makes it likely that so many chunks are free: groups without members go, the oldest first. */
extern bool fl_group_make_room(FlGroupArea *area, uint32_t chunks);

extern FlGroupRef fl_group_find_member(FlGroupArea *area, FlGroupRef group, FlKafkaBytes id);
extern FlGroupRef fl_group_find_instance(FlGroupArea *area, FlGroupRef group, FlKafkaBytes instance);

/* At the end of the group's list, pending or not; 0: no room. */
extern FlGroupRef fl_group_add_member(FlGroupCall *call, FlGroupRef group, const FlGroupJoin *join, FlKafkaBytes id,
									  bool pending);
extern bool fl_group_rename_member(FlGroupArea *area, FlGroupRef ref, FlKafkaBytes id);
extern bool fl_group_update_member(FlGroupArea *area, FlGroupRef ref, const FlGroupJoin *join);

/* Takes it off; what that means for the group is told by fl_group_lost_member. */
extern void fl_group_remove_member(FlGroupCall *call, FlGroupRef ref);

extern void fl_group_note_deadline(FlGroupArea *area, int64_t at);

#define fl_group_each_member(area, g, ref, m)                                                                          \
	for ((ref) = (g)->members; (ref) != 0 && ((m) = fl_group_member_at((area), (ref))) != NULL; (ref) = (m)->next)

/* ---- in rebalance.c ---- */

extern void fl_group_set_state(FlGroupCall *call, FlGroup *g, FlGroupState state);
extern void fl_group_touch(FlGroupCall *call, FlGroupMember *m);
extern void fl_group_park(FlGroupCall *call, FlGroupRef ref, FlGroupWait wait, FlGroupTicket *ticket);
extern void fl_group_release(FlGroupCall *call, FlGroupMember *m, int16_t error);
extern void fl_group_prepare(FlGroupCall *call, FlGroupRef ref);
extern void fl_group_maybe_complete(FlGroupCall *call, FlGroupRef ref);
extern void fl_group_lost_member(FlGroupCall *call, FlGroupRef ref);

/* ---- in queue.c ---- */

extern void fl_group_drop_answers(FlGroupArea *area, int door);

/* Some door has something to take. */
static inline void
fl_group_wake(FlGroupCall *call, int door)
{
	__atomic_add_fetch(&call->area->ready[door], 1, __ATOMIC_RELEASE);
	call->wake |= UINT32_C(1) << door;
}

#endif /* FLEETLOG_GROUP_INTERNAL_H */
