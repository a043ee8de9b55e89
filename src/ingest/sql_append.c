/*-------------------------------------------------------------------------
 *
 * sql_append.c
 *		fleetlog.append(): one record, its position at once.
 *
 * The shard is held until the transaction ends, which is what makes the
 * position final on commit and reusable on abort; fleetlog.shard_hold_timeout
 * bounds it.
 *
 * Idempotence (L9) for SQL producers: the last sequences of a producer and the
 * offsets of their records are a row, written in the transaction of the record,
 * so a crash cannot separate them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/guest.h"
#include "fleetlog/producers.h"
#include "fleetlog/state.h"
#include "sql_record.h"

PG_FUNCTION_INFO_V1(fl_sql_append);

enum
{
	ARG_STREAM, ARG_KEY, ARG_PAYLOAD, ARG_HEADERS, ARG_SHARD, ARG_CREATED,
	ARG_PRODUCER, ARG_EPOCH, ARG_SEQUENCE, ARG_DEVICE, ARG_TENANT
};

typedef struct Producer
{
	bool		given;
	int64		id;
	int32		epoch;
	int64		sequence;
} Producer;

/* ---- producers ------------------------------------------------------------------ */

static void
producer_from_args(FunctionCallInfo fcinfo, Producer *p)
{
	int			n = !PG_ARGISNULL(ARG_PRODUCER) + !PG_ARGISNULL(ARG_EPOCH) + !PG_ARGISNULL(ARG_SEQUENCE);

	p->given = n == 3;
	if (n != 0 && n != 3)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("producer_id, producer_epoch and sequence go together")));
	if (!p->given)
		return;
	p->id = PG_GETARG_INT64(ARG_PRODUCER);
	p->epoch = PG_GETARG_INT32(ARG_EPOCH);
	p->sequence = PG_GETARG_INT64(ARG_SEQUENCE);
	if (p->id < 0 || p->epoch < 0 || p->epoch > PG_INT16_MAX ||
		p->sequence < 0 || p->sequence > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("producer_id must not be negative, producer_epoch is 0 to %d, sequence 0 to %d",
						PG_INT16_MAX, PG_INT32_MAX)));
	if (PG_ARGISNULL(ARG_KEY) && PG_ARGISNULL(ARG_SHARD))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("an idempotent append needs a key or a shard"),
				 errdetail("Sequences count per shard, and a record without key has no shard of its own.")));
}

static void
stale(const char *what, int64 have, int64 given)
{
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_STALE_PRODUCER)),
			 errmsg("stale producer %s", what),
			 errdetail("The last one was " INT64_FORMAT ", this is " INT64_FORMAT ".", have, given)));
}

/*
 * Shard lock held.  True when the sequence was written before: *offset tells
 * where.  Raises LF107 for an old epoch, a gap, or a duplicate that is no
 * longer remembered.
 */
static bool
producer_check(FlShard *shard, const Producer *p, int64 *offset)
{
	Oid			types[5] = {REGCLASSOID, INT4OID, INT8OID, INT4OID, INT8OID};
	Datum		values[5] = {
		ObjectIdGetDatum(shard->key.stream), Int32GetDatum(shard->key.shard), Int64GetDatum(p->id),
		Int32GetDatum(p->epoch), Int64GetDatum(p->sequence)
	};
	bool		isnull;
	int64		epoch,
				last;

	epoch = fl_config_query_int("SELECT epoch::bigint FROM fleetlog.producer_config"
								" WHERE stream = $1 AND shard = $2 AND producer_id = $3",
								3, types, values, &isnull);
	if (isnull)
		return false;
	if (p->epoch < epoch)
		stale("epoch", epoch, p->epoch);
	if (p->epoch > epoch)
	{
		if (p->sequence != 0)
			stale("sequence for a new epoch", -1, p->sequence);
		return false;
	}
	*offset = fl_config_query_int("SELECT offsets[array_position(sequences, $5)] FROM fleetlog.producer_config"
								  " WHERE stream = $1 AND shard = $2 AND producer_id = $3 AND epoch = $4",
								  5, types, values, &isnull);
	if (!isnull)
		return true;
	last = fl_config_query_int("SELECT sequences[cardinality(sequences)] FROM fleetlog.producer_config"
							   " WHERE stream = $1 AND shard = $2 AND producer_id = $3",
							   3, types, values, &isnull);
	if (!isnull && p->sequence != (last == PG_INT32_MAX ? 0 : last + 1))
		stale("sequence", last, p->sequence);
	return false;
}

