/*
 * settings.c
 *		Settings of TLS, WebSocket and the PROXY protocol, and when they are taken.
 *
 * They hold for all listeners of a kind.  docs/listeners.md tells what each does.
 * Files are read and lists parsed by fl_net_configure, at start and at every
 * reload; until then what was taken before is in force.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>

#include "utils/guc.h"

#include "tls.h"

#define MAX_BALANCERS 64

char *fl_tls_cert_file = "";
char *fl_tls_key_file = "";
char *fl_tls_ca_file = "";
char *fl_tls_crl_file = "";
int fl_tls_min_version = TLS1_2_VERSION;
bool fl_tls_require_certificate = false;
int fl_tls_identity = FL_TLS_IDENTITY_CN;
bool fl_tls_psk = false;
int fl_tls_session_lifetime_s = 7200;
int fl_tls_max_handshakes = 10;
char *fl_ws_path = "/mqtt";
char *fl_ws_origins = "";
static char *proxy_protocol_from = "";

static const struct config_enum_entry version_options[] = {{"TLSv1.2", TLS1_2_VERSION, false},
														   {"TLSv1.3", TLS1_3_VERSION, false},
														   {NULL, 0, false}};

static const struct config_enum_entry identity_options[] = {{"cn", FL_TLS_IDENTITY_CN, false},
															{"subject", FL_TLS_IDENTITY_SUBJECT, false},
															{"dns", FL_TLS_IDENTITY_DNS, false},
															{"uri", FL_TLS_IDENTITY_URI, false},
															{NULL, 0, false}};

bool
fl_net_check_listen(char **newval, void **extra, GucSource source)
{
	const char *why;

	if (fl_net_check_spec(*newval, &why))
		return true;
	GUC_check_errdetail("A list of host:port is expected: %s.", why);
	return false;
}

/* ---- balancers ---- */

typedef struct Network
{
	int family;
	int bits;
	uint8 address[16];
} Network;

static Network balancers[MAX_BALANCERS];
static int balancer_count = 0;

/* "192.0.2.0/24", "2001:db8::1"; false: it is no such thing. */
static bool
parse_network(char *text, Network *out)
{
	char *slash = strchr(text, '/');
	int most;

	memset(out, 0, sizeof(*out));
	if (slash != NULL)
		*slash = '\0';
	if (inet_pton(AF_INET, text, out->address) == 1)
		out->family = AF_INET;
	else if (inet_pton(AF_INET6, text, out->address) == 1)
		out->family = AF_INET6;
	else
		return false;
	most = out->family == AF_INET ? 32 : 128;
	out->bits = most;
	if (slash != NULL)
	{
		char *end;
		long bits = strtol(slash + 1, &end, 10);

		if (end == slash + 1 || *end != '\0' || bits < 0 || bits > most)
			return false;
		out->bits = (int) bits;
	}
	return true;
}

/* How many networks a list has, -1: it is not valid.  out may hold MAX_BALANCERS. */
static int
parse_networks(const char *list, Network *out)
{
	char *copy = strdup(list ? list : "");
	char *save = NULL;
	int n = 0;

	if (copy == NULL)
		return -1;
	for (char *item = strtok_r(copy, ", \t", &save); item && n >= 0; item = strtok_r(NULL, ", \t", &save))
		n = n < MAX_BALANCERS && parse_network(item, &out[n]) ? n + 1 : -1;
	free(copy);
	return n;
}

static bool
check_balancers(char **newval, void **extra, GucSource source)
{
	Network parsed[MAX_BALANCERS];

	if (parse_networks(*newval, parsed) >= 0)
		return true;
	GUC_check_errdetail("A list of at most %d addresses or networks (address/bits) is expected, separated by commas.",
						MAX_BALANCERS);
	return false;
}

static bool
lies_in(const uint8 *address, const Network *network)
{
	int bytes = network->bits / 8;
	int bits = network->bits % 8;

	if (memcmp(address, network->address, (size_t) bytes) != 0)
		return false;
	return bits == 0 || ((address[bytes] ^ network->address[bytes]) >> (8 - bits)) == 0;
}

bool
fl_net_is_balancer(const struct sockaddr_storage *peer)
{
	const uint8 *address = peer->ss_family == AF_INET
							   ? (const uint8 *) &((const struct sockaddr_in *) peer)->sin_addr
							   : (const uint8 *) &((const struct sockaddr_in6 *) peer)->sin6_addr;

	for (int i = 0; i < balancer_count; i++)
		if (balancers[i].family == peer->ss_family && lies_in(address, &balancers[i]))
			return true;
	return false;
}

