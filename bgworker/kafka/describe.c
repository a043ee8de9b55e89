/*
 * describe.c
 *		What else tools ask: sizes, partitions page by page, and what there is none of
 *		here (access lists, reassignments).
 *
 * Rights are PostgreSQL's (GRANT), so there is no authorizer whose lists could be
 * shown or changed: error 54, as a broker without one answers.
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "admin.h"

#define MAX_PAGE 2000 /* partitions in an answer, as Kafka's own limit */
#define MAX_TOPICS 10000

static const int32 our_node[] = {FL_KAFKA_NODE_ID};
static const char no_acls[] = "rights are those of roles on streams: GRANT and REVOKE";

/* ---- access lists ---- */

void
fl_kafka_handle_describe_acls(FlKafkaRequest *req)
{
	FlKafkaDescribeAclsResponse out;

	fl_kafka_init_describe_acls_response(&out);
	out.error_code = FL_KAFKA_SECURITY_DISABLED;
	out.error_message = fl_kafka_string(no_acls);
	fl_kafka_answer(req, &out);
}

static bool
has_too_many(FlKafkaRequest *req, int n)
{
	if (n <= FL_KAFKA_MAX_ADMIN)
		return false;
	fl_kafka_refuse(req->conn, "it names too many access lists in one request");
	return true;
}

void
fl_kafka_handle_create_acls(FlKafkaRequest *req)
{
	FlKafkaCreateAclsRequest *in = req->message;
	int n = fl_kafka_count(&in->creations);
	FlKafkaCreateAclsResponse out;
	FlKafkaCreateAclsAclCreationResult *results;

	if (has_too_many(req, n))
		return;
	results = palloc(sizeof(*results) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		fl_kafka_init_create_acls_acl_creation_result(&results[i]);
		results[i].error_code = FL_KAFKA_SECURITY_DISABLED;
		results[i].error_message = fl_kafka_string(no_acls);
	}
	fl_kafka_init_create_acls_response(&out);
	fl_kafka_set_items(&out.results, results, n);
	fl_kafka_answer(req, &out);
}

void
fl_kafka_handle_delete_acls(FlKafkaRequest *req)
{
	FlKafkaDeleteAclsRequest *in = req->message;
	int n = fl_kafka_count(&in->filters);
	FlKafkaDeleteAclsResponse out;
	FlKafkaDeleteAclsFilterResult *results;

	if (has_too_many(req, n))
		return;
	results = palloc(sizeof(*results) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		fl_kafka_init_delete_acls_filter_result(&results[i]);
		results[i].error_code = FL_KAFKA_SECURITY_DISABLED;
		results[i].error_message = fl_kafka_string(no_acls);
	}
	fl_kafka_init_delete_acls_response(&out);
	fl_kafka_set_items(&out.filter_results, results, n);
	fl_kafka_answer(req, &out);
}

/* ---- reassignments ---- */

void
fl_kafka_handle_list_partition_reassignments(FlKafkaRequest *req)
{
	FlKafkaListPartitionReassignmentsResponse out;

	fl_kafka_init_list_partition_reassignments_response(&out);
	fl_kafka_answer(req, &out);
}

/* ---- DescribeTopicPartitions ---- */

/* In the order of names; a name that stands twice is answered once. */
static int
compare_names(const void *a, const void *b)
{
	const FlKafkaBytes *x = a;
	const FlKafkaBytes *y = b;
	int order = memcmp(x->data, y->data, Min(x->len, y->len));

	return order != 0 ? order : x->len - y->len;
}

static FlKafkaBytes *
list_names(FlKafkaRequest *req, FlKafkaDescribeTopicPartitionsRequest *in, int *n)
{
	FlKafkaDescribeTopicPartitionsTopicRequest topic;
	const FlKafkaTopic *topics;
	FlKafkaBytes *names;
	int count = fl_kafka_count(&in->topics);
	bool all = count == 0;

	if (count > MAX_TOPICS)
		return NULL;
	topics = fl_kafka_topics(req->door, all ? &count : n);
	names = palloc(sizeof(FlKafkaBytes) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		if (!all && fl_kafka_next(&in->topics, &topic))
			names[i] = topic.name;
		else
			names[i] = fl_kafka_string(topics[i].name);
	}
	qsort(names, count, sizeof(FlKafkaBytes), compare_names);
	*n = 0;
	for (int i = 0; i < count; i++)
		if (*n == 0 || compare_names(&names[*n - 1], &names[i]) != 0)
			names[(*n)++] = names[i];
	/* Of all topics those that he may not see are no news to him. */
	for (int i = 0; all && i < *n; i++)
	{
		const FlStreamInfo *stream = fl_kafka_find_topic(req->door, names[i]);

		if (stream == NULL || !fl_kafka_may_describe(req->conn, stream))
		{
			memmove(&names[i], &names[i + 1], sizeof(FlKafkaBytes) * (*n - i - 1));
			(*n)--;
			i--;
		}
	}
	return names;
}

