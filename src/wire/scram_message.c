/*
 * scram_message.c
 *	  What a client sends in SCRAM (scram_message.h): attributes `x=value`,
 *	  separated by commas, in a fixed order.
 *
 * Called by src/catalog/scram_server.c, before anybody is known: all of it is
 * hostile input.
 */
#include "fleetlog/scram_message.h"

#include <string.h>

#include "fleetlog/base64.h"

typedef struct Attributes
{
	const uint8_t *pos;
	const uint8_t *end;
} Attributes;

/* The value of the next attribute, which must have this name. */
static bool
take(Attributes *in, char name, const uint8_t **value, size_t *len)
{
	const uint8_t *comma;

	if (in->end - in->pos < 2 || in->pos[0] != (uint8_t) name || in->pos[1] != '=')
		return false;
	*value = in->pos + 2;
	comma = memchr(*value, ',', (size_t) (in->end - *value));
	*len = (size_t) ((comma ? comma : in->end) - *value);
	in->pos = comma ? comma + 1 : in->end;
	return true;
}

static bool
is_printable(const uint8_t *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] < 0x21 || s[i] > 0x7E || s[i] == ',')
			return false;
	return len > 0;
}

/* "=2C" stands for a comma, "=3D" for an equals sign, and nothing else begins with one. */
static bool
unescape(const uint8_t *s, size_t len, FlScramFirst *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
	{
		uint8_t c = s[i];

		if (n == FL_SCRAM_USER_MAX || c == '\0')
			return false;
		if (c == '=')
		{
			if (len - i < 3)
				return false;
			if (memcmp(s + i, "=2C", 3) == 0)
				c = ',';
			else if (memcmp(s + i, "=3D", 3) != 0)
				return false;
			i += 2;
		}
		out->user[n++] = (char) c;
	}
	out->user[n] = '\0';
	out->user_len = n;
	return true;
}

FlResult
fl_scram_parse_first(const uint8_t *message, size_t len, FlScramFirst *out)
{
	Attributes in = {message, message + len};
	const uint8_t *name;
	size_t name_len;

	if (len < 3 || len > FL_SCRAM_MESSAGE_MAX || (message[0] != 'n' && message[0] != 'y') || message[1] != ',' ||
		message[2] != ',')
		return FL_MALFORMED;
	out->gs2_len = 3;
	in.pos += 3;
	out->bare = in.pos;
	out->bare_len = len - 3;
	if (!take(&in, 'n', &name, &name_len) || !unescape(name, name_len, out) ||
		!take(&in, 'r', &out->nonce, &out->nonce_len) || !is_printable(out->nonce, out->nonce_len) ||
		out->nonce_len > FL_SCRAM_NONCE_MAX)
		return FL_MALFORMED;
	return FL_OK;
}

/* The proof is the last attribute; those that may stand before it are extensions that nobody has to know. */
static const uint8_t *
find_proof(const uint8_t *message, const uint8_t *end)
{
	for (size_t at = (size_t) (end - message) - 3; at > 0; at--)
		if (memcmp(message + at, ",p=", 3) == 0)
			return message + at;
	return NULL;
}

FlResult
fl_scram_parse_final(const uint8_t *message, size_t len, FlScramFinal *out)
{
	Attributes in = {message, message + len};
	const uint8_t *proof;
	FlBuf buf;

	if (len < 3 || len > FL_SCRAM_MESSAGE_MAX)
		return FL_MALFORMED;
	proof = find_proof(message, message + len);
	if (proof == NULL)
		return FL_MALFORMED;
	in.end = proof;
	out->signed_len = (size_t) (proof - message);
	if (!take(&in, 'c', &out->binding, &out->binding_len) || !take(&in, 'r', &out->nonce, &out->nonce_len) ||
		!is_printable(out->nonce, out->nonce_len))
		return FL_MALFORMED;
	proof += 3;
	fl_buf_init_fixed(&buf, out->proof, sizeof(out->proof));
	if (fl_base64_decode(proof, (size_t) (message + len - proof), &buf) != FL_OK ||
		(buf.len != 32 && buf.len != FL_SCRAM_PROOF_MAX))
		return FL_MALFORMED;
	out->proof_len = buf.len;
	return FL_OK;
}
