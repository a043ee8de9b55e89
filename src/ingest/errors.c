/*-------------------------------------------------------------------------
 *
 * errors.c
 *		The table of errors.h at run time: how each door says what went wrong.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/elog.h"

#include "fleetlog/errors.h"

static const FlErrorInfo table[FL_N_ERRORS] = {
#define X(sym, state, mqtt, kafka, text) [sym] = {state, mqtt, kafka, text},
	FL_ERROR_TABLE(X)
#undef X
};

const FlErrorInfo *
fl_error_info(FlError err)
{
	if ((int) err < 0 || err >= FL_N_ERRORS)
		err = FL_ERR_INTERNAL;
	return &table[err];
}

bool
fl_error_is_of_sequence(FlError err)
{
	return err == FL_ERR_STALE_PRODUCER || err == FL_ERR_FENCED_PRODUCER || err == FL_ERR_OLD_DUPLICATE;
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
	for (int i = 0; i < FL_N_ERRORS; i++)
	{
		if (fl_error_sqlstate((FlError) i) == sqlstate)
			return (FlError) i;
	}
	return FL_ERR_INTERNAL;
}
