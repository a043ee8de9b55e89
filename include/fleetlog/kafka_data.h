/*-------------------------------------------------------------------------
 *
 * kafka_data.h
 *	  Kafka's messages: records: produce, fetch, offsets, producer ids.
 *
 * How to use them is told in kafka_codec.h.  A comment gives the versions that have
 * the field, where it may be null, its tag, and a default that is not zero or empty.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#ifndef FLEETLOG_KAFKA_DATA_H
#define FLEETLOG_KAFKA_DATA_H

#include "fleetlog/kafka_codec.h"

/* ---------- ProduceRequest, versions 3-13, flexible from 9 ---------- */

typedef struct FlKafkaProducePartitionProduceData
{
	int32_t index; /* 0+ */
	FlKafkaRecords records; /* 0+, null */
} FlKafkaProducePartitionProduceData;

typedef struct FlKafkaProduceTopicProduceData
{
	FlKafkaBytes name; /* 0-12 */
	FlKafkaUuid topic_id; /* 13+ */
	FL_KAFKA_ARRAY(FlKafkaProducePartitionProduceData) partition_data; /* 0+ */
} FlKafkaProduceTopicProduceData;

typedef struct FlKafkaProduceRequest
{
	FlKafkaBytes transactional_id; /* 3+, null, default null */
	int16_t acks; /* 0+ */
	int32_t timeout_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaProduceTopicProduceData) topic_data; /* 0+ */
} FlKafkaProduceRequest;

FL_KAFKA_DECLARE_STRUCT(produce_partition_produce_data, FlKafkaProducePartitionProduceData)
FL_KAFKA_DECLARE_STRUCT(produce_topic_produce_data, FlKafkaProduceTopicProduceData)
FL_KAFKA_DECLARE_MESSAGE(produce_request, FlKafkaProduceRequest)

/* ---------- ProduceResponse, versions 3-13, flexible from 9 ---------- */

typedef struct FlKafkaProduceBatchIndexAndErrorMessage
{
	int32_t batch_index; /* 8+ */
	FlKafkaBytes batch_index_error_message; /* 8+, null, default null */
} FlKafkaProduceBatchIndexAndErrorMessage;

typedef struct FlKafkaProduceLeaderIdAndEpoch
{
	int32_t leader_id; /* 10+, default -1 */
	int32_t leader_epoch; /* 10+, default -1 */
} FlKafkaProduceLeaderIdAndEpoch;

typedef struct FlKafkaProducePartitionProduceResponse
{
	int32_t index; /* 0+ */
	int16_t error_code; /* 0+ */
	int64_t base_offset; /* 0+ */
	int64_t log_append_time_ms; /* 2+, default -1 */
	int64_t log_start_offset; /* 5+, default -1 */
	FL_KAFKA_ARRAY(FlKafkaProduceBatchIndexAndErrorMessage) record_errors; /* 8+ */
	FlKafkaBytes error_message; /* 8+, null, default null */
	FlKafkaProduceLeaderIdAndEpoch current_leader; /* 10+, tag 0 */
} FlKafkaProducePartitionProduceResponse;

typedef struct FlKafkaProduceTopicProduceResponse
{
	FlKafkaBytes name; /* 0-12 */
	FlKafkaUuid topic_id; /* 13+ */
	FL_KAFKA_ARRAY(FlKafkaProducePartitionProduceResponse) partition_responses; /* 0+ */
} FlKafkaProduceTopicProduceResponse;

typedef struct FlKafkaProduceNodeEndpoint
{
	int32_t node_id; /* 10+ */
	FlKafkaBytes host; /* 10+ */
	int32_t port; /* 10+ */
	FlKafkaBytes rack; /* 10+, null, default null */
} FlKafkaProduceNodeEndpoint;

typedef struct FlKafkaProduceResponse
{
	FL_KAFKA_ARRAY(FlKafkaProduceTopicProduceResponse) responses; /* 0+ */
	int32_t throttle_time_ms; /* 1+ */
	FL_KAFKA_ARRAY(FlKafkaProduceNodeEndpoint) node_endpoints; /* 10+, tag 0 */
} FlKafkaProduceResponse;

