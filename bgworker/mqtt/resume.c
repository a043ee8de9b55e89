/*
 * resume.c
 *		Subscriptions of a session, over connections: where it stands when one ends,
 *		and how the next one goes on from there (M7).
 *
 *	end of a connection ─► checkpoint: a bookmark per shard, deliveries under way
 *	next connection ─► filters ─► deliveries under way again, under their identifiers
 *	                           ─► the log from the bookmarks on (catchup.c) ─► live feed
 *
 * While nobody is connected nothing is kept but these: what comes meanwhile is in the
 * log.  A bookmark is where the connection had read to, but not beyond what still
 * waited in its queue.  Where retention has passed it, catch-up begins at the oldest
 * record and counts the gap.
 *
 * A crash finds the last checkpoint: what was sent at QoS 1 since then is sent again.
 *
 * Called by session.c, connect.c, connection.c, catchup.c.
 */
#include "postgres.h"

#include "fleetlog/topic.h"
#include "mqtt.h"
#include "packet.h"
#include "share.h"

#define SAVE_BUSY_MS 10000 /* between checkpoints of who is given records */
#define SAVE_IDLE_MS 300000
#define MAX_NUMBERED 500 /* deliveries at the end of a connection, so that its checkpoint has room */

/* ---- where it stands ---- */

int64
fl_mqtt_read_to(FlMqttConn *conn, int number)
{
	FlMqttDoor *door = conn->door;
	FlMqttFeed *feed = &door->feeds[number];
	FlMqttSubscriber *sub = conn->sub;
	int64 head;
	int64 tail;

	if (sub->lagging && number < sub->cursor_count)
		return door->current_lag == conn && door->lag_feed == number ? door->lag_at : sub->cursors[number].offset;
	/* The connection may end while a record is being handed out. */
	if (feed->at >= 0)
		return feed->at;
	/* What no filter can match need not be read again. */
	if (!feed->wanted && fl_mqtt_feed_bounds(feed, &head, &tail))
		return tail;
	return feed->pos.offset;
}

/*
 * A bookmark, and to where nothing is sent at QoS 0 any more: such a message does not
 * wait for those before it, so it may have been sent from beyond the bookmark.  While
 * the connection goes on nobody can say how far: then none that is older than the
 * next connection is.
 */
static void
encode_position(FlMqttConn *conn, FlBuf *out, int feed, int64 bookmark, int64 exact, bool keep_mark)
{
	FlMqttSubscriber *sub = conn->sub;
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_BOOKMARK);
	int64 exact2 = feed * 2 + 1 < sub->exact_count ? sub->exact[feed * 2 + 1] : 0;

	event.stream = conn->door->feeds[feed].stream;
	event.shard = (uint16) conn->door->feeds[feed].shard;
	event.log_offset = bookmark;
	fl_session_encode_event(out, &event);
	event.type = FL_SESSION_EXACT;
	event.log_offset = exact;
	if (exact != bookmark)
		fl_session_encode_event(out, &event);
	/* At QoS 2 the last connection was further; what left in this one is told by the deliveries themselves. */
	event.qos = 2;
	event.log_offset = exact2;
	if (keep_mark && exact2 > bookmark)
		fl_session_encode_event(out, &event);
}

/* To where something may have been sent to it at QoS 0, when it is sent nothing more. */
static int64
may_be_sent_to(FlMqttConn *conn, int number)
{
	FlMqttSubscriber *sub = conn->sub;
	FlMqttDoor *door = conn->door;
	bool in_hand = sub->lagging ? door->current_lag == conn && door->lag_feed == number : door->feeds[number].at >= 0;
	int64 upto = fl_mqtt_read_to(conn, number) + (in_hand ? 1 : 0);

	/* What was sent beyond belongs to subscriptions that note it. */
	if (sub->rewound)
		return upto;
	/* It may not even have come to where the last connection was. */
	return number * 2 < sub->exact_count ? Max(upto, sub->exact[number * 2]) : upto;
}

