/*-------------------------------------------------------------------------
 *
 * kafka_group.h
 *	  Kafka's messages: consumer groups and their offsets.
 *
 * How to use them is told in kafka_codec.h.  A comment gives the versions that have
 * the field, where it may be null, its tag, and a default that is not zero or empty.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#ifndef FLEETLOG_KAFKA_GROUP_H
#define FLEETLOG_KAFKA_GROUP_H

#include "fleetlog/kafka_codec.h"

/* ---------- OffsetCommitRequest, versions 2-10, flexible from 8 ---------- */

typedef struct FlKafkaOffsetCommitRequestPartition
{
	int32_t partition_index; /* 0+ */
	int64_t committed_offset; /* 0+ */
	int32_t committed_leader_epoch; /* 6+, default -1 */
	int64_t commit_timestamp; /* 1, default -1 */
	FlKafkaBytes committed_metadata; /* 0+, null */
} FlKafkaOffsetCommitRequestPartition;

typedef struct FlKafkaOffsetCommitRequestTopic
{
	FlKafkaBytes name; /* 0-9 */
	FlKafkaUuid topic_id; /* 10+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetCommitRequestPartition) partitions; /* 0+ */
} FlKafkaOffsetCommitRequestTopic;

typedef struct FlKafkaOffsetCommitRequest
{
	FlKafkaBytes group_id; /* 0+ */
	int32_t generation_id_or_member_epoch; /* 1+, default -1 */
	FlKafkaBytes member_id; /* 1+ */
	FlKafkaBytes group_instance_id; /* 7+, null, default null */
	int64_t retention_time_ms; /* 2-4, default -1 */
	FL_KAFKA_ARRAY(FlKafkaOffsetCommitRequestTopic) topics; /* 0+ */
} FlKafkaOffsetCommitRequest;

FL_KAFKA_DECLARE_STRUCT(offset_commit_request_partition, FlKafkaOffsetCommitRequestPartition)
FL_KAFKA_DECLARE_STRUCT(offset_commit_request_topic, FlKafkaOffsetCommitRequestTopic)
FL_KAFKA_DECLARE_MESSAGE(offset_commit_request, FlKafkaOffsetCommitRequest)

/* ---------- OffsetCommitResponse, versions 2-10, flexible from 8 ---------- */

typedef struct FlKafkaOffsetCommitResponsePartition
{
	int32_t partition_index; /* 0+ */
	int16_t error_code; /* 0+ */
} FlKafkaOffsetCommitResponsePartition;

typedef struct FlKafkaOffsetCommitResponseTopic
{
	FlKafkaBytes name; /* 0-9 */
	FlKafkaUuid topic_id; /* 10+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetCommitResponsePartition) partitions; /* 0+ */
} FlKafkaOffsetCommitResponseTopic;

typedef struct FlKafkaOffsetCommitResponse
{
	int32_t throttle_time_ms; /* 3+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetCommitResponseTopic) topics; /* 0+ */
} FlKafkaOffsetCommitResponse;

FL_KAFKA_DECLARE_STRUCT(offset_commit_response_partition, FlKafkaOffsetCommitResponsePartition)
FL_KAFKA_DECLARE_STRUCT(offset_commit_response_topic, FlKafkaOffsetCommitResponseTopic)
FL_KAFKA_DECLARE_MESSAGE(offset_commit_response, FlKafkaOffsetCommitResponse)

/* ---------- OffsetFetchRequest, versions 1-10, flexible from 6 ---------- */

typedef struct FlKafkaOffsetFetchRequestTopic
{
	FlKafkaBytes name; /* 0-7 */
	FL_KAFKA_ARRAY(int32_t) partition_indexes; /* 0-7 */
} FlKafkaOffsetFetchRequestTopic;

typedef struct FlKafkaOffsetFetchRequestTopics
{
	FlKafkaBytes name; /* 8-9 */
	FlKafkaUuid topic_id; /* 10+ */
	FL_KAFKA_ARRAY(int32_t) partition_indexes; /* 8+ */
} FlKafkaOffsetFetchRequestTopics;

typedef struct FlKafkaOffsetFetchRequestGroup
{
	FlKafkaBytes group_id; /* 8+ */
	FlKafkaBytes member_id; /* 9+, null, default null */
	int32_t member_epoch; /* 9+, default -1 */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchRequestTopics) topics; /* 8+, null */
} FlKafkaOffsetFetchRequestGroup;

