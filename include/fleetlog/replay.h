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

/* Shared memory: how far replays are. */
extern Size fl_replay_shmem_size(void);
extern void fl_replay_shmem_init(void);

#endif							/* FLEETLOG_REPLAY_H */
