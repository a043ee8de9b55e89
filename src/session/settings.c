/*-------------------------------------------------------------------------
 *
 * settings.c
 *		The settings of sessions; docs/mqtt.md tells what each does at its limit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "session_internal.h"

int			fl_max_sessions = 100000;
int			fl_session_memory_kb = 32768;
int			fl_max_session_expiry_s = 3600;
int			fl_journal_kb = 65536;

/* Called when the library is preloaded only, like the others of the front door. */
void
fl_session_define_settings(void)
{
	DefineCustomIntVariable("fleetlog.max_sessions",
							"Sessions that are kept beyond their connections, over all front doors.",
							"One more is refused with \"quota exceeded\".",
							&fl_max_sessions, 100000, 10, 10000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.session_memory",
							"Shared memory for what sessions remember of messages.",
							"When it is nearly used up, new sessions are refused with \"quota exceeded\".",
							&fl_session_memory_kb, 32768, 64, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_session_expiry",
							"Longest time that a session is kept after its connection has gone.",
							"MQTT 5 clients that ask for more are told. Zero: no session is kept.",
							&fl_max_session_expiry_s, 3600, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.session_journal_size",
							"Events of sessions after which a snapshot of all sessions is written.",
							"It is what has to be read at server start.",
							&fl_journal_kb, 65536, 8, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
}
