/*-------------------------------------------------------------------------
 *
 * null.c
 *		fl_null: an MQTT server that acknowledges everything at once and does
 *		nothing with it, so that fl_load's own ceiling can be measured.
 *
 * It stores nothing, routes nothing and checks nothing but framing.  All that
 * one read brings is answered by one write, as a good server would do.  A peer
 * that does not read its acknowledgements is not read from either.
 *
 *-------------------------------------------------------------------------
 */
#include "mq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_SIZE  (256 * 1024)
#define MAX_EVENTS 256

typedef struct Peer
{
	int fd;
	int version;
	uint8_t *in; /* the beginning of a packet that has not arrived whole */
	size_t in_len;
	uint8_t *out; /* answers that the socket did not take */
	size_t out_len;
} Peer;

typedef struct Totals
{
	uint64_t connections;
	uint64_t publishes;
	uint64_t bytes;
} Totals;

static volatile sig_atomic_t stop_requested;
static uint8_t read_buffer[READ_SIZE];

/* An answer is never longer than the request it answers, save CONNACK and SUBACK, which come once. */
static uint8_t answer_buffer[READ_SIZE + 4096];
static Totals totals;

static const char help[] =
	"fl_null: an MQTT server that acknowledges everything at once and keeps nothing; the ceiling of fl_load.\n"
	"\n"
	"usage: fl_null [options]\n"
	"  -h, --host ADDRESS     address to listen on (127.0.0.1)\n"
	"  -p, --port PORT        port (11883)\n"
	"  -j, --processes N      processes that share the port (1)\n"
	"      --help             this text\n"
	"\n"
	"It runs until SIGTERM or SIGINT, and then prints for each process what it counted; once it listens it says so.\n";

static void
on_signal(int signo)
{
	(void) signo;
	stop_requested = 1;
}

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

static void *
keep_bytes(void *old, const uint8_t *bytes, size_t len)
{
	uint8_t *copy = NULL;

	if (len > 0)
	{
		copy = malloc(len);
		if (copy == NULL)
			die("malloc");
		memcpy(copy, bytes, len);
	}
	free(old);
	return copy;
}

/* Appends the answer to one packet and returns its length; -1: the connection is over. */
static int
answer(Peer *peer, const FlMqPacket *p, uint8_t *out)
{
	FlMqPublish m;
	uint16_t id;
	uint8_t code;

	switch (p->type)
	{
		case FL_MQ_CONNECT:
			if (p->body_len < 7)
				return -1;
			peer->version = p->body[6];
			memcpy(out, "\x20\x02\x00\x00\x00", 5);
			if (peer->version != FL_MQ_5)
				return 4;
			out[1] = 3;
			return 5;
		case FL_MQ_PUBLISH:
			if (!fl_mq_read_publish(p, peer->version, &m))
				return -1;
			totals.publishes++;
			if (m.qos == 0)
				return 0;
			return (int) fl_mq_ack(out, m.qos == 1 ? FL_MQ_PUBACK : FL_MQ_PUBREC, m.id);
		case FL_MQ_PUBREL:
			return fl_mq_read_ack(p, peer->version, &id, &code) ? (int) fl_mq_ack(out, FL_MQ_PUBCOMP, id) : -1;
		case FL_MQ_SUBSCRIBE:
			if (p->body_len < 2)
				return -1;
			memcpy(out, "\x90\x03", 2);
			memcpy(out + 2, p->body, 2);
			out[4] = 0;
			if (peer->version != FL_MQ_5)
				return 5;
			out[1] = 4;
			out[5] = 0;
			return 6;
		case FL_MQ_PINGREQ:
			return (int) fl_mq_bare(out, FL_MQ_PINGRESP);
		case FL_MQ_PUBACK:
		case FL_MQ_PUBREC:
		case FL_MQ_PUBCOMP:
			return 0;
		default:
			return -1;
	}
}

static void
close_peer(Peer *peer)
{
	close(peer->fd);
	free(peer->in);
	free(peer->out);
	free(peer);
}

static void
watch(int epfd, Peer *peer, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = peer};

	if (epoll_ctl(epfd, op, peer->fd, &ev) != 0)
		die("epoll_ctl");
}

/* Sends what is there; false: the connection is broken.  What the socket does not take waits for EPOLLOUT. */
static bool
send_answers(int epfd, Peer *peer, const uint8_t *bytes, size_t len)
{
	ssize_t n = len > 0 ? send(peer->fd, bytes, len, MSG_NOSIGNAL) : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return false;
	if (n < 0)
		n = 0;
	if ((size_t) n < len || peer->out_len > 0)
		watch(epfd, peer, EPOLL_CTL_MOD, (size_t) n < len ? EPOLLOUT : EPOLLIN);
	peer->out = keep_bytes(peer->out, bytes + n, len - n);
	peer->out_len = len - n;
	return true;
}

