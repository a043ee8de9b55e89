/*-------------------------------------------------------------------------
 *
 * newest.c
 *		Where the newest value or clear of a key comes from.
 *
 * For readers of the log who meet a record that may be older than what was told of
 * its key before: records of one key lie on several shards when a producer chose the
 * shard, or when the number of shards was changed.  What is later than the record,
 * the table knows, or memory for last values that are not there yet, or
 * state_cleared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "fleetlog/compat.h"
#include "state_internal.h"

static void
later_of(FlStatePos *pos, bool *any, FlStatePos other)
{
	if (!*any || fl_state_pos_cmp(pos, &other) < 0)
		*pos = other;
	*any = true;
}

/* False: the table cannot be looked at now. */
static bool
look_at_table(Oid state, Oid stream, const uint8 *key, int32 len, FlStatePos *pos, bool *any)
{
	FlStateScan *scan = fl_state_scan_begin(state, stream, key, len, true, NULL, 0);
	FlStateRow	row;

	if (scan == NULL)
		return false;
	if (fl_state_scan_next(scan, &row))
		later_of(pos, any, (FlStatePos) {
				 .ts = row.rec.ts,.shard = row.shard,.log_offset = row.rec.log_offset
				 });
	fl_state_scan_end(scan);
	return true;
}

static void
look_at_clears(Oid state, Oid stream, const uint8 *key, int32 len, FlStatePos *pos, bool *any)
{
	Oid			nsp = get_namespace_oid(FL_STATE_SCHEMA, false);
	Relation	rel = table_open(get_relname_relid("state_cleared", nsp), AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	text	   *value = cstring_to_text_with_len((const char *) key, len);
	ScanKeyData keys[3];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		isnull;

	ScanKeyInit(&keys[0], FL_SC_STATE, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(state));
	ScanKeyInit(&keys[1], FL_SC_STREAM, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(stream));
	ScanKeyEntryInitialize(&keys[2], 0, FL_SC_KEY, BTEqualStrategyNumber, InvalidOid, C_COLLATION_OID,
						   F_TEXTEQ, PointerGetDatum(value));
	scan = systable_beginscan(rel, get_relname_relid("state_cleared_pkey", nsp), true, GetActiveSnapshot(), 3, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		later_of(pos, any, (FlStatePos) {
				 .ts = DatumGetTimestampTz(heap_getattr(tuple, FL_SC_TS, desc, &isnull)),
				 .shard = DatumGetInt32(heap_getattr(tuple, FL_SC_SHARD, desc, &isnull)),
				 .log_offset = DatumGetInt64(heap_getattr(tuple, FL_SC_OFFSET, desc, &isnull))
				 });
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	pfree(value);
}

bool
fl_state_newest(Oid state, Oid stream, const uint8 *key, int32 len, FlStatePos *pos)
{
	FlStateChange last;
	bool		any = false;

	/* Memory first: what leaves it is in the table by then. */
	if (fl_last_get(state, stream, key, len, &last))
		later_of(pos, &any, last.pos);
	if (!look_at_table(state, stream, key, len, pos, &any))
		return false;
	look_at_clears(state, stream, key, len, pos, &any);
	return any;
}
