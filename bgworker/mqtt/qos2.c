/*
 * qos2.c
 *		QoS 2 from a client: which of its packet identifiers were received and
 *		not released yet, so that a message sent again is stored once.
 *
 *	PUBLISH ──► PENDING ──durable──► STORED ──PUBREL──► gone
 *	            │  ▲ again: nothing    │  ▲ again: PUBREC once more
 *	            └─ refused: PUBREC with a reason, gone
 *
 * An identifier stands for one message from its first PUBLISH to its PUBREL,
 * whatever else a PUBLISH with the same identifier says (MQTT-4.3.3-10).  PUBREC
 * leaves when the record is durable and not before (MQTT-4.3.3-8, REQUIREMENTS
 * M4): fl_mqtt_ingest_done calls fl_mqtt_received_stored.
 *
 * Memory: a client of MQTT 5 may have as many as its receive maximum, which
 * counts down to PUBCOMP (MQTT-3.3.4-7); older ones fleetlog.max_unreleased.
 * Identifiers of the client and of the server are two spaces (case O62).
 *
 * Called by publish.c and connection.c; it sends answers and routes nothing.
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

static Size
received_size(int cap)
{
	return offsetof(FlMqttReceived, ids) + sizeof(FlMqttReceivedId) * (Size) cap;
}

/*
 * Room for one more.  It comes before the message is handed on, because it may
 * fail.  False: the connection has been ended.
 */
bool
fl_mqtt_reserve_received(FlMqttConn *conn)
{
	FlMqttReceived *received = conn->received;
	int cap = received == NULL ? 0 : received->cap;

	if (received != NULL && conn->version != FL_MQTT_5_0 && received->count >= fl_mqtt_max_unreleased)
	{
		fl_mqtt_disconnect(conn, FL_MQTT_RC_QUOTA_EXCEEDED, "too many QoS 2 messages are not released");
		return false;
	}
	if (received != NULL && received->count < cap)
		return true;
	cap = cap == 0 ? FIRST_RECEIVED : Min(cap * 2, PG_UINT16_MAX);
	if (received == NULL)
	{
		conn->received = MemoryContextAlloc(conn->door->context, received_size(cap));
		conn->received->count = 0;
	}
	else
		conn->received = repalloc(received, received_size(cap));
	conn->received->cap = (uint16) cap;
	return true;
}

/* The message has been handed on. */
void
fl_mqtt_add_received(FlMqttConn *conn, uint16 packet_id)
{
	FlMqttReceivedId *id = &conn->received->ids[conn->received->count++];

	id->id = packet_id;
	id->state = FL_MQTT_RECEIVED_PENDING;
}

/* A PUBLISH whose identifier is in use has been dealt with: true. */
bool
fl_mqtt_is_received(FlMqttConn *conn, const FlMqttPublish *publish)
{
	FlMqttReceivedId *id = find_received(conn, publish->packet_id);

	if (id == NULL)
		return false;
	switch ((FlMqttReceivedState) id->state)
	{
		case FL_MQTT_RECEIVED_PENDING:
			/* Its answer is on the way. */
			break;
		case FL_MQTT_RECEIVED_STORED:
			fl_mqtt_send_ack(conn, FL_MQTT_PUBREC, publish->packet_id, 0);
			break;
	}
	return true;
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

/*
 * MQTT-4.3.3-11.  One that names nothing, or what was not answered yet, is
 * answered all the same, so that a client that remembers an old flow gets rid
 * of it (case O-H).
 */
void
fl_mqtt_handle_pubrel(FlMqttConn *conn, const FlMqttAck *ack)
{
	FlMqttReceivedId *id = find_received(conn, ack->packet_id);

	if (id == NULL || id->state == FL_MQTT_RECEIVED_PENDING)
	{
		fl_mqtt_send_ack(conn, FL_MQTT_PUBCOMP, ack->packet_id,
						 conn->version == FL_MQTT_5_0 ? FL_MQTT_RC_PACKET_IDENTIFIER_NOT_FOUND : 0);
		return;
	}
	remove_received(conn, id);
	fl_mqtt_send_ack(conn, FL_MQTT_PUBCOMP, ack->packet_id, 0);
	/* Older clients are counted up to PUBREC only: they send PUBREL when they like. */
	if (conn->version == FL_MQTT_5_0)
		fl_mqtt_one_less_unacked(conn);
}
