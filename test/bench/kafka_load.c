/*
 * kafka_load.c
 *		fl_kafka_load: loads a server that speaks Kafka, and measures it.
 *
 * usage: fl_kafka_load --broker HOST:PORT --topic NAME [--mode create|produce|unbatched|fetch|latency] [--size BYTES]
 *                      [--producers N] [--records N] [--seconds N] [--rate N]
 *
 *   create     makes the topic, with so many partitions (--producers), and waits until it can be used
 *   produce    so many producers send as fast as the server takes it, acks=all, batches as librdkafka makes them
 *              (linger.ms 5, up to 1 MB), for so many seconds or records
 *   unbatched  the same, but each has one record outstanding, in a request of its own
 *   fetch      one consumer reads so many records of all partitions from their beginnings
 *   latency    one producer sends on a schedule without lingering; one consumer that waits at the end gets each; the
 *              time is from when a record was due until the application has it
 *
 * Prints one JSON object with fl_load's names, so that table.pl takes both: acked (or received), rate, publish_seconds,
 * tool_cpu_seconds, lost, and quantiles of milliseconds.  Exits with 1 where anything was lost.  The client is librdkafka, the
 * same for every server.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_PRODUCERS 64
#define MAX_SAMPLES	  (4 * 1000 * 1000)
#define PATIENCE_S	  60

static const char *broker;
static const char *topic;
static const char *mode = "produce";
static long size = 100;
static long producers = 1;
static long records;
static long seconds = 10;
static long rate = 1000;

/* What came, by whichever thread; the lock is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static float *samples;
static long nsamples;
static long acked;
static long failed;
static int64_t last_ack_ns;

/* What was measured. */
static long came;
static int64_t took_ns;

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
add_sample(int64_t since)
{
	if (nsamples < MAX_SAMPLES)
		samples[nsamples++] = (float) ((double) (now_ns() - since) / 1e6);
}

/* ---- clients ---------------------------------------------------------------- */

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char error[512];

	if (rd_kafka_conf_set(conf, name, value, error, sizeof(error)) != RD_KAFKA_CONF_OK)
		die("%s=%s: %s", name, value, error);
}

/* The opaque of a record is the time from which it is counted. */
static void
delivered(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque)
{
	(void) client;
	(void) opaque;
	pthread_mutex_lock(&lock);
	if (message->err)
	{
		if (failed++ == 0)
			fprintf(stderr, "not delivered: %s\n", rd_kafka_err2str(message->err));
	}
	else
	{
		acked++;
		last_ack_ns = now_ns();
		if (strcmp(mode, "latency") != 0)
			add_sample((int64_t) (intptr_t) message->_private);
	}
	pthread_mutex_unlock(&lock);
}

static rd_kafka_t *
make_client(rd_kafka_type_t type)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char error[512];
	rd_kafka_t *client;

	set(conf, "bootstrap.servers", broker);
	if (type == RD_KAFKA_PRODUCER)
	{
		bool batches = strcmp(mode, "produce") == 0;

		set(conf, "acks", "all");
		set(conf, "linger.ms", batches ? "5" : "0");
		set(conf, "batch.num.messages", batches ? "10000" : "1");
		set(conf, "queue.buffering.max.messages", "100000");
		rd_kafka_conf_set_dr_msg_cb(conf, delivered);
	}
	else
	{
		set(conf, "group.id", "bench");
		set(conf, "enable.auto.commit", "false");
		set(conf, "enable.partition.eof", "false");
		set(conf, "queued.min.messages", "1000000");
		set(conf, "fetch.message.max.bytes", "8388608");
		set(conf, "fetch.wait.max.ms", "500");
	}
	client = rd_kafka_new(type, conf, error, sizeof(error));
	if (client == NULL)
		die("%s", error);
	return client;
}