/* Reads once, answers all whole packets, keeps the rest. */
static bool
serve_peer(int epfd, Peer *peer)
{
	size_t at = 0, len = peer->in_len, answered = 0;
	FlMqPacket p;
	ssize_t n;
	int status = 0;

	if (len >= READ_SIZE / 2)
		return false;
	if (len > 0)
		memcpy(read_buffer, peer->in, len);
	n = recv(peer->fd, read_buffer + len, READ_SIZE - len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	totals.bytes += n;
	len += n;
	while ((status = fl_mq_parse(read_buffer + at, len - at, &p)) == 1)
	{
		int size = answer(peer, &p, answer_buffer + answered);

		if (size < 0)
			return false;
		answered += size;
		at += p.total_len;
	}
	if (status < 0)
		return false;
	peer->in = keep_bytes(peer->in, read_buffer + at, len - at);
	peer->in_len = len - at;
	return answered == 0 || send_answers(epfd, peer, answer_buffer, answered);
}

static void
accept_peers(int epfd, int listener)
{
	int on = 1;
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
	{
		Peer *peer = calloc(1, sizeof(Peer));

		if (peer == NULL)
			die("calloc");
		peer->fd = fd;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		watch(epfd, peer, EPOLL_CTL_ADD, EPOLLIN);
		totals.connections++;
	}
}

static int
open_listener(const char *host, int port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int on = 1;

	if (inet_pton(AF_INET, host, &addr.sin_addr) != 1)
	{
		fprintf(stderr, "fl_null: \"%s\" is no IPv4 address\n", host);
		exit(2);
	}
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
		bind(fd, (struct sockaddr *) &addr, sizeof(addr)) != 0 || listen(fd, 4096) != 0)
		die("fl_null: listen");
	return fd;
}

static void
serve(const char *host, int port)
{
	int listener = open_listener(host, port);
	int epfd = epoll_create1(0);
	struct epoll_event events[MAX_EVENTS];
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};

	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, listener, &ev) != 0)
		die("epoll");
	/* Whoever started us may connect from now on. */
	puts("listening");
	fflush(stdout);
	while (!stop_requested)
	{
		int n = epoll_wait(epfd, events, MAX_EVENTS, 100);

		for (int i = 0; i < n; i++)
		{
			Peer *peer = events[i].data.ptr;

			if (peer == NULL)
				accept_peers(epfd, listener);
			else if (peer->out_len > 0 ? !send_answers(epfd, peer, peer->out, peer->out_len) : !serve_peer(epfd, peer))
				close_peer(peer);
		}
	}
	printf("connections %llu publishes %llu bytes %llu\n", (unsigned long long) totals.connections,
		   (unsigned long long) totals.publishes, (unsigned long long) totals.bytes);
}

int
main(int argc, char **argv)
{
	static const struct option names[] = {{"host", required_argument, NULL, 'h'},
										  {"port", required_argument, NULL, 'p'},
										  {"processes", required_argument, NULL, 'j'},
										  {"help", no_argument, NULL, 'H'},
										  {NULL, 0, NULL, 0}};
	const char *host = "127.0.0.1";
	int port = 11883, processes = 1, c;
	struct sigaction action = {.sa_handler = on_signal};
	struct rlimit limit;
	pid_t *children;

	while ((c = getopt_long(argc, argv, "h:p:j:", names, NULL)) != -1)
	{
		if (c == 'h')
			host = optarg;
		else if (c == 'p')
			port = atoi(optarg);
		else if (c == 'j')
			processes = atoi(optarg);
		else
		{
			fputs(help, c == 'H' ? stdout : stderr);
			return c == 'H' ? 0 : 2;
		}
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	children = calloc(processes > 0 ? processes : 1, sizeof(pid_t));
	if (children == NULL)
		die("calloc");
	for (int i = 1; i < processes; i++)
	{
		children[i] = fork();
		if (children[i] < 0)
			die("fork");
		if (children[i] == 0)
		{
			serve(host, port);
			return 0;
		}
	}
	serve(host, port);
	for (int i = 1; i < processes; i++)
	{
		kill(children[i], SIGTERM);
		waitpid(children[i], NULL, 0);
	}
	free(children);
	return 0;
}
