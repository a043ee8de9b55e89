/*-------------------------------------------------------------------------
 *
 * store.c
 *		The part of a turn that writes: commands, records, rows.  One transaction with
 *		the position; a crash anywhere in it leaves nothing.
 *
 * Locks, in this order: devices that are commanded; shards of the streams of requests
 * and decisions, by (stream, shard); rows of the loop's tables, which nobody else
 * writes but answer(), next_request() and fail_request(), about requests that are
 * pending, while those that are touched here are answered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/guest.h"
#include "fleetlog/record_list.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "fleetlog/topic.h"
#include "loop_internal.h"

extern Datum fl_sql_send_command(PG_FUNCTION_ARGS);

/* ---- commands --------------------------------------------------------------------------- */

static bool
member(JsonbContainer *object, const char *name, JsonbValue *v)
{
	return getKeyJsonValueFromContainer(object, name, (int) strlen(name), v) != NULL && v->type != jbvNull;
}

static char *
string_member(JsonbContainer *object, const char *name)
{
	JsonbValue	v;

	if (!member(object, name, &v))
		return NULL;
	return pnstrdup(v.val.string.val, v.val.string.len);
}

static Jsonb *
payload_of(JsonbContainer *command)
{
	JsonbValue	v;

	if (member(command, "payload", &v))
		return JsonbValueToJsonb(&v);
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
}

