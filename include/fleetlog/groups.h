/*-------------------------------------------------------------------------
 *
 * groups.h
 *		Consumer groups as processes share them: the area of the coordinator
 *		(kafka_coordinator.h) in shared memory with its lock, and the process that
 *		reads and writes positions for it (fleetlog.consumer_position).
 *
 * Locking contract: one LWLock over the whole area, held for microseconds, never
 * over an allocation, a system call or anything else that may raise an error; so
 * a process that ends can leave neither the lock nor half a change behind.  No
 * other lock is taken while it is held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_GROUPS_H
#define FLEETLOG_GROUPS_H

#include "fleetlog/cursor.h"
#include "fleetlog/kafka_coordinator.h"
#include "fleetlog/kafka_errors.h"

/* Shared memory and settings; called by src/shmem and _PG_init. */
extern Size fl_groups_size(void);
extern void fl_groups_request(void);
extern void fl_groups_init(void);
extern void fl_groups_define_settings(void);

extern int fl_kafka_offset_metadata_max; /* fleetlog.kafka_offset_metadata_size, bytes */

/*
 * Begin and end a few calls of the coordinator.  door: of the process.  owner:
 * the role that acts; owner2: see FlGroupCall.  The end wakes whom the calls named.
 */
extern FlGroupCall *fl_groups_lock(int door, Oid owner, Oid owner2);
extern void fl_groups_unlock(FlGroupCall *call);

/* Has something become ready for the door since this was asked last? */
extern bool fl_groups_news(int door);

/* Milliseconds until fl_groups_tick has something to do; -1: nothing by itself. */
extern long fl_groups_timeout(void);
extern void fl_groups_tick(int door);

/* A door begins: whom its predecessor had to answer is gone. */
extern void fl_groups_begin_door(int door);

/* The positions worker begins. */
extern void fl_groups_begin_positions(void);

/*
 * Memory for what is copied out, the process's own, and more of it: ask again when
 * it was too little.
 */
extern FlGroupOut *fl_groups_out(void);
extern void fl_groups_grow(void);

/* ---- Positions ----------------------------------------------------------- */

typedef enum FlPositionsOp
{
	FL_POSITIONS_COMMIT = 1,
	FL_POSITIONS_FETCH,			/* of the items' streams, or without items all of the consumer */
	FL_POSITIONS_DELETE,		/* the items */
	FL_POSITIONS_DELETE_ALL,	/* of the consumer; found: were there any */
	FL_POSITIONS_LIST,			/* consumers whose names begin so, in the items' metadata */
	FL_POSITIONS_TOPIC_ADMIN,	/* no question about positions: topic_admin.h */
	FL_POSITIONS_PRODUCER_IDS	/* neither: a block of producer ids, whose first is the only item's offset */
} FlPositionsOp;

/* Beside error codes of the protocol: somebody holds the rows. */
#define FL_POSITIONS_BUSY	FL_KAFKA_COORDINATOR_LOAD_IN_PROGRESS

typedef struct FlPosition
{
	Oid			stream;
	int32		shard;
	int64		log_offset;
	int32		epoch;			/* -1: none */
	int16		error;
	FlKafkaBytes metadata;		/* null: none */
} FlPosition;

/* A request is begun, gets its items, and is put into the queue under the lock. */
extern void fl_positions_begin(FlBuf *buf, FlPositionsOp op, Oid role, FlKafkaBytes consumer);
extern void fl_positions_add(FlBuf *buf, const FlPosition *item);
/* An error: there is no room for it now, or never. */
extern int16 fl_positions_put(FlGroupCall *call, const FlBuf *buf, uint64 *id);

/*
 * The next answer of this door; false: none.  In answer everything is borrowed
 * from fl_groups_out until that is used again.
 */
typedef struct FlPositionsAnswer
{
	uint64		id;
	int16		error;			/* of the whole request */
	bool		found;
	FlReader	items;
} FlPositionsAnswer;

extern bool fl_positions_next_answer(int door, FlPositionsAnswer *answer);
extern bool fl_positions_next(FlReader *items, FlPosition *item);

/* ---- for the process that does it (bgworker/main/positions.c) ---- */

typedef struct FlPositionsRequest
{
	FlPositionsOp op;
	Oid			role;
	FlKafkaBytes consumer;
	FlReader	items;
} FlPositionsRequest;

extern bool fl_positions_read(const uint8 *body, int32 len, FlPositionsRequest *request);
extern void fl_positions_begin_answer(FlBuf *buf, int16 error, bool found);

/* In a transaction: do what is asked, append the answer. */
/* May the role act for the owner of a consumer?  In a transaction. */
extern bool fl_positions_may_act(Oid role, Oid owner);

extern void fl_positions_execute(FlPositionsRequest *request, FlBuf *answer);

#endif							/* FLEETLOG_GROUPS_H */
