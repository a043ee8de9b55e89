/*-------------------------------------------------------------------------
 *
 * record_list.h
 *		Appending many records that name their own positions: shards are locked and
 *		positions given out first, headers and batches are built then.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_RECORD_LIST_H
#define FLEETLOG_RECORD_LIST_H

#include "fleetlog/catalog.h"

/* JSON in UTF-8.  Strings are borrowed. */
typedef struct FlListRecord
{
	const char *key;
	const char *payload;
	const char *tenant;			/* columns of that name; NULL: none */
	const char *device;
	const char *topic;			/* header fl.topic; NULL: none */
	const char *response_topic; /* with correlation-data `<shard>:<offset>` of this record; NULL: none */
	int32		shard;			/* result of fl_record_list_place */
	int64		log_offset;
} FlListRecord;

/*
 * Lock the shards of the keys, ascending, until the transaction ends, and tell each
 * record where it will be.  Who writes to several streams places all their records,
 * in order of the streams' OIDs, before he writes any.  Raises LF106, 40001, 53100.
 */
extern void fl_record_list_place(Oid stream, FlListRecord *records, int n);

/* Append them where they were placed.  Of those without tenant and device the current role is who wrote them (fl.role). */
extern void fl_record_list_write(Oid stream, const FlListRecord *records, int n);

#endif							/* FLEETLOG_RECORD_LIST_H */
