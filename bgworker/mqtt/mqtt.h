/*
 * mqtt.h
 *		What the files of the MQTT front door share among themselves.
 *
 * One FlMqttDoor per worker, one FlMqttConn per client.  Who may touch what:
 * everything here belongs to one process and one thread; nothing is shared.
 *
 *	door.c			the worker's loop; errors; settings reloaded; shutdown
 *	connection.c	the state machine: packets in, states, closing
 *	connect.c		CONNECT: checks, login, takeover, CONNACK
 *	publish.c		PUBLISH in: rights, mount, record, acknowledgement
 *	qos2.c			QoS 2 in: identifiers received and not released yet
 *	headers.c		properties to record headers
 *	subscribe.c		SUBSCRIBE, UNSUBSCRIBE and the rights behind them
 *	message.c		a record as a message: topic, properties, sharing
 *	deliver.c		messages out: queue, packet identifiers, sizes
 *	feed.c			the log up to the durable tail, matched once
 *	catchup.c		connections that read the log at their own pace
 *	reading.c		what the reader does for those who are far behind
 *	pass.c			the reader: one pass over the log for all of them
 *	history.c		subscriptions that begin in the past
 *	position.c		positions and losses told to subscribers
 *	share.c			shared subscriptions
 *	memory.c		topics that no stream keeps
 *	session.c		sessions that outlive their connection
 *	registry.c		the shared registry: takeover, counters, revocation
 *	retained.c		values in force, sent when a subscription is made
 *	who.c			who a connection is, packed (login.h)
 *	scram.c			logging in without sending the password (AUTH; login.h)
 *	secure.c		who a connection is by TLS: certificate, pre-shared key (login.h)
 *	will.c			will messages
 *	command.c		commands to devices: envelope and receipts
 *	sys.c			$SYS: the server's numbers as topics
 *	log.c			log lines that do not flood (log.h)
 */
#ifndef FLEETLOG_MQTT_PRIVATE_H
#define FLEETLOG_MQTT_PRIVATE_H

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "fleetlog/auth.h"
#include "fleetlog/catalog.h"
#include "fleetlog/headers.h"
#include "fleetlog/history.h"
#include "fleetlog/ingest.h"
#include "fleetlog/log.h"
#include "fleetlog/memory_topic.h"
#include "fleetlog/mount_stat.h"
#include "fleetlog/mqtt_packet.h"
#include "fleetlog/net.h"
#include "fleetlog/session.h"
#include "fleetlog/settings.h"
#include "fleetlog/share.h"
#include "fleetlog/shmem.h"

#include "log.h"
#include "login.h"
#include "trie.h"

/* ---- limits that are no settings ---- */

#define FL_MQTT_MAX_CONNECT      131072       /* bytes of a CONNECT, before login */
#define FL_MQTT_DEFAULT_PACKET   1048576      /* fleetlog.max_packet_size, unless set */
#define FL_MQTT_ROOMY_PACKET     64           /* a client that allows packets of so many bytes can be told more */
#define FL_MQTT_RECORD_SLACK     2048         /* what headers of ours may add to a record */
#define FL_MQTT_MAX_CLIENT_ID    1024         /* bytes of a client identifier */
#define FL_MQTT_PENDING_SOFT     (64 * 1024)  /* unsent bytes at which QoS 1 waits */
#define FL_MQTT_PENDING_HARD     (256 * 1024) /* ... beyond max_queued_size: not read any more */
#define FL_MQTT_LOGIN_QUEUE      4096         /* logins that wait for the authentication worker */
#define FL_MQTT_TAKEOVER_MS      10000        /* for the other connection to go */
#define FL_MQTT_TAKEOVER_POLL_MS 20
#define FL_MQTT_NEWS_MS          2000 /* within which invalidations come after they were announced */
#define FL_MQTT_FEED_RECORDS     4096 /* per feed and turn */
#define FL_MQTT_FEED_PAGES       2048 /* likewise, where there is nothing on them */
#define FL_MQTT_CATCHUP_PAGES    256  /* per shard of a lagging connection, or group, and turn */
#define FL_MQTT_CATCHUP_RECORDS  4096 /* over all lagging connections and turn */
#define FL_MQTT_CATCHUP_BYTES    (1024 * 1024) /* of stored batches, likewise */
#define FL_MQTT_CATCHUP_US       3000 /* after which a turn reads no further for them, */
#define FL_MQTT_CATCHUP_BUSY_US  500  /* and while others publish, */
#define FL_MQTT_BUSY_MS          20   /* or did so lately */
#define FL_MQTT_CATCHUP_QUEUE    64   /* messages a lagging connection keeps at hand */
#define FL_MQTT_EVICTIONS        64   /* per call of the registry */
#define FL_MQTT_RETAINED_ROWS    512  /* rows of state tables looked at in a turn */

/* ---- settings (settings.c) ---- */

typedef enum FlMqtt3Refusal
{
	FL_MQTT3_CLOSE,      /* a refused QoS 1 PUBLISH of 3.x ends the connection */
	FL_MQTT3_ACKNOWLEDGE /* it is acknowledged and dropped */
} FlMqtt3Refusal;

/* docs/mqtt.md, "Dialects", says what each of them answers. */
typedef enum FlMqttDialect
{
	FL_MQTT_DIALECT_LENIENT,   /* what harms nobody is borne */
	FL_MQTT_DIALECT_STRICT,    /* the letter of the standard */
	FL_MQTT_DIALECT_MOSQUITTO, /* byte by byte as Mosquitto 2.0.20 */
	FL_MQTT_DIALECT_PAHO       /* lenient, in codes that the Paho suite can read */
} FlMqttDialect;

extern char *fl_mqtt_listen;
extern char *fl_mqtts_listen;
extern char *fl_ws_listen;
extern char *fl_wss_listen;
extern bool fl_mqtt_allow_anonymous;
extern int fl_mqtt_connect_timeout_s;
extern int fl_mqtt_max_packet_bytes;
extern int fl_mqtt_max_inflight;
extern int fl_mqtt_max_unreleased;
extern int fl_mqtt_max_keep_alive_s;
extern int fl_mqtt_max_topic_aliases;
extern char *fl_mqtt_server_reference; /* never NULL */
extern int fl_mqtt_max_topic_levels;
extern int fl_mqtt_max_queued_messages;
extern int fl_mqtt_max_queued_kb;
extern int fl_mqtt_buffer_memory_mb;
extern int fl_mqtt3_refusal;
extern int fl_mqtt_dialect; /* FlMqttDialect */
extern bool fl_mqtt_reason_strings;
extern int fl_mqtt_sys_interval_s; /* 0: no $SYS */

/* ---- connection ---- */

