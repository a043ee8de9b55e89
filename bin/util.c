/*-------------------------------------------------------------------------
 *
 * util.c
 *		fleetlog-watch: messages, connections, positions as text, output.
 *
 * Events go to standard output, one a line; everything else to standard error.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>

#include "watch.h"

void
say(const char *fmt,...)
{
	va_list		args;

	fputs("fleetlog-watch: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

char *
formatted(const char *fmt,...)
{
	va_list		args;
	int			n;
	char	   *result;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	result = malloc((size_t) n + 1);
	if (result == NULL)
	{
		say("out of memory");
		exit(1);
	}
	va_start(args, fmt);
	vsnprintf(result, (size_t) n + 1, fmt, args);
	va_end(args);
	return result;
}

/* libpq's messages end in a newline, and may have several lines. */
static void
say_text(const char *message)
{
	size_t		len = strlen(message);

	while (len > 0 && message[len - 1] == '\n')
		len--;
	say("%.*s", (int) len, message);
}

/* ---- what a refusal means --------------------------------------------------------- */

typedef struct Remedy
{
	const char *sqlstate;		/* or the beginning of some */
	const char *remedy;			/* NULL: the server's message has to do */
} Remedy;

/* What will be refused again. */
static const Remedy permanent[] = {
	{"28", "Connect as a role that may log in (-d \"user=...\"), with its password in PGPASSWORD or ~/.pgpass."},
	{"3D000", "Name the database with -d."},
	{"3F000", "Is the extension there? CREATE EXTENSION fleetlog."},
	{"42501", "A slot needs a role with REPLICATION; reading needs SELECT on the table, and with --no-slot on its streams."},
	{"42P01", "State tables are listed in fleetlog.state_config."},
	{"42883", "Is the extension there, in this version? CREATE EXTENSION fleetlog."},
	{"53400", "Raise max_replication_slots, drop a slot nobody needs (fleetlog.stat_watch), or watch with --no-slot."},
	{"58P01", "Is fleetlog installed on the server?"},
	{"55000", NULL}, {"0A", NULL}, {"22", NULL}, {"42", NULL}, {"25006", NULL}, {"2B", NULL}, {"3", NULL}, {"P0", NULL}
};

static Outcome
judge_sqlstate(const char *sqlstate)
{
	for (size_t i = 0; i < sizeof(permanent) / sizeof(permanent[0]); i++)
	{
		if (strncmp(sqlstate, permanent[i].sqlstate, strlen(permanent[i].sqlstate)) != 0)
			continue;
		if (permanent[i].remedy)
			say("%s", permanent[i].remedy);
		return OUTCOME_FATAL;
	}
	return OUTCOME_LOST;
}

Outcome
say_refusal(PGconn *conn, const PGresult *res)
{
	const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *hint = PQresultErrorField(res, PG_DIAG_MESSAGE_HINT);

	say_text(res ? PQresultErrorMessage(res) : PQerrorMessage(conn));
	if (sqlstate == NULL || PQstatus(conn) != CONNECTION_OK)
		return OUTCOME_LOST;
	/* The server's own advice (the message has it) is better than ours. */
	if (hint != NULL && strstr(hint, "output_plugin_libraries") != NULL)
	{
		say("Add fleetlog to the server's setting output_plugin_libraries and reload it, or watch with --no-slot.");
		return OUTCOME_FATAL;
	}
	return judge_sqlstate(sqlstate);
}

/* ---- connections -------------------------------------------------------------------- */

/* A verbose message of the server has its code behind the severity: "FATAL:  28P01: ..." */
static void
code_of_message(const char *message, char *sqlstate)
{
	sqlstate[0] = '\0';
	for (const char *p = strstr(message, ":  "); p != NULL; p = strstr(p + 1, ":  "))
		if (strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && p[8] == ':')
		{
			memcpy(sqlstate, p + 3, 5);
			sqlstate[5] = '\0';
			return;
		}
}

static Outcome
say_no_connection(PGconn *conn)
{
	char	   *text = formatted("%s", PQerrorMessage(conn));
	char	   *location = strstr(text, "\nLOCATION:");
	char		sqlstate[6];
	Outcome		outcome = OUTCOME_LOST;

	if (location != NULL)
		*location = '\0';
	say_text(text);
	code_of_message(text, sqlstate);
	if (PQconnectionNeedsPassword(conn))
		outcome = judge_sqlstate("28P01");
	else if (sqlstate[0] != '\0')
		outcome = judge_sqlstate(sqlstate);
	free(text);
	return outcome;
}

