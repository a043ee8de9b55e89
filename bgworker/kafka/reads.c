/*
 * reads.c
 *		What Fetch and ListOffsets have in common: work in steps, errors that are only
 *		one partition's, waiting until a durable tail moves, memory of answers.
 *
 * Steps.  Pages are read by the door itself, from a disk if they are not in the
 * server's buffers (docs/design/kafka.md says why).  So that this holds nobody up for
 * longer than a batch's read, work is done in steps of some milliseconds, and those
 * who have something to do take turns; sockets, commits and heartbeats are served in
 * between.
 *
 * Waiting.  There is one watch for each shard that anybody waits for, however many
 * wait.  While there are any, the flusher and the confirmer wake the door
 * (has_feed), and it compares their tails with what it has seen.  A tail that moves
 * after has_feed was set sets the latch; what moved before is seen by the look that
 * comes before every sleep.  Nothing is asked for by a timer.
 *
 * Memory.  Batches of an answer are held until the peer has read them.  An answer may
 * have a part of what is left of fleetlog.buffer_memory, so that the sum of many stays
 * below it.  When little is left, peers that have taken nothing for a while are closed:
 * whoever does not read must not keep others from reading.
 */
#include "postgres.h"

#include "access/xact.h"
#include "portability/instr_time.h"
#include "storage/proc.h"
#include "utils/hsearch.h"
#include "utils/resowner.h"

#include "reads.h"

#define STEP_US  2000  /* of one job, then the others have their turn */
#define TURN_US  10000 /* of all of them, then sockets have theirs */

#define ROOM_MIN       (64 * 1024)
#define ROOM_SHARE     64
#define STALL_CHECK_MS 1000
#define STALL_MS       10000 /* without progress, where three quarters of the memory are used */
#define STALL_SHORT_MS 1000  /* where all of it is */

#define SPARE_PARTITIONS 1000

#define TRY_LOCK_MS   1    /* as little as the server knows */
#define LOCKED_SHARDS 1024 /* noted; two that share a place are tried more often */

/* A shard that somebody waits for. */
typedef struct WatchKey
{
	Oid stream;
	int32 shard;
} WatchKey;

typedef struct FlKafkaWatch
{
	WatchKey key; /* hash key: must come first */
	FlShard *shared;
	int64 seen; /* the lowest that any of them has seen */
	dlist_head waits;
	dlist_node node; /* in watches */
} FlKafkaWatch;

static dlist_head jobs = DLIST_STATIC_INIT(jobs);
static dlist_head watches = DLIST_STATIC_INIT(watches);
static HTAB *watch_table = NULL;
static MemoryContext try_context = NULL;
static int64 step_end_us;
static uint64 catalog_seen = 0;