/* Partitions from `first` on, at most `room`; how many. */
static int
put_partitions(FlKafkaDescribeTopicPartitionsResponseTopic *topic, const FlStreamInfo *stream, int32 first, int room)
{
	int n = Min(Max(stream->shards - first, 0), room);
	FlKafkaDescribeTopicPartitionsResponsePartition *partitions = palloc(sizeof(*partitions) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		FlKafkaDescribeTopicPartitionsResponsePartition *p = &partitions[i];

		fl_kafka_init_describe_topic_partitions_response_partition(p);
		p->partition_index = first + i;
		p->leader_id = FL_KAFKA_NODE_ID;
		p->leader_epoch = fl_kafka_leader_epoch(stream->relid, first + i);
		fl_kafka_set_items(&p->replica_nodes, our_node, 1);
		fl_kafka_set_items(&p->isr_nodes, our_node, 1);
		/* May be null on the wire, but Java's client fails over that. */
		fl_kafka_set_items(&p->eligible_leader_replicas, our_node, 0);
		fl_kafka_set_items(&p->last_known_elr, our_node, 0);
	}
	fl_kafka_set_items(&topic->partitions, partitions, n);
	return n;
}

static const FlStreamInfo *
begin_topic(FlKafkaRequest *req, FlKafkaDescribeTopicPartitionsResponseTopic *topic, FlKafkaBytes name)
{
	const FlStreamInfo *stream = fl_kafka_find_topic(req->door, name);

	fl_kafka_init_describe_topic_partitions_response_topic(topic);
	topic->name = name;
	if (stream == NULL)
		topic->error_code = fl_kafka_topic_is_legal(name) ? FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION
														  : FL_KAFKA_INVALID_TOPIC_EXCEPTION;
	else if (!fl_kafka_may_describe(req->conn, stream))
		topic->error_code = FL_KAFKA_TOPIC_AUTHORIZATION_FAILED;
	if (topic->error_code != FL_KAFKA_NO_ERROR)
		return NULL;
	fl_kafka_topic_id(stream->relid, &topic->topic_id);
	return stream;
}

static void
set_cursor(FlKafkaDescribeTopicPartitionsResponse *out, FlKafkaBytes name, int32 partition)
{
	out->has_next_cursor = true;
	out->next_cursor.topic_name = name;
	out->next_cursor.partition_index = partition;
}

void
fl_kafka_handle_describe_topic_partitions(FlKafkaRequest *req)
{
	FlKafkaDescribeTopicPartitionsRequest *in = req->message;
	FlKafkaDescribeTopicPartitionsResponse out;
	FlKafkaDescribeTopicPartitionsResponseTopic *topics;
	FlKafkaBytes *names;
	int room = Min(Max(in->response_partition_limit, 1), MAX_PAGE);
	int count = 0;
	int n;

	names = list_names(req, in, &n);
	if (names == NULL || (in->has_cursor && in->cursor.partition_index < 0))
	{
		fl_kafka_refuse(req->conn, "it asks about more topics than anybody has, or for partitions below 0");
		return;
	}
	topics = palloc(sizeof(*topics) * (n + 1));
	fl_kafka_init_describe_topic_partitions_response(&out);
	for (int i = 0; i < n && !out.has_next_cursor; i++)
	{
		int order = in->has_cursor ? compare_names(&names[i], &in->cursor.topic_name) : 1;
		int32 first = order == 0 ? in->cursor.partition_index : 0;
		const FlStreamInfo *stream;

		if (order < 0)
			continue;
		if (room == 0)
		{
			set_cursor(&out, names[i], first);
			break;
		}
		stream = begin_topic(req, &topics[count], names[i]);
		if (stream != NULL)
		{
			int put = put_partitions(&topics[count], stream, first, room);

			room -= put;
			if (first + put < stream->shards)
				set_cursor(&out, names[i], first + put);
		}
		count++;
	}
	fl_kafka_set_items(&out.topics, topics, count);
	fl_kafka_answer(req, &out);
}

/* ---- DescribeLogDirs ---- */

/* A stream that is asked about, with the partitions that are asked for. */
typedef struct Sized
{
	Oid stream;
	FlKafkaBytes name;
	int32 shards;
	int64 *bytes; /* of each shard; -1: not asked for */
} Sized;

typedef struct Sizes
{
	int n;
	Sized *streams;
} Sizes;

static int
compare_sized(const void *a, const void *b)
{
	Oid x = ((const Sized *) a)->stream;
	Oid y = ((const Sized *) b)->stream;

	return x < y ? -1 : x > y;
}

static Sized *
find_sized(const Sizes *sizes, Oid stream)
{
	Sized key = {.stream = stream};

	return bsearch(&key, sizes->streams, sizes->n, sizeof(Sized), compare_sized);
}

static void
read_sizes(FlKafkaAsks *asks, Sizes *sizes)
{
	FlPosition item;

	while (fl_positions_next(&asks->asks[0].items, &item))
	{
		Sized *sized = find_sized(sizes, item.stream);

		if (sized != NULL && item.shard >= 0 && item.shard < sized->shards && sized->bytes[item.shard] >= 0)
			sized->bytes[item.shard] = item.log_offset;
	}
}

