/*
 * session_event.h
 *		Events of the session journal: what changes of a session must not be
 *		forgotten, as bytes and back.
 *
 * What: an event is a type byte and little-endian fields whose length the type
 * decides; docs/formats.md has them byte by byte.  A payload of the journal, or
 * of a snapshot, is a row of events.  A position in a stream is written once
 * (FL_SESSION_AT); the events behind it tell their distance to it, so that the
 * usual event has 16 bytes.
 *
 * Why so: the journal is written with every QoS 2 message, in the transaction of
 * its record, so its bytes are paid for by each message.
 *
 * Invariants: no server headers, no allocation while decoding; what is decoded
 * borrows from the bytes.  Who calls it: src/session, bgworker/mqtt, unit tests.
 */
#ifndef FLEETLOG_SESSION_EVENT_H
#define FLEETLOG_SESSION_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

#define FL_SESSION_KEY_LEN  16
#define FL_SESSION_MAX_SUBSCRIPTIONS 10000 /* of one session: they are looked for one by one */
#define FL_SESSION_MAX_FILTER_BYTES (4 * 1024 * 1024) /* of their events */
#define FL_SESSION_MAX_WILL (136 * 1024) /* bytes of a will, with whose it is */
#define FL_SESSION_NAME_MAX 255 /* bytes of a session's name, which is kept for views */

/* Type codes are part of the stored format. */
typedef enum FlSessionEventType
{
	FL_SESSION_AT = 1,           /* position to which the distances behind it count */
	FL_SESSION_OPENED = 2,       /* a session begins, or begins anew: it has nothing yet */
	FL_SESSION_ENDED = 3,        /* it and all it had are gone */
	FL_SESSION_CHANGED = 4,      /* its expiry or window is another one */
	FL_SESSION_RECEIVED = 5,     /* a record was stored for this identifier of the client */
	FL_SESSION_RELEASED = 6,     /* the client has released the identifier */
	FL_SESSION_SNAPSHOT = 7,     /* a snapshot begins: the journal goes on from this offset */
	FL_SESSION_SNAPSHOT_END = 8, /* it is complete */
	FL_SESSION_AWAY = 9,         /* nobody is connected since then */
	FL_SESSION_SUBSCRIBED = 10,  /* it has this filter, with these options */
	FL_SESSION_UNSUBSCRIBED = 11,
	FL_SESSION_CHECKPOINT = 12,   /* bookmarks and deliveries are those that follow, and no others */
	FL_SESSION_BOOKMARK = 13,     /* from this record of a shard on nothing was sent */
	FL_SESSION_SENT = 14,         /* a record is about to be sent under this identifier of ours */
	FL_SESSION_SENT_RELEASED = 15, /* its PUBREC has come */
	FL_SESSION_SENT_DONE = 16,     /* PUBACK or PUBCOMP has come */
	FL_SESSION_EXACT = 17, /* below this record of a shard nothing is sent at this QoS any more but what is under way */
	FL_SESSION_START = 18, /* below this record of a shard nothing is for one of its filters */
	FL_SESSION_WILL = 19,  /* what is to be published when its client has been away for so long */
	FL_SESSION_WILL_DONE = 20 /* ... and has been, or is not to be any more */
} FlSessionEventType;

/* Fields that an event's type does not have are zero. */
typedef struct FlSessionEvent
{
	uint8_t type;        /* FlSessionEventType */
	uint8_t qos;         /* RECEIVED, SENT: 1 or 2; EXACT: 0 or 2; SUBSCRIBED: 0 to 2 */
	uint16_t generation; /* of the session's number: which of those that had it */
	uint32_t session;    /* number, from 1 */
	uint16_t packet_id;  /* RECEIVED, RELEASED, SENT and what follows it */
	uint16_t window;     /* OPENED, CHANGED: identifiers of QoS 1 that are remembered */
	uint32_t hash;       /* RECEIVED: of topic and payload; START: of the filter, whose length is text_len */
	uint32_t expiry_s;   /* OPENED, CHANGED */
	uint32_t stream;     /* AT, and what counts from it; BOOKMARK, EXACT, START; SNAPSHOT: the journal it belongs to */
	uint16_t shard;
	uint16_t distance;  /* RECEIVED, SENT: from AT to the record */
	int64_t log_offset; /* AT, SNAPSHOT, BOOKMARK, EXACT, START; RECEIVED, SENT: of its record */
	int64_t since;      /* AWAY, SUBSCRIBED: microseconds as the server counts them */
	const uint8_t *key; /* OPENED: FL_SESSION_KEY_LEN bytes, borrowed */
	const uint8_t *name;
	uint8_t name_len; /* OPENED */
	bool no_local;    /* SUBSCRIBED */
	bool as_published;
	bool end_on_drop;
	uint8_t position;    /* SUBSCRIBED: 0 to 2, what deliveries tell of their position */
	bool retain; /* SENT: it leaves with RETAIN 1 */
	bool aside;  /* SENT: not read by the bookmark, but a retained value or a group's: it moves no mark */
	bool shared; /* SENT: a group's, whose other members may have it by now */
	uint32_t id;         /* SUBSCRIBED: subscription identifier, 0 = none */
	const uint8_t *text; /* SUBSCRIBED, UNSUBSCRIBED: the filter, borrowed */
	uint16_t text_len;   /* and START */
	uint32_t number;     /* WILL, WILL_DONE: which will; never 0 */
	uint32_t delay_s;    /* WILL */
	const uint8_t *data; /* WILL: what the front door makes of it, borrowed */
	uint32_t data_len;
} FlSessionEvent;

/* Appends one event; a name that is too long is cut.  Failure is sticky in out. */
extern void fl_session_encode_event(FlBuf *out, const FlSessionEvent *event);

/* Where a walk over a row of events stands. */
typedef struct FlSessionReader
{
	FlReader in;
	FlSessionEvent at; /* the last AT; type 0 when there was none */
	FlResult result;   /* FL_OK, or why the walk ended early */
} FlSessionReader;

extern void fl_session_reader_init(FlSessionReader *reader, const uint8_t *data, size_t len);

/*
 * The next event that is not an AT; false at the end, and then reader->result is
 * FL_MALFORMED where the bytes make no sense, FL_UNSUPPORTED where the type is
 * one that this version does not know.
 */
extern bool fl_session_next_event(FlSessionReader *reader, FlSessionEvent *event);

/*
 * A RECEIVED event that was encoded before anybody knew where its record would
 * be: sets the distance in its bytes.
 */
#define FL_SESSION_RECEIVED_SIZE 16
#define FL_SESSION_WILL_DONE_SIZE 11
extern void fl_session_set_distance(uint8_t *received, uint16_t distance);

#endif /* FLEETLOG_SESSION_EVENT_H */
