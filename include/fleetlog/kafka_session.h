/*-------------------------------------------------------------------------
 *
 * kafka_session.h
 *	  Kafka's messages: what opens a connection: versions, metadata, log-in.
 *
 * How to use them is told in kafka_codec.h.  A comment gives the versions that have
 * the field, where it may be null, its tag, and a default that is not zero or empty.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#ifndef FLEETLOG_KAFKA_SESSION_H
#define FLEETLOG_KAFKA_SESSION_H

#include "fleetlog/kafka_codec.h"

/* ---------- MetadataRequest, versions 0-13, flexible from 9 ---------- */

typedef struct FlKafkaMetadataRequestTopic
{
	FlKafkaUuid topic_id; /* 10+ */
	FlKafkaBytes name; /* 0+, null 10+ */
} FlKafkaMetadataRequestTopic;

typedef struct FlKafkaMetadataRequest
{
	FL_KAFKA_ARRAY(FlKafkaMetadataRequestTopic) topics; /* 0+, null 1+ */
	bool allow_auto_topic_creation; /* 4+, default 1 */
	bool include_cluster_authorized_operations; /* 8-10 */
	bool include_topic_authorized_operations; /* 8+ */
} FlKafkaMetadataRequest;

FL_KAFKA_DECLARE_STRUCT(metadata_request_topic, FlKafkaMetadataRequestTopic)
FL_KAFKA_DECLARE_MESSAGE(metadata_request, FlKafkaMetadataRequest)

/* ---------- MetadataResponse, versions 0-13, flexible from 9 ---------- */

typedef struct FlKafkaMetadataResponseBroker
{
	int32_t node_id; /* 0+ */
	FlKafkaBytes host; /* 0+ */
	int32_t port; /* 0+ */
	FlKafkaBytes rack; /* 1+, null, default null */
} FlKafkaMetadataResponseBroker;

typedef struct FlKafkaMetadataResponsePartition
{
	int16_t error_code; /* 0+ */
	int32_t partition_index; /* 0+ */
	int32_t leader_id; /* 0+ */
	int32_t leader_epoch; /* 7+, default -1 */
	FL_KAFKA_ARRAY(int32_t) replica_nodes; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) isr_nodes; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) offline_replicas; /* 5+ */
} FlKafkaMetadataResponsePartition;

typedef struct FlKafkaMetadataResponseTopic
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes name; /* 0+, null 12+ */
	FlKafkaUuid topic_id; /* 10+ */
	bool is_internal; /* 1+ */
	FL_KAFKA_ARRAY(FlKafkaMetadataResponsePartition) partitions; /* 0+ */
	int32_t topic_authorized_operations; /* 8+, default -2147483648 */
} FlKafkaMetadataResponseTopic;

typedef struct FlKafkaMetadataResponse
{
	int32_t throttle_time_ms; /* 3+ */
	FL_KAFKA_ARRAY(FlKafkaMetadataResponseBroker) brokers; /* 0+ */
	FlKafkaBytes cluster_id; /* 2+, null, default null */
	int32_t controller_id; /* 1+, default -1 */
	FL_KAFKA_ARRAY(FlKafkaMetadataResponseTopic) topics; /* 0+ */
	int32_t cluster_authorized_operations; /* 8-10, default -2147483648 */
	int16_t error_code; /* 13+ */
} FlKafkaMetadataResponse;

FL_KAFKA_DECLARE_STRUCT(metadata_response_broker, FlKafkaMetadataResponseBroker)
FL_KAFKA_DECLARE_STRUCT(metadata_response_partition, FlKafkaMetadataResponsePartition)
FL_KAFKA_DECLARE_STRUCT(metadata_response_topic, FlKafkaMetadataResponseTopic)
FL_KAFKA_DECLARE_MESSAGE(metadata_response, FlKafkaMetadataResponse)

/* ---------- SaslHandshakeRequest, versions 0-1 ---------- */

typedef struct FlKafkaSaslHandshakeRequest
{
	FlKafkaBytes mechanism; /* 0+ */
} FlKafkaSaslHandshakeRequest;

FL_KAFKA_DECLARE_MESSAGE(sasl_handshake_request, FlKafkaSaslHandshakeRequest)

/* ---------- SaslHandshakeResponse, versions 0-1 ---------- */

typedef struct FlKafkaSaslHandshakeResponse
{
	int16_t error_code; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaBytes) mechanisms; /* 0+ */
} FlKafkaSaslHandshakeResponse;

