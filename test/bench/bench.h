/*-------------------------------------------------------------------------
 *
 * bench.h
 *		Types and functions that the files of fl_load share.
 *
 * One parent forks -j children.  Each child owns every j-th connection and one
 * epoll set; nothing is shared but one anonymous mapping (FlShared), through
 * which the parent announces phases and the children report.  Times are
 * nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share, so
 * that a time in a payload can be compared wherever it arrives.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_BENCH_H
#define FL_BENCH_H

#include "mq.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#define FL_MAX_PROCESSES 64
#define FL_MAX_WATCHED   16
#define FL_MAX_SECONDS   7200 /* of which the rate of each is kept */
#define FL_NAME_SIZE     256
#define FL_MAX_FILTERS   4

/* ---- hist.c: latencies, in nanoseconds, within 0.8 % ---- */

#define FL_HIST_SUB_BITS 7
#define FL_HIST_BUCKETS  ((64 - FL_HIST_SUB_BITS + 1) << FL_HIST_SUB_BITS)

typedef struct FlHist
{
	uint64_t count;
	uint64_t sum;
	uint64_t max;
	uint64_t bucket[FL_HIST_BUCKETS];
} FlHist;

extern void fl_hist_add(FlHist *h, int64_t value);
extern void fl_hist_merge(FlHist *into, const FlHist *from);

/* The value that a fraction of all values do not exceed; 0 when there are none. */
extern uint64_t fl_hist_quantile(const FlHist *h, double fraction);

/* ---- options.c ---- */

typedef enum FlPayloadKind
{
	FL_PAYLOAD_JSON,  /* a reading with values that wander */
	FL_PAYLOAD_RANDOM /* letters that no compressor likes */
} FlPayloadKind;

typedef struct FlOptions
{
	struct sockaddr_in server;
	bool tls;
	int sources; /* loopback addresses to connect from, 0: the kernel's choice */
	int processes;

	int version;
	int connections; /* publishers */
	int subscribers; /* numbered after the publishers */
	const char *sub_filter[FL_MAX_FILTERS]; /* templates: what each of them subscribes to, in one packet */
	int nsub_filters;
	int filters_each; /* how often a template with %m stands in it, with m from 0 */
	int sub_qos;
	const char *each_filter; /* template: each publisher subscribes to it; NULL: none */
	const char *client_id;   /* templates */
	const char *user;
	const char *password;
	const char *topic;
	bool clean;
	bool reconnect;
	bool resend; /* after a reconnect, what was not acknowledged */
	uint32_t session_expiry;
	int keep_alive;

	int connecting;      /* connects under way at once, over all processes */
	double connect_rate; /* per second over all processes, 0: as fast as possible */

	int qos;
	int window;
	bool alias;
	int size;
	FlPayloadKind payload;
	uint64_t seed;
	double rate;       /* messages per second over all connections, 0: closed loop */
	int64_t duration;  /* ns; 0: until messages are sent */
	int64_t warmup;    /* ns */
	uint64_t messages; /* 0: until duration is over */
	bool retain;
	int64_t ahead;     /* messages that publishers may be ahead of the slowest subscriber; 0: unlimited */
	int64_t drain;     /* ns to wait for what is outstanding */

	int64_t idle;   /* ns to stay connected before publishing or leaving */
	uint64_t await; /* ... or less, until so many messages have been received; 0: all of it */
	int storms;   /* times that all connections drop and come back */
	bool no_publish;

	pid_t watched[FL_MAX_WATCHED]; /* processes (with descendants) whose CPU and memory are sampled */
	int nwatched;
	const char *truth; /* file name, NULL: none */
	bool say_ready;
	bool json;
	bool quiet;
} FlOptions;

/* Fills *o or ends the program. */
extern void fl_options_read(FlOptions *o, int argc, char **argv);

/* Expands %d (connection number) and %m (what is counted within a connection) in a template, each once. */
extern void fl_template_expand(char *out, size_t size, const char *template, int number, uint64_t m);

