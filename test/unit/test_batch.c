/*-------------------------------------------------------------------------
 *
 * test_batch.c
 *	  RecordBatch v2: golden bytes, build, iterate, grow, stamp.
 *
 * The golden batches were written by an independent implementation, the
 * kafka-python client; the uncompressed one was also checked by hand, field by
 * field, and is annotated.  Damage and splitting are in test_batch_damage.c.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/crc32c.h"
#include "fleetlog/headers.h"
#include "fleetlog/record_batch.h"

#define BYTES(s) (const uint8_t *) (s)

/* clang-format off: the bytes are arranged by field */
static const uint8_t golden[] = {0, 0, 0, 0, 0, 0, 0, 0,                         /* base offset */
								 0, 0, 0, 0x5c,                                  /* length 92 = 104 - 12 */
								 0, 0, 0, 0,                                     /* leader epoch */
								 2,                                              /* magic */
								 0x52, 0x5c, 0xa2, 0x50,                         /* CRC */
								 0, 0,                                           /* attributes */
								 0, 0, 0, 2,                                     /* last offset delta */
								 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, /* 1700000000000 */
								 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, /* 1700000000005 */
								 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* producer id */
								 0xff, 0xff,                                     /* producer epoch */
								 0xff, 0xff, 0xff, 0xff,                         /* base sequence */
								 0, 0, 0, 3,                                     /* records */
								 /* first record: 23 bytes */
								 0x2e, 0x00, 0x00, 0x00,              /* length, attributes, time +0, offset +0 */
								 0x04, 'k', '1',                      /* key */
								 0x0a, 'h', 'e', 'l', 'l', 'o', 0x06, /* three headers */
								 0x02, 'a', 0x02, '1', 0x02, 'b', 0x01, 0x02, 'a', 0x00,
								 /* second record: 6 bytes; key and value NULL */
								 0x0c, 0x00, 0x0a, 0x02, 0x01, 0x01, 0x00,
								 /* third record: 11 bytes; time -1, empty key */
								 0x16, 0x00, 0x01, 0x04, 0x00, 0x0a, 'x', 'x', 'x', 'x', 'x', 0x00};

/* The same first two records, then one with 400 times 'x', in LZ4 and zstd. */
static const uint8_t golden_lz4[] = {
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x7c, 0x00, 0x00, 0x00, 0x00, 0x02,
	0xc4, 0x64, 0xb8, 0x8b, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68,
	0x00, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x03, 0x04, 0x22, 0x4d, 0x18, 0x68, 0x40, 0xb8,
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb8, 0x34, 0x00, 0x00, 0x00, 0xff, 0x19, 0x2e, 0x00, 0x00,
	0x00, 0x04, 0x6b, 0x31, 0x0a, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x06, 0x02, 0x61, 0x02, 0x31, 0x02, 0x62,
	0x01, 0x02, 0x61, 0x00, 0x0c, 0x00, 0x0a, 0x02, 0x01, 0x01, 0x00, 0xae, 0x06, 0x00, 0x01, 0x04, 0x00,
	0xa0, 0x06, 0x78, 0x01, 0x00, 0xff, 0x79, 0x50, 0x78, 0x78, 0x78, 0x78, 0x00, 0x00, 0x00, 0x00, 0x00};
static const uint8_t golden_zstd[] = {
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x6c, 0x00, 0x00, 0x00, 0x00, 0x02, 0xb9,
	0x17, 0xcd, 0x22, 0x00, 0x04, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 0x00,
	0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x03, 0x28, 0xb5, 0x2f, 0xfd, 0x60, 0xb8, 0x00, 0x8d, 0x01, 0x00, 0x94,
	0x02, 0x2e, 0x00, 0x00, 0x00, 0x04, 0x6b, 0x31, 0x0a, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x06, 0x02, 0x61, 0x02,
	0x31, 0x02, 0x62, 0x01, 0x02, 0x61, 0x00, 0x0c, 0x00, 0x0a, 0x02, 0x01, 0x01, 0x00, 0xae, 0x06, 0x00, 0x01,
	0x04, 0x00, 0xa0, 0x06, 0x78, 0x00, 0x01, 0x00, 0x60, 0x54, 0x41, 0x19};

