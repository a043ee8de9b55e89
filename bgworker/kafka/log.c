/*
 * log.c
 *		Log lines of the Kafka door that do not flood: a few in a few seconds, then
 *		one that says how many were left out.
 */
#include "postgres.h"

#include "kafka.h"

#define WINDOW_MS 10000
#define LINES     10

bool
fl_kafka_log_allowed_of(FlKafkaDoor *door, FlKafkaLogKind kind)
{
	static struct
	{
		int64 window_ms;
		int lines;
		uint64 suppressed;
	} kinds[FL_KAFKA_LOG_KINDS];
	int64 now = fl_net_now(door->net);

	if (now - kinds[kind].window_ms >= WINDOW_MS || now < kinds[kind].window_ms)
	{
		if (kinds[kind].suppressed > 0)
			ereport(LOG, (errmsg("fleetlog: the Kafka door left out " UINT64_FORMAT " log lines like the next one",
								 kinds[kind].suppressed)));
		kinds[kind].window_ms = now;
		kinds[kind].lines = 0;
		kinds[kind].suppressed = 0;
	}
	if (kinds[kind].lines < LINES)
	{
		kinds[kind].lines++;
		return true;
	}
	kinds[kind].suppressed++;
	return false;
}

bool
fl_kafka_log_allowed(FlKafkaDoor *door)
{
	return fl_kafka_log_allowed_of(door, FL_KAFKA_LOG_MISTAKE);
}