typedef struct FlKafkaOffsetFetchRequest
{
	FlKafkaBytes group_id; /* 0-7 */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchRequestTopic) topics; /* 0-7, null 2-7 */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchRequestGroup) groups; /* 8+ */
	bool require_stable; /* 7+ */
} FlKafkaOffsetFetchRequest;

FL_KAFKA_DECLARE_STRUCT(offset_fetch_request_topic, FlKafkaOffsetFetchRequestTopic)
FL_KAFKA_DECLARE_STRUCT(offset_fetch_request_topics, FlKafkaOffsetFetchRequestTopics)
FL_KAFKA_DECLARE_STRUCT(offset_fetch_request_group, FlKafkaOffsetFetchRequestGroup)
FL_KAFKA_DECLARE_MESSAGE(offset_fetch_request, FlKafkaOffsetFetchRequest)

/* ---------- OffsetFetchResponse, versions 1-10, flexible from 6 ---------- */

typedef struct FlKafkaOffsetFetchResponsePartition
{
	int32_t partition_index; /* 0-7 */
	int64_t committed_offset; /* 0-7 */
	int32_t committed_leader_epoch; /* 5-7, default -1 */
	FlKafkaBytes metadata; /* 0-7, null */
	int16_t error_code; /* 0-7 */
} FlKafkaOffsetFetchResponsePartition;

typedef struct FlKafkaOffsetFetchResponseTopic
{
	FlKafkaBytes name; /* 0-7 */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchResponsePartition) partitions; /* 0-7 */
} FlKafkaOffsetFetchResponseTopic;

typedef struct FlKafkaOffsetFetchResponsePartitions
{
	int32_t partition_index; /* 8+ */
	int64_t committed_offset; /* 8+ */
	int32_t committed_leader_epoch; /* 8+, default -1 */
	FlKafkaBytes metadata; /* 8+, null */
	int16_t error_code; /* 8+ */
} FlKafkaOffsetFetchResponsePartitions;

typedef struct FlKafkaOffsetFetchResponseTopics
{
	FlKafkaBytes name; /* 8-9 */
	FlKafkaUuid topic_id; /* 10+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchResponsePartitions) partitions; /* 8+ */
} FlKafkaOffsetFetchResponseTopics;

typedef struct FlKafkaOffsetFetchResponseGroup
{
	FlKafkaBytes group_id; /* 8+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchResponseTopics) topics; /* 8+ */
	int16_t error_code; /* 8+ */
} FlKafkaOffsetFetchResponseGroup;

typedef struct FlKafkaOffsetFetchResponse
{
	int32_t throttle_time_ms; /* 3+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchResponseTopic) topics; /* 0-7 */
	int16_t error_code; /* 2-7 */
	FL_KAFKA_ARRAY(FlKafkaOffsetFetchResponseGroup) groups; /* 8+ */
} FlKafkaOffsetFetchResponse;

FL_KAFKA_DECLARE_STRUCT(offset_fetch_response_partition, FlKafkaOffsetFetchResponsePartition)
FL_KAFKA_DECLARE_STRUCT(offset_fetch_response_topic, FlKafkaOffsetFetchResponseTopic)
FL_KAFKA_DECLARE_STRUCT(offset_fetch_response_partitions, FlKafkaOffsetFetchResponsePartitions)
FL_KAFKA_DECLARE_STRUCT(offset_fetch_response_topics, FlKafkaOffsetFetchResponseTopics)
FL_KAFKA_DECLARE_STRUCT(offset_fetch_response_group, FlKafkaOffsetFetchResponseGroup)
FL_KAFKA_DECLARE_MESSAGE(offset_fetch_response, FlKafkaOffsetFetchResponse)

/* ---------- FindCoordinatorRequest, versions 0-6, flexible from 3 ---------- */

typedef struct FlKafkaFindCoordinatorRequest
{
	FlKafkaBytes key; /* 0-3 */
	int8_t key_type; /* 1+ */
	FL_KAFKA_ARRAY(FlKafkaBytes) coordinator_keys; /* 4+ */
} FlKafkaFindCoordinatorRequest;

FL_KAFKA_DECLARE_MESSAGE(find_coordinator_request, FlKafkaFindCoordinatorRequest)

/* ---------- FindCoordinatorResponse, versions 0-6, flexible from 3 ---------- */