/* The same in gzip, as Python's zlib writes it, and in both forms of snappy, written by a few lines of Python. */
static const uint8_t golden_gzip[] = {
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x72, 0x00, 0x00, 0x00, 0x00, 0x02, 0x23,
	0x4b, 0x0b, 0xb8, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 0x00,
	0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x03, 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xd3,
	0x63, 0x60, 0x60, 0x60, 0xc9, 0x36, 0xe4, 0xca, 0x48, 0xcd, 0xc9, 0xc9, 0x67, 0x63, 0x4a, 0x64, 0x32, 0x64,
	0x4a, 0x62, 0x64, 0x4a, 0x64, 0xe0, 0x61, 0xe0, 0x62, 0x62, 0x64, 0x64, 0x58, 0xc7, 0xc6, 0xc0, 0xc8, 0xc2,
	0xb0, 0x80, 0xad, 0x62, 0x14, 0x0c, 0x2a, 0xc0, 0x00, 0x00, 0xc1, 0x29, 0xac, 0x89, 0xb8, 0x01, 0x00, 0x00};
static const uint8_t golden_snappy[] = {
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x73, 0x00, 0x00, 0x00, 0x00, 0x02, 0x3c,
	0x5c, 0xeb, 0x90, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 0x00,
	0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x03, 0xb8, 0x03, 0x9c, 0x2e, 0x00, 0x00, 0x00, 0x04, 0x6b, 0x31, 0x0a,
	0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x06, 0x02, 0x61, 0x02, 0x31, 0x02, 0x62, 0x01, 0x02, 0x61, 0x00, 0x0c, 0x00,
	0x0a, 0x02, 0x01, 0x01, 0x00, 0xae, 0x06, 0x00, 0x01, 0x04, 0x00, 0xa0, 0x06, 0x78, 0xfe, 0x01, 0x00, 0xfe,
	0x01, 0x00, 0xfe, 0x01, 0x00, 0xfe, 0x01, 0x00, 0xfe, 0x01, 0x00, 0xfe, 0x01, 0x00, 0x3a, 0x01, 0x00, 0x00,
	0x00};
static const uint8_t golden_xerial[] = {
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x8e, 0x00, 0x00, 0x00, 0x00, 0x02, 0x19,
	0x43, 0xe2, 0xf0, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 0x00,
	0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x05, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x03, 0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00, 0x00, 0x00, 0x00,
	0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x2d, 0x64, 0x9c, 0x2e, 0x00, 0x00, 0x00, 0x04, 0x6b, 0x31,
	0x0a, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x06, 0x02, 0x61, 0x02, 0x31, 0x02, 0x62, 0x01, 0x02, 0x61, 0x00, 0x0c,
	0x00, 0x0a, 0x02, 0x01, 0x01, 0x00, 0xae, 0x06, 0x00, 0x01, 0x04, 0x00, 0xa0, 0x06, 0x78, 0xee, 0x01, 0x00,
	0x00, 0x00, 0x00, 0x18, 0xd4, 0x02, 0x00, 0x78, 0xfe, 0x01, 0x00, 0xfe, 0x01, 0x00, 0xfe, 0x01, 0x00, 0xfe,
	0x01, 0x00, 0xfe, 0x01, 0x00, 0x46, 0x01, 0x00, 0x00, 0x00};
/* clang-format on */

static const uint8_t golden_headers[] = {0x06, 0x02, 'a', 0x02, '1', 0x02, 'b', 0x01, 0x02, 'a', 0x00};

static void
test_golden_header(void)
{
	FlBatchInfo info;
	uint8_t copy[FL_BATCH_HEADER_SIZE];

	FL_REQUIRE(fl_batch_decode_header(golden, sizeof(golden), &info) == FL_OK);
	FL_CHECK_INT(info.base_offset, 0);
	FL_CHECK_INT(info.size, sizeof(golden));
	FL_CHECK_INT(info.leader_epoch, 0);
	FL_CHECK_INT(info.crc, 0x525ca250);
	FL_CHECK_INT(info.attributes, 0);
	FL_CHECK_INT(info.codec, FL_CODEC_NONE);
	FL_CHECK_INT(info.last_offset_delta, 2);
	FL_CHECK_INT(info.record_count, 3);
	FL_CHECK_INT(info.base_timestamp, INT64_C(1700000000000));
	FL_CHECK_INT(info.max_timestamp, INT64_C(1700000000005));
	FL_CHECK_INT(info.producer_id, -1);
	FL_CHECK_INT(info.producer_epoch, -1);
	FL_CHECK_INT(info.base_sequence, -1);

	fl_batch_encode_header(copy, &info);
	FL_CHECK_BYTES(copy, sizeof(copy), golden, FL_BATCH_HEADER_SIZE);
	FL_CHECK_INT(fl_batch_verify(golden, sizeof(golden)), FL_OK);
}

