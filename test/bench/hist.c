/*-------------------------------------------------------------------------
 *
 * hist.c
 *		Histogram of latencies whose buckets grow with the value.
 *
 * Each power of two is divided into 128 buckets, so a quantile is off by less
 * than 0.8 % whatever the range, and the histograms of several processes can
 * be added.  The largest value is kept exactly.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#define SUB (1 << FL_HIST_SUB_BITS)

static unsigned
bucket_of(uint64_t v)
{
	int shift;

	if (v < SUB)
		return (unsigned) v;
	shift = 63 - __builtin_clzll(v) - FL_HIST_SUB_BITS;
	return (unsigned) (((shift + 1) << FL_HIST_SUB_BITS) + (v >> shift) - SUB);
}

/* The largest value that falls into a bucket. */
static uint64_t
upper_of(unsigned bucket)
{
	int shift = (int) (bucket >> FL_HIST_SUB_BITS) - 1;

	if (shift < 0)
		return bucket;
	return ((uint64_t) ((bucket & (SUB - 1)) + SUB + 1) << shift) - 1;
}

void
fl_hist_add(FlHist *h, int64_t value)
{
	uint64_t v = value > 0 ? (uint64_t) value : 0;

	h->count++;
	h->sum += v;
	if (v > h->max)
		h->max = v;
	h->bucket[bucket_of(v)]++;
}

void
fl_hist_merge(FlHist *into, const FlHist *from)
{
	into->count += from->count;
	into->sum += from->sum;
	if (from->max > into->max)
		into->max = from->max;
	for (int i = 0; i < FL_HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
}

uint64_t
fl_hist_quantile(const FlHist *h, double fraction)
{
	uint64_t wanted = (uint64_t) (fraction * h->count + 0.5);
	uint64_t seen = 0;

	if (h->count == 0)
		return 0;
	if (wanted < 1)
		wanted = 1;
	for (unsigned i = 0; i < FL_HIST_BUCKETS; i++)
	{
		seen += h->bucket[i];
		if (seen >= wanted)
			return upper_of(i) < h->max ? upper_of(i) : h->max;
	}
	return h->max;
}
