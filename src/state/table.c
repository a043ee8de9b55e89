/*-------------------------------------------------------------------------
 *
 * table.c
 *		Rows of a table by the key of its unique index, changed without ever waiting.
 *
 * This is what SELECT and UPDATE do, one level lower: the table's own access method,
 * its own indexes, ordinary WAL and ordinary row versions, so that everything that
 * PostgreSQL knows of tables holds for state tables.  What is different: a row that
 * somebody else has locked is reported, not waited for, because a writer of the log
 * holds shards that a fleet waits for.
 *
 * Rows are looked for as they are now (a dirty snapshot), not as the transaction's
 * snapshot has them: the holder of the key's shard must see the last committed value.
 *
 * Expressions of indexes and constraints are the table owner's code; they run as the
 * owner, security restricted, as the server itself does it in REINDEX.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fleetlog/compat.h"
#include "state_internal.h"

#define MAX_KEYS	3

struct FlStateTable
{
	Relation	rel;
	Relation	index;
	int			nkeys;
	EState	   *estate;
	ResultRelInfo *rri;
	TupleTableSlot *found;		/* the row of the last find */
	bool		found_locked;	/* somebody held a lock on it then */
	TupleTableSlot *fresh;		/* a row to be written */
};

/* ---- opening ----------------------------------------------------------------- */

static void
check_columns(Relation rel, int natts)
{
	TupleDesc	desc = RelationGetDescr(rel);

	if (desc->natts >= natts)
	{
		int			i = 0;

		while (i < natts && !TupleDescAttr(desc, i)->attisdropped)
			i++;
		if (i == natts)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has no longer the columns of a state table", RelationGetRelationName(rel)),
			 errhint("Drop it, create another one with fleetlog.create_state, and rebuild it with fleetlog.rebuild_state.")));
}

static Relation
open_key_index(Relation rel)
{
	Oid			index;

	/* Sees to it that the list of indexes, and with it the primary key, is known. */
	list_free(RelationGetIndexList(rel));
	index = rel->rd_pkindex;
	if (!OidIsValid(index))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no primary key any more", RelationGetRelationName(rel)),
				 errhint("ALTER TABLE %s ADD PRIMARY KEY (stream, key);", RelationGetRelationName(rel))));
	return index_open(index, RowExclusiveLock);
}

/* ALTER INDEX locks an index without its table; what opens them below would wait for it. */
static bool
lock_indexes_briefly(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	bool		locked = true;

	foreach(lc, indexes)
		locked = locked && ConditionalLockRelationOid(lfirst_oid(lc), RowExclusiveLock);
	list_free(indexes);
	return locked;
}

FlStateTable *
fl_state_table_open(Oid relid, int nkeys)
{
	FlStateTable *t;
	Relation	rel;

	if (!ConditionalLockRelationOid(relid, RowExclusiveLock))
		return NULL;
	rel = try_table_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, RowExclusiveLock);
		return NULL;
	}
	Assert(nkeys <= MAX_KEYS);
	if (!lock_indexes_briefly(rel))
	{
		/* What was locked stays until the end of the transaction. */
		table_close(rel, NoLock);
		return NULL;
	}
	check_columns(rel, nkeys == 2 ? FL_ST_NATTS : FL_SC_NATTS);
	t = palloc0(sizeof(FlStateTable));
	t->rel = rel;
	t->nkeys = nkeys;
	t->index = open_key_index(rel);
	t->estate = CreateExecutorState();
	t->rri = makeNode(ResultRelInfo);
	/* No range table: nobody asks which columns a query changes. */
	InitResultRelInfo(t->rri, rel, 0, NULL, 0);
	ExecOpenIndices(t->rri, false);
	t->found = table_slot_create(rel, NULL);
	t->fresh = table_slot_create(rel, NULL);
	return t;
}

Oid
fl_state_table_relid(const FlStateTable *t)
{
	return RelationGetRelid(t->rel);
}

bool
fl_state_table_is_empty(const FlStateTable *t)
{
	return RelationGetNumberOfBlocks(t->rel) == 0;
}

void
fl_state_table_close(FlStateTable *t)
{
	if (t == NULL)
		return;
	ExecDropSingleTupleTableSlot(t->found);
	ExecDropSingleTupleTableSlot(t->fresh);
	ExecCloseIndices(t->rri);
	FreeExecutorState(t->estate);
	index_close(t->index, NoLock);
	/* The lock stays until the end of the transaction, as after any UPDATE. */
	table_close(t->rel, NoLock);
	pfree(t);
}

/* ---- finding --------------------------------------------------------------------- */

static void
make_scan_keys(FlStateTable *t, const Datum *key, ScanKey skeys)
{
	for (int i = 0; i < t->nkeys; i++)
	{
		bool		is_text = i == t->nkeys - 1;

		ScanKeyEntryInitialize(&skeys[i], 0, i + 1, BTEqualStrategyNumber,
							   InvalidOid, t->index->rd_indcollation[i],
							   is_text ? F_TEXTEQ : F_OIDEQ, key[i]);
	}
}

/*
 * Does somebody hold a lock on the row, and nothing but a lock?  The dirty snapshot
 * does not tell.  An update that is not to wait for it would return as well, but a
 * server with assertions does not let it begin.
 */
