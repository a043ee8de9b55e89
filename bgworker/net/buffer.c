/*
 * buffer.c
 *		The worker's pool of buffers.
 *
 * A connection holds a buffer only while bytes are pending on it, so that
 * fifty thousand idle connections hold none.  Freed buffers are kept per size
 * up to a limit; what is beyond goes back to the memory context.
 *
 * A chain is buffers one behind the other, for output that is large or not ready
 * yet.  It starts small and doubles, so that thousands of chains with a few bytes
 * each stay small.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "net_private.h"

void
fl_net_pool_init(FlNetPool *pool, MemoryContext context)
{
	memset(pool, 0, sizeof(*pool));
	pool->context = context;
	pool->limit = SIZE_MAX;
}

static int
bits_of(Size room)
{
	int bits = room <= ((Size) 1 << FL_NET_MIN_BITS) ? FL_NET_MIN_BITS : pg_leftmost_one_pos64(room - 1) + 1;

	if (bits > FL_NET_MAX_BITS)
		elog(ERROR, "fleetlog: buffer of %zu bytes asked for", room);
	return bits;
}

/* A buffer with room for at least that many bytes. */
FlNetBuf *
fl_net_buf_get(FlNetPool *pool, Size room)
{
	int bits = bits_of(room);
	FlNetBuf *buf = pool->free[bits];

	if (buf != NULL)
	{
		pool->free[bits] = buf->next;
		pool->free_bytes -= buf->cap;
	}
	else
	{
		/*
		 * The header takes its bytes from the power of two's successor; huge
		 * because a client may be allowed packets of 256 MB.
		 */
		buf = MemoryContextAllocHuge(pool->context, offsetof(FlNetBuf, data) + ((Size) 1 << bits));
		buf->cap = (uint32) 1 << bits;
	}
	buf->next = NULL;
	buf->start = buf->end = 0;
	pool->used_bytes += buf->cap;
	return buf;
}

void
fl_net_buf_put(FlNetPool *pool, FlNetBuf *buf)
{
	int bits = pg_leftmost_one_pos32(buf->cap);

	pool->used_bytes -= buf->cap;
	if (pool->free_bytes + buf->cap > FL_NET_POOL_KEEP)
	{
		pfree(buf);
		return;
	}
	buf->next = pool->free[bits];
	pool->free[bits] = buf;
	pool->free_bytes += buf->cap;
}

void
fl_net_chain_add(FlNetLoop *loop, FlNetChain *chain, const void *data, Size len)
{
	const uint8 *from = data;

	while (len > 0)
	{
		FlNetBuf *tail = chain->tail;
		Size n;

		if (tail == NULL || tail->end == tail->cap)
		{
			tail = fl_net_buf_get(&loop->pool, Min(FL_NET_OUT_MAX, chain->tail == NULL ? len : (Size) chain->tail->cap * 2));
			if (chain->tail != NULL)
				chain->tail->next = tail;
			else
				chain->head = tail;
			chain->tail = tail;
		}
		n = Min(tail->cap - tail->end, len);
		memcpy(tail->data + tail->end, from, n);
		tail->end += (uint32) n;
		from += n;
		len -= n;
	}
}

void
fl_net_chain_free(FlNetLoop *loop, FlNetChain *chain)
{
	while (chain->head != NULL)
	{
		FlNetBuf *buf = chain->head;

		chain->head = buf->next;
		fl_net_buf_put(&loop->pool, buf);
	}
	chain->tail = NULL;
}
