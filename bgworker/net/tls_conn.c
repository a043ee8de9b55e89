/*
 * tls_conn.c
 *		One TLS connection: handshake, bytes, end.
 *
 * Handshakes cost the loop more than anything else it does (half a millisecond
 * with an RSA key), and come by thousands when a network has been away.  So
 * they queue: a socket that has something is noted, and a turn takes at most
 * fleetlog.max_handshakes_per_turn steps; between the turns, those that are
 * connected are served.  A client that says nothing costs no SSL object, which
 * is made when its first bytes are there.
 *
 * A handshake needs some 40 kB, of which a third stays with the connection.  If a
 * crowd's were all begun at once, that would be their number's peak, and what is
 * free again would lie between what stays.  So those that have begun go on first,
 * and new ones begin only while few are under way; one whose peer takes long to
 * answer does not count, so that distance limits nobody's rate.
 *
 * OpenSSL reads and writes the socket through a BIO of ours, so that a lost
 * peer is an error and no signal, and it never blocks.  Between messages it
 * holds no buffer (SSL_MODE_RELEASE_BUFFERS); one that could not be written
 * holds one record, and the queue of conn.c holds the rest.
 *
 * Rules: the error queue is emptied before each call that SSL_get_error is
 * asked about.  No callback of OpenSSL raises an error (a longjmp would leave
 * its objects half done).
 *
 * Called by loop.c (queue), conn.c (writing, ending), layer.c (reading).
 */
#include "postgres.h"

#include <malloc.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "fleetlog/guest.h"
#include "tls.h"

#define RECORD_LEN 16384 /* plain bytes of a record */
#define TRIM_AFTER 50    /* handshakes whose memory is worth giving back */
#define TRIM_MS    2000
#define AT_ONCE    128 /* handshakes under way while others wait to begin */
#define SLOW_MS    100 /* one that has taken no step for so long is not counted among them */

/* ---- the socket, as OpenSSL sees it ---- */

static bool
is_temporary(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static int
bio_read(BIO *bio, char *buf, int len)
{
	FlNetConn *conn = BIO_get_data(bio);
	ssize_t n = recv(conn->fd, buf, (size_t) len, 0);

	BIO_clear_retry_flags(bio);
	if (n < 0 && is_temporary(errno))
	{
		BIO_set_retry_read(bio);
		conn->layer->dry = true;
	}
	return (int) n;
}

static int
bio_write(BIO *bio, const char *buf, int len)
{
	FlNetConn *conn = BIO_get_data(bio);
	ssize_t n = send(conn->fd, buf, (size_t) len, MSG_NOSIGNAL | MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (n < 0 && is_temporary(errno))
		BIO_set_retry_write(bio);
	return (int) n;
}

static long
bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
	return cmd == BIO_CTRL_FLUSH || cmd == BIO_CTRL_DUP ? 1 : 0;
}

static BIO *
make_bio(FlNetConn *conn)
{
	static BIO_METHOD *method = NULL;
	BIO *bio;

	if (method == NULL)
	{
		BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "fleetlog socket");

		if (made == NULL || !BIO_meth_set_read(made, bio_read) || !BIO_meth_set_write(made, bio_write) ||
			!BIO_meth_set_ctrl(made, bio_ctrl))
		{
			BIO_meth_free(made);
			return NULL;
		}
		method = made;
	}
	bio = BIO_new(method);
	if (bio != NULL)
	{
		BIO_set_data(bio, conn);
		BIO_set_init(bio, 1);
	}
	return bio;
}

/* ---- handshake ---- */

/* False: no memory. */
static bool
begin_handshake(FlNetConn *conn)
{
	FlTls *tls = conn->loop->tls;
	SSL *ssl = tls != NULL ? SSL_new(tls->ctx[0]) : NULL;
	BIO *bio = ssl != NULL ? make_bio(conn) : NULL;

	if (bio == NULL)
	{
		SSL_free(ssl);
		ERR_clear_error();
		return false;
	}
	SSL_set_bio(ssl, bio, bio); /* takes ownership, once though it is both */
	SSL_set_app_data(ssl, conn);
	SSL_set_accept_state(ssl);
	conn->layer->ssl = ssl;
	return true;
}

