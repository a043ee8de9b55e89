/*-------------------------------------------------------------------------
 *
 * appender.c
 *		The only process that appends for devices: one transaction per turn.
 *
 *	gather		batches that front doors have put into their rings, and those that
 *				were left aside because SQL held their shard
 *	write		shards ascending, each locked conditionally; a shard that is held is
 *				left aside, everybody else goes on
 *	commit		asynchronously; the flusher makes it durable, doors release acks by
 *				the durable tail (never by our answer)
 *	answer		base offset or error per batch
 *
 * Turn length adapts: a turn begins at once while the transaction budget lasts
 * (fleetlog.max_xids_per_second) and waits for the next token beyond it, so
 * that batches gather instead.  No subtransactions.
 *
 * An error in a turn aborts it as a whole.  It is then run again in halves until
 * the batch at fault is alone; that one is answered with its error, all others
 * are written.  What is only bad luck (a lock that was not to be had, a cancel) is
 * left aside and tried again.  A segment that somebody's DDL has locked is treated as
 * a held shard.
 *
 * Batches of a shard are written in the order of their arrival, whatever happens
 * in between: what is left aside keeps its number, and nothing of a shard is
 * written while something older of it waits.  What is left aside takes at most
 * half of a turn, and of a held shard one batch that finds out, so that other
 * shards go on however much waits.  Behind a batch that has failed, what the same door
 * had sent of the shard until it knew of the failure is returned to it, for it may
 * hold records of devices that send again from the failed one on (src/ingest/order.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/wait_event.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/guest.h"
#include "fleetlog/log.h"
#include "fleetlog/ring.h"
#include "fleetlog/settings.h"
#include "fleetlog/turn.h"
#include "fleetlog/worker.h"

PGDLLEXPORT void fl_main_appender(Datum arg);

#define TURN_ITEMS		2048	/* batches in one transaction at most */
#define TURN_BYTES		(8 * 1024 * 1024)
#define ASIDE_RETRY_MS	20		/* a release wakes us earlier */
#define LOCK_TIMEOUT	"500ms" /* for making a segment that nobody made ahead */

/* A batch under way. */
typedef struct BatchItem
{
	const FlIngestEntry *entry; /* in the ring, or a copy when it was left aside */
	int			door;
	uint64		arrival;		/* number, over all turns */
	bool		aside;			/* entry is a copy of ours */
	FlError		err;
	FlWritten	written;
	bool		answered;
	bool		returned;		/* not written: behind one that has failed */
} BatchItem;

/* A batch whose shard was held; copied, since the ring must go on. */
typedef struct Aside
{
	dlist_node	node;
	int			door;
	uint64		arrival;
	bool		held;			/* its shard was held when last tried */
	FlIngestEntry *entry;
} Aside;

/* An answer for which the door had no room. */
typedef struct LateAnswer
{
	dlist_node	node;
	int			door;
	FlIngestResult result;
} LateAnswer;

/* The last batch of a door's shard that has failed, until the door has dealt with it. */
typedef struct FailureKey
{
	Oid			stream;
	int32		shard;
	int32		door;
} FailureKey;

typedef struct Failure
{
	FailureKey	key;			/* hash key: must come first */
	uint64		seq;
} Failure;

static HTAB *failures;
static uint32 my_generation;

static dlist_head aside = DLIST_STATIC_INIT(aside); /* by arrival */
static int	n_aside = 0;
static uint64 arrivals = 0;
static dlist_head late = DLIST_STATIC_INIT(late);
static uint64 cursor[FL_MAX_FRONT_DOORS];
static MemoryContext turn_mcxt;
static MemoryContext keep_mcxt; /* what is left aside, late answers */

static BatchItem items[TURN_ITEMS];
static int	n_items;
static Size n_bytes;
static bool took_xid;			/* in this turn */
static bool touched[FL_MAX_FRONT_DOORS];

/* ---- gathering ----------------------------------------------------------------- */

static void
add_item(const FlIngestEntry *entry, int door, uint64 arrival, bool is_aside)
{
	items[n_items] = (BatchItem) {
		.entry = entry,.door = door,.arrival = arrival,.aside = is_aside,.written.base = -1
	};
	n_items++;
	n_bytes += entry->total_len;
}

