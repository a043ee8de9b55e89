/*-------------------------------------------------------------------------
 *
 * group.c
 *	  Groups and members: finding, making and removing them.
 *
 * Nothing here decides about rebalances.  A group without members and without
 * ids given out is kept, for its generation's sake, until its chunks are wanted.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "group_internal.h"

/* FNV-1a; names are peers', but a bucket's length is bounded by the area. */
static uint32_t
hash_bytes(uint32_t h, const uint8_t *bytes, int32_t len)
{
	for (int32_t i = 0; i < len; i++)
		h = (h ^ bytes[i]) * UINT32_C(16777619);
	return h;
}

static uint32_t
hash_group(FlKafkaBytes name)
{
	return hash_bytes(UINT32_C(2166136261), name.data, name.len);
}

static uint32_t
hash_member(FlGroupRef group, FlKafkaBytes id)
{
	return hash_bytes(UINT32_C(2166136261) ^ (group * UINT32_C(2654435761)), id.data, id.len);
}

void
fl_group_note_deadline(FlGroupArea *area, int64_t at)
{
	if (at < area->deadline)
		__atomic_store_n(&area->deadline, at, __ATOMIC_RELAXED);
}

int64_t
fl_group_deadline(const FlGroupArea *area)
{
	return __atomic_load_n(&area->deadline, __ATOMIC_RELAXED);
}

uint32_t
fl_group_ready(const FlGroupArea *area, int door)
{
	return __atomic_load_n(&area->ready[door], __ATOMIC_ACQUIRE);
}

/* ---------- groups ---------- */

bool
fl_group_may(const FlGroupCall *call, const FlGroup *g)
{
	return g->owner == call->owner || g->owner == call->owner2;
}

static FlGroupRef
find_any(FlGroupArea *area, FlKafkaBytes name)
{
	uint32_t hash;
	FlGroupRef ref;

	if (name.len <= 0)
		return 0;
	hash = hash_group(name);
	for (ref = area->groups[hash % FL_GROUP_BUCKETS]; ref != 0; ref = fl_group_at(area, ref)->hash_next)
	{
		FlGroup *g = fl_group_at(area, ref);

		if (g->hash == hash && fl_group_blob_is(area, &g->name, name))
			return ref;
	}
	return 0;
}

FlGroupRef
fl_group_find(FlGroupCall *call, FlKafkaBytes name, int16_t *error)
{
	FlGroupRef ref = find_any(call->area, name);

	*error = FL_KAFKA_NO_ERROR;
	if (ref == 0 || fl_group_may(call, fl_group_at(call->area, ref)))
		return ref;
	*error = FL_KAFKA_GROUP_AUTHORIZATION_FAILED;
	return 0;
}

bool
fl_group_owner(FlGroupCall *call, FlKafkaBytes name, uint32_t *owner)
{
	FlGroupRef ref = find_any(call->area, name);

	if (ref == 0)
		return false;
	*owner = fl_group_at(call->area, ref)->owner;
	return true;
}

FlGroupRef
fl_group_make(FlGroupCall *call, const FlGroupJoin *join)
{
	FlGroupArea *area = call->area;
	FlGroupRef ref;
	FlGroup *g;

	(void) fl_group_make_room(area, 2 + fl_group_blob_chunks(join->group.len));
	ref = fl_group_alloc(area, FL_GROUP_CHUNK_GROUP);
	if (ref == 0)
		return 0;
	g = fl_group_at(area, ref);
	if (!fl_group_blob_make(area, join->group, &g->name))
	{
		fl_group_free(area, ref);
		return 0;
	}
	g->protocol_type.len = -1;
	g->protocol.len = -1;
	g->hash = hash_group(join->group);
	g->hash_next = area->groups[g->hash % FL_GROUP_BUCKETS];
	area->groups[g->hash % FL_GROUP_BUCKETS] = ref;
	g->state = FL_GROUP_EMPTY;
	g->since = call->now;
	g->deadline = FL_GROUP_NEVER;
	g->owner = call->owner;
	return ref;
}

void
fl_group_drop(FlGroupArea *area, FlGroupRef ref)
{
	FlGroup *g = fl_group_at(area, ref);
	FlGroupRef *link = &area->groups[g->hash % FL_GROUP_BUCKETS];

	while (*link != ref)
		link = &fl_group_at(area, *link)->hash_next;
	*link = g->hash_next;
	fl_group_blob_free(area, &g->name);
	fl_group_blob_free(area, &g->protocol_type);
	fl_group_blob_free(area, &g->protocol);
	fl_group_free(area, ref);
}

