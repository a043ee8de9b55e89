/*-------------------------------------------------------------------------
 *
 * batch_builder.c
 *	  Build a batch record by record, and split one in two.
 *
 * Records are encoded at once into one buffer behind room for the header, so
 * that finishing an uncompressed batch is one copy, and a compressed one none.
 * The base timestamp is the first record's; deltas against it may be negative.
 *
 * Called by front doors, SQL append, COPY and segments (a batch that straddles
 * two leaves is split).  Must not reorder or drop records.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/record_batch.h"

void
fl_batch_builder_init(FlBatchBuilder *b, const FlAllocator *alloc, size_t max_bytes)
{
	fl_buf_init(&b->buf, alloc, max_bytes);
	fl_batch_builder_reset(b);
}

void
fl_batch_builder_reset(FlBatchBuilder *b)
{
	fl_buf_reset(&b->buf);
	b->count = 0;
	b->base_timestamp = FL_NO_TIMESTAMP;
	b->max_timestamp = FL_NO_TIMESTAMP;
	b->base_offset = 0;
	b->leader_epoch = -1;
	b->producer_id = FL_NO_PRODUCER_ID;
	b->producer_epoch = FL_NO_PRODUCER_EPOCH;
	b->base_sequence = FL_NO_SEQUENCE;
	b->flags = 0;
}

void
fl_batch_builder_free(FlBatchBuilder *b)
{
	fl_buf_free(&b->buf);
	fl_batch_builder_reset(b);
}

FlResult
fl_batch_builder_add(FlBatchBuilder *b, int64_t timestamp_ms, const uint8_t *key, int64_t key_len, const uint8_t *value,
					 int64_t value_len, uint8_t reserved_count, const uint8_t *kafka_headers, size_t headers_len)
{
	int64_t base = b->count == 0 ? timestamp_ms : b->base_timestamp;
	int64_t delta = (int64_t) ((uint64_t) timestamp_ms - (uint64_t) base);
	size_t before = b->buf.len;
	FlResult result;

	if (b->count == INT32_MAX)
		return FL_TOO_LARGE;
	if (b->count == 0)
	{
		if (b->buf.max < FL_BATCH_HEADER_SIZE || fl_buf_reserve(&b->buf, FL_BATCH_HEADER_SIZE) == NULL)
		{
			b->buf.failed = false;
			return FL_TOO_LARGE;
		}
		b->buf.len = FL_BATCH_HEADER_SIZE;
	}

	result = fl_batch_encode_record(&b->buf, b->count, delta, reserved_count, key, key_len, value, value_len,
									kafka_headers, headers_len);
	if (result != FL_OK)
	{
		b->buf.len = before;
		return result;
	}
	b->base_timestamp = base;
	if (b->count == 0 || timestamp_ms > b->max_timestamp)
		b->max_timestamp = timestamp_ms;
	b->count++;
	return FL_OK;
}

/*
 * Appends header and records to out.  With forced, codec is used whether or
 * not it gains anything.
 */
static FlResult
fl_batch_builder_emit(const FlBatchBuilder *b, FlCodec codec, bool forced, FlCompressor *c, FlBuf *out)
{
	const uint8_t *records;
	size_t raw;
	size_t start = out->len;
	size_t limit = SIZE_MAX;
	FlBatchInfo info;

	if (b->count == 0)
		return FL_MALFORMED;
	records = b->buf.data + FL_BATCH_HEADER_SIZE;
	raw = b->buf.len - FL_BATCH_HEADER_SIZE;
	if (!forced)
	{
		limit = raw - raw * FL_COMPRESS_MIN_GAIN / 100;
		if (raw < FL_COMPRESS_MIN_BYTES)
			codec = FL_CODEC_NONE;
	}

	if (fl_buf_reserve(out, FL_BATCH_HEADER_SIZE) == NULL)
		return FL_TOO_LARGE;
	out->len += FL_BATCH_HEADER_SIZE;
	if (codec != FL_CODEC_NONE)
	{
		FlResult result = fl_compress(c, codec, records, raw, limit, out);

		if (result != FL_OK && (forced || result != FL_TOO_LARGE || out->failed))
		{
			out->len = start;
			return result;
		}
		if (result != FL_OK)
			codec = FL_CODEC_NONE; /* it did not gain enough */
	}
	if (codec == FL_CODEC_NONE)
		fl_write_bytes(out, records, raw);
	if (out->failed || out->len - start - FL_BATCH_LENGTH_BASE > INT32_MAX)
	{
		out->len = start;
		return FL_TOO_LARGE;
	}

	info.base_offset = b->base_offset;
	info.base_timestamp = b->base_timestamp;
	info.max_timestamp = b->max_timestamp;
	info.producer_id = b->producer_id;
	info.size = out->len - start;
	info.leader_epoch = b->leader_epoch;
	info.crc = 0;
	info.last_offset_delta = b->count - 1;
	info.base_sequence = b->base_sequence;
	info.record_count = b->count;
	info.producer_epoch = b->producer_epoch;
	info.attributes = b->flags;
	info.codec = codec;
	fl_batch_encode_header(out->data + start, &info);
	fl_batch_update_crc(out->data + start, info.size);
	return FL_OK;
}

