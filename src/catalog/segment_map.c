/*-------------------------------------------------------------------------
 *
 * segment_map.c
 *		Which leaf holds which offsets: read from the server's own catalogs
 *		(pg_inherits and partition bounds), cached per process.
 *
 * The partition tree is the only truth about segments; there is no table of
 * ours that could disagree with it.  Two caches stand before it:
 *
 *		leaves		leaf -> where it hangs, one entry per leaf that was asked for
 *		maps		stream -> sorted segments of every shard
 *
 * ATTACH, DETACH and DROP of a partition invalidate the relation cache entry
 * of its parent, which drops the map of that stream; a new position of a leaf
 * in the tree invalidates the leaf itself.  Callbacks only mark entries, and
 * memory is freed at the next lookup, so a list may be used until the next
 * call into this file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "catalog_internal.h"

typedef struct LeafEntry
{
	Oid			leaf;			/* hash key */
	bool		is_log;			/* uses our access method */
	FlLeafInfo	info;
} LeafEntry;

typedef struct ShardSegments
{
	int32		shard;
	Oid			table;			/* the LIST partition */
	int			n;
	FlSegment  *segments;		/* by lower bound */
} ShardSegments;

typedef struct MapEntry
{
	Oid			stream;			/* hash key */
	bool		valid;
	MemoryContext cxt;			/* all below */
	int			nshards;
	ShardSegments *shards;		/* by shard number */
} MapEntry;

static HTAB *leaves = NULL;
static HTAB *maps = NULL;

/* Counts invalidations, to notice one that arrives while a map is being read. */
static uint64 news = 0;

/* A process that looked at a great many leaves starts over rather than keep them all. */
#define MAX_CACHED_LEAVES	20000

