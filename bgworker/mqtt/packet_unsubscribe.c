/*
 * packet_unsubscribe.c
 *		UNSUBSCRIBE (MQTT-3.10).
 */
#include "packet.h"

#include "fleetlog/topic.h"

FlResult
fl_mqtt_decode_unsubscribe(const FlMqttFrame *frame, FlMqttVersion version, FlMqttUnsubscribe *unsubscribe,
						   FlMqttFault *fault)
{
	FlReader in;
	FlReader list;
	FlResult result = FL_OK;

	fl_mqtt_props_init(&unsubscribe->props);
	unsubscribe->count = 0;
	unsubscribe->items = NULL;
	fl_reader_init(&in, frame->body, frame->body_len);
	unsubscribe->packet_id = fl_read_be16(&in);
	if (in.failed)
		return FL_MQTT_MALFORMED(fault, "UNSUBSCRIBE is cut short");
	if (unsubscribe->packet_id == 0)
		return FL_MQTT_BROKEN_OR_MALFORMED(fault, "packet identifier 0");
	if (version == FL_MQTT_5_0)
		result = fl_mqtt_decode_props(&in, FL_MQTT_BIT(UNSUBSCRIBE), FL_MQTT_FROM_CLIENT, &unsubscribe->props, fault);
	if (result != FL_OK)
		return result;

	unsubscribe->list = fl_mqtt_rest(&in);
	fl_reader_init(&list, unsubscribe->list.data, unsubscribe->list.len);
	while (fl_reader_left(&list) > 0)
	{
		FlMqttBytes filter;

		if (!fl_mqtt_read_string(&list, &filter) || !fl_topic_filter_valid(filter.data, filter.len) ||
			!fl_mqtt_is_printable(filter))
			return FL_MQTT_MALFORMED(fault, "filter is no topic filter");
		unsubscribe->count++;
	}
	if (unsubscribe->count == 0) /* MQTT-3.10.3-2 */
		return FL_MQTT_BROKEN_OR_MALFORMED(fault, "UNSUBSCRIBE without a filter");
	return FL_OK;
}

bool
fl_mqtt_unsubscribe_next(const FlMqttUnsubscribe *unsubscribe, FlMqttListCursor *at, FlMqttBytes *filter)
{
	FlReader in;

	if (at->index >= unsubscribe->count)
		return false;
	if (unsubscribe->items)
	{
		*filter = unsubscribe->items[at->index++];
		return true;
	}
	fl_reader_init(&in, unsubscribe->list.data, unsubscribe->list.len);
	(void) fl_read_bytes(&in, at->at);
	if (!fl_mqtt_read_binary(&in, filter))
		return false;
	at->at = (uint32_t) (in.pos - unsubscribe->list.data);
	at->index++;
	return true;
}

void
fl_mqtt_encode_unsubscribe(FlBuf *out, FlMqttVersion version, const FlMqttUnsubscribe *unsubscribe)
{
	size_t start = fl_mqtt_packet_begin(out);
	FlMqttListCursor at = {0, 0};
	FlMqttBytes filter;

	fl_write_be16(out, unsubscribe->packet_id);
	if (version == FL_MQTT_5_0)
		fl_mqtt_encode_props(out, &unsubscribe->props);
	while (fl_mqtt_unsubscribe_next(unsubscribe, &at, &filter))
		fl_mqtt_write_binary(out, filter);
	fl_mqtt_packet_end(out, start, FL_MQTT_UNSUBSCRIBE, 0x02);
}
