/*
 * log.h
 *		What the MQTT door writes to the server's log, and how much of it (log.c).
 *
 * Included by mqtt.h, which says what a door and a connection are.
 */
#ifndef FLEETLOG_MQTT_LOG_H
#define FLEETLOG_MQTT_LOG_H

struct FlMqttConn;
struct FlMqttDoor;

typedef enum FlMqttLogKind
{
	FL_MQTT_LOG_NO_MOUNT,
	FL_MQTT_LOG_NOT_AUTHORISED,
	FL_MQTT_LOG_PROTOCOL,
	FL_MQTT_LOG_LOGIN,
	FL_MQTT_LOG_REFUSED,
	FL_MQTT_LOG_CONNECTION,
	FL_MQTT_LOG_FEED,
	FL_MQTT_LOG_KINDS
} FlMqttLogKind;

#define FL_MQTT_LOGGED 512 /* clients remembered; another one of the same place is logged sooner */

/* The last line about the end of a client's connection. */
typedef struct FlMqttLogged
{
	uint64 number; /* of the client; 0: nobody's */
	int64 at_ms;
	uint32 left_out;
} FlMqttLogged;

typedef struct FlMqttLogBudget
{
	int64 window_ms;
	int lines;
	uint64 suppressed;
} FlMqttLogBudget;

/* May a line of this kind be written now?  Says how many were left out. */
extern bool fl_mqtt_log_allowed(struct FlMqttDoor *door, FlMqttLogKind kind);
extern const char *fl_mqtt_name(const struct FlMqttConn *conn);
/* What was left out is told when the flood is over; once a second. */
extern void fl_mqtt_log_run(struct FlMqttDoor *door);
/* What to do where a connection ends with this reason; NULL: nothing in particular. */
extern const char *fl_mqtt_remedy(uint8 reason);
/* fleetlog.log_connections: a client is let in, a connection ends. */
extern void fl_mqtt_log_begin(struct FlMqttConn *conn);
extern void fl_mqtt_log_end(struct FlMqttConn *conn, const char *why);

#endif /* FLEETLOG_MQTT_LOG_H */
