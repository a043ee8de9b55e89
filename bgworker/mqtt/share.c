/*
 * share.c
 *		Shared subscriptions: the members of a group split what is new.
 *
 * A group does not take part in the shared feed.  It has a position of its own in
 * every shard, which all front doors move together (fleetlog/share.h): a door
 * reads on from there, takes a record when one of its members has room for it, and
 * hands it to that member.  Groups that are at the same place of a shard read it
 * together, in one pass.  What nobody has room for stays in the log, so nothing
 * of a group is ever queued, dropped or read by a lagging connection.
 *
 * What a member had not acknowledged at QoS 1 when it went goes to the others,
 * before anything new.  At QoS 2 it does not, because the standard forbids it
 * (MQTT-4.8.2-5).
 *
 * A group lives as long as a session has it (4.8.2): while all of them are away its
 * place stays, and whoever comes first goes on there.  What a member had not
 * acknowledged is then its own again, under the old identifiers, if nobody has taken
 * it meanwhile (MQTT-4.4.0-1).  A checkpoint of a session has both, position and
 * deliveries, for when the place is gone: after a restart the group goes on where
 * the first session that comes back was when it left.
 *
 * Topics of commands and device shadows are for one device each, whose rights
 * decide; groups do not get them.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "mb/pg_wchar.h"
#include "utils/timestamp.h"

#include "fleetlog/topic.h"
#include "mqtt.h"
#include "share.h"

#define WAIT_MS 20 /* for the door whose turn it is */
#define LOW_MS 50 /* between looks at what is under way */
#define LOW_MANY_MS 1000 /* ... to many members */
#define MANY 100	/* members, of whom not each checkpoint looks at all */

/* How far a group is in the shard of one feed. */
typedef struct SharePlace
{
	FlSharePlace *shared; /* NULL: no topic of the feed can be for the group */
	uint64 generation;
	FlLogPosition pos; /* hint for the reader, good while its offset is the shared one */
	int64 blocked_at;  /* offset that waits for another door's turn; -1: none */
	int64 blocked_ms;  /* since when */
	uint64 served;     /* door->share_turn in which it was read to */
} SharePlace;

/* A group with members at this door. */
struct FlMqttShare
{
	dlist_node node; /* in door->shares */
	dlist_head members;
	uint16 member_count;
	bool anew;                     /* no session had it when its first member here joined */
	const FlMqttFilter *restoring; /* while it is joined: the filter of a session that comes back; else NULL */
	TimestampTz since;
	Oid role; /* of all members; InvalidOid: none */
	int place_count;
	SharePlace *places; /* by feed number */
	int64 low_ms;       /* when it was last said what is under way */
	FlShareName name;
	uint8 digest[16];
	uint16 len;
	uint8 filter[FLEXIBLE_ARRAY_MEMBER];
};

/* ---- which feeds are for it ---- */

static bool
is_for(const uint8 *filter, uint16 len, const FlMqttFeed *feed)
{
	int count;
	const FlMount *mounts = fl_mount_list(&count);

	for (int m = 0; m < count && !feed->gone; m++)
		if (mounts[m].stream == feed->stream && !mounts[m].commands &&
			fl_topic_filter_reaches(filter, len, (const uint8 *) mounts[m].prefix, mounts[m].prefix_len))
			return true;
	return false;
}

static void
leave_place(FlMqttDoor *door, SharePlace *at)
{
	if (at->shared == NULL)
		return;
	fl_share_set_members(at->shared, at->generation, door->index, 0);
	at->shared = NULL;
}

