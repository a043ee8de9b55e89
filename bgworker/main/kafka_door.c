/*
 * kafka_door.c
 *		Entry point of the worker that speaks Kafka.
 *
 * What it does is bgworker/kafka's business; here it is only made a worker like
 * the others.  It is the front door behind those that speak MQTT, so that rings,
 * wake-ups and slots treat it as one of them.
 */
#include "postgres.h"

#include "storage/ipc.h"

#include "fleetlog/kafka.h"
#include "fleetlog/worker.h"

PGDLLEXPORT void fl_main_kafka_door(Datum arg);

void
fl_main_kafka_door(Datum arg)
{
	int index = DatumGetInt32(arg);

	fl_worker_begin(FL_WORKER_FRONT_DOOR, index, true);
	/* There is no statement to cancel, only connections to lose. */
	fl_worker_ignore_cancels();
	fl_kafka_front_door(index);
	proc_exit(0);
}
