/*-------------------------------------------------------------------------
 *
 * watch.h
 *		fleetlog-watch: what its parts share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_BIN_WATCH_H
#define FLEETLOG_BIN_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

typedef uint64_t Lsn;

/* A position by decoding: the n-th event of the transaction that ends at lsn; n 0: all of it. */
typedef struct Position
{
	Lsn			lsn;			/* 0: none */
	uint32_t	n;
} Position;

typedef struct Options
{
	const char *conninfo;
	const char *state;
	const char *slot;
	const char *prefix;
	const char *keys;			/* comma separated or a JSON array; NULL: all */
	const char *since;			/* JSON text as printed, NULL: from a snapshot */
	bool		temporary;
	bool		drop_slot;
	bool		no_slot;		/* watch() instead of decoding */
	bool		once;			/* --snapshot-only */
	bool		no_reconnect;
} Options;

/* What has been printed so far; a new attempt goes on behind it. */
typedef struct Progress
{
	Position	printed;		/* of the last event that was written out */
	bool		in_snapshot;	/* between the marks */
	Lsn			confirmed;		/* told the server */
	bool		refused;		/* the last attempt to stream was refused */
} Progress;

typedef enum Outcome
{
	OUTCOME_DONE,				/* asked to stop */
	OUTCOME_LOST,				/* connection gone: try again */
	OUTCOME_FATAL				/* will not get better */
} Outcome;

extern volatile bool stop_requested;

/* ---- util.c ---- */
extern void say(const char *fmt,...) __attribute__((format(printf, 1, 2)));

/*
 * NULL: no connection; *outcome is OUTCOME_FATAL where the next attempt would be
 * refused as well (no such role or database, a wrong password).
 */
extern PGconn *connect_or_say(const Options *opt, bool replication, Outcome *outcome);

/*
 * Say why the server has refused something, and what helps.  OUTCOME_LOST: it may go
 * better another time.  res NULL: the connection's message.
 */
extern Outcome say_refusal(PGconn *conn, const PGresult *res);
extern bool parse_lsn(const char *text, Lsn *out);
extern bool parse_position(const char *json, Position *out);
extern char *quoted_literal(PGconn *conn, const char *text);
extern char *replication_literal(const char *text);
extern char *formatted(const char *fmt,...) __attribute__((format(printf, 1, 2)));
extern bool print_line(const char *data, int len);

/* ---- snapshot.c ---- */

/*
 * Make the slot and print the state as of its beginning, between the marks.
 * A slot of that name that is there already is replaced.
 */
extern Outcome print_snapshot(PGconn *repl, const Options *opt, Progress *progress);

/* ---- follow.c ---- */

/* Is everything behind this position still to be had from the slot?  Says why not. */
extern Outcome slot_has(PGconn *repl, const Options *opt, Position since, bool *has);
extern Outcome follow_slot(PGconn *repl, const Options *opt, Progress *progress);

/* ---- sql.c ---- */

/* State and changes by fleetlog.watch(), until the end. */
extern Outcome follow_sql(Options *opt);

#endif							/* FLEETLOG_BIN_WATCH_H */
