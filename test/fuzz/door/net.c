/*-------------------------------------------------------------------------
 *
 * net.c
 *	  An event loop without sockets: see fake.h.
 *
 * It keeps to what include/fleetlog/net.h says: bytes that were not consumed are
 * presented again, with more behind them; a connection that was closed stays
 * valid memory until the end of the turn; on_close comes once.  Bytes are
 * presented in memory of exactly their length, so that a read beyond them is
 * found.
 *
 *-------------------------------------------------------------------------
 */
#include "fake.h"

#include "../../../bgworker/mqtt/mqtt.h"
#include "../../../bgworker/net/net_private.h"

#define MAX_CONNS 8

typedef struct Peer
{
	FlNetConn *conn; /* NULL: free */
	uint8 *data;     /* what it has sent and the door has not consumed */
	size_t len;
	bool fresh;  /* something has come since it was presented */
	bool gone;   /* it has hung up */
	int64 timer; /* 0: none */
} Peer;

static Peer peers[MAX_CONNS];
static FlNetLoop loop;
bool fake_net_stuck = false;

static Peer *
peer_of(const FlNetConn *conn)
{
	for (int i = 0; i < MAX_CONNS; i++)
		if (peers[i].conn == conn)
			return &peers[i];
	FL_FUZZ_ASSERT(!"a connection that is not there");
	return NULL;
}

FlNetLoop *
fake_net_loop(void)
{
	return &loop;
}

bool
fake_net_is_there(const FlNetConn *conn)
{
	for (int i = 0; i < MAX_CONNS; i++)
		if (peers[i].conn == conn)
			return true;
	return false;
}

FlNetConn *
fake_net_connect(const FlNetProtocol *protocol)
{
	Peer *peer = peer_of(NULL);

	memset(peer, 0, sizeof(*peer));
	peer->conn = MemoryContextAllocZero(loop.context, protocol->conn_size);
	peer->conn->loop = &loop;
	peer->conn->protocol = protocol;
	loop.nconns++;
	protocol->on_accept(peer->conn);
	return peer->conn;
}

void
fake_net_send(FlNetConn *conn, const uint8 *data, size_t len)
{
	Peer *peer = peer_of(conn);
	uint8 *joined;

	if (len == 0)
		return;
	joined = malloc(peer->len + len);
	memcpy(joined, peer->data != NULL ? peer->data : data, peer->len);
	memcpy(joined + peer->len, data, len);
	free(peer->data);
	peer->data = joined;
	peer->len += len;
	peer->fresh = true;
}

void
fake_net_hang_up(FlNetConn *conn)
{
	peer_of(conn)->gone = true;
}

/* ---- a turn ---- */

static void
present(Peer *peer)
{
	FlNetConn *conn = peer->conn;
	uint8 *copy;
	Size used;

	if (!peer->fresh || (conn->flags & FL_NET_PAUSED) || !fl_net_is_open(conn) || peer->len == 0)
		return;
	peer->fresh = false;
	copy = malloc(peer->len);
	memcpy(copy, peer->data, peer->len);
	used = conn->protocol->on_bytes(conn, copy, peer->len);
	/* They were only lent. */
	memset(copy, 0x7F, peer->len);
	free(copy);
	FL_FUZZ_ASSERT(used <= peer->len);
	memmove(peer->data, peer->data + used, peer->len - used);
	peer->len -= used;
}

int
fl_net_turn(FlNetLoop *net, bool poll)
{
	int64 now = fl_net_now(net);
	int n = 0;

	for (int i = 0; i < MAX_CONNS; i++)
	{
		Peer *peer = &peers[i];

		if (peer->conn == NULL)
			continue;
		n += peer->fresh;
		present(peer);
		if (peer->timer != 0 && peer->timer <= now && fl_net_is_open(peer->conn))
		{
			peer->timer = 0;
			peer->conn->protocol->on_timer(peer->conn);
		}
		if (peer->gone && fl_net_is_open(peer->conn) && (peer->len == 0 || !(peer->conn->flags & FL_NET_PAUSED)))
			fl_net_close(peer->conn, "connection closed by the client");
	}
	return n;
}

/* A SUBACK leaves only when the feeds that its filters want are read. */
static void
let_leave(FlNetConn *conn)
{
	if (conn->out_bytes == 0)
		return;
	if (conn->protocol->on_output != NULL)
		conn->protocol->on_output(conn);
	FL_FUZZ_ASSERT(!fl_mqtt_door->interest_changed);
	conn->bytes_out += conn->out_bytes;
	conn->out_bytes = 0;
}

static void
drain(FlNetConn *conn)
{
	bool was_blocked = (conn->flags & FL_NET_BLOCKED) != 0;

	if (fake_net_stuck)
	{
		if (conn->out_bytes > 0)
			conn->flags |= FL_NET_BLOCKED;
		return;
	}
	let_leave(conn);
	conn->flags &= ~FL_NET_BLOCKED;
	if (was_blocked && fl_net_is_open(conn) && conn->protocol->on_drained)
		conn->protocol->on_drained(conn);
}

