/*
 * feed.c
 *		The shared live feed: each shard of each mounted stream is read once by
 *		this worker, up to the durable tail, and every record is matched once.
 *
 * Records reach subscribers only through the log, so they see what is durable
 * and nothing else (REQUIREMENTS L5), in offset order, whoever wrote it: a
 * device at this worker or another, SQL, or Kafka.
 *
 * A feed that no filter can match is not read; it begins at the durable tail
 * when the first filter comes that can.
 *
 * Invariant: a feed's position moves past a batch when it is fetched, so an
 * error in the middle never delivers anything twice.
 */
#include "postgres.h"

#include "mqtt.h"
#include "reading.h"
#include "share.h"

#define RETRY_MS 1000

/* ---- which feeds there are ---- */

static FlMqttFeed *
find_feed(FlMqttDoor *door, Oid stream, int32 shard)
{
	for (int i = 0; i < door->feed_count; i++)
		if (door->feeds[i].stream == stream && door->feeds[i].shard == shard)
			return &door->feeds[i];
	return NULL;
}

bool
fl_mqtt_feed_bounds(FlMqttFeed *feed, int64 *head, int64 *tail)
{
	FlShard *shared = feed->shared;

	if (shared == NULL || shared->key.stream != feed->stream || shared->key.shard != feed->shard)
	{
		feed->shared = fl_shard_find(feed->stream, feed->shard);
		shared = feed->shared;
	}
	if (shared == NULL)
		return false;
	*head = (int64) pg_atomic_read_u64(&shared->head);
	*tail = fl_shard_durable_tail(shared);
	return true;
}

/*
 * Where a feed that was not there begins.  Subscriptions may be older than it,
 * so it goes back to when we last looked; records that are older than a
 * subscription are kept from it by the subscription itself.
 */
static int64
first_offset(FlMqttDoor *door, Oid stream, int32 shard)
{
	int64 tail = fl_log_tail(stream, shard);
	int64 from;

	if (fl_trie_items(door->trie) == 0 || door->feed_checked == 0)
		return tail;
	from = fl_log_offset_for_time(stream, shard, door->feed_checked);
	return from < 0 || from > tail ? tail : from;
}

static void
add_feed(FlMqttDoor *door, const FlStreamInfo *stream, int32 shard)
{
	FlMqttFeed *feed = find_feed(door, stream->relid, shard);

	if (feed != NULL && !feed->gone)
		return;
	door->bad_stream = stream->relid; /* until it is there */
	if (feed == NULL)
	{
		if (door->feed_count == door->feed_cap)
		{
			door->feed_cap = door->feed_cap == 0 ? 16 : door->feed_cap * 2;
			door->feeds = door->feeds == NULL
							  ? MemoryContextAlloc(door->context, sizeof(FlMqttFeed) * (Size) door->feed_cap)
							  : repalloc(door->feeds, sizeof(FlMqttFeed) * (Size) door->feed_cap);
		}
		feed = &door->feeds[door->feed_count];
		memset(feed, 0, sizeof(*feed));
		feed->stream = stream->relid;
		feed->shard = shard;
		feed->at = -1;
	}
	feed->shared = fl_shard_open(stream->relid, shard, stream->durability == FL_DURABILITY_QUORUM);
	memset(&feed->pos, 0, sizeof(feed->pos));
	feed->pos.offset = first_offset(door, stream->relid, shard);
	feed->gone = false;
	/* It is one of the feeds only now that nothing can fail any more. */
	if (feed == &door->feeds[door->feed_count])
		door->feed_count++;
	/* A filter that is already there must not be set to the tail. */
	feed->wanted = true;
	door->bad_stream = InvalidOid;
}

static void
mark_gone(FlMqttDoor *door)
{
	for (int i = 0; i < door->feed_count; i++)
	{
		FlMqttFeed *feed = &door->feeds[i];
		const FlStreamInfo *stream = fl_stream_lookup(feed->stream);
		int count;
		const FlMount *mounts = fl_mount_list(&count);
		bool mounted = false;

		for (int m = 0; m < count && !mounted; m++)
			mounted = mounts[m].stream == feed->stream;
		feed->gone = stream == NULL || feed->shard >= stream->shards || !mounted;
	}
}

