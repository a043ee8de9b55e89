/*-------------------------------------------------------------------------
 *
 * filter.c
 *		Which keys a watch wants.
 *
 * Asked for every record of a stream, or every row of a state table that changes:
 * keys are looked up by halving.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/compat.h"
#include "filter.h"

static int
bytes_cmp(const uint8 *a, int32 alen, const uint8 *b, int32 blen)
{
	int			c = memcmp(a, b, Min(alen, blen));

	return c != 0 ? c : alen - blen;
}

static int
key_cmp(const void *x, const void *y)
{
	text	   *a = *(text *const *) x;
	text	   *b = *(text *const *) y;

	return bytes_cmp((uint8 *) VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a), (uint8 *) VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));
}

void
fl_watch_filter_add(FlWatchFilter *f, text *key)
{
	if (f->nkeys == f->max_keys)
	{
		f->max_keys = Max(16, f->max_keys * 2);
		f->keys = f->keys ? repalloc(f->keys, sizeof(text *) * f->max_keys) : palloc(sizeof(text *) * f->max_keys);
	}
	f->keys[f->nkeys++] = key;
}

void
fl_watch_filter_sort(FlWatchFilter *f)
{
	if (f->nkeys > 1)
		qsort(f->keys, f->nkeys, sizeof(text *), key_cmp);
}

bool
fl_watch_filter_wants(const FlWatchFilter *f, const uint8 *key, int32 len)
{
	int			low = 0;
	int			high = f->nkeys;

	if (!f->by_keys && f->prefix == NULL)
		return true;
	if (f->prefix && (Size) len >= f->prefix_len && memcmp(key, f->prefix, f->prefix_len) == 0)
		return true;
	while (low < high)
	{
		int			mid = low + (high - low) / 2;
		int			c = bytes_cmp(key, len, (uint8 *) VARDATA_ANY(f->keys[mid]), VARSIZE_ANY_EXHDR(f->keys[mid]));

		if (c == 0)
			return true;
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return false;
}