/* bgworker/mqtt/README.md has the picture. */
typedef enum FlMqttState
{
	FL_MQTT_STATE_NEW,            /* waiting for CONNECT, CONNECT timeout runs */
	FL_MQTT_STATE_AUTHENTICATING, /* the password is being checked elsewhere */
	FL_MQTT_STATE_TAKING_OVER,    /* another connection of this client has to go first */
	FL_MQTT_STATE_OPENING,        /* its session is looked up, and written */
	FL_MQTT_STATE_OPEN,           /* CONNACK was sent */
	FL_MQTT_STATE_CLOSED          /* on_close was called; nothing is sent any more */
} FlMqttState;

typedef struct FlMqttDoor FlMqttDoor;
typedef struct FlMqttConn FlMqttConn;
typedef struct FlMqttMessage FlMqttMessage;
typedef struct FlMqttShare FlMqttShare;
typedef struct FlMqttSys FlMqttSys;

/* A CONNECT that waits for login or takeover: its bytes, to be decoded again. */
typedef struct FlMqttPending
{
	int64 since_ms;
	bool assigned;       /* the client id is ours */
	bool queued;         /* in door->logins */
	bool certificate;    /* it logs in by the certificate of its connection */
	bool session_present;
	FlIdentity identity; /* valid from TAKING_OVER on */
	Size len;
	uint8 bytes[FLEXIBLE_ARRAY_MEMBER];
} FlMqttPending;

typedef struct FlMqttWillMessage
{
	uint8 qos;
	uint8 version;
	bool stored;   /* its session keeps it, too */
	uint32 number; /* ... under this number */
	uint32 len; /* of a PUBLISH of that version */
	uint8 bytes[FLEXIBLE_ARRAY_MEMBER];
} FlMqttWillMessage;

/* Where a filter begins in a shard, when that is beyond the place of its connection. */
typedef struct FlMqttBegin
{
	int64 at;    /* records below are not for it; 0: none is kept from it */
	int64 asked; /* ... and below this one never were */
	uint32 pass; /* when it was noted: how often the connection had been set back; 0: by the subscription itself */
} FlMqttBegin;

/* A subscription: one filter of one connection. */
typedef struct FlMqttFilter
{
	dlist_node node; /* in its subscriber's list */
	FlMqttConn *conn;
	TimestampTz since; /* records appended before it are not for it */
	FlMqttBegin *starts; /* by feed; NULL: nothing is noted */
	int start_count;
	uint32 id; /* subscription identifier, 0 = none */
	uint8 qos;
	uint8 position; /* FlMqttPositionWish */
	bool end_on_drop;
	bool sought; /* it began in the past: what an earlier connection was sent is for it again */
	bool no_local;
	bool as_published;
	bool wildcard;
	FlMqttShare *share; /* NULL: not a shared subscription */
	dlist_node share_node;
	uint16 skip; /* of text: what stands before the topic filter, `$share/group/` or `$s/from/` */
	uint16 len;
	uint8 text[FLEXIBLE_ARRAY_MEMBER];
} FlMqttFilter;

typedef struct FlMqttIds
{
	uint32 count;
	uint32 id[FLEXIBLE_ARRAY_MEMBER];
} FlMqttIds;

/* How far a delivery is (MQTT-4.3.2, MQTT-4.3.3). */
typedef enum FlMqttSentState
{
	FL_MQTT_SENT_QOS1,      /* PUBACK is awaited */
	FL_MQTT_SENT_WRITING,   /* of a session at QoS 2: it is being written, or was, and has not left */
	FL_MQTT_SENT_QOS2,      /* PUBREC is awaited */
	FL_MQTT_SENT_RELEASING, /* PUBREC came, and is being written */
	FL_MQTT_SENT_RELEASED   /* PUBREC came, PUBREL was sent, PUBCOMP is awaited */
} FlMqttSentState;

typedef struct FlMqttSent
{
	int64 log_offset;
	int feed; /* whose record it is; -1: its stream is gone */
	uint16 id;
	uint8 state; /* FlMqttSentState */
	bool retain;
	bool aside; /* it moves no mark: a retained value, a group's, or ahead of where the session looks back to */
	bool shared; /* a group gave it, and no other member is to have it at QoS 2 */
	bool noted;  /* of a group: a checkpoint of the session has it */
	bool released_again; /* in an earlier connection: it takes nothing of the quota of this one */
	FlSharePlace *place; /* of a shared subscription, else NULL */
	uint64 generation;   /* of place */
} FlMqttSent;

/* Does a delivery tell its position (position.c)? */
typedef enum FlMqttPositionWish
{
	FL_MQTT_POSITION_OFF,
	FL_MQTT_POSITION_ON,
	FL_MQTT_POSITION_WITH_STREAM /* its subscription reaches several */
} FlMqttPositionWish;

/* How a message is to be delivered to one subscriber. */
typedef struct FlMqttHow
{
	uint8 qos;
	bool retain;
	uint8 position; /* FlMqttPositionWish */
	bool end_on_drop;
	bool shared; /* a group gives it */
	const uint32 *ids;
	uint32 id_count;
} FlMqttHow;

/* A delivery that waits for a packet identifier. */
typedef struct FlMqttQueued
{
	FlMqttMessage *message; /* counted reference */
	FlMqttIds *ids;         /* NULL = none */
	uint32 gap;             /* records that were lost before it */
	uint16 packet_id;       /* given before it leaves; 0: none */
	uint8 qos;              /* 1 or 2 */
	bool retain;
	bool no_mark;   /* no bookmark stands for it, nor may it move a mark */
	bool shared;    /* a group gave it */
	uint8 position; /* FlMqttPositionWish */
	uint32 pass;    /* how often the connection had been set back by then */
} FlMqttQueued;

typedef struct FlMqttAliases
{
	int max;
	FlMqttBytes topic[FLEXIBLE_ARRAY_MEMBER]; /* owned copies, by alias - 1 */
} FlMqttAliases;

