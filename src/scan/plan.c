/*-------------------------------------------------------------------------
 *
 * plan.c
 *		SELECT over a stream becomes one plan node, FleetlogScan.
 *
 * How the planner is led there
 *		get_relation_info	The planner asks for the size of a partitioned table
 *							that it is about to expand.  If that is a stream which
 *							is only read here, we clear `inh` and tell the size;
 *							then there is no expansion.  A partitioned table
 *							without children would be taken for empty (that is what
 *							ONLY means), so it passes as a plain table,
 *		set_rel_pathlist	until its paths are asked for.  Ours replace those that
 *							the planner made, and the entry is a partitioned table
 *							again.
 * It all happens where the planner looks at one relation, so that views, CTEs,
 * UNION ALL, inlined functions, min() and max() need nothing special.
 *
 * The ordinary plan, an Append over all segments, stays where rows have to be
 * found again (FOR UPDATE, and any statement whose target is another table:
 * EvalPlanQual), for TABLESAMPLE, and with fleetlog.enable_stream_scan off.
 *
 * Paths
 *		One forward scan; the same backward where that order is wanted; with
 *		workers; and for every set of outer relations that a join gives bounds
 *		from.  Order: (shard, log_offset), or (log_offset) of a single shard.
 *
 * A condition is evaluated inside the node only where row security lets it run
 * first: at the lowest security level, or leakproof.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "storage/bufmgr.h"
#include "utils/lsyscache.h"

#include "fleetlog/compat.h"
#include "fleetlog/settings.h"
#include "fleetlog/stream_scan.h"
#include "scan_internal.h"

/* Operators that the server's headers have no names for. */
#define INT4_GT_OPERATOR	521
#define INT8_GT_OPERATOR	413

/* Outer relations that parameterised paths are made for, at most. */
#define MAX_PARAMETERISATIONS	8

/*
 * Costs: opening and seeking in a segment, unpacking a page of batches, both in
 * units of cpu_tuple_cost.
 */
#define LEAF_TUPLES			25.0
#define UNPACK_TUPLES		20.0

static get_relation_info_hook_type prev_relation_info = NULL;
static set_rel_pathlist_hook_type prev_rel_pathlist = NULL;

static Plan *make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
					   List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "FleetlogScan",
	.PlanCustomPath = make_plan,
};

/* ---- taking a relation over --------------------------------------------------------- */

static bool
is_ours(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	return fl_enable_stream_scan &&
		rte->rtekind == RTE_RELATION &&
		rte->relkind == RELKIND_PARTITIONED_TABLE &&
		rte->tablesample == NULL &&
		(int) rel->relid != root->parse->resultRelation &&
		get_plan_rowmark(root->rowMarks, rel->relid) == NULL;
}

/* Undo what the server has just found out about partitions. */
static void
forget_partitions(RelOptInfo *rel)
{
	rel->part_scheme = NULL;
	rel->nparts = -1;
	rel->boundinfo = NULL;
	rel->partition_qual = NIL;
	rel->partexprs = NULL;
	rel->nullable_partexprs = NULL;
}

static void
relation_info(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	RangeTblEntry *rte;
	const FlStreamInfo *info;
	FlPlanRel  *pr;

	if (prev_relation_info != NULL)
		prev_relation_info(root, relid, inhparent, rel);
	if (!inhparent || fl_shared == NULL)
		return;
	rte = root->simple_rte_array != NULL ? root->simple_rte_array[rel->relid] : NULL;
	if (rte == NULL || !is_ours(root, rel, rte))
		return;
	info = fl_stream_lookup(relid);
	if (info == NULL)
		return;
	pr = fl_plan_rel_create(info);
	rte->inh = false;
	rte->relkind = RELKIND_RELATION;
	forget_partitions(rel);
	rel->fdw_private = pr;
	rel->tuples = pr->tuples;
	rel->pages = (BlockNumber) Min(pr->pages, (double) MaxBlockNumber);
	rel->allvisfrac = 0;
	for (AttrNumber att = FL_ATT_CREATED; att <= rel->max_attr; att++)
		rel->attr_widths[att - rel->min_attr] = fl_plan_column_width(pr, att);
}

FlPlanRel *
fl_plan_rel_find(PlannerInfo *root, const RangeTblEntry *rte, RelOptInfo **rel)
{
	if (rte->rtekind != RTE_RELATION || rte->inh || root->simple_rel_array == NULL)
		return NULL;
	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *r = root->simple_rel_array[i];

		if (root->simple_rte_array[i] != rte)
			continue;
		if (r == NULL || r->fdw_private == NULL || r->fdwroutine != NULL ||
			fl_stream_lookup(rte->relid) == NULL)
			return NULL;
		*rel = r;
		return r->fdw_private;
	}
	return NULL;
}

