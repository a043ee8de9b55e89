/*
 * packet_auth.c
 *		AUTH (MQTT-3.15), MQTT 5.0 only.
 *
 * The authentication method is obligatory except in the empty form, which
 * stands for "success" (MQTT-3.15.2.1).
 */
#include "packet.h"

/* Each code goes one way only, but for "continue" (MQTT-3.15.2-1). */
static bool
reason_allowed(FlMqttSender sender, uint8_t reason)
{
	if (!fl_mqtt_reason_allowed(FL_MQTT_AUTH, reason))
		return false;
	if (sender == FL_MQTT_FROM_CLIENT)
		return reason != FL_MQTT_RC_SUCCESS;
	return reason != FL_MQTT_RC_RE_AUTHENTICATE;
}

FlResult
fl_mqtt_decode_auth(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender, FlMqttReasonPacket *auth,
					FlMqttFault *fault)
{
	FlReader in;

	fl_mqtt_props_init(&auth->props);
	auth->reason = FL_MQTT_RC_SUCCESS;
	if (version != FL_MQTT_5_0)
		return FL_MQTT_MALFORMED(fault, "reserved packet type 15");
	fl_reader_init(&in, frame->body, frame->body_len);
	if (fl_reader_left(&in) > 0)
		auth->reason = fl_read_u8(&in);
	if (!reason_allowed(sender, auth->reason))
		return FL_MQTT_BROKEN(fault, "reason code is not one of this AUTH");
	if (fl_reader_left(&in) > 0)
	{
		FlResult result = fl_mqtt_decode_props(&in, FL_MQTT_BIT(AUTH), sender, &auth->props, fault);

		if (result != FL_OK)
			return result;
	}
	if (frame->body_len > 0 && !fl_mqtt_props_has(&auth->props, FL_MQTT_P_AUTH_METHOD))
		return FL_MQTT_BROKEN(fault, "AUTH without an authentication method");
	if (fl_reader_left(&in) != 0)
		return FL_MQTT_MALFORMED(fault, "bytes after the end of AUTH");
	return FL_OK;
}

void
fl_mqtt_encode_auth(FlBuf *out, const FlMqttReasonPacket *auth)
{
	size_t start = fl_mqtt_packet_begin(out);
	bool props = !fl_mqtt_props_empty(&auth->props);

	if (props || auth->reason != FL_MQTT_RC_SUCCESS)
	{
		fl_write_u8(out, auth->reason);
		fl_mqtt_encode_props(out, &auth->props);
	}
	fl_mqtt_packet_end(out, start, FL_MQTT_AUTH, 0);
}