void
fl_segment_map_init(void)
{
	HASHCTL		ctl;

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(LeafEntry);
	ctl.hcxt = TopMemoryContext;
	leaves = hash_create("fleetlog leaves", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.entrysize = sizeof(MapEntry);
	maps = hash_create("fleetlog segment maps", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static void
forget_leaves(Oid relid)
{
	HASH_SEQ_STATUS seq;
	LeafEntry  *leaf;

	if (OidIsValid(relid))
	{
		(void) hash_search(leaves, &relid, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&seq, leaves);
	while ((leaf = hash_seq_search(&seq)) != NULL)
		(void) hash_search(leaves, &leaf->leaf, HASH_REMOVE, NULL);
}

/* Called for every relation cache invalidation; must be quick and must not fail. */
void
fl_segment_map_invalidate(Oid relid)
{
	HASH_SEQ_STATUS seq;
	MapEntry   *map;

	if (leaves == NULL)
		return;
	news++;
	forget_leaves(relid);
	if (hash_get_num_entries(maps) == 0)
		return;
	hash_seq_init(&seq, maps);
	while ((map = hash_seq_search(&seq)) != NULL)
	{
		if (!OidIsValid(relid) || map->stream == relid)
			map->valid = false;
		for (int i = 0; map->valid && i < map->nshards; i++)
			if (map->shards[i].table == relid)
				map->valid = false;
	}
}

/* ---- The server's catalogs --------------------------------------------------------- */

Oid
fl_partition_parent(Oid relid)
{
	Relation	inherits = table_open(InheritsRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			parent = InvalidOid;

	ScanKeyInit(&key, Anum_pg_inherits_inhrelid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(inherits, InheritsRelidSeqnoIndexId, true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_inherits form = (Form_pg_inherits) GETSTRUCT(tuple);

		if (!form->inhdetachpending)
			parent = form->inhparent;
	}
	systable_endscan(scan);
	table_close(inherits, AccessShareLock);
	return parent;
}

/* One side of a RANGE bound over a single column. */
static bool
range_datum(List *datums, bool is_lower, int64 *value)
{
	PartitionRangeDatum *d;

	if (list_length(datums) != 1)
		return false;
	d = linitial_node(PartitionRangeDatum, datums);
	switch (d->kind)
	{
		case PARTITION_RANGE_DATUM_MINVALUE:
			*value = 0;
			return is_lower;
		case PARTITION_RANGE_DATUM_MAXVALUE:
			*value = PG_INT64_MAX;
			return !is_lower;
		case PARTITION_RANGE_DATUM_VALUE:
			if (!IsA(d->value, Const) || castNode(Const, d->value)->consttype != INT8OID)
				return false;
			*value = DatumGetInt64(castNode(Const, d->value)->constvalue);
			return true;
	}
	return false;
}

bool
fl_partition_bound(Oid relid, bool *is_list, int64 *lower, int64 *upper)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	PartitionBoundSpec *spec;
	Datum		datum;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		return false;
	datum = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relpartbound, &isnull);
	spec = isnull ? NULL : stringToNode(TextDatumGetCString(datum));
	ReleaseSysCache(tuple);
	if (spec == NULL || spec->is_default)
		return false;
	if (spec->strategy == PARTITION_STRATEGY_LIST)
	{
		Const	   *c;

		*is_list = true;
		if (list_length(spec->listdatums) != 1)
			return false;
		c = linitial_node(Const, spec->listdatums);
		if (c->constisnull || c->consttype != INT4OID)
			return false;
		*lower = *upper = DatumGetInt32(c->constvalue);
		return true;
	}
	*is_list = false;
	return spec->strategy == PARTITION_STRATEGY_RANGE &&
		range_datum(spec->lowerdatums, true, lower) && range_datum(spec->upperdatums, false, upper);
}

/* ---- Leaves --------------------------------------------------------------------------- */

static bool
uses_our_access_method(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			am;

	if (!HeapTupleIsValid(tuple))
		return false;
	am = ((Form_pg_class) GETSTRUCT(tuple))->relkind == RELKIND_RELATION ?
		((Form_pg_class) GETSTRUCT(tuple))->relam : InvalidOid;
	ReleaseSysCache(tuple);
	return OidIsValid(am) && am == fl_access_method_oid();
}

static void
read_leaf(LeafEntry *entry, Oid leaf)
{
	FlLeafInfo *info = &entry->info;
	bool		is_list;
	int64		shard;
	int64		unused;

	memset(info, 0, sizeof(*info));
	info->shard = -1;
	entry->is_log = uses_our_access_method(leaf);
	if (!entry->is_log)
		return;
	info->parent = fl_partition_parent(leaf);
	if (!OidIsValid(info->parent))
		return;
	if (!fl_partition_bound(leaf, &is_list, &info->lower, &info->upper) || is_list)
	{
		info->lower = info->upper = 0;
		info->parent = InvalidOid;
		return;
	}
	if (fl_partition_bound(info->parent, &is_list, &shard, &unused) && is_list)
	{
		info->stream = fl_partition_parent(info->parent);
		if (OidIsValid(info->stream))
			info->shard = (int32) shard;
	}
}

bool
fl_leaf_lookup(Oid leaf, FlLeafInfo *out)
{
	LeafEntry  *entry;
	LeafEntry	fresh = {0};
	MemoryContext cxt;
	MemoryContext old;

	fl_catalog_refresh();		/* registers the callbacks */
	entry = hash_search(leaves, &leaf, HASH_FIND, NULL);
	if (entry == NULL)
	{
		if (hash_get_num_entries(leaves) >= MAX_CACHED_LEAVES)
			forget_leaves(InvalidOid);

		/*
		 * Enter the leaf before reading, so that news which arrives meanwhile
		 * finds something to remove.
		 */
		fresh.leaf = leaf;
		entry = hash_search(leaves, &leaf, HASH_ENTER, NULL);
		*entry = fresh;
		entry->info.shard = -1;
		cxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog leaf", ALLOCSET_SMALL_SIZES);
		old = MemoryContextSwitchTo(cxt);
		PG_TRY();
		{
			read_leaf(&fresh, leaf);
		}
		PG_CATCH();
		{
			forget_leaves(leaf);
			PG_RE_THROW();
		}
		PG_END_TRY();
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
		entry = hash_search(leaves, &leaf, HASH_FIND, NULL);
		if (entry != NULL)
			*entry = fresh;
	}
	else
		fresh = *entry;
	*out = fresh.info;
	return fresh.is_log;
}

/* ---- Maps ------------------------------------------------------------------------------ */

static int
compare_segments(const void *a, const void *b)
{
	int64		x = ((const FlSegment *) a)->lower;
	int64		y = ((const FlSegment *) b)->lower;

	return x < y ? -1 : x > y;
}

static int
compare_shards(const void *a, const void *b)
{
	return ((const ShardSegments *) a)->shard - ((const ShardSegments *) b)->shard;
}

/* Segments of one shard's table into the map's context. */
static void
read_shard(ShardSegments *s, MemoryContext keep)
{
	List	   *children = find_inheritance_children(s->table, NoLock);
	ListCell   *lc;

	s->segments = MemoryContextAlloc(keep, sizeof(FlSegment) * Max(list_length(children), 1));
	foreach(lc, children)
	{
		FlSegment  *seg = &s->segments[s->n];
		bool		is_list;

		seg->leaf = lfirst_oid(lc);
		seg->shard = s->shard;
		if (fl_partition_bound(seg->leaf, &is_list, &seg->lower, &seg->upper) && !is_list)
			s->n++;
	}
	qsort(s->segments, s->n, sizeof(FlSegment), compare_segments);
}

/* Reads into *map, which is not in the cache yet. */
static void
read_map(MapEntry *map)
{
	List	   *children = find_inheritance_children(map->stream, NoLock);
	ListCell   *lc;

	map->shards = MemoryContextAllocZero(map->cxt, sizeof(ShardSegments) * Max(list_length(children), 1));
	foreach(lc, children)
	{
		ShardSegments *s = &map->shards[map->nshards];
		bool		is_list;
		int64		shard;
		int64		unused;

		if (!fl_partition_bound(lfirst_oid(lc), &is_list, &shard, &unused) || !is_list)
			continue;
		s->shard = (int32) shard;
		s->table = lfirst_oid(lc);
		read_shard(s, map->cxt);
		map->nshards++;
	}
	qsort(map->shards, map->nshards, sizeof(ShardSegments), compare_shards);
}

static void
discard_map(Oid stream)
{
	MapEntry   *map = hash_search(maps, &stream, HASH_FIND, NULL);

	if (map == NULL)
		return;
	if (map->cxt != NULL)
		MemoryContextDelete(map->cxt);
	(void) hash_search(maps, &stream, HASH_REMOVE, NULL);
}

static MapEntry *
segment_map(Oid stream)
{
	MapEntry   *map;
	MapEntry	fresh = {0};
	MemoryContext work;
	MemoryContext old;
	uint64		news_before;

	fl_catalog_refresh();
	map = hash_search(maps, &stream, HASH_FIND, NULL);
	if (map != NULL && map->valid)
		return map;
	discard_map(stream);

	/*
	 * Children are read without locks.  A change that commits while we read
	 * may be taken in by the very catalog accesses of this reading, when the
	 * map cannot be marked yet; such a map serves this one call only.
	 */
	news_before = news;
	work = AllocSetContextCreate(CurrentMemoryContext, "fleetlog segment map work", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(work);
	fresh.stream = stream;
	fresh.cxt = AllocSetContextCreate(work, "fleetlog segment map", ALLOCSET_SMALL_SIZES);
	read_map(&fresh);
	MemoryContextSwitchTo(old);
	MemoryContextSetParent(fresh.cxt, TopMemoryContext);
	MemoryContextDelete(work);
	fresh.valid = news == news_before;
	map = hash_search(maps, &stream, HASH_ENTER, NULL);
	*map = fresh;
	return map;
}

static const ShardSegments *
shard_segments(Oid stream, int32 shard)
{
	const MapEntry *map = segment_map(stream);
	ShardSegments key = {.shard = shard};

	if (map->nshards == 0)
		return NULL;
	return bsearch(&key, map->shards, map->nshards, sizeof(ShardSegments), compare_shards);
}

Oid
fl_shard_table(Oid stream, int32 shard)
{
	const ShardSegments *s = shard_segments(stream, shard);

	return s != NULL ? s->table : InvalidOid;
}

const FlSegment *
fl_segment_list(Oid stream, int32 shard, int *count)
{
	const ShardSegments *s = shard_segments(stream, shard);

	*count = s != NULL ? s->n : 0;
	return s != NULL ? s->segments : NULL;
}

void
fl_segment_list_reread(Oid stream)
{
	if (maps != NULL)
		discard_map(stream);
}

bool
fl_segment_find(Oid stream, int32 shard, int64 offset, FlSegment *out)
{
	int			n;
	const FlSegment *segs = fl_segment_list(stream, shard, &n);
	int			low = 0;
	int			high = n;

	/* The last segment whose lower bound is not above the offset. */
	while (low < high)
	{
		int			mid = (low + high) / 2;

		if (segs[mid].lower <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == 0 || offset >= segs[low - 1].upper)
		return false;
	*out = segs[low - 1];
	return true;
}

/* ---- SQL ---------------------------------------------------------------------------------- */

PG_FUNCTION_INFO_V1(fl_sql_segments);

/* Rows of fleetlog._segments: names and bounds only, which everybody may know of any table. */
Datum
fl_sql_segments(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const FlStreamInfo *s = fl_stream_lookup(stream);
	int32		shards = s != NULL ? s->shards : 0;

	InitMaterializedSRF(fcinfo, 0);
	for (int32 shard = 0; shard < shards; shard++)
	{
		int			n;
		const FlSegment *segs = fl_segment_list(stream, shard, &n);

		for (int i = 0; i < n; i++)
		{
			Datum		values[4] = {Int32GetDatum(shard), ObjectIdGetDatum(segs[i].leaf),
			Int64GetDatum(segs[i].lower), Int64GetDatum(segs[i].upper)};
			bool		nulls[4] = {false};

			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	}
	return (Datum) 0;
}
