/*
 * position.c
 *		Positions and losses told to subscribers (M12).
 *
 * Who subscribed with `fl-position: on` gets with each delivery, as user properties,
 * where its record stands: fl-shard, fl-offset, fl-ts, fl-epoch, fl-stream where its
 * filter reaches several streams, and fl-gap with the first record of a shard after
 * some of that shard were lost.  They stand before the publisher's own properties,
 * and a publisher's property of such a name is left out, so that nobody can tell a
 * subscriber a position that is none.
 *
 * Who subscribed with `fl-on-drop: end` is sent nothing behind a loss.  Where it
 * happens the connection leaves the feed, at just that record, and is marked; the
 * next who would serve it (catchup.c) ends it instead, when nobody is in the middle
 * of handing out a record.  Its cursors are then where it has to resume, and where
 * the bookmarks of its session are left.
 *
 * What is a loss: a QoS 0 message for which there was no room, and records that
 * retention removed before they were read.  Not: what has expired, or is larger than
 * the client takes; the standard lets those vanish, and to ask again would not help.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "mqtt.h"
#include "packet.h"

#define TIME_LEN (FL_MQTT_TIME_LEN + 3) /* with microseconds: to begin there passes over nothing */

/* ---- what was lost ---- */

void
fl_mqtt_note_gap(FlMqttConn *conn, int feed, uint64 lost)
{
	FlMqttSubscriber *sub = conn->sub;

	if (lost == 0 || feed < 0)
		return;
	if (feed >= sub->gap_count)
	{
		int count = conn->door->feed_count;

		sub->gaps = sub->gaps == NULL ? MemoryContextAlloc(conn->door->context, sizeof(uint32) * (Size) count)
									  : repalloc(sub->gaps, sizeof(uint32) * (Size) count);
		memset(sub->gaps + sub->gap_count, 0, sizeof(uint32) * (Size) (count - sub->gap_count));
		sub->gap_count = count;
	}
	sub->gaps[feed] = (uint32) Min((uint64) sub->gaps[feed] + lost, PG_UINT32_MAX);
}

uint32
fl_mqtt_take_gap(FlMqttConn *conn, const FlMqttMessage *message)
{
	FlMqttSubscriber *sub = conn->sub;
	uint32 gap;

	if (message->feed < 0 || message->feed >= sub->gap_count)
		return 0;
	gap = sub->gaps[message->feed];
	sub->gaps[message->feed] = 0;
	return gap;
}

/* May some filter of the connection select what the feed brings? */
static bool
reaches(const FlMqttFilter *filter, const FlMqttFeed *feed)
{
	return !feed->gone && fl_mqtt_reaches(fl_mqtt_topic_filter(filter), feed->stream);
}

void
fl_mqtt_lost_records(FlMqttConn *conn, int feed, uint64 lost)
{
	dlist_iter iter;
	bool told = false;

	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

		if (filter->share != NULL || (filter->position == FL_MQTT_POSITION_OFF && !filter->end_on_drop) ||
			!reaches(filter, &conn->door->feeds[feed]))
			continue;
		if (filter->position != FL_MQTT_POSITION_OFF && !told)
		{
			fl_mqtt_note_gap(conn, feed, lost);
			told = true;
		}
		conn->sub->ending = conn->sub->ending || filter->end_on_drop;
	}
}

/* What the walk over all connections below has to know; there is one door in a process. */
static int lost_feed;
static uint64 lost_count;

static void
feed_lost(FlMqttConn *conn)
{
	if (conn->state != FL_MQTT_STATE_OPEN || conn->sub == NULL || conn->sub->lagging)
		return;
	fl_mqtt_lost_records(conn, lost_feed, lost_count);
	if (conn->sub->ending)
		fl_mqtt_start_reading(conn);
}

/* The feed stands at the oldest record now. */
void
fl_mqtt_feed_lost(FlMqttDoor *door, int feed, uint64 lost)
{
	lost_feed = feed;
	lost_count = lost;
	fl_mqtt_each(door, feed_lost);
}

/* ---- a delivery's own properties ---- */

static bool
is_reserved(FlMqttBytes name)
{
	static const char *const names[] = {"fl-shard", "fl-offset", "fl-ts", "fl-epoch", "fl-stream", "fl-gap"};

	for (int i = 0; i < (int) lengthof(names); i++)
		if (name.len == strlen(names[i]) && memcmp(name.data, names[i], name.len) == 0)
			return true;
	return false;
}

static void
add_property(FlMqttDoor *door, uint32 *n, const char *name, const char *value)
{
	door->told[*n].name.data = (const uint8 *) name;
	door->told[*n].name.len = (uint32) strlen(name);
	door->told[*n].value.data = (const uint8 *) value;
	door->told[*n].value.len = (uint32) strlen(value);
	(*n)++;
}

/* A stream's name, with its schema where another stream that is mounted has the same; NULL: it is gone. */
static const char *
stream_name(FlMqttDoor *door, Oid relid)
{
	static char both[2 * NAMEDATALEN + 1];
	const FlStreamInfo *stream = fl_stream_lookup(relid);

	if (stream == NULL)
		return NULL;
	for (int i = 0; i < door->feed_count; i++)
	{
		const FlStreamInfo *other =
			door->feeds[i].stream != relid && !door->feeds[i].gone ? fl_stream_lookup(door->feeds[i].stream) : NULL;

		if (other != NULL && strcmp(other->name, stream->name) == 0)
		{
			snprintf(both, sizeof(both), "%s.%s", stream->schema, stream->name);
			return both;
		}
	}
	return stream->name;
}

