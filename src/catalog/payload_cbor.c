/*-------------------------------------------------------------------------
 *
 * payload_cbor.c
 *	  fleetlog.cbor(): a CBOR payload (RFC 8949) as jsonb, or NULL when it is
 *	  not exactly one well-formed item.
 *
 * libcbor's stateless decoder reads one head at a time and allocates nothing.
 * Its tree builder is not used: it allocates arrays by the length that the
 * input claims.  Nesting is kept on a stack of our own, so that depth is
 * bounded and nothing recurses.
 *
 * What JSON has no word for is mapped as RFC 8949, 6.1 advises: byte strings
 * become base64 text, undefined and non-finite numbers null, tags are dropped.
 * Map keys that are not text appear as the text of their value.  NULL is the
 * answer also for nesting beyond 64 levels, simple values without meaning,
 * containers as map keys, text with U+0000, and sizes beyond jsonb's.
 *
 * Must not raise an error for any payload.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <cbor.h>
#include <math.h>

#include "common/shortest_dec.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "fleetlog/base64.h"
#include "fleetlog/compat.h"
#include "fleetlog/utf8.h"
#include "payload.h"

PG_FUNCTION_INFO_V1(fl_sql_cbor);

#define FL_CBOR_MAX_DEPTH 64

/* ---------- one head ---------- */

typedef enum FlCborKind
{
	FL_CBOR_UNSIGNED,     /* number */
	FL_CBOR_NEGATIVE,     /* -1 - number */
	FL_CBOR_BYTES,        /* data, number bytes */
	FL_CBOR_TEXT,         /* likewise */
	FL_CBOR_BYTES_CHUNKS, /* chunks follow, then a break */
	FL_CBOR_TEXT_CHUNKS,
	FL_CBOR_ARRAY, /* number items, or open */
	FL_CBOR_MAP,   /* number pairs, or open */
	FL_CBOR_TAG,
	FL_CBOR_FLOAT,  /* real, of single or half precision */
	FL_CBOR_DOUBLE, /* real */
	FL_CBOR_BOOL,   /* number is 0 or 1 */
	FL_CBOR_NULL,   /* null or undefined */
	FL_CBOR_BREAK
} FlCborKind;

/* What the decoder's callback left. */
typedef struct FlCborHead
{
	FlCborKind kind;
	uint64 number;
	const uint8_t *data;
	double real;
	bool open; /* of indefinite length */
} FlCborHead;

static void
fl_cbor_set(void *context, FlCborKind kind, uint64 number)
{
	FlCborHead *head = context;

	head->kind = kind;
	head->number = number;
	head->open = false;
}

static void
fl_cbor_set_string(void *context, FlCborKind kind, cbor_data data, uint64 len)
{
	fl_cbor_set(context, kind, len);
	((FlCborHead *) context)->data = data;
}

static void
fl_cbor_set_real(void *context, FlCborKind kind, double real)
{
	fl_cbor_set(context, kind, 0);
	((FlCborHead *) context)->real = real;
}

static void
fl_cbor_set_open(void *context, FlCborKind kind)
{
	fl_cbor_set(context, kind, 0);
	((FlCborHead *) context)->open = true;
}

static void
fl_cbor_on_uint8(void *context, uint8_t value)
{
	fl_cbor_set(context, FL_CBOR_UNSIGNED, value);
}

static void
fl_cbor_on_uint16(void *context, uint16_t value)
{
	fl_cbor_set(context, FL_CBOR_UNSIGNED, value);
}

static void
fl_cbor_on_uint32(void *context, uint32_t value)
{
	fl_cbor_set(context, FL_CBOR_UNSIGNED, value);
}

static void
fl_cbor_on_uint64(void *context, uint64_t value)
{
	fl_cbor_set(context, FL_CBOR_UNSIGNED, value);
}

static void
fl_cbor_on_negint8(void *context, uint8_t value)
{
	fl_cbor_set(context, FL_CBOR_NEGATIVE, value);
}

static void
fl_cbor_on_negint16(void *context, uint16_t value)
{
	fl_cbor_set(context, FL_CBOR_NEGATIVE, value);
}

static void
fl_cbor_on_negint32(void *context, uint32_t value)
{
	fl_cbor_set(context, FL_CBOR_NEGATIVE, value);
}

static void
fl_cbor_on_negint64(void *context, uint64_t value)
{
	fl_cbor_set(context, FL_CBOR_NEGATIVE, value);
}