/* False: there are too many places. */
static bool
enter_place(FlMqttDoor *door, FlMqttShare *share, int number)
{
	SharePlace *at = &share->places[number];
	FlMqttFeed *feed = &door->feeds[number];
	FlShareKey key;
	int64 from = feed->pos.offset;
	int64 head;
	int64 tail = from;

	TimestampTz since = share->since;

	/* A feed that nobody has wanted until now stands anywhere. */
	if (fl_mqtt_feed_bounds(feed, &head, &tail))
	{
		if (!feed->wanted)
			from = tail;
		/* After a failover the log may end before it.  The group may be older than this member. */
		if (share->restoring != NULL && fl_mqtt_share_start(share->restoring, number) >= 0)
		{
			from = Min(fl_mqtt_share_start(share->restoring, number), tail);
			since = DT_NOBEGIN;
		}
	}
	memset(&key, 0, sizeof(key));
	memcpy(key.group, share->digest, sizeof(key.group));
	key.stream = feed->stream;
	key.shard = feed->shard;
	at->shared = fl_share_enter(&key, door->index, share->member_count, from, since, share->anew, &share->name);
	if (at->shared == NULL)
		return false;
	if (share->restoring != NULL && fl_mqtt_share_start(share->restoring, number) > 0)
		fl_share_raise_exact(at->shared, Min(fl_mqtt_share_start(share->restoring, number), tail));
	at->generation = at->shared->generation;
	at->blocked_at = -1;
	memset(&at->pos, 0, sizeof(at->pos));
	return true;
}

/* Places of this group are made those of the feeds there are; false: too many. */
static bool
update_places(FlMqttDoor *door, FlMqttShare *share)
{
	bool complete = true;

	if (share->place_count < door->feed_count)
	{
		Size size = sizeof(SharePlace) * (Size) door->feed_count;

		share->places = share->places == NULL ? MemoryContextAlloc(door->context, size) : repalloc(share->places, size);
		memset(share->places + share->place_count, 0,
			   sizeof(SharePlace) * (Size) (door->feed_count - share->place_count));
		share->place_count = door->feed_count;
	}
	for (int i = 0; i < share->place_count; i++)
	{
		SharePlace *at = &share->places[i];

		if (!is_for(share->filter, share->len, &door->feeds[i]))
			leave_place(door, at);
		else if (at->shared == NULL)
			complete = enter_place(door, share, i) && complete;
		else
			fl_share_set_members(at->shared, at->generation, door->index, share->member_count);
	}
	return complete;
}

/* The catalog has changed: feeds came or went. */
void
fl_mqtt_share_refresh(FlMqttDoor *door)
{
	dlist_iter iter;

	dlist_foreach (iter, &door->shares)
	{
		FlMqttShare *share = dlist_container(FlMqttShare, node, iter.cur);

		/* An error may have left them. */
		share->restoring = NULL;
		share->anew = false;
		if (!update_places(door, share) && fl_mqtt_log_allowed(door, FL_MQTT_LOG_FEED))
			ereport(LOG, (errmsg("fleetlog: a shared subscription to \"%.*s\" does not get what was mounted since",
								 (int) Min(share->len, 200), (const char *) share->filter),
						  errdetail("All %d places of shared subscriptions are in use.", FL_SHARE_PLACES),
						  errhint("Use fewer share names, or filters that select fewer streams.")));
	}
}

/* ---- members ---- */

/* Groups of different tenants, or roles, never meet, whatever they call themselves: they may read other things. */
static void
make_digest(const FlMqttWho *who, FlMqttBytes text, uint8 out[16])
{
	uint8 digest[PG_SHA256_DIGEST_LENGTH];
	pg_cryptohash_ctx *hash = pg_cryptohash_create(PG_SHA256);

	if (hash == NULL || pg_cryptohash_init(hash) < 0 || pg_cryptohash_update(hash, &who->tenant_len, 1) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) who->text, who->tenant_len) < 0 ||
		pg_cryptohash_update(hash, (const uint8 *) &who->role, sizeof(who->role)) < 0 ||
		pg_cryptohash_update(hash, text.data, text.len) < 0 ||
		pg_cryptohash_final(hash, digest, sizeof(digest)) < 0)
	{
		pg_cryptohash_free(hash);
		ereport(ERROR, (errmsg("fleetlog: could not compute a hash")));
	}
	pg_cryptohash_free(hash);
	memcpy(out, digest, 16);
}

