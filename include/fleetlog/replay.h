/*-------------------------------------------------------------------------
 *
 * replay.h
 *		What replay of decision loops and data sets share (D3, D6).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_REPLAY_H
#define FLEETLOG_REPLAY_H

#include "fleetlog/catalog.h"

/*
 * The stream, which the caller must be allowed to read whole: raises 42501 where SELECT is not granted,
 * or row-level security restricts it.
 */
extern const FlStreamInfo *fl_replay_stream(Oid stream);

/* How many workers a replay has at most (fleetlog.replay_workers), and from how many readings on (fleetlog.replay_workers_min). */
#define FL_REPLAY_WORKERS_LIMIT 64
extern int	fl_replay_workers;
extern int	fl_replay_workers_min;

/* Shared memory: how far replays are. */
extern Size fl_replay_shmem_size(void);
extern void fl_replay_shmem_init(void);

#endif							/* FLEETLOG_REPLAY_H */
