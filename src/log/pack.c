/*-------------------------------------------------------------------------
 *
 * pack.c
 *		The short form of a small batch in WAL (log_pack.h): encode, decode and
 *		restore, side by side.
 *
 * What is left out is what follows from the rest: lengths from the length of the
 * WAL record, xmin from its transaction, magic and version from the release (WAL
 * is not read across major versions), the head's CRC from its bytes.  Times are
 * differences from the append time, which most often they equal.  Kafka's CRC is
 * kept, so that a batch is restored as it was even where it is damaged.
 *
 * Called by append.c (encode), wal.c and decode.c (decode, restore).  No server
 * code: it must not ereport.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/log_pack.h"

#include <string.h>

#include "fleetlog/cursor.h"

/* Milliseconds from 1970 (Kafka's times) to 2000 (ours). */
#define EPOCH_DIFFERENCE_MS	INT64_C(946684800000)

/* How the times of a batch are written: a byte of two bits for each. */
enum
{
	TIME_NONE = 0,				/* no time */
	TIME_APPEND = 1,			/* that of the append */
	TIME_BASE = 2,				/* the base timestamp */
	TIME_GIVEN = 3				/* a difference from the append time follows */
};

/* Positions of the two bits. */
enum
{
	SHIFT_BASE = 0,
	SHIFT_MAX = 2,
	SHIFT_MIN_CREATED = 4,
	SHIFT_MAX_CREATED = 6
};

static int64_t
append_ms(int64_t append_ts)
{
	return append_ts / 1000 + EPOCH_DIFFERENCE_MS;
}

static int64_t
wrapping_sub(int64_t a, int64_t b)
{
	return (int64_t) ((uint64_t) a - (uint64_t) b);
}

static int
time_kind(int64_t t, int64_t none, int64_t append, int64_t base)
{
	if (t == none)
		return TIME_NONE;
	if (t == append)
		return TIME_APPEND;
	if (t == base)
		return TIME_BASE;
	return TIME_GIVEN;
}

static uint8_t *
put_times(uint8_t *q, const FlPacked *p)
{
	const int64_t times[4] = {
		p->info.base_timestamp, p->info.max_timestamp, p->head.min_created, p->head.max_created
	};
	const int64_t nones[4] = {FL_NO_TIMESTAMP, FL_NO_TIMESTAMP, INT64_MIN, INT64_MIN};
	int64_t		append = append_ms(p->head.append_ts);
	uint8_t    *kinds = q++;

	*kinds = 0;
	for (int i = 0; i < 4; i++)
	{
		int			kind = time_kind(times[i], nones[i], append, p->info.base_timestamp);

		/* The base cannot be told by itself. */
		if (i == 0 && kind == TIME_BASE)
			kind = TIME_GIVEN;
		*kinds |= (uint8_t) (kind << (2 * i));
		if (kind == TIME_GIVEN)
			q = fl_put_varlong(q, wrapping_sub(append, times[i]));
	}
	return q;
}

static int64_t
get_time(FlReader *r, int kind, int64_t none, int64_t append, int64_t base)
{
	switch (kind)
	{
		case TIME_NONE:
			return none;
		case TIME_APPEND:
			return append;
		case TIME_BASE:
			return base;
	}
	return wrapping_sub(append, fl_read_varlong(r));
}

static void
get_times(FlReader *r, FlPacked *p)
{
	uint8_t		kinds = fl_read_u8(r);
	int64_t		append = append_ms(p->head.append_ts);
	int64_t		base;

	base = get_time(r, (kinds >> SHIFT_BASE) & 3, FL_NO_TIMESTAMP, append, 0);
	p->info.base_timestamp = base;
	p->info.max_timestamp = get_time(r, (kinds >> SHIFT_MAX) & 3, FL_NO_TIMESTAMP, append, base);
	p->head.min_created = get_time(r, (kinds >> SHIFT_MIN_CREATED) & 3, INT64_MIN, append, base);
	p->head.max_created = get_time(r, (kinds >> SHIFT_MAX_CREATED) & 3, INT64_MIN, append, base);
}

