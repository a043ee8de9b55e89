/*
 * group_admin.c
 *		DescribeGroups, ListGroups, DeleteGroups.
 *
 * A group is what the coordinator knows and what has positions: either may be
 * without the other.  So what the area does not have is asked of the positions
 * worker before it is said not to exist.
 */
#include "postgres.h"

#include "group.h"

#define OPERATIONS_OF_GROUP ((1 << 3) | (1 << 6) | (1 << 8)) /* read, delete, describe */

typedef struct Named
{
	int n;
	FlKafkaBytes *group; /* as in the request */
	bool *in_area;
	int16 *error;
} Named;

static Named *
create_named(int n)
{
	Named *named = palloc0(sizeof(Named));

	named->n = n;
	named->group = palloc0(sizeof(FlKafkaBytes) * (n + 1));
	named->in_area = palloc0(sizeof(bool) * (n + 1));
	named->error = palloc0(sizeof(int16) * (n + 1));
	return named;
}

static bool
has_too_many(FlKafkaRequest *req, int n)
{
	if (n <= FL_KAFKA_MAX_GROUPS)
		return false;
	fl_kafka_refuse(req->conn, "too many groups in one request");
	return true;
}

static void
ask_about(FlKafkaRequest *req, FlKafkaAsks *asks, int i, FlPositionsOp op, FlKafkaBytes name)
{
	FlBuf *question = fl_kafka_ask_buffer();
	FlGroupCall *call;

	fl_positions_begin(question, op, fl_kafka_group_role(req->conn), name);
	call = fl_kafka_group_begin(req->conn, name);
	fl_kafka_ask(call, asks, i, question);
	fl_groups_unlock(call);
}

/* ---- DescribeGroups -------------------------------------------------------------- */

static FlKafkaBytes
copy_bytes(FlKafkaBytes bytes)
{
	uint8 *copy;

	if (bytes.len <= 0)
		return bytes;
	copy = palloc_extended(bytes.len, MCXT_ALLOC_HUGE);
	memcpy(copy, bytes.data, bytes.len);
	return fl_kafka_bytes(copy, bytes.len);
}

static FlKafkaBytes
never_null(FlKafkaBytes bytes)
{
	return bytes.len < 0 ? fl_kafka_bytes("", 0) : copy_bytes(bytes);
}

static void
put_members(const FlGroupView *view, FlKafkaDescribeGroupsDescribedGroup *out)
{
	FlKafkaDescribeGroupsDescribedGroupMember *members = palloc(sizeof(*members) * (view->nmembers + 1));

	for (int i = 0; i < view->nmembers; i++)
	{
		const FlGroupMemberView *m = &view->members[i];

		fl_kafka_init_describe_groups_described_group_member(&members[i]);
		members[i].member_id = copy_bytes(m->id);
		members[i].group_instance_id = copy_bytes(m->instance);
		members[i].client_id = never_null(m->client_id);
		members[i].client_host = never_null(m->client_host);
		members[i].member_metadata = never_null(m->metadata);
		members[i].member_assignment = never_null(m->assignment);
	}
	fl_kafka_set_items(&out->members, members, view->nmembers);
}

/* From the area; false: it is not there. */
static bool
put_group(FlKafkaRequest *req, FlKafkaBytes name, FlKafkaDescribeGroupsDescribedGroup *out)
{
	FlGroupOut *memory = fl_groups_out();
	FlGroupView view;

	for (;;)
	{
		FlGroupCall *call = fl_kafka_group_begin(req->conn, name);
		bool found = fl_group_describe(call, name, memory, &view);

		fl_groups_unlock(call);
		if (!found)
			return false;
		if (fl_group_out_fits(memory))
			break;
		fl_groups_grow();
	}
	out->group_state = fl_kafka_string(fl_group_state_name(view.state));
	out->protocol_type = never_null(view.protocol_type);
	/* Before a generation is complete there is nothing that the members agree on. */
	if (view.state == FL_GROUP_STABLE)
		out->protocol_data = never_null(view.protocol);
	put_members(&view, out);
	return true;
}

static void
finish_describe(FlKafkaAsks *asks)
{
	FlKafkaRequest *req = asks->req;
	FlKafkaDescribeGroupsRequest *in = req->message;
	Named *named = asks->state;
	FlKafkaDescribeGroupsResponse out;
	FlKafkaDescribeGroupsDescribedGroup *groups = palloc(sizeof(*groups) * (named->n + 1));

	for (int i = 0; i < named->n; i++)
	{
		FlKafkaDescribeGroupsDescribedGroup *g = &groups[i];
		FlKafkaBytes name = fl_kafka_group_name(req->conn, named->group[i]);

		fl_kafka_init_describe_groups_described_group(g);
		g->group_id = named->group[i];
		g->group_state = fl_kafka_string(fl_group_state_name(FL_GROUP_DEAD));
		g->error_code = named->error[i] != FL_KAFKA_NO_ERROR ? named->error[i] : asks->asks[i].error;
		if (in->include_authorized_operations)
			g->authorized_operations = OPERATIONS_OF_GROUP;
		if (g->error_code != FL_KAFKA_NO_ERROR || put_group(req, name, g))
			continue;
		if (asks->asks[i].found)
			g->group_state = fl_kafka_string(fl_group_state_name(FL_GROUP_EMPTY));
		else if (req->version >= 6)
		{
			g->error_code = FL_KAFKA_GROUP_ID_NOT_FOUND;
			g->error_message = fl_kafka_string("There is no such group.");
		}
	}
	fl_kafka_init_describe_groups_response(&out);
	fl_kafka_set_items(&out.groups, groups, named->n);
	fl_kafka_answer(req, &out);
}

