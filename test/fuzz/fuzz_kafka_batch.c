/*-------------------------------------------------------------------------
 *
 * fuzz_kafka_batch.c
 *	  Arbitrary bytes as what a Kafka producer sends: the door's check of a batch.
 *
 * Length and CRC are put right before a second pass.  What is accepted must be
 * what readers can read: it is inflated, walked, stamped and divided, and the
 * halves are accepted again.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/batch_check.h"

#define MAX_RAW ((size_t) 1 << 20)

static FlCompressor *compressor;

static FlBatchVerdict
look(FlBatchCheck *check, const uint8_t *body, size_t len, size_t max_raw)
{
	FlBuf raw;
	FlBatchVerdict verdict;

	memset(check, 0, sizeof(*check));
	check->max_raw = max_raw;
	check->max_record = max_raw;
	check->max_time = INT64_C(9000000000000);
	check->shards = 3;
	fl_buf_init(&raw, NULL, max_raw);
	verdict = fl_batch_check(check, body, len, compressor, &raw);
	FL_FUZZ_ASSERT((verdict == FL_BATCH_GOOD) == (check->why == NULL));
	FL_FUZZ_ASSERT(raw.cap <= max_raw);
	fl_buf_free(&raw);
	return verdict;
}

static void
divide(const uint8_t *body, size_t size, const FlBatchCheck *whole)
{
	FlBatchCheck first;
	FlBatchCheck second;
	FlBuf a;
	FlBuf b;

	fl_buf_init(&a, NULL, MAX_RAW * 4);
	fl_buf_init(&b, NULL, MAX_RAW * 4);
	if (fl_batch_split(body, size, compressor, MAX_RAW, whole->info.record_count / 2, &a, &b) == FL_OK)
	{
		FL_FUZZ_ASSERT(look(&first, a.data, a.len, MAX_RAW * 4) == FL_BATCH_GOOD);
		FL_FUZZ_ASSERT(look(&second, b.data, b.len, MAX_RAW * 4) == FL_BATCH_GOOD);
		FL_FUZZ_ASSERT(first.info.record_count + second.info.record_count == whole->info.record_count);
		FL_FUZZ_ASSERT(first.off_key + second.off_key == whole->off_key);
		FL_FUZZ_ASSERT(first.info.codec == whole->info.codec && second.info.codec == whole->info.codec);
	}
	fl_buf_free(&a);
	fl_buf_free(&b);
}

static void
check_batch(uint8_t *body, size_t size)
{
	FlBatchCheck check;
	FlBatchCheck again;

	if (look(&check, body, size, MAX_RAW) != FL_BATCH_GOOD)
		return;
	if (check.info.record_count > 1)
		divide(body, size, &check);
	FL_FUZZ_ASSERT(fl_batch_stamp(body, size, 42, 7, false, 0) == FL_OK);
	FL_FUZZ_ASSERT(look(&again, body, size, MAX_RAW) == FL_BATCH_GOOD);
	fl_batch_set_max_timestamp(body, size, check.max_time_found);
	FL_FUZZ_ASSERT(look(&again, body, size, MAX_RAW) == FL_BATCH_GOOD);
	FL_FUZZ_ASSERT(again.min_time == check.min_time && again.max_time_found == check.max_time_found);
	FL_FUZZ_ASSERT(fl_batch_stamp(body, size, 42, 7, true, 12345) == FL_OK);
	FL_FUZZ_ASSERT(look(&again, body, size, MAX_RAW) == FL_BATCH_BAD_TIME);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);

	if (copy == NULL)
		return 0;
	if (size > 0)
		memcpy(copy, data, size);
	check_batch(copy, size);
	if (size >= FL_BATCH_HEADER_SIZE)
	{
		memcpy(copy, data, size);
		fl_put_be32(copy + 8, (uint32_t) (size - FL_BATCH_LENGTH_BASE));
		fl_batch_update_crc(copy, size);
		check_batch(copy, size);
	}
	free(copy);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const names[] = {"none", "gzip", "snappy", "lz4", "zstd"};

	(void) argc;
	(void) argv;
	compressor = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);
	for (int codec = FL_CODEC_NONE; codec <= FL_CODEC_ZSTD; codec++)
	{
		FlBatchBuilder b;
		FlBuf out;

		fl_batch_builder_init(&b, NULL, MAX_RAW);
		b.producer_id = 9;
		b.producer_epoch = 0;
		b.base_sequence = INT32_MAX - 3;
		for (int i = 0; i < 9; i++)
			fl_batch_builder_add(&b, i % 4 == 3 ? FL_NO_TIMESTAMP : 1000 - i, (const uint8_t *) "plant/line/7",
								 i % 3 == 2 ? -1 : 12, (const uint8_t *) "{\"temperature\": 20.5, \"unit\": \"celsius\"}",
								 i % 5 == 4 ? -1 : 40, 0, (const uint8_t *) "\2\2a\1", 4);
		fl_buf_init(&out, NULL, MAX_RAW);
		FL_FUZZ_ASSERT(fl_batch_builder_finish(&b, (FlCodec) codec, compressor, &out) == FL_OK);
		FL_FUZZ_ASSERT(out.data[22] == codec);
		fl_fuzz_seed(names[codec], out.data, out.len);
		fl_buf_free(&out);
		fl_batch_builder_free(&b);
	}
	return 0;
}
