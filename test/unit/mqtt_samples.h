/*
 * mqtt_samples.h
 *		One packet of every kind and shape, for the tests of the MQTT codec.
 *
 * The fuzz target writes its seeds from the same list, so that both grow
 * together.
 */
#ifndef MQTT_SAMPLES_H
#define MQTT_SAMPLES_H

#include "fleetlog/mqtt_packet.h"

typedef struct MqttSample
{
	const char *name;
	FlMqttVersion version;
	FlMqttSender sender;
	FlMqttPacket packet;
} MqttSample;

#define SAMPLE_MAX 96

static MqttSample samples[SAMPLE_MAX];
static int sample_count;

static FlMqttBytes
bytes_of(const char *text)
{
	FlMqttBytes b = {(const uint8_t *) text, (uint32_t) strlen(text)};

	return b;
}

static const FlMqttVersion all_versions[] = {FL_MQTT_3_1, FL_MQTT_3_1_1, FL_MQTT_5_0};

static FlMqttPacket *
add_sample(const char *name, FlMqttVersion version, FlMqttSender sender, FlMqttType type)
{
	MqttSample *s = &samples[sample_count++];

	if (sample_count > SAMPLE_MAX)
		abort();
	memset(s, 0, sizeof(*s));
	s->name = name;
	s->version = version;
	s->sender = sender;
	s->packet.type = type;
	return &s->packet;
}

static const FlMqttUserProperty sample_users[] = {
	{{(const uint8_t *) "unit", 4}, {(const uint8_t *) "bar", 3}},
	{{(const uint8_t *) "unit", 4}, {(const uint8_t *) "", 0}},
	{{(const uint8_t *) "", 0}, {(const uint8_t *) "gr\xc3\xbc\xc3\x9f", 6}},
};

static void
set_users(FlMqttProps *props)
{
	props->users = sample_users;
	props->user_count = 3;
}

static void
add_connects(FlMqttVersion v)
{
	FlMqttConnect *c = &add_sample("CONNECT short", v, FL_MQTT_FROM_CLIENT, FL_MQTT_CONNECT)->u.connect;

	c->version = v;
	c->clean_start = true;
	c->keep_alive = 60;
	c->client_id = bytes_of("d-1");

	c = &add_sample("CONNECT full", v, FL_MQTT_FROM_CLIENT, FL_MQTT_CONNECT)->u.connect;
	c->version = v;
	c->keep_alive = 65535;
	c->client_id = bytes_of("d-42");
	c->has_username = c->has_password = true;
	c->username = bytes_of("acme/d-42");
	c->password = bytes_of("secret");
	c->will.present = true;
	c->will.qos = 1;
	c->will.retain = true;
	c->will.topic = bytes_of("acme/d-42/will");
	c->will.payload = bytes_of("gone");
	if (v != FL_MQTT_5_0)
		return;
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_SESSION_EXPIRY, 3600);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_RECEIVE_MAXIMUM, 20);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_MAXIMUM_PACKET_SIZE, 65536);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_TOPIC_ALIAS_MAXIMUM, 10);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_REQUEST_RESPONSE_INFO, 1);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_REQUEST_PROBLEM_INFO, 0);
	fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_AUTH_METHOD, "SCRAM-SHA-256", 13);
	fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_AUTH_DATA, "n,,", 3);
	set_users(&c->props);
	fl_mqtt_props_set_int(&c->will.props, FL_MQTT_P_WILL_DELAY, 5);
	fl_mqtt_props_set_int(&c->will.props, FL_MQTT_P_PAYLOAD_FORMAT, 1);
	fl_mqtt_props_set_int(&c->will.props, FL_MQTT_P_MESSAGE_EXPIRY, 120);
	fl_mqtt_props_set_bytes(&c->will.props, FL_MQTT_P_CONTENT_TYPE, "text/plain", 10);
	fl_mqtt_props_set_bytes(&c->will.props, FL_MQTT_P_RESPONSE_TOPIC, "a/b", 3);
	fl_mqtt_props_set_bytes(&c->will.props, FL_MQTT_P_CORRELATION_DATA, "\0\1", 2);
	set_users(&c->will.props);
}

