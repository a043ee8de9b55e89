/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  Kafka messages by table: bytes into structs, and cursors over arrays.
 *
 * One walk checks the whole message.  It fills the outermost struct only;
 * an array becomes a cursor over its bytes, and each element is read again,
 * into a struct of the caller's, when the cursor reaches it.  So nothing is
 * allocated, whatever counts and lengths a peer declares, and every byte is
 * read at most once per level of nesting (five in Kafka's messages).
 *
 * Invariants: an array has no more elements than bytes are left, and all
 * arrays of a message together no more than FL_KAFKA_MAX_ITEMS; recursion
 * follows the tables, which have no cycles.
 *
 * Called by the Kafka door and by tests.  Must not allocate, and must not
 * trust a table less than the input: what the tables promise, the generator
 * has checked.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/kafka_codec.h"

#include "kafka_private.h"

/* What one walk carries along. */
typedef struct FlKafkaWalk
{
	FlReader r;
	int32_t items_left; /* of FL_KAFKA_MAX_ITEMS */
	int8_t version;
	bool flexible;
	bool too_many;
} FlKafkaWalk;

static void fl_kafka_read_struct(FlKafkaWalk *w, const FlKafkaStruct *s, void *out);

/* Unsigned varint of 32 bits: lengths, counts and tags of flexible versions. */
static inline uint32_t
fl_kafka_read_uvarint(FlReader *r)
{
	if (!r->failed && r->pos < r->end && *r->pos < 0x80)
		return *r->pos++;
	return (uint32_t) fl_read_groups(r, 32);
}

static inline bool
fl_kafka_field_nullable(const FlKafkaField *f, int8_t version)
{
	return fl_kafka_has(f->nullable, version);
}

/* A length or a count: -1 is null; the caller compares it with what is left. */
static int32_t
fl_kafka_read_length(FlKafkaWalk *w, bool is_short, bool nullable)
{
	int64_t n;

	if (w->flexible)
		n = (int64_t) fl_kafka_read_uvarint(&w->r) - 1;
	else if (is_short)
		n = (int16_t) fl_read_be16(&w->r);
	else
		n = (int32_t) fl_read_be32(&w->r);

	if (n > INT32_MAX || n < -1 || (n == -1 && !nullable))
	{
		w->r.failed = true;
		return 0;
	}
	return (int32_t) n;
}

static void
fl_kafka_read_bytes(FlKafkaWalk *w, FlKafkaKind kind, bool nullable, void *out)
{
	int32_t len = fl_kafka_read_length(w, kind == FL_KAFKA_STRING, nullable);
	const uint8_t *data = len > 0 ? fl_read_bytes(&w->r, (size_t) len) : w->r.pos;

	if (out == NULL || w->r.failed)
		return;
	if (kind == FL_KAFKA_RECORDS)
	{
		FlKafkaRecords *records = out;

		records->data = len < 0 ? NULL : data;
		records->len = len;
		records->place = NULL;
		records->arg = NULL;
	}
	else
	{
		FlKafkaBytes *bytes = out;

		bytes->data = len < 0 ? NULL : data;
		bytes->len = len;
	}
}

/* One value that is not an array; out NULL only checks it. */
static void
fl_kafka_read_value(FlKafkaWalk *w, const FlKafkaField *f, bool nullable, void *out)
{
	const uint8_t *p;

	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
		case FL_KAFKA_INT8:
		case FL_KAFKA_INT16:
		case FL_KAFKA_INT32:
		case FL_KAFKA_INT64:
		case FL_KAFKA_UUID:
			p = fl_read_bytes(&w->r, fl_kafka_fixed_size(f->kind));
			if (p == NULL || out == NULL)
				return;
			break;
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
		case FL_KAFKA_RECORDS:
			fl_kafka_read_bytes(w, (FlKafkaKind) f->kind, nullable, out);
			return;
		case FL_KAFKA_STRUCT:
			fl_kafka_read_struct(w, f->type, out);
			return;
		default:
			w->r.failed = true;
			return;
	}

	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
			*(bool *) out = *p != 0;
			break;
		case FL_KAFKA_INT8:
			*(int8_t *) out = (int8_t) *p;
			break;
		case FL_KAFKA_INT16:
			*(int16_t *) out = (int16_t) fl_get_be16(p);
			break;
		case FL_KAFKA_INT32:
			*(int32_t *) out = (int32_t) fl_get_be32(p);
			break;
		case FL_KAFKA_INT64:
			*(int64_t *) out = (int64_t) fl_get_be64(p);
			break;
		default:
			memcpy(out, p, sizeof(FlKafkaUuid));
			break;
	}
}

