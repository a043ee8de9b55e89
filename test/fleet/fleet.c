/*-------------------------------------------------------------------------
 *
 * fleet.c
 *		fl_fleet: a fleet of devices with the habits of real ones.
 *
 * The parent forks the herds, reads the control input, prints a line of JSON
 * each interval, one for each command when all herds have carried it out, and
 * a summary at the end.  It never touches a socket of a device, so what it
 * prints does not hang on how busy they are.
 *
 *-------------------------------------------------------------------------
 */
#include "fleet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often the herds are asked whether they have carried out a command. */
#define COMMAND_LOOK (2 * FL_MS)

static volatile sig_atomic_t stop_requested;

static const char *const state_name[FL_DEVICE_STATES] = {
	[FL_BOOTING] = "booting",   [FL_WAITING] = "waiting",         [FL_CONNECTING] = "connecting",
	[FL_GREETING] = "greeting", [FL_SUBSCRIBING] = "subscribing", [FL_READY] = "connected",
	[FL_GONE] = "gone"};

/* The parent's side. */
typedef struct Parent
{
	const FlFleetOptions *o;
	FlFleetResult *result; /* one for each herd, shared with it */
	int to_herd[FL_MAX_PROCESSES];
	int running;
	bool failed; /* a herd ended by itself */
	int control; /* -1: at its end */
	char text[4096];
	size_t text_len;
	bool busy; /* a command is being carried out; its answer comes before the next one is read */
	bool quitting;
	FlCommand command;
	int commands;
	int64_t began;
	int64_t next_print;
	int64_t last_print;
	FlFleetResult last; /* as of last_print */
} Parent;

static FlFleetResult sum;

static void
on_signal(int signo)
{
	(void) signo;
	stop_requested = 1;
}

static void
add_up(const Parent *p)
{
	memset(&sum, 0, sizeof(sum));
	for (int i = 0; i < p->o->processes; i++)
	{
		const FlFleetResult *r = &p->result[i];

#define X(name) sum.n.name += r->n.name;
		FL_FLEET_COUNTERS(X)
#undef X
		for (int s = 0; s < FL_DEVICE_STATES; s++)
			sum.in_state[s] += r->in_state[s];
		for (int n = 0; n <= FL_BACKOFF_MAX; n++)
		{
			for (int tenth = 0; tenth < 10; tenth++)
				sum.pauses[n][tenth] += r->pauses[n][tenth];
		}
		sum.silent += r->silent;
		sum.deaf += r->deaf;
		sum.pending += r->pending;
		sum.touched += r->touched;
		if (r->most_failures > sum.most_failures)
			sum.most_failures = r->most_failures;
		fl_hist_merge(&sum.ack, &r->ack);
		fl_hist_merge(&sum.connack, &r->connack);
	}
}

/* A quantile of what has come since an older sum, in milliseconds. */
static double
quantile_since(const FlHist *now, const FlHist *then, double fraction)
{
	static FlHist h;

	h = *now;
	h.count -= then->count;
	for (int i = 0; i < FL_HIST_BUCKETS; i++)
		h.bucket[i] -= then->bucket[i];
	return fl_hist_quantile(&h, fraction) / 1e6;
}

static double
seconds_since(const Parent *p, int64_t now)
{
	return (double) (now - p->began) / FL_SECOND;
}

static void
print_states(void)
{
	for (int s = 0; s < FL_DEVICE_STATES; s++)
		printf(",\"%s\":%lld", state_name[s], (long long) sum.in_state[s]);
	printf(",\"silent\":%lld,\"deaf\":%lld,\"pending\":%lld", (long long) sum.silent, (long long) sum.deaf,
		   (long long) sum.pending);
}

static void
print_counters(void)
{
#define X(name) printf(",\"%s\":%llu", #name, (unsigned long long) sum.n.name);
	FL_FLEET_COUNTERS(X)
#undef X
}

