/*-------------------------------------------------------------------------
 *
 * reader.c
 *		The entry point of the reader, the process that reads the log for
 *		connections that are far behind; bgworker/mqtt/pass.c has its loop.
 *
 * A server that has no slot for it works all the same: front doors look by
 * themselves while there is none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/ipc.h"

#include "fleetlog/mqtt.h"
#include "fleetlog/worker.h"

PGDLLEXPORT void fl_main_reader(Datum arg);

void
fl_main_reader(Datum arg)
{
	fl_worker_begin(FL_WORKER_READER, 0, true);
	fl_mqtt_reader();
	proc_exit(0);
}
