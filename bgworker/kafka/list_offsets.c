/*
 * list_offsets.c
 *		ListOffsets: the oldest record, the end, the first at or after a time, the one
 *		with the latest time.
 *
 * Which time counts is the stream's timestamp_type.  The append time never
 * decreases in a shard, so a record is found by binary search.  Times of the
 * records themselves (`create`) are in no order: what is asked for is the first
 * record in the order of offsets that is late enough, and so the heads of all batches
 * before it are looked at, in steps, from the head on.
 *
 * A job goes through the partitions one after the other; where the head passes the
 * place at which a search has come, the search begins anew.
 */
#include "postgres.h"

#include "reads.h"

#define STEP_PAGES 64

#define LOCKED_MOST_MS 500 /* that one of its tables may be locked before it is an error */

/* What a client may ask for instead of a time, and from which version on. */
#define LATEST         (-1)
#define EARLIEST       (-2)
#define LATEST_TIME    (-3)
#define EARLIEST_LOCAL (-4)
#define LATEST_TIERED  (-5)

/* Where the server counts its times from, in ms since 1970; and the last ms that it has. */
#define EPOCH_MS  INT64CONST(946684800000)
#define MAX_MS    (END_TIMESTAMP / 1000 + EPOCH_MS)

/* One partition that is asked about. */
typedef struct Ask
{
	FlKafkaListOffsetsPartitionResponse *out;
	int64 timestamp;
	int32 current_epoch;
	Oid stream;
	bool finished;
	bool searching; /* what follows is set */
	FlLogPosition pos;
	int64 limit;
	int64 best_ms; /* of LATEST_TIME: the latest so far */
} Ask;

typedef struct Listing
{
	FlKafkaJob job;
	FlKafkaDoor *door;
	int n;
	int at; /* the partition in hand */
	bool locked;          /* its table is */
	int64 give_up_ms;     /* when a partition that is locked is an error; 0: none was */
	FlKafkaTimer retry;   /* of what is locked */
	Ask *asks;
	FlKafkaListOffsetsResponse out;
} Listing;

/* ---- searches ---- */

static void
found(Ask *ask, int64 offset, int64 ms)
{
	ask->out->offset = offset;
	ask->out->timestamp = ms;
	ask->finished = true;
}

static void
found_none(Ask *ask)
{
	found(ask, -1, -1);
}

/* The time of the batch that has this record; -1: it has gone. */
static int64
batch_time(const Ask *ask, int64 offset, int64 limit)
{
	FlLogPosition pos = {.offset = offset};
	FlLogReader *reader = fl_log_reader_begin(ask->stream, ask->out->partition_index, &pos, limit);
	FlStoredBatch batch;
	FlBatchInfo info;
	int64 ms = -1;

	if (fl_log_reader_next(reader, &batch) && fl_batch_decode_header(batch.body, batch.body_len, &info) == FL_OK)
		ms = info.max_timestamp;
	fl_log_reader_end(reader);
	return ms;
}

/* Append times are in the order of offsets. */
static void
find_append_time(Ask *ask, int64 ms)
{
	Oid stream = ask->stream;
	int32 shard = ask->out->partition_index;
	int64 offset = ms > MAX_MS ? -1 : fl_log_offset_for_time(stream, shard, Max(ms - EPOCH_MS, 0) * 1000);

	if (offset < 0)
		found_none(ask);
	else
		found(ask, offset, batch_time(ask, offset, fl_log_tail(stream, shard)));
}

static void
find_latest_append_time(Ask *ask)
{
	int64 tail = fl_log_tail(ask->stream, ask->out->partition_index);

	if (tail <= fl_log_head(ask->stream, ask->out->partition_index))
		found_none(ask);
	else
		find_append_time(ask, batch_time(ask, tail - 1, tail));
}

/*
 * Goes through the records of a batch.  By time: true at the first that is late
 * enough.  Otherwise the latest so far is noted.
 */
static bool
search_batch(Ask *ask, FlBatchDecoder *decoder, const FlStoredBatch *batch, int64 head)
{
	FlLogRecord rec;

	fl_batch_decoder_open(decoder, batch);
	while (fl_batch_decoder_next(decoder, &rec))
	{
		if (rec.log_offset < head || rec.created_ms == FL_NO_TIMESTAMP)
			continue;
		if (ask->timestamp == LATEST_TIME ? rec.created_ms > ask->best_ms : rec.created_ms >= ask->timestamp)
		{
			ask->out->offset = rec.log_offset;
			ask->out->timestamp = ask->best_ms = rec.created_ms;
			if (ask->timestamp != LATEST_TIME)
				return true;
		}
	}
	return false;
}

