/*-------------------------------------------------------------------------
 *
 * init.c
 *		What src/log does when the library is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "log_private.h"

void
fl_log_init(void)
{
	/* A resource manager can only be registered while the server starts. */
	if (process_shared_preload_libraries_in_progress)
		fl_wal_register();
}
