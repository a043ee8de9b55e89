/*-------------------------------------------------------------------------
 *
 * herd.c
 *		A process of devices: its event loop, its timers, what it is told.
 *
 * Every device is in the heap at the time at which it next wants to do
 * something.  A turn of the loop wakes those that are due, waits for sockets
 * until the next one is, and lets each device that had an event look at itself
 * again.  Commands come last in a turn, when no event in hand can refer to a
 * socket that a command closes.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MAX_EVENTS 512

/* The truth log must not wait for a device to do something. */
#define LONGEST_WAIT (100 * FL_MS)

void *
fl_fleet_allocate(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (p == NULL)
	{
		fputs("fl_fleet: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

static void
place(FlHerd *h, int at, FlDevice *d)
{
	h->heap[at] = d;
	d->heap_at = at;
}

void
fl_herd_wake(FlHerd *h, FlDevice *d, int64_t when)
{
	int at = d->heap_at;

	d->wake = when;
	while (at > 0 && h->heap[(at - 1) / 2]->wake > when)
	{
		place(h, at, h->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;)
	{
		int child = 2 * at + 1;

		if (child + 1 < h->ndevices && h->heap[child + 1]->wake < h->heap[child]->wake)
			child++;
		if (child >= h->ndevices || h->heap[child]->wake >= when)
			break;
		place(h, at, h->heap[child]);
		at = child;
	}
	place(h, at, d);
}

static void
look_at(FlHerd *h, FlDevice *d)
{
	fl_herd_wake(h, d, fl_device_turn(h, d, fl_now()));
}

/* Which devices a command can concern at all. */
static bool
is_eligible(const FlDevice *d, FlVerb verb)
{
	switch (verb)
	{
		case FL_VERB_DROP:
			return d->fd >= 0;
		case FL_VERB_SILENCE:
			return d->state == FL_READY && !d->silent;
		case FL_VERB_DEAFEN:
			return d->state == FL_READY && !d->silent && !d->deaf;
		case FL_VERB_RESUME:
			return d->silent || d->deaf;
		case FL_VERB_BURST:
			return d->state == FL_READY;
		case FL_VERB_REBOOT:
			return d->state != FL_GONE;
		case FL_VERB_PAUSE:
		case FL_VERB_GO:
		case FL_VERB_QUIT:
			return true;
		case FL_VERBS:
			break;
	}
	return false;
}

static void
apply(FlHerd *h, FlDevice *d, const FlCommand *command)
{
	switch (command->verb)
	{
		case FL_VERB_DROP:
			fl_device_fail(h, d, FL_CAUSE_BROKEN);
			break;
		case FL_VERB_REBOOT:
			fl_device_reboot(h, d);
			break;
		case FL_VERB_SILENCE:
			fl_device_set_silent(h, d, true);
			break;
		case FL_VERB_DEAFEN:
			fl_device_set_deaf(h, d, true);
			break;
		case FL_VERB_RESUME:
			fl_device_set_deaf(h, d, false);
			fl_device_set_silent(h, d, false);
			break;
		case FL_VERB_BURST:
			for (int i = 0; i < command->count; i++)
				fl_message_report(h, d, fl_now());
			break;
		case FL_VERB_PAUSE:
		case FL_VERB_GO:
		case FL_VERB_QUIT:
		case FL_VERBS:
			break;
	}
	look_at(h, d);
}

/* Exactly so many of those that are eligible, chosen at random: one is taken with the chance wanted / left. */
static void
carry_out(FlHerd *h, const FlCommand *command)
{
	int64_t left = 0, wanted;

	if (command->verb == FL_VERB_PAUSE || command->verb == FL_VERB_QUIT)
		h->reporting = false;
	else if (command->verb == FL_VERB_GO)
		h->reporting = true;
	if (command->verb == FL_VERB_QUIT)
	{
		h->leaving = true;
		h->leave_at = fl_now() + h->o->drain;
	}
	for (int i = 0; i < h->ndevices; i++)
		left += is_eligible(&h->devices[i], command->verb);
	wanted = (left * command->percent + 50) / 100;
	h->r->touched = wanted;
	for (int i = 0; i < h->ndevices && wanted > 0; i++)
	{
		FlDevice *d = &h->devices[i];

		if (!is_eligible(d, command->verb))
			continue;
		if ((int64_t) (fl_random(&h->rng) % (uint64_t) left--) >= wanted)
			continue;
		wanted--;
		apply(h, d, command);
	}
	__atomic_store_n(&h->r->done, h->r->done + 1, __ATOMIC_RELEASE);
}

static void
read_command(FlHerd *h)
{
	FlCommand command;
	ssize_t n = read(h->control, &command, sizeof(command));

	/* Whoever started us is gone. */
	if (n == 0)
		exit(1);
	if (n == (ssize_t) sizeof(command))
		carry_out(h, &command);
}

static void
turn(FlHerd *h)
{
	struct epoll_event events[MAX_EVENTS];
	int64_t now = fl_now(), wait;
	struct timespec timeout;
	bool told = false;
	int n;

	/* Those that become due meanwhile have their turn after the sockets had theirs. */
	while (h->heap[0]->wake <= now)
		look_at(h, h->heap[0]);
	wait = h->heap[0]->wake - fl_now();
	if (wait > LONGEST_WAIT)
		wait = LONGEST_WAIT;
	timeout.tv_sec = 0;
	timeout.tv_nsec = wait > 0 ? wait : 0;
	n = epoll_pwait2(h->epfd, events, MAX_EVENTS, &timeout, NULL);
	if (n < 0 && errno != EINTR)
	{
		perror("fl_fleet: epoll_pwait2");
		exit(1);
	}
	for (int i = 0; i < n; i++)
	{
		FlDevice *d = events[i].data.ptr;

		if (d == NULL)
		{
			told = true;
			continue;
		}
		fl_device_event(h, d, events[i].events);
		look_at(h, d);
	}
	if (told)
		read_command(h);
	fl_fleet_truth_flush(h, fl_now());
}

static void
make_devices(FlHerd *h)
{
	const FlFleetOptions *o = h->o;

	h->ndevices = (o->devices - h->index + o->processes - 1) / o->processes;
	h->devices = fl_fleet_allocate(h->ndevices, sizeof(FlDevice));
	h->heap = fl_fleet_allocate(h->ndevices, sizeof(FlDevice *));
	for (int i = 0; i < h->ndevices; i++)
	{
		place(h, i, &h->devices[i]);
		fl_device_init(h, &h->devices[i], h->index + i * o->processes);
	}
	/* From the last parent up, each wake sinks a device to its place. */
	for (int i = h->ndevices - 1; i >= 0; i--)
		fl_herd_wake(h, h->heap[i], h->heap[i]->until);
}

void
fl_herd_main(const FlFleetOptions *o, FlFleetResult *r, int index, int control)
{
	FlHerd h = {.o = o, .r = r, .index = index, .control = control, .reporting = true};
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	/* Ctrl-C means the parent, which lets us end in order. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	h.rng = o->payload.seed + (uint64_t) index;
	h.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (h.epfd < 0 || epoll_ctl(h.epfd, EPOLL_CTL_ADD, control, &ev) != 0)
	{
		perror("fl_fleet: epoll");
		exit(1);
	}
	if (o->truth != NULL)
		h.truth = fl_fleet_truth_open(o->truth);
	make_devices(&h);
	while (r->in_state[FL_GONE] < h.ndevices)
		turn(&h);
	fl_fleet_truth_close(&h);
	exit(0);
}