/* What is too long for the view ends with a whole character. */
static void
set_name(FlMqttShare *share, const FlMqttFilter *member)
{
	const FlMqttWho *who = member->conn->who;
	FlShareName *name = &share->name;
	int filter_len;

	name->tenant_len = who->tenant_len;
	memcpy(name->text, fl_mqtt_who_tenant(who), who->tenant_len);
	name->role_len = who->role_len;
	memcpy(name->text + who->tenant_len, fl_mqtt_who_role(who), who->role_len);
	filter_len = pg_mbcliplen((const char *) member->text, member->len,
							  FL_SHARE_NAME_MAX - name->tenant_len - name->role_len);
	memcpy(name->text + name->tenant_len + name->role_len, member->text, (Size) filter_len);
	name->filter_len = (uint16) filter_len;
}

static FlMqttShare *
get_share(FlMqttDoor *door, const FlMqttFilter *member)
{
	FlMqttShare *share;
	uint8 digest[16];
	dlist_iter iter;

	make_digest(member->conn->who, (FlMqttBytes) {member->text, member->len}, digest);
	dlist_foreach (iter, &door->shares)
	{
		share = dlist_container(FlMqttShare, node, iter.cur);
		if (memcmp(share->digest, digest, sizeof(digest)) == 0)
			return share;
	}
	share = MemoryContextAllocZero(door->context, offsetof(FlMqttShare, filter) + member->len - member->skip);
	share->role = member->conn->who->role;
	dlist_init(&share->members);
	share->since = member->since;
	set_name(share, member);
	memcpy(share->digest, digest, sizeof(digest));
	share->len = member->len - member->skip;
	memcpy(share->filter, member->text + member->skip, share->len);
	dlist_push_tail(&door->shares, &share->node);
	door->share_count++;
	return share;
}

/* Its last member at this door has gone. */
static void
free_share(FlMqttDoor *door, FlMqttShare *share)
{
	for (int i = 0; i < share->place_count; i++)
		leave_place(door, &share->places[i]);
	dlist_delete(&share->node);
	door->share_count--;
	if (share->places != NULL)
		pfree(share->places);
	pfree(share);
}

void
fl_mqtt_share_leave(FlMqttFilter *member)
{
	FlMqttDoor *door = member->conn->door;
	FlMqttShare *share = member->share;

	if (share == NULL)
		return;
	member->share = NULL;
	dlist_delete(&member->share_node);
	share->member_count--;
	if (share->member_count == 0)
	{
		free_share(door, share);
		return;
	}
	for (int i = 0; i < share->place_count; i++)
		if (share->places[i].shared != NULL)
			fl_share_set_members(share->places[i].shared, share->places[i].generation, door->index,
								 share->member_count);
}

/* Of shards of which its last checkpoint says nothing it has had nothing: the group begins with the subscription. */
static void
find_starts(FlMqttDoor *door, FlMqttFilter *member)
{
	for (int i = 0; i < door->feed_count; i++)
	{
		const FlMqttFeed *feed = &door->feeds[i];
		int64 from;

		if (fl_mqtt_share_start(member, i) >= 0 || !is_for(member->text + member->skip, member->len - member->skip, feed))
			continue;
		fl_mqtt_begin_transaction(door);
		from = fl_log_offset_for_time(feed->stream, feed->shard, member->since);
		if (from >= 0)
			fl_mqtt_set_share_start(member, i, from);
	}
}

bool
fl_mqtt_share_join(FlMqttFilter *member, bool restored)
{
	FlMqttDoor *door = member->conn->door;
	FlMqttShare *share;
	bool complete;

	if (restored)
		find_starts(door, member);
	share = get_share(door, member);
	if (share->member_count == PG_UINT16_MAX)
		return false;
	/* A place that sessions left may have outlived their wish for it. */
	share->anew = share->member_count == 0 && !restored && fl_share_is_left(share->digest) &&
				  !fl_session_any_has(member->text, member->len, &member->conn->session);
	share->restoring = restored ? member : NULL;
	dlist_push_tail(&share->members, &member->share_node);
	share->member_count++;
	member->share = share;
	complete = update_places(door, share);
	share->anew = false;
	share->restoring = NULL;
	if (!complete)
		fl_mqtt_share_leave(member);
	return complete;
}

/* ---- over connections ---- */