FL_KAFKA_DECLARE_STRUCT(produce_batch_index_and_error_message, FlKafkaProduceBatchIndexAndErrorMessage)
FL_KAFKA_DECLARE_STRUCT(produce_leader_id_and_epoch, FlKafkaProduceLeaderIdAndEpoch)
FL_KAFKA_DECLARE_STRUCT(produce_partition_produce_response, FlKafkaProducePartitionProduceResponse)
FL_KAFKA_DECLARE_STRUCT(produce_topic_produce_response, FlKafkaProduceTopicProduceResponse)
FL_KAFKA_DECLARE_STRUCT(produce_node_endpoint, FlKafkaProduceNodeEndpoint)
FL_KAFKA_DECLARE_MESSAGE(produce_response, FlKafkaProduceResponse)

/* ---------- FetchRequest, versions 4-18, flexible from 12 ---------- */

typedef struct FlKafkaFetchReplicaState
{
	int32_t replica_id; /* 15+, default -1 */
	int64_t replica_epoch; /* 15+, default -1 */
} FlKafkaFetchReplicaState;

typedef struct FlKafkaFetchPartition
{
	int32_t partition; /* 0+ */
	int32_t current_leader_epoch; /* 9+, default -1 */
	int64_t fetch_offset; /* 0+ */
	int32_t last_fetched_epoch; /* 12+, default -1 */
	int64_t log_start_offset; /* 5+, default -1 */
	int32_t partition_max_bytes; /* 0+ */
	FlKafkaUuid replica_directory_id; /* 17+, tag 0 */
	int64_t high_watermark; /* 18+, tag 1, default 9223372036854775807 */
} FlKafkaFetchPartition;

typedef struct FlKafkaFetchTopic
{
	FlKafkaBytes topic; /* 0-12 */
	FlKafkaUuid topic_id; /* 13+ */
	FL_KAFKA_ARRAY(FlKafkaFetchPartition) partitions; /* 0+ */
} FlKafkaFetchTopic;

typedef struct FlKafkaFetchForgottenTopic
{
	FlKafkaBytes topic; /* 7-12 */
	FlKafkaUuid topic_id; /* 13+ */
	FL_KAFKA_ARRAY(int32_t) partitions; /* 7+ */
} FlKafkaFetchForgottenTopic;

typedef struct FlKafkaFetchRequest
{
	int32_t replica_id; /* 0-14, default -1 */
	int32_t max_wait_ms; /* 0+ */
	int32_t min_bytes; /* 0+ */
	int32_t max_bytes; /* 3+, default 2147483647 */
	int8_t isolation_level; /* 4+ */
	int32_t session_id; /* 7+ */
	int32_t session_epoch; /* 7+, default -1 */
	FL_KAFKA_ARRAY(FlKafkaFetchTopic) topics; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaFetchForgottenTopic) forgotten_topics_data; /* 7+ */
	FlKafkaBytes rack_id; /* 11+ */
	FlKafkaBytes cluster_id; /* 12+, null, tag 0, default null */
	FlKafkaFetchReplicaState replica_state; /* 15+, tag 1 */
} FlKafkaFetchRequest;

FL_KAFKA_DECLARE_STRUCT(fetch_replica_state, FlKafkaFetchReplicaState)
FL_KAFKA_DECLARE_STRUCT(fetch_partition, FlKafkaFetchPartition)
FL_KAFKA_DECLARE_STRUCT(fetch_topic, FlKafkaFetchTopic)
FL_KAFKA_DECLARE_STRUCT(fetch_forgotten_topic, FlKafkaFetchForgottenTopic)
FL_KAFKA_DECLARE_MESSAGE(fetch_request, FlKafkaFetchRequest)

/* ---------- FetchResponse, versions 4-18, flexible from 12 ---------- */

typedef struct FlKafkaFetchEpochEndOffset
{
	int32_t epoch; /* 12+, default -1 */
	int64_t end_offset; /* 12+, default -1 */
} FlKafkaFetchEpochEndOffset;