static void
fl_cbor_on_bytes(void *context, cbor_data data, size_t len)
{
	fl_cbor_set_string(context, FL_CBOR_BYTES, data, len);
}

static void
fl_cbor_on_bytes_chunks(void *context)
{
	fl_cbor_set_open(context, FL_CBOR_BYTES_CHUNKS);
}

static void
fl_cbor_on_text(void *context, cbor_data data, size_t len)
{
	fl_cbor_set_string(context, FL_CBOR_TEXT, data, len);
}

static void
fl_cbor_on_text_chunks(void *context)
{
	fl_cbor_set_open(context, FL_CBOR_TEXT_CHUNKS);
}

static void
fl_cbor_on_array(void *context, size_t items)
{
	fl_cbor_set(context, FL_CBOR_ARRAY, items);
}

static void
fl_cbor_on_open_array(void *context)
{
	fl_cbor_set_open(context, FL_CBOR_ARRAY);
}

static void
fl_cbor_on_map(void *context, size_t pairs)
{
	fl_cbor_set(context, FL_CBOR_MAP, pairs);
}

static void
fl_cbor_on_open_map(void *context)
{
	fl_cbor_set_open(context, FL_CBOR_MAP);
}

static void
fl_cbor_on_tag(void *context, uint64_t tag)
{
	fl_cbor_set(context, FL_CBOR_TAG, tag);
}

static void
fl_cbor_on_float(void *context, float value)
{
	fl_cbor_set_real(context, FL_CBOR_FLOAT, value);
}

static void
fl_cbor_on_double(void *context, double value)
{
	fl_cbor_set_real(context, FL_CBOR_DOUBLE, value);
}

static void
fl_cbor_on_null(void *context)
{
	fl_cbor_set(context, FL_CBOR_NULL, 0);
}

static void
fl_cbor_on_bool(void *context, bool value)
{
	fl_cbor_set(context, FL_CBOR_BOOL, value);
}

static void
fl_cbor_on_break(void *context)
{
	fl_cbor_set(context, FL_CBOR_BREAK, 0);
}

static const struct cbor_callbacks fl_cbor_callbacks = {
	.uint8 = fl_cbor_on_uint8,
	.uint16 = fl_cbor_on_uint16,
	.uint32 = fl_cbor_on_uint32,
	.uint64 = fl_cbor_on_uint64,
	.negint8 = fl_cbor_on_negint8,
	.negint16 = fl_cbor_on_negint16,
	.negint32 = fl_cbor_on_negint32,
	.negint64 = fl_cbor_on_negint64,
	.byte_string = fl_cbor_on_bytes,
	.byte_string_start = fl_cbor_on_bytes_chunks,
	.string = fl_cbor_on_text,
	.string_start = fl_cbor_on_text_chunks,
	.array_start = fl_cbor_on_array,
	.indef_array_start = fl_cbor_on_open_array,
	.map_start = fl_cbor_on_map,
	.indef_map_start = fl_cbor_on_open_map,
	.tag = fl_cbor_on_tag,
	.float2 = fl_cbor_on_float,
	.float4 = fl_cbor_on_float,
	.float8 = fl_cbor_on_double,
	.null = fl_cbor_on_null,
	.undefined = fl_cbor_on_null,
	.boolean = fl_cbor_on_bool,
	.indef_break = fl_cbor_on_break,
};

/* ---------- the walk ---------- */

/* One open container. */
typedef struct FlCborLevel
{
	bool is_map;
	bool open;     /* ends by a break */
	bool want_key; /* of a map */
	uint64 left;   /* keys and values still to come, if not open */
} FlCborLevel;

typedef struct FlCborWalk
{
	const uint8_t *pos;
	const uint8_t *end;
	int depth;
	FlCborLevel levels[FL_CBOR_MAX_DEPTH];
	FlJsonbBudget budget;
	JsonbParseState *state;
	JsonbValue scalar; /* the whole item, when it is no container */
	JsonbValue *root;  /* set when the whole item is complete */
} FlCborWalk;

/* Reads one head and moves behind it. */
static bool
fl_cbor_next(FlCborWalk *walk, FlCborHead *head)
{
	struct cbor_decoder_result result;

	CHECK_FOR_INTERRUPTS();
	result = cbor_stream_decode(walk->pos, walk->end - walk->pos, &fl_cbor_callbacks, head);
	if (result.status != CBOR_DECODER_FINISHED)
		return false;
	walk->pos += result.read;
	return true;
}

