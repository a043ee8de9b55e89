/*-------------------------------------------------------------------------
 *
 * scram_server.h
 *		The server's half of SCRAM (RFC 5802, 7677): a conversation of two
 *		messages by which a client proves that it knows a password, and the server
 *		that it knows it, too.
 *
 * The doors carry the messages: MQTT in AUTH packets, Kafka in SaslAuthenticate.
 * Nothing of it waits for another process: the costly part of a password, PBKDF2,
 * is the client's here.
 *
 *		fl_scram_create
 *		fl_scram_take_first		client-first  ─► server-first
 *		fl_scram_take_final		client-final  ─► server-final, and who it is
 *		fl_scram_free			wipes the keys
 *
 * A name that does not exist gets the same answers up to the proof.  Between the
 * two messages the password may have been revoked, so it is looked up once more.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SCRAM_SERVER_H
#define FLEETLOG_SCRAM_SERVER_H

#include "fleetlog/auth.h"

typedef struct FlScram FlScram;

/* In the context; a conversation takes two kilobytes. */
extern FlScram *fl_scram_create(MemoryContext context, FlScramHash hash);
extern void fl_scram_free(FlScram *scram);

/*
 * In a transaction.  NULL: *answer is what the client is to be told; else why it is
 * refused, a constant text for the log.  The message may leave the name out where
 * `user` gives one (user_len 0: it does not), and must not contradict it.
 */
extern const char *fl_scram_take_first(FlScram *scram, const uint8 *message, Size len, const uint8 *user,
									   Size user_len, const char **answer, Size *answer_len);

/*
 * In a transaction.  NULL: the client has proved to be fl_scram_identity, and
 * *answer is our own proof; else why not.
 */
extern const char *fl_scram_take_final(FlScram *scram, const uint8 *message, Size len, const char **answer,
									   Size *answer_len);
extern const FlIdentity *fl_scram_identity(const FlScram *scram);

/* The name that the first message gave, for the log. */
extern const char *fl_scram_user(const FlScram *scram);

#endif							/* FLEETLOG_SCRAM_SERVER_H */
