/*-------------------------------------------------------------------------
 *
 * encode.c
 *	  Kafka messages by table: structs into bytes.
 *
 * The answer is one straight pass over the tables.  Only a tagged field needs
 * its length before its bytes: one byte is kept for it, and the bytes move by
 * as many as the length turned out to need more.  Tagged fields that hold
 * their default are left out, as Kafka does.
 *
 * An array is either the caller's structs or a cursor that a decoder made;
 * the latter is read again, element by element, so that a decoded message can
 * be encoded at once, also for another version.
 *
 * Called by the Kafka door and by tests.  Must not write through anything but
 * the buffer, whose failure is sticky and checked once at the end.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/kafka_codec.h"

#include "kafka_private.h"

typedef struct FlKafkaOut
{
	FlBuf *buf;
	int8_t version;
	bool flexible;
	bool malformed; /* sticky: what we were given cannot be said */
} FlKafkaOut;

static void fl_kafka_write_struct(FlKafkaOut *o, const FlKafkaStruct *s, const void *in);

static void
fl_kafka_write_uvarint(FlBuf *b, uint32_t u)
{
	uint8_t bytes[FL_VARINT_MAX];
	size_t n = 0;

	for (; u >= 0x80; u >>= 7)
		bytes[n++] = (uint8_t) (u | 0x80);
	bytes[n++] = (uint8_t) u;
	fl_write_bytes(b, bytes, n);
}

/* The reverse of fl_kafka_read_length. */
static void
fl_kafka_write_length(FlKafkaOut *o, int32_t n, bool is_short, bool nullable)
{
	if (n < -1 || (n == -1 && !nullable) || (is_short && !o->flexible && n > INT16_MAX))
		o->malformed = true;
	else if (o->flexible)
		fl_kafka_write_uvarint(o->buf, (uint32_t) n + 1);
	else if (is_short)
		fl_write_be16(o->buf, (uint16_t) n);
	else
		fl_write_be32(o->buf, (uint32_t) n);
}

static void
fl_kafka_write_records(FlKafkaOut *o, const FlKafkaRecords *records)
{
	if (records->len <= 0)
		return;
	if (records->place == NULL)
		fl_write_bytes(o->buf, records->data, (size_t) records->len);
	else if (!o->buf->failed)
		records->place(records->arg, o->buf->len);
}

/* One value that is not an array. */
static void
fl_kafka_write_value(FlKafkaOut *o, const FlKafkaField *f, bool nullable, const void *in)
{
	const FlKafkaBytes *bytes = in;
	const FlKafkaRecords *records = in;

	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
			fl_write_u8(o->buf, *(const bool *) in ? 1 : 0);
			break;
		case FL_KAFKA_INT8:
			fl_write_u8(o->buf, *(const uint8_t *) in);
			break;
		case FL_KAFKA_INT16:
			fl_write_be16(o->buf, *(const uint16_t *) in);
			break;
		case FL_KAFKA_INT32:
			fl_write_be32(o->buf, *(const uint32_t *) in);
			break;
		case FL_KAFKA_INT64:
			fl_write_be64(o->buf, *(const uint64_t *) in);
			break;
		case FL_KAFKA_UUID:
			fl_write_bytes(o->buf, in, sizeof(FlKafkaUuid));
			break;
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
			fl_kafka_write_length(o, bytes->len, f->kind == FL_KAFKA_STRING, nullable);
			if (bytes->len > 0 && !o->malformed)
				fl_write_bytes(o->buf, bytes->data, (size_t) bytes->len);
			break;
		case FL_KAFKA_RECORDS:
			fl_kafka_write_length(o, records->len, false, nullable);
			if (!o->malformed)
				fl_kafka_write_records(o, records);
			break;
		case FL_KAFKA_STRUCT:
			fl_kafka_write_struct(o, f->type, in);
			break;
	}
}

/* Size of one element in the caller's array. */
static size_t
fl_kafka_item_size(const FlKafkaField *f)
{
	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
			return sizeof(FlKafkaBytes);
		case FL_KAFKA_RECORDS:
			return sizeof(FlKafkaRecords);
		case FL_KAFKA_STRUCT:
			return f->type->size;
		default:
			return fl_kafka_fixed_size(f->kind);
	}
}

static void
fl_kafka_write_array(FlKafkaOut *o, const FlKafkaField *f, const FlKafkaArray *a)
{
	union
	{
		uint8_t bytes[FL_KAFKA_STRUCT_MAX];
		int64_t align_int;
		void *align_pointer;
	} item;
	size_t size = fl_kafka_item_size(f);
	FlKafkaArray copy = *a;

	fl_kafka_write_length(o, a->count, false, fl_kafka_has(f->nullable, o->version));
	if (a->count > 0 && a->items == NULL && a->field == NULL)
		o->malformed = true;
	if (a->count <= 0 || o->malformed)
		return;
	if (a->items != NULL)
	{
		for (int32_t i = 0; i < a->count && !o->malformed && !o->buf->failed; i++)
			fl_kafka_write_value(o, f, false, (const char *) a->items + size * (size_t) i);
		return;
	}

	fl_kafka_array_rewind(&copy);
	for (int32_t i = 0; i < a->count && !o->malformed && !o->buf->failed; i++)
	{
		if (fl_kafka_array_next(&copy, item.bytes, size))
			fl_kafka_write_value(o, f, false, item.bytes);
		else
			o->malformed = true;
	}
}