typedef struct FlKafkaFindCoordinatorCoordinator
{
	FlKafkaBytes key; /* 4+ */
	int32_t node_id; /* 4+ */
	FlKafkaBytes host; /* 4+ */
	int32_t port; /* 4+ */
	int16_t error_code; /* 4+ */
	FlKafkaBytes error_message; /* 4+, null */
} FlKafkaFindCoordinatorCoordinator;

typedef struct FlKafkaFindCoordinatorResponse
{
	int32_t throttle_time_ms; /* 1+ */
	int16_t error_code; /* 0-3 */
	FlKafkaBytes error_message; /* 1-3, null */
	int32_t node_id; /* 0-3 */
	FlKafkaBytes host; /* 0-3 */
	int32_t port; /* 0-3 */
	FL_KAFKA_ARRAY(FlKafkaFindCoordinatorCoordinator) coordinators; /* 4+ */
} FlKafkaFindCoordinatorResponse;

FL_KAFKA_DECLARE_STRUCT(find_coordinator_coordinator, FlKafkaFindCoordinatorCoordinator)
FL_KAFKA_DECLARE_MESSAGE(find_coordinator_response, FlKafkaFindCoordinatorResponse)

/* ---------- JoinGroupRequest, versions 0-9, flexible from 6 ---------- */

typedef struct FlKafkaJoinGroupRequestProtocol
{
	FlKafkaBytes name; /* 0+ */
	FlKafkaBytes metadata; /* 0+ */
} FlKafkaJoinGroupRequestProtocol;

typedef struct FlKafkaJoinGroupRequest
{
	FlKafkaBytes group_id; /* 0+ */
	int32_t session_timeout_ms; /* 0+ */
	int32_t rebalance_timeout_ms; /* 1+, default -1 */
	FlKafkaBytes member_id; /* 0+ */
	FlKafkaBytes group_instance_id; /* 5+, null, default null */
	FlKafkaBytes protocol_type; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaJoinGroupRequestProtocol) protocols; /* 0+ */
	FlKafkaBytes reason; /* 8+, null, default null */
} FlKafkaJoinGroupRequest;

FL_KAFKA_DECLARE_STRUCT(join_group_request_protocol, FlKafkaJoinGroupRequestProtocol)
FL_KAFKA_DECLARE_MESSAGE(join_group_request, FlKafkaJoinGroupRequest)

/* ---------- JoinGroupResponse, versions 0-9, flexible from 6 ---------- */

typedef struct FlKafkaJoinGroupResponseMember
{
	FlKafkaBytes member_id; /* 0+ */
	FlKafkaBytes group_instance_id; /* 5+, null, default null */
	FlKafkaBytes metadata; /* 0+ */
} FlKafkaJoinGroupResponseMember;

typedef struct FlKafkaJoinGroupResponse
{
	int32_t throttle_time_ms; /* 2+ */
	int16_t error_code; /* 0+ */
	int32_t generation_id; /* 0+, default -1 */
	FlKafkaBytes protocol_type; /* 7+, null, default null */
	FlKafkaBytes protocol_name; /* 0+, null 7+ */
	FlKafkaBytes leader; /* 0+ */
	bool skip_assignment; /* 9+ */
	FlKafkaBytes member_id; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaJoinGroupResponseMember) members; /* 0+ */
} FlKafkaJoinGroupResponse;

FL_KAFKA_DECLARE_STRUCT(join_group_response_member, FlKafkaJoinGroupResponseMember)
FL_KAFKA_DECLARE_MESSAGE(join_group_response, FlKafkaJoinGroupResponse)

/* ---------- HeartbeatRequest, versions 0-4, flexible from 4 ---------- */

typedef struct FlKafkaHeartbeatRequest
{
	FlKafkaBytes group_id; /* 0+ */
	int32_t generation_id; /* 0+ */
	FlKafkaBytes member_id; /* 0+ */
	FlKafkaBytes group_instance_id; /* 3+, null, default null */
} FlKafkaHeartbeatRequest;

FL_KAFKA_DECLARE_MESSAGE(heartbeat_request, FlKafkaHeartbeatRequest)

/* ---------- HeartbeatResponse, versions 0-4, flexible from 4 ---------- */

typedef struct FlKafkaHeartbeatResponse
{
	int32_t throttle_time_ms; /* 1+ */
	int16_t error_code; /* 0+ */
} FlKafkaHeartbeatResponse;

FL_KAFKA_DECLARE_MESSAGE(heartbeat_response, FlKafkaHeartbeatResponse)