void
fl_kafka_handle_describe_groups(FlKafkaRequest *req)
{
	FlKafkaDescribeGroupsRequest *in = req->message;
	int n = fl_kafka_count(&in->groups);
	Named *named;
	FlKafkaAsks *asks;

	if (has_too_many(req, n))
		return;
	named = create_named(n);
	asks = fl_kafka_asks_create(req, n, finish_describe, named);
	for (int i = 0; i < n && fl_kafka_next(&in->groups, &named->group[i]); i++)
	{
		FlKafkaBytes name = fl_kafka_group_name(req->conn, named->group[i]);

		if (name.len <= 0)
			named->error[i] = FL_KAFKA_INVALID_GROUP_ID;
		else
		{
			FlGroupCall *call = fl_kafka_group_begin(req->conn, name);
			uint32 owner;

			named->in_area[i] = fl_group_owner(call, name, &owner);
			if (named->in_area[i] && owner != call->owner && owner != call->owner2)
				named->error[i] = FL_KAFKA_GROUP_AUTHORIZATION_FAILED;
			fl_groups_unlock(call);
			if (!named->in_area[i])
				ask_about(req, asks, i, FL_POSITIONS_FETCH, name);
		}
	}
	fl_kafka_asks_wait(asks);
}

/* ---- ListGroups ---------------------------------------------------------------------- */

static bool
is_wanted(FlKafkaListGroupsRequest *in, const char *state)
{
	FlKafkaBytes name;
	bool wanted = fl_kafka_count(&in->states_filter) == 0;

	fl_kafka_rewind(&in->states_filter);
	while (!wanted && fl_kafka_next(&in->states_filter, &name))
		wanted = name.len == (int32) strlen(state) && pg_strncasecmp((const char *) name.data, state, name.len) == 0;
	if (!wanted)
		return false;
	wanted = fl_kafka_count(&in->types_filter) == 0;
	fl_kafka_rewind(&in->types_filter);
	while (!wanted && fl_kafka_next(&in->types_filter, &name))
		wanted = name.len == 7 && pg_strncasecmp((const char *) name.data, "classic", 7) == 0;
	return wanted;
}

typedef struct Listed
{
	FlKafkaListGroupsListedGroup *groups;
	int n;
	int room;
	FlKafkaBytes prefix;
} Listed;

/* A name without the tenant's prefix; len -1: it has another one. */
static FlKafkaBytes
strip(const Listed *listed, FlKafkaBytes name)
{
	if (name.len <= listed->prefix.len ||
		(listed->prefix.len > 0 && memcmp(name.data, listed->prefix.data, listed->prefix.len) != 0))
		return fl_kafka_bytes(NULL, -1);
	return fl_kafka_bytes(name.data + listed->prefix.len, name.len - listed->prefix.len);
}

static void
list_one(Listed *listed, FlKafkaListGroupsRequest *in, FlKafkaBytes name, FlKafkaBytes type, const char *state)
{
	FlKafkaListGroupsListedGroup *g;

	if (!is_wanted(in, state))
		return;
	if (listed->n == listed->room)
	{
		listed->room = Max(listed->room * 2, 64);
		listed->groups = listed->groups == NULL ? palloc(sizeof(*g) * listed->room)
												: repalloc_huge(listed->groups, sizeof(*g) * listed->room);
	}
	g = &listed->groups[listed->n++];
	fl_kafka_init_list_groups_listed_group(g);
	g->group_id = copy_bytes(name);
	g->protocol_type = never_null(type);
	g->group_state = fl_kafka_string(state);
	g->group_type = fl_kafka_string("classic");
}

static int
compare_name(FlKafkaBytes a, FlKafkaBytes b)
{
	int c = memcmp(a.data, b.data, Min(a.len, b.len));

	return c != 0 ? c : a.len - b.len;
}

static int
compare_view(const void *a, const void *b)
{
	return compare_name(((const FlGroupView *) a)->name, ((const FlGroupView *) b)->name);
}

