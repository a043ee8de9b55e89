/*
 * fetch.c
 *		Fetch: what is asked for, when it is answered, the answer.
 *
 *	 request ─► parts ─► job: read all that may have more ─┬─► enough, full, an error, or time is up ─► answer
 *	                      ▲                                └─► wait: on the tails of all parts, and a timer
 *	                      └────── a tail has moved ──────────────┘
 *
 * It is answered as Kafka does: with min_bytes or more, as soon as an answer can have
 * no more, with the first error, or after max_wait.  What was read by then is kept
 * while it waits for more.
 *
 * High watermark and last stable offset are the durable tail: there are no
 * transactions whose records would have to be held back, so both isolation levels see
 * the same, and no aborted ones are told.
 *
 * Fetch sessions (KIP-227) are not kept: each answer says session 0, upon which every
 * client goes on with full requests, and one that names a session is told that there
 * is none (70), upon which it does the same.
 *
 * No partition is kept waiting by those that stand before it in each request: where an
 * answer was full, or its time over, the connection's next one begins with the first that
 * got nothing.
 */
#include "postgres.h"

#include "fetch.h"

/* Epochs of sessions (KIP-227): one is to be begun, or there is to be none. */
#define SESSION_INITIAL 0
#define SESSION_FINAL   (-1)

/* ---- the answer ---- */

static void
place_batches(void *arg, size_t at)
{
	FlKafkaPart *part = arg;
	FlKafkaFetch *fetch = part->wait.arg;

	fetch->places.items[fetch->places.n++] = (FlKafkaPlace) {at, &part->batches};
	fetch->places.bytes += part->bytes;
}

static void
describe_part(FlKafkaPart *part, int32 index, bool committed, FlKafkaFetchPartitionData *out)
{
	static const FlKafkaFetchAbortedTransaction none;

	fl_kafka_init_fetch_partition_data(out);
	out->partition_index = index;
	out->error_code = part->error;
	out->high_watermark = out->last_stable_offset = part->tail;
	out->log_start_offset = part->head;
	if (committed)
		fl_kafka_set_items(&out->aborted_transactions, &none, 0);
	/* Never null: clients take that for a broken answer. */
	out->records.len = (int32) part->bytes;
	out->records.place = place_batches;
	out->records.arg = part;
	if (part->diverged)
	{
		out->diverging_epoch.epoch = part->end_epoch;
		out->diverging_epoch.end_offset = part->end_offset;
	}
}

/* With whom the next one begins. */
static void
note_starved(FlKafkaFetch *fetch)
{
	fetch->conn->fetch_first = InvalidOid;
	for (int i = 0; i < fetch->n; i++)
	{
		FlKafkaPart *part = &fetch->parts[(fetch->from + i) % fetch->n];

		if (part->bytes > 0 || part->error != FL_KAFKA_NO_ERROR || !(part->starved || part->look))
			continue;
		fetch->conn->fetch_first = part->stream;
		fetch->conn->fetch_first_shard = part->shard;
		break;
	}
}

static void
forget(FlKafkaFetch *fetch)
{
	fl_kafka_job_stop(&fetch->job);
	fl_kafka_arm(fetch->door, &fetch->retry, -1);
	for (int i = 0; i < fetch->n; i++)
		fl_kafka_wait_end(fetch->door, &fetch->parts[i].wait);
}

static void
drop_batches(FlKafkaFetch *fetch)
{
	for (int i = 0; i < fetch->n; i++)
		fl_net_chain_free(fetch->door->net, &fetch->parts[i].batches);
}

