/*-------------------------------------------------------------------------
 *
 * segment.c
 *		Making the next segment when nobody made it ahead.
 *
 * The keeper creates segments before they are needed; this is the way for
 * whoever finds none: a database without workers, or a load that outran the
 * keeper.  A session that reads the stream in the same transaction cannot do
 * it (the shard's table is in use) and is told so by the server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/lsyscache.h"

#include "fleetlog/catalog.h"
#include "log_private.h"

/* Leaves of the whole stream, for the ceiling on their number. */
static int
count_leaves(Oid stream, int32 shards)
{
	int			total = 0;

	for (int32 shard = 0; shard < shards; shard++)
	{
		int			n;

		(void) fl_segment_list(stream, shard, &n);
		total += n;
	}
	return total;
}

void
fl_segment_extend(Oid stream, int32 shard, int64 offset)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	const FlSegment *list;
	int			n,
				total;
	int64		lower = offset;
	int64		width;

	if (info == NULL)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_NO_STREAM)),
				 errmsg("table \"%s\" is not a stream",
						get_rel_name(stream) ? get_rel_name(stream) : "?")));
	total = count_leaves(stream, info->shards);
	list = fl_segment_list(stream, shard, &n);
	if (n > 0)
	{
		/* Behind the last one; retention may have removed those in between. */
		if (list[n - 1].upper <= offset)
			lower = list[n - 1].upper;
		else
			for (int i = 0; i < n; i++)
				if (list[i].lower > offset)
				{
					fl_segment_create(stream, shard, offset, list[i].lower);
					return;
				}
	}
	width = fl_segment_width(info, 0, 0, n, total);
	while (lower + width <= offset)
		width *= 2;
	fl_segment_create(stream, shard, lower, lower + width);
}
