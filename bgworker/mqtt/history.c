/*
 * history.c
 *		Subscriptions that begin in the past (M11), or further ahead.
 *
 *	SUBSCRIBE ─► wishes ─► plan: by feed, where it begins ─► cursors set back, connection reads by itself
 *	                                                     ─► catch-up (catchup.c) ─► live feed
 *
 * History is what catch-up reads, only from further back: the connection leaves the
 * shared feed and reads the log from the beginning of the new subscription, in its
 * turn and within the turn's budget, until it is where the feed is.  There is one
 * cursor per feed and connection, so nothing is lost, doubled or overtaken at the
 * seam.  Other subscriptions of the connection have been given what lies between: each
 * notes how far (`starts`), and is offered nothing below that.
 *
 * Where a subscription begins:
 *	beginning	the oldest record of each shard
 *	a time		`since`, which every record is compared with; the offset to which that
 *				leads is looked for when the shard is read, not in the SUBSCRIBE
 *	places		an offset per shard; a shard that is not named begins at its oldest
 *				record, as a position does in poll().  One that is too old begins there,
 *				too, and the gap is counted.  One that is not there yet waits.
 *
 * Called by subscribe.c, session.c, catchup.c.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/timestamp.h"

#include "fleetlog/topic.h"
#include "mqtt.h"
#include "packet.h"
#include "reading.h"
#include "share.h"

#define MAX_STARTS 500 /* of one session that are written to its journal */

/* ---- what a SUBSCRIBE asks for ---- */

static bool
is_text(FlMqttBytes b, const char *text)
{
	return b.len == strlen(text) && memcmp(b.data, text, b.len) == 0;
}

static void
take_wish(FlMqttWishes *wishes, const FlMqttUserProperty *p)
{
	if (is_text(p->name, "fl-from"))
	{
		if (wishes->from != NULL)
			wishes->bad = "fl-from twice";
		else if (fl_history_parse(p->value.data, p->value.len, &wishes->room, &wishes->bad) == FL_OK)
		{
			wishes->bad = NULL;
			wishes->from = &wishes->room;
		}
	}
	else if (is_text(p->name, "fl-position"))
	{
		wishes->position = is_text(p->value, "on");
		if (!wishes->position && !is_text(p->value, "off"))
			wishes->bad = "fl-position is neither on nor off";
	}
	else if (is_text(p->name, "fl-on-drop"))
	{
		wishes->end_on_drop = is_text(p->value, "end");
		if (!wishes->end_on_drop && !is_text(p->value, "continue"))
			wishes->bad = "fl-on-drop is neither end nor continue";
	}
}

void
fl_mqtt_read_wishes(const FlMqttProps *props, FlMqttWishes *wishes)
{
	FlMqttPropCursor at = {0};
	FlMqttUserProperty p;

	memset(wishes, 0, sizeof(*wishes));
	while (wishes->bad == NULL && fl_mqtt_props_next_user(props, &at, &p))
		take_wish(wishes, &p);
}

bool
fl_mqtt_may_seek(const FlMqttConn *conn, FlMqttWishes *wishes, const FlHistoryFrom *from)
{
	if (conn->sub != NULL && conn->sub->filter_count > FL_MQTT_MAX_BESIDE)
		return false;
	wishes->sought++;
	wishes->places += from->place_count;
	return wishes->sought <= FL_MQTT_MAX_SOUGHT && wishes->places <= FL_HISTORY_MAX_PLACES;
}

/* ---- which streams a filter reaches ---- */

/* All topics of `a/+/b` begin with `a/`, and so do those of `a/#` but `a` itself. */
static Size
literal_levels(FlMqttBytes filter)
{
	Size level = 0;

	for (Size i = 0; i < filter.len; i++)
	{
		if (filter.data[i] == '+' || filter.data[i] == '#')
			return level;
		if (filter.data[i] == '/')
			level = i + 1;
	}
	return filter.len;
}

