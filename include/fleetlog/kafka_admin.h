/*-------------------------------------------------------------------------
 *
 * kafka_admin.h
 *	  Kafka's messages: topics, configurations, access lists.
 *
 * How to use them is told in kafka_codec.h.  A comment gives the versions that have
 * the field, where it may be null, its tag, and a default that is not zero or empty.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#ifndef FLEETLOG_KAFKA_ADMIN_H
#define FLEETLOG_KAFKA_ADMIN_H

#include "fleetlog/kafka_codec.h"

/* ---------- CreateTopicsRequest, versions 2-7, flexible from 5 ---------- */

typedef struct FlKafkaCreateTopicsCreatableReplicaAssignment
{
	int32_t partition_index; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) broker_ids; /* 0+ */
} FlKafkaCreateTopicsCreatableReplicaAssignment;

typedef struct FlKafkaCreateTopicsCreatableTopicConfig
{
	FlKafkaBytes name; /* 0+ */
	FlKafkaBytes value; /* 0+, null */
} FlKafkaCreateTopicsCreatableTopicConfig;

typedef struct FlKafkaCreateTopicsCreatableTopic
{
	FlKafkaBytes name; /* 0+ */
	int32_t num_partitions; /* 0+ */
	int16_t replication_factor; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaCreateTopicsCreatableReplicaAssignment) assignments; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaCreateTopicsCreatableTopicConfig) configs; /* 0+ */
} FlKafkaCreateTopicsCreatableTopic;

typedef struct FlKafkaCreateTopicsRequest
{
	FL_KAFKA_ARRAY(FlKafkaCreateTopicsCreatableTopic) topics; /* 0+ */
	int32_t timeout_ms; /* 0+, default 60000 */
	bool validate_only; /* 1+ */
} FlKafkaCreateTopicsRequest;

FL_KAFKA_DECLARE_STRUCT(create_topics_creatable_replica_assignment, FlKafkaCreateTopicsCreatableReplicaAssignment)
FL_KAFKA_DECLARE_STRUCT(create_topics_creatable_topic_config, FlKafkaCreateTopicsCreatableTopicConfig)
FL_KAFKA_DECLARE_STRUCT(create_topics_creatable_topic, FlKafkaCreateTopicsCreatableTopic)
FL_KAFKA_DECLARE_MESSAGE(create_topics_request, FlKafkaCreateTopicsRequest)

/* ---------- CreateTopicsResponse, versions 2-7, flexible from 5 ---------- */

typedef struct FlKafkaCreateTopicsCreatableTopicConfigs
{
	FlKafkaBytes name; /* 5+ */
	FlKafkaBytes value; /* 5+, null */
	bool read_only; /* 5+ */
	int8_t config_source; /* 5+, default -1 */
	bool is_sensitive; /* 5+ */
} FlKafkaCreateTopicsCreatableTopicConfigs;

typedef struct FlKafkaCreateTopicsCreatableTopicResult
{
	FlKafkaBytes name; /* 0+ */
	FlKafkaUuid topic_id; /* 7+ */
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 1+, null */
	int32_t num_partitions; /* 5+, default -1 */
	int16_t replication_factor; /* 5+, default -1 */
	FL_KAFKA_ARRAY(FlKafkaCreateTopicsCreatableTopicConfigs) configs; /* 5+, null */
	int16_t topic_config_error_code; /* 5+, tag 0 */
} FlKafkaCreateTopicsCreatableTopicResult;

typedef struct FlKafkaCreateTopicsResponse
{
	int32_t throttle_time_ms; /* 2+ */
	FL_KAFKA_ARRAY(FlKafkaCreateTopicsCreatableTopicResult) topics; /* 0+ */
} FlKafkaCreateTopicsResponse;

FL_KAFKA_DECLARE_STRUCT(create_topics_creatable_topic_configs, FlKafkaCreateTopicsCreatableTopicConfigs)
FL_KAFKA_DECLARE_STRUCT(create_topics_creatable_topic_result, FlKafkaCreateTopicsCreatableTopicResult)
FL_KAFKA_DECLARE_MESSAGE(create_topics_response, FlKafkaCreateTopicsResponse)

