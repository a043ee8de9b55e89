/*-------------------------------------------------------------------------
 *
 * device.c
 *		One device: its connection and its habits.
 *
 *	BOOTING --> CONNECTING -> GREETING -> (SUBSCRIBING ->) READY
 *	   ^            ^ |           |            |            |
 *	   | reboot     | +-----------+------------+------------+--> WAITING
 *	   +- any       +---------- pause is over -----------------------+
 *
 * Whatever ends a connection or an attempt goes through fl_device_fail, which
 * is the only way to WAITING, and WAITING and BOOTING are the only ways to an
 * attempt; so no device ever connects without its pause.  Leaving (GONE) is
 * possible from everywhere.
 *
 * All reading goes through one buffer of the process; a device keeps only the
 * beginning of a packet that has not come whole.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* The packet identifier of SUBSCRIBE; messages have smaller ones. */
#define SUBSCRIBE_ID 65535

#define READ_SIZE (64 * 1024)

static uint8_t read_buffer[READ_SIZE];

static int64_t
earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Uniform in [from, to]. */
static int64_t
random_between(uint64_t *rng, int64_t from, int64_t to)
{
	return from + (int64_t) (fl_random(rng) % (uint64_t) (to - from + 1));
}

static void
set_state(FlHerd *h, FlDevice *d, FlDeviceState state)
{
	/* By old state, the new ones that are legal. */
	static const unsigned legal[FL_DEVICE_STATES] = {
		[FL_BOOTING] = 1 << FL_BOOTING | 1 << FL_CONNECTING | 1 << FL_GONE,
		[FL_WAITING] = 1 << FL_BOOTING | 1 << FL_CONNECTING | 1 << FL_GONE,
		[FL_CONNECTING] = 1 << FL_BOOTING | 1 << FL_WAITING | 1 << FL_GREETING | 1 << FL_GONE,
		[FL_GREETING] = 1 << FL_BOOTING | 1 << FL_WAITING | 1 << FL_SUBSCRIBING | 1 << FL_READY | 1 << FL_GONE,
		[FL_SUBSCRIBING] = 1 << FL_BOOTING | 1 << FL_WAITING | 1 << FL_READY | 1 << FL_GONE,
		[FL_READY] = 1 << FL_BOOTING | 1 << FL_WAITING | 1 << FL_GONE};

	assert(legal[d->state] & 1u << state);
	h->r->in_state[d->state]--;
	h->r->in_state[state]++;
	d->state = state;
}

static void
set_events(FlHerd *h, FlDevice *d, int op)
{
	struct epoll_event ev = {.events = (d->deaf ? 0 : EPOLLIN) | (d->want_write ? EPOLLOUT : 0), .data.ptr = d};

	if (epoll_ctl(h->epfd, op, d->fd, &ev) != 0)
	{
		perror("fl_fleet: epoll_ctl");
		exit(1);
	}
}

static void
want_write(FlHerd *h, FlDevice *d, bool on)
{
	if (d->want_write == on)
		return;
	d->want_write = on;
	set_events(h, d, EPOLL_CTL_MOD);
}

static void
close_socket(FlHerd *h, FlDevice *d)
{
	if (d->fd < 0)
		return;
	h->r->silent -= d->silent;
	h->r->deaf -= d->deaf;
	close(d->fd);
	d->fd = -1;
	d->silent = d->deaf = d->want_write = d->ping_awaited = false;
	free(d->in);
	free(d->out);
	d->in = d->out = NULL;
	d->in_len = d->out_len = 0;
}

/* A boot delay and a place within the reporting interval, both at random, so that a power cut is no drumbeat. */
static void
begin_boot(FlHerd *h, FlDevice *d)
{
	int64_t now = fl_now();

	h->r->n.boots++;
	d->until = now + random_between(&d->habit_rng, 0, h->o->boot);
	d->next_report = now + random_between(&d->habit_rng, 0, h->o->interval - 1);
	d->failures = 0;
}

