/*-------------------------------------------------------------------------
 *
 * keeper.c
 *		The keeper: creates segments ahead of need, freezes, watches the disk, and
 *		lets retention do its work (retention.c).
 *
 * It is also the worker that looks for the extension first, and notices when it
 * is dropped: the launcher keeps all others away until it is there.
 *
 * Every piece of work is a transaction of its own with a short lock timeout and
 * ends with its error in the log if it fails; a locked or broken stream then
 * waits for its next turn, all others are looked after.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log.h"
#include "fleetlog/log_tail.h"
#include "fleetlog/loop.h"
#include "fleetlog/session.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "fleetlog/state.h"
#include "fleetlog/worker.h"
#include "worker_internal.h"

#define TURN_MS			1000
#define FREEZE_MS		30000
#define MIN_GAP_MS		50		/* writers ask at each batch while their leaf is more than half full */
#define LOCK_TIMEOUT	"500ms"

static uint64 segments_made = 0;
static MemoryContext turn_context;

PGDLLEXPORT void fl_main_keeper(Datum arg);

/* ---- guarded transactions -------------------------------------------------------- */

/*
 * Run a piece of work in a transaction.  An error is logged and counted, and
 * the keeper goes on.
 */
static bool
in_transaction(void (*work) (Oid), Oid arg)
{
	volatile bool ok = true;

	fl_worker_die_at_once = true;
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		work(arg);
		if (ActiveSnapshotSet())
			PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		FL_COUNT(FL_C_ERRORS, 1);
		RESUME_INTERRUPTS();
		ok = false;
	}
	PG_END_TRY();
	fl_worker_die_at_once = false;
	MemoryContextSwitchTo(turn_context);
	return ok;
}

/* ---- segments ---------------------------------------------------------------------- */

static void
create_next(const FlStreamInfo *stream, int32 number, int64 lower, int64 tail, Oid last)
{
	double		rate = 0;
	double		record_bytes = 0;

	if (OidIsValid(last))
		fl_log_segment_rate(stream, last, tail, &rate, &record_bytes);
	(void) fl_segment_create_next(stream->relid, number, lower, rate, record_bytes);
	segments_made++;
}

/*
 * The next segment is made when the one that holds the tail is half full, so
 * that an appender never has to wait for one; where the tail has no segment at
 * all it is made at once.
 */
static void
look_after_shard(const FlStreamInfo *stream, int32 number)
{
	FlShard    *shard = fl_shard_find(stream->relid, number);
	FlSegment	seg;
	FlSegment	next;
	int64		tail;

	/* Nobody has written to it since server start. */
	if (shard == NULL)
		return;
	tail = (int64) pg_atomic_read_u64(&shard->visible_tail);
	if (!fl_segment_find(stream->relid, number, tail, &seg))
	{
		int			n = 0;
		const FlSegment *list = fl_segment_list(stream->relid, number, &n);

		create_next(stream, number, tail, tail, n > 0 && list[n - 1].upper <= tail ? list[n - 1].leaf : InvalidOid);
		shard->want_segment = false;
		return;
	}
	if (!shard->want_segment && tail - seg.lower < (seg.upper - seg.lower) / 2)
		return;
	if (!fl_segment_find(stream->relid, number, seg.upper, &next))
		create_next(stream, number, seg.upper, tail, seg.leaf);
	shard->want_segment = false;
}

/* The stream that is being looked after, copied. */
static FlStreamInfo stream;

static void
look_after_stream(Oid relid)
{
	const FlStreamInfo *info = fl_stream_lookup(relid);

	stream.relid = InvalidOid;
	if (info == NULL)
		return;
	/* The cache may be rebuilt by the DDL below. */
	stream = *info;
	stream.schema = stream.name = NULL;
	for (int i = 0; i < stream.shards; i++)
		look_after_shard(&stream, i);
}

/* ---- disk reserve -------------------------------------------------------------------- */

static void
watch_disk(void)
{
	int64		least = fl_disk_reserve_look();

	if (fl_disk_reserve_reached())
		fl_worker_set_state("disk reserve reached: " INT64_FORMAT " MB free", least);
	else
		fl_worker_set_state("running");
}

/* ---- the loop --------------------------------------------------------------------------- */

static bool extension_gone = false;

/* The list is copied: the work on one stream may rebuild the cache. */
static Oid *stream_oids = NULL;
static int	stream_count = 0;

static void
want_state_worker(void)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);

	for (int i = 0; i < n; i++)
		if (OidIsValid(mounts[i].state) || strcmp(mounts[i].prefix, FL_SHADOW_PREFIX) == 0)
			fl_state_want_worker();
}

static void
load_streams(Oid unused)
{
	const Oid  *list;

	stream_count = 0;
	extension_gone = !fl_extension_exists();
	if (extension_gone)
		return;
	fl_catalog_refresh();
	want_state_worker();
	fl_loop_want_runner();
	list = fl_stream_list(&stream_count);
	stream_oids = MemoryContextAlloc(turn_context, sizeof(Oid) * Max(stream_count, 1));
	if (stream_count > 0)
		memcpy(stream_oids, list, sizeof(Oid) * stream_count);
}

static void
each_stream(void (*work) (Oid))
{
	for (int i = 0; i < stream_count && !fl_worker_should_stop(); i++)
	{
		fl_worker_turn();
		in_transaction(work, stream_oids[i]);
	}
}

/* Retention's steps are transactions of their own. */
static void
look_after_streams(void)
{
	for (int i = 0; i < stream_count && !fl_worker_should_stop(); i++)
	{
		fl_worker_turn();
		if (in_transaction(look_after_stream, stream_oids[i]) && OidIsValid(stream.relid))
			fl_retention_run(&stream);
	}
	fl_retention_end_turn();
}

/*
 * Until the next turn is due or a writer asks, but never so often that looking
 * at all streams costs more than the writing.  After a segment was made the
 * next question is answered at once: a narrow one may be full in no time.
 */
static void
rest(void)
{
	static uint64 seen = 0;

	if (segments_made == seen)
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, MIN_GAP_MS, PG_WAIT_EXTENSION);
	seen = segments_made;
	fl_worker_wait(TURN_MS);
}

static void
leave_without_extension(void)
{
	char		reason[160];

	snprintf(reason, sizeof(reason), "extension \"fleetlog\" was dropped from database \"%s\"", fl_database);
	fl_worker_exit_dormant(reason, "Run CREATE EXTENSION fleetlog there, or set fleetlog.database to another one.");
}

void
fl_main_keeper(Datum arg)
{
	int64		last_freeze;

	fl_worker_begin(FL_WORKER_KEEPER, 0, true);
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	/* Nothing it commits is worth waiting for the disk; locks go the sooner. */
	SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
	turn_context = AllocSetContextCreate(TopMemoryContext, "fleetlog keeper turn", ALLOCSET_DEFAULT_SIZES);
	last_freeze = fl_monotonic_us();
	while (!fl_worker_should_stop())
	{
		MemoryContextReset(turn_context);
		MemoryContextSwitchTo(turn_context);
		fl_worker_turn();
		FL_COUNT(FL_C_TURNS, 1);
		FL_STOP_POINT("keeper_turn");
		watch_disk();
		if (in_transaction(load_streams, InvalidOid) && extension_gone)
			leave_without_extension();
		fl_sessions_keep();
		look_after_streams();
		if (fl_monotonic_us() - last_freeze >= FREEZE_MS * INT64CONST(1000))
		{
			each_stream(fl_log_freeze_stream);
			last_freeze = fl_monotonic_us();
		}
		pgstat_report_stat(false);
		rest();
	}
	proc_exit(0);
}
