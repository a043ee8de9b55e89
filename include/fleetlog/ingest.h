/*-------------------------------------------------------------------------
 *
 * ingest.h
 *		The one path by which a front door's records enter the log.
 *
 * A door calls, for each message it accepted (already authorised and routed):
 *
 *		fl_ingest_add(...)      queue the record in the batch of its shard
 *		fl_ingest_flush(now)    once per turn: hand over what should go now
 *		fl_ingest_poll()        once per turn: take results, release acks
 *
 * and gives a callback that is called for each record when its fate is known:
 * durable under the stream's policy (then, and only then, may a PUBACK leave:
 * MQTT-4.3.2-4 and REQUIREMENTS L5), or refused with an error.
 *
 * Rules kept here
 *		- Records of one (stream, shard) keep the order in which the door added
 *		  them.  Acks are released in that order per shard.
 *		- QoS 0 batches may linger up to fleetlog.linger; a batch that somebody
 *		  waits for goes at once when nothing of its shard is under way, else it
 *		  gathers until the flush under way is over (M13).
 *		- Memory is bounded: fl_ingest_add returns FL_ERR_SHARD_BUSY when the
 *		  shard's share (fleetlog.ingest_memory) is used up; the caller then
 *		  stops reading the connection (FL_INGEST_WAIT) or sheds QoS 0.
 *		- A connection that ended because of a record that was not written has
 *		  none of its later ones written behind it: the device sends all of them
 *		  again, in order.
 *		- When the appender was restarted, what was handed over and not yet
 *		  answered is reported as FL_ERR_INTERNAL: the caller closes those
 *		  connections without an ack, so that devices send again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_INGEST_H
#define FLEETLOG_INGEST_H

#include "datatype/timestamp.h"

#include "fleetlog/errors.h"
#include "fleetlog/shmem.h"

typedef struct FlIngestRecord
{
	Oid			stream;
	int32		shards;			/* of the stream, to compute the shard */
	bool		quorum;
	int			codec;			/* FL_CODEC_* of the stream */
	int32		max_record_bytes;	/* of the stream, 0 = the setting */
	const uint8 *shard_key;		/* NULL: round robin by batch */
	int32		shard_key_len;
	const uint8 *key;			/* record key; NULL = none */
	int32		key_len;
	const uint8 *payload;		/* NULL = tombstone */
	int32		payload_len;
	int64		created_ms;		/* FL_NO_TIMESTAMP if the device gave none */
	const char *tenant;			/* authenticated sender; NULL when not a device */
	const char *device;
	bool		sender_in_headers;	/* tenant and device lead the headers already, and are reserved */
	int			reserved;		/* how many of the headers are ours */
	const uint8 *headers;		/* Kafka array: varint count, then headers (headers.h) */
	int32		headers_len;
	bool		state;			/* its value goes into a state table (state.h), as the mounts were */
	uint32		mounts;			/* fl_catalog_mounts_digest of these mounts */
	uint8	   *event;			/* session event: RECEIVED, whose distance is set here, or WILL_DONE; NULL = none */
	uint32		event_len;
	bool		wait;			/* somebody waits for the position (QoS 1, 2) */
	uint64		conn_id;		/* handed back; 0 = nobody */
	uint64		cookie;			/* handed back, e.g. packet identifier */
} FlIngestRecord;

/*
 * Called in the door's process when a waited-for record's fate is known.
 * err is FL_ERR_NONE when the record is durable at (stream, shard, offset).
 * Returns whether the connection goes on.
 */
typedef bool (*FlIngestDone) (void *arg, uint64 conn_id, uint64 cookie, FlError err,
							  Oid stream, int32 shard, int64 log_offset);

typedef struct FlIngest FlIngest;

/* One per front door, in its main memory context. */
extern FlIngest *fl_ingest_create(int door, FlIngestDone done, void *arg);

/*
 * Queue a record.  FL_ERR_NONE: accepted, `done` will be called if rec->wait.
 * FL_ERR_SHARD_BUSY: no room now; nothing was taken, call again after
 * fl_ingest_poll has made room.  FL_ERR_RECORD_TOO_LARGE and the like: refused.
 * No transaction needed.
 */