typedef struct FlKafkaFetchLeaderIdAndEpoch
{
	int32_t leader_id; /* 12+, default -1 */
	int32_t leader_epoch; /* 12+, default -1 */
} FlKafkaFetchLeaderIdAndEpoch;

typedef struct FlKafkaFetchSnapshotId
{
	int64_t end_offset; /* 0+, default -1 */
	int32_t epoch; /* 0+, default -1 */
} FlKafkaFetchSnapshotId;

typedef struct FlKafkaFetchAbortedTransaction
{
	int64_t producer_id; /* 4+ */
	int64_t first_offset; /* 4+ */
} FlKafkaFetchAbortedTransaction;

typedef struct FlKafkaFetchPartitionData
{
	int32_t partition_index; /* 0+ */
	int16_t error_code; /* 0+ */
	int64_t high_watermark; /* 0+ */
	int64_t last_stable_offset; /* 4+, default -1 */
	int64_t log_start_offset; /* 5+, default -1 */
	FL_KAFKA_ARRAY(FlKafkaFetchAbortedTransaction) aborted_transactions; /* 4+, null */
	int32_t preferred_read_replica; /* 11+, default -1 */
	FlKafkaRecords records; /* 0+, null */
	FlKafkaFetchEpochEndOffset diverging_epoch; /* 12+, tag 0 */
	FlKafkaFetchLeaderIdAndEpoch current_leader; /* 12+, tag 1 */
	FlKafkaFetchSnapshotId snapshot_id; /* 12+, tag 2 */
} FlKafkaFetchPartitionData;

typedef struct FlKafkaFetchableTopicResponse
{
	FlKafkaBytes topic; /* 0-12 */
	FlKafkaUuid topic_id; /* 13+ */
	FL_KAFKA_ARRAY(FlKafkaFetchPartitionData) partitions; /* 0+ */
} FlKafkaFetchableTopicResponse;

typedef struct FlKafkaFetchNodeEndpoint
{
	int32_t node_id; /* 16+ */
	FlKafkaBytes host; /* 16+ */
	int32_t port; /* 16+ */
	FlKafkaBytes rack; /* 16+, null, default null */
} FlKafkaFetchNodeEndpoint;

typedef struct FlKafkaFetchResponse
{
	int32_t throttle_time_ms; /* 1+ */
	int16_t error_code; /* 7+ */
	int32_t session_id; /* 7+ */
	FL_KAFKA_ARRAY(FlKafkaFetchableTopicResponse) responses; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaFetchNodeEndpoint) node_endpoints; /* 16+, tag 0 */
} FlKafkaFetchResponse;

FL_KAFKA_DECLARE_STRUCT(fetch_epoch_end_offset, FlKafkaFetchEpochEndOffset)
FL_KAFKA_DECLARE_STRUCT(fetch_leader_id_and_epoch, FlKafkaFetchLeaderIdAndEpoch)
FL_KAFKA_DECLARE_STRUCT(fetch_snapshot_id, FlKafkaFetchSnapshotId)
FL_KAFKA_DECLARE_STRUCT(fetch_aborted_transaction, FlKafkaFetchAbortedTransaction)
FL_KAFKA_DECLARE_STRUCT(fetch_partition_data, FlKafkaFetchPartitionData)
FL_KAFKA_DECLARE_STRUCT(fetchable_topic_response, FlKafkaFetchableTopicResponse)
FL_KAFKA_DECLARE_STRUCT(fetch_node_endpoint, FlKafkaFetchNodeEndpoint)
FL_KAFKA_DECLARE_MESSAGE(fetch_response, FlKafkaFetchResponse)

/* ---------- ListOffsetsRequest, versions 1-11, flexible from 6 ---------- */

typedef struct FlKafkaListOffsetsPartition
{
	int32_t partition_index; /* 0+ */
	int32_t current_leader_epoch; /* 4+, default -1 */
	int64_t timestamp; /* 0+ */
	int32_t max_num_offsets; /* 0, default 1 */
} FlKafkaListOffsetsPartition;

