/*-------------------------------------------------------------------------
 *
 * report.c
 *		What fl_load prints: a block of lines for people, or one JSON object
 *		with the same figures and some more.
 *
 *-------------------------------------------------------------------------
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* Everything summed over the children. */
typedef struct Sum
{
	FlCounters n;
	double self_cpu;
	FlHist ack;
	FlHist connack;
	FlHist end_to_end;
	uint64_t slowest; /* acknowledgements in the slowest and the fastest whole second of the span */
	uint64_t fastest;
	int64_t first_connect; /* of the last connect phase */
	int64_t first_received;
	int64_t last_received;
	double seconds; /* measured span */
	double rate;
} Sum;

static void
add_counters(FlCounters *into, const FlCounters *from)
{
	uint64_t *a = (uint64_t *) into;
	const uint64_t *b = (const uint64_t *) from;

	/* All members are uint64_t. */
	for (size_t i = 0; i < sizeof(FlCounters) / sizeof(uint64_t); i++)
		a[i] += b[i];
}

/* Seconds that lie wholly in the measured span. */
static void
sum_seconds(Sum *s, const FlOptions *o, const FlShared *shared, const FlStory *story)
{
	int64_t begin = story->span_begin - o->warmup;
	int last = (int) ((story->span_end - begin) / FL_SECOND);

	s->slowest = UINT64_MAX;
	for (int second = (int) ((o->warmup + FL_SECOND - 1) / FL_SECOND); second < last && second < FL_MAX_SECONDS;
		 second++)
	{
		uint64_t n = 0;

		for (int i = 0; i < o->processes; i++)
			n += shared->result[i].per_second[second];
		if (n < s->slowest)
			s->slowest = n;
		if (n > s->fastest)
			s->fastest = n;
	}
	if (s->slowest == UINT64_MAX)
		s->slowest = 0;
}

/* When the first and the last message came to any of them. */
static void
sum_received(Sum *s, const FlOptions *o, const FlShared *shared)
{
	s->first_connect = s->first_received = INT64_MAX;
	for (int i = 0; i < o->processes; i++)
	{
		const FlResult *r = &shared->result[i];

		if (r->n.received > 0 && r->first_received < s->first_received)
			s->first_received = r->first_received;
		if (r->last_received > s->last_received)
			s->last_received = r->last_received;
		if (r->first_connect < s->first_connect)
			s->first_connect = r->first_connect;
	}
}

/* Messages that came, per second from the first to the last of them. */
static double
receive_rate(const Sum *s)
{
	return s->last_received > s->first_received
			   ? (double) s->n.received * FL_SECOND / (s->last_received - s->first_received)
			   : 0;
}

static Sum *
sum_results(const FlOptions *o, const FlShared *shared, const FlStory *story)
{
	Sum *s = calloc(1, sizeof(Sum));

	if (s == NULL)
		exit(1);
	for (int i = 0; i < o->processes; i++)
	{
		const FlResult *r = &shared->result[i];

		add_counters(&s->n, &r->n);
		s->self_cpu += r->self_cpu;
		fl_hist_merge(&s->ack, &r->ack);
		fl_hist_merge(&s->connack, &r->connack);
		fl_hist_merge(&s->end_to_end, &r->end_to_end);
	}
	sum_received(s, o, shared);
	if (!o->no_publish && story->span_end > story->span_begin)
	{
		s->seconds = (double) (story->span_end - story->span_begin) / FL_SECOND;
		s->rate = s->n.acked_in_span / s->seconds;
		if (o->qos > 0)
			sum_seconds(s, o, shared, story);
	}
	return s;
}

static double
ms(uint64_t ns)
{
	return ns / 1e6;
}

static double
per_message_us(double seconds, uint64_t messages)
{
	return messages > 0 ? seconds * 1e6 / messages : 0;
}

/* ---- text ---- */

static void
print_latency(const char *what, const FlHist *h)
{
	if (h->count > 0)
		printf("  %-14s p50 %.3f  p99 %.3f  p99.9 %.3f  max %.3f ms\n", what, ms(fl_hist_quantile(h, 0.5)),
			   ms(fl_hist_quantile(h, 0.99)), ms(fl_hist_quantile(h, 0.999)), ms(h->max));
}

static void
print_received(const Sum *s)
{
	if (s->n.received == 0)
		return;
	printf("  %-14s %llu (dup %llu, retained %llu, foreign %llu), %.0f/s\n", "received",
		   (unsigned long long) s->n.received, (unsigned long long) s->n.received_dup,
		   (unsigned long long) s->n.received_retained, (unsigned long long) s->n.received_foreign, receive_rate(s));
	print_latency("end to end", &s->end_to_end);
}