/*
 * The lowest record of a place that is under way to a member here and in no journal.
 * One at QoS 2 waits in the queue until it is; without a session it is lost with its
 * connection, as the standard asks (MQTT-4.8.2-5).  writing: whose deliveries with
 * identifiers are being written at QoS 2; in a checkpoint those at QoS 1, too.
 */
static int64
lowest_under_way(const FlMqttShare *share, const SharePlace *at, const FlMqttConn *writing, bool checkpoint)
{
	int64 low = PG_INT64_MAX;
	dlist_iter iter;

	dlist_foreach (iter, (dlist_head *) &share->members)
	{
		const FlMqttConn *conn = dlist_container(FlMqttFilter, share_node, iter.cur)->conn;
		const FlMqttSubscriber *sub = conn->sub;

		for (int i = 0; (conn != writing || !checkpoint) && i < sub->inflight_count; i++)
		{
			const FlMqttSent *sent = &sub->inflight[i];

			if (sent->place == at->shared && sent->generation == at->generation && !sent->noted &&
				sent->state == FL_MQTT_SENT_QOS1)
				low = Min(low, sent->log_offset);
		}
		for (uint32 i = 0; i < sub->queue_len; i++)
		{
			const FlMqttQueued *item = &sub->queue[(sub->queue_head + i) % sub->queue_cap];

			if (item->message->place == at->shared && item->message->generation == at->generation &&
				(conn != writing || item->packet_id == 0))
				low = Min(low, item->message->log_offset);
		}
	}
	return low;
}

int64
fl_mqtt_share_position(const FlMqttFilter *member, int feed, bool checkpoint)
{
	const FlMqttShare *share = member->share;
	int door = member->conn->door->index;
	FlSharePlace *place;

	if (share == NULL || feed >= share->place_count || share->places[feed].shared == NULL)
		return -1;
	place = share->places[feed].shared;
	return fl_share_safe(place, door,
						 share->member_count > MANY ? place->low[door]
													: lowest_under_way(share, &share->places[feed], member->conn, checkpoint));
}

int64
fl_mqtt_share_joins_at(FlMqttConn *conn, FlMqttBytes text, FlMqttBytes topic_filter, int feed)
{
	FlShareKey key;
	uint8 digest[16];

	if (!is_for(topic_filter.data, (uint16) topic_filter.len, &conn->door->feeds[feed]))
		return -1;
	make_digest(conn->who, text, digest);
	memset(&key, 0, sizeof(key));
	memcpy(key.group, digest, sizeof(key.group));
	key.stream = conn->door->feeds[feed].stream;
	key.shard = conn->door->feeds[feed].shard;
	/* A place that sessions left may have outlived their wish for it. */
	if (fl_share_is_left(digest) && !fl_session_any_has(text.data, (uint16) text.len, &conn->session))
		return -1;
	return fl_share_find_safe(&key);
}

void
fl_mqtt_share_noted(FlMqttConn *conn)
{
	for (int i = 0; i < conn->sub->inflight_count; i++)
		conn->sub->inflight[i].noted = true;
}

/* What was acknowledged, or is in the journal by now, is not read again after a crash. */
static void
raise_low(FlMqttDoor *door, FlMqttShare *share)
{
	int64 now = fl_net_now(door->net);

	if (now - share->low_ms < (share->member_count > MANY ? LOW_MANY_MS : LOW_MS))
	{
		/* Nothing else may happen here until it is time. */
		for (int i = 0; i < share->place_count; i++)
			if (share->places[i].shared != NULL && share->places[i].shared->low[door->index] != PG_INT64_MAX)
				door->share_waiting = true;
		return;
	}
	share->low_ms = now;
	for (int i = 0; i < share->place_count; i++)
	{
		SharePlace *at = &share->places[i];

		if (at->shared != NULL && at->shared->low[door->index] != PG_INT64_MAX)
			fl_share_set_low(at->shared, at->generation, door->index, lowest_under_way(share, at, NULL, false));
	}
}

