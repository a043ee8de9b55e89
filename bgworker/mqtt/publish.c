/*
 * publish.c
 *		PUBLISH from a client: may it, where does it go, and when is it
 *		acknowledged.
 *
 * The one place where PUBACKs and first PUBRECs are released is
 * fl_mqtt_ingest_done: ingest calls it when the record is durable under its
 * stream's policy, never at commit (REQUIREMENTS L5, M4).
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "fleetlog/state.h"
#include "fleetlog/topic.h"
#include "mqtt.h"
#include "packet.h"

#define KEY_ROOM (2 * FL_TOPIC_MAX_LEN) /* for an expanded template */

/* ---- refusing ---- */

/*
 * A PUBLISH that is not taken.  At QoS 0 nobody waits: it is dropped and
 * counted.  MQTT 5.0 says why in PUBACK or PUBREC, or in DISCONNECT where the
 * code is none of theirs.  MQTT 3.x can only close, or acknowledge what is dropped
 * (3.1.1 MQTT-3.3.5-2): a setting decides, and by default nothing that is not
 * stored is ever acknowledged.
 */
static void
refuse(FlMqttConn *conn, uint8 qos, uint16 packet_id, FlMqttReason reason, const char *why)
{
	FlMqttType answer = qos == 2 ? FL_MQTT_PUBREC : FL_MQTT_PUBACK;

	FL_COUNT(FL_C_PUBLISH_REFUSED, 1);
	if (qos == 0)
		return;
	if (conn->version == FL_MQTT_5_0)
	{
		if (fl_mqtt_reason_allowed(answer, (uint8) reason))
			fl_mqtt_send_refusal(conn, answer, packet_id, (uint8) reason, why);
		else
			fl_mqtt_disconnect(conn, reason, why);
	}
	else if (fl_mqtt3_refusal == FL_MQTT3_ACKNOWLEDGE)
		/* Its PUBREL, if any, finds nothing and is answered. */
		fl_mqtt_send_ack(conn, answer, packet_id, 0);
	else
		fl_mqtt_disconnect(conn, reason, why);
}

static void
log_no_mount(FlMqttDoor *door, const FlMqttPublish *publish)
{
	if (!fl_mqtt_log_allowed(door, FL_MQTT_LOG_NO_MOUNT))
		return;
	ereport(LOG, (errmsg("fleetlog: no mount for topic \"%.*s\"",
						 pg_mbcliplen((const char *) publish->topic.data, (int) publish->topic.len, 200),
						 (const char *) publish->topic.data),
				  errhint("Join its prefix to a stream: SELECT fleetlog.mount('prefix/', 'stream').")));
}

static void
log_refusal(FlMqttConn *conn, const FlMqttPublish *publish, FlError err, const char *why)
{
	if (err == FL_ERR_NO_MOUNT)
	{
		log_no_mount(conn->door, publish);
		return;
	}
	if (!fl_mqtt_log_allowed(conn->door,
							 err == FL_ERR_NOT_AUTHORISED ? FL_MQTT_LOG_NOT_AUTHORISED : FL_MQTT_LOG_REFUSED))
		return;
	ereport(LOG, (errmsg("fleetlog: %s may not publish to \"%.*s\": %s", fl_mqtt_name(conn),
						 pg_mbcliplen((const char *) publish->topic.data, (int) publish->topic.len, 200),
						 (const char *) publish->topic.data, why ? why : fl_error_info(err)->text)));
}

/* ---- topic ---- */

static void
remember_alias(FlMqttConn *conn, int alias, FlMqttBytes topic)
{
	FlMqttBytes *place;
	uint8 *copy;

	if (conn->aliases == NULL)
	{
		int max = fl_mqtt_max_topic_aliases;

		conn->aliases = MemoryContextAllocZero(conn->door->context,
											   offsetof(FlMqttAliases, topic) + sizeof(FlMqttBytes) * (Size) max);
		conn->aliases->max = max;
	}
	place = &conn->aliases->topic[alias - 1];
	copy = MemoryContextAlloc(conn->door->context, topic.len);
	memcpy(copy, topic.data, topic.len);
	if (place->data != NULL)
		pfree((void *) place->data);
	place->data = copy;
	place->len = topic.len;
}

/*
 * Replaces an alias by its topic, or remembers a new one (MQTT-3.3.2.3.4).
 * False: the connection has been ended.
 */
