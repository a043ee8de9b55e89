/*-------------------------------------------------------------------------
 *
 * parallel.c
 *		A FleetlogScan that several processes share.
 *
 * The leader puts its directory into shared memory.  All processes step through
 * it alike (their ranges are the same, as values are) and take windows of
 * blocks, in order, from the segment at hand.  Whoever comes first to a segment
 * says which of its blocks are to be read; all look at the same snapshot, so it
 * does not matter who does.  Windows are given out in ascending order: each
 * process, by itself, sees records in order of (shard, log_offset), as a Gather
 * Merge needs it.
 *
 * A batch belongs to the process whose window has its first block.
 *
 * All read a shard from the same head.  It moves only while none has read
 * anything of the shard (a segment was removed before its turn came), so whoever
 * is about to read looks whether his is still the one of all.
 *
 * Locks: one spinlock over all fields of FlSharedLeaf, heads, and the counts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/spin.h"

#include "scan_internal.h"

/* Blocks that are taken at a time: a part of the segment between these. */
#define MIN_WINDOW	16
#define MAX_WINDOW	512
#define WINDOWS_PER_LEAF	32

typedef struct FlSharedLeaf
{
	bool		known;			/* the fields below are set */
	BlockNumber next;			/* next block to give out */
	BlockNumber upto;
	BlockNumber window;
} FlSharedLeaf;

typedef struct FlScanShared
{
	slock_t		mutex;
	FlNodeCounts counts;
	int			nshards;
	int			nsegments;
	int64		heads[FL_MAX_SHARDS];
	bool		met[FL_MAX_SHARDS]; /* somebody reads the shard: its head stays */
	FlSharedLeaf leaves[FLEXIBLE_ARRAY_MEMBER];
	/* nsegments FlSegment follow */
} FlScanShared;

static Size
leaves_size(int n)
{
	return MAXALIGN(add_size(offsetof(FlScanShared, leaves), mul_size(sizeof(FlSharedLeaf), n)));
}

static FlSegment *
shared_segments(FlScanShared *shared)
{
	return (FlSegment *) ((char *) shared + leaves_size(shared->nsegments));
}

/* ---- setting up ---------------------------------------------------------------- */

static void
read_directory(FlNode *node)
{
	MemoryContext old;

	if (node->begun)
		return;
	old = MemoryContextSwitchTo(node->css.ss.ps.state->es_query_cxt);
	fl_directory_read(&node->dir, node->stream);
	MemoryContextSwitchTo(old);
	node->begun = true;
}

Size
fl_parallel_estimate(CustomScanState *css, ParallelContext *pcxt)
{
	FlNode	   *node = (FlNode *) css;

	read_directory(node);
	return add_size(leaves_size(node->dir.nsegments), mul_size(sizeof(FlSegment), node->dir.nsegments));
}

void
fl_parallel_init(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	FlNode	   *node = (FlNode *) css;
	FlScanShared *shared = coordinate;

	memset(shared, 0, leaves_size(node->dir.nsegments));
	SpinLockInit(&shared->mutex);
	shared->nshards = node->dir.nshards;
	shared->nsegments = node->dir.nsegments;
	memcpy(shared->heads, node->dir.heads, sizeof(shared->heads));
	memcpy(shared->met, node->met, sizeof(shared->met));
	if (shared->nsegments > 0)
		memcpy(shared_segments(shared), node->dir.segments, sizeof(FlSegment) * shared->nsegments);
	node->shared = shared;
	node->base = node->added = node->counts;
}

/* The workers of the last round are gone. */
void
fl_parallel_reinit(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	FlNode	   *node = (FlNode *) css;
	FlScanShared *shared = coordinate;

	node->shared = shared;
	memset(shared->leaves, 0, sizeof(FlSharedLeaf) * shared->nsegments);
}

void
fl_parallel_attach(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	FlNode	   *node = (FlNode *) css;
	FlScanShared *shared = coordinate;

	node->shared = shared;
	node->dir.nshards = shared->nshards;
	node->dir.nsegments = shared->nsegments;
	node->dir.segments = shared_segments(shared);
	memcpy(node->dir.heads, shared->heads, sizeof(shared->heads));
	fl_directory_index(&node->dir);
	node->begun = true;
}

/* ---- counts --------------------------------------------------------------------- */

static void
add_difference(FlNodeCounts *to, const FlNodeCounts *now, const FlNodeCounts *before)
{
	to->leaves_read += now->leaves_read - before->leaves_read;
	to->leaves_pruned += now->leaves_pruned - before->leaves_pruned;
	to->batches.batches_read += now->batches.batches_read - before->batches.batches_read;
	to->batches.batches_inflated += now->batches.batches_inflated - before->batches.batches_inflated;
	to->batches.batches_skipped += now->batches.batches_skipped - before->batches.batches_skipped;
}

static void
share_counts(FlNode *node)
{
	SpinLockAcquire(&node->shared->mutex);
	add_difference(&node->shared->counts, &node->counts, &node->added);
	SpinLockRelease(&node->shared->mutex);
	node->added = node->counts;
}

