/*-------------------------------------------------------------------------
 *
 * describe.c
 *	  Groups as others see them, and deleting them.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "group_internal.h"

static void
put_member(FlGroupCall *call, FlGroup *g, FlGroupRef ref, FlGroupOut *out, FlGroupMemberView *view)
{
	FlGroupArea *area = call->area;
	FlGroupMember *m = fl_group_member_at(area, ref);
	FlGroupPlace at;
	int32_t len;

	memset(view, 0, sizeof(*view));
	view->id = fl_group_blob_out(area, &m->id, out);
	view->instance = fl_group_blob_out(area, &m->instance, out);
	view->client_id = fl_group_blob_out(area, &m->client_id, out);
	view->client_host = fl_group_blob_out(area, &m->client_host, out);
	if (fl_group_protocol_find_blob(area, m, &g->protocol, &at, &len))
		view->metadata = fl_group_place_out(&at, len, out);
	if (m->assignment.len > 0)
		view->assignment = fl_group_blob_out(area, &m->assignment, out);
	view->session_ms = m->session_ms;
	view->rebalance_ms = m->rebalance_ms;
	view->expires_in = m->wait != FL_GROUP_WAIT_NONE && !m->ready ? FL_GROUP_NEVER
					   : m->expires > call->now                   ? m->expires - call->now
																  : 0;
	view->leader = g->leader == ref;
}

static void
put_group(FlGroupCall *call, FlGroupRef group, bool with_members, FlGroupOut *out, FlGroupView *view)
{
	FlGroupArea *area = call->area;
	FlGroup *g = fl_group_at(area, group);
	FlGroupMemberView *list;
	FlGroupRef ref;
	FlGroupMember *m;
	int n = 0;

	memset(view, 0, sizeof(*view));
	view->name = fl_group_blob_out(area, &g->name, out);
	view->protocol_type = fl_group_blob_out(area, &g->protocol_type, out);
	view->protocol = fl_group_blob_out(area, &g->protocol, out);
	view->state = (FlGroupState) g->state;
	view->generation = g->generation;
	view->owner = g->owner;
	view->nmembers = g->nmembers;
	if (!with_members || g->nmembers == 0)
		return;
	list = fl_group_out_alloc(out, sizeof(*list) * (size_t) g->nmembers);
	fl_group_each_member(area, g, ref, m)
	{
		FlGroupMemberView item;

		if (m->pending)
			continue;
		put_member(call, g, ref, out, &item);
		if (list != NULL)
			list[n] = item;
		n++;
	}
	view->members = list;
}

bool
fl_group_describe(FlGroupCall *call, FlKafkaBytes group, FlGroupOut *out, FlGroupView *view)
{
	int16_t error;
	FlGroupRef ref = fl_group_find(call, group, &error);

	out->need = 0;
	if (ref == 0)
		return false;
	put_group(call, ref, true, out, view);
	return true;
}

FlGroupView *
fl_group_list(FlGroupCall *call, bool with_members, FlGroupOut *out, int32_t *n)
{
	FlGroupArea *area = call->area;
	FlGroupView *list;
	size_t count = 0;

	for (int i = 0; i < FL_GROUP_BUCKETS; i++)
		for (FlGroupRef ref = area->groups[i]; ref != 0; ref = fl_group_at(area, ref)->hash_next)
			count++;
	*n = 0;
	out->need = 0;
	list = fl_group_out_alloc(out, sizeof(*list) * (count > 0 ? count : 1));
	for (int i = 0; i < FL_GROUP_BUCKETS; i++)
		for (FlGroupRef ref = area->groups[i]; ref != 0; ref = fl_group_at(area, ref)->hash_next)
		{
			FlGroupView view;

			put_group(call, ref, with_members, out, &view);
			if (list != NULL)
				list[*n] = view;
			++*n;
		}
	return list;
}

int16_t
fl_group_delete(FlGroupCall *call, FlKafkaBytes group)
{
	int16_t error;
	FlGroupRef ref = fl_group_find(call, group, &error);

	if (ref == 0)
		return error != FL_KAFKA_NO_ERROR ? error : FL_KAFKA_GROUP_ID_NOT_FOUND;
	if (fl_group_at(call->area, ref)->members != 0)
		return FL_KAFKA_NON_EMPTY_GROUP;
	fl_group_drop(call->area, ref);
	return FL_KAFKA_NO_ERROR;
}
