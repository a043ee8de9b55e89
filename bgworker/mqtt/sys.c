/*
 * sys.c
 *		$SYS/broker/...: the server's numbers as topics, under the names that operators
 *		of Mosquitto know, where they mean the same (REQUIREMENTS M9).
 *
 * They are in no stream.  Each door reads the totals from shared memory and hands
 * them to its own subscribers, at QoS 0: all of them when a subscription is made,
 * as retained messages, and afterwards every fleetlog.sys_interval what has changed.
 * Nobody subscribes: nothing is computed but the sample for the load.
 *
 * Who may subscribe is said by role.c: operators.  A filter that begins with a
 * wildcard selects none of them (MQTT-4.7.2-1), so nothing is checked per message.
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "fleetlog/session.h"
#include "fleetlog/topic.h"
#include "fleetlog/totals.h"
#include "mqtt.h"
#include "packet.h"

#define ROOT       "$SYS/broker/"
#define TOPIC_ROOM 64
#define VALUE_ROOM 40
#define FRESH_MS   1000 /* a new subscriber is not told anything older */

/* ---- what there is ---- */

typedef enum Source
{
	SYS_VERSION,
	SYS_UPTIME,
	SYS_COUNTER, /* arg: FlCounter */
	SYS_DROPPED,
	SYS_CONNECTED,
	SYS_DISCONNECTED,
	SYS_EXPIRED,
	SYS_TOTAL,
	SYS_MAXIMUM,
	SYS_SUBSCRIPTIONS,
	SYS_RETAINED,
	SYS_PAYLOAD_IN,
	SYS_PAYLOAD_OUT,
	SYS_LOAD /* arg: FlLoad; three topics */
} Source;

typedef struct SysTopic
{
	const char *name;
	Source source;
	int arg;
} SysTopic;

static const SysTopic topics[] = {
	{"version", SYS_VERSION, 0},
	{"uptime", SYS_UPTIME, 0},
	{"clients/connected", SYS_CONNECTED, 0},
	{"clients/disconnected", SYS_DISCONNECTED, 0},
	{"clients/expired", SYS_EXPIRED, 0},
	{"clients/maximum", SYS_MAXIMUM, 0},
	{"clients/total", SYS_TOTAL, 0},
	{"subscriptions/count", SYS_SUBSCRIPTIONS, 0},
	{"retained messages/count", SYS_RETAINED, 0},
	{"messages/received", SYS_COUNTER, FL_C_PACKETS_IN},
	{"messages/sent", SYS_COUNTER, FL_C_PACKETS_OUT},
	{"bytes/received", SYS_COUNTER, FL_C_BYTES_IN},
	{"bytes/sent", SYS_COUNTER, FL_C_BYTES_OUT},
	{"publish/messages/received", SYS_COUNTER, FL_C_PUBLISH_IN},
	{"publish/messages/sent", SYS_COUNTER, FL_C_PUBLISH_OUT},
	{"publish/messages/dropped", SYS_DROPPED, 0},
	{"publish/bytes/received", SYS_PAYLOAD_IN, 0},
	{"publish/bytes/sent", SYS_PAYLOAD_OUT, 0},
	{"heap/current", SYS_COUNTER, FL_C_MEMORY},
	{"load/connections", SYS_LOAD, FL_LOAD_CONNECTIONS},
	{"load/sockets", SYS_LOAD, FL_LOAD_SOCKETS},
	{"load/messages/received", SYS_LOAD, FL_LOAD_MESSAGES_IN},
	{"load/messages/sent", SYS_LOAD, FL_LOAD_MESSAGES_OUT},
	{"load/publish/received", SYS_LOAD, FL_LOAD_PUBLISH_IN},
	{"load/publish/sent", SYS_LOAD, FL_LOAD_PUBLISH_OUT},
	{"load/publish/dropped", SYS_LOAD, FL_LOAD_DROPPED},
	{"load/bytes/received", SYS_LOAD, FL_LOAD_BYTES_IN},
	{"load/bytes/sent", SYS_LOAD, FL_LOAD_BYTES_OUT},
};

#define MAX_VALUES (lengthof(topics) + FL_N_LOADS * (FL_LOAD_WINDOWS - 1))

typedef struct Value
{
	char topic[TOPIC_ROOM];
	char now[VALUE_ROOM];
	char told[VALUE_ROOM]; /* to those who were there; empty: nothing yet */
} Value;

/* A subscription that has not been told anything yet. */
typedef struct Newcomer
{
	dlist_node node;
	FlMqttFilter *filter;
} Newcomer;

struct FlMqttSys
{
	int64 due_ms;
	int64 read_ms; /* when the values were read; 0: never */
	dlist_head newcomers;
	int count;
	Value values[MAX_VALUES];
};

void
fl_mqtt_sys_init(FlMqttDoor *door)
{
	door->sys = MemoryContextAllocZero(door->context, sizeof(FlMqttSys));
	dlist_init(&door->sys->newcomers);
}

