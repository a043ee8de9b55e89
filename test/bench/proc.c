/*-------------------------------------------------------------------------
 *
 * proc.c
 *		A child of fl_load: its event loop and the phases it goes through.
 *
 * The parent announces a phase with the time at which it begins; the child
 * does it, reports, and keeps serving its sockets until the next one.  All
 * waiting is in turn(), which never sleeps past the next thing to be done.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_EVENTS 512

/* A connect phase in which nobody has got through for so long is hopeless. */
#define CONNECT_PATIENCE (30 * FL_SECOND)

static void
make_connections(FlProc *p)
{
	const FlOptions *o = p->o;
	int total = o->connections + o->subscribers;

	p->nconns = (total - p->index + o->processes - 1) / o->processes;
	p->conns = calloc(p->nconns, sizeof(FlConn));
	p->rbuf = malloc(FL_READ_SIZE);
	p->wbuf = malloc(FL_WRITE_SIZE);
	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (p->conns == NULL || p->rbuf == NULL || p->wbuf == NULL || p->epfd < 0)
	{
		perror("fl_load");
		exit(1);
	}
	for (int i = 0; i < p->nconns; i++)
	{
		p->conns[i].fd = -1;
		p->conns[i].number = p->index + i * o->processes;
		p->conns[i].subscriber = p->conns[i].number >= o->connections;
		p->npublishers += !p->conns[i].subscriber;
	}
}

/* Opens what is down, as far as the limits allow; returns when to look again. */
static int64_t
open_connections(FlProc *p, int64_t now)
{
	int limit = p->o->connecting / p->o->processes > 0 ? p->o->connecting / p->o->processes : 1;
	int64_t look_again = INT64_MAX;

	if (!p->connecting)
		return INT64_MAX;
	for (int looked = 0; looked < p->nconns && p->ready + p->under_way < p->nconns; looked++)
	{
		FlConn *c = &p->conns[p->next_down];

		if (p->under_way >= limit)
			return look_again;
		if (p->o->connect_rate > 0 && now < p->next_connect)
			return p->next_connect;
		p->next_down = (p->next_down + 1) % p->nconns;
		if (c->fd >= 0)
			continue;
		if (c->retry_at > now)
		{
			if (c->retry_at < look_again)
				look_again = c->retry_at;
			continue;
		}
		if (p->o->connect_rate > 0)
			p->next_connect += (int64_t) (FL_SECOND * p->o->processes / p->o->connect_rate);
		fl_conn_open(p, c);
	}
	return look_again;
}

/* See by_kernel_clock: below a thousand messages a second there is little to save, and subscribers must be answered. */
static bool
wants_kernel_clock(const FlOptions *o)
{
	return o->rate / o->processes >= 1000 && o->subscribers == 0 && o->each_filter == NULL && o->qos == 1 && !o->tls;
}

static void
set_clock_offset(FlProc *p)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	p->clock_offset = ts.tv_sec * FL_SECOND + ts.tv_nsec - fl_now();
}

/* One round of the loop: waits until deadline at most. */
static void
turn(FlProc *p, int64_t deadline)
{
	struct epoll_event events[MAX_EVENTS];
	int64_t now = fl_now();
	int64_t next = open_connections(p, now);
	struct timespec timeout;
	int n;

	if (next < deadline)
		deadline = next;
	if (p->publishing && p->o->rate > 0)
	{
		next = fl_publish_schedule(p, now);
		if (next < deadline)
			deadline = next;
	}
	now = deadline > now ? deadline - now : 0;
	timeout.tv_sec = now / FL_SECOND;
	timeout.tv_nsec = now % FL_SECOND;
	if (p->publishing && p->by_kernel_clock)
	{
		if (now > 0)
			nanosleep(&timeout, NULL);
		timeout.tv_sec = timeout.tv_nsec = 0;
	}
	n = epoll_pwait2(p->epfd, events, MAX_EVENTS, &timeout, NULL);
	if (n < 0 && errno != EINTR)
	{
		perror("fl_load: epoll_pwait2");
		exit(1);
	}
	for (int i = 0; i < n; i++)
		fl_conn_event(p, events[i].data.ptr, events[i].events);
	if (p->by_kernel_clock)
		p->last_poll = fl_now() - FL_MS;
}

