/*-------------------------------------------------------------------------
 *
 * views.c
 *		The set-returning functions under fleetlog.stat_worker, stat_listener,
 *		stat_connection and stat_stream.
 *
 * They read shared memory and return what they see at that instant.  Who may
 * call them is said by grants in sql/modules/075_workers.sql.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/pg_lsn.h"
#include "utils/timestamp.h"

#include "fleetlog/net.h"
#include "fleetlog/settings.h"
#include "fleetlog/worker.h"
#include "shmem_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_worker);
PG_FUNCTION_INFO_V1(fl_sql_stat_listener);
PG_FUNCTION_INFO_V1(fl_sql_stat_connection);
PG_FUNCTION_INFO_V1(fl_sql_stat_shard);
PG_FUNCTION_INFO_V1(fl_sql_stat_server);

/* Texts in shared memory were written by us, but not all by careful code. */
static Datum
text_or_null(const char *s, bool *isnull)
{
	*isnull = s[0] == '\0';
	return *isnull ? (Datum) 0 : CStringGetTextDatum(s);
}

static void
put_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* ---- workers ------------------------------------------------------------------ */

#define WORKER_FIXED_COLUMNS	7

StaticAssertDecl(FL_N_COUNTERS == 25, "function fleetlog._stat_worker() has a column for each counter, in this order");

Datum
fl_sql_stat_worker(PG_FUNCTION_ARGS)
{
	fl_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < FL_MAX_WORKERS; i++)
	{
		Datum		values[WORKER_FIXED_COLUMNS + FL_N_COUNTERS];
		bool		nulls[WORKER_FIXED_COLUMNS + FL_N_COUNTERS] = {0};
		char		launcher_state[sizeof(fl_core->launcher_state)];
		FlWorkerSlot slot;

		LWLockAcquire(fl_shared->slots_lock, LW_SHARED);
		slot = fl_shared->slots[i];
		strlcpy(launcher_state, fl_core->launcher_state, sizeof(launcher_state));
		LWLockRelease(fl_shared->slots_lock);
		if (slot.pid == 0)
			continue;
		slot.state[sizeof(slot.state) - 1] = '\0';
		slot.stop_point[sizeof(slot.stop_point) - 1] = '\0';
		values[0] = CStringGetTextDatum(fl_worker_kind_name(slot.kind));
		values[1] = Int32GetDatum(slot.index);
		values[2] = Int32GetDatum(slot.pid);
		values[3] = TimestampTzGetDatum(slot.started);
		values[4] = Int64GetDatum((int64) slot.incarnation - 1);
		values[5] = text_or_null(slot.kind == FL_WORKER_LAUNCHER ? launcher_state : slot.state, &nulls[5]);
		values[6] = text_or_null(slot.stop_point, &nulls[6]);
		for (int c = 0; c < FL_N_COUNTERS; c++)
			values[WORKER_FIXED_COLUMNS + c] = Int64GetDatum((int64) slot.counters[c]);
		put_row(fcinfo, values, nulls);
	}
	return (Datum) 0;
}

/* ---- listeners ------------------------------------------------------------------ */

Datum
fl_sql_stat_listener(PG_FUNCTION_ARGS)
{
	fl_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < FL_MAX_LISTENERS; i++)
	{
		Datum		values[10];
		bool		nulls[10] = {0};
		FlListenerInfo l;

		LWLockAcquire(fl_shared->slots_lock, LW_SHARED);
		l = fl_core->listeners[i];
		LWLockRelease(fl_shared->slots_lock);
		if (l.door < 0)
			continue;
		values[0] = CStringGetTextDatum(l.protocol);
		values[1] = CStringGetTextDatum(l.address);
		values[2] = Int32GetDatum(l.door);
		values[3] = Int32GetDatum(l.pid);
		values[4] = text_or_null(l.state, &nulls[4]);
		values[5] = Int64GetDatum((int64) l.open);
		values[6] = Int64GetDatum((int64) l.accepted);
		values[7] = Int64GetDatum((int64) l.handshakes);
		values[8] = Int64GetDatum((int64) l.resumed);
		values[9] = Int64GetDatum((int64) l.failed_handshakes);
		put_row(fcinfo, values, nulls);
	}
	return (Datum) 0;
}

/* ---- connections ----------------------------------------------------------------- */

/*
 * The registry is copied under its lock before rows are made, so that a big
 * result, which may go to disk, does not keep devices from connecting.
 */
static FlConnInfo *
copy_registry(long *count)
{
	HASH_SEQ_STATUS scan;
	FlConnInfo *entry;
	FlConnInfo *copy;
	long		cap;
	long		n = 0;

	LWLockAcquire(fl_shared->registry_lock, LW_SHARED);
	cap = hash_get_num_entries(fl_registry);
	LWLockRelease(fl_shared->registry_lock);
	cap += 64;
	copy = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(FlConnInfo) * cap);

	LWLockAcquire(fl_shared->registry_lock, LW_SHARED);
	hash_seq_init(&scan, fl_registry);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (n < cap)
			copy[n++] = *entry;
	}
	LWLockRelease(fl_shared->registry_lock);
	*count = n;
	return copy;
}