/* Partitions of the topic; the server may make it when it is asked for the first time. */
static int
count_partitions(rd_kafka_t *client)
{
	for (int try = 0; try < 100; try++)
	{
		const struct rd_kafka_metadata *metadata;
		rd_kafka_topic_t *t = rd_kafka_topic_new(client, topic, NULL);
		int n = 0;

		if (rd_kafka_metadata(client, 0, t, &metadata, 10000) == RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			n = metadata->topic_cnt == 1 && metadata->topics[0].err == 0 ? metadata->topics[0].partition_cnt : 0;
			rd_kafka_metadata_destroy(metadata);
		}
		rd_kafka_topic_destroy(t);
		if (n > 0)
			return n;
		nanosleep(&(struct timespec) {.tv_nsec = 100 * 1000 * 1000}, NULL);
	}
	die("there is no topic \"%s\"", topic);
}

static void
create(void)
{
	rd_kafka_t *client = make_client(RD_KAFKA_PRODUCER);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	char error[512];
	rd_kafka_NewTopic_t *t = rd_kafka_NewTopic_new(topic, (int) producers, 1, error, sizeof(error));
	const rd_kafka_topic_result_t **results;
	rd_kafka_event_t *event;
	size_t n;

	if (t == NULL)
		die("%s", error);
	rd_kafka_CreateTopics(client, &t, 1, NULL, queue);
	event = rd_kafka_queue_poll(queue, PATIENCE_S * 1000);
	if (event == NULL || rd_kafka_event_error(event))
		die("the topic is not made: %s", event != NULL ? rd_kafka_event_error_string(event) : "no answer");
	results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
	if (n != 1 || rd_kafka_topic_result_error(results[0]))
		die("the topic is not made: %s", n == 1 ? rd_kafka_topic_result_error_string(results[0]) : "no answer");
	rd_kafka_event_destroy(event);
	rd_kafka_NewTopic_destroy(t);
	(void) count_partitions(client);
	rd_kafka_queue_destroy(queue);
	rd_kafka_destroy(client);
}

static void
assign_all(rd_kafka_t *client, int64_t from)
{
	int n = count_partitions(client);
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n);

	for (int i = 0; i < n; i++)
		rd_kafka_topic_partition_list_add(list, topic, i)->offset = from;
	if (rd_kafka_assign(client, list) != RD_KAFKA_RESP_ERR_NO_ERROR)
		die("the partitions cannot be assigned");
	rd_kafka_topic_partition_list_destroy(list);
}

/* ---- payloads ----------------------------------------------------------------- */

/* Like readings: text that differs from record to record and has some repetition; the time comes first. */
static void
fill(char *payload, int64_t due, uint64_t n)
{
	uint64_t x = n * UINT64_C(0x9E3779B97F4A7C15) + 1;
	int at = snprintf(payload, (size_t) size + 1, "%020" PRId64 " device-%04u", due, (unsigned) (n % 1000));

	for (; at < size; at++)
	{
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		payload[at] = (at & 3) == 3 ? ' ' : (char) ('0' + x % 10);
	}
}

