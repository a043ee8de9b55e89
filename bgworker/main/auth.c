/*-------------------------------------------------------------------------
 *
 * auth.c
 *		The authentication worker: verifies passwords for the front doors.
 *
 * A check costs less than a millisecond (PBKDF2 with 4096 rounds, password.c),
 * so that one process makes a thousand and more a second; pairs that were verified before
 * never come here (auth_shmem.c).
 *
 *		front door --request--> [shared table] --> this worker
 *		front door <--answer--- [shared table] <--   SCRAM verifier of the device
 *
 * What an attacker may learn: nothing but "no".  Unknown, revoked and
 * ambiguous names cost the same hash as a wrong password, against a verifier
 * that nobody has the password of.  Digests are compared in constant time
 * (password.c).  No password and no verifier is ever logged, and
 * user names are cleaned of control characters before they are.
 *
 * Certificates were verified by TLS at the door; here it is only looked up whose
 * they are.
 *
 * Roles of the server log in by the verifier that ALTER ROLE has stored; what the
 * door makes of them is in src/catalog/role.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/base64.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "../../src/catalog/auth_internal.h"
#include "../../src/catalog/scram.h"
#include "fleetlog/compat.h"
#include "fleetlog/worker.h"
#include "worker_internal.h"

PGDLLEXPORT void fl_main_auth(Datum arg);

/* More valid passwords than this a device does not have. */
#define MAX_VERIFIERS	4

#define LOG_INTERVAL_MS 1000	/* at most one line so often */

/* Verifier of a password that nobody knows, for names that have none. */
static char *dummy_verifier = NULL;

static void
make_dummy_verifier(void)
{
	uint8		secret[32];
	char		text_form[64];
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	int			len;

	if (!pg_strong_random(secret, sizeof(secret)))
		elog(ERROR, "could not generate a random password");
	len = FL_B64_ENCODE(secret, sizeof(secret), text_form, sizeof(text_form) - 1);
	if (len < 0)
		elog(ERROR, "could not encode a random password");
	text_form[len] = '\0';
	dummy_verifier = pg_be_scram_build_secret(text_form);
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(text_form, sizeof(text_form));
	MemoryContextSwitchTo(old);
}

/* One line a second at most; those left out are counted in the next. */
static void
log_refusal(bool certificate, const char *user, const char *reason)
{
	static TimestampTz last = 0;
	static int64 left_out = 0;
	TimestampTz now = GetCurrentTimestamp();
	char	   *clean = pstrdup(user);
	const char *what = certificate ? "certificate" : "user name";

	if (!TimestampDifferenceExceeds(last, now, LOG_INTERVAL_MS))
	{
		left_out++;
		return;
	}
	for (char *p = clean; *p != '\0'; p++)
		if ((unsigned char) *p < 0x20 || *p == 0x7f)
			*p = '?';
	if (left_out > 0)
		ereport(LOG,
				(errmsg("login refused for %s \"%s\": %s; " INT64_FORMAT " more refusals since the last line",
						what, clean, reason, left_out)));
	else
		ereport(LOG,
				(errmsg("login refused for %s \"%s\": %s", what, clean, reason)));
	last = now;
	left_out = 0;
}

/*
 * Does a user name mean anybody at all?  A broker for anonymous clients has no
 * devices, and many clients give a name wherever they connect; with the first
 * device names begin to mean something, and one that is nobody's is refused.  A
 * role that may log in is always somebody.
 */
static bool
names_nobody(const char *user)
{
	Oid			role;

	return !fl_role_find(user, &role) && !fl_device_exists();
}

/*
 * Whom does the user name mean (API.md, Identity)?  NULL: the device or
 * role in *id; else why nobody.
 */
static const char *
resolve_user(const char *user, FlIdentity *id)
{
	FlDeviceFound found = fl_device_find(user, id);
	Oid			role;

	if (fl_role_find(user, &role))
	{
		fl_role_identity(role, id);
		return fl_role_admit(id);
	}
	switch (found)
	{
		case FL_DEVICE_ONE:
			return NULL;
		case FL_DEVICE_REVOKED:
			return "the device is revoked";
		case FL_DEVICE_AMBIGUOUS:
			return "more than one tenant has such a device; use tenant/device as the user name";
		case FL_DEVICE_NONE:
			break;
	}
	return "there is no such device";
}

