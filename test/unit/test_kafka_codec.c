/*-------------------------------------------------------------------------
 *
 * test_kafka_codec.c
 *	  Kafka's messages, headers and frames: round trips and damage.
 *
 * Every message in every version is filled with random values, encoded,
 * decoded and encoded again; cut at every byte; flipped in every bit; and
 * overwritten at every byte with the largest lengths and counts there are.
 * Whatever is still accepted must be readable to its end and encodable.
 * That the bytes are Kafka's is shown by test_kafka_oracle.c.
 *
 *-------------------------------------------------------------------------
 */
#include "kafka_tree.h"

#include "fleetlog/kafka_admin.h"
#include "fleetlog/kafka_data.h"
#include "fleetlog/kafka_session.h"

#define ROUNDS       4
#define SMALL_SAMPLE 60

static FlBuf text_a;
static FlBuf text_b;
static FlBuf encoded;
static FlBuf again;
static uint64_t root_a[FL_KAFKA_STRUCT_MAX / 8];
static uint64_t root_b[FL_KAFKA_STRUCT_MAX / 8];

static void
setup(void)
{
	fl_buf_init(&text_a, NULL, 1 << 22);
	fl_buf_init(&text_b, NULL, 1 << 22);
	fl_buf_init(&encoded, NULL, 1 << 22);
	fl_buf_init(&again, NULL, 1 << 22);
}

static void
teardown(void)
{
	fl_buf_free(&text_a);
	fl_buf_free(&text_b);
	fl_buf_free(&encoded);
	fl_buf_free(&again);
}

/* A random message of this version in `encoded`, its text in text_a. */
static void
make_sample(const FlKafkaMessage *m, int16_t version)
{
	tree_reset();
	tree_random_struct(m->root, version, root_a);
	tree_text(&text_a, m, version, root_a);
	fl_buf_reset(&encoded);
	FL_CHECK_INT(fl_kafka_encode(m, version, root_a, &encoded), FL_OK);
}

/* The same, but short enough to try every bit of it. */
static void
make_small_sample(const FlKafkaMessage *m, int16_t version)
{
	for (int tries = 0; tries < 20; tries++)
	{
		make_sample(m, version);
		if (encoded.len <= SMALL_SAMPLE)
			break;
	}
}

/* ---------- round trips ---------- */

static void
round_trip(const FlKafkaMessage *m, int16_t version)
{
	for (int round = 0; round < ROUNDS; round++)
	{
		uint8_t *copy;

		make_sample(m, version);
		copy = fl_unit_copy(encoded.data, encoded.len);
		memset(root_b, 0xa5, sizeof(root_b));
		if (FL_CHECK_INT(fl_kafka_decode(m, version, copy, encoded.len, root_b), FL_OK))
		{
			tree_text(&text_b, m, version, root_b);
			FL_CHECK_BYTES(text_b.data, text_b.len, text_a.data, text_a.len);
			fl_buf_reset(&again);
			FL_CHECK_INT(fl_kafka_encode(m, version, root_b, &again), FL_OK);
			FL_CHECK_BYTES(again.data, again.len, encoded.data, encoded.len);
		}
		free(copy);
	}
}

static void
test_every_version_round_trips(void)
{
	tree_each_version(round_trip);
}

/* A decoded message goes out in every other version: what a version lacks is left out, what it adds has its default. */
static void
cross_version(const FlKafkaMessage *m, int16_t version)
{
	make_sample(m, version);
	if (!FL_CHECK_INT(fl_kafka_decode(m, version, encoded.data, encoded.len, root_b), FL_OK))
		return;
	for (int other = m->from; other <= m->to; other++)
	{
		FlResult result;

		fl_buf_reset(&again);
		result = fl_kafka_encode(m, (int16_t) other, root_b, &again);
		if (result == FL_OK)
			FL_CHECK_INT(fl_kafka_decode(m, (int16_t) other, again.data, again.len, root_a), FL_OK);
		else
			FL_CHECK(result == FL_MALFORMED && again.len == 0); /* a null where that version has none */
	}
}