#define CONNECTION_COLUMNS 30

/* Columns tenant, device and role. */
static int
put_identity(const FlConnInfo *c, Datum *values, bool *nulls, int i)
{
	const char *slash = c->kind == FL_CONN_DEVICE ? strchr(c->identity, '/') : NULL;

	nulls[i] = nulls[i + 1] = slash == NULL;
	if (slash != NULL)
	{
		values[i] = PointerGetDatum(cstring_to_text_with_len(c->identity, slash - c->identity));
		values[i + 1] = CStringGetTextDatum(slash + 1);
	}
	i += 2;
	nulls[i] = c->kind != FL_CONN_ROLE;
	values[i++] = CStringGetTextDatum(c->identity);
	return i;
}

/* Columns listener to session_expiry_seconds. */
static int
put_transport(const FlConnInfo *c, Datum *values, bool *nulls, int i)
{
	static const char *const listeners[] = {"mqtt", "mqtts", "ws", "wss"};
	static const char *const kafka[] = {"kafka", "kafkas"};
	bool		is_kafka = c->protocol == FL_CONN_KAFKA;
	const char *cipher = c->tls_version != 0 ? fl_net_cipher_name(c->tls_cipher) : NULL;

	values[i++] = CStringGetTextDatum(is_kafka ? kafka[c->listener & FL_NET_KIND_TLS] :
									  listeners[c->listener & (FL_NET_KIND_TLS | FL_NET_KIND_WEBSOCKET)]);
	nulls[i] = c->tls_version == 0;
	values[i++] = CStringGetTextDatum(c->tls_version == 0x0304 ? "TLSv1.3" : "TLSv1.2");
	values[i] = text_or_null(cipher != NULL ? cipher : "", &nulls[i]);
	i++;
	values[i++] = Int64GetDatum((int64) c->packets_in);
	values[i++] = Int64GetDatum((int64) c->packets_out);
	values[i++] = Int64GetDatum((int64) c->bytes_in);
	values[i++] = Int64GetDatum((int64) c->bytes_out);
	nulls[i] = nulls[i + 1] = is_kafka;
	values[i++] = Int32GetDatum((int32) c->inflight);
	values[i++] = BoolGetDatum(c->session);
	nulls[i] = !c->session;
	values[i++] = Int64GetDatum((int64) c->session_expiry);
	return i;
}

static const char *
protocol_name(const FlConnInfo *c)
{
	if (c->protocol == FL_CONN_KAFKA)
		return "kafka";
	return c->protocol == 3 ? "3.1" : c->protocol == 4 ? "3.1.1" : "5.0";
}

/* Columns published to lagging, which are MQTT's. */
static int
put_messages(const FlConnInfo *c, Datum *values, bool *nulls, int i)
{
	int			first = i;

	values[i++] = Int64GetDatum((int64) c->n_in);
	values[i++] = Int64GetDatum((int64) c->n_out);
	values[i++] = Int64GetDatum((int64) c->n_dropped);
	values[i++] = Int32GetDatum((int32) c->n_subscriptions);
	values[i++] = Int32GetDatum((int32) c->queued);
	values[i++] = BoolGetDatum(c->lagging);
	for (int k = first; k < i; k++)
		nulls[k] = c->protocol == FL_CONN_KAFKA;
	return i;
}

static void
put_connection(FunctionCallInfo fcinfo, const FlConnInfo *c)
{
	Datum		values[CONNECTION_COLUMNS];
	bool		nulls[CONNECTION_COLUMNS] = {0};
	int			i = 0;

	values[i++] = Int64GetDatum((int64) c->conn_id);
	values[i++] = CStringGetTextDatum(c->client_id);
	nulls[i] = c->identity[0] == '\0';
	values[i++] = CStringGetTextDatum(c->identity);
	nulls[i] = c->peer[0] == '\0';
	values[i++] = CStringGetTextDatum(c->peer);
	values[i++] = CStringGetTextDatum(protocol_name(c));
	values[i++] = Int32GetDatum(c->door);
	nulls[i] = c->protocol == FL_CONN_KAFKA;
	values[i++] = Int32GetDatum(c->keep_alive);
	values[i++] = TimestampTzGetDatum(c->connected_at);
	i = put_messages(c, values, nulls, i);
	values[i++] = BoolGetDatum(c->evict);
	nulls[i] = !c->evict;
	values[i++] = Int32GetDatum(c->evict_reason);
	i = put_identity(c, values, nulls, i);
	i = put_transport(c, values, nulls, i);
	values[i] = text_or_null(c->software, &nulls[i]);
	i++;
	Assert(i == CONNECTION_COLUMNS);
	put_row(fcinfo, values, nulls);
}

Datum
fl_sql_stat_connection(PG_FUNCTION_ARGS)
{
	FlConnInfo *copy;
	long		n;

	fl_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	copy = copy_registry(&n);
	for (long i = 0; i < n; i++)
		put_connection(fcinfo, &copy[i]);
	pfree(copy);
	return (Datum) 0;
}

/* ---- shards ------------------------------------------------------------------------ */

#define SHARD_COLUMNS 18

