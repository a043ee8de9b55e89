/*
 * subscribe.c
 *		SUBSCRIBE and UNSUBSCRIBE.
 *
 * A subscription sees records whose append time is not before the moment it was
 * made.  That one comparison is what makes it exact whatever the feed does: a
 * feed that is a turn behind, or a connection that reads old parts of the log,
 * hands nothing to a filter that did not exist then.
 */
#include "postgres.h"

#include "fleetlog/topic.h"
#include "mqtt.h"
#include "packet.h"

#define SEARCH_OWN_LIST 256 /* filters up to which the own list is searched */

/* ---- one connection's filters ---- */

static const FlTenant *
tenant_of(const FlMqttConn *conn)
{
	return conn->who->kind == FL_IDENTITY_DEVICE ? fl_tenant_lookup(fl_mqtt_who_tenant(conn->who)) : NULL;
}

static void
set_queue_limits(FlMqttConn *conn)
{
	const FlTenant *tenant = tenant_of(conn);

	conn->sub->max_messages = (uint32) fl_mqtt_max_queued_messages;
	conn->sub->max_bytes = (Size) fl_mqtt_max_queued_kb * 1024;
	if (tenant != NULL && tenant->max_queued_messages > 0)
		conn->sub->max_messages = Min(conn->sub->max_messages, (uint32) tenant->max_queued_messages);
	if (tenant != NULL && tenant->max_queued_bytes > 0)
		conn->sub->max_bytes = Min(conn->sub->max_bytes, (Size) tenant->max_queued_bytes);
}

FlMqttSubscriber *
fl_mqtt_get_subscriber(FlMqttConn *conn)
{
	if (conn->sub == NULL)
	{
		conn->sub = MemoryContextAllocZero(conn->door->context, sizeof(FlMqttSubscriber));
		dlist_init(&conn->sub->filters);
		conn->sub->conn = conn;
		conn->sub->window = Min(conn->receive_max, conn->max_unacked);
		set_queue_limits(conn);
	}
	return conn->sub;
}

/* Length of the `$share/group/` that the text begins with; 0: it is an ordinary filter. */
static uint16
share_prefix(FlMqttBytes text)
{
	const uint8_t *group;
	const uint8_t *filter;
	size_t group_len;
	size_t len;

	if (fl_topic_share_parse(text.data, text.len, &group, &group_len, &filter, &len) != FL_SHARE_OK)
		return 0;
	return (uint16) (text.len - len);
}

static FlMqttBytes
without(FlMqttBytes text, uint16 skip)
{
	FlMqttBytes rest = {text.data + skip, text.len - skip};

	return rest;
}

typedef struct FilterKey
{
	const FlMqttConn *conn;
	FlMqttBytes text;
} FilterKey;

static bool
is_filter(const void *item, const void *arg)
{
	const FlMqttFilter *filter = item;
	const FilterKey *key = arg;

	return filter->conn == key->conn && filter->len == key->text.len &&
		   memcmp(filter->text, key->text.data, key->text.len) == 0;
}

static FlMqttFilter *
find_filter(FlMqttConn *conn, FlMqttBytes text)
{
	dlist_iter iter;

	if (conn->sub == NULL)
		return NULL;
	/* Own filters are few, or the filter has few other subscribers. */
	if (conn->sub->filter_count > SEARCH_OWN_LIST)
	{
		FilterKey key = {conn, text};
		FlMqttBytes topic_filter = without(text, share_prefix(text));

		return fl_trie_find(conn->door->trie, topic_filter.data, topic_filter.len, is_filter, &key);
	}
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

		if (filter->len == text.len && memcmp(filter->text, text.data, text.len) == 0)
			return filter;
	}
	return NULL;
}

static void
remove_filter(FlMqttFilter *filter)
{
	FlMqttConn *conn = filter->conn;

	fl_mqtt_share_leave(filter);
	fl_trie_remove(conn->door->trie, filter->text + filter->skip, filter->len - filter->skip, filter);
	dlist_delete(&filter->node);
	conn->sub->filter_count--;
	if (filter->wildcard)
		conn->sub->wildcard_count--;
	FL_COUNT(FL_C_SUBSCRIPTIONS, -1);
	pfree(filter);
}

