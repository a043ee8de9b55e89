/*-------------------------------------------------------------------------
 *
 * totals.h
 *		What all front doors have done since server start, and how much of it a
 *		minute: for $SYS (bgworker/mqtt/sys.c).
 *
 * Counters of a door begin anew when its process does; what the processes before
 * it have counted is kept, so that a total never steps back while the server runs.
 *
 * Assumes postgres.h was included first.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_TOTALS_H
#define FLEETLOG_TOTALS_H

#include "datatype/timestamp.h"

#include "fleetlog/shmem.h"

/* What load is told of. */
typedef enum FlLoad
{
	FL_LOAD_CONNECTIONS = 0,	/* clients that were let in */
	FL_LOAD_SOCKETS,			/* connections that were accepted */
	FL_LOAD_MESSAGES_IN,		/* packets */
	FL_LOAD_MESSAGES_OUT,
	FL_LOAD_PUBLISH_IN,
	FL_LOAD_PUBLISH_OUT,
	FL_LOAD_DROPPED,
	FL_LOAD_BYTES_IN,
	FL_LOAD_BYTES_OUT,
	FL_N_LOADS
} FlLoad;

#define FL_LOAD_WINDOWS	3		/* 1, 5 and 15 minutes */

typedef struct FlTotals
{
	TimestampTz since;			/* server start, or the restart after a crash */
	uint64		counters[FL_N_COUNTERS];	/* of front doors; what is held now: of those that run */
	uint64		dropped;		/* deliveries, for whatever reason */
	int64		clients;		/* connected now */
	int64		max_clients;	/* most that were at one time */
	double		load[FL_N_LOADS][FL_LOAD_WINDOWS];	/* a minute */
} FlTotals;

/* At server start. */
extern void fl_totals_init(void);

/* The process that had a slot has gone: keep what it counted.  slots_lock is held exclusively. */
extern void fl_totals_keep(const FlWorkerSlot *slot);

extern void fl_totals_read(FlTotals *totals);

/*
 * Take a sample for the load, unless somebody did less than `interval_s` seconds ago.
 * Every door may call it as often as it likes.
 */
extern void fl_load_sample(int interval_s);

#endif							/* FLEETLOG_TOTALS_H */