int64 *
fl_mqtt_unsent_from(FlMqttConn *conn, uint32 written)
{
	FlMqttDoor *door = conn->door;
	FlMqttSubscriber *sub = conn->sub;
	int64 *upto = MemoryContextAlloc(door->turn, sizeof(int64) * (Size) Max(door->feed_count, 1));

	for (int i = 0; i < door->feed_count; i++)
		upto[i] = fl_mqtt_read_to(conn, i);
	for (uint32 i = written; i < sub->queue_len; i++)
	{
		const FlMqttMessage *message = sub->queue[(sub->queue_head + i) % sub->queue_cap].message;

		if (message->feed >= 0 && !message->aside)
			upto[message->feed] = Min(upto[message->feed], message->log_offset);
	}
	return upto;
}

int64
fl_mqtt_first_unmarked(const FlMqttConn *conn, int feed)
{
	const FlMqttSubscriber *sub = conn->sub;
	int64 first = PG_INT64_MAX;

	for (uint32 i = sub->writing + sub->written; i < sub->queue_len; i++)
	{
		const FlMqttQueued *item = &sub->queue[(sub->queue_head + i) % sub->queue_cap];

		if (item->no_mark && !item->message->aside && item->packet_id == 0 && item->message->feed == feed)
			first = Min(first, item->message->log_offset);
	}
	return first;
}

/* Where the session goes on, when it looks back as it is about to; -1: at the time of its oldest filter. */
static int64
bookmark_for(const FlMqttSeek *seek, int feed, int64 upto)
{
	if (seek == NULL || feed >= seek->count || upto <= 0)
		return upto;
	return Min(upto, seek->from[feed]);
}

static void
encode_bookmarks(FlMqttConn *conn, FlBuf *out, bool last, const FlMqttSeek *seek)
{
	FlMqttDoor *door = conn->door;
	int64 *upto = fl_mqtt_unsent_from(conn, conn->sub->writing + conn->sub->written);
	int64 *bookmarks = MemoryContextAlloc(door->turn, sizeof(int64) * (Size) Max(door->feed_count, 1));

	for (int i = 0; i < door->feed_count; i++)
	{
		bookmarks[i] = bookmark_for(seek, i, upto[i]);
		/* One that has no position yet is given one when it is read. */
		if (door->feeds[i].gone || bookmarks[i] < 0)
			continue;
		/* Where it is about to look back, marks of what it had are not for what it will read. */
		encode_position(conn, out, i, bookmarks[i], last ? may_be_sent_to(conn, i) : PG_INT64_MAX,
						bookmarks[i] == upto[i]);
	}
	fl_mqtt_encode_starts(conn, out, seek, upto, bookmarks);
	pfree(upto);
	pfree(bookmarks);
}

void
fl_mqtt_encode_sent(FlMqttConn *conn, FlBuf *out, const FlMqttSent *sent)
{
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_AT);
	bool exact = sent->state != FL_MQTT_SENT_QOS1;

	if (!exact && sent->feed < 0)
		return;
	/* One that cannot be read again has its identifier all the same, which the client may hold. */
	if (sent->feed >= 0)
	{
		event.stream = conn->door->feeds[sent->feed].stream;
		event.shard = (uint16) conn->door->feeds[sent->feed].shard;
		event.log_offset = sent->log_offset;
	}
	event.packet_id = sent->id;
	event.qos = exact ? 2 : 1;
	event.retain = sent->retain;
	/* What it was given as member of a group goes to the others; at QoS 2 it must not (MQTT-4.8.2-5). */
	event.shared = sent->place != NULL || sent->shared;
	event.aside = sent->aside || sent->feed < 0 || event.shared;
	fl_session_encode_event(out, &event);
	event.type = FL_SESSION_SENT;
	fl_session_encode_event(out, &event);
	if (sent->state != FL_MQTT_SENT_RELEASED && sent->state != FL_MQTT_SENT_RELEASING)
		return;
	event.type = FL_SESSION_SENT_RELEASED;
	fl_session_encode_event(out, &event);
}

