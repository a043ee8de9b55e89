/*-------------------------------------------------------------------------
 *
 * kafka_apis.h
 *	  The APIs of Kafka that the codec speaks: their numbers.
 *
 * Their ranges and messages are in fl_kafka_apis, by ascending key.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#ifndef FLEETLOG_KAFKA_APIS_H
#define FLEETLOG_KAFKA_APIS_H

#include "fleetlog/kafka_codec.h"

typedef enum FlKafkaApiKey
{
	FL_KAFKA_PRODUCE = 0,
	FL_KAFKA_FETCH = 1,
	FL_KAFKA_LIST_OFFSETS = 2,
	FL_KAFKA_METADATA = 3,
	FL_KAFKA_OFFSET_COMMIT = 8,
	FL_KAFKA_OFFSET_FETCH = 9,
	FL_KAFKA_FIND_COORDINATOR = 10,
	FL_KAFKA_JOIN_GROUP = 11,
	FL_KAFKA_HEARTBEAT = 12,
	FL_KAFKA_LEAVE_GROUP = 13,
	FL_KAFKA_SYNC_GROUP = 14,
	FL_KAFKA_DESCRIBE_GROUPS = 15,
	FL_KAFKA_LIST_GROUPS = 16,
	FL_KAFKA_SASL_HANDSHAKE = 17,
	FL_KAFKA_API_VERSIONS = 18,
	FL_KAFKA_CREATE_TOPICS = 19,
	FL_KAFKA_DELETE_TOPICS = 20,
	FL_KAFKA_DELETE_RECORDS = 21,
	FL_KAFKA_INIT_PRODUCER_ID = 22,
	FL_KAFKA_OFFSET_FOR_LEADER_EPOCH = 23,
	FL_KAFKA_DESCRIBE_ACLS = 29,
	FL_KAFKA_CREATE_ACLS = 30,
	FL_KAFKA_DELETE_ACLS = 31,
	FL_KAFKA_DESCRIBE_CONFIGS = 32,
	FL_KAFKA_ALTER_CONFIGS = 33,
	FL_KAFKA_DESCRIBE_LOG_DIRS = 35,
	FL_KAFKA_SASL_AUTHENTICATE = 36,
	FL_KAFKA_CREATE_PARTITIONS = 37,
	FL_KAFKA_DELETE_GROUPS = 42,
	FL_KAFKA_INCREMENTAL_ALTER_CONFIGS = 44,
	FL_KAFKA_LIST_PARTITION_REASSIGNMENTS = 46,
	FL_KAFKA_OFFSET_DELETE = 47,
	FL_KAFKA_DESCRIBE_CLUSTER = 60,
	FL_KAFKA_DESCRIBE_TOPIC_PARTITIONS = 75
} FlKafkaApiKey;

#define FL_KAFKA_N_APIS 34

extern const FlKafkaApi fl_kafka_apis[FL_KAFKA_N_APIS];

#endif /* FLEETLOG_KAFKA_APIS_H */
