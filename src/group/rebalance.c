/*-------------------------------------------------------------------------
 *
 * rebalance.c
 *	  The states of a group: how it goes from one to the next, and what time does.
 *
 * A member is counted as having joined while its JoinGroup waits; so the join
 * phase is over when all wait, and nothing else has to be remembered of it.
 * What a static member has that does not come back within the join phase stays
 * its own until its session ends; a dynamic one is out at once.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "group_internal.h"

const char *
fl_group_state_name(FlGroupState state)
{
	switch (state)
	{
		case FL_GROUP_EMPTY:
			return "Empty";
		case FL_GROUP_PREPARING:
			return "PreparingRebalance";
		case FL_GROUP_COMPLETING:
			return "CompletingRebalance";
		case FL_GROUP_STABLE:
			return "Stable";
		case FL_GROUP_DEAD:
			break;
	}
	return "Dead";
}

void
fl_group_set_state(FlGroupCall *call, FlGroup *g, FlGroupState state)
{
	g->state = (uint8_t) state;
	g->since = call->now;
	g->deadline = FL_GROUP_NEVER;
	g->initial = false;
}

static void
set_deadline(FlGroupCall *call, FlGroup *g, int64_t in_ms)
{
	g->deadline = call->now + in_ms;
	fl_group_note_deadline(call->area, g->deadline);
}

/* ---------- members ---------- */

/* A sign of life. */
void
fl_group_touch(FlGroupCall *call, FlGroupMember *m)
{
	m->expires = call->now + m->session_ms;
	fl_group_note_deadline(call->area, m->expires);
}

static bool
waits(const FlGroupMember *m, FlGroupWait wait)
{
	return m->wait == wait && !m->ready;
}

void
fl_group_park(FlGroupCall *call, FlGroupRef ref, FlGroupWait wait, FlGroupTicket *ticket)
{
	FlGroupMember *m = fl_group_member_at(call->area, ref);

	/* The member asks again, perhaps on another connection: the first request is answered by its number. */
	if (m->wait != FL_GROUP_WAIT_NONE)
		fl_group_wake(call, m->door);
	m->wait = (uint8_t) wait;
	m->wait_number++;
	m->ready = false;
	m->skip = false;
	m->door = (uint8_t) call->door;
	ticket->member = ref;
	ticket->serial = m->serial;
	ticket->wait = m->wait_number;
}

void
fl_group_release(FlGroupCall *call, FlGroupMember *m, int16_t error)
{
	if (m->wait == FL_GROUP_WAIT_NONE || m->ready)
		return;
	m->ready = true;
	m->error = error;
	fl_group_touch(call, m);
	fl_group_wake(call, m->door);
}

static int64_t
longest_rebalance(FlGroupArea *area, const FlGroup *g)
{
	int64_t longest = 0;
	FlGroupRef ref;
	FlGroupMember *m;

	fl_group_each_member(area, g, ref, m)
	{
		if (!m->pending && m->rebalance_ms > longest)
			longest = m->rebalance_ms;
	}
	return longest;
}

/* ---------- the join phase ---------- */

void
fl_group_prepare(FlGroupCall *call, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(call->area, ref);
	bool was_empty = g->state == FL_GROUP_EMPTY;
	int64_t longest = longest_rebalance(call->area, g);
	FlGroupRef at;
	FlGroupMember *m;

	fl_group_each_member(call->area, g, at, m)
	{
		if (waits(m, FL_GROUP_WAIT_SYNC))
			fl_group_release(call, m, FL_KAFKA_REBALANCE_IN_PROGRESS);
	}
	fl_group_set_state(call, g, FL_GROUP_PREPARING);
	if (was_empty && call->limits->initial_delay_ms > 0)
	{
		int64_t delay = call->limits->initial_delay_ms;

		g->initial = true;
		g->initial_end = call->now + longest;
		set_deadline(call, g, delay < longest ? delay : longest);
	}
	else
		set_deadline(call, g, longest);
}

/* Who leads: as before, if it is there; else the first one that is. */
static bool
elect_leader(FlGroupArea *area, FlGroup *g)
{
	FlGroupRef ref;
	FlGroupMember *m;

	if (g->leader != 0 && waits(fl_group_member_at(area, g->leader), FL_GROUP_WAIT_JOIN))
		return true;
	fl_group_each_member(area, g, ref, m)
	{
		if (waits(m, FL_GROUP_WAIT_JOIN))
		{
			g->leader = ref;
			return true;
		}
	}
	return false;
}

