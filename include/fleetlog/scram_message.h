/*-------------------------------------------------------------------------
 *
 * scram_message.h
 *		The two messages that a client sends in SCRAM (RFC 5802, clause 7),
 *		without channel binding.
 *
 * Knows no server and does no I/O; results point into the message.  What is done
 * with them (keys, proofs) is for the caller.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_SCRAM_MESSAGE_H
#define FLEETLOG_SCRAM_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "fleetlog/result.h"

#define FL_SCRAM_MESSAGE_MAX 1024 /* bytes of a message of the client */
#define FL_SCRAM_NONCE_MAX   256  /* bytes of the client's nonce */
#define FL_SCRAM_USER_MAX    255
#define FL_SCRAM_PROOF_MAX   64 /* of SHA-512 */

typedef struct FlScramFirst
{
	size_t gs2_len;      /* "n,," or "y,,", which the final message repeats */
	const uint8_t *bare; /* what stands behind it */
	size_t bare_len;
	const uint8_t *nonce;
	size_t nonce_len;
	size_t user_len;
	char user[FL_SCRAM_USER_MAX + 1]; /* without escapes, NUL-terminated; may be empty */
} FlScramFirst;

/*
 * client-first-message.  FL_MALFORMED also for what we do not do: channel binding, an identity to act for,
 * mandatory extensions.
 */
extern FlResult fl_scram_parse_first(const uint8_t *message, size_t len, FlScramFirst *out);

typedef struct FlScramFinal
{
	const uint8_t *binding; /* base64 of the first message's gs2 header */
	size_t binding_len;
	const uint8_t *nonce;
	size_t nonce_len;
	size_t signed_len; /* of the message: all before ",p=" */
	size_t proof_len;  /* 32 of SHA-256, 64 of SHA-512 */
	uint8_t proof[FL_SCRAM_PROOF_MAX];
} FlScramFinal;

/* client-final-message. */
extern FlResult fl_scram_parse_final(const uint8_t *message, size_t len, FlScramFinal *out);

#endif /* FLEETLOG_SCRAM_MESSAGE_H */
