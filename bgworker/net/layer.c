/*
 * layer.c
 *		What may lie between a socket and its protocol: the PROXY header of a load
 *		balancer, TLS, WebSocket, in this order.
 *
 *		STAGE_PROXY ──► STAGE_SHAKE ──► STAGE_UPGRADE ──► STAGE_OPEN
 *		 from a balancer    TLS            WebSocket        the protocol's bytes
 *
 * A listener's kind and the peer's address say at accept which stages there
 * are; a plain connection has none, and no FlNetLayer.  conn.c asks
 * fl_net_layer_receive where it would ask the kernel, and what comes back are
 * the protocol's bytes; on the way out OpenSSL takes the queue's bytes where
 * the kernel would (tls_conn.c), and WebSocket headers are put into the queue.
 *
 * Invariants: in STAGE_PROXY not a byte beyond the header is read, because what
 * follows is OpenSSL's.  In STAGE_SHAKE the socket is read by the handshake
 * only.  Whoever breaks a rule is closed here, and 0 is returned to conn.c.
 */
#include "postgres.h"

#include <netinet/in.h>

#include "net_private.h"

/* Answers to pings of a peer that does not read them, at which it is given up. */
#define MAX_UNREAD (256 * 1024)

/* Room for bytes on their way through a layer; most doors never need it. */
uint8 *
fl_net_raw(FlNetLoop *loop)
{
	if (loop->raw == NULL)
		loop->raw = MemoryContextAlloc(loop->context, FL_NET_READ_BYTES);
	return loop->raw;
}

/* ---- stages ---- */

/* The stage after the one that is done, with the flags that the loop goes by. */
static void
enter_next_stage(FlNetConn *conn)
{
	FlNetLayer *layer = conn->layer;
	uint16 old = conn->flags;

	if (layer->stage == FL_NET_STAGE_PROXY && (layer->kind & FL_NET_KIND_TLS))
	{
		layer->stage = FL_NET_STAGE_SHAKE;
		conn->flags &= ~FL_NET_LAYERED;
		conn->flags |= FL_NET_SHAKING;
	}
	else if (layer->stage < FL_NET_STAGE_UPGRADE && (layer->kind & FL_NET_KIND_WEBSOCKET))
	{
		layer->stage = FL_NET_STAGE_UPGRADE;
		conn->flags |= FL_NET_LAYERED;
	}
	else
	{
		layer->stage = FL_NET_STAGE_OPEN;
		if (layer->kind == FL_NET_KIND_PLAIN)
			conn->flags &= ~FL_NET_LAYERED;
		else
			conn->flags |= FL_NET_LAYERED;
	}
	if ((old ^ conn->flags) & FL_NET_SHAKING)
		fl_net_conn_interest(conn);
}

void
fl_net_layer_create(FlNetConn *conn, const struct sockaddr_storage *peer)
{
	bool balancer = fl_net_is_balancer(peer);
	bool websocket = (conn->listener->kind & FL_NET_KIND_WEBSOCKET) != 0;

	if (conn->listener->kind == FL_NET_KIND_PLAIN && !balancer)
		return;
	conn->layer =
		MemoryContextAllocZero(conn->loop->context, websocket ? sizeof(FlNetLayer) : offsetof(FlNetLayer, ws));
	conn->layer->conn = conn;
	conn->layer->kind = conn->listener->kind;
	conn->layer->stage = FL_NET_STAGE_PROXY;
	if (balancer)
		conn->flags |= FL_NET_LAYERED;
	else
		enter_next_stage(conn);
}

void
fl_net_layer_secured(FlNetConn *conn)
{
	conn->flags &= ~FL_NET_SHAKING;
	conn->flags |= FL_NET_SECURE;
	enter_next_stage(conn);
	fl_net_conn_interest(conn);
}

/* ---- bytes held until they are whole ---- */

