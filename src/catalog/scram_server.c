/*-------------------------------------------------------------------------
 *
 * scram_server.c
 *		SCRAM-SHA-256 and SCRAM-SHA-512 as the server speaks them
 *		(fleetlog/scram_server.h).
 *
 * Called by the doors (bgworker/mqtt/scram.c, bgworker/kafka/sasl.c) before anybody
 * is known: all input is hostile.  Keys are compared in constant time and wiped;
 * nothing here logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/hmac.h"
#include "common/sha2.h"

#include "fleetlog/base64.h"
#include "fleetlog/scram_message.h"
#include "fleetlog/scram_server.h"
#include "fleetlog/utf8.h"

#define NONCE_BYTES 18			/* of ours; 24 characters */
#define NONCE_CHARS 24
#define FINAL_CHARS (2 + 88)	/* "v=" and a digest of SHA-512 */
/* "r=", both nonces, ",s=", the salt, ",i=" and a number */
#define SERVER_FIRST_MAX (FL_SCRAM_NONCE_MAX + NONCE_CHARS + sizeof(((FlScramKeys *) NULL)->salt) + 32)

struct FlScram
{
	FlScramHash hash;
	int			key_len;
	FlIdentity	identity;
	bool		known;			/* it exists and has a password of this kind */
	bool		asked;			/* the first message has been answered */
	FlScramKeys keys;
	char		user[FL_AUTH_USER_MAX + 1];
	char		gs2[4];			/* the first message's header, to be repeated */
	int			nonce_len;
	char		nonce[FL_SCRAM_NONCE_MAX + NONCE_CHARS + 1];	/* theirs, then ours */
	char		final[FINAL_CHARS];
	Size		len;
	char		signed_text[FL_SCRAM_MESSAGE_MAX + 1 + SERVER_FIRST_MAX];	/* client-first-bare, comma, server-first */
};

FlScram *
fl_scram_create(MemoryContext context, FlScramHash hash)
{
	FlScram    *scram = MemoryContextAllocZero(context, sizeof(FlScram));

	scram->hash = hash;
	scram->key_len = hash == FL_SCRAM_SHA_512 ? PG_SHA512_DIGEST_LENGTH : PG_SHA256_DIGEST_LENGTH;
	return scram;
}

void
fl_scram_free(FlScram *scram)
{
	if (scram == NULL)
		return;
	explicit_bzero(scram, sizeof(*scram));
	pfree(scram);
}

const FlIdentity *
fl_scram_identity(const FlScram *scram)
{
	return &scram->identity;
}

const char *
fl_scram_user(const FlScram *scram)
{
	return scram->user;
}

/* ---- the first message ---- */

/* Whom it names: in the message, beside it, or alike in both. */
static const char *
find_user(FlScram *scram, const FlScramFirst *first, const uint8 *beside, Size beside_len)
{
	Size		len = first->user_len;

	StaticAssertStmt(FL_SCRAM_USER_MAX <= FL_AUTH_USER_MAX, "a name of SCRAM is a user name");
	memcpy(scram->user, first->user, len);
	if (len == 0 && beside_len <= FL_AUTH_USER_MAX)
	{
		len = beside_len;
		if (len > 0)
			memcpy(scram->user, beside, len);
	}
	else if (beside_len > 0 && (beside_len != len || memcmp(beside, scram->user, len) != 0))
		return "its user name is not the one in its first message";
	scram->user[len] = '\0';
	if (len == 0 || !fl_utf8_valid_text((const uint8_t *) scram->user, len))
	{
		scram->user[0] = '\0';
		return "no user name";
	}
	return NULL;
}

static void
make_nonce(FlScram *scram, const FlScramFirst *first)
{
	uint8		random[NONCE_BYTES];

	if (!pg_strong_random(random, sizeof(random)))
		ereport(ERROR, (errmsg("fleetlog: could not draw a nonce")));
	memcpy(scram->nonce, first->nonce, first->nonce_len);
	fl_base64_encode(scram->nonce + first->nonce_len, random, sizeof(random));
	scram->nonce_len = (int) first->nonce_len + NONCE_CHARS;
	scram->nonce[scram->nonce_len] = '\0';
}

