/*-------------------------------------------------------------------------
 *
 * segment_width.c
 *		How wide the next segment of a shard is.
 *
 * Retention removes whole segments, so they must be short against it; and each
 * of them is a table, which every plan and lock table pays for, so there must be
 * few.  The width follows the rate at which the last segment filled: it should
 * take a sixteenth of the retention to fill the next.  Whatever the rate does, a
 * shard then has some 18 segments.
 *
 * Where the ceilings are exceeded all the same (nothing expires, the rate rose a
 * thousandfold), each further segment is twice as wide as the one before would
 * have been: growth without end costs a logarithm.
 *
 * Pure arithmetic but for fl_segment_create_next.  Called by the keeper, by
 * sessions that find no segment (src/log/segment.c) and by create_stream.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "catalog_internal.h"
#include "fleetlog/errors.h"

PG_FUNCTION_INFO_V1(fl_sql_segment_width);

#define FALLBACK_RECORD_BYTES	64.0	/* a compressed reading, before anything is known */
#define PARTS			16		/* segments that a retention is divided into */
#define MIN_SPAN_S		60.0	/* shorter ones would cost more in DDL than they save */
#define FOREVER_SPAN_S	86400.0 /* nothing expires: few, large segments */
#define UNKNOWN_BITS	14		/* first segment where something will expire */
#define CEILING_BITS	34		/* above the ceilings; so many tiny records still fit one file */

static int64
power_of_two(double records)
{
	int			bits = FL_MIN_SEGMENT_BITS;

	while (bits < FL_MAX_SEGMENT_BITS && (double) ((int64) 1 << bits) < records)
		bits++;
	return (int64) 1 << bits;
}

/* The largest power of two that is not above the target. */
static int64
power_of_two_within(double records)
{
	int64		width = power_of_two(records);

	if ((double) width > records && width > ((int64) 1 << FL_MIN_SEGMENT_BITS))
		width /= 2;
	return width;
}

/*
 * Into how many segments a retention is divided.  Besides these a shard has the
 * one that is half expired, the one being filled and perhaps the next.
 */
static int
parts_of(const FlStreamInfo *stream)
{
	int			room = FL_MAX_SEGMENTS_STREAM / Max(stream->shards, 1) - 3;

	return Max(1, Min(PARTS, room));
}

double
fl_segment_span(const FlStreamInfo *stream)
{
	double		span = FOREVER_SPAN_S;

	if (stream->retention_age_us > 0)
		span = (double) stream->retention_age_us / USECS_PER_SEC / parts_of(stream);
	if (stream->segment_age_us > 0)
		span = Min(span, (double) stream->segment_age_us / USECS_PER_SEC);
	return Max(span, MIN_SPAN_S);
}

/* Before any record has come, only the targets say something. */
static int64
initial_width(const FlStreamInfo *stream)
{
	int64		width = (int64) 1 << FL_DEFAULT_SEGMENT_BITS;

	if (stream->segment_bytes > 0)
		width = power_of_two_within((double) stream->segment_bytes / FALLBACK_RECORD_BYTES);

	/* An unknown rate, and something is to expire: begin narrow, the next one is fitted. */
	if (stream->segment_age_us > 0 || stream->retention_age_us > 0 || stream->retention_bytes > 0)
		width = Min(width, (int64) 1 << UNKNOWN_BITS);
	return width;
}

/*
 * Above a ceiling each further segment of a shard is twice as wide as the one
 * before; above that of the stream, when every shard had one more.
 */
static int64
widen(int64 width, int leaves_shard, int leaves_stream, int shards)
{
	int			over = leaves_shard - FL_MAX_SEGMENTS_SHARD;

	if (leaves_stream >= FL_MAX_SEGMENTS_STREAM)
		over = Max(over, (leaves_stream - FL_MAX_SEGMENTS_STREAM) / Max(shards, 1));
	for (; over >= 0 && width < ((int64) 1 << CEILING_BITS); over--)
		width *= 2;
	return width;
}

int64
fl_segment_width(const FlStreamInfo *stream, double rate, double record_bytes,
				 int leaves_shard, int leaves_stream)
{
	int64		width;
	double		bytes = record_bytes > 0 ? record_bytes : FALLBACK_RECORD_BYTES;

	if (rate <= 0)
		width = initial_width(stream);
	else
	{
		width = power_of_two(rate * fl_segment_span(stream));
		if (stream->segment_bytes > 0)
			width = Min(width, power_of_two_within((double) stream->segment_bytes / bytes));
		if (stream->retention_bytes > 0)
			width = Min(width, power_of_two((double) stream->retention_bytes / parts_of(stream) /
											Max(stream->shards, 1) / bytes));
	}
	return widen(width, leaves_shard, leaves_stream, stream->shards);
}

/* Leaves of one shard and of the whole stream. */
static void
count_leaves(const FlStreamInfo *stream, int32 shard, int *in_shard, int *in_stream)
{
	*in_shard = *in_stream = 0;
	for (int32 i = 0; i < stream->shards; i++)
	{
		int			n = 0;

		(void) fl_segment_list(stream->relid, i, &n);
		*in_stream += n;
		if (i == shard)
			*in_shard = n;
	}
}

Oid
fl_segment_create_next(Oid relid, int32 shard, int64 lower, double rate, double record_bytes)
{
	const FlStreamInfo *stream = fl_stream_lookup(relid);
	const FlSegment *list;
	int			n;
	int			in_shard,
				in_stream;
	int64		upper;

	if (stream == NULL)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_NO_STREAM)),
				 errmsg("table \"%s\" is not a stream", get_rel_name(relid) ? get_rel_name(relid) : "?")));
	count_leaves(stream, shard, &in_shard, &in_stream);
	upper = lower + fl_segment_width(stream, rate, record_bytes, in_shard, in_stream);

	/* Where a segment was cut off or removed, the new one ends where the next begins. */
	list = fl_segment_list(relid, shard, &n);
	for (int i = 0; i < n; i++)
		if (list[i].lower > lower)
		{
			upper = Min(upper, list[i].lower);
			break;
		}
	return fl_segment_create(relid, shard, lower, upper);
}

/* The same arithmetic for tests and for people who want to know. */
Datum
fl_sql_segment_width(PG_FUNCTION_ARGS)
{
	FlStreamInfo stream = {.shards = 1};
	Interval   *age = PG_ARGISNULL(0) ? NULL : PG_GETARG_INTERVAL_P(0);
	Interval   *segment_age = PG_ARGISNULL(8) ? NULL : PG_GETARG_INTERVAL_P(8);

	if (age)
		stream.retention_age_us = age->time + (age->day + (int64) age->month * DAYS_PER_MONTH) * USECS_PER_DAY;
	if (segment_age)
		stream.segment_age_us = segment_age->time + (segment_age->day + (int64) segment_age->month * DAYS_PER_MONTH) * USECS_PER_DAY;
	stream.retention_bytes = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1);
	stream.shards = PG_ARGISNULL(2) ? 1 : PG_GETARG_INT32(2);
	stream.segment_bytes = PG_ARGISNULL(7) ? 0 : PG_GETARG_INT64(7);
	PG_RETURN_INT64(fl_segment_width(&stream,
									 PG_ARGISNULL(3) ? 0 : PG_GETARG_FLOAT8(3),
									 PG_ARGISNULL(4) ? 0 : PG_GETARG_FLOAT8(4),
									 PG_ARGISNULL(5) ? 0 : PG_GETARG_INT32(5),
									 PG_ARGISNULL(6) ? 0 : PG_GETARG_INT32(6)));
}