/* Remember the last five, as Kafka brokers do. */
static void
producer_note(FlShard *shard, const Producer *p, int64 offset)
{
	Oid			types[6] = {REGCLASSOID, INT4OID, INT8OID, INT4OID, INT8OID, INT8OID};
	Datum		values[6] = {
		ObjectIdGetDatum(shard->key.stream), Int32GetDatum(shard->key.shard), Int64GetDatum(p->id),
		Int32GetDatum(p->epoch), Int64GetDatum(p->sequence), Int64GetDatum(offset)
	};

	fl_config_execute("INSERT INTO fleetlog.producer_config AS c VALUES ($1, $2, $3, $4, ARRAY[$5], ARRAY[$6])"
					  " ON CONFLICT (stream, shard, producer_id) DO UPDATE SET epoch = $4,"
					  " sequences = CASE WHEN c.epoch = $4 THEN c.sequences[greatest(1, cardinality(c.sequences) - 3):] || $5 ELSE ARRAY[$5] END,"
					  " offsets = CASE WHEN c.epoch = $4 THEN c.offsets[greatest(1, cardinality(c.offsets) - 3):] || $6 ELSE ARRAY[$6] END",
					  6, types, values, NULL);
}

/* ---- append ------------------------------------------------------------------------ */

static Datum
position_datum(FunctionCallInfo fcinfo, Oid stream, int32 shard, int64 offset)
{
	TupleDesc	desc;
	Datum		values[3] = {ObjectIdGetDatum(stream), Int32GetDatum(shard), Int64GetDatum(offset)};
	bool		nulls[3] = {false, false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

static int32
choose_shard(FunctionCallInfo fcinfo, const FlStreamInfo *info, const uint8 *key, int32 key_len)
{
	int32		shard;

	if (PG_ARGISNULL(ARG_SHARD))
		return fl_sql_shard_of(info, key, key_len);
	shard = PG_GETARG_INT32(ARG_SHARD);
	if (shard < 0 || shard >= info->shards)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" has no shard %d", info->name, shard),
				 errdetail("Its shards are 0 to %d.", info->shards - 1)));
	return shard;
}

/* Shards may be added while we wait for the lock, after which the key belongs to another one. */
static FlShard *
lock_shard(FunctionCallInfo fcinfo, const FlStreamInfo *info, const uint8 *key, int32 key_len)
{
	Oid			stream = info->relid;

	for (;;)
	{
		int32		shards = info->shards;
		FlShard    *shard = fl_shard_open(stream, choose_shard(fcinfo, info, key, key_len),
										  info->durability == FL_DURABILITY_QUORUM);

		fl_shard_lock(shard, FL_LOCK_TIMEOUT);
		info = fl_stream_lookup(stream);
		if (info == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("the stream has been dropped")));
		if (info->shards == shards)
			return shard;
	}
}

static char *
sender_arg(FunctionCallInfo fcinfo, int arg, int max, const char *what)
{
	char	   *s;

	if (PG_ARGISNULL(arg))
		return NULL;
	if (!fl_sql_is_ingest())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be a member of fleetlog_ingest to state the %s of a record", what)));
	s = text_to_cstring(PG_GETARG_TEXT_PP(arg));
	if (strlen(s) > (size_t) max)
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("%s is longer than %d bytes", what, max)));
	return s;
}

