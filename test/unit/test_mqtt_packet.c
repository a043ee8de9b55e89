/*
 * test_mqtt_packet.c
 *		The MQTT codec: round trips, truncations, flips, and the public cases.
 *
 * Promises: what we encode we decode to the same bytes; no input makes the
 * decoder read outside its buffer (exactly sized copies under the address
 * sanitizer); every public bug report about a malformed packet ends with the
 * reason code that the standard asks for.
 */
#include "fl_unit.h"
#include "mqtt_samples.h"

#define NO_LIMIT ((size_t) FL_MQTT_MAX_REMAINING + FL_MQTT_MAX_HEADER)

static FlMqttSender
one_sender(FlMqttSender sender)
{
	return sender == FL_MQTT_FROM_EITHER ? FL_MQTT_FROM_SERVER : sender;
}

/* Framing version: a CONNECT comes before the version is known. */
static FlMqttVersion
frame_version(FlMqttVersion version, FlMqttType type)
{
	return type == FL_MQTT_CONNECT ? FL_MQTT_UNKNOWN : version;
}

/* Frame and decode in one; FL_OK only for a whole, valid packet. */
static FlResult
decode_bytes(const uint8_t *data, size_t len, FlMqttVersion version, FlMqttSender sender, FlMqttPacket *packet,
			 FlMqttFault *fault)
{
	FlMqttFrame frame;
	FlResult result;

	fault->reason = FL_MQTT_RC_SUCCESS;
	result = fl_mqtt_frame_next(data, len, version, sender, NO_LIMIT, &frame, fault);
	if (result != FL_OK)
		return result;
	return fl_mqtt_decode(&frame, version, sender, packet, fault);
}

static void
test_round_trip(void)
{
	make_samples();
	for (int i = 0; i < sample_count; i++)
	{
		MqttSample *s = &samples[i];
		FlBuf first;
		FlBuf second;
		FlMqttPacket packet;
		FlMqttFault fault = {FL_MQTT_RC_SUCCESS, "", FL_MQTT_RC_SUCCESS};
		uint8_t *copy;

		fl_buf_init(&first, NULL, 1 << 20);
		fl_buf_init(&second, NULL, 1 << 20);
		fl_mqtt_encode(&first, s->version, &s->packet);
		FL_CHECK(!first.failed);
		copy = fl_unit_copy(first.data, first.len);
		if (!FL_CHECK_INT(decode_bytes(copy, first.len, frame_version(s->version, s->packet.type),
									   one_sender(s->sender), &packet, &fault),
						  FL_OK))
			printf("# %s, version %d: %s\n", s->name, s->version, fault.what);
		else
		{
			FL_CHECK_INT(packet.type, s->packet.type);
			fl_mqtt_encode(&second, s->version, &packet);
			FL_CHECK_BYTES(second.data, second.len, first.data, first.len);
		}
		if (s->packet.type == FL_MQTT_PUBLISH)
			FL_CHECK_INT(fl_mqtt_publish_size(s->version, &s->packet.u.publish), first.len);
		free(copy);
		fl_buf_free(&first);
		fl_buf_free(&second);
	}
}

/* Every prefix of a packet is incomplete, never malformed and never whole. */
static void
test_every_prefix(void)
{
	make_samples();
	for (int i = 0; i < sample_count; i++)
	{
		MqttSample *s = &samples[i];
		FlBuf buf;

		fl_buf_init(&buf, NULL, 1 << 20);
		fl_mqtt_encode(&buf, s->version, &s->packet);
		for (size_t len = 0; len < buf.len; len++)
		{
			uint8_t *copy = fl_unit_copy(buf.data, len);
			FlMqttFrame frame;
			FlMqttFault fault;

			FL_CHECK_INT(fl_mqtt_frame_next(copy, len, frame_version(s->version, s->packet.type), one_sender(s->sender),
											NO_LIMIT, &frame, &fault),
						 FL_INCOMPLETE);
			free(copy);
		}
		fl_buf_free(&buf);
	}
}

