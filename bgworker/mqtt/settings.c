/*
 * settings.c
 *		The settings of the MQTT front door; docs/mqtt.md tells what each does at
 *		its limit.  All take effect with a reload, for new connections.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "fleetlog/door.h"
#include "fleetlog/mqtt.h"
#include "fleetlog/utf8.h"
#include "mqtt.h"

#define MAX_SERVER_REFERENCE 1024 /* bytes */

char *fl_mqtt_listen = "";
char *fl_mqtts_listen = "";
char *fl_ws_listen = "";
char *fl_wss_listen = "";
bool fl_mqtt_allow_anonymous = false;
int fl_mqtt_connect_timeout_s = 10;
int fl_mqtt_max_packet_bytes = FL_MQTT_DEFAULT_PACKET;
int fl_mqtt_max_inflight = 20;
int fl_mqtt_max_unreleased = 1000;
int fl_mqtt_max_keep_alive_s = 0;
int fl_mqtt_max_topic_aliases = 10;
char *fl_mqtt_server_reference = "";
int fl_mqtt_max_topic_levels = 16;
int fl_mqtt_max_queued_messages = 1000;
int fl_mqtt_max_queued_kb = 1024;
int fl_mqtt_buffer_memory_mb = 256;
int fl_mqtt3_refusal = FL_MQTT3_CLOSE;
int fl_mqtt_dialect = FL_MQTT_DIALECT_LENIENT;
bool fl_mqtt_reason_strings = true;
int fl_log_connections = FL_ENDS_FAULTS;
int fl_mqtt_sys_interval_s = 10;

static const struct config_enum_entry refusal_options[] = {{"close", FL_MQTT3_CLOSE, false},
														   {"acknowledge", FL_MQTT3_ACKNOWLEDGE, false},
														   {NULL, 0, false}};

static const struct config_enum_entry dialect_options[] = {{"lenient", FL_MQTT_DIALECT_LENIENT, false},
														   {"strict", FL_MQTT_DIALECT_STRICT, false},
														   {"mosquitto", FL_MQTT_DIALECT_MOSQUITTO, false},
														   {"paho", FL_MQTT_DIALECT_PAHO, false},
														   {NULL, 0, false}};

static const struct config_enum_entry ends_options[] = {{"off", FL_ENDS_OFF, false},
														{"faults", FL_ENDS_FAULTS, false},
														{"all", FL_ENDS_ALL, false},
														{NULL, 0, false}};

static void
define_listener(const char *name, const char *what, char **value)
{
	DefineCustomStringVariable(name, what, "A port alone means loopback, * every address. Empty: off.", value, "",
							   PGC_SIGHUP, 0, fl_net_check_listen, NULL, NULL);
}

/* It is sent as it is, to clients that would have to close on ill-formed text (MQTT-1.5.4-1). */
static bool
check_reference(char **newval, void **extra, GucSource source)
{
	size_t len = strlen(*newval);

	if (len <= MAX_SERVER_REFERENCE && fl_utf8_valid_mqtt((const uint8_t *) *newval, len))
		return true;
	GUC_check_errdetail("UTF-8 text of at most %d bytes is expected.", MAX_SERVER_REFERENCE);
	return false;
}

