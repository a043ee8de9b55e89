/*
 * conn.c
 *		One connection: reading, writing, closing.
 *
 * Reading goes into the worker's one scratch buffer; only what the protocol
 * leaves over (half a packet) is put into a borrowed buffer, which grows with
 * the bytes that have come, never with a length that was announced.
 *
 * Closing: fl_net_close is at once.  fl_net_finish lets the last bytes leave,
 * then shuts down our side and waits a moment for the peer's end: closing a
 * socket with unread input would send a reset that may overtake our farewell.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "net_private.h"

#define IOV_PER_WRITE 16

/*
 * Where connections of one size live.  A common context rounds each up to a power of
 * two, which is a third of it for nothing; here the fullest blocks are filled first, so
 * that after a crowd whole blocks are given back.
 */
static MemoryContext
place_for(FlNetLoop *loop, Size size)
{
	int i = 0;

	while (i < loop->nplaces && loop->places[i].size != size)
		i++;
	if (i == lengthof(loop->places))
		elog(ERROR, "fleetlog: connections have more sizes than expected");
	if (i == loop->nplaces)
	{
		loop->places[i].context = SlabContextCreate(loop->context, "fleetlog connections", SLAB_DEFAULT_BLOCK_SIZE, size);
		loop->places[i].size = size;
		loop->nplaces++;
	}
	return loop->places[i].context;
}

FlNetConn *
fl_net_conn_create(FlNetLoop *loop, FlNetListener *listener, int fd, const struct sockaddr_storage *peer)
{
	Size size = listener->protocol->conn_size;
	FlNetConn *conn = MemoryContextAllocZero(place_for(loop, size), size);
	struct epoll_event event;

	conn->loop = loop;
	conn->protocol = listener->protocol;
	conn->fd = fd;
	event.events = EPOLLIN;
	event.data.ptr = conn;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
	{
		pfree(conn);
		close(fd);
		ereport(LOG, (errmsg("fleetlog: could not watch a connection: %m")));
		return NULL;
	}
	dlist_push_tail(&loop->conns, &conn->all_node);
	loop->nconns++;
	conn->listener = listener;
	fl_net_listener_count(listener, 1);
	fl_net_layer_create(conn, peer);
	return conn;
}

/*
 * Input unless paused, room if blocked.  A handshake is told once and then waits
 * for its turn: thousands that wait must not fill every list of events.
 */
