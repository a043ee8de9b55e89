/*-------------------------------------------------------------------------
 *
 * test_batch_damage.c
 *	  Random batches there and back, splitting, bombs, truncation and flips.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/headers.h"
#include "fleetlog/record_batch.h"

#define MAX_RAW ((size_t) 1 << 20)

static const FlCodec codecs[] = {FL_CODEC_NONE, FL_CODEC_GZIP, FL_CODEC_SNAPPY, FL_CODEC_LZ4, FL_CODEC_ZSTD};

static FlCompressor *compressor;

/* A record of the model that batches are compared with. */
typedef struct ModelRecord
{
	int64_t timestamp;
	int64_t key_len;
	int64_t value_len;
	uint8_t key[40];
	uint8_t value[600];
	uint8_t headers[40];
	size_t headers_len;
	uint8_t reserved;
} ModelRecord;

static void
model_random(ModelRecord *m)
{
	m->timestamp = fl_unit_random_below(5) == 0
					   ? FL_NO_TIMESTAMP
					   : INT64_C(1700000000000) + (int64_t) fl_unit_random_below(100000) - 50000;
	m->key_len = (int64_t) fl_unit_random_below(sizeof(m->key) + 1) - 1;
	m->value_len = (int64_t) fl_unit_random_below(fl_unit_random_below(4) == 0 ? sizeof(m->value) + 1 : 30) - 1;
	for (int64_t i = 0; i < m->key_len; i++)
		m->key[i] = (uint8_t) ('a' + fl_unit_random_below(26));
	for (int64_t i = 0; i < m->value_len; i++)
		m->value[i] = (uint8_t) ('0' + fl_unit_random_below(10));
	m->reserved = 0;
	m->headers_len = 0;
	if (fl_unit_random_below(2) == 0)
	{
		FlBuf buf;
		FlHeadersBuilder b;

		fl_buf_init(&buf, NULL, sizeof(m->headers) + 1);
		fl_headers_builder_begin(&b, &buf);
		if (fl_unit_random_below(2) == 0)
			fl_headers_builder_add_reserved(&b, "fl.qos", 6, "1", 1);
		for (uint32_t n = fl_unit_random_below(4); n > 0; n--)
			fl_headers_builder_add(&b, "name", n, "value", (int64_t) n - 2);
		FL_CHECK_INT(fl_headers_builder_end(&b), FL_OK);
		m->reserved = buf.data[0];
		m->headers_len = buf.len - 1;
		memcpy(m->headers, buf.data + 1, m->headers_len);
		fl_buf_free(&buf);
	}
}

static void
model_add(const ModelRecord *m, FlBatchBuilder *b)
{
	FL_CHECK_INT(fl_batch_builder_add(b, m->timestamp, m->key, m->key_len, m->value, m->value_len, m->reserved,
									  m->headers_len > 0 ? m->headers : NULL, m->headers_len),
				 FL_OK);
}

/* Does the batch hold exactly these records? */
static void
model_compare(const ModelRecord *m, int count, const uint8_t *body, size_t len, FlBatchInfo *info)
{
	uint8_t *copy = fl_unit_copy(body, len);
	FlBuf raw;
	FlRecordIter it;
	FlRecord rec;
	const uint8_t *records;
	size_t records_len;
	int i = 0;

	fl_buf_init(&raw, NULL, MAX_RAW);
	FL_CHECK_INT(fl_batch_verify(copy, len), FL_OK);
	FL_REQUIRE(fl_batch_decode_header(copy, len, info) == FL_OK);
	FL_CHECK_INT(info->record_count, count);
	FL_REQUIRE(fl_batch_inflate(info, copy, len, compressor, MAX_RAW, &raw, &records, &records_len) == FL_OK);
	FL_CHECK_INT(fl_records_verify(info, records, records_len), FL_OK);
	fl_record_iter_init(&it, info, records, records_len);
	for (; fl_record_iter_next(&it, &rec); i++, m++)
	{
		FL_CHECK_INT(rec.timestamp_ms, m->timestamp);
		FL_CHECK_INT(rec.attributes, m->reserved);
		FL_CHECK_INT(rec.offset_delta, i);
		FL_CHECK_INT(rec.key_len, m->key_len);
		FL_CHECK_INT(rec.value_len, m->value_len);
		if (m->key_len >= 0)
			FL_CHECK_BYTES(rec.key, (size_t) rec.key_len, m->key, (size_t) m->key_len);
		if (m->value_len >= 0)
			FL_CHECK_BYTES(rec.value, (size_t) rec.value_len, m->value, (size_t) m->value_len);
		if (m->headers_len > 0)
			FL_CHECK_BYTES(rec.headers, rec.headers_len, m->headers, m->headers_len);
		else
			FL_CHECK_BYTES(rec.headers, rec.headers_len, "\0", 1);
	}
	FL_CHECK_INT(i, count);
	FL_CHECK_INT(it.result, FL_OK);
	fl_buf_free(&raw);
	free(copy);
}