static void
fl_kafka_write_field(FlKafkaOut *o, const FlKafkaField *f, const char *in)
{
	const void *member = in + f->offset;
	bool nullable = fl_kafka_has(f->nullable, o->version);

	if (f->is_array)
	{
		fl_kafka_write_array(o, f, member);
		return;
	}
	if (f->present != FL_KAFKA_NO_PRESENT)
	{
		bool present = *(const bool *) (in + f->present);

		if (nullable)
			fl_write_u8(o->buf, present ? 1 : 0xff);
		else if (!present)
			o->malformed = true;
		if (!present)
			return;
	}
	fl_kafka_write_value(o, f, nullable, member);
}

/* ---------- tagged fields ---------- */

/* Whether the member holds what fl_kafka_init_field gives it. */
static bool
fl_kafka_is_default(const FlKafkaField *f, const char *in)
{
	const void *member = in + f->offset;
	static const FlKafkaUuid zero;

	if (f->is_array)
		return ((const FlKafkaArray *) member)->count == (f->default_value != 0 ? -1 : 0);
	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
			return *(const bool *) member == (f->default_value != 0);
		case FL_KAFKA_INT8:
			return *(const int8_t *) member == f->default_value;
		case FL_KAFKA_INT16:
			return *(const int16_t *) member == f->default_value;
		case FL_KAFKA_INT32:
			return *(const int32_t *) member == f->default_value;
		case FL_KAFKA_INT64:
			return *(const int64_t *) member == f->default_value;
		case FL_KAFKA_UUID:
			return memcmp(member, &zero, sizeof(zero)) == 0;
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
			return ((const FlKafkaBytes *) member)->len == (f->default_value != 0 ? -1 : 0);
		case FL_KAFKA_RECORDS:
			return ((const FlKafkaRecords *) member)->len == (f->default_value != 0 ? -1 : 0);
		case FL_KAFKA_STRUCT:
			break;
	}
	if (f->present != FL_KAFKA_NO_PRESENT && *(const bool *) (in + f->present) == (f->default_value != 0))
		return false;
	if (f->present != FL_KAFKA_NO_PRESENT && f->default_value != 0)
		return true;
	for (int i = 0; i < f->type->count; i++)
		if (!fl_kafka_is_default(&f->type->fields[i], member))
			return false;
	return true;
}

/* Puts the length in front of what was written since at, where one byte was kept. */
static void
fl_kafka_close_length(FlBuf *b, size_t at)
{
	size_t len;
	size_t more = 0;
	uint8_t *p;

	if (b->failed)
		return;
	len = b->len - at - 1;
	for (size_t rest = len >> 7; rest > 0; rest >>= 7)
		more++;
	if (more > 0)
	{
		if (fl_buf_reserve(b, more) == NULL)
			return;
		memmove(b->data + at + 1 + more, b->data + at + 1, len);
		b->len += more;
	}
	p = b->data + at;
	for (; more > 0; more--, len >>= 7)
		*p++ = (uint8_t) (len | 0x80);
	*p = (uint8_t) len;
}

static void
fl_kafka_write_tags(FlKafkaOut *o, const FlKafkaStruct *s, const char *in)
{
	uint32_t wanted = 0;
	uint32_t n = 0;

	for (int i = 0; i < s->count; i++)
	{
		const FlKafkaField *f = &s->fields[i];

		if (f->tag != FL_KAFKA_NO_TAG && fl_kafka_has(f->versions, o->version) && !fl_kafka_is_default(f, in))
		{
			wanted |= UINT32_C(1) << f->tag;
			n++;
		}
	}

	fl_kafka_write_uvarint(o->buf, n);
	for (int i = 0; i < s->count && wanted != 0; i++)
	{
		const FlKafkaField *f = &s->fields[i];
		size_t at;

		if (f->tag == FL_KAFKA_NO_TAG || (wanted & (UINT32_C(1) << f->tag)) == 0)
			continue;
		fl_kafka_write_uvarint(o->buf, (uint32_t) f->tag);
		at = o->buf->len;
		fl_write_u8(o->buf, 0);
		fl_kafka_write_field(o, f, in);
		fl_kafka_close_length(o->buf, at);
	}
}

static void
fl_kafka_write_struct(FlKafkaOut *o, const FlKafkaStruct *s, const void *in)
{
	for (int i = 0; i < s->count && !o->malformed; i++)
	{
		const FlKafkaField *f = &s->fields[i];

		if (f->tag == FL_KAFKA_NO_TAG && fl_kafka_has(f->versions, o->version))
			fl_kafka_write_field(o, f, in);
	}
	if (o->flexible && !o->malformed)
		fl_kafka_write_tags(o, s, in);
}

FlResult
fl_kafka_encode(const FlKafkaMessage *m, int16_t version, const void *in, FlBuf *out)
{
	size_t start = out->len;
	FlKafkaOut o;

	if (version < m->from || version > m->to)
		return FL_UNSUPPORTED;
	o.buf = out;
	o.version = (int8_t) version;
	o.flexible = version >= m->flexible;
	o.malformed = false;

	fl_kafka_write_struct(&o, m->root, in);
	if (!o.malformed && !out->failed)
		return FL_OK;
	out->len = start;
	return o.malformed ? FL_MALFORMED : FL_TOO_LARGE;
}
