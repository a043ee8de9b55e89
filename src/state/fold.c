/*-------------------------------------------------------------------------
 *
 * fold.c
 *		keep => 'last': the state worker folds the log into last values.
 *
 *	read	each shard from where it stopped, up to the durable tail, as soon as that
 *			moves: the newest value of each key goes into shared memory (last.c)
 *	flush	every state_lag: values go to the table, in the order of locks, and with
 *			them, in the same transaction, the offset up to which the shard has been
 *			read (state_flushed)
 *
 * So a key gets at most one version per lag, and a restart goes on from the offset
 * that stands beside the values.  A flush commits asynchronously: what a crash takes
 * back it takes back with its offset.
 *
 * The log is the memory: when the slots are used up the flush comes early, and what
 * cannot be read now is read later.
 *
 * An old snapshot that somebody holds keeps every version of a row.  While the
 * versions of the flush before last cannot go, each flush doubles the lag, so that
 * their number grows with the logarithm of the time; as soon as they can go it is
 * state_lag again.  Subscribers to many topics, who are answered from the table, are not
 * made to wait for it longer than a second.
 *
 * Only the state worker calls what is here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/shmem.h"
#include "state_internal.h"

#define TURN_RECORDS	20000	/* read in one transaction at most */
#define MAX_STRETCH_US	(600 * USECS_PER_SEC)
#define AWAITED_US		USECS_PER_SEC	/* subscribers to many topics wait so long at most */
#define BUSY_PAUSE_MS	200		/* table locked: later */

/* One stream and state table. */
typedef struct Fold
{
	Oid			state;
	Oid			stream;
	int64		lag_us;
	int64		stretch_us;		/* lag in force */
	TimestampTz flushed_at;
	int64		flushed_us;		/* the same by fl_monotonic_us() */
	TransactionId flush_xid;	/* of the last flush */
	int			nshards;
	FlLogPosition *cursors;		/* by shard: what has been read */
	int64	   *flushed;		/* by shard: what is in the table */
	bool		dirty;
	bool		full;			/* no room: flush before reading on */
	bool		wanted;			/* in the configuration */
	int64		flushes;
	int64		early;
} Fold;

static Fold *folds = NULL;
static int	nfolds = 0;
static int	max_folds = 0;
static uint64 seen_version = 0;
static MemoryContext fold_context = NULL;
static MemoryContext turn_context = NULL;
static FlBatchDecoder *decoder = NULL;

/* ---- which there are -------------------------------------------------------------- */

static Fold *
find_fold(Oid state, Oid stream)
{
	for (int i = 0; i < nfolds; i++)
		if (folds[i].state == state && folds[i].stream == stream)
			return &folds[i];
	return NULL;
}

static void
read_flushed(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Fold	   *f = arg;
	bool		isnull;
	int32		shard = DatumGetInt32(heap_getattr(tuple, 1, desc, &isnull));
	int64		offset = DatumGetInt64(heap_getattr(tuple, 2, desc, &isnull));

	if (shard >= 0 && shard < f->nshards)
		f->flushed[shard] = f->cursors[shard].offset = offset;
}

/* Room for all shards; new ones begin where the table ends, or with the history. */
static void
set_shards(Fold *f, int nshards)
{
	Oid			types[2] = {REGCLASSOID, REGCLASSOID};
	Datum		values[2] = {ObjectIdGetDatum(f->state), ObjectIdGetDatum(f->stream)};
	int			before = f->nshards;

	if (nshards <= before)
		return;
	f->cursors = f->cursors ? repalloc(f->cursors, sizeof(FlLogPosition) * nshards) :
		MemoryContextAlloc(fold_context, sizeof(FlLogPosition) * nshards);
	f->flushed = f->flushed ? repalloc(f->flushed, sizeof(int64) * nshards) :
		MemoryContextAlloc(fold_context, sizeof(int64) * nshards);
	memset(f->cursors + before, 0, sizeof(FlLogPosition) * (nshards - before));
	memset(f->flushed + before, 0, sizeof(int64) * (nshards - before));
	f->nshards = nshards;
	if (before == 0)
		fl_config_query("SELECT shard, log_offset FROM fleetlog.state_flushed WHERE state = $1 AND stream = $2",
						2, types, values, read_flushed, f);
}

