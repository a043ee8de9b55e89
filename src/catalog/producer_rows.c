/*-------------------------------------------------------------------------
 *
 * producer_rows.c
 *		What was known of a shard's idempotent producers at some offset
 *		(fleetlog.producer_snapshot, see fleetlog/producers.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"
#include "fleetlog/producers.h"

static void
take_row(HeapTuple tuple, TupleDesc desc, int64 *log_offset, uint8 **state, Size *len)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, FL_PRODUCER_STATE, desc, &isnull);
	bytea	   *bytes = DatumGetByteaPCopy(value);

	*log_offset = fl_config_int(tuple, FL_PRODUCER_OFFSET, desc, true);
	*state = (uint8 *) VARDATA(bytes);
	*len = VARSIZE(bytes) - VARHDRSZ;
}

/* As committed now, whatever the transaction's snapshot sees: who has the shard's lock has the last word. */
bool
fl_producer_row_read(Oid stream, int32 shard, int64 *log_offset, uint8 **state, Size *len)
{
	Relation	rel = fl_config_open(FL_TABLE_PRODUCER);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	if (rel == NULL)
		return false;
	ScanKeyInit(&keys[0], FL_PRODUCER_STREAM, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(stream));
	ScanKeyInit(&keys[1], FL_PRODUCER_SHARD, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(shard));
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_PRODUCER), true, NULL, 2, keys);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
		take_row(tuple, RelationGetDescr(rel), log_offset, state, len);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

void
fl_producer_row_write(Oid stream, int32 shard, int64 log_offset, const uint8 *state, Size len)
{
	Oid			types[4] = {REGCLASSOID, INT4OID, INT8OID, BYTEAOID};
	bytea	   *bytes = palloc(VARHDRSZ + len);
	Datum		values[4] = {
		ObjectIdGetDatum(stream), Int32GetDatum(shard), Int64GetDatum(log_offset), PointerGetDatum(bytes)
	};

	SET_VARSIZE(bytes, VARHDRSZ + len);
	if (len > 0)
		memcpy(VARDATA(bytes), state, len);
	(void) fl_config_execute("INSERT INTO fleetlog.producer_snapshot VALUES ($1, $2, $3, $4)"
							 " ON CONFLICT (stream, shard) DO UPDATE SET log_offset = $3, state = $4",
							 4, types, values, NULL);
	pfree(bytes);
}
