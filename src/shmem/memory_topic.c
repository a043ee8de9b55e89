/*-------------------------------------------------------------------------
 *
 * memory_topic.c
 *		The ring of messages that are carried in memory only (memory_topic.h).
 *
 * Positions count bytes from the first message ever; byte p lies at p modulo the
 * size.  A message is a fixed head and its bytes, in multiples of eight, and may
 * wrap around.  Writing moves `tail` over the messages that it is about to
 * overwrite; a reader that finds its position below the tail has missed some.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/shmem.h"

#include "fleetlog/memory_topic.h"
#include "fleetlog/settings.h"
#include "shmem_internal.h"

typedef struct MessageHead
{
	uint64		number;
	TimestampTz ts;
	uint32		size;			/* with this head and up to a multiple of eight */
	uint32		topic_len;
	uint32		payload_len;
	uint32		headers_len;
	uint32		tenant_len;
	uint32		device_len;
	uint32		reserved;
	uint32		unused;
} MessageHead;

StaticAssertDecl(sizeof(MessageHead) % 8 == 0, "a head keeps messages in multiples of eight");

typedef struct MemoryRing
{
	pg_atomic_uint64 head;		/* behind the last message; written under the lock */
	uint64		tail;			/* the oldest one that is whole */
	uint64		next_number;
	pg_atomic_uint32 wanted[FL_MAX_FRONT_DOORS];
} MemoryRing;

static MemoryRing *ring = NULL;
static uint8 *bytes = NULL;

static Size
ring_size(void)
{
	return (Size) fl_memory_topic_kb * 1024;
}

Size
fl_memory_size(void)
{
	return add_size(MAXALIGN(sizeof(MemoryRing)), MAXALIGN(ring_size()));
}

void
fl_memory_init(void)
{
	bool		found;
	bool		found_bytes;

	ring = ShmemInitStruct("fleetlog memory topics", sizeof(MemoryRing), &found);
	/* Not cleared: what nobody uses is never touched. */
	bytes = ShmemInitStruct("fleetlog memory topic ring", ring_size(), &found_bytes);
	if (found)
		return;
	pg_atomic_init_u64(&ring->head, 0);
	ring->tail = 0;
	ring->next_number = 0;
	for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
		pg_atomic_init_u32(&ring->wanted[i], 0);
}

Size
fl_memory_message_max(void)
{
	return ring_size() / 4;
}

/* ---- bytes that may wrap around ---- */

static void
put(uint64 *pos, const void *from, Size len)
{
	Size		at = (Size) (*pos % ring_size());
	Size		first = Min(len, ring_size() - at);

	if (len == 0)
		return;
	memcpy(bytes + at, from, first);
	if (len > first)
		memcpy(bytes, (const uint8 *) from + first, len - first);
	*pos += len;
}

static void
get(uint64 pos, void *to, Size len)
{
	Size		at = (Size) (pos % ring_size());
	Size		first = Min(len, ring_size() - at);

	memcpy(to, bytes + at, first);
	if (len > first)
		memcpy((uint8 *) to + first, bytes, len - first);
}

/* ---- writing ---- */

static void
make_room(uint64 end)
{
	while (end - ring->tail > ring_size())
	{
		MessageHead oldest;

		get(ring->tail, &oldest, sizeof(oldest));
		ring->tail += oldest.size;
	}
}

bool
fl_memory_publish(FlMemoryMessage *message)
{
	MessageHead head = {0};
	Size		size = (Size) message->topic_len + message->payload_len + message->headers_len + message->tenant_len +
		message->device_len;
	uint64		pos;

	size = sizeof(head) + TYPEALIGN(8, size);
	if (size > fl_memory_message_max())
		return false;
	head.size = (uint32) size;
	head.topic_len = message->topic_len;
	head.payload_len = message->payload_len;
	head.headers_len = message->headers_len;
	head.tenant_len = message->tenant_len;
	head.device_len = message->device_len;
	head.reserved = message->reserved;
	LWLockAcquire(fl_core->memory_lock, LW_EXCLUSIVE);
	/* Under the lock, so that times never step back from one message to the next. */
	head.ts = message->ts = fl_clock_tick();
	head.number = ring->next_number++;
	pos = pg_atomic_read_u64(&ring->head);
	make_room(pos + size);
	put(&pos, &head, sizeof(head));
	put(&pos, message->topic, message->topic_len);
	put(&pos, message->payload, message->payload_len);
	put(&pos, message->headers, message->headers_len);
	put(&pos, message->tenant, message->tenant_len);
	put(&pos, message->device, message->device_len);
	pg_atomic_write_u64(&ring->head, TYPEALIGN64(8, pos));
	LWLockRelease(fl_core->memory_lock);
	return true;
}

/* ---- reading ---- */

void
fl_memory_start(FlMemoryCursor *at)
{
	LWLockAcquire(fl_core->memory_lock, LW_SHARED);
	at->pos = pg_atomic_read_u64(&ring->head);
	at->number = ring->next_number;
	LWLockRelease(fl_core->memory_lock);
}

bool
fl_memory_has_more(const FlMemoryCursor *at)
{
	return pg_atomic_read_u64(&ring->head) != at->pos;
}

Size
fl_memory_read(FlMemoryCursor *at, uint8 *room, uint64 *lost)
{
	Size		len = 0;
	uint64		head;

	*lost = 0;
	LWLockAcquire(fl_core->memory_lock, LW_SHARED);
	head = pg_atomic_read_u64(&ring->head);
	if (at->pos < ring->tail)
	{
		MessageHead oldest;

		at->pos = ring->tail;
		get(at->pos, &oldest, sizeof(oldest));
		*lost = oldest.number - at->number;
		at->number = oldest.number;
	}
	while (at->pos < head)
	{
		MessageHead next;

		get(at->pos, &next, sizeof(next));
		if (len + next.size > fl_memory_message_max())
			break;
		get(at->pos, room + len, next.size);
		len += next.size;
		at->pos += next.size;
		at->number = next.number + 1;
	}
	LWLockRelease(fl_core->memory_lock);
	return len;
}

void
fl_memory_decode(const uint8 *room, Size *offset, FlMemoryMessage *message)
{
	MessageHead head;
	const uint8 *p = room + *offset + sizeof(head);

	memcpy(&head, room + *offset, sizeof(head));
	message->ts = head.ts;
	message->topic = p;
	message->topic_len = head.topic_len;
	message->payload = p += head.topic_len;
	message->payload_len = head.payload_len;
	message->headers = p += head.payload_len;
	message->headers_len = head.headers_len;
	message->tenant = p += head.headers_len;
	message->tenant_len = head.tenant_len;
	message->device = p + head.tenant_len;
	message->device_len = head.device_len;
	message->reserved = head.reserved;
	*offset += head.size;
}

/* ---- who reads ---- */

void
fl_memory_want(int door, bool wanted)
{
	pg_atomic_write_u32(&ring->wanted[door], wanted ? 1 : 0);
}

void
fl_memory_wake_others(int door)
{
	for (int i = 0; i < fl_workers; i++)
		if (i != door && pg_atomic_read_u32(&ring->wanted[i]) != 0)
			fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
}
