/*
 * memory.c
 *		Topics that are carried in memory only (M3): below a mount without a stream.
 *
 * What is published there at QoS 0 goes through a ring in shared memory to the
 * subscribers of all front doors (fleetlog/memory_topic.h) and nowhere else.
 * Nobody is told that it has been kept, so it is not taken at a higher QoS.
 *
 * A message has the form of a record, so that subscribers see no difference.
 */
#include "postgres.h"

#include "fleetlog/cursor.h"
#include "mqtt.h"
#include "packet.h"

#define READS_A_TURN 4 /* of a quarter of the ring each */

/* ---- in ---- */

FlError
fl_mqtt_carry_in_memory(FlMqttDoor *door, const FlIdentity *identity, const char *client_id, Size client_id_len,
						const FlMqttPublish *publish, FlMqttVersion version)
{
	FlMemoryMessage message = {0};

	if (publish->retain && version == FL_MQTT_5_0)
		return FL_ERR_RETAIN;
	if (publish->qos > 0)
		return FL_ERR_MEMORY_ONLY;
	if (fl_mqtt_build_headers(&door->headers, publish, version, identity, client_id, client_id_len, door->received,
							  false) != FL_OK)
		return FL_ERR_RECORD_TOO_LARGE;
	message.topic = publish->topic.data;
	message.topic_len = publish->topic.len;
	message.payload = publish->payload.data;
	message.payload_len = publish->payload.len;
	message.reserved = door->headers.data[0];
	message.headers = door->headers.data + 1;
	message.headers_len = (uint32) door->headers.len - 1;
	if (identity->kind == FL_IDENTITY_DEVICE)
	{
		message.tenant = (const uint8 *) identity->tenant;
		message.tenant_len = (uint32) strlen(identity->tenant);
		message.device = (const uint8 *) identity->device;
		message.device_len = (uint32) strlen(identity->device);
	}
	if (!fl_memory_publish(&message))
		return FL_ERR_RECORD_TOO_LARGE;
	door->memory_published = true;
	return FL_ERR_NONE;
}

/* ---- out ---- */

static bool
is_wanted(FlMqttDoor *door)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int m = 0; m < count; m++)
		if (!OidIsValid(mounts[m].stream) &&
			fl_trie_touches_prefix(door->trie, (const uint8 *) mounts[m].prefix, mounts[m].prefix_len))
			return true;
	return false;
}

/* Subscriptions or mounts have changed. */
void
fl_mqtt_memory_interest(FlMqttDoor *door)
{
	bool wanted = is_wanted(door);

	if (wanted == door->memory_wanted)
		return;
	if (wanted && door->memory_room == NULL)
		door->memory_room = MemoryContextAllocHuge(door->context, fl_memory_message_max());
	fl_memory_want(door->index, wanted);
	door->memory_len = door->memory_offset = 0;
	if (wanted)
		fl_memory_start(&door->memory_at);
	door->memory_wanted = wanted;
}

static void
deliver(FlMqttDoor *door, const FlMemoryMessage *message)
{
	FlReader in;
	FlLogRecord rec = {0};

	fl_reader_init(&in, message->headers, message->headers_len);
	rec.headers_count = fl_read_varint(&in);
	rec.headers = in.pos;
	rec.headers_len = (int32) (in.end - in.pos);
	rec.reserved = (int) message->reserved;
	rec.log_offset = -1;
	rec.ts = message->ts;
	rec.created_ms = FL_NO_TIMESTAMP;
	rec.tenant = message->tenant;
	rec.tenant_len = message->tenant_len > 0 ? (int32) message->tenant_len : -1;
	rec.device = message->device;
	rec.device_len = message->device_len > 0 ? (int32) message->device_len : -1;
	rec.key = message->topic;
	rec.key_len = (int32) message->topic_len;
	rec.payload = message->payload;
	rec.payload_len = (int32) message->payload_len;
	fl_mqtt_match_memory(door, &rec);
}

/* What was read.  Where delivering one message fails, the next turn goes on behind it. */
static void
deliver_room(FlMqttDoor *door)
{
	while (door->memory_offset < door->memory_len)
	{
		FlMemoryMessage message;

		fl_memory_decode(door->memory_room, &door->memory_offset, &message);
		deliver(door, &message);
	}
}

void
fl_mqtt_memory_run(FlMqttDoor *door)
{
	if (door->memory_published)
	{
		door->memory_published = false;
		fl_memory_wake_others(door->index);
	}
	if (!door->memory_wanted)
		return;
	deliver_room(door);
	for (int i = 0; i < READS_A_TURN && fl_memory_has_more(&door->memory_at); i++)
	{
		uint64 lost;

		door->memory_len = fl_memory_read(&door->memory_at, door->memory_room, &lost);
		door->memory_offset = 0;
		if (lost > 0)
			FL_COUNT(FL_C_LOST_MEMORY, lost);
		deliver_room(door);
	}
	if (fl_memory_has_more(&door->memory_at))
		door->feed_more = true;
}
