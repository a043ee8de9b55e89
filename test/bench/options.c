/*-------------------------------------------------------------------------
 *
 * options.c
 *		The command line of fl_load.
 *
 * Everything is checked here, once, so that the rest may rely on it: sizes
 * that hold a stamp, packet identifiers enough for the window, at least one
 * connection, an end.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
	"fl_load: loads an MQTT server and measures it.\n"
	"\n"
	"usage: fl_load [options]\n"
	"\n"
	"Where to\n"
	"  -h, --host ADDRESS        IPv4 address of the server (127.0.0.1)\n"
	"  -p, --port PORT           port (1883)\n"
	"      --tls                 by TLS; the server's certificate is not looked at, and no session is resumed\n"
	"      --sources N           connect from N loopback addresses, 127.0.0.2 and up (0: the kernel's choice);\n"
	"                            one address has about 28,000 ports towards one server\n"
	"\n"
	"Who connects\n"
	"  -c, --connections N       publishers (1)\n"
	"  -j, --processes N         processes over which all connections are spread (1)\n"
	"      --mqtt 3.1.1|5        version (3.1.1)\n"
	"      --client-id TEMPLATE  (bench-%d); in templates %d is the number of the connection, from 0, and in those of\n"
	"                            topics and filters %m counts a connection's messages or filters, from 0\n"
	"      --user TEMPLATE       user name, such as tenant/dev-%d (none)\n"
	"      --password TEMPLATE   password (none)\n"
	"      --persistent          clean session off; --session-expiry SECONDS with MQTT 5 (3600)\n"
	"      --keep-alive SECONDS  (60); 0: none\n"
	"      --connecting N        connects under way at once, over all processes (90)\n"
	"      --connect-rate R      connects per second (0: as fast as answered)\n"
	"\n"
	"What is published\n"
	"  -t, --topic TEMPLATE      (bench/dev-%d/telemetry)\n"
	"  -q, --qos 0|1|2           (1)\n"
	"  -w, --window N            messages outstanding per connection (20); at QoS 0: messages per write\n"
	"      --retain              messages are to be retained\n"
	"      --alias               MQTT 5: topic alias from the second message on\n"
	"  -s, --size BYTES          payload (200)\n"
	"      --payload json|random (json) a reading with wandering values, or noise; no two are equal\n"
	"      --seed N              of the payloads (1)\n"
	"  -r, --rate R              messages per second over all connections, sent on schedule whether or not the server\n"
	"                            keeps up; latency counts from the scheduled time (0: window always full)\n"
	"  -d, --duration SECONDS    (5)\n"
	"  -n, --messages N          stop after N messages instead\n"
	"      --warmup SECONDS      at the beginning, not measured; not at QoS 0 (0)\n"
	"      --drain SECONDS       wait at most so long for what is outstanding (10)\n"
	"      --reconnect           publishers that lose their connection come back and send again what was not acknowledged,\n"
	"                            with DUP where the server kept the session (--persistent)\n"
	"      --no-resend           they come back and send only what is new\n"
	"      --no-publish          connect only\n"
	"\n"
	"Who listens\n"
	"      --subscribers N       further connections that subscribe (0)\n"
	"      --filter TEMPLATE     to this (bench/#); may be repeated, all go in one SUBSCRIBE\n"
	"      --filters N           a template with %m stands in it N times (1)\n"
	"      --sub-qos 0|1|2       (1)\n"
	"      --ahead N             publishers run at most N messages ahead of the subscribers (0: no limit)\n"
	"      --each-subscribes TEMPLATE  every publisher subscribes, too\n"
	"\n"
	"Connections themselves\n"
	"      --idle SECONDS        after connecting, stay, pinging at half of the keep-alive (0)\n"
	"      --await N             stay no longer than until N messages have been received\n"
	"      --storm ROUNDS        then drop all connections at once and have them back, so often (0)\n"
	"\n"
	"What is measured and told\n"
	"      --watch PID           CPU and memory of a process and its descendants; may be repeated\n"
	"      --say-ready           a line on standard output when all are connected and subscribed\n"
	"      --truth FILE          append a line for each message acknowledged and received (see truth.c)\n"
	"      --json                one JSON object instead of text\n"
	"      --quiet               no message about each failing connection\n"
	"      --help                this text\n"
	"\n"
	"At QoS 0 each connection ends with PINGREQ and PINGRESP: what is counted has been read by the server.\n"
	"Status: 0 when nothing was lost, refused or left over, 1 otherwise, 2 for a wrong command line.\n";

/* Long options without a letter. */
/* clang-format off */
enum
{
	OPT_SOURCES = 256, OPT_TLS, OPT_MQTT, OPT_CLIENT_ID, OPT_USER, OPT_PASSWORD, OPT_PERSISTENT, OPT_SESSION_EXPIRY, OPT_KEEP_ALIVE,
	OPT_CONNECTING, OPT_CONNECT_RATE, OPT_RETAIN, OPT_FILTERS, OPT_AWAIT, OPT_ALIAS, OPT_PAYLOAD, OPT_SEED, OPT_WARMUP, OPT_DRAIN, OPT_RECONNECT,
	OPT_NO_RESEND, OPT_NO_PUBLISH, OPT_SUBSCRIBERS, OPT_FILTER, OPT_SUB_QOS, OPT_AHEAD, OPT_EACH_SUBSCRIBES, OPT_IDLE, OPT_STORM,
	OPT_WATCH, OPT_SAY_READY, OPT_TRUTH, OPT_JSON, OPT_QUIET, OPT_HELP
};

