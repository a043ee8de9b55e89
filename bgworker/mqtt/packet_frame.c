/*
 * packet_frame.c
 *		The MQTT framer, the wire types, and the dispatch over packet types.
 *
 * The framer looks at the first bytes only: it refuses a packet as soon as the
 * bytes at hand show that it is wrong or too long, so that nobody keeps memory
 * for a promise (case O66: a length of 256 MB and then silence).
 *
 * Called with whatever has arrived on a connection; it keeps no state, the
 * caller keeps the bytes.
 */
#include "packet.h"

#include "fleetlog/utf8.h"

typedef struct FlTypeRow
{
	uint8_t flags;
	uint8_t senders;
} FlTypeRow;

static const FlTypeRow type_rows[16] = {
#define X(name, code, flags, sender) [code] = {flags, sender},
	FL_MQTT_PACKETS(X)
#undef X
};

FlResult
fl_mqtt_fault(FlMqttFault *fault, FlMqttReason reason, const char *what)
{
	fault->reason = reason;
	fault->what = what;
	fault->other = FL_MQTT_RC_SUCCESS;
	return FL_MALFORMED;
}

FlResult
fl_mqtt_disputed(FlMqttFault *fault, FlMqttReason reason, FlMqttReason other, const char *what)
{
	(void) fl_mqtt_fault(fault, reason, what);
	fault->other = other;
	return FL_MALFORMED;
}

/*
 * Checks type and flags of the first byte.  The flags of CONNECT are left to
 * its decoder, because MQTT 3.1 did not use them and only CONNECT tells the
 * version.
 */
static FlResult
check_first_byte(uint8_t first, FlMqttVersion version, FlMqttSender sender, FlMqttFault *fault)
{
	uint8_t type = first >> 4;
	uint8_t flags = first & 0x0F;

	if (type == 0)
		return FL_MQTT_MALFORMED_OR_BROKEN(fault, "reserved packet type 0");
	if (version == FL_MQTT_UNKNOWN && sender == FL_MQTT_FROM_CLIENT && type != FL_MQTT_CONNECT)
		return FL_MQTT_BROKEN(fault, "first packet is not CONNECT");
	if (type == FL_MQTT_AUTH && version != FL_MQTT_5_0 && version != FL_MQTT_UNKNOWN)
		return FL_MQTT_MALFORMED(fault, "reserved packet type 15");
	if ((type_rows[type].senders & sender) == 0)
	{
		if (flags != 0 && (type == FL_MQTT_SUBACK || type == FL_MQTT_UNSUBACK))
			return FL_MQTT_BROKEN_OR_MALFORMED(fault, "packet type goes the other way only");
		return FL_MQTT_BROKEN(fault, "packet type goes the other way only");
	}
	if (type == FL_MQTT_CONNECT || type == FL_MQTT_PUBLISH)
		return FL_OK;
	/* MQTT 3.1 let a sender set DUP on whatever is sent at QoS 1. */
	if (version == FL_MQTT_3_1 && type_rows[type].flags == 0x02)
		flags &= ~0x08;
	if (flags != type_rows[type].flags)
	{
		if (type == FL_MQTT_AUTH)
			return FL_MQTT_MALFORMED_OR_BROKEN(fault, "wrong flags in fixed header");
		return FL_MQTT_MALFORMED(fault, "wrong flags in fixed header");
	}
	return FL_OK;
}

/*
 * Reads the remaining length.  Sets *used to the bytes it takes, or 0 where
 * more bytes are needed.
 */
static FlResult
read_remaining(const uint8_t *data, size_t len, uint32_t *value, unsigned *used, bool *minimal, FlMqttFault *fault)
{
	uint32_t v = 0;

	*used = 0;
	*minimal = true;
	for (unsigned i = 0; i < 4; i++)
	{
		if (i >= len)
			return FL_INCOMPLETE;
		v |= (uint32_t) (data[i] & 0x7F) << (7 * i);
		if ((data[i] & 0x80) == 0)
		{
			*used = i + 1;
			*minimal = i == 0 || data[i] != 0;
			*value = v;
			return FL_OK;
		}
	}
	return FL_MQTT_MALFORMED(fault, "remaining length has more than four bytes");
}

