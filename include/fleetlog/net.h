/*
 * net.h
 *		The event loop of a front door: listeners, connections, timers.
 *
 * What: one epoll set per worker, whose descriptor is one event of the worker's
 * WaitEventSet beside its latch and the postmaster's death.  The loop accepts,
 * reads, writes and times; what the bytes mean is told by a table of functions
 * (FlNetProtocol), so that MQTT, Kafka and TLS in front of either share it.
 *
 * Between socket and protocol may lie layers: the PROXY header of a load
 * balancer, TLS, WebSocket (bgworker/net/layer.c).  A protocol does not notice,
 * except that it may ask who the peer has proved to be.  A connection without
 * layers pays one test of a flag for them.
 *
 * Life of a turn, as the worker runs it:
 *
 *		fl_net_turn()		ready and readable connections, due timers
 *		...					whatever the protocol does besides (feed, acks)
 *		fl_net_flush()		write what was queued, free what was closed
 *		WaitLatch on fl_net_fd() for at most fl_net_timeout() ms
 *
 * Rules
 *	- No call here blocks, looks up a name, or needs a transaction.
 *	- An idle connection owns no buffer: they are borrowed from the worker's
 *	  pool while bytes are pending (fl_net_memory() tells the sum).
 *	- Input is read at most FL_NET_READ_BYTES a connection and turn, accepts are
 *	  capped per turn: one loud peer does not starve the others.
 *	- A connection that was closed stays valid memory until fl_net_flush().
 *
 * Assumes postgres.h was included first.
 */
#ifndef FLEETLOG_NET_H
#define FLEETLOG_NET_H

#include "lib/ilist.h"
#include "utils/guc.h"

#include "fleetlog/timer.h"

/* How bytes travel between socket and protocol: bits. */
#define FL_NET_KIND_PLAIN     0
#define FL_NET_KIND_TLS       1
#define FL_NET_KIND_WEBSOCKET 2

#define FL_NET_READ_BYTES 65536 /* read per connection and turn */
#define FL_NET_EVENTS     512   /* sockets served per turn */
#define FL_NET_PERIOD_MS  8192  /* what has come counts half after so long */
#define FL_NET_TALKS      16384 /* bytes, counted so, that make a connection one that talks: some 2 kB a second */
#define FL_NET_QUIET_US   1000  /* of a turn, for those of which less has come */
#define FL_NET_ACCEPTS    64    /* accepts per listener and turn */
#define FL_NET_RESUMES    512   /* resumed connections per turn */
#define FL_NET_LINGER_MS  1000  /* for the peer to read our last bytes */
#define FL_NET_FLUSH_MS   5000  /* for our last bytes to leave */
#define FL_NET_SLOW_MS    30000 /* the same to who is known to be slow */

typedef struct FlNetLoop FlNetLoop;
typedef struct FlNetConn FlNetConn;
typedef struct FlNetBuf FlNetBuf;

typedef struct FlNetProtocol
{
	const char *name; /* "mqtt" */
	Size conn_size;   /* size of the struct that begins with FlNetConn */

	/* A peer has connected; the memory behind FlNetConn is zeroed. */
	void (*on_accept)(FlNetConn *conn);

	/*
	 * Bytes have come, all that are pending.  Returns how many are done with;
	 * the rest is presented again, with more behind it.  May pause or close.
	 */
	Size (*on_bytes)(FlNetConn *conn, const uint8 *data, Size len);

	/* The connection's timer has fired. */
	void (*on_timer)(FlNetConn *conn);

	/*
	 * Output is about to leave, in the middle of a turn or at its end; may be NULL.  What
	 * it promises has to hold from here on.  Must write nothing.
	 */
	void (*on_output)(FlNetConn *conn);

	/* Output that had to wait for the peer has all left. */
	void (*on_drained)(FlNetConn *conn);

	/*
	 * The certificate that the peer has shown holds no longer: it has expired or
	 * is on a list of revoked ones.  The protocol ends the connection.
	 */
	void (*on_certificate_end)(FlNetConn *conn, bool revoked);

	/*
	 * In the middle of a TLS handshake: the pre-shared key of the identity that
	 * the peer names, at most room bytes; 0: there is none.  Must not raise an
	 * error.  *attached: what fl_net_attached is to return if the handshake
	 * succeeds, palloc'd in the context that is current (the loop's).
	 */
	int (*on_psk)(FlNetConn *conn, const char *identity, uint8 *key, int room, void **attached);

	/* The connection is gone; the last call for it. why is for the log. */
	void (*on_close)(FlNetConn *conn, const char *why);
} FlNetProtocol;