/* Everything this connection holds, when it closes. */
void
fl_mqtt_drop_filters(FlMqttConn *conn)
{
	if (conn->sub == NULL || conn->sub->filter_count == 0)
		return;
	while (!dlist_is_empty(&conn->sub->filters))
		remove_filter(dlist_head_element(FlMqttFilter, node, &conn->sub->filters));
	conn->door->interest_changed = true;
}

static FlMqttFilter *
add_filter(FlMqttConn *conn, FlMqttBytes text)
{
	FlMqttSubscriber *sub = fl_mqtt_get_subscriber(conn);
	FlMqttFilter *filter = MemoryContextAllocZero(conn->door->context, offsetof(FlMqttFilter, text) + text.len);

	filter->conn = conn;
	filter->len = (uint16) text.len;
	memcpy(filter->text, text.data, text.len);
	filter->skip = share_prefix(text);
	filter->wildcard = fl_topic_filter_has_wildcard(text.data, text.len);
	filter->since = fl_clock_tick();
	if (!fl_trie_insert(conn->door->trie, filter->text + filter->skip, filter->len - filter->skip, filter))
		elog(ERROR, "fleetlog: out of memory in the subscription index");
	dlist_push_tail(&sub->filters, &filter->node);
	sub->filter_count++;
	fl_mqtt_reserve_ids(conn->door, sub->filter_count);
	if (filter->wildcard)
		sub->wildcard_count++;
	FL_COUNT(FL_C_SUBSCRIPTIONS, 1);
	return filter;
}

/* ---- may it? ---- */

/* Limits of devices (M8); others have none but the number of levels. */
static FlMqttReason
check_limits(FlMqttConn *conn, FlMqttBytes text)
{
	const FlTenant *tenant = tenant_of(conn);
	int levels = fl_topic_levels(text.data, text.len);
	uint32 held = conn->sub ? conn->sub->filter_count : 0;
	uint32 wild = conn->sub ? conn->sub->wildcard_count : 0;

	if (levels > conn->max_levels)
		return FL_MQTT_RC_TOPIC_FILTER_INVALID;
	if (conn->session.number != 0 && held >= FL_SESSION_MAX_SUBSCRIPTIONS)
		return FL_MQTT_RC_QUOTA_EXCEEDED;
	if (tenant == NULL)
		return FL_MQTT_RC_SUCCESS;
	if (tenant->max_subscriptions > 0 && held >= (uint32) tenant->max_subscriptions)
		return FL_MQTT_RC_QUOTA_EXCEEDED;
	if (tenant->max_wildcard_subscriptions > 0 && wild >= (uint32) tenant->max_wildcard_subscriptions &&
		fl_topic_filter_has_wildcard(text.data, text.len))
		return FL_MQTT_RC_QUOTA_EXCEEDED;
	return FL_MQTT_RC_SUCCESS;
}

static FlMqttReason
check_filter(FlMqttConn *conn, FlMqttBytes text, const char **why)
{
	static const char share[] = "$share/";
	FlMqttBytes topic_filter = without(text, share_prefix(text));

	*why = NULL;
	/* The codec has refused it in 5.0; in 3.x it would be a filter that selects nothing. */
	if (topic_filter.len == text.len && text.len >= sizeof(share) - 1 &&
		memcmp(text.data, share, sizeof(share) - 1) == 0)
	{
		*why = "malformed shared subscription";
		return FL_MQTT_RC_TOPIC_FILTER_INVALID;
	}
	if (!fl_acl_check(fl_mqtt_identity(conn), FL_ACTION_SUBSCRIBE, (const char *) topic_filter.data, topic_filter.len,
					  why))
		return FL_MQTT_RC_NOT_AUTHORIZED;
	if (find_filter(conn, text) != NULL)
		return FL_MQTT_RC_SUCCESS;
	return check_limits(conn, topic_filter);
}

/* ---- the packets ---- */

/* A new filter; NULL: it is for a group, and there is no room for another one. */
static FlMqttFilter *
make_filter(FlMqttConn *conn, const FlMqttSubscription *item)
{
	FlMqttFilter *filter = add_filter(conn, item->filter);

	filter->qos = item->qos;
	if (filter->skip == 0 || fl_mqtt_share_join(filter))
		return filter;
	remove_filter(filter);
	return NULL;
}