static void
define_access(void)
{
	define_listener("fleetlog.mqtt_listen", "Addresses at which MQTT is spoken, as host:port[,host:port...].",
					&fl_mqtt_listen);
	define_listener("fleetlog.mqtts_listen", "Addresses at which MQTT is spoken over TLS.", &fl_mqtts_listen);
	define_listener("fleetlog.ws_listen", "Addresses at which MQTT is spoken over WebSocket.", &fl_ws_listen);
	define_listener("fleetlog.wss_listen", "Addresses at which MQTT is spoken over WebSocket and TLS.", &fl_wss_listen);
	DefineCustomBoolVariable("fleetlog.allow_anonymous", "Lets in clients that give no user name.",
							 "They may read and write every mount, but neither $SYS nor commands.",
							 &fl_mqtt_allow_anonymous, false, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.connect_timeout", "How long a connection may take to log in.",
							"Then it is closed.", &fl_mqtt_connect_timeout_s, 10, 1, 3600, PGC_SIGHUP, GUC_UNIT_S, NULL,
							NULL, NULL);
	DefineCustomIntVariable(
		"fleetlog.max_keep_alive", "Longest keep alive that a client may ask for.",
		"MQTT 5 clients are told (Server Keep Alive); older ones cannot be told and keep theirs. Zero: no limit.",
		&fl_mqtt_max_keep_alive_s, 0, 0, 65535, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomStringVariable("fleetlog.server_reference",
							   "Where MQTT 5 clients are told to go when this server ends.",
							   "Sent with reason code 0x9C, at shutdown and when fleetlog.max_connections is reached.",
							   &fl_mqtt_server_reference, "", PGC_SIGHUP, 0, check_reference, NULL, NULL);
	DefineCustomBoolVariable("fleetlog.reason_strings", "Tells MQTT 5 clients in words why something is refused.",
							 "Beside the reason code, but for logins, and not to clients that do not want it.",
							 &fl_mqtt_reason_strings, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("fleetlog.mqtt3_refusal",
							 "What becomes of a refused QoS 1 PUBLISH of MQTT 3.x, which knows no reason codes.",
							 "\"close\" ends the connection; \"acknowledge\" acknowledges and drops the message.",
							 &fl_mqtt3_refusal, FL_MQTT3_CLOSE, refusal_options, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("fleetlog.mqtt_dialect", "How MQTT is answered where brokers differ.",
							 "\"lenient\" bears what harms nobody, \"strict\" is the letter of the standard, "
							 "\"mosquitto\" and \"paho\" are what the tests of those projects expect.",
							 &fl_mqtt_dialect, FL_MQTT_DIALECT_LENIENT, dialect_options, PGC_SIGHUP, 0, NULL, NULL,
							 NULL);
	DefineCustomEnumVariable("fleetlog.log_connections", "Which ends of connections are logged.",
							 "\"faults\": those that nobody wanted, a client once a minute; \"all\": every one, "
							 "and clients that are let in; \"off\": none.",
							 &fl_log_connections, FL_ENDS_FAULTS, ends_options, PGC_SIGHUP, 0, NULL, NULL,
							 NULL);
	DefineCustomIntVariable("fleetlog.sys_interval", "How often subscribers of $SYS are told what has changed.",
							"Operators only may subscribe. Zero: there is no $SYS.", &fl_mqtt_sys_interval_s, 10, 0, 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

static void
define_limits(void)
{
	DefineCustomIntVariable("fleetlog.max_packet_size", "Largest MQTT packet that is accepted, in bytes.",
							"A larger one ends the connection with reason code 0x95.", &fl_mqtt_max_packet_bytes,
							FL_MQTT_DEFAULT_PACKET, 1024, 268435460, PGC_SIGHUP, GUC_UNIT_BYTE, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"fleetlog.max_inflight", "QoS 1 and 2 messages that may be unacknowledged, in each direction of a connection.",
		"A client of MQTT 5 that sends more is disconnected with reason code 0x93; older ones are read no further.",
		&fl_mqtt_max_inflight, 20, 1, 65535, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_unreleased", "QoS 2 messages that a client of MQTT 3.x may leave unreleased.",
							"One more ends the connection; clients of MQTT 5 are held to fleetlog.max_inflight.",
							&fl_mqtt_max_unreleased, 1000, 1, 65535, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_topic_aliases", "Topic aliases that a client may use.",
							"A higher alias ends the connection with reason code 0x94.", &fl_mqtt_max_topic_aliases, 10,
							0, 65535, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_topic_levels", "Levels that a topic or filter may have.",
							"More are refused with reason code 0x90 or 0x8F.", &fl_mqtt_max_topic_levels, 16, 1, 1000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_queued_messages", "Messages that may wait in memory for one subscriber.",
							"Beyond it QoS 0 is dropped and counted, QoS 1 is read from the log later.",
							&fl_mqtt_max_queued_messages, 1000, 1, 1000000, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("fleetlog.max_queued_size", "Bytes that may wait in memory for one subscriber.",
							"Beyond it QoS 0 is dropped and counted, QoS 1 is read from the log later.",
							&fl_mqtt_max_queued_kb, 1024, 16, 1048576, PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable(
		"fleetlog.buffer_memory", "Memory of each front door for packets that are half received or not yet sent.",
		"At the limit QoS 0 is dropped, QoS 1 waits in the log, and a connection that needs more for half a packet is closed.",
		&fl_mqtt_buffer_memory_mb, 256, 8, 1048576, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
}

void
fl_mqtt_define_settings(void)
{
	define_access();
	define_limits();
}
