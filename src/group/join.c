/*-------------------------------------------------------------------------
 *
 * join.c
 *	  JoinGroup: who comes, who comes again, and who comes in another's place.
 *
 * Everything is looked at before anything is changed.  What a newcomer changes is
 * then one of: it gets an id and has to come again with it (versions 4 and up), it
 * is a new member, it is a member that repeats itself or has news, or it is the
 * static member that was here under another id.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "group_internal.h"

#define FIRST_VERSION_WITH_ID_REQUIRED 4

static const FlKafkaBytes nothing = {NULL, 0};

static bool
is_empty(FlKafkaBytes b)
{
	return b.len <= 0;
}

static bool
is_static(const FlGroupJoin *join)
{
	return join->request->group_instance_id.len > 0;
}

static FlKafkaBytes
id_bytes(const FlGroupMemberId *id)
{
	return fl_kafka_bytes(id->text, id->len);
}

/* "client-<32 hex digits>", or the instance's id in place of the client's: people read them. */
static void
make_id(const FlGroupJoin *join, FlGroupMemberId *id)
{
	FlKafkaBytes name = is_static(join) ? join->request->group_instance_id : join->client_id;
	int32_t room = FL_GROUP_MEMBER_ID - 1 - 1 - 2 * (int32_t) sizeof(join->random);
	int32_t len = name.len < 0 ? 0 : name.len > room ? room : name.len;

	/* A character that is cut in the middle would not be UTF-8 any more. */
	while (len > 0 && len < name.len && (name.data[len] & 0xC0) == 0x80)
		len--;
	if (len > 0)
		memcpy(id->text, name.data, (size_t) len);
	id->text[len++] = '-';
	for (size_t i = 0; i < sizeof(join->random); i++)
		len += snprintf(id->text + len, (size_t) (FL_GROUP_MEMBER_ID - len), "%02x", join->random[i]);
	id->len = len;
}

/* ---------- what is wrong with a request ---------- */

static int16_t
check_request(const FlGroupCall *call, const FlGroupJoin *join)
{
	const FlKafkaJoinGroupRequest *r = join->request;

	if (is_empty(join->group) || join->group.len > FL_GROUP_NAME_MAX)
		return FL_KAFKA_INVALID_GROUP_ID;
	if (r->session_timeout_ms < call->limits->min_session_ms || r->session_timeout_ms > call->limits->max_session_ms)
		return FL_KAFKA_INVALID_SESSION_TIMEOUT;
	if (fl_kafka_count(&r->protocols) == 0 || is_empty(r->protocol_type))
		return FL_KAFKA_INCONSISTENT_GROUP_PROTOCOL;
	if (r->protocol_type.len > FL_GROUP_NAME_MAX || r->group_instance_id.len > FL_GROUP_NAME_MAX ||
		fl_group_protocols_size(r) < 0)
		return FL_KAFKA_INVALID_REQUEST;
	if (fl_group_protocols_size(r) > call->limits->max_bytes)
		return FL_KAFKA_GROUP_MAX_SIZE_REACHED;
	return FL_KAFKA_NO_ERROR;
}

/* Does the request go with the other members?  self: that it comes from, or 0. */
static int16_t
check_fit(FlGroupCall *call, FlGroup *g, FlGroupRef self, const FlGroupJoin *join)
{
	bool alone = g->nmembers == 0 || (g->nmembers == 1 && self != 0 && !fl_group_member_at(call->area, self)->pending);
	int64_t bytes = (int64_t) g->bytes + fl_group_protocols_size(join->request);

	if (self != 0 && !fl_group_member_at(call->area, self)->pending)
		bytes -= fl_group_member_at(call->area, self)->protocols.len;
	if (bytes > call->limits->max_bytes)
		return FL_KAFKA_GROUP_MAX_SIZE_REACHED;
	if (alone)
		return FL_KAFKA_NO_ERROR;
	if (!fl_group_blob_is(call->area, &g->protocol_type, join->request->protocol_type) ||
		!fl_group_protocols_fit(call->area, g, self, join->request))
		return FL_KAFKA_INCONSISTENT_GROUP_PROTOCOL;
	return FL_KAFKA_NO_ERROR;
}

