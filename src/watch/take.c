/*-------------------------------------------------------------------------
 *
 * take.c
 *		fleetlog.take(): a consumer's next records, its position moved on in the
 *		caller's transaction (REQUIREMENTS S2); and setting such a position.
 *
 * Positions are rows of fleetlog.consumer_position, one a shard.  take() locks
 * the rows of its consumer and stream, so that two takers of one consumer follow
 * each other; what the transaction writes and the position commit together, or
 * neither does.  The position's commit record lies behind those of the records
 * in one WAL, so a consumer is never ahead of the log after a crash.
 *
 * A consumer belongs to the role that used its name first for a stream; others
 * cannot move it, except fleetlog_admin.  The rows are written as the owner of
 * the extension, after the rights have been checked here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/errors.h"
#include "fleetlog/watch.h"

#define FL_CONSUMER_MAX		255 /* bytes of a consumer's name */

PG_FUNCTION_INFO_V1(fl_sql_take);
PG_FUNCTION_INFO_V1(fl_sql_seek_consumer);
PG_FUNCTION_INFO_V1(fl_sql_forget_consumer);

/* ---- the rows ---------------------------------------------------------------------- */

static bool
is_admin(void)
{
	Oid			admin = get_role_oid("fleetlog_admin", true);

	return superuser() || (OidIsValid(admin) && has_privs_of_role(GetUserId(), admin));
}

static void
check_owner(text *consumer, Oid owner)
{
	if (has_privs_of_role(GetUserId(), owner) || is_admin())
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("consumer \"%s\" belongs to another role", text_to_cstring(consumer)),
			 errhint("Choose another name for the consumer, or become a member of the role that has it.")));
}

static void
check_name(text *consumer)
{
	if (VARSIZE_ANY_EXHDR(consumer) == 0 || VARSIZE_ANY_EXHDR(consumer) > FL_CONSUMER_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the name of a consumer must have 1 to %d bytes", FL_CONSUMER_MAX)));
}

/*
 * Make the rows that are missing.  A second taker of a new consumer waits here
 * for the first one's transaction.
 */
static void
make_rows(text *consumer, Oid stream, int nshards)
{
	Oid			types[5] = {TEXTOID, REGCLASSOID, INT4OID, OIDOID, INT8OID};

	for (int s = 0; s < nshards; s++)
	{
		Datum		values[5] = {
			PointerGetDatum(consumer), ObjectIdGetDatum(stream), Int32GetDatum(s),
			ObjectIdGetDatum(GetUserId()), Int64GetDatum(fl_log_head(stream, s))
		};

		(void) fl_config_execute("INSERT INTO fleetlog.consumer_position (consumer, stream, shard, owner, log_offset)"
								 " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
								 5, types, values, NULL);
	}
}

typedef struct LockedRows
{
	text	   *consumer;
	FlPositions *pos;
	int			seen;
} LockedRows;

static void
on_locked_row(void *arg, HeapTuple tuple, TupleDesc desc)
{
	LockedRows *rows = arg;
	bool		isnull;
	int32		shard = DatumGetInt32(SPI_getbinval(tuple, desc, 1, &isnull));
	Datum		epoch;

	check_owner(rows->consumer, DatumGetObjectId(SPI_getbinval(tuple, desc, 4, &isnull)));
	if (shard < 0 || shard >= rows->pos->nshards)
		return;
	rows->pos->shards[shard].at.offset = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &isnull));
	epoch = SPI_getbinval(tuple, desc, 3, &isnull);
	rows->pos->shards[shard].epoch = isnull ? FL_NO_EPOCH : DatumGetInt32(epoch);
	rows->seen++;
}

/* Lock the rows, in one order for everybody, and read them. */
static int
lock_rows(text *consumer, FlPositions *pos)
{
	Oid			types[2] = {TEXTOID, REGCLASSOID};
	Datum		values[2] = {PointerGetDatum(consumer), ObjectIdGetDatum(pos->stream)};
	LockedRows	rows = {.consumer = consumer,.pos = pos};

	fl_config_query("SELECT shard, log_offset, epoch, owner::pg_catalog.oid FROM fleetlog.consumer_position"
					" WHERE consumer = $1 AND stream = $2 ORDER BY shard FOR UPDATE",
					2, types, values, on_locked_row, &rows);
	return rows.seen;
}