static bool
same_shard(const FlIngestEntry *a, const FlIngestEntry *b)
{
	return a->stream == b->stream && a->shard == b->shard;
}

/* Something of this entry's shard is in the turn already. */
static bool
shard_is_gathered(const FlIngestEntry *entry)
{
	for (int i = 0; i < n_items; i++)
		if (same_shard(items[i].entry, entry))
			return true;
	return false;
}

/* Oldest first, half a turn at most; of a held shard one, which finds out. */
static void
gather_aside(void)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &aside)
	{
		Aside	   *a = dlist_container(Aside, node, it.cur);

		if (n_items >= TURN_ITEMS / 2 || n_bytes >= TURN_BYTES / 2)
			break;
		if (a->held && shard_is_gathered(a->entry))
			continue;
		add_item(a->entry, a->door, a->arrival, true);
		dlist_delete(it.cur);
		pfree(a);
		n_aside--;
	}
}

static void
gather(void)
{
	n_items = 0;
	n_bytes = 0;
	gather_aside();
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
	{
		const FlIngestEntry *e;

		touched[door] = false;
		while (n_items < TURN_ITEMS && n_bytes < TURN_BYTES &&
			   (e = fl_ring_next(door, &cursor[door])) != NULL)
		{
			add_item(e, door, ++arrivals, false);
			touched[door] = true;
		}
	}
}

static bool
rings_have_work(void)
{
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		if (pg_atomic_read_u64(&fl_shared->doors[door].in_head) != cursor[door])
			return true;
	return false;
}

/* ---- answers --------------------------------------------------------------------- */

static void
send_late_answers(void)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &late)
	{
		LateAnswer *l = dlist_container(LateAnswer, node, it.cur);

		if (!fl_ring_answer(l->door, &l->result))
			continue;
		dlist_delete(it.cur);
		fl_worker_wake(FL_WORKER_FRONT_DOOR, l->door);
		pfree(l);
	}
}

static Failure *
find_failure(const BatchItem *item, HASHACTION action)
{
	FailureKey	key = {.stream = item->entry->stream,.shard = item->entry->shard,.door = item->door};

	if (action == HASH_FIND && hash_get_num_entries(failures) == 0)
		return NULL;
	return hash_search(failures, &key, action, NULL);
}

/*
 * Does it come behind a failed batch that its door did not know of when it sent it?
 * What was sent to the appender before us may: nobody knows what failed then.
 */
static bool
is_behind_failure(const BatchItem *item)
{
	Failure    *f = find_failure(item, HASH_FIND);

	if (item->entry->generation != my_generation)
		return true;
	if (f == NULL || item->entry->seq <= f->seq)
		return false;
	if (item->entry->settled < f->seq)
		return true;
	/* The ring keeps the order: nothing older comes any more. */
	(void) find_failure(item, HASH_REMOVE);
	return false;
}

/* Where a producer's sequence was wrong, it says of all that is behind whether it may follow. */
static bool
is_failure(const BatchItem *item)
{
	return item->err != FL_ERR_NONE && !fl_error_is_of_sequence(item->err);
}

static void
answer(BatchItem *item)
{
	FlIngestResult result = {
		.seq = item->entry->seq,.base_offset = item->written.base,.append_ts = item->written.ts,
		.status = item->returned ? FL_RESULT_RETURNED : (int32) item->err,.nrecords = item->entry->nrecords
	};

	if (!item->returned && is_failure(item))
		find_failure(item, HASH_ENTER)->seq = item->entry->seq;
	item->answered = true;
	/* To be woken, also where nothing has come from its ring. */
	touched[item->door] = true;
	if (dlist_is_empty(&late) && fl_ring_answer(item->door, &result))
		return;
	{
		LateAnswer *l = MemoryContextAlloc(keep_mcxt, sizeof(LateAnswer));

		l->door = item->door;
		l->result = result;
		dlist_push_tail(&late, &l->node);
	}
}

/* ---- leaving aside ----------------------------------------------------------------- */