static void
put_sized(const Sized *sized, FlKafkaDescribeLogDirsTopic *topic)
{
	FlKafkaDescribeLogDirsPartition *partitions = palloc(sizeof(*partitions) * sized->shards);
	int n = 0;

	for (int32 i = 0; i < sized->shards; i++)
	{
		if (sized->bytes[i] < 0)
			continue;
		fl_kafka_init_describe_log_dirs_partition(&partitions[n]);
		partitions[n].partition_index = i;
		partitions[n++].partition_size = sized->bytes[i];
	}
	fl_kafka_init_describe_log_dirs_topic(topic);
	topic->name = sized->name;
	fl_kafka_set_items(&topic->partitions, partitions, n);
}

static void
finish_sizes(FlKafkaAsks *asks)
{
	Sizes *sizes = asks->state;
	FlKafkaDescribeLogDirsResponse out;
	FlKafkaDescribeLogDirsResult dir;
	FlKafkaDescribeLogDirsTopic *topics = palloc(sizeof(*topics) * (sizes->n + 1));

	fl_kafka_init_describe_log_dirs_response(&out);
	fl_kafka_init_describe_log_dirs_result(&dir);
	dir.log_dir = fl_kafka_string("data");
	if (asks->asks[0].error != FL_KAFKA_NO_ERROR)
		dir.error_code = FL_KAFKA_REQUEST_TIMED_OUT;
	else
	{
		read_sizes(asks, sizes);
		for (int i = 0; i < sizes->n; i++)
			put_sized(&sizes->streams[i], &topics[i]);
		fl_kafka_set_items(&dir.topics, topics, sizes->n);
	}
	fl_kafka_set_items(&out.results, &dir, 1);
	fl_kafka_answer(asks->req, &out);
}

static Sized *
add_sized(FlKafkaRequest *req, Sizes *sizes, FlKafkaBytes name, bool all)
{
	const FlStreamInfo *stream = fl_kafka_find_topic(req->door, name);
	Sized *sized;

	if (stream == NULL || !fl_kafka_may_describe(req->conn, stream))
		return NULL;
	for (int i = 0; !all && i < sizes->n; i++)
		if (sizes->streams[i].stream == stream->relid)
			return &sizes->streams[i];
	sized = &sizes->streams[sizes->n++];
	sized->stream = stream->relid;
	sized->name = name;
	sized->shards = stream->shards;
	sized->bytes = palloc(sizeof(int64) * stream->shards);
	for (int32 i = 0; i < stream->shards; i++)
		sized->bytes[i] = all ? 0 : -1;
	return sized;
}

/* False: too many. */
static bool
list_sized(FlKafkaRequest *req, Sizes *sizes)
{
	FlKafkaDescribeLogDirsRequest *in = req->message;
	FlKafkaDescribeLogDirsDescribableLogDirTopic topic;
	bool all = fl_kafka_is_null(&in->topics);
	int count = fl_kafka_count(&in->topics);
	const FlKafkaTopic *topics = fl_kafka_topics(req->door, all ? &count : &(int) {0});
	int32 index;

	if (!all && count > FL_KAFKA_MAX_ADMIN)
		return false;
	sizes->streams = palloc(sizeof(Sized) * (count + 1));
	for (int i = 0; all && i < count; i++)
		(void) add_sized(req, sizes, fl_kafka_string(pstrdup(topics[i].name)), true);
	while (!all && fl_kafka_next(&in->topics, &topic))
	{
		Sized *sized = add_sized(req, sizes, topic.topic, false);

		while (sized != NULL && fl_kafka_next(&topic.partitions, &index))
			if (index >= 0 && index < sized->shards)
				sized->bytes[index] = 0;
	}
	qsort(sizes->streams, sizes->n, sizeof(Sized), compare_sized);
	return true;
}

void
fl_kafka_handle_describe_log_dirs(FlKafkaRequest *req)
{
	Sizes *sizes = palloc0(sizeof(Sizes));
	FlKafkaAsks *asks = fl_kafka_asks_create(req, 1, finish_sizes, sizes);
	FlTopicAdmin what = {.op = FL_TOPIC_SIZES, .nparams = 1};
	FlBuf *question = fl_kafka_ask_buffer();
	StringInfoData oids;
	FlGroupCall *call;

	if (!list_sized(req, sizes))
	{
		fl_kafka_refuse(req->conn, "it asks for the sizes of too many topics at once");
		return;
	}
	initStringInfo(&oids);
	for (int i = 0; i < sizes->n; i++)
		appendStringInfo(&oids, "%c%u", i == 0 ? '{' : ',', sizes->streams[i].stream);
	appendStringInfoString(&oids, sizes->n == 0 ? "{}" : "}");
	what.params[0] = oids.data;
	what.deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FL_KAFKA_ASK_MS);
	fl_topic_admin_write(question, &what);
	call = fl_groups_lock(req->door->index, InvalidOid, InvalidOid);
	fl_kafka_ask(call, asks, 0, question);
	fl_groups_unlock(call);
	fl_kafka_asks_wait(asks);
}
