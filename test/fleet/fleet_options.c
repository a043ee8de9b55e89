/*-------------------------------------------------------------------------
 *
 * fleet_options.c
 *		The command line of fl_fleet, and the file of credentials.
 *
 * Everything is checked here, once, so that the rest may rely on it.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"fl_fleet: a fleet of devices with the habits of real ones.\n"
	"\n"
	"usage: fl_fleet [options] < commands\n"
	"\n"
	"Where to, and who\n"
	"  -h, --host ADDRESS        IPv4 address of the server (127.0.0.1)\n"
	"  -p, --port PORT           (1883)\n"
	"      --sources N           connect from N loopback addresses, 127.0.0.2 and up (0: the kernel's choice)\n"
	"  -c, --devices N           (100)\n"
	"  -j, --processes N         over which devices are spread (1); each has as many descriptors as the system allows\n"
	"      --credentials FILE    a line for each device: user name, password and, if it is not the user name, the prefix\n"
	"                            of its topics; without it devices are anonymous\n"
	"      --base TEMPLATE       that prefix for anonymous devices (acme/d%d); %d is the device's number, from 0\n"
	"      --client-id TEMPLATE  (fleet-%d)\n"
	"      --mqtt311 PERCENT     devices that speak 3.1.1 instead of 5 (0)\n"
	"      --commands PERCENT    devices that subscribe at QoS 1 to their commands, cmd/<device>/# beside their prefix (100)\n"
	"      --clean               no session; else one that the server keeps for --session-expiry SECONDS (3600)\n"
	"\n"
	"Habits; times are in seconds, with fractions\n"
	"      --boot T              after the start and after a reboot each waits a random time up to this (5)\n"
	"      --base-pause T        back-off: uniform in [0, min(cap, base * 2^failures)] (1)\n"
	"      --cap T               (60)\n"
	"      --stable T            a connection that lived so long makes up for failures before it (30)\n"
	"      --busy-factor N       base and cap are so many times longer when the server says it is busy (4)\n"
	"      --long-pause T        refused identity, or session taken over: uniform in [T/2, T] (600)\n"
	"      --connect-timeout T   for connection, CONNACK and SUBACK (20)\n"
	"      --keep-alive SECONDS  (60); pings after half to nine tenths of it; 0: none\n"
	"\n"
	"Reports\n"
	"      --interval T          between two reports of a device, whose phase is random (10)\n"
	"      --mix T,E,S           weights of telemetry (QoS 0), event (QoS 1) and safety (QoS 1, tried until accepted) (90,9,1)\n"
	"      --size BYTES          of a JSON reading (200)\n"
	"      --binary PERCENT      telemetry that is 30 bytes instead (0)\n"
	"\n"
	"Run\n"
	"  -d, --duration T          then quit (0: when told)\n"
	"      --drain T             on quit wait so long for acknowledgements (20)\n"
	"      --seed N              of everything random (1)\n"
	"      --truth FILE          append what was acknowledged, for test/bench/check_truth.pl\n"
	"      --every T             between two lines of statistics (1)\n"
	"      --control FIFO        read commands from here instead of standard input\n"
	"      --help                this text\n"
	"\n"
	"Commands, a line each; N% is a share of the devices it can concern, all where none is said\n"
	"  drop N%           connections end without a word\n"
	"  reboot N%         power off and on: boot delay, new phase, back-off forgotten; unacknowledged messages are kept\n"
	"  silence N%        neither send nor read, and do not notice what becomes of the connection\n"
	"  stop reading N%   go on sending, but do not read\n"
	"  resume N%         ends silence and not reading\n"
	"  burst K N%        make K messages at once\n"
	"  pause, go         no reports; reports again\n"
	"  quit              deliver what is pending, disconnect, print the summary\n"
	"\n"
	"Each interval, each command carried out, and the end print a line of JSON (README.md says what is in it).\n"
	"Status: 0 when nothing was left unacknowledged, 1 otherwise, 2 for a wrong command line.\n";

/* Long options without a letter. */
/* clang-format off */
enum
{
	OPT_SOURCES = 256, OPT_CREDENTIALS, OPT_BASE, OPT_CLIENT_ID, OPT_MQTT311, OPT_COMMANDS, OPT_CLEAN, OPT_SESSION_EXPIRY,
	OPT_BOOT, OPT_BASE_PAUSE, OPT_CAP, OPT_STABLE, OPT_BUSY_FACTOR, OPT_LONG_PAUSE, OPT_CONNECT_TIMEOUT, OPT_KEEP_ALIVE,
	OPT_INTERVAL, OPT_MIX, OPT_SIZE, OPT_BINARY, OPT_DRAIN, OPT_SEED, OPT_TRUTH, OPT_EVERY, OPT_CONTROL, OPT_HELP
};