/* ---------- LeaveGroupRequest, versions 0-5, flexible from 4 ---------- */

typedef struct FlKafkaLeaveGroupMemberIdentity
{
	FlKafkaBytes member_id; /* 3+ */
	FlKafkaBytes group_instance_id; /* 3+, null, default null */
	FlKafkaBytes reason; /* 5+, null, default null */
} FlKafkaLeaveGroupMemberIdentity;

typedef struct FlKafkaLeaveGroupRequest
{
	FlKafkaBytes group_id; /* 0+ */
	FlKafkaBytes member_id; /* 0-2 */
	FL_KAFKA_ARRAY(FlKafkaLeaveGroupMemberIdentity) members; /* 3+ */
} FlKafkaLeaveGroupRequest;

FL_KAFKA_DECLARE_STRUCT(leave_group_member_identity, FlKafkaLeaveGroupMemberIdentity)
FL_KAFKA_DECLARE_MESSAGE(leave_group_request, FlKafkaLeaveGroupRequest)

/* ---------- LeaveGroupResponse, versions 0-5, flexible from 4 ---------- */

typedef struct FlKafkaLeaveGroupMemberResponse
{
	FlKafkaBytes member_id; /* 3+ */
	FlKafkaBytes group_instance_id; /* 3+, null */
	int16_t error_code; /* 3+ */
} FlKafkaLeaveGroupMemberResponse;

typedef struct FlKafkaLeaveGroupResponse
{
	int32_t throttle_time_ms; /* 1+ */
	int16_t error_code; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaLeaveGroupMemberResponse) members; /* 3+ */
} FlKafkaLeaveGroupResponse;

FL_KAFKA_DECLARE_STRUCT(leave_group_member_response, FlKafkaLeaveGroupMemberResponse)
FL_KAFKA_DECLARE_MESSAGE(leave_group_response, FlKafkaLeaveGroupResponse)

/* ---------- SyncGroupRequest, versions 0-5, flexible from 4 ---------- */

typedef struct FlKafkaSyncGroupRequestAssignment
{
	FlKafkaBytes member_id; /* 0+ */
	FlKafkaBytes assignment; /* 0+ */
} FlKafkaSyncGroupRequestAssignment;

typedef struct FlKafkaSyncGroupRequest
{
	FlKafkaBytes group_id; /* 0+ */
	int32_t generation_id; /* 0+ */
	FlKafkaBytes member_id; /* 0+ */
	FlKafkaBytes group_instance_id; /* 3+, null, default null */
	FlKafkaBytes protocol_type; /* 5+, null, default null */
	FlKafkaBytes protocol_name; /* 5+, null, default null */
	FL_KAFKA_ARRAY(FlKafkaSyncGroupRequestAssignment) assignments; /* 0+ */
} FlKafkaSyncGroupRequest;

FL_KAFKA_DECLARE_STRUCT(sync_group_request_assignment, FlKafkaSyncGroupRequestAssignment)
FL_KAFKA_DECLARE_MESSAGE(sync_group_request, FlKafkaSyncGroupRequest)

/* ---------- SyncGroupResponse, versions 0-5, flexible from 4 ---------- */

typedef struct FlKafkaSyncGroupResponse
{
	int32_t throttle_time_ms; /* 1+ */
	int16_t error_code; /* 0+ */
	FlKafkaBytes protocol_type; /* 5+, null, default null */
	FlKafkaBytes protocol_name; /* 5+, null, default null */
	FlKafkaBytes assignment; /* 0+ */
} FlKafkaSyncGroupResponse;

FL_KAFKA_DECLARE_MESSAGE(sync_group_response, FlKafkaSyncGroupResponse)

/* ---------- DescribeGroupsRequest, versions 0-6, flexible from 5 ---------- */

typedef struct FlKafkaDescribeGroupsRequest
{
	FL_KAFKA_ARRAY(FlKafkaBytes) groups; /* 0+ */
	bool include_authorized_operations; /* 3+ */
} FlKafkaDescribeGroupsRequest;

FL_KAFKA_DECLARE_MESSAGE(describe_groups_request, FlKafkaDescribeGroupsRequest)

/* ---------- DescribeGroupsResponse, versions 0-6, flexible from 5 ---------- */

