/*-------------------------------------------------------------------------
 *
 * json.h
 *	  A JSON scanner that pulls one token after the other and never recurses.
 *
 * It accepts exactly what RFC 8259 calls a JSON text, with the restrictions
 * that PostgreSQL's jsonb adds: strings without U+0000 and without unpaired
 * surrogates.  So a text that it accepts can be given to the server's own
 * parser without that raising an error (numbers and sizes aside, see
 * fl_json_number_shape).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_JSON_H
#define FLEETLOG_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

/* Deeper nesting is FL_TOO_LARGE. */
#define FL_JSON_MAX_DEPTH 256

typedef enum FlJsonToken
{
	FL_JSON_ERROR, /* see result; stays so */
	FL_JSON_END,   /* behind the one value; stays so */
	FL_JSON_OBJECT,
	FL_JSON_OBJECT_END,
	FL_JSON_ARRAY,
	FL_JSON_ARRAY_END,
	FL_JSON_KEY, /* of an object; the colon is consumed */
	FL_JSON_STRING,
	FL_JSON_NUMBER,
	FL_JSON_TRUE,
	FL_JSON_FALSE,
	FL_JSON_NULL
} FlJsonToken;

/* What may come next. */
typedef enum FlJsonState
{
	FL_JSON_WANT_VALUE,
	FL_JSON_WANT_VALUE_OR_END, /* just inside `[` */
	FL_JSON_WANT_KEY,          /* behind `,` in an object */
	FL_JSON_WANT_KEY_OR_END,   /* just inside `{` */
	FL_JSON_WANT_COMMA_OR_END,
	FL_JSON_WANT_NOTHING /* behind the whole value */
} FlJsonState;

typedef struct FlJson
{
	const uint8_t *pos;
	const uint8_t *end;
	const uint8_t *token; /* the last one as written; strings and keys without quotes */
	size_t token_len;
	FlJsonState state;
	FlResult result;                          /* FL_OK until FL_JSON_ERROR */
	int depth;                                /* open objects and arrays */
	uint8_t in_object[FL_JSON_MAX_DEPTH / 8]; /* a bit per level */
} FlJson;

/* Borrows the text, which need not end in a zero byte. */
extern void fl_json_init(FlJson *j, const uint8_t *text, size_t len);

/* The next token.  FL_MALFORMED or FL_TOO_LARGE is in j->result. */
extern FlJsonToken fl_json_next(FlJson *j);

/* Appends the plain form of a string or key token, which has no more bytes. */
extern void fl_json_unescape(const uint8_t *token, size_t len, FlBuf *out);

/*
 * Of a number token: digits in front of and behind the point, and the
 * exponent, which is cut to +-1,000,000,000.
 */
extern void fl_json_number_shape(const uint8_t *token, size_t len, size_t *integer_digits, size_t *fraction_digits,
								 int64_t *exponent);

#endif /* FLEETLOG_JSON_H */
