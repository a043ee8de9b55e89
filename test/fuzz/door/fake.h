/*-------------------------------------------------------------------------
 *
 * fake.h
 *	  What stands below a front door when it is fuzzed (fuzz_connection.c).
 *
 * The door's own files (bgworker/mqtt), the store of sessions, the registry and
 * the groups of shared subscriptions are the real ones.  What they stand on is
 * made up here, in memory and without waiting:
 *
 *		server.c	the server: memory contexts, errors, hash tables, times
 *		log.c		catalog, log, ingest, state tables
 *		logins.c	who may log in
 *		net.c		the event loop, whose peer is the fuzzer
 *
 * Memory comes from malloc piece by piece, so that the address sanitizer knows
 * the bounds of each, and a context that is deleted makes what it had unusable.
 * An error (ereport at ERROR) is a finding: nothing here raises one, so a door
 * that does has been brought to it by bytes of a client.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_FUZZ_DOOR_FAKE_H
#define FL_FUZZ_DOOR_FAKE_H

#include "postgres.h"

#include "fleetlog/net.h"
#include "fleetlog/session.h"

#include "../fl_fuzz.h"

/* ---- server.c ---- */

extern void fake_server_begin(void); /* once for each input, first */
extern void fake_server_end(void);   /* ... and last: gives all memory back */
extern uint32 fake_random(uint32 below);
extern void fake_seed(uint32 seed);
extern int64 fake_now_us; /* since 2000, as the server counts */
extern int fake_context_count(void);

/* ---- log.c ---- */

extern void fake_log_begin(void);
/* At most so many answers are given at the next polls; -1: all. */
extern int fake_ingest_answers;
/* One in so many is that the record could not be written; 0: none. */
extern uint32 fake_ingest_faults;
extern bool fake_ingest_full;
/* A record that somebody else has written. */
extern void fake_log_append(const char *topic, const char *payload, int qos, bool retain);
extern int fake_ingest_waiting(void);
/* Entries of the registry of connections. */
extern int fake_registered(void);

/* ---- logins.c ---- */

/* No answer comes to a password that has to be checked. */
extern bool fake_logins_wait;

/* ---- net.c ---- */

/* A peer connects; it stays valid until fake_net_gone() says so. */
extern FlNetConn *fake_net_connect(const FlNetProtocol *protocol);
/* Bytes for a connection, given to it in the next turn. */
extern void fake_net_send(FlNetConn *conn, const uint8 *data, size_t len);
/* The peer closes its side without a word. */
extern void fake_net_hang_up(FlNetConn *conn);
extern bool fake_net_is_there(const FlNetConn *conn);
/* The peer takes nothing of what it is sent. */
extern bool fake_net_stuck;
extern FlNetLoop *fake_net_loop(void);

/* What the door sends is handed to this before it is counted as sent. */
extern void fake_net_check(FlNetConn *conn, const uint8 *data, size_t len);

#endif /* FL_FUZZ_DOOR_FAKE_H */