static void
check_split(const ModelRecord *model, int count, const FlBuf *whole, const FlBatchInfo *info)
{
	FlBuf a;
	FlBuf b;

	fl_buf_init(&a, NULL, MAX_RAW);
	fl_buf_init(&b, NULL, MAX_RAW);
	FL_CHECK_INT(fl_batch_split(whole->data, whole->len, compressor, MAX_RAW, 0, &a, &b), FL_MALFORMED);
	FL_CHECK_INT(fl_batch_split(whole->data, whole->len, compressor, MAX_RAW, count, &a, &b), FL_MALFORMED);
	FL_CHECK_INT(a.len + b.len, 0);
	for (int first = 1; first < count; first += 1 + count / 20)
	{
		FlBatchInfo part;

		fl_buf_reset(&a);
		fl_buf_reset(&b);
		FL_REQUIRE(fl_batch_split(whole->data, whole->len, compressor, MAX_RAW, first, &a, &b) == FL_OK);

		model_compare(model, first, a.data, a.len, &part);
		FL_CHECK_INT(part.codec, info->codec);
		FL_CHECK_INT(part.attributes, info->attributes);
		FL_CHECK_INT(part.base_offset, info->base_offset);
		FL_CHECK_INT(part.leader_epoch, info->leader_epoch);
		FL_CHECK_INT(part.producer_id, info->producer_id);
		FL_CHECK_INT(part.producer_epoch, info->producer_epoch);
		FL_CHECK_INT(part.base_sequence, info->base_sequence);
		if (info->attributes & FL_BATCH_APPEND_TIME)
			FL_CHECK_INT(part.max_timestamp, info->max_timestamp);

		model_compare(model + first, count - first, b.data, b.len, &part);
		FL_CHECK_INT(part.codec, info->codec);
		FL_CHECK_INT(part.attributes, info->attributes);
		FL_CHECK_INT(part.base_offset, info->base_offset + first);
		FL_CHECK_INT(part.leader_epoch, info->leader_epoch);
		FL_CHECK_INT(part.producer_id, info->producer_id);
		FL_CHECK_INT(part.producer_epoch, info->producer_epoch);
		FL_CHECK_INT(part.base_sequence, fl_sequence_add(info->base_sequence, first));
		if (info->attributes & FL_BATCH_APPEND_TIME)
			FL_CHECK_INT(part.max_timestamp, info->max_timestamp);
	}
	fl_buf_free(&a);
	fl_buf_free(&b);
}

