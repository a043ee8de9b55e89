/*-------------------------------------------------------------------------
 *
 * rls.c
 *		Records of a stream as a role sees them that policies restrict.
 *
 * Through SPI as the current role: the planner adds the policies, and puts them
 * before whatever could leak.  The query's operators are named with their
 * schema, for the search_path is the caller's; it is left as it is, because
 * functions that policies call may rely on it.
 *
 * Called by read() here and by poll() and take().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "fleetlog/rls.h"
#include "log_private.h"

bool
fl_rls_applies(Oid relid)
{
	return check_enable_rls(relid, InvalidOid, false) == RLS_ENABLED;
}

static void
check_head(Oid stream, int32 shard, int64 from)
{
	int64		head = fl_log_head(stream, shard);

	if (from < head)
		fl_log_too_old(stream, shard, from, head);
}

static char *
query_of(Oid stream)
{
	return psprintf("SELECT shard, log_offset, ts, created, tenant, device, key, key_bytes, headers, payload FROM %s"
					" WHERE shard OPERATOR(pg_catalog.=) $1 AND log_offset OPERATOR(pg_catalog.>=) $2"
					" AND log_offset OPERATOR(pg_catalog.<) $3 ORDER BY log_offset LIMIT $4",
					quote_qualified_identifier(get_namespace_name(get_rel_namespace(stream)), get_rel_name(stream)));
}

int64
fl_rls_read(Oid stream, int32 shard, int64 from, int64 upto, int32 max, FlRlsRow row, void *arg)
{
	Oid			types[4] = {INT4OID, INT8OID, INT8OID, INT4OID};
	Datum		values[4] = {Int32GetDatum(shard), Int64GetDatum(from), Int64GetDatum(upto), Int32GetDatum(max)};
	int64		next = upto;
	char	   *sql = query_of(stream);

	check_head(stream, shard, from);
	if (from >= upto || max <= 0)
		return from;
	PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	if (SPI_execute_with_args(sql, 4, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "reading a stream failed");

	/* Rows that were hidden while we looked must not be a silent gap. */
	check_head(stream, shard, from);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		Datum		v[FL_NATTS];
		bool		n[FL_NATTS];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, n);
		if (i == SPI_processed - 1 && SPI_processed == (uint64) max)
			next = DatumGetInt64(v[FL_ATT_OFFSET - 1]) + 1;
		row(arg, v, n);
	}
	SPI_finish();
	PopActiveSnapshot();
	pfree(sql);
	return next;
}
