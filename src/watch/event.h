/*-------------------------------------------------------------------------
 *
 * event.h
 *		An event of a watch, and the two forms in which it is sent: a line of JSON,
 *		and the binary message of docs/watch.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_WATCH_EVENT_H
#define FLEETLOG_WATCH_EVENT_H

#include "access/htup.h"
#include "access/tupdesc.h"
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

typedef enum FlWatchKind
{
	FL_WATCH_BEGIN_SNAPSHOT,
	FL_WATCH_ROW,
	FL_WATCH_END_SNAPSHOT,
	FL_WATCH_SET,
	FL_WATCH_CLEAR,
	FL_WATCH_PROGRESS			/* nothing but a position */
} FlWatchKind;

typedef struct FlWatchEvent
{
	FlWatchKind kind;
	Oid			stream;			/* InvalidOid: none */
	const char *stream_name;	/* for JSON; NULL: none */
	const uint8 *key;
	int32		key_len;		/* -1: none */
	bool		has_place;		/* shard and log_offset are known */
	int32		shard;
	int64		log_offset;
	bool		has_ts;
	TimestampTz ts;
	const uint8 *headers;		/* FlHeaders form */
	int32		headers_len;	/* -1: none */
	const uint8 *payload;
	int32		payload_len;	/* -1: NULL */
	bool		unchanged;		/* the payload is that of before and was not logged again */
	XLogRecPtr	lsn;			/* position by decoding: end of the commit, and number in it; */
	uint32		number;			/* 0 for the whole transaction */
	const char *position;		/* JSON text instead, when not NULL */
} FlWatchEvent;

extern const char *fl_watch_kind_name(FlWatchKind kind);
extern void fl_watch_write_json(StringInfo out, const FlWatchEvent *e);
extern void fl_watch_write_binary(StringInfo out, const FlWatchEvent *e);

/* Columns of a state table by their names; attribute numbers, 0 where there is none. */
typedef struct FlStateColumns
{
	int			stream;
	int			key;
	int			shard;
	int			log_offset;
	int			ts;
	int			headers;
	int			payload;
} FlStateColumns;

/* False when the table does not have the columns of a state table. */
extern bool fl_state_columns(TupleDesc desc, FlStateColumns *out);

/* Fill an event from a row; memory is the current context's or the tuple's. */
extern void fl_watch_from_tuple(FlWatchEvent *e, HeapTuple tuple, TupleDesc desc, const FlStateColumns *cols);

/*
 * If this row of fleetlog.state_cleared is about the key that the event clears: fill in
 * where and when.
 */
extern bool fl_watch_place_of_clear(FlWatchEvent *e, Oid state, HeapTuple tuple, TupleDesc desc);

#endif							/* FLEETLOG_WATCH_EVENT_H */