/* ---- reading ---- */

typedef struct Reading
{
	FlTotals totals;
	FlSessionCounts sessions;
	int64 retained;
	uint64 payload_in;
	uint64 payload_out;
} Reading;

/* The values in force of all mounts, as the server's statistics count rows; a state table may have several mounts. */
static int64
count_retained(FlMqttDoor *door)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);
	int64 n = 0;

	fl_mqtt_begin_transaction(door);
	for (int i = 0; i < count; i++)
	{
		bool seen = !OidIsValid(mounts[i].state);

		for (int j = 0; j < i && !seen; j++)
			seen = mounts[j].state == mounts[i].state;
		if (!seen)
			n += DatumGetInt64(DirectFunctionCall1(pg_stat_get_live_tuples, ObjectIdGetDatum(mounts[i].state)));
	}
	return n;
}

static Value *
next_value(FlMqttSys *sys, const char *name, const char *suffix)
{
	Value *value = &sys->values[sys->count++];

	if (value->topic[0] == '\0')
		snprintf(value->topic, sizeof(value->topic), ROOT "%s%s", name, suffix);
	return value;
}

static void
put_number(Value *value, int64 n)
{
	snprintf(value->now, sizeof(value->now), INT64_FORMAT, n);
}

static void
put_load(FlMqttSys *sys, const SysTopic *topic, const double *load)
{
	static const char *const windows[FL_LOAD_WINDOWS] = {"/1min", "/5min", "/15min"};

	for (int w = 0; w < FL_LOAD_WINDOWS; w++)
	{
		Value *value = next_value(sys, topic->name, windows[w]);

		snprintf(value->now, sizeof(value->now), "%.2f", load[w]);
	}
}

static void
put_topic(FlMqttSys *sys, const SysTopic *topic, const Reading *r)
{
	Value *value = topic->source != SYS_LOAD ? next_value(sys, topic->name, "") : NULL;

	switch (topic->source)
	{
		case SYS_VERSION:
			snprintf(value->now, sizeof(value->now), "fleetlog %s", FL_VERSION);
			break;
		case SYS_UPTIME:
			snprintf(value->now, sizeof(value->now), INT64_FORMAT " seconds",
					 Max(GetCurrentTimestamp() - r->totals.since, 0) / USECS_PER_SEC);
			break;
		case SYS_COUNTER:
			put_number(value, (int64) r->totals.counters[topic->arg]);
			break;
		case SYS_DROPPED:
			put_number(value, (int64) r->totals.dropped);
			break;
		case SYS_CONNECTED:
			put_number(value, r->totals.clients);
			break;
		case SYS_DISCONNECTED:
			put_number(value, r->sessions.away);
			break;
		case SYS_EXPIRED:
			put_number(value, (int64) r->sessions.expired);
			break;
		case SYS_TOTAL:
			put_number(value, r->totals.clients + r->sessions.away);
			break;
		case SYS_MAXIMUM:
			put_number(value, r->totals.max_clients);
			break;
		case SYS_SUBSCRIPTIONS:
			put_number(value, (int64) r->totals.counters[FL_C_SUBSCRIPTIONS] + r->sessions.subscriptions_away);
			break;
		case SYS_RETAINED:
			put_number(value, r->retained);
			break;
		case SYS_PAYLOAD_IN:
			put_number(value, (int64) r->payload_in);
			break;
		case SYS_PAYLOAD_OUT:
			put_number(value, (int64) r->payload_out);
			break;
		case SYS_LOAD:
			put_load(sys, topic, r->totals.load[topic->arg]);
			break;
	}
}

static void
read_values(FlMqttDoor *door)
{
	FlMqttSys *sys = door->sys;
	Reading r;

	fl_totals_read(&r.totals);
	fl_session_counts(&r.sessions);
	fl_mount_totals(&r.payload_in, &r.payload_out);
	r.retained = count_retained(door);
	sys->count = 0;
	for (int i = 0; i < (int) lengthof(topics); i++)
		put_topic(sys, &topics[i], &r);
	Assert(sys->count == MAX_VALUES);
	sys->read_ms = fl_net_now(door->net);
}

/* ---- telling ---- */

static void
make_message(FlMqttDoor *door, const Value *value, FlMqttMessage *message)
{
	memset(message, 0, sizeof(*message));
	fl_mqtt_props_init(&message->publish.props);
	message->ts = GetCurrentTimestamp();
	message->log_offset = -1;
	message->epoch = -1;
	message->feed = -1;
	message->aside = true;
	message->publish.topic.data = (const uint8 *) value->topic;
	message->publish.topic.len = (uint32) strlen(value->topic);
	message->publish.payload.data = (const uint8 *) value->now;
	message->publish.payload.len = (uint32) strlen(value->now);
}

