/*
 * log.c
 *		Log lines of the MQTT door that do not flood: a few lines of each kind in
 *		a few seconds, then one that says how many were left out.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "mqtt.h"

#define WINDOW_MS 10000
#define LINES     10

bool
fl_mqtt_log_allowed(FlMqttDoor *door, FlMqttLogKind kind)
{
	FlMqttLogBudget *budget = &door->log[kind];
	int64 now = fl_net_now(door->net);

	if (now - budget->window_ms >= WINDOW_MS || now < budget->window_ms)
	{
		if (budget->suppressed > 0)
			ereport(LOG, (errmsg("fleetlog: front door %d left out " UINT64_FORMAT " log lines like the next one",
								 door->index, budget->suppressed)));
		budget->window_ms = now;
		budget->lines = 0;
		budget->suppressed = 0;
	}
	if (budget->lines < LINES)
	{
		budget->lines++;
		return true;
	}
	budget->suppressed++;
	return false;
}

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
