/*
 * produce.c
 *		Produce: batches checked and handed to ingest, answered when durable.
 *
 *		request ─► fits? ─no─► deferred: presented again when there is room
 *		             │
 *		             ▼
 *		each partition: topic, rights, batch check ─┬─ wrong: its error
 *		                                            └─► ingest ─► fl_kafka_ingest_done
 *		all partitions known ─► answer (or, with acks=0, none)
 *
 * Partitions have their errors for themselves.  acks=1 and acks=all are the same: the
 * stream's policy says when a record is durable.  With acks=0 nothing is answered, and
 * an error closes the connection, as Kafka does; the request is kept until its fate is
 * known all the same, which bounds what a connection may have under way.
 *
 * What is under way (Produce) lives in a context of its own until ingest has said
 * what became of each of its batches, also when its request is gone: answered because its
 * time was over, or ended with its connection.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "fleetlog/batch_check.h"
#include "fleetlog/guest.h"
#include "fleetlog/ring.h"
#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "kafka.h"

#define MAX_PARTS       10000          /* partitions of a request; more is no request that anybody means */
#define MIN_TIMEOUT_MS  1000           /* a client's timeout shorter than a flush would be an error each time */
#define SCRATCH_KEEP    (1024 * 1024)
#define MAX_TIME_MS     INT64CONST(9224318015999999) /* the last millisecond of a timestamptz */
#define ZSTD_FROM       7              /* the first version in which clients know zstd */
#define HEADER_OVERHEAD 1024           /* of a record in our own form, beyond key, value and headers */

typedef struct Produce Produce;

/* A partition of a request. */
typedef struct Part
{
	Produce *produce;
	bool pending;     /* ingest has it */
	bool append_time; /* the stream's times are the server's */
	FlKafkaProduceBatchIndexAndErrorMessage record_error;
	FlKafkaProducePartitionProduceResponse out;
} Part;

typedef struct ProduceTopic
{
	FlKafkaBytes name;
	int nparts;
	Part *parts;
} ProduceTopic;

struct Produce
{
	MemoryContext memory; /* of this and all that hangs on it */
	FlKafkaRequest *req;  /* NULL: nobody waits any more */
	int16 acks;
	int npending;
	int ntopics;
	ProduceTopic *topics;
};

/* What a request asks for, seen once without doing anything. */
typedef struct Survey
{
	int nparts;
	bool transactional; /* one of its batches is part of a transaction */
} Survey;

/* ---- the answer ---- */

static bool
has_error(const Produce *p)
{
	for (int i = 0; i < p->ntopics; i++)
		for (int k = 0; k < p->topics[i].nparts; k++)
			if (p->topics[i].parts[k].out.error_code != FL_KAFKA_NO_ERROR)
				return true;
	return false;
}

static void
answer(Produce *p)
{
	FlKafkaRequest *req = p->req;
	FlKafkaProduceResponse out;
	FlKafkaProduceTopicProduceResponse *topics;

	p->req = NULL;
	if (p->acks == 0)
	{
		if (has_error(p))
			fl_kafka_refuse(req->conn, "a record that it sent without waiting for an answer was refused");
		else
			fl_kafka_answer_nothing(req);
		return;
	}
	fl_kafka_init_produce_response(&out);
	topics = MemoryContextAlloc(req->memory, sizeof(*topics) * Max(p->ntopics, 1));
	for (int i = 0; i < p->ntopics; i++)
	{
		const ProduceTopic *topic = &p->topics[i];
		FlKafkaProducePartitionProduceResponse *parts = MemoryContextAlloc(req->memory, sizeof(*parts) * Max(topic->nparts, 1));

		for (int k = 0; k < topic->nparts; k++)
		{
			parts[k] = topic->parts[k].out;
			if (topic->parts[k].record_error.batch_index >= 0)
				fl_kafka_set_items(&parts[k].record_errors, &topic->parts[k].record_error, 1);
		}
		fl_kafka_init_produce_topic_produce_response(&topics[i]);
		topics[i].name = topic->name;
		fl_kafka_set_items(&topics[i].partition_responses, parts, topic->nparts);
	}
	fl_kafka_set_items(&out.responses, topics, p->ntopics);
	fl_kafka_answer(req, &out);
}

