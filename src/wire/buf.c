/*-------------------------------------------------------------------------
 *
 * buf.c
 *	  The growable byte buffer of cursor.h.
 *
 * A buffer doubles, so that n bytes written one at a time cost O(n), but never
 * beyond its limit: a peer can make us hold at most what the caller allowed.
 * The allocator may leave by longjmp (the server's does); nothing is changed
 * before it returns, so the buffer is then as it was.
 *
 * Called by every encoder.  Must not free or shrink behind the caller's back:
 * pointers into the buffer stay good until the next write.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/cursor.h"

#include <stdlib.h>

/* First allocation; small since most buffers hold one packet or record. */
#define FL_BUF_FIRST_SIZE 256

static void *
fl_malloc_realloc(void *ctx, void *old, size_t old_size, size_t new_size)
{
	(void) ctx;
	(void) old_size;
	return realloc(old, new_size);
}

static void
fl_malloc_free(void *ctx, void *p)
{
	(void) ctx;
	free(p);
}

const FlAllocator fl_malloc_allocator = {fl_malloc_realloc, fl_malloc_free, NULL};

void
fl_buf_init(FlBuf *b, const FlAllocator *alloc, size_t max)
{
	b->data = NULL;
	b->len = 0;
	b->cap = 0;
	b->max = max;
	b->failed = false;
	b->alloc = alloc != NULL ? alloc : &fl_malloc_allocator;
}

void
fl_buf_init_fixed(FlBuf *b, void *memory, size_t size)
{
	b->data = memory;
	b->len = 0;
	b->cap = size;
	b->max = size;
	b->failed = false;
	b->alloc = NULL;
}

void
fl_buf_free(FlBuf *b)
{
	if (b->alloc == NULL)
		b->max = 0;
	else if (b->data != NULL)
		b->alloc->free(b->alloc->ctx, b->data);
	b->data = NULL;
	b->cap = 0;
	fl_buf_reset(b);
}

bool
fl_buf_grow(FlBuf *b, size_t n)
{
	size_t cap;
	void *data;

	if (b->failed || b->alloc == NULL || b->len > b->max || n > b->max - b->len)
	{
		b->failed = true;
		return false;
	}

	cap = b->cap > b->max / 2 ? b->max : b->cap * 2;
	if (cap < FL_BUF_FIRST_SIZE)
		cap = b->max < FL_BUF_FIRST_SIZE ? b->max : FL_BUF_FIRST_SIZE;
	if (cap < b->len + n)
		cap = b->len + n;

	/* A limit of zero still yields a pointer, to a byte that is nobody's. */
	data = b->alloc->realloc(b->alloc->ctx, b->data, b->cap, cap > 0 ? cap : 1);
	if (data == NULL)
	{
		b->failed = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}