/* An interval, or seconds. */
static Datum
ttl_of(JsonbContainer *command)
{
	JsonbValue	v;
	const char *text = "5 min";

	if (member(command, "ttl", &v))
		text = v.type == jbvString ? pnstrdup(v.val.string.val, v.val.string.len) :
			psprintf("%s s", DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(v.val.numeric))));
	return DirectFunctionCall3(interval_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

/* NULL: the reading has none. */
static char *
text_of(const FlLoopReading *r, FlAttr att)
{
	return r->isnull[att - 1] ? NULL : TextDatumGetCString(r->values[att - 1]);
}

/* A bare name is that of a device of the reading's tenant. */
static char *
device_of(const FlLoopReading *r, JsonbContainer *command)
{
	char	   *device = string_member(command, "device");
	char	   *tenant = text_of(r, FL_ATT_TENANT);

	return strchr(device, '/') != NULL || tenant == NULL ? device : psprintf("%s/%s", tenant, device);
}

/* Its id, as text.  Runs as the loop's owner. */
static char *
send_command(const FlLoopReading *r, JsonbContainer *command)
{
	LOCAL_FCINFO(fcinfo, 5);
	Datum		id;

	InitFunctionCallInfoData(*fcinfo, NULL, 5, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = CStringGetTextDatum(device_of(r, command));
	fcinfo->args[1].value = CStringGetTextDatum(string_member(command, "name"));
	fcinfo->args[2].value = PointerGetDatum(payload_of(command));
	fcinfo->args[3].value = ttl_of(command);
	fcinfo->args[4].value = (Datum) 0;
	for (int i = 0; i < 5; i++)
		fcinfo->args[i].isnull = i == 4;
	id = fl_sql_send_command(fcinfo);
	return DatumGetCString(DirectFunctionCall1(uuid_out, id));
}

/* The command as the decision shows it. */
static void
append_command(StringInfo out, JsonbContainer *command, const char *id, const char *error)
{
	JsonbIterator *it = JsonbIteratorInit(command);
	JsonbIteratorToken token;
	JsonbValue	v;

	appendStringInfo(out, "%s{\"%s\": ", out->len > 1 ? ", " : "", id ? "id" : "error");
	fl_loop_append_string(out, id ? id : error);
	(void) JsonbIteratorNext(&it, &v, false);
	while ((token = JsonbIteratorNext(&it, &v, true)) == WJB_KEY || token == WJB_VALUE)
	{
		if (token == WJB_KEY)
		{
			appendStringInfoString(out, ", ");
			fl_loop_append_string(out, pnstrdup(v.val.string.val, v.val.string.len));
			appendStringInfoString(out, ": ");
		}
		else
			fl_loop_append_json(out, JsonbValueToJsonb(&v));
	}
	appendStringInfoChar(out, '}');
}

static JsonbContainer *
next_command(JsonbIterator **it)
{
	JsonbValue	v;
	JsonbIteratorToken token = JsonbIteratorNext(it, &v, true);

	if (token == WJB_BEGIN_ARRAY)
		token = JsonbIteratorNext(it, &v, true);
	return token == WJB_ELEM ? v.val.binary.data : NULL;
}

/* NULL, or why it was not sent. */
static char *
try_command(FlLoopTurn *t, FlLoopEffect *e, JsonbContainer *command, StringInfo out)
{
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool ok = false;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(t->mcxt);
	PG_TRY();
	{
		char	   *id = send_command(e->reading, command);

		ReleaseCurrentSubTransaction();
		append_command(out, command, id, NULL);
		ok = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(t->mcxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(t->mcxt);
	CurrentResourceOwner = owner;
	if (!ok && ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_INSUFFICIENT_RESOURCES &&
		ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_LOCK_NOT_AVAILABLE)
		return fl_loop_clip(error->message, FL_LOOP_REFUSAL_MAX);
	if (!ok)
		ReThrowError(error);
	return NULL;
}

/*
 * alone: each in a subtransaction of its own, since one of them cannot be sent.  Else errors
 * come out, and what was sent is rolled back with the subtransaction by who called.
 */
static void
send_all(FlLoopTurn *t, bool alone)
{
	ListCell   *lc;

	foreach(lc, t->effects)
	{
		FlLoopEffect *e = lfirst(lc);
		JsonbIterator *it;
		JsonbContainer *command;
		StringInfoData out;

		e->ncommands = 0;
		if (e->result.commands == NULL)
			continue;
		it = JsonbIteratorInit(&e->result.commands->root);
		initStringInfo(&out);
		appendStringInfoChar(&out, '[');
		while ((command = next_command(&it)) != NULL)
		{
			char	   *error = NULL;

			if (alone)
				error = try_command(t, e, command, &out);
			else
				append_command(&out, command, send_command(e->reading, command), NULL);
			if (error)
				append_command(&out, command, NULL, error);
			else
				e->ncommands++;
		}
		appendStringInfoChar(&out, ']');
		e->commands = out.data;
	}
}

static bool
try_all(FlLoopTurn *t)
{
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool ok = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(t->mcxt);
	PG_TRY();
	{
		send_all(t, false);
		ReleaseCurrentSubTransaction();
		ok = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(t->mcxt);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(t->mcxt);
	CurrentResourceOwner = owner;
	return ok;
}

static void
send_commands(FlLoopTurn *t)
{
	bool		any = false;
	Oid			save_user;
	int			save_context;
	ListCell   *lc;

	foreach(lc, t->effects)
		any |= ((FlLoopEffect *) lfirst(lc))->result.commands != NULL;
	if (!any)
		return;
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(t->owner, save_context | SECURITY_LOCAL_USERID_CHANGE);
	if (!try_all(t))
		send_all(t, true);
	SetUserIdAndSecContext(save_user, save_context);
	foreach(lc, t->effects)
		t->ncommands += ((FlLoopEffect *) lfirst(lc))->ncommands;
}

/* ---- records -------------------------------------------------------------------------------- */

static bool
asks(const FlLoopEffect *e)
{
	return e->result.ask != NULL;
}

static bool
decides(const FlLoopEffect *e)
{
	return e->result.decisions != NULL || e->result.commands != NULL;
}

/* The copy of a reading is left out where the record would be too large with it. */
static char *
fitting_json(FlLoopTurn *t, const FlLoopEffect *e, Oid stream, char *(*json) (FlLoopTurn *, const FlLoopEffect *, bool))
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	size_t		limit = info && info->max_record_bytes > 0 ? (size_t) info->max_record_bytes : (size_t) fl_max_record_kb * 1024;
	char	   *text = json(t, e, t->copies);

	if (!t->copies || strlen(text) + 1024 <= limit)
		return text;
	return json(t, e, false);
}

/* Below the stream's mount, or where one would be. */
static char *
topic_of(FlLoopTurn *t, Oid stream, const char *kind, const char *key)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);
	char	   *topic = NULL;

	for (int i = 0; i < n && topic == NULL; i++)
		if (mounts[i].stream == stream)
			topic = psprintf("%.*s%s", (int) mounts[i].prefix_len, mounts[i].prefix, key);
	if (topic == NULL)
		topic = psprintf("loop/%s/%s/%s", t->loop, kind, key);
	return fl_topic_name_valid((const uint8 *) topic, strlen(topic)) ? topic : NULL;
}

static FlListRecord *
make_records(FlLoopTurn *t, bool (*wanted) (const FlLoopEffect *), bool requests, int *n)
{
	FlListRecord *records = palloc0(sizeof(FlListRecord) * Max(list_length(t->effects), 1));
	ListCell   *lc;

	*n = 0;
	foreach(lc, t->effects)
	{
		FlLoopEffect *e = lfirst(lc);
		FlListRecord *r = &records[*n];

		if (!wanted(e))
			continue;
		r->key = e->reading->key->name;
		/* Row-level rules for tenants are those of the reading. */
		r->tenant = text_of(e->reading, FL_ATT_TENANT);
		r->device = text_of(e->reading, FL_ATT_DEVICE);
		if (requests)
		{
			r->topic = topic_of(t, t->requests, "request", r->key);
			r->response_topic = topic_of(t, t->responses, "response", r->key);
			r->payload = fitting_json(t, e, t->requests, fl_loop_request_json);
		}
		else
			r->payload = fitting_json(t, e, t->decisions, fl_loop_decision_json);
		(*n)++;
	}
	return records;
}

/* ---- rows ------------------------------------------------------------------------------------- */

static Datum
array_of(Datum *values, bool *nulls, int n, Oid type)
{
	int16		len;
	bool		by_value;
	char		align;
	int			dims[1] = {n};
	int			lbs[1] = {1};

	get_typlenbyvalalign(type, &len, &by_value, &align);
	return PointerGetDatum(construct_md_array(values, nulls, 1, dims, lbs, type, len, by_value, align));
}

/* The devices of these decisions find them from now on (explain_decision). */
static void
link_decisions(FlLoopTurn *t, const FlListRecord *records, int n)
{
	Oid			types[3] = {REGCLASSOID, INT4ARRAYOID, INT8ARRAYOID};
	Datum		values[3] = {ObjectIdGetDatum(t->decisions)};
	Datum	   *shards = palloc(sizeof(Datum) * n);
	Datum	   *offsets = palloc(sizeof(Datum) * n);
	bool		isnull;

	for (int i = 0; i < n; i++)
	{
		shards[i] = Int32GetDatum(records[i].shard);
		offsets[i] = Int64GetDatum(records[i].log_offset);
	}
	values[1] = array_of(shards, NULL, n, INT4OID);
	values[2] = array_of(offsets, NULL, n, INT8OID);
	/* The shards are locked: what this transaction has appended is one range in each. */
	(void) fl_config_query_int("SELECT sum(fleetlog._loop_link($1, g.shard, g.first, g.last + 1))::bigint FROM"
							   " (SELECT u.shard, min(u.log_offset) AS first, max(u.log_offset) AS last FROM unnest($2, $3) u(shard, log_offset) GROUP BY u.shard) g",
							   3, types, values, &isnull);
}

#define REQUEST_COLUMNS	7

static void
insert_requests(FlLoopTurn *t, const FlListRecord *records, int n)
{
	Oid			record_type = t->record_desc->tdtypeid;
	Oid			of[REQUEST_COLUMNS] = {INT4OID, INT8OID, INT8OID, TEXTOID, INT4OID, record_type, JSONBOID};
	Oid			types[2 + REQUEST_COLUMNS] = {TEXTOID, INT4OID};
	Datum		values[2 + REQUEST_COLUMNS] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard)};
	Datum	   *columns[REQUEST_COLUMNS];
	int			i = 0;
	ListCell   *lc;

	if (n == 0)
		return;
	for (int k = 0; k < REQUEST_COLUMNS; k++)
		columns[k] = palloc(sizeof(Datum) * n);
	foreach(lc, t->effects)
	{
		FlLoopEffect *e = lfirst(lc);

		if (!asks(e))
			continue;
		columns[0][i] = Int32GetDatum(records[i].shard);
		columns[1][i] = Int64GetDatum(records[i].log_offset);
		columns[2][i] = Int64GetDatum(e->reading->log_offset);
		columns[3][i] = CStringGetTextDatum(e->reading->key->name);
		columns[4][i] = Int32GetDatum(e->version->number);
		columns[5][i] = e->reading->record;
		columns[6][i] = PointerGetDatum(e->result.ask);
		i++;
	}
	for (int k = 0; k < REQUEST_COLUMNS; k++)
	{
		types[2 + k] = get_array_type(of[k]);
		values[2 + k] = array_of(columns[k], NULL, n, of[k]);
	}
	/* unnest makes columns of a record. */
	fl_config_execute("INSERT INTO fleetlog.loop_request (loop, shard, request_shard, request_offset, log_offset, key, policy_version, reading, ask, asked_at)"
					  " SELECT $1, $2, $3[i], $4[i], $5[i], $6[i], $7[i], $8[i], $9[i], clock_timestamp() FROM generate_subscripts($3, 1) i",
					  lengthof(types), types, values, NULL);
}

