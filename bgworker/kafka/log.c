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
fl_kafka_log_allowed(FlKafkaDoor *door)
{
	static int64 window_ms = 0;
	static int lines = 0;
	static uint64 suppressed = 0;
	int64 now = fl_net_now(door->net);

	if (now - window_ms >= WINDOW_MS || now < window_ms)
	{
		if (suppressed > 0)
			ereport(LOG,
					(errmsg("fleetlog: the Kafka door left out " UINT64_FORMAT " log lines like the next one", suppressed)));
		window_ms = now;
		lines = 0;
		suppressed = 0;
	}
	if (lines < LINES)
	{
		lines++;
		return true;
	}
	suppressed++;
	return false;
}
