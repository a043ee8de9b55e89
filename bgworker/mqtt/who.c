/*
 * who.c
 *		Who is connected: identity and client id, kept small.
 */
#include "postgres.h"

#include "mqtt.h"

FlMqttWho *
fl_mqtt_pack_who(MemoryContext context, const FlIdentity *identity, const uint8 *client_id, Size client_id_len)
{
	Size tenant_len = strlen(identity->tenant);
	Size device_len = strlen(identity->device);
	Size role_len = strlen(identity->role_name);
	FlMqttWho *who = MemoryContextAllocZero(context, offsetof(FlMqttWho, text) + tenant_len + device_len +
														 client_id_len + role_len + 4);
	char *text = who->text;

	who->credential = identity->credential;
	who->role = identity->role;
	who->kind = (uint8) identity->kind;
	who->tenant_len = (uint8) tenant_len;
	who->device_len = (uint8) device_len;
	who->role_len = (uint8) role_len;
	who->client_id_len = (uint16) client_id_len;
	memcpy(text, identity->tenant, tenant_len);
	text += tenant_len + 1;
	memcpy(text, identity->device, device_len);
	text += device_len + 1;
	if (client_id_len > 0)
		memcpy(text, client_id, client_id_len);
	text += client_id_len + 1;
	memcpy(text, identity->role_name, role_len);
	return who;
}

const char *
fl_mqtt_who_tenant(const FlMqttWho *who)
{
	return who->text;
}

const char *
fl_mqtt_who_device(const FlMqttWho *who)
{
	return who->text + who->tenant_len + 1;
}

const char *
fl_mqtt_who_role(const FlMqttWho *who)
{
	return who->text + who->tenant_len + who->device_len + who->client_id_len + 3;
}

int
fl_mqtt_who_text(const FlMqttWho *who, char *out, Size room)
{
	int len = 0;

	out[0] = '\0';
	if (who->kind == FL_IDENTITY_DEVICE)
		len = snprintf(out, room, "%s/%s", fl_mqtt_who_tenant(who), fl_mqtt_who_device(who));
	else if (who->kind == FL_IDENTITY_ROLE)
		len = snprintf(out, room, "%s", fl_mqtt_who_role(who));
	return Min(len, (int) room - 1);
}

const char *
fl_mqtt_client_id(const FlMqttConn *conn, Size *len)
{
	*len = conn->who->client_id_len;
	return conn->who->text + conn->who->tenant_len + conn->who->device_len + 2;
}

/*
 * The full form, in the door's scratch: good until the next call.  Messages of
 * one connection come in a row, and who it is does not change.
 */
const FlIdentity *
fl_mqtt_identity(FlMqttConn *conn)
{
	FlIdentity *identity = &conn->door->identity;
	FlMqttWho *who = conn->who;

	if (conn->id != 0 && conn->door->identity_of == conn->id)
		return identity;
	conn->door->identity_of = conn->id;
	identity->kind = (FlIdentityKind) who->kind;
	identity->role = who->role;
	identity->credential = who->credential;
	memcpy(identity->tenant, fl_mqtt_who_tenant(who), (Size) who->tenant_len + 1);
	memcpy(identity->device, fl_mqtt_who_device(who), (Size) who->device_len + 1);
	memcpy(identity->role_name, fl_mqtt_who_role(who), (Size) who->role_len + 1);
	identity->client_id = fl_mqtt_client_id(conn, &identity->client_id_len);
	return identity;
}

uint64
fl_mqtt_who_tenant_digest(const FlMqttWho *who)
{
	return who->tenant_len > 0 ? fl_session_tenant(fl_mqtt_who_tenant(who), who->tenant_len) : 0;
}

const FlTenant *
fl_mqtt_tenant(const FlMqttConn *conn)
{
	return conn->who->tenant_len > 0 ? fl_tenant_lookup(fl_mqtt_who_tenant(conn->who)) : NULL;
}
