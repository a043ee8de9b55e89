/*
 * group_offsets.c
 *		OffsetCommit, OffsetFetch, OffsetDelete.
 *
 * Topics are turned into streams and rights are asked here; whether a member may
 * commit is asked of the coordinator under the same lock under which the commit is
 * put into the queue (src/group/queue.c says why).  The requests' own messages are
 * kept while they wait (FL_KAFKA_KEEPS) and gone through again for the answer.
 */
#include "postgres.h"

#include "group.h"

/* ---- partitions ---------------------------------------------------------------- */

/* What is wrong with a topic, and its stream where nothing is. */
static int16
check_topic(FlKafkaConn *conn, FlKafkaBytes name, const FlStreamInfo **stream)
{
	*stream = fl_kafka_find_topic(conn->door, name);
	if (*stream == NULL)
		return FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	return fl_kafka_may_read(conn, *stream) ? FL_KAFKA_NO_ERROR : FL_KAFKA_TOPIC_AUTHORIZATION_FAILED;
}

static int16
check_shard(const FlStreamInfo *stream, int32 partition)
{
	return partition >= 0 && partition < stream->shards ? FL_KAFKA_NO_ERROR : FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
}

/* ---- OffsetCommit ---------------------------------------------------------------- */

/* Errors of all partitions, in the order of the request. */
typedef struct Commit
{
	int n;
	int16 *errors;
} Commit;

static int16
check_commit(const FlStreamInfo *stream, const FlKafkaOffsetCommitRequestPartition *p)
{
	int16 error = check_shard(stream, p->partition_index);

	if (error != FL_KAFKA_NO_ERROR)
		return error;
	if (p->committed_metadata.len > fl_kafka_offset_metadata_max)
		return FL_KAFKA_OFFSET_METADATA_TOO_LARGE;
	if (p->committed_offset < 0)
		return FL_KAFKA_OFFSET_OUT_OF_RANGE;
	return fl_kafka_is_text(p->committed_metadata) ? FL_KAFKA_NO_ERROR : FL_KAFKA_INVALID_REQUEST;
}

static void
add_commit(FlBuf *question, const FlStreamInfo *stream, const FlKafkaOffsetCommitRequestPartition *p)
{
	FlPosition item = {0};

	item.stream = stream->relid;
	item.shard = p->partition_index;
	item.log_offset = p->committed_offset;
	item.epoch = p->committed_leader_epoch;
	item.metadata = p->committed_metadata;
	fl_positions_add(question, &item);
}

static int
count_partitions(FlKafkaOffsetCommitRequest *in)
{
	FlKafkaOffsetCommitRequestTopic topic;
	int n = 0;

	fl_kafka_rewind(&in->topics);
	while (fl_kafka_next(&in->topics, &topic))
		n += fl_kafka_count(&topic.partitions);
	return n;
}

/* What can be committed goes into the question, errors of the rest are noted.  Returns how many can. */
static int
read_commit(FlKafkaRequest *req, Commit *commit, FlBuf *question)
{
	FlKafkaOffsetCommitRequest *in = req->message;
	FlKafkaOffsetCommitRequestTopic topic;
	FlKafkaOffsetCommitRequestPartition p;
	int good = 0;

	commit->errors = palloc_extended(sizeof(int16) * (count_partitions(in) + 1), MCXT_ALLOC_HUGE);
	fl_kafka_rewind(&in->topics);
	while (fl_kafka_next(&in->topics, &topic))
	{
		const FlStreamInfo *stream;
		int16 topic_error = check_topic(req->conn, topic.name, &stream);

		while (fl_kafka_next(&topic.partitions, &p))
		{
			int16 error = topic_error != FL_KAFKA_NO_ERROR ? topic_error : check_commit(stream, &p);

			commit->errors[commit->n++] = error;
			if (error != FL_KAFKA_NO_ERROR)
				continue;
			add_commit(question, stream, &p);
			good++;
		}
	}
	return good;
}

