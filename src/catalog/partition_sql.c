/*-------------------------------------------------------------------------
 *
 * partition_sql.c
 *	  fleetlog._partition(key, shards): the one partitioner, for SQL.
 *
 * Which shard a record goes to is decided in C at every door by fl_partition;
 * this shows the same decision, for tests, checks and people who ask where a
 * key lives (requirement P1).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "fleetlog/compat.h"
#include "fleetlog/murmur2.h"

PG_FUNCTION_INFO_V1(fl_sql_partition);

Datum
fl_sql_partition(PG_FUNCTION_ARGS)
{
	bytea *key = PG_GETARG_BYTEA_PP(0);
	int32 shards = PG_GETARG_INT32(1);

	if (shards < 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("number of shards must be at least 1")));
	PG_RETURN_INT32(fl_partition((const uint8_t *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), shards));
}
