/*-------------------------------------------------------------------------
 *
 * tableam.c
 *		The access method fleetlog_log: its table of callbacks, storage of new
 *		segments, size estimates, and a clear refusal of what a log does not do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlogutils.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/plancat.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "fleetlog/settings.h"
#include "log_private.h"

PG_FUNCTION_INFO_V1(fl_sql_tableam_handler);

FL_NORETURN static void refuse(const char *what, const char *hint);

static void
refuse(const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s not supported on streams", what),
			 errhint("%s", hint)));
}

static void
refuse_change(void)
{
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_APPEND_ONLY)),
			 errmsg("stream is append-only"),
			 errdetail("Records are never updated or deleted one by one."),
			 errhint("Append a new record; old ones go by retention.")));
}

/* ---- slots, index fetches ------------------------------------------------------- */

static const TupleTableSlotOps *
am_slot_callbacks(Relation rel)
{
	return &fl_slot_ops;
}

static IndexFetchTableData *
am_index_fetch_begin(Relation rel)
{
	IndexFetchTableData *f = palloc0(sizeof(IndexFetchTableData));

	f->rel = rel;
	return f;
}

static void
am_index_fetch_reset(IndexFetchTableData *f)
{
}

static void
am_index_fetch_end(IndexFetchTableData *f)
{
	pfree(f);
}

static bool
am_index_fetch_tuple(IndexFetchTableData *f, ItemPointer tid, Snapshot snapshot,
					 TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	*call_again = false;
	if (all_dead)
		*all_dead = false;
	return fl_fetch_tid(f->rel, tid, snapshot, slot);
}

static bool
am_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	return fl_fetch_tid(rel, tid, snapshot, slot);
}

/* Rows have one version: the newest of a tid is itself. */
static void
am_get_latest_tid(TableScanDesc scan, ItemPointer tid)
{
}

static bool
am_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	TupleTableSlot *probe = MakeSingleTupleTableSlot(RelationGetDescr(rel), &fl_slot_ops);
	bool		ok = fl_fetch_tid(rel, &slot->tts_tid, snapshot, probe);

	ExecDropSingleTupleTableSlot(probe);
	return ok;
}

/* Only called by index methods that want to remove entries: nothing to remove. */
static TransactionId
am_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	delstate->ndeltids = 0;
	return InvalidTransactionId;
}

/* ---- changes ------------------------------------------------------------------------ */

static void
am_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
					  struct BulkInsertStateData *bistate, uint32 token)
{
	refuse("INSERT ... ON CONFLICT is", "Use the idempotent form of fleetlog.append() (producer_id, sequence).");
}

static void
am_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token, bool succeeded)
{
	refuse("INSERT ... ON CONFLICT is", "Use the idempotent form of fleetlog.append() (producer_id, sequence).");
}

static TM_Result
am_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot, Snapshot crosscheck,
		  bool wait, TM_FailureData *tmfd, bool changing_part)
{
	refuse_change();
	return TM_Ok;
}

#if PG_VERSION_NUM >= 160000
static TM_Result
am_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid, Snapshot snapshot,
		  Snapshot crosscheck, bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
		  TU_UpdateIndexes *update_indexes)
#else
static TM_Result
am_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid, Snapshot snapshot,
		  Snapshot crosscheck, bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
		  bool *update_indexes)
#endif
{
	refuse_change();
	return TM_Ok;
}

static TM_Result
am_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot, CommandId cid,
		LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags, TM_FailureData *tmfd)
{
	refuse("SELECT FOR UPDATE or SHARE is", "Records never change, so there is nothing to lock.");
	return TM_Ok;
}

/* ---- storage ---------------------------------------------------------------------------- */

static void
new_storage(Relation rel, const FlRelFile *file, char persistence,
			TransactionId *freeze_xid, MultiXactId *minmulti)
{
	SMgrRelation srel;

	if (persistence != RELPERSISTENCE_PERMANENT)
		refuse("UNLOGGED and TEMPORARY tables are", "A stream is durable; use an ordinary table for what is not.");
	fl_require_preload();
	fl_check_descriptor(rel);

	/*
	 * TRUNCATE of a segment that holds something.  It is refused earlier where
	 * it is seen, but only here is the segment locked against writers.
	 */
	if (FL_REL_FILE_NUMBER(rel) != FL_FILE_REL(*file) && RelationGetNumberOfBlocks(rel) > 0 &&
		!fl_refuse_is_suspended())
		refuse_change();
	*freeze_xid = RecentXmin;
	*minmulti = GetOldestMultiXactId();
#if PG_VERSION_NUM >= 150000
	srel = RelationCreateStorage(*file, persistence, true);
#endif
	smgrclose(srel);
}

/* TRUNCATE in the transaction that created the segment: nothing anybody saw. */
static void
am_nontransactional_truncate(Relation rel)
{
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_APPEND_ONLY)),
			 errmsg("stream is append-only"),
			 errhint("Old records go by retention.")));
}

/* ALTER TABLE ... SET TABLESPACE: the file as it is. */
static void
copy_data(Relation rel, const FlRelFile *newfile)
{
	SMgrRelation dst;

	FlushRelationBuffers(rel);
	dst = RelationCreateStorage(*newfile, rel->rd_rel->relpersistence, true);
	RelationCopyStorage(RelationGetSmgr(rel), dst, MAIN_FORKNUM, rel->rd_rel->relpersistence);
	RelationDropStorage(rel);
	smgrclose(dst);
}

