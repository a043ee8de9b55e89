/*-------------------------------------------------------------------------
 *
 * test_kafka_group_crowd.c
 *	  A random crowd of group members that join, work, leave, are killed and come
 *	  back: no partition ever has two owners in one generation, generations only
 *	  rise, sums are right, and no chunk is left behind.
 *
 *-------------------------------------------------------------------------
 */
#include "kafka_group_client.h"

#define CROWD      12
#define PARTITIONS 7
#define MEMBERS    100 /* with those that were killed and are still counted */

typedef enum Stage
{
	AWAY,
	JOINING,
	JOINED,
	SYNCING,
	WORKING
} Stage;

typedef struct Actor
{
	Client c;
	Stage stage;
	char instance[16];
	int16_t error; /* of the last answer */
} Actor;

static Actor crowd[CROWD];
static int32_t owner_generation[PARTITIONS]; /* last generation in which the partition was given out */
static char owner_id[PARTITIONS][FL_GROUP_MEMBER_ID + 1];
static uint64_t crowd_rebalances;

static void
actor_go(Actor *a)
{
	a->stage = AWAY;
	a->c.id[0] = '\0';
	a->c.generation = -1;
}

/* The leader gives partition p to the member p modulo the number of members. */
static int16_t
actor_lead(Actor *a, FlKafkaJoinGroupResponseMember *members, int n)
{
	FlKafkaSyncGroupRequest r;
	FlKafkaSyncGroupRequestAssignment as[MEMBERS];
	uint8_t given[MEMBERS][PARTITIONS];
	int count[MEMBERS] = {0};

	for (int p = 0; p < PARTITIONS; p++)
		given[p % n][count[p % n]++] = (uint8_t) p;
	for (int i = 0; i < n; i++)
	{
		as[i].member_id = members[i].member_id;
		as[i].assignment = fl_kafka_bytes(given[i], count[i]);
	}
	fl_kafka_init_sync_group_request(&r);
	r.generation_id = a->c.generation;
	r.member_id = str(a->c.id);
	r.group_instance_id = str(a->c.instance);
	fl_kafka_set_items(&r.assignments, as, n);
	return fl_group_sync(&call, str("g"), &r, &a->c.ticket);
}

static void
actor_owns(Actor *a)
{
	crowd_rebalances++;
	for (int i = 0; i < answer.assignment.len; i++)
	{
		int p = answer.assignment.data[i];

		FL_CHECK(p < PARTITIONS);
		FL_CHECK(a->c.generation >= owner_generation[p]);
		/* A static member that is back has the same instance, and another id. */
		if (a->c.generation == owner_generation[p] && a->c.instance == NULL)
			FL_CHECK(strcmp(owner_id[p], a->c.id) == 0);
		owner_generation[p] = a->c.generation;
		strcpy(owner_id[p], a->c.id);
	}
}

static void
actor_failed(Actor *a, int16_t error)
{
	FL_CHECK(error == FL_KAFKA_REBALANCE_IN_PROGRESS || error == FL_KAFKA_UNKNOWN_MEMBER_ID ||
			 error == FL_KAFKA_ILLEGAL_GENERATION || error == FL_KAFKA_FENCED_INSTANCE_ID);
	if (error == FL_KAFKA_REBALANCE_IN_PROGRESS)
		a->stage = AWAY;
	else
		actor_go(a);
}

static void
actor_takes(Actor *a)
{
	int16_t error = a->stage == JOINING ? take_join(&a->c) : take(&a->c);

	if (error == -2)
		return;
	if (error != 0)
		actor_failed(a, error);
	else if (a->stage == SYNCING)
	{
		actor_owns(a);
		a->stage = WORKING;
	}
	else
	{
		int n = answer.nmembers;
		bool lead = a->c.leads && !answer.skip_assignment;

		if (lead)
		{
			/* Its list lies in out, which the sync does not use. */
			if (!FL_CHECK(n > 0 && n <= MEMBERS))
				return;
			error = actor_lead(a, answer.members, n);
		}
		else if (fl_unit_random_below(4) == 0)
		{
			a->stage = JOINED;
			return;
		}
		else
			error = sync_follower(&a->c);
		if (error != 0)
			actor_failed(a, error);
		else
			a->stage = SYNCING;
	}
}

