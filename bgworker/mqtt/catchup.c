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
 * Who is far behind asks the reader (reading.c), which reads the log once for all of
 * them and outside of this loop; what is near, or was brought into memory, is read here.
 *
 * A subscription that begins in the past sets the positions back (history.c), and is
 * served like all others here.  A turn serves them within a budget of records, bytes
 * and time, each connection within its share, and each shard of a connection within a
 * part of that: a long history holds up neither the door nor the other shards.
 *
 * Invariant: positions of a lagging connection are beyond the feed's only where its
 * bookmark comes from another door that was ahead of this one; it waits for the
 * feed then, and joins it when they are the same.
 */
#include "postgres.h"

#include "portability/instr_time.h"

#include "fleetlog/topic.h"
#include "mqtt.h"
#include "reading.h"

#define REFILL         (FL_MQTT_CATCHUP_QUEUE / 2) /* read on below this many waiting */
#define PER_CONNECTION 1024                        /* records read for one connection and turn */
#define PER_CONNECTION_BYTES (256 * 1024)          /* of stored batches, likewise */
#define MAX_TRIMMED    10                          /* reads in a row that came too late */
#define PER_SHARD      64                          /* at least, where several are behind */

/* What may still be read. */
typedef struct Budget
{
	int records;
	int64 bytes;
	instr_time start; /* of the turn's catch-up */
	uint64 us;        /* how long it may take */
} Budget;

void
fl_mqtt_start_reading(FlMqttConn *conn)
{
	FlMqttDoor *door = conn->door;
	FlMqttSubscriber *sub = conn->sub;

	sub->cursors = MemoryContextAllocZero(door->context, sizeof(FlLogPosition) * (Size) Max(door->feed_count, 1));
	sub->asks = MemoryContextAllocZero(door->context, sizeof(FlMqttAsk) * (Size) Max(door->feed_count, 1));
	sub->asks_open = 0;
	sub->parked = false;
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
	fl_mqtt_cancel_asks(conn);
	sub->lagging = false;
	sub->parked = false;
	dlist_delete(&sub->lag_node);
	pfree(sub->cursors);
	pfree(sub->asks);
	sub->cursors = NULL;
	sub->asks = NULL;
	sub->cursor_count = 0;
	conn->stats_dirty = true;
	FL_COUNT(FL_C_LAGGING, -1);
}

static void
add_cursors(FlMqttDoor *door, dlist_head *list)
{
	dlist_iter iter;

	dlist_foreach (iter, list)
	{
		FlMqttSubscriber *sub = dlist_container(FlMqttSubscriber, lag_node, iter.cur);

		if (sub->cursor_count == door->feed_count)
			continue;
		sub->cursors = repalloc(sub->cursors, sizeof(FlLogPosition) * (Size) door->feed_count);
		sub->asks = repalloc(sub->asks, sizeof(FlMqttAsk) * (Size) door->feed_count);
		while (sub->cursor_count < door->feed_count)
		{
			sub->cursors[sub->cursor_count] = door->feeds[sub->cursor_count].pos;
			memset(&sub->asks[sub->cursor_count], 0, sizeof(FlMqttAsk));
			sub->cursor_count++;
		}
	}
}

/* Feeds were added: those who lag begin there where the feed does. */
void
fl_mqtt_add_cursors(FlMqttDoor *door)
{
	add_cursors(door, &door->lagging);
	add_cursors(door, &door->parked);
}

/* ---- matching for one connection ---- */

typedef struct Selection
{
	uint8 qos;
	bool found;
	bool as_published;
	bool end_on_drop;
	bool sought; /* by a filter that began in the past */
	uint8 position;
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

	if (!fl_mqtt_may_read(conn, mount))
		return s;
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

		FlMqttBytes text = fl_mqtt_topic_filter(filter);

		if (filter->share != NULL || fl_mqtt_begins_later(filter, door->lag_feed, rec->ts, rec->log_offset) ||
			!fl_topic_matches(topic.data, topic.len, text.data, text.len))
			continue;
		if (!made)
			fl_mqtt_record_message(door, rec, door->feeds[door->lag_feed].shard, topic, mount, message);
		made = true;
		message->feed = door->lag_feed;
		if (filter->no_local && fl_mqtt_is_own(conn, message))
			continue;
		s.found = true;
		s.qos = Max(s.qos, filter->qos);
		s.as_published = s.as_published || filter->as_published;
		s.end_on_drop = s.end_on_drop || filter->end_on_drop;
		s.sought = s.sought || filter->sought;
		s.position = Max(s.position, filter->position);
		if (filter->id != 0 && s.id_count < door->id_cap)
			door->id_list[s.id_count++] = filter->id;
	}
	if (s.found && fl_topic_is_shadow((const char *) topic.data, topic.len) && !fl_mqtt_is_own_shadow(conn, message))
		s.found = false;
	if (s.found && fl_acl_is_guarded((const char *) topic.data, topic.len) &&
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
	FlMqttHow how = {0};
	Selection s;

	if (!fl_mqtt_record_topic(rec, &topic) || (mount = fl_mqtt_mount_of(feed, topic)) == NULL)
		return true;
	s = select_record(door, conn, rec, topic, mount, message);
	if (!s.found)
		return true;
	how.qos = Min(s.qos, message->publish.qos);
	if (!s.sought && fl_mqtt_is_below_mark(conn, door->lag_feed, rec->log_offset, how.qos))
		return true;
	how.retain = s.as_published && message->publish.retain;
	how.position = s.position;
	how.end_on_drop = s.end_on_drop;
	how.ids = door->id_list;
	how.id_count = s.id_count;
	return fl_mqtt_deliver(conn, &message, &how) != FL_MQTT_NO_ROOM;
}