static void
add_fold(const FlMount *m, int nshards)
{
	Fold	   *f = find_fold(m->state, m->stream);

	if (f == NULL)
	{
		if (nfolds == max_folds)
		{
			int			n = max_folds ? max_folds * 2 : 8;

			folds = folds ? repalloc(folds, sizeof(Fold) * n) : MemoryContextAlloc(fold_context, sizeof(Fold) * n);
			max_folds = n;
		}
		f = &folds[nfolds++];
		memset(f, 0, sizeof(*f));
		f->state = m->state;
		f->stream = m->stream;
		f->lag_us = m->state_lag_us;
		f->flushed_at = GetCurrentTimestamp();
		f->flushed_us = fl_monotonic_us();
	}
	/* Of several mounts with one table the shortest lag holds. */
	f->lag_us = f->wanted ? Min(f->lag_us, m->state_lag_us) : m->state_lag_us;
	f->stretch_us = Max(f->stretch_us, f->lag_us);
	f->wanted = true;
	set_shards(f, nshards);
}

static void
drop_unwanted(void)
{
	int			keep = 0;

	for (int i = 0; i < nfolds; i++)
	{
		if (folds[i].wanted)
		{
			folds[keep++] = folds[i];
			continue;
		}
		fl_last_forget(folds[i].state, folds[i].stream);
		if (folds[i].cursors)
			pfree(folds[i].cursors);
		if (folds[i].flushed)
			pfree(folds[i].flushed);
	}
	for (int i = keep; i < nfolds; i++)
		fl_fold_show(i, NULL);
	nfolds = keep;
}

/* In a transaction. */
static void
refresh(void)
{
	int			n;
	const FlMount *mounts;

	if (fl_catalog_is_stale())
		fl_catalog_refresh();
	if (seen_version == fl_catalog_version())
		return;
	mounts = fl_mount_list(&n);
	for (int i = 0; i < nfolds; i++)
		folds[i].wanted = false;
	for (int i = 0; i < n; i++)
	{
		const FlStreamInfo *info = fl_stream_lookup(mounts[i].stream);

		if (info != NULL && fl_state_is_folded(&mounts[i]))
			add_fold(&mounts[i], info->shards);
	}
	drop_unwanted();
	seen_version = fl_catalog_version();
}

/* ---- reading ------------------------------------------------------------------------- */

/* Puts one batch's values; returns the offset of the record for which there was no room, -1: all are in. */
static int64
take_batch(Fold *f, int32 shard, const FlStoredBatch *batch, int64 from)
{
	FlLogRecord rec;
	FlStateChange c;

	fl_batch_decoder_open(decoder, batch);
	while (fl_batch_decoder_next(decoder, &rec))
	{
		if (rec.log_offset < from ||
			!fl_state_change_of(f->stream, shard, &rec, FL_STATE_FOLDED, &c) || c.state != f->state)
			continue;
		f->dirty = true;
		if (!fl_last_put(&c))
			return rec.log_offset;
	}
	return -1;
}

static int64
shard_end(Fold *f, int32 shard)
{
	FlShard    *s = fl_shard_find(f->stream, shard);

	return s != NULL ? fl_shard_durable_tail(s) : fl_log_tail(f->stream, shard);
}

static void
read_shard(Fold *f, int32 shard, int *budget)
{
	FlLogPosition *pos = &f->cursors[shard];
	int64		end = shard_end(f, shard);
	int64		head = fl_log_head(f->stream, shard);
	MemoryContext row;
	MemoryContext old;
	FlLogReader *reader;
	FlStoredBatch batch;

	if (pos->offset < head)
	{
		memset(pos, 0, sizeof(*pos));
		pos->offset = head;
	}
	if (pos->offset >= end || f->full)
		return;
	reader = fl_log_reader_begin(f->stream, shard, pos, end);
	row = AllocSetContextCreate(CurrentMemoryContext, "fleetlog fold batch", ALLOCSET_DEFAULT_SIZES);
	while (*budget > 0)
	{
		FlLogPosition start = *pos;
		int64		stopped;

		if (!fl_log_reader_next(reader, &batch))
			break;
		old = MemoryContextSwitchTo(row);
		stopped = take_batch(f, shard, &batch, start.offset);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row);
		if (stopped >= 0)
		{
			/* The same batch again, from this record on. */
			*pos = start;
			pos->offset = stopped;
			f->full = true;
			break;
		}
		*budget -= batch.count;
	}
	fl_log_reader_end(reader);
	MemoryContextDelete(row);
}

