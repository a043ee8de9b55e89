/*-------------------------------------------------------------------------
 *
 * guest.h
 *		Shared state beyond shmem.h: listeners for the view, the disk reserve, the
 *		flusher's pass, the confirmer's, and pause.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_GUEST_H
#define FLEETLOG_GUEST_H

#include "fleetlog/shmem.h"

/* ---- Publication of tails --------------------------------------------------- */

/*
 * One pass: copy the tails that commits have left, flush WAL up to the newest of
 * their commits, publish the copied tails.  Returns true when there was
 * something to do.  The flusher's work; appender and doors do it for themselves
 * where fl_flush_is_quick.
 */
extern bool fl_flush_pass(void);

/* May a process that has other duties wait for the disk? */
extern bool fl_flush_is_quick(void);

/*
 * See to it that what was committed before this call is published: by ourselves
 * when no flusher runs, else by waking it and waiting, at most a second (it may
 * be held back by a stop point or a slow disk; then readers see it later).
 * No lock may be held.  Usable by any backend, outside or after a transaction.
 */
extern void fl_flush_published(void);

/* Is there a flusher, so that tails are published without anybody's doing? */
extern bool fl_flusher_runs(void);

/* True when no commit waits for publication. */
extern bool fl_flush_is_idle(void);

/*
 * Publish what the standbys have confirmed up to this LSN.  Returns true when a
 * quorum shard still waits for more.  Only for the confirmer.
 */
extern bool fl_confirm_pass(XLogRecPtr confirmed);

/* Ask that WAL up to here be confirmed, though no stream has a commit there. */
extern void fl_confirm_want(XLogRecPtr lsn);

/* ---- Disk reserve (O4) -------------------------------------------------------- */

/* While it is true nothing new is taken (FL_ERR_DISK_RESERVE). */
extern bool fl_disk_reserve_reached(void);

/* Look at both volumes.  Returns what is free on the fuller one in MB, -1 when that cannot be told. */
extern int64 fl_disk_reserve_look(void);

/* Records were written, and WAL ends here or later: look, if WAL has grown so much since the last look. */
extern void fl_disk_reserve_wrote(XLogRecPtr end);

/* ---- Listeners ------------------------------------------------------------------ */

#define FL_MAX_LISTENERS	256 /* over all doors, for the view */
#define FL_LISTENER_ADDRESS 96

typedef struct FlListenerInfo
{
	int			door;			/* -1: free */
	int			pid;
	char		protocol[16];	/* mqtt, mqtts, ws, wss */
	char		address[FL_LISTENER_ADDRESS];	/* host:port as bound */
	char		state[FL_LISTENER_ADDRESS]; /* "listening", or why not */
	uint64		accepted;
	uint64		open;
	uint64		handshakes;		/* of TLS that have succeeded */
	uint64		resumed;		/* of those: by a ticket */
	uint64		failed_handshakes;
} FlListenerInfo;

/*
 * A door shows a listener; returns its number for fl_listener_count, -1 when the
 * table is full (then only the view lacks it).  The same door, protocol and
 * address again replaces the state.
 */
extern int	fl_listener_show(int door, const char *protocol, const char *address, const char *state);
extern void fl_listener_hide(int listener);

/* A connection was accepted (delta_open 1) or closed (-1). */
extern void fl_listener_count(int listener, int accepted, int delta_open);

/* A TLS handshake has ended: well or not, and well by a ticket. */
extern void fl_listener_tls(int listener, bool succeeded, bool resumed);

/* All listeners of a door, when it starts anew or leaves. */
extern void fl_listener_clear_door(int door);

#endif							/* FLEETLOG_GUEST_H */
