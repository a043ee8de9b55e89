/*
 * login.h
 *		Who a client of the MQTT door is, and how it proves it (who.c, scram.c, secure.c).
 *
 * Included by mqtt.h, which says what a connection is and includes what these lines need.
 */
#ifndef FLEETLOG_MQTT_LOGIN_H
#define FLEETLOG_MQTT_LOGIN_H

struct FlMqttConn;

typedef struct FlMqttScram FlMqttScram;

/*
 * Identity and client id, packed: FlIdentity has room for the longest names,
 * which fifty thousand connections would pay for.
 */
typedef struct FlMqttWho
{
	int64 credential;
	Oid role;
	uint8 kind; /* FlIdentityKind */
	uint8 tenant_len;
	uint8 device_len;
	uint8 role_len;
	uint16 client_id_len;
	char text[FLEXIBLE_ARRAY_MEMBER]; /* tenant, device, client id, role; each with NUL */
} FlMqttWho;

/* in who.c */
extern FlMqttWho *fl_mqtt_pack_who(MemoryContext context, const FlIdentity *identity, const uint8 *client_id,
								   Size client_id_len);
extern const FlIdentity *fl_mqtt_identity(struct FlMqttConn *conn);
extern const char *fl_mqtt_client_id(const struct FlMqttConn *conn, Size *len);
extern const char *fl_mqtt_who_tenant(const FlMqttWho *who);
extern const char *fl_mqtt_who_device(const FlMqttWho *who);
extern const char *fl_mqtt_who_role(const FlMqttWho *who);
/* "tenant/device", a role's name, or "": nobody in particular; cut where the room ends. */
extern int fl_mqtt_who_text(const FlMqttWho *who, char *out, Size room);
/* By which connections and sessions of its tenant are counted; 0: it has none. */
extern uint64 fl_mqtt_who_tenant_digest(const FlMqttWho *who);
/* Whose limits hold for the connection; NULL: nobody's. */
extern const FlTenant *fl_mqtt_tenant(const struct FlMqttConn *conn);

/* in scram.c */
extern bool fl_mqtt_is_scram(FlMqttBytes method);
extern void fl_mqtt_begin_scram(struct FlMqttConn *conn, const FlMqttConnect *connect);
extern void fl_mqtt_handle_auth(struct FlMqttConn *conn, const FlMqttReasonPacket *auth);
extern void fl_mqtt_set_scram_final(struct FlMqttConn *conn, FlMqttProps *props);
extern void fl_mqtt_free_scram(struct FlMqttConn *conn);

/* in secure.c */
extern int fl_mqtt_find_psk(FlNetConn *net, const char *identity, uint8 *key, int room, void **attached);
/* Whom TLS has proved the peer to be; certificate: only its name is known yet.  *why: what is wrong. */
extern FlNetProof fl_mqtt_proof(struct FlMqttConn *conn, FlIdentity *identity, const char **why);
extern FlAuthStart fl_mqtt_begin_certificate(struct FlMqttConn *conn);
/* May a client that is this device call itself so? */
extern bool fl_mqtt_user_agrees(const FlIdentity *identity, FlMqttBytes user);

#endif /* FLEETLOG_MQTT_LOGIN_H */