/* What a connection needs only once it has subscribed. */
typedef struct FlMqttSubscriber
{
	dlist_head filters;
	uint32 filter_count;
	uint32 wildcard_count;
	uint64 mark;   /* number of the match that last found it */
	uint32 target; /* ... and its place among that match's targets */

	/* QoS 1 and 2 under way and waiting */
	uint16 next_packet_id;
	uint16 window; /* how many may be under way */
	uint16 inflight_count;
	uint16 inflight_cap;
	uint16 released_again; /* of those under way */
	FlMqttSent *inflight;
	FlMqttQueued *queue; /* a ring */
	uint32 queue_cap;
	uint32 queue_head;
	uint32 queue_len;
	Size queue_bytes;
	uint32 max_messages; /* that may wait */
	Size max_bytes;

	/* at QoS 2 of a session: so many of those that wait longest ... */
	uint32 writing; /* are on their way to the journal */
	uint32 written; /* have got there, and may leave */
	bool draining;  /* in door->draining */
	dlist_node drain_node;

	/* reading the log alone */
	bool lagging;
	dlist_node lag_node;
	FlMqttConn *conn;
	int cursor_count;
	int next_feed; /* which is read first the next time */
	FlLogPosition *cursors; /* by feed number; offset -1: to be found (fl_mqtt_find_start) */
	struct FlMqttAsk *asks; /* likewise; reading.h */
	int asks_open;
	bool parked;            /* in door->parked instead of door->lagging: it only waits for the reader */
	bool rewound;           /* some filter has noted where it begins, and that may matter */
	uint32 pass;            /* how often it has been set back */

	/* what it has lost and is to be told (position.c) */
	uint32 *gaps; /* by feed; NULL: nothing */
	int gap_count;
	bool ending; /* something was dropped, and it does not want to go on */
	uint8 trimmed; /* reads in a row that came too late */

	FlMqttAliases *aliases; /* of topics that were sent with one; NULL = none */
	/* of an earlier connection of the session (resume.c) */
	FlMqttSent *restored; /* deliveries to be sent again, in their order; NULL: none */
	int restored_count;
	int restored_next;
	int64 *exact; /* two per feed, for QoS 0 and 2: nothing below is sent at it but what was restored; NULL: none */
	int exact_count;
	bool resuming; /* what is restored is not complete: nothing may be written of it */
	int64 saved_ms; /* when the session's last checkpoint was written */
	uint64 saved_delivered;

	uint64 delivered;
	uint64 dropped;
} FlMqttSubscriber;

/* A QoS 2 message of the client, from its PUBLISH to its PUBREL (qos2.c). */
typedef enum FlMqttReceivedState
{
	FL_MQTT_RECEIVED_PENDING,  /* handed on, not known to be durable */
	FL_MQTT_RECEIVED_STORED,   /* durable, PUBREC was sent */
	FL_MQTT_RECEIVED_RESTORED, /* of an earlier connection: `from` says what is known of it */
	FL_MQTT_RECEIVED_RELEASING /* its release is being written, PUBCOMP follows */
} FlMqttReceivedState;

typedef struct FlMqttReceivedId
{
	uint16 id;
	uint8 state;        /* FlMqttReceivedState */
	bool counted;       /* in conn->unacked */
	FlSessionItem from; /* of a RESTORED one */
} FlMqttReceivedId;

typedef struct FlMqttReceived
{
	uint16 count;
	uint16 cap;
	FlMqttReceivedId ids[FLEXIBLE_ARRAY_MEMBER];
} FlMqttReceived;

struct FlMqttConn
{
	FlNetConn net; /* must come first */
	FlMqttDoor *door;
	FlMqttWho *who;         /* from login on */
	FlMqttPending *pending; /* until OPEN */
	FlMqttScram *scram; /* while it proves itself; NULL: it does not */
	FlMqttWillMessage *will;
	FlMqttAliases *aliases; /* of the client's topics */
	FlMqttReceived *received; /* NULL = none */
	FlMqttSubscriber *sub;
	uint64 id;
	FlConnKey key;        /* in the registry, when registered */
	FlSessionRef session; /* number 0: none that outlives the connection */
	uint32 session_expiry_s;
	uint16 session_pending; /* what was handed over for the session and has no answer yet */
	int64 last_packet_ms; /* the last packet from the client (MQTT-3.1.2-22) */
	dlist_node wait_node; /* in door->full, settling, taking_over, opening or logins */
	uint64 published_to;  /* fl_ingest_added behind its last PUBLISH; 0: none that a SUBSCRIBE would have to wait for */
	uint64 published;     /* PUBLISH received */
	uint64 packets_in;
	uint64 packets_out;
	uint32 max_packet;    /* the client's maximum packet size */
	uint32 max_in_packet; /* ours, as announced */
	uint16 receive_max;   /* the client's receive maximum */
	uint16 keep_alive_s;  /* in force, 0 = none */
	uint16 unacked;       /* PUBLISH of the client not yet acknowledged; of MQTT 5 at QoS 2: not complete */
	uint16 max_unacked;   /* what we announced as receive maximum */
	uint16 max_aliases;   /* of ours that the client takes */
	uint16 max_levels;    /* levels a topic of this client may have */
	uint8 state;          /* FlMqttState */
	uint8 version;        /* FlMqttVersion */
	bool registered;
	bool full;    /* in door->full or door->settling: it is read no further now */
	bool no_will; /* DISCONNECT 0x00 was received */
	bool stats_dirty;
	bool out_paused;  /* reading paused because the client reads no answers */
	bool acks_paused; /* reading paused because too much is unacknowledged */
	bool no_problem_info; /* nothing but CONNACK and DISCONNECT may tell it more than a reason code */
	uint8 end_reason;  /* reason code with which it ends; 0: there was none, or all is well */
	bool said_goodbye; /* ... and it came from the client, in DISCONNECT */
	bool end_logged;   /* its end has a line in the log, or was left out */
	bool session_ending;
	bool by_scram; /* it logged in by AUTH, and may do so again */
	bool session_writing; /* subscriptions are on their way to the journal */
	bool session_written; /* ... and have got there: the packet may be answered */
};

/* ---- messages ---- */

/*
 * A record as a message.  Transient ones borrow from the record; one that has
 * to wait is copied once and shared by all who wait for it.
 */
struct FlMqttMessage
{
	int refs;              /* 0: transient */
	Size size;             /* memory of a shared one */
	TimestampTz expires;   /* 0 = never */
	FlMountStat *mount;    /* counters of its mount; NULL: none */
	TimestampTz ts;        /* when it was appended */
	int64 log_offset;
	Oid stream;
	int32 shard;
	int32 epoch; /* -1: not known */
	int feed;    /* whose record it is; -1: of none that is read */
	bool aside;  /* it does not come by the feed: a retained value, or for a group */
	bool command; /* to a device */
	FlSharePlace *place; /* of the group that it is for; NULL: none */
	uint64 generation;   /* of place */
	FlMqttPublish publish; /* qos is that of the publisher */
	FlMqttBytes client_id; /* of the publisher, for No Local */
	FlMqttBytes tenant;
	FlMqttBytes device;
	FlMqttBytes role;
};

/* ---- feed ---- */

typedef struct FlMqttFeed
{
	Oid stream;
	int32 shard;
	bool wanted;       /* some filter can match a topic of its mounts */
	bool gone;         /* the stream is dropped or no longer mounted */
	FlShard *shared;   /* its tails; good while its key is ours */
	FlLogPosition pos; /* everything below has been delivered */
	int64 at;          /* the record that is being handed out, -1 = none: pos is beyond it */
	int64 retry_ms;    /* after an error, when to try again */
} FlMqttFeed;

