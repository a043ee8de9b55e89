/*-------------------------------------------------------------------------
 *
 * mounts.c
 *		Counters per mount (mount_stat.h) and the function under
 *		fleetlog.stat_mount.
 *
 * Entries are never freed: prefixes are few and a pointer must stay good.  The
 * map is guarded by fl_shared->registry_lock, the counters are atomics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"

#include "fleetlog/compat.h"
#include "fleetlog/mount_stat.h"
#include "shmem_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_mount);

static HTAB *mount_stats = NULL;

Size
fl_mount_stats_size(void)
{
	return hash_estimate_size(FL_MAX_MOUNT_STATS, sizeof(FlMountStat));
}

void
fl_mount_stats_init(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = FL_PREFIX_MAX + 1;
	ctl.entrysize = sizeof(FlMountStat);
	mount_stats = ShmemInitHash("fleetlog mounts", 64, FL_MAX_MOUNT_STATS, &ctl, HASH_ELEM | HASH_STRINGS);
}

static FlMountStat *
enter(const char *prefix)
{
	FlMountStat *stat;
	bool		found;

	LWLockAcquire(fl_shared->registry_lock, LW_EXCLUSIVE);
	stat = hash_search(mount_stats, prefix, HASH_ENTER_NULL, &found);
	if (stat != NULL && !found)
	{
		pg_atomic_init_u64(&stat->messages_in, 0);
		pg_atomic_init_u64(&stat->bytes_in, 0);
		pg_atomic_init_u64(&stat->refused, 0);
		pg_atomic_init_u64(&stat->messages_out, 0);
		pg_atomic_init_u64(&stat->bytes_out, 0);
	}
	LWLockRelease(fl_shared->registry_lock);
	return stat;
}

FlMountStat *
fl_mount_stat(const FlMount *mount)
{
	/* Messages in a row mostly go through one mount. */
	static FlMountStat *last = NULL;
	FlMountStat *stat;

	if (last != NULL && strcmp(last->prefix, mount->prefix) == 0)
		return last;
	LWLockAcquire(fl_shared->registry_lock, LW_SHARED);
	stat = hash_search(mount_stats, mount->prefix, HASH_FIND, NULL);
	LWLockRelease(fl_shared->registry_lock);
	if (stat == NULL)
		stat = enter(mount->prefix);
	last = stat;
	return stat;
}

void
fl_mount_totals(uint64 *bytes_in, uint64 *bytes_out)
{
	HASH_SEQ_STATUS scan;
	FlMountStat *stat;

	*bytes_in = *bytes_out = 0;
	LWLockAcquire(fl_shared->registry_lock, LW_SHARED);
	hash_seq_init(&scan, mount_stats);
	while ((stat = hash_seq_search(&scan)) != NULL)
	{
		*bytes_in += pg_atomic_read_u64(&stat->bytes_in);
		*bytes_out += pg_atomic_read_u64(&stat->bytes_out);
	}
	LWLockRelease(fl_shared->registry_lock);
}

Datum
fl_sql_stat_mount(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	HASH_SEQ_STATUS scan;
	FlMountStat *stat;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	LWLockAcquire(fl_shared->registry_lock, LW_SHARED);
	hash_seq_init(&scan, mount_stats);
	while ((stat = hash_seq_search(&scan)) != NULL)
	{
		Datum		values[6];
		bool		nulls[6] = {0};

		values[0] = CStringGetTextDatum(stat->prefix);
		values[1] = Int64GetDatum((int64) pg_atomic_read_u64(&stat->messages_in));
		values[2] = Int64GetDatum((int64) pg_atomic_read_u64(&stat->bytes_in));
		values[3] = Int64GetDatum((int64) pg_atomic_read_u64(&stat->refused));
		values[4] = Int64GetDatum((int64) pg_atomic_read_u64(&stat->messages_out));
		values[5] = Int64GetDatum((int64) pg_atomic_read_u64(&stat->bytes_out));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	LWLockRelease(fl_shared->registry_lock);
	return (Datum) 0;
}
