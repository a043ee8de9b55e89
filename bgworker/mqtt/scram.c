/*
 * scram.c
 *		Enhanced authentication (MQTT 5.0 clause 4.12): SCRAM-SHA-256, so that a
 *		password never travels, and the client knows that the server knows it.
 *
 *	CONNECT  method, client-first ─► keys of the device (catalog) ─► AUTH 0x18, server-first
 *	AUTH 0x18 client-final        ─► proof ─► as after any login  ─► CONNACK, server-final
 *	AUTH 0x19 (while open)        ─► the same again, ended by AUTH 0x00
 *
 * The conversation itself is src/catalog/scram_server.c's.  The rows of the catalog
 * that it reads are read in a transaction that ends with the turn, as for pre-shared
 * keys (secure.c).
 */
#include "postgres.h"

#include "fleetlog/scram_server.h"
#include "mqtt.h"

#define METHOD "SCRAM-SHA-256"

struct FlMqttScram
{
	FlScram *server;
	const char *final; /* what the server says to prove itself, in server */
	Size final_len;
};

bool
fl_mqtt_is_scram(FlMqttBytes method)
{
	return method.len == strlen(METHOD) && memcmp(method.data, METHOD, method.len) == 0;
}

void
fl_mqtt_free_scram(FlMqttConn *conn)
{
	if (conn->scram == NULL)
		return;
	fl_scram_free(conn->scram->server);
	pfree(conn->scram);
	conn->scram = NULL;
}

/* What the server says to prove itself; in CONNACK, or in the AUTH that ends a repetition. */
void
fl_mqtt_set_scram_final(FlMqttConn *conn, FlMqttProps *props)
{
	if (conn->scram == NULL)
		return;
	fl_mqtt_props_set_bytes(props, FL_MQTT_P_AUTH_METHOD, METHOD, strlen(METHOD));
	fl_mqtt_props_set_bytes(props, FL_MQTT_P_AUTH_DATA, conn->scram->final, (uint32) conn->scram->final_len);
}

static void
send_auth(FlMqttConn *conn, FlMqttReason reason, const char *data, Size len)
{
	FlMqttPacket packet;

	packet.type = FL_MQTT_AUTH;
	packet.u.auth.reason = (uint8) reason;
	fl_mqtt_props_init(&packet.u.auth.props);
	fl_mqtt_props_set_bytes(&packet.u.auth.props, FL_MQTT_P_AUTH_METHOD, METHOD, strlen(METHOD));
	fl_mqtt_props_set_bytes(&packet.u.auth.props, FL_MQTT_P_AUTH_DATA, data, (uint32) len);
	/* Like CONNACK: without it there is no going on. */
	if (!fl_mqtt_send(conn, &packet))
		fl_net_finish(&conn->net, "AUTH is larger than the client allows");
}

/* ---- the two messages ---- */

/* Answers the client's first message; else why it is refused. */
static const char *
begin(FlMqttConn *conn, FlMqttBytes connect_user, FlMqttBytes data)
{
	const char *answer;
	const char *why;
	Size len;

	fl_mqtt_free_scram(conn);
	conn->scram = MemoryContextAllocZero(conn->door->context, sizeof(FlMqttScram));
	conn->scram->server = fl_scram_create(conn->door->context, FL_SCRAM_SHA_256);
	fl_mqtt_begin_transaction(conn->door);
	why = fl_scram_take_first(conn->scram->server, data.data, data.len, connect_user.data, connect_user.len, &answer, &len);
	if (why == NULL)
		send_auth(conn, FL_MQTT_RC_CONTINUE_AUTHENTICATION, answer, len);
	return why;
}

/* Checks the proof, and makes ours; else why it is refused. */
static const char *
finish(FlMqttConn *conn, FlMqttBytes data)
{
	FlMqttScram *scram = conn->scram;

	fl_mqtt_begin_transaction(conn->door);
	return fl_scram_take_final(scram->server, data.data, data.len, &scram->final, &scram->final_len);
}

/* ---- CONNECT and AUTH ---- */

