/*-------------------------------------------------------------------------
 *
 * retention.c
 *		What the keeper does so that history ends when it should.
 *
 *		1. heads rise			by age (exactly, and at least in sixteenths of the
 *								retention), by size (whole segments), not over
 *								what is held; rows below are hidden from there on
 *		2. segments are cut		where the one with the tail has expired as a whole,
 *								or would take far too long to fill: a new one
 *								begins at the tail
 *		3. segments go			those that lie wholly below the head
 *
 * What each step may wait for: nothing.  Shard locks and table locks are taken
 * when they are free, or after the server's lock queue has stood for 10 ms; what
 * could not be had is tried again, less often each time, until the grace is
 * over.  Then those who still hold the segment are cancelled, as a standby
 * cancels what is in the way of replay: a running query first (LF101 where a scan
 * of ours is in it, 57014 elsewhere), a session that is idle in its transaction
 * is ended, and so is one that five cancels have not moved.
 *
 * Who began after the segment was hidden reads nothing of it and only has it in
 * his plan; he is left alone for another 30 s.
 *
 * State is kept per segment in this process only: after a restart the grace
 * begins anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/log.h"
#include "fleetlog/producers.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "fleetlog/state.h"
#include "fleetlog/worker.h"
#include "worker_internal.h"

#define LOCK_WAIT_MS		10	/* nobody stands behind us in a lock queue for longer */
#define MAX_BACKOFF_MS		8000
#define NEWCOMER_GRACE_MS	30000
#define MAX_CANCELS			5
#define CUT_PAUSE_MS		60000	/* a shard is cut at most this often */
#define MIN_LOOK_MS			1000
#define MAX_LOOK_MS			60000

/* What is remembered of a segment that lies below the head. */
typedef struct Leaving
{
	Oid			leaf;			/* hash key */
	int64		since;			/* when it was seen below the head first */
	TimestampTz since_wall;		/* the same by the clock that transactions are dated with */
	int64		next_try;
	int			backoff_ms;
	int			tries;
	int			cancels;
	bool		emptied;
	uint64		pass;			/* last pass that met it */
} Leaving;

/* What is remembered of a shard; of a stream, where the number of the shard is -1. */
typedef struct ShardMemory
{
	FlShardKey	key;			/* hash key */
	int64		next_look;
	TimestampTz next_look_wall; /* the same by the clock that ages records */
	int64		age_us;			/* retention by which was looked */
	int64		bytes;
	TimestampTz last_cut;
	uint64		pass;
} ShardMemory;

static HTAB *leaving = NULL;
static HTAB *memories = NULL;
static uint64 pass = 0;
static bool look_for_detached = true;	/* a predecessor may have left some behind */
static MemoryContext turn_context;	/* the keeper's: reset at each of its turns */

