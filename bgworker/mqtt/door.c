/*
 * door.c
 *		The loop of a front door: sockets, logins, ingest, feeds, timers.
 *
 * Most turns need no transaction: a message is looked up in what memory holds
 * of the catalog.  The first who needs one (a catalog that has changed, a log to
 * read) begins it by fl_mqtt_begin_transaction, and it ends with the turn; it
 * writes nothing and takes no transaction id, and none is open while the worker
 * waits.  What other processes have changed is taken note of at the beginning
 * of every turn all the same.  Between turns ingest may write what they brought
 * (src/ingest/write.c), in a transaction with an error boundary of its own.
 *
 * Errors: one boundary around the turn.  What was being worked on (a
 * connection, a feed) is known, pays for it, and everything else goes on; a
 * worker that fails turn after turn ends, and the launcher starts it anew.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "fleetlog/compat.h"
#include "fleetlog/door.h"
#include "fleetlog/log.h"
#include "fleetlog/mqtt.h"
#include "fleetlog/worker.h"
#include "mqtt.h"
#include "packet.h"
#include "reading.h"
#include "share.h"

#define SCRATCH_KEEP (256 * 1024) /* larger scratch buffers are given back */
#define MAX_HEADERS  ((Size) 2 * FL_MQTT_MAX_REMAINING)
#define MAX_ENVELOPE (2 * 1024 * 1024) /* fleetlog.command_max_payload at most, and what is around it */
#define MAX_FAILURES 20 /* turns in a row */
#define BUSY_SOCKETS 4  /* sockets with something in one turn: more will come at once */
#define MAX_UNWAITED 64 /* turns in a row without looking at latch and postmaster */
#define KEYS_ROOM    ((Size) 4 * 65536) /* two expanded templates (publish.c) */

/* ---- start ---- */

static FlMqttDoor *
create_door(int index)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "fleetlog door", ALLOCSET_DEFAULT_SIZES);
	FlMqttDoor *door = MemoryContextAllocZero(context, sizeof(FlMqttDoor));
	FlAllocator *alloc = MemoryContextAlloc(context, sizeof(FlAllocator));

	fl_context_allocator(alloc, context);
	door->index = index;
	door->poll = true;
	door->context = context;
	door->turn = AllocSetContextCreate(context, "fleetlog turn", ALLOCSET_DEFAULT_SIZES);
	dlist_init(&door->full);
	dlist_init(&door->settling);
	dlist_init(&door->taking_over);
	dlist_init(&door->logins);
	dlist_init(&door->lagging);
	dlist_init(&door->draining);
	dlist_init(&door->shares);
	fl_share_leave_door(index);
	fl_memory_want(index, false);
	dlist_init(&door->retained);
	fl_buf_init(&door->out, alloc, (Size) FL_MQTT_MAX_REMAINING + FL_MQTT_MAX_HEADER);
	fl_buf_init(&door->headers, alloc, MAX_HEADERS);
	fl_buf_init(&door->envelope, alloc, MAX_ENVELOPE);
	door->keys = MemoryContextAlloc(context, KEYS_ROOM);
	door->users = MemoryContextAlloc(context, sizeof(FlMqttUserProperty) * FL_HEADERS_MAX_COUNT);
	door->told = MemoryContextAlloc(context, sizeof(FlMqttUserProperty) * (FL_HEADERS_MAX_COUNT + FL_MQTT_TOLD));
	door->trie = fl_trie_create(alloc);
	fl_mqtt_conns_init(door);
	fl_mqtt_sessions_init(door);
	fl_mqtt_feed_init(door);
	fl_mqtt_reading_init(door);
	fl_mqtt_sys_init(door);
	door->net = fl_net_create(context, index, fl_max_connections);
	door->ingest = fl_ingest_create(index, fl_mqtt_ingest_done, door);
	fl_roles_init();
	fl_auth_worker_start(index);
	door->revocations = fl_auth_revocation_cursor();
	return door;
}

/* At start and after a reload. */
static void
apply_settings(FlMqttDoor *door)
{
	fl_net_set_memory_limit(door->net, (Size) fl_mqtt_buffer_memory_mb * 1024 * 1024);
	fl_net_configure(door->net, fl_mqtts_listen[0] != '\0' || fl_wss_listen[0] != '\0');
	fl_net_listen(door->net, &fl_mqtt_protocol, FL_NET_KIND_PLAIN, "mqtt", fl_mqtt_listen, "fleetlog.mqtt_listen");
	fl_net_listen(door->net, &fl_mqtt_protocol, FL_NET_KIND_TLS, "mqtts", fl_mqtts_listen, "fleetlog.mqtts_listen");
	fl_net_listen(door->net, &fl_mqtt_protocol, FL_NET_KIND_WEBSOCKET, "ws", fl_ws_listen, "fleetlog.ws_listen");
	fl_net_listen(door->net, &fl_mqtt_protocol, FL_NET_KIND_TLS | FL_NET_KIND_WEBSOCKET, "wss", fl_wss_listen,
				  "fleetlog.wss_listen");
	door->next_stats_ms = 0;
}