/* First member of a protocol's connection. */
struct FlNetConn
{
	FlNetLoop *loop;
	const FlNetProtocol *protocol;
	struct FlNetListener *listener; /* that accepted it */
	struct FlNetLayer *layer;       /* what lies between, NULL: nothing */
	FlNetBuf *in;                   /* pending input, NULL when there is none */
	FlNetBuf *out_head;             /* pending output */
	FlNetBuf *out_tail;
	FlTimer timer; /* the protocol's */
	dlist_node all_node;
	dlist_node work_node;  /* in the ready list */
	dlist_node dirty_node; /* in the list of those with output to write */
	int fd;
	uint32 out_bytes;
	uint64 bytes_in;  /* of the socket; with TLS: of its content */
	uint64 bytes_out;
	uint32 heat;        /* of bytes_in, those of late */
	uint16 heat_period; /* when that was counted */
	uint16 flags;       /* FL_NET_* in net_private.h */
};

/* ---- Loop -------------------------------------------------------------- */

/*
 * Raises RLIMIT_NOFILE to its hard limit.  max_connections bounds this loop; 0
 * means as many as descriptors allow.  door only serves messages.
 */
extern FlNetLoop *fl_net_create(MemoryContext parent, int door, int max_connections);
extern int fl_net_fd(FlNetLoop *loop);

/* How many connections this loop can hold: descriptors less the reserve. */
extern int fl_net_ceiling(FlNetLoop *loop);

/* Milliseconds until fl_net_turn has something to do by itself; -1 for ever. */
extern long fl_net_timeout(FlNetLoop *loop);
/*
 * One turn.  With poll false the sockets are not asked: the caller's wait has
 * just said that none has anything, so that only resumed connections and
 * timers are served.  Returns how many sockets had something.
 */
extern int fl_net_turn(FlNetLoop *loop, bool poll);
extern void fl_net_flush(FlNetLoop *loop);

/* Monotonic milliseconds, moved by fleetlog.clock_offset in tests. */
extern int64 fl_net_now(FlNetLoop *loop);

extern int fl_net_connections(FlNetLoop *loop);

/*
 * Bytes that all buffers of the loop may hold together.  At the limit a
 * connection that needs room for half a packet is closed; output is the
 * protocol's to hold back (fl_net_is_short).
 */
extern void fl_net_set_memory_limit(FlNetLoop *loop, Size bytes);
extern bool fl_net_is_short(FlNetLoop *loop);
extern Size fl_net_buffered(FlNetLoop *loop);
extern Size fl_net_memory(FlNetLoop *loop);
extern uint64 fl_net_bytes_in(FlNetLoop *loop);
extern uint64 fl_net_bytes_out(FlNetLoop *loop);

/* Walk all connections; f may close the one it is given, no other. */
extern void fl_net_each(FlNetLoop *loop, void (*f)(FlNetConn *conn, void *arg), void *arg);

/* ---- Listeners ----------------------------------------------------------- */

/* Bytes of shared memory for what the front doors share, and its initialisation. */
extern Size fl_net_shmem_size(void);
extern void fl_net_shmem_init(void);

/* Settings of TLS, WebSocket and PROXY; called from _PG_init. */
extern void fl_net_settings_define(void);

/*
 * Take the settings and files of TLS and of the layers as they are now: before
 * the first fl_net_listen and after every reload.  Files that cannot be used
 * are logged with a hint, and what was loaded before stays in force.
 * tls_wanted: some listener is of that kind.
 */
extern void fl_net_configure(FlNetLoop *loop, bool tls_wanted);

/*
 * Listen at what spec says: host:port[,host:port...], host a numeric address,
 * [IPv6], localhost, or * for every address; a bare port means loopback, IPv4
 * and IPv6.  Called again after a reload, it keeps unchanged sockets open.  An
 * address that cannot be had is logged once with a hint and tried again every
 * few seconds.  kind is of FL_NET_KIND_*, label its name in views and the log,
 * setting the name of the setting; both are constants.
 */
extern void fl_net_listen(FlNetLoop *loop, const FlNetProtocol *protocol, int kind, const char *label,
						  const char *spec, const char *setting);

/* Check a spec as a GUC check hook would; *why is a constant text. No loop needed. */
extern bool fl_net_check_spec(const char *spec, const char **why);

