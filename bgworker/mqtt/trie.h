/*
 * trie.h
 *		The subscription index of a front door: topic filters to subscriptions.
 *
 * Filters are stored level by level, so that matching a topic costs what its
 * levels cost and not what the number of subscriptions costs.  Edges between
 * levels lie in one hash table: a level with a hundred thousand children (one
 * per device) is as cheap as one with two.
 *
 * The index holds opaque pointers.  It knows no server, so that it can be unit
 * tested alone; memory comes from the allocator it is given.
 */
#ifndef FLEETLOG_MQTT_TRIE_H
#define FLEETLOG_MQTT_TRIE_H

#include "fleetlog/cursor.h"

typedef struct FlTrie FlTrie;

/* Called for every item whose filter selects the topic; must not change the trie. */
typedef void (*FlTrieFound)(void *item, void *arg);

extern FlTrie *fl_trie_create(const FlAllocator *alloc);
extern void fl_trie_free(FlTrie *trie);

/* The filter must be valid.  The same item may stand under several filters. */
extern bool fl_trie_insert(FlTrie *trie, const uint8_t *filter, size_t len, void *item);
/* False when it was not there. */
extern bool fl_trie_remove(FlTrie *trie, const uint8_t *filter, size_t len, const void *item);

/* An item under exactly this filter for which is() says true, or NULL. */
extern void *fl_trie_find(FlTrie *trie, const uint8_t *filter, size_t len,
						  bool (*is)(const void *item, const void *arg), const void *arg);

/*
 * Items may be found more than once when they stand under several filters.
 * Topics that begin with `$` are not matched by a wildcard in the first level
 * (MQTT-4.7.2-1).
 */
extern void fl_trie_match(const FlTrie *trie, const uint8_t *topic, size_t len, FlTrieFound found, void *arg);

/*
 * Could any filter select a topic that begins with this prefix?  prefix is
 * empty or ends in `/`.  No false negatives.
 */
extern bool fl_trie_touches_prefix(const FlTrie *trie, const uint8_t *prefix, size_t len);

extern size_t fl_trie_items(const FlTrie *trie);
extern size_t fl_trie_nodes(const FlTrie *trie);

#endif /* FLEETLOG_MQTT_TRIE_H */
