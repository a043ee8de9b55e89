/*-------------------------------------------------------------------------
 *
 * explain.c
 *		What EXPLAIN tells of a FleetlogScan: its conditions, its direction, and
 *		with ANALYZE how many segments and batches were read and left out.
 *
 * Numbers are sums over all rescans and over the processes of a parallel scan.
 * A segment that a LIMIT kept us from reaching is neither read nor pruned.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"

#include "scan_internal.h"

static void
explain_conditions(FlNode *node, List *ancestors, ExplainState *es)
{
	CustomScan *cscan = (CustomScan *) node->css.ss.ps.plan;
	List	   *context;
	char	   *text;

	if (cscan->custom_exprs == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors);
	text = deparse_expression((Node *) make_ands_explicit(cscan->custom_exprs), context,
							  es->verbose || list_length(es->rtable) > 1, false);
	ExplainPropertyText("Stream Cond", text, es);
}

static void
explain_counts(const FlNodeCounts *c, ExplainState *es)
{
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Leaves", psprintf("read=" INT64_FORMAT " pruned=" INT64_FORMAT,
											   c->leaves_read, c->leaves_pruned), es);
		ExplainPropertyText("Batches", psprintf("read=" INT64_FORMAT " inflated=" INT64_FORMAT " skipped=" INT64_FORMAT,
												c->batches.batches_read, c->batches.batches_inflated,
												c->batches.batches_skipped), es);
		return;
	}
	ExplainPropertyInteger("Leaves Read", NULL, c->leaves_read, es);
	ExplainPropertyInteger("Leaves Pruned", NULL, c->leaves_pruned, es);
	ExplainPropertyInteger("Batches Read", NULL, c->batches.batches_read, es);
	ExplainPropertyInteger("Batches Inflated", NULL, c->batches.batches_inflated, es);
	ExplainPropertyInteger("Batches Skipped", NULL, c->batches.batches_skipped, es);
}

void
fl_node_explain(CustomScanState *css, List *ancestors, ExplainState *es)
{
	FlNode	   *node = (FlNode *) css;

	explain_conditions(node, ancestors, es);
	if (node->backward)
		ExplainPropertyText("Direction", "Backward", es);
	if (!es->analyze)
		return;
	/* The batch at hand is counted when the scan lets go of it. */
	fl_node_close(node);
	explain_counts(&node->counts, es);
}
