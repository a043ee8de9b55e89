/*-------------------------------------------------------------------------
 *
 * follow.c
 *		fleetlog-watch: the changes behind a position, by its slot.
 *
 * The server is told a position as written out once everything before it has
 * left this process (fflush), and only one that lies before the last position
 * that was printed, or is that position and names a whole transaction.  So who
 * was killed can resume behind the last event that he printed: the slot still
 * has the rest, and what was printed of it is skipped.
 *
 * Where nothing is to be printed for long, an event `progress` is, each time
 * PROGRESS_BYTES of WAL have passed: it gives a position that the server can be
 * told, so that an idle watch keeps no more WAL than that.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>

#include "watch.h"

#define STATUS_SECONDS		1	/* longest time between two reports of what was written */
#define PROGRESS_BYTES		(1024 * 1024)
#define POSTGRES_EPOCH_US	INT64_C(946684800000000)

static int64_t
now_us(void)
{
	struct timeval tv;

	gettimeofday(&tv, NULL);
	return (int64_t) tv.tv_sec * 1000000 + tv.tv_usec - POSTGRES_EPOCH_US;
}

static uint64_t
get64(const char *p)
{
	uint64_t	v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | (unsigned char) p[i];
	return v;
}

static void
put64(char *p, uint64_t v)
{
	for (int i = 7; i >= 0; i--, v >>= 8)
		p[i] = (char) (v & 0xff);
}

/* ---- what the slot still has ---------------------------------------------------- */

static Outcome
judge_slot(PGresult *res, const Options *opt, Position since, bool *has)
{
	Lsn			confirmed = 0;

	if (PQntuples(res) == 0)
		say("there is no slot \"%s\" any more: printing the state afresh", opt->slot);
	else if (strcmp(PQgetvalue(res, 0, 3), "t") != 0)
	{
		say("slot \"%s\" is not one of fleetlog in this database; choose another name with -S", opt->slot);
		return OUTCOME_FATAL;
	}
	else if (strcmp(PQgetvalue(res, 0, 1), "lost") == 0)
		say("slot \"%s\" was left behind by more than max_slot_wal_keep_size, its WAL is gone: printing the state afresh", opt->slot);
	else if (!parse_lsn(PQgetvalue(res, 0, 0), &confirmed) || confirmed > since.lsn ||
			 (confirmed == since.lsn && since.n > 0))
		say("slot \"%s\" has only what is behind %s, not what follows the position: printing the state afresh",
			opt->slot, PQgetvalue(res, 0, 0));
	else
		*has = true;
	return OUTCOME_DONE;
}

Outcome
slot_has(PGconn *repl, const Options *opt, Position since, bool *has)
{
	char	   *name = quoted_literal(repl, opt->slot);
	char	   *sql = formatted("SELECT confirmed_flush_lsn, coalesce(wal_status, ''), active_pid,"
								" coalesce(plugin = 'fleetlog' AND database = pg_catalog.current_database(), false)"
								" FROM pg_catalog.pg_replication_slots WHERE slot_name = %s", name);
	PGresult   *res = PQexec(repl, sql);
	Outcome		outcome;

	*has = false;
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		outcome = say_refusal(repl, res);
	else
		outcome = judge_slot(res, opt, since, has);
	PQclear(res);
	PQfreemem(name);
	free(sql);
	return outcome;
}

/* ---- streaming ------------------------------------------------------------------------ */

typedef struct Follow
{
	PGconn	   *conn;
	Progress   *progress;
	Position	skip;			/* printed before */
	Lsn			complete;		/* the server has sent all transactions that end here or before */
	Lsn			confirm;		/* what it may be told */
	int64_t		reported;		/* when */
	bool		must_report;
} Follow;

static bool
print_progress(Follow *f)
{
	char	   *line = formatted("{\"event\":\"progress\",\"position\":{\"lsn\":\"%X/%X\"}}",
								 (unsigned int) (f->complete >> 32), (unsigned int) f->complete);
	bool		ok = print_line(line, (int) strlen(line));

	free(line);
	f->progress->printed = (Position) {.lsn = f->complete};
	f->confirm = f->complete;
	return ok;
}

static bool
report(Follow *f, bool force)
{
	char		msg[34];

	if (f->complete >= f->progress->printed.lsn + PROGRESS_BYTES && !print_progress(f))
		return false;
	if (!force && f->confirm <= f->progress->confirmed && now_us() - f->reported < STATUS_SECONDS * INT64_C(1000000))
		return true;
	if (fflush(stdout) != 0)
		return false;
	msg[0] = 'r';
	put64(msg + 1, f->confirm); /* written */
	put64(msg + 9, f->confirm); /* flushed */
	put64(msg + 17, 0);
	put64(msg + 25, (uint64_t) now_us());
	msg[33] = 0;
	if (PQputCopyData(f->conn, msg, sizeof(msg)) <= 0 || PQflush(f->conn) != 0)
		return false;
	f->progress->confirmed = f->confirm;
	f->reported = now_us();
	f->must_report = false;
	return true;
}

