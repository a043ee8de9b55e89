/*-------------------------------------------------------------------------
 *
 * auth_shmem.c
 *		The shared state of logging in: requests on their way to the
 *		authentication worker and back, the pairs that were verified, and the
 *		revocations that front doors must act upon.
 *
 * Requests live in one table of fixed size.  A slot moves
 *
 *		FREE -> QUEUED -> RUNNING -> DONE -> FREE
 *
 * and ABANDONED instead of DONE when the front door that asked is gone.  The
 * table is the bound: when it is full, a CONNECT is told that the server is
 * busy (O1).
 *
 * Verified pairs are kept as HMAC-SHA-256(boot key, user name and password),
 * in sets of four, the longest unused of a set is replaced.  The key is drawn
 * at server start and lives in shared memory only, so that a dump of the table
 * is of no use without it, and neither reaches a disk.  Pairs are found by MAC
 * alone: comparing 256 bits of a keyed hash leaks nothing that helps.
 *
 * Revocation against verification: a check notes how many revocations there
 * were before it took its snapshot.  Its result is cached only if there was
 * none since, and is compared with those that came since when the front door
 * fetches it; those that come later the front door sees in its own turn.  No
 * order of events lets a revoked credential stay connected.
 *
 * Locking: everything under auth->lock (shared for finding a pair), except
 * the sequence numbers and counters, which are atomics.  The lock is never
 * held while a hash is computed, and no other lock is taken under it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/hashfn.h"
#include "common/hmac.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/resowner.h"

#include "auth_internal.h"
#include "catalog_internal.h"
#include "fleetlog/cursor.h"
#include "fleetlog/shmem.h"
#include "fleetlog/utf8.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_auth);

typedef enum RequestState
{
	REQUEST_FREE = 0,
	REQUEST_QUEUED,				/* waits for the worker */
	REQUEST_RUNNING,			/* the worker has it; the password is gone from here */
	REQUEST_DONE,				/* waits for the front door */
	REQUEST_ABANDONED			/* running, and nobody waits */
} RequestState;

typedef struct AuthRequest
{
	RequestState state;
	int			door;
	bool		certificate;	/* see FlAuthWork */
	uint64		conn_id;
	uint64		order;			/* the lowest goes first */
	uint64		revocations;	/* see FlAuthWork */
	FlAuthOutcome outcome;
	int64		credential;
	Oid			role;			/* FlIdentity; InvalidOid: a device */
	char		tenant[FL_TENANT_MAX + 1];
	char		device[FL_DEVICE_MAX + 1];
	char		role_name[FL_ROLE_MAX + 1];
	size_t		user_len;
	size_t		password_len;
	char		user[FL_AUTH_USER_MAX];
	char		password[FL_AUTH_PASSWORD_MAX];
} AuthRequest;

/* A pair that was verified; the device is in the user name, the tenant perhaps not. */
typedef struct AuthPair
{
	uint8		mac[FL_AUTH_MAC_LEN];
	int64		credential;		/* 0: the entry is empty */
	uint64		device_hash;
	uint64		names_epoch;	/* for a bare name: what it was resolved under; else 0 */
	uint32		last_used;
	Oid			role;			/* InvalidOid: a device */
	char		tenant[FL_TENANT_MAX + 1];
} AuthPair;

StaticAssertDecl(sizeof(AuthPair) == 128, "what fleetlog.auth_cache_size says of a pair");

#define PAIRS_PER_SET	4

typedef enum AuthCounter
{
	AUTH_CACHED,				/* known pair */
	AUTH_ACCEPTED,				/* verified by the worker */
	AUTH_FAILED,				/* unknown, wrong or revoked */
	AUTH_UNAVAILABLE,
	AUTH_BUSY,					/* the table was full */
	AUTH_MALFORMED,
	AUTH_N_COUNTERS
} AuthCounter;

typedef struct AuthShared
{
	LWLock		lock;
	Oid			database;		/* whose credentials the pairs are */
	uint8		boot_key[FL_AUTH_MAC_LEN];
	uint64		next_order;
	uint32		clock;			/* for last_used */
	pg_atomic_uint64 names_epoch;	/* never 0 */
	pg_atomic_uint64 revocations;	/* how many there were: the next one's number */
	pg_atomic_uint64 counters[AUTH_N_COUNTERS];
	pg_atomic_uint32 done[FL_MAX_FRONT_DOORS];	/* answers that wait for each door */
	FlRevocation ring[FL_AUTH_REVOCATIONS];
	AuthRequest requests[FL_AUTH_REQUESTS];
	uint32		nsets;
	AuthPair	pairs[FLEXIBLE_ARRAY_MEMBER];
} AuthShared;

