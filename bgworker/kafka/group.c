/*
 * group.c
 *		Members of consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup; and
 *		where the coordinator is.
 *
 * What a request leads to is decided in src/group; here it is called with who
 * asks, and who has to wait for others is parked with a ticket.  Whenever the
 * area says that something is ready for this door, those who wait are gone
 * through.
 *
 * Who acts: a role for itself and for the roles that it may act for; a device and
 * an anonymous client as the workers' role, a device in its tenant's names.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"

#include "group.h"

#define MAX_NAMES 10000 /* that one request may have; clients send one, tools some */

typedef struct Waiter
{
	dlist_node node;
	bool listed;
	FlKafkaRequest *req;
	FlGroupTicket ticket;
} Waiter;

static dlist_head waiters = DLIST_STATIC_INIT(waiters);

/* ---- who acts for whom ---------------------------------------------------- */

Oid
fl_kafka_group_role(FlKafkaConn *conn)
{
	if (conn->identity != NULL && conn->identity->kind == FL_IDENTITY_ROLE)
		return conn->identity->role;
	return GetUserId();
}

FlKafkaBytes
fl_kafka_group_prefix(FlKafkaConn *conn)
{
	char *prefix;

	if (conn->identity == NULL || conn->identity->kind != FL_IDENTITY_DEVICE)
		return fl_kafka_bytes("", 0);
	prefix = psprintf("%s/", conn->identity->tenant);
	return fl_kafka_bytes(prefix, (int32) strlen(prefix));
}

bool
fl_kafka_is_text(FlKafkaBytes bytes)
{
	return bytes.len <= 0 ||
		   (memchr(bytes.data, '\0', bytes.len) == NULL &&
			pg_encoding_verifymbstr(PG_UTF8, (const char *) bytes.data, bytes.len) == bytes.len);
}

FlKafkaBytes
fl_kafka_group_name(FlKafkaConn *conn, FlKafkaBytes group)
{
	FlKafkaBytes prefix = fl_kafka_group_prefix(conn);
	char *name;

	if (group.len <= 0 || prefix.len + group.len > FL_GROUP_NAME_MAX || !fl_kafka_is_text(group))
		return fl_kafka_bytes(NULL, 0);
	name = palloc(prefix.len + group.len);
	memcpy(name, prefix.data, prefix.len);
	memcpy(name + prefix.len, group.data, group.len);
	return fl_kafka_bytes(name, prefix.len + group.len);
}

FlGroupCall *
fl_kafka_group_begin(FlKafkaConn *conn, FlKafkaBytes name)
{
	Oid role = fl_kafka_group_role(conn);
	FlGroupCall *call = fl_groups_lock(conn->door->index, role, role);
	uint32 owner;
	bool may;

	if (!fl_group_owner(call, name, &owner) || owner == role)
		return call;
	/* Rights are asked of the catalog, for which the lock is not to be held. */
	fl_groups_unlock(call);
	fl_kafka_begin_transaction(conn->door);
	may = fl_positions_may_act(role, owner);
	return fl_groups_lock(conn->door->index, role, may ? owner : role);
}

/* ---- waiting ---------------------------------------------------------------- */

static void
answer_join(FlKafkaRequest *req, const FlGroupAnswer *answer)
{
	FlKafkaJoinGroupResponse out;

	fl_kafka_init_join_group_response(&out);
	out.error_code = answer->error;
	out.generation_id = answer->generation;
	out.protocol_type = answer->protocol_type;
	out.protocol_name = answer->protocol;
	/* Null is for version 7 and up. */
	if (out.protocol_name.len < 0 && req->version < 7)
		out.protocol_name = fl_kafka_bytes("", 0);
	out.leader = answer->leader;
	out.skip_assignment = answer->skip_assignment;
	out.member_id = answer->member_id;
	fl_kafka_set_items(&out.members, answer->members, answer->nmembers);
	fl_kafka_answer(req, &out);
}

