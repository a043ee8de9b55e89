/*
 * session_event.c
 *		The codec of the session journal (session_event.h).
 *
 * Encoder and decoder stand side by side, one case per type.  An event of an
 * unknown type ends the walk: its length is not known either, and a journal
 * that was written by a later version must not be half understood.
 */
#include <string.h>

#include "fleetlog/session_event.h"

/* Offsets within a RECEIVED event: type 1, session 4, generation 2, id 2, qos 1, hash 4, distance 2. */
#define DISTANCE_AT 14

/* Options of a subscription, in one byte. */
#define OPTION_QOS          0x03
#define OPTION_NO_LOCAL     0x04
#define OPTION_AS_PUBLISHED 0x08
#define OPTION_POSITION     0x30
#define OPTION_END_ON_DROP  0x40
#define OPTION_ALL          0x7F

/* Of a delivery, beside its QoS. */
#define SENT_RETAIN 0x04
#define SENT_ASIDE  0x08
#define SENT_SHARED 0x10

static void
write_session(FlBuf *out, const FlSessionEvent *event)
{
	fl_write_le32(out, event->session);
	fl_write_le16(out, event->generation);
}

static void
encode_opened(FlBuf *out, const FlSessionEvent *event)
{
	write_session(out, event);
	fl_write_le32(out, event->expiry_s);
	fl_write_le16(out, event->window);
	fl_write_bytes(out, event->key, FL_SESSION_KEY_LEN);
	fl_write_u8(out, event->name_len);
	fl_write_bytes(out, event->name, event->name_len);
}

static void
write_text(FlBuf *out, const FlSessionEvent *event)
{
	fl_write_le16(out, event->text_len);
	fl_write_bytes(out, event->text, event->text_len);
}

static void
encode_subscribed(FlBuf *out, const FlSessionEvent *event)
{
	write_session(out, event);
	fl_write_u8(out, (uint8_t) (event->qos | (event->no_local ? OPTION_NO_LOCAL : 0) |
								(event->as_published ? OPTION_AS_PUBLISHED : 0) |
								((event->position << 4) & OPTION_POSITION) |
								(event->end_on_drop ? OPTION_END_ON_DROP : 0)));
	fl_write_le32(out, event->id);
	fl_write_le64(out, (uint64_t) event->since);
	write_text(out, event);
}

void
fl_session_encode_event(FlBuf *out, const FlSessionEvent *event)
{
	fl_write_u8(out, event->type);
	switch ((FlSessionEventType) event->type)
	{
		case FL_SESSION_AT:
			fl_write_le32(out, event->stream);
			fl_write_le16(out, event->shard);
			fl_write_le64(out, (uint64_t) event->log_offset);
			break;
		case FL_SESSION_OPENED:
			encode_opened(out, event);
			break;
		case FL_SESSION_ENDED:
			write_session(out, event);
			break;
		case FL_SESSION_CHANGED:
			write_session(out, event);
			fl_write_le32(out, event->expiry_s);
			fl_write_le16(out, event->window);
			break;
		case FL_SESSION_RECEIVED:
			write_session(out, event);
			fl_write_le16(out, event->packet_id);
			fl_write_u8(out, event->qos);
			fl_write_le32(out, event->hash);
			fl_write_le16(out, event->distance);
			break;
		case FL_SESSION_RELEASED:
			write_session(out, event);
			fl_write_le16(out, event->packet_id);
			break;
		case FL_SESSION_SNAPSHOT:
			fl_write_le32(out, event->stream);
			fl_write_le64(out, (uint64_t) event->log_offset);
			break;
		case FL_SESSION_SNAPSHOT_END:
			break;
		case FL_SESSION_AWAY:
			write_session(out, event);
			fl_write_le64(out, (uint64_t) event->since);
			break;
		case FL_SESSION_SUBSCRIBED:
			encode_subscribed(out, event);
			break;
		case FL_SESSION_UNSUBSCRIBED:
			write_session(out, event);
			write_text(out, event);
			break;
		case FL_SESSION_CHECKPOINT:
			write_session(out, event);
			break;
		case FL_SESSION_BOOKMARK:
		case FL_SESSION_EXACT:
			write_session(out, event);
			if (event->type == FL_SESSION_EXACT)
				fl_write_u8(out, event->qos);
			fl_write_le32(out, event->stream);
			fl_write_le16(out, event->shard);
			fl_write_le64(out, (uint64_t) event->log_offset);
			break;
		case FL_SESSION_START:
			write_session(out, event);
			fl_write_le32(out, event->hash);
			fl_write_le16(out, event->text_len);
			fl_write_le32(out, event->stream);
			fl_write_le16(out, event->shard);
			fl_write_le64(out, (uint64_t) event->log_offset);
			break;
		case FL_SESSION_SENT:
			write_session(out, event);
			fl_write_le16(out, event->packet_id);
			fl_write_u8(out, (uint8_t) (event->qos | (event->retain ? SENT_RETAIN : 0) |
										(event->aside ? SENT_ASIDE : 0) | (event->shared ? SENT_SHARED : 0)));
			fl_write_le16(out, event->distance);
			break;
		case FL_SESSION_SENT_RELEASED:
		case FL_SESSION_SENT_DONE:
			write_session(out, event);
			fl_write_le16(out, event->packet_id);
			break;
		case FL_SESSION_WILL:
			write_session(out, event);
			fl_write_le32(out, event->number);
			fl_write_le32(out, event->delay_s);
			fl_write_le32(out, event->data_len);
			fl_write_bytes(out, event->data, event->data_len);
			break;
		case FL_SESSION_WILL_DONE:
			write_session(out, event);
			fl_write_le32(out, event->number);
			break;
	}
}

