/*-------------------------------------------------------------------------
 *
 * headers_type.c
 *	  The SQL type fleetlog.headers: the header list of a record.
 *
 * A value is a varlena whose content is the FlHeaders encoding of
 * fleetlog/headers.h, so that the scan copies a record's array into it without
 * looking inside, and append copies it back.  Content may therefore come from
 * a batch: the functions here iterate with bounds and report damage as data
 * corruption instead of trusting it.
 *
 * The text form is a JSON array of [name, value] pairs, in order.  A value that
 * is not PostgreSQL text is {"base64": "..."}, NULL is null, and a header of
 * ours has a third element, true.  It is lossless, since COPY and pg_dump go
 * through it.  Input takes a JSON object as well, which is what people type.
 *
 * Two lists are equal when their bytes are; there is hashing but no order, so
 * DISTINCT, GROUP BY, UNION and EXCEPT work over streams.
 *
 * Must not decide who may claim a reserved header: append does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "fleetlog/base64.h"
#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "fleetlog/json.h"
#include "fleetlog/utf8.h"

PG_FUNCTION_INFO_V1(fl_sql_headers_in);
PG_FUNCTION_INFO_V1(fl_sql_headers_out);
PG_FUNCTION_INFO_V1(fl_sql_headers_recv);
PG_FUNCTION_INFO_V1(fl_sql_headers_send);
PG_FUNCTION_INFO_V1(fl_sql_headers_eq);
PG_FUNCTION_INFO_V1(fl_sql_headers_ne);
PG_FUNCTION_INFO_V1(fl_sql_headers_hash);
PG_FUNCTION_INFO_V1(fl_sql_headers_hash_extended);
PG_FUNCTION_INFO_V1(fl_sql_headers_to_jsonb);
PG_FUNCTION_INFO_V1(fl_sql_headers_from_jsonb);
PG_FUNCTION_INFO_V1(fl_sql_headers_array);

/* ---------- input ---------- */

/* State of reading one text. */
typedef struct FlHeadersInput
{
	FlJson json;
	FlHeadersBuilder builder;
} FlHeadersInput;

/*
 * What went wrong with a text goes into the detail; the text itself may be
 * long and is left out.
 */
static void
fl_headers_input_fail(FlHeadersInput *in, const char *detail)
{
	if (in->json.result == FL_MALFORMED)
		detail = "It is not valid JSON, or a string in it is not text.";
	else if (in->json.result == FL_TOO_LARGE)
		detail = "Its JSON is nested too deeply.";
	ereport(ERROR, (errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					errmsg("invalid input syntax for type %s", "fleetlog.headers"), errdetail_internal("%s", detail),
					errhint("Write [[\"name\",\"value\"],...] or {\"name\":\"value\",...}.")));
}

/* A string or key token in plain form, in memory of the current context. */
static FlBuf
fl_headers_input_string(FlHeadersInput *in)
{
	FlBuf plain;
	size_t len = in->json.token_len;

	fl_buf_init_fixed(&plain, palloc(len > 0 ? len : 1), len);
	fl_json_unescape(in->json.token, len, &plain);
	return plain;
}

/*
 * An object of the one key "base64" stands for bytes.  True with the bytes and
 * the object consumed, else false and nothing consumed.
 */
static bool
fl_headers_input_base64(FlHeadersInput *in, FlBuf *bytes)
{
	FlJson ahead = in->json;
	const uint8_t *data;
	size_t len;

	if (fl_json_next(&ahead) != FL_JSON_KEY || ahead.token_len != 6 || memcmp(ahead.token, "base64", 6) != 0)
		return false;
	if (fl_json_next(&ahead) != FL_JSON_STRING)
		return false;
	data = ahead.token;
	len = ahead.token_len;
	if (fl_json_next(&ahead) != FL_JSON_OBJECT_END)
		return false;

	fl_buf_init_fixed(bytes, palloc(len > 0 ? len : 1), len);
	if (fl_base64_decode(data, len, bytes) != FL_OK)
		fl_headers_input_fail(in, "A value is not valid base64.");
	in->json = ahead;
	return true;
}

/*
 * The JSON text of the value whose first token was just read.  The result
 * points into the input.
 */
static FlBuf
fl_headers_input_json_text(FlHeadersInput *in, FlJsonToken token)
{
	const uint8_t *start = in->json.token;
	FlBuf text;

	if (token == FL_JSON_OBJECT || token == FL_JSON_ARRAY)
	{
		int outside = in->json.depth - 1;

		while (in->json.depth > outside && token != FL_JSON_ERROR)
			token = fl_json_next(&in->json);
		if (token == FL_JSON_ERROR)
			fl_headers_input_fail(in, NULL);
	}
	fl_buf_init_fixed(&text, unconstify(uint8_t *, start), in->json.pos - start);
	text.len = text.max;
	return text;
}