/*
 * Length of the longest prefix of a mount that all topics of the filter have, but `a`
 * of `a/#`: shorter ones have none of them.
 */
static Size
covered_length(FlMqttBytes filter)
{
	Size literal = literal_levels(filter);
	Size longest = 0;
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int m = 0; m < count; m++)
		if (mounts[m].prefix_len > longest && mounts[m].prefix_len <= literal &&
			memcmp(mounts[m].prefix, filter.data, mounts[m].prefix_len) == 0)
			longest = mounts[m].prefix_len;
	return longest;
}

/* The mount that the topic `a` of `a/#` belongs to; NULL: none, or there is no such topic. */
static const FlMount *
mount_of_parent(FlMqttBytes filter)
{
	Size literal = literal_levels(filter);

	if (literal < 2 || literal + 1 != filter.len || filter.data[literal] != '#')
		return NULL;
	return fl_mount_match((const char *) filter.data, literal - 1);
}

static bool
mount_counts(const FlMount *mount, FlMqttBytes filter, Size covered)
{
	return mount->prefix_len >= covered &&
		   fl_topic_filter_reaches(filter.data, filter.len, (const uint8 *) mount->prefix, mount->prefix_len);
}

/*
 * Whose filter is wider than the command space means what the tenant's devices send, and
 * is not asked which of several streams it means.
 */
static bool
is_beside(const FlMount *mount, Size covered)
{
	return mount->commands && covered < mount->prefix_len;
}

bool
fl_mqtt_reaches(FlMqttBytes topic_filter, Oid stream)
{
	const FlMount *parent = mount_of_parent(topic_filter);
	Size covered = covered_length(topic_filter);
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int m = 0; m < count; m++)
		if (mounts[m].stream == stream && mount_counts(&mounts[m], topic_filter, covered))
			return true;
	return parent != NULL && parent->stream == stream;
}

bool
fl_mqtt_reaches_several(FlMqttBytes topic_filter)
{
	const FlMount *parent = mount_of_parent(topic_filter);
	Oid first = parent != NULL ? parent->stream : InvalidOid;
	Size covered = covered_length(topic_filter);
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int m = 0; m < count; m++)
	{
		if (!mount_counts(&mounts[m], topic_filter, covered) || is_beside(&mounts[m], covered))
			continue;
		if (OidIsValid(first) && first != mounts[m].stream)
			return true;
		first = mounts[m].stream;
	}
	return false;
}

/* ---- a plan ---- */

/* The streams of which a filter may select something, once each. */
typedef struct Reach
{
	Oid *streams;
	int count;
	int whole; /* of the first so many more than one topic */
} Reach;

static bool
is_reached(const Reach *reach, Oid stream)
{
	for (int i = 0; i < reach->count; i++)
		if (reach->streams[i] == stream)
			return true;
	return false;
}

static void
find_streams(FlMqttDoor *door, FlMqttBytes filter, Reach *reach)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);
	const FlMount *parent = mount_of_parent(filter);
	Size covered = covered_length(filter);

	reach->streams = MemoryContextAlloc(door->turn, sizeof(Oid) * ((Size) count + 2));
	reach->count = 0;
	for (int m = 0; m < count; m++)
		if (mount_counts(&mounts[m], filter, covered) && !is_beside(&mounts[m], covered) && !is_reached(reach, mounts[m].stream))
			reach->streams[reach->count++] = mounts[m].stream;
	reach->whole = reach->count;
	for (int m = 0; m < count; m++)
		if (is_beside(&mounts[m], covered) && mount_counts(&mounts[m], filter, covered) && !is_reached(reach, mounts[m].stream))
			reach->streams[reach->count++] = mounts[m].stream;
	if (parent != NULL && !is_reached(reach, parent->stream))
		reach->streams[reach->count++] = parent->stream;
}