static void
answer_commit(FlKafkaRequest *req, const Commit *commit)
{
	FlKafkaOffsetCommitRequest *in = req->message;
	FlKafkaOffsetCommitResponse out;
	FlKafkaOffsetCommitRequestTopic topic;
	FlKafkaOffsetCommitRequestPartition p;
	FlKafkaOffsetCommitResponseTopic *topics;
	FlKafkaOffsetCommitResponsePartition *partitions;
	int ntopics = 0;
	int n = 0;

	topics = palloc_extended(sizeof(*topics) * (fl_kafka_count(&in->topics) + 1), MCXT_ALLOC_HUGE);
	partitions = palloc_extended(sizeof(*partitions) * (commit->n + 1), MCXT_ALLOC_HUGE);
	fl_kafka_rewind(&in->topics);
	while (fl_kafka_next(&in->topics, &topic))
	{
		int first = n;

		while (n < commit->n && fl_kafka_next(&topic.partitions, &p))
		{
			partitions[n].partition_index = p.partition_index;
			partitions[n].error_code = commit->errors[n];
			n++;
		}
		fl_kafka_init_offset_commit_response_topic(&topics[ntopics]);
		topics[ntopics].name = topic.name;
		fl_kafka_set_items(&topics[ntopics].partitions, &partitions[first], n - first);
		ntopics++;
	}
	fl_kafka_init_offset_commit_response(&out);
	fl_kafka_set_items(&out.topics, topics, ntopics);
	fl_kafka_answer(req, &out);
}

/* Those that had no error have one now. */
static void
fail_commit(Commit *commit, int16 error)
{
	for (int i = 0; i < commit->n; i++)
		if (commit->errors[i] == FL_KAFKA_NO_ERROR)
			commit->errors[i] = error;
}

static void
finish_commit(FlKafkaAsks *asks)
{
	Commit *commit = asks->state;
	FlPosition item;

	if (asks->asks[0].error != FL_KAFKA_NO_ERROR)
		fail_commit(commit, asks->asks[0].error);
	else
		for (int i = 0; i < commit->n; i++)
			if (commit->errors[i] == FL_KAFKA_NO_ERROR)
				commit->errors[i] = fl_positions_next(&asks->asks[0].items, &item) ? item.error
																				: FL_KAFKA_UNKNOWN_SERVER_ERROR;
	answer_commit(asks->req, commit);
}

void
fl_kafka_handle_offset_commit(FlKafkaRequest *req)
{
	FlKafkaOffsetCommitRequest *in = req->message;
	FlKafkaBytes name = fl_kafka_group_name(req->conn, in->group_id);
	Commit *commit = palloc0(sizeof(Commit));
	FlBuf *question = fl_kafka_ask_buffer();
	FlKafkaAsks *asks = fl_kafka_asks_create(req, 1, finish_commit, commit);
	FlGroupCall *call;
	int16 error = FL_KAFKA_INVALID_GROUP_ID;
	int good;

	fl_kafka_begin_transaction(req->door);
	fl_positions_begin(question, FL_POSITIONS_COMMIT, fl_kafka_group_role(req->conn), name);
	good = read_commit(req, commit, question);
	if (name.len > 0)
	{
		call = fl_kafka_group_begin(req->conn, name);
		error = fl_group_check_commit(call, name, in->generation_id_or_member_epoch, in->member_id,
									  in->group_instance_id);
		if (error == FL_KAFKA_NO_ERROR && good > 0)
			fl_kafka_ask(call, asks, 0, question);
		fl_groups_unlock(call);
	}
	/* Whether somebody is a member is said before anything about topics. */
	if (error != FL_KAFKA_NO_ERROR)
		for (int i = 0; i < commit->n; i++)
			commit->errors[i] = error;
	if (error != FL_KAFKA_NO_ERROR || good == 0)
		answer_commit(req, commit);
	else
		fl_kafka_asks_wait(asks);
}

/* ---- OffsetFetch ---------------------------------------------------------------------- */

/* One group of the request; versions below 8 have one, in another form. */
typedef struct Wanted
{
	FlKafkaBytes group;
	bool all; /* no topics are named */
	int npositions;
	FlPosition *positions; /* by stream and shard */
} Wanted;

typedef struct Fetch
{
	int n;
	Wanted *wanted;
} Fetch;

static void
read_positions(Wanted *w, FlReader items)
{
	FlPosition item;
	FlReader copy = items;
	int n = 0;

	while (fl_positions_next(&copy, &item))
		n++;
	w->positions = palloc_extended(sizeof(FlPosition) * (n + 1), MCXT_ALLOC_HUGE);
	while (fl_positions_next(&items, &w->positions[w->npositions]))
		w->npositions++;
}