static void
test_every_version_into_every_other(void)
{
	tree_each_version(cross_version);
}

static void
unknown_version(const FlKafkaMessage *m, int16_t version)
{
	(void) version;
	FL_CHECK_INT(fl_kafka_decode(m, (int16_t) (m->to + 1), NULL, 0, root_b), FL_UNSUPPORTED);
	FL_CHECK_INT(fl_kafka_decode(m, (int16_t) (m->from - 1), NULL, 0, root_b), FL_UNSUPPORTED);
	FL_CHECK_INT(fl_kafka_decode(m, INT16_MAX, NULL, 0, root_b), FL_UNSUPPORTED);
	FL_CHECK_INT(fl_kafka_decode(m, INT16_MIN, NULL, 0, root_b), FL_UNSUPPORTED);
	fl_kafka_init(m, root_b);
	fl_buf_reset(&again);
	FL_CHECK_INT(fl_kafka_encode(m, (int16_t) (m->to + 1), root_b, &again), FL_UNSUPPORTED);
	FL_CHECK_INT(again.len, 0);
}

static void
test_unknown_versions(void)
{
	tree_each_version(unknown_version);
}

/* ---------- damage ---------- */

/* Decodes damaged bytes; what is accepted is read to its end and written out. */
static FlResult
decode_damaged(const FlKafkaMessage *m, int16_t version, const uint8_t *data, size_t len)
{
	FlResult result = fl_kafka_decode(m, version, data, len, root_b);

	if (result != FL_OK)
	{
		FL_CHECK(result == FL_MALFORMED || result == FL_TOO_LARGE);
		return result;
	}
	tree_text(&text_b, m, version, root_b);
	fl_buf_reset(&again);
	FL_CHECK_INT(fl_kafka_encode(m, version, root_b, &again), FL_OK);
	/* Only padded varints and unknown tags make the original longer. */
	FL_CHECK(again.len <= len);
	return result;
}

static void
truncate_everywhere(const FlKafkaMessage *m, int16_t version)
{
	make_sample(m, version);
	for (size_t len = 0; len < encoded.len; len++)
	{
		uint8_t *copy = fl_unit_copy(encoded.data, len);

		if (!FL_CHECK(decode_damaged(m, version, copy, len) != FL_OK))
			printf("# %s %d cut to %zu of %zu\n", m->root->name, version, len, encoded.len);
		free(copy);
	}
	/* A byte too many is as wrong as one too few. */
	fl_write_u8(&encoded, 0);
	FL_CHECK_INT(decode_damaged(m, version, encoded.data, encoded.len), FL_MALFORMED);
}

static void
test_truncated_at_every_byte(void)
{
	tree_each_version(truncate_everywhere);
}

static void
flip_everywhere(const FlKafkaMessage *m, int16_t version)
{
	uint8_t *copy;

	make_small_sample(m, version);
	copy = fl_unit_copy(encoded.data, encoded.len);
	for (size_t bit = 0; bit < encoded.len * 8 && bit < 1200; bit++)
	{
		copy[bit / 8] ^= (uint8_t) (1 << (bit % 8));
		(void) decode_damaged(m, version, copy, encoded.len);
		copy[bit / 8] ^= (uint8_t) (1 << (bit % 8));
	}
	free(copy);
}

static void
test_every_bit_flipped(void)
{
	tree_each_version(flip_everywhere);
}

static void
exaggerate_everywhere(const FlKafkaMessage *m, int16_t version)
{
	static const uint8_t patterns[][5] = {{0x7f, 0xff, 0xff, 0xff, 0xff}, {0x80, 0x00, 0x00, 0x00, 0x00},
										  {0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0xff, 0x07},
										  {0x80, 0x80, 0x80, 0x80, 0x08}, {0xff, 0xff, 0xff, 0xff, 0xff}};

	make_small_sample(m, version);
	for (size_t at = 0; at < encoded.len && at < 200; at++)
		for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		{
			uint8_t *copy = fl_unit_copy(encoded.data, encoded.len);
			size_t n = encoded.len - at < 5 ? encoded.len - at : 5;

			memcpy(copy + at, patterns[i], n);
			(void) decode_damaged(m, version, copy, encoded.len);
			free(copy);
		}
}

