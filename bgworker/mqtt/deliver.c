/*
 * deliver.c
 *		Messages to one subscriber: packet identifiers, the window, the queue.
 *
 * QoS 0 goes out at once or, when too much is unsent, nowhere: it is dropped and
 * counted.  QoS 1 and 2 go out while the window has room and nothing waits
 * before them; else they wait in a bounded queue of references; when that is full
 * too the caller is told and the connection reads the log itself (catchup.c).
 *
 * Order: such a message never overtakes another (MQTT-4.6.0-6).  Packet
 * identifiers advance and none is used twice at a time (MQTT-2.2.1-4); one of a
 * QoS 2 delivery, and its place in the window, are free after PUBCOMP.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "mqtt.h"
#include "packet.h"

#define FIRST_QUEUE 16

/* ---- packet identifiers ---- */

static int
find_inflight(const FlMqttSubscriber *sub, uint16 packet_id)
{
	for (int i = 0; i < sub->inflight_count; i++)
		if (sub->inflight[i].id == packet_id)
			return i;
	return -1;
}

static bool
is_restored(const FlMqttSubscriber *sub, uint16 packet_id)
{
	for (int i = sub->restored_next; i < sub->restored_count; i++)
		if (sub->restored[i].id == packet_id)
			return true;
	return false;
}

static void
add_inflight(FlMqttConn *conn, uint16 packet_id, FlMqttSentState state, int feed, int64 log_offset)
{
	FlMqttSubscriber *sub = conn->sub;

	if (sub->inflight_count == sub->inflight_cap)
	{
		/* What was restored may be more than the window of this connection. */
		int cap = Min(sub->inflight_cap == 0 ? 8 : sub->inflight_cap * 2, PG_UINT16_MAX);

		if (sub->inflight == NULL)
			sub->inflight = MemoryContextAlloc(conn->door->context, sizeof(FlMqttSent) * (Size) cap);
		else
			sub->inflight = repalloc(sub->inflight, sizeof(FlMqttSent) * (Size) cap);
		sub->inflight_cap = (uint16) cap;
	}
	sub->inflight[sub->inflight_count++] =
		(FlMqttSent){.id = packet_id, .state = (uint8) state, .feed = feed, .log_offset = log_offset};
}

static uint16
take_packet_id(FlMqttConn *conn, const FlMqttMessage *message)
{
	FlMqttSubscriber *sub = conn->sub;

	do
	{
		sub->next_packet_id = sub->next_packet_id == PG_UINT16_MAX ? 1 : sub->next_packet_id + 1;
	} while (find_inflight(sub, sub->next_packet_id) >= 0 || is_restored(sub, sub->next_packet_id));
	add_inflight(conn, sub->next_packet_id, message->publish.qos == 2 ? FL_MQTT_SENT_QOS2 : FL_MQTT_SENT_QOS1,
				 message->feed, message->log_offset);
	return sub->next_packet_id;
}

/* ---- sending ---- */

/* What piled up in this turn may well fit the kernel's buffer: try before giving up. */
static bool
has_little_pending(FlMqttConn *conn)
{
	if (fl_net_pending(&conn->net) >= FL_MQTT_PENDING_SOFT)
		fl_net_push(&conn->net);
	return fl_net_pending(&conn->net) < FL_MQTT_PENDING_SOFT;
}

/* The worker's own memory for what waits: at the limit nothing new waits. */
static bool
is_short(const FlMqttDoor *door)
{
	return fl_net_is_short(door->net) ||
		   fl_net_buffered(door->net) + door->message_bytes >= (Size) fl_mqtt_buffer_memory_mb * 1024 * 1024;
}

static bool
window_is_open(FlMqttConn *conn)
{
	return conn->sub->inflight_count < conn->sub->window && has_little_pending(conn);
}

bool
fl_mqtt_has_room(FlMqttConn *conn, uint8 qos)
{
	if (qos == 0)
		return has_little_pending(conn);
	return conn->sub->queue_len == 0 && window_is_open(conn);
}

/*
 * Counts a message's expiry down to what is left (MQTT-3.3.2-6).  False when
 * nothing is left (MQTT-3.3.2-5).
 */