typedef struct FlMqttTarget
{
	FlMqttConn *conn;
	uint8 qos; /* highest of its matching filters */
	bool as_published;
	bool end_on_drop;
	uint8 position;
	uint32 first_id; /* in door->ids, 0 = none */
	uint32 last_id;
	uint32 id_count;
} FlMqttTarget;

typedef struct FlMqttIdNode
{
	uint32 id;
	uint32 next; /* in door->ids, 0 = end */
} FlMqttIdNode;

/* ---- door ---- */

struct FlMqttConnTable_hash;

struct FlMqttDoor
{
	int index;
	MemoryContext context; /* the door's life */
	MemoryContext turn;    /* reset every turn */
	FlNetLoop *net;
	FlIngest *ingest;
	struct FlMqttConnTable_hash *conns;
	FlTrie *trie;
	bool stopping;
	bool poll;    /* ask the sockets in this turn */
	int sockets;  /* how many had something in the last one */
	int unwaited; /* turns since the last wait */
	int64 busy_ms; /* until then others may wait for this turn's end (fl_mqtt_is_busy) */

	dlist_head full; /* connections waiting for room in ingest */
	dlist_head settling; /* those whose SUBSCRIBE waits for what they have published before */
	dlist_head taking_over;
	dlist_head opening; /* those whose session cannot be looked up or written yet */
	struct HTAB *leaving; /* closed connections whose messages are under way */
	dlist_head logins; /* those whose login could not be begun yet */
	int login_count;
	dlist_head lagging;
	dlist_head parked; /* those of them that only wait for the reader */
	dlist_head draining; /* subscribers with something that has to be written before it leaves */
	dlist_head shares;  /* groups of shared subscriptions with members here */
	int share_count;
	uint64 share_turn;  /* number of the turn, to tell who was served in it */
	bool share_waiting; /* one waits for another door's turn */
	FlMemoryCursor memory_at; /* of topics that are carried in memory only */
	uint8 *memory_room;       /* NULL: nobody has subscribed to one yet */
	bool memory_wanted;       /* somebody subscribes to such topics */
	bool memory_published;    /* in this turn */
	Size memory_len;          /* of what was read of the ring */
	Size memory_offset;       /* ... and how much of it has been delivered */
	dlist_head retained; /* subscriptions that wait for values in force */

	FlMqttSys *sys;

	Size message_bytes; /* in shared messages */
	FlMqttFeed *feeds;
	int feed_count;
	int feed_cap;
	uint64 feed_version;      /* catalog version the feeds were made from */
	TimestampTz feed_checked; /* append clock when they were made */
	bool refreshing;          /* making feeds right now, for the error handler */
	int64 refresh_retry_ms;   /* after an error, when to go on */
	Oid bad_stream;           /* whose feed could not be made */
	bool feed_more;           /* some feed or lagging connection has work left */
	bool feed_wanted;         /* some feed is read: somebody subscribes */
	bool interest_changed;    /* subscriptions came or went in this turn */
	FlBatchDecoder *decoder;

	uint32 read_run;   /* of this door, as the reader knows it */
	uint32 reader;     /* the reader's number, 0: there is none */
	uint64 read_token; /* the last that was given out */
	uint64 read_mounts; /* a hash of them, when asks were last checked */
	int64 parked_ms;   /* when those that are parked are looked at again */
	bool read_full;    /* something could not be asked for */
	bool read_more;    /* the reader has sent more than this turn has taken */

	uint64 acl_version; /* catalog version the subscriptions were checked with */
	uint64 roles_version;
	uint64 news;       /* catalog generation seen last */
	int64 news_due_ms; /* until then the server's invalidations may follow it */
	uint64 revocations; /* cursor */
	int64 next_stats_ms;

	/* scratch */
	TimestampTz received; /* when the bytes at hand came */
	FlBuf out;     /* one packet */
	FlBuf headers; /* one header list */
	FlBuf envelope; /* one command for a client of MQTT 3 */
	uint8 event[FL_SESSION_RECEIVED_SIZE];
	uint8 *record_event; /* of the message at hand, NULL = none */
	bool record_will;    /* ... which is the will of a session, and not with ingest yet */
	uint32 unheard;      /* likewise: FL_MQTT_COOKIE_UNHEARD, or 0 */
	char *keys;    /* record key and shard key */
	FlIdentity identity;
	uint64 identity_of; /* connection whose identity that is, 0 = nobody's */
	FlMqttPacket packet;
	FlMqttMessage message;
	FlMqttUserProperty *users; /* of message */
	FlMqttUserProperty *told;  /* of one delivery: positions, then those of message (position.c) */
	FlMqttTarget *targets;
	uint32 target_count;
	uint32 target_cap;
	FlMqttIdNode *ids;
	uint32 id_count;
	uint32 id_cap;
	uint64 match;    /* number of the current match */
	uint32 *id_list; /* ids of one target, flat */

	/* what is being worked on, for the error handler */
	FlMqttConn *current;
	int current_feed; /* -1 = none */
	FlMqttConn *current_lag;
	int lag_feed; /* the record that is being handed to it, -1 = none */
	int64 lag_at;

	FlMqttLogBudget log[FL_MQTT_LOG_KINDS];
	FlMqttLogged logged[FL_MQTT_LOGGED];
};

/* in connection.c */
extern const FlNetProtocol fl_mqtt_protocol;
extern FlMqttDoor *fl_mqtt_door; /* this worker's */
extern void fl_mqtt_set_state(FlMqttConn *conn, FlMqttState state);
/* False: it is larger than the client allows, and was not sent. */
extern bool fl_mqtt_send(FlMqttConn *conn, const FlMqttPacket *packet);
/* With the reason in words, where the client wants it and has room for it; props are the packet's. */
extern void fl_mqtt_send_reason(FlMqttConn *conn, FlMqttPacket *packet, FlMqttProps *props, const char *why);
extern void fl_mqtt_send_ack(FlMqttConn *conn, FlMqttType type, uint16 packet_id, uint8 reason);
extern void fl_mqtt_send_refusal(FlMqttConn *conn, FlMqttType type, uint16 packet_id, uint8 reason, const char *why);
/* What answers an acknowledgement whose identifier is not known. */
extern uint8 fl_mqtt_unknown_id(const FlMqttConn *conn);
/* The reason with which the client is sent elsewhere, where there is such a place; else `reason`. */
extern FlMqttReason fl_mqtt_redirect(const FlMqttConn *conn, FlMqttReason reason);
extern void fl_mqtt_set_reference(FlMqttProps *props, uint8 reason);
/* DISCONNECT with a reason where the version has one, then close. */
extern void fl_mqtt_disconnect(FlMqttConn *conn, FlMqttReason reason, const char *why);
/* The same with words and user properties, which are left out where the client allows no such packet. */
extern void fl_mqtt_disconnect_with(FlMqttConn *conn, FlMqttReason reason, const char *why,
									const FlMqttUserProperty *users, uint32 user_count);
