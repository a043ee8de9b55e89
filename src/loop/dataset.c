/*-------------------------------------------------------------------------
 *
 * dataset.c
 *		Named data sets (D6): what is in ranges of a stream, counted, hashed and
 *		handed out.
 *
 * The content hash is SHA-256 over all records in order of shard and offset, each
 * as its ten columns: a length in four bytes, -1 for NULL, then the binary form of
 * the type, big-endian.  It depends on nothing else: not on batches, compression,
 * segments or the server's version, and anybody can compute it from the columns
 * (docs/replay.md has the query).
 *
 * Records come straight from the log, below the durable tail, with the rights of
 * the caller.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "fleetlog/compat.h"
#include "fleetlog/log.h"
#include "fleetlog/ranges.h"
#include "fleetlog/replay.h"
#include "fleetlog/rls.h"

PG_FUNCTION_INFO_V1(fl_sql_dataset_sum);
PG_FUNCTION_INFO_V1(fl_sql_dataset_records);

typedef void (*RecordCallback) (void *arg, const Datum *values, const bool *isnull);

const FlStreamInfo *
fl_replay_stream(Oid stream)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	AclResult	acl;

	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", get_rel_name(stream) ? get_rel_name(stream) : "?"),
				 errhint("Streams are listed in the view fleetlog.stream.")));
	acl = pg_class_aclcheck(stream, GetUserId(), ACL_SELECT);
	if (acl != ACLCHECK_OK)
		aclcheck_error(acl, OBJECT_TABLE, info->name);
	if (fl_rls_applies(stream))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row-level security restricts what you see of stream \"%s\"", info->name),
				 errdetail("All of its records are needed.")));
	return info;
}

/* What is not durable yet may still go; what is below the head has gone. */
static void
check_range(const FlStreamInfo *info, const FlRange *r)
{
	int64		tail = fl_log_tail(info->relid, r->shard);
	int64		head = fl_log_head(info->relid, r->shard);

	if (r->lower < head)
		fl_log_too_old(info->relid, r->shard, r->lower, head);
	if (r->upper > tail)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("shard %d of stream \"%s\" has no offset " INT64_FORMAT " yet", r->shard, info->name, r->upper - 1),
				 errdetail("The next offset to be written is " INT64_FORMAT ".", tail),
				 errhint("A data set has records that are there: end the range at fleetlog.tail() or before.")));
}

static void
each_record(const FlStreamInfo *info, const FlRanges *ranges, RecordCallback callback, void *arg)
{
	FlBatchDecoder *dec = fl_batch_decoder_create(CurrentMemoryContext);
	char	   *scratch = NULL;
	size_t		scratch_cap = 0;

	for (int i = 0; i < ranges->n; i++)
	{
		const FlRange *r = &ranges->items[i];
		FlLogPosition pos = {.offset = r->lower};
		FlLogReader *reader;
		FlStoredBatch batch;
		FlLogRecord rec;

		check_range(info, r);
		reader = fl_log_reader_begin(info->relid, r->shard, &pos, r->upper);
		fl_log_reader_bulk(reader);
		while (fl_log_reader_next(reader, &batch))
		{
			CHECK_FOR_INTERRUPTS();
			fl_batch_decoder_open(dec, &batch);
			while (fl_batch_decoder_next(dec, &rec))
			{
				Datum		values[FL_NATTS];
				bool		isnull[FL_NATTS];

				if (rec.log_offset < r->lower || rec.log_offset >= r->upper)
					continue;
				fl_columns_build(&rec, r->shard, 1, FL_NATTS, &scratch, &scratch_cap, CurrentMemoryContext, values, isnull);
				callback(arg, values, isnull);
			}
		}
		fl_log_reader_end(reader);
	}
}

/* ---- the sum ------------------------------------------------------------------- */

typedef struct Sum
{
	pg_cryptohash_ctx *hash;
	int64		records;
	int64		payload_bytes;
} Sum;

static void
hash_bytes(Sum *sum, const void *bytes, size_t len)
{
	if (pg_cryptohash_update(sum->hash, bytes, len) < 0)
		elog(ERROR, "could not compute SHA-256");
}

static void
hash_field(Sum *sum, const void *bytes, int32 len)
{
	uint32		n = pg_hton32((uint32) len);

	hash_bytes(sum, &n, sizeof(n));
	if (len > 0)
		hash_bytes(sum, bytes, len);
}

static void
sum_record(void *arg, const Datum *values, const bool *isnull)
{
	Sum		   *sum = arg;

	for (int i = 0; i < FL_NATTS; i++)
	{
		if (isnull[i])
			hash_field(sum, NULL, -1);
		else if (i == FL_ATT_SHARD - 1)
		{
			uint32		n = pg_hton32((uint32) DatumGetInt32(values[i]));

			hash_field(sum, &n, sizeof(n));
		}
		else if (i < FL_ATT_CREATED)
		{
			uint64		n = pg_hton64((uint64) DatumGetInt64(values[i]));

			hash_field(sum, &n, sizeof(n));
		}
		else
		{
			struct varlena *v = (struct varlena *) DatumGetPointer(values[i]);

			hash_field(sum, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
		}
	}
	sum->records++;
	if (!isnull[FL_ATT_PAYLOAD - 1])
		sum->payload_bytes += VARSIZE_ANY_EXHDR(DatumGetPointer(values[FL_ATT_PAYLOAD - 1]));
}

/* _dataset_sum(stream, ranges) -> records, payload_bytes, content_hash. */
Datum
fl_sql_dataset_sum(PG_FUNCTION_ARGS)
{
	const FlStreamInfo *info;
	FlRanges	ranges;
	Sum			sum = {0};
	bytea	   *digest = palloc(VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false};

	fl_require_preload();
	info = fl_replay_stream(PG_GETARG_OID(0));
	ranges = fl_ranges_parse(PG_GETARG_JSONB_P(1), info);
	fl_ranges_merge(&ranges);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	sum.hash = pg_cryptohash_create(PG_SHA256);
	if (sum.hash == NULL || pg_cryptohash_init(sum.hash) < 0)
		elog(ERROR, "could not compute SHA-256");
	each_record(info, &ranges, sum_record, &sum);
	if (pg_cryptohash_final(sum.hash, (uint8 *) VARDATA(digest), PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not compute SHA-256");
	pg_cryptohash_free(sum.hash);
	SET_VARSIZE(digest, VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
	values[0] = Int64GetDatum(sum.records);
	values[1] = Int64GetDatum(sum.payload_bytes);
	values[2] = PointerGetDatum(digest);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* ---- the records ------------------------------------------------------------------ */

static void
put_record(void *arg, const Datum *values, const bool *isnull)
{
	ReturnSetInfo *rsinfo = arg;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, unconstify(Datum *, values), unconstify(bool *, isnull));
}

/* _dataset_records(stream, ranges) -> setof log_record. */
Datum
fl_sql_dataset_records(PG_FUNCTION_ARGS)
{
	const FlStreamInfo *info;
	FlRanges	ranges;

	fl_require_preload();
	info = fl_replay_stream(PG_GETARG_OID(0));
	ranges = fl_ranges_parse(PG_GETARG_JSONB_P(1), info);
	fl_ranges_merge(&ranges);
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	each_record(info, &ranges, put_record, fcinfo->resultinfo);
	return (Datum) 0;
}
