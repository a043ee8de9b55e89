/*
 * will.c
 *		Will messages: kept as an encoded PUBLISH, published when the connection
 *		ends without a normal DISCONNECT (MQTT-3.1.2-8), or later.
 *
 * A delay ends with the session.  Where that ends with the connection (session expiry is
 * 0) the delay does, too (MQTT-3.1.3-9, case O32), and the will is with the connection.
 * Else the session keeps it (src/session/wills.c), with whose it is: it is in the journal
 * before CONNACK, the next CONNECT of the client replaces it or takes it away, and when it
 * is due the keeper lists it and the first door that looks publishes it.
 *
 * A will goes the way of every publish: rights, mount, record; rights are those of when
 * it is published.  At server shutdown wills are not published: all devices are about to
 * come back (5.0, 3.1.2.5 lets a server defer them).  Those of sessions wait for that;
 * their delay begins at the next start.
 */
#include "postgres.h"

#include "utils/hsearch.h"

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

#define MAX_PUBLISHING 256 /* wills of sessions that are on their way */

/* One of them. */
typedef struct SessionWill
{
	uint64 id; /* hash key, of the kind that connections have */
	FlSessionWill will;
	bool refused; /* it is not published; that is being written */
} SessionWill;

static HTAB *publishing = NULL; /* SessionWill */

/* What is being worked on; after an error it is given back. */
static FlSessionWill held;

/* A will that was given up, and for which the journal had no room. */
typedef struct Discarded
{
	dlist_node node;
	FlSessionWill will;
} Discarded;

static dlist_head discarded = DLIST_STATIC_INIT(discarded);

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

/*
 * What would not be published is refused while its client can be told.
 * As the rights and mounts are now; they may be others when it is published, where they
 * are asked again.
 */
FlMqttReason
fl_mqtt_judge_will(FlMqttConn *conn, const FlMqttConnect *connect, const char **why)
{
	const FlMqttWill *will = &connect->will;
	const char *topic = (const char *) will->topic.data;
	const FlMount *mount = fl_mount_match(topic, will->topic.len);
	int levels = fl_topic_levels(will->topic.data, will->topic.len);
	const char *rule;

	if (levels > conn->max_levels || (mount != NULL && mount->max_topic_levels > 0 && levels > mount->max_topic_levels))
	{
		*why = "its will topic has too many levels";
		return FL_MQTT_RC_TOPIC_NAME_INVALID;
	}
	if (!fl_acl_check(fl_mqtt_identity(conn), FL_ACTION_PUBLISH, topic, will->topic.len, &rule))
	{
		*why = "it has no right to publish to the topic of its will";
		return FL_MQTT_RC_NOT_AUTHORIZED;
	}
	if (mount != NULL && mount->max_payload_bytes > 0 && will->payload.len > (uint32) mount->max_payload_bytes)
	{
		*why = "its will is larger than max_payload_bytes of its mount";
		return FL_MQTT_RC_QUOTA_EXCEEDED;
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
	/* The delay belongs to no PUBLISH. */
	publish.props.present &= ~(1u << FL_MQTT_P_WILL_DELAY);
	fl_buf_reset(out);
	fl_mqtt_encode_publish(out, (FlMqttVersion) conn->version, &publish);
	if (out->failed)
		elog(ERROR, "fleetlog: will could not be kept");
	conn->will = MemoryContextAlloc(conn->door->context, offsetof(FlMqttWillMessage, bytes) + out->len);
	conn->will->qos = publish.qos;
	conn->will->version = conn->version;
	conn->will->stored = false;
	conn->will->number = 0;
	conn->will->len = (uint32) out->len;
	memcpy(conn->will->bytes, out->data, out->len);
	fl_buf_reset(out);
}

static FlError
route_will(FlMqttDoor *door, const FlIdentity *identity, const FlMqttWillMessage *will, uint64 id, const char **why)
{
	FlMqttVersion version = (FlMqttVersion) will->version;
	FlMqttFrame frame;
	FlMqttFault fault;
	FlMqttPublish publish;

	if (fl_mqtt_frame_next(will->bytes, will->len, version, FL_MQTT_FROM_CLIENT, will->len, &frame, &fault) != FL_OK ||
		fl_mqtt_decode_publish(&frame, version, FL_MQTT_FROM_CLIENT, &publish, &fault) != FL_OK)
	{
		*why = "it does not decode";
		return FL_ERR_MALFORMED;
	}
	publish.packet_id = 0;
	door->received = fl_wall_now();
	return fl_mqtt_route(door, identity, identity->client_id, identity->client_id_len, &publish, version, id, why);
}

static void
log_refused(FlMqttConn *conn, FlError err, const char *why)
{
	FL_COUNT(FL_C_PUBLISH_REFUSED, 1);
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_REFUSED))
		ereport(LOG, (errmsg("fleetlog: the will of %s was not published: %s", fl_mqtt_name(conn),
							 why ? why : fl_error_info(err)->text)));
}