static void
delete_answered(FlLoopTurn *t)
{
	Oid			types[3] = {TEXTOID, INT4ARRAYOID, INT8ARRAYOID};
	Datum		values[3] = {CStringGetTextDatum(t->loop)};
	int			n = list_length(t->answered);
	Datum	   *shards = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *offsets = palloc(sizeof(Datum) * Max(n, 1));
	ListCell   *lc;

	if (n == 0)
		return;
	foreach(lc, t->answered)
	{
		FlLoopAnswer *a = lfirst(lc);

		shards[foreach_current_index(lc)] = Int32GetDatum(a->request_shard);
		offsets[foreach_current_index(lc)] = Int64GetDatum(a->request_offset);
	}
	values[1] = array_of(shards, NULL, n, INT4OID);
	values[2] = array_of(offsets, NULL, n, INT8OID);
	if (fl_config_execute("DELETE FROM fleetlog.loop_request r USING unnest($2, $3) a(shard, log_offset)"
						  " WHERE r.loop = $1 AND r.request_shard = a.shard AND r.request_offset = a.log_offset",
						  3, types, values, NULL) != (uint64) n)
		elog(ERROR, "an answered request is gone");
}

static void
store_waiting(FlLoopTurn *t)
{
	Oid			types[4] = {TEXTOID, INT4OID, INT8ARRAYOID, TEXTARRAYOID};
	Datum		values[4] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard)};
	int			n = Max(list_length(t->new_waiting), list_length(t->old_waiting));
	Datum	   *offsets = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *names = palloc(sizeof(Datum) * Max(n, 1));
	ListCell   *lc;

	if (t->old_waiting != NIL)
	{
		foreach(lc, t->old_waiting)
			offsets[foreach_current_index(lc)] = Int64GetDatum(*(int64 *) lfirst(lc));
		values[2] = array_of(offsets, NULL, list_length(t->old_waiting), INT8OID);
		fl_config_execute("DELETE FROM fleetlog.loop_waiting w WHERE w.loop = $1 AND w.shard = $2 AND w.log_offset = ANY ($3)", 3, types, values, NULL);
	}
	if (t->new_waiting == NIL)
		return;
	foreach(lc, t->new_waiting)
	{
		FlLoopReading *r = lfirst(lc);

		offsets[foreach_current_index(lc)] = Int64GetDatum(r->log_offset);
		names[foreach_current_index(lc)] = CStringGetTextDatum(r->key->name);
	}
	values[2] = array_of(offsets, NULL, list_length(t->new_waiting), INT8OID);
	values[3] = array_of(names, NULL, list_length(t->new_waiting), TEXTOID);
	fl_config_execute("INSERT INTO fleetlog.loop_waiting (loop, shard, log_offset, key) SELECT $1, $2, u.o, u.k FROM unnest($3, $4) u(o, k)", 4, types, values, NULL);
}