/*
 * A body cut short with its length corrected: an error, except where what is
 * left is a packet too (a payload, a list, an optional tail).
 */
static void
test_every_truncation(void)
{
	int refused = 0;

	make_samples();
	for (int i = 0; i < sample_count; i++)
	{
		MqttSample *s = &samples[i];
		FlBuf buf;
		FlMqttFrame frame;
		FlMqttFault fault;

		fl_buf_init(&buf, NULL, 1 << 20);
		fl_mqtt_encode(&buf, s->version, &s->packet);
		FL_REQUIRE(fl_mqtt_frame_next(buf.data, buf.len, frame_version(s->version, s->packet.type),
									  one_sender(s->sender), NO_LIMIT, &frame, &fault) == FL_OK);
		for (uint32_t len = 0; len < frame.body_len; len++)
		{
			uint8_t *copy = fl_unit_copy(frame.body, len);
			FlMqttFrame cut = frame;
			FlMqttPacket packet;
			FlResult result;

			cut.body = copy;
			cut.body_len = len;
			result = fl_mqtt_decode(&cut, s->version, one_sender(s->sender), &packet, &fault);
			FL_CHECK(result == FL_OK || result == FL_MALFORMED);
			if (result == FL_MALFORMED)
			{
				refused++;
				FL_CHECK(fault.reason >= 0x80 && fault.what != NULL);
			}
			else
				FL_CHECK(packet.type == FL_MQTT_PUBLISH || s->version == FL_MQTT_5_0 || packet.type == FL_MQTT_SUBACK ||
						 packet.type == FL_MQTT_UNSUBSCRIBE);
			free(copy);
		}
		fl_buf_free(&buf);
	}
	FL_CHECK(refused > 1000);
}

/* Walks everything that borrows, as a caller would. */
static void
walk(const FlMqttPacket *packet, FlMqttVersion version)
{
	FlMqttListCursor at = {0, 0};
	FlMqttSubscription item;
	FlMqttBytes filter;
	uint32_t n = 0;

	if (packet->type == FL_MQTT_SUBSCRIBE)
	{
		while (fl_mqtt_subscribe_next(&packet->u.subscribe, &at, &item))
			n++;
		FL_CHECK_INT(n, packet->u.subscribe.count);
	}
	if (packet->type == FL_MQTT_UNSUBSCRIBE)
	{
		while (fl_mqtt_unsubscribe_next(&packet->u.unsubscribe, &at, &filter))
			n++;
		FL_CHECK_INT(n, packet->u.unsubscribe.count);
	}
	if (packet->type == FL_MQTT_PUBLISH && version == FL_MQTT_5_0)
	{
		FlMqttPropCursor cursor = {0, 0};
		FlMqttUserProperty user;
		uint32_t id;

		while (fl_mqtt_props_next_user(&packet->u.publish.props, &cursor, &user))
			n++;
		FL_CHECK_INT(n, packet->u.publish.props.user_count);
		cursor.index = cursor.at = n = 0;
		while (fl_mqtt_props_next_subscription_id(&packet->u.publish.props, &cursor, &id))
			n++;
		FL_CHECK_INT(n, packet->u.publish.props.subscription_id_count);
	}
}

/* One changed byte at a time (case O08): decoded or refused, never worse. */
static void
test_every_flip(void)
{
	make_samples();
	for (int i = 0; i < sample_count; i++)
	{
		MqttSample *s = &samples[i];
		FlBuf buf;

		fl_buf_init(&buf, NULL, 1 << 20);
		fl_mqtt_encode(&buf, s->version, &s->packet);
		for (size_t at = 0; at < buf.len; at++)
			for (int bit = 0; bit < 8; bit++)
			{
				uint8_t *copy = fl_unit_copy(buf.data, buf.len);
				FlMqttVersion version = frame_version(s->version, s->packet.type);
				FlMqttPacket packet;
				FlMqttFault fault;

				copy[at] ^= (uint8_t) (1 << bit);
				if (decode_bytes(copy, buf.len, version, one_sender(s->sender), &packet, &fault) == FL_OK)
				{
					FlBuf again;

					if (packet.type == FL_MQTT_CONNECT)
						version = packet.u.connect.version;
					walk(&packet, version);
					fl_buf_init(&again, NULL, 1 << 20);
					fl_mqtt_encode(&again, version, &packet);
					FL_CHECK(!again.failed);
					FL_CHECK_INT(decode_bytes(again.data, again.len, frame_version(version, packet.type),
											  one_sender(s->sender), &packet, &fault),
								 FL_OK);
					fl_buf_free(&again);
				}
				free(copy);
			}
		fl_buf_free(&buf);
	}
}

