/*
 * retained.c
 *		Values in force, sent when a subscription is made (MQTT-3.3.1-9).
 *
 * A subscription is registered first; the values are read afterwards, in a turn of
 * their own and a few rows at a time, so that a filter that selects a million
 * topics holds up nobody (REQUIREMENTS M5).
 *
 * The seam: the read begins when the feed has passed everything that was durable
 * when the subscription was made.  At that moment each shard's feed position is
 * noted.  A row whose record lies below its position is sent here, as retained;
 * whatever lies beyond comes by the feed, also what was appended before the
 * subscription and became durable only now.  So a value is sent once, and none
 * slips in between.
 *
 * Between two turns a scan is a topic behind which it goes on; nothing is open.
 */
#include "postgres.h"

#include "utils/snapmgr.h"

#include "fleetlog/state.h"
#include "fleetlog/topic.h"
#include "mqtt.h"
#include "packet.h"

typedef struct RetainedScan
{
	dlist_node node; /* in door->retained */
	uint64 conn_id;
	TimestampTz since; /* a tick of the append clock, when the subscription was made */
	bool started;
	int feed_count;
	int64 *durable;   /* by feed: the durable tail when the subscription was made */
	int64 *positions; /* by feed: where it was when the read began */
	bool history;     /* the subscription begins in the past: */
	TimestampTz from_ts; /* what was appended then or later, */
	int64 *from;         /* and by feed what lies there or beyond, comes from the log */
	Oid state;        /* table and stream being read, or read last */
	Oid stream;
	uint8 *after; /* the last key of that; NULL: from the beginning */
	uint32 after_len;
	uint32 prefix_len; /* of the topic filter: what all topics begin with */
	uint16 skip;       /* of text: what stands before the topic filter */
	uint16 len;
	uint8 text[FLEXIBLE_ARRAY_MEMBER];
} RetainedScan;

/* ---- what is offered ---- */

bool
fl_mqtt_retain_available(void)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int i = 0; i < count; i++)
		if (OidIsValid(mounts[i].state))
			return true;
	return false;
}

bool
fl_mqtt_can_retain(const char *topic, Size len)
{
	const FlMount *mount = fl_mount_match(topic, len);

	return mount != NULL && OidIsValid(mount->state);
}

/* ---- asking for it ---- */

/* All topics of `a/+/b` begin with `a/`; those of `a/#` with `a`, which is one itself. */
static uint32
literal_prefix(const uint8 *filter, uint32 len)
{
	uint32 level = 0;

	for (uint32 i = 0; i < len; i++)
	{
		if (filter[i] == '+')
			return level;
		if (filter[i] == '#')
			return level > 0 ? level - 1 : 0;
		if (filter[i] == '/')
			level = i + 1;
	}
	return len;
}

static int64
durable_tail(FlMqttFeed *feed)
{
	int64 head;
	int64 tail;

	return !feed->gone && fl_mqtt_feed_bounds(feed, &head, &tail) ? tail : 0;
}

static void
free_scan(RetainedScan *scan)
{
	dlist_delete(&scan->node);
	if (scan->after != NULL)
		pfree(scan->after);
	pfree(scan->durable);
	if (scan->from != NULL)
		pfree(scan->from);
	if (scan->positions != NULL)
		pfree(scan->positions);
	pfree(scan);
}

static bool
is_same(const RetainedScan *scan, const FlMqttFilter *filter)
{
	return scan->conn_id == filter->conn->id && scan->len == filter->len &&
		   memcmp(scan->text, filter->text, filter->len) == 0;
}

static const uint8 *
topic_filter(const RetainedScan *scan)
{
	return scan->text + scan->skip;
}

static void
note_history(RetainedScan *scan, FlMqttDoor *door, const FlMqttStart *history)
{
	scan->history = true;
	scan->from_ts = history->since;
	scan->from = MemoryContextAlloc(door->context, sizeof(int64) * (Size) Max(scan->feed_count, 1));
	memcpy(scan->from, history->from, sizeof(int64) * (Size) Min(history->count, scan->feed_count));
}

/*
 * Where history is asked for, it brings what it begins with and all behind; only
 * values that are older come from the table.
 */