static void
check_golden_records(const uint8_t *body, size_t len, size_t last_value)
{
	FlCompressor *c = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);
	FlBatchInfo info;
	FlRecordIter it;
	FlRecord rec;
	FlBuf raw;
	const uint8_t *records;
	size_t records_len;
	FlResult result = fl_batch_decode_header(body, len, &info);

	fl_buf_init(&raw, NULL, 1 << 20);
	if (result == FL_OK)
		result = fl_batch_verify(body, len);
	if (result == FL_OK)
		result = fl_batch_inflate(&info, body, len, c, 1 << 20, &raw, &records, &records_len);
	if (result == FL_OK)
		result = fl_records_verify(&info, records, records_len);
	if (FL_CHECK_INT(result, FL_OK))
	{
		fl_record_iter_init(&it, &info, records, records_len);

		FL_CHECK(fl_record_iter_next(&it, &rec));
		FL_CHECK_INT(rec.offset_delta, 0);
		FL_CHECK_INT(rec.timestamp_ms, INT64_C(1700000000000));
		FL_CHECK_INT(rec.attributes, 0);
		FL_CHECK_BYTES(rec.key, (size_t) rec.key_len, "k1", 2);
		FL_CHECK_BYTES(rec.value, (size_t) rec.value_len, "hello", 5);
		FL_CHECK_BYTES(rec.headers, rec.headers_len, golden_headers, sizeof(golden_headers));
		FL_CHECK(rec.raw == records);
		FL_CHECK_INT(rec.raw_len, 24);

		FL_CHECK(fl_record_iter_next(&it, &rec));
		FL_CHECK_INT(rec.offset_delta, 1);
		FL_CHECK_INT(rec.timestamp_ms, INT64_C(1700000000005));
		FL_CHECK(rec.key == NULL && rec.key_len == -1);
		FL_CHECK(rec.value == NULL && rec.value_len == -1);
		FL_CHECK_INT(rec.headers_len, 1);

		FL_CHECK(fl_record_iter_next(&it, &rec));
		FL_CHECK_INT(rec.timestamp_ms, INT64_C(1699999999999));
		FL_CHECK(rec.key != NULL && rec.key_len == 0);
		FL_CHECK_INT(rec.value_len, last_value);
		for (int32_t i = 0; i < rec.value_len; i++)
			FL_CHECK(rec.value[i] == 'x');

		FL_CHECK(!fl_record_iter_next(&it, &rec));
		FL_CHECK(!fl_record_iter_next(&it, &rec));
		FL_CHECK_INT(it.result, FL_OK);
	}
	fl_buf_free(&raw);
	fl_compressor_free(c);
}

static void
test_golden_records(void)
{
	check_golden_records(golden, sizeof(golden), 5);
	check_golden_records(golden_lz4, sizeof(golden_lz4), 400);
	check_golden_records(golden_zstd, sizeof(golden_zstd), 400);
	check_golden_records(golden_gzip, sizeof(golden_gzip), 400);
	check_golden_records(golden_snappy, sizeof(golden_snappy), 400);
	check_golden_records(golden_xerial, sizeof(golden_xerial), 400);
}

static void
build_golden(FlBatchBuilder *b, size_t max)
{
	fl_batch_builder_init(b, NULL, max);
	b->leader_epoch = 0;
	FL_CHECK_INT(fl_batch_builder_add(b, INT64_C(1700000000000), BYTES("k1"), 2, BYTES("hello"), 5, 0, golden_headers,
									  sizeof(golden_headers)),
				 FL_OK);
	FL_CHECK_INT(fl_batch_builder_add(b, INT64_C(1700000000005), NULL, -1, NULL, -1, 0, NULL, 0), FL_OK);
	FL_CHECK_INT(fl_batch_builder_add(b, INT64_C(1699999999999), BYTES(""), 0, BYTES("xxxxx"), 5, 0, BYTES("\0"), 1),
				 FL_OK);
}

static void
test_builder_writes_golden_bytes(void)
{
	FlBatchBuilder b;
	FlBuf out;

	build_golden(&b, sizeof(golden));
	FL_CHECK_INT(fl_batch_builder_count(&b), 3);
	FL_CHECK_INT(fl_batch_builder_bytes(&b), sizeof(golden));
	fl_buf_init(&out, NULL, sizeof(golden));
	FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &out), FL_OK);
	FL_CHECK_BYTES(out.data, out.len, golden, sizeof(golden));
	fl_buf_free(&out);
	fl_batch_builder_free(&b);
}

