/*-------------------------------------------------------------------------
 *
 * fuzz_connection.c
 *	  libFuzzer target for the state machine of a connection: bytes of a client
 *	  go into a front door (bgworker/mqtt) that stands on what door/fake.h says.
 *
 * The first three bytes choose what the other bytes find:
 *
 *		0	low two bits: version (3.1, 3.1.1, 5.0, 5.0 again); above them, three
 *			bits: the state that the connection is in (START_* below)
 *		1	dialect (two bits), anonymous log-in, refusals of 3.x, pieces in
 *			which the bytes come (four bits)
 *		2	chance: when answers of the log come, whether it has room, whether
 *			the peer reads, how time goes by; 0: all at once
 *
 * What must hold for every input: no error, no assertion, no memory fault; each
 * packet that the door sends is well-formed for its version, goes from server
 * to client, and is not larger than the client allows; an acknowledgement is of
 * something that was sent; and when all connections have ended and all answers
 * have come, the door has nothing left of them.
 *
 *-------------------------------------------------------------------------
 */
#include "door/fake.h"

#include "../../bgworker/mqtt/door.c"

#include "../unit/mqtt_samples.h"

#define MAX_TURNS 400

enum
{
	START_NEW,            /* nothing was sent yet: the bytes begin with a CONNECT, or not */
	START_OPEN,           /* a clean session */
	START_SESSION,        /* a session with subscriptions and something under way to it */
	START_RESUMED,        /* the same after it has come back without having answered */
	START_AUTHENTICATING, /* the password is being checked */
	START_TAKING_OVER,    /* another connection of its name is there */
	START_OPENING,        /* its session is being written */
	START_SCRAM           /* in the middle of AUTH (5.0) */
};

static FlMqttDoor *door;

/* ---- what the door sends ---- */

void
fake_net_check(FlNetConn *net, const uint8 *data, size_t len)
{
	FlMqttConn *conn = (FlMqttConn *) net;
	FlMqttVersion version = (FlMqttVersion) conn->version;
	FlMqttFrame frame;
	FlMqttPacket packet;
	FlMqttFault fault;

	FL_FUZZ_ASSERT(version != FL_MQTT_UNKNOWN);
	FL_FUZZ_ASSERT(len <= conn->max_packet);
	FL_FUZZ_ASSERT(fl_mqtt_frame_next(data, len, version, FL_MQTT_FROM_SERVER, FL_MQTT_MAX_REMAINING, &frame, &fault) == FL_OK);
	FL_FUZZ_ASSERT(frame.total == len);
	if (fl_mqtt_decode(&frame, version, FL_MQTT_FROM_SERVER, &packet, &fault) != FL_OK)
	{
		fprintf(stderr, "the door has sent type %d: %s\n", frame.type, fault.what);
		abort();
	}
	/* Nothing before CONNACK but a step of AUTH, nor after the end. */
	FL_FUZZ_ASSERT(conn->state == FL_MQTT_STATE_OPEN || packet.type == FL_MQTT_CONNACK || packet.type == FL_MQTT_AUTH);
	FL_FUZZ_ASSERT(conn->state != FL_MQTT_STATE_CLOSED);
}

/* ---- turns ---- */

static void
turn(void)
{
	(void) run_turn(door);
	FL_FUZZ_ASSERT(door->current == NULL && door->current_lag == NULL);
	fake_now_us += 1000;
}

static void
turns(int n)
{
	for (int i = 0; i < n; i++)
		turn();
}

/* What happens besides, by chance. */
static void
turn_by_chance(bool any)
{
	static const int ms[] = {0, 0, 0, 0, 20, 100, 2000, 16000};

	if (any)
	{
		fake_ingest_answers = fake_random(4) == 0 ? 0 : (int) fake_random(4);
		fake_ingest_full = fake_random(8) == 0;
		fake_net_stuck = fake_random(6) == 0;
		fake_logins_wait = fake_random(3) == 0;
		fake_ingest_faults = fake_random(4) == 0 ? 8 : 0;
		if (fake_random(8) == 0)
			fake_log_append("acme/d1/a", "from elsewhere", (int) fake_random(3), fake_random(4) == 0);
		fake_now_us += ms[fake_random(lengthof(ms))] * INT64CONST(1000);
	}
	turn();
}

static void
no_more_chance(void)
{
	fake_ingest_answers = -1;
	fake_ingest_full = false;
	fake_ingest_faults = 0;
	fake_net_stuck = false;
	fake_logins_wait = false;
}

/* ---- how it begins ---- */