void
fl_mqtt_want_retained(FlMqttFilter *filter, TimestampTz since, const FlMqttStart *history)
{
	FlMqttDoor *door = filter->conn->door;
	RetainedScan *scan;
	dlist_mutable_iter iter;

	if (!fl_mqtt_retain_available())
		return;
	/* Subscribed again before the last answer was complete: once more, from the beginning. */
	dlist_foreach_modify (iter, &door->retained)
	{
		scan = dlist_container(RetainedScan, node, iter.cur);
		if (is_same(scan, filter))
			free_scan(scan);
	}
	scan = MemoryContextAllocZero(door->context, offsetof(RetainedScan, text) + filter->len);
	scan->conn_id = filter->conn->id;
	scan->since = since;
	scan->feed_count = door->feed_count;
	scan->durable = MemoryContextAlloc(door->context, sizeof(int64) * (Size) Max(door->feed_count, 1));
	for (int i = 0; i < door->feed_count; i++)
		scan->durable[i] = durable_tail(&door->feeds[i]);
	if (history != NULL)
		note_history(scan, door, history);
	scan->skip = filter->skip;
	scan->len = filter->len;
	memcpy(scan->text, filter->text, filter->len);
	scan->prefix_len = literal_prefix(topic_filter(scan), scan->len - scan->skip);
	dlist_push_tail(&door->retained, &scan->node);
}

/* ---- the seam ---- */

/* Where the feed of one number stands for this connection. */
static int64
position_of(FlMqttDoor *door, const FlMqttConn *conn, int feed)
{
	const FlMqttSubscriber *sub = conn->sub;

	/* One that reads by itself gets by itself what lies beyond its own position. */
	if (sub->lagging && feed < sub->cursor_count)
		return sub->cursors[feed].offset;
	return door->feeds[feed].pos.offset;
}

/* False: the feed has not passed yet what was durable at the time of the subscription. */
static bool
start_scan(FlMqttDoor *door, FlMqttConn *conn, FlMqttFilter *filter, RetainedScan *scan)
{
	for (int i = 0; i < scan->feed_count; i++)
	{
		FlMqttFeed *feed = &door->feeds[i];

		if (feed->wanted && !feed->gone && feed->pos.offset < scan->durable[i])
			return false;
	}
	/* Feeds that came since then bring all of theirs. */
	scan->positions = MemoryContextAlloc(door->context, sizeof(int64) * (Size) Max(scan->feed_count, 1));
	for (int i = 0; i < scan->feed_count; i++)
		scan->positions[i] = position_of(door, conn, i);
	/* From here on what the feed brings is for this filter, however old it is. */
	if (!scan->history)
		filter->since = 0;
	scan->started = true;
	return true;
}

/* Does this row's record come, or did it come, by the feed? */
static bool
comes_live(FlMqttDoor *door, const RetainedScan *scan, const FlStateRow *row)
{
	for (int i = 0; i < scan->feed_count; i++)
	{
		if (door->feeds[i].stream != scan->stream || door->feeds[i].shard != row->shard)
			continue;
		if (scan->history)
			return scan->from[i] == FL_MQTT_FROM_TIME ? row->rec.ts >= scan->from_ts
													  : row->rec.log_offset >= scan->from[i];
		if (row->rec.log_offset >= scan->positions[i])
			return true;
		/* Between subscription and read the feed brought what was appended after the subscription. */
		return row->rec.log_offset >= scan->durable[i] && row->rec.ts >= scan->since;
	}
	return true;
}

/* ---- reading ---- */

static bool
may_share_topics(const FlMount *mount, const RetainedScan *scan)
{
	return memcmp(mount->prefix, topic_filter(scan), Min(mount->prefix_len, scan->prefix_len)) == 0;
}

static int
compare_places(Oid state, Oid stream, Oid state2, Oid stream2)
{
	if (state != state2)
		return state < state2 ? -1 : 1;
	return stream < stream2 ? -1 : stream > stream2;
}