static void
answer_sync(FlKafkaRequest *req, const FlGroupAnswer *answer)
{
	FlKafkaSyncGroupResponse out;

	fl_kafka_init_sync_group_response(&out);
	out.error_code = answer->error;
	out.protocol_type = answer->protocol_type;
	out.protocol_name = answer->protocol;
	out.assignment = answer->assignment;
	fl_kafka_answer(req, &out);
}

static void
answer_error(FlKafkaRequest *req, int16 error, FlKafkaBytes member_id)
{
	FlGroupAnswer answer = {0};

	answer.error = error;
	answer.generation = -1;
	answer.protocol_type = answer.protocol = fl_kafka_bytes(NULL, -1);
	answer.leader = answer.assignment = fl_kafka_bytes("", 0);
	answer.member_id = member_id;
	if (req->api->key == FL_KAFKA_JOIN_GROUP)
		answer_join(req, &answer);
	else
		answer_sync(req, &answer);
}

/* True: it was answered. */
static bool
take_answer(FlKafkaRequest *req, const FlGroupTicket *ticket)
{
	FlGroupOut *out = fl_groups_out();
	FlGroupAnswer answer;

	for (;;)
	{
		FlGroupCall *call = fl_groups_lock(req->door->index, InvalidOid, InvalidOid);
		bool there = fl_group_take(call, ticket, req->version, out, &answer);

		fl_groups_unlock(call);
		if (!there)
			return false;
		if (fl_group_out_fits(out))
			break;
		fl_groups_grow();
	}
	if (req->api->key == FL_KAFKA_JOIN_GROUP)
		answer_join(req, &answer);
	else
		answer_sync(req, &answer);
	return true;
}

/* The connection has gone. */
static void
stop_waiting(FlKafkaRequest *req)
{
	Waiter *w = req->state;
	FlGroupCall *call = fl_groups_lock(req->door->index, InvalidOid, InvalidOid);

	fl_group_abandon(call, &w->ticket);
	fl_groups_unlock(call);
	if (w->listed)
		dlist_delete(&w->node);
	w->listed = false;
}

static void
wait_for(FlKafkaRequest *req, const FlGroupTicket *ticket)
{
	Waiter *w;

	if (take_answer(req, ticket))
		return;
	w = palloc0(sizeof(Waiter));
	w->req = req;
	w->ticket = *ticket;
	w->listed = true;
	dlist_push_tail(&waiters, &w->node);
	fl_kafka_park(req, w, stop_waiting);
}

/* ---- requests ------------------------------------------------------------------ */

/* The address alone: a member's port says nothing to anybody. */
static FlKafkaBytes
peer_host(FlKafkaConn *conn)
{
	char buf[128];
	char *host = pstrdup(fl_net_peer(&conn->net, buf, sizeof(buf)));
	char *port = strrchr(host, ':');

	if (port != NULL)
		*port = '\0';
	return fl_kafka_string(host);
}

void
fl_kafka_handle_join_group(FlKafkaRequest *req)
{
	FlKafkaJoinGroupRequest *in = req->message;
	FlGroupJoin join = {0};
	FlGroupTicket ticket;
	FlGroupMemberId id;
	FlGroupCall *call;
	int16 error;

	/* It may read no stream, so it has no use for a group, whose memory is for those who have. */
	if (req->conn->identity != NULL && req->conn->identity->kind == FL_IDENTITY_DEVICE)
	{
		answer_error(req, FL_KAFKA_GROUP_AUTHORIZATION_FAILED, in->member_id);
		return;
	}
	join.group = fl_kafka_group_name(req->conn, in->group_id);
	join.request = in;
	join.version = req->version;
	join.client_id = req->client_id;
	join.client_host = peer_host(req->conn);
	if (!pg_strong_random(join.random, sizeof(join.random)))
	{
		answer_error(req, FL_KAFKA_UNKNOWN_SERVER_ERROR, in->member_id);
		return;
	}
	/* They are shown in views. */
	if (!fl_kafka_is_text(join.client_id))
		join.client_id = fl_kafka_bytes("", 0);
	if (!fl_kafka_is_text(in->group_instance_id) || !fl_kafka_is_text(in->protocol_type))
	{
		answer_error(req, FL_KAFKA_INVALID_REQUEST, in->member_id);
		return;
	}
	call = fl_kafka_group_begin(req->conn, join.group);
	error = fl_group_join(call, &join, &ticket, &id);
	fl_groups_unlock(call);
	if (error == FL_KAFKA_NO_ERROR)
		wait_for(req, &ticket);
	else
		answer_error(req, error, id.len > 0 ? fl_kafka_bytes(id.text, id.len) : in->member_id);
}

