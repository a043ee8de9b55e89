/*
 * command.c
 *		Commands on their way to a device (C1, C2): the envelope for clients of MQTT 3,
 *		and receipts.
 *
 * A command's record has a JSON payload and tells its id and times in user properties.
 * Who speaks MQTT 5 gets it as it is; who speaks MQTT 3 has no properties and gets them
 * in an envelope around the payload: {"id", "name", "issued_at", "expires_at", "payload"}.
 *
 * When a device acknowledges a delivery at QoS 1, that becomes a record of the stream of
 * commands (fleetlog/command.h), in front of all that the device says afterwards by this
 * door.  So does a delivery that was left out because the command had expired.  Nobody
 * waits for a receipt; where there is no room for it the PUBACK is read again later.
 */
#include "postgres.h"

#include "fleetlog/command.h"
#include "mqtt.h"
#include "packet.h"

/* `<prefix>cmd/<device>/req/<name>` */
static FlMqttBytes
command_name(const FlMount *mount, FlMqttBytes topic)
{
	FlMqttBytes none = {NULL, 0};
	const uint8 *end = topic.data + topic.len;
	const uint8 *slash = memchr(topic.data + mount->prefix_len, '/', topic.len - mount->prefix_len);
	FlMqttBytes name;

	if (slash == NULL || end - slash <= 5 || memcmp(slash, "/req/", 5) != 0)
		return none;
	name.data = slash + 5;
	name.len = (uint32) (end - name.data);
	return name;
}

/* Only the dispatcher writes there. */
bool
fl_mqtt_is_command(const FlMount *mount, FlMqttBytes topic)
{
	return mount->commands && command_name(mount, topic).len > 0;
}

/* ---- the envelope ---- */

static FlMqttBytes
find_user(const FlMqttMessage *message, const char *name)
{
	const FlMqttProps *props = &message->publish.props;
	FlMqttBytes none = {(const uint8 *) "", 0};

	for (uint32 i = 0; i < props->user_count; i++)
		if (props->users[i].name.len == strlen(name) && memcmp(props->users[i].name.data, name, props->users[i].name.len) == 0)
			return props->users[i].value;
	return none;
}

/* Ids, names and times need no escapes: send_command lets no others in. */
static void
put_field(FlBuf *out, const char *before, FlMqttBytes value)
{
	fl_write_bytes(out, before, strlen(before));
	fl_write_bytes(out, value.data, value.len);
}

FlMqttBytes
fl_mqtt_command_envelope(FlMqttDoor *door, const FlMqttMessage *message)
{
	FlBuf *out = &door->envelope;
	FlMqttBytes topic = message->publish.topic;
	FlMqttBytes name = {topic.data + topic.len, 0};
	FlMqttBytes envelope;

	while (name.len < topic.len && name.data[-1] != '/')
	{
		name.data--;
		name.len++;
	}
	fl_buf_reset(out);
	put_field(out, "{\"id\":\"", find_user(message, FL_COMMAND_P_ID));
	put_field(out, "\",\"name\":\"", name);
	put_field(out, "\",\"issued_at\":\"", find_user(message, FL_COMMAND_P_ISSUED));
	put_field(out, "\",\"expires_at\":\"", find_user(message, FL_COMMAND_P_EXPIRES));
	put_field(out, "\",\"payload\":", message->publish.payload);
	fl_write_bytes(out, "}", 1);
	envelope.data = out->data;
	envelope.len = (uint32) out->len;
	return envelope;
}

/* ---- receipts ---- */

/* False: there is no room for it now. */
static bool
write_receipt(FlMqttConn *conn, const char *what, int32 shard, int64 log_offset, uint8 reason)
{
	FlMqttDoor *door = conn->door;
	const FlIdentity *identity = fl_mqtt_identity(conn);
	const FlStreamInfo *stream = fl_stream_lookup(fl_command_stream());
	FlIngestRecord rec = {0};
	char payload[64];

	if (stream == NULL || identity->kind != FL_IDENTITY_DEVICE)
		return true;
	rec.stream = stream->relid;
	rec.shards = stream->shards;
	rec.quorum = stream->durability == FL_DURABILITY_QUORUM;
	rec.codec = stream->codec;
	rec.max_record_bytes = stream->max_record_bytes;
	/* Where the device's commands and answers are, too. */
	rec.shard_key = (const uint8 *) identity->device;
	rec.shard_key_len = (int32) strlen(identity->device);
	rec.key = (const uint8 *) FL_COMMAND_RECEIPT;
	rec.key_len = (int32) strlen(FL_COMMAND_RECEIPT);
	rec.payload = (const uint8 *) payload;
	rec.payload_len = snprintf(payload, sizeof(payload), "%s %d " INT64_FORMAT " %d", what, shard, log_offset, reason);
	rec.created_ms = FL_NO_TIMESTAMP;
	rec.tenant = identity->tenant;
	rec.device = identity->device;
	rec.headers = (const uint8 *) "";
	rec.headers_len = 1;
	rec.mounts = fl_catalog_mounts_digest();
	return fl_ingest_add(door->ingest, &rec) != FL_ERR_SHARD_BUSY;
}

bool
fl_mqtt_note_delivered(FlMqttConn *conn, const FlMqttSent *sent, uint8 reason)
{
	const FlMqttFeed *feed = sent->feed >= 0 ? &conn->door->feeds[sent->feed] : NULL;

	if (feed == NULL || feed->stream != fl_command_stream() || conn->who->kind != FL_IDENTITY_DEVICE)
		return true;
	return write_receipt(conn, "delivered", feed->shard, sent->log_offset, reason);
}

void
fl_mqtt_note_expired(FlMqttConn *conn, const FlMqttMessage *message)
{
	(void) write_receipt(conn, "expired", message->shard, message->log_offset, 0);
}
