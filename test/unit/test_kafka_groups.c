/*-------------------------------------------------------------------------
 *
 * test_kafka_groups.c
 *	  The coordinator of classic consumer groups: what each request leads to in each
 *	  state, what time does, static members, limits, the queue, views.
 *
 *-------------------------------------------------------------------------
 */
#include "kafka_group_client.h"

/* The group of a and b, stable; a leads. */
static void
stable_pair(Client *a, Client *b)
{
	Client *both[2] = {a, b};

	FL_CHECK_INT(join_new(a), 0);
	FL_CHECK_INT(take_join(a), 0);
	FL_CHECK_INT(sync_as(a, both, 1), 0);
	FL_CHECK_INT(take(a), 0);
	FL_CHECK_INT(join_new(b), 0);
	FL_CHECK_INT(take(b), -2);
	FL_CHECK_INT(beat(a), FL_KAFKA_REBALANCE_IN_PROGRESS);
	FL_CHECK_INT(join(a), 0);
	FL_CHECK_INT(take_join(a), 0);
	FL_CHECK(a->leads);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK_INT(take_join(b), 0);
	FL_CHECK(!b->leads);
	FL_CHECK_INT(answer.nmembers, 0);
	FL_CHECK_INT(b->generation, a->generation);
	strcpy(a->assignment, "part 0");
	strcpy(b->assignment, "part 1");
	FL_CHECK_INT(sync_follower(b), 0);
	FL_CHECK_INT(take(b), -2);
	FL_CHECK_INT(state(), FL_GROUP_COMPLETING);
	FL_CHECK_INT(sync_as(a, both, 2), 0);
	FL_CHECK_INT(take(a), 0);
	FL_CHECK(fl_kafka_string_is(answer.assignment, "part 0"));
	FL_CHECK_INT(take(b), 0);
	FL_CHECK(fl_kafka_string_is(answer.assignment, "part 1"));
	FL_CHECK_INT(state(), FL_GROUP_STABLE);
}

/* ---------- joining ---------- */

