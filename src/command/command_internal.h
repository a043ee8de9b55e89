/*-------------------------------------------------------------------------
 *
 * command_internal.h
 *		What the files of src/command share: rights and the checks of arguments that
 *		send_command and create_job have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_COMMAND_INTERNAL_H
#define FL_COMMAND_INTERNAL_H

#include "fmgr.h"
#include "utils/timestamp.h"

/* Raises 42501 where the current role may not command the tenant's devices. */
extern void fl_command_check_tenant(text *tenant);

/* Raise 22023, or 54000, where they are not valid. */
extern void fl_command_check_name(text *name);
extern void fl_command_check_payload(Datum payload);

/* Microseconds; raises 22023. */
extern int64 fl_command_checked_ttl(const Interval *ttl);

/* That of the argument, or the default for this ttl where it is NULL. */
extern Interval *fl_command_checked_answer_timeout(FunctionCallInfo fcinfo, int arg, int64 ttl_us);

#endif							/* FL_COMMAND_INTERNAL_H */
