/*-------------------------------------------------------------------------
 *
 * template.c
 *		Templates of record keys and shard keys (P2): literal text with
 *		{topic}, {device}, {tenant} and {level N}.
 *
 * Parsed once per load of the catalog and expanded for each message, so
 * expansion is a handful of copies into the caller's buffer.  A brace that
 * should stand for itself is written twice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fleetlog/catalog.h"

/* Levels are few; a number beyond this is a typing error. */
#define TEMPLATE_MAX_LEVEL	128

#define TEMPLATE_MAX_LEN	1024	/* bytes */

static FlTemplatePart *
add_part(FlTemplate *t, FlTemplateKind kind)
{
	FlTemplatePart *part;

	if (t->nparts == FL_TEMPLATE_MAX_PARTS)
		return NULL;
	part = &t->parts[t->nparts++];
	memset(part, 0, sizeof(*part));
	part->kind = kind;
	return part;
}

/* The inside of a pair of braces. */
static const char *
parse_placeholder(const char *s, size_t len, FlTemplate *t)
{
	static const struct
	{
		const char *name;
		FlTemplateKind kind;
	}			names[] = {
		{"topic", FL_TEMPLATE_TOPIC},
		{"device", FL_TEMPLATE_DEVICE},
		{"tenant", FL_TEMPLATE_TENANT},
	};
	FlTemplatePart *part;
	int			level = 0;

	for (int i = 0; i < lengthof(names); i++)
	{
		if (len == strlen(names[i].name) && memcmp(s, names[i].name, len) == 0)
			return add_part(t, names[i].kind) != NULL ? NULL : "it has too many parts";
	}
	if (len < 7 || len > 9 || memcmp(s, "level ", 6) != 0)
		return "a placeholder is {topic}, {device}, {tenant} or {level N}";
	for (size_t i = 6; i < len; i++)
	{
		if (s[i] < '0' || s[i] > '9')
			return "{level N} needs a number";
		level = level * 10 + (s[i] - '0');
	}
	if (level < 1 || level > TEMPLATE_MAX_LEVEL)
		return "levels are counted from 1 to 128";
	if ((part = add_part(t, FL_TEMPLATE_LEVEL)) == NULL)
		return "it has too many parts";
	part->level = level;
	return NULL;
}

const char *
fl_template_parse(const char *source, FlTemplate *out)
{
	const char *p = source;

	memset(out, 0, sizeof(*out));
	if (*p == '\0')
		return "it is empty";
	if (strlen(p) > TEMPLATE_MAX_LEN)
		return "it is too long";
	while (*p != '\0')
	{
		size_t		plain = strcspn(p, "{}");
		FlTemplatePart *part;

		/* A doubled brace ends the literal behind its first half. */
		bool		doubled = p[plain] != '\0' && p[plain + 1] == p[plain];

		if (plain > 0 || doubled)
		{
			if ((part = add_part(out, FL_TEMPLATE_LITERAL)) == NULL)
				return "it has too many parts";
			part->literal = p;
			part->literal_len = plain + (doubled ? 1 : 0);
			p += plain + (doubled ? 2 : 0);
		}
		else if (*p == '}')
			return "a closing brace has no opening one";
		else
		{
			const char *end = strchr(p, '}');
			const char *problem;

			if (end == NULL)
				return "a brace is not closed";
			if ((problem = parse_placeholder(p + 1, end - p - 1, out)) != NULL)
				return problem;
			p = end + 1;
		}
	}
	out->is_topic = out->nparts == 1 && out->parts[0].kind == FL_TEMPLATE_TOPIC;
	return NULL;
}

/* The Nth level of the topic, from 1; an empty piece when there is none. */
static const char *
topic_level(const char *topic, size_t len, int level, size_t *level_len)
{
	const char *end = topic + len;
	const char *p = topic;

	for (;;)
	{
		const char *slash = memchr(p, '/', end - p);

		if (--level == 0)
		{
			*level_len = (slash != NULL ? slash : end) - p;
			return p;
		}
		if (slash == NULL)
		{
			*level_len = 0;
			return end;
		}
		p = slash + 1;
	}
}

size_t
fl_template_expand(const FlTemplate *t, const char *topic, size_t topic_len,
				   const char *tenant, const char *device, char *out, size_t cap)
{
	size_t		total = 0;

	for (int i = 0; i < t->nparts; i++)
	{
		const FlTemplatePart *part = &t->parts[i];
		const char *piece = NULL;
		size_t		len = 0;

		switch (part->kind)
		{
			case FL_TEMPLATE_LITERAL:
				piece = part->literal;
				len = part->literal_len;
				break;
			case FL_TEMPLATE_TOPIC:
				piece = topic;
				len = topic_len;
				break;
			case FL_TEMPLATE_DEVICE:
				piece = device;
				len = device != NULL ? strlen(device) : 0;
				break;
			case FL_TEMPLATE_TENANT:
				piece = tenant;
				len = tenant != NULL ? strlen(tenant) : 0;
				break;
			case FL_TEMPLATE_LEVEL:
				piece = topic_level(topic, topic_len, part->level, &len);
				break;
		}
		if (len > 0 && total < cap)
			memcpy(out + total, piece, Min(len, cap - total));
		total += len;
	}
	return total;
}
