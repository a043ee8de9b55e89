/*-------------------------------------------------------------------------
 *
 * kafka_tree.h
 *	  What the tests of the Kafka codec share: values as text, random values,
 *	  and decoded messages copied out of their cursors.
 *
 * All of it follows the codec's tables, so it reaches every message without
 * knowing one.  Memory comes from an arena that is emptied per case.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KAFKA_TREE_H
#define KAFKA_TREE_H

#include "fl_unit.h"

#include "fleetlog/kafka_apis.h"
#include "fleetlog/kafka_codec.h"
#include "fleetlog/kafka_group.h"

#define TREE_ARENA_SIZE ((size_t) 4 << 20)

static uint64_t tree_arena[TREE_ARENA_SIZE / 8];
static size_t tree_arena_used;

static inline void
tree_reset(void)
{
	tree_arena_used = 0;
}

static inline void *
tree_alloc(size_t size)
{
	void *p = (char *) tree_arena + tree_arena_used;

	tree_arena_used += (size + 15) & ~(size_t) 15;
	if (tree_arena_used > TREE_ARENA_SIZE)
		abort();
	return p;
}

/* Calls f for every message in every version that the tables know. */
static inline void
tree_each_version(void (*f)(const FlKafkaMessage *m, int16_t version))
{
	const FlKafkaMessage *embedded[] = {&fl_kafka_consumer_protocol_subscription,
										&fl_kafka_consumer_protocol_assignment};

	for (int i = 0; i < FL_KAFKA_N_APIS + 2; i++)
	{
		const FlKafkaMessage *pair[2] = {i < FL_KAFKA_N_APIS ? fl_kafka_apis[i].request : embedded[i - FL_KAFKA_N_APIS],
										 i < FL_KAFKA_N_APIS ? fl_kafka_apis[i].response : NULL};

		for (int k = 0; k < 2 && pair[k] != NULL; k++)
			for (int version = pair[k]->from; version <= pair[k]->to; version++)
				f(pair[k], (int16_t) version);
	}
}

static inline size_t
tree_item_size(const FlKafkaField *f)
{
	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
		case FL_KAFKA_INT8:
			return 1;
		case FL_KAFKA_INT16:
			return 2;
		case FL_KAFKA_INT32:
			return 4;
		case FL_KAFKA_INT64:
			return 8;
		case FL_KAFKA_UUID:
			return 16;
		case FL_KAFKA_RECORDS:
			return sizeof(FlKafkaRecords);
		case FL_KAFKA_STRUCT:
			return f->type->size;
		default:
			return sizeof(FlKafkaBytes);
	}
}

static inline bool
tree_in(FlKafkaVersions v, int16_t version)
{
	return version >= v.from && version <= v.to;
}

/* ---------- text ---------- */

static inline void tree_text_struct(FlBuf *out, const FlKafkaStruct *s, int16_t version, const void *in);

static inline void
tree_put(FlBuf *out, const char *text)
{
	fl_write_bytes(out, text, strlen(text));
}

static inline void
tree_put_hex(FlBuf *out, const uint8_t *p, int32_t len, const char *quote)
{
	static const char digits[] = "0123456789abcdef";

	if (len < 0)
	{
		tree_put(out, "null");
		return;
	}
	tree_put(out, quote);
	for (int32_t i = 0; i < len; i++)
	{
		fl_write_u8(out, (uint8_t) digits[p[i] >> 4]);
		fl_write_u8(out, (uint8_t) digits[p[i] & 15]);
	}
	tree_put(out, quote);
}

static inline void
tree_text_value(FlBuf *out, const FlKafkaField *f, int16_t version, const void *in)
{
	char number[32];
	int64_t n = 0;

	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
			tree_put(out, *(const bool *) in ? "true" : "false");
			return;
		case FL_KAFKA_INT8:
			n = *(const int8_t *) in;
			break;
		case FL_KAFKA_INT16:
			n = *(const int16_t *) in;
			break;
		case FL_KAFKA_INT32:
			n = *(const int32_t *) in;
			break;
		case FL_KAFKA_INT64:
			n = *(const int64_t *) in;
			break;
		case FL_KAFKA_UUID:
			tree_put_hex(out, in, 16, "");
			return;
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
			tree_put_hex(out, ((const FlKafkaBytes *) in)->data, ((const FlKafkaBytes *) in)->len, "\"");
			return;
		case FL_KAFKA_RECORDS:
			tree_put_hex(out, ((const FlKafkaRecords *) in)->data, ((const FlKafkaRecords *) in)->len, "\"");
			return;
		case FL_KAFKA_STRUCT:
			tree_text_struct(out, f->type, version, in);
			return;
	}
	snprintf(number, sizeof(number), "%" PRId64, n);
	tree_put(out, number);
}

static inline void
tree_text_array(FlBuf *out, const FlKafkaField *f, int16_t version, const FlKafkaArray *in)
{
	FlKafkaArray copy = *in;
	uint64_t item[FL_KAFKA_STRUCT_MAX / 8];
	int32_t n = 0;

	if (in->count < 0)
	{
		tree_put(out, "null");
		return;
	}
	tree_put(out, "[");
	while (fl_kafka_array_next(&copy, item, tree_item_size(f)))
	{
		if (n++ > 0)
			tree_put(out, ",");
		tree_text_value(out, f, version, item);
	}
	FL_CHECK_INT(n, in->count);
	tree_put(out, "]");
}

