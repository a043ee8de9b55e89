/*-------------------------------------------------------------------------
 *
 * batch_check.c
 *	  The door's look at a producer's batch (batch_check.h).
 *
 * In the order in which a fault makes the rest meaningless: lengths, checksum,
 * header, codec, records.  One walk over the records finds all that is asked.
 *
 * Called by Produce.  What is accepted here is read later without being checked
 * again but for its checksum, so nothing may be let through that a reader refuses:
 * the walk is the readers' own (batch_record.c, headers.c).
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/batch_check.h"

#include "fleetlog/crc32c.h"
#include "fleetlog/headers.h"
#include "fleetlog/murmur2.h"

#define AT_LENGTH        8
#define AT_MAGIC         16
#define AT_CRC           17
#define AT_MAX_TIMESTAMP 35

/* Set by a broker that has compacted the batch. */
#define DELETE_HORIZON 0x40

static FlBatchVerdict
fault(FlBatchCheck *check, FlBatchVerdict verdict, const char *why)
{
	check->why = why;
	return verdict;
}

static FlBatchVerdict
check_frame(FlBatchCheck *check, const uint8_t *body, size_t len)
{
	size_t size;

	if (len <= AT_MAGIC)
		return fault(check, FL_BATCH_CORRUPT, "the batch is cut short");
	if (body[AT_MAGIC] < FL_BATCH_MAGIC)
		return fault(check, FL_BATCH_OLD_FORMAT, "message formats 0 and 1 are not supported");
	if (body[AT_MAGIC] > FL_BATCH_MAGIC)
		return fault(check, FL_BATCH_INVALID, "unknown message format");
	size = (size_t) fl_get_be32(body + AT_LENGTH) + FL_BATCH_LENGTH_BASE;
	if (size < FL_BATCH_HEADER_SIZE || size > len)
		return fault(check, FL_BATCH_CORRUPT, "the batch is cut short");
	if (size < len)
		return fault(check, FL_BATCH_INVALID, "a partition takes one batch of a request");
	if (fl_get_be32(body + AT_CRC) != fl_crc32c(body + FL_BATCH_CRC_START, len - FL_BATCH_CRC_START))
		return fault(check, FL_BATCH_CORRUPT, "the checksum is wrong");
	return FL_BATCH_GOOD;
}

static FlBatchVerdict
check_header(FlBatchCheck *check, const uint8_t *body, size_t len)
{
	const FlBatchInfo *info = &check->info;
	FlResult result = fl_batch_decode_header(body, len, &check->info);

	if (result == FL_UNSUPPORTED)
		return fault(check, FL_BATCH_UNKNOWN_CODEC, "unknown compression");
	if (result != FL_OK)
		return fault(check, FL_BATCH_INVALID, "the number of records is wrong");
	if (info->attributes & (FL_BATCH_CONTROL | DELETE_HORIZON))
		return fault(check, FL_BATCH_INVALID, "clients write no control batches");
	if (info->attributes & FL_BATCH_APPEND_TIME)
		return fault(check, FL_BATCH_BAD_TIME, "only the server sets append times");
	if (info->producer_id < FL_NO_PRODUCER_ID)
		return fault(check, FL_BATCH_INVALID, "the producer id is negative");
	if (info->producer_id >= 0 && (info->producer_epoch < 0 || info->base_sequence < 0))
		return fault(check, FL_BATCH_INVALID, "an idempotent batch needs an epoch and a sequence");
	if ((info->attributes & FL_BATCH_TRANSACTIONAL) && info->producer_id < 0)
		return fault(check, FL_BATCH_INVALID, "a transactional batch needs a producer id");
	return FL_BATCH_GOOD;
}

static void
note_time(FlBatchCheck *check, int64_t t)
{
	if (t == FL_NO_TIMESTAMP)
		return;
	if (check->min_time == FL_NO_TIMESTAMP || t < check->min_time)
		check->min_time = t;
	if (t > check->max_time_found)
		check->max_time_found = t;
}