/* Doors write to such a shard no more, so that what waits is not overtaken for ever. */
static void
mark_aside(const FlIngestEntry *entry, bool waits)
{
	FlShard    *shard = fl_shard_find(entry->stream, entry->shard);

	if (shard != NULL)
		fl_aside_mark(shard, waits);
}

static void
leave_aside(BatchItem *item)
{
	Aside	   *a = MemoryContextAlloc(keep_mcxt, sizeof(Aside));
	dlist_node *before = NULL;
	dlist_iter	it;

	a->door = item->door;
	a->arrival = item->arrival;
	a->held = item->err == FL_ERR_SHARD_BUSY;
	if (item->aside)
		a->entry = (FlIngestEntry *) item->entry;
	else
	{
		a->entry = MemoryContextAllocHuge(keep_mcxt, item->entry->total_len);
		memcpy(a->entry, item->entry, item->entry->total_len);
	}
	dlist_reverse_foreach(it, &aside)
	{
		if (dlist_container(Aside, node, it.cur)->arrival < a->arrival)
		{
			before = it.cur;
			break;
		}
	}
	if (before)
		dlist_insert_after(before, &a->node);
	else
		dlist_push_head(&aside, &a->node);
	n_aside++;
	mark_aside(item->entry, true);
	item->answered = true;		/* not now */
	item->aside = false;		/* the copy has another owner */
}

/* ---- writing ------------------------------------------------------------------------- */

static int
item_cmp(const void *x, const void *y)
{
	const BatchItem *a = x,
			   *b = y;

	if (a->entry->stream != b->entry->stream)
		return a->entry->stream < b->entry->stream ? -1 : 1;
	if (a->entry->shard != b->entry->shard)
		return a->entry->shard < b->entry->shard ? -1 : 1;
	return a->arrival < b->arrival ? -1 : a->arrival > b->arrival;
}

/* Something older of the item's shard waits aside. */
static bool
older_waits(const BatchItem *item)
{
	dlist_iter	it;

	dlist_foreach(it, &aside)
	{
		const Aside *a = dlist_container(Aside, node, it.cur);

		if (a->arrival > item->arrival)
			return false;
		if (same_shard(a->entry, item->entry))
			return true;
	}
	return false;
}

static bool
shard_is_marked(const FlIngestEntry *entry)
{
	FlShard    *shard = fl_shard_find(entry->stream, entry->shard);

	return shard != NULL && shard->left_aside;
}

/*
 * The shard of a written batch is free: the rest of it may come at once.  The
 * mark is taken off here also when a predecessor of this process left it.
 */
static void
note_free(const FlIngestEntry *entry)
{
	dlist_iter	it;
	bool		more = false;

	dlist_foreach(it, &aside)
	{
		Aside	   *a = dlist_container(Aside, node, it.cur);

		if (same_shard(a->entry, entry))
		{
			a->held = false;
			more = true;
		}
	}
	if (!more)
		mark_aside(entry, false);
}

static void
write_item(FlShard *shard, BatchItem *item)
{
	/* In the ring; ours until the door may reuse it. */
	item->err = fl_turn_write(shard, item->entry, (uint8 *) fl_ring_body(item->entry), fl_ring_events(item->entry),
							  &item->written);
}

/*
 * Items first .. end - 1 are of one shard.  Its lock comes first, for what holds of the
 * stream, and of its mounts, is known only then.
 */
static void
write_shard(int first, int end)
{
	const FlIngestEntry *e = items[first].entry;
	const FlStreamInfo *info = fl_stream_lookup(e->stream);
	FlShard    *shard = NULL;
	bool		locked = false;
	uint32		failed_doors = 0;

	if (info != NULL && e->shard >= 0 && e->shard < info->shards)
	{
		shard = fl_shard_open(e->stream, e->shard, info->durability == FL_DURABILITY_QUORUM);
		/* A segment that DDL has locked is as good as a held shard: nobody waits for it here. */
		locked = fl_shard_lock(shard, FL_LOCK_NOWAIT) && !fl_log_is_blocked(shard);
		info = fl_stream_lookup(e->stream);
	}
	for (int i = first; i < end; i++)
	{
		BatchItem  *item = &items[i];

		item->err = FL_ERR_NONE;
		item->written.base = -1;
		item->returned = (failed_doors & (1u << item->door)) != 0 || is_behind_failure(item);
		if (item->returned)
			continue;
		if (older_waits(item))
		{
			item->err = FL_ERR_SHARD_BUSY;
			continue;
		}
		item->err = fl_turn_check(item->entry, info);
		if (item->err == FL_ERR_NONE && !locked)
		{
			item->err = FL_ERR_SHARD_BUSY;
			continue;
		}
		if (item->err == FL_ERR_NONE)
			write_item(shard, item);
		if (is_failure(item))
			failed_doors |= 1u << item->door;
	}
}

