/*-------------------------------------------------------------------------
 *
 * collect.c
 *		The changes of state tables that the current transaction has to make.
 *
 * Appends note them (fl_state_collect); before commit they are sorted, of each key
 * the last one is written (apply.c), and what cannot be written now because of
 * somebody's lock becomes a row of state_pending in the same transaction.  So a
 * key gets one version per transaction, however many values came, and locks are
 * taken in the order that state.h states.
 *
 * The transaction callback is registered when the library is loaded, behind that of
 * src/log: it therefore runs before it, and after publish(), which registers anew in
 * each transaction and writes its records first.
 *
 * A savepoint that is rolled back takes its changes along.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "fleetlog/config.h"
#include "fleetlog/guest.h"
#include "state_internal.h"

#define FIRST_COMPACT	4096	/* changes beyond which superseded ones are thrown away */

/* In `context`, a child of TopTransactionContext: gone with the transaction. */
static MemoryContext context = NULL;
static FlStateChange *changes = NULL;
static int	nchanges = 0;
static int	max_changes = 0;
static int	compact_at = FIRST_COMPACT;

/* Values that this transaction has put aside, to be taken back when it aborts. */
typedef struct PutAside
{
	Oid			stream;
	int32		shard;
	int64		log_offset;
} PutAside;

static PutAside *put_aside = NULL;
static int	nput_aside = 0;

static void
forget(void)
{
	/* The memory goes with the transaction's context. */
	context = NULL;
	changes = NULL;
	nchanges = max_changes = 0;
	compact_at = FIRST_COMPACT;
	put_aside = NULL;
	nput_aside = 0;
}

static void
free_change(FlStateChange *c)
{
	if (c->key != NULL)
		pfree(c->key);
	if (c->tenant != NULL)
		pfree(c->tenant);
	if (c->device != NULL)
		pfree(c->device);
	if (c->headers != NULL)
		pfree(c->headers);
	if (c->payload != NULL)
		pfree(c->payload);
}

/* ---- noting ---------------------------------------------------------------------- */

/* Of two changes of one key by one subtransaction the earlier is of no use any more. */
static void
compact(void)
{
	int			keep = 0;

	qsort(changes, nchanges, sizeof(FlStateChange), fl_state_change_cmp);
	for (int i = 0; i < nchanges; i++)
	{
		if (i + 1 < nchanges && changes[i].subid == changes[i + 1].subid &&
			fl_state_same_key(&changes[i], &changes[i + 1]))
			free_change(&changes[i]);
		else
			changes[keep++] = changes[i];
	}
	nchanges = keep;
	compact_at = Max(FIRST_COMPACT, 2 * nchanges);
}

MemoryContext
fl_state_note_context(void)
{
	if (context == NULL)
		context = AllocSetContextCreate(TopTransactionContext, "fleetlog state", ALLOCSET_DEFAULT_SIZES);
	return context;
}

void
fl_state_note(FlStateChange *c)
{
	c->subid = GetCurrentSubTransactionId();
	if (nchanges >= compact_at)
		compact();
	if (nchanges == max_changes)
	{
		int			n = max_changes ? max_changes * 2 : 64;

		changes = changes ? repalloc_huge(changes, n * sizeof(FlStateChange)) :
			MemoryContextAllocHuge(context, n * sizeof(FlStateChange));
		max_changes = n;
	}
	changes[nchanges++] = *c;
}

static FlBatchDecoder *
my_decoder(void)
{
	static FlBatchDecoder *decoder = NULL;

	if (decoder == NULL)
		decoder = fl_batch_decoder_create(TopMemoryContext);
	return decoder;
}

void
fl_state_collect(FlShard *shard, const FlAppend *batch, int64 base)
{
	FlBatchDecoder *decoder = my_decoder();
	FlStoredBatch stored = {
		.base_offset = base,.count = (int32) batch->nrecords,.append_ts = shard->last_ts,
		.foreign = batch->foreign,.tenant = batch->sender_tenant,.device = batch->sender_device,.role = batch->sender_role,
		.body = batch->body,.body_len = batch->body_len
	};
	FlLogRecord rec;
	FlStateChange c;
	MemoryContext old;
	int64		offset = base;

	old = MemoryContextSwitchTo(fl_state_note_context());
	fl_batch_decoder_open(decoder, &stored);
	while (fl_batch_decoder_next(decoder, &rec))
	{
		/* Where a segment ended within the batch its own base offset is not set. */
		rec.log_offset = offset++;
		if (fl_state_change_of(shard->key.stream, shard->key.shard, &rec, FL_STATE_IN_TRANSACTION, &c))
			fl_state_note(&c);
	}
	MemoryContextSwitchTo(old);
}

/* ---- putting aside ------------------------------------------------------------------ */

static Datum
varlena_datum(struct varlena *v, bool *isnull)
{
	*isnull = v == NULL;
	return PointerGetDatum(v);
}

