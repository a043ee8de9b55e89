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
#include "reading.h"
#include "share.h"

#define SEARCH_OWN_LIST 256 /* filters up to which the own list is searched */
#define SHARE			"$share/"
#define SHARE_LEN		(sizeof(SHARE) - 1)

/* ---- one connection's filters ---- */

static void
set_queue_limits(FlMqttConn *conn)
{
	const FlTenant *tenant = fl_mqtt_tenant(conn);

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

/* Length of the `$share/group/` or `$s/from/` that the text begins with; 0: it is an ordinary filter. */
static uint16
filter_prefix(FlMqttBytes text)
{
	const uint8_t *group;
	const uint8_t *filter;
	const char *why;
	FlHistoryFrom from;
	size_t group_len;
	size_t len;

	if (text.len == 0 || text.data[0] != '$')
		return 0;
	if (fl_topic_share_parse(text.data, text.len, &group, &group_len, &filter, &len) == FL_SHARE_OK)
		return (uint16) (text.len - len);
	return fl_history_topic_parse(text.data, text.len, &from, &len, &why) == FL_HISTORY_TOPIC_OK ? (uint16) len : 0;
}

static bool
is_shared(FlMqttBytes text)
{
	return text.len >= SHARE_LEN && memcmp(text.data, SHARE, SHARE_LEN) == 0;
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
		FlMqttBytes topic_filter = without(text, filter_prefix(text));

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
	fl_mqtt_sys_forget(filter);
	fl_trie_remove(conn->door->trie, filter->text + filter->skip, filter->len - filter->skip, filter);
	dlist_delete(&filter->node);
	conn->sub->filter_count--;
	if (filter->wildcard)
		conn->sub->wildcard_count--;
	FL_COUNT(FL_C_SUBSCRIPTIONS, -1);
	if (filter->starts != NULL)
		pfree(filter->starts);
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
	filter->skip = filter_prefix(text);
	filter->wildcard = fl_topic_filter_has_wildcard(text.data, text.len);
	filter->since = fl_clock_tick();
	if (!fl_trie_insert(conn->door->trie, filter->text + filter->skip, filter->len - filter->skip, filter))
		elog(ERROR, "fleetlog: out of memory in the subscription index");
	dlist_push_tail(&sub->filters, &filter->node);
	sub->filter_count++;
	/* The reader does not know of it. */
	fl_mqtt_cancel_asks(conn);
	fl_mqtt_reserve_ids(conn->door, sub->filter_count);
	if (filter->wildcard)
		sub->wildcard_count++;
	FL_COUNT(FL_C_SUBSCRIPTIONS, 1);
	return filter;
}

/* ---- may it? ---- */

/* Limits of devices (M8); others have none but the number of levels. */
static FlMqttReason
check_limits(FlMqttConn *conn, FlMqttBytes text, const char **why)
{
	const FlTenant *tenant = fl_mqtt_tenant(conn);
	int levels = fl_topic_levels(text.data, text.len);
	uint32 held = conn->sub ? conn->sub->filter_count : 0;
	uint32 wild = conn->sub ? conn->sub->wildcard_count : 0;

	if (levels > conn->max_levels)
	{
		*why = "the filter has too many levels";
		return FL_MQTT_RC_TOPIC_FILTER_INVALID;
	}
	*why = "it holds as many subscriptions as it may";
	if (conn->session.number != 0 && held >= FL_SESSION_MAX_SUBSCRIPTIONS)
		return FL_MQTT_RC_QUOTA_EXCEEDED;
	if (tenant == NULL)
		return FL_MQTT_RC_SUCCESS;
	if (tenant->max_subscriptions > 0 && held >= (uint32) tenant->max_subscriptions)
		return FL_MQTT_RC_QUOTA_EXCEEDED;
	*why = "it holds as many subscriptions with wildcards as it may";
	if (tenant->max_wildcard_subscriptions > 0 && wild >= (uint32) tenant->max_wildcard_subscriptions &&
		fl_topic_filter_has_wildcard(text.data, text.len))
		return FL_MQTT_RC_QUOTA_EXCEEDED;
	return FL_MQTT_RC_SUCCESS;
}

static FlMqttReason
check_filter(FlMqttConn *conn, FlMqttBytes text, const char **why)
{
	FlMqttBytes topic_filter = without(text, filter_prefix(text));

	*why = NULL;
	/* The codec has refused it in 5.0; in 3.x it would be a filter that selects nothing. */
	if (topic_filter.len == text.len && is_shared(text))
	{
		*why = "malformed shared subscription";
		return FL_MQTT_RC_TOPIC_FILTER_INVALID;
	}
	if (!fl_acl_check(fl_mqtt_identity(conn), FL_ACTION_SUBSCRIBE, (const char *) topic_filter.data, topic_filter.len,
					  why))
		return FL_MQTT_RC_NOT_AUTHORIZED;
	if (topic_filter.len < text.len && fl_mqtt_is_sys(topic_filter))
	{
		*why = "what is below $SYS has no history, and goes to each subscriber";
		return FL_MQTT_RC_TOPIC_FILTER_INVALID;
	}
	if (find_filter(conn, text) != NULL)
		return FL_MQTT_RC_SUCCESS;
	return check_limits(conn, topic_filter, why);
}

/* One filter of a SUBSCRIBE, and what comes of it. */
typedef struct Request
{
	FlMqttBytes topic_filter;
	FlMqttReason reason;
	const char *why;    /* of a refusal; else of where history begins; NULL: there is nothing to say */
	const char *resume; /* where to begin instead, NULL: no such thing */
	bool history;
	FlMqttStart start; /* of history */
} Request;

/* Where it is to begin, by the wishes of the packet or by the filter itself; false: it cannot be had. */
static bool
find_from(const FlMqttSubscription *item, const FlMqttWishes *wishes, FlHistoryFrom *own, const FlHistoryFrom **from,
		  Request *request)
{
	size_t skip;

	*from = wishes->from;
	request->reason = FL_MQTT_RC_IMPLEMENTATION_SPECIFIC_ERROR;
	request->why = wishes->bad;
	if (wishes->bad != NULL)
		return false;
	switch (fl_history_topic_parse(item->filter.data, item->filter.len, own, &skip, &request->why))
	{
		case FL_HISTORY_TOPIC_NONE:
			break;
		case FL_HISTORY_TOPIC_INVALID:
			request->reason = FL_MQTT_RC_TOPIC_FILTER_INVALID;
			return false;
		case FL_HISTORY_TOPIC_OK:
			request->why = "fl-from beside $s/";
			if (wishes->from != NULL)
				return false;
			*from = own;
			break;
	}
	request->why = "a shared subscription begins where its group is";
	if (*from == NULL && is_shared(item->filter))
	{
		FlMqttBytes inner = without(item->filter, filter_prefix(item->filter));

		request->reason = FL_MQTT_RC_TOPIC_FILTER_INVALID;
		return inner.len < 3 || memcmp(inner.data, "$s/", 3) != 0;
	}
	return *from == NULL || !is_shared(item->filter);
}

static void
examine(FlMqttConn *conn, const FlMqttSubscription *item, FlMqttWishes *wishes, Request *request)
{
	const FlHistoryFrom *from;
	FlHistoryFrom own;

	memset(request, 0, sizeof(*request));
	if (!find_from(item, wishes, &own, &from, request))
		return;
	request->topic_filter = without(item->filter, filter_prefix(item->filter));
	request->reason = check_filter(conn, item->filter, &request->why);
	if (request->reason != FL_MQTT_RC_SUCCESS)
		return;
	request->why = NULL;
	if (from == NULL)
		return;
	request->history = true;
	if (!fl_mqtt_may_seek(conn, wishes, from))
	{
		request->reason = FL_MQTT_RC_QUOTA_EXCEEDED;
		request->why = "one packet asks for too much history";
	}
	else if (!fl_mqtt_plan_history(conn, request->topic_filter, from, &request->start, &request->why, &request->resume))
		request->reason = FL_MQTT_RC_IMPLEMENTATION_SPECIFIC_ERROR;
}

/* ---- the packets ---- */

/* A new filter; NULL: it is for a group, and there is no room for another one. */
static FlMqttFilter *
make_filter(FlMqttConn *conn, const FlMqttSubscription *item)
{
	FlMqttFilter *filter = add_filter(conn, item->filter);

	filter->qos = item->qos;
	if (!is_shared(item->filter) || fl_mqtt_share_join(filter, false))
		return filter;
	remove_filter(filter);
	return NULL;
}

static uint8
position_wish(const FlMqttWishes *wishes, FlMqttBytes topic_filter)
{
	if (!wishes->position)
		return FL_MQTT_POSITION_OFF;
	return fl_mqtt_reaches_several(topic_filter) ? FL_MQTT_POSITION_WITH_STREAM : FL_MQTT_POSITION_ON;
}

/* What is lost and what is to come yet, in words for the SUBACK. */
static const char *
describe_start(FlMqttConn *conn, const FlMqttStart *start)
{
	char *text;

	if (start->lost == 0 && start->ahead == 0)
		return NULL;
	text = MemoryContextAlloc(conn->door->turn, 160);
	if (start->lost > 0)
		snprintf(text, 160, UINT64_FORMAT " records that were asked for are gone; it begins at the oldest", start->lost);
	else
		snprintf(text, 160, INT64_FORMAT " records before the position are not there yet", start->ahead);
	return text;
}

static uint8
refuse_one(FlMqttConn *conn, const FlMqttSubscription *item, Request *request)
{
	if (request->why == NULL)
		request->why = fl_mqtt_reason_name((uint8) request->reason);
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_NOT_AUTHORISED))
		ereport(LOG, (errmsg("fleetlog: %s may not subscribe to \"%.*s\": %s", fl_mqtt_name(conn),
							 (int) Min(item->filter.len, 200), (const char *) item->filter.data, request->why)));
	/* SUBACK of 3.x knows one code for every refusal, and so does the Paho suite's parser. */
	return conn->version == FL_MQTT_5_0 && fl_mqtt_dialect != FL_MQTT_DIALECT_PAHO ? (uint8) request->reason
																				   : FL_MQTT_RC_UNSPECIFIED_ERROR;
}