static void
test_properties_keep_order(void)
{
	MqttSample *s = NULL;
	FlBuf buf;
	FlMqttPacket packet;
	FlMqttFault fault;
	FlMqttPropCursor at = {0, 0};
	FlMqttUserProperty user;
	uint32_t id;

	make_samples();
	for (int i = 0; i < sample_count; i++)
		if (samples[i].packet.type == FL_MQTT_PUBLISH && samples[i].packet.u.publish.props.subscription_id_count == 3)
			s = &samples[i];
	FL_REQUIRE(s != NULL);
	fl_buf_init(&buf, NULL, 1 << 20);
	fl_mqtt_encode(&buf, FL_MQTT_5_0, &s->packet);
	FL_REQUIRE(decode_bytes(buf.data, buf.len, FL_MQTT_5_0, FL_MQTT_FROM_SERVER, &packet, &fault) == FL_OK);
	for (int i = 0; i < 3; i++)
	{
		FL_REQUIRE(fl_mqtt_props_next_user(&packet.u.publish.props, &at, &user));
		FL_CHECK_BYTES(user.name.data, user.name.len, sample_users[i].name.data, sample_users[i].name.len);
		FL_CHECK_BYTES(user.value.data, user.value.len, sample_users[i].value.data, sample_users[i].value.len);
	}
	FL_CHECK(!fl_mqtt_props_next_user(&packet.u.publish.props, &at, &user));
	at.index = at.at = 0;
	FL_CHECK(fl_mqtt_props_next_subscription_id(&packet.u.publish.props, &at, &id) && id == 1);
	FL_CHECK(fl_mqtt_props_next_subscription_id(&packet.u.publish.props, &at, &id) && id == 128);
	FL_CHECK(fl_mqtt_props_next_subscription_id(&packet.u.publish.props, &at, &id) && id == 268435455);
	FL_CHECK_INT(fl_mqtt_props_int(&packet.u.publish.props, FL_MQTT_P_MESSAGE_EXPIRY, 0), 4294967295u);
	fl_buf_free(&buf);
}

/* ---- malformed input, byte by byte ---- */

typedef struct BadPacket
{
	const char *what;
	FlMqttVersion version; /* UNKNOWN: nothing was sent before */
	const char *hex;
	FlMqttReason reason;
} BadPacket;