static void
fl_cbor_string_value(JsonbValue *v, char *text, int len)
{
	v->type = jbvString;
	v->val.string.val = text;
	v->val.string.len = len;
}

/* Bytes become base64 text; text must be text.  Counts against the budget. */
static bool
fl_cbor_string(FlCborWalk *walk, bool is_text, const uint8_t *data, Size len, JsonbValue *v)
{
	char *base64;
	Size size = is_text ? len : fl_base64_size(len);

	if (!fl_jsonb_budget_take(&walk->budget, size))
		return false;
	if (is_text)
	{
		if (!fl_utf8_valid_text(data, len))
			return false;
		fl_cbor_string_value(v, unconstify(char *, (const char *) data), (int) len);
		return true;
	}
	base64 = palloc(size + 1);
	fl_base64_encode(base64, data, len);
	fl_cbor_string_value(v, base64, (int) size);
	return true;
}

/*
 * A string in chunks, whose head was just read.  Each chunk is a definite
 * string of the same kind, and text is valid chunk by chunk (RFC 8949, 3.2.3).
 */
static bool
fl_cbor_chunks(FlCborWalk *walk, bool is_text, JsonbValue *v)
{
	StringInfoData all;
	FlCborHead head;

	initStringInfo(&all);
	for (;;)
	{
		if (!fl_cbor_next(walk, &head))
			return false;
		if (head.kind == FL_CBOR_BREAK)
			break;
		if (head.kind != (is_text ? FL_CBOR_TEXT : FL_CBOR_BYTES))
			return false;
		if (is_text && !fl_utf8_valid_text(head.data, head.number))
			return false;
		appendBinaryStringInfo(&all, (const char *) head.data, (int) head.number);
	}
	return fl_cbor_string(walk, is_text, (const uint8_t *) all.data, all.len, v);
}

/* Decimal digits of a number, as a string; NULL when JSON has no such number. */
static char *
fl_cbor_digits(const FlCborHead *head)
{
	char buf[DOUBLE_SHORTEST_DECIMAL_LEN];

	switch (head->kind)
	{
		case FL_CBOR_UNSIGNED:
			return psprintf(UINT64_FORMAT, head->number);
		case FL_CBOR_NEGATIVE:
			if (head->number == PG_UINT64_MAX)
				return pstrdup("-18446744073709551616");
			return psprintf("-" UINT64_FORMAT, head->number + 1);
		case FL_CBOR_FLOAT:
			if (!isfinite(head->real))
				return NULL;
			float_to_shortest_decimal_buf((float) head->real, buf);
			return pstrdup(buf);
		case FL_CBOR_DOUBLE:
			if (!isfinite(head->real))
				return NULL;
			double_to_shortest_decimal_buf(head->real, buf);
			return pstrdup(buf);
		default:
			return NULL;
	}
}

/* Everything but containers, tags and breaks. */
static bool
fl_cbor_scalar(FlCborWalk *walk, const FlCborHead *head, JsonbValue *v)
{
	char *digits;

	switch (head->kind)
	{
		case FL_CBOR_BYTES:
		case FL_CBOR_TEXT:
			return fl_cbor_string(walk, head->kind == FL_CBOR_TEXT, head->data, head->number, v);
		case FL_CBOR_BYTES_CHUNKS:
		case FL_CBOR_TEXT_CHUNKS:
			return fl_cbor_chunks(walk, head->kind == FL_CBOR_TEXT_CHUNKS, v);
		case FL_CBOR_BOOL:
			v->type = jbvBool;
			v->val.boolean = head->number != 0;
			break;
		default:
			digits = fl_cbor_digits(head);
			v->type = digits != NULL ? jbvNumeric : jbvNull;
			if (digits != NULL)
				v->val.numeric = DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(digits),
																	 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
			break;
	}
	return fl_jsonb_budget_take(&walk->budget, 0);
}

/* A map's key must be a string: other scalars become their text. */
static void
fl_cbor_key(JsonbValue *v)
{
	char *text = NULL;

	switch (v->type)
	{
		case jbvString:
			return;
		case jbvBool:
			text = v->val.boolean ? "true" : "false";
			break;
		case jbvNumeric:
			text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v->val.numeric)));
			break;
		default:
			text = "null";
			break;
	}
	fl_cbor_string_value(v, text, strlen(text));
}

/*
 * One item of the innermost container is complete; so may be the container,
 * and the one around it.
 */