static const struct option names[] = {
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"tls", no_argument, NULL, OPT_TLS},
	{"sources", required_argument, NULL, OPT_SOURCES},
	{"connections", required_argument, NULL, 'c'},
	{"processes", required_argument, NULL, 'j'},
	{"mqtt", required_argument, NULL, OPT_MQTT},
	{"client-id", required_argument, NULL, OPT_CLIENT_ID},
	{"user", required_argument, NULL, OPT_USER},
	{"password", required_argument, NULL, OPT_PASSWORD},
	{"persistent", no_argument, NULL, OPT_PERSISTENT},
	{"session-expiry", required_argument, NULL, OPT_SESSION_EXPIRY},
	{"keep-alive", required_argument, NULL, OPT_KEEP_ALIVE},
	{"connecting", required_argument, NULL, OPT_CONNECTING},
	{"connect-rate", required_argument, NULL, OPT_CONNECT_RATE},
	{"topic", required_argument, NULL, 't'},
	{"qos", required_argument, NULL, 'q'},
	{"window", required_argument, NULL, 'w'},
	{"retain", no_argument, NULL, OPT_RETAIN},
	{"alias", no_argument, NULL, OPT_ALIAS},
	{"size", required_argument, NULL, 's'},
	{"payload", required_argument, NULL, OPT_PAYLOAD},
	{"seed", required_argument, NULL, OPT_SEED},
	{"rate", required_argument, NULL, 'r'},
	{"duration", required_argument, NULL, 'd'},
	{"messages", required_argument, NULL, 'n'},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"drain", required_argument, NULL, OPT_DRAIN},
	{"reconnect", no_argument, NULL, OPT_RECONNECT},
	{"no-resend", no_argument, NULL, OPT_NO_RESEND},
	{"no-publish", no_argument, NULL, OPT_NO_PUBLISH},
	{"subscribers", required_argument, NULL, OPT_SUBSCRIBERS},
	{"filter", required_argument, NULL, OPT_FILTER},
	{"filters", required_argument, NULL, OPT_FILTERS},
	{"sub-qos", required_argument, NULL, OPT_SUB_QOS},
	{"ahead", required_argument, NULL, OPT_AHEAD},
	{"each-subscribes", required_argument, NULL, OPT_EACH_SUBSCRIBES},
	{"idle", required_argument, NULL, OPT_IDLE},
	{"await", required_argument, NULL, OPT_AWAIT},
	{"storm", required_argument, NULL, OPT_STORM},
	{"watch", required_argument, NULL, OPT_WATCH},
	{"say-ready", no_argument, NULL, OPT_SAY_READY},
	{"truth", required_argument, NULL, OPT_TRUTH},
	{"json", no_argument, NULL, OPT_JSON},
	{"quiet", no_argument, NULL, OPT_QUIET},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0}
};
/* clang-format on */

/* All filters of a SUBSCRIBE go through the buffer for writing. */
#define MAX_FILTERS_EACH (FL_WRITE_SIZE / FL_MAX_FILTERS / (FL_NAME_SIZE + 8))

