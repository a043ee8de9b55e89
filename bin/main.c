/*-------------------------------------------------------------------------
 *
 * main.c
 *		fleetlog-watch: prints a state table and then its changes.
 *
 * First the state between the marks begin-snapshot and end-snapshot, then `set`
 * and `clear`, one JSON object a line.  With --since it goes on behind a
 * position; where what follows it is gone, the state comes again between its
 * marks.  The slot is kept over reconnects, and when the program ends.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

#define MAX_PAUSE_SECONDS	30

volatile bool stop_requested = false;

static void
on_signal(int sig)
{
	(void) sig;
	stop_requested = true;
}

static void
usage(void)
{
	puts("fleetlog-watch prints a state table of fleetlog and then every change of it, one JSON object a line.\n"
		 "\n"
		 "usage: fleetlog-watch [option...] STATE\n"
		 "\n"
		 "  STATE                 name of the state table\n"
		 "  -d, --dbname=CONNSTR  connection string or database name; the usual PG* variables hold\n"
		 "  -S, --slot=NAME       replication slot to use and to keep (default: fleetlog_watch);\n"
		 "                        needs a role with REPLICATION and wal_level = logical\n"
		 "  -t, --temporary       the slot goes with this program\n"
		 "  -n, --no-slot         without a slot: by fleetlog.watch(), which needs no REPLICATION, keeps no WAL, and\n"
		 "                        heeds row-level security\n"
		 "  -p, --prefix=TEXT     only keys that begin with this\n"
		 "  -k, --keys=LIST       only these keys: separated by commas, or a JSON array\n"
		 "  -s, --since=POSITION  go on behind this position, as printed; when what follows it is gone,\n"
		 "                        the state is printed again between its marks\n"
		 "      --snapshot-only   end after the state\n"
		 "      --no-reconnect    end when the connection is lost\n"
		 "      --drop-slot       drop the slot and end\n"
		 "  -h, --help            this text\n"
		 "\n"
		 "Events: begin-snapshot, row, end-snapshot, set, clear. Drop what you know between the marks but is no row.\n"
		 "While something is waited for, standard error says what.");
}

static void
parse_command_line(int argc, char **argv, Options *opt)
{
	enum
	{
		OPT_SNAPSHOT_ONLY = 256, OPT_NO_RECONNECT, OPT_DROP_SLOT
	};
	static const struct option longs[] = {
		{"dbname", required_argument, NULL, 'd'}, {"slot", required_argument, NULL, 'S'},
		{"temporary", no_argument, NULL, 't'}, {"no-slot", no_argument, NULL, 'n'},
		{"prefix", required_argument, NULL, 'p'}, {"keys", required_argument, NULL, 'k'},
		{"since", required_argument, NULL, 's'}, {"snapshot-only", no_argument, NULL, OPT_SNAPSHOT_ONLY},
		{"no-reconnect", no_argument, NULL, OPT_NO_RECONNECT}, {"drop-slot", no_argument, NULL, OPT_DROP_SLOT},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}
	};
	int			c;

	while ((c = getopt_long(argc, argv, "d:S:tnp:k:s:h", longs, NULL)) != -1)
	{
		switch (c)
		{
			case 'd':
				opt->conninfo = optarg;
				break;
			case 'S':
				opt->slot = optarg;
				break;
			case 't':
				opt->temporary = true;
				break;
			case 'n':
				opt->no_slot = true;
				break;
			case 'p':
				opt->prefix = optarg;
				break;
			case 'k':
				opt->keys = optarg;
				break;
			case 's':
				opt->since = optarg;
				break;
			case OPT_SNAPSHOT_ONLY:
				opt->once = true;
				break;
			case OPT_NO_RECONNECT:
				opt->no_reconnect = true;
				break;
			case OPT_DROP_SLOT:
				opt->drop_slot = true;
				break;
			case 'h':
				usage();
				exit(0);
			default:
				fputs("Try fleetlog-watch --help.\n", stderr);
				exit(2);
		}
	}
	if (optind + 1 == argc)
		opt->state = argv[optind];
	else if (!opt->drop_slot || optind != argc || opt->no_slot)
	{
		fputs("fleetlog-watch: name one state table; try --help.\n", stderr);
		exit(2);
	}
}

static int
drop_slot(const Options *opt)
{
	Outcome		outcome;
	PGconn	   *conn = connect_or_say(opt, false, &outcome);
	char	   *name;
	char	   *sql;
	PGresult   *res;
	int			status = 1;

	if (conn == NULL)
		return 1;
	name = quoted_literal(conn, opt->slot);
	sql = formatted("SELECT pg_drop_replication_slot(%s)", name);
	res = PQexec(conn, sql);
	if (PQresultStatus(res) == PGRES_TUPLES_OK)
		status = 0;
	else
		(void) say_refusal(conn, res);
	PQclear(res);
	PQfreemem(name);
	free(sql);
	PQfinish(conn);
	return status;
}

/* The name as SQL takes it, and whether it is there: said at once and not after waiting for a slot. */
static Outcome
check_state(PGconn *conn, Options *opt)
{
	char	   *name = quoted_literal(conn, opt->state);
	char	   *sql = formatted("SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname) FROM pg_catalog.pg_class c"
								" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s::pg_catalog.regclass", name);
	PGresult   *res = PQexec(conn, sql);
	Outcome		outcome = OUTCOME_DONE;

	if (PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1)
		opt->state = formatted("%s", PQgetvalue(res, 0, 0));
	else
		outcome = say_refusal(conn, res);
	PQclear(res);
	PQfreemem(name);
	free(sql);
	return outcome;
}

