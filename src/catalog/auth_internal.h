/*-------------------------------------------------------------------------
 *
 * auth_internal.h
 *		What the authentication worker (bgworker/main/auth.c) and the shared
 *		state behind fleetlog/auth.h (src/catalog/auth_shmem.c) share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_AUTH_INTERNAL_H
#define FL_AUTH_INTERNAL_H

#include "fleetlog/auth.h"

#define FL_AUTH_MAC_LEN		32	/* HMAC-SHA-256 */

/* One check to be made, in the worker's own memory. */
typedef struct FlAuthWork
{
	int			slot;			/* in the shared table */
	uint64		revocations;	/* revocations known before the check began */
	uint64		names_epoch;	/* likewise for the meaning of bare names */
	bool		certificate;	/* the user name is that of a verified certificate */
	size_t		user_len;
	size_t		password_len;
	char		user[FL_AUTH_USER_MAX + 1];	/* NUL-terminated */
	char		password[FL_AUTH_PASSWORD_MAX + 1];
} FlAuthWork;

/* The oldest check that waits; false: none.  The shared copy of the password is wiped. */
extern bool fl_auth_take(FlAuthWork *work);

/*
 * The answer.  An accepted pair is remembered unless something was revoked
 * meanwhile.  Wipes the password in *work.
 */
extern void fl_auth_finish(FlAuthWork *work, FlAuthOutcome outcome, const FlIdentity *identity);

/* A new worker: checks that its predecessor had begun are answered "unavailable". */
extern void fl_auth_recover(void);

/* ---- credential.c: devices and credentials, looked up one by one ---- */

typedef enum FlDeviceFound
{
	FL_DEVICE_NONE,
	FL_DEVICE_ONE,
	FL_DEVICE_REVOKED,
	FL_DEVICE_AMBIGUOUS			/* a bare id that two tenants have */
} FlDeviceFound;

/* In a transaction.  Is there a device at all, revoked ones included? */
extern bool fl_device_exists(void);

/* In a transaction.  `user` is tenant/device or a bare id; fills tenant and device. */
extern FlDeviceFound fl_device_find(const char *user, FlIdentity *id);

/* ---- role.c: roles that log in ---- */

/* In a transaction.  Is it the name of a role that may log in? */
extern bool fl_role_find(const char *name, Oid *role);

/* In a transaction.  Its SCRAM-SHA-256 verifier, palloc'd; NULL: it has none. */
extern char *fl_role_verifier(Oid role);

typedef struct FlVerifier
{
	int64		credential;
	char	   *verifier;
	char	   *verifier_512;	/* of SCRAM-SHA-512, NULL: none */
} FlVerifier;

/* In a transaction.  The device's valid verifiers of this kind, at most `max`. */
extern int	fl_device_verifiers(const FlIdentity *id, const char *kind, FlVerifier *out, int max);

/* In a transaction.  Whose certificate is it?  Fills tenant, device and credential. */
extern FlDeviceFound fl_device_by_certificate(const char *name, FlIdentity *id);

#endif							/* FL_AUTH_INTERNAL_H */
