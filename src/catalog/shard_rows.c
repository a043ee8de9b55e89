/*-------------------------------------------------------------------------
 *
 * shard_rows.c
 *		Heads, tail floors and leader epochs of shards: the rows that carry
 *		over a dump, an upgrade or an empty stream what the files cannot.
 *
 * A tail that anyone was told must never be given out again (L3).  While a
 * segment exists its file knows the tail; the row here is a floor, raised at
 * the moments when a file stops knowing: when the next segment is begun and
 * when a segment is dropped.  Values only rise, and a shard may have several
 * rows after a restore (sql/modules/040_stream.sql says why): the greatest counts.
 *
 * Rows are written through SQL as the owner of the extension: appenders and
 * ordinary users have no right on the table and need none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "catalog_internal.h"

static void
shard_keys(ScanKeyData keys[2], Oid stream, int32 shard)
{
	ScanKeyInit(&keys[0], FL_SHARD_STREAM, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(stream));
	ScanKeyInit(&keys[1], FL_SHARD_SHARD, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(shard));
}

static bool
read_row(Oid stream, int32 shard, Snapshot snapshot, FlShardRow *row)
{
	Relation	rel = fl_config_open(FL_TABLE_SHARD);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	row->head = row->tail = 0;
	if (rel == NULL)
		return false;
	shard_keys(keys, stream, shard);
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_SHARD), true, snapshot, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		row->head = Max(row->head, fl_config_int(tuple, FL_SHARD_HEAD, RelationGetDescr(rel), true));
		row->tail = Max(row->tail, fl_config_int(tuple, FL_SHARD_TAIL, RelationGetDescr(rel), true));
		found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

bool
fl_shard_row_read(Oid stream, int32 shard, FlShardRow *row)
{
	return read_row(stream, shard, NULL, row);
}

int64
fl_shard_row_head_seen(Oid stream, int32 shard, Snapshot snapshot)
{
	FlShardRow	row;

	(void) read_row(stream, shard, snapshot, &row);
	return row.head;
}

void
fl_shard_row_raise(Oid stream, int32 shard, int64 head, int64 tail)
{
	Oid			types[4] = {REGCLASSOID, INT4OID, INT8OID, INT8OID};
	Datum		values[4] = {ObjectIdGetDatum(stream), Int32GetDatum(shard), Int64GetDatum(head), Int64GetDatum(tail)};

	/* A stream that is being restored gets its rows from the dump. */
	if (fl_stream_lookup(stream) == NULL)
		return;
	/* What was there below the head is never given out again. */
	values[3] = Int64GetDatum(Max(head, tail));
	(void) fl_config_execute("WITH raised AS (UPDATE fleetlog.shard_config"
							 " SET head = greatest(head, $3), tail = greatest(tail, $4)"
							 " WHERE stream = $1 AND shard = $2 AND (head < $3 OR tail < $4))"
							 " INSERT INTO fleetlog.shard_config (stream, shard, head, tail) SELECT $1, $2, $3, $4"
							 " WHERE NOT EXISTS (SELECT FROM fleetlog.shard_config WHERE stream = $1 AND shard = $2)",
							 4, types, values, NULL);
}

bool
fl_epoch_last(Oid stream, int32 shard, int32 *epoch, int64 *first_offset, int64 *timeline)
{
	Relation	rel = fl_config_open(FL_TABLE_EPOCH);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	*epoch = 0;
	*first_offset = 0;
	*timeline = 0;
	if (rel == NULL)
		return false;

	/* Both tables begin with the same two columns. */
	StaticAssertStmt((int) FL_EPOCH_STREAM == (int) FL_SHARD_STREAM && (int) FL_EPOCH_SHARD == (int) FL_SHARD_SHARD,
					 "shard_config and epoch_config are keyed alike");
	shard_keys(keys, stream, shard);
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_EPOCH), true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		int32		e = (int32) fl_config_int(tuple, FL_EPOCH_EPOCH, RelationGetDescr(rel), false);

		if (!found || e > *epoch)
		{
			*epoch = e;
			*first_offset = fl_config_int(tuple, FL_EPOCH_FIRST_OFFSET, RelationGetDescr(rel), true);
			*timeline = fl_config_int(tuple, FL_EPOCH_TIMELINE, RelationGetDescr(rel), true);
		}
		found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

void
fl_epoch_add(Oid stream, int32 shard, int32 epoch, int64 first_offset, int64 timeline)
{
	Oid			types[5] = {REGCLASSOID, INT4OID, INT4OID, INT8OID, INT8OID};
	Datum		values[5] = {
		ObjectIdGetDatum(stream), Int32GetDatum(shard), Int32GetDatum(epoch), Int64GetDatum(first_offset),
		Int64GetDatum(timeline)
	};

	if (fl_stream_lookup(stream) == NULL)
		return;
	(void) fl_config_execute("INSERT INTO fleetlog.epoch_config (stream, shard, epoch, first_offset, timeline)"
							 " SELECT $1, $2, $3, $4, $5 WHERE NOT EXISTS"
							 " (SELECT FROM fleetlog.epoch_config WHERE stream = $1 AND shard = $2 AND epoch = $3)",
							 5, types, values, NULL);
}

/* One pass over the epochs of a shard; rows may be there twice after a restore. */
static void
search_epochs(Oid stream, int32 shard, void (*visit) (void *arg, int32 epoch, int64 first), void *arg)
{
	Relation	rel = fl_config_open(FL_TABLE_EPOCH);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	if (rel == NULL)
		return;
	shard_keys(keys, stream, shard);
	scan = systable_beginscan(rel, fl_config_relid(FL_INDEX_EPOCH), true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		visit(arg, (int32) fl_config_int(tuple, FL_EPOCH_EPOCH, RelationGetDescr(rel), false),
			  fl_config_int(tuple, FL_EPOCH_FIRST_OFFSET, RelationGetDescr(rel), true));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

typedef struct EpochSearch
{
	int32		epoch;			/* asked for, or found */
	int64		offset;			/* likewise */
	int32		last;
	int32		next;			/* least epoch above the one asked for, -1: none */
} EpochSearch;

static void
visit_for_end(void *arg, int32 epoch, int64 first)
{
	EpochSearch *search = arg;

	search->last = Max(search->last, epoch);
	if (epoch > search->epoch && (search->next < 0 || epoch < search->next))
	{
		search->next = epoch;
		search->offset = first;
	}
}

int64
fl_epoch_end(Oid stream, int32 shard, int32 epoch, bool *known)
{
	EpochSearch search = {.epoch = epoch,.offset = PG_INT64_MAX,.next = -1};

	search_epochs(stream, shard, visit_for_end, &search);
	*known = epoch <= search.last;
	return search.offset;
}

static void
visit_for_offset(void *arg, int32 epoch, int64 first)
{
	EpochSearch *search = arg;

	if (first <= search->offset)
		search->epoch = Max(search->epoch, epoch);
}

int32
fl_epoch_of(Oid stream, int32 shard, int64 offset)
{
	EpochSearch search = {.offset = offset};

	search_epochs(stream, shard, visit_for_offset, &search);
	return search.epoch;
}
