/*-------------------------------------------------------------------------
 *
 * watch_internal.h
 *		What the files of watch() in SQL share: sql_watch.c, sources.c, changes.c,
 *		follow.c, snapshot.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_WATCH_INTERNAL_H
#define FLEETLOG_WATCH_INTERNAL_H

#include "lib/stringinfo.h"
#include "utils/jsonb.h"

#include "filter.h"
#include "fleetlog/state_change.h"
#include "fleetlog/watch.h"

/* A stream with a mount that keeps values in the table that is watched. */
typedef struct FlWatchSource
{
	Oid			stream;
	const char *name;			/* schema and name, quoted: how a position calls it */
	int			nshards;
	FlShardPosition *shards;	/* next to be read; epoch of the record before */
	bool		policies;		/* row-level security restricts the caller */
} FlWatchSource;

/* A call of watch().  Lives in the memory of the call. */
typedef struct FlWatch
{
	Oid			state;
	FlWatchFilter filter;
	int			nsources;
	FlWatchSource *sources;		/* by OID */
	uint64		fingerprint;	/* of the mounts, the table and the filter */
	bool		ask_flusher;	/* see to it that what is committed is published first */
	int64		looked_at;		/* records, wanted or not */
	bool		moved;			/* positions have moved */
} FlWatch;

/* ---- sources.c: which streams, and positions as jsonb -------------------------- */

/*
 * Check the caller's rights and find the streams; called again after each wait.
 * True: the streams or mounts are not those that were there before, so what was told
 * of the state until now does not hold.  Raises 42809, 42501.
 */
extern bool fl_watch_find_sources(FlWatch *w);

/* Positions from jsonb; false: these are of another watch, or what follows is gone.  Raises 22023. */
extern bool fl_watch_parse_positions(FlWatch *w, Jsonb *json);

/* False: it lies beyond the end of its epoch, behind records that this log does not have. */
extern bool fl_watch_position_holds(Oid stream, int shard, const FlShardPosition *p);

/* The jsonb form; `at` has positions by source. */
extern Datum fl_watch_positions_datum(const FlWatch *w, FlShardPosition *const *at);

/* ---- changes.c: what records of the log mean for the table ------------------------ */

typedef struct FlWatchChange
{
	FlStateChange c;
	int			source;			/* which */
	int32		epoch;
	bool		shown;			/* snapshot.c */
} FlWatchChange;

typedef struct FlWatchChanges
{
	MemoryContext mcxt;			/* of the list and of what it points to */
	FlWatchChange *list;
	int			n;
	int			max;
	Size		bytes;
	bool		newest_only;	/* of each key: the list is made shorter as it grows */
	int			compact_at;
} FlWatchChanges;

/* A piece of a shard's log. */
typedef struct FlWatchRange
{
	int			source;
	int32		shard;
	FlLogPosition at;			/* next to be read; moved on */
	int32		epoch;			/* of the record before it, if any was read */
	int64		upto;
	int64		values_from;	/* below, values that are written with their record are not wanted; */
	int64		folded_from;	/* nor, below this, last values that follow */
	int			max_changes;	/* stop when the list has so many, 0: read it all; */
	Size		max_bytes;		/* ... or so much */
	int64		max_look;		/* ... or the call has looked at so many records */
	TimestampTz last_ts;		/* of the last record that was read */
} FlWatchRange;

/* Reads a range; `at` tells how far. */
extern void fl_watch_read_range(FlWatch *w, FlWatchRange *r, FlWatchChanges *out);

extern FlWatchChanges *fl_watch_changes_create(MemoryContext parent, bool newest_only);

/* By stream and key, the newest of each; for find. */
extern void fl_watch_changes_compact(FlWatchChanges *l);
extern FlWatchChange *fl_watch_changes_find(FlWatchChanges *l, Oid stream, text *key);
extern void fl_watch_changes_free(FlWatchChanges *l);

/* ---- follow.c: changes behind a position ---------------------------------------------- */

/*
 * One pass over all shards up to their durable tails: at most `max` changes (not exactly)
 * in the order of their positions.  Moves the positions.  False: some of what follows
 * is gone.
 */
extern bool fl_watch_follow(FlWatch *w, int max, FlWatchChanges *out);

/* The offset below which all of a shard is durable. */
extern int64 fl_watch_tail(const FlWatch *w, Oid stream, int32 shard);

/*
 * Does a later value or clear of the key stand on another shard, below the watch's
 * position there?  Then it was told, and this one must not be told any more.  With the
 * active snapshot.
 */
extern bool fl_watch_is_superseded(const FlWatch *w, const FlWatchChange *change);

/* ---- snapshot.c: the state, and the position that belongs to it -------------------- */

typedef struct FlWatchSink
{
	void		(*change) (void *arg, const FlWatchChange *change);
	void		(*row) (void *arg, Datum *values, bool *isnull);	/* columns as in the query of snapshot.c */
	void	   *arg;
} FlWatchSink;

/* Columns of such a row. */
enum
{
	FL_WATCH_ROW_STREAM, FL_WATCH_ROW_KEY, FL_WATCH_ROW_SHARD, FL_WATCH_ROW_OFFSET, FL_WATCH_ROW_TS,
	FL_WATCH_ROW_HEADERS, FL_WATCH_ROW_PAYLOAD, FL_WATCH_ROW_COLUMNS
};

/* Hands all values in force to the sink and sets the positions behind them. */
extern void fl_watch_snapshot(FlWatch *w, const FlWatchSink *sink);

#endif							/* FLEETLOG_WATCH_INTERNAL_H */
