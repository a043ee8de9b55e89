/*
 * sasl.c
 *		The messages of a log-in: SaslHandshake, SaslAuthenticate, and the bare tokens
 *		that old clients send behind a handshake of version 0.
 *
 *		SaslHandshake v1 ─► SaslAuthenticate (token) ─► SaslAuthenticate (token) ...
 *		SaslHandshake v0 ─► token, framed by its length alone ─► token ...
 *
 * PLAIN is one token, whose password the authentication worker checks (login.c);
 * SCRAM is two, and no work for anybody else (src/catalog/scram_server.c).  The same
 * again on an open connection is KIP-368: who it is may not change by it.
 *
 * Whoever fails is told 58 and one text, whatever the reason is, which is for the log;
 * behind a handshake of version 0 there is nothing to be told, and the connection
 * closes, as Kafka's does.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "fleetlog/utf8.h"
#include "login.h"

static const char *const mechanisms[] = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"};

static bool
find_mechanism(FlKafkaBytes name, FlKafkaMechanism *out)
{
	for (int i = 0; i < lengthof(mechanisms); i++)
	{
		if (!fl_kafka_string_is(name, mechanisms[i]))
			continue;
		*out = (FlKafkaMechanism) i;
		return true;
	}
	return false;
}

void
fl_kafka_handle_sasl_handshake(FlKafkaRequest *req)
{
	const FlKafkaSaslHandshakeRequest *in = req->message;
	FlKafkaConn *conn = req->conn;
	FlKafkaSaslHandshakeResponse out;
	FlKafkaBytes names[lengthof(mechanisms)];
	FlKafkaMechanism mechanism;

	fl_kafka_init_sasl_handshake_response(&out);
	for (int i = 0; i < lengthof(mechanisms); i++)
		names[i] = fl_kafka_string(mechanisms[i]);
	fl_kafka_set_items(&out.mechanisms, names, lengthof(names));
	/* What it says of itself goes before what TLS says. */
	conn->tls_tried = true;
	if (!find_mechanism(in->mechanism, &mechanism))
		out.error_code = FL_KAFKA_UNSUPPORTED_SASL_MECHANISM;
	else
	{
		fl_kafka_end_login(conn);
		conn->login = MemoryContextAllocZero(conn->door->context, sizeof(FlKafkaLogin));
		conn->login->conn = conn;
		conn->login->mechanism = mechanism;
		conn->raw_tokens = req->version == 0;
	}
	fl_kafka_answer(req, &out);
}

/* ---- answers ---- */

/* To a token; len -1: no bytes.  lifetime_ms: after which it has to log in again, 0: never. */
static void
reply(FlKafkaLogin *login, const void *data, int32 len, int64 lifetime_ms)
{
	FlKafkaRequest *req = login->req;
	FlKafkaConn *conn = login->conn;

	login->req = NULL;
	if (req != NULL)
	{
		FlKafkaSaslAuthenticateResponse out;

		fl_kafka_init_sasl_authenticate_response(&out);
		out.auth_bytes = fl_kafka_bytes(data, len);
		out.session_lifetime_ms = lifetime_ms;
		fl_kafka_answer(req, &out);
	}
	else
	{
		uint8 size[4];

		fl_put_be32(size, (uint32) len);
		fl_net_write(&conn->net, size, sizeof(size));
		fl_net_write(&conn->net, data, (Size) len);
		conn->blocked = false;
		fl_kafka_read_on(conn);
	}
}

static void
log_failure(FlKafkaConn *conn, const FlKafkaLogin *login, const char *why)
{
	const char *user = login->scram != NULL ? fl_scram_user(login->scram) : login->user != NULL ? login->user : "";
	char clean[FL_AUTH_USER_MAX + 1];
	char peer[80];

	if (!fl_kafka_log_allowed_of(conn->door, FL_KAFKA_LOG_LOGIN))
		return;
	strlcpy(clean, user, sizeof(clean));
	for (char *p = clean; *p != '\0'; p++)
	{
		if ((unsigned char) *p < 0x20 || *p == 0x7F)
			*p = '?';
	}
	ereport(LOG,
			(errmsg("fleetlog: login of user \"%s\" by %s of a Kafka client at %s was refused: %s", clean,
					mechanisms[login->mechanism], fl_net_peer(&conn->net, peer, sizeof(peer)), why),
			 login->mechanism == FL_KAFKA_SCRAM_SHA_512
				 ? errhint("SCRAM-SHA-512 is for devices whose password was set as plain text; roles use SCRAM-SHA-256 or PLAIN.")
				 : 0));
}

void
fl_kafka_fail_login(FlKafkaLogin *login, const char *why, const char *told)
{
	FlKafkaConn *conn = login->conn;
	FlKafkaRequest *req = login->req;

	log_failure(conn, login, why);
	FL_COUNT(FL_C_REFUSED_CONNECTS, 1);
	login->req = NULL;
	if (req != NULL)
	{
		FlKafkaSaslAuthenticateResponse out;

		fl_kafka_init_sasl_authenticate_response(&out);
		out.error_code = FL_KAFKA_SASL_AUTHENTICATION_FAILED;
		out.error_message = fl_kafka_string(told);
		out.auth_bytes = fl_kafka_bytes("", 0);
		fl_kafka_answer(req, &out);
	}
	if (fl_net_is_open(&conn->net))
		fl_net_finish(&conn->net, why);
}