static bool
set_expiry(FlMqttMessage *message)
{
	TimestampTz left;

	if (message->expires == 0)
		return true;
	left = message->expires - fl_wall_now();
	if (left <= 0)
		return false;
	/* A second that has begun counts: what was just published keeps its number. */
	fl_mqtt_props_set_int(&message->publish.props, FL_MQTT_P_MESSAGE_EXPIRY,
						  (uint32) Min((left + USECS_PER_SEC - 1) / USECS_PER_SEC, PG_UINT32_MAX));
	return true;
}

/*
 * Every field was checked when the record was read, so encoding cannot fail; if
 * it does, one message less is better than a feed that stops.
 */
static bool
write_publish(FlMqttConn *conn, FlMqttMessage *message)
{
	FlBuf *out = &conn->door->out;
	FlMqttPublish *publish = &message->publish;
	bool written;

	if (publish->dup)
		add_inflight(conn, publish->packet_id, publish->qos == 2 ? FL_MQTT_SENT_QOS2 : FL_MQTT_SENT_QOS1, message->feed,
					 message->log_offset);
	else if (publish->qos > 0)
		publish->packet_id = take_packet_id(conn, message);
	fl_mqtt_encode_publish(out, (FlMqttVersion) conn->version, publish);
	written = !out->failed;
	if (!written)
	{
		if (publish->qos > 0)
			conn->sub->inflight_count--;
		FL_COUNT(FL_C_ERRORS, 1);
	}
	else
	{
		fl_net_write(&conn->net, out->data, out->len);
		conn->sub->delivered++;
		conn->stats_dirty = true;
		FL_COUNT(FL_C_PUBLISH_OUT, 1);
	}
	fl_buf_reset(out);
	return written;
}

/* ---- topic aliases ---- */

/*
 * The first topics that are sent get the aliases and keep them.  To replace them
 * would gain nothing for who gets more topics than that in turn, and cost everybody
 * else a look into which one was used last.
 */
static int
find_alias(FlMqttConn *conn, FlMqttBytes topic, bool *known)
{
	FlMqttAliases *aliases = conn->sub->aliases;
	int i = 0;

	*known = false;
	/* An alias takes three bytes itself. */
	if (conn->max_aliases == 0 || topic.len <= 3)
		return 0;
	for (; aliases != NULL && i < aliases->max && aliases->topic[i].data != NULL; i++)
		if (aliases->topic[i].len == topic.len && memcmp(aliases->topic[i].data, topic.data, topic.len) == 0)
		{
			*known = true;
			break;
		}
	return i < conn->max_aliases ? i + 1 : 0;
}

/* The client knows it from now on. */
static void
keep_alias(FlMqttConn *conn, FlMqttBytes topic, int alias)
{
	FlMqttSubscriber *sub = conn->sub;
	uint8 *copy;

	if (sub->aliases == NULL)
	{
		sub->aliases = MemoryContextAllocZero(conn->door->context,
											  offsetof(FlMqttAliases, topic) + sizeof(FlMqttBytes) * conn->max_aliases);
		sub->aliases->max = conn->max_aliases;
	}
	copy = MemoryContextAlloc(conn->door->context, topic.len);
	memcpy(copy, topic.data, topic.len);
	sub->aliases->topic[alias - 1].data = copy;
	sub->aliases->topic[alias - 1].len = topic.len;
}

static bool
fits(const FlMqttConn *conn, const FlMqttPublish *publish)
{
	return fl_mqtt_publish_size((FlMqttVersion) conn->version, publish) <= conn->max_packet;
}

/*
 * Writes a PUBLISH, with an alias instead of its topic where the client knows one.
 * False: it is too large for the client, which has not seen it nor its alias.
 */
static bool
write_with_alias(FlMqttConn *conn, FlMqttMessage *message)
{
	FlMqttPublish *publish = &message->publish;
	FlMqttBytes topic = publish->topic;
	bool known;
	int alias = find_alias(conn, topic, &known);
	bool fitting;

	if (alias > 0)
		fl_mqtt_props_set_int(&publish->props, FL_MQTT_P_TOPIC_ALIAS, (uint32) alias);
	if (known)
		publish->topic.len = 0;
	fitting = fits(conn, publish);
	/* What is too large because of the alias goes without it. */
	if (!fitting && alias > 0 && !known)
	{
		publish->props.present &= ~(1u << FL_MQTT_P_TOPIC_ALIAS);
		alias = 0;
		fitting = fits(conn, publish);
	}
	if (fitting && write_publish(conn, message) && alias > 0 && !known)
		keep_alias(conn, topic, alias);
	publish->props.present &= ~(1u << FL_MQTT_P_TOPIC_ALIAS);
	publish->topic = topic;
	return fitting;
}

