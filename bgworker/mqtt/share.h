/*
 * share.h
 *		Groups of shared subscriptions, as the rest of the front door sees them (share.c).
 */
#ifndef FLEETLOG_MQTT_SHARE_H
#define FLEETLOG_MQTT_SHARE_H

#include "mqtt.h"

/* False: there is no room for another group.  restored: a session comes back to it. */
extern bool fl_mqtt_share_join(FlMqttFilter *member, bool restored);
extern void fl_mqtt_share_leave(FlMqttFilter *member);
extern void fl_mqtt_share_refresh(FlMqttDoor *door);
extern void fl_mqtt_share_run(FlMqttDoor *door);
extern void fl_mqtt_share_return(FlMqttConn *conn);
/*
 * From where on its group is to read a feed after a crash, beside what this member has
 * under way at QoS 2, and in a checkpoint at QoS 1; -1: it takes none of it.
 */
extern int64 fl_mqtt_share_position(const FlMqttFilter *member, int feed, bool checkpoint);
/* The same of a group that this connection is about to join; text: the whole filter.  -1: there is none yet. */
extern int64 fl_mqtt_share_joins_at(FlMqttConn *conn, FlMqttBytes text, FlMqttBytes topic_filter, int feed);
extern void fl_mqtt_share_keep(FlMqttConn *conn);
/* A checkpoint was handed over that has what is under way. */
extern void fl_mqtt_share_noted(FlMqttConn *conn);
/* Of what is to be sent again, the messages of groups that other members have not been given meanwhile. */
extern void fl_mqtt_share_take_back(FlMqttConn *conn);

#endif
