/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  Chunks of the groups' area, blobs made of them, and copying out.
 *
 * Invariants: a chunk is either in the free list or reachable from one owner;
 * a blob has exactly the chunks that its length needs.  Only this folder calls it.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "group_internal.h"

_Static_assert(sizeof(FlGroupChunk) == 256, "chunks are 256 bytes");
_Static_assert(offsetof(FlGroupChunk, data) % 8 == 0, "structs in chunks are aligned");
_Static_assert(offsetof(FlGroupArea, chunks) % 8 == 0, "chunks are aligned");
_Static_assert(sizeof(FlGroup) <= FL_GROUP_CHUNK_DATA, "a group fits a chunk");
_Static_assert(sizeof(FlGroupMember) <= FL_GROUP_CHUNK_DATA, "a member fits a chunk");
_Static_assert(sizeof(FlGroupQueued) <= FL_GROUP_CHUNK_DATA, "a request fits a chunk");
_Static_assert(FL_GROUP_AREA_MIN > sizeof(FlGroupArea) + 64 * sizeof(FlGroupChunk), "the least area is of use");

#define BLOB_MAX (INT32_MAX / 2)

void
fl_group_area_init(FlGroupArea *area, size_t size)
{
	size_t nchunks = (size - sizeof(FlGroupArea)) / sizeof(FlGroupChunk);

	memset(area, 0, sizeof(FlGroupArea));
	area->nchunks = nchunks > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t) nchunks;
	area->nfree = area->nchunks;
	/* Chunks are first touched when they are first wanted: an area that is not used costs no memory. */
	area->fresh = 1;
	area->deadline = FL_GROUP_NEVER;
}

/* Streams and roles of another database are nothing here: begin anew. */
void
fl_group_area_use(FlGroupArea *area, size_t size, uint32_t database)
{
	if (area->database == database)
		return;
	fl_group_area_init(area, size);
	area->database = database;
}

size_t
fl_group_request_max(const FlGroupArea *area)
{
	return (size_t) (area->nchunks / 2 - 1) * FL_GROUP_CHUNK_DATA;
}

void
fl_group_area_usage(const FlGroupArea *area, size_t *used, size_t *total)
{
	*used = (size_t) (area->nchunks - area->nfree) * sizeof(FlGroupChunk);
	*total = (size_t) area->nchunks * sizeof(FlGroupChunk);
}

static FlGroupRef
take_chunk(FlGroupArea *area, FlGroupChunkKind kind)
{
	FlGroupRef ref = area->free;
	FlGroupChunk *c;

	if (ref != 0)
		area->free = fl_group_chunk(area, ref)->next;
	else if (area->fresh <= area->nchunks)
		ref = area->fresh++;
	else
		return 0;
	c = fl_group_chunk(area, ref);
	area->nfree--;
	c->next = 0;
	c->kind = kind;
	return ref;
}

FlGroupRef
fl_group_alloc(FlGroupArea *area, FlGroupChunkKind kind)
{
	FlGroupRef ref = take_chunk(area, kind);

	if (ref != 0)
		memset(fl_group_chunk(area, ref)->data, 0, FL_GROUP_CHUNK_DATA);
	return ref;
}

void
fl_group_free(FlGroupArea *area, FlGroupRef ref)
{
	FlGroupChunk *c = fl_group_chunk(area, ref);

	c->kind = FL_GROUP_CHUNK_FREE;
	c->next = area->free;
	area->free = ref;
	area->nfree++;
}

/* ---------- blobs ---------- */

bool
fl_group_blob_alloc(FlGroupArea *area, int32_t len, FlGroupBlob *blob)
{
	uint32_t n = fl_group_blob_chunks(len);

	blob->first = 0;
	blob->len = len < 0 ? -1 : len;
	if (len > BLOB_MAX || n > area->nfree)
	{
		blob->len = -1;
		return false;
	}
	while (n-- > 0)
	{
		FlGroupRef ref = take_chunk(area, FL_GROUP_CHUNK_BLOB);

		fl_group_chunk(area, ref)->next = blob->first;
		blob->first = ref;
	}
	return true;
}