/* ---- what parent and children share ---- */

typedef enum FlPhase
{
	FL_PHASE_CONNECT, /* connect all that is not connected, and subscribe */
	FL_PHASE_IDLE,    /* stay, answer, ping */
	FL_PHASE_DROP,    /* close all sockets at once without DISCONNECT */
	FL_PHASE_PUBLISH,
	FL_PHASE_LEAVE /* DISCONNECT and end */
} FlPhase;

typedef struct FlCounters
{
	uint64_t connected;      /* CONNACKs that accepted */
	uint64_t refused;        /* CONNACKs that did not */
	uint64_t connect_failed; /* attempts that got no CONNACK */
	uint64_t lost;           /* connections that ended without our doing */
	uint64_t sessions_present;
	uint64_t subscribed;
	uint64_t sub_refused;
	uint64_t sent; /* messages, each once */
	uint64_t resent;
	uint64_t forgotten;     /* unacknowledged when their connection broke, and not sent again (--no-resend) */
	uint64_t acked;         /* accepted: PUBACK, PUBCOMP, or at QoS 0 covered by a PINGRESP */
	uint64_t acked_in_span; /* those within the measured span */
	uint64_t nacked;        /* refused with a reason code */
	uint64_t unacked;       /* outstanding when the drain ended */
	uint64_t unsent;        /* due but not sent when the drain ended (open loop) */
	uint64_t received;
	uint64_t received_dup;
	uint64_t received_retained;
	uint64_t received_foreign; /* without our stamp */
	uint64_t pings;
	uint64_t pongs;
	uint64_t protocol_errors;
} FlCounters;

/* One child's report; only that child writes it. */
typedef struct FlResult
{
	int done_step;
	int64_t first_connect; /* of the last connect phase */
	int64_t last_connect;
	int64_t first_received; /* of all messages that came to it */
	int64_t last_received;
	int64_t span_begin; /* of the measured part of publishing */
	int64_t span_end;
	double self_cpu; /* seconds of CPU in the publish phase */
	FlCounters n;
	FlHist ack;                          /* from the scheduled or sent time to the acknowledgement */
	FlHist connack;                      /* from connect() to CONNACK */
	FlHist end_to_end;                   /* from the payload's time to its arrival */
	uint32_t per_second[FL_MAX_SECONDS]; /* acknowledgements in each second of publishing */
} FlResult;

typedef struct FlShared
{
	int step; /* rises with every phase; written by the parent, after the next two */
	FlPhase phase;
	int64_t begin;     /* when the phase begins */
	uint64_t all_sent; /* over all processes; kept only with --ahead */
	uint64_t all_received;
	FlResult result[];
} FlShared;

static inline int64_t
fl_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

#define FL_SECOND INT64_C(1000000000)
#define FL_MS     INT64_C(1000000)

/* ---- connections ---- */

typedef enum FlConnState
{
	FL_CONN_DOWN,        /* no socket */
	FL_CONN_CONNECTING,  /* connect() has not finished */
	FL_CONN_SHAKING,     /* TLS handshake */
	FL_CONN_GREETING,    /* CONNECT is sent, CONNACK awaited */
	FL_CONN_SUBSCRIBING, /* SUBSCRIBE is sent, SUBACK awaited */
	FL_CONN_READY
} FlConnState;

typedef enum FlSlotState
{
	FL_SLOT_FREE,
	FL_SLOT_SENT,    /* PUBLISH is sent, PUBACK or PUBREC awaited */
	FL_SLOT_RELEASED /* PUBREL is sent, PUBCOMP awaited */
} FlSlotState;

/* A message on its way. */
typedef struct FlSlot
{
	uint64_t seq;
	int64_t stamp; /* the time in its payload, from which its latency counts */
	uint16_t id;
	uint8_t state;
} FlSlot;

