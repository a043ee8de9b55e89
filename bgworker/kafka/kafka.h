/*
 * kafka.h
 *		What the files of the Kafka door share among themselves.
 *
 * One FlKafkaDoor in one process, one FlKafkaConn per client, one FlKafkaRequest
 * per request that is not answered yet.  Nothing here is shared with other
 * processes, so nothing here has a lock.
 *
 *	door.c			the worker's loop; errors; settings reloaded; shutdown
 *	connection.c	frames in, answers out in the order of requests, closing
 *	dispatch.c		the table of handlers; ApiVersions
 *	request.c		the life of a request: parked, timed, answered
 *	produce.c		Produce
 *	producer_ids.c	InitProducerId
 *	topics.c		streams by topic name and id; shards as partitions
 *	rights.c		what a client may see, read and write
 *	sasl.c			log-ins: SaslHandshake, SaslAuthenticate, tokens (login.h)
 *	login.c			who a client is: passwords, certificates, registration, revocation
 *	metadata.c		Metadata, DescribeCluster
 *	reads.h			Fetch, ListOffsets, OffsetForLeaderEpoch
 *	settings.c		settings
 *	log.c			log lines that do not flood
 *
 * How to add an API
 *
 *		static void
 *		handle_heartbeat(FlKafkaRequest *req)
 *		{
 *			FlKafkaHeartbeatRequest *in = req->message;
 *			FlKafkaHeartbeatResponse out;
 *
 *			fl_kafka_init_heartbeat_response(&out);
 *			out.error_code = ...;
 *			fl_kafka_answer(req, &out);
 *		}
 *
 * and a line in dispatch.c.  A handler answers at once, or later (fl_kafka_park),
 * or cannot take the request now and wants to see it again (fl_kafka_defer), or
 * closes the connection (fl_kafka_close).  It runs in the request's memory
 * context, which lives until the end of the turn in which the request ends.
 */
#ifndef FLEETLOG_KAFKA_PRIVATE_H
#define FLEETLOG_KAFKA_PRIVATE_H

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "fleetlog/catalog.h"
#include "fleetlog/ingest.h"
#include "fleetlog/kafka_admin.h"
#include "fleetlog/kafka_apis.h"
#include "fleetlog/kafka_data.h"
#include "fleetlog/kafka_errors.h"
#include "fleetlog/kafka_group.h"
#include "fleetlog/kafka_session.h"
#include "fleetlog/log.h"
#include "fleetlog/net.h"
#include "fleetlog/shmem.h"
#include "fleetlog/timer.h"

/* ---- limits that are no settings ---- */

#define FL_KAFKA_NODE_ID        1             /* we are the only broker there is */
#define FL_KAFKA_MAX_LOGIN      65536         /* bytes of a frame before login */
#define FL_KAFKA_MAX_PIPELINED  64            /* Produce requests of a connection under way */
#define FL_KAFKA_MAX_ANSWER     (192 << 20)   /* bytes of an answer: the largest batch there is, and the rest */
#define FL_KAFKA_PENDING        (256 * 1024)  /* unsent bytes at which a connection is read no further */
#define FL_KAFKA_IDLE_MS        (10 * 60000)  /* a connection without a request for so long is closed, as Kafka does */
#define FL_KAFKA_TOPIC_MAX      249           /* bytes of a topic's name */
#define FL_KAFKA_RETRY_MS       20            /* for what waits without being woken */

/* ---- settings (settings.c) ---- */

extern char *fl_kafka_listen;
extern char *fl_kafkas_listen;
extern char *fl_kafka_advertised;
extern int fl_kafka_max_request_kb;
extern int fl_kafka_max_fetch_kb;

/* Owned by the MQTT door's settings; they mean both doors. */
extern bool fl_mqtt_allow_anonymous;
extern int fl_mqtt_connect_timeout_s;
extern int fl_mqtt_buffer_memory_mb;

/* ---- the door ---- */

typedef struct FlKafkaDoor FlKafkaDoor;
typedef struct FlKafkaConn FlKafkaConn;
typedef struct FlKafkaRequest FlKafkaRequest;