typedef struct FlKafkaDescribeGroupsDescribedGroupMember
{
	FlKafkaBytes member_id; /* 0+ */
	FlKafkaBytes group_instance_id; /* 4+, null, default null */
	FlKafkaBytes client_id; /* 0+ */
	FlKafkaBytes client_host; /* 0+ */
	FlKafkaBytes member_metadata; /* 0+ */
	FlKafkaBytes member_assignment; /* 0+ */
} FlKafkaDescribeGroupsDescribedGroupMember;

typedef struct FlKafkaDescribeGroupsDescribedGroup
{
	int16_t error_code; /* 0+ */
	FlKafkaBytes error_message; /* 6+, null, default null */
	FlKafkaBytes group_id; /* 0+ */
	FlKafkaBytes group_state; /* 0+ */
	FlKafkaBytes protocol_type; /* 0+ */
	FlKafkaBytes protocol_data; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeGroupsDescribedGroupMember) members; /* 0+ */
	int32_t authorized_operations; /* 3+, default -2147483648 */
} FlKafkaDescribeGroupsDescribedGroup;

typedef struct FlKafkaDescribeGroupsResponse
{
	int32_t throttle_time_ms; /* 1+ */
	FL_KAFKA_ARRAY(FlKafkaDescribeGroupsDescribedGroup) groups; /* 0+ */
} FlKafkaDescribeGroupsResponse;

FL_KAFKA_DECLARE_STRUCT(describe_groups_described_group_member, FlKafkaDescribeGroupsDescribedGroupMember)
FL_KAFKA_DECLARE_STRUCT(describe_groups_described_group, FlKafkaDescribeGroupsDescribedGroup)
FL_KAFKA_DECLARE_MESSAGE(describe_groups_response, FlKafkaDescribeGroupsResponse)

/* ---------- ListGroupsRequest, versions 0-5, flexible from 3 ---------- */

typedef struct FlKafkaListGroupsRequest
{
	FL_KAFKA_ARRAY(FlKafkaBytes) states_filter; /* 4+ */
	FL_KAFKA_ARRAY(FlKafkaBytes) types_filter; /* 5+ */
} FlKafkaListGroupsRequest;

FL_KAFKA_DECLARE_MESSAGE(list_groups_request, FlKafkaListGroupsRequest)

/* ---------- ListGroupsResponse, versions 0-5, flexible from 3 ---------- */

typedef struct FlKafkaListGroupsListedGroup
{
	FlKafkaBytes group_id; /* 0+ */
	FlKafkaBytes protocol_type; /* 0+ */
	FlKafkaBytes group_state; /* 4+ */
	FlKafkaBytes group_type; /* 5+ */
} FlKafkaListGroupsListedGroup;

typedef struct FlKafkaListGroupsResponse
{
	int32_t throttle_time_ms; /* 1+ */
	int16_t error_code; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaListGroupsListedGroup) groups; /* 0+ */
} FlKafkaListGroupsResponse;

FL_KAFKA_DECLARE_STRUCT(list_groups_listed_group, FlKafkaListGroupsListedGroup)
FL_KAFKA_DECLARE_MESSAGE(list_groups_response, FlKafkaListGroupsResponse)

/* ---------- DeleteGroupsRequest, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaDeleteGroupsRequest
{
	FL_KAFKA_ARRAY(FlKafkaBytes) groups_names; /* 0+ */
} FlKafkaDeleteGroupsRequest;

FL_KAFKA_DECLARE_MESSAGE(delete_groups_request, FlKafkaDeleteGroupsRequest)

/* ---------- DeleteGroupsResponse, versions 0-2, flexible from 2 ---------- */

typedef struct FlKafkaDeleteGroupsDeletableGroupResult
{
	FlKafkaBytes group_id; /* 0+ */
	int16_t error_code; /* 0+ */
} FlKafkaDeleteGroupsDeletableGroupResult;

typedef struct FlKafkaDeleteGroupsResponse
{
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaDeleteGroupsDeletableGroupResult) results; /* 0+ */
} FlKafkaDeleteGroupsResponse;

FL_KAFKA_DECLARE_STRUCT(delete_groups_deletable_group_result, FlKafkaDeleteGroupsDeletableGroupResult)
FL_KAFKA_DECLARE_MESSAGE(delete_groups_response, FlKafkaDeleteGroupsResponse)

/* ---------- OffsetDeleteRequest, versions 0 ---------- */

typedef struct FlKafkaOffsetDeleteRequestPartition
{
	int32_t partition_index; /* 0+ */
} FlKafkaOffsetDeleteRequestPartition;

