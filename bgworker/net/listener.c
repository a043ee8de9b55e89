/*
 * listener.c
 *		Listening sockets: what a setting names, kept over reloads.
 *
 * Every front door opens its own socket for the same address (SO_REUSEPORT)
 * and the kernel spreads new connections over them.  A socket whose address is
 * still named after a reload stays open, so no connection attempt is lost.
 *
 * Host names are not looked up: that would block the loop.  Numeric addresses,
 * "localhost" and "*" are all there is.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "storage/fd.h"

#include "fleetlog/guest.h"
#include "net_private.h"

#define LISTEN_BACKLOG 4096 /* the kernel cuts it to net.core.somaxconn */
#define RETRY_MS       5000
#define MAX_ADDRESSES  64 /* of one setting */
#define FULL_LOG_MS    60000

typedef struct Address
{
	struct sockaddr_storage addr;
	socklen_t len;
	bool optional;
} Address;

/* ---- reading the setting ---- */

static bool
parse_port(const char *text, int *port)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < 1 || value > 65535)
		return false;
	*port = (int) value;
	return true;
}

static bool
add_numeric(const char *host, int port, bool optional, Address *out, int *n)
{
	struct sockaddr_in *in = (struct sockaddr_in *) &out[*n].addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &out[*n].addr;

	if (*n >= MAX_ADDRESSES)
		return false;
	memset(&out[*n], 0, sizeof(Address));
	if (inet_pton(AF_INET, host, &in->sin_addr) == 1)
	{
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16) port);
		out[*n].len = sizeof(*in);
	}
	else if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1)
	{
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16) port);
		out[*n].len = sizeof(*in6);
	}
	else
		return false;
	out[(*n)++].optional = optional;
	return true;
}

/* One item: port, host:port, [v6]:port. */
static const char *
parse_item(char *item, Address *out, int *n)
{
	char *colon = strrchr(item, ':');
	char *host = item;
	int port;

	if (colon == NULL)
	{
		if (!parse_port(item, &port))
			return "a port is a number from 1 to 65535";
		host = "localhost";
	}
	else
	{
		*colon = '\0';
		if (!parse_port(colon + 1, &port))
			return "a port is a number from 1 to 65535";
		if (*host == '[' && colon > host && colon[-1] == ']')
		{
			colon[-1] = '\0';
			host++;
		}
		else if (strchr(host, ':') != NULL)
			return "an IPv6 address is written in brackets, [address]:port";
	}
	if (strcmp(host, "localhost") == 0)
	{
		/* A machine without IPv6 has no ::1, and that is no fault. */
		if (!add_numeric("127.0.0.1", port, false, out, n) || !add_numeric("::1", port, true, out, n))
			return "too many addresses";
	}
	else if (strcmp(host, "*") == 0)
	{
		if (!add_numeric("0.0.0.0", port, false, out, n) || !add_numeric("::", port, true, out, n))
			return "too many addresses";
	}
	else if (!add_numeric(host, port, false, out, n))
		return "an address is numeric, localhost, or *: names are not looked up";
	return NULL;
}

/* NULL when good, else what is wrong. */
static const char *
parse_spec(const char *spec, Address *out, int *n)
{
	char *copy = strdup(spec ? spec : "");
	char *save = NULL;
	const char *why = NULL;

	*n = 0;
	if (copy == NULL)
		return "out of memory";
	for (char *item = strtok_r(copy, ", \t", &save); item && !why; item = strtok_r(NULL, ", \t", &save))
		why = parse_item(item, out, n);
	free(copy);
	return why;
}

bool
fl_net_check_spec(const char *spec, const char **why)
{
	Address addresses[MAX_ADDRESSES];
	int n;

	*why = parse_spec(spec, addresses, &n);
	return *why == NULL;
}

/* ---- sockets ---- */

void
fl_net_name_address(const struct sockaddr_storage *addr, char *buf, Size size)
{
	char host[INET6_ADDRSTRLEN];

	if (addr->ss_family == AF_INET)
	{
		const struct sockaddr_in *in = (const struct sockaddr_in *) addr;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(buf, size, "%s:%d", host, ntohs(in->sin_port));
	}
	else
	{
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) addr;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(buf, size, "[%s]:%d", host, ntohs(in6->sin6_port));
	}
}

/* For the view fleetlog.stat_listener. */
static void
show(FlNetLoop *loop, FlNetListener *listener, const char *state)
{
	listener->shown = fl_listener_show(loop->door, listener->label, listener->name, state);
}