static void
test_huge_lengths_at_every_byte(void)
{
	tree_each_version(exaggerate_everywhere);
}

/* The first array of each message claims 2^31 - 1, 2^31 and 2^32 - 2 elements and has none. */
static void
huge_first_array(const FlKafkaMessage *m, int16_t version)
{
	static const uint32_t counts[] = {INT32_MAX, UINT32_C(0x80000000), UINT32_C(0xfffffffe), 1000000};

	for (int i = 0; i < m->root->count; i++)
	{
		const FlKafkaField *f = &m->root->fields[i];

		if (!f->is_array || f->tag != FL_KAFKA_NO_TAG || !tree_in(f->versions, version))
			continue;
		for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
		{
			static const uint8_t rest[64];

			/* What precedes the array, by encoding the defaults of what precedes it. */
			FlKafkaStruct before = *m->root;
			FlKafkaMessage cut = *m;

			before.count = (uint16_t) i;
			cut.root = &before;
			cut.flexible = version >= m->flexible ? 0 : FL_KAFKA_NEVER;
			fl_kafka_init(m, root_a);
			fl_buf_reset(&encoded);
			if (fl_kafka_encode(&cut, version, root_a, &encoded) != FL_OK)
				continue;
			if (version >= m->flexible)
			{
				encoded.len--; /* the empty section of tags */
				for (uint64_t u = (uint64_t) counts[k] + 1; u > 0; u >>= 7)
					fl_write_u8(&encoded, (uint8_t) (u > 0x7f ? u | 0x80 : u));
			}
			else
				fl_write_be32(&encoded, counts[k]);
			fl_write_bytes(&encoded, rest, sizeof(rest));
			FL_CHECK_INT(fl_kafka_decode(m, version, encoded.data, encoded.len, root_b), FL_MALFORMED);
		}
		return;
	}
}

static void
test_counts_of_two_to_the_31(void)
{
	tree_each_version(huge_first_array);
}

/* Elements that cost a sender a byte or two each are bounded in number. */
static void
test_items_of_a_message_are_bounded(void)
{
	FlKafkaOffsetFetchRequest req;
	FlKafkaMetadataRequest metadata;
	FlBuf b;

	fl_buf_init(&b, NULL, SIZE_MAX / 2);
	for (int32_t over = 0; over < 2; over++)
	{
		fl_buf_reset(&b);
		fl_write_be32(&b, (uint32_t) FL_KAFKA_MAX_ITEMS + (uint32_t) over);
		for (int32_t i = 0; i < FL_KAFKA_MAX_ITEMS + over; i++)
			fl_write_be16(&b, 0);
		fl_write_u8(&b, 1);
		FL_CHECK_INT(fl_kafka_decode_metadata_request(4, b.data, b.len, &metadata), over ? FL_TOO_LARGE : FL_OK);
	}

	/* Two arrays share one budget. */
	fl_buf_reset(&b);
	fl_write_be16(&b, 0);
	fl_write_be32(&b, 2);
	for (int topic = 0; topic < 2; topic++)
	{
		fl_write_be16(&b, 0);
		fl_write_be32(&b, FL_KAFKA_MAX_ITEMS / 2);
		for (int i = 0; i < FL_KAFKA_MAX_ITEMS / 2; i++)
			fl_write_be32(&b, 0);
	}
	FL_CHECK_INT(fl_kafka_decode_offset_fetch_request(1, b.data, b.len, &req), FL_TOO_LARGE);
	fl_buf_free(&b);
}

/* ---------- cursors, nulls, tags ---------- */