static bool
row_is_locked(TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *b = (BufferHeapTupleTableSlot *) slot;
	HeapTupleHeader header;
	TransactionId xmax;
	uint16		infomask;

	if (!TTS_IS_BUFFERTUPLE(slot) || !BufferIsValid(b->buffer))
		return false;
	header = b->base.tuple->t_data;
	LockBuffer(b->buffer, BUFFER_LOCK_SHARE);
	infomask = header->t_infomask;
	xmax = HeapTupleHeaderGetRawXmax(header);
	LockBuffer(b->buffer, BUFFER_LOCK_UNLOCK);
	if ((infomask & HEAP_XMAX_INVALID) != 0 || !HEAP_XMAX_IS_LOCKED_ONLY(infomask))
		return false;
	if ((infomask & HEAP_XMAX_IS_MULTI) != 0)
		return !HEAP_LOCKED_UPGRADED(infomask) && MultiXactIdIsRunning(xmax, true);
	return TransactionIdIsCurrentTransactionId(xmax) || TransactionIdIsInProgress(xmax);
}

bool
fl_state_table_find(FlStateTable *t, const Datum *key, Datum *values, bool *nulls, bool *locked)
{
	SnapshotData dirty;
	ScanKeyData skeys[MAX_KEYS];
	IndexScanDesc scan;
	bool		found;

	*locked = false;
	InitDirtySnapshot(dirty);
	ExecClearTuple(t->found);
	make_scan_keys(t, key, skeys);
	scan = FL_INDEX_BEGINSCAN(t->rel, t->index, &dirty, t->nkeys);
	index_rescan(scan, skeys, t->nkeys, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, t->found);
	if (found)
	{
		*locked = TransactionIdIsValid(dirty.xmin) || TransactionIdIsValid(dirty.xmax);
		t->found_locked = row_is_locked(t->found);
		ExecMaterializeSlot(t->found);
	}
	index_endscan(scan);
	if (!found || values == NULL)
		return found;
	slot_getallattrs(t->found);
	memcpy(values, t->found->tts_values, sizeof(Datum) * (t->nkeys == 2 ? FL_ST_NATTS : FL_SC_NATTS));
	memcpy(nulls, t->found->tts_isnull, sizeof(bool) * (t->nkeys == 2 ? FL_ST_NATTS : FL_SC_NATTS));
	return true;
}

/* ---- writing ----------------------------------------------------------------------- */

/* The columns that are ours, and behind them what the owner has added (`old`: as it was there). */
static void
store_row(FlStateTable *t, TupleTableSlot *old, const Datum *values, const bool *nulls)
{
	TupleDesc	desc = RelationGetDescr(t->rel);
	int			ours = t->nkeys == 2 ? FL_ST_NATTS : FL_SC_NATTS;

	ExecClearTuple(t->fresh);
	if (old != NULL)
		slot_getallattrs(old);
	for (int i = 0; i < desc->natts; i++)
	{
		if (i < ours)
		{
			t->fresh->tts_values[i] = values[i];
			t->fresh->tts_isnull[i] = nulls[i];
		}
		else
		{
			t->fresh->tts_values[i] = old != NULL ? old->tts_values[i] : (Datum) 0;
			t->fresh->tts_isnull[i] = old != NULL ? old->tts_isnull[i] : true;
		}
	}
	ExecStoreVirtualTuple(t->fresh);
}

/* Index entries; false: another transaction has written the same key just now. */
static bool
insert_index_entries(FlStateTable *t, bool update, bool summarizing_only)
{
	List	   *arbiters = list_make1_oid(RelationGetRelid(t->index));
	bool		conflict = false;
	Oid			save_user;
	int			save_context;
	int			level;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(t->rel->rd_rel->relowner, save_context | SECURITY_RESTRICTED_OPERATION);
	level = NewGUCNestLevel();
	if (t->rri->ri_NumIndices > 1)
		(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	list_free(FL_EXEC_INSERT_INDEX_TUPLES(t->rri, t->fresh, t->estate, update, true, &conflict, arbiters,
										  summarizing_only));
	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(save_user, save_context);
	list_free(arbiters);
	ResetPerTupleExprContext(t->estate);
	return !conflict;
}

bool
fl_state_table_insert(FlStateTable *t, const Datum *values, const bool *nulls)
{
	store_row(t, NULL, values, nulls);
	t->fresh->tts_tableOid = RelationGetRelid(t->rel);
	table_tuple_insert(t->rel, t->fresh, GetCurrentCommandId(true), 0, NULL);
	if (!insert_index_entries(t, false, false))
	{
		/*
		 * Whoever holds the key's shard is alone, so this is a writer that does
		 * not: during a change of the number of shards, or a superuser.  The
		 * row is there already and only an abort takes it back.
		 */
		pg_atomic_fetch_add_u64(&fl_state_stats()->conflicts, 1);
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a row of state table \"%s\" was written at the same time by another transaction",
						RelationGetRelationName(t->rel)),
				 errhint("Retry the transaction.")));
	}
	return true;
}

bool
fl_state_table_update(FlStateTable *t, const Datum *values, const bool *nulls)
{
	ItemPointerData tid = t->found->tts_tid;
	FlTupleUpdate u = {0};

	if (t->found_locked)
		return false;
	store_row(t, t->found, values, nulls);
	t->fresh->tts_tableOid = RelationGetRelid(t->rel);
	if (FL_TABLE_TUPLE_UPDATE(t->rel, &tid, t->fresh, GetCurrentCommandId(true), GetActiveSnapshot(), &u) != TM_Ok)
		return false;
	if (FL_UPDATE_NEEDS_INDEXES(&u) && t->rri->ri_NumIndices > 0)
		(void) insert_index_entries(t, true, FL_UPDATE_SUMMARIZING_ONLY(&u));
	return true;
}

bool
fl_state_table_delete(FlStateTable *t)
{
	ItemPointerData tid = t->found->tts_tid;
	TM_FailureData tmfd;

	return table_tuple_delete(t->rel, &tid, GetCurrentCommandId(true), GetActiveSnapshot(), InvalidSnapshot,
							  false, &tmfd, false) == TM_Ok;
}
