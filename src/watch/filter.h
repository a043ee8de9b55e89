/*-------------------------------------------------------------------------
 *
 * filter.h
 *		Which keys a watch wants: the output plugin's and watch()'s.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_WATCH_FILTER_H
#define FLEETLOG_WATCH_FILTER_H

#include "c.h"

/* Neither keys nor prefix: all.  Both: either. */
typedef struct FlWatchFilter
{
	bool		by_keys;
	text	  **keys;			/* ascending, by bytes */
	int			nkeys;
	int			max_keys;
	const char *prefix;			/* NULL: none */
	Size		prefix_len;
} FlWatchFilter;

/* Takes ownership of the key; allocates where the filter's other keys are, or in the current context. */
extern void fl_watch_filter_add(FlWatchFilter *f, text *key);

/* To be called once behind the last key. */
extern void fl_watch_filter_sort(FlWatchFilter *f);

extern bool fl_watch_filter_wants(const FlWatchFilter *f, const uint8 *key, int32 len);

#endif							/* FLEETLOG_WATCH_FILTER_H */