static void
format_microseconds(TimestampTz at, char out[TIME_LEN + 1])
{
	fl_mqtt_format_time(at, out);
	snprintf(out + FL_MQTT_TIME_LEN - 1, 5, "%03dZ", (int) (at >= 0 ? at % 1000 : 0));
}

void
fl_mqtt_tell_position(FlMqttDoor *door, FlMqttMessage *message, FlMqttPositionWish wish, uint32 gap)
{
	static char shard[16];
	static char log_offset[24];
	static char ts[TIME_LEN + 1];
	static char epoch[16];
	static char lost[16];
	FlMqttProps *props = &message->publish.props;
	const char *name = wish == FL_MQTT_POSITION_WITH_STREAM ? stream_name(door, message->stream) : NULL;
	uint32 n = 0;

	snprintf(shard, sizeof(shard), "%d", message->shard);
	snprintf(log_offset, sizeof(log_offset), INT64_FORMAT, message->log_offset);
	format_microseconds(message->ts, ts);
	add_property(door, &n, "fl-shard", shard);
	add_property(door, &n, "fl-offset", log_offset);
	add_property(door, &n, "fl-ts", ts);
	if (message->epoch >= 0)
	{
		snprintf(epoch, sizeof(epoch), "%d", message->epoch);
		add_property(door, &n, "fl-epoch", epoch);
	}
	if (name != NULL)
		add_property(door, &n, "fl-stream", name);
	if (gap > 0)
	{
		snprintf(lost, sizeof(lost), "%u", gap);
		add_property(door, &n, "fl-gap", lost);
	}
	Assert(n <= FL_MQTT_TOLD);
	for (uint32 i = 0; i < props->user_count; i++)
		if (!is_reserved(props->users[i].name))
			door->told[n++] = props->users[i];
	props->users = door->told;
	props->user_count = n;
}

void
fl_mqtt_untell_position(FlMqttMessage *message, const FlMqttUserProperty *users, uint32 user_count)
{
	message->publish.props.users = users;
	message->publish.props.user_count = user_count;
}

/* ---- where to resume ---- */

static bool
are_of_several_streams(const FlMqttDoor *door, const int64 *from, int count)
{
	Oid first = InvalidOid;

	for (int i = 0; i < count; i++)
	{
		if (from[i] < 0 || from[i] == PG_INT64_MAX)
			continue;
		if (OidIsValid(first) && door->feeds[i].stream != first)
			return true;
		first = door->feeds[i].stream;
	}
	return false;
}

/* In a transaction.  Epochs go with the offsets, so that a log that has become another one is noticed. */
char *
fl_mqtt_format_places(FlMqttDoor *door, const int64 *from, int count)
{
	char *text = MemoryContextAlloc(door->turn, PG_UINT16_MAX + 1);
	bool with_names = are_of_several_streams(door, from, count);
	Size len = 0;

	for (int i = 0; i < count; i++)
	{
		const FlMqttFeed *feed = &door->feeds[i];
		const char *name = with_names ? stream_name(door, feed->stream) : NULL;
		Size n;

		if (from[i] < 0 || from[i] == PG_INT64_MAX || feed->gone || (with_names && name == NULL))
			continue;
		if (len > 0)
			text[len++] = ',';
		n = fl_history_format_place(text + len, PG_UINT16_MAX - len, name, feed->shard, from[i],
									fl_epoch_of(feed->stream, feed->shard, from[i] - 1));
		if (n == 0 || len + n >= PG_UINT16_MAX)
			return NULL;
		len += n;
	}
	text[len] = '\0';
	return len > 0 ? text : NULL;
}

/* Its cursors, where some filter of it may get something. */
static char *
resume_text(FlMqttConn *conn)
{
	FlMqttDoor *door = conn->door;
	int64 *from = fl_mqtt_unsent_from(conn, 0);
	dlist_iter iter;

	for (int i = 0; i < door->feed_count; i++)
	{
		bool wanted = false;

		dlist_foreach (iter, &conn->sub->filters)
		{
			FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

			wanted = wanted || (filter->share == NULL && reaches(filter, &door->feeds[i]));
		}
		if (!wanted)
			from[i] = PG_INT64_MAX;
	}
	return fl_mqtt_format_places(door, from, door->feed_count);
}

void
fl_mqtt_end_at_drop(FlMqttConn *conn)
{
	FlMqttUserProperty resume = {{(const uint8 *) "fl-resume", 9}, {NULL, 0}};
	char *text;

	fl_mqtt_begin_transaction(conn->door);
	text = resume_text(conn);
	if (fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_FEED))
		ereport(LOG, (errmsg("fleetlog: %s is disconnected: messages for it were dropped, and it asked to end then",
							 fl_mqtt_name(conn)),
					  text != NULL ? errdetail("It was told to resume at %.*s.", 200, text) : 0));
	conn->end_logged = true;
	if (text != NULL)
	{
		resume.value.data = (const uint8 *) text;
		resume.value.len = (uint32) strlen(text);
	}
	fl_mqtt_disconnect_with(conn, FL_MQTT_RC_QUOTA_EXCEEDED, "messages were dropped", &resume, text != NULL ? 1 : 0);
}
