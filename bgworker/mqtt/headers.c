/*
 * headers.c
 *		Properties of a PUBLISH as headers of a record.
 *
 * Ours come first (reserved): what the standard's properties say, and `fl.*`
 * for what only the packet knew.  The client's user properties follow under
 * their own names, in order; one that bears a reserved name stays a user
 * property, because only the first so many headers are ours.
 *
 * This runs for every message, so what is always there is written directly:
 * names with their lengths are constants, the receipt time is made into text
 * once a millisecond, and the sender (fl.tenant, fl.device) is put in front at
 * once instead of by a second copy in ingest.
 */
#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/timestamp.h"

#include "mqtt.h"

/* Room for what is encoded in one go: names, numbers, a time, and one of our strings. */
#define BLOCK_SIZE (128 + FL_ROLE_MAX + FL_MQTT_MAX_CLIENT_ID)

StaticAssertDecl(BLOCK_SIZE > 64 + sizeof(((FlIdentity *) 0)->tenant) + sizeof(((FlIdentity *) 0)->device),
				 "the sender fits into a block");

/* A short name (up to 63 bytes: one byte of length) and its value, in the encoding of the array. */
static inline uint8 *
put_header(uint8 *p, const char *name, Size name_len, const void *value, Size value_len)
{
	*p++ = (uint8) (name_len << 1);
	memcpy(p, name, name_len);
	p = fl_put_varint(p + name_len, (int32) value_len);
	memcpy(p, value, value_len);
	return p + value_len;
}

#define PUT_HEADER(p, name, value, value_len) put_header(p, name, sizeof(name) - 1, value, value_len)

static void
add_text(FlHeadersBuilder *b, const char *name, const char *value)
{
	fl_headers_builder_add_reserved(b, name, strlen(name), value, (int64_t) strlen(value));
}

static void
add_property(FlHeadersBuilder *b, const FlMqttProps *props, FlMqttProp prop, const char *name)
{
	FlMqttBytes value = fl_mqtt_props_bytes(props, prop);

	if (fl_mqtt_props_has(props, prop))
		fl_headers_builder_add_reserved(b, name, strlen(name), value.data ? (const void *) value.data : "", value.len);
}

/* RFC 3339 in UTC with milliseconds: the same for everybody, whatever TimeZone is. */
void
fl_mqtt_format_time(TimestampTz at, char out[FL_MQTT_TIME_LEN + 1])
{
	struct pg_tm tm;
	fsec_t fsec;

	if (timestamp2tm(at, NULL, &tm, &fsec, NULL, NULL) != 0 || tm.tm_year < 0 || tm.tm_year > 9999)
	{
		strcpy(out, "9999-12-31T23:59:59.999Z");
		return;
	}
	snprintf(out, FL_MQTT_TIME_LEN + 1, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year, tm.tm_mon, tm.tm_mday,
			 tm.tm_hour, tm.tm_min, tm.tm_sec, (int) (fsec / 1000));
}

static bool
digits(const uint8 *text, int n, int *value)
{
	*value = 0;
	for (int i = 0; i < n; i++)
	{
		if (text[i] < '0' || text[i] > '9')
			return false;
		*value = *value * 10 + (text[i] - '0');
	}
	return true;
}

/* What fl_mqtt_format_time writes; anything else is no time to us. */
bool
fl_mqtt_parse_time(const uint8 *text, Size len, TimestampTz *at)
{
	struct pg_tm tm = {0};
	int ms;

	if (len != FL_MQTT_TIME_LEN || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
		text[16] != ':' || text[19] != '.' || text[23] != 'Z')
		return false;
	if (!digits(text, 4, &tm.tm_year) || !digits(text + 5, 2, &tm.tm_mon) || !digits(text + 8, 2, &tm.tm_mday) ||
		!digits(text + 11, 2, &tm.tm_hour) || !digits(text + 14, 2, &tm.tm_min) || !digits(text + 17, 2, &tm.tm_sec) ||
		!digits(text + 20, 3, &ms))
		return false;
	if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
		tm.tm_sec > 60)
		return false;
	return tm2timestamp(&tm, ms * 1000, NULL, at) == 0;
}

static void
add_standard(FlHeadersBuilder *b, const FlMqttProps *props, TimestampTz now)
{
	char text[FL_MQTT_TIME_LEN + 1];

	add_property(b, props, FL_MQTT_P_CONTENT_TYPE, "content-type");
	add_property(b, props, FL_MQTT_P_RESPONSE_TOPIC, "response-topic");
	add_property(b, props, FL_MQTT_P_CORRELATION_DATA, "correlation-data");
	if (fl_mqtt_props_has(props, FL_MQTT_P_PAYLOAD_FORMAT))
		add_text(b, "payload-format", fl_mqtt_props_int(props, FL_MQTT_P_PAYLOAD_FORMAT, 0) ? "1" : "0");
	if (fl_mqtt_props_has(props, FL_MQTT_P_MESSAGE_EXPIRY))
	{
		fl_mqtt_format_time(now + fl_mqtt_props_int(props, FL_MQTT_P_MESSAGE_EXPIRY, 0) * USECS_PER_SEC, text);
		add_text(b, "message-expiry", text);
	}
}

