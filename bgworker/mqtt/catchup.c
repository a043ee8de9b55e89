/*
 * catchup.c
 *		Connections that read the log at their own pace.
 *
 * A QoS 1 subscriber whose queue is full leaves the shared feed ("lags"): from
 * then on it has a position of its own in every shard, and reads on whenever
 * its window has room.  When all its positions have reached those of the feed
 * it joins again, in the same turn, so that there is neither a gap nor a
 * duplicate.  Its memory is bounded however far behind it is (REQUIREMENTS M6),
 * and nobody waits for it.
 *
 * A session that was taken up begins here, too (resume.c): first what was under way
 * when its last connection ended, then the log from its bookmarks on.
 *
 * Invariant: positions of a lagging connection are beyond the feed's only where its
 * bookmark comes from another door that was ahead of this one; it waits for the
 * feed then, and joins it when they are the same.
 */
#include "postgres.h"

#include "fleetlog/topic.h"
#include "mqtt.h"

#define REFILL         (FL_MQTT_CATCHUP_QUEUE / 2) /* read on below this many waiting */
#define PER_CONNECTION 1024                        /* records read for one connection and turn */

void
fl_mqtt_start_reading(FlMqttConn *conn)
{
	FlMqttDoor *door = conn->door;
	FlMqttSubscriber *sub = conn->sub;

	sub->cursors = MemoryContextAllocZero(door->context, sizeof(FlLogPosition) * (Size) Max(door->feed_count, 1));
	sub->cursor_count = door->feed_count;
	for (int i = 0; i < door->feed_count; i++)
		sub->cursors[i] = door->feeds[i].pos;
	sub->lagging = true;
	dlist_push_tail(&door->lagging, &sub->lag_node);
	conn->stats_dirty = true;
	FL_COUNT(FL_C_LAGGING, 1);
}

/* From this record of this feed on, the connection reads by itself. */
void
fl_mqtt_start_lagging(FlMqttConn *conn, int feed, int64 log_offset)
{
	FlLogPosition *cursor;

	fl_mqtt_start_reading(conn);
	cursor = &conn->sub->cursors[feed];
	memset(cursor, 0, sizeof(*cursor));
	cursor->offset = log_offset;
}

void
fl_mqtt_stop_lagging(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	if (!sub->lagging)
		return;
	sub->lagging = false;
	dlist_delete(&sub->lag_node);
	pfree(sub->cursors);
	sub->cursors = NULL;
	sub->cursor_count = 0;
	conn->stats_dirty = true;
	FL_COUNT(FL_C_LAGGING, -1);
}

/* Feeds were added: those who lag begin there where the feed does. */
void
fl_mqtt_add_cursors(FlMqttDoor *door)
{
	dlist_iter iter;

	dlist_foreach (iter, &door->lagging)
	{
		FlMqttSubscriber *sub = dlist_container(FlMqttSubscriber, lag_node, iter.cur);

		if (sub->cursor_count == door->feed_count)
			continue;
		sub->cursors = repalloc(sub->cursors, sizeof(FlLogPosition) * (Size) door->feed_count);
		while (sub->cursor_count < door->feed_count)
		{
			sub->cursors[sub->cursor_count] = door->feeds[sub->cursor_count].pos;
			sub->cursor_count++;
		}
	}
}

/* ---- matching for one connection ---- */

typedef struct Selection
{
	uint8 qos;
	bool found;
	bool as_published;
	uint32 id_count;
} Selection;

/* Its own filters are few: they are compared one by one. */
static Selection
select_record(FlMqttDoor *door, FlMqttConn *conn, const FlLogRecord *rec, FlMqttBytes topic, const FlMount *mount,
			  FlMqttMessage *message)
{
	Selection s = {0};
	dlist_iter iter;
	bool made = false;

	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

		if (filter->share != NULL || rec->ts < filter->since || !fl_topic_matches(topic.data, topic.len, filter->text, filter->len))
			continue;
		if (!made)
			fl_mqtt_record_message(door, rec, topic, mount, message);
		made = true;
		message->feed = door->lag_feed;
		if (filter->no_local && fl_mqtt_is_own(conn, message))
			continue;
		s.found = true;
		s.qos = Max(s.qos, filter->qos);
		s.as_published = s.as_published || filter->as_published;
		if (filter->id != 0 && s.id_count < door->id_cap)
			door->id_list[s.id_count++] = filter->id;
	}
	if (s.found && fl_topic_is_shadow((const char *) topic.data, topic.len) && !fl_mqtt_is_own_shadow(conn, message))
		s.found = false;
	if (s.found && fl_topic_is_command((const char *) topic.data, topic.len) &&
		!fl_acl_may_receive(fl_mqtt_identity(conn), (const char *) topic.data, topic.len))
		s.found = false;
	return s;
}

/* False: the record does not fit now and has to be read again. */
static bool
offer_record(FlMqttDoor *door, FlMqttConn *conn, FlMqttFeed *feed, const FlLogRecord *rec)
{
	FlMqttMessage *message = &door->message;
	const FlMount *mount;
	FlMqttBytes topic;
	Selection s;

	if (!fl_mqtt_record_topic(rec, &topic) || (mount = fl_mqtt_mount_of(feed, topic)) == NULL)
		return true;
	s = select_record(door, conn, rec, topic, mount, message);
	if (!s.found)
		return true;
	if (fl_mqtt_is_below_mark(conn, door->lag_feed, rec->log_offset, Min(s.qos, message->publish.qos)))
		return true;
	return fl_mqtt_deliver(conn, &message, Min(s.qos, message->publish.qos), s.as_published && message->publish.retain,
						   door->id_list, s.id_count) != FL_MQTT_NO_ROOM;
}