static void
test_cursors(void)
{
	int32_t partitions[3] = {5, 6, 7};
	FlKafkaOffsetFetchRequestTopic topics[2];
	FlKafkaOffsetFetchRequestTopic topic;
	FlKafkaOffsetFetchRequest req;
	int32_t partition;
	int n = 0;

	fl_kafka_init_offset_fetch_request(&req);
	req.group_id = fl_kafka_string("g");
	for (int i = 0; i < 2; i++)
	{
		fl_kafka_init_offset_fetch_request_topic(&topics[i]);
		topics[i].name = fl_kafka_string(i == 0 ? "a" : "bb");
		fl_kafka_set_items(&topics[i].partition_indexes, partitions, 2 + i);
	}
	fl_kafka_set_items(&req.topics, topics, 2);
	fl_buf_reset(&encoded);
	FL_REQUIRE(fl_kafka_encode_offset_fetch_request(6, &req, &encoded) == FL_OK);
	FL_REQUIRE(fl_kafka_decode_offset_fetch_request(6, encoded.data, encoded.len, &req) == FL_OK);
	FL_CHECK_INT(fl_kafka_count(&req.topics), 2);
	FL_CHECK(!fl_kafka_is_null(&req.topics));
	for (int pass = 0; pass < 2; pass++)
	{
		for (int i = 0; fl_kafka_next(&req.topics, &topic); i++)
		{
			FL_CHECK(fl_kafka_string_is(topic.name, i == 0 ? "a" : "bb"));
			FL_CHECK_INT(fl_kafka_count(&topic.partition_indexes), 2 + i);
			for (int k = 0; fl_kafka_next(&topic.partition_indexes, &partition); k++, n++)
				FL_CHECK_INT(partition, 5 + k);
		}
		FL_CHECK(!fl_kafka_next(&req.topics, &topic));
		fl_kafka_rewind(&req.topics);
	}
	FL_CHECK_INT(n, 10);

	/* Null and empty are different things: all topics, or none. */
	fl_kafka_set_items(&req.topics, topics, -1);
	fl_buf_reset(&encoded);
	FL_REQUIRE(fl_kafka_encode_offset_fetch_request(7, &req, &encoded) == FL_OK);
	FL_REQUIRE(fl_kafka_decode_offset_fetch_request(7, encoded.data, encoded.len, &req) == FL_OK);
	FL_CHECK(fl_kafka_is_null(&req.topics) && !fl_kafka_next(&req.topics, &topic));
	FL_CHECK_INT(fl_kafka_encode_offset_fetch_request(1, &req, &encoded), FL_MALFORMED);
}

static void
test_what_cannot_be_encoded(void)
{
	FlKafkaSyncGroupRequest req;
	char *text = calloc(1, 40000);
	FlBuf small;
	uint8_t memory[8];

	memset(text, 'x', 39999);
	fl_kafka_init_sync_group_request(&req);
	req.group_id = fl_kafka_string(text);
	fl_buf_reset(&encoded);
	fl_write_u8(&encoded, 42);
	FL_CHECK_INT(fl_kafka_encode_sync_group_request(3, &req, &encoded), FL_MALFORMED); /* a 16-bit length */
	FL_CHECK_INT(encoded.len, 1);
	FL_CHECK_INT(fl_kafka_encode_sync_group_request(4, &req, &encoded), FL_OK); /* flexible: a varint */
	req.group_id = fl_kafka_string(NULL);
	FL_CHECK_INT(fl_kafka_encode_sync_group_request(4, &req, &encoded), FL_MALFORMED);
	req.group_id = fl_kafka_string("g");
	req.assignments.array.count = 3; /* three of nothing */
	FL_CHECK_INT(fl_kafka_encode_sync_group_request(4, &req, &encoded), FL_MALFORMED);

	fl_kafka_init_sync_group_request(&req);
	fl_buf_init_fixed(&small, memory, sizeof(memory));
	fl_write_u8(&small, 42);
	FL_CHECK_INT(fl_kafka_encode_sync_group_request(3, &req, &small), FL_TOO_LARGE);
	FL_CHECK_INT(small.len, 1);
	free(text);
}