static bool
send_one(rd_kafka_t *client, char *payload, int64_t due, uint64_t n)
{
	char key[32];
	rd_kafka_resp_err_t error;

	fill(payload, due, n);
	snprintf(key, sizeof(key), "device-%04u", (unsigned) (n % 1000));
	while ((error = rd_kafka_producev(client, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY(key, strlen(key)),
									  RD_KAFKA_V_VALUE(payload, (size_t) size),
									  RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
									  RD_KAFKA_V_OPAQUE((void *) (intptr_t) due), RD_KAFKA_V_END)) ==
		   RD_KAFKA_RESP_ERR__QUEUE_FULL)
		rd_kafka_poll(client, 5);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		fprintf(stderr, "not sent: %s\n", rd_kafka_err2str(error));
	return error == RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* ---- producers ----------------------------------------------------------------- */

typedef struct Producer
{
	pthread_t thread;
	int number;
	int64_t until_ns;
	long records; /* 0: until the time is over */
} Producer;

static void *
run_producer(void *arg)
{
	Producer *self = arg;
	rd_kafka_t *client = make_client(RD_KAFKA_PRODUCER);
	bool one_by_one = strcmp(mode, "unbatched") == 0;
	char *payload = malloc((size_t) size + 64);

	for (uint64_t n = 0; self->records > 0 ? (long) n < self->records : now_ns() < self->until_ns; n++)
	{
		if (!send_one(client, payload, now_ns(), n * (uint64_t) producers + (uint64_t) self->number))
			break;
		if (one_by_one)
			while (rd_kafka_outq_len(client) > 0)
				rd_kafka_poll(client, 100);
		else
			rd_kafka_poll(client, 0);
	}
	rd_kafka_flush(client, PATIENCE_S * 1000);
	if (rd_kafka_outq_len(client) > 0)
	{
		pthread_mutex_lock(&lock);
		failed += rd_kafka_outq_len(client);
		pthread_mutex_unlock(&lock);
	}
	free(payload);
	rd_kafka_destroy(client);
	return NULL;
}

static void
produce(void)
{
	static Producer all[MAX_PRODUCERS];
	int64_t start = now_ns();

	for (int i = 0; i < producers; i++)
	{
		all[i] = (Producer) {.number = i, .until_ns = start + seconds * 1000000000,
							 .records = records > 0 ? (records + producers - 1) / producers : 0};
		if (pthread_create(&all[i].thread, NULL, run_producer, &all[i]) != 0)
			die("no thread");
	}
	for (int i = 0; i < producers; i++)
		pthread_join(all[i].thread, NULL);
	came = acked;
	took_ns = last_ack_ns - start;
}

/* ---- consumer --------------------------------------------------------------------- */

static void
fetch(void)
{
	rd_kafka_t *client = make_client(RD_KAFKA_CONSUMER);
	rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
	static rd_kafka_message_t *batch[10000];
	int64_t start;
	int64_t last;

	rd_kafka_poll_set_consumer(client);
	assign_all(client, RD_KAFKA_OFFSET_BEGINNING);
	start = last = now_ns();
	while (came < records && now_ns() - last < PATIENCE_S * INT64_C(1000000000))
	{
		ssize_t n = rd_kafka_consume_batch_queue(queue, 100, batch, 10000);

		for (ssize_t i = 0; i < n; i++)
		{
			if (batch[i]->err == 0)
				came++;
			else
				fprintf(stderr, "%s\n", rd_kafka_message_errstr(batch[i]));
			rd_kafka_message_destroy(batch[i]);
		}
		if (n > 0)
			last = now_ns();
	}
	failed += came < records ? records - came : 0;
	took_ns = last - start;
	rd_kafka_queue_destroy(queue);
	rd_kafka_consumer_close(client);
	rd_kafka_destroy(client);
}

/* ---- from end to end ----------------------------------------------------------------- */

static volatile bool sent_all;
static volatile long sent;

static void *
run_schedule(void *arg)
{
	rd_kafka_t *client = make_client(RD_KAFKA_PRODUCER);
	char *payload = malloc((size_t) size + 64);
	int64_t start;
	long wanted = rate * seconds;

	/* The first one, of time 0, is for the client to find its way; it counts for nothing. */
	(void) send_one(client, payload, 0, 0);
	rd_kafka_flush(client, PATIENCE_S * 1000);
	start = now_ns();

	for (long n = 0; n < wanted; n++)
	{
		int64_t due = start + n * 1000000000 / rate;
		int64_t wait = due - now_ns();

		if (wait > 0)
			nanosleep(&(struct timespec) {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000}, NULL);
		if (!send_one(client, payload, due, (uint64_t) n))
			break;
		sent++;
		rd_kafka_poll(client, 0);
	}
	rd_kafka_flush(client, PATIENCE_S * 1000);
	sent_all = true;
	free(payload);
	rd_kafka_destroy(client);
	return arg;
}

static void
end_to_end(void)
{
	rd_kafka_t *client = make_client(RD_KAFKA_CONSUMER);
	pthread_t thread;
	int64_t start;
	int64_t last;

	rd_kafka_poll_set_consumer(client);
	assign_all(client, RD_KAFKA_OFFSET_END);
	/* It looks up the end, and waits there. */
	for (int i = 0; i < 20; i++)
	{
		rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 100);

		if (message != NULL)
			rd_kafka_message_destroy(message);
	}
	start = last = now_ns();
	if (pthread_create(&thread, NULL, run_schedule, NULL) != 0)
		die("no thread");
	while ((!sent_all || came < sent) && now_ns() - last < PATIENCE_S * INT64_C(1000000000))
	{
		rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 100);

		if (message == NULL)
			continue;
		if (message->err == 0 && strtoll(message->payload, NULL, 10) > 0)
		{
			came++;
			last = now_ns();
			add_sample(strtoll(message->payload, NULL, 10));
		}
		rd_kafka_message_destroy(message);
	}
	pthread_join(thread, NULL);
	failed += came < sent ? sent - came : 0;
	took_ns = last - start;
	rd_kafka_consumer_close(client);
	rd_kafka_destroy(client);
}

