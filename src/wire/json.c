/*-------------------------------------------------------------------------
 *
 * json.c
 *	  Pull scanner for JSON.
 *
 * PostgreSQL 15 has no way to parse JSON that cannot raise an error: its
 * parser reports some mistakes by return value, but jsonb's conversion throws
 * for others, and catching that would take a subtransaction per record.  So a
 * payload is looked through here first, and the server's parser sees only what
 * it will accept.
 *
 * The state is one enum and a bit per open level, object or array, so nesting
 * costs no stack.
 *
 * Called by fleetlog.json() and the input of fleetlog.headers.  Must stay at
 * least as strict as jsonb: test/sql/payload.sql compares the two.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/json.h"

#include "fleetlog/utf8.h"

#define FL_JSON_MAX_EXPONENT INT64_C(1000000000)

void
fl_json_init(FlJson *j, const uint8_t *text, size_t len)
{
	FlReader r;

	fl_reader_init(&r, text, len);
	j->pos = r.pos;
	j->end = r.end;
	j->token = j->pos;
	j->token_len = 0;
	j->state = FL_JSON_WANT_VALUE;
	j->result = FL_OK;
	j->depth = 0;
}

static FlJsonToken
fl_json_fail(FlJson *j, FlResult result)
{
	j->result = result;
	return FL_JSON_ERROR;
}

static void
fl_json_skip_space(FlJson *j)
{
	while (j->pos < j->end && (*j->pos == ' ' || *j->pos == '\t' || *j->pos == '\n' || *j->pos == '\r'))
		j->pos++;
}

/* Is the innermost open level an object? */
static bool
fl_json_in_object(const FlJson *j)
{
	int level = j->depth - 1;

	return j->depth > 0 && (j->in_object[level / 8] >> (level % 8) & 1) != 0;
}

/* Behind a complete value. */
static void
fl_json_value_done(FlJson *j)
{
	j->state = j->depth == 0 ? FL_JSON_WANT_NOTHING : FL_JSON_WANT_COMMA_OR_END;
}

/* ---------- strings ---------- */

/* Four hexadecimal digits at p, or -1. */
static int32_t
fl_json_hex4(const uint8_t *p, const uint8_t *end)
{
	int32_t value = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++)
	{
		uint8_t c = p[i];

		if (c >= '0' && c <= '9')
			value = value * 16 + (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value = value * 16 + (c - 'A' + 10);
		else
			return -1;
	}
	return value;
}

/*
 * Decodes `uXXXX`, or such a pair with its `\u` between, at p.  Returns how
 * many bytes that was, or 0 for U+0000, an unpaired surrogate or anything else.
 */
static size_t
fl_json_unicode_escape(const uint8_t *p, const uint8_t *end, uint32_t *code)
{
	int32_t first = fl_json_hex4(p + 1, end);
	int32_t second;

	if (first <= 0 || (first >= 0xdc00 && first <= 0xdfff))
		return 0;
	*code = (uint32_t) first;
	if (first < 0xd800 || first > 0xdbff)
		return 5;

	if (end - p < 11 || p[5] != '\\' || p[6] != 'u')
		return 0;
	second = fl_json_hex4(p + 7, end);
	if (second < 0xdc00 || second > 0xdfff)
		return 0;
	*code = 0x10000 + ((uint32_t) (first - 0xd800) << 10) + (uint32_t) (second - 0xdc00);
	return 11;
}

/* Consumes a string whose opening quote is at pos; the token is its inside. */
static bool
fl_json_scan_string(FlJson *j)
{
	const uint8_t *p = j->pos + 1;

	j->token = p;
	for (; p < j->end; p++)
	{
		if (*p == '"')
		{
			j->token_len = (size_t) (p - j->token);
			j->pos = p + 1;
			return fl_utf8_valid_text(j->token, j->token_len);
		}
		if (*p < 0x20)
			return false;
		if (*p != '\\')
			continue;

		/* The loop steps over the last byte of the escape. */
		p++;
		if (p == j->end)
			return false;
		if (*p == 'u')
		{
			uint32_t code;
			size_t n = fl_json_unicode_escape(p, j->end, &code);

			if (n == 0)
				return false;
			p += n - 1;
		}
		else if (*p == 0 || strchr("\"\\/bfnrt", *p) == NULL)
			return false;
	}
	return false;
}

