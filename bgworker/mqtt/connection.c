/*
 * connection.c
 *		The state machine of an MQTT connection.
 *
 * Bytes come from the event loop, whole packets go to their handlers, and a
 * packet that cannot be taken now (no room in ingest, too much unacknowledged)
 * stays where it is and is presented again: the peer's TCP window does the
 * waiting.  Picture of the states: README.md.
 *
 * Invariants: nothing is sent in state CLOSED; a connection is in the table of
 * connections exactly as long as its socket is the protocol's; every way out
 * passes through on_close, once.
 */
#include "postgres.h"

#include "mqtt.h"
#include "packet.h"
#include "share.h"

FlMqttDoor *fl_mqtt_door = NULL;

/* ---- connections by number ---- */

typedef struct FlMqttConnEntry
{
	uint64 id;
	FlMqttConn *conn;
	char status;
} FlMqttConnEntry;

/* The numbers are consecutive, so one multiplication spreads them well. */
#define SH_PREFIX            FlMqttConnTable
#define SH_ELEMENT_TYPE      FlMqttConnEntry
#define SH_KEY_TYPE          uint64
#define SH_KEY               id
#define SH_HASH_KEY(tb, key) ((uint32) (((key) *UINT64CONST(0x9E3779B97F4A7C15)) >> 32))
#define SH_EQUAL(tb, a, b)   ((a) == (b))
#define SH_SCOPE             static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

void
fl_mqtt_conns_init(FlMqttDoor *door)
{
	door->conns = FlMqttConnTable_create(door->context, 1024, NULL);
}

FlMqttConn *
fl_mqtt_find(FlMqttDoor *door, uint64 id)
{
	FlMqttConnEntry *entry = FlMqttConnTable_lookup(door->conns, id);

	return entry ? entry->conn : NULL;
}

static void
call_for(FlNetConn *net, void *arg)
{
	void (*f)(FlMqttConn * conn) = (void (*)(FlMqttConn *)) arg;

	if (net->protocol == &fl_mqtt_protocol)
		f((FlMqttConn *) net);
}

void
fl_mqtt_each(FlMqttDoor *door, void (*f)(FlMqttConn *conn))
{
	fl_net_each(door->net, call_for, (void *) f);
}

/* ---- states ---- */

/* The only place where the state changes; the moves that are legal stand here. */
void
fl_mqtt_set_state(FlMqttConn *conn, FlMqttState state)
{
	FlMqttState old = (FlMqttState) conn->state;

	switch (state)
	{
		case FL_MQTT_STATE_NEW:
			Assert(false);
			break;
		case FL_MQTT_STATE_AUTHENTICATING:
			Assert(old == FL_MQTT_STATE_NEW);
			break;
		case FL_MQTT_STATE_TAKING_OVER:
			Assert(old == FL_MQTT_STATE_NEW || old == FL_MQTT_STATE_AUTHENTICATING);
			break;
		case FL_MQTT_STATE_OPENING:
			Assert(old == FL_MQTT_STATE_NEW || old == FL_MQTT_STATE_AUTHENTICATING || old == FL_MQTT_STATE_TAKING_OVER);
			break;
		case FL_MQTT_STATE_OPEN:
			Assert(old == FL_MQTT_STATE_OPENING);
			break;
		case FL_MQTT_STATE_CLOSED:
			Assert(old != FL_MQTT_STATE_CLOSED);
			if (old != FL_MQTT_STATE_OPEN)
				FL_COUNT(FL_C_REFUSED_CONNECTS, 1);
			break;
	}
	(void) old;
	conn->state = (uint8) state;
}

/* ---- sending ---- */

/* MQTT-3.1.2-24: nothing larger than the client allows; such a packet is not sent. */
static bool
send_scratch(FlMqttConn *conn)
{
	FlBuf *out = &conn->door->out;
	bool fits = !out->failed && out->len <= conn->max_packet;

	if (fits)
	{
		fl_net_write(&conn->net, out->data, out->len);
		conn->packets_out++;
		FL_COUNT(FL_C_PACKETS_OUT, 1);
		conn->stats_dirty = true;
	}
	fl_buf_reset(out);
	return fits;
}

bool
fl_mqtt_send(FlMqttConn *conn, const FlMqttPacket *packet)
{
	fl_mqtt_encode(&conn->door->out, (FlMqttVersion) conn->version, packet);
	return send_scratch(conn);
}