/* A full builder refuses a record, keeps what it has, and can be finished. */
static void
test_builder_when_full(void)
{
	FlBatchBuilder b;
	FlBuf out;

	build_golden(&b, sizeof(golden) + 6);
	FL_CHECK_INT(fl_batch_builder_add(&b, 0, NULL, -1, NULL, -1, 0, NULL, 0), FL_TOO_LARGE);
	FL_CHECK_INT(fl_batch_builder_count(&b), 3);
	for (size_t max = 0; max < sizeof(golden); max++)
	{
		fl_buf_init(&out, NULL, max);
		FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &out), FL_TOO_LARGE);
		FL_CHECK_INT(out.len, 0);
		fl_buf_free(&out);
	}
	fl_buf_init(&out, NULL, SIZE_MAX);
	fl_write_bytes(&out, "front", 5);
	FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &out), FL_OK);
	FL_CHECK_BYTES(out.data + 5, out.len - 5, golden, sizeof(golden));
	fl_buf_free(&out);
	fl_batch_builder_free(&b);

	for (size_t max = 0; max < FL_BATCH_HEADER_SIZE + FL_RECORD_MIN_SIZE; max++)
	{
		fl_batch_builder_init(&b, NULL, max);
		FL_CHECK_INT(fl_batch_builder_add(&b, 0, NULL, -1, NULL, -1, 0, NULL, 0), FL_TOO_LARGE);
		FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &out), FL_MALFORMED);
		fl_batch_builder_free(&b);
	}
	fl_batch_builder_init(&b, NULL, FL_BATCH_HEADER_SIZE + FL_RECORD_MIN_SIZE);
	FL_CHECK_INT(fl_batch_builder_add(&b, 0, NULL, -1, NULL, -1, 0, NULL, 0), FL_OK);
	FL_CHECK_INT(fl_batch_builder_add(&b, 0, BYTES(""), (int64_t) INT32_MAX + 1, NULL, -1, 0, NULL, 0), FL_TOO_LARGE);
	FL_CHECK_INT(fl_batch_builder_add(&b, 0, BYTES(""), -2, NULL, -1, 0, NULL, 0), FL_TOO_LARGE);
	fl_batch_builder_free(&b);
}

static void
test_record_without_time(void)
{
	static const int64_t times[] = {FL_NO_TIMESTAMP, 0, INT64_C(1700000000000), FL_NO_TIMESTAMP, INT64_MAX,
									INT64_MIN,       5};
	enum
	{
		N = sizeof(times) / sizeof(times[0])
	};

	/* Each of them first once, so that the base takes every value. */
	for (int first = 0; first < N; first++)
	{
		FlBatchBuilder b;
		FlBuf out;
		FlBatchInfo info;
		FlRecordIter it;
		FlRecord rec;
		int64_t max = INT64_MIN;

		fl_batch_builder_init(&b, NULL, 10000);
		for (int i = 0; i < N; i++)
		{
			int64_t t = times[(first + i) % N];

			FL_CHECK_INT(fl_batch_builder_add(&b, t, NULL, -1, NULL, -1, 0, NULL, 0), FL_OK);
			max = t > max ? t : max;
		}
		fl_buf_init(&out, NULL, 10000);
		FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &out), FL_OK);
		FL_CHECK_INT(fl_batch_verify(out.data, out.len), FL_OK);
		FL_REQUIRE(fl_batch_decode_header(out.data, out.len, &info) == FL_OK);
		FL_CHECK_INT(info.base_timestamp, times[first]);
		FL_CHECK_INT(info.max_timestamp, max);
		fl_record_iter_init(&it, &info, out.data + FL_BATCH_HEADER_SIZE, out.len - FL_BATCH_HEADER_SIZE);
		for (int i = 0; i < N; i++)
		{
			FL_CHECK(fl_record_iter_next(&it, &rec));
			FL_CHECK_INT(rec.timestamp_ms, times[(first + i) % N]);
		}
		fl_buf_free(&out);
		fl_batch_builder_free(&b);
	}
}

