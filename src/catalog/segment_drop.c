/*-------------------------------------------------------------------------
 *
 * segment_drop.c
 *		How a segment leaves its stream, and how its bounds become narrower.
 *
 * Leaving takes AccessExclusive on the shard's table, through which plans that
 * expand the stream go, and on the segment.  Both are had for the time of some
 * catalog updates only:
 *
 *		fl_segment_detach		DETACH, in a transaction that may commit
 *								asynchronously, since no file goes with it
 *		fl_segment_drop_detached	DROP of a table that nobody sees any more, in
 *								a transaction of its own, which waits for the disk
 *
 * A row in detached_segment, written with the first, tells of the second; a
 * crash in between loses nothing.
 *
 * Where the shard's table stays in use (a long query that expands the stream
 * but reads other segments), fl_segment_empty gives the segment an empty file
 * instead, which needs the segment alone.
 *
 * Nothing here decides what may go: the keeper does (bgworker/main/retention.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"

/*
 * Take the lock if it is free; with wait_ms > 0 stand in line that long.  An
 * error (55P03) then, which ends the transaction and gives back other locks.
 */
static bool
lock_relation(Oid relid, LOCKMODE mode, int wait_ms)
{
	int			saved = LockTimeout;

	if (ConditionalLockRelationOid(relid, mode))
		return true;
	if (wait_ms <= 0)
		return false;
	LockTimeout = wait_ms;
	PG_TRY();
	{
		LockRelationOid(relid, mode);
	}
	PG_FINALLY();
	{
		LockTimeout = saved;
	}
	PG_END_TRY();
	return true;
}

/* Is it still the segment that the caller means? */
static bool
still_there(Oid stream, const FlSegment *seg)
{
	FlLeafInfo	leaf;

	return fl_leaf_lookup(seg->leaf, &leaf) && leaf.stream == stream && leaf.shard == seg->shard &&
		leaf.lower == seg->lower && leaf.upper == seg->upper;
}

/* DDL on segments as their owner, past our own refusals. */
static void
ddl_as_owner(Oid owner, const char *sql)
{
	Oid			save_user;
	int			save_context;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(owner, save_context | SECURITY_LOCAL_USERID_CHANGE);
	fl_refuse_suspend();
	fl_config_ddl(sql);
	fl_refuse_resume();
	SetUserIdAndSecContext(save_user, save_context);
}

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

FlSegmentWait
fl_segment_detach(Oid stream, const FlSegment *seg, int wait_ms)
{
	Oid			table = fl_shard_table(stream, seg->shard);
	Oid			types[1] = {REGCLASSOID};
	Datum		values[1] = {ObjectIdGetDatum(seg->leaf)};
	FlShardTable t;

	if (!OidIsValid(table))
		return FL_SEGMENT_DONE;
	if (!lock_relation(table, AccessExclusiveLock, wait_ms))
		return FL_SEGMENT_TABLE_BUSY;
	if (!lock_relation(seg->leaf, AccessExclusiveLock, wait_ms))
		return FL_SEGMENT_BUSY;
	if (!still_there(stream, seg))
		return FL_SEGMENT_DONE;
	fl_shard_table_read(table, &t);
	ddl_as_owner(t.owner, psprintf("ALTER TABLE %s DETACH PARTITION %s", t.qualified, qualified_name(seg->leaf)));
	(void) fl_config_execute("INSERT INTO fleetlog.detached_segment (segment) VALUES ($1)", 1, types, values, NULL);
	return FL_SEGMENT_DONE;
}

