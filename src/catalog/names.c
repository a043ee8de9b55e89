/*-------------------------------------------------------------------------
 *
 * names.c
 *		What device ids, tenant names and topic prefixes may look like.
 *
 * A device id becomes a topic level and is put into rules, so it must not
 * contain anything that means something there: a wildcard, a slash, a leading
 * `$` (cases O-A and O-E), and it must not be `cmd`, the level of commands
 * (M3).  Checked at creation and by the tables' constraints, so that rules can
 * rely on it.
 *
 * Knows nothing of the catalog; called by SQL functions and by login.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/catalog.h"
#include "fleetlog/topic.h"
#include "fleetlog/utf8.h"

/* Characters that no id may have; the text completes "... is not valid: ". */
static const char *
check_level(const char *s, size_t len, size_t max)
{
	if (len == 0)
		return "it is empty";
	if (len > max)
		return "it is too long";
	if (!fl_utf8_valid_text((const uint8_t *) s, len))
		return "it is not UTF-8 text";
	if (s[0] == '$')
		return "it begins with \"$\"";
	for (size_t i = 0; i < len; i++)
	{
		if (s[i] == '/')
			return "it contains \"/\"";
		if (s[i] == '+' || s[i] == '#')
			return "it contains a wildcard, \"+\" or \"#\"";
		if ((unsigned char) s[i] < 0x20 || s[i] == 0x7f)
			return "it contains a control character";
	}
	return NULL;
}

const char *
fl_device_id_check(const char *id, size_t len)
{
	const char *problem = check_level(id, len, FL_DEVICE_MAX);

	if (problem == NULL && len == 3 && memcmp(id, "cmd", 3) == 0)
		return "topics below \"cmd\" are reserved for commands";
	return problem;
}

const char *
fl_tenant_name_check(const char *name, size_t len)
{
	return check_level(name, len, FL_TENANT_MAX);
}

/* Does the first level of the prefix equal this word? */
static bool
first_level_is(const char *prefix, size_t len, const char *word)
{
	size_t		n = strlen(word);

	return len > n && memcmp(prefix, word, n) == 0 && prefix[n] == '/';
}

const char *
fl_prefix_check(const char *prefix, size_t len)
{
	static const char *const reserved[] = {"$SYS", "$share", "$queue", "$s", "$fleetlog", "cmd"};

	if (len == 0)
		return NULL;
	/* The one place below a reserved level that is a mount: device shadows. */
	if (len == strlen(FL_SHADOW_PREFIX) && memcmp(prefix, FL_SHADOW_PREFIX, len) == 0)
		return NULL;
	if (len > FL_PREFIX_MAX)
		return "it is too long";
	if (memchr(prefix, '+', len) != NULL || memchr(prefix, '#', len) != NULL)
		return "it contains a wildcard, \"+\" or \"#\"";
	if (prefix[len - 1] != '/')
		return "it does not end in \"/\"";
	if (!fl_topic_prefix_valid((const uint8_t *) prefix, len))
		return "it is not a topic";
	if (fl_topic_levels((const uint8_t *) prefix, len) - 1 > FL_PREFIX_MAX_LEVELS)
		return "it has too many levels";
	for (int i = 0; i < lengthof(reserved); i++)
		if (first_level_is(prefix, len, reserved[i]))
			return "its first level is reserved";
	return NULL;
}