void
fl_kafka_handle_sync_group(FlKafkaRequest *req)
{
	FlKafkaSyncGroupRequest *in = req->message;
	FlKafkaBytes name = fl_kafka_group_name(req->conn, in->group_id);
	FlGroupTicket ticket;
	FlGroupCall *call;
	int16 error = FL_KAFKA_INVALID_GROUP_ID;

	if (name.len > 0)
	{
		call = fl_kafka_group_begin(req->conn, name);
		error = fl_group_sync(call, name, in, &ticket);
		fl_groups_unlock(call);
	}
	if (error == FL_KAFKA_NO_ERROR)
		wait_for(req, &ticket);
	else
		answer_error(req, error, in->member_id);
}

void
fl_kafka_handle_heartbeat(FlKafkaRequest *req)
{
	FlKafkaHeartbeatRequest *in = req->message;
	FlKafkaHeartbeatResponse out;
	FlKafkaBytes name = fl_kafka_group_name(req->conn, in->group_id);

	fl_kafka_init_heartbeat_response(&out);
	out.error_code = FL_KAFKA_INVALID_GROUP_ID;
	if (name.len > 0)
	{
		FlGroupCall *call = fl_kafka_group_begin(req->conn, name);

		out.error_code = fl_group_heartbeat(call, name, in->generation_id, in->member_id, in->group_instance_id);
		fl_groups_unlock(call);
	}
	fl_kafka_answer(req, &out);
}

static int16
leave(FlKafkaConn *conn, FlKafkaBytes name, FlKafkaBytes member_id, FlKafkaBytes instance)
{
	FlGroupCall *call;
	int16 error;

	if (name.len <= 0)
		return FL_KAFKA_INVALID_GROUP_ID;
	call = fl_kafka_group_begin(conn, name);
	error = fl_group_leave(call, name, member_id, instance);
	fl_groups_unlock(call);
	return error;
}

void
fl_kafka_handle_leave_group(FlKafkaRequest *req)
{
	FlKafkaLeaveGroupRequest *in = req->message;
	FlKafkaLeaveGroupResponse out;
	FlKafkaLeaveGroupMemberIdentity who;
	FlKafkaLeaveGroupMemberResponse *list;
	FlKafkaBytes name = fl_kafka_group_name(req->conn, in->group_id);
	int n = 0;

	if (fl_kafka_count(&in->members) > MAX_NAMES)
	{
		fl_kafka_refuse(req->conn, "too many members leave in one request");
		return;
	}
	fl_kafka_init_leave_group_response(&out);
	if (req->version < 3)
		out.error_code = leave(req->conn, name, in->member_id, fl_kafka_bytes(NULL, -1));
	else if (name.len <= 0)
		out.error_code = FL_KAFKA_INVALID_GROUP_ID;
	list = palloc(sizeof(*list) * (fl_kafka_count(&in->members) + 1));
	while (req->version >= 3 && fl_kafka_next(&in->members, &who))
	{
		fl_kafka_init_leave_group_member_response(&list[n]);
		list[n].member_id = who.member_id;
		list[n].group_instance_id = who.group_instance_id;
		list[n].error_code = leave(req->conn, name, who.member_id, who.group_instance_id);
		n++;
	}
	fl_kafka_set_items(&out.members, list, n);
	fl_kafka_answer(req, &out);
}