static bool
resolve_alias(FlMqttConn *conn, FlMqttPublish *publish)
{
	int alias;
	int max = conn->aliases ? conn->aliases->max : fl_mqtt_max_topic_aliases;

	if (!fl_mqtt_props_has(&publish->props, FL_MQTT_P_TOPIC_ALIAS))
		return true;
	alias = (int) fl_mqtt_props_int(&publish->props, FL_MQTT_P_TOPIC_ALIAS, 0);
	if (alias > max)
	{
		fl_mqtt_disconnect(conn, FL_MQTT_RC_TOPIC_ALIAS_INVALID, "topic alias above the maximum");
		return false;
	}
	if (publish->topic.len > 0)
		remember_alias(conn, alias, publish->topic);
	else if (conn->aliases == NULL || conn->aliases->topic[alias - 1].data == NULL)
	{
		fl_mqtt_disconnect(conn, FL_MQTT_RC_PROTOCOL_ERROR, "topic alias was never set");
		return false;
	}
	else
		publish->topic = conn->aliases->topic[alias - 1];
	return true;
}

/* ---- record ---- */

static const FlTemplate *
shard_template(const FlMount *mount)
{
	return mount->shard_key_same ? &mount->record_key : &mount->shard_key;
}

/* A template's value; the topic itself where the template says just that. */
static FlMqttBytes
expand(const FlTemplate *template, const FlMqttPublish *publish, const FlIdentity *identity, char *room, Size size)
{
	FlMqttBytes out = publish->topic;
	bool device = identity->kind == FL_IDENTITY_DEVICE;

	if (!template->is_topic)
	{
		Size len = fl_template_expand(template, (const char *) publish->topic.data, publish->topic.len,
									  device ? identity->tenant : NULL, device ? identity->device : NULL, room, size);

		out.data = (const uint8 *) room;
		out.len = (uint32) Min(len, size);
	}
	return out;
}

/* Keys, headers, and into the batch of its shard. */
static FlError
add_to_stream(FlMqttDoor *door, const FlMount *mount, const FlIdentity *identity, const char *client_id,
			  Size client_id_len, const FlMqttPublish *publish, FlMqttVersion version, uint64 conn_id)
{
	const FlStreamInfo *stream;
	FlIngestRecord rec = {0};
	FlError err;
	FlMqttBytes key;
	FlMqttBytes shard_key;

	if (mount->max_payload_bytes > 0 && publish->payload.len > (uint32) mount->max_payload_bytes)
		return FL_ERR_QUOTA;
	if (mount->max_topic_levels > 0 &&
		fl_topic_levels(publish->topic.data, publish->topic.len) > mount->max_topic_levels)
		return FL_ERR_TOPIC_LEVELS;
	if (!OidIsValid(mount->stream))
		return fl_mqtt_carry_in_memory(door, identity, client_id, client_id_len, publish, version);
	stream = fl_stream_lookup(mount->stream);
	if (stream == NULL)
		return FL_ERR_NO_STREAM;
	if (publish->retain && version == FL_MQTT_5_0 && !OidIsValid(mount->state))
		return FL_ERR_RETAIN;
	if (publish->retain && OidIsValid(mount->state) && publish->topic.len > FL_STATE_KEY_MAX)
		return FL_ERR_RECORD_TOO_LARGE;

	key = expand(&mount->record_key, publish, identity, door->keys, KEY_ROOM);
	shard_key =
		mount->shard_key_same ? key : expand(shard_template(mount), publish, identity, door->keys + KEY_ROOM, KEY_ROOM);
	if (fl_mqtt_build_headers(&door->headers, publish, version, identity, client_id, client_id_len, door->received,
							  !mount->record_key.is_topic) != FL_OK)
		return FL_ERR_RECORD_TOO_LARGE;

	rec.stream = stream->relid;
	rec.shards = stream->shards;
	rec.quorum = stream->durability == FL_DURABILITY_QUORUM;
	rec.codec = stream->codec;
	rec.max_record_bytes = stream->max_record_bytes;
	rec.shard_key = shard_key.data;
	rec.shard_key_len = (int32) shard_key.len;
	rec.key = key.data;
	rec.key_len = (int32) key.len;
	rec.payload = publish->payload.data ? publish->payload.data : (const uint8 *) "";
	rec.payload_len = (int32) publish->payload.len;
	rec.created_ms = FL_NO_TIMESTAMP;
	if (identity->kind == FL_IDENTITY_DEVICE)
	{
		rec.tenant = identity->tenant;
		rec.device = identity->device;
	}
	rec.sender_in_headers = true;
	rec.reserved = door->headers.data[0];
	rec.headers = door->headers.data + 1;
	rec.headers_len = (int32) door->headers.len - 1;
	rec.state = fl_state_is_value(mount, publish->retain);
	rec.mounts = fl_catalog_mounts_digest();
	rec.wait = (publish->qos > 0 || door->record_will) && conn_id != 0;
	rec.conn_id = conn_id;
	rec.cookie = publish->packet_id | (publish->qos == 2 ? FL_MQTT_COOKIE_QOS2 : 0) | door->unheard;
	if (door->record_event != NULL)
	{
		rec.event = door->record_event;
		rec.event_len = door->record_will ? FL_SESSION_WILL_DONE_SIZE : FL_SESSION_RECEIVED_SIZE;
		rec.cookie |= door->record_will ? FL_MQTT_COOKIE_WILL : FL_MQTT_COOKIE_JOURNALED;
	}
	err = fl_ingest_add(door->ingest, &rec);
	if (err == FL_ERR_NONE)
		door->record_will = false;
	return err;
}