/*
 * Reads a value; false for null.  In pairs an object may stand for bytes; in
 * the object form it cannot, so that an object given there is kept as it is.
 */
static bool
fl_headers_input_value(FlHeadersInput *in, bool in_pair, FlBuf *value)
{
	FlJsonToken token = fl_json_next(&in->json);

	switch (token)
	{
		case FL_JSON_NULL:
			return false;
		case FL_JSON_STRING:
			*value = fl_headers_input_string(in);
			return true;
		case FL_JSON_OBJECT:
			if (in_pair && fl_headers_input_base64(in, value))
				return true;
			*value = fl_headers_input_json_text(in, token);
			return true;
		case FL_JSON_ARRAY:
		case FL_JSON_NUMBER:
		case FL_JSON_TRUE:
		case FL_JSON_FALSE:
			*value = fl_headers_input_json_text(in, token);
			return true;
		case FL_JSON_ARRAY_END:
		case FL_JSON_OBJECT_END:
		case FL_JSON_KEY:
		case FL_JSON_END:
		case FL_JSON_ERROR:
			break;
	}
	fl_headers_input_fail(in, "A header has no value.");
	return false;
}

static void
fl_headers_input_add(FlHeadersInput *in, const FlBuf *name, const FlBuf *value, bool reserved)
{
	const uint8_t *data = value != NULL ? value->data : NULL;
	int64 len = value != NULL ? (int64) value->len : -1;

	if (reserved)
		fl_headers_builder_add_reserved(&in->builder, name->data, name->len, data, len);
	else
		fl_headers_builder_add(&in->builder, name->data, name->len, data, len);
	if (in->builder.result == FL_MALFORMED)
		fl_headers_input_fail(in, "Reserved headers must come before all others.");
}

/* Behind the opening bracket of a pair. */
static void
fl_headers_input_pair(FlHeadersInput *in)
{
	FlBuf name;
	FlBuf value;
	bool has_value;
	bool reserved = false;
	FlJsonToken token;

	if (fl_json_next(&in->json) != FL_JSON_STRING)
		fl_headers_input_fail(in, "The name of a header must be a string.");
	name = fl_headers_input_string(in);
	has_value = fl_headers_input_value(in, true, &value);

	token = fl_json_next(&in->json);
	if (token == FL_JSON_TRUE || token == FL_JSON_FALSE)
	{
		reserved = token == FL_JSON_TRUE;
		token = fl_json_next(&in->json);
	}
	if (token != FL_JSON_ARRAY_END)
		fl_headers_input_fail(in, "A header is an array of name, value and optionally true if it is reserved.");
	fl_headers_input_add(in, &name, has_value ? &value : NULL, reserved);
}

static void
fl_headers_input_pairs(FlHeadersInput *in)
{
	FlJsonToken token;

	while ((token = fl_json_next(&in->json)) == FL_JSON_ARRAY)
		fl_headers_input_pair(in);
	if (token != FL_JSON_ARRAY_END)
		fl_headers_input_fail(in, "A header is not an array.");
}

static void
fl_headers_input_object(FlHeadersInput *in)
{
	FlJsonToken token;

	while ((token = fl_json_next(&in->json)) == FL_JSON_KEY)
	{
		FlBuf name = fl_headers_input_string(in);
		FlBuf value;
		bool has_value = fl_headers_input_value(in, false, &value);

		fl_headers_input_add(in, &name, has_value ? &value : NULL, false);
	}
	if (token != FL_JSON_OBJECT_END)
		fl_headers_input_fail(in, NULL);
}

/*
 * Reads a whole text.  The encoding is hardly ever longer than its JSON: a
 * header has at most eight bytes of lengths, an object's member at least four
 * characters of punctuation, and only names and values of many kilobytes need
 * the longer lengths.
 */
