/*
 * will.c
 *		Will messages: kept as an encoded PUBLISH, published when the connection
 *		ends without a normal DISCONNECT (MQTT-3.1.2-8).
 *
 * A session ends with its connection (session expiry is 0), so a will delay
 * ends with it too (MQTT-3.1.3-9, case O32).  A will goes the way of every
 * publish: rights, mount, record.  At server shutdown wills are not published:
 * all devices are about to come back (5.0, 3.1.2.5 lets a server defer them).
 */
#include "postgres.h"

#include "fleetlog/topic.h"
#include "mqtt.h"
#include "packet.h"

#define MAX_WAITING 10000 /* wills that wait for room in ingest */

/* A will that found no room, with what is needed to publish it later. */
typedef struct WaitingWill
{
	dlist_node node;
	FlMqttWillMessage *will;
	FlMqttWho *who;
} WaitingWill;

static dlist_head waiting = DLIST_STATIC_INIT(waiting);
static int waiting_count = 0;

/* What the server does not offer is refused at CONNECT (MQTT-3.2.2-12, -13). */
FlMqttReason
fl_mqtt_check_will(const FlMqttConnect *connect, const char **why)
{
	const FlMqttWill *will = &connect->will;

	if (fl_topic_levels(will->topic.data, will->topic.len) > fl_mqtt_max_topic_levels)
	{
		*why = "will topic has too many levels";
		return FL_MQTT_RC_TOPIC_NAME_INVALID;
	}
	/* In 3.x nobody can be told: retain has no effect where the mount keeps nothing. */
	if (connect->version != FL_MQTT_5_0)
		return FL_MQTT_RC_SUCCESS;
	if (will->retain && !fl_mqtt_can_retain((const char *) will->topic.data, will->topic.len))
	{
		*why = "retained will is not available";
		return FL_MQTT_RC_RETAIN_NOT_SUPPORTED;
	}
	return FL_MQTT_RC_SUCCESS;
}

void
fl_mqtt_keep_will(FlMqttConn *conn, const FlMqttConnect *connect)
{
	FlBuf *out = &conn->door->out;
	FlMqttPublish publish;

	publish.dup = false;
	publish.retain = connect->will.retain;
	publish.qos = connect->will.qos;
	publish.packet_id = 1; /* none is sent; the field must not be 0 */
	publish.topic = connect->will.topic;
	publish.payload = connect->will.payload;
	publish.props = connect->will.props;
	/* The delay is over when the session is, and belongs to no PUBLISH. */
	publish.props.present &= ~(1u << FL_MQTT_P_WILL_DELAY);
	fl_buf_reset(out);
	fl_mqtt_encode_publish(out, (FlMqttVersion) conn->version, &publish);
	if (out->failed)
		elog(ERROR, "fleetlog: will could not be kept");
	conn->will = MemoryContextAlloc(conn->door->context, offsetof(FlMqttWillMessage, bytes) + out->len);
	conn->will->qos = publish.qos;
	conn->will->version = conn->version;
	conn->will->len = (uint32) out->len;
	memcpy(conn->will->bytes, out->data, out->len);
	fl_buf_reset(out);
}

static FlError
route_will(FlMqttDoor *door, const FlIdentity *identity, const FlMqttWillMessage *will, const char **why)
{
	FlMqttVersion version = (FlMqttVersion) will->version;
	FlMqttFrame frame;
	FlMqttFault fault;
	FlMqttPublish publish;

	if (fl_mqtt_frame_next(will->bytes, will->len, version, FL_MQTT_FROM_CLIENT, will->len, &frame, &fault) != FL_OK ||
		fl_mqtt_decode_publish(&frame, version, FL_MQTT_FROM_CLIENT, &publish, &fault) != FL_OK)
		elog(ERROR, "fleetlog: kept will does not decode");
	publish.packet_id = 0;
	door->received = fl_wall_now();
	return fl_mqtt_route(door, identity, identity->client_id, identity->client_id_len, &publish, version, 0, why);
}

static void
log_refused(FlMqttConn *conn, FlError err, const char *why)
{
	FL_COUNT(FL_C_PUBLISH_REFUSED, 1);
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_REFUSED))
		ereport(LOG, (errmsg("fleetlog: the will of %s was not published: %s", fl_mqtt_name(conn),
							 why ? why : fl_error_info(err)->text)));
}

/* The connection is closing; its will and name are taken over when they must wait. */
void
fl_mqtt_publish_will(FlMqttConn *conn)
{
	const char *why = NULL;
	FlError err = route_will(conn->door, fl_mqtt_identity(conn), conn->will, &why);

	if (err == FL_ERR_SHARD_BUSY && waiting_count < MAX_WAITING)
	{
		WaitingWill *w = MemoryContextAlloc(conn->door->context, sizeof(WaitingWill));

		w->will = conn->will;
		w->who = conn->who;
		conn->will = NULL;
		conn->who = NULL;
		dlist_push_tail(&waiting, &w->node);
		waiting_count++;
	}
	else if (err != FL_ERR_NONE)
		log_refused(conn, err, why);
}

/* Wills that found no room try again, in their order. */
void
fl_mqtt_retry_wills(FlMqttDoor *door)
{
	while (!dlist_is_empty(&waiting))
	{
		WaitingWill *w = dlist_head_element(WaitingWill, node, &waiting);
		FlMqttConn shade = {.door = door, .who = w->who};
		const char *why = NULL;
		FlError err = route_will(door, fl_mqtt_identity(&shade), w->will, &why);

		if (err == FL_ERR_SHARD_BUSY)
			return;
		if (err != FL_ERR_NONE)
			log_refused(&shade, err, why);
		dlist_delete(&w->node);
		waiting_count--;
		pfree(w->will);
		pfree(w->who);
		pfree(w);
	}
}

bool
fl_mqtt_wills_wait(void)
{
	return waiting_count > 0;
}
