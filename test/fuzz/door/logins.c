/*-------------------------------------------------------------------------
 *
 * logins.c
 *	  Log-ins without an authentication worker: see fake.h.
 *
 * Device acme/d1 and role "app" have the password "pw".
 *
 *-------------------------------------------------------------------------
 */
#include "fake.h"

#include "fleetlog/auth.h"
#include "fleetlog/scram_message.h"

static FlAuthResult answer;
static bool answered;
bool fake_logins_wait = false;

static bool
identify(const char *user, size_t len, FlIdentity *identity)
{
	memset(identity, 0, sizeof(*identity));
	identity->credential = 7;
	if (len == 7 && memcmp(user, "acme/d1", 7) == 0)
	{
		identity->kind = FL_IDENTITY_DEVICE;
		strcpy(identity->tenant, "acme");
		strcpy(identity->device, "d1");
		return true;
	}
	if (len == 3 && memcmp(user, "app", 3) == 0)
	{
		identity->kind = FL_IDENTITY_ROLE;
		identity->role = 10;
		strcpy(identity->role_name, "app");
		return true;
	}
	return false;
}

void
fl_auth_worker_start(int door)
{
	answered = false;
}

static FlAuthStart
answer_later(uint64 conn_id, const char *user, size_t user_len, bool right)
{
	if (answered)
		return FL_AUTH_BUSY;
	answered = true;
	answer.conn_id = conn_id;
	answer.outcome = identify(user, user_len, &answer.identity) && right ? FL_AUTH_OUTCOME_ACCEPTED : FL_AUTH_OUTCOME_BAD;
	return FL_AUTH_QUEUED;
}

FlAuthStart
fl_auth_begin(int door, uint64 conn_id, const char *user, size_t user_len, const char *password, size_t password_len,
			  FlIdentity *identity)
{
	bool right = password_len == 2 && memcmp(password, "pw", 2) == 0;

	if (password == NULL || user_len > FL_AUTH_USER_MAX || memchr(user, 0, user_len) != NULL)
		return FL_AUTH_REFUSED;
	if (!fake_logins_wait && right && identify(user, user_len, identity))
		return FL_AUTH_ACCEPTED;
	return answer_later(conn_id, user, user_len, right);
}

FlAuthStart
fl_auth_begin_name(int door, uint64 conn_id, const char *user, size_t user_len)
{
	return answer_later(conn_id, user, user_len, false);
}

FlAuthStart
fl_auth_begin_certificate(int door, uint64 conn_id, const char *name, size_t len)
{
	return answer_later(conn_id, name, len, true);
}

bool
fl_auth_next_result(int door, FlAuthResult *out)
{
	if (!answered || fake_logins_wait)
		return false;
	answered = false;
	*out = answer;
	return true;
}

bool
fl_auth_find_scram(const char *user, FlScramHash hash, FlIdentity *identity, FlScramKeys *keys)
{
	keys->iterations = 4096;
	strcpy(keys->salt, "W22ZaJ0SNY7soEsUEjb6gQ==");
	memset(keys->stored_key, 0x11, sizeof(keys->stored_key));
	memset(keys->server_key, 0x22, sizeof(keys->server_key));
	return identify(user, strlen(user), identity);
}

int
fl_auth_find_psk(const char *user, FlIdentity *identity, uint8 *key, int room)
{
	return 0;
}

uint64
fl_auth_revocation_cursor(void)
{
	return 0;
}

bool
fl_auth_next_revocation(uint64 *cursor, FlRevocation *out, bool *lapped)
{
	*lapped = false;
	return false;
}

bool
fl_auth_is_revoked_by(const FlIdentity *id, const FlRevocation *rev)
{
	return false;
}

bool
fl_auth_still_valid(const FlIdentity *id)
{
	return true;
}