static void
add_connacks(FlMqttVersion v)
{
	FlMqttConnack *c = &add_sample("CONNACK ok", v, FL_MQTT_FROM_SERVER, FL_MQTT_CONNACK)->u.connack;

	c->session_present = v != FL_MQTT_3_1;
	c = &add_sample("CONNACK refused", v, FL_MQTT_FROM_SERVER, FL_MQTT_CONNACK)->u.connack;
	c->code = v == FL_MQTT_5_0 ? FL_MQTT_RC_NOT_AUTHORIZED : FL_MQTT_RETURN_NOT_AUTHORIZED;
	if (v != FL_MQTT_5_0)
		return;
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_SESSION_EXPIRY, 0);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_RECEIVE_MAXIMUM, 65535);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_MAXIMUM_QOS, 1);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_RETAIN_AVAILABLE, 0);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_MAXIMUM_PACKET_SIZE, 1);
	fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_ASSIGNED_CLIENT_ID, "auto-1", 6);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_TOPIC_ALIAS_MAXIMUM, 0);
	fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_REASON_STRING, "no", 2);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_WILDCARD_AVAILABLE, 1);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_SUBSCRIPTION_ID_AVAILABLE, 1);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_SHARED_AVAILABLE, 0);
	fl_mqtt_props_set_int(&c->props, FL_MQTT_P_SERVER_KEEP_ALIVE, 30);
	fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_RESPONSE_INFO, "r/", 2);
	fl_mqtt_props_set_bytes(&c->props, FL_MQTT_P_SERVER_REFERENCE, "other:1883", 10);
	set_users(&c->props);
}

static void
add_publishes(FlMqttVersion v)
{
	static const uint32_t ids[] = {1, 128, 268435455};

	for (int qos = 0; qos <= 2; qos++)
	{
		FlMqttPublish *p = &add_sample("PUBLISH", v, FL_MQTT_FROM_EITHER, FL_MQTT_PUBLISH)->u.publish;

		p->qos = (uint8_t) qos;
		p->dup = qos > 0;
		p->retain = qos == 1;
		p->packet_id = qos > 0 ? 0x1234 : 0;
		p->topic = bytes_of("plant/acme/d-42/temp");
		p->payload = qos == 2 ? bytes_of("") : bytes_of("{\"c\": 21.5}");
	}
	if (v != FL_MQTT_5_0)
		return;
	for (int full = 0; full <= 1; full++)
	{
		FlMqttPublish *p =
			&add_sample("PUBLISH alias", v, full ? FL_MQTT_FROM_SERVER : FL_MQTT_FROM_CLIENT, FL_MQTT_PUBLISH)
				 ->u.publish;

		fl_mqtt_props_set_int(&p->props, FL_MQTT_P_TOPIC_ALIAS, 7);
		p->topic = bytes_of("");
		p->payload = bytes_of("x");
		if (!full)
			continue;
		p->topic = bytes_of("a/\xe2\x82\xac");
		fl_mqtt_props_set_int(&p->props, FL_MQTT_P_PAYLOAD_FORMAT, 1);
		fl_mqtt_props_set_int(&p->props, FL_MQTT_P_MESSAGE_EXPIRY, 4294967295u);
		fl_mqtt_props_set_bytes(&p->props, FL_MQTT_P_CONTENT_TYPE, "application/json", 16);
		fl_mqtt_props_set_bytes(&p->props, FL_MQTT_P_RESPONSE_TOPIC, "a/r", 3);
		fl_mqtt_props_set_bytes(&p->props, FL_MQTT_P_CORRELATION_DATA, "\xff\0", 2);
		p->props.subscription_ids = ids;
		p->props.subscription_id_count = 3;
		set_users(&p->props);
	}
}

static void
add_acks(FlMqttVersion v)
{
	static const FlMqttType types[] = {FL_MQTT_PUBACK, FL_MQTT_PUBREC, FL_MQTT_PUBREL, FL_MQTT_PUBCOMP};

	for (int i = 0; i < 4; i++)
	{
		FlMqttAck *a = &add_sample("ack", v, FL_MQTT_FROM_EITHER, types[i])->u.ack;

		a->packet_id = 1;
		if (v != FL_MQTT_5_0)
			continue;
		a = &add_sample("ack with reason", v, FL_MQTT_FROM_EITHER, types[i])->u.ack;
		a->packet_id = 65535;
		a->reason = i < 2 ? FL_MQTT_RC_NOT_AUTHORIZED : FL_MQTT_RC_PACKET_IDENTIFIER_NOT_FOUND;
		a = &add_sample("ack with properties", v, FL_MQTT_FROM_EITHER, types[i])->u.ack;
		a->packet_id = 2;
		fl_mqtt_props_set_bytes(&a->props, FL_MQTT_P_REASON_STRING, "why", 3);
		set_users(&a->props);
	}
}