/* ---- FindCoordinator -------------------------------------------------------------- */

/* We are, for every group.  Transactions are not spoken, and who is told to come again would do so for ever. */
static int16
check_key(int8 type, const char **message)
{
	if (type == 0)
		return FL_KAFKA_NO_ERROR;
	*message = type == 1 ? "This server does not speak transactions." : "Unknown kind of coordinator.";
	return type == 1 ? FL_KAFKA_TRANSACTIONAL_ID_AUTHORIZATION_FAILED : FL_KAFKA_INVALID_REQUEST;
}

void
fl_kafka_handle_find_coordinator(FlKafkaRequest *req)
{
	FlKafkaFindCoordinatorRequest *in = req->message;
	FlKafkaFindCoordinatorResponse out;
	FlKafkaFindCoordinatorCoordinator *list;
	FlKafkaAddress address;
	const char *message = NULL;
	int16 error = check_key(in->key_type, &message);
	FlKafkaBytes key;
	int n = 0;

	if (fl_kafka_count(&in->coordinator_keys) > MAX_NAMES)
	{
		fl_kafka_refuse(req->conn, "too many coordinators asked for in one request");
		return;
	}
	fl_kafka_advertised_address(req->conn, &address);
	fl_kafka_init_find_coordinator_response(&out);
	out.error_code = error;
	out.error_message = fl_kafka_string(message);
	out.node_id = error == FL_KAFKA_NO_ERROR ? FL_KAFKA_NODE_ID : -1;
	out.host = fl_kafka_string(error == FL_KAFKA_NO_ERROR ? address.host : "");
	out.port = error == FL_KAFKA_NO_ERROR ? address.port : -1;
	list = palloc(sizeof(*list) * (fl_kafka_count(&in->coordinator_keys) + 1));
	while (fl_kafka_next(&in->coordinator_keys, &key))
	{
		fl_kafka_init_find_coordinator_coordinator(&list[n]);
		list[n].key = key;
		list[n].node_id = out.node_id;
		list[n].host = out.host;
		list[n].port = out.port;
		list[n].error_code = error;
		list[n].error_message = out.error_message;
		n++;
	}
	fl_kafka_set_items(&out.coordinators, list, n);
	fl_kafka_answer(req, &out);
}

/* ---- the door's turn ----------------------------------------------------------------- */

/*
 * A member is released by whatever any door does; then all who wait here are
 * looked at.  An answer may end a connection, and others' waiting with it: so each
 * is off the list while it is served, and nobody keeps a place in it.
 */
static void
serve_waiters(FlKafkaDoor *door)
{
	dlist_head old_waiters = DLIST_STATIC_INIT(old_waiters);

	while (!dlist_is_empty(&waiters))
		dlist_push_tail(&old_waiters, dlist_pop_head_node(&waiters));
	while (!dlist_is_empty(&old_waiters))
	{
		Waiter *w = dlist_container(Waiter, node, dlist_pop_head_node(&old_waiters));
		MemoryContext old = MemoryContextSwitchTo(w->req->memory);

		/* Whose connection is closed if this goes wrong. */
		door->current = w->req->conn;
		w->listed = false;
		if (!take_answer(w->req, &w->ticket))
		{
			w->listed = true;
			dlist_push_tail(&waiters, &w->node);
		}
		MemoryContextSwitchTo(old);
		door->current = NULL;
	}
}

void
fl_kafka_groups_begin(FlKafkaDoor *door)
{
	fl_groups_begin_door(door->index);
}

void
fl_kafka_groups_turn(FlKafkaDoor *door)
{
	fl_groups_tick(door->index);
	if (!fl_groups_news(door->index))
		return;
	serve_waiters(door);
	fl_kafka_asks_serve(door);
}

long
fl_kafka_groups_timeout(FlKafkaDoor *door)
{
	return fl_groups_timeout();
}
