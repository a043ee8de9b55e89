/*-------------------------------------------------------------------------
 *
 * clock.c
 *		The append clock and the transaction budget of the workers.
 *
 * The append clock is one for the server, so that times never step back within
 * a shard whoever writes next, and is carried over restarts by the tails: each
 * shard that is opened raises it to its last append time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "portability/instr_time.h"
#include "utils/timestamp.h"

#include "fleetlog/settings.h"
#include "shmem_internal.h"

TimestampTz
fl_wall_now(void)
{
	return GetCurrentTimestamp() + (int64) fl_clock_offset_ms * 1000;
}

int64
fl_monotonic_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

TimestampTz
fl_clock_now(void)
{
	TimestampTz now = fl_wall_now();
	uint64		last = pg_atomic_read_u64(&fl_shared->append_clock);

	for (;;)
	{
		/* Times before 2000 are negative: compare as signed. */
		if ((TimestampTz) last >= now)
			return (TimestampTz) last;
		if (pg_atomic_compare_exchange_u64(&fl_shared->append_clock, &last, (uint64) now))
			return now;
	}
}

TimestampTz
fl_clock_tick(void)
{
	TimestampTz now = fl_wall_now();
	uint64		last = pg_atomic_read_u64(&fl_shared->append_clock);

	for (;;)
	{
		TimestampTz next = Max(now, (TimestampTz) last + 1);

		if (pg_atomic_compare_exchange_u64(&fl_shared->append_clock, &last, (uint64) next))
			return next;
	}
}

/*
 * A tail that lies far ahead of the wall clock was imported, or written under a
 * clock that was wrong.  Its own shard follows it, since times never step back
 * there; the clock of all others must not.
 */
#define FAR_AHEAD	USECS_PER_DAY

void
fl_clock_raise(TimestampTz seen)
{
	uint64		last = pg_atomic_read_u64(&fl_shared->append_clock);

	if (TIMESTAMP_NOT_FINITE(seen) || seen > fl_wall_now() + FAR_AHEAD)
		return;
	while ((TimestampTz) last < seen &&
		   !pg_atomic_compare_exchange_u64(&fl_shared->append_clock, &last, (uint64) seen))
		;
}

/*
 * A token bucket that holds at most one second's worth, so that a quiet fleet
 * commits at once and a busy one is stretched to the average.  Returns 0 when
 * a token was taken, else microseconds until there is one.  budget_mutex is held.
 */
static long
take_token(void)
{
	double		rate = fl_max_xids_per_second;
	TimestampTz now = GetCurrentTimestamp();

	if (fl_shared->xids_since == 0)
	{
		fl_shared->xids_since = now;
		fl_shared->budget_at = now;
		fl_shared->budget_tokens = rate;
	}
	if (rate > 0)
	{
		if (now > fl_shared->budget_at)
			fl_shared->budget_tokens += rate * (double) (now - fl_shared->budget_at) / USECS_PER_SEC;
		fl_shared->budget_at = now;
		if (fl_shared->budget_tokens > rate)
			fl_shared->budget_tokens = rate;
		if (fl_shared->budget_tokens < 1)
			return (long) ((1 - fl_shared->budget_tokens) * USECS_PER_SEC / rate) + 1;
		fl_shared->budget_tokens -= 1;
	}
	fl_shared->xids_used++;
	return 0;
}

long
fl_budget_take(void)
{
	long		wait;

	SpinLockAcquire(&fl_shared->budget_mutex);
	wait = take_token();
	fl_shared->budget_awaited = wait > 0;
	SpinLockRelease(&fl_shared->budget_mutex);
	return wait;
}

/* Read without the lock: who asks wants to know roughly. */
bool
fl_budget_is_awaited(void)
{
	return *(volatile bool *) &fl_shared->budget_awaited;
}

bool
fl_budget_try(void)
{
	bool		taken;

	SpinLockAcquire(&fl_shared->budget_mutex);
	taken = !fl_shared->budget_awaited && take_token() == 0;
	SpinLockRelease(&fl_shared->budget_mutex);
	return taken;
}

void
fl_budget_give_back(void)
{
	SpinLockAcquire(&fl_shared->budget_mutex);
	if (fl_max_xids_per_second > 0)
		fl_shared->budget_tokens = Min(fl_shared->budget_tokens + 1, (double) fl_max_xids_per_second);
	if (fl_shared->xids_used > 0)
		fl_shared->xids_used--;
	SpinLockRelease(&fl_shared->budget_mutex);
}
