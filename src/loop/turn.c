/*-------------------------------------------------------------------------
 *
 * turn.c
 *		What the runner does in one pass over all loops, and when it has to look again.
 *
 *		each loop:	responses, also of shadow models ─► requests whose time is over ─► each shard: answers, readings
 *
 * Each step is a transaction of its own and ends with its error in the log, if it has
 * one; the others are looked after.  An error at a shard is also noted with it, and
 * tried again every second; one of the policy stops the shard (decide.c).
 *
 * A step is taken when a durable tail has moved, when the clock says so, when the
 * configuration has changed, and every few seconds for what a lost wake-up has left.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "fleetlog/config.h"
#include "fleetlog/log_tail.h"
#include "fleetlog/loop.h"
#include "fleetlog/shmem.h"
#include "fleetlog/worker.h"
#include "loop_internal.h"

#define LOOK_MS			5000
#define RETRY_MS		1000	/* after an error */
#define BUSY_MS			100		/* a row that another transaction holds */
#define EXPIRY_MS		1000	/* requests may be leased, and then have another end, without our knowing */
#define INTAKE			500		/* responses of a transaction */

typedef struct Shard
{
	FlShard    *shared;
	int64		seen;			/* durable tail, -1: look anyway */
	bool		is_new;			/* readings that wait for no request are looked for */
	int64		retry_at;		/* by now_ms(), 0: not */
} Shard;

typedef struct Loop
{
	char	   *name;
	Oid			source;
	Oid			responses;
	int32		nsource;
	int32		nresponses;
	Shard	   *source_shards;
	Shard	   *response_shards;
	List	   *shadow_shards;	/* of FlShard: answers of its shadow models */
	int64		shadows_seen;	/* sum of their durable tails, -1: look anyway */
	int64		shadows_retry_at;	/* by now_ms(), 0: not */
	int64		next_expiry;	/* by now_ms() */
} Loop;

static MemoryContext loops_context = NULL;
static Loop *loops = NULL;
static int	nloops = 0;
static int	nstopped = 0;
static uint64 seen_generation = 0;
static int64 next_look = 0;
static long wait_ms;			/* of this pass */

static int64
now_ms(void)
{
	return fl_monotonic_us() / 1000;
}

static void
look_within(long ms)
{
	wait_ms = Min(wait_ms, Max(ms, 0));
}

/* ---- transactions --------------------------------------------------------------------- */

