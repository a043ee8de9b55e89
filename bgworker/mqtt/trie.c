/*
 * trie.c
 *		The subscription index (trie.h).
 *
 * A node stands for a prefix of whole levels.  `+` children hang on the node
 * itself, all others in one hash table keyed by (parent, level).  `#` is no
 * node: a subscription that ends in it is in the `below` list of the node
 * before it, which also gives `a/#` its match of `a`.
 *
 * Invariant: every node but the root has items, a child, or both; removal
 * prunes.  Recursion is as deep as the deepest filter, which SUBSCRIBE bounds.
 */
#include "trie.h"

#define FIRST_BUCKETS 64

typedef struct ItemList
{
	void **items;
	uint32_t count;
	uint32_t cap;
} ItemList;

typedef struct TrieNode TrieNode;

struct TrieNode
{
	TrieNode *parent;
	TrieNode *plus;    /* child for `+` */
	TrieNode *chain;   /* next in the hash bucket */
	ItemList here;     /* filters that end at this node */
	ItemList below;    /* filters that go on with `#` */
	uint32_t children; /* named ones and `+` */
	uint32_t hash;
	uint32_t len;
	uint8_t level[];
};

struct FlTrie
{
	const FlAllocator *alloc;
	TrieNode *root;
	TrieNode **buckets;
	size_t bucket_count; /* a power of two */
	size_t named;        /* nodes in the hash table */
	size_t nodes;
	size_t items;
};

static void *
get_memory(FlTrie *trie, size_t size)
{
	void *p = trie->alloc->realloc(trie->alloc->ctx, NULL, 0, size);

	if (p != NULL)
		memset(p, 0, size);
	return p;
}

static void
put_memory(FlTrie *trie, void *p)
{
	if (p != NULL)
		trie->alloc->free(trie->alloc->ctx, p);
}

/* FNV-1a over the level, stirred with the parent's address. */
static uint32_t
hash_edge(const TrieNode *parent, const uint8_t *level, size_t len)
{
	uint64_t h = (uint64_t) (uintptr_t) parent * UINT64_C(0x9E3779B97F4A7C15);

	h ^= UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < len; i++)
		h = (h ^ level[i]) * UINT64_C(0x100000001b3);
	return (uint32_t) (h ^ (h >> 32));
}

static TrieNode *
find_child(const FlTrie *trie, const TrieNode *parent, const uint8_t *level, size_t len)
{
	uint32_t hash = hash_edge(parent, level, len);
	TrieNode *node = trie->buckets[hash & (trie->bucket_count - 1)];

	for (; node != NULL; node = node->chain)
		if (node->hash == hash && node->parent == parent && node->len == len &&
			(len == 0 || memcmp(node->level, level, len) == 0))
			return node;
	return NULL;
}

/* Twice the buckets when they are full; without memory the chains grow instead. */
static void
grow_buckets(FlTrie *trie)
{
	size_t count = trie->bucket_count * 2;
	TrieNode **buckets = get_memory(trie, count * sizeof(TrieNode *));

	if (buckets == NULL)
		return;
	for (size_t i = 0; i < trie->bucket_count; i++)
		for (TrieNode *node = trie->buckets[i], *next; node != NULL; node = next)
		{
			next = node->chain;
			node->chain = buckets[node->hash & (count - 1)];
			buckets[node->hash & (count - 1)] = node;
		}
	put_memory(trie, trie->buckets);
	trie->buckets = buckets;
	trie->bucket_count = count;
}

static TrieNode *
make_node(FlTrie *trie, TrieNode *parent, const uint8_t *level, size_t len)
{
	TrieNode *node = get_memory(trie, sizeof(TrieNode) + len);

	if (node == NULL)
		return NULL;
	node->parent = parent;
	node->len = (uint32_t) len;
	if (len > 0)
		memcpy(node->level, level, len);
	if (parent != NULL)
		parent->children++;
	trie->nodes++;
	return node;
}

static bool
is_wildcard(const uint8_t *level, size_t len, char which)
{
	return len == 1 && level[0] == (uint8_t) which;
}

