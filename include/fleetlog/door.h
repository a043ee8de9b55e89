/*-------------------------------------------------------------------------
 *
 * door.h
 *		What front doors do alike, whatever protocol they speak: waiting for
 *		sockets and latch, figures of the worker, an orderly end.
 *		Code: bgworker/main/door.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_DOOR_H
#define FLEETLOG_DOOR_H

#include "storage/latch.h"

#include "fleetlog/ingest.h"
#include "fleetlog/net.h"

/* A door's figures go to its slot, and its connections to their views, so often (ms). */
#define FL_DOOR_STATS_MS 1000

/* fleetlog.log_connections: which ends of connections have a line in the log. */
typedef enum FlEnds
{
	FL_ENDS_OFF,
	FL_ENDS_FAULTS, /* those that nobody wanted */
	FL_ENDS_ALL
} FlEnds;

/* A setting of the MQTT door that means all doors. */
extern int fl_log_connections;

/* Latch, the postmaster's death, the door's sockets. */
extern WaitEventSet *fl_door_wait_set(FlNetLoop *net);

/*
 * Waits at most `timeout` ms (-1: no limit), and says whether the sockets have to be
 * asked afterwards.  A wait that was ended by the latch says nothing about sockets for
 * certain (a latch that is already set is reported alone), so one turn may leave them
 * out, and the next may not: `polled` says whether the one before has asked them.
 */
extern bool fl_door_wait(WaitEventSet *set, long timeout, bool polled);

/* The shorter of two waits in ms, of which -1 has no limit. */
extern long fl_door_shorter(long a, long b);

/* The worker's counters and state in its slot; memory is that of `context` and below. */
extern void fl_door_report(FlNetLoop *net, MemoryContext context, bool stopping);

/*
 * What FlNetProtocol.on_psk has to do: the key of the device that the identity names,
 * read in a transaction, which the end of the turn ends; *attached is its FlIdentity, in
 * `context`.  What goes wrong is caught: an error must not leap over OpenSSL.
 */
extern int fl_door_find_psk(MemoryContext context, MemoryContext turn, const char *identity, uint8 *key, int room,
							void **attached);

/*
 * The end of a door, which has stopped listening: first what was taken is written
 * and acknowledged, as far as FL_SHUTDOWN_GRACE_MS allows; then the door tells everybody
 * to go; then the last bytes leave, for half of that time.
 */
extern void fl_door_drain(FlNetLoop *net, FlIngest *ingest);
extern void fl_door_see_off(FlNetLoop *net);

#endif /* FLEETLOG_DOOR_H */
