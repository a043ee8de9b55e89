/*
 * kafka.h
 *		The Kafka door as the rest of fleetlog sees it.
 *
 * Assumes postgres.h was included first.
 */
#ifndef FLEETLOG_KAFKA_H
#define FLEETLOG_KAFKA_H

/* From _PG_init: the settings of the Kafka door (docs/kafka.md lists them). */
extern void fl_kafka_define_settings(void);

/*
 * The life of the Kafka door, which is front door number `index` (FL_KAFKA_DOOR):
 * called by fl_main_kafka_door when the worker is connected to its database.
 * Returns when the worker is to end, after what was owed has been sent.
 */
extern void fl_kafka_front_door(int index);

#endif /* FLEETLOG_KAFKA_H */
