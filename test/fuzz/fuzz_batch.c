/*-------------------------------------------------------------------------
 *
 * fuzz_batch.c
 *	  Arbitrary bytes as a record batch: decode, verify, inflate, iterate,
 *	  split, stamp.
 *
 * Beyond memory safety it is asserted that what was accepted survives splitting
 * unchanged.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz_batch.h"

#include "fleetlog/headers.h"

static FlCompressor *compressor;

/* Where the bytes of a record go, so that reading them is not optimised away. */
volatile uint8_t fl_fuzz_sink;

static void
touch(const uint8_t *p, int64_t len)
{
	for (int64_t i = 0; i < len; i++)
		fl_fuzz_sink = p[i];
}

static int32_t
iterate(const FlBatchInfo *info, const uint8_t *records, size_t len, FlResult *result)
{
	FlRecordIter it;
	FlRecord rec;
	int32_t n = 0;

	fl_record_iter_init(&it, info, records, len);
	while (fl_record_iter_next(&it, &rec))
	{
		FlHeaderIter hit;
		FlHeader h;

		FL_FUZZ_ASSERT(rec.offset_delta == n);
		FL_FUZZ_ASSERT(rec.raw >= records && rec.raw + rec.raw_len <= records + len);
		touch(rec.key, rec.key_len);
		touch(rec.value, rec.value_len);
		fl_header_iter_init_kafka(&hit, rec.attributes, rec.headers, rec.headers_len);
		while (fl_header_iter_next(&hit, &h))
		{
			touch(h.name, h.name_len);
			touch(h.value, h.value_len);
		}
		n++;
	}
	*result = it.result;
	return n;
}

/* Both halves of a split, read back: how many records they hold in all. */
static int32_t
count_halves(const FlBuf *a, const FlBuf *b)
{
	const FlBuf *halves[] = {a, b};
	int32_t n = 0;

	for (int i = 0; i < 2; i++)
	{
		FlBatchInfo info;
		FlBuf raw;
		const uint8_t *records;
		size_t records_len;
		FlResult result;

		FL_FUZZ_ASSERT(fl_batch_decode_header(halves[i]->data, halves[i]->len, &info) == FL_OK);
		fl_buf_init(&raw, NULL, MAX_RAW * 4);
		FL_FUZZ_ASSERT(fl_batch_inflate(&info, halves[i]->data, halves[i]->len, compressor, MAX_RAW * 4, &raw, &records,
										&records_len) == FL_OK);
		n += iterate(&info, records, records_len, &result);
		FL_FUZZ_ASSERT(result == FL_OK);
		fl_buf_free(&raw);
	}
	return n;
}

static void
check_split(const uint8_t *body, size_t size, const FlBatchInfo *info, bool accepted)
{
	FlBuf a;
	FlBuf b;
	FlResult result;

	fl_buf_init(&a, NULL, MAX_RAW * 4);
	fl_buf_init(&b, NULL, MAX_RAW * 4);
	result = fl_batch_split(body, size, compressor, MAX_RAW, info->record_count / 2, &a, &b);
	FL_FUZZ_ASSERT(accepted || result != FL_OK);
	if (result == FL_OK)
		FL_FUZZ_ASSERT(count_halves(&a, &b) == info->record_count);
	else
		FL_FUZZ_ASSERT(a.len == 0 && b.len == 0);
	fl_buf_free(&a);
	fl_buf_free(&b);
}

static void
check_batch(uint8_t *body, size_t size)
{
	FlBatchInfo info;
	FlBuf raw;
	const uint8_t *records;
	size_t records_len;
	FlResult verified = fl_batch_verify(body, size);
	FlResult result;
	bool accepted = false;

	if (fl_batch_decode_header(body, size, &info) != FL_OK)
	{
		FL_FUZZ_ASSERT(verified != FL_OK);
		return;
	}
	fl_buf_init(&raw, NULL, MAX_RAW);
	result = fl_batch_inflate(&info, body, size, compressor, MAX_RAW, &raw, &records, &records_len);
	if (result == FL_OK)
	{
		accepted = iterate(&info, records, records_len, &result) == info.record_count && result == FL_OK;
		if (fl_records_verify(&info, records, records_len) == FL_OK)
			FL_FUZZ_ASSERT(accepted);
		if (verified == FL_OK && info.codec == FL_CODEC_NONE)
			FL_FUZZ_ASSERT(accepted);
	}
	fl_buf_free(&raw);
	if (info.record_count > 1)
		check_split(body, size, &info, accepted);

	if (verified == FL_OK)
	{
		FL_FUZZ_ASSERT(fl_batch_stamp(body, size, 42, 7, true, 12345) == FL_OK);
		FL_FUZZ_ASSERT(fl_batch_verify(body, size) == FL_OK);
	}
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
	fuzz_batch_seeds(compressor, false);
	return 0;
}