/*
 * With the reason in words, where the client wants to know (MQTT-3.1.2-29) and it does
 * not make the packet too large (MQTT-3.2.2-19 and the like).  props are the packet's.
 */
void
fl_mqtt_send_reason(FlMqttConn *conn, FlMqttPacket *packet, FlMqttProps *props, const char *why)
{
	FlBuf *out = &conn->door->out;
	Size len = why != NULL ? strlen(why) : 0;

	if (conn->version == FL_MQTT_5_0 && fl_mqtt_reason_strings && fl_mqtt_dialect != FL_MQTT_DIALECT_MOSQUITTO &&
		!conn->no_problem_info && len > 0)
	{
		fl_mqtt_props_set_bytes(props, FL_MQTT_P_REASON_STRING, why, (uint32) len);
		fl_mqtt_encode(out, FL_MQTT_5_0, packet);
		if (!out->failed && out->len <= conn->max_packet)
		{
			(void) send_scratch(conn);
			return;
		}
		fl_buf_reset(out);
		props->present &= ~(1u << FL_MQTT_P_REASON_STRING);
	}
	(void) fl_mqtt_send(conn, packet);
}

void
fl_mqtt_send_ack(FlMqttConn *conn, FlMqttType type, uint16 packet_id, uint8 reason)
{
	FlMqttAck ack;

	ack.packet_id = packet_id;
	ack.reason = reason;
	fl_mqtt_props_init(&ack.props);
	fl_mqtt_encode_ack(&conn->door->out, (FlMqttVersion) conn->version, type, &ack);
	(void) send_scratch(conn);
}

void
fl_mqtt_send_refusal(FlMqttConn *conn, FlMqttType type, uint16 packet_id, uint8 reason, const char *why)
{
	FlMqttPacket packet;

	packet.type = type;
	packet.u.ack.packet_id = packet_id;
	packet.u.ack.reason = reason;
	fl_mqtt_props_init(&packet.u.ack.props);
	fl_mqtt_send_reason(conn, &packet, &packet.u.ack.props, why);
}

/*
 * What to say of an identifier that names nothing.  The standard has a code for
 * it (MQTT-4.3.3, cases O-H); clients that take every code above 0x7F for the end of a
 * flow gone wrong are better off without, and get what those of 3.x get.
 */
uint8
fl_mqtt_unknown_id(const FlMqttConn *conn)
{
	return conn->version == FL_MQTT_5_0 && fl_mqtt_dialect == FL_MQTT_DIALECT_STRICT
			   ? FL_MQTT_RC_PACKET_IDENTIFIER_NOT_FOUND
			   : FL_MQTT_RC_SUCCESS;
}

/* What is no fault of the client's: it may go elsewhere, where there is such a place (4.11). */
FlMqttReason
fl_mqtt_redirect(const FlMqttConn *conn, FlMqttReason reason)
{
	return conn->version == FL_MQTT_5_0 && fl_mqtt_server_reference[0] != '\0' ? FL_MQTT_RC_USE_ANOTHER_SERVER : reason;
}

/* That place, with the reason that sends the client there. */
void
fl_mqtt_set_reference(FlMqttProps *props, uint8 reason)
{
	if (reason == FL_MQTT_RC_USE_ANOTHER_SERVER)
		fl_mqtt_props_set_bytes(props, FL_MQTT_P_SERVER_REFERENCE, fl_mqtt_server_reference,
								(uint32) strlen(fl_mqtt_server_reference));
}

void
fl_mqtt_disconnect_with(FlMqttConn *conn, FlMqttReason reason, const char *why, const FlMqttUserProperty *users,
						uint32 user_count)
{
	FlMqttReasonPacket disconnect;

	if (conn->state != FL_MQTT_STATE_OPEN || conn->version != FL_MQTT_5_0)
	{
		fl_mqtt_disconnect(conn, reason, why);
		return;
	}
	conn->end_reason = (uint8) reason;
	disconnect.reason = (uint8) reason;
	fl_mqtt_props_init(&disconnect.props);
	fl_mqtt_props_set_bytes(&disconnect.props, FL_MQTT_P_REASON_STRING, why, (uint32) strlen(why));
	disconnect.props.users = users;
	disconnect.props.user_count = user_count;
	fl_mqtt_encode_disconnect(&conn->door->out, FL_MQTT_5_0, &disconnect);
	/* MQTT-3.14.2-3, -4: what makes it too large is not sent. */
	if (conn->door->out.failed || conn->door->out.len > conn->max_packet)
	{
		fl_buf_reset(&conn->door->out);
		fl_mqtt_props_init(&disconnect.props);
		fl_mqtt_encode_disconnect(&conn->door->out, FL_MQTT_5_0, &disconnect);
	}
	send_scratch(conn);
	fl_net_finish_slowly(&conn->net, why);
}

