/*-------------------------------------------------------------------------
 *
 * conn.c
 *		One connection: how it comes up, what arrives on it, how it goes.
 *
 * DOWN -> CONNECTING -> (SHAKING ->) GREETING -> (SUBSCRIBING ->) READY -> DOWN.  Reading
 * goes through one buffer of the process, so that thousands of idle
 * connections cost little; only the beginning of a packet that has not come
 * whole is kept with its connection.  All functions may close the connection;
 * callers look at c->fd or the returned flag before they go on.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* Pause before a broken connection is tried again: grows with the attempts, with full jitter, so that a crowd spreads. */
#define RETRY_BASE (20 * FL_MS)
#define RETRY_MAX  (1000 * FL_MS)

/* The one packet identifier that we use for SUBSCRIBE; it is outside of what slots can have. */
#define SUBSCRIBE_ID 65535

static void
out_of_memory(void)
{
	fputs("fl_load: out of memory\n", stderr);
	exit(1);
}

static uint8_t *
keep_bytes(uint8_t *old, size_t old_len, const uint8_t *more, size_t len)
{
	uint8_t *kept = realloc(old, old_len + len);

	if (kept == NULL)
		out_of_memory();
	memcpy(kept + old_len, more, len);
	return kept;
}

static void
set_events(FlProc *p, FlConn *c, int op)
{
	struct epoll_event ev = {.events = EPOLLIN | (c->want_write ? EPOLLOUT : 0), .data.ptr = c};

	if (epoll_ctl(p->epfd, op, c->fd, &ev) != 0)
	{
		perror("fl_load: epoll_ctl");
		exit(1);
	}
}

void
fl_conn_want_write(FlProc *p, FlConn *c, bool on)
{
	if (c->want_write == on)
		return;
	c->want_write = on;
	set_events(p, c, EPOLL_CTL_MOD);
}

void
fl_conn_close(FlProc *p, FlConn *c)
{
	if (c->fd < 0)
		return;
	if (c->state == FL_CONN_READY)
		p->ready--;
	else
		p->under_way--;
	if (c->ssl != NULL)
		fl_tls_end(c);
	close(c->fd);
	c->fd = -1;
	c->state = FL_CONN_DOWN;
	c->want_write = false;
	c->ping_awaited = false;
	c->last_ping = false;
	c->alias_known = false;
	free(c->in);
	free(c->out);
	c->in = c->out = NULL;
	c->in_len = c->out_len = 0;
}

void
fl_conn_fail(FlProc *p, FlConn *c)
{
	int64_t pause = RETRY_BASE << (c->attempts < 6 ? c->attempts : 6);

	if (c->fd < 0)
		return;
	if (c->state == FL_CONN_READY)
		p->r->n.lost++;
	else
		p->r->n.connect_failed++;
	if (!p->o->quiet)
		fprintf(stderr, "fl_load: connection %d ended in state %d (%s)\n", c->number, (int) c->state, strerror(errno));
	fl_conn_close(p, c);
	c->attempts++;
	if (pause > RETRY_MAX)
		pause = RETRY_MAX;
	c->retry_at = fl_now() + 1 + (int64_t) (fl_random(&p->rng) % (uint64_t) pause);
}

static ssize_t
send_bytes(FlConn *c, const uint8_t *bytes, size_t len)
{
	return c->ssl != NULL ? fl_tls_send(c, bytes, len) : send(c->fd, bytes, len, MSG_NOSIGNAL);
}

bool
fl_conn_send(FlProc *p, FlConn *c, const uint8_t *bytes, size_t len)
{
	ssize_t n = 0;

	if (c->out_len == 0)
	{
		n = send_bytes(c, bytes, len);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
		{
			fl_conn_fail(p, c);
			return false;
		}
		if (n < 0)
			n = 0;
	}
	if ((size_t) n < len)
	{
		c->out = keep_bytes(c->out, c->out_len, bytes + n, len - n);
		c->out_len += len - n;
		fl_conn_want_write(p, c, true);
	}
	return true;
}

/* Sends what was left; true when nothing is left any more. */
static bool
flush_out(FlProc *p, FlConn *c)
{
	ssize_t n = send_bytes(c, c->out, c->out_len);

	if (n < 0)
	{
		if (errno != EAGAIN && errno != EINTR)
			fl_conn_fail(p, c);
		return false;
	}
	c->out_len -= n;
	if (c->out_len > 0)
	{
		memmove(c->out, c->out + n, c->out_len);
		return false;
	}
	free(c->out);
	c->out = NULL;
	return true;
}

