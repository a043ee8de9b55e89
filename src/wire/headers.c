/*-------------------------------------------------------------------------
 *
 * headers.c
 *	  Build and read the header list of a record (both encodings of
 *	  fleetlog/headers.h).
 *
 * The count stands in front of the array but is known only at the end, so the
 * builder leaves one byte for it, enough for 63 headers, and moves the array
 * by a byte in the rare other case.
 *
 * Called by the MQTT and Kafka doors, SQL and the scan.  Reading trusts
 * nothing: the iterator has its own bounds, whatever the record around it
 * claimed.  Must not give names a meaning: who may say `fl.topic` is decided
 * by position (reserved or not), never by name.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/headers.h"

#include <string.h>

#include "fleetlog/utf8.h"

const uint8_t fl_headers_empty[FL_HEADERS_EMPTY_SIZE] = {0, 0};

/* Where the array begins behind the start of a list in the making. */
#define FL_HEADERS_COUNT_AT 1
#define FL_HEADERS_FIRST_AT 2

void
fl_headers_builder_begin(FlHeadersBuilder *b, FlBuf *buf)
{
	b->buf = buf;
	b->start = buf->len;
	b->count = 0;
	b->reserved = 0;
	b->result = FL_OK;
	fl_write_u8(buf, 0); /* reserved, set at the end */
	fl_write_u8(buf, 0); /* count, likewise */
}

static void
fl_headers_builder_put(FlHeadersBuilder *b, const void *name, size_t name_len, const void *value, int64_t value_len)
{
	if (b->result != FL_OK)
		return;
	if (b->count >= FL_HEADERS_MAX_COUNT || name_len > FL_HEADERS_MAX_NAME || value_len > INT32_MAX)
	{
		b->result = FL_TOO_LARGE;
		return;
	}
	if (value_len < -1 || !fl_utf8_valid_text(name, name_len))
	{
		b->result = FL_MALFORMED;
		return;
	}
	fl_write_varint(b->buf, (int32_t) name_len);
	fl_write_bytes(b->buf, name, name_len);
	fl_write_varint(b->buf, (int32_t) value_len);
	if (value_len > 0)
		fl_write_bytes(b->buf, value, (size_t) value_len);
	b->count++;
}

void
fl_headers_builder_add_reserved(FlHeadersBuilder *b, const void *name, size_t name_len, const void *value,
								int64_t value_len)
{
	if (b->result == FL_OK && b->reserved != b->count)
		b->result = FL_MALFORMED;
	if (b->result == FL_OK && b->reserved >= FL_HEADERS_MAX_RESERVED)
		b->result = FL_TOO_LARGE;
	fl_headers_builder_put(b, name, name_len, value, value_len);
	if (b->result == FL_OK)
		b->reserved++;
}

void
fl_headers_builder_add_encoded(FlHeadersBuilder *b, const uint8_t *bytes, size_t len, int count)
{
	if (b->result == FL_OK && b->reserved != b->count)
		b->result = FL_MALFORMED;
	if (b->result == FL_OK && count > FL_HEADERS_MAX_RESERVED - b->reserved)
		b->result = FL_TOO_LARGE;
	if (b->result != FL_OK)
		return;
	fl_write_bytes(b->buf, bytes, len);
	b->count += count;
	b->reserved += count;
}

void
fl_headers_builder_add(FlHeadersBuilder *b, const void *name, size_t name_len, const void *value, int64_t value_len)
{
	fl_headers_builder_put(b, name, name_len, value, value_len);
}

FlResult
fl_headers_builder_end(FlHeadersBuilder *b)
{
	FlBuf *buf = b->buf;
	size_t extra = fl_varint_size(b->count) - 1;

	if (b->result == FL_OK && fl_buf_reserve(buf, extra) == NULL)
		b->result = FL_TOO_LARGE;
	if (b->result != FL_OK)
	{
		if (buf->len > b->start)
			buf->len = b->start;
		return b->result;
	}

	if (extra > 0)
	{
		uint8_t *first = buf->data + b->start + FL_HEADERS_FIRST_AT;

		memmove(first + extra, first, buf->len - b->start - FL_HEADERS_FIRST_AT);
		buf->len += extra;
	}
	buf->data[b->start] = (uint8_t) b->reserved;
	fl_put_varint(buf->data + b->start + FL_HEADERS_COUNT_AT, b->count);
	return FL_OK;
}

