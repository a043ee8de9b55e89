/*-------------------------------------------------------------------------
 *
 * node.c
 *		Executing a FleetlogScan: one plan node that walks a stream's segments.
 *
 * A segment is opened and locked while it is read and given back before the
 * next one is looked at, so that a long query holds one segment and retention
 * can have the others.  That is sound because the node's slot is emptied before
 * a segment is closed, and whoever keeps a row longer copies it: no row, slot or
 * buffer of ours refers to a closed segment.  The stream itself stays locked to
 * the end of the transaction, as any table of a query.
 *
 * Values of conditions (parameters, now(), columns of an outer relation) are
 * computed at the first row of each rescan.  The directory and the heads are
 * read once per execution, for they belong to its snapshot.
 *
 * A segment that is gone when its turn comes was trimmed after the scan began.
 * A scan that has read nothing of its shard yet begins at the head of now, as it
 * would have done a moment later; any other ends with error LF101, so that no
 * result has a hole.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "fleetlog/compat.h"
#include "scan_internal.h"

static void node_begin(CustomScanState *css, EState *estate, int eflags);
static TupleTableSlot *node_exec(CustomScanState *css);
static void node_end(CustomScanState *css);
static void node_rescan(CustomScanState *css);

static const CustomExecMethods exec_methods = {
	.CustomName = "FleetlogScan",
	.BeginCustomScan = node_begin,
	.ExecCustomScan = node_exec,
	.EndCustomScan = node_end,
	.ReScanCustomScan = node_rescan,
	.EstimateDSMCustomScan = fl_parallel_estimate,
	.InitializeDSMCustomScan = fl_parallel_init,
	.ReInitializeDSMCustomScan = fl_parallel_reinit,
	.InitializeWorkerCustomScan = fl_parallel_attach,
	.ShutdownCustomScan = fl_parallel_shutdown,
	.ExplainCustomScan = fl_node_explain,
};

const CustomScanMethods fl_scan_methods = {
	.CustomName = "FleetlogScan",
	.CreateCustomScanState = fl_node_create,
};

/* ---- life cycle --------------------------------------------------------------- */

Node *
fl_node_create(CustomScan *cscan)
{
	FlNode	   *node = (FlNode *) newNode(sizeof(FlNode), T_CustomScanState);

	node->css.methods = &exec_methods;
	FL_CUSTOM_SCAN_SLOT_OPS(&node->css, &fl_slot_ops);
	node->backward = list_nth_int(cscan->custom_private, FL_PRIVATE_BACKWARD) != 0;
	node->ring = list_nth_int(cscan->custom_private, FL_PRIVATE_RING) != 0;
	node->current = -1;
	return (Node *) node;
}

#if PG_VERSION_NUM < 160000
/*
 * Until 15 the server gives every custom scan a virtual slot and compiles its
 * expressions for that.  Ours builds columns when asked, so do it again with
 * our slot; sub-plans of the first time are forgotten, or EXPLAIN shows them
 * twice.
 */
static void
use_own_slot(FlNode *node, EState *estate)
{
	ScanState  *ss = &node->css.ss;

	ExecInitScanTupleSlot(estate, ss, RelationGetDescr(ss->ss_currentRelation), &fl_slot_ops);
	ss->ps.subPlan = NIL;
	ss->ps.ps_ProjInfo = NULL;
	ExecAssignScanProjectionInfo(ss);
	ss->ps.qual = ExecInitQual(ss->ps.plan->qual, &ss->ps);
}
#endif

static void
init_keys(FlNode *node, CustomScan *cscan)
{
	ListCell   *lc;

	node->keys = palloc0(sizeof(FlNodeKey) * Max(list_length(cscan->custom_exprs), 1));
	foreach(lc, cscan->custom_exprs)
	{
		FlNodeKey  *k = &node->keys[node->nkeys++];

		if (!fl_scan_key_match(lfirst(lc), cscan->scan.scanrelid, &k->key))
			elog(ERROR, "condition of a FleetlogScan is not understood");
		k->value = ExecInitExpr(k->key.value, &node->css.ss.ps);
	}
}

static void
node_begin(CustomScanState *css, EState *estate, int eflags)
{
	FlNode	   *node = (FlNode *) css;

#if PG_VERSION_NUM < 160000
	use_own_slot(node, estate);
#endif
	node->stream = RelationGetRelid(css->ss.ss_currentRelation);
	init_keys(node, (CustomScan *) css->ss.ps.plan);
}

static void
node_end(CustomScanState *css)
{
	FlNode	   *node = (FlNode *) css;

	fl_node_close(node);
}

static void
node_rescan(CustomScanState *css)
{
	FlNode	   *node = (FlNode *) css;

	fl_node_close(node);
	node->ranged = false;
	ExecScanReScan(&css->ss);
}

/* ---- start of a scan -------------------------------------------------------------- */

static void
compute_range(FlNode *node)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;

	fl_scan_range_init(&node->range);
	for (int i = 0; i < node->nkeys && !node->range.empty; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		bool		isnull;
		Datum		value = ExecEvalExpr(node->keys[i].value, econtext, &isnull);

		fl_scan_range_add(&node->range, &node->keys[i].key, value, isnull);
		MemoryContextSwitchTo(old);
	}
}