static void __attribute__((noreturn, format(printf, 1, 2))) usage(const char *format, ...)
{
	va_list args;

	fputs("fl_load: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("; try --help\n", stderr);
	exit(2);
}

/* A number within bounds. */
static double
number(const char *s, double low, double high)
{
	char *end;
	double v = strtod(s, &end);

	if (end == s || *end != '\0' || !(v >= low && v <= high))
		usage("\"%s\" is not a number between %.0f and %.0f", s, low, high);
	return v;
}

static int64_t
seconds(const char *s)
{
	return (int64_t) (number(s, 0, 1e6) * FL_SECOND);
}

void
fl_template_expand(char *out, size_t size, const char *template, int number, uint64_t m)
{
	size_t n = 0;

	while (*template != '\0' && n + 1 < size)
	{
		if (strncmp(template, "%d", 2) == 0 || strncmp(template, "%m", 2) == 0)
		{
			uint64_t value = template[1] == 'd' ? (uint64_t) number : m;

			n += snprintf(out + n, size - n, "%llu", (unsigned long long) value);
			template += 2;
		}
		else
			out[n++] = *template++;
	}
	/* What does not fit is cut off, though no template that we take is so long. */
	out[n < size ? n : size - 1] = '\0';
}

static const char *template(const char *s)
{
	if (strlen(s) > FL_NAME_SIZE - 32)
		usage("a template is at most %d bytes long", FL_NAME_SIZE - 32);
	return s;
}

static void
set_defaults(FlOptions *o)
{
	memset(o, 0, sizeof(*o));
	o->server.sin_family = AF_INET;
	o->server.sin_port = htons(1883);
	o->server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	o->processes = 1;
	o->version = FL_MQ_311;
	o->connections = 1;
	o->filters_each = 1;
	o->sub_qos = 1;
	o->client_id = "bench-%d";
	o->topic = "bench/dev-%d/telemetry";
	o->clean = true;
	o->resend = true;
	o->session_expiry = 3600;
	o->keep_alive = 60;
	o->connecting = 90;
	o->qos = 1;
	o->window = 20;
	o->size = 200;
	o->seed = 1;
	o->duration = 5 * FL_SECOND;
	o->drain = 10 * FL_SECOND;
}

/* Options that say who connects where; false: it is none of these. */
static bool
read_connection_option(FlOptions *o, int c)
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
		case OPT_TLS:
			o->tls = true;
			break;
		case OPT_SOURCES:
			o->sources = (int) number(optarg, 0, 250);
			break;
		case 'c':
			o->connections = (int) number(optarg, 0, 999999);
			break;
		case 'j':
			o->processes = (int) number(optarg, 1, FL_MAX_PROCESSES);
			break;
		case OPT_MQTT:
			if (strcmp(optarg, "5") != 0 && strcmp(optarg, "3.1.1") != 0)
				usage("--mqtt is 3.1.1 or 5");
			o->version = optarg[0] == '5' ? FL_MQ_5 : FL_MQ_311;
			break;
		case OPT_CLIENT_ID:
			o->client_id = template(optarg);
			break;
		case OPT_USER:
			o->user = template(optarg);
			break;
		case OPT_PASSWORD:
			o->password = template(optarg);
			break;
		case OPT_PERSISTENT:
			o->clean = false;
			break;
		case OPT_SESSION_EXPIRY:
			o->session_expiry = (uint32_t) number(optarg, 0, 4294967295.0);
			break;
		case OPT_KEEP_ALIVE:
			o->keep_alive = (int) number(optarg, 0, 65535);
			break;
		case OPT_CONNECTING:
			o->connecting = (int) number(optarg, 1, 1000000);
			break;
		case OPT_CONNECT_RATE:
			o->connect_rate = number(optarg, 0, 1e7);
			break;
		default:
			return false;
	}
	return true;
}

/* Options that say what is published; false: it is none of these. */
static bool
read_publish_option(FlOptions *o, int c)
{
	switch (c)
	{
		case 't':
			o->topic = template(optarg);
			break;
		case 'q':
			o->qos = (int) number(optarg, 0, 2);
			break;
		case 'w':
			o->window = (int) number(optarg, 1, 16384);
			break;
		case OPT_ALIAS:
			o->alias = true;
			break;
		case 's':
			o->size = (int) number(optarg, FL_STAMP_SIZE, FL_WRITE_SIZE - FL_NAME_SIZE - FL_MQ_OVERHEAD);
			break;
		case OPT_PAYLOAD:
			if (strcmp(optarg, "json") != 0 && strcmp(optarg, "random") != 0)
				usage("--payload is json or random");
			o->payload = optarg[0] == 'j' ? FL_PAYLOAD_JSON : FL_PAYLOAD_RANDOM;
			break;
		case OPT_SEED:
			o->seed = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			o->rate = number(optarg, 0, 1e8);
			break;
		case 'd':
			o->duration = seconds(optarg);
			break;
		case 'n':
			o->messages = (uint64_t) number(optarg, 1, 9999999999.0);
			o->duration = 0;
			break;
		case OPT_RETAIN:
			o->retain = true;
			break;
		case OPT_WARMUP:
			o->warmup = seconds(optarg);
			break;
		case OPT_DRAIN:
			o->drain = seconds(optarg);
			break;
		case OPT_RECONNECT:
			o->reconnect = true;
			break;
		case OPT_NO_RESEND:
			o->reconnect = true;
			o->resend = false;
			break;
		case OPT_NO_PUBLISH:
			o->no_publish = true;
			break;
		default:
			return false;
	}
	return true;
}

