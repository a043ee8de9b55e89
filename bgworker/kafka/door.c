/*
 * door.c
 *		The loop of the Kafka door: sockets, timers, ingest, what is parked.
 *
 * It is a process of its own, beside the front doors of MQTT, so that what Kafka
 * clients do (megabytes a request, batches to be inflated and checked, slow
 * readers) costs devices nothing, and so that groups and producers have one
 * process that knows all of them.
 *
 * A transaction is begun by whoever needs to read the catalog or the log
 * (fl_kafka_begin_transaction), and ends with the turn; none is open while the
 * worker waits.
 *
 * Errors: one boundary around the turn.  The connection that was being worked on
 * is closed, everybody else goes on; a door that fails turn after turn ends, and
 * the launcher starts it anew.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"

#include "fleetlog/compat.h"
#include "fleetlog/door.h"
#include "fleetlog/kafka.h"
#include "fleetlog/log.h"
#include "fleetlog/settings.h"
#include "fleetlog/worker.h"
#include "group.h"
#include "login.h"
#include "reads.h"

#define SCRATCH_KEEP (1024 * 1024) /* a larger scratch buffer is given back */
#define MAX_FAILURES 20            /* turns in a row */
#define LOCK_TIMEOUT "500ms"
#define NEWS_MS      2000 /* within which invalidations come after they were announced */

/* ---- start ---- */

static FlKafkaDoor *
create_door(int index)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "fleetlog Kafka door", ALLOCSET_DEFAULT_SIZES);
	FlKafkaDoor *door = MemoryContextAllocZero(context, sizeof(FlKafkaDoor));

	door->index = index;
	door->poll = true;
	door->context = context;
	door->turn = AllocSetContextCreate(context, "fleetlog turn", ALLOCSET_DEFAULT_SIZES);
	door->topics_context = AllocSetContextCreate(context, "fleetlog topics", ALLOCSET_DEFAULT_SIZES);
	fl_context_allocator(&door->alloc, context);
	dlist_init(&door->full);
	dlist_init(&door->dead);
	dlist_init(&door->logins);
	fl_buf_init(&door->out, &door->alloc, FL_KAFKA_MAX_ANSWER);
	door->net = fl_net_create(context, index, fl_max_connections);
	fl_timer_wheel_init(&door->wheel, fl_net_now(door->net));
	MemoryContextSwitchTo(context);
	door->ingest = fl_ingest_create(index, fl_kafka_ingest_done, door);
	fl_roles_init();
	fl_auth_worker_start(index);
	door->revocations = fl_auth_revocation_cursor();
	fl_kafka_groups_begin(door);
	return door;
}

/* At start and after a reload. */
static void
apply_settings(FlKafkaDoor *door)
{
	fl_net_set_memory_limit(door->net, (Size) fl_mqtt_buffer_memory_mb * 1024 * 1024);
	fl_net_configure(door->net, fl_kafkas_listen[0] != '\0');
	fl_net_listen(door->net, &fl_kafka_protocol, FL_NET_KIND_PLAIN, "kafka", fl_kafka_listen, "fleetlog.kafka_listen");
	fl_net_listen(door->net, &fl_kafka_protocol, FL_NET_KIND_TLS, "kafkas", fl_kafkas_listen, "fleetlog.kafkas_listen");
	door->next_stats_ms = 0;
}

/* ---- transactions and timers ---- */

void
fl_kafka_begin_transaction(FlKafkaDoor *door)
{
	MemoryContext caller = CurrentMemoryContext;

	if (IsTransactionState())
		return;
	StartTransactionCommand();
	MemoryContextSwitchTo(caller);
}

void
fl_kafka_end_transaction(FlKafkaDoor *door)
{
	MemoryContext caller = CurrentMemoryContext;

	if (!IsTransactionState())
		return;
	CommitTransactionCommand();
	fl_worker_own_resources();
	MemoryContextSwitchTo(caller);
}

void
fl_kafka_arm(FlKafkaDoor *door, FlKafkaTimer *timer, int64 in_ms)
{
	if (in_ms < 0)
		fl_timer_cancel(&door->wheel, &timer->timer);
	else
		fl_timer_arm(&door->wheel, &timer->timer, fl_net_now(door->net) + in_ms);
}

static void
fire(FlTimer *timer, void *arg)
{
	FlKafkaTimer *t = (FlKafkaTimer *) timer;

	t->fire(t);
}

/* ---- a turn ---- */

void
fl_kafka_refresh_catalog(FlKafkaDoor *door)
{
	uint64 news = pg_atomic_read_u64(&fl_shared->catalog_generation);

	/* Whoever commits announces a change just before the server sends its invalidations. */
	if (news != door->news)
		door->news_due_ms = fl_net_now(door->net) + NEWS_MS;
	door->news = news;
	AcceptInvalidationMessages();
	if (!fl_catalog_is_stale() && !fl_roles_are_stale())
		return;
	fl_kafka_begin_transaction(door);
	if (fl_catalog_is_stale())
		fl_catalog_refresh();
	fl_roles_refresh();
}

