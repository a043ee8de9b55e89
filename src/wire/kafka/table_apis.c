/*-------------------------------------------------------------------------
 *
 * table_apis.c
 *	  The APIs of Kafka that the codec speaks: ranges and messages.
 *
 * Read by frame.c and by the Kafka door.
 *
 * Written by script/kafka-messages.py; change that, not this.
 *
 *-------------------------------------------------------------------------
 */
/* clang-format off */
#include "fleetlog/kafka_apis.h"
#include "fleetlog/kafka_admin.h"
#include "fleetlog/kafka_data.h"
#include "fleetlog/kafka_group.h"
#include "fleetlog/kafka_session.h"

const FlKafkaApi fl_kafka_apis[FL_KAFKA_N_APIS] = {
	{"Produce", &fl_kafka_produce_request, &fl_kafka_produce_response, 0, 0, 3, 11},
	{"Fetch", &fl_kafka_fetch_request, &fl_kafka_fetch_response, 1, 4, 4, 17},
	{"ListOffsets", &fl_kafka_list_offsets_request, &fl_kafka_list_offsets_response, 2, 1, 1, 10},
	{"Metadata", &fl_kafka_metadata_request, &fl_kafka_metadata_response, 3, 0, 0, 12},
	{"OffsetCommit", &fl_kafka_offset_commit_request, &fl_kafka_offset_commit_response, 8, 2, 2, 9},
	{"OffsetFetch", &fl_kafka_offset_fetch_request, &fl_kafka_offset_fetch_response, 9, 1, 1, 9},
	{"FindCoordinator", &fl_kafka_find_coordinator_request, &fl_kafka_find_coordinator_response, 10, 0, 0, 6},
	{"JoinGroup", &fl_kafka_join_group_request, &fl_kafka_join_group_response, 11, 0, 0, 9},
	{"Heartbeat", &fl_kafka_heartbeat_request, &fl_kafka_heartbeat_response, 12, 0, 0, 4},
	{"LeaveGroup", &fl_kafka_leave_group_request, &fl_kafka_leave_group_response, 13, 0, 0, 5},
	{"SyncGroup", &fl_kafka_sync_group_request, &fl_kafka_sync_group_response, 14, 0, 0, 5},
	{"DescribeGroups", &fl_kafka_describe_groups_request, &fl_kafka_describe_groups_response, 15, 0, 0, 6},
	{"ListGroups", &fl_kafka_list_groups_request, &fl_kafka_list_groups_response, 16, 0, 0, 5},
	{"SaslHandshake", &fl_kafka_sasl_handshake_request, &fl_kafka_sasl_handshake_response, 17, 0, 0, 1},
	{"ApiVersions", &fl_kafka_api_versions_request, &fl_kafka_api_versions_response, 18, 0, 0, 4},
	{"CreateTopics", &fl_kafka_create_topics_request, &fl_kafka_create_topics_response, 19, 2, 2, 7},
	{"DeleteTopics", &fl_kafka_delete_topics_request, &fl_kafka_delete_topics_response, 20, 1, 1, 6},
	{"DeleteRecords", &fl_kafka_delete_records_request, &fl_kafka_delete_records_response, 21, 0, 0, 2},
	{"InitProducerId", &fl_kafka_init_producer_id_request, &fl_kafka_init_producer_id_response, 22, 0, 0, 5},
	{"OffsetForLeaderEpoch", &fl_kafka_offset_for_leader_epoch_request, &fl_kafka_offset_for_leader_epoch_response, 23, 2, 2, 4},
	{"DescribeAcls", &fl_kafka_describe_acls_request, &fl_kafka_describe_acls_response, 29, 1, 1, 3},
	{"CreateAcls", &fl_kafka_create_acls_request, &fl_kafka_create_acls_response, 30, 1, 1, 3},
	{"DeleteAcls", &fl_kafka_delete_acls_request, &fl_kafka_delete_acls_response, 31, 1, 1, 3},
	{"DescribeConfigs", &fl_kafka_describe_configs_request, &fl_kafka_describe_configs_response, 32, 1, 1, 4},
	{"AlterConfigs", &fl_kafka_alter_configs_request, &fl_kafka_alter_configs_response, 33, 0, 0, 2},
	{"DescribeLogDirs", &fl_kafka_describe_log_dirs_request, &fl_kafka_describe_log_dirs_response, 35, 1, 1, 4},
	{"SaslAuthenticate", &fl_kafka_sasl_authenticate_request, &fl_kafka_sasl_authenticate_response, 36, 0, 0, 2},
	{"CreatePartitions", &fl_kafka_create_partitions_request, &fl_kafka_create_partitions_response, 37, 0, 0, 3},
	{"DeleteGroups", &fl_kafka_delete_groups_request, &fl_kafka_delete_groups_response, 42, 0, 0, 2},
	{"IncrementalAlterConfigs", &fl_kafka_incremental_alter_configs_request, &fl_kafka_incremental_alter_configs_response, 44, 0, 0, 1},
	{"ListPartitionReassignments", &fl_kafka_list_partition_reassignments_request, &fl_kafka_list_partition_reassignments_response, 46, 0, 0, 0},
	{"OffsetDelete", &fl_kafka_offset_delete_request, &fl_kafka_offset_delete_response, 47, 0, 0, 0},
	{"DescribeCluster", &fl_kafka_describe_cluster_request, &fl_kafka_describe_cluster_response, 60, 0, 0, 1},
	{"DescribeTopicPartitions", &fl_kafka_describe_topic_partitions_request, &fl_kafka_describe_topic_partitions_response, 75, 0, 0, 0},
};
