/*-------------------------------------------------------------------------
 *
 * test_producer_window.c
 *	  Idempotent producers: each rule by itself, and a long random life of one against
 *	  an oracle that remembers every record.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/producer_window.h"

#define MAX_SEQUENCE INT32_MAX

static int64_t where, when;

static FlProducerVerdict
ask(const FlProducerWindow *w, int16_t epoch, int32_t first, int32_t count)
{
	where = when = -1;
	return fl_producer_check(w, epoch, first, count, &where, &when);
}

/* ---- the rules ---- */

static void
test_unknown_producer(void)
{
	FlProducerWindow w = {0};

	FL_CHECK_INT(ask(&w, 0, 0, 1), FL_PRODUCER_NEXT);
	FL_CHECK_INT(ask(&w, 7, 1234, 10), FL_PRODUCER_NEXT);
	fl_producer_note(&w, 7, 1234, 10, 50, 1);
	FL_CHECK_INT(ask(&w, 7, 1244, 1), FL_PRODUCER_NEXT);
	/* What lies before the first that we have seen was never ours. */
	FL_CHECK_INT(ask(&w, 7, 1233, 1), FL_PRODUCER_GAP);
	FL_CHECK_INT(ask(&w, 7, 1230, 10), FL_PRODUCER_GAP);
}

static void
test_last_five_are_recognised(void)
{
	FlProducerWindow w = {0};

	for (int i = 0; i < 20; i++)
		fl_producer_note(&w, 0, i * 3, 3, 1000 + i * 7, 100 + i);
	for (int i = 15; i < 20; i++)
	{
		FL_CHECK_INT(ask(&w, 0, i * 3, 3), FL_PRODUCER_DUPLICATE);
		FL_CHECK_INT(where, 1000 + i * 7);
		FL_CHECK_INT(when, 100 + i);
		FL_CHECK_INT(ask(&w, 0, i * 3 + 1, 2), FL_PRODUCER_DUPLICATE);
		FL_CHECK_INT(where, 1000 + i * 7 + 1);
	}
	for (int i = 0; i < 15; i++)
		FL_CHECK_INT(ask(&w, 0, i * 3, 3), FL_PRODUCER_OLD);
	/* They are written, but not one behind the other. */
	FL_CHECK_INT(ask(&w, 0, 48, 6), FL_PRODUCER_OLD);
	FL_CHECK_INT(ask(&w, 0, 57, 4), FL_PRODUCER_GAP);
	FL_CHECK_INT(ask(&w, 0, 61, 1), FL_PRODUCER_GAP);
	FL_CHECK_INT(ask(&w, 0, 60, 1000000), FL_PRODUCER_NEXT);
	FL_CHECK_INT(ask(&w, 0, MAX_SEQUENCE, 1), FL_PRODUCER_GAP);
}

static void
test_epochs(void)
{
	FlProducerWindow w = {0};

	fl_producer_note(&w, 3, 0, 5, 0, 1);
	FL_CHECK_INT(ask(&w, 2, 5, 1), FL_PRODUCER_FENCED);
	FL_CHECK_INT(ask(&w, 2, 0, 5), FL_PRODUCER_FENCED);
	FL_CHECK_INT(ask(&w, 4, 5, 1), FL_PRODUCER_GAP);
	FL_CHECK_INT(ask(&w, 4, 0, 5), FL_PRODUCER_NEXT);
	fl_producer_note(&w, 4, 0, 5, 5, 2);
	FL_CHECK_INT(ask(&w, 4, 0, 5), FL_PRODUCER_DUPLICATE);
	FL_CHECK_INT(where, 5);
	FL_CHECK_INT(ask(&w, 3, 5, 1), FL_PRODUCER_FENCED);
	FL_CHECK_INT(ask(&w, INT16_MAX, 0, 1), FL_PRODUCER_NEXT);
}