/* ---------- DeleteTopicsRequest, versions 1-6, flexible from 4 ---------- */

typedef struct FlKafkaDeleteTopicsDeleteTopicState
{
	FlKafkaBytes name; /* 6+, null, default null */
	FlKafkaUuid topic_id; /* 6+ */
} FlKafkaDeleteTopicsDeleteTopicState;

typedef struct FlKafkaDeleteTopicsRequest
{
	FL_KAFKA_ARRAY(FlKafkaDeleteTopicsDeleteTopicState) topics; /* 6+ */
	FL_KAFKA_ARRAY(FlKafkaBytes) topic_names; /* 0-5 */
	int32_t timeout_ms; /* 0+ */
} FlKafkaDeleteTopicsRequest;

FL_KAFKA_DECLARE_STRUCT(delete_topics_delete_topic_state, FlKafkaDeleteTopicsDeleteTopicState)
FL_KAFKA_DECLARE_MESSAGE(delete_topics_request, FlKafkaDeleteTopicsRequest)

/* ---------- DeleteTopicsResponse, versions 1-6, flexible from 4 ---------- */

typedef struct FlKafkaDeleteTopicsDeletableTopicResult
{
	FlKafkaBytes name; /* 0+, null 6+ */
	FlKafkaUuid topic_id; /* 6+ */
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 5+, null, default null */
} FlKafkaDeleteTopicsDeletableTopicResult;

typedef struct FlKafkaDeleteTopicsResponse
{
	int32_t throttle_time_ms; /* 1+ */
	FL_KAFKA_ARRAY(FlKafkaDeleteTopicsDeletableTopicResult) responses; /* 0+ */
} FlKafkaDeleteTopicsResponse;

FL_KAFKA_DECLARE_STRUCT(delete_topics_deletable_topic_result, FlKafkaDeleteTopicsDeletableTopicResult)
FL_KAFKA_DECLARE_MESSAGE(delete_topics_response, FlKafkaDeleteTopicsResponse)

/* ---------- DescribeAclsRequest, versions 1-3, flexible from 2 ---------- */

typedef struct FlKafkaDescribeAclsRequest
{
	int8_t resource_type_filter; /* 0+ */
	FlKafkaBytes resource_name_filter; /* 0+, null */
	int8_t pattern_type_filter; /* 1+, default 3 */
	FlKafkaBytes principal_filter; /* 0+, null */
	FlKafkaBytes host_filter; /* 0+, null */
	int8_t operation; /* 0+ */
	int8_t permission_type; /* 0+ */
} FlKafkaDescribeAclsRequest;

FL_KAFKA_DECLARE_MESSAGE(describe_acls_request, FlKafkaDescribeAclsRequest)

/* ---------- DescribeAclsResponse, versions 1-3, flexible from 2 ---------- */

typedef struct FlKafkaDescribeAclsAclDescription
{
	FlKafkaBytes principal; /* 0+ */
	FlKafkaBytes host; /* 0+ */
	int8_t operation; /* 0+ */
	int8_t permission_type; /* 0+ */
} FlKafkaDescribeAclsAclDescription;

typedef struct FlKafkaDescribeAclsResource
{
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
	int8_t pattern_type; /* 1+, default 3 */
	FL_KAFKA_ARRAY(FlKafkaDescribeAclsAclDescription) acls; /* 0+ */
} FlKafkaDescribeAclsResource;

typedef struct FlKafkaDescribeAclsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	FL_KAFKA_ARRAY(FlKafkaDescribeAclsResource) resources; /* 0+ */
} FlKafkaDescribeAclsResponse;

FL_KAFKA_DECLARE_STRUCT(describe_acls_acl_description, FlKafkaDescribeAclsAclDescription)
FL_KAFKA_DECLARE_STRUCT(describe_acls_resource, FlKafkaDescribeAclsResource)
FL_KAFKA_DECLARE_MESSAGE(describe_acls_response, FlKafkaDescribeAclsResponse)

/* ---------- CreateAclsRequest, versions 1-3, flexible from 2 ---------- */