/* Of a list that is well formed. */
static bool
has_too_many_headers(const FlBatchCheck *check, const FlRecord *rec)
{
	FlReader r;

	fl_reader_init(&r, rec->headers, rec->headers_len);
	return fl_read_varint(&r) > FL_HEADERS_MAX_COUNT - check->headers_more;
}

static FlBatchVerdict
check_record(FlBatchCheck *check, const FlRecord *rec)
{
	const char *why;
	size_t size = (size_t) (rec->key_len > 0 ? rec->key_len : 0) + (size_t) (rec->value_len > 0 ? rec->value_len : 0) +
				  rec->headers_len;

	/* Its attributes are not ours: no header of it is. */
	if (fl_headers_validate_kafka(0, rec->headers, rec->headers_len) != FL_OK)
		return fault(check, FL_BATCH_INVALID, "the headers of a record are malformed, or their names no text");
	if (has_too_many_headers(check, rec))
		return fault(check, FL_BATCH_INVALID, "a record has too many headers");
	if (size > check->max_record)
		return fault(check, FL_BATCH_RECORD_TOO_LARGE, "a record is larger than the stream takes");
	if (rec->timestamp_ms < FL_NO_TIMESTAMP || rec->timestamp_ms > check->max_time)
		return fault(check, FL_BATCH_BAD_TIME, "the time of a record cannot be kept");
	if (rec->key == NULL && check->needs_keys)
		return fault(check, FL_BATCH_INVALID, "a compacted topic takes no record without a key");
	if (check->may_write != NULL &&
		(why = check->may_write(check->arg, rec->key, rec->key_len, rec->value_len)) != NULL)
		return fault(check, FL_BATCH_FORBIDDEN, why);
	note_time(check, rec->timestamp_ms);
	if (rec->key != NULL && check->shards > 1 &&
		fl_partition(rec->key, (size_t) rec->key_len, check->shards) != check->shard)
		check->off_key++;
	return FL_BATCH_GOOD;
}

static FlBatchVerdict
check_records(FlBatchCheck *check, const uint8_t *records, size_t len)
{
	FlRecordIter it;
	FlRecord rec;

	fl_record_iter_init(&it, &check->info, records, len);
	while (fl_record_iter_next(&it, &rec))
	{
		FlBatchVerdict verdict = check_record(check, &rec);

		if (verdict != FL_BATCH_GOOD)
		{
			check->bad_record = rec.offset_delta;
			return verdict;
		}
	}
	if (it.result == FL_OK)
		return FL_BATCH_GOOD;
	check->bad_record = it.next < it.count ? it.next : -1;
	return fault(check, FL_BATCH_INVALID, "a record is malformed, or their number is wrong");
}

FlBatchVerdict
fl_batch_check(FlBatchCheck *check, const uint8_t *body, size_t len, FlCompressor *c, FlBuf *raw)
{
	const uint8_t *records;
	size_t records_len;
	FlBatchVerdict verdict;

	check->min_time = check->max_time_found = FL_NO_TIMESTAMP;
	check->off_key = 0;
	check->bad_record = -1;
	check->why = NULL;
	verdict = check_frame(check, body, len);
	if (verdict == FL_BATCH_GOOD)
		verdict = check_header(check, body, len);
	if (verdict != FL_BATCH_GOOD)
		return verdict;
	switch (fl_batch_inflate(&check->info, body, len, c, check->max_raw, raw, &records, &records_len))
	{
		case FL_OK:
			return check_records(check, records, records_len);
		case FL_TOO_LARGE:
			return fault(check, FL_BATCH_RAW_TOO_LARGE, "the batch is too large when it is inflated");
		default:
			return fault(check, FL_BATCH_INVALID, "the records cannot be inflated");
	}
}

void
fl_batch_set_max_timestamp(uint8_t *body, size_t len, int64_t max_timestamp)
{
	fl_put_be64(body + AT_MAX_TIMESTAMP, (uint64_t) max_timestamp);
	fl_batch_update_crc(body, len);
}
