/*-------------------------------------------------------------------------
 *
 * table_group.c
 *	  Tables of Kafka's messages: consumer groups and their offsets.
 *
 * Read by decode.c and encode.c, by nobody else.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#include "fleetlog/kafka_group.h"

#include "kafka_private.h"

/* ---------- OffsetCommitRequest ---------- */

static const FlKafkaField offset_commit_request_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestPartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestPartition, committed_offset, "CommittedOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestPartition, committed_leader_epoch, "CommittedLeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestPartition, commit_timestamp, "CommitTimestamp", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 1, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestPartition, committed_metadata, "CommittedMetadata", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_commit_request_partition = {"OffsetCommitRequestPartition", FL_KAFKA_FIELDS(offset_commit_request_partition_fields), sizeof(FlKafkaOffsetCommitRequestPartition)};
_Static_assert(sizeof(FlKafkaOffsetCommitRequestPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_commit_request_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 9, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestTopic, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequestTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_commit_request_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_commit_request_topic = {"OffsetCommitRequestTopic", FL_KAFKA_FIELDS(offset_commit_request_topic_fields), sizeof(FlKafkaOffsetCommitRequestTopic)};
_Static_assert(sizeof(FlKafkaOffsetCommitRequestTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_commit_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequest, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequest, generation_id_or_member_epoch, "GenerationIdOrMemberEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequest, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequest, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 7, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequest, retention_time_ms, "RetentionTimeMs", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 4, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_commit_request_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_commit_request = {"OffsetCommitRequest", FL_KAFKA_FIELDS(offset_commit_request_fields), sizeof(FlKafkaOffsetCommitRequest)};

const FlKafkaMessage fl_kafka_offset_commit_request = {&fl_kafka_struct_offset_commit_request, 2, 10, 8};

/* ---------- OffsetCommitResponse ---------- */

static const FlKafkaField offset_commit_response_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetCommitResponsePartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitResponsePartition, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_commit_response_partition = {"OffsetCommitResponsePartition", FL_KAFKA_FIELDS(offset_commit_response_partition_fields), sizeof(FlKafkaOffsetCommitResponsePartition)};
_Static_assert(sizeof(FlKafkaOffsetCommitResponsePartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_commit_response_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetCommitResponseTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 9, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitResponseTopic, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitResponseTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_commit_response_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_commit_response_topic = {"OffsetCommitResponseTopic", FL_KAFKA_FIELDS(offset_commit_response_topic_fields), sizeof(FlKafkaOffsetCommitResponseTopic)};
_Static_assert(sizeof(FlKafkaOffsetCommitResponseTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_commit_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetCommitResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetCommitResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_commit_response_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_commit_response = {"OffsetCommitResponse", FL_KAFKA_FIELDS(offset_commit_response_fields), sizeof(FlKafkaOffsetCommitResponse)};

const FlKafkaMessage fl_kafka_offset_commit_response = {&fl_kafka_struct_offset_commit_response, 2, 10, 8};

/* ---------- OffsetFetchRequest ---------- */

static const FlKafkaField offset_fetch_request_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestTopic, partition_indexes, "PartitionIndexes", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_request_topic = {"OffsetFetchRequestTopic", FL_KAFKA_FIELDS(offset_fetch_request_topic_fields), sizeof(FlKafkaOffsetFetchRequestTopic)};
_Static_assert(sizeof(FlKafkaOffsetFetchRequestTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_request_topics_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestTopics, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 9, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestTopics, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestTopics, partition_indexes, "PartitionIndexes", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_request_topics = {"OffsetFetchRequestTopics", FL_KAFKA_FIELDS(offset_fetch_request_topics_fields), sizeof(FlKafkaOffsetFetchRequestTopics)};
_Static_assert(sizeof(FlKafkaOffsetFetchRequestTopics) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_request_group_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestGroup, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestGroup, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   9, 126, 9, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestGroup, member_epoch, "MemberEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   9, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequestGroup, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_request_topics, FL_KAFKA_NO_PRESENT,
				   8, 126, 8, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_request_group = {"OffsetFetchRequestGroup", FL_KAFKA_FIELDS(offset_fetch_request_group_fields), sizeof(FlKafkaOffsetFetchRequestGroup)};
_Static_assert(sizeof(FlKafkaOffsetFetchRequestGroup) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequest, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_request_topic, FL_KAFKA_NO_PRESENT,
				   0, 7, 2, 7, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequest, groups, "Groups", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_request_group, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchRequest, require_stable, "RequireStable", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_fetch_request = {"OffsetFetchRequest", FL_KAFKA_FIELDS(offset_fetch_request_fields), sizeof(FlKafkaOffsetFetchRequest)};

const FlKafkaMessage fl_kafka_offset_fetch_request = {&fl_kafka_struct_offset_fetch_request, 1, 10, 6};

/* ---------- OffsetFetchResponse ---------- */

static const FlKafkaField offset_fetch_response_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartition, committed_offset, "CommittedOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartition, committed_leader_epoch, "CommittedLeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 7, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartition, metadata, "Metadata", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 0, 7, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartition, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_response_partition = {"OffsetFetchResponsePartition", FL_KAFKA_FIELDS(offset_fetch_response_partition_fields), sizeof(FlKafkaOffsetFetchResponsePartition)};
_Static_assert(sizeof(FlKafkaOffsetFetchResponsePartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_response_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_response_partition, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_response_topic = {"OffsetFetchResponseTopic", FL_KAFKA_FIELDS(offset_fetch_response_topic_fields), sizeof(FlKafkaOffsetFetchResponseTopic)};
_Static_assert(sizeof(FlKafkaOffsetFetchResponseTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_response_partitions_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartitions, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartitions, committed_offset, "CommittedOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartitions, committed_leader_epoch, "CommittedLeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartitions, metadata, "Metadata", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 8, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponsePartitions, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_response_partitions = {"OffsetFetchResponsePartitions", FL_KAFKA_FIELDS(offset_fetch_response_partitions_fields), sizeof(FlKafkaOffsetFetchResponsePartitions)};
_Static_assert(sizeof(FlKafkaOffsetFetchResponsePartitions) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_response_topics_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseTopics, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 9, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseTopics, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseTopics, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_response_partitions, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_response_topics = {"OffsetFetchResponseTopics", FL_KAFKA_FIELDS(offset_fetch_response_topics_fields), sizeof(FlKafkaOffsetFetchResponseTopics)};
_Static_assert(sizeof(FlKafkaOffsetFetchResponseTopics) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_response_group_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseGroup, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseGroup, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_response_topics, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponseGroup, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_fetch_response_group = {"OffsetFetchResponseGroup", FL_KAFKA_FIELDS(offset_fetch_response_group_fields), sizeof(FlKafkaOffsetFetchResponseGroup)};
_Static_assert(sizeof(FlKafkaOffsetFetchResponseGroup) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_fetch_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_response_topic, FL_KAFKA_NO_PRESENT,
				   0, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 7, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetFetchResponse, groups, "Groups", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_fetch_response_group, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_fetch_response = {"OffsetFetchResponse", FL_KAFKA_FIELDS(offset_fetch_response_fields), sizeof(FlKafkaOffsetFetchResponse)};

const FlKafkaMessage fl_kafka_offset_fetch_response = {&fl_kafka_struct_offset_fetch_response, 1, 10, 6};

/* ---------- FindCoordinatorRequest ---------- */

static const FlKafkaField find_coordinator_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorRequest, key, "Key", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 3, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorRequest, key_type, "KeyType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorRequest, coordinator_keys, "CoordinatorKeys", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_find_coordinator_request = {"FindCoordinatorRequest", FL_KAFKA_FIELDS(find_coordinator_request_fields), sizeof(FlKafkaFindCoordinatorRequest)};

const FlKafkaMessage fl_kafka_find_coordinator_request = {&fl_kafka_struct_find_coordinator_request, 0, 6, 3};

/* ---------- FindCoordinatorResponse ---------- */

static const FlKafkaField find_coordinator_coordinator_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorCoordinator, key, "Key", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorCoordinator, node_id, "NodeId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorCoordinator, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorCoordinator, port, "Port", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorCoordinator, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorCoordinator, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 4, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_find_coordinator_coordinator = {"Coordinator", FL_KAFKA_FIELDS(find_coordinator_coordinator_fields), sizeof(FlKafkaFindCoordinatorCoordinator)};
_Static_assert(sizeof(FlKafkaFindCoordinatorCoordinator) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField find_coordinator_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 3, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 3, 1, 3, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorResponse, node_id, "NodeId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 3, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorResponse, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 3, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorResponse, port, "Port", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 3, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFindCoordinatorResponse, coordinators, "Coordinators", FL_KAFKA_STRUCT, true, &fl_kafka_struct_find_coordinator_coordinator, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_find_coordinator_response = {"FindCoordinatorResponse", FL_KAFKA_FIELDS(find_coordinator_response_fields), sizeof(FlKafkaFindCoordinatorResponse)};

const FlKafkaMessage fl_kafka_find_coordinator_response = {&fl_kafka_struct_find_coordinator_response, 0, 6, 3};

/* ---------- JoinGroupRequest ---------- */

static const FlKafkaField join_group_request_protocol_fields[] = {
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequestProtocol, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequestProtocol, metadata, "Metadata", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_join_group_request_protocol = {"JoinGroupRequestProtocol", FL_KAFKA_FIELDS(join_group_request_protocol_fields), sizeof(FlKafkaJoinGroupRequestProtocol)};
_Static_assert(sizeof(FlKafkaJoinGroupRequestProtocol) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField join_group_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, session_timeout_ms, "SessionTimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, rebalance_timeout_ms, "RebalanceTimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, protocol_type, "ProtocolType", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, protocols, "Protocols", FL_KAFKA_STRUCT, true, &fl_kafka_struct_join_group_request_protocol, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupRequest, reason, "Reason", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 8, 126, FL_KAFKA_NO_TAG, 1),
};
static const FlKafkaStruct fl_kafka_struct_join_group_request = {"JoinGroupRequest", FL_KAFKA_FIELDS(join_group_request_fields), sizeof(FlKafkaJoinGroupRequest)};

const FlKafkaMessage fl_kafka_join_group_request = {&fl_kafka_struct_join_group_request, 0, 9, 6};

/* ---------- JoinGroupResponse ---------- */

static const FlKafkaField join_group_response_member_fields[] = {
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponseMember, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponseMember, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponseMember, metadata, "Metadata", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_join_group_response_member = {"JoinGroupResponseMember", FL_KAFKA_FIELDS(join_group_response_member_fields), sizeof(FlKafkaJoinGroupResponseMember)};
_Static_assert(sizeof(FlKafkaJoinGroupResponseMember) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField join_group_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, generation_id, "GenerationId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, protocol_type, "ProtocolType", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 7, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, protocol_name, "ProtocolName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 7, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, leader, "Leader", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, skip_assignment, "SkipAssignment", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   9, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaJoinGroupResponse, members, "Members", FL_KAFKA_STRUCT, true, &fl_kafka_struct_join_group_response_member, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_join_group_response = {"JoinGroupResponse", FL_KAFKA_FIELDS(join_group_response_fields), sizeof(FlKafkaJoinGroupResponse)};

const FlKafkaMessage fl_kafka_join_group_response = {&fl_kafka_struct_join_group_response, 0, 9, 6};

/* ---------- HeartbeatRequest ---------- */

static const FlKafkaField heartbeat_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaHeartbeatRequest, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaHeartbeatRequest, generation_id, "GenerationId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaHeartbeatRequest, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaHeartbeatRequest, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 3, 126, FL_KAFKA_NO_TAG, 1),
};
static const FlKafkaStruct fl_kafka_struct_heartbeat_request = {"HeartbeatRequest", FL_KAFKA_FIELDS(heartbeat_request_fields), sizeof(FlKafkaHeartbeatRequest)};

const FlKafkaMessage fl_kafka_heartbeat_request = {&fl_kafka_struct_heartbeat_request, 0, 4, 4};

/* ---------- HeartbeatResponse ---------- */

static const FlKafkaField heartbeat_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaHeartbeatResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaHeartbeatResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_heartbeat_response = {"HeartbeatResponse", FL_KAFKA_FIELDS(heartbeat_response_fields), sizeof(FlKafkaHeartbeatResponse)};

const FlKafkaMessage fl_kafka_heartbeat_response = {&fl_kafka_struct_heartbeat_response, 0, 4, 4};

/* ---------- LeaveGroupRequest ---------- */

static const FlKafkaField leave_group_member_identity_fields[] = {
	FL_KAFKA_FIELD(FlKafkaLeaveGroupMemberIdentity, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupMemberIdentity, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 3, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupMemberIdentity, reason, "Reason", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_leave_group_member_identity = {"MemberIdentity", FL_KAFKA_FIELDS(leave_group_member_identity_fields), sizeof(FlKafkaLeaveGroupMemberIdentity)};
_Static_assert(sizeof(FlKafkaLeaveGroupMemberIdentity) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField leave_group_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaLeaveGroupRequest, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupRequest, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 2, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupRequest, members, "Members", FL_KAFKA_STRUCT, true, &fl_kafka_struct_leave_group_member_identity, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_leave_group_request = {"LeaveGroupRequest", FL_KAFKA_FIELDS(leave_group_request_fields), sizeof(FlKafkaLeaveGroupRequest)};

const FlKafkaMessage fl_kafka_leave_group_request = {&fl_kafka_struct_leave_group_request, 0, 5, 4};

/* ---------- LeaveGroupResponse ---------- */

static const FlKafkaField leave_group_member_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaLeaveGroupMemberResponse, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupMemberResponse, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 3, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupMemberResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_leave_group_member_response = {"MemberResponse", FL_KAFKA_FIELDS(leave_group_member_response_fields), sizeof(FlKafkaLeaveGroupMemberResponse)};
_Static_assert(sizeof(FlKafkaLeaveGroupMemberResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField leave_group_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaLeaveGroupResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaLeaveGroupResponse, members, "Members", FL_KAFKA_STRUCT, true, &fl_kafka_struct_leave_group_member_response, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_leave_group_response = {"LeaveGroupResponse", FL_KAFKA_FIELDS(leave_group_response_fields), sizeof(FlKafkaLeaveGroupResponse)};

const FlKafkaMessage fl_kafka_leave_group_response = {&fl_kafka_struct_leave_group_response, 0, 5, 4};

/* ---------- SyncGroupRequest ---------- */

static const FlKafkaField sync_group_request_assignment_fields[] = {
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequestAssignment, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequestAssignment, assignment, "Assignment", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_sync_group_request_assignment = {"SyncGroupRequestAssignment", FL_KAFKA_FIELDS(sync_group_request_assignment_fields), sizeof(FlKafkaSyncGroupRequestAssignment)};
_Static_assert(sizeof(FlKafkaSyncGroupRequestAssignment) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField sync_group_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequest, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequest, generation_id, "GenerationId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequest, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequest, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 3, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequest, protocol_type, "ProtocolType", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequest, protocol_name, "ProtocolName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaSyncGroupRequest, assignments, "Assignments", FL_KAFKA_STRUCT, true, &fl_kafka_struct_sync_group_request_assignment, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_sync_group_request = {"SyncGroupRequest", FL_KAFKA_FIELDS(sync_group_request_fields), sizeof(FlKafkaSyncGroupRequest)};

const FlKafkaMessage fl_kafka_sync_group_request = {&fl_kafka_struct_sync_group_request, 0, 5, 4};

/* ---------- SyncGroupResponse ---------- */

static const FlKafkaField sync_group_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaSyncGroupResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSyncGroupResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSyncGroupResponse, protocol_type, "ProtocolType", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaSyncGroupResponse, protocol_name, "ProtocolName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaSyncGroupResponse, assignment, "Assignment", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_sync_group_response = {"SyncGroupResponse", FL_KAFKA_FIELDS(sync_group_response_fields), sizeof(FlKafkaSyncGroupResponse)};

const FlKafkaMessage fl_kafka_sync_group_response = {&fl_kafka_struct_sync_group_response, 0, 5, 4};

/* ---------- DescribeGroupsRequest ---------- */

static const FlKafkaField describe_groups_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsRequest, groups, "Groups", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsRequest, include_authorized_operations, "IncludeAuthorizedOperations", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_groups_request = {"DescribeGroupsRequest", FL_KAFKA_FIELDS(describe_groups_request_fields), sizeof(FlKafkaDescribeGroupsRequest)};

const FlKafkaMessage fl_kafka_describe_groups_request = {&fl_kafka_struct_describe_groups_request, 0, 6, 5};

/* ---------- DescribeGroupsResponse ---------- */

static const FlKafkaField describe_groups_described_group_member_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroupMember, member_id, "MemberId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroupMember, group_instance_id, "GroupInstanceId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 4, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroupMember, client_id, "ClientId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroupMember, client_host, "ClientHost", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroupMember, member_metadata, "MemberMetadata", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroupMember, member_assignment, "MemberAssignment", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_groups_described_group_member = {"DescribedGroupMember", FL_KAFKA_FIELDS(describe_groups_described_group_member_fields), sizeof(FlKafkaDescribeGroupsDescribedGroupMember)};
_Static_assert(sizeof(FlKafkaDescribeGroupsDescribedGroupMember) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_groups_described_group_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 6, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, group_state, "GroupState", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, protocol_type, "ProtocolType", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, protocol_data, "ProtocolData", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, members, "Members", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_groups_described_group_member, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsDescribedGroup, authorized_operations, "AuthorizedOperations", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, INT32_MIN),
};
const FlKafkaStruct fl_kafka_struct_describe_groups_described_group = {"DescribedGroup", FL_KAFKA_FIELDS(describe_groups_described_group_fields), sizeof(FlKafkaDescribeGroupsDescribedGroup)};
_Static_assert(sizeof(FlKafkaDescribeGroupsDescribedGroup) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_groups_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeGroupsResponse, groups, "Groups", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_groups_described_group, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_groups_response = {"DescribeGroupsResponse", FL_KAFKA_FIELDS(describe_groups_response_fields), sizeof(FlKafkaDescribeGroupsResponse)};

const FlKafkaMessage fl_kafka_describe_groups_response = {&fl_kafka_struct_describe_groups_response, 0, 6, 5};

/* ---------- ListGroupsRequest ---------- */

static const FlKafkaField list_groups_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListGroupsRequest, states_filter, "StatesFilter", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListGroupsRequest, types_filter, "TypesFilter", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_list_groups_request = {"ListGroupsRequest", FL_KAFKA_FIELDS(list_groups_request_fields), sizeof(FlKafkaListGroupsRequest)};

const FlKafkaMessage fl_kafka_list_groups_request = {&fl_kafka_struct_list_groups_request, 0, 5, 3};

/* ---------- ListGroupsResponse ---------- */

static const FlKafkaField list_groups_listed_group_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListGroupsListedGroup, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListGroupsListedGroup, protocol_type, "ProtocolType", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListGroupsListedGroup, group_state, "GroupState", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListGroupsListedGroup, group_type, "GroupType", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_list_groups_listed_group = {"ListedGroup", FL_KAFKA_FIELDS(list_groups_listed_group_fields), sizeof(FlKafkaListGroupsListedGroup)};
_Static_assert(sizeof(FlKafkaListGroupsListedGroup) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_groups_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListGroupsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListGroupsResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListGroupsResponse, groups, "Groups", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_groups_listed_group, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_list_groups_response = {"ListGroupsResponse", FL_KAFKA_FIELDS(list_groups_response_fields), sizeof(FlKafkaListGroupsResponse)};

const FlKafkaMessage fl_kafka_list_groups_response = {&fl_kafka_struct_list_groups_response, 0, 5, 3};

/* ---------- DeleteGroupsRequest ---------- */

static const FlKafkaField delete_groups_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteGroupsRequest, groups_names, "GroupsNames", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_groups_request = {"DeleteGroupsRequest", FL_KAFKA_FIELDS(delete_groups_request_fields), sizeof(FlKafkaDeleteGroupsRequest)};

const FlKafkaMessage fl_kafka_delete_groups_request = {&fl_kafka_struct_delete_groups_request, 0, 2, 2};

/* ---------- DeleteGroupsResponse ---------- */

static const FlKafkaField delete_groups_deletable_group_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteGroupsDeletableGroupResult, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteGroupsDeletableGroupResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_groups_deletable_group_result = {"DeletableGroupResult", FL_KAFKA_FIELDS(delete_groups_deletable_group_result_fields), sizeof(FlKafkaDeleteGroupsDeletableGroupResult)};
_Static_assert(sizeof(FlKafkaDeleteGroupsDeletableGroupResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_groups_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteGroupsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteGroupsResponse, results, "Results", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_groups_deletable_group_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_groups_response = {"DeleteGroupsResponse", FL_KAFKA_FIELDS(delete_groups_response_fields), sizeof(FlKafkaDeleteGroupsResponse)};

const FlKafkaMessage fl_kafka_delete_groups_response = {&fl_kafka_struct_delete_groups_response, 0, 2, 2};

/* ---------- OffsetDeleteRequest ---------- */

static const FlKafkaField offset_delete_request_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteRequestPartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_delete_request_partition = {"OffsetDeleteRequestPartition", FL_KAFKA_FIELDS(offset_delete_request_partition_fields), sizeof(FlKafkaOffsetDeleteRequestPartition)};
_Static_assert(sizeof(FlKafkaOffsetDeleteRequestPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_delete_request_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteRequestTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteRequestTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_delete_request_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_delete_request_topic = {"OffsetDeleteRequestTopic", FL_KAFKA_FIELDS(offset_delete_request_topic_fields), sizeof(FlKafkaOffsetDeleteRequestTopic)};
_Static_assert(sizeof(FlKafkaOffsetDeleteRequestTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_delete_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteRequest, group_id, "GroupId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_delete_request_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_delete_request = {"OffsetDeleteRequest", FL_KAFKA_FIELDS(offset_delete_request_fields), sizeof(FlKafkaOffsetDeleteRequest)};

const FlKafkaMessage fl_kafka_offset_delete_request = {&fl_kafka_struct_offset_delete_request, 0, 0, FL_KAFKA_NEVER};

/* ---------- OffsetDeleteResponse ---------- */

static const FlKafkaField offset_delete_response_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteResponsePartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteResponsePartition, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_delete_response_partition = {"OffsetDeleteResponsePartition", FL_KAFKA_FIELDS(offset_delete_response_partition_fields), sizeof(FlKafkaOffsetDeleteResponsePartition)};
_Static_assert(sizeof(FlKafkaOffsetDeleteResponsePartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_delete_response_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteResponseTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteResponseTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_delete_response_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_delete_response_topic = {"OffsetDeleteResponseTopic", FL_KAFKA_FIELDS(offset_delete_response_topic_fields), sizeof(FlKafkaOffsetDeleteResponseTopic)};
_Static_assert(sizeof(FlKafkaOffsetDeleteResponseTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_delete_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetDeleteResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_delete_response_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_delete_response = {"OffsetDeleteResponse", FL_KAFKA_FIELDS(offset_delete_response_fields), sizeof(FlKafkaOffsetDeleteResponse)};

const FlKafkaMessage fl_kafka_offset_delete_response = {&fl_kafka_struct_offset_delete_response, 0, 0, FL_KAFKA_NEVER};

/* ---------- ConsumerProtocolSubscription ---------- */

static const FlKafkaField consumer_protocol_subscription_topic_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolSubscriptionTopicPartition, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolSubscriptionTopicPartition, partitions, "Partitions", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_consumer_protocol_subscription_topic_partition = {"TopicPartition", FL_KAFKA_FIELDS(consumer_protocol_subscription_topic_partition_fields), sizeof(FlKafkaConsumerProtocolSubscriptionTopicPartition)};
_Static_assert(sizeof(FlKafkaConsumerProtocolSubscriptionTopicPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField consumer_protocol_subscription_fields[] = {
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolSubscription, topics, "Topics", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolSubscription, user_data, "UserData", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolSubscription, owned_partitions, "OwnedPartitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_consumer_protocol_subscription_topic_partition, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolSubscription, generation_id, "GenerationId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolSubscription, rack_id, "RackId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 3, 126, FL_KAFKA_NO_TAG, 1),
};
static const FlKafkaStruct fl_kafka_struct_consumer_protocol_subscription = {"ConsumerProtocolSubscription", FL_KAFKA_FIELDS(consumer_protocol_subscription_fields), sizeof(FlKafkaConsumerProtocolSubscription)};

const FlKafkaMessage fl_kafka_consumer_protocol_subscription = {&fl_kafka_struct_consumer_protocol_subscription, 0, 3, FL_KAFKA_NEVER};

/* ---------- ConsumerProtocolAssignment ---------- */

static const FlKafkaField consumer_protocol_assignment_topic_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolAssignmentTopicPartition, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolAssignmentTopicPartition, partitions, "Partitions", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_consumer_protocol_assignment_topic_partition = {"TopicPartition", FL_KAFKA_FIELDS(consumer_protocol_assignment_topic_partition_fields), sizeof(FlKafkaConsumerProtocolAssignmentTopicPartition)};
_Static_assert(sizeof(FlKafkaConsumerProtocolAssignmentTopicPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField consumer_protocol_assignment_fields[] = {
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolAssignment, assigned_partitions, "AssignedPartitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_consumer_protocol_assignment_topic_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaConsumerProtocolAssignment, user_data, "UserData", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
};
static const FlKafkaStruct fl_kafka_struct_consumer_protocol_assignment = {"ConsumerProtocolAssignment", FL_KAFKA_FIELDS(consumer_protocol_assignment_fields), sizeof(FlKafkaConsumerProtocolAssignment)};

const FlKafkaMessage fl_kafka_consumer_protocol_assignment = {&fl_kafka_struct_consumer_protocol_assignment, 0, 3, FL_KAFKA_NEVER};