/*
 * Writes one delivery; `again`: the identifier of one that is sent again, else 0;
 * gap: how many before it were lost.  What is larger than the client allows
 * vanishes and takes no packet identifier (MQTT-3.1.2-25, cases O21 and O23); so
 * does what has expired.  The gap is told by the next one then.
 */
static void
send_message(FlMqttConn *conn, FlMqttMessage *message, const FlMqttHow *how, uint32 gap, uint16 again)
{
	FlMqttPublish *publish = &message->publish;
	uint8 published_qos = publish->qos;
	bool published_retain = publish->retain;
	const FlMqttUserProperty *users = publish->props.users;
	uint32 user_count = publish->props.user_count;
	bool tells = how->position != FL_MQTT_POSITION_OFF && conn->version == FL_MQTT_5_0;
	bool sent = false;

	if (!set_expiry(message))
	{
		fl_mqtt_note_gap(conn, message->feed, gap);
		return;
	}
	publish->qos = how->qos;
	publish->retain = how->retain;
	publish->packet_id = again;
	publish->dup = again != 0;
	publish->props.subscription_ids = how->ids;
	publish->props.subscription_id_count = how->id_count;
	if (tells)
		fl_mqtt_tell_position(conn->door, message, (FlMqttPositionWish) how->position, gap);
	sent = write_with_alias(conn, message);
	if (tells)
		fl_mqtt_untell_position(message, users, user_count);
	if (!sent)
	{
		FL_COUNT(FL_C_DROPPED_TOO_LARGE, 1);
		fl_mqtt_note_gap(conn, message->feed, gap);
	}
	else if (message->mount != NULL)
	{
		pg_atomic_fetch_add_u64(&message->mount->messages_out, 1);
		pg_atomic_fetch_add_u64(&message->mount->bytes_out, publish->payload.len);
	}
	publish->qos = published_qos;
	publish->retain = published_retain;
	publish->dup = false;
	publish->props.subscription_ids = NULL;
	publish->props.subscription_id_count = 0;
}

/* ---- the queue ---- */

static bool
queue_has_room(const FlMqttSubscriber *sub, Size size)
{
	uint32 limit = sub->max_messages;

	/* One that reads the log itself needs no more than the next few. */
	if (sub->lagging)
		limit = Min(limit, FL_MQTT_CATCHUP_QUEUE);
	return sub->queue_len < limit && (sub->queue_len == 0 || sub->queue_bytes + size <= sub->max_bytes);
}

static void
grow_queue(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;
	uint32 cap = sub->queue_cap == 0 ? FIRST_QUEUE : sub->queue_cap * 2;
	FlMqttQueued *queue = MemoryContextAlloc(conn->door->context, sizeof(FlMqttQueued) * cap);

	for (uint32 i = 0; i < sub->queue_len; i++)
		queue[i] = sub->queue[(sub->queue_head + i) % sub->queue_cap];
	if (sub->queue)
		pfree(sub->queue);
	sub->queue = queue;
	sub->queue_cap = cap;
	sub->queue_head = 0;
}

static void
enqueue(FlMqttConn *conn, FlMqttMessage *message, const FlMqttHow *how, uint32 gap)
{
	FlMqttSubscriber *sub = conn->sub;
	FlMqttQueued *place;

	if (sub->queue_len == sub->queue_cap)
		grow_queue(conn);
	place = &sub->queue[(sub->queue_head + sub->queue_len) % sub->queue_cap];
	place->message = message;
	place->qos = how->qos;
	place->retain = how->retain;
	place->position = how->position;
	place->pass = sub->pass;
	place->gap = gap;
	place->ids = NULL;
	if (how->id_count > 0)
	{
		place->ids = MemoryContextAlloc(conn->door->context, offsetof(FlMqttIds, id) + sizeof(uint32) * how->id_count);
		place->ids->count = how->id_count;
		memcpy(place->ids->id, how->ids, sizeof(uint32) * how->id_count);
	}
	sub->queue_len++;
	sub->queue_bytes += message->size;
	conn->stats_dirty = true;
}