/* One who waits is answered when everything is known; memory goes when ingest has nothing of it any more. */
static void
settle(Produce *p)
{
	if (p->npending > 0)
		return;
	if (p->req != NULL)
		answer(p);
	MemoryContextDelete(p->memory);
}

static void
on_end(FlKafkaRequest *req)
{
	Produce *p = req->state;

	/* It is just being answered. */
	if (p->req == NULL)
		return;
	p->req = NULL;
	if (p->npending == 0)
		MemoryContextDelete(p->memory);
}

/* What is not known by now may still be written: the client asks again, and an idempotent one is recognised. */
static void
on_timer(FlKafkaRequest *req)
{
	Produce *p = req->state;

	for (int i = 0; i < p->ntopics; i++)
	{
		for (int k = 0; k < p->topics[i].nparts; k++)
		{
			Part *part = &p->topics[i].parts[k];

			if (part->pending)
				part->out.error_code = FL_KAFKA_REQUEST_TIMED_OUT;
		}
	}
	answer(p);
}

/* ---- what became of a batch ---- */

static int64
to_kafka_ms(TimestampTz ts)
{
	return ts / 1000 + ((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)) * SECS_PER_DAY * 1000;
}

/*
 * Where nobody can say whether the batch was written the client has to be told
 * something that it repeats under the same sequence: UNKNOWN_SERVER_ERROR would make it
 * send the records anew (KAFKA-14034).
 */
static int16
error_code(FlError err)
{
	return err == FL_ERR_INTERNAL ? FL_KAFKA_REQUEST_TIMED_OUT : fl_error_info(err)->kafka_error;
}

static void
set_error(Part *part, int16 code, const char *message)
{
	part->out.error_code = code;
	part->out.base_offset = -1;
	part->out.error_message = fl_kafka_string(message);
}

static void
set_written(FlKafkaDoor *door, Part *part, Oid stream, int32 shard, int64 base_offset)
{
	FlShard *s = fl_shard_find(stream, shard);

	part->out.error_code = FL_KAFKA_NO_ERROR;
	part->out.base_offset = base_offset;
	if (part->append_time)
		part->out.log_append_time_ms = to_kafka_ms(fl_ingest_append_time(door->ingest));
	part->out.log_start_offset = s != NULL ? (int64) pg_atomic_read_u64(&s->head) : 0;
}

bool
fl_kafka_ingest_done(void *arg, uint64 conn_id, uint64 cookie, FlError err, Oid stream, int32 shard, int64 log_offset)
{
	FlKafkaDoor *door = arg;
	Part *part = (Part *) (uintptr_t) cookie;
	Produce *p = part->produce;

	part->pending = false;
	p->npending--;
	/* An answer that cannot be made is this connection's end, not the door's. */
	if (p->req != NULL)
		door->current = p->req->conn;
	if (err == FL_ERR_NONE)
		set_written(door, part, stream, shard, log_offset);
	else
		set_error(part, error_code(err), fl_error_info(err)->text);
	settle(p);
	door->current = NULL;
	return true;
}

/* ---- a partition ---- */

