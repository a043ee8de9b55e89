/*-------------------------------------------------------------------------
 *
 * table_admin.c
 *	  Tables of Kafka's messages: topics, configurations, access lists.
 *
 * Read by decode.c and encode.c, by nobody else.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#include "fleetlog/kafka_admin.h"

#include "kafka_private.h"

/* ---------- CreateTopicsRequest ---------- */

static const FlKafkaField create_topics_creatable_replica_assignment_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableReplicaAssignment, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableReplicaAssignment, broker_ids, "BrokerIds", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_topics_creatable_replica_assignment = {"CreatableReplicaAssignment", FL_KAFKA_FIELDS(create_topics_creatable_replica_assignment_fields), sizeof(FlKafkaCreateTopicsCreatableReplicaAssignment)};
_Static_assert(sizeof(FlKafkaCreateTopicsCreatableReplicaAssignment) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_topics_creatable_topic_config_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicConfig, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicConfig, value, "Value", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_topics_creatable_topic_config = {"CreatableTopicConfig", FL_KAFKA_FIELDS(create_topics_creatable_topic_config_fields), sizeof(FlKafkaCreateTopicsCreatableTopicConfig)};
_Static_assert(sizeof(FlKafkaCreateTopicsCreatableTopicConfig) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_topics_creatable_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopic, num_partitions, "NumPartitions", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopic, replication_factor, "ReplicationFactor", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopic, assignments, "Assignments", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_topics_creatable_replica_assignment, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopic, configs, "Configs", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_topics_creatable_topic_config, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_topics_creatable_topic = {"CreatableTopic", FL_KAFKA_FIELDS(create_topics_creatable_topic_fields), sizeof(FlKafkaCreateTopicsCreatableTopic)};
_Static_assert(sizeof(FlKafkaCreateTopicsCreatableTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_topics_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateTopicsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_topics_creatable_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsRequest, timeout_ms, "timeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 60000),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsRequest, validate_only, "validateOnly", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_create_topics_request = {"CreateTopicsRequest", FL_KAFKA_FIELDS(create_topics_request_fields), sizeof(FlKafkaCreateTopicsRequest)};

const FlKafkaMessage fl_kafka_create_topics_request = {&fl_kafka_struct_create_topics_request, 2, 7, 5};

/* ---------- CreateTopicsResponse ---------- */

static const FlKafkaField create_topics_creatable_topic_configs_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicConfigs, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicConfigs, value, "Value", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicConfigs, read_only, "ReadOnly", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicConfigs, config_source, "ConfigSource", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicConfigs, is_sensitive, "IsSensitive", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_topics_creatable_topic_configs = {"CreatableTopicConfigs", FL_KAFKA_FIELDS(create_topics_creatable_topic_configs_fields), sizeof(FlKafkaCreateTopicsCreatableTopicConfigs)};
_Static_assert(sizeof(FlKafkaCreateTopicsCreatableTopicConfigs) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_topics_creatable_topic_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   7, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, num_partitions, "NumPartitions", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, replication_factor, "ReplicationFactor", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, configs, "Configs", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_topics_creatable_topic_configs, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsCreatableTopicResult, topic_config_error_code, "TopicConfigErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, 0, 0),
};
const FlKafkaStruct fl_kafka_struct_create_topics_creatable_topic_result = {"CreatableTopicResult", FL_KAFKA_FIELDS(create_topics_creatable_topic_result_fields), sizeof(FlKafkaCreateTopicsCreatableTopicResult)};
_Static_assert(sizeof(FlKafkaCreateTopicsCreatableTopicResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_topics_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateTopicsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   2, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateTopicsResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_topics_creatable_topic_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_create_topics_response = {"CreateTopicsResponse", FL_KAFKA_FIELDS(create_topics_response_fields), sizeof(FlKafkaCreateTopicsResponse)};

const FlKafkaMessage fl_kafka_create_topics_response = {&fl_kafka_struct_create_topics_response, 2, 7, 5};

/* ---------- DeleteTopicsRequest ---------- */

static const FlKafkaField delete_topics_delete_topic_state_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsDeleteTopicState, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 6, 126, FL_KAFKA_NO_TAG, 1),
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsDeleteTopicState, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_topics_delete_topic_state = {"DeleteTopicState", FL_KAFKA_FIELDS(delete_topics_delete_topic_state_fields), sizeof(FlKafkaDeleteTopicsDeleteTopicState)};
_Static_assert(sizeof(FlKafkaDeleteTopicsDeleteTopicState) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_topics_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_topics_delete_topic_state, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsRequest, topic_names, "TopicNames", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 5, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsRequest, timeout_ms, "TimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_topics_request = {"DeleteTopicsRequest", FL_KAFKA_FIELDS(delete_topics_request_fields), sizeof(FlKafkaDeleteTopicsRequest)};

const FlKafkaMessage fl_kafka_delete_topics_request = {&fl_kafka_struct_delete_topics_request, 1, 6, 4};

/* ---------- DeleteTopicsResponse ---------- */

static const FlKafkaField delete_topics_deletable_topic_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsDeletableTopicResult, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 6, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsDeletableTopicResult, topic_id, "TopicId", FL_KAFKA_UUID, false, NULL, FL_KAFKA_NO_PRESENT,
				   6, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsDeletableTopicResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsDeletableTopicResult, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 5, 126, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_delete_topics_deletable_topic_result = {"DeletableTopicResult", FL_KAFKA_FIELDS(delete_topics_deletable_topic_result_fields), sizeof(FlKafkaDeleteTopicsDeletableTopicResult)};
_Static_assert(sizeof(FlKafkaDeleteTopicsDeletableTopicResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_topics_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteTopicsResponse, responses, "Responses", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_topics_deletable_topic_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_topics_response = {"DeleteTopicsResponse", FL_KAFKA_FIELDS(delete_topics_response_fields), sizeof(FlKafkaDeleteTopicsResponse)};

const FlKafkaMessage fl_kafka_delete_topics_response = {&fl_kafka_struct_delete_topics_response, 1, 6, 4};

/* ---------- DescribeAclsRequest ---------- */

static const FlKafkaField describe_acls_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeAclsRequest, resource_type_filter, "ResourceTypeFilter", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsRequest, resource_name_filter, "ResourceNameFilter", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsRequest, pattern_type_filter, "PatternTypeFilter", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 3),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsRequest, principal_filter, "PrincipalFilter", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsRequest, host_filter, "HostFilter", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsRequest, operation, "Operation", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsRequest, permission_type, "PermissionType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_acls_request = {"DescribeAclsRequest", FL_KAFKA_FIELDS(describe_acls_request_fields), sizeof(FlKafkaDescribeAclsRequest)};

const FlKafkaMessage fl_kafka_describe_acls_request = {&fl_kafka_struct_describe_acls_request, 1, 3, 2};

/* ---------- DescribeAclsResponse ---------- */

static const FlKafkaField describe_acls_acl_description_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeAclsAclDescription, principal, "Principal", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsAclDescription, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsAclDescription, operation, "Operation", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsAclDescription, permission_type, "PermissionType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_acls_acl_description = {"AclDescription", FL_KAFKA_FIELDS(describe_acls_acl_description_fields), sizeof(FlKafkaDescribeAclsAclDescription)};
_Static_assert(sizeof(FlKafkaDescribeAclsAclDescription) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_acls_resource_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResource, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResource, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResource, pattern_type, "PatternType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 3),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResource, acls, "Acls", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_acls_acl_description, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_acls_resource = {"DescribeAclsResource", FL_KAFKA_FIELDS(describe_acls_resource_fields), sizeof(FlKafkaDescribeAclsResource)};
_Static_assert(sizeof(FlKafkaDescribeAclsResource) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_acls_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeAclsResponse, resources, "Resources", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_acls_resource, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_acls_response = {"DescribeAclsResponse", FL_KAFKA_FIELDS(describe_acls_response_fields), sizeof(FlKafkaDescribeAclsResponse)};

const FlKafkaMessage fl_kafka_describe_acls_response = {&fl_kafka_struct_describe_acls_response, 1, 3, 2};

/* ---------- CreateAclsRequest ---------- */

static const FlKafkaField create_acls_acl_creation_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreation, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreation, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreation, resource_pattern_type, "ResourcePatternType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 3),
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreation, principal, "Principal", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreation, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreation, operation, "Operation", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreation, permission_type, "PermissionType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_acls_acl_creation = {"AclCreation", FL_KAFKA_FIELDS(create_acls_acl_creation_fields), sizeof(FlKafkaCreateAclsAclCreation)};
_Static_assert(sizeof(FlKafkaCreateAclsAclCreation) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_acls_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateAclsRequest, creations, "Creations", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_acls_acl_creation, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_create_acls_request = {"CreateAclsRequest", FL_KAFKA_FIELDS(create_acls_request_fields), sizeof(FlKafkaCreateAclsRequest)};

const FlKafkaMessage fl_kafka_create_acls_request = {&fl_kafka_struct_create_acls_request, 1, 3, 2};

/* ---------- CreateAclsResponse ---------- */

static const FlKafkaField create_acls_acl_creation_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreationResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateAclsAclCreationResult, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_acls_acl_creation_result = {"AclCreationResult", FL_KAFKA_FIELDS(create_acls_acl_creation_result_fields), sizeof(FlKafkaCreateAclsAclCreationResult)};
_Static_assert(sizeof(FlKafkaCreateAclsAclCreationResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_acls_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreateAclsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreateAclsResponse, results, "Results", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_acls_acl_creation_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_create_acls_response = {"CreateAclsResponse", FL_KAFKA_FIELDS(create_acls_response_fields), sizeof(FlKafkaCreateAclsResponse)};

const FlKafkaMessage fl_kafka_create_acls_response = {&fl_kafka_struct_create_acls_response, 1, 3, 2};

/* ---------- DeleteAclsRequest ---------- */

static const FlKafkaField delete_acls_filter_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilter, resource_type_filter, "ResourceTypeFilter", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilter, resource_name_filter, "ResourceNameFilter", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilter, pattern_type_filter, "PatternTypeFilter", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 3),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilter, principal_filter, "PrincipalFilter", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilter, host_filter, "HostFilter", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilter, operation, "Operation", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilter, permission_type, "PermissionType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_acls_filter = {"DeleteAclsFilter", FL_KAFKA_FIELDS(delete_acls_filter_fields), sizeof(FlKafkaDeleteAclsFilter)};
_Static_assert(sizeof(FlKafkaDeleteAclsFilter) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_acls_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteAclsRequest, filters, "Filters", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_acls_filter, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_acls_request = {"DeleteAclsRequest", FL_KAFKA_FIELDS(delete_acls_request_fields), sizeof(FlKafkaDeleteAclsRequest)};

const FlKafkaMessage fl_kafka_delete_acls_request = {&fl_kafka_struct_delete_acls_request, 1, 3, 2};

/* ---------- DeleteAclsResponse ---------- */

static const FlKafkaField delete_acls_matching_acl_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, pattern_type, "PatternType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 3),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, principal, "Principal", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, host, "Host", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, operation, "Operation", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsMatchingAcl, permission_type, "PermissionType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_acls_matching_acl = {"DeleteAclsMatchingAcl", FL_KAFKA_FIELDS(delete_acls_matching_acl_fields), sizeof(FlKafkaDeleteAclsMatchingAcl)};
_Static_assert(sizeof(FlKafkaDeleteAclsMatchingAcl) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_acls_filter_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilterResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilterResult, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsFilterResult, matching_acls, "MatchingAcls", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_acls_matching_acl, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_delete_acls_filter_result = {"DeleteAclsFilterResult", FL_KAFKA_FIELDS(delete_acls_filter_result_fields), sizeof(FlKafkaDeleteAclsFilterResult)};
_Static_assert(sizeof(FlKafkaDeleteAclsFilterResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField delete_acls_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDeleteAclsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDeleteAclsResponse, filter_results, "FilterResults", FL_KAFKA_STRUCT, true, &fl_kafka_struct_delete_acls_filter_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_delete_acls_response = {"DeleteAclsResponse", FL_KAFKA_FIELDS(delete_acls_response_fields), sizeof(FlKafkaDeleteAclsResponse)};

const FlKafkaMessage fl_kafka_delete_acls_response = {&fl_kafka_struct_delete_acls_response, 1, 3, 2};

/* ---------- DescribeConfigsRequest ---------- */

static const FlKafkaField describe_configs_resource_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResource, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResource, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResource, configuration_keys, "ConfigurationKeys", FL_KAFKA_STRING, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_configs_resource = {"DescribeConfigsResource", FL_KAFKA_FIELDS(describe_configs_resource_fields), sizeof(FlKafkaDescribeConfigsResource)};
_Static_assert(sizeof(FlKafkaDescribeConfigsResource) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_configs_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsRequest, resources, "Resources", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_configs_resource, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsRequest, include_synonyms, "IncludeSynonyms", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsRequest, include_documentation, "IncludeDocumentation", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_configs_request = {"DescribeConfigsRequest", FL_KAFKA_FIELDS(describe_configs_request_fields), sizeof(FlKafkaDescribeConfigsRequest)};

const FlKafkaMessage fl_kafka_describe_configs_request = {&fl_kafka_struct_describe_configs_request, 1, 4, 4};

/* ---------- DescribeConfigsResponse ---------- */

static const FlKafkaField describe_configs_synonym_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsSynonym, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsSynonym, value, "Value", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsSynonym, source, "Source", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_configs_synonym = {"DescribeConfigsSynonym", FL_KAFKA_FIELDS(describe_configs_synonym_fields), sizeof(FlKafkaDescribeConfigsSynonym)};
_Static_assert(sizeof(FlKafkaDescribeConfigsSynonym) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_configs_resource_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, value, "Value", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, read_only, "ReadOnly", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, config_source, "ConfigSource", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, is_default, "IsDefault", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 0, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, is_sensitive, "IsSensitive", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, synonyms, "Synonyms", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_configs_synonym, FL_KAFKA_NO_PRESENT,
				   1, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, config_type, "ConfigType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResourceResult, documentation, "Documentation", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_configs_resource_result = {"DescribeConfigsResourceResult", FL_KAFKA_FIELDS(describe_configs_resource_result_fields), sizeof(FlKafkaDescribeConfigsResourceResult)};
_Static_assert(sizeof(FlKafkaDescribeConfigsResourceResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_configs_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResult, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResult, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResult, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResult, configs, "Configs", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_configs_resource_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_configs_result = {"DescribeConfigsResult", FL_KAFKA_FIELDS(describe_configs_result_fields), sizeof(FlKafkaDescribeConfigsResult)};
_Static_assert(sizeof(FlKafkaDescribeConfigsResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_configs_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeConfigsResponse, results, "Results", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_configs_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_configs_response = {"DescribeConfigsResponse", FL_KAFKA_FIELDS(describe_configs_response_fields), sizeof(FlKafkaDescribeConfigsResponse)};

const FlKafkaMessage fl_kafka_describe_configs_response = {&fl_kafka_struct_describe_configs_response, 1, 4, 4};

/* ---------- AlterConfigsRequest ---------- */

static const FlKafkaField alter_configs_alterable_config_fields[] = {
	FL_KAFKA_FIELD(FlKafkaAlterConfigsAlterableConfig, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsAlterableConfig, value, "Value", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_alter_configs_alterable_config = {"AlterableConfig", FL_KAFKA_FIELDS(alter_configs_alterable_config_fields), sizeof(FlKafkaAlterConfigsAlterableConfig)};
_Static_assert(sizeof(FlKafkaAlterConfigsAlterableConfig) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField alter_configs_resource_fields[] = {
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResource, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResource, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResource, configs, "Configs", FL_KAFKA_STRUCT, true, &fl_kafka_struct_alter_configs_alterable_config, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_alter_configs_resource = {"AlterConfigsResource", FL_KAFKA_FIELDS(alter_configs_resource_fields), sizeof(FlKafkaAlterConfigsResource)};
_Static_assert(sizeof(FlKafkaAlterConfigsResource) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField alter_configs_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaAlterConfigsRequest, resources, "Resources", FL_KAFKA_STRUCT, true, &fl_kafka_struct_alter_configs_resource, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsRequest, validate_only, "ValidateOnly", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_alter_configs_request = {"AlterConfigsRequest", FL_KAFKA_FIELDS(alter_configs_request_fields), sizeof(FlKafkaAlterConfigsRequest)};

const FlKafkaMessage fl_kafka_alter_configs_request = {&fl_kafka_struct_alter_configs_request, 0, 2, 2};

/* ---------- AlterConfigsResponse ---------- */

static const FlKafkaField alter_configs_resource_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResourceResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResourceResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResourceResponse, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResourceResponse, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_alter_configs_resource_response = {"AlterConfigsResourceResponse", FL_KAFKA_FIELDS(alter_configs_resource_response_fields), sizeof(FlKafkaAlterConfigsResourceResponse)};
_Static_assert(sizeof(FlKafkaAlterConfigsResourceResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField alter_configs_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaAlterConfigsResponse, responses, "Responses", FL_KAFKA_STRUCT, true, &fl_kafka_struct_alter_configs_resource_response, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_alter_configs_response = {"AlterConfigsResponse", FL_KAFKA_FIELDS(alter_configs_response_fields), sizeof(FlKafkaAlterConfigsResponse)};

const FlKafkaMessage fl_kafka_alter_configs_response = {&fl_kafka_struct_alter_configs_response, 0, 2, 2};

/* ---------- DescribeLogDirsRequest ---------- */

static const FlKafkaField describe_log_dirs_describable_log_dir_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsDescribableLogDirTopic, topic, "Topic", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsDescribableLogDirTopic, partitions, "Partitions", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_log_dirs_describable_log_dir_topic = {"DescribableLogDirTopic", FL_KAFKA_FIELDS(describe_log_dirs_describable_log_dir_topic_fields), sizeof(FlKafkaDescribeLogDirsDescribableLogDirTopic)};
_Static_assert(sizeof(FlKafkaDescribeLogDirsDescribableLogDirTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_log_dirs_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_log_dirs_describable_log_dir_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_log_dirs_request = {"DescribeLogDirsRequest", FL_KAFKA_FIELDS(describe_log_dirs_request_fields), sizeof(FlKafkaDescribeLogDirsRequest)};

const FlKafkaMessage fl_kafka_describe_log_dirs_request = {&fl_kafka_struct_describe_log_dirs_request, 1, 5, 2};

/* ---------- DescribeLogDirsResponse ---------- */

static const FlKafkaField describe_log_dirs_partition_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsPartition, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsPartition, partition_size, "PartitionSize", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsPartition, offset_lag, "OffsetLag", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsPartition, is_future_key, "IsFutureKey", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_log_dirs_partition = {"DescribeLogDirsPartition", FL_KAFKA_FIELDS(describe_log_dirs_partition_fields), sizeof(FlKafkaDescribeLogDirsPartition)};
_Static_assert(sizeof(FlKafkaDescribeLogDirsPartition) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_log_dirs_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsTopic, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_log_dirs_partition, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_log_dirs_topic = {"DescribeLogDirsTopic", FL_KAFKA_FIELDS(describe_log_dirs_topic_fields), sizeof(FlKafkaDescribeLogDirsTopic)};
_Static_assert(sizeof(FlKafkaDescribeLogDirsTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_log_dirs_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResult, log_dir, "LogDir", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResult, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_log_dirs_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResult, total_bytes, "TotalBytes", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResult, usable_bytes, "UsableBytes", FL_KAFKA_INT64, false, NULL, FL_KAFKA_NO_PRESENT,
				   4, 126, 127, -1, FL_KAFKA_NO_TAG, -1),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResult, is_cordoned, "IsCordoned", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   5, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_describe_log_dirs_result = {"DescribeLogDirsResult", FL_KAFKA_FIELDS(describe_log_dirs_result_fields), sizeof(FlKafkaDescribeLogDirsResult)};
_Static_assert(sizeof(FlKafkaDescribeLogDirsResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField describe_log_dirs_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   3, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaDescribeLogDirsResponse, results, "Results", FL_KAFKA_STRUCT, true, &fl_kafka_struct_describe_log_dirs_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_describe_log_dirs_response = {"DescribeLogDirsResponse", FL_KAFKA_FIELDS(describe_log_dirs_response_fields), sizeof(FlKafkaDescribeLogDirsResponse)};

const FlKafkaMessage fl_kafka_describe_log_dirs_response = {&fl_kafka_struct_describe_log_dirs_response, 1, 5, 2};

/* ---------- CreatePartitionsRequest ---------- */

static const FlKafkaField create_partitions_assignment_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsAssignment, broker_ids, "BrokerIds", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_partitions_assignment = {"CreatePartitionsAssignment", FL_KAFKA_FIELDS(create_partitions_assignment_fields), sizeof(FlKafkaCreatePartitionsAssignment)};
_Static_assert(sizeof(FlKafkaCreatePartitionsAssignment) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_partitions_topic_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsTopic, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsTopic, count, "Count", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsTopic, assignments, "Assignments", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_partitions_assignment, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_create_partitions_topic = {"CreatePartitionsTopic", FL_KAFKA_FIELDS(create_partitions_topic_fields), sizeof(FlKafkaCreatePartitionsTopic)};
_Static_assert(sizeof(FlKafkaCreatePartitionsTopic) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_partitions_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_partitions_topic, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsRequest, timeout_ms, "TimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsRequest, validate_only, "ValidateOnly", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_create_partitions_request = {"CreatePartitionsRequest", FL_KAFKA_FIELDS(create_partitions_request_fields), sizeof(FlKafkaCreatePartitionsRequest)};

const FlKafkaMessage fl_kafka_create_partitions_request = {&fl_kafka_struct_create_partitions_request, 0, 3, 2};

/* ---------- CreatePartitionsResponse ---------- */

static const FlKafkaField create_partitions_topic_result_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsTopicResult, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsTopicResult, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsTopicResult, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
};
const FlKafkaStruct fl_kafka_struct_create_partitions_topic_result = {"CreatePartitionsTopicResult", FL_KAFKA_FIELDS(create_partitions_topic_result_fields), sizeof(FlKafkaCreatePartitionsTopicResult)};
_Static_assert(sizeof(FlKafkaCreatePartitionsTopicResult) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField create_partitions_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaCreatePartitionsResponse, results, "Results", FL_KAFKA_STRUCT, true, &fl_kafka_struct_create_partitions_topic_result, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_create_partitions_response = {"CreatePartitionsResponse", FL_KAFKA_FIELDS(create_partitions_response_fields), sizeof(FlKafkaCreatePartitionsResponse)};

const FlKafkaMessage fl_kafka_create_partitions_response = {&fl_kafka_struct_create_partitions_response, 0, 3, 2};

/* ---------- IncrementalAlterConfigsRequest ---------- */

static const FlKafkaField incremental_alter_configs_alterable_config_fields[] = {
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterableConfig, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterableConfig, config_operation, "ConfigOperation", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterableConfig, value, "Value", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_incremental_alter_configs_alterable_config = {"AlterableConfig", FL_KAFKA_FIELDS(incremental_alter_configs_alterable_config_fields), sizeof(FlKafkaIncrementalAlterConfigsAlterableConfig)};
_Static_assert(sizeof(FlKafkaIncrementalAlterConfigsAlterableConfig) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField incremental_alter_configs_alter_configs_resource_fields[] = {
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterConfigsResource, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterConfigsResource, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterConfigsResource, configs, "Configs", FL_KAFKA_STRUCT, true, &fl_kafka_struct_incremental_alter_configs_alterable_config, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_incremental_alter_configs_alter_configs_resource = {"AlterConfigsResource", FL_KAFKA_FIELDS(incremental_alter_configs_alter_configs_resource_fields), sizeof(FlKafkaIncrementalAlterConfigsAlterConfigsResource)};
_Static_assert(sizeof(FlKafkaIncrementalAlterConfigsAlterConfigsResource) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField incremental_alter_configs_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsRequest, resources, "Resources", FL_KAFKA_STRUCT, true, &fl_kafka_struct_incremental_alter_configs_alter_configs_resource, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsRequest, validate_only, "ValidateOnly", FL_KAFKA_BOOL, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_incremental_alter_configs_request = {"IncrementalAlterConfigsRequest", FL_KAFKA_FIELDS(incremental_alter_configs_request_fields), sizeof(FlKafkaIncrementalAlterConfigsRequest)};

const FlKafkaMessage fl_kafka_incremental_alter_configs_request = {&fl_kafka_struct_incremental_alter_configs_request, 0, 1, 1};

/* ---------- IncrementalAlterConfigsResponse ---------- */

static const FlKafkaField incremental_alter_configs_alter_configs_resource_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse, resource_type, "ResourceType", FL_KAFKA_INT8, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse, resource_name, "ResourceName", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_incremental_alter_configs_alter_configs_resource_response = {"AlterConfigsResourceResponse", FL_KAFKA_FIELDS(incremental_alter_configs_alter_configs_resource_response_fields), sizeof(FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse)};
_Static_assert(sizeof(FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField incremental_alter_configs_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaIncrementalAlterConfigsResponse, responses, "Responses", FL_KAFKA_STRUCT, true, &fl_kafka_struct_incremental_alter_configs_alter_configs_resource_response, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_incremental_alter_configs_response = {"IncrementalAlterConfigsResponse", FL_KAFKA_FIELDS(incremental_alter_configs_response_fields), sizeof(FlKafkaIncrementalAlterConfigsResponse)};

const FlKafkaMessage fl_kafka_incremental_alter_configs_response = {&fl_kafka_struct_incremental_alter_configs_response, 0, 1, 1};

/* ---------- ListPartitionReassignmentsRequest ---------- */

static const FlKafkaField list_partition_reassignments_topics_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsTopics, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsTopics, partition_indexes, "PartitionIndexes", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_list_partition_reassignments_topics = {"ListPartitionReassignmentsTopics", FL_KAFKA_FIELDS(list_partition_reassignments_topics_fields), sizeof(FlKafkaListPartitionReassignmentsTopics)};
_Static_assert(sizeof(FlKafkaListPartitionReassignmentsTopics) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_partition_reassignments_request_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsRequest, timeout_ms, "TimeoutMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 60000),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsRequest, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_partition_reassignments_topics, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 1),
};
static const FlKafkaStruct fl_kafka_struct_list_partition_reassignments_request = {"ListPartitionReassignmentsRequest", FL_KAFKA_FIELDS(list_partition_reassignments_request_fields), sizeof(FlKafkaListPartitionReassignmentsRequest)};

const FlKafkaMessage fl_kafka_list_partition_reassignments_request = {&fl_kafka_struct_list_partition_reassignments_request, 0, 0, 0};

/* ---------- ListPartitionReassignmentsResponse ---------- */

static const FlKafkaField list_partition_reassignments_ongoing_partition_reassignment_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsOngoingPartitionReassignment, partition_index, "PartitionIndex", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsOngoingPartitionReassignment, replicas, "Replicas", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsOngoingPartitionReassignment, adding_replicas, "AddingReplicas", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsOngoingPartitionReassignment, removing_replicas, "RemovingReplicas", FL_KAFKA_INT32, true, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_list_partition_reassignments_ongoing_partition_reassignment = {"OngoingPartitionReassignment", FL_KAFKA_FIELDS(list_partition_reassignments_ongoing_partition_reassignment_fields), sizeof(FlKafkaListPartitionReassignmentsOngoingPartitionReassignment)};
_Static_assert(sizeof(FlKafkaListPartitionReassignmentsOngoingPartitionReassignment) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_partition_reassignments_ongoing_topic_reassignment_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsOngoingTopicReassignment, name, "Name", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsOngoingTopicReassignment, partitions, "Partitions", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_partition_reassignments_ongoing_partition_reassignment, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
const FlKafkaStruct fl_kafka_struct_list_partition_reassignments_ongoing_topic_reassignment = {"OngoingTopicReassignment", FL_KAFKA_FIELDS(list_partition_reassignments_ongoing_topic_reassignment_fields), sizeof(FlKafkaListPartitionReassignmentsOngoingTopicReassignment)};
_Static_assert(sizeof(FlKafkaListPartitionReassignmentsOngoingTopicReassignment) <= FL_KAFKA_STRUCT_MAX, "an element fits the encoder");

static const FlKafkaField list_partition_reassignments_response_fields[] = {
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsResponse, throttle_time_ms, "ThrottleTimeMs", FL_KAFKA_INT32, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsResponse, error_code, "ErrorCode", FL_KAFKA_INT16, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsResponse, error_message, "ErrorMessage", FL_KAFKA_STRING, false, NULL, FL_KAFKA_NO_PRESENT,
				   0, 126, 0, 126, FL_KAFKA_NO_TAG, 0),
	FL_KAFKA_FIELD(FlKafkaListPartitionReassignmentsResponse, topics, "Topics", FL_KAFKA_STRUCT, true, &fl_kafka_struct_list_partition_reassignments_ongoing_topic_reassignment, FL_KAFKA_NO_PRESENT,
				   0, 126, 127, -1, FL_KAFKA_NO_TAG, 0),
};
static const FlKafkaStruct fl_kafka_struct_list_partition_reassignments_response = {"ListPartitionReassignmentsResponse", FL_KAFKA_FIELDS(list_partition_reassignments_response_fields), sizeof(FlKafkaListPartitionReassignmentsResponse)};

const FlKafkaMessage fl_kafka_list_partition_reassignments_response = {&fl_kafka_struct_list_partition_reassignments_response, 0, 0, 0};