/* The group without anybody that has been so for longest. */
static FlGroupRef
oldest_empty(FlGroupArea *area)
{
	FlGroupRef found = 0;

	for (int i = 0; i < FL_GROUP_BUCKETS; i++)
		for (FlGroupRef ref = area->groups[i]; ref != 0; ref = fl_group_at(area, ref)->hash_next)
		{
			FlGroup *g = fl_group_at(area, ref);

			if (g->members == 0 && !g->pinned && (found == 0 || g->since < fl_group_at(area, found)->since))
				found = ref;
		}
	return found;
}

bool
fl_group_make_room(FlGroupArea *area, uint32_t chunks)
{
	FlGroupRef ref;

	while (area->nfree < chunks && (ref = oldest_empty(area)) != 0)
		fl_group_drop(area, ref);
	return area->nfree >= chunks;
}

/* ---------- members ---------- */

FlGroupRef
fl_group_find_member(FlGroupArea *area, FlGroupRef group, FlKafkaBytes id)
{
	uint32_t hash;
	FlGroupRef ref;

	if (id.len <= 0)
		return 0;
	hash = hash_member(group, id);
	for (ref = area->members[hash % FL_GROUP_MEMBER_BUCKETS]; ref != 0; ref = fl_group_member_at(area, ref)->hash_next)
	{
		FlGroupMember *m = fl_group_member_at(area, ref);

		if (m->hash == hash && m->group == group && fl_group_blob_is(area, &m->id, id))
			return ref;
	}
	return 0;
}

FlGroupRef
fl_group_find_instance(FlGroupArea *area, FlGroupRef group, FlKafkaBytes instance)
{
	FlGroup *g = fl_group_at(area, group);
	FlGroupRef ref;
	FlGroupMember *m;

	if (instance.len < 0)
		return 0;
	fl_group_each_member(area, g, ref, m)
	{
		if (fl_group_blob_is(area, &m->instance, instance))
			return ref;
	}
	return 0;
}

static void
hash_in(FlGroupArea *area, FlGroupRef ref, FlKafkaBytes id)
{
	FlGroupMember *m = fl_group_member_at(area, ref);

	m->hash = hash_member(m->group, id);
	m->hash_next = area->members[m->hash % FL_GROUP_MEMBER_BUCKETS];
	area->members[m->hash % FL_GROUP_MEMBER_BUCKETS] = ref;
}

static void
hash_out(FlGroupArea *area, FlGroupRef ref)
{
	FlGroupMember *m = fl_group_member_at(area, ref);
	FlGroupRef *link = &area->members[m->hash % FL_GROUP_MEMBER_BUCKETS];

	while (*link != ref)
		link = &fl_group_member_at(area, *link)->hash_next;
	*link = m->hash_next;
}

static void
free_member(FlGroupArea *area, FlGroupRef ref)
{
	FlGroupMember *m = fl_group_member_at(area, ref);

	fl_group_blob_free(area, &m->id);
	fl_group_blob_free(area, &m->old_id);
	fl_group_blob_free(area, &m->instance);
	fl_group_blob_free(area, &m->client_id);
	fl_group_blob_free(area, &m->client_host);
	fl_group_blob_free(area, &m->protocols);
	fl_group_blob_free(area, &m->assignment);
	fl_group_blob_free(area, &m->next_assignment);
	fl_group_free(area, ref);
}

/* Names of clients are for views only. */
static FlKafkaBytes
cut(FlKafkaBytes text)
{
	if (text.len > FL_GROUP_NAME_MAX)
		text.len = FL_GROUP_NAME_MAX;
	return text;
}

static void
set_timeouts(FlGroupMember *m, const FlKafkaJoinGroupRequest *request)
{
	m->session_ms = request->session_timeout_ms;
	m->rebalance_ms = request->rebalance_timeout_ms > 0 ? request->rebalance_timeout_ms : request->session_timeout_ms;
}

static uint32_t
chunks_wanted(const FlGroupJoin *join, FlKafkaBytes id, bool pending)
{
	return 3 + fl_group_blob_chunks(id.len) + fl_group_blob_chunks(join->request->group_instance_id.len) +
		   fl_group_blob_chunks(cut(join->client_id).len) + fl_group_blob_chunks(cut(join->client_host).len) +
		   fl_group_blob_chunks(join->request->protocol_type.len) +
		   (pending ? 0 : fl_group_blob_chunks(fl_group_protocols_size(join->request)));
}