void
fl_kafka_pass_login(FlKafkaLogin *login, const FlIdentity *identity, const void *data, int32 len)
{
	FlKafkaConn *conn = login->conn;
	const char *told = FL_KAFKA_NO_LOGIN;
	const char *why = fl_kafka_admit(conn, identity, &told);

	if (why != NULL)
	{
		fl_kafka_fail_login(login, why, told);
		return;
	}
	conn->raw_tokens = false;
	/* What it says of itself does not need the conversation any more, but lies in it. */
	reply(login, data, len, fl_kafka_lifetime_ms(conn));
	fl_kafka_end_login(conn);
}

/* ---- tokens ---- */

static char *
copy_text(FlKafkaLogin *login, const uint8 *text, Size len)
{
	char *copy = MemoryContextAlloc(login->conn->door->context, len + 1);

	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

/* authorisation identity NUL user NUL password; the first is empty or the second once more. */
static const char *
read_plain(FlKafkaLogin *login, const uint8 *data, Size len)
{
	const uint8 *end = data + len;
	const uint8 *user = len > 0 ? memchr(data, '\0', len) : NULL;
	const uint8 *password = user != NULL ? memchr(user + 1, '\0', (Size) (end - user - 1)) : NULL;
	Size user_len;

	if (password == NULL || memchr(password + 1, '\0', (Size) (end - password - 1)) != NULL)
		return "malformed token of PLAIN";
	user++;
	password++;
	user_len = (Size) (password - 1 - user);
	if (user_len == 0 || user_len > FL_AUTH_USER_MAX || (Size) (end - password) > FL_AUTH_PASSWORD_MAX)
		return "no user name, or one or a password that is too long";
	if (!fl_utf8_valid_text(user, user_len))
		return "its user name is not text in UTF-8";
	fl_kafka_forget_password(login);
	login->user = copy_text(login, user, user_len);
	login->password_len = (Size) (end - password);
	login->password = copy_text(login, password, login->password_len);
	if (user - 1 > data && ((Size) (user - 1 - data) != user_len || memcmp(data, user, user_len) != 0))
		return "it wants to act for somebody else";
	return NULL;
}

static void
take_scram(FlKafkaLogin *login, const uint8 *data, Size len)
{
	FlKafkaDoor *door = login->conn->door;
	const char *answer;
	Size answer_len;
	const char *why;

	fl_kafka_begin_transaction(door);
	if (login->scram == NULL)
	{
		login->scram = fl_scram_create(
			door->context, login->mechanism == FL_KAFKA_SCRAM_SHA_512 ? FL_SCRAM_SHA_512 : FL_SCRAM_SHA_256);
		why = fl_scram_take_first(login->scram, data, len, NULL, 0, &answer, &answer_len);
		if (why == NULL)
			reply(login, answer, (int32) answer_len, 0);
	}
	else
	{
		why = fl_scram_take_final(login->scram, data, len, &answer, &answer_len);
		if (why == NULL)
			fl_kafka_pass_login(login, fl_scram_identity(login->scram), answer, (int32) answer_len);
	}
	if (why != NULL)
		fl_kafka_fail_login(login, why, FL_KAFKA_NO_LOGIN);
}

/* The token is good until the return only. */
static void
take_token(FlKafkaLogin *login, FlKafkaRequest *req, const uint8 *data, Size len)
{
	const char *why;

	login->req = req;
	if (login->mechanism != FL_KAFKA_PLAIN)
	{
		take_scram(login, data, len);
		return;
	}
	why = read_plain(login, data, len);
	if (why != NULL)
		fl_kafka_fail_login(login, why, FL_KAFKA_NO_LOGIN);
	else
		fl_kafka_check_password(login);
}

void
fl_kafka_handle_sasl_authenticate(FlKafkaRequest *req)
{
	const FlKafkaSaslAuthenticateRequest *in = req->message;
	FlKafkaLogin *login = req->conn->login;
	FlKafkaSaslAuthenticateResponse out;

	if (login != NULL && !req->conn->raw_tokens && !login->listed)
	{
		take_token(login, req, in->auth_bytes.data, (Size) Max(in->auth_bytes.len, 0));
		return;
	}
	fl_kafka_init_sasl_authenticate_response(&out);
	out.error_code = FL_KAFKA_ILLEGAL_SASL_STATE;
	out.error_message = fl_kafka_string("SaslHandshake comes first");
	out.auth_bytes = fl_kafka_bytes("", 0);
	fl_kafka_answer(req, &out);
	if (fl_net_is_open(&req->conn->net))
		fl_net_finish(&req->conn->net, "SaslAuthenticate without a handshake");
}

void
fl_kafka_take_raw_token(FlKafkaConn *conn, const uint8 *data, Size len)
{
	/* Until the answer nothing more is looked at. */
	conn->blocked = true;
	take_token(conn->login, NULL, data, len);
}