/* Unknown tags are skipped, in any order; a known one twice, or with another length than its own, is refused. */
static void
test_tags(void)
{
	static const struct
	{
		const char *bytes;
		size_t len;
		FlResult result;
	} cases[] = {{"\0", 1, FL_OK},
				 {"\1\x1f\0", 3, FL_OK},
				 {"\2\x1f\3abc\5\1x", 9, FL_OK},
				 {"\2\0\3\2a\0\1\0", 8, FL_MALFORMED},
				 {"\1\0\3\2ab", 6, FL_MALFORMED},
				 {"\2\0\2\2a\0\2\2a", 9, FL_MALFORMED}, /* twice */
				 {"\1\0\1\2a", 5, FL_MALFORMED},        /* shorter than its string */
				 {"\1\0\2\2a", 5, FL_OK},
				 {"\2\x1f\0\0\2\2a", 7, FL_OK}, /* unsorted */
				 {"\1\xff\xff\xff\xff\x0f\0", 7, FL_OK},
				 {"\xff\xff\xff\xff\x0f", 5, FL_MALFORMED},
				 {"\1\5\xff\xff\xff\xff\x0f", 7, FL_MALFORMED},
				 {"\1\5", 2, FL_MALFORMED}};
	FlKafkaFetchRequest req;
	size_t start;

	fl_kafka_init_fetch_request(&req);
	fl_buf_reset(&encoded);
	FL_REQUIRE(fl_kafka_encode_fetch_request(12, &req, &encoded) == FL_OK);
	start = encoded.len - 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		encoded.len = start;
		fl_write_bytes(&encoded, cases[i].bytes, cases[i].len);
		if (!FL_CHECK_INT(fl_kafka_decode_fetch_request(12, encoded.data, encoded.len, &req), cases[i].result))
			printf("# case %zu\n", i);
		if (cases[i].result == FL_OK)
			FL_CHECK(fl_kafka_string_is(req.cluster_id, "a") == (i == 7 || i == 8));
	}
}

/* ---------- records that are placed when the answer is sent ---------- */

static void
note_place(void *arg, size_t at)
{
	*(size_t *) arg = at;
}

static void
test_records_are_placed(void)
{
	size_t at = 0;
	uint8_t records[300];
	uint8_t whole[1024];
	size_t len;
	FlKafkaFetchPartitionData partition;
	FlKafkaFetchableTopicResponse topic;
	FlKafkaFetchResponse answer;
	FlKafkaFetchResponse decoded;

	memset(records, 0x5a, sizeof(records));
	fl_kafka_init_fetch_response(&answer);
	fl_kafka_init_fetchable_topic_response(&topic);
	fl_kafka_init_fetch_partition_data(&partition);
	partition.records.data = NULL;
	partition.records.len = sizeof(records);
	partition.records.place = note_place;
	partition.records.arg = &at;
	fl_kafka_set_items(&topic.partitions, &partition, 1);
	fl_kafka_set_items(&answer.responses, &topic, 1);
	fl_buf_reset(&encoded);
	FL_REQUIRE(fl_kafka_encode_fetch_response(16, &answer, &encoded) == FL_OK);
	len = encoded.len + sizeof(records);
	FL_REQUIRE(at > 0 && at <= encoded.len && len <= sizeof(whole));
	memcpy(whole, encoded.data, at);
	memcpy(whole + at, records, sizeof(records));
	memcpy(whole + at + sizeof(records), encoded.data + at, encoded.len - at);
	FL_REQUIRE(fl_kafka_decode_fetch_response(16, whole, len, &decoded) == FL_OK);
	FL_REQUIRE(fl_kafka_next(&decoded.responses, &topic) && fl_kafka_next(&topic.partitions, &partition));
	FL_CHECK_BYTES(partition.records.data, (size_t) partition.records.len, records, sizeof(records));
}

/* ---------- frames and headers ---------- */