static void
release_held(FlNetConn *conn)
{
	if (conn->layer->held != NULL)
		fl_net_buf_put(&conn->loop->pool, conn->layer->held);
	conn->layer->held = NULL;
}

/* A buffer of that size, which does not grow; NULL when the door's are used up: closed. */
static FlNetBuf *
hold(FlNetConn *conn, Size room)
{
	FlNetPool *pool = &conn->loop->pool;

	if (conn->layer->held != NULL)
		return conn->layer->held;
	if (pool->used_bytes + room > pool->limit)
	{
		fl_net_close(conn, "the front door's buffers are used up");
		return NULL;
	}
	return conn->layer->held = fl_net_buf_get(pool, room);
}

/* ---- PROXY header ---- */

static void
refuse_proxy(FlNetConn *conn, FlResult result)
{
	static int64 last = 0;
	int64 now = fl_net_now(conn->loop);
	char peer[80];

	if (last == 0 || now - last >= 10000)
	{
		last = now;
		ereport(LOG, (errmsg("fleetlog: connection from %s was closed: %s", fl_net_peer(conn, peer, sizeof(peer)),
							 result == FL_TOO_LARGE ? "its PROXY header is too long"
													: "it does not begin with a PROXY header of version 2"),
					  errhint("Peers of fleetlog.proxy_protocol_from must send one. Configure the balancer to, or take its "
							  "address out of the setting.")));
	}
	fl_net_close(conn, "no PROXY header");
}

/* Read what the header still lacks, and not a byte more. */
static void
receive_proxy(FlNetConn *conn)
{
	FlNetLayer *layer = conn->layer;
	FlNetBuf *buf = hold(conn, FL_PROXY_MAX);
	FlProxyHeader header;
	FlResult result;
	size_t total;
	ssize_t n;

	if (buf == NULL)
		return;
	(void) fl_proxy_decode(buf->data, buf->end, &header, &total);
	n = fl_net_conn_recv(conn, buf->data + buf->end, Min(total, FL_PROXY_MAX) - buf->end);
	if (n < 0)
		fl_net_close(conn, "connection closed by the client");
	if (n <= 0)
		return;
	buf->end += (uint32) n;
	result = fl_proxy_decode(buf->data, buf->end, &header, &total);
	if (result == FL_INCOMPLETE)
		return;
	if (result != FL_OK)
	{
		refuse_proxy(conn, result);
		return;
	}
	layer->peer_family = header.family;
	layer->peer_port = header.port;
	memcpy(layer->peer_address, header.address, sizeof(layer->peer_address));
	release_held(conn);
	enter_next_stage(conn);
}

/* ---- WebSocket ---- */

/* The bytes below WebSocket. */
static ssize_t
receive_raw(FlNetConn *conn, uint8 *to, Size room)
{
	if (conn->flags & FL_NET_SECURE)
		return fl_tls_read(conn, to, room);
	return fl_net_conn_recv(conn, to, room);
}

static void
send_raw(void *arg, const uint8_t *data, size_t len)
{
	fl_net_conn_write_raw((FlNetConn *) arg, data, len);
}

static void
log_upgrade(FlNetConn *conn, const FlUpgrade *upgrade)
{
	static int64 last = 0;
	int64 now = fl_net_now(conn->loop);
	char peer[80];

	if (last != 0 && now - last < 1000)
		return;
	last = now;
	ereport(LOG, (errmsg("fleetlog: WebSocket from %s was refused (%d): %s", fl_net_peer(conn, peer, sizeof(peer)),
						 upgrade->status, upgrade->why)));
}

/* Bytes of frames; returns how many of the protocol's they make. */
static ssize_t
decode_frames(FlNetConn *conn, const uint8 *data, Size len, uint8 *to)
{
	FlNetLayer *layer = conn->layer;
	size_t out;

	if (fl_ws_decode(&layer->ws, data, len, to, &out, send_raw, conn, &layer->why) != FL_OK)
	{
		fl_net_close(conn, "out of memory");
		return 0;
	}
	if (layer->why == NULL && conn->out_bytes > MAX_UNREAD && out == 0)
	{
		fl_net_close(conn, "does not read the answers to its pings");
		return 0;
	}
	/* What came before the end is the protocol's first. */
	if (layer->why != NULL)
		fl_net_conn_make_ready(conn);
	return (ssize_t) out;
}