typedef struct FlKafkaCreateAclsAclCreation
{
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
	int8_t resource_pattern_type; /* 1+, default 3 */
	FlKafkaBytes principal; /* 0+ */
	FlKafkaBytes host; /* 0+ */
	int8_t operation; /* 0+ */
	int8_t permission_type; /* 0+ */
} FlKafkaCreateAclsAclCreation;

typedef struct FlKafkaCreateAclsRequest
{
	FL_KAFKA_ARRAY(FlKafkaCreateAclsAclCreation) creations; /* 0+ */
} FlKafkaCreateAclsRequest;

FL_KAFKA_DECLARE_STRUCT(create_acls_acl_creation, FlKafkaCreateAclsAclCreation)
FL_KAFKA_DECLARE_MESSAGE(create_acls_request, FlKafkaCreateAclsRequest)

/* ---------- CreateAclsResponse, versions 1-3, flexible from 2 ---------- */

typedef struct FlKafkaCreateAclsAclCreationResult
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
} FlKafkaCreateAclsAclCreationResult;

typedef struct FlKafkaCreateAclsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaCreateAclsAclCreationResult) results; /* 0+ */
} FlKafkaCreateAclsResponse;

FL_KAFKA_DECLARE_STRUCT(create_acls_acl_creation_result, FlKafkaCreateAclsAclCreationResult)
FL_KAFKA_DECLARE_MESSAGE(create_acls_response, FlKafkaCreateAclsResponse)

/* ---------- DeleteAclsRequest, versions 1-3, flexible from 2 ---------- */

typedef struct FlKafkaDeleteAclsFilter
{
	int8_t resource_type_filter; /* 0+ */
	FlKafkaBytes resource_name_filter; /* 0+, null */
	int8_t pattern_type_filter; /* 1+, default 3 */
	FlKafkaBytes principal_filter; /* 0+, null */
	FlKafkaBytes host_filter; /* 0+, null */
	int8_t operation; /* 0+ */
	int8_t permission_type; /* 0+ */
} FlKafkaDeleteAclsFilter;

typedef struct FlKafkaDeleteAclsRequest
{
	FL_KAFKA_ARRAY(FlKafkaDeleteAclsFilter) filters; /* 0+ */
} FlKafkaDeleteAclsRequest;

FL_KAFKA_DECLARE_STRUCT(delete_acls_filter, FlKafkaDeleteAclsFilter)
FL_KAFKA_DECLARE_MESSAGE(delete_acls_request, FlKafkaDeleteAclsRequest)

/* ---------- DeleteAclsResponse, versions 1-3, flexible from 2 ---------- */

typedef struct FlKafkaDeleteAclsMatchingAcl
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
	int8_t pattern_type; /* 1+, default 3 */
	FlKafkaBytes principal; /* 0+ */
	FlKafkaBytes host; /* 0+ */
	int8_t operation; /* 0+ */
	int8_t permission_type; /* 0+ */
} FlKafkaDeleteAclsMatchingAcl;

typedef struct FlKafkaDeleteAclsFilterResult
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	FL_KAFKA_ARRAY(FlKafkaDeleteAclsMatchingAcl) matching_acls; /* 0+ */
} FlKafkaDeleteAclsFilterResult;

typedef struct FlKafkaDeleteAclsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDeleteAclsFilterResult) filter_results; /* 0+ */
} FlKafkaDeleteAclsResponse;

FL_KAFKA_DECLARE_STRUCT(delete_acls_matching_acl, FlKafkaDeleteAclsMatchingAcl)
FL_KAFKA_DECLARE_STRUCT(delete_acls_filter_result, FlKafkaDeleteAclsFilterResult)
FL_KAFKA_DECLARE_MESSAGE(delete_acls_response, FlKafkaDeleteAclsResponse)

/* ---------- DescribeConfigsRequest, versions 1-4, flexible from 4 ---------- */

typedef struct FlKafkaDescribeConfigsResource
{
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaBytes) configuration_keys; /* 0+, null */
} FlKafkaDescribeConfigsResource;

typedef struct FlKafkaDescribeConfigsRequest
{
	FL_KAFKA_ARRAY(FlKafkaDescribeConfigsResource) resources; /* 0+ */
	bool include_synonyms; /* 1+ */
	bool include_documentation; /* 3+ */
} FlKafkaDescribeConfigsRequest;