/* Segments that wait to be dropped, as a list of OIDs. */
static List *
detached_segments(void)
{
	Relation	rel = fl_config_open(FL_TABLE_DETACHED);
	List	   *list = NIL;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (rel == NULL)
		return NIL;
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;

		list = lappend_oid(list, DatumGetObjectId(heap_getattr(tuple, FL_DETACHED_SEGMENT, RelationGetDescr(rel), &isnull)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return list;
}

int
fl_segment_drop_detached(void)
{
	List	   *list = detached_segments();
	ListCell   *lc;
	int			left = 0;

	foreach(lc, list)
	{
		Oid			relid = lfirst_oid(lc);
		Oid			types[1] = {OIDOID};
		Datum		values[1] = {ObjectIdGetDatum(relid)};
		FlLeafInfo	leaf;
		FlShardTable t;

		/* Somebody looks at it by name: the next turn is as good. */
		if (!ConditionalLockRelationOid(relid, AccessExclusiveLock))
		{
			left++;
			continue;
		}
		/* Dropped by hand, attached again by hand: then it is nobody's business here. */
		if (get_rel_name(relid) != NULL && fl_leaf_lookup(relid, &leaf) && !OidIsValid(leaf.parent))
		{
			fl_shard_table_read(relid, &t);
			ddl_as_owner(t.owner, psprintf("DROP TABLE %s", t.qualified));
		}
		(void) fl_config_execute("DELETE FROM fleetlog.detached_segment WHERE segment = $1::pg_catalog.regclass",
								 1, types, values, NULL);
	}
	return left;
}

bool
fl_segment_empty(Oid stream, const FlSegment *seg, int wait_ms)
{
	Relation	rel;

	if (!lock_relation(seg->leaf, AccessExclusiveLock, wait_ms))
		return false;
	if (!still_there(stream, seg))
		return true;
	rel = table_open(seg->leaf, NoLock);
	if (RelationGetNumberOfBlocks(rel) > 0)
	{
		fl_refuse_suspend();
		FL_SET_NEW_FILE(rel);
		fl_refuse_resume();
	}
	table_close(rel, NoLock);
	return true;
}

/* ---- Bounds ------------------------------------------------------------------- */

/* The bound of the segment's pg_class row, with another upper end. */
static Datum
bound_with_upper(HeapTuple tuple, int64 upper)
{
	bool		isnull;
	Datum		datum = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	PartitionBoundSpec *spec = isnull ? NULL : stringToNode(TextDatumGetCString(datum));

	if (spec == NULL || spec->strategy != PARTITION_STRATEGY_RANGE || list_length(spec->upperdatums) != 1)
		elog(ERROR, "segment has no range");
	linitial_node(PartitionRangeDatum, spec->upperdatums)->kind = PARTITION_RANGE_DATUM_VALUE;
	linitial_node(PartitionRangeDatum, spec->upperdatums)->value =
		(Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(upper), false, FLOAT8PASSBYVAL);
	return CStringGetTextDatum(nodeToString(spec));
}

bool
fl_segment_cut(Oid stream, const FlSegment *seg, int64 upper)
{
	Oid			table = fl_shard_table(stream, seg->shard);
	Relation	pg_class;
	HeapTuple	tuple,
				changed;
	Datum		values[Natts_pg_class] = {0};
	bool		nulls[Natts_pg_class] = {0};
	bool		replaces[Natts_pg_class] = {0};

	if (!OidIsValid(table) || upper <= seg->lower || upper >= seg->upper)
		return false;
	if (!ConditionalLockRelationOid(table, ShareUpdateExclusiveLock) ||
		!ConditionalLockRelationOid(seg->leaf, ShareUpdateExclusiveLock) ||
		!still_there(stream, seg))
		return false;
	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(seg->leaf));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", seg->leaf);
	values[Anum_pg_class_relpartbound - 1] = bound_with_upper(tuple, upper);
	replaces[Anum_pg_class_relpartbound - 1] = true;
	changed = heap_modify_tuple(tuple, RelationGetDescr(pg_class), values, nulls, replaces);
	CatalogTupleUpdate(pg_class, &changed->t_self, changed);
	ReleaseSysCache(tuple);
	table_close(pg_class, RowExclusiveLock);

	/* The table's own description lists the bounds of its partitions. */
	CacheInvalidateRelcacheByRelid(table);
	CommandCounterIncrement();
	return true;
}
