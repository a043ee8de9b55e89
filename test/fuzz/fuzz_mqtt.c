/*
 * fuzz_mqtt.c
 *		libFuzzer target for the MQTT framer and codec.
 *
 * The first byte chooses the protocol version (its low two bits) and the
 * sender (bit 2), the rest is what came from the socket.  Every packet that
 * decodes is walked as the state machine would, encoded again, and must then
 * decode to the same bytes: an encoder that disagrees with its decoder is as
 * much a finding as a read out of bounds.
 */
#include <stdlib.h>

#include "fleetlog/mqtt_packet.h"

#define MAX_PACKET (1 << 20)

/* Written, so that the reads are not optimised away. */
volatile uint32_t sink;

static void
must(bool ok)
{
	if (!ok)
		abort();
}

static void
walk_props(const FlMqttProps *props)
{
	FlMqttPropCursor at = {0, 0};
	FlMqttUserProperty user;
	uint32_t id;
	uint32_t n = 0;

	while (fl_mqtt_props_next_user(props, &at, &user))
	{
		n++;
		for (uint32_t i = 0; i < user.name.len; i++)
			sink += user.name.data[i];
		for (uint32_t i = 0; i < user.value.len; i++)
			sink += user.value.data[i];
	}
	must(n == props->user_count);
	at.index = at.at = n = 0;
	while (fl_mqtt_props_next_subscription_id(props, &at, &id))
		n++;
	must(n == props->subscription_id_count);
}

static void
walk(const FlMqttPacket *packet)
{
	FlMqttListCursor at = {0, 0};
	FlMqttSubscription item;
	FlMqttBytes filter;
	uint32_t n = 0;

	switch (packet->type)
	{
		case FL_MQTT_CONNECT:
			walk_props(&packet->u.connect.props);
			walk_props(&packet->u.connect.will.props);
			break;
		case FL_MQTT_PUBLISH:
			walk_props(&packet->u.publish.props);
			break;
		case FL_MQTT_SUBSCRIBE:
			while (fl_mqtt_subscribe_next(&packet->u.subscribe, &at, &item))
				n++;
			must(n == packet->u.subscribe.count);
			break;
		case FL_MQTT_UNSUBSCRIBE:
			while (fl_mqtt_unsubscribe_next(&packet->u.unsubscribe, &at, &filter))
				n++;
			must(n == packet->u.unsubscribe.count);
			break;
		default:
			break;
	}
}

static void
round_trip(FlMqttVersion version, FlMqttSender sender, const FlMqttPacket *packet)
{
	FlMqttVersion framing = packet->type == FL_MQTT_CONNECT ? FL_MQTT_UNKNOWN : version;
	FlBuf first;
	FlBuf second;
	FlMqttFrame frame;
	FlMqttPacket again;
	FlMqttFault fault;

	fl_buf_init(&first, NULL, 2 * MAX_PACKET);
	fl_buf_init(&second, NULL, 2 * MAX_PACKET);
	fl_mqtt_encode(&first, version, packet);
	must(!first.failed);
	must(fl_mqtt_frame_next(first.data, first.len, framing, sender, 2 * MAX_PACKET, &frame, &fault) == FL_OK);
	must(frame.total == first.len);
	must(fl_mqtt_decode(&frame, version, sender, &again, &fault) == FL_OK);
	fl_mqtt_encode(&second, version, &again);
	must(!second.failed && second.len == first.len && memcmp(first.data, second.data, first.len) == 0);
	if (packet->type == FL_MQTT_PUBLISH)
		must(fl_mqtt_publish_size(version, &packet->u.publish) == first.len);
	fl_buf_free(&first);
	fl_buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const FlMqttVersion versions[] = {FL_MQTT_UNKNOWN, FL_MQTT_3_1, FL_MQTT_3_1_1, FL_MQTT_5_0};
	FlMqttVersion version;
	FlMqttSender sender;

	if (size == 0)
		return 0;
	version = versions[data[0] & 3];
	sender = (data[0] & 4) ? FL_MQTT_FROM_SERVER : FL_MQTT_FROM_CLIENT;
	if (version == FL_MQTT_UNKNOWN)
		sender = FL_MQTT_FROM_CLIENT;
	data++;
	size--;
	for (;;)
	{
		FlMqttFrame frame;
		FlMqttPacket packet;
		FlMqttFault fault = {FL_MQTT_RC_SUCCESS, NULL, FL_MQTT_RC_SUCCESS};
		FlResult result = fl_mqtt_frame_next(data, size, version, sender, MAX_PACKET, &frame, &fault);

		if (result == FL_OK)
			result = fl_mqtt_decode(&frame, version, sender, &packet, &fault);
		if (result != FL_OK)
		{
			must(result == FL_INCOMPLETE || (fault.reason >= 0x80 && fault.what != NULL));
			return 0;
		}
		if (packet.type == FL_MQTT_CONNECT)
			version = packet.u.connect.version;
		walk(&packet);
		round_trip(version, sender, &packet);
		data += frame.total;
		size -= frame.total;
	}
}