static int64
now_us(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/* ---- steps ---- */

void
fl_kafka_job_start(FlKafkaJob *job)
{
	if (job->listed)
		return;
	job->listed = true;
	dlist_push_tail(&jobs, &job->node);
}

void
fl_kafka_job_stop(FlKafkaJob *job)
{
	if (!job->listed)
		return;
	job->listed = false;
	dlist_delete(&job->node);
}

bool
fl_kafka_step_is_over(void)
{
	return now_us() >= step_end_us;
}

static void
run_job(FlKafkaDoor *door, FlKafkaJob *job)
{
	MemoryContext old = MemoryContextSwitchTo(job->req->memory);

	/* Whose connection is closed if this goes wrong. */
	door->current = job->req->conn;
	fl_kafka_job_stop(job);
	step_end_us = now_us() + STEP_US;
	if (job->step(job))
		fl_kafka_job_start(job);
	door->current = NULL;
	MemoryContextSwitchTo(old);
}

/* ---- errors ---- */

static int16
code_of_error(void)
{
	if (fl_error_from_sqlstate(geterrcode()) == FL_ERR_OFFSET_TOO_OLD)
		return FL_KAFKA_OFFSET_OUT_OF_RANGE;
	if (geterrcode() == ERRCODE_LOCK_NOT_AVAILABLE)
		return FL_KAFKA_LOCKED;
	EmitErrorReport();
	FL_COUNT(FL_C_ERRORS, 1);
	return FL_KAFKA_STORAGE_ERROR;
}

int16
fl_kafka_try(FlKafkaDoor *door, void (*f)(void *arg), void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner;
	int lock_timeout;
	volatile int16 code = FL_KAFKA_NO_ERROR;

	if (try_context == NULL)
		try_context = AllocSetContextCreate(door->context, "fleetlog Kafka read", ALLOCSET_DEFAULT_SIZES);
	fl_kafka_begin_transaction(door);
	owner = CurrentResourceOwner;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(try_context);
	lock_timeout = LockTimeout;
	LockTimeout = TRY_LOCK_MS;
	PG_TRY();
	{
		f(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		code = code_of_error();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	LockTimeout = lock_timeout;
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	MemoryContextReset(try_context);
	return code;
}

/* ---- shards that are locked ---- */

typedef struct LockedShard
{
	Oid stream;
	int32 shard;
	int64 until_ms;
} LockedShard;

static LockedShard locked_shards[LOCKED_SHARDS];

static LockedShard *
locked_slot(Oid stream, int32 shard)
{
	return &locked_shards[(stream * 31 + (uint32) shard) % LOCKED_SHARDS];
}

void
fl_kafka_note_locked(FlKafkaDoor *door, Oid stream, int32 shard)
{
	*locked_slot(stream, shard) = (LockedShard){stream, shard, fl_net_now(door->net) + FL_KAFKA_LOCKED_MS};
}

bool
fl_kafka_is_locked(FlKafkaDoor *door, Oid stream, int32 shard)
{
	const LockedShard *slot = locked_slot(stream, shard);

	return slot->stream == stream && slot->shard == shard && fl_net_now(door->net) < slot->until_ms;
}

/* ---- waiting ---- */

static void
set_has_feed(FlKafkaDoor *door, bool any)
{
	pg_atomic_write_u32(&fl_shared->doors[door->index].has_feed, any ? 1 : 0);
	/* Tails are looked at after this: see the head of the file. */
	pg_memory_barrier();
}

static FlKafkaWatch *
get_watch(FlKafkaDoor *door, Oid stream, int32 shard, int64 seen)
{
	WatchKey key = {stream, shard};
	FlKafkaWatch *watch;
	FlShard *shared;
	bool found;

	if (watch_table == NULL)
	{
		HASHCTL ctl = {.keysize = sizeof(WatchKey), .entrysize = sizeof(FlKafkaWatch), .hcxt = door->context};

		watch_table = hash_create("fleetlog Kafka watches", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	shared = fl_shard_find(stream, shard);
	watch = hash_search(watch_table, &key, HASH_ENTER, &found);
	if (!found)
	{
		dlist_init(&watch->waits);
		watch->seen = seen;
		if (dlist_is_empty(&watches))
			set_has_feed(door, true);
		dlist_push_tail(&watches, &watch->node);
	}
	watch->shared = shared;
	watch->seen = Min(watch->seen, seen);
	return watch;
}

void
fl_kafka_wait(FlKafkaDoor *door, FlKafkaWait *wait, Oid stream, int32 shard, int64 seen)
{
	FlKafkaWatch *watch = get_watch(door, stream, shard, seen);

	wait->seen = seen;
	if (wait->watch != NULL)
		return;
	wait->watch = watch;
	dlist_push_tail(&watch->waits, &wait->node);
}

void
fl_kafka_wait_end(FlKafkaDoor *door, FlKafkaWait *wait)
{
	FlKafkaWatch *watch = wait->watch;

	if (watch == NULL)
		return;
	dlist_delete(&wait->node);
	wait->watch = NULL;
	if (!dlist_is_empty(&watch->waits))
		return;
	dlist_delete(&watch->node);
	hash_search(watch_table, &watch->key, HASH_REMOVE, NULL);
	if (dlist_is_empty(&watches))
		set_has_feed(door, false);
}

/* PG_INT64_MAX: the shard's entry is another's now, so its stream is gone. */
static int64
tail_of(const FlKafkaWatch *watch)
{
	FlShard *shared = watch->shared;

	if (shared == NULL || shared->key.stream != watch->key.stream || shared->key.shard != watch->key.shard)
		return PG_INT64_MAX;
	return fl_shard_durable_tail(shared);
}

/* Those who have not seen the tail; they go on waiting until they have been looked at. */
static void
tell_waits(FlKafkaWatch *watch, int64 tail)
{
	dlist_iter iter;

	dlist_foreach (iter, &watch->waits)
	{
		FlKafkaWait *wait = dlist_container(FlKafkaWait, node, iter.cur);

		if (wait->seen < tail)
		{
			wait->seen = tail;
			fl_kafka_fetch_moved(wait);
		}
	}
	watch->seen = tail;
}

static void
look_at_tails(void)
{
	bool all = catalog_seen != fl_catalog_version();
	dlist_iter iter;

	catalog_seen = fl_catalog_version();
	dlist_foreach (iter, &watches)
	{
		FlKafkaWatch *watch = dlist_container(FlKafkaWatch, node, iter.cur);
		int64 tail = all ? PG_INT64_MAX : tail_of(watch);

		if (tail > watch->seen)
			tell_waits(watch, tail);
	}
}

/* ---- memory ---- */

static int64
room_left(FlKafkaDoor *door)
{
	return (int64) fl_mqtt_buffer_memory_mb * 1024 * 1024 - (int64) fl_net_buffered(door->net);
}

int64
fl_kafka_answer_room(FlKafkaDoor *door)
{
	int64 left = room_left(door);

	return left <= 0 ? -1 : Max(left / ROOM_SHARE, ROOM_MIN);
}

typedef struct Stall
{
	int64 now_ms;
	int64 limit_ms;
} Stall;

/* It has not taken a byte for a while, although there are some for it. */
static void
close_if_stalled(FlNetConn *net, void *arg)
{
	FlKafkaConn *conn = (FlKafkaConn *) net;
	const Stall *stall = arg;

	if (net->protocol != &fl_kafka_protocol || !fl_net_is_open(net) || fl_net_pending(net) == 0)
		conn->stalled_ms = 0;
	else if (conn->stalled_ms == 0 || conn->stalled_at != net->bytes_out)
	{
		conn->stalled_ms = stall->now_ms;
		conn->stalled_at = net->bytes_out;
	}
	else if (stall->now_ms - conn->stalled_ms >= stall->limit_ms)
		fl_kafka_refuse(conn, "it does not read its answers, and the memory for these is used up");
}

/* Returns whether no answer can have anything now. */
static bool
check_memory(FlKafkaDoor *door)
{
	static int64 checked_ms = 0;
	int64 now = fl_net_now(door->net);
	int64 left = room_left(door);
	Stall stall = {now, left <= 0 ? STALL_SHORT_MS : STALL_MS};

	if (left > (int64) fl_mqtt_buffer_memory_mb * 1024 * 1024 / 4)
		return false;
	if (now - checked_ms >= STALL_CHECK_MS || now < checked_ms)
	{
		checked_ms = now;
		fl_net_each(door->net, close_if_stalled, &stall);
	}
	return left <= 0;
}

/* ---- the turn ---- */

void
fl_kafka_reads_turn(FlKafkaDoor *door)
{
	int64 turn_end = now_us() + TURN_US;
	dlist_node *last = NULL;

	look_at_tails();
	/* Where there is no memory each looks once whether it can do without. */
	if (check_memory(door) && !dlist_is_empty(&jobs))
		last = dlist_tail_node(&jobs);
	while (!dlist_is_empty(&jobs))
	{
		dlist_node *node = dlist_head_node(&jobs);

		run_job(door, dlist_container(FlKafkaJob, node, node));
		if (node == last || now_us() >= turn_end)
			break;
	}
}

long
fl_kafka_reads_timeout(FlKafkaDoor *door)
{
	look_at_tails();
	if (dlist_is_empty(&jobs))
		return -1;
	return fl_kafka_answer_room(door) < 0 ? FL_KAFKA_RETRY_MS : 0;
}

int16
fl_kafka_check_read(FlKafkaConn *conn, const FlStreamInfo *stream)
{
	if (stream == NULL)
		return FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
	return fl_kafka_may_read(conn, stream) ? FL_KAFKA_NO_ERROR : FL_KAFKA_TOPIC_AUTHORIZATION_FAILED;
}

int
fl_kafka_most_partitions(FlKafkaDoor *door)
{
	int count;
	const FlKafkaTopic *topics = fl_kafka_topics(door, &count);
	int most = SPARE_PARTITIONS;

	for (int i = 0; i < count; i++)
	{
		const FlStreamInfo *stream = fl_stream_lookup(topics[i].stream);

		if (stream != NULL)
			most += stream->shards;
	}
	return most;
}
