/*-------------------------------------------------------------------------
 *
 * password.c
 *		Is this the password that a SCRAM verifier was made of?
 *
 * The server has a function for that.  It sets up OpenSSL's HMAC anew for each
 * of the 4,096 rounds of PBKDF2, which takes many times as long as the hashing;
 * so does OpenSSL's own PBKDF2, though less.  Here the two hashes that HMAC
 * begins with are made once, and a round is two compressions.
 * The verifier is the server's own form,
 *
 *		SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>
 *
 * and the answer is the server's: whatever this file does not read as such, and
 * everything on a server built without OpenSSL, is left to the server's
 * function.  Called by auth.c only, for devices' passwords.
 *
 * Invariants: keys are compared in constant time and wiped; nothing here logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/saslprep.h"
#include "port/pg_bswap.h"

#ifdef USE_OPENSSL
/* The functions below are marked so since OpenSSL 3.0; none that replaces them keeps a state that can be copied cheaply. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>
#endif

#include "../../src/catalog/scram.h"
#include "fleetlog/base64.h"
#include "worker_internal.h"

#ifdef USE_OPENSSL

#define KEY_LEN		32			/* of SHA-256 */
#define MAX_SALT	256			/* the server draws 16 */
#define MAX_ROUNDS	1000000		/* beyond it the server may have the work */

typedef struct Verifier
{
	int			rounds;
	uint8		salt[MAX_SALT];
	size_t		salt_len;
	uint8		server_key[KEY_LEN];
} Verifier;

/* The text up to the next `end`, which is stepped over; NULL when there is none. */
static const char *
next_field(const char **pos, char end, size_t *len)
{
	const char *field = *pos;
	const char *stop = strchr(field, end);

	if (stop == NULL)
		return NULL;
	*len = stop - field;
	*pos = stop + 1;
	return field;
}

static bool
decode(const char *text, size_t text_len, uint8 *out, size_t room, size_t *len)
{
	FlBuf		buf;

	fl_buf_init_fixed(&buf, out, room);
	if (fl_base64_decode((const uint8_t *) text, text_len, &buf) != FL_OK)
		return false;
	*len = buf.len;
	return true;
}

static bool
read_rounds(const char *text, size_t len, int *rounds)
{
	*rounds = 0;
	for (size_t i = 0; i < len; i++)
	{
		if (text[i] < '0' || text[i] > '9' || *rounds > MAX_ROUNDS)
			return false;
		*rounds = *rounds * 10 + (text[i] - '0');
	}
	return *rounds > 0 && *rounds <= MAX_ROUNDS;
}

static bool
read_verifier(const char *secret, Verifier *v)
{
	static const char scheme[] = "SCRAM-SHA-256$";
	uint8		stored_key[KEY_LEN];
	const char *pos = secret;
	const char *field;
	size_t		len;
	size_t		key_len;

	if (strncmp(secret, scheme, sizeof(scheme) - 1) != 0)
		return false;
	pos += sizeof(scheme) - 1;
	if ((field = next_field(&pos, ':', &len)) == NULL || !read_rounds(field, len, &v->rounds))
		return false;
	if ((field = next_field(&pos, '$', &len)) == NULL ||
		!decode(field, len, v->salt, sizeof(v->salt), &v->salt_len) || v->salt_len == 0)
		return false;
	if ((field = next_field(&pos, ':', &len)) == NULL ||
		!decode(field, len, stored_key, sizeof(stored_key), &key_len) || key_len != KEY_LEN)
		return false;
	return decode(pos, strlen(pos), v->server_key, sizeof(v->server_key), &key_len) && key_len == KEY_LEN;
}

/* ---- PBKDF2 with HMAC-SHA-256 ---- */

/* HMAC's two hashes after the block that is made of the key, which all rounds share. */
typedef struct Keyed
{
	SHA256_CTX	inner;
	SHA256_CTX	outer;
} Keyed;