void
fl_mqtt_feed_refresh(FlMqttDoor *door)
{
	TimestampTz now = (TimestampTz) pg_atomic_read_u64(&fl_shared->append_clock);
	uint64 version = fl_catalog_version();
	Oid skip = door->bad_stream;
	int count;
	const FlMount *mounts;

	if (door->feed_version == version ||
		(door->refresh_retry_ms != 0 && fl_net_now(door->net) < door->refresh_retry_ms))
		return;
	door->refresh_retry_ms = 0;
	door->refreshing = true;
	mounts = fl_mount_list(&count);
	for (int m = 0; m < count; m++)
	{
		const FlStreamInfo *stream = fl_stream_lookup(mounts[m].stream);

		/* The one that failed last comes again with the next change. */
		if (stream != NULL && stream->relid == skip)
			continue;
		for (int32 shard = 0; stream != NULL && shard < stream->shards; shard++)
			add_feed(door, stream, shard);
	}
	mark_gone(door);
	fl_mqtt_add_cursors(door);
	fl_mqtt_recheck_asks(door);
	fl_mqtt_share_refresh(door);
	door->interest_changed = true;
	door->refreshing = false;
	door->bad_stream = InvalidOid;
	door->feed_version = version;
	/* The clock stands at 0 until the first record of all; 0 here says that we never looked. */
	door->feed_checked = Max(now, 1);
}

static bool
is_wanted(FlMqttDoor *door, const FlMqttFeed *feed)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int m = 0; m < count; m++)
		if (mounts[m].stream == feed->stream &&
			fl_trie_touches_prefix(door->trie, (const uint8 *) mounts[m].prefix, mounts[m].prefix_len))
			return true;
	return false;
}

void
fl_mqtt_feed_interest(FlMqttDoor *door)
{
	bool any = false;

	if (!door->interest_changed)
		return;
	door->interest_changed = false;
	/* Before the tails are read: whoever moves one from here on wakes us. */
	pg_atomic_write_u32(&fl_shared->doors[door->index].has_feed, 1);
	pg_memory_barrier();
	for (int i = 0; i < door->feed_count; i++)
	{
		FlMqttFeed *feed = &door->feeds[i];
		bool wanted = !feed->gone && is_wanted(door, feed);
		int64 head;
		int64 tail;

		/* What was not read until now is read from here on. */
		if (wanted && !feed->wanted && fl_mqtt_feed_bounds(feed, &head, &tail))
		{
			memset(&feed->pos, 0, sizeof(feed->pos));
			feed->pos.offset = tail;
		}
		feed->wanted = wanted;
		any = any || wanted;
	}
	door->feed_wanted = any;
	fl_mqtt_memory_interest(door);
	pg_atomic_write_u32(&fl_shared->doors[door->index].has_feed, any ? 1 : 0);
}

/* ---- matching ---- */

/* What a match needs to know besides the door. */
typedef struct Matching
{
	FlMqttDoor *door;
	const FlLogRecord *rec;
	FlMqttBytes topic;
	const FlMount *mount;   /* of the topic */
	int32 shard;
	FlMqttMessage *message; /* NULL until the first filter is found */
	bool command;           /* topic of the command space */
	bool shadow;            /* topic of device shadows */
	bool memory;            /* it is in no log: who reads the log alone gets it here, too */
} Matching;

/* A device is handed its own shadow's messages only: another tenant may have a device of its id. */
bool
fl_mqtt_is_own_shadow(const FlMqttConn *conn, const FlMqttMessage *message)
{
	return conn->who->kind != FL_IDENTITY_DEVICE ||
		   (message->tenant.len == conn->who->tenant_len && message->device.len == conn->who->device_len &&
			memcmp(message->tenant.data, fl_mqtt_who_tenant(conn->who), message->tenant.len) == 0 &&
			memcmp(message->device.data, fl_mqtt_who_device(conn->who), message->device.len) == 0);
}