/* A stream of which the filter selects one topic at most gives history by time, or where it is named. */
static bool
is_read_whole(const Reach *reach, Oid stream)
{
	for (int i = 0; i < reach->whole; i++)
		if (reach->streams[i] == stream)
			return true;
	return false;
}

/* `telemetry`, or `public.telemetry`. */
static bool
names_stream(const FlHistoryPlace *place, const FlStreamInfo *stream)
{
	char both[2 * NAMEDATALEN + 1];

	if (stream == NULL)
		return false;
	snprintf(both, sizeof(both), "%s.%s", stream->schema, stream->name);
	return fl_history_names(place, stream->name) || fl_history_names(place, both);
}

/* The stream that a place is of; false: *why. */
static bool
find_stream(const FlHistoryPlace *place, const Reach *reach, Oid *stream, const char **why)
{
	*stream = place->stream_len == 0 && reach->whole > 0 ? reach->streams[0] : InvalidOid;
	*why = "the filter reaches several streams; write <stream>:<shard>:<offset>";
	if (place->stream_len == 0 && reach->whole > 1)
		return false;
	*why = "a position names one of several streams; put its schema before it";
	for (int i = 0; place->stream_len > 0 && i < reach->count; i++)
	{
		if (!names_stream(place, fl_stream_lookup(reach->streams[i])))
			continue;
		if (OidIsValid(*stream))
			return false;
		*stream = reach->streams[i];
	}
	*why = "the filter does not reach a stream that a position is of";
	return OidIsValid(*stream);
}

/* Feeds of a stream stand by the order of their shards, more or less: it is looked for behind the last one. */
static int
find_feed(const FlMqttDoor *door, int count, Oid stream, int32 shard, int last)
{
	for (int n = 1; n <= count; n++)
	{
		int i = (last + n) % count;

		if (door->feeds[i].stream == stream && door->feeds[i].shard == shard && !door->feeds[i].gone)
			return i;
	}
	return -1;
}

/* Beyond the end of its epoch a position stands behind records that this log does not have. */
static bool
has_diverged(FlMqttConn *conn, const FlMqttFeed *feed, const FlHistoryPlace *place, int64 tail, int64 *resume)
{
	bool known;
	int64 end;

	*resume = place->offset;
	if (place->epoch < 0)
		return false;
	fl_mqtt_begin_transaction(conn->door);
	end = fl_epoch_end(feed->stream, feed->shard, place->epoch, &known);
	if (known && place->offset <= end)
		return false;
	*resume = Min(place->offset, known ? end : tail);
	return true;
}

/* The offset of one place instead of the head that is there. */
static void
plan_place(FlMqttConn *conn, int i, const FlHistoryPlace *place, FlMqttStart *start, bool *diverged)
{
	FlMqttFeed *feed = &conn->door->feeds[i];
	int64 head = 0;
	int64 tail = 0;

	(void) fl_mqtt_feed_bounds(feed, &head, &tail);
	*diverged = has_diverged(conn, feed, place, tail, &start->from[i]) || *diverged;
	if (place->offset < head)
	{
		start->gone[i] = (uint64) (head - place->offset);
		start->lost += start->gone[i];
		start->from[i] = Max(start->from[i], head);
	}
	else if (place->offset > tail)
		start->ahead += place->offset - tail;
}

static bool
plan_places(FlMqttConn *conn, const Reach *reach, const FlHistoryFrom *from, FlMqttStart *start, bool *diverged,
			const char **why)
{
	bool *named = MemoryContextAllocZero(conn->door->turn, (Size) Max(start->count, 1));
	FlHistoryCursor at = {0};
	FlHistoryPlace place;
	int i = -1;

	start->gone = MemoryContextAllocZero(conn->door->turn, sizeof(uint64) * (Size) Max(start->count, 1));
	while (fl_history_next(from, &at, &place))
	{
		Oid stream;

		if (!find_stream(&place, reach, &stream, why))
			return false;
		i = find_feed(conn->door, start->count, stream, place.shard, i);
		*why = "a position names a shard that the stream does not have";
		if (i < 0)
			return false;
		*why = "a shard is named twice";
		if (named[i])
			return false;
		named[i] = true;
		plan_place(conn, i, &place, start, diverged);
	}
	return true;
}