static int
connect_timeout_of(PGconn *conn)
{
	PQconninfoOption *all = PQconninfo(conn);
	int			seconds = 0;

	for (PQconninfoOption *o = all; o != NULL && o->keyword != NULL; o++)
		if (strcmp(o->keyword, "connect_timeout") == 0 && o->val != NULL)
			seconds = atoi(o->val);
	PQconninfoFree(all);
	return seconds;
}

/* Step by step, so that a signal ends it. */
static bool
finish_connecting(PGconn *conn)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;
	int			timeout = connect_timeout_of(conn);
	time_t		begin = time(NULL);

	while (status != PGRES_POLLING_OK)
	{
		fd_set		set;
		struct timeval tv = {.tv_sec = 1};
		int			fd = PQsocket(conn);
		int			n;

		if (status == PGRES_POLLING_FAILED || fd < 0 || stop_requested)
			return false;
		if (timeout > 0 && time(NULL) - begin >= timeout)
		{
			say("no connection within %d seconds", timeout);
			return false;
		}
		FD_ZERO(&set);
		FD_SET(fd, &set);
		n = status == PGRES_POLLING_READING ? select(fd + 1, &set, NULL, NULL, &tv) : select(fd + 1, NULL, &set, NULL, &tv);
		if (n > 0)
			status = PQconnectPoll(conn);
	}
	return true;
}

PGconn *
connect_or_say(const Options *opt, bool replication, Outcome *outcome)
{
	const char *keys[] = {"dbname", "replication", "fallback_application_name", "client_encoding", NULL};
	const char *values[] = {opt->conninfo, replication ? "database" : NULL, "fleetlog-watch", "UTF8", NULL};
	PGconn	   *conn = PQconnectStartParams(keys, values, 1);

	*outcome = OUTCOME_LOST;
	if (conn == NULL)
	{
		say("out of memory");
		return NULL;
	}
	/* So that refusals have their code. */
	PQsetErrorVerbosity(conn, PQERRORS_VERBOSE);
	if (PQstatus(conn) == CONNECTION_BAD)
	{
		/* The connection string is not understood. */
		say_text(PQerrorMessage(conn));
		*outcome = OUTCOME_FATAL;
	}
	else if (finish_connecting(conn))
	{
		PQsetErrorVerbosity(conn, PQERRORS_DEFAULT);
		*outcome = OUTCOME_DONE;
		return conn;
	}
	else if (!stop_requested)
		*outcome = say_no_connection(conn);
	PQfinish(conn);
	return NULL;
}

/* ---- positions and text ------------------------------------------------------------------ */

bool
parse_lsn(const char *text, Lsn *out)
{
	unsigned int hi,
				lo;

	if (sscanf(text, "%X/%X", &hi, &lo) != 2)
		return false;
	*out = ((Lsn) hi << 32) | lo;
	return true;
}

/* {"lsn": "0/16B3748", "n": 3} as the plugin writes it, wherever it stands in the text. */
bool
parse_position(const char *json, Position *out)
{
	const char *at = strstr(json, "\"lsn\"");
	const char *n = at ? strstr(at, "\"n\"") : NULL;

	out->n = 0;
	if (at == NULL)
		return false;
	at = strchr(at + 5, '"');
	if (at == NULL || !parse_lsn(at + 1, &out->lsn))
		return false;
	if (n != NULL && (n = strchr(n, ':')) != NULL)
		out->n = (uint32_t) strtoul(n + 1, NULL, 10);
	return true;
}

char *
quoted_literal(PGconn *conn, const char *text)
{
	char	   *quoted = PQescapeLiteral(conn, text, strlen(text));

	if (quoted == NULL)
	{
		say_text(PQerrorMessage(conn));
		exit(1);
	}
	return quoted;
}

/* Replication commands know no escapes but the doubled quote: a backslash is itself. */
char *
replication_literal(const char *text)
{
	char	   *result = malloc(2 * strlen(text) + 3);
	char	   *p = result;

	if (result == NULL)
	{
		say("out of memory");
		exit(1);
	}
	*p++ = '\'';
	for (; *text != '\0'; text++)
	{
		if (*text == '\'')
			*p++ = '\'';
		*p++ = *text;
	}
	*p++ = '\'';
	*p = '\0';
	return result;
}

/* False when nobody can read any more. */
bool
print_line(const char *data, int len)
{
	if (fwrite(data, 1, (size_t) len, stdout) != (size_t) len || putchar('\n') == EOF)
	{
		say("cannot write: %s", strerror(errno));
		return false;
	}
	return true;
}