void
fl_group_blob_free(FlGroupArea *area, FlGroupBlob *blob)
{
	FlGroupRef ref = blob->first;

	while (ref != 0)
	{
		FlGroupRef next = fl_group_chunk(area, ref)->next;

		fl_group_free(area, ref);
		ref = next;
	}
	blob->first = 0;
	blob->len = -1;
}

bool
fl_group_blob_make(FlGroupArea *area, FlKafkaBytes from, FlGroupBlob *blob)
{
	FlGroupPlace p;

	if (!fl_group_blob_alloc(area, from.len, blob))
		return false;
	p = fl_group_blob_begin(area, blob);
	if (from.len > 0)
		fl_group_write(&p, from.data, from.len);
	return true;
}

FlGroupPlace
fl_group_blob_begin(FlGroupArea *area, const FlGroupBlob *blob)
{
	FlGroupPlace p = {area, blob->first, 0, blob->len > 0 ? blob->len : 0};

	return p;
}

/* The next piece that lies in one chunk, at most `wanted` bytes; 0 at the end. */
static int32_t
next_piece(FlGroupPlace *p, int32_t wanted, uint8_t **at)
{
	int32_t n = FL_GROUP_CHUNK_DATA - p->at;

	if (p->chunk == 0 || wanted <= 0 || p->left <= 0)
		return 0;
	if (n == 0)
	{
		p->chunk = fl_group_chunk(p->area, p->chunk)->next;
		p->at = 0;
		return next_piece(p, wanted, at);
	}
	if (n > wanted)
		n = wanted;
	if (n > p->left)
		n = p->left;
	*at = fl_group_chunk(p->area, p->chunk)->data + p->at;
	p->at += n;
	p->left -= n;
	return n;
}

void
fl_group_write(FlGroupPlace *p, const void *from, int32_t len)
{
	const uint8_t *bytes = from;
	uint8_t *at;
	int32_t n;

	while ((n = next_piece(p, len, &at)) > 0)
	{
		memcpy(at, bytes, (size_t) n);
		bytes += n;
		len -= n;
	}
}

void
fl_group_read(FlGroupPlace *p, void *to, int32_t len)
{
	uint8_t *bytes = to;
	uint8_t *at;
	int32_t n;

	while ((n = next_piece(p, len, &at)) > 0)
	{
		if (bytes != NULL)
		{
			memcpy(bytes, at, (size_t) n);
			bytes += n;
		}
		len -= n;
	}
}

bool
fl_group_read_is(FlGroupPlace *p, const uint8_t *bytes, int32_t len)
{
	bool same = true;
	uint8_t *at;
	int32_t n;

	while ((n = next_piece(p, len, &at)) > 0)
	{
		if (memcmp(at, bytes, (size_t) n) != 0)
			same = false;
		bytes += n;
		len -= n;
	}
	return same && len == 0;
}

int32_t
fl_group_read_int(FlGroupPlace *p)
{
	int32_t value = 0;

	fl_group_read(p, &value, sizeof(value));
	return value;
}

void
fl_group_write_int(FlGroupPlace *p, int32_t value)
{
	fl_group_write(p, &value, sizeof(value));
}

bool
fl_group_blob_is(FlGroupArea *area, const FlGroupBlob *blob, FlKafkaBytes bytes)
{
	FlGroupPlace p = fl_group_blob_begin(area, blob);

	return blob->len == bytes.len && (bytes.len <= 0 || fl_group_read_is(&p, bytes.data, bytes.len));
}

/* ---------- copying out ---------- */

void *
fl_group_out_alloc(FlGroupOut *out, size_t size)
{
	size_t at = (out->need + 7) & ~(size_t) 7;

	out->need = at + size;
	return out->need <= out->room ? out->data + at : NULL;
}

FlKafkaBytes
fl_group_place_out(FlGroupPlace *p, int32_t len, FlGroupOut *out)
{
	uint8_t *to = fl_group_out_alloc(out, len > 0 ? (size_t) len : 1);

	fl_group_read(p, to, len);
	return fl_kafka_bytes(to, to != NULL ? len : 0);
}

FlKafkaBytes
fl_group_blob_out(FlGroupArea *area, const FlGroupBlob *blob, FlGroupOut *out)
{
	FlGroupPlace p = fl_group_blob_begin(area, blob);

	if (blob->len < 0)
		return fl_kafka_bytes(NULL, -1);
	return fl_group_place_out(&p, blob->len, out);
}