static Outcome
attempt_slot(Options *opt, Progress *progress)
{
	Outcome		outcome;
	PGconn	   *repl = connect_or_say(opt, true, &outcome);
	bool		has = false;

	if (repl == NULL)
		return outcome;
	outcome = check_state(repl, opt);
	if (outcome == OUTCOME_DONE && progress->printed.lsn != 0 && !progress->in_snapshot)
		outcome = slot_has(repl, opt, progress->printed, &has);
	if (outcome == OUTCOME_DONE && !has)
		outcome = print_snapshot(repl, opt, progress);
	if (outcome == OUTCOME_DONE && !opt->once && !stop_requested)
		outcome = follow_slot(repl, opt, progress);
	PQfinish(repl);
	return outcome;
}

/* Wait longer after each failure without progress. */
static void
pause_before_retry(unsigned int *seconds)
{
	for (unsigned int i = 0; i < *seconds * 10 && !stop_requested; i++)
		usleep(100000);
	*seconds = *seconds * 2 > MAX_PAUSE_SECONDS ? MAX_PAUSE_SECONDS : *seconds * 2;
}

int
main(int argc, char **argv)
{
	Options		opt = {.conninfo = "",.slot = "fleetlog_watch"};
	Progress	progress = {.printed = {0, 0}};
	struct sigaction action = {.sa_handler = on_signal};
	unsigned int pause = 1;

	parse_command_line(argc, argv, &opt);
	if (opt.drop_slot)
		return drop_slot(&opt);
	/* Without SA_RESTART: a wait ends at the signal. */
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (opt.no_slot)
		return follow_sql(&opt) == OUTCOME_DONE ? 0 : 1;
	if (opt.since != NULL && !parse_position(opt.since, &progress.printed))
	{
		say("\"%s\" is no position of a watch with a slot", opt.since);
		return 2;
	}
	for (;;)
	{
		Position	before = progress.printed;
		Outcome		outcome = attempt_slot(&opt, &progress);

		if (outcome == OUTCOME_DONE || stop_requested)
			return 0;
		if (outcome == OUTCOME_FATAL || opt.no_reconnect)
			return 1;
		if (before.lsn != progress.printed.lsn)
			pause = 1;
		pause_before_retry(&pause);
	}
}