static void
store_position(text *consumer, Oid stream, int shard, const FlShardPosition *p)
{
	Oid			types[5] = {TEXTOID, REGCLASSOID, INT4OID, INT8OID, INT4OID};
	Datum		values[5] = {
		PointerGetDatum(consumer), ObjectIdGetDatum(stream), Int32GetDatum(shard),
		Int64GetDatum(p->at.offset), Int32GetDatum(p->epoch)
	};
	bool		nulls[5] = {false, false, false, false, p->epoch == FL_NO_EPOCH};

	(void) fl_config_execute("UPDATE fleetlog.consumer_position SET log_offset = $4, epoch = $5, updated = pg_catalog.clock_timestamp()"
							 " WHERE consumer = $1 AND stream = $2 AND shard = $3",
							 5, types, values, nulls);
}

/* Positions of the consumer, its rows locked until the end of the transaction. */
static FlPositions *
consumer_positions(text *consumer, Oid stream, int nshards)
{
	FlPositions *pos = fl_positions_parse(stream, nshards, NULL);

	pos->with_epochs = true;
	if (lock_rows(consumer, pos) < nshards)
	{
		make_rows(consumer, stream, nshards);
		(void) lock_rows(consumer, pos);
	}
	return pos;
}

/* ---- take ---------------------------------------------------------------------------- */

static void
put_row(void *arg, Datum *values, bool *isnull)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) arg;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, isnull);
}

Datum
fl_sql_take(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	text	   *consumer = PG_GETARG_TEXT_PP(0);
	Oid			stream = PG_GETARG_OID(1);
	FlTailReader r = {0};
	int			nshards;
	int64	   *before;

	FL_INIT_MATERIALIZED_SRF(fcinfo);
	check_name(consumer);
	nshards = fl_tail_check_stream(stream);
	r.max = PG_GETARG_INT32(2);
	if (r.max < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_records must not be negative")));
	r.pos = consumer_positions(consumer, stream, nshards);
	before = palloc(sizeof(int64) * nshards);
	for (int s = 0; s < nshards; s++)
	{
		before[s] = r.pos->shards[s].at.offset;
		if (r.pos->shards[s].epoch != FL_NO_EPOCH)
			fl_position_check_epoch(stream, s, before[s], r.pos->shards[s].epoch);
	}
	r.sink = put_row;
	r.arg = rsinfo;
	r.ask_flusher = true;
	fl_tail_read_wait(&r, FL_WAIT_TAKE, fl_wait_until(PG_GETARG_INTERVAL_P(3)));

	/* The stream may have got shards while we waited. */
	make_rows(consumer, stream, r.pos->nshards > nshards ? r.pos->nshards : 0);
	for (int s = 0; s < r.pos->nshards; s++)
		if (s >= nshards || r.pos->shards[s].at.offset != before[s])
			store_position(consumer, stream, s, &r.pos->shards[s]);
	return (Datum) 0;
}

/* ---- setting and dropping ----------------------------------------------------------------- */

Datum
fl_sql_seek_consumer(PG_FUNCTION_ARGS)
{
	text	   *consumer = PG_GETARG_TEXT_PP(0);
	Oid			stream = PG_GETARG_OID(1);
	int			nshards = fl_tail_check_stream(stream);
	FlPositions *wanted = fl_positions_parse(stream, nshards, PG_ARGISNULL(2) ? NULL : PG_GETARG_JSONB_P(2));

	check_name(consumer);
	(void) consumer_positions(consumer, stream, nshards);
	for (int s = 0; s < nshards; s++)
		store_position(consumer, stream, s, &wanted->shards[s]);
	PG_RETURN_VOID();
}

Datum
fl_sql_forget_consumer(PG_FUNCTION_ARGS)
{
	text	   *consumer = PG_GETARG_TEXT_PP(0);
	Oid			stream = PG_GETARG_OID(1);
	Oid			types[2] = {TEXTOID, REGCLASSOID};
	Datum		values[2] = {PointerGetDatum(consumer), ObjectIdGetDatum(stream)};
	FlPositions *pos = fl_positions_parse(stream, fl_tail_check_stream(stream), NULL);

	(void) lock_rows(consumer, pos);
	PG_RETURN_BOOL(fl_config_execute("DELETE FROM fleetlog.consumer_position WHERE consumer = $1 AND stream = $2",
									 2, types, values, NULL) > 0);
}