static uint8
subscribe_one(FlMqttConn *conn, const FlMqttSubscription *item, uint32 id)
{
	const char *why;
	FlMqttReason reason = check_filter(conn, item->filter, &why);
	FlMqttFilter *filter = NULL;
	bool is_new;

	if (reason == FL_MQTT_RC_SUCCESS)
		filter = find_filter(conn, item->filter);
	is_new = filter == NULL;
	if (is_new && reason == FL_MQTT_RC_SUCCESS && (filter = make_filter(conn, item)) == NULL)
	{
		why = "too many shared subscriptions";
		reason = FL_MQTT_RC_QUOTA_EXCEEDED;
	}
	if (filter == NULL)
	{
		if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_NOT_AUTHORISED))
			ereport(LOG, (errmsg("fleetlog: %s may not subscribe to \"%.*s\": %s", fl_mqtt_name(conn),
								 (int) Min(item->filter.len, 200), (const char *) item->filter.data,
								 why ? why : fl_mqtt_reason_name((uint8) reason))));
		/* SUBACK of 3.x knows one code for every refusal. */
		return conn->version == FL_MQTT_5_0 ? (uint8) reason : FL_MQTT_RC_UNSPECIFIED_ERROR;
	}
	/* The same filter again replaces the options (MQTT-3.8.4-3) and misses nothing. */
	filter->qos = item->qos;
	filter->no_local = item->no_local;
	filter->as_published = item->retain_as_published;
	filter->id = id;
	/* MQTT-3.3.1-9 to -11: always, for a new subscription only, never; for a group never (4.8.2). */
	if (filter->share == NULL && (item->retain_handling == 0 || (item->retain_handling == 1 && is_new)))
		fl_mqtt_want_retained(filter, is_new ? filter->since : fl_clock_tick());
	return filter->qos;
}

static void
send_suback(FlMqttConn *conn, FlMqttType type, uint16 packet_id, const uint8 *codes, uint32 count)
{
	FlMqttPacket packet;

	packet.type = type;
	packet.u.suback.packet_id = packet_id;
	packet.u.suback.codes.data = codes;
	packet.u.suback.codes.len = count;
	fl_mqtt_props_init(&packet.u.suback.props);
	fl_mqtt_send(conn, &packet);
}

void
fl_mqtt_handle_subscribe(FlMqttConn *conn, const FlMqttSubscribe *subscribe)
{
	uint8 *codes = MemoryContextAlloc(conn->door->turn, subscribe->count);
	uint32 id = fl_mqtt_props_int(&subscribe->props, FL_MQTT_P_SUBSCRIPTION_ID, 0);
	FlMqttListCursor at = {0, 0};
	FlMqttSubscription item;
	uint32 n = 0;

	while (n < subscribe->count && fl_mqtt_subscribe_next(subscribe, &at, &item))
		codes[n++] = subscribe_one(conn, &item, id);
	/* Feeds that nobody wanted until now begin in this turn, before the SUBACK leaves. */
	conn->door->interest_changed = true;
	conn->stats_dirty = true;
	send_suback(conn, FL_MQTT_SUBACK, subscribe->packet_id, codes, n);
}

void
fl_mqtt_handle_unsubscribe(FlMqttConn *conn, const FlMqttUnsubscribe *unsubscribe)
{
	uint8 *codes = MemoryContextAlloc(conn->door->turn, unsubscribe->count);
	FlMqttListCursor at = {0, 0};
	FlMqttBytes text;
	uint32 n = 0;

	while (n < unsubscribe->count && fl_mqtt_unsubscribe_next(unsubscribe, &at, &text))
	{
		FlMqttFilter *filter = find_filter(conn, text);

		codes[n++] = filter ? FL_MQTT_RC_SUCCESS : FL_MQTT_RC_NO_SUBSCRIPTION_EXISTED;
		if (filter)
			remove_filter(filter);
	}
	/* What is under way comes to its end (MQTT-3.10.4-3). */
	if (conn->sub != NULL && conn->sub->filter_count == 0 && conn->sub->restored_next >= conn->sub->restored_count)
		fl_mqtt_stop_lagging(conn);
	conn->door->interest_changed = true;
	conn->stats_dirty = true;
	send_suback(conn, FL_MQTT_UNSUBACK, unsubscribe->packet_id, codes, n);
}