typedef struct FlConn
{
	int fd; /* -1: none */
	int number;
	FlConnState state;
	bool subscriber;
	bool want_write;  /* EPOLLOUT is armed */
	bool alias_known; /* the server has our topic's alias */
	bool ping_awaited;
	bool last_ping; /* ... which covers all QoS 0 messages */
	uint16_t next_id;
	uint16_t alias_maximum;
	int window; /* ours, or the server's Receive Maximum if that is less */
	int inflight;
	int64_t connect_began;
	int64_t retry_at; /* when DOWN: not before */
	int attempts;
	int64_t last_sent;  /* for keep-alive */
	uint64_t quota;     /* messages this connection sends in all; UINT64_MAX: no end */
	uint64_t due;       /* open loop: messages whose time has come */
	uint64_t seq;       /* messages sent so far */
	uint64_t confirmed; /* QoS 0: how many of them a PINGRESP has covered */
	FlSlot *slots;      /* slot_mask + 1 of them, found by id & slot_mask */
	unsigned slot_mask;
	char *topic;
	uint8_t *in; /* the beginning of a packet that has not arrived whole */
	size_t in_len;
	struct ssl_st *ssl; /* --tls */
	uint8_t *out; /* what the socket did not take */
	size_t out_len;
} FlConn;

#define FL_READ_SIZE  (1024 * 1024)
#define FL_WRITE_SIZE (256 * 1024)

/* A child. */
typedef struct FlProc
{
	const FlOptions *o;
	FlShared *shared;
	FlResult *r;
	int index;
	int epfd;
	FlConn *conns;
	int nconns;
	int npublishers; /* they come first in conns */
	int under_way;   /* connects not finished */
	int ready;
	int next_down;        /* where the search for one to connect goes on */
	int64_t next_connect; /* at a limited rate */
	bool connecting;      /* broken connections are to be set up again */

	/*
	 * Open loop at a high rate: the child wakes for what is due only, and finds acknowledgements then; when they came
	 * the kernel has noted.  Half of the wake-ups are saved, which at 5,000 messages a second are most of the cost.
	 */
	bool by_kernel_clock;
	int64_t clock_offset; /* CLOCK_REALTIME, which the kernel notes, less CLOCK_MONOTONIC */
	int64_t last_poll;    /* when sockets were looked at before */

	bool publishing;
	bool topic_changes; /* the topic's template has a %m */
	int64_t begin;      /* of publishing */
	int64_t measure_from;
	int64_t stop;       /* no message leaves after this; INT64_MAX: none */
	uint64_t scheduled; /* open loop: messages of this process that have become due */

	FILE *truth;
	uint64_t rng;
	uint8_t *rbuf;
	uint8_t *wbuf;
} FlProc;

/* ---- conn.c ---- */
extern void fl_conn_open(FlProc *p, FlConn *c);
extern void fl_conn_close(FlProc *p, FlConn *c);

/* A connection ended that we wanted: counts it and, where that is wished, has it come back later. */
extern void fl_conn_fail(FlProc *p, FlConn *c);

/* Sends, or keeps what the socket does not take; false: the connection has failed and is closed. */
extern bool fl_conn_send(FlProc *p, FlConn *c, const uint8_t *bytes, size_t len);
extern void fl_conn_want_write(FlProc *p, FlConn *c, bool on);
extern void fl_conn_ping(FlProc *p, FlConn *c);
extern void fl_conn_event(FlProc *p, FlConn *c, uint32_t events);

/* ---- tls.c ---- */
extern void fl_tls_begin(FlConn *c);

/* 1: done; 0: the socket has to be waited for; -1: failed, see errno. */
extern int fl_tls_shake(FlConn *c);

/* As send() and recv(). */
extern ssize_t fl_tls_send(FlConn *c, const uint8_t *bytes, size_t len);
extern ssize_t fl_tls_recv(FlConn *c, uint8_t *into, size_t size);
extern void fl_tls_end(FlConn *c);

