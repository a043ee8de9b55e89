/*-------------------------------------------------------------------------
 *
 * mq.h
 *		As much MQTT 3.1.1 and 5 as a load tool needs, written apart from the
 *		extension's codec so that the two can contradict each other.
 *
 * The encoders write into a buffer of which the caller knows that it is large
 * enough (FL_MQ_OVERHEAD plus the lengths of the strings it passes) and return
 * the number of bytes.  The parser looks at bytes and allocates nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_BENCH_MQ_H
#define FL_BENCH_MQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Packet types, the upper half of a packet's first byte (MQTT-2.1.2). */
typedef enum FlMqType
{
	FL_MQ_CONNECT = 1,
	FL_MQ_CONNACK = 2,
	FL_MQ_PUBLISH = 3,
	FL_MQ_PUBACK = 4,
	FL_MQ_PUBREC = 5,
	FL_MQ_PUBREL = 6,
	FL_MQ_PUBCOMP = 7,
	FL_MQ_SUBSCRIBE = 8,
	FL_MQ_SUBACK = 9,
	FL_MQ_PINGREQ = 12,
	FL_MQ_PINGRESP = 13,
	FL_MQ_DISCONNECT = 14
} FlMqType;

/* More than all the fixed parts of any packet that we write. */
#define FL_MQ_OVERHEAD 64

/* Versions as the CONNECT packet names them. */
#define FL_MQ_311 4
#define FL_MQ_5   5

typedef struct FlMqConnect
{
	int version;             /* FL_MQ_311 or FL_MQ_5 */
	bool clean;              /* clean session, clean start */
	uint16_t keep_alive;     /* seconds */
	uint32_t session_expiry; /* seconds, MQTT 5 only; 0: not sent */
	const char *client_id;
	const char *user;     /* NULL: none */
	const char *password; /* NULL: none */
} FlMqConnect;

/* One packet as it lies in a buffer. */
typedef struct FlMqPacket
{
	FlMqType type;
	uint8_t flags; /* lower half of the first byte */
	const uint8_t *body;
	size_t body_len;
	size_t total_len; /* header included */
} FlMqPacket;

/* What a server says in CONNACK that concerns a load tool. */
typedef struct FlMqConnack
{
	bool session_present;
	uint8_t code;             /* 0: accepted */
	uint16_t receive_maximum; /* 65535 where it is not said */
	uint16_t alias_maximum;   /* 0 where it is not said */
	uint16_t keep_alive;      /* 0 where it is not said */
} FlMqConnack;

typedef struct FlMqPublish
{
	const uint8_t *topic;
	size_t topic_len;
	uint16_t id; /* 0 at QoS 0 */
	uint8_t qos;
	bool dup;
	bool retain;
	const uint8_t *payload;
	size_t payload_len;
} FlMqPublish;

extern size_t fl_mq_connect(uint8_t *out, const FlMqConnect *c);

/*
 * SUBSCRIBE in parts: its head, for filters whose encoded lengths (FL_MQ_FILTER_SIZE of each) sum up to filters_len, and
 * then each filter.
 */
#define FL_MQ_FILTER_SIZE(filter) (2 + strlen(filter) + 1)
extern size_t fl_mq_subscribe_head(uint8_t *out, int version, uint16_t id, size_t filters_len);
extern size_t fl_mq_subscribe_filter(uint8_t *out, const char *filter, int qos);

/*
 * Writes all of a PUBLISH but its payload, which the caller appends.  flags: the lower half of the first byte
 * (FL_MQ_PUBLISH_FLAGS); alias 0: none; topic_len 0 goes with an alias.
 */
#define FL_MQ_PUBLISH_FLAGS(qos, dup, retain) (((dup) ? 0x08 : 0) | (qos) << 1 | ((retain) ? 0x01 : 0))
extern size_t fl_mq_publish_head(uint8_t *out, int version, const char *topic, size_t topic_len, uint16_t alias,
								 int flags, uint16_t id, size_t payload_len);

/* PUBACK, PUBREC, PUBREL and PUBCOMP in the short form that both versions know. */
extern size_t fl_mq_ack(uint8_t *out, FlMqType type, uint16_t id);

/* PINGREQ, PINGRESP and DISCONNECT: two bytes. */
extern size_t fl_mq_bare(uint8_t *out, FlMqType type);

/* 1: *p is a packet; 0: more bytes are needed; -1: this is no MQTT. */
extern int fl_mq_parse(const uint8_t *in, size_t len, FlMqPacket *p);

/* Each returns false when the packet is not well formed. */
extern bool fl_mq_read_connack(const FlMqPacket *p, int version, FlMqConnack *out);
extern bool fl_mq_read_publish(const FlMqPacket *p, int version, FlMqPublish *out);

/* Of the four acknowledgements. */
extern bool fl_mq_read_ack(const FlMqPacket *p, int version, uint16_t *id, uint8_t *code);

/* Of SUBACK: how many filters were granted and how many refused. */
extern bool fl_mq_read_suback(const FlMqPacket *p, int version, uint16_t *id, int *granted, int *refused);

#endif /* FL_BENCH_MQ_H */
