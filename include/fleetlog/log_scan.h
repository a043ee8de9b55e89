/*-------------------------------------------------------------------------
 *
 * log_scan.h
 *		Scanning one segment within bounds, for the scan node (src/scan).
 *
 * Bounds are exact: only records within them come out, so the caller need not
 * check them again.  What lies outside is found by a seek and not read (L6,
 * L11).  Records come in the order of their offsets, or against it.
 *
 * Implemented in src/log/scan.c.  The segment must be open and locked until
 * fl_bounded_scan_end; after that no slot may show a record of the scan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOG_SCAN_H
#define FLEETLOG_LOG_SCAN_H

#include "access/relscan.h"
#include "datatype/timestamp.h"
#include "executor/tuptable.h"
#include "storage/block.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* Which records; {0, PG_INT64_MAX, DT_NOBEGIN, DT_NOEND} are all of them. */
typedef struct FlScanBounds
{
	int64		from;			/* offsets: inclusive */
	int64		to;				/* exclusive */
	TimestampTz ts_from;		/* append time: inclusive */
	TimestampTz ts_to;			/* inclusive */
} FlScanBounds;

/* What a scan had to do; it adds to these. */
typedef struct FlScanCounts
{
	int64		batches_read;	/* gave records */
	int64		batches_inflated;	/* ... whose bytes had to be unpacked for that */
	int64		batches_skipped;	/* seen on a page that was read, out of bounds */
} FlScanCounts;

/* Slots that records are stored in: lazy, columns are built when asked for. */
extern const TupleTableSlotOps fl_slot_ops;

/*
 * Begin; `bounds` and `counts` must outlive the scan.  ring: read through a
 * small ring of buffers, for scans larger than the server's cache.  Waits for
 * the read barrier (L5) and takes the predicate lock of a serializable reader.
 */
extern TableScanDesc fl_bounded_scan_begin(Relation leaf, Snapshot snapshot, bool backward, bool ring,
										   const FlScanBounds *bounds, FlScanCounts *counts);

/* Blocks [*first, *upto) that a forward scan has to look at; false: none. */
extern bool fl_bounded_scan_blocks(TableScanDesc scan, BlockNumber *first, BlockNumber *upto);

/* Start over (forward) in blocks [first, upto): batches that begin there. */
extern void fl_bounded_scan_window(TableScanDesc scan, BlockNumber first, BlockNumber upto);

/* Next record into the slot (of fl_slot_ops); false, with the slot empty, at the end. */
extern bool fl_bounded_scan_next(TableScanDesc scan, TupleTableSlot *slot);

/* A forward scan has met a record behind the bounds: later blocks have none within. */
extern bool fl_bounded_scan_passed(TableScanDesc scan);

extern void fl_bounded_scan_end(TableScanDesc scan);

/* Which time an offset was appended at, roughly. */
typedef struct FlTimeSample
{
	int64		offset;
	TimestampTz ts;
} FlTimeSample;

/* At most n samples, evenly spread over the segment's pages, ascending; returns how many. */
extern int	fl_leaf_sample_times(Relation leaf, int n, FlTimeSample *samples);

#endif							/* FLEETLOG_LOG_SCAN_H */
