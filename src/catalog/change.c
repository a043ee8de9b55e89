/*-------------------------------------------------------------------------
 *
 * change.c
 *		Telling other processes, at commit, what a transaction has changed.
 *
 * Two kinds of news:
 *
 *		configuration	streams, mounts, tenants, policies.  Backends learn it
 *						through the relation cache invalidation of the changed
 *						table, which the server sends at commit; front doors,
 *						which may be idle, are woken besides and see the
 *						generation in shared memory move.
 *		revocations		credentials and devices that must be cut off at once.
 *						They go through a ring in shared memory (auth_shmem.c),
 *						so that revoking one device among millions costs each
 *						front door one comparison per connection.
 *
 *		heads			of shards, which hide rows from readers at once.
 *
 * Triggers on the tables collect the news, so that it does not matter who
 * writes them.  What a rolled back savepoint noted is forgotten.  News is
 * posted after the commit record is written and before locks are released;
 * nothing here can fail there: the lists are built beforehand.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "catalog_internal.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"

PG_FUNCTION_INFO_V1(fl_sql_catalog_changed);
PG_FUNCTION_INFO_V1(fl_sql_stream_registered);
PG_FUNCTION_INFO_V1(fl_sql_identity_changed);
PG_FUNCTION_INFO_V1(fl_sql_head_changed);

typedef struct PendingRevocation
{
	SubTransactionId subid;
	FlRevocation rev;
} PendingRevocation;

typedef struct DroppedStream
{
	SubTransactionId subid;
	Oid			stream;
} DroppedStream;

typedef struct RaisedHead
{
	SubTransactionId subid;
	Oid			stream;
	int32		shard;
	int64		head;
	int64		tail;			/* of a row that a restore brings, else 0 */
} RaisedHead;

/* Everything below lives until the end of the top transaction. */
static bool pending_catalog = false;
static bool pending_names = false;
static bool pending_rights = false;
static bool pending_everybody = false;
static PendingRevocation *pending = NULL;
static int	n_pending = 0;
static int	pending_cap = 0;
static List *dropped_streams = NIL; /* of DroppedStream */
static List *raised_heads = NIL;	/* of RaisedHead */

/*
 * Whether this is the database that the workers serve: revocations elsewhere
 * concern nobody who is connected.  Looked up when news is noted, since nothing
 * may be looked up at commit.
 */
static bool is_served = false;

/* Beyond this many, one "everybody, look again" is cheaper for all. */
#define MAX_PENDING		(FL_AUTH_REVOCATIONS / 2)

static void
forget_pending(void)
{
	pending_catalog = pending_names = pending_rights = pending_everybody = false;
	pending = NULL;				/* was in TopTransactionContext */
	n_pending = pending_cap = 0;
	dropped_streams = NIL;
	raised_heads = NIL;
}

static void
look_whether_served(void)
{
	char	   *name = get_database_name(MyDatabaseId);

	is_served = name != NULL && fl_database != NULL && strcmp(name, fl_database) == 0;
}

static void
wake_workers(void)
{
	for (int i = 0; i < FL_DOORS; i++)
		fl_worker_wake(FL_WORKER_FRONT_DOOR, i);
	fl_worker_wake(FL_WORKER_RUNNER, 0);
}

/* Post the news.  Runs with interrupts held; must not raise an error. */
static void
post_news(void)
{
	ListCell   *lc;

	if (fl_shared == NULL)
		return;
	foreach(lc, raised_heads)
	{
		RaisedHead *h = lfirst(lc);

		fl_shard_publish_head(h->stream, h->shard, h->head);
		if (h->tail > 0)
			fl_shard_publish_restored(h->stream, h->shard, Max(h->head, h->tail));
	}
	foreach(lc, dropped_streams)
		fl_shard_forget(((DroppedStream *) lfirst(lc))->stream);
	if (pending_names)
		fl_auth_names_changed();
	/* Roles and their memberships belong to the whole cluster, whichever database this is. */
	if (pending_rights)
	{
		pg_atomic_fetch_add_u64(&fl_shared->catalog_generation, 1);
		wake_workers();
	}
	if (!is_served)
		return;
	if (n_pending > 0 || pending_everybody)
	{
		FlRevocation revs[MAX_PENDING];
		int			n = Min(n_pending, MAX_PENDING);

		for (int i = 0; i < n; i++)
			revs[i] = pending[i].rev;
		fl_auth_revoke(revs, n, pending_everybody);
	}
	if (pending_catalog || n_pending > 0 || pending_everybody)
	{
		pg_atomic_fetch_add_u64(&fl_shared->catalog_generation, 1);
		wake_workers();
	}
}

