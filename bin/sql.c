/*-------------------------------------------------------------------------
 *
 * sql.c
 *		fleetlog-watch --no-slot: the same events by fleetlog.watch(), which needs
 *		no replication and keeps nothing in the server.
 *
 * One call after the other on one connection, each a transaction of its own that
 * waits for WAIT_SECONDS at most; each goes on where the one before it ended.  After
 * a lost connection, or when this program was killed, the last line that was printed
 * is enough to go on: where what follows is gone, the server tells the state afresh.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include "watch.h"

/* The call's snapshot keeps row versions from being removed while it waits. */
#define WAIT_SECONDS	20
#define MAX_PAUSE_SECONDS 30

/* A literal, or NULL. */
static char *
optional_literal(PGconn *conn, const char *text)
{
	char	   *quoted = text ? quoted_literal(conn, text) : NULL;
	char	   *result = formatted("%s", quoted ? quoted : "NULL");

	PQfreemem(quoted);
	return result;
}

static char *
watch_query(PGconn *conn, const Options *opt)
{
	char	   *state = optional_literal(conn, opt->state);
	char	   *since = optional_literal(conn, opt->since);
	char	   *prefix = optional_literal(conn, opt->prefix);
	char	   *keys = optional_literal(conn, opt->keys);
	char	   *array = opt->keys == NULL ? formatted("NULL") :
		opt->keys[0] == '[' ? formatted("ARRAY(SELECT pg_catalog.jsonb_array_elements_text(%s))", keys) :
		formatted("pg_catalog.array_remove(pg_catalog.string_to_array(%s, ','), '')", keys);
	char	   *sql = formatted("SELECT fleetlog._watch_json(event, stream, key, shard, log_offset, ts, headers, payload, position), position"
								" FROM fleetlog.watch(%s, since => %s, keys => %s, prefix => %s, wait => '%d s')",
								state, since, array, prefix, opt->once ? 0 : WAIT_SECONDS);

	free(state);
	free(since);
	free(prefix);
	free(keys);
	free(array);
	return sql;
}

/* The next result, or NULL at the end, when asked to stop, or when the connection is lost. */
static PGresult *
next_result(PGconn *conn)
{
	while (PQisBusy(conn))
	{
		fd_set		in;
		struct timeval tv = {.tv_sec = 1};
		int			fd = PQsocket(conn);

		if (stop_requested || fd < 0)
			return NULL;
		FD_ZERO(&in);
		FD_SET(fd, &in);
		if (select(fd + 1, &in, NULL, NULL, &tv) > 0 && !PQconsumeInput(conn))
			break;
	}
	return stop_requested ? NULL : PQgetResult(conn);
}

/* Print the rows of one result; *next is the position behind them. */
static Outcome
print_result(PGconn *conn, PGresult *res, char **next)
{
	ExecStatusType status = PQresultStatus(res);

	for (int i = 0; i < PQntuples(res); i++)
	{
		if (!print_line(PQgetvalue(res, i, 0), PQgetlength(res, i, 0)))
			return OUTCOME_FATAL;
		if (!PQgetisnull(res, i, 1))
		{
			free(*next);
			*next = formatted("%s", PQgetvalue(res, i, 1));
		}
	}
	return status == PGRES_SINGLE_TUPLE || status == PGRES_TUPLES_OK ? OUTCOME_DONE : say_refusal(conn, res);
}

/* One call of watch(); where to go on is left in opt->since. */
static Outcome
one_call(PGconn *conn, Options *opt)
{
	char	   *sql = watch_query(conn, opt);
	static char *kept = NULL;
	PGresult   *res;
	Outcome		outcome = OUTCOME_DONE;
	char	   *next = NULL;

	if (!PQsendQuery(conn, sql) || !PQsetSingleRowMode(conn))
		outcome = say_refusal(conn, NULL);
	free(sql);
	while (outcome == OUTCOME_DONE && (res = next_result(conn)) != NULL)
	{
		outcome = print_result(conn, res, &next);
		PQclear(res);
	}
	if (fflush(stdout) != 0)
		outcome = OUTCOME_FATAL;
	if (outcome == OUTCOME_DONE && PQstatus(conn) != CONNECTION_OK)
		outcome = say_refusal(conn, NULL);
	/* Also after half a call: changes have positions, and a state that was not told to its end has none. */
	if (next != NULL)
	{
		free(kept);
		opt->since = kept = next;
	}
	return outcome;
}

static void
pause_before_retry(unsigned int *seconds)
{
	for (unsigned int i = 0; i < *seconds * 10 && !stop_requested; i++)
		usleep(100000);
	*seconds = *seconds * 2 > MAX_PAUSE_SECONDS ? MAX_PAUSE_SECONDS : *seconds * 2;
}

Outcome
follow_sql(Options *opt)
{
	PGconn	   *conn = NULL;
	unsigned int pause = 1;
	Outcome		outcome = OUTCOME_DONE;

	while (!stop_requested)
	{
		if (conn != NULL || (conn = connect_or_say(opt, false, &outcome)) != NULL)
			outcome = one_call(conn, opt);
		if (outcome == OUTCOME_FATAL || (outcome == OUTCOME_LOST && opt->no_reconnect) || (outcome == OUTCOME_DONE && opt->once))
			break;
		if (outcome == OUTCOME_DONE)
		{
			pause = 1;
			continue;
		}
		PQfinish(conn);
		conn = NULL;
		pause_before_retry(&pause);
	}
	PQfinish(conn);
	return stop_requested ? OUTCOME_DONE : outcome;
}