static void
send_packet(FlNetConn *conn, FlMqttVersion version, const FlMqttPacket *packet)
{
	uint8 room[1024];
	FlBuf out;

	fl_buf_init_fixed(&out, room, sizeof(room));
	fl_mqtt_encode(&out, version, packet);
	FL_FUZZ_ASSERT(!out.failed);
	fake_net_send(conn, room, out.len);
}

static void
send_connect(FlNetConn *conn, FlMqttVersion version, bool clean, const char *user, bool scram)
{
	FlMqttPacket packet = {.type = FL_MQTT_CONNECT};
	FlMqttConnect *c = &packet.u.connect;

	fl_mqtt_props_init(&c->props);
	fl_mqtt_props_init(&c->will.props);
	c->version = version;
	c->clean_start = clean;
	c->keep_alive = 60;
	c->client_id = bytes_of("x");
	if (user != NULL)
	{
		c->has_username = c->has_password = true;
		c->username = bytes_of(user);
		c->password = bytes_of("pw");
	}
	if (version == FL_MQTT_5_0 && !scram)
	{
		fl_mqtt_props_set_int(&c->props, FL_MQTT_P_SESSION_EXPIRY, clean ? 0 : 100);
		fl_mqtt_props_set_int(&c->props, FL_MQTT_P_RECEIVE_MAXIMUM, 3);
		fl_mqtt_props_set_int(&c->props, FL_MQTT_P_TOPIC_ALIAS_MAXIMUM, 2);
	}
	if (scram)
	{
		static const char first[] = "n,,n=acme/d1,r=abc";

		fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_AUTH_METHOD, "SCRAM-SHA-256", 13);
		fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_AUTH_DATA, first, sizeof(first) - 1);
	}
	send_packet(conn, version, &packet);
}

/* SUBSCRIBE to everything of two mounts, at QoS 2 and 1. */
static void
send_subscribe(FlNetConn *conn, FlMqttVersion version)
{
	static const uint8 three[] = {0x82, 0x10, 0, 9, 0, 6, 'a', 'c', 'm', 'e', '/', '#', 2, 0, 3, 'p', '/', '+'};
	static const uint8 five[] = {0x82, 0x13, 0, 9, 2, 11, 5, 0, 6, 'a', 'c', 'm', 'e', '/', '#', 2, 0, 3, 'p', '/', '+', 1};
	uint8 four[sizeof(three) + 1];

	if (version == FL_MQTT_5_0)
	{
		uint8 copy[sizeof(five)];

		memcpy(copy, five, sizeof(five));
		copy[1] = sizeof(five) - 2;
		fake_net_send(conn, copy, sizeof(copy));
		return;
	}
	memcpy(four, three, sizeof(three));
	four[sizeof(three)] = 1;
	four[1] = sizeof(four) - 2;
	fake_net_send(conn, four, sizeof(four));
}

static FlNetConn *
begin(int start, FlMqttVersion version)
{
	FlNetConn *conn = fake_net_connect(&fl_mqtt_protocol);
	FlNetConn *other;

	switch (start)
	{
		case START_NEW:
			break;
		case START_OPEN:
			send_connect(conn, version, true, "acme/d1", false);
			turns(2);
			break;
		case START_SESSION:
		case START_RESUMED:
			send_connect(conn, version, false, "acme/d1", false);
			turns(3);
			send_subscribe(conn, version);
			turns(3);
			for (int i = 0; i < 6; i++)
				fake_log_append(i % 2 ? "acme/d1/a" : "acme/d1/b", "under way", i % 3, i == 4);
			turns(3);
			if (start == START_SESSION)
				break;
			fake_net_hang_up(conn);
			turns(4);
			FL_FUZZ_ASSERT(!fake_net_is_there(conn));
			fake_log_append("acme/d1/c", "meanwhile", 2, false);
			conn = fake_net_connect(&fl_mqtt_protocol);
			send_connect(conn, version, false, "acme/d1", false);
			turns(4);
			break;
		case START_AUTHENTICATING:
			fake_logins_wait = true;
			send_connect(conn, version, false, "acme/d1", false);
			turn();
			break;
		case START_TAKING_OVER:
			send_connect(conn, version, false, "acme/d1", false);
			turns(3);
			other = conn;
			fake_ingest_answers = 0;
			conn = fake_net_connect(&fl_mqtt_protocol);
			send_connect(conn, version, false, "acme/d1", false);
			fake_net_send(other, (const uint8 *) "\xc0\0", 2);
			turn();
			break;
		case START_OPENING:
			fake_ingest_answers = 0;
			send_connect(conn, version, false, "acme/d1", false);
			turn();
			break;
		case START_SCRAM:
			send_connect(conn, FL_MQTT_5_0, false, NULL, true);
			turn();
			break;
	}
	return conn;
}

