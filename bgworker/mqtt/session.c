/*
 * session.c
 *		Sessions that outlive their connection, as a door has them: taken up at
 *		CONNECT, written to by events, left at the end.
 *
 *	registered ─► look up ─► events ─durable─► attach ─► CONNACK ─► OPEN
 *	                 │          (ends the old one, opens a new one, changes its expiry)
 *	                 └─ nothing to write: attach at once; no session at all: no store
 *
 * CONNACK says what is durable: a session that is announced as present, or as kept
 * for so long, is in the journal (docs/design/journal.md).
 *
 * A connection whose messages are on their way to the log keeps its place in the
 * registry when it closes, until their fate is known ("leaving"): who comes back
 * meanwhile waits like for a takeover, and finds every identifier that was
 * stored.  So a message that is sent again is never taken for a new one.
 *
 * A subscription of a session is in the journal before its SUBACK leaves.  What cannot
 * be written at all ends the session, durably before the SUBACK, so that Session
 * Present is never announced for subscriptions that are gone.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "utils/hsearch.h"

#include "mqtt.h"
#include "packet.h"

/* A connection that has closed, and whose messages are under way. */
typedef struct Leaving
{
	uint64 conn_id; /* hash key */
	FlConnKey key;
	FlSessionRef session;
	uint16 pending;
} Leaving;

/* ---- events ---- */