static void
test_frames(void)
{
	static const uint8_t small[] = {0, 0, 0, 2, 'a', 'b'};
	static const uint8_t negative[] = {0xff, 0xff, 0xff, 0xff};
	static const uint8_t large[] = {0x06, 0x40, 0x00, 0x01};
	size_t size;

	for (size_t len = 0; len < sizeof(small); len++)
	{
		FL_CHECK_INT(fl_kafka_decode_frame(small, len, 100, &size), FL_INCOMPLETE);
		FL_CHECK_INT(size, len < 4 ? 0 : 2);
	}
	FL_CHECK_INT(fl_kafka_decode_frame(small, sizeof(small), 100, &size), FL_OK);
	FL_CHECK_INT(size, 2);
	FL_CHECK_INT(fl_kafka_decode_frame(negative, 4, SIZE_MAX, &size), FL_MALFORMED);
	FL_CHECK_INT(fl_kafka_decode_frame(large, 4, 100 * 1024 * 1024, &size), FL_TOO_LARGE);
	FL_CHECK_INT(fl_kafka_decode_frame(large, 4, 100 * 1024 * 1024 + 1, &size), FL_INCOMPLETE);
}

static void
test_request_headers(void)
{
	for (int i = 0; i < FL_KAFKA_N_APIS; i++)
	{
		const FlKafkaApi *api = &fl_kafka_apis[i];

		FL_CHECK(i == 0 || api->key > fl_kafka_apis[i - 1].key);
		FL_CHECK(fl_kafka_api(api->key) == api);
		FL_CHECK(api->announced <= api->from && api->from <= api->to);
		FL_CHECK(api->from >= api->request->from && api->to <= api->request->to);
		for (int version = api->from - 1; version <= api->to + 1; version++)
		{
			FlKafkaRequestHeader h;
			bool flexible = version >= api->request->flexible;
			bool served = version >= api->from && version <= api->to;

			fl_buf_reset(&encoded);
			FL_CHECK_INT(fl_kafka_encode_request_header(api, (int16_t) version, -77, fl_kafka_string("me"), &encoded),
						 FL_OK);
			FL_CHECK_INT(encoded.len, flexible ? 13 : 12);
			FL_CHECK_INT(fl_kafka_decode_request_header(encoded.data, encoded.len, &h),
						 served ? FL_OK : FL_UNSUPPORTED);
			FL_CHECK(h.api == api && h.key == api->key && h.version == version && h.correlation_id == -77);
			if (!served)
				continue;
			FL_CHECK_INT(h.body_at, encoded.len);
			FL_CHECK(fl_kafka_string_is(h.client_id, "me"));
			for (size_t len = 0; len < encoded.len; len++)
			{
				uint8_t *copy = fl_unit_copy(encoded.data, len);

				FL_CHECK_INT(fl_kafka_decode_request_header(copy, len, &h), FL_MALFORMED);
				free(copy);
			}
		}
	}
	FL_CHECK(fl_kafka_api(-1) == NULL && fl_kafka_api(68) == NULL && fl_kafka_api(INT16_MAX) == NULL);
}

static void
test_header_oddities(void)
{
	/* Metadata 9 with a null client id and tags; a client id shorter than it says; key 4, which is between brokers. */
	static const uint8_t tags[] = {0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 2, 0, 1, 'x', 1, 0};
	static const uint8_t short_id[] = {0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'x'};
	static const uint8_t negative_id[] = {0, 3, 0, 1, 0, 0, 0, 1, 0x80, 0, 'x'};
	static const uint8_t unknown[] = {0, 4, 0, 0, 0, 0, 0, 9};
	static const uint8_t future[] = {0, 18, 0, 99, 0, 0, 0, 9, 0xff};
	FlKafkaRequestHeader h;

	FL_CHECK_INT(fl_kafka_decode_request_header(tags, sizeof(tags), &h), FL_OK);
	FL_CHECK(h.client_id.len == -1 && h.body_at == sizeof(tags));
	FL_CHECK_INT(fl_kafka_decode_request_header(short_id, sizeof(short_id), &h), FL_MALFORMED);
	FL_CHECK_INT(fl_kafka_decode_request_header(negative_id, sizeof(negative_id), &h), FL_MALFORMED);
	FL_CHECK_INT(fl_kafka_decode_request_header(unknown, sizeof(unknown), &h), FL_UNSUPPORTED);
	FL_CHECK(h.api == NULL && h.correlation_id == 9);
	FL_CHECK_INT(fl_kafka_decode_request_header(future, sizeof(future), &h), FL_UNSUPPORTED);
	FL_CHECK(h.api != NULL && h.api->key == FL_KAFKA_API_VERSIONS && h.correlation_id == 9);
}

