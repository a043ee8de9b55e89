/*-------------------------------------------------------------------------
 *
 * test_batch_check.c
 *	  What a producer may send, and each way in which it may be wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/batch_check.h"
#include "fleetlog/headers.h"
#include "fleetlog/murmur2.h"

#define MAX_RAW ((size_t) 1 << 20)

static const FlCodec codecs[] = {FL_CODEC_NONE, FL_CODEC_GZIP, FL_CODEC_SNAPPY, FL_CODEC_LZ4, FL_CODEC_ZSTD};
static FlCompressor *compressor;
static FlBuf raw;

static FlBatchVerdict
look(FlBatchCheck *check, const uint8_t *body, size_t len)
{
	uint8_t *copy = fl_unit_copy(body, len);
	FlBatchVerdict verdict = fl_batch_check(check, copy, len, compressor, &raw);

	FL_CHECK((verdict == FL_BATCH_GOOD) == (check->why == NULL));
	free(copy);
	return verdict;
}

static FlBatchCheck
ask(void)
{
	FlBatchCheck check = {.max_raw = MAX_RAW, .max_record = 1000, .max_time = INT64_C(9000000000000), .shards = 4};

	return check;
}

/* Three records, keys k0, none, k2; times 1000, none, 900. */
static void
build(FlCodec codec, FlBuf *out)
{
	FlBatchBuilder b;

	fl_batch_builder_init(&b, NULL, MAX_RAW);
	b.producer_id = 7;
	b.producer_epoch = 0;
	b.base_sequence = 5;
	fl_batch_builder_add(&b, 1000, (const uint8_t *) "k0", 2, (const uint8_t *) "a", 1, 0, NULL, 0);
	fl_batch_builder_add(&b, FL_NO_TIMESTAMP, NULL, -1, NULL, -1, 0, NULL, 0);
	/* A header that claims to be ours, which it cannot be. */
	fl_batch_builder_add(&b, 900, (const uint8_t *) "k2", 2, (const uint8_t *)
						 "ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
						 "ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
						 "ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
						 270, 1, (const uint8_t *) "\2\4fl\1", 5);
	fl_buf_init(out, NULL, MAX_RAW);
	FL_CHECK_INT(fl_batch_builder_finish(&b, codec, compressor, out), FL_OK);
	FL_CHECK_INT(out->data[22], codec);
	fl_batch_builder_free(&b);
}

static void
test_what_is_found(void)
{
	for (size_t k = 0; k < sizeof(codecs) / sizeof(codecs[0]); k++)
	{
		FlBuf body;
		int off = 0;

		build(codecs[k], &body);
		for (int32_t shard = 0; shard < 4; shard++)
		{
			FlBatchCheck check = ask();

			check.shard = shard;
			FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_GOOD);
			FL_CHECK_INT(check.info.record_count, 3);
			FL_CHECK_INT(check.info.base_sequence, 5);
			FL_CHECK_INT(check.min_time, 900);
			FL_CHECK_INT(check.max_time_found, 1000);
			off += check.off_key;
		}
		/* Each of two keys belongs to one of four shards. */
		FL_CHECK_INT(off, 6);
		fl_buf_free(&body);
	}
}

static void
test_what_is_asked(void)
{
	for (size_t k = 0; k < sizeof(codecs) / sizeof(codecs[0]); k++)
	{
		FlBatchCheck check = ask();
		FlBuf body;

		build(codecs[k], &body);
		check.needs_keys = true;
		FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_INVALID);
		FL_CHECK_INT(check.bad_record, 1);
		check = ask();
		check.max_record = 270;
		FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_RECORD_TOO_LARGE);
		FL_CHECK_INT(check.bad_record, 2);
		check = ask();
		check.max_time = 999;
		FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_BAD_TIME);
		FL_CHECK_INT(check.bad_record, 0);
		check = ask();
		check.max_raw = 290;
		FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_RAW_TOO_LARGE);
		FL_CHECK_INT(check.bad_record, -1);
		fl_buf_free(&body);
	}
}

/* A change of bytes, and what it makes of the batch when the checksum is put right. */
typedef struct Change
{
	int at;
	int len;
	int64_t value;
	FlBatchVerdict verdict;
} Change;

