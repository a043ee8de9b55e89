/*
 * group_ask.c
 *		Asking the positions worker: questions go into the queue of src/group, answers
 *		come back by their numbers.
 *
 * A request may ask several questions (one for each group that it names) and is
 * answered when all answers are there.  One whose answers do not come in time is
 * told to come again; what it asked may be done nevertheless, as with any client
 * that loses an answer.
 */
#include "postgres.h"

#include "utils/hsearch.h"

#include "group.h"

/* Questions under way, by number. */
typedef struct Question
{
	uint64 id; /* hash key */
	FlKafkaAsks *asks;
	int i;
} Question;

#define QUESTION_MAX (64 << 20) /* bytes; the queue takes much less */

static HTAB *questions = NULL;
static FlBuf buffer;

static void
create_table(FlKafkaDoor *door)
{
	HASHCTL ctl = {0};

	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(Question);
	ctl.hcxt = door->context;
	questions = hash_create("fleetlog Kafka questions", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

FlBuf *
fl_kafka_ask_buffer(void)
{
	if (buffer.max == 0)
		fl_buf_init(&buffer, NULL, QUESTION_MAX);
	return &buffer;
}

FlKafkaAsks *
fl_kafka_asks_create(FlKafkaRequest *req, int n, void (*finish)(FlKafkaAsks *), void *state)
{
	FlKafkaAsks *asks = palloc0(sizeof(FlKafkaAsks));

	/* What may raise an error is done before the lock is taken. */
	if (questions == NULL)
		create_table(req->door);
	asks->req = req;
	asks->n = n;
	asks->timeout_ms = FL_KAFKA_ASK_MS;
	asks->asks = palloc0(sizeof(FlKafkaAsk) * Max(n, 1));
	asks->finish = finish;
	asks->state = state;
	for (int i = 0; i < n; i++)
		fl_reader_init(&asks->asks[i].items, NULL, 0);
	return asks;
}

void
fl_kafka_ask(FlGroupCall *call, FlKafkaAsks *asks, int i, const FlBuf *question)
{
	FlKafkaAsk *ask = &asks->asks[i];

	ask->error = fl_positions_put(call, question, &ask->id);
	if (ask->error == FL_KAFKA_NO_ERROR)
		asks->pending++;
}

static void
forget(FlKafkaAsks *asks)
{
	for (int i = 0; i < asks->n; i++)
		if (asks->asks[i].id != 0 && !asks->asks[i].answered)
			hash_search(questions, &asks->asks[i].id, HASH_REMOVE, NULL);
}

/* The connection has gone. */
static void
on_end(FlKafkaRequest *req)
{
	forget(req->state);
}

static void
on_timer(FlKafkaRequest *req)
{
	FlKafkaAsks *asks = req->state;

	forget(asks);
	for (int i = 0; i < asks->n; i++)
		if (asks->asks[i].id != 0 && !asks->asks[i].answered)
			asks->asks[i].error = FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	asks->finish(asks);
}

void
fl_kafka_asks_wait(FlKafkaAsks *asks)
{
	if (asks->pending == 0)
	{
		asks->finish(asks);
		return;
	}
	fl_worker_wake(FL_WORKER_POSITIONS, 0);
	for (int i = 0; i < asks->n; i++)
	{
		Question *q;

		if (asks->asks[i].id == 0)
			continue;
		q = hash_search(questions, &asks->asks[i].id, HASH_ENTER, NULL);
		q->asks = asks;
		q->i = i;
	}
	fl_kafka_park(asks->req, asks, on_end);
	fl_kafka_set_timer(asks->req, asks->timeout_ms, on_timer);
}

/* Into the request's memory: the next answer takes the place of this one. */
static void
keep_items(FlKafkaAsk *ask, const FlPositionsAnswer *answer)
{
	Size len = fl_reader_left(&answer->items);
	uint8 *copy;

	if (len == 0)
		return;
	copy = palloc_extended(len, MCXT_ALLOC_HUGE);
	memcpy(copy, answer->items.pos, len);
	fl_reader_init(&ask->items, copy, len);
}

void
fl_kafka_asks_serve(FlKafkaDoor *door)
{
	FlPositionsAnswer answer;

	while (fl_positions_next_answer(door->index, &answer))
	{
		Question *q = questions == NULL ? NULL : hash_search(questions, &answer.id, HASH_FIND, NULL);
		FlKafkaAsks *asks;
		FlKafkaAsk *ask;
		MemoryContext old;

		if (q == NULL)
			continue;
		asks = q->asks;
		ask = &asks->asks[q->i];
		hash_search(questions, &answer.id, HASH_REMOVE, NULL);
		old = MemoryContextSwitchTo(asks->req->memory);
		door->current = asks->req->conn;
		ask->answered = true;
		ask->error = answer.error;
		ask->found = answer.found;
		keep_items(ask, &answer);
		if (--asks->pending == 0)
			asks->finish(asks);
		door->current = NULL;
		MemoryContextSwitchTo(old);
	}
}