static uint8
subscribe_one(FlMqttConn *conn, const FlMqttSubscription *item, uint32 id, FlMqttWishes *wishes,
			  Request *request)
{
	FlMqttFilter *filter = NULL;
	bool is_new;

	examine(conn, item, wishes, request);
	if (request->reason == FL_MQTT_RC_SUCCESS)
		filter = find_filter(conn, item->filter);
	is_new = filter == NULL;
	if (is_new && request->reason == FL_MQTT_RC_SUCCESS && (filter = make_filter(conn, item)) == NULL)
	{
		request->why = "too many shared subscriptions";
		request->reason = FL_MQTT_RC_QUOTA_EXCEEDED;
	}
	if (filter == NULL)
		return refuse_one(conn, item, request);
	/* The same filter again replaces the options (MQTT-3.8.4-3) and misses nothing. */
	filter->qos = item->qos;
	filter->no_local = item->no_local;
	filter->as_published = item->retain_as_published;
	filter->id = id;
	filter->end_on_drop = wishes->end_on_drop;
	filter->position = position_wish(wishes, request->topic_filter);
	if (request->history)
	{
		fl_mqtt_begin_history(filter, &request->start);
		request->why = describe_start(conn, &request->start);
	}
	/* MQTT-3.3.1-9 to -11: always, for a new subscription only, never; for a group never (4.8.2). */
	if (filter->share == NULL && (item->retain_handling == 0 || (item->retain_handling == 1 && is_new)))
	{
		fl_mqtt_want_retained(filter, is_new ? filter->since : fl_clock_tick(),
							  request->history ? &request->start : NULL);
		fl_mqtt_sys_want(filter);
	}
	return filter->qos;
}