extern FlError fl_ingest_add(FlIngest *ing, const FlIngestRecord *rec);

/* A batch as a producer has built it, which has passed fl_batch_check. */
typedef struct FlIngestForeign
{
	Oid			stream;
	int32		shards;			/* of the stream, as the producer knows it */
	int32		shard;
	const uint8 *body;			/* record batch v2; copied */
	uint32		body_len;
	int32		nrecords;
	int64		min_created;	/* FL_NO_CREATED if no record has a time */
	int64		max_created;
	int64		max_timestamp;	/* to be put right in the header; FL_NO_CREATED: it is right */
	uint32		off_key;		/* records whose key belongs to another shard */
	const char *tenant;			/* authenticated sender; NULL when not a device */
	const char *device;
	const char *role;			/* NULL when not a role */
	bool		state;			/* some mount of the stream has a state table */
	uint32		mounts;			/* fl_catalog_mounts_digest of these mounts */
	uint64		conn_id;
	uint64		cookie;
} FlIngestForeign;

/*
 * Is there room for so many bytes of the shard, and for so many in all?  False also
 * while the number of shards is changing.  A batch larger than
 * fl_ring_max_body() never fits.
 */
extern bool fl_ingest_foreign_fits(FlIngest *ing, Oid stream, int32 shards, int32 shard, int64 bytes, int64 all);

/*
 * Queue it; fl_ingest_foreign_fits was asked before.  `done` is called once, with
 * the offset of its first record.
 */
extern FlError fl_ingest_add_foreign(FlIngest *ing, const FlIngestForeign *batch);

/* Within `done` of a record that was written: its append time. */
extern TimestampTz fl_ingest_append_time(const FlIngest *ing);

/* Events of a session that belong to no record, to be written to the journal. */
typedef struct FlIngestEvents
{
	Oid			journal;		/* fl_journal_stream */
	const uint8 *bytes;
	uint32		len;
	bool		wait;
	uint64		conn_id;
	uint64		cookie;
} FlIngestEvents;

/*
 * Likewise; they become a record of the journal, and are applied when it commits.
 * The disk reserve does not stop them.
 */
extern FlError fl_ingest_add_events(FlIngest *ing, const FlIngestEvents *events);

/*
 * Write what should go now without the appender, where that is possible: nobody
 * else writes to the shard, the transaction budget has a token, the disk is
 * quick.  Waits for the disk when somebody waits for a record.  What could not be
 * written is left for fl_ingest_flush.  Outside of transactions.  Returns true
 * when there may be acknowledgements to release now.
 */
extern bool fl_ingest_write(FlIngest *ing);

/*
 * Hand over the batches that should go now.  Returns milliseconds after which it
 * wants to be called again (lingering QoS 0), or -1.
 */
extern long fl_ingest_flush(FlIngest *ing);

/*
 * Milliseconds after which fl_ingest_write and fl_ingest_flush want to be called, as
 * things are behind fl_ingest_poll: 0 when something is due by what was released, -1
 * for never.
 */
extern long fl_ingest_due_in(FlIngest *ing);

/* Take results and durable tails, call `done`.  Returns how many calls it made. */
extern int	fl_ingest_poll(FlIngest *ing);

/* Bytes and records queued or under way, for shutdown and views. */
extern int64 fl_ingest_outstanding(FlIngest *ing);

/* How many records have ever been added: where one that is added next will be. */
extern uint64 fl_ingest_added(const FlIngest *ing);

/*
 * True: of the first so many that were added none is on its way any more, each is
 * durable or has failed.  Else they do not linger from here on, and the door is woken
 * when they may have passed.
 */
extern bool fl_ingest_await(FlIngest *ing, uint64 added);

/* True while the given stream's shard for this key has room for len more bytes. */
extern bool fl_ingest_has_room(FlIngest *ing);

#endif							/* FLEETLOG_INGEST_H */
