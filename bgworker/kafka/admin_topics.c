/*
 * admin_topics.c
 *		Topics made, deleted and given partitions; records deleted at the front.
 *
 * Names, numbers and configurations are checked here, rights and everything that
 * depends on the catalog at the moment by the SQL functions that do it.
 */
#include "postgres.h"

#include "admin.h"

bool fl_kafka_auto_create_topics = false;
int fl_kafka_num_partitions = 1;

#define NAME_MAX_BYTES (NAMEDATALEN - 1) /* of a stream */

/* ---- CreateTopics ---- */

typedef struct Created
{
	FlKafkaBytes *names;
	int32 *partitions;
	FlKafkaSettings *settings;
} Created;

static void
put_created_configs(FlKafkaCreateTopicsCreatableTopicResult *out, const FlKafkaSettings *settings)
{
	FlKafkaConfig *configs;
	int n = fl_kafka_topic_configs(settings, &configs);
	FlKafkaCreateTopicsCreatableTopicConfigs *items = palloc(sizeof(*items) * n);

	for (int i = 0; i < n; i++)
	{
		fl_kafka_init_create_topics_creatable_topic_configs(&items[i]);
		items[i].name = fl_kafka_string(configs[i].name);
		items[i].value = fl_kafka_string(configs[i].value);
		items[i].read_only = configs[i].read_only;
		items[i].config_source = configs[i].source;
	}
	fl_kafka_set_items(&out->configs, items, n);
}

static void
answer_create(FlKafkaAdmin *admin)
{
	Created *created = admin->state;
	FlKafkaCreateTopicsResponse out;
	FlKafkaCreateTopicsCreatableTopicResult *results = palloc(sizeof(*results) * (admin->n + 1));
	int n = 0;

	for (int i = 0; i < admin->n; i++)
	{
		const FlKafkaVerdict *v = &admin->verdicts[i];
		FlKafkaCreateTopicsCreatableTopicResult *r = &results[n++];

		fl_kafka_init_create_topics_creatable_topic_result(r);
		r->name = created->names[i];
		r->error_code = v->error;
		r->error_message = fl_kafka_admin_message(v);
		fl_kafka_set_items(&r->configs, (FlKafkaCreateTopicsCreatableTopicConfigs *) NULL, 0);
		if (v->error != FL_KAFKA_NO_ERROR)
			continue;
		r->num_partitions = created->partitions[i];
		r->replication_factor = 1;
		put_created_configs(r, &created->settings[i]);
		if (!admin->validate_only)
			fl_kafka_topic_id((Oid) v->number, &r->topic_id);
	}
	fl_kafka_init_create_topics_response(&out);
	fl_kafka_set_items(&out.topics, results, n);
	fl_kafka_answer(admin->req, &out);
}

/* Replicas that the client has chosen: one broker, partitions from 0 on; NULL: good. */
static const char *
check_assignments(FlKafkaCreateTopicsCreatableTopic *topic, int n)
{
	FlKafkaCreateTopicsCreatableReplicaAssignment a;
	bool seen[FL_MAX_SHARDS] = {false};

	while (fl_kafka_next(&topic->assignments, &a))
	{
		int32 broker = 0;

		if (a.partition_index < 0 || a.partition_index >= Min(n, FL_MAX_SHARDS) || seen[a.partition_index])
			return "the partitions of an assignment must be numbered from 0";
		seen[a.partition_index] = true;
		if (fl_kafka_count(&a.broker_ids) != 1 || !fl_kafka_next(&a.broker_ids, &broker) || broker != FL_KAFKA_NODE_ID)
			return "there is one broker, 1";
	}
	return NULL;
}

static bool
has_good_name(FlKafkaAdmin *admin, int i, FlKafkaBytes name)
{
	if (!fl_kafka_topic_is_legal(name))
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_TOPIC_EXCEPTION,
							  "a topic's name is made of letters, digits, '.', '_' and '-'");
	else if (name.len > NAME_MAX_BYTES)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_TOPIC_EXCEPTION,
							  psprintf("a topic is a table, whose name has at most %d bytes", NAME_MAX_BYTES));
	return admin->verdicts[i].error == FL_KAFKA_NO_ERROR;
}