void
fl_conn_ping(FlProc *p, FlConn *c)
{
	uint8_t ping[2];

	fl_mq_bare(ping, FL_MQ_PINGREQ);
	c->ping_awaited = true;
	c->last_sent = fl_now();
	p->r->n.pings++;
	fl_conn_send(p, c, ping, sizeof(ping));
}

static void
bind_source(const FlOptions *o, FlConn *c)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	int on = 1;

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + c->number % o->sources);
	/* Without this the kernel would pick a port at bind(), once for all servers, and run out sooner. */
	setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(c->fd, (struct sockaddr *) &from, sizeof(from)) != 0)
	{
		perror("fl_load: bind");
		exit(1);
	}
}

void
fl_conn_open(FlProc *p, FlConn *c)
{
	int on = 1;

	c->connect_began = fl_now();
	if (p->r->first_connect == 0)
		p->r->first_connect = c->connect_began;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
	{
		perror("fl_load: socket (too few descriptors? more processes, -j, help)");
		exit(1);
	}
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* Loopback has nothing to be congested; some algorithms (BBR) take CPU and pace what we want to send now. */
	setsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	if (p->by_kernel_clock)
		setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
	if (p->o->sources > 0)
		bind_source(p->o, c);
	c->state = FL_CONN_CONNECTING;
	c->want_write = true;
	p->under_way++;
	set_events(p, c, EPOLL_CTL_ADD);
	if (connect(c->fd, (const struct sockaddr *) &p->o->server, sizeof(p->o->server)) != 0 && errno != EINPROGRESS)
		fl_conn_fail(p, c);
}

/* The connection is there: says CONNECT. */
static void
greet(FlProc *p, FlConn *c)
{
	char client_id[FL_NAME_SIZE], user[FL_NAME_SIZE], password[FL_NAME_SIZE];
	uint8_t packet[3 * FL_NAME_SIZE + FL_MQ_OVERHEAD];
	const FlOptions *o = p->o;
	FlMqConnect connect = {.version = o->version, .clean = o->clean, .keep_alive = (uint16_t) o->keep_alive};

	fl_template_expand(client_id, sizeof(client_id), o->client_id, c->number, 0);
	connect.client_id = client_id;
	connect.session_expiry = o->clean ? 0 : o->session_expiry;
	if (o->user != NULL)
	{
		fl_template_expand(user, sizeof(user), o->user, c->number, 0);
		connect.user = user;
	}
	if (o->password != NULL)
	{
		fl_template_expand(password, sizeof(password), o->password, c->number, 0);
		connect.password = password;
	}
	c->state = FL_CONN_GREETING;
	fl_conn_want_write(p, c, false);
	fl_conn_send(p, c, packet, fl_mq_connect(packet, &connect));
}

static void
shake(FlProc *p, FlConn *c)
{
	int result = fl_tls_shake(c);

	if (result < 0)
		fl_conn_fail(p, c);
	else if (result > 0)
		greet(p, c);
}

/* TCP is there. */
static void
on_connected(FlProc *p, FlConn *c)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0)
	{
		errno = error;
		fl_conn_fail(p, c);
		return;
	}
	if (!p->o->tls)
	{
		greet(p, c);
		return;
	}
	c->state = FL_CONN_SHAKING;
	/* What a handshake sends always fits into the socket. */
	fl_conn_want_write(p, c, false);
	fl_tls_begin(c);
	shake(p, c);
}

static void
become_ready(FlProc *p, FlConn *c, bool session_present)
{
	int64_t now = fl_now();

	c->state = FL_CONN_READY;
	c->attempts = 0;
	c->last_sent = now;
	p->under_way--;
	p->ready++;
	p->r->last_connect = now;
	if (p->publishing && !c->subscriber)
	{
		fl_publish_resume(p, c, session_present);
		if (c->fd >= 0)
			fl_publish_pump(p, c);
	}
}

static int
times(const FlOptions *o, const char *template)
{
	return strstr(template, "%m") != NULL ? o->filters_each : 1;
}