FlResult
fl_mqtt_frame_next(const uint8_t *data, size_t len, FlMqttVersion version, FlMqttSender sender, size_t max_packet,
				   FlMqttFrame *frame, FlMqttFault *fault)
{
	uint32_t remaining = 0;
	unsigned used;
	FlResult result;

	frame->total = 0;
	if (len == 0)
		return FL_INCOMPLETE;
	result = check_first_byte(data[0], version, sender, fault);
	if (result != FL_OK)
		return result;
	result = read_remaining(data + 1, len - 1, &remaining, &used, &frame->minimal, fault);
	if (result != FL_OK)
		return result;
	if (version == FL_MQTT_5_0 && !frame->minimal)
		return FL_MQTT_MALFORMED(fault, "remaining length is not minimal");

	frame->total = (size_t) 1 + used + remaining;
	if (frame->total > max_packet)
	{
		fl_mqtt_fault(fault, FL_MQTT_RC_PACKET_TOO_LARGE, "packet is larger than allowed");
		return FL_TOO_LARGE;
	}
	if (len < frame->total)
		return FL_INCOMPLETE;

	frame->type = data[0] >> 4;
	frame->flags = data[0] & 0x0F;
	frame->body = data + 1 + used;
	frame->body_len = remaining;
	return FL_OK;
}

FlResult
fl_mqtt_decode(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender, FlMqttPacket *packet,
			   FlMqttFault *fault)
{
	packet->type = (FlMqttType) frame->type;
	switch (packet->type)
	{
		case FL_MQTT_CONNECT:
			return fl_mqtt_decode_connect(frame, &packet->u.connect, fault);
		case FL_MQTT_CONNACK:
			return fl_mqtt_decode_connack(frame, version, &packet->u.connack, fault);
		case FL_MQTT_PUBLISH:
			return fl_mqtt_decode_publish(frame, version, sender, &packet->u.publish, fault);
		case FL_MQTT_PUBACK:
		case FL_MQTT_PUBREC:
		case FL_MQTT_PUBREL:
		case FL_MQTT_PUBCOMP:
			return fl_mqtt_decode_ack(frame, version, sender, &packet->u.ack, fault);
		case FL_MQTT_SUBSCRIBE:
			return fl_mqtt_decode_subscribe(frame, version, &packet->u.subscribe, fault);
		case FL_MQTT_SUBACK:
			return fl_mqtt_decode_suback(frame, version, &packet->u.suback, fault);
		case FL_MQTT_UNSUBSCRIBE:
			return fl_mqtt_decode_unsubscribe(frame, version, &packet->u.unsubscribe, fault);
		case FL_MQTT_UNSUBACK:
			return fl_mqtt_decode_unsuback(frame, version, &packet->u.suback, fault);
		case FL_MQTT_PINGREQ:
		case FL_MQTT_PINGRESP:
			return fl_mqtt_decode_ping(frame, fault);
		case FL_MQTT_DISCONNECT:
			return fl_mqtt_decode_disconnect(frame, version, sender, &packet->u.disconnect, fault);
		case FL_MQTT_AUTH:
			return fl_mqtt_decode_auth(frame, version, sender, &packet->u.auth, fault);
	}
	return FL_MQTT_MALFORMED(fault, "reserved packet type 0");
}

void
fl_mqtt_encode(FlBuf *out, FlMqttVersion version, const FlMqttPacket *packet)
{
	switch (packet->type)
	{
		case FL_MQTT_CONNECT:
			fl_mqtt_encode_connect(out, &packet->u.connect);
			break;
		case FL_MQTT_CONNACK:
			fl_mqtt_encode_connack(out, version, &packet->u.connack);
			break;
		case FL_MQTT_PUBLISH:
			fl_mqtt_encode_publish(out, version, &packet->u.publish);
			break;
		case FL_MQTT_PUBACK:
		case FL_MQTT_PUBREC:
		case FL_MQTT_PUBREL:
		case FL_MQTT_PUBCOMP:
			fl_mqtt_encode_ack(out, version, packet->type, &packet->u.ack);
			break;
		case FL_MQTT_SUBSCRIBE:
			fl_mqtt_encode_subscribe(out, version, &packet->u.subscribe);
			break;
		case FL_MQTT_SUBACK:
			fl_mqtt_encode_suback(out, version, &packet->u.suback);
			break;
		case FL_MQTT_UNSUBSCRIBE:
			fl_mqtt_encode_unsubscribe(out, version, &packet->u.unsubscribe);
			break;
		case FL_MQTT_UNSUBACK:
			fl_mqtt_encode_unsuback(out, version, &packet->u.suback);
			break;
		case FL_MQTT_PINGREQ:
		case FL_MQTT_PINGRESP:
			fl_mqtt_encode_ping(out, packet->type);
			break;
		case FL_MQTT_DISCONNECT:
			fl_mqtt_encode_disconnect(out, version, &packet->u.disconnect);
			break;
		case FL_MQTT_AUTH:
			fl_mqtt_encode_auth(out, &packet->u.auth);
			break;
	}
}