void
fl_mqtt_sessions_init(FlMqttDoor *door)
{
	HASHCTL ctl = {0};

	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(Leaving);
	ctl.hcxt = door->context;
	door->leaving = hash_create("fleetlog leaving connections", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	dlist_init(&door->opening);
}

FlError
fl_mqtt_write_events(FlMqttConn *conn, uint64 cookie, bool wait)
{
	FlBuf *out = &conn->door->out;
	FlIngestEvents events = {.bytes = out->data, .len = (uint32) out->len, .wait = wait, .conn_id = conn->id};
	FlError err;

	events.cookie = cookie;
	/* Only a checkpoint may have too much for the buffer. */
	if (out->failed)
	{
		fl_buf_reset(out);
		return FL_ERR_RECORD_TOO_LARGE;
	}
	err = fl_journal_stream(&events.journal) ? fl_ingest_add_events(conn->door->ingest, &events) : FL_ERR_SHARD_BUSY;
	fl_buf_reset(out);
	if (err == FL_ERR_NONE && wait)
		conn->session_pending++;
	return err;
}

static FlSessionEvent
event_of(const FlSessionRef *session, FlSessionEventType type)
{
	FlSessionEvent event = {0};

	event.type = (uint8) type;
	event.session = session->number;
	event.generation = session->generation;
	return event;
}

FlSessionEvent
fl_mqtt_session_event(const FlMqttConn *conn, FlSessionEventType type)
{
	return event_of(&conn->session, type);
}

StaticAssertDecl(FL_TENANT_MAX + FL_DEVICE_MAX + 2 < FL_SESSION_NAME_MAX && FL_ROLE_MAX + 2 < FL_SESSION_NAME_MAX,
				 "no identity is cut in the name of a session");

/* Identity and client id for the view; the client id takes what is left. */
static void
set_name(FlMqttConn *conn, FlSessionEvent *event, char *room)
{
	Size len;
	const char *client_id = fl_mqtt_client_id(conn, &len);
	char identity[FL_TENANT_MAX + FL_DEVICE_MAX + 2];
	int n;

	n = fl_mqtt_who_text(conn->who, identity, sizeof(identity));
	memcpy(room, identity, (Size) n);
	room[n++] = '\0';
	len = (Size) pg_mbcliplen(client_id, (int) len, FL_SESSION_NAME_MAX - n);
	memcpy(room + n, client_id, len);
	event->name = (const uint8 *) room;
	event->name_len = (uint8) (n + (int) len);
}

/* ---- CONNECT ---- */

/* The greatest value of a limit is none: MQTT has a number that means for ever. */
static uint32
limit_expiry(const FlMqttConn *conn, uint32 expiry)
{
	const FlTenant *tenant = fl_mqtt_tenant(conn);

	if (fl_max_session_expiry_s < PG_INT32_MAX)
		expiry = Min(expiry, (uint32) fl_max_session_expiry_s);
	if (tenant != NULL && tenant->max_session_expiry_s < PG_INT32_MAX)
		expiry = Min(expiry, (uint32) tenant->max_session_expiry_s);
	return expiry;
}

/* MQTT-3.1.2.11.2; a client of 3.x that asks for no clean session means for ever. */
static uint32
wanted_expiry(const FlMqttConn *conn, const FlMqttConnect *connect)
{
	uint32 expiry = conn->version == FL_MQTT_5_0 ? fl_mqtt_props_int(&connect->props, FL_MQTT_P_SESSION_EXPIRY, 0)
					: connect->clean_start		 ? 0
												 : PG_UINT32_MAX;

	return limit_expiry(conn, expiry);
}

/* Look again soon: the store is not loaded, the journal not made, or full. */
static void
wait_for_session(FlMqttConn *conn)
{
	if (conn->wait_node.next == NULL)
		dlist_push_tail(&conn->door->opening, &conn->wait_node);
}

static void
stop_waiting(FlMqttConn *conn)
{
	if (conn->wait_node.next == NULL)
		return;
	dlist_delete(&conn->wait_node);
	conn->wait_node.next = conn->wait_node.prev = NULL;
}

/* The identifiers that the session remembers, for qos2.c.  False: it is gone. */
static bool
attach(FlMqttConn *conn)
{
	/* Nobody else adds to a session that has no connection. */
	int max = fl_session_item_count(&conn->session) + 8;
	FlSessionItem *items = MemoryContextAlloc(conn->door->turn, sizeof(FlSessionItem) * (Size) max);
	int n = fl_session_attach(&conn->session, conn->door->index, conn->id, items, max);

	if (n < 0)
		return false;
	fl_mqtt_restore_received(conn, items, n);
	return true;
}

/* The session's number goes back when it is not known to be in the journal. */
static void
forget_session(FlMqttConn *conn)
{
	if (conn->session.number == 0)
		return;
	fl_session_unreserve(&conn->session);
	fl_session_detach(&conn->session, conn->id);
	conn->session.number = 0;
	fl_mqtt_free_received(conn);
}

static void
refuse_session(FlMqttConn *conn, const char *why)
{
	fl_buf_reset(&conn->door->out);
	stop_waiting(conn);
	fl_mqtt_refuse_connect(conn, FL_MQTT_RC_QUOTA_EXCEEDED, why);
}

/* replaces: an old session of the client ends with the same write. */
static FlSessionRoom
reserve(FlMqttConn *conn, bool replaces)
{
	const FlTenant *tenant = fl_mqtt_tenant(conn);
	uint32 max = tenant != NULL ? (uint32) tenant->max_sessions : 0;

	return fl_session_reserve(conn->door->index, fl_mqtt_who_tenant_digest(conn->who),
							  max > 0 && replaces ? max + 1 : max, &conn->session);
}

/* False: it has been refused. */
static bool
open_anew(FlMqttConn *conn, bool replaces, uint32 expiry)
{
	FlSessionRoom room = reserve(conn, replaces);
	char name[FL_SESSION_NAME_MAX];
	FlSessionEvent event;

	if (room != FL_SESSION_ROOM)
	{
		refuse_session(conn, room == FL_SESSION_FULL ? "fleetlog.max_sessions or fleetlog.session_memory is reached"
													 : "its tenant has as many sessions as it may have");
		return false;
	}
	event = event_of(&conn->session, FL_SESSION_OPENED);
	event.expiry_s = expiry;
	event.window = conn->max_unacked;
	event.key = conn->key.digest;
	set_name(conn, &event, name);
	fl_session_encode_event(&conn->door->out, &event);
	return true;
}

/* What has to be written before this client can be let in; false: it has been refused. */
static bool
prepare_events(FlMqttConn *conn, const FlMqttConnect *connect, const FlSessionFound *found, bool keep, uint32 expiry)
{
	FlBuf *out = &conn->door->out;
	FlSessionEvent event;

	fl_buf_reset(out);
	if (found != NULL && !keep)
	{
		event = event_of(&found->ref, FL_SESSION_ENDED);
		fl_session_encode_event(out, &event);
	}
	if (keep && (found->expiry_s != expiry || found->window != conn->max_unacked))
	{
		event = event_of(&found->ref, FL_SESSION_CHANGED);
		event.expiry_s = expiry;
		event.window = conn->max_unacked;
		fl_session_encode_event(out, &event);
	}
	if (!keep && expiry != 0 && !open_anew(conn, found != NULL, expiry))
		return false;
	if (conn->session.number == 0 || fl_mqtt_note_will(conn, connect, keep ? found->will : 0, out))
		return true;
	forget_session(conn);
	refuse_session(conn, "fleetlog.session_memory has no room for its will");
	return false;
}

/* True: the connection may be opened now. */
static bool
begin_session(FlMqttConn *conn, const FlMqttConnect *connect)
{
	FlSessionFound found;
	Oid journal;
	uint32 expiry = wanted_expiry(conn, connect);
	bool is_found;
	bool keep;

	if (!fl_sessions_ready())
	{
		wait_for_session(conn);
		return false;
	}
	is_found = fl_session_find(&conn->key, &found);
	if (!is_found && expiry == 0)
		return true;
	keep = is_found && !found.expired && !connect->clean_start;
	if (!fl_journal_stream(&journal) || (is_found && found.draining))
	{
		wait_for_session(conn);
		return false;
	}
	/* Its session ends, and with it the delay of the will (MQTT-3.1.2-8). */
	if (is_found && !keep && found.will != 0)
	{
		fl_mqtt_publish_session_will(conn->door, &found.ref);
		wait_for_session(conn);
		return false;
	}
	if (keep)
		conn->session = found.ref;
	/* From here on its time does not run. */
	if (keep && !attach(conn))
	{
		conn->session.number = 0;
		wait_for_session(conn);
		return false;
	}
	conn->session_expiry_s = expiry;
	conn->pending->session_present = keep;
	if (!prepare_events(conn, connect, is_found ? &found : NULL, keep, expiry))
		return false;
	if (conn->door->out.len == 0)
		return true;
	switch (fl_mqtt_write_events(conn, FL_MQTT_COOKIE_SESSION, true))
	{
		case FL_ERR_NONE:
			stop_waiting(conn);
			break;
		case FL_ERR_SHARD_BUSY:
			forget_session(conn);
			wait_for_session(conn);
			break;
		default:
			forget_session(conn);
			stop_waiting(conn);
			fl_mqtt_refuse_connect(conn, FL_MQTT_RC_SERVER_UNAVAILABLE, "the session could not be written");
			break;
	}
	return false;
}

/* The connection is registered: its session comes next. */
void
fl_mqtt_open_session(FlMqttConn *conn, const FlMqttConnect *connect)
{
	if (conn->state != FL_MQTT_STATE_OPENING)
	{
		fl_mqtt_set_state(conn, FL_MQTT_STATE_OPENING);
		fl_net_set_timer(&conn->net, FL_MQTT_TAKEOVER_MS);
	}
	if (!begin_session(conn, connect))
		return;
	stop_waiting(conn);
	fl_mqtt_open_connection(conn, connect);
}

void
fl_mqtt_retry_sessions(FlMqttDoor *door)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify (iter, &door->opening)
	{
		FlMqttConn *conn = dlist_container(FlMqttConn, wait_node, iter.cur);
		FlMqttConnect connect;

		/* One that has been refused is on its way out. */
		if (!fl_net_is_open(&conn->net))
			continue;
		door->current = conn;
		fl_mqtt_decode_kept(conn, &connect);
		fl_mqtt_open_session(conn, &connect);
		door->current = NULL;
	}
}