/* ---- how it ends ---- */

static void
hang_up(FlNetConn *net, void *arg)
{
	fake_net_hang_up(net);
}

static void
finish(void)
{
	no_more_chance();
	turns(4);
	fl_net_each(door->net, hang_up, NULL);
	for (int i = 0; i < 20 && (fl_net_connections(door->net) > 0 || fake_ingest_waiting() > 0 || fl_mqtt_wills_wait()); i++)
	{
		turn();
		/* One that could not be let in yet is in time now. */
		fake_now_us += INT64CONST(1000000);
	}
	FL_FUZZ_ASSERT(fl_net_connections(door->net) == 0);
	FL_FUZZ_ASSERT(fake_ingest_waiting() == 0);
	FL_FUZZ_ASSERT(!fl_mqtt_wills_wait());
	FL_FUZZ_ASSERT(hash_get_num_entries(door->leaving) == 0);
	FL_FUZZ_ASSERT(fake_registered() == 0);
	FL_FUZZ_ASSERT(door->message_bytes == 0);
	FL_FUZZ_ASSERT(fl_trie_items(door->trie) == 0);
	FL_FUZZ_ASSERT(dlist_is_empty(&door->full) && dlist_is_empty(&door->taking_over) && dlist_is_empty(&door->logins));
	FL_FUZZ_ASSERT(dlist_is_empty(&door->lagging) && dlist_is_empty(&door->draining) && dlist_is_empty(&door->shares));
	FL_FUZZ_ASSERT(dlist_is_empty(&door->retained) && door->login_count == 0);
}

/* ---- an input ---- */

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const FlMqttVersion versions[] = {FL_MQTT_3_1, FL_MQTT_3_1_1, FL_MQTT_5_0, FL_MQTT_5_0};
	FlNetConn *conn;
	size_t piece;
	size_t at = 3;
	int n = 0;

	if (size < 3)
		return 0;
	fake_server_begin();
	fake_log_begin();
	fake_seed(data[2]);
	fl_mqtt_dialect = data[1] & 3;
	fl_mqtt_allow_anonymous = (data[1] & 4) != 0;
	fl_mqtt3_refusal = (data[1] & 8) ? FL_MQTT3_ACKNOWLEDGE : FL_MQTT3_CLOSE;
	/* Small, so that limits are met. */
	fl_mqtt_max_queued_messages = 5;
	fl_mqtt_max_queued_kb = 2;
	fl_mqtt_max_unreleased = 8;
	door = fl_mqtt_door = create_door(0);
	turn();
	conn = begin((data[0] >> 2) & 7, versions[data[0] & 3]);
	piece = (data[1] >> 4) == 0 ? size : (size_t) 1 << (data[1] >> 4);
	while (n++ < MAX_TURNS && fake_net_is_there(conn) && (at < size || n < 4))
	{
		size_t len = Min(piece, size - at);

		fake_net_send(conn, data + at, len);
		at += len;
		turn_by_chance(data[2] != 0);
	}
	finish();
	MemoryContextDelete(door->context);
	fake_server_end();
	return 0;
}

/* Each packet of the codec's tests in each state, alone and behind what makes it mean something. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	uint8 room[4096];
	char name[64];

	(void) argc;
	(void) argv;
	make_samples();
	for (int i = 0; i < sample_count; i++)
		for (int start = START_NEW; start <= START_SCRAM; start++)
		{
			FlBuf out;
			const MqttSample *s = &samples[i];
			int version = s->version == FL_MQTT_3_1 ? 0 : s->version == FL_MQTT_3_1_1 ? 1 : 2;

			if (s->sender == FL_MQTT_FROM_SERVER || (start == START_SCRAM && s->packet.type != FL_MQTT_AUTH) ||
				(start == START_NEW) != (s->packet.type == FL_MQTT_CONNECT))
				continue;
			fl_buf_init_fixed(&out, room, sizeof(room));
			fl_write_u8(&out, (uint8) (version | start << 2));
			fl_write_u8(&out, (uint8) (0x04 | (start & 3)));
			fl_write_u8(&out, (uint8) (i % 3));
			fl_mqtt_encode(&out, s->version, &s->packet);
			if (out.failed)
				continue;
			snprintf(name, sizeof(name), "sample%03d-%d", i, start);
			fl_fuzz_seed(name, room, out.len);
		}
	return 0;
}