void
fl_mqtt_disconnect(FlMqttConn *conn, FlMqttReason reason, const char *why)
{
	if (conn->state != FL_MQTT_STATE_OPEN)
	{
		fl_mqtt_refuse_connect(conn, reason, why);
		return;
	}
	conn->end_reason = (uint8) reason;
	if (conn->version == FL_MQTT_5_0)
	{
		FlMqttPacket packet;
		FlMqttReasonPacket *disconnect = &packet.u.disconnect;

		packet.type = FL_MQTT_DISCONNECT;
		disconnect->reason = (uint8) reason;
		fl_mqtt_props_init(&disconnect->props);
		fl_mqtt_set_reference(&disconnect->props, disconnect->reason);
		fl_mqtt_send_reason(conn, &packet, &disconnect->props, why);
	}
	fl_net_finish(&conn->net, why);
}

/* Read on, unless another reason not to is left. */
void
fl_mqtt_resume(FlMqttConn *conn)
{
	if (!conn->full && !conn->acks_paused && !conn->out_paused)
		fl_net_resume(&conn->net);
}

/* ---- packets that need no file of their own ---- */

static void
protocol_error(FlMqttConn *conn, const FlMqttFault *fault)
{
	FL_COUNT(FL_C_PROTOCOL_ERRORS, 1);
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_PROTOCOL))
		ereport(LOG, (errmsg("fleetlog: %s sent a packet that is refused (0x%02X): %s", fl_mqtt_name(conn),
							 fault->reason, fault->what),
					  fl_mqtt_remedy(fault->reason) != NULL ? errhint("%s", fl_mqtt_remedy(fault->reason)) : 0));
	conn->end_logged = true;
	/* What is wrong with a CONNECT has codes that only a CONNACK may bear; a second one is answered by DISCONNECT. */
	if (conn->state == FL_MQTT_STATE_OPEN && !fl_mqtt_reason_allowed(FL_MQTT_DISCONNECT, fault->reason))
		fl_mqtt_disconnect(conn, FL_MQTT_RC_PROTOCOL_ERROR, fault->what);
	else
		fl_mqtt_disconnect(conn, fault->reason, fault->what);
}

void
fl_mqtt_out_of_order(FlMqttConn *conn, const char *what)
{
	FlMqttFault fault = {FL_MQTT_RC_PROTOCOL_ERROR, what, FL_MQTT_RC_SUCCESS};

	protocol_error(conn, &fault);
}

static void
handle_ping(FlMqttConn *conn)
{
	fl_mqtt_encode_ping(&conn->door->out, FL_MQTT_PINGRESP);
	(void) send_scratch(conn);
}

static void
handle_disconnect(FlMqttConn *conn, const FlMqttReasonPacket *disconnect)
{
	uint32 expiry = fl_mqtt_props_int(&disconnect->props, FL_MQTT_P_SESSION_EXPIRY, conn->session_expiry_s);

	/* MQTT-3.14.2.2.2: a session that was to end with its connection must not be kept by the last word. */
	if (expiry != 0 && conn->session_expiry_s == 0)
	{
		fl_mqtt_out_of_order(conn, "session expiry raised in DISCONNECT");
		return;
	}
	fl_mqtt_change_expiry(conn, expiry);
	conn->said_goodbye = true;
	conn->end_reason = disconnect->reason;
	/* MQTT-3.1.2-10, 3.1.1 MQTT-3.14.4-3: a normal end discards the will. */
	conn->no_will = disconnect->reason == FL_MQTT_RC_SUCCESS;
	fl_net_part(&conn->net, "the client has disconnected");
}

/*
 * Hands a packet on.  False when it cannot be taken now: it will be presented
 * again.
 */
