/*-------------------------------------------------------------------------
 *
 * launcher.h
 *		The process that starts all others, and how to speak to it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_LAUNCHER_H
#define FLEETLOG_LAUNCHER_H

/* From _PG_init, when preloaded.  Registers nothing during pg_upgrade. */
extern void fl_launcher_register(void);

/* It is worth to look again at once: something that was missing may be there now. */
extern void fl_launcher_retry(void);

#endif							/* FLEETLOG_LAUNCHER_H */