static void
count_at_mount(const FlMount *mount, const FlMqttPublish *publish, FlError err)
{
	FlMountStat *stat = err == FL_ERR_SHARD_BUSY ? NULL : fl_mount_stat(mount);

	if (stat == NULL)
		return;
	if (err != FL_ERR_NONE)
	{
		pg_atomic_fetch_add_u64(&stat->refused, 1);
		return;
	}
	pg_atomic_fetch_add_u64(&stat->messages_in, 1);
	pg_atomic_fetch_add_u64(&stat->bytes_in, publish->payload.len);
}

static void
on_hearer(void *item, void *arg)
{
	*(bool *) arg = true;
}

/*
 * Mosquitto says in PUBACK when nobody has subscribed, which the standard leaves
 * open (3.4.2.1); of QoS 2 it does not know yet at PUBREC.  What the clients of other front doors have
 * subscribed to is not known here, and what those that are away have is not
 * compared, so it is said only where there are none of either.
 */
static uint32
find_unheard(FlMqttConn *conn, const FlMqttPublish *publish)
{
	bool heard = false;

	if (fl_mqtt_dialect != FL_MQTT_DIALECT_MOSQUITTO || conn->version != FL_MQTT_5_0 || publish->qos != 1 ||
		fl_workers != 1)
		return 0;
	fl_trie_match(conn->door->trie, publish->topic.data, publish->topic.len, on_hearer, &heard);
	return heard || fl_session_any_awaits() ? 0 : FL_MQTT_COOKIE_UNHEARD;
}

/*
 * Where a publish goes: its mount, and through it into a stream.  No
 * transaction is needed.  *why may be set to a text for the log.
 */
FlError
fl_mqtt_route(FlMqttDoor *door, const FlIdentity *identity, const char *client_id, Size client_id_len,
			  const FlMqttPublish *publish, FlMqttVersion version, uint64 conn_id, const char **why)
{
	const FlMount *mount;
	const char *rule;
	FlError err;

	if (!fl_acl_check(identity, FL_ACTION_PUBLISH, (const char *) publish->topic.data, publish->topic.len, &rule))
	{
		*why = rule;
		return FL_ERR_NOT_AUTHORISED;
	}
	mount = fl_mount_match((const char *) publish->topic.data, publish->topic.len);
	if (mount == NULL)
		return FL_ERR_NO_MOUNT;
	err = add_to_stream(door, mount, identity, client_id, client_id_len, publish, version, conn_id);
	count_at_mount(mount, publish, err);
	return err;
}

/* ---- the packet ---- */

/*
 * MQTT-3.3.4-9, MQTT-4.9: a client of MQTT 5.0 was told how many it may have
 * unacknowledged; others are read no further until there is room.  False: not
 * now.
 */
static bool
check_receive_maximum(FlMqttConn *conn)
{
	if (conn->unacked < conn->max_unacked)
		return true;
	if (conn->version == FL_MQTT_5_0)
	{
		fl_mqtt_disconnect(conn, FL_MQTT_RC_RECEIVE_MAXIMUM_EXCEEDED, "receive maximum exceeded");
		return false;
	}
	conn->acks_paused = true;
	fl_net_pause(&conn->net);
	return false;
}

void
fl_mqtt_wait_for_room(FlMqttConn *conn)
{
	conn->full = true;
	dlist_push_tail(&conn->door->full, &conn->wait_node);
	fl_net_pause(&conn->net);
}