/* ---- all of it -------------------------------------------------------------------------- */

static int
compare(const void *x, const void *y)
{
	float a = *(const float *) x;
	float b = *(const float *) y;

	return a < b ? -1 : a > b;
}

static double
quantile(double q)
{
	long at = (long) (q * (double) nsamples);

	return nsamples > 0 ? samples[at < nsamples ? at : nsamples - 1] : 0;
}

static void
report(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	printf("{\"acked\":%ld,\"received\":0,\"subscribers\":0,\"rate\":%.1f,\"publish_seconds\":%.6f,\"tool_cpu_seconds\":%.3f,"
		   "\"lost\":%ld,\"refused\":0,\"connect_failed\":0,\"subscribe_refused\":0,\"nacked\":0,\"unacked\":0,\"unsent\":0,"
		   "\"protocol_errors\":0,\"ack_ms\":{\"count\":%ld,\"p50\":%.4f,\"p99\":%.4f,\"p999\":%.4f,\"max\":%.4f}}\n",
		   came, took_ns > 0 ? (double) came * 1e9 / (double) took_ns : 0, (double) took_ns / 1e9,
		   (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6,
		   failed, nsamples, quantile(0.5), quantile(0.99), quantile(0.999), quantile(1));
}

static long
number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text == 0 || *end != 0 || value < 0)
		die("\"%s\" is not a number", text);
	return value;
}

static void
read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"broker", 1, NULL, 'b'}, {"topic", 1, NULL, 't'}, {"mode", 1, NULL, 'm'}, {"size", 1, NULL, 's'},
		{"producers", 1, NULL, 'p'}, {"records", 1, NULL, 'n'}, {"seconds", 1, NULL, 'd'}, {"rate", 1, NULL, 'r'},
		{NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c)
		{
			case 'b': broker = optarg; break;
			case 't': topic = optarg; break;
			case 'm': mode = optarg; break;
			case 's': size = number(optarg); break;
			case 'p': producers = number(optarg); break;
			case 'n': records = number(optarg); break;
			case 'd': seconds = number(optarg); break;
			case 'r': rate = number(optarg); break;
			default: exit(2);
		}
	if (broker == NULL || topic == NULL || producers < 1 || producers > MAX_PRODUCERS || size < 32 || size > 1000000 || rate < 1)
		die("usage: fl_kafka_load --broker HOST:PORT --topic NAME [--mode create|produce|unbatched|fetch|latency] [--size 32..1000000] "
			"[--producers 1..%d] [--records N] [--seconds N] [--rate N]", MAX_PRODUCERS);
}

int
main(int argc, char **argv)
{
	read_options(argc, argv);
	samples = malloc(sizeof(float) * MAX_SAMPLES);
	if (samples == NULL)
		die("out of memory");
	if (strcmp(mode, "produce") == 0 || strcmp(mode, "unbatched") == 0)
		produce();
	else if (strcmp(mode, "create") == 0)
		create();
	else if (strcmp(mode, "fetch") == 0)
		fetch();
	else if (strcmp(mode, "latency") == 0)
		end_to_end();
	else
		die("no mode \"%s\"", mode);
	qsort(samples, (size_t) nsamples, sizeof(float), compare);
	report();
	return failed > 0 ? 1 : 0;
}
