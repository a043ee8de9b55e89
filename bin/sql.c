/*-------------------------------------------------------------------------
 *
 * sql.c
 *		fleetlog-watch --no-slot: the same events by fleetlog.watch(), which needs
 *		no replication and keeps nothing in the server.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

#define WAIT_SECONDS	20

static char *
watch_query(PGconn *conn, const Options *opt)
{
	char	   *state = quoted_literal(conn, opt->state);
	char	   *since = opt->since ? quoted_literal(conn, opt->since) : NULL;
	char	   *prefix = opt->prefix ? quoted_literal(conn, opt->prefix) : NULL;
	char	   *keys = opt->keys ? quoted_literal(conn, opt->keys) : NULL;
	char	   *keys_arg = keys == NULL ? formatted("NULL") :
		opt->keys[0] == '[' ? formatted("ARRAY(SELECT pg_catalog.jsonb_array_elements_text(%s))", keys) :
		formatted("pg_catalog.string_to_array(%s, ',')", keys);
	char	   *sql = formatted("SELECT fleetlog._watch_json(event, NULL, key, shard, log_offset, ts, headers, payload, position), position"
								" FROM fleetlog.watch(%s, since => %s, keys => %s, prefix => %s, wait => '%d s')",
								state, since ? since : "NULL", keys_arg, prefix ? prefix : "NULL", opt->once ? 0 : WAIT_SECONDS);

	PQfreemem(state);
	PQfreemem(since);
	PQfreemem(prefix);
	PQfreemem(keys);
	free(keys_arg);
	return sql;
}

/* One call of watch(); where to go on is left in opt->since. */
static Outcome
one_call(PGconn *conn, Options *opt)
{
	char	   *sql = watch_query(conn, opt);
	PGresult   *res;
	Outcome		outcome = OUTCOME_DONE;
	char	   *next = NULL;

	if (!PQsendQuery(conn, sql) || !PQsetSingleRowMode(conn))
		outcome = OUTCOME_LOST;
	free(sql);
	while ((res = PQgetResult(conn)) != NULL)
	{
		ExecStatusType status = PQresultStatus(res);

		for (int i = 0; i < PQntuples(res) && outcome == OUTCOME_DONE; i++)
		{
			if (!PQgetisnull(res, i, 0) && !print_line(PQgetvalue(res, i, 0), PQgetlength(res, i, 0)))
				outcome = OUTCOME_FATAL;
			if (!PQgetisnull(res, i, 1))
			{
				free(next);
				next = formatted("%s", PQgetvalue(res, i, 1));
			}
		}
		if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK)
		{
			if (!stop_requested)
				say("%s", PQresultErrorMessage(res));
			outcome = PQstatus(conn) == CONNECTION_OK ? OUTCOME_FATAL : OUTCOME_LOST;
		}
		PQclear(res);
	}
	if (fflush(stdout) != 0)
		outcome = OUTCOME_FATAL;
	if (outcome == OUTCOME_DONE && next != NULL)
		opt->since = next;
	else
		free(next);
	return outcome;
}

Outcome
follow_sql(Options *opt)
{
	PGconn	   *conn = NULL;
	Outcome		outcome = OUTCOME_DONE;

	while (!stop_requested)
	{
		if (conn == NULL && (conn = connect_or_say(opt, false)) == NULL)
			outcome = OUTCOME_LOST;
		else
			outcome = one_call(conn, opt);
		if (outcome == OUTCOME_FATAL || (outcome == OUTCOME_LOST && opt->no_reconnect) || (outcome == OUTCOME_DONE && opt->once))
			break;
		if (outcome == OUTCOME_LOST)
		{
			PQfinish(conn);
			conn = NULL;
			sleep(1);
		}
	}
	PQfinish(conn);
	return stop_requested ? OUTCOME_DONE : outcome;
}
