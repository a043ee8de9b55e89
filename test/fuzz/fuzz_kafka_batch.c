/*-------------------------------------------------------------------------
 *
 * fuzz_kafka_batch.c
 *	  Arbitrary bytes as what a Kafka producer sends: the door's check of a batch.
 *
 * What is accepted must be what readers can read: it is inflated, walked, stamped
 * and divided, and the halves are accepted again.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz_batch.h"

#include "fleetlog/batch_check.h"

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
	fuzz_batch_input(data, size, check_batch);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void) argc;
	(void) argv;
	compressor = fl_compressor_create(FL_ZSTD_DEFAULT_LEVEL);
	fuzz_batch_seeds(compressor, true);
	return 0;
}