/* The client broke the protocol: logged, DISCONNECT 0x82. */
extern void fl_mqtt_out_of_order(FlMqttConn *conn, const char *what);
extern void fl_mqtt_resume(FlMqttConn *conn);
extern void fl_mqtt_free_aliases(FlMqttAliases **aliases);
extern FlMqttConn *fl_mqtt_find(FlMqttDoor *door, uint64 id);
extern void fl_mqtt_start_keep_alive(FlMqttConn *conn);
extern void fl_mqtt_conns_init(FlMqttDoor *door);
extern void fl_mqtt_each(FlMqttDoor *door, void (*f)(FlMqttConn *conn));

/* in door.c */
/* Whoever reads catalog or log in a turn calls it first; it ends with the turn. */
extern void fl_mqtt_begin_transaction(FlMqttDoor *door);

/* in connect.c */
extern void fl_mqtt_handle_connect(FlMqttConn *conn, const FlMqttFrame *frame, const FlMqttConnect *connect);
extern void fl_mqtt_refuse_connect(FlMqttConn *conn, FlMqttReason reason, const char *why);
/* The same for a login, with a line in the log. */
extern void fl_mqtt_refuse_login(FlMqttConn *conn, const FlMqttConnect *connect, FlMqttReason reason, const char *why);
/* The identity is known and stands in conn->pending. */
extern void fl_mqtt_logged_in(FlMqttConn *conn, const FlMqttConnect *connect);
extern void fl_mqtt_take_logins(FlMqttDoor *door);
/* Login, takeover and session are done: CONNACK. */
extern void fl_mqtt_open_connection(FlMqttConn *conn, const FlMqttConnect *connect);
/* The kept CONNECT once more. */
extern void fl_mqtt_decode_kept(FlMqttConn *conn, FlMqttConnect *connect);
/* The connection waits no more for its login to be begun. */
extern void fl_mqtt_leave_login_queue(FlMqttConn *conn);
extern void fl_mqtt_retry_takeovers(FlMqttDoor *door);

/* What comes back with a record or event whose fate is known; the lowest 16 bits are the packet identifier. */
#define FL_MQTT_COOKIE_QOS2      0x10000
#define FL_MQTT_COOKIE_JOURNALED 0x20000 /* counted in session_pending */
#define FL_MQTT_COOKIE_UNHEARD   0x40000 /* nobody was there to hear it */
#define FL_MQTT_COOKIE_KIND      0x700000 /* 0: a record */
#define FL_MQTT_COOKIE_SESSION   (0x100000 | FL_MQTT_COOKIE_JOURNALED)
#define FL_MQTT_COOKIE_RELEASE   (0x200000 | FL_MQTT_COOKIE_JOURNALED)
#define FL_MQTT_COOKIE_ENDED     (0x300000 | FL_MQTT_COOKIE_JOURNALED)
#define FL_MQTT_COOKIE_SUBSCRIBED (0x400000 | FL_MQTT_COOKIE_JOURNALED)
#define FL_MQTT_COOKIE_CHECKPOINT (0x500000 | FL_MQTT_COOKIE_JOURNALED)
#define FL_MQTT_COOKIE_SENT      (0x600000 | FL_MQTT_COOKIE_JOURNALED)
#define FL_MQTT_COOKIE_SENT_RELEASED (0x700000 | FL_MQTT_COOKIE_JOURNALED)
#define FL_MQTT_COOKIE_WILL      0x800000 /* the will of a session, which has a number of its own (will.c) */

/* in session.c */
extern void fl_mqtt_sessions_init(FlMqttDoor *door);
extern void fl_mqtt_open_session(FlMqttConn *conn, const FlMqttConnect *connect);
extern void fl_mqtt_retry_sessions(FlMqttDoor *door);
extern uint8 *fl_mqtt_received_event(FlMqttConn *conn, const FlMqttPublish *publish);
extern uint32 fl_mqtt_content_hash(const FlMqttPublish *publish);
extern bool fl_mqtt_write_release(FlMqttConn *conn, uint16 packet_id);
/* SENT_RELEASED or SENT_DONE of one delivery; cookie 0: nobody waits.  False: not now. */
extern bool fl_mqtt_write_answer(FlMqttConn *conn, FlSessionEventType type, uint16 packet_id, uint64 cookie);
extern void fl_mqtt_change_expiry(FlMqttConn *conn, uint32 expiry);
/* May a SUBSCRIBE or UNSUBSCRIBE be answered?  False: not before its events are durable; present it again. */
extern bool fl_mqtt_may_subscribe(FlMqttConn *conn, const FlMqttPacket *packet);
/* An event of the connection's session. */
extern FlSessionEvent fl_mqtt_session_event(const FlMqttConn *conn, FlSessionEventType type);
/* What is in door->out goes to the journal; wait: an answer comes back with the cookie. */
extern FlError fl_mqtt_write_events(FlMqttConn *conn, uint64 cookie, bool wait);
extern bool fl_mqtt_session_done(FlMqttDoor *door, FlMqttConn *conn, uint64 conn_id, uint64 cookie, FlError err);
extern void fl_mqtt_leave_session(FlMqttConn *conn);

/* in publish.c */
/* There is no room now: the packet will be presented again. */
extern void fl_mqtt_wait_for_room(FlMqttConn *conn);
/* False: there is no room now, present the packet again. */
extern bool fl_mqtt_handle_publish(FlMqttConn *conn, FlMqttPublish *publish);
extern bool fl_mqtt_ingest_done(void *arg, uint64 conn_id, uint64 cookie, FlError err, Oid stream, int32 shard,
								int64 log_offset);
/* Adds a record for a publish that is authorised here; FL_ERR_SHARD_BUSY: no room. */
extern FlError fl_mqtt_route(FlMqttDoor *door, const FlIdentity *identity, const char *client_id, Size client_id_len,
							 const FlMqttPublish *publish, FlMqttVersion version, uint64 conn_id, const char **why);
extern void fl_mqtt_resume_full(FlMqttDoor *door);
extern bool fl_mqtt_has_settled(FlMqttConn *conn);
extern void fl_mqtt_resume_settled(FlMqttDoor *door);
extern void fl_mqtt_one_less_unacked(FlMqttConn *conn);

/* in qos2.c */
typedef enum FlMqttRepeat
{
	FL_MQTT_NEW,      /* a message that is not known */
	FL_MQTT_REPEATED, /* dealt with */
	FL_MQTT_NOT_YET   /* it is known, and not known to be durable: present the packet again */
} FlMqttRepeat;