/* Positions that subscribers wait for; the list is made anew when there are others. */
static void
publish_positions(void)
{
	static uint64 version = 0;
	static int	count = 0;
	int			n = 0;

	for (int i = 0; i < nfolds; i++)
		n += folds[i].nshards;
	if (version != seen_version || count != n)
	{
		fl_fold_positions_clear();
		for (int i = 0; i < nfolds; i++)
			for (int32 s = 0; s < folds[i].nshards; s++)
				fl_fold_position_add(folds[i].state, folds[i].stream, s, folds[i].cursors[s].offset, folds[i].flushed[s]);
		version = seen_version;
		count = n;
		return;
	}
	n = 0;
	for (int i = 0; i < nfolds; i++)
		for (int32 s = 0; s < folds[i].nshards; s++)
			fl_fold_position_set(n++, folds[i].cursors[s].offset, folds[i].flushed[s]);
}

/* ---- flushing --------------------------------------------------------------------------- */

static bool
has_news(const Fold *f)
{
	if (f->dirty)
		return true;
	for (int i = 0; i < f->nshards; i++)
		if (f->cursors[i].offset > f->flushed[i])
			return true;
	return false;
}

/* The rows that the last flush replaced cannot go, because somebody holds an old snapshot. */
static bool
is_pinned(const Fold *f)
{
	Relation	rel;
	TransactionId horizon;

	if (!TransactionIdIsValid(f->flush_xid) || !ConditionalLockRelationOid(f->state, AccessShareLock))
		return false;
	rel = try_table_open(f->state, NoLock);
	if (rel == NULL)
		return false;
	horizon = GetOldestNonRemovableTransactionId(rel);
	table_close(rel, AccessShareLock);
	return TransactionIdPrecedesOrEquals(horizon, f->flush_xid);
}

static bool
some_are_full(void)
{
	for (int i = 0; i < nfolds; i++)
		if (folds[i].full)
			return true;
	return false;
}

static bool
is_due(Fold *f, int64 now, bool awaited)
{
	if (!has_news(f))
		return false;
	/* Slots are short: everybody gives back what he has. */
	if (some_are_full())
		return true;
	if (awaited && now - f->flushed_us >= Min(f->lag_us, AWAITED_US))
		return true;
	if (now - f->flushed_us < f->lag_us)
		return false;
	if (f->stretch_us > f->lag_us && !is_pinned(f))
		f->stretch_us = f->lag_us;
	return now - f->flushed_us >= f->stretch_us;
}