static void
send_suback(FlMqttConn *conn, FlMqttType type, uint16 packet_id, const uint8 *codes, uint32 count, const char *why,
			const char *resume)
{
	FlMqttUserProperty users[] = {{{(const uint8 *) "fl-resume", 9}, {(const uint8 *) resume, 0}}};
	FlMqttPacket packet;

	packet.type = type;
	packet.u.suback.packet_id = packet_id;
	packet.u.suback.codes.data = codes;
	packet.u.suback.codes.len = count;
	fl_mqtt_props_init(&packet.u.suback.props);
	/* MQTT-3.1.2-29; MQTT-3.9.2-2: what makes it too large is not sent. */
	if (resume != NULL && !conn->no_problem_info)
	{
		users[0].value.len = (uint32) strlen(resume);
		packet.u.suback.props.users = users;
		packet.u.suback.props.user_count = 1;
		fl_mqtt_encode(&conn->door->out, (FlMqttVersion) conn->version, &packet);
		if (conn->door->out.len > conn->max_packet)
			fl_mqtt_props_init(&packet.u.suback.props);
		fl_buf_reset(&conn->door->out);
	}
	fl_mqtt_send_reason(conn, &packet, &packet.u.suback.props, why);
}

void
fl_mqtt_handle_subscribe(FlMqttConn *conn, const FlMqttSubscribe *subscribe)
{
	uint8 *codes = MemoryContextAlloc(conn->door->turn, subscribe->count);
	uint32 id = fl_mqtt_props_int(&subscribe->props, FL_MQTT_P_SUBSCRIPTION_ID, 0);
	const char *why = NULL;
	const char *resume = NULL;
	FlMqttListCursor at = {0, 0};
	FlMqttSubscription item;
	FlMqttWishes wishes;
	uint32 n = 0;

	fl_mqtt_read_wishes(&subscribe->props, &wishes);
	while (n < subscribe->count && fl_mqtt_subscribe_next(subscribe, &at, &item))
	{
		Request request;

		codes[n++] = subscribe_one(conn, &item, id, &wishes, &request);
		/* Of several, what is to be said of the first one. */
		why = why != NULL ? why : request.why;
		resume = resume != NULL ? resume : request.resume;
	}
	/* Feeds that nobody wanted until now begin in this turn, before the SUBACK leaves. */
	conn->door->interest_changed = true;
	conn->stats_dirty = true;
	send_suback(conn, FL_MQTT_SUBACK, subscribe->packet_id, codes, n, why, resume);
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
	else if (conn->sub != NULL && conn->sub->rewound)
		fl_mqtt_skip_history(conn);
	conn->door->interest_changed = true;
	conn->stats_dirty = true;
	send_suback(conn, FL_MQTT_UNSUBACK, unsubscribe->packet_id, codes, n, NULL, NULL);
}

