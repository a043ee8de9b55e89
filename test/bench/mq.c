/*-------------------------------------------------------------------------
 *
 * mq.c
 *		MQTT packets of the load tool: see mq.h for what and why.
 *
 *-------------------------------------------------------------------------
 */
#include "mq.h"

#include <string.h>

/* Bounds-checked reading: once a read fails, so do all later ones. */
typedef struct Reader
{
	const uint8_t *at;
	const uint8_t *end;
	bool ok;
} Reader;

static size_t
put16(uint8_t *out, uint16_t v)
{
	out[0] = v >> 8;
	out[1] = v & 0xff;
	return 2;
}

static size_t
put_string(uint8_t *out, const char *s, size_t len)
{
	put16(out, (uint16_t) len);
	memcpy(out + 2, s, len);
	return len + 2;
}

/* Variable byte integer (MQTT5-1.5.5). */
static size_t
put_varint(uint8_t *out, size_t v)
{
	size_t n = 0;

	do
	{
		out[n] = v & 0x7f;
		v >>= 7;
		if (v > 0)
			out[n] |= 0x80;
		n++;
	} while (v > 0);
	return n;
}

static uint32_t
get_bytes(Reader *r, int n)
{
	uint32_t v = 0;

	if (!r->ok || r->end - r->at < n)
	{
		r->ok = false;
		return 0;
	}
	while (n-- > 0)
		v = v << 8 | *r->at++;
	return v;
}

