/*
 * mqtt_packet.h
 *		The MQTT 3.1, 3.1.1 and 5.0 packet codec: bytes to structs and back.
 *
 * What: every one of the fifteen control packets and every property, in both
 * directions, so that the server, the unit tests and later client-side tools
 * (bridge, load generator) share one codec.
 *
 * Why so: a crash in a worker restarts the whole database, so this code knows
 * neither the server nor a socket.  It takes bytes and a length, allocates
 * nothing while decoding, and compiles alone for unit tests and fuzzers.
 *
 * Invariants: a decoded packet borrows from the input buffer and is valid only
 * as long as that buffer is; every length in it has been checked against the
 * frame; every UTF-8 string has been checked; lists (user properties,
 * subscription identifiers, filters, reason codes) stay encoded and have been
 * walked once, so that the iterators below cannot fail on a decoded packet.
 *
 * Who calls it: bgworker/mqtt (state machine), test/unit, test/fuzz.
 * It must not do: I/O, logging, policy (rights, quotas, what is offered).
 *
 * Clauses are cited as MQTT-a.b.c-n; they are those of the OASIS standard 5.0
 * unless "3.1.1" is written before them.
 */
#ifndef FLEETLOG_MQTT_PACKET_H
#define FLEETLOG_MQTT_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

/* Largest "remaining length" that four bytes can say (MQTT-2.1.4). */
#define FL_MQTT_MAX_REMAINING 268435455u
/* Fixed header: one byte of type and flags, one to four bytes of length. */
#define FL_MQTT_MAX_HEADER 5

/* Protocol levels as they stand in CONNECT; UNKNOWN before a CONNECT was read. */
typedef enum FlMqttVersion
{
	FL_MQTT_UNKNOWN = 0,
	FL_MQTT_3_1 = 3, /* protocol name "MQIsdp" */
	FL_MQTT_3_1_1 = 4,
	FL_MQTT_5_0 = 5
} FlMqttVersion;

/* Who sent a packet; several packets and properties go one way only. */
typedef enum FlMqttSender
{
	FL_MQTT_FROM_CLIENT = 1,
	FL_MQTT_FROM_SERVER = 2,
	FL_MQTT_FROM_EITHER = 3
} FlMqttSender;

/*
 * The packet table: name, type code, required flag bits, who may send it.
 * PUBLISH uses its flag bits and is checked by its own decoder.
 */
#define FL_MQTT_PACKETS(X)                                                                                             \
	X(CONNECT, 1, 0x00, FL_MQTT_FROM_CLIENT)                                                                           \
	X(CONNACK, 2, 0x00, FL_MQTT_FROM_SERVER)                                                                           \
	X(PUBLISH, 3, 0x00, FL_MQTT_FROM_EITHER)                                                                           \
	X(PUBACK, 4, 0x00, FL_MQTT_FROM_EITHER)                                                                            \
	X(PUBREC, 5, 0x00, FL_MQTT_FROM_EITHER)                                                                            \
	X(PUBREL, 6, 0x02, FL_MQTT_FROM_EITHER)                                                                            \
	X(PUBCOMP, 7, 0x00, FL_MQTT_FROM_EITHER)                                                                           \
	X(SUBSCRIBE, 8, 0x02, FL_MQTT_FROM_CLIENT)                                                                         \
	X(SUBACK, 9, 0x00, FL_MQTT_FROM_SERVER)                                                                            \
	X(UNSUBSCRIBE, 10, 0x02, FL_MQTT_FROM_CLIENT)                                                                      \
	X(UNSUBACK, 11, 0x00, FL_MQTT_FROM_SERVER)                                                                         \
	X(PINGREQ, 12, 0x00, FL_MQTT_FROM_CLIENT)                                                                          \
	X(PINGRESP, 13, 0x00, FL_MQTT_FROM_SERVER)                                                                         \
	X(DISCONNECT, 14, 0x00, FL_MQTT_FROM_EITHER)                                                                       \
	X(AUTH, 15, 0x00, FL_MQTT_FROM_EITHER)

typedef enum FlMqttType
{
#define X(name, code, flags, sender) FL_MQTT_##name = code,
	FL_MQTT_PACKETS(X)
#undef X
} FlMqttType;

/* One bit per packet type; bit 0 stands for the will properties of CONNECT. */
#define FL_MQTT_BIT(name) (1u << FL_MQTT_##name)
#define FL_MQTT_BIT_WILL  1u
#define FL_MQTT_BIT_ACKS  (FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(PUBREL) | FL_MQTT_BIT(PUBCOMP))