/* How many partitions; what cannot be is refused. */
static int32
check_partitions(FlKafkaAdmin *admin, int i, FlKafkaCreateTopicsCreatableTopic *topic)
{
	int assigned = fl_kafka_count(&topic->assignments);
	const char *why;

	if (assigned > 0)
	{
		if (topic->num_partitions != -1 || topic->replication_factor != -1)
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST,
								  "with an assignment both number of partitions and replication factor must be -1");
		else if (assigned > FL_MAX_SHARDS)
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_PARTITIONS,
								  psprintf("a topic has at most %d partitions", FL_MAX_SHARDS));
		else if ((why = check_assignments(topic, assigned)) != NULL)
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REPLICA_ASSIGNMENT, why);
		return assigned;
	}
	if (topic->num_partitions != -1 && (topic->num_partitions < 1 || topic->num_partitions > FL_MAX_SHARDS))
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_PARTITIONS,
							  psprintf("a topic has 1 to %d partitions", FL_MAX_SHARDS));
	else if (topic->replication_factor != -1 && topic->replication_factor != 1)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REPLICATION_FACTOR,
							  "there is one broker: the replication factor is 1, or -1; standbys are PostgreSQL's");
	return topic->num_partitions == -1 ? fl_kafka_num_partitions : topic->num_partitions;
}

static void
read_configs(FlKafkaAdmin *admin, int i, FlKafkaCreateTopicsCreatableTopic *topic, FlKafkaSettings *settings)
{
	FlKafkaCreateTopicsCreatableTopicConfig config;

	while (fl_kafka_next(&topic->configs, &config))
	{
		const char *why = config.value.len < 0 ? "a configuration has no value"
											   : fl_kafka_set(settings, config.name, config.value);

		if (why != NULL)
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_CONFIG, why);
	}
}

static void
ask_create(FlKafkaAdmin *admin, int i, FlKafkaBytes name, int32 partitions, const FlKafkaSettings *settings)
{
	const char *params[FL_TOPIC_PARAMS_MAX];

	if (admin->verdicts[i].error != FL_KAFKA_NO_ERROR)
		return;
	params[0] = fl_kafka_text(name);
	params[1] = psprintf("%d", partitions);
	fl_kafka_settings_to_sql(settings, NULL, partitions, params + 2);
	fl_kafka_admin_ask(admin, i, FL_TOPIC_CREATE, FL_TOPIC_PARAMS_MAX, params);
}

static void
read_topic(FlKafkaAdmin *admin, int i, FlKafkaCreateTopicsCreatableTopic *topic)
{
	Created *created = admin->state;

	created->names[i] = topic->name;
	if (!has_good_name(admin, i, topic->name))
		return;
	if (fl_kafka_find_topic(admin->req->door, topic->name) != NULL)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_TOPIC_ALREADY_EXISTS, "there is a topic of that name");
	created->partitions[i] = check_partitions(admin, i, topic);
	read_configs(admin, i, topic, &created->settings[i]);
}

void
fl_kafka_handle_create_topics(FlKafkaRequest *req)
{
	FlKafkaCreateTopicsRequest *in = req->message;
	int n = fl_kafka_count(&in->topics);
	FlKafkaCreateTopicsCreatableTopic topic;
	Created *created = palloc0(sizeof(Created));
	FlKafkaAdmin *admin =
		fl_kafka_admin_create(req, n, in->timeout_ms, in->validate_only, answer_create, created);

	if (admin == NULL)
		return;
	created->names = palloc0(sizeof(FlKafkaBytes) * (n + 1));
	created->partitions = palloc0(sizeof(int32) * (n + 1));
	created->settings = palloc0(sizeof(FlKafkaSettings) * (n + 1));
	for (int i = 0; i < n && fl_kafka_next(&in->topics, &topic); i++)
		read_topic(admin, i, &topic);
	fl_kafka_admin_refuse_twins(admin, created->names);
	(void) fl_kafka_admin_may(admin, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED);
	for (int i = 0; i < n; i++)
		ask_create(admin, i, created->names[i], created->partitions[i], &created->settings[i]);
	fl_kafka_admin_wait(admin);
}

/* ---- topics that are made when they are asked for ---- */

