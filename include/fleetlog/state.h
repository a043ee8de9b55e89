/*-------------------------------------------------------------------------
 *
 * state.h
 *		State tables: one row per stream and topic, the value in force (R1-R4).
 *
 *		fl_state_collect	behind every append whose records may be values: notes
 *							them for the current transaction
 *		pre-commit			the last value of each key is written to its table, or
 *							put aside where somebody holds a lock
 *
 * Lock order for everybody: shards ascending by (stream, shard), then state tables
 * by oid, then keys bytewise.  Whoever writes a key holds the lock of the shard to
 * which the mount sends its topic (its home), so that two writers of one key never
 * meet; nobody waits here for a lock, neither on that shard nor on the row.
 *
 * A row is replaced only by a later record: greater (ts, shard, log_offset).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_STATE_H
#define FLEETLOG_STATE_H

#include "fleetlog/catalog.h"
#include "fleetlog/log.h"
#include "fleetlog/shmem.h"

/*
 * Longest key (topic) that a state table takes, in bytes: an index entry must fit a
 * third of a page.  A longer retained topic is refused at the door.
 */
#define FL_STATE_KEY_MAX	2048

/* Called from _PG_init, behind fl_xact_init. */
extern void fl_state_init(void);

/* ---- writing --------------------------------------------------------------- */

/*
 * Does a record that is published to this mount, with or without retain, go into
 * its state table in the transaction of the append?  No transaction.
 */
extern bool fl_state_is_value(const FlMount *mount, bool retain);

/* Has the stream a mount with a state table?  No transaction. */
extern bool fl_state_concerns(Oid stream);

/*
 * Note what a batch that was just appended means for state tables.  The shard's
 * lock is held; base is what fl_log_append returned; batch->ts was set by the
 * caller before the append (fl_clock_now), so that all parts have one time.
 */
extern void fl_state_collect(FlShard *shard, const FlAppend *batch, int64 base);

/*
 * Write what the transaction has noted to the state tables now; else it happens
 * before commit.  Needs an active snapshot.
 */
extern void fl_state_apply(void);

/* ---- values that wait for a lock --------------------------------------------- */

/*
 * Has the record at this position been committed while its value still waits for a
 * lock?  Its publisher is not answered before it is written.  Never true when
 * nothing waits, and cheap then.  No transaction.
 */
extern bool fl_state_is_waiting(Oid stream, int32 shard, int64 log_offset);

/* ---- shared memory -------------------------------------------------------------- */

extern Size fl_state_shmem_size(void);
extern void fl_state_shmem_init(void);

/* The state worker is of use: some mount has a state table.  Told by the keeper. */
extern bool fl_state_worker_wanted(void);
extern void fl_state_want_worker(void);

/* A durable tail has moved.  Costs a read where no last values are folded. */
extern void fl_state_tail_moved(void);

/*
 * Last values (keep => 'last' with a lag): has everything below this offset been
 * folded, so that fl_state_last finds it; is it in the table?  No transaction.
 */
extern bool fl_state_is_folded_to(Oid state, Oid stream, int32 shard, int64 log_offset);
extern bool fl_state_is_flushed_to(Oid state, Oid stream, int32 shard, int64 log_offset);

/*
 * The offset below which all last values of a shard are in their tables, PG_INT64_MAX
 * where none follow its log.  Until then the log is what they are kept in, so its head
 * must not pass it.  No transaction.
 */
extern int64 fl_state_flushed_floor(Oid stream, int32 shard);

/* Somebody waits for that: the lag is not stretched meanwhile. */
extern void fl_state_await_flush(void);

/*
 * A mount with last values in this table changes.  folded: they follow with a lag; those
 * that are not in the table yet are noted for the current transaction.  Else they are
 * written with their records.  The table is up to the tail at commit in both cases, and
 * state_flushed says so.  Takes all shards of the stream.
 */
extern void fl_state_catch_up(Oid state, Oid stream, bool folded);

/* ---- DDL ---------------------------------------------------------------------------- */

/* A table that is a state table goes: mounts and bookkeeping with it. */
extern void fl_state_forget_table(Oid state);

/* A stream goes: its rows in state tables with it. */
extern void fl_state_forget_stream(Oid stream);

/* ---- reading ---------------------------------------------------------------------- */

/* A row of a state table, as a record; pointers borrow from the scan until its next call. */
typedef struct FlStateRow
{
	const char *key;
	int32		key_len;
	int32		shard;
	FlLogRecord rec;			/* key is the topic, whatever the record's own key was */
} FlStateRow;

typedef struct FlStateScan FlStateScan;

/*
 * Rows of one stream by key, bytewise ascending, beginning behind `after` (NULL: at
 * `prefix`), as long as keys begin with prefix.  exact: only that key.  NULL when the
 * table is locked by somebody or gone: try again.  In a transaction with an active
 * snapshot; end it before the transaction ends.
 */
extern FlStateScan *fl_state_scan_begin(Oid state, Oid stream, const uint8 *prefix, int32 prefix_len, bool exact,
										const uint8 *after, int32 after_len);
extern bool fl_state_scan_next(FlStateScan *scan, FlStateRow *row);
extern void fl_state_scan_end(FlStateScan *scan);

/*
 * The last value of a topic that is not in its table yet, as a row in palloc'd memory
 * (*cleared: the topic has none); false: look into the table.  In a transaction.
 */
extern bool fl_state_last(Oid state, Oid stream, const uint8 *key, int32 len, FlStateRow *row, bool *cleared);

/* ---- the worker (bgworker/main/state.c) ----------------------------------------------- */

/*
 * One pass over the values that wait: those whose locks are gone are written.  A
 * transaction of its own, durable when it returns.  Returns how many still wait.
 */
extern int	fl_state_retry(void);

/* May fl_state_retry have something to do?  No transaction. */
extern bool fl_state_retry_wanted(void);

/*
 * One pass of the folder of last values: read what is durable, write what is due.
 * Transactions of its own.  Returns milliseconds until it wants to be called again,
 * -1: not before a tail moves.
 */
extern long fl_state_fold_run(MemoryContext turn);

/* Serve requests to device shadows; true: there may be more. */
extern bool fl_state_shadow_run(void);
extern bool fl_state_has_shadows(void);

/* Forget clears that nothing older can follow any more.  In a transaction. */
extern void fl_state_purge_cleared(void);

#endif							/* FLEETLOG_STATE_H */
