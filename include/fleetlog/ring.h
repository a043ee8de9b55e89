/*-------------------------------------------------------------------------
 *
 * ring.h
 *		Both ends of the rings between a front door and the appender.
 *
 * A door puts batches (FlIngestEntry and body) into its ring, which is bytes in
 * shared memory; the appender answers each of them with a FlIngestResult in a
 * second ring of fixed slots.  Single producer, single consumer, no lock.
 *
 * Layout rule of the byte ring: an entry is contiguous and begins at a multiple
 * of 8.  What is left before the end of the ring is skipped by both sides, with
 * a filler entry (FL_INGEST_WRAP) where one fits and silently where fewer than
 * sizeof(FlIngestEntry) bytes are left.
 *
 * Use by the appender:
 *
 *		fl_ring_appender_start();			once, when the process starts
 *		pos = fl_ring_read_position(door);
 *		while ((e = fl_ring_next(door, &pos)) != NULL) ... gather a turn ...
 *		... write and commit ...
 *		fl_ring_answer(door, &result);		one per entry, in any order
 *		fl_ring_consumed(door, pos);		only now may the door overwrite them
 *		fl_worker_wake(FL_WORKER_FRONT_DOOR, door);
 *
 * Before the appender begins a turn it says so for the doors concerned, and
 * takes it back when every batch of theirs is answered (fl_ring_in_doubt).  One
 * that starts and finds a door in doubt throws away what lies in its ring:
 * nobody can know which of it was committed, the door reports all of it as
 * failed, and the devices send again.  Otherwise it goes on where the last one
 * stopped.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_RING_H
#define FLEETLOG_RING_H

#include "fleetlog/shmem.h"

/* Bytes of one door's ring, a power of two. */
extern uint32 fl_door_ring_bytes(void);

/* Largest body that may be put into a ring, and session events behind it. */
extern uint32 fl_ring_max_body(void);
#define FL_RING_MAX_EVENTS	(160 * 1024)

/* ---- the door's side ------------------------------------------------------ */

/* A door starts (anew): answers for its predecessor are thrown away. */
extern void fl_ring_door_start(int door);

/*
 * Put an entry with its body and entry->events_len bytes of events; false when
 * there is no room now.  total_len and body_len are set here.  *end is the ring
 * position behind the entry.
 */
extern bool fl_ring_put(int door, FlIngestEntry *entry, const uint8 *body, uint32 body_len, const uint8 *events,
						uint64 *end);

/* Take the next answer; false when there is none. */
extern bool fl_ring_take_answer(int door, FlIngestResult *result);

/*
 * Entries that end at or below *dropped_below and have no answer are lost.
 * Returns a number that changes whenever an appender starts; drain the answers
 * after calling this and before believing it.
 */
extern uint64 fl_ring_appender_generation(int door, uint64 *dropped_below);

/* Bytes between producer and consumer. */
extern uint64 fl_ring_used(int door);

/* ---- the appender's side ---------------------------------------------------- */

extern void fl_ring_appender_start(void);

/* Batches of the door have been taken and not all of them answered. */
extern void fl_ring_in_doubt(int door, bool in_doubt);
extern uint64 fl_ring_read_position(int door);

/* The entry at *pos, which moves behind it; NULL when the door has put no more. */
extern const FlIngestEntry *fl_ring_next(int door, uint64 *pos);

static inline const uint8 *
fl_ring_body(const FlIngestEntry *entry)
{
	return (const uint8 *) (entry + 1);
}

static inline const uint8 *
fl_ring_events(const FlIngestEntry *entry)
{
	return fl_ring_body(entry) + entry->body_len;
}

/* False when the door has not fetched its answers: try again later. */
extern bool fl_ring_answer(int door, const FlIngestResult *result);
extern void fl_ring_consumed(int door, uint64 pos);

#endif							/* FLEETLOG_RING_H */