/* Pings who has been silent for half of the keep-alive time, and gives up who got no answer within all of it. */
static void
keep_alive(FlProc *p)
{
	static int64_t last_look;
	int64_t now = fl_now();
	int64_t limit = p->o->keep_alive * FL_SECOND;

	if (limit == 0 || now - last_look < FL_SECOND / 4)
		return;
	last_look = now;
	for (int i = 0; i < p->nconns; i++)
	{
		FlConn *c = &p->conns[i];

		if (c->state != FL_CONN_READY)
			continue;
		if (c->ping_awaited && !c->last_ping && now - c->last_sent > limit)
			fl_conn_fail(p, c);
		else if (!c->ping_awaited && now - c->last_sent > limit / 2)
			fl_conn_ping(p, c);
	}
}

static void
run_connect(FlProc *p)
{
	int ready = p->ready;
	int64_t progress = fl_now();

	p->connecting = true;
	p->next_connect = progress;
	p->r->first_connect = p->r->last_connect = 0;
	while (p->ready < p->nconns)
	{
		turn(p, fl_now() + 50 * FL_MS);
		keep_alive(p);
		if (p->ready != ready)
		{
			ready = p->ready;
			progress = fl_now();
		}
		else if (fl_now() - progress > CONNECT_PATIENCE)
		{
			fprintf(stderr, "fl_load: only %d of %d connections came up in process %d\n", p->ready, p->nconns,
					p->index);
			exit(1);
		}
	}
	p->connecting = false;
}

static void
run_drop(FlProc *p)
{
	for (int i = 0; i < p->nconns; i++)
		fl_conn_close(p, &p->conns[i]);
}

static bool
a_ping_is_open(const FlProc *p)
{
	for (int i = 0; i < p->nconns; i++)
	{
		if (p->conns[i].ping_awaited)
			return true;
	}
	return false;
}

static void
run_leave(FlProc *p)
{
	int64_t deadline = fl_now() + 5 * FL_SECOND;
	uint8_t bye[2];

	/* Pings and answers can be compared only when the last ones have had their time. */
	while (a_ping_is_open(p) && fl_now() < deadline)
		turn(p, fl_now() + 5 * FL_MS);

	fl_mq_bare(bye, FL_MQ_DISCONNECT);
	for (int i = 0; i < p->nconns; i++)
	{
		if (p->conns[i].state == FL_CONN_READY)
			fl_conn_send(p, &p->conns[i], bye, sizeof(bye));
		fl_conn_close(p, &p->conns[i]);
	}
}

static double
cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* True when all is sent and answered.  At QoS 0 the question is put here: a last PINGREQ. */
static bool
everything_is_over(FlProc *p, int64_t now)
{
	bool over = true;

	if (p->stop != INT64_MAX && now < p->stop)
		return false;
	/* The last messages may have become due since the schedule was looked at. */
	if (p->o->rate > 0 && fl_publish_schedule(p, now) != INT64_MAX)
		return false;
	for (int i = 0; i < p->npublishers; i++)
	{
		FlConn *c = &p->conns[i];

		if (!fl_publish_is_over(p, c))
			over = false;
		else if (p->o->qos == 0 && c->fd >= 0 && c->confirmed < c->seq)
		{
			over = false;
			if (!c->ping_awaited && c->state == FL_CONN_READY)
			{
				c->last_ping = true;
				fl_conn_ping(p, c);
			}
		}
	}
	return over;
}

/* What was not answered when we gave up waiting. */
static void
count_leftovers(FlProc *p)
{
	for (int i = 0; i < p->npublishers; i++)
	{
		const FlConn *c = &p->conns[i];

		p->r->n.unacked += c->inflight;
		if (p->o->qos == 0)
			p->r->n.unacked += c->seq - c->confirmed;
		if (p->o->rate > 0)
			p->r->n.unsent += c->due - c->seq;
		else if (c->quota != UINT64_MAX)
			p->r->n.unsent += c->quota - c->seq;
	}
}

