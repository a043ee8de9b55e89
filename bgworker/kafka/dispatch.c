/*
 * dispatch.c
 *		Which requests are served, and by whom; ApiVersions, which tells clients.
 *
 * What is announced is what stands in this table, in the versions of the codec's
 * (fl_kafka_apis).
 */
#include "postgres.h"

#include "admin.h"
#include "group.h"
#include "kafka.h"
#include "reads.h"

/* By key. */
static const FlKafkaEntry entries[] = {
	{FL_KAFKA_PRODUCE, FL_KAFKA_OVERLAPS, fl_kafka_handle_produce},
	{FL_KAFKA_FETCH, FL_KAFKA_KEEPS, fl_kafka_handle_fetch},
	{FL_KAFKA_LIST_OFFSETS, FL_KAFKA_KEEPS, fl_kafka_handle_list_offsets},
	{FL_KAFKA_METADATA, FL_KAFKA_KEEPS, fl_kafka_handle_metadata},
	{FL_KAFKA_OFFSET_COMMIT, FL_KAFKA_KEEPS, fl_kafka_handle_offset_commit},
	{FL_KAFKA_OFFSET_FETCH, FL_KAFKA_KEEPS, fl_kafka_handle_offset_fetch},
	{FL_KAFKA_FIND_COORDINATOR, 0, fl_kafka_handle_find_coordinator},
	{FL_KAFKA_JOIN_GROUP, 0, fl_kafka_handle_join_group},
	{FL_KAFKA_HEARTBEAT, 0, fl_kafka_handle_heartbeat},
	{FL_KAFKA_LEAVE_GROUP, 0, fl_kafka_handle_leave_group},
	{FL_KAFKA_SYNC_GROUP, 0, fl_kafka_handle_sync_group},
	{FL_KAFKA_DESCRIBE_GROUPS, FL_KAFKA_KEEPS, fl_kafka_handle_describe_groups},
	{FL_KAFKA_LIST_GROUPS, FL_KAFKA_KEEPS, fl_kafka_handle_list_groups},
	{FL_KAFKA_SASL_HANDSHAKE, FL_KAFKA_OPEN, fl_kafka_handle_sasl_handshake},
	{FL_KAFKA_API_VERSIONS, FL_KAFKA_OPEN, fl_kafka_handle_api_versions},
	{FL_KAFKA_CREATE_TOPICS, FL_KAFKA_KEEPS, fl_kafka_handle_create_topics},
	{FL_KAFKA_DELETE_TOPICS, FL_KAFKA_KEEPS, fl_kafka_handle_delete_topics},
	{FL_KAFKA_DELETE_RECORDS, FL_KAFKA_KEEPS, fl_kafka_handle_delete_records},
	{FL_KAFKA_INIT_PRODUCER_ID, 0, fl_kafka_handle_init_producer_id},
	{FL_KAFKA_DESCRIBE_ACLS, 0, fl_kafka_handle_describe_acls},
	{FL_KAFKA_CREATE_ACLS, 0, fl_kafka_handle_create_acls},
	{FL_KAFKA_DELETE_ACLS, 0, fl_kafka_handle_delete_acls},
	{FL_KAFKA_DESCRIBE_CONFIGS, 0, fl_kafka_handle_describe_configs},
	{FL_KAFKA_ALTER_CONFIGS, FL_KAFKA_KEEPS, fl_kafka_handle_alter_configs},
	{FL_KAFKA_DESCRIBE_LOG_DIRS, FL_KAFKA_KEEPS, fl_kafka_handle_describe_log_dirs},
	{FL_KAFKA_SASL_AUTHENTICATE, FL_KAFKA_OPEN, fl_kafka_handle_sasl_authenticate},
	{FL_KAFKA_OFFSET_FOR_LEADER_EPOCH, 0, fl_kafka_handle_offset_for_leader_epoch},
	{FL_KAFKA_CREATE_PARTITIONS, FL_KAFKA_KEEPS, fl_kafka_handle_create_partitions},
	{FL_KAFKA_DELETE_GROUPS, FL_KAFKA_KEEPS, fl_kafka_handle_delete_groups},
	{FL_KAFKA_INCREMENTAL_ALTER_CONFIGS, FL_KAFKA_KEEPS, fl_kafka_handle_incremental_alter_configs},
	{FL_KAFKA_LIST_PARTITION_REASSIGNMENTS, 0, fl_kafka_handle_list_partition_reassignments},
	{FL_KAFKA_OFFSET_DELETE, FL_KAFKA_KEEPS, fl_kafka_handle_offset_delete},
	{FL_KAFKA_DESCRIBE_CLUSTER, 0, fl_kafka_handle_describe_cluster},
	{FL_KAFKA_DESCRIBE_TOPIC_PARTITIONS, 0, fl_kafka_handle_describe_topic_partitions},
};

const FlKafkaEntry *
fl_kafka_entry(int16 key)
{
	for (int i = 0; i < lengthof(entries); i++)
	{
		if (entries[i].key == key)
			return &entries[i];
	}
	return NULL;
}

/* KIP-511: what may stand in the name and version of a client. */
static bool
is_software(FlKafkaBytes text)
{
	for (int32 i = 0; i < text.len; i++)
	{
		uint8 c = text.data[i];
		bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

		if (!alphanumeric && (i == 0 || i == text.len - 1 || (c != '-' && c != '.')))
			return false;
	}
	return text.len > 0;
}

/* For views; what is_software lets through is ASCII. */
static void
keep_software(FlKafkaConn *conn, const FlKafkaApiVersionsRequest *in)
{
	char text[FL_SOFTWARE_KEEP];

	if (conn->software != NULL || in->client_software_name.len <= 0)
		return;
	snprintf(text, sizeof(text), "%.*s/%.*s", in->client_software_name.len,
			 (const char *) in->client_software_name.data, in->client_software_version.len,
			 (const char *) in->client_software_version.data);
	conn->software = MemoryContextStrdup(conn->door->context, text);
}

void
fl_kafka_handle_api_versions(FlKafkaRequest *req)
{
	const FlKafkaApiVersionsRequest *in = req->message;
	FlKafkaApiVersionsResponse out;
	FlKafkaApiVersionsApiVersion *versions = palloc(sizeof(*versions) * lengthof(entries));

	fl_kafka_init_api_versions_response(&out);
	for (int i = 0; i < lengthof(entries); i++)
	{
		const FlKafkaApi *api = fl_kafka_api(entries[i].key);

		fl_kafka_init_api_versions_api_version(&versions[i]);
		versions[i].api_key = api->key;
		versions[i].min_version = api->announced;
		versions[i].max_version = api->to;
	}
	if (req->version >= 3 && (!is_software(in->client_software_name) || !is_software(in->client_software_version)))
		out.error_code = FL_KAFKA_INVALID_REQUEST;
	else
	{
		keep_software(req->conn, in);
		fl_kafka_set_items(&out.api_keys, versions, lengthof(entries));
	}
	fl_kafka_answer(req, &out);
}
