/*-------------------------------------------------------------------------
 *
 * scram_keys.c
 *		What SCRAM needs to know of a device or role (fl_auth_find_scram).
 *
 * The SHA-256 verifier of a password is the server's own form, so its salt and keys
 * are those that the server would use for a role.  That of SHA-512, which devices
 * have besides, for Kafka clients, is alike but for the name and the length of the
 * keys.  For whoever has none the server's
 * way is followed, too: a salt that depends on the name and on a secret of this
 * server, and keys that belong to no password.
 *
 * Called by src/catalog/scram_server.c.  Nothing here logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "access/xlog.h"
#include "common/saslprep.h"
#include "common/sha2.h"

#include "auth_internal.h"
#include "fleetlog/base64.h"
#include "scram.h"

#define MAX_VERIFIERS	4
#define MOCK_ITERATIONS 4096	/* what the server gives verifiers */
#define MOCK_SALT_LEN	16
#define PREFIX_512		"SCRAM-SHA-512$"
#define MOCK_NONCE_LEN	32		/* MOCK_AUTH_NONCE_LEN of the control file */

static void
mock_keys(const char *user, FlScramKeys *keys)
{
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	pg_cryptohash_ctx *hash = pg_cryptohash_create(PG_SHA256);
	size_t		len = fl_base64_size(MOCK_SALT_LEN);

	if (hash == NULL || pg_cryptohash_init(hash) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) user, strlen(user)) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) GetMockAuthenticationNonce(), MOCK_NONCE_LEN) < 0 ||
		pg_cryptohash_final(hash, digest, sizeof(digest)) < 0 ||
		!pg_strong_random(keys->stored_key, sizeof(keys->stored_key)) ||
		!pg_strong_random(keys->server_key, sizeof(keys->server_key)))
	{
		pg_cryptohash_free(hash);
		elog(ERROR, "fleetlog: could not make up a verifier");
	}
	pg_cryptohash_free(hash);
	fl_base64_encode(keys->salt, digest, MOCK_SALT_LEN);
	keys->salt[len] = '\0';
	keys->iterations = MOCK_ITERATIONS;
}

/* False: not a verifier of SCRAM-SHA-256. */
static bool
read_keys(const char *verifier, FlScramKeys *keys)
{
	char	   *salt = NULL;
	FL_SCRAM_HASH_VARS

	if (!parse_scram_secret(verifier, &keys->iterations, FL_SCRAM_HASH_ARGS &salt,
							keys->stored_key, keys->server_key) ||
		strlcpy(keys->salt, salt, sizeof(keys->salt)) >= sizeof(keys->salt))
		return false;
	pfree(salt);
	return true;
}

/* ---- SHA-512, which the server does not know as a verifier ---------------------- */

static bool
read_key(const char *text, size_t len, uint8 *key)
{
	FlBuf		buf;

	fl_buf_init_fixed(&buf, key, PG_SHA512_DIGEST_LENGTH);
	return fl_base64_decode((const uint8_t *) text, len, &buf) == FL_OK && buf.len == PG_SHA512_DIGEST_LENGTH;
}

/* False: not a verifier of SCRAM-SHA-512 as fl_auth_build_sha512 writes it. */
static bool
read_keys_512(const char *verifier, FlScramKeys *keys)
{
	const char *salt;
	const char *stored;
	const char *server;
	char	   *end;

	if (verifier == NULL || strncmp(verifier, PREFIX_512, strlen(PREFIX_512)) != 0)
		return false;
	keys->iterations = (int) strtol(verifier + strlen(PREFIX_512), &end, 10);
	salt = end + 1;
	if (*end != ':' || keys->iterations <= 0 || (stored = strchr(salt, '$')) == NULL ||
		(server = strchr(stored, ':')) == NULL || (size_t) (stored - salt) >= sizeof(keys->salt))
		return false;
	memcpy(keys->salt, salt, stored - salt);
	keys->salt[stored - salt] = '\0';
	stored++;
	return read_key(stored, server - stored, keys->stored_key) &&
		read_key(server + 1, strlen(server + 1), keys->server_key);
}

static void
derive_key(const uint8 *salted, const char *name, uint8 *out)
{
	unsigned int len = 0;

	if (HMAC(EVP_sha512(), salted, PG_SHA512_DIGEST_LENGTH, (const uint8 *) name, strlen(name), out, &len) == NULL)
		elog(ERROR, "fleetlog: could not compute an HMAC");
}

char *
fl_auth_build_sha512(const char *password)
{
	uint8		salt[MOCK_SALT_LEN];
	uint8		salted[PG_SHA512_DIGEST_LENGTH];
	uint8		stored[PG_SHA512_DIGEST_LENGTH];
	uint8		server[PG_SHA512_DIGEST_LENGTH];
	char		salt_text[32] = {0};
	char		stored_text[96] = {0};
	char		server_text[96] = {0};
	char	   *prepared = NULL;

	if (pg_saslprep(password, &prepared) == SASLPREP_SUCCESS)
		password = prepared;
	if (!pg_strong_random(salt, sizeof(salt)) ||
		PKCS5_PBKDF2_HMAC(password, (int) strlen(password), salt, sizeof(salt), MOCK_ITERATIONS, EVP_sha512(),
						  sizeof(salted), salted) != 1)
		elog(ERROR, "fleetlog: could not make a verifier");
	derive_key(salted, "Client Key", stored);
	SHA512(stored, sizeof(stored), stored);
	derive_key(salted, "Server Key", server);
	fl_base64_encode(salt_text, salt, sizeof(salt));
	fl_base64_encode(stored_text, stored, sizeof(stored));
	fl_base64_encode(server_text, server, sizeof(server));
	explicit_bzero(salted, sizeof(salted));
	return psprintf(PREFIX_512 "%d:%s$%s:%s", MOCK_ITERATIONS, salt_text, stored_text, server_text);
}

/* ---- whose ------------------------------------------------------------------------- */

static bool
find_role_keys(Oid role, FlIdentity *identity, FlScramKeys *keys)
{
	char	   *verifier = fl_role_verifier(role);

	if (verifier == NULL || !read_keys(verifier, keys))
		return false;
	fl_role_identity(role, identity);
	return true;
}

bool
fl_auth_find_scram(const char *user, FlScramHash hash, FlIdentity *identity, FlScramKeys *keys)
{
	FlVerifier	verifiers[MAX_VERIFIERS];
	FlVerifier *newest = NULL;
	FlDeviceFound device = fl_device_find(user, identity);
	bool		is_role;
	Oid			role;
	int			n = 0;

	/* A bare name that a role can log in with, too, means neither (API.md, Identity). */
	is_role = fl_role_find(user, &role);
	if (is_role && device == FL_DEVICE_NONE && hash == FL_SCRAM_SHA_256 && find_role_keys(role, identity, keys))
		return true;
	if (device == FL_DEVICE_ONE && !is_role)
		n = fl_device_verifiers(identity, "password", verifiers, MAX_VERIFIERS);
	for (int i = 0; i < n; i++)
		if (newest == NULL || verifiers[i].credential > newest->credential)
			newest = &verifiers[i];
	if (newest != NULL && (hash == FL_SCRAM_SHA_512 ? read_keys_512(newest->verifier_512, keys) :
						   read_keys(newest->verifier, keys)))
	{
		identity->credential = newest->credential;
		return true;
	}
	mock_keys(user, keys);
	return false;
}