bool
fl_mqtt_plan_history(FlMqttConn *conn, FlMqttBytes topic_filter, const FlHistoryFrom *from, FlMqttStart *start,
					 const char **why, const char **resume)
{
	FlMqttDoor *door = conn->door;
	bool diverged = false;
	Reach reach;

	*resume = NULL;
	memset(start, 0, sizeof(*start));
	start->count = door->feed_count;
	start->from = MemoryContextAlloc(door->turn, sizeof(int64) * (Size) Max(door->feed_count, 1));
	if (from->kind == FL_HISTORY_TIME)
		start->since = from->unix_us - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	find_streams(door, topic_filter, &reach);
	for (int i = 0; i < start->count; i++)
	{
		int64 tail;

		start->from[i] = PG_INT64_MAX;
		if (door->feeds[i].gone || !is_reached(&reach, door->feeds[i].stream) ||
			(from->kind == FL_HISTORY_PLACES && !is_read_whole(&reach, door->feeds[i].stream)))
			continue;
		if (from->kind == FL_HISTORY_TIME)
			start->from[i] = FL_MQTT_FROM_TIME;
		else if (!fl_mqtt_feed_bounds(&door->feeds[i], &start->from[i], &tail))
			start->from[i] = PG_INT64_MAX;
	}
	if (from->kind != FL_HISTORY_PLACES)
		return true;
	if (!plan_places(conn, &reach, from, start, &diverged, why))
		return false;
	if (!diverged)
		return true;
	*why = "the log is another one since then; fl-resume says where to go on";
	*resume = fl_mqtt_format_places(door, start->from, start->count);
	return false;
}

/* ---- carrying it out ---- */

static FlMqttBegin *
note_start(FlMqttFilter *filter, int feed)
{
	FlMqttDoor *door = filter->conn->door;

	if (feed >= filter->start_count)
	{
		Size size = sizeof(FlMqttBegin) * (Size) door->feed_count;

		filter->starts = filter->starts == NULL ? MemoryContextAlloc(door->context, size) : repalloc(filter->starts, size);
		memset(filter->starts + filter->start_count, 0,
			   sizeof(FlMqttBegin) * (Size) (door->feed_count - filter->start_count));
		filter->start_count = door->feed_count;
	}
	return &filter->starts[feed];
}

/* The subscription itself begins there. */
static void
set_start(FlMqttFilter *filter, int feed, int64 log_offset)
{
	*note_start(filter, feed) = (FlMqttBegin) {.at = log_offset, .asked = log_offset};
}

/* Where its group was; the place itself may be gone.  One more than that, since 0 means that nothing is noted. */
void
fl_mqtt_set_share_start(FlMqttFilter *filter, int feed, int64 log_offset)
{
	note_start(filter, feed)->at = log_offset + 1;
}

int64
fl_mqtt_share_start(const FlMqttFilter *filter, int feed)
{
	return feed < filter->start_count ? filter->starts[feed].at - 1 : -1;
}

void
fl_mqtt_free_starts(FlMqttFilter *filter)
{
	if (filter->starts != NULL)
		pfree(filter->starts);
	filter->starts = NULL;
	filter->start_count = 0;
}

/* The other filters have been given what lies below. */
static void
keep_from_others(FlMqttFilter *filter, int feed, int64 below)
{
	dlist_iter iter;

	dlist_foreach (iter, &filter->conn->sub->filters)
	{
		FlMqttFilter *other = dlist_container(FlMqttFilter, node, iter.cur);

		if (other != filter && other->share == NULL &&
			(feed >= other->start_count || other->starts[feed].at < below))
		{
			FlMqttBegin *begin = note_start(other, feed);

			begin->at = below;
			begin->pass = other->conn->sub->pass;
		}
	}
}