extern FlMqttRepeat fl_mqtt_check_repeat(FlMqttConn *conn, const FlMqttPublish *publish);
extern bool fl_mqtt_reserve_received(FlMqttConn *conn);
extern void fl_mqtt_add_received(FlMqttConn *conn, uint16 packet_id);
extern void fl_mqtt_restore_received(FlMqttConn *conn, const FlSessionItem *items, int n);
extern void fl_mqtt_received_stored(FlMqttConn *conn, uint16 packet_id);
extern void fl_mqtt_received_refused(FlMqttConn *conn, uint16 packet_id);
/* False: not now, present the packet again. */
extern bool fl_mqtt_handle_pubrel(FlMqttConn *conn, const FlMqttAck *ack);
extern void fl_mqtt_released(FlMqttConn *conn, uint16 packet_id, FlError err);
extern void fl_mqtt_free_received(FlMqttConn *conn);

/* in headers.c */
/* The sender stands in front already; ingest is told so. */
extern FlResult fl_mqtt_build_headers(FlBuf *out, const FlMqttPublish *publish, FlMqttVersion version,
									  const FlIdentity *identity, const char *client_id, Size client_id_len,
									  TimestampTz received, bool with_topic);
#define FL_MQTT_TIME_LEN 24 /* 2026-12-01T23:15:00.123Z */
extern void fl_mqtt_format_time(TimestampTz at, char out[FL_MQTT_TIME_LEN + 1]);
extern bool fl_mqtt_parse_time(const uint8 *text, Size len, TimestampTz *at);

/* in subscribe.c */
extern void fl_mqtt_handle_subscribe(FlMqttConn *conn, const FlMqttSubscribe *subscribe);
extern void fl_mqtt_handle_unsubscribe(FlMqttConn *conn, const FlMqttUnsubscribe *unsubscribe);
extern void fl_mqtt_drop_filters(FlMqttConn *conn);
/* The events of what such a packet will do, and a checkpoint before them.  *nothing: it does nothing. */
extern void fl_mqtt_note_subscribe(FlMqttConn *conn, const FlMqttSubscribe *subscribe, FlBuf *out, bool *nothing);
extern void fl_mqtt_note_unsubscribe(FlMqttConn *conn, const FlMqttUnsubscribe *unsubscribe, FlBuf *out);
/* A filter of an earlier connection, whose session has these events; false: it has no right to it any more. */
extern bool fl_mqtt_restore_filter(FlMqttConn *conn, const FlSessionEvent *event, const uint8 *events, Size len);
extern FlMqttSubscriber *fl_mqtt_get_subscriber(FlMqttConn *conn);
extern void fl_mqtt_check_rights(FlMqttDoor *door);

/* in message.c */
/* The topic of a record; false where it has none that MQTT can name. */
extern bool fl_mqtt_record_topic(const FlLogRecord *rec, FlMqttBytes *topic);
/* mount: that of the topic, for its counters. */
extern void fl_mqtt_record_message(FlMqttDoor *door, const FlLogRecord *rec, int32 shard, FlMqttBytes topic,
								   const FlMount *mount, FlMqttMessage *message);
extern FlMqttMessage *fl_mqtt_message_share(FlMqttDoor *door, FlMqttMessage *message);
extern void fl_mqtt_message_release(FlMqttDoor *door, FlMqttMessage *message);

/* in deliver.c */
typedef enum FlMqttDelivery
{
	FL_MQTT_SENT, /* or dropped for good, and counted */
	FL_MQTT_QUEUED,
	FL_MQTT_NO_ROOM /* at QoS 0 only of who reads alone, or is ending */
} FlMqttDelivery;

extern FlMqttDelivery fl_mqtt_deliver(FlMqttConn *conn, FlMqttMessage **message, const FlMqttHow *how);
/* PUBACK, PUBREC and PUBCOMP.  False: not now, present the packet again. */
extern bool fl_mqtt_handle_answer(FlMqttConn *conn, FlMqttType type, const FlMqttAck *ack);
extern void fl_mqtt_drain_queue(FlMqttConn *conn);
/* Would a message of this QoS go out at once? */
extern bool fl_mqtt_has_room(FlMqttConn *conn, uint8 qos);
/* What has to be written before it leaves, of all that came in this turn. */
extern void fl_mqtt_drain_waiting(FlMqttDoor *door);
/* Deliveries at QoS 2 are in the journal: they may leave. */
extern void fl_mqtt_sent_written(FlMqttConn *conn, FlError err);
/* Likewise a PUBREC: PUBREL may leave. */
extern void fl_mqtt_sent_released(FlMqttConn *conn, uint16 packet_id, FlError err);
/* Whose place in the queue does not come back by the bookmark is given an identifier; at most so many in all. */
extern void fl_mqtt_number_queued(FlMqttConn *conn, uint16 max);
/* May another delivery be sent now? */
extern bool fl_mqtt_window_is_open(FlMqttConn *conn);
/* One of an earlier connection again, under its identifier. */
extern void fl_mqtt_deliver_again(FlMqttConn *conn, FlMqttMessage *message, const FlMqttSent *sent,
								  const FlMqttHow *how);
/* Its PUBREC came before: PUBREL again. */
extern void fl_mqtt_release_again(FlMqttConn *conn, const FlMqttSent *sent);
extern void fl_mqtt_free_subscriber(FlMqttConn *conn);

/* in feed.c */
extern void fl_mqtt_feed_init(FlMqttDoor *door);
/* Make the feeds those of the catalog's mounts; in a transaction. */
extern void fl_mqtt_feed_refresh(FlMqttDoor *door);
/* Which feeds can match a subscription; before a SUBACK leaves. */
extern void fl_mqtt_feed_interest(FlMqttDoor *door);
/* Room for the identifiers of so many filters of one connection. */
extern void fl_mqtt_reserve_ids(FlMqttDoor *door, uint32 count);
extern void fl_mqtt_feed_run(FlMqttDoor *door);
/*
 * A message that is in no log: begin, add the filters that select it (one target per
 * connection), and take the subscription identifiers of each target.
 */
extern void fl_mqtt_begin_match(FlMqttDoor *door);
extern void fl_mqtt_add_target(FlMqttDoor *door, const FlMqttFilter *filter);
extern void fl_mqtt_target_ids(FlMqttDoor *door, const FlMqttTarget *target, FlMqttHow *how);
/* An error came out of making or reading a feed?  Then it pays for it: true. */
extern bool fl_mqtt_feed_failed(FlMqttDoor *door);
/* A message that is in no log. */
extern void fl_mqtt_match_memory(FlMqttDoor *door, const FlLogRecord *rec);
extern bool fl_mqtt_is_own_shadow(const FlMqttConn *conn, const FlMqttMessage *message);
extern bool fl_mqtt_may_read(const FlMqttConn *conn, const FlMount *mount);
extern bool fl_mqtt_is_own(const FlMqttConn *conn, const FlMqttMessage *message);
/* The mount of a topic, if its stream is the feed's; else NULL. */
extern const FlMount *fl_mqtt_mount_of(const FlMqttFeed *feed, FlMqttBytes topic);
/* Durable tail and head of a feed's shard; false: it is not known any more. */
extern bool fl_mqtt_feed_bounds(FlMqttFeed *feed, int64 *head, int64 *tail);

