/*
 * admin.h
 *		What the files of administration share among themselves.
 *
 *	admin.c			who may; asking the process that does it; its verdicts
 *	admin_topics.c	CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords,
 *					and topics that are made when they are asked for
 *	admin_configs.c	DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
 *	configs.c		the configurations that there are, and what they are in SQL
 *	describe.c		DescribeLogDirs, DescribeTopicPartitions, and what is empty here:
 *					ACLs, reassignments
 *
 * The door changes nothing itself: a request becomes one question for each topic
 * in the queue of src/group, and the positions worker calls the SQL function that
 * does it as the role that asks (fleetlog/topic_admin.h).
 */
#ifndef FLEETLOG_KAFKA_DOOR_ADMIN_H
#define FLEETLOG_KAFKA_DOOR_ADMIN_H

#include "fleetlog/topic_admin.h"
#include "group.h"
#include "kafka.h"

/* Topics, partitions or resources that one request may name; a larger one is refused. */
#define FL_KAFKA_MAX_ADMIN 1000

/* ---- asking (admin.c) ---- */

/* What became of one of the things that a request names. */
typedef struct FlKafkaVerdict
{
	int16 error;
	const char *message; /* UTF-8; NULL: none */
	int64 number;        /* what the operation answers */
} FlKafkaVerdict;

typedef struct FlKafkaAdmin
{
	FlKafkaRequest *req;
	FlKafkaAsks *asks;
	int n;
	FlKafkaVerdict *verdicts; /* of each; one with an error is not asked */
	bool validate_only;
	TimestampTz deadline;
	void (*answer)(struct FlKafkaAdmin *admin);
	void *state; /* the handler's */
} FlKafkaAdmin;

/*
 * For n things; NULL when they are too many, and the connection is closed.
 * timeout_ms: the client's.
 */
extern FlKafkaAdmin *fl_kafka_admin_create(FlKafkaRequest *req, int n, int32 timeout_ms, bool validate_only,
										   void (*answer)(FlKafkaAdmin *), void *state);

/* Refuses one, or all that are not refused yet. */
extern void fl_kafka_admin_refuse(FlKafkaAdmin *admin, int i, int16 error, const char *message);

/*
 * Has the connection a role to act as?  Otherwise all are refused with that error: devices
 * and who has not logged in change nothing.
 */
extern bool fl_kafka_admin_may(FlKafkaAdmin *admin, int16 error);

/* Asks for one that is not refused. */
extern void fl_kafka_admin_ask(FlKafkaAdmin *admin, int i, FlTopicAdminOp op, int nparams, const char *const *params);

/* All is asked: `answer` is called when every verdict is there. */
extern void fl_kafka_admin_wait(FlKafkaAdmin *admin);

/* What an answer tells of an error; null where there is none. */
extern FlKafkaBytes fl_kafka_admin_message(const FlKafkaVerdict *verdict);

/* A string of C's for what came from a client, in the request's memory; NULL for null. */
extern const char *fl_kafka_text(FlKafkaBytes bytes);

/* Refuses those whose names stand more than once in the request; names[n], null ones are left out. */
extern void fl_kafka_admin_refuse_twins(FlKafkaAdmin *admin, const FlKafkaBytes *names);

/* The stream that a topic's name means, and the right to see it; else refused, NULL. */
extern const FlStreamInfo *fl_kafka_admin_topic(FlKafkaAdmin *admin, int i, FlKafkaBytes name);

/* ---- configurations (configs.c) ---- */

/* Those of a topic that can be set. */
typedef enum FlKafkaSetting
{
	FL_KAFKA_SET_COMPRESSION,
	FL_KAFKA_SET_TIMESTAMP,
	FL_KAFKA_SET_CLEANUP,
	FL_KAFKA_SET_SEGMENT_BYTES,
	FL_KAFKA_SET_SEGMENT_MS,
	FL_KAFKA_SET_RETENTION_MS,
	FL_KAFKA_SET_RETENTION_BYTES,
	FL_KAFKA_SET_MAX_MESSAGE,
	FL_KAFKA_N_SETTINGS,
	FL_KAFKA_SET_NOTHING = -1 /* it is shown, and cannot be set */
} FlKafkaSetting;