static void
forget_assignment(FlGroupArea *area, FlGroup *g, FlGroupMember *m)
{
	if (m->assignment.len > 0)
		g->bytes -= m->assignment.len;
	fl_group_blob_free(area, &m->assignment);
}

/* A new generation of all who are members now. */
static void
begin_generation(FlGroupCall *call, FlGroup *g)
{
	FlGroupRef ref;
	FlGroupMember *m;

	g->generation = g->generation < INT32_MAX ? g->generation + 1 : 1;
	fl_group_set_state(call, g, FL_GROUP_COMPLETING);
	set_deadline(call, g, longest_rebalance(call->area, g));
	fl_group_each_member(call->area, g, ref, m)
	{
		if (m->pending)
			continue;
		forget_assignment(call->area, g, m);
		m->generation = g->generation;
		m->synced = !waits(m, FL_GROUP_WAIT_JOIN);
		fl_group_release(call, m, FL_KAFKA_NO_ERROR);
	}
}

/* Nobody is left: the group waits for whoever comes next. */
static void
become_empty(FlGroupCall *call, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(call->area, ref);

	if (g->generation == 0 && g->npending == 0)
	{
		fl_group_drop(call->area, ref);
		return;
	}
	g->generation = g->generation < INT32_MAX ? g->generation + 1 : 1;
	g->leader = 0;
	fl_group_blob_free(call->area, &g->protocol);
	fl_group_set_state(call, g, FL_GROUP_EMPTY);
}

/* The protocol's name could not be kept, or there is none: all have to come again. */
static void
fail_join(FlGroupCall *call, FlGroup *g, int16_t error)
{
	FlGroupRef ref;
	FlGroupMember *m;

	fl_group_each_member(call->area, g, ref, m)
	{
		if (waits(m, FL_GROUP_WAIT_JOIN))
			fl_group_release(call, m, error);
	}
	set_deadline(call, g, longest_rebalance(call->area, g));
}

static void
complete_join(FlGroupCall *call, FlGroupRef ref)
{
	FlGroupArea *area = call->area;
	FlGroup *g = fl_group_at(area, ref);
	FlGroupRef at;
	FlGroupRef next;

	g->initial = false;
	for (at = g->members; at != 0; at = next)
	{
		FlGroupMember *m = fl_group_member_at(area, at);

		next = m->next;
		if (!m->pending && m->instance.len < 0 && !waits(m, FL_GROUP_WAIT_JOIN))
			fl_group_remove_member(call, at);
	}
	if (g->nmembers == 0)
		become_empty(call, ref);
	else if (!elect_leader(area, g))
		/* Only static members that are away: theirs until their sessions end. */
		set_deadline(call, g, longest_rebalance(area, g));
	else if (!fl_group_choose_protocol(area, g))
		fail_join(call, g, FL_KAFKA_COORDINATOR_NOT_AVAILABLE);
	else
		begin_generation(call, g);
}

static bool
all_joined(FlGroupArea *area, const FlGroup *g)
{
	FlGroupRef ref;
	FlGroupMember *m;

	if (g->npending > 0)
		return false;
	fl_group_each_member(area, g, ref, m)
	{
		if (!waits(m, FL_GROUP_WAIT_JOIN))
			return false;
	}
	return true;
}

/* The group may be gone afterwards. */
void
fl_group_maybe_complete(FlGroupCall *call, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(call->area, ref);

	if (g->state != FL_GROUP_PREPARING)
		return;
	if (g->nmembers == 0)
		become_empty(call, ref);
	else if (!g->initial && all_joined(call->area, g))
		complete_join(call, ref);
}

/* A member is gone, of whatever cause.  The group may be gone afterwards. */
void
fl_group_lost_member(FlGroupCall *call, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(call->area, ref);

	switch ((FlGroupState) g->state)
	{
		case FL_GROUP_EMPTY:
			if (g->npending == 0 && g->generation == 0)
				fl_group_drop(call->area, ref);
			break;
		case FL_GROUP_STABLE:
		case FL_GROUP_COMPLETING:
			fl_group_prepare(call, ref);
			fl_group_maybe_complete(call, ref);
			break;
		case FL_GROUP_PREPARING:
			fl_group_maybe_complete(call, ref);
			break;
		case FL_GROUP_DEAD:
			break;
	}
}

/* ---------- time ---------- */

