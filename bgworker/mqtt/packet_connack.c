/*
 * packet_connack.c
 *		CONNACK (MQTT-3.2).
 */
#include "packet.h"

FlResult
fl_mqtt_decode_connack(const FlMqttFrame *frame, FlMqttVersion version, FlMqttConnack *connack, FlMqttFault *fault)
{
	FlReader in;
	uint8_t flags;

	fl_mqtt_props_init(&connack->props);
	fl_reader_init(&in, frame->body, frame->body_len);
	flags = fl_read_u8(&in);
	connack->code = fl_read_u8(&in);
	if (in.failed)
		return FL_MQTT_MALFORMED(fault, "CONNACK is cut short");
	/* MQTT-3.2.2-1; MQTT 3.1 says of this byte only that it is unused. */
	if (version != FL_MQTT_3_1 && (flags & 0xFE))
		return FL_MQTT_MALFORMED(fault, "reserved CONNACK flag is set");
	connack->session_present = version != FL_MQTT_3_1 && (flags & 0x01) != 0;
	if (connack->session_present && connack->code != 0) /* MQTT-3.2.2-6 */
		return FL_MQTT_BROKEN(fault, "session present in a refusing CONNACK");

	if (version == FL_MQTT_5_0)
	{
		FlResult result;

		if (!fl_mqtt_reason_allowed(FL_MQTT_CONNACK, connack->code))
			return FL_MQTT_BROKEN(fault, "reason code is not one of CONNACK");
		result = fl_mqtt_decode_props(&in, FL_MQTT_BIT(CONNACK), FL_MQTT_FROM_SERVER, &connack->props, fault);
		if (result != FL_OK)
			return result;
	}
	else if (connack->code > FL_MQTT_RETURN_NOT_AUTHORIZED)
		return FL_MQTT_BROKEN(fault, "reserved CONNACK return code");
	if (fl_reader_left(&in) != 0)
		return FL_MQTT_MALFORMED(fault, "bytes after the end of CONNACK");
	return FL_OK;
}

void
fl_mqtt_encode_connack(FlBuf *out, FlMqttVersion version, const FlMqttConnack *connack)
{
	size_t start = fl_mqtt_packet_begin(out);

	/* MQTT 3.1 has no such bit, and a refusal never sets it (MQTT-3.2.2-6). */
	fl_write_u8(out, connack->session_present && connack->code == 0 && version != FL_MQTT_3_1 ? 1 : 0);
	fl_write_u8(out, connack->code);
	if (version == FL_MQTT_5_0)
		fl_mqtt_encode_props(out, &connack->props);
	fl_mqtt_packet_end(out, start, FL_MQTT_CONNACK, 0);
}
