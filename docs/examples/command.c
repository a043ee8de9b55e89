/*-------------------------------------------------------------------------
 *
 * command.c
 *		Reading and judging commands: see command.h.
 *
 *-------------------------------------------------------------------------
 */
#include "command.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* What follows the seconds: an optional fraction, as ms; then Z or an offset, in minutes. */
static bool
read_fraction_and_zone(const char *at, int *ms, int *offset)
{
	int hours, minutes, n = 0, digit = 100;

	*ms = 0;
	if (*at == '.')
		for (at++; isdigit((unsigned char) *at); at++, digit /= 10)
			*ms += digit * (*at - '0');
	*offset = 0;
	if ((*at == 'Z' || *at == 'z') && at[1] == '\0')
		return true;
	if ((*at != '+' && *at != '-') || sscanf(at + 1, "%2d:%2d%n", &hours, &minutes, &n) != 2 || at[1 + n] != '\0')
		return false;
	if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return false;
	*offset = (hours * 60 + minutes) * (*at == '-' ? -1 : 1);
	return true;
}

bool
command_time(const char *text, int64_t *out)
{
	struct tm t = {0};
	int n = 0, ms, offset;

	if (sscanf(text, "%4d-%2d-%2d%*1[Tt ]%2d:%2d:%2d%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min,
			   &t.tm_sec, &n) != 6 ||
		n == 0 || !read_fraction_and_zone(text + n, &ms, &offset))
		return false;
	if (t.tm_year < 1970 || t.tm_mon < 1 || t.tm_mon > 12 || t.tm_mday < 1 || t.tm_mday > 31 || t.tm_hour < 0 ||
		t.tm_hour > 23 || t.tm_min < 0 || t.tm_min > 59 || t.tm_sec < 0 || t.tm_sec > 60)
		return false;
	t.tm_year -= 1900;
	t.tm_mon -= 1;
	*out = ((int64_t) timegm(&t) - offset * 60) * 1000 + ms;
	return true;
}

/* Ids go into topics and into a file, so only harmless ones are taken. */
static bool
is_id(const char *id)
{
	size_t len = strlen(id);

	return len > 0 && len < SEEN_ID_SIZE &&
		strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == len;
}

bool
command_set(Command *c, const char *id, const char *issued_at, const char *expires_at)
{
	if (id == NULL || issued_at == NULL || expires_at == NULL || !is_id(id))
		return false;
	strcpy(c->id, id);
	return command_time(issued_at, &c->issued_at) && command_time(expires_at, &c->expires_at);
}

static const char *
member(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

bool
command_from_envelope(Command *c, const char *bytes, size_t len)
{
	cJSON *envelope = cJSON_ParseWithLength(bytes, len);
	const char *name = member(envelope, "name");
	bool ok = name != NULL && strlen(name) < sizeof(c->name) &&
		command_set(c, member(envelope, "id"), member(envelope, "issued_at"), member(envelope, "expires_at"));

	if (ok)
	{
		strcpy(c->name, name);
		c->payload = cJSON_DetachItemFromObjectCaseSensitive(envelope, "payload");
	}
	cJSON_Delete(envelope);
	return ok;
}

Verdict
command_judge(const Command *c, Seen *seen, int64_t now, int64_t tolerance)
{
	/* First: a command that has been begun has its answer, or will have it, and that does not expire. */
	if (seen_find(seen, c->id) != NULL)
		return VERDICT_REPLAY;
	if (c->expires_at + tolerance < now || c->expires_at <= seen_horizon(seen))
		return VERDICT_EXPIRED;
	if (c->issued_at > now + tolerance)
		return VERDICT_FUTURE;
	return seen_begin(seen, c->id, c->expires_at, now - tolerance) ? VERDICT_DO : VERDICT_NO_ROOM;
}