static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
commit(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* In PG_CATCH.  Returns the message. */
static char *
absorb(MemoryContext mcxt)
{
	ErrorData  *e;

	MemoryContextSwitchTo(mcxt);
	e = CopyErrorData();
	fl_worker_absorb_error(mcxt);
	FL_COUNT(FL_C_ERRORS, 1);
	look_within(RETRY_MS);
	return fl_loop_describe_error(e);
}

/* ---- what loops there are ---------------------------------------------------------------- */

static Shard *
make_shards(Oid stream, int32 n, bool quorum)
{
	Shard	   *shards = MemoryContextAllocZero(loops_context, sizeof(Shard) * Max(n, 1));

	for (int32 i = 0; i < n; i++)
	{
		shards[i].shared = fl_shard_open(stream, i, quorum);
		shards[i].seen = -1;
		shards[i].is_new = true;
	}
	return shards;
}

static void
on_loop(void *arg, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	Oid			source = DatumGetObjectId(SPI_getbinval(tuple, desc, 2, &isnull));
	Oid			responses = DatumGetObjectId(SPI_getbinval(tuple, desc, 3, &isnull));
	const FlStreamInfo *info = fl_stream_lookup(source);
	const FlStreamInfo *other = fl_stream_lookup(responses);
	Loop	   *loop;

	if (info == NULL || other == NULL)
		return;
	loop = &loops[nloops++];
	memset(loop, 0, sizeof(*loop));
	loop->name = MemoryContextStrdup(loops_context, TextDatumGetCString(SPI_getbinval(tuple, desc, 1, &isnull)));
	loop->source = source;
	loop->responses = responses;
	loop->shadows_seen = -1;
	loop->nsource = info->shards;
	loop->nresponses = other->shards;
	loop->source_shards = make_shards(source, info->shards, info->durability == FL_DURABILITY_QUORUM);
	loop->response_shards = make_shards(responses, other->shards, other->durability == FL_DURABILITY_QUORUM);
}

static void
on_shadow(void *arg, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	char	   *name = TextDatumGetCString(SPI_getbinval(tuple, desc, 1, &isnull));
	Oid			stream = DatumGetObjectId(SPI_getbinval(tuple, desc, 2, &isnull));
	const FlStreamInfo *info = fl_stream_lookup(stream);
	MemoryContext old;

	if (info == NULL)
		return;
	old = MemoryContextSwitchTo(loops_context);
	for (int i = 0; i < nloops; i++)
		for (int32 s = 0; s < info->shards && strcmp(loops[i].name, name) == 0; s++)
			loops[i].shadow_shards = lappend(loops[i].shadow_shards, fl_shard_open(stream, s, info->durability == FL_DURABILITY_QUORUM));
	MemoryContextSwitchTo(old);
}

static void
load_loops(MemoryContext mcxt)
{
	uint64		generation = pg_atomic_read_u64(&fl_shared->catalog_generation);
	bool		isnull;
	int64		n;

	if (loops_context == NULL)
		loops_context = AllocSetContextCreate(TopMemoryContext, "fleetlog loops", ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(loops_context);
	nloops = 0;
	loops = NULL;
	begin();
	(void) fl_config_query_int("SELECT fleetlog._loop_add_shards()", 0, NULL, NULL, &isnull);
	n = fl_config_query_int("SELECT count(*) FROM fleetlog.loop_config", 0, NULL, NULL, &isnull);
	nstopped = (int) fl_config_query_int("SELECT count(*) FROM fleetlog.loop_position o WHERE o.error IS NOT NULL", 0, NULL, NULL, &isnull);
	loops = MemoryContextAlloc(loops_context, sizeof(Loop) * Max(n, 1));
	fl_config_query("SELECT l.loop, l.source::oid, l.responses::oid FROM fleetlog.loop_config l ORDER BY l.loop", 0, NULL, NULL, on_loop, NULL);
	fl_config_query("SELECT s.loop, s.responses::oid FROM fleetlog.shadow_model_config s", 0, NULL, NULL, on_shadow, NULL);
	commit();
	MemoryContextSwitchTo(mcxt);
	seen_generation = generation;
	next_look = now_ms() + LOOK_MS;
}

/* False: it has moved, or is to be looked at anyway. */
static bool
is_quiet(Shard *shard, int64 now)
{
	if (shard->retry_at != 0)
	{
		if (now < shard->retry_at)
		{
			look_within(shard->retry_at - now);
			return true;
		}
		return false;
	}
	return fl_shard_durable_tail(shard->shared) == shard->seen;
}

/* ---- steps of a loop -------------------------------------------------------------------- */

static int64
run_step(const char *sql, Loop *loop, int32 arg, bool *isnull)
{
	Oid			types[2] = {TEXTOID, INT4OID};
	Datum		values[2];
	int64		n;

	begin();
	values[0] = CStringGetTextDatum(loop->name);
	values[1] = Int32GetDatum(arg);
	n = fl_config_query_int(sql, 2, types, values, isnull);
	FL_STOP_POINT("loop_step_before_commit");
	commit();
	FL_STOP_POINT("loop_step_after_commit");
	return n;
}

static void
look_at_all_shards(Loop *loop)
{
	for (int32 i = 0; i < loop->nsource; i++)
		loop->source_shards[i].seen = -1;
}

static void
take_responses(Loop *loop, int32 number)
{
	Shard	   *shard = &loop->response_shards[number];
	int64		tail = fl_shard_durable_tail(shard->shared);
	bool		isnull;
	int64		n = run_step("SELECT fleetlog._loop_intake($1, $2, " CppAsString2(INTAKE) ")", loop, number, &isnull);

	shard->retry_at = 0;
	if (n != 0)
		look_at_all_shards(loop);
	if (n < 0)
		shard->retry_at = now_ms() + BUSY_MS;
	shard->seen = n == INTAKE ? -1 : tail;
	if (n == INTAKE)
		look_within(0);
}

static void
take_shadow_answers(Loop *loop)
{
	int64		sum = 0;
	bool		isnull;
	ListCell   *lc;

	if (now_ms() < loop->shadows_retry_at)
	{
		look_within(loop->shadows_retry_at - now_ms());
		return;
	}
	loop->shadows_retry_at = 0;
	foreach(lc, loop->shadow_shards)
		sum += fl_shard_durable_tail(lfirst(lc));
	if (sum == loop->shadows_seen)
		return;
	loop->shadows_seen = sum;
	/* Until nothing is found: one call takes so many of each shard. */
	if (run_step("SELECT fleetlog._shadow_intake($1, $2)", loop, INTAKE, &isnull) > 0)
	{
		loop->shadows_seen = -1;
		look_within(0);
	}
}

static void
end_expired(Loop *loop, int64 now)
{
	bool		isnull;
	int64		ms;

	if (run_step("SELECT fleetlog._loop_expire($1, $2)", loop, 100, &isnull) > 0)
		look_within(0);
	/* Never: nothing is pending.  A shard that asks sets it again. */
	ms = run_step("SELECT fleetlog._loop_expiry_ms($1, $2)", loop, 0, &isnull);
	loop->next_expiry = isnull ? PG_INT64_MAX : now + Min(Max(ms, 1), EXPIRY_MS);
}

/* One transaction at a shard of the source. */
static void
advance(Loop *loop, int32 number, FlLoopTurn *t)
{
	Shard	   *shard = &loop->source_shards[number];
	int64		tail = fl_shard_durable_tail(shard->shared);
	bool		busy;

	begin();
	MemoryContextSwitchTo(t->mcxt);
	if (!fl_loop_load(t, shard->is_new, &busy))
	{
		commit();
		shard->seen = tail;
		shard->retry_at = busy ? now_ms() + BUSY_MS : 0;
		return;
	}
	if (t->answers != NIL || t->orphans != NIL || t->readings != NIL || t->next_position != t->position)
	{
		fl_loop_decide(t);
		fl_loop_store(t);
	}
	else
		fl_loop_clear_error(t->loop, t->shard);
	FL_STOP_POINT("loop_before_commit");
	commit();
	FL_STOP_POINT("loop_after_commit");
	FL_COUNT(FL_C_RECORDS, t->nread);
	/* Readings may wait for nothing but the next turn. */
	shard->is_new = t->cut_short || t->has_more;
	shard->retry_at = 0;
	shard->seen = tail;
	if (t->error)
		nstopped++;
	else if ((t->nread > 0 && t->next_position < t->tail) || list_length(t->answers) == FL_LOOP_ANSWERS ||
			 list_length(t->answered) < list_length(t->answers) || t->cut_short || t->has_more)
	{
		shard->seen = -1;
		look_within(0);
	}
	if (t->nrequests > 0)
		loop->next_expiry = 0;
}

/* ---- error boundaries ---------------------------------------------------------------------- */

static void
try_responses(Loop *loop, int32 number, MemoryContext mcxt)
{
	PG_TRY();
	{
		take_responses(loop, number);
	}
	PG_CATCH();
	{
		(void) absorb(mcxt);
		loop->response_shards[number].retry_at = now_ms() + RETRY_MS;
	}
	PG_END_TRY();
}

static void
try_shadow_answers(Loop *loop, MemoryContext mcxt)
{
	PG_TRY();
	{
		take_shadow_answers(loop);
	}
	PG_CATCH();
	{
		(void) absorb(mcxt);
		loop->shadows_seen = -1;
		loop->shadows_retry_at = now_ms() + RETRY_MS;
	}
	PG_END_TRY();
}

static void
try_expiry(Loop *loop, int64 now, MemoryContext mcxt)
{
	PG_TRY();
	{
		end_expired(loop, now);
	}
	PG_CATCH();
	{
		(void) absorb(mcxt);
		loop->next_expiry = now_ms() + RETRY_MS;
	}
	PG_END_TRY();
}

static void
try_note_error(Loop *loop, int32 number, const char *error, MemoryContext mcxt)
{
	PG_TRY();
	{
		begin();
		fl_loop_note_error(loop->name, number, error, -1);
		commit();
	}
	PG_CATCH();
	{
		(void) absorb(mcxt);
	}
	PG_END_TRY();
}

/* A policy that only the end of the last runner has ended: not again, before somebody has looked at it. */
static void
stop_stuck(MemoryContext mcxt)
{
	char	   *loop;
	int32		shard;
	int64		log_offset;

	if (!fl_loop_was_stuck(&loop, &shard, &log_offset))
		return;
	PG_TRY();
	{
		begin();
		fl_loop_note_error(loop, shard, "57014: the policy did not end when it was canceled after fleetlog.loop_policy_timeout", log_offset);
		commit();
		fl_loop_forget_stuck();
	}
	PG_CATCH();
	{
		(void) absorb(mcxt);
	}
	PG_END_TRY();
}

static void
try_advance(Loop *loop, int32 number, MemoryContext mcxt)
{
	MemoryContext shard_context = AllocSetContextCreate(mcxt, "fleetlog loop shard", ALLOCSET_DEFAULT_SIZES);
	FlLoopTurn *t = MemoryContextAllocZero(shard_context, sizeof(FlLoopTurn));
	char	   *volatile error = NULL;

	t->mcxt = shard_context;
	t->loop = loop->name;
	t->shard = number;
	PG_TRY();
	{
		advance(loop, number, t);
	}
	PG_CATCH();
	{
		error = absorb(mcxt);
		loop->source_shards[number].retry_at = now_ms() + RETRY_MS;
		/* An error may have been that of something half done. */
		loop->source_shards[number].is_new = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(mcxt);
	MemoryContextDelete(shard_context);
	if (error)
		try_note_error(loop, number, error, mcxt);
}

static bool
try_load(MemoryContext mcxt)
{
	volatile bool ok = false;

	PG_TRY();
	{
		load_loops(mcxt);
		ok = true;
	}
	PG_CATCH();
	{
		(void) absorb(mcxt);
		nloops = 0;
		next_look = 0;
	}
	PG_END_TRY();
	return ok;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void
run_loop(Loop *loop, MemoryContext mcxt)
{
	int64		now = now_ms();

	for (int32 i = 0; i < loop->nresponses && !fl_worker_should_stop(); i++)
		if (!is_quiet(&loop->response_shards[i], now))
			try_responses(loop, i, mcxt);
	if (loop->shadow_shards != NIL)
		try_shadow_answers(loop, mcxt);
	if (now >= loop->next_expiry)
		try_expiry(loop, now, mcxt);
	for (int32 i = 0; i < loop->nsource && !fl_worker_should_stop(); i++)
	{
		fl_worker_turn();
		if (!is_quiet(&loop->source_shards[i], now))
			try_advance(loop, i, mcxt);
	}
	if (loop->next_expiry != PG_INT64_MAX)
		look_within(loop->next_expiry == 0 ? 0 : Max(0, loop->next_expiry - now_ms()));
}

long
fl_loop_turn(MemoryContext mcxt)
{
	wait_ms = LOOK_MS;
	stop_stuck(mcxt);
	if (now_ms() >= next_look || pg_atomic_read_u64(&fl_shared->catalog_generation) != seen_generation)
		if (!try_load(mcxt))
			return wait_ms;
	for (int i = 0; i < nloops && !fl_worker_should_stop(); i++)
	{
		fl_worker_turn();
		run_loop(&loops[i], mcxt);
	}
	return wait_ms;
}

void
fl_loop_figures(int *count, int *stopped)
{
	*count = nloops;
	*stopped = nstopped;
}
