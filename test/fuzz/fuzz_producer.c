/*-------------------------------------------------------------------------
 *
 * fuzz_producer.c
 *		What is kept of idempotent producers, from any bytes: decoding stays within
 *		them, what it accepts is written again as it was, and answers for any batch.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_fuzz.h"

#include <string.h>

#include "fleetlog/producer_window.h"

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	FlProducerWindow w = {0};
	FlBuf buf;

	(void) argc;
	(void) argv;
	fl_buf_init(&buf, NULL, 4096);
	for (int i = 0; i < 7; i++)
	{
		fl_producer_note(&w, 3, (int32_t) ((INT64_C(0x7FFFFFEB) + 5 * i) & INT32_MAX), 5, 100 + 9 * i, i);
		fl_producer_encode(&buf, i, &w);
	}
	fl_fuzz_seed("producers", buf.data, buf.len);
	fl_buf_free(&buf);
	return 0;
}

/* Whatever it is asked, a duplicate is where the window says, and what is noted is a duplicate then. */
static void
ask(FlProducerWindow *w, int32_t first, int32_t count)
{
	int64_t offset = -1;
	int64_t ts = 0;

	first &= INT32_MAX;
	count = (count & 0xFFFF) + 1;
	if (fl_producer_check(w, w->epoch, first, count, &offset, &ts) == FL_PRODUCER_DUPLICATE)
		FL_FUZZ_ASSERT(offset >= w->batches[0].base_offset || w->n > 1);
	/* Longer than anything that is written. */
	if (w->seen > INT64_MAX / 4)
		return;
	fl_producer_note(w, w->epoch, first, count, 1000, 5);
	FL_FUZZ_ASSERT(fl_producer_check(w, w->epoch, first, count, &offset, &ts) == FL_PRODUCER_DUPLICATE && offset == 1000 && ts == 5);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FlReader r;
	FlProducerWindow w;
	int64_t id;
	const uint8_t *from = data;

	fl_reader_init(&r, data, size);
	while (fl_producer_decode(&r, &id, &w))
	{
		FlBuf again;

		fl_buf_init(&again, NULL, 4096);
		fl_producer_encode(&again, id, &w);
		FL_FUZZ_ASSERT(again.len == (size_t) (r.pos - from) && memcmp(again.data, from, again.len) == 0);
		fl_buf_free(&again);
		from = r.pos;
		ask(&w, w.batches[w.n - 1].last, (int32_t) id);
		ask(&w, (int32_t) id, w.epoch);
	}
	return 0;
}