static uint8_t *
fl_json_put_utf8(uint8_t *dst, uint32_t code)
{
	if (code < 0x80)
		*dst++ = (uint8_t) code;
	else if (code < 0x800)
	{
		*dst++ = (uint8_t) (0xc0 | code >> 6);
		*dst++ = (uint8_t) (0x80 | (code & 0x3f));
	}
	else if (code < 0x10000)
	{
		*dst++ = (uint8_t) (0xe0 | code >> 12);
		*dst++ = (uint8_t) (0x80 | (code >> 6 & 0x3f));
		*dst++ = (uint8_t) (0x80 | (code & 0x3f));
	}
	else
	{
		*dst++ = (uint8_t) (0xf0 | code >> 18);
		*dst++ = (uint8_t) (0x80 | (code >> 12 & 0x3f));
		*dst++ = (uint8_t) (0x80 | (code >> 6 & 0x3f));
		*dst++ = (uint8_t) (0x80 | (code & 0x3f));
	}
	return dst;
}

void
fl_json_unescape(const uint8_t *token, size_t len, FlBuf *out)
{
	static const char from[] = "bfnrt";
	static const char to[] = "\b\f\n\r\t";
	const uint8_t *end = token + len;
	uint8_t *start = fl_buf_reserve(out, len);
	uint8_t *dst = start;

	if (start == NULL)
		return;
	while (token < end)
	{
		uint32_t code;
		size_t n;
		const char *at;

		if (*token != '\\' || end - token < 2)
		{
			*dst++ = *token++;
			continue;
		}
		token++;
		n = *token == 'u' ? fl_json_unicode_escape(token, end, &code) : 0;
		if (n > 0)
		{
			dst = fl_json_put_utf8(dst, code);
			token += n;
			continue;
		}
		at = *token != 0 ? strchr(from, *token) : NULL;
		*dst++ = at != NULL ? (uint8_t) to[at - from] : *token;
		token++;
	}
	out->len += (size_t) (dst - start);
}

/* ---------- numbers and literals ---------- */