FL_KAFKA_DECLARE_MESSAGE(sasl_handshake_response, FlKafkaSaslHandshakeResponse)

/* ---------- ApiVersionsRequest, versions 0-4, flexible from 3 ---------- */

typedef struct FlKafkaApiVersionsRequest
{
	FlKafkaBytes client_software_name; /* 3+ */
	FlKafkaBytes client_software_version; /* 3+ */
} FlKafkaApiVersionsRequest;

FL_KAFKA_DECLARE_MESSAGE(api_versions_request, FlKafkaApiVersionsRequest)

/* ---------- ApiVersionsResponse, versions 0-4, flexible from 3 ---------- */

typedef struct FlKafkaApiVersionsApiVersion
{
	int16_t api_key; /* 0+ */
	int16_t min_version; /* 0+ */
	int16_t max_version; /* 0+ */
} FlKafkaApiVersionsApiVersion;

typedef struct FlKafkaApiVersionsSupportedFeatureKey
{
	FlKafkaBytes name; /* 3+ */
	int16_t min_version; /* 3+ */
	int16_t max_version; /* 3+ */
} FlKafkaApiVersionsSupportedFeatureKey;

typedef struct FlKafkaApiVersionsFinalizedFeatureKey
{
	FlKafkaBytes name; /* 3+ */
	int16_t max_version_level; /* 3+ */
	int16_t min_version_level; /* 3+ */
} FlKafkaApiVersionsFinalizedFeatureKey;

typedef struct FlKafkaApiVersionsResponse
{
	int16_t error_code; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaApiVersionsApiVersion) api_keys; /* 0+ */
	int32_t throttle_time_ms; /* 1+ */
	FL_KAFKA_ARRAY(FlKafkaApiVersionsSupportedFeatureKey) supported_features; /* 3+, tag 0 */
	int64_t finalized_features_epoch; /* 3+, tag 1, default -1 */
	FL_KAFKA_ARRAY(FlKafkaApiVersionsFinalizedFeatureKey) finalized_features; /* 3+, tag 2 */
	bool zk_migration_ready; /* 3+, tag 3 */
} FlKafkaApiVersionsResponse;

FL_KAFKA_DECLARE_STRUCT(api_versions_api_version, FlKafkaApiVersionsApiVersion)
FL_KAFKA_DECLARE_STRUCT(api_versions_supported_feature_key, FlKafkaApiVersionsSupportedFeatureKey)
FL_KAFKA_DECLARE_STRUCT(api_versions_finalized_feature_key, FlKafkaApiVersionsFinalizedFeatureKey)
FL_KAFKA_DECLARE_MESSAGE(api_versions_response, FlKafkaApiVersionsResponse)

/* ---------- SaslAuthenticateRequest, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaSaslAuthenticateRequest
{
	FlKafkaBytes auth_bytes; /* 0+ */
} FlKafkaSaslAuthenticateRequest;

FL_KAFKA_DECLARE_MESSAGE(sasl_authenticate_request, FlKafkaSaslAuthenticateRequest)

/* ---------- SaslAuthenticateResponse, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaSaslAuthenticateResponse
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	FlKafkaBytes auth_bytes; /* 0+ */
	int64_t session_lifetime_ms; /* 1+ */
} FlKafkaSaslAuthenticateResponse;

FL_KAFKA_DECLARE_MESSAGE(sasl_authenticate_response, FlKafkaSaslAuthenticateResponse)

/* ---------- DescribeClusterRequest, versions 0-2, flexible from 0 ---------- */

typedef struct FlKafkaDescribeClusterRequest
{
	bool include_cluster_authorized_operations; /* 0+ */
	int8_t endpoint_type; /* 1+, default 1 */
	bool include_fenced_brokers; /* 2+ */
} FlKafkaDescribeClusterRequest;

FL_KAFKA_DECLARE_MESSAGE(describe_cluster_request, FlKafkaDescribeClusterRequest)

/* ---------- DescribeClusterResponse, versions 0-2, flexible from 0 ---------- */

typedef struct FlKafkaDescribeClusterBroker
{
	int32_t broker_id; /* 0+ */
	FlKafkaBytes host; /* 0+ */
	int32_t port; /* 0+ */
	FlKafkaBytes rack; /* 0+, null, default null */
	bool is_fenced; /* 2+ */
} FlKafkaDescribeClusterBroker;