static void
note_offsets(const Fold *f)
{
	Datum	   *shards = palloc(sizeof(Datum) * f->nshards);
	Datum	   *offsets = palloc(sizeof(Datum) * f->nshards);
	Oid			types[4] = {REGCLASSOID, REGCLASSOID, INT4ARRAYOID, INT8ARRAYOID};
	Datum		values[4] = {ObjectIdGetDatum(f->state), ObjectIdGetDatum(f->stream)};
	int			n = 0;

	for (int i = 0; i < f->nshards; i++)
	{
		if (f->cursors[i].offset <= f->flushed[i])
			continue;
		shards[n] = Int32GetDatum(i);
		offsets[n++] = Int64GetDatum(f->cursors[i].offset);
	}
	if (n == 0)
		return;
	values[2] = PointerGetDatum(construct_array(shards, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	values[3] = PointerGetDatum(construct_array(offsets, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	fl_config_execute("INSERT INTO fleetlog.state_flushed (state, stream, shard, log_offset)"
					  " SELECT $1, $2, s, o FROM unnest($3, $4) u(s, o)"
					  " ON CONFLICT (state, stream, shard) DO UPDATE"
					  " SET log_offset = greatest(state_flushed.log_offset, excluded.log_offset)",
					  4, types, values, NULL);
}

/* False: the table is locked. */
static bool
write_values(const Fold *f, const FlStateChange *changes, int n)
{
	FlStateWriter writer;
	bool		ok;

	fl_state_writer_begin(&writer);
	ok = fl_state_writer_open(&writer, f->state);
	for (int i = 0; ok && i < n; i++)
		if (fl_state_write(&writer, &changes[i]) == FL_STATE_LOCKED)
			fl_state_defer(&changes[i], false);
	fl_state_writer_end(&writer);
	return ok;
}

/*
 * The table is locked for long, and others need the slots: the values are in the log,
 * and will be read again.
 */
static void
start_over(Fold *f)
{
	fl_last_forget(f->state, f->stream);
	for (int i = 0; i < f->nshards; i++)
	{
		memset(&f->cursors[i], 0, sizeof(FlLogPosition));
		f->cursors[i].offset = f->flushed[i];
	}
	f->full = f->dirty = false;
}

/* A transaction of its own. */
static bool
flush(Fold *f)
{
	FlStateChange *changes;
	int			n;
	bool		pinned;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(turn_context);
	pinned = is_pinned(f);
	n = fl_last_collect(f->state, f->stream, &changes);
	qsort(changes, n, sizeof(FlStateChange), fl_state_change_cmp);
	if (!write_values(f, changes, n))
	{
		PopActiveSnapshot();
		AbortCurrentTransaction();
		return false;
	}
	note_offsets(f);
	f->flush_xid = GetTopTransactionIdIfAny();
	FL_STOP_POINT("state_before_flush_commit");
	PopActiveSnapshot();
	CommitTransactionCommand();
	for (int i = 0; i < n; i++)
		fl_last_remove(&changes[i]);
	for (int i = 0; i < f->nshards; i++)
		f->flushed[i] = f->cursors[i].offset;
	f->flushes++;
	f->early += f->full ? 1 : 0;
	f->dirty = f->full = false;
	f->flushed_at = GetCurrentTimestamp();
	f->flushed_us = fl_monotonic_us();
	f->stretch_us = pinned ? Min(f->stretch_us * 2, Max(MAX_STRETCH_US, f->lag_us)) : f->lag_us;
	return true;
}

/* ---- a turn ------------------------------------------------------------------------------ */

static void
show(int n)
{
	const Fold *f = &folds[n];
	FlFoldInfo	info = {
		.state = f->state,.stream = f->stream,.lag_us = f->lag_us,.stretched_us = f->stretch_us,
		.keys = fl_last_count(f->state, f->stream),.flushes = f->flushes,.early = f->early,.flushed_at = f->flushed_at
	};

	fl_fold_show(n, &info);
}

static void
read_all(void)
{
	int			budget = TURN_RECORDS;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(turn_context);
	refresh();
	for (int i = 0; i < nfolds && budget > 0; i++)
		for (int32 s = 0; s < folds[i].nshards && budget > 0; s++)
			read_shard(&folds[i], s, &budget);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(turn_context);
}

/* Milliseconds until a flush is due or there is more to read; -1: nothing to do. */
static long
next_wait(int64 now)
{
	long		wait = -1;

	for (int i = 0; i < nfolds; i++)
	{
		Fold	   *f = &folds[i];
		long		left = Max(1, (long) ((f->flushed_us + f->lag_us - now) / 1000) + 1);

		for (int32 s = 0; s < f->nshards; s++)
			if (!f->full && f->cursors[s].offset < shard_end(f, s))
				return 0;
		if (!has_news(f))
			continue;
		/* Beyond the lag: an old snapshot stretches it, or the table is locked. */
		if (left <= 1)
			left = BUSY_PAUSE_MS;
		wait = wait < 0 ? left : Min(wait, left);
	}
	return wait;
}

long
fl_state_fold_run(MemoryContext turn)
{
	int64		now;
	long		wait;
	bool		due[FL_MAX_FOLDS] = {false};
	bool		awaited;

	turn_context = turn;
	if (fold_context == NULL)
	{
		fold_context = AllocSetContextCreate(TopMemoryContext, "fleetlog fold", ALLOCSET_DEFAULT_SIZES);
		decoder = fl_batch_decoder_create(fold_context);
	}
	read_all();
	now = fl_monotonic_us();
	awaited = fl_state_flush_is_awaited();
	StartTransactionCommand();
	for (int i = 0; i < nfolds && i < FL_MAX_FOLDS; i++)
		due[i] = is_due(&folds[i], now, awaited);
	CommitTransactionCommand();
	for (int i = 0; i < nfolds && i < FL_MAX_FOLDS; i++)
	{
		if (due[i] && !flush(&folds[i]) && some_are_full())
			start_over(&folds[i]);
		show(i);
	}
	StartTransactionCommand();
	publish_positions();
	wait = next_wait(fl_monotonic_us());
	CommitTransactionCommand();
	pg_atomic_write_u32(fl_state_follows(), nfolds > 0 || fl_state_has_shadows() ? 1 : 0);
	MemoryContextSwitchTo(turn);
	return wait;
}
