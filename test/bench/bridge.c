/*-------------------------------------------------------------------------
 *
 * bridge.c
 *		fl_bridge: what many fleets run today between their broker and
 *		PostgreSQL, as good as it can be in a page of C: an MQTT subscriber that
 *		copies what it receives into an ordinary table.
 *
 * Messages are gathered in binary COPY format and written in a transaction of
 * their own once there are --batch of them or the first has waited --linger.
 * Only shard, log_offset, ts, key and payload are filled, so a row costs less
 * here than a record costs fleetlog, which also keeps identity and headers.
 *
 * libmosquitto acknowledges to the broker when the callback returns, not when
 * the transaction commits: what is gathered when this program dies is lost
 * although its publisher has a PUBACK.  That is how such bridges are.
 *
 * --status FILE is written when the subscription stands, then ten times a second and at the end: "received N
 * committed N commits N first NS last NS", the times (CLOCK_MONOTONIC) of the
 * first arrival and of the last commit.  SIGTERM ends it after a last commit.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <getopt.h>
#include <libpq-fe.h>
#include <mosquitto.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

/* Seconds between 1970 and 2000, where PostgreSQL's time begins. */
#define EPOCH_OFFSET INT64_C(946684800)

typedef struct Bridge
{
	PGconn *db;
	const char *copy;
	const char *status_file;
	int batch;
	int64_t linger; /* ns */

	char *buffer; /* rows in COPY's binary form */
	size_t len;
	size_t size;
	int rows;
	int64_t oldest; /* arrival of the first row of the batch */

	uint64_t received;
	uint64_t committed;
	uint64_t commits;
	int64_t first_arrival;
	int64_t last_commit;
	int64_t last_status;
} Bridge;

static volatile sig_atomic_t stop_requested;

static const char help[] =
	"fl_bridge: copies what an MQTT broker delivers into a table.\n"
	"\n"
	"usage: fl_bridge --uri URI --port PORT [options]\n"
	"      --uri URI          of the database\n"
	"      --table NAME       with columns shard, log_offset, ts, key, payload (bench_bridge)\n"
	"      --port PORT        of the broker, on 127.0.0.1\n"
	"      --filter FILTER    (bench/#)\n"
	"      --batch N          rows per commit (100)\n"
	"      --linger MS        longest time a row waits for others (10)\n"
	"      --status FILE      what has been done so far\n";

static void
on_signal(int signo)
{
	(void) signo;
	stop_requested = 1;
}

static void __attribute__((noreturn)) die(const char *what, const char *why)
{
	fprintf(stderr, "fl_bridge: %s: %s\n", what, why);
	exit(1);
}

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

/* Microseconds since 2000, as timestamptz has them. */
static int64_t
server_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (ts.tv_sec - EPOCH_OFFSET) * 1000000 + ts.tv_nsec / 1000;
}

static void
reserve(Bridge *b, size_t more)
{
	while (b->len + more > b->size)
	{
		b->size = b->size * 2 + 65536;
		b->buffer = realloc(b->buffer, b->size);
		if (b->buffer == NULL)
			die("memory", strerror(ENOMEM));
	}
}

static void
put_bytes(Bridge *b, const void *bytes, size_t len)
{
	reserve(b, len);
	memcpy(b->buffer + b->len, bytes, len);
	b->len += len;
}

/* A number of so many bytes, the highest first. */
static void
put_number(Bridge *b, int64_t v, int bytes)
{
	char big[8];

	for (int i = 0; i < bytes; i++)
		big[i] = (char) (v >> 8 * (bytes - 1 - i));
	put_bytes(b, big, bytes);
}

static void
put_field(Bridge *b, const void *bytes, size_t len)
{
	put_number(b, (int64_t) len, 4);
	put_bytes(b, bytes, len);
}

static void
put_number_field(Bridge *b, int64_t v, int bytes)
{
	put_number(b, bytes, 4);
	put_number(b, v, bytes);
}

static void
write_status(Bridge *b)
{
	char name[4096];
	FILE *f;

	b->last_status = now();
	if (b->status_file == NULL)
		return;
	snprintf(name, sizeof(name), "%s.new", b->status_file);
	f = fopen(name, "w");
	if (f == NULL)
		die(name, strerror(errno));
	fprintf(f, "received %llu committed %llu commits %llu first %lld last %lld\n", (unsigned long long) b->received,
			(unsigned long long) b->committed, (unsigned long long) b->commits, (long long) b->first_arrival,
			(long long) b->last_commit);
	if (fclose(f) != 0 || rename(name, b->status_file) != 0)
		die(name, strerror(errno));
}