/* The CONNECT is kept; its answer is an AUTH. */
void
fl_mqtt_begin_scram(FlMqttConn *conn, const FlMqttConnect *connect)
{
	const char *why;

	fl_mqtt_set_state(conn, FL_MQTT_STATE_AUTHENTICATING);
	why = begin(conn, connect->username, fl_mqtt_props_bytes(&connect->props, FL_MQTT_P_AUTH_DATA));
	if (why != NULL)
		fl_mqtt_refuse_login(conn, connect, FL_MQTT_RC_NOT_AUTHORIZED, why);
	else
		fl_net_resume(&conn->net);
}

/* MQTT-4.12.0-5: a method that changes on the way is no method. */
static bool
is_in_order(const FlMqttConn *conn, const FlMqttReasonPacket *auth, FlMqttReason reason)
{
	return auth->reason == reason && fl_mqtt_is_scram(fl_mqtt_props_bytes(&auth->props, FL_MQTT_P_AUTH_METHOD));
}

static void
log_in_by_proof(FlMqttConn *conn, const FlMqttReasonPacket *auth)
{
	FlMqttConnect connect;
	const char *why;

	fl_mqtt_decode_kept(conn, &connect);
	if (!is_in_order(conn, auth, FL_MQTT_RC_CONTINUE_AUTHENTICATION))
	{
		fl_mqtt_out_of_order(conn, "AUTH that does not continue its login");
		return;
	}
	fl_net_pause(&conn->net);
	why = finish(conn, fl_mqtt_props_bytes(&auth->props, FL_MQTT_P_AUTH_DATA));
	if (why != NULL)
	{
		fl_mqtt_refuse_login(conn, &connect, FL_MQTT_RC_BAD_USER_NAME_OR_PASSWORD, why);
		return;
	}
	conn->pending->identity = *fl_scram_identity(conn->scram->server);
	fl_mqtt_logged_in(conn, &connect);
}

static bool
is_same_client(const FlMqttConn *conn, const FlIdentity *identity)
{
	return conn->who->kind == (uint8) identity->kind && conn->who->role == identity->role &&
		   strcmp(fl_mqtt_who_tenant(conn->who), identity->tenant) == 0 &&
		   strcmp(fl_mqtt_who_device(conn->who), identity->device) == 0;
}

/* MQTT-4.12.1: the client proves itself once more. */
static void
authenticate_again(FlMqttConn *conn, const FlMqttReasonPacket *auth)
{
	FlMqttBytes data = fl_mqtt_props_bytes(&auth->props, FL_MQTT_P_AUTH_DATA);
	FlMqttBytes nobody = {NULL, 0};
	const char *why;

	if (is_in_order(conn, auth, FL_MQTT_RC_RE_AUTHENTICATE))
		why = begin(conn, nobody, data);
	else if (conn->scram == NULL || !is_in_order(conn, auth, FL_MQTT_RC_CONTINUE_AUTHENTICATION))
	{
		fl_mqtt_out_of_order(conn, "AUTH that continues nothing");
		return;
	}
	else if ((why = finish(conn, data)) == NULL)
	{
		const FlIdentity *identity = fl_scram_identity(conn->scram->server);

		if (is_same_client(conn, identity))
		{
			/* What it is connected by is the newer password from now on: its revocation counts. */
			conn->who->credential = identity->credential;
			conn->door->identity_of = 0;
			send_auth(conn, FL_MQTT_RC_SUCCESS, conn->scram->final, conn->scram->final_len);
		}
		else
			why = "it is another client now";
		fl_mqtt_free_scram(conn);
	}
	if (why != NULL)
		fl_mqtt_disconnect(conn, FL_MQTT_RC_NOT_AUTHORIZED, why);
}

void
fl_mqtt_handle_auth(FlMqttConn *conn, const FlMqttReasonPacket *auth)
{
	if (conn->state == FL_MQTT_STATE_AUTHENTICATING)
		log_in_by_proof(conn, auth);
	else if (conn->by_scram)
		authenticate_again(conn, auth);
	else
		/* No method was agreed upon in CONNECT (MQTT-4.12.0-7). */
		fl_mqtt_out_of_order(conn, "AUTH without an authentication method");
}