static ssize_t
receive_upgrade(FlNetConn *conn, uint8 *to, Size room)
{
	FlUpgradeRules rules = {fl_ws_path, fl_ws_origins};
	FlNetBuf *buf = hold(conn, FL_UPGRADE_MAX_REQUEST);
	FlUpgrade upgrade;
	ssize_t n;

	if (buf == NULL)
		return 0;
	/* Frames that come in one piece with the request are decoded to `to`; nothing of the protocol is buffered before. */
	Assert(room >= FL_UPGRADE_MAX_REQUEST);
	n = receive_raw(conn, buf->data + buf->end, Min(buf->cap, FL_UPGRADE_MAX_REQUEST) - buf->end);
	if (n <= 0)
		return n;
	buf->end += (uint32) n;
	if (fl_upgrade_decode(buf->data, buf->end, &rules, &upgrade) == FL_INCOMPLETE)
		return 0;
	fl_net_conn_write_raw(conn, upgrade.answer, upgrade.len);
	if (upgrade.status != 101)
	{
		log_upgrade(conn, &upgrade);
		fl_net_finish(conn, "no WebSocket");
		return 0;
	}
	conn->flags |= FL_NET_FRAMED;
	enter_next_stage(conn);
	n = 0;
	if (buf->end > upgrade.used)
		n = decode_frames(conn, buf->data + upgrade.used, buf->end - upgrade.used, to);
	if (conn->layer != NULL)
		release_held(conn);
	return n;
}

static ssize_t
receive_frames(FlNetConn *conn, uint8 *to, Size room)
{
	uint8 *raw = fl_net_raw(conn->loop);
	ssize_t n;

	if (conn->layer->why != NULL)
	{
		fl_net_finish(conn, conn->layer->why);
		return 0;
	}
	n = receive_raw(conn, raw, Min(room, FL_NET_READ_BYTES));
	return n > 0 ? decode_frames(conn, raw, (Size) n, to) : n;
}

/* ---- for conn.c ---- */

ssize_t
fl_net_layer_receive(FlNetConn *conn, uint8 *to, Size room)
{
	switch ((FlNetStage) conn->layer->stage)
	{
		case FL_NET_STAGE_PROXY:
			receive_proxy(conn);
			return 0;
		case FL_NET_STAGE_SHAKE:
			return 0;
		case FL_NET_STAGE_UPGRADE:
			return receive_upgrade(conn, to, room);
		case FL_NET_STAGE_OPEN:
			if (conn->flags & FL_NET_FRAMED)
				return receive_frames(conn, to, room);
			return receive_raw(conn, to, room);
	}
	return -1;
}

void
fl_net_layer_finish(FlNetConn *conn)
{
	if (conn->flags & FL_NET_FRAMED)
	{
		fl_ws_close(&conn->layer->ws, FL_WS_NORMAL, send_raw, conn);
		conn->flags &= ~FL_NET_FRAMED;
	}
	if (conn->flags & (FL_NET_SHAKING | FL_NET_STALLED))
	{
		conn->flags &= ~(FL_NET_SHAKING | FL_NET_STALLED);
		fl_net_conn_interest(conn);
	}
}

void
fl_net_layer_free(FlNetConn *conn)
{
	FlNetLayer *layer = conn->layer;

	fl_tls_end(conn);
	if (layer->kind & FL_NET_KIND_WEBSOCKET)
		fl_ws_free(&layer->ws);
	release_held(conn);
	if (layer->attached != NULL)
		pfree(layer->attached);
	conn->layer = NULL;
	pfree(layer);
}
