/*-------------------------------------------------------------------------
 *
 * batch_header.c
 *	  The 61-byte header of a RecordBatch v2: decode, encode, verify, stamp.
 *
 * Base offset, length, leader epoch and magic lie outside the CRC, so that the
 * log can place a producer's batch without touching what the producer signed;
 * only append time needs the CRC anew.
 *
 * Called by the page code, the doors, decoding and Fetch.  Must not look into
 * compressed records: that needs a compressor (compress.c).
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/record_batch.h"

#include "fleetlog/crc32c.h"
#include "fleetlog/headers.h"

/* Field positions; see the table in the header file. */
enum
{
	AT_BASE_OFFSET = 0,
	AT_LENGTH = 8,
	AT_LEADER_EPOCH = 12,
	AT_MAGIC = 16,
	AT_CRC = 17,
	AT_ATTRIBUTES = 21,
	AT_LAST_OFFSET_DELTA = 23,
	AT_BASE_TIMESTAMP = 27,
	AT_MAX_TIMESTAMP = 35,
	AT_PRODUCER_ID = 43,
	AT_PRODUCER_EPOCH = 51,
	AT_BASE_SEQUENCE = 53,
	AT_COUNT = 57
};

/* Batch length of a batch without records. */
#define FL_BATCH_LENGTH_MIN (FL_BATCH_HEADER_SIZE - FL_BATCH_LENGTH_BASE)

FlResult
fl_batch_decode_header(const uint8_t *body, size_t len, FlBatchInfo *info)
{
	int32_t length;
	size_t records;

	if (len > AT_MAGIC && body[AT_MAGIC] != FL_BATCH_MAGIC)
		return FL_UNSUPPORTED;
	if (len < FL_BATCH_HEADER_SIZE)
		return FL_INCOMPLETE;

	length = (int32_t) fl_get_be32(body + AT_LENGTH);
	if (length < FL_BATCH_LENGTH_MIN)
		return FL_MALFORMED;

	info->base_offset = (int64_t) fl_get_be64(body + AT_BASE_OFFSET);
	info->size = (size_t) length + FL_BATCH_LENGTH_BASE;
	info->leader_epoch = (int32_t) fl_get_be32(body + AT_LEADER_EPOCH);
	info->crc = fl_get_be32(body + AT_CRC);
	info->attributes = fl_get_be16(body + AT_ATTRIBUTES);
	info->last_offset_delta = (int32_t) fl_get_be32(body + AT_LAST_OFFSET_DELTA);
	info->base_timestamp = (int64_t) fl_get_be64(body + AT_BASE_TIMESTAMP);
	info->max_timestamp = (int64_t) fl_get_be64(body + AT_MAX_TIMESTAMP);
	info->producer_id = (int64_t) fl_get_be64(body + AT_PRODUCER_ID);
	info->producer_epoch = (int16_t) fl_get_be16(body + AT_PRODUCER_EPOCH);
	info->base_sequence = (int32_t) fl_get_be32(body + AT_BASE_SEQUENCE);
	info->record_count = (int32_t) fl_get_be32(body + AT_COUNT);

	if ((info->attributes & FL_BATCH_CODEC_MASK) > FL_CODEC_ZSTD)
		return FL_UNSUPPORTED;
	info->codec = (FlCodec) (info->attributes & FL_BATCH_CODEC_MASK);

	if (info->record_count < 1 || info->last_offset_delta != info->record_count - 1)
		return FL_MALFORMED;
	records = info->size - FL_BATCH_HEADER_SIZE;
	if (info->codec == FL_CODEC_NONE && (size_t) info->record_count > records / FL_RECORD_MIN_SIZE)
		return FL_MALFORMED;
	return len < info->size ? FL_INCOMPLETE : FL_OK;
}

