/*
 * reading.c
 *		What a front door has the reader do for connections that are far behind.
 *
 *	far behind ─► TOPICS: what its filters begin with ─► parked
 *	                 RECORD ─► delivered like one that was read here
 *	                 UPTO ─► at the tail: with the feed again
 *	                      ─► it has all that it can take: asks again when it can take more
 *	many records for it ─► WARM ─► parked ─► UPTO ─► reads those pages here (catchup.c)
 *
 * The reader (pass.c) reads the history once for all, and knows of filters only what
 * their topics begin with; here every record is matched as if it had been read by
 * the connection itself.  Where almost everything is for a connection that would be
 * copying for nothing: it reads by itself, pages that are in memory already.
 *
 * A connection that only waits is parked, so that turns do not look at ten thousand
 * of them; now and then all are looked at, for what their other shards have brought.
 *
 * Without a reader, and near the feed, connections read by themselves.
 *
 * Called by catchup.c, door.c, subscribe.c, history.c.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "portability/instr_time.h"

#include "fleetlog/read.h"
#include "fleetlog/topic.h"
#include "fleetlog/worker.h"
#include "mqtt.h"
#include "reading.h"

#define NEAR        512   /* records behind the feed that a connection reads by itself */
#define SELF        4096  /* ... where the reader could not */
#define SELF_DENSE  65536 /* ... where much of it is for it */
#define DENSE       64    /* one record in so many is much */
#define MAX_ITEMS   2048  /* of a turn */
#define BUSY_ITEMS  64    /* ... while others publish: each may be for another client, and cost a system call at the turn's end */
#define LOOK_MS     1000  /* at those that are parked */

void
fl_mqtt_reading_init(FlMqttDoor *door)
{
	dlist_init(&door->parked);
	door->read_run = fl_read_door_start(door->index);
	door->reader = fl_read_reader();
}

/* ---- parking -------------------------------------------------------------------- */

void
fl_mqtt_park(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	Assert(sub->lagging && !sub->parked);
	dlist_delete(&sub->lag_node);
	dlist_push_tail(&conn->door->parked, &sub->lag_node);
	sub->parked = true;
}

static void
unpark(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	if (!sub->parked)
		return;
	dlist_delete(&sub->lag_node);
	dlist_push_tail(&conn->door->lagging, &sub->lag_node);
	sub->parked = false;
	conn->door->feed_more = true;
}

static void
unpark_all(FlMqttDoor *door)
{
	while (!dlist_is_empty(&door->parked))
		unpark(dlist_head_element(FlMqttSubscriber, lag_node, &door->parked)->conn);
}

/* ---- asking ----------------------------------------------------------------------- */

static FlReadItem
item_for(FlMqttConn *conn, int feed, FlReadKind kind, uint64 token)
{
	return (FlReadItem) {.kind = (uint16) kind,
						 .token = token,
						 .conn = conn->id,
						 .feed = feed,
						 .stream = conn->door->feeds[feed].stream,
						 .shard = conn->door->feeds[feed].shard,
						 .offset = conn->sub->cursors[feed].offset,
						 .run = conn->door->read_run};
}

static void
close_ask(FlMqttConn *conn, int feed)
{
	conn->sub->asks[feed].token = 0;
	conn->sub->asks_open--;
	unpark(conn);
}

/* What still comes of it means nothing. */
static void
drop_ask(FlMqttConn *conn, int feed)
{
	FlReadItem item = item_for(conn, feed, FL_READ_FORGET, conn->sub->asks[feed].token);

	/* Without room the reader finds out by what it is asked next, or sends some for nothing. */
	if (fl_read_put(FL_READ_TO_READER, conn->door->index, &item, NULL, 0))
		fl_worker_wake(FL_WORKER_READER, 0);
	close_ask(conn, feed);
}

void
fl_mqtt_cancel_asks(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	for (int i = 0; sub->lagging && sub->asks_open > 0 && i < sub->cursor_count; i++)
		if (sub->asks[i].token != 0)
			drop_ask(conn, i);
}

static uint64
hash_mounts(void)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);
	uint64 hash = 0;

	for (int i = 0; i < count; i++)
		hash = hash_combine64(hash, fl_read_hash((const uint8 *) mounts[i].prefix, mounts[i].prefix_len,
												 (uint32) mounts[i].stream));
	return hash;
}

/* The catalog has changed.  Where the mounts have, a filter may select of a stream that it did not. */
void
fl_mqtt_recheck_asks(FlMqttDoor *door)
{
	uint64 mounts = hash_mounts();
	dlist_iter iter;

	if (mounts == door->read_mounts)
		return;
	door->read_mounts = mounts;
	unpark_all(door);
	dlist_foreach (iter, &door->lagging)
		fl_mqtt_cancel_asks(dlist_container(FlMqttSubscriber, lag_node, iter.cur)->conn);
}