static void
await(const FlStateChange *c)
{
	put_aside = put_aside ? repalloc(put_aside, sizeof(PutAside) * (nput_aside + 1)) :
		MemoryContextAlloc(context, sizeof(PutAside));
	put_aside[nput_aside++] = (PutAside) {
		.stream = c->stream,.shard = c->pos.shard,.log_offset = c->pos.log_offset
	};
	fl_state_wait_add(c->stream, c->pos.shard, c->pos.log_offset);
}

/*
 * An INSERT waits for whoever has locked the table (ALTER, REINDEX, LOCK TABLE), and its
 * caller holds shards.  With the locks in hand it waits for nobody.
 */
static void
lock_pending_briefly(void)
{
	static const char *const names[] = {"state_pending", "state_pending_pkey", "state_pending_id_seq"};
	Oid			nsp = get_namespace_oid(FL_STATE_SCHEMA, false);

	for (int i = 0; i < lengthof(names); i++)
	{
		Oid			relid = get_relname_relid(names[i], nsp);

		if (OidIsValid(relid) && !ConditionalLockRelationOid(relid, RowExclusiveLock))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("relation \"%s.%s\" is locked by another session", FL_STATE_SCHEMA, names[i]),
					 errdetail("A value that has to wait for a lock on its row is kept there."),
					 errhint("Retry the transaction.")));
	}
}

/* The transaction's record commits; its value waits in a row of state_pending. */
void
fl_state_defer(const FlStateChange *c, bool awaited)
{
	Oid			headers_type = fl_state_headers_type();
	Oid			types[12] = {REGCLASSOID, REGCLASSOID, TEXTOID, INT4OID, INT8OID, TIMESTAMPTZOID, INT4OID, BOOLOID,
	TEXTOID, TEXTOID, headers_type, BYTEAOID};
	Datum		values[12] = {
		ObjectIdGetDatum(c->state), ObjectIdGetDatum(c->stream), PointerGetDatum(c->key), Int32GetDatum(c->pos.shard),
		Int64GetDatum(c->pos.log_offset), TimestampTzGetDatum(c->pos.ts), Int32GetDatum(c->home), BoolGetDatum(c->cleared)
	};
	bool		nulls[12] = {false};

	lock_pending_briefly();
	values[8] = varlena_datum(c->tenant, &nulls[8]);
	values[9] = varlena_datum(c->device, &nulls[9]);
	values[10] = varlena_datum(c->headers, &nulls[10]);
	values[11] = varlena_datum(c->payload, &nulls[11]);
	fl_config_execute("INSERT INTO fleetlog.state_pending (state, stream, key, shard, log_offset, ts, home, cleared,"
					  " tenant, device, headers, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
					  12, types, values, nulls);
	fl_state_set_pending(true);
	if (awaited)
		await(c);
	pg_atomic_fetch_add_u64(&fl_state_stats()->deferred, 1);
}

/* ---- writing ---------------------------------------------------------------------------- */

static bool
is_last_of_key(int i)
{
	return i + 1 == nchanges || !fl_state_same_key(&changes[i], &changes[i + 1]);
}

/* All changes with the values that are not the last of their key left out, sorted. */
void
fl_state_apply(void)
{
	FlStateWriter writer;
	MemoryContext run;
	MemoryContext old;

	if (nchanges == 0)
		return;
	run = AllocSetContextCreate(context, "fleetlog state run", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(run);
	qsort(changes, nchanges, sizeof(FlStateChange), fl_state_change_cmp);
	/* What this command writes must find what an earlier one of the transaction wrote. */
	CommandCounterIncrement();
	fl_state_writer_begin(&writer);
	for (int i = 0; i < nchanges; i++)
	{
		if (!is_last_of_key(i))
			continue;
		if (!fl_state_lock_home(&changes[i]) || fl_state_write(&writer, &changes[i]) == FL_STATE_LOCKED)
			fl_state_defer(&changes[i], true);
	}
	fl_state_writer_end(&writer);
	nchanges = 0;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(run);
	if (nput_aside > 0)
		fl_worker_wake(FL_WORKER_STATE, 0);
}

/* ---- transaction ends ------------------------------------------------------------------------ */

static void
apply_before_commit(void)
{
	if (nchanges == 0)
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	fl_state_apply();
	PopActiveSnapshot();
}

static void
take_back(void)
{
	for (int i = 0; i < nput_aside; i++)
		fl_state_wait_remove(put_aside[i].stream, put_aside[i].shard, put_aside[i].log_offset);
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			apply_before_commit();
			break;
		case XACT_EVENT_COMMIT:
			if (nput_aside > 0)
				fl_worker_wake(FL_WORKER_STATE, 0);
			forget();
			break;
		case XACT_EVENT_ABORT:
			take_back();
			forget();
			break;
		case XACT_EVENT_PREPARE:
			forget();
			break;
		default:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId my, SubTransactionId parent, void *arg)
{
	int			keep = 0;

	if (nchanges == 0)
		return;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = 0; i < nchanges; i++)
			if (changes[i].subid == my)
				changes[i].subid = parent;
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		for (int i = 0; i < nchanges; i++)
		{
			if (changes[i].subid == my)
				free_change(&changes[i]);
			else
				changes[keep++] = changes[i];
		}
		nchanges = keep;
	}
}

void
fl_state_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