FlKafkaAdmin *
fl_kafka_admin_auto_create(FlKafkaRequest *req, const FlKafkaBytes *names, int n, void (*answer)(FlKafkaAdmin *))
{
	FlKafkaSettings settings = {0};
	FlKafkaAdmin *admin = fl_kafka_admin_create(req, n, FL_KAFKA_AUTO_CREATE_MS, false, answer, NULL);

	if (admin == NULL)
		return NULL;
	(void) fl_kafka_admin_may(admin, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED);
	for (int i = 0; i < n; i++)
		if (has_good_name(admin, i, names[i]))
			ask_create(admin, i, names[i], fl_kafka_num_partitions, &settings);
	return admin;
}

/* ---- DeleteTopics ---- */

typedef struct Deleted
{
	FlKafkaBytes *names;
	FlKafkaUuid *ids;
} Deleted;

static void
answer_delete(FlKafkaAdmin *admin)
{
	Deleted *deleted = admin->state;
	FlKafkaDeleteTopicsResponse out;
	FlKafkaDeleteTopicsDeletableTopicResult *results = palloc(sizeof(*results) * (admin->n + 1));

	for (int i = 0; i < admin->n; i++)
	{
		fl_kafka_init_delete_topics_deletable_topic_result(&results[i]);
		results[i].name = deleted->names[i];
		results[i].topic_id = deleted->ids[i];
		results[i].error_code = admin->verdicts[i].error;
		results[i].error_message = fl_kafka_admin_message(&admin->verdicts[i]);
	}
	fl_kafka_init_delete_topics_response(&out);
	fl_kafka_set_items(&out.responses, results, admin->n);
	fl_kafka_answer(admin->req, &out);
}

static void
ask_stream(FlKafkaAdmin *admin, int i, FlTopicAdminOp op, const FlStreamInfo *stream)
{
	const char *params[1] = {psprintf("%u", stream->relid)};

	fl_kafka_admin_ask(admin, i, op, 1, params);
}

/* By name, or by id where the name is null. */
static const FlStreamInfo *
find_deleted(FlKafkaAdmin *admin, int i, Deleted *deleted)
{
	static const FlKafkaUuid none = {{0}};
	FlKafkaDoor *door = admin->req->door;
	const FlStreamInfo *stream;
	bool has_id = memcmp(&deleted->ids[i], &none, sizeof(none)) != 0;

	if (has_id == (deleted->names[i].len >= 0))
	{
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REQUEST, "a topic is named by its name or by its id");
		return NULL;
	}
	if (!has_id)
		return fl_kafka_admin_topic(admin, i, deleted->names[i]);
	stream = fl_kafka_find_topic_id(door, &deleted->ids[i]);
	if (stream == NULL || !fl_kafka_may_describe(admin->req->conn, stream))
	{
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_UNKNOWN_TOPIC_ID, "there is no topic with this id");
		return NULL;
	}
	deleted->names[i] = fl_kafka_string(pstrdup(fl_kafka_topic_name(door, stream->relid)));
	return stream;
}

static void
read_deleted(FlKafkaDeleteTopicsRequest *in, bool by_state, int n, Deleted *deleted)
{
	FlKafkaDeleteTopicsDeleteTopicState state;

	deleted->names = palloc0(sizeof(FlKafkaBytes) * (n + 1));
	deleted->ids = palloc0(sizeof(FlKafkaUuid) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		if (!by_state)
			(void) fl_kafka_next(&in->topic_names, &deleted->names[i]);
		else if (fl_kafka_next(&in->topics, &state))
		{
			deleted->names[i] = state.name;
			deleted->ids[i] = state.topic_id;
		}
	}
}

void
fl_kafka_handle_delete_topics(FlKafkaRequest *req)
{
	FlKafkaDeleteTopicsRequest *in = req->message;
	bool by_state = req->version >= 6;
	int n = by_state ? fl_kafka_count(&in->topics) : fl_kafka_count(&in->topic_names);
	Deleted *deleted = palloc0(sizeof(Deleted));
	FlKafkaAdmin *admin = fl_kafka_admin_create(req, n, in->timeout_ms, false, answer_delete, deleted);
	const FlStreamInfo **streams;

	if (admin == NULL)
		return;
	read_deleted(in, by_state, n, deleted);
	streams = palloc0(sizeof(FlStreamInfo *) * (n + 1));
	for (int i = 0; i < n; i++)
		streams[i] = find_deleted(admin, i, deleted);
	fl_kafka_admin_refuse_twins(admin, deleted->names);
	(void) fl_kafka_admin_may(admin, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED);
	for (int i = 0; i < n; i++)
		if (streams[i] != NULL)
			ask_stream(admin, i, FL_TOPIC_DROP, streams[i]);
	fl_kafka_admin_wait(admin);
}

