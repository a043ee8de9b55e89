/*-------------------------------------------------------------------------
 *
 * member.c
 *	  SyncGroup, Heartbeat, LeaveGroup, and whether somebody may commit.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "group_internal.h"

/* The member that a request names by id and, if it is static, by its instance. */
static int16_t
find_member(FlGroupCall *call, FlKafkaBytes group, FlKafkaBytes id, FlKafkaBytes instance, FlGroupRef *member)
{
	int16_t error;
	FlGroupRef ref = fl_group_find(call, group, &error);

	*member = 0;
	if (ref == 0)
		return error != FL_KAFKA_NO_ERROR ? error : FL_KAFKA_UNKNOWN_MEMBER_ID;
	if (instance.len > 0)
	{
		*member = fl_group_find_instance(call->area, ref, instance);
		if (*member != 0 && !fl_group_blob_is(call->area, &fl_group_member_at(call->area, *member)->id, id))
			return FL_KAFKA_FENCED_INSTANCE_ID;
	}
	else
		*member = fl_group_find_member(call->area, ref, id);
	if (*member == 0 || fl_group_member_at(call->area, *member)->pending)
		return FL_KAFKA_UNKNOWN_MEMBER_ID;
	return FL_KAFKA_NO_ERROR;
}

static int16_t
find_in_generation(FlGroupCall *call, FlKafkaBytes group, int32_t generation, FlKafkaBytes id, FlKafkaBytes instance,
				   FlGroupRef *member)
{
	int16_t error = find_member(call, group, id, instance, member);

	if (error == FL_KAFKA_NO_ERROR &&
		fl_group_at(call->area, fl_group_member_at(call->area, *member)->group)->generation != generation)
		error = FL_KAFKA_ILLEGAL_GENERATION;
	return error;
}

/* ---------- SyncGroup ---------- */

static void
forget_next(FlGroupArea *area, FlGroup *g)
{
	FlGroupRef ref;
	FlGroupMember *m;

	fl_group_each_member(area, g, ref, m)
		fl_group_blob_free(area, &m->next_assignment);
}

/* The whole of the leader's assignment beside the old one, or nothing. */
static int16_t
read_assignments(FlGroupCall *call, FlGroupRef group, const FlKafkaSyncGroupRequest *request)
{
	FlGroupArea *area = call->area;
	FlGroup *g = fl_group_at(area, group);
	FlKafkaSyncGroupRequest r = *request;
	FlKafkaSyncGroupRequestAssignment a;
	int64_t bytes = g->bytes;

	fl_kafka_rewind(&r.assignments);
	while (fl_kafka_next(&r.assignments, &a))
	{
		FlGroupRef ref = fl_group_find_member(area, group, a.member_id);
		FlGroupMember *m;

		if (ref == 0)
			continue;
		m = fl_group_member_at(area, ref);
		fl_group_blob_free(area, &m->next_assignment);
		bytes += a.assignment.len > 0 ? a.assignment.len : 0;
		if (bytes > call->limits->max_bytes)
			return FL_KAFKA_GROUP_MAX_SIZE_REACHED;
		(void) fl_group_make_room(area, fl_group_blob_chunks(a.assignment.len));
		if (!fl_group_blob_make(area, a.assignment, &m->next_assignment))
			return FL_KAFKA_COORDINATOR_NOT_AVAILABLE;
	}
	return FL_KAFKA_NO_ERROR;
}

static int16_t
take_assignments(FlGroupCall *call, FlGroupRef group, const FlKafkaSyncGroupRequest *request)
{
	FlGroupArea *area = call->area;
	FlGroup *g = fl_group_at(area, group);
	int16_t error = read_assignments(call, group, request);
	FlGroupRef ref;
	FlGroupMember *m;

	if (error != FL_KAFKA_NO_ERROR)
	{
		forget_next(area, g);
		return error;
	}
	fl_group_each_member(area, g, ref, m)
	{
		if (m->assignment.len > 0)
			g->bytes -= m->assignment.len;
		fl_group_blob_free(area, &m->assignment);
		m->assignment = m->next_assignment;
		m->next_assignment.first = 0;
		m->next_assignment.len = -1;
		if (m->assignment.len > 0)
			g->bytes += m->assignment.len;
	}
	return FL_KAFKA_NO_ERROR;
}