/* Items first .. last - 1, sorted; those of a held shard are left aside. */
static void
write_items(int first, int last)
{
	for (int i = first; i < last;)
	{
		int			end = i + 1;

		while (end < last && same_shard(items[end].entry, items[i].entry))
			end++;
		write_shard(i, end);
		i = end;
	}
}

/* Errors that say nothing about the batch. */
static bool
is_bad_luck(int sqlstate)
{
	return sqlstate == ERRCODE_QUERY_CANCELED || sqlstate == ERRCODE_LOCK_NOT_AVAILABLE ||
		sqlstate == ERRCODE_OBJECT_IN_USE ||
		ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_TO_CATEGORY(ERRCODE_T_R_SERIALIZATION_FAILURE);
}

/* One transaction over items first .. last - 1.  Returns 0, or the SQLSTATE. */
static int
try_turn(int first, int last)
{
	volatile int sqlstate = 0;

	PG_TRY();
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		MemoryContextSwitchTo(turn_mcxt);
		fl_turn_begin();
		write_items(first, last);
		fl_turn_finish();
		took_xid |= TransactionIdIsValid(GetTopTransactionIdIfAny());
		FL_STOP_POINT("appender_after_write");
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(turn_mcxt);
		sqlstate = geterrcode();
		took_xid |= TransactionIdIsValid(GetTopTransactionIdIfAny());
		if (!is_bad_luck(sqlstate))
			EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		FL_COUNT(FL_C_ERRORS, 1);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(turn_mcxt);
	return sqlstate;
}

/*
 * Bad luck strikes all of them, but a lock is waited for by one shard: where there are
 * several batches it is found by halves, so that the others do not wait with it.
 */
static bool
leaves_all_aside(int sqlstate, int n)
{
	return is_bad_luck(sqlstate) && (sqlstate != ERRCODE_LOCK_NOT_AVAILABLE || n == 1);
}

static void
answer_and_go_on(BatchItem *item)
{
	if (item->aside || shard_is_marked(item->entry))
		note_free(item->entry);
	answer(item);
}

static void
run_items(int first, int last)
{
	int			sqlstate = try_turn(first, last);

	if (sqlstate == 0)
	{
		FL_STOP_POINT("appender_after_commit");
		for (int i = first; i < last; i++)
		{
			if (items[i].err == FL_ERR_SHARD_BUSY)
				leave_aside(&items[i]);
			else
				answer_and_go_on(&items[i]);
		}
		return;
	}
	if (leaves_all_aside(sqlstate, last - first))
	{
		for (int i = first; i < last; i++)
		{
			items[i].err = sqlstate == ERRCODE_LOCK_NOT_AVAILABLE ? FL_ERR_SHARD_BUSY : FL_ERR_NONE;
			leave_aside(&items[i]);
		}
		return;
	}
	if (last - first == 1)
	{
		items[first].err = fl_error_from_sqlstate(sqlstate);
		items[first].written.base = -1;
		answer_and_go_on(&items[first]);
		FL_STOP_POINT("appender_after_failure");
		return;
	}
	run_items(first, first + (last - first) / 2);
	run_items(first + (last - first) / 2, last);
}

/* Everything that was taken is answered: a successor may go on from here. */
static void
settle(void)
{
	if (n_aside > 0 || !dlist_is_empty(&late))
		return;
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		fl_ring_in_doubt(door, false);
}