static TrieNode *
get_child(FlTrie *trie, TrieNode *parent, const uint8_t *level, size_t len, bool create)
{
	bool plus = is_wildcard(level, len, '+');
	TrieNode *node = plus ? parent->plus : find_child(trie, parent, level, len);

	if (node != NULL || !create)
		return node;
	node = make_node(trie, parent, level, len);
	if (node == NULL)
		return NULL;
	if (plus)
		parent->plus = node;
	else
	{
		if (trie->named >= trie->bucket_count)
			grow_buckets(trie);
		node->hash = hash_edge(parent, level, len);
		node->chain = trie->buckets[node->hash & (trie->bucket_count - 1)];
		trie->buckets[node->hash & (trie->bucket_count - 1)] = node;
		trie->named++;
	}
	return node;
}

static void
unhook(FlTrie *trie, TrieNode *node)
{
	TrieNode **at;

	if (node->parent->plus == node)
	{
		node->parent->plus = NULL;
		return;
	}
	at = &trie->buckets[node->hash & (trie->bucket_count - 1)];
	while (*at != node)
		at = &(*at)->chain;
	*at = node->chain;
	trie->named--;
}

/* Frees a node that nobody needs any more, and so its parents. */
static void
prune(FlTrie *trie, TrieNode *node)
{
	while (node->parent != NULL && node->children == 0 && node->here.count == 0 && node->below.count == 0)
	{
		TrieNode *parent = node->parent;

		unhook(trie, node);
		parent->children--;
		put_memory(trie, node->here.items);
		put_memory(trie, node->below.items);
		put_memory(trie, node);
		trie->nodes--;
		node = parent;
	}
}

/* ---- lists of items ---- */

static bool
list_add(FlTrie *trie, ItemList *list, void *item)
{
	if (list->count == list->cap)
	{
		uint32_t cap = list->cap == 0 ? 1 : list->cap * 2;
		void *items =
			trie->alloc->realloc(trie->alloc->ctx, list->items, list->cap * sizeof(void *), cap * sizeof(void *));

		if (items == NULL)
			return false;
		list->items = items;
		list->cap = cap;
	}
	list->items[list->count++] = item;
	return true;
}

static bool
list_remove(ItemList *list, const void *item)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (list->items[i] == item)
		{
			list->items[i] = list->items[--list->count];
			return true;
		}
	return false;
}

static void
list_report(const ItemList *list, FlTrieFound found, void *arg)
{
	for (uint32_t i = 0; i < list->count; i++)
		found(list->items[i], arg);
}

/* ---- filters ---- */

/* The node and list that a filter stands for; creates what is missing if asked. */
static ItemList *
locate(FlTrie *trie, const uint8_t *filter, size_t len, bool create, TrieNode **node_out)
{
	const uint8_t *p = filter;
	const uint8_t *end = filter + len;
	TrieNode *node = trie->root;

	for (;;)
	{
		const uint8_t *slash = memchr(p, '/', (size_t) (end - p));
		size_t level_len = (size_t) ((slash ? slash : end) - p);
		TrieNode *child;

		*node_out = node;
		if (is_wildcard(p, level_len, '#'))
			return &node->below;
		child = get_child(trie, node, p, level_len, create);
		if (child == NULL)
			return NULL;
		node = child;
		*node_out = node;
		if (slash == NULL)
			return &node->here;
		p = slash + 1;
	}
}

bool
fl_trie_insert(FlTrie *trie, const uint8_t *filter, size_t len, void *item)
{
	TrieNode *node;
	ItemList *list = locate(trie, filter, len, true, &node);

	if (list == NULL || !list_add(trie, list, item))
	{
		prune(trie, node);
		return false;
	}
	trie->items++;
	return true;
}

bool
fl_trie_remove(FlTrie *trie, const uint8_t *filter, size_t len, const void *item)
{
	TrieNode *node;
	ItemList *list = locate(trie, filter, len, false, &node);

	if (list == NULL || !list_remove(list, item))
		return false;
	trie->items--;
	prune(trie, node);
	return true;
}

void *
fl_trie_find(FlTrie *trie, const uint8_t *filter, size_t len, bool (*is)(const void *item, const void *arg),
			 const void *arg)
{
	TrieNode *node;
	ItemList *list = locate(trie, filter, len, false, &node);

	for (uint32_t i = 0; list != NULL && i < list->count; i++)
		if (is(list->items[i], arg))
			return list->items[i];
	return NULL;
}

