/*-------------------------------------------------------------------------
 *
 * plugin.c
 *		Output plugin `fleetlog`: changes of a state table by logical decoding
 *		(REQUIREMENTS W1), for pg_recvlogical, fleetlog-watch and any other
 *		replication client.
 *
 * Options
 *		state		the state table (needed to stream, not to make a slot)
 *		keys		keys separated by commas, or a JSON array of them
 *		prefix		keys that begin with this; together with keys: either
 *		format		json (default) or binary
 *
 * An INSERT or UPDATE of a row is a `set`, a DELETE a `clear`; TRUNCATE is an
 * empty snapshot, which says that every key is gone.  The record that cleared a key
 * stands in fleetlog.state_cleared, written by the same transaction right behind the
 * DELETE, so a clear is held until then, or until it is known that none comes (a row
 * that was deleted by hand).  A position is the end of
 * the transaction's commit record and the number of the event in it, counted
 * over the events that this watch was sent.  Nothing is sent for a transaction
 * without events.
 *
 * Durability: a walsender decodes flushed WAL only.  A change that comes from a
 * quorum stream waits here until the standbys have confirmed it (L5).
 *
 * What keeps idle watches from holding back WAL: the position that a slot may
 * restart from moves when a list of running transactions is met in WAL.  The
 * server writes one every 15 s; on a busy server that is a lot of WAL, so we
 * write one after each FL_RUNNING_XACTS_BYTES.
 *
 * Runs under a historic snapshot: no table of ours may be read in the callbacks,
 * and the catalog cache must not be refreshed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"
#include "storage/fd.h"
#include "storage/standby.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pidfile.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"
#include "utils/timestamp.h"

#include "event.h"
#include "filter.h"
#include "fleetlog/catalog.h"
#include "fleetlog/compat.h"
#include "fleetlog/guest.h"
#include "fleetlog/log.h"
#include "fleetlog/shmem.h"
#include "fleetlog/watch.h"

#define FL_RUNNING_XACTS_BYTES	(16 * 1024 * 1024)

/* Confirmation of a record wakes us; that of a clear's commit may not, and the client wants answers. */
#define FL_CONFIRM_LOOK_MS		1000

typedef struct FlPlugin
{
	MemoryContext mcxt;			/* reset after each change */
	Oid			state;			/* InvalidOid: nothing was chosen (slot creation) */
	bool		binary;
	FlWatchFilter filter;
	Oid			cleared;		/* fleetlog.state_cleared */
	bool		holds;			/* a clear whose record is not known yet: */
	FlWatchEvent held;
	MemoryContext held_mcxt;
	bool		shards_known;	/* see open_quorum_shards */
	uint32		number;			/* events sent of this transaction */
	XLogRecPtr	running_at;		/* insert position at our last list of running transactions */
} FlPlugin;

extern void _PG_output_plugin_init(OutputPluginCallbacks *cb);

/* ---- options ---------------------------------------------------------------------- */

static const char *
option_value(DefElem *elem)
{
	if (elem->arg == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"%s\" needs a value", elem->defname)));
	return strVal(elem->arg);
}

static void
keys_from_json(FlWatchFilter *f, const char *value)
{
	Jsonb	   *json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(value)));
	JsonbIterator *it = JsonbIteratorInit(&json->root);
	JsonbValue	v;
	JsonbIteratorToken tok;

	while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
		if (tok == WJB_ELEM)
		{
			if (v.type != jbvString)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("option \"keys\" must be an array of strings")));
			fl_watch_filter_add(f, cstring_to_text_with_len(v.val.string.val, v.val.string.len));
		}
}

static void
parse_keys(FlWatchFilter *f, const char *value)
{
	f->by_keys = true;
	if (value[0] == '[')
	{
		keys_from_json(f, value);
		return;
	}
	for (;;)
	{
		size_t		len = strcspn(value, ",");

		if (len > 0)
			fl_watch_filter_add(f, cstring_to_text_with_len(value, len));
		if (value[len] == '\0')
			return;
		value += len + 1;
	}
}