/* One that has begun and has input goes on before another one begins. */
void
fl_tls_enqueue(FlNetConn *conn)
{
	FlNetLoop *loop = conn->loop;
	FlNetLayer *layer = conn->layer;

	if (layer->queued)
		return;
	layer->queued = true;
	dlist_push_tail(layer->ssl != NULL ? &loop->shaking : &loop->waiting, &layer->shake_node);
	loop->nshaking++;
}

static void
leave_queue(FlNetConn *conn)
{
	FlNetLayer *layer = conn->layer;

	if (!layer->queued)
		return;
	layer->queued = false;
	dlist_delete(&layer->shake_node);
	conn->loop->nshaking--;
}

static void
uncount(FlNetLoop *loop, FlNetLayer *layer)
{
	if (!layer->begun)
		return;
	layer->begun = false;
	dlist_delete(&layer->begun_node);
	loop->nbegun--;
}

/* It takes a step now. */
static void
count(FlNetLoop *loop, FlNetLayer *layer)
{
	uncount(loop, layer);
	layer->begun = true;
	layer->stepped = fl_net_now(loop);
	dlist_push_tail(&loop->begun, &layer->begun_node);
	loop->nbegun++;
}

/* Milliseconds until another handshake may begin, as far as those that are under way decide about it. */
static int64
until_room(FlNetLoop *loop)
{
	int64 now = fl_net_now(loop);

	while (loop->nbegun >= AT_ONCE)
	{
		FlNetLayer *oldest = dlist_container(FlNetLayer, begun_node, dlist_head_node(&loop->begun));

		/* The test clock may step back. */
		if (now >= oldest->stepped && now - oldest->stepped < SLOW_MS)
			return SLOW_MS - (now - oldest->stepped);
		uncount(loop, oldest);
	}
	return 0;
}

int64
fl_tls_wait(FlNetLoop *loop)
{
	return dlist_is_empty(&loop->shaking) ? until_room(loop) : 0;
}

/* Whose turn it is; NULL: nobody's for now. */
static FlNetLayer *
next_in_queue(FlNetLoop *loop)
{
	if (!dlist_is_empty(&loop->shaking))
		return dlist_container(FlNetLayer, shake_node, dlist_head_node(&loop->shaking));
	if (!dlist_is_empty(&loop->waiting) && until_room(loop) == 0)
		return dlist_container(FlNetLayer, shake_node, dlist_head_node(&loop->waiting));
	return NULL;
}

static void
handshake_failed(FlNetConn *conn, unsigned long error)
{
	uncount(conn->loop, conn->layer);
	fl_listener_tls(conn->listener->shown, false, false);
	fl_tls_log_failure(conn, error);
	/* OpenSSL has sent its alert; the peer is given the time to read it. */
	fl_net_finish(conn, "TLS handshake failed");
}

static void
handshake_done(FlNetConn *conn)
{
	SSL *ssl = conn->layer->ssl;

	uncount(conn->loop, conn->layer);
	conn->loop->shaken++;
	fl_net_layer_secured(conn);
	fl_tls_note_peer(conn);
	fl_listener_tls(conn->listener->shown, true, SSL_session_reused(ssl) && !conn->layer->has_psk);
	/* The first packet may have come with the end of the handshake. */
	if (SSL_has_pending(ssl))
		fl_net_conn_make_ready(conn);
}

static void
handshake_step(FlNetConn *conn)
{
	int result;

	if (conn->layer->ssl == NULL && !begin_handshake(conn))
	{
		fl_net_close(conn, "no memory for TLS");
		return;
	}
	count(conn->loop, conn->layer);
	ERR_clear_error();
	fl_tls_forget_certificate();
	result = SSL_do_handshake(conn->layer->ssl);
	if (result == 1)
	{
		handshake_done(conn);
		return;
	}
	switch (SSL_get_error(conn->layer->ssl, result))
	{
		case SSL_ERROR_WANT_READ:
			conn->flags &= ~FL_NET_STALLED;
			fl_net_conn_interest(conn);
			break;
		case SSL_ERROR_WANT_WRITE:
			conn->flags |= FL_NET_STALLED;
			fl_net_conn_interest(conn);
			break;
		default:
			handshake_failed(conn, ERR_get_error());
			ERR_clear_error();
	}
}

/* The C library keeps what handshakes have freed; it is told to give whole pages back, once a crowd is through. */
void
fl_tls_trim(FlNetLoop *loop)
{
	int64 now = fl_net_now(loop);

	if (loop->nshaking > 0 || loop->shaken < TRIM_AFTER || now - loop->trimmed < TRIM_MS)
		return;
	loop->shaken = 0;
	loop->trimmed = now;
#ifdef __GLIBC__
	(void) malloc_trim(0);
#endif
}

