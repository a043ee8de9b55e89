/*-------------------------------------------------------------------------
 *
 * scram.h
 *		The three functions of the server's SCRAM code that we call.
 *
 * The server's own libpq/scram.h wants libpq-be.h, which wants the GSSAPI
 * headers that the server was built with; Debian's development package does
 * not bring them along, and none of the functions has anything to do with them.
 * The first two have had these prototypes in every version from 15 to 18.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_SCRAM_H
#define FL_SCRAM_H

#include "common/cryptohash.h"

#include "fleetlog/compat.h"

extern char *pg_be_scram_build_secret(const char *password);
extern bool scram_verify_plain_password(const char *username, const char *password, const char *secret);
extern bool parse_scram_secret(const char *secret, int *iterations, FL_SCRAM_HASH_PARAMS char **salt,
							   uint8 *stored_key, uint8 *server_key);

#endif							/* FL_SCRAM_H */