static void
test_random_round_trip_and_split(void)
{
	enum
	{
		MAX_RECORDS = 300
	};
	ModelRecord *model = malloc(sizeof(ModelRecord) * MAX_RECORDS);

	for (int round = 0; round < 150; round++)
	{
		int count = 1 + (int) fl_unit_random_below(round % 3 == 0 ? MAX_RECORDS : 12);
		FlBatchBuilder b;
		FlBuf out;
		FlBatchInfo info;

		fl_batch_builder_init(&b, NULL, MAX_RAW);
		b.base_offset = INT64_C(1) << fl_unit_random_below(62);
		b.leader_epoch = (int32_t) fl_unit_random_below(100);
		if (round % 2 == 0)
		{
			b.producer_id = INT64_C(123456789012);
			b.producer_epoch = 7;
			b.base_sequence = INT32_MAX - (int32_t) fl_unit_random_below(20);
			b.flags = FL_BATCH_TRANSACTIONAL;
		}
		for (int i = 0; i < count; i++)
		{
			model_random(&model[i]);
			model_add(&model[i], &b);
		}
		fl_buf_init(&out, NULL, MAX_RAW);
		FL_REQUIRE(fl_batch_builder_finish(&b, codecs[round % 3], compressor, &out) == FL_OK);
		model_compare(model, count, out.data, out.len, &info);
		check_split(model, count, &out, &info);

		FL_CHECK_INT(fl_batch_stamp(out.data, out.len, 3, 4, true, INT64_C(1900000000000)), FL_OK);
		model_compare(model, count, out.data, out.len, &info);
		FL_CHECK_INT(info.max_timestamp, INT64_C(1900000000000));
		check_split(model, count, &out, &info);
		fl_buf_free(&out);
		fl_batch_builder_free(&b);
	}
	free(model);
}

/* One batch per codec, large enough that it is compressed. */
static void
build_sample(FlCodec codec, FlBuf *out)
{
	FlBatchBuilder b;
	char value[100];

	fl_batch_builder_init(&b, NULL, MAX_RAW);
	for (int i = 0; i < 20; i++)
	{
		int n = snprintf(value, sizeof(value), "{\"temperature\": %d.5, \"unit\": \"celsius\"}", i);

		FL_CHECK_INT(fl_batch_builder_add(&b, 1000 + i, (const uint8_t *) "plant/a", 7, (const uint8_t *) value, n, 1,
										  (const uint8_t *) "\2\x0c"
															"fl.qos\2"
															"1",
										  10),
					 FL_OK);
	}
	fl_buf_init(out, NULL, MAX_RAW);
	FL_CHECK_INT(fl_batch_builder_finish(&b, codec, compressor, out), FL_OK);
	FL_CHECK_INT(fl_batch_verify(out->data, out->len), FL_OK);
	FL_CHECK_INT(out->data[22], codec);
	fl_batch_builder_free(&b);
}

/*
 * Uses everything of a damaged batch; a sanitizer finds the rest.  Returns
 * whether all of it was accepted.
 */
static bool
chew(const uint8_t *body, size_t len)
{
	FlBatchInfo info;
	FlBuf raw;
	FlRecordIter it;
	FlRecord rec;
	const uint8_t *records;
	size_t records_len;
	FlResult result = fl_batch_decode_header(body, len, &info);
	volatile unsigned sum = 0;

	if (result != FL_OK)
		return false;
	fl_batch_verify(body, len);
	fl_buf_init(&raw, NULL, MAX_RAW);
	result = fl_batch_inflate(&info, body, len, compressor, 1 << 16, &raw, &records, &records_len);
	if (result == FL_OK)
	{
		FL_CHECK(records_len <= 1 << 16);
		fl_records_verify(&info, records, records_len);
		fl_record_iter_init(&it, &info, records, records_len);
		while (fl_record_iter_next(&it, &rec))
		{
			for (int32_t i = 0; i < rec.key_len; i++)
				sum += rec.key[i];
			for (int32_t i = 0; i < rec.value_len; i++)
				sum += rec.value[i];
			for (uint32_t i = 0; i < rec.headers_len; i++)
				sum += rec.headers[i];
		}
		result = it.result;
	}
	if (info.record_count > 1)
	{
		FlBuf a;
		FlBuf b;
		FlResult split;

		fl_buf_init(&a, NULL, MAX_RAW);
		fl_buf_init(&b, NULL, MAX_RAW);
		split = fl_batch_split(body, len, compressor, 1 << 16, info.record_count / 2, &a, &b);
		FL_CHECK_INT(split == FL_OK, result == FL_OK);
		fl_buf_free(&a);
		fl_buf_free(&b);
	}
	/* Newer compilers want a variable that is written to be read as well. */
	(void) sum;
	fl_buf_free(&raw);
	return result == FL_OK;
}