static const BadPacket bad_packets[] = {
	{"O01 PUBLISH cut after the topic", FL_MQTT_5_0, "32 06 0004 61626364", FL_MQTT_RC_MALFORMED_PACKET},
	{"O01 in 3.1.1", FL_MQTT_3_1_1, "32 06 0004 61626364", FL_MQTT_RC_MALFORMED_PACKET},
	{"O02 CONNECT with flags F", FL_MQTT_UNKNOWN, "1F 0F 0004 4D515454 04 02 000A 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"O03 property twice", FL_MQTT_UNKNOWN, "10 14 0004 4D515454 05 02 000A 04 1901 1901 0003 636964",
	 FL_MQTT_RC_PROTOCOL_ERROR},
	{"O04 PINGREQ first", FL_MQTT_UNKNOWN, "C0 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"O05 CONNACK from a client", FL_MQTT_5_0, "20 03 00 00 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"O05 cut short", FL_MQTT_5_0, "20 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"O06 empty topic in 3.1.1", FL_MQTT_3_1_1, "30 02 0000", FL_MQTT_RC_PROTOCOL_ERROR},
	{"O06 empty topic in 5.0", FL_MQTT_5_0, "30 03 0000 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"O07 session expiry in a will", FL_MQTT_UNKNOWN,
	 "10 19 0004 4D515454 05 06 000A 00 0001 63 05 1100000001 0001 77 0000", FL_MQTT_RC_MALFORMED_PACKET},
	{"O09 client id FF FE", FL_MQTT_UNKNOWN, "10 0E 0004 4D515454 04 02 000A 0002 FFFE", FL_MQTT_RC_MALFORMED_PACKET},
	{"O09 client id with U+0000", FL_MQTT_UNKNOWN, "10 0F 0004 4D515454 04 02 000A 0003 610062",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"O09 the same in 5.0", FL_MQTT_UNKNOWN, "10 10 0004 4D515454 05 02 000A 00 0003 610062",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"O10 filter with U+0000", FL_MQTT_5_0, "82 09 0001 00 0003 610062 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"O14 alias 0", FL_MQTT_5_0, "30 07 0001 61 03 230000", FL_MQTT_RC_TOPIC_ALIAS_INVALID},
	{"two subscription ids from a client", FL_MQTT_5_0, "30 08 0001 61 04 0B01 0B02", FL_MQTT_RC_PROTOCOL_ERROR},
	{"subscription id 0 from a client", FL_MQTT_5_0, "30 06 0001 61 02 0B00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"O59 no local on a shared filter", FL_MQTT_5_0, "82 10 0001 00 000A 2473686172652F672F74 04",
	 FL_MQTT_RC_PROTOCOL_ERROR},
	{"QoS 3", FL_MQTT_5_0, "36 06 0001 61 0001 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"DUP at QoS 0", FL_MQTT_5_0, "38 04 0001 61 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"packet id 0", FL_MQTT_5_0, "32 06 0001 61 0000 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"wildcard in a topic", FL_MQTT_5_0, "30 05 0002 612B 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"control character in a topic", FL_MQTT_5_0, "30 05 0002 6101 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"C1 control character in a topic", FL_MQTT_5_0, "30 05 0002 C285 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"surrogate in a topic", FL_MQTT_5_0, "30 06 0003 EDA080 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"padded remaining length", FL_MQTT_5_0, "C0 80 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"remaining length of five bytes", FL_MQTT_5_0, "30 FF FF FF FF 7F", FL_MQTT_RC_MALFORMED_PACKET},
	{"padded property length", FL_MQTT_5_0, "30 05 0001 61 8000", FL_MQTT_RC_MALFORMED_PACKET},
	{"property length beyond the packet", FL_MQTT_5_0, "30 04 0001 61 05", FL_MQTT_RC_MALFORMED_PACKET},
	{"unknown property", FL_MQTT_5_0, "30 06 0001 61 02 0401", FL_MQTT_RC_MALFORMED_PACKET},
	{"property of another packet", FL_MQTT_5_0, "30 06 0001 61 02 2401", FL_MQTT_RC_MALFORMED_PACKET},
	{"payload format 2", FL_MQTT_5_0, "30 06 0001 61 02 0102", FL_MQTT_RC_PROTOCOL_ERROR},
	{"receive maximum 0", FL_MQTT_UNKNOWN, "10 13 0004 4D515454 05 02 000A 03 210000 0003 636964",
	 FL_MQTT_RC_PROTOCOL_ERROR},
	{"maximum packet size 0", FL_MQTT_UNKNOWN, "10 15 0004 4D515454 05 02 000A 05 2700000000 0003 636964",
	 FL_MQTT_RC_PROTOCOL_ERROR},
	{"auth data without method", FL_MQTT_UNKNOWN, "10 14 0004 4D515454 05 02 000A 04 16000170 0003 636964",
	 FL_MQTT_RC_PROTOCOL_ERROR},
	{"protocol level 6", FL_MQTT_UNKNOWN, "10 0F 0004 4D515454 06 02 000A 0003 636964",
	 FL_MQTT_RC_UNSUPPORTED_PROTOCOL_VERSION},
	{"unknown protocol name", FL_MQTT_UNKNOWN, "10 0F 0004 4D515455 04 02 000A 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"reserved CONNECT flag", FL_MQTT_UNKNOWN, "10 0F 0004 4D515454 04 03 000A 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"password without user name in 3.1.1", FL_MQTT_UNKNOWN, "10 10 0004 4D515454 04 42 000A 0001 63 0001 70",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"will topic with a wildcard", FL_MQTT_UNKNOWN, "10 13 0004 4D515454 04 06 000A 0001 63 0001 23 0001 70",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"will with a wildcard in its response topic", FL_MQTT_UNKNOWN,
	 "10 18 0004 4D515454 05 06 000A 00 0001 63 04 08000123 0001 77 0000", FL_MQTT_RC_PROTOCOL_ERROR},
	{"CONNECT without a client id", FL_MQTT_UNKNOWN, "10 0A 0004 4D515454 04 02 000A", FL_MQTT_RC_MALFORMED_PACKET},
	{"will QoS without a will", FL_MQTT_UNKNOWN, "10 0F 0004 4D515454 04 0A 000A 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"will retain without a will", FL_MQTT_UNKNOWN, "10 0F 0004 4D515454 04 22 000A 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"will flag without topic and payload", FL_MQTT_UNKNOWN, "10 0F 0004 4D515454 04 06 000A 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"will QoS 3 in 5.0", FL_MQTT_UNKNOWN, "10 17 0004 4D515454 05 1E 000A 00 0003 636964 00 0001 77 0001 78",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"will topic that is no UTF-8", FL_MQTT_UNKNOWN, "10 15 0004 4D515454 04 06 000A 0003 636964 0001 FF 0001 78",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"user name flag without a user name", FL_MQTT_UNKNOWN, "10 0F 0004 4D515454 04 82 000A 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"user name without its flag", FL_MQTT_UNKNOWN, "10 12 0004 4D515454 04 02 000A 0003 636964 0001 75",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"user name that is no UTF-8", FL_MQTT_UNKNOWN, "10 12 0004 4D515454 04 82 000A 0003 636964 0001 FF",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"password flag without a password", FL_MQTT_UNKNOWN, "10 10 0004 4D515454 05 42 000A 00 0003 636964",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"password without its flag", FL_MQTT_UNKNOWN, "10 15 0004 4D515454 04 82 000A 0003 636964 0001 75 0001 70",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"bytes after CONNECT", FL_MQTT_UNKNOWN, "10 0E 0004 4D515454 04 02 000A 0001 63 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"SUBSCRIBE without filter", FL_MQTT_5_0, "82 03 0001 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"SUBSCRIBE QoS 3", FL_MQTT_5_0, "82 07 0001 00 0001 61 03", FL_MQTT_RC_PROTOCOL_ERROR},
	{"SUBSCRIBE reserved option", FL_MQTT_5_0, "82 07 0001 00 0001 61 40", FL_MQTT_RC_MALFORMED_PACKET},
	{"retain handling 3", FL_MQTT_5_0, "82 07 0001 00 0001 61 30", FL_MQTT_RC_PROTOCOL_ERROR},
	{"subscription id 0", FL_MQTT_5_0, "82 09 0001 02 0B00 0001 61 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"filter a#", FL_MQTT_5_0, "82 08 0001 00 0002 6123 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"filter #/a", FL_MQTT_5_0, "82 09 0001 00 0003 232F61 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"share without filter", FL_MQTT_5_0, "82 0E 0001 00 0008 2473686172652F70 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"SUBSCRIBE flags 0", FL_MQTT_5_0, "80 07 0001 00 0001 61 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"user property whose value is no UTF-8", FL_MQTT_5_0, "30 0B 0001 61 07 26 0001 6E 0001 FF",
	 FL_MQTT_RC_MALFORMED_PACKET},
	{"content type that is no UTF-8", FL_MQTT_5_0, "30 08 0001 61 04 03 0001 FF", FL_MQTT_RC_MALFORMED_PACKET},
	{"response topic that is no UTF-8", FL_MQTT_5_0, "30 08 0001 61 04 08 0001 FF", FL_MQTT_RC_MALFORMED_PACKET},
	{"response topic with a wildcard", FL_MQTT_5_0, "30 08 0001 61 04 08 0001 23", FL_MQTT_RC_PROTOCOL_ERROR},
	{"UNSUBSCRIBE flags 0", FL_MQTT_5_0, "A0 06 0001 00 0001 61", FL_MQTT_RC_MALFORMED_PACKET},
	{"UNSUBSCRIBE without filter", FL_MQTT_5_0, "A2 03 0001 00", FL_MQTT_RC_PROTOCOL_ERROR},
	{"UNSUBSCRIBE filter that is no UTF-8", FL_MQTT_5_0, "A2 06 0001 00 0001 FF", FL_MQTT_RC_MALFORMED_PACKET},
	{"DISCONNECT flags 1", FL_MQTT_5_0, "E1 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"AUTH flags 1", FL_MQTT_5_0, "F1 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"PUBREL flags 0", FL_MQTT_5_0, "60 02 0001", FL_MQTT_RC_MALFORMED_PACKET},
	{"PUBACK with a reason of another packet", FL_MQTT_5_0, "40 03 0001 92", FL_MQTT_RC_PROTOCOL_ERROR},
	{"PUBACK of 3.1.1 with a reason", FL_MQTT_3_1_1, "40 03 0001 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"DISCONNECT with a server's reason", FL_MQTT_5_0, "E0 01 8E", FL_MQTT_RC_PROTOCOL_ERROR},
	{"DISCONNECT with server reference", FL_MQTT_5_0, "E0 06 00 04 1C000170", FL_MQTT_RC_PROTOCOL_ERROR},
	{"DISCONNECT of 3.1.1 with a body", FL_MQTT_3_1_1, "E0 01 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"PINGREQ with a body", FL_MQTT_5_0, "C0 01 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"type 0", FL_MQTT_5_0, "00 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"AUTH in 3.1.1", FL_MQTT_3_1_1, "F0 00", FL_MQTT_RC_MALFORMED_PACKET},
	{"AUTH without method", FL_MQTT_5_0, "F0 01 18", FL_MQTT_RC_PROTOCOL_ERROR},
};

static size_t
from_hex(const char *hex, uint8_t *out)
{
	size_t n = 0;
	int high = -1;

	for (; *hex; hex++)
	{
		int digit;

		if (*hex == ' ')
			continue;
		digit = *hex <= '9' ? *hex - '0' : (*hex & 0x5F) - 'A' + 10;
		if (high < 0)
			high = digit;
		else
		{
			out[n++] = (uint8_t) (high << 4 | digit);
			high = -1;
		}
	}
	return n;
}

static void
test_malformed(void)
{
	for (size_t i = 0; i < sizeof(bad_packets) / sizeof(bad_packets[0]); i++)
	{
		const BadPacket *bad = &bad_packets[i];
		uint8_t data[256];
		size_t len = from_hex(bad->hex, data);
		uint8_t *copy = fl_unit_copy(data, len);
		FlMqttPacket packet;
		FlMqttFault fault;
		FlResult result = decode_bytes(copy, len, bad->version, FL_MQTT_FROM_CLIENT, &packet, &fault);

		if (!FL_CHECK(result == FL_MALFORMED && fault.reason == bad->reason))
			printf("# %s: result %d, reason %02x\n", bad->what, result, fault.reason);
		free(copy);
	}
}

/* Where Mosquitto reads the standard otherwise, both codes are told; elsewhere none but ours is. */
static void
test_disputed(void)
{
	static const struct
	{
		const char *hex;
		FlMqttReason ours;
		FlMqttReason other;
	} cases[] = {
		{"00 00", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_PROTOCOL_ERROR},
		{"F1 00", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_PROTOCOL_ERROR},
		{"C1 00", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_SUCCESS},
		{"90 04 0001 00 00", FL_MQTT_RC_PROTOCOL_ERROR, FL_MQTT_RC_SUCCESS},
		{"92 04 0001 00 00", FL_MQTT_RC_PROTOCOL_ERROR, FL_MQTT_RC_MALFORMED_PACKET},
		{"30 06 0001 61 02 2401", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_PROTOCOL_ERROR},
		{"30 06 0001 61 02 0401", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_SUCCESS},
		/* What does not belong there, and behind it what cannot be parsed. */
		{"30 07 0001 61 03 240170", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_SUCCESS},
		{"30 07 0001 61 03 240123", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_SUCCESS},
		{"30 08 0001 61 04 24010101", FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_PROTOCOL_ERROR},
		{"30 03 0000 00", FL_MQTT_RC_PROTOCOL_ERROR, FL_MQTT_RC_MALFORMED_PACKET},
		{"82 07 0001 00 0001 61 03", FL_MQTT_RC_PROTOCOL_ERROR, FL_MQTT_RC_MALFORMED_PACKET},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint8_t data[64];
		size_t len = from_hex(cases[i].hex, data);
		FlMqttPacket packet;
		FlMqttFault fault;

		FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_5_0, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_MALFORMED);
		FL_CHECK_INT(fault.reason, cases[i].ours);
		FL_CHECK_INT(fault.other, cases[i].other);
	}
}

/* Whether a client's PUBLISH may have one is for the door to say (case O44). */
static void
test_subscription_id_of_client(void)
{
	FlMqttPacket packet;
	FlMqttFault fault;
	uint8_t data[64];
	size_t len = from_hex("30 06 0001 61 02 0B01", data);

	FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_5_0, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_OK);
	FL_CHECK_INT(packet.u.publish.props.subscription_id_count, 1);
}

/* O66: a length alone makes nobody wait for, or hold memory for, 256 MB. */
static void
test_size_cap(void)
{
	static const uint8_t huge[] = {0x10, 0xFF, 0xFF, 0xFF, 0x7F};
	static const uint8_t two[] = {0xE0, 0x02, 0x00, 0x00};
	FlMqttFrame frame;
	FlMqttFault fault;

	FL_CHECK_INT(fl_mqtt_frame_next(huge, 5, FL_MQTT_UNKNOWN, FL_MQTT_FROM_CLIENT, 65536, &frame, &fault),
				 FL_TOO_LARGE);
	FL_CHECK_INT(fault.reason, FL_MQTT_RC_PACKET_TOO_LARGE);
	/* O22: the limit counts the fixed header and is exact. */
	FL_CHECK_INT(fl_mqtt_frame_next(two, 4, FL_MQTT_5_0, FL_MQTT_FROM_CLIENT, 4, &frame, &fault), FL_OK);
	FL_CHECK_INT(fl_mqtt_frame_next(two, 4, FL_MQTT_5_0, FL_MQTT_FROM_CLIENT, 3, &frame, &fault), FL_TOO_LARGE);
	/* A wrong first byte is told before the rest has come. */
	FL_CHECK_INT(
		fl_mqtt_frame_next((const uint8_t *) "\xC0", 1, FL_MQTT_UNKNOWN, FL_MQTT_FROM_CLIENT, 65536, &frame, &fault),
		FL_MALFORMED);
}

/* What older protocol versions allow and newer ones do not. */
static void
test_version_differences(void)
{
	FlMqttPacket packet;
	FlMqttFault fault;
	uint8_t data[64];
	size_t len;

	/* MQTT 3.1 does not use the flags of CONNECT, and allows DUP on SUBSCRIBE. */
	len = from_hex("14 0F 0006 4D5149736470 03 01 000A 0001 70", data);
	FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_UNKNOWN, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_OK);
	FL_CHECK_INT(packet.u.connect.version, FL_MQTT_3_1);
	len = from_hex("8A 06 0001 0001 61 01", data);
	FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_3_1, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_OK);
	FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_3_1_1, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_MALFORMED);
	/* A password alone is for MQTT 5.0. */
	len = from_hex("10 11 0004 4D515454 05 42 000A 00 0001 63 0001 70", data);
	FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_UNKNOWN, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_OK);
	FL_CHECK(packet.u.connect.has_password && !packet.u.connect.has_username);
	/* Bit 7 of the level marks a bridge. */
	len = from_hex("10 0D 0004 4D515454 84 02 000A 0001 70", data);
	FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_UNKNOWN, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_OK);
	FL_CHECK(packet.u.connect.bridge);
	/* A padded remaining length is forbidden from 5.0 on only. */
	len = from_hex("C0 80 00", data);
	FL_CHECK_INT(decode_bytes(data, len, FL_MQTT_3_1_1, FL_MQTT_FROM_CLIENT, &packet, &fault), FL_OK);
}