static void
actor_acts(Actor *a)
{
	int16_t error;

	/* Killed: with its connection noticed, or not. */
	if (fl_unit_random_below(40) == 0)
	{
		if ((a->stage == JOINING || a->stage == SYNCING) && fl_unit_random_below(2) == 0)
			fl_group_abandon(&call, &a->c.ticket);
		actor_go(a);
		return;
	}
	switch (a->stage)
	{
		case AWAY:
			error = join_new(&a->c);
			if (error == 0)
				a->stage = JOINING;
			else
				actor_failed(a, error);
			break;
		case JOINING:
		case SYNCING:
			actor_takes(a);
			break;
		case JOINED:
			error = sync_follower(&a->c);
			if (error == 0)
				a->stage = SYNCING;
			else
				actor_failed(a, error);
			break;
		case WORKING:
			if (fl_unit_random_below(30) == 0)
			{
				error = leave(&a->c);
				FL_CHECK(error == 0 || error == FL_KAFKA_UNKNOWN_MEMBER_ID ||
						 error == FL_KAFKA_FENCED_INSTANCE_ID);
				actor_go(a);
			}
			else if ((error = fl_unit_random_below(2) == 0 ? commit(&a->c) : beat(&a->c)) != 0)
				actor_failed(a, error);
			break;
	}
}

/* Counts what is kept in the group against what is there. */
static void
check_sums(void)
{
	int16_t error;
	FlGroupRef ref = fl_group_find(&call, str("g"), &error);
	FlGroup *g;
	FlGroupRef at;
	FlGroupMember *m;
	int members = 0;
	int pending = 0;
	int bytes = 0;

	if (ref == 0)
		return;
	g = fl_group_at(area, ref);
	fl_group_each_member(area, g, at, m)
	{
		if (m->pending)
			pending++;
		else
		{
			members++;
			bytes += m->protocols.len + (m->assignment.len > 0 ? m->assignment.len : 0);
		}
		FL_CHECK(m->next_assignment.first == 0);
	}
	FL_CHECK_INT(g->nmembers, members);
	FL_CHECK_INT(g->npending, pending);
	FL_CHECK_INT(g->bytes, bytes);
	FL_CHECK((g->state == FL_GROUP_EMPTY) == (members == 0));
	FL_CHECK(g->state != FL_GROUP_STABLE || g->protocol.len > 0);
}

static void
test_crowd(void)
{
	setup();
	limits.initial_delay_ms = 500;
	memset(owner_generation, 0, sizeof(owner_generation));
	memset(crowd, 0, sizeof(crowd));
	for (int i = 0; i < CROWD; i++)
	{
		crowd[i].c = client((int16_t) (i % 10));
		crowd[i].c.protocols[0] = i % 2 == 0 ? "range" : "sticky";
		crowd[i].c.protocols[1] = i % 2 == 0 ? "sticky" : "range";
		snprintf(crowd[i].instance, sizeof(crowd[i].instance), "i%d", i);
		if (i % 3 == 0 && i % 10 >= 5)
			crowd[i].c.instance = crowd[i].instance;
	}
	for (int step = 0; step < 200000; step++)
	{
		call.door = (int) fl_unit_random_below(4);
		actor_acts(&crowd[fl_unit_random_below(CROWD)]);
		pass((int64_t) fl_unit_random_below(200));
		if (step % 64 == 0)
			check_sums();
	}
	FL_CHECK(crowd_rebalances > 1000);
	/* All go; nothing is left of them. */
	pass(10 * (SESSION + REBALANCE));
	pass(10 * (SESSION + REBALANCE));
	for (int i = 0; i < CROWD; i++)
		if (crowd[i].stage == JOINING || crowd[i].stage == SYNCING)
			fl_group_abandon(&call, &crowd[i].c.ticket);
	for (int i = 0; i < 10; i++)
		pass(SESSION + REBALANCE);
	for (int door = 0; door < 4; door++)
	{
		call.door = door;
		fl_group_forget_door(&call);
	}
	for (int i = 0; i < 10; i++)
		pass(SESSION + REBALANCE);
	FL_CHECK_INT(state(), FL_GROUP_EMPTY);
	FL_CHECK_INT(fl_group_delete(&call, str("g")), 0);
	FL_CHECK_INT(area->nfree, all_free);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_crowd);
	return fl_unit_end();
}