/* ---- a turn ---- */

void
fl_mqtt_begin_transaction(FlMqttDoor *door)
{
	if (IsTransactionState())
		return;
	StartTransactionCommand();
	MemoryContextSwitchTo(door->turn);
}

static void
end_transaction(FlMqttDoor *door)
{
	if (!IsTransactionState())
		return;
	CommitTransactionCommand();
	fl_worker_own_resources();
	MemoryContextSwitchTo(door->turn);
}

static void
refresh_catalog(FlMqttDoor *door)
{
	uint64 news = pg_atomic_read_u64(&fl_shared->catalog_generation);

	/* Whoever commits announces a change just before the server sends its invalidations. */
	if (news != door->news)
		door->news_due_ms = fl_net_now(door->net) + FL_MQTT_NEWS_MS;
	door->news = news;
	AcceptInvalidationMessages();
	if (!fl_catalog_is_stale() && !fl_roles_are_stale() && door->feed_version == fl_catalog_version() &&
		door->acl_version == fl_catalog_version() && door->roles_version == fl_roles_version())
		return;
	fl_mqtt_begin_transaction(door);
	if (fl_catalog_is_stale())
		fl_catalog_refresh();
	fl_roles_refresh();
	fl_mqtt_feed_refresh(door);
	fl_mqtt_check_rights(door);
}

/* What is durable is acknowledged before anything new is read: others wait for it. */
static void
acknowledge(FlMqttDoor *door)
{
	if (fl_ingest_poll(door->ingest) > 0)
		fl_net_flush(door->net);
	fl_mqtt_resume_settled(door);
}

static void
work(FlMqttDoor *door)
{
	refresh_catalog(door);
	acknowledge(door);
	fl_mqtt_take_revocations(door);
	door->sockets = fl_net_turn(door->net, door->poll);
	fl_mqtt_take_logins(door);
	fl_mqtt_take_evictions(door);
	fl_mqtt_retry_takeovers(door);
	fl_mqtt_retry_sessions(door);
	fl_mqtt_wills_run(door);
	fl_mqtt_resume_full(door);
	fl_mqtt_feed_interest(door);
	fl_mqtt_reading_run(door);
	fl_mqtt_feed_run(door);
	fl_mqtt_memory_run(door);
	fl_mqtt_catchup_run(door);
	fl_mqtt_share_run(door);
	fl_mqtt_retained_run(door);
	fl_mqtt_drain_waiting(door);
	fl_mqtt_report_stats(door);
	fl_mqtt_sys_run(door);
	fl_net_flush(door->net);
	FL_COUNT(FL_C_TURNS, 1);
}

static void
trim_scratch(FlBuf *buf)
{
	if (buf->cap > SCRATCH_KEEP)
		fl_buf_free(buf);
}

/*
 * An error came out of the turn: whose fault was it?  Only that one pays.
 * False when nobody's, so that an error of the door itself is not repeated for
 * ever.  Where retention was quicker than a connection that reads the log by itself,
 * it is nobody's fault: in the next turn it finds the new head.
 */
static bool
recover(FlMqttDoor *door, bool trimmed)
{
	bool again = trimmed && door->current == NULL && fl_mqtt_may_read_again(door);
	FlMqttConn *conn = door->current ? door->current : again ? NULL : door->current_lag;
	bool feed;

	fl_mqtt_catchup_failed(door);
	door->current = NULL;
	door->current_lag = NULL;
	door->record_event = NULL;
	door->record_will = false;
	door->unheard = 0;
	fl_buf_reset(&door->out);
	fl_buf_reset(&door->headers);
	feed = fl_mqtt_feed_failed(door) || again;
	FL_COUNT(FL_C_ERRORS, 1);
	if (conn != NULL && fl_net_is_open(&conn->net))
	{
		/* Its will, if any, is not worth a second error; one that its session has stays there. */
		conn->no_will = true;
		if (conn->will != NULL)
			conn->will->stored = false;
		fl_net_close(&conn->net, "internal error");
	}
	return feed || conn != NULL;
}

/*
 * What the turn brought goes into the log, or on its way there; what is durable
 * thereby is acknowledged at once.  Returns milliseconds after which ingest
 * wants to be asked again, -1 for never, 0 when subscribers wait for a record.
 */
static long
hand_over(FlMqttDoor *door)
{
	bool written = fl_ingest_write(door->ingest);
	long wait = fl_ingest_flush(door->ingest);

	if (!written)
		return wait;
	fl_worker_own_resources();
	MemoryContextSwitchTo(door->turn);
	acknowledge(door);
	return door->feed_wanted ? 0 : fl_ingest_due_in(door->ingest);
}