/* ---- of a session ---- */

static void
note_filter(FlMqttConn *conn, const FlMqttSubscription *item, const Request *request, FlSessionEvent *event, FlBuf *out)
{
	const FlMqttFilter *old = find_filter(conn, item->filter);

	event->qos = item->qos;
	event->no_local = item->no_local;
	event->as_published = item->retain_as_published;
	event->since = request->history ? request->start.since : old ? old->since : fl_clock_tick();
	event->text = item->filter.data;
	event->text_len = (uint16) item->filter.len;
	fl_session_encode_event(out, event);
}

void
fl_mqtt_note_subscribe(FlMqttConn *conn, const FlMqttSubscribe *subscribe, FlBuf *out, bool *nothing)
{
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_SUBSCRIBED);
	Request *requests = MemoryContextAlloc(conn->door->turn, sizeof(Request) * subscribe->count);
	FlMqttListCursor at = {0, 0};
	FlMqttSubscription item;
	FlMqttWishes wishes;
	FlMqttSeek seek;

	*nothing = true;
	fl_mqtt_read_wishes(&subscribe->props, &wishes);
	fl_mqtt_seek_init(conn->door, &seek, (int) subscribe->count);
	for (uint32 n = 0; n < subscribe->count && fl_mqtt_subscribe_next(subscribe, &at, &item); n++)
	{
		examine(conn, &item, &wishes, &requests[n]);
		if (requests[n].reason != FL_MQTT_RC_SUCCESS)
			continue;
		*nothing = false;
		if (requests[n].history)
			fl_mqtt_seek_add(&seek, item.filter, &requests[n].start);
	}
	fl_mqtt_encode_checkpoint(conn, out, false, seek.filter_count > 0 ? &seek : NULL);
	at = (FlMqttListCursor) {0, 0};
	event.id = fl_mqtt_props_int(&subscribe->props, FL_MQTT_P_SUBSCRIPTION_ID, 0);
	event.end_on_drop = wishes.end_on_drop;
	for (uint32 n = 0; n < subscribe->count && fl_mqtt_subscribe_next(subscribe, &at, &item); n++)
		if (requests[n].reason == FL_MQTT_RC_SUCCESS)
		{
			event.position = position_wish(&wishes, requests[n].topic_filter);
			if (is_shared(item.filter) && find_filter(conn, item.filter) == NULL)
				fl_mqtt_encode_joined_starts(conn, out, item.filter, requests[n].topic_filter);
			note_filter(conn, &item, &requests[n], &event, out);
		}
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

