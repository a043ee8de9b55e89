/*-------------------------------------------------------------------------
 *
 * sql_record.c
 *		Rights, headers, sizes and shard of a record that comes from SQL.
 *
 * SQL roles are applications (I5): INSERT on the stream is the right to write.
 * A record of a role has no tenant or device; header fl.role names it.  Only
 * importers (fleetlog_ingest) may say who sent a record.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "fleetlog/murmur2.h"
#include "fleetlog/guest.h"
#include "fleetlog/producers.h"
#include "fleetlog/settings.h"
#include "fleetlog/state.h"
#include "sql_record.h"

void
fl_sql_check_insert(Oid stream)
{
	AclResult	acl = pg_class_aclcheck(stream, GetUserId(), ACL_INSERT);

	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_TABLE, get_rel_name(stream));
	if (check_enable_rls(stream, InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row-level security is enabled on stream \"%s\" for role \"%s\"",
						get_rel_name(stream), GetUserNameFromId(GetUserId(), false)),
				 errhint("Policies filter what a role reads; let the owner or a role with BYPASSRLS append.")));
}

bool
fl_sql_is_ingest(void)
{
	Oid			ingest;

	if (superuser())
		return true;
	ingest = get_role_oid("fleetlog_ingest", true);
	return OidIsValid(ingest) && has_privs_of_role(GetUserId(), ingest);
}

/* An importer by membership: a superuser may import, but is an application otherwise. */
static bool
is_importer(void)
{
	Oid			ingest = get_role_oid("fleetlog_ingest", true);

	return OidIsValid(ingest) && is_member_of_role_nosuper(GetUserId(), ingest);
}

/* The headers that stand for MQTT 5 properties (API, "Reserved record headers"). */
static int
property_number(const FlHeader *h)
{
	static const char *const names[] = {
		"content-type", "response-topic", "correlation-data", "payload-format", "message-expiry"
	};

	for (int i = 0; i < (int) lengthof(names); i++)
		if ((size_t) h->name_len == strlen(names[i]) && memcmp(h->name, names[i], h->name_len) == 0)
			return i;
	return -1;
}

/*
 * Which given headers are ours?  Marked ones: properties from anybody, fl.*
 * from importers.  From SQL the first header that bears a property's name is
 * that property, marked or not: there is no other way to say it there.
 */
static void
classify(struct varlena *given, bool ingest, bool *ours)
{
	FlHeaderIter it;
	FlHeader	h;
	bool		seen[5] = {0};

	fl_header_iter_init(&it, (uint8 *) VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given));
	while (fl_header_iter_next(&it, &h))
	{
		int			prop = property_number(&h);

		ours[h.index] = false;
		if (prop >= 0)
		{
			ours[h.index] = !seen[prop];
			seen[prop] = true;
		}
		else if (h.is_reserved)
			ours[h.index] = ingest;
	}
}

static void
copy_given(FlHeadersBuilder *b, struct varlena *given, const bool *ours, bool want)
{
	FlHeaderIter it;
	FlHeader	h;

	fl_header_iter_init(&it, (uint8 *) VARDATA_ANY(given), VARSIZE_ANY_EXHDR(given));
	while (fl_header_iter_next(&it, &h))
	{
		if (ours[h.index] != want)
			continue;
		if (want)
			fl_headers_builder_add_reserved(b, h.name, h.name_len, h.value, h.value_len);
		else
			fl_headers_builder_add(b, h.name, h.name_len, h.value, h.value_len);
	}
}

static void
add_ours(FlHeadersBuilder *b, const char *name, const char *value, int len)
{
	fl_headers_builder_add_reserved(b, name, strlen(name), value, len < 0 ? (int) strlen(value) : len);
}