static int
compare_position(const void *a, const void *b)
{
	const FlPosition *x = a;
	const FlPosition *y = b;

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->shard < y->shard ? -1 : x->shard > y->shard;
}

static const FlPosition *
find_position(const Wanted *w, Oid stream, int32 shard)
{
	FlPosition key = {0};

	key.stream = stream;
	key.shard = shard;
	return bsearch(&key, w->positions, w->npositions, sizeof(FlPosition), compare_position);
}

/* The two forms of a partition in answers have the same members. */
static FlKafkaOffsetFetchResponsePartitions
put_partition(const FlPosition *position, int32 index, int16 error)
{
	FlKafkaOffsetFetchResponsePartitions out;

	fl_kafka_init_offset_fetch_response_partitions(&out);
	out.partition_index = index;
	out.committed_offset = position != NULL ? position->log_offset : -1;
	out.committed_leader_epoch = position != NULL ? position->epoch : -1;
	out.metadata = position != NULL && position->metadata.len >= 0 ? position->metadata : fl_kafka_bytes("", 0);
	out.error_code = error;
	return out;
}

typedef struct TopicOut
{
	FlKafkaBytes name;
	int first;
	int n;
} TopicOut;

/* Topics and their partitions, in one array each. */
typedef struct Answer
{
	TopicOut *topics;
	int ntopics;
	FlKafkaOffsetFetchResponsePartitions *partitions;
	int npartitions;
} Answer;

