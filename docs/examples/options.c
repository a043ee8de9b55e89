/*-------------------------------------------------------------------------
 *
 * options.c
 *		The command line of the reference device.
 *
 *-------------------------------------------------------------------------
 */
#include "device.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char usage[] =
	"usage: device -u TENANT/DEVICE [options]\n"
	"  -h, --host HOST           the server (localhost)\n"
	"  -p, --port PORT           (1883; 8883 with --ca-file)\n"
	"  -u, --user TENANT/DEVICE  who logs in; the id behind the slash is the device's own\n"
	"      --password-file FILE  its first line is the password\n"
	"      --ca-file FILE        TLS: certificates that vouch for the server\n"
	"      --prefix PREFIX       prefix of the tenant's topics (TENANT/)\n"
	"      --client-id ID        (the device's id)\n"
	"      --mqtt311             speak MQTT 3.1.1 instead of 5\n"
	"      --memory FILE         which commands were begun (DEVICE.seen)\n"
	"      --tolerance SECONDS   the device's clock may be wrong by so much (5)\n"
	"      --boot SECONDS        wait at random up to so long after the start (10)\n"
	"      --interval SECONDS    between reports, at a random phase (60)\n"
	"      --keep-alive SECONDS  (60)\n"
	"      --base-pause SECONDS  back-off: the first window (1)\n"
	"      --cap SECONDS         back-off: the largest window (60)\n"
	"      --stable SECONDS      back-off: a connection that lived so long makes up for failures (30)\n"
	"      --long-pause SECONDS  after a refusal that does not heal by itself: half of it to all of it (600)\n"
	"for tests:\n"
	"      --clock-offset SECONDS  the device's clock is wrong by so much, either way (0)\n"
	"      --seed NUMBER           of all that is random\n";

enum
{
	OPT_PASSWORD = 256,
	OPT_CA,
	OPT_PREFIX,
	OPT_CLIENT_ID,
	OPT_311,
	OPT_MEMORY,
	OPT_TOLERANCE,
	OPT_BOOT,
	OPT_INTERVAL,
	OPT_KEEP_ALIVE,
	OPT_BASE,
	OPT_CAP,
	OPT_STABLE,
	OPT_LONG,
	OPT_OFFSET,
	OPT_SEED,
	OPT_HELP
};

static const struct option longs[] = {{"host", required_argument, NULL, 'h'},
									  {"port", required_argument, NULL, 'p'},
									  {"user", required_argument, NULL, 'u'},
									  {"password-file", required_argument, NULL, OPT_PASSWORD},
									  {"ca-file", required_argument, NULL, OPT_CA},
									  {"prefix", required_argument, NULL, OPT_PREFIX},
									  {"client-id", required_argument, NULL, OPT_CLIENT_ID},
									  {"mqtt311", no_argument, NULL, OPT_311},
									  {"memory", required_argument, NULL, OPT_MEMORY},
									  {"tolerance", required_argument, NULL, OPT_TOLERANCE},
									  {"boot", required_argument, NULL, OPT_BOOT},
									  {"interval", required_argument, NULL, OPT_INTERVAL},
									  {"keep-alive", required_argument, NULL, OPT_KEEP_ALIVE},
									  {"base-pause", required_argument, NULL, OPT_BASE},
									  {"cap", required_argument, NULL, OPT_CAP},
									  {"stable", required_argument, NULL, OPT_STABLE},
									  {"long-pause", required_argument, NULL, OPT_LONG},
									  {"clock-offset", required_argument, NULL, OPT_OFFSET},
									  {"seed", required_argument, NULL, OPT_SEED},
									  {"help", no_argument, NULL, OPT_HELP},
									  {NULL, 0, NULL, 0}};

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "device: %s: %s\n%s", what, why, usage);
	exit(2);
}

/* Seconds, with a fraction if need be, as ns. */
static int64_t
seconds(const char *text, double least)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= least && value <= 1e9))
		fail(text, "is no such time in seconds");
	return (int64_t) (value * (double) SECOND);
}