/* In a transaction: the walsender may call us outside of one. */
static Oid
find_state(FlPlugin *p, const char *name)
{
	MemoryContext old = CurrentMemoryContext;
	bool		own = !IsTransactionState();
	RangeVar   *rv;
	Relation	rel;
	FlStateColumns cols;
	Oid			relid;
	bool		ok;

	if (own)
		StartTransactionCommand();
	rv = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(name)));
	/* Replication clients empty search_path: a bare name is looked for in schema public, too. */
	if (rv->schemaname == NULL && !OidIsValid(RangeVarGetRelid(rv, NoLock, true)))
		rv->schemaname = "public";
	rel = relation_openrv(rv, AccessShareLock);
	relid = RelationGetRelid(rel);
	ok = rel->rd_rel->relkind == RELKIND_RELATION && fl_state_columns(RelationGetDescr(rel), &cols);
	relation_close(rel, AccessShareLock);
	p->cleared = get_relname_relid("state_cleared", get_namespace_oid("fleetlog", false));
	if (own)
		CommitTransactionCommand();
	MemoryContextSwitchTo(old);
	if (!ok)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a state table", name),
				 errhint("State tables are made with fleetlog.create_state().")));
	return relid;
}

static void
parse_options(FlPlugin *p, List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *elem = lfirst(lc);

		if (strcmp(elem->defname, "state") == 0)
			p->state = find_state(p, option_value(elem));
		else if (strcmp(elem->defname, "keys") == 0)
			parse_keys(&p->filter, option_value(elem));
		else if (strcmp(elem->defname, "prefix") == 0)
		{
			p->filter.prefix = pstrdup(option_value(elem));
			p->filter.prefix_len = strlen(p->filter.prefix);
		}
		else if (strcmp(elem->defname, "format") == 0 && strcmp(option_value(elem), "binary") == 0)
			p->binary = true;
		else if (strcmp(elem->defname, "format") == 0 && strcmp(option_value(elem), "json") == 0)
			p->binary = false;
		else
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("option \"%s\"%s%s is not known", elem->defname,
							elem->arg ? " = " : "", elem->arg ? strVal(elem->arg) : ""),
					 errhint("Options are state, keys, prefix, and format (json or binary).")));
	}
	fl_watch_filter_sort(&p->filter);
}

/*
 * What a quorum stream had before the server started is unconfirmed until the
 * standbys say so, which only the entry of its shard knows, and nobody may have made
 * that yet.  The callbacks cannot; whatever comes later is written through an entry.
 * In recovery there is nothing to wait for.
 */
static void
open_quorum_shards(FlPlugin *p)
{
	MemoryContext old = CurrentMemoryContext;
	bool		own = !IsTransactionState();
	const Oid  *streams;
	Oid		   *copy;
	int			n;

	if (fl_shared == NULL || RecoveryInProgress())
		return;
	if (own)
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
	}
	/* Opening may refresh the catalog, of which the list is a part. */
	streams = fl_stream_list(&n);
	copy = palloc(sizeof(Oid) * Max(n, 1));
	memcpy(copy, streams, sizeof(Oid) * n);
	for (int i = 0; i < n; i++)
	{
		const FlStreamInfo *info = fl_stream_lookup(copy[i]);
		int32		shards = info != NULL && info->durability == FL_DURABILITY_QUORUM ? info->shards : 0;

		for (int32 s = 0; s < shards; s++)
			(void) fl_log_tail(copy[i], s);
	}
	if (own)
	{
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	MemoryContextSwitchTo(old);
	p->shards_known = true;
}

static void
plugin_startup(LogicalDecodingContext *ctx, OutputPluginOptions *opt, bool is_init)
{
	FlPlugin   *p = palloc0(sizeof(FlPlugin));

	p->mcxt = AllocSetContextCreate(ctx->context, "fleetlog watch", ALLOCSET_DEFAULT_SIZES);
	p->held_mcxt = AllocSetContextCreate(ctx->context, "fleetlog watch clear", ALLOCSET_SMALL_SIZES);
	parse_options(p, ctx->output_plugin_options);
	if (!is_init && !OidIsValid(p->state))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"state\" is needed"),
				 errhint("Name the state table to watch, for instance: pg_recvlogical -o state=device_state.")));
	if (!is_init)
		open_quorum_shards(p);
	ctx->output_plugin_private = p;
	ctx->streaming = false;		/* plugin_stream_abort tells why this is said */
	opt->output_type = p->binary ? OUTPUT_PLUGIN_BINARY_OUTPUT : OUTPUT_PLUGIN_TEXTUAL_OUTPUT;
}

static void
plugin_shutdown(LogicalDecodingContext *ctx)
{
}

/* ---- not before it is durable ----------------------------------------------------------- */

