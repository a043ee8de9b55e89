/*-------------------------------------------------------------------------
 *
 * cursor.h
 *	  Bounds-checked byte cursors: FlReader over foreign bytes, FlBuf for
 *	  bytes that we build.
 *
 * Both have sticky failure: after the first read past the end, or the first
 * write past the limit, every further operation is a no-op that yields zero,
 * so that a codec is written as a straight line and checks `failed` once, at
 * the end.  A reader never moves beyond `end`, whatever it is asked for.
 *
 * Varints are Kafka's: zigzag, little-endian groups of seven bits.  MQTT's
 * variable byte integer is another thing and lives with the MQTT codec.
 *
 * Everything here is inline because it is the inner loop of the scan and of
 * both protocol decoders.  Only growing a buffer is out of line (buf.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_CURSOR_H
#define FLEETLOG_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longest encodings of a 32-bit and a 64-bit varint, in bytes. */
#define FL_VARINT_MAX  5
#define FL_VARLONG_MAX 10

/* ---------- fixed-width integers at a pointer, no bounds ---------- */

static inline uint16_t
fl_get_le16(const uint8_t *p)
{
	return (uint16_t) (p[0] | (uint16_t) (p[1] << 8));
}

static inline uint32_t
fl_get_le32(const uint8_t *p)
{
	return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

static inline uint64_t
fl_get_le64(const uint8_t *p)
{
	return (uint64_t) fl_get_le32(p) | (uint64_t) fl_get_le32(p + 4) << 32;
}

static inline uint16_t
fl_get_be16(const uint8_t *p)
{
	return (uint16_t) ((uint16_t) (p[0] << 8) | p[1]);
}

static inline uint32_t
fl_get_be32(const uint8_t *p)
{
	return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | (uint32_t) p[3];
}

static inline uint64_t
fl_get_be64(const uint8_t *p)
{
	return (uint64_t) fl_get_be32(p) << 32 | (uint64_t) fl_get_be32(p + 4);
}

static inline void
fl_put_le16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t) v;
	p[1] = (uint8_t) (v >> 8);
}

static inline void
fl_put_le32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t) v;
	p[1] = (uint8_t) (v >> 8);
	p[2] = (uint8_t) (v >> 16);
	p[3] = (uint8_t) (v >> 24);
}

static inline void
fl_put_le64(uint8_t *p, uint64_t v)
{
	fl_put_le32(p, (uint32_t) v);
	fl_put_le32(p + 4, (uint32_t) (v >> 32));
}

static inline void
fl_put_be16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t) (v >> 8);
	p[1] = (uint8_t) v;
}

static inline void
fl_put_be32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t) (v >> 24);
	p[1] = (uint8_t) (v >> 16);
	p[2] = (uint8_t) (v >> 8);
	p[3] = (uint8_t) v;
}

static inline void
fl_put_be64(uint8_t *p, uint64_t v)
{
	fl_put_be32(p, (uint32_t) (v >> 32));
	fl_put_be32(p + 4, (uint32_t) v);
}

/* ---------- zigzag and varints at a pointer ---------- */

static inline uint32_t
fl_zigzag32(int32_t v)
{
	return ((uint32_t) v << 1) ^ (v < 0 ? UINT32_MAX : 0);
}

static inline int32_t
fl_unzigzag32(uint32_t u)
{
	return (int32_t) ((u >> 1) ^ (0 - (u & 1)));
}