typedef struct FlKafkaDescribeClusterResponse
{
	int32_t throttle_time_ms; /* 0+ */
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null, default null */
	int8_t endpoint_type; /* 1+, default 1 */
	FlKafkaBytes cluster_id; /* 0+ */
	int32_t controller_id; /* 0+, default -1 */
	FL_KAFKA_ARRAY(FlKafkaDescribeClusterBroker) brokers; /* 0+ */
	int32_t cluster_authorized_operations; /* 0+, default -2147483648 */
} FlKafkaDescribeClusterResponse;

FL_KAFKA_DECLARE_STRUCT(describe_cluster_broker, FlKafkaDescribeClusterBroker)
FL_KAFKA_DECLARE_MESSAGE(describe_cluster_response, FlKafkaDescribeClusterResponse)

/* ---------- DescribeTopicPartitionsRequest, versions 0, flexible from 0 ---------- */

typedef struct FlKafkaDescribeTopicPartitionsTopicRequest
{
	FlKafkaBytes name; /* 0+ */
} FlKafkaDescribeTopicPartitionsTopicRequest;

typedef struct FlKafkaDescribeTopicPartitionsCursor
{
	FlKafkaBytes topic_name; /* 0+ */
	int32_t partition_index; /* 0+ */
} FlKafkaDescribeTopicPartitionsCursor;

typedef struct FlKafkaDescribeTopicPartitionsRequest
{
	FL_KAFKA_ARRAY(FlKafkaDescribeTopicPartitionsTopicRequest) topics; /* 0+ */
	int32_t response_partition_limit; /* 0+, default 2000 */
	bool has_cursor;
	FlKafkaDescribeTopicPartitionsCursor cursor; /* 0+, null, default null */
} FlKafkaDescribeTopicPartitionsRequest;

FL_KAFKA_DECLARE_STRUCT(describe_topic_partitions_topic_request, FlKafkaDescribeTopicPartitionsTopicRequest)
FL_KAFKA_DECLARE_STRUCT(describe_topic_partitions_cursor, FlKafkaDescribeTopicPartitionsCursor)
FL_KAFKA_DECLARE_MESSAGE(describe_topic_partitions_request, FlKafkaDescribeTopicPartitionsRequest)

/* ---------- DescribeTopicPartitionsResponse, versions 0, flexible from 0 ---------- */

typedef struct FlKafkaDescribeTopicPartitionsResponsePartition
{
	int16_t error_code; /* 0+ */
	int32_t partition_index; /* 0+ */
	int32_t leader_id; /* 0+ */
	int32_t leader_epoch; /* 0+, default -1 */
	FL_KAFKA_ARRAY(int32_t) replica_nodes; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) isr_nodes; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) eligible_leader_replicas; /* 0+, null, default null */
	FL_KAFKA_ARRAY(int32_t) last_known_elr; /* 0+, null, default null */
	FL_KAFKA_ARRAY(int32_t) offline_replicas; /* 0+ */
} FlKafkaDescribeTopicPartitionsResponsePartition;

typedef struct FlKafkaDescribeTopicPartitionsResponseTopic
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes name; /* 0+, null */
	FlKafkaUuid topic_id; /* 0+ */
	bool is_internal; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeTopicPartitionsResponsePartition) partitions; /* 0+ */
	int32_t topic_authorized_operations; /* 0+, default -2147483648 */
} FlKafkaDescribeTopicPartitionsResponseTopic;

typedef struct FlKafkaDescribeTopicPartitionsResponseCursor
{
	FlKafkaBytes topic_name; /* 0+ */
	int32_t partition_index; /* 0+ */
} FlKafkaDescribeTopicPartitionsResponseCursor;

typedef struct FlKafkaDescribeTopicPartitionsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeTopicPartitionsResponseTopic) topics; /* 0+ */
	bool has_next_cursor;
	FlKafkaDescribeTopicPartitionsResponseCursor next_cursor; /* 0+, null, default null */
} FlKafkaDescribeTopicPartitionsResponse;

FL_KAFKA_DECLARE_STRUCT(describe_topic_partitions_response_partition, FlKafkaDescribeTopicPartitionsResponsePartition)
FL_KAFKA_DECLARE_STRUCT(describe_topic_partitions_response_topic, FlKafkaDescribeTopicPartitionsResponseTopic)
FL_KAFKA_DECLARE_STRUCT(describe_topic_partitions_response_cursor, FlKafkaDescribeTopicPartitionsResponseCursor)
FL_KAFKA_DECLARE_MESSAGE(describe_topic_partitions_response, FlKafkaDescribeTopicPartitionsResponse)

#endif /* FLEETLOG_KAFKA_SESSION_H */
