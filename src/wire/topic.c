/*-------------------------------------------------------------------------
 *
 * topic.c
 *	  MQTT topic names and filters: validity, matching, `$share`, prefixes.
 *
 * Matching walks both strings once, level by level; there is no recursion,
 * because `#` can only be last and `+` takes exactly one level.
 *
 * Called by the MQTT codec, the subscription index, mounts, policies, and
 * fleetlog.topic_matches().  Comparison is bytewise, as MQTT wants it
 * (MQTT-4.7.3-4): no normalisation, case matters.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/topic.h"

#include <string.h>

#include "fleetlog/utf8.h"

#define FL_SHARE_PREFIX     "$share/"
#define FL_SHARE_PREFIX_LEN 7

static bool
fl_topic_string_valid(const uint8_t *s, size_t len)
{
	return len >= 1 && len <= FL_TOPIC_MAX_LEN && fl_utf8_valid_mqtt(s, len);
}

bool
fl_topic_name_valid(const uint8_t *topic, size_t len)
{
	if (!fl_topic_string_valid(topic, len))
		return false;
	return !fl_topic_filter_has_wildcard(topic, len);
}

bool
fl_topic_filter_valid(const uint8_t *filter, size_t len)
{
	if (!fl_topic_string_valid(filter, len))
		return false;

	for (size_t i = 0; i < len; i++)
	{
		bool starts = i == 0 || filter[i - 1] == '/';
		bool last = i + 1 == len;

		if (filter[i] == '#' && !(starts && last))
			return false;
		if (filter[i] == '+' && !(starts && (last || filter[i + 1] == '/')))
			return false;
	}
	return true;
}

bool
fl_topic_filter_has_wildcard(const uint8_t *filter, size_t len)
{
	return len > 0 && (memchr(filter, '#', len) != NULL || memchr(filter, '+', len) != NULL);
}

int
fl_topic_levels(const uint8_t *topic, size_t len)
{
	int levels = 1;

	for (size_t i = 0; i < len; i++)
		levels += topic[i] == '/';
	return levels;
}

/* The first byte behind the level that starts at s. */
static const uint8_t *
fl_topic_level_end(const uint8_t *s, const uint8_t *end)
{
	const uint8_t *slash = s < end ? memchr(s, '/', (size_t) (end - s)) : NULL;

	return slash != NULL ? slash : end;
}

bool
fl_topic_matches(const uint8_t *topic, size_t len, const uint8_t *filter, size_t filter_len)
{
	const uint8_t *t = topic;
	const uint8_t *f = filter;
	const uint8_t *t_end;
	const uint8_t *f_end;

	if (len == 0 || filter_len == 0)
		return false;
	t_end = topic + len;
	f_end = filter + filter_len;

	/* MQTT-4.7.2-1: a leading wildcard does not reach `$SYS` and its like. */
	if (*t == '$' && (*f == '+' || *f == '#'))
		return false;

	for (;;)
	{
		const uint8_t *t_level = fl_topic_level_end(t, t_end);
		const uint8_t *f_level = fl_topic_level_end(f, f_end);
		size_t f_size = (size_t) (f_level - f);

		if (f_size == 1 && *f == '#')
			return true;
		if (!(f_size == 1 && *f == '+') && (f_size != (size_t) (t_level - t) || memcmp(t, f, f_size) != 0))
			return false;

		if (t_level == t_end)
		{
			/* 4.7.1.2: `a/#` also selects `a`, its parent level. */
			return f_level == f_end || (f_end - f_level == 2 && f_level[1] == '#');
		}
		if (f_level == f_end)
			return false;
		t = t_level + 1;
		f = f_level + 1;
	}
}

FlShare
fl_topic_share_parse(const uint8_t *s, size_t len, const uint8_t **group, size_t *group_len, const uint8_t **filter,
					 size_t *filter_len)
{
	const uint8_t *end;
	const uint8_t *slash;

	if (len < FL_SHARE_PREFIX_LEN || memcmp(s, FL_SHARE_PREFIX, FL_SHARE_PREFIX_LEN) != 0)
		return FL_SHARE_NONE;
	if (!fl_topic_string_valid(s, len))
		return FL_SHARE_INVALID;

	end = s + len;
	s += FL_SHARE_PREFIX_LEN;
	slash = fl_topic_level_end(s, end);
	if (slash == s || slash == end || fl_topic_filter_has_wildcard(s, (size_t) (slash - s)))
		return FL_SHARE_INVALID;
	if (!fl_topic_filter_valid(slash + 1, (size_t) (end - slash - 1)))
		return FL_SHARE_INVALID;

	*group = s;
	*group_len = (size_t) (slash - s);
	*filter = slash + 1;
	*filter_len = (size_t) (end - slash - 1);
	return FL_SHARE_OK;
}

bool
fl_topic_prefix_matches(const uint8_t *topic, size_t len, const uint8_t *prefix, size_t prefix_len)
{
	if (len == 0)
		return false;
	if (prefix_len == 0)
		return topic[0] != '$';
	return len >= prefix_len && memcmp(topic, prefix, prefix_len) == 0;
}

bool
fl_topic_filter_reaches(const uint8_t *filter, size_t len, const uint8_t *prefix, size_t prefix_len)
{
	const uint8_t *f = filter;
	const uint8_t *f_end = filter + len;
	const uint8_t *p = prefix;
	const uint8_t *p_end = prefix + prefix_len;

	if (len == 0)
		return false;
	if (prefix_len == 0)
		return *f != '$';
	if (*p == '$' && (*f == '+' || *f == '#'))
		return false;
	/* Every level of the prefix, and at least one behind it. */
	while (p < p_end)
	{
		const uint8_t *p_level = fl_topic_level_end(p, p_end);
		const uint8_t *f_level = fl_topic_level_end(f, f_end);
		size_t f_size = (size_t) (f_level - f);

		if (f_size == 1 && *f == '#')
			return true;
		if (f_level == f_end ||
			(!(f_size == 1 && *f == '+') && (f_size != (size_t) (p_level - p) || memcmp(f, p, f_size) != 0)))
			return false;
		f = f_level + 1;
		p = p_level + 1;
	}
	return true;
}

bool
fl_topic_prefix_valid(const uint8_t *prefix, size_t len)
{
	if (len == 0)
		return true;
	return prefix[len - 1] == '/' && fl_topic_name_valid(prefix, len);
}
