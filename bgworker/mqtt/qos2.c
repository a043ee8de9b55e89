/*
 * qos2.c
 *		Messages that a client sends again: which of its packet identifiers were
 *		received, so that a message is stored once.
 *
 *	PUBLISH ──► PENDING ──durable──► STORED ──PUBREL──► RELEASING ──durable──► gone
 *	            │                      ▲ again: PUBREC once more       PUBCOMP
 *	            └─ refused: gone       └─ RESTORED: of an earlier connection
 *
 * QoS 2: an identifier stands for one message from its first PUBLISH to its
 * PUBREL, whatever else a PUBLISH with the same identifier says (MQTT-4.3.3-10).
 * PUBREC leaves when the record is durable and not before (MQTT-4.3.3-8,
 * REQUIREMENTS M4), PUBCOMP when the release is: a connection without a session
 * has nothing to write, its identifiers die with it.
 *
 * Of an earlier connection, other content without DUP is a new message: the client
 * has lost its memory, and what it says now must not be swallowed.  QoS 1 is
 * remembered over connections only; DUP and the same content are answered
 * without a second record, anything else is a new reading.
 *
 * Memory: a client of MQTT 5 may have as many as its receive maximum, which
 * counts down to PUBCOMP (MQTT-3.3.4-7); older ones fleetlog.max_unreleased.
 * Identifiers of the client and of the server are two spaces (case O62).
 *
 * Called by publish.c, connection.c and session.c; it routes nothing.
 */
#include "postgres.h"

#include "mqtt.h"
#include "packet.h"

#define FIRST_RECEIVED 4

static FlMqttReceivedId *
find_received(FlMqttConn *conn, uint16 packet_id)
{
	FlMqttReceived *received = conn->received;

	for (int i = 0; received != NULL && i < received->count; i++)
		if (received->ids[i].id == packet_id)
			return &received->ids[i];
	return NULL;
}

static void
remove_received(FlMqttConn *conn, FlMqttReceivedId *id)
{
	FlMqttReceived *received = conn->received;

	*id = received->ids[--received->count];
	/* Who has nothing under way holds nothing. */
	if (received->count == 0)
		fl_mqtt_free_received(conn);
}

void
fl_mqtt_free_received(FlMqttConn *conn)
{
	if (conn->received != NULL)
		pfree(conn->received);
	conn->received = NULL;
}

static void
resize_received(FlMqttConn *conn, int cap)
{
	Size size = offsetof(FlMqttReceived, ids) + sizeof(FlMqttReceivedId) * (Size) cap;

	if (conn->received == NULL)
	{
		conn->received = MemoryContextAlloc(conn->door->context, size);
		conn->received->count = 0;
	}
	else
		conn->received = repalloc(conn->received, size);
	conn->received->cap = (uint16) cap;
}

/*
 * Room for one more.  It comes before the message is handed on, because it may
 * fail.  False: the connection has been ended.
 */
bool
fl_mqtt_reserve_received(FlMqttConn *conn)
{
	FlMqttReceived *received = conn->received;

	if (received != NULL && conn->version != FL_MQTT_5_0 && received->count >= fl_mqtt_max_unreleased)
	{
		fl_mqtt_disconnect(conn, FL_MQTT_RC_QUOTA_EXCEEDED, "too many QoS 2 messages are not released");
		return false;
	}
	if (received == NULL)
		resize_received(conn, FIRST_RECEIVED);
	else if (received->count == received->cap)
		resize_received(conn, Min(received->cap * 2, PG_UINT16_MAX));
	return true;
}

/* The message has been handed on, and is counted as unacknowledged. */
void
fl_mqtt_add_received(FlMqttConn *conn, uint16 packet_id)
{
	FlMqttReceivedId *id = &conn->received->ids[conn->received->count++];

	memset(id, 0, sizeof(*id));
	id->id = packet_id;
	id->state = FL_MQTT_RECEIVED_PENDING;
	id->counted = true;
}

/* What the session remembers of earlier connections. */
void
fl_mqtt_restore_received(FlMqttConn *conn, const FlSessionItem *items, int n)
{
	fl_mqtt_free_received(conn);
	if (n == 0)
		return;
	resize_received(conn, Min(n + FIRST_RECEIVED, PG_UINT16_MAX));
	for (int i = 0; i < n && i < conn->received->cap; i++)
	{
		FlMqttReceivedId *id = &conn->received->ids[conn->received->count++];

		id->id = items[i].packet_id;
		id->state = FL_MQTT_RECEIVED_RESTORED;
		id->counted = false;
		id->from = items[i];
	}
}

/* ---- a PUBLISH ---- */

/* A stream that is gone has nothing left that could be lost. */
static bool
is_durable(const FlSessionItem *item)
{
	FlShard *shard = fl_shard_find(item->stream, item->shard);

	return shard == NULL || fl_shard_durable_tail(shard) > item->log_offset;
}

