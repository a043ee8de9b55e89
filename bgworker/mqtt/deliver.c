/*
 * deliver.c
 *		Messages to one subscriber: packet identifiers, the window, the queue.
 *
 * QoS 0 goes out at once or, when too much is unsent, nowhere: it is dropped and
 * counted.  QoS 1 and 2 go out while the window has room and nothing waits
 * before them; else they wait in a bounded queue of references; when that is full
 * too the caller is told and the connection reads the log itself (catchup.c).
 *
 * At QoS 2 a delivery of a session is in the journal before it leaves, and so is its
 * PUBREC before PUBREL: a crash must not make the server forget an identifier that
 * the client holds.  Such a delivery waits at the head of the queue meanwhile, with all
 * that came in the same turn:
 *
 *	queued ──► WRITING ──durable, sent──► QOS2 ──PUBREC──► RELEASING ──durable──► RELEASED ──PUBCOMP──► gone
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
#define MAX_CHECKPOINT_WITH (64 * 1024) /* bytes of a checkpoint that goes with deliveries */
#define MAX_WRITING 500 /* deliveries that are written at once */
#define MAX_RELEASED_AGAIN 500 /* releases of earlier connections beside the window */

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

static FlMqttSent *
add_inflight(FlMqttConn *conn, uint16 packet_id, FlMqttSentState state, const FlMqttMessage *message, bool retain)
{
	FlMqttSubscriber *sub = conn->sub;
	FlMqttSent *sent;

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
	sent = &sub->inflight[sub->inflight_count++];
	*sent = (FlMqttSent){.id = packet_id, .state = (uint8) state, .retain = retain, .feed = -1};
	if (message != NULL)
	{
		sent->feed = message->feed;
		sent->log_offset = message->log_offset;
		sent->aside = message->aside;
		sent->place = message->place;
		sent->generation = message->generation;
	}
	return sent;
}

