/*
 * net_private.h
 *		What the files of the event loop share among themselves.
 */
#ifndef FLEETLOG_NET_PRIVATE_H
#define FLEETLOG_NET_PRIVATE_H

#include <sys/socket.h>

#include "fleetlog/net.h"
#include "parse.h"

/* Flags of a connection. */
#define FL_NET_PAUSED    0x01 /* the protocol wants no input */
#define FL_NET_BLOCKED   0x02 /* the kernel takes no more output for now */
#define FL_NET_DIRTY     0x04 /* in the list of those to be flushed */
#define FL_NET_READY     0x08 /* in the list of those to be served */
#define FL_NET_FINISHING 0x10 /* protocol is done, output still leaves */
#define FL_NET_LINGERING 0x20 /* output has left, waiting for the peer's end */
#define FL_NET_CLOSED    0x40 /* waiting to be freed */
#define FL_NET_LAYERED   0x0080 /* input comes through layer.c */
#define FL_NET_SECURE    0x0100 /* output is written by OpenSSL */
#define FL_NET_FRAMED    0x0200 /* output is made into WebSocket frames */
#define FL_NET_SHAKING   0x0400 /* TLS handshake: events wait for their turn */
#define FL_NET_STALLED   0x0800 /* OpenSSL must write before it can read on */

/*
 * A borrowed piece of memory: start..end are bytes, the rest is room.  Sizes
 * are powers of two, so that a buffer returned serves any later need.
 */
struct FlNetBuf
{
	FlNetBuf *next;
	uint32 cap; /* of data */
	uint32 start;
	uint32 end;
	uint8 data[FLEXIBLE_ARRAY_MEMBER];
};

#define FL_NET_MIN_BITS  9 /* smallest buffer: 512 bytes */
#define FL_NET_MAX_BITS  29
#define FL_NET_POOL_KEEP (4 * 1024 * 1024) /* free bytes that a pool keeps */
#define FL_NET_OUT_BUF   4096
#define FL_NET_OUT_MAX   (256 * 1024) /* a piece of long output */

typedef struct FlNetPool
{
	MemoryContext context;
	FlNetBuf *free[FL_NET_MAX_BITS + 1];
	Size free_bytes;
	Size used_bytes;
	Size limit; /* of used_bytes, kept by those who ask */
} FlNetPool;

/* What an epoll event points to begins with one of these. */
typedef struct FlNetListener FlNetListener;

struct FlNetListener
{
	dlist_node node;
	const FlNetProtocol *protocol;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	int fd;          /* -1 while the address cannot be had */
	bool wanted;     /* still named by the setting */
	bool complained; /* its failure has been logged */
	bool optional;   /* ::1 beside 127.0.0.1: may be missing */
	bool dead;       /* closed; lives as long as its connections */
	uint8 kind;      /* FL_NET_KIND_* */
	int shown;       /* its line in fleetlog.stat_listener, -1 = none */
	int conns;
	const char *label;
	const char *setting;
	char name[64];
};

/* Connections of one size. */
typedef struct FlNetPlace
{
	Size size;
	MemoryContext context;
} FlNetPlace;

struct FlNetLoop
{
	MemoryContext context;
	FlNetPlace places[4]; /* a protocol has one size */
	int nplaces;
	FlNetPool pool;
	FlTimerWheel wheel;
	FlTimer retry_timer; /* for listeners without a socket */
	dlist_head listeners;
	dlist_head conns;
	dlist_head ready;
	dlist_head dirty;
	dlist_head graveyard;
	void *quiet_next; /* of an event: whom the last turn left first, NULL: nobody; only compared, it may be gone */
	uint16 period; /* of FL_NET_PERIOD_MS, this turn's */
	int epoll_fd;
	int door;
	int ceiling;
	int nconns;
	int ngrave;
	struct FlTls *tls;    /* certificates and lists in force, NULL: none */
	dlist_head shaking;   /* handshakes that have begun and have input */
	dlist_head waiting;   /* those that have not begun */
	int nshaking;         /* in both */
	dlist_head begun;     /* under way, whether or not they have input; the longest without a step first */
	int nbegun;
	int shaken;           /* handshakes since their memory was given back */
	int64 trimmed;        /* when it was */
	bool lists_changed;   /* connections are to be held against new lists of revoked certificates */
	int64 next_expiry;    /* when the first certificate of a connection ends, 0: none does */
	int64 last_full_log; /* when the ceiling was last complained about */
	uint64 bytes_in;
	uint64 bytes_out;
	uint64 shed;    /* connections closed at the ceiling */
	uint8 *scratch; /* FL_NET_READ_BYTES */
	uint8 *raw;     /* as large, for bytes on their way through a layer; NULL until there is one */
};

/* ---- layers ---- */

typedef enum FlNetStage
{
	FL_NET_STAGE_PROXY,   /* the balancer's header is to come */
	FL_NET_STAGE_SHAKE,   /* TLS handshake */
	FL_NET_STAGE_UPGRADE, /* HTTP request of a WebSocket */
	FL_NET_STAGE_OPEN     /* the protocol's bytes */
} FlNetStage;

