/*
 * scram.c
 *		Enhanced authentication (MQTT 5.0 clause 4.12): SCRAM-SHA-256, so that a
 *		password never travels, and the client knows that the server knows it.
 *
 *	CONNECT  method, client-first ─► keys of the device (catalog) ─► AUTH 0x18, server-first
 *	AUTH 0x18 client-final        ─► proof ─► as after any login  ─► CONNACK, server-final
 *	AUTH 0x19 (while open)        ─► the same again, ended by AUTH 0x00
 *
 * Nothing of it waits for another process: the costly part of a password, PBKDF2,
 * is the client's here.  The two rows of the catalog are read in a transaction
 * that ends with the turn, as for pre-shared keys (secure.c).
 *
 * A name that does not exist gets the same answers up to the proof.  Between the
 * two messages the password may have been revoked, so it is looked up once more.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha2.h"

#include "fleetlog/base64.h"
#include "fleetlog/scram_message.h"
#include "fleetlog/utf8.h"
#include "mqtt.h"

#define METHOD      "SCRAM-SHA-256"
#define NONCE_BYTES 18 /* of ours; 24 characters */
#define NONCE_CHARS 24
#define FINAL_CHARS (2 + 44) /* "v=" and a digest */
/* "r=", both nonces, ",s=", the salt, ",i=" and a number */
#define SERVER_FIRST_MAX (FL_SCRAM_NONCE_MAX + NONCE_CHARS + sizeof(((FlScramKeys *) NULL)->salt) + 32)

struct FlMqttScram
{
	FlIdentity identity;
	bool known; /* the device exists and has a password */
	FlScramKeys keys;
	char gs2[4]; /* the first message's header, to be repeated */
	int nonce_len;
	char nonce[FL_SCRAM_NONCE_MAX + NONCE_CHARS + 1]; /* theirs, then ours */
	char final[FINAL_CHARS];
	Size len;
	char signed_text[FL_SCRAM_MESSAGE_MAX + 1 + SERVER_FIRST_MAX]; /* client-first-bare, comma, server-first */
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
	explicit_bzero(conn->scram, sizeof(*conn->scram));
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
	fl_mqtt_props_set_bytes(props, FL_MQTT_P_AUTH_DATA, conn->scram->final, FINAL_CHARS);
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

/* ---- the first message ---- */

/* Whom it names: there, in CONNECT, or alike in both. */
static const char *
find_user(const FlScramFirst *first, FlMqttBytes connect_user, char user[FL_AUTH_USER_MAX + 1])
{
	Size len = first->user_len;

	StaticAssertStmt(FL_SCRAM_USER_MAX <= FL_AUTH_USER_MAX, "a name of SCRAM is a user name");
	memcpy(user, first->user, len);
	if (len == 0 && connect_user.len <= FL_AUTH_USER_MAX)
	{
		len = connect_user.len;
		memcpy(user, connect_user.data, len);
	}
	else if (connect_user.len > 0 && (connect_user.len != len || memcmp(connect_user.data, user, len) != 0))
		return "its user name is not the one in its first message";
	user[len] = '\0';
	if (len == 0 || !fl_utf8_valid_text((const uint8_t *) user, len))
		return "no user name";
	return NULL;
}

static void
make_nonce(FlMqttScram *scram, const FlScramFirst *first)
{
	uint8 random[NONCE_BYTES];

	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR, (errmsg("fleetlog: could not draw a nonce")));
	memcpy(scram->nonce, first->nonce, first->nonce_len);
	fl_base64_encode(scram->nonce + first->nonce_len, random, sizeof(random));
	scram->nonce_len = (int) first->nonce_len + NONCE_CHARS;
	scram->nonce[scram->nonce_len] = '\0';
}