bool
fl_mqtt_handle_publish(FlMqttConn *conn, FlMqttPublish *publish)
{
	const char *why = NULL;
	const char *client_id;
	Size client_id_len;
	FlError err;

	/* MQTT-3.3.4-6, case O44.  Where it is borne it goes no further than here: nothing reads it. */
	if (publish->props.subscription_id_count > 0 && fl_mqtt_dialect == FL_MQTT_DIALECT_STRICT)
	{
		fl_mqtt_out_of_order(conn, "subscription identifier in a client's PUBLISH");
		return true;
	}
	if (!resolve_alias(conn, publish))
		return true;
	/* What is sent again is taken whatever is under way. */
	switch (fl_mqtt_check_repeat(conn, publish))
	{
		case FL_MQTT_NEW:
			break;
		case FL_MQTT_REPEATED:
			return true;
		case FL_MQTT_NOT_YET:
			fl_mqtt_wait_for_room(conn);
			return false;
	}
	if (publish->qos > 0 && !check_receive_maximum(conn))
		return false;
	if (publish->qos == 2 && !fl_mqtt_reserve_received(conn))
		return true;
	if (fl_topic_levels(publish->topic.data, publish->topic.len) > conn->max_levels)
	{
		FL_COUNT(FL_C_PUBLISH_IN, 1);
		refuse(conn, publish->qos, publish->packet_id, FL_MQTT_RC_TOPIC_NAME_INVALID, "too many topic levels");
		return true;
	}
	client_id = fl_mqtt_client_id(conn, &client_id_len);
	conn->door->record_event = fl_mqtt_received_event(conn, publish);
	conn->door->unheard = find_unheard(conn, publish);
	err = fl_mqtt_route(conn->door, fl_mqtt_identity(conn), client_id, client_id_len, publish,
						(FlMqttVersion) conn->version, conn->id, &why);
	if (err == FL_ERR_NONE && conn->door->record_event != NULL)
		conn->session_pending++;
	conn->door->record_event = NULL;
	conn->door->unheard = 0;
	if (err == FL_ERR_SHARD_BUSY)
	{
		fl_mqtt_wait_for_room(conn);
		return false;
	}
	FL_COUNT(FL_C_PUBLISH_IN, 1);
	conn->published++;
	conn->published_to = fl_ingest_added(conn->door->ingest);
	conn->stats_dirty = true;
	/* 3.x cannot be told; there the message is a message and nothing is retained. */
	if (err == FL_ERR_RETAIN)
	{
		log_refusal(conn, publish, err, why);
		FL_COUNT(FL_C_PUBLISH_REFUSED, 1);
		fl_mqtt_disconnect(conn, FL_MQTT_RC_RETAIN_NOT_SUPPORTED, fl_error_info(err)->text);
	}
	else if (err != FL_ERR_NONE)
	{
		log_refusal(conn, publish, err, why);
		refuse(conn, publish->qos, publish->packet_id, (FlMqttReason) fl_error_info(err)->mqtt_reason,
			   why ? why : fl_error_info(err)->text);
	}
	else if (publish->qos > 0)
	{
		conn->unacked++;
		if (publish->qos == 2)
			fl_mqtt_add_received(conn, publish->packet_id);
	}
	return true;
}

/* Connections that had to wait may try again; those that find no room queue up anew. */
void
fl_mqtt_resume_full(FlMqttDoor *door)
{
	dlist_mutable_iter iter;

	if (dlist_is_empty(&door->full) || !fl_ingest_has_room(door->ingest))
		return;
	dlist_foreach_modify (iter, &door->full)
	{
		FlMqttConn *conn = dlist_container(FlMqttConn, wait_node, iter.cur);

		dlist_delete(&conn->wait_node);
		conn->wait_node.next = conn->wait_node.prev = NULL;
		conn->full = false;
		fl_mqtt_resume(conn);
	}
}

#define SETTLE_MS 1000 /* that a SUBSCRIBE waits */

/*
 * What a client has published lies before what it asks for afterwards: a subscription that
 * is made later does not select it, and finds it among the retained values.  False: some
 * of it is on its way to the log yet.
 */
bool
fl_mqtt_has_settled(FlMqttConn *conn)
{
	FlMqttDoor *door = conn->door;

	if (conn->published_to == 0 || fl_ingest_await(door->ingest, conn->published_to))
	{
		conn->published_to = 0;
		return true;
	}
	conn->full = true;
	dlist_push_tail(&door->settling, &conn->wait_node);
	fl_net_pause(&conn->net);
	return false;
}