static void
test_newcomer_needs_an_id(void)
{
	Client a = client(5);
	Client old = client(3);

	setup();
	FL_CHECK_INT(join(&a), FL_KAFKA_MEMBER_ID_REQUIRED);
	FL_CHECK(strncmp(a.id, "unit-", 5) == 0);
	FL_CHECK_INT(strlen(a.id), 5 + 32);
	FL_CHECK_INT(state(), FL_GROUP_EMPTY);
	FL_CHECK_INT(beat(&a), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(a.generation, 1);
	FL_CHECK(fl_kafka_string_is(answer.protocol, "range"));
	FL_CHECK(fl_kafka_string_is(answer.protocol_type, "consumer"));
	/* Version 3 is let in at once. */
	FL_CHECK_INT(join_with(&old, "other", SESSION, -1), 0);
	FL_CHECK_INT(take_join(&old), 0);
	FL_CHECK(old.leads);
}

static void
test_refused(void)
{
	Client a = client(5);
	Client b = client(5);

	setup();
	FL_CHECK_INT(join_with(&a, "", SESSION, REBALANCE), FL_KAFKA_INVALID_GROUP_ID);
	FL_CHECK_INT(join_with(&a, "g", -1, REBALANCE), FL_KAFKA_INVALID_SESSION_TIMEOUT);
	FL_CHECK_INT(join_with(&a, "g", 0, REBALANCE), FL_KAFKA_INVALID_SESSION_TIMEOUT);
	FL_CHECK_INT(join_with(&a, "g", INT32_MAX, REBALANCE), FL_KAFKA_INVALID_SESSION_TIMEOUT);
	a.protocols[0] = NULL;
	FL_CHECK_INT(join(&a), FL_KAFKA_INCONSISTENT_GROUP_PROTOCOL);
	a.protocols[0] = "range";
	strcpy(a.id, "nobody");
	FL_CHECK_INT(join(&a), FL_KAFKA_UNKNOWN_MEMBER_ID);
	a.id[0] = '\0';
	FL_CHECK_INT(area->nfree, all_free);
	FL_CHECK_INT(join_new(&a), 0);
	FL_CHECK_INT(join(&b), FL_KAFKA_MEMBER_ID_REQUIRED);
	b.protocols[0] = "roundrobin";
	FL_CHECK_INT(join(&b), FL_KAFKA_INCONSISTENT_GROUP_PROTOCOL);
	strcpy(b.id, "nobody");
	FL_CHECK_INT(join(&b), FL_KAFKA_UNKNOWN_MEMBER_ID);
	/* Somebody else's group. */
	call.owner = call.owner2 = 11;
	FL_CHECK_INT(beat(&a), FL_KAFKA_GROUP_AUTHORIZATION_FAILED);
	b = client(5);
	FL_CHECK_INT(join(&b), FL_KAFKA_GROUP_AUTHORIZATION_FAILED);
	FL_CHECK_INT(fl_group_delete(&call, str("g")), FL_KAFKA_GROUP_AUTHORIZATION_FAILED);
	call.owner2 = 10;
	FL_CHECK_INT(join(&b), FL_KAFKA_MEMBER_ID_REQUIRED);
}

static void
test_pair(void)
{
	Client a = client(5);
	Client b = client(9);

	setup();
	stable_pair(&a, &b);
	FL_CHECK_INT(beat(&a), 0);
	FL_CHECK_INT(beat(&b), 0);
	b.generation--;
	FL_CHECK_INT(beat(&b), FL_KAFKA_ILLEGAL_GENERATION);
	FL_CHECK_INT(commit(&b), FL_KAFKA_ILLEGAL_GENERATION);
	b.generation++;
	/* A follower that has lost the answer gets it again; a leader that joins again assigns anew. */
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK_INT(state(), FL_GROUP_STABLE);
	FL_CHECK_INT(sync_follower(&b), 0);
	FL_CHECK_INT(take(&b), 0);
	FL_CHECK(fl_kafka_string_is(answer.assignment, "part 1"));
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(state(), FL_GROUP_PREPARING);
	FL_CHECK_INT(beat(&b), FL_KAFKA_REBALANCE_IN_PROGRESS);
	FL_CHECK_INT(commit(&b), 0);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK(a.leads);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK_INT(commit(&a), FL_KAFKA_REBALANCE_IN_PROGRESS);
	FL_CHECK_INT(take_join(&b), 0);
}

static void
test_news_of_a_follower(void)
{
	Client a = client(5);
	Client b = client(5);

	setup();
	stable_pair(&a, &b);
	b.metadata = "other topics";
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(state(), FL_GROUP_PREPARING);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK(fl_kafka_string_is(answer.members[1].metadata, "other topics"));
}

static void
test_protocol_by_votes(void)
{
	Client c[3];

	setup();
	limits.initial_delay_ms = 3000;
	for (int i = 0; i < 3; i++)
	{
		c[i] = client(3);
		c[i].protocols[0] = i == 0 ? "range" : "sticky";
		c[i].protocols[1] = i == 0 ? "sticky" : "range";
		FL_CHECK_INT(join(&c[i]), 0);
	}
	pass(3000);
	FL_CHECK_INT(take_join(&c[0]), 0);
	FL_CHECK(fl_kafka_string_is(answer.protocol, "sticky"));
	FL_CHECK_INT(answer.nmembers, 3);
}

static void
test_initial_delay(void)
{
	Client a = client(3);
	Client b = client(3);

	setup();
	limits.initial_delay_ms = 3000;
	FL_CHECK_INT(join(&a), 0);
	pass(2000);
	FL_CHECK_INT(take(&a), -2);
	FL_CHECK_INT(join(&b), 0);
	/* Each newcomer is followed by the whole delay, but not beyond the rebalance timeout. */
	pass(2999);
	FL_CHECK_INT(take(&a), -2);
	FL_CHECK_INT(fl_group_deadline(area), call.now + 1);
	pass(1);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK_INT(b.generation, 1);
}

/* ---------- members that go ---------- */

static void
test_leave(void)
{
	Client a = client(5);
	Client b = client(5);
	int32_t before;

	setup();
	stable_pair(&a, &b);
	before = a.generation;
	FL_CHECK_INT(leave(&a), 0);
	FL_CHECK_INT(leave(&a), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(beat(&b), FL_KAFKA_REBALANCE_IN_PROGRESS);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK(b.leads);
	FL_CHECK_INT(b.generation, before + 1);
	FL_CHECK_INT(answer.nmembers, 1);
	FL_CHECK_INT(leave(&b), 0);
	FL_CHECK_INT(state(), FL_GROUP_EMPTY);
	/* What comes next has another generation. */
	a = client(5);
	FL_CHECK_INT(join_new(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK(a.generation > b.generation);
}

static void
test_session_ends(void)
{
	Client a = client(5);
	Client b = client(5);

	setup();
	stable_pair(&a, &b);
	pass(SESSION / 2);
	FL_CHECK_INT(beat(&a), 0);
	pass(SESSION / 2);
	FL_CHECK_INT(state(), FL_GROUP_PREPARING);
	FL_CHECK_INT(beat(&b), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(commit(&b), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(beat(&a), FL_KAFKA_REBALANCE_IN_PROGRESS);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(answer.nmembers, 1);
	/* Nobody comes any more. */
	pass(SESSION);
	FL_CHECK_INT(state(), FL_GROUP_EMPTY);
	FL_CHECK_INT(fl_group_deadline(area), FL_GROUP_NEVER);
}

static void
test_rebalance_timeout(void)
{
	Client a = client(5);
	Client b = client(5);
	Client c = client(5);

	setup();
	stable_pair(&a, &b);
	FL_CHECK_INT(join_new(&c), 0);
	FL_CHECK_INT(join(&b), 0);
	for (int i = 0; i < 4; i++)
	{
		/* a lives, but does not join. */
		FL_CHECK_INT(take(&c), -2);
		pass(REBALANCE / 4 - 1);
		FL_CHECK_INT(beat(&a), FL_KAFKA_REBALANCE_IN_PROGRESS);
	}
	pass(4);
	FL_CHECK_INT(take_join(&c), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK(b.leads);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK_INT(beat(&a), FL_KAFKA_UNKNOWN_MEMBER_ID);
}

static void
test_leader_never_syncs(void)
{
	Client a = client(5);
	Client b = client(5);

	setup();
	stable_pair(&a, &b);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK_INT(sync_follower(&b), 0);
	for (int i = 0; i < 4; i++)
	{
		FL_CHECK_INT(beat(&a), 0);
		FL_CHECK_INT(take(&b), -2);
		pass(REBALANCE / 4);
	}
	FL_CHECK_INT(take(&b), FL_KAFKA_REBALANCE_IN_PROGRESS);
	FL_CHECK_INT(beat(&a), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK(b.leads);
}

static void
test_follower_never_syncs(void)
{
	Client a = client(5);
	Client b = client(5);
	Client *both[2] = {&a, &b};

	setup();
	stable_pair(&a, &b);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK_INT(sync_as(&a, both, 2), 0);
	FL_CHECK_INT(take(&a), 0);
	for (int i = 0; i < 4; i++)
	{
		FL_CHECK_INT(state(), FL_GROUP_STABLE);
		pass(REBALANCE / 4);
		FL_CHECK(beat(&a) == 0 || i == 3);
		FL_CHECK(beat(&b) == 0 || i == 3);
	}
	FL_CHECK_INT(beat(&b), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(beat(&a), FL_KAFKA_REBALANCE_IN_PROGRESS);
}

static void
test_connections_vanish_while_joining(void)
{
	Client a = client(5);
	Client b = client(5);
	Client c = client(5);

	setup();
	stable_pair(&a, &b);
	FL_CHECK_INT(join_new(&c), 0);
	FL_CHECK_INT(join(&b), 0);
	fl_group_abandon(&call, &b.ticket);
	fl_group_abandon(&call, &c.ticket);
	pass(SESSION);
	FL_CHECK_INT(state(), FL_GROUP_EMPTY);
	a = client(5);
	FL_CHECK_INT(join_new(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(answer.nmembers, 1);
	/* The same for all of a door that begins anew. */
	FL_CHECK_INT(join(&a), 0);
	fl_group_forget_door(&call);
	FL_CHECK_INT(take(&a), FL_KAFKA_REBALANCE_IN_PROGRESS);
	pass(SESSION);
	FL_CHECK_INT(state(), FL_GROUP_EMPTY);
	FL_CHECK_INT(area->nfree, all_free - 3);
}

static void
test_given_id_is_not_used(void)
{
	Client a = client(5);
	Client b = client(5);

	setup();
	FL_CHECK_INT(join(&a), FL_KAFKA_MEMBER_ID_REQUIRED);
	pass(SESSION);
	FL_CHECK_INT(state(), FL_GROUP_DEAD);
	FL_CHECK_INT(area->nfree, all_free);
	FL_CHECK_INT(join(&a), FL_KAFKA_UNKNOWN_MEMBER_ID);
	/* It delays a rebalance no longer than its session. */
	a.id[0] = '\0';
	FL_CHECK_INT(join(&b), FL_KAFKA_MEMBER_ID_REQUIRED);
	FL_CHECK_INT(join_new(&a), 0);
	FL_CHECK_INT(take(&a), -2);
	pass(SESSION);
	FL_CHECK_INT(take_join(&a), 0);
	/* Or until it leaves. */
	b.id[0] = '\0';
	FL_CHECK_INT(join(&b), FL_KAFKA_MEMBER_ID_REQUIRED);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(state(), FL_GROUP_COMPLETING);
	FL_CHECK_INT(leave(&b), 0);
	FL_CHECK_INT(state(), FL_GROUP_COMPLETING);
}

static void
test_same_member_asks_twice(void)
{
	Client a = client(5);
	Client b = client(5);
	Client again;

	setup();
	stable_pair(&a, &b);
	FL_CHECK_INT(join(&a), 0);
	again = a;
	FL_CHECK_INT(join(&again), 0);
	FL_CHECK_INT(take(&a), FL_KAFKA_REBALANCE_IN_PROGRESS);
	fl_group_abandon(&call, &a.ticket);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&again), 0);
	FL_CHECK_INT(take_join(&b), 0);
}

/* ---------- static members ---------- */

static void
static_pair(Client *a, Client *b)
{
	*a = client(5);
	*b = client(5);
	a->instance = "one";
	b->instance = "two";
	stable_pair(a, b);
}

static void
test_static_member_is_back(void)
{
	Client a;
	Client b;
	Client again = client(5);

	setup();
	static_pair(&a, &b);
	again.instance = "two";
	FL_CHECK_INT(join(&again), 0);
	FL_CHECK_INT(take_join(&again), 0);
	FL_CHECK_INT(again.generation, b.generation);
	FL_CHECK_INT(state(), FL_GROUP_STABLE);
	FL_CHECK(strcmp(again.id, b.id) != 0);
	FL_CHECK_INT(beat(&b), FL_KAFKA_FENCED_INSTANCE_ID);
	FL_CHECK_INT(commit(&b), FL_KAFKA_FENCED_INSTANCE_ID);
	FL_CHECK_INT(sync_follower(&b), FL_KAFKA_FENCED_INSTANCE_ID);
	FL_CHECK_INT(join(&b), FL_KAFKA_FENCED_INSTANCE_ID);
	FL_CHECK_INT(leave(&b), FL_KAFKA_FENCED_INSTANCE_ID);
	FL_CHECK_INT(sync_follower(&again), 0);
	FL_CHECK_INT(take(&again), 0);
	FL_CHECK(fl_kafka_string_is(answer.assignment, "part 1"));
	FL_CHECK_INT(beat(&again), 0);
	/* An operator removes it by its instance. */
	again.id[0] = '\0';
	FL_CHECK_INT(leave(&again), 0);
	FL_CHECK_INT(state(), FL_GROUP_PREPARING);
}

static void
test_static_leader_is_back(void)
{
	Client a;
	Client b;
	Client again = client(5);
	Client newer = client(9);

	setup();
	static_pair(&a, &b);
	/* Below version 9 it must not think that it leads: it would assign what it does not know. */
	again.instance = "one";
	FL_CHECK_INT(join(&again), 0);
	FL_CHECK_INT(take_join(&again), 0);
	FL_CHECK(!again.leads);
	FL_CHECK(fl_kafka_string_is(answer.leader, a.id));
	FL_CHECK_INT(answer.nmembers, 0);
	newer.instance = "one";
	FL_CHECK_INT(join(&newer), 0);
	FL_CHECK_INT(take_join(&newer), 0);
	FL_CHECK(newer.leads);
	FL_CHECK(answer.skip_assignment);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK_INT(sync_follower(&newer), 0);
	FL_CHECK_INT(take(&newer), 0);
	FL_CHECK(fl_kafka_string_is(answer.assignment, "part 0"));
	FL_CHECK_INT(state(), FL_GROUP_STABLE);
	/* The next rebalance is led by it. */
	FL_CHECK_INT(join(&newer), 0);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&newer), 0);
	FL_CHECK(newer.leads);
	FL_CHECK(!answer.skip_assignment);
}

static void
test_static_member_is_back_with_news(void)
{
	Client a;
	Client b;
	Client again = client(5);

	setup();
	static_pair(&a, &b);
	again.instance = "two";
	again.metadata = "other topics";
	FL_CHECK_INT(join(&again), 0);
	FL_CHECK_INT(take(&again), -2);
	FL_CHECK_INT(state(), FL_GROUP_PREPARING);
}

/* F4: ids change under the leader's assignment. */
static void
test_static_member_is_back_before_the_assignment(void)
{
	Client a;
	Client b;
	Client again = client(5);
	Client *both[2] = {&a, &again};

	setup();
	static_pair(&a, &b);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(join(&b), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(state(), FL_GROUP_COMPLETING);
	again.instance = "two";
	FL_CHECK_INT(join(&again), 0);
	FL_CHECK_INT(take(&b), FL_KAFKA_FENCED_INSTANCE_ID);
	FL_CHECK_INT(state(), FL_GROUP_PREPARING);
	FL_CHECK_INT(sync_as(&a, both, 2), FL_KAFKA_REBALANCE_IN_PROGRESS);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK_INT(take_join(&again), 0);
	strcpy(again.assignment, "part 1");
	FL_CHECK_INT(sync_as(&a, both, 2), 0);
	FL_CHECK_INT(sync_follower(&again), 0);
	FL_CHECK_INT(take(&again), 0);
	FL_CHECK(fl_kafka_string_is(answer.assignment, "part 1"));
}

static void
test_static_member_stays_away(void)
{
	Client a;
	Client b;
	Client *both[2] = {&a, &b};

	setup();
	a = client(5);
	b = client(5);
	a.instance = "one";
	b.instance = "two";
	/* b's session is longer than the join phase. */
	FL_CHECK_INT(join_with(&b, "g", 60000, REBALANCE), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(join_with(&b, "g", 60000, REBALANCE), 0);
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK_INT(take_join(&b), 0);
	FL_CHECK_INT(sync_as(&b, both, 2), 0);
	FL_CHECK_INT(take(&b), 0);
	FL_CHECK_INT(sync_follower(&a), 0);
	FL_CHECK_INT(take(&a), 0);
	a.metadata = "other topics";
	FL_CHECK_INT(join(&a), 0);
	pass(REBALANCE);
	/* What was b's is not given away: the new leader sees it in the list. */
	FL_CHECK_INT(take_join(&a), 0);
	FL_CHECK(a.leads);
	FL_CHECK_INT(answer.nmembers, 2);
	FL_CHECK_INT(sync_as(&a, both, 2), 0);
	FL_CHECK_INT(take(&a), 0);
	FL_CHECK_INT(beat(&b), FL_KAFKA_ILLEGAL_GENERATION);
	FL_CHECK_INT(state(), FL_GROUP_STABLE);
	for (int i = 0; i < 8; i++)
	{
		pass(SESSION - 1);
		(void) beat(&a);
	}
	FL_CHECK_INT(state(), FL_GROUP_PREPARING);
	FL_CHECK_INT(beat(&b), FL_KAFKA_UNKNOWN_MEMBER_ID);
}

/* ---------- commits ---------- */

static void
test_commits_of_strangers(void)
{
	Client a = client(5);
	Client b = client(5);
	FlKafkaBytes none = {NULL, -1};

	setup();
	FL_CHECK_INT(fl_group_check_commit(&call, str("g"), -1, str(""), none), 0);
	FL_CHECK_INT(fl_group_check_commit(&call, str("g"), 3, str("x"), none), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(fl_group_check_commit(&call, str("g"), -1, str("x"), none), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(fl_group_check_commit(&call, str(""), -1, str(""), none), FL_KAFKA_INVALID_GROUP_ID);
	stable_pair(&a, &b);
	FL_CHECK_INT(fl_group_check_commit(&call, str("g"), -1, str(""), none), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(commit(&a), 0);
	FL_CHECK_INT(fl_group_delete(&call, str("g")), FL_KAFKA_NON_EMPTY_GROUP);
	FL_CHECK_INT(leave(&a), 0);
	FL_CHECK_INT(leave(&b), 0);
	FL_CHECK_INT(fl_group_check_commit(&call, str("g"), -1, str(""), none), 0);
	FL_CHECK_INT(commit(&a), FL_KAFKA_UNKNOWN_MEMBER_ID);
	FL_CHECK_INT(fl_group_delete(&call, str("g")), 0);
	FL_CHECK_INT(fl_group_delete(&call, str("g")), FL_KAFKA_GROUP_ID_NOT_FOUND);
	FL_CHECK_INT(area->nfree, all_free);
}

/* ---------- limits ---------- */

static void
test_limits(void)
{
	Client c[5];
	char *large = malloc(50000);

	setup();
	limits.max_members = 3;
	limits.max_bytes = 40000;
	for (int i = 0; i < 5; i++)
	{
		c[i] = client(i % 2 == 0 ? 5 : 3);
		FL_CHECK_INT(join(&c[i]),
					 i >= 3      ? FL_KAFKA_GROUP_MAX_SIZE_REACHED
					 : i % 2 == 0 ? FL_KAFKA_MEMBER_ID_REQUIRED
								 : 0);
	}
	memset(large, 'x', 50000);
	large[30000] = '\0';
	c[0].metadata = large;
	FL_CHECK_INT(join(&c[0]), 0);
	c[2].metadata = large;
	FL_CHECK_INT(join(&c[2]), FL_KAFKA_GROUP_MAX_SIZE_REACHED);
	/* The same one may send as much again. */
	FL_CHECK_INT(join(&c[0]), 0);
	free(large);
}

/* I7: an assignment of many pieces comes out as it went in. */
static void
test_large_assignment(void)
{
	Client a = client(5);
	FlKafkaSyncGroupRequest r;
	FlKafkaSyncGroupRequestAssignment as;
	int32_t len = 200 * 1024 + 7;
	uint8_t *bytes = malloc((size_t) len);
	FlGroupOut small = {(uint8_t *) out_memory, 100, 0};

	setup();
	for (int32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t) fl_unit_random();
	FL_CHECK_INT(join_new(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	fl_kafka_init_sync_group_request(&r);
	r.generation_id = a.generation;
	r.member_id = str(a.id);
	as.member_id = str(a.id);
	as.assignment = fl_kafka_bytes(bytes, len);
	fl_kafka_set_items(&r.assignments, &as, 1);
	FL_CHECK_INT(fl_group_sync(&call, str("g"), &r, &a.ticket), 0);
	/* Too little room: told how much, and asked again. */
	FL_CHECK(fl_group_take(&call, &a.ticket, 5, &small, &answer));
	FL_CHECK(!fl_group_out_fits(&small));
	FL_CHECK(small.need > (size_t) len && small.need < (size_t) len + 200);
	FL_CHECK_INT(take(&a), 0);
	FL_CHECK_BYTES(answer.assignment.data, (size_t) answer.assignment.len, bytes, (size_t) len);
	/* More than the group may have: the leader is told, nothing changes. */
	limits.max_bytes = len + 25;
	FL_CHECK_INT(join(&a), 0);
	FL_CHECK_INT(take_join(&a), 0);
	r.generation_id = a.generation;
	as.assignment.len = len - 1;
	as.assignment.data++;
	limits.max_bytes = len;
	FL_CHECK_INT(fl_group_sync(&call, str("g"), &r, &a.ticket), FL_KAFKA_GROUP_MAX_SIZE_REACHED);
	FL_CHECK_INT(state(), FL_GROUP_COMPLETING);
	FL_CHECK_INT(leave(&a), 0);
	FL_CHECK_INT(fl_group_delete(&call, str("g")), 0);
	FL_CHECK_INT(area->nfree, all_free);
	free(bytes);
}

static void
test_area_is_full(void)
{
	char name[32];
	int made = 0;
	int refused = 0;
	Client first;

	setup();
	fl_group_area_init(area, FL_GROUP_AREA_MIN);
	/* Groups without members make room for those with some. */
	for (int i = 0; i < 5000; i++)
	{
		Client c = client(3);

		snprintf(name, sizeof(name), "empty %d", i);
		FL_CHECK_INT(join_with(&c, name, SESSION, REBALANCE), 0);
		FL_CHECK_INT(take_join(&c), 0);
		FL_CHECK_INT(fl_group_leave(&call, str(name), str(c.id), str(NULL)), 0);
	}
	for (int i = 0; i < 500; i++)
	{
		Client c = client(3);
		int16_t error;

		snprintf(name, sizeof(name), "group %d", i);
		error = join_with(&c, name, SESSION, REBALANCE);
		if (error == 0)
			made++;
		else if (error == FL_KAFKA_COORDINATOR_NOT_AVAILABLE)
			refused++;
		if (i == 0)
			first = c;
	}
	FL_CHECK(made > 10);
	FL_CHECK_INT(made + refused, 500);
	FL_CHECK(refused > 0);
	FL_CHECK_INT(state_of("group 0"), FL_GROUP_COMPLETING);
	FL_CHECK_INT(take_join(&first), 0);
	FL_CHECK_INT(fl_group_heartbeat(&call, str("group 0"), 1, str(first.id), str(NULL)), 0);
	pass(SESSION + REBALANCE);
	FL_CHECK_INT(state_of("group 0"), FL_GROUP_EMPTY);
}

/* ---------- the queue ---------- */

static void
test_queue(void)
{
	uint64_t id[3];
	uint64_t got;
	int32_t len;
	FlGroupRequest r;

	setup();
	for (int i = 0; i < 3; i++)
	{
		uint8_t body[600];

		call.door = i;
		memset(body, 'a' + i, sizeof(body));
		FL_CHECK(fl_group_put_request(&call, body, (int32_t) sizeof(body), &id[i]));
	}
	/* What was taken and not answered is taken again. */
	for (int twice = 0; twice < 2; twice++)
	{
		uint64_t after = 0;

		for (int i = 0; i < 3; i++)
		{
			FL_CHECK(fl_group_next_request(&call, after, &out, &r));
			FL_CHECK_INT(r.id, id[i]);
			FL_CHECK_INT(r.door, i);
			FL_CHECK_INT(r.len, 600);
			FL_CHECK_INT(out.data[599], 'a' + i);
			after = r.id;
		}
		FL_CHECK(!fl_group_next_request(&call, after, &out, &r));
	}
	call.wake = 0;
	fl_group_answer_request(&call, id[1], (const uint8_t *) "done", 4);
	fl_group_answer_request(&call, id[1], (const uint8_t *) "done", 4);
	FL_CHECK_INT(call.wake, 1 << 1);
	FL_CHECK(fl_group_next_request(&call, id[0], &out, &r));
	FL_CHECK_INT(r.id, id[2]);
	call.door = 0;
	FL_CHECK(!fl_group_take_answer(&call, &out, &got, &len));
	call.door = 1;
	FL_CHECK(fl_group_take_answer(&call, &out, &got, &len));
	FL_CHECK_INT(got, id[1]);
	FL_CHECK_BYTES(out.data, (size_t) len, "done", 4);
	FL_CHECK(!fl_group_take_answer(&call, &out, &got, &len));
	fl_group_answer_request(&call, id[2], NULL, 0);
	fl_group_answer_request(&call, id[0], (const uint8_t *) "x", 1);
	call.door = 0;
	fl_group_forget_door(&call);
	FL_CHECK(!fl_group_take_answer(&call, &out, &got, &len));
	call.door = 2;
	FL_CHECK(fl_group_take_answer(&call, &out, &got, &len));
	FL_CHECK_INT(len, 0);
	FL_CHECK_INT(area->nfree, all_free);
	FL_CHECK_INT(area->queue_chunks, 0);
}

static void
test_queue_is_full(void)
{
	uint8_t body[1000] = {0};
	uint64_t id;
	uint64_t n = 0;
	Client a = client(3);

	setup();
	while (fl_group_put_request(&call, body, (int32_t) sizeof(body), &id))
		n++;
	FL_CHECK(n > 100);
	/* Members are let in as before. */
	FL_CHECK_INT(join(&a), 0);
	for (uint64_t i = 1; i <= n; i++)
		fl_group_answer_request(&call, i, body, 100);
	fl_group_forget_door(&call);
	FL_CHECK_INT(area->queue_chunks, 0);
	FL_CHECK(fl_group_put_request(&call, body, (int32_t) sizeof(body), &id));
}

/* ---------- views ---------- */

static void
test_views(void)
{
	Client a = client(5);
	Client b = client(5);
	FlGroupView view;
	FlGroupView *list;
	int32_t n;

	setup();
	stable_pair(&a, &b);
	FL_CHECK(fl_group_describe(&call, str("g"), &out, &view));
	FL_CHECK_INT(view.nmembers, 2);
	FL_CHECK_INT(view.generation, a.generation);
	FL_CHECK(view.members[0].leader && !view.members[1].leader);
	FL_CHECK(fl_kafka_string_is(view.members[1].assignment, "part 1"));
	FL_CHECK(fl_kafka_string_is(view.members[1].metadata, "topics"));
	FL_CHECK(fl_kafka_string_is(view.members[1].client_id, "unit"));
	FL_CHECK_INT(view.members[1].instance.len, -1);
	list = fl_group_list(&call, true, &out, &n);
	FL_CHECK_INT(n, 1);
	FL_CHECK(fl_kafka_string_is(list[0].name, "g"));
	FL_CHECK_INT(list[0].nmembers, 2);
	FL_CHECK(fl_kafka_string_is(list[0].members[0].id, a.id));
	out.room = 64;
	(void) fl_group_list(&call, true, &out, &n);
	FL_CHECK(!fl_group_out_fits(&out));
	FL_CHECK_INT(n, 1);
}

int
main(void)
{
	fl_unit_begin();
	FL_RUN(test_newcomer_needs_an_id);
	FL_RUN(test_refused);
	FL_RUN(test_pair);
	FL_RUN(test_news_of_a_follower);
	FL_RUN(test_protocol_by_votes);
	FL_RUN(test_initial_delay);
	FL_RUN(test_leave);
	FL_RUN(test_session_ends);
	FL_RUN(test_rebalance_timeout);
	FL_RUN(test_leader_never_syncs);
	FL_RUN(test_follower_never_syncs);
	FL_RUN(test_connections_vanish_while_joining);
	FL_RUN(test_given_id_is_not_used);
	FL_RUN(test_same_member_asks_twice);
	FL_RUN(test_static_member_is_back);
	FL_RUN(test_static_leader_is_back);
	FL_RUN(test_static_member_is_back_with_news);
	FL_RUN(test_static_member_is_back_before_the_assignment);
	FL_RUN(test_static_member_stays_away);
	FL_RUN(test_commits_of_strangers);
	FL_RUN(test_limits);
	FL_RUN(test_large_assignment);
	FL_RUN(test_area_is_full);
	FL_RUN(test_queue);
	FL_RUN(test_queue_is_full);
	FL_RUN(test_views);
	return fl_unit_end();
}