FlGroupRef
fl_group_add_member(FlGroupCall *call, FlGroupRef group, const FlGroupJoin *join, FlKafkaBytes id, bool pending)
{
	FlGroupArea *area = call->area;
	FlGroup *g = fl_group_at(area, group);
	FlGroupRef ref;
	FlGroupRef *link;
	FlGroupMember *m;

	(void) fl_group_make_room(area, chunks_wanted(join, id, pending));
	ref = fl_group_alloc(area, FL_GROUP_CHUNK_MEMBER);
	if (ref == 0)
		return 0;
	m = fl_group_member_at(area, ref);
	m->group = group;
	m->serial = ++area->last_serial;
	m->pending = pending;
	m->old_id.len = m->assignment.len = m->next_assignment.len = m->protocols.len = -1;
	m->instance.len = m->client_id.len = m->client_host.len = -1;
	set_timeouts(m, join->request);
	if (!fl_group_blob_make(area, id, &m->id) ||
		!fl_group_blob_make(area, join->request->group_instance_id, &m->instance) ||
		!fl_group_blob_make(area, cut(join->client_id), &m->client_id) ||
		!fl_group_blob_make(area, cut(join->client_host), &m->client_host) ||
		(!pending && !fl_group_protocols_make(area, join->request, &m->protocols)))
	{
		free_member(area, ref);
		return 0;
	}
	for (link = &g->members; *link != 0; link = &fl_group_member_at(area, *link)->next)
		;
	*link = ref;
	hash_in(area, ref, id);
	if (pending)
		g->npending++;
	else
	{
		g->nmembers++;
		g->bytes += m->protocols.len;
	}
	fl_group_touch(call, m);
	return ref;
}

bool
fl_group_rename_member(FlGroupArea *area, FlGroupRef ref, FlKafkaBytes id)
{
	FlGroupMember *m = fl_group_member_at(area, ref);
	FlGroupBlob blob;

	if (!fl_group_blob_make(area, id, &blob))
		return false;
	hash_out(area, ref);
	fl_group_blob_free(area, &m->old_id);
	m->old_id = m->id;
	m->id = blob;
	m->old_serial = m->serial;
	m->serial = ++area->last_serial;
	hash_in(area, ref, id);
	return true;
}

bool
fl_group_update_member(FlGroupArea *area, FlGroupRef ref, const FlGroupJoin *join)
{
	FlGroupMember *m = fl_group_member_at(area, ref);
	FlGroup *g = fl_group_at(area, m->group);
	FlGroupBlob protocols;
	FlGroupBlob name;

	(void) fl_group_make_room(area, chunks_wanted(join, fl_kafka_bytes(NULL, 0), false));
	if (!fl_group_protocols_make(area, join->request, &protocols))
		return false;
	if (!m->pending)
		g->bytes -= m->protocols.len;
	else
	{
		m->pending = false;
		g->npending--;
		g->nmembers++;
	}
	g->bytes += protocols.len;
	fl_group_blob_free(area, &m->protocols);
	m->protocols = protocols;
	set_timeouts(m, join->request);
	if (fl_group_blob_make(area, cut(join->client_id), &name))
	{
		fl_group_blob_free(area, &m->client_id);
		m->client_id = name;
	}
	if (fl_group_blob_make(area, cut(join->client_host), &name))
	{
		fl_group_blob_free(area, &m->client_host);
		m->client_host = name;
	}
	return true;
}

void
fl_group_remove_member(FlGroupCall *call, FlGroupRef ref)
{
	FlGroupArea *area = call->area;
	FlGroupMember *m = fl_group_member_at(area, ref);
	FlGroup *g = fl_group_at(area, m->group);
	FlGroupRef *link = &g->members;

	while (*link != ref)
		link = &fl_group_member_at(area, *link)->next;
	*link = m->next;
	if (m->pending)
		g->npending--;
	else
	{
		g->nmembers--;
		g->bytes -= m->protocols.len + (m->assignment.len > 0 ? m->assignment.len : 0);
	}
	if (g->leader == ref)
		g->leader = 0;
	/* Whoever waits finds that the member is not there. */
	if (m->wait != FL_GROUP_WAIT_NONE)
		fl_group_wake(call, m->door);
	hash_out(area, ref);
	free_member(area, ref);
}