/* A shard that is held, or a quorum that is away, must not keep a client from subscribing. */
void
fl_mqtt_resume_settled(FlMqttDoor *door)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify (iter, &door->settling)
	{
		FlMqttConn *conn = dlist_container(FlMqttConn, wait_node, iter.cur);

		if (!fl_ingest_await(door->ingest, conn->published_to) &&
			fl_net_now(door->net) - conn->last_packet_ms < SETTLE_MS)
			continue;
		dlist_delete(&conn->wait_node);
		conn->wait_node.next = conn->wait_node.prev = NULL;
		conn->full = false;
		conn->published_to = 0;
		fl_mqtt_resume(conn);
	}
}

/* ---- the acknowledgement ---- */

void
fl_mqtt_one_less_unacked(FlMqttConn *conn)
{
	if (conn->unacked > 0)
		conn->unacked--;
	if (conn->acks_paused && conn->unacked < conn->max_unacked)
	{
		conn->acks_paused = false;
		fl_mqtt_resume(conn);
	}
}

static void
acknowledge(FlMqttConn *conn, uint8 qos, uint16 packet_id, FlMqttReason reason)
{
	if (qos == 2)
		fl_mqtt_received_stored(conn, packet_id);
	else
		fl_mqtt_send_ack(conn, FL_MQTT_PUBACK, packet_id, (uint8) reason);
	/* At QoS 2 a client of MQTT 5 counts up to PUBCOMP (MQTT-4.9). */
	if (qos == 1 || conn->version != FL_MQTT_5_0)
		fl_mqtt_one_less_unacked(conn);
}

static void
refuse_later(FlMqttConn *conn, uint8 qos, uint16 packet_id, FlError err)
{
	if (qos == 2)
		fl_mqtt_received_refused(conn, packet_id);
	fl_mqtt_one_less_unacked(conn);
	if (err == FL_ERR_INTERNAL || err == FL_ERR_MAP_CHANGED || err == FL_ERR_SHARD_BUSY)
		/*
		 * Not known to be written, and no fault of the message: without an
		 * acknowledgement the device sends it again (MQTT-4.4.0-1).
		 */
		fl_mqtt_disconnect(conn, FL_MQTT_RC_UNSPECIFIED_ERROR, "the log could not take a message");
	else
		refuse(conn, qos, packet_id, (FlMqttReason) fl_error_info(err)->mqtt_reason, fl_error_info(err)->text);
}

/* Tests only: point "ack_<packet identifier>_fails" raises an error in the middle of the answer. */
static void
fail_as_told(uint64 cookie)
{
	char point[FL_STOP_POINT_LEN];

	if (likely(fl_stop_points == NULL || fl_stop_points[0] == '\0'))
		return;
	snprintf(point, sizeof(point), "ack_%u_fails", (unsigned) (uint16) cookie);
	if (fl_stop_points_hold(point))
		elog(ERROR, "an acknowledgement fails, as a test has asked for");
}

/*
 * The fate of a record is known.  With FL_ERR_NONE it is durable: this is the
 * one place from which a PUBACK leaves (MQTT-4.3.2-4), or a first PUBREC.
 */
bool
fl_mqtt_ingest_done(void *arg, uint64 conn_id, uint64 cookie, FlError err, Oid stream, int32 shard, int64 log_offset)
{
	FlMqttDoor *door = arg;
	FlMqttConn *conn;

	FL_STOP_POINT("door_before_ack");
	if (cookie & FL_MQTT_COOKIE_WILL)
		return fl_mqtt_will_done(door, conn_id, err);
	conn = fl_mqtt_find(door, conn_id);
	if (fl_mqtt_session_done(door, conn, conn_id, cookie, err))
		return fl_mqtt_find(door, conn_id) != NULL;
	if (conn == NULL || conn->state != FL_MQTT_STATE_OPEN)
		return false;
	door->current = conn;
	fail_as_told(cookie);
	if (err == FL_ERR_NONE)
		acknowledge(conn, cookie & FL_MQTT_COOKIE_QOS2 ? 2 : 1, (uint16) cookie,
					cookie & FL_MQTT_COOKIE_UNHEARD ? FL_MQTT_RC_NO_MATCHING_SUBSCRIBERS : FL_MQTT_RC_SUCCESS);
	else
		refuse_later(conn, cookie & FL_MQTT_COOKIE_QOS2 ? 2 : 1, (uint16) cookie, err);
	door->current = NULL;
	/* Above it may have been closed. */
	conn = fl_mqtt_find(door, conn_id);
	return conn != NULL && conn->state == FL_MQTT_STATE_OPEN;
}