/* in catchup.c */
extern void fl_mqtt_start_lagging(FlMqttConn *conn, int feed, int64 log_offset);
/* From where its feeds are; who resumes sets its own positions. */
extern void fl_mqtt_start_reading(FlMqttConn *conn);
extern void fl_mqtt_stop_lagging(FlMqttConn *conn);
extern void fl_mqtt_add_cursors(FlMqttDoor *door);
extern void fl_mqtt_catchup_run(FlMqttDoor *door);
/* Others publish here, or did so within FL_MQTT_BUSY_MS. */
extern bool fl_mqtt_is_busy(FlMqttDoor *door);
/* An error came: the connection that was being served has not been given the rest of its batch. */
extern void fl_mqtt_catchup_failed(FlMqttDoor *door);
/* ... and it was that retention was quicker: it may try again. */
extern bool fl_mqtt_may_read_again(FlMqttDoor *door);

/* in history.c */
#define FL_MQTT_MAX_SOUGHT 64 /* filters of one SUBSCRIBE that ask for history */
#define FL_MQTT_MAX_BESIDE 1000 /* filters of a connection that asks for it: each may have to note a place per shard */
#define FL_MQTT_FROM_TIME INT64CONST(-1) /* in a plan: from the record of its time on */

/* Where a subscription begins. */
typedef struct FlMqttStart
{
	TimestampTz since; /* records appended before it are not for it */
	int64 *from;       /* by feed of its topics, PG_INT64_MAX for all others */
	int count;
	uint64 *gone; /* by feed: how many that were asked for are gone; NULL: none */
	uint64 lost;  /* of all feeds */
	int64 ahead;  /* records that are asked for and are not there yet */
} FlMqttStart;

/* What a SUBSCRIBE that is being written to the session's journal will set back. */
typedef struct FlMqttSeek
{
	int64 *from; /* by feed, the least of all; PG_INT64_MAX: nothing */
	int count;
	int filter_count;
	struct
	{
		FlMqttBytes text;
		FlMqttStart start;
	} *filters;
} FlMqttSeek;

/* What the user properties of a SUBSCRIBE ask for. */
typedef struct FlMqttWishes
{
	const FlHistoryFrom *from; /* NULL: what is new */
	FlHistoryFrom room;
	bool position;
	bool end_on_drop;
	const char *bad; /* NULL, or what is wrong with them */
	uint32 sought;   /* filters of the packet that ask for history so far, */
	uint32 places;   /* and the positions that they name */
} FlMqttWishes;

extern void fl_mqtt_read_wishes(const FlMqttProps *props, FlMqttWishes *wishes);
/* May one more filter ask for history?  Each costs the door a look at every shard, and at every position. */
extern bool fl_mqtt_may_seek(const FlMqttConn *conn, FlMqttWishes *wishes, const FlHistoryFrom *from);
/* May a topic filter select topics of the stream; of several? */
extern bool fl_mqtt_reaches(FlMqttBytes topic_filter, Oid stream);
extern bool fl_mqtt_reaches_several(FlMqttBytes topic_filter);
/* Where the text is, in the memory of the turn; false: *why, and *resume where to begin instead or NULL. */
extern bool fl_mqtt_plan_history(FlMqttConn *conn, FlMqttBytes topic_filter, const FlHistoryFrom *from,
								 FlMqttStart *start, const char **why, const char **resume);
/* The filter, which is registered, begins there. */
extern void fl_mqtt_begin_history(FlMqttFilter *filter, const FlMqttStart *start);
/* A filter has gone: what only it wanted is not read. */
extern void fl_mqtt_skip_history(FlMqttConn *conn);
/* The connection is with its feeds again, or its queue is empty. */
extern void fl_mqtt_forget_starts(FlMqttConn *conn);
/* Room for so many filters, in the memory of the turn; then one after the other. */
extern void fl_mqtt_seek_init(FlMqttDoor *door, FlMqttSeek *seek, int filters);
extern void fl_mqtt_seek_add(FlMqttSeek *seek, FlMqttBytes text, const FlMqttStart *start);
/* Where its filters begin that is ahead of the bookmarks (-1: none), as events. */
/* Where its groups are in the feeds of which `feeds` is true, beside deliveries that are being written. */
extern void fl_mqtt_encode_share_starts(FlMqttConn *conn, FlBuf *out, const bool *feeds);
/* Where the group is that it is about to join: until the next checkpoint nothing else would say so after a crash. */
extern void fl_mqtt_encode_joined_starts(FlMqttConn *conn, FlBuf *out, FlMqttBytes text, FlMqttBytes topic_filter);
extern void fl_mqtt_encode_starts(FlMqttConn *conn, FlBuf *out, const FlMqttSeek *seek, const int64 *given,
								  const int64 *bookmarks);
extern void fl_mqtt_restore_start(FlMqttConn *conn, int feed, const FlSessionEvent *event);
extern bool fl_mqtt_is_start_of(const FlMqttFilter *filter, const FlSessionEvent *event);
/* Where the group of a shared filter was; -1: unknown.  Only while the filter is restored. */
extern void fl_mqtt_set_share_start(FlMqttFilter *filter, int feed, int64 log_offset);
extern int64 fl_mqtt_share_start(const FlMqttFilter *filter, int feed);
extern void fl_mqtt_free_starts(FlMqttFilter *filter);
/* Where a cursor of -1 stands. */
extern int64 fl_mqtt_find_start(FlMqttConn *conn, int feed, int64 tail);

static inline FlMqttBytes
fl_mqtt_topic_filter(const FlMqttFilter *filter)
{
	FlMqttBytes text = {filter->text + filter->skip, (uint32) (filter->len - filter->skip)};

	return text;
}

static inline bool
fl_mqtt_begins_later(const FlMqttFilter *filter, int feed, TimestampTz ts, int64 log_offset)
{
	return ts < filter->since ||
		   (filter->starts != NULL && feed < filter->start_count && log_offset < filter->starts[feed].at);
}