/* The events of a CONNECT are durable, or could not be written. */
static void
opened(FlMqttConn *conn, FlError err)
{
	FlMqttConnect connect;

	if (conn->state != FL_MQTT_STATE_OPENING)
		return;
	if (err != FL_ERR_NONE)
	{
		forget_session(conn);
		fl_mqtt_refuse_connect(conn, FL_MQTT_RC_SERVER_UNAVAILABLE, "the session could not be written");
		return;
	}
	fl_mqtt_decode_kept(conn, &connect);
	/* One that is kept was taken up before. */
	if (conn->session.number != 0 && !conn->pending->session_present && !attach(conn))
	{
		conn->session.number = 0;
		wait_for_session(conn);
		return;
	}
	fl_mqtt_open_connection(conn, &connect);
}

/* ---- while it is open ---- */

/* The event of a message that the session has to remember; NULL: it has not. */
uint8 *
fl_mqtt_received_event(FlMqttConn *conn, const FlMqttPublish *publish)
{
	FlMqttDoor *door = conn->door;
	FlSessionEvent event;
	FlBuf out;
	Oid journal;

	if (conn->session.number == 0 || publish->qos == 0)
		return NULL;
	/* Somebody has dropped the journal, and with it all sessions. */
	if (!fl_journal_stream(&journal))
	{
		conn->session.number = 0;
		return NULL;
	}
	event = event_of(&conn->session, FL_SESSION_RECEIVED);
	event.packet_id = publish->packet_id;
	event.qos = publish->qos;
	event.hash = fl_mqtt_content_hash(publish);
	fl_buf_init_fixed(&out, door->event, sizeof(door->event));
	fl_session_encode_event(&out, &event);
	Assert(out.len == FL_SESSION_RECEIVED_SIZE);
	return door->event;
}

