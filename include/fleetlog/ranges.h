/*-------------------------------------------------------------------------
 *
 * ranges.h
 *		Ranges of offsets by shard: {"<shard>": [[from, to], ...]}, "to" not included.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_RANGES_H
#define FLEETLOG_RANGES_H

#include "utils/jsonb.h"

#include "fleetlog/catalog.h"

typedef struct FlRange
{
	int32		shard;
	int64		lower;
	int64		upper;			/* exclusive; PG_INT64_MAX: null was given, all that comes */
} FlRange;

typedef struct FlRanges
{
	int			n;
	FlRange    *items;			/* in order of shard, then lower; they may overlap */
} FlRanges;

/* Raises 22023 for what is no such document, is empty, or names a shard that the stream does not have. */
extern FlRanges fl_ranges_parse(Jsonb *doc, const FlStreamInfo *info);

/* Overlapping and adjacent ranges become one. */
extern void fl_ranges_merge(FlRanges *r);

#endif							/* FLEETLOG_RANGES_H */