typedef struct FlKafkaOffsetDeleteRequestTopic
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetDeleteRequestPartition) partitions; /* 0+ */
} FlKafkaOffsetDeleteRequestTopic;

typedef struct FlKafkaOffsetDeleteRequest
{
	FlKafkaBytes group_id; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetDeleteRequestTopic) topics; /* 0+ */
} FlKafkaOffsetDeleteRequest;

FL_KAFKA_DECLARE_STRUCT(offset_delete_request_partition, FlKafkaOffsetDeleteRequestPartition)
FL_KAFKA_DECLARE_STRUCT(offset_delete_request_topic, FlKafkaOffsetDeleteRequestTopic)
FL_KAFKA_DECLARE_MESSAGE(offset_delete_request, FlKafkaOffsetDeleteRequest)

/* ---------- OffsetDeleteResponse, versions 0 ---------- */

typedef struct FlKafkaOffsetDeleteResponsePartition
{
	int32_t partition_index; /* 0+ */
	int16_t error_code; /* 0+ */
} FlKafkaOffsetDeleteResponsePartition;

typedef struct FlKafkaOffsetDeleteResponseTopic
{
	FlKafkaBytes name; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetDeleteResponsePartition) partitions; /* 0+ */
} FlKafkaOffsetDeleteResponseTopic;

typedef struct FlKafkaOffsetDeleteResponse
{
	int16_t error_code; /* 0+ */
	int32_t throttle_time_ms; /* 0+ */
	FL_KAFKA_ARRAY(FlKafkaOffsetDeleteResponseTopic) topics; /* 0+ */
} FlKafkaOffsetDeleteResponse;

FL_KAFKA_DECLARE_STRUCT(offset_delete_response_partition, FlKafkaOffsetDeleteResponsePartition)
FL_KAFKA_DECLARE_STRUCT(offset_delete_response_topic, FlKafkaOffsetDeleteResponseTopic)
FL_KAFKA_DECLARE_MESSAGE(offset_delete_response, FlKafkaOffsetDeleteResponse)

/* ---------- ConsumerProtocolSubscription, versions 0-3 ---------- */

typedef struct FlKafkaConsumerProtocolSubscriptionTopicPartition
{
	FlKafkaBytes topic; /* 1+ */
	FL_KAFKA_ARRAY(int32_t) partitions; /* 1+ */
} FlKafkaConsumerProtocolSubscriptionTopicPartition;

typedef struct FlKafkaConsumerProtocolSubscription
{
	FL_KAFKA_ARRAY(FlKafkaBytes) topics; /* 0+ */
	FlKafkaBytes user_data; /* 0+, null, default null */
	FL_KAFKA_ARRAY(FlKafkaConsumerProtocolSubscriptionTopicPartition) owned_partitions; /* 1+ */
	int32_t generation_id; /* 2+, default -1 */
	FlKafkaBytes rack_id; /* 3+, null, default null */
} FlKafkaConsumerProtocolSubscription;

FL_KAFKA_DECLARE_STRUCT(consumer_protocol_subscription_topic_partition, FlKafkaConsumerProtocolSubscriptionTopicPartition)
FL_KAFKA_DECLARE_MESSAGE(consumer_protocol_subscription, FlKafkaConsumerProtocolSubscription)

/* ---------- ConsumerProtocolAssignment, versions 0-3 ---------- */

typedef struct FlKafkaConsumerProtocolAssignmentTopicPartition
{
	FlKafkaBytes topic; /* 0+ */
	FL_KAFKA_ARRAY(int32_t) partitions; /* 0+ */
} FlKafkaConsumerProtocolAssignmentTopicPartition;

typedef struct FlKafkaConsumerProtocolAssignment
{
	FL_KAFKA_ARRAY(FlKafkaConsumerProtocolAssignmentTopicPartition) assigned_partitions; /* 0+ */
	FlKafkaBytes user_data; /* 0+, null, default null */
} FlKafkaConsumerProtocolAssignment;

FL_KAFKA_DECLARE_STRUCT(consumer_protocol_assignment_topic_partition, FlKafkaConsumerProtocolAssignmentTopicPartition)
FL_KAFKA_DECLARE_MESSAGE(consumer_protocol_assignment, FlKafkaConsumerProtocolAssignment)

#endif /* FLEETLOG_KAFKA_GROUP_H */