static void
print_interval(Parent *p, int64_t now)
{
	double span = (double) (now - p->last_print) / FL_SECOND;

	add_up(p);
	printf("{\"t\":%.1f", seconds_since(p, now));
	print_states();
	printf(",\"attempts_s\":%.1f,\"connects_s\":%.1f,\"acked_s\":%.1f", (sum.n.attempts - p->last.n.attempts) / span,
		   (sum.n.connects - p->last.n.connects) / span, (sum.n.acked - p->last.n.acked) / span);
	printf(",\"ack_p50_ms\":%.3f,\"ack_p99_ms\":%.3f,\"connack_p50_ms\":%.3f,\"connack_p99_ms\":%.3f",
		   quantile_since(&sum.ack, &p->last.ack, 0.5), quantile_since(&sum.ack, &p->last.ack, 0.99),
		   quantile_since(&sum.connack, &p->last.connack, 0.5), quantile_since(&sum.connack, &p->last.connack, 0.99));
	print_counters();
	printf("}\n");
	p->last = sum;
	p->last_print = now;
}

/* By failures in a row before the pause: the window, and how many pauses fell into each tenth of it. */
static void
print_backoff(const FlBackoffLaw *law)
{
	const char *separator = "";

	printf(",\"backoff\":[");
	for (int n = 0; n <= FL_BACKOFF_MAX; n++)
	{
		uint64_t pauses = 0;

		for (int tenth = 0; tenth < 10; tenth++)
			pauses += sum.pauses[n][tenth];
		if (pauses == 0)
			continue;
		printf("%s{\"failures\":%d,\"window_ms\":%lld,\"count\":%llu,\"tenths\":[", separator, n,
			   (long long) (fl_backoff_window(law, n, FL_CAUSE_BROKEN) / FL_MS), (unsigned long long) pauses);
		for (int tenth = 0; tenth < 10; tenth++)
			printf("%s%llu", tenth > 0 ? "," : "", (unsigned long long) sum.pauses[n][tenth]);
		printf("]}");
		separator = ",";
	}
	printf("]");
}

static void
print_summary(Parent *p, int64_t now)
{
	add_up(p);
	printf("{\"summary\":true,\"seconds\":%.1f,\"devices\":%d", seconds_since(p, now), p->o->devices);
	printf(",\"pending\":%lld,\"most_failures\":%d", (long long) sum.pending, sum.most_failures);
	print_counters();
	printf(",\"ack_p50_ms\":%.3f,\"ack_p99_ms\":%.3f,\"connack_p50_ms\":%.3f,\"connack_p99_ms\":%.3f",
		   fl_hist_quantile(&sum.ack, 0.5) / 1e6, fl_hist_quantile(&sum.ack, 0.99) / 1e6,
		   fl_hist_quantile(&sum.connack, 0.5) / 1e6, fl_hist_quantile(&sum.connack, 0.99) / 1e6);
	print_backoff(&p->o->law);
	printf("}\n");
}

static void
give_command(Parent *p, FlCommand command)
{
	p->command = command;
	p->busy = true;
	p->commands++;
	p->quitting |= command.verb == FL_VERB_QUIT;
	for (int i = 0; i < p->o->processes; i++)
	{
		/* A herd that is gone is noticed elsewhere. */
		if (write(p->to_herd[i], &command, sizeof(command)) < 0 && errno != EPIPE)
			perror("fl_fleet: pipe");
	}
}

static void
look_after_command(Parent *p)
{
	for (int i = 0; p->busy && i < p->o->processes; i++)
	{
		if (__atomic_load_n(&p->result[i].done, __ATOMIC_ACQUIRE) < p->commands)
			return;
	}
	if (!p->busy)
		return;
	p->busy = false;
	add_up(p);
	printf("{\"done\":\"%s\",\"t\":%.1f,\"devices\":%llu", fl_verb_name[p->command.verb], seconds_since(p, fl_now()),
		   (unsigned long long) sum.touched);
	print_states();
	print_counters();
	printf("}\n");
}