/* Sessions that are over; true: a member was lost. */
static bool
expire_members(FlGroupCall *call, FlGroupRef ref, bool *lost_pending)
{
	FlGroup *g = fl_group_at(call->area, ref);
	bool lost = false;
	FlGroupRef next;

	for (FlGroupRef at = g->members; at != 0; at = next)
	{
		FlGroupMember *m = fl_group_member_at(call->area, at);

		next = m->next;
		if ((m->wait != FL_GROUP_WAIT_NONE && !m->ready) || m->expires > call->now)
			continue;
		if (m->pending)
			*lost_pending = true;
		else
			lost = true;
		fl_group_remove_member(call, at);
	}
	return lost;
}

/* Members that have joined and do not fetch their assignment; true: one was lost. */
static bool
expire_syncs(FlGroupCall *call, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(call->area, ref);
	bool lost = false;
	FlGroupRef next;

	for (FlGroupRef at = g->members; at != 0; at = next)
	{
		FlGroupMember *m = fl_group_member_at(call->area, at);

		next = m->next;
		if (!m->pending && !m->synced)
		{
			fl_group_remove_member(call, at);
			lost = true;
		}
	}
	return lost;
}

/* A state has lasted long enough.  The group may be gone afterwards. */
static void
state_is_over(FlGroupCall *call, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(call->area, ref);

	switch ((FlGroupState) g->state)
	{
		case FL_GROUP_PREPARING:
			complete_join(call, ref);
			break;
		case FL_GROUP_COMPLETING:
		case FL_GROUP_STABLE:
			g->deadline = FL_GROUP_NEVER;
			if (expire_syncs(call, ref))
				fl_group_lost_member(call, ref);
			else if (g->state == FL_GROUP_COMPLETING)
				/* All have asked, but the leader's answer was not taken over. */
				fl_group_prepare(call, ref);
			break;
		case FL_GROUP_EMPTY:
		case FL_GROUP_DEAD:
			g->deadline = FL_GROUP_NEVER;
			break;
	}
}

/*
 * One thing at a time, since the group may go with each: what is left is due at
 * the next look.
 */
static void
tick_group(FlGroupCall *call, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(call->area, ref);
	bool lost_pending = false;

	if (expire_members(call, ref, &lost_pending))
		fl_group_lost_member(call, ref);
	else if (lost_pending && (g->state == FL_GROUP_PREPARING || g->state == FL_GROUP_EMPTY))
		/* Who was only given an id is missed by a join phase alone. */
		fl_group_lost_member(call, ref);
	else if (g->deadline <= call->now)
		state_is_over(call, ref);
}

/* Everything that is due next, over all groups. */
static int64_t
next_deadline(FlGroupArea *area)
{
	int64_t next = FL_GROUP_NEVER;

	for (int i = 0; i < FL_GROUP_BUCKETS; i++)
		for (FlGroupRef ref = area->groups[i]; ref != 0; ref = fl_group_at(area, ref)->hash_next)
		{
			FlGroup *g = fl_group_at(area, ref);
			FlGroupRef at;
			FlGroupMember *m;

			if (g->deadline < next)
				next = g->deadline;
			fl_group_each_member(area, g, at, m)
			{
				if ((m->wait == FL_GROUP_WAIT_NONE || m->ready) && m->expires < next)
					next = m->expires;
			}
		}
	return next;
}

void
fl_group_tick(FlGroupCall *call)
{
	FlGroupArea *area = call->area;

	if (call->now < area->deadline)
		return;
	for (int i = 0; i < FL_GROUP_BUCKETS; i++)
	{
		FlGroupRef next;

		for (FlGroupRef ref = area->groups[i]; ref != 0; ref = next)
		{
			next = fl_group_at(area, ref)->hash_next;
			tick_group(call, ref);
		}
	}
	__atomic_store_n(&area->deadline, next_deadline(area), __ATOMIC_RELAXED);
}

void
fl_group_forget_door(FlGroupCall *call)
{
	FlGroupArea *area = call->area;

	fl_group_drop_answers(area, call->door);
	for (int i = 0; i < FL_GROUP_BUCKETS; i++)
		for (FlGroupRef ref = area->groups[i]; ref != 0; ref = fl_group_at(area, ref)->hash_next)
		{
			FlGroupRef at;
			FlGroupMember *m;

			fl_group_each_member(area, fl_group_at(area, ref), at, m)
			{
				if (m->wait != FL_GROUP_WAIT_NONE && m->door == call->door)
				{
					m->wait = FL_GROUP_WAIT_NONE;
					m->ready = false;
					fl_group_touch(call, m);
				}
			}
		}
}