/* Topic and payload: what a client may not change when it sends a message again. */
uint32
fl_mqtt_content_hash(const FlMqttPublish *publish)
{
	uint32 hash = DatumGetUInt32(hash_any(publish->topic.data, (int) publish->topic.len));

	if (publish->payload.len > 0)
		hash = hash_combine(hash, DatumGetUInt32(hash_any(publish->payload.data, (int) publish->payload.len)));
	return hash;
}

/* A release is durable before PUBCOMP.  False: not now. */
bool
fl_mqtt_write_release(FlMqttConn *conn, uint16 packet_id)
{
	FlSessionEvent event = event_of(&conn->session, FL_SESSION_RELEASED);

	event.packet_id = packet_id;
	fl_buf_reset(&conn->door->out);
	fl_session_encode_event(&conn->door->out, &event);
	return fl_mqtt_write_events(conn, FL_MQTT_COOKIE_RELEASE | packet_id, true) == FL_ERR_NONE;
}

/* What became of a delivery. */
bool
fl_mqtt_write_answer(FlMqttConn *conn, FlSessionEventType type, uint16 packet_id, uint64 cookie)
{
	FlSessionEvent event = event_of(&conn->session, type);

	event.packet_id = packet_id;
	fl_buf_reset(&conn->door->out);
	fl_session_encode_event(&conn->door->out, &event);
	return fl_mqtt_write_events(conn, cookie, cookie != 0) == FL_ERR_NONE;
}

/* MQTT-3.14.2.2.2: the client's last word on how long its session is kept. */
void
fl_mqtt_change_expiry(FlMqttConn *conn, uint32 expiry)
{
	FlSessionEvent event = event_of(&conn->session, FL_SESSION_CHANGED);

	if (conn->session.number == 0)
		return;
	event.expiry_s = limit_expiry(conn, expiry);
	event.window = conn->max_unacked;
	if (event.expiry_s == conn->session_expiry_s)
		return;
	fl_buf_reset(&conn->door->out);
	fl_session_encode_event(&conn->door->out, &event);
	/*
	 * Who comes back waits for it: he must not find a session that has ended.  Where
	 * there is no room now, it is kept as long as it was announced.
	 */
	if (fl_mqtt_write_events(conn, FL_MQTT_COOKIE_CHECKPOINT, true) == FL_ERR_NONE)
		conn->session_expiry_s = event.expiry_s;
}

/* Reading stops until the answer is here: a packet behind must not overtake. */
static void
pause_for_events(FlMqttConn *conn)
{
	conn->acks_paused = true;
	fl_net_pause(&conn->net);
}

static void
go_on(FlMqttConn *conn)
{
	conn->acks_paused = false;
	fl_mqtt_resume(conn);
}

/* The session cannot have what its client asks for: it ends, after what is under way for it. */
static void
give_up_session(FlMqttConn *conn)
{
	FlSessionEvent event = event_of(&conn->session, FL_SESSION_ENDED);

	if (conn->session_pending == 0)
	{
		fl_buf_reset(&conn->door->out);
		fl_session_encode_event(&conn->door->out, &event);
		conn->session_ending = fl_mqtt_write_events(conn, FL_MQTT_COOKIE_ENDED, true) == FL_ERR_NONE;
	}
	if (conn->session_ending)
		pause_for_events(conn);
	else
		fl_mqtt_wait_for_room(conn);
}

/*
 * With the subscriptions goes a checkpoint: QoS 1 deliveries that are under way were
 * selected by the old ones, and must not be selected anew by the new ones after a crash.
 */
static FlError
write_subscriptions(FlMqttConn *conn, const FlMqttPacket *packet, bool *nothing)
{
	FlBuf *out = &conn->door->out;
	Size before;

	fl_buf_reset(out);
	fl_mqtt_get_subscriber(conn);
	if (packet->type == FL_MQTT_SUBSCRIBE)
		fl_mqtt_note_subscribe(conn, &packet->u.subscribe, out, nothing);
	else
	{
		fl_mqtt_encode_checkpoint(conn, out, false, NULL);
		before = out->len;
		fl_mqtt_note_unsubscribe(conn, &packet->u.unsubscribe, out);
		*nothing = out->len == before;
	}
	*nothing = *nothing && !out->failed;
	if (*nothing)
	{
		fl_buf_reset(out);
		return FL_ERR_NONE;
	}
	return fl_mqtt_write_events(conn, FL_MQTT_COOKIE_SUBSCRIBED, true);
}