/* ---- matching ---- */

typedef struct Match
{
	const FlTrie *trie;
	const uint8_t *end;
	FlTrieFound found;
	void *arg;
} Match;

/* p points to the level below node, or is NULL behind the last level. */
static void
match_below(const Match *m, const TrieNode *node, const uint8_t *p, bool wildcards)
{
	const uint8_t *slash;
	const uint8_t *next;
	size_t len;
	TrieNode *child;

	if (wildcards)
		list_report(&node->below, m->found, m->arg);
	if (p == NULL)
	{
		list_report(&node->here, m->found, m->arg);
		return;
	}
	slash = memchr(p, '/', (size_t) (m->end - p));
	len = (size_t) ((slash ? slash : m->end) - p);
	next = slash ? slash + 1 : NULL;
	if (wildcards && node->plus != NULL)
		match_below(m, node->plus, next, true);
	child = node->children > 0 ? find_child(m->trie, node, p, len) : NULL;
	if (child != NULL)
		match_below(m, child, next, true);
}

void
fl_trie_match(const FlTrie *trie, const uint8_t *topic, size_t len, FlTrieFound found, void *arg)
{
	Match m = {trie, topic + len, found, arg};

	if (trie->items > 0 && len > 0)
		match_below(&m, trie->root, topic, topic[0] != '$');
}

static bool
touches(const FlTrie *trie, const TrieNode *node, const uint8_t *p, const uint8_t *end, bool wildcards)
{
	const uint8_t *slash;
	TrieNode *child;

	if (wildcards && node->below.count > 0)
		return true;
	if (p == end)
		return node->children > 0;
	slash = memchr(p, '/', (size_t) (end - p));
	if (slash == NULL)
		slash = end;
	if (wildcards && node->plus != NULL && touches(trie, node->plus, slash < end ? slash + 1 : end, end, true))
		return true;
	child = find_child(trie, node, p, (size_t) (slash - p));
	return child != NULL && touches(trie, child, slash < end ? slash + 1 : end, end, true);
}

bool
fl_trie_touches_prefix(const FlTrie *trie, const uint8_t *prefix, size_t len)
{
	if (trie->items == 0)
		return false;
	return touches(trie, trie->root, prefix, prefix + len, len == 0 || prefix[0] != '$');
}

/* ---- life ---- */

FlTrie *
fl_trie_create(const FlAllocator *alloc)
{
	FlTrie *trie = alloc->realloc(alloc->ctx, NULL, 0, sizeof(FlTrie));

	if (trie == NULL)
		return NULL;
	memset(trie, 0, sizeof(*trie));
	trie->alloc = alloc;
	trie->bucket_count = FIRST_BUCKETS;
	trie->buckets = get_memory(trie, FIRST_BUCKETS * sizeof(TrieNode *));
	trie->root = make_node(trie, NULL, NULL, 0);
	if (trie->buckets == NULL || trie->root == NULL)
	{
		fl_trie_free(trie);
		return NULL;
	}
	return trie;
}

static void
free_node(FlTrie *trie, TrieNode *node)
{
	put_memory(trie, node->here.items);
	put_memory(trie, node->below.items);
	put_memory(trie, node);
}

/* `+` nodes hang on their parents only, so they are freed with them. */
static void
free_plus(FlTrie *trie, TrieNode *node)
{
	TrieNode *plus = node->plus;

	while (plus != NULL)
	{
		TrieNode *next = plus->plus;

		free_node(trie, plus);
		plus = next;
	}
}

void
fl_trie_free(FlTrie *trie)
{
	for (size_t i = 0; trie->buckets != NULL && i < trie->bucket_count; i++)
		for (TrieNode *node = trie->buckets[i], *next; node != NULL; node = next)
		{
			next = node->chain;
			free_plus(trie, node);
			free_node(trie, node);
		}
	if (trie->root != NULL)
	{
		free_plus(trie, trie->root);
		free_node(trie, trie->root);
	}
	put_memory(trie, trie->buckets);
	put_memory(trie, trie);
}

size_t
fl_trie_items(const FlTrie *trie)
{
	return trie->items;
}

size_t
fl_trie_nodes(const FlTrie *trie)
{
	return trie->nodes;
}
