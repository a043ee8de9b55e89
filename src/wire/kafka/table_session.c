/*-------------------------------------------------------------------------
 *
 * table_session.c
 *	  Tables of Kafka's messages: what opens a connection: versions, metadata, log-in.
 *
 * Read by decode.c and encode.c, by nobody else.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#include "fleetlog/kafka_session.h"

#include "kafka_private.h"

/* ---------- MetadataRequest ---------- */

static const FlKafkaField metadata_request_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaMetadataRequestTopic, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataRequestTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 10, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_metadata_request_topic = {"MetadataRequestTopic", FL_KAFKA_FIELDS(metadata_request_topic_fields), sizeof(FlKafkaMetadataRequestTopic)};
_Static_assert(sizeof(FlKafkaMetadataRequestTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField metadata_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaMetadataRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_metadata_request_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 1, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataRequest, allow_auto_topic_creation, "AllowAutoTopicCreation", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaMetadataRequest, include_cluster_authorized_operations, "IncludeClusterAuthorizedOperations", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 10, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataRequest, include_topic_authorized_operations, "IncludeTopicAuthorizedOperations", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_metadata_request = {"MetadataRequest", FL_KAFKA_FIELDS(metadata_request_fields), sizeof(FlKafkaMetadataRequest)};

const FlKafkaMessage fl_kafka_metadata_request = {&fl_kafka_struct_metadata_request, 0, 13, 9};

/* ---------- MetadataResponse ---------- */

static const FlKafkaField metadata_response_broker_fields[] = {
	FL_KAFKA_FIELD(FlKafkaMetadataResponseBroker, node_id, "NodeId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseBroker, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseBroker, port, "Port", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseBroker, rack, "Rack", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 1, 126, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_metadata_response_broker = {"MetadataResponseBroker", FL_KAFKA_FIELDS(metadata_response_broker_fields), sizeof(FlKafkaMetadataResponseBroker)};
_Static_assert(sizeof(FlKafkaMetadataResponseBroker) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField metadata_response_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaMetadataResponsePartition, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponsePartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponsePartition, leader_id, "LeaderId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponsePartition, leader_epoch, "LeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaMetadataResponsePartition, replica_nodes, "ReplicaNodes", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponsePartition, isr_nodes, "IsrNodes", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponsePartition, offline_replicas, "OfflineReplicas", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_metadata_response_partition = {"MetadataResponsePartition", FL_KAFKA_FIELDS(metadata_response_partition_fields), sizeof(FlKafkaMetadataResponsePartition)};
_Static_assert(sizeof(FlKafkaMetadataResponsePartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField metadata_response_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaMetadataResponseTopic, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 12, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseTopic, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   10, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseTopic, is_internal, "IsInternal", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_metadata_response_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponseTopic, topic_authorized_operations, "TopicAuthorizedOperations", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 126, 127, -1, FL_KAFKA_NO_TAG, INT32_MIN),
};
const FlKafkaStruct fl_kafka_struct_metadata_response_topic = {"MetadataResponseTopic", FL_KAFKA_FIELDS(metadata_response_topic_fields), sizeof(FlKafkaMetadataResponseTopic)};
_Static_assert(sizeof(FlKafkaMetadataResponseTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField metadata_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaMetadataResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponse, brokers, "Brokers", FL_KAFKA_STRUCT, true, &fl_kafka_struct_metadata_response_broker, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponse, cluster_id, "ClusterId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 2, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaMetadataResponse, controller_id, "ControllerId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaMetadataResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_metadata_response_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaMetadataResponse, cluster_authorized_operations, "ClusterAuthorizedOperations", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   8, 10, 127, -1, FL_KAFKA_NO_TAG, INT32_MIN),
	FL_KAFKA_FIELD(FlKafkaMetadataResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   13, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_metadata_response = {"MetadataResponse", FL_KAFKA_FIELDS(metadata_response_fields), sizeof(FlKafkaMetadataResponse)};

const FlKafkaMessage fl_kafka_metadata_response = {&fl_kafka_struct_metadata_response, 0, 13, 9};

/* ---------- SaslHandshakeRequest ---------- */

static const FlKafkaField sasl_handshake_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaSaslHandshakeRequest, mechanism, "Mechanism", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_sasl_handshake_request = {"SaslHandshakeRequest", FL_KAFKA_FIELDS(sasl_handshake_request_fields), sizeof(FlKafkaSaslHandshakeRequest)};

const FlKafkaMessage fl_kafka_sasl_handshake_request = {&fl_kafka_struct_sasl_handshake_request, 0, 1, FL_KAFKA_NEVER};

/* ---------- SaslHandshakeResponse ---------- */

static const FlKafkaField sasl_handshake_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaSaslHandshakeResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSaslHandshakeResponse, mechanisms, "Mechanisms", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_sasl_handshake_response = {"SaslHandshakeResponse", FL_KAFKA_FIELDS(sasl_handshake_response_fields), sizeof(FlKafkaSaslHandshakeResponse)};

const FlKafkaMessage fl_kafka_sasl_handshake_response = {&fl_kafka_struct_sasl_handshake_response, 0, 1, FL_KAFKA_NEVER};

/* ---------- ApiVersionsRequest ---------- */

static const FlKafkaField api_versions_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaApiVersionsRequest, client_software_name, "ClientSoftwareName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsRequest, client_software_version, "ClientSoftwareVersion", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_api_versions_request = {"ApiVersionsRequest", FL_KAFKA_FIELDS(api_versions_request_fields), sizeof(FlKafkaApiVersionsRequest)};

const FlKafkaMessage fl_kafka_api_versions_request = {&fl_kafka_struct_api_versions_request, 0, 4, 3};

/* ---------- ApiVersionsResponse ---------- */

static const FlKafkaField api_versions_api_version_fields[] = {
	FL_KAFKA_FIELD(FlKafkaApiVersionsApiVersion, api_key, "ApiKey", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsApiVersion, min_version, "MinVersion", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsApiVersion, max_version, "MaxVersion", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_api_versions_api_version = {"ApiVersion", FL_KAFKA_FIELDS(api_versions_api_version_fields), sizeof(FlKafkaApiVersionsApiVersion)};
_Static_assert(sizeof(FlKafkaApiVersionsApiVersion) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField api_versions_supported_feature_key_fields[] = {
	FL_KAFKA_FIELD(FlKafkaApiVersionsSupportedFeatureKey, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsSupportedFeatureKey, min_version, "MinVersion", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsSupportedFeatureKey, max_version, "MaxVersion", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_api_versions_supported_feature_key = {"SupportedFeatureKey", FL_KAFKA_FIELDS(api_versions_supported_feature_key_fields), sizeof(FlKafkaApiVersionsSupportedFeatureKey)};
_Static_assert(sizeof(FlKafkaApiVersionsSupportedFeatureKey) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField api_versions_finalized_feature_key_fields[] = {
	FL_KAFKA_FIELD(FlKafkaApiVersionsFinalizedFeatureKey, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsFinalizedFeatureKey, max_version_level, "MaxVersionLevel", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsFinalizedFeatureKey, min_version_level, "MinVersionLevel", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_api_versions_finalized_feature_key = {"FinalizedFeatureKey", FL_KAFKA_FIELDS(api_versions_finalized_feature_key_fields), sizeof(FlKafkaApiVersionsFinalizedFeatureKey)};
_Static_assert(sizeof(FlKafkaApiVersionsFinalizedFeatureKey) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField api_versions_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaApiVersionsResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsResponse, api_keys, "ApiKeys", FL_KAFKA_STRUCT, true, &fl_kafka_struct_api_versions_api_version, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsResponse, supported_features, "SupportedFeatures", FL_KAFKA_STRUCT, true, &fl_kafka_struct_api_versions_supported_feature_key, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, 0, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsResponse, finalized_features_epoch, "FinalizedFeaturesEpoch", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, 1, -1),
	FL_KAFKA_FIELD(FlKafkaApiVersionsResponse, finalized_features, "FinalizedFeatures", FL_KAFKA_STRUCT, true, &fl_kafka_struct_api_versions_finalized_feature_key, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, 2, 0),
	FL_KAFKA_FIELD(FlKafkaApiVersionsResponse, zk_migration_ready, "ZkMigrationReady", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, 3, 0),
};
static const FlKafkaStruct fl_kafka_struct_api_versions_response = {"ApiVersionsResponse", FL_KAFKA_FIELDS(api_versions_response_fields), sizeof(FlKafkaApiVersionsResponse)};

const FlKafkaMessage fl_kafka_api_versions_response = {&fl_kafka_struct_api_versions_response, 0, 4, 3};

/* ---------- SaslAuthenticateRequest ---------- */

static const FlKafkaField sasl_authenticate_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaSaslAuthenticateRequest, auth_bytes, "AuthBytes", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_sasl_authenticate_request = {"SaslAuthenticateRequest", FL_KAFKA_FIELDS(sasl_authenticate_request_fields), sizeof(FlKafkaSaslAuthenticateRequest)};

const FlKafkaMessage fl_kafka_sasl_authenticate_request = {&fl_kafka_struct_sasl_authenticate_request, 0, 2, 2};

/* ---------- SaslAuthenticateResponse ---------- */

static const FlKafkaField sasl_authenticate_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaSaslAuthenticateResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSaslAuthenticateResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSaslAuthenticateResponse, auth_bytes, "AuthBytes", FL_KAFKA_BYTES, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaSaslAuthenticateResponse, session_lifetime_ms, "SessionLifetimeMs", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_sasl_authenticate_response = {"SaslAuthenticateResponse", FL_KAFKA_FIELDS(sasl_authenticate_response_fields), sizeof(FlKafkaSaslAuthenticateResponse)};

const FlKafkaMessage fl_kafka_sasl_authenticate_response = {&fl_kafka_struct_sasl_authenticate_response, 0, 2, 2};

/* ---------- DescribeClusterRequest ---------- */

static const FlKafkaField describe_cluster_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeClusterRequest, include_cluster_authorized_operations, "IncludeClusterAuthorizedOperations", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterRequest, endpoint_type, "EndpointType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterRequest, include_fenced_brokers, "IncludeFencedBrokers", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_cluster_request = {"DescribeClusterRequest", FL_KAFKA_FIELDS(describe_cluster_request_fields), sizeof(FlKafkaDescribeClusterRequest)};

const FlKafkaMessage fl_kafka_describe_cluster_request = {&fl_kafka_struct_describe_cluster_request, 0, 2, 0};

/* ---------- DescribeClusterResponse ---------- */

static const FlKafkaField describe_cluster_broker_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeClusterBroker, broker_id, "BrokerId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterBroker, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterBroker, port, "Port", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterBroker, rack, "Rack", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterBroker, is_fenced, "IsFenced", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_cluster_broker = {"DescribeClusterBroker", FL_KAFKA_FIELDS(describe_cluster_broker_fields), sizeof(FlKafkaDescribeClusterBroker)};
_Static_assert(sizeof(FlKafkaDescribeClusterBroker) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_cluster_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, endpoint_type, "EndpointType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, cluster_id, "ClusterId", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, controller_id, "ControllerId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, brokers, "Brokers", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_cluster_broker, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeClusterResponse, cluster_authorized_operations, "ClusterAuthorizedOperations", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, INT32_MIN),
};
static const FlKafkaStruct fl_kafka_struct_describe_cluster_response = {"DescribeClusterResponse", FL_KAFKA_FIELDS(describe_cluster_response_fields), sizeof(FlKafkaDescribeClusterResponse)};

const FlKafkaMessage fl_kafka_describe_cluster_response = {&fl_kafka_struct_describe_cluster_response, 0, 2, 0};

/* ---------- DescribeTopicPartitionsRequest ---------- */

static const FlKafkaField describe_topic_partitions_topic_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsTopicRequest, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_topic_partitions_topic_request = {"TopicRequest", FL_KAFKA_FIELDS(describe_topic_partitions_topic_request_fields), sizeof(FlKafkaDescribeTopicPartitionsTopicRequest)};
_Static_assert(sizeof(FlKafkaDescribeTopicPartitionsTopicRequest) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_topic_partitions_cursor_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsCursor, topic_name, "TopicName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsCursor, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_topic_partitions_cursor = {"Cursor", FL_KAFKA_FIELDS(describe_topic_partitions_cursor_fields), sizeof(FlKafkaDescribeTopicPartitionsCursor)};
_Static_assert(sizeof(FlKafkaDescribeTopicPartitionsCursor) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_topic_partitions_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_topic_partitions_topic_request, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsRequest, response_partition_limit, "ResponsePartitionLimit", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 2000),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsRequest, cursor, "Cursor", FL_KAFKA_STRUCT, false, &fl_kafka_struct_describe_topic_partitions_cursor, offsetof(FlKafkaDescribeTopicPartitionsRequest, has_cursor),
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
};
static const FlKafkaStruct fl_kafka_struct_describe_topic_partitions_request = {"DescribeTopicPartitionsRequest", FL_KAFKA_FIELDS(describe_topic_partitions_request_fields), sizeof(FlKafkaDescribeTopicPartitionsRequest)};

const FlKafkaMessage fl_kafka_describe_topic_partitions_request = {&fl_kafka_struct_describe_topic_partitions_request, 0, 0, 0};

/* ---------- DescribeTopicPartitionsResponse ---------- */

static const FlKafkaField describe_topic_partitions_response_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, leader_id, "LeaderId", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, leader_epoch, "LeaderEpoch", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, replica_nodes, "ReplicaNodes", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, isr_nodes, "IsrNodes", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, eligible_leader_replicas, "EligibleLeaderReplicas", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, last_known_elr, "LastKnownElr", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponsePartition, offline_replicas, "OfflineReplicas", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_topic_partitions_response_partition = {"DescribeTopicPartitionsResponsePartition", FL_KAFKA_FIELDS(describe_topic_partitions_response_partition_fields), sizeof(FlKafkaDescribeTopicPartitionsResponsePartition)};
_Static_assert(sizeof(FlKafkaDescribeTopicPartitionsResponsePartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_topic_partitions_response_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseTopic, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseTopic, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseTopic, is_internal, "IsInternal", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_topic_partitions_response_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseTopic, topic_authorized_operations, "TopicAuthorizedOperations", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, INT32_MIN),
};
const FlKafkaStruct fl_kafka_struct_describe_topic_partitions_response_topic = {"DescribeTopicPartitionsResponseTopic", FL_KAFKA_FIELDS(describe_topic_partitions_response_topic_fields), sizeof(FlKafkaDescribeTopicPartitionsResponseTopic)};
_Static_assert(sizeof(FlKafkaDescribeTopicPartitionsResponseTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_topic_partitions_response_cursor_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseCursor, topic_name, "TopicName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponseCursor, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_topic_partitions_response_cursor = {"Cursor", FL_KAFKA_FIELDS(describe_topic_partitions_response_cursor_fields), sizeof(FlKafkaDescribeTopicPartitionsResponseCursor)};
_Static_assert(sizeof(FlKafkaDescribeTopicPartitionsResponseCursor) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_topic_partitions_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_topic_partitions_response_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeTopicPartitionsResponse, next_cursor, "NextCursor", FL_KAFKA_STRUCT, false, &fl_kafka_struct_describe_topic_partitions_response_cursor, offsetof(FlKafkaDescribeTopicPartitionsResponse, has_next_cursor),
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
};
static const FlKafkaStruct fl_kafka_struct_describe_topic_partitions_response = {"DescribeTopicPartitionsResponse", FL_KAFKA_FIELDS(describe_topic_partitions_response_fields), sizeof(FlKafkaDescribeTopicPartitionsResponse)};

const FlKafkaMessage fl_kafka_describe_topic_partitions_response = {&fl_kafka_struct_describe_topic_partitions_response, 0, 0, 0};