/* The connection closes, and its session goes on: its groups stay where they are. */
void
fl_mqtt_share_keep(FlMqttConn *conn)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), (int64) conn->session_expiry_s * 1000);
	dlist_iter iter;

	if (conn->session.number == 0 || conn->session_ending || conn->session_expiry_s == 0 || conn->sub == NULL)
		return;
	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttShare *share = dlist_container(FlMqttFilter, node, iter.cur)->share;

		for (int i = 0; share != NULL && i < share->place_count; i++)
			if (share->places[i].shared != NULL)
				fl_share_keep(share->places[i].shared, share->places[i].generation, until);
	}
}

/* False: a member of its group has it by now. */
static bool
take_back(FlMqttConn *conn, FlMqttSent *sent)
{
	dlist_iter iter;

	dlist_foreach (iter, &conn->sub->filters)
	{
		FlMqttShare *share = dlist_container(FlMqttFilter, node, iter.cur)->share;
		SharePlace *at = share != NULL && sent->feed < share->place_count ? &share->places[sent->feed] : NULL;

		if (at == NULL || at->shared == NULL)
			continue;
		/* What the place did not give out itself is of the time before it, which nobody else remembers. */
		if (!fl_share_take_back(at->shared, sent->log_offset) && sent->log_offset >= at->shared->begun_at)
			continue;
		sent->place = at->shared;
		sent->generation = at->generation;
		return true;
	}
	return false;
}

void
fl_mqtt_share_take_back(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;
	int kept = 0;

	for (int i = 0; i < sub->restored_count; i++)
	{
		FlMqttSent *sent = &sub->restored[i];

		/* At QoS 2 it is nobody else's. */
		if (!sent->shared || sent->state != FL_MQTT_SENT_QOS1 || sent->feed < 0 || take_back(conn, sent))
			sub->restored[kept++] = *sent;
	}
	sub->restored_count = kept;
}

/* Somebody who has room, in turn; NULL: nobody has. */
static FlMqttFilter *
choose_member(FlMqttShare *share)
{
	dlist_iter iter;

	dlist_foreach (iter, &share->members)
	{
		FlMqttFilter *member = dlist_container(FlMqttFilter, share_node, iter.cur);
		FlMqttConn *conn = member->conn;

		/* What is sent again comes first. */
		if (conn->state == FL_MQTT_STATE_OPEN && fl_net_is_open(&conn->net) && !conn->sub->ending &&
			conn->sub->restored_next >= conn->sub->restored_count && fl_mqtt_has_room(conn, member->qos))
			return member;
	}
	return NULL;
}

/* ---- records ---- */

/* What none of its members may have: they are all anonymous, or all of one tenant. */
static bool
is_withheld(const FlMqttShare *share, FlMqttBytes topic)
{
	const FlMqttFilter *member;

	if (dlist_is_empty((dlist_head *) &share->members) || !fl_acl_is_guarded((const char *) topic.data, topic.len))
		return false;
	member = dlist_head_element(FlMqttFilter, share_node, (dlist_head *) &share->members);
	return !fl_acl_may_receive(fl_mqtt_identity(member->conn), (const char *) topic.data, topic.len);
}

/* Is the record for the group?  Then door->message is made of it. */
static bool
select_record(FlMqttDoor *door, FlMqttShare *share, int number, const FlLogRecord *rec)
{
	const FlMount *mount;
	FlMqttBytes topic;

	if (rec->ts < share->places[number].shared->since || !fl_mqtt_record_topic(rec, &topic) ||
		!fl_topic_matches(topic.data, topic.len, share->filter, share->len) ||
		fl_topic_is_command((const char *) topic.data, topic.len) ||
		fl_topic_is_shadow((const char *) topic.data, topic.len) || is_withheld(share, topic) ||
		(mount = fl_mqtt_mount_of(&door->feeds[number], topic)) == NULL ||
		(OidIsValid(share->role) && !fl_role_may_read(share->role, mount->stream)))
		return false;
	fl_mqtt_record_message(door, rec, door->feeds[number].shard, topic, mount, &door->message);
	door->message.feed = number;
	door->message.aside = true;
	return true;
}

