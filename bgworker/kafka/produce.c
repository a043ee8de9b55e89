/*
 * produce.c
 *		Produce: batches checked and handed to ingest, answered when durable.
 */
#include "postgres.h"

#include "kafka.h"

bool
fl_kafka_ingest_done(void *arg, uint64 conn_id, uint64 cookie, FlError err, Oid stream, int32 shard, int64 log_offset)
{
	return true;
}
