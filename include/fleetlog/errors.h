/*-------------------------------------------------------------------------
 *
 * errors.h
 *		One table of what can go wrong with a record, and how each door says it:
 *		SQLSTATE, MQTT 5 reason code, Kafka error code.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_ERRORS_H
#define FLEETLOG_ERRORS_H

#include <stdbool.h>
#include <stdint.h>

/* X(symbol, SQLSTATE, MQTT reason code, Kafka error code, text) */
#define FL_ERROR_TABLE(X) \
	X(FL_ERR_NONE,				"00000", 0x00,   0, "success") \
	X(FL_ERR_OFFSET_TOO_OLD,	"LF101", 0x83,   1, "offset is older than the oldest record") \
	X(FL_ERR_TRIM_REFUSED,		"LF102", 0x83,  44, "the tail is not where the caller expects it") \
	X(FL_ERR_APPEND_ONLY,		"LF103", 0x83,  42, "stream is append-only") \
	X(FL_ERR_NOT_NEXT,			"LF104", 0x83,  42, "offset is not the next one") \
	X(FL_ERR_RECORD_TOO_LARGE,	"LF105", 0x97,  10, "record is too large") \
	X(FL_ERR_SHARD_BUSY,		"LF106", 0x89,   7, "shard is busy") \
	X(FL_ERR_STALE_PRODUCER,	"LF107", 0x83,  45, "the sequence is not the producer's next one") \
	X(FL_ERR_FENCED_PRODUCER,	"LF107", 0x83,  47, "the producer's epoch is over") \
	X(FL_ERR_OLD_DUPLICATE,		"LF107", 0x83,  46, "written before; its offset is not known any more") \
	X(FL_ERR_HELD,				"LF108", 0x83,  44, "records are held") \
	X(FL_ERR_DIVERGED,			"LF109", 0x83,  74, "the position is not in this log") \
	X(FL_ERR_NO_MOUNT,			"LF201", 0x90,  17, "no mount for this topic") \
	X(FL_ERR_NO_STREAM,			"42P01", 0x80,   3, "stream does not exist") \
	X(FL_ERR_NO_SHARD,			"22023", 0x80,   3, "shard does not exist") \
	X(FL_ERR_MAP_CHANGED,		"40001", 0x80,   6, "the number of shards has changed") \
	X(FL_ERR_NOT_AUTHORISED,	"42501", 0x87,  29, "not authorised") \
	X(FL_ERR_MALFORMED,			"22P03", 0x99,   2, "malformed record batch") \
	X(FL_ERR_UNSUPPORTED,		"0A000", 0x83,  76, "not supported") \
	X(FL_ERR_RETAIN,			"0A000", 0x9A,  76, "retained messages need a mount with a state table") \
	X(FL_ERR_DISK_RESERVE,		"53100", 0x97,  56, "the disk reserve is reached") \
	X(FL_ERR_QUOTA,				"53400", 0x97,  89, "quota exceeded") \
	X(FL_ERR_TOPIC_LEVELS,		"54000", 0x90,  17, "the topic has more levels than its mount takes") \
	X(FL_ERR_MEMORY_ONLY,		"0A000", 0x83,  76, "the topic is carried in memory only, at QoS 0") \
	X(FL_ERR_INTERNAL,			"XX000", 0x80,  -1, "internal error")

typedef enum FlError
{
#define X(sym, state, mqtt, kafka, text) sym,
	FL_ERROR_TABLE(X)
#undef X
	FL_N_ERRORS
} FlError;

typedef struct FlErrorInfo
{
	const char *sqlstate;
	uint8_t		mqtt_reason;
	int16_t		kafka_error;
	const char *text;
} FlErrorInfo;

/* Row of the table; an unknown value gives FL_ERR_INTERNAL's. */
extern const FlErrorInfo *fl_error_info(FlError err);

/* Was a batch refused by its producer's own sequence, so that nothing behind it is concerned but what the sequence says? */
extern bool fl_error_is_of_sequence(FlError err);

/* For ereport(errcode(fl_error_sqlstate(err))): the packed SQLSTATE. */
extern int	fl_error_sqlstate(FlError err);

/* The internal error for a packed SQLSTATE that was caught, else FL_ERR_INTERNAL. */
extern FlError fl_error_from_sqlstate(int sqlstate);

#endif							/* FLEETLOG_ERRORS_H */
