/*-------------------------------------------------------------------------
 *
 * totals.c
 *		What all front doors have done since server start (totals.h).
 *
 * A total is what the running doors have counted and what those before them had
 * when they ended.  Load is the rate of a counter, smoothed over 1, 5 and 15
 * minutes as load averages of operating systems are; whichever door comes first
 * after the interval takes the sample, so that it does not depend on any of them.
 *
 * Locks: slots_lock for what is kept and for the load, registry_lock for the
 * number of clients; never both at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "fleetlog/totals.h"
#include "shmem_internal.h"

static const double window_s[FL_LOAD_WINDOWS] = {60, 300, 900};

void
fl_totals_init(void)
{
	memset(&fl_core->totals, 0, sizeof(fl_core->totals));
	fl_core->totals.since = GetCurrentTimestamp();
}

/* Does the counter say what there is now, rather than how often something happened? */
static bool
is_level(FlCounter c)
{
	return c == FL_C_CONNECTIONS || c == FL_C_LAGGING || c == FL_C_SUBSCRIPTIONS || c == FL_C_MEMORY;
}

void
fl_totals_keep(const FlWorkerSlot *slot)
{
	if (slot->kind != FL_WORKER_FRONT_DOOR)
		return;
	for (int c = 0; c < FL_N_COUNTERS; c++)
		if (!is_level((FlCounter) c))
			fl_core->totals.past[c] += slot->counters[c];
}

/* slots_lock is held. */
static void
sum_up(uint64 *counters)
{
	memcpy(counters, fl_core->totals.past, sizeof(fl_core->totals.past));
	for (int i = 0; i < FL_MAX_WORKERS; i++)
	{
		const FlWorkerSlot *slot = &fl_shared->slots[i];

		if (slot->kind != FL_WORKER_FRONT_DOOR)
			continue;
		for (int c = 0; c < FL_N_COUNTERS; c++)
			if (slot->pid != 0 || !is_level((FlCounter) c))
				counters[c] += slot->counters[c];
	}
}

static uint64
dropped(const uint64 *counters)
{
	return counters[FL_C_DROPPED_QOS0] + counters[FL_C_DROPPED_TOO_LARGE] + counters[FL_C_LOST_MEMORY];
}

static void
pick(const uint64 *counters, uint64 *picked)
{
	picked[FL_LOAD_CONNECTIONS] = counters[FL_C_LOGINS];
	picked[FL_LOAD_SOCKETS] = counters[FL_C_CONNECTS];
	picked[FL_LOAD_MESSAGES_IN] = counters[FL_C_PACKETS_IN];
	picked[FL_LOAD_MESSAGES_OUT] = counters[FL_C_PACKETS_OUT];
	picked[FL_LOAD_PUBLISH_IN] = counters[FL_C_PUBLISH_IN];
	picked[FL_LOAD_PUBLISH_OUT] = counters[FL_C_PUBLISH_OUT];
	picked[FL_LOAD_DROPPED] = dropped(counters);
	picked[FL_LOAD_BYTES_IN] = counters[FL_C_BYTES_IN];
	picked[FL_LOAD_BYTES_OUT] = counters[FL_C_BYTES_OUT];
}

void
fl_totals_read(FlTotals *totals)
{
	LWLockAcquire(fl_shared->slots_lock, LW_SHARED);
	totals->since = fl_core->totals.since;
	sum_up(totals->counters);
	memcpy(totals->load, fl_core->totals.load, sizeof(totals->load));
	LWLockRelease(fl_shared->slots_lock);
	totals->dropped = dropped(totals->counters);
	LWLockAcquire(fl_shared->registry_lock, LW_SHARED);
	totals->clients = hash_get_num_entries(fl_registry);
	totals->max_clients = fl_core->max_clients;
	LWLockRelease(fl_shared->registry_lock);
}

void
fl_load_sample(int interval_s)
{
	FlTotalsShared *t = &fl_core->totals;
	uint64		counters[FL_N_COUNTERS];
	uint64		now[FL_N_LOADS];
	TimestampTz at = GetCurrentTimestamp();
	double		elapsed;

	LWLockAcquire(fl_shared->slots_lock, LW_EXCLUSIVE);
	elapsed = (double) (at - (t->sampled != 0 ? t->sampled : t->since)) / USECS_PER_SEC;
	/* A clock that was set back makes the sample late, not wrong. */
	if (elapsed < 0)
		t->sampled = at;
	if (elapsed >= interval_s && elapsed > 0)
	{
		sum_up(counters);
		pick(counters, now);
		for (int i = 0; i < FL_N_LOADS; i++)
		{
			double		rate = (double) (now[i] - t->seen[i]) * 60.0 / elapsed;

			for (int w = 0; w < FL_LOAD_WINDOWS; w++)
				t->load[i][w] = rate + exp(-elapsed / window_s[w]) * (t->load[i][w] - rate);
			t->seen[i] = now[i];
		}
		t->sampled = at;
	}
	LWLockRelease(fl_shared->slots_lock);
}