bool
fl_mqtt_offer_record(FlMqttConn *conn, int number, const FlLogRecord *rec)
{
	FlMqttDoor *door = conn->door;
	bool room;

	door->lag_feed = number;
	door->lag_at = rec->log_offset;
	room = offer_record(door, conn, &door->feeds[number], rec);
	door->lag_feed = -1;
	return room;
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
	fl_mqtt_lost_records(conn, (int) (feed - conn->door->feeds), (uint64) (head - cursor->offset));
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
	int64 from = fl_mqtt_find_start(conn, (int) (feed - conn->door->feeds), tail);

	memset(cursor, 0, sizeof(*cursor));
	cursor->offset = from;
}

static bool
is_used_up(const Budget *budget)
{
	instr_time now;

	if (budget->records <= 0 || budget->bytes <= 0)
		return true;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, budget->start);
	return (uint64) INSTR_TIME_GET_MICROSEC(now) >= budget->us;
}

static void
spend(Budget *budget, const FlStoredBatch *batch)
{
	budget->records -= batch->count;
	budget->bytes -= batch->body_len;
}

/* Hands a batch out from *start on; false: the connection took no more, and *cursor is at what it did not take. */
static bool
offer_batch(FlMqttDoor *door, FlMqttConn *conn, int number, const FlStoredBatch *batch, const FlLogPosition *start,
			FlLogPosition *cursor)
{
	FlLogRecord rec;
	bool room = true;

	fl_batch_decoder_open(door->decoder, batch);
	while (room && fl_batch_decoder_next(door->decoder, &rec))
	{
		if (rec.log_offset < start->offset)
			continue;
		room = fl_mqtt_offer_record(conn, number, &rec);
		if (!room)
		{
			/* The same batch again, from this record on. */
			*cursor = *start;
			cursor->offset = rec.log_offset;
		}
	}
	return room;
}

/* Reads one shard for one connection, `most` records of it; false when the connection takes no more. */
static bool
read_shard(FlMqttDoor *door, FlMqttConn *conn, int number, int most, Budget *budget)
{
	FlMqttFeed *feed = &door->feeds[number];
	FlLogPosition *cursor = &conn->sub->cursors[number];
	int least = budget->records - most;
	FlLogReader *reader;
	FlStoredBatch batch;
	bool room = true;
	int64 limit;
	int64 head;
	int64 tail;

	if (!feed->wanted || feed->gone || !fl_mqtt_feed_bounds(feed, &head, &tail))
		*cursor = feed->pos;
	if (cursor->offset < 0)
		start_without_bookmark(conn, feed, cursor, tail);
	if (cursor->offset < feed->pos.offset)
		skip_lost(conn, feed, cursor, head);
	if (conn->sub->ending)
		return false;
	if (cursor->offset >= feed->pos.offset)
		return true;
	limit = fl_mqtt_may_read_to(conn, number);
	if (cursor->offset >= limit)
		return true;
	fl_mqtt_begin_transaction(door);
	reader = fl_log_reader_begin(feed->stream, feed->shard, cursor, limit);
	fl_log_reader_bound(reader, FL_MQTT_CATCHUP_PAGES);
	while (room && budget->records > least && !is_used_up(budget))
	{
		FlLogPosition start = *cursor;

		if (!fl_log_reader_next(reader, &batch))
		{
			/* Nothing on so many pages; they count like as many records. */
			if (fl_log_reader_stopped(reader))
				budget->records -= FL_MQTT_CATCHUP_PAGES;
			break;
		}
		spend(budget, &batch);
		room = offer_batch(door, conn, number, &batch, &start, cursor);
	}
	fl_log_reader_end(reader);
	return room;
}

