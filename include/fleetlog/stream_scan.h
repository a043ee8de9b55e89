/*-------------------------------------------------------------------------
 *
 * stream_scan.h
 *		SELECT over a stream as one plan node, FleetlogScan (L11): see
 *		src/scan/README.md.  Installed once, by _PG_init.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_STREAM_SCAN_H
#define FLEETLOG_STREAM_SCAN_H

/* Install planner hooks and register the node; called while libraries are preloaded. */
extern void fl_stream_scan_init(void);

#endif							/* FLEETLOG_STREAM_SCAN_H */