/* The connection reads the feed from there, if that is not where it is going to read anyway. */
static void
set_back(FlMqttFilter *filter, int feed, int64 from)
{
	FlMqttSubscriber *sub = filter->conn->sub;
	FlLogPosition *cursor = &sub->cursors[feed];

	/*
	 * Where it has not found its place yet, all goes by time, and by what each filter
	 * has noted.  Behind nothing a time leads nowhere.
	 */
	if (cursor->offset <= 0 || from >= cursor->offset)
		return;
	keep_from_others(filter, feed, cursor->offset);
	fl_mqtt_leave_marks(filter->conn, feed, from);
	memset(cursor, 0, sizeof(*cursor));
	cursor->offset = from;
	sub->rewound = true;
}

/*
 * Feeds that nobody wanted stand anywhere; they will be set to the durable tail in
 * this turn, and there is the connection that was not to get anything of them.
 */
static void
read_alone(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;
	int64 head;
	int64 tail;

	if (sub->lagging)
		return;
	fl_mqtt_start_reading(conn);
	for (int i = 0; i < sub->cursor_count; i++)
		if (!conn->door->feeds[i].wanted && fl_mqtt_feed_bounds(&conn->door->feeds[i], &head, &tail))
		{
			memset(&sub->cursors[i], 0, sizeof(sub->cursors[i]));
			sub->cursors[i].offset = tail;
		}
}

void
fl_mqtt_begin_history(FlMqttFilter *filter, const FlMqttStart *start)
{
	FlMqttConn *conn = filter->conn;
	FlMqttSubscriber *sub = conn->sub;

	fl_mqtt_free_starts(filter);
	filter->since = start->since;
	filter->sought = true;
	/* Nothing that is there yet can be as new. */
	if (start->since > (TimestampTz) pg_atomic_read_u64(&fl_shared->append_clock))
		return;
	read_alone(conn);
	fl_mqtt_cancel_asks(conn);
	sub->dropped += start->lost;
	sub->pass++;
	for (int i = 0; i < start->count; i++)
	{
		if (start->from[i] == PG_INT64_MAX)
			continue;
		set_back(filter, i, start->from[i]);
		if (start->from[i] > 0)
		{
			set_start(filter, i, start->from[i]);
			sub->rewound = true;
		}
		if (start->gone != NULL && filter->position != FL_MQTT_POSITION_OFF)
			fl_mqtt_note_gap(conn, i, start->gone[i]);
	}
	conn->door->feed_more = true;
}

/*
 * What was put off: the first record that some filter may want.  Each begins at the
 * place that it has noted, where it was when another one began to look back, or else
 * at the time since which it is there.
 */
int64
fl_mqtt_find_start(FlMqttConn *conn, int feed, int64 tail)
{
	FlMqttFeed *at = &conn->door->feeds[feed];
	TimestampTz since = PG_INT64_MAX;
	int64 noted = tail;
	int64 from;
	dlist_iter iter;

	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

		if (filter->share != NULL)
			continue;
		if (feed < filter->start_count && filter->starts[feed].at > 0)
			noted = Min(noted, filter->starts[feed].at);
		else
			since = Min(since, filter->since);
	}
	if (since == PG_INT64_MAX)
		return noted;
	fl_mqtt_begin_transaction(conn->door);
	from = fl_log_offset_for_time(at->stream, at->shard, since);
	return from < 0 ? noted : Min(from, noted);
}

/* ---- in a session ---- */

void
fl_mqtt_seek_init(FlMqttDoor *door, FlMqttSeek *seek, int filters)
{
	memset(seek, 0, sizeof(*seek));
	seek->count = door->feed_count;
	seek->from = MemoryContextAlloc(door->turn, sizeof(int64) * (Size) Max(seek->count, 1));
	for (int i = 0; i < seek->count; i++)
		seek->from[i] = PG_INT64_MAX;
	seek->filters = MemoryContextAlloc(door->turn, sizeof(seek->filters[0]) * (Size) Max(filters, 1));
}