static FlMqttRepeat
check_restored(FlMqttConn *conn, FlMqttReceivedId *id, const FlMqttPublish *publish)
{
	bool same = id->from.qos == publish->qos && id->from.hash == fl_mqtt_content_hash(publish);

	/* At QoS 2 what is marked as sent again is what it was, however it looks now. */
	if (publish->qos == 2 && id->from.qos == 2 ? !same && !publish->dup : !same || !publish->dup)
	{
		remove_received(conn, id);
		return FL_MQTT_NEW;
	}
	if (!is_durable(&id->from))
		return FL_MQTT_NOT_YET;
	if (publish->qos == 1)
	{
		fl_mqtt_send_ack(conn, FL_MQTT_PUBACK, publish->packet_id, 0);
		return FL_MQTT_REPEATED;
	}
	/* In this connection it counts from here (MQTT-4.9). */
	if (!id->counted && conn->version == FL_MQTT_5_0)
	{
		id->counted = true;
		conn->unacked++;
	}
	fl_mqtt_send_ack(conn, FL_MQTT_PUBREC, publish->packet_id, 0);
	return FL_MQTT_REPEATED;
}

/* Has this message been received before?  Then it is answered here. */
FlMqttRepeat
fl_mqtt_check_repeat(FlMqttConn *conn, const FlMqttPublish *publish)
{
	FlMqttReceivedId *id = publish->qos > 0 ? find_received(conn, publish->packet_id) : NULL;

	if (id == NULL)
		return FL_MQTT_NEW;
	switch ((FlMqttReceivedState) id->state)
	{
		case FL_MQTT_RECEIVED_PENDING:
		case FL_MQTT_RECEIVED_RELEASING:
			/* Its answer is on the way. */
			break;
		case FL_MQTT_RECEIVED_STORED:
			if (publish->qos == 2)
				fl_mqtt_send_ack(conn, FL_MQTT_PUBREC, publish->packet_id, 0);
			break;
		case FL_MQTT_RECEIVED_RESTORED:
			return check_restored(conn, id, publish);
	}
	/* A client that uses an identifier for QoS 1 that QoS 2 still holds breaks the protocol (MQTT-2.2.1-3). */
	if (publish->qos == 1)
		fl_mqtt_out_of_order(conn, "packet identifier of a QoS 2 message that is not released");
	return FL_MQTT_REPEATED;
}

/* The record is durable: the one place from which a PUBREC of success leaves first. */
void
fl_mqtt_received_stored(FlMqttConn *conn, uint16 packet_id)
{
	FlMqttReceivedId *id = find_received(conn, packet_id);

	if (id == NULL)
		return;
	id->state = FL_MQTT_RECEIVED_STORED;
	fl_mqtt_send_ack(conn, FL_MQTT_PUBREC, packet_id, 0);
}

/* The message was refused: its identifier is free (MQTT-4.3.3-9). */
void
fl_mqtt_received_refused(FlMqttConn *conn, uint16 packet_id)
{
	FlMqttReceivedId *id = find_received(conn, packet_id);

	if (id != NULL)
		remove_received(conn, id);
}

/* ---- PUBREL ---- */

static void
complete(FlMqttConn *conn, FlMqttReceivedId *id)
{
	uint16 packet_id = id->id;
	bool counted = id->counted;

	remove_received(conn, id);
	fl_mqtt_send_ack(conn, FL_MQTT_PUBCOMP, packet_id, 0);
	/* Older clients are counted up to PUBREC only: they send PUBREL when they like. */
	if (counted && conn->version == FL_MQTT_5_0)
		fl_mqtt_one_less_unacked(conn);
}

/*
 * MQTT-4.3.3-11.  One that names nothing, or what was not answered yet, is
 * answered all the same, so that a client that remembers an old flow gets rid
 * of it (case O-H).
 */
bool
fl_mqtt_handle_pubrel(FlMqttConn *conn, const FlMqttAck *ack)
{
	FlMqttReceivedId *id = find_received(conn, ack->packet_id);

	if (id == NULL || id->state == FL_MQTT_RECEIVED_PENDING ||
		(id->state == FL_MQTT_RECEIVED_RESTORED && id->from.qos != 2))
	{
		fl_mqtt_send_ack(conn, FL_MQTT_PUBCOMP, ack->packet_id, fl_mqtt_unknown_id(conn));
		return true;
	}
	/* Again: PUBCOMP is on the way. */
	if (id->state == FL_MQTT_RECEIVED_RELEASING)
		return true;
	if (conn->session.number == 0)
	{
		complete(conn, id);
		return true;
	}
	if (!fl_mqtt_write_release(conn, ack->packet_id))
	{
		fl_mqtt_wait_for_room(conn);
		return false;
	}
	id->state = FL_MQTT_RECEIVED_RELEASING;
	return true;
}

/* The release is durable: the one place from which a PUBCOMP of a session leaves. */
void
fl_mqtt_released(FlMqttConn *conn, uint16 packet_id, FlError err)
{
	FlMqttReceivedId *id = find_received(conn, packet_id);

	if (id == NULL || id->state != FL_MQTT_RECEIVED_RELEASING)
		return;
	if (err == FL_ERR_NONE)
		complete(conn, id);
	else
		/* The client releases it again when it comes back. */
		fl_mqtt_disconnect(conn, FL_MQTT_RC_UNSPECIFIED_ERROR, "the log could not take a release");
}
