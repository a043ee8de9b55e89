/*
 * epochs.c
 *		Leader epochs of partitions; OffsetForLeaderEpoch.
 *
 * The epoch of a shard is raised by its first write after the server's timeline has
 * changed, and stands in a table.  Clients that name one have it compared with every
 * Fetch, so it is kept: one of this timeline is the last that there will be, an older
 * one holds as long as nothing is written.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/hsearch.h"

#include "fleetlog/compat.h"
#include "reads.h"

typedef struct EpochKey
{
	Oid stream;
	int32 shard;
} EpochKey;

typedef struct Epoch
{
	EpochKey key; /* hash key: must come first */
	int32 epoch;
	int64 timeline;
	int64 tail; /* where the shard ended when that was read */
} Epoch;

/* More than anybody has; then it begins anew. */
#define EPOCHS_MAX 100000

/* Instead of the tail: nobody has opened the shard since the server's start, so nothing was written. */
#define NOT_OPENED PG_INT64_MAX

static HTAB *epochs = NULL;

static Epoch *
find_epoch(Oid stream, int32 shard)
{
	HASHCTL ctl = {.keysize = sizeof(EpochKey), .entrysize = sizeof(Epoch)};
	EpochKey key = {stream, shard};
	Epoch *found;
	bool known;

	if (epochs != NULL && hash_get_num_entries(epochs) >= EPOCHS_MAX)
	{
		hash_destroy(epochs);
		epochs = NULL;
	}
	if (epochs == NULL)
		epochs = hash_create("fleetlog Kafka epochs", 256, &ctl, HASH_ELEM | HASH_BLOBS);
	found = hash_search(epochs, &key, HASH_ENTER, &known);
	if (!known)
		found->tail = -1;
	return found;
}

/*
 * What changes whenever something is written.  A table is not opened for it: Metadata is
 * answered whoever has locked tables, and while streams are being dropped.
 */
static int64
tail_as_known(Oid stream, int32 shard)
{
	if (!RecoveryInProgress() && fl_shard_find(stream, shard) == NULL)
		return NOT_OPENED;
	return fl_log_tail(stream, shard);
}

int32
fl_kafka_leader_epoch(Oid stream, int32 shard)
{
	Epoch *known = find_epoch(stream, shard);
	int64 tail = tail_as_known(stream, shard);
	int32 epoch;
	int64 first_offset;
	int64 timeline;

	if (known->tail >= 0 && (known->tail == tail || known->timeline == (int64) FL_CURRENT_TLI()))
		return known->epoch;
	known->tail = -1;
	if (!fl_epoch_last(stream, shard, &epoch, &first_offset, &timeline))
		epoch = 0;
	known->epoch = epoch;
	known->timeline = timeline;
	known->tail = tail;
	return epoch;
}

int16
fl_kafka_check_epoch(Oid stream, int32 shard, int32 epoch)
{
	int32 ours;

	if (epoch < 0)
		return FL_KAFKA_NO_ERROR;
	ours = fl_kafka_leader_epoch(stream, shard);
	if (epoch == ours)
		return FL_KAFKA_NO_ERROR;
	return epoch < ours ? FL_KAFKA_FENCED_LEADER_EPOCH : FL_KAFKA_UNKNOWN_LEADER_EPOCH;
}

void
fl_kafka_epoch_end(Oid stream, int32 shard, int32 epoch, int32 *found, int64 *end)
{
	bool known = false;

	*found = -1;
	*end = -1;
	if (epoch < 0 || epoch > fl_kafka_leader_epoch(stream, shard))
		return;
	*end = Min(fl_epoch_end(stream, shard, epoch, &known), fl_log_tail(stream, shard));
	if (known)
		*found = epoch;
	else
		*end = -1;
}

/* ---- OffsetForLeaderEpoch ---- */

typedef struct EpochQuestion
{
	FlKafkaConn *conn;
	const FlStreamInfo *stream;
	FlKafkaOffsetForLeaderEpochOffsetForLeaderPartition in;
	FlKafkaOffsetForLeaderEpochEpochEndOffset *out;
} EpochQuestion;

/* In fl_kafka_try. */
static void
look_up(void *arg)
{
	const EpochQuestion *q = arg;
	FlKafkaOffsetForLeaderEpochEpochEndOffset *out = q->out;

	out->error_code = fl_kafka_check_read(q->conn, q->stream);
	if (out->error_code == FL_KAFKA_NO_ERROR && (q->in.partition < 0 || q->in.partition >= q->stream->shards))
		out->error_code = FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	if (out->error_code == FL_KAFKA_NO_ERROR)
		out->error_code = fl_kafka_check_epoch(q->stream->relid, q->in.partition, q->in.current_leader_epoch);
	if (out->error_code == FL_KAFKA_NO_ERROR)
		fl_kafka_epoch_end(q->stream->relid, q->in.partition, q->in.leader_epoch, &out->leader_epoch,
						   &out->end_offset);
}

/* What goes wrong is that partition's error. */
static void
describe_partition(EpochQuestion *q)
{
	int16 error;

	fl_kafka_init_offset_for_leader_epoch_epoch_end_offset(q->out);
	q->out->partition = q->in.partition;
	error = fl_kafka_try(q->conn->door, look_up, q);
	if (error != FL_KAFKA_NO_ERROR)
		q->out->error_code = error == FL_KAFKA_LOCKED ? FL_KAFKA_STORAGE_ERROR : error;
}

void
fl_kafka_handle_offset_for_leader_epoch(FlKafkaRequest *req)
{
	FlKafkaOffsetForLeaderEpochRequest *in = req->message;
	FlKafkaOffsetForLeaderEpochResponse out;
	FlKafkaOffsetForLeaderEpochOffsetForLeaderTopic topic;
	FlKafkaOffsetForLeaderEpochOffsetForLeaderTopicResult *topics;
	int n = 0;

	fl_kafka_begin_transaction(req->door);
	topics = palloc_extended(sizeof(*topics) * (fl_kafka_count(&in->topics) + 1), MCXT_ALLOC_HUGE);
	while (fl_kafka_next(&in->topics, &topic))
	{
		EpochQuestion q = {.conn = req->conn, .stream = fl_kafka_find_topic(req->door, topic.topic)};
		FlKafkaOffsetForLeaderEpochEpochEndOffset *partitions;
		int i = 0;

		partitions = palloc_extended(sizeof(*partitions) * (fl_kafka_count(&topic.partitions) + 1), MCXT_ALLOC_HUGE);
		while (fl_kafka_next(&topic.partitions, &q.in))
		{
			q.out = &partitions[i++];
			describe_partition(&q);
		}
		fl_kafka_init_offset_for_leader_epoch_offset_for_leader_topic_result(&topics[n]);
		topics[n].topic = topic.topic;
		fl_kafka_set_items(&topics[n].partitions, partitions, i);
		n++;
	}
	fl_kafka_init_offset_for_leader_epoch_response(&out);
	fl_kafka_set_items(&out.topics, topics, n);
	fl_kafka_answer(req, &out);
}