static void
report_stats(FlKafkaDoor *door)
{
	int64 now = fl_net_now(door->net);

	if (now < door->next_stats_ms && door->next_stats_ms - now <= FL_DOOR_STATS_MS)
		return;
	door->next_stats_ms = now + FL_DOOR_STATS_MS;
	fl_door_report(door->net, door->context, door->stopping);
	fl_kafka_report_connections(door);
	(void) pgstat_report_stat(true);
}

static void
work(FlKafkaDoor *door)
{
	fl_kafka_refresh_catalog(door);
	/* What is durable is acknowledged before anything new is read: others wait for it. */
	if (fl_ingest_poll(door->ingest) > 0)
		fl_net_flush(door->net);
	fl_kafka_end_unwanted(door);
	fl_net_turn(door->net, door->poll);
	fl_kafka_take_logins(door);
	fl_timer_advance(&door->wheel, fl_net_now(door->net), fire, NULL);
	fl_kafka_groups_turn(door);
	fl_kafka_reads_turn(door);
	fl_kafka_retry_full(door);
	fl_net_flush(door->net);
	FL_COUNT(FL_C_TURNS, 1);
}

/* What the turn brought goes into the log, or on its way there. */
static long
hand_over(FlKafkaDoor *door)
{
	bool written = fl_ingest_write(door->ingest);
	long wait = fl_ingest_flush(door->ingest);

	if (!written)
		return wait;
	fl_worker_own_resources();
	MemoryContextSwitchTo(door->turn);
	if (fl_ingest_poll(door->ingest) > 0)
		fl_net_flush(door->net);
	return fl_ingest_due_in(door->ingest);
}

/* False when it was nobody's fault, so that an error of the door itself is not repeated for ever. */
static bool
recover(FlKafkaDoor *door)
{
	FlKafkaConn *conn = door->current;

	door->current = NULL;
	fl_buf_reset(&door->out);
	FL_COUNT(FL_C_ERRORS, 1);
	if (conn == NULL)
		return false;
	fl_kafka_close(conn, "internal error");
	return true;
}

static long
run_turn(FlKafkaDoor *door)
{
	static int failures = 0;
	volatile long wait = 0;

	PG_TRY();
	{
		MemoryContextSwitchTo(door->turn);
		work(door);
		fl_kafka_end_transaction(door);
		MemoryContextSwitchTo(door->turn);
		wait = hand_over(door);
		failures = 0;
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		fl_worker_absorb_error(door->context);
		/* Had we committed and not flushed yet, the flusher would not know of it. */
		fl_worker_wake(FL_WORKER_FLUSHER, 0);
		if (!recover(door))
			failures++;
		RESUME_INTERRUPTS();
		if (failures > MAX_FAILURES)
			ereport(FATAL, (errmsg("fleetlog: the Kafka door fails turn after turn")));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(door->context);
	report_stats(door);
	fl_kafka_free_dead(door);
	MemoryContextReset(door->turn);
	if (door->out.cap > SCRATCH_KEEP)
		fl_buf_free(&door->out);
	return wait;
}

/* ---- waiting ---- */

static long
next_wait(FlKafkaDoor *door, long ingest_wait)
{
	int64 now = fl_net_now(door->net);
	long wait = fl_door_shorter(fl_net_timeout(door->net), ingest_wait);

	wait = fl_door_shorter(wait, (long) fl_timer_wait(&door->wheel, now));
	wait = fl_door_shorter(wait, fl_kafka_groups_timeout(door));
	wait = fl_door_shorter(wait, fl_kafka_reads_timeout(door));
	if (now < door->news_due_ms || !dlist_is_empty(&door->full) || !dlist_is_empty(&door->logins))
		wait = fl_door_shorter(wait, FL_KAFKA_RETRY_MS);
	return fl_door_shorter(wait, FL_DOOR_STATS_MS);
}

/* ---- end ---- */

static void
finish(FlNetConn *net, void *arg)
{
	fl_net_finish(net, "server is shutting down");
}

/* What was taken is written and acknowledged, as far as a second allows; then everybody is told to go. */
static void
stop_door(FlKafkaDoor *door)
{
	fl_worker_set_state("ending");
	door->stopping = true;
	fl_net_stop_listening(door->net);
	fl_door_drain(door->net, door->ingest);
	fl_net_each(door->net, finish, NULL);
	fl_door_see_off(door->net);
}

void
fl_kafka_front_door(int index)
{
	FlKafkaDoor *door = fl_kafka_door = create_door(index);
	WaitEventSet *set = fl_door_wait_set(door->net);

	MemoryContextSwitchTo(door->context);
	/* A table that somebody has locked must not stop everybody else for long. */
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	apply_settings(door);
	while (!fl_worker_should_stop())
	{
		bool reload = ConfigReloadPending;
		long ingest_wait;

		fl_worker_turn();
		if (reload)
			apply_settings(door);
		ingest_wait = run_turn(door);
		if (!fl_worker_should_stop())
			door->poll = fl_door_wait(set, next_wait(door, ingest_wait), door->poll);
	}
	stop_door(door);
}
