/*
 * packet_subscribe.c
 *		SUBSCRIBE (MQTT-3.8).
 *
 * The list of filters stays encoded in the packet; it is checked once here and
 * then walked with fl_mqtt_subscribe_next.
 */
#include "packet.h"

#include "fleetlog/topic.h"

#define OPTION_QOS             0x03
#define OPTION_NO_LOCAL        0x04
#define OPTION_AS_PUBLISHED    0x08
#define OPTION_RETAIN_HANDLING 0x30
#define OPTION_RESERVED        0xC0

static bool
read_item(FlReader *in, FlMqttSubscription *item, uint8_t *options)
{
	bool text = fl_mqtt_read_string(in, &item->filter);

	*options = fl_read_u8(in);
	item->qos = *options & OPTION_QOS;
	item->no_local = (*options & OPTION_NO_LOCAL) != 0;
	item->retain_as_published = (*options & OPTION_AS_PUBLISHED) != 0;
	item->retain_handling = (*options & OPTION_RETAIN_HANDLING) >> 4;
	return text && !in->failed;
}

static FlResult
check_filter(const FlMqttSubscription *item, FlMqttVersion version, FlMqttFault *fault)
{
	const uint8_t *group;
	const uint8_t *filter;
	size_t group_len;
	size_t filter_len;
	FlShare share;

	if (!fl_topic_filter_valid(item->filter.data, item->filter.len) || !fl_mqtt_is_printable(item->filter))
		return FL_MQTT_MALFORMED(fault, "filter is no topic filter");
	/* In 3.x "$share/..." is an ordinary filter to the standard. */
	share = fl_topic_share_parse(item->filter.data, item->filter.len, &group, &group_len, &filter, &filter_len);
	if (version != FL_MQTT_5_0 || share == FL_SHARE_NONE)
		return FL_OK;
	if (share == FL_SHARE_INVALID) /* MQTT-4.8.2-1, -2 */
		return FL_MQTT_BROKEN(fault, "malformed shared subscription");
	if (item->no_local) /* MQTT-3.8.3-4 */
		return FL_MQTT_BROKEN(fault, "No Local on a shared subscription");
	return FL_OK;
}

static FlResult
check_options(uint8_t options, FlMqttVersion version, FlMqttFault *fault)
{
	if ((options & OPTION_QOS) == 3)
		return FL_MQTT_BROKEN_OR_MALFORMED(fault, "subscription QoS 3");
	if (version == FL_MQTT_5_0)
	{
		if (options & OPTION_RESERVED) /* MQTT-3.8.3-5 */
			return FL_MQTT_MALFORMED(fault, "reserved subscription option is set");
		if ((options & OPTION_RETAIN_HANDLING) == OPTION_RETAIN_HANDLING)
			return FL_MQTT_BROKEN_OR_MALFORMED(fault, "retain handling 3");
	}
	else if (options & ~OPTION_QOS) /* 3.1.1 MQTT-3.8.3-4 */
		return FL_MQTT_MALFORMED(fault, "reserved bits of requested QoS are set");
	return FL_OK;
}

FlResult
fl_mqtt_decode_subscribe(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSubscribe *subscribe,
						 FlMqttFault *fault)
{
	FlReader in;
	FlReader list;
	FlResult result = FL_OK;

	fl_mqtt_props_init(&subscribe->props);
	subscribe->count = 0;
	subscribe->items = NULL;
	fl_reader_init(&in, frame->body, frame->body_len);
	subscribe->packet_id = fl_read_be16(&in);
	if (in.failed)
		return FL_MQTT_MALFORMED(fault, "SUBSCRIBE is cut short");
	if (subscribe->packet_id == 0)
		return FL_MQTT_BROKEN_OR_MALFORMED(fault, "packet identifier 0");
	if (version == FL_MQTT_5_0)
		result = fl_mqtt_decode_props(&in, FL_MQTT_BIT(SUBSCRIBE), FL_MQTT_FROM_CLIENT, &subscribe->props, fault);
	if (result != FL_OK)
		return result;

	subscribe->list = fl_mqtt_rest(&in);
	fl_reader_init(&list, subscribe->list.data, subscribe->list.len);
	while (fl_reader_left(&list) > 0)
	{
		FlMqttSubscription item;
		uint8_t options;

		if (!read_item(&list, &item, &options))
			return FL_MQTT_MALFORMED(fault, "bad filter in SUBSCRIBE");
		result = check_options(options, version, fault);
		if (result == FL_OK)
			result = check_filter(&item, version, fault);
		if (result != FL_OK)
			return result;
		subscribe->count++;
	}
	if (subscribe->count == 0) /* MQTT-3.8.3-2 */
		return FL_MQTT_BROKEN_OR_MALFORMED(fault, "SUBSCRIBE without a filter");
	return FL_OK;
}

bool
fl_mqtt_subscribe_next(const FlMqttSubscribe *subscribe, FlMqttListCursor *at, FlMqttSubscription *item)
{
	FlReader in;
	uint8_t options;

	if (at->index >= subscribe->count)
		return false;
	if (subscribe->items)
	{
		*item = subscribe->items[at->index++];
		return true;
	}
	fl_reader_init(&in, subscribe->list.data, subscribe->list.len);
	(void) fl_read_bytes(&in, at->at);
	if (!read_item(&in, item, &options))
		return false;
	at->at = (uint32_t) (in.pos - subscribe->list.data);
	at->index++;
	return true;
}

void
fl_mqtt_encode_subscribe(FlBuf *out, FlMqttVersion version, const FlMqttSubscribe *subscribe)
{
	size_t start = fl_mqtt_packet_begin(out);
	FlMqttListCursor at = {0, 0};
	FlMqttSubscription item;

	fl_write_be16(out, subscribe->packet_id);
	if (version == FL_MQTT_5_0)
		fl_mqtt_encode_props(out, &subscribe->props);
	while (fl_mqtt_subscribe_next(subscribe, &at, &item))
	{
		uint8_t options = item.qos;

		if (version == FL_MQTT_5_0)
			options |= (item.no_local ? OPTION_NO_LOCAL : 0) | (item.retain_as_published ? OPTION_AS_PUBLISHED : 0) |
					   (uint8_t) (item.retain_handling << 4);
		fl_mqtt_write_binary(out, item.filter);
		fl_write_u8(out, options);
	}
	fl_mqtt_packet_end(out, start, FL_MQTT_SUBSCRIBE, 0x02);
}