void
fl_batch_encode_header(uint8_t *body, const FlBatchInfo *info)
{
	uint16_t attributes = (uint16_t) ((info->attributes & ~FL_BATCH_CODEC_MASK) | (uint16_t) info->codec);

	fl_put_be64(body + AT_BASE_OFFSET, (uint64_t) info->base_offset);
	fl_put_be32(body + AT_LENGTH, (uint32_t) (info->size - FL_BATCH_LENGTH_BASE));
	fl_put_be32(body + AT_LEADER_EPOCH, (uint32_t) info->leader_epoch);
	body[AT_MAGIC] = FL_BATCH_MAGIC;
	fl_put_be32(body + AT_CRC, info->crc);
	fl_put_be16(body + AT_ATTRIBUTES, attributes);
	fl_put_be32(body + AT_LAST_OFFSET_DELTA, (uint32_t) info->last_offset_delta);
	fl_put_be64(body + AT_BASE_TIMESTAMP, (uint64_t) info->base_timestamp);
	fl_put_be64(body + AT_MAX_TIMESTAMP, (uint64_t) info->max_timestamp);
	fl_put_be64(body + AT_PRODUCER_ID, (uint64_t) info->producer_id);
	fl_put_be16(body + AT_PRODUCER_EPOCH, (uint16_t) info->producer_epoch);
	fl_put_be32(body + AT_BASE_SEQUENCE, (uint32_t) info->base_sequence);
	fl_put_be32(body + AT_COUNT, (uint32_t) info->record_count);
}

void
fl_batch_update_crc(uint8_t *body, size_t len)
{
	fl_put_be32(body + AT_CRC, fl_crc32c(body + FL_BATCH_CRC_START, len - FL_BATCH_CRC_START));
}

FlResult
fl_records_verify(const FlBatchInfo *info, const uint8_t *records, size_t len)
{
	FlRecordIter it;
	FlRecord rec;

	fl_record_iter_init(&it, info, records, len);
	while (fl_record_iter_next(&it, &rec))
	{
		FlResult result = fl_headers_validate_kafka(rec.attributes, rec.headers, rec.headers_len);

		if (result != FL_OK)
			return result;
	}
	return it.result;
}

FlResult
fl_batch_verify(const uint8_t *body, size_t len)
{
	FlBatchInfo info;
	FlResult result = fl_batch_decode_header(body, len, &info);

	if (result != FL_OK)
		return result;
	if (info.size != len)
		return FL_MALFORMED;
	if (info.crc != fl_crc32c(body + FL_BATCH_CRC_START, len - FL_BATCH_CRC_START))
		return FL_MALFORMED;
	if (info.codec != FL_CODEC_NONE)
		return FL_OK;
	return fl_records_verify(&info, body + FL_BATCH_HEADER_SIZE, len - FL_BATCH_HEADER_SIZE);
}

FlResult
fl_batch_stamp(uint8_t *body, size_t len, int64_t base_offset, int32_t leader_epoch, bool append_time,
			   int64_t append_ms)
{
	FlBatchInfo info;
	FlResult result = fl_batch_decode_header(body, len, &info);

	if (result != FL_OK)
		return result;
	fl_put_be64(body + AT_BASE_OFFSET, (uint64_t) base_offset);
	fl_put_be32(body + AT_LEADER_EPOCH, (uint32_t) leader_epoch);
	if (append_time)
	{
		fl_put_be16(body + AT_ATTRIBUTES, info.attributes | FL_BATCH_APPEND_TIME);
		fl_put_be64(body + AT_MAX_TIMESTAMP, (uint64_t) append_ms);
		fl_batch_update_crc(body, info.size);
	}
	return FL_OK;
}

FlResult
fl_batch_grow_header(uint8_t *body, size_t new_len, int32_t new_count, int64_t max_timestamp)
{
	if (new_len < FL_BATCH_HEADER_SIZE || new_count < 1 || new_len - FL_BATCH_LENGTH_BASE > INT32_MAX)
		return FL_MALFORMED;
	if (body[AT_MAGIC] != FL_BATCH_MAGIC || (fl_get_be16(body + AT_ATTRIBUTES) & FL_BATCH_CODEC_MASK) != FL_CODEC_NONE)
		return FL_UNSUPPORTED;
	fl_put_be32(body + AT_LENGTH, (uint32_t) (new_len - FL_BATCH_LENGTH_BASE));
	fl_put_be32(body + AT_LAST_OFFSET_DELTA, (uint32_t) (new_count - 1));
	fl_put_be32(body + AT_COUNT, (uint32_t) new_count);
	fl_put_be64(body + AT_MAX_TIMESTAMP, (uint64_t) max_timestamp);
	fl_batch_update_crc(body, new_len);
	return FL_OK;
}