StaticAssertDecl((int) FL_KAFKA_N_SETTINGS == FL_TOPIC_SETTINGS, "as topic_admin.h has them");

/* In Kafka's words; NULL: the default. */
typedef struct FlKafkaSettings
{
	const char *values[FL_KAFKA_N_SETTINGS];
} FlKafkaSettings;

/* Kafka's numbers for types and sources. */
#define FL_KAFKA_CONFIG_BOOLEAN 1
#define FL_KAFKA_CONFIG_STRING  2
#define FL_KAFKA_CONFIG_INT     3
#define FL_KAFKA_CONFIG_LONG    5
#define FL_KAFKA_CONFIG_DOUBLE  6
#define FL_KAFKA_CONFIG_LIST    7

#define FL_KAFKA_SOURCE_TOPIC   1
#define FL_KAFKA_SOURCE_SERVER  4
#define FL_KAFKA_SOURCE_DEFAULT 5

#define FL_KAFKA_RESOURCE_TOPIC  2
#define FL_KAFKA_RESOURCE_BROKER 4

/* One as it is shown. */
typedef struct FlKafkaConfig
{
	const char *name;
	const char *value;
	const char *default_value;
	const char *default_name; /* the broker's, for a topic's that follows it; NULL: none */
	int8 type;
	int8 source;
	bool read_only;
	const char *documentation;
} FlKafkaConfig;

extern int fl_kafka_topic_configs(const FlKafkaSettings *settings, FlKafkaConfig **configs);
extern int fl_kafka_broker_configs(FlKafkaConn *conn, FlKafkaConfig **configs);

/* The settings of a stream. */
extern void fl_kafka_settings_of(const FlStreamInfo *stream, FlKafkaSettings *settings);

/* Sets one; NULL: done, else why not.  A null value means the default. */
extern const char *fl_kafka_set(FlKafkaSettings *settings, FlKafkaBytes name, FlKafkaBytes value);

/* Adds to a list, or takes from it. */
extern const char *fl_kafka_set_item(FlKafkaSettings *settings, FlKafkaBytes name, FlKafkaBytes value, bool add);

/*
 * As parameters of create_stream, or alter_stream for what differs from `old`.  A stream's retention
 * is that of all its shards together.
 */
extern void fl_kafka_settings_to_sql(const FlKafkaSettings *settings, const FlKafkaSettings *old, int32 shards,
									 const char **params);

/* ---- topics that are made when they are asked for (admin_topics.c) ---- */

extern bool fl_kafka_auto_create_topics; /* fleetlog.kafka_auto_create_topics */
extern int fl_kafka_num_partitions;	   /* fleetlog.kafka_num_partitions */

#define FL_KAFKA_AUTO_CREATE_MS 10000

/* Asks for them, each with fleetlog.kafka_num_partitions; to be waited for.  NULL: as fl_kafka_admin_create. */
extern FlKafkaAdmin *fl_kafka_admin_auto_create(FlKafkaRequest *req, const FlKafkaBytes *names, int n,
												void (*answer)(FlKafkaAdmin *));

/* ---- handlers ---- */

extern void fl_kafka_handle_create_topics(FlKafkaRequest *req);
extern void fl_kafka_handle_delete_topics(FlKafkaRequest *req);
extern void fl_kafka_handle_create_partitions(FlKafkaRequest *req);
extern void fl_kafka_handle_delete_records(FlKafkaRequest *req);
extern void fl_kafka_handle_describe_configs(FlKafkaRequest *req);
extern void fl_kafka_handle_alter_configs(FlKafkaRequest *req);
extern void fl_kafka_handle_incremental_alter_configs(FlKafkaRequest *req);
extern void fl_kafka_handle_describe_acls(FlKafkaRequest *req);
extern void fl_kafka_handle_create_acls(FlKafkaRequest *req);
extern void fl_kafka_handle_delete_acls(FlKafkaRequest *req);
extern void fl_kafka_handle_describe_log_dirs(FlKafkaRequest *req);
extern void fl_kafka_handle_list_partition_reassignments(FlKafkaRequest *req);
extern void fl_kafka_handle_describe_topic_partitions(FlKafkaRequest *req);

#endif /* FLEETLOG_KAFKA_DOOR_ADMIN_H */
