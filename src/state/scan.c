/*-------------------------------------------------------------------------
 *
 * scan.c
 *		Rows of a state table by topic, for those who hand out retained values.
 *
 * The key column has collation "C", so the order of the primary key is that of bytes,
 * and all topics below a prefix lie together; a scan may stop anywhere and go on
 * behind the last key in another transaction.
 *
 * Nobody waits here either: a table that somebody has locked against readers (ALTER
 * TABLE, VACUUM FULL) is reported as not to be had now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "state_internal.h"

struct FlStateScan
{
	Relation	rel;
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;
	MemoryContext mcxt;			/* detoasted columns of the current row */
	uint8	   *prefix;
	int32		prefix_len;
	bool		exact;
};

static text *
make_text(const uint8 *data, int32 len)
{
	text	   *t = palloc(VARHDRSZ + len);

	SET_VARSIZE(t, VARHDRSZ + len);
	if (len > 0)
		memcpy(VARDATA(t), data, len);
	return t;
}

static void
start(FlStateScan *s, Oid stream, const uint8 *after, int32 after_len)
{
	ScanKeyData skeys[2];
	StrategyNumber strategy = s->exact ? BTEqualStrategyNumber :
		after != NULL ? BTGreaterStrategyNumber : BTGreaterEqualStrategyNumber;
	text	   *bound = after != NULL && !s->exact ? make_text(after, after_len) : make_text(s->prefix, s->prefix_len);

	ScanKeyEntryInitialize(&skeys[0], 0, 1, BTEqualStrategyNumber, InvalidOid, InvalidOid,
						   F_OIDEQ, ObjectIdGetDatum(stream));
	ScanKeyEntryInitialize(&skeys[1], 0, 2, strategy, InvalidOid, s->index->rd_indcollation[1],
						   s->exact ? F_TEXTEQ : after != NULL ? F_TEXT_GT : F_TEXT_GE, PointerGetDatum(bound));
	s->scan = FL_INDEX_BEGINSCAN(s->rel, s->index, GetActiveSnapshot(), 2);
	index_rescan(s->scan, skeys, 2, NULL, 0);
}

FlStateScan *
fl_state_scan_begin(Oid state, Oid stream, const uint8 *prefix, int32 prefix_len, bool exact,
					const uint8 *after, int32 after_len)
{
	FlStateScan *s;
	Relation	rel;

	if (!ConditionalLockRelationOid(state, AccessShareLock))
		return NULL;
	rel = try_table_open(state, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(state, AccessShareLock);
		return NULL;
	}
	list_free(RelationGetIndexList(rel));
	/* An index can be locked without its table (ALTER INDEX). */
	if (RelationGetDescr(rel)->natts < FL_ST_NATTS || !OidIsValid(rel->rd_pkindex) ||
		!ConditionalLockRelationOid(rel->rd_pkindex, AccessShareLock))
	{
		table_close(rel, AccessShareLock);
		return NULL;
	}
	s = palloc0(sizeof(FlStateScan));
	s->rel = rel;
	s->index = index_open(rel->rd_pkindex, NoLock);
	s->slot = table_slot_create(rel, NULL);
	s->mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog state row", ALLOCSET_DEFAULT_SIZES);
	s->prefix = (uint8 *) VARDATA(make_text(prefix, prefix_len));
	s->prefix_len = prefix_len;
	s->exact = exact;
	start(s, stream, after, after_len);
	return s;
}

/* ---- a row as a record -------------------------------------------------------------- */

static const uint8 *
bytes_of(FlStateScan *s, int att, int32 *len)
{
	struct varlena *v;

	*len = -1;
	if (s->slot->tts_isnull[att - 1])
		return NULL;
	v = PG_DETOAST_DATUM_PACKED(s->slot->tts_values[att - 1]);
	*len = VARSIZE_ANY_EXHDR(v);
	return (const uint8 *) VARDATA_ANY(v);
}

static const uint8 *
varlena_bytes(struct varlena *v, int32 *len)
{
	*len = v != NULL ? (int32) VARSIZE_ANY_EXHDR(v) : -1;
	return v != NULL ? (const uint8 *) VARDATA_ANY(v) : NULL;
}

static void
fill_row(FlStateScan *s, FlStateRow *row)
{
	FlLogRecord *rec = &row->rec;
	MemoryContext old;
	const uint8 *headers;
	int32		len;

	MemoryContextReset(s->mcxt);
	old = MemoryContextSwitchTo(s->mcxt);
	memset(row, 0, sizeof(*row));
	rec->key = bytes_of(s, FL_ST_KEY, &rec->key_len);
	row->key = (const char *) rec->key;
	row->key_len = rec->key_len;
	row->shard = DatumGetInt32(s->slot->tts_values[FL_ST_SHARD - 1]);
	rec->log_offset = DatumGetInt64(s->slot->tts_values[FL_ST_OFFSET - 1]);
	rec->ts = DatumGetTimestampTz(s->slot->tts_values[FL_ST_TS - 1]);
	rec->created_ms = FL_NO_TIMESTAMP;
	rec->tenant = bytes_of(s, FL_ST_TENANT, &rec->tenant_len);
	rec->device = bytes_of(s, FL_ST_DEVICE, &rec->device_len);
	headers = bytes_of(s, FL_ST_HEADERS, &len);
	fl_state_split_headers(headers, len, rec);
	rec->payload = bytes_of(s, FL_ST_PAYLOAD, &rec->payload_len);
	MemoryContextSwitchTo(old);
}

bool
fl_state_last(Oid state, Oid stream, const uint8 *key, int32 len, FlStateRow *row, bool *cleared)
{
	FlStateChange c;
	FlLogRecord *rec = &row->rec;

	if (!fl_last_get(state, stream, key, len, &c))
		return false;
	memset(row, 0, sizeof(*row));
	*cleared = c.cleared;
	row->key = (const char *) key;
	row->key_len = len;
	row->shard = c.pos.shard;
	rec->key = key;
	rec->key_len = len;
	rec->log_offset = c.pos.log_offset;
	rec->ts = c.pos.ts;
	rec->created_ms = FL_NO_TIMESTAMP;
	rec->tenant = varlena_bytes(c.tenant, &rec->tenant_len);
	rec->device = varlena_bytes(c.device, &rec->device_len);
	rec->payload = varlena_bytes(c.payload, &rec->payload_len);
	fl_state_split_headers(c.headers != NULL ? (const uint8 *) VARDATA_ANY(c.headers) : NULL,
				  c.headers != NULL ? (int32) VARSIZE_ANY_EXHDR(c.headers) : -1, rec);
	return true;
}

bool
fl_state_scan_next(FlStateScan *s, FlStateRow *row)
{
	if (!index_getnext_slot(s->scan, ForwardScanDirection, s->slot))
		return false;
	slot_getallattrs(s->slot);
	fill_row(s, row);
	return row->key_len >= s->prefix_len && memcmp(row->key, s->prefix, s->prefix_len) == 0;
}

void
fl_state_scan_end(FlStateScan *s)
{
	if (s == NULL)
		return;
	index_endscan(s->scan);
	ExecDropSingleTupleTableSlot(s->slot);
	index_close(s->index, AccessShareLock);
	table_close(s->rel, AccessShareLock);
	MemoryContextDelete(s->mcxt);
	pfree(s);
}