static int16
verdict_code(FlBatchVerdict verdict)
{
	switch (verdict)
	{
		case FL_BATCH_GOOD:
			return FL_KAFKA_NO_ERROR;
		case FL_BATCH_CORRUPT:
			return FL_KAFKA_CORRUPT_MESSAGE;
		case FL_BATCH_OLD_FORMAT:
		case FL_BATCH_INVALID:
			return FL_KAFKA_INVALID_RECORD;
		case FL_BATCH_UNKNOWN_CODEC:
			return FL_KAFKA_UNSUPPORTED_COMPRESSION_TYPE;
		case FL_BATCH_RAW_TOO_LARGE:
		case FL_BATCH_RECORD_TOO_LARGE:
			return FL_KAFKA_MESSAGE_TOO_LARGE;
		case FL_BATCH_FORBIDDEN:
			return FL_KAFKA_TOPIC_AUTHORIZATION_FAILED;
		case FL_BATCH_BAD_TIME:
			return FL_KAFKA_INVALID_TIMESTAMP;
	}
	return FL_KAFKA_INVALID_RECORD;
}

/* As large a record as other doors would take. */
static Size
record_limit(const FlStreamInfo *stream)
{
	Size limit = stream->max_record_bytes > 0 ? (Size) stream->max_record_bytes : (Size) fl_max_record_kb * 1024;

	return Min(limit, (Size) fl_ring_max_body() - FL_BATCH_HEADER_SIZE - HEADER_OVERHEAD);
}

/* What header fl.role of the records is to say; NULL: they have none. */
static const char *
role_of(const FlKafkaConn *conn)
{
	return conn->identity != NULL && conn->identity->kind == FL_IDENTITY_ROLE ? conn->identity->role_name : NULL;
}

/* Whose record it would be. */
typedef struct Writer
{
	const FlKafkaConn *conn;
	Oid stream;
} Writer;

static const char *
may_write(void *arg, const uint8 *key, int32 key_len, int32 value_len)
{
	const Writer *writer = arg;

	return fl_kafka_may_write_record(writer->conn, writer->stream, key, key_len, value_len);
}

/* False, and the part has its error. */
static bool
check_batch(const FlKafkaConn *conn, Part *part, FlBatchCheck *check, const FlStreamInfo *stream, const FlKafkaRecords *records)
{
	static FlBuf raw;
	static bool ready = false;
	FlBatchVerdict verdict;
	Writer writer = {conn, stream->relid};

	if (!ready)
		fl_buf_init(&raw, &fl_kafka_door->alloc, 0);
	ready = true;
	check->max_raw = raw.max = (Size) fl_kafka_max_request_kb * 1024;
	check->max_record = record_limit(stream);
	check->max_time = MAX_TIME_MS;
	check->shards = stream->shards;
	check->shard = part->out.index;
	check->needs_keys = stream->is_compacted;
	check->headers_more = role_of(conn) != NULL ? 1 : 0;
	/* Others have the right on all of the stream. */
	if (conn->identity != NULL && conn->identity->kind == FL_IDENTITY_DEVICE)
	{
		check->may_write = may_write;
		check->arg = &writer;
	}
	verdict = fl_batch_check(check, records->data, (Size) records->len, fl_server_compressor(), &raw);
	if (raw.cap > SCRATCH_KEEP)
		fl_buf_free(&raw);
	if (verdict == FL_BATCH_GOOD)
		return true;
	set_error(part, verdict_code(verdict), check->why);
	if (verdict == FL_BATCH_INVALID && check->bad_record >= 0)
	{
		part->record_error.batch_index = check->bad_record;
		part->record_error.batch_index_error_message = fl_kafka_string(check->why);
	}
	return false;
}

