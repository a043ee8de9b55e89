/*-------------------------------------------------------------------------
 *
 * read_ring.c
 *		Both ends of the rings between front doors and the reader (read.h).
 *
 * Like ring.c: positions only grow and are taken modulo the size of the ring.  The
 * producer writes bytes, then its position; the consumer reads the position, then
 * the bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#include "fleetlog/read.h"
#include "fleetlog/settings.h"
#include "shmem_internal.h"

#define TO_READER_BYTES (256 * 1024)
#define TO_DOOR_BYTES	(1024 * 1024)

StaticAssertDecl(sizeof(FlReadItem) % 8 == 0, "bodies and items begin at multiples of 8");
StaticAssertDecl((TO_READER_BYTES & (TO_READER_BYTES - 1)) == 0 && (TO_DOOR_BYTES & (TO_DOOR_BYTES - 1)) == 0,
				 "rings are addressed by a mask");

typedef struct ReadRing
{
	pg_atomic_uint64 head;		/* bytes produced */
	pg_atomic_uint64 tail;		/* bytes consumed */
	uint64		next;			/* consumer's own: behind the item that it holds */
} ReadRing;

typedef struct ReadDoor
{
	pg_atomic_uint32 run;
	ReadRing	rings[2];		/* by FlReadWay */
} ReadDoor;

typedef struct ReadShared
{
	pg_atomic_uint32 starts;
	pg_atomic_uint32 reader;	/* 0: there is none */
	ReadDoor	doors[FL_MAX_FRONT_DOORS];
} ReadShared;

static ReadShared *shared = NULL;
static uint8 *memory = NULL;

Size
fl_read_size(void)
{
	return add_size(MAXALIGN(sizeof(ReadShared)), mul_size(fl_workers, TO_READER_BYTES + TO_DOOR_BYTES));
}

void
fl_read_init(void)
{
	bool		found;

	shared = ShmemInitStruct("fleetlog reading", sizeof(ReadShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(*shared));
		pg_atomic_init_u32(&shared->starts, 0);
		pg_atomic_init_u32(&shared->reader, 0);
		for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
		{
			pg_atomic_init_u32(&shared->doors[i].run, 0);
			for (int w = 0; w < 2; w++)
			{
				pg_atomic_init_u64(&shared->doors[i].rings[w].head, 0);
				pg_atomic_init_u64(&shared->doors[i].rings[w].tail, 0);
			}
		}
	}
	memory = ShmemInitStruct("fleetlog read rings", mul_size(fl_workers, TO_READER_BYTES + TO_DOOR_BYTES), &found);
}

/* ---- who is there ------------------------------------------------------------------ */

static ReadRing *
ring_of(FlReadWay way, int door)
{
	return &shared->doors[door].rings[way];
}

/* The consumer throws away what there is. */
static void
empty_ring(ReadRing *ring)
{
	uint64		head = pg_atomic_read_u64(&ring->head);

	ring->next = head;
	pg_atomic_write_u64(&ring->tail, head);
}

uint32
fl_read_door_start(int door)
{
	empty_ring(ring_of(FL_READ_TO_DOOR, door));
	return pg_atomic_add_fetch_u32(&shared->doors[door].run, 1);
}

uint32
fl_read_door_run(int door)
{
	return pg_atomic_read_u32(&shared->doors[door].run);
}

void
fl_read_reader_start(void)
{
	for (int i = 0; i < fl_workers; i++)
		empty_ring(ring_of(FL_READ_TO_READER, i));
	pg_write_barrier();
	pg_atomic_write_u32(&shared->reader, Max(pg_atomic_add_fetch_u32(&shared->starts, 1), 1));
}

void
fl_read_reader_end(void)
{
	pg_atomic_write_u32(&shared->reader, 0);
}

uint32
fl_read_reader(void)
{
	return pg_atomic_read_u32(&shared->reader);
}

/* ---- bytes ------------------------------------------------------------------------- */

static uint32
ring_bytes(FlReadWay way)
{
	return way == FL_READ_TO_READER ? TO_READER_BYTES : TO_DOOR_BYTES;
}

static FlReadItem *
item_at(FlReadWay way, int door, uint64 pos)
{
	uint8	   *base = memory + (Size) door * (TO_READER_BYTES + TO_DOOR_BYTES) +
		(way == FL_READ_TO_READER ? 0 : TO_READER_BYTES);

	return (FlReadItem *) (base + (pos & (ring_bytes(way) - 1)));
}

static uint32
to_the_end(FlReadWay way, uint64 pos)
{
	return ring_bytes(way) - (uint32) (pos & (ring_bytes(way) - 1));
}

uint32
fl_read_max_body(void)
{
	return TO_DOOR_BYTES / 4;
}