Datum
fl_sql_append(PG_FUNCTION_ARGS)
{
	Oid			stream;
	const FlStreamInfo *info;
	Producer	producer = {0};
	FlShard    *shard;
	FlBuf		headers,
				body;
	FlBatchBuilder b;
	FlAppend	a = {.min_created = FL_NO_CREATED,.max_created = FL_NO_CREATED,.nrecords = 1};
	struct varlena *key = NULL,
			   *payload = NULL;
	int32		key_len = -1,
				payload_len = -1;
	int64		created = FL_NO_TIMESTAMP;
	int64		offset;
	char	   *tenant,
			   *device;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog.append()");
	PreventCommandIfParallelMode("fleetlog.append()");
	if (PG_ARGISNULL(ARG_STREAM))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("stream must not be NULL")));
	stream = PG_GETARG_OID(ARG_STREAM);
	info = fl_stream_lookup(stream);
	if (info == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", get_rel_name(stream) ? get_rel_name(stream) : "?"),
				 errhint("Streams are listed in the view fleetlog.stream.")));
	fl_sql_check_insert(stream);
	producer_from_args(fcinfo, &producer);
	tenant = sender_arg(fcinfo, ARG_TENANT, FL_TENANT_MAX, "tenant");
	device = sender_arg(fcinfo, ARG_DEVICE, FL_DEVICE_MAX, "device");

	if (!PG_ARGISNULL(ARG_KEY))
	{
		key = (struct varlena *) PG_GETARG_TEXT_PP(ARG_KEY);
		key_len = VARSIZE_ANY_EXHDR(key);
	}
	if (!PG_ARGISNULL(ARG_PAYLOAD))
	{
		payload = (struct varlena *) PG_GETARG_BYTEA_PP(ARG_PAYLOAD);
		payload_len = VARSIZE_ANY_EXHDR(payload);
	}
	if (!PG_ARGISNULL(ARG_CREATED))
		a.min_created = a.max_created = created = fl_sql_created_ms(PG_GETARG_TIMESTAMPTZ(ARG_CREATED));

	fl_buf_init(&headers, fl_server_allocator(), MaxAllocSize);
	fl_sql_headers(&headers, PG_ARGISNULL(ARG_HEADERS) ? NULL : PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(ARG_HEADERS)),
				   tenant, device, NULL, 0, -1, false);
	fl_sql_check_size(info, Max(key_len, 0) + (size_t) Max(payload_len, 0) + headers.len);

	fl_batch_builder_init(&b, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	if (producer.given)
	{
		b.producer_id = producer.id;
		b.producer_epoch = (int16) producer.epoch;
		b.base_sequence = (int32) producer.sequence;
	}
	if (fl_batch_builder_add(&b, created, key ? (uint8 *) VARDATA_ANY(key) : NULL, key_len,
							 payload ? (uint8 *) VARDATA_ANY(payload) : NULL, payload_len,
							 headers.data[0], headers.data + 1, headers.len - 1) != FL_OK)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("record cannot be encoded")));
	fl_buf_init(&body, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	if (fl_batch_builder_finish(&b, info->codec, fl_server_compressor(), &body) != FL_OK)
		elog(ERROR, "record batch cannot be finished");

	shard = lock_shard(fcinfo, info, key ? (uint8 *) VARDATA_ANY(key) : NULL, key_len);
	if (!producer.given || !producer_check(shard, &producer, &offset))
	{
		a.body = body.data;
		a.body_len = (uint32) body.len;
		a.ts = fl_clock_now();
		offset = fl_log_append(shard, &a);
		if (fl_state_concerns(stream))
			fl_state_collect(shard, &a, offset);
		if (producer.given)
			producer_note(shard, &producer, offset);
		fl_producers_save_if_due(shard);
	}
	return position_datum(fcinfo, stream, shard->key.shard, offset);
}
