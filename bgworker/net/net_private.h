/*
 * net_private.h
 *		What the files of the event loop share among themselves.
 */
#ifndef FLEETLOG_NET_PRIVATE_H
#define FLEETLOG_NET_PRIVATE_H

#include <sys/socket.h>

#include "fleetlog/net.h"

/* Flags of a connection. */
#define FL_NET_PAUSED    0x01 /* the protocol wants no input */
#define FL_NET_BLOCKED   0x02 /* the kernel takes no more output for now */
#define FL_NET_DIRTY     0x04 /* in the list of those to be flushed */
#define FL_NET_READY     0x08 /* in the list of those to be served */
#define FL_NET_FINISHING 0x10 /* protocol is done, output still leaves */
#define FL_NET_LINGERING 0x20 /* output has left, waiting for the peer's end */
#define FL_NET_CLOSED    0x40 /* waiting to be freed */
#define FL_NET_EOF       0x80 /* the peer has sent its end */

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
	int shown;       /* its line in fleetlog.stat_listener, -1 = none */
	int conns;
	const char *setting;
	char name[64];
};

struct FlNetLoop
{
	MemoryContext context;
	FlNetPool pool;
	FlTimerWheel wheel;
	FlTimer retry_timer; /* for listeners without a socket */
	dlist_head listeners;
	dlist_head conns;
	dlist_head ready;
	dlist_head dirty;
	dlist_head graveyard;
	int epoll_fd;
	int door;
	int ceiling;
	int nconns;
	int ngrave;
	int64 last_full_log; /* when the ceiling was last complained about */
	uint64 bytes_in;
	uint64 bytes_out;
	uint64 shed;    /* connections closed at the ceiling */
	uint8 *scratch; /* FL_NET_READ_BYTES */
};

/* in buffer.c */
extern void fl_net_pool_init(FlNetPool *pool, MemoryContext context);
extern FlNetBuf *fl_net_buf_get(FlNetPool *pool, Size room);
extern void fl_net_buf_put(FlNetPool *pool, FlNetBuf *buf);

/* in listener.c */
extern void fl_net_accept(FlNetLoop *loop, FlNetListener *listener);
extern void fl_net_retry_listeners(FlNetLoop *loop);
/* A connection of this listener came (1) or went (-1). */
extern void fl_net_listener_count(FlNetListener *listener, int delta);

/* in conn.c */
extern FlNetConn *fl_net_conn_create(FlNetLoop *loop, FlNetListener *listener, int fd);
extern void fl_net_conn_readable(FlNetConn *conn);
extern void fl_net_conn_ready(FlNetConn *conn);
extern void fl_net_conn_flush(FlNetConn *conn);
extern void fl_net_conn_timer(FlNetConn *conn);
extern void fl_net_conn_bury(FlNetConn *conn);
extern void fl_net_conn_free(FlNetConn *conn);

/* An epoll event's pointer carries its kind in the lowest bit. */
#define FL_NET_TAG_LISTENER ((uintptr_t) 1)

#endif /* FLEETLOG_NET_PRIVATE_H */