static void
hand_over(FlKafkaRequest *req, Part *part, const FlBatchCheck *check, const FlStreamInfo *stream,
		  const FlKafkaRecords *records)
{
	const FlIdentity *who = req->conn->identity;
	bool device = who != NULL && who->kind == FL_IDENTITY_DEVICE;
	bool timed = check->min_time != FL_NO_TIMESTAMP;
	FlIngestForeign batch = {
		.stream = stream->relid,
		.shards = stream->shards,
		.shard = part->out.index,
		.body = records->data,
		.body_len = (uint32) records->len,
		.nrecords = check->info.record_count,
		.min_created = timed ? check->min_time : FL_NO_CREATED,
		.max_created = timed ? check->max_time_found : FL_NO_CREATED,
		.max_timestamp = check->max_time_found != check->info.max_timestamp ? check->max_time_found : FL_NO_CREATED,
		.off_key = (uint32) check->off_key,
		.tenant = device ? who->tenant : NULL,
		.device = device ? who->device : NULL,
		.role = role_of(req->conn),
		.state = fl_state_concerns(stream->relid),
		.mounts = fl_catalog_mounts_digest(),
		.conn_id = req->conn->id,
		.cookie = (uint64) (uintptr_t) part,
	};
	FlError err = fl_ingest_add_foreign(req->door->ingest, &batch);

	if (err != FL_ERR_NONE)
	{
		set_error(part, error_code(err), fl_error_info(err)->text);
		return;
	}
	part->pending = true;
	part->produce->npending++;
}