static bytea *
fl_headers_parse(const char *text, size_t len)
{
	FlHeadersInput in;
	FlBuf out;
	Size room = Min(len + len / 8 + 64, MaxAllocSize - VARHDRSZ);
	bytea *result = palloc(VARHDRSZ + room);
	FlJsonToken token;
	FlResult end;

	fl_buf_init_fixed(&out, VARDATA(result), room);
	fl_headers_builder_begin(&in.builder, &out);
	fl_json_init(&in.json, (const uint8_t *) text, len);

	token = fl_json_next(&in.json);
	if (token == FL_JSON_ARRAY)
		fl_headers_input_pairs(&in);
	else if (token == FL_JSON_OBJECT)
		fl_headers_input_object(&in);
	else
		fl_headers_input_fail(&in, "It is neither a JSON array nor a JSON object.");
	if (fl_json_next(&in.json) != FL_JSON_END)
		fl_headers_input_fail(&in, "Something follows the list.");

	end = fl_headers_builder_end(&in.builder);
	if (end != FL_OK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("header list is too large"),
				 errdetail("A record has at most %d headers, %d of them reserved, with names of at most %d bytes.",
						   FL_HEADERS_MAX_COUNT, FL_HEADERS_MAX_RESERVED, FL_HEADERS_MAX_NAME)));
	SET_VARSIZE(result, VARHDRSZ + out.len);
	return result;
}

/* ---------- reading a value ---------- */

static void
fl_headers_open(FlHeaderIter *it, bytea *headers)
{
	fl_header_iter_init(it, (const uint8_t *) VARDATA_ANY(headers), VARSIZE_ANY_EXHDR(headers));
}

/* The next header, or false at the end; damage is an error. */
static bool
fl_headers_next(FlHeaderIter *it, FlHeader *h)
{
	bool found = fl_header_iter_next(it, h);

	if (it->result != FL_OK || (found && !fl_utf8_valid_text(h->name, h->name_len)))
		ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("header list of a record is damaged")));
	return found;
}

/* Base64 of a value, with its length. */
static char *
fl_headers_base64(const FlHeader *h, int *len)
{
	Size size = fl_base64_size(h->value_len);
	char *text = palloc(size > 0 ? size : 1);

	fl_base64_encode(text, h->value, h->value_len);
	*len = (int) size;
	return text;
}

static void
fl_headers_append_json_string(StringInfo buf, const uint8_t *data, int len)
{
	char *text = pnstrdup((const char *) data, len);

	escape_json(buf, text);
	pfree(text);
}

static void
fl_headers_append_value(StringInfo buf, const FlHeader *h)
{
	if (h->value == NULL)
		appendStringInfoString(buf, "null");
	else if (fl_utf8_valid_text(h->value, h->value_len))
		fl_headers_append_json_string(buf, h->value, h->value_len);
	else
	{
		int len;
		char *text = fl_headers_base64(h, &len);

		appendStringInfoString(buf, "{\"base64\":\"");
		appendBinaryStringInfo(buf, text, len);
		appendStringInfoString(buf, "\"}");
		pfree(text);
	}
}

/* ---------- functions of the type ---------- */

Datum
fl_sql_headers_in(PG_FUNCTION_ARGS)
{
	char *text = PG_GETARG_CSTRING(0);

	PG_RETURN_BYTEA_P(fl_headers_parse(text, strlen(text)));
}

Datum
fl_sql_headers_out(PG_FUNCTION_ARGS)
{
	bytea *headers = PG_GETARG_BYTEA_PP(0);
	FlHeaderIter it;
	FlHeader h;
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '[');
	fl_headers_open(&it, headers);
	while (fl_headers_next(&it, &h))
	{
		appendStringInfoString(&buf, h.index > 0 ? ",[" : "[");
		fl_headers_append_json_string(&buf, h.name, h.name_len);
		appendStringInfoChar(&buf, ',');
		fl_headers_append_value(&buf, &h);
		appendStringInfoString(&buf, h.is_reserved ? ",true]" : "]");
	}
	appendStringInfoChar(&buf, ']');
	PG_RETURN_CSTRING(buf.data);
}

/* The binary form is the encoding itself. */
Datum
fl_sql_headers_recv(PG_FUNCTION_ARGS)
{
	StringInfo buf = (StringInfo) PG_GETARG_POINTER(0);
	int len = buf->len - buf->cursor;
	bytea *result = palloc(VARHDRSZ + len);

	SET_VARSIZE(result, VARHDRSZ + len);
	pq_copymsgbytes(buf, VARDATA(result), len);
	switch (fl_headers_validate((const uint8_t *) VARDATA(result), len))
	{
		case FL_OK:
			break;
		case FL_TOO_LARGE:
			ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("header list is too large")));
			break;
		case FL_INCOMPLETE:
		case FL_MALFORMED:
		case FL_UNSUPPORTED:
			ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
							errmsg("invalid external binary value for type %s", "fleetlog.headers")));
			break;
	}
	PG_RETURN_BYTEA_P(result);
}