static void
make_tables(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.hcxt = TopMemoryContext;
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(Leaving);
	leaving = hash_create("fleetlog leaving segments", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.keysize = sizeof(FlShardKey);
	ctl.entrysize = sizeof(ShardMemory);
	memories = hash_create("fleetlog retention", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static ShardMemory *
memory_of(const FlShardKey *key)
{
	bool		found;
	ShardMemory *m = hash_search(memories, key, HASH_ENTER, &found);

	if (!found)
		memset((char *) m + sizeof(FlShardKey), 0, sizeof(ShardMemory) - sizeof(FlShardKey));
	m->pass = pass;
	return m;
}

/* ---- transactions of a step --------------------------------------------------- */

/* One shard of a stream, copied: the cache may be rebuilt by what is done. */
typedef struct Step
{
	FlStreamInfo stream;
	int32		number;
	FlShard    *shard;
	FlSegment	seg;			/* the segment in question */
	Oid			table;			/* the shard's, once a step has looked it up */
	int64		offset;			/* the wanted head, or where to cut */
	bool		only_if_empty;	/* cut only where nothing is left to be read */
	int			wait_ms;
	FlSegmentWait waits;
	bool		done;
} Step;

/*
 * Run a step in a transaction.  False: it failed, and when that was not because
 * a lock was taken the error is in the log.
 */
static bool
run(void (*work) (Step *), Step *step)
{
	volatile bool ok = true;
	MemoryContext context = CurrentMemoryContext;

	fl_worker_die_at_once = true;
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		work(step);
		if (ActiveSnapshotSet())
			PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		if (geterrcode() != ERRCODE_LOCK_NOT_AVAILABLE)
		{
			EmitErrorReport();
			FL_COUNT(FL_C_ERRORS, 1);
		}
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
		ok = false;
	}
	PG_END_TRY();
	fl_worker_die_at_once = false;
	MemoryContextSwitchTo(context);
	return ok;
}

static void
show_wait(FlShard *shard, const char *fmt,...) pg_attribute_printf(2, 3);

static void
show_wait(FlShard *shard, const char *fmt,...)
{
	char		text[sizeof(shard->retention.waits_for)];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	SpinLockAcquire(&shard->mutex);
	memcpy(shard->retention.waits_for, text, sizeof(text));
	SpinLockRelease(&shard->mutex);
}

/* ---- 1. heads -------------------------------------------------------------------- */

/* Durable end of the shard and oldest offset, as readers see them. */
static int64
head_of(const Step *s)
{
	return (int64) pg_atomic_read_u64(&s->shard->head);
}

/* The first offset that is young enough at this cutoff; the tail when none is. */
static int64
first_since(const Step *s, TimestampTz cutoff, int64 tail)
{
	int64		offset = fl_log_offset_for_time(s->stream.relid, s->number, cutoff);

	return offset < 0 ? tail : Min(offset, tail);
}

/* Is there a bound of a segment above one offset and not above the other? */
static bool
crosses_bound(const Step *s, int64 from, int64 to)
{
	int			n;
	const FlSegment *list = fl_segment_list(s->stream.relid, s->number, &n);

	for (int i = 0; i < n; i++)
		if (list[i].upper > from && list[i].upper <= to)
			return true;
	return false;
}

/*
 * By age.  Every raise is a row version and a transaction, so within a segment it
 * is done in steps of a sixteenth; the last record of all goes exactly in time.
 */
static int64
head_by_age(const Step *s, int64 head, int64 tail)
{
	TimestampTz now = fl_wall_now();
	int64		exact;

	if (s->stream.retention_age_us <= 0)
		return head;
	exact = first_since(s, now - s->stream.retention_age_us, tail);
	if (exact <= head)
		return head;
	if (exact == tail || crosses_bound(s, head, exact) ||
		first_since(s, now - s->stream.retention_age_us / 16 * 17, tail) > head)
		return exact;
	return head;
}

/* A closed segment with its size, for retention by size. */
typedef struct Sized
{
	int32		shard;
	int64		upper;
	int64		bytes;
	TimestampTz last_ts;
} Sized;

static int
compare_sized(const void *a, const void *b)
{
	const Sized *x = a;
	const Sized *y = b;

	if (x->last_ts != y->last_ts)
		return x->last_ts < y->last_ts ? -1 : 1;
	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->upper < y->upper ? -1 : x->upper > y->upper;
}

/*
 * By size, over all shards of the stream: the oldest segments go as long as what
 * is left is not less than retention_bytes.  heads[] is raised.
 */
static void
heads_by_size(const FlStreamInfo *stream, int64 *heads, const int64 *tails)
{
	Sized	   *all = NULL;
	int			n_all = 0,
				cap = 0;
	int64		total = 0;

	if (stream->retention_bytes <= 0)
		return;
	for (int32 shard = 0; shard < stream->shards; shard++)
	{
		int			n;
		const FlSegment *list = fl_segment_list(stream->relid, shard, &n);
		FlSegment  *segs = palloc(sizeof(FlSegment) * Max(n, 1));

		memcpy(segs, list, sizeof(FlSegment) * n);
		for (int i = 0; i < n; i++)
		{
			FlSegmentStat stat;

			if (segs[i].upper <= heads[shard] || !fl_log_segment_stat(segs[i].leaf, &stat))
				continue;
			total += (int64) stat.blocks * BLCKSZ;
			if (segs[i].upper > tails[shard])
				continue;
			if (n_all == cap)
			{
				cap = cap ? cap * 2 : 64;
				all = all ? repalloc(all, sizeof(Sized) * cap) : palloc(sizeof(Sized) * cap);
			}
			all[n_all++] = (Sized) {
				.shard = shard,.upper = segs[i].upper,.bytes = (int64) stat.blocks * BLCKSZ,
				.last_ts = stat.first_offset < 0 ? DT_NOBEGIN : stat.last_ts
			};
		}
		pfree(segs);
	}
	qsort(all, n_all, sizeof(Sized), compare_sized);
	for (int i = 0; i < n_all && total - all[i].bytes >= stream->retention_bytes; i++)
	{
		heads[all[i].shard] = Max(heads[all[i].shard], all[i].upper);
		total -= all[i].bytes;
	}
}

static void
raise_head(Step *s)
{
	FlHold		hold;
	int64		head;

	/* The appender never waits for us: it leaves the shard aside and is woken. */
	if (!fl_shard_lock(s->shard, FL_LOCK_NOWAIT))
		return;
	fl_producers_before_trim(s->shard, s->offset);
	head = fl_log_raise_head(s->shard, s->offset, &hold);
	if (hold.id != 0)
		show_wait(s->shard, "hold " INT64_FORMAT " at offset " INT64_FORMAT, hold.id, hold.lower);
	s->offset = head;
	s->done = true;
}

/* What is wanted of each shard, decided in one transaction. */
static const FlStreamInfo *look_stream;
static int64 *look_heads;
static int64 *look_tails;

static void
look(Step *s)
{
	for (int32 i = 0; i < look_stream->shards; i++)
	{
		Step		one = {.stream = *look_stream,.number = i};

		one.shard = fl_shard_open(look_stream->relid, i, look_stream->durability == FL_DURABILITY_QUORUM);
		look_tails[i] = fl_shard_durable_tail(one.shard);
		look_heads[i] = head_by_age(&one, head_of(&one), look_tails[i]);
	}
	heads_by_size(look_stream, look_heads, look_tails);
	/* Last values that are not in their table yet are in the log only. */
	for (int32 i = 0; i < look_stream->shards; i++)
	{
		int64		floor = fl_state_flushed_floor(look_stream->relid, i);

		if (look_heads[i] > floor)
		{
			look_heads[i] = floor;
			fl_state_await_flush();
		}
	}
}

/*
 * Is it too soon to look again?  Not when the retention was changed, nor when the
 * clock was set forward, by which records may have expired at once.
 */
static bool
looked_lately(ShardMemory *m, const FlStreamInfo *stream)
{
	int64		now = fl_monotonic_us();
	TimestampTz wall = fl_wall_now();
	int64		look_ms = MAX_LOOK_MS;

	if (now < m->next_look && wall < m->next_look_wall &&
		m->age_us == stream->retention_age_us && m->bytes == stream->retention_bytes)
		return true;
	if (stream->retention_age_us > 0)
		look_ms = stream->retention_age_us / 1000 / 64;
	if (stream->retention_bytes > 0)
		look_ms = Min(look_ms, 5000);
	look_ms = Min(Max(look_ms, MIN_LOOK_MS), MAX_LOOK_MS);
	m->next_look = now + look_ms * INT64CONST(1000);
	m->next_look_wall = wall + look_ms * INT64CONST(1000);
	m->age_us = stream->retention_age_us;
	m->bytes = stream->retention_bytes;
	return false;
}

static void
raise_heads(const FlStreamInfo *stream)
{
	FlShardKey	key = {.database = MyDatabaseId,.stream = stream->relid,.shard = -1};
	ShardMemory *m = memory_of(&key);
	Step		s = {.stream = *stream};

	if ((stream->retention_age_us <= 0 && stream->retention_bytes <= 0) || looked_lately(m, stream))
		return;

	look_stream = stream;
	look_heads = palloc(sizeof(int64) * stream->shards);
	look_tails = palloc(sizeof(int64) * stream->shards);
	if (!run(look, &s))
		return;
	for (int32 i = 0; i < stream->shards; i++)
	{
		s.number = i;
		s.shard = fl_shard_find(stream->relid, i);
		if (s.shard == NULL)
			continue;
		s.shard->retention.run_at = fl_wall_now();
		show_wait(s.shard, "%s", "");
		s.offset = look_heads[i];
		s.done = false;
		if (s.offset <= head_of(&s))
			continue;
		/* Soon again, when the shard was not free. */
		if (!run(raise_head, &s) || !s.done)
			m->next_look = 0;
		fl_worker_wake(FL_WORKER_APPENDER, 0);
	}
}

/* ---- 2. cutting ------------------------------------------------------------------- */

static void
cut(Step *s)
{
	double		rate,
				record_bytes;
	int64		tail;
	int64		at;

	if (!fl_shard_lock(s->shard, FL_LOCK_NOWAIT))
		return;
	tail = fl_log_next_offset(s->shard);
	/* A segment that was begun has room for a thousand records at least. */
	at = s->seg.lower + Max(tail - s->seg.lower, s->offset);
	if (tail <= s->seg.lower || at >= s->seg.upper || (s->only_if_empty && tail != head_of(s)))
		return;
	fl_log_segment_rate(&s->stream, s->seg.leaf, tail, &rate, &record_bytes);
	if (!fl_segment_cut(s->stream.relid, &s->seg, at))
		return;
	(void) fl_segment_create_next(s->stream.relid, s->number, at, rate, record_bytes);
	/* It has other bounds than the writer remembers, whether this commits or not. */
	s->shard->writer_valid = false;
	s->done = true;
}

/*
 * Should the segment with the tail end here?  Yes when nothing of it is left to
 * be read: it is one below the head then.  And yes when the rate has fallen so far
 * that it would be filled only long after it should have expired.
 */
static bool
wants_cut(Step *s)
{
	FlSegmentStat stat;
	double		span = fl_segment_span(&s->stream) * USECS_PER_SEC;
	int64		tail = (int64) pg_atomic_read_u64(&s->shard->visible_tail);
	double		age;

	if (!fl_segment_find(s->stream.relid, s->number, tail, &s->seg) || tail == s->seg.lower)
		return false;
	if (!fl_log_segment_stat(s->seg.leaf, &stat) || stat.first_offset < 0)
		return false;
	if (tail == head_of(s))
	{
		s->offset = 0;
		s->only_if_empty = true;
		return true;
	}
	s->offset = (int64) 1 << FL_MIN_SEGMENT_BITS;
	s->only_if_empty = false;
	age = (double) (fl_wall_now() - stat.first_ts);
	return s->stream.retention_age_us + s->stream.segment_age_us > 0 && age > 2 * span &&
		(double) (s->seg.upper - tail) > (double) (tail - stat.first_offset) * span / age;
}

static void
consider_cut(Step *s)
{
	if (wants_cut(s))
		cut(s);
}

static void
cut_shard(const FlStreamInfo *stream, int32 number, FlShard *shard)
{
	Step		s = {.stream = *stream,.number = number,.shard = shard};
	ShardMemory *m = memory_of(&shard->key);
	TimestampTz now = fl_wall_now();

	/* By the clock that ages records; one that was set back is no pause. */
	if (now >= m->last_cut && now - m->last_cut < CUT_PAUSE_MS * INT64CONST(1000) && m->last_cut != 0)
		return;
	if (!run(consider_cut, &s) || !s.done)
		return;
	m->last_cut = now;
	fl_worker_wake(FL_WORKER_APPENDER, 0);
}

/* ---- 3. segments that go ---------------------------------------------------------- */

static void
detach(Step *s)
{
	s->table = fl_shard_table(s->stream.relid, s->number);
	s->waits = fl_segment_detach(s->stream.relid, &s->seg, s->wait_ms);
}

static void
empty(Step *s)
{
	s->done = fl_segment_empty(s->stream.relid, &s->seg, s->wait_ms);
}

static void
drop_detached(Step *s)
{
	s->done = fl_segment_drop_detached() == 0;
}

/* How a session that holds a segment is to be treated. */
typedef struct Holder
{
	int			pid;
	bool		is_idle;		/* in a transaction */
	TimestampTz began;			/* its transaction */
} Holder;

/*
 * Read as the owner of the extension: the worker's role may not see what others
 * do.  False: the process is gone.
 */
static bool
look_at_holder(Holder *h)
{
	Oid			types[1] = {INT4OID};
	Datum		values[1] = {Int32GetDatum(h->pid)};
	bool		isnull;
	int64		v = fl_config_query_int("SELECT 2 * floor(extract(epoch FROM coalesce(xact_start, now())) * 1000)::bigint"
										" + CASE WHEN state LIKE 'idle%' THEN 1 ELSE 0 END"
										" FROM pg_catalog.pg_stat_activity WHERE pid = $1", 1, types, values, &isnull);

	if (isnull)
		return false;
	h->is_idle = v % 2 != 0;
	h->began = (TimestampTz) (v / 2 - (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * 1000) * 1000;
	return true;
}

static bool
is_our_worker(int pid)
{
	for (int i = 0; i < FL_MAX_WORKERS; i++)
		if (fl_shared->slots[i].pid == pid)
			return true;
	return false;
}

/* Processes that hold the segment in a way that is in our way. */
static List *
holders(Oid leaf)
{
	LOCKTAG		tag;
	VirtualTransactionId *vxids;
	int			n;
	List	   *list = NIL;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, leaf);
	vxids = GetLockConflicts(&tag, AccessExclusiveLock, &n);
	for (int i = 0; i < n; i++)
	{
		PGPROC	   *proc = FL_VXID_IS_PREPARED(vxids[i]) ? NULL : FL_VXID_PROC(vxids[i]);
		PGPROC	   *leader;
		int			pid;

		if (proc == NULL || FL_PROC_LXID(proc) != vxids[i].localTransactionId || proc->pid == 0)
			continue;
		/* The leader of a parallel query ends its workers; it may itself hold nothing of the segment. */
		leader = proc->lockGroupLeader;
		pid = leader != NULL ? leader->pid : proc->pid;
		if (pid != 0 && pid != MyProcPid && !is_our_worker(pid))
			list = list_append_unique_int(list, pid);
	}
	return list;
}

static Leaving *
leaving_entry(Oid leaf)
{
	bool		found;
	Leaving    *l = hash_search(leaving, &leaf, HASH_ENTER, &found);

	if (!found)
	{
		memset(l, 0, sizeof(*l));
		l->leaf = leaf;
		l->since = fl_monotonic_us();
		l->since_wall = GetCurrentTimestamp();
	}
	l->pass = pass;
	return l;
}

/*
 * The grace is over.  Whoever began before the segment was hidden, and everybody
 * 30 s later, has to let go of it.
 */
static void
evict(Step *s)
{
	Leaving    *l = leaving_entry(s->seg.leaf);
	int64		now = fl_monotonic_us();
	bool		all = now - l->since > ((int64) fl_retention_grace_ms + NEWCOMER_GRACE_MS) * 1000;
	ListCell   *lc;
	bool		any = false;

	s->shard->retention.evicting = s->seg.leaf;
	foreach(lc, holders(s->seg.leaf))
	{
		Holder		h = {.pid = lfirst_int(lc)};
		bool		end;

		if (!look_at_holder(&h) || (!all && h.began > l->since_wall) || !list_member_int(holders(s->seg.leaf), h.pid))
			continue;
		end = h.is_idle || l->cancels >= MAX_CANCELS;
		any = true;
		ereport(LOG,
				(errmsg("%s process %d, which holds segment \"%s\" of stream \"%s\" after retention has removed its records",
						end ? "ending" : "canceling the query of", h.pid,
						get_rel_name(s->seg.leaf), get_rel_name(s->stream.relid)),
				 errdetail("The segment has been below the head of shard %d for %ld ms; fleetlog.retention_grace is %d ms.",
						   s->number, (long) ((now - l->since) / 1000), fl_retention_grace_ms)));
		(void) kill(h.pid, end ? SIGTERM : SIGINT);
	}
	if (any)
		l->cancels++;
}

static void
note_wait(Step *s, Leaving *l, int64 now)
{
	List	   *list = holders(s->seg.leaf);
	List	   *table_users = OidIsValid(s->table) ? holders(s->table) : NIL;
	long		left = (long) fl_retention_grace_ms - (long) ((now - l->since) / 1000);

	if (list == NIL && table_users != NIL)
		show_wait(s->shard, "process %d, which uses the table of the shard", linitial_int(table_users));
	else if (list != NIL)
		show_wait(s->shard, "process %d, which reads segment %u; grace ends in %ld s",
				  linitial_int(list), s->seg.leaf, Max(left, 0) / 1000);
	else
		show_wait(s->shard, "a lock on segment %u", s->seg.leaf);
}

/* True when it has left the stream. */
static bool
try_leave(Step *s, Leaving *l, int64 now)
{
	bool		over = now - l->since >= (int64) fl_retention_grace_ms * 1000;

	/* Free at once, or a short stand in the queue every other time. */
	s->wait_ms = l->tries % 2 == 1 || over ? LOCK_WAIT_MS : 0;
	s->waits = FL_SEGMENT_BUSY;
	if (run(detach, s) && s->waits == FL_SEGMENT_DONE)
		return true;
	if (over)
	{
		(void) run(evict, s);
		s->waits = FL_SEGMENT_BUSY;
		if (run(detach, s) && s->waits == FL_SEGMENT_DONE)
			return true;
	}
	/* Somebody reads other segments through the shard's table: give back the space at least. */
	if (l->tries > 0 && !l->emptied)
	{
		s->done = false;
		l->emptied = run(empty, s) && s->done;
	}
	return false;
}

static void
segment_leaves(Step *s)
{
	int64		now = fl_monotonic_us();
	Leaving    *l = leaving_entry(s->seg.leaf);

	if (now < l->next_try)
		return;
	if (try_leave(s, l, now))
	{
		SpinLockAcquire(&s->shard->mutex);
		s->shard->retention.evicting = InvalidOid;
		s->shard->retention.dropped++;
		s->shard->retention.dropped_at = fl_wall_now();
		s->shard->retention.waits_for[0] = '\0';
		SpinLockRelease(&s->shard->mutex);
		(void) hash_search(leaving, &s->seg.leaf, HASH_REMOVE, NULL);
		look_for_detached = true;
		return;
	}
	l->tries++;
	l->backoff_ms = Min(MAX_BACKOFF_MS, Max(250, l->backoff_ms * 2));
	if (now - l->since + l->backoff_ms * INT64CONST(1000) > (int64) fl_retention_grace_ms * 1000)
		l->backoff_ms = 500;	/* punctual at its end, and then insistent */
	l->next_try = now + l->backoff_ms * INT64CONST(1000);
	note_wait(s, l, now);
}

/* Segments of a shard that lie wholly below its head. */
static List *go_list;

static void
list_segments(Step *s)
{
	int			n;
	const FlSegment *list = fl_segment_list(s->stream.relid, s->number, &n);
	int64		head = head_of(s);
	MemoryContext old = MemoryContextSwitchTo(turn_context);

	go_list = NIL;
	for (int i = 0; i < n && list[i].upper <= head; i++)
	{
		FlSegment  *seg = palloc(sizeof(FlSegment));

		*seg = list[i];
		go_list = lappend(go_list, seg);
	}
	MemoryContextSwitchTo(old);
}

/* ---- the whole ------------------------------------------------------------------------ */

void
fl_retention_run(const FlStreamInfo *stream)
{
	FlStreamInfo expiring = *stream;
	Step		s;

	/* Nothing expires where the policy is "compact" alone, whatever is set beside it. */
	if (!stream->is_expiring)
		expiring.retention_age_us = expiring.retention_bytes = 0;
	stream = &expiring;
	s = (Step) {.stream = expiring};
	turn_context = CurrentMemoryContext;
	if (leaving == NULL)
		make_tables();
	raise_heads(stream);
	for (int32 i = 0; i < stream->shards && !fl_worker_should_stop(); i++)
	{
		ListCell   *lc;

		s.number = i;
		s.shard = fl_shard_find(stream->relid, i);
		if (s.shard == NULL || (head_of(&s) == 0 && stream->retention_age_us <= 0))
			continue;
		cut_shard(stream, i, s.shard);
		if (head_of(&s) == 0 || !run(list_segments, &s))
			continue;
		foreach(lc, go_list)
		{
			s.seg = *(FlSegment *) lfirst(lc);
			segment_leaves(&s);
		}
	}
}

void
fl_retention_end_turn(void)
{
	HASH_SEQ_STATUS seq;
	Leaving    *l;
	Step		s = {0};

	if (look_for_detached && run(drop_detached, &s))
		look_for_detached = !s.done;
	if (leaving == NULL)
		return;

	/* Segments that went another way: their stream was dropped. */
	hash_seq_init(&seq, leaving);
	while ((l = hash_seq_search(&seq)) != NULL)
		if (l->pass < pass)
			(void) hash_search(leaving, &l->leaf, HASH_REMOVE, NULL);
	pass++;
}