typedef struct FlKafkaListOffsetsTopic
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaListOffsetsPartition) partitions; /* 0+ */
} FlKafkaListOffsetsTopic;

typedef struct FlKafkaListOffsetsRequest
{
	int32_t replica_id; /* 0+ */
	int8_t isolation_level; /* 2+ */
	FL_KAFKA_ARRAY(FlKafkaListOffsetsTopic) topics; /* 0+ */
	int32_t timeout_ms; /* 10+ */
} FlKafkaListOffsetsRequest;

FL_KAFKA_DECLARE_STRUCT(list_offsets_partition, FlKafkaListOffsetsPartition)
FL_KAFKA_DECLARE_STRUCT(list_offsets_topic, FlKafkaListOffsetsTopic)
FL_KAFKA_DECLARE_MESSAGE(list_offsets_request, FlKafkaListOffsetsRequest)

/* ---------- ListOffsetsResponse, versions 1-11, flexible from 6 ---------- */

typedef struct FlKafkaListOffsetsPartitionResponse
{
	int32_t partition_index; /* 0+ */
	int16_t error_code; /* 0+ */
	FL_KAFKA_ARRAY(int64_t) old_style_offsets; /* 0 */
	int64_t timestamp; /* 1+, default -1 */
	int64_t offset; /* 1+, default -1 */
	int32_t leader_epoch; /* 4+, default -1 */
} FlKafkaListOffsetsPartitionResponse;

typedef struct FlKafkaListOffsetsTopicResponse
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaListOffsetsPartitionResponse) partitions; /* 0+ */
} FlKafkaListOffsetsTopicResponse;

typedef struct FlKafkaListOffsetsResponse
{
	int32_t throttle_time_ms; /* 2+ */
	FL_KAFKA_ARRAY(FlKafkaListOffsetsTopicResponse) topics; /* 0+ */
} FlKafkaListOffsetsResponse;

FL_KAFKA_DECLARE_STRUCT(list_offsets_partition_response, FlKafkaListOffsetsPartitionResponse)
FL_KAFKA_DECLARE_STRUCT(list_offsets_topic_response, FlKafkaListOffsetsTopicResponse)
FL_KAFKA_DECLARE_MESSAGE(list_offsets_response, FlKafkaListOffsetsResponse)

/* ---------- DeleteRecordsRequest, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaDeleteRecordsPartition
{
	int32_t partition_index; /* 0+ */
	int64_t offset; /* 0+ */
} FlKafkaDeleteRecordsPartition;

typedef struct FlKafkaDeleteRecordsTopic
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDeleteRecordsPartition) partitions; /* 0+ */
} FlKafkaDeleteRecordsTopic;

typedef struct FlKafkaDeleteRecordsRequest
{
	FL_KAFKA_ARRAY(FlKafkaDeleteRecordsTopic) topics; /* 0+ */
	int32_t timeout_ms; /* 0+ */
} FlKafkaDeleteRecordsRequest;

FL_KAFKA_DECLARE_STRUCT(delete_records_partition, FlKafkaDeleteRecordsPartition)
FL_KAFKA_DECLARE_STRUCT(delete_records_topic, FlKafkaDeleteRecordsTopic)
FL_KAFKA_DECLARE_MESSAGE(delete_records_request, FlKafkaDeleteRecordsRequest)

/* ---------- DeleteRecordsResponse, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaDeleteRecordsPartitionResult
{
	int32_t partition_index; /* 0+ */
	int64_t low_watermark; /* 0+ */
	int16_t error_code; /* 0+ */
} FlKafkaDeleteRecordsPartitionResult;

typedef struct FlKafkaDeleteRecordsTopicResult
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDeleteRecordsPartitionResult) partitions; /* 0+ */
} FlKafkaDeleteRecordsTopicResult;

typedef struct FlKafkaDeleteRecordsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDeleteRecordsTopicResult) topics; /* 0+ */
} FlKafkaDeleteRecordsResponse;