/* ---- of a connection ---- */

/* Its will and name are taken over when they must wait. */
static void
publish_now(FlMqttConn *conn)
{
	const char *why = NULL;
	FlError err = route_will(conn->door, fl_mqtt_identity(conn), conn->will, 0, &why);

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
static void
retry_waiting(FlMqttDoor *door)
{
	while (!dlist_is_empty(&waiting))
	{
		WaitingWill *w = dlist_head_element(WaitingWill, node, &waiting);
		FlMqttConn shade = {.door = door, .who = w->who};
		const char *why = NULL;
		FlError err = route_will(door, fl_mqtt_identity(&shade), w->will, 0, &why);

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

/* ---- kept by a session ---- */

static void
encode_done(FlBuf *out, const FlSessionWill *will)
{
	FlSessionEvent event = {
		.type = FL_SESSION_WILL_DONE, .session = will->ref.number, .generation = will->ref.generation,
		.number = will->number};

	fl_session_encode_event(out, &event);
}

/*
 * The will and whose it is, in the door's scratch for headers:
 * kind u8, role u32, credential u64, lengths u8 u8 u16 of tenant, device, client id,
 * these three, version u8, QoS u8, PUBLISH.
 */
static void
encode_stored(FlMqttConn *conn, FlBuf *out)
{
	const FlMqttWho *who = conn->who;
	Size client_id_len;
	const char *client_id = fl_mqtt_client_id(conn, &client_id_len);

	fl_buf_reset(out);
	fl_write_u8(out, who->kind);
	fl_write_le32(out, who->role);
	fl_write_le64(out, (uint64) who->credential);
	fl_write_u8(out, who->tenant_len);
	fl_write_u8(out, who->device_len);
	fl_write_le16(out, who->client_id_len);
	fl_write_bytes(out, fl_mqtt_who_tenant(who), who->tenant_len);
	fl_write_bytes(out, fl_mqtt_who_device(who), who->device_len);
	fl_write_bytes(out, client_id, client_id_len);
	fl_write_u8(out, conn->will->version);
	fl_write_u8(out, conn->will->qos);
	fl_write_bytes(out, conn->will->bytes, conn->will->len);
}

/* False: it does not decode. */
static bool
decode_stored(FlMqttDoor *door, const uint8 *data, Size len, FlMqttWho **who, FlMqttWillMessage **will)
{
	FlReader in;
	FlIdentity identity = {0};
	const uint8 *client_id;
	Size tenant_len;
	Size device_len;
	Size client_id_len;
	const uint8 *tenant;
	const uint8 *device;
	FlMqttWillMessage head;

	fl_reader_init(&in, data, len);
	identity.kind = (FlIdentityKind) fl_read_u8(&in);
	identity.role = fl_read_le32(&in);
	identity.credential = (int64) fl_read_le64(&in);
	tenant_len = fl_read_u8(&in);
	device_len = fl_read_u8(&in);
	client_id_len = fl_read_le16(&in);
	tenant = fl_read_bytes(&in, tenant_len);
	device = fl_read_bytes(&in, device_len);
	client_id = fl_read_bytes(&in, client_id_len);
	head.version = fl_read_u8(&in);
	head.qos = fl_read_u8(&in);
	if (in.failed || tenant_len > FL_TENANT_MAX || device_len > FL_DEVICE_MAX || client_id_len > FL_MQTT_MAX_CLIENT_ID)
		return false;
	memcpy(identity.tenant, tenant, tenant_len);
	memcpy(identity.device, device, device_len);
	*who = fl_mqtt_pack_who(door->turn, &identity, client_id, client_id_len);
	len = fl_reader_left(&in);
	*will = MemoryContextAlloc(door->turn, offsetof(FlMqttWillMessage, bytes) + len);
	(*will)->version = head.version;
	(*will)->qos = head.qos;
	(*will)->len = (uint32) len;
	memcpy((*will)->bytes, in.pos, len);
	return true;
}

bool
fl_mqtt_note_will(FlMqttConn *conn, const FlMqttConnect *connect, uint32 kept, FlBuf *out)
{
	FlBuf *scratch = &conn->door->headers;
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_WILL);
	FlSessionWill old = {conn->session, kept};

	if (connect->will.present && conn->version == FL_MQTT_5_0 && conn->session_expiry_s > 0)
		event.delay_s = fl_mqtt_props_int(&connect->will.props, FL_MQTT_P_WILL_DELAY, 0);
	if (event.delay_s == 0)
	{
		if (kept != 0)
			encode_done(out, &old);
		return true;
	}
	if (conn->will == NULL)
		fl_mqtt_keep_will(conn, connect);
	encode_stored(conn, scratch);
	if (scratch->failed || scratch->len > FL_SESSION_MAX_WILL || !fl_session_has_room(scratch->len))
		return false;
	/* Connections of one server run have different ones, and no event of an earlier run is under way. */
	conn->will->number = (uint32) conn->id | 0x80000000;
	conn->will->stored = true;
	event.number = conn->will->number;
	event.data = scratch->data;
	event.data_len = (uint32) scratch->len;
	fl_session_encode_event(out, &event);
	return true;
}

/* MQTT-3.1.2-10: it is gone before the client can be back. */
static void
discard(FlMqttConn *conn)
{
	FlSessionWill will = {conn->session, conn->will->number};
	Discarded *d;

	fl_buf_reset(&conn->door->out);
	encode_done(&conn->door->out, &will);
	if (fl_mqtt_write_events(conn, FL_MQTT_COOKIE_CHECKPOINT, true) == FL_ERR_NONE)
		return;
	d = MemoryContextAlloc(conn->door->context, sizeof(Discarded));
	d->will = will;
	dlist_push_tail(&discarded, &d->node);
}

void
fl_mqtt_leave_will(FlMqttConn *conn)
{
	bool kept = conn->will->stored && conn->session.number != 0;

	if (conn->no_will)
	{
		if (kept)
			discard(conn);
	}
	else if (!conn->door->stopping && !(kept && fl_session_keeps_will(&conn->session, conn->will->number)))
		publish_now(conn);
}

/* WILL_DONE alone; `id`: of what waits for it, 0 for nobody. */
static FlError
write_done(FlMqttDoor *door, const FlSessionWill *will, uint64 id)
{
	FlIngestEvents events = {.wait = id != 0, .conn_id = id, .cookie = FL_MQTT_COOKIE_WILL};

	fl_buf_reset(&door->out);
	encode_done(&door->out, will);
	events.bytes = door->out.data;
	events.len = (uint32) door->out.len;
	if (!fl_journal_stream(&events.journal))
		return FL_ERR_SHARD_BUSY;
	return fl_ingest_add_events(door->ingest, &events);
}

static void
retry_discarded(FlMqttDoor *door)
{
	while (!dlist_is_empty(&discarded))
	{
		Discarded *d = dlist_head_element(Discarded, node, &discarded);

		/* Where the session has gone, so has the will. */
		if (fl_session_keeps_will(&d->will.ref, d->will.number) && write_done(door, &d->will, 0) != FL_ERR_NONE)
			return;
		dlist_delete(&d->node);
		pfree(d);
	}
}

/* Whoever may not log in any more leaves no last word. */
static FlError
route_stored(FlMqttDoor *door, const FlSessionWill *will, uint64 id, FlMqttConn *shade, const char **why)
{
	FlMqttWillMessage *message;
	const FlIdentity *identity;
	FlBuf event;
	FlError err;

	if (!decode_stored(door, door->out.data, door->out.len, &shade->who, &message))
	{
		*why = "it does not decode";
		return FL_ERR_MALFORMED;
	}
	identity = fl_mqtt_identity(shade);
	fl_mqtt_begin_transaction(door);
	if (!fl_auth_still_valid(identity))
	{
		*why = "its credential was revoked";
		return FL_ERR_NOT_AUTHORISED;
	}
	fl_buf_init_fixed(&event, door->event, sizeof(door->event));
	encode_done(&event, will);
	Assert(event.len == FL_SESSION_WILL_DONE_SIZE);
	door->record_event = door->event;
	door->record_will = true;
	err = route_will(door, identity, message, id, why);
	/* A publish that has gone to nobody's log has left the event. */
	if (err == FL_ERR_NONE && door->record_will)
		err = write_done(door, will, id);
	door->record_event = NULL;
	door->record_will = false;
	return err;
}

/*
 * It stands in door->out, and in `held`.  One that is refused is taken from its session
 * all the same: it would be refused for ever.  False: there is no room now.
 */
static bool
publish_taken(FlMqttDoor *door)
{
	FlMqttConn shade = {.door = door};
	const char *why = NULL;
	uint64 id = fl_registry_next_id();
	FlError err = route_stored(door, &held, id, &shade, &why);
	bool refused = err != FL_ERR_NONE && err != FL_ERR_SHARD_BUSY && err != FL_ERR_DISK_RESERVE;
	SessionWill *w;

	if (refused)
	{
		if (shade.who != NULL)
			log_refused(&shade, err, why);
		err = write_done(door, &held, id);
	}
	if (err != FL_ERR_NONE)
	{
		fl_session_return_will(&held, door->index, false);
		held.number = 0;
		return false;
	}
	w = hash_search(publishing, &id, HASH_ENTER, NULL);
	w->will = held;
	w->refused = refused;
	held.number = 0;
	return true;
}

static void
make_table(FlMqttDoor *door)
{
	HASHCTL ctl = {0};

	if (publishing != NULL)
		return;
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(SessionWill);
	ctl.hcxt = door->context;
	publishing = hash_create("fleetlog wills under way", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
fl_mqtt_publish_session_will(FlMqttDoor *door, const FlSessionRef *session)
{
	make_table(door);
	if (fl_session_take_will(session, door->index, &held, &door->out))
		(void) publish_taken(door);
}

static void
publish_due(FlMqttDoor *door)
{
	if (!fl_session_wills_wait() || door->stopping)
		return;
	make_table(door);
	while (hash_get_num_entries(publishing) < MAX_PUBLISHING &&
		   fl_session_next_will(door->index, &held, &door->out))
		if (!publish_taken(door))
			break;
}

void
fl_mqtt_wills_run(FlMqttDoor *door)
{
	if (held.number != 0)
	{
		/* An error came between. */
		fl_session_return_will(&held, door->index, false);
		held.number = 0;
	}
	retry_waiting(door);
	retry_discarded(door);
	publish_due(door);
}

/*
 * Where nobody can say whether the record was written, its WILL_DONE tells, which was in
 * the same transaction: if it was written, the session has no will that could be due again.
 */
bool
fl_mqtt_will_done(FlMqttDoor *door, uint64 id, FlError err)
{
	SessionWill *w = hash_search(publishing, &id, HASH_FIND, NULL);
	FlSessionWill will;

	if (w == NULL)
		return true;
	will = w->will;
	if (err == FL_ERR_NONE || w->refused || err == FL_ERR_INTERNAL || err == FL_ERR_SHARD_BUSY ||
		err == FL_ERR_MAP_CHANGED || err == FL_ERR_DISK_RESERVE)
	{
		if (err != FL_ERR_NONE)
			fl_session_return_will(&will, door->index, true);
		hash_search(publishing, &id, HASH_REMOVE, NULL);
		return err == FL_ERR_NONE;
	}
	FL_COUNT(FL_C_PUBLISH_REFUSED, 1);
	if (fl_mqtt_log_allowed(door, FL_MQTT_LOG_REFUSED))
		ereport(LOG, (errmsg("fleetlog: the will of a session was not published: %s", fl_error_info(err)->text)));
	w->refused = true;
	if (write_done(door, &will, id) == FL_ERR_NONE)
		return true;
	fl_session_return_will(&will, door->index, false);
	hash_search(publishing, &id, HASH_REMOVE, NULL);
	return false;
}

/* Something did not find room. */
bool
fl_mqtt_wills_wait(void)
{
	return waiting_count > 0 || !dlist_is_empty(&discarded);
}
