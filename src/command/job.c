/*-------------------------------------------------------------------------
 *
 * job.c
 *		Jobs: create_job(), pause_job(), resume_job(), cancel_job() (C3).
 *
 * The query that names the devices is the caller's: it runs once, at the call,
 * as the caller, read-only and security-restricted, so that it can do nothing
 * that he could not do by himself in a SELECT.  What it named is kept; all else
 * is done by the dispatcher (sql/modules/089_job.sql).
 *
 * Who may command every tenant that a job touches may also pause, resume and
 * cancel it; for others it is not there.  The job's row is locked while it is changed, by the dispatcher as
 * well, so after pause_job and cancel_job have committed nothing is issued.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "fleetlog/command.h"
#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/shmem.h"
#include "command_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_create_job);
PG_FUNCTION_INFO_V1(fl_sql_pause_job);
PG_FUNCTION_INFO_V1(fl_sql_resume_job);
PG_FUNCTION_INFO_V1(fl_sql_cancel_job);

enum
{
	ARG_NAME, ARG_COMMAND, ARG_PAYLOAD, ARG_DEVICES, ARG_WAVE, ARG_TTL, ARG_RATE, ARG_CONCURRENCY, ARG_ANSWER_TIMEOUT
};

/* ---- the query -------------------------------------------------------------------- */

/* The first column of all rows; *n of them.  In the caller's memory. */
static Datum *
take_names(MemoryContext mcxt, int *n)
{
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	Datum	   *names = palloc(sizeof(Datum) * Max(SPI_processed, 1));

	*n = (int) SPI_processed;
	for (int i = 0; i < *n; i++)
	{
		char	   *name = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);

		if (name == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("the query of devices returned NULL")));
		names[i] = CStringGetTextDatum(name);
	}
	MemoryContextSwitchTo(old);
	return names;
}

static void
run_query(const char *query)
{
	SPIPlanPtr	plan = SPI_prepare(query, 0, NULL);

	if (plan == NULL)
		elog(ERROR, "query of devices cannot be prepared: %s", SPI_result_code_string(SPI_result));
	if (!SPI_is_cursor_plan(plan))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("devices must be one query that returns rows")));
	if (SPI_execute_plan(plan, NULL, NULL, true, 0) != SPI_OK_SELECT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("devices must be a SELECT")));
}

static ArrayType *
ask_devices(text *query)
{
	MemoryContext mcxt = CurrentMemoryContext;
	Oid			save_user;
	int			save_context;
	int			level = NewGUCNestLevel();
	Datum	   *names;
	int			n;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(save_user, save_context | SECURITY_RESTRICTED_OPERATION);
	SPI_connect();
	run_query(text_to_cstring(query));
	names = take_names(mcxt, &n);
	SPI_finish();
	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(save_user, save_context);
	return construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT);
}

/* ---- rights ------------------------------------------------------------------------- */

/* Every tenant that names tell must be one that may be commanded. */
static void
check_names(const FlCommandTenants *may, ArrayType *array)
{
	Datum	   *names;
	int			n;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &n);
	for (int i = 0; i < n; i++)
		fl_command_check_device(may, DatumGetTextPP(names[i]));
}

/* A job that touches other tenants than those that may be commanded is not there for the caller. */
static void
check_job(text *name)
{
	FlCommandTenants may = fl_command_tenants();
	Oid			types[3] = {TEXTOID, TEXTARRAYOID, BOOLOID};
	Datum		values[3] = {PointerGetDatum(name), PointerGetDatum(may.names), BoolGetDatum(may.all)};
	bool		isnull;

	(void) fl_config_query_int("SELECT 1::bigint FROM fleetlog.job_config j WHERE j.name = $1 AND ($3"
							   " OR NOT EXISTS (SELECT FROM fleetlog.job_target t WHERE t.job = j.name AND t.tenant <> ALL ($2)))",
							   3, types, values, &isnull);
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("job \"%s\" does not exist", text_to_cstring(name)),
				 fl_command_not_there(&may)));
}

/* ---- create_job ------------------------------------------------------------------------ */

