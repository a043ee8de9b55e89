/*-------------------------------------------------------------------------
 *
 * disk_reserve.c
 *		Space that is left to the server itself (O4): below it nothing new is taken.
 *
 * PostgreSQL stops when the volume of pg_wal is full, so records are refused
 * before.  The keeper looks once a turn, which finds what others put on the volumes,
 * and space that has come back.  Its turn is no measure of what is written
 * meanwhile, though: a fast fleet fills a reserve in less than a second, and a turn that
 * waits for a lock is longer.  Therefore who writes records looks as well, each time
 * WAL has grown by a small part of the reserve since anybody has looked.
 *
 * Called by keeper.c, and by append.c for every batch; there it costs a comparison.
 * No locks: atomics, and of several that look at the same time one tells the log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/statvfs.h>

#include "access/xlogdefs.h"

#include "fleetlog/settings.h"
#include "shmem_internal.h"

/* Writers look again when WAL has grown by this part of the reserve. */
#define LOOK_PART		16

bool
fl_disk_reserve_reached(void)
{
	return fl_core != NULL && pg_atomic_read_u32(&fl_core->disk_reserve) != 0;
}

/* Free space for PostgreSQL in MB, or -1 when it cannot be told. */
static int64
free_mb(const char *path)
{
	struct statvfs st;

	if (statvfs(path, &st) != 0)
		return -1;
	return (int64) ((uint64) st.f_bavail * st.f_frsize / (1024 * 1024));
}

/* Some more has to be free for taking records again, so that it does not flutter. */
static bool
is_reached(int64 least, bool was_reached)
{
	int64		reserve = fl_disk_reserve_mb;

	if (reserve <= 0 || least < 0)
		return false;
	return least < (was_reached ? reserve + reserve / 8 + 1 : reserve);
}

int64
fl_disk_reserve_look(void)
{
	int64		wal = free_mb("pg_wal");
	int64		data = free_mb(".");
	int64		least = wal < 0 ? data : (data < 0 ? wal : Min(wal, data));
	uint32		was = pg_atomic_read_u32(&fl_core->disk_reserve);
	bool		reached = is_reached(least, was != 0);

	if (reached == (was != 0) ||
		!pg_atomic_compare_exchange_u32(&fl_core->disk_reserve, &was, reached ? 1 : 0))
		return least;
	ereport(LOG,
			(errcode(ERRCODE_DISK_FULL),
			 reached ? errmsg("publishes are refused: only " INT64_FORMAT " MB are free, the reserve is %d MB",
							  least, fl_disk_reserve_mb) :
			 errmsg("publishes are taken again: " INT64_FORMAT " MB are free", least),
			 reached ? errhint("Free space on the volume of the data directory or of pg_wal, "
							   "or lower fleetlog.disk_reserve.") : 0));
	return least;
}

void
fl_disk_reserve_wrote(XLogRecPtr end)
{
	uint64		seen;

	if (fl_core == NULL || fl_disk_reserve_mb <= 0)
		return;
	seen = pg_atomic_read_u64(&fl_core->disk_looked_at);
	if (end < seen + (uint64) fl_disk_reserve_mb * 1024 * 1024 / LOOK_PART)
		return;
	/* Whoever comes first looks for all. */
	if (!pg_atomic_compare_exchange_u64(&fl_core->disk_looked_at, &seen, end) || fl_disk_reserve_reached())
		return;
	(void) fl_disk_reserve_look();
	/* It shows what has been found. */
	if (fl_disk_reserve_reached())
		fl_worker_wake(FL_WORKER_KEEPER, 0);
}