static void
set_key(Keyed *k, const char *password, size_t len)
{
	uint8		block[SHA256_CBLOCK] = {0};
	uint8		pad[SHA256_CBLOCK];

	if (len > sizeof(block))
		SHA256((const uint8 *) password, len, block);
	else
		memcpy(block, password, len);
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] = block[i] ^ 0x36;
	SHA256_Init(&k->inner);
	SHA256_Update(&k->inner, pad, sizeof(pad));
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] = block[i] ^ 0x5c;
	SHA256_Init(&k->outer);
	SHA256_Update(&k->outer, pad, sizeof(pad));
	OPENSSL_cleanse(block, sizeof(block));
	OPENSSL_cleanse(pad, sizeof(pad));
}

/* HMAC of any bytes, the usual way. */
static void
hmac(const Keyed *k, const uint8 *data, size_t len, uint8 *out)
{
	SHA256_CTX	ctx = k->inner;
	uint8		digest[KEY_LEN];

	SHA256_Update(&ctx, data, len);
	SHA256_Final(digest, &ctx);
	ctx = k->outer;
	SHA256_Update(&ctx, digest, sizeof(digest));
	SHA256_Final(out, &ctx);
}

/* One compression of a block that begins with a digest; ctx->h is the result. */
static void
compress_digest(SHA256_CTX *ctx, const SHA256_CTX *keyed, uint8 *block)
{
	memcpy(ctx->h, keyed->h, sizeof(ctx->h));
	SHA256_Transform(ctx, block);
	for (int i = 0; i < 8; i++)
	{
		uint32		word = pg_hton32(ctx->h[i]);

		memcpy(block + 4 * i, &word, 4);
	}
}

/*
 * Two compressions a round, and nothing else: the input of every HMAC but the
 * first is one digest, whose padding never changes.
 */
static void
salted_password(const Keyed *k, const Verifier *v, uint8 *out)
{
	uint8		first[MAX_SALT + 4];
	uint8		block[SHA256_CBLOCK] = {0};
	SHA256_CTX	ctx = k->inner;

	memcpy(first, v->salt, v->salt_len);
	memcpy(first + v->salt_len, "\0\0\0\1", 4);
	hmac(k, first, v->salt_len + 4, block);
	memcpy(out, block, KEY_LEN);
	block[KEY_LEN] = 0x80;
	/* Bits of key block and digest, big-endian in the last bytes. */
	block[SHA256_CBLOCK - 2] = ((SHA256_CBLOCK + KEY_LEN) * 8) >> 8;
	for (int round = 1; round < v->rounds; round++)
	{
		compress_digest(&ctx, &k->inner, block);
		compress_digest(&ctx, &k->outer, block);
		for (int i = 0; i < KEY_LEN; i++)
			out[i] ^= block[i];
	}
	OPENSSL_cleanse(block, sizeof(block));
	OPENSSL_cleanse(&ctx, sizeof(ctx));
}

/* The server key of a password (RFC 5802, section 3). */
static void
make_server_key(const char *password, const Verifier *v, uint8 *key)
{
	uint8		salted[KEY_LEN];
	Keyed		k;

	set_key(&k, password, strlen(password));
	salted_password(&k, v, salted);
	set_key(&k, (const char *) salted, sizeof(salted));
	hmac(&k, (const uint8 *) "Server Key", 10, key);
	OPENSSL_cleanse(salted, sizeof(salted));
	OPENSSL_cleanse(&k, sizeof(k));
}

bool
fl_password_matches(const char *user, const char *password, const char *secret)
{
	Verifier	v;
	uint8		key[KEY_LEN];
	char	   *prepared = NULL;
	bool		matches;

	if (!read_verifier(secret, &v))
		return scram_verify_plain_password(user, password, secret);
	/* As when the verifier was made: what SASLprep refuses is taken as it is. */
	if (pg_saslprep(password, &prepared) != SASLPREP_SUCCESS)
		prepared = NULL;
	make_server_key(prepared != NULL ? prepared : password, &v, key);
	matches = CRYPTO_memcmp(key, v.server_key, KEY_LEN) == 0;
	OPENSSL_cleanse(key, sizeof(key));
	if (prepared != NULL)
	{
		OPENSSL_cleanse(prepared, strlen(prepared));
		pfree(prepared);
	}
	return matches;
}

#else							/* !USE_OPENSSL */

bool
fl_password_matches(const char *user, const char *password, const char *secret)
{
	return scram_verify_plain_password(user, password, secret);
}

#endif
