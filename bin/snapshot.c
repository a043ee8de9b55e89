/*-------------------------------------------------------------------------
 *
 * snapshot.c
 *		fleetlog-watch: the state as of the beginning of a new slot.
 *
 * The slot is made with an exported snapshot, a second connection reads the
 * table in it, and what the slot sends afterwards is what was committed since:
 * no gap, no duplicate.  The snapshot lives until the replication connection
 * runs its next command, so rows are printed before it streams.
 *
 * Making a slot waits until every transaction that was open then has ended.
 * That can be long, so we say who it is.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>

#include "watch.h"

#define SAY_AFTER_SECONDS	2

/* Say which transactions a slot's creation waits for; the same ones only once. */
static void
say_who_blocks(PGconn *side, int backend, char **last)
{
	char	   *sql = formatted("SELECT 'process ' || pid || coalesce(' of ' || usename, '') || ', ' || coalesce(state, backend_type) || ', open since ' || xact_start::timestamp(0)"
								" FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> %d ORDER BY xact_start LIMIT 1", backend);
	PGresult   *res = PQexec(side, sql);

	free(sql);
	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) > 0 &&
		(*last == NULL || strcmp(*last, PQgetvalue(res, 0, 0)) != 0))
	{
		free(*last);
		*last = formatted("%s", PQgetvalue(res, 0, 0));
		say("waiting for transactions that were open when the slot was begun: %s", *last);
	}
	PQclear(res);
}

/* Waits for the answer to the command that was sent. */
static PGresult *
wait_for_slot(PGconn *repl, PGconn *side)
{
	char	   *last = NULL;

	while (PQisBusy(repl))
	{
		fd_set		in;
		struct timeval tv = {.tv_sec = SAY_AFTER_SECONDS};
		int			fd = PQsocket(repl);
		int			n;

		FD_ZERO(&in);
		FD_SET(fd, &in);
		n = select(fd + 1, &in, NULL, NULL, &tv);
		if (stop_requested)
			break;
		if (n == 0)
			say_who_blocks(side, PQbackendPID(repl), &last);
		if (n > 0 && !PQconsumeInput(repl))
			break;
	}
	free(last);
	return stop_requested ? NULL : PQgetResult(repl);
}

/* A slot of that name is replaced; but never one that belongs to somebody else's purpose. */
static Outcome
drop_old_slot(PGconn *side, const Options *opt)
{
	char	   *name = quoted_literal(side, opt->slot);
	char	   *sql = formatted("SELECT CASE WHEN plugin = 'fleetlog' AND database = pg_catalog.current_database()"
								" THEN pg_catalog.pg_drop_replication_slot(slot_name)::text ELSE 'foreign' END"
								" FROM pg_catalog.pg_replication_slots WHERE slot_name = %s", name);
	PGresult   *res = PQexec(side, sql);
	Outcome		outcome = OUTCOME_DONE;

	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		/* In use: its owner may be about to notice that its client has gone. */
		outcome = say_refusal(side, res);
	else if (PQntuples(res) > 0 && strcmp(PQgetvalue(res, 0, 0), "foreign") == 0)
	{
		say("slot \"%s\" is not one of fleetlog in this database; choose another name with -S", opt->slot);
		outcome = OUTCOME_FATAL;
	}
	PQclear(res);
	PQfreemem(name);
	free(sql);
	return outcome;
}

/* Rows one by one, so that a large table takes no memory here. */
static Outcome
print_rows(PGconn *side, const char *sql)
{
	Outcome		outcome = OUTCOME_DONE;
	PGresult   *res;

	if (!PQsendQuery(side, sql) || !PQsetSingleRowMode(side))
		return OUTCOME_LOST;
	while ((res = PQgetResult(side)) != NULL)
	{
		ExecStatusType status = PQresultStatus(res);

		for (int i = 0; i < PQntuples(res) && outcome == OUTCOME_DONE; i++)
			if (!print_line(PQgetvalue(res, i, 0), PQgetlength(res, i, 0)))
				outcome = OUTCOME_FATAL;
		if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK)
		{
			outcome = say_refusal(side, res);
		}
		PQclear(res);
	}
	return outcome;
}