void
fl_net_conn_interest(FlNetConn *conn)
{
	struct epoll_event event;

	event.events = 0;
	if (!(conn->flags & (FL_NET_PAUSED | FL_NET_STALLED)))
		event.events |= EPOLLIN;
	if (conn->flags & (FL_NET_BLOCKED | FL_NET_STALLED))
		event.events |= EPOLLOUT;
	if (conn->flags & FL_NET_SHAKING)
		event.events |= EPOLLONESHOT;
	event.data.ptr = conn;
	(void) epoll_ctl(conn->loop->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
}

void
fl_net_conn_make_ready(FlNetConn *conn)
{
	if (conn->flags & (FL_NET_READY | FL_NET_CLOSED))
		return;
	conn->flags |= FL_NET_READY;
	dlist_push_tail(&conn->loop->ready, &conn->work_node);
}

static void
make_dirty(FlNetConn *conn)
{
	if (conn->flags & (FL_NET_DIRTY | FL_NET_CLOSED))
		return;
	conn->flags |= FL_NET_DIRTY;
	dlist_push_tail(&conn->loop->dirty, &conn->dirty_node);
}

bool
fl_net_is_open(const FlNetConn *conn)
{
	return !(conn->flags & (FL_NET_FINISHING | FL_NET_LINGERING | FL_NET_CLOSED));
}

/* ---- reading ---- */

static void
release_input(FlNetConn *conn)
{
	if (conn->in == NULL)
		return;
	fl_net_buf_put(&conn->loop->pool, conn->in);
	conn->in = NULL;
}

/*
 * At the limit of the worker's buffers the newest demand is refused: this
 * connection ends, those that have their buffers go on.
 */
static bool
may_buffer(FlNetConn *conn, Size more)
{
	FlNetPool *pool = &conn->loop->pool;

	if (pool->used_bytes + more <= pool->limit)
		return true;
	fl_net_close(conn, "the front door's buffers are used up");
	return false;
}

/* Keep what the protocol has left over of bytes that are not in conn->in. */
static void
stash(FlNetConn *conn, const uint8 *data, Size len)
{
	FlNetBuf *buf;

	if (!may_buffer(conn, len))
		return;
	buf = fl_net_buf_get(&conn->loop->pool, len);
	memcpy(buf->data, data, len);
	buf->end = (uint32) len;
	conn->in = buf;
}

/* Present the pending input; afterwards conn->in holds what is left, or is NULL. */
static void
present_pending(FlNetConn *conn)
{
	FlNetBuf *buf = conn->in;
	Size used;

	if (buf == NULL || !fl_net_is_open(conn))
		return;
	used = conn->protocol->on_bytes(conn, buf->data + buf->start, buf->end - buf->start);
	/* A close in between has taken the buffer away. */
	if (conn->in == NULL)
		return;
	Assert(used <= buf->end - buf->start);
	buf->start += (uint32) used;
	if (buf->start == buf->end)
		release_input(conn);
}

/* Room for more bytes behind the pending ones: move them down, or double. */
static bool
make_room(FlNetConn *conn)
{
	FlNetBuf *buf = conn->in;
	Size len = buf->end - buf->start;

	if (buf->cap - buf->end >= 512)
		return true;
	if (buf->start >= buf->cap / 2 || (buf->start > 0 && buf->cap - len >= 512))
	{
		memmove(buf->data, buf->data + buf->start, len);
		buf->start = 0;
		buf->end = (uint32) len;
	}
	else if (!may_buffer(conn, (Size) buf->cap * 2))
		return false;
	else
	{
		FlNetBuf *bigger = fl_net_buf_get(&conn->loop->pool, (Size) buf->cap * 2);

		memcpy(bigger->data, buf->data + buf->start, len);
		bigger->end = (uint32) len;
		fl_net_buf_put(&conn->loop->pool, buf);
		conn->in = bigger;
	}
	return true;
}

/* Bytes of late: what a connection has sent counts half with each period that has gone by. */
static uint32
heat(const FlNetConn *conn)
{
	uint16 periods = (uint16) (conn->loop->period - conn->heat_period);

	return periods < 32 ? conn->heat >> periods : 0;
}

bool
fl_net_conn_talks(const FlNetConn *conn)
{
	return heat(conn) >= FL_NET_TALKS;
}

void
fl_net_conn_count(FlNetConn *conn, Size bytes)
{
	conn->loop->bytes_in += bytes;
	conn->bytes_in += bytes;
	conn->heat = (uint32) Min(heat(conn) + bytes, PG_UINT32_MAX);
	conn->heat_period = conn->loop->period;
}

ssize_t
fl_net_conn_recv(FlNetConn *conn, uint8 *to, Size room)
{
	ssize_t n = recv(conn->fd, to, room, 0);

	if (n > 0)
	{
		fl_net_conn_count(conn, (Size) n);
		return n;
	}
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	return -1;
}

static ssize_t
receive(FlNetConn *conn, uint8 *to, Size room)
{
	if (unlikely(conn->flags & FL_NET_LAYERED))
		return fl_net_layer_receive(conn, to, room);
	return fl_net_conn_recv(conn, to, room);
}

/* After our farewell: swallow what the peer still sends until its end, whatever it means. */
static void
discard_input(FlNetConn *conn)
{
	ssize_t n = fl_net_conn_recv(conn, conn->loop->scratch, FL_NET_READ_BYTES);

	if (n < 0)
		fl_net_conn_bury(conn);
}

static void
read_into_scratch(FlNetConn *conn)
{
	uint8 *data = conn->loop->scratch;
	ssize_t n = receive(conn, data, FL_NET_READ_BYTES);
	Size used;

	if (n == 0)
		return;
	if (n < 0)
	{
		fl_net_close(conn, "connection closed by the client");
		return;
	}
	used = conn->protocol->on_bytes(conn, data, (Size) n);
	if (fl_net_is_open(conn) && used < (Size) n)
		stash(conn, data + used, (Size) n - used);
}

static void
read_behind_pending(FlNetConn *conn)
{
	FlNetBuf *buf;
	ssize_t n;

	if (!make_room(conn))
		return;
	buf = conn->in;
	n = receive(conn, buf->data + buf->end, Min(buf->cap - buf->end, FL_NET_READ_BYTES));
	if (n == 0)
		return;
	if (n < 0)
	{
		fl_net_close(conn, "connection closed by the client");
		return;
	}
	buf->end += (uint32) n;
	present_pending(conn);
}

void
fl_net_conn_readable(FlNetConn *conn)
{
	if (conn->flags & (FL_NET_FINISHING | FL_NET_LINGERING))
		discard_input(conn);
	else if (conn->flags & FL_NET_PAUSED)
		return;
	else if (conn->in != NULL)
		read_behind_pending(conn);
	else
		read_into_scratch(conn);
}

void
fl_net_conn_ready(FlNetConn *conn)
{
	if (fl_net_is_open(conn) && !(conn->flags & FL_NET_PAUSED))
		present_pending(conn);
	/* A layer may hold bytes that the socket will not announce. */
	if ((conn->flags & FL_NET_LAYERED) && fl_net_is_open(conn) && !(conn->flags & FL_NET_STALLED))
		fl_net_conn_readable(conn);
}

void
fl_net_pause(FlNetConn *conn)
{
	if ((conn->flags & FL_NET_PAUSED) || !fl_net_is_open(conn))
		return;
	conn->flags |= FL_NET_PAUSED;
	fl_net_conn_interest(conn);
}

void
fl_net_resume(FlNetConn *conn)
{
	if (!(conn->flags & FL_NET_PAUSED) || !fl_net_is_open(conn))
		return;
	conn->flags &= ~FL_NET_PAUSED;
	fl_net_conn_interest(conn);
	if (conn->in != NULL || (conn->flags & FL_NET_LAYERED))
		fl_net_conn_make_ready(conn);
}

/* ---- writing ---- */

/*
 * The next piece of output: the first as small as it can be, others whole pages.  What
 * is long goes into few long pieces, since a call of the kernel takes IOV_PER_WRITE of
 * them; none is longer than what it gets, so that no memory is held for nothing.
 */
static Size
piece_size(const FlNetConn *conn, Size len)
{
	if (len > FL_NET_OUT_BUF)
		return Min((Size) 1 << pg_leftmost_one_pos64(len), FL_NET_OUT_MAX);
	return conn->out_tail == NULL && len <= 512 ? 512 : FL_NET_OUT_BUF;
}

void
fl_net_conn_write_raw(FlNetConn *conn, const void *data, Size len)
{
	const uint8 *from = data;

	conn->out_bytes += (uint32) len;
	while (len > 0)
	{
		FlNetBuf *tail = conn->out_tail;
		Size room = tail != NULL ? tail->cap - tail->end : 0;
		Size n;

		if (room == 0)
		{
			tail = fl_net_buf_get(&conn->loop->pool, piece_size(conn, len));
			if (conn->out_tail != NULL)
				conn->out_tail->next = tail;
			else
				conn->out_head = tail;
			conn->out_tail = tail;
			room = tail->cap;
		}
		n = Min(room, len);
		memcpy(tail->data + tail->end, from, n);
		tail->end += (uint32) n;
		from += n;
		len -= n;
	}
	make_dirty(conn);
}

void
fl_net_write(FlNetConn *conn, const void *data, Size len)
{
	if (!fl_net_is_open(conn))
		return;
	if (unlikely(conn->flags & FL_NET_FRAMED))
	{
		uint8 header[FL_WS_MAX_HEADER];

		fl_net_conn_write_raw(conn, header, fl_ws_encode_header(header, len));
	}
	fl_net_conn_write_raw(conn, data, len);
}

void
fl_net_write_chain(FlNetConn *conn, FlNetChain *chain)
{
	Assert(!(conn->flags & FL_NET_FRAMED));
	if (!fl_net_is_open(conn) || chain->head == NULL)
		return;
	for (FlNetBuf *buf = chain->head; buf != NULL; buf = buf->next)
		conn->out_bytes += buf->end - buf->start;
	if (conn->out_tail != NULL)
		conn->out_tail->next = chain->head;
	else
		conn->out_head = chain->head;
	conn->out_tail = chain->tail;
	memset(chain, 0, sizeof(*chain));
	make_dirty(conn);
}

static void
drop_output(FlNetConn *conn)
{
	FlNetChain chain = {conn->out_head, conn->out_tail};

	fl_net_chain_free(conn->loop, &chain);
	conn->out_head = conn->out_tail = NULL;
	conn->out_bytes = 0;
}

/* Take n bytes that the kernel has accepted off the queue. */
static void
advance_output(FlNetConn *conn, Size n)
{
	conn->out_bytes -= (uint32) n;
	conn->loop->bytes_out += n;
	conn->bytes_out += n;
	while (conn->out_head != NULL)
	{
		FlNetBuf *buf = conn->out_head;
		Size have = buf->end - buf->start;

		if (n < have)
		{
			buf->start += (uint32) n;
			return;
		}
		n -= have;
		conn->out_head = buf->next;
		fl_net_buf_put(&conn->loop->pool, buf);
	}
	conn->out_tail = NULL;
}

/* Acknowledgements fit into one piece, and a plain send is cheaper than sendmsg. */
static ssize_t
hand_to_kernel(FlNetConn *conn)
{
	struct iovec iov[IOV_PER_WRITE];
	struct msghdr msg = {0};
	FlNetBuf *head = conn->out_head;

	if (conn->protocol->on_output != NULL)
		conn->protocol->on_output(conn);
	if (unlikely(conn->flags & FL_NET_SECURE))
		return fl_tls_write(conn);
	if (head->next == NULL)
		return send(conn->fd, head->data + head->start, head->end - head->start, MSG_NOSIGNAL | MSG_DONTWAIT);
	msg.msg_iov = iov;
	for (FlNetBuf *buf = head; buf != NULL && msg.msg_iovlen < IOV_PER_WRITE; buf = buf->next)
	{
		iov[msg.msg_iovlen].iov_base = buf->data + buf->start;
		iov[msg.msg_iovlen].iov_len = buf->end - buf->start;
		msg.msg_iovlen++;
	}
	return sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * One system call; false when the kernel takes no more for now, or never again.
 * may_close says whether an error ends the connection here.
 */
static bool
write_some(FlNetConn *conn, bool may_close)
{
	ssize_t n = hand_to_kernel(conn);

	if (n >= 0)
	{
		advance_output(conn, (Size) n);
		return true;
	}
	if (errno == EINTR)
		return true;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
	{
		if (!(conn->flags & FL_NET_BLOCKED))
		{
			conn->flags |= FL_NET_BLOCKED;
			fl_net_conn_interest(conn);
		}
		return false;
	}
	if (!may_close)
		return false;
	if (conn->flags & FL_NET_FINISHING)
		fl_net_conn_bury(conn);
	else
		fl_net_close(conn, "connection lost");
	return false;
}

void
fl_net_push(FlNetConn *conn)
{
	while (fl_net_is_open(conn) && conn->out_head != NULL && !(conn->flags & FL_NET_BLOCKED))
		if (!write_some(conn, false))
			return;
}

/* Output has left and the protocol is done: say so and wait for the peer. */
static void
start_lingering(FlNetConn *conn)
{
	conn->flags &= ~FL_NET_FINISHING;
	conn->flags |= FL_NET_LINGERING;
	if (conn->flags & FL_NET_SECURE)
		fl_tls_say_goodbye(conn);
	if (shutdown(conn->fd, SHUT_WR) != 0)
	{
		fl_net_conn_bury(conn);
		return;
	}
	fl_timer_arm(&conn->loop->wheel, &conn->timer, fl_net_now(conn->loop) + FL_NET_LINGER_MS);
}

void
fl_net_conn_flush(FlNetConn *conn)
{
	bool was_blocked;

	if (conn->flags & FL_NET_CLOSED)
		return;
	was_blocked = (conn->flags & FL_NET_BLOCKED) != 0;
	while (conn->out_head != NULL)
		if (!write_some(conn, true))
			return;
	if (unlikely(conn->flags & FL_NET_STALLED))
	{
		conn->flags &= ~FL_NET_STALLED;
		fl_net_conn_make_ready(conn);
		fl_net_conn_interest(conn);
	}
	if (was_blocked)
	{
		conn->flags &= ~FL_NET_BLOCKED;
		fl_net_conn_interest(conn);
	}
	if (conn->flags & FL_NET_FINISHING)
		start_lingering(conn);
	else if (was_blocked && fl_net_is_open(conn) && conn->protocol->on_drained)
		conn->protocol->on_drained(conn);
}

/* ---- timers ---- */

void
fl_net_set_timer(FlNetConn *conn, int64 in_ms)
{
	if (fl_net_is_open(conn))
		fl_timer_arm(&conn->loop->wheel, &conn->timer, fl_net_now(conn->loop) + in_ms);
}

void
fl_net_cancel_timer(FlNetConn *conn)
{
	if (fl_net_is_open(conn))
		fl_timer_cancel(&conn->loop->wheel, &conn->timer);
}

void
fl_net_conn_timer(FlNetConn *conn)
{
	if (conn->flags & (FL_NET_FINISHING | FL_NET_LINGERING))
		fl_net_conn_bury(conn);
	else if (!(conn->flags & FL_NET_CLOSED))
		conn->protocol->on_timer(conn);
}

/* ---- closing ---- */

/* The end of the socket; the memory stays until the end of the turn. */
void
fl_net_conn_bury(FlNetConn *conn)
{
	FlNetLoop *loop = conn->loop;

	if (conn->flags & FL_NET_CLOSED)
		return;
	fl_timer_cancel(&loop->wheel, &conn->timer);
	if (conn->flags & FL_NET_READY)
		dlist_delete(&conn->work_node);
	if (conn->flags & FL_NET_DIRTY)
		dlist_delete(&conn->dirty_node);
	if (conn->layer != NULL)
		fl_net_layer_free(conn);
	conn->flags = FL_NET_CLOSED;
	release_input(conn);
	drop_output(conn);
	close(conn->fd); /* which also takes it out of the epoll set */
	conn->fd = -1;
	dlist_delete(&conn->all_node);
	dlist_push_tail(&loop->graveyard, &conn->all_node);
	fl_net_listener_count(conn->listener, -1);
	conn->listener = NULL;
	loop->nconns--;
	loop->ngrave++;
}

void
fl_net_conn_free(FlNetConn *conn)
{
	pfree(conn);
}

void
fl_net_close(FlNetConn *conn, const char *why)
{
	if (!fl_net_is_open(conn))
		return;
	/* From here on the protocol's own calls for it do nothing. */
	conn->flags |= FL_NET_FINISHING;
	conn->protocol->on_close(conn, why);
	fl_net_conn_bury(conn);
}

static void
finish_within(FlNetConn *conn, const char *why, int64 ms)
{
	if (!fl_net_is_open(conn))
		return;
	if (conn->layer != NULL)
		fl_net_layer_finish(conn);
	conn->flags |= FL_NET_FINISHING;
	conn->protocol->on_close(conn, why);
	release_input(conn);
	if (conn->flags & FL_NET_PAUSED)
	{
		conn->flags &= ~FL_NET_PAUSED;
		fl_net_conn_interest(conn);
	}
	fl_timer_arm(&conn->loop->wheel, &conn->timer, fl_net_now(conn->loop) + ms);
	make_dirty(conn);
}

void
fl_net_finish(FlNetConn *conn, const char *why)
{
	finish_within(conn, why, FL_NET_FLUSH_MS);
}

void
fl_net_finish_slowly(FlNetConn *conn, const char *why)
{
	finish_within(conn, why, FL_NET_SLOW_MS);
}

void
fl_net_part(FlNetConn *conn, const char *why)
{
	if (conn->layer != NULL || (conn->flags & FL_NET_SECURE))
		fl_net_finish(conn, why);
	else
		fl_net_close(conn, why);
}

const char *
fl_net_peer(const FlNetConn *conn, char *buf, Size size)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr);
	const FlNetLayer *layer = conn->layer;

	if (layer != NULL && layer->peer_family == 4)
	{
		struct sockaddr_in *in = (struct sockaddr_in *) &addr;

		in->sin_family = AF_INET;
		in->sin_port = htons(layer->peer_port);
		memcpy(&in->sin_addr, layer->peer_address, sizeof(in->sin_addr));
	}
	else if (layer != NULL && layer->peer_family == 6)
	{
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &addr;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(layer->peer_port);
		memcpy(&in6->sin6_addr, layer->peer_address, sizeof(in6->sin6_addr));
	}
	else if (conn->fd < 0 || getpeername(conn->fd, (struct sockaddr *) &addr, &len) != 0)
	{
		strlcpy(buf, "unknown", size);
		return buf;
	}
	fl_net_name_address(&addr, buf, size);
	return buf;
}
