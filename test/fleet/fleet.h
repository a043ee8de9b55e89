/*-------------------------------------------------------------------------
 *
 * fleet.h
 *		Types and functions that the files of fl_fleet share.
 *
 * One parent (fleet.c) forks -j herds (herd.c).  Herd i owns the devices whose
 * number is i modulo j, one epoll set and one heap of timers.  Nothing is
 * shared but one anonymous mapping (FlFleetShared), in which each herd keeps
 * its counters, and one pipe to each herd, through which the parent hands on
 * what it is told.  Times are nanoseconds of CLOCK_MONOTONIC.
 *
 * Packets, histograms, random numbers and JSON payloads are test/bench's; they
 * share no code with the extension.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_FLEET_H
#define FL_FLEET_H

#include "backoff.h"
#include "bench.h"

#define FL_MAX_DEVICES 99999 /* 10 * number + class is the connection of a truth log, which has six digits */
#define FL_PENDING_MAX 16    /* messages that a device keeps until they are acknowledged */
#define FL_WINDOW      8     /* of which so many are under way at most, fewer if the server says so */
#define FL_LINE_SIZE   128   /* a command with its end of line */

/* The classes of E3 that a device publishes; the fourth, commands, it subscribes to. */
typedef enum FlClass
{
	FL_TELEMETRY, /* QoS 0; what cannot leave at once is not kept */
	FL_EVENT,     /* QoS 1; kept while there is room, resent after a reconnect, given up when refused */
	FL_SAFETY,    /* QoS 1; one after the other, tried until it is accepted */
	FL_CLASSES
} FlClass;

typedef struct FlCredential
{
	char *user;
	char *password;
	char *base; /* topic prefix of the device, without a / at its end */
} FlCredential;

typedef struct FlFleetOptions
{
	struct sockaddr_in server;
	int sources;
	int processes;
	int devices;
	const char *client_id; /* templates, %d is the device's number */
	const char *base;
	FlCredential *credential; /* one for each device, or NULL */
	int percent_311;
	int percent_commands;
	bool clean;
	uint32_t session_expiry;
	int keep_alive;          /* seconds; 0: none */
	int64_t connect_timeout; /* for TCP, CONNACK and SUBACK together */
	int64_t boot;
	FlBackoffLaw law;
	int64_t interval;
	int weight[FL_CLASSES]; /* of what a report is */
	int weights;            /* their sum */
	int percent_binary;     /* of telemetry: 30 bytes instead of JSON */
	FlOptions payload;      /* size and seed for test/bench's generator */
	int64_t duration;
	int64_t drain;
	int64_t every;
	const char *control; /* FIFO; NULL: standard input */
	const char *truth;
} FlFleetOptions;

/* ---- device.c ---- */

typedef enum FlDeviceState
{
	FL_BOOTING,     /* has no connection, and waits for its boot delay to pass */
	FL_WAITING,     /* has lost or not got a connection, and backs off */
	FL_CONNECTING,  /* connect() has not finished */
	FL_GREETING,    /* CONNECT is sent, CONNACK awaited */
	FL_SUBSCRIBING, /* SUBSCRIBE is sent, SUBACK awaited */
	FL_READY,
	FL_GONE, /* the end: has said DISCONNECT, or had nothing to say it on */
	FL_DEVICE_STATES
} FlDeviceState;

typedef enum FlPendingState
{
	FL_QUEUED, /* not sent, or refused and to be sent again */
	FL_SENT    /* PUBACK is awaited, from this connection or the next */
} FlPendingState;

typedef struct FlPending
{
	uint64_t seq;       /* given when it leaves for the first time */
	int64_t created;    /* the time in its payload */
	int64_t first_sent; /* 0: never */
	int64_t not_before; /* a refused one waits */
	uint16_t id;
	uint8_t class;
	uint8_t state;
	uint8_t refusals;
} FlPending;