static bool
handle_packet(FlMqttConn *conn, const FlMqttFrame *frame, FlMqttPacket *packet)
{
	if (conn->state == FL_MQTT_STATE_NEW)
	{
		/* The framer lets nothing but CONNECT through here. */
		fl_mqtt_handle_connect(conn, frame, &packet->u.connect);
		return true;
	}
	/* MQTT-3.1.2-30: nothing else until it has proved itself. */
	if (conn->state == FL_MQTT_STATE_AUTHENTICATING && packet->type != FL_MQTT_AUTH &&
		packet->type != FL_MQTT_DISCONNECT)
	{
		fl_mqtt_out_of_order(conn, "packet in the middle of a login");
		return true;
	}
	switch (packet->type)
	{
		case FL_MQTT_CONNECT:
			fl_mqtt_out_of_order(conn, "second CONNECT"); /* MQTT-3.1.0-2 */
			break;
		case FL_MQTT_PUBLISH:
			return fl_mqtt_handle_publish(conn, &packet->u.publish);
		case FL_MQTT_PUBACK:
		case FL_MQTT_PUBREC:
		case FL_MQTT_PUBCOMP:
			return fl_mqtt_handle_answer(conn, packet->type, &packet->u.ack);
		case FL_MQTT_PUBREL:
			return fl_mqtt_handle_pubrel(conn, &packet->u.ack);
		case FL_MQTT_SUBSCRIBE:
			if (!fl_mqtt_has_settled(conn) || !fl_mqtt_may_subscribe(conn, packet))
				return false;
			fl_mqtt_handle_subscribe(conn, &packet->u.subscribe);
			break;
		case FL_MQTT_UNSUBSCRIBE:
			if (!fl_mqtt_may_subscribe(conn, packet))
				return false;
			fl_mqtt_handle_unsubscribe(conn, &packet->u.unsubscribe);
			break;
		case FL_MQTT_PINGREQ:
			handle_ping(conn);
			break;
		case FL_MQTT_DISCONNECT:
			handle_disconnect(conn, &packet->u.disconnect);
			break;
		case FL_MQTT_AUTH:
			fl_mqtt_handle_auth(conn, &packet->u.auth);
			break;
		case FL_MQTT_CONNACK:
		case FL_MQTT_SUBACK:
		case FL_MQTT_UNSUBACK:
		case FL_MQTT_PINGRESP:
			fl_mqtt_out_of_order(conn, "packet that only a server sends");
			break;
	}
	return true;
}

/* ---- from the event loop ---- */

static void
on_accept(FlNetConn *net)
{
	FlMqttConn *conn = (FlMqttConn *) net;
	FlMqttDoor *door = fl_mqtt_door;
	FlMqttConnEntry *entry;
	bool found;

	conn->door = door;
	conn->state = FL_MQTT_STATE_NEW;
	conn->id = fl_registry_next_id();
	conn->max_packet = PG_UINT32_MAX;
	/* Before login nobody may make us hold much (case O66). */
	conn->max_in_packet = Min(fl_mqtt_max_packet_bytes, FL_MQTT_MAX_CONNECT);
	conn->receive_max = PG_UINT16_MAX;
	entry = FlMqttConnTable_insert(door->conns, conn->id, &found);
	entry->conn = conn;
	fl_net_set_timer(net, fl_mqtt_connect_timeout_s * INT64CONST(1000));
	FL_COUNT(FL_C_CONNECTS, 1);
	FL_COUNT(FL_C_CONNECTIONS, 1);
}

/*
 * A CONNECT that breaks a rule is answered in its version.  One that is
 * malformed is not, because nothing it says can be relied on (MQTT-3.1.4-1
 * leaves the answer to us), nor is anything else before a CONNECT.
 */
static void
refuse_frame(FlMqttConn *conn, FlMqttFault *fault)
{
	if (fl_mqtt_dialect == FL_MQTT_DIALECT_MOSQUITTO && fault->other != FL_MQTT_RC_SUCCESS)
		fault->reason = fault->other;
	if (conn->state == FL_MQTT_STATE_NEW && conn->door->packet.type == FL_MQTT_CONNECT &&
		fault->reason != FL_MQTT_RC_MALFORMED_PACKET)
		conn->version = (uint8) conn->door->packet.u.connect.version;
	protocol_error(conn, fault);
}

/*
 * Answers to a client that does not read them must not pile up: it is read no
 * further until they have left.  Deliveries alone never come so far.
 */
