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

/* libpq's messages end in a newline. */
static void
say_error(PGconn *conn)
{
	char	   *text = formatted("%s", PQerrorMessage(conn));
	size_t		len = strlen(text);

	while (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	say("%s", text);
	free(text);
}

PGconn *
connect_or_say(const Options *opt, bool replication)
{
	const char *keys[] = {"dbname", "replication", "fallback_application_name", "options", NULL};
	const char *values[] = {
		opt->conninfo, replication ? "database" : NULL, "fleetlog-watch",
		"-c client_encoding=UTF8", NULL
	};
	PGconn	   *conn = PQconnectdbParams(keys, values, 1);

	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	say_error(conn);
	PQfinish(conn);
	return NULL;
}

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
		say_error(conn);
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