typedef struct FlDevice
{
	int fd; /* -1: none */
	int number;
	FlDeviceState state;
	uint8_t version;
	bool commands;   /* subscribes to them */
	bool silent;     /* its radio is off: sends nothing, reads nothing, and does not know what becomes of its socket */
	bool deaf;       /* does not read */
	bool want_write; /* EPOLLOUT is armed */
	bool ping_awaited; /* then next_ping is when we give up */
	uint16_t next_id;
	uint16_t window;
	int npending;
	int failures;         /* connections and attempts in a row that failed */
	uint64_t habit_rng;   /* of boot delay, phase and back-off: the same whatever else happens */
	uint64_t message_rng; /* of what is reported */
	int64_t until;        /* BOOTING, WAITING: when to connect; CONNECTING to SUBSCRIBING: when to give up */
	int64_t began;        /* connect() was called */
	int64_t ready_since;
	int64_t next_report;
	int64_t next_ping;
	int64_t keep_alive; /* the server's, if it named one */
	uint64_t seq[FL_CLASSES];
	FlPending pending[FL_PENDING_MAX]; /* oldest first */
	uint8_t *in;                       /* the beginning of a packet that has not arrived whole */
	size_t in_len;
	uint8_t *out; /* what the socket did not take */
	size_t out_len;
	int64_t wake; /* place in the herd's heap */
	int heap_at;
} FlDevice;

/* Everything that is counted, once for the struct, once for printing. */
#define FL_FLEET_COUNTERS(X)                                                                                           \
	X(attempts) /* connect() calls */                                                                                  \
	X(connects) /* CONNACKs that accepted */                                                                           \
	X(sessions_present)                                                                                                \
	X(failed)  /* attempts that ended before CONNACK */                                                                \
	X(refused) /* CONNACKs that did not accept */                                                                      \
	X(lost)    /* connections that ended after CONNACK */                                                              \
	X(busy)    /* of failed, refused and lost, by what the server said */                                              \
	X(denied)                                                                                                          \
	X(taken_over)                                                                                                      \
	X(boots)                                                                                                           \
	X(pauses)    /* back-offs begun; attempts are never more than boots and pauses */                                  \
	X(reports)   /* messages made */                                                                                   \
	X(telemetry) /* sent at QoS 0 */                                                                                   \
	X(missed)    /* telemetry that found no connection */                                                              \
	X(sent)      /* QoS 1 messages, each once */                                                                       \
	X(resent)                                                                                                          \
	X(acked)                                                                                                           \
	X(nacked)  /* events given up, since the server refused them */                                                    \
	X(retried) /* safety messages that were refused, each time */                                                      \
	X(dropped) /* messages that found a full memory, or made room in it */                                             \
	X(commands)                                                                                                        \
	X(subscribed)                                                                                                      \
	X(sub_refused)                                                                                                     \
	X(pings)                                                                                                           \
	X(pongs)                                                                                                           \
	X(protocol_errors)

typedef struct FlFleetCounters
{
#define X(name) uint64_t name;
	FL_FLEET_COUNTERS(X)
#undef X
} FlFleetCounters;

/* One herd's report; only that herd writes it. */
typedef struct FlFleetResult
{
	FlFleetCounters n;
	int64_t in_state[FL_DEVICE_STATES];
	int64_t silent;
	int64_t deaf;
	int64_t pending;                         /* QoS 1 messages without an acknowledgement */
	uint64_t pauses[FL_BACKOFF_MAX + 1][10]; /* FL_CAUSE_BROKEN: by failures before, and by tenth of the window */
	int most_failures;                       /* in a row, of any device */
	int done;                                /* commands carried out */
	uint64_t touched;                        /* devices that the last one concerned */
	FlHist ack;                              /* first sending to PUBACK */
	FlHist connack;                          /* connect() to CONNACK */
} FlFleetResult;

/* What the control input can ask for. */
typedef enum FlVerb
{
	FL_VERB_DROP, /* connections end without a word */
	FL_VERB_REBOOT,
	FL_VERB_SILENCE, /* devices neither send nor read */
	FL_VERB_DEAFEN,  /* "stop reading" */
	FL_VERB_RESUME,  /* ends silence and deafness */
	FL_VERB_BURST,   /* count messages at once */
	FL_VERB_PAUSE,   /* no more reports, connections stay */
	FL_VERB_GO,      /* reports again */
	FL_VERB_QUIT,    /* deliver what is pending, disconnect, end */
	FL_VERBS
} FlVerb;

