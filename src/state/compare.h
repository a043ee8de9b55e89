/*-------------------------------------------------------------------------
 *
 * compare.h
 *		A state table against the history of one stream (compare.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_STATE_COMPARE_H
#define FL_STATE_COMPARE_H

#include "state_internal.h"

/* A key whose row is not what the history implies. */
typedef struct FlStateFault
{
	text	   *key;
	const char *what;			/* completes "key ..." */
	bool		has_row;
	FlStatePos	found;			/* of the row */
	bool		has_value;		/* a record sets a value ... */
	FlStatePos	expected;		/* ... this one (or clears it) */
} FlStateFault;

typedef struct FlCompareResult
{
	int64		agree;
	int64		older;			/* rows older than the history that is left */
	int64		foreign;		/* rows of topics that no mount keeps here any more */
	int64		pending;		/* values that wait for a lock */
	FlStateFault *faults;
	int64		nfaults;
	int64		max_faults;
} FlCompareResult;

typedef struct FlCompare FlCompare;

/* In the current memory context, in a transaction.  Takes no lock that a writer waits for. */
extern FlCompareResult *fl_state_compare(Oid state, Oid stream);

#endif							/* FL_STATE_COMPARE_H */