static const uint8_t *
fl_json_digits(const uint8_t *p, const uint8_t *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

/* The first byte behind the number at p, or NULL when it is none. */
static const uint8_t *
fl_json_number_end(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *digits;

	if (p < end && *p == '-')
		p++;
	digits = p;
	p = fl_json_digits(p, end);
	if (p == digits || (*digits == '0' && p - digits > 1))
		return NULL;
	if (p < end && *p == '.')
	{
		digits = ++p;
		p = fl_json_digits(p, end);
		if (p == digits)
			return NULL;
	}
	if (p < end && (*p == 'e' || *p == 'E'))
	{
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		digits = p;
		p = fl_json_digits(p, end);
		if (p == digits)
			return NULL;
	}
	return p;
}

void
fl_json_number_shape(const uint8_t *token, size_t len, size_t *integer_digits, size_t *fraction_digits,
					 int64_t *exponent)
{
	const uint8_t *end = token + len;
	const uint8_t *p = token;
	const uint8_t *digits;
	bool negative = false;

	*fraction_digits = 0;
	*exponent = 0;
	if (p < end && *p == '-')
		p++;
	digits = p;
	p = fl_json_digits(p, end);
	*integer_digits = (size_t) (p - digits);
	if (p < end && *p == '.')
	{
		digits = ++p;
		p = fl_json_digits(p, end);
		*fraction_digits = (size_t) (p - digits);
	}
	if (p == end || (*p != 'e' && *p != 'E'))
		return;
	p++;
	if (p < end && (*p == '+' || *p == '-'))
		negative = *p++ == '-';
	for (; p < end && *p >= '0' && *p <= '9'; p++)
	{
		*exponent = *exponent * 10 + (*p - '0');
		if (*exponent > FL_JSON_MAX_EXPONENT)
			*exponent = FL_JSON_MAX_EXPONENT;
	}
	if (negative)
		*exponent = -*exponent;
}

/* true, false, null: the word at pos, or an error. */
static FlJsonToken
fl_json_literal(FlJson *j, const char *word, size_t len, FlJsonToken token)
{
	if ((size_t) (j->end - j->pos) < len || memcmp(j->pos, word, len) != 0)
		return fl_json_fail(j, FL_MALFORMED);
	j->token_len = len;
	j->pos += len;
	fl_json_value_done(j);
	return token;
}

/* ---------- structure ---------- */

static FlJsonToken
fl_json_open(FlJson *j, bool object)
{
	if (j->depth == FL_JSON_MAX_DEPTH)
		return fl_json_fail(j, FL_TOO_LARGE);
	if (object)
		j->in_object[j->depth / 8] |= (uint8_t) (1 << j->depth % 8);
	else
		j->in_object[j->depth / 8] &= (uint8_t) ~(1 << j->depth % 8);
	j->depth++;
	j->token_len = 1;
	j->pos++;
	j->state = object ? FL_JSON_WANT_KEY_OR_END : FL_JSON_WANT_VALUE_OR_END;
	return object ? FL_JSON_OBJECT : FL_JSON_ARRAY;
}

static FlJsonToken
fl_json_close(FlJson *j)
{
	bool object = fl_json_in_object(j);

	if (*j->pos != (object ? '}' : ']'))
		return fl_json_fail(j, FL_MALFORMED);
	j->token_len = 1;
	j->pos++;
	j->depth--;
	fl_json_value_done(j);
	return object ? FL_JSON_OBJECT_END : FL_JSON_ARRAY_END;
}

static FlJsonToken
fl_json_value(FlJson *j)
{
	const uint8_t *end;

	switch (*j->pos)
	{
		case '{':
			return fl_json_open(j, true);
		case '[':
			return fl_json_open(j, false);
		case '"':
			if (!fl_json_scan_string(j))
				return fl_json_fail(j, FL_MALFORMED);
			fl_json_value_done(j);
			return FL_JSON_STRING;
		case 't':
			return fl_json_literal(j, "true", 4, FL_JSON_TRUE);
		case 'f':
			return fl_json_literal(j, "false", 5, FL_JSON_FALSE);
		case 'n':
			return fl_json_literal(j, "null", 4, FL_JSON_NULL);
		default:
			end = fl_json_number_end(j->pos, j->end);
			if (end == NULL)
				return fl_json_fail(j, FL_MALFORMED);
			j->token_len = (size_t) (end - j->pos);
			j->pos = end;
			fl_json_value_done(j);
			return FL_JSON_NUMBER;
	}
}

static FlJsonToken
fl_json_key(FlJson *j)
{
	if (*j->pos != '"' || !fl_json_scan_string(j))
		return fl_json_fail(j, FL_MALFORMED);
	fl_json_skip_space(j);
	if (j->pos == j->end || *j->pos != ':')
		return fl_json_fail(j, FL_MALFORMED);
	j->pos++;
	j->state = FL_JSON_WANT_VALUE;
	return FL_JSON_KEY;
}

FlJsonToken
fl_json_next(FlJson *j)
{
	if (j->result != FL_OK)
		return FL_JSON_ERROR;
	fl_json_skip_space(j);

	if (j->state == FL_JSON_WANT_COMMA_OR_END && j->pos < j->end && *j->pos == ',')
	{
		j->pos++;
		j->state = fl_json_in_object(j) ? FL_JSON_WANT_KEY : FL_JSON_WANT_VALUE;
		fl_json_skip_space(j);
	}
	j->token = j->pos;
	if (j->pos == j->end)
		return j->state == FL_JSON_WANT_NOTHING ? FL_JSON_END : fl_json_fail(j, FL_MALFORMED);

	switch (j->state)
	{
		case FL_JSON_WANT_VALUE:
			return fl_json_value(j);
		case FL_JSON_WANT_VALUE_OR_END:
			return *j->pos == ']' ? fl_json_close(j) : fl_json_value(j);
		case FL_JSON_WANT_KEY:
			return fl_json_key(j);
		case FL_JSON_WANT_KEY_OR_END:
			return *j->pos == '}' ? fl_json_close(j) : fl_json_key(j);
		case FL_JSON_WANT_COMMA_OR_END:
			return fl_json_close(j);
		case FL_JSON_WANT_NOTHING:
			break;
	}
	return fl_json_fail(j, FL_MALFORMED);
}
