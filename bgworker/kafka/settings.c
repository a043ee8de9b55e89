/*
 * settings.c
 *		The settings of the Kafka door; docs/kafka.md tells what each does at its
 *		limit.  All take effect with a reload, for new connections.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/guc.h"

#include "fleetlog/catalog.h"
#include "fleetlog/kafka.h"
#include "admin.h"
#include "kafka.h"

char *fl_kafka_listen = "";
char *fl_kafkas_listen = "";
char *fl_kafka_advertised = "";
int fl_kafka_max_request_kb = 16384;
int fl_kafka_max_fetch_kb = 16384;

static bool
parse_port(const char *text, const char *end, int *port)
{
	int value = 0;

	if (text == end || end - text > 5)
		return false;
	for (const char *p = text; p < end; p++)
	{
		if (*p < '0' || *p > '9')
			return false;
		value = value * 10 + (*p - '0');
	}
	*port = value;
	return value >= 1 && value <= 65535;
}

/*
 * One item, [port=]host:port.  *local is 0 where none is named.  The host is not looked at:
 * it is a name for clients, which this server need not be able to resolve.
 */
static bool
parse_item(const char *item, const char *end, int *local, FlKafkaAddress *out)
{
	const char *equals = memchr(item, '=', (Size) (end - item));
	const char *colon = end;
	Size len;

	*local = 0;
	if (equals != NULL)
	{
		if (!parse_port(item, equals, local))
			return false;
		item = equals + 1;
	}
	while (colon > item && *colon != ':')
		colon--;
	if (colon == item || !parse_port(colon + 1, end, &out->port))
		return false;
	/* Clients want an IPv6 address without its brackets. */
	if (*item == '[' && colon[-1] == ']')
	{
		item++;
		colon--;
	}
	len = (Size) (colon - item);
	if (len == 0 || len >= sizeof(out->host))
		return false;
	memcpy(out->host, item, len);
	out->host[len] = '\0';
	return true;
}

/* The next item of a list, without the blanks around it; false: there is none. */
static bool
next_item(const char **at, const char **item, const char **end)
{
	const char *p = *at;

	while (*p == ' ' || *p == ',' || *p == '\t')
		p++;
	*item = p;
	while (*p != '\0' && *p != ',' && *p != ' ' && *p != '\t')
		p++;
	*end = *at = p;
	return *item != *end;
}

static bool
check_advertised(char **newval, void **extra, GucSource source)
{
	const char *at = *newval;
	const char *item;
	const char *end;
	int local;
	FlKafkaAddress address;

	while (next_item(&at, &item, &end))
	{
		if (parse_item(item, end, &local, &address))
			continue;
		GUC_check_errdetail("A list of host:port or local-port=host:port is expected.");
		return false;
	}
	return true;
}

bool
fl_kafka_find_advertised(int local_port, FlKafkaAddress *out)
{
	const char *at = fl_kafka_advertised;
	const char *item;
	const char *end;
	FlKafkaAddress address;
	bool found = false;
	int local;

	while (next_item(&at, &item, &end))
	{
		if (!parse_item(item, end, &local, &address) || (local != 0 && local != local_port) || (local == 0 && found))
			continue;
		*out = address;
		found = true;
		if (local != 0)
			break;
	}
	return found;
}

void
fl_kafka_define_settings(void)
{
	DefineCustomStringVariable("fleetlog.kafka_listen", "Addresses at which Kafka's protocol is spoken.",
							   "A port alone means loopback, * every address. Empty: off.", &fl_kafka_listen, "",
							   PGC_SIGHUP, 0, fl_net_check_listen, NULL, NULL);
	DefineCustomStringVariable("fleetlog.kafkas_listen", "Addresses at which Kafka's protocol is spoken over TLS.",
							   "A port alone means loopback, * every address. Empty: off.", &fl_kafkas_listen, "",
							   PGC_SIGHUP, 0, fl_net_check_listen, NULL, NULL);
	DefineCustomStringVariable(
		"fleetlog.kafka_advertised", "Where Kafka clients are told to connect, as [local-port=]host:port,...",
		"Empty: the address that the client has come to. With a local port: for clients of that listener only.",
		&fl_kafka_advertised, "", PGC_SIGHUP, 0, check_advertised, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_max_request", "Largest request of a Kafka client.",
							"A larger one ends the connection. Before login it is 64 kB.", &fl_kafka_max_request_kb,
							16384, 1024, 102400, PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomBoolVariable("fleetlog.kafka_auto_create_topics",
							 "Is a topic made when a role's client asks for one that is missing?",
							 "The role needs the rights that create_stream asks for.", &fl_kafka_auto_create_topics, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_num_partitions",
							"Partitions of a topic that a Kafka client makes without naming a number.",
							"Topics that are made when they are asked for, and CreateTopics with -1.",
							&fl_kafka_num_partitions, 1, 1, FL_MAX_SHARDS, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.kafka_max_fetch", "Most bytes of batches in one answer to a Kafka client's Fetch.",
							"Whatever the client asks for; the first batch is sent whole.", &fl_kafka_max_fetch_kb, 16384,
							64, 131072, PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
}