const char *
fl_scram_take_first(FlScram *scram, const uint8 *message, Size len, const uint8 *user, Size user_len,
					const char **answer, Size *answer_len)
{
	FlScramFirst first;
	const char *why;
	char	   *server_first;

	if (fl_scram_parse_first(message, len, &first) != FL_OK)
		return "malformed first message of SCRAM";
	why = find_user(scram, &first, user, user_len);
	if (why != NULL)
		return why;
	memcpy(scram->gs2, message, first.gs2_len);
	make_nonce(scram, &first);
	scram->known = fl_auth_find_scram(scram->user, scram->hash, &scram->identity, &scram->keys);
	memcpy(scram->signed_text, first.bare, first.bare_len);
	scram->signed_text[first.bare_len] = ',';
	server_first = scram->signed_text + first.bare_len + 1;
	*answer_len = (Size) snprintf(server_first, SERVER_FIRST_MAX, "r=%s,s=%s,i=%d", scram->nonce,
								  scram->keys.salt, scram->keys.iterations);
	scram->len = first.bare_len + 1 + *answer_len;
	scram->asked = true;
	*answer = server_first;
	return NULL;
}

/* ---- the final message ---- */

static pg_cryptohash_type
hash_type(const FlScram *scram)
{
	return scram->hash == FL_SCRAM_SHA_512 ? PG_SHA512 : PG_SHA256;
}

/* Over what has been signed: the two messages before, and the part of this one before its proof. */
static void
sign(const FlScram *scram, const uint8 *key, const uint8 *without_proof, Size len, uint8 *out)
{
	pg_hmac_ctx *ctx = pg_hmac_create(hash_type(scram));

	if (ctx == NULL || pg_hmac_init(ctx, key, scram->key_len) < 0 ||
		pg_hmac_update(ctx, (const uint8 *) scram->signed_text, scram->len) < 0 ||
		pg_hmac_update(ctx, (const uint8 *) ",", 1) < 0 ||
		pg_hmac_update(ctx, without_proof, len) < 0 || pg_hmac_final(ctx, out, scram->key_len) < 0)
	{
		pg_hmac_free(ctx);
		ereport(ERROR, (errmsg("fleetlog: could not compute an HMAC")));
	}
	pg_hmac_free(ctx);
}

static void
hash_key(const FlScram *scram, const uint8 *key, uint8 *out)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(hash_type(scram));

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 || pg_cryptohash_update(ctx, key, scram->key_len) < 0 ||
		pg_cryptohash_final(ctx, out, scram->key_len) < 0)
	{
		pg_cryptohash_free(ctx);
		ereport(ERROR, (errmsg("fleetlog: could not compute a hash")));
	}
	pg_cryptohash_free(ctx);
}

/* Takes as long whatever the difference is. */
static bool
is_same_key(const uint8 *a, const uint8 *b, int len)
{
	uint8		difference = 0;

	for (int i = 0; i < len; i++)
		difference |= a[i] ^ b[i];
	return difference == 0;
}

/*
 * librdkafka before 2.6.1 puts its nonce a second time before the one that it was
 * given, so what counts is the end.  Nobody gains by it: the proof is over the
 * message as it was sent.
 */
static bool
repeats_first(const FlScram *scram, const FlScramFinal *last)
{
	Size		len = (Size) scram->nonce_len;
	char		binding[8];

	fl_base64_encode(binding, (const uint8_t *) scram->gs2, 3);
	return last->binding_len == 4 && memcmp(last->binding, binding, 4) == 0 &&
		last->nonce_len >= len && memcmp(last->nonce + last->nonce_len - len, scram->nonce, len) == 0;
}

const char *
fl_scram_take_final(FlScram *scram, const uint8 *message, Size len, const char **answer, Size *answer_len)
{
	FlScramFinal last;
	uint8		signature[PG_SHA512_DIGEST_LENGTH];
	uint8		key[PG_SHA512_DIGEST_LENGTH];

	if (!scram->asked || fl_scram_parse_final(message, len, &last) != FL_OK || !repeats_first(scram, &last) ||
		last.proof_len != (size_t) scram->key_len)
		return "malformed final message of SCRAM";
	/* A proof is for one try. */
	scram->asked = false;
	sign(scram, scram->keys.stored_key, message, last.signed_len, signature);
	for (int i = 0; i < scram->key_len; i++)
		signature[i] ^= last.proof[i];
	hash_key(scram, signature, key);
	explicit_bzero(signature, sizeof(signature));
	if (!is_same_key(key, scram->keys.stored_key, scram->key_len) || !scram->known ||
		!fl_auth_still_valid(&scram->identity))
		return "unknown, revoked, or wrong password";
	sign(scram, scram->keys.server_key, message, last.signed_len, signature);
	memcpy(scram->final, "v=", 2);
	fl_base64_encode(scram->final + 2, signature, scram->key_len);
	*answer = scram->final;
	*answer_len = 2 + fl_base64_size(scram->key_len);
	return NULL;
}