static bool
reads_its_answers(FlMqttConn *conn)
{
	Size limit = (Size) fl_mqtt_max_queued_kb * 1024 + FL_MQTT_PENDING_HARD;

	if (fl_net_pending(&conn->net) < limit)
		return true;
	fl_net_push(&conn->net);
	if (fl_net_pending(&conn->net) < limit)
		return true;
	conn->out_paused = true;
	fl_net_pause(&conn->net);
	return false;
}

static Size
on_bytes(FlNetConn *net, const uint8 *data, Size len)
{
	FlMqttConn *conn = (FlMqttConn *) net;
	FlMqttDoor *door = conn->door;
	FlMqttPacket *packet = &door->packet;
	Size used = 0;
	int64 now = fl_net_now(door->net);

	/* One look at the clock for all that came together. */
	door->received = fl_wall_now();
	door->current = conn;
	while (used < len && fl_net_is_open(net) && !conn->full && !conn->acks_paused && reads_its_answers(conn) &&
		   (conn->state != FL_MQTT_STATE_AUTHENTICATING || conn->scram != NULL) &&
		   conn->state != FL_MQTT_STATE_TAKING_OVER && conn->state != FL_MQTT_STATE_OPENING)
	{
		FlMqttVersion version = (FlMqttVersion) conn->version;
		FlMqttFrame frame;
		FlMqttFault fault;
		FlResult result;

		/* Left over from another packet, it must not be taken for this one. */
		packet->type = FL_MQTT_PINGREQ;
		packet->u.connect.version = FL_MQTT_UNKNOWN;
		result = fl_mqtt_frame_next(data + used, len - used, version, FL_MQTT_FROM_CLIENT, conn->max_in_packet, &frame,
									&fault);
		if (result == FL_INCOMPLETE)
			break;
		if (result == FL_OK)
			result = fl_mqtt_decode(&frame, version, FL_MQTT_FROM_CLIENT, packet, &fault);
		if (result != FL_OK)
		{
			refuse_frame(conn, &fault);
			break;
		}
		conn->last_packet_ms = now;
		if (!handle_packet(conn, &frame, packet))
			break;
		used += frame.total;
		conn->packets_in++;
		FL_COUNT(FL_C_PACKETS_IN, 1);
		conn->stats_dirty = true;
	}
	door->current = NULL;
	return Min(used, len);
}

/* Half as long again as the client promised (MQTT-3.1.2-22). */
static int64
keep_alive_ms(const FlMqttConn *conn)
{
	return conn->keep_alive_s * INT64CONST(1500);
}

void
fl_mqtt_start_keep_alive(FlMqttConn *conn)
{
	conn->last_packet_ms = fl_net_now(conn->door->net);
	if (conn->keep_alive_s == 0)
		fl_net_cancel_timer(&conn->net);
	else
		fl_net_set_timer(&conn->net, keep_alive_ms(conn));
}

/*
 * The keep alive timer is not moved with every packet: when it fires, it is set
 * to what the last packet asks for.
 */
static void
check_keep_alive(FlMqttConn *conn)
{
	int64 left;

	/* A client that we do not read cannot prove that it is alive. */
	if (conn->full || conn->acks_paused)
		conn->last_packet_ms = fl_net_now(conn->door->net);
	left = conn->last_packet_ms + keep_alive_ms(conn) - fl_net_now(conn->door->net);
	if (left > 0)
		fl_net_set_timer(&conn->net, left);
	else
		fl_mqtt_disconnect(conn, FL_MQTT_RC_KEEP_ALIVE_TIMEOUT, "keep alive timeout");
}

static void
on_timer(FlNetConn *net)
{
	FlMqttConn *conn = (FlMqttConn *) net;

	conn->door->current = conn;
	switch ((FlMqttState) conn->state)
	{
		case FL_MQTT_STATE_NEW:
			fl_net_close(net, "no CONNECT in time");
			break;
		case FL_MQTT_STATE_AUTHENTICATING:
			fl_mqtt_refuse_connect(conn, FL_MQTT_RC_SERVER_UNAVAILABLE, "login took too long");
			break;
		case FL_MQTT_STATE_TAKING_OVER:
			fl_mqtt_refuse_connect(conn, FL_MQTT_RC_SERVER_UNAVAILABLE, "takeover took too long");
			break;
		case FL_MQTT_STATE_OPENING:
			fl_mqtt_refuse_connect(conn, FL_MQTT_RC_SERVER_UNAVAILABLE, "the session could not be opened in time");
			break;
		case FL_MQTT_STATE_OPEN:
			check_keep_alive(conn);
			break;
		case FL_MQTT_STATE_CLOSED:
			break;
	}
	conn->door->current = NULL;
}

