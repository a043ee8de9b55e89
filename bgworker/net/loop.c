/*
 * loop.c
 *		The turn of the event loop.
 *
 * Level-triggered epoll, polled without waiting: the worker does the waiting on
 * its WaitEventSet, of which this epoll descriptor is one event.  A connection
 * is freed only at the end of a turn, so an event or a list that still names it
 * is harmless.
 */
#include "postgres.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "fleetlog/settings.h"
#include "net_private.h"

/*
 * Descriptors that stay with the server: its virtual files (at most
 * max_files_per_process), the epoll sets, listeners and a few more.
 */
static int
reserved_descriptors(void)
{
	return max_files_per_process + 64;
}

/*
 * Sockets are no virtual files of the server, so each holds a descriptor.
 * Take all that the hard limit allows and keep the server's share apart.
 */
static int
raise_descriptor_limit(int door)
{
	struct rlimit limit;
	int reserve = reserved_descriptors();
	long ceiling;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		ereport(FATAL, (errmsg("fleetlog: could not read the limit of open files: %m")));
	if (limit.rlim_cur < limit.rlim_max)
	{
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		{
			ereport(LOG, (errmsg("fleetlog: could not raise the limit of open files: %m")));
			(void) getrlimit(RLIMIT_NOFILE, &limit);
		}
	}
	ceiling = limit.rlim_cur == RLIM_INFINITY ? 1000000 : (long) Min(limit.rlim_cur, 10000000);
	/* A tiny limit is shared by halves rather than leaving no connection. */
	ceiling = ceiling > 2 * reserve ? ceiling - reserve : ceiling / 2;
	ereport(LOG, (errmsg("fleetlog: front door %d can hold %ld connections", door, ceiling),
				  errdetail("The limit of open files is %ld, of which %ld are kept for the server.",
							(long) limit.rlim_cur, (long) limit.rlim_cur - ceiling)));
	return (int) ceiling;
}

FlNetLoop *
fl_net_create(MemoryContext parent, int door, int max_connections)
{
	MemoryContext context = AllocSetContextCreate(parent, "fleetlog net", ALLOCSET_DEFAULT_SIZES);
	FlNetLoop *loop = MemoryContextAllocZero(context, sizeof(FlNetLoop));

	loop->context = context;
	loop->door = door;
	loop->ceiling = raise_descriptor_limit(door);
	if (max_connections > 0 && max_connections < loop->ceiling)
		loop->ceiling = max_connections;
	fl_net_pool_init(&loop->pool, context);
	loop->scratch = MemoryContextAlloc(context, FL_NET_READ_BYTES);
	dlist_init(&loop->listeners);
	dlist_init(&loop->conns);
	dlist_init(&loop->ready);
	dlist_init(&loop->dirty);
	dlist_init(&loop->shaking);
	dlist_init(&loop->waiting);
	dlist_init(&loop->begun);
	dlist_init(&loop->graveyard);
	fl_timer_wheel_init(&loop->wheel, fl_net_now(loop));
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		ereport(FATAL, (errmsg("fleetlog: could not create an epoll set: %m")));
	/* The server's own file layer should know that one descriptor less is free. */
	ReserveExternalFD();
	return loop;
}

int
fl_net_fd(FlNetLoop *loop)
{
	return loop->epoll_fd;
}

int
fl_net_ceiling(FlNetLoop *loop)
{
	return loop->ceiling;
}

void
fl_net_set_memory_limit(FlNetLoop *loop, Size bytes)
{
	loop->pool.limit = bytes;
}

bool
fl_net_is_short(FlNetLoop *loop)
{
	return loop->pool.used_bytes >= loop->pool.limit;
}

Size
fl_net_buffered(FlNetLoop *loop)
{
	return loop->pool.used_bytes;
}

int
fl_net_connections(FlNetLoop *loop)
{
	return loop->nconns;
}

Size
fl_net_memory(FlNetLoop *loop)
{
	return MemoryContextMemAllocated(loop->context, true);
}

uint64
fl_net_bytes_in(FlNetLoop *loop)
{
	return loop->bytes_in;
}

uint64
fl_net_bytes_out(FlNetLoop *loop)
{
	return loop->bytes_out;
}

int64
fl_net_now(FlNetLoop *loop)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * 1000 + now.tv_nsec / 1000000 + fl_clock_offset_ms;
}

long
fl_net_timeout(FlNetLoop *loop)
{
	int64 wait;

	if (!dlist_is_empty(&loop->ready) || !dlist_is_empty(&loop->dirty) || loop->ngrave > 0)
		return 0;
	wait = fl_timer_wait(&loop->wheel, fl_net_now(loop));
	if (loop->nshaking > 0)
		wait = Min(wait, fl_tls_wait(loop));
	return wait > INT_MAX ? INT_MAX : (long) wait;
}

static void
fire(FlTimer *timer, void *arg)
{
	FlNetLoop *loop = arg;

	if (timer == &loop->retry_timer)
		fl_net_retry_listeners(loop);
	else
		fl_net_conn_timer((FlNetConn *) ((char *) timer - offsetof(FlNetConn, timer)));
}

/*
 * Connections that have bytes which no socket will announce: they were resumed,
 * or a layer holds some.  Each once a turn.
 */
static void
serve_ready(FlNetLoop *loop)
{
	dlist_node *last;

	if (dlist_is_empty(&loop->ready))
		return;
	last = dlist_tail_node(&loop->ready);
	for (int i = 0; i < FL_NET_RESUMES && !dlist_is_empty(&loop->ready); i++)
	{
		dlist_node *node = dlist_pop_head_node(&loop->ready);
		FlNetConn *conn = dlist_container(FlNetConn, work_node, node);

		conn->flags &= ~FL_NET_READY;
		fl_net_conn_ready(conn);
		if (node == last)
			break;
	}
}