static void
store_states(FlLoopTurn *t)
{
	Oid			types[5] = {TEXTOID, INT4OID, TEXTARRAYOID, JSONBARRAYOID, INT8ARRAYOID};
	Datum		values[5] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard)};
	int			n = list_length(t->key_list);
	Datum	   *names = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *states = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *offsets = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *forgotten = palloc(sizeof(Datum) * Max(n, 1));
	int			nset = 0,
				nforgotten = 0;
	ListCell   *lc;

	foreach(lc, t->key_list)
	{
		FlLoopKey  *key = lfirst(lc);

		if (!key->changed)
			continue;
		if (key->state == NULL)
		{
			if (key->has_row)
				forgotten[nforgotten++] = CStringGetTextDatum(key->name);
			continue;
		}
		names[nset] = CStringGetTextDatum(key->name);
		states[nset] = PointerGetDatum(key->state);
		offsets[nset++] = Int64GetDatum(key->state_offset);
	}
	if (nforgotten > 0)
	{
		values[2] = array_of(forgotten, NULL, nforgotten, TEXTOID);
		fl_config_execute("DELETE FROM fleetlog.loop_state s WHERE s.loop = $1 AND s.shard = $2 AND s.key = ANY ($3 COLLATE \"C\")", 3, types, values, NULL);
	}
	if (nset == 0)
		return;
	values[2] = array_of(names, NULL, nset, TEXTOID);
	values[3] = array_of(states, NULL, nset, JSONBOID);
	values[4] = array_of(offsets, NULL, nset, INT8OID);
	fl_config_execute("INSERT INTO fleetlog.loop_state (loop, shard, key, state, log_offset) SELECT $1, $2, u.k, u.s, u.o FROM unnest($3, $4, $5) u(k, s, o)"
					  " ON CONFLICT (loop, shard, key) DO UPDATE SET state = excluded.state, log_offset = excluded.log_offset",
					  5, types, values, NULL);
}

