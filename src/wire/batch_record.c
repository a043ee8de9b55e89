/*-------------------------------------------------------------------------
 *
 * batch_record.c
 *	  One record of a batch: read and write.
 *
 * The iterator is the inner loop of every scan, so it copies its cursor into
 * locals, takes one-byte varints without a call, and leaves the inside of the
 * header array alone; each length is still compared with what is left of the
 * record, and the record with what is left of the section.
 *
 * Called by the scan, the feed, decoding, the builder and the split.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/record_batch.h"

void
fl_record_iter_init(FlRecordIter *it, const FlBatchInfo *info, const uint8_t *records, size_t len)
{
	fl_reader_init(&it->r, records, len);
	it->base_timestamp = info->base_timestamp;
	it->count = info->record_count;
	it->next = 0;
	it->result = FL_OK;
}

/* A varint length (-1 = NULL) and that many bytes. */
static inline const uint8_t *
fl_record_read_field(FlReader *r, int32_t *len)
{
	*len = fl_read_varint(r);
	if (*len >= 0)
		return fl_read_bytes(r, (size_t) *len);
	if (*len != -1)
		r->failed = true;
	return NULL;
}

bool
fl_record_iter_next(FlRecordIter *it, FlRecord *rec)
{
	FlReader outer = it->r;
	FlReader r;
	int32_t len;
	int64_t timestamp_delta;
	const uint8_t *bytes;

	if (it->result != FL_OK)
		return false;
	if (it->next >= it->count)
	{
		if (fl_reader_left(&outer) != 0)
			it->result = FL_MALFORMED;
		return false;
	}

	rec->raw = outer.pos;
	len = fl_read_varint(&outer);
	bytes = len < 0 ? NULL : fl_read_bytes(&outer, (size_t) len);
	if (bytes == NULL)
	{
		it->result = FL_MALFORMED;
		return false;
	}
	rec->raw_len = (uint32_t) (outer.pos - rec->raw);

	fl_reader_init(&r, bytes, (size_t) len);
	rec->attributes = fl_read_u8(&r);
	timestamp_delta = fl_read_varlong(&r);
	rec->offset_delta = fl_read_varint(&r);
	rec->key = fl_record_read_field(&r, &rec->key_len);
	rec->value = fl_record_read_field(&r, &rec->value_len);
	rec->headers = r.pos;
	rec->headers_len = (uint32_t) fl_reader_left(&r);
	if (r.failed || rec->headers_len == 0 || rec->offset_delta != it->next)
	{
		it->result = FL_MALFORMED;
		return false;
	}

	/* A foreign base and delta may overflow; wrapping is what Java does. */
	rec->timestamp_ms = (int64_t) ((uint64_t) it->base_timestamp + (uint64_t) timestamp_delta);
	it->r = outer;
	it->next++;
	return true;
}

/* Size of a record behind its own length varint, or 0 when it is too large. */
static size_t
fl_record_body_size(int32_t offset_delta, int64_t timestamp_delta, int64_t key_len, int64_t value_len,
					size_t headers_len)
{
	uint64_t size;

	if (key_len < -1 || key_len > INT32_MAX || value_len < -1 || value_len > INT32_MAX || headers_len > INT32_MAX)
		return 0;
	size = 1 + fl_varlong_size(timestamp_delta) + fl_varint_size(offset_delta) + fl_varlong_size(key_len) +
		   fl_varlong_size(value_len);
	size += key_len > 0 ? (uint64_t) key_len : 0;
	size += value_len > 0 ? (uint64_t) value_len : 0;
	size += headers_len > 0 ? headers_len : 1;
	return size > INT32_MAX ? 0 : (size_t) size;
}

size_t
fl_batch_record_size(int32_t offset_delta, int64_t timestamp_delta, int64_t key_len, int64_t value_len,
					 size_t headers_len)
{
	size_t body = fl_record_body_size(offset_delta, timestamp_delta, key_len, value_len, headers_len);

	return body == 0 ? SIZE_MAX : body + fl_varlong_size((int64_t) body);
}

/* A nullable field: length varint and bytes. */
static uint8_t *
fl_record_put_field(uint8_t *p, const uint8_t *data, int64_t len)
{
	p = fl_put_varlong(p, len);
	if (len > 0)
	{
		memcpy(p, data, (size_t) len);
		p += len;
	}
	return p;
}

FlResult
fl_batch_encode_record(FlBuf *out, int32_t offset_delta, int64_t timestamp_delta, uint8_t reserved_count,
					   const uint8_t *key, int64_t key_len, const uint8_t *value, int64_t value_len,
					   const uint8_t *headers, size_t headers_len)
{
	size_t body;
	size_t total;
	uint8_t *p;

	if (headers == NULL)
		headers_len = 0;
	body = fl_record_body_size(offset_delta, timestamp_delta, key_len, value_len, headers_len);
	if (body == 0)
		return FL_TOO_LARGE;
	total = body + fl_varlong_size((int64_t) body);
	if (out->failed || total > out->max - out->len)
		return FL_TOO_LARGE;
	p = fl_buf_reserve(out, total);
	if (p == NULL)
	{
		out->failed = false; /* no memory: the caller may still finish */
		return FL_TOO_LARGE;
	}

	p = fl_put_varlong(p, (int64_t) body);
	*p++ = reserved_count;
	p = fl_put_varlong(p, timestamp_delta);
	p = fl_put_varint(p, offset_delta);
	p = fl_record_put_field(p, key, key_len);
	p = fl_record_put_field(p, value, value_len);
	if (headers_len > 0)
		memcpy(p, headers, headers_len);
	else
		*p = 0;
	out->len += total;
	return FL_OK;
}