/* ---- of a session ---- */

/*
 * Deliveries at QoS 2 are not written before they leave, and so would not be exact over
 * a crash: an identifier that the client still holds would be used for something new.
 */
bool
fl_mqtt_note_subscribe(FlMqttConn *conn, const FlMqttSubscribe *subscribe, FlBuf *out)
{
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_SUBSCRIBED);
	FlMqttListCursor at = {0, 0};
	FlMqttSubscription item;

	event.id = fl_mqtt_props_int(&subscribe->props, FL_MQTT_P_SUBSCRIPTION_ID, 0);
	for (uint32 n = 0; n < subscribe->count && fl_mqtt_subscribe_next(subscribe, &at, &item); n++)
	{
		const char *why;
		const FlMqttFilter *old = find_filter(conn, item.filter);

		if (check_filter(conn, item.filter, &why) != FL_MQTT_RC_SUCCESS)
			continue;
		if (item.qos == 2)
			return false;
		event.qos = item.qos;
		event.no_local = item.no_local;
		event.as_published = item.retain_as_published;
		event.since = old ? old->since : fl_clock_tick();
		event.text = item.filter.data;
		event.text_len = (uint16) item.filter.len;
		fl_session_encode_event(out, &event);
	}
	return true;
}

void
fl_mqtt_note_unsubscribe(FlMqttConn *conn, const FlMqttUnsubscribe *unsubscribe, FlBuf *out)
{
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_UNSUBSCRIBED);
	FlMqttListCursor at = {0, 0};
	FlMqttBytes text;

	for (uint32 n = 0; n < unsubscribe->count && fl_mqtt_unsubscribe_next(unsubscribe, &at, &text); n++)
	{
		if (find_filter(conn, text) == NULL)
			continue;
		event.text = text.data;
		event.text_len = (uint16) text.len;
		fl_session_encode_event(out, &event);
	}
}

bool
fl_mqtt_restore_filter(FlMqttConn *conn, const FlSessionEvent *event)
{
	FlMqttBytes text = {event->text, event->text_len};
	FlMqttBytes topic_filter = without(text, share_prefix(text));
	const char *why = NULL;
	FlMqttFilter *filter;

	if (!fl_acl_check(fl_mqtt_identity(conn), FL_ACTION_SUBSCRIBE, (const char *) topic_filter.data, topic_filter.len,
					  &why))
		return false;
	filter = add_filter(conn, text);
	filter->since = event->since;
	filter->qos = event->qos;
	filter->no_local = event->no_local;
	filter->as_published = event->as_published;
	filter->id = event->id;
	if (filter->skip == 0 || fl_mqtt_share_join(filter))
		return true;
	remove_filter(filter);
	return false;
}

/* ---- rights that are withdrawn ---- */

static void
check_connection(FlMqttConn *conn)
{
	dlist_iter iter;

	if (conn->state != FL_MQTT_STATE_OPEN || conn->sub == NULL)
		return;
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);
		const char *why = NULL;

		if (fl_acl_check(fl_mqtt_identity(conn), FL_ACTION_SUBSCRIBE, (const char *) filter->text + filter->skip,
						 filter->len - filter->skip, &why))
			continue;
		if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_NOT_AUTHORISED))
			ereport(LOG, (errmsg("fleetlog: %s is disconnected: its right to subscribe to \"%.*s\" was withdrawn",
								 fl_mqtt_name(conn), (int) Min(filter->len, 200), (const char *) filter->text)));
		fl_mqtt_disconnect(conn, FL_MQTT_RC_NOT_AUTHORIZED, "right to subscribe withdrawn");
		return;
	}
}

/* The configuration has changed: a subscription must not outlive its right (case O-D). */
void
fl_mqtt_check_rights(FlMqttDoor *door)
{
	if (door->acl_version == fl_catalog_version())
		return;
	door->acl_version = fl_catalog_version();
	fl_mqtt_each(door, check_connection);
}