/* False: it is in the way of too much for the reader to look for it. */
static bool
add_keys(FlMqttBytes filter, FlReadKey *keys, int *count)
{
	Size len = 0;
	uint32 slashes = 0;

	if (!fl_topic_filter_has_wildcard(filter.data, filter.len))
	{
		keys[(*count)++] = (FlReadKey) {.hash = fl_read_hash(filter.data, filter.len, 0)};
		return true;
	}
	for (Size i = 0; i < filter.len && slashes < FL_READ_MAX_LEVELS && filter.data[i] != '+' && filter.data[i] != '#'; i++)
		if (filter.data[i] == '/')
		{
			slashes++;
			len = i + 1;
		}
	if (slashes == 0)
		return false;
	keys[(*count)++] = (FlReadKey) {.hash = fl_read_hash(filter.data, len, slashes), .slashes = slashes};
	/* `a/#` selects `a`, too. */
	if (len + 1 == filter.len && filter.data[len] == '#')
		keys[(*count)++] = (FlReadKey) {.hash = fl_read_hash(filter.data, len - 1, 0)};
	return true;
}

/* What the reader has to look for in a feed; 0: nothing there is for it, -1: it had better read all. */
static int
collect_keys(FlMqttConn *conn, int feed, FlReadKey *keys)
{
	int count = 0;
	dlist_iter iter;

	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);
		FlMqttBytes text = fl_mqtt_topic_filter(filter);

		if (filter->share != NULL || !fl_mqtt_reaches(text, conn->door->feeds[feed].stream))
			continue;
		if (count + 2 > FL_READ_MAX_KEYS || !add_keys(text, keys, &count))
			return -1;
	}
	return count;
}

/* So many as it can take in one go. */
static uint32
room_of(const FlMqttSubscriber *sub)
{
	uint32 window = sub->window > sub->inflight_count ? sub->window - sub->inflight_count : 0;
	uint32 queue = FL_MQTT_CATCHUP_QUEUE > sub->queue_len ? FL_MQTT_CATCHUP_QUEUE - sub->queue_len : 0;

	return Max(window + queue, 1);
}

static void
ask_reader(FlMqttConn *conn, int feed, const FlReadKey *keys, int count)
{
	FlMqttDoor *door = conn->door;
	FlMqttAsk *ask = &conn->sub->asks[feed];
	FlReadItem item = item_for(conn, feed, count > 0 ? FL_READ_TOPICS : FL_READ_WARM, ++door->read_token);

	item.count = (uint16) Max(count, 0);
	item.most = room_of(conn->sub);
	if (!fl_read_put(FL_READ_TO_READER, door->index, &item, keys, (uint32) (sizeof(FlReadKey) * (Size) Max(count, 0))))
	{
		door->read_full = true;
		return;
	}
	fl_worker_wake(FL_WORKER_READER, 0);
	ask->token = item.token;
	ask->at = ask->from = item.offset;
	ask->got = 0;
	ask->warm = count <= 0;
	conn->sub->asks_open++;
}

/*
 * To where the connection may read the feed in this turn; not beyond its position where
 * the reader has been asked.
 */
int64
fl_mqtt_may_read_to(FlMqttConn *conn, int number)
{
	FlMqttSubscriber *sub = conn->sub;
	FlMqttFeed *feed = &conn->door->feeds[number];
	FlLogPosition *cursor = &sub->cursors[number];
	FlMqttAsk *ask = &sub->asks[number];
	FlReadKey keys[FL_READ_MAX_KEYS];
	bool near = feed->pos.offset - cursor->offset <= NEAR;
	int count;

	if (ask->token != 0 && ask->at == cursor->offset)
		return cursor->offset;
	/* Something has set it elsewhere. */
	if (ask->token != 0)
		drop_ask(conn, number);
	if (cursor->offset < ask->warm_to)
		return Min(ask->warm_to, feed->pos.offset);
	/* While it waits for another shard's history, it has company there, and had better here. */
	if ((near && sub->asks_open == 0) || fl_read_reader() == 0)
		return feed->pos.offset;
	count = collect_keys(conn, number, keys);
	if (count == 0)
	{
		*cursor = feed->pos;
		return cursor->offset;
	}
	if (cursor->offset < ask->self_to)
		count = -1;
	if (near && count < 0)
		return feed->pos.offset;
	ask_reader(conn, number, keys, count);
	return cursor->offset;
}

/* It has a position in every feed, and is behind only where the reader has been asked. */
bool
fl_mqtt_only_waits(const FlMqttConn *conn)
{
	const FlMqttSubscriber *sub = conn->sub;

	for (int i = 0; i < sub->cursor_count; i++)
		if (sub->asks[i].token == 0 && sub->cursors[i].offset != conn->door->feeds[i].pos.offset)
			return false;
	return sub->asks_open > 0;
}

/* ---- what comes -------------------------------------------------------------------- */

static void
set_cursor(FlMqttConn *conn, int feed, int64 log_offset)
{
	conn->sub->cursors[feed] = (FlLogPosition) {.offset = log_offset};
	conn->sub->asks[feed].at = log_offset;
}

/* Whoever is sent much of what is there reads on by itself. */
static void
judge(FlMqttAsk *ask, int64 upto)
{
	if (ask->got > 0 && upto - ask->from < (int64) ask->got * DENSE)
		ask->self_to = upto + SELF_DENSE;
}