static void
take_part(FlKafkaRequest *req, Part *part, const FlStreamInfo *stream, const FlKafkaRecords *records)
{
	FlBatchCheck check = {0};

	if (stream == NULL || part->out.index < 0 || part->out.index >= stream->shards)
		set_error(part, FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION, NULL);
	else if (!fl_kafka_may_write(req->conn, stream))
		set_error(part, FL_KAFKA_TOPIC_AUTHORIZATION_FAILED, NULL);
	else if (records->len <= 0)
		set_error(part, FL_KAFKA_INVALID_RECORD, "a partition takes one batch of a request");
	else if (fl_disk_reserve_reached())
		set_error(part, FL_KAFKA_STORAGE_ERROR, "the disk reserve is reached");
	else if ((uint32) records->len > fl_ring_max_body())
		set_error(part, FL_KAFKA_MESSAGE_TOO_LARGE, "the batch is larger than half of fleetlog.ingest_ring");
	else if (check_batch(req->conn, part, &check, stream, records))
	{
		part->append_time = stream->timestamp_type == FL_TIMESTAMP_APPEND;
		if (check.info.codec == FL_CODEC_ZSTD && req->version < ZSTD_FROM)
			set_error(part, FL_KAFKA_UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7");
		else
			hand_over(req, part, &check, stream, records);
	}
}

/* ---- the request ---- */

static void
init_part(Produce *p, Part *part, int32 index)
{
	part->produce = p;
	part->pending = false;
	part->append_time = false;
	fl_kafka_init_produce_batch_index_and_error_message(&part->record_error);
	part->record_error.batch_index = -1;
	fl_kafka_init_produce_partition_produce_response(&part->out);
	part->out.index = index;
	part->out.base_offset = -1;
}

static FlKafkaBytes
copy_name(Produce *p, FlKafkaBytes name)
{
	uint8 *copy = MemoryContextAlloc(p->memory, Max(name.len, 1));

	if (name.len > 0)
		memcpy(copy, name.data, name.len);
	return fl_kafka_bytes(copy, name.len);
}

static Produce *
create(FlKafkaRequest *req, const FlKafkaProduceRequest *in)
{
	MemoryContext memory = AllocSetContextCreate(req->door->context, "fleetlog Produce", ALLOCSET_SMALL_SIZES);
	Produce *p = MemoryContextAllocZero(memory, sizeof(Produce));

	p->memory = memory;
	p->req = req;
	p->acks = in->acks;
	p->topics = MemoryContextAllocZero(memory, sizeof(ProduceTopic) * Max(fl_kafka_count(&in->topic_data), 1));
	return p;
}

/* All partitions with the same error: the request as a whole is wrong. */
static void
take_topic(FlKafkaRequest *req, Produce *p, const FlKafkaProduceTopicProduceData *in, int16 refused)
{
	ProduceTopic *topic = &p->topics[p->ntopics];
	FlKafkaProduceTopicProduceData data = *in;
	FlKafkaProducePartitionProduceData part;
	const FlStreamInfo *stream = fl_kafka_find_topic(req->door, in->name);

	topic->name = copy_name(p, in->name);
	topic->parts = MemoryContextAlloc(p->memory, sizeof(Part) * Max(fl_kafka_count(&data.partition_data), 1));
	p->ntopics++;
	while (fl_kafka_next(&data.partition_data, &part))
	{
		Part *to = &topic->parts[topic->nparts];

		init_part(p, to, part.index);
		topic->nparts++;
		if (refused != FL_KAFKA_NO_ERROR)
			set_error(to, refused, NULL);
		else
			take_part(req, to, stream, &part.records);
	}
}

/* Is its attribute for transactions set?  Nothing of the batch has been checked yet. */
static bool
is_transactional(const FlKafkaRecords *records)
{
	return records->len >= FL_BATCH_HEADER_SIZE && records->data[16] == FL_BATCH_MAGIC &&
		   (fl_get_be16(records->data + FL_BATCH_CRC_START) & FL_BATCH_TRANSACTIONAL) != 0;
}

static int64
total_bytes(FlKafkaProduceRequest *in)
{
	FlKafkaProduceTopicProduceData topic;
	FlKafkaProducePartitionProduceData part;
	int64 total = 0;

	while (fl_kafka_next(&in->topic_data, &topic))
		while (fl_kafka_next(&topic.partition_data, &part))
			total += Max(part.records.len, 0);
	fl_kafka_rewind(&in->topic_data);
	return total;
}

/* False when ingest has no room for all of it now. */
static bool
survey(FlKafkaRequest *req, FlKafkaProduceRequest *in, Survey *s)
{
	FlKafkaProduceTopicProduceData topic;
	FlKafkaProducePartitionProduceData part;
	int64 total = total_bytes(in);
	bool fits = true;

	while (fl_kafka_next(&in->topic_data, &topic))
	{
		const FlStreamInfo *stream = fl_kafka_find_topic(req->door, topic.name);

		while (fl_kafka_next(&topic.partition_data, &part))
		{
			s->nparts++;
			s->transactional |= is_transactional(&part.records);
			if (stream != NULL && part.index >= 0 && part.index < stream->shards && part.records.len > 0 && fits)
				fits = fl_ingest_foreign_fits(req->door->ingest, stream->relid, stream->shards, part.index,
											  part.records.len, total);
		}
	}
	fl_kafka_rewind(&in->topic_data);
	return fits;
}

/* There are no transactions: who asks for one is told that it may not. */
static int16
refuse_request(const FlKafkaProduceRequest *in, const Survey *s)
{
	if (in->transactional_id.len >= 0 || s->transactional)
		return FL_KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
	if (in->acks < -1 || in->acks > 1)
		return FL_KAFKA_INVALID_REQUIRED_ACKS;
	return FL_KAFKA_NO_ERROR;
}

void
fl_kafka_handle_produce(FlKafkaRequest *req)
{
	FlKafkaProduceRequest *in = req->message;
	FlKafkaProduceTopicProduceData topic;
	Survey s = {0};
	Produce *p;
	int16 refused;

	if (!survey(req, in, &s))
	{
		fl_kafka_defer(req);
		return;
	}
	if (s.nparts > MAX_PARTS)
	{
		fl_kafka_refuse(req->conn, "a Produce request for more than 10000 partitions");
		return;
	}
	refused = refuse_request(in, &s);
	p = create(req, in);
	/* From here on an error ends the request by on_end, whatever ingest has of it. */
	fl_kafka_park(req, p, on_end);
	if (p->acks != 0)
		fl_kafka_set_timer(req, Max(in->timeout_ms, MIN_TIMEOUT_MS), on_timer);
	while (fl_kafka_next(&in->topic_data, &topic))
		take_topic(req, p, &topic, refused);
	settle(p);
}
