/*-------------------------------------------------------------------------
 *
 * watch.h
 *		Reading on from where one stopped: positions of a stream over all its
 *		shards, and reading up to the durable tails from them (REQUIREMENTS S1,
 *		S2, W1-W4).  Used by poll(), take(), watch() and, for consumer positions,
 *		by whoever keeps such positions for Kafka groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_WATCH_H
#define FLEETLOG_WATCH_H

#include "utils/jsonb.h"

#include "fleetlog/log.h"
#include "fleetlog/tail_wait.h"

/* Epoch of a position that was given without one. */
#define FL_NO_EPOCH			(-1)

typedef struct FlShardPosition
{
	FlLogPosition at;			/* offset of the next record to be read */
	int32		epoch;			/* of the record before it, FL_NO_EPOCH: not asked for */
} FlShardPosition;

/* Where a reader stands in each shard of a stream. */
typedef struct FlPositions
{
	Oid			stream;
	int			nshards;
	bool		with_epochs;	/* written with epochs, because they were read with them */
	FlShardPosition *shards;
} FlPositions;

/*
 * Positions from jsonb (API.md, "positions"); NULL, or a shard that it does not
 * name: the head.  Raises 22023 for what is no position or no shard, LF109 for
 * one beyond the end of its epoch.  Allocates in the current context.
 */
extern FlPositions *fl_positions_parse(Oid stream, int nshards, Jsonb *json);

/* The stream may have got more shards meanwhile: these begin at their heads. */
extern void fl_positions_grow(FlPositions *p, int nshards);

/* The jsonb form, in the form in which they were read. */
extern Datum fl_positions_datum(const FlPositions *p);

/*
 * Raise LF109 if the position lies beyond the end of its epoch: records that it
 * stands behind are not in this log (any more).
 */
extern void fl_position_check_epoch(Oid stream, int32 shard, int64 offset, int32 epoch);

/* What becomes of a row: values as of FlAttr. */
typedef void (*FlRowSink) (void *arg, Datum *values, bool *isnull);

typedef struct FlTailReader
{
	FlPositions *pos;
	int32		max;			/* records that are wanted at most */
	const uint8 *filter;		/* topic filter, NULL: none */
	size_t		filter_len;
	FlRowSink	sink;
	void	   *arg;
	bool		ask_flusher;	/* see to it that what is committed is published first */

	/* results */
	int32		found;
	bool		skipped;		/* positions moved past records that were not wanted */
	int64		looked_at;		/* records looked at, wanted or not */
} FlTailReader;

/*
 * A call that finds nothing among so many records ends and says where to go on,
 * rather than to read a whole history for a rare topic.
 */
#define FL_TAIL_MAX_LOOK	200000

/*
 * One pass: read from the positions on up to the durable tails, at most
 * max - found rows; moves the positions past what was read or skipped.  Row
 * security of the current role holds.  Raises LF101 for a position below the
 * head.
 */
extern void fl_tail_read(FlTailReader *r);

/*
 * Passes until something is found or the time has come; sleeps in between.
 * Zero: one pass.
 */
extern void fl_tail_read_wait(FlTailReader *r, FlWaitKind kind, TimestampTz until);

/* The stream's number of shards; the caller must be allowed to read it (else 42501, 42809). */
extern int	fl_tail_check_stream(Oid stream);

/* When a wait of this interval, from now on, ends.  Raises 22023 for a negative one. */
extern TimestampTz fl_wait_until(const Interval *wait);

struct LogicalDecodingContext;

/* Does this decoding want rows of streams?  Not when our output plugin watches a state table. */
extern bool fl_watch_wants_streams(struct LogicalDecodingContext *ctx);

#endif							/* FLEETLOG_WATCH_H */