/* A role's filters may select topics of streams that it may not read. */
bool
fl_mqtt_may_read(const FlMqttConn *conn, const FlMount *mount)
{
	return conn->who->kind != FL_IDENTITY_ROLE || fl_role_may_read(conn->who->role, mount->stream);
}

/* Was the message published by this very client (No Local, MQTT-3.8.3-3)? */
bool
fl_mqtt_is_own(const FlMqttConn *conn, const FlMqttMessage *message)
{
	Size len;
	const char *client_id = fl_mqtt_client_id(conn, &len);

	return message->client_id.len == len && memcmp(message->client_id.data, client_id, len) == 0 &&
		   message->tenant.len == conn->who->tenant_len && message->device.len == conn->who->device_len &&
		   (message->tenant.len == 0 ||
			memcmp(message->tenant.data, fl_mqtt_who_tenant(conn->who), message->tenant.len) == 0) &&
		   (message->device.len == 0 ||
			memcmp(message->device.data, fl_mqtt_who_device(conn->who), message->device.len) == 0) &&
		   message->role.len == conn->who->role_len &&
		   (message->role.len == 0 ||
			memcmp(message->role.data, fl_mqtt_who_role(conn->who), message->role.len) == 0);
}

static FlMqttTarget *
target_of(FlMqttDoor *door, FlMqttConn *conn)
{
	FlMqttTarget *target;

	if (conn->sub->mark == door->match)
		return &door->targets[conn->sub->target];
	if (door->target_count == door->target_cap)
	{
		door->target_cap = door->target_cap == 0 ? 64 : door->target_cap * 2;
		door->targets = door->targets == NULL
							? MemoryContextAlloc(door->context, sizeof(FlMqttTarget) * door->target_cap)
							: repalloc_huge(door->targets, sizeof(FlMqttTarget) * (Size) door->target_cap);
	}
	conn->sub->mark = door->match;
	conn->sub->target = door->target_count;
	target = &door->targets[door->target_count++];
	memset(target, 0, sizeof(*target));
	target->conn = conn;
	return target;
}

void
fl_mqtt_reserve_ids(FlMqttDoor *door, uint32 count)
{
	uint32 cap = door->id_cap == 0 ? 64 : door->id_cap;

	while (cap < count)
		cap *= 2;
	if (cap == door->id_cap)
		return;
	door->ids = door->ids == NULL ? MemoryContextAlloc(door->context, sizeof(FlMqttIdNode) * cap)
								  : repalloc_huge(door->ids, sizeof(FlMqttIdNode) * (Size) cap);
	door->id_list = door->id_list == NULL ? MemoryContextAlloc(door->context, sizeof(uint32) * cap)
										  : repalloc_huge(door->id_list, sizeof(uint32) * (Size) cap);
	door->id_cap = cap;
}

/* Subscription identifiers of one target, in the order found (MQTT-3.3.4-4). */
static void
add_id(FlMqttDoor *door, FlMqttTarget *target, uint32 id)
{
	fl_mqtt_reserve_ids(door, door->id_count + 1);
	door->ids[door->id_count].id = id;
	door->ids[door->id_count].next = 0;
	if (target->last_id != 0)
		door->ids[target->last_id].next = door->id_count;
	else
		target->first_id = door->id_count;
	target->last_id = door->id_count++;
	target->id_count++;
}

void
fl_mqtt_begin_match(FlMqttDoor *door)
{
	door->match++;
	door->target_count = 0;
	door->id_count = 1; /* 0 means none */
}

void
fl_mqtt_add_target(FlMqttDoor *door, const FlMqttFilter *filter)
{
	FlMqttTarget *target = target_of(door, filter->conn);

	target->qos = Max(target->qos, filter->qos);
	target->as_published = target->as_published || filter->as_published;
	target->position = Max(target->position, filter->position);
	target->end_on_drop = target->end_on_drop || filter->end_on_drop;
	if (filter->id != 0)
		add_id(door, target, filter->id);
}

