/*-------------------------------------------------------------------------
 *
 * shadow.c
 *		Requests to device shadows: when the state worker has to look for them.
 *
 * What a request means is SQL (sql/modules/085_shadow.sql), which changes a shadow,
 * answers and notes how far it has read in one transaction.  Here is only the moment:
 * when a durable tail of the shadows' stream has moved since the last look.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/snapmgr.h"

#include "fleetlog/config.h"
#include "state_internal.h"

#define MAX_RECORDS		"256"

bool
fl_state_has_shadows(void)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);

	for (int i = 0; i < n; i++)
		if (strcmp(mounts[i].prefix, FL_SHADOW_PREFIX) == 0)
			return true;
	return false;
}

/* Sum of the durable tails of the shadows' stream: it moves when one of them does. */
static int64
tails(void)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);
	int64		sum = 0;

	for (int i = 0; i < n; i++)
	{
		const FlStreamInfo *info = strcmp(mounts[i].prefix, FL_SHADOW_PREFIX) == 0 ? fl_stream_lookup(mounts[i].stream) : NULL;

		for (int32 s = 0; info != NULL && s < info->shards; s++)
		{
			FlShard    *shard = fl_shard_find(info->relid, s);

			sum += shard != NULL ? fl_shard_durable_tail(shard) : 0;
		}
	}
	return sum;
}

bool
fl_state_shadow_run(void)
{
	static int64 seen = -1;		/* at start there may be requests of before */
	int64		now;
	bool		isnull;
	int64		n = 0;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	now = fl_state_has_shadows() ? tails() : seen;
	if (now != seen)
		n = fl_config_query_int("SELECT fleetlog._shadow_run(" MAX_RECORDS ")", 0, NULL, NULL, &isnull);
	PopActiveSnapshot();
	CommitTransactionCommand();
	/* As long as it finds some there may be more. */
	if (n == 0)
		seen = now;
	return n > 0;
}
