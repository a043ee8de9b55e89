/*
 * fetch_read.c
 *		The batches of a Fetch, copied as they lie in the log.
 *
 * A batch's body is a record batch of Kafka's with base offset and leader epoch in
 * it: nothing is changed, inflated or checked here.  Batches go whole: of the first
 * one, which may begin below the offset that was asked for or below the head, clients
 * skip what they did not ask for.
 *
 * Nothing beyond the durable tail is read.  What was read before the head passed it
 * is sent all the same, as it was there when it was asked for.
 *
 * Limits are Kafka's (KIP-74): the first batch of the first partition that has one is
 * sent however large it is; behind it only what has room in the answer and in its
 * partition's share.
 */
#include "postgres.h"

#include "fetch.h"

#define STEP_PAGES 512 /* without a batch, where an append of millions was aborted */

#define ZSTD_SINCE 10 /* version of Fetch that knows zstd */

static void
take(FlKafkaFetch *fetch, FlKafkaPart *part, const FlStoredBatch *batch)
{
	fl_net_chain_add(fetch->door->net, &part->batches, batch->body, batch->body_len);
	part->bytes += batch->body_len;
	fetch->bytes += batch->body_len;
}

/* ---- limits ---- */

/* May the batch go with the others?  If not it has been said why. */
static bool
has_room(FlKafkaFetch *fetch, FlKafkaPart *part, const FlStoredBatch *batch)
{
	bool zstd = (fl_get_be16(batch->body + 21) & FL_BATCH_CODEC_MASK) == FL_CODEC_ZSTD;

	if (zstd && fetch->version < ZSTD_SINCE)
	{
		part->ended = true;
		if (part->bytes == 0)
			part->error = FL_KAFKA_UNSUPPORTED_COMPRESSION_TYPE;
		return false;
	}
	if (fetch->bytes == 0)
		return true;
	if (fetch->bytes + batch->body_len > fetch->most)
		fetch->full = true;
	else if (part->bytes + batch->body_len <= part->max_bytes)
		return true;
	else
		part->ended = true;
	part->starved = part->bytes == 0;
	if (part->starved)
		fetch->withheld += Max(part->max_bytes, 0);
	return false;
}

/* ---- a partition ---- */

/* What has to be said before anything is read; true: read. */
static bool
check_part(FlKafkaFetch *fetch, FlKafkaPart *part)
{
	const FlStreamInfo *stream = fl_stream_lookup(part->stream);

	if (stream == NULL || part->shard >= stream->shards)
	{
		part->error = fetch->version >= 13 ? FL_KAFKA_UNKNOWN_TOPIC_ID : FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
		return false;
	}
	part->error = fl_kafka_check_read(fetch->conn, stream);
	if (part->error == FL_KAFKA_NO_ERROR)
		part->error = fl_kafka_check_epoch(part->stream, part->shard, part->current_epoch);
	if (part->error != FL_KAFKA_NO_ERROR)
		return false;
	part->head = fl_log_head(part->stream, part->shard);
	part->tail = fl_log_tail(part->stream, part->shard);
	/* The head has passed what is still to be read: that is the next request's error. */
	if (part->bytes > 0 && part->pos.offset < part->head)
		part->ended = true;
	else if (part->pos.offset < part->head || part->pos.offset > part->tail)
		part->error = FL_KAFKA_OFFSET_OUT_OF_RANGE;
	return !part->ended && part->error == FL_KAFKA_NO_ERROR;
}

/* Has the client read what is not in this log?  It is told where the histories part. */
static bool
has_diverged(FlKafkaPart *part)
{
	if (part->last_epoch < 0 || part->last_epoch == fl_kafka_leader_epoch(part->stream, part->shard))
		return false;
	fl_kafka_epoch_end(part->stream, part->shard, part->last_epoch, &part->end_epoch, &part->end_offset);
	if (part->end_epoch < 0)
		part->error = FL_KAFKA_OFFSET_OUT_OF_RANGE;
	else
		part->diverged = part->end_offset < part->offset;
	return part->diverged || part->error != FL_KAFKA_NO_ERROR;
}

