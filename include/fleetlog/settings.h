/*-------------------------------------------------------------------------
 *
 * settings.h
 *		The settings of the core (each front door module defines its own in its
 *		folder).  Default, unit and what happens at the limit are told in
 *		src/fleetlog.c, where each is defined, and in docs/settings.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SETTINGS_H
#define FLEETLOG_SETTINGS_H

extern char *fl_database;		/* fleetlog.database */
extern int	fl_workers;			/* fleetlog.workers */

/* Front doors in all: those of fleetlog.workers, and behind them the one that speaks Kafka. */
#define FL_KAFKA_DOOR	fl_workers
#define FL_DOORS		(fl_workers + 1)

extern int	fl_max_shards;		/* fleetlog.max_shards */
extern int	fl_ingest_ring_kb;	/* fleetlog.ingest_ring */
extern int	fl_ingest_memory_kb;	/* fleetlog.ingest_memory */
extern int	fl_memory_topic_kb; /* fleetlog.memory_topic_buffer */
extern int	fl_max_connections; /* fleetlog.max_connections */
extern bool fl_door_writes;		/* fleetlog.door_writes */
extern int	fl_linger_ms;		/* fleetlog.linger */
extern int	fl_shard_lock_timeout_ms;	/* fleetlog.shard_lock_timeout */
extern int	fl_shard_hold_timeout_ms;	/* fleetlog.shard_hold_timeout */
extern int	fl_max_xids_per_second; /* fleetlog.max_xids_per_second */
extern bool fl_read_barrier_on; /* fleetlog.read_barrier */
extern bool fl_enable_stream_scan; /* fleetlog.enable_stream_scan */
extern int	fl_max_record_kb;	/* fleetlog.max_record_size */
extern int	fl_publish_queue_kb;	/* fleetlog.publish_queue */
extern int	fl_last_value_kb;	/* fleetlog.last_value_memory */
extern int	fl_disk_reserve_mb; /* fleetlog.disk_reserve */
extern int	fl_retention_grace_ms;
extern int	fl_clock_offset_ms; /* fleetlog.clock_offset (tests) */
extern int	fl_worker_retry_ms; /* fleetlog.worker_retry */

extern void fl_settings_define(void);

#endif							/* FLEETLOG_SETTINGS_H */