FL_KAFKA_DECLARE_STRUCT(describe_configs_resource, FlKafkaDescribeConfigsResource)
FL_KAFKA_DECLARE_MESSAGE(describe_configs_request, FlKafkaDescribeConfigsRequest)

/* ---------- DescribeConfigsResponse, versions 1-4, flexible from 4 ---------- */

typedef struct FlKafkaDescribeConfigsSynonym
{
	FlKafkaBytes name; /* 1+ */
	FlKafkaBytes value; /* 1+, null */
	int8_t source; /* 1+ */
} FlKafkaDescribeConfigsSynonym;

typedef struct FlKafkaDescribeConfigsResourceResult
{
	FlKafkaBytes name; /* 0+ */
	FlKafkaBytes value; /* 0+, null */
	bool read_only; /* 0+ */
	int8_t config_source; /* 1+, default -1 */
	bool is_default; /* 0 */
	bool is_sensitive; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeConfigsSynonym) synonyms; /* 1+ */
	int8_t config_type; /* 3+ */
	FlKafkaBytes documentation; /* 3+, null */
} FlKafkaDescribeConfigsResourceResult;

typedef struct FlKafkaDescribeConfigsResult
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeConfigsResourceResult) configs; /* 0+ */
} FlKafkaDescribeConfigsResult;

typedef struct FlKafkaDescribeConfigsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeConfigsResult) results; /* 0+ */
} FlKafkaDescribeConfigsResponse;

FL_KAFKA_DECLARE_STRUCT(describe_configs_synonym, FlKafkaDescribeConfigsSynonym)
FL_KAFKA_DECLARE_STRUCT(describe_configs_resource_result, FlKafkaDescribeConfigsResourceResult)
FL_KAFKA_DECLARE_STRUCT(describe_configs_result, FlKafkaDescribeConfigsResult)
FL_KAFKA_DECLARE_MESSAGE(describe_configs_response, FlKafkaDescribeConfigsResponse)

/* ---------- AlterConfigsRequest, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaAlterConfigsAlterableConfig
{
	FlKafkaBytes name; /* 0+ */
	FlKafkaBytes value; /* 0+, null */
} FlKafkaAlterConfigsAlterableConfig;

typedef struct FlKafkaAlterConfigsResource
{
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaAlterConfigsAlterableConfig) configs; /* 0+ */
} FlKafkaAlterConfigsResource;

typedef struct FlKafkaAlterConfigsRequest
{
	FL_KAFKA_ARRAY(FlKafkaAlterConfigsResource) resources; /* 0+ */
	bool validate_only; /* 0+ */
} FlKafkaAlterConfigsRequest;

FL_KAFKA_DECLARE_STRUCT(alter_configs_alterable_config, FlKafkaAlterConfigsAlterableConfig)
FL_KAFKA_DECLARE_STRUCT(alter_configs_resource, FlKafkaAlterConfigsResource)
FL_KAFKA_DECLARE_MESSAGE(alter_configs_request, FlKafkaAlterConfigsRequest)

/* ---------- AlterConfigsResponse, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaAlterConfigsResourceResponse
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
} FlKafkaAlterConfigsResourceResponse;

typedef struct FlKafkaAlterConfigsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaAlterConfigsResourceResponse) responses; /* 0+ */
} FlKafkaAlterConfigsResponse;

FL_KAFKA_DECLARE_STRUCT(alter_configs_resource_response, FlKafkaAlterConfigsResourceResponse)
FL_KAFKA_DECLARE_MESSAGE(alter_configs_response, FlKafkaAlterConfigsResponse)

/* ---------- DescribeLogDirsRequest, versions 1-5, flexible from 2 ---------- */

typedef struct FlKafkaDescribeLogDirsDescribableLogDirTopic
{
	FlKafkaBytes topic; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) partitions; /* 0+ */
} FlKafkaDescribeLogDirsDescribableLogDirTopic;

typedef struct FlKafkaDescribeLogDirsRequest
{
	FL_KAFKA_ARRAY(FlKafkaDescribeLogDirsDescribableLogDirTopic) topics; /* 0+, null */
} FlKafkaDescribeLogDirsRequest;

