/*-------------------------------------------------------------------------
 *
 * worker_internal.h
 *		What the files of bgworker/main share among themselves and with the
 *		private part of shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_WORKER_INTERNAL_H
#define FLEETLOG_WORKER_INTERNAL_H

#include "../../src/shmem/shmem_internal.h"

/* In a transaction, in a connected process. */
extern bool fl_extension_exists(void);

/* retention.c: what the keeper does for a stream, outside a transaction, and after all of them. */
struct FlStreamInfo;
extern void fl_retention_run(const struct FlStreamInfo *stream);
extern void fl_retention_end_turn(void);

/*
 * password.c: does the password belong to the SCRAM verifier?  user is for the
 * server's own messages.  May raise an error (out of memory).
 */
extern bool fl_password_matches(const char *user, const char *password, const char *secret);

#endif							/* FLEETLOG_WORKER_INTERNAL_H */