/* Writes the batch; COPY outside of a transaction block is a transaction of its own. */
static void
commit_batch(Bridge *b)
{
	PGresult *result = PQexec(b->db, b->copy);

	if (PQresultStatus(result) != PGRES_COPY_IN)
		die("COPY", PQerrorMessage(b->db));
	PQclear(result);
	put_number(b, -1, 2);
	if (PQputCopyData(b->db, b->buffer, (int) b->len) != 1 || PQputCopyEnd(b->db, NULL) != 1)
		die("COPY", PQerrorMessage(b->db));
	while ((result = PQgetResult(b->db)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			die("COPY", PQerrorMessage(b->db));
		PQclear(result);
	}
	b->committed += b->rows;
	b->commits++;
	b->last_commit = now();
	b->rows = 0;
	b->len = 0;
}

static void
on_message(struct mosquitto *m, void *arg, const struct mosquitto_message *message)
{
	static const char signature[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0";
	Bridge *b = arg;

	(void) m;
	if (b->rows == 0)
	{
		put_bytes(b, signature, 19);
		b->oldest = now();
		if (b->first_arrival == 0)
			b->first_arrival = b->oldest;
	}
	put_number(b, 5, 2);
	put_number_field(b, 0, 4);
	put_number_field(b, (int64_t) b->received, 8);
	put_number_field(b, server_time(), 8);
	put_field(b, message->topic, strlen(message->topic));
	put_field(b, message->payload, message->payloadlen);
	b->received++;
	if (++b->rows == b->batch)
		commit_batch(b);
}

/* From now on nothing is missed: whoever waits for the status file may begin. */
static void
on_subscribe(struct mosquitto *m, void *arg, int id, int count, const int *granted)
{
	(void) m;
	(void) id;
	if (count != 1 || granted[0] != 1)
		die("broker", "the subscription is refused");
	write_status(arg);
}

static void
run(Bridge *b, struct mosquitto *m)
{
	while (!stop_requested)
	{
		int64_t left = b->rows > 0 ? b->linger - (now() - b->oldest) : SECOND / 10;
		int status = mosquitto_loop(m, left > 0 ? (int) (left / 1000000) : 0, 1);

		if (status != MOSQ_ERR_SUCCESS && !stop_requested)
			die("broker", mosquitto_strerror(status));
		if (b->rows > 0 && now() - b->oldest >= b->linger)
			commit_batch(b);
		if (b->last_status > 0 && now() - b->last_status > SECOND / 10)
			write_status(b);
	}
	if (b->rows > 0)
		commit_batch(b);
	write_status(b);
}

int
main(int argc, char **argv)
{
	static const struct option names[] = {{"uri", required_argument, NULL, 'u'},
										  {"table", required_argument, NULL, 't'},
										  {"port", required_argument, NULL, 'p'},
										  {"filter", required_argument, NULL, 'f'},
										  {"batch", required_argument, NULL, 'b'},
										  {"linger", required_argument, NULL, 'l'},
										  {"status", required_argument, NULL, 's'},
										  {"help", no_argument, NULL, 'h'},
										  {NULL, 0, NULL, 0}};
	const char *uri = NULL, *table = "bench_bridge", *filter = "bench/#";
	Bridge b = {.batch = 100, .linger = 10 * 1000000};
	struct sigaction action = {.sa_handler = on_signal};
	struct mosquitto *m;
	char copy[512];
	int port = 0, c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
	{
		switch (c)
		{
			case 'u':
				uri = optarg;
				break;
			case 't':
				table = optarg;
				break;
			case 'p':
				port = atoi(optarg);
				break;
			case 'f':
				filter = optarg;
				break;
			case 'b':
				b.batch = atoi(optarg);
				break;
			case 'l':
				b.linger = atoll(optarg) * 1000000;
				break;
			case 's':
				b.status_file = optarg;
				break;
			default:
				fputs(help, c == 'h' ? stdout : stderr);
				return c == 'h' ? 0 : 2;
		}
	}
	if (uri == NULL || port <= 0 || b.batch < 1)
	{
		fputs(help, stderr);
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	snprintf(copy, sizeof(copy), "COPY %s (shard, log_offset, ts, key, payload) FROM STDIN (FORMAT binary)", table);
	b.copy = copy;
	b.db = PQconnectdb(uri);
	if (PQstatus(b.db) != CONNECTION_OK)
		die("database", PQerrorMessage(b.db));
	mosquitto_lib_init();
	m = mosquitto_new("fl_bridge", false, &b);
	if (m == NULL)
		die("libmosquitto", strerror(errno));
	mosquitto_message_callback_set(m, on_message);
	mosquitto_subscribe_callback_set(m, on_subscribe);
	/* The library queues SUBSCRIBE behind CONNECT. */
	if (mosquitto_connect(m, "127.0.0.1", port, 60) != MOSQ_ERR_SUCCESS ||
		mosquitto_subscribe(m, NULL, filter, 1) != MOSQ_ERR_SUCCESS)
		die("broker", strerror(errno));
	run(&b, m);
	mosquitto_disconnect(m);
	mosquitto_destroy(m);
	mosquitto_lib_cleanup();
	PQfinish(b.db);
	return 0;
}