/* A timer that calls; zeroed memory with `fire` set is one that is not armed. */
typedef struct FlKafkaTimer
{
	FlTimer timer; /* must come first */
	void (*fire)(struct FlKafkaTimer *timer);
	void *arg;
} FlKafkaTimer;

/* A stream as Kafka's clients know it. */
typedef struct FlKafkaTopic
{
	const char *name;
	Oid stream;
} FlKafkaTopic;

struct FlKafkaDoor
{
	int index;
	MemoryContext context; /* of the door */
	MemoryContext turn;    /* reset behind every turn */
	FlAllocator alloc;     /* in context */
	FlNetLoop *net;
	FlIngest *ingest;
	FlTimerWheel wheel;
	FlBuf out; /* scratch: the answer that is being made */
	FlKafkaConn *current; /* whose request is being worked on; NULL: nobody's */
	dlist_head full;      /* connections whose request waits for room in ingest */
	dlist_head dead;      /* requests that have ended, to be freed behind the turn */
	bool poll;            /* ask the sockets in the next turn */
	bool stopping;
	int64 next_stats_ms;
	uint64 news; /* fl_shared->catalog_generation as it was seen */
	int64 news_due_ms;

	/* login.c */
	dlist_head logins; /* FlKafkaLogin that wait for the authentication worker */
	int nlogins;
	uint64 revocations; /* cursor */
	uint64 roles_version;

	/* topics.c */
	MemoryContext topics_context;
	uint64 topics_version; /* fl_catalog_version of what follows */
	int ntopics;
	FlKafkaTopic *topics; /* by name */
};

extern FlKafkaDoor *fl_kafka_door;

struct FlKafkaConn
{
	FlNetConn net; /* must come first */
	FlKafkaDoor *door;
	uint64 id;
	bool anonymous;    /* it need not log in */
	bool admitted;     /* it may ask for more than versions and a log-in */
	bool used;         /* it has: who it is does not change any more */
	bool registered;   /* it stands in the registry of connections */
	bool tls_tried;    /* whom TLS has proved it to be was looked at */
	bool raw_tokens;   /* its frames are tokens, until it is logged in */
	bool stats_dirty;
	bool blocked;      /* the next request waits for those before it */
	bool full;         /* in door->full */
	bool out_paused;   /* it does not read its answers */
	int64 stalled_ms;  /* since when it has taken nothing, where that was looked at (reads.c) */
	uint64 stalled_at; /* ... and how many bytes it had by then */
	Oid fetch_first;   /* partition that the next Fetch begins with, if it names it (fetch.c) */
	int32 fetch_first_shard;
	int nrequests;
	dlist_head requests; /* FlKafkaRequest, oldest first: not answered, or answered behind one that is not */
	dlist_node full_node;
	FlIdentity *identity; /* NULL: anonymous */
	struct FlKafkaLogin *login; /* under way (login.h); NULL: none */
	const char *tls_why;        /* why TLS has not proved it to be anybody; constant */
	TimestampTz expires;        /* its credential; DT_NOEND: never */
	TimestampTz connected_at;
	char *client_id;            /* NULL: not known yet */
	char *software;             /* name/version; NULL: it has not said */
	uint64 requests_in;
	uint64 answers_out;
};

/* ---- requests ---- */

typedef void (*FlKafkaHandler)(FlKafkaRequest *req);

/* How a handler wants its requests. */
#define FL_KAFKA_OPEN     0x01 /* also before login */
#define FL_KAFKA_OVERLAPS 0x02 /* may be handled while earlier ones of this kind are parked */
#define FL_KAFKA_KEEPS    0x04 /* message stays good while the request is parked: its frame is copied */

typedef struct FlKafkaEntry
{
	int16 key;
	uint8 flags;
	FlKafkaHandler handler;
} FlKafkaEntry;

struct FlKafkaRequest
{
	dlist_node node; /* in conn->requests, then in door->dead */
	FlKafkaDoor *door;
	FlKafkaConn *conn; /* NULL once the connection has gone */
	const FlKafkaEntry *entry;
	const FlKafkaApi *api;
	int16 version;
	int32 correlation_id;
	FlKafkaBytes client_id; /* good as long as message is */
	void *message;          /* the decoded request; good while the handler runs, or see FL_KAFKA_KEEPS */
	MemoryContext memory;   /* this struct, and what the handler allocates */