/* ---- other checks ---- */

static bool
check_path(char **newval, void **extra, GucSource source)
{
	const char *path = *newval;

	if (path[0] != '/' || strlen(path) > 255 || strpbrk(path, " ?#\r\n\t") != NULL)
	{
		GUC_check_errdetail("A path begins with \"/\" and has neither spaces nor a query.");
		return false;
	}
	return true;
}

/* ---- definition ---- */

static void
define_file(const char *name, const char *what, const char *more, char **value)
{
	DefineCustomStringVariable(name, what, more, value, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
}

static void
define_tls(void)
{
	define_file("fleetlog.tls_cert_file", "PEM files with the server's certificates and their chains.",
				"Several, separated by commas, are chosen by the name that the client asks for; the first is for all others.",
				&fl_tls_cert_file);
	define_file("fleetlog.tls_key_file", "PEM files with the private keys of the certificates, in the same order.",
				"Only the server's user may be able to read them; a key must have no passphrase.", &fl_tls_key_file);
	define_file("fleetlog.tls_ca_file", "PEM file with the CAs whose client certificates are accepted.",
				"Empty: clients are not asked for a certificate.", &fl_tls_ca_file);
	define_file("fleetlog.tls_crl_file", "PEM file with lists of revoked certificates.",
				"Empty: none are revoked. Else there must be a list of each CA up to the root.", &fl_tls_crl_file);
	DefineCustomEnumVariable("fleetlog.tls_min_version", "Oldest version of TLS that is spoken.", NULL,
							 &fl_tls_min_version, TLS1_2_VERSION, version_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("fleetlog.tls_require_certificate", "Refuses TLS clients without a certificate.",
							 "It takes effect where fleetlog.tls_ca_file is set. Pre-shared keys are no certificates and stay possible.",
							 &fl_tls_require_certificate, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("fleetlog.tls_identity", "What of a client's certificate names its device.",
							 "It is compared with what create_device was given as certificate_subject.", &fl_tls_identity,
							 FL_TLS_IDENTITY_CN, identity_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("fleetlog.tls_psk", "Lets devices use TLS with a pre-shared key.", NULL, &fl_tls_psk, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.tls_session_lifetime", "How long a TLS session may be resumed.",
							"Zero: no session tickets are given.", &fl_tls_session_lifetime_s, 7200, 0, 604800,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_handshakes_per_turn", "Steps of TLS handshakes that a front door takes in one turn.",
							"Others wait in a queue while those who are connected are served.", &fl_tls_max_handshakes, 10,
							1, 1000, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

void
fl_net_settings_define(void)
{
	define_tls();
	DefineCustomStringVariable("fleetlog.ws_path", "Path at which WebSocket is served.", NULL, &fl_ws_path, "/mqtt",
							   PGC_SIGHUP, 0, check_path, NULL, NULL);
	DefineCustomStringVariable("fleetlog.ws_origins", "Origins of web pages that may open a WebSocket.",
							   "As scheme://host[:port], separated by commas, besides the server's own; * stands for all.",
							   &fl_ws_origins, "", PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("fleetlog.proxy_protocol_from",
							   "Load balancers that send a PROXY header (version 2) in front of each connection.",
							   "Addresses or networks, separated by commas. They must send one, others must not.",
							   &proxy_protocol_from, "", PGC_SIGHUP, 0, check_balancers, NULL, NULL);
}

/* ---- at start and reload ---- */

void
fl_net_configure(FlNetLoop *loop, bool tls_wanted)
{
	Network parsed[MAX_BALANCERS];
	int n = parse_networks(proxy_protocol_from, parsed);
	FlTls *tls = NULL;

	if (n >= 0)
	{
		memcpy(balancers, parsed, sizeof(Network) * (size_t) n);
		balancer_count = n;
	}
	if (tls_wanted)
		tls = fl_tls_load(fl_tls_psk);
	if (tls == NULL)
	{
		if (tls_wanted && loop->tls != NULL)
			ereport(LOG, (errmsg("fleetlog: front door %d goes on with the certificates that it had", loop->door)));
		return;
	}
	if (loop->tls != NULL)
		fl_tls_free(loop->tls);
	loop->tls = tls;
	/* In the next turn: what ends a connection may fail, and a turn has the means to deal with that. */
	loop->lists_changed = true;
}