static int
number(const char *text, int least, int most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < least || value > most)
		fail(text, "is no such number");
	return (int) value;
}

static char *
first_line(const char *path)
{
	char line[1024] = "";
	FILE *file = fopen(path, "re");

	if (file == NULL || fgets(line, sizeof(line), file) == NULL)
		fail(path, "cannot be read");
	fclose(file);
	line[strcspn(line, "\r\n")] = '\0';
	return strdup(line);
}

static void
take(Options *o, int option)
{
	switch (option)
	{
		case 'h':
			o->host = optarg;
			break;
		case 'p':
			o->port = number(optarg, 1, 65535);
			break;
		case 'u':
			o->user = optarg;
			break;
		case OPT_PASSWORD:
			o->password = first_line(optarg);
			break;
		case OPT_CA:
			o->ca_file = optarg;
			break;
		case OPT_PREFIX:
			o->prefix = optarg;
			break;
		case OPT_CLIENT_ID:
			o->client_id = optarg;
			break;
		case OPT_311:
			o->version = 4;
			break;
		case OPT_MEMORY:
			o->memory_file = optarg;
			break;
		case OPT_TOLERANCE:
			o->tolerance = seconds(optarg, 0) / 1000000;
			break;
		case OPT_BOOT:
			o->boot = seconds(optarg, 0);
			break;
		case OPT_INTERVAL:
			o->interval = seconds(optarg, 0.001);
			break;
		case OPT_KEEP_ALIVE:
			o->keep_alive = number(optarg, 5, 65535);
			break;
		case OPT_BASE:
			o->law.base = seconds(optarg, 0.001);
			break;
		case OPT_CAP:
			o->law.cap = seconds(optarg, 0.001);
			break;
		case OPT_STABLE:
			o->law.stable = seconds(optarg, 0);
			break;
		case OPT_LONG:
			o->law.long_cap = seconds(optarg, 0.001);
			break;
		case OPT_OFFSET:
			o->clock_offset = seconds(optarg, -1e9);
			break;
		case OPT_SEED:
			o->seed = strtoull(optarg, NULL, 10);
			break;
		case OPT_HELP:
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
	}
}

/* What follows from the user name where it was not said. */
static void
fill_in(Options *o)
{
	const char *slash = o->user != NULL ? strchr(o->user, '/') : NULL;
	size_t tenant = slash != NULL ? (size_t) (slash - o->user) + 1 : 0;
	char *name;

	if (o->user == NULL || o->user[tenant] == '\0')
		fail("--user", "is needed, TENANT/DEVICE or the device's id alone");
	o->device = o->user + tenant;
	if (o->client_id == NULL)
		o->client_id = o->device;
	if (o->prefix == NULL)
		o->prefix = strndup(o->user, tenant);
	if (o->memory_file == NULL)
	{
		name = malloc(strlen(o->device) + sizeof(".seen"));
		sprintf(name, "%s.seen", o->device);
		o->memory_file = name;
	}
	if (o->port == 0)
		o->port = o->ca_file != NULL ? 8883 : 1883;
}

void
options_read(Options *o, int argc, char **argv)
{
	int option;

	*o = (Options){.host = "localhost", .version = 5, .keep_alive = 60, .tolerance = 5000, .boot = 10 * SECOND,
				   .interval = 60 * SECOND};
	o->law = (FlBackoffLaw){.base = SECOND, .cap = 60 * SECOND, .stable = 30 * SECOND, .busy_factor = 4,
							.long_cap = 600 * SECOND};
	if (getrandom(&o->seed, sizeof(o->seed), 0) != sizeof(o->seed))
		fail("getrandom", "the system has no random numbers");
	while ((option = getopt_long(argc, argv, "h:p:u:", longs, NULL)) != -1)
		take(o, option);
	if (optind < argc)
		fail(argv[optind], "is no option");
	fill_in(o);
}