void
fl_mqtt_seek_add(FlMqttSeek *seek, FlMqttBytes text, const FlMqttStart *start)
{
	seek->filters[seek->filter_count].text = text;
	seek->filters[seek->filter_count++].start = *start;
	for (int i = 0; i < Min(seek->count, start->count); i++)
		seek->from[i] = Min(seek->from[i], start->from[i]);
}

static uint32
hash_of(FlMqttBytes text)
{
	return DatumGetUInt32(hash_any(text.data, (int) text.len));
}

/* True: it was written. */
static bool
encode_start(FlMqttConn *conn, FlBuf *out, FlMqttBytes text, int feed, int64 start, int64 bookmark)
{
	FlSessionEvent event = fl_mqtt_session_event(conn, FL_SESSION_START);

	if (start <= bookmark || start == PG_INT64_MAX || conn->door->feeds[feed].gone)
		return false;
	event.hash = hash_of(text);
	event.text_len = (uint16) text.len;
	event.stream = conn->door->feeds[feed].stream;
	event.shard = (uint16) conn->door->feeds[feed].shard;
	event.log_offset = start;
	fl_session_encode_event(out, &event);
	return true;
}

static bool
is_sought(const FlMqttSeek *seek, const FlMqttFilter *filter)
{
	for (int i = 0; seek != NULL && i < seek->filter_count; i++)
		if (seek->filters[i].text.len == filter->len &&
			memcmp(seek->filters[i].text.data, filter->text, filter->len) == 0)
			return true;
	return false;
}

/*
 * Where a filter begins, as far as its client knows: what was still waiting for it when
 * it noted its start has not been sent.  Whether something that waits is for this filter
 * is not known, so that it may get more than it has to: QoS 1 allows that.
 */
static int64
start_unsent(const FlMqttSubscriber *sub, const FlMqttFilter *filter, int feed)
{
	FlMqttBegin begin = feed < filter->start_count ? filter->starts[feed] : (FlMqttBegin) {0};
	int64 start = begin.at;

	for (uint32 i = 0; begin.pass != 0 && i < sub->queue_len; i++)
	{
		const FlMqttQueued *item = &sub->queue[(sub->queue_head + i) % sub->queue_cap];

		/* One that has its identifier is a delivery under way, kept as such, and must not come twice. */
		if (item->packet_id == 0 && item->message->feed == feed && (int32) (item->pass - begin.pass) < 0)
			start = Min(start, Max(item->message->log_offset, begin.asked));
	}
	return start;
}

/* Where its groups are; feeds: only in those; returns how many more may be written. */
static int
encode_share_starts(FlMqttConn *conn, FlBuf *out, const bool *feeds, int left)
{
	dlist_iter iter;

	dlist_foreach (iter, &conn->sub->filters)
	{
		const FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);
		FlMqttBytes text = {filter->text, filter->len};

		for (int i = 0; filter->share != NULL && i < conn->door->feed_count && left > 0; i++)
			if (feeds == NULL || feeds[i])
				left -= encode_start(conn, out, text, i, fl_mqtt_share_position(filter, i, feeds == NULL), -1);
	}
	return left;
}

void
fl_mqtt_encode_share_starts(FlMqttConn *conn, FlBuf *out, const bool *feeds)
{
	(void) encode_share_starts(conn, out, feeds, MAX_STARTS);
}

void
fl_mqtt_encode_joined_starts(FlMqttConn *conn, FlBuf *out, FlMqttBytes text, FlMqttBytes topic_filter)
{
	int left = MAX_STARTS;

	for (int i = 0; i < conn->door->feed_count && left > 0; i++)
		left -= encode_start(conn, out, text, i, fl_mqtt_share_joins_at(conn, text, topic_filter, i), -1);
}