static void
test_compression_only_when_it_pays(void)
{
	static const FlCodec codecs[] = {FL_CODEC_GZIP, FL_CODEC_SNAPPY, FL_CODEC_LZ4, FL_CODEC_ZSTD};
	FlCompressor *c = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);

	for (int k = 0; k < 2; k++)
	{
		for (int size = 0; size <= 3000; size += 250)
		{
			for (int noise = 0; noise < 2; noise++)
			{
				uint8_t value[3000];
				FlBatchBuilder b;
				FlBuf out;
				FlBatchInfo info;
				size_t raw;

				for (int i = 0; i < size; i++)
					value[i] = noise ? (uint8_t) fl_unit_random() : (uint8_t) (i % 10);
				fl_batch_builder_init(&b, NULL, 10000);
				FL_CHECK_INT(fl_batch_builder_add(&b, 1, NULL, -1, value, size, 0, NULL, 0), FL_OK);
				raw = fl_batch_builder_bytes(&b) - FL_BATCH_HEADER_SIZE;
				fl_buf_init(&out, NULL, 10000);
				FL_CHECK_INT(fl_batch_builder_finish(&b, codecs[k], c, &out), FL_OK);
				FL_CHECK_INT(fl_batch_verify(out.data, out.len), FL_OK);
				FL_REQUIRE(fl_batch_decode_header(out.data, out.len, &info) == FL_OK);
				FL_CHECK_INT(info.codec, noise || raw < FL_COMPRESS_MIN_BYTES ? FL_CODEC_NONE : codecs[k]);
				FL_CHECK(info.codec == FL_CODEC_NONE
							 ? out.len == raw + FL_BATCH_HEADER_SIZE
							 : (out.len - FL_BATCH_HEADER_SIZE) * 100 <= raw * (100 - FL_COMPRESS_MIN_GAIN) + 100);
				fl_buf_free(&out);
				fl_batch_builder_free(&b);
			}
		}
	}
	fl_compressor_free(c);
}

/* Growing by one record at a time gives what the builder writes at once. */
static void
test_grow_header(void)
{
	FlBatchBuilder b;
	FlBuf page;
	FlBuf out;

	fl_buf_init(&page, NULL, 100000);
	fl_buf_init(&out, NULL, 100000);
	fl_batch_builder_init(&b, NULL, 100000);
	FL_CHECK_INT(fl_batch_builder_add(&b, 1000, BYTES("key"), 3, BYTES("v0"), 2, 1, BYTES("\2\2a\2b"), 5), FL_OK);
	FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &page), FL_OK);
	for (int i = 1; i < 200; i++)
	{
		uint8_t value[200];
		int64_t time = 1000 + (i % 2 ? i * 100 : -i);
		int64_t value_len = i % 5 == 0 ? -1 : i;
		size_t before = page.len;

		memset(value, i, sizeof(value));
		FL_CHECK_INT(fl_batch_builder_add(&b, time, BYTES("k"), 1, value, value_len, 0, NULL, 0), FL_OK);
		FL_CHECK_INT(fl_batch_encode_record(&page, i, time - 1000, 0, BYTES("k"), 1, value, value_len, NULL, 0), FL_OK);
		FL_CHECK_INT(page.len - before, fl_batch_record_size(i, time - 1000, 1, value_len, 0));
		FL_CHECK_INT(fl_batch_grow_header(page.data, page.len, i + 1, b.max_timestamp), FL_OK);
		fl_buf_reset(&out);
		FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &out), FL_OK);
		FL_CHECK_BYTES(page.data, page.len, out.data, out.len);
		FL_CHECK_INT(fl_batch_verify(page.data, page.len), FL_OK);
	}
	FL_CHECK_INT(fl_batch_grow_header(page.data, FL_BATCH_HEADER_SIZE - 1, 1, 0), FL_MALFORMED);
	FL_CHECK_INT(fl_batch_grow_header(page.data, page.len, 0, 0), FL_MALFORMED);
	memcpy(page.data, golden_lz4, sizeof(golden_lz4));
	FL_CHECK_INT(fl_batch_grow_header(page.data, sizeof(golden_lz4), 3, 0), FL_UNSUPPORTED);
	fl_buf_free(&out);
	fl_buf_free(&page);
	fl_batch_builder_free(&b);
}