/* Known bytes: an answer's header has tags where flexible, ApiVersions' never; the fallback is in version 0. */
static void
test_responses(void)
{
	static const uint8_t fallback[] = {0, 0, 0, 16, 0, 0, 0, 9, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4};
	static const uint8_t versions3[] = {0, 0, 0, 12, 0, 0, 0, 9, 0, 0, 1, 0, 0, 0, 0, 0};
	static const uint8_t heartbeat4[] = {0, 0, 0, 12, 0, 0, 0, 9, 0, 0, 0, 0, 3, 0, 27, 0};
	static const uint8_t heartbeat3[] = {0, 0, 0, 10, 0, 0, 0, 9, 0, 0, 0, 3, 0, 27};
	FlKafkaApiVersionsResponse versions;
	FlKafkaHeartbeatResponse heartbeat;
	size_t start;

	fl_buf_reset(&encoded);
	FL_CHECK_INT(fl_kafka_encode_api_versions_fallback(9, &encoded), FL_OK);
	FL_CHECK_BYTES(encoded.data, encoded.len, fallback, sizeof(fallback));

	/* Bytes that are placed later are in the length. */
	fl_buf_reset(&encoded);
	start = fl_kafka_begin_response(fl_kafka_api(FL_KAFKA_FETCH), 4, 9, &encoded);
	FL_CHECK_INT(fl_kafka_end_response(start, 70000, &encoded), FL_OK);
	FL_CHECK_INT(fl_get_be32(encoded.data), 4 + 70000);
	FL_CHECK_INT(fl_kafka_end_response(start, INT32_MAX, &encoded), FL_TOO_LARGE);

	fl_buf_reset(&encoded);
	fl_kafka_init_api_versions_response(&versions);
	start = fl_kafka_begin_response(fl_kafka_api(FL_KAFKA_API_VERSIONS), 3, 9, &encoded);
	FL_CHECK_INT(fl_kafka_encode_api_versions_response(3, &versions, &encoded), FL_OK);
	FL_CHECK_INT(fl_kafka_end_response(start, 0, &encoded), FL_OK);
	FL_CHECK_BYTES(encoded.data, encoded.len, versions3, sizeof(versions3));

	fl_kafka_init_heartbeat_response(&heartbeat);
	heartbeat.throttle_time_ms = 3;
	heartbeat.error_code = 27;
	for (int16_t version = 3; version <= 4; version++)
	{
		fl_buf_reset(&encoded);
		fl_write_u8(&encoded, 99); /* frames follow each other */
		start = fl_kafka_begin_response(fl_kafka_api(FL_KAFKA_HEARTBEAT), version, 9, &encoded);
		FL_CHECK_INT(fl_kafka_encode_heartbeat_response(version, &heartbeat, &encoded), FL_OK);
		FL_CHECK_INT(fl_kafka_end_response(start, 0, &encoded), FL_OK);
		FL_CHECK_BYTES(encoded.data + 1, encoded.len - 1, version == 4 ? heartbeat4 : heartbeat3,
					   version == 4 ? sizeof(heartbeat4) : sizeof(heartbeat3));
	}
}

int
main(void)
{
	fl_unit_begin();
	setup();
	FL_RUN(test_every_version_round_trips);
	FL_RUN(test_every_version_into_every_other);
	FL_RUN(test_unknown_versions);
	FL_RUN(test_truncated_at_every_byte);
	FL_RUN(test_every_bit_flipped);
	FL_RUN(test_huge_lengths_at_every_byte);
	FL_RUN(test_counts_of_two_to_the_31);
	FL_RUN(test_items_of_a_message_are_bounded);
	FL_RUN(test_cursors);
	FL_RUN(test_what_cannot_be_encoded);
	FL_RUN(test_tags);
	FL_RUN(test_records_are_placed);
	FL_RUN(test_frames);
	FL_RUN(test_request_headers);
	FL_RUN(test_header_oddities);
	FL_RUN(test_responses);
	teardown();
	return fl_unit_end();
}
