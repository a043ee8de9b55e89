/*-------------------------------------------------------------------------
 *
 * scram_keys.c
 *		What SCRAM-SHA-256 needs to know of a device or role (fl_auth_find_scram).
 *
 * The verifier of a password is the server's own form, so its salt and keys are
 * those that the server would use for a role.  For whoever has none the server's
 * way is followed, too: a salt that depends on the name and on a secret of this
 * server, and keys that belong to no password.
 *
 * Called by front doors (bgworker/mqtt/scram.c).  Nothing here logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/sha2.h"

#include "auth_internal.h"
#include "fleetlog/base64.h"
#include "scram.h"

#define MAX_VERIFIERS	4
#define MOCK_ITERATIONS 4096	/* what the server gives verifiers */
#define MOCK_SALT_LEN	16
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
fl_auth_find_scram(const char *user, FlIdentity *identity, FlScramKeys *keys)
{
	FlVerifier	verifiers[MAX_VERIFIERS];
	FlVerifier *newest = NULL;
	FlDeviceFound device = fl_device_find(user, identity);
	bool		is_role;
	Oid			role;
	int			n = 0;

	/* A bare name that a role can log in with, too, means neither (API.md, Identity). */
	is_role = fl_role_find(user, &role);
	if (is_role && device == FL_DEVICE_NONE && find_role_keys(role, identity, keys))
		return true;
	if (device == FL_DEVICE_ONE && !is_role)
		n = fl_device_verifiers(identity, "password", verifiers, MAX_VERIFIERS);
	for (int i = 0; i < n; i++)
		if (newest == NULL || verifiers[i].credential > newest->credential)
			newest = &verifiers[i];
	if (newest != NULL && read_keys(newest->verifier, keys))
	{
		identity->credential = newest->credential;
		return true;
	}
	mock_keys(user, keys);
	return false;
}
