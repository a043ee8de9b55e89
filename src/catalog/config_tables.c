/*-------------------------------------------------------------------------
 *
 * config_tables.c
 *		Access to the configuration tables in schema fleetlog.
 *
 * Reading goes straight to the heap with a catalog snapshot: no rights are
 * asked, because workers run as a role that has none and because an append by
 * an ordinary user needs to know the stream's settings.  Nothing read here is
 * handed to a user except through functions that check.
 *
 * Writing goes through SQL under the identity of the extension's owner, so
 * that checks, foreign keys and triggers of the tables hold for everybody.
 * Callers have decided before that the user is entitled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "catalog_internal.h"
#include "fleetlog/config.h"

static const char *const table_names[FL_N_TABLES] = {
	[FL_TABLE_STREAM] = "stream_config",
	[FL_TABLE_SHARD] = "shard_config",
	[FL_TABLE_EPOCH] = "epoch_config",
	[FL_TABLE_MOUNT] = "mount_config",
	[FL_TABLE_STATE] = "state_config",
	[FL_TABLE_TENANT] = "tenant",
	[FL_TABLE_DEVICE] = "device",
	[FL_TABLE_CREDENTIAL] = "credential",
	[FL_TABLE_POLICY] = "policy",
	[FL_TABLE_HOLD] = "hold_config",
	[FL_TABLE_HOLD_RANGE] = "hold_range_config",
	[FL_TABLE_DETACHED] = "detached_segment",
	[FL_TABLE_PRODUCER] = "producer_snapshot",
	[FL_INDEX_SHARD] = "shard_config_key",
	[FL_INDEX_EPOCH] = "epoch_config_key",
	[FL_INDEX_DEVICE_ID] = "device_id",
	[FL_INDEX_DEVICE] = "device_pkey",
	[FL_INDEX_CREDENTIAL] = "credential_pkey",
	[FL_INDEX_CREDENTIAL_DEVICE] = "credential_device",
	[FL_INDEX_CREDENTIAL_CERTIFICATE] = "credential_certificate",
	[FL_INDEX_HOLD] = "hold_config_pkey",
	[FL_INDEX_HOLD_RANGE] = "hold_range_config_key",
	[FL_INDEX_PRODUCER] = "producer_snapshot_pkey",
};

Oid
fl_config_relid(FlTable table)
{
	Oid			nsp = get_namespace_oid(FL_SCHEMA, true);

	if (!OidIsValid(nsp))
		return InvalidOid;
	return get_relname_relid(table_names[table], nsp);
}

Relation
fl_config_open(FlTable table)
{
	Oid			relid = fl_config_relid(table);

	if (!OidIsValid(relid))
		return NULL;
	return try_table_open(relid, AccessShareLock);
}

char *
fl_config_text(HeapTuple tuple, int attnum, TupleDesc desc)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, attnum, desc, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

int64
fl_config_int(HeapTuple tuple, int attnum, TupleDesc desc, bool is_bigint)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, attnum, desc, &isnull);

	if (isnull)
		return 0;
	return is_bigint ? DatumGetInt64(value) : DatumGetInt32(value);
}

/* An interval in microseconds, a month counted as 30 days; 0 for NULL. */
int64
fl_config_interval_us(HeapTuple tuple, int attnum, TupleDesc desc)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, attnum, desc, &isnull);
	Interval   *iv;
	double		us;

	if (isnull)
		return 0;
	iv = DatumGetIntervalP(value);
	us = (double) iv->time + ((double) iv->day + (double) iv->month * DAYS_PER_MONTH) * (double) USECS_PER_DAY;

	/* "For ever" and absurdly long mean the same; keep arithmetic safe. */
	if (us > (double) (PG_INT64_MAX / 4))
		return PG_INT64_MAX / 4;
	return us < 0 ? 0 : (int64) us;
}

/* Owner of the configuration tables, which is the owner of the extension. */
static Oid
config_owner(void)
{
	Oid			relid = fl_config_relid(FL_TABLE_STREAM);
	HeapTuple	tuple = OidIsValid(relid) ? SearchSysCache1(RELOID, ObjectIdGetDatum(relid)) : NULL;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"fleetlog\" is not installed in this database"),
				 errhint("Install it with CREATE EXTENSION fleetlog.")));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* Pin the search path for as long as the returned level lasts. */