/*
 * A change is durable when its record is; a row that was deleted by hand, without a
 * record, when its commit is.  Nobody has used a shard that has no entry: it is of a
 * local stream (open_quorum_shards), or of one that is gone.
 */
static bool
is_durable(const FlWatchEvent *e, XLogRecPtr end_lsn)
{
	FlShard    *s = fl_shard_find(e->stream, e->has_place ? e->shard : 0);

	if (s == NULL || !s->quorum)
		return true;
	if (e->has_place)
		return e->log_offset < (int64) pg_atomic_read_u64(&s->confirmed_tail);
	return pg_atomic_read_u64(&fl_shared->confirmed_lsn) >= end_lsn;
}

/*
 * Is the server being shut down?  It stops our workers first and then waits for
 * walsenders to end, which look for that between two changes only: one that waits
 * here for a confirmation that nobody gives any more would keep the server up.
 * Nothing in memory tells us, but the line that pg_ctl reads does.
 */
static bool
server_is_stopping(void)
{
	FILE	   *file = AllocateFile("postmaster.pid", "r");
	char		line[MAXPGPATH];
	bool		stopping = false;

	if (file == NULL)
		return false;
	for (int i = 1; fgets(line, sizeof(line), file) != NULL; i++)
		if (i == LOCK_FILE_LINE_PM_STATUS)
			stopping = strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
	FreeFile(file);
	return stopping;
}

static void
wait_durable(LogicalDecodingContext *ctx, const FlWatchEvent *e, XLogRecPtr end_lsn)
{
	const FlPlugin *p = ctx->output_plugin_private;

	if (fl_shared == NULL || RecoveryInProgress() || !OidIsValid(e->stream))
		return;
	if (!p->shards_known)
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("ending the watch, since the server was promoted"),
				 errhint("Connect again and go on from the last position.")));
	if (is_durable(e, end_lsn))
		return;
	fl_confirm_want(end_lsn);
	fl_tail_wait_begin(e->stream, FL_WAIT_WATCH, DT_NOEND);
	PG_TRY();
	{
		for (;;)
		{
			fl_tail_wait_arm();
			if (is_durable(e, end_lsn))
				break;
			(void) fl_tail_wait_sleep(TimestampTzPlusMilliseconds(GetCurrentTimestamp(), FL_CONFIRM_LOOK_MS));
			if (!is_durable(e, end_lsn) && server_is_stopping())
				ereport(FATAL,
						(errcode(ERRCODE_ADMIN_SHUTDOWN),
						 errmsg("ending the watch, since the server shuts down before synchronous standbys have confirmed the next change")));
			/* Answers the client, and notices one that has gone. */
			OutputPluginUpdateProgress(ctx, false);
		}
	}
	PG_FINALLY();
	{
		fl_tail_wait_end();
	}
	PG_END_TRY();
}

/* ---- callbacks ------------------------------------------------------------------------------ */

static void
send_event(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, FlWatchEvent *e)
{
	FlPlugin   *p = ctx->output_plugin_private;

	wait_durable(ctx, e, txn->end_lsn);
	e->lsn = txn->end_lsn;
	e->number = ++p->number;
	OutputPluginPrepareWrite(ctx, true);
	if (p->binary)
		fl_watch_write_binary(ctx->out, e);
	else
	{
		e->stream_name = OidIsValid(e->stream) ? get_rel_name(e->stream) : NULL;
		fl_watch_write_json(ctx->out, e);
	}
	OutputPluginWrite(ctx, true);
}

/* What is known of the deleted row, which is not where the clear stands. */
static void
hold_clear(FlPlugin *p, ReorderBufferTXN *txn, const FlWatchEvent *row)
{
	uint8	   *key;

	MemoryContextReset(p->held_mcxt);
	key = MemoryContextAlloc(p->held_mcxt, Max(row->key_len, 1));
	memcpy(key, row->key, row->key_len);
	p->held = (FlWatchEvent) {
		.kind = FL_WATCH_CLEAR,.stream = row->stream,.key = key,.key_len = row->key_len,
		.has_ts = true,.ts = FL_TXN_COMMIT_TIME(txn),.headers_len = -1,.payload_len = -1
	};
	p->holds = true;
}

static void
send_held(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	FlPlugin   *p = ctx->output_plugin_private;

	if (!p->holds)
		return;
	p->holds = false;
	send_event(ctx, txn, &p->held);
}

static void
plugin_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	FlPlugin   *p = ctx->output_plugin_private;

	p->number = 0;
	p->holds = false;
}