FL_KAFKA_DECLARE_STRUCT(delete_records_partition_result, FlKafkaDeleteRecordsPartitionResult)
FL_KAFKA_DECLARE_STRUCT(delete_records_topic_result, FlKafkaDeleteRecordsTopicResult)
FL_KAFKA_DECLARE_MESSAGE(delete_records_response, FlKafkaDeleteRecordsResponse)

/* ---------- InitProducerIdRequest, versions 0-6, flexible from 2 ---------- */

typedef struct FlKafkaInitProducerIdRequest
{
	FlKafkaBytes transactional_id; /* 0+, null */
	int32_t transaction_timeout_ms; /* 0+ */
	int64_t producer_id; /* 3+, default -1 */
	int16_t producer_epoch; /* 3+, default -1 */
	bool enable2_pc; /* 6+ */
	bool keep_prepared_txn; /* 6+ */
} FlKafkaInitProducerIdRequest;

FL_KAFKA_DECLARE_MESSAGE(init_producer_id_request, FlKafkaInitProducerIdRequest)

/* ---------- InitProducerIdResponse, versions 0-6, flexible from 2 ---------- */

typedef struct FlKafkaInitProducerIdResponse
{
	int32_t throttle_time_ms; /* 0+ */
	int16_t error_code; /* 0+ */
	int64_t producer_id; /* 0+, default -1 */
	int16_t producer_epoch; /* 0+ */
	int64_t ongoing_txn_producer_id; /* 6+, default -1 */
	int16_t ongoing_txn_producer_epoch; /* 6+, default -1 */
} FlKafkaInitProducerIdResponse;

FL_KAFKA_DECLARE_MESSAGE(init_producer_id_response, FlKafkaInitProducerIdResponse)

/* ---------- OffsetForLeaderEpochRequest, versions 2-4, flexible from 4 ---------- */

typedef struct FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition
{
	int32_t partition; /* 0+ */
	int32_t current_leader_epoch; /* 2+, default -1 */
	int32_t leader_epoch; /* 0+ */
} FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition;

typedef struct FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic
{
	FlKafkaBytes topic; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition) partitions; /* 0+ */
} FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic;

typedef struct FlKafkaOffsetForLeaderEpochRequest
{
	int32_t replica_id; /* 3+, default -2 */
	FL_KAFKA_ARRAY(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic) topics; /* 0+ */
} FlKafkaOffsetForLeaderEpochRequest;

FL_KAFKA_DECLARE_STRUCT(offset_for_leader_epoch_offset_for_leader_partition, FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition)
FL_KAFKA_DECLARE_STRUCT(offset_for_leader_epoch_offset_for_leader_topic, FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic)
FL_KAFKA_DECLARE_MESSAGE(offset_for_leader_epoch_request, FlKafkaOffsetForLeaderEpochRequest)

/* ---------- OffsetForLeaderEpochResponse, versions 2-4, flexible from 4 ---------- */

typedef struct FlKafkaOffsetForLeaderEpochEpochEndOffset
{
	int16_t error_code; /* 0+ */
	int32_t partition; /* 0+ */
	int32_t leader_epoch; /* 1+, default -1 */
	int64_t end_offset; /* 0+, default -1 */
} FlKafkaOffsetForLeaderEpochEpochEndOffset;

typedef struct FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult
{
	FlKafkaBytes topic; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetForLeaderEpochEpochEndOffset) partitions; /* 0+ */
} FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult;

typedef struct FlKafkaOffsetForLeaderEpochResponse
{
	int32_t throttle_time_ms; /* 2+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult) topics; /* 0+ */
} FlKafkaOffsetForLeaderEpochResponse;

FL_KAFKA_DECLARE_STRUCT(offset_for_leader_epoch_epoch_end_offset, FlKafkaOffsetForLeaderEpochEpochEndOffset)
FL_KAFKA_DECLARE_STRUCT(offset_for_leader_epoch_offset_for_leader_topic_result, FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult)
FL_KAFKA_DECLARE_MESSAGE(offset_for_leader_epoch_response, FlKafkaOffsetForLeaderEpochResponse)

#endif /* FLEETLOG_KAFKA_DATA_H */