/* The check hook of every setting that holds such a spec. */
extern bool fl_net_check_listen(char **newval, void **extra, GucSource source);

/* Stop accepting, for shutdown. */
extern void fl_net_stop_listening(FlNetLoop *loop);

/* "127.0.0.1:1883, [::1]:1883", or "nothing"; for the worker's state. */
extern const char *fl_net_listening(FlNetLoop *loop, char *buf, Size size);

/* ---- Connections ---------------------------------------------------------- */

/* Hand queued bytes to the kernel now; never closes, errors wait for the flush. */
extern void fl_net_push(FlNetConn *conn);

/* Queue bytes for the peer; copied.  Never fails and never blocks. */
extern void fl_net_write(FlNetConn *conn, const void *data, Size len);

/*
 * Bytes in buffers of the loop's, which are collected over several turns and then
 * handed to a connection whole.  They count as buffered from the beginning.  All
 * zeroes is an empty chain.
 */
typedef struct FlNetChain
{
	FlNetBuf *head;
	FlNetBuf *tail;
} FlNetChain;

/* Add bytes; copied.  Out of memory is an error, with the chain as it was or with some of them. */
extern void fl_net_chain_add(FlNetLoop *loop, FlNetChain *chain, const void *data, Size len);
extern void fl_net_chain_free(FlNetLoop *loop, FlNetChain *chain);

/* Queue what is in the chain, which is empty then.  Not for WebSockets. */
extern void fl_net_write_chain(FlNetConn *conn, FlNetChain *chain);

/* Bytes queued and not yet taken by the kernel. */
static inline Size
fl_net_pending(const FlNetConn *conn)
{
	return conn->out_bytes;
}

/* Stop and resume reading; resuming presents pending bytes in the next turn. */
extern void fl_net_pause(FlNetConn *conn);
extern void fl_net_resume(FlNetConn *conn);

/* Set the connection's timer, ms from now; fl_net_cancel_timer takes it away. */
extern void fl_net_set_timer(FlNetConn *conn, int64 in_ms);
extern void fl_net_cancel_timer(FlNetConn *conn);

/* Close at once; output that is pending is lost. */
extern void fl_net_close(FlNetConn *conn, const char *why);

/*
 * Close when the output has left: the protocol hears on_close at once and is
 * done with the connection; the loop brings the last bytes to the peer.
 */
extern void fl_net_finish(FlNetConn *conn, const char *why);

/* The same for a peer that is slow, and has much to read before our last words. */
extern void fl_net_finish_slowly(FlNetConn *conn, const char *why);

/*
 * Close after the peer's last word.  Over TLS or WebSocket one more is to come from
 * the layer below, and a socket that is closed by then would be answered by a reset,
 * which clients report as an error: there it is fl_net_finish, else fl_net_close.
 */
extern void fl_net_part(FlNetConn *conn, const char *why);

extern bool fl_net_is_open(const FlNetConn *conn);

/* ---- Who the peer has proved to be ------------------------------------------ */

typedef enum FlNetProof
{
	FL_NET_PROOF_NONE,        /* nothing: no TLS, or neither certificate nor key */
	FL_NET_PROOF_CERTIFICATE, /* *name: what fleetlog.tls_identity says of its certificate */
	FL_NET_PROOF_NAMELESS,    /* a valid certificate that has no such name, *name: why */
	FL_NET_PROOF_PSK          /* a pre-shared key: see fl_net_attached */
} FlNetProof;

/* name is written to buf where it is not constant. */
extern FlNetProof fl_net_proof(FlNetConn *conn, char *buf, Size size, const char **name);
extern void *fl_net_attached(const FlNetConn *conn);

/* FL_NET_KIND_* of the listener that the peer has come to. */
extern int fl_net_kind(const FlNetConn *conn);
/* The protocol's number of TLS (0x0304: 1.3) and of the cipher suite; 0 and 0: no TLS. */
extern void fl_net_tls_state(const FlNetConn *conn, uint16 *version, uint16 *cipher);
/* OpenSSL's name of a cipher suite, in any process; NULL: it knows none of that number.  Valid until the process ends. */
extern const char *fl_net_cipher_name(uint16 cipher);

/* "192.0.2.1:4711", behind a balancer the address that it tells; asks the kernel, so keep it where it is needed often. */
extern const char *fl_net_peer(const FlNetConn *conn, char *buf, Size size);

#endif /* FLEETLOG_NET_H */