static uint16
take_packet_id(FlMqttConn *conn, FlMqttSentState state, const FlMqttMessage *message, bool retain)
{
	FlMqttSubscriber *sub = conn->sub;

	do
	{
		sub->next_packet_id = sub->next_packet_id == PG_UINT16_MAX ? 1 : sub->next_packet_id + 1;
	} while (find_inflight(sub, sub->next_packet_id) >= 0 || is_restored(sub, sub->next_packet_id));
	(void) add_inflight(conn, sub->next_packet_id, state, message, retain);
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

/*
 * A quota begins anew with each connection and is for what is sent as PUBLISH (4.9):
 * releases of an earlier one take nothing of it, or a client that is cut off at each
 * PUBREC would be given nothing more (case O19).  Up to a limit: who never completes
 * anything must not gather identifiers without end.
 */
static bool
has_quota(const FlMqttSubscriber *sub)
{
	int used = sub->inflight_count + sub->restored_count - sub->restored_next;

	return used < PG_UINT16_MAX && sub->inflight_count - Min(sub->released_again, MAX_RELEASED_AGAIN) < sub->window;
}

static bool
window_is_open(FlMqttConn *conn)
{
	return has_quota(conn->sub) && has_little_pending(conn);
}

bool
fl_mqtt_has_room(FlMqttConn *conn, uint8 qos)
{
	if (qos == 0)
		return has_little_pending(conn);
	return conn->sub->queue_len == 0 && window_is_open(conn) && !is_short(conn->door);
}

/*
 * Counts a message's expiry down to what is left (MQTT-3.3.2-6).  False when
 * nothing is left (MQTT-3.3.2-5), but for one whose delivery has begun: that is
 * completed, however late (MQTT-4.3.3-7, MQTT-4.4.0-1, case O61).  A command is not:
 * none reaches its device after its time (C3).
 */
static bool
set_expiry(FlMqttMessage *message, bool begun)
{
	TimestampTz left;

	if (message->expires == 0)
		return true;
	left = message->expires - fl_wall_now();
	if (left <= 0 && (!begun || message->command))
		return false;
	left = Max(left, 0);
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
	FlMqttSentState state = publish->qos == 2 ? FL_MQTT_SENT_QOS2 : FL_MQTT_SENT_QOS1;
	uint16 before = conn->sub->inflight_count;
	bool written;

	if (publish->dup)
		(void) add_inflight(conn, publish->packet_id, state, message, publish->retain);
	else if (publish->qos > 0 && publish->packet_id == 0)
		publish->packet_id = take_packet_id(conn, state, message, publish->retain);
	fl_mqtt_encode_publish(out, (FlMqttVersion) conn->version, publish);
	written = !out->failed;
	if (!written)
	{
		conn->sub->inflight_count = before;
		FL_COUNT(FL_C_ERRORS, 1);
	}
	else
	{
		fl_net_write(&conn->net, out->data, out->len);
		conn->packets_out++;
		FL_COUNT(FL_C_PACKETS_OUT, 1);
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
 * False: it is too large for the client, which has not seen it nor its alias, or not written.
 */
static bool
write_with_alias(FlMqttConn *conn, FlMqttMessage *message)
{
	FlMqttPublish *publish = &message->publish;
	FlMqttBytes topic = publish->topic;
	bool known;
	int alias = find_alias(conn, topic, &known);
	bool fitting;
	bool written;

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
	if (!fitting)
		FL_COUNT(FL_C_DROPPED_TOO_LARGE, 1);
	written = fitting && write_publish(conn, message);
	if (written && alias > 0 && !known)
		keep_alias(conn, topic, alias);
	publish->props.present &= ~(1u << FL_MQTT_P_TOPIC_ALIAS);
	publish->topic = topic;
	return written;
}

/*
 * Writes one delivery, under an identifier that it has already, or a new one (0); gap: how
 * many before it were lost.  What is larger than the client allows vanishes and takes no
 * packet identifier (MQTT-3.1.2-25, cases O21 and O23); so does what has expired: false.
 * The gap is told by the next one then.
 */
static bool
send_message(FlMqttConn *conn, FlMqttMessage *message, const FlMqttHow *how, uint32 gap, uint16 packet_id, bool again)
{
	FlMqttPublish *publish = &message->publish;
	uint8 published_qos = publish->qos;
	bool published_retain = publish->retain;
	FlMqttBytes payload = publish->payload;
	const FlMqttUserProperty *users = publish->props.users;
	uint32 user_count = publish->props.user_count;
	bool tells = how->position != FL_MQTT_POSITION_OFF && conn->version == FL_MQTT_5_0;
	bool sent = false;

	if (!set_expiry(message, again))
	{
		/* Of one that was sent before nobody knows. */
		if (message->command && !again)
			fl_mqtt_note_expired(conn, message);
		fl_mqtt_note_gap(conn, message->feed, gap);
		return false;
	}
	publish->qos = how->qos;
	publish->retain = how->retain;
	publish->packet_id = packet_id;
	publish->dup = again;
	publish->props.subscription_ids = how->ids;
	publish->props.subscription_id_count = how->id_count;
	if (message->command && conn->version != FL_MQTT_5_0)
		publish->payload = fl_mqtt_command_envelope(conn->door, message);
	if (tells)
		fl_mqtt_tell_position(conn->door, message, (FlMqttPositionWish) how->position, gap);
	sent = write_with_alias(conn, message);
	if (tells)
		fl_mqtt_untell_position(message, users, user_count);
	if (!sent)
		fl_mqtt_note_gap(conn, message->feed, gap);
	else if (message->mount != NULL)
	{
		pg_atomic_fetch_add_u64(&message->mount->messages_out, 1);
		pg_atomic_fetch_add_u64(&message->mount->bytes_out, publish->payload.len);
	}
	publish->payload = payload;
	publish->qos = published_qos;
	publish->retain = published_retain;
	publish->dup = false;
	publish->props.subscription_ids = NULL;
	publish->props.subscription_id_count = 0;
	return sent;
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
	place->packet_id = 0;
	place->no_mark = message->aside;
	place->shared = how->shared;
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

static FlMqttQueued *
queued(FlMqttSubscriber *sub, uint32 i)
{
	return &sub->queue[(sub->queue_head + i) % sub->queue_cap];
}

/* False: it has expired, or is too large. */
static bool
send_first(FlMqttConn *conn)
{
	FlMqttQueued item = dequeue(conn->sub);
	FlMqttHow how = {.qos = item.qos, .retain = item.retain, .position = item.position};
	bool sent;

	if (item.ids)
	{
		how.ids = item.ids->id;
		how.id_count = item.ids->count;
	}
	sent = send_message(conn, item.message, &how, item.gap, item.packet_id, false);
	free_queued(conn->door, &item);
	conn->stats_dirty = true;
	return sent;
}

/* ---- deliveries that are written before they leave ---- */

static bool
is_written_ahead(FlMqttConn *conn, uint8 qos)
{
	return qos == 2 && conn->session.number != 0;
}

/* Once a turn is enough: what came in one turn is written together. */
static void
drain_later(FlMqttConn *conn)
{
	if (conn->sub->draining)
		return;
	conn->sub->draining = true;
	dlist_push_tail(&conn->door->draining, &conn->sub->drain_node);
}

static void
drain_no_more(FlMqttSubscriber *sub)
{
	if (sub->draining)
		dlist_delete(&sub->drain_node);
	sub->draining = false;
}

void
fl_mqtt_drain_waiting(FlMqttDoor *door)
{
	dlist_node *last;

	if (dlist_is_empty(&door->draining))
		return;
	last = dlist_tail_node(&door->draining);
	for (;;)
	{
		dlist_node *node = dlist_head_node(&door->draining);
		FlMqttSubscriber *sub = dlist_container(FlMqttSubscriber, drain_node, node);

		drain_no_more(sub);
		door->current = sub->conn;
		if (fl_net_is_open(&sub->conn->net))
			fl_mqtt_drain_queue(sub->conn);
		door->current = NULL;
		/* Whoever found no room is behind it. */
		if (node == last)
			return;
	}
}

/*
 * Nor for what was in the queue when the session looked back: where its filters go on
 * after a crash is said anew with such deliveries, or they would come twice.  Where
 * that is too much, the deliveries alone are written.
 */
static void
checkpoint_with(FlMqttConn *conn, FlBuf *out)
{
	Size len = out->len;
	uint8 *deliveries = MemoryContextAlloc(conn->door->turn, len);

	memcpy(deliveries, out->data, len);
	fl_buf_reset(out);
	fl_mqtt_encode_checkpoint(conn, out, false, NULL);
	if (!out->failed && out->len <= MAX_CHECKPOINT_WITH)
		return;
	fl_buf_reset(out);
	fl_write_bytes(out, deliveries, len);
}

/* The first of those that wait are given identifiers, and written.  False: not now. */
static bool
write_ahead(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;
	FlBuf *out = &conn->door->out;
	uint16 before = sub->inflight_count;
	bool *of_groups = NULL; /* by feed */
	bool unmarked = false;
	uint32 n = 0;

	/* The session may be about to look back (history.c): no mark may be moved before it does. */
	if (conn->session_writing || conn->session_written)
	{
		drain_later(conn);
		return false;
	}
	fl_buf_reset(out);
	for (; n < sub->queue_len && n < MAX_WRITING && has_quota(sub); n++)
	{
		FlMqttQueued *item = queued(sub, n);

		if (item->qos != 2)
			break;
		item->packet_id = take_packet_id(conn, FL_MQTT_SENT_WRITING, item->message, item->retain);
		sub->inflight[sub->inflight_count - 1].aside = item->no_mark;
		sub->inflight[sub->inflight_count - 1].shared = item->shared;
		fl_mqtt_encode_sent(conn, out, &sub->inflight[sub->inflight_count - 1]);
		unmarked = unmarked || (item->no_mark && !item->message->aside);
		if (!item->shared || item->message->feed < 0)
			continue;
		if (of_groups == NULL)
			of_groups = MemoryContextAllocZero(conn->door->turn, sizeof(bool) * (Size) conn->door->feed_count);
		of_groups[item->message->feed] = true;
	}
	/* No mark stands for what groups give. */
	if (of_groups != NULL)
		fl_mqtt_encode_share_starts(conn, out, of_groups);
	sub->writing = n;
	if (unmarked)
		checkpoint_with(conn, out);
	if (fl_mqtt_write_events(conn, FL_MQTT_COOKIE_SENT, true) != FL_ERR_NONE)
	{
		sub->writing = 0;
		sub->inflight_count = before;
		drain_later(conn);
		return false;
	}
	return true;
}

/* Nobody waits for this: what is not written is done again after a crash, and answered as before. */
static void
note_done(FlMqttConn *conn, uint16 packet_id)
{
	if (conn->session.number != 0)
		(void) fl_mqtt_write_answer(conn, FL_SESSION_SENT_DONE, packet_id, 0);
}

static void
send_written(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;
	uint16 packet_id = queued(sub, 0)->packet_id;
	int i;

	sub->written--;
	if (send_first(conn))
	{
		i = find_inflight(sub, packet_id);
		sub->inflight[i].state = FL_MQTT_SENT_QOS2;
		return;
	}
	i = find_inflight(sub, packet_id);
	sub->inflight[i] = sub->inflight[--sub->inflight_count];
	note_done(conn, packet_id);
}

void
fl_mqtt_sent_written(FlMqttConn *conn, FlError err)
{
	FlMqttSubscriber *sub = conn->sub;

	if (err != FL_ERR_NONE)
	{
		/* Whether or not they were, the next connection begins with what was. */
		fl_mqtt_disconnect(conn, FL_MQTT_RC_UNSPECIFIED_ERROR, "the log could not take deliveries");
		return;
	}
	sub->written += sub->writing;
	sub->writing = 0;
	fl_mqtt_drain_queue(conn);
}

/*
 * What is in the queue without a record of the feed (a retained value, a group's message)
 * would be forgotten with the connection: it becomes a delivery that is under way.
 */
void
fl_mqtt_number_queued(FlMqttConn *conn, uint16 max)
{
	FlMqttSubscriber *sub = conn->sub;

	for (uint32 i = sub->writing + sub->written; i < sub->queue_len && sub->inflight_count < max; i++)
	{
		FlMqttQueued *item = queued(sub, i);

		if (!item->no_mark || item->message->feed < 0)
			continue;
		item->packet_id =
			take_packet_id(conn, item->qos == 2 ? FL_MQTT_SENT_WRITING : FL_MQTT_SENT_QOS1, item->message, item->retain);
		sub->inflight[sub->inflight_count - 1].aside = true;
		sub->inflight[sub->inflight_count - 1].shared = item->shared;
	}
}

void
fl_mqtt_leave_marks(FlMqttConn *conn, int feed, int64 from)
{
	FlMqttSubscriber *sub = conn->sub;

	for (int i = 0; i < sub->inflight_count; i++)
		if (sub->inflight[i].feed == feed && sub->inflight[i].log_offset >= from)
			sub->inflight[i].aside = true;
	for (uint32 i = 0; i < sub->queue_len; i++)
	{
		FlMqttQueued *item = queued(sub, i);

		if (item->message->feed == feed && item->message->log_offset >= from)
			item->no_mark = true;
	}
}

/* Sends what waits, as far as the window allows. */
void
fl_mqtt_drain_queue(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	/* Where it stands has been written, for good. */
	if (conn->door->stopping)
		return;
	/* Nobody overtakes what is being written. */
	while (sub->queue_len > 0 && sub->writing == 0)
	{
		if (sub->written > 0 && has_little_pending(conn))
			send_written(conn);
		else if (sub->written > 0 || !window_is_open(conn))
			break;
		else if (!is_written_ahead(conn, queued(sub, 0)->qos))
			(void) send_first(conn);
		else if (!write_ahead(conn))
			break;
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
	drain_no_more(sub);
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
		(void) send_message(conn, *message, how, how->position ? fl_mqtt_take_gap(conn, *message) : 0, 0, false);
		return FL_MQTT_SENT;
	}
	if (sub->queue_len == 0 && !is_written_ahead(conn, how->qos) && window_is_open(conn))
	{
		(void) send_message(conn, *message, how, how->position ? fl_mqtt_take_gap(conn, *message) : 0, 0, false);
		return FL_MQTT_SENT;
	}
	if (is_short(conn->door) || !queue_has_room(sub, (*message)->publish.payload.len + sizeof(FlMqttMessage)))
		return FL_MQTT_NO_ROOM;
	if ((*message)->refs == 0)
		*message = fl_mqtt_message_share(conn->door, *message);
	else
		(*message)->refs++;
	enqueue(conn, *message, how, how->position ? fl_mqtt_take_gap(conn, *message) : 0);
	if (is_written_ahead(conn, how->qos))
		drain_later(conn);
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
	if (send_message(conn, message, how, 0, sent->id, true))
	{
		FlMqttSent *now = &conn->sub->inflight[conn->sub->inflight_count - 1];

		now->place = sent->place;
		now->generation = sent->generation;
		now->shared = sent->shared;
		now->noted = true;
	}
	else if (sent->state == FL_MQTT_SENT_QOS2)
		/* The client may have it, and hold its identifier. */
		fl_mqtt_release_again(conn, sent);
}

void
fl_mqtt_release_again(FlMqttConn *conn, const FlMqttSent *sent)
{
	FlMqttSent *now = add_inflight(conn, sent->id, FL_MQTT_SENT_RELEASED, NULL, sent->retain);

	now->feed = sent->feed;
	now->log_offset = sent->log_offset;
	now->aside = sent->aside;
	now->shared = sent->shared;
	now->released_again = true;
	conn->sub->released_again++;
	fl_mqtt_send_ack(conn, FL_MQTT_PUBREL, sent->id, 0);
}

/* ---- answers ---- */

static void
complete(FlMqttConn *conn, int i)
{
	FlMqttSubscriber *sub = conn->sub;
	FlMqttSent sent = sub->inflight[i];

	sub->inflight[i] = sub->inflight[--sub->inflight_count];
	if (sent.released_again)
		sub->released_again--;
	if (sent.state != FL_MQTT_SENT_QOS1)
		note_done(conn, sent.id);
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
		fl_mqtt_send_ack(conn, FL_MQTT_PUBREL, ack->packet_id, fl_mqtt_unknown_id(conn));
}

/*
 * MQTT-4.3.3-4: a PUBREL for every PUBREC, also a repeated one (case O51).  After PUBREL
 * the client forgets the identifier, so the delivery must never be sent again: of a
 * session this is durable before.  False: it cannot be written now.
 */
static bool
take_pubrec(FlMqttConn *conn, int i, const FlMqttAck *ack)
{
	FlMqttSent *sent = &conn->sub->inflight[i];

	/* The client does not want it: the delivery is over (MQTT-4.3.3-4). */
	if (ack->reason >= 0x80 && sent->state == FL_MQTT_SENT_QOS2)
	{
		complete(conn, i);
		return true;
	}
	if (sent->state == FL_MQTT_SENT_QOS2 && conn->session.number != 0)
	{
		if (!fl_mqtt_write_answer(conn, FL_SESSION_SENT_RELEASED, ack->packet_id,
								  FL_MQTT_COOKIE_SENT_RELEASED | ack->packet_id))
		{
			fl_mqtt_wait_for_room(conn);
			return false;
		}
		sent->state = FL_MQTT_SENT_RELEASING;
		return true;
	}
	/* Where it is being written its PUBREL is on the way. */
	if (sent->state == FL_MQTT_SENT_RELEASING)
		return true;
	sent->state = FL_MQTT_SENT_RELEASED;
	fl_mqtt_send_ack(conn, FL_MQTT_PUBREL, ack->packet_id, 0);
	return true;
}

void
fl_mqtt_sent_released(FlMqttConn *conn, uint16 packet_id, FlError err)
{
	int i = conn->sub ? find_inflight(conn->sub, packet_id) : -1;

	if (i < 0 || conn->sub->inflight[i].state != FL_MQTT_SENT_RELEASING)
		return;
	if (err != FL_ERR_NONE)
	{
		/* The client answers again when it comes back. */
		fl_mqtt_disconnect(conn, FL_MQTT_RC_UNSPECIFIED_ERROR, "the log could not take an answer");
		return;
	}
	conn->sub->inflight[i].state = FL_MQTT_SENT_RELEASED;
	fl_mqtt_send_ack(conn, FL_MQTT_PUBREL, packet_id, 0);
}

bool
fl_mqtt_handle_answer(FlMqttConn *conn, FlMqttType type, const FlMqttAck *ack)
{
	int i = conn->sub ? find_inflight(conn->sub, ack->packet_id) : -1;

	/* What has not left has no answer: it is one to an earlier delivery of that identifier. */
	if (i < 0 || conn->sub->inflight[i].state == FL_MQTT_SENT_WRITING)
	{
		answer_unknown(conn, type, ack);
		return true;
	}
	switch ((FlMqttSentState) conn->sub->inflight[i].state)
	{
		case FL_MQTT_SENT_QOS1:
			if (type == FL_MQTT_PUBACK)
			{
				if (!fl_mqtt_note_delivered(conn, &conn->sub->inflight[i], ack->reason))
				{
					fl_mqtt_wait_for_room(conn);
					return false;
				}
				complete(conn, i);
			}
			else
				fl_mqtt_out_of_order(conn, "QoS 2 answer to a QoS 1 delivery");
			break;
		case FL_MQTT_SENT_WRITING:
			break;
		case FL_MQTT_SENT_QOS2:
		case FL_MQTT_SENT_RELEASING:
			if (type == FL_MQTT_PUBREC)
				return take_pubrec(conn, i, ack);
			else
				fl_mqtt_out_of_order(conn, "QoS 2 delivery that is not answered by PUBREC");
			break;
		case FL_MQTT_SENT_RELEASED:
			if (type == FL_MQTT_PUBREC)
				return take_pubrec(conn, i, ack);
			else if (type == FL_MQTT_PUBCOMP)
				complete(conn, i);
			else
				fl_mqtt_out_of_order(conn, "PUBACK for a QoS 2 delivery");
			break;
	}
	return true;
}
