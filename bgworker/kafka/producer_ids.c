/*
 * producer_ids.c
 *		InitProducerId: an id for an idempotent producer, which nobody else has or had.
 *
 * The positions worker gives out blocks of them (src/producer/ids.c), flushed before it
 * answers; what the door has left of its block when it ends is never used.  As in
 * Kafka, a producer that names an id of before (KIP-360) is given a new one just the same:
 * without a transactional id there is nothing that its epoch would fence.
 */
#include "postgres.h"

#include "fleetlog/producers.h"
#include "group.h"

/* The rest of the door's block. */
static int64 next_id = 0;
static int ids_left = 0;

static void
answer(FlKafkaRequest *req, int16 error, int64 id)
{
	FlKafkaInitProducerIdResponse out;

	fl_kafka_init_init_producer_id_response(&out);
	out.error_code = error;
	out.producer_id = id;
	out.producer_epoch = error == FL_KAFKA_NO_ERROR ? 0 : FL_NO_PRODUCER_EPOCH;
	fl_kafka_answer(req, &out);
}

static int64
take_id(void)
{
	ids_left--;
	return next_id++;
}

/* A block has come; others may have asked for one at the same time. */
static void
on_block(FlKafkaAsks *asks)
{
	FlKafkaAsk *ask = &asks->asks[0];
	FlPosition item;

	if (ask->error == FL_KAFKA_NO_ERROR && ids_left == 0 && fl_positions_next(&ask->items, &item))
	{
		next_id = item.log_offset;
		ids_left = FL_PRODUCER_IDS;
	}
	if (ids_left > 0)
		answer(asks->req, FL_KAFKA_NO_ERROR, take_id());
	else
		/* What Kafka says then; for others Java's producer looks for a coordinator of transactions. */
		answer(asks->req, FL_KAFKA_COORDINATOR_LOAD_IN_PROGRESS, FL_NO_PRODUCER_ID);
}

static void
ask_for_block(FlKafkaRequest *req)
{
	FlKafkaAsks *asks = fl_kafka_asks_create(req, 1, on_block, NULL);
	FlBuf *question = fl_kafka_ask_buffer();
	FlGroupCall *call;

	fl_positions_begin(question, FL_POSITIONS_PRODUCER_IDS, InvalidOid, fl_kafka_bytes("", 0));
	call = fl_groups_lock(req->door->index, InvalidOid, InvalidOid);
	fl_kafka_ask(call, asks, 0, question);
	fl_groups_unlock(call);
	fl_kafka_asks_wait(asks);
}

/* There are no transactions: who asks for one is told that it may not. */
static int16
refuse(FlKafkaRequest *req)
{
	const FlKafkaInitProducerIdRequest *in = req->message;

	if (in->transactional_id.len == 0)
		return FL_KAFKA_INVALID_REQUEST;
	if (in->transactional_id.len > 0)
		return FL_KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
	if ((in->producer_id == FL_NO_PRODUCER_ID) != (in->producer_epoch == FL_NO_PRODUCER_EPOCH))
		return FL_KAFKA_INVALID_REQUEST;
	if (!fl_kafka_may_write_any(req->conn))
		return FL_KAFKA_CLUSTER_AUTHORIZATION_FAILED;
	return FL_KAFKA_NO_ERROR;
}

void
fl_kafka_handle_init_producer_id(FlKafkaRequest *req)
{
	int16 error = refuse(req);

	if (error != FL_KAFKA_NO_ERROR)
		answer(req, error, FL_NO_PRODUCER_ID);
	else if (ids_left > 0)
		answer(req, FL_KAFKA_NO_ERROR, take_id());
	else
		ask_for_block(req);
}