/*
 * Reason codes (MQTT-2.4): name, code, packets whose reason field may hold it.
 * A code that a packet may not hold is a protocol error of its sender.
 */
#define FL_MQTT_REASONS(X)                                                                                             \
	X(SUCCESS, 0x00,                                                                                                   \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT_ACKS | FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBACK) | FL_MQTT_BIT(AUTH) |      \
		  FL_MQTT_BIT(DISCONNECT))                                                                                     \
	X(GRANTED_QOS_1, 0x01, FL_MQTT_BIT(SUBACK))                                                                        \
	X(GRANTED_QOS_2, 0x02, FL_MQTT_BIT(SUBACK))                                                                        \
	X(DISCONNECT_WITH_WILL, 0x04, FL_MQTT_BIT(DISCONNECT))                                                             \
	X(NO_MATCHING_SUBSCRIBERS, 0x10, FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC))                                        \
	X(NO_SUBSCRIPTION_EXISTED, 0x11, FL_MQTT_BIT(UNSUBACK))                                                            \
	X(CONTINUE_AUTHENTICATION, 0x18, FL_MQTT_BIT(AUTH))                                                                \
	X(RE_AUTHENTICATE, 0x19, FL_MQTT_BIT(AUTH))                                                                        \
	X(UNSPECIFIED_ERROR, 0x80,                                                                                         \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBACK) | \
		  FL_MQTT_BIT(DISCONNECT))                                                                                     \
	X(MALFORMED_PACKET, 0x81, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                          \
	X(PROTOCOL_ERROR, 0x82, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                            \
	X(IMPLEMENTATION_SPECIFIC_ERROR, 0x83,                                                                             \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBACK) | \
		  FL_MQTT_BIT(DISCONNECT))                                                                                     \
	X(UNSUPPORTED_PROTOCOL_VERSION, 0x84, FL_MQTT_BIT(CONNACK))                                                        \
	X(CLIENT_IDENTIFIER_NOT_VALID, 0x85, FL_MQTT_BIT(CONNACK))                                                         \
	X(BAD_USER_NAME_OR_PASSWORD, 0x86, FL_MQTT_BIT(CONNACK))                                                           \
	X(NOT_AUTHORIZED, 0x87,                                                                                            \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBACK) | \
		  FL_MQTT_BIT(DISCONNECT))                                                                                     \
	X(SERVER_UNAVAILABLE, 0x88, FL_MQTT_BIT(CONNACK))                                                                  \
	X(SERVER_BUSY, 0x89, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                               \
	X(BANNED, 0x8A, FL_MQTT_BIT(CONNACK))                                                                              \
	X(SERVER_SHUTTING_DOWN, 0x8B, FL_MQTT_BIT(DISCONNECT))                                                             \
	X(BAD_AUTHENTICATION_METHOD, 0x8C, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                 \
	X(KEEP_ALIVE_TIMEOUT, 0x8D, FL_MQTT_BIT(DISCONNECT))                                                               \
	X(SESSION_TAKEN_OVER, 0x8E, FL_MQTT_BIT(DISCONNECT))                                                               \
	X(TOPIC_FILTER_INVALID, 0x8F, FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBACK) | FL_MQTT_BIT(DISCONNECT))               \
	X(TOPIC_NAME_INVALID, 0x90,                                                                                        \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(DISCONNECT))                      \
	X(PACKET_IDENTIFIER_IN_USE, 0x91,                                                                                  \
	  FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBACK))                         \
	X(PACKET_IDENTIFIER_NOT_FOUND, 0x92, FL_MQTT_BIT(PUBREL) | FL_MQTT_BIT(PUBCOMP))                                   \
	X(RECEIVE_MAXIMUM_EXCEEDED, 0x93, FL_MQTT_BIT(DISCONNECT))                                                         \
	X(TOPIC_ALIAS_INVALID, 0x94, FL_MQTT_BIT(DISCONNECT))                                                              \
	X(PACKET_TOO_LARGE, 0x95, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                          \
	X(MESSAGE_RATE_TOO_HIGH, 0x96, FL_MQTT_BIT(DISCONNECT))                                                            \
	X(QUOTA_EXCEEDED, 0x97,                                                                                            \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(SUBACK) |                         \
		  FL_MQTT_BIT(DISCONNECT))                                                                                     \
	X(ADMINISTRATIVE_ACTION, 0x98, FL_MQTT_BIT(DISCONNECT))                                                            \
	X(PAYLOAD_FORMAT_INVALID, 0x99,                                                                                    \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(PUBACK) | FL_MQTT_BIT(PUBREC) | FL_MQTT_BIT(DISCONNECT))                      \
	X(RETAIN_NOT_SUPPORTED, 0x9A, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                      \
	X(QOS_NOT_SUPPORTED, 0x9B, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                         \
	X(USE_ANOTHER_SERVER, 0x9C, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                        \
	X(SERVER_MOVED, 0x9D, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                              \
	X(SHARED_SUBSCRIPTIONS_NOT_SUPPORTED, 0x9E, FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(DISCONNECT))                         \
	X(CONNECTION_RATE_EXCEEDED, 0x9F, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT))                                  \
	X(MAXIMUM_CONNECT_TIME, 0xA0, FL_MQTT_BIT(DISCONNECT))                                                             \
	X(SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED, 0xA1, FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(DISCONNECT))                     \
	X(WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED, 0xA2, FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(DISCONNECT))

typedef enum FlMqttReason
{
#define X(name, code, packets) FL_MQTT_RC_##name = code,
	FL_MQTT_REASONS(X)
#undef X
} FlMqttReason;

/* CONNACK return codes of 3.1 and 3.1.1 (3.1.1 table 3.1). */
typedef enum FlMqttReturnCode
{
	FL_MQTT_RETURN_ACCEPTED = 0,
	FL_MQTT_RETURN_BAD_VERSION = 1,
	FL_MQTT_RETURN_ID_REJECTED = 2,
	FL_MQTT_RETURN_UNAVAILABLE = 3,
	FL_MQTT_RETURN_BAD_CREDENTIALS = 4,
	FL_MQTT_RETURN_NOT_AUTHORIZED = 5
} FlMqttReturnCode;

/* The wire types a property value may have (MQTT-2.2.2.2). */
typedef enum FlMqttPropType
{
	FL_MQTT_PROP_U8,
	FL_MQTT_PROP_BOOL, /* a byte that must be 0 or 1 */
	FL_MQTT_PROP_U16,
	FL_MQTT_PROP_U32,
	FL_MQTT_PROP_VARINT,
	FL_MQTT_PROP_STRING, /* UTF-8, checked */
	FL_MQTT_PROP_BINARY,
	FL_MQTT_PROP_PAIR /* two UTF-8 strings */
} FlMqttPropType;

/*
 * The property table: name, identifier, type, may its value be zero, packets
 * that may carry it, packets in which it may repeat.  Identifiers run up to
 * 42 with holes; these twenty-seven are all that MQTT 5.0 defines.  They are
 * written in the order of this table, which is free in the standard: by number
 * but for what stands in CONNACK, where it is the one that the byte sequences
 * of Mosquitto's tests expect.
 */
#define FL_MQTT_PROPERTIES(X)                                                                                          \
	X(PAYLOAD_FORMAT, 0x01, BOOL, true, FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT_WILL, 0)                                    \
	X(MESSAGE_EXPIRY, 0x02, U32, true, FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT_WILL, 0)                                     \
	X(CONTENT_TYPE, 0x03, STRING, true, FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT_WILL, 0)                                    \
	X(RESPONSE_TOPIC, 0x08, STRING, true, FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT_WILL, 0)                                  \
	X(CORRELATION_DATA, 0x09, BINARY, true, FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT_WILL, 0)                                \
	X(SUBSCRIPTION_ID, 0x0B, VARINT, false, FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT(SUBSCRIBE), FL_MQTT_BIT(PUBLISH))       \
	X(SESSION_EXPIRY, 0x11, U32, true, FL_MQTT_BIT(CONNECT) | FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT), 0)       \
	X(SERVER_KEEP_ALIVE, 0x13, U16, true, FL_MQTT_BIT(CONNACK), 0)                                                     \
	X(TOPIC_ALIAS_MAXIMUM, 0x22, U16, true, FL_MQTT_BIT(CONNECT) | FL_MQTT_BIT(CONNACK), 0)                            \
	X(ASSIGNED_CLIENT_ID, 0x12, STRING, true, FL_MQTT_BIT(CONNACK), 0)                                                 \
	X(AUTH_METHOD, 0x15, STRING, true, FL_MQTT_BIT(CONNECT) | FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(AUTH), 0)             \
	X(AUTH_DATA, 0x16, BINARY, true, FL_MQTT_BIT(CONNECT) | FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(AUTH), 0)               \
	X(REQUEST_PROBLEM_INFO, 0x17, BOOL, true, FL_MQTT_BIT(CONNECT), 0)                                                 \
	X(WILL_DELAY, 0x18, U32, true, FL_MQTT_BIT_WILL, 0)                                                                \
	X(REQUEST_RESPONSE_INFO, 0x19, BOOL, true, FL_MQTT_BIT(CONNECT), 0)                                                \
	X(RESPONSE_INFO, 0x1A, STRING, true, FL_MQTT_BIT(CONNACK), 0)                                                      \
	X(SERVER_REFERENCE, 0x1C, STRING, true, FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(DISCONNECT), 0)                         \
	X(REASON_STRING, 0x1F, STRING, true,                                                                               \
	  FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT_ACKS | FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBACK) |                          \
		  FL_MQTT_BIT(DISCONNECT) | FL_MQTT_BIT(AUTH),                                                                 \
	  0)                                                                                                               \
	X(TOPIC_ALIAS, 0x23, U16, true, FL_MQTT_BIT(PUBLISH), 0)                                                           \
	X(RETAIN_AVAILABLE, 0x25, BOOL, true, FL_MQTT_BIT(CONNACK), 0)                                                     \
	X(MAXIMUM_PACKET_SIZE, 0x27, U32, false, FL_MQTT_BIT(CONNECT) | FL_MQTT_BIT(CONNACK), 0)                           \
	X(RECEIVE_MAXIMUM, 0x21, U16, false, FL_MQTT_BIT(CONNECT) | FL_MQTT_BIT(CONNACK), 0)                               \
	X(MAXIMUM_QOS, 0x24, BOOL, true, FL_MQTT_BIT(CONNACK), 0)                                                          \
	X(USER_PROPERTY, 0x26, PAIR, true, FL_MQTT_BIT_EVERY, FL_MQTT_BIT_EVERY)                                           \
	X(WILDCARD_AVAILABLE, 0x28, BOOL, true, FL_MQTT_BIT(CONNACK), 0)                                                   \
	X(SUBSCRIPTION_ID_AVAILABLE, 0x29, BOOL, true, FL_MQTT_BIT(CONNACK), 0)                                            \
	X(SHARED_AVAILABLE, 0x2A, BOOL, true, FL_MQTT_BIT(CONNACK), 0)

/* Packets with a property block; PINGREQ and PINGRESP have none. */
#define FL_MQTT_BIT_EVERY                                                                                              \
	(FL_MQTT_BIT_WILL | FL_MQTT_BIT(CONNECT) | FL_MQTT_BIT(CONNACK) | FL_MQTT_BIT(PUBLISH) | FL_MQTT_BIT_ACKS |        \
	 FL_MQTT_BIT(SUBSCRIBE) | FL_MQTT_BIT(SUBACK) | FL_MQTT_BIT(UNSUBSCRIBE) | FL_MQTT_BIT(UNSUBACK) |                 \
	 FL_MQTT_BIT(DISCONNECT) | FL_MQTT_BIT(AUTH))

/* Dense numbering of the properties, in the order of the table. */
typedef enum FlMqttProp
{
#define X(name, id, type, zero, packets, repeat) FL_MQTT_P_##name,
	FL_MQTT_PROPERTIES(X)
#undef X
	FL_MQTT_PROP_COUNT
} FlMqttProp;

#define FL_MQTT_PROP_MAX_ID 0x2A

/* A byte string that is borrowed; data may be NULL only where len is 0. */
typedef struct FlMqttBytes
{
	const uint8_t *data;
	uint32_t len;
} FlMqttBytes;

typedef struct FlMqttUserProperty
{
	FlMqttBytes name;
	FlMqttBytes value;
} FlMqttUserProperty;

/* An integer in num, or a string or binary in data with its length in num. */
typedef struct FlMqttPropValue
{
	const uint8_t *data;
	uint32_t num;
} FlMqttPropValue;

/*
 * A property block.  Decoded blocks keep the encoded bytes in raw, from which
 * the two repeating properties are read; blocks to be encoded name arrays
 * instead (or keep raw, to pass a decoded block on).  A slot of value[] means
 * something only where its bit is set in present.
 */
typedef struct FlMqttProps
{
	uint32_t present; /* bit per FlMqttProp */
	uint32_t user_count;
	uint32_t subscription_id_count;
	const uint8_t *raw;
	uint32_t raw_len;
	const FlMqttUserProperty *users;
	const uint32_t *subscription_ids;
	FlMqttPropValue value[FL_MQTT_PROP_COUNT];
} FlMqttProps;

/* Where an iteration over a repeating property stands; start with zeroes. */
typedef struct FlMqttPropCursor
{
	uint32_t index;
	uint32_t at; /* offset in raw */
} FlMqttPropCursor;

/* Why a packet was refused: the reason code to answer with, and words for the log. */
typedef struct FlMqttFault
{
	FlMqttReason reason;
	const char *what;   /* static text */
	FlMqttReason other; /* what Mosquitto answers, where it reads the standard otherwise; 0: the same */
} FlMqttFault;

/* One whole packet found by the framer; body follows the fixed header. */
typedef struct FlMqttFrame
{
	uint8_t type; /* FlMqttType */
	uint8_t flags;
	bool minimal; /* length used as few bytes as possible */
	const uint8_t *body;
	uint32_t body_len;
	size_t total; /* fixed header and body */
} FlMqttFrame;

typedef struct FlMqttWill
{
	bool present;
	bool retain;
	uint8_t qos;
	FlMqttBytes topic;
	FlMqttBytes payload;
	FlMqttProps props;
} FlMqttWill;

typedef struct FlMqttConnect
{
	FlMqttVersion version; /* set as soon as known, also where decoding fails later */
	bool clean_start;
	bool has_username;
	bool has_password;
	bool bridge;         /* bit 7 of the level byte, used by bridges of 3.1.x */
	uint16_t keep_alive; /* seconds, 0 = none */
	FlMqttBytes client_id;
	FlMqttBytes username;
	FlMqttBytes password;
	FlMqttWill will;
	FlMqttProps props;
} FlMqttConnect;

typedef struct FlMqttConnack
{
	bool session_present;
	uint8_t code; /* reason code (5.0) or return code (3.x) */
	FlMqttProps props;
} FlMqttConnack;

typedef struct FlMqttPublish
{
	bool dup;
	bool retain;
	uint8_t qos;
	uint16_t packet_id; /* 0 for QoS 0 */
	FlMqttBytes topic;  /* empty only in 5.0 with a topic alias */
	FlMqttBytes payload;
	FlMqttProps props;
} FlMqttPublish;

/* PUBACK, PUBREC, PUBREL, PUBCOMP. */
typedef struct FlMqttAck
{
	uint16_t packet_id;
	uint8_t reason;
	FlMqttProps props;
} FlMqttAck;

/* One filter of a SUBSCRIBE with its options (MQTT-3.8.3.1). */
typedef struct FlMqttSubscription
{
	FlMqttBytes filter;
	uint8_t qos;
	bool no_local;
	bool retain_as_published;
	uint8_t retain_handling;
} FlMqttSubscription;

/* items, if not NULL, is what the encoder writes; else list is copied. */
typedef struct FlMqttSubscribe
{
	uint16_t packet_id;
	uint32_t count;
	FlMqttBytes list; /* encoded, checked */
	const FlMqttSubscription *items;
	FlMqttProps props;
} FlMqttSubscribe;

typedef struct FlMqttUnsubscribe
{
	uint16_t packet_id;
	uint32_t count;
	FlMqttBytes list; /* encoded, checked */
	const FlMqttBytes *items;
	FlMqttProps props;
} FlMqttUnsubscribe;

/* SUBACK and UNSUBACK; an UNSUBACK of 3.x has no codes. */
typedef struct FlMqttSuback
{
	uint16_t packet_id;
	FlMqttBytes codes;
	FlMqttProps props;
} FlMqttSuback;

/* DISCONNECT and AUTH. */
typedef struct FlMqttReasonPacket
{
	uint8_t reason;
	FlMqttProps props;
} FlMqttReasonPacket;

typedef struct FlMqttPacket
{
	FlMqttType type;
	union
	{
		FlMqttConnect connect;
		FlMqttConnack connack;
		FlMqttPublish publish;
		FlMqttAck ack;
		FlMqttSubscribe subscribe;
		FlMqttUnsubscribe unsubscribe;
		FlMqttSuback suback; /* also UNSUBACK */
		FlMqttReasonPacket disconnect;
		FlMqttReasonPacket auth;
	} u;
} FlMqttPacket;

/* Where a walk over a decoded list of filters stands. */
typedef struct FlMqttListCursor
{
	uint32_t index;
	uint32_t at;
} FlMqttListCursor;

/* ---- in packet_frame.c: framing ---- */

/*
 * Finds the next packet in data.  version is FL_MQTT_UNKNOWN before a CONNECT
 * was accepted: then only a CONNECT (from a client) is let through.
 * max_packet bounds the whole packet, fixed header included (MQTT-3.1.2-24);
 * the caller passes a small one before authentication, so that a length alone
 * makes nobody hold memory for it.
 *
 * FL_OK: *frame filled.  FL_INCOMPLETE: more bytes are needed, frame->total
 * says how many the whole packet has, or 0 where that is not known yet.
 * FL_MALFORMED, FL_TOO_LARGE: *fault says why; found as early as the bytes at
 * hand allow.
 */
extern FlResult fl_mqtt_frame_next(const uint8_t *data, size_t len, FlMqttVersion version, FlMqttSender sender,
								   size_t max_packet, FlMqttFrame *frame, FlMqttFault *fault);

/*
 * Decodes one frame into *packet, whose pointers borrow from the frame.
 * version is that of the connection (ignored for CONNECT, which carries it).
 * FL_OK or FL_MALFORMED with *fault filled.
 */
extern FlResult fl_mqtt_decode(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender,
							   FlMqttPacket *packet, FlMqttFault *fault);

/* Appends one packet to out; failure is sticky in out. */
extern void fl_mqtt_encode(FlBuf *out, FlMqttVersion version, const FlMqttPacket *packet);

/* ---- in packet_reason.c: names ---- */

/* "PUBLISH"; "reserved" for 0. */
extern const char *fl_mqtt_type_name(uint8_t type);
/* "packet too large"; "unknown" for a code the standard does not define. */
extern const char *fl_mqtt_reason_name(uint8_t code);
/* May a packet of this type hold this reason code? */
extern bool fl_mqtt_reason_allowed(FlMqttType type, uint8_t code);
/*
 * The CONNACK return code of 3.x for a reason code, or -1 where 3.x has none
 * and the connection is to be closed without an answer (3.1.1 3.2.2.3).
 */
extern int fl_mqtt_return_code(FlMqttReason reason);

/* ---- in packet_property.c: property blocks ---- */

extern void fl_mqtt_props_init(FlMqttProps *props);

static inline bool
fl_mqtt_props_has(const FlMqttProps *props, FlMqttProp prop)
{
	return (props->present & (1u << prop)) != 0;
}

/* An integer property, or otherwise where it is absent. */
static inline uint32_t
fl_mqtt_props_int(const FlMqttProps *props, FlMqttProp prop, uint32_t otherwise)
{
	return fl_mqtt_props_has(props, prop) ? props->value[prop].num : otherwise;
}

/* A string or binary property, empty where it is absent. */
static inline FlMqttBytes
fl_mqtt_props_bytes(const FlMqttProps *props, FlMqttProp prop)
{
	FlMqttBytes bytes = {NULL, 0};

	if (fl_mqtt_props_has(props, prop))
	{
		bytes.data = props->value[prop].data;
		bytes.len = props->value[prop].num;
	}
	return bytes;
}

extern void fl_mqtt_props_set_int(FlMqttProps *props, FlMqttProp prop, uint32_t num);
/* Borrows data. */
extern void fl_mqtt_props_set_bytes(FlMqttProps *props, FlMqttProp prop, const void *data, uint32_t len);

/* The next user property, in the order of the packet; false at the end. */
extern bool fl_mqtt_props_next_user(const FlMqttProps *props, FlMqttPropCursor *at, FlMqttUserProperty *user);
/* The next subscription identifier; false at the end. */
extern bool fl_mqtt_props_next_subscription_id(const FlMqttProps *props, FlMqttPropCursor *at, uint32_t *id);

/* ---- lists ---- */

/* in packet_subscribe.c; version decides how the option byte is read */
extern bool fl_mqtt_subscribe_next(const FlMqttSubscribe *subscribe, FlMqttListCursor *at, FlMqttSubscription *item);
/* in packet_unsubscribe.c */
extern bool fl_mqtt_unsubscribe_next(const FlMqttUnsubscribe *unsubscribe, FlMqttListCursor *at, FlMqttBytes *filter);

/* ---- in packet_publish.c ---- */

/* The exact size of the PUBLISH that fl_mqtt_encode would write, in bytes. */
extern size_t fl_mqtt_publish_size(FlMqttVersion version, const FlMqttPublish *publish);

#endif /* FLEETLOG_MQTT_PACKET_H */