static Datum
lsn_or_null(XLogRecPtr lsn, bool *isnull)
{
	*isnull = XLogRecPtrIsInvalid(lsn);
	return LSNGetDatum(lsn);
}

static void
put_shard(FunctionCallInfo fcinfo, FlShard *s)
{
	Datum		values[SHARD_COLUMNS];
	bool		nulls[SHARD_COLUMNS] = {0};
	XLogRecPtr	commit_lsn;
	XLogRecPtr	confirm_lsn;
	FlRetentionStat retention;

	SpinLockAcquire(&s->mutex);
	commit_lsn = s->commit_lsn;
	confirm_lsn = s->confirm_lsn;
	retention = s->retention;
	SpinLockRelease(&s->mutex);
	values[0] = ObjectIdGetDatum(s->key.stream);
	values[1] = Int32GetDatum(s->key.shard);
	values[2] = Int64GetDatum((int64) pg_atomic_read_u64(&s->head));
	values[3] = Int64GetDatum((int64) pg_atomic_read_u64(&s->visible_tail));
	values[4] = Int64GetDatum((int64) pg_atomic_read_u64(&s->flushed_tail));
	values[5] = Int64GetDatum((int64) pg_atomic_read_u64(&s->confirmed_tail));
	values[6] = Int64GetDatum(fl_shard_durable_tail(s));
	values[7] = lsn_or_null(commit_lsn, &nulls[7]);
	values[8] = lsn_or_null(confirm_lsn, &nulls[8]);
	values[9] = Int64GetDatum((int64) pg_atomic_read_u64(&s->n_records));
	values[10] = Int64GetDatum((int64) pg_atomic_read_u64(&s->n_batches));
	values[11] = Int64GetDatum((int64) pg_atomic_read_u64(&s->n_bytes));
	values[12] = Int64GetDatum((int64) pg_atomic_read_u64(&s->n_lock_waits));
	values[13] = Int64GetDatum((int64) pg_atomic_read_u64(&s->n_off_key));
	nulls[14] = retention.run_at == 0;
	values[14] = TimestampTzGetDatum(retention.run_at);
	nulls[15] = retention.dropped_at == 0;
	values[15] = TimestampTzGetDatum(retention.dropped_at);
	values[16] = Int64GetDatum((int64) retention.dropped);
	nulls[17] = retention.waits_for[0] == '\0';
	values[17] = CStringGetTextDatum(retention.waits_for);
	put_row(fcinfo, values, nulls);
}

/* Shards of this database that were used since server start. */
Datum
fl_sql_stat_shard(PG_FUNCTION_ARGS)
{
	HASH_SEQ_STATUS scan;
	FlShardEntry *entry;
	FlShardKey *keys;
	int			n = 0;

	fl_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	keys = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(FlShardKey) * fl_max_shards);
	LWLockAcquire(fl_shared->shard_map_lock, LW_SHARED);
	hash_seq_init(&scan, fl_shard_map);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->shard.key.database == MyDatabaseId && n < fl_max_shards)
			keys[n++] = entry->shard.key;
	}
	LWLockRelease(fl_shared->shard_map_lock);

	for (int i = 0; i < n; i++)
	{
		FlShard    *shard = fl_shard_find(keys[i].stream, keys[i].shard);

		if (shard != NULL)
			put_shard(fcinfo, shard);
	}
	pfree(keys);
	return (Datum) 0;
}

/* ---- the server as a whole ------------------------------------------------------------ */

/* One row: what fleetlog takes from the server, and where publication stands. */
Datum
fl_sql_stat_server(PG_FUNCTION_ARGS)
{
	Datum		values[9];
	bool		nulls[9] = {0};
	uint64		used;
	TimestampTz since;

	fl_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	SpinLockAcquire(&fl_shared->budget_mutex);
	used = fl_shared->xids_used;
	since = fl_shared->xids_since;
	SpinLockRelease(&fl_shared->budget_mutex);

	values[0] = BoolGetDatum(fl_shared->paused);
	values[1] = BoolGetDatum(fl_disk_reserve_reached());
	values[2] = Int64GetDatum((int64) used);
	values[3] = TimestampTzGetDatum(since);
	nulls[3] = since == 0;
	/* A rate over less than a second says nothing. */
	nulls[4] = since == 0 || GetCurrentTimestamp() - since < USECS_PER_SEC;
	values[4] = nulls[4] ? (Datum) 0 :
		Int64GetDatum((int64) (used * (double) USECS_PER_DAY / (double) (GetCurrentTimestamp() - since)));
	values[5] = lsn_or_null(pg_atomic_read_u64(&fl_shared->max_commit_lsn), &nulls[5]);
	values[6] = lsn_or_null(pg_atomic_read_u64(&fl_shared->published_lsn), &nulls[6]);
	values[7] = lsn_or_null(pg_atomic_read_u64(&fl_shared->confirm_wanted), &nulls[7]);
	values[8] = lsn_or_null(pg_atomic_read_u64(&fl_shared->confirmed_lsn), &nulls[8]);
	put_row(fcinfo, values, nulls);
	return (Datum) 0;
}
