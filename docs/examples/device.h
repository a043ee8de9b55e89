/*-------------------------------------------------------------------------
 *
 * device.h
 *		What the parts of the reference device share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXAMPLE_DEVICE_H
#define EXAMPLE_DEVICE_H

#include "backoff.h"
#include "command.h"

#include <mosquitto.h>

typedef struct Options
{
	const char *host, *user, *ca_file, *memory_file, *client_id;
	char *password;     /* NULL: none */
	const char *device; /* its id */
	char *prefix;       /* of its tenant's topics */
	int port, keep_alive;
	int version;       /* 5, or 4 for 3.1.1 */
	int64_t tolerance; /* ms; all other times are ns */
	int64_t clock_offset;
	int64_t boot, interval;
	FlBackoffLaw law;
	uint64_t seed;
} Options;

typedef struct Device
{
	Options o;
	struct mosquitto *mosq;
	Seen *seen;
	uint64_t random;
	bool connected;  /* CONNACK said yes, and SUBACK too */
	bool over;       /* this connection is to end */
	FlCause cause;   /* why the last one did */
	int64_t began;   /* monotonic, as all times but those of commands */
	int64_t reports; /* when the next report is due */
	int64_t interval;
} Device;

#define SECOND INT64_C(1000000000)

/* in options.c: sets *o; ends the program where it cannot. */
extern void options_read(Options *o, int argc, char **argv);

/* in answer.c: a message below cmd/<device>/req/ came: judges it, carries it out and answers. */
extern void device_on_command(Device *d, const struct mosquitto_message *message, const mosquitto_property *properties);

/* in device.c: one line for the operator. */
extern void device_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* EXAMPLE_DEVICE_H */
