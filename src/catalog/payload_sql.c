/*-------------------------------------------------------------------------
 *
 * payload_sql.c
 *	  fleetlog.text() and fleetlog.json(): a payload as text or as jsonb, or
 *	  NULL when it is not that.
 *
 * A stream holds what devices sent, so "not JSON" is an answer and never an
 * error, and these run once per row of large scans: a subtransaction around
 * the server's parser would be far too dear.  Instead the payload is scanned
 * first (fleetlog/json.h) for everything that the parser or jsonb would refuse;
 * the server's own input function then does the conversion.
 *
 * What jsonb cannot hold although it is JSON (U+0000 in a string, numbers
 * beyond numeric's range, sizes beyond jsonb's) is NULL as well, and so is
 * nesting deeper than 256 levels.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "fleetlog/compat.h"
#include "fleetlog/json.h"
#include "fleetlog/utf8.h"
#include "payload.h"

PG_FUNCTION_INFO_V1(fl_sql_text);
PG_FUNCTION_INFO_V1(fl_sql_json);

/*
 * numeric holds at most 131072 digits in front of the point and 16383 behind
 * it.  Leading and trailing zeros are counted although numeric would drop some
 * of them: nobody will miss such numbers.
 */
#define FL_NUMERIC_MAX_INTEGER_DIGITS  131072
#define FL_NUMERIC_MAX_FRACTION_DIGITS 16383

Datum
fl_sql_text(PG_FUNCTION_ARGS)
{
	bytea *payload = PG_GETARG_BYTEA_PP(0);
	Size len = VARSIZE_ANY_EXHDR(payload);

	if (!fl_utf8_valid_text((const uint8_t *) VARDATA_ANY(payload), len))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text_with_len(VARDATA_ANY(payload), len));
}

static bool
fl_json_number_fits(const FlJson *json)
{
	size_t integer_digits;
	size_t fraction_digits;
	int64 exponent;

	fl_json_number_shape(json->token, json->token_len, &integer_digits, &fraction_digits, &exponent);
	return (int64) integer_digits + exponent <= FL_NUMERIC_MAX_INTEGER_DIGITS &&
		   (int64) fraction_digits - exponent <= FL_NUMERIC_MAX_FRACTION_DIGITS;
}

/* Would the server's jsonb take it without raising an error? */
static bool
fl_json_fits_jsonb(const uint8_t *text, Size len)
{
	FlJson json;
	FlJsonToken token;
	FlJsonbBudget budget = {0, 0};

	fl_json_init(&json, text, len);
	while ((token = fl_json_next(&json)) != FL_JSON_END)
	{
		if (token == FL_JSON_ERROR)
			return false;
		if (token == FL_JSON_NUMBER && !fl_json_number_fits(&json))
			return false;
		if (!fl_jsonb_budget_take(&budget, json.token_len))
			return false;
	}
	return true;
}

Datum
fl_sql_json(PG_FUNCTION_ARGS)
{
	bytea *payload = PG_GETARG_BYTEA_PP(0);
	Size len = VARSIZE_ANY_EXHDR(payload);
	char *text;

	if (!fl_json_fits_jsonb((const uint8_t *) VARDATA_ANY(payload), len))
		PG_RETURN_NULL();
	text = pnstrdup(VARDATA_ANY(payload), len);
	PG_RETURN_DATUM(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
}