static void
print_publish(const FlOptions *o, const Sum *s)
{
	char pace[64] = "window full";

	if (o->rate > 0)
		snprintf(pace, sizeof(pace), "paced at %.0f/s", o->rate);
	printf("publish: MQTT %s, QoS %d, %d connections, window %d, %d bytes, %s\n", o->version == FL_MQ_5 ? "5" : "3.1.1",
		   o->qos, o->connections, o->window, o->size, pace);
	printf("  %-14s %.0f msgs/s over %.2f s (%llu acknowledged)", "rate", s->rate, s->seconds,
		   (unsigned long long) s->n.acked);
	if (s->fastest > 0)
		printf(", second by second %llu to %llu", (unsigned long long) s->slowest, (unsigned long long) s->fastest);
	printf("\n");
	print_latency("acknowledged", &s->ack);
	if (s->n.nacked + s->n.unacked + s->n.unsent + s->n.resent + s->n.forgotten > 0)
		printf("  %-14s refused %llu, unanswered %llu, unsent %llu, sent again %llu, forgotten %llu\n", "not well",
			   (unsigned long long) s->n.nacked, (unsigned long long) s->n.unacked, (unsigned long long) s->n.unsent,
			   (unsigned long long) s->n.resent, (unsigned long long) s->n.forgotten);
}

static void
print_cpu(const FlOptions *o, const Sum *s, const FlStory *story)
{
	double total = 0;

	printf("  %-14s %.2f us/msg of the tool (%.0f %% of a core)\n", "CPU", per_message_us(s->self_cpu, s->n.acked),
		   100 * s->self_cpu / story->publish_seconds);
	for (int i = 0; i < story->publish_end.count; i++)
	{
		const FlProcessSample *e = &story->publish_end.process[i];
		const FlProcessSample *b = fl_sample_find(&story->publish_begin, e->pid);
		double cpu = e->cpu - (b ? b->cpu : 0);

		total += cpu;
		if (cpu > 0)
			printf("  %-14s %.2f us/msg, %.0f %%: %s\n", "", per_message_us(cpu, s->n.acked),
				   100 * cpu / story->publish_seconds, e->name);
	}
	if (o->nwatched > 0)
		printf("  %-14s %.2f us/msg of the server, %.0f %%\n", "", per_message_us(total, s->n.acked),
			   100 * total / story->publish_seconds);
}

static void
print_memory(const FlOptions *o, const FlStory *story)
{
	int conns = o->connections + o->subscribers;

	for (int i = 0; i < story->after.count; i++)
	{
		const FlProcessSample *a = &story->after.process[i];
		const FlProcessSample *b = fl_sample_find(&story->before, a->pid);
		const FlProcessSample *c = fl_sample_find(&story->connected, a->pid);

		if (b == NULL || c == NULL || (c->rss == b->rss && a->rss == b->rss))
			continue;
		printf("  %-14s %+.0f B/conn RSS, %+.0f of its own (at the end %+.0f, %+.0f): %s\n", "memory",
			   (double) (c->rss - b->rss) / conns, (double) (c->anonymous - b->anonymous) / conns,
			   (double) (a->rss - b->rss) / conns, (double) (a->anonymous - b->anonymous) / conns, a->name);
	}
}

static void
print_text(const FlOptions *o, const Sum *s, const FlStory *story)
{
	int conns = o->connections + o->subscribers;

	printf("connect: %d connections in %.3f s, %.0f/s; refused %llu, failed %llu, lost %llu\n", conns,
		   story->connect_seconds, story->connect_seconds > 0 ? conns / story->connect_seconds : 0,
		   (unsigned long long) s->n.refused, (unsigned long long) s->n.connect_failed, (unsigned long long) s->n.lost);
	print_latency("CONNACK", &s->connack);
	if (o->nwatched > 0)
		printf("  %-14s %.1f us per connect of the server\n", "CPU", story->connect_cpu * 1e6 / conns);
	print_memory(o, story);
	if (s->n.pings > 0)
		printf("  %-14s %llu sent, %llu answered\n", "pings", (unsigned long long) s->n.pings,
			   (unsigned long long) s->n.pongs);
	for (int i = 0; i < o->storms; i++)
		printf("  storm %-8d all back in %.3f s, %.0f/s\n", i + 1, story->storm_seconds[i],
			   conns / story->storm_seconds[i]);
	if (!o->no_publish)
	{
		print_publish(o, s);
		print_cpu(o, s, story);
	}
	print_received(s);
	if (s->n.protocol_errors > 0)
		printf("protocol errors: %llu\n", (unsigned long long) s->n.protocol_errors);
}

/* ---- JSON ---- */

static void
json_latency(const char *name, const FlHist *h)
{
	printf(",\"%s\":{\"count\":%llu,\"mean\":%.4f,\"p50\":%.4f,\"p99\":%.4f,\"p999\":%.4f,\"max\":%.4f}", name,
		   (unsigned long long) h->count, h->count > 0 ? ms(h->sum) / h->count : 0, ms(fl_hist_quantile(h, 0.5)),
		   ms(fl_hist_quantile(h, 0.99)), ms(fl_hist_quantile(h, 0.999)), ms(h->max));
}

