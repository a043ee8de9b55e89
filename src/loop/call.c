/*-------------------------------------------------------------------------
 *
 * call.c
 *		Functions about loops that are written in SQL and work on tables of the
 *		extension: who calls them is found out here.
 *
 * A SECURITY DEFINER function cannot tell who called it.  So what users call is a C
 * function that runs its twin as the owner of the extension, with the OID of the role
 * that called in front of the arguments:
 *
 *		alter_loop(...)		->	_alter_loop(caller, ...)
 *		_loop_register(...)	->	_loop_register_as(caller, ...)
 *
 * The twin decides what the caller may do; nobody else may execute it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/shmem.h"

PG_FUNCTION_INFO_V1(fl_sql_loop_call);

#define MAX_ARGS	24

typedef struct Call
{
	FunctionCallInfo fcinfo;
	MemoryContext mcxt;			/* the caller's: results of a scalar function */
	Datum		result;
	bool		isnull;
} Call;

/*
 * "SELECT fleetlog.<twin>($1, ...)", so that a composite result is one column, of a set
 * "SELECT * FROM" that, and the types of its arguments; returns their number.
 */
static int
make_statement(Oid function, StringInfo sql, Oid *types)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	const char *name;
	const char *from;
	int			n;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	name = NameStr(proc->proname);
	from = proc->proretset ? "* FROM " : "";
	n = proc->pronargs + 1;
	if (n > MAX_ARGS)
		elog(ERROR, "too many arguments");
	if (name[0] == '_')
		appendStringInfo(sql, "SELECT %sfleetlog.%s_as($1", from, name);
	else
		appendStringInfo(sql, "SELECT %sfleetlog._%s($1", from, name);
	types[0] = OIDOID;
	for (int i = 1; i < n; i++)
	{
		types[i] = proc->proargtypes.values[i - 1];
		appendStringInfo(sql, ", $%d", i + 1);
	}
	appendStringInfoChar(sql, ')');
	ReleaseSysCache(tuple);
	return n;
}

static void
on_row(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Call	   *call = arg;
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) call->fcinfo->resultinfo;

	if (call->fcinfo->flinfo->fn_retset)
	{
		tuplestore_puttuple(rsinfo->setResult, tuple);
		return;
	}
	call->result = SPI_getbinval(tuple, desc, 1, &call->isnull);
	/* void is a type of no bytes that passes by value. */
	if (!call->isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(call->mcxt);

		call->result = datumCopy(call->result, TupleDescAttr(desc, 0)->attbyval, TupleDescAttr(desc, 0)->attlen);
		MemoryContextSwitchTo(old);
	}
}

Datum
fl_sql_loop_call(PG_FUNCTION_ARGS)
{
	StringInfoData sql;
	Oid			types[MAX_ARGS];
	Datum		values[MAX_ARGS];
	bool		nulls[MAX_ARGS] = {false};
	Call		call = {.fcinfo = fcinfo,.mcxt = CurrentMemoryContext,.isnull = true};
	int			n;

	fl_require_preload();
	initStringInfo(&sql);
	n = make_statement(fcinfo->flinfo->fn_oid, &sql, types);
	values[0] = ObjectIdGetDatum(GetUserId());
	for (int i = 1; i < n; i++)
	{
		nulls[i] = PG_ARGISNULL(i - 1);
		values[i] = nulls[i] ? (Datum) 0 : PG_GETARG_DATUM(i - 1);
	}
	if (fcinfo->flinfo->fn_retset)
		FL_INIT_MATERIALIZED_SRF(fcinfo);
	fl_config_query_nulls(sql.data, n, types, values, nulls, on_row, &call);
	if (fcinfo->flinfo->fn_retset)
		return (Datum) 0;
	fcinfo->isnull = call.isnull;
	return call.result;
}