static void
change_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (pending_catalog || pending_names || pending_rights || pending_everybody || n_pending > 0 ||
				dropped_streams != NIL || raised_heads != NIL)
				post_news();
			forget_pending();
			break;
		case XACT_EVENT_PRE_PREPARE:

			/* The news could not be posted when COMMIT PREPARED comes from elsewhere. */
			if (pending_everybody || n_pending > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has revoked a fleetlog credential")));
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			forget_pending();
			break;
		default:
			break;
	}
}

/* A savepoint is released: what it noted belongs to the level above. */
static void
inherit_pending(SubTransactionId from, SubTransactionId to)
{
	ListCell   *lc;

	for (int i = 0; i < n_pending; i++)
		if (pending[i].subid == from)
			pending[i].subid = to;
	foreach(lc, dropped_streams)
		if (((DroppedStream *) lfirst(lc))->subid == from)
			((DroppedStream *) lfirst(lc))->subid = to;
	foreach(lc, raised_heads)
		if (((RaisedHead *) lfirst(lc))->subid == from)
			((RaisedHead *) lfirst(lc))->subid = to;
}

/* A savepoint is rolled back: what it noted has not happened. */
static void
drop_pending(SubTransactionId subid)
{
	ListCell   *lc;
	int			keep = 0;

	for (int i = 0; i < n_pending; i++)
		if (pending[i].subid != subid)
			pending[keep++] = pending[i];
	n_pending = keep;
	foreach(lc, dropped_streams)
		if (((DroppedStream *) lfirst(lc))->subid == subid)
			dropped_streams = foreach_delete_current(dropped_streams, lc);
	foreach(lc, raised_heads)
		if (((RaisedHead *) lfirst(lc))->subid == subid)
			raised_heads = foreach_delete_current(raised_heads, lc);
}

static void
change_subxact_callback(SubXactEvent event, SubTransactionId mysubid,
						SubTransactionId parent, void *arg)
{
	if (n_pending == 0 && dropped_streams == NIL && raised_heads == NIL)
		return;
	if (event == SUBXACT_EVENT_COMMIT_SUB)
		inherit_pending(mysubid, parent);
	else if (event == SUBXACT_EVENT_ABORT_SUB)
		drop_pending(mysubid);
}

void
fl_change_init(void)
{
	RegisterXactCallback(change_xact_callback, NULL);
	RegisterSubXactCallback(change_subxact_callback, NULL);
}

void
fl_change_note_catalog(void)
{
	pending_catalog = true;
	look_whether_served();
}

void
fl_change_note_dropped_stream(Oid stream)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	DroppedStream *d = palloc(sizeof(*d));

	d->subid = GetCurrentSubTransactionId();
	d->stream = stream;
	dropped_streams = lappend(dropped_streams, d);
	MemoryContextSwitchTo(old);
}

void
fl_change_note_names(void)
{
	pending_names = true;
}

void
fl_change_note_rights(void)
{
	pending_rights = true;
}

void
fl_change_note_everybody(void)
{
	pending_everybody = true;
	look_whether_served();
}

static void
note_revocation(int64 credential, uint64 device_hash)
{
	look_whether_served();
	if (n_pending >= MAX_PENDING)
	{
		pending_everybody = true;
		return;
	}
	if (n_pending == pending_cap)
	{
		int			cap = pending_cap == 0 ? 16 : pending_cap * 2;
		PendingRevocation *bigger = MemoryContextAlloc(TopTransactionContext, cap * sizeof(*bigger));

		if (n_pending > 0)
			memcpy(bigger, pending, n_pending * sizeof(*bigger));
		pending = bigger;
		pending_cap = cap;
	}
	pending[n_pending].subid = GetCurrentSubTransactionId();
	pending[n_pending].rev.credential = credential;
	pending[n_pending].rev.device_hash = device_hash;
	n_pending++;
}

void
fl_change_note_credential(int64 credential)
{
	note_revocation(credential, 0);
}

void
fl_change_note_device(const char *tenant, const char *device)
{
	note_revocation(0, fl_auth_device_hash(tenant, device));
}

/* ---- Triggers ----------------------------------------------------------------- */

static TriggerData *
trigger_data(FunctionCallInfo fcinfo)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("not called as a trigger")));
	return (TriggerData *) fcinfo->context;
}

/* Statement trigger of stream_config, mount_config, tenant and policy. */
Datum
fl_sql_catalog_changed(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);

	CacheInvalidateRelcacheByRelid(RelationGetRelid(data->tg_relation));
	fl_change_note_catalog();
	return PointerGetDatum(NULL);
}

/*
 * Row trigger of stream_config.  On servers before 17 a partitioned table has
 * no access method of its own, and without this dependency DROP EXTENSION ...
 * CASCADE would take its segments and one of its columns and leave the rest.
 */