/* ---- conditions ------------------------------------------------------------------------ */

/* May this condition tell the scan where to look? */
static bool
is_key(PlannerInfo *root, RelOptInfo *rel, RestrictInfo *rinfo, FlScanKey *key)
{
	return !rinfo->pseudoconstant &&
		restriction_is_securely_promotable(rinfo, rel) &&
		fl_scan_key_match(rinfo->clause, rel->relid, key) &&
		!bms_is_member(rel->relid, pull_varnos(root, (Node *) key->value)) &&
		!contain_volatile_functions((Node *) key->value) &&
		!contain_subplans((Node *) key->value);
}

static List *
keys_of(PlannerInfo *root, RelOptInfo *rel, List *clauses)
{
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		FlScanKey	key;

		if (is_key(root, rel, lfirst_node(RestrictInfo, lc), &key))
			keys = lappend(keys, lfirst(lc));
	}
	return keys;
}

/* Do the conditions leave one shard only? */
static bool
fixes_shard(RelOptInfo *rel, List *keys)
{
	ListCell   *lc;

	foreach(lc, keys)
	{
		FlScanKey	key;

		if (fl_scan_key_match(lfirst_node(RestrictInfo, lc)->clause, rel->relid, &key) &&
			key.column == FL_ATT_SHARD && key.op == FL_KEY_EQ)
			return true;
	}
	return false;
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Path key of one column; NULL when the query has no use for its order. */
static PathKey *
column_pathkey(PlannerInfo *root, RelOptInfo *rel, AttrNumber att, Oid type, Oid opno)
{
	Var		   *var = makeVar(rel->relid, att, type, -1, InvalidOid, 0);
	List	   *keys = FL_BUILD_PATHKEY(root, (Expr *) var, opno, rel->relids);

	return keys != NIL ? linitial(keys) : NULL;
}

/*
 * The order of the scan as far as the query can use it.  A shard that is fixed
 * by a constant is no part of the order (its path key would be redundant).
 */
static List *
scan_pathkeys(PlannerInfo *root, RelOptInfo *rel, bool single_shard, bool backward)
{
	List	   *result = NIL;
	PathKey    *key;

	if (!has_useful_pathkeys(root, rel))
		return NIL;
	if (!single_shard)
	{
		key = column_pathkey(root, rel, FL_ATT_SHARD, INT4OID,
							 backward ? INT4_GT_OPERATOR : Int4LessOperator);
		if (key == NULL)
			return NIL;
		if (!EC_MUST_BE_REDUNDANT(key->pk_eclass))
			result = lappend(result, key);
	}
	key = column_pathkey(root, rel, FL_ATT_OFFSET, INT8OID,
						 backward ? INT8_GT_OPERATOR : Int8LessOperator);
	if (key != NULL && !EC_MUST_BE_REDUNDANT(key->pk_eclass))
		result = lappend(result, key);
	return truncate_useless_pathkeys(root, rel, result);
}

/* ---- cost ---------------------------------------------------------------------------------------- */

/* Does the query want more of a record than the batch's head tells? */
static bool
needs_unpacking(RelOptInfo *rel)
{
	for (AttrNumber att = rel->min_attr; att <= rel->max_attr; att++)
		if ((att == 0 || att >= FL_ATT_CREATED) && !bms_is_empty(rel->attr_needed[att - rel->min_attr]))
			return true;
	return false;
}

/* Columns that conditions look at count as well. */
static bool
conditions_need_unpacking(RelOptInfo *rel)
{
	Bitmapset  *atts = NULL;
	ListCell   *lc;
	int			att = -1;

	foreach(lc, rel->baserestrictinfo)
		pull_varattnos((Node *) lfirst_node(RestrictInfo, lc)->clause, rel->relid, &atts);
	while ((att = bms_next_member(atts, att)) >= 0)
	{
		AttrNumber	attno = att + FirstLowInvalidHeapAttributeNumber;

		if (attno == 0 || attno >= FL_ATT_CREATED)
			return true;
	}
	return false;
}

/* Records that lie in the range of the keys, and pages that have to be read for them. */
static void
estimate_range(PlannerInfo *root, RelOptInfo *rel, List *keys, double *tuples, double *pages,
			   double *leaves)
{
	FlPlanRel  *pr = rel->fdw_private;
	Selectivity sel = clauselist_selectivity(root, keys, rel->relid, JOIN_INNER, NULL);

	*tuples = clamp_row_est(pr->tuples * sel);
	*pages = ceil(pr->pages * sel);
	*leaves = Max(1.0, ceil(pr->leaves * sel));
	if (keys != NIL)
		*pages += *leaves;		/* the last steps of the seeks */
}

static void
cost_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *keys, double divisor)
{
	double		tuples,
				pages,
				leaves;
	QualCost	qual;
	Cost		cpu;
	PathTarget *target = path->path.pathtarget;

	estimate_range(root, rel, keys, &tuples, &pages, &leaves);
	cost_qual_eval(&qual, path->path.param_info ? path->path.param_info->ppi_clauses : NIL, root);
	qual.startup += rel->baserestrictcost.startup;
	qual.per_tuple += rel->baserestrictcost.per_tuple;

	cpu = tuples * (cpu_tuple_cost + qual.per_tuple) + leaves * LEAF_TUPLES * cpu_tuple_cost;
	if (needs_unpacking(rel) || conditions_need_unpacking(rel))
		cpu += Max(pages, 1) * UNPACK_TUPLES * cpu_tuple_cost;
	cpu += target->cost.per_tuple * path->path.rows;
	path->path.startup_cost = qual.startup + target->cost.startup + LEAF_TUPLES * cpu_tuple_cost;
	path->path.total_cost = path->path.startup_cost + cpu / divisor + pages * seq_page_cost;
}