void
fl_device_init(FlHerd *h, FlDevice *d, int number)
{
	const FlFleetOptions *o = h->o;

	d->fd = -1;
	d->number = number;
	d->habit_rng = o->payload.seed * UINT64_C(0x100000001b3) ^ (uint64_t) number << 20;
	d->message_rng = ~d->habit_rng;
	d->version = random_between(&d->habit_rng, 0, 99) < o->percent_311 ? FL_MQ_311 : FL_MQ_5;
	d->commands = random_between(&d->habit_rng, 0, 99) < o->percent_commands;
	d->next_id = 1;
	d->state = FL_BOOTING;
	h->r->in_state[FL_BOOTING]++;
	begin_boot(h, d);
}

void
fl_device_reboot(FlHerd *h, FlDevice *d)
{
	close_socket(h, d);
	set_state(h, d, FL_BOOTING);
	begin_boot(h, d);
}

/* Notes a pause by failures before it and by tenth of its window, from which anybody can see that it was full jitter. */
static void
count_pause(FlHerd *h, const FlDevice *d, int64_t pause, FlCause cause)
{
	int before = d->failures - 1;
	int64_t window = fl_backoff_window(&h->o->law, before, cause);

	h->r->n.pauses++;
	if (d->failures > h->r->most_failures)
		h->r->most_failures = d->failures;
	switch (cause)
	{
		case FL_CAUSE_BROKEN:
			h->r->pauses[before][pause * 10 / (window + 1)]++;
			break;
		case FL_CAUSE_BUSY:
			h->r->n.busy++;
			break;
		case FL_CAUSE_DENIED:
			h->r->n.denied++;
			break;
		case FL_CAUSE_TAKEN_OVER:
			h->r->n.taken_over++;
			break;
		case FL_CAUSES:
			break;
	}
}

void
fl_device_fail(FlHerd *h, FlDevice *d, FlCause cause)
{
	int64_t now = fl_now();
	int64_t lived = d->state == FL_READY ? now - d->ready_since : 0;
	int64_t pause;

	if (d->fd < 0)
		return;
	if (d->state == FL_READY || d->state == FL_SUBSCRIBING)
		h->r->n.lost++;
	else
		h->r->n.failed++;
	close_socket(h, d);
	set_state(h, d, FL_WAITING);
	pause = fl_backoff_next(&h->o->law, &d->failures, lived, cause, fl_random(&d->habit_rng));
	count_pause(h, d, pause, cause);
	d->until = now + pause;
}

void
fl_device_leave(FlHerd *h, FlDevice *d)
{
	uint8_t bye[2];

	if (d->state == FL_READY && !d->silent && !fl_device_send(h, d, bye, fl_mq_bare(bye, FL_MQ_DISCONNECT)))
		return; /* it will be called again, without a connection */
	close_socket(h, d);
	set_state(h, d, FL_GONE);
}

void
fl_device_set_silent(FlHerd *h, FlDevice *d, bool on)
{
	if (d->silent == on)
		return;
	d->silent = on;
	h->r->silent += on ? 1 : -1;
	/* Without interest at all, since the end of a connection would be reported whatever we ask for. */
	set_events(h, d, on ? EPOLL_CTL_DEL : EPOLL_CTL_ADD);
}

void
fl_device_set_deaf(FlHerd *h, FlDevice *d, bool on)
{
	if (d->deaf == on || d->silent)
		return;
	d->deaf = on;
	h->r->deaf += on ? 1 : -1;
	set_events(h, d, EPOLL_CTL_MOD);
}

/* Somewhere between half and nine tenths of the keep alive, so that a fleet that came up at once does not ping at once. */
static void
put_off_ping(FlDevice *d, int64_t now)
{
	if (!d->ping_awaited && d->keep_alive > 0)
		d->next_ping = now + random_between(&d->message_rng, d->keep_alive / 2, d->keep_alive / 10 * 9);
}