static void
answer(FlKafkaFetch *fetch)
{
	FlKafkaRequest *req = fetch->job.req;
	FlKafkaFetchRequest *in = req->message;
	FlKafkaFetchResponse out;
	FlKafkaFetchTopic topic;
	FlKafkaFetchPartition p;
	FlKafkaFetchableTopicResponse *topics;
	FlKafkaFetchPartitionData *data;
	int ntopics = 0;
	int n = 0;

	fl_kafka_fetch_bounds(fetch);
	topics = palloc_extended(sizeof(*topics) * (fl_kafka_count(&in->topics) + 1), MCXT_ALLOC_HUGE);
	data = palloc_extended(sizeof(*data) * (fetch->n + 1), MCXT_ALLOC_HUGE);
	fl_kafka_rewind(&in->topics);
	while (fl_kafka_next(&in->topics, &topic))
	{
		int first = n;

		for (; fl_kafka_next(&topic.partitions, &p); n++)
			describe_part(&fetch->parts[n], p.partition, in->isolation_level > 0, &data[n]);
		fl_kafka_init_fetchable_topic_response(&topics[ntopics]);
		topics[ntopics].topic = topic.topic;
		topics[ntopics].topic_id = topic.topic_id;
		fl_kafka_set_items(&topics[ntopics].partitions, &data[first], n - first);
		ntopics++;
	}
	fl_kafka_init_fetch_response(&out);
	fl_kafka_set_items(&out.responses, topics, ntopics);
	note_starved(fetch);
	forget(fetch);
	fetch->places.items = palloc_extended(sizeof(FlKafkaPlace) * (fetch->n + 1), MCXT_ALLOC_HUGE);
	fl_kafka_answer_places(req, &out, &fetch->places);
	/* Of an answer that could not be made, or that nobody waits for any more. */
	drop_batches(fetch);
}

static void
answer_error(FlKafkaRequest *req, int16 error)
{
	FlKafkaFetchResponse out;

	fl_kafka_init_fetch_response(&out);
	out.error_code = error;
	fl_kafka_answer(req, &out);
}

/* ---- reading and waiting ---- */

static void
on_end(FlKafkaRequest *req)
{
	forget(req->state);
	drop_batches(req->state);
}

/* Time is up: what there is, unless it is just being read. */
static void
on_timer(FlKafkaRequest *req)
{
	FlKafkaFetch *fetch = req->state;

	fetch->expired = true;
	fl_kafka_job_start(&fetch->job);
}

static void
on_retry(FlKafkaTimer *timer)
{
	fl_kafka_job_start(&((FlKafkaFetch *) timer->arg)->job);
}

void
fl_kafka_fetch_moved(FlKafkaWait *wait)
{
	FlKafkaFetch *fetch = wait->arg;

	((FlKafkaPart *) wait)->look = true;
	fl_kafka_job_start(&fetch->job);
}

/* Is there as much as the client wants to wait for, or as much as there will be? */
static bool
is_enough(FlKafkaFetch *fetch)
{
	bool any = false;

	if (fetch->full || fetch->failed || fetch->expired || fetch->bytes + fetch->withheld >= fetch->enough)
		return true;
	for (int i = 0; i < fetch->n && !any; i++)
		any = !fetch->parts[i].ended;
	return !any || (fetch->bytes > 0 && fl_kafka_answer_room(fetch->door) < 0);
}

static void
wait_for_more(FlKafkaFetch *fetch)
{
	const FlKafkaFetchRequest *in = fetch->job.req->message;

	for (int i = 0; i < fetch->n; i++)
	{
		FlKafkaPart *part = &fetch->parts[i];

		/* Most wait already, with nothing new.  Of one that could not be opened no tail is known. */
		if (!part->ended && part->tail >= 0 && (part->wait.watch == NULL || part->wait.seen != part->tail))
			fl_kafka_wait(fetch->door, &part->wait, part->stream, part->shard, part->tail);
	}
	if (!fetch->timed)
		fl_kafka_set_timer(fetch->job.req, in->max_wait_ms, on_timer);
	fetch->timed = true;
	if (fetch->locked)
		fl_kafka_arm(fetch->door, &fetch->retry, FL_KAFKA_LOCKED_MS);
}