/* Answers the client's first message; else why it is refused. */
static const char *
begin(FlMqttConn *conn, FlMqttBytes connect_user, FlMqttBytes data)
{
	FlScramFirst first;
	FlMqttScram *scram;
	char user[FL_AUTH_USER_MAX + 1];
	const char *why;
	char *server_first;
	int len;

	if (fl_scram_parse_first(data.data, data.len, &first) != FL_OK)
		return "malformed first message of " METHOD;
	why = find_user(&first, connect_user, user);
	if (why != NULL)
		return why;
	fl_mqtt_free_scram(conn);
	scram = MemoryContextAllocZero(conn->door->context, sizeof(FlMqttScram));
	conn->scram = scram;
	memcpy(scram->gs2, data.data, first.gs2_len);
	make_nonce(scram, &first);
	fl_mqtt_begin_transaction(conn->door);
	scram->known = fl_auth_find_scram(user, &scram->identity, &scram->keys);
	memcpy(scram->signed_text, first.bare, first.bare_len);
	scram->signed_text[first.bare_len] = ',';
	server_first = scram->signed_text + first.bare_len + 1;
	len = snprintf(server_first, SERVER_FIRST_MAX, "r=%s,s=%s,i=%d", scram->nonce, scram->keys.salt,
				   scram->keys.iterations);
	scram->len = first.bare_len + 1 + (Size) len;
	send_auth(conn, FL_MQTT_RC_CONTINUE_AUTHENTICATION, server_first, (Size) len);
	return NULL;
}

/* ---- the final message ---- */

/* Over what has been signed: the two messages before, and the part of this one before its proof. */
static void
sign(const FlMqttScram *scram, const uint8 key[32], FlMqttBytes without_proof, uint8 out[32])
{
	pg_hmac_ctx *ctx = pg_hmac_create(PG_SHA256);

	if (ctx == NULL || pg_hmac_init(ctx, key, 32) < 0 ||
		pg_hmac_update(ctx, (const uint8 *) scram->signed_text, scram->len) < 0 ||
		pg_hmac_update(ctx, (const uint8 *) ",", 1) < 0 ||
		pg_hmac_update(ctx, without_proof.data, without_proof.len) < 0 || pg_hmac_final(ctx, out, 32) < 0)
	{
		pg_hmac_free(ctx);
		ereport(ERROR, (errmsg("fleetlog: could not compute an HMAC")));
	}
	pg_hmac_free(ctx);
}

static void
hash_key(const uint8 key[32], uint8 out[32])
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 || pg_cryptohash_update(ctx, key, 32) < 0 ||
		pg_cryptohash_final(ctx, out, 32) < 0)
	{
		pg_cryptohash_free(ctx);
		ereport(ERROR, (errmsg("fleetlog: could not compute a hash")));
	}
	pg_cryptohash_free(ctx);
}

/* Takes as long whatever the difference is. */
static bool
is_same_key(const uint8 a[32], const uint8 b[32])
{
	uint8 difference = 0;

	for (int i = 0; i < 32; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

static bool
repeats_first(const FlMqttScram *scram, const FlScramFinal *last)
{
	char binding[8];

	fl_base64_encode(binding, (const uint8_t *) scram->gs2, 3);
	return last->binding_len == 4 && memcmp(last->binding, binding, 4) == 0 &&
		   last->nonce_len == (Size) scram->nonce_len && memcmp(last->nonce, scram->nonce, last->nonce_len) == 0;
}

/* Checks the proof, and makes ours; else why it is refused. */
static const char *
finish(FlMqttConn *conn, FlMqttBytes data)
{
	FlMqttScram *scram = conn->scram;
	FlScramFinal last;
	FlMqttBytes without_proof = {data.data, 0};
	uint8 signature[32];
	uint8 key[32];

	if (fl_scram_parse_final(data.data, data.len, &last) != FL_OK || !repeats_first(scram, &last))
		return "malformed final message of " METHOD;
	without_proof.len = (uint32) last.signed_len;
	fl_mqtt_begin_transaction(conn->door);
	sign(scram, scram->keys.stored_key, without_proof, signature);
	for (int i = 0; i < 32; i++)
		signature[i] ^= last.proof[i];
	hash_key(signature, key);
	explicit_bzero(signature, sizeof(signature));
	if (!is_same_key(key, scram->keys.stored_key) || !scram->known || !fl_auth_still_valid(&scram->identity))
		return "unknown, revoked, or wrong password";
	sign(scram, scram->keys.server_key, without_proof, signature);
	memcpy(scram->final, "v=", 2);
	fl_base64_encode(scram->final + 2, signature, sizeof(signature));
	return NULL;
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
	conn->pending->identity = conn->scram->identity;
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
		if (is_same_client(conn, &conn->scram->identity))
		{
			/* What it is connected by is the newer password from now on: its revocation counts. */
			conn->who->credential = conn->scram->identity.credential;
			conn->door->identity_of = 0;
			send_auth(conn, FL_MQTT_RC_SUCCESS, conn->scram->final, FINAL_CHARS);
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