void
fl_net_flush(FlNetLoop *net)
{
	for (int i = 0; i < MAX_CONNS; i++)
	{
		Peer *peer = &peers[i];

		if (peer->conn == NULL)
			continue;
		drain(peer->conn);
		if (!(peer->conn->flags & (FL_NET_CLOSED | FL_NET_FINISHING)))
			continue;
		free(peer->data);
		pfree(peer->conn);
		memset(peer, 0, sizeof(*peer));
		net->nconns--;
	}
}

void
fl_net_push(FlNetConn *conn)
{
	if (!fake_net_stuck)
		let_leave(conn);
}

/* ---- what the door does with a connection ---- */

void
fl_net_write(FlNetConn *conn, const void *data, Size len)
{
	if (!fl_net_is_open(conn))
		return;
	fake_net_check(conn, data, len);
	conn->out_bytes += (uint32) len;
}

void
fl_net_pause(FlNetConn *conn)
{
	conn->flags |= FL_NET_PAUSED;
}

void
fl_net_resume(FlNetConn *conn)
{
	if (!(conn->flags & FL_NET_PAUSED) || !fl_net_is_open(conn))
		return;
	conn->flags &= ~FL_NET_PAUSED;
	peer_of(conn)->fresh = true;
}

bool
fl_net_is_open(const FlNetConn *conn)
{
	return !(conn->flags & (FL_NET_FINISHING | FL_NET_LINGERING | FL_NET_CLOSED));
}

void
fl_net_close(FlNetConn *conn, const char *why)
{
	if (!fl_net_is_open(conn))
		return;
	FL_FUZZ_ASSERT(why != NULL && strlen(why) > 0);
	conn->flags |= FL_NET_CLOSED;
	conn->protocol->on_close(conn, why);
}

void
fl_net_finish(FlNetConn *conn, const char *why)
{
	if (!fl_net_is_open(conn))
		return;
	FL_FUZZ_ASSERT(why != NULL && strlen(why) > 0);
	conn->flags |= FL_NET_FINISHING;
	conn->protocol->on_close(conn, why);
}

void
fl_net_finish_slowly(FlNetConn *conn, const char *why)
{
	fl_net_finish(conn, why);
}

void
fl_net_part(FlNetConn *conn, const char *why)
{
	fl_net_close(conn, why);
}

void
fl_net_set_timer(FlNetConn *conn, int64 in_ms)
{
	FL_FUZZ_ASSERT(in_ms >= 0);
	peer_of(conn)->timer = fl_net_now(&loop) + in_ms;
}

void
fl_net_cancel_timer(FlNetConn *conn)
{
	peer_of(conn)->timer = 0;
}

void
fl_net_each(FlNetLoop *net, void (*f)(FlNetConn *conn, void *arg), void *arg)
{
	for (int i = 0; i < MAX_CONNS; i++)
		if (peers[i].conn != NULL && fl_net_is_open(peers[i].conn))
			f(peers[i].conn, arg);
}

/* ---- the loop ---- */

FlNetLoop *
fl_net_create(MemoryContext parent, int door, int max_connections)
{
	memset(&loop, 0, sizeof(loop));
	loop.context = parent;
	loop.door = door;
	fake_net_stuck = false;
	return &loop;
}

int64
fl_net_now(FlNetLoop *net)
{
	return fake_now_us / 1000;
}

int
fl_net_connections(FlNetLoop *net)
{
	return net->nconns;
}

long
fl_net_timeout(FlNetLoop *net)
{
	return -1;
}

bool
fl_net_is_short(FlNetLoop *net)
{
	return false;
}

Size
fl_net_buffered(FlNetLoop *net)
{
	return 0;
}

uint64
fl_net_bytes_in(FlNetLoop *net)
{
	return net->bytes_in;
}

uint64
fl_net_bytes_out(FlNetLoop *net)
{
	return net->bytes_out;
}

const char *
fl_net_peer(const FlNetConn *conn, char *buf, Size size)
{
	strlcpy(buf, "192.0.2.1:4711", size);
	return buf;
}

const char *
fl_net_listening(FlNetLoop *net, char *buf, Size size)
{
	strlcpy(buf, "nothing", size);
	return buf;
}

FlNetProof
fl_net_proof(FlNetConn *conn, char *buf, Size size, const char **name)
{
	return FL_NET_PROOF_NONE;
}

void *
fl_net_attached(const FlNetConn *conn)
{
	return NULL;
}

int
fl_net_kind(const FlNetConn *conn)
{
	return FL_NET_KIND_PLAIN;
}

void
fl_net_tls_state(const FlNetConn *conn, uint16 *version, uint16 *cipher)
{
	*version = *cipher = 0;
}