static FlMqttQueued
dequeue(FlMqttSubscriber *sub)
{
	FlMqttQueued item = sub->queue[sub->queue_head];

	sub->queue_head = (sub->queue_head + 1) % sub->queue_cap;
	sub->queue_len--;
	sub->queue_bytes -= item.message->size;
	return item;
}

static void
free_queued(FlMqttDoor *door, FlMqttQueued *item)
{
	fl_mqtt_message_release(door, item->message);
	if (item->ids)
		pfree(item->ids);
}

/* Sends what waits, as far as the window allows. */
void
fl_mqtt_drain_queue(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	while (sub->queue_len > 0 && window_is_open(conn))
	{
		FlMqttQueued item = dequeue(sub);

		FlMqttHow how = {.qos = item.qos, .retain = item.retain, .position = item.position};

		if (item.ids)
		{
			how.ids = item.ids->id;
			how.id_count = item.ids->count;
		}
		send_message(conn, item.message, &how, item.gap, 0);
		free_queued(conn->door, &item);
		conn->stats_dirty = true;
	}
	if (sub->queue_len == 0 && sub->rewound && !sub->lagging)
		fl_mqtt_forget_starts(conn);
	/* An idle subscriber holds no queue. */
	if (sub->queue_len == 0 && sub->queue_cap > FIRST_QUEUE)
	{
		pfree(sub->queue);
		sub->queue = NULL;
		sub->queue_cap = 0;
		sub->queue_head = 0;
	}
}

void
fl_mqtt_free_subscriber(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	if (sub == NULL)
		return;
	fl_mqtt_stop_lagging(conn);
	while (sub->queue_len > 0)
	{
		FlMqttQueued item = dequeue(sub);

		free_queued(conn->door, &item);
	}
	if (sub->queue)
		pfree(sub->queue);
	if (sub->inflight)
		pfree(sub->inflight);
	fl_mqtt_free_aliases(&sub->aliases);
	if (sub->restored)
		pfree(sub->restored);
	if (sub->exact)
		pfree(sub->exact);
	if (sub->gaps)
		pfree(sub->gaps);
	pfree(sub);
	conn->sub = NULL;
}

/*
 * QoS 0 waits in the output itself, already encoded.  How many messages that
 * is, is told by the size of this one: a count of each would cost more than it
 * is worth.
 */
static bool
may_pend(FlMqttConn *conn, const FlMqttMessage *message)
{
	Size size = message->publish.topic.len + message->publish.payload.len + 8;
	Size pending;

	if (has_little_pending(conn))
		return true;
	pending = fl_net_pending(&conn->net);
	return pending < conn->sub->max_bytes && pending / size < conn->sub->max_messages && !is_short(conn->door);
}

/* ---- one delivery ---- */

/*
 * At QoS 0 there is no room: what the log still has for one that reads by itself
 * waits there; else it is lost, and whoever wants to hear of that does.
 */
static FlMqttDelivery
drop_message(FlMqttConn *conn, const FlMqttMessage *message, const FlMqttHow *how)
{
	FlMqttSubscriber *sub = conn->sub;

	if (sub->lagging && message->feed >= 0)
		return FL_MQTT_NO_ROOM;
	sub->dropped++;
	conn->stats_dirty = true;
	FL_COUNT(FL_C_DROPPED_QOS0, 1);
	if (how->position != FL_MQTT_POSITION_OFF)
		fl_mqtt_note_gap(conn, message->feed, 1);
	if (!how->end_on_drop)
		return FL_MQTT_SENT;
	/* It reads from here on by itself, that is, nothing more. */
	sub->ending = true;
	return FL_MQTT_NO_ROOM;
}

/* May a QoS 0 message leave, or pend?  In front of the log there is no need to let much pend. */
static bool
has_room_for_qos0(FlMqttConn *conn, const FlMqttMessage *message)
{
	if (conn->sub->lagging && message->feed >= 0)
		return has_little_pending(conn);
	return may_pend(conn, message);
}

/*
 * *message becomes the shared copy when it has to be kept, so that the next
 * connection shares it.
 */
