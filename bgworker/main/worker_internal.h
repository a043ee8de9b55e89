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

#endif							/* FLEETLOG_WORKER_INTERNAL_H */