/* What kind of members the group has is told by the first one. */
static bool
set_type(FlGroupArea *area, FlGroup *g, const FlGroupJoin *join)
{
	FlGroupBlob type;

	if (fl_group_blob_is(area, &g->protocol_type, join->request->protocol_type))
		return true;
	if (!fl_group_blob_make(area, join->request->protocol_type, &type))
		return false;
	fl_group_blob_free(area, &g->protocol_type);
	g->protocol_type = type;
	return true;
}

/* ---------- what it leads to ---------- */

/* The member waits for the end of the join phase, which begins now unless it has begun. */
static int16_t
join_phase(FlGroupCall *call, FlGroupRef group, FlGroupRef member, FlGroupTicket *ticket)
{
	FlGroup *g = fl_group_at(call->area, group);

	fl_group_park(call, member, FL_GROUP_WAIT_JOIN, ticket);
	if (g->state != FL_GROUP_PREPARING)
		fl_group_prepare(call, group);
	else if (g->initial)
	{
		int64_t end = call->now + call->limits->initial_delay_ms;

		g->deadline = end < g->initial_end ? end : g->initial_end;
		fl_group_note_deadline(call->area, g->deadline);
	}
	fl_group_maybe_complete(call, group);
	return FL_KAFKA_NO_ERROR;
}

/* The member is told of the generation that is. */
static int16_t
repeat(FlGroupCall *call, FlGroupRef member, FlGroupTicket *ticket)
{
	fl_group_park(call, member, FL_GROUP_WAIT_JOIN, ticket);
	fl_group_release(call, fl_group_member_at(call->area, member), FL_KAFKA_NO_ERROR);
	return FL_KAFKA_NO_ERROR;
}

static int16_t
add(FlGroupCall *call, FlGroupRef group, const FlGroupJoin *join, const FlGroupMemberId *id, FlGroupTicket *ticket)
{
	FlGroup *g = fl_group_at(call->area, group);
	FlGroupRef member;

	if (!set_type(call->area, g, join))
		return FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	member = fl_group_add_member(call, group, join, id_bytes(id), false);
	if (member == 0)
		return FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	return join_phase(call, group, member, ticket);
}

/*
 * The static member is back, as a new process.  Whatever waits under its old id is
 * fenced.  In a group that is at rest nobody need notice, as long as it wants what
 * it wanted before.
 */
static int16_t
replace(FlGroupCall *call, FlGroupRef group, FlGroupRef member, const FlGroupJoin *join, const FlGroupMemberId *id,
		FlGroupTicket *ticket)
{
	FlGroup *g = fl_group_at(call->area, group);
	FlGroupMember *m = fl_group_member_at(call->area, member);
	bool unchanged = fl_group_protocols_are(call->area, &m->protocols, join->request);
	int16_t error = check_fit(call, g, member, join);

	if (error != FL_KAFKA_NO_ERROR)
		return error;
	if (!set_type(call->area, g, join) || !fl_group_update_member(call->area, member, join) ||
		!fl_group_rename_member(call->area, member, id_bytes(id)))
		return FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	fl_group_touch(call, m);
	if (g->state != FL_GROUP_STABLE || !unchanged || m->generation != g->generation)
		return join_phase(call, group, member, ticket);
	(void) repeat(call, member, ticket);
	m->skip = g->leader == member;
	return FL_KAFKA_NO_ERROR;
}

static int16_t
join_newcomer(FlGroupCall *call, FlGroupRef group, const FlGroupJoin *join, FlGroupTicket *ticket, FlGroupMemberId *id)
{
	FlGroup *g = fl_group_at(call->area, group);
	FlGroupMemberId made;
	int16_t error;

	make_id(join, &made);
	if (is_static(join))
	{
		FlGroupRef member = fl_group_find_instance(call->area, group, join->request->group_instance_id);

		if (member != 0)
			return replace(call, group, member, join, &made, ticket);
	}
	if (g->nmembers + g->npending >= call->limits->max_members)
		return FL_KAFKA_GROUP_MAX_SIZE_REACHED;
	error = check_fit(call, g, 0, join);
	if (error != FL_KAFKA_NO_ERROR)
		return error;
	if (is_static(join) || join->version < FIRST_VERSION_WITH_ID_REQUIRED)
		return add(call, group, join, &made, ticket);
	if (fl_group_add_member(call, group, join, id_bytes(&made), true) == 0)
		return FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	*id = made;
	return FL_KAFKA_MEMBER_ID_REQUIRED;
}

