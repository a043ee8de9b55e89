/*
 * mqtt.h
 *		The MQTT front door as the rest of fleetlog sees it.
 *
 * Assumes postgres.h was included first.
 */
#ifndef FLEETLOG_MQTT_H
#define FLEETLOG_MQTT_H

/* From _PG_init: the settings of the MQTT door (docs/mqtt.md lists them). */
extern void fl_mqtt_define_settings(void);

/*
 * The life of a front door: called by fl_main_front_door when the worker is
 * connected to its database.  Returns when the worker is to end, after what was
 * owed has been sent.
 */
extern void fl_mqtt_front_door(int index);

/* Likewise the reader's, called by fl_main_reader. */
extern void fl_mqtt_reader(void);

#endif /* FLEETLOG_MQTT_H */