/* Its group goes on where it was, if it has to be made anew. */
static bool
restore_share(FlMqttFilter *filter, const uint8 *events, Size len)
{
	bool joined;

	fl_mqtt_restore_share_starts(filter, events, len);
	joined = fl_mqtt_share_join(filter, true);
	fl_mqtt_free_starts(filter);
	return joined;
}

bool
fl_mqtt_restore_filter(FlMqttConn *conn, const FlSessionEvent *event, const uint8 *events, Size len)
{
	FlMqttBytes text = {event->text, event->text_len};
	FlMqttBytes topic_filter = without(text, filter_prefix(text));
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
	filter->position = event->position;
	filter->end_on_drop = event->end_on_drop;
	filter->id = event->id;
	if (!is_shared(text) || restore_share(filter, events, len))
		return true;
	remove_filter(filter);
	return false;
}

/* ---- rights that are withdrawn ---- */

static void
check_connection(FlMqttConn *conn)
{
	dlist_iter iter;

	if (conn->who == NULL || !fl_net_is_open(&conn->net))
		return;
	if (conn->who->kind == FL_IDENTITY_ROLE && !fl_role_is_same(fl_mqtt_identity(conn)))
	{
		if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_LOGIN))
			ereport(LOG, (errmsg("fleetlog: %s is disconnected: its role was changed or dropped, or has another password",
								 fl_mqtt_name(conn)),
						  errhint("It may log in again by what is valid now.")));
		conn->end_logged = true;
		/* Who may no longer log in leaves no last word either. */
		conn->no_will = true;
		fl_mqtt_disconnect(conn, FL_MQTT_RC_NOT_AUTHORIZED, "the role has changed");
		return;
	}
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
								 fl_mqtt_name(conn), (int) Min(filter->len, 200), (const char *) filter->text),
						  errhint("%s", fl_mqtt_remedy(FL_MQTT_RC_NOT_AUTHORIZED))));
		conn->end_logged = true;
		fl_mqtt_disconnect(conn, FL_MQTT_RC_NOT_AUTHORIZED, "right to subscribe withdrawn");
		return;
	}
}

/* The configuration has changed: a subscription must not outlive its right (case O-D). */
void
fl_mqtt_check_rights(FlMqttDoor *door)
{
	if (door->acl_version == fl_catalog_version() && door->roles_version == fl_roles_version())
		return;
	door->acl_version = fl_catalog_version();
	door->roles_version = fl_roles_version();
	fl_mqtt_each(door, check_connection);
}
