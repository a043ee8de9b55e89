/*-------------------------------------------------------------------------
 *
 * state_internal.h
 *		What the files of src/state share among themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_STATE_INTERNAL_H
#define FL_STATE_INTERNAL_H

#include "nodes/execnodes.h"
#include "utils/relcache.h"

#include "fleetlog/state.h"
#include "fleetlog/state_change.h"

#define FL_STATE_SCHEMA		"fleetlog"

/* Columns of a state table, in this order; an owner may add more behind them. */
enum
{
	FL_ST_STREAM = 1, FL_ST_KEY, FL_ST_SHARD, FL_ST_OFFSET, FL_ST_TS, FL_ST_TENANT, FL_ST_DEVICE,
	FL_ST_HEADERS, FL_ST_PAYLOAD, FL_ST_NATTS = FL_ST_PAYLOAD
};

/* Columns of fleetlog.state_cleared. */
enum
{
	FL_SC_STATE = 1, FL_SC_STREAM, FL_SC_KEY, FL_SC_SHARD, FL_SC_OFFSET, FL_SC_TS, FL_SC_NATTS = FL_SC_TS
};

typedef enum FlStateOutcome
{
	FL_STATE_DONE,
	FL_STATE_STALE,				/* a later value is there */
	FL_STATE_LOCKED				/* somebody holds the row, the key's shard or the table */
} FlStateOutcome;

/* By table, stream, key, and position: the order of locks. */
extern int	fl_state_change_cmp(const void *x, const void *y);
extern bool fl_state_same_key(const FlStateChange *a, const FlStateChange *b);

/* ---- values.c: what a record means ------------------------------------------ */

/* The shard to which a topic's mount sends it now. */
extern int32 fl_state_home_of(Oid stream, const uint8 *topic, int32 len);

/* The change that the record at this position makes; false: none, or the record is gone. */
extern bool fl_state_change_at(Oid stream, int32 shard, int64 log_offset, FlStateScope scope, FlStateChange *out);

/* ---- collect.c ------------------------------------------------------------------ */

/* Note a change for the current transaction; what it points to lives in this context. */
extern void fl_state_note(FlStateChange *c);
extern MemoryContext fl_state_note_context(void);

/* ---- table.c: rows by key, without waiting ------------------------------------- */

/* A table with a unique index over its first columns, open for writing. */
typedef struct FlStateTable FlStateTable;

/* NULL: somebody holds a lock that excludes writers. */
extern FlStateTable *fl_state_table_open(Oid relid, int nkeys);
extern Oid	fl_state_table_relid(const FlStateTable *t);
extern bool fl_state_table_is_empty(const FlStateTable *t);
extern void fl_state_table_close(FlStateTable *t);

/*
 * Find the row of a key.  values/nulls, when not NULL, are filled from it and stay
 * good until the next call for this table.  *locked: somebody is changing it.
 */
extern bool fl_state_table_find(FlStateTable *t, const Datum *key, Datum *values, bool *nulls, bool *locked);

/*
 * Write a row: over the one that was found last, or as a new one.  False: somebody has
 * locked or changed it meanwhile.
 */
extern bool fl_state_table_update(FlStateTable *t, const Datum *values, const bool *nulls);
extern bool fl_state_table_insert(FlStateTable *t, const Datum *values, const bool *nulls);
extern bool fl_state_table_delete(FlStateTable *t);

/* ---- apply.c -------------------------------------------------------------------- */

/* Open tables of one run over sorted changes. */
typedef struct FlStateWriter
{
	MemoryContext mcxt;			/* of the tables: that in which it was begun */
	Oid			state;
	bool		tried;
	FlStateTable *table;
	FlStateTable *cleared;
	bool		cleared_tried;
} FlStateWriter;

extern void fl_state_writer_begin(FlStateWriter *w);
/* Open the table now; false: it is locked. */
extern bool fl_state_writer_open(FlStateWriter *w, Oid state);
extern FlStateOutcome fl_state_write(FlStateWriter *w, const FlStateChange *c);