static void
json_counters(const FlCounters *n)
{
	const struct
	{
		const char *name;
		uint64_t value;
	} all[] = {{"connected", n->connected},
			   {"refused", n->refused},
			   {"connect_failed", n->connect_failed},
			   {"lost", n->lost},
			   {"sessions_present", n->sessions_present},
			   {"subscribed", n->subscribed},
			   {"subscribe_refused", n->sub_refused},
			   {"sent", n->sent},
			   {"resent", n->resent},
			   {"forgotten", n->forgotten},
			   {"acked", n->acked},
			   {"acked_in_span", n->acked_in_span},
			   {"nacked", n->nacked},
			   {"unacked", n->unacked},
			   {"unsent", n->unsent},
			   {"received", n->received},
			   {"received_dup", n->received_dup},
			   {"received_retained", n->received_retained},
			   {"received_foreign", n->received_foreign},
			   {"pings", n->pings},
			   {"pongs", n->pongs},
			   {"protocol_errors", n->protocol_errors}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		printf(",\"%s\":%llu", all[i].name, (unsigned long long) all[i].value);
}

static void
json_processes(const Sum *s, const FlStory *story)
{
	const FlSample *list = story->publish_end.count > 0 ? &story->publish_end : &story->after;
	double total = 0;

	printf(",\"processes\":[");
	for (int i = 0; i < list->count; i++)
	{
		const FlProcessSample *e = &list->process[i];
		const FlProcessSample *pb = fl_sample_find(&story->publish_begin, e->pid);
		const FlProcessSample *b = fl_sample_find(&story->before, e->pid);
		const FlProcessSample *c = fl_sample_find(&story->connected, e->pid);
		const FlProcessSample *a = fl_sample_find(&story->after, e->pid);
		double cpu = pb ? e->cpu - pb->cpu : 0;

		total += cpu;
		printf("%s{\"pid\":%d,\"name\":\"%s\",\"cpu_seconds\":%.3f,\"us_per_message\":%.3f,\"rss\":[%lld,%lld,%lld],"
			   "\"anonymous\":[%lld,%lld,%lld],\"written\":%lld}",
			   i > 0 ? "," : "", (int) e->pid, e->name, cpu, per_message_us(cpu, s->n.acked),
			   (long long) (b ? b->rss : 0), (long long) (c ? c->rss : 0), (long long) (a ? a->rss : 0),
			   (long long) (b ? b->anonymous : 0), (long long) (c ? c->anonymous : 0),
			   (long long) (a ? a->anonymous : 0),
			   (long long) (pb && pb->written >= 0 ? e->written - pb->written : -1));
	}
	printf("],\"server_cpu_seconds\":%.3f,\"server_us_per_message\":%.3f", total, per_message_us(total, s->n.acked));
}

static void
print_json(const FlOptions *o, const Sum *s, const FlStory *story)
{
	printf("{\"mqtt\":\"%s\",\"connections\":%d,\"subscribers\":%d,\"processes_of_tool\":%d,\"qos\":%d,\"window\":%d,"
		   "\"size\":%d,\"wanted_rate\":%.1f",
		   o->version == FL_MQ_5 ? "5" : "3.1.1", o->connections, o->subscribers, o->processes, o->qos, o->window,
		   o->size, o->rate);
	printf(",\"connect_seconds\":%.4f,\"connect_cpu_seconds\":%.3f,\"storm_seconds\":[", story->connect_seconds,
		   story->connect_cpu);
	for (int i = 0; i < o->storms; i++)
		printf("%s%.4f", i > 0 ? "," : "", story->storm_seconds[i]);
	printf("],\"seconds\":%.4f,\"publish_seconds\":%.4f,\"rate\":%.1f,\"slowest_second\":%llu,\"fastest_second\":%llu",
		   s->seconds, story->publish_seconds, s->rate, (unsigned long long) s->slowest,
		   (unsigned long long) s->fastest);
	printf(",\"received_rate\":%.1f,\"all_received_seconds\":%.4f", receive_rate(s),
		   s->n.received > 0 ? (double) (s->last_received - s->first_connect) / FL_SECOND : 0);
	json_counters(&s->n);
	json_latency("connack_ms", &s->connack);
	json_latency("ack_ms", &s->ack);
	json_latency("end_to_end_ms", &s->end_to_end);
	printf(",\"tool_cpu_seconds\":%.3f,\"tool_us_per_message\":%.3f", s->self_cpu,
		   per_message_us(s->self_cpu, s->n.acked));
	json_processes(s, story);
	printf("}\n");
}

void
fl_report_print(const FlOptions *o, const FlShared *shared, const FlStory *story)
{
	Sum *s = sum_results(o, shared, story);

	if (o->json)
		print_json(o, s, story);
	else
		print_text(o, s, story);
	free(s);
}

bool
fl_report_is_clean(const FlOptions *o, const FlShared *shared)
{
	FlCounters n = {0};

	for (int i = 0; i < o->processes; i++)
		add_counters(&n, &shared->result[i].n);
	/* Who is told to come back expects to be thrown out and to find the door closed for a while. */
	return n.refused + n.sub_refused + n.nacked + n.unacked + n.unsent + n.protocol_errors == 0 &&
		   (o->reconnect || n.lost + n.connect_failed == 0);
}
