/*
 * login.h
 *		Who a Kafka client is and how it proves it (login.c, sasl.c).
 *
 *		TLS certificate or key ──┐
 *		PLAIN ─► auth worker ────┼─► fl_kafka_admit: the same checks, registration, view
 *		SCRAM ───────────────────┤
 *		nothing (anonymous) ─────┘
 */
#ifndef FLEETLOG_KAFKA_LOGIN_H
#define FLEETLOG_KAFKA_LOGIN_H

#include "fleetlog/auth.h"
#include "fleetlog/scram_server.h"
#include "kafka.h"

typedef enum FlKafkaMechanism
{
	FL_KAFKA_PLAIN,
	FL_KAFKA_SCRAM_SHA_256,
	FL_KAFKA_SCRAM_SHA_512
} FlKafkaMechanism;

/* A log-in under way; in the door's context. */
typedef struct FlKafkaLogin
{
	dlist_node node;
	bool listed;      /* in door->logins: the authentication worker is asked, or is to be */
	bool asked;       /* it is */
	bool certificate; /* by the name of a certificate, which is `user` then; there is no request */
	FlKafkaConn *conn;
	FlKafkaRequest *req; /* waits for the answer; NULL: a bare token does */
	FlKafkaMechanism mechanism;
	FlScram *scram;
	char *user;
	char *password; /* wiped when it has been handed on */
	Size password_len;
} FlKafkaLogin;

/* What everybody is told whose log-in fails. */
#define FL_KAFKA_NO_LOGIN "Authentication failed: unknown user or wrong password"

/* Forget the log-in that is under way, if any. */
extern void fl_kafka_end_login(FlKafkaConn *conn);

/* Wipes and frees its user name and password. */
extern void fl_kafka_forget_password(FlKafkaLogin *login);

/* `why` is for the log, `told` for the client; the connection ends. */
extern void fl_kafka_fail_login(FlKafkaLogin *login, const char *why, const char *told);

/* It is who it says to be; data: our last token. */
extern void fl_kafka_pass_login(FlKafkaLogin *login, const FlIdentity *identity, const void *data, int32 len);

/* User and password stand in login. */
extern void fl_kafka_check_password(FlKafkaLogin *login);

/*
 * Let the connection in as this identity, registered for views; also once more when it
 * proves itself again.  NULL: done; else why not, a constant text, and *told is changed
 * where the client may know more than FL_KAFKA_NO_LOGIN.
 */
extern const char *fl_kafka_admit(FlKafkaConn *conn, const FlIdentity *identity, const char **told);

/* At the first request: false when the answer is awaited, and the request is to be presented again. */
extern bool fl_kafka_log_in_by_tls(FlKafkaConn *conn);
extern int fl_kafka_find_psk(FlNetConn *net, const char *identity, uint8 *key, int room, void **attached);

/* A line in the log about its end, where fleetlog.log_connections wants all of them. */
extern void fl_kafka_log_end(FlKafkaConn *conn, const char *why);
extern void fl_kafka_unregister(FlKafkaConn *conn);

/* Every turn. */
extern void fl_kafka_take_logins(FlKafkaDoor *door);
extern void fl_kafka_end_unwanted(FlKafkaDoor *door);

/* Now and then: figures for stat_connection. */
extern void fl_kafka_report_connections(FlKafkaDoor *door);

/* A frame that is a token, and nothing else (sasl.c). */
extern void fl_kafka_take_raw_token(FlKafkaConn *conn, const uint8 *data, Size len);

/* Until the credential ends; 0: it does not. */
extern int64 fl_kafka_lifetime_ms(FlKafkaConn *conn);

#endif /* FLEETLOG_KAFKA_LOGIN_H */