/* An error is the subscriber's; what does not fit is dropped and counted, as at QoS 0 always. */
static void
deliver(FlMqttDoor *door, FlMqttConn *conn, FlMqttMessage *message, const FlMqttHow *how)
{
	door->current = conn;
	(void) fl_mqtt_deliver(conn, &message, how);
	door->current = NULL;
}

static void
on_found(void *item, void *arg)
{
	FlMqttFilter *filter = item;

	if (filter->share == NULL && filter->conn->state == FL_MQTT_STATE_OPEN && !filter->conn->sub->ending)
		fl_mqtt_add_target((FlMqttDoor *) arg, filter);
}

static void
tell_all(FlMqttDoor *door, const Value *value)
{
	FlMqttMessage *message = &door->message;

	make_message(door, value, message);
	fl_mqtt_begin_match(door);
	fl_trie_match(door->trie, message->publish.topic.data, message->publish.topic.len, on_found, door);
	for (uint32 i = 0; i < door->target_count; i++)
	{
		FlMqttTarget *target = &door->targets[i];
		FlMqttHow how = {.retain = target->as_published};

		fl_mqtt_target_ids(door, target, &how);
		deliver(door, target->conn, message, &how);
	}
}

static void
tell_changes(FlMqttDoor *door)
{
	FlMqttSys *sys = door->sys;

	for (int i = 0; i < sys->count; i++)
	{
		Value *value = &sys->values[i];

		if (strcmp(value->now, value->told) == 0)
			continue;
		tell_all(door, value);
		strcpy(value->told, value->now);
	}
}

static void
tell_newcomer(FlMqttDoor *door, FlMqttFilter *filter)
{
	FlMqttHow how = {.retain = true, .ids = &filter->id, .id_count = filter->id != 0 ? 1 : 0};
	FlMqttBytes text = fl_mqtt_topic_filter(filter);
	FlMqttConn *conn = filter->conn;

	for (int i = 0; i < door->sys->count && fl_net_is_open(&conn->net) && !conn->sub->ending; i++)
	{
		FlMqttMessage *message = &door->message;

		make_message(door, &door->sys->values[i], message);
		if (fl_topic_matches(message->publish.topic.data, message->publish.topic.len, text.data, text.len))
			deliver(door, conn, message, &how);
	}
}

/* ---- who wants to know ---- */

bool
fl_mqtt_is_sys(FlMqttBytes text)
{
	return text.len >= 4 && memcmp(text.data, "$SYS", 4) == 0 && (text.len == 4 || text.data[4] == '/');
}

/* The filter, which is registered, is to be told what there is. */
void
fl_mqtt_sys_want(FlMqttFilter *filter)
{
	FlMqttDoor *door = filter->conn->door;
	FlMqttBytes text = fl_mqtt_topic_filter(filter);
	Newcomer *newcomer;

	if (!fl_mqtt_is_sys(text) || fl_mqtt_sys_interval_s == 0)
		return;
	fl_mqtt_sys_forget(filter);
	newcomer = MemoryContextAlloc(door->context, sizeof(Newcomer));
	newcomer->filter = filter;
	dlist_push_tail(&door->sys->newcomers, &newcomer->node);
}

void
fl_mqtt_sys_forget(const FlMqttFilter *filter)
{
	FlMqttDoor *door = filter->conn->door;
	dlist_mutable_iter iter;

	dlist_foreach_modify (iter, &door->sys->newcomers)
	{
		Newcomer *newcomer = dlist_container(Newcomer, node, iter.cur);

		if (newcomer->filter != filter)
			continue;
		dlist_delete(&newcomer->node);
		pfree(newcomer);
	}
}

static void
serve_newcomers(FlMqttDoor *door)
{
	FlMqttSys *sys = door->sys;

	if (dlist_is_empty(&sys->newcomers))
		return;
	if (sys->read_ms == 0 || fl_net_now(door->net) - sys->read_ms >= FRESH_MS)
		read_values(door);
	while (!dlist_is_empty(&sys->newcomers))
	{
		Newcomer *newcomer = dlist_head_element(Newcomer, node, &sys->newcomers);
		FlMqttFilter *filter = newcomer->filter;

		/* It is told once, whatever comes of it. */
		dlist_delete(&newcomer->node);
		pfree(newcomer);
		tell_newcomer(door, filter);
	}
}

void
fl_mqtt_sys_run(FlMqttDoor *door)
{
	FlMqttSys *sys = door->sys;
	int64 now = fl_net_now(door->net);
	int64 interval = fl_mqtt_sys_interval_s * INT64CONST(1000);

	if (interval == 0)
		return;
	serve_newcomers(door);
	/* The setting may have become smaller, and the test clock may step back. */
	if (now < sys->due_ms && sys->due_ms - now <= interval)
		return;
	sys->due_ms = now + interval;
	fl_load_sample(fl_mqtt_sys_interval_s);
	if (!fl_trie_touches_prefix(door->trie, (const uint8 *) ROOT, strlen(ROOT)))
		return;
	read_values(door);
	tell_changes(door);
}