/* The member that the request names, or an error. */
static int16_t
find_named(FlGroupCall *call, FlGroupRef group, const FlGroupJoin *join, FlGroupRef *member)
{
	FlGroupArea *area = call->area;

	if (is_static(join))
	{
		*member = fl_group_find_instance(area, group, join->request->group_instance_id);
		if (*member != 0 &&
			!fl_group_blob_is(area, &fl_group_member_at(area, *member)->id, join->request->member_id))
			return FL_KAFKA_FENCED_INSTANCE_ID;
	}
	else
		*member = fl_group_find_member(area, group, join->request->member_id);
	return *member != 0 ? FL_KAFKA_NO_ERROR : FL_KAFKA_UNKNOWN_MEMBER_ID;
}

static int16_t
join_member(FlGroupCall *call, FlGroupRef group, const FlGroupJoin *join, FlGroupTicket *ticket)
{
	FlGroup *g = fl_group_at(call->area, group);
	FlGroupRef member;
	FlGroupMember *m;
	bool unchanged;
	int16_t error = find_named(call, group, join, &member);

	if (error == FL_KAFKA_NO_ERROR)
		error = check_fit(call, g, member, join);
	if (error != FL_KAFKA_NO_ERROR)
		return error;
	m = fl_group_member_at(call->area, member);
	unchanged = !m->pending && fl_group_protocols_are(call->area, &m->protocols, join->request);
	if (!set_type(call->area, g, join) || !fl_group_update_member(call->area, member, join))
		return FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	fl_group_touch(call, m);
	/* A leader that joins again wants to assign anew; another that does has lost an answer. */
	if (unchanged && m->generation == g->generation &&
		(g->state == FL_GROUP_COMPLETING || (g->state == FL_GROUP_STABLE && g->leader != member)))
		return repeat(call, member, ticket);
	return join_phase(call, group, member, ticket);
}

int16_t
fl_group_join(FlGroupCall *call, const FlGroupJoin *join, FlGroupTicket *ticket, FlGroupMemberId *id)
{
	int16_t error = check_request(call, join);
	FlGroupRef group;
	FlGroup *g;

	id->len = 0;
	if (error == FL_KAFKA_NO_ERROR)
		group = fl_group_find(call, join->group, &error);
	if (error != FL_KAFKA_NO_ERROR)
		return error;
	if (group == 0 && !is_empty(join->request->member_id))
		return FL_KAFKA_UNKNOWN_MEMBER_ID;
	if (group == 0)
		group = fl_group_make(call, join);
	if (group == 0)
		return FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	g = fl_group_at(call->area, group);
	g->pinned = true;
	if (is_empty(join->request->member_id))
		error = join_newcomer(call, group, join, ticket, id);
	else
		error = join_member(call, group, join, ticket);
	g->pinned = false;
	/* Made for somebody who was refused. */
	if (g->members == 0 && g->generation == 0)
		fl_group_drop(call->area, group);
	return error;
}

/* ---------- answers ---------- */

static void
put_members(FlGroupCall *call, FlGroup *g, FlGroupOut *out, FlGroupAnswer *answer)
{
	FlGroupArea *area = call->area;
	FlKafkaJoinGroupResponseMember *list;
	FlGroupRef ref;
	FlGroupMember *m;
	int n = 0;

	list = fl_group_out_alloc(out, sizeof(*list) * (size_t) (g->nmembers > 0 ? g->nmembers : 1));
	fl_group_each_member(area, g, ref, m)
	{
		FlKafkaJoinGroupResponseMember item;
		FlGroupPlace at;
		int32_t len;

		/* Who has come since then is not of this generation. */
		if (m->pending || m->generation != g->generation)
			continue;
		fl_kafka_init_join_group_response_member(&item);
		item.member_id = fl_group_blob_out(area, &m->id, out);
		item.group_instance_id = fl_group_blob_out(area, &m->instance, out);
		item.metadata = nothing;
		if (fl_group_protocol_find_blob(area, m, &g->protocol, &at, &len))
			item.metadata = fl_group_place_out(&at, len, out);
		if (list != NULL)
			list[n] = item;
		n++;
	}
	answer->members = list;
	answer->nmembers = n;
}

