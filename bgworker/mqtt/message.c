/*
 * message.c
 *		A record of the log as a message for subscribers.
 *
 * The reverse of headers.c: reserved headers become the standard's properties,
 * all others user properties in order.  Headers that MQTT cannot carry (a NULL
 * value, bytes that are no UTF-8, more than 65,535 bytes) are left out: a
 * Kafka producer may have written them, and ill-formed UTF-8 must never be sent
 * (MQTT-1.5.4-1, case O11).
 *
 * A message borrows from its record.  fl_mqtt_message_share copies it once for
 * all connections that have to keep it.
 */
#include "postgres.h"

#include "fleetlog/topic.h"
#include "fleetlog/utf8.h"
#include "mqtt.h"

typedef struct HeaderCursor
{
	FlReader in;
	int index;
	int count;
	int reserved;
} HeaderCursor;

typedef struct RecordHeader
{
	FlMqttBytes name;
	FlMqttBytes value;
	bool null;
	bool reserved;
} RecordHeader;

static void
start_headers(HeaderCursor *at, const FlLogRecord *rec)
{
	fl_reader_init(&at->in, rec->headers, rec->headers ? (size_t) rec->headers_len : 0);
	at->index = 0;
	at->count = rec->headers_count;
	at->reserved = rec->reserved;
}

/* False at the end, and where the bytes are not what they should be. */
static bool
next_header(HeaderCursor *at, RecordHeader *h)
{
	int32 len;

	if (at->index >= at->count)
		return false;
	len = fl_read_varint(&at->in);
	if (len < 0)
		return false;
	h->name.data = fl_read_bytes(&at->in, (size_t) len);
	h->name.len = (uint32) len;
	len = fl_read_varint(&at->in);
	h->null = len < 0;
	h->value.len = len < 0 ? 0 : (uint32) len;
	h->value.data = fl_read_bytes(&at->in, h->value.len);
	h->reserved = at->index < at->reserved;
	at->index++;
	return !at->in.failed;
}

static bool
is_named(const RecordHeader *h, const char *name)
{
	return h->name.len == strlen(name) && memcmp(h->name.data, name, h->name.len) == 0;
}

/*
 * The topic stands in fl.topic where the record key is not the topic, and is
 * the key otherwise.  A key that is no valid topic reaches no subscriber.
 */
bool
fl_mqtt_record_topic(const FlLogRecord *rec, FlMqttBytes *topic)
{
	HeaderCursor at;
	RecordHeader h;

	topic->data = rec->key;
	topic->len = rec->key_len > 0 ? (uint32) rec->key_len : 0;
	start_headers(&at, rec);
	while (at.index < at.reserved && next_header(&at, &h))
		if (is_named(&h, "fl.topic"))
		{
			topic->data = h.value.data;
			topic->len = h.value.len;
			break;
		}
	return topic->len > 0 && fl_topic_name_valid(topic->data, topic->len);
}

static void
set_property(FlMqttMessage *message, FlMqttProp prop, const RecordHeader *h)
{
	if (h->value.len <= PG_UINT16_MAX)
		fl_mqtt_props_set_bytes(&message->publish.props, prop, h->value.data, h->value.len);
}

static bool
is_text(FlMqttBytes b)
{
	return b.len <= PG_UINT16_MAX && fl_utf8_valid_mqtt(b.data, b.len);
}

static void
take_reserved(FlMqttMessage *message, const RecordHeader *h)
{
	bool text = is_text(h->value);

	if (h->null)
		return;
	if (is_named(h, "fl.qos"))
	{
		if (h->value.len == 1 && h->value.data[0] >= '0' && h->value.data[0] <= '2')
			message->publish.qos = (uint8) (h->value.data[0] - '0');
	}
	else if (is_named(h, "fl.retain"))
		message->publish.retain = true;
	else if (is_named(h, "fl.client-id"))
		message->client_id = h->value;
	else if (is_named(h, "fl.role"))
		message->role = h->value;
	else if (is_named(h, "correlation-data"))
		set_property(message, FL_MQTT_P_CORRELATION_DATA, h);
	else if (is_named(h, "message-expiry"))
	{
		if (!fl_mqtt_parse_time(h->value.data, h->value.len, &message->expires))
			message->expires = 0;
	}
	else if (is_named(h, "content-type") && text)
		set_property(message, FL_MQTT_P_CONTENT_TYPE, h);
	else if (is_named(h, "response-topic") && fl_topic_name_valid(h->value.data, h->value.len))
		set_property(message, FL_MQTT_P_RESPONSE_TOPIC, h);
	else if (is_named(h, "payload-format") && h->value.len == 1)
		fl_mqtt_props_set_int(&message->publish.props, FL_MQTT_P_PAYLOAD_FORMAT, h->value.data[0] == '1');
}

