/*-------------------------------------------------------------------------
 *
 * state_change.h
 *		What a record of the log means for a state table, for those who follow the
 *		log themselves: src/state, and watch() in src/watch.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_STATE_CHANGE_H
#define FLEETLOG_STATE_CHANGE_H

#include "datatype/timestamp.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log.h"

/* Where a value comes from; the later one wins. */
typedef struct FlStatePos
{
	TimestampTz ts;
	int32		shard;
	int64		log_offset;
} FlStatePos;

/* The change of one key.  All pointers are varlenas of the right type, or NULL. */
typedef struct FlStateChange
{
	Oid			state;
	Oid			stream;
	FlStatePos	pos;
	int32		home;			/* shard that the mount gives the topic */
	bool		cleared;
	SubTransactionId subid;
	int64		pending_id;		/* row of state_pending it comes from, 0: none */
	struct varlena *key;
	struct varlena *tenant;
	struct varlena *device;
	struct varlena *headers;
	struct varlena *payload;
	Size		bytes;
} FlStateChange;

/* Which mounts' values are asked for. */
typedef enum FlStateScope
{
	FL_STATE_IN_TRANSACTION,	/* those written with the record */
	FL_STATE_FOLDED,			/* those that the state worker folds from the log */
	FL_STATE_ALL
} FlStateScope;

extern int	fl_state_pos_cmp(const FlStatePos *a, const FlStatePos *b);

/* Topic of a record: fl.topic, else its key; false: none that is text. */
extern bool fl_state_topic_of(const FlLogRecord *rec, const uint8 **topic, int32 *len);

/*
 * The change that a record makes to its mount's state table; false: none in this
 * scope.  The varlenas are palloc'd.
 */
extern bool fl_state_change_of(Oid stream, int32 shard, const FlLogRecord *rec, FlStateScope scope,
							   FlStateChange *out);

/* Are values of this mount folded from the log by the state worker? */
extern bool fl_state_is_folded(const FlMount *mount);

/* Split a value of type fleetlog.headers (NULL: none) into the headers of a record; borrows. */
extern void fl_state_split_headers(const uint8 *data, int32 len, FlLogRecord *rec);

/*
 * Where the newest value or clear of a key comes from that the table, memory and
 * state_cleared know; false: nothing is known, or the table is locked now.  With the
 * active snapshot.
 */
extern bool fl_state_newest(Oid state, Oid stream, const uint8 *key, int32 len, FlStatePos *pos);

/*
 * Wait until everybody whom a snapshot shows that was taken before has told the tails
 * of these shards.  A commit is visible a moment before that.
 */
extern void fl_state_wait_for_writers(Oid stream, int nshards);

#endif							/* FLEETLOG_STATE_CHANGE_H */