static void
run_publish(FlProc *p)
{
	const FlOptions *o = p->o;
	int64_t now = fl_now(), progress = p->begin, next_check = 0, next_offset = now + FL_SECOND;
	uint64_t acked = 0;
	double cpu = cpu_seconds();

	p->measure_from = p->begin + o->warmup;
	p->stop = o->duration > 0 ? p->begin + o->duration : INT64_MAX;
	p->r->span_begin = p->measure_from;
	p->r->span_end = o->duration > 0 ? p->stop : 0;
	p->publishing = true;
	p->connecting = o->reconnect;
	for (int i = 0; i < p->npublishers; i++)
		fl_publish_pump(p, &p->conns[i]);
	for (;;)
	{
		/* With --ahead other processes' subscribers may have made room, which no event tells us. */
		turn(p, now + FL_MS);
		if (o->ahead > 0)
		{
			for (int i = 0; i < p->npublishers; i++)
				fl_publish_pump(p, &p->conns[i]);
		}
		now = fl_now();
		if (now < next_check)
			continue;
		next_check = now + FL_MS;
		if (now >= next_offset)
		{
			set_clock_offset(p);
			next_offset = now + FL_SECOND;
		}
		keep_alive(p);
		fl_truth_flush(p, now);
		if (everything_is_over(p, now))
			break;
		/* A count of messages has no end by the clock; there it is silence that ends the wait. */
		if (p->r->n.acked != acked)
			progress = now;
		acked = p->r->n.acked;
		if (now - (o->duration > 0 ? p->stop : progress) > o->drain)
			break;
	}
	p->publishing = false;
	p->connecting = false;
	p->r->self_cpu = cpu_seconds() - cpu;
	count_leftovers(p);
}

/* Serves the sockets until the parent announces something new, and then until that begins. */
static FlPhase
next_phase(FlProc *p, int *step)
{
	while (__atomic_load_n(&p->shared->step, __ATOMIC_ACQUIRE) == *step)
	{
		turn(p, fl_now() + 2 * FL_MS);
		keep_alive(p);
	}
	*step = __atomic_load_n(&p->shared->step, __ATOMIC_ACQUIRE);
	p->begin = p->shared->begin;
	if (p->shared->phase == FL_PHASE_PUBLISH)
		fl_publish_prepare(p);
	while (fl_now() < p->begin)
		turn(p, p->begin);
	return p->shared->phase;
}

void
fl_proc_main(const FlOptions *o, FlShared *shared, int index)
{
	FlProc p = {.o = o, .shared = shared, .r = &shared->result[index], .index = index};
	int step = 0;
	FlPhase phase;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	p.rng = o->seed + (uint64_t) getpid();
	p.by_kernel_clock = wants_kernel_clock(o);
	p.topic_changes = strstr(o->topic, "%m") != NULL;
	set_clock_offset(&p);
	if (o->truth != NULL)
		p.truth = fl_truth_open(o->truth);
	make_connections(&p);
	do
	{
		phase = next_phase(&p, &step);
		switch (phase)
		{
			case FL_PHASE_CONNECT:
				run_connect(&p);
				break;
			case FL_PHASE_IDLE:
				while (fl_now() < p.begin + o->idle && (o->await == 0 || p.r->n.received < o->await))
				{
					turn(&p, fl_now() + 20 * FL_MS);
					keep_alive(&p);
				}
				break;
			case FL_PHASE_DROP:
				run_drop(&p);
				break;
			case FL_PHASE_PUBLISH:
				run_publish(&p);
				break;
			case FL_PHASE_LEAVE:
				run_leave(&p);
				break;
		}
		__atomic_store_n(&p.r->done_step, step, __ATOMIC_RELEASE);
	} while (phase != FL_PHASE_LEAVE);
	fl_truth_close(&p);
	exit(0);
}