/* What a connection has besides, when there is something between it and its socket. */
typedef struct FlNetLayer
{
	uint8 stage;
	uint8 kind;      /* FL_NET_KIND_* of its listener */
	bool queued;     /* in loop->shaking or loop->waiting */
	bool begun;      /* in loop->begun */
	bool has_psk;    /* a key was found for it; after the handshake: and proved */
	bool by_ticket;  /* it has shown a session ticket of ours */
	bool dry;        /* the socket had no more at OpenSSL's last read */
	const char *why; /* the WebSocket is over; NULL: it is not */
	FlNetConn *conn;
	dlist_node shake_node;
	dlist_node begun_node;
	int64 stepped; /* when its handshake took its last step */
	struct ssl_st *ssl;
	FlNetBuf *held;    /* header or request, not complete yet */
	void *attached;    /* of on_psk */
	int64 expires;     /* when the certificate ends, on the loop's clock; 0: never */
	uint32 retry;      /* bytes of a write that OpenSSL wants repeated, 0: none */
	uint16 peer_port;  /* of the balancer's header */
	uint8 peer_family; /* 4, 6; 0: none was told */
	uint8 peer_address[16];
	FlWs ws; /* only where the listener is one of WebSockets: else there is no memory for it */
} FlNetLayer;

/* in buffer.c */
extern void fl_net_pool_init(FlNetPool *pool, MemoryContext context);
extern FlNetBuf *fl_net_buf_get(FlNetPool *pool, Size room);
extern void fl_net_buf_put(FlNetPool *pool, FlNetBuf *buf);

/* in listener.c */
extern void fl_net_accept(FlNetLoop *loop, FlNetListener *listener);
extern void fl_net_retry_listeners(FlNetLoop *loop);
/* A connection of this listener came (1) or went (-1). */
extern void fl_net_listener_count(FlNetListener *listener, int delta);
extern void fl_net_name_address(const struct sockaddr_storage *addr, char *buf, Size size);

/* in layer.c */
/* A new connection's layers; peer is where it comes from.  Nothing to do: layer stays NULL. */
extern void fl_net_layer_create(FlNetConn *conn, const struct sockaddr_storage *peer);
/* As recv, of bytes that are the protocol's; 0 also when the connection was closed here. */
extern ssize_t fl_net_layer_receive(FlNetConn *conn, uint8 *to, Size room);
/* The handshake has succeeded. */
extern void fl_net_layer_secured(FlNetConn *conn);
/* The protocol is done: last words of the layers. */
extern void fl_net_layer_finish(FlNetConn *conn);
extern void fl_net_layer_free(FlNetConn *conn);
extern uint8 *fl_net_raw(FlNetLoop *loop);

/* in tls.c */
/* NULL: it could not be loaded, which is logged. */
extern struct FlTls *fl_tls_load(bool psk);
extern void fl_tls_free(struct FlTls *tls);

/* in tls_conn.c */
/* The socket of a connection that shakes hands has something. */
extern void fl_tls_enqueue(FlNetConn *conn);
extern void fl_tls_serve(FlNetLoop *loop);
/* Milliseconds until there is something to serve; only while loop->nshaking is not 0. */
extern int64 fl_tls_wait(FlNetLoop *loop);
extern void fl_tls_trim(FlNetLoop *loop);
extern ssize_t fl_tls_read(FlNetConn *conn, uint8 *to, Size room);
/* As send, of the queue's first bytes. */
extern ssize_t fl_tls_write(FlNetConn *conn);
extern void fl_tls_say_goodbye(FlNetConn *conn);
extern void fl_tls_end(FlNetConn *conn);
/* in tls_peer.c: connections whose certificate has ended, by time or, after a reload, by the lists. */
extern void fl_tls_check_expiry(FlNetLoop *loop);
extern void fl_tls_check_revoked(FlNetLoop *loop);

/* in settings.c */
typedef enum FlTlsIdentity
{
	FL_TLS_IDENTITY_CN,
	FL_TLS_IDENTITY_SUBJECT,
	FL_TLS_IDENTITY_DNS,
	FL_TLS_IDENTITY_URI
} FlTlsIdentity;

extern char *fl_tls_cert_file;
extern char *fl_tls_key_file;
extern char *fl_tls_ca_file;
extern char *fl_tls_crl_file;
extern int fl_tls_min_version;
extern bool fl_tls_require_certificate;
extern int fl_tls_identity;
extern bool fl_tls_psk;
extern int fl_tls_session_lifetime_s;
extern int fl_tls_max_handshakes;
extern char *fl_ws_path;
extern char *fl_ws_origins;
/* Is the peer one of fleetlog.proxy_protocol_from?  Always false while that is empty. */
extern bool fl_net_is_balancer(const struct sockaddr_storage *peer);

/* in conn.c */
extern FlNetConn *fl_net_conn_create(FlNetLoop *loop, FlNetListener *listener, int fd,
									 const struct sockaddr_storage *peer);
/* recv with the outcomes sorted: > 0 bytes, 0 nothing now, -1 connection gone. */
extern ssize_t fl_net_conn_recv(FlNetConn *conn, uint8 *to, Size room);
/* So many bytes have come. */
extern void fl_net_conn_count(FlNetConn *conn, Size bytes);
/* Much has come of late. */
extern bool fl_net_conn_talks(const FlNetConn *conn);
/* Tell epoll what the flags say we want to hear about. */
extern void fl_net_conn_interest(FlNetConn *conn);
/* Serve it in the next turn though its socket may say nothing. */
extern void fl_net_conn_make_ready(FlNetConn *conn);
/* Queue bytes as they are, without framing. */
extern void fl_net_conn_write_raw(FlNetConn *conn, const void *data, Size len);
extern void fl_net_conn_readable(FlNetConn *conn);
extern void fl_net_conn_ready(FlNetConn *conn);
extern void fl_net_conn_flush(FlNetConn *conn);
extern void fl_net_conn_timer(FlNetConn *conn);
extern void fl_net_conn_bury(FlNetConn *conn);
extern void fl_net_conn_free(FlNetConn *conn);

/* An epoll event's pointer carries its kind in the lowest bit. */
#define FL_NET_TAG_LISTENER ((uintptr_t) 1)

#endif /* FLEETLOG_NET_PRIVATE_H */
