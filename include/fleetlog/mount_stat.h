/*-------------------------------------------------------------------------
 *
 * mount_stat.h
 *		Counters per mount, in shared memory, for the view fleetlog.stat_mount.
 *
 * They are kept by prefix: a mount that is made anew under the same prefix goes
 * on counting.  There are FL_MAX_MOUNT_STATS of them; mounts beyond are served
 * all the same but not counted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_MOUNT_STAT_H
#define FLEETLOG_MOUNT_STAT_H

#include "port/atomics.h"

#include "fleetlog/catalog.h"

#define FL_MAX_MOUNT_STATS	1024

typedef struct FlMountStat
{
	char		prefix[FL_PREFIX_MAX + 1];	/* hash key: must come first */
	pg_atomic_uint64 messages_in;	/* handed to the log */
	pg_atomic_uint64 bytes_in;	/* payload bytes of these */
	pg_atomic_uint64 refused;	/* refused after the mount was found */
	pg_atomic_uint64 messages_out;	/* delivered or queued to subscribers */
	pg_atomic_uint64 bytes_out;
} FlMountStat;

/* Counters of a mount, made when first asked for; NULL: none left.  No transaction. */
extern FlMountStat *fl_mount_stat(const FlMount *mount);

/* Payload bytes that all mounts took and delivered since server start. */
extern void fl_mount_totals(uint64 *bytes_in, uint64 *bytes_out);

#endif							/* FLEETLOG_MOUNT_STAT_H */