static void
test_names(void)
{
	FL_CHECK(strcmp(fl_mqtt_type_name(FL_MQTT_PUBLISH), "PUBLISH") == 0);
	FL_CHECK(strcmp(fl_mqtt_type_name(0), "reserved") == 0);
	FL_CHECK(strcmp(fl_mqtt_reason_name(0x8E), "SESSION_TAKEN_OVER") == 0);
	FL_CHECK(strcmp(fl_mqtt_reason_name(0x8F), "TOPIC_FILTER_INVALID") == 0);
	FL_CHECK(strcmp(fl_mqtt_reason_name(0x7F), "unknown") == 0);
	FL_CHECK(!fl_mqtt_reason_allowed(FL_MQTT_PUBACK, FL_MQTT_RC_PACKET_TOO_LARGE));
	FL_CHECK(fl_mqtt_reason_allowed(FL_MQTT_PUBACK, FL_MQTT_RC_NOT_AUTHORIZED));
	FL_CHECK_INT(fl_mqtt_return_code(FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD), 4);
	FL_CHECK_INT(fl_mqtt_return_code(FL_MQTT_RC_MALFORMED_PACKET), -1);
	FL_CHECK_INT(FL_MQTT_PROP_COUNT, 27);
}

/* An encoder that cannot write a packet says so instead of writing a wrong one. */
static void
test_encoder_limits(void)
{
	static uint8_t big[70000];
	FlBuf buf;
	FlMqttPacket packet;

	memset(big, 'a', sizeof(big));
	memset(&packet, 0, sizeof(packet));
	packet.type = FL_MQTT_PUBLISH;
	packet.u.publish.topic.data = big;
	packet.u.publish.topic.len = sizeof(big);
	fl_buf_init(&buf, NULL, 1 << 20);
	fl_mqtt_encode(&buf, FL_MQTT_3_1_1, &packet);
	FL_CHECK(buf.failed);
	fl_buf_free(&buf);

	packet.u.publish.topic.len = 3;
	packet.u.publish.payload.data = big;
	packet.u.publish.payload.len = sizeof(big);
	fl_buf_init(&buf, NULL, 1000);
	fl_mqtt_encode(&buf, FL_MQTT_3_1_1, &packet);
	FL_CHECK(buf.failed && buf.len <= 1000);
	fl_buf_free(&buf);
}

FL_UNIT_MAIN(FL_RUN(test_round_trip); FL_RUN(test_every_prefix); FL_RUN(test_every_truncation); FL_RUN(test_every_flip);
			 FL_RUN(test_properties_keep_order); FL_RUN(test_malformed); FL_RUN(test_disputed);
			 FL_RUN(test_subscription_id_of_client); FL_RUN(test_size_cap);
			 FL_RUN(test_version_differences); FL_RUN(test_names); FL_RUN(test_encoder_limits);)