static void
begin_search(Ask *ask)
{
	ask->searching = true;
	ask->pos = (FlLogPosition) {.offset = fl_log_head(ask->stream, ask->out->partition_index)};
	ask->limit = fl_log_tail(ask->stream, ask->out->partition_index);
	ask->best_ms = -1;
	ask->out->offset = ask->out->timestamp = -1;
}

/* A part of a search by the records' own times: as far as the step's time reaches. */
static void
search_created(Listing *listing, Ask *ask)
{
	int64 head = fl_log_head(ask->stream, ask->out->partition_index);
	FlBatchDecoder *decoder = fl_batch_decoder_create(CurrentMemoryContext);
	FlLogReader *reader;
	FlStoredBatch batch;

	if (!ask->searching)
		begin_search(ask);
	reader = fl_log_reader_begin(ask->stream, ask->out->partition_index, &ask->pos, ask->limit);
	fl_log_reader_nowait(reader);
	fl_log_reader_bound(reader, STEP_PAGES);
	while (!ask->finished)
	{
		fl_log_reader_created_from(reader, ask->timestamp == LATEST_TIME ? ask->best_ms + 1 : ask->timestamp);
		if (!fl_log_reader_next(reader, &batch))
		{
			listing->locked = fl_log_reader_locked(reader);
			ask->finished = !fl_log_reader_stopped(reader);
			break;
		}
		ask->finished = search_batch(ask, decoder, &batch, head);
		if (fl_kafka_step_is_over())
			break;
	}
	fl_log_reader_end(reader);
}

/* ---- a partition ---- */

/* Is it a time, or something that the version knows? */
static bool
is_known(int64 timestamp, int16 version)
{
	switch (timestamp)
	{
		case LATEST:
		case EARLIEST:
			return true;
		case LATEST_TIME:
			return version >= 7;
		case EARLIEST_LOCAL:
			return version >= 8;
		case LATEST_TIERED:
			return version >= 9;
		default:
			return timestamp >= 0;
	}
}

/* Nothing of it has to be searched for. */
static bool
find_bound(Ask *ask)
{
	switch (ask->timestamp)
	{
		case LATEST:
			found(ask, fl_log_tail(ask->stream, ask->out->partition_index), -1);
			return true;
		case EARLIEST:
		case EARLIEST_LOCAL:
			found(ask, fl_log_head(ask->stream, ask->out->partition_index), -1);
			return true;
		case LATEST_TIERED:
			found_none(ask);
			return true;
	}
	return false;
}

static void
look_up(void *arg)
{
	Listing *listing = arg;
	Ask *ask = &listing->asks[listing->at];
	const FlStreamInfo *stream = fl_stream_lookup(ask->stream);

	if (stream == NULL)
	{
		ask->out->error_code = FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
		ask->finished = true;
		return;
	}
	ask->out->error_code = fl_kafka_check_epoch(ask->stream, ask->out->partition_index, ask->current_epoch);
	if (ask->out->error_code != FL_KAFKA_NO_ERROR)
		ask->finished = true;
	else if (find_bound(ask))
		;
	else if (stream->timestamp_type == FL_TIMESTAMP_CREATE)
		search_created(listing, ask);
	else if (ask->timestamp == LATEST_TIME)
		find_latest_append_time(ask);
	else
		find_append_time(ask, ask->timestamp);
	if (ask->finished && ask->out->offset >= 0)
		ask->out->leader_epoch = ask->timestamp == LATEST
									 ? fl_kafka_leader_epoch(ask->stream, ask->out->partition_index)
									 : fl_epoch_of(ask->stream, ask->out->partition_index, ask->out->offset);
}

/* Looks at the partition in hand, unless somebody has locked its table. */
static int16
try_ask(Listing *listing, const Ask *ask)
{
	int32 shard = ask->out->partition_index;
	int16 error;

	listing->locked = false;
	if (ask->finished)
		return FL_KAFKA_NO_ERROR;
	if (fl_kafka_is_locked(listing->door, ask->stream, shard))
		return FL_KAFKA_LOCKED;
	error = fl_kafka_try(listing->door, look_up, listing);
	if (error == FL_KAFKA_LOCKED)
		fl_kafka_note_locked(listing->door, ask->stream, shard);
	return listing->locked ? FL_KAFKA_LOCKED : error;
}

/* False: it has been waited for long enough. */
static bool
wait_for_lock(Listing *listing)
{
	int64 now = fl_net_now(listing->door->net);

	if (listing->give_up_ms == 0)
		listing->give_up_ms = now + LOCKED_MOST_MS;
	if (now >= listing->give_up_ms)
		return false;
	fl_kafka_arm(listing->door, &listing->retry, FL_KAFKA_LOCKED_MS);
	return true;
}