static uint32_t
get_varint(Reader *r)
{
	uint32_t v = 0;

	for (int shift = 0; shift < 28; shift += 7)
	{
		uint32_t byte = get_bytes(r, 1);

		v |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	r->ok = false;
	return 0;
}

static void
skip(Reader *r, size_t n)
{
	if (!r->ok || (size_t) (r->end - r->at) < n)
		r->ok = false;
	else
		r->at += n;
}

static Reader
reader_of(const FlMqPacket *p)
{
	Reader r = {p->body, p->body + p->body_len, true};

	return r;
}

size_t
fl_mq_connect(uint8_t *out, const FlMqConnect *c)
{
	size_t id_len = strlen(c->client_id);
	size_t user_len = c->user ? strlen(c->user) : 0;
	size_t password_len = c->password ? strlen(c->password) : 0;
	size_t properties = c->version == FL_MQ_5 && c->session_expiry > 0 ? 5 : 0;
	size_t rest = 10 + 2 + id_len;
	size_t n = 0;

	if (c->version == FL_MQ_5)
		rest += 1 + properties;
	if (c->user)
		rest += 2 + user_len;
	if (c->password)
		rest += 2 + password_len;

	out[n++] = FL_MQ_CONNECT << 4;
	n += put_varint(out + n, rest);
	n += put_string(out + n, "MQTT", 4);
	out[n++] = (uint8_t) c->version;
	out[n++] = (c->user ? 0x80 : 0) | (c->password ? 0x40 : 0) | (c->clean ? 0x02 : 0);
	n += put16(out + n, c->keep_alive);
	if (c->version == FL_MQ_5)
	{
		out[n++] = (uint8_t) properties;
		if (properties > 0)
		{
			out[n++] = 0x11; /* Session Expiry Interval */
			n += put16(out + n, c->session_expiry >> 16);
			n += put16(out + n, c->session_expiry & 0xffff);
		}
	}
	n += put_string(out + n, c->client_id, id_len);
	if (c->user)
		n += put_string(out + n, c->user, user_len);
	if (c->password)
		n += put_string(out + n, c->password, password_len);
	return n;
}

size_t
fl_mq_subscribe_head(uint8_t *out, int version, uint16_t id, size_t filters_len)
{
	size_t n = 0;

	out[n++] = FL_MQ_SUBSCRIBE << 4 | 0x02;
	n += put_varint(out + n, 2 + (version == FL_MQ_5 ? 1 : 0) + filters_len);
	n += put16(out + n, id);
	if (version == FL_MQ_5)
		out[n++] = 0;
	return n;
}

size_t
fl_mq_subscribe_filter(uint8_t *out, const char *filter, int qos)
{
	size_t n = put_string(out, filter, strlen(filter));

	out[n++] = (uint8_t) qos;
	return n;
}

size_t
fl_mq_publish_head(uint8_t *out, int version, const char *topic, size_t topic_len, uint16_t alias, int flags,
				   uint16_t id, size_t payload_len)
{
	size_t properties = alias > 0 ? 3 : 0;
	int qos = flags >> 1 & 3;
	size_t n = 0;

	out[n++] = FL_MQ_PUBLISH << 4 | flags;
	n += put_varint(out + n,
					2 + topic_len + (qos > 0 ? 2 : 0) + (version == FL_MQ_5 ? 1 + properties : 0) + payload_len);
	n += put_string(out + n, topic, topic_len);
	if (qos > 0)
		n += put16(out + n, id);
	if (version == FL_MQ_5)
	{
		out[n++] = (uint8_t) properties;
		if (properties > 0)
		{
			out[n++] = 0x23; /* Topic Alias */
			n += put16(out + n, alias);
		}
	}
	return n;
}

size_t
fl_mq_ack(uint8_t *out, FlMqType type, uint16_t id)
{
	/* PUBREL alone has reserved flags that are not zero (MQTT-3.6.1-1). */
	out[0] = type << 4 | (type == FL_MQ_PUBREL ? 0x02 : 0);
	out[1] = 2;
	put16(out + 2, id);
	return 4;
}

size_t
fl_mq_bare(uint8_t *out, FlMqType type)
{
	out[0] = type << 4;
	out[1] = 0;
	return 2;
}

int
fl_mq_parse(const uint8_t *in, size_t len, FlMqPacket *p)
{
	size_t n = 1;
	size_t rest = 0;
	int shift = 0;

	if (len < 2)
		return 0;
	for (;;)
	{
		if (n >= len)
			return 0;
		rest |= (size_t) (in[n] & 0x7f) << shift;
		if (!(in[n++] & 0x80))
			break;
		shift += 7;
		if (shift > 21)
			return -1;
	}
	if (len - n < rest)
		return 0;
	p->type = in[0] >> 4;
	p->flags = in[0] & 0x0f;
	p->body = in + n;
	p->body_len = rest;
	p->total_len = n + rest;
	return 1;
}

/*
 * Reads over the properties of a CONNACK and keeps those that bind a client.  Which property has which form is a
 * table in MQTT5-2.2.2.2; only those that a CONNACK may carry are known here.
 */
static void
read_connack_properties(Reader *r, FlMqConnack *out)
{
	uint32_t len = get_varint(r);
	const uint8_t *end;

	if (!r->ok || (size_t) (r->end - r->at) < len)
	{
		r->ok = false;
		return;
	}
	end = r->at + len;
	while (r->ok && r->at < end)
	{
		switch (get_bytes(r, 1))
		{
			case 0x21:
				out->receive_maximum = (uint16_t) get_bytes(r, 2);
				break;
			case 0x22:
				out->alias_maximum = (uint16_t) get_bytes(r, 2);
				break;
			case 0x13:
				out->keep_alive = (uint16_t) get_bytes(r, 2);
				break;
			case 0x11:
			case 0x27:
				skip(r, 4);
				break;
			case 0x24:
			case 0x25:
			case 0x28:
			case 0x29:
			case 0x2a:
				skip(r, 1);
				break;
			case 0x12:
			case 0x15:
			case 0x16:
			case 0x1a:
			case 0x1c:
			case 0x1f:
				skip(r, get_bytes(r, 2));
				break;
			case 0x26:
				skip(r, get_bytes(r, 2));
				skip(r, get_bytes(r, 2));
				break;
			default:
				r->ok = false;
		}
	}
}

bool
fl_mq_read_connack(const FlMqPacket *p, int version, FlMqConnack *out)
{
	Reader r = reader_of(p);

	out->session_present = get_bytes(&r, 1) & 1;
	out->code = (uint8_t) get_bytes(&r, 1);
	out->receive_maximum = 65535;
	out->alias_maximum = 0;
	out->keep_alive = 0;
	/* A server that does not speak 5 answers in the form of 3.1.1. */
	if (version == FL_MQ_5 && r.at < r.end)
		read_connack_properties(&r, out);
	return r.ok;
}

bool
fl_mq_read_publish(const FlMqPacket *p, int version, FlMqPublish *out)
{
	Reader r = reader_of(p);

	out->qos = p->flags >> 1 & 3;
	out->dup = (p->flags & 0x08) != 0;
	out->retain = (p->flags & 0x01) != 0;
	out->topic_len = get_bytes(&r, 2);
	out->topic = r.at;
	skip(&r, out->topic_len);
	out->id = out->qos > 0 ? (uint16_t) get_bytes(&r, 2) : 0;
	if (version == FL_MQ_5)
		skip(&r, get_varint(&r));
	out->payload = r.at;
	out->payload_len = r.ok ? (size_t) (r.end - r.at) : 0;
	return r.ok && out->qos < 3 && (out->qos == 0 || out->id != 0);
}

bool
fl_mq_read_ack(const FlMqPacket *p, int version, uint16_t *id, uint8_t *code)
{
	Reader r = reader_of(p);

	*id = (uint16_t) get_bytes(&r, 2);
	*code = 0;
	if (version == FL_MQ_5 && r.at < r.end)
		*code = (uint8_t) get_bytes(&r, 1);
	return r.ok && *id != 0;
}

bool
fl_mq_read_suback(const FlMqPacket *p, int version, uint16_t *id, int *granted, int *refused)
{
	Reader r = reader_of(p);

	*id = (uint16_t) get_bytes(&r, 2);
	*granted = *refused = 0;
	if (version == FL_MQ_5)
		skip(&r, get_varint(&r));
	while (r.ok && r.at < r.end)
	{
		if (get_bytes(&r, 1) >= 0x80)
			(*refused)++;
		else
			(*granted)++;
	}
	return r.ok && *id != 0 && *granted + *refused > 0;
}