/*
 * More than MAX_STARTS are not written: then what the others have been given comes
 * again after a reconnect, which QoS 1 allows.
 */
void
fl_mqtt_encode_starts(FlMqttConn *conn, FlBuf *out, const FlMqttSeek *seek, const int64 *given,
					  const int64 *bookmarks)
{
	FlMqttDoor *door = conn->door;
	int left = encode_share_starts(conn, out, NULL, MAX_STARTS);
	dlist_iter iter;

	for (int f = 0; seek != NULL && f < seek->filter_count; f++)
		for (int i = 0; i < seek->filters[f].start.count && left > 0; i++)
			left -= encode_start(conn, out, seek->filters[f].text, i, seek->filters[f].start.from[i], Max(bookmarks[i], 0));
	if (seek == NULL && !conn->sub->rewound)
		return;
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);
		FlMqttBytes text = {filter->text, filter->len};

		if (filter->share != NULL || is_sought(seek, filter))
			continue;
		for (int i = 0; i < door->feed_count && left > 0; i++)
		{
			int64 start = start_unsent(conn->sub, filter, i);

			if (bookmarks[i] < given[i])
				start = Max(start, given[i]);
			/* What it has in the queue is read again after a crash. */
			if (start > bookmarks[i] && seek == NULL)
				start = Min(start, fl_mqtt_first_unmarked(conn, i));
			left -= encode_start(conn, out, text, i, start, Max(bookmarks[i], 0));
		}
	}
}

bool
fl_mqtt_is_start_of(const FlMqttFilter *filter, const FlSessionEvent *event)
{
	FlMqttBytes text = {filter->text, filter->len};

	return event->type == FL_SESSION_START && event->text_len == filter->len && event->hash == hash_of(text);
}

void
fl_mqtt_restore_start(FlMqttConn *conn, int feed, const FlSessionEvent *event)
{
	dlist_iter iter;
	int64 head;
	int64 tail;

	if (!fl_mqtt_feed_bounds(&conn->door->feeds[feed], &head, &tail))
		return;
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

		if (filter->share != NULL || !fl_mqtt_is_start_of(filter, event))
			continue;
		/* After a failover the log may end before it. */
		set_start(filter, feed, Min(event->log_offset, tail));
		conn->sub->rewound = true;
	}
}

/* ---- when it is over ---- */

/* No filter that is left wants anything below the noted places: reading goes on there. */
void
fl_mqtt_skip_history(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;

	for (int i = 0; sub->lagging && i < sub->cursor_count; i++)
	{
		int64 lowest = PG_INT64_MAX;
		dlist_iter iter;

		dlist_foreach (iter, &sub->filters)
		{
			FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);

			if (filter->share == NULL)
				lowest = Min(lowest, i < filter->start_count ? filter->starts[i].at : 0);
		}
		if (sub->cursors[i].offset < 0 || lowest <= sub->cursors[i].offset)
			continue;
		memset(&sub->cursors[i], 0, sizeof(sub->cursors[i]));
		sub->cursors[i].offset = Min(lowest, conn->door->feeds[i].pos.offset);
	}
}

/*
 * Places that have been passed by all that was sent need not be noted any longer: what
 * waits in the queue lies before some of them, and where the connection ends it is read
 * again.
 */
void
fl_mqtt_forget_starts(FlMqttConn *conn)
{
	int64 *unsent = fl_mqtt_unsent_from(conn, 0);
	dlist_iter iter;

	conn->sub->rewound = false;
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttFilter *filter = dlist_container(FlMqttFilter, node, iter.cur);
		bool passed = true;

		for (int i = 0; i < filter->start_count; i++)
			passed = passed && filter->starts[i].at <= unsent[i];
		if (passed)
			fl_mqtt_free_starts(filter);
		else
			conn->sub->rewound = true;
	}
}
