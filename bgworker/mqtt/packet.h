/*
 * packet.h
 *		What the files of the MQTT codec share among themselves: readers for the
 *		wire types, writers, and one decode/encode pair per packet.
 *
 * Private to bgworker/mqtt/packet_*.c.  Everything here is free of server code;
 * see fleetlog/mqtt_packet.h for the rules.
 */
#ifndef FLEETLOG_MQTT_PACKET_PRIVATE_H
#define FLEETLOG_MQTT_PACKET_PRIVATE_H

#include "fleetlog/mqtt_packet.h"

/* Fills *fault and gives FL_MALFORMED, so that callers can return in one line. */
extern FlResult fl_mqtt_fault(FlMqttFault *fault, FlMqttReason reason, const char *what);

#define FL_MQTT_MALFORMED(fault, what) fl_mqtt_fault((fault), FL_MQTT_RC_MALFORMED_PACKET, (what))
#define FL_MQTT_BROKEN(fault, what)    fl_mqtt_fault((fault), FL_MQTT_RC_PROTOCOL_ERROR, (what))

/*
 * Where the standard leaves it open, or is read otherwise by Mosquitto, which
 * of the two codes a packet deserves: ours is the first of the name.
 */
extern FlResult fl_mqtt_disputed(FlMqttFault *fault, FlMqttReason reason, FlMqttReason other, const char *what);

#define FL_MQTT_MALFORMED_OR_BROKEN(fault, what)                                                                       \
	fl_mqtt_disputed((fault), FL_MQTT_RC_MALFORMED_PACKET, FL_MQTT_RC_PROTOCOL_ERROR, (what))
#define FL_MQTT_BROKEN_OR_MALFORMED(fault, what)                                                                       \
	fl_mqtt_disputed((fault), FL_MQTT_RC_PROTOCOL_ERROR, FL_MQTT_RC_MALFORMED_PACKET, (what))

/* ---- in packet_frame.c: wire types ---- */

/*
 * A variable byte integer (MQTT-1.5.5-1).  False where it is cut short, longer
 * than four bytes, or not written with as few bytes as possible.
 */
extern bool fl_mqtt_read_varint(FlReader *in, uint32_t *value);
/* A length-prefixed byte string; false where it is cut short. */
extern bool fl_mqtt_read_binary(FlReader *in, FlMqttBytes *bytes);
/* The same, and well-formed UTF-8 without U+0000 (MQTT-1.5.4-1, -2). */
extern bool fl_mqtt_read_string(FlReader *in, FlMqttBytes *string);
/*
 * Free of the control characters U+0001..U+001F and U+007F..U+009F.  The
 * standard lets a receiver refuse them (1.5.4); we refuse them in topics,
 * filters, client identifiers and user names, where they serve nobody but
 * somebody who wants to deceive a log reader, and let them pass in properties.
 */
extern bool fl_mqtt_is_printable(FlMqttBytes string);
extern void fl_mqtt_write_varint(FlBuf *out, uint32_t value);
extern void fl_mqtt_write_binary(FlBuf *out, FlMqttBytes bytes);
extern uint32_t fl_mqtt_varint_size(uint32_t value);
/* The unread rest of a reader. */
extern FlMqttBytes fl_mqtt_rest(FlReader *in);

/* ---- in packet_property.c ---- */

/*
 * Reads a property block with its length.  packet_bit is FL_MQTT_BIT(type) or
 * FL_MQTT_BIT_WILL.  An absent block is the caller's business.
 */
extern FlResult fl_mqtt_decode_props(FlReader *in, uint32_t packet_bit, FlMqttSender sender, FlMqttProps *props,
									 FlMqttFault *fault);
/* Writes a property block with its length. */
extern void fl_mqtt_encode_props(FlBuf *out, const FlMqttProps *props);
/* Size of the block without its length. */
extern uint32_t fl_mqtt_props_size(const FlMqttProps *props);
/* True when the block would be empty, so that short packet forms may be used. */
extern bool fl_mqtt_props_empty(const FlMqttProps *props);

/* in packet_publish.c */
extern FlResult fl_mqtt_check_response_topic(const FlMqttProps *props, FlMqttFault *fault);

/* ---- one decode/encode pair per packet ---- */

extern FlResult fl_mqtt_decode_connect(const FlMqttFrame *frame, FlMqttConnect *connect, FlMqttFault *fault);
extern void fl_mqtt_encode_connect(FlBuf *out, const FlMqttConnect *connect);

extern FlResult fl_mqtt_decode_connack(const FlMqttFrame *frame, FlMqttVersion version, FlMqttConnack *connack,
									   FlMqttFault *fault);
extern void fl_mqtt_encode_connack(FlBuf *out, FlMqttVersion version, const FlMqttConnack *connack);

extern FlResult fl_mqtt_decode_publish(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender,
									   FlMqttPublish *publish, FlMqttFault *fault);
extern void fl_mqtt_encode_publish(FlBuf *out, FlMqttVersion version, const FlMqttPublish *publish);

extern FlResult fl_mqtt_decode_ack(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender, FlMqttAck *ack,
								   FlMqttFault *fault);
extern void fl_mqtt_encode_ack(FlBuf *out, FlMqttVersion version, FlMqttType type, const FlMqttAck *ack);

extern FlResult fl_mqtt_decode_subscribe(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSubscribe *subscribe,
										 FlMqttFault *fault);
extern void fl_mqtt_encode_subscribe(FlBuf *out, FlMqttVersion version, const FlMqttSubscribe *subscribe);

extern FlResult fl_mqtt_decode_suback(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSuback *suback,
									  FlMqttFault *fault);
extern void fl_mqtt_encode_suback(FlBuf *out, FlMqttVersion version, const FlMqttSuback *suback);

extern FlResult fl_mqtt_decode_unsubscribe(const FlMqttFrame *frame, FlMqttVersion version,
										   FlMqttUnsubscribe *unsubscribe, FlMqttFault *fault);
extern void fl_mqtt_encode_unsubscribe(FlBuf *out, FlMqttVersion version, const FlMqttUnsubscribe *unsubscribe);

extern FlResult fl_mqtt_decode_unsuback(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSuback *unsuback,
										FlMqttFault *fault);
extern void fl_mqtt_encode_unsuback(FlBuf *out, FlMqttVersion version, const FlMqttSuback *unsuback);

extern FlResult fl_mqtt_decode_ping(const FlMqttFrame *frame, FlMqttFault *fault);
extern void fl_mqtt_encode_ping(FlBuf *out, FlMqttType type);

extern FlResult fl_mqtt_decode_disconnect(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender,
										  FlMqttReasonPacket *disconnect, FlMqttFault *fault);
extern void fl_mqtt_encode_disconnect(FlBuf *out, FlMqttVersion version, const FlMqttReasonPacket *disconnect);

extern FlResult fl_mqtt_decode_auth(const FlMqttFrame *frame, FlMqttVersion version, FlMqttSender sender,
									FlMqttReasonPacket *auth, FlMqttFault *fault);
extern void fl_mqtt_encode_auth(FlBuf *out, const FlMqttReasonPacket *auth);

/* ---- in packet_frame.c: writing the fixed header ---- */

/*
 * Every packet but PUBLISH is short, so its length is found out by writing the
 * body behind a gap of FL_MQTT_MAX_HEADER bytes and moving it down afterwards.
 * begin returns where the packet starts in out.
 */
extern size_t fl_mqtt_packet_begin(FlBuf *out);
extern void fl_mqtt_packet_end(FlBuf *out, size_t start, FlMqttType type, uint8_t flags);

#endif /* FLEETLOG_MQTT_PACKET_PRIVATE_H */
