/*-------------------------------------------------------------------------
 *
 * fuzz_kafka.c
 *	  Arbitrary bytes as Kafka requests and answers.
 *
 * As the door sees them: a frame, its header, its body.  And each message in
 * each version on its own, chosen by two bytes, else the fuzzer would have to
 * find answers and unserved versions without a way in.  What is accepted must
 * be readable to its end and, written again and read again, the same.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/kafka_apis.h"
#include "fleetlog/kafka_codec.h"
#include "fleetlog/kafka_group.h"

#define MAX_OUT ((size_t) 1 << 20)

volatile uint8_t fl_fuzz_sink;

static void visit_struct(const FlKafkaStruct *s, void *in);

static void
touch(const uint8_t *p, int32_t len)
{
	FL_FUZZ_ASSERT(len >= -1);
	for (int32_t i = 0; i < len; i++)
		fl_fuzz_sink = p[i];
}

/* Reads a value to its end. */
static void
visit_value(const FlKafkaField *f, void *in)
{
	switch ((FlKafkaKind) f->kind)
	{
		case FL_KAFKA_STRING:
		case FL_KAFKA_BYTES:
			touch(((FlKafkaBytes *) in)->data, ((FlKafkaBytes *) in)->len);
			break;
		case FL_KAFKA_RECORDS:
			touch(((FlKafkaRecords *) in)->data, ((FlKafkaRecords *) in)->len);
			break;
		case FL_KAFKA_STRUCT:
			visit_struct(f->type, in);
			break;
		default:
			break;
	}
}

static void
visit_array(const FlKafkaField *f, FlKafkaArray *a)
{
	static const uint8_t sizes[] = {
		1, 1, 2, 4, 8, 16, sizeof(FlKafkaBytes), sizeof(FlKafkaBytes), sizeof(FlKafkaRecords)};
	uint64_t item[FL_KAFKA_STRUCT_MAX / 8];
	int32_t n = 0;

	while (fl_kafka_array_next(a, item, f->kind == FL_KAFKA_STRUCT ? f->type->size : sizes[f->kind]))
	{
		visit_value(f, item);
		n++;
	}
	FL_FUZZ_ASSERT(n == (a->count > 0 ? a->count : 0));
}

static void
visit_struct(const FlKafkaStruct *s, void *in)
{
	for (int i = 0; i < s->count; i++)
	{
		char *member = (char *) in + s->fields[i].offset;

		if (s->fields[i].is_array)
			visit_array(&s->fields[i], (FlKafkaArray *) member);
		else
			visit_value(&s->fields[i], member);
	}
}

static void
check_message(const FlKafkaMessage *m, int16_t version, const uint8_t *data, size_t len)
{
	uint64_t root[FL_KAFKA_STRUCT_MAX / 8];
	uint64_t root_again[FL_KAFKA_STRUCT_MAX / 8];
	FlBuf once;
	FlBuf twice;

	FL_FUZZ_ASSERT(m->root->size <= sizeof(root));
	if (fl_kafka_decode(m, version, data, len, root) != FL_OK)
		return;
	fl_buf_init(&once, NULL, MAX_OUT);
	fl_buf_init(&twice, NULL, MAX_OUT);
	FL_FUZZ_ASSERT(fl_kafka_encode(m, version, root, &once) == FL_OK);
	FL_FUZZ_ASSERT(once.len <= len);
	visit_struct(m->root, root);
	FL_FUZZ_ASSERT(fl_kafka_decode(m, version, once.data, once.len, root_again) == FL_OK);
	FL_FUZZ_ASSERT(fl_kafka_encode(m, version, root_again, &twice) == FL_OK);
	FL_FUZZ_ASSERT(once.len == twice.len && (once.len == 0 || memcmp(once.data, twice.data, once.len) == 0));
	fl_buf_free(&once);
	fl_buf_free(&twice);
}

/* Message number n: requests, answers, and what members of a group hand each other. */
static const FlKafkaMessage *
message(unsigned n)
{
	n %= 2 * FL_KAFKA_N_APIS + 2;
	if (n == 2 * FL_KAFKA_N_APIS)
		return &fl_kafka_consumer_protocol_subscription;
	if (n == 2 * FL_KAFKA_N_APIS + 1)
		return &fl_kafka_consumer_protocol_assignment;
	return n % 2 == 0 ? fl_kafka_apis[n / 2].request : fl_kafka_apis[n / 2].response;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FlKafkaRequestHeader h;
	size_t frame;

	if (fl_kafka_decode_frame(data, size, MAX_OUT, &frame) == FL_OK)
	{
		FL_FUZZ_ASSERT(frame + FL_KAFKA_FRAME_HEADER <= size);
		if (fl_kafka_decode_request_header(data + FL_KAFKA_FRAME_HEADER, frame, &h) == FL_OK)
		{
			FL_FUZZ_ASSERT(h.body_at <= frame);
			touch(h.client_id.data, h.client_id.len);
			check_message(h.api->request, h.version, data + FL_KAFKA_FRAME_HEADER + h.body_at, frame - h.body_at);
		}
	}
	if (size >= 2)
	{
		const FlKafkaMessage *m = message(data[0]);

		check_message(m, (int16_t) (m->from + data[1] % (m->to - m->from + 1)), data + 2, size - 2);
	}
	return 0;
}

/* A frame as a client sends it, and each message in each version, with defaults and an element in each outer array. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void) argc;
	(void) argv;
	for (unsigned n = 0; n < 2 * FL_KAFKA_N_APIS + 2; n++)
	{
		const FlKafkaMessage *m = message(n);

		for (int version = m->from; version <= m->to; version++)
		{
			uint64_t root[FL_KAFKA_STRUCT_MAX / 8];
			static uint64_t items[32][FL_KAFKA_STRUCT_MAX / 8];
			FlBuf out;
			char name[64];

			memset(items, 0, sizeof(items)); /* elements that are no structs: zero, or empty */
			fl_kafka_init(m, root);
			for (int i = 0; i < m->root->count; i++)
			{
				const FlKafkaField *f = &m->root->fields[i];

				if (!f->is_array)
					continue;
				if (f->kind == FL_KAFKA_STRUCT)
					fl_kafka_init_struct(f->type, items[i]);
				fl_kafka_array_set((FlKafkaArray *) ((char *) root + f->offset), items[i], 1);
			}
			fl_buf_init(&out, NULL, MAX_OUT);
			fl_write_u8(&out, (uint8_t) n);
			fl_write_u8(&out, (uint8_t) (version - m->from));
			if (fl_kafka_encode(m, (int16_t) version, root, &out) == FL_OK)
			{
				snprintf(name, sizeof(name), "%s-%d", m->root->name, version);
				fl_fuzz_seed(name, out.data, out.len);
			}
			if (n < 2 * FL_KAFKA_N_APIS && n % 2 == 0)
			{
				FlBuf frame;

				fl_buf_init(&frame, NULL, MAX_OUT);
				fl_write_be32(&frame, 0);
				fl_kafka_encode_request_header(&fl_kafka_apis[n / 2], (int16_t) version, 1, fl_kafka_string("fuzz"),
											   &frame);
				fl_write_bytes(&frame, out.data + 2, out.len - 2);
				fl_put_be32(frame.data, (uint32_t) (frame.len - FL_KAFKA_FRAME_HEADER));
				snprintf(name, sizeof(name), "frame-%s-%d", m->root->name, version);
				fl_fuzz_seed(name, frame.data, frame.len);
				fl_buf_free(&frame);
			}
			fl_buf_free(&out);
		}
	}
	return 0;
}