/* ---- reading ---- */

static void
skip_lost(FlMqttConn *conn, FlMqttFeed *feed, FlLogPosition *cursor, int64 head)
{
	if (cursor->offset >= head)
		return;
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_FEED))
		ereport(LOG, (errmsg("fleetlog: %s was too slow: up to " INT64_FORMAT
							 " records of stream %u, shard %d were trimmed before it read them",
							 fl_mqtt_name(conn), head - cursor->offset, feed->stream, feed->shard)));
	conn->sub->dropped += (uint64) (head - cursor->offset);
	memset(cursor, 0, sizeof(*cursor));
	cursor->offset = head;
}

/*
 * It came when nobody was connected, or no checkpoint had been written: nothing of it
 * was sent, and all since the first subscription is wanted.
 */
static void
start_without_bookmark(FlMqttConn *conn, FlMqttFeed *feed, FlLogPosition *cursor, int64 tail)
{
	int64 from;

	fl_mqtt_begin_transaction(conn->door);
	from = fl_log_offset_for_time(feed->stream, feed->shard, conn->sub->oldest);
	memset(cursor, 0, sizeof(*cursor));
	cursor->offset = from < 0 ? tail : Min(from, tail);
}

/* Reads one shard for one connection; false when the connection takes no more. */
static bool
read_shard(FlMqttDoor *door, FlMqttConn *conn, int number, int *budget)
{
	FlMqttFeed *feed = &door->feeds[number];
	FlLogPosition *cursor = &conn->sub->cursors[number];
	FlLogReader *reader;
	FlStoredBatch batch;
	bool room = true;
	int64 head;
	int64 tail;

	if (!feed->wanted || feed->gone || !fl_mqtt_feed_bounds(feed, &head, &tail))
		*cursor = feed->pos;
	if (cursor->offset < 0)
		start_without_bookmark(conn, feed, cursor, tail);
	if (cursor->offset < feed->pos.offset)
		skip_lost(conn, feed, cursor, head);
	if (cursor->offset >= feed->pos.offset)
		return true;
	fl_mqtt_begin_transaction(door);
	reader = fl_log_reader_begin(feed->stream, feed->shard, cursor, feed->pos.offset);
	while (room && *budget > 0)
	{
		FlLogPosition start = *cursor;
		FlLogRecord rec;

		if (!fl_log_reader_next(reader, &batch))
			break;
		fl_batch_decoder_open(door->decoder, &batch);
		while (room && fl_batch_decoder_next(door->decoder, &rec))
		{
			if (rec.log_offset < start.offset)
				continue;
			door->lag_feed = number;
			door->lag_at = rec.log_offset;
			room = offer_record(door, conn, feed, &rec);
			if (!room)
			{
				/* The same batch again, from this record on. */
				*cursor = start;
				cursor->offset = rec.log_offset;
			}
		}
		door->lag_feed = -1;
		*budget -= batch.count;
	}
	fl_log_reader_end(reader);
	return room;
}

static bool
has_caught_up(FlMqttDoor *door, const FlMqttSubscriber *sub)
{
	for (int i = 0; i < sub->cursor_count; i++)
		if (sub->cursors[i].offset != door->feeds[i].pos.offset)
			return false;
	return true;
}

/* Some feed is further than this connection, and it could take more. */
static void
serve(FlMqttDoor *door, FlMqttConn *conn, int *budget)
{
	FlMqttSubscriber *sub = conn->sub;
	int mine = Min(*budget, PER_CONNECTION);
	int before = mine;
	bool room = true;

	if (sub->queue_len >= REFILL)
		return;
	door->current_lag = conn;
	door->lag_feed = -1;
	if (!fl_mqtt_send_restored(conn))
	{
		door->current_lag = NULL;
		return;
	}
	for (int i = 0; room && mine > 0 && i < sub->cursor_count; i++)
		room = read_shard(door, conn, i, &mine);
	door->current_lag = NULL;
	*budget -= before - mine;
	if (has_caught_up(door, sub))
		fl_mqtt_stop_lagging(conn);
	else if (room && mine <= 0)
		/* It could take more, only its share of the turn is used up. */
		door->feed_more = true;
}

/* After the feed has run: the feed's positions stand still meanwhile. */
void
fl_mqtt_catchup_run(FlMqttDoor *door)
{
	int budget = FL_MQTT_CATCHUP_RECORDS;
	dlist_node *last;

	/* A feed that has just come to be wanted is not where it was. */
	if (dlist_is_empty(&door->lagging) || door->interest_changed)
		return;
	last = dlist_tail_node(&door->lagging);
	/* Each is served once and goes to the end, so that all have their turn. */
	while (budget > 0 && !dlist_is_empty(&door->lagging))
	{
		dlist_node *node = dlist_head_node(&door->lagging);
		FlMqttSubscriber *sub = dlist_container(FlMqttSubscriber, lag_node, node);
		FlMqttConn *conn = sub->conn;

		dlist_delete(node);
		dlist_push_tail(&door->lagging, node);
		serve(door, conn, &budget);
		if (node == last)
			break;
	}
	if (budget <= 0)
		door->feed_more = true;
}

void
fl_mqtt_catchup_failed(FlMqttDoor *door)
{
	FlMqttConn *conn = door->current_lag;

	if (conn != NULL && conn->sub != NULL && conn->sub->lagging && door->lag_feed >= 0 &&
		door->lag_feed < conn->sub->cursor_count)
	{
		FlLogPosition *cursor = &conn->sub->cursors[door->lag_feed];

		memset(cursor, 0, sizeof(*cursor));
		cursor->offset = door->lag_at;
	}
	door->lag_feed = -1;
}
