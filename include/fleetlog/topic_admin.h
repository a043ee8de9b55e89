/*-------------------------------------------------------------------------
 *
 * topic_admin.h
 *		What Kafka's clients ask of streams as their administrators, done with the
 *		rights of a role, in a transaction of its own, by another process than the
 *		door: bytes for the queue of src/group, and their execution.
 *
 * Each operation is a call of the SQL function that does it, by the role that asks:
 * rights, checks and errors are those of SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_TOPIC_ADMIN_H
#define FLEETLOG_TOPIC_ADMIN_H

#include "utils/timestamp.h"

#include "fleetlog/groups.h"

/* What is to be done, and its parameters: texts, each of which may be NULL. */
typedef enum FlTopicAdminOp
{
	FL_TOPIC_CREATE,			/* name, shards, then FL_TOPIC_SETTINGS; answers the stream's oid */
	FL_TOPIC_DROP,				/* stream */
	FL_TOPIC_GROW,				/* stream, shards, retention_bytes */
	FL_TOPIC_ALTER,				/* stream, then FL_TOPIC_SETTINGS */
	FL_TOPIC_TRIM,				/* stream, shard, offset or NULL for the tail; answers the head */
	FL_TOPIC_SIZES				/* streams as an array; answers an item for each shard */
} FlTopicAdminOp;

/*
 * compression, timestamp_type, cleanup_policy, segment_bytes, segment_age, retention_age,
 * retention_bytes, max_record_bytes, as create_stream and alter_stream take them.
 */
#define FL_TOPIC_SETTINGS	8
#define FL_TOPIC_PARAMS_MAX	(2 + FL_TOPIC_SETTINGS)

typedef struct FlTopicAdmin
{
	FlTopicAdminOp op;
	Oid			role;			/* whose rights count; not asked by FL_TOPIC_SIZES */
	bool		validate_only;	/* all of it, and then undone */
	TimestampTz deadline;		/* not begun after that, nor repeated for a lock */
	int			nparams;
	const char *params[FL_TOPIC_PARAMS_MAX];
} FlTopicAdmin;

/* The request as bytes for fl_positions_put. */
extern void fl_topic_admin_write(FlBuf *buf, const FlTopicAdmin *admin);

/* Is it one of these?  Otherwise fl_positions_read knows it. */
extern bool fl_topic_admin_is(const uint8 *body, int32 len);

/* palloc's what it returns; false: malformed. */
extern bool fl_topic_admin_read(const uint8 *body, int32 len, FlTopicAdmin *admin);

/*
 * In a transaction with a snapshot, which is to be ended according to validate_only:
 * do it and write the answer, a stream's oid or a number in its only item; or raise
 * an error.
 */
extern void fl_topic_admin_execute(const FlTopicAdmin *admin, FlBuf *answer);

/* Would the same request, sent again, find what this error met out of the way? */
extern bool fl_topic_admin_may_pass(const FlTopicAdmin *admin, const ErrorData *error);

/* The answer that tells the error; one that is nobody's mistake is in the log already. */
extern void fl_topic_admin_write_error(FlBuf *answer, const FlTopicAdmin *admin, const ErrorData *error);
extern void fl_topic_admin_write_timeout(FlBuf *answer);

/* Is the error one that users make, and so none for the log? */
extern bool fl_topic_admin_is_told(const FlTopicAdmin *admin, const ErrorData *error);

#endif							/* FLEETLOG_TOPIC_ADMIN_H */