/* ---- paths ------------------------------------------------------------------------------------------ */

static CustomPath *
new_path(RelOptInfo *rel, ParamPathInfo *param_info, bool backward, bool single_shard)
{
	CustomPath *path = makeNode(CustomPath);
	FlPlanRel  *pr = rel->fdw_private;

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.param_info = param_info;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.rows = param_info ? param_info->ppi_rows : rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_private = list_make3_int(backward, single_shard && pr->shards == 1, 0);
	return path;
}

static void
set_ring(RelOptInfo *rel, CustomPath *path, double pages)
{
	/* As for heap: a scan larger than a quarter of the cache keeps to a ring. */
	lfirst_int(list_nth_cell(path->custom_private, FL_PRIVATE_RING)) = pages > NBuffers / 4;
}

static void
add_plain_paths(PlannerInfo *root, RelOptInfo *rel, List *keys)
{
	FlPlanRel  *pr = rel->fdw_private;
	bool		single = pr->shards == 1 || fixes_shard(rel, keys);
	ParamPathInfo *lateral = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	double		tuples,
				pages,
				leaves;

	estimate_range(root, rel, keys, &tuples, &pages, &leaves);
	for (int backward = 0; backward < 2; backward++)
	{
		List	   *pathkeys = scan_pathkeys(root, rel, single, backward);
		CustomPath *path;

		if (backward && pathkeys == NIL)
			continue;
		path = new_path(rel, lateral, backward, single && pathkeys != NIL);
		path->path.pathkeys = pathkeys;
		set_ring(rel, path, pages);
		cost_path(root, rel, path, keys, 1.0);
		add_path(rel, (Path *) path);
	}
	if (rel->consider_parallel && bms_is_empty(rel->lateral_relids))
	{
		int			workers = compute_parallel_worker(rel, pages, -1, max_parallel_workers_per_gather);
		CustomPath *path;
		double		divisor = workers;

		if (workers <= 0)
			return;
		if (parallel_leader_participation)
			divisor += Max(0, 1.0 - 0.3 * workers);
		path = new_path(rel, NULL, false, single);
		path->path.pathkeys = scan_pathkeys(root, rel, single, false);
		path->path.parallel_aware = true;
		path->path.parallel_workers = workers;
		path->path.rows = clamp_row_est(path->path.rows / divisor);
		set_ring(rel, path, pages);
		cost_path(root, rel, path, keys, divisor);
		add_partial_path(rel, (Path *) path);
	}
}

static bool
ec_member_is_column(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec, EquivalenceMember *em,
					void *arg)
{
	Var		   *var = (Var *) em->em_expr;

	return IsA(var, Var) && (Index) var->varno == rel->relid && var->varattno == *(AttrNumber *) arg;
}

/* Join conditions that could give this relation bounds. */
static List *
join_keys(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *clauses = NIL;
	ListCell   *lc;

	foreach(lc, rel->joininfo)
		if (join_clause_is_movable_to(lfirst_node(RestrictInfo, lc), rel))
			clauses = lappend(clauses, lfirst(lc));
	for (AttrNumber att = FL_ATT_SHARD; att <= FL_ATT_TS && rel->has_eclass_joins; att++)
		clauses = list_concat(clauses,
							  generate_implied_equalities_for_column(root, rel, ec_member_is_column,
																	 &att, rel->lateral_referencers));
	return keys_of(root, rel, clauses);
}