/* Read the directory at the first use, and put values into the range at each rescan. */
void
fl_node_start(FlNode *node)
{
	CustomScan *cscan = (CustomScan *) node->css.ss.ps.plan;

	if (!node->begun)
	{
		MemoryContext old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);

		fl_directory_read(&node->dir, node->stream);
		MemoryContextSwitchTo(old);
		node->begun = true;
		if (node->dir.nshards > 1 && list_nth_int(cscan->custom_private, FL_PRIVATE_SINGLE_SHARD))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("stream \"%s\" was given more shards while this query began",
							get_rel_name(node->stream)),
					 errhint("Run the query again.")));
	}
	if (!node->ranged)
	{
		compute_range(node);
		node->ranged = true;
		node->next = node->backward ? node->dir.nsegments - 1 : 0;
	}
}

/* ---- segments ------------------------------------------------------------------------- */

static void
report_gone(FlNode *node, const FlSegment *seg)
{
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_OFFSET_TOO_OLD)),
			 errmsg("offsets " INT64_FORMAT " to " INT64_FORMAT " of shard %d of stream \"%s\" were removed while a query went on",
					seg->lower, seg->upper - 1, seg->shard, get_rel_name(node->stream)),
			 errdetail("The oldest offset is " INT64_FORMAT ".", fl_log_head(node->stream, seg->shard)),
			 errhint("Run the query again; it will start at the oldest record.")));
}

/*
 * The segment is gone.  Whoever has read nothing of the shard goes on at its head: a
 * reader that retention met between two steps of its own would otherwise be told of
 * records that it has never seen.
 */
static void
pass_over(FlNode *node, int i)
{
	const FlSegment *seg = &node->dir.segments[i];
	int64		head = fl_log_head(node->stream, seg->shard);
	bool		may;

	if (node->shared != NULL)
		may = fl_parallel_pass(node, i, head);
	else
	{
		may = head >= seg->upper && !node->met[seg->shard];
		if (may)
			node->dir.heads[seg->shard] = head;
	}
	if (!may)
		report_gone(node, seg);
}

void
fl_node_close(FlNode *node)
{
	if (node->scan)
	{
		ExecClearTuple(node->css.ss.ss_ScanTupleSlot);
		fl_bounded_scan_end(node->scan);
		node->scan = NULL;
	}
	if (node->leaf)
	{
		table_close(node->leaf, AccessShareLock);
		node->leaf = NULL;
	}
	node->current = -1;
}

/* Open segment i of the directory; false when nothing in it can match, with node->scan NULL when it is gone. */
bool
fl_node_open(FlNode *node, int i)
{
	const FlSegment *seg = &node->dir.segments[i];
	EState	   *estate = node->css.ss.ps.state;
	MemoryContext old;
	BlockNumber first,
				upto;

	fl_node_close(node);
	node->leaf = try_table_open(seg->leaf, AccessShareLock);
	/* Retention may have given it an empty file instead of dropping it (src/catalog/segment_drop.c). */
	if (node->leaf == NULL ||
		(RelationGetNumberOfBlocks(node->leaf) == 0 && fl_log_head(node->stream, seg->shard) >= seg->upper))
	{
		fl_node_close(node);
		pass_over(node, i);
		return false;
	}
	node->bounds = node->range.bounds;
	node->bounds.from = Max(node->bounds.from, node->dir.heads[seg->shard]);
	/* What the whole segment satisfies needs no seek. */
	if (node->bounds.from <= seg->lower)
		node->bounds.from = 0;
	if (node->bounds.to >= seg->upper)
		node->bounds.to = PG_INT64_MAX;
	old = MemoryContextSwitchTo(estate->es_query_cxt);
	node->scan = fl_bounded_scan_begin(node->leaf, estate->es_snapshot, node->backward, node->ring,
									   &node->bounds, &node->counts.batches);
	MemoryContextSwitchTo(old);
	node->current = i;
	return fl_bounded_scan_blocks(node->scan, &first, &upto);
}

/* Go on to the next segment that has something to read. */
static bool
next_segment(FlNode *node)
{
	for (;;)
	{
		int			i = fl_directory_next(&node->dir, &node->range, node->next, node->backward);
		bool		found;

		CHECK_FOR_INTERRUPTS();
		if (i < 0)
		{
			node->counts.leaves_pruned += node->backward ? node->next + 1 : node->dir.nsegments - node->next;
			node->next = node->backward ? -1 : node->dir.nsegments;
			fl_node_close(node);
			return false;
		}
		node->counts.leaves_pruned += abs(i - node->next);
		node->next = node->backward ? i - 1 : i + 1;
		found = fl_node_open(node, i);
		if (!found)
		{
			node->counts.leaves_pruned++;
			continue;
		}
		node->counts.leaves_read++;
		node->met[node->dir.segments[i].shard] = true;
		return true;
	}
}

/* ---- rows --------------------------------------------------------------------------------- */

static TupleTableSlot *
node_next(ScanState *ss)
{
	FlNode	   *node = (FlNode *) ss;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	if (!node->ranged)
		fl_node_start(node);
	for (;;)
	{
		if (node->scan != NULL && fl_bounded_scan_next(node->scan, slot))
			return slot;
		if (!(node->shared != NULL ? fl_parallel_next(node) : next_segment(node)))
			return ExecClearTuple(slot);
	}
}

/* Rows are locked or updated nowhere in a stream, so nothing is ever checked again. */
static bool
node_recheck(ScanState *ss, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
node_exec(CustomScanState *css)
{
	return ExecScan(&css->ss, (ExecScanAccessMtd) node_next, (ExecScanRecheckMtd) node_recheck);
}