static void
test_wrap(void)
{
	FlProducerWindow w = {0};

	fl_producer_note(&w, 0, MAX_SEQUENCE - 1, 1, 10, 1);
	FL_CHECK_INT(ask(&w, 0, MAX_SEQUENCE, 1), FL_PRODUCER_NEXT);
	FL_CHECK_INT(ask(&w, 0, MAX_SEQUENCE, 5), FL_PRODUCER_NEXT);
	FL_CHECK_INT(ask(&w, 0, 0, 1), FL_PRODUCER_GAP);
	fl_producer_note(&w, 0, MAX_SEQUENCE, 5, 20, 2);
	FL_CHECK_INT(w.batches[1].last, 3);
	FL_CHECK_INT(ask(&w, 0, MAX_SEQUENCE, 5), FL_PRODUCER_DUPLICATE);
	FL_CHECK_INT(where, 20);
	FL_CHECK_INT(ask(&w, 0, 1, 3), FL_PRODUCER_DUPLICATE);
	FL_CHECK_INT(where, 22);
	FL_CHECK_INT(ask(&w, 0, MAX_SEQUENCE - 1, 1), FL_PRODUCER_DUPLICATE);
	FL_CHECK_INT(where, 10);
	FL_CHECK_INT(ask(&w, 0, 4, 1), FL_PRODUCER_NEXT);

	memset(&w, 0, sizeof(w));
	fl_producer_note(&w, 0, MAX_SEQUENCE, 1, 10, 1);
	FL_CHECK_INT(ask(&w, 0, 0, 1), FL_PRODUCER_NEXT);
}

static void
test_divided_batch_is_one(void)
{
	FlProducerWindow live = {0};
	FlProducerWindow read = {0};

	for (int i = 0; i < 6; i++)
	{
		fl_producer_note(&live, 0, i * 10, 10, i * 10, i);
		fl_producer_note(&read, 0, i * 10, 3, i * 10, i);
		fl_producer_note(&read, 0, i * 10 + 3, 6, i * 10 + 3, i);
		fl_producer_note(&read, 0, i * 10 + 9, 1, i * 10 + 9, i);
	}
	FL_CHECK(memcmp(&live, &read, sizeof(live)) == 0);
	FL_CHECK_INT(ask(&read, 0, 10, 10), FL_PRODUCER_DUPLICATE);
	FL_CHECK_INT(where, 10);
	/* Batches that follow each other in the log are found as one, too. */
	FL_CHECK_INT(ask(&read, 0, 15, 10), FL_PRODUCER_DUPLICATE);
	FL_CHECK_INT(where, 15);
}

/* ---- a random life ---- */

#define MAX_RECORDS 4000

typedef struct Oracle
{
	int16_t epoch;
	int64_t start; /* sequence of the first record, not wrapped */
	int n;
	int64_t offset[MAX_RECORDS];
} Oracle;

static int64_t
unwrapped(const Oracle *o, int32_t sequence)
{
	int64_t next = o->start + o->n;
	int64_t forward = (sequence - next) & MAX_SEQUENCE;

	/* The nearest on the circle. */
	return forward < INT64_C(1) << 30 ? next + forward : next + forward - (INT64_C(1) << 31);
}

static void
compare(const Oracle *o, const FlProducerWindow *w, int16_t epoch, int32_t first, int32_t count)
{
	FlProducerVerdict got = ask(w, epoch, first, count);
	int64_t at = unwrapped(o, first) - o->start;

	if (o->n == 0)
		FL_CHECK_INT(got, FL_PRODUCER_NEXT);
	else if (epoch < o->epoch)
		FL_CHECK_INT(got, FL_PRODUCER_FENCED);
	else if (epoch > o->epoch)
		FL_CHECK_INT(got, first == 0 ? FL_PRODUCER_NEXT : FL_PRODUCER_GAP);
	else if (at == o->n)
		FL_CHECK_INT(got, FL_PRODUCER_NEXT);
	else if (at < 0 || at + count > o->n)
		FL_CHECK_INT(got, FL_PRODUCER_GAP);
	else
	{
		FL_CHECK(got == FL_PRODUCER_DUPLICATE || got == FL_PRODUCER_OLD);
		if (got == FL_PRODUCER_DUPLICATE)
			for (int i = 0; i < count; i++)
				FL_CHECK_INT(o->offset[at + i], where + i);
	}
}

static void
check_round_trip(const FlProducerWindow *w)
{
	FlProducerWindow back;
	FlBuf buf;
	FlReader r;
	int64_t id;
	uint8_t *copy;

	fl_buf_init(&buf, NULL, 1000);
	fl_producer_encode(&buf, 77, w);
	copy = fl_unit_copy(buf.data, buf.len);
	fl_reader_init(&r, copy, buf.len);
	FL_CHECK(fl_producer_decode(&r, &id, &back));
	FL_CHECK_INT(id, 77);
	FL_CHECK(memcmp(w, &back, sizeof(back)) == 0);
	FL_CHECK(!fl_producer_decode(&r, &id, &back) && !r.failed);
	free(copy);
	for (size_t len = 1; len < buf.len; len++)
	{
		copy = fl_unit_copy(buf.data, len);
		fl_reader_init(&r, copy, len);
		FL_CHECK(!fl_producer_decode(&r, &id, &back) && r.failed);
		free(copy);
	}
	fl_buf_free(&buf);
}

