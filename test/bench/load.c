/*-------------------------------------------------------------------------
 *
 * load.c
 *		fl_load's parent: forks the children, leads them through the phases,
 *		samples the server between them, reports.
 *
 * While messages flow the parent does nothing but look once in ten milliseconds
 * whether the children are done.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Subscribers that have received nothing for so long will receive nothing more. */
#define QUIET_TIME FL_SECOND

typedef struct Parent
{
	const FlOptions *o;
	FlShared *shared;
	pid_t children[FL_MAX_PROCESSES];
} Parent;

static void
pause_for(int64_t ns)
{
	struct timespec ts = {ns / FL_SECOND, ns % FL_SECOND};

	nanosleep(&ts, NULL);
}

/* A child that ended early has said why; the others are of no use then. */
static void
give_up(Parent *m)
{
	for (int i = 0; i < m->o->processes; i++)
	{
		if (m->children[i] > 0)
			kill(m->children[i], SIGTERM);
	}
	fputs("fl_load: a process ended early, no figures\n", stderr);
	exit(1);
}

static void
watch_children(Parent *m)
{
	for (int i = 0; i < m->o->processes; i++)
	{
		if (m->children[i] > 0 && waitpid(m->children[i], NULL, WNOHANG) == m->children[i])
		{
			m->children[i] = 0;
			give_up(m);
		}
	}
}

/* Has all children do a phase, and waits until they have. */
static void
run_phase(Parent *m, FlPhase phase)
{
	int step = m->shared->step + 1;
	bool done;

	m->shared->phase = phase;
	m->shared->begin = fl_now() + 10 * FL_MS;
	__atomic_store_n(&m->shared->step, step, __ATOMIC_RELEASE);
	do
	{
		/* Messages flow for seconds; a thousand wake-ups in each would be our share of what the tool costs. */
		pause_for(phase == FL_PHASE_PUBLISH ? 10 * FL_MS : FL_MS);
		done = true;
		for (int i = 0; i < m->o->processes; i++)
			done &= __atomic_load_n(&m->shared->result[i].done_step, __ATOMIC_ACQUIRE) == step;
		if (!done && phase != FL_PHASE_LEAVE)
			watch_children(m);
	} while (!done);
}

/* From the first connect() to the last connection that was ready, over all processes. */
static double
connect_seconds(const Parent *m)
{
	int64_t first = INT64_MAX, last = 0;

	for (int i = 0; i < m->o->processes; i++)
	{
		const FlResult *r = &m->shared->result[i];

		if (r->first_connect < first)
			first = r->first_connect;
		if (r->last_connect > last)
			last = r->last_connect;
	}
	return (double) (last - first) / FL_SECOND;
}

static double
total_cpu(const FlSample *s)
{
	double cpu = 0;

	for (int i = 0; i < s->count; i++)
		cpu += s->process[i].cpu;
	return cpu;
}

static void
connect_all(Parent *m, FlStory *story)
{
	const FlOptions *o = m->o;
	FlSample after;

	fl_sample_take(&story->before, o, true);
	run_phase(m, FL_PHASE_CONNECT);
	fl_sample_take(&after, o, false);
	story->connect_seconds = connect_seconds(m);
	story->connect_cpu = total_cpu(&after) - total_cpu(&story->before);
	free(after.process);
	if (o->say_ready)
	{
		puts("ready");
		fflush(stdout);
	}
	if (o->idle > 0)
		run_phase(m, FL_PHASE_IDLE);
	fl_sample_take(&story->connected, o, true);
	for (int i = 0; i < o->storms; i++)
	{
		run_phase(m, FL_PHASE_DROP);
		run_phase(m, FL_PHASE_CONNECT);
		story->storm_seconds[i] = connect_seconds(m);
	}
}

static uint64_t
total_received(const Parent *m)
{
	uint64_t n = 0;

	for (int i = 0; i < m->o->processes; i++)
		n += __atomic_load_n(&m->shared->result[i].n.received, __ATOMIC_RELAXED);
	return n;
}

/* Waits for what is still on its way to the subscribers. */
static void
wait_for_subscribers(Parent *m)
{
	uint64_t wanted = 0, seen = total_received(m);
	int64_t last = fl_now();

	if (m->o->subscribers == 0)
		return;
	for (int i = 0; i < m->o->processes; i++)
		wanted += m->shared->result[i].n.acked * m->o->subscribers;
	while (fl_now() - last < QUIET_TIME && total_received(m) < wanted)
	{
		pause_for(FL_MS);
		watch_children(m);
		if (total_received(m) != seen)
		{
			seen = total_received(m);
			last = fl_now();
		}
	}
}

static void
publish_all(Parent *m, FlStory *story)
{
	int64_t begin;

	fl_sample_take(&story->publish_begin, m->o, false);
	begin = fl_now();
	run_phase(m, FL_PHASE_PUBLISH);
	wait_for_subscribers(m);
	story->publish_seconds = (double) (fl_now() - begin) / FL_SECOND;
	fl_sample_take(&story->publish_end, m->o, false);

	story->span_begin = INT64_MAX;
	for (int i = 0; i < m->o->processes; i++)
	{
		const FlResult *r = &m->shared->result[i];

		if (r->span_begin < story->span_begin)
			story->span_begin = r->span_begin;
		if (r->span_end > story->span_end)
			story->span_end = r->span_end;
	}
}

/* As many descriptors as we may have: connections are what this tool is made of. */
static void
raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
	{
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int
main(int argc, char **argv)
{
	static FlOptions options;
	static FlStory story;
	Parent m = {.o = &options};
	size_t size;

	fl_options_read(&options, argc, argv);
	signal(SIGPIPE, SIG_IGN);
	raise_limit();
	size = sizeof(FlShared) + options.processes * sizeof(FlResult);
	m.shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m.shared == MAP_FAILED)
	{
		perror("fl_load: mmap");
		return 1;
	}
	for (int i = 0; i < options.processes; i++)
	{
		m.children[i] = fork();
		if (m.children[i] < 0)
		{
			perror("fl_load: fork");
			give_up(&m);
		}
		if (m.children[i] == 0)
			fl_proc_main(&options, m.shared, i);
	}
	connect_all(&m, &story);
	if (!options.no_publish)
		publish_all(&m, &story);
	fl_sample_take(&story.after, &options, true);
	run_phase(&m, FL_PHASE_LEAVE);
	for (int i = 0; i < options.processes; i++)
		waitpid(m.children[i], NULL, 0);
	fl_report_print(&options, m.shared, &story);
	return fl_report_is_clean(&options, m.shared) ? 0 : 1;
}