/* Takes a line out of what was read, if there is a whole one and nothing else is under way. */
static void
take_line(Parent *p)
{
	char *end = memchr(p->text, '\n', p->text_len);
	char line[FL_LINE_SIZE];
	FlCommand command;
	size_t len;

	if (p->busy || p->quitting || end == NULL)
		return;
	len = end - p->text;
	snprintf(line, sizeof(line), "%.*s", (int) len, p->text);
	p->text_len -= len + 1;
	memmove(p->text, end + 1, p->text_len);
	if (line[strspn(line, " \t")] == '\0')
		return;
	if (len >= sizeof(line) || !fl_command_parse(line, &command))
		printf("{\"error\":\"no such command; try --help\"}\n");
	else
		give_command(p, command);
}

static void
read_control(Parent *p)
{
	ssize_t n = read(p->control, p->text + p->text_len, sizeof(p->text) - p->text_len);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* The end of the input is not the end of the fleet; nor does a full buffer without an end of line make sense. */
	if (n <= 0)
		p->control = -1;
	else
		p->text_len += n;
}

static void
start_herds(Parent *p)
{
	for (int i = 0; i < p->o->processes; i++)
	{
		int ends[2];
		pid_t pid;

		if (pipe(ends) != 0)
			break;
		pid = fork();
		if (pid == 0)
		{
			close(ends[1]);
			for (int j = 0; j < i; j++)
				close(p->to_herd[j]);
			fl_herd_main(p->o, &p->result[i], i, ends[0]);
		}
		close(ends[0]);
		p->to_herd[i] = ends[1];
		if (pid < 0)
			break;
		p->running++;
	}
	if (p->running < p->o->processes)
	{
		perror("fl_fleet: fork");
		exit(1);
	}
}

static void
reap(Parent *p)
{
	int status;

	while (p->running > 0 && waitpid(-1, &status, WNOHANG) > 0)
	{
		p->running--;
		if (!p->quitting || status != 0)
			p->failed = true;
	}
}

static void
turn(Parent *p)
{
	struct pollfd fd = {.fd = p->busy || p->text_len == sizeof(p->text) ? -1 : p->control, .events = POLLIN};
	int64_t now = fl_now();
	int64_t wait = p->next_print - now;

	if (p->busy || p->quitting)
		wait = COMMAND_LOOK < wait ? COMMAND_LOOK : wait;
	if (wait > 0 && poll(&fd, 1, (int) (wait / FL_MS) + 1) > 0)
		read_control(p);
	look_after_command(p);
	take_line(p);
	now = fl_now();
	if (now >= p->next_print)
	{
		print_interval(p, now);
		p->next_print = now + p->o->every;
	}
	if ((stop_requested || (p->o->duration > 0 && now - p->began >= p->o->duration)) && !p->busy && !p->quitting)
		give_command(p, (FlCommand){.verb = FL_VERB_QUIT, .percent = 100});
	fflush(stdout);
	reap(p);
}

static void
allow_descriptors(void)
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
	static FlFleetOptions options;
	static Parent p;

	fl_fleet_options_read(&options, argc, argv);
	allow_descriptors();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	p.o = &options;
	p.result = mmap(NULL, options.processes * sizeof(FlFleetResult), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
					-1, 0);
	if (p.result == MAP_FAILED)
	{
		perror("fl_fleet: mmap");
		return 1;
	}
	/* Opened for writing as well, a FIFO has no end when one writer leaves. */
	p.control = options.control != NULL ? open(options.control, O_RDWR | O_CLOEXEC) : STDIN_FILENO;
	if (p.control < 0)
	{
		perror(options.control);
		return 1;
	}
	p.began = p.last_print = fl_now();
	p.next_print = p.began + options.every;
	start_herds(&p);
	while (p.running > 0 && !p.failed)
		turn(&p);
	look_after_command(&p);
	print_summary(&p, fl_now());
	return p.failed || sum.pending > 0 ? 1 : 0;
}
