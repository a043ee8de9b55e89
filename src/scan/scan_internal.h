/*-------------------------------------------------------------------------
 *
 * scan_internal.h
 *		What the files of src/scan share among themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SCAN_INTERNAL_H
#define FLEETLOG_SCAN_INTERNAL_H

#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log.h"
#include "fleetlog/log_scan.h"

/* ---- keys (keys.c): conditions that restrict where the scan looks ------------ */

/* B-tree strategies of <, <=, =, >=, >; and = ANY. */
typedef enum FlKeyOp
{
	FL_KEY_LT = 1,
	FL_KEY_LE = 2,
	FL_KEY_EQ = 3,
	FL_KEY_GE = 4,
	FL_KEY_GT = 5,
	FL_KEY_ANY = 6
} FlKeyOp;

/* One condition `column op value`, taken apart; points into the clause. */
typedef struct FlScanKey
{
	AttrNumber	column;			/* FL_ATT_SHARD, FL_ATT_OFFSET or FL_ATT_TS */
	FlKeyOp		op;
	Expr	   *value;			/* without columns of the stream */
	Oid			type;			/* of the value; of its elements for FL_KEY_ANY */
	bool		exact;			/* the scan returns just what the condition does */
} FlScanKey;

/* The number of a column that we know ranges of; 0: another expression. */
extern AttrNumber fl_scan_key_column(Node *node, Index varno);

/* Is the clause such a condition on the relation `varno`?  The value is not looked at. */
extern bool fl_scan_key_match(Expr *clause, Index varno, FlScanKey *key);

/* All conditions together, with values put in. */
typedef struct FlScanRange
{
	bool		empty;			/* nothing can match */
	bool		shards[FL_MAX_SHARDS];
	FlScanBounds bounds;
} FlScanRange;

extern void fl_scan_range_init(FlScanRange *range);

/* Narrow the range by a condition whose value is known by now. */
extern void fl_scan_range_add(FlScanRange *range, const FlScanKey *key, Datum value, bool isnull);

/* ---- plan (plan.c, size.c) ------------------------------------------------------ */

/* What the planner knows of a stream's size; hangs at RelOptInfo.fdw_private. */
typedef struct FlPlanRel
{
	Oid			stream;
	int			shards;
	int			leaves;
	double		tuples;
	double		pages;
	int64		heads[FL_MAX_SHARDS];
	int64		tails[FL_MAX_SHARDS];
} FlPlanRel;

extern FlPlanRel *fl_plan_rel_create(const FlStreamInfo *info);
extern int32 fl_plan_column_width(const FlPlanRel *pr, AttrNumber attno);
extern void fl_size_init(void);

/* What we know of a range table entry that is a stream scanned by us, else NULL. */
extern FlPlanRel *fl_plan_rel_find(PlannerInfo *root, const RangeTblEntry *rte, RelOptInfo **rel);

/* Elements of CustomScan.custom_private. */
typedef enum FlPrivate
{
	FL_PRIVATE_BACKWARD,
	FL_PRIVATE_SINGLE_SHARD,	/* the plan relies on there being one shard only */
	FL_PRIVATE_RING
} FlPrivate;

extern const CustomScanMethods fl_scan_methods;

/* ---- directory (directory.c): the segments a scan walks through ------------------- */

/*
 * The segments of a stream as they are when the scan begins, by shard and lower
 * bound; a copy, since the cache may change while the scan goes on.
 */
typedef struct FlDirectory
{
	int			nshards;
	int			nsegments;
	FlSegment  *segments;
	int			starts[FL_MAX_SHARDS + 1];	/* of each shard's segments; the last: nsegments */
	int64		heads[FL_MAX_SHARDS];
} FlDirectory;

extern void fl_directory_read(FlDirectory *dir, Oid stream);
extern void fl_directory_index(FlDirectory *dir);

/*
 * The segment at or behind (before, when backward) position i that can have
 * records of the range; -1 when there is none.
 */
extern int	fl_directory_next(const FlDirectory *dir, const FlScanRange *range, int i, bool backward);

/* ---- node (node.c, parallel.c, explain.c) ------------------------------------------ */

typedef struct FlNodeKey
{
	FlScanKey	key;
	ExprState  *value;
} FlNodeKey;

/* Numbers for EXPLAIN ANALYZE. */
typedef struct FlNodeCounts
{
	int64		leaves_read;
	int64		leaves_pruned;
	FlScanCounts batches;
} FlNodeCounts;

struct FlScanShared;

typedef struct FlNode
{
	CustomScanState css;		/* must come first */
	Oid			stream;
	bool		backward;
	bool		ring;
	int			nkeys;
	FlNodeKey  *keys;

	bool		begun;			/* directory is read */
	bool		ranged;			/* range is valid: values of this rescan are in */
	FlDirectory dir;
	FlScanRange range;
	int			next;			/* position in the directory to go on from */
	bool		met[FL_MAX_SHARDS]; /* shards of which something was read, in whatever rescan */

	int			current;		/* position of the open segment, -1: none */
	Relation	leaf;
	TableScanDesc scan;
	FlScanBounds bounds;
	FlNodeCounts counts;

	struct FlScanShared *shared;	/* parallel scan, else NULL */
	FlNodeCounts base;			/* what the leader counted before there was a shared scan */
	FlNodeCounts added;			/* part of counts that is in shared already */
} FlNode;

extern Node *fl_node_create(CustomScan *cscan);
extern void fl_node_start(FlNode *node);
extern bool fl_node_open(FlNode *node, int i);
extern void fl_node_close(FlNode *node);

extern Size fl_parallel_estimate(CustomScanState *css, struct ParallelContext *pcxt);
extern void fl_parallel_init(CustomScanState *css, struct ParallelContext *pcxt, void *coordinate);
extern void fl_parallel_reinit(CustomScanState *css, struct ParallelContext *pcxt, void *coordinate);
extern void fl_parallel_attach(CustomScanState *css, struct shm_toc *toc, void *coordinate);
extern void fl_parallel_shutdown(CustomScanState *css);

/* Next window of blocks in the shared scan: opens its segment; false at the end. */
extern bool fl_parallel_next(FlNode *node);

/*
 * Segment i is gone, and the head of its shard is here.  True when the processes
 * may go on there, false when one of them has read something of the shard.
 */
extern bool fl_parallel_pass(FlNode *node, int i, int64 head);

extern void fl_node_explain(CustomScanState *css, List *ancestors, struct ExplainState *es);

#endif							/* FLEETLOG_SCAN_INTERNAL_H */
