/*
 * packet_ack.c
 *		PUBACK, PUBREC, PUBREL and PUBCOMP (MQTT-3.4 to 3.7): one layout.
 *
 * MQTT 5.0 lets both the property length and the reason code be left out when
 * they would say nothing; we write the shortest form.
 */
#include "packet.h"

FlResult
fl_mqtt_decode_ack(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender, FlMqttAck *ack,
				   FlMqttFault *fault)
{
	FlReader in;

	fl_mqtt_props_init(&ack->props);
	ack->reason = FL_MQTT_RC_SUCCESS;
	fl_reader_init(&in, frame->body, frame->body_len);
	ack->packet_id = fl_read_be16(&in);
	if (in.failed)
		return FL_MQTT_MALFORMED(fault, "acknowledgement is cut short");
	if (ack->packet_id == 0)
		return FL_MQTT_BROKEN(fault, "packet identifier 0");
	if (version == FL_MQTT_5_0 && fl_reader_left(&in) > 0)
	{
		ack->reason = fl_read_u8(&in);
		if (!fl_mqtt_reason_allowed((FlMqttType) frame->type, ack->reason))
			return FL_MQTT_BROKEN(fault, "reason code is not one of this packet");
		if (fl_reader_left(&in) > 0)
		{
			FlResult result = fl_mqtt_decode_props(&in, 1u << frame->type, sender, &ack->props, fault);

			if (result != FL_OK)
				return result;
		}
	}
	if (fl_reader_left(&in) != 0)
		return FL_MQTT_MALFORMED(fault, "bytes after the end of an acknowledgement");
	return FL_OK;
}

void
fl_mqtt_encode_ack(FlBuf *out, FlMqttVersion version, FlMqttType type, const FlMqttAck *ack)
{
	size_t start = fl_mqtt_packet_begin(out);

	fl_write_be16(out, ack->packet_id);
	if (version == FL_MQTT_5_0)
	{
		bool props = !fl_mqtt_props_empty(&ack->props);

		if (props || ack->reason != FL_MQTT_RC_SUCCESS)
			fl_write_u8(out, ack->reason);
		if (props)
			fl_mqtt_encode_props(out, &ack->props);
	}
	fl_mqtt_packet_end(out, start, type, type == FL_MQTT_PUBREL ? 0x02 : 0x00);
}