static void
put_join(FlGroupCall *call, FlGroupMember *m, FlGroupRef ref, int16_t version, FlGroupOut *out, FlGroupAnswer *answer)
{
	FlGroupArea *area = call->area;
	FlGroup *g = fl_group_at(area, m->group);
	bool leads = g->leader == ref;

	answer->generation = g->generation;
	answer->protocol_type = fl_group_blob_out(area, &g->protocol_type, out);
	answer->protocol = fl_group_blob_out(area, &g->protocol, out);
	answer->member_id = fl_group_blob_out(area, &m->id, out);
	answer->leader = nothing;
	if (leads && m->skip && version < 9)
	{
		/* It could not be told that there is nothing to assign, so it must not know that it leads. */
		answer->leader = fl_group_blob_out(area, &m->old_id, out);
		leads = false;
	}
	else if (g->leader != 0)
		answer->leader = fl_group_blob_out(area, &fl_group_member_at(area, g->leader)->id, out);
	answer->skip_assignment = leads && m->skip;
	if (leads)
		put_members(call, g, out, answer);
}

static void
put_sync(FlGroupCall *call, FlGroupMember *m, FlGroupOut *out, FlGroupAnswer *answer)
{
	FlGroup *g = fl_group_at(call->area, m->group);

	answer->protocol_type = fl_group_blob_out(call->area, &g->protocol_type, out);
	answer->protocol = fl_group_blob_out(call->area, &g->protocol, out);
	if (m->assignment.len > 0)
		answer->assignment = fl_group_blob_out(call->area, &m->assignment, out);
}

/* What became of a ticket that is not the member's present one. */
static int16_t
lost_ticket(FlGroupArea *area, const FlGroupTicket *ticket)
{
	FlGroupMember *m = fl_group_member_at(area, ticket->member);

	if (fl_group_chunk(area, ticket->member)->kind != FL_GROUP_CHUNK_MEMBER)
		return FL_KAFKA_UNKNOWN_MEMBER_ID;
	if (m->old_serial == ticket->serial)
		return FL_KAFKA_FENCED_INSTANCE_ID;
	return m->serial == ticket->serial ? FL_KAFKA_REBALANCE_IN_PROGRESS : FL_KAFKA_UNKNOWN_MEMBER_ID;
}

static bool
is_present(FlGroupArea *area, const FlGroupTicket *ticket)
{
	FlGroupMember *m = fl_group_member_at(area, ticket->member);

	return fl_group_chunk(area, ticket->member)->kind == FL_GROUP_CHUNK_MEMBER && m->serial == ticket->serial &&
		   m->wait_number == ticket->wait && m->wait != FL_GROUP_WAIT_NONE;
}

bool
fl_group_take(FlGroupCall *call, const FlGroupTicket *ticket, int16_t version, FlGroupOut *out, FlGroupAnswer *answer)
{
	FlGroupMember *m = fl_group_member_at(call->area, ticket->member);

	memset(answer, 0, sizeof(*answer));
	answer->generation = -1;
	answer->protocol_type = answer->protocol = fl_kafka_bytes(NULL, -1);
	answer->leader = answer->member_id = answer->assignment = nothing;
	out->need = 0;
	if (!is_present(call->area, ticket))
	{
		answer->error = lost_ticket(call->area, ticket);
		return true;
	}
	if (!m->ready)
		return false;
	answer->error = m->error;
	/* A generation that is over before its answer left. */
	if (m->error == FL_KAFKA_NO_ERROR && m->generation != fl_group_at(call->area, m->group)->generation)
		answer->error = FL_KAFKA_REBALANCE_IN_PROGRESS;
	if (answer->error != FL_KAFKA_NO_ERROR)
		answer->member_id = fl_group_blob_out(call->area, &m->id, out);
	else if (m->wait == FL_GROUP_WAIT_JOIN)
		put_join(call, m, ticket->member, version, out, answer);
	else
		put_sync(call, m, out, answer);
	if (fl_group_out_fits(out))
	{
		m->wait = FL_GROUP_WAIT_NONE;
		m->ready = false;
		fl_group_touch(call, m);
	}
	return true;
}

void
fl_group_abandon(FlGroupCall *call, const FlGroupTicket *ticket)
{
	FlGroupMember *m = fl_group_member_at(call->area, ticket->member);

	if (!is_present(call->area, ticket))
		return;
	m->wait = FL_GROUP_WAIT_NONE;
	m->ready = false;
	fl_group_touch(call, m);
}