/* The job: true while there is more to look for. */
static bool
step(FlKafkaJob *job)
{
	Listing *listing = (Listing *) job;

	while (listing->at < listing->n)
	{
		Ask *ask = &listing->asks[listing->at];
		int16 error = try_ask(listing, ask);

		if (error == FL_KAFKA_LOCKED)
		{
			if (wait_for_lock(listing))
				return false;
			error = FL_KAFKA_STORAGE_ERROR;
		}
		if (error == FL_KAFKA_OFFSET_OUT_OF_RANGE)
			ask->searching = false; /* the head has passed us: once more */
		else if (error != FL_KAFKA_NO_ERROR)
		{
			found_none(ask);
			ask->out->leader_epoch = -1;
			ask->out->error_code = error;
		}
		if (ask->finished)
			listing->at++;
		if (fl_kafka_step_is_over() && listing->at < listing->n)
			return true;
	}
	fl_kafka_answer(job->req, &listing->out);
	return false;
}

static void
on_end(FlKafkaRequest *req)
{
	Listing *listing = req->state;

	fl_kafka_job_stop(&listing->job);
	fl_kafka_arm(listing->door, &listing->retry, -1);
}

static void
on_retry(FlKafkaTimer *timer)
{
	fl_kafka_job_start(&((Listing *) timer->arg)->job);
}

/* ---- the request ---- */

static void
add_ask(Listing *listing, const FlKafkaListOffsetsPartition *in, FlKafkaListOffsetsPartitionResponse *out,
		const FlStreamInfo *stream, int16 error)
{
	Ask *ask = &listing->asks[listing->n++];

	fl_kafka_init_list_offsets_partition_response(out);
	out->partition_index = in->partition_index;
	memset(ask, 0, sizeof(*ask));
	ask->out = out;
	ask->timestamp = in->timestamp;
	ask->current_epoch = in->current_leader_epoch;
	if (error == FL_KAFKA_NO_ERROR && (in->partition_index < 0 || in->partition_index >= stream->shards))
		error = FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	if (error == FL_KAFKA_NO_ERROR && !is_known(in->timestamp, listing->job.req->version))
		error = FL_KAFKA_UNSUPPORTED_VERSION;
	out->error_code = error;
	ask->finished = error != FL_KAFKA_NO_ERROR;
	if (error == FL_KAFKA_NO_ERROR)
		ask->stream = stream->relid;
}

/*
 * Room for the answer, and what is to be looked for; the request's message is kept.
 * False: more than anybody can mean.
 */
static bool
read_request(FlKafkaRequest *req, Listing *listing)
{
	FlKafkaListOffsetsRequest *in = req->message;
	FlKafkaListOffsetsTopic topic;
	FlKafkaListOffsetsTopicResponse *topics;
	FlKafkaListOffsetsPartitionResponse *partitions;
	int n = 0;
	int ntopics = 0;

	while (fl_kafka_next(&in->topics, &topic))
		n += fl_kafka_count(&topic.partitions);
	fl_kafka_rewind(&in->topics);
	if (n > fl_kafka_most_partitions(req->door))
		return false;
	topics = palloc_extended(sizeof(*topics) * (fl_kafka_count(&in->topics) + 1), MCXT_ALLOC_HUGE);
	partitions = palloc_extended(sizeof(*partitions) * (n + 1), MCXT_ALLOC_HUGE);
	listing->asks = palloc_extended(sizeof(Ask) * (n + 1), MCXT_ALLOC_HUGE);
	while (fl_kafka_next(&in->topics, &topic))
	{
		const FlStreamInfo *stream = fl_kafka_find_topic(req->door, topic.name);
		int16 error = fl_kafka_check_read(req->conn, stream);
		FlKafkaListOffsetsPartition p;
		int first = listing->n;

		while (fl_kafka_next(&topic.partitions, &p))
			add_ask(listing, &p, &partitions[listing->n], stream, error);
		fl_kafka_init_list_offsets_topic_response(&topics[ntopics]);
		topics[ntopics].name = topic.name;
		fl_kafka_set_items(&topics[ntopics].partitions, &partitions[first], listing->n - first);
		ntopics++;
	}
	fl_kafka_init_list_offsets_response(&listing->out);
	fl_kafka_set_items(&listing->out.topics, topics, ntopics);
	return true;
}

void
fl_kafka_handle_list_offsets(FlKafkaRequest *req)
{
	Listing *listing = palloc0(sizeof(Listing));

	listing->job.req = req;
	listing->job.step = step;
	listing->door = req->door;
	listing->retry.fire = on_retry;
	listing->retry.arg = listing;
	fl_kafka_begin_transaction(req->door);
	if (!read_request(req, listing))
	{
		fl_kafka_refuse(req->conn, "it asks about more partitions at once than there are");
		return;
	}
	fl_kafka_park(req, listing, on_end);
	fl_kafka_job_start(&listing->job);
}