/* By position: of one shard that is the order in which they were sent (MQTT-4.6.0-1). */
static int
by_position(const void *x, const void *y)
{
	const FlMqttSent *a = x;
	const FlMqttSent *b = y;

	if (a->feed != b->feed)
		return a->feed < b->feed ? -1 : 1;
	return a->log_offset < b->log_offset ? -1 : a->log_offset > b->log_offset;
}

void
fl_mqtt_encode_checkpoint(FlMqttConn *conn, FlBuf *out, bool last, const FlMqttSeek *seek)
{
	FlMqttSubscriber *sub = conn->sub;
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_CHECKPOINT);
	FlMqttSent *sent;
	int n;

	if (last)
		fl_mqtt_number_queued(conn, MAX_NUMBERED);
	n = sub->inflight_count;
	sent = MemoryContextAlloc(conn->door->turn, sizeof(FlMqttSent) * (Size) Max(n, 1));
	fl_session_encode_event(out, &event);
	encode_bookmarks(conn, out, last, seek);
	if (n > 0)
		memcpy(sent, sub->inflight, sizeof(FlMqttSent) * (Size) n);
	qsort(sent, (size_t) n, sizeof(FlMqttSent), by_position);
	for (int i = 0; i < n; i++)
	{
		if (seek != NULL && sent[i].feed >= 0 && sent[i].feed < seek->count &&
			sent[i].log_offset >= seek->from[sent[i].feed])
			sent[i].aside = true;
		fl_mqtt_encode_sent(conn, out, &sent[i]);
	}
	for (int i = sub->restored_next; i < sub->restored_count; i++)
		fl_mqtt_encode_sent(conn, out, &sub->restored[i]);
	pfree(sent);
}

/*
 * Where there is no room now, or for so many, the last checkpoint holds: more is
 * sent again at QoS 1, and nothing is lost.
 */
void
fl_mqtt_leave_bookmarks(FlMqttConn *conn)
{
	if (conn->session.number == 0 || conn->session_ending || conn->sub == NULL || conn->sub->resuming)
		return;
	fl_buf_reset(&conn->door->out);
	fl_mqtt_encode_checkpoint(conn, &conn->door->out, true, NULL);
	if (fl_mqtt_write_events(conn, FL_MQTT_COOKIE_CHECKPOINT, true) == FL_ERR_NONE)
		fl_mqtt_share_noted(conn);
}

/*
 * Bookmarks also of who gets nothing: after a crash less of the log is read again, and
 * what retention has taken meanwhile is not counted as a gap.
 */
void
fl_mqtt_save_bookmarks(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;
	int64 now = fl_net_now(conn->door->net);

	/* Nor while it is about to look back, which the last one says already. */
	if (sub == NULL || conn->session.number == 0 || conn->session_ending || sub->resuming || conn->session_writing ||
		conn->session_written)
		return;
	if (sub->saved_ms == 0)
		sub->saved_ms = now;
	if (now - sub->saved_ms < (sub->saved_delivered != sub->delivered ? SAVE_BUSY_MS : SAVE_IDLE_MS))
		return;
	sub->saved_ms = now;
	sub->saved_delivered = sub->delivered;
	fl_buf_reset(&conn->door->out);
	fl_mqtt_encode_checkpoint(conn, &conn->door->out, false, NULL);
	if (fl_mqtt_write_events(conn, 0, false) == FL_ERR_NONE)
		fl_mqtt_share_noted(conn);
}

/* ---- the next connection ---- */

static int
find_feed(const FlMqttDoor *door, const FlSessionEvent *e)
{
	for (int i = 0; i < door->feed_count; i++)
		if (door->feeds[i].stream == e->stream && door->feeds[i].shard == e->shard && !door->feeds[i].gone)
			return i;
	return -1;
}