typedef struct FlCommand
{
	FlVerb verb;
	int percent; /* of the devices that it can concern */
	int count;
} FlCommand;

/* ---- command.c ---- */

extern const char *const fl_verb_name[FL_VERBS];

/* Reads one line; false: it is no command. */
extern bool fl_command_parse(const char *line, FlCommand *out);

/* A herd. */
typedef struct FlHerd
{
	const FlFleetOptions *o;
	FlFleetResult *r;
	int index;
	int epfd;
	int control;
	FlDevice *devices;
	int ndevices;
	FlDevice **heap; /* all devices, the next one to be woken first */
	bool reporting;
	bool leaving; /* quit: what is pending is still delivered, until leave_at */
	int64_t leave_at;
	uint64_t rng; /* which devices a command concerns */
	FILE *truth;
} FlHerd;

/* Gives a device its habits, and has it boot within the boot time. */
extern void fl_device_init(FlHerd *h, FlDevice *d, int number);

/* Power off and on: a boot delay, a new phase, no memory of failures.  What is pending is kept, as in flash. */
extern void fl_device_reboot(FlHerd *h, FlDevice *d);

/* The connection has ended, for this reason: backs off. */
extern void fl_device_fail(FlHerd *h, FlDevice *d, FlCause cause);
extern void fl_device_leave(FlHerd *h, FlDevice *d);
extern void fl_device_set_silent(FlHerd *h, FlDevice *d, bool on);
extern void fl_device_set_deaf(FlHerd *h, FlDevice *d, bool on);
extern void fl_device_event(FlHerd *h, FlDevice *d, uint32_t events);

/* Does what is due.  Where it returns the time at which to call again (INT64_MAX: never). */
extern int64_t fl_device_turn(FlHerd *h, FlDevice *d, int64_t now);

/* Sends, or keeps what the socket does not take; false: the connection has failed. */
extern bool fl_device_send(FlHerd *h, FlDevice *d, const uint8_t *bytes, size_t len);

/* ---- message.c ---- */

/* Makes a message of a class chosen by weight, and sends or keeps it. */
extern void fl_message_report(FlHerd *h, FlDevice *d, int64_t now);

/* Sends what is queued, as far as window and socket allow; returns when a refused message wants to be tried again. */
extern int64_t fl_message_pump(FlHerd *h, FlDevice *d, int64_t now);
extern void fl_message_on_puback(FlHerd *h, FlDevice *d, uint16_t id, uint8_t code);

/* A new connection: sends again what was not acknowledged, with DUP where the server kept the session. */
extern void fl_message_resume(FlHerd *h, FlDevice *d, bool session_present);

/* Where a device's topics begin, without the last slash. */
extern void fl_message_base(const FlFleetOptions *o, int number, char *out, size_t size);

/* ---- truth.c ---- */
extern FILE *fl_fleet_truth_open(const char *name);
extern void fl_fleet_truth(FlHerd *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern void fl_fleet_truth_flush(FlHerd *h, int64_t now);

/* The E lines, and the end. */
extern void fl_fleet_truth_close(FlHerd *h);

/* ---- herd.c ---- */
extern void fl_herd_main(const FlFleetOptions *o, FlFleetResult *r, int index, int control);

/* Puts a device at its new place in the heap of timers. */
extern void fl_herd_wake(FlHerd *h, FlDevice *d, int64_t when);

/* ---- fleet_options.c ---- */
extern void fl_fleet_options_read(FlFleetOptions *o, int argc, char **argv);

/* Puts a number in the place of %d in a template. */
extern void fl_fleet_expand(char *out, size_t size, const char *template, int number);

/* calloc() or the end. */
extern void *fl_fleet_allocate(size_t count, size_t size);

#endif /* FL_FLEET_H */