static void
run_turn(void)
{
	bool		flush;

	MemoryContextReset(turn_mcxt);
	MemoryContextSwitchTo(turn_mcxt);
	qsort(items, n_items, sizeof(BatchItem), item_cmp);
	took_xid = false;
	fl_worker_die_at_once = false;
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		if (touched[door])
			fl_ring_in_doubt(door, true);
	flush = fl_flush_is_quick();
	fl_flush_by_myself = flush;
	run_items(0, n_items);
	fl_flush_by_myself = false;
	for (int i = 0; i < n_items; i++)
		if (items[i].aside)
			pfree((void *) items[i].entry);
	/* One change of process less than by the flusher, while the disk is quick. */
	if (flush)
		fl_flush_pass();
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		if (touched[door])
		{
			fl_ring_consumed(door, cursor[door]);
			fl_worker_wake(FL_WORKER_FRONT_DOOR, door);
		}
	settle();
	/* It only found the shards held: others may have the token. */
	if (!took_xid)
		fl_budget_give_back();
	FL_COUNT(FL_C_TURNS, 1);
	pgstat_report_stat(false);
}

/* ---- main ------------------------------------------------------------------------------ */

static void
set_session(void)
{
	SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	/* A row that somebody locked must not hold up a fleet: no parallel, no JIT either. */
	SetConfigOption("jit", "off", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("max_parallel_workers_per_gather", "0", PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * The budget is used up: batches gather meanwhile.  A latch counts in
 * milliseconds, which is as long as the whole wait, so the rest is slept.
 */
static void
wait_for_token(long wait_us)
{
	if (wait_us >= 2000)
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1, PG_WAIT_EXTENSION);
	else
		pg_usleep(wait_us);
}

/* At shutdown doors hand over what they have; write it before we go. */
static bool
may_leave(TimestampTz *since)
{
	TimestampTz now = GetCurrentTimestamp();

	if (*since == 0)
		*since = now;
	if (TimestampDifferenceExceeds(*since, now, FL_SHUTDOWN_GRACE_MS))
		return true;
	return pg_atomic_read_u32(&fl_shared->doors_alive) == 0 && !rings_have_work();
}

static void
make_failures(void)
{
	HASHCTL		ctl = {.keysize = sizeof(FailureKey),.entrysize = sizeof(Failure),.hcxt = keep_mcxt};

	failures = hash_create("fleetlog failed batches", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

void
fl_main_appender(Datum arg)
{
	TimestampTz stopping = 0;
	uint64		unused;

	fl_worker_begin(FL_WORKER_APPENDER, 0, true);
	set_session();
	turn_mcxt = AllocSetContextCreate(TopMemoryContext, "fleetlog appender turn", ALLOCSET_DEFAULT_SIZES);
	keep_mcxt = AllocSetContextCreate(TopMemoryContext, "fleetlog appender aside", ALLOCSET_DEFAULT_SIZES);
	make_failures();
	fl_aside_start();
	fl_ring_appender_start();
	my_generation = (uint32) fl_ring_appender_generation(0, &unused);
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		cursor[door] = fl_ring_read_position(door);

	while (!fl_worker_should_stop() || !may_leave(&stopping))
	{
		bool		fresh;
		long		wait_us = 0;

		fl_worker_turn();
		if (!dlist_is_empty(&late))
		{
			send_late_answers();
			settle();
		}
		fresh = rings_have_work();
		if (fresh || n_aside > 0)
			wait_us = fl_budget_take();
		if (wait_us > 0)
		{
			wait_for_token(wait_us);
			continue;
		}
		if (fresh || n_aside > 0)
		{
			int			before = n_aside;

			gather();
			run_turn();
			fl_worker_set_state(n_aside > 0 ? "running: %d batches wait for a shard held by SQL" : "running", n_aside);
			/* Nothing but held shards: wait for a release. */
			if (n_aside > 0 && n_aside >= before && !rings_have_work())
				fl_worker_wait(ASIDE_RETRY_MS);
			continue;
		}
		fl_worker_wait(!dlist_is_empty(&late) ? ASIDE_RETRY_MS : stopping ? 10 : 10000);
	}
	proc_exit(0);
}