static inline void
tree_text_struct(FlBuf *out, const FlKafkaStruct *s, int16_t version, const void *in)
{
	bool first = true;

	tree_put(out, "{");
	for (int i = 0; i < s->count; i++)
	{
		const FlKafkaField *f = &s->fields[i];
		const char *member = (const char *) in + f->offset;

		if (!tree_in(f->versions, version))
			continue;
		if (!first)
			tree_put(out, ",");
		first = false;
		tree_put(out, f->name);
		tree_put(out, ":");
		if (f->is_array)
			tree_text_array(out, f, version, (const FlKafkaArray *) member);
		else if (f->present != FL_KAFKA_NO_PRESENT && !*(const bool *) ((const char *) in + f->present))
			tree_put(out, "null");
		else
			tree_text_value(out, f, version, member);
	}
	tree_put(out, "}");
}

/* The values of a message as text: the same text for the same values. */
static inline void
tree_text(FlBuf *out, const FlKafkaMessage *m, int16_t version, const void *in)
{
	fl_buf_reset(out);
	tree_text_struct(out, m->root, version, in);
	fl_write_u8(out, 0);
}

/* ---------- random values ---------- */

static inline void tree_random_struct(const FlKafkaStruct *s, int16_t version, void *out);

static inline void
tree_random_value(const FlKafkaField *f, int16_t version, void *out)
{
	uint64_t bits = fl_unit_random() >> fl_unit_random_below(64);
	size_t len = fl_unit_random_below(30) == 0 ? 100 + fl_unit_random_below(200) : fl_unit_random_below(6);
	uint8_t *bytes;

	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_BOOL:
			*(bool *) out = (bits & 1) != 0;
			return;
		case FL_KAFKA_STRUCT:
			tree_random_struct(f->type, version, out);
			return;
		case FL_KAFKA_UUID:
			for (int i = 0; i < 16; i++)
				((uint8_t *) out)[i] = (uint8_t) fl_unit_random_below(256);
			return;
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
		case FL_KAFKA_RECORDS:
			bytes = tree_alloc(len + 1);
			for (size_t i = 0; i < len; i++)
				bytes[i] = (uint8_t) fl_unit_random_below(256);
			if (f->kind == FL_KAFKA_RECORDS)
			{
				memset(out, 0, sizeof(FlKafkaRecords));
				((FlKafkaRecords *) out)->data = bytes;
				((FlKafkaRecords *) out)->len = (int32_t) len;
			}
			else
				*(FlKafkaBytes *) out = fl_kafka_bytes(bytes, (int32_t) len);
			return;
		default:
			memcpy(out, &bits, tree_item_size(f));
			return;
	}
}

static inline void
tree_random_struct(const FlKafkaStruct *s, int16_t version, void *out)
{
	fl_kafka_init_struct(s, out);
	for (int i = 0; i < s->count; i++)
	{
		const FlKafkaField *f = &s->fields[i];
		char *member = (char *) out + f->offset;
		bool null = tree_in(f->nullable, version) && fl_unit_random_below(4) == 0;

		if (!tree_in(f->versions, version) || (f->tag != FL_KAFKA_NO_TAG && fl_unit_random_below(2) == 0))
			continue;
		if (f->is_array)
		{
			size_t size = tree_item_size(f);
			int32_t n =
				f->kind != FL_KAFKA_STRUCT && fl_unit_random_below(30) == 0 ? 130 : (int32_t) fl_unit_random_below(4);
			char *items = tree_alloc(size * (size_t) n);

			for (int32_t k = 0; k < n && !null; k++)
				tree_random_value(f, version, items + size * (size_t) k);
			fl_kafka_array_set((FlKafkaArray *) member, items, null ? -1 : n);
		}
		else if (f->kind == FL_KAFKA_STRUCT)
		{
			if (f->present != FL_KAFKA_NO_PRESENT)
				*(bool *) ((char *) out + f->present) = !null;
			if (!null)
				tree_random_value(f, version, member);
		}
		else if (null)
		{
			memset(member, 0, tree_item_size(f));
			if (f->kind == FL_KAFKA_RECORDS)
				((FlKafkaRecords *) member)->len = -1;
			else
				((FlKafkaBytes *) member)->len = -1;
		}
		else
			tree_random_value(f, version, member);
	}
}

/* ---------- decoded messages without their cursors ---------- */

/* Replaces every cursor in a decoded struct by the items themselves. */
static inline void
tree_materialise(const FlKafkaStruct *s, void *out)
{
	for (int i = 0; i < s->count; i++)
	{
		const FlKafkaField *f = &s->fields[i];
		char *member = (char *) out + f->offset;

		if (f->is_array && ((FlKafkaArray *) member)->count > 0)
		{
			FlKafkaArray *a = (FlKafkaArray *) member;
			size_t size = tree_item_size(f);
			char *items = tree_alloc(size * (size_t) a->count);
			char *item = items;

			for (; fl_kafka_array_next(a, item, size); item += size)
				if (f->kind == FL_KAFKA_STRUCT)
					tree_materialise(f->type, item);
			fl_kafka_array_set(a, items, a->count);
		}
		else if (!f->is_array && f->kind == FL_KAFKA_STRUCT)
			tree_materialise(f->type, member);
	}
}

#endif /* KAFKA_TREE_H */
