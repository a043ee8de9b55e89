/*
 * log.c
 *		Log lines of the MQTT door that do not flood, and the one about the end of
 *		a connection: who it was, why it ended, and what to do about it.
 *
 * Of each kind a few lines are written in a few seconds, then one that says how
 * many were left out.  Of the ends of connections, besides, a client (before it has
 * logged in: an address) has one line a minute: a single device that flaps must not
 * use up what the others' faults need.
 *
 * What a client sends is never quoted but for its names, which hold no control
 * characters (the codec refuses them), cut at 128 bytes; passwords never.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "utils/timestamp.h"

#include "fleetlog/door.h"
#include "mqtt.h"
#include "packet.h"

#define WINDOW_MS      10000
#define LINES          10
#define SAME_CLIENT_MS 60000

/* ---- how many lines ---- */

static void
end_window(FlMqttDoor *door, FlMqttLogKind kind)
{
	static const char *const about[FL_MQTT_LOG_KINDS] = {
		[FL_MQTT_LOG_NO_MOUNT] = "topics without a mount",
		[FL_MQTT_LOG_NOT_AUTHORISED] = "what was not allowed",
		[FL_MQTT_LOG_PROTOCOL] = "errors of protocol",
		[FL_MQTT_LOG_LOGIN] = "logins and withdrawn rights",
		[FL_MQTT_LOG_REFUSED] = "messages that were refused",
		[FL_MQTT_LOG_CONNECTION] = "connections that ended",
		[FL_MQTT_LOG_FEED] = "subscribers that fell behind",
	};
	FlMqttLogBudget *budget = &door->log[kind];

	if (budget->suppressed > 0)
		ereport(LOG, (errmsg("fleetlog: front door %d left out " UINT64_FORMAT " log lines about %s", door->index,
							 budget->suppressed, about[kind])));
	budget->lines = 0;
	budget->suppressed = 0;
}

bool
fl_mqtt_log_allowed(FlMqttDoor *door, FlMqttLogKind kind)
{
	FlMqttLogBudget *budget = &door->log[kind];
	int64 now = fl_net_now(door->net);

	if (now - budget->window_ms >= WINDOW_MS || now < budget->window_ms)
	{
		end_window(door, kind);
		budget->window_ms = now;
	}
	if (budget->lines < LINES)
	{
		budget->lines++;
		return true;
	}
	budget->suppressed++;
	return false;
}

/* Once a second: what was left out is told when the flood is over, not when the next one comes. */
void
fl_mqtt_log_run(FlMqttDoor *door)
{
	int64 now = fl_net_now(door->net);

	for (int kind = 0; kind < FL_MQTT_LOG_KINDS; kind++)
		if (door->log[kind].suppressed > 0 && now - door->log[kind].window_ms >= WINDOW_MS)
			end_window(door, (FlMqttLogKind) kind);
}

/* ---- who ---- */

/*
 * How a connection is called in the log: client id and identity.  Static, so
 * one name a line.
 */
const char *
fl_mqtt_name(const FlMqttConn *conn)
{
	static char name[400];
	Size len;
	const char *client_id;

	if (conn->who == NULL)
	{
		char peer[80];

		snprintf(name, sizeof(name), "client at %s", fl_net_peer(&conn->net, peer, sizeof(peer)));
		return name;
	}
	client_id = fl_mqtt_client_id(conn, &len);
	len = (Size) pg_mbcliplen(client_id, (int) len, 128);
	if (conn->who->kind == FL_IDENTITY_DEVICE)
		snprintf(name, sizeof(name), "client \"%.*s\" of device \"%s/%s\"", (int) len, client_id,
				 fl_mqtt_who_tenant(conn->who), fl_mqtt_who_device(conn->who));
	else if (conn->who->kind == FL_IDENTITY_ROLE)
		snprintf(name, sizeof(name), "client \"%.*s\" of role \"%s\"", (int) len, client_id,
				 fl_mqtt_who_role(conn->who));
	else
		snprintf(name, sizeof(name), "client \"%.*s\"", (int) len, client_id);
	return name;
}

/* One number for a client, or for the address of who has not logged in. */
static uint64
number_of(const FlMqttConn *conn)
{
	char peer[80];
	char *port;
	uint64 digest;

	if (conn->who == NULL)
	{
		fl_net_peer(&conn->net, peer, sizeof(peer));
		port = strrchr(peer, ':');
		return DatumGetUInt64(hash_any_extended((const unsigned char *) peer,
												port != NULL ? (int) (port - peer) : (int) strlen(peer), 1));
	}
	memcpy(&digest, conn->key.digest, sizeof(digest));
	return digest;
}

/* ---- the end of a connection ---- */

/* Has the end a line of its own, with more to say, from where it was noticed? */
static bool
is_told(const FlMqttConn *conn, const char *why)
{
	static const char *const told[] = {"TLS handshake failed", "no WebSocket", "no PROXY header"};

	if (conn->end_logged)
		return true;
	for (int i = 0; i < (int) lengthof(told); i++)
		if (conn->who == NULL && strcmp(why, told[i]) == 0)
			return true;
	return false;
}

/*
 * Is it what the client, or we, wanted?  Who connects and goes without a word is a
 * port scanner or a balancer, which do so all day.
 */
