/*-------------------------------------------------------------------------
 *
 * sql_record.h
 *		A record on its way from SQL into the log: what append() and publish()
 *		have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SQL_RECORD_H
#define FLEETLOG_SQL_RECORD_H

#include "fmgr.h"

#include "fleetlog/catalog.h"
#include "fleetlog/cursor.h"
#include "fleetlog/log.h"

/* May the current role write to the stream?  Raises 42501 if not. */
extern void fl_sql_check_insert(Oid stream);

/* May it state sender and fl.* headers (member of fleetlog_ingest, superuser)? */
extern bool fl_sql_is_ingest(void);

/*
 * Headers of a record: the sender (NULL: none), what was given, and fl.role for
 * roles that are no importers.  Writes the FlHeaders form to `out`.
 * topic: header fl.topic when not NULL; qos: header fl.qos when not negative;
 * retain: header fl.retain.
 */
extern void fl_sql_headers(FlBuf *out, struct varlena *given, const char *tenant, const char *device,
						   const char *topic, int topic_len, int qos, bool retain);

/* Milliseconds since 1970 of a timestamptz; raises 22008 before 1970 or infinite. */
extern int64 fl_sql_created_ms(TimestampTz created);

/* The limit of the stream, or of the server, on a record's bytes; check raises LF105, and 53100 at the disk reserve. */
extern size_t fl_sql_record_limit(const FlStreamInfo *info);
extern void fl_sql_check_size(const FlStreamInfo *info, size_t bytes);

/* Is it time to write the batch? */
extern bool fl_sql_batch_is_full(const FlBatchBuilder *b);

/* Appends the records of the batch, which is empty then, to a locked shard; returns the offset of the first. */
extern int64 fl_sql_write_batch(FlShard *shard, const FlStreamInfo *info, FlBatchBuilder *b);

/* Shard of a key; a record without one goes round robin. */
extern int32 fl_sql_shard_of(const FlStreamInfo *info, const uint8 *key, int32 key_len);

#endif							/* FLEETLOG_SQL_RECORD_H */