void
fl_session_reader_init(FlSessionReader *reader, const uint8_t *data, size_t len)
{
	memset(&reader->at, 0, sizeof(reader->at));
	fl_reader_init(&reader->in, data, len);
	reader->result = FL_OK;
}

static void
read_session(FlReader *in, FlSessionEvent *event)
{
	event->session = fl_read_le32(in);
	event->generation = fl_read_le16(in);
}

static void
decode_opened(FlReader *in, FlSessionEvent *event)
{
	read_session(in, event);
	event->expiry_s = fl_read_le32(in);
	event->window = fl_read_le16(in);
	event->key = fl_read_bytes(in, FL_SESSION_KEY_LEN);
	event->name_len = fl_read_u8(in);
	event->name = fl_read_bytes(in, event->name_len);
}

/* Distances count from an AT; an identifier is never 0, nor is its QoS (MQTT-2.2.1-3). */
static void
decode_received(FlSessionReader *reader, FlSessionEvent *event)
{
	FlReader *in = &reader->in;

	read_session(in, event);
	event->packet_id = fl_read_le16(in);
	event->qos = fl_read_u8(in);
	event->hash = fl_read_le32(in);
	event->distance = fl_read_le16(in);
	if (reader->at.type != FL_SESSION_AT || event->packet_id == 0 || event->qos < 1 || event->qos > 2)
		in->failed = true;
	event->stream = reader->at.stream;
	event->shard = reader->at.shard;
	event->log_offset = reader->at.log_offset + event->distance;
}

static void
decode_at(FlSessionReader *reader)
{
	FlSessionEvent *at = &reader->at;

	at->type = FL_SESSION_AT;
	at->stream = fl_read_le32(&reader->in);
	at->shard = fl_read_le16(&reader->in);
	at->log_offset = (int64_t) fl_read_le64(&reader->in);
	/* A distance must be countable from it. */
	if (at->log_offset < 0 || at->log_offset > INT64_MAX - UINT16_MAX)
		reader->in.failed = true;
}

/* A filter has at least one character (MQTT-4.7.3-1). */
static void
read_text(FlReader *in, FlSessionEvent *event)
{
	event->text_len = fl_read_le16(in);
	event->text = fl_read_bytes(in, event->text_len);
	if (event->text_len == 0)
		in->failed = true;
}

static void
decode_subscribed(FlReader *in, FlSessionEvent *event)
{
	uint8_t options;

	read_session(in, event);
	options = fl_read_u8(in);
	event->qos = options & OPTION_QOS;
	event->no_local = (options & OPTION_NO_LOCAL) != 0;
	event->as_published = (options & OPTION_AS_PUBLISHED) != 0;
	event->position = (options & OPTION_POSITION) >> 4;
	event->end_on_drop = (options & OPTION_END_ON_DROP) != 0;
	event->id = fl_read_le32(in);
	event->since = (int64_t) fl_read_le64(in);
	read_text(in, event);
	if (event->qos > 2 || event->position > 2 || (options & ~OPTION_ALL) != 0)
		in->failed = true;
}

static void
decode_bookmark(FlReader *in, FlSessionEvent *event)
{
	read_session(in, event);
	if (event->type == FL_SESSION_EXACT)
		event->qos = fl_read_u8(in);
	event->stream = fl_read_le32(in);
	event->shard = fl_read_le16(in);
	event->log_offset = (int64_t) fl_read_le64(in);
	if (event->log_offset < 0 || (event->qos != 0 && event->qos != 2))
		in->failed = true;
}

