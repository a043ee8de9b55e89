/*
 * packet_connect.c
 *		CONNECT (MQTT-3.1).
 *
 * The one packet that tells its own version, so it is also the one that takes
 * no version from the caller.  connect->version is set as soon as the protocol
 * level is known: an answer to a broken CONNECT has to be in its version.
 */
#include "packet.h"

#include "fleetlog/topic.h"

#define CONNECT_RESERVED    0x01
#define CONNECT_CLEAN       0x02
#define CONNECT_WILL        0x04
#define CONNECT_WILL_QOS    0x18
#define CONNECT_WILL_RETAIN 0x20
#define CONNECT_PASSWORD    0x40
#define CONNECT_USERNAME    0x80

static bool
name_is(FlMqttBytes name, const char *text)
{
	return name.len == strlen(text) && memcmp(name.data, text, name.len) == 0;
}

/* Protocol name and level (MQTT-3.1.2-1, -2; "MQIsdp" is MQTT 3.1). */
static FlResult
decode_protocol(FlReader *in, FlMqttConnect *connect, FlMqttFault *fault)
{
	FlMqttBytes name;
	uint8_t level;

	if (!fl_mqtt_read_string(in, &name))
		return FL_MQTT_MALFORMED(fault, "bad protocol name");
	level = fl_read_u8(in);
	if (in->failed)
		return FL_MQTT_MALFORMED(fault, "CONNECT is cut short");
	if (name_is(name, "MQTT"))
	{
		connect->bridge = (level & 0x80) != 0 && (level & 0x7F) == FL_MQTT_3_1_1;
		if (level == FL_MQTT_5_0)
			connect->version = FL_MQTT_5_0;
		else
			/* what we would answer an unknown level in, too */
			connect->version = FL_MQTT_3_1_1;
		if (level != FL_MQTT_5_0 && level != FL_MQTT_3_1_1 && !connect->bridge)
			return fl_mqtt_fault(fault, FL_MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol level");
	}
	else if (name_is(name, "MQIsdp"))
	{
		connect->bridge = level == (0x80 | FL_MQTT_3_1);
		connect->version = FL_MQTT_3_1;
		if (level != FL_MQTT_3_1 && !connect->bridge)
			return fl_mqtt_fault(fault, FL_MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol level");
	}
	else
		return FL_MQTT_MALFORMED(fault, "unknown protocol name");
	return FL_OK;
}

static FlResult
check_flags(const FlMqttConnect *connect, uint8_t flags, FlMqttFault *fault)
{
	uint8_t will_qos = (flags & CONNECT_WILL_QOS) >> 3;

	/* MQTT-3.1.2-3; MQTT 3.1 says of this bit only that it is unused. */
	if ((flags & CONNECT_RESERVED) && connect->version != FL_MQTT_3_1)
		return FL_MQTT_MALFORMED(fault, "reserved CONNECT flag is set");
	if (will_qos == 3) /* MQTT-3.1.2-12 */
		return FL_MQTT_MALFORMED(fault, "will QoS 3");
	/* MQTT-3.1.2-11, -13 */
	if (!(flags & CONNECT_WILL) && (flags & (CONNECT_WILL_QOS | CONNECT_WILL_RETAIN)))
		return FL_MQTT_MALFORMED(fault, "will QoS or retain without a will");
	/* 3.1.1 MQTT-3.1.2-22; MQTT 5.0 allows a password alone */
	if ((flags & CONNECT_PASSWORD) && !(flags & CONNECT_USERNAME) && connect->version != FL_MQTT_5_0)
		return FL_MQTT_MALFORMED(fault, "password without user name");
	return FL_OK;
}

static FlResult
decode_will(FlReader *in, FlMqttConnect *connect, FlMqttFault *fault)
{
	FlMqttWill *will = &connect->will;

	if (connect->version == FL_MQTT_5_0)
	{
		FlResult result = fl_mqtt_decode_props(in, FL_MQTT_BIT_WILL, FL_MQTT_FROM_CLIENT, &will->props, fault);

		if (result == FL_OK)
			result = fl_mqtt_check_response_topic(&will->props, fault);
		if (result != FL_OK)
			return result;
	}
	if (!fl_mqtt_read_string(in, &will->topic))
		return FL_MQTT_MALFORMED(fault, "bad will topic");
	if (!fl_topic_name_valid(will->topic.data, will->topic.len) || !fl_mqtt_is_printable(will->topic))
		return FL_MQTT_MALFORMED(fault, "will topic is no topic name");
	if (!fl_mqtt_read_binary(in, &will->payload))
		return FL_MQTT_MALFORMED(fault, "bad will payload");
	return FL_OK;
}

static FlResult
decode_payload(FlReader *in, FlMqttConnect *connect, FlMqttFault *fault)
{
	if (!fl_mqtt_read_string(in, &connect->client_id) || !fl_mqtt_is_printable(connect->client_id))
		return FL_MQTT_MALFORMED(fault, "bad client identifier");
	if (connect->will.present)
	{
		FlResult result = decode_will(in, connect, fault);

		if (result != FL_OK)
			return result;
	}
	if (connect->has_username &&
		(!fl_mqtt_read_string(in, &connect->username) || !fl_mqtt_is_printable(connect->username)))
		return FL_MQTT_MALFORMED(fault, "bad user name");
	if (connect->has_password && !fl_mqtt_read_binary(in, &connect->password))
		return FL_MQTT_MALFORMED(fault, "bad password");
	if (fl_reader_left(in) != 0)
		return FL_MQTT_MALFORMED(fault, "bytes after the end of CONNECT");
	return FL_OK;
}

FlResult
fl_mqtt_decode_connect(const FlMqttFrame *frame, FlMqttConnect *connect, FlMqttFault *fault)
{
	FlReader in;
	uint8_t flags;
	FlResult result;

	memset(connect, 0, offsetof(FlMqttConnect, will));
	connect->will.present = false;
	fl_mqtt_props_init(&connect->props);
	fl_mqtt_props_init(&connect->will.props);
	fl_reader_init(&in, frame->body, frame->body_len);
	result = decode_protocol(&in, connect, fault);
	if (result != FL_OK)
		return result;
	if (frame->flags != 0 && connect->version != FL_MQTT_3_1)
		return FL_MQTT_MALFORMED(fault, "wrong flags in fixed header");
	if (!frame->minimal && connect->version == FL_MQTT_5_0)
		return FL_MQTT_MALFORMED(fault, "remaining length is not minimal");

	flags = fl_read_u8(&in);
	connect->keep_alive = fl_read_be16(&in);
	if (in.failed)
		return FL_MQTT_MALFORMED(fault, "CONNECT is cut short");
	result = check_flags(connect, flags, fault);
	if (result != FL_OK)
		return result;
	connect->clean_start = (flags & CONNECT_CLEAN) != 0;
	connect->has_username = (flags & CONNECT_USERNAME) != 0;
	connect->has_password = (flags & CONNECT_PASSWORD) != 0;
	connect->will.present = (flags & CONNECT_WILL) != 0;
	connect->will.qos = (flags & CONNECT_WILL_QOS) >> 3;
	connect->will.retain = (flags & CONNECT_WILL_RETAIN) != 0;
	if (connect->version == FL_MQTT_5_0)
	{
		result = fl_mqtt_decode_props(&in, FL_MQTT_BIT(CONNECT), FL_MQTT_FROM_CLIENT, &connect->props, fault);
		if (result != FL_OK)
			return result;
	}
	return decode_payload(&in, connect, fault);
}

static void
encode_will(FlBuf *out, const FlMqttConnect *connect)
{
	if (connect->version == FL_MQTT_5_0)
		fl_mqtt_encode_props(out, &connect->will.props);
	fl_mqtt_write_binary(out, connect->will.topic);
	fl_mqtt_write_binary(out, connect->will.payload);
}

void
fl_mqtt_encode_connect(FlBuf *out, const FlMqttConnect *connect)
{
	static const FlMqttBytes mqtt = {(const uint8_t *) "MQTT", 4};
	static const FlMqttBytes mqisdp = {(const uint8_t *) "MQIsdp", 6};
	size_t start = fl_mqtt_packet_begin(out);
	uint8_t flags = 0;

	fl_mqtt_write_binary(out, connect->version == FL_MQTT_3_1 ? mqisdp : mqtt);
	fl_write_u8(out, (uint8_t) connect->version | (connect->bridge ? 0x80 : 0));
	flags |= connect->clean_start ? CONNECT_CLEAN : 0;
	flags |= connect->has_username ? CONNECT_USERNAME : 0;
	flags |= connect->has_password ? CONNECT_PASSWORD : 0;
	if (connect->will.present)
		flags |= CONNECT_WILL | (uint8_t) (connect->will.qos << 3) | (connect->will.retain ? CONNECT_WILL_RETAIN : 0);
	fl_write_u8(out, flags);
	fl_write_be16(out, connect->keep_alive);
	if (connect->version == FL_MQTT_5_0)
		fl_mqtt_encode_props(out, &connect->props);
	fl_mqtt_write_binary(out, connect->client_id);
	if (connect->will.present)
		encode_will(out, connect);
	if (connect->has_username)
		fl_mqtt_write_binary(out, connect->username);
	if (connect->has_password)
		fl_mqtt_write_binary(out, connect->password);
	fl_mqtt_packet_end(out, start, FL_MQTT_CONNECT, 0);
}
