/*
 * packet_publish.c
 *		PUBLISH (MQTT-3.3): the packet everything else exists for.
 *
 * Encoding computes the length first and writes once, because this is the one
 * packet whose body is worth not moving.
 */
#include "packet.h"

#include "fleetlog/topic.h"

#define PUBLISH_RETAIN 0x01
#define PUBLISH_QOS    0x06
#define PUBLISH_DUP    0x08

static FlResult
decode_flags(uint8_t flags, FlMqttVersion version, FlMqttPublish *publish, FlMqttFault *fault)
{
	publish->retain = (flags & PUBLISH_RETAIN) != 0;
	publish->qos = (flags & PUBLISH_QOS) >> 1;
	publish->dup = (flags & PUBLISH_DUP) != 0;
	if (publish->qos == 3) /* MQTT-3.3.1-4 */
		return FL_MQTT_MALFORMED(fault, "QoS 3");
	/* MQTT-3.3.1-2; MQTT 3.1 does not say it */
	if (publish->dup && publish->qos == 0 && version != FL_MQTT_3_1)
		return FL_MQTT_MALFORMED(fault, "DUP with QoS 0");
	return FL_OK;
}

/* Topic and alias together name the topic (MQTT-3.3.2.1, 3.3.2.3.4). */
static FlResult
check_topic(const FlMqttPublish *publish, FlMqttFault *fault)
{
	if (publish->topic.len == 0)
	{
		if (fl_mqtt_props_has(&publish->props, FL_MQTT_P_TOPIC_ALIAS))
			return FL_OK;
		return FL_MQTT_BROKEN_OR_MALFORMED(fault, "empty topic without a topic alias");
	}
	if (!fl_topic_name_valid(publish->topic.data, publish->topic.len) || !fl_mqtt_is_printable(publish->topic))
		return FL_MQTT_MALFORMED(fault, "topic is no topic name");
	return FL_OK;
}

/* A response topic is a topic name too (MQTT-3.3.2-14), in a will as well. */
FlResult
fl_mqtt_check_response_topic(const FlMqttProps *props, FlMqttFault *fault)
{
	FlMqttBytes topic = fl_mqtt_props_bytes(props, FL_MQTT_P_RESPONSE_TOPIC);

	if (fl_mqtt_props_has(props, FL_MQTT_P_RESPONSE_TOPIC) && !fl_topic_name_valid(topic.data, topic.len))
		return FL_MQTT_BROKEN(fault, "response topic is no topic name");
	return FL_OK;
}

FlResult
fl_mqtt_decode_publish(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender, FlMqttPublish *publish,
					   FlMqttFault *fault)
{
	FlReader in;
	FlResult result;

	fl_mqtt_props_init(&publish->props);
	publish->packet_id = 0;
	result = decode_flags(frame->flags, version, publish, fault);
	if (result != FL_OK)
		return result;
	fl_reader_init(&in, frame->body, frame->body_len);
	if (!fl_mqtt_read_string(&in, &publish->topic))
		return FL_MQTT_MALFORMED(fault, "bad topic");
	if (publish->qos > 0)
	{
		publish->packet_id = fl_read_be16(&in);
		if (in.failed)
			return FL_MQTT_MALFORMED(fault, "PUBLISH is cut short");
		if (publish->packet_id == 0) /* MQTT-2.2.1-3 */
			return FL_MQTT_BROKEN(fault, "packet identifier 0");
	}
	if (version == FL_MQTT_5_0)
	{
		result = fl_mqtt_decode_props(&in, FL_MQTT_BIT(PUBLISH), sender, &publish->props, fault);
		if (result == FL_OK)
			result = fl_mqtt_check_response_topic(&publish->props, fault);
		if (result != FL_OK)
			return result;
	}
	result = check_topic(publish, fault);
	if (result != FL_OK)
		return result;
	publish->payload = fl_mqtt_rest(&in);
	return FL_OK;
}

static size_t
body_size(FlMqttVersion version, const FlMqttPublish *publish)
{
	size_t size = 2 + (size_t) publish->topic.len + (publish->qos > 0 ? 2 : 0) + publish->payload.len;

	if (version == FL_MQTT_5_0)
	{
		uint32_t props = fl_mqtt_props_size(&publish->props);

		size += fl_mqtt_varint_size(props) + props;
	}
	return size;
}

size_t
fl_mqtt_publish_size(FlMqttVersion version, const FlMqttPublish *publish)
{
	size_t body = body_size(version, publish);

	return 1 + fl_mqtt_varint_size((uint32_t) body) + body;
}

void
fl_mqtt_encode_publish(FlBuf *out, FlMqttVersion version, const FlMqttPublish *publish)
{
	size_t body = body_size(version, publish);

	if (body > FL_MQTT_MAX_REMAINING)
	{
		out->failed = true;
		return;
	}
	fl_write_u8(out, (FL_MQTT_PUBLISH << 4) | (publish->dup ? PUBLISH_DUP : 0) | (publish->qos << 1) |
						 (publish->retain ? PUBLISH_RETAIN : 0));
	fl_mqtt_write_varint(out, (uint32_t) body);
	fl_mqtt_write_binary(out, publish->topic);
	if (publish->qos > 0)
		fl_write_be16(out, publish->packet_id);
	if (version == FL_MQTT_5_0)
		fl_mqtt_encode_props(out, &publish->props);
	fl_write_bytes(out, publish->payload.data, publish->payload.len);
}