/* Each shard that is behind gets its part; false when the connection takes no more. */
static bool
read_shards(FlMqttDoor *door, FlMqttConn *conn, Budget *budget)
{
	FlMqttSubscriber *sub = conn->sub;
	int behind = 0;
	int first = sub->next_feed;

	for (int i = 0; i < sub->cursor_count; i++)
		behind += sub->cursors[i].offset != door->feeds[i].pos.offset;
	for (int n = 0; n < sub->cursor_count; n++)
	{
		int i = (first + n) % sub->cursor_count;

		if (is_used_up(budget))
			break;
		sub->next_feed = (i + 1) % sub->cursor_count;
		if (!read_shard(door, conn, i, Max(PER_SHARD, PER_CONNECTION / Max(behind, 1)), budget))
			return false;
	}
	return true;
}

static bool
has_caught_up(FlMqttDoor *door, const FlMqttSubscriber *sub)
{
	for (int i = 0; i < sub->cursor_count; i++)
	{
		const FlMqttFeed *feed = &door->feeds[i];

		if (sub->cursors[i].offset != feed->pos.offset)
			return false;
		/* What its last connection was sent by a door that was ahead must not come again by the feed. */
		if (feed->wanted && !feed->gone && i * 2 + 1 < sub->exact_count &&
			Max(sub->exact[i * 2], sub->exact[i * 2 + 1]) > feed->pos.offset)
			return false;
	}
	return true;
}

bool
fl_mqtt_rejoin(FlMqttConn *conn)
{
	if (!has_caught_up(conn->door, conn->sub))
		return false;
	fl_mqtt_stop_lagging(conn);
	fl_mqtt_forget_starts(conn);
	return true;
}

/* Some feed is further than this connection, and it could take more. */
static void
serve(FlMqttDoor *door, FlMqttConn *conn, Budget *budget)
{
	FlMqttSubscriber *sub = conn->sub;
	Budget mine = {.records = Min(budget->records, PER_CONNECTION),
				   .bytes = Min(budget->bytes, PER_CONNECTION_BYTES),
				   .start = budget->start,
				   .us = budget->us};
	Budget before = mine;
	bool room = false;

	if (!sub->ending && sub->queue_len >= REFILL)
		return;
	door->current_lag = conn;
	door->lag_feed = -1;
	if (!sub->ending)
	{
		if (!fl_mqtt_send_restored(conn))
		{
			door->current_lag = NULL;
			return;
		}
		room = read_shards(door, conn, &mine);
	}
	if (mine.records < before.records)
		sub->trimmed = 0;
	budget->records -= before.records - mine.records;
	budget->bytes -= before.bytes - mine.bytes;
	if (sub->ending)
		fl_mqtt_end_at_drop(conn);
	else if (fl_mqtt_rejoin(conn))
		;
	else if (room && fl_mqtt_only_waits(conn))
		fl_mqtt_park(conn);
	else if (room && mine.records < before.records)
		/* It could take more, only its share of the turn is used up. */
		door->feed_more = true;
	door->current_lag = NULL;
}

/* A door that is at work has nothing from anybody in most of its turns, and the next message comes all the same. */
bool
fl_mqtt_is_busy(FlMqttDoor *door)
{
	int64 now = fl_net_now(door->net);

	if (door->sockets > 0 || fl_ingest_outstanding(door->ingest) > 0)
		door->busy_ms = now + FL_MQTT_BUSY_MS;
	return now < door->busy_ms;
}

/* After the feed has run: the feed's positions stand still meanwhile. */
void
fl_mqtt_catchup_run(FlMqttDoor *door)
{
	Budget budget = {.records = FL_MQTT_CATCHUP_RECORDS, .bytes = FL_MQTT_CATCHUP_BYTES};
	dlist_node *last;

	/* A feed that has just come to be wanted is not where it was. */
	if (dlist_is_empty(&door->lagging))
		return;
	if (door->interest_changed)
	{
		door->feed_more = true;
		return;
	}
	/* What is published meanwhile waits for the turn's end, more than once until it is delivered. */
	budget.us = fl_mqtt_is_busy(door) ? FL_MQTT_CATCHUP_BUSY_US : FL_MQTT_CATCHUP_US;
	INSTR_TIME_SET_CURRENT(budget.start);
	last = dlist_tail_node(&door->lagging);
	/* Each is served once and goes to the end, so that all have their turn. */
	while (!is_used_up(&budget) && !dlist_is_empty(&door->lagging))
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
	if (is_used_up(&budget))
		door->feed_more = true;
}

/* The head passed a cursor between two looks at it.  Time and again, that would be something else. */
bool
fl_mqtt_may_read_again(FlMqttDoor *door)
{
	FlMqttConn *conn = door->current_lag;

	return conn != NULL && conn->sub != NULL && conn->sub->lagging && ++conn->sub->trimmed < MAX_TRIMMED;
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