static void
add_subscriptions(FlMqttVersion v)
{
	static const FlMqttSubscription items[] = {
		{{(const uint8_t *) "plant/+/d-42/#", 14}, 1, true, true, 2},
		{{(const uint8_t *) "#", 1}, 0, false, false, 0},
	};
	static const FlMqttSubscription items3[] = {
		{{(const uint8_t *) "plant/+/d-42/#", 14}, 2, false, false, 0},
	};
	static const FlMqttBytes filters[] = {{(const uint8_t *) "a/b", 3}, {(const uint8_t *) "+", 1}};
	FlMqttSubscribe *s = &add_sample("SUBSCRIBE", v, FL_MQTT_FROM_CLIENT, FL_MQTT_SUBSCRIBE)->u.subscribe;
	FlMqttUnsubscribe *u = &add_sample("UNSUBSCRIBE", v, FL_MQTT_FROM_CLIENT, FL_MQTT_UNSUBSCRIBE)->u.unsubscribe;
	FlMqttSuback *a = &add_sample("SUBACK", v, FL_MQTT_FROM_SERVER, FL_MQTT_SUBACK)->u.suback;
	FlMqttSuback *b = &add_sample("UNSUBACK", v, FL_MQTT_FROM_SERVER, FL_MQTT_UNSUBACK)->u.suback;

	s->packet_id = u->packet_id = a->packet_id = b->packet_id = 0x4321;
	s->items = v == FL_MQTT_5_0 ? items : items3;
	s->count = v == FL_MQTT_5_0 ? 2 : 1;
	u->items = filters;
	u->count = 2;
	a->codes.data = (const uint8_t *) "\x00\x01\x02\x80";
	a->codes.len = 4;
	if (v != FL_MQTT_5_0)
		return;
	fl_mqtt_props_set_int(&s->props, FL_MQTT_P_SUBSCRIPTION_ID, 268435455);
	s->props.subscription_id_count = 1;
	s->props.subscription_ids = &s->props.value[FL_MQTT_P_SUBSCRIPTION_ID].num;
	set_users(&s->props);
	set_users(&u->props);
	fl_mqtt_props_set_bytes(&a->props, FL_MQTT_P_REASON_STRING, "", 0);
	b->codes.data = (const uint8_t *) "\x00\x11";
	b->codes.len = 2;
}

static void
add_rest(FlMqttVersion v)
{
	FlMqttReasonPacket *r;

	add_sample("PINGREQ", v, FL_MQTT_FROM_CLIENT, FL_MQTT_PINGREQ);
	add_sample("PINGRESP", v, FL_MQTT_FROM_SERVER, FL_MQTT_PINGRESP);
	add_sample("DISCONNECT", v, FL_MQTT_FROM_CLIENT, FL_MQTT_DISCONNECT);
	if (v != FL_MQTT_5_0)
		return;
	r = &add_sample("DISCONNECT reason", v, FL_MQTT_FROM_SERVER, FL_MQTT_DISCONNECT)->u.disconnect;
	r->reason = FL_MQTT_RC_SESSION_TAKEN_OVER;
	r = &add_sample("DISCONNECT full", v, FL_MQTT_FROM_CLIENT, FL_MQTT_DISCONNECT)->u.disconnect;
	r->reason = FL_MQTT_RC_DISCONNECT_WITH_WILL;
	fl_mqtt_props_set_int(&r->props, FL_MQTT_P_SESSION_EXPIRY, 1);
	set_users(&r->props);
	add_sample("AUTH success", v, FL_MQTT_FROM_SERVER, FL_MQTT_AUTH);
	r = &add_sample("AUTH continue", v, FL_MQTT_FROM_CLIENT, FL_MQTT_AUTH)->u.auth;
	r->reason = FL_MQTT_RC_CONTINUE_AUTHENTICATION;
	fl_mqtt_props_set_bytes(&r->props, FL_MQTT_P_AUTH_METHOD, "M", 1);
	fl_mqtt_props_set_bytes(&r->props, FL_MQTT_P_AUTH_DATA, "\0", 1);
}

static void
make_samples(void)
{
	if (sample_count > 0)
		return;
	for (int i = 0; i < 3; i++)
	{
		add_connects(all_versions[i]);
		add_connacks(all_versions[i]);
		add_publishes(all_versions[i]);
		add_acks(all_versions[i]);
		add_subscriptions(all_versions[i]);
		add_rest(all_versions[i]);
	}
}

#endif /* MQTT_SAMPLES_H */