size_t
fl_pack_encode(uint8_t *out, const FlPacked *p)
{
	uint8_t    *q = out;
	uint8_t    *flags = q++;
	const FlBatchInfo *info = &p->info;

	*flags = p->flags & (FL_PACK_INIT_PAGE | FL_PACK_NO_DECODE);
	q = fl_put_varlong(q, p->shard);
	q = fl_put_varint(q, p->page_off);
	q = fl_put_varlong(q, p->head.cmin);
	q = fl_put_varint(q, p->head.first_item);
	fl_put_le64(q, (uint64_t) p->head.append_ts);
	q += 8;
	if (p->max_ts != p->head.append_ts)
	{
		*flags |= FL_PACK_MAX_TS;
		fl_put_le64(q, (uint64_t) p->max_ts);
		q += 8;
	}
	q = fl_put_varlong(q, info->base_offset);
	q = fl_put_varint(q, info->leader_epoch);
	q = fl_put_varint(q, info->record_count);
	fl_put_le16(q, info->attributes);
	fl_put_le32(q + 2, info->crc);
	q = put_times(q + 6, p);
	if (info->producer_id != FL_NO_PRODUCER_ID || info->producer_epoch != FL_NO_PRODUCER_EPOCH ||
		info->base_sequence != FL_NO_SEQUENCE)
	{
		*flags |= FL_PACK_PRODUCER;
		fl_put_le64(q, (uint64_t) info->producer_id);
		fl_put_le16(q + 8, (uint16_t) info->producer_epoch);
		fl_put_le32(q + 10, (uint32_t) info->base_sequence);
		q += 14;
	}
	if (p->head.flags & FL_BATCH_FOREIGN)
	{
		*flags |= FL_PACK_FOREIGN;
		q = fl_put_varint(q, p->head.sender_len);
	}
	return (size_t) (q - out);
}

/* A varint of ours that must lie in 0 .. max. */
static uint32_t
read_bounded(FlReader *r, uint32_t max)
{
	int64_t		v = fl_read_varlong(r);

	if (v < 0 || v > max)
		r->failed = true;
	return (uint32_t) v;
}

static void
read_producer(FlReader *r, FlPacked *p)
{
	p->info.producer_id = FL_NO_PRODUCER_ID;
	p->info.producer_epoch = FL_NO_PRODUCER_EPOCH;
	p->info.base_sequence = FL_NO_SEQUENCE;
	if (p->flags & FL_PACK_PRODUCER)
	{
		p->info.producer_id = (int64_t) fl_read_le64(r);
		p->info.producer_epoch = (int16_t) fl_read_le16(r);
		p->info.base_sequence = (int32_t) fl_read_le32(r);
	}
}

FlResult
fl_pack_decode(const uint8_t *data, size_t len, uint32_t xmin, FlPacked *p)
{
	FlReader	r;
	FlBatchInfo *info = &p->info;

	memset(p, 0, sizeof(*p));
	if (len > FL_PAGE_SIZE)
		return FL_MALFORMED;
	fl_reader_init(&r, data, len);
	p->flags = fl_read_u8(&r);
	p->shard = read_bounded(&r, UINT32_MAX);
	p->page_off = (uint16_t) read_bounded(&r, FL_PAGE_DATA_END);
	p->head.cmin = read_bounded(&r, UINT32_MAX);
	p->head.first_item = (uint16_t) read_bounded(&r, FL_ITEMS_PER_PAGE);
	p->head.append_ts = (int64_t) fl_read_le64(&r);
	p->max_ts = p->flags & FL_PACK_MAX_TS ? (int64_t) fl_read_le64(&r) : p->head.append_ts;
	info->base_offset = fl_read_varlong(&r);
	info->leader_epoch = fl_read_varint(&r);
	info->record_count = fl_read_varint(&r);
	info->attributes = fl_read_le16(&r);
	info->crc = fl_read_le32(&r);
	get_times(&r, p);
	read_producer(&r, p);
	if (p->flags & FL_PACK_FOREIGN)
		p->head.sender_len = (uint16_t) read_bounded(&r, FL_PAGE_SIZE);
	p->sender = fl_read_bytes(&r, p->head.sender_len);
	if (r.failed || info->record_count < 1)
		return FL_MALFORMED;
	p->records = r.pos;
	p->records_len = fl_reader_left(&r);

	p->head.xmin = xmin;
	p->head.version = FL_BATCH_VERSION;
	p->head.flags = p->flags & FL_PACK_FOREIGN ? FL_BATCH_FOREIGN : 0;
	info->size = FL_BATCH_HEADER_SIZE + p->records_len;
	info->last_offset_delta = info->record_count - 1;
	info->codec = (FlCodec) (info->attributes & FL_BATCH_CODEC_MASK);
	p->head.length = (uint32_t) (FL_HEAD_SIZE + p->head.sender_len + info->size);
	if (p->page_off < FL_PAGE_HEADER_SIZE || p->head.length > (uint32_t) FL_PAGE_DATA_END - p->page_off)
		return FL_MALFORMED;
	return FL_OK;
}

void
fl_pack_restore(const FlPacked *p, uint8_t *out)
{
	FlBatchHead head = p->head;
	uint8_t    *body = out + FL_HEAD_SIZE + head.sender_len;

	if (head.sender_len > 0)
		memcpy(out + FL_HEAD_SIZE, p->sender, head.sender_len);
	fl_batch_encode_header(body, &p->info);
	if (p->records_len > 0)
		memcpy(body + FL_BATCH_HEADER_SIZE, p->records, p->records_len);
	/* The CRC is over the encoded bytes. */
	fl_head_encode(out, &head);
	head.crc = fl_head_crc(out, head.sender_len);
	fl_head_encode(out, &head);
}