/* The next (table, stream) that may have rows for the filter; false: none. */
static bool
next_place(RetainedScan *scan)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);
	const FlMount *best = NULL;

	for (int i = 0; i < count; i++)
	{
		if (!OidIsValid(mounts[i].state) || !may_share_topics(&mounts[i], scan) ||
			compare_places(mounts[i].state, mounts[i].stream, scan->state, scan->stream) <= 0)
			continue;
		if (best == NULL || compare_places(mounts[i].state, mounts[i].stream, best->state, best->stream) < 0)
			best = &mounts[i];
	}
	if (best == NULL)
		return false;
	scan->state = best->state;
	scan->stream = best->stream;
	if (scan->after != NULL)
		pfree(scan->after);
	scan->after = NULL;
	return true;
}

/* The row's mount; NULL when its topic is not, or no longer, kept there. */
static const FlMount *
mount_of(const RetainedScan *scan, const FlStateRow *row)
{
	const FlMount *mount = fl_mount_match(row->key, (size_t) row->key_len);

	return mount != NULL && mount->state == scan->state && mount->stream == scan->stream ? mount : NULL;
}

/* Only who may write to the table by hand can have put a key there that no client could have published to. */
static bool
is_topic(FlMqttDoor *door, FlMqttBytes key)
{
	if (fl_topic_name_valid(key.data, key.len) && fl_mqtt_is_printable(key))
		return true;
	if (fl_mqtt_log_allowed(door, FL_MQTT_LOG_REFUSED))
		ereport(LOG, (errmsg("fleetlog: a row of a state table is not sent to subscribers, because its key is no topic"),
					  errhint("fleetlog.verify finds rows that the log did not write.")));
	return false;
}

/* Where its record can be read again, if it is there still; -1: nowhere. */
static int
feed_of(const FlMqttDoor *door, Oid stream, int32 shard)
{
	for (int i = 0; i < door->feed_count; i++)
		if (door->feeds[i].stream == stream && door->feeds[i].shard == shard)
			return i;
	return -1;
}

/* False: the connection takes no more now. */
static bool
offer_row(FlMqttDoor *door, FlMqttConn *conn, FlMqttFilter *filter, RetainedScan *scan, const FlStateRow *row)
{
	FlMqttMessage *message = &door->message;
	FlMqttBytes topic = {(const uint8 *) row->key, (uint32) row->key_len};
	const FlMount *mount = mount_of(scan, row);
	FlMqttHow how = {
		.retain = true, .position = filter->position, .ids = &filter->id, .id_count = filter->id != 0 ? 1 : 0};

	if (mount == NULL || !fl_mqtt_may_read(conn, mount) ||
		!fl_topic_matches(topic.data, topic.len, topic_filter(scan), scan->len - scan->skip) ||
		comes_live(door, scan, row) || row->rec.payload_len < 0 || !is_topic(door, topic))
		return true;
	if (fl_acl_is_guarded(row->key, (Size) row->key_len) &&
		!fl_acl_may_receive(fl_mqtt_identity(conn), row->key, (Size) row->key_len))
		return true;
	fl_mqtt_record_message(door, &row->rec, row->shard, topic, mount, message);
	/* A table does not say in which epoch its rows were written. */
	message->epoch = -1;
	message->feed = row->rec.log_offset < 0 ? -1 : feed_of(door, scan->stream, row->shard);
	message->aside = true;
	if (filter->no_local && fl_mqtt_is_own(conn, message))
		return true;
	if (fl_net_pending(&conn->net) >= FL_MQTT_PENDING_SOFT)
		return false;
	how.qos = Min(filter->qos, message->publish.qos);
	return fl_mqtt_deliver(conn, &message, &how) != FL_MQTT_NO_ROOM;
}

static void
remember(FlMqttDoor *door, RetainedScan *scan, const FlStateRow *row)
{
	uint8 *copy = MemoryContextAlloc(door->context, (Size) row->key_len);

	memcpy(copy, row->key, (size_t) row->key_len);
	if (scan->after != NULL)
		pfree(scan->after);
	scan->after = copy;
	scan->after_len = (uint32) row->key_len;
}

/* Does the state worker fold values of this table from the log? */
static bool
is_folded(const RetainedScan *scan)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int i = 0; i < count; i++)
		if (mounts[i].state == scan->state && mounts[i].stream == scan->stream && mounts[i].keep == FL_KEEP_LAST &&
			mounts[i].state_lag_us > 0)
			return true;
	return false;
}

/*
 * Last values follow the log by the worker that folds them: what lies below the noted
 * positions must be there, in memory for one topic, in the table for many.
 */