static void
fl_cbor_item_done(FlCborWalk *walk)
{
	while (walk->depth > 0)
	{
		FlCborLevel *level = &walk->levels[walk->depth - 1];

		if (level->is_map)
			level->want_key = !level->want_key;
		if (level->open || --level->left > 0)
			return;
		walk->root = pushJsonbValue(&walk->state, level->is_map ? WJB_END_OBJECT : WJB_END_ARRAY, NULL);
		walk->depth--;
	}
}

/* The break that ends the innermost container. */
static bool
fl_cbor_break(FlCborWalk *walk)
{
	FlCborLevel *level = walk->depth > 0 ? &walk->levels[walk->depth - 1] : NULL;

	if (level == NULL || !level->open || (level->is_map && !level->want_key))
		return false;
	walk->root = pushJsonbValue(&walk->state, level->is_map ? WJB_END_OBJECT : WJB_END_ARRAY, NULL);
	walk->depth--;
	fl_cbor_item_done(walk);
	return true;
}

static bool
fl_cbor_container(FlCborWalk *walk, const FlCborHead *head)
{
	bool is_map = head->kind == FL_CBOR_MAP;
	uint64 left = walk->end - walk->pos;
	FlCborLevel *level;

	/* Every item takes a byte at least; this also keeps 2 * number in range. */
	if (walk->depth == FL_CBOR_MAX_DEPTH || head->number > left || !fl_jsonb_budget_take(&walk->budget, 0))
		return false;
	if (walk->depth > 0 && walk->levels[walk->depth - 1].is_map && walk->levels[walk->depth - 1].want_key)
		return false;

	pushJsonbValue(&walk->state, is_map ? WJB_BEGIN_OBJECT : WJB_BEGIN_ARRAY, NULL);
	level = &walk->levels[walk->depth++];
	level->is_map = is_map;
	level->open = head->open;
	level->want_key = is_map;
	level->left = is_map ? head->number * 2 : head->number;
	if (!level->open && level->left == 0)
	{
		walk->root = pushJsonbValue(&walk->state, is_map ? WJB_END_OBJECT : WJB_END_ARRAY, NULL);
		walk->depth--;
		fl_cbor_item_done(walk);
	}
	return true;
}

/* Puts a complete scalar where it belongs. */
static void
fl_cbor_push(FlCborWalk *walk, JsonbValue *v)
{
	FlCborLevel *level;

	if (walk->depth == 0)
	{
		walk->scalar = *v;
		walk->root = &walk->scalar;
		return;
	}
	level = &walk->levels[walk->depth - 1];
	if (!level->is_map)
		pushJsonbValue(&walk->state, WJB_ELEM, v);
	else if (level->want_key)
	{
		fl_cbor_key(v);
		pushJsonbValue(&walk->state, WJB_KEY, v);
	}
	else
		pushJsonbValue(&walk->state, WJB_VALUE, v);
	fl_cbor_item_done(walk);
}

/* Walks over the whole payload; true when it was exactly one item. */
static bool
fl_cbor_walk(FlCborWalk *walk)
{
	bool tagged = false;
	FlCborHead head;
	JsonbValue v;

	do
	{
		if (!fl_cbor_next(walk, &head))
			return false;
		if (head.kind == FL_CBOR_TAG)
		{
			tagged = true;
			continue;
		}
		if (head.kind == FL_CBOR_BREAK)
		{
			if (tagged || !fl_cbor_break(walk))
				return false;
		}
		else if (head.kind == FL_CBOR_ARRAY || head.kind == FL_CBOR_MAP)
		{
			if (!fl_cbor_container(walk, &head))
				return false;
		}
		else
		{
			if (!fl_cbor_scalar(walk, &head, &v))
				return false;
			fl_cbor_push(walk, &v);
		}
		tagged = false;
	} while (tagged || walk->depth > 0);
	return walk->pos == walk->end;
}

Datum
fl_sql_cbor(PG_FUNCTION_ARGS)
{
	bytea *payload = PG_GETARG_BYTEA_PP(0);
	FlCborWalk walk;

	walk.pos = (const uint8_t *) VARDATA_ANY(payload);
	walk.end = walk.pos + VARSIZE_ANY_EXHDR(payload);
	walk.depth = 0;
	walk.budget.tokens = 0;
	walk.budget.bytes = 0;
	walk.state = NULL;
	walk.root = NULL;
	if (!fl_cbor_walk(&walk))
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(JsonbValueToJsonb(walk.root));
}
