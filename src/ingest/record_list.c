/*-------------------------------------------------------------------------
 *
 * record_list.c
 *		Many records of a worker into a stream, each of which may name its own
 *		position (record_list.h).
 *
 * The lock of a shard gives the right to its next offset until the transaction ends,
 * so what fl_record_list_place says holds when fl_record_list_write comes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/memutils.h"

#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "fleetlog/record_list.h"
#include "sql_record.h"

static const FlStreamInfo *
lookup(Oid stream)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);

	if (info == NULL)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_NO_STREAM)),
				 errmsg("stream with OID %u does not exist", stream)));
	return info;
}

static FlShard *
open_shard(const FlStreamInfo *info, int32 number)
{
	return fl_shard_open(info->relid, number, info->durability == FL_DURABILITY_QUORUM);
}

void
fl_record_list_place(Oid stream, FlListRecord *records, int n)
{
	const FlStreamInfo *info = lookup(stream);
	int32		nshards = info->shards;

	/* The disk reserve stops these as it stops everything else. */
	fl_sql_check_size(info, 0);
	for (int i = 0; i < n; i++)
		records[i].shard = fl_sql_shard_of(info, (const uint8 *) records[i].key, (int32) strlen(records[i].key));
	for (int32 s = 0; s < nshards; s++)
	{
		FlShard    *shard = NULL;
		int64		next = 0;

		for (int i = 0; i < n; i++)
		{
			if (records[i].shard != s)
				continue;
			if (shard == NULL)
			{
				shard = open_shard(info, s);
				fl_shard_lock(shard, FL_LOCK_TIMEOUT);
				next = fl_log_next_offset(shard);
			}
			records[i].log_offset = next++;
		}
		/* A lock that was waited for may have brought news. */
		info = lookup(stream);
		if (info->shards != nshards)
			ereport(ERROR,
					(errcode(fl_error_sqlstate(FL_ERR_MAP_CHANGED)),
					 errmsg("the number of shards of stream \"%s\" was changed at the same time", info->name)));
	}
}

/* As an application gives them to append(). */
static struct varlena *
given_headers(const FlListRecord *r, FlBuf *buf)
{
	FlHeadersBuilder b;
	struct varlena *given;
	char		position[48];

	fl_buf_reset(buf);
	fl_headers_builder_begin(&b, buf);
	fl_headers_builder_add(&b, "content-type", 12, "application/json", 16);
	if (r->response_topic)
	{
		int			len = snprintf(position, sizeof(position), "%d:" INT64_FORMAT, r->shard, r->log_offset);

		fl_headers_builder_add(&b, "response-topic", 14, r->response_topic, strlen(r->response_topic));
		fl_headers_builder_add(&b, "correlation-data", 16, position, len);
	}
	if (fl_headers_builder_end(&b) != FL_OK)
		elog(ERROR, "headers cannot be built");
	given = palloc(VARHDRSZ + buf->len);
	SET_VARSIZE(given, VARHDRSZ + buf->len);
	memcpy(VARDATA(given), buf->data, buf->len);
	return given;
}

static void
add_record(const FlListRecord *r, FlBatchBuilder *b, FlBuf *scratch, FlBuf *headers)
{
	struct varlena *given = given_headers(r, scratch);

	fl_buf_reset(headers);
	fl_sql_headers(headers, given, r->tenant, r->device, r->topic, r->topic ? (int) strlen(r->topic) : 0, -1, false);
	pfree(given);
	if (fl_batch_builder_add(b, FL_NO_TIMESTAMP, (const uint8 *) r->key, (int64) strlen(r->key),
							 (const uint8 *) r->payload, (int64) strlen(r->payload),
							 headers->data[0], headers->data + 1, headers->len - 1) != FL_OK)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("record cannot be encoded")));
}

static void
write_shard(const FlStreamInfo *info, int32 number, const FlListRecord *records, int n)
{
	FlShard    *shard = open_shard(info, number);
	FlBatchBuilder b;
	FlBuf		scratch,
				headers;
	int64		expected = -1;	/* offset of the first that is in the batch */

	fl_batch_builder_init(&b, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	fl_buf_init(&scratch, fl_server_allocator(), MaxAllocSize);
	fl_buf_init(&headers, fl_server_allocator(), MaxAllocSize);
	for (int i = 0; i <= n; i++)
	{
		if (fl_batch_builder_count(&b) > 0 && (i == n || fl_sql_batch_is_full(&b)))
		{
			if (fl_sql_write_batch(shard, info, &b) != expected)
				elog(ERROR, "records are not where they were placed");
			expected = -1;
		}
		if (i == n || records[i].shard != number)
			continue;
		if (expected < 0)
			expected = records[i].log_offset;
		add_record(&records[i], &b, &scratch, &headers);
	}
	fl_batch_builder_free(&b);
	fl_buf_free(&scratch);
	fl_buf_free(&headers);
}

void
fl_record_list_write(Oid stream, const FlListRecord *records, int n)
{
	const FlStreamInfo *info = lookup(stream);

	for (int32 s = 0; s < info->shards; s++)
	{
		bool		any = false;

		for (int i = 0; i < n && !any; i++)
			any = records[i].shard == s;
		if (any)
			write_shard(info, s, records, n);
		info = lookup(stream);
	}
}