/* Asks for everything that a connection wants, in one packet. */
static void
subscribe(FlProc *p, FlConn *c)
{
	const FlOptions *o = p->o;
	const char *const *templates = c->subscriber ? o->sub_filter : &o->each_filter;
	int ntemplates = c->subscriber ? o->nsub_filters : 1;
	uint8_t *filters = p->wbuf + FL_MQ_OVERHEAD;
	uint8_t head[FL_MQ_OVERHEAD];
	size_t len = 0, head_len;
	char filter[FL_NAME_SIZE];

	for (int i = 0; i < ntemplates; i++)
	{
		for (int m = 0; m < times(o, templates[i]); m++)
		{
			fl_template_expand(filter, sizeof(filter), templates[i], c->number, m);
			len += fl_mq_subscribe_filter(filters + len, filter, o->sub_qos);
		}
	}
	head_len = fl_mq_subscribe_head(head, o->version, SUBSCRIBE_ID, len);
	memcpy(filters - head_len, head, head_len);
	c->state = FL_CONN_SUBSCRIBING;
	fl_conn_send(p, c, filters - head_len, head_len + len);
}

static void
on_connack(FlProc *p, FlConn *c, const FlMqPacket *packet)
{
	FlMqConnack ack;

	if (!fl_mq_read_connack(packet, p->o->version, &ack) || ack.code != 0)
	{
		p->r->n.refused++;
		if (!p->o->quiet)
			fprintf(stderr, "fl_load: connection %d is refused with code 0x%02x\n", c->number, ack.code);
		errno = ECONNREFUSED;
		fl_conn_fail(p, c);
		return;
	}
	fl_hist_add(&p->r->connack, fl_now() - c->connect_began);
	p->r->n.connected++;
	p->r->n.sessions_present += ack.session_present;
	c->alias_maximum = ack.alias_maximum;
	c->window = p->o->window < ack.receive_maximum ? p->o->window : ack.receive_maximum;
	if (c->subscriber || p->o->each_filter != NULL)
		subscribe(p, c);
	else
		become_ready(p, c, ack.session_present);
}

static void
on_suback(FlProc *p, FlConn *c, const FlMqPacket *packet)
{
	uint16_t id;
	int granted, refused;

	if (!fl_mq_read_suback(packet, p->o->version, &id, &granted, &refused) || id != SUBSCRIBE_ID)
		p->r->n.protocol_errors++;
	else
	{
		p->r->n.subscribed += granted;
		p->r->n.sub_refused += refused;
	}
	if (c->state == FL_CONN_SUBSCRIBING)
		become_ready(p, c, false);
}

/* Appends the answer to a message that we received to *answers and returns its length. */
static size_t
on_publish(FlProc *p, FlConn *c, const FlMqPacket *packet, int64_t now, uint8_t *answer)
{
	FlMqPublish m;
	int number;
	uint64_t seq;
	int64_t stamp;

	if (!fl_mq_read_publish(packet, p->o->version, &m))
	{
		p->r->n.protocol_errors++;
		return 0;
	}
	if (p->r->n.received++ == 0)
		p->r->first_received = now;
	p->r->last_received = now;
	p->r->n.received_dup += m.dup;
	p->r->n.received_retained += m.retain;
	if (fl_payload_read(m.payload, m.payload_len, &number, &seq, &stamp))
	{
		fl_hist_add(&p->r->end_to_end, now - stamp);
		fl_truth_received(p, c, &m, number, seq, now);
	}
	else
		p->r->n.received_foreign++;
	if (p->o->ahead > 0)
		__atomic_fetch_add(&p->shared->all_received, 1, __ATOMIC_RELAXED);
	if (m.qos == 0)
		return 0;
	return fl_mq_ack(answer, m.qos == 1 ? FL_MQ_PUBACK : FL_MQ_PUBREC, m.id);
}

/* One packet; returns the length of its answer, which is written to *answer (at most 4 bytes). */
static size_t
on_packet(FlProc *p, FlConn *c, const FlMqPacket *packet, int64_t now, uint8_t *answer)
{
	uint16_t id;
	uint8_t code;

	switch (packet->type)
	{
		case FL_MQ_CONNACK:
			if (c->state == FL_CONN_GREETING)
				on_connack(p, c, packet);
			else
				p->r->n.protocol_errors++;
			return 0;
		case FL_MQ_SUBACK:
			on_suback(p, c, packet);
			return 0;
		case FL_MQ_PUBLISH:
			return on_publish(p, c, packet, now, answer);
		case FL_MQ_PUBREL:
			return fl_mq_read_ack(packet, p->o->version, &id, &code) ? fl_mq_ack(answer, FL_MQ_PUBCOMP, id) : 0;
		case FL_MQ_PUBACK:
		case FL_MQ_PUBREC:
		case FL_MQ_PUBCOMP:
			if (!fl_mq_read_ack(packet, p->o->version, &id, &code))
			{
				p->r->n.protocol_errors++;
				return 0;
			}
			fl_publish_on_ack(p, c, packet->type, id, code, now);
			return packet->type == FL_MQ_PUBREC && code < 0x80 ? fl_mq_ack(answer, FL_MQ_PUBREL, id) : 0;
		case FL_MQ_PINGRESP:
			c->ping_awaited = false;
			p->r->n.pongs++;
			fl_publish_on_pong(p, c);
			return 0;
		case FL_MQ_DISCONNECT:
			if (!p->o->quiet)
				fprintf(stderr, "fl_load: server disconnects %d with reason 0x%02x\n", c->number,
						packet->body_len > 0 ? packet->body[0] : 0);
			fl_conn_fail(p, c);
			return 0;
		default:
			p->r->n.protocol_errors++;
			return 0;
	}
}