void
fl_sql_headers(FlBuf *out, struct varlena *given, const char *tenant, const char *device,
			   const char *topic, int topic_len, int qos, bool retain)
{
	FlHeadersBuilder b;
	bool		ours[FL_HEADERS_MAX_COUNT];
	bool		ingest = fl_sql_is_ingest();

	fl_headers_builder_begin(&b, out);
	if (tenant)
		add_ours(&b, "fl.tenant", tenant, -1);
	if (device)
		add_ours(&b, "fl.device", device, -1);
	if (topic)
		add_ours(&b, "fl.topic", topic, topic_len);
	if (qos >= 0)
	{
		char		digit = (char) ('0' + qos);

		add_ours(&b, "fl.qos", &digit, 1);
	}
	if (retain)
		add_ours(&b, "fl.retain", "1", 1);
	if (given)
	{
		classify(given, ingest, ours);
		copy_given(&b, given, ours, true);
	}
	if (tenant == NULL && device == NULL && !is_importer())
		add_ours(&b, "fl.role", GetUserNameFromId(GetUserId(), false), -1);
	if (given)
		copy_given(&b, given, ours, false);
	if (fl_headers_builder_end(&b) != FL_OK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("record has too many or too large headers"),
				 errdetail("A record takes at most %d headers.", FL_HEADERS_MAX_COUNT)));
}

int64
fl_sql_created_ms(TimestampTz created)
{
	const int64 epoch_ms = ((int64) POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * 1000;

	if (TIMESTAMP_NOT_FINITE(created) || created < -epoch_ms * 1000)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("time of a record must be finite and not before 1970"),
				 errhint("Pass NULL when there is none.")));
	/* Rounded down, and divided first: the last years of timestamptz have no room for the sum. */
	return created / 1000 - (created % 1000 < 0) + epoch_ms;
}

size_t
fl_sql_record_limit(const FlStreamInfo *info)
{
	return info->max_record_bytes > 0 ? (size_t) info->max_record_bytes : (size_t) fl_max_record_kb * 1024;
}

void
fl_sql_check_size(const FlStreamInfo *info, size_t bytes)
{
	size_t		limit = fl_sql_record_limit(info);

	/* What devices are refused, SQL is refused too: the reserve is for the server itself. */
	if (fl_disk_reserve_reached())
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_DISK_RESERVE)),
				 errmsg("record is refused: %s", fl_error_info(FL_ERR_DISK_RESERVE)->text),
				 errhint("Free space on the volume of the data directory or of pg_wal, or lower fleetlog.disk_reserve.")));
	if (bytes > limit)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("record of %zu bytes is larger than the limit of %zu bytes", bytes, limit),
				 errhint("Raise max_record_bytes of the stream or fleetlog.max_record_size.")));
}

#define BATCH_RECORDS	1000
#define BATCH_BYTES		(256 * 1024)

bool
fl_sql_batch_is_full(const FlBatchBuilder *b)
{
	return fl_batch_builder_count(b) >= BATCH_RECORDS || fl_batch_builder_bytes(b) >= BATCH_BYTES;
}

int64
fl_sql_write_batch(FlShard *shard, const FlStreamInfo *info, FlBatchBuilder *b)
{
	FlBuf		body;
	FlAppend	a = {.min_created = FL_NO_CREATED,.max_created = FL_NO_CREATED};
	int64		base;

	fl_buf_init(&body, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	if (fl_batch_builder_finish(b, info->codec, fl_server_compressor(), &body) != FL_OK)
		elog(ERROR, "record batch cannot be finished");
	a.body = body.data;
	a.body_len = (uint32) body.len;
	a.nrecords = (uint32) fl_batch_builder_count(b);
	a.ts = fl_clock_now();
	base = fl_log_append(shard, &a);
	if (fl_state_concerns(info->relid))
		fl_state_collect(shard, &a, base);
	fl_producers_save_if_due(shard);
	fl_buf_free(&body);
	fl_batch_builder_reset(b);
	return base;
}

int32
fl_sql_shard_of(const FlStreamInfo *info, const uint8 *key, int32 key_len)
{
	static uint32 next = 0;
	static bool seeded = false;

	if (info->shards == 1)
		return 0;
	if (key_len >= 0)
		return fl_partition(key, key_len, info->shards);
	if (!seeded)
	{
		/* Sessions do not all begin with shard 0. */
		next = pg_prng_uint32(&pg_global_prng_state);
		seeded = true;
	}
	return (int32) (next++ % (uint32) info->shards);
}
