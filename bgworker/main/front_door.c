/*
 * front_door.c
 *		Entry point of a front door worker.
 *
 * What a front door does is bgworker/mqtt's business; here it is only made a
 * worker like the others.  The argument is its number, from 0.
 */
#include "postgres.h"

#include "storage/ipc.h"

#include "fleetlog/mqtt.h"
#include "fleetlog/worker.h"

PGDLLEXPORT void fl_main_front_door(Datum arg);

void
fl_main_front_door(Datum arg)
{
	int index = DatumGetInt32(arg);

	fl_worker_begin(FL_WORKER_FRONT_DOOR, index, true);
	/* There is no statement to cancel, only connections to lose. */
	fl_worker_ignore_cancels();
	fl_mqtt_front_door(index);
	proc_exit(0);
}