static void
test_stamp(void)
{
	uint8_t *copy = fl_unit_copy(golden, sizeof(golden));
	FlBatchInfo info;

	/* Placing a batch leaves everything that the producer signed. */
	FL_CHECK_INT(fl_batch_stamp(copy, sizeof(golden), INT64_C(0x0102030405060708), 77, false, 0), FL_OK);
	FL_CHECK_BYTES(copy + 16, sizeof(golden) - 16, golden + 16, sizeof(golden) - 16);
	FL_REQUIRE(fl_batch_decode_header(copy, sizeof(golden), &info) == FL_OK);
	FL_CHECK_INT(info.base_offset, INT64_C(0x0102030405060708));
	FL_CHECK_INT(info.leader_epoch, 77);
	FL_CHECK_INT(fl_batch_verify(copy, sizeof(golden)), FL_OK);

	/* Append time: type bit, max timestamp and CRC change, records do not. */
	FL_CHECK_INT(fl_batch_stamp(copy, sizeof(golden), 5, 6, true, INT64_C(1800000000000)), FL_OK);
	FL_REQUIRE(fl_batch_decode_header(copy, sizeof(golden), &info) == FL_OK);
	FL_CHECK_INT(info.attributes, FL_BATCH_APPEND_TIME);
	FL_CHECK_INT(info.max_timestamp, INT64_C(1800000000000));
	FL_CHECK_INT(info.base_timestamp, INT64_C(1700000000000));
	FL_CHECK_INT(fl_batch_verify(copy, sizeof(golden)), FL_OK);
	FL_CHECK_BYTES(copy + 43, sizeof(golden) - 43, golden + 43, sizeof(golden) - 43);
	free(copy);

	FL_CHECK_INT(fl_batch_stamp(NULL, 0, 0, 0, false, 0), FL_INCOMPLETE);
}

static void
test_verify_finds_what_the_crc_does_not(void)
{
	struct
	{
		size_t at;
		uint8_t byte;
		FlResult expected;
	} edits[] = {
		{60, 2, FL_MALFORMED},                            /* count against last offset delta */
		{60, 0, FL_MALFORMED},     {26, 3, FL_MALFORMED}, /* last offset delta against count */
		{11, 0x5b, FL_MALFORMED},                         /* length */
		{11, 0x5d, FL_INCOMPLETE}, {8, 0x80, FL_MALFORMED},
		{10, 1, FL_INCOMPLETE},    {16, 1, FL_UNSUPPORTED},  /* magic */
		{22, 5, FL_UNSUPPORTED},                             /* codec */
		{22, 7, FL_UNSUPPORTED},   {64, 0x02, FL_MALFORMED}, /* first offset delta is 1 */
		{65, 0x03, FL_MALFORMED},                            /* key length -2 */
		{61, 0x2c, FL_MALFORMED},                            /* record shorter than its content */
		{61, 0xff, FL_MALFORMED},  {74, 0x08, FL_MALFORMED}, /* one header more */
		{62, 0x04, FL_MALFORMED},                            /* more reserved headers than headers */
		{62, 0x03, FL_OK},         {76, 0xff, FL_MALFORMED}, /* header name is not UTF-8 */
	};

	for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++)
	{
		uint8_t *copy = fl_unit_copy(golden, sizeof(golden));

		copy[edits[i].at] = edits[i].byte;
		fl_batch_update_crc(copy, sizeof(golden));
		if (!FL_CHECK_INT(fl_batch_verify(copy, sizeof(golden)), edits[i].expected))
			printf("# edit at %zu\n", edits[i].at);
		free(copy);
	}
}

static void
test_sequence_wraps(void)
{
	FL_CHECK_INT(fl_sequence_add(0, 0), 0);
	FL_CHECK_INT(fl_sequence_add(10, 5), 15);
	FL_CHECK_INT(fl_sequence_add(INT32_MAX, 1), 0);
	FL_CHECK_INT(fl_sequence_add(INT32_MAX - 1, 3), 1);
	FL_CHECK_INT(fl_sequence_add(INT32_MAX, INT32_MAX), INT32_MAX - 1);
	FL_CHECK_INT(fl_sequence_add(FL_NO_SEQUENCE, 100), FL_NO_SEQUENCE);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_golden_header);
	FL_RUN(test_golden_records);
	FL_RUN(test_builder_writes_golden_bytes);
	FL_RUN(test_builder_when_full);
	FL_RUN(test_record_without_time);
	FL_RUN(test_compression_only_when_it_pays);
	FL_RUN(test_grow_header);
	FL_RUN(test_stamp);
	FL_RUN(test_verify_finds_what_the_crc_does_not);
	FL_RUN(test_sequence_wraps);
	return fl_unit_end();
}