	/* of a parked request */
	bool parked;
	void *state;                        /* the handler's */
	void (*on_end)(FlKafkaRequest *req); /* it will not be answered any more: forget it */
	void (*on_timer)(FlKafkaRequest *req);
	FlKafkaTimer timer;

	bool deferred;
	bool done;
	uint8 *answer; /* waits for earlier ones; NULL: nothing is to be sent */
	Size answer_len;
};

/*
 * Not now: the handler has kept what it needs in req->state, and will answer
 * later.  on_end is called if the connection goes first; it must not answer.
 * Until the answer no other request of the connection is handled, unless both
 * overlap.
 */
extern void fl_kafka_park(FlKafkaRequest *req, void *state, void (*on_end)(FlKafkaRequest *req));

/* Call on_timer in so many milliseconds, once; a parked request has one timer. */
extern void fl_kafka_set_timer(FlKafkaRequest *req, int64 in_ms, void (*on_timer)(FlKafkaRequest *req));

/* The request is answered by this struct (of the API's response message), and ends. */
extern void fl_kafka_answer(FlKafkaRequest *req, const void *response);

/* Where batches belong in the frame that is being made, in its order; the response's FlKafkaRecords.place notes it. */
typedef struct FlKafkaPlace
{
	size_t at;
	FlNetChain *chain;
} FlKafkaPlace;

typedef struct FlKafkaPlaces
{
	FlKafkaPlace *items;
	int n;
	size_t bytes; /* in their chains */
} FlKafkaPlaces;

/* The same, of an API whose requests do not overlap.  Chains that are sent are empty then. */
extern void fl_kafka_answer_places(FlKafkaRequest *req, const void *response, const FlKafkaPlaces *places);

/* The request ends without an answer (acks=0). */
extern void fl_kafka_answer_nothing(FlKafkaRequest *req);

/*
 * The handler can do nothing now, for want of room in ingest, and has done
 * nothing: the same request is presented again.
 */
extern void fl_kafka_defer(FlKafkaRequest *req);

/* The whole frame of an answer is in door->out. */
extern void fl_kafka_answer_frame(FlKafkaRequest *req);

/* ... of a dead connection, or one that was answered. */
extern void fl_kafka_end_request(FlKafkaRequest *req);
extern void fl_kafka_free_dead(FlKafkaDoor *door);

extern FlKafkaRequest *fl_kafka_create_request(FlKafkaConn *conn, const FlKafkaEntry *entry,
											   const FlKafkaRequestHeader *header, const uint8 *frame, Size len);

/* ---- connections (connection.c) ---- */

extern const FlNetProtocol fl_kafka_protocol;

/* Close at once; `why` is constant, and is logged with the peer's name when the peer is at fault. */
extern void fl_kafka_close(FlKafkaConn *conn, const char *why);
extern void fl_kafka_refuse(FlKafkaConn *conn, const char *why);

/* An answer has left the list: send what was waiting for it, and read on. */
extern void fl_kafka_send_ready(FlKafkaConn *conn);
extern void fl_kafka_retry_full(FlKafkaDoor *door);

/* Read it again, where nothing else keeps it from that. */
extern void fl_kafka_read_on(FlKafkaConn *conn);

/* ---- the table (dispatch.c) ---- */

/* NULL: not served. */
extern const FlKafkaEntry *fl_kafka_entry(int16 key);

/* ---- the door (door.c) ---- */

/*
 * The transaction of the turn, in which the catalog and the log may be read; it
 * takes no id and ends with the turn.  Whoever writes ends it first, and runs
 * one of his own.
 */
extern void fl_kafka_begin_transaction(FlKafkaDoor *door);
extern void fl_kafka_end_transaction(FlKafkaDoor *door);

/* The catalog as it is now; what lookups have returned stays good until the transaction ends. */
extern void fl_kafka_refresh_catalog(FlKafkaDoor *door);

/* A timer of whatever is no request; in_ms < 0 takes it away. */
extern void fl_kafka_arm(FlKafkaDoor *door, FlKafkaTimer *timer, int64 in_ms);

/* ---- topics (topics.c) ---- */