FL_KAFKA_DECLARE_STRUCT(describe_log_dirs_describable_log_dir_topic, FlKafkaDescribeLogDirsDescribableLogDirTopic)
FL_KAFKA_DECLARE_MESSAGE(describe_log_dirs_request, FlKafkaDescribeLogDirsRequest)

/* ---------- DescribeLogDirsResponse, versions 1-5, flexible from 2 ---------- */

typedef struct FlKafkaDescribeLogDirsPartition
{
	int32_t partition_index; /* 0+ */
	int64_t partition_size; /* 0+ */
	int64_t offset_lag; /* 0+ */
	bool is_future_key; /* 0+ */
} FlKafkaDescribeLogDirsPartition;

typedef struct FlKafkaDescribeLogDirsTopic
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeLogDirsPartition) partitions; /* 0+ */
} FlKafkaDescribeLogDirsTopic;

typedef struct FlKafkaDescribeLogDirsResult
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes log_dir; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeLogDirsTopic) topics; /* 0+ */
	int64_t total_bytes; /* 4+, default -1 */
	int64_t usable_bytes; /* 4+, default -1 */
	bool is_cordoned; /* 5+ */
} FlKafkaDescribeLogDirsResult;

typedef struct FlKafkaDescribeLogDirsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	int16_t error_code; /* 3+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeLogDirsResult) results; /* 0+ */
} FlKafkaDescribeLogDirsResponse;

FL_KAFKA_DECLARE_STRUCT(describe_log_dirs_partition, FlKafkaDescribeLogDirsPartition)
FL_KAFKA_DECLARE_STRUCT(describe_log_dirs_topic, FlKafkaDescribeLogDirsTopic)
FL_KAFKA_DECLARE_STRUCT(describe_log_dirs_result, FlKafkaDescribeLogDirsResult)
FL_KAFKA_DECLARE_MESSAGE(describe_log_dirs_response, FlKafkaDescribeLogDirsResponse)

/* ---------- CreatePartitionsRequest, versions 0-3, flexible from 2 ---------- */

typedef struct FlKafkaCreatePartitionsAssignment
{
	FL_KAFKA_ARRAY(int32_t) broker_ids; /* 0+ */
} FlKafkaCreatePartitionsAssignment;

typedef struct FlKafkaCreatePartitionsTopic
{
	FlKafkaBytes name; /* 0+ */
	int32_t count; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaCreatePartitionsAssignment) assignments; /* 0+, null */
} FlKafkaCreatePartitionsTopic;

typedef struct FlKafkaCreatePartitionsRequest
{
	FL_KAFKA_ARRAY(FlKafkaCreatePartitionsTopic) topics; /* 0+ */
	int32_t timeout_ms; /* 0+ */
	bool validate_only; /* 0+ */
} FlKafkaCreatePartitionsRequest;

FL_KAFKA_DECLARE_STRUCT(create_partitions_assignment, FlKafkaCreatePartitionsAssignment)
FL_KAFKA_DECLARE_STRUCT(create_partitions_topic, FlKafkaCreatePartitionsTopic)
FL_KAFKA_DECLARE_MESSAGE(create_partitions_request, FlKafkaCreatePartitionsRequest)

/* ---------- CreatePartitionsResponse, versions 0-3, flexible from 2 ---------- */

typedef struct FlKafkaCreatePartitionsTopicResult
{
	FlKafkaBytes name; /* 0+ */
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null, default null */
} FlKafkaCreatePartitionsTopicResult;

typedef struct FlKafkaCreatePartitionsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaCreatePartitionsTopicResult) results; /* 0+ */
} FlKafkaCreatePartitionsResponse;

FL_KAFKA_DECLARE_STRUCT(create_partitions_topic_result, FlKafkaCreatePartitionsTopicResult)
FL_KAFKA_DECLARE_MESSAGE(create_partitions_response, FlKafkaCreatePartitionsResponse)

/* ---------- IncrementalAlterConfigsRequest, versions 0-1, flexible from 1 ---------- */

typedef struct FlKafkaIncrementalAlterConfigsAlterableConfig
{
	FlKafkaBytes name; /* 0+ */
	int8_t config_operation; /* 0+ */
	FlKafkaBytes value; /* 0+, null */
} FlKafkaIncrementalAlterConfigsAlterableConfig;

