/*
 * reads.h
 *		What the APIs that read the log share among themselves.
 *
 *	reads.c			work done in steps, errors of a read, waiting for tails
 *	fetch.c			Fetch: the request, when it is answered, the answer
 *	fetch_read.c	... and the batches
 *	list_offsets.c	ListOffsets
 *	epochs.c		leader epochs; OffsetForLeaderEpoch
 *
 * Whoever reads pages does it as a job: the turn gives each a few milliseconds,
 * round and round, so that one who reads much, or from a slow disk, holds the others
 * up for a batch at a time.
 */
#ifndef FLEETLOG_KAFKA_DOOR_READS_H
#define FLEETLOG_KAFKA_DOOR_READS_H

#include "kafka.h"

/* ---- work in steps ---- */

typedef struct FlKafkaJob
{
	FlKafkaRequest *req; /* parked; its memory is the current context in a step */
	dlist_node node;
	bool listed;

	/* Work until fl_kafka_step_is_over; true: there is more to do, false: it waits, or has answered. */
	bool (*step)(struct FlKafkaJob *job);
} FlKafkaJob;

/* There is something to do for it; nothing happens where that is known.  stop: not any more. */
extern void fl_kafka_job_start(FlKafkaJob *job);
extern void fl_kafka_job_stop(FlKafkaJob *job);

/* Has the step in hand used up its time? */
extern bool fl_kafka_step_is_over(void);

/*
 * Calls f, which reads the catalog and the log, in the turn's transaction; its memory
 * goes afterwards.  An error of it is only the caller's: Kafka's code of it.  A
 * position below the head, or that came to be there, is FL_KAFKA_OFFSET_OUT_OF_RANGE.
 *
 * FL_KAFKA_LOCKED, which is for no client: somebody has locked a table that it needs.
 * Nobody waits for such a lock here, as all who are connected would wait with him: it
 * is to be tried again after FL_KAFKA_LOCKED_MS.
 */
extern int16 fl_kafka_try(FlKafkaDoor *door, void (*f)(void *arg), void *arg);

#define FL_KAFKA_LOCKED    (-2)
#define FL_KAFKA_LOCKED_MS 50

/*
 * Such a shard is noted, so that however many want to read it one of them tries it, now and
 * then.
 */
extern void fl_kafka_note_locked(FlKafkaDoor *door, Oid stream, int32 shard);
extern bool fl_kafka_is_locked(FlKafkaDoor *door, Oid stream, int32 shard);

/* ---- waiting for tails ---- */

/* Zeroed memory is one that does not wait. */
typedef struct FlKafkaWait
{
	dlist_node node;
	struct FlKafkaWatch *watch; /* NULL: it does not wait */
	int64 seen;
	void *arg;
} FlKafkaWait;

/* moved(wait) is called once the durable tail is beyond `seen`, or when the catalog has changed. */
extern void fl_kafka_wait(FlKafkaDoor *door, FlKafkaWait *wait, Oid stream, int32 shard, int64 seen);
extern void fl_kafka_wait_end(FlKafkaDoor *door, FlKafkaWait *wait);

/* Who waits is told here: fetch.c. */
extern void fl_kafka_fetch_moved(FlKafkaWait *wait);

/* ---- memory of answers ---- */

/* Bytes that an answer may hold now, -1 where there is no room for any. */
extern int64 fl_kafka_answer_room(FlKafkaDoor *door);

/* ---- the door's turn ---- */

extern void fl_kafka_reads_turn(FlKafkaDoor *door);

/* How long the door may sleep for it, -1: for ever. */
extern long fl_kafka_reads_timeout(FlKafkaDoor *door);

/* ---- streams of a request ---- */

/* What is wrong with a topic of a request, and its stream where nothing is. */
extern int16 fl_kafka_check_read(FlKafkaConn *conn, const FlStreamInfo *stream);

/*
 * So many partitions may be named in one request: some more than there are, for
 * those that have just gone.  What is kept of a request must not be a hundred times
 * as large as the request.
 */
extern int fl_kafka_most_partitions(FlKafkaDoor *door);

/* ---- epochs (epochs.c) ---- */

/* The leader epoch that a client believes in, -1: none: FL_KAFKA_FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH. */
extern int16 fl_kafka_check_epoch(Oid stream, int32 shard, int32 epoch);

/* Where the epoch ends; epoch and offset are -1 where this log has not come to it. */
extern void fl_kafka_epoch_end(Oid stream, int32 shard, int32 epoch, int32 *found, int64 *end);

/* ---- handlers ---- */

extern void fl_kafka_handle_fetch(FlKafkaRequest *req);
extern void fl_kafka_handle_list_offsets(FlKafkaRequest *req);
extern void fl_kafka_handle_offset_for_leader_epoch(FlKafkaRequest *req);

#endif /* FLEETLOG_KAFKA_DOOR_READS_H */