static int
find_verifiers(const FlIdentity *id, FlVerifier *out)
{
	if (id->kind == FL_IDENTITY_DEVICE)
		return fl_device_verifiers(id, "password", out, MAX_VERIFIERS);
	out->credential = id->credential;
	out->verifier = fl_role_verifier(id->role);
	return out->verifier != NULL ? 1 : 0;
}

/* NULL: verified, and id->credential is set; else why not. */
static const char *
verify(const FlAuthWork *work, FlIdentity *id)
{
	const char *problem = work->password_len > 0 ? resolve_user(work->user, id) : "no password";
	FlVerifier	verifiers[MAX_VERIFIERS];
	int			n = problem == NULL ? find_verifiers(id, verifiers) : 0;

	for (int i = 0; i < n; i++)
	{
		if (fl_password_matches(work->user, work->password, verifiers[i].verifier))
		{
			id->credential = verifiers[i].credential;
			return NULL;
		}
	}
	if (n == 0)
		(void) fl_password_matches(work->user, work->password, dummy_verifier);
	if (problem != NULL)
		return problem;
	return n == 0 ? "the device has no password" : "wrong password";
}

/* NULL: *id is the device; else why not.  *outcome says which. */
static const char *
find_certificate(const FlAuthWork *work, FlIdentity *id, FlAuthOutcome *outcome)
{
	*outcome = FL_AUTH_OUTCOME_BAD;
	switch (fl_device_by_certificate(work->user, id))
	{
		case FL_DEVICE_ONE:
			*outcome = FL_AUTH_OUTCOME_ACCEPTED;
			return NULL;
		case FL_DEVICE_NONE:
			*outcome = FL_AUTH_OUTCOME_UNKNOWN;
			return "no device has this certificate; fleetlog.set_certificate gives it to one";
		case FL_DEVICE_REVOKED:
		case FL_DEVICE_AMBIGUOUS:
			break;
	}
	return "the certificate or its device is revoked";
}

/* One check, in a transaction of its own.  An error of ours is no verdict on the device. */
static void
check_one(FlAuthWork *work, MemoryContext cxt)
{
	FlIdentity	id;
	volatile FlAuthOutcome outcome = FL_AUTH_OUTCOME_UNAVAILABLE;

	memset(&id, 0, sizeof(id));
	PG_TRY();
	{
		const char *problem;
		FlAuthOutcome verdict;

		StartTransactionCommand();
		MemoryContextSwitchTo(cxt);
		if (work->certificate)
			problem = find_certificate(work, &id, &verdict);
		else if (names_nobody(work->user))
		{
			/* Whether that is a refusal is for the door to say, which logs it then. */
			problem = NULL;
			verdict = FL_AUTH_OUTCOME_UNKNOWN;
		}
		else
		{
			problem = verify(work, &id);
			verdict = problem == NULL ? FL_AUTH_OUTCOME_ACCEPTED : FL_AUTH_OUTCOME_BAD;
		}
		if (problem != NULL)
			log_refusal(work->certificate, work->user, problem);
		outcome = verdict;
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		outcome = FL_AUTH_OUTCOME_UNAVAILABLE;
		FL_COUNT(FL_C_ERRORS, 1);
	}
	PG_END_TRY();
	fl_auth_finish(work, outcome, &id);
	FL_COUNT(FL_C_TURNS, 1);
	if (outcome == FL_AUTH_OUTCOME_BAD || (outcome == FL_AUTH_OUTCOME_UNKNOWN && work->certificate))
		FL_COUNT(FL_C_REFUSED_CONNECTS, 1);
	MemoryContextSwitchTo(TopMemoryContext);
	MemoryContextReset(cxt);
}

void
fl_main_auth(Datum arg)
{
	MemoryContext cxt;
	FlAuthWork	work;

	fl_worker_begin(FL_WORKER_AUTH, 0, true);
	cxt = AllocSetContextCreate(TopMemoryContext, "fleetlog authentication", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(TopMemoryContext);
	make_dummy_verifier();
	fl_roles_init();
	fl_auth_recover();
	while (!fl_worker_should_stop())
	{
		fl_worker_turn();
		if (fl_auth_take(&work))
			check_one(&work, cxt);
		else
			fl_worker_wait(-1);
	}
	explicit_bzero(&work, sizeof(work));
	proc_exit(0);
}
