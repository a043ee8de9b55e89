/*-------------------------------------------------------------------------
 *
 * device.c
 *		A device as fleetlog wishes it: copy it.
 *
 * It waits at random after power on, connects with a session, listens to its
 * commands, reports at a phase of its own, and when a connection or an attempt
 * ends it waits by the law of full jitter (backoff.h) before the next one.
 * Commands are judged and answered in command.c and answer.c; which ones were
 * begun is remembered in seen.c.
 *
 *-------------------------------------------------------------------------
 */
#include "device.h"

#include <errno.h>
#include <mqtt_protocol.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* TCP, CONNACK and SUBACK together may take so long. */
#define CONNECT_TIMEOUT (30 * SECOND)

/* The server keeps what is sent to us while we are away for so long, in seconds; it may allow less. */
#define SESSION_EXPIRY 3600

/* Commands that are remembered; see seen.h. */
#define MEMORY 256

static volatile sig_atomic_t stopping = 0;

static void
on_signal(int signo)
{
	(void) signo;
	stopping = 1;
}

void
device_log(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static int64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

/* splitmix64: good enough for jitter, and a seed makes a test repeatable. */
static uint64_t
random_bits(Device *d)
{
	uint64_t z = d->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Uniform in [0, limit]. */
static int64_t
random_up_to(Device *d, int64_t limit)
{
	return (int64_t) (random_bits(d) % ((uint64_t) limit + 1));
}

static void
wait_for(int64_t ns)
{
	int64_t until = now() + ns, left;

	while (!stopping && (left = until - now()) > 0)
	{
		struct timespec t = {left / SECOND, left % SECOND};

		ppoll(NULL, 0, &t, NULL);
	}
}

/* This connection is of no use any more; the loop ends it. */
static void
give_up(Device *d, FlCause cause)
{
	d->cause = cause;
	d->over = true;
}

static void
on_connect(struct mosquitto *mosq, void *arg, int code, int flags, const mosquitto_property *properties)
{
	Device *d = arg;
	char filter[1024];

	(void) properties;
	if (code != 0)
	{
		device_log("refused: %s", d->o.version == 5 ? mosquitto_reason_string(code) : mosquitto_connack_string(code));
		give_up(d, fl_backoff_cause(d->o.version, (uint8_t) code));
		return;
	}
	device_log("connected, session %s", flags & 1 ? "present" : "new");
	/* Also where the session is there: it costs little, and nothing has to be known about who made it. */
	snprintf(filter, sizeof(filter), "%scmd/%s/req/+", d->o.prefix, d->o.device);
	mosquitto_subscribe_v5(mosq, NULL, filter, 1, 0, NULL);
}

static void
on_subscribe(struct mosquitto *mosq, void *arg, int id, int count, const int *granted, const mosquitto_property *properties)
{
	Device *d = arg;

	(void) mosq;
	(void) id;
	(void) properties;
	if (count != 1 || granted[0] != 1)
	{
		device_log("no commands: SUBACK says %d", count > 0 ? granted[0] : -1);
		give_up(d, FL_CAUSE_DENIED);
		return;
	}
	d->connected = true;
	device_log("ready");
}

/* Codes from 0x80 are the server's, in DISCONNECT of MQTT 5; smaller ones are the library's. */
static void
on_disconnect(struct mosquitto *mosq, void *arg, int code, const mosquitto_property *properties)
{
	Device *d = arg;

	(void) mosq;
	(void) properties;
	if (!d->over)
		give_up(d, code >= 0x80 ? fl_backoff_cause(5, (uint8_t) code) : FL_CAUSE_BROKEN);
}

static void
on_message(struct mosquitto *mosq, void *arg, const struct mosquitto_message *message, const mosquitto_property *properties)
{
	(void) mosq;
	device_on_command(arg, message, properties);
}

/* The next report replaces this one, so it goes at QoS 0, and what was missed is not made up for. */
static void
report(Device *d)
{
	char topic[1024], text[128];
	int64_t at = now();

	if (at < d->reports)
		return;
	d->reports += (at - d->reports) / d->interval * d->interval + d->interval;
	if (!d->connected)
		return;
	snprintf(topic, sizeof(topic), "%s%s/status", d->o.prefix, d->o.device);
	snprintf(text, sizeof(text), "{\"up\":%lld}", (long long) (at / SECOND));
	mosquitto_publish_v5(d->mosq, NULL, topic, (int) strlen(text), text, 0, false, NULL);
}

static int
connect_now(Device *d)
{
	mosquitto_property *properties = NULL;
	int rc;

	if (d->o.version == 5)
		mosquitto_property_add_int32(&properties, MQTT_PROP_SESSION_EXPIRY_INTERVAL, SESSION_EXPIRY);
	rc = mosquitto_connect_bind_v5(d->mosq, d->o.host, d->o.port, d->o.keep_alive, NULL, properties);
	mosquitto_property_free_all(&properties);
	return rc;
}

/* One connection, or an attempt at one, until it ends; returns how long it has lived. */
static int64_t
live(Device *d)
{
	int64_t ready = 0;
	int rc;

	d->connected = d->over = false;
	d->cause = FL_CAUSE_BROKEN;
	d->began = now();
	rc = connect_now(d);
	while (rc == MOSQ_ERR_SUCCESS && !d->over && !stopping)
	{
		int64_t wait = d->reports - now();

		wait = wait < 0 ? 0 : wait > SECOND ? 1000 : wait / 1000000 + 1;
		rc = mosquitto_loop(d->mosq, (int) wait, 1);
		report(d);
		if (d->connected && ready == 0)
			ready = now();
		else if (!d->connected && now() - d->began > CONNECT_TIMEOUT)
			give_up(d, FL_CAUSE_BROKEN);
	}
	if (rc != MOSQ_ERR_SUCCESS && !stopping)
		device_log("connection ended: %s", rc == MOSQ_ERR_ERRNO ? strerror(errno) : mosquitto_strerror(rc));
	/* Says goodbye and closes, unless that has happened. */
	mosquitto_disconnect(d->mosq);
	return ready > 0 ? now() - ready : 0;
}

static void
set_up(Device *d)
{
	d->seen = seen_open(d->o.memory_file, MEMORY);
	if (d->seen == NULL)
	{
		perror(d->o.memory_file);
		exit(1);
	}
	mosquitto_lib_init();
	/* Without a clean session, or what comes while we are away is lost. */
	d->mosq = mosquitto_new(d->o.client_id, false, d);
	if (d->mosq == NULL || mosquitto_int_option(d->mosq, MOSQ_OPT_PROTOCOL_VERSION, d->o.version) != MOSQ_ERR_SUCCESS ||
		mosquitto_username_pw_set(d->mosq, d->o.user, d->o.password) != MOSQ_ERR_SUCCESS ||
		(d->o.ca_file != NULL && mosquitto_tls_set(d->mosq, d->o.ca_file, NULL, NULL, NULL, NULL) != MOSQ_ERR_SUCCESS))
	{
		fputs("device: the MQTT library refuses these options\n", stderr);
		exit(1);
	}
	mosquitto_connect_v5_callback_set(d->mosq, on_connect);
	mosquitto_subscribe_v5_callback_set(d->mosq, on_subscribe);
	mosquitto_disconnect_v5_callback_set(d->mosq, on_disconnect);
	mosquitto_message_v5_callback_set(d->mosq, on_message);
}

int
main(int argc, char **argv)
{
	static Device d;
	struct sigaction action = {.sa_handler = on_signal};
	int64_t boot, phase;
	int failures = 0;

	options_read(&d.o, argc, argv);
	d.random = d.o.seed;
	d.interval = d.o.interval;
	set_up(&d);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* When power comes back to all of them, neither connections nor reports must come at once. */
	boot = random_up_to(&d, d.o.boot);
	phase = random_up_to(&d, d.interval - 1);
	device_log("boot: %.6f s of at most %.6f s, first report %.6f s later, every %.6f s", (double) boot / SECOND,
			   (double) d.o.boot / SECOND, (double) phase / SECOND, (double) d.interval / SECOND);
	wait_for(boot);
	d.reports = now() + phase;
	while (!stopping)
	{
		int64_t lived = live(&d), pause;

		if (stopping)
			break;
		pause = fl_backoff_next(&d.o.law, &failures, lived, d.cause, random_bits(&d));
		device_log("pause %.6f s of at most %.6f s", (double) pause / SECOND,
				   (double) fl_backoff_window(&d.o.law, failures - 1, d.cause) / SECOND);
		wait_for(pause);
	}
	mosquitto_destroy(d.mosq);
	mosquitto_lib_cleanup();
	seen_close(d.seen);
	free(d.o.password);
	return 0;
}