static const struct option names[] = {
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"sources", required_argument, NULL, OPT_SOURCES},
	{"devices", required_argument, NULL, 'c'},
	{"processes", required_argument, NULL, 'j'},
	{"credentials", required_argument, NULL, OPT_CREDENTIALS},
	{"base", required_argument, NULL, OPT_BASE},
	{"client-id", required_argument, NULL, OPT_CLIENT_ID},
	{"mqtt311", required_argument, NULL, OPT_MQTT311},
	{"commands", required_argument, NULL, OPT_COMMANDS},
	{"clean", no_argument, NULL, OPT_CLEAN},
	{"session-expiry", required_argument, NULL, OPT_SESSION_EXPIRY},
	{"boot", required_argument, NULL, OPT_BOOT},
	{"base-pause", required_argument, NULL, OPT_BASE_PAUSE},
	{"cap", required_argument, NULL, OPT_CAP},
	{"stable", required_argument, NULL, OPT_STABLE},
	{"busy-factor", required_argument, NULL, OPT_BUSY_FACTOR},
	{"long-pause", required_argument, NULL, OPT_LONG_PAUSE},
	{"connect-timeout", required_argument, NULL, OPT_CONNECT_TIMEOUT},
	{"keep-alive", required_argument, NULL, OPT_KEEP_ALIVE},
	{"interval", required_argument, NULL, OPT_INTERVAL},
	{"mix", required_argument, NULL, OPT_MIX},
	{"size", required_argument, NULL, OPT_SIZE},
	{"binary", required_argument, NULL, OPT_BINARY},
	{"duration", required_argument, NULL, 'd'},
	{"drain", required_argument, NULL, OPT_DRAIN},
	{"seed", required_argument, NULL, OPT_SEED},
	{"truth", required_argument, NULL, OPT_TRUTH},
	{"every", required_argument, NULL, OPT_EVERY},
	{"control", required_argument, NULL, OPT_CONTROL},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0}
};
/* clang-format on */