/* A SUBACK may be in it: from now on what it says must be read. */
static void
on_output(FlNetConn *net)
{
	fl_mqtt_feed_interest(fl_mqtt_door);
}

static void
on_drained(FlNetConn *net)
{
	FlMqttConn *conn = (FlMqttConn *) net;

	if (conn->state != FL_MQTT_STATE_OPEN)
		return;
	conn->out_paused = false;
	fl_mqtt_resume(conn);
	conn->door->current = conn;
	if (conn->sub != NULL)
		fl_mqtt_drain_queue(conn);
	conn->door->current = NULL;
}

static void
on_certificate_end(FlNetConn *net, bool revoked)
{
	FlMqttConn *conn = (FlMqttConn *) net;
	const char *why = revoked ? "its certificate was revoked" : "its certificate has expired";

	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_LOGIN))
		ereport(LOG, (errmsg("fleetlog: %s is disconnected: %s", fl_mqtt_name(conn), why),
					  errhint("It needs a new certificate.")));
	conn->end_logged = true;
	conn->door->current = conn;
	/* Who may no longer log in leaves no last word; whose time is over does. */
	conn->no_will = conn->no_will || revoked;
	fl_mqtt_disconnect(conn, FL_MQTT_RC_NOT_AUTHORIZED, why);
	conn->door->current = NULL;
}

void
fl_mqtt_free_aliases(FlMqttAliases **aliases)
{
	if (*aliases == NULL)
		return;
	for (int i = 0; i < (*aliases)->max; i++)
		if ((*aliases)->topic[i].data != NULL)
			pfree((void *) (*aliases)->topic[i].data);
	pfree(*aliases);
	*aliases = NULL;
}

static void
on_close(FlNetConn *net, const char *why)
{
	FlMqttConn *conn = (FlMqttConn *) net;
	bool was_open = conn->state == FL_MQTT_STATE_OPEN;

	fl_mqtt_log_end(conn, why);
	fl_mqtt_set_state(conn, FL_MQTT_STATE_CLOSED);
	FlMqttConnTable_delete(conn->door->conns, conn->id);
	fl_mqtt_leave_login_queue(conn);
	if (conn->full || conn->pending != NULL)
	{
		if (conn->wait_node.next != NULL)
			dlist_delete(&conn->wait_node);
		conn->wait_node.next = conn->wait_node.prev = NULL;
		conn->full = false;
	}
	/* At shutdown they were written before. */
	if (was_open && !conn->door->stopping)
		fl_mqtt_leave_bookmarks(conn);
	fl_mqtt_share_keep(conn);
	fl_mqtt_drop_filters(conn);
	fl_mqtt_share_return(conn);
	fl_mqtt_free_subscriber(conn);
	/* The will first: who takes over must find it on its way. */
	if (was_open && conn->will != NULL)
		fl_mqtt_leave_will(conn);
	fl_mqtt_leave_session(conn);
	conn->registered = false;
	if (conn->will)
		pfree(conn->will);
	if (conn->pending)
		pfree(conn->pending);
	conn->will = NULL;
	conn->pending = NULL;
	fl_mqtt_free_aliases(&conn->aliases);
	fl_mqtt_free_scram(conn);
	fl_mqtt_free_received(conn);
	if (conn->who)
		pfree(conn->who);
	conn->who = NULL;
	FL_COUNT(FL_C_DISCONNECTS, 1);
	FL_COUNT(FL_C_CONNECTIONS, -1);
}

const FlNetProtocol fl_mqtt_protocol = {
	.name = "mqtt",
	.conn_size = sizeof(FlMqttConn),
	.on_accept = on_accept,
	.on_bytes = on_bytes,
	.on_timer = on_timer,
	.on_output = on_output,
	.on_drained = on_drained,
	.on_certificate_end = on_certificate_end,
	.on_psk = fl_mqtt_find_psk,
	.on_close = on_close,
};