static void
check_arguments(FunctionCallInfo fcinfo)
{
	static const struct
	{
		int			arg;
		const char *name;
	}			needed[] = {
		{ARG_NAME, "name"}, {ARG_COMMAND, "command"}, {ARG_PAYLOAD, "payload"}, {ARG_DEVICES, "devices"}, {ARG_TTL, "ttl"}
	};
	text	   *name;

	for (int i = 0; i < lengthof(needed); i++)
		if (PG_ARGISNULL(needed[i].arg))
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be NULL", needed[i].name)));
	name = PG_GETARG_TEXT_PP(ARG_NAME);
	if (VARSIZE_ANY_EXHDR(name) == 0 || VARSIZE_ANY_EXHDR(name) > 255)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("the name of a job has 1 to 255 bytes")));
	fl_command_check_name(PG_GETARG_TEXT_PP(ARG_COMMAND));
	fl_command_check_payload(PG_GETARG_DATUM(ARG_PAYLOAD));
	if ((!PG_ARGISNULL(ARG_WAVE) && PG_GETARG_INT32(ARG_WAVE) <= 0) ||
		(!PG_ARGISNULL(ARG_CONCURRENCY) && PG_GETARG_INT32(ARG_CONCURRENCY) <= 0))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("wave and concurrency must be positive")));
}

static void
check_rate(double rate)
{
	if (isnan(rate) || rate <= 0 || rate > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stop_at_failure_rate must be greater than 0 and at most 1"),
				 errhint("Leave it out for a job that does not stop by itself.")));
}

static void
check_new(text *name)
{
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {PointerGetDatum(name)};
	bool		isnull;

	(void) fl_config_query_int("SELECT 1::bigint FROM fleetlog.job_config WHERE name = $1", 1, types, values, &isnull);
	if (!isnull)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("job \"%s\" already exists", text_to_cstring(name))));
}

/* Writes the job and its devices; returns how many. */
static uint64
write_job(FunctionCallInfo fcinfo, const FlCommandTenants *may, ArrayType *devices, Interval *ttl)
{
	Oid			types[14] = {TEXTOID, TEXTOID, JSONBOID, TEXTOID, INT4OID, INTERVALOID, FLOAT8OID, INT4OID, INTERVALOID, TEXTARRAYOID, TEXTOID, TEXTOID, TEXTARRAYOID, BOOLOID};
	Datum		values[14];
	bool		nulls[14] = {false};

	for (int i = 0; i <= ARG_CONCURRENCY; i++)
	{
		values[i] = PG_GETARG_DATUM(i);
		nulls[i] = PG_ARGISNULL(i);
	}
	values[ARG_TTL] = IntervalPGetDatum(ttl);
	values[ARG_ANSWER_TIMEOUT] = IntervalPGetDatum(fl_command_checked_answer_timeout(fcinfo, ARG_ANSWER_TIMEOUT, ttl->time));
	values[9] = PointerGetDatum(devices);
	values[10] = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	values[11] = CStringGetTextDatum(GetUserNameFromId(GetSessionUserId(), false));
	values[12] = PointerGetDatum(may->names);
	values[13] = BoolGetDatum(may->all);
	return fl_config_execute("WITH t AS MATERIALIZED (SELECT * FROM fleetlog._job_targets($10, CASE WHEN $14 THEN NULL ELSE $13 END)), n AS (SELECT count(*)::int AS n FROM t),"
							 " j AS (INSERT INTO fleetlog.job_config (name, command, payload, devices, targets, wave, concurrency, ttl, answer_timeout, stop_at_failure_rate, issued_by, issued_login, created_at, changed_at)"
							 " SELECT $1, $2, $3, $4, n, coalesce($5, n), coalesce($8, n), $6, $9, $7, $11, $12, clock_timestamp(), clock_timestamp() FROM n WHERE n > 0)"
							 " INSERT INTO fleetlog.job_target (job, number, tenant, device) SELECT $1, t.number, t.tenant, t.device FROM t",
							 14, types, values, nulls);
}