static char *
rows_query(PGconn *side, const Options *opt)
{
	char	   *prefix = opt->prefix ? quoted_literal(side, opt->prefix) : NULL;
	char	   *keys = opt->keys ? quoted_literal(side, opt->keys) : NULL;
	char	   *prefix_cond = prefix ? formatted("starts_with(key, %s)", prefix) : formatted("false");
	char	   *keys_cond = keys == NULL ? formatted("false") :
		opt->keys[0] == '[' ? formatted("key IN (SELECT jsonb_array_elements_text(%s))", keys) :
		formatted("key = ANY (string_to_array(%s, ','))", keys);
	char	   *sql = formatted("SELECT fleetlog._watch_json('row', stream, key, shard, log_offset, ts, headers, payload, NULL) FROM %s WHERE %s OR %s OR %s",
								opt->state, prefix || keys ? "false" : "true", prefix_cond, keys_cond);

	PQfreemem(prefix);
	PQfreemem(keys);
	free(prefix_cond);
	free(keys_cond);
	return sql;
}

static Outcome
run(PGconn *conn, const char *sql)
{
	PGresult   *res = PQexec(conn, sql);
	Outcome		outcome = OUTCOME_DONE;

	if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
		outcome = say_refusal(conn, res);
	PQclear(res);
	return outcome;
}

/* The slot is made; its snapshot is good until repl runs its next command. */
static Outcome
print_state(PGconn *side, const Options *opt, Progress *progress, const char *lsn, const char *snapshot)
{
	char	   *set = formatted("SET TRANSACTION SNAPSHOT '%s'", snapshot);
	char	   *sql = rows_query(side, opt);
	char	   *begin = formatted("{\"event\":\"begin-snapshot\"}");
	char	   *end = formatted("{\"event\":\"end-snapshot\",\"position\":{\"lsn\":\"%s\"}}", lsn);
	Outcome		outcome = run(side, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");

	if (outcome == OUTCOME_DONE)
		outcome = run(side, set);
	if (outcome == OUTCOME_DONE)
	{
		progress->in_snapshot = true;
		progress->printed.lsn = 0;
		outcome = print_line(begin, (int) strlen(begin)) ? print_rows(side, sql) : OUTCOME_FATAL;
		if (outcome == OUTCOME_DONE && !print_line(end, (int) strlen(end)))
			outcome = OUTCOME_FATAL;
		if (outcome == OUTCOME_DONE && fflush(stdout) != 0)
			outcome = OUTCOME_FATAL;
	}
	if (outcome == OUTCOME_DONE)
	{
		(void) run(side, "COMMIT");
		progress->in_snapshot = false;
		parse_lsn(lsn, &progress->printed.lsn);
		progress->printed.n = 0;
		progress->confirmed = progress->printed.lsn;
	}
	free(set);
	free(sql);
	free(begin);
	free(end);
	return outcome;
}

static void
drop_new_slot(PGconn *repl, const char *quoted_name)
{
	char	   *sql = formatted("DROP_REPLICATION_SLOT %s", quoted_name);

	PQclear(PQexec(repl, sql));
	free(sql);
}

Outcome
print_snapshot(PGconn *repl, const Options *opt, Progress *progress)
{
	Outcome		outcome;
	PGconn	   *side = connect_or_say(opt, false, &outcome);
	char	   *name;
	char	   *sql;
	PGresult   *res;
	bool		made;

	if (side == NULL)
		return outcome;
	outcome = drop_old_slot(side, opt);
	if (outcome != OUTCOME_DONE)
	{
		PQfinish(side);
		return outcome;
	}
	name = PQescapeIdentifier(repl, opt->slot, strlen(opt->slot));
	sql = formatted("CREATE_REPLICATION_SLOT %s%s LOGICAL fleetlog EXPORT_SNAPSHOT", name, opt->temporary ? " TEMPORARY" : "");
	if (!PQsendQuery(repl, sql))
		res = NULL;
	else
		res = wait_for_slot(repl, side);
	if (res == NULL)
		outcome = stop_requested ? OUTCOME_DONE : OUTCOME_LOST;
	else if (PQresultStatus(res) != PGRES_TUPLES_OK)
	{
		const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);

		outcome = say_refusal(repl, res);
		if (sqlstate != NULL && strcmp(sqlstate, "55000") == 0)
			say("A slot needs wal_level = logical; --no-slot does not.");
	}
	else
		outcome = print_state(side, opt, progress, PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2));
	made = res != NULL && PQresultStatus(res) == PGRES_TUPLES_OK;
	PQclear(res);
	while (!stop_requested && (res = PQgetResult(repl)) != NULL)
		PQclear(res);
	/* Whoever has no position of it cannot go on with it, and it would keep WAL for nobody. */
	if (made && (outcome == OUTCOME_FATAL || progress->in_snapshot))
		drop_new_slot(repl, name);
	PQfreemem(name);
	free(sql);
	PQfinish(side);
	return outcome;
}