bool
fl_device_send(FlHerd *h, FlDevice *d, const uint8_t *bytes, size_t len)
{
	ssize_t n = 0;

	put_off_ping(d, fl_now());
	if (d->out_len == 0)
	{
		n = send(d->fd, bytes, len, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
		{
			fl_device_fail(h, d, FL_CAUSE_BROKEN);
			return false;
		}
		if (n < 0)
			n = 0;
	}
	if ((size_t) n < len)
	{
		uint8_t *more = realloc(d->out, d->out_len + len - n);

		if (more == NULL)
			abort();
		memcpy(more + d->out_len, bytes + n, len - n);
		d->out = more;
		d->out_len += len - n;
		want_write(h, d, true);
	}
	return true;
}

static void
flush_out(FlHerd *h, FlDevice *d)
{
	ssize_t n = send(d->fd, d->out, d->out_len, MSG_NOSIGNAL);

	if (n < 0)
	{
		if (errno != EAGAIN && errno != EINTR)
			fl_device_fail(h, d, FL_CAUSE_BROKEN);
		return;
	}
	d->out_len -= n;
	memmove(d->out, d->out + n, d->out_len);
	if (d->out_len > 0)
		return;
	free(d->out);
	d->out = NULL;
	want_write(h, d, false);
}

static void
bind_source(const FlFleetOptions *o, FlDevice *d)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	int on = 1;

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + d->number % o->sources);
	setsockopt(d->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(d->fd, (struct sockaddr *) &from, sizeof(from)) != 0)
	{
		perror("fl_fleet: bind");
		exit(1);
	}
}

static void
open_socket(FlHerd *h, FlDevice *d)
{
	const FlFleetOptions *o = h->o;
	int on = 1;

	d->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (d->fd < 0)
	{
		perror("fl_fleet: socket (too few descriptors? more processes, -j, help)");
		exit(1);
	}
	setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(d->fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	if (o->sources > 0)
		bind_source(o, d);
	h->r->n.attempts++;
	d->began = fl_now();
	d->until = d->began + o->connect_timeout;
	d->want_write = true;
	set_state(h, d, FL_CONNECTING);
	set_events(h, d, EPOLL_CTL_ADD);
	if (connect(d->fd, (const struct sockaddr *) &o->server, sizeof(o->server)) != 0 && errno != EINPROGRESS)
		fl_device_fail(h, d, FL_CAUSE_BROKEN);
}

/* TCP is there: says CONNECT. */
static void
greet(FlHerd *h, FlDevice *d)
{
	const FlFleetOptions *o = h->o;
	const FlCredential *credential = o->credential != NULL ? &o->credential[d->number] : NULL;
	char client_id[FL_NAME_SIZE];
	uint8_t packet[3 * FL_NAME_SIZE + FL_MQ_OVERHEAD];
	FlMqConnect connect = {.version = d->version, .clean = o->clean, .keep_alive = (uint16_t) o->keep_alive};
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0)
	{
		fl_device_fail(h, d, FL_CAUSE_BROKEN);
		return;
	}
	fl_fleet_expand(client_id, sizeof(client_id), o->client_id, d->number);
	connect.client_id = client_id;
	connect.session_expiry = o->clean ? 0 : o->session_expiry;
	if (credential != NULL)
	{
		connect.user = credential->user;
		connect.password = credential->password;
	}
	d->keep_alive = o->keep_alive * FL_SECOND;
	set_state(h, d, FL_GREETING);
	want_write(h, d, false);
	fl_device_send(h, d, packet, fl_mq_connect(packet, &connect));
}

static void
become_ready(FlHerd *h, FlDevice *d)
{
	d->ready_since = fl_now();
	set_state(h, d, FL_READY);
}

/* Commands lie beside the device's own topics: `acme/d7` listens to `acme/cmd/d7/#`. */
static void
subscribe(FlHerd *h, FlDevice *d)
{
	char base[FL_NAME_SIZE], filter[FL_NAME_SIZE + 8];
	uint8_t packet[FL_NAME_SIZE + 8 + FL_MQ_OVERHEAD];
	const char *slash;
	size_t n;
	int prefix;

	fl_message_base(h->o, d->number, base, sizeof(base));
	slash = strrchr(base, '/');
	prefix = slash != NULL ? (int) (slash - base) + 1 : 0;
	snprintf(filter, sizeof(filter), "%.*scmd/%s/#", prefix, base, base + prefix);
	set_state(h, d, FL_SUBSCRIBING);
	n = fl_mq_subscribe_head(packet, d->version, SUBSCRIBE_ID, FL_MQ_FILTER_SIZE(filter));
	n += fl_mq_subscribe_filter(packet + n, filter, 1);
	fl_device_send(h, d, packet, n);
}