/* ---- publish.c ---- */
extern void fl_publish_prepare(FlProc *p);

/* Sends as many messages as window, schedule and socket allow. */
extern void fl_publish_pump(FlProc *p, FlConn *c);

/* Marks messages due whose time has come, sends them, and returns when the next one is due. */
extern int64_t fl_publish_schedule(FlProc *p, int64_t now);
extern void fl_publish_on_ack(FlProc *p, FlConn *c, FlMqType type, uint16_t id, uint8_t code, int64_t now);
extern void fl_publish_on_pong(FlProc *p, FlConn *c);

/* After a reconnect: sends again what was not acknowledged (MQTT-4.4.0-1). */
extern void fl_publish_resume(FlProc *p, FlConn *c, bool session_present);

/* True when nothing more is to be sent by a connection. */
extern bool fl_publish_is_over(FlProc *p, const FlConn *c);

/* ---- payload.c ---- */

/* Longest stamp, and therefore the smallest payload: 16 digits of time, 6 of the connection, 10 of the sequence. */
#define FL_STAMP_SIZE 48

/* Makes the payload of message seq of a connection: the same bytes for the same arguments. */
extern void fl_payload_make(const FlOptions *o, uint8_t *out, int number, uint64_t seq, int64_t stamp);

/* Reads the stamp back; false when the payload is none of ours. */
extern bool fl_payload_read(const uint8_t *payload, size_t len, int *number, uint64_t *seq, int64_t *stamp);

/* splitmix64: one step. */
extern uint64_t fl_random(uint64_t *state);

/* ---- proc.c ---- */
extern void fl_proc_main(const FlOptions *o, FlShared *shared, int index);

/* ---- sample.c ---- */

typedef struct FlProcessSample
{
	pid_t pid;
	char name[FL_NAME_SIZE];
	double cpu;        /* seconds, user and system, all threads */
	int64_t rss;       /* bytes */
	int64_t anonymous; /* bytes of memory of its own: no shared memory, no files */
	int64_t written;   /* bytes handed to the block layer; -1: not readable */
} FlProcessSample;

typedef struct FlSample
{
	int count;
	FlProcessSample *process;
} FlSample;

/* Looks at all watched processes and their descendants; memory only when asked, since that takes a while. */
extern void fl_sample_take(FlSample *s, const FlOptions *o, bool memory);
extern const FlProcessSample *fl_sample_find(const FlSample *s, pid_t pid);

/* ---- truth.c: one line for each message acknowledged, sent again, or received ---- */
extern FILE *fl_truth_open(const char *name);
extern void fl_truth_acked(FlProc *p, const FlConn *c, const FlSlot *slot, int64_t now);
extern void fl_truth_resent(FlProc *p, const FlConn *c, const FlSlot *slot, bool dup);
extern void fl_truth_received(FlProc *p, const FlConn *c, const FlMqPublish *m, int number, uint64_t seq, int64_t now);

/* Hands what is buffered to the kernel, ten times a second at most. */
extern void fl_truth_flush(FlProc *p, int64_t now);
extern void fl_truth_close(FlProc *p);

/* ---- report.c ---- */

/* What the parent saw, phase by phase. */
typedef struct FlStory
{
	FlSample before;    /* before the first connect */
	FlSample connected; /* all connected, idle time over */
	FlSample publish_begin;
	FlSample publish_end;
	FlSample after; /* after the storms and all publishing */
	double connect_seconds;
	double connect_cpu; /* of all watched processes */
	double storm_seconds[32];
	double publish_seconds; /* wall time between the two samples */
	int64_t span_begin;
	int64_t span_end;
} FlStory;

extern void fl_report_print(const FlOptions *o, const FlShared *shared, const FlStory *story);

/* True when everything that was asked for happened: nothing lost, refused or left over. */
extern bool fl_report_is_clean(const FlOptions *o, const FlShared *shared);

#endif /* FL_BENCH_H */
