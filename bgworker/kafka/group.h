/*
 * group.h
 *		What the files of consumer groups share among themselves.
 *
 *	group.c				who acts for whom; JoinGroup, SyncGroup, Heartbeat,
 *						LeaveGroup, FindCoordinator; members that wait
 *	group_ask.c			asking the positions worker, and its answers
 *	group_offsets.c		OffsetCommit, OffsetFetch, OffsetDelete
 *	group_admin.c		DescribeGroups, ListGroups, DeleteGroups
 *
 * Groups themselves are in shared memory (src/group): what is here is only which
 * request of which connection waits for what.
 */
#ifndef FLEETLOG_KAFKA_DOOR_GROUP_H
#define FLEETLOG_KAFKA_DOOR_GROUP_H

#include "fleetlog/groups.h"
#include "kafka.h"

/* Groups that one request may name; clients name one, tools a few. */
#define FL_KAFKA_MAX_GROUPS 256

/* A request of positions that has no answer by then is told to come again. */
#define FL_KAFKA_ASK_MS 20000

/* The role as which a connection acts on groups. */
extern Oid fl_kafka_group_role(FlKafkaConn *conn);

/* The group's name in the area and in consumer_position; len 0: it cannot be one. */
extern FlKafkaBytes fl_kafka_group_name(FlKafkaConn *conn, FlKafkaBytes group);

/* "tenant/" of a device's groups, or "". */
extern FlKafkaBytes fl_kafka_group_prefix(FlKafkaConn *conn);

/* Takes the lock for a call on this group, with the rights that the connection has on it. */
extern FlGroupCall *fl_kafka_group_begin(FlKafkaConn *conn, FlKafkaBytes name);

/* Is it UTF-8 without zeros, so that it can be kept as a text? */
extern bool fl_kafka_is_text(FlKafkaBytes bytes);

/* ---- asking for positions ---- */

typedef struct FlKafkaAsk
{
	uint64 id;     /* 0: was not asked */
	int16 error;   /* of the whole; of one that was not asked, why */
	bool answered;
	bool found;
	FlReader items; /* in the request's memory */
} FlKafkaAsk;

typedef struct FlKafkaAsks
{
	FlKafkaRequest *req;
	int n;
	int pending;
	int64 timeout_ms; /* FL_KAFKA_ASK_MS */
	FlKafkaAsk *asks;
	void (*finish)(struct FlKafkaAsks *asks); /* answers the request */
	void *state;                              /* the handler's */
} FlKafkaAsks;

extern FlKafkaAsks *fl_kafka_asks_create(FlKafkaRequest *req, int n, void (*finish)(FlKafkaAsks *), void *state);

/* A buffer to write one question in (fl_positions_begin), the same every time. */
extern FlBuf *fl_kafka_ask_buffer(void);

/* Puts it into the queue; the lock is held.  What cannot be asked now, or is too large, has an error. */
extern void fl_kafka_ask(FlGroupCall *call, FlKafkaAsks *asks, int i, const FlBuf *question);

/* All is asked: finish now if nothing is pending, else when the last answer has come. */
extern void fl_kafka_asks_wait(FlKafkaAsks *asks);

/* Answers that have come. */
extern void fl_kafka_asks_serve(FlKafkaDoor *door);

/* ---- the door's turn (group.c) ---- */

/* The door begins: whom its predecessor had to answer is gone. */
extern void fl_kafka_groups_begin(FlKafkaDoor *door);

/* Whatever is due, and answers to who waits; then how long the door may sleep for it, -1: for ever. */
extern void fl_kafka_groups_turn(FlKafkaDoor *door);
extern long fl_kafka_groups_timeout(FlKafkaDoor *door);

/* ---- handlers ---- */

extern void fl_kafka_handle_join_group(FlKafkaRequest *req);
extern void fl_kafka_handle_sync_group(FlKafkaRequest *req);
extern void fl_kafka_handle_heartbeat(FlKafkaRequest *req);
extern void fl_kafka_handle_leave_group(FlKafkaRequest *req);
extern void fl_kafka_handle_find_coordinator(FlKafkaRequest *req);
extern void fl_kafka_handle_offset_commit(FlKafkaRequest *req);
extern void fl_kafka_handle_offset_fetch(FlKafkaRequest *req);
extern void fl_kafka_handle_offset_delete(FlKafkaRequest *req);
extern void fl_kafka_handle_describe_groups(FlKafkaRequest *req);
extern void fl_kafka_handle_list_groups(FlKafkaRequest *req);
extern void fl_kafka_handle_delete_groups(FlKafkaRequest *req);

#endif /* FLEETLOG_KAFKA_DOOR_GROUP_H */