static long
run_turn(FlMqttDoor *door)
{
	static int failures = 0;
	volatile long wait = 0;

	PG_TRY();
	{
		MemoryContextSwitchTo(door->turn);
		work(door);
		end_transaction(door);
		wait = hand_over(door);
		failures = 0;
	}
	PG_CATCH();
	{
		bool trimmed = geterrcode() == fl_error_sqlstate(FL_ERR_OFFSET_TOO_OLD);

		HOLD_INTERRUPTS();
		fl_worker_absorb_error(door->context);
		/* Had we committed and not flushed yet, the flusher would not know of it. */
		fl_worker_wake(FL_WORKER_FLUSHER, 0);
		if (!recover(door, trimmed))
			failures++;
		RESUME_INTERRUPTS();
		if (failures > MAX_FAILURES)
			ereport(FATAL, (errmsg("fleetlog: front door %d fails turn after turn", door->index)));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(door->context);
	MemoryContextReset(door->turn);
	trim_scratch(&door->out);
	trim_scratch(&door->headers);
	return wait;
}

/* ---- waiting ---- */

static long
next_wait(FlMqttDoor *door, long ingest_wait)
{
	long wait = fl_door_shorter(fl_net_timeout(door->net), ingest_wait);

	if (door->feed_more || door->read_more)
		return 0;
	if (fl_net_now(door->net) < door->news_due_ms)
		wait = fl_door_shorter(wait, FL_MQTT_TAKEOVER_POLL_MS);
	if (!dlist_is_empty(&door->taking_over) || !dlist_is_empty(&door->full) || !dlist_is_empty(&door->settling) ||
		!dlist_is_empty(&door->logins) ||
		!dlist_is_empty(&door->retained) || !dlist_is_empty(&door->opening) ||
		door->share_waiting || door->read_full || !dlist_is_empty(&door->draining) || fl_mqtt_wills_wait())
		wait = fl_door_shorter(wait, FL_MQTT_TAKEOVER_POLL_MS);
	return fl_door_shorter(wait, FL_DOOR_STATS_MS);
}

/*
 * Waits, and says whether the sockets have to be asked afterwards.
 *
 * A busy door does not wait, it asks its sockets at once: that is one system
 * call less per turn, and who has something for it finds it awake and need not
 * signal.  It waits every so many turns all the same, because the postmaster's
 * death is noticed there only.
 */
static bool
wait_for_work(FlMqttDoor *door, WaitEventSet *set, long timeout)
{
	if ((timeout == 0 || door->sockets >= BUSY_SOCKETS) && door->unwaited < MAX_UNWAITED)
	{
		door->unwaited++;
		ResetLatch(MyLatch);
		return true;
	}
	door->unwaited = 0;
	return fl_door_wait(set, timeout, door->poll);
}

/* ---- end ---- */

static void
say_goodbye(FlMqttConn *conn)
{
	fl_mqtt_disconnect(conn, fl_mqtt_redirect(conn, FL_MQTT_RC_SERVER_SHUTTING_DOWN), "server is shutting down");
}

/*
 * No new connections, no new packets; what was taken is written and
 * acknowledged, as far as a second allows, then everybody is told to go.
 */
static void
stop_door(FlMqttDoor *door)
{
	fl_worker_set_state("ending");
	door->stopping = true;
	fl_net_stop_listening(door->net);
	fl_mqtt_each(door, fl_mqtt_leave_bookmarks);
	fl_door_drain(door->net, door->ingest);
	fl_mqtt_each(door, say_goodbye);
	fl_door_see_off(door->net);
}

/*
 * The server's statistics go by the end of the last transaction, of which an
 * idle door has none; so they are asked for once a second, with our own.
 */
static void
report_statistics(FlMqttDoor *door)
{
	static int64 reported = 0;

	if (reported == door->next_stats_ms)
		return;
	reported = door->next_stats_ms;
	(void) pgstat_report_stat(true);
}

void
fl_mqtt_front_door(int index)
{
	WaitEventSet *set;

	fl_mqtt_door = create_door(index);
	set = fl_door_wait_set(fl_mqtt_door->net);
	MemoryContextSwitchTo(fl_mqtt_door->context);
	apply_settings(fl_mqtt_door);
	while (!fl_worker_should_stop())
	{
		bool reload = ConfigReloadPending;
		long ingest_wait;

		fl_worker_turn();
		if (reload)
			apply_settings(fl_mqtt_door);
		ingest_wait = run_turn(fl_mqtt_door);
		report_statistics(fl_mqtt_door);
		if (!fl_worker_should_stop())
			fl_mqtt_door->poll = wait_for_work(fl_mqtt_door, set, next_wait(fl_mqtt_door, ingest_wait));
	}
	stop_door(fl_mqtt_door);
}
