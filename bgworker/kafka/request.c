/*
 * request.c
 *		The life of a request: decoded, handled, perhaps parked, answered.
 *
 *		 frame ─► create ─► handler ─┬─► answer ───────────────► sent ─► dead
 *		                             ├─► park ─► answer ─► (waits for earlier ones) ─► sent ─► dead
 *		                             └─► defer ─► dead, and presented again
 *		 connection gone: on_end of what is parked ─► dead
 *
 * A request and all its handler has allocated lie in one memory context.  It is
 * freed behind the turn (fl_kafka_free_dead), never at once: whoever calls
 * fl_kafka_answer or closes a connection may still hold the pointer.
 */
#include "postgres.h"

#include "kafka.h"

static void
fire_request(FlKafkaTimer *timer)
{
	FlKafkaRequest *req = timer->arg;

	if (!req->done)
		req->on_timer(req);
}

FlKafkaRequest *
fl_kafka_create_request(FlKafkaConn *conn, const FlKafkaEntry *entry, const FlKafkaRequestHeader *header,
						const uint8 *frame, Size len)
{
	FlKafkaDoor *door = conn->door;
	MemoryContext memory = AllocSetContextCreate(door->context, "fleetlog Kafka request", ALLOCSET_SMALL_SIZES);
	FlKafkaRequest *req = MemoryContextAllocZero(memory, sizeof(FlKafkaRequest));
	const FlKafkaMessage *type = header->api->request;
	size_t left;

	req->door = door;
	req->conn = conn;
	req->entry = entry;
	req->api = header->api;
	req->version = header->version;
	req->correlation_id = header->correlation_id;
	req->client_id = header->client_id;
	req->memory = memory;
	req->timer.fire = fire_request;
	req->timer.arg = req;
	dlist_push_tail(&conn->requests, &req->node);
	conn->nrequests++;
	if (entry->flags & FL_KAFKA_KEEPS)
	{
		uint8 *copy = MemoryContextAlloc(memory, Max(len, 1));

		memcpy(copy, frame, len);
		if (req->client_id.data != NULL)
			req->client_id.data = copy + (req->client_id.data - frame);
		frame = copy;
	}
	req->message = MemoryContextAlloc(memory, type->root->size);
	/* Bytes behind a request are left alone, as Kafka does: librdkafka sends three behind each Metadata of all topics. */
	if (fl_kafka_decode_request(type, header->version, frame + header->body_at, len - header->body_at, req->message,
								&left) != FL_OK)
	{
		fl_kafka_refuse(conn, "malformed request");
		return NULL;
	}
	return req;
}

void
fl_kafka_park(FlKafkaRequest *req, void *state, void (*on_end)(FlKafkaRequest *req))
{
	Assert(!req->done);
	req->parked = true;
	req->state = state;
	req->on_end = on_end;
	if (!(req->entry->flags & FL_KAFKA_KEEPS))
		req->message = NULL;
}

void
fl_kafka_set_timer(FlKafkaRequest *req, int64 in_ms, void (*on_timer)(FlKafkaRequest *req))
{
	req->on_timer = on_timer;
	fl_kafka_arm(req->door, &req->timer, Max(in_ms, 0));
}

void
fl_kafka_defer(FlKafkaRequest *req)
{
	req->deferred = true;
	req->conn->nrequests--;
	dlist_delete(&req->node);
	req->done = true;
	dlist_push_tail(&req->door->dead, &req->node);
}

/* It leaves its connection's list. */
void
fl_kafka_end_request(FlKafkaRequest *req)
{
	fl_kafka_arm(req->door, &req->timer, -1);
	req->done = true;
	req->conn->nrequests--;
	dlist_delete(&req->node);
	dlist_push_tail(&req->door->dead, &req->node);
}

void
fl_kafka_free_dead(FlKafkaDoor *door)
{
	while (!dlist_is_empty(&door->dead))
	{
		FlKafkaRequest *req = dlist_container(FlKafkaRequest, node, dlist_pop_head_node(&door->dead));

		MemoryContextDelete(req->memory);
	}
}

/* ---- answers ---- */

void
fl_kafka_answer_nothing(FlKafkaRequest *req)
{
	Assert(!req->done);
	if (req->conn == NULL)
		return;
	req->done = true;
	fl_kafka_arm(req->door, &req->timer, -1);
	fl_kafka_send_ready(req->conn);
}

/* The frame, with what has a place in it. */
static void
send_frame(FlNetConn *net, const FlBuf *out, const FlKafkaPlaces *places)
{
	size_t from = 0;

	for (int i = 0; places != NULL && i < places->n; i++)
	{
		fl_net_write(net, out->data + from, places->items[i].at - from);
		fl_net_write_chain(net, places->items[i].chain);
		from = places->items[i].at;
	}
	fl_net_write(net, out->data + from, out->len - from);
}

static void
answer_frame(FlKafkaRequest *req, const FlKafkaPlaces *places)
{
	FlBuf *out = &req->door->out;

	if (req->conn == NULL)
	{
		fl_buf_reset(out);
		return;
	}
	req->conn->answers_out++;
	req->conn->stats_dirty = true;
	if (dlist_head_element(FlKafkaRequest, node, &req->conn->requests) == req)
		send_frame(&req->conn->net, out, places);
	else
	{
		/* What has places follows no other request before that is answered. */
		Assert(places == NULL || places->n == 0);
		req->answer = MemoryContextAllocHuge(req->memory, out->len);
		req->answer_len = out->len;
		memcpy(req->answer, out->data, out->len);
	}
	fl_buf_reset(out);
	fl_kafka_answer_nothing(req);
}

void
fl_kafka_answer_frame(FlKafkaRequest *req)
{
	answer_frame(req, NULL);
}

void
fl_kafka_answer(FlKafkaRequest *req, const void *response)
{
	fl_kafka_answer_places(req, response, NULL);
}

void
fl_kafka_answer_places(FlKafkaRequest *req, const void *response, const FlKafkaPlaces *places)
{
	FlBuf *out = &req->door->out;
	size_t start;

	fl_buf_reset(out);
	start = fl_kafka_begin_response(req->api, req->version, req->correlation_id, out);
	if (fl_kafka_encode(req->api->response, req->version, response, out) != FL_OK ||
		fl_kafka_end_response(start, places != NULL ? places->bytes : 0, out) != FL_OK)
	{
		fl_buf_reset(out);
		ereport(LOG, (errmsg("fleetlog: an answer to %s of version %d could not be made", req->api->name, req->version)));
		if (req->conn != NULL)
			fl_kafka_close(req->conn, "no answer could be made");
		return;
	}
	answer_frame(req, places);
}