static List *
add_set(List *sets, Relids set)
{
	ListCell   *lc;

	if (bms_is_empty(set) || list_length(sets) >= MAX_PARAMETERISATIONS)
		return sets;
	foreach(lc, sets)
		if (bms_equal(lfirst(lc), set))
			return sets;
	return lappend(sets, set);
}

/*
 * The outer relations of each join condition, and all of them together: a join
 * on (shard, log_offset) is of use only as a whole.
 */
static List *
outer_sets(RelOptInfo *rel, List *joins)
{
	List	   *sets = NIL;
	Relids		all = NULL;
	ListCell   *lc;

	foreach(lc, joins)
	{
		Relids		outer = bms_union(lfirst_node(RestrictInfo, lc)->clause_relids, rel->lateral_relids);

		outer = bms_del_member(outer, rel->relid);
		all = bms_union(all, outer);
		sets = add_set(sets, outer);
	}
	return add_set(sets, all);
}

static void
add_parameterised_paths(PlannerInfo *root, RelOptInfo *rel, List *keys)
{
	ListCell   *lc;

	foreach(lc, outer_sets(rel, join_keys(root, rel)))
	{
		ParamPathInfo *param = get_baserel_parampathinfo(root, rel, lfirst(lc));
		List	   *inner = keys_of(root, rel, param->ppi_clauses);
		CustomPath *path;

		if (inner == NIL)
			continue;
		path = new_path(rel, param, false, false);
		cost_path(root, rel, path, list_concat_copy(keys, inner), 1.0);
		add_path(rel, (Path *) path);
	}
}

/*
 * Is one of several conditions a constant that nothing passes?  For a plain
 * table the server looks at that only where it is the only one, as it is not
 * beside a policy.
 */
static bool
passes_nothing(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		Const	   *c = (Const *) lfirst_node(RestrictInfo, lc)->clause;

		if (IsA(c, Const) && (c->constisnull || !DatumGetBool(c->constvalue)))
			return true;
	}
	return false;
}

static void
rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	RelOptInfo *found;

	if (prev_rel_pathlist != NULL)
		prev_rel_pathlist(root, rel, rti, rte);
	if (fl_plan_rel_find(root, rte, &found) == NULL)
		return;
	rte->relkind = RELKIND_PARTITIONED_TABLE;
	if (passes_nothing(rel))
		mark_dummy_rel(rel);
	if (!IS_DUMMY_REL(rel))
	{
		List	   *keys = keys_of(root, rel, rel->baserestrictinfo);

		rel->pathlist = NIL;
		rel->partial_pathlist = NIL;
		add_plain_paths(root, rel, keys);
		add_parameterised_paths(root, rel, keys);
	}
}

/* ---- plan ---------------------------------------------------------------------------------------------- */

/* `IS NOT NULL` of a column that has no NULL; min() and max() ask that. */
static bool
is_always_true(Expr *clause, Index varno)
{
	NullTest   *test = (NullTest *) clause;

	return IsA(clause, NullTest) && test->nulltesttype == IS_NOT_NULL &&
		fl_scan_key_column((Node *) test->arg, varno) != 0;
}

static Plan *
make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		  List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *filter = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		FlScanKey	key;
		bool		is;

		if (is_always_true(rinfo->clause, rel->relid))
			continue;
		is = is_key(root, rel, rinfo, &key);
		if (is)
			scan->custom_exprs = lappend(scan->custom_exprs, rinfo->clause);
		/* What the scan does exactly needs no second look. */
		if (!is || !key.exact)
			filter = lappend(filter, rinfo);
	}
	scan->scan.plan.targetlist = tlist;
	scan->scan.plan.qual = extract_actual_clauses(filter, false);
	scan->scan.scanrelid = rel->relid;
	scan->flags = path->flags;
	scan->custom_private = path->custom_private;
	scan->methods = &fl_scan_methods;
	return &scan->scan.plan;
}

void
fl_stream_scan_init(void)
{
	RegisterCustomScanMethods(&fl_scan_methods);
	prev_relation_info = get_relation_info_hook;
	get_relation_info_hook = relation_info;
	prev_rel_pathlist = set_rel_pathlist_hook;
	set_rel_pathlist_hook = rel_pathlist;
	fl_size_init();
}