/* The text of a time that most calls share: messages of one millisecond. */
static const char *
time_text(TimestampTz at)
{
	static char text[FL_MQTT_TIME_LEN + 1];
	static TimestampTz known = PG_INT64_MIN;

	/* The text is cut off, not rounded, so it holds up to the next millisecond. */
	if (at < known || at >= known + 1000)
	{
		fl_mqtt_format_time(at, text);
		known = at >= 0 ? at - at % 1000 : at;
	}
	return text;
}

/* Decimal digits; at most five. */
static Size
number_text(uint16 n, char out[5])
{
	char *p = out + 5;
	Size len;

	do
		*--p = (char) ('0' + n % 10);
	while ((n /= 10) != 0);
	len = (Size) (out + 5 - p);
	memmove(out, p, len);
	return len;
}

/* The sender: columns of the record, where the access method looks for them first. */
static void
add_sender(FlHeadersBuilder *b, const FlIdentity *identity)
{
	uint8 block[BLOCK_SIZE];
	uint8 *p = block;

	if (identity->kind != FL_IDENTITY_DEVICE)
		return;
	p = PUT_HEADER(p, "fl.tenant", identity->tenant, strlen(identity->tenant));
	p = PUT_HEADER(p, "fl.device", identity->device, strlen(identity->device));
	fl_headers_builder_add_encoded(b, block, (size_t) (p - block), 2);
}

/* Is the client id worth a header?  The usual one, the device's own id, is not. */
static bool
differs_from_device(const FlIdentity *identity, const char *client_id, Size len)
{
	return identity->kind != FL_IDENTITY_DEVICE || strlen(identity->device) != len ||
		   memcmp(identity->device, client_id, len) != 0;
}

/* What the packet and the connection know. */
static void
add_packet(FlHeadersBuilder *b, const FlMqttPublish *publish, const FlIdentity *identity, const char *client_id,
		   Size client_id_len, TimestampTz received)
{
	uint8 block[BLOCK_SIZE];
	uint8 *p = block;
	int count = 2;

	p = PUT_HEADER(p, "fl.qos", &"012"[publish->qos], 1);
	if (publish->retain)
	{
		p = PUT_HEADER(p, "fl.retain", "1", 1);
		count++;
	}
	if (publish->qos > 0 && publish->packet_id != 0)
	{
		char text[5];

		p = PUT_HEADER(p, "fl.packet-id", text, number_text(publish->packet_id, text));
		count++;
	}
	p = PUT_HEADER(p, "fl.received-at", time_text(received), FL_MQTT_TIME_LEN);
	if (identity->kind == FL_IDENTITY_ROLE)
	{
		p = PUT_HEADER(p, "fl.role", identity->role_name, strlen(identity->role_name));
		count++;
	}
	if (differs_from_device(identity, client_id, client_id_len))
	{
		Assert(client_id_len <= FL_MQTT_MAX_CLIENT_ID);
		p = PUT_HEADER(p, "fl.client-id", client_id, client_id_len);
		count++;
	}
	fl_headers_builder_add_encoded(b, block, (size_t) (p - block), count);
}

/* FlHeaders form (headers.h) into out, which is reset first. */
FlResult
fl_mqtt_build_headers(FlBuf *out, const FlMqttPublish *publish, FlMqttVersion version, const FlIdentity *identity,
					  const char *client_id, Size client_id_len, TimestampTz received, bool with_topic)
{
	FlHeadersBuilder b;
	FlMqttPropCursor at = {0, 0};
	FlMqttUserProperty user;

	fl_buf_reset(out);
	fl_headers_builder_begin(&b, out);
	add_sender(&b, identity);
	if (with_topic)
		fl_headers_builder_add_reserved(&b, "fl.topic", 8, publish->topic.data, publish->topic.len);
	if (version == FL_MQTT_5_0)
		add_standard(&b, &publish->props, received);
	add_packet(&b, publish, identity, client_id, client_id_len, received);
	while (version == FL_MQTT_5_0 && fl_mqtt_props_next_user(&publish->props, &at, &user))
		fl_headers_builder_add(&b, user.name.data ? (const void *) user.name.data : "", user.name.len,
							   user.value.data ? (const void *) user.value.data : "", user.value.len);
	return fl_headers_builder_end(&b);
}
