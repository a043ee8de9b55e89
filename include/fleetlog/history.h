/*-------------------------------------------------------------------------
 *
 * history.h
 *	  Where a subscriber wants to begin, as clients write it (requirements M11
 *	  and M12): the value of user property `fl-from`, and the topic form
 *	  `$s/<from>/<filter>`.
 *
 *		beginning						the oldest record there is
 *		2026-12-01T23:15:00.5Z			records appended at that time or later (RFC 3339)
 *		1796166900						the same in seconds since 1970, with a fraction if wanted
 *		0:17@2,1:5						next offset of each shard, with the leader epoch of the record before
 *		telemetry:0:17,alarms:0:3		the same where a filter reaches several streams
 *
 * A stream's name stands as it is where it begins with a letter or `_` and
 * goes on with letters, digits, `_`, `.` and `-`; other bytes are written
 * `%XX`.  `fl-resume` is written in this form, too.
 *
 * Sans-I/O: results borrow from the text, nothing is allocated, and a list of
 * places has been walked once, so that the walk over it cannot fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_HISTORY_H
#define FLEETLOG_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/result.h"

#define FL_HISTORY_MAX_PLACES 4096 /* of one text; a stream has at most 256 shards */
#define FL_HISTORY_PLACE_MAX  512  /* bytes of one place; a name may be schema and table, each byte encoded */

typedef enum FlHistoryKind
{
	FL_HISTORY_BEGINNING,
	FL_HISTORY_TIME,
	FL_HISTORY_PLACES
} FlHistoryKind;

typedef struct FlHistoryFrom
{
	FlHistoryKind kind;
	int64_t unix_us;       /* TIME: microseconds since 1970, a finer fraction cut off */
	const uint8_t *places; /* PLACES: the text, checked */
	size_t places_len;
	uint32_t place_count;
	bool with_streams; /* some place names a stream */
} FlHistoryFrom;

typedef struct FlHistoryPlace
{
	const uint8_t *stream; /* as written, len 0: not named */
	size_t stream_len;
	int32_t shard;
	int32_t epoch;  /* -1: none */
	int64_t offset; /* the next record */
} FlHistoryPlace;

/* Where a walk over places stands; start with zeroes. */
typedef struct FlHistoryCursor
{
	size_t at;
} FlHistoryCursor;

/*
 * FL_OK, or FL_MALFORMED and *why, FL_TOO_LARGE for more than
 * FL_HISTORY_MAX_PLACES places.  *why is static text for the client.
 */
extern FlResult fl_history_parse(const uint8_t *text, size_t len, FlHistoryFrom *from, const char **why);

/* The next place of a text that was parsed; false at its end. */
extern bool fl_history_next(const FlHistoryFrom *from, FlHistoryCursor *at, FlHistoryPlace *place);

/* Is the stream that the place names the one of this name? */
extern bool fl_history_names(const FlHistoryPlace *place, const char *name);

/*
 * Writes a place without a NUL: `name:` where name is not NULL, `@epoch` where
 * epoch is not negative.  Returns its length, 0 when there is no room for it.
 */
extern size_t fl_history_format_place(char *out, size_t room, const char *name, int32_t shard, int64_t offset,
									  int32_t epoch);

typedef enum FlHistoryTopic
{
	FL_HISTORY_TOPIC_NONE,  /* does not begin with `$s/` */
	FL_HISTORY_TOPIC_OK,    /* from and filter are set */
	FL_HISTORY_TOPIC_INVALID /* begins so, and is malformed; *why is set */
} FlHistoryTopic;

/*
 * Splits `$s/<from>/<filter>`: what follows must be a topic filter that is
 * neither shared nor has a `$s/` of its own.  `skip` is the length of what
 * stands before it.
 */
extern FlHistoryTopic fl_history_topic_parse(const uint8_t *s, size_t len, FlHistoryFrom *from, size_t *skip,
											 const char **why);

#endif /* FLEETLOG_HISTORY_H */
