/*-------------------------------------------------------------------------
 *
 * log_tail.h
 *		What the shard map and the keeper ask of the log: the tail that a shard's
 *		files hold, and freezing.  Implemented in src/log.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LOG_TAIL_H
#define FLEETLOG_LOG_TAIL_H

#include "datatype/timestamp.h"

/*
 * Tail (next offset to give out), head (oldest offset that readers may see) and
 * last append time of a shard, as its files and the catalog have it: committed
 * records only.  In a transaction; `stream` may be a leaf that is in no stream.
 * A shard without records has tail = head and *last_ts = DT_NOBEGIN.
 */
extern void fl_tail_read_committed(Oid stream, int32 shard, int64 *tail, int64 *head,
								   TimestampTz *last_ts);

/*
 * Move frozen-up-to of every segment of the stream ahead and mark dead what was
 * aborted, so that the server's transaction horizon is not held back by us.
 * Called by the keeper, in a transaction of its own.
 */
extern void fl_log_freeze_stream(Oid stream);

/*
 * The other way round, implemented in src/shmem/flush.c: see to it that what was
 * committed before this call is published as flushed.  For SQL sessions, after
 * commit and without locks; see guest.h.
 */
extern void fl_flush_published(void);

#endif							/* FLEETLOG_LOG_TAIL_H */