static void
store_position(FlLoopTurn *t)
{
	Oid			types[] = {TEXTOID, INT4OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, TEXTOID, INT8OID};
	Datum		values[] = {
		CStringGetTextDatum(t->loop), Int32GetDatum(t->shard), Int64GetDatum(t->next_position), Int64GetDatum(t->nread),
		Int64GetDatum(t->nrequests), Int64GetDatum(t->ndecisions), Int64GetDatum(t->ncommands), Int64GetDatum(list_length(t->answered) - t->nunanswered),
		Int64GetDatum(t->nunanswered), Int64GetDatum(t->ngone), t->error ? CStringGetTextDatum(t->error) : (Datum) 0, Int64GetDatum(t->error_offset)
	};
	bool		nulls[lengthof(values)] = {false};

	nulls[10] = nulls[11] = t->error == NULL;
	fl_config_execute("UPDATE fleetlog.loop_position o SET log_offset = $3, readings = o.readings + $4, requests = o.requests + $5, decisions = o.decisions + $6,"
					  " commands = o.commands + $7, answered = o.answered + $8, unanswered = o.unanswered + $9, gone = o.gone + $10, error = $11, error_offset = $12,"
					  " error_at = CASE WHEN $11 IS NOT NULL THEN clock_timestamp() END,"
					  " rate = o.rate * exp(-least(700, greatest(0, extract(epoch FROM clock_timestamp() - o.updated_at)) / 60)) + $4 / 60.0, updated_at = clock_timestamp()"
					  " WHERE o.loop = $1 AND o.shard = $2",
					  lengthof(values), types, values, nulls);
}

void
fl_loop_store(FlLoopTurn *t)
{
	FlListRecord *requests,
			   *decisions;
	int			nrequests,
				ndecisions;
	Oid			save_user;
	int			save_context;

	send_commands(t);
	requests = make_records(t, asks, true, &nrequests);
	decisions = make_records(t, decides, false, &ndecisions);
	FL_STOP_POINT("loop_before_append");
	for (int i = 0; i < 2; i++)
	{
		if ((i == 0) == (t->requests < t->decisions))
		{
			if (nrequests > 0)
				fl_record_list_place(t->requests, requests, nrequests);
		}
		else if (ndecisions > 0)
			fl_record_list_place(t->decisions, decisions, ndecisions);
	}
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(t->owner, save_context | SECURITY_LOCAL_USERID_CHANGE);
	if (nrequests > 0)
		fl_record_list_write(t->requests, requests, nrequests);
	FL_STOP_POINT("loop_between_appends");
	if (ndecisions > 0)
		fl_record_list_write(t->decisions, decisions, ndecisions);
	SetUserIdAndSecContext(save_user, save_context);
	FL_STOP_POINT("loop_appended");
	t->nrequests = nrequests;
	t->ndecisions = ndecisions;
	if (ndecisions > 0)
		link_decisions(t, decisions, ndecisions);
	delete_answered(t);
	insert_requests(t, requests, nrequests);
	store_waiting(t);
	store_states(t);
	store_position(t);
}

void
fl_loop_note_error(const char *loop, int32 shard, const char *error, int64 offset)
{
	Oid			types[4] = {TEXTOID, INT4OID, TEXTOID, INT8OID};
	Datum		values[4] = {CStringGetTextDatum(loop), Int32GetDatum(shard), CStringGetTextDatum(error), Int64GetDatum(offset)};
	bool		nulls[4] = {false, false, false, offset < 0};

	fl_config_execute("UPDATE fleetlog.loop_position o SET error = $3, error_offset = $4, error_at = clock_timestamp()"
					  " WHERE o.loop = $1 AND o.shard = $2 AND o.error_offset IS NULL AND o.error IS DISTINCT FROM $3",
					  4, types, values, nulls);
}

void
fl_loop_clear_error(const char *loop, int32 shard)
{
	Oid			types[2] = {TEXTOID, INT4OID};
	Datum		values[2] = {CStringGetTextDatum(loop), Int32GetDatum(shard)};

	fl_config_execute("UPDATE fleetlog.loop_position o SET error = NULL, error_at = NULL"
					  " WHERE o.loop = $1 AND o.shard = $2 AND o.error IS NOT NULL AND o.error_offset IS NULL",
					  2, types, values, NULL);
}