/* Count and elements; the elements are only checked. */
static void
fl_kafka_read_array(FlKafkaWalk *w, const FlKafkaField *f, FlKafkaArray *out)
{
	int32_t count = fl_kafka_read_length(w, false, fl_kafka_field_nullable(f, w->version));
	size_t fixed = fl_kafka_fixed_size(f->kind);
	const uint8_t *start = w->r.pos;

	/* Each element has at least a byte. */
	if (count > 0 && (size_t) count > fl_reader_left(&w->r) / (fixed > 0 ? fixed : 1))
		w->r.failed = true;
	if (!w->r.failed && count > w->items_left)
	{
		w->too_many = true;
		w->r.failed = true;
	}
	if (w->r.failed)
		return;
	if (count > 0)
		w->items_left -= count;

	if (fixed > 0 && count > 0)
		(void) fl_read_bytes(&w->r, fixed * (size_t) count);
	else
		for (int32_t i = 0; i < count && !w->r.failed; i++)
			fl_kafka_read_value(w, f, false, NULL);

	if (out != NULL)
	{
		out->items = NULL;
		out->field = f;
		out->pos = start;
		out->start = start;
		out->end = w->r.pos;
		out->count = count;
		out->left = count > 0 ? count : 0;
		out->version = w->version;
		out->flexible = w->flexible;
	}
}

/* A field that is in this version, tagged or not. */
static void
fl_kafka_read_field(FlKafkaWalk *w, const FlKafkaField *f, char *out)
{
	void *member = out != NULL ? out + f->offset : NULL;

	if (f->is_array)
	{
		fl_kafka_read_array(w, f, member);
		return;
	}
	if (f->kind == FL_KAFKA_STRUCT && fl_kafka_field_nullable(f, w->version))
	{
		int8_t marker = (int8_t) fl_read_u8(&w->r);

		/* Kafka writes -1 for null and 1 for a struct, and reads any negative as null. */
		if (out != NULL)
			*(bool *) (out + f->present) = marker >= 0;
		if (marker < 0)
		{
			if (member != NULL)
				fl_kafka_init_struct(f->type, member);
			return;
		}
	}
	else if (f->present != FL_KAFKA_NO_PRESENT && out != NULL)
		*(bool *) (out + f->present) = true;
	fl_kafka_read_value(w, f, fl_kafka_field_nullable(f, w->version), member);
}

/*
 * The tagged fields at the end of a struct of a flexible version.  Known ones
 * fill their member, which has its default already; others are skipped.  The
 * order is not enforced, a known tag twice is refused.
 */
static void
fl_kafka_read_tags(FlKafkaWalk *w, const FlKafkaStruct *s, char *out)
{
	uint32_t n = fl_kafka_read_uvarint(&w->r);
	uint32_t seen = 0;

	/* Each has at least a tag and a size. */
	if (n > fl_reader_left(&w->r) / 2)
		w->r.failed = true;
	for (uint32_t i = 0; i < n && !w->r.failed; i++)
	{
		uint32_t tag = fl_kafka_read_uvarint(&w->r);
		uint32_t size = fl_kafka_read_uvarint(&w->r);
		const uint8_t *data = fl_read_bytes(&w->r, size);
		const FlKafkaField *f = data != NULL ? fl_kafka_find_tag(s, tag, w->version) : NULL;
		FlReader outer = w->r;

		if (f == NULL)
			continue;
		if ((seen & (UINT32_C(1) << tag)) != 0)
		{
			w->r.failed = true;
			return;
		}
		seen |= UINT32_C(1) << tag;

		fl_reader_init(&w->r, data, size);
		fl_kafka_read_field(w, f, out);
		outer.failed = w->r.failed || fl_reader_left(&w->r) != 0;
		w->r = outer;
	}
}

/* out NULL only checks. */
static void
fl_kafka_read_struct(FlKafkaWalk *w, const FlKafkaStruct *s, void *out)
{
	for (int i = 0; i < s->count && !w->r.failed; i++)
	{
		const FlKafkaField *f = &s->fields[i];

		if (f->tag == FL_KAFKA_NO_TAG && fl_kafka_has(f->versions, w->version))
			fl_kafka_read_field(w, f, out);
		else if (out != NULL)
			fl_kafka_init_field(f, out);
	}
	if (w->flexible && !w->r.failed)
		fl_kafka_read_tags(w, s, out);
}