void
fl_mqtt_target_ids(FlMqttDoor *door, const FlMqttTarget *target, FlMqttHow *how)
{
	how->ids = door->id_list;
	how->id_count = 0;
	for (uint32 i = target->first_id; i != 0; i = door->ids[i].next)
		door->id_list[how->id_count++] = door->ids[i].id;
}

/*
 * A filter selects the record.  Overlapping filters of one connection make one
 * delivery, at the highest QoS, with every identifier (case O42).
 */
static void
on_found(void *item, void *arg)
{
	Matching *m = arg;
	FlMqttFilter *filter = item;
	FlMqttConn *conn = filter->conn;

	if (filter->share != NULL || conn->state != FL_MQTT_STATE_OPEN)
		return;
	/* An error is the connection's: what is in no feed has none that could pay for it. */
	if (m->memory)
		m->door->current = conn;
	if (m->memory ? m->rec->ts < filter->since : conn->sub->lagging ||
		fl_mqtt_begins_later(filter, m->door->current_feed, m->rec->ts, m->rec->log_offset))
		return;
	if (m->message == NULL)
	{
		m->message = &m->door->message;
		fl_mqtt_record_message(m->door, m->rec, m->shard, m->topic, m->mount, m->message);
		m->message->feed = m->memory ? -1 : m->door->current_feed;
		m->command = fl_acl_is_guarded((const char *) m->topic.data, m->topic.len);
		m->shadow = fl_topic_is_shadow((const char *) m->topic.data, m->topic.len);
	}
	if (filter->no_local && fl_mqtt_is_own(conn, m->message))
		return;
	if (m->shadow && !fl_mqtt_is_own_shadow(conn, m->message))
		return;
	if (!fl_mqtt_may_read(conn, m->mount))
		return;
	if (m->command && !fl_acl_may_receive(fl_mqtt_identity(conn), (const char *) m->topic.data, m->topic.len))
		return;
	fl_mqtt_add_target(m->door, filter);
}

static void
deliver_to(FlMqttDoor *door, FlMqttTarget *target, FlMqttMessage **message, int feed, int64 log_offset)
{
	FlMqttHow how = {.qos = Min(target->qos, (*message)->publish.qos),
					 .retain = target->as_published && (*message)->publish.retain,
					 .position = target->position,
					 .end_on_drop = target->end_on_drop};

	fl_mqtt_target_ids(door, target, &how);
	if (fl_mqtt_deliver(target->conn, message, &how) == FL_MQTT_NO_ROOM)
		fl_mqtt_start_lagging(target->conn, feed, log_offset);
}

/*
 * A topic belongs to the stream of its mount only: a record that was written
 * into another stream under that topic is not what subscribers asked for.
 */
const FlMount *
fl_mqtt_mount_of(const FlMqttFeed *feed, FlMqttBytes topic)
{
	const FlMount *mount = fl_mount_match((const char *) topic.data, topic.len);

	return mount != NULL && mount->stream == feed->stream ? mount : NULL;
}

static void
match(FlMqttDoor *door, Matching *m, int feed)
{
	FlMqttMessage *message;

	fl_mqtt_begin_match(door);
	fl_trie_match(door->trie, m->topic.data, m->topic.len, on_found, m);
	message = m->message;
	for (uint32 i = 0; i < door->target_count; i++)
	{
		if (m->memory)
			door->current = door->targets[i].conn;
		deliver_to(door, &door->targets[i], &message, feed, m->rec->log_offset);
	}
}

static void
match_record(FlMqttDoor *door, int feed, const FlLogRecord *rec)
{
	Matching m = {.door = door, .rec = rec};

	if (!fl_mqtt_record_topic(rec, &m.topic))
		return;
	m.mount = fl_mqtt_mount_of(&door->feeds[feed], m.topic);
	if (m.mount != NULL)
	{
		m.shard = door->feeds[feed].shard;
		match(door, &m, feed);
	}
}

