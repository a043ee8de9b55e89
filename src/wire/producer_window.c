/*-------------------------------------------------------------------------
 *
 * producer_window.c
 *	  The rules of idempotent producers (producer_window.h).
 *
 * Sequences are compared by how far they lie behind the last one, counted round the
 * circle of 2^31 numbers.  What is more than half a circle behind is taken to lie in
 * front; what is further behind than records have been seen was never there.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/producer_window.h"

#include <string.h>

#define HALF_CIRCLE (INT64_C(1) << 30)

/* Records of a batch are fewer: the largest has 128 MB, and each of them 7 bytes. */
#define MAX_LENGTH (INT64_C(1) << 26)

/* How far `from` lies in front of `to`. */
static int64_t
distance(int32_t from, int32_t to)
{
	return (int64_t) (((uint32_t) to - (uint32_t) from) & INT32_MAX);
}

static int32_t
advance(int32_t sequence, int64_t n)
{
	return (int32_t) (((uint64_t) sequence + (uint64_t) n) & INT32_MAX);
}

static int64_t
length(const FlProducerBatch *b)
{
	return distance(b->first, b->last) + 1;
}

static const FlProducerBatch *
newest(const FlProducerWindow *w)
{
	return &w->batches[w->n - 1];
}

/*
 * Where the records lie that end `age` before the last one begins: known if they are
 * in batches that follow each other in the log.
 */
static FlProducerVerdict
find_original(const FlProducerWindow *w, int32_t first, int64_t count, int64_t *offset, int64_t *append_ts)
{
	int i = 0;
	int64_t skip;
	int64_t end;

	while (i < w->n && distance(w->batches[i].first, first) >= length(&w->batches[i]))
		i++;
	if (i == w->n)
		return FL_PRODUCER_OLD;
	skip = distance(w->batches[i].first, first);
	*offset = w->batches[i].base_offset + skip;
	*append_ts = w->batches[i].append_ts;
	count -= length(&w->batches[i]) - skip;
	for (; count > 0; count -= length(&w->batches[i]))
	{
		end = w->batches[i].base_offset + length(&w->batches[i]);
		i++;
		if (i == w->n || w->batches[i].base_offset != end)
			return FL_PRODUCER_OLD;
	}
	return FL_PRODUCER_DUPLICATE;
}

FlProducerVerdict
fl_producer_check(const FlProducerWindow *w, int16_t epoch, int32_t first, int32_t count, int64_t *offset,
				  int64_t *append_ts)
{
	int64_t age;

	if (w->n == 0)
		return FL_PRODUCER_NEXT;
	if (epoch < w->epoch)
		return FL_PRODUCER_FENCED;
	if (epoch > w->epoch)
		return first == 0 ? FL_PRODUCER_NEXT : FL_PRODUCER_GAP;
	if (first == advance(newest(w)->last, 1))
		return FL_PRODUCER_NEXT;
	age = distance(first, newest(w)->last);
	if (age >= w->seen || age >= HALF_CIRCLE || count > age + 1)
		return FL_PRODUCER_GAP;
	return find_original(w, first, count, offset, append_ts);
}

/* Is it the rest of the newest batch, which was divided? */
static bool
is_rest(const FlProducerWindow *w, int32_t count, int64_t base_offset, int64_t append_ts)
{
	const FlProducerBatch *b = newest(w);

	return b->append_ts == append_ts && b->base_offset + length(b) == base_offset && length(b) + count <= MAX_LENGTH;
}

void
fl_producer_note(FlProducerWindow *w, int16_t epoch, int32_t first, int32_t count, int64_t base_offset,
				 int64_t append_ts)
{
	int32_t last = advance(first, count - 1);

	if (w->n > 0 && (epoch != w->epoch || first != advance(newest(w)->last, 1)))
		memset(w, 0, sizeof(*w));
	w->epoch = epoch;
	w->seen += count;
	if (w->n > 0 && is_rest(w, count, base_offset, append_ts))
	{
		w->batches[w->n - 1].last = last;
		return;
	}
	if (w->n == FL_PRODUCER_BATCHES)
	{
		memmove(&w->batches[0], &w->batches[1], sizeof(w->batches[0]) * (FL_PRODUCER_BATCHES - 1));
		w->n--;
	}
	w->batches[w->n++] = (FlProducerBatch){first, last, base_offset, append_ts};
}

int64_t
fl_producer_last_ts(const FlProducerWindow *w)
{
	return newest(w)->append_ts;
}

/* ---- as bytes ---- */

void
fl_producer_encode(FlBuf *buf, int64_t producer_id, const FlProducerWindow *w)
{
	fl_write_le64(buf, (uint64_t) producer_id);
	fl_write_le16(buf, (uint16_t) w->epoch);
	fl_write_le64(buf, (uint64_t) w->seen);
	fl_write_u8(buf, w->n);
	for (int i = 0; i < w->n; i++)
	{
		fl_write_le32(buf, (uint32_t) w->batches[i].first);
		fl_write_le32(buf, (uint32_t) w->batches[i].last);
		fl_write_le64(buf, (uint64_t) w->batches[i].base_offset);
		fl_write_le64(buf, (uint64_t) w->batches[i].append_ts);
	}
}

/* Does it follow the one before, and is it one at all? */
static bool
is_sound(const FlProducerWindow *w, int i)
{
	const FlProducerBatch *b = &w->batches[i];

	if (b->first < 0 || b->last < 0 || length(b) > MAX_LENGTH || b->base_offset < 0 || b->base_offset > INT64_MAX - length(b))
		return false;
	return i == 0 || b->first == advance(b[-1].last, 1);
}

bool
fl_producer_decode(FlReader *r, int64_t *producer_id, FlProducerWindow *w)
{
	int64_t known = 0;
	bool sound;

	memset(w, 0, sizeof(*w));
	if (r->failed || fl_reader_left(r) == 0)
		return false;
	*producer_id = (int64_t) fl_read_le64(r);
	w->epoch = (int16_t) fl_read_le16(r);
	w->seen = (int64_t) fl_read_le64(r);
	w->n = fl_read_u8(r);
	sound = !r->failed && *producer_id >= 0 && w->epoch >= 0 && w->n >= 1 && w->n <= FL_PRODUCER_BATCHES;
	for (int i = 0; sound && i < w->n; i++)
	{
		w->batches[i].first = (int32_t) fl_read_le32(r);
		w->batches[i].last = (int32_t) fl_read_le32(r);
		w->batches[i].base_offset = (int64_t) fl_read_le64(r);
		w->batches[i].append_ts = (int64_t) fl_read_le64(r);
		sound = !r->failed && is_sound(w, i);
		known += length(&w->batches[i]);
	}
	/* Far from where a count of records could ever come. */
	if (!sound || w->seen < known || w->seen > INT64_MAX / 2)
	{
		r->failed = true;
		memset(w, 0, sizeof(*w));
		return false;
	}
	return true;
}