/*
 * What a step allocates for the protocol (see on_psk) lives as long as the
 * connection, whatever context the turn has.
 */
void
fl_tls_serve(FlNetLoop *loop)
{
	MemoryContext old = MemoryContextSwitchTo(loop->context);

	for (int i = 0; i < fl_tls_max_handshakes; i++)
	{
		FlNetLayer *layer = next_in_queue(loop);
		FlNetConn *conn;

		if (layer == NULL)
			break;
		conn = layer->conn;

		leave_queue(conn);
		/* One that is over by now only waits for its peer. */
		if (conn->flags & FL_NET_SHAKING)
			handshake_step(conn);
	}
	MemoryContextSwitchTo(old);
}

/* ---- bytes ---- */

/*
 * As many records as there is room for.  What OpenSSL has read ahead no socket
 * will announce, so the connection is served again in the next turn.  "More is
 * wanted" may also mean that a record had no data: only if the socket was dry
 * at that is there nothing to do before it has more.
 */
ssize_t
fl_tls_read(FlNetConn *conn, uint8 *to, Size room)
{
	SSL *ssl = conn->layer->ssl;
	Size total = 0;

	while (total < room)
	{
		int n;

		ERR_clear_error();
		conn->layer->dry = false;
		n = SSL_read(ssl, to + total, (int) Min(room - total, INT_MAX));
		if (n > 0)
		{
			total += (Size) n;
			if (SSL_has_pending(ssl))
				continue;
			break;
		}
		switch (SSL_get_error(ssl, n))
		{
			case SSL_ERROR_WANT_READ:
				if (!conn->layer->dry)
					fl_net_conn_make_ready(conn);
				break;
			case SSL_ERROR_WANT_WRITE:
				/* An answer of its own has to leave first: no more input until then. */
				conn->flags |= FL_NET_STALLED;
				fl_net_conn_interest(conn);
				break;
			default:
				ERR_clear_error();
				if (total == 0)
					return -1;
				/* The bytes first, the end in the next turn. */
				fl_net_conn_make_ready(conn);
		}
		fl_net_conn_count(conn, total);
		return (ssize_t) total;
	}
	if (SSL_has_pending(ssl))
		fl_net_conn_make_ready(conn);
	fl_net_conn_count(conn, total);
	return (ssize_t) total;
}

/* The queue's first bytes in one piece: a record for each small buffer would cost a system call each. */
static const uint8 *
gather(FlNetConn *conn, Size len)
{
	FlNetBuf *buf = conn->out_head;
	uint8 *to;
	Size have = 0;

	if (buf->end - buf->start >= len)
		return buf->data + buf->start;
	to = fl_net_raw(conn->loop);
	for (; have < len; buf = buf->next)
	{
		Size n = Min((Size) (buf->end - buf->start), len - have);

		memcpy(to + have, buf->data + buf->start, n);
		have += n;
	}
	return to;
}

/*
 * A write that was not possible has to be repeated with the same bytes; they
 * stay in the queue, and layer->retry says how many they were.
 */
ssize_t
fl_tls_write(FlNetConn *conn)
{
	FlNetLayer *layer = conn->layer;
	Size len = layer->retry != 0 ? layer->retry : Min(conn->out_bytes, RECORD_LEN);
	int n;

	ERR_clear_error();
	n = SSL_write(layer->ssl, gather(conn, len), (int) len);
	if (n > 0)
	{
		layer->retry = 0;
		return n;
	}
	if (SSL_get_error(layer->ssl, n) == SSL_ERROR_WANT_WRITE)
	{
		layer->retry = (uint32) len;
		errno = EAGAIN;
	}
	else
	{
		ERR_clear_error();
		errno = EPIPE;
	}
	return -1;
}

/* ---- end ---- */

void
fl_tls_say_goodbye(FlNetConn *conn)
{
	ERR_clear_error();
	(void) SSL_shutdown(conn->layer->ssl);
	ERR_clear_error();
}

void
fl_tls_end(FlNetConn *conn)
{
	leave_queue(conn);
	uncount(conn->loop, conn->layer);
	SSL_free(conn->layer->ssl);
	conn->layer->ssl = NULL;
}