typedef struct FlKafkaIncrementalAlterConfigsAlterConfigsResource
{
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaIncrementalAlterConfigsAlterableConfig) configs; /* 0+ */
} FlKafkaIncrementalAlterConfigsAlterConfigsResource;

typedef struct FlKafkaIncrementalAlterConfigsRequest
{
	FL_KAFKA_ARRAY(FlKafkaIncrementalAlterConfigsAlterConfigsResource) resources; /* 0+ */
	bool validate_only; /* 0+ */
} FlKafkaIncrementalAlterConfigsRequest;

FL_KAFKA_DECLARE_STRUCT(incremental_alter_configs_alterable_config, FlKafkaIncrementalAlterConfigsAlterableConfig)
FL_KAFKA_DECLARE_STRUCT(incremental_alter_configs_alter_configs_resource, FlKafkaIncrementalAlterConfigsAlterConfigsResource)
FL_KAFKA_DECLARE_MESSAGE(incremental_alter_configs_request, FlKafkaIncrementalAlterConfigsRequest)

/* ---------- IncrementalAlterConfigsResponse, versions 0-1, flexible from 1 ---------- */

typedef struct FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	int8_t resource_type; /* 0+ */
	FlKafkaBytes resource_name; /* 0+ */
} FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse;

typedef struct FlKafkaIncrementalAlterConfigsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse) responses; /* 0+ */
} FlKafkaIncrementalAlterConfigsResponse;

FL_KAFKA_DECLARE_STRUCT(incremental_alter_configs_alter_configs_resource_response, FlKafkaIncrementalAlterConfigsAlterConfigsResourceResponse)
FL_KAFKA_DECLARE_MESSAGE(incremental_alter_configs_response, FlKafkaIncrementalAlterConfigsResponse)

/* ---------- ListPartitionReassignmentsRequest, versions 0, flexible from 0 ---------- */

typedef struct FlKafkaListPartitionReassignmentsTopics
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) partition_indexes; /* 0+ */
} FlKafkaListPartitionReassignmentsTopics;

typedef struct FlKafkaListPartitionReassignmentsRequest
{
	int32_t timeout_ms; /* 0+, default 60000 */
	FL_KAFKA_ARRAY(FlKafkaListPartitionReassignmentsTopics) topics; /* 0+, null, default null */
} FlKafkaListPartitionReassignmentsRequest;

FL_KAFKA_DECLARE_STRUCT(list_partition_reassignments_topics, FlKafkaListPartitionReassignmentsTopics)
FL_KAFKA_DECLARE_MESSAGE(list_partition_reassignments_request, FlKafkaListPartitionReassignmentsRequest)

/* ---------- ListPartitionReassignmentsResponse, versions 0, flexible from 0 ---------- */

typedef struct FlKafkaListPartitionReassignmentsOngoingPartitionReassignment
{
	int32_t partition_index; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) replicas; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) adding_replicas; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) removing_replicas; /* 0+ */
} FlKafkaListPartitionReassignmentsOngoingPartitionReassignment;

typedef struct FlKafkaListPartitionReassignmentsOngoingTopicReassignment
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaListPartitionReassignmentsOngoingPartitionReassignment) partitions; /* 0+ */
} FlKafkaListPartitionReassignmentsOngoingTopicReassignment;

typedef struct FlKafkaListPartitionReassignmentsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 0+, null */
	FL_KAFKA_ARRAY(FlKafkaListPartitionReassignmentsOngoingTopicReassignment) topics; /* 0+ */
} FlKafkaListPartitionReassignmentsResponse;

FL_KAFKA_DECLARE_STRUCT(list_partition_reassignments_ongoing_partition_reassignment, FlKafkaListPartitionReassignmentsOngoingPartitionReassignment)
FL_KAFKA_DECLARE_STRUCT(list_partition_reassignments_ongoing_topic_reassignment, FlKafkaListPartitionReassignmentsOngoingTopicReassignment)
FL_KAFKA_DECLARE_MESSAGE(list_partition_reassignments_response, FlKafkaListPartitionReassignmentsResponse)

#endif /* FLEETLOG_KAFKA_ADMIN_H */