FlMqttDelivery
fl_mqtt_deliver(FlMqttConn *conn, FlMqttMessage **message, const FlMqttHow *how)
{
	FlMqttSubscriber *sub = conn->sub;

	if (how->qos == 0)
	{
		if (!has_room_for_qos0(conn, *message))
			return drop_message(conn, *message, how);
		send_message(conn, *message, how, how->position ? fl_mqtt_take_gap(conn, *message) : 0, 0);
		return FL_MQTT_SENT;
	}
	if (sub->queue_len == 0 && window_is_open(conn))
	{
		send_message(conn, *message, how, how->position ? fl_mqtt_take_gap(conn, *message) : 0, 0);
		return FL_MQTT_SENT;
	}
	if (is_short(conn->door) || !queue_has_room(sub, (*message)->publish.payload.len + sizeof(FlMqttMessage)))
		return FL_MQTT_NO_ROOM;
	if ((*message)->refs == 0)
		*message = fl_mqtt_message_share(conn->door, *message);
	else
		(*message)->refs++;
	enqueue(conn, *message, how, how->position ? fl_mqtt_take_gap(conn, *message) : 0);
	return FL_MQTT_QUEUED;
}

/* ---- deliveries of an earlier connection ---- */

bool
fl_mqtt_window_is_open(FlMqttConn *conn)
{
	return window_is_open(conn);
}

void
fl_mqtt_deliver_again(FlMqttConn *conn, FlMqttMessage *message, const FlMqttSent *sent, const FlMqttHow *how)
{
	send_message(conn, message, how, 0, sent->id);
}

void
fl_mqtt_release_again(FlMqttConn *conn, const FlMqttSent *sent)
{
	add_inflight(conn, sent->id, FL_MQTT_SENT_RELEASED, sent->feed, sent->log_offset);
	fl_mqtt_send_ack(conn, FL_MQTT_PUBREL, sent->id, 0);
}

/* ---- answers ---- */

static void
complete(FlMqttConn *conn, int i)
{
	FlMqttSubscriber *sub = conn->sub;

	sub->inflight[i] = sub->inflight[--sub->inflight_count];
	fl_mqtt_drain_queue(conn);
}

/*
 * One that answers nothing belongs to a delivery that is done: a PUBREC is
 * answered, so that its client gets rid of it, all others say nothing more.
 */
static void
answer_unknown(FlMqttConn *conn, FlMqttType type, const FlMqttAck *ack)
{
	if (type == FL_MQTT_PUBREC && ack->reason < 0x80)
		fl_mqtt_send_ack(conn, FL_MQTT_PUBREL, ack->packet_id,
						 conn->version == FL_MQTT_5_0 ? FL_MQTT_RC_PACKET_IDENTIFIER_NOT_FOUND : 0);
}

/* MQTT-4.3.3-4: a PUBREL for every PUBREC, also a repeated one (case O51). */
static void
take_pubrec(FlMqttConn *conn, int i, const FlMqttAck *ack)
{
	/* The client does not want it: the delivery is over (MQTT-4.3.3-4). */
	if (ack->reason >= 0x80 && conn->sub->inflight[i].state == FL_MQTT_SENT_QOS2)
	{
		complete(conn, i);
		return;
	}
	conn->sub->inflight[i].state = FL_MQTT_SENT_RELEASED;
	fl_mqtt_send_ack(conn, FL_MQTT_PUBREL, ack->packet_id, 0);
}

void
fl_mqtt_handle_answer(FlMqttConn *conn, FlMqttType type, const FlMqttAck *ack)
{
	int i = conn->sub ? find_inflight(conn->sub, ack->packet_id) : -1;

	if (i < 0)
	{
		answer_unknown(conn, type, ack);
		return;
	}
	switch ((FlMqttSentState) conn->sub->inflight[i].state)
	{
		case FL_MQTT_SENT_QOS1:
			if (type == FL_MQTT_PUBACK)
				complete(conn, i);
			else
				fl_mqtt_out_of_order(conn, "QoS 2 answer to a QoS 1 delivery");
			break;
		case FL_MQTT_SENT_QOS2:
			if (type == FL_MQTT_PUBREC)
				take_pubrec(conn, i, ack);
			else
				fl_mqtt_out_of_order(conn, "QoS 2 delivery that is not answered by PUBREC");
			break;
		case FL_MQTT_SENT_RELEASED:
			if (type == FL_MQTT_PUBREC)
				take_pubrec(conn, i, ack);
			else if (type == FL_MQTT_PUBCOMP)
				complete(conn, i);
			else
				fl_mqtt_out_of_order(conn, "PUBACK for a QoS 2 delivery");
			break;
	}
}