/* Called in every process while the shared memory is there; the leader keeps the sums. */
void
fl_parallel_shutdown(CustomScanState *css)
{
	FlNode	   *node = (FlNode *) css;

	if (node->shared == NULL)
		return;
	fl_node_close(node);
	share_counts(node);
	if (!IsParallelWorker())
	{
		FlNodeCounts zero = {0};

		node->counts = node->base;
		add_difference(&node->counts, &node->shared->counts, &zero);
		node->shared = NULL;
	}
}

/* ---- windows ----------------------------------------------------------------------- */

/* Has a segment nothing left to give out?  Saves opening it. */
static bool
is_used_up(FlScanShared *shared, int i)
{
	bool		used_up;

	SpinLockAcquire(&shared->mutex);
	used_up = shared->leaves[i].known && shared->leaves[i].next >= shared->leaves[i].upto;
	SpinLockRelease(&shared->mutex);
	return used_up;
}

static void
adopt_heads(FlNode *node)
{
	SpinLockAcquire(&node->shared->mutex);
	memcpy(node->dir.heads, node->shared->heads, sizeof(int64) * node->dir.nshards);
	SpinLockRelease(&node->shared->mutex);
}

bool
fl_parallel_pass(FlNode *node, int i, int64 head)
{
	const FlSegment *seg = &node->dir.segments[i];
	FlScanShared *shared = node->shared;
	FlSharedLeaf *leaf = &shared->leaves[i];
	bool		may;

	SpinLockAcquire(&shared->mutex);
	if (!shared->met[seg->shard] && head > shared->heads[seg->shard])
		shared->heads[seg->shard] = head;
	may = shared->heads[seg->shard] >= seg->upper;
	if (may && !leaf->known)
	{
		leaf->known = true;
		leaf->next = leaf->upto = 0;
		shared->counts.leaves_pruned++;
	}
	SpinLockRelease(&shared->mutex);
	return may;
}

/*
 * Take the next window of the open segment; false when all are taken, or when the
 * head has moved since it was opened.
 */
static bool
take_window(FlNode *node, bool *moved)
{
	FlSharedLeaf *leaf = &node->shared->leaves[node->current];
	int32		shard = node->dir.segments[node->current].shard;
	FlNodeCounts *sum = &node->shared->counts;
	BlockNumber first,
				upto,
				window;
	bool		some = fl_bounded_scan_blocks(node->scan, &first, &upto);

	window = some ? Max(MIN_WINDOW, Min(MAX_WINDOW, (upto - first) / WINDOWS_PER_LEAF)) : 0;
	SpinLockAcquire(&node->shared->mutex);
	*moved = node->shared->heads[shard] != node->dir.heads[shard];
	if (*moved)
	{
		SpinLockRelease(&node->shared->mutex);
		return false;
	}
	if (!leaf->known)
	{
		leaf->known = true;
		leaf->next = first;
		leaf->upto = some ? upto : first;
		leaf->window = window;
		/* Counted once, by whoever came first. */
		if (some)
			sum->leaves_read++;
		else
			sum->leaves_pruned++;
	}
	first = leaf->next;
	upto = Min(leaf->upto, first + leaf->window);
	some = first < upto;
	if (some)
	{
		leaf->next = upto;
		node->shared->met[shard] = true;
	}
	SpinLockRelease(&node->shared->mutex);
	if (some)
		fl_bounded_scan_window(node->scan, first, upto);
	return some;
}

/* Records behind the bounds were met: nothing is left in this segment for anybody. */
static void
stop_leaf(FlNode *node)
{
	FlSharedLeaf *leaf = &node->shared->leaves[node->current];

	SpinLockAcquire(&node->shared->mutex);
	leaf->next = leaf->upto;
	SpinLockRelease(&node->shared->mutex);
}

/* The leader alone counts what all step over. */
static void
count_pruned(FlNode *node, int n)
{
	if (!IsParallelWorker())
		node->counts.leaves_pruned += n;
}

bool
fl_parallel_next(FlNode *node)
{
	bool		moved;

	if (node->current >= 0)
	{
		if (fl_bounded_scan_passed(node->scan))
			stop_leaf(node);
		if (take_window(node, &moved))
			return true;
		Assert(!moved);
		fl_node_close(node);
	}
	for (;;)
	{
		int			i;

		adopt_heads(node);
		i = fl_directory_next(&node->dir, &node->range, node->next, false);
		CHECK_FOR_INTERRUPTS();
		if (i < 0)
		{
			count_pruned(node, node->dir.nsegments - node->next);
			node->next = node->dir.nsegments;
			share_counts(node);
			return false;
		}
		count_pruned(node, i - node->next);
		node->next = i + 1;
		if (is_used_up(node->shared, i))
			continue;
		(void) fl_node_open(node, i);
		if (node->scan == NULL)
			continue;
		if (take_window(node, &moved))
			return true;
		fl_node_close(node);
		/* Once more; all later segments are looked at anew, too. */
		if (moved)
			node->next = i;
	}
}