/* Is it a name that Kafka allows?  Whether there is such a topic is another matter. */
extern bool fl_kafka_topic_is_legal(FlKafkaBytes name);

/*
 * The stream of a topic, NULL: none.  In a transaction.  What it returns is good
 * until the end of the turn.
 */
extern const FlStreamInfo *fl_kafka_find_topic(FlKafkaDoor *door, FlKafkaBytes name);
extern const FlStreamInfo *fl_kafka_find_topic_id(FlKafkaDoor *door, const FlKafkaUuid *id);

/* The name under which clients know the stream; NULL: it cannot be named to them, or is none of theirs. */
extern const char *fl_kafka_topic_name(FlKafkaDoor *door, Oid stream);

/* All topics by name. */
extern const FlKafkaTopic *fl_kafka_topics(FlKafkaDoor *door, int *count);

/* A number that stays with the stream over restarts and failovers, and is no other stream's. */
extern void fl_kafka_topic_id(Oid stream, FlKafkaUuid *id);

/* The epoch of the shard's leader, which is in its batches; in a transaction. */
extern int32 fl_kafka_leader_epoch(Oid stream, int32 shard);

/* ---- rights (rights.c) ---- */

/* May the connection read, or write, the stream?  No transaction. */
extern bool fl_kafka_may_read(FlKafkaConn *conn, const FlStreamInfo *stream);
extern bool fl_kafka_may_write(FlKafkaConn *conn, const FlStreamInfo *stream);

/*
 * May it write this record into a stream that it may write?  NULL: yes; else why not, a
 * constant text.  It is asked for devices, whose key is the topic.
 */
extern const char *fl_kafka_may_write_record(const FlKafkaConn *conn, Oid stream, const uint8 *key, int32 key_len,
											 int32 value_len);
/* May it write into some stream?  Kafka's IDEMPOTENT_WRITE, which is implied by that.  In a transaction. */
extern bool fl_kafka_may_write_any(FlKafkaConn *conn);

extern bool fl_kafka_may_describe(FlKafkaConn *conn, const FlStreamInfo *stream);

/* ---- where clients are told to go (metadata.c) ---- */

typedef struct FlKafkaAddress
{
	char host[256];
	int port;
} FlKafkaAddress;

/* The address that was set for the listener, or the one that the client came to. */
extern void fl_kafka_advertised_address(FlKafkaConn *conn, FlKafkaAddress *out);
extern const char *fl_kafka_cluster_id(void);

/* ---- handlers ---- */

extern void fl_kafka_handle_api_versions(FlKafkaRequest *req);
extern void fl_kafka_handle_sasl_handshake(FlKafkaRequest *req);
extern void fl_kafka_handle_sasl_authenticate(FlKafkaRequest *req);
extern void fl_kafka_handle_metadata(FlKafkaRequest *req);
extern void fl_kafka_handle_describe_cluster(FlKafkaRequest *req);

/* ---- produce.c ---- */

extern void fl_kafka_handle_produce(FlKafkaRequest *req);

extern void fl_kafka_handle_init_producer_id(FlKafkaRequest *req);

extern bool fl_kafka_ingest_done(void *arg, uint64 conn_id, uint64 cookie, FlError err, Oid stream, int32 shard,
								 int64 log_offset);

/* ---- log.c ---- */

/* May another line about the peers' mistakes be written?  A few a second, and how many were left out. */
typedef enum FlKafkaLogKind
{
	FL_KAFKA_LOG_MISTAKE, /* what fl_kafka_log_allowed asks for */
	FL_KAFKA_LOG_LOGIN,   /* refused log-ins */
	FL_KAFKA_LOG_END,     /* connections that are ended: revoked, disconnected */
	FL_KAFKA_LOG_KINDS
} FlKafkaLogKind;

extern bool fl_kafka_log_allowed(FlKafkaDoor *door);
extern bool fl_kafka_log_allowed_of(FlKafkaDoor *door, FlKafkaLogKind kind);

/* ---- settings.c ---- */

/* "host:port" or "[v6]:port" of an advertised address for the port that the client came to; false: none is set. */
extern bool fl_kafka_find_advertised(int local_port, FlKafkaAddress *out);

#endif /* FLEETLOG_KAFKA_PRIVATE_H */