/*
 * VACUUM FULL and CLUSTER: a log is compact already, so the pages are copied
 * verbatim, and a VACUUM FULL of the whole database gets through.
 */
static void
copy_for_cluster(Relation old_table, Relation new_table, Relation old_index, bool use_sort,
				 TransactionId oldest_xmin, TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
				 double *num_tuples, double *tups_vacuumed, double *tups_recently_dead)
{
	if (old_index)
		refuse("CLUSTER is", "Records stay in offset order.");
	FlushRelationBuffers(old_table);
	RelationCopyStorage(RelationGetSmgr(old_table), RelationGetSmgr(new_table), MAIN_FORKNUM,
						new_table->rd_rel->relpersistence);
	/* Pages keep their transaction ids, so the new table is no younger. */
	*xid_cutoff = old_table->rd_rel->relfrozenxid;
	*multi_cutoff = old_table->rd_rel->relminmxid;
	*num_tuples = Max(old_table->rd_rel->reltuples, 0);
	*tups_vacuumed = *tups_recently_dead = 0;
}

static bool
am_needs_toast_table(Relation rel)
{
	return false;
}

/* Rows are counted from page headers of a sample, so plans are right before ANALYZE. */
static void
am_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
				 double *allvisfrac)
{
	BlockNumber n = RelationGetNumberOfBlocks(rel);

	*pages = n;
	*tuples = 0;
	*allvisfrac = 0;
	if (n > 1)
	{
		uint8		page[FL_PAGE_SIZE];
		FlMeta		meta;
		FlPageInfo	info;
		BlockNumber blk = fl_seek_last(rel, n);

		/* Offsets are dense: from the segment's base to the last written page. */
		if (blk > 0 && fl_meta_read(rel, &meta))
		{
			double		first;
			double		full;

			fl_page_copy(rel, blk, NULL, page, &info);
			first = (double) (info.first_offset - meta.base_offset);
			full = blk - (info.kind == FL_PAGE_CONT ? info.page_no : 0);

			/* The last page (or batch) counts like those before it. */
			*tuples = full > 1 ? first + first / (full - 1) : FL_ITEMS_PER_PAGE / 4;
		}
	}
}

/* ---- indexes: later --------------------------------------------------------------------- */

static double
am_index_build_range_scan(Relation table_rel, Relation index_rel, IndexInfo *index_info,
						  bool allow_sync, bool anyvisible, bool progress,
						  BlockNumber start, BlockNumber n, IndexBuildCallback callback,
						  void *state, TableScanDesc scan)
{
	refuse("indexes are", "Offset and time are found without an index: fleetlog.read(), fleetlog.offset_for_time().");
	return 0;
}

static void
am_index_validate_scan(Relation table_rel, Relation index_rel, IndexInfo *index_info,
					   Snapshot snapshot, ValidateIndexState *state)
{
	refuse("indexes are", "Offset and time are found without an index: fleetlog.read(), fleetlog.offset_for_time().");
}

static const TableAmRoutine fl_methods = {
	.type = T_TableAmRoutine,
	.slot_callbacks = am_slot_callbacks,

	.scan_begin = fl_scan_begin,
	.scan_end = fl_scan_end,
	.scan_rescan = fl_scan_rescan,
	.scan_getnextslot = fl_scan_getnextslot,

	.parallelscan_estimate = table_block_parallelscan_estimate,
	.parallelscan_initialize = table_block_parallelscan_initialize,
	.parallelscan_reinitialize = table_block_parallelscan_reinitialize,

	.index_fetch_begin = am_index_fetch_begin,
	.index_fetch_reset = am_index_fetch_reset,
	.index_fetch_end = am_index_fetch_end,
	.index_fetch_tuple = am_index_fetch_tuple,

	.tuple_fetch_row_version = am_fetch_row_version,
	.tuple_tid_valid = fl_scan_tid_valid,
	.tuple_get_latest_tid = am_get_latest_tid,
	.tuple_satisfies_snapshot = am_satisfies_snapshot,
	.index_delete_tuples = am_index_delete_tuples,

	.tuple_insert = fl_tuple_insert,
	.tuple_insert_speculative = am_insert_speculative,
	.tuple_complete_speculative = am_complete_speculative,
	.multi_insert = fl_multi_insert,
	.tuple_delete = am_delete,
	.tuple_update = am_update,
	.tuple_lock = am_lock,

#if PG_VERSION_NUM >= 160000
	.relation_set_new_filelocator = new_storage,
#else
	.relation_set_new_filenode = new_storage,
#endif
	.relation_nontransactional_truncate = am_nontransactional_truncate,
	.relation_copy_data = copy_data,
	.relation_copy_for_cluster = copy_for_cluster,
	.relation_vacuum = fl_relation_vacuum,

	.scan_analyze_next_block = fl_scan_analyze_next_block,
	.scan_analyze_next_tuple = fl_scan_analyze_next_tuple,
	.index_build_range_scan = am_index_build_range_scan,
	.index_validate_scan = am_index_validate_scan,

	.relation_size = table_block_relation_size,
	.relation_needs_toast_table = am_needs_toast_table,
	.relation_estimate_size = am_estimate_size,

	.scan_sample_next_block = fl_scan_sample_next_block,
	.scan_sample_next_tuple = fl_scan_sample_next_tuple,
};

Datum
fl_sql_tableam_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&fl_methods);
}