static void
decode_start(FlReader *in, FlSessionEvent *event)
{
	read_session(in, event);
	event->hash = fl_read_le32(in);
	event->text_len = fl_read_le16(in);
	event->stream = fl_read_le32(in);
	event->shard = fl_read_le16(in);
	event->log_offset = (int64_t) fl_read_le64(in);
	if (event->log_offset < 0 || event->text_len == 0)
		in->failed = true;
}

static void
decode_sent(FlSessionReader *reader, FlSessionEvent *event)
{
	FlReader *in = &reader->in;
	uint8_t options;

	read_session(in, event);
	event->packet_id = fl_read_le16(in);
	options = fl_read_u8(in);
	event->qos = options & OPTION_QOS;
	event->retain = (options & SENT_RETAIN) != 0;
	event->aside = (options & SENT_ASIDE) != 0;
	event->shared = (options & SENT_SHARED) != 0;
	event->distance = fl_read_le16(in);
	if (reader->at.type != FL_SESSION_AT || event->packet_id == 0 || event->qos < 1 || event->qos > 2 ||
		(options & ~(OPTION_QOS | SENT_RETAIN | SENT_ASIDE | SENT_SHARED)) != 0)
		in->failed = true;
	event->stream = reader->at.stream;
	event->shard = reader->at.shard;
	event->log_offset = reader->at.log_offset + event->distance;
}

static void
decode_will(FlReader *in, FlSessionEvent *event)
{
	read_session(in, event);
	event->number = fl_read_le32(in);
	if (event->type == FL_SESSION_WILL)
	{
		event->delay_s = fl_read_le32(in);
		event->data_len = fl_read_le32(in);
		if (event->data_len == 0 || event->data_len > FL_SESSION_MAX_WILL)
			in->failed = true;
		event->data = fl_read_bytes(in, event->data_len);
	}
	if (event->number == 0)
		in->failed = true;
}

static void
decode_one(FlSessionReader *reader, FlSessionEvent *event)
{
	FlReader *in = &reader->in;

	memset(event, 0, sizeof(*event));
	event->type = fl_read_u8(in);
	switch ((FlSessionEventType) event->type)
	{
		case FL_SESSION_AT:
			decode_at(reader);
			return;
		case FL_SESSION_OPENED:
			decode_opened(in, event);
			return;
		case FL_SESSION_ENDED:
			read_session(in, event);
			return;
		case FL_SESSION_CHANGED:
			read_session(in, event);
			event->expiry_s = fl_read_le32(in);
			event->window = fl_read_le16(in);
			return;
		case FL_SESSION_RECEIVED:
			decode_received(reader, event);
			return;
		case FL_SESSION_RELEASED:
			read_session(in, event);
			event->packet_id = fl_read_le16(in);
			return;
		case FL_SESSION_SNAPSHOT:
			event->stream = fl_read_le32(in);
			event->log_offset = (int64_t) fl_read_le64(in);
			return;
		case FL_SESSION_SNAPSHOT_END:
			return;
		case FL_SESSION_AWAY:
			read_session(in, event);
			event->since = (int64_t) fl_read_le64(in);
			return;
		case FL_SESSION_SUBSCRIBED:
			decode_subscribed(in, event);
			return;
		case FL_SESSION_UNSUBSCRIBED:
			read_session(in, event);
			read_text(in, event);
			return;
		case FL_SESSION_CHECKPOINT:
			read_session(in, event);
			return;
		case FL_SESSION_BOOKMARK:
		case FL_SESSION_EXACT:
			decode_bookmark(in, event);
			return;
		case FL_SESSION_START:
			decode_start(in, event);
			return;
		case FL_SESSION_SENT:
			decode_sent(reader, event);
			return;
		case FL_SESSION_SENT_RELEASED:
		case FL_SESSION_SENT_DONE:
			read_session(in, event);
			event->packet_id = fl_read_le16(in);
			return;
		case FL_SESSION_WILL:
		case FL_SESSION_WILL_DONE:
			decode_will(in, event);
			return;
	}
	reader->result = FL_UNSUPPORTED;
}

bool
fl_session_next_event(FlSessionReader *reader, FlSessionEvent *event)
{
	while (reader->result == FL_OK && fl_reader_left(&reader->in) > 0)
	{
		decode_one(reader, event);
		if (reader->in.failed)
			reader->result = FL_MALFORMED;
		if (reader->result == FL_OK && event->type != FL_SESSION_AT)
			return true;
	}
	return false;
}

void
fl_session_set_distance(uint8_t *received, uint16_t distance)
{
	fl_put_le16(received + DISTANCE_AT, distance);
}
