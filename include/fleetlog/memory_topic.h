/*-------------------------------------------------------------------------
 *
 * memory_topic.h
 *		Topics that are carried in memory only (M3): messages at QoS 0 that no
 *		stream keeps, from one front door to all.
 *
 * One ring in shared memory.  A door writes a message behind the others and every
 * door reads all of them, each at its own pace.  Who is slower than a whole ring
 * misses messages, and is told how many; nobody waits for anybody.
 *
 * Locking contract: one lock of the module, exclusive to write and shared to read,
 * held for as long as it takes to copy; nobody holds it while taking another.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_MEMORY_TOPIC_H
#define FLEETLOG_MEMORY_TOPIC_H

#include "datatype/timestamp.h"

/* A message; everything is borrowed. */
typedef struct FlMemoryMessage
{
	TimestampTz ts;				/* of the append clock; set by fl_memory_publish */
	const uint8 *topic;
	const uint8 *payload;
	const uint8 *headers;		/* Kafka array: varint count, then headers (headers.h) */
	const uint8 *tenant;		/* the authenticated sender; length 0: not a device */
	const uint8 *device;
	uint32		topic_len;
	uint32		payload_len;
	uint32		headers_len;
	uint32		tenant_len;
	uint32		device_len;
	uint32		reserved;		/* how many of the headers are ours */
} FlMemoryMessage;

/* How far a door has read. */
typedef struct FlMemoryCursor
{
	uint64		pos;			/* bytes from the first message ever */
	uint64		number;			/* of the next message */
} FlMemoryCursor;

/* Bytes that one message may have in the ring, a quarter of it; so much room a reader needs. */
extern Size fl_memory_message_max(void);

/* False: it is too large. */
extern bool fl_memory_publish(FlMemoryMessage *message);

/* What is published from now on. */
extern void fl_memory_start(FlMemoryCursor *at);

/* Is there something to read?  Takes no lock. */
extern bool fl_memory_has_more(const FlMemoryCursor *at);

/*
 * Copies whole messages into room, of fl_memory_message_max bytes; returns how many
 * bytes.  *lost: messages that were overwritten before they could be read.
 */
extern Size fl_memory_read(FlMemoryCursor *at, uint8 *room, uint64 *lost);

/* The message at `offset` of what was read, which moves behind it. */
extern void fl_memory_decode(const uint8 *room, Size *offset, FlMemoryMessage *message);

/* A door has subscribers of such topics, or none; those that have are woken for others' messages. */
extern void fl_memory_want(int door, bool wanted);
extern void fl_memory_wake_others(int door);

#endif							/* FLEETLOG_MEMORY_TOPIC_H */