/* ---- wire types ---- */

bool
fl_mqtt_read_varint(FlReader *in, uint32_t *value)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < 4; i++)
	{
		uint8_t b = fl_read_u8(in);

		if (in->failed)
			return false;
		v |= (uint32_t) (b & 0x7F) << (7 * i);
		if ((b & 0x80) == 0)
		{
			*value = v;
			return i == 0 || b != 0;
		}
	}
	in->failed = true;
	return false;
}

bool
fl_mqtt_read_binary(FlReader *in, FlMqttBytes *bytes)
{
	uint16_t len = fl_read_be16(in);

	bytes->data = fl_read_bytes(in, len);
	bytes->len = len;
	return !in->failed;
}

bool
fl_mqtt_read_string(FlReader *in, FlMqttBytes *string)
{
	return fl_mqtt_read_binary(in, string) && fl_utf8_valid_mqtt(string->data, string->len);
}

bool
fl_mqtt_is_printable(FlMqttBytes string)
{
	for (uint32_t i = 0; i < string.len; i++)
	{
		uint8_t c = string.data[i];

		if (c < 0x20 || c == 0x7F)
			return false;
		/* U+0080..U+009F are C2 80..C2 9F; the string is known to be UTF-8. */
		if (c == 0xC2 && i + 1 < string.len && string.data[i + 1] < 0xA0)
			return false;
	}
	return true;
}

FlMqttBytes
fl_mqtt_rest(FlReader *in)
{
	FlMqttBytes rest;

	rest.len = (uint32_t) fl_reader_left(in);
	rest.data = fl_read_bytes(in, rest.len);
	return rest;
}

uint32_t
fl_mqtt_varint_size(uint32_t value)
{
	return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : 4;
}

void
fl_mqtt_write_varint(FlBuf *out, uint32_t value)
{
	do
	{
		uint8_t b = value & 0x7F;

		value >>= 7;
		fl_write_u8(out, value ? b | 0x80 : b);
	} while (value);
}

/* A string that does not fit its two length bytes makes the packet unwritable. */
void
fl_mqtt_write_binary(FlBuf *out, FlMqttBytes bytes)
{
	if (bytes.len > UINT16_MAX)
	{
		out->failed = true;
		return;
	}
	fl_write_be16(out, (uint16_t) bytes.len);
	fl_write_bytes(out, bytes.data, bytes.len);
}

size_t
fl_mqtt_packet_begin(FlBuf *out)
{
	static const uint8_t gap[FL_MQTT_MAX_HEADER] = {0};
	size_t start = out->len;

	fl_write_bytes(out, gap, sizeof(gap));
	return start;
}

void
fl_mqtt_packet_end(FlBuf *out, size_t start, FlMqttType type, uint8_t flags)
{
	size_t body = start + FL_MQTT_MAX_HEADER;
	size_t remaining;
	size_t header;
	uint8_t *at;

	if (out->failed)
		return;
	remaining = out->len - body;
	if (remaining > FL_MQTT_MAX_REMAINING)
	{
		out->failed = true;
		return;
	}
	header = 1 + fl_mqtt_varint_size((uint32_t) remaining);
	at = out->data + start;
	memmove(at + header, out->data + body, remaining);
	*at++ = (uint8_t) (type << 4) | flags;
	for (size_t v = remaining;;)
	{
		uint8_t b = v & 0x7F;

		v >>= 7;
		*at++ = v ? b | 0x80 : b;
		if (v == 0)
			break;
	}
	out->len = start + header + remaining;
}