/* The job: true while there is more to read. */
static bool
step(FlKafkaJob *job)
{
	FlKafkaFetch *fetch = (FlKafkaFetch *) job;
	int64 room = fl_kafka_answer_room(fetch->door);

	if (fetch->bytes == 0)
	{
		/* Whoever has waited long enough is told so; the others wait for memory. */
		if (room < 0 && !fetch->expired)
			return true;
		fetch->most = Min(Min(fetch->most, room), (int64) fl_kafka_max_fetch_kb * 1024);
	}
	/* A look at all of them may take several steps. */
	if (fetch->at == 0)
		fetch->locked = false;
	if (room >= 0 && !fl_kafka_fetch_read(fetch) && !(fetch->expired && fetch->bytes > 0))
		return true;
	fetch->at = 0;
	if (is_enough(fetch))
		answer(fetch);
	else
		wait_for_more(fetch);
	return false;
}

/* ---- the request ---- */

/* How many partitions are asked for; false: more than anybody can mean. */
static bool
count_parts(FlKafkaRequest *req, FlKafkaFetchRequest *in, int *n)
{
	FlKafkaFetchTopic topic;

	*n = 0;
	while (fl_kafka_next(&in->topics, &topic))
		*n += fl_kafka_count(&topic.partitions);
	fl_kafka_rewind(&in->topics);
	return *n <= fl_kafka_most_partitions(req->door);
}

static void
init_part(FlKafkaFetch *fetch, FlKafkaPart *part, const FlKafkaFetchPartition *in, const FlStreamInfo *stream)
{
	memset(part, 0, sizeof(*part));
	part->wait.arg = fetch;
	part->shard = in->partition;
	part->max_bytes = in->partition_max_bytes;
	part->current_epoch = in->current_leader_epoch;
	part->last_epoch = in->last_fetched_epoch;
	part->offset = part->pos.offset = in->fetch_offset;
	part->tail = part->head = -1;
	if (stream == NULL || in->partition < 0 || in->partition >= stream->shards)
	{
		part->error = stream == NULL && fetch->version >= 13 ? FL_KAFKA_UNKNOWN_TOPIC_ID
															 : FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
		part->ended = true;
		fetch->failed = true;
		return;
	}
	part->stream = stream->relid;
	part->look = true;
	if (part->stream == fetch->conn->fetch_first && part->shard == fetch->conn->fetch_first_shard)
		fetch->from = (int) (part - fetch->parts);
}

static void
read_request(FlKafkaFetch *fetch, FlKafkaFetchRequest *in)
{
	FlKafkaFetchTopic topic;
	FlKafkaFetchPartition p;

	while (fl_kafka_next(&in->topics, &topic))
	{
		const FlStreamInfo *stream = fetch->version >= 13 ? fl_kafka_find_topic_id(fetch->door, &topic.topic_id)
														  : fl_kafka_find_topic(fetch->door, topic.topic);

		while (fl_kafka_next(&topic.partitions, &p))
			init_part(fetch, &fetch->parts[fetch->n++], &p, stream);
	}
	fetch->most = Max(in->max_bytes, 0);
	fetch->enough = Min((int64) Max(in->min_bytes, 0), Min(fetch->most, (int64) fl_kafka_max_fetch_kb * 1024));
	fetch->expired = in->max_wait_ms <= 0;
}

void
fl_kafka_handle_fetch(FlKafkaRequest *req)
{
	FlKafkaFetchRequest *in = req->message;
	FlKafkaFetch *fetch;
	int n;

	if (in->session_epoch != SESSION_FINAL && in->session_epoch != SESSION_INITIAL)
	{
		answer_error(req, FL_KAFKA_FETCH_SESSION_ID_NOT_FOUND);
		return;
	}
	fl_kafka_begin_transaction(req->door);
	if (!count_parts(req, in, &n))
	{
		fl_kafka_refuse(req->conn, "it asks for more partitions at once than there are");
		return;
	}
	fetch = palloc0(sizeof(FlKafkaFetch));
	fetch->job.req = req;
	fetch->job.step = step;
	fetch->door = req->door;
	fetch->conn = req->conn;
	fetch->version = req->version;
	fetch->retry.fire = on_retry;
	fetch->retry.arg = fetch;
	fetch->parts = palloc_extended(sizeof(FlKafkaPart) * (n + 1), MCXT_ALLOC_HUGE);
	read_request(fetch, in);
	fl_kafka_park(req, fetch, on_end);
	fl_kafka_job_start(&fetch->job);
}
