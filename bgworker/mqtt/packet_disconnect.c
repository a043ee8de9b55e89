/*
 * packet_disconnect.c
 *		DISCONNECT (MQTT-3.14).
 *
 * A server sends one only to a client of MQTT 5.0; in 3.x it goes one way.
 */
#include "packet.h"

/*
 * Reason codes that only a server sends (MQTT-3.14.2.1, table 3-10).  From a
 * client they are a protocol error.
 */
static bool
is_server_reason(uint8_t reason)
{
	switch (reason)
	{
		case FL_MQTT_RC_NOT_AUTHORIZED:
		case FL_MQTT_RC_SERVER_BUSY:
		case FL_MQTT_RC_SERVER_SHUTTING_DOWN:
		case FL_MQTT_RC_KEEP_ALIVE_TIMEOUT:
		case FL_MQTT_RC_SESSION_TAKEN_OVER:
		case FL_MQTT_RC_TOPIC_FILTER_INVALID:
		case FL_MQTT_RC_RETAIN_NOT_SUPPORTED:
		case FL_MQTT_RC_QOS_NOT_SUPPORTED:
		case FL_MQTT_RC_USE_ANOTHER_SERVER:
		case FL_MQTT_RC_SERVER_MOVED:
		case FL_MQTT_RC_SHARED_SUBSCRIPTIONS_NOT_SUPPORTED:
		case FL_MQTT_RC_CONNECTION_RATE_EXCEEDED:
		case FL_MQTT_RC_MAXIMUM_CONNECT_TIME:
		case FL_MQTT_RC_SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED:
		case FL_MQTT_RC_WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED:
			return true;
		default:
			return false;
	}
}

static bool
reason_allowed(FlMqttSender sender, uint8_t reason)
{
	if (!fl_mqtt_reason_allowed(FL_MQTT_DISCONNECT, reason))
		return false;
	if (sender == FL_MQTT_FROM_CLIENT)
		return !is_server_reason(reason);
	return reason != FL_MQTT_RC_DISCONNECT_WITH_WILL;
}

FlResult
fl_mqtt_decode_disconnect(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender,
						  FlMqttReasonPacket *disconnect, FlMqttFault *fault)
{
	FlReader in;

	fl_mqtt_props_init(&disconnect->props);
	disconnect->reason = FL_MQTT_RC_SUCCESS;
	if (version != FL_MQTT_5_0 && sender == FL_MQTT_FROM_SERVER)
		return FL_MQTT_BROKEN(fault, "DISCONNECT from a server before MQTT 5.0");
	fl_reader_init(&in, frame->body, frame->body_len);
	if (version == FL_MQTT_5_0 && fl_reader_left(&in) > 0)
	{
		disconnect->reason = fl_read_u8(&in);
		if (!reason_allowed(sender, disconnect->reason))
			return FL_MQTT_BROKEN(fault, "reason code is not one of this DISCONNECT");
		if (fl_reader_left(&in) > 0)
		{
			FlResult result = fl_mqtt_decode_props(&in, FL_MQTT_BIT(DISCONNECT), sender, &disconnect->props, fault);

			if (result != FL_OK)
				return result;
		}
	}
	if (fl_reader_left(&in) != 0)
		return FL_MQTT_MALFORMED(fault, "bytes after the end of DISCONNECT");
	return FL_OK;
}

void
fl_mqtt_encode_disconnect(FlBuf *out, FlMqttVersion version, const FlMqttReasonPacket *disconnect)
{
	size_t start = fl_mqtt_packet_begin(out);

	if (version == FL_MQTT_5_0)
	{
		bool props = !fl_mqtt_props_empty(&disconnect->props);

		if (props || disconnect->reason != FL_MQTT_RC_SUCCESS)
			fl_write_u8(out, disconnect->reason);
		if (props)
			fl_mqtt_encode_props(out, &disconnect->props);
	}
	fl_mqtt_packet_end(out, start, FL_MQTT_DISCONNECT, 0);
}