static const Change changes[] = {
	{16, 1, 0, FL_BATCH_OLD_FORMAT},
	{16, 1, 1, FL_BATCH_OLD_FORMAT},
	{16, 1, 3, FL_BATCH_INVALID},
	{8, 4, -1, FL_BATCH_CORRUPT},
	{8, 4, 48, FL_BATCH_CORRUPT},
	{8, 4, INT32_MAX, FL_BATCH_CORRUPT},
	{8, 4, 49, FL_BATCH_INVALID},   /* bytes are left over */
	{22, 1, 5, FL_BATCH_UNKNOWN_CODEC},
	{22, 1, 0x08, FL_BATCH_BAD_TIME},
	{22, 1, 0x20, FL_BATCH_INVALID},
	{22, 1, 0x40, FL_BATCH_INVALID},
	{22, 1, 1, FL_BATCH_INVALID},   /* not gzip */
	{22, 1, 2, FL_BATCH_INVALID},
	{22, 1, 3, FL_BATCH_INVALID},
	{22, 1, 4, FL_BATCH_INVALID},
	{23, 4, 3, FL_BATCH_INVALID},
	{23, 4, 1, FL_BATCH_INVALID},
	{57, 4, 0, FL_BATCH_INVALID},
	{57, 4, 4, FL_BATCH_INVALID},
	{57, 4, -1, FL_BATCH_INVALID},
	{43, 8, -2, FL_BATCH_INVALID},
	{51, 2, -1, FL_BATCH_INVALID},
	{53, 4, -1, FL_BATCH_INVALID},
	{27, 8, -5000, FL_BATCH_BAD_TIME},
	{27, 8, INT64_MAX, FL_BATCH_BAD_TIME},
	{43, 8, -1, FL_BATCH_GOOD},
	{0, 8, 12345, FL_BATCH_GOOD},
	{12, 4, 99, FL_BATCH_GOOD},
	{35, 8, -1, FL_BATCH_GOOD},     /* the producer left the max timestamp out */
	{22, 1, 0x10, FL_BATCH_GOOD},   /* transactional: the door's business */
};

static void
test_each_fault(void)
{
	FlBuf body;

	build(FL_CODEC_NONE, &body);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
	{
		FlBatchCheck check = ask();
		uint8_t *copy = fl_unit_copy(body.data, body.len);
		FlBatchVerdict verdict;

		for (int n = 0; n < changes[i].len; n++)
			copy[changes[i].at + n] = (uint8_t) ((uint64_t) changes[i].value >> (8 * (changes[i].len - 1 - n)));
		fl_batch_update_crc(copy, body.len);
		verdict = look(&check, copy, body.len);
		if (!FL_CHECK_INT(verdict, changes[i].verdict))
			printf("# change %zu, at %d: %s\n", i, changes[i].at, check.why ? check.why : "");
		free(copy);
	}
	fl_buf_free(&body);
}

static void
test_every_cut_and_flip(void)
{
	for (size_t k = 0; k < sizeof(codecs) / sizeof(codecs[0]); k++)
	{
		FlBuf body;

		build(codecs[k], &body);
		for (size_t n = 0; n < body.len; n++)
		{
			FlBatchCheck check = ask();

			FL_CHECK_INT(look(&check, body.data, n), FL_BATCH_CORRUPT);
			/* What is not under the checksum: base offset, length, epoch, magic. */
			if (n < 21)
				continue;
			body.data[n] ^= 0x10;
			FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_CORRUPT);
			/* With a checksum that fits anything may come out, but no sanitizer complains. */
			fl_batch_update_crc(body.data, body.len);
			(void) look(&check, body.data, body.len);
			body.data[n] ^= 0x10;
			fl_batch_update_crc(body.data, body.len);
		}
		fl_buf_free(&body);
	}
}

static void
test_header_names_are_text(void)
{
	FlBatchCheck check = ask();
	FlBatchBuilder b;
	FlBuf body;

	fl_batch_builder_init(&b, NULL, MAX_RAW);
	fl_batch_builder_add(&b, 1, NULL, -1, NULL, -1, 0, (const uint8_t *) "\2\2\xff\1", 4);
	fl_buf_init(&body, NULL, MAX_RAW);
	FL_CHECK_INT(fl_batch_builder_finish(&b, FL_CODEC_NONE, NULL, &body), FL_OK);
	FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_INVALID);
	FL_CHECK_INT(check.bad_record, 0);
	fl_buf_free(&body);
	fl_batch_builder_free(&b);
}

static void
test_max_timestamp_is_put_right(void)
{
	FlBatchCheck check = ask();
	FlBuf body;

	build(FL_CODEC_LZ4, &body);
	fl_batch_set_max_timestamp(body.data, body.len, -1);
	FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_GOOD);
	FL_CHECK_INT(check.info.max_timestamp, -1);
	fl_batch_set_max_timestamp(body.data, body.len, check.max_time_found);
	FL_CHECK_INT(look(&check, body.data, body.len), FL_BATCH_GOOD);
	FL_CHECK_INT(check.info.max_timestamp, 1000);
	fl_buf_free(&body);
}

int
main(void)
{
	fl_unit_begin();
	compressor = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);
	fl_buf_init(&raw, NULL, MAX_RAW);
	FL_RUN(test_what_is_found);
	FL_RUN(test_what_is_asked);
	FL_RUN(test_each_fault);
	FL_RUN(test_every_cut_and_flip);
	FL_RUN(test_header_names_are_text);
	FL_RUN(test_max_timestamp_is_put_right);
	fl_buf_free(&raw);
	fl_compressor_free(compressor);
	return fl_unit_end();
}