bool
fl_read_put(FlReadWay way, int door, FlReadItem *item, const void *body, uint32 body_len)
{
	ReadRing   *ring = ring_of(way, door);
	uint64		head = pg_atomic_read_u64(&ring->head);
	uint64		used = head - pg_atomic_read_u64(&ring->tail);
	Size		size = TYPEALIGN(8, sizeof(FlReadItem) + (Size) body_len);
	uint32		left = to_the_end(way, head);
	uint32		skip = left < size ? left : 0;

	if (used + skip + size > ring_bytes(way))
		return false;
	pg_memory_barrier();		/* do not overwrite what the consumer still reads */
	if (skip >= sizeof(FlReadItem))
	{
		FlReadItem *filler = item_at(way, door, head);

		memset(filler, 0, sizeof(*filler));
		filler->total_len = skip;
		filler->kind = FL_READ_FILLER;
	}
	head += skip;
	item->total_len = (uint32) size;
	item->body_len = body_len;
	memcpy(item_at(way, door, head), item, sizeof(*item));
	if (body_len > 0)
		memcpy(item_at(way, door, head) + 1, body, body_len);
	pg_write_barrier();
	pg_atomic_write_u64(&ring->head, head + size);
	return true;
}

const FlReadItem *
fl_read_next(FlReadWay way, int door)
{
	ReadRing   *ring = ring_of(way, door);
	uint64		head = pg_atomic_read_u64(&ring->head);
	uint64		pos = pg_atomic_read_u64(&ring->tail);

	pg_read_barrier();
	while (pos < head)
	{
		const FlReadItem *item = item_at(way, door, pos);

		if (to_the_end(way, pos) < sizeof(FlReadItem))
		{
			pos += to_the_end(way, pos);
			continue;
		}
		pos += item->total_len;
		ring->next = pos;
		if (item->kind != FL_READ_FILLER)
			return item;
	}
	return NULL;
}

void
fl_read_done(FlReadWay way, int door)
{
	ReadRing   *ring = ring_of(way, door);

	pg_memory_barrier();
	pg_atomic_write_u64(&ring->tail, ring->next);
}

uint64
fl_read_taken(FlReadWay way, int door)
{
	return pg_atomic_read_u64(&ring_of(way, door)->tail);
}

uint64
fl_read_hash(const uint8 *bytes, Size len, uint32 slashes)
{
	return hash_bytes_extended(bytes, (int) len, slashes);
}

/* ---- a record as bytes --------------------------------------------------------------- */

/* Only within this server's life, so the struct itself will do. */
typedef struct PackedRecord
{
	int64		log_offset;
	int64		ts;
	int64		created_ms;
	int32		leader_epoch;
	int32		reserved;
	int32		headers_count;
	int32		lens[6];		/* in the order of parts_of; -1: NULL */
} PackedRecord;

bool
fl_read_pack(const FlLogRecord *rec, uint8 **scratch, Size *scratch_cap, uint32 *len)
{
	const uint8 *const parts[6] = {rec->tenant, rec->device, rec->role, rec->key, rec->payload, rec->headers};
	PackedRecord packed = {
		.log_offset = rec->log_offset,.ts = rec->ts,.created_ms = rec->created_ms,.leader_epoch = rec->leader_epoch,
		.reserved = rec->reserved,.headers_count = rec->headers_count,
		.lens = {rec->tenant_len, rec->device_len, rec->role ? rec->role_len : -1, rec->key_len, rec->payload_len,
		rec->headers ? rec->headers_len : -1}
	};
	Size		size = sizeof(packed);
	uint8	   *p;

	for (int i = 0; i < 6; i++)
		size += (Size) Max(packed.lens[i], 0);
	if (size > fl_read_max_body())
		return false;
	if (size > *scratch_cap)
	{
		*scratch = repalloc(*scratch, size * 2);
		*scratch_cap = size * 2;
	}
	p = *scratch;
	memcpy(p, &packed, sizeof(packed));
	p += sizeof(packed);
	for (int i = 0; i < 6; i++)
		if (packed.lens[i] > 0)
		{
			memcpy(p, parts[i], (Size) packed.lens[i]);
			p += packed.lens[i];
		}
	*len = (uint32) size;
	return true;
}

bool
fl_read_unpack(const FlReadItem *item, FlLogRecord *rec)
{
	PackedRecord packed;
	const uint8 *p = (const uint8 *) fl_read_body(item) + sizeof(packed);
	const uint8 *parts[6];
	Size		left;

	if (item->body_len < sizeof(packed))
		return false;
	memcpy(&packed, fl_read_body(item), sizeof(packed));
	left = item->body_len - sizeof(packed);
	for (int i = 0; i < 6; i++)
	{
		Size		part = (Size) Max(packed.lens[i], 0);

		if (part > left)
			return false;
		parts[i] = packed.lens[i] < 0 ? NULL : p;
		p += part;
		left -= part;
	}
	*rec = (FlLogRecord) {
		.log_offset = packed.log_offset,.ts = packed.ts,.created_ms = packed.created_ms,
		.leader_epoch = packed.leader_epoch,.reserved = packed.reserved,.headers_count = packed.headers_count,
		.tenant = parts[0],.tenant_len = packed.lens[0],.device = parts[1],.device_len = packed.lens[1],
		.role = parts[2],.role_len = packed.lens[2],
		.key = parts[3],.key_len = packed.lens[3],.payload = parts[4],.payload_len = packed.lens[4],
		.headers = parts[5],.headers_len = Max(packed.lens[5], 0)
	};
	return true;
}