static void
serve_event(FlNetLoop *loop, struct epoll_event *event)
{
	uintptr_t tagged = (uintptr_t) event->data.ptr;
	FlNetConn *conn;

	if (tagged & FL_NET_TAG_LISTENER)
	{
		fl_net_accept(loop, (FlNetListener *) (tagged & ~FL_NET_TAG_LISTENER));
		return;
	}
	conn = (FlNetConn *) tagged;
	if (unlikely(conn->flags & (FL_NET_CLOSED | FL_NET_SHAKING)))
	{
		if (!(conn->flags & FL_NET_CLOSED))
			fl_tls_enqueue(conn);
		return;
	}
	if (event->events & EPOLLOUT)
		fl_net_conn_flush(conn);
	if (conn->flags & FL_NET_CLOSED)
		return;
	/*
	 * An error or a hangup on both sides has to be taken note of even where
	 * reading is paused, else it would be reported for ever.
	 */
	if ((event->events & (EPOLLERR | EPOLLHUP)) && (conn->flags & FL_NET_PAUSED))
	{
		fl_net_close(conn, "connection lost");
		return;
	}
	if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		fl_net_conn_readable(conn);
}

/* Listeners, and connections of which little has come of late. */
static bool
is_quiet(const struct epoll_event *event)
{
	uintptr_t tagged = (uintptr_t) event->data.ptr;

	return (tagged & FL_NET_TAG_LISTENER) || !fl_net_conn_talks((FlNetConn *) tagged);
}

/*
 * Those that talk much go first, and the others share a part of the turn: thousands
 * that come, answer or leave at once do not hold up who is at work.  The rest is announced
 * again, and the next turn begins there: epoll keeps the order of those that always have
 * something, and the first of them must not be the only ones.
 */
static void
serve_events(FlNetLoop *loop, struct epoll_event *events, int n)
{
	instr_time start;
	instr_time now;
	int quiet = 0;
	int first = 0;

	for (int i = 0; i < n; i++)
		if (is_quiet(&events[i]))
			events[quiet++] = events[i];
		else
			serve_event(loop, &events[i]);
	for (int i = 0; i < quiet; i++)
		if (events[i].data.ptr == loop->quiet_next)
			first = i;
	loop->quiet_next = NULL;
	INSTR_TIME_SET_CURRENT(start);
	for (int i = 0; i < quiet; i++)
	{
		serve_event(loop, &events[(first + i) % quiet]);
		if (i % 8 != 7)
			continue;
		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, start);
		if ((uint64) INSTR_TIME_GET_MICROSEC(now) < FL_NET_QUIET_US)
			continue;
		loop->quiet_next = events[(first + i + 1) % quiet].data.ptr;
		break;
	}
}

int
fl_net_turn(FlNetLoop *loop, bool poll)
{
	struct epoll_event events[FL_NET_EVENTS];
	int n = 0;

	loop->period = (uint16) (fl_net_now(loop) / FL_NET_PERIOD_MS);
	serve_ready(loop);
	if (poll)
		n = epoll_wait(loop->epoll_fd, events, FL_NET_EVENTS, 0);
	if (n < 0 && errno != EINTR)
		ereport(ERROR, (errmsg("fleetlog: waiting for sockets failed: %m")));
	serve_events(loop, events, n);
	if (loop->nshaking > 0)
		fl_tls_serve(loop);
	if (loop->shaken > 0)
		fl_tls_trim(loop);
	if (unlikely(loop->lists_changed))
		fl_tls_check_revoked(loop);
	if (loop->next_expiry != 0)
		fl_tls_check_expiry(loop);
	fl_timer_advance(&loop->wheel, fl_net_now(loop), fire, loop);
	return n > 0 ? n : 0;
}

/*
 * Writes what was queued.  Connections are taken off the list one by one: the
 * protocol may leave by longjmp, and the others must then still be listed.
 */
static void
flush_dirty(FlNetLoop *loop)
{
	dlist_node *last;

	if (dlist_is_empty(&loop->dirty))
		return;
	/* Flushing may dirty others (a close publishes a will): those wait a turn. */
	last = dlist_tail_node(&loop->dirty);
	while (!dlist_is_empty(&loop->dirty))
	{
		dlist_node *node = dlist_pop_head_node(&loop->dirty);
		FlNetConn *conn = dlist_container(FlNetConn, dirty_node, node);

		conn->flags &= ~FL_NET_DIRTY;
		/* One that is blocked is flushed when its socket says so. */
		if (!(conn->flags & FL_NET_BLOCKED))
			fl_net_conn_flush(conn);
		if (node == last)
			break;
	}
}

void
fl_net_flush(FlNetLoop *loop)
{
	flush_dirty(loop);
	while (!dlist_is_empty(&loop->graveyard))
	{
		FlNetConn *conn = dlist_container(FlNetConn, all_node, dlist_pop_head_node(&loop->graveyard));

		loop->ngrave--;
		fl_net_conn_free(conn);
	}
}

void
fl_net_each(FlNetLoop *loop, void (*f)(FlNetConn *conn, void *arg), void *arg)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify (iter, &loop->conns)
	{
		FlNetConn *conn = dlist_container(FlNetConn, all_node, iter.cur);

		if (!(conn->flags & (FL_NET_FINISHING | FL_NET_LINGERING | FL_NET_CLOSED)))
			f(conn, arg);
	}
}
