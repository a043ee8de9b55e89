/*-------------------------------------------------------------------------
 *
 * read.h
 *		The rings between a front door and the reader: what a door wants to have
 *		read for connections that are far behind, and what was found for them.
 *
 *		door ──► reader		TOPICS		records below these topics, from an offset on
 *							WARM		pages from an offset on into the server's buffers
 *							FORGET		not any more
 *		reader ──► door		RECORD		one that may be wanted
 *							UPTO		all below has been looked at; the want is over
 *
 * Two rings of bytes a door, single producer, single consumer, no lock: items are
 * contiguous and begin at multiples of 8; what is left before the end of a ring is
 * a filler.  Who takes items moves the ring's tail only when it is done with them.
 *
 * A want is named by (door, connection, feed) and a token that the door has never
 * used before, so whatever comes for one that is over means nothing.  A door that
 * starts anew has another run, and so has a reader: each forgets what it had from
 * the other's former one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_READ_H
#define FLEETLOG_READ_H

#include "datatype/timestamp.h"

#include "fleetlog/log.h"

#define FL_READ_MAX_KEYS	200	/* of one want: two for a filter, of which a device has a hundred */
#define FL_READ_MAX_LEVELS	8	/* of a topic that a key of the beginning of topics may name */

typedef enum FlReadKind
{
	FL_READ_FILLER,
	FL_READ_TOPICS,
	FL_READ_WARM,
	FL_READ_FORGET,
	FL_READ_RECORD,
	FL_READ_UPTO
} FlReadKind;

/* Why a want is over, in an UPTO. */
typedef enum FlReadEnd
{
	FL_READ_AT_TAIL,			/* there was nothing more */
	FL_READ_ENOUGH,				/* as many as were wanted have been sent, or retention was quicker */
	FL_READ_UNABLE				/* the door has to look by itself */
} FlReadEnd;

typedef struct FlReadItem
{
	uint32		total_len;		/* with what follows it, 8-aligned */
	uint16		kind;			/* FlReadKind */
	uint16		count;			/* TOPICS: keys that follow; UPTO: FlReadEnd */
	uint64		token;
	uint64		conn;
	int64		offset;
	Oid			stream;
	int32		shard;
	int32		feed;			/* the door's number for stream and shard */
	uint32		most;			/* TOPICS: so many records at most */
	uint32		run;			/* of the door */
	uint32		body_len;
} FlReadItem;

/*
 * What topics have in common: the whole topic (slashes 0), or what it begins with, up to
 * and with its n-th slash.
 */
typedef struct FlReadKey
{
	uint64		hash;
	uint32		slashes;
	uint32		unused;
} FlReadKey;

extern uint64 fl_read_hash(const uint8 *bytes, Size len, uint32 slashes);

typedef enum FlReadWay
{
	FL_READ_TO_READER,
	FL_READ_TO_DOOR
} FlReadWay;

/* Shared memory. */
extern Size fl_read_size(void);
extern void fl_read_init(void);

/* A door starts: what lies in its ring is for its predecessor.  Returns its run. */
extern uint32 fl_read_door_start(int door);
extern uint32 fl_read_door_run(int door);

/* The reader starts or ends.  Its number, raised with every start; 0: there is none now. */
extern void fl_read_reader_start(void);
extern void fl_read_reader_end(void);
extern uint32 fl_read_reader(void);

/* Largest item that a ring takes. */
extern uint32 fl_read_max_body(void);

/* False: there is no room now. */
extern bool fl_read_put(FlReadWay way, int door, FlReadItem *item, const void *body, uint32 body_len);

/* The next item, borrowed until fl_read_done; NULL: there is none. */
extern const FlReadItem *fl_read_next(FlReadWay way, int door);
extern void fl_read_done(FlReadWay way, int door);

/* Bytes that were ever taken from a ring: who waits for room sees that it moves. */
extern uint64 fl_read_taken(FlReadWay way, int door);

static inline const void *
fl_read_body(const FlReadItem *item)
{
	return item + 1;
}

/* A record as the body of an item, in a palloc'd buffer that grows; false: it is larger than what a ring takes. */
extern bool fl_read_pack(const FlLogRecord *rec, uint8 **scratch, Size *scratch_cap, uint32 *len);

/* ... and back, pointing into the item; false: the bytes are not one. */
extern bool fl_read_unpack(const FlReadItem *item, FlLogRecord *rec);

#endif							/* FLEETLOG_READ_H */
