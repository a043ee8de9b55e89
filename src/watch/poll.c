/*-------------------------------------------------------------------------
 *
 * poll.c
 *		fleetlog.poll(): records of all shards of a stream from given positions
 *		on, and where to go on (REQUIREMENTS S1).
 *
 * The reader keeps its positions itself; the server keeps nothing of it between
 * two calls.  Column `next` is the same in every row: the positions behind all
 * that this call returned or passed over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "fleetlog/compat.h"
#include "fleetlog/topic.h"
#include "fleetlog/watch.h"

PG_FUNCTION_INFO_V1(fl_sql_poll);

#define POLL_COLUMNS	(FL_NATTS + 1)

static void
keep_row(void *arg, Datum *values, bool *isnull)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) arg;
	Datum		row[POLL_COLUMNS];
	bool		nulls[POLL_COLUMNS];

	/* `next` is known only at the end: it is put in when the rows are handed on. */
	memcpy(row, values, sizeof(Datum) * FL_NATTS);
	memcpy(nulls, isnull, sizeof(bool) * FL_NATTS);
	row[FL_NATTS] = (Datum) 0;
	nulls[FL_NATTS] = true;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row, nulls);
}

/* Write the rows again, with `next`. */
static void
add_next(ReturnSetInfo *rsinfo, Tuplestorestate *rows, Datum next)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(rsinfo->setDesc, &TTSOpsMinimalTuple);

	while (tuplestore_gettupleslot(rows, true, false, slot))
	{
		slot_getallattrs(slot);
		slot->tts_values[FL_NATTS] = next;
		slot->tts_isnull[FL_NATTS] = false;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, slot->tts_values, slot->tts_isnull);
	}
	ExecDropSingleTupleTableSlot(slot);
}

static void
put_next_only(ReturnSetInfo *rsinfo, Datum next)
{
	Datum		row[POLL_COLUMNS] = {0};
	bool		nulls[POLL_COLUMNS];

	memset(nulls, true, sizeof(nulls));
	row[FL_NATTS] = next;
	nulls[FL_NATTS] = false;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row, nulls);
}

static void
set_filter(FlTailReader *r, text *filter)
{
	r->filter = (uint8 *) VARDATA_ANY(filter);
	r->filter_len = VARSIZE_ANY_EXHDR(filter);
	if (!fl_topic_filter_valid(r->filter, r->filter_len))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid topic filter"),
				 errdetail("A filter has at least one character and at most %d bytes; \"+\" stands for a whole level, \"#\" for the whole rest.",
						   FL_TOPIC_MAX_LEN)));
}

Datum
fl_sql_poll(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FlTailReader r = {0};
	Tuplestorestate *rows;
	Datum		next;
	Oid			stream;

	FL_INIT_MATERIALIZED_SRF(fcinfo);
	if (PG_ARGISNULL(0) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
		return (Datum) 0;
	stream = PG_GETARG_OID(0);
	r.pos = fl_positions_parse(stream, fl_tail_check_stream(stream), PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1));
	r.max = PG_GETARG_INT32(2);
	if (r.max < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_records must not be negative")));
	if (!PG_ARGISNULL(4))
		set_filter(&r, PG_GETARG_TEXT_PP(4));
	r.sink = keep_row;
	r.arg = rsinfo;
	r.ask_flusher = true;
	fl_tail_read_wait(&r, FL_WAIT_POLL, fl_wait_until(PG_GETARG_INTERVAL_P(3)));
	if (r.found == 0 && !r.skipped)
		return (Datum) 0;

	next = fl_positions_datum(r.pos);
	if (r.found == 0)
	{
		put_next_only(rsinfo, next);
		return (Datum) 0;
	}
	rows = rsinfo->setResult;
	{
		MemoryContext old = MemoryContextSwitchTo(rsinfo->econtext->ecxt_per_query_memory);

		rsinfo->setResult = tuplestore_begin_heap((rsinfo->allowedModes & SFRM_Materialize_Random) != 0,
												  false, work_mem);
		MemoryContextSwitchTo(old);
	}
	add_next(rsinfo, rows, next);
	tuplestore_end(rows);
	return (Datum) 0;
}
