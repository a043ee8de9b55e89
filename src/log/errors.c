/*-------------------------------------------------------------------------
 *
 * errors.c
 *		The one table from internal error to SQLSTATE, MQTT and Kafka codes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/errors.h"

static const FlErrorInfo error_table[] = {
#define X(sym, state, mqtt, kafka, text) {state, mqtt, kafka, text},
	FL_ERROR_TABLE(X)
#undef X
};

StaticAssertDecl(lengthof(error_table) == FL_N_ERRORS, "every error has a row");

const FlErrorInfo *
fl_error_info(FlError err)
{
	if ((int) err < 0 || err >= FL_N_ERRORS)
		err = FL_ERR_INTERNAL;
	return &error_table[err];
}

int
fl_error_sqlstate(FlError err)
{
	const char *s = fl_error_info(err)->sqlstate;

	return MAKE_SQLSTATE(s[0], s[1], s[2], s[3], s[4]);
}

FlError
fl_error_from_sqlstate(int sqlstate)
{
	for (int i = 1; i < FL_N_ERRORS; i++)
		if (fl_error_sqlstate((FlError) i) == sqlstate)
			return (FlError) i;
	return FL_ERR_INTERNAL;
}