static void
live_once(void)
{
	static Oracle o;
	FlProducerWindow live = {0};
	FlProducerWindow read = {0};
	int64_t offset = fl_unit_random_below(1000);
	int64_t ts = 1;
	struct
	{
		int32_t first, count;
	} sent[5] = {{0, 0}};
	int nsent = 0;

	memset(&o, 0, sizeof(o));
	o.start = fl_unit_random_below(2) ? 0 : (int64_t) MAX_SEQUENCE - fl_unit_random_below(100);
	while (o.n < MAX_RECORDS - 20)
	{
		int32_t first = (int32_t) ((o.start + o.n) & MAX_SEQUENCE);
		int32_t count = 1 + (int32_t) fl_unit_random_below(12);
		int32_t part = (int32_t) fl_unit_random_below((uint32_t) count);

		if (fl_unit_random_below(200) == 0)
		{
			o.epoch += 1 + (int16_t) fl_unit_random_below(3);
			o.start = o.n = nsent = 0;
			first = 0;
		}
		if (o.n > 0)
			compare(&o, &live, o.epoch, first, count);
		/* Other producers write between; times stand still now and then. */
		offset += fl_unit_random_below(2) ? fl_unit_random_below(5) : 0;
		ts += fl_unit_random_below(4) > 0;
		fl_producer_note(&live, o.epoch, first, count, offset, ts);
		if (part > 0)
			fl_producer_note(&read, o.epoch, first, part, offset, ts);
		fl_producer_note(&read, o.epoch, (int32_t) (((int64_t) first + part) & MAX_SEQUENCE), count - part, offset + part, ts);
		FL_CHECK(memcmp(&live, &read, sizeof(live)) == 0);
		for (int i = 0; i < count; i++)
			o.offset[o.n++] = offset++;
		sent[nsent++ % 5].first = first;
		sent[(nsent - 1) % 5].count = count;
		for (int i = 0; i < 5 && i < nsent; i++)
		{
			compare(&o, &live, o.epoch, sent[i].first, sent[i].count);
			FL_CHECK_INT(ask(&live, o.epoch, sent[i].first, sent[i].count), FL_PRODUCER_DUPLICATE);
		}
		for (int i = 0; i < 4; i++)
			compare(&o, &live, (int16_t) (o.epoch + (int) fl_unit_random_below(3) - (o.epoch > 0)),
					(int32_t) ((o.start + o.n + fl_unit_random_below(200) - 150) & MAX_SEQUENCE), 1 + (int32_t) fl_unit_random_below(40));
		compare(&o, &live, o.epoch, (int32_t) fl_unit_random_below((uint32_t) MAX_SEQUENCE), count);
		if (fl_unit_random_below(100) == 0)
			check_round_trip(&live);
	}
}

static void
test_random_life(void)
{
	for (int i = 0; i < 60; i++)
		live_once();
}

static void
test_damaged_bytes(void)
{
	FlProducerWindow w = {0};
	FlBuf buf;

	for (int i = 0; i < 5; i++)
		fl_producer_note(&w, 2, i * 4, 4, i * 9, i + 1);
	fl_buf_init(&buf, NULL, 1000);
	fl_producer_encode(&buf, 5, &w);
	fl_producer_encode(&buf, 6, &w);
	for (int i = 0; i < 200000; i++)
	{
		uint8_t *copy = fl_unit_copy(buf.data, buf.len);
		FlProducerWindow back;
		FlReader r;
		int64_t id;

		copy[fl_unit_random_below((uint32_t) buf.len)] = (uint8_t) fl_unit_random();
		fl_reader_init(&r, copy, buf.len);
		while (fl_producer_decode(&r, &id, &back))
		{
			FL_CHECK(back.n >= 1 && back.n <= FL_PRODUCER_BATCHES && id >= 0);
			(void) ask(&back, back.epoch, 3, 7);
			(void) ask(&back, back.epoch, back.batches[0].first, INT32_MAX);
		}
		free(copy);
	}
	fl_buf_free(&buf);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_unknown_producer);
	FL_RUN(test_last_five_are_recognised);
	FL_RUN(test_epochs);
	FL_RUN(test_wrap);
	FL_RUN(test_divided_batch_is_one);
	FL_RUN(test_random_life);
	FL_RUN(test_damaged_bytes);
	return fl_unit_end();
}
