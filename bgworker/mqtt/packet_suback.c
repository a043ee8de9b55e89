/*
 * packet_suback.c
 *		SUBACK and UNSUBACK (MQTT-3.9, 3.11): one reason code per filter, in the
 *		order of the request.  An UNSUBACK of 3.x is a bare packet identifier.
 */
#include "packet.h"

static FlResult
decode_head(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSuback *suback, FlMqttFault *fault)
{
	FlReader in;

	fl_mqtt_props_init(&suback->props);
	fl_reader_init(&in, frame->body, frame->body_len);
	suback->packet_id = fl_read_be16(&in);
	if (in.failed)
		return FL_MQTT_MALFORMED(fault, "acknowledgement is cut short");
	if (suback->packet_id == 0)
		return FL_MQTT_BROKEN(fault, "packet identifier 0");
	if (version == FL_MQTT_5_0)
	{
		FlResult result = fl_mqtt_decode_props(&in, 1u << frame->type, FL_MQTT_FROM_SERVER, &suback->props, fault);

		if (result != FL_OK)
			return result;
	}
	suback->codes = fl_mqtt_rest(&in);
	return FL_OK;
}

static bool
code_allowed(FlMqttVersion version, uint8_t type, uint8_t code)
{
	if (version == FL_MQTT_5_0)
		return fl_mqtt_reason_allowed((FlMqttType) type, code);
	return code <= 2 || code == FL_MQTT_RC_UNSPECIFIED_ERROR;
}

static FlResult
check_codes(const FlMqttFrame *frame, FlMqttVersion version, const FlMqttSuback *suback, FlMqttFault *fault)
{
	if (suback->codes.len == 0)
		return FL_MQTT_BROKEN(fault, "acknowledgement without a reason code");
	for (uint32_t i = 0; i < suback->codes.len; i++)
		if (!code_allowed(version, frame->type, suback->codes.data[i]))
			return FL_MQTT_BROKEN(fault, "reason code is not one of this packet");
	return FL_OK;
}

FlResult
fl_mqtt_decode_suback(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSuback *suback, FlMqttFault *fault)
{
	FlResult result = decode_head(frame, version, suback, fault);

	return result == FL_OK ? check_codes(frame, version, suback, fault) : result;
}

FlResult
fl_mqtt_decode_unsuback(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSuback *unsuback, FlMqttFault *fault)
{
	FlResult result = decode_head(frame, version, unsuback, fault);

	if (result != FL_OK)
		return result;
	if (version == FL_MQTT_5_0)
		return check_codes(frame, version, unsuback, fault);
	if (unsuback->codes.len != 0)
		return FL_MQTT_MALFORMED(fault, "bytes after the end of UNSUBACK");
	return FL_OK;
}

static void
encode(FlBuf *out, FlMqttVersion version, FlMqttType type, const FlMqttSuback *suback)
{
	size_t start = fl_mqtt_packet_begin(out);

	fl_write_be16(out, suback->packet_id);
	if (version == FL_MQTT_5_0)
		fl_mqtt_encode_props(out, &suback->props);
	if (version == FL_MQTT_5_0 || type == FL_MQTT_SUBACK)
		fl_write_bytes(out, suback->codes.data, suback->codes.len);
	fl_mqtt_packet_end(out, start, type, 0);
}

void
fl_mqtt_encode_suback(FlBuf *out, FlMqttVersion version, const FlMqttSuback *suback)
{
	encode(out, version, FL_MQTT_SUBACK, suback);
}

void
fl_mqtt_encode_unsuback(FlBuf *out, FlMqttVersion version, const FlMqttSuback *unsuback)
{
	encode(out, version, FL_MQTT_UNSUBACK, unsuback);
}