/* All who wait have their assignments now; who has not asked yet may do so until the deadline. */
static void
become_stable(FlGroupCall *call, FlGroup *g)
{
	int64_t deadline = g->deadline;
	bool all = true;
	FlGroupRef ref;
	FlGroupMember *m;

	fl_group_set_state(call, g, FL_GROUP_STABLE);
	fl_group_each_member(call->area, g, ref, m)
	{
		if (m->wait == FL_GROUP_WAIT_SYNC)
			fl_group_release(call, m, FL_KAFKA_NO_ERROR);
		if (!m->pending && !m->synced)
			all = false;
	}
	if (!all)
		g->deadline = deadline;
}

/* Version 5 says what the member believes that the group speaks. */
static bool
is_wrong_protocol(FlGroupArea *area, const FlGroup *g, const FlKafkaSyncGroupRequest *r)
{
	return (r->protocol_type.len >= 0 && !fl_group_blob_is(area, &g->protocol_type, r->protocol_type)) ||
		   (r->protocol_name.len >= 0 && !fl_group_blob_is(area, &g->protocol, r->protocol_name));
}

static int16_t
sync_completing(FlGroupCall *call, FlGroupRef member, const FlKafkaSyncGroupRequest *request, FlGroupTicket *ticket)
{
	FlGroupMember *m = fl_group_member_at(call->area, member);
	FlGroup *g = fl_group_at(call->area, m->group);

	if (g->leader == member)
	{
		int16_t error = take_assignments(call, m->group, request);

		if (error != FL_KAFKA_NO_ERROR)
			return error;
	}
	m->synced = true;
	fl_group_park(call, member, FL_GROUP_WAIT_SYNC, ticket);
	if (g->leader == member)
		become_stable(call, g);
	return FL_KAFKA_NO_ERROR;
}

int16_t
fl_group_sync(FlGroupCall *call, FlKafkaBytes group, const FlKafkaSyncGroupRequest *request, FlGroupTicket *ticket)
{
	FlGroupRef member;
	FlGroupMember *m;
	FlGroup *g;
	int16_t error = find_in_generation(call, group, request->generation_id, request->member_id,
									   request->group_instance_id, &member);

	if (error != FL_KAFKA_NO_ERROR)
		return error;
	m = fl_group_member_at(call->area, member);
	g = fl_group_at(call->area, m->group);
	if (is_wrong_protocol(call->area, g, request))
		return FL_KAFKA_INCONSISTENT_GROUP_PROTOCOL;
	fl_group_touch(call, m);
	switch ((FlGroupState) g->state)
	{
		case FL_GROUP_EMPTY:
		case FL_GROUP_DEAD:
			return FL_KAFKA_UNKNOWN_MEMBER_ID;
		case FL_GROUP_PREPARING:
			return FL_KAFKA_REBALANCE_IN_PROGRESS;
		case FL_GROUP_COMPLETING:
			return sync_completing(call, member, request, ticket);
		case FL_GROUP_STABLE:
			break;
	}
	m->synced = true;
	fl_group_park(call, member, FL_GROUP_WAIT_SYNC, ticket);
	fl_group_release(call, m, FL_KAFKA_NO_ERROR);
	return FL_KAFKA_NO_ERROR;
}

/* ---------- Heartbeat ---------- */

int16_t
fl_group_heartbeat(FlGroupCall *call, FlKafkaBytes group, int32_t generation, FlKafkaBytes member_id,
				   FlKafkaBytes instance)
{
	FlGroupRef member;
	FlGroupMember *m;
	int16_t error = find_in_generation(call, group, generation, member_id, instance, &member);

	if (error != FL_KAFKA_NO_ERROR)
		return error;
	m = fl_group_member_at(call->area, member);
	fl_group_touch(call, m);
	return fl_group_at(call->area, m->group)->state == FL_GROUP_PREPARING ? FL_KAFKA_REBALANCE_IN_PROGRESS
																		  : FL_KAFKA_NO_ERROR;
}