static bool
has_folded(FlMqttDoor *door, const RetainedScan *scan, bool exact)
{
	for (int i = 0; i < scan->feed_count; i++)
	{
		const FlMqttFeed *feed = &door->feeds[i];

		if (feed->stream != scan->stream || feed->gone)
			continue;
		if (exact ? fl_state_is_folded_to(scan->state, feed->stream, feed->shard, scan->positions[i])
				  : fl_state_is_flushed_to(scan->state, feed->stream, feed->shard, scan->positions[i]))
			continue;
		if (!exact)
			fl_state_await_flush();
		return false;
	}
	return true;
}

/* The value of one topic that is not in the table yet; false: look there. */
static bool
offer_last(FlMqttDoor *door, FlMqttConn *conn, FlMqttFilter *filter, RetainedScan *scan, bool *end)
{
	FlStateRow row;
	bool cleared;

	if (!fl_state_last(scan->state, scan->stream, topic_filter(scan), scan->len - scan->skip, &row, &cleared))
		return false;
	*end = cleared || offer_row(door, conn, filter, scan, &row);
	return true;
}

/* Reads on in one table; true: it has no more rows. */
static bool
read_place(FlMqttDoor *door, FlMqttConn *conn, FlMqttFilter *filter, RetainedScan *scan, int *budget)
{
	bool exact = !filter->wildcard;
	FlStateScan *rows;
	FlStateRow row;
	bool end = false;

	if (is_folded(scan) && (!has_folded(door, scan, exact) || (exact && offer_last(door, conn, filter, scan, &end))))
		return end;
	rows = fl_state_scan_begin(scan->state, scan->stream, topic_filter(scan), (int32) scan->prefix_len, exact,
							   scan->after, (int32) scan->after_len);
	/* Somebody alters the table: later.  If it is dropped, its mount will be gone. */
	if (rows == NULL)
		return false;
	while (*budget > 0)
	{
		end = !fl_state_scan_next(rows, &row);
		if (end || !offer_row(door, conn, filter, scan, &row))
			break;
		remember(door, scan, &row);
		(*budget)--;
	}
	fl_state_scan_end(rows);
	return end;
}

static FlMqttFilter *
filter_of(FlMqttConn *conn, const RetainedScan *scan)
{
	dlist_iter iter;

	if (conn == NULL || conn->state != FL_MQTT_STATE_OPEN || conn->sub == NULL || conn->sub->ending)
		return NULL;
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

		if (is_same(scan, filter))
			return filter;
	}
	return NULL;
}

/* True: nothing is left to do for it. */
static bool
run_scan(FlMqttDoor *door, RetainedScan *scan, int *budget)
{
	FlMqttConn *conn = fl_mqtt_find(door, scan->conn_id);
	FlMqttFilter *filter = filter_of(conn, scan);
	bool done = false;

	if (filter == NULL)
		return true;
	door->current_lag = conn;
	if ((scan->started || start_scan(door, conn, filter, scan)) && (OidIsValid(scan->state) || next_place(scan)))
	{
		while (!done && *budget > 0 && read_place(door, conn, filter, scan, budget))
			done = !next_place(scan);
	}
	else
		done = scan->started;
	door->current_lag = NULL;
	return done;
}

/* After the feed has run: its positions stand still meanwhile. */
void
fl_mqtt_retained_run(FlMqttDoor *door)
{
	int budget = FL_MQTT_RETAINED_ROWS;
	dlist_node *last;

	if (dlist_is_empty(&door->retained))
		return;
	fl_mqtt_begin_transaction(door);
	PushActiveSnapshot(GetLatestSnapshot());
	last = dlist_tail_node(&door->retained);
	/* Each is served once and goes to the end, so that all have their turn. */
	while (budget > 0 && !dlist_is_empty(&door->retained))
	{
		dlist_node *node = dlist_head_node(&door->retained);
		RetainedScan *scan = dlist_container(RetainedScan, node, node);
		bool was_last = node == last;

		dlist_delete(node);
		dlist_push_tail(&door->retained, node);
		if (run_scan(door, scan, &budget))
			free_scan(scan);
		if (was_last)
			break;
	}
	PopActiveSnapshot();
	if (budget <= 0)
		door->feed_more = true;
}
