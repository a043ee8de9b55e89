/*
 * test_mqtt_trie.c
 *		The subscription index against the plain definition of matching.
 */
#include "fl_unit.h"

#include "fleetlog/topic.h"

#include "../../bgworker/mqtt/trie.c"

#define FILTERS 3000

static char filters[FILTERS][64];
static int hits[FILTERS];
static bool in_trie[FILTERS];

static void
on_found(void *item, void *arg)
{
	(void) arg;
	hits[(char(*)[64]) item - filters]++;
}

static const uint8_t *
bytes(const char *text)
{
	return (const uint8_t *) text;
}

static void
random_text(char *out, bool filter)
{
	static const char *const words[] = {"a", "b", "c", "", "long-level", "$x", "d1"};
	int levels = 1 + (int) fl_unit_random_below(5);

	out[0] = '\0';
	for (int i = 0; i < levels; i++)
	{
		uint32_t dice = fl_unit_random_below(10);

		if (i > 0)
			strcat(out, "/");
		if (filter && dice == 0 && i == levels - 1)
			strcat(out, "#");
		else if (filter && dice < 3)
			strcat(out, "+");
		else
			strcat(out, words[fl_unit_random_below(7)]);
	}
	if (out[0] == '\0')
		strcpy(out, "a");
}

static void
check_topic(const FlTrie *trie, const char *topic)
{
	memset(hits, 0, sizeof(hits));
	fl_trie_match(trie, bytes(topic), strlen(topic), on_found, NULL);
	for (int i = 0; i < FILTERS; i++)
	{
		int expected =
			in_trie[i] && fl_topic_matches(bytes(topic), strlen(topic), bytes(filters[i]), strlen(filters[i]));

		if (!FL_CHECK_INT(hits[i], expected))
			printf("# topic %s, filter %s\n", topic, filters[i]);
	}
}

static void
test_against_definition(void)
{
	FlTrie *trie = fl_trie_create(&fl_malloc_allocator);

	FL_REQUIRE(trie != NULL);
	for (int i = 0; i < FILTERS; i++)
	{
		random_text(filters[i], true);
		in_trie[i] = fl_trie_insert(trie, bytes(filters[i]), strlen(filters[i]), filters[i]);
		FL_CHECK(in_trie[i]);
	}
	for (int round = 0; round < 300; round++)
	{
		char topic[64];
		int i = (int) fl_unit_random_below(FILTERS);

		random_text(topic, false);
		check_topic(trie, topic);
		FL_CHECK(fl_trie_remove(trie, bytes(filters[i]), strlen(filters[i]), filters[i]) == in_trie[i]);
		in_trie[i] = !in_trie[i];
		if (in_trie[i])
			fl_trie_insert(trie, bytes(filters[i]), strlen(filters[i]), filters[i]);
	}
	for (int i = 0; i < FILTERS; i++)
		if (in_trie[i])
			FL_CHECK(fl_trie_remove(trie, bytes(filters[i]), strlen(filters[i]), filters[i]));
	FL_CHECK_INT(fl_trie_items(trie), 0);
	/* Everything is pruned: only the root is left. */
	FL_CHECK_INT(fl_trie_nodes(trie), 1);
	fl_trie_free(trie);
}

static void
test_free_with_items(void)
{
	FlTrie *trie = fl_trie_create(&fl_malloc_allocator);

	fl_trie_insert(trie, bytes("+/+/+"), 5, filters[0]);
	fl_trie_insert(trie, bytes("+/a/+/#"), 7, filters[0]);
	fl_trie_insert(trie, bytes("a/+/b"), 5, filters[0]);
	fl_trie_insert(trie, bytes("#"), 1, filters[0]);
	FL_CHECK(!fl_trie_remove(trie, bytes("a/+/c"), 5, filters[0]));
	fl_trie_free(trie);
}

static bool
touches_prefix(const char *filter, const char *prefix)
{
	FlTrie *trie = fl_trie_create(&fl_malloc_allocator);
	bool result;

	fl_trie_insert(trie, bytes(filter), strlen(filter), filters[0]);
	result = fl_trie_touches_prefix(trie, bytes(prefix), strlen(prefix));
	fl_trie_free(trie);
	return result;
}

static void
test_prefixes(void)
{
	FL_CHECK(touches_prefix("#", "plant/"));
	FL_CHECK(touches_prefix("#", ""));
	FL_CHECK(touches_prefix("plant/#", "plant/"));
	FL_CHECK(touches_prefix("+/x", "plant/"));
	FL_CHECK(touches_prefix("plant/a/b", "plant/"));
	FL_CHECK(touches_prefix("plant/#", "plant/a/"));
	FL_CHECK(touches_prefix("plant/+/b", "plant/a/"));
	FL_CHECK(!touches_prefix("cmd/d1/#", "plant/"));
	FL_CHECK(!touches_prefix("plant", "plant/"));
	FL_CHECK(!touches_prefix("plant/b/c", "plant/a/"));
	FL_CHECK(!touches_prefix("#", "$SYS/"));
	FL_CHECK(touches_prefix("$SYS/#", "$SYS/"));
}

/* 100,000 devices below one level: insertion and matching stay fast. */
static void
test_wide_level(void)
{
	FlTrie *trie = fl_trie_create(&fl_malloc_allocator);
	int n = 100000;

	for (int i = 0; i < n; i++)
	{
		char filter[64];
		int len = snprintf(filter, sizeof(filter), "acme/d-%d/cmd/#", i);

		FL_REQUIRE(fl_trie_insert(trie, bytes(filter), (size_t) len, filters[0]));
	}
	FL_CHECK_INT(fl_trie_nodes(trie), 1 + 1 + 2 * n);
	memset(hits, 0, sizeof(hits));
	for (int i = 0; i < n; i++)
	{
		char topic[64];
		int len = snprintf(topic, sizeof(topic), "acme/d-%d/cmd/open", i);

		fl_trie_match(trie, bytes(topic), (size_t) len, on_found, NULL);
	}
	FL_CHECK_INT(hits[0], n);
	fl_trie_free(trie);
}

FL_UNIT_MAIN(FL_RUN(test_against_definition); FL_RUN(test_free_with_items); FL_RUN(test_prefixes);
			 FL_RUN(test_wide_level);)