static AuthShared *auth = NULL;
static int	auth_cache_size = 65536;	/* fleetlog.auth_cache_size */
static int	auth_tranche = 0;

void
fl_auth_settings_define(void)
{
	DefineCustomIntVariable("fleetlog.auth_cache_size",
							"How many pairs of user name and verified password are remembered.",
							"A device whose pair is known reconnects in microseconds; 128 bytes of shared memory each.",
							&auth_cache_size, 65536, 1024, 16777216, PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

static uint32
number_of_sets(void)
{
	return (uint32) (auth_cache_size + PAIRS_PER_SET - 1) / PAIRS_PER_SET;
}

Size
fl_auth_shmem_size(void)
{
	return add_size(offsetof(AuthShared, pairs),
					mul_size(sizeof(AuthPair), (Size) number_of_sets() * PAIRS_PER_SET));
}

/* Called with AddinShmemInitLock held. */
void
fl_auth_shmem_init(void)
{
	bool		found;

	auth = ShmemInitStruct("fleetlog auth", fl_auth_shmem_size(), &found);
	if (!found)
	{
		memset(auth, 0, fl_auth_shmem_size());
		LWLockInitialize(&auth->lock, LWLockNewTrancheId());
		if (!pg_strong_random(auth->boot_key, sizeof(auth->boot_key)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random key for fleetlog")));
		pg_atomic_init_u64(&auth->names_epoch, 1);
		pg_atomic_init_u64(&auth->revocations, 0);
		for (int i = 0; i < AUTH_N_COUNTERS; i++)
			pg_atomic_init_u64(&auth->counters[i], 0);
		for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
			pg_atomic_init_u32(&auth->done[i], 0);
		auth->nsets = number_of_sets();
	}
	auth_tranche = auth->lock.tranche;
	LWLockRegisterTranche(auth_tranche, "fleetlog auth");
}

static void
count(AuthCounter c)
{
	pg_atomic_fetch_add_u64(&auth->counters[c], 1);
}

/* ---- Keyed hash of a pair ---------------------------------------------------------------- */

static void
hash_pair(const char *user, size_t user_len, const char *password, size_t password_len, uint8 mac[FL_AUTH_MAC_LEN])
{
	static ResourceOwner owner = NULL;
	ResourceOwner save = CurrentResourceOwner;
	uint8		len[4];
	pg_hmac_ctx *ctx;
	bool		ok;

	StaticAssertStmt(FL_AUTH_MAC_LEN == PG_SHA256_DIGEST_LENGTH, "a MAC is a SHA-256 digest");

	/* The server's HMAC wants a resource owner; a front door has none between transactions. */
	if (save == NULL)
	{
		if (owner == NULL)
			owner = ResourceOwnerCreate(NULL, "fleetlog auth");
		CurrentResourceOwner = owner;
	}
	fl_put_le32(len, (uint32_t) user_len);
	ctx = pg_hmac_create(PG_SHA256);
	ok = ctx != NULL &&
		pg_hmac_init(ctx, auth->boot_key, sizeof(auth->boot_key)) >= 0 &&
		pg_hmac_update(ctx, len, sizeof(len)) >= 0 &&
		pg_hmac_update(ctx, (const uint8 *) user, user_len) >= 0 &&
		pg_hmac_update(ctx, (const uint8 *) password, password_len) >= 0 &&
		pg_hmac_final(ctx, mac, FL_AUTH_MAC_LEN) >= 0;
	if (ctx != NULL)
		pg_hmac_free(ctx);
	CurrentResourceOwner = save;
	if (!ok)
		elog(ERROR, "could not compute an HMAC");
}

static AuthPair *
pair_set(const uint8 mac[FL_AUTH_MAC_LEN])
{
	return &auth->pairs[(fl_get_le64(mac) % auth->nsets) * PAIRS_PER_SET];
}

/* The user name's device part: behind the slash, or all of it. */
static void
split_user(const char *user, size_t len, const char **device, size_t *device_len)
{
	const char *slash = memchr(user, '/', len);

	*device = slash != NULL ? slash + 1 : user;
	*device_len = user + len - *device;
}

/* Lock held, at least shared. */
static bool
find_pair(const uint8 mac[FL_AUTH_MAC_LEN], const char *user, size_t user_len, FlIdentity *id)
{
	AuthPair   *set = pair_set(mac);
	const char *device;
	size_t		len;

	for (int i = 0; i < PAIRS_PER_SET; i++)
	{
		AuthPair   *p = &set[i];

		if (p->credential == 0 || memcmp(p->mac, mac, FL_AUTH_MAC_LEN) != 0)
			continue;
		if (p->names_epoch != 0 && p->names_epoch != pg_atomic_read_u64(&auth->names_epoch))
			return false;
		split_user(user, user_len, &device, &len);
		if (len > (OidIsValid(p->role) ? FL_ROLE_MAX : FL_DEVICE_MAX))
			return false;
		memset(id, 0, sizeof(*id));
		id->kind = OidIsValid(p->role) ? FL_IDENTITY_ROLE : FL_IDENTITY_DEVICE;
		id->role = p->role;
		id->credential = p->credential;
		memcpy(id->tenant, p->tenant, sizeof(id->tenant));
		memcpy(OidIsValid(p->role) ? id->role_name : id->device, device, len);
		p->last_used = ++auth->clock;	/* a race here only blurs the order of use */
		return true;
	}
	return false;
}

/* Lock held exclusively. */
static void
remember_pair(const uint8 mac[FL_AUTH_MAC_LEN], const FlIdentity *id, uint64 names_epoch)
{
	AuthPair   *set = pair_set(mac);
	AuthPair   *victim = &set[0];

	for (int i = 0; i < PAIRS_PER_SET; i++)
	{
		AuthPair   *p = &set[i];

		if (p->credential == 0 || memcmp(p->mac, mac, FL_AUTH_MAC_LEN) == 0)
		{
			victim = p;
			break;
		}
		if (auth->clock - p->last_used > auth->clock - victim->last_used)
			victim = p;
	}
	memcpy(victim->mac, mac, FL_AUTH_MAC_LEN);
	victim->credential = id->credential;
	victim->role = id->role;
	/* Of a role nothing is revoked by this table: the door asks the catalog (role.c). */
	victim->device_hash = OidIsValid(id->role) ? 0 : fl_auth_device_hash(id->tenant, id->device);
	victim->names_epoch = names_epoch;
	victim->last_used = ++auth->clock;
	strlcpy(victim->tenant, id->tenant, sizeof(victim->tenant));
}

/* ---- Front door ------------------------------------------------------------------------------ */

/*
 * The workers may come back in another database than before (a reload of
 * fleetlog.database, or one that was dropped and made anew), where the same
 * number is another credential.  Lock held exclusively.
 */
static void
forget_other_database(void)
{
	if (auth->database == MyDatabaseId)
		return;
	auth->database = MyDatabaseId;
	explicit_bzero(auth->pairs, sizeof(AuthPair) * (Size) auth->nsets * PAIRS_PER_SET);
}

static void
free_request(AuthRequest *r)
{
	explicit_bzero(r, sizeof(*r));
	r->state = REQUEST_FREE;
}

void
fl_auth_worker_start(int door)
{
	Assert(door >= 0 && door < FL_MAX_FRONT_DOORS);
	LWLockAcquire(&auth->lock, LW_EXCLUSIVE);
	forget_other_database();
	for (int i = 0; i < FL_AUTH_REQUESTS; i++)
	{
		AuthRequest *r = &auth->requests[i];

		if (r->state == REQUEST_FREE || r->door != door)
			continue;
		if (r->state == REQUEST_RUNNING)
			r->state = REQUEST_ABANDONED;
		else if (r->state != REQUEST_ABANDONED)
			free_request(r);
	}
	pg_atomic_write_u32(&auth->done[door], 0);
	LWLockRelease(&auth->lock);
}

/* Lock held exclusively. */
static bool
enqueue(int door, uint64 conn_id, bool certificate, const char *user, size_t user_len, const char *password, size_t password_len)
{
	for (int i = 0; i < FL_AUTH_REQUESTS; i++)
	{
		AuthRequest *r = &auth->requests[i];

		if (r->state != REQUEST_FREE)
			continue;
		r->door = door;
		r->certificate = certificate;
		r->conn_id = conn_id;
		r->order = auth->next_order++;
		r->user_len = user_len;
		r->password_len = password_len;
		memcpy(r->user, user, user_len);
		memcpy(r->password, password, password_len);
		r->state = REQUEST_QUEUED;
		return true;
	}
	return false;
}

static FlAuthStart
ask_worker(int door, uint64 conn_id, bool certificate, const char *user, size_t user_len,
		   const char *password, size_t password_len)
{
	bool		queued;

	LWLockAcquire(&auth->lock, LW_EXCLUSIVE);
	queued = enqueue(door, conn_id, certificate, user, user_len, password, password_len);
	LWLockRelease(&auth->lock);
	if (!queued)
	{
		count(AUTH_BUSY);
		return FL_AUTH_BUSY;
	}
	fl_worker_wake(FL_WORKER_AUTH, 0);
	return FL_AUTH_QUEUED;
}

FlAuthStart
fl_auth_begin(int door, uint64 conn_id, const char *user, size_t user_len,
			  const char *password, size_t password_len, FlIdentity *identity)
{
	uint8		mac[FL_AUTH_MAC_LEN];
	bool		found;

	if (user == NULL || password == NULL || user_len == 0 || user_len > FL_AUTH_USER_MAX ||
		password_len == 0 || password_len > FL_AUTH_PASSWORD_MAX ||
		!fl_utf8_valid_text((const uint8_t *) user, user_len) || memchr(password, '\0', password_len) != NULL)
	{
		count(AUTH_MALFORMED);
		return FL_AUTH_REFUSED;
	}
	hash_pair(user, user_len, password, password_len, mac);
	LWLockAcquire(&auth->lock, LW_SHARED);
	found = find_pair(mac, user, user_len, identity);
	LWLockRelease(&auth->lock);
	if (found)
	{
		count(AUTH_CACHED);
		return FL_AUTH_ACCEPTED;
	}
	return ask_worker(door, conn_id, false, user, user_len, password, password_len);
}

FlAuthStart
fl_auth_begin_name(int door, uint64 conn_id, const char *user, size_t user_len)
{
	if (user == NULL || user_len == 0 || user_len > FL_AUTH_USER_MAX ||
		!fl_utf8_valid_text((const uint8_t *) user, user_len))
		return FL_AUTH_REFUSED;
	return ask_worker(door, conn_id, false, user, user_len, "", 0);
}

FlAuthStart
fl_auth_begin_certificate(int door, uint64 conn_id, const char *name, size_t len)
{
	if (len == 0 || len > FL_AUTH_USER_MAX || !fl_utf8_valid_text((const uint8_t *) name, len))
	{
		count(AUTH_MALFORMED);
		return FL_AUTH_REFUSED;
	}
	return ask_worker(door, conn_id, true, name, len, "", 0);
}

/*
 * Was this identity revoked after so many revocations?  Lock held.  An answer
 * that is so old that the ring has gone round is not believed.
 */
static bool
revoked_since(uint64 seen, const FlIdentity *id, bool *lapped)
{
	uint64		now = pg_atomic_read_u64(&auth->revocations);

	*lapped = now - seen > FL_AUTH_REVOCATIONS;
	for (uint64 i = seen; !*lapped && i < now; i++)
		if (fl_auth_is_revoked_by(id, &auth->ring[i % FL_AUTH_REVOCATIONS]))
			return true;
	return false;
}

bool
fl_auth_next_result(int door, FlAuthResult *out)
{
	bool		found = false;

	if (pg_atomic_read_u32(&auth->done[door]) == 0)
		return false;
	LWLockAcquire(&auth->lock, LW_EXCLUSIVE);
	for (int i = 0; i < FL_AUTH_REQUESTS && !found; i++)
	{
		AuthRequest *r = &auth->requests[i];
		bool		lapped;

		if (r->state != REQUEST_DONE || r->door != door)
			continue;
		found = true;
		memset(out, 0, sizeof(*out));
		out->conn_id = r->conn_id;
		out->outcome = r->outcome;
		if (r->outcome == FL_AUTH_OUTCOME_ACCEPTED)
		{
			out->identity.kind = OidIsValid(r->role) ? FL_IDENTITY_ROLE : FL_IDENTITY_DEVICE;
			out->identity.role = r->role;
			out->identity.credential = r->credential;
			memcpy(out->identity.role_name, r->role_name, sizeof(r->role_name));
			memcpy(out->identity.tenant, r->tenant, sizeof(r->tenant));
			memcpy(out->identity.device, r->device, sizeof(r->device));
			if (revoked_since(r->revocations, &out->identity, &lapped))
				out->outcome = FL_AUTH_OUTCOME_BAD;
			else if (lapped)
				out->outcome = FL_AUTH_OUTCOME_UNAVAILABLE;
		}
		free_request(r);
		pg_atomic_fetch_sub_u32(&auth->done[door], 1);
	}
	LWLockRelease(&auth->lock);
	return found;
}

/* ---- Worker -------------------------------------------------------------------------------------- */

bool
fl_auth_take(FlAuthWork *work)
{
	AuthRequest *oldest = NULL;

	LWLockAcquire(&auth->lock, LW_EXCLUSIVE);
	for (int i = 0; i < FL_AUTH_REQUESTS; i++)
	{
		AuthRequest *r = &auth->requests[i];

		if (r->state == REQUEST_QUEUED && (oldest == NULL || r->order < oldest->order))
			oldest = r;
	}
	if (oldest != NULL)
	{
		oldest->state = REQUEST_RUNNING;
		work->slot = oldest - auth->requests;
		work->revocations = oldest->revocations = pg_atomic_read_u64(&auth->revocations);
		work->names_epoch = pg_atomic_read_u64(&auth->names_epoch);
		work->certificate = oldest->certificate;
		work->user_len = oldest->user_len;
		work->password_len = oldest->password_len;
		memcpy(work->user, oldest->user, oldest->user_len);
		work->user[oldest->user_len] = '\0';
		memcpy(work->password, oldest->password, oldest->password_len);
		work->password[oldest->password_len] = '\0';
		explicit_bzero(oldest->password, sizeof(oldest->password));
	}
	LWLockRelease(&auth->lock);
	return oldest != NULL;
}

/* Lock held exclusively; returns the door to wake, -1: none. */
static int
complete(AuthRequest *r, FlAuthOutcome outcome, const FlIdentity *id)
{
	if (r->state != REQUEST_RUNNING)
	{
		free_request(r);
		return -1;
	}
	r->outcome = outcome;
	if (outcome == FL_AUTH_OUTCOME_ACCEPTED)
	{
		r->credential = id->credential;
		r->role = id->role;
		memcpy(r->role_name, id->role_name, sizeof(r->role_name));
		memcpy(r->tenant, id->tenant, sizeof(r->tenant));
		memcpy(r->device, id->device, sizeof(r->device));
	}
	r->state = REQUEST_DONE;
	pg_atomic_fetch_add_u32(&auth->done[r->door], 1);
	return r->door;
}

void
fl_auth_finish(FlAuthWork *work, FlAuthOutcome outcome, const FlIdentity *identity)
{
	uint8		mac[FL_AUTH_MAC_LEN];
	bool		bare = strchr(work->user, '/') == NULL;
	int			door;

	bool		remember = outcome == FL_AUTH_OUTCOME_ACCEPTED && !work->certificate;

	if (remember)
		hash_pair(work->user, work->user_len, work->password, work->password_len, mac);
	explicit_bzero(work->password, sizeof(work->password));
	LWLockAcquire(&auth->lock, LW_EXCLUSIVE);
	if (remember && work->revocations == pg_atomic_read_u64(&auth->revocations) &&
		work->names_epoch == pg_atomic_read_u64(&auth->names_epoch))
		remember_pair(mac, identity, bare ? work->names_epoch : 0);
	door = complete(&auth->requests[work->slot], outcome, identity);
	LWLockRelease(&auth->lock);
	count(outcome == FL_AUTH_OUTCOME_ACCEPTED ? AUTH_ACCEPTED :
		  outcome == FL_AUTH_OUTCOME_UNAVAILABLE ? AUTH_UNAVAILABLE : AUTH_FAILED);
	if (door >= 0)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, door);
}

void
fl_auth_recover(void)
{
	bool		wake[FL_MAX_FRONT_DOORS] = {false};

	LWLockAcquire(&auth->lock, LW_EXCLUSIVE);
	forget_other_database();
	for (int i = 0; i < FL_AUTH_REQUESTS; i++)
	{
		AuthRequest *r = &auth->requests[i];
		int			door;

		if (r->state != REQUEST_RUNNING && r->state != REQUEST_ABANDONED)
			continue;
		door = complete(r, FL_AUTH_OUTCOME_UNAVAILABLE, NULL);
		if (door >= 0)
			wake[door] = true;
	}
	LWLockRelease(&auth->lock);
	for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
		if (wake[i])
			fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
}

/* ---- Revocation -------------------------------------------------------------------------------------- */

uint64
fl_auth_device_hash(const char *tenant, const char *device)
{
	uint64		h = DatumGetUInt64(hash_any_extended((const unsigned char *) tenant, strlen(tenant), 0));

	h = DatumGetUInt64(hash_any_extended((const unsigned char *) device, strlen(device), h));
	return h != 0 ? h : 1;
}

bool
fl_auth_is_revoked_by(const FlIdentity *id, const FlRevocation *rev)
{
	if (id->kind != FL_IDENTITY_DEVICE)
		return false;
	if (rev->credential != 0)
		return rev->credential == id->credential;
	return rev->device_hash == fl_auth_device_hash(id->tenant, id->device);
}

uint64
fl_auth_revocation_cursor(void)
{
	return pg_atomic_read_u64(&auth->revocations);
}

bool
fl_auth_next_revocation(uint64 *cursor, FlRevocation *out, bool *lapped)
{
	uint64		now;

	*lapped = false;
	memset(out, 0, sizeof(*out));
	if (*cursor == pg_atomic_read_u64(&auth->revocations))
		return false;
	LWLockAcquire(&auth->lock, LW_SHARED);
	now = pg_atomic_read_u64(&auth->revocations);
	if (now - *cursor > FL_AUTH_REVOCATIONS)
	{
		*lapped = true;
		*cursor = now;
	}
	else
		*out = auth->ring[(*cursor)++ % FL_AUTH_REVOCATIONS];
	LWLockRelease(&auth->lock);
	return true;
}

static int
compare_revocations(const void *a, const void *b)
{
	const FlRevocation *x = a;
	const FlRevocation *y = b;

	if (x->credential != y->credential)
		return x->credential < y->credential ? -1 : 1;
	return x->device_hash < y->device_hash ? -1 : x->device_hash > y->device_hash;
}

static bool
is_listed(const FlRevocation *sorted, int n, int64 credential, uint64 device_hash)
{
	FlRevocation key = {.credential = credential, .device_hash = device_hash};

	return bsearch(&key, sorted, n, sizeof(FlRevocation), compare_revocations) != NULL;
}

/* Called at commit: must not fail.  `revs` is at most FL_AUTH_REVOCATIONS long. */
void
fl_auth_revoke(const FlRevocation *revs, int n, bool everybody)
{
	FlRevocation sorted[FL_AUTH_REVOCATIONS];
	uint64		next;

	if (auth == NULL)
		return;
	n = Min(n, FL_AUTH_REVOCATIONS);
	memcpy(sorted, revs, n * sizeof(FlRevocation));
	qsort(sorted, n, sizeof(FlRevocation), compare_revocations);
	LWLockAcquire(&auth->lock, LW_EXCLUSIVE);
	next = pg_atomic_read_u64(&auth->revocations);
	for (int i = 0; i < n; i++)
		auth->ring[next++ % FL_AUTH_REVOCATIONS] = revs[i];
	if (everybody)
		next += FL_AUTH_REVOCATIONS + 1;	/* every cursor finds itself lapped */
	pg_atomic_write_u64(&auth->revocations, next);
	for (Size i = 0; i < (Size) auth->nsets * PAIRS_PER_SET; i++)
	{
		AuthPair   *p = &auth->pairs[i];

		if (p->credential != 0 &&
			(everybody || is_listed(sorted, n, p->credential, 0) || is_listed(sorted, n, 0, p->device_hash)))
			explicit_bzero(p, sizeof(*p));
	}
	LWLockRelease(&auth->lock);
}

void
fl_auth_names_changed(void)
{
	if (auth != NULL)
		pg_atomic_fetch_add_u64(&auth->names_epoch, 1);
}

/* ---- View ------------------------------------------------------------------------------------------------ */

Datum
fl_sql_stat_auth(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[AUTH_N_COUNTERS + 2];
	bool		nulls[AUTH_N_COUNTERS + 2] = {false};
	int			waiting = 0;
	int64		remembered = 0;

	fl_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	for (int i = 0; i < AUTH_N_COUNTERS; i++)
		values[i] = Int64GetDatum((int64) pg_atomic_read_u64(&auth->counters[i]));
	LWLockAcquire(&auth->lock, LW_SHARED);
	for (int i = 0; i < FL_AUTH_REQUESTS; i++)
		waiting += auth->requests[i].state == REQUEST_QUEUED || auth->requests[i].state == REQUEST_RUNNING;
	for (Size i = 0; i < (Size) auth->nsets * PAIRS_PER_SET; i++)
		remembered += auth->pairs[i].credential != 0;
	LWLockRelease(&auth->lock);
	values[AUTH_N_COUNTERS] = Int32GetDatum(waiting);
	values[AUTH_N_COUNTERS + 1] = Int64GetDatum(remembered);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