static void
take_record(FlMqttConn *conn, int number, const FlReadItem *item)
{
	FlMqttSubscriber *sub = conn->sub;
	FlMqttFeed *feed = &conn->door->feeds[number];
	FlMqttAsk *ask = &sub->asks[number];
	FlLogRecord rec;

	if (!fl_read_unpack(item, &rec) || rec.log_offset < sub->cursors[number].offset)
		return;
	/* The feed brings this one, and nothing below was for it. */
	if (rec.log_offset >= feed->pos.offset)
	{
		set_cursor(conn, number, feed->pos.offset);
		drop_ask(conn, number);
		return;
	}
	ask->got++;
	if (fl_mqtt_offer_record(conn, number, &rec))
		set_cursor(conn, number, rec.log_offset + 1);
	else
	{
		set_cursor(conn, number, rec.log_offset);
		judge(ask, rec.log_offset);
		drop_ask(conn, number);
	}
}

static void
take_end(FlMqttConn *conn, int number, const FlReadItem *item)
{
	FlMqttSubscriber *sub = conn->sub;
	FlMqttAsk *ask = &sub->asks[number];
	int64 at = sub->cursors[number].offset;
	bool unable = item->count == FL_READ_UNABLE || (!ask->warm && item->offset <= at && ask->got == 0);

	if (ask->warm)
		ask->warm_to = Max(item->offset, at + 1);
	else
	{
		/* Beyond the feed it would be ahead of the others of this door. */
		set_cursor(conn, number, Min(Max(item->offset, at), Max(at, conn->door->feeds[number].pos.offset)));
		if (item->count == FL_READ_ENOUGH)
			judge(ask, item->offset);
	}
	if (unable)
		ask->warm_to = ask->self_to = sub->cursors[number].offset + SELF;
	close_ask(conn, number);
	fl_mqtt_rejoin(conn);
}

static void
take_item(FlMqttDoor *door, const FlReadItem *item)
{
	FlMqttConn *conn = fl_mqtt_find(door, item->conn);
	FlMqttSubscriber *sub = conn != NULL ? conn->sub : NULL;

	if (item->run != door->read_run || sub == NULL || conn->state != FL_MQTT_STATE_OPEN || !sub->lagging || sub->ending || item->feed < 0 ||
		item->feed >= sub->cursor_count || sub->asks[item->feed].token != item->token)
		return;
	if (sub->asks[item->feed].at != sub->cursors[item->feed].offset || door->feeds[item->feed].gone)
	{
		drop_ask(conn, item->feed);
		return;
	}
	door->current_lag = conn;
	sub->trimmed = 0;
	if (item->kind == FL_READ_RECORD)
		take_record(conn, item->feed, item);
	else if (item->kind == FL_READ_UPTO)
		take_end(conn, item->feed, item);
	if (sub->ending)
		unpark(conn);
	door->current_lag = NULL;
}

/* A reader that was started anew knows of nothing. */
static void
notice_reader(FlMqttDoor *door)
{
	uint32 reader = fl_read_reader();

	if (reader == door->reader)
		return;
	door->reader = reader;
	for (int list = 0; list < 2; list++)
	{
		dlist_iter iter;

		dlist_foreach (iter, list == 0 ? &door->lagging : &door->parked)
		{
			FlMqttSubscriber *sub = dlist_container(FlMqttSubscriber, lag_node, iter.cur);

			for (int i = 0; i < sub->cursor_count; i++)
				sub->asks[i].token = 0;
			sub->asks_open = 0;
		}
	}
	unpark_all(door);
}

/* Before the feeds are read: who is at the tail by now can join them there. */
void
fl_mqtt_reading_run(FlMqttDoor *door)
{
	const FlReadItem *item = NULL;
	instr_time start;
	instr_time now;
	int n = 0;
	bool busy = fl_mqtt_is_busy(door);
	uint64 us = busy ? FL_MQTT_CATCHUP_BUSY_US : FL_MQTT_CATCHUP_US;
	int most = busy ? BUSY_ITEMS : MAX_ITEMS;

	door->read_full = false;
	notice_reader(door);
	if (fl_net_now(door->net) >= door->parked_ms)
	{
		door->parked_ms = fl_net_now(door->net) + LOOK_MS;
		unpark_all(door);
	}
	INSTR_TIME_SET_CURRENT(start);
	while (n < most && (item = fl_read_next(FL_READ_TO_DOOR, door->index)) != NULL)
	{
		if (n++ == 0)
			fl_mqtt_begin_transaction(door);
		take_item(door, item);
		/* Only now: after an error its connection is gone, and it is passed over. */
		fl_read_done(FL_READ_TO_DOOR, door->index);
		if (n % 16 != 0)
			continue;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		if ((uint64) INSTR_TIME_GET_MICROSEC(now) >= us)
			break;
	}
	/* The reader may wait for room. */
	if (n > 0 && item != NULL)
		fl_worker_wake(FL_WORKER_READER, 0);
	door->read_more = item != NULL;
}