/* A row of the state table has changed. */
static void
on_row(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation rel, HeapTuple tuple, bool deleted)
{
	FlPlugin   *p = ctx->output_plugin_private;
	FlWatchEvent e = {.kind = FL_WATCH_SET};
	FlStateColumns cols;

	send_held(ctx, txn);
	/* A deleted row is known by its primary key; without one nothing can be said about it. */
	if (tuple == NULL || !fl_state_columns(RelationGetDescr(rel), &cols))
		return;
	fl_watch_from_tuple(&e, tuple, RelationGetDescr(rel), &cols);
	if (e.key_len < 0 || !fl_watch_filter_wants(&p->filter, e.key, e.key_len))
		return;
	if (deleted)
		hold_clear(p, txn, &e);
	else
		send_event(ctx, txn, &e);
}

static void
plugin_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation rel, ReorderBufferChange *change)
{
	FlPlugin   *p = ctx->output_plugin_private;
	bool		deleted = change->action == REORDER_BUFFER_CHANGE_DELETE;
	HeapTuple	tuple = NULL;
	MemoryContext old;

	if (RelationGetRelid(rel) != p->state && !(p->holds && RelationGetRelid(rel) == p->cleared))
		return;
	if ((deleted ? change->data.tp.oldtuple : change->data.tp.newtuple) != NULL)
		tuple = FL_REORDER_TUPLE(deleted ? change->data.tp.oldtuple : change->data.tp.newtuple);
	old = MemoryContextSwitchTo(p->mcxt);
	if (RelationGetRelid(rel) == p->state)
		on_row(ctx, txn, rel, tuple, deleted);
	else if (!deleted && tuple != NULL &&
			 fl_watch_place_of_clear(&p->held, p->state, tuple, RelationGetDescr(rel)))
		send_held(ctx, txn);
	MemoryContextSwitchTo(old);
	MemoryContextReset(p->mcxt);
}

static void
plugin_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int nrels, Relation rels[],
				ReorderBufferChange *change)
{
	FlPlugin   *p = ctx->output_plugin_private;

	for (int i = 0; i < nrels; i++)
	{
		FlWatchEvent e = {.kind = FL_WATCH_BEGIN_SNAPSHOT,.key_len = -1,.headers_len = -1,.payload_len = -1};

		if (RelationGetRelid(rels[i]) != p->state)
			continue;
		send_held(ctx, txn);
		e.ts = FL_TXN_COMMIT_TIME(txn);
		e.has_ts = true;
		send_event(ctx, txn, &e);
		e.kind = FL_WATCH_END_SNAPSHOT;
		send_event(ctx, txn, &e);
	}
}

static void
plugin_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	FlPlugin   *p = ctx->output_plugin_private;
	XLogRecPtr	at;
	MemoryContext old = MemoryContextSwitchTo(p->mcxt);

	send_held(ctx, txn);
	MemoryContextSwitchTo(old);
	MemoryContextReset(p->mcxt);
	OutputPluginUpdateProgress(ctx, p->number == 0);
	if (RecoveryInProgress() || !OidIsValid(p->state))
		return;
	at = GetXLogInsertRecPtr();
	if (XLogRecPtrIsInvalid(p->running_at))
		p->running_at = at;
	else if (at - p->running_at >= FL_RUNNING_XACTS_BYTES)
	{
		p->running_at = at;
		(void) LogStandbySnapshot();
	}
}

/*
 * Called by the decoding of streams (src/log/decode.c) before it builds rows:
 * a watch of a state table does not want them.
 */
bool
fl_watch_wants_streams(LogicalDecodingContext *ctx)
{
	return ctx->callbacks.change_cb != plugin_change;
}

/*
 * Nothing is ever sent before it is committed.  Yet server 18 (seen up to 18.6) asks
 * for this callback when it drops changes of a transaction that has long been rolled
 * back, had subtransactions and was larger than logical_decoding_work_mem; without
 * one the slot could not pass that transaction any more.
 */
static void
plugin_stream_abort(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr abort_lsn)
{
}

void
_PG_output_plugin_init(OutputPluginCallbacks *cb)
{
	cb->startup_cb = plugin_startup;
	cb->begin_cb = plugin_begin;
	cb->change_cb = plugin_change;
	cb->truncate_cb = plugin_truncate;
	cb->commit_cb = plugin_commit;
	cb->stream_abort_cb = plugin_stream_abort;
	cb->shutdown_cb = plugin_shutdown;
}