void
fl_header_iter_init_kafka(FlHeaderIter *it, uint8_t reserved, const uint8_t *array, size_t len)
{
	FlReader r;
	int32_t count;

	fl_reader_init(&r, array, len);
	count = fl_read_varint(&r);
	fl_header_iter_init_record(it, reserved, r.failed ? -1 : count, r.pos, (size_t) (r.end - r.pos));
}

void
fl_header_iter_init_record(FlHeaderIter *it, int reserved, int32_t count, const uint8_t *array, size_t len)
{
	fl_reader_init(&it->r, array, len);
	it->next = 0;
	it->reserved = reserved;
	it->result = FL_OK;
	if (count < 0)
		it->result = FL_MALFORMED;
	else if (count > FL_HEADERS_MAX_COUNT)
		it->result = FL_TOO_LARGE;
	else if (reserved > FL_HEADERS_MAX_RESERVED || reserved > count)
		it->result = FL_MALFORMED;
	it->count = it->result == FL_OK ? count : 0;
}

void
fl_header_iter_init(FlHeaderIter *it, const uint8_t *headers, size_t len)
{
	if (len == 0)
	{
		fl_header_iter_init_kafka(it, 0, NULL, 0);
		return;
	}
	fl_header_iter_init_kafka(it, headers[0], headers + 1, len - 1);
}

/* A length that must be at least min and fit into what is left. */
static int32_t
fl_header_read_length(FlHeaderIter *it, int32_t min)
{
	int32_t n = fl_read_varint(&it->r);

	if (it->r.failed || n < min || (n > 0 && (size_t) n > fl_reader_left(&it->r)))
		it->result = FL_MALFORMED;
	return n;
}

bool
fl_header_iter_next(FlHeaderIter *it, FlHeader *h)
{
	if (it->result != FL_OK)
		return false;
	if (it->next >= it->count)
	{
		if (fl_reader_left(&it->r) != 0)
			it->result = FL_MALFORMED;
		return false;
	}

	h->name_len = fl_header_read_length(it, 0);
	if (it->result == FL_OK && h->name_len > FL_HEADERS_MAX_NAME)
		it->result = FL_TOO_LARGE;
	if (it->result != FL_OK)
		return false;
	h->name = fl_read_bytes(&it->r, (size_t) h->name_len);

	h->value_len = fl_header_read_length(it, -1);
	if (it->result != FL_OK)
		return false;
	h->value = h->value_len < 0 ? NULL : fl_read_bytes(&it->r, (size_t) h->value_len);

	h->index = it->next++;
	h->is_reserved = h->index < it->reserved;
	return true;
}

/* Runs an iterator to its end, names checked. */
static FlResult
fl_header_iter_validate(FlHeaderIter *it)
{
	FlHeader h;

	while (fl_header_iter_next(it, &h))
	{
		if (!fl_utf8_valid_text(h.name, (size_t) h.name_len))
			return FL_MALFORMED;
	}
	return it->result;
}

FlResult
fl_headers_validate(const uint8_t *headers, size_t len)
{
	FlHeaderIter it;

	fl_header_iter_init(&it, headers, len);
	return fl_header_iter_validate(&it);
}

FlResult
fl_headers_validate_kafka(uint8_t reserved, const uint8_t *array, size_t len)
{
	FlHeaderIter it;

	fl_header_iter_init_kafka(&it, reserved, array, len);
	return fl_header_iter_validate(&it);
}

bool
fl_headers_find_reserved(const uint8_t *headers, size_t len, const char *name, FlHeader *found)
{
	FlHeaderIter it;
	FlHeader h;
	size_t name_len = strlen(name);

	fl_header_iter_init(&it, headers, len);
	while (fl_header_iter_next(&it, &h) && h.is_reserved)
	{
		if ((size_t) h.name_len == name_len && memcmp(h.name, name, name_len) == 0)
		{
			*found = h;
			return true;
		}
	}
	return false;
}
