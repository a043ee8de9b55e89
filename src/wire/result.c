/*-------------------------------------------------------------------------
 *
 * result.c
 *	  Names of the results of sans-I/O code.
 *
 * Called by tests and by whoever puts a result into a log line.  The switch
 * has no default, so that the compiler finds a value without a name.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/result.h"

const char *
fl_result_name(FlResult result)
{
	switch (result)
	{
		case FL_OK:
			return "ok";
		case FL_INCOMPLETE:
			return "incomplete";
		case FL_MALFORMED:
			return "malformed";
		case FL_TOO_LARGE:
			return "too large";
		case FL_UNSUPPORTED:
			return "unsupported";
	}
	return "unknown";
}