static void
read_other_option(FlOptions *o, int c)
{
	switch (c)
	{
		case OPT_SUBSCRIBERS:
			o->subscribers = (int) number(optarg, 0, 999999);
			break;
		case OPT_FILTER:
			if (o->nsub_filters == FL_MAX_FILTERS)
				usage("at most %d filters can be named", FL_MAX_FILTERS);
			o->sub_filter[o->nsub_filters++] = template(optarg);
			break;
		case OPT_FILTERS:
			o->filters_each = (int) number(optarg, 1, MAX_FILTERS_EACH);
			break;
		case OPT_SUB_QOS:
			o->sub_qos = (int) number(optarg, 0, 2);
			break;
		case OPT_AHEAD:
			o->ahead = (int64_t) number(optarg, 0, 1e9);
			break;
		case OPT_EACH_SUBSCRIBES:
			o->each_filter = template(optarg);
			break;
		case OPT_IDLE:
			o->idle = seconds(optarg);
			break;
		case OPT_AWAIT:
			o->await = (uint64_t) number(optarg, 1, 9999999999.0);
			break;
		case OPT_STORM:
			o->storms = (int) number(optarg, 0, 32);
			break;
		case OPT_WATCH:
			if (o->nwatched == FL_MAX_WATCHED)
				usage("at most %d processes can be watched", FL_MAX_WATCHED);
			o->watched[o->nwatched++] = (pid_t) number(optarg, 1, 1e9);
			break;
		case OPT_SAY_READY:
			o->say_ready = true;
			break;
		case OPT_TRUTH:
			o->truth = optarg;
			break;
		case OPT_JSON:
			o->json = true;
			break;
		case OPT_QUIET:
			o->quiet = true;
			break;
		case OPT_HELP:
			fputs(help, stdout);
			exit(0);
		default:
			fputs("fl_load: try --help\n", stderr);
			exit(2);
	}
}

void
fl_options_read(FlOptions *o, int argc, char **argv)
{
	int c;

	set_defaults(o);
	while ((c = getopt_long(argc, argv, "h:p:c:j:t:q:w:s:r:d:n:", names, NULL)) != -1)
	{
		if (!read_connection_option(o, c) && !read_publish_option(o, c))
			read_other_option(o, c);
	}
	if (optind < argc)
		usage("unexpected \"%s\"", argv[optind]);
	if (o->nsub_filters == 0)
		o->sub_filter[o->nsub_filters++] = "bench/#";
	if (o->await > 0 && (o->idle == 0 || o->processes > 1))
		usage("--await wants --idle, the longest wait, and one process");
	if (o->alias && strstr(o->topic, "%m") != NULL)
		usage("--alias is not for topics that change");
	if (o->connections + o->subscribers == 0)
		usage("nobody connects");
	if (o->connections == 0)
		o->no_publish = true;
	if (!o->no_publish && o->duration == 0 && o->messages == 0)
		usage("--duration 0 has no end");
	if (o->ahead > 0 && o->subscribers == 0)
		usage("--ahead wants --subscribers");
	if (o->alias && o->version != FL_MQ_5)
		usage("--alias wants --mqtt 5");
	if (o->warmup > 0 && o->qos == 0)
		usage("--warmup is not for QoS 0, where nothing tells what has arrived");
	if (o->duration > 0 && o->warmup >= o->duration)
		usage("--warmup leaves nothing of --duration to measure");
	if (!o->resend && !o->clean)
		usage("--no-resend is not for --persistent: in a session that goes on everything must be sent again");
	if (o->processes > o->connections + o->subscribers)
		o->processes = o->connections + o->subscribers;
}
