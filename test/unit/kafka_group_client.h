/*-------------------------------------------------------------------------
 *
 * kafka_group_client.h
 *	  Members of consumer groups for tests: an area, a clock, and what a client asks
 *	  of the coordinator, one line each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KAFKA_GROUP_CLIENT_H
#define KAFKA_GROUP_CLIENT_H

#include "fl_unit.h"

#include "../../src/group/group_internal.h"

#define AREA_BYTES (1 << 20)
#define SESSION    10000
#define REBALANCE  20000

static uint64_t area_memory[AREA_BYTES / 8];
static FlGroupArea *area = (FlGroupArea *) area_memory;
static FlGroupLimits limits;
static FlGroupCall call;
static uint64_t out_memory[1 << 16];
static FlGroupOut out;
static uint32_t all_free;

static inline void
setup(void)
{
	/* Static here; the tests that fill the area choose a smaller one. */
	fl_group_area_init(area, AREA_BYTES);
	all_free = area->nfree;
	limits = (FlGroupLimits){6000, 1800000, 0, 100, 1 << 20};
	call = (FlGroupCall){area, &limits, 1000000, 3, 10, 10, 0};
	out = (FlGroupOut){(uint8_t *) out_memory, sizeof(out_memory), 0};
}

static inline FlKafkaBytes
str(const char *s)
{
	return fl_kafka_string(s);
}

/* ---------- a member's requests ---------- */

typedef struct Client
{
	char id[FL_GROUP_MEMBER_ID + 1];
	const char *instance;
	int16_t version;
	const char *metadata;
	const char *protocols[3];
	FlGroupTicket ticket;
	int32_t generation;
	bool leads;
	char assignment[64];
} Client;

static inline Client
client(int16_t version)
{
	Client c = {0};

	c.version = version;
	c.metadata = "topics";
	c.protocols[0] = "range";
	return c;
}

static inline int16_t
join_with(Client *c, const char *group, int32_t session_ms, int32_t rebalance_ms)
{
	FlKafkaJoinGroupRequest r;
	FlKafkaJoinGroupRequestProtocol p[3];
	FlGroupJoin j = {0};
	FlGroupMemberId id;
	int16_t error;
	int n = 0;

	fl_kafka_init_join_group_request(&r);
	r.group_id = str(group);
	r.session_timeout_ms = session_ms;
	r.rebalance_timeout_ms = rebalance_ms;
	r.member_id = str(c->id);
	r.group_instance_id = str(c->instance);
	r.protocol_type = str("consumer");
	for (; n < 3 && c->protocols[n] != NULL; n++)
	{
		p[n].name = str(c->protocols[n]);
		p[n].metadata = str(c->metadata);
	}
	fl_kafka_set_items(&r.protocols, p, n);
	j.group = str(group);
	j.request = &r;
	j.version = c->version;
	j.client_id = str("unit");
	j.client_host = str("127.0.0.1");
	for (int i = 0; i < 16; i++)
		j.random[i] = (uint8_t) fl_unit_random();
	error = fl_group_join(&call, &j, &c->ticket, &id);
	if (id.len > 0)
	{
		memcpy(c->id, id.text, (size_t) id.len);
		c->id[id.len] = '\0';
	}
	return error;
}

static inline int16_t
join(Client *c)
{
	return join_with(c, "g", SESSION, REBALANCE);
}

/* Both steps of a newcomer of version 4 and up. */
static inline int16_t
join_new(Client *c)
{
	int16_t error = join(c);

	return error == FL_KAFKA_MEMBER_ID_REQUIRED ? join(c) : error;
}

static FlGroupAnswer answer;

/* -2: not there yet. */
static inline int16_t
take(Client *c)
{
	if (!fl_group_take(&call, &c->ticket, c->version, &out, &answer))
		return -2;
	return answer.error;
}

static inline int16_t
take_join(Client *c)
{
	int16_t error = take(c);

	if (error != 0)
		return error;
	memcpy(c->id, answer.member_id.data, (size_t) answer.member_id.len);
	c->id[answer.member_id.len] = '\0';
	c->generation = answer.generation;
	c->leads = fl_kafka_string_is(answer.leader, c->id);
	return 0;
}

static inline int16_t
sync_as(Client *c, Client **others, int nothers)
{
	FlKafkaSyncGroupRequest r;
	FlKafkaSyncGroupRequestAssignment a[8];

	fl_kafka_init_sync_group_request(&r);
	r.generation_id = c->generation;
	r.member_id = str(c->id);
	r.group_instance_id = str(c->instance);
	for (int i = 0; i < nothers; i++)
	{
		a[i].member_id = str(others[i]->id);
		a[i].assignment = str(others[i]->assignment);
	}
	fl_kafka_set_items(&r.assignments, a, nothers);
	return fl_group_sync(&call, str("g"), &r, &c->ticket);
}

static inline int16_t
sync_follower(Client *c)
{
	return sync_as(c, NULL, 0);
}

static inline int16_t
beat(Client *c)
{
	return fl_group_heartbeat(&call, str("g"), c->generation, str(c->id), str(c->instance));
}

static inline int16_t
leave(Client *c)
{
	return fl_group_leave(&call, str("g"), str(c->id), str(c->instance));
}

static inline int16_t
commit(Client *c)
{
	return fl_group_check_commit(&call, str("g"), c->generation, str(c->id), str(c->instance));
}

static inline FlGroupState
state_of(const char *group)
{
	FlGroupView view;

	return fl_group_describe(&call, str(group), &out, &view) ? view.state : FL_GROUP_DEAD;
}

static inline FlGroupState
state(void)
{
	return state_of("g");
}

static inline void
pass(int64_t ms)
{
	call.now += ms;
	fl_group_tick(&call);
}

#endif /* KAFKA_GROUP_CLIENT_H */