static Outcome
on_data(Follow *f, const char *data, int len)
{
	Position	at;
	char	   *tail;

	/* 'w', start, end, time, then the plugin's line, whose position stands at its end. */
	if (len < 25)
		return OUTCOME_LOST;
	tail = formatted("%.*s", len - 25, data + 25);
	{
		char	   *last = NULL;

		for (char *p = strstr(tail, "\"position\":"); p != NULL; p = strstr(p + 1, "\"position\":"))
			last = p;
		if (last == NULL || !parse_position(last, &at))
		{
			say("the server sent what is no event: %s", tail);
			free(tail);
			return OUTCOME_FATAL;
		}
	}
	free(tail);
	if (at.lsn < f->skip.lsn || (at.lsn == f->skip.lsn && (f->skip.n == 0 || at.n <= f->skip.n)))
		return OUTCOME_DONE;
	if (!print_line(data + 25, len - 25))
		return OUTCOME_FATAL;
	/* A transaction is sent whole before the next one is. */
	if (at.lsn > f->progress->printed.lsn && f->progress->printed.lsn > f->confirm)
		f->confirm = f->progress->printed.lsn;
	f->progress->printed = at;
	return OUTCOME_DONE;
}

static Outcome
on_message(Follow *f, const char *data, int len)
{
	if (data[0] == 'w')
		return on_data(f, data, len);
	if (data[0] == 'k' && len >= 18)
	{
		Lsn			end = get64(data + 1);

		/* It lies behind whole transactions only: everything up to it has been sent. */
		if (end > f->complete)
			f->complete = end;
		f->must_report |= data[17] != 0;
	}
	return OUTCOME_DONE;
}

/* All that has arrived; OUTCOME_LOST at the end of the stream. */
static Outcome
drain(Follow *f)
{
	for (;;)
	{
		char	   *buf;
		int			len = PQgetCopyData(f->conn, &buf, 1);
		Outcome		outcome;

		if (len == 0)
			return OUTCOME_DONE;
		if (len == -1)
		{
			PGresult   *res = PQgetResult(f->conn);

			/* A table that was dropped, a plugin that is no longer allowed: asking again does not help. */
			outcome = say_refusal(f->conn, res);
			PQclear(res);
			return outcome;
		}
		if (len < 0)
		{
			say("%s", PQerrorMessage(f->conn));
			return OUTCOME_LOST;
		}
		outcome = on_message(f, buf, len);
		PQfreemem(buf);
		if (outcome != OUTCOME_DONE)
			return outcome;
	}
}

/* OUTCOME_DONE: it streams. */
static Outcome
begin_stream(PGconn *repl, const Options *opt, bool *refused)
{
	char	   *name = PQescapeIdentifier(repl, opt->slot, strlen(opt->slot));
	char	   *state = replication_literal(opt->state);
	char	   *prefix = opt->prefix ? replication_literal(opt->prefix) : NULL;
	char	   *keys = opt->keys ? replication_literal(opt->keys) : NULL;
	char	   *sql = formatted("START_REPLICATION SLOT %s LOGICAL 0/0 (\"state\" %s%s%s%s%s)", name, state,
								prefix ? ", \"prefix\" " : "", prefix ? prefix : "",
								keys ? ", \"keys\" " : "", keys ? keys : "");
	PGresult   *res = PQexec(repl, sql);
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	Outcome		outcome = PQresultStatus(res) == PGRES_COPY_BOTH ? OUTCOME_DONE : say_refusal(repl, res);

	/* The slot may have been lost or dropped since we looked at it: look again, once. */
	if (outcome == OUTCOME_FATAL && !*refused && sqlstate != NULL &&
		(strcmp(sqlstate, "55000") == 0 || strcmp(sqlstate, "42704") == 0))
		outcome = OUTCOME_LOST;
	*refused = outcome != OUTCOME_DONE;
	PQclear(res);
	PQfreemem(name);
	free(state);
	free(prefix);
	free(keys);
	free(sql);
	return outcome;
}

Outcome
follow_slot(PGconn *repl, const Options *opt, Progress *progress)
{
	Follow		f = {.conn = repl,.progress = progress,.skip = progress->printed,.confirm = progress->confirmed};

	Outcome		outcome = begin_stream(repl, opt, &progress->refused);

	if (outcome != OUTCOME_DONE)
		return outcome;
	while (!stop_requested)
	{
		fd_set		in;
		struct timeval tv = {.tv_sec = STATUS_SECONDS};
		int			fd = PQsocket(repl);

		outcome = drain(&f);
		/* What nobody can read will not be read after a new connection either. */
		if (outcome == OUTCOME_DONE && fflush(stdout) != 0)
			outcome = OUTCOME_FATAL;
		if (outcome != OUTCOME_DONE)
			return outcome;
		if (!report(&f, f.must_report))
			return OUTCOME_LOST;
		FD_ZERO(&in);
		FD_SET(fd, &in);
		if (select(fd + 1, &in, NULL, NULL, &tv) > 0 && !PQconsumeInput(repl))
		{
			say("%s", PQerrorMessage(repl));
			return OUTCOME_LOST;
		}
	}
	(void) report(&f, true);
	if (PQputCopyEnd(repl, NULL) > 0)
		(void) PQflush(repl);
	return OUTCOME_DONE;
}
