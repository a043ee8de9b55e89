/*-------------------------------------------------------------------------
 *
 * settings.c
 *		The settings of the core, each with default, unit, range and what happens
 *		at the limit (told to users in docs/settings.md).
 *
 * Called once, by _PG_init.  Front doors and authentication define theirs in
 * their own folders.
 *
 * Settings that size shared memory can only be set at server start.  They are
 * not defined at all when the library is merely loaded into a running session
 * (pg_upgrade does that to check that it exists): the server would refuse, with
 * a FATAL error, to define such a setting then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "fleetlog/loop.h"
#include "fleetlog/policy.h"
#include "fleetlog/replay.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"

char	   *fl_database = "postgres";
int			fl_workers = 2;
int			fl_max_shards = 4096;
int			fl_ingest_ring_kb = 4096;
int			fl_ingest_memory_kb = 16384;
int			fl_max_connections = 20000;
bool		fl_door_writes = true;
int			fl_linger_ms = 5;
int			fl_shard_lock_timeout_ms = 6000;
int			fl_shard_hold_timeout_ms = 5000;
int			fl_max_xids_per_second = 1000;
bool		fl_read_barrier_on = true;
bool		fl_enable_stream_scan = true;
int			fl_max_record_kb = 1024;
int			fl_publish_queue_kb = 16384;
int			fl_last_value_kb = 8192;
int			fl_memory_topic_kb = 4096;
int			fl_disk_reserve_mb = 256;
int			fl_retention_grace_ms = 300000;
int			fl_clock_offset_ms = 0;
int			fl_worker_retry_ms = 1000;
char	   *fl_stop_points = "";

/* Those that decide about shared memory. */
static void
define_at_start(void)
{
	DefineCustomIntVariable("fleetlog.workers",
							"Number of front door processes.",
							"Each has its own listeners and connections. Started only where a listener is set.",
							&fl_workers, 2, 1, FL_MAX_FRONT_DOORS - 1,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_shards",
							"Shards that can be in use at the same time, over all streams and databases.",
							"Opening one more fails with SQLSTATE 53400.",
							&fl_max_shards, 4096, 16, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_connections",
							"Device connections that can be open at the same time, over all front doors.",
							"One more is refused with \"quota exceeded\".",
							&fl_max_connections, 20000, 10, 2000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.last_value_memory",
							"Shared memory for last values that are not in their state table yet.",
							"When it is used up they are written before state_lag is over.",
							&fl_last_value_kb, 8192, 64, 4194303,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.memory_topic_buffer",
							"Shared memory for messages of topics that are carried in memory only.",
							"One message may have a quarter of it. A front door that falls behind by all of it misses messages.",
							&fl_memory_topic_kb, 4096, 64, 1048576,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.ingest_ring",
							"Shared memory for batches between each front door and the appender.",
							"Rounded up to a power of two. A full ring makes the door stop reading its sockets.",
							&fl_ingest_ring_kb, 4096, 256, 1048576,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
}

static void
define_writing(void)
{
	DefineCustomIntVariable("fleetlog.ingest_memory",
							"Memory of each front door for records that wait to be written.",
							"When it is used up the door stops reading the sockets of publishers; QoS 0 may be dropped.",
							&fl_ingest_memory_kb, 16384, 1024, 4194303,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomBoolVariable("fleetlog.door_writes",
							 "Lets a front door write a batch by itself when nobody else writes to its shard.",
							 "Off: every batch goes through the appender, and the flusher makes it durable.",
							 &fl_door_writes, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.linger",
							"How long a batch of QoS 0 records may wait for more.",
							NULL,
							&fl_linger_ms, 5, 0, 10000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_record_size",
							"Largest record that a stream takes, unless the stream has a limit of its own.",
							"A larger one is refused with SQLSTATE LF105, reason code 0x95.",
							&fl_max_record_kb, 1024, 1, 65536,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.shard_lock_timeout",
							"How long a session waits for a shard that another one holds.",
							"Then it fails with SQLSTATE LF106.",
							&fl_shard_lock_timeout_ms, 6000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.shard_hold_timeout",
							"How long a transaction may hold a shard before its session is ended.",
							"Zero: no limit.",
							&fl_shard_hold_timeout_ms, 5000, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.publish_queue",
							"Memory for what a transaction has published and not yet committed.",
							"Beyond it publish() fails with SQLSTATE 53400.",
							&fl_publish_queue_kb, 16384, 64, 1048576,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.loop_max_waiting",
							"Readings of a shard that may wait behind pending requests of a decision loop.",
							"Beyond it the loop reads no further in that shard until answers have come.",
							&fl_loop_max_waiting, 10000, 1, 10000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.loop_policy_timeout",
							"How long one call of the policy of a decision loop may take.",
							"Beyond it the shard is stopped at that reading.  Zero: no limit.",
							&fl_policy_timeout_ms, 5000, 0, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.replay_workers",
							"Processes that share a replay of decisions, each some shards of the source.",
							"Fewer than two: the session replays by itself.",
							&fl_replay_workers, 2, 0, FL_REPLAY_WORKERS_LIMIT,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.replay_workers_min",
							"Readings from which on a replay has workers.",
							NULL,
							&fl_replay_workers_min, 10000, 0, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_xids_per_second",
							"Transaction ids a second that the workers use on average.",
							"Beyond it their turns become longer. Zero: no limit.",
							&fl_max_xids_per_second, 1000, 0, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("fleetlog.read_barrier",
							 "A SELECT over a stream waits until what it can see is flushed.",
							 NULL,
							 &fl_read_barrier_on, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

static void
define_reading(void)
{
	DefineCustomBoolVariable("fleetlog.enable_stream_scan",
							 "Plans a SELECT over a stream as one scan instead of one per segment.",
							 "Off: an Append over all segments, each locked to the end of the transaction.",
							 &fl_enable_stream_scan, true,
							 PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
}

static void
define_operation(void)
{
	DefineCustomStringVariable("fleetlog.database",
							   "The database that the workers serve.",
							   "Empty: no worker runs.",
							   &fl_database, "postgres",
							   PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.disk_reserve",
							"Free space to be left on the volumes of WAL and data.",
							"Below it publishes are refused with SQLSTATE 53100. Zero: no reserve.",
							&fl_disk_reserve_mb, 256, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.retention_grace",
							"How long queries may go on reading what retention or a trim has removed.",
							"Then they are canceled, and sessions idle in such a transaction are ended.",
							&fl_retention_grace_ms, 300000, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.worker_retry",
							"First pause before a worker that ended is started again.",
							"It doubles with each failure, up to a minute.",
							&fl_worker_retry_ms, 1000, 10, 60000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.clock_offset",
							"Added to the wall clock, for tests.",
							NULL,
							&fl_clock_offset_ms, 0, INT_MIN, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomStringVariable("fleetlog.stop_points",
							   "Points at which processes wait, for tests.",
							   "A list of names separated by commas.",
							   &fl_stop_points, "",
							   PGC_SIGHUP, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

void
fl_settings_define(void)
{
	if (process_shared_preload_libraries_in_progress)
		define_at_start();
	define_writing();
	define_reading();
	define_operation();
}
