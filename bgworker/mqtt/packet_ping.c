/*
 * packet_ping.c
 *		PINGREQ and PINGRESP (MQTT-3.12, 3.13): a fixed header and nothing else.
 */
#include "packet.h"

FlResult
fl_mqtt_decode_ping(const FlMqttFrame *frame, FlMqttFault *fault)
{
	if (frame->body_len != 0)
		return FL_MQTT_MALFORMED(fault, "bytes after the end of a ping");
	return FL_OK;
}

void
fl_mqtt_encode_ping(FlBuf *out, FlMqttType type)
{
	fl_write_u8(out, (uint8_t) (type << 4));
	fl_write_u8(out, 0);
}