void
fl_mqtt_match_memory(FlMqttDoor *door, const FlLogRecord *rec)
{
	Matching m = {.door = door, .rec = rec, .memory = true};

	m.topic.data = rec->key;
	m.topic.len = (uint32) rec->key_len;
	m.mount = fl_mount_match((const char *) m.topic.data, m.topic.len);
	/* Mounts may have changed since it was published. */
	if (m.mount != NULL && !OidIsValid(m.mount->stream))
		match(door, &m, -1);
	door->current = NULL;
}

/* ---- reading ---- */

static void
run_feed(FlMqttDoor *door, int number)
{
	FlMqttFeed *feed = &door->feeds[number];
	FlLogReader *reader;
	FlStoredBatch batch;
	int64 head;
	int64 tail;
	int budget = FL_MQTT_FEED_RECORDS;
	uint64 lost;
	bool end = false;

	if (!fl_mqtt_feed_bounds(feed, &head, &tail) || feed->pos.offset >= tail)
		return;
	if (feed->pos.offset < head)
	{
		ereport(LOG,
				(errmsg("fleetlog: the live feed of stream %u, shard %d lost " INT64_FORMAT " records to retention",
						feed->stream, feed->shard, head - feed->pos.offset)));
		lost = (uint64) (head - feed->pos.offset);
		memset(&feed->pos, 0, sizeof(feed->pos));
		feed->pos.offset = head;
		fl_mqtt_feed_lost(door, number, lost);
	}
	door->current_feed = number;
	fl_mqtt_begin_transaction(door);
	reader = fl_log_reader_begin(feed->stream, feed->shard, &feed->pos, tail);
	fl_log_reader_bound(reader, FL_MQTT_FEED_PAGES);
	while (budget > 0)
	{
		int64 from = feed->pos.offset;
		FlLogRecord rec;

		if (!fl_log_reader_next(reader, &batch))
		{
			end = !fl_log_reader_stopped(reader);
			break;
		}
		fl_batch_decoder_open(door->decoder, &batch);
		while (fl_batch_decoder_next(door->decoder, &rec))
			if (rec.log_offset >= from)
			{
				feed->at = rec.log_offset;
				match_record(door, number, &rec);
			}
		feed->at = -1;
		budget -= batch.count;
	}
	fl_log_reader_end(reader);
	door->current_feed = -1;
	if (feed->pos.offset >= tail)
		return;
	/* Nothing there although the tail says so: look again later, do not spin. */
	if (end)
		feed->retry_ms = fl_net_now(door->net) + RETRY_MS;
	else
		door->feed_more = true;
}

void
fl_mqtt_feed_run(FlMqttDoor *door)
{
	int64 now = 0;

	door->feed_more = false;
	for (int i = 0; i < door->feed_count; i++)
	{
		FlMqttFeed *feed = &door->feeds[i];

		if (!feed->wanted || feed->gone)
			continue;
		if (feed->retry_ms != 0)
		{
			now = now ? now : fl_net_now(door->net);
			if (now < feed->retry_ms)
				continue;
			feed->retry_ms = 0;
		}
		run_feed(door, i);
	}
}

/*
 * Reading a shard, or making its feed, failed; the error has been logged.  It
 * is tried again after a while, and the others go on.
 */
bool
fl_mqtt_feed_failed(FlMqttDoor *door)
{
	if (door->refreshing)
	{
		door->refreshing = false;
		door->refresh_retry_ms = fl_net_now(door->net) + RETRY_MS;
		return true;
	}
	if (door->current_feed < 0)
		return false;
	door->feeds[door->current_feed].at = -1;
	door->feeds[door->current_feed].retry_ms = fl_net_now(door->net) + RETRY_MS;
	door->current_feed = -1;
	return true;
}

void
fl_mqtt_feed_init(FlMqttDoor *door)
{
	door->current_feed = -1;
	door->lag_feed = -1;
	fl_mqtt_reserve_ids(door, 1);
	door->decoder = fl_batch_decoder_create(door->context);
}