FlResult
fl_kafka_decode_request(const FlKafkaMessage *m, int16_t version, const uint8_t *data, size_t len, void *out,
						size_t *left)
{
	FlKafkaWalk w;

	*left = 0;
	if (version < m->from || version > m->to)
		return FL_UNSUPPORTED;
	fl_reader_init(&w.r, data, len);
	w.items_left = FL_KAFKA_MAX_ITEMS;
	w.version = (int8_t) version;
	w.flexible = version >= m->flexible;
	w.too_many = false;

	fl_kafka_read_struct(&w, m->root, out);
	if (w.too_many)
		return FL_TOO_LARGE;
	if (w.r.failed)
		return FL_MALFORMED;
	*left = fl_reader_left(&w.r);
	return FL_OK;
}

FlResult
fl_kafka_decode(const FlKafkaMessage *m, int16_t version, const uint8_t *data, size_t len, void *out)
{
	size_t left;
	FlResult result = fl_kafka_decode_request(m, version, data, len, out, &left);

	return result == FL_OK && left != 0 ? FL_MALFORMED : result;
}

/* ---------- arrays ---------- */

bool
fl_kafka_array_next(FlKafkaArray *a, void *item, size_t item_size)
{
	FlKafkaWalk w;

	if (a->left <= 0)
		return false;
	a->left--;
	if (a->items != NULL)
	{
		memcpy(item, (const char *) a->items + item_size * (size_t) (a->count - a->left - 1), item_size);
		return true;
	}

	fl_reader_init(&w.r, a->pos, (size_t) (a->end - a->pos));
	w.items_left = FL_KAFKA_MAX_ITEMS;
	w.version = a->version;
	w.flexible = a->flexible;
	w.too_many = false;
	fl_kafka_read_value(&w, a->field, false, item);
	a->pos = w.r.pos;
	if (w.r.failed)
		a->left = 0;
	return !w.r.failed;
}

void
fl_kafka_array_rewind(FlKafkaArray *a)
{
	a->pos = a->start;
	a->left = a->count > 0 && (a->items != NULL || a->field != NULL) ? a->count : 0;
}

void
fl_kafka_array_set(FlKafkaArray *a, const void *items, int32_t count)
{
	memset(a, 0, sizeof(*a));
	a->items = items;
	a->count = count;
	a->left = count > 0 && items != NULL ? count : 0;
}

/* ---------- defaults ---------- */

void
fl_kafka_init_field(const FlKafkaField *f, void *out)
{
	char *member = (char *) out + f->offset;

	if (f->is_array)
	{
		fl_kafka_array_set((FlKafkaArray *) member, NULL, f->default_value != 0 ? -1 : 0);
		return;
	}
	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
			*(bool *) member = f->default_value != 0;
			break;
		case FL_KAFKA_INT8:
			*(int8_t *) member = (int8_t) f->default_value;
			break;
		case FL_KAFKA_INT16:
			*(int16_t *) member = (int16_t) f->default_value;
			break;
		case FL_KAFKA_INT32:
			*(int32_t *) member = (int32_t) f->default_value;
			break;
		case FL_KAFKA_INT64:
			*(int64_t *) member = f->default_value;
			break;
		case FL_KAFKA_UUID:
			memset(member, 0, sizeof(FlKafkaUuid));
			break;
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
			*(FlKafkaBytes *) member = fl_kafka_string(f->default_value != 0 ? NULL : "");
			break;
		case FL_KAFKA_RECORDS:
			memset(member, 0, sizeof(FlKafkaRecords));
			((FlKafkaRecords *) member)->len = f->default_value != 0 ? -1 : 0;
			break;
		case FL_KAFKA_STRUCT:
			fl_kafka_init_struct(f->type, member);
			if (f->present != FL_KAFKA_NO_PRESENT)
				*(bool *) ((char *) out + f->present) = f->default_value == 0;
			break;
	}
}

void
fl_kafka_init_struct(const FlKafkaStruct *s, void *out)
{
	for (int i = 0; i < s->count; i++)
		fl_kafka_init_field(&s->fields[i], out);
}

void
fl_kafka_init(const FlKafkaMessage *m, void *out)
{
	fl_kafka_init_struct(m->root, out);
}

/* ---------- strings ---------- */

FlKafkaBytes
fl_kafka_string(const char *s)
{
	return fl_kafka_bytes(s, s != NULL ? (int32_t) strlen(s) : -1);
}

bool
fl_kafka_string_is(FlKafkaBytes s, const char *text)
{
	size_t len = strlen(text);

	return s.len >= 0 && (size_t) s.len == len && (len == 0 || memcmp(s.data, text, len) == 0);
}