/* Hands door->message to the member, which has room, and puts it behind the others. */
static void
hand_to(FlMqttDoor *door, FlMqttShare *share, FlMqttFilter *member, const SharePlace *at)
{
	FlMqttMessage *message = &door->message;
	FlMqttConn *conn = member->conn;
	FlMqttHow how = {.qos = Min(member->qos, message->publish.qos),
					 .retain = member->as_published && message->publish.retain,
					 .position = member->position,
					 .shared = true,
					 .ids = &member->id,
					 .id_count = member->id != 0 ? 1 : 0};

	message->place = at->shared;
	message->generation = at->generation;
	door->current_lag = conn;
	(void) fl_mqtt_deliver(conn, &message, &how);
	door->current_lag = NULL;
	dlist_delete(&member->share_node);
	dlist_push_tail(&share->members, &member->share_node);
}

/* One record that a member did not acknowledge. */
static void
hand_returned(FlMqttDoor *door, FlMqttShare *share, int number, FlMqttFilter *member, int64 head, int64 tail)
{
	SharePlace *at = &share->places[number];
	FlMqttFeed *feed = &door->feeds[number];
	FlLogPosition pos = {0};
	FlLogReader *reader;
	FlStoredBatch batch;
	FlLogRecord rec;
	int64 wanted;

	/* Retention may have been quicker. */
	if (!fl_share_take_returned(at->shared, door->index, &wanted) || wanted < head)
		return;
	pos.offset = wanted;
	reader = fl_log_reader_begin(feed->stream, feed->shard, &pos, tail);
	if (fl_log_reader_next(reader, &batch))
	{
		fl_batch_decoder_open(door->decoder, &batch);
		while (fl_batch_decoder_next(door->decoder, &rec))
			if (rec.log_offset == wanted && select_record(door, share, number, &rec))
				hand_to(door, share, member, at);
	}
	fl_log_reader_end(reader);
}

/* May this record be taken although it is another door's turn? */
static bool
has_waited(FlMqttDoor *door, SharePlace *at, int64 log_offset)
{
	int64 now = fl_net_now(door->net);

	if (at->blocked_at != log_offset)
	{
		at->blocked_at = log_offset;
		at->blocked_ms = now;
	}
	door->share_waiting = true;
	return now - at->blocked_ms >= WAIT_MS;
}

/* False: it is for the group, and cannot be taken now. */
static bool
offer_record(FlMqttDoor *door, FlMqttShare *share, int number, const FlLogRecord *rec)
{
	SharePlace *at = &share->places[number];
	FlMqttFilter *member;
	FlShareClaim claim;
	int wake;

	if (rec->log_offset < (int64) pg_atomic_read_u64(&at->shared->position) || !select_record(door, share, number, rec))
		return true;
	member = choose_member(share);
	if (member == NULL)
	{
		fl_share_set_busy(at->shared, door->index, true);
		return false;
	}
	/* A member has had it before the server crashed. */
	if (Min(member->qos, door->message.publish.qos) == 2 && rec->log_offset < (int64) pg_atomic_read_u64(&at->shared->exact))
		return true;
	claim = fl_share_claim(at->shared, door->index, rec->log_offset, false, &wake);
	if (claim == FL_SHARE_WAIT && has_waited(door, at, rec->log_offset))
		claim = fl_share_claim(at->shared, door->index, rec->log_offset, true, &wake);
	if (claim == FL_SHARE_WAIT)
		return false;
	if (claim == FL_SHARE_MINE)
		hand_to(door, share, member, at);
	if (wake >= 0)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, wake);
	return true;
}

/* ---- one pass over a shard for all groups ---- */

/* Groups that read a shard together: each is there from its own position on, until it can take no more. */
typedef struct Pass
{
	int number; /* of the feed */
	int count;
	FlMqttShare **shares; /* those that can take no more are taken out */
	FlLogPosition pos;
} Pass;

/* Nothing below pos is for it any more. */
static void
leave_pass(FlMqttDoor *door, FlMqttShare *share, int number, const FlLogPosition *pos)
{
	SharePlace *at = &share->places[number];

	at->pos = *pos;
	at->served = door->share_turn;
	fl_share_skip(at->shared, pos->offset);
}

