/*-------------------------------------------------------------------------
 *
 * headers.h
 *	  The header list of a record.
 *
 * Two encodings:
 *
 *	the Kafka array	varint count, then per header: varint name length, name,
 *					varint value length (-1 = NULL), value
 *	FlHeaders		one byte `reserved`, then the Kafka array.  The first
 *					`reserved` headers are ours (from MQTT properties, or
 *					`fl.*`); all others come from the sender, whatever they are
 *					called, and are never believed.
 *
 * FlHeaders is the form everywhere in fleetlog: it is the content of the SQL
 * type fleetlog.headers and what a front door hands to ingest.  In a record
 * the reserved count travels in the record's attributes byte, so that the
 * array is exactly Kafka's.
 *
 * Names are PostgreSQL text (valid UTF-8 without U+0000), may be empty and may
 * repeat; values are bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_HEADERS_H
#define FLEETLOG_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

#define FL_HEADERS_MAX_COUNT    1024  /* headers of one record */
#define FL_HEADERS_MAX_RESERVED 127   /* of these, ours */
#define FL_HEADERS_MAX_NAME     32768 /* bytes of a name */

/* The FlHeaders form of an empty list: {0, 0}. */
#define FL_HEADERS_EMPTY_SIZE 2
extern const uint8_t fl_headers_empty[FL_HEADERS_EMPTY_SIZE];

/* ---------- builder ---------- */

/*
 * Appends one FlHeaders list to a buffer, which may hold other bytes in front
 * of it.  Reserved headers come first.  Failure is sticky and reported by end.
 */
typedef struct FlHeadersBuilder
{
	FlBuf *buf;   /* borrowed */
	size_t start; /* where the list begins in buf */
	int count;
	int reserved;
	FlResult result; /* first failure */
} FlHeadersBuilder;

extern void fl_headers_builder_begin(FlHeadersBuilder *b, FlBuf *buf);

/* Adds a header of ours: only before the first fl_headers_builder_add. */
extern void fl_headers_builder_add_reserved(FlHeadersBuilder *b, const void *name, size_t name_len, const void *value,
											int64_t value_len);

/*
 * Adds headers of ours that are encoded already as they stand in the array.
 * For names that are constants of the program: nothing is checked but limits.
 */
extern void fl_headers_builder_add_encoded(FlHeadersBuilder *b, const uint8_t *bytes, size_t len, int count);

/* Adds a header of the sender. value_len -1 = NULL. Name and value are copied. */
extern void fl_headers_builder_add(FlHeadersBuilder *b, const void *name, size_t name_len, const void *value,
								   int64_t value_len);

/*
 * Completes the list: buf holds it from b->start on.  FL_TOO_LARGE when a
 * limit or the buffer is exceeded, FL_MALFORMED for a name that is not text or
 * a reserved header behind others; the buffer is then cut back to b->start.
 */
extern FlResult fl_headers_builder_end(FlHeadersBuilder *b);

/* ---------- reading ---------- */

typedef struct FlHeader
{
	const uint8_t *name;  /* borrowed from the list */
	const uint8_t *value; /* NULL when value_len is -1 */
	int32_t name_len;
	int32_t value_len; /* -1 = NULL */
	int index;         /* 0, 1, ... */
	bool is_reserved;  /* one of ours */
} FlHeader;

typedef struct FlHeaderIter
{
	FlReader r;
	int count; /* as announced; 0 when the list is malformed */
	int next;
	int reserved;
	FlResult result; /* FL_OK, or why the iteration ended early */
} FlHeaderIter;

/* Over the FlHeaders form. */
extern void fl_header_iter_init(FlHeaderIter *it, const uint8_t *headers, size_t len);

/* Over a record's Kafka array and attributes byte. */
extern void fl_header_iter_init_kafka(FlHeaderIter *it, uint8_t reserved, const uint8_t *array, size_t len);

/* Over an array without its count, as a record of the log has it (FlLogRecord). */
extern void fl_header_iter_init_record(FlHeaderIter *it, int reserved, int32_t count, const uint8_t *array, size_t len);

/*
 * True and the next header, or false at the end; then it->result says whether
 * the whole list was well formed (bounds, limits, no bytes left over).  UTF-8
 * of the names is checked only by fl_headers_validate*, once per list.
 */
extern bool fl_header_iter_next(FlHeaderIter *it, FlHeader *h);

/* FL_OK, FL_MALFORMED or FL_TOO_LARGE (a limit above) for exactly len bytes. */
extern FlResult fl_headers_validate(const uint8_t *headers, size_t len);
extern FlResult fl_headers_validate_kafka(uint8_t reserved, const uint8_t *array, size_t len);

/* The first reserved header of that name; false when there is none. */
extern bool fl_headers_find_reserved(const uint8_t *headers, size_t len, const char *name, FlHeader *found);

#endif /* FLEETLOG_HEADERS_H */
