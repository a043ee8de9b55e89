/*-------------------------------------------------------------------------
 *
 * settings.c
 *		Settings of commands (docs/commands.md).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "fleetlog/command.h"

int			fl_command_max_ttl_s = 7 * 86400;
int			fl_command_max_payload_kb = 64;
int			fl_command_retention_min = 30 * 1440;

void
fl_command_define_settings(void)
{
	DefineCustomIntVariable("fleetlog.command_max_ttl",
							"Longest time that a command may take to reach its device.",
							"send_command refuses a longer one. The stream fleetlog.command_log must keep its records at least as long.",
							&fl_command_max_ttl_s, 7 * 86400, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.command_max_payload",
							"Largest payload of a command.",
							"send_command refuses a larger one with SQLSTATE 54000.",
							&fl_command_max_payload_kb, 64, 1, 1024,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.command_retention",
							"How long commands are kept when they are over, with their history.",
							"Zero: for ever.",
							&fl_command_retention_min, 30 * 1440, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MIN, NULL, NULL, NULL);
}
