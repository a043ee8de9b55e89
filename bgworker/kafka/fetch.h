/*
 * fetch.h
 *		A Fetch request as fetch.c and fetch_read.c share it.
 */
#ifndef FLEETLOG_KAFKA_DOOR_FETCH_H
#define FLEETLOG_KAFKA_DOOR_FETCH_H

#include "reads.h"

/* A partition that is asked for. */
typedef struct FlKafkaPart
{
	FlKafkaWait wait; /* must come first */
	Oid stream;       /* InvalidOid: there is none */
	int32 shard;
	int16 error;
	bool look;    /* there may be more to read */
	bool ended;   /* nothing more is put in: an error, as much as may be, or a batch that must be the first */
	bool locked;  /* ... when a lock on its segment has gone */
	bool starved; /* it has something, for which there was no room */
	bool diverged;
	int32 max_bytes;
	int32 current_epoch;
	int32 last_epoch; /* of what the client has read before, -1: not told */
	int64 offset;     /* asked for */
	FlLogPosition pos;
	int64 tail; /* when it was looked at last */
	int64 head;
	int32 end_epoch; /* diverged: where the client's history and ours part */
	int64 end_offset;
	int64 bytes;        /* in batches */
	FlNetChain batches; /* one behind the other, as they go into the answer */
} FlKafkaPart;

typedef struct FlKafkaFetch
{
	FlKafkaJob job; /* must come first */
	FlKafkaDoor *door;
	FlKafkaConn *conn;
	int16 version;
	int n;
	int from; /* the part that is read first */
	int at;   /* how many have been looked at since */
	FlKafkaPart *parts;
	FlKafkaPart *current; /* being read */
	int64 most;           /* bytes of the answer */
	int64 enough;         /* bytes with which it goes */
	int64 bytes;          /* in batches */
	int64 withheld;       /* bytes that partitions have and may not give */
	bool full;            /* nothing more has room */
	bool failed;          /* of some partition */
	bool locked;          /* some part's segment is */
	bool expired;         /* it has waited long enough */
	bool timed;           /* its timer runs */
	FlKafkaTimer retry;   /* of what is locked */
	FlKafkaPlaces places; /* of the batches in the answer */
} FlKafkaFetch;

/*
 * Reads what there is, until the step is over or all parts have been looked at, which
 * is what it returns.  Errors are noted at their parts.
 */
extern bool fl_kafka_fetch_read(FlKafkaFetch *fetch);

/* Head and tail of parts that were not looked at. */
extern void fl_kafka_fetch_bounds(FlKafkaFetch *fetch);

#endif /* FLEETLOG_KAFKA_DOOR_FETCH_H */