static void
test_every_truncation(void)
{
	for (int k = 0; k < 3; k++)
	{
		FlBuf whole;

		build_sample(codecs[k], &whole);
		for (size_t len = 0; len < whole.len; len++)
		{
			uint8_t *copy = fl_unit_copy(whole.data, len);
			FlBatchInfo info;

			FL_CHECK_INT(fl_batch_decode_header(copy, len, &info), FL_INCOMPLETE);
			FL_CHECK_INT(fl_batch_verify(copy, len), FL_INCOMPLETE);
			free(copy);

			/* With a length that pretends to be whole, the records are short. */
			if (len < FL_BATCH_HEADER_SIZE)
				continue;
			copy = fl_unit_copy(whole.data, len);
			fl_put_be32(copy + 8, (uint32_t) (len - FL_BATCH_LENGTH_BASE));
			fl_batch_update_crc(copy, len);
			FL_CHECK(!chew(copy, len));
			free(copy);
		}
		fl_buf_free(&whole);
	}
}

static void
test_every_flip_is_found(void)
{
	for (int k = 0; k < 3; k++)
	{
		FlBuf whole;

		build_sample(codecs[k], &whole);
		for (size_t bit = 0; bit < whole.len * 8; bit++)
		{
			uint8_t *copy = fl_unit_copy(whole.data, whole.len);
			bool outside = bit / 8 < 8 || (bit / 8 >= 12 && bit / 8 < 16);

			copy[bit / 8] ^= (uint8_t) (1 << bit % 8);
			FL_CHECK_INT(fl_batch_verify(copy, whole.len) == FL_OK, outside);
			chew(copy, whole.len);
			free(copy);
		}
		fl_buf_free(&whole);
	}
}

static void
test_random_damage(void)
{
	for (int k = 0; k < 3; k++)
	{
		FlBuf whole;

		build_sample(codecs[k], &whole);
		for (int i = 0; i < 15000; i++)
		{
			size_t len =
				whole.len - (fl_unit_random_below(4) == 0 ? fl_unit_random_below((uint32_t) whole.len - 61) : 0);
			uint8_t *copy = fl_unit_copy(whole.data, len);

			for (uint32_t n = fl_unit_random_below(4); n > 0; n--)
				copy[fl_unit_random_below((uint32_t) len)] = (uint8_t) fl_unit_random();
			fl_put_be32(copy + 8, (uint32_t) (len - FL_BATCH_LENGTH_BASE));
			fl_batch_update_crc(copy, len);
			chew(copy, len);
			free(copy);
		}
		fl_buf_free(&whole);
	}
}

/* The output never exceeds the limit, whatever it was made from. */
static void
test_inflate_is_bounded(void)
{
	static uint8_t zeros[300000];

	for (size_t k = 1; k < sizeof(codecs) / sizeof(codecs[0]); k++)
	{
		FlBuf packed;
		FlBuf out;

		fl_buf_init(&packed, NULL, MAX_RAW);
		FL_REQUIRE(fl_compress(compressor, codecs[k], zeros, sizeof(zeros), SIZE_MAX, &packed) == FL_OK);
		FL_CHECK(packed.len < 20000);
		fl_buf_init(&out, NULL, MAX_RAW);
		for (size_t max = 0; max < sizeof(zeros) + 5; max += max < 10 || max > sizeof(zeros) - 10 ? 1 : 10007)
		{
			fl_buf_reset(&out);
			fl_write_bytes(&out, "front", 5);
			FL_CHECK_INT(fl_decompress(compressor, codecs[k], packed.data, packed.len, max, &out),
						 max < sizeof(zeros) ? FL_TOO_LARGE : FL_OK);
			FL_CHECK_INT(out.len, max < sizeof(zeros) ? 5 : 5 + sizeof(zeros));
		}
		fl_buf_free(&out);

		/* The buffer's own limit counts as well. */
		fl_buf_init(&out, NULL, 1000);
		FL_CHECK_INT(fl_decompress(compressor, codecs[k], packed.data, packed.len, SIZE_MAX, &out), FL_TOO_LARGE);
		FL_CHECK(out.cap <= 1000);
		fl_buf_free(&out);

		/* Bytes behind the frame, and a frame cut short. */
		fl_write_u8(&packed, 0);
		fl_buf_init(&out, NULL, MAX_RAW);
		FL_CHECK_INT(fl_decompress(compressor, codecs[k], packed.data, packed.len, MAX_RAW, &out), FL_MALFORMED);
		for (size_t len = 0; len < packed.len - 1; len++)
		{
			FlResult result = fl_decompress(compressor, codecs[k], packed.data, len, MAX_RAW, &out);

			/* Java's form of snappy has no end: cut between two blocks it is shorter, which the records will show. */
			if (codecs[k] == FL_CODEC_SNAPPY && result == FL_OK)
				FL_CHECK_INT(out.len % (32 * 1024), 0);
			else
			{
				FL_CHECK_INT(result, FL_MALFORMED);
				FL_CHECK_INT(out.len, 0);
			}
			fl_buf_reset(&out);
		}
		fl_buf_free(&out);
		fl_buf_free(&packed);
	}
}

