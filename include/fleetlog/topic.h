/*-------------------------------------------------------------------------
 *
 * topic.h
 *	  MQTT topic names and topic filters (MQTT 5.0 clause 4.7), shared
 *	  subscriptions (clause 4.8.2) and mount prefixes (requirement M3).
 *
 * Matching functions expect a valid name and a valid filter; for others the
 * answer is unspecified but safe.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_TOPIC_H
#define FLEETLOG_TOPIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FL_TOPIC_MAX_LEN 65535 /* bytes, MQTT-4.7.3-3 */

/*
 * A topic name: 1 .. 65535 bytes of UTF-8 without U+0000 (MQTT-4.7.3-1,
 * MQTT-4.7.3-2) and without wildcards (MQTT-3.3.2-2).
 */
extern bool fl_topic_name_valid(const uint8_t *topic, size_t len);

/*
 * A topic filter: the same, with `#` only as the whole last level
 * (MQTT-4.7.1-1) and `+` only as a whole level (MQTT-4.7.1-2).  A `$share/`
 * filter is checked by fl_topic_share_parse.
 */
extern bool fl_topic_filter_valid(const uint8_t *filter, size_t len);

/* True when the filter has a `+` or `#` level. */
extern bool fl_topic_filter_has_wildcard(const uint8_t *filter, size_t len);

/*
 * Does the filter select the topic?  `a/#` matches `a` as well (4.7.1.2), and
 * a wildcard in the first level matches no topic that starts with `$`
 * (MQTT-4.7.2-1).
 */
extern bool fl_topic_matches(const uint8_t *topic, size_t len, const uint8_t *filter, size_t filter_len);

/* The number of levels: one more than there are slashes. */
extern int fl_topic_levels(const uint8_t *topic, size_t len);

typedef enum FlShare
{
	FL_SHARE_NONE,   /* not a shared subscription */
	FL_SHARE_OK,     /* group and filter are set */
	FL_SHARE_INVALID /* begins with `$share/` and is malformed */
} FlShare;

/*
 * Splits `$share/group/filter` (MQTT-4.8.2-1, MQTT-4.8.2-2: the group has at
 * least one character and no `/`, `+`, `#`; a valid filter follows).  The
 * results point into the argument.
 */
extern FlShare fl_topic_share_parse(const uint8_t *s, size_t len, const uint8_t **group, size_t *group_len,
									const uint8_t **filter, size_t *filter_len);

/*
 * Is the topic below the mount's prefix?  A prefix is whole levels ending in
 * `/`; the empty one catches every topic that does not start with `$`.
 */
extern bool fl_topic_prefix_matches(const uint8_t *topic, size_t len, const uint8_t *prefix, size_t prefix_len);

/* May the filter select a topic below the mount's prefix? */
extern bool fl_topic_filter_reaches(const uint8_t *filter, size_t len, const uint8_t *prefix, size_t prefix_len);

/* A well-formed mount prefix: empty, or a valid name that ends in `/`. */
extern bool fl_topic_prefix_valid(const uint8_t *prefix, size_t len);

#endif /* FLEETLOG_TOPIC_H */