static void
read_part(FlKafkaFetch *fetch, FlKafkaPart *part)
{
	FlLogReader *reader;
	FlStoredBatch batch;

	part->look = part->locked = false;
	if (!check_part(fetch, part) || has_diverged(part) || part->pos.offset >= part->tail)
		return;
	FL_STOP_POINT("kafka_before_read");
	reader = fl_log_reader_begin(part->stream, part->shard, &part->pos, part->tail);
	fl_log_reader_nowait(reader);
	fl_log_reader_bound(reader, STEP_PAGES);
	for (;;)
	{
		FlLogPosition before = part->pos;

		if (!fl_log_reader_next(reader, &batch))
		{
			part->look = fl_log_reader_stopped(reader);
			part->locked = fl_log_reader_locked(reader);
			break;
		}
		if (!has_room(fetch, part, &batch))
		{
			part->pos = before;
			break;
		}
		take(fetch, part, &batch);
		if (fl_kafka_step_is_over())
		{
			part->look = true;
			break;
		}
	}
	fl_log_reader_end(reader);
}

/* ---- all of them ---- */

static void
look_at(FlKafkaFetch *fetch, FlKafkaPart *part)
{
	fetch->current = part;
	part->locked = fl_kafka_is_locked(fetch->door, part->stream, part->shard);
	if (!part->locked)
		read_part(fetch, part);
	fetch->current = NULL;
	fetch->locked = fetch->locked || part->locked;
	if (part->error == FL_KAFKA_NO_ERROR && !part->diverged)
		return;
	part->ended = true;
	fetch->failed = true;
}

/* The parts from `at` on; in fl_kafka_try. */
static void
read_parts(void *arg)
{
	FlKafkaFetch *fetch = arg;

	while (fetch->at < fetch->n && !fetch->full)
	{
		FlKafkaPart *part = &fetch->parts[(fetch->from + fetch->at) % fetch->n];

		if (part->look && !part->ended)
		{
			look_at(fetch, part);
			if (fl_kafka_step_is_over())
				return;
		}
		if (!part->look || part->ended || part->locked)
			fetch->at++;
	}
}

bool
fl_kafka_fetch_read(FlKafkaFetch *fetch)
{
	for (;;)
	{
		int16 error = fl_kafka_try(fetch->door, read_parts, fetch);
		FlKafkaPart *part = fetch->current;

		fetch->current = NULL;
		if (part != NULL && error == FL_KAFKA_LOCKED)
		{
			fl_kafka_note_locked(fetch->door, part->stream, part->shard);
			part->look = part->locked = fetch->locked = true;
			fetch->at++;
		}
		else if (part != NULL)
		{
			/* What was read before is good; the error comes with the next request. */
			part->ended = true;
			part->error = part->bytes > 0 ? FL_KAFKA_NO_ERROR : error;
			fetch->failed = true;
		}
		else if (fetch->full || fetch->at >= fetch->n)
			return true;
		if (fl_kafka_step_is_over())
			return false;
	}
}

static void
find_bounds(void *arg)
{
	FlKafkaFetch *fetch = arg;

	for (int i = 0; i < fetch->n; i++)
	{
		FlKafkaPart *part = &fetch->parts[i];

		/* One that has an error tells nothing else, and its stream may be gone. */
		if (part->tail >= 0 || part->error != FL_KAFKA_NO_ERROR)
			continue;
		fetch->current = part;
		if (fl_kafka_is_locked(fetch->door, part->stream, part->shard))
			part->error = FL_KAFKA_STORAGE_ERROR;
		else
		{
			part->head = fl_log_head(part->stream, part->shard);
			part->tail = fl_log_tail(part->stream, part->shard);
		}
	}
	fetch->current = NULL;
}

void
fl_kafka_fetch_bounds(FlKafkaFetch *fetch)
{
	for (;;)
	{
		int16 error = fl_kafka_try(fetch->door, find_bounds, fetch);
		FlKafkaPart *part = fetch->current;

		fetch->current = NULL;
		if (part == NULL)
			return;
		if (error == FL_KAFKA_LOCKED)
			fl_kafka_note_locked(fetch->door, part->stream, part->shard);
		part->error = error == FL_KAFKA_LOCKED ? FL_KAFKA_STORAGE_ERROR : error;
	}
}