/* ---- CreatePartitions ---- */

static void
answer_partitions(FlKafkaAdmin *admin)
{
	const FlKafkaBytes *names = admin->state;
	FlKafkaCreatePartitionsResponse out;
	FlKafkaCreatePartitionsTopicResult *results = palloc(sizeof(*results) * (admin->n + 1));

	for (int i = 0; i < admin->n; i++)
	{
		fl_kafka_init_create_partitions_topic_result(&results[i]);
		results[i].name = names[i];
		results[i].error_code = admin->verdicts[i].error;
		results[i].error_message = fl_kafka_admin_message(&admin->verdicts[i]);
	}
	fl_kafka_init_create_partitions_response(&out);
	fl_kafka_set_items(&out.results, results, admin->n);
	fl_kafka_answer(admin->req, &out);
}

static void
check_new_assignments(FlKafkaAdmin *admin, int i, FlKafkaCreatePartitionsTopic *topic, int32 more)
{
	FlKafkaCreatePartitionsAssignment a;

	if (fl_kafka_is_null(&topic->assignments))
		return;
	if (fl_kafka_count(&topic->assignments) != more)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REPLICA_ASSIGNMENT,
							  "an assignment must be given for each new partition");
	while (fl_kafka_next(&topic->assignments, &a))
	{
		int32 broker = 0;

		if (fl_kafka_count(&a.broker_ids) != 1 || !fl_kafka_next(&a.broker_ids, &broker) || broker != FL_KAFKA_NODE_ID)
			fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_REPLICA_ASSIGNMENT, "there is one broker, 1");
	}
}

static void
check_count(FlKafkaAdmin *admin, int i, const FlStreamInfo *stream, int32 count)
{
	if (count == stream->shards)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_PARTITIONS,
							  psprintf("the topic has %d partitions already", stream->shards));
	else if (count < stream->shards)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_PARTITIONS,
							  psprintf("the topic has %d partitions, and none can be taken away", stream->shards));
	else if (count > FL_MAX_SHARDS)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_INVALID_PARTITIONS,
							  psprintf("a topic has at most %d partitions", FL_MAX_SHARDS));
}

/* retention.bytes is each partition's, so the stream's grows with their number. */
static void
ask_grow(FlKafkaAdmin *admin, int i, const FlStreamInfo *stream, int32 count)
{
	FlKafkaSettings settings;
	const char *all[FL_KAFKA_N_SETTINGS];
	const char *params[3];

	fl_kafka_settings_of(stream, &settings);
	fl_kafka_settings_to_sql(&settings, NULL, count, all);
	params[0] = psprintf("%u", stream->relid);
	params[1] = psprintf("%d", count);
	params[2] = settings.values[FL_KAFKA_SET_RETENTION_BYTES] == NULL ? NULL : all[FL_KAFKA_SET_RETENTION_BYTES];
	fl_kafka_admin_ask(admin, i, FL_TOPIC_GROW, lengthof(params), params);
}

void
fl_kafka_handle_create_partitions(FlKafkaRequest *req)
{
	FlKafkaCreatePartitionsRequest *in = req->message;
	int n = fl_kafka_count(&in->topics);
	FlKafkaCreatePartitionsTopic topic;
	FlKafkaBytes *names = palloc0(sizeof(FlKafkaBytes) * (Min(n, FL_KAFKA_MAX_ADMIN) + 1));
	const FlStreamInfo **streams;
	FlKafkaAdmin *admin =
		fl_kafka_admin_create(req, n, in->timeout_ms, in->validate_only, answer_partitions, names);

	if (admin == NULL)
		return;
	streams = palloc0(sizeof(FlStreamInfo *) * (n + 1));
	for (int i = 0; i < n && fl_kafka_next(&in->topics, &topic); i++)
	{
		names[i] = topic.name;
		streams[i] = fl_kafka_admin_topic(admin, i, topic.name);
		if (streams[i] == NULL)
			continue;
		check_count(admin, i, streams[i], topic.count);
		check_new_assignments(admin, i, &topic, topic.count - streams[i]->shards);
	}
	fl_kafka_admin_refuse_twins(admin, names);
	(void) fl_kafka_admin_may(admin, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED);
	fl_kafka_rewind(&in->topics);
	for (int i = 0; i < n && fl_kafka_next(&in->topics, &topic); i++)
		if (streams[i] != NULL)
			ask_grow(admin, i, streams[i], topic.count);
	fl_kafka_admin_wait(admin);
}