/* *message borrows from rec and from the door's scratch. */
void
fl_mqtt_record_message(FlMqttDoor *door, const FlLogRecord *rec, int32 shard, FlMqttBytes topic, const FlMount *mount,
					   FlMqttMessage *message)
{
	FlMqttProps *props = &message->publish.props;
	HeaderCursor at;
	RecordHeader h;
	bool by_mqtt = false;

	memset(message, 0, offsetof(FlMqttMessage, publish));
	message->mount = fl_mount_stat(mount);
	message->ts = rec->ts;
	message->log_offset = rec->log_offset;
	message->stream = mount->stream;
	message->shard = shard;
	message->epoch = rec->leader_epoch;
	message->feed = -1;
	message->aside = false;
	message->command = fl_mqtt_is_command(mount, topic);
	fl_mqtt_props_init(props);
	message->publish.dup = false;
	message->publish.retain = false;
	/* A record that came by no MQTT packet is worth delivering at QoS 1. */
	message->publish.qos = 1;
	message->publish.packet_id = 0;
	message->publish.topic = topic;
	message->publish.payload.data = rec->payload;
	message->publish.payload.len = rec->payload_len > 0 ? (uint32) rec->payload_len : 0;
	message->client_id.data = NULL;
	message->client_id.len = 0;
	message->role.data = rec->role;
	message->role.len = rec->role != NULL ? (uint32) rec->role_len : 0;
	message->tenant.data = rec->tenant;
	message->tenant.len = rec->tenant_len > 0 ? (uint32) rec->tenant_len : 0;
	message->device.data = rec->device;
	message->device.len = rec->device_len > 0 ? (uint32) rec->device_len : 0;
	start_headers(&at, rec);
	props->users = door->users;
	while (next_header(&at, &h))
	{
		if (h.reserved)
		{
			by_mqtt |= is_named(&h, "fl.received-at");
			take_reserved(message, &h);
		}
		else if (!h.null && is_text(h.name) && is_text(h.value) && props->user_count < FL_HEADERS_MAX_COUNT)
		{
			door->users[props->user_count].name = h.name;
			door->users[props->user_count].value = h.value;
			props->user_count++;
		}
	}
	/* The client id is left out where it is the device's id (headers.c). */
	if (by_mqtt && message->client_id.data == NULL)
		message->client_id = message->device;
}

/* ---- sharing ---- */

static FlMqttBytes
copy_bytes(char **room, FlMqttBytes from)
{
	FlMqttBytes to = {(const uint8 *) *room, from.len};

	if (from.len > 0)
		memcpy(*room, from.data, from.len);
	*room += from.len;
	return to;
}

static bool
is_bytes_property(FlMqttProp prop)
{
	return prop == FL_MQTT_P_CONTENT_TYPE || prop == FL_MQTT_P_RESPONSE_TOPIC || prop == FL_MQTT_P_CORRELATION_DATA;
}

static Size
bytes_of_message(const FlMqttMessage *m)
{
	const FlMqttProps *props = &m->publish.props;
	Size size = m->publish.topic.len + m->publish.payload.len + m->client_id.len + m->tenant.len + m->device.len +
				m->role.len;

	for (int p = 0; p < FL_MQTT_PROP_COUNT; p++)
		if (fl_mqtt_props_has(props, (FlMqttProp) p) && is_bytes_property((FlMqttProp) p))
			size += props->value[p].num;
	for (uint32 i = 0; i < props->user_count; i++)
		size += props->users[i].name.len + props->users[i].value.len;
	return size;
}

static void
copy_properties(FlMqttMessage *copy, FlMqttUserProperty *users, char **room)
{
	FlMqttProps *props = &copy->publish.props;

	for (int p = 0; p < FL_MQTT_PROP_COUNT; p++)
		if (fl_mqtt_props_has(props, (FlMqttProp) p) && is_bytes_property((FlMqttProp) p))
		{
			FlMqttBytes value = copy_bytes(room, fl_mqtt_props_bytes(props, (FlMqttProp) p));

			props->value[p].data = value.data;
		}
	for (uint32 i = 0; i < props->user_count; i++)
	{
		users[i].name = copy_bytes(room, props->users[i].name);
		users[i].value = copy_bytes(room, props->users[i].value);
	}
	props->users = users;
}

/* A counted reference: to the message itself if it is shared, else to a copy. */
FlMqttMessage *
fl_mqtt_message_share(FlMqttDoor *door, FlMqttMessage *message)
{
	Size users_size = sizeof(FlMqttUserProperty) * message->publish.props.user_count;
	Size size = sizeof(FlMqttMessage) + users_size + bytes_of_message(message);
	FlMqttMessage *copy;
	char *room;

	if (message->refs > 0)
	{
		message->refs++;
		return message;
	}
	copy = MemoryContextAllocHuge(door->context, size);
	*copy = *message;
	copy->refs = 1;
	copy->size = size;
	door->message_bytes += size;
	room = (char *) copy + sizeof(FlMqttMessage) + users_size;
	copy->publish.topic = copy_bytes(&room, message->publish.topic);
	copy->publish.payload = copy_bytes(&room, message->publish.payload);
	copy->client_id = copy_bytes(&room, message->client_id);
	copy->tenant = copy_bytes(&room, message->tenant);
	copy->device = copy_bytes(&room, message->device);
	copy->role = copy_bytes(&room, message->role);
	copy_properties(copy, (FlMqttUserProperty *) (copy + 1), &room);
	return copy;
}

void
fl_mqtt_message_release(FlMqttDoor *door, FlMqttMessage *message)
{
	if (--message->refs > 0)
		return;
	door->message_bytes -= message->size;
	pfree(message);
}