static void
complain(FlNetListener *listener, int error)
{
	if (listener->complained)
		return;
	listener->complained = true;
	errno = error;
	ereport(
		LOG,
		(errmsg("fleetlog: could not listen on %s: %m", listener->name),
		 error == EADDRINUSE
			 ? errhint(
				   "Another server uses this port. Stop it, or choose another one in %s and reload. It is tried again every %d seconds.",
				   listener->setting, RETRY_MS / 1000)
		 : error == EACCES ? errhint("Ports below 1024 need privileges; choose another one in %s.", listener->setting)
						   : errhint("Check %s.", listener->setting)));
}

/* The kernel cuts the queue without a word; what does not fit is tried again by its peer after a second, then two ... */
static void
check_queue(FlNetLoop *loop)
{
	static bool told = false;
	FILE *file;
	int most;

	if (told || loop->door != 0 || (file = AllocateFile("/proc/sys/net/core/somaxconn", "r")) == NULL)
		return;
	told = true;
	if (fscanf(file, "%d", &most) == 1 && most < LISTEN_BACKLOG)
		ereport(LOG, (errmsg("fleetlog: the kernel lets at most %d new connections wait at each front door", most),
					  errhint("Where more come at once, set net.core.somaxconn to %d, and restart.", LISTEN_BACKLOG)));
	FreeFile(file);
}