static void
add_restored(FlMqttConn *conn, int feed, const FlSessionEvent *e)
{
	FlMqttSubscriber *sub = conn->sub;

	/* Doubled at each power of two. */
	if ((sub->restored_count & (sub->restored_count - 1)) == 0)
	{
		Size size = sizeof(FlMqttSent) * (Size) Max(sub->restored_count * 2, 1);

		sub->restored =
			sub->restored == NULL ? MemoryContextAlloc(conn->door->context, size) : repalloc(sub->restored, size);
	}
	sub->restored[sub->restored_count++] = (FlMqttSent){.id = e->packet_id,
														.state = e->qos == 2 ? FL_MQTT_SENT_QOS2 : FL_MQTT_SENT_QOS1,
														.feed = feed,
														.retain = e->retain,
														.aside = e->aside,
														.shared = e->shared,
														.log_offset = e->log_offset};
}

static void
set_exact(FlMqttConn *conn, int feed, const FlSessionEvent *e)
{
	FlMqttSubscriber *sub = conn->sub;

	if (sub->exact == NULL)
	{
		sub->exact = MemoryContextAllocZero(conn->door->context, sizeof(int64) * 2 * (Size) conn->door->feed_count);
		sub->exact_count = conn->door->feed_count * 2;
	}
	sub->exact[feed * 2 + e->qos / 2] = e->log_offset;
}

static void
set_cursor(FlMqttConn *conn, int feed, int64 log_offset)
{
	FlLogPosition *cursor = &conn->sub->cursors[feed];

	memset(cursor, 0, sizeof(*cursor));
	cursor->offset = log_offset;
}

/* One thing that the session has.  A stream that is not mounted any more has nothing to send. */
static void
take_event(FlMqttConn *conn, const FlSessionEvent *e)
{
	FlMqttSubscriber *sub = conn->sub;
	int feed = find_feed(conn->door, e);

	switch ((FlSessionEventType) e->type)
	{
		case FL_SESSION_BOOKMARK:
			if (feed >= 0)
				set_cursor(conn, feed, e->log_offset);
			break;
		case FL_SESSION_EXACT:
			if (feed >= 0)
				set_exact(conn, feed, e);
			break;
		case FL_SESSION_START:
			if (feed >= 0)
				fl_mqtt_restore_start(conn, feed, e);
			break;
		case FL_SESSION_SENT:
			/* A release is wanted for what has been taken, wherever it came from. */
			add_restored(conn, feed, e);
			break;
		case FL_SESSION_SENT_RELEASED:
			if (sub->restored_count > 0 && sub->restored[sub->restored_count - 1].id == e->packet_id)
				sub->restored[sub->restored_count - 1].state = FL_MQTT_SENT_RELEASED;
			break;
		case FL_SESSION_AT:
		case FL_SESSION_OPENED:
		case FL_SESSION_ENDED:
		case FL_SESSION_CHANGED:
		case FL_SESSION_RECEIVED:
		case FL_SESSION_RELEASED:
		case FL_SESSION_SNAPSHOT:
		case FL_SESSION_SNAPSHOT_END:
		case FL_SESSION_AWAY:
		case FL_SESSION_SUBSCRIBED:
		case FL_SESSION_UNSUBSCRIBED:
		case FL_SESSION_CHECKPOINT:
		case FL_SESSION_SENT_DONE:
		case FL_SESSION_WILL:
		case FL_SESSION_WILL_DONE:
			break;
	}
}

void
fl_mqtt_restore_share_starts(FlMqttFilter *filter, const uint8 *events, Size len)
{
	FlMqttDoor *door = filter->conn->door;
	FlSessionReader reader;
	FlSessionEvent e;

	fl_session_reader_init(&reader, events, len);
	while (fl_session_next_event(&reader, &e))
	{
		int feed = fl_mqtt_is_start_of(filter, &e) ? find_feed(door, &e) : -1;

		if (feed >= 0)
			fl_mqtt_set_share_start(filter, feed, e.log_offset);
	}
}