static inline uint64_t
fl_zigzag64(int64_t v)
{
	return ((uint64_t) v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static inline int64_t
fl_unzigzag64(uint64_t u)
{
	return (int64_t) ((u >> 1) ^ (0 - (u & 1)));
}

/* Bytes that fl_put_varlong (and, for a 32-bit value, fl_write_varint) uses. */
static inline size_t
fl_varlong_size(int64_t v)
{
	uint64_t u = fl_zigzag64(v);
	size_t n = 1;

	while (u >= 0x80)
	{
		u >>= 7;
		n++;
	}
	return n;
}

static inline size_t
fl_varint_size(int32_t v)
{
	return fl_varlong_size(v);
}

/* Writes at most FL_VARLONG_MAX bytes at p; returns the byte behind them. */
static inline uint8_t *
fl_put_varlong(uint8_t *p, int64_t v)
{
	uint64_t u = fl_zigzag64(v);

	while (u >= 0x80)
	{
		*p++ = (uint8_t) (u | 0x80);
		u >>= 7;
	}
	*p++ = (uint8_t) u;
	return p;
}

/* The zigzag form of a 32-bit value is the same in both widths. */
static inline uint8_t *
fl_put_varint(uint8_t *p, int32_t v)
{
	return fl_put_varlong(p, v);
}

/* ---------- reader ---------- */

/* Borrows the bytes; copying the struct makes an independent cursor. */
typedef struct FlReader
{
	const uint8_t *pos; /* next byte to read, never beyond end */
	const uint8_t *end; /* first byte that is not ours */
	bool failed;        /* sticky */
} FlReader;

/* data may be NULL when len is 0. */
static inline void
fl_reader_init(FlReader *r, const uint8_t *data, size_t len)
{
	static const uint8_t nothing[1] = {0};

	r->pos = data != NULL ? data : nothing;
	r->end = r->pos + (data != NULL ? len : 0);
	r->failed = false;
}

static inline size_t
fl_reader_left(const FlReader *r)
{
	return (size_t) (r->end - r->pos);
}

/*
 * The next n bytes, borrowed, or NULL (and failed) when there are fewer.
 * For n = 0 the pointer is valid but must not be dereferenced.
 */
static inline const uint8_t *
fl_read_bytes(FlReader *r, size_t n)
{
	const uint8_t *p = r->pos;

	if (r->failed || n > fl_reader_left(r))
	{
		r->failed = true;
		return NULL;
	}
	r->pos += n;
	return p;
}

static inline uint8_t
fl_read_u8(FlReader *r)
{
	const uint8_t *p = fl_read_bytes(r, 1);

	return p != NULL ? *p : 0;
}

#define FL_DEFINE_READ(name, type, size)                                                                               \
	static inline type fl_read_##name(FlReader *r)                                                                     \
	{                                                                                                                  \
		const uint8_t *p = fl_read_bytes(r, size);                                                                     \
                                                                                                                       \
		return p != NULL ? fl_get_##name(p) : 0;                                                                       \
	}

FL_DEFINE_READ(be16, uint16_t, 2)
FL_DEFINE_READ(be32, uint32_t, 4)
FL_DEFINE_READ(be64, uint64_t, 8)
FL_DEFINE_READ(le16, uint16_t, 2)
FL_DEFINE_READ(le32, uint32_t, 4)
FL_DEFINE_READ(le64, uint64_t, 8)
#undef FL_DEFINE_READ

/*
 * Unsigned groups of seven bits, at most `bits` wide.  An encoding that has
 * more groups than `bits` needs, or bits beyond them in the last group, fails;
 * a padded one within that length passes, as it does in Kafka.
 */
static inline uint64_t
fl_read_groups(FlReader *r, int bits)
{
	uint64_t u = 0;

	for (int shift = 0; shift < bits; shift += 7)
	{
		uint8_t b;

		if (r->failed || r->pos == r->end)
			break;
		b = *r->pos++;
		if (bits - shift < 7 && (b >> (bits - shift)) != 0)
			break;
		u |= (uint64_t) (b & 0x7f) << shift;
		if (b < 0x80)
			return u;
	}
	r->failed = true;
	return 0;
}

/* Zigzag varint of 32 bits; the one-byte case is the common one. */
static inline int32_t
fl_read_varint(FlReader *r)
{
	if (!r->failed && r->pos < r->end && *r->pos < 0x80)
		return fl_unzigzag32(*r->pos++);
	return fl_unzigzag32((uint32_t) fl_read_groups(r, 32));
}

/* Zigzag varint of 64 bits. */
static inline int64_t
fl_read_varlong(FlReader *r)
{
	if (!r->failed && r->pos < r->end && *r->pos < 0x80)
		return fl_unzigzag64(*r->pos++);
	return fl_unzigzag64(fl_read_groups(r, 64));
}

/* ---------- growable buffer ---------- */

/*
 * Where memory comes from.  Server code passes functions over its memory
 * contexts (they may longjmp: nothing here holds anything that would leak),
 * everybody else uses fl_malloc_allocator.
 *
 * realloc: old may be NULL (old_size 0); returns NULL when there is no memory,
 * in which case old stays valid.  free: p may be NULL.
 */
typedef struct FlAllocator
{
	void *(*realloc)(void *ctx, void *old, size_t old_size, size_t new_size);
	void (*free)(void *ctx, void *p);
	void *ctx;
} FlAllocator;

extern const FlAllocator fl_malloc_allocator;

/*
 * Owns `data`.  Never holds more than `max` bytes; a write that would exceed
 * it, or that finds no memory, sets `failed` and writes nothing.
 */
typedef struct FlBuf
{
	uint8_t *data;            /* NULL until the first write */
	size_t len;               /* bytes written */
	size_t cap;               /* bytes allocated */
	size_t max;               /* limit of len */
	bool failed;              /* sticky until fl_buf_reset */
	const FlAllocator *alloc; /* borrowed; NULL when data is not ours */
} FlBuf;

/* alloc NULL means fl_malloc_allocator. */
extern void fl_buf_init(FlBuf *b, const FlAllocator *alloc, size_t max);

/* Over memory of the caller's, which is never given back: a limit of size. */
extern void fl_buf_init_fixed(FlBuf *b, void *memory, size_t size);

/*
 * Gives the memory back; the buffer is empty and usable afterwards, except
 * over fixed memory, where it takes nothing more.
 */
extern void fl_buf_free(FlBuf *b);

/* Out-of-line part of fl_buf_reserve; do not call it directly. */
extern bool fl_buf_grow(FlBuf *b, size_t n);

/* Empties the buffer and clears failure; the memory is kept for reuse. */
static inline void
fl_buf_reset(FlBuf *b)
{
	b->len = 0;
	b->failed = false;
}

/*
 * Room for n more bytes: the place where they go, or NULL (and failed).  The
 * caller fills it and then adds what it used to b->len.
 */
static inline uint8_t *
fl_buf_reserve(FlBuf *b, size_t n)
{
	if (b->failed)
		return NULL;
	if ((b->data == NULL || n > b->cap - b->len) && !fl_buf_grow(b, n))
		return NULL;
	return b->data + b->len;
}

/* src may be NULL when n is 0. */
static inline void
fl_write_bytes(FlBuf *b, const void *src, size_t n)
{
	uint8_t *p;

	if (n == 0)
		return;
	p = fl_buf_reserve(b, n);
	if (p != NULL)
	{
		memcpy(p, src, n);
		b->len += n;
	}
}

static inline void
fl_write_u8(FlBuf *b, uint8_t v)
{
	uint8_t *p = fl_buf_reserve(b, 1);

	if (p != NULL)
	{
		*p = v;
		b->len++;
	}
}

#define FL_DEFINE_WRITE(name, type, size)                                                                              \
	static inline void fl_write_##name(FlBuf *b, type v)                                                               \
	{                                                                                                                  \
		uint8_t *p = fl_buf_reserve(b, size);                                                                          \
                                                                                                                       \
		if (p != NULL)                                                                                                 \
		{                                                                                                              \
			fl_put_##name(p, v);                                                                                       \
			b->len += size;                                                                                            \
		}                                                                                                              \
	}

FL_DEFINE_WRITE(be16, uint16_t, 2)
FL_DEFINE_WRITE(be32, uint32_t, 4)
FL_DEFINE_WRITE(be64, uint64_t, 8)
FL_DEFINE_WRITE(le16, uint16_t, 2)
FL_DEFINE_WRITE(le32, uint32_t, 4)
FL_DEFINE_WRITE(le64, uint64_t, 8)
#undef FL_DEFINE_WRITE

static inline void
fl_write_varlong(FlBuf *b, int64_t v)
{
	uint8_t *p = fl_buf_reserve(b, fl_varlong_size(v));

	if (p != NULL)
		b->len += (size_t) (fl_put_varlong(p, v) - p);
}

static inline void
fl_write_varint(FlBuf *b, int32_t v)
{
	fl_write_varlong(b, v);
}

#endif /* FLEETLOG_CURSOR_H */
