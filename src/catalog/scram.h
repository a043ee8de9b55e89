/*-------------------------------------------------------------------------
 *
 * scram.h
 *		The two functions of the server's SCRAM code that we call.
 *
 * The server's own libpq/scram.h wants libpq-be.h, which wants the GSSAPI
 * headers that the server was built with; Debian's development package does
 * not bring them along, and neither function has anything to do with them.
 * Both have had these prototypes in every version from 15 to 18.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_SCRAM_H
#define FL_SCRAM_H

extern char *pg_be_scram_build_secret(const char *password);
extern bool scram_verify_plain_password(const char *username, const char *password, const char *secret);

#endif							/* FL_SCRAM_H */