static void
test_zstd_without_content_size(void)
{
	/*
	 * A frame as a streaming writer makes it, that knew no size in advance:
	 * magic, descriptor, window, and one RLE block, the last, of 100 times 'a'.
	 */
	static const uint8_t rle[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x23, 0x03, 0x00, 'a'};
	FlBuf out;

	fl_buf_init(&out, NULL, MAX_RAW);
	FL_CHECK_INT(fl_decompress(compressor, FL_CODEC_ZSTD, rle, sizeof(rle), MAX_RAW, &out), FL_OK);
	FL_CHECK_INT(out.len, 100);
	for (size_t i = 0; i < out.len; i++)
		FL_CHECK(out.data[i] == 'a');
	fl_buf_reset(&out);
	FL_CHECK_INT(fl_decompress(compressor, FL_CODEC_ZSTD, rle, sizeof(rle), 99, &out), FL_TOO_LARGE);
	FL_CHECK_INT(fl_decompress(compressor, FL_CODEC_ZSTD, rle, sizeof(rle), 100, &out), FL_OK);
	fl_buf_free(&out);
}

static void
test_unknown_codecs(void)
{
	for (int codec = 0; codec < 8; codec++)
	{
		FlBuf whole;
		FlBuf raw;
		FlBatchInfo info;
		const uint8_t *records;
		size_t records_len;

		build_sample(FL_CODEC_NONE, &whole);
		fl_buf_init(&raw, NULL, MAX_RAW);
		whole.data[22] = (uint8_t) codec;
		if (codec > FL_CODEC_ZSTD)
			FL_CHECK_INT(fl_batch_decode_header(whole.data, whole.len, &info), FL_UNSUPPORTED);
		else
		{
			FL_CHECK_INT(fl_batch_decode_header(whole.data, whole.len, &info), FL_OK);
			FL_CHECK_INT(
				fl_batch_inflate(&info, whole.data, whole.len, compressor, MAX_RAW, &raw, &records, &records_len),
				codec == FL_CODEC_NONE ? FL_OK : FL_MALFORMED);
			if (codec == FL_CODEC_NONE)
				FL_CHECK_INT(
					fl_batch_inflate(&info, whole.data, whole.len, compressor, 100, &raw, &records, &records_len),
					FL_TOO_LARGE);
		}
		fl_buf_free(&raw);
		fl_buf_free(&whole);
	}
}

int
main(void)
{
	fl_unit_begin();
	compressor = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);
	FL_RUN(test_random_round_trip_and_split);
	FL_RUN(test_every_truncation);
	FL_RUN(test_every_flip_is_found);
	FL_RUN(test_random_damage);
	FL_RUN(test_inflate_is_bounded);
	FL_RUN(test_zstd_without_content_size);
	FL_RUN(test_unknown_codecs);
	fl_compressor_free(compressor);
	return fl_unit_end();
}