static bool
is_ordinary(const FlMqttConn *conn, const char *why)
{
	if (conn->door->stopping)
		return true;
	if (conn->said_goodbye)
		return conn->end_reason == FL_MQTT_RC_SUCCESS || conn->end_reason == FL_MQTT_RC_DISCONNECT_WITH_WILL;
	return conn->state == FL_MQTT_STATE_NEW && conn->end_reason == FL_MQTT_RC_SUCCESS &&
		   strncmp(why, "connection ", strlen("connection ")) == 0;
}

const char *
fl_mqtt_remedy(uint8 reason)
{
	switch ((FlMqttReason) reason)
	{
		case FL_MQTT_RC_MALFORMED_PACKET:
		case FL_MQTT_RC_PROTOCOL_ERROR:
			return "This is a fault of the client, or of something that speaks no MQTT.";
		case FL_MQTT_RC_NOT_AUTHORIZED:
			return "fleetlog.can(client, action, topic) tells what it may do, and why.";
		case FL_MQTT_RC_KEEP_ALIVE_TIMEOUT:
			return "It sent nothing for one and a half times its keep alive: its network is gone, or it sends no PINGREQ.";
		case FL_MQTT_RC_SESSION_TAKEN_OVER:
			return "Where this repeats, two clients have the same client identifier: give each its own.";
		case FL_MQTT_RC_RECEIVE_MAXIMUM_EXCEEDED:
			return "fleetlog.max_inflight sets how much it may have unacknowledged.";
		case FL_MQTT_RC_TOPIC_ALIAS_INVALID:
			return "fleetlog.max_topic_aliases sets the highest that a client may use.";
		case FL_MQTT_RC_PACKET_TOO_LARGE:
			return "fleetlog.max_packet_size and the limits of its tenant say what is too large; a CONNECT may have 128 kB.";
		case FL_MQTT_RC_RETAIN_NOT_SUPPORTED:
			return "A state table for the mount keeps retained messages: fleetlog.alter_mount(prefix, state => ...).";
		case FL_MQTT_RC_SERVER_UNAVAILABLE:
		case FL_MQTT_RC_SERVER_BUSY:
		case FL_MQTT_RC_UNSPECIFIED_ERROR:
			return "Earlier lines of this log, or fleetlog.stat_worker, tell what the server waits for.";
		case FL_MQTT_RC_ADMINISTRATIVE_ACTION:
			return "fleetlog.audit tells who asked for it.";
		default:
			return NULL;
	}
}

/* Of those that say nothing in a reason code. */
static const char *
remedy_of(const FlMqttConn *conn)
{
	if (conn->end_reason == FL_MQTT_RC_SUCCESS && conn->state == FL_MQTT_STATE_NEW)
		return "It takes longer to log in than fleetlog.connect_timeout allows, or speaks no MQTT.";
	return conn->said_goodbye ? NULL : fl_mqtt_remedy(conn->end_reason);
}

/* May there be a line about this client?  *left_out: how many there were not since its last one. */
static bool
may_log(FlMqttConn *conn, uint32 *left_out)
{
	FlMqttDoor *door = conn->door;
	uint64 number = number_of(conn);
	int64 now = fl_net_now(door->net);
	FlMqttLogged *place = &door->logged[number % FL_MQTT_LOGGED];

	*left_out = place->number == number ? place->left_out : 0;
	if (place->number == number && now >= place->at_ms && now - place->at_ms < SAME_CLIENT_MS)
	{
		place->left_out++;
		return false;
	}
	if (!fl_mqtt_log_allowed(door, FL_MQTT_LOG_CONNECTION))
		return false;
	place->number = number;
	place->at_ms = now;
	place->left_out = 0;
	return true;
}

/* Before anything of the connection is given back. */
void
fl_mqtt_log_end(FlMqttConn *conn, const char *why)
{
	bool all = fl_log_connections == FL_ENDS_ALL;
	uint32 left_out = 0;
	const char *remedy;

	if (fl_log_connections == FL_ENDS_OFF || is_told(conn, why))
		return;
	if (!all && is_ordinary(conn, why))
		return;
	/* Whoever wants all of them gets all of those that have logged in. */
	if (!(all && conn->who != NULL) && !may_log(conn, &left_out))
		return;
	remedy = is_ordinary(conn, why) ? NULL : remedy_of(conn);
	ereport(LOG,
			(conn->end_reason == FL_MQTT_RC_SUCCESS
				 ? errmsg("fleetlog: %s is gone: %s", fl_mqtt_name(conn), why)
				 : errmsg("fleetlog: %s is gone: %s (0x%02X)", fl_mqtt_name(conn), why, conn->end_reason),
			 left_out > 0 ? errdetail("Its connections ended %u more times since the last such line.", left_out) : 0,
			 remedy != NULL ? errhint("%s", remedy) : 0));
}

void
fl_mqtt_log_begin(FlMqttConn *conn)
{
	static const char *const versions[] = {[FL_MQTT_3_1] = "3.1", [FL_MQTT_3_1_1] = "3.1.1", [FL_MQTT_5_0] = "5.0"};
	char peer[80];

	if (fl_log_connections == FL_ENDS_ALL)
		ereport(LOG, (errmsg("fleetlog: %s was let in from %s, MQTT %s", fl_mqtt_name(conn),
							 fl_net_peer(&conn->net, peer, sizeof(peer)), versions[conn->version])));
}
