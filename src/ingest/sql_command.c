/*-------------------------------------------------------------------------
 *
 * sql_command.c
 *		Commands on their way into the stream of commands, many at a time, and
 *		their positions.
 *
 * Called by the dispatcher's SQL (sql/modules/088_command.sql) in the transaction
 * that marks them as sent.  Each becomes a record with the properties of C1:
 * response topic, correlation data, expiry, and user properties that tell its id
 * and times.  The shard is that of the device, as its answers' is, so that all
 * that is said of a command is in order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "fleetlog/command.h"
#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "fleetlog/murmur2.h"
#include "sql_record.h"

PG_FUNCTION_INFO_V1(fl_sql_command_append);

enum
{
	ARG_TOPIC, ARG_DEVICE, ARG_RESPONSE, ARG_ID, ARG_PAYLOAD, ARG_ISSUED, ARG_EXPIRES, N_ARGS
};

#define FL_COMMAND_RECORD_SLACK	512	/* names of headers, at most */

typedef struct Commands
{
	int			n;
	Datum	   *column[N_ARGS];
	Datum	   *shards;			/* result */
	Datum	   *offsets;
} Commands;

static void
read_arguments(FunctionCallInfo fcinfo, Commands *c)
{
	for (int i = 0; i < N_ARGS; i++)
	{
		int			n;

		deconstruct_array(PG_GETARG_ARRAYTYPE_P(i), TEXTOID, -1, false, TYPALIGN_INT, &c->column[i], NULL, &n);
		if (i > 0 && n != c->n)
			elog(ERROR, "arrays of different length");
		c->n = n;
	}
	c->shards = palloc(sizeof(Datum) * Max(c->n, 1));
	c->offsets = palloc(sizeof(Datum) * Max(c->n, 1));
}

static void
add_ours(FlHeadersBuilder *b, const char *name, Datum value)
{
	text	   *t = DatumGetTextPP(value);

	fl_headers_builder_add_reserved(b, name, strlen(name), VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
}

static void
add_user(FlHeadersBuilder *b, const char *name, Datum value)
{
	text	   *t = DatumGetTextPP(value);

	fl_headers_builder_add(b, name, strlen(name), VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
}

static void
build_headers(const Commands *c, int i, FlBuf *out)
{
	FlHeadersBuilder b;

	fl_buf_reset(out);
	fl_headers_builder_begin(&b, out);
	fl_headers_builder_add_reserved(&b, "fl.qos", 6, "1", 1);
	fl_headers_builder_add_reserved(&b, "content-type", 12, "application/json", 16);
	fl_headers_builder_add_reserved(&b, "payload-format", 14, "1", 1);
	add_ours(&b, "response-topic", c->column[ARG_RESPONSE][i]);
	add_ours(&b, "correlation-data", c->column[ARG_ID][i]);
	add_ours(&b, "message-expiry", c->column[ARG_EXPIRES][i]);
	add_user(&b, FL_COMMAND_P_ID, c->column[ARG_ID][i]);
	add_user(&b, FL_COMMAND_P_ISSUED, c->column[ARG_ISSUED][i]);
	add_user(&b, FL_COMMAND_P_EXPIRES, c->column[ARG_EXPIRES][i]);
	if (fl_headers_builder_end(&b) != FL_OK)
		elog(ERROR, "headers of a command cannot be built");
}

/*
 * A record that the stream does not take (its limit was lowered behind send_command)
 * gets no position: one command must not stop all others.
 */
static bool
is_too_large(const Commands *c, int i, const FlStreamInfo *info)
{
	size_t		bytes = FL_COMMAND_RECORD_SLACK;

	for (int k = 0; k < N_ARGS; k++)
		bytes += VARSIZE_ANY_EXHDR(DatumGetPointer(c->column[k][i]));
	return bytes > fl_sql_record_limit(info);
}

static void
add_record(const Commands *c, int i, const FlStreamInfo *info, FlBatchBuilder *b, FlBuf *headers)
{
	text	   *topic = DatumGetTextPP(c->column[ARG_TOPIC][i]);
	text	   *payload = DatumGetTextPP(c->column[ARG_PAYLOAD][i]);

	build_headers(c, i, headers);
	if (fl_batch_builder_add(b, FL_NO_TIMESTAMP, (uint8 *) VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic),
							 (uint8 *) VARDATA_ANY(payload), VARSIZE_ANY_EXHDR(payload),
							 headers->data[0], headers->data + 1, headers->len - 1) != FL_OK)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("command cannot be encoded")));
}

/* The commands of one shard, in their order. */
static void
write_shard(Commands *c, const FlStreamInfo *info, int32 number)
{
	FlShard    *shard = NULL;
	FlBatchBuilder b;
	FlBuf		headers;
	int			first = 0;		/* of those that are in the batch */

	fl_batch_builder_init(&b, fl_server_allocator(), FL_MAX_RECORD_BATCH);
	fl_buf_init(&headers, fl_server_allocator(), MaxAllocSize);
	for (int i = 0; i <= c->n; i++)
	{
		if (fl_batch_builder_count(&b) > 0 && (i == c->n || fl_sql_batch_is_full(&b)))
		{
			int64		offset = fl_sql_write_batch(shard, info, &b);

			for (; first < i; first++)
				if (DatumGetInt32(c->shards[first]) == number)
					c->offsets[first] = Int64GetDatum(offset++);
		}
		if (i == c->n || DatumGetInt32(c->shards[i]) != number)
			continue;
		if (shard == NULL)
		{
			shard = fl_shard_open(info->relid, number, info->durability == FL_DURABILITY_QUORUM);
			fl_shard_lock(shard, FL_LOCK_TIMEOUT);
		}
		add_record(c, i, info, &b, &headers);
	}
	fl_batch_builder_free(&b);
	fl_buf_free(&headers);
}

Datum
fl_sql_command_append(PG_FUNCTION_ARGS)
{
	Commands	c = {0};
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false, false};
	const FlStreamInfo *info;
	Oid			stream = fl_command_stream();
	int32		nshards;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog._command_append()");
	PreventCommandIfParallelMode("fleetlog._command_append()");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	info = fl_stream_lookup(stream);
	if (info == NULL)
		elog(ERROR, "the stream of commands does not exist");
	read_arguments(fcinfo, &c);
	/* The disk reserve stops commands as it stops everything else; they wait. */
	fl_sql_check_size(info, 0);
	nshards = info->shards;
	for (int i = 0; i < c.n; i++)
	{
		text	   *device = DatumGetTextPP(c.column[ARG_DEVICE][i]);

		c.offsets[i] = Int64GetDatum(-1);
		c.shards[i] = Int32GetDatum(is_too_large(&c, i, info) ? -1 :
									fl_partition((uint8 *) VARDATA_ANY(device), VARSIZE_ANY_EXHDR(device), nshards));
	}
	for (int32 s = 0; s < nshards; s++)
	{
		write_shard(&c, info, s);
		/* A lock that was waited for may have brought news. */
		info = fl_stream_lookup(stream);
		if (info == NULL || info->shards != nshards)
			ereport(ERROR,
					(errcode(fl_error_sqlstate(FL_ERR_MAP_CHANGED)),
					 errmsg("the number of shards of the stream of commands was changed at the same time")));
	}
	values[0] = PointerGetDatum(construct_array(c.shards, c.n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	values[1] = PointerGetDatum(construct_array(c.offsets, c.n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
