/*
 * reading.h
 *		What a front door has asked the reader for, and how catch-up makes use of it.
 *
 * For reading.c and those whom it serves: catchup.c, door.c, subscribe.c, history.c.
 */
#ifndef FLEETLOG_MQTT_READING_H
#define FLEETLOG_MQTT_READING_H

#include "mqtt.h"

/* What the reader has been asked for a lagging connection, of one feed. */
typedef struct FlMqttAsk
{
	uint64 token;  /* 0: nothing now */
	int64 at;      /* where its cursor is meanwhile */
	int64 from;    /* ... and was when it asked */
	int64 warm_to; /* pages up to there are in memory */
	int64 self_to; /* up to there it reads by itself */
	uint32 got;    /* records that came */
	bool warm;     /* it asked for pages only */
} FlMqttAsk;

extern void fl_mqtt_reading_init(FlMqttDoor *door);
extern void fl_mqtt_reading_run(FlMqttDoor *door);
extern int64 fl_mqtt_may_read_to(FlMqttConn *conn, int feed);
extern bool fl_mqtt_only_waits(const FlMqttConn *conn);
extern void fl_mqtt_park(FlMqttConn *conn);
/* Its filters have changed, or where they begin. */
extern void fl_mqtt_cancel_asks(FlMqttConn *conn);
extern void fl_mqtt_recheck_asks(FlMqttDoor *door);

/* catchup.c: a record of a feed for a lagging connection; false: it does not fit now and has to come again. */
extern bool fl_mqtt_offer_record(FlMqttConn *conn, int feed, const FlLogRecord *rec);
/* With the feeds again, where all its positions have reached theirs. */
extern bool fl_mqtt_rejoin(FlMqttConn *conn);

#endif /* FLEETLOG_MQTT_READING_H */
