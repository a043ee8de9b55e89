/*-------------------------------------------------------------------------
 *
 * auth.h
 *		Logging in with a password without stopping the loop.
 *
 * Checking a SCRAM verifier costs about a millisecond, far too long for a
 * front door that serves thousands.  A pair of user name and password that was
 * verified before is found in a shared table, as an HMAC-SHA-256 under a key
 * that is drawn at server start; everything else goes through a bounded queue
 * to the authentication worker.
 *
 *		fl_auth_worker_start(door)            once, when the front door starts
 *		fl_auth_begin(door, conn, ...)        at CONNECT
 *		fl_auth_next_result(door, &result)    when the latch was set
 *		fl_auth_next_revocation(&cursor, ..)  every turn: whom to disconnect
 *
 * Locking: all shared state of this module is under one lock of its own,
 * held for copies and comparisons only, never while a hash is computed.
 * Passwords stay in shared memory from fl_auth_begin until the worker has
 * copied them, and are wiped in both places.
 *
 * No function here needs a transaction unless it says so.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_AUTH_H
#define FLEETLOG_AUTH_H

#include "fleetlog/catalog.h"

#define FL_AUTH_USER_MAX		255 /* bytes of a user name: tenant/device */
#define FL_AUTH_PASSWORD_MAX	512 /* bytes of a password */
#define FL_AUTH_REQUESTS		256 /* checks that are queued or under way */
#define FL_AUTH_REVOCATIONS		1024	/* remembered for front doors that are late */

/* Shared memory, called by src/shmem. */
extern Size fl_auth_shmem_size(void);
extern void fl_auth_shmem_init(void);

/* Settings of this module; called from _PG_init. */
extern void fl_auth_settings_define(void);
extern void fl_acl_settings_define(void);

typedef enum FlAuthStart
{
	FL_AUTH_ACCEPTED,			/* known pair: *identity is filled in */
	FL_AUTH_QUEUED,				/* the answer comes by fl_auth_next_result */
	FL_AUTH_BUSY,				/* the queue is full: 0x89 server busy, close */
	FL_AUTH_REFUSED				/* cannot be right (length, U+0000): 0x86 */
} FlAuthStart;

/*
 * The front door claims its place: answers that a predecessor in this slot has
 * not fetched are thrown away.
 */
extern void fl_auth_worker_start(int door);

/*
 * conn_id comes back with the answer.  The password is copied; the caller
 * wipes its own.  A NULL password is refused.
 */
extern FlAuthStart fl_auth_begin(int door, uint64 conn_id, const char *user, size_t user_len,
								 const char *password, size_t password_len,
								 FlIdentity *identity);

/*
 * A user name without a password, or with one that is nobody's: the answer is
 * FL_AUTH_OUTCOME_UNKNOWN where there is no device at all, else FL_AUTH_OUTCOME_BAD.
 */
extern FlAuthStart fl_auth_begin_name(int door, uint64 conn_id, const char *user, size_t user_len);

/*
 * Like fl_auth_begin, for the name in a certificate that TLS has verified.  Such names are
 * not remembered: they cost one index lookup and no hash.
 */
extern FlAuthStart fl_auth_begin_certificate(int door, uint64 conn_id, const char *name, size_t len);

/*
 * Needs a transaction, and reads in the caller, because TLS cannot wait for an
 * answer: the device that a pre-shared key's identity names, and its key.
 * Returns the key's length; 0: none, or it does not fit.
 */
#define FL_AUTH_PSK_MIN			16	/* bytes of a key */
#define FL_AUTH_PSK_MAX			64
extern int	fl_auth_find_psk(const char *user, FlIdentity *identity, uint8 *key, int room);

/*
 * Needs a transaction, and reads in the caller, since a conversation of two
 * messages is no work for a queue: what SCRAM needs to know of a device's
 * newest password, or of a role's, which has SHA-256 only.  Where there is no such name or
 * password the keys are ones that nobody can prove to know, and the salt is the same every
 * time, so that names cannot be found out; false then.
 */
typedef enum FlScramHash
{
	FL_SCRAM_SHA_256,
	FL_SCRAM_SHA_512
} FlScramHash;

typedef struct FlScramKeys
{
	int			iterations;
	char		salt[384];		/* base64 */
	uint8		stored_key[64]; /* of SHA-256: the first half */
	uint8		server_key[64];
} FlScramKeys;

extern bool fl_auth_find_scram(const char *user, FlScramHash hash, FlIdentity *identity, FlScramKeys *keys);

/* The SCRAM-SHA-512 verifier of a password, palloc'd; made like the server's of SHA-256. */
extern char *fl_auth_build_sha512(const char *password);

typedef enum FlAuthOutcome
{
	FL_AUTH_OUTCOME_ACCEPTED,
	FL_AUTH_OUTCOME_BAD,		/* unknown, revoked or wrong: the three look alike */
	FL_AUTH_OUTCOME_UNKNOWN,	/* no device ever had this certificate, or name: there is none at all */
	FL_AUTH_OUTCOME_UNAVAILABLE /* the check failed for a reason of ours: 0x88 */
} FlAuthOutcome;

typedef struct FlAuthResult
{
	uint64		conn_id;
	FlAuthOutcome outcome;
	FlIdentity	identity;		/* when accepted */
} FlAuthResult;

/* The next answer for this door; false: none.  The door's latch is set for each. */
extern bool fl_auth_next_result(int door, FlAuthResult *out);

/*
 * Revocations, in the order of their commits.  A cursor starts at
 * fl_auth_revocation_cursor() before the door accepts its first connection.
 * Returns false when there is nothing new.  *lapped: the door was so late that
 * entries are lost (or everything was revoked): it must check each connection
 * by fl_auth_still_valid.
 */
typedef struct FlRevocation
{
	int64		credential;		/* this credential, or 0 */
	uint64		device_hash;	/* fl_auth_device_hash of a device, when credential is 0 */
} FlRevocation;

extern uint64 fl_auth_revocation_cursor(void);
extern bool fl_auth_next_revocation(uint64 *cursor, FlRevocation *out, bool *lapped);
extern uint64 fl_auth_device_hash(const char *tenant, const char *device);

/* Is this identity named by the revocation? */
extern bool fl_auth_is_revoked_by(const FlIdentity *id, const FlRevocation *rev);

/* Needs a transaction: is the credential of this identity still good? */
extern bool fl_auth_still_valid(const FlIdentity *id);

#endif							/* FLEETLOG_AUTH_H */