Datum
fl_sql_create_job(PG_FUNCTION_ARGS)
{
	FlCommandTenants may;
	Interval   *ttl = palloc0(sizeof(Interval));
	ArrayType  *devices;
	uint64		n;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog.create_job()");
	PreventCommandIfParallelMode("fleetlog.create_job()");
	check_arguments(fcinfo);
	ttl->time = fl_command_checked_ttl(PG_GETARG_INTERVAL_P(ARG_TTL));
	if (!PG_ARGISNULL(ARG_RATE))
		check_rate(PG_GETARG_FLOAT8(ARG_RATE));
	may = fl_command_tenants();
	check_new(PG_GETARG_TEXT_PP(ARG_NAME));
	devices = ask_devices(PG_GETARG_TEXT_PP(ARG_DEVICES));
	check_names(&may, devices);
	n = write_job(fcinfo, &may, devices, ttl);
	if (n == 0)
		ereport(ERROR, (errcode(ERRCODE_NO_DATA_FOUND), errmsg("the query names no device")));
	fl_command_wake_at_commit();
	PG_RETURN_INT32((int32) n);
}

/* ---- changing --------------------------------------------------------------------------------- */

/* Waits for the dispatcher's turn with the job; an error when it is in none of the states. */
static void
change_job(text *name, const char *sql, const char *what)
{
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {PointerGetDatum(name)};

	if (fl_config_execute(sql, 1, types, values, NULL) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("job \"%s\" %s", text_to_cstring(name), what),
				 errhint("Its state is in fleetlog.job.")));
	fl_command_wake_at_commit();
}

Datum
fl_sql_pause_job(PG_FUNCTION_ARGS)
{
	text	   *name = PG_GETARG_TEXT_PP(0);

	PreventCommandIfReadOnly("fleetlog.pause_job()");
	check_job(name);
	change_job(name, "UPDATE fleetlog.job_config SET state = 'paused', changed_at = clock_timestamp() WHERE name = $1 AND state = 'running'", "is not running");
	PG_RETURN_VOID();
}

Datum
fl_sql_resume_job(PG_FUNCTION_ARGS)
{
	text	   *name;

	PreventCommandIfReadOnly("fleetlog.resume_job()");
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("name must not be NULL")));
	name = PG_GETARG_TEXT_PP(0);
	check_job(name);
	if (!PG_ARGISNULL(1))
	{
		Oid			types[2] = {TEXTOID, FLOAT8OID};
		Datum		values[2] = {PointerGetDatum(name), PG_GETARG_DATUM(1)};

		check_rate(PG_GETARG_FLOAT8(1));
		fl_config_execute("UPDATE fleetlog.job_config SET stop_at_failure_rate = $2 WHERE name = $1", 2, types, values, NULL);
	}
	change_job(name, "UPDATE fleetlog.job_config SET state = 'running', detail = NULL, changed_at = clock_timestamp() WHERE name = $1 AND state IN ('paused', 'stopped')", "is neither paused nor stopped");
	PG_RETURN_VOID();
}

Datum
fl_sql_cancel_job(PG_FUNCTION_ARGS)
{
	text	   *name = PG_GETARG_TEXT_PP(0);
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {PointerGetDatum(name)};

	PreventCommandIfReadOnly("fleetlog.cancel_job()");
	check_job(name);
	change_job(name, "UPDATE fleetlog.job_config SET state = 'cancelled', changed_at = clock_timestamp(), finished_at = clock_timestamp() WHERE name = $1 AND state IN ('running', 'paused', 'stopped')", "is over");
	/* The dispatcher may be about to send some of them: its row locks are waited for. */
	fl_config_execute("WITH c AS (UPDATE fleetlog.command SET state = 'cancelled', finished_at = clock_timestamp(), detail = 'the job was cancelled'"
					  " WHERE job = $1 AND state = 'pending' RETURNING id, tenant, finished_at, detail)"
					  " INSERT INTO fleetlog.command_event (command, tenant, at, event, detail) SELECT id, tenant, finished_at, 'cancelled', detail FROM c",
					  1, types, values, NULL);
	PG_RETURN_VOID();
}