static int
open_socket(FlNetListener *listener)
{
	int on = 1;
	int fd = socket(listener->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0 ||
		(listener->addr.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) ||
		bind(fd, (struct sockaddr *) &listener->addr, listener->addr_len) != 0 || listen(fd, LISTEN_BACKLOG) != 0)
	{
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

/* True when the listener has its socket, or may do without. */
static bool
open_listener(FlNetLoop *loop, FlNetListener *listener)
{
	struct epoll_event event;
	int fd;

	/* fl_net_configure has said what is missing. */
	if ((listener->kind & FL_NET_KIND_TLS) && loop->tls == NULL)
	{
		show(loop, listener, "no usable certificate: see fleetlog.tls_cert_file and the log");
		return true;
	}
	fd = open_socket(listener);
	if (fd < 0)
	{
		if (listener->optional && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT))
			return true;
		show(loop, listener, strerror(errno));
		complain(listener, errno);
		return false;
	}
	event.events = EPOLLIN;
	event.data.ptr = (void *) ((uintptr_t) listener | FL_NET_TAG_LISTENER);
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
	{
		complain(listener, errno);
		close(fd);
		return false;
	}
	listener->fd = fd;
	listener->complained = false;
	check_queue(loop);
	show(loop, listener, "listening");
	ereport(LOG, (errmsg("fleetlog: front door %d listens for %s on %s", loop->door, listener->label, listener->name)));
	return true;
}

void
fl_net_listener_count(FlNetListener *listener, int delta)
{
	listener->conns += delta;
	fl_listener_count(listener->shown, delta > 0 ? 1 : 0, delta);
	if (listener->dead && listener->conns == 0)
		pfree(listener);
}

/* The socket goes; what it has accepted stays connected. */
static void
close_listener(FlNetListener *listener)
{
	if (listener->fd >= 0)
		close(listener->fd);
	fl_listener_hide(listener->shown);
	listener->shown = -1;
	listener->dead = true;
	dlist_delete(&listener->node);
	if (listener->conns == 0)
		pfree(listener);
}

void
fl_net_retry_listeners(FlNetLoop *loop)
{
	dlist_iter iter;
	bool all = true;

	dlist_foreach (iter, &loop->listeners)
	{
		FlNetListener *listener = dlist_container(FlNetListener, node, iter.cur);

		if (listener->fd < 0 && !open_listener(loop, listener))
			all = false;
	}
	if (!all)
		fl_timer_arm(&loop->wheel, &loop->retry_timer, fl_net_now(loop) + RETRY_MS);
}

static FlNetListener *
find_listener(FlNetLoop *loop, const FlNetProtocol *protocol, int kind, const Address *address)
{
	dlist_iter iter;

	dlist_foreach (iter, &loop->listeners)
	{
		FlNetListener *listener = dlist_container(FlNetListener, node, iter.cur);

		if (listener->protocol == protocol && listener->kind == kind && listener->addr_len == address->len &&
			memcmp(&listener->addr, &address->addr, address->len) == 0)
			return listener;
	}
	return NULL;
}

static FlNetListener *
want_address(FlNetLoop *loop, const FlNetProtocol *protocol, int kind, const Address *address)
{
	FlNetListener *listener = find_listener(loop, protocol, kind, address);

	if (listener == NULL)
	{
		listener = MemoryContextAllocZero(loop->context, sizeof(FlNetListener));
		listener->protocol = protocol;
		listener->kind = (uint8) kind;
		listener->addr = address->addr;
		listener->addr_len = address->len;
		listener->optional = address->optional;
		listener->fd = -1;
		listener->shown = -1;
		fl_net_name_address(&listener->addr, listener->name, sizeof(listener->name));
		dlist_push_tail(&loop->listeners, &listener->node);
	}
	listener->wanted = true;
	return listener;
}

void
fl_net_listen(FlNetLoop *loop, const FlNetProtocol *protocol, int kind, const char *label, const char *spec,
			  const char *setting)
{
	Address addresses[MAX_ADDRESSES];
	dlist_mutable_iter iter;
	int n;
	const char *why = parse_spec(spec, addresses, &n);

	if (why != NULL)
	{
		ereport(LOG, (errmsg("fleetlog: %s is not valid: %s", setting, why)));
		return;
	}
	dlist_foreach_modify (iter, &loop->listeners)
	{
		FlNetListener *listener = dlist_container(FlNetListener, node, iter.cur);

		if (listener->protocol == protocol && listener->kind == kind)
			listener->wanted = false;
	}
	for (int i = 0; i < n; i++)
	{
		FlNetListener *listener = want_address(loop, protocol, kind, &addresses[i]);

		listener->label = label;
		listener->setting = setting;
	}
	dlist_foreach_modify (iter, &loop->listeners)
	{
		FlNetListener *listener = dlist_container(FlNetListener, node, iter.cur);

		if (!listener->wanted)
		{
			ereport(LOG, (errmsg("fleetlog: front door %d no longer listens on %s", loop->door, listener->name)));
			close_listener(listener);
		}
	}
	fl_net_retry_listeners(loop);
}

void
fl_net_stop_listening(FlNetLoop *loop)
{
	while (!dlist_is_empty(&loop->listeners))
		close_listener(dlist_head_element(FlNetListener, node, &loop->listeners));
	fl_timer_cancel(&loop->wheel, &loop->retry_timer);
}

const char *
fl_net_listening(FlNetLoop *loop, char *buf, Size size)
{
	dlist_iter iter;
	Size used = 0;

	buf[0] = '\0';
	dlist_foreach (iter, &loop->listeners)
	{
		FlNetListener *listener = dlist_container(FlNetListener, node, iter.cur);

		if (listener->fd < 0 || used >= size)
			continue;
		used += (Size) snprintf(buf + used, size - used, "%s%s", used ? ", " : "", listener->name);
	}
	if (used == 0)
		snprintf(buf, size, "nothing");
	return buf;
}

/* ---- accepting ---- */

/* Accepting fails for want of descriptors or memory; tried again in the next turn. */
static void
complain_accept(FlNetLoop *loop, FlNetListener *listener)
{
	int error = errno;
	int64 now = fl_net_now(loop);

	if (loop->last_full_log != 0 && now - loop->last_full_log < FULL_LOG_MS)
		return;
	loop->last_full_log = now;
	errno = error;
	ereport(LOG, (errmsg("fleetlog: could not accept a connection on %s: %m", listener->name)));
}

/* At the ceiling new connections are shed at once: what is established stays. */
static void
shed(FlNetLoop *loop, int fd)
{
	int64 now = fl_net_now(loop);

	close(fd);
	loop->shed++;
	if (loop->last_full_log != 0 && now - loop->last_full_log < FULL_LOG_MS)
		return;
	loop->last_full_log = now;
	ereport(LOG, (errmsg("fleetlog: front door %d is full: %d connections, " UINT64_FORMAT " turned away since start",
						 loop->door, loop->nconns, loop->shed),
				  errhint("Raise fleetlog.max_connections, the limit of open files, or fleetlog.workers.")));
}

void
fl_net_accept(FlNetLoop *loop, FlNetListener *listener)
{
	for (int i = 0; i < FL_NET_ACCEPTS; i++)
	{
		int on = 1;
		FlNetConn *conn;
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(listener->fd, (struct sockaddr *) &peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
		{
			if (errno == ECONNABORTED || errno == EINTR)
				continue;
			if (errno != EAGAIN && errno != EWOULDBLOCK)
				complain_accept(loop, listener);
			return;
		}
		if (loop->nconns >= loop->ceiling)
		{
			shed(loop, fd);
			continue;
		}
		/* Acknowledgements are small and must not wait for each other. */
		(void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		/* A peer that vanished without a keep alive of its own is noticed. */
		(void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		conn = fl_net_conn_create(loop, listener, fd, &peer);
		if (conn != NULL)
			conn->protocol->on_accept(conn);
	}
}