bool
fl_mqtt_may_subscribe(FlMqttConn *conn, const FlMqttPacket *packet)
{
	bool nothing;

	if (conn->session.number == 0)
		return true;
	if (conn->session_written)
	{
		conn->session_written = false;
		return true;
	}
	if (conn->session_writing || conn->session_ending)
	{
		/* Something else may have made it read on. */
		pause_for_events(conn);
		return false;
	}
	switch (write_subscriptions(conn, packet, &nothing))
	{
		case FL_ERR_NONE:
			if (nothing)
				return true;
			conn->session_writing = true;
			pause_for_events(conn);
			break;
		case FL_ERR_SHARD_BUSY:
			fl_mqtt_wait_for_room(conn);
			break;
		default:
			give_up_session(conn);
			break;
	}
	return false;
}

static void
subscribed(FlMqttConn *conn, FlError err)
{
	if (err != FL_ERR_NONE)
	{
		fl_mqtt_disconnect(conn, FL_MQTT_RC_UNSPECIFIED_ERROR, "subscriptions of the session could not be written");
		return;
	}
	conn->session_writing = false;
	conn->session_written = true;
	go_on(conn);
}

static void
ended(FlMqttConn *conn, FlError err)
{
	if (err != FL_ERR_NONE)
	{
		fl_mqtt_disconnect(conn, FL_MQTT_RC_UNSPECIFIED_ERROR, "the end of the session could not be written");
		return;
	}
	conn->session.number = 0;
	conn->session_ending = false;
	go_on(conn);
}

/* ---- its fate is known ---- */

/* Something that was handed over for a connection that has gone. */
static void
one_less_leaving(FlMqttDoor *door, uint64 conn_id)
{
	Leaving *leaving = hash_search(door->leaving, &conn_id, HASH_FIND, NULL);

	if (leaving == NULL || --leaving->pending > 0)
		return;
	fl_session_detach(&leaving->session, conn_id);
	fl_session_unreserve(&leaving->session);
	fl_registry_unregister(&leaving->key, conn_id);
	hash_search(door->leaving, &conn_id, HASH_REMOVE, NULL);
}

/* True: the answer was one for the session alone. */
bool
fl_mqtt_session_done(FlMqttDoor *door, FlMqttConn *conn, uint64 conn_id, uint64 cookie, FlError err)
{
	if (!(cookie & FL_MQTT_COOKIE_JOURNALED))
		return false;
	if (conn == NULL)
	{
		one_less_leaving(door, conn_id);
		return true;
	}
	conn->session_pending--;
	if ((cookie & FL_MQTT_COOKIE_KIND) == 0)
		return false;
	door->current = conn;
	if ((cookie & FL_MQTT_COOKIE_KIND) == (FL_MQTT_COOKIE_SESSION & FL_MQTT_COOKIE_KIND))
		opened(conn, err);
	else if (conn->state != FL_MQTT_STATE_OPEN)
		;
	else if ((cookie & FL_MQTT_COOKIE_KIND) == (FL_MQTT_COOKIE_RELEASE & FL_MQTT_COOKIE_KIND))
		fl_mqtt_released(conn, (uint16) cookie, err);
	else if ((cookie & FL_MQTT_COOKIE_KIND) == (FL_MQTT_COOKIE_SUBSCRIBED & FL_MQTT_COOKIE_KIND))
		subscribed(conn, err);
	else if ((cookie & FL_MQTT_COOKIE_KIND) == (FL_MQTT_COOKIE_ENDED & FL_MQTT_COOKIE_KIND))
		ended(conn, err);
	else if ((cookie & FL_MQTT_COOKIE_KIND) == (FL_MQTT_COOKIE_SENT & FL_MQTT_COOKIE_KIND))
		fl_mqtt_sent_written(conn, err);
	else if ((cookie & FL_MQTT_COOKIE_KIND) == (FL_MQTT_COOKIE_SENT_RELEASED & FL_MQTT_COOKIE_KIND))
		fl_mqtt_sent_released(conn, (uint16) cookie, err);
	door->current = NULL;
	return true;
}

/*
 * The connection closes, and leaves the registry: at once, or when what is under
 * way for it has come to an end.
 */
void
fl_mqtt_leave_session(FlMqttConn *conn)
{
	Leaving *leaving;
	bool found;

	if (conn->session_pending == 0)
	{
		forget_session(conn);
		if (conn->registered)
			fl_registry_unregister(&conn->key, conn->id);
		return;
	}
	leaving = hash_search(conn->door->leaving, &conn->id, HASH_ENTER, &found);
	leaving->key = conn->key;
	leaving->session = conn->session;
	leaving->pending = conn->session_pending;
	conn->session.number = 0;
}
