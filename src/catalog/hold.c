/*-------------------------------------------------------------------------
 *
 * hold.c
 *		Holds: ranges of a stream that neither retention nor a trim removes.
 *
 * A head is one offset per shard, so a hold stops it at the first held record
 * that it would pass; what lies behind that record stays too.
 *
 * Order against trims: hold() takes the lock of every shard that it names, and
 * whoever raises a head has that shard's lock and reads the ranges with the
 * newest snapshot.  Hence either the hold is seen, or it comes after the trim
 * and finds its range gone.
 *
 * Called by SQL, by trim_head (src/log/trim.c) and by retention.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"
#include "fleetlog/log.h"
#include "fleetlog/ranges.h"

PG_FUNCTION_INFO_V1(fl_sql_hold);
PG_FUNCTION_INFO_V1(fl_sql_release_hold);

/* ---- Finding ----------------------------------------------------------------- */

bool
fl_hold_find(Oid stream, int32 shard, int64 from, int64 to, FlHold *hold)
{
	Relation	rel = fl_config_open(FL_TABLE_HOLD_RANGE);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	if (rel == NULL)
		return false;
	ScanKeyInit(&keys[0], FL_HOLD_RANGE_STREAM, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(stream));
	ScanKeyInit(&keys[1], FL_HOLD_RANGE_SHARD, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(shard));
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_HOLD_RANGE), true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		int64		lower = fl_config_int(tuple, FL_HOLD_RANGE_LOWER, RelationGetDescr(rel), true);
		int64		upper = fl_config_int(tuple, FL_HOLD_RANGE_UPPER, RelationGetDescr(rel), true);

		if (upper <= from || lower >= to || (found && lower >= hold->lower))
			continue;
		found = true;
		hold->id = fl_config_int(tuple, FL_HOLD_RANGE_HOLD, RelationGetDescr(rel), true);
		hold->lower = lower;
		hold->upper = upper;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

char *
fl_hold_reason(int64 id)
{
	Relation	rel = fl_config_open(FL_TABLE_HOLD);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *reason = NULL;

	if (rel == NULL)
		return pstrdup("");
	ScanKeyInit(&key, FL_HOLD_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_HOLD), true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		reason = fl_config_text(tuple, FL_HOLD_REASON, RelationGetDescr(rel));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return reason ? reason : pstrdup("");
}

void
fl_hold_refuse(Oid stream, int32 shard, const FlHold *hold)
{
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_HELD)),
			 errmsg("records of shard %d of stream \"%s\" are held by hold " INT64_FORMAT,
					shard, get_rel_name(stream), hold->id),
			 errdetail("The hold (\"%s\") begins at offset " INT64_FORMAT ".", fl_hold_reason(hold->id), hold->lower),
			 errhint("End it with fleetlog.release_hold(" INT64_FORMAT ").", hold->id)));
}

void
fl_hold_refuse_drop(Oid stream)
{
	Oid			types[1] = {REGCLASSOID};
	Datum		values[1] = {ObjectIdGetDatum(stream)};
	bool		isnull;
	int64		id;

	id = fl_config_query_int("SELECT min(id) FROM fleetlog.hold_config WHERE stream = $1", 1, types, values, &isnull);
	if (isnull)
		return;
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_HELD)),
			 errmsg("cannot drop stream \"%s\": hold " INT64_FORMAT " keeps records of it", get_rel_name(stream), id),
			 errdetail("The hold was made for: %s", fl_hold_reason(id)),
			 errhint("End it with fleetlog.release_hold(" INT64_FORMAT ").", id)));
}

/* ---- SQL ---------------------------------------------------------------------- */

/* The shards in ascending order, as everybody locks them; their records must still be there. */
static void
lock_ranges(const FlStreamInfo *info, const FlRanges *r)
{
	Oid			stream = info->relid;
	bool		quorum = info->durability == FL_DURABILITY_QUORUM;

	for (int i = 0; i < r->n; i++)
	{
		FlShard    *shard = fl_shard_open(stream, r->items[i].shard, quorum);
		FlShardRow	row;

		fl_shard_lock(shard, FL_LOCK_TIMEOUT);
		(void) fl_shard_row_read(stream, r->items[i].shard, &row);
		if (r->items[i].lower < row.head)
			fl_log_too_old(stream, r->items[i].shard, r->items[i].lower, row.head);
	}
}

Datum
fl_sql_hold(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	Jsonb	   *doc = PG_GETARG_JSONB_P(1);
	const FlStreamInfo *info;
	FlRanges	r;
	Oid			types[4] = {REGCLASSOID, JSONBOID, TEXTOID, TEXTOID};
	Datum		values[4] = {ObjectIdGetDatum(stream), JsonbPGetDatum(doc), PG_GETARG_DATUM(2),
	CStringGetTextDatum(GetUserNameFromId(GetUserId(), false))};
	bool		isnull;
	int64		id;

	fl_require_preload();
	info = fl_stream_own(stream);
	r = fl_ranges_parse(doc, info);
	lock_ranges(info, &r);
	id = fl_config_query_int("INSERT INTO fleetlog.hold_config (id, stream, ranges, reason, role)"
							 " VALUES (nextval('fleetlog.hold_id_seq'), $1, $2, $3, $4) RETURNING id",
							 4, types, values, &isnull);
	for (int i = 0; i < r.n; i++)
	{
		Oid			range_types[5] = {REGCLASSOID, INT4OID, INT8OID, INT8OID, INT8OID};
		Datum		range_values[5] = {ObjectIdGetDatum(stream), Int32GetDatum(r.items[i].shard),
			Int64GetDatum(r.items[i].lower), Int64GetDatum(r.items[i].upper), Int64GetDatum(id)};

		(void) fl_config_execute("INSERT INTO fleetlog.hold_range_config (stream, shard, lower_offset, upper_offset, hold)"
								 " VALUES ($1, $2, $3, $4, $5)", 5, range_types, range_values, NULL);
	}
	PG_RETURN_INT64(id);
}

Datum
fl_sql_release_hold(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	Oid			types[1] = {INT8OID};
	Datum		values[1] = {Int64GetDatum(id)};
	bool		isnull;
	Oid			stream;

	fl_require_preload();
	stream = (Oid) fl_config_query_int("SELECT stream::oid::bigint FROM fleetlog.hold_config WHERE id = $1",
									   1, types, values, &isnull);
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("hold " INT64_FORMAT " does not exist", id),
				 errhint("Holds are listed in fleetlog.stream_hold.")));
	(void) fl_stream_own(stream);
	(void) fl_config_execute("DELETE FROM fleetlog.hold_range_config WHERE hold = $1", 1, types, values, NULL);
	(void) fl_config_execute("DELETE FROM fleetlog.hold_config WHERE id = $1", 1, types, values, NULL);
	PG_RETURN_VOID();
}