/* Hands a batch out; *start is where it was begun to be read. */
static void
offer_batch(FlMqttDoor *door, Pass *pass, const FlStoredBatch *batch, const FlLogPosition *start)
{
	FlLogRecord rec;

	fl_batch_decoder_open(door->decoder, batch);
	while (pass->count > 0 && fl_batch_decoder_next(door->decoder, &rec))
	{
		if (rec.log_offset < start->offset)
			continue;
		for (int i = 0; i < pass->count;)
		{
			/* The same batch again, from this record on. */
			FlLogPosition here = *start;

			here.offset = rec.log_offset;
			if (offer_record(door, pass->shares[i], pass->number, &rec))
				i++;
			else
			{
				leave_pass(door, pass->shares[i], pass->number, &here);
				pass->shares[i] = pass->shares[--pass->count];
			}
		}
	}
}

/* Reads on from the position of the first, up to the durable tail. */
static void
read_on(FlMqttDoor *door, Pass *pass, int64 tail, int *budget)
{
	FlMqttFeed *feed = &door->feeds[pass->number];
	FlLogReader *reader = fl_log_reader_begin(feed->stream, feed->shard, &pass->pos, tail);

	fl_log_reader_bound(reader, FL_MQTT_CATCHUP_PAGES);
	while (pass->count > 0 && *budget > 0)
	{
		FlLogPosition start = pass->pos;
		FlStoredBatch batch;

		if (!fl_log_reader_next(reader, &batch))
		{
			door->feed_more = door->feed_more || fl_log_reader_stopped(reader);
			break;
		}
		offer_batch(door, pass, &batch, &start);
		*budget -= batch.count;
	}
	fl_log_reader_end(reader);
	for (int i = 0; i < pass->count; i++)
	{
		SharePlace *at = &pass->shares[i]->places[pass->number];

		/* One that is further was not reached. */
		if ((int64) pg_atomic_read_u64(&at->shared->position) > pass->pos.offset)
			continue;
		leave_pass(door, pass->shares[i], pass->number, &pass->pos);
		if (pass->pos.offset >= tail)
			fl_share_end_turn(at->shared, door->index);
	}
}

static void
skip_lost(FlMqttDoor *door, FlMqttShare *share, int number, int64 lost, int64 head)
{
	fl_share_skip(share->places[number].shared, head);
	if (fl_mqtt_log_allowed(door, FL_MQTT_LOG_FEED))
		ereport(LOG, (errmsg("fleetlog: a shared subscription to \"%.*s\" was too slow: up to " INT64_FORMAT
							 " records of stream %u, shard %d were trimmed before a member had room",
							 (int) Min(share->len, 200), (const char *) share->filter, lost, door->feeds[number].stream,
							 door->feeds[number].shard)));
}

/* What was returned goes first.  True: some member takes what comes after it, and there is something. */
static bool
prepare_place(FlMqttDoor *door, FlMqttShare *share, int number, int64 head, int64 tail, int *budget)
{
	SharePlace *at = &share->places[number];
	FlMqttFilter *member;
	int64 position = (int64) pg_atomic_read_u64(&at->shared->position);

	if (position >= tail && pg_atomic_read_u32(&at->shared->nreturned) == 0)
		return false;
	member = choose_member(share);
	fl_share_set_busy(at->shared, door->index, member == NULL);
	if (member != NULL)
		fl_mqtt_begin_transaction(door);
	for (; member != NULL && *budget > 0 && pg_atomic_read_u32(&at->shared->nreturned) > 0; (*budget)--)
	{
		hand_returned(door, share, number, member, head, tail);
		member = choose_member(share);
	}
	if (position < head)
	{
		skip_lost(door, share, number, head - position, head);
		position = (int64) pg_atomic_read_u64(&at->shared->position);
	}
	if (at->pos.offset != position)
	{
		memset(&at->pos, 0, sizeof(at->pos));
		at->pos.offset = position;
	}
	return member != NULL && position < tail;
}

