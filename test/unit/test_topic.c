/*-------------------------------------------------------------------------
 *
 * test_topic.c
 *	  Topic names, filters and matching, from the examples of MQTT 5.0 clause
 *	  4.7 and 4.8.2 outwards.
 *
 *-------------------------------------------------------------------------
 */
#include "fl_unit.h"

#include "fleetlog/topic.h"

static bool
matches(const char *topic, const char *filter)
{
	size_t topic_len = strlen(topic);
	size_t filter_len = strlen(filter);
	uint8_t *t = fl_unit_copy(topic, topic_len);
	uint8_t *f = fl_unit_copy(filter, filter_len);
	bool result = fl_topic_matches(t, topic_len, f, filter_len);

	free(t);
	free(f);
	return result;
}

static void
test_matching_table(void)
{
	static const struct
	{
		const char *filter;
		const char *topic;
		bool expected;
	} table[] = {
		/* 4.7.1.2 multi-level wildcard */
		{"sport/tennis/player1/#", "sport/tennis/player1", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/ranking", true},
		{"sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true},
		{"sport/tennis/player1/#", "sport/tennis/player12", false},
		{"sport/#", "sport", true},
		{"sport/#", "sport/", true},
		{"sport/#", "sports", false},
		{"#", "sport", true},
		{"#", "a/b/c", true},
		{"#", "/", true},
		/* 4.7.1.3 single-level wildcard */
		{"sport/tennis/+", "sport/tennis/player1", true},
		{"sport/tennis/+", "sport/tennis/player2", true},
		{"sport/tennis/+", "sport/tennis/player1/ranking", false},
		{"sport/+", "sport", false},
		{"sport/+", "sport/", true},
		{"+", "finance", true},
		{"+", "/finance", false},
		{"+/+", "/finance", true},
		{"/+", "/finance", true},
		{"+/tennis/#", "sport/tennis", true},
		{"+/tennis/#", "sport/tennis/x/y", true},
		{"sport/+/player1", "sport/tennis/player1", true},
		{"sport/+/player1", "sport//player1", true},
		{"sport/+/player1", "sport/player1", false},
		{"+/+/+", "//", true},
		{"+/#", "a", true},
		{"+/#", "/", true},
		{"+/#", "a/b/c", true},
		/* 4.7.2 topics beginning with $ */
		{"#", "$SYS/monitor/Clients", false},
		{"+/monitor/Clients", "$SYS/monitor/Clients", false},
		{"+", "$SYS", false},
		{"$SYS/#", "$SYS/monitor/Clients", true},
		{"$SYS/#", "$SYS", true},
		{"$SYS/monitor/+", "$SYS/monitor/Clients", true},
		{"a/#", "a/$SYS", true},
		{"a/+", "a/$SYS", true},
		{"$SYS", "$SYS", true},
		/* 4.7.3 semantics: case, leading and trailing slashes, spaces */
		{"ACCOUNTS", "Accounts", false},
		{"Accounts payable", "Accounts payable", true},
		{"/finance", "/finance", true},
		{"finance", "/finance", false},
		{"finance/", "finance", false},
		{"finance", "finance/", false},
		{"a/b", "a/b", true},
		{"a/b", "a/b/c", false},
		{"a/b/c", "a/b", false},
		{"a//b", "a//b", true},
		{"a//b", "a/b", false},
		{"a/#", "b/c", false},
		{"a/+/#", "a", false},
		{"a/+/#", "a/b", true},
		{"a/+/#", "a/b/c/d", true},
		{"\xc3\xa9/+", "\xc3\xa9/x", true},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		if (matches(table[i].topic, table[i].filter) != table[i].expected)
			printf("# filter %s, topic %s\n", table[i].filter, table[i].topic);
		FL_CHECK_INT(matches(table[i].topic, table[i].filter), table[i].expected);
	}
}

/*
 * Another way to decide: split into levels and recurse.  Compared over every
 * topic and filter of up to five characters of a small alphabet.
 */
static bool
matches_reference(const char *t, const char *f, bool first)
{
	size_t tn = strcspn(t, "/");
	size_t fn = strcspn(f, "/");

	if (fn == 1 && *f == '#')
		return !(first && *t == '$');
	if (fn == 1 && *f == '+')
	{
		if (first && *t == '$')
			return false;
	}
	else if (tn != fn || memcmp(t, f, tn) != 0)
		return false;
	if (t[tn] == '\0')
		return f[fn] == '\0' || strcmp(f + fn, "/#") == 0;
	if (f[fn] == '\0')
		return false;
	return matches_reference(t + tn + 1, f + fn + 1, false);
}

static bool
next_string(char *s, size_t max, const char *alphabet)
{
	for (size_t i = 0; i < max; i++)
	{
		const char *at = s[i] == '\0' ? NULL : strchr(alphabet, s[i]);

		if (at == NULL)
		{
			s[i] = alphabet[0];
			return true;
		}
		if (at[1] != '\0')
		{
			s[i] = at[1];
			return true;
		}
		s[i] = alphabet[0];
	}
	return false;
}

static void
test_matching_exhaustive(void)
{
	char topic[8] = "";
	int compared = 0;

	while (next_string(topic, 4, "/a$b"))
	{
		char filter[8] = "";

		while (next_string(filter, 5, "/a+#$"))
		{
			if (!fl_topic_filter_valid((uint8_t *) filter, strlen(filter)))
				continue;
			compared++;
			if (fl_topic_matches((uint8_t *) topic, strlen(topic), (uint8_t *) filter, strlen(filter)) !=
				matches_reference(topic, filter, true))
			{
				printf("# filter %s, topic %s\n", filter, topic);
				FL_CHECK(false);
			}
		}
	}
	FL_CHECK(compared > 100000);
}

static void
test_validity(void)
{
	static const struct
	{
		const char *s;
		bool name;
		bool filter;
	} table[] = {
		{"", false, false},
		{"a", true, true},
		{"/", true, true},
		{"//", true, true},
		{" ", true, true},
		{"a/b", true, true},
		{"$SYS/x", true, true},
		{"+", false, true},
		{"#", false, true},
		{"a/+", false, true},
		{"a/#", false, true},
		{"+/a/+", false, true},
		{"/+", false, true},
		{"/#", false, true},
		{"a+", false, false},
		{"+a", false, false},
		{"a/b+/c", false, false},
		{"++", false, false},
		{"a#", false, false},
		{"#/a", false, false},
		{"a/#/b", false, false},
		{"##", false, false},
		{"sport/tennis#", false, false},
		{"sport/tennis/#/ranking", false, false},
		{"sport+", false, false},
		{"+#", false, false},
		{"#+", false, false},
		{"+/#", false, true},
		{"\xff", false, false},
		{"a/\xed\xa0\x80", false, false},
		{"\xc3\xa9", true, true},
	};
	uint8_t *big = malloc(65537);

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		size_t len = strlen(table[i].s);
		uint8_t *s = fl_unit_copy(table[i].s, len);

		if (fl_topic_name_valid(s, len) != table[i].name || fl_topic_filter_valid(s, len) != table[i].filter)
			printf("# string %s\n", table[i].s);
		FL_CHECK_INT(fl_topic_name_valid(s, len), table[i].name);
		FL_CHECK_INT(fl_topic_filter_valid(s, len), table[i].filter);
		free(s);
	}
	FL_CHECK(!fl_topic_name_valid((uint8_t *) "a\0b", 3));
	FL_CHECK(!fl_topic_filter_valid((uint8_t *) "a\0b", 3));
	FL_CHECK(!fl_topic_name_valid(NULL, 0));
	memset(big, 'a', 65537);
	FL_CHECK(fl_topic_name_valid(big, 65535));
	FL_CHECK(!fl_topic_name_valid(big, 65536));
	FL_CHECK(fl_topic_filter_valid(big, 65535));
	FL_CHECK(!fl_topic_filter_valid(big, 65536));
	free(big);
}

static void
test_levels(void)
{
	FL_CHECK_INT(fl_topic_levels((uint8_t *) "a", 1), 1);
	FL_CHECK_INT(fl_topic_levels((uint8_t *) "a/b/c", 5), 3);
	FL_CHECK_INT(fl_topic_levels((uint8_t *) "/", 1), 2);
	FL_CHECK_INT(fl_topic_levels((uint8_t *) "/a/", 3), 3);
}

static void
test_share(void)
{
	static const struct
	{
		const char *s;
		FlShare expected;
		const char *group;
		const char *filter;
	} table[] = {
		{"$share/consumer1/sport/tennis/+", FL_SHARE_OK, "consumer1", "sport/tennis/+"},
		{"$share/consumer1//finance", FL_SHARE_OK, "consumer1", "/finance"},
		{"$share/g/#", FL_SHARE_OK, "g", "#"},
		{"$share/g/$SYS/x", FL_SHARE_OK, "g", "$SYS/x"},
		{"sport", FL_SHARE_NONE, NULL, NULL},
		{"$share", FL_SHARE_NONE, NULL, NULL},
		{"$Share/g/a", FL_SHARE_NONE, NULL, NULL},
		{"$share/", FL_SHARE_INVALID, NULL, NULL},
		{"$share/g", FL_SHARE_INVALID, NULL, NULL},
		{"$share/g/", FL_SHARE_INVALID, NULL, NULL},
		{"$share//a", FL_SHARE_INVALID, NULL, NULL},
		{"$share/g+/a", FL_SHARE_INVALID, NULL, NULL},
		{"$share/#/a", FL_SHARE_INVALID, NULL, NULL},
		{"$share/g/a#", FL_SHARE_INVALID, NULL, NULL},
		{"$share/g/\xff", FL_SHARE_INVALID, NULL, NULL},
		{"$share/\xff/a", FL_SHARE_INVALID, NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		size_t len = strlen(table[i].s);
		uint8_t *s = fl_unit_copy(table[i].s, len);
		const uint8_t *group = NULL;
		const uint8_t *filter = NULL;
		size_t group_len = 0;
		size_t filter_len = 0;
		FlShare share = fl_topic_share_parse(s, len, &group, &group_len, &filter, &filter_len);

		if (FL_CHECK_INT(share, table[i].expected) && share == FL_SHARE_OK)
		{
			FL_CHECK_BYTES(group, group_len, table[i].group, strlen(table[i].group));
			FL_CHECK_BYTES(filter, filter_len, table[i].filter, strlen(table[i].filter));
		}
		free(s);
	}
}

static bool
below(const char *topic, const char *prefix)
{
	return fl_topic_prefix_matches((const uint8_t *) topic, strlen(topic), (const uint8_t *) prefix, strlen(prefix));
}

static void
test_prefix(void)
{
	FL_CHECK(below("plant/a/b", "plant/"));
	FL_CHECK(below("plant/", "plant/"));
	FL_CHECK(!below("plant", "plant/"));
	FL_CHECK(!below("plants/a", "plant/"));
	FL_CHECK(below("a", ""));
	FL_CHECK(!below("$SYS/a", ""));
	FL_CHECK(below("$SYS/a", "$SYS/"));
	FL_CHECK(!below("", ""));

	FL_CHECK(fl_topic_prefix_valid((uint8_t *) "", 0));
	FL_CHECK(fl_topic_prefix_valid((uint8_t *) "plant/", 6));
	FL_CHECK(fl_topic_prefix_valid((uint8_t *) "a/b/", 4));
	FL_CHECK(!fl_topic_prefix_valid((uint8_t *) "plant", 5));
	FL_CHECK(!fl_topic_prefix_valid((uint8_t *) "+/", 2));
	FL_CHECK(!fl_topic_prefix_valid((uint8_t *) "a/#/", 4));
	FL_CHECK(!fl_topic_prefix_valid((uint8_t *) "\xff/", 2));
}

/* The next combination of levels in at[0..count), each below base; false after the last. */
static bool
next_levels(int *at, int count, int base)
{
	for (int i = 0; i < count; i++)
	{
		if (++at[i] < base)
			return true;
		at[i] = 0;
	}
	return false;
}

static size_t
join_levels(char *out, const char *const *levels, const int *at, int count)
{
	size_t len = 0;

	for (int i = 0; i < count; i++)
		len += (size_t) sprintf(out + len, "%s%s", i > 0 ? "/" : "", levels[at[i]]);
	return len;
}

/* Is there a topic below the prefix that the filter selects?  All that differ are tried. */
static bool
some_topic_below(const char *filter, size_t filter_len, const char *prefix, size_t prefix_len)
{
	static const char *const levels[] = {"a", "b", "", "$x"};
	char topic[64];

	for (int count = 1; count <= 4; count++)
	{
		int at[4] = {0};

		do
		{
			size_t len = join_levels(topic, levels, at, count);

			if (len > 0 && fl_topic_prefix_matches((uint8_t *) topic, len, (const uint8_t *) prefix, prefix_len) &&
				fl_topic_matches((uint8_t *) topic, len, (const uint8_t *) filter, filter_len))
				return true;
		} while (next_levels(at, count, 4));
	}
	return false;
}

static void
test_reaches(void)
{
	static const char *const levels[] = {"a", "b", "$x", "", "+", "#"};
	static const char *const prefixes[] = {"", "a/", "b/", "a/a/", "a/b/", "$x/", "$x/a/", "/", "a//", "//"};
	char filter[64];

	for (int count = 1; count <= 3; count++)
	{
		int at[3] = {0};

		do
		{
			size_t len = join_levels(filter, levels, at, count);
			uint8_t *f = fl_unit_copy(filter, len);

			for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]) && fl_topic_filter_valid(f, len); i++)
			{
				size_t prefix_len = strlen(prefixes[i]);
				uint8_t *p = fl_unit_copy(prefixes[i], prefix_len);

				if (!FL_CHECK(fl_topic_filter_reaches(f, len, p, prefix_len) ==
							  some_topic_below(filter, len, prefixes[i], prefix_len)))
					printf("# %s below %s\n", filter, prefixes[i]);
				free(p);
			}
			free(f);
		} while (next_levels(at, count, 6));
	}
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_matching_table);
	FL_RUN(test_matching_exhaustive);
	FL_RUN(test_validity);
	FL_RUN(test_levels);
	FL_RUN(test_share);
	FL_RUN(test_prefix);
	FL_RUN(test_reaches);
	return fl_unit_end();
}