Datum
fl_sql_headers_send(PG_FUNCTION_ARGS)
{
	bytea *headers = PG_GETARG_BYTEA_PP(0);
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendbytes(&buf, VARDATA_ANY(headers), VARSIZE_ANY_EXHDR(headers));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

/* ---------- equality and hashing ---------- */

static bool
fl_headers_equal(FunctionCallInfo fcinfo)
{
	bytea *a = PG_GETARG_BYTEA_PP(0);
	bytea *b = PG_GETARG_BYTEA_PP(1);
	Size len = VARSIZE_ANY_EXHDR(a);
	bool equal = len == VARSIZE_ANY_EXHDR(b) && memcmp(VARDATA_ANY(a), VARDATA_ANY(b), len) == 0;

	PG_FREE_IF_COPY(a, 0);
	PG_FREE_IF_COPY(b, 1);
	return equal;
}

Datum
fl_sql_headers_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(fl_headers_equal(fcinfo));
}

Datum
fl_sql_headers_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!fl_headers_equal(fcinfo));
}

Datum
fl_sql_headers_hash(PG_FUNCTION_ARGS)
{
	bytea *headers = PG_GETARG_BYTEA_PP(0);
	Datum hash = hash_any((const unsigned char *) VARDATA_ANY(headers), VARSIZE_ANY_EXHDR(headers));

	PG_FREE_IF_COPY(headers, 0);
	return hash;
}

Datum
fl_sql_headers_hash_extended(PG_FUNCTION_ARGS)
{
	bytea *headers = PG_GETARG_BYTEA_PP(0);
	Datum hash = hash_any_extended((const unsigned char *) VARDATA_ANY(headers), VARSIZE_ANY_EXHDR(headers),
								   (uint64) PG_GETARG_INT64(1));

	PG_FREE_IF_COPY(headers, 0);
	return hash;
}

/* ---------- jsonb ---------- */

static void
fl_headers_jsonb_string(JsonbValue *v, const void *data, int len)
{
	v->type = jbvString;
	v->val.string.val = unconstify(char *, (const char *) data);
	v->val.string.len = len;
}

/* An object: the last value of each name, bytes that are not text in base64. */
Datum
fl_sql_headers_to_jsonb(PG_FUNCTION_ARGS)
{
	bytea *headers = PG_GETARG_BYTEA_PP(0);
	JsonbParseState *state = NULL;
	FlHeaderIter it;
	FlHeader h;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	fl_headers_open(&it, headers);
	while (fl_headers_next(&it, &h))
	{
		JsonbValue v;

		fl_headers_jsonb_string(&v, h.name, h.name_len);
		pushJsonbValue(&state, WJB_KEY, &v);
		if (h.value == NULL)
			v.type = jbvNull;
		else if (fl_utf8_valid_text(h.value, h.value_len))
			fl_headers_jsonb_string(&v, h.value, h.value_len);
		else
		{
			int len;
			char *text = fl_headers_base64(&h, &len);

			fl_headers_jsonb_string(&v, text, len);
		}
		pushJsonbValue(&state, WJB_VALUE, &v);
	}
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

/* Takes what the text form takes, so both read alike. */
Datum
fl_sql_headers_from_jsonb(PG_FUNCTION_ARGS)
{
	Jsonb *jsonb = PG_GETARG_JSONB_P(0);
	char *text = JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));

	PG_RETURN_BYTEA_P(fl_headers_parse(text, strlen(text)));
}

/* ---------- lossless list ---------- */

/*
 * One row per header: ordinal, name, value, reserved.  The iterator lives over
 * the calls, on a copy of the argument that does, too.
 */
Datum
fl_sql_headers_array(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	FlHeaderIter *it;
	FlHeader h;
	Datum values[4];
	bool nulls[4] = {false, false, false, false};

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;
		TupleDesc desc;

		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != 4)
			elog(ERROR, "fleetlog.headers_array is declared with another result type");
		call->tuple_desc = BlessTupleDesc(desc);
		it = palloc(sizeof(FlHeaderIter));
		fl_headers_open(it, PG_GETARG_BYTEA_P_COPY(0));
		call->user_fctx = it;
		MemoryContextSwitchTo(old);
	}
	call = SRF_PERCALL_SETUP();
	it = call->user_fctx;
	if (!fl_headers_next(it, &h))
		SRF_RETURN_DONE(call);

	values[0] = Int32GetDatum(h.index + 1);
	values[1] = PointerGetDatum(cstring_to_text_with_len((const char *) h.name, h.name_len));
	nulls[2] = h.value == NULL;
	values[2] = nulls[2] ? (Datum) 0 : PointerGetDatum(cstring_to_text_with_len((const char *) h.value, h.value_len));
	values[3] = BoolGetDatum(h.is_reserved);
	SRF_RETURN_NEXT(call, HeapTupleGetDatum(heap_form_tuple(call->tuple_desc, values, nulls)));
}