/* All groups of the area, by name. */
static FlGroupView *
list_area(FlKafkaRequest *req, int32 *n)
{
	FlGroupOut *out = fl_groups_out();

	for (;;)
	{
		FlGroupCall *call = fl_groups_lock(req->door->index, InvalidOid, InvalidOid);
		FlGroupView *list = fl_group_list(call, false, out, n);

		fl_groups_unlock(call);
		if (fl_group_out_fits(out))
		{
			qsort(list, *n, sizeof(FlGroupView), compare_view);
			return list;
		}
		fl_groups_grow();
	}
}

static void
finish_list(FlKafkaAsks *asks)
{
	FlKafkaRequest *req = asks->req;
	FlKafkaListGroupsRequest *in = req->message;
	FlKafkaListGroupsResponse out;
	Oid role = fl_kafka_group_role(req->conn);
	Listed listed = {0};
	FlGroupView *area;
	FlPosition item;
	int32 n;

	fl_kafka_begin_transaction(req->door);
	listed.prefix = fl_kafka_group_prefix(req->conn);
	area = list_area(req, &n);
	for (int i = 0; i < n; i++)
	{
		FlKafkaBytes name = strip(&listed, area[i].name);

		if (name.len > 0 && fl_positions_may_act(role, area[i].owner))
			list_one(&listed, in, name, area[i].protocol_type, fl_group_state_name(area[i].state));
	}
	while (fl_positions_next(&asks->asks[0].items, &item))
	{
		FlKafkaBytes name = strip(&listed, item.metadata);
		FlGroupView key = {0};

		key.name = item.metadata;
		if (name.len > 0 && bsearch(&key, area, n, sizeof(FlGroupView), compare_view) == NULL)
			list_one(&listed, in, name, fl_kafka_bytes("", 0), fl_group_state_name(FL_GROUP_EMPTY));
	}
	fl_kafka_init_list_groups_response(&out);
	out.error_code = asks->asks[0].error;
	fl_kafka_set_items(&out.groups, listed.groups, listed.n);
	fl_kafka_answer(req, &out);
}

void
fl_kafka_handle_list_groups(FlKafkaRequest *req)
{
	FlKafkaAsks *asks = fl_kafka_asks_create(req, 1, finish_list, NULL);

	ask_about(req, asks, 0, FL_POSITIONS_LIST, fl_kafka_group_prefix(req->conn));
	fl_kafka_asks_wait(asks);
}

/* ---- DeleteGroups ---------------------------------------------------------------------- */

static void
finish_delete(FlKafkaAsks *asks)
{
	Named *named = asks->state;
	FlKafkaDeleteGroupsResponse out;
	FlKafkaDeleteGroupsDeletableGroupResult *results = palloc(sizeof(*results) * (named->n + 1));

	for (int i = 0; i < named->n; i++)
	{
		fl_kafka_init_delete_groups_deletable_group_result(&results[i]);
		results[i].group_id = named->group[i];
		results[i].error_code = named->error[i] != FL_KAFKA_NO_ERROR ? named->error[i] : asks->asks[i].error;
		if (results[i].error_code == FL_KAFKA_NO_ERROR && !named->in_area[i] && !asks->asks[i].found)
			results[i].error_code = FL_KAFKA_GROUP_ID_NOT_FOUND;
	}
	fl_kafka_init_delete_groups_response(&out);
	fl_kafka_set_items(&out.results, results, named->n);
	fl_kafka_answer(asks->req, &out);
}

/* The coordinator's part, and in the queue behind it the rows. */
static void
delete_one(FlKafkaRequest *req, FlKafkaAsks *asks, int i, Named *named)
{
	FlKafkaBytes name = fl_kafka_group_name(req->conn, named->group[i]);
	FlBuf *question = fl_kafka_ask_buffer();
	FlGroupCall *call;
	int16 error;

	if (name.len <= 0)
	{
		named->error[i] = FL_KAFKA_INVALID_GROUP_ID;
		return;
	}
	fl_positions_begin(question, FL_POSITIONS_DELETE_ALL, fl_kafka_group_role(req->conn), name);
	call = fl_kafka_group_begin(req->conn, name);
	error = fl_group_delete(call, name);
	named->in_area[i] = error == FL_KAFKA_NO_ERROR;
	if (error == FL_KAFKA_NO_ERROR || error == FL_KAFKA_GROUP_ID_NOT_FOUND)
		fl_kafka_ask(call, asks, i, question);
	else
		named->error[i] = error;
	fl_groups_unlock(call);
}

void
fl_kafka_handle_delete_groups(FlKafkaRequest *req)
{
	FlKafkaDeleteGroupsRequest *in = req->message;
	int n = fl_kafka_count(&in->groups_names);
	Named *named;
	FlKafkaAsks *asks;

	if (has_too_many(req, n))
		return;
	named = create_named(n);
	asks = fl_kafka_asks_create(req, n, finish_delete, named);
	for (int i = 0; i < n && fl_kafka_next(&in->groups_names, &named->group[i]); i++)
		delete_one(req, asks, i, named);
	fl_kafka_asks_wait(asks);
}