/* ---------- LeaveGroup ---------- */

int16_t
fl_group_leave(FlGroupCall *call, FlKafkaBytes group, FlKafkaBytes member_id, FlKafkaBytes instance)
{
	int16_t error;
	FlGroupRef ref = fl_group_find(call, group, &error);
	FlGroupRef member;
	bool pending;

	if (ref == 0)
		return error != FL_KAFKA_NO_ERROR ? error : FL_KAFKA_UNKNOWN_MEMBER_ID;
	if (instance.len > 0)
	{
		member = fl_group_find_instance(call->area, ref, instance);
		if (member != 0 && member_id.len > 0 &&
			!fl_group_blob_is(call->area, &fl_group_member_at(call->area, member)->id, member_id))
			return FL_KAFKA_FENCED_INSTANCE_ID;
	}
	else
		member = fl_group_find_member(call->area, ref, member_id);
	if (member == 0)
		return FL_KAFKA_UNKNOWN_MEMBER_ID;
	pending = fl_group_member_at(call->area, member)->pending;
	fl_group_remove_member(call, member);
	/* Who was only given an id is missed by a join phase alone. */
	if (!pending || fl_group_at(call->area, ref)->state == FL_GROUP_PREPARING ||
		fl_group_at(call->area, ref)->state == FL_GROUP_EMPTY)
		fl_group_lost_member(call, ref);
	return FL_KAFKA_NO_ERROR;
}

/* ---------- OffsetCommit ---------- */

/* Nobody's generation: tools, and consumers that assign their partitions themselves. */
static int16_t
check_foreign_commit(FlGroupCall *call, FlKafkaBytes group, FlKafkaBytes member_id, FlKafkaBytes instance)
{
	int16_t error;
	FlGroupRef ref = fl_group_find(call, group, &error);

	if (error != FL_KAFKA_NO_ERROR)
		return error;
	if (ref != 0 && fl_group_at(call->area, ref)->nmembers > 0)
		return FL_KAFKA_UNKNOWN_MEMBER_ID;
	return member_id.len > 0 || instance.len > 0 ? FL_KAFKA_UNKNOWN_MEMBER_ID : FL_KAFKA_NO_ERROR;
}

/*
 * Does a member of a group that has some say who it is, without a generation?  librdkafka does after ILLEGAL_GENERATION; it
 * is to be told the same again: UNKNOWN_MEMBER_ID would make it give up an id that is good.
 */
static bool
is_members_own(FlGroupCall *call, FlKafkaBytes group, FlKafkaBytes member_id, FlKafkaBytes instance)
{
	int16_t error;
	FlGroupRef ref = fl_group_find(call, group, &error);

	return (member_id.len > 0 || instance.len > 0) && ref != 0 && fl_group_at(call->area, ref)->nmembers > 0;
}

int16_t
fl_group_check_commit(FlGroupCall *call, FlKafkaBytes group, int32_t generation, FlKafkaBytes member_id,
					  FlKafkaBytes instance)
{
	FlGroupRef member;
	FlGroupMember *m;
	int16_t error;

	if (group.len <= 0 || group.len > FL_GROUP_NAME_MAX)
		return FL_KAFKA_INVALID_GROUP_ID;
	if (generation < 0 && !is_members_own(call, group, member_id, instance))
		return check_foreign_commit(call, group, member_id, instance);
	error = find_in_generation(call, group, generation, member_id, instance, &member);
	if (error != FL_KAFKA_NO_ERROR)
		return error;
	m = fl_group_member_at(call->area, member);
	fl_group_touch(call, m);
	/* Before its assignment a member owns nothing that it could have processed. */
	return fl_group_at(call->area, m->group)->state == FL_GROUP_COMPLETING ? FL_KAFKA_REBALANCE_IN_PROGRESS
																		  : FL_KAFKA_NO_ERROR;
}