static void
on_connack(FlHerd *h, FlDevice *d, const FlMqPacket *packet)
{
	FlMqConnack ack;

	if (d->state != FL_GREETING || !fl_mq_read_connack(packet, d->version, &ack))
	{
		h->r->n.protocol_errors++;
		fl_device_fail(h, d, FL_CAUSE_BROKEN);
		return;
	}
	if (ack.code != 0)
	{
		h->r->n.refused++;
		fl_device_fail(h, d, fl_backoff_cause(d->version, ack.code));
		return;
	}
	fl_hist_add(&h->r->connack, fl_now() - d->began);
	h->r->n.connects++;
	h->r->n.sessions_present += ack.session_present;
	d->window = ack.receive_maximum < FL_WINDOW ? ack.receive_maximum : FL_WINDOW;
	if (ack.keep_alive > 0)
		d->keep_alive = ack.keep_alive * FL_SECOND;
	if (d->commands)
		subscribe(h, d);
	else
		become_ready(h, d);
	fl_message_resume(h, d, ack.session_present);
}

static void
on_suback(FlHerd *h, FlDevice *d, const FlMqPacket *packet)
{
	uint16_t id;
	int granted, refused;

	if (!fl_mq_read_suback(packet, d->version, &id, &granted, &refused) || id != SUBSCRIBE_ID ||
		d->state != FL_SUBSCRIBING)
	{
		h->r->n.protocol_errors++;
		return;
	}
	h->r->n.subscribed += granted;
	h->r->n.sub_refused += refused;
	become_ready(h, d);
}

static void
on_publish(FlHerd *h, FlDevice *d, const FlMqPacket *packet)
{
	FlMqPublish m;
	uint8_t answer[4];

	if (!fl_mq_read_publish(packet, d->version, &m) || m.qos > 1)
	{
		h->r->n.protocol_errors++;
		return;
	}
	h->r->n.commands++;
	if (m.qos == 1)
		fl_device_send(h, d, answer, fl_mq_ack(answer, FL_MQ_PUBACK, m.id));
}

static void
on_packet(FlHerd *h, FlDevice *d, const FlMqPacket *packet)
{
	uint16_t id;
	uint8_t code;

	switch ((int) packet->type)
	{
		case FL_MQ_CONNACK:
			on_connack(h, d, packet);
			break;
		case FL_MQ_SUBACK:
			on_suback(h, d, packet);
			break;
		case FL_MQ_PUBLISH:
			on_publish(h, d, packet);
			break;
		case FL_MQ_PUBACK:
			if (fl_mq_read_ack(packet, d->version, &id, &code))
				fl_message_on_puback(h, d, id, code);
			else
				h->r->n.protocol_errors++;
			break;
		case FL_MQ_PINGRESP:
			h->r->n.pongs++;
			d->ping_awaited = false;
			put_off_ping(d, fl_now());
			break;
		case FL_MQ_DISCONNECT:
			/* Without a reason code it is 0 (MQTT5-3.14.2.1). */
			fl_device_fail(h, d, fl_backoff_cause(d->version, packet->body_len > 0 ? packet->body[0] : 0));
			break;
		default:
			h->r->n.protocol_errors++;
	}
}

static void
keep_rest(FlDevice *d, const uint8_t *bytes, size_t len)
{
	free(d->in);
	d->in = NULL;
	d->in_len = len;
	if (len == 0)
		return;
	d->in = fl_fleet_allocate(1, len);
	memcpy(d->in, bytes, len);
}

