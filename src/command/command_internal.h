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
#include "utils/array.h"
#include "utils/timestamp.h"

/* Whose devices the current role may command. */
typedef struct FlCommandTenants
{
	bool		all;
	ArrayType  *names;			/* text[], where not all; never NULL */
} FlCommandTenants;

/* Raises 42501 where there is none. */
extern FlCommandTenants fl_command_tenants(void);

/* Raise 42501 for another tenant, or a tenant/device of another, whether there is one or not; a bare id tells no tenant. */
extern void fl_command_check_tenant(const FlCommandTenants *may, const char *tenant, int len);
extern void fl_command_check_device(const FlCommandTenants *may, text *name);

/* In an ereport() of something that was not found: where it was looked for.  The same whether others have it or not. */
extern int	fl_command_not_there(const FlCommandTenants *may);

/* Raise 22023, or 54000, where they are not valid. */
extern void fl_command_check_name(text *name);
extern void fl_command_check_payload(Datum payload);

/* Microseconds; raises 22023. */
extern int64 fl_command_checked_ttl(const Interval *ttl);

/* That of the argument, or the default for this ttl where it is NULL. */
extern Interval *fl_command_checked_answer_timeout(FunctionCallInfo fcinfo, int arg, int64 ttl_us);

#endif							/* FL_COMMAND_INTERNAL_H */
