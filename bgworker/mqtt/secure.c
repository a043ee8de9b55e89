/*
 * secure.c
 *		Who a connection is by TLS: the device of its certificate or of its
 *		pre-shared key.
 *
 * A certificate was verified in the handshake; whose it is, the authentication
 * worker looks up at CONNECT, as with a password.  A pre-shared key cannot wait
 * for another process: OpenSSL asks for it in the middle of the handshake and
 * wants it at once.  So the door reads two rows of the catalog by itself
 * (fl_door_find_psk).
 *
 * Between handshake and CONNECT a key may have been revoked, and the broadcast
 * of revocations does not know the connection yet.  So CONNECT asks once more
 * whether that very credential is still good.
 */
#include "postgres.h"

#include "fleetlog/door.h"
#include "mqtt.h"

int
fl_mqtt_find_psk(FlNetConn *net, const char *identity, uint8 *key, int room, void **attached)
{
	FlMqttDoor *door = ((FlMqttConn *) net)->door;

	return fl_door_find_psk(door->context, door->turn, identity, key, room, attached);
}

FlNetProof
fl_mqtt_proof(FlMqttConn *conn, FlIdentity *identity, const char **why)
{
	char buf[FL_AUTH_USER_MAX + 1];
	const char *name;
	FlNetProof proof = fl_net_proof(&conn->net, buf, sizeof(buf), &name);

	*why = NULL;
	if (proof == FL_NET_PROOF_NAMELESS)
		*why = name;
	if (proof != FL_NET_PROOF_PSK)
		return proof;
	*identity = *(const FlIdentity *) fl_net_attached(&conn->net);
	fl_mqtt_begin_transaction(conn->door);
	if (!fl_auth_still_valid(identity))
		*why = "its pre-shared key was revoked";
	return proof;
}

FlAuthStart
fl_mqtt_begin_certificate(FlMqttConn *conn)
{
	char buf[FL_AUTH_USER_MAX + 1];
	const char *name;

	if (fl_net_proof(&conn->net, buf, sizeof(buf), &name) != FL_NET_PROOF_CERTIFICATE)
		return FL_AUTH_REFUSED;
	return fl_auth_begin_certificate(conn->door->index, conn->id, name, strlen(name));
}

bool
fl_mqtt_user_agrees(const FlIdentity *identity, FlMqttBytes user)
{
	Size tenant = strlen(identity->tenant);
	Size device = strlen(identity->device);

	if (user.len == 0 || (user.len == device && memcmp(user.data, identity->device, device) == 0))
		return true;
	return user.len == tenant + 1 + device && memcmp(user.data, identity->tenant, tenant) == 0 &&
		   user.data[tenant] == '/' && memcmp(user.data + tenant + 1, identity->device, device) == 0;
}