static void __attribute__((noreturn, format(printf, 1, 2))) usage(const char *format, ...)
{
	va_list args;

	fputs("fl_fleet: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("; try --help\n", stderr);
	exit(2);
}

static int64_t
number(const char *s, int64_t min, int64_t max)
{
	char *end;
	long long n = strtoll(s, &end, 10);

	if (end == s || *end != '\0' || n < min || n > max)
		usage("\"%s\" is no number from %lld to %lld", s, (long long) min, (long long) max);
	return n;
}

/* Seconds with a fraction, as nanoseconds. */
static int64_t
seconds(const char *s, double min)
{
	char *end;
	double t = strtod(s, &end);

	if (end == s || *end != '\0' || !(t >= min && t <= 1e6))
		usage("\"%s\" is no time from %g s to 1e6 s", s, min);
	return (int64_t) (t * FL_SECOND);
}

static const char *template(const char *s)
{
	if (strlen(s) > FL_NAME_SIZE - 32)
		usage("a template is at most %d bytes long", FL_NAME_SIZE - 32);
	return s;
}

static void
read_mix(FlFleetOptions *o, const char *s)
{
	char end;

	if (sscanf(s, "%d,%d,%d%c", &o->weight[0], &o->weight[1], &o->weight[2], &end) != FL_CLASSES)
		usage("--mix wants three weights, not \"%s\"", s);
	o->weights = 0;
	for (int class = 0; class < FL_CLASSES; class ++)
	{
		if (o->weight[class] < 0 || o->weight[class] > 1000000)
			usage("a weight is from 0 to 1000000");
		o->weights += o->weight[class];
	}
	if (o->weights == 0)
		usage("--mix leaves nothing to report");
}

void
fl_fleet_expand(char *out, size_t size, const char *template, int number)
{
	const char *mark = strstr(template, "%d");

	if (mark == NULL)
		snprintf(out, size, "%s", template);
	else
		snprintf(out, size, "%.*s%d%s", (int) (mark - template), template, number, mark + 2);
}

static void
read_credentials(FlFleetOptions *o, const char *name)
{
	FILE *f = fopen(name, "r");
	char line[3 * FL_NAME_SIZE], user[FL_NAME_SIZE], password[FL_NAME_SIZE], base[FL_NAME_SIZE];

	if (f == NULL)
	{
		perror(name);
		exit(2);
	}
	o->credential = fl_fleet_allocate(o->devices, sizeof(FlCredential));
	for (int i = 0; i < o->devices; i++)
	{
		FlCredential *c = &o->credential[i];
		int fields;

		if (fgets(line, sizeof(line), f) == NULL)
			usage("%s has only %d lines for %d devices", name, i, o->devices);
		fields = sscanf(line, "%223s %223s %223s", user, password, base);
		if (fields < 2)
			usage("%s, line %d: user name, password and perhaps a prefix are wanted", name, i + 1);
		c->user = strdup(user);
		c->password = strdup(password);
		c->base = strdup(fields == 3 ? base : user);
		if (c->user == NULL || c->password == NULL || c->base == NULL)
			usage("out of memory");
	}
	fclose(f);
}

static void
set_defaults(FlFleetOptions *o)
{
	*o = (FlFleetOptions){
		.server = {.sin_family = AF_INET, .sin_port = htons(1883), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
		.processes = 1,
		.devices = 100,
		.client_id = "fleet-%d",
		.base = "acme/d%d",
		.percent_commands = 100,
		.session_expiry = 3600,
		.keep_alive = 60,
		.connect_timeout = 20 * FL_SECOND,
		.boot = 5 * FL_SECOND,
		.law = {.base = FL_SECOND,
				.cap = 60 * FL_SECOND,
				.stable = 30 * FL_SECOND,
				.busy_factor = 4,
				.long_cap = 600 * FL_SECOND},
		.interval = 10 * FL_SECOND,
		.weight = {90, 9, 1},
		.weights = 100,
		.payload = {.size = 200, .payload = FL_PAYLOAD_JSON, .seed = 1},
		.drain = 20 * FL_SECOND,
		.every = FL_SECOND,
	};
}

static void
read_habit(FlFleetOptions *o, int c)
{
	switch (c)
	{
		case OPT_BOOT:
			o->boot = seconds(optarg, 0);
			break;
		case OPT_BASE_PAUSE:
			o->law.base = seconds(optarg, 1e-3);
			break;
		case OPT_CAP:
			o->law.cap = seconds(optarg, 1e-3);
			break;
		case OPT_STABLE:
			o->law.stable = seconds(optarg, 1e-3);
			break;
		case OPT_BUSY_FACTOR:
			o->law.busy_factor = (int) number(optarg, 1, 1000);
			break;
		case OPT_LONG_PAUSE:
			o->law.long_cap = seconds(optarg, 1e-3);
			break;
		case OPT_CONNECT_TIMEOUT:
			o->connect_timeout = seconds(optarg, 1e-3);
			break;
		case OPT_KEEP_ALIVE:
			o->keep_alive = (int) number(optarg, 0, 65535);
			break;
		case OPT_INTERVAL:
			o->interval = seconds(optarg, 1e-3);
			break;
		case OPT_MIX:
			read_mix(o, optarg);
			break;
		case OPT_SIZE:
			o->payload.size = (int) number(optarg, FL_STAMP_SIZE, 65536);
			break;
		case OPT_BINARY:
			o->percent_binary = (int) number(optarg, 0, 100);
			break;
		default:
			usage("wrong option");
	}
}

static void
read_option(FlFleetOptions *o, int c, const char **credentials)
{
	switch (c)
	{
		case 'h':
			if (inet_pton(AF_INET, optarg, &o->server.sin_addr) != 1)
				usage("\"%s\" is no IPv4 address", optarg);
			break;
		case 'p':
			o->server.sin_port = htons((uint16_t) number(optarg, 1, 65535));
			break;
		case OPT_SOURCES:
			o->sources = (int) number(optarg, 0, 250);
			break;
		case 'c':
			o->devices = (int) number(optarg, 1, FL_MAX_DEVICES);
			break;
		case 'j':
			o->processes = (int) number(optarg, 1, FL_MAX_PROCESSES);
			break;
		case OPT_CREDENTIALS:
			*credentials = optarg;
			break;
		case OPT_BASE:
			o->base = template(optarg);
			break;
		case OPT_CLIENT_ID:
			o->client_id = template(optarg);
			break;
		case OPT_MQTT311:
			o->percent_311 = (int) number(optarg, 0, 100);
			break;
		case OPT_COMMANDS:
			o->percent_commands = (int) number(optarg, 0, 100);
			break;
		case OPT_CLEAN:
			o->clean = true;
			break;
		case OPT_SESSION_EXPIRY:
			o->session_expiry = (uint32_t) number(optarg, 0, UINT32_MAX);
			break;
		case 'd':
			o->duration = seconds(optarg, 0);
			break;
		case OPT_DRAIN:
			o->drain = seconds(optarg, 0);
			break;
		case OPT_SEED:
			o->payload.seed = (uint64_t) number(optarg, 0, INT64_MAX);
			break;
		case OPT_TRUTH:
			o->truth = optarg;
			break;
		case OPT_EVERY:
			o->every = seconds(optarg, 1e-3);
			break;
		case OPT_CONTROL:
			o->control = optarg;
			break;
		case OPT_HELP:
			fputs(help, stdout);
			exit(0);
		default:
			read_habit(o, c);
	}
}

void
fl_fleet_options_read(FlFleetOptions *o, int argc, char **argv)
{
	const char *credentials = NULL;
	int c;

	set_defaults(o);
	while ((c = getopt_long(argc, argv, "h:p:c:j:d:", names, NULL)) != -1)
		read_option(o, c, &credentials);
	if (optind < argc)
		usage("\"%s\" is not expected", argv[optind]);
	if (o->processes > o->devices)
		usage("there are more processes than devices");
	if (credentials != NULL)
		read_credentials(o, credentials);
}