Datum
fl_sql_stream_registered(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);
	bool		isnull;
	Oid			relid = DatumGetObjectId(heap_getattr(data->tg_trigtuple, FL_STREAM_RELID,
													  RelationGetDescr(data->tg_relation), &isnull));
	ObjectAddress stream;
	ObjectAddress am;

	if (OidIsValid(fl_access_method_oid()))
	{
		ObjectAddressSet(stream, RelationRelationId, relid);
		ObjectAddressSet(am, AccessMethodRelationId, fl_access_method_oid());
		recordDependencyOn(&stream, &am, DEPENDENCY_NORMAL);
	}
	return PointerGetDatum(NULL);
}

/*
 * Does another tenant have a device of this id?  (The row that fires the
 * trigger is not visible to the scan yet.)
 */
static bool
bare_name_is_shared(Relation device, const char *tenant, const char *id)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			index = fl_config_relid(FL_INDEX_DEVICE_ID);
	bool		shared = false;

	ScanKeyInit(&key, FL_DEVICE_ID, BTEqualStrategyNumber, F_TEXTEQ, CStringGetTextDatum(id));
	key.sk_collation = TupleDescAttr(RelationGetDescr(device), FL_DEVICE_ID - 1)->attcollation;
	scan = systable_beginscan(device, index, OidIsValid(index), NULL, 1, &key);
	while (!shared && HeapTupleIsValid(tuple = systable_getnext(scan)))
		shared = strcmp(fl_config_text(tuple, FL_DEVICE_TENANT, RelationGetDescr(device)), tenant) != 0;
	systable_endscan(scan);
	return shared;
}

static void
device_changed(TriggerData *data, TupleDesc desc)
{
	char	   *tenant = fl_config_text(data->tg_trigtuple, FL_DEVICE_TENANT, desc);
	char	   *id = fl_config_text(data->tg_trigtuple, FL_DEVICE_ID, desc);
	bool		was_revoked;
	bool		is_revoked = true;

	if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
	{
		if (bare_name_is_shared(data->tg_relation, tenant, id))
			fl_change_note_names();
		return;
	}
	(void) heap_getattr(data->tg_trigtuple, FL_DEVICE_REVOKED_AT, desc, &was_revoked);
	was_revoked = !was_revoked;
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
	{
		char	   *new_tenant = fl_config_text(data->tg_newtuple, FL_DEVICE_TENANT, desc);
		char	   *new_id = fl_config_text(data->tg_newtuple, FL_DEVICE_ID, desc);
		bool		isnull;

		(void) heap_getattr(data->tg_newtuple, FL_DEVICE_REVOKED_AT, desc, &isnull);
		is_revoked = !isnull || strcmp(tenant, new_tenant) != 0 || strcmp(id, new_id) != 0;
	}
	if (is_revoked && !was_revoked)
		fl_change_note_device(tenant, id);
}

static void
credential_changed(TriggerData *data, TupleDesc desc)
{
	bool		lost = true;

	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
	{
		bool		isnull;

		(void) heap_getattr(data->tg_newtuple, FL_CREDENTIAL_REVOKED_AT, desc, &isnull);
		lost = !isnull || strcmp(fl_config_text(data->tg_trigtuple, FL_CREDENTIAL_VERIFIER, desc),
								 fl_config_text(data->tg_newtuple, FL_CREDENTIAL_VERIFIER, desc)) != 0;
	}
	if (lost)
		fl_change_note_credential(fl_config_int(data->tg_trigtuple, FL_CREDENTIAL_ID, desc, true));
}

/*
 * Row trigger of shard_config: a head rises, by trim_head, by retention or by a
 * restore.  Readers see it when it has committed.
 */
Datum
fl_sql_head_changed(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);
	TupleDesc	desc = RelationGetDescr(data->tg_relation);
	HeapTuple	tuple = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple : data->tg_trigtuple;
	bool		isnull;
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	RaisedHead *h = palloc(sizeof(*h));

	h->subid = GetCurrentSubTransactionId();
	h->stream = DatumGetObjectId(heap_getattr(tuple, FL_SHARD_STREAM, desc, &isnull));
	h->shard = (int32) fl_config_int(tuple, FL_SHARD_SHARD, desc, false);
	h->head = fl_config_int(tuple, FL_SHARD_HEAD, desc, true);
	h->tail = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? 0 : fl_config_int(tuple, FL_SHARD_TAIL, desc, true);
	raised_heads = lappend(raised_heads, h);
	MemoryContextSwitchTo(old);
	return PointerGetDatum(NULL);
}

/* Trigger of device and credential. */
Datum
fl_sql_identity_changed(PG_FUNCTION_ARGS)
{
	TriggerData *data = trigger_data(fcinfo);
	TupleDesc	desc = RelationGetDescr(data->tg_relation);

	if (!TRIGGER_FIRED_FOR_ROW(data->tg_event))
		fl_change_note_everybody();
	else if (RelationGetRelid(data->tg_relation) == fl_config_relid(FL_TABLE_DEVICE))
		device_changed(data, desc);
	else
		credential_changed(data, desc);
	return PointerGetDatum(NULL);
}
