/*-------------------------------------------------------------------------
 *
 * replay_parallel.h
 *		What a session that replays and its workers share: replay_parallel.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_REPLAY_PARALLEL_H
#define FLEETLOG_REPLAY_PARALLEL_H

#include "storage/condition_variable.h"
#include "storage/proc.h"
#include "storage/sharedfileset.h"
#include "storage/shm_toc.h"
#include "storage/spin.h"
#include "utils/sharedtuplestore.h"

#include "fleetlog/replay.h"
#include "replay_internal.h"

#define FL_REPLAY_MAGIC			0x664c5250
#define FL_REPLAY_MAX_WORKERS	FL_REPLAY_WORKERS_LIMIT
#define FL_REPLAY_MAX_PARTS		64	/* of records, each a buffer of 40 kB in each worker */

/* What stands under which key of the segment. */
enum
{
	FL_REPLAY_KEY_SHARED,
	FL_REPLAY_KEY_LOOP,
	FL_REPLAY_KEY_SETTINGS,
	FL_REPLAY_KEY_RANGES,
	FL_REPLAY_KEY_VERSIONS,
	FL_REPLAY_KEY_PENDING,
	FL_REPLAY_KEY_SHARDS,
	FL_REPLAY_KEY_ROWS = 100,	/* and the number of the worker */
	FL_REPLAY_KEY_MESSAGES = 200,
	FL_REPLAY_KEY_RESPONSES = 300,	/* and the number of the part */
	FL_REPLAY_KEY_RECORDS = 400
};

/* All units of a step are done before the next step begins. */
typedef enum FlReplayStep
{
	FL_REPLAY_STEP_READ,		/* shards of responses, then of decisions */
	FL_REPLAY_STEP_REQUESTS,	/* parts of the responses */
	FL_REPLAY_STEP_REPLAY,		/* parts of the readings */
	FL_REPLAY_STEPS
} FlReplayStep;

typedef enum FlReplayWorkerState
{
	FL_REPLAY_WORKER_NONE,		/* it has not begun, or could not */
	FL_REPLAY_WORKER_RUNNING,
	FL_REPLAY_WORKER_DONE		/* all of its rows are in its queue */
} FlReplayWorkerState;

/* What was written by the session before a worker begins does not change. */
typedef struct FlReplayShared
{
	PGPROC	   *leader;
	pid_t		leader_pid;
	Oid			database;
	Oid			authenticated;	/* it connects as this one */
	Oid			role;			/* and works as this one */
	int			sec_context;
	int			slot;			/* of stat_replay */
	Oid			source;
	Oid			requests;
	Oid			responses;
	Oid			decisions;
	Oid			given;
	Oid			position_type;	/* fleetlog.log_position */
	TimestampTz from_ts;
	TimestampTz to_ts;
	TimestampTz first;
	int			n_ranges;
	int			n_versions;
	int			n_pending;
	int			n_shards;		/* positions, then firsts */
	int			n_response_shards;
	int			n_workers;
	int			n_response_parts;
	int			n_record_parts;
	Size		settings_size;
	SharedFileSet files;
	ConditionVariable step_done;
	slock_t		mutex;			/* for all that follows */
	int			units[FL_REPLAY_STEPS];
	int			next[FL_REPLAY_STEPS];
	int			busy[FL_REPLAY_STEPS];	/* workers that have taken a unit and not ended their files */
	FlReplayWorkerState state[FL_REPLAY_MAX_WORKERS];
} FlReplayShared;

/* No unit is left, and nobody works on one. */
extern bool fl_replay_step_is_done(FlReplayShared *shared, FlReplayStep step);

#endif							/* FLEETLOG_REPLAY_PARALLEL_H */