/* Others of this shard that are as far as the first, or further, and have not been served in this turn. */
static void
add_others(FlMqttDoor *door, Pass *pass, int64 head, int64 tail, int *budget)
{
	dlist_iter iter;

	dlist_foreach (iter, &door->shares)
	{
		FlMqttShare *share = dlist_container(FlMqttShare, node, iter.cur);
		SharePlace *at = pass->number < share->place_count ? &share->places[pass->number] : NULL;

		if (share == pass->shares[0] || at == NULL || at->shared == NULL || at->served == door->share_turn ||
			(int64) pg_atomic_read_u64(&at->shared->position) < pass->pos.offset)
			continue;
		if (prepare_place(door, share, pass->number, head, tail, budget))
			pass->shares[pass->count++] = share;
		else
			at->served = door->share_turn;
	}
}

/* Served are, beside this group, all others that are where it comes by. */
static void
run_place(FlMqttDoor *door, FlMqttShare *share, int number, int *budget)
{
	SharePlace *at = &share->places[number];
	FlMqttFeed *feed = &door->feeds[number];
	Pass pass = {.number = number, .count = 1};
	int64 head;
	int64 tail;

	if (at->shared == NULL || at->served == door->share_turn || feed->gone ||
		feed->retry_ms > fl_net_now(door->net) || !fl_mqtt_feed_bounds(feed, &head, &tail))
		return;
	door->current_feed = number;
	if (prepare_place(door, share, number, head, tail, budget))
	{
		pass.shares = MemoryContextAlloc(door->turn, sizeof(FlMqttShare *) * (Size) door->share_count);
		pass.shares[0] = share;
		pass.pos = at->pos;
		add_others(door, &pass, head, tail, budget);
		read_on(door, &pass, tail, budget);
		pfree(pass.shares);
	}
	door->current_feed = -1;
}

/* After the feed: what a group takes comes by no other way. */
void
fl_mqtt_share_run(FlMqttDoor *door)
{
	int budget = FL_MQTT_FEED_RECORDS;
	dlist_node *last;

	door->share_waiting = false;
	door->share_turn++;
	if (dlist_is_empty(&door->shares))
		return;
	last = dlist_tail_node(&door->shares);
	/* Each is served once and goes to the end, so that all have their turn. */
	while (budget > 0)
	{
		dlist_node *node = dlist_head_node(&door->shares);
		FlMqttShare *share = dlist_container(FlMqttShare, node, node);

		dlist_delete(node);
		dlist_push_tail(&door->shares, node);
		raise_low(door, share);
		for (int i = 0; i < share->place_count && budget > 0; i++)
			run_place(door, share, i, &budget);
		if (node == last)
			break;
	}
	if (budget <= 0)
		door->feed_more = true;
}

/* ---- a member goes ---- */

/* How many could not be returned, or need not be: their group has gone. */
static uint32
return_all(const FlMqttSent *list, int count, uint32 *wake)
{
	uint32 lost = 0;

	for (int i = 0; i < count; i++)
	{
		const FlMqttSent *sent = &list[i];

		if (sent->place == NULL || sent->state != FL_MQTT_SENT_QOS1 || sent->place->generation != sent->generation)
			continue;
		if (!fl_share_return(sent->place, sent->generation, sent->log_offset, wake))
			lost++;
	}
	return lost;
}

/* The connection has closed, and is no member any more: others get what it did not acknowledge. */
void
fl_mqtt_share_return(FlMqttConn *conn)
{
	FlMqttSubscriber *sub = conn->sub;
	uint32 wake = 0;
	uint32 lost;

	if (sub == NULL)
		return;
	lost = return_all(sub->inflight, sub->inflight_count, &wake);
	if (sub->restored_next < sub->restored_count)
		lost += return_all(sub->restored + sub->restored_next, sub->restored_count - sub->restored_next, &wake);
	if (lost > 0 && fl_mqtt_log_allowed(conn->door, FL_MQTT_LOG_FEED))
		ereport(LOG,
				(errmsg("fleetlog: %u messages of a shared subscription that %s did not acknowledge are not sent again",
						lost, fl_mqtt_name(conn)),
				 errdetail("At most %d of a group and shard wait to be sent again.", FL_SHARE_RETURNED)));
	if (wake & (1u << conn->door->index))
		conn->door->feed_more = true;
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		if ((wake & (1u << door)) && door != conn->door->index)
			fl_worker_wake(FL_WORKER_FRONT_DOOR, door);
}