/* Filters come first: positions are wanted only where there are some. */
static void
restore_filters(FlMqttConn *conn, const uint8 *events, Size len)
{
	FlSessionReader reader;
	FlSessionEvent e;
	FlBuf *out = &conn->door->out;

	fl_buf_reset(out);
	fl_session_reader_init(&reader, events, len);
	while (fl_session_next_event(&reader, &e))
	{
		if (e.type != FL_SESSION_SUBSCRIBED)
			continue;
		if (fl_mqtt_restore_filter(conn, &e, events, len))
			continue;
		if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_NOT_AUTHORISED))
			ereport(LOG, (errmsg("fleetlog: %s has lost its subscription to \"%.*s\"", fl_mqtt_name(conn),
								 (int) Min(e.text_len, 200), (const char *) e.text),
						  errdetail("It has no right to it any more, or there is no place for another shared one.")));
		e.type = FL_SESSION_UNSUBSCRIBED;
		fl_session_encode_event(out, &e);
	}
	if (out->len > 0)
		(void) fl_mqtt_write_events(conn, 0, false);
}

/* After a failover the log may end before a bookmark. */
static void
stay_below_tails(FlMqttConn *conn)
{
	FlMqttDoor *door = conn->door;

	for (int i = 0; i < conn->sub->cursor_count; i++)
	{
		int64 head;
		int64 tail;

		if (!fl_mqtt_feed_bounds(&door->feeds[i], &head, &tail))
			continue;
		if (conn->sub->cursors[i].offset > tail)
			set_cursor(conn, i, tail);
		if (i * 2 + 1 < conn->sub->exact_count)
		{
			conn->sub->exact[i * 2] = Min(conn->sub->exact[i * 2], tail);
			conn->sub->exact[i * 2 + 1] = Min(conn->sub->exact[i * 2 + 1], tail);
		}
	}
}

void
fl_mqtt_resume_session(FlMqttConn *conn)
{
	FlMqttDoor *door = conn->door;
	FlSessionReader reader;
	FlSessionEvent e;
	uint8 *events;
	Size len;

	if (conn->session.number == 0 || !fl_session_copy(&conn->session, &door->out))
		return;
	len = door->out.len;
	events = MemoryContextAllocHuge(door->turn, len);
	memcpy(events, door->out.data, len);
	fl_mqtt_get_subscriber(conn)->resuming = true;
	restore_filters(conn, events, len);
	fl_mqtt_start_reading(conn);
	for (int i = 0; i < conn->sub->cursor_count; i++)
		set_cursor(conn, i, -1);
	fl_session_reader_init(&reader, events, len);
	while (fl_session_next_event(&reader, &e))
		take_event(conn, &e);
	stay_below_tails(conn);
	fl_mqtt_share_take_back(conn);
	conn->sub->resuming = false;
	door->interest_changed = true;
	door->feed_more = true;
}

bool
fl_mqtt_is_below_mark(const FlMqttConn *conn, int feed, int64 log_offset, uint8 qos)
{
	const FlMqttSubscriber *sub = conn->sub;

	return qos != 1 && feed * 2 + 1 < sub->exact_count && log_offset < sub->exact[feed * 2 + qos / 2];
}

/* ---- what was under way ---- */

/* As its filters that select the topic want it, whenever they were made. */
static FlMqttHow
how_again(FlMqttConn *conn, FlMqttBytes topic, const FlMqttSent *sent)
{
	FlMqttDoor *door = conn->door;
	FlMqttHow how = {.qos = sent->state == FL_MQTT_SENT_QOS1 ? 1 : 2, .retain = sent->retain, .ids = door->id_list};
	dlist_iter iter;

	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);
		FlMqttBytes text = fl_mqtt_topic_filter(filter);

		if ((filter->share != NULL && !sent->aside) || !fl_topic_matches(topic.data, topic.len, text.data, text.len))
			continue;
		how.position = Max(how.position, filter->position);
		if (filter->id != 0 && how.id_count < door->id_cap)
			door->id_list[how.id_count++] = filter->id;
	}
	return how;
}

