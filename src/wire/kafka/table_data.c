/*-------------------------------------------------------------------------
 *
 * table_data.c
 *	  Tables of Kafka's messages: records: produce, fetch, offsets, producer ids.
 *
 * Read by decode.c and encode.c, by nobody else.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#include "fleetlog/kafka_data.h"

#include "kafka_private.h"

/* ---------- ProduceRequest ---------- */

static const FlKafkaField produce_partition_produce_data_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceData, index, "Index", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceData, records, "Records", FL_KAFKA_RECORDS, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_produce_partition_produce_data = {"PartitionProduceData", FL_KAFKA_FIELDS(produce_partition_produce_data_fields), sizeof(FlKafkaProducePartitionProduceData)};
_Static_assert(sizeof(FlKafkaProducePartitionProduceData) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField produce_topic_produce_data_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProduceTopicProduceData, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 12, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceTopicProduceData, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   13, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceTopicProduceData, partition_data, "PartitionData", FL_KAFKA_STRUCT, true, &fl_kafka_struct_produce_partition_produce_data, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_produce_topic_produce_data = {"TopicProduceData", FL_KAFKA_FIELDS(produce_topic_produce_data_fields), sizeof(FlKafkaProduceTopicProduceData)};
_Static_assert(sizeof(FlKafkaProduceTopicProduceData) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField produce_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProduceRequest, transactional_id, "TransactionalId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 3, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaProduceRequest, acks, "Acks", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceRequest, timeout_ms, "TimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceRequest, topic_data, "TopicData", FL_KAFKA_STRUCT, true, &fl_kafka_struct_produce_topic_produce_data, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_produce_request = {"ProduceRequest", FL_KAFKA_FIELDS(produce_request_fields), sizeof(FlKafkaProduceRequest)};

const FlKafkaMessage fl_kafka_produce_request = {&fl_kafka_struct_produce_request, 3, 13, 9};

/* ---------- ProduceResponse ---------- */

static const FlKafkaField produce_batch_index_and_error_message_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProduceBatchIndexAndErrorMessage, batch_index, "BatchIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceBatchIndexAndErrorMessage, batch_index_error_message, "BatchIndexErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 8, 126, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_produce_batch_index_and_error_message = {"BatchIndexAndErrorMessage", FL_KAFKA_FIELDS(produce_batch_index_and_error_message_fields), sizeof(FlKafkaProduceBatchIndexAndErrorMessage)};
_Static_assert(sizeof(FlKafkaProduceBatchIndexAndErrorMessage) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField produce_leader_id_and_epoch_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProduceLeaderIdAndEpoch, leader_id, "LeaderId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaProduceLeaderIdAndEpoch, leader_epoch, "LeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
const FlKafkaStruct fl_kafka_struct_produce_leader_id_and_epoch = {"LeaderIdAndEpoch", FL_KAFKA_FIELDS(produce_leader_id_and_epoch_fields), sizeof(FlKafkaProduceLeaderIdAndEpoch)};
_Static_assert(sizeof(FlKafkaProduceLeaderIdAndEpoch) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField produce_partition_produce_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, index, "Index", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, base_offset, "BaseOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, log_append_time_ms, "LogAppendTimeMs", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, log_start_offset, "LogStartOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, record_errors, "RecordErrors", FL_KAFKA_STRUCT, true, &fl_kafka_struct_produce_batch_index_and_error_message, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 8, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaProducePartitionProduceResponse, current_leader, "CurrentLeader", FL_KAFKA_STRUCT, false, &fl_kafka_struct_produce_leader_id_and_epoch, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, 0, 0),
};
const FlKafkaStruct fl_kafka_struct_produce_partition_produce_response = {"PartitionProduceResponse", FL_KAFKA_FIELDS(produce_partition_produce_response_fields), sizeof(FlKafkaProducePartitionProduceResponse)};
_Static_assert(sizeof(FlKafkaProducePartitionProduceResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField produce_topic_produce_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProduceTopicProduceResponse, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 12, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceTopicProduceResponse, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   13, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceTopicProduceResponse, partition_responses, "PartitionResponses", FL_KAFKA_STRUCT, true, &fl_kafka_struct_produce_partition_produce_response, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_produce_topic_produce_response = {"TopicProduceResponse", FL_KAFKA_FIELDS(produce_topic_produce_response_fields), sizeof(FlKafkaProduceTopicProduceResponse)};
_Static_assert(sizeof(FlKafkaProduceTopicProduceResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField produce_node_endpoint_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProduceNodeEndpoint, node_id, "NodeId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceNodeEndpoint, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceNodeEndpoint, port, "Port", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceNodeEndpoint, rack, "Rack", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 10, 126, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_produce_node_endpoint = {"NodeEndpoint", FL_KAFKA_FIELDS(produce_node_endpoint_fields), sizeof(FlKafkaProduceNodeEndpoint)};
_Static_assert(sizeof(FlKafkaProduceNodeEndpoint) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField produce_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaProduceResponse, responses, "Responses", FL_KAFKA_STRUCT, true, &fl_kafka_struct_produce_topic_produce_response, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaProduceResponse, node_endpoints, "NodeEndpoints", FL_KAFKA_STRUCT, true, &fl_kafka_struct_produce_node_endpoint, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, 0, 0),
};
static const FlKafkaStruct fl_kafka_struct_produce_response = {"ProduceResponse", FL_KAFKA_FIELDS(produce_response_fields), sizeof(FlKafkaProduceResponse)};

const FlKafkaMessage fl_kafka_produce_response = {&fl_kafka_struct_produce_response, 3, 13, 9};

/* ---------- FetchRequest ---------- */

static const FlKafkaField fetch_replica_state_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchReplicaState, replica_id, "ReplicaId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   15, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchReplicaState, replica_epoch, "ReplicaEpoch", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   15, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
const FlKafkaStruct fl_kafka_struct_fetch_replica_state = {"ReplicaState", FL_KAFKA_FIELDS(fetch_replica_state_fields), sizeof(FlKafkaFetchReplicaState)};
_Static_assert(sizeof(FlKafkaFetchReplicaState) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchPartition, partition, "Partition", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartition, current_leader_epoch, "CurrentLeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   9, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchPartition, fetch_offset, "FetchOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartition, last_fetched_epoch, "LastFetchedEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchPartition, log_start_offset, "LogStartOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchPartition, partition_max_bytes, "PartitionMaxBytes", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartition, replica_directory_id, "ReplicaDirectoryId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   17, 126, 127, -1, 0, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartition, high_watermark, "HighWatermark", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   18, 126, 127, -1, 1, INT64_C(9223372036854775807)),
};
const FlKafkaStruct fl_kafka_struct_fetch_partition = {"FetchPartition", FL_KAFKA_FIELDS(fetch_partition_fields), sizeof(FlKafkaFetchPartition)};
_Static_assert(sizeof(FlKafkaFetchPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchTopic, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 12, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchTopic, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   13, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_fetch_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_fetch_topic = {"FetchTopic", FL_KAFKA_FIELDS(fetch_topic_fields), sizeof(FlKafkaFetchTopic)};
_Static_assert(sizeof(FlKafkaFetchTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_forgotten_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchForgottenTopic, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 12, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchForgottenTopic, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   13, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchForgottenTopic, partitions, "Partitions", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_fetch_forgotten_topic = {"ForgottenTopic", FL_KAFKA_FIELDS(fetch_forgotten_topic_fields), sizeof(FlKafkaFetchForgottenTopic)};
_Static_assert(sizeof(FlKafkaFetchForgottenTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchRequest, replica_id, "ReplicaId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 14, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, max_wait_ms, "MaxWaitMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, min_bytes, "MinBytes", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, max_bytes, "MaxBytes", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 2147483647),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, isolation_level, "IsolationLevel", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, session_id, "SessionId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, session_epoch, "SessionEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_fetch_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, forgotten_topics_data, "ForgottenTopicsData", FL_KAFKA_STRUCT, true, &fl_kafka_struct_fetch_forgotten_topic, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, rack_id, "RackId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   11, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, cluster_id, "ClusterId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   12, 126, 12, 126, 0, 1),
	FL_KAFKA_FIELD(FlKafkaFetchRequest, replica_state, "ReplicaState", FL_KAFKA_STRUCT, false, &fl_kafka_struct_fetch_replica_state, FL_KAFKA_NO_PRESENT,
				   15, 126, 127, -1, 1, 0),
};
static const FlKafkaStruct fl_kafka_struct_fetch_request = {"FetchRequest", FL_KAFKA_FIELDS(fetch_request_fields), sizeof(FlKafkaFetchRequest)};

const FlKafkaMessage fl_kafka_fetch_request = {&fl_kafka_struct_fetch_request, 4, 18, 12};

/* ---------- FetchResponse ---------- */

static const FlKafkaField fetch_epoch_end_offset_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchEpochEndOffset, epoch, "Epoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchEpochEndOffset, end_offset, "EndOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
const FlKafkaStruct fl_kafka_struct_fetch_epoch_end_offset = {"EpochEndOffset", FL_KAFKA_FIELDS(fetch_epoch_end_offset_fields), sizeof(FlKafkaFetchEpochEndOffset)};
_Static_assert(sizeof(FlKafkaFetchEpochEndOffset) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_leader_id_and_epoch_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchLeaderIdAndEpoch, leader_id, "LeaderId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchLeaderIdAndEpoch, leader_epoch, "LeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
const FlKafkaStruct fl_kafka_struct_fetch_leader_id_and_epoch = {"LeaderIdAndEpoch", FL_KAFKA_FIELDS(fetch_leader_id_and_epoch_fields), sizeof(FlKafkaFetchLeaderIdAndEpoch)};
_Static_assert(sizeof(FlKafkaFetchLeaderIdAndEpoch) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_snapshot_id_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchSnapshotId, end_offset, "EndOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchSnapshotId, epoch, "Epoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
const FlKafkaStruct fl_kafka_struct_fetch_snapshot_id = {"SnapshotId", FL_KAFKA_FIELDS(fetch_snapshot_id_fields), sizeof(FlKafkaFetchSnapshotId)};
_Static_assert(sizeof(FlKafkaFetchSnapshotId) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_aborted_transaction_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchAbortedTransaction, producer_id, "ProducerId", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchAbortedTransaction, first_offset, "FirstOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_fetch_aborted_transaction = {"AbortedTransaction", FL_KAFKA_FIELDS(fetch_aborted_transaction_fields), sizeof(FlKafkaFetchAbortedTransaction)};
_Static_assert(sizeof(FlKafkaFetchAbortedTransaction) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_partition_data_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, high_watermark, "HighWatermark", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, last_stable_offset, "LastStableOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, log_start_offset, "LogStartOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, aborted_transactions, "AbortedTransactions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_fetch_aborted_transaction, FL_KAFKA_NO_PRESENT,
				   4, 126, 4, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, preferred_read_replica, "PreferredReadReplica", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   11, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, records, "Records", FL_KAFKA_RECORDS, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, diverging_epoch, "DivergingEpoch", FL_KAFKA_STRUCT, false, &fl_kafka_struct_fetch_epoch_end_offset, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, 0, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, current_leader, "CurrentLeader", FL_KAFKA_STRUCT, false, &fl_kafka_struct_fetch_leader_id_and_epoch, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, 1, 0),
	FL_KAFKA_FIELD(FlKafkaFetchPartitionData, snapshot_id, "SnapshotId", FL_KAFKA_STRUCT, false, &fl_kafka_struct_fetch_snapshot_id, FL_KAFKA_NO_PRESENT,
				   12, 126, 127, -1, 2, 0),
};
const FlKafkaStruct fl_kafka_struct_fetch_partition_data = {"PartitionData", FL_KAFKA_FIELDS(fetch_partition_data_fields), sizeof(FlKafkaFetchPartitionData)};
_Static_assert(sizeof(FlKafkaFetchPartitionData) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetchable_topic_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchableTopicResponse, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 12, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchableTopicResponse, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   13, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchableTopicResponse, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_fetch_partition_data, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_fetchable_topic_response = {"FetchableTopicResponse", FL_KAFKA_FIELDS(fetchable_topic_response_fields), sizeof(FlKafkaFetchableTopicResponse)};
_Static_assert(sizeof(FlKafkaFetchableTopicResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_node_endpoint_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchNodeEndpoint, node_id, "NodeId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   16, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchNodeEndpoint, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   16, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchNodeEndpoint, port, "Port", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   16, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchNodeEndpoint, rack, "Rack", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   16, 126, 16, 126, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_fetch_node_endpoint = {"NodeEndpoint", FL_KAFKA_FIELDS(fetch_node_endpoint_fields), sizeof(FlKafkaFetchNodeEndpoint)};
_Static_assert(sizeof(FlKafkaFetchNodeEndpoint) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField fetch_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaFetchResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchResponse, session_id, "SessionId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchResponse, responses, "Responses", FL_KAFKA_STRUCT, true, &fl_kafka_struct_fetchable_topic_response, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaFetchResponse, node_endpoints, "NodeEndpoints", FL_KAFKA_STRUCT, true, &fl_kafka_struct_fetch_node_endpoint, FL_KAFKA_NO_PRESENT,
				   16, 126, 127, -1, 0, 0),
};
static const FlKafkaStruct fl_kafka_struct_fetch_response = {"FetchResponse", FL_KAFKA_FIELDS(fetch_response_fields), sizeof(FlKafkaFetchResponse)};

const FlKafkaMessage fl_kafka_fetch_response = {&fl_kafka_struct_fetch_response, 4, 18, 12};

/* ---------- ListOffsetsRequest ---------- */

static const FlKafkaField list_offsets_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartition, current_leader_epoch, "CurrentLeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartition, timestamp, "Timestamp", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartition, max_num_offsets, "MaxNumOffsets", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 0, 127, -1, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_list_offsets_partition = {"ListOffsetsPartition", FL_KAFKA_FIELDS(list_offsets_partition_fields), sizeof(FlKafkaListOffsetsPartition)};
_Static_assert(sizeof(FlKafkaListOffsetsPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_offsets_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListOffsetsTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_offsets_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_list_offsets_topic = {"ListOffsetsTopic", FL_KAFKA_FIELDS(list_offsets_topic_fields), sizeof(FlKafkaListOffsetsTopic)};
_Static_assert(sizeof(FlKafkaListOffsetsTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_offsets_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListOffsetsRequest, replica_id, "ReplicaId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsRequest, isolation_level, "IsolationLevel", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_offsets_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsRequest, timeout_ms, "TimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_list_offsets_request = {"ListOffsetsRequest", FL_KAFKA_FIELDS(list_offsets_request_fields), sizeof(FlKafkaListOffsetsRequest)};

const FlKafkaMessage fl_kafka_list_offsets_request = {&fl_kafka_struct_list_offsets_request, 1, 11, 6};

/* ---------- ListOffsetsResponse ---------- */

static const FlKafkaField list_offsets_partition_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartitionResponse, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartitionResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartitionResponse, old_style_offsets, "OldStyleOffsets", FL_KAFKA_INT64, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 0, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartitionResponse, timestamp, "Timestamp", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartitionResponse, offset, "Offset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaListOffsetsPartitionResponse, leader_epoch, "LeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
const FlKafkaStruct fl_kafka_struct_list_offsets_partition_response = {"ListOffsetsPartitionResponse", FL_KAFKA_FIELDS(list_offsets_partition_response_fields), sizeof(FlKafkaListOffsetsPartitionResponse)};
_Static_assert(sizeof(FlKafkaListOffsetsPartitionResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_offsets_topic_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListOffsetsTopicResponse, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsTopicResponse, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_offsets_partition_response, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_list_offsets_topic_response = {"ListOffsetsTopicResponse", FL_KAFKA_FIELDS(list_offsets_topic_response_fields), sizeof(FlKafkaListOffsetsTopicResponse)};
_Static_assert(sizeof(FlKafkaListOffsetsTopicResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_offsets_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListOffsetsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListOffsetsResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_offsets_topic_response, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_list_offsets_response = {"ListOffsetsResponse", FL_KAFKA_FIELDS(list_offsets_response_fields), sizeof(FlKafkaListOffsetsResponse)};

const FlKafkaMessage fl_kafka_list_offsets_response = {&fl_kafka_struct_list_offsets_response, 1, 11, 6};

/* ---------- DeleteRecordsRequest ---------- */

static const FlKafkaField delete_records_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsPartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsPartition, offset, "Offset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_records_partition = {"DeleteRecordsPartition", FL_KAFKA_FIELDS(delete_records_partition_fields), sizeof(FlKafkaDeleteRecordsPartition)};
_Static_assert(sizeof(FlKafkaDeleteRecordsPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_records_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_records_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_records_topic = {"DeleteRecordsTopic", FL_KAFKA_FIELDS(delete_records_topic_fields), sizeof(FlKafkaDeleteRecordsTopic)};
_Static_assert(sizeof(FlKafkaDeleteRecordsTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_records_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_records_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsRequest, timeout_ms, "TimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_records_request = {"DeleteRecordsRequest", FL_KAFKA_FIELDS(delete_records_request_fields), sizeof(FlKafkaDeleteRecordsRequest)};

const FlKafkaMessage fl_kafka_delete_records_request = {&fl_kafka_struct_delete_records_request, 0, 2, 2};

/* ---------- DeleteRecordsResponse ---------- */

static const FlKafkaField delete_records_partition_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsPartitionResult, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsPartitionResult, low_watermark, "LowWatermark", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsPartitionResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_records_partition_result = {"DeleteRecordsPartitionResult", FL_KAFKA_FIELDS(delete_records_partition_result_fields), sizeof(FlKafkaDeleteRecordsPartitionResult)};
_Static_assert(sizeof(FlKafkaDeleteRecordsPartitionResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_records_topic_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsTopicResult, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsTopicResult, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_records_partition_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_records_topic_result = {"DeleteRecordsTopicResult", FL_KAFKA_FIELDS(delete_records_topic_result_fields), sizeof(FlKafkaDeleteRecordsTopicResult)};
_Static_assert(sizeof(FlKafkaDeleteRecordsTopicResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_records_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteRecordsResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_records_topic_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_records_response = {"DeleteRecordsResponse", FL_KAFKA_FIELDS(delete_records_response_fields), sizeof(FlKafkaDeleteRecordsResponse)};

const FlKafkaMessage fl_kafka_delete_records_response = {&fl_kafka_struct_delete_records_response, 0, 2, 2};

/* ---------- InitProducerIdRequest ---------- */

static const FlKafkaField init_producer_id_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaInitProducerIdRequest, transactional_id, "TransactionalId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdRequest, transaction_timeout_ms, "TransactionTimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdRequest, producer_id, "ProducerId", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdRequest, producer_epoch, "ProducerEpoch", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdRequest, enable2_pc, "Enable2Pc", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdRequest, keep_prepared_txn, "KeepPreparedTxn", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_init_producer_id_request = {"InitProducerIdRequest", FL_KAFKA_FIELDS(init_producer_id_request_fields), sizeof(FlKafkaInitProducerIdRequest)};

const FlKafkaMessage fl_kafka_init_producer_id_request = {&fl_kafka_struct_init_producer_id_request, 0, 6, 2};

/* ---------- InitProducerIdResponse ---------- */

static const FlKafkaField init_producer_id_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaInitProducerIdResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdResponse, producer_id, "ProducerId", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdResponse, producer_epoch, "ProducerEpoch", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdResponse, ongoing_txn_producer_id, "OngoingTxnProducerId", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaInitProducerIdResponse, ongoing_txn_producer_epoch, "OngoingTxnProducerEpoch", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
static const FlKafkaStruct fl_kafka_struct_init_producer_id_response = {"InitProducerIdResponse", FL_KAFKA_FIELDS(init_producer_id_response_fields), sizeof(FlKafkaInitProducerIdResponse)};

const FlKafkaMessage fl_kafka_init_producer_id_response = {&fl_kafka_struct_init_producer_id_response, 0, 6, 2};

/* ---------- OffsetForLeaderEpochRequest ---------- */

static const FlKafkaField offset_for_leader_epoch_offset_for_leader_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition, partition, "Partition", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition, current_leader_epoch, "CurrentLeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition, leader_epoch, "LeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_for_leader_epoch_offset_for_leader_partition = {"OffsetForLeaderPartition", FL_KAFKA_FIELDS(offset_for_leader_epoch_offset_for_leader_partition_fields), sizeof(FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition)};
_Static_assert(sizeof(FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_for_leader_epoch_offset_for_leader_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_for_leader_epoch_offset_for_leader_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_for_leader_epoch_offset_for_leader_topic = {"OffsetForLeaderTopic", FL_KAFKA_FIELDS(offset_for_leader_epoch_offset_for_leader_topic_fields), sizeof(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic)};
_Static_assert(sizeof(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_for_leader_epoch_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochRequest, replica_id, "ReplicaId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, -2),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_for_leader_epoch_offset_for_leader_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_for_leader_epoch_request = {"OffsetForLeaderEpochRequest", FL_KAFKA_FIELDS(offset_for_leader_epoch_request_fields), sizeof(FlKafkaOffsetForLeaderEpochRequest)};

const FlKafkaMessage fl_kafka_offset_for_leader_epoch_request = {&fl_kafka_struct_offset_for_leader_epoch_request, 2, 4, 4};

/* ---------- OffsetForLeaderEpochResponse ---------- */

static const FlKafkaField offset_for_leader_epoch_epoch_end_offset_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochEpochEndOffset, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochEpochEndOffset, partition, "Partition", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochEpochEndOffset, leader_epoch, "LeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochEpochEndOffset, end_offset, "EndOffset", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
};
const FlKafkaStruct fl_kafka_struct_offset_for_leader_epoch_epoch_end_offset = {"EpochEndOffset", FL_KAFKA_FIELDS(offset_for_leader_epoch_epoch_end_offset_fields), sizeof(FlKafkaOffsetForLeaderEpochEpochEndOffset)};
_Static_assert(sizeof(FlKafkaOffsetForLeaderEpochEpochEndOffset) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_for_leader_epoch_offset_for_leader_topic_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_for_leader_epoch_epoch_end_offset, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_offset_for_leader_epoch_offset_for_leader_topic_result = {"OffsetForLeaderTopicResult", FL_KAFKA_FIELDS(offset_for_leader_epoch_offset_for_leader_topic_result_fields), sizeof(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult)};
_Static_assert(sizeof(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField offset_for_leader_epoch_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaOffsetForLeaderEpochResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_offset_for_leader_epoch_offset_for_leader_topic_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_offset_for_leader_epoch_response = {"OffsetForLeaderEpochResponse", FL_KAFKA_FIELDS(offset_for_leader_epoch_response_fields), sizeof(FlKafkaOffsetForLeaderEpochResponse)};

const FlKafkaMessage fl_kafka_offset_for_leader_epoch_response = {&fl_kafka_struct_offset_for_leader_epoch_response, 2, 4, 4};