FlResult
fl_batch_builder_finish(FlBatchBuilder *b, FlCodec codec, FlCompressor *c, FlBuf *out)
{
	return fl_batch_builder_emit(b, codec, false, c, out);
}

int32_t
fl_sequence_add(int32_t sequence, int32_t n)
{
	if (sequence < 0)
		return sequence;
	return (int32_t) (((uint32_t) sequence + (uint32_t) n) & UINT32_C(0x7fffffff));
}

/* Copies the next n records of it into a builder set up as their batch. */
static FlResult
fl_batch_split_part(FlBatchBuilder *part, const FlBatchInfo *info, FlRecordIter *it, int32_t n)
{
	FlRecord rec;
	int32_t first = it->next;

	part->base_offset = (int64_t) ((uint64_t) info->base_offset + (uint64_t) first);
	part->leader_epoch = info->leader_epoch;
	part->producer_id = info->producer_id;
	part->producer_epoch = info->producer_epoch;
	part->base_sequence = fl_sequence_add(info->base_sequence, first);
	part->flags = info->attributes & (uint16_t) ~FL_BATCH_CODEC_MASK;

	for (; n > 0; n--)
	{
		FlResult result;

		if (!fl_record_iter_next(it, &rec))
			return it->result != FL_OK ? it->result : FL_MALFORMED;
		result = fl_batch_builder_add(part, rec.timestamp_ms, rec.key, rec.key_len, rec.value, rec.value_len,
									  rec.attributes, rec.headers, rec.headers_len);
		if (result != FL_OK)
			return result;
	}
	if (part->flags & FL_BATCH_APPEND_TIME)
		part->max_timestamp = info->max_timestamp;
	return FL_OK;
}

FlResult
fl_batch_split(const uint8_t *body, size_t len, FlCompressor *c, size_t max_raw, int32_t first_count, FlBuf *a,
			   FlBuf *b)
{
	FlBatchInfo info;
	FlRecordIter it;
	FlRecord end;
	FlBuf raw;
	FlBatchBuilder part;
	const uint8_t *records;
	size_t records_len;
	size_t a_start = a->len;
	size_t b_start = b->len;
	FlResult result = fl_batch_decode_header(body, len, &info);

	if (result != FL_OK)
		return result;
	if (first_count < 1 || first_count >= info.record_count)
		return FL_MALFORMED;

	/*
	 * Against another base a time delta may take nine bytes more and with them
	 * the length up to four, so that a record of at least seven bytes grows to
	 * less than three times its size.
	 */
	if (max_raw > INT32_MAX)
		max_raw = INT32_MAX;
	fl_buf_init(&raw, a->alloc, max_raw);
	fl_batch_builder_init(&part, a->alloc, FL_BATCH_HEADER_SIZE + (size_t) 3 * max_raw);
	result = fl_batch_inflate(&info, body, len, c, max_raw, &raw, &records, &records_len);
	if (result == FL_OK)
	{
		fl_record_iter_init(&it, &info, records, records_len);
		result = fl_batch_split_part(&part, &info, &it, first_count);
	}
	if (result == FL_OK)
		result = fl_batch_builder_emit(&part, info.codec, true, c, a);
	if (result == FL_OK)
	{
		fl_batch_builder_reset(&part);
		result = fl_batch_split_part(&part, &info, &it, info.record_count - first_count);
	}
	if (result == FL_OK && fl_record_iter_next(&it, &end))
		result = FL_MALFORMED;
	if (result == FL_OK)
		result = it.result;
	if (result == FL_OK)
		result = fl_batch_builder_emit(&part, info.codec, true, c, b);

	if (result != FL_OK)
	{
		a->len = a_start;
		b->len = b_start;
	}
	fl_batch_builder_free(&part);
	fl_buf_free(&raw);
	return result;
}