/* False: the record is not there any more, or not for it. */
static bool
send_record(FlMqttConn *conn, const FlMqttSent *sent, const FlLogRecord *rec)
{
	FlMqttDoor *door = conn->door;
	FlMqttMessage *message = &door->message;
	FlMqttBytes topic;
	const FlMount *mount;
	const char *why;
	FlMqttHow how;

	if (!fl_mqtt_record_topic(rec, &topic) || (mount = fl_mqtt_mount_of(&door->feeds[sent->feed], topic)) == NULL)
		return false;
	fl_mqtt_record_message(door, rec, door->feeds[sent->feed].shard, topic, mount, message);
	message->feed = sent->feed;
	message->aside = sent->aside;
	if (fl_acl_is_guarded((const char *) topic.data, topic.len) &&
		!fl_acl_may_receive(fl_mqtt_identity(conn), (const char *) topic.data, topic.len))
		return false;
	/* The right may have been withdrawn since (case O-D). */
	if (!fl_acl_check(fl_mqtt_identity(conn), FL_ACTION_SUBSCRIBE, (const char *) topic.data, topic.len, &why))
		return false;
	how = how_again(conn, topic, sent);
	fl_mqtt_deliver_again(conn, message, sent, &how);
	return true;
}

static bool
send_again(FlMqttConn *conn, const FlMqttSent *sent)
{
	FlMqttDoor *door = conn->door;
	FlMqttFeed *feed = &door->feeds[sent->feed];
	FlLogPosition pos = {.offset = sent->log_offset};
	FlLogReader *reader;
	FlStoredBatch batch;
	FlLogRecord rec;
	int64 head;
	int64 tail;
	bool sent_it = false;

	if (feed->gone || !fl_mqtt_feed_bounds(feed, &head, &tail) || sent->log_offset < head || sent->log_offset >= tail)
		return false;
	fl_mqtt_begin_transaction(door);
	reader = fl_log_reader_begin(feed->stream, feed->shard, &pos, sent->log_offset + 1);
	if (fl_log_reader_next(reader, &batch))
	{
		fl_batch_decoder_open(door->decoder, &batch);
		while (!sent_it && fl_batch_decoder_next(door->decoder, &rec) && rec.log_offset <= sent->log_offset)
			if (rec.log_offset == sent->log_offset)
				sent_it = send_record(conn, sent, &rec);
	}
	fl_log_reader_end(reader);
	return sent_it;
}

bool
fl_mqtt_send_restored(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	while (sub->restored_next < sub->restored_count)
	{
		FlMqttSent sent = sub->restored[sub->restored_next];

		if (!fl_mqtt_window_is_open(conn))
			return false;
		if (sent.state == FL_MQTT_SENT_RELEASED)
			fl_mqtt_release_again(conn, &sent);
		else if (sent.feed < 0 || !send_again(conn, &sent))
		{
			sub->dropped++;
			if (sent.feed >= 0)
				fl_mqtt_lost_records(conn, sent.feed, 1);
			/* The client may have it, and hold its identifier. */
			if (sent.state == FL_MQTT_SENT_QOS2)
				fl_mqtt_release_again(conn, &sent);
		}
		/* Only now: after an error in reading it is still to be sent. */
		sub->restored_next++;
		conn->stats_dirty = true;
	}
	if (sub->restored != NULL)
	{
		pfree(sub->restored);
		/* Groups have waited for this. */
		conn->door->feed_more = true;
	}
	sub->restored = NULL;
	sub->restored_count = sub->restored_next = 0;
	return true;
}