/* in position.c */
#define FL_MQTT_TOLD 6 /* properties that a delivery may have of ours */
/* So many records of a feed, or more than can be said, were not sent to who wants to know. */
extern void fl_mqtt_note_gap(FlMqttConn *conn, int feed, uint64 lost);
extern uint32 fl_mqtt_take_gap(FlMqttConn *conn, const FlMqttMessage *message);
/* For the time of one delivery the message tells where it stands. */
extern void fl_mqtt_tell_position(FlMqttDoor *door, FlMqttMessage *message, FlMqttPositionWish wish, uint32 gap);
extern void fl_mqtt_untell_position(FlMqttMessage *message, const FlMqttUserProperty *users, uint32 user_count);
/* Retention was quicker than this connection. */
extern void fl_mqtt_lost_records(FlMqttConn *conn, int feed, uint64 lost);
/* ... and than the live feed. */
extern void fl_mqtt_feed_lost(FlMqttDoor *door, int feed, uint64 lost);
/* It wanted to end at the first drop: DISCONNECT, with where to resume. */
extern void fl_mqtt_end_at_drop(FlMqttConn *conn);
/* Where something begins, in the form of fl-from; memory of the turn, NULL: nothing to say. */
extern char *fl_mqtt_format_places(FlMqttDoor *door, const int64 *from, int count);

/* in resume.c */
/* From here on this connection has not been given the feed's records. */
extern int64 fl_mqtt_read_to(FlMqttConn *conn, int feed);
/*
 * By feed: the same, but not beyond what still waits in its queue, at QoS 2 without the
 * first `written`, which are deliveries already; memory of the turn.
 */
extern int64 *fl_mqtt_unsent_from(FlMqttConn *conn, uint32 written);
/* The first record of a feed that waits in the queue and for which no bookmark stands. */
extern int64 fl_mqtt_first_unmarked(const FlMqttConn *conn, int feed);
/* Where the session stands, as events; last: it is sent nothing more. */
extern void fl_mqtt_encode_checkpoint(FlMqttConn *conn, FlBuf *out, bool last, const FlMqttSeek *seek);
/* A delivery that is about to leave, or under way. */
extern void fl_mqtt_encode_sent(FlMqttConn *conn, FlBuf *out, const FlMqttSent *sent);
/* Its session looks back to this record: what is under way or queued moves no mark of what lies between. */
extern void fl_mqtt_leave_marks(FlMqttConn *conn, int feed, int64 from);
/* Has a record that is read again been dealt with at this QoS? */
extern bool fl_mqtt_is_below_mark(const FlMqttConn *conn, int feed, int64 log_offset, uint8 qos);
/* The connection ends, and its session does not. */
extern void fl_mqtt_leave_bookmarks(FlMqttConn *conn);
/* Now and then, so that a crash does not go back far. */
extern void fl_mqtt_save_bookmarks(FlMqttConn *conn);
/* The session is there, and CONNACK was sent: it goes on where it was. */
extern void fl_mqtt_resume_session(FlMqttConn *conn);
/* Where the group of a filter was when the session left, for fl_mqtt_share_join. */
extern void fl_mqtt_restore_share_starts(FlMqttFilter *filter, const uint8 *events, Size len);
/* Deliveries of the earlier connection come first; false: there are more of them. */
extern bool fl_mqtt_send_restored(FlMqttConn *conn);

/* in command.c */
/* A mount of commands, and a topic below it: is it a command to a device? */
extern bool fl_mqtt_is_command(const FlMount *mount, FlMqttBytes topic);
/* What clients of MQTT 3 get of a command; good until the next call. */
extern FlMqttBytes fl_mqtt_command_envelope(FlMqttDoor *door, const FlMqttMessage *message);
/* A QoS 1 delivery was acknowledged.  False: not now, present the packet again. */
extern bool fl_mqtt_note_delivered(FlMqttConn *conn, const FlMqttSent *sent, uint8 reason);
/* A command was left out, because it has expired. */
extern void fl_mqtt_note_expired(FlMqttConn *conn, const FlMqttMessage *message);

/* in memory.c */
/* A publish to a mount without a stream; it is authorised and within the mount's limits. */
extern FlError fl_mqtt_carry_in_memory(FlMqttDoor *door, const FlIdentity *identity, const char *client_id,
									   Size client_id_len, const FlMqttPublish *publish, FlMqttVersion version);
extern void fl_mqtt_memory_interest(FlMqttDoor *door);
extern void fl_mqtt_memory_run(FlMqttDoor *door);

/* in retained.c */
/* Is there a mount with a state table; is there one for this topic? */
extern bool fl_mqtt_retain_available(void);
extern bool fl_mqtt_can_retain(const char *topic, Size len);
/* The filter, which is registered, is to be sent the values in force. */
extern void fl_mqtt_want_retained(FlMqttFilter *filter, TimestampTz since, const FlMqttStart *history);
extern void fl_mqtt_retained_run(FlMqttDoor *door);

/* in registry.c */
extern void fl_mqtt_conn_info(const FlMqttConn *conn, FlConnInfo *info);
extern void fl_mqtt_make_key(const FlIdentity *identity, const char *client_id, Size len, FlConnKey *key);
extern void fl_mqtt_take_evictions(FlMqttDoor *door);
extern void fl_mqtt_take_revocations(FlMqttDoor *door);
extern void fl_mqtt_report_stats(FlMqttDoor *door);

/* in will.c */
extern FlMqttReason fl_mqtt_check_will(const FlMqttConnect *connect, const char **why);
extern FlMqttReason fl_mqtt_judge_will(FlMqttConn *conn, const FlMqttConnect *connect, const char **why);
extern void fl_mqtt_keep_will(FlMqttConn *conn, const FlMqttConnect *connect);
/* The connection is closing: its will is published, left to its session, or discarded. */
extern void fl_mqtt_leave_will(FlMqttConn *conn);
/* What did not find room, and what is due of sessions. */
extern void fl_mqtt_wills_run(FlMqttDoor *door);
extern bool fl_mqtt_wills_wait(void);
/*
 * The events that give the connection's session its will, or take it the one that it has
 * (0: none); false: there is no memory for it.
 */
extern bool fl_mqtt_note_will(FlMqttConn *conn, const FlMqttConnect *connect, uint32 kept, FlBuf *out);
/* The session ends now: its will goes before. */
extern void fl_mqtt_publish_session_will(FlMqttDoor *door, const FlSessionRef *session);
/* The fate of a session's will is known. */
extern bool fl_mqtt_will_done(FlMqttDoor *door, uint64 id, FlError err);

/* in sys.c */
extern void fl_mqtt_sys_init(FlMqttDoor *door);
extern bool fl_mqtt_is_sys(FlMqttBytes text);
/* The filter, which is registered, is to be told what there is; or it is going. */
extern void fl_mqtt_sys_want(FlMqttFilter *filter);
extern void fl_mqtt_sys_forget(const FlMqttFilter *filter);
extern void fl_mqtt_sys_run(FlMqttDoor *door);

#endif /* FLEETLOG_MQTT_PRIVATE_H */