static int
pin_search_path(void)
{
	int			level = NewGUCNestLevel();

	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

/* ---- plans ---------------------------------------------------------------------------- */

/* Statements whose plans a session keeps.  Few are made at run time, as those of a loop; what comes when all are taken is planned each time. */
#define MAX_PLANS			128
#define MAX_PLANNED_BYTES	2048

typedef struct PlanEntry
{
	char		sql[MAX_PLANNED_BYTES];
	SPIPlanPtr	plan;
} PlanEntry;

static HTAB *plans;

static void
make_plans(void)
{
	HASHCTL		ctl = {.keysize = MAX_PLANNED_BYTES, .entrysize = sizeof(PlanEntry), .hcxt = CacheMemoryContext};

	plans = hash_create("fleetlog plans", 16, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

static bool
has_types(SPIPlanPtr plan, int nargs, const Oid *types)
{
	bool		same = SPI_getargcount(plan) == nargs;

	for (int i = 0; i < nargs && same; i++)
		same = SPI_getargtypeid(plan, i) == types[i];
	return same;
}

/*
 * The plan of a statement, kept for the life of the session; NULL: none is kept.  PostgreSQL's plan cache sees to
 * what changes below it.  Never freed, so that a statement that runs others through here keeps its own.
 */
static SPIPlanPtr
kept_plan(const char *sql, int nargs, Oid *types)
{
	PlanEntry  *entry;
	SPIPlanPtr	plan;

	if (strlen(sql) >= MAX_PLANNED_BYTES)
		return NULL;
	if (plans == NULL)
		make_plans();
	entry = hash_search(plans, sql, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->plan != NULL && has_types(entry->plan, nargs, types) ? entry->plan : NULL;
	if (hash_get_num_entries(plans) >= MAX_PLANS)
		return NULL;
	plan = SPI_prepare(sql, nargs, types);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	entry = hash_search(plans, sql, HASH_ENTER, NULL);
	entry->plan = NULL;
	if (SPI_keepplan(plan) != 0)
		elog(ERROR, "could not keep the plan of \"%s\"", sql);
	entry->plan = plan;
	return plan;
}

static void
execute_checked(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	SPIPlanPtr	plan = kept_plan(sql, nargs, types);
	int			rc = plan != NULL ? SPI_execute_plan(plan, values, nulls, false, 0) :
		SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0);

	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", sql, SPI_result_code_string(rc));
}

static char *
null_flags(int nargs, const bool *nulls)
{
	char	   *flags = palloc(nargs + 1);

	for (int i = 0; i < nargs; i++)
		flags[i] = nulls != NULL && nulls[i] ? 'n' : ' ';
	flags[nargs] = '\0';
	return flags;
}

/*
 * At commit, when the last batch of a COPY is written, no statement and so no
 * snapshot is there any more.  True: the caller has to pop the one pushed here.
 */
static bool
need_snapshot(void)
{
	if (ActiveSnapshotSet())
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	return true;
}

uint64
fl_config_execute(const char *sql, int nargs, Oid *types, Datum *values, const bool *nulls)
{
	Oid			save_user;
	int			save_context;
	int			level;
	bool		pushed;
	uint64		n;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(config_owner(), save_context | SECURITY_LOCAL_USERID_CHANGE);
	level = pin_search_path();
	pushed = need_snapshot();
	SPI_connect();
	execute_checked(sql, nargs, types, values, null_flags(nargs, nulls));
	n = SPI_processed;
	SPI_finish();
	if (pushed)
		PopActiveSnapshot();
	AtEOXact_GUC(true, level);
	SetUserIdAndSecContext(save_user, save_context);
	return n;
}

int64
fl_config_query_int(const char *sql, int nargs, Oid *types, Datum *values, bool *isnull)
{
	Oid			save_user;
	int			save_context;
	int			level;
	bool		pushed;
	int64		result = 0;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(config_owner(), save_context | SECURITY_LOCAL_USERID_CHANGE);
	level = pin_search_path();
	pushed = need_snapshot();
	SPI_connect();
	execute_checked(sql, nargs, types, values, null_flags(nargs, NULL));
	*isnull = true;
	if (SPI_processed > 0)
		result = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, isnull));
	if (*isnull)
		result = 0;
	SPI_finish();
	if (pushed)
		PopActiveSnapshot();
	AtEOXact_GUC(true, level);
	SetUserIdAndSecContext(save_user, save_context);
	return result;
}

void
fl_config_ddl(const char *sql)
{
	int			level = pin_search_path();
	int			rc;

	SPI_connect();
	rc = SPI_execute(sql, false, 0);
	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", sql, SPI_result_code_string(rc));
	SPI_finish();
	AtEOXact_GUC(true, level);
}

void
fl_config_query(const char *sql, int nargs, Oid *types, Datum *values,
				void (*row) (void *arg, HeapTuple tuple, TupleDesc desc), void *arg)
{
	fl_config_query_nulls(sql, nargs, types, values, NULL, row, arg);
}

void
fl_config_query_nulls(const char *sql, int nargs, Oid *types, Datum *values, const bool *nulls,
					  void (*row) (void *arg, HeapTuple tuple, TupleDesc desc), void *arg)
{
	Oid			save_user;
	int			save_context;
	int			level;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(config_owner(), save_context | SECURITY_LOCAL_USERID_CHANGE);
	level = pin_search_path();
	SPI_connect();
	execute_checked(sql, nargs, types, values, null_flags(nargs, nulls));
	AtEOXact_GUC(true, level);
	/* Rows are looked at as the caller, whose rights the callback may ask for. */
	SetUserIdAndSecContext(save_user, save_context);
	for (uint64 i = 0; i < SPI_processed; i++)
		row(arg, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
	SPI_finish();
}