static void
answer_all(FlKafkaRequest *req, const Wanted *w, Answer *answer)
{
	TopicOut *topic = NULL;
	Oid last = InvalidOid;

	answer->topics = palloc_extended(sizeof(TopicOut) * (w->npositions + 1), MCXT_ALLOC_HUGE);
	answer->partitions = palloc_extended(sizeof(*answer->partitions) * (w->npositions + 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < w->npositions; i++)
	{
		const FlPosition *position = &w->positions[i];

		if (position->stream != last)
		{
			const FlStreamInfo *stream = fl_stream_lookup(position->stream);
			const char *name = stream != NULL && fl_kafka_may_read(req->conn, stream)
								   ? fl_kafka_topic_name(req->door, stream->relid)
								   : NULL;

			last = position->stream;
			topic = name != NULL ? &answer->topics[answer->ntopics++] : NULL;
			if (topic != NULL)
			{
				topic->name = fl_kafka_string(pstrdup(name));
				topic->first = answer->npartitions;
				topic->n = 0;
			}
		}
		if (topic == NULL)
			continue;
		answer->partitions[answer->npartitions++] = put_partition(position, position->shard, FL_KAFKA_NO_ERROR);
		topic->n++;
	}
}

/* Begin a topic that was named. */
static const FlStreamInfo *
answer_topic(FlKafkaRequest *req, FlKafkaBytes name, int16 *error, Answer *answer)
{
	TopicOut *topic = &answer->topics[answer->ntopics++];
	const FlStreamInfo *stream;

	topic->name = name;
	topic->first = answer->npartitions;
	topic->n = 0;
	if (*error != FL_KAFKA_NO_ERROR)
		return NULL;
	*error = check_topic(req->conn, name, &stream);
	/* Nothing is committed for what is not there: that is no error. */
	if (*error == FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION)
		*error = FL_KAFKA_NO_ERROR;
	return stream;
}

static void
answer_partition(const Wanted *w, const FlStreamInfo *stream, int32 index, int16 error, Answer *answer)
{
	const FlPosition *position = NULL;

	if (stream != NULL && error == FL_KAFKA_NO_ERROR)
		position = find_position(w, stream->relid, index);
	answer->partitions[answer->npartitions++] = put_partition(position, index, error);
	answer->topics[answer->ntopics - 1].n++;
}

/*
 * The two forms of a request differ in their types only.  Topics are counted
 * first, since there may be any number.
 */
#define ANSWER_NAMED(function, group_type, topic_type)                                                                     \
	static void function(FlKafkaRequest *req, group_type *group, const Wanted *w, int16 group_error, Answer *answer)       \
	{                                                                                                                  \
		topic_type topic;                                                                                              \
		int32 index;                                                                                                   \
		int n = 0;                                                                                                     \
                                                                                                                       \
		fl_kafka_rewind(&group->topics);                                                                               \
		while (fl_kafka_next(&group->topics, &topic))                                                                  \
			n += fl_kafka_count(&topic.partition_indexes);                                                             \
		answer->topics = palloc_extended(sizeof(TopicOut) * (fl_kafka_count(&group->topics) + 1), MCXT_ALLOC_HUGE);    \
		answer->partitions = palloc_extended(sizeof(*answer->partitions) * (n + 1), MCXT_ALLOC_HUGE);                  \
		fl_kafka_rewind(&group->topics);                                                                               \
		while (fl_kafka_next(&group->topics, &topic))                                                                  \
		{                                                                                                              \
			int16 error = group_error;                                                                                 \
			const FlStreamInfo *stream = answer_topic(req, topic.name, &error, answer);                                \
                                                                                                                       \
			while (answer->npartitions < n && fl_kafka_next(&topic.partition_indexes, &index))                         \
				answer_partition(w, stream, index, error, answer);                                                     \
		}                                                                                                              \
	}

ANSWER_NAMED(answer_old, FlKafkaOffsetFetchRequest, FlKafkaOffsetFetchRequestTopic)
ANSWER_NAMED(answer_new, FlKafkaOffsetFetchRequestGroup, FlKafkaOffsetFetchRequestTopics)

static void
put_old(FlKafkaOffsetFetchResponse *out, const Answer *answer)
{
	FlKafkaOffsetFetchResponseTopic *topics = palloc_extended(sizeof(*topics) * (answer->ntopics + 1), MCXT_ALLOC_HUGE);
	FlKafkaOffsetFetchResponsePartition *partitions =
		palloc_extended(sizeof(*partitions) * (answer->npartitions + 1), MCXT_ALLOC_HUGE);

	for (int i = 0; i < answer->npartitions; i++)
	{
		const FlKafkaOffsetFetchResponsePartitions *p = &answer->partitions[i];

		fl_kafka_init_offset_fetch_response_partition(&partitions[i]);
		partitions[i].partition_index = p->partition_index;
		partitions[i].committed_offset = p->committed_offset;
		partitions[i].committed_leader_epoch = p->committed_leader_epoch;
		partitions[i].metadata = p->metadata;
		partitions[i].error_code = p->error_code;
	}
	for (int i = 0; i < answer->ntopics; i++)
	{
		fl_kafka_init_offset_fetch_response_topic(&topics[i]);
		topics[i].name = answer->topics[i].name;
		fl_kafka_set_items(&topics[i].partitions, &partitions[answer->topics[i].first], answer->topics[i].n);
	}
	fl_kafka_set_items(&out->topics, topics, answer->ntopics);
}

static void
put_new(FlKafkaOffsetFetchResponseGroup *out, const Answer *answer)
{
	FlKafkaOffsetFetchResponseTopics *topics = palloc_extended(sizeof(*topics) * (answer->ntopics + 1), MCXT_ALLOC_HUGE);

	for (int i = 0; i < answer->ntopics; i++)
	{
		fl_kafka_init_offset_fetch_response_topics(&topics[i]);
		topics[i].name = answer->topics[i].name;
		fl_kafka_set_items(&topics[i].partitions, &answer->partitions[answer->topics[i].first], answer->topics[i].n);
	}
	fl_kafka_set_items(&out->topics, topics, answer->ntopics);
}

static void
finish_fetch(FlKafkaAsks *asks)
{
	FlKafkaRequest *req = asks->req;
	FlKafkaOffsetFetchRequest *in = req->message;
	Fetch *fetch = asks->state;
	FlKafkaOffsetFetchRequestGroup group;
	FlKafkaOffsetFetchResponse out;
	FlKafkaOffsetFetchResponseGroup *groups = palloc(sizeof(*groups) * (fetch->n + 1));

	fl_kafka_begin_transaction(req->door);
	fl_kafka_init_offset_fetch_response(&out);
	fl_kafka_rewind(&in->groups);
	for (int i = 0; i < fetch->n; i++)
	{
		Wanted *w = &fetch->wanted[i];
		Answer answer = {0};
		int16 error = asks->asks[i].error;

		read_positions(w, asks->asks[i].items);
		if (req->version >= 8)
			(void) fl_kafka_next(&in->groups, &group);
		if (w->all)
			answer_all(req, w, &answer);
		else if (req->version < 8)
			/* Version 1 can say an error in the partitions only. */
			answer_old(req, in, w, error, &answer);
		else
			answer_new(req, &group, w, error, &answer);
		if (req->version < 8)
		{
			out.error_code = error;
			put_old(&out, &answer);
			break;
		}
		fl_kafka_init_offset_fetch_response_group(&groups[i]);
		groups[i].group_id = w->group;
		groups[i].error_code = error;
		put_new(&groups[i], &answer);
	}
	if (req->version >= 8)
		fl_kafka_set_items(&out.groups, groups, fetch->n);
	fl_kafka_answer(req, &out);
}

static void
ask_positions(FlKafkaRequest *req, FlKafkaAsks *asks, int i, FlKafkaBytes group)
{
	FlKafkaBytes name = fl_kafka_group_name(req->conn, group);
	FlBuf *question = fl_kafka_ask_buffer();
	FlGroupCall *call;

	if (name.len <= 0)
	{
		asks->asks[i].error = FL_KAFKA_INVALID_GROUP_ID;
		return;
	}
	fl_positions_begin(question, FL_POSITIONS_FETCH, fl_kafka_group_role(req->conn), name);
	call = fl_kafka_group_begin(req->conn, name);
	fl_kafka_ask(call, asks, i, question);
	fl_groups_unlock(call);
}

void
fl_kafka_handle_offset_fetch(FlKafkaRequest *req)
{
	FlKafkaOffsetFetchRequest *in = req->message;
	FlKafkaOffsetFetchRequestGroup group;
	Fetch *fetch = palloc0(sizeof(Fetch));
	FlKafkaAsks *asks;

	fetch->n = req->version < 8 ? 1 : fl_kafka_count(&in->groups);
	if (fetch->n > FL_KAFKA_MAX_GROUPS)
	{
		fl_kafka_refuse(req->conn, "too many groups in one request");
		return;
	}
	fetch->wanted = palloc0(sizeof(Wanted) * (fetch->n + 1));
	asks = fl_kafka_asks_create(req, fetch->n, finish_fetch, fetch);
	for (int i = 0; i < fetch->n; i++)
	{
		if (req->version >= 8)
			(void) fl_kafka_next(&in->groups, &group);
		fetch->wanted[i].group = req->version < 8 ? in->group_id : group.group_id;
		fetch->wanted[i].all = req->version < 8 ? fl_kafka_is_null(&in->topics) : fl_kafka_is_null(&group.topics);
		ask_positions(req, asks, i, fetch->wanted[i].group);
	}
	fl_kafka_asks_wait(asks);
}

/* ---- OffsetDelete --------------------------------------------------------------------- */

/* Does a member's subscription name the topic?  What cannot be read might. */
static bool
is_subscribed(const FlGroupMemberView *m, FlKafkaBytes topic)
{
	FlKafkaConsumerProtocolSubscription subscription;
	FlKafkaBytes name;
	int16 version;

	if (m->metadata.len < 2)
		return true;
	version = (int16) fl_get_be16(m->metadata.data);
	version = Min(version, fl_kafka_consumer_protocol_subscription.to);
	if (version < 0 || fl_kafka_decode_consumer_protocol_subscription(version, m->metadata.data + 2,
																	  m->metadata.len - 2, &subscription) != FL_OK)
		return true;
	while (fl_kafka_next(&subscription.topics, &name))
		if (name.len == topic.len && (name.len <= 0 || memcmp(name.data, topic.data, name.len) == 0))
			return true;
	return false;
}

static bool
anybody_is_subscribed(const FlGroupView *view, FlKafkaBytes topic)
{
	for (int i = 0; i < view->nmembers; i++)
		if (is_subscribed(&view->members[i], topic))
			return true;
	return false;
}

/* The group as it is now; false: the coordinator does not know it. */
static bool
describe(FlKafkaRequest *req, FlKafkaBytes name, FlGroupView *view)
{
	FlGroupOut *out = fl_groups_out();

	for (;;)
	{
		FlGroupCall *call = fl_kafka_group_begin(req->conn, name);
		bool found = fl_group_describe(call, name, out, view);

		fl_groups_unlock(call);
		if (!found || fl_group_out_fits(out))
			return found;
		fl_groups_grow();
	}
}

/* Errors of all partitions, in the order of the request. */
static void
answer_delete(FlKafkaRequest *req, int16 error, const Commit *result)
{
	FlKafkaOffsetDeleteRequest *in = req->message;
	FlKafkaOffsetDeleteResponse out;
	FlKafkaOffsetDeleteRequestTopic topic;
	FlKafkaOffsetDeleteRequestPartition p;
	FlKafkaOffsetDeleteResponseTopic *topics;
	FlKafkaOffsetDeleteResponsePartition *partitions;
	int ntopics = 0;
	int n = 0;

	topics = palloc_extended(sizeof(*topics) * (fl_kafka_count(&in->topics) + 1), MCXT_ALLOC_HUGE);
	partitions = palloc_extended(sizeof(*partitions) * (result->n + 1), MCXT_ALLOC_HUGE);
	fl_kafka_rewind(&in->topics);
	while (error == FL_KAFKA_NO_ERROR && fl_kafka_next(&in->topics, &topic))
	{
		int first = n;

		while (n < result->n && fl_kafka_next(&topic.partitions, &p))
		{
			partitions[n].partition_index = p.partition_index;
			partitions[n].error_code = result->errors[n];
			n++;
		}
		fl_kafka_init_offset_delete_response_topic(&topics[ntopics]);
		topics[ntopics].name = topic.name;
		fl_kafka_set_items(&topics[ntopics].partitions, &partitions[first], n - first);
		ntopics++;
	}
	fl_kafka_init_offset_delete_response(&out);
	out.error_code = error;
	fl_kafka_set_items(&out.topics, topics, ntopics);
	fl_kafka_answer(req, &out);
}

static void
finish_delete(FlKafkaAsks *asks)
{
	answer_delete(asks->req, asks->asks[0].error, asks->state);
}

static void
read_delete(FlKafkaRequest *req, const FlGroupView *view, Commit *result, FlBuf *question)
{
	FlKafkaOffsetDeleteRequest *in = req->message;
	FlKafkaOffsetDeleteRequestTopic topic;
	FlKafkaOffsetDeleteRequestPartition p;
	int n = 0;

	fl_kafka_rewind(&in->topics);
	while (fl_kafka_next(&in->topics, &topic))
		n += fl_kafka_count(&topic.partitions);
	result->errors = palloc_extended(sizeof(int16) * (n + 1), MCXT_ALLOC_HUGE);
	fl_kafka_rewind(&in->topics);
	while (fl_kafka_next(&in->topics, &topic))
	{
		const FlStreamInfo *stream;
		int16 topic_error = check_topic(req->conn, topic.name, &stream);

		if (topic_error == FL_KAFKA_NO_ERROR && anybody_is_subscribed(view, topic.name))
			topic_error = FL_KAFKA_GROUP_SUBSCRIBED_TO_TOPIC;
		while (fl_kafka_next(&topic.partitions, &p))
		{
			FlPosition item = {0};

			result->errors[result->n] =
				topic_error != FL_KAFKA_NO_ERROR ? topic_error : check_shard(stream, p.partition_index);
			if (result->errors[result->n++] != FL_KAFKA_NO_ERROR)
				continue;
			item.stream = stream->relid;
			item.shard = p.partition_index;
			item.metadata.len = -1;
			fl_positions_add(question, &item);
		}
	}
}

void
fl_kafka_handle_offset_delete(FlKafkaRequest *req)
{
	FlKafkaOffsetDeleteRequest *in = req->message;
	FlKafkaBytes name = fl_kafka_group_name(req->conn, in->group_id);
	Commit *result = palloc0(sizeof(Commit));
	FlKafkaAsks *asks = fl_kafka_asks_create(req, 1, finish_delete, result);
	FlBuf *question = fl_kafka_ask_buffer();
	FlGroupView view = {0};
	FlGroupCall *call;

	if (name.len <= 0)
	{
		answer_delete(req, FL_KAFKA_INVALID_GROUP_ID, result);
		return;
	}
	fl_kafka_begin_transaction(req->door);
	if (describe(req, name, &view) && view.nmembers > 0 && !fl_kafka_string_is(view.protocol_type, "consumer"))
	{
		answer_delete(req, FL_KAFKA_NON_EMPTY_GROUP, result);
		return;
	}
	fl_positions_begin(question, FL_POSITIONS_DELETE, fl_kafka_group_role(req->conn), name);
	read_delete(req, &view, result, question);
	call = fl_kafka_group_begin(req->conn, name);
	fl_kafka_ask(call, asks, 0, question);
	fl_groups_unlock(call);
	fl_kafka_asks_wait(asks);
}