/*
 * Like recv(), and sets *when to the time at which the last of these bytes came, by the kernel's note.  A note from
 * before the last look or from the future, as a step of the clock makes it, is not believed.
 */
static ssize_t
receive_with_time(FlProc *p, FlConn *c, uint8_t *into, size_t size, int64_t *when)
{
	union
	{
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct timespec))];
	} control;
	struct iovec iov = {.iov_base = into, .iov_len = size};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(c->fd, &m, 0);

	*when = fl_now();
	for (struct cmsghdr *h = n > 0 ? CMSG_FIRSTHDR(&m) : NULL; h != NULL; h = CMSG_NXTHDR(&m, h))
	{
		struct timespec ts;
		int64_t noted;

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&ts, CMSG_DATA(h), sizeof(ts));
		noted = ts.tv_sec * FL_SECOND + ts.tv_nsec - p->clock_offset;
		if (noted >= p->last_poll && noted < *when)
			*when = noted;
	}
	return n;
}

/* Reads what is there, in one go, and answers in one go. */
static void
read_packets(FlProc *p, FlConn *c)
{
	static uint8_t answers[FL_READ_SIZE + 8];
	size_t kept = c->in_len, len = kept, at = 0, answered = 0;
	FlMqPacket packet;
	ssize_t n;
	int status = 0;
	int64_t now;

	if (kept > 0)
		memcpy(p->rbuf, c->in, kept);
	if (p->by_kernel_clock)
		n = receive_with_time(p, c, p->rbuf + kept, FL_READ_SIZE - kept, &now);
	else
	{
		n = c->ssl != NULL ? fl_tls_recv(c, p->rbuf + kept, FL_READ_SIZE - kept)
						   : recv(c->fd, p->rbuf + kept, FL_READ_SIZE - kept, 0);
		now = fl_now();
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
	{
		fl_conn_fail(p, c);
		return;
	}
	len += n;
	while (c->fd >= 0 && (status = fl_mq_parse(p->rbuf + at, len - at, &packet)) == 1)
	{
		answered += on_packet(p, c, &packet, now, answers + answered);
		at += packet.total_len;
	}
	if (c->fd < 0)
		return;
	/* A packet that does not fit into the buffer is larger than anything we cause. */
	if (status < 0 || len - at == FL_READ_SIZE)
	{
		p->r->n.protocol_errors++;
		fl_conn_fail(p, c);
		return;
	}
	if (len > at)
	{
		uint8_t *rest = keep_bytes(NULL, 0, p->rbuf + at, len - at);

		free(c->in);
		c->in = rest;
	}
	c->in_len = len - at;
	if (answered > 0 && !fl_conn_send(p, c, answers, answered))
		return;
	if (p->publishing && !c->subscriber && c->state == FL_CONN_READY)
		fl_publish_pump(p, c);
}

void
fl_conn_event(FlProc *p, FlConn *c, uint32_t events)
{
	if (c->fd < 0)
		return;
	if (c->state == FL_CONN_CONNECTING)
	{
		if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
			on_connected(p, c);
		return;
	}
	if (c->state == FL_CONN_SHAKING)
	{
		shake(p, c);
		return;
	}
	if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		read_packets(p, c);
	if (c->fd >= 0 && (events & EPOLLOUT))
	{
		if (c->out_len > 0 && !flush_out(p, c))
			return;
		fl_conn_want_write(p, c, false);
		if (p->publishing && !c->subscriber && c->state == FL_CONN_READY)
			fl_publish_pump(p, c);
	}
}
