/*-------------------------------------------------------------------------
 *
 * result.h
 *	  The one result type of all sans-I/O code.
 *
 * Parsers and encoders of fleetlog never throw: they return one of these
 * values, and the caller, who knows the protocol and the peer, maps it to a
 * reason code, a Kafka error code or an SQLSTATE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_RESULT_H
#define FLEETLOG_RESULT_H

typedef enum FlResult
{
	FL_OK,         /* done */
	FL_INCOMPLETE, /* well formed so far, more bytes are needed */
	FL_MALFORMED,  /* no continuation can make these bytes valid */
	FL_TOO_LARGE,  /* a limit of the caller's is exceeded, or no memory is left */
	FL_UNSUPPORTED /* well formed, but a version or codec that we do not speak */
} FlResult;

/* Constant name of a result ("ok", "malformed", ...), for messages and tests. */
extern const char *fl_result_name(FlResult result);

#endif /* FLEETLOG_RESULT_H */