/* ---- DeleteRecords ---- */

static void
answer_records(FlKafkaAdmin *admin)
{
	FlKafkaDeleteRecordsRequest *in = admin->req->message;
	FlKafkaDeleteRecordsTopic topic;
	FlKafkaDeleteRecordsPartition p;
	FlKafkaDeleteRecordsResponse out;
	FlKafkaDeleteRecordsTopicResult *topics = palloc(sizeof(*topics) * (fl_kafka_count(&in->topics) + 1));
	FlKafkaDeleteRecordsPartitionResult *partitions = palloc(sizeof(*partitions) * (admin->n + 1));
	int ntopics = 0;
	int n = 0;

	fl_kafka_rewind(&in->topics);
	while (fl_kafka_next(&in->topics, &topic))
	{
		int first = n;

		while (n < admin->n && fl_kafka_next(&topic.partitions, &p))
		{
			const FlKafkaVerdict *v = &admin->verdicts[n];

			fl_kafka_init_delete_records_partition_result(&partitions[n]);
			partitions[n].partition_index = p.partition_index;
			partitions[n].error_code = v->error;
			partitions[n].low_watermark = v->error == FL_KAFKA_NO_ERROR ? v->number : -1;
			n++;
		}
		fl_kafka_init_delete_records_topic_result(&topics[ntopics]);
		topics[ntopics].name = topic.name;
		fl_kafka_set_items(&topics[ntopics++].partitions, &partitions[first], n - first);
	}
	fl_kafka_init_delete_records_response(&out);
	fl_kafka_set_items(&out.topics, topics, ntopics);
	fl_kafka_answer(admin->req, &out);
}

/* The protocol has no place for a message, and which hold refused it is worth knowing. */
static void
log_refused(FlKafkaAdmin *admin)
{
	for (int i = 0; i < admin->n; i++)
		if (admin->verdicts[i].error == FL_KAFKA_POLICY_VIOLATION && fl_kafka_log_allowed(admin->req->door))
			ereport(LOG, (errmsg("fleetlog: a Kafka client's DeleteRecords is refused: %s",
								 admin->verdicts[i].message != NULL ? admin->verdicts[i].message : "held")));
}

static void
finish_records(FlKafkaAdmin *admin)
{
	log_refused(admin);
	answer_records(admin);
}

/* -1: up to the tail. */
static void
ask_trim(FlKafkaAdmin *admin, int i, const FlStreamInfo *stream, const FlKafkaDeleteRecordsPartition *p)
{
	const char *params[3];

	if (stream == NULL)
		return;
	if (p->partition_index < 0 || p->partition_index >= stream->shards)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION, NULL);
	else if (p->offset < -1)
		fl_kafka_admin_refuse(admin, i, FL_KAFKA_OFFSET_OUT_OF_RANGE, NULL);
	params[0] = psprintf("%u", stream->relid);
	params[1] = psprintf("%d", p->partition_index);
	params[2] = p->offset == -1 ? NULL : psprintf(INT64_FORMAT, p->offset);
	fl_kafka_admin_ask(admin, i, FL_TOPIC_TRIM, lengthof(params), params);
}

void
fl_kafka_handle_delete_records(FlKafkaRequest *req)
{
	FlKafkaDeleteRecordsRequest *in = req->message;
	FlKafkaDeleteRecordsTopic topic;
	FlKafkaDeleteRecordsPartition p;
	FlKafkaAdmin *admin;
	int n = 0;
	int i = 0;
	bool may;

	while (fl_kafka_next(&in->topics, &topic))
		n += fl_kafka_count(&topic.partitions);
	admin = fl_kafka_admin_create(req, n, in->timeout_ms, false, finish_records, NULL);
	if (admin == NULL)
		return;
	may = fl_kafka_admin_may(admin, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED);
	fl_kafka_rewind(&in->topics);
	while (may && fl_kafka_next(&in->topics, &topic))
	{
		while (i < n && fl_kafka_next(&topic.partitions, &p))
		{
			ask_trim(admin, i, fl_kafka_admin_topic(admin, i, topic.name), &p);
			i++;
		}
	}
	fl_kafka_admin_wait(admin);
}