/*
 * Make the row what the change says, whatever it is now, provided that it is still
 * the row that was seen (NULL: none) and nothing later has cleared the key.  False:
 * left alone.  For rebuild_state.
 */
extern bool fl_state_force(FlStateWriter *w, const FlStateChange *c, const FlStatePos *seen);
extern void fl_state_writer_end(FlStateWriter *w);

/* Does this transaction hold, or get at once, the lock of the key's home shard? */
extern bool fl_state_lock_home(const FlStateChange *c);

/* Oid of type fleetlog.headers. */
extern Oid	fl_state_headers_type(void);

/* Put a change into state_pending; `awaited`: a publisher waits for it. */
extern void fl_state_defer(const FlStateChange *c, bool awaited);

/* ---- last.c: last values that are not in their table yet --------------------- */

extern Size fl_last_size(void);
extern void fl_last_init(void);

/* A value that is later than what is there; only the state worker.  False: no room. */
extern bool fl_last_put(const FlStateChange *c);

/* Values of one stream and table that are here. */
extern int	fl_last_count(Oid state, Oid stream);

/* Share of the room that is in use, in percent. */
extern int	fl_last_used(void);

/* Copies of all values of one stream and table; returns how many. */
extern int	fl_last_collect(Oid state, Oid stream, FlStateChange **changes);

/* This value is in the table now. */
extern void fl_last_remove(const FlStateChange *c);

/* All values of a stream and table, which are of no use any more. */
extern void fl_last_forget(Oid state, Oid stream);

/* The value of one key, palloc'd; false: none here, look into the table. */
extern bool fl_last_get(Oid state, Oid stream, const uint8 *key, int32 len, FlStateChange *out);

/* What the folder does, for the view; slot by slot. */
typedef struct FlFoldInfo
{
	Oid			state;			/* InvalidOid: free */
	Oid			stream;
	int64		lag_us;
	int64		stretched_us;	/* > lag: an old snapshot pins row versions */
	int64		keys;			/* values not in the table yet */
	int64		flushes;
	int64		early;			/* flushes because memory was short */
	TimestampTz flushed_at;
} FlFoldInfo;

/* How far each shard is, in the order in which they were added. */
extern void fl_fold_positions_clear(void);
extern void fl_fold_position_add(Oid state, Oid stream, int32 shard, int64 folded, int64 flushed);
extern void fl_fold_position_set(int n, int64 folded, int64 flushed);

#define FL_MAX_FOLDS	256
extern void fl_fold_show(int n, const FlFoldInfo *info);
extern int	fl_fold_read(FlFoldInfo *out);

/* ---- shmem.c ---------------------------------------------------------------------- */

typedef struct FlStateStats
{
	pg_atomic_uint64 applied;
	pg_atomic_uint64 cleared;
	pg_atomic_uint64 stale;
	pg_atomic_uint64 deferred;
	pg_atomic_uint64 retried;
	pg_atomic_uint64 conflicts;
} FlStateStats;

extern FlStateStats *fl_state_stats(void);

/* A record's value waits: from now on, and until it is written. */
extern void fl_state_wait_add(Oid stream, int32 shard, int64 log_offset);
extern void fl_state_wait_remove(Oid stream, int32 shard, int64 log_offset);

/* The transactions that added these have ended: take away what is not in the list. */
extern void fl_state_wait_keep_only(const FlStateChange *list, int n);
extern int	fl_state_waiting(void);

/* There is something in state_pending, as far as this process knows. */
extern void fl_state_set_pending(bool pending);

/* Somebody waits for a flush of last values since the last call. */
extern bool fl_state_flush_is_awaited(void);

/* Set while last values are folded: whoever moves durable tails wakes the state worker. */
extern pg_atomic_uint32 *fl_state_follows(void);

/* Append time of the oldest value that waits, PG_INT64_MAX: none. */
extern void fl_state_set_oldest_waiting(TimestampTz ts);
extern TimestampTz fl_state_oldest_waiting(void);

#endif							/* FL_STATE_INTERNAL_H */