static void
read_packets(FlHerd *h, FlDevice *d)
{
	size_t len = d->in_len, at = 0;
	FlMqPacket packet;
	ssize_t n;
	int status = 0;

	if (len > 0)
		memcpy(read_buffer, d->in, len);
	n = recv(d->fd, read_buffer + len, READ_SIZE - len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
	{
		fl_device_fail(h, d, FL_CAUSE_BROKEN);
		return;
	}
	len += n;
	while (d->fd >= 0 && (status = fl_mq_parse(read_buffer + at, len - at, &packet)) == 1)
	{
		on_packet(h, d, &packet);
		at += packet.total_len;
	}
	if (d->fd < 0)
		return;
	/* A packet that does not fit into the buffer is larger than any command. */
	if (status < 0 || len - at == READ_SIZE)
	{
		h->r->n.protocol_errors++;
		fl_device_fail(h, d, FL_CAUSE_BROKEN);
		return;
	}
	keep_rest(d, read_buffer + at, len - at);
}

void
fl_device_event(FlHerd *h, FlDevice *d, uint32_t events)
{
	if (d->fd < 0 || d->silent)
		return;
	if (d->state == FL_CONNECTING)
	{
		greet(h, d);
		return;
	}
	if (d->deaf && (events & (EPOLLERR | EPOLLHUP)))
		fl_device_fail(h, d, FL_CAUSE_BROKEN);
	else if (!d->deaf && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
		read_packets(h, d);
	if (d->fd >= 0 && d->out_len > 0 && (events & EPOLLOUT))
		flush_out(h, d);
}

/* Pings who has been quiet, and gives up who gets no answer: a half-open connection is found only so. */
static int64_t
keep_alive(FlHerd *h, FlDevice *d, int64_t now)
{
	uint8_t ping[2];

	if (d->keep_alive == 0)
		return INT64_MAX;
	if (now < d->next_ping)
		return d->next_ping;
	/* A deaf device cannot know; it goes on pinging. */
	if (d->ping_awaited && !d->deaf)
	{
		fl_device_fail(h, d, FL_CAUSE_BROKEN);
		return d->until;
	}
	if (!fl_device_send(h, d, ping, fl_mq_bare(ping, FL_MQ_PINGREQ)))
		return d->until;
	h->r->n.pings++;
	d->ping_awaited = true;
	d->next_ping = now + d->keep_alive / 2;
	return d->next_ping;
}

static bool
is_done(const FlHerd *h, const FlDevice *d, int64_t now)
{
	return h->leaving && (now >= h->leave_at || (d->npending == 0 && d->out_len == 0));
}

/* Reports go on by the device's own clock, whatever its connection does. */
static int64_t
report(FlHerd *h, FlDevice *d, int64_t now)
{
	if (!h->reporting || d->state == FL_BOOTING)
		return INT64_MAX;
	if (now >= d->next_report)
	{
		/* After a delay of our own the missed ones are not made up for: they would be a wave. */
		d->next_report += h->o->interval * (1 + (now - d->next_report) / h->o->interval);
		fl_message_report(h, d, now);
	}
	return d->next_report;
}

int64_t
fl_device_turn(FlHerd *h, FlDevice *d, int64_t now)
{
	int64_t next = h->leaving ? h->leave_at : INT64_MAX;

	if (d->state != FL_GONE && is_done(h, d, now))
		fl_device_leave(h, d);
	if (d->state == FL_GONE)
		return INT64_MAX;
	next = earlier(next, report(h, d, now));
	switch (d->state)
	{
		case FL_BOOTING:
		case FL_WAITING:
			if (now >= d->until)
				open_socket(h, d);
			return earlier(next, d->until);
		case FL_CONNECTING:
		case FL_GREETING:
		case FL_SUBSCRIBING:
			if (now >= d->until)
				fl_device_fail(h, d, FL_CAUSE_BROKEN);
			return earlier(next, d->until);
		case FL_READY:
			if (d->silent)
				return next;
			next = earlier(next, fl_message_pump(h, d, now));
			if (d->state == FL_READY)
				next = earlier(next, keep_alive(h, d, now));
			return d->state == FL_READY ? next : earlier(next, d->until);
		case FL_GONE:
		case FL_DEVICE_STATES:
			break;
	}
	return INT64_MAX;
}
