/*-------------------------------------------------------------------------
 *
 * fuzz_batch.h
 *	  What the targets that take record batches share: inputs as they are and with
 *	  length and CRC put right, else the fuzzer would hardly ever get past them; a
 *	  seed of each codec.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FUZZ_BATCH_H
#define FUZZ_BATCH_H

#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/record_batch.h"

#define MAX_RAW ((size_t) 1 << 20)

/* check may write to what it is given. */
static inline void
fuzz_batch_input(const uint8_t *data, size_t size, void (*check)(uint8_t *body, size_t size))
{
	uint8_t *copy = malloc(size > 0 ? size : 1);

	if (copy == NULL)
		return;
	if (size > 0)
		memcpy(copy, data, size);
	check(copy, size);
	if (size >= FL_BATCH_HEADER_SIZE)
	{
		memcpy(copy, data, size);
		fl_put_be32(copy + 8, (uint32_t) (size - FL_BATCH_LENGTH_BASE));
		fl_batch_update_crc(copy, size);
		check(copy, size);
	}
	free(copy);
}

/* As we build batches, with a header of our own, or as a producer does: with an id, and no header of ours. */
static inline void
fuzz_batch_seeds(FlCompressor *compressor, bool of_producer)
{
	static const char *const names[] = {"none", "gzip", "snappy", "lz4", "zstd"};
	static const char ours[] = "\4\x0c"
							   "fl.qos\2"
							   "1\2a\1";
	const uint8_t *headers = (const uint8_t *) (of_producer ? "\2\2a\1" : ours);

	for (int codec = FL_CODEC_NONE; codec <= FL_CODEC_ZSTD; codec++)
	{
		FlBatchBuilder b;
		FlBuf out;

		fl_batch_builder_init(&b, NULL, MAX_RAW);
		if (of_producer)
		{
			b.producer_id = 9;
			b.producer_epoch = 0;
		}
		b.base_sequence = INT32_MAX - 3;
		for (int i = 0; i < 9; i++)
			fl_batch_builder_add(&b, i % 4 == 3 ? FL_NO_TIMESTAMP : 1000 - i, (const uint8_t *) "plant/line/7",
								 i % 3 == 2 ? -1 : 12, (const uint8_t *) "{\"temperature\": 20.5, \"unit\": \"celsius\"}",
								 i % 5 == 4 ? -1 : 40, of_producer ? 0 : 1, headers, of_producer ? 4 : 13);
		fl_buf_init(&out, NULL, MAX_RAW);
		FL_FUZZ_ASSERT(fl_batch_builder_finish(&b, (FlCodec) codec, compressor, &out) == FL_OK);
		FL_FUZZ_ASSERT(fl_batch_verify(out.data, out.len) == FL_OK && out.data[22] == codec);
		fl_fuzz_seed(names[codec], out.data, out.len);
		fl_buf_free(&out);
		fl_batch_builder_free(&b);
	}
}

#endif /* FUZZ_BATCH_H */
