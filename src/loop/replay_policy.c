/*-------------------------------------------------------------------------
 *
 * replay_policy.c
 *		Calling a policy a million times, at the cost of an expression of a plan.
 *
 * A policy is compiled as the planner would compile it in a SELECT: the reading is a ROW
 * of variables, so that a policy in SQL is inlined, and what it reads of the reading is a
 * column, not a row that is built for each call.  Columns that it does not look at are not
 * taken out of the record.
 *
 * It runs as its owner (one that the caller named as himself, unless he may act as the
 * owner), read-only, with pinned settings: policy.h.  That scope is one subtransaction for
 * as long as nothing fails; an error ends it, is the result of that call, and the next call
 * begins another.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "replay_internal.h"

/* The two rows that variables of a compiled policy stand for. */
#define VAR_READING		1
#define VAR_REST		OUTER_VAR

enum
{
	REST_RESPONSE = 1,
	REST_STATE,
	REST_AT,
	N_REST = REST_AT
};

/* ---- which function, as whom --------------------------------------------------------- */

static FlReplayPolicy *
make_policy(Oid function, int32 version, bool checked)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	FlReplayPolicy *p = palloc0(sizeof(FlReplayPolicy));

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("policy with OID %u does not exist", function)));
	p->function = function;
	p->version = version;
	p->checked = checked;
	p->role = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return p;
}

FlReplayPolicy *
fl_replay_policy_version(const FlReplayLoop *loop, int32 version)
{
	Oid			types[2] = {TEXTOID, INT4OID};
	Datum		values[2] = {CStringGetTextDatum(loop->name), Int32GetDatum(version)};
	bool		isnull;
	int64		function;
	int64		replayable;
	FlReplayPolicy *p;

	function = fl_config_query_int("SELECT fleetlog._loop_policy_function($1, $2)::oid::bigint", 2, types, values, &isnull);
	replayable = fl_config_query_int("SELECT replayable::int::bigint FROM fleetlog.loop_policy WHERE loop = $1 AND policy_version = $2",
									 2, types, values, &isnull);
	p = make_policy((Oid) function, version, replayable != 0);
	/* What it may read besides its arguments is its owner's. */
	if (!p->checked && !has_privs_of_role(GetUserId(), p->role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("version %d of the policy of loop \"%s\" reads more than its arguments", version, loop->name),
				 errdetail("It was declared not replayable, and runs as role \"%s\".", GetUserNameFromId(p->role, false)),
				 errhint("Only who may act as that role can replay it.")));
	return p;
}

FlReplayPolicy *
fl_replay_policy_given(Oid function)
{
	Oid			types[2] = {OIDOID, REGPROCEDUREOID};
	Datum		values[2] = {ObjectIdGetDatum(GetUserId()), ObjectIdGetDatum(function)};
	FlReplayPolicy *p;

	(void) fl_config_execute("SELECT fleetlog._loop_check_policy($1, $2, true)", 2, types, values, NULL);
	p = make_policy(function, 0, true);
	if (!has_privs_of_role(GetUserId(), p->role))
		p->role = GetUserId();
	return p;
}

/* ---- compiling ------------------------------------------------------------------------ */

static Node *
rest_var(AttrNumber att, Oid type)
{
	return (Node *) makeVar(VAR_REST, att, type, -1, InvalidOid, 0);
}

/* ROW(shard, ..., payload)::fleetlog.log_record */
static Node *
reading_row(TupleDesc desc)
{
	RowExpr    *row = makeNode(RowExpr);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		row->args = lappend(row->args, makeVar(VAR_READING, (AttrNumber) (i + 1), att->atttypid, att->atttypmod, att->attcollation, 0));
		row->colnames = lappend(row->colnames, makeString(pstrdup(NameStr(att->attname))));
	}
	row->row_typeid = desc->tdtypeid;
	row->row_format = COERCE_EXPLICIT_CAST;
	row->location = -1;
	return (Node *) row;
}

/* What of its arguments the compiled policy looks at. */
static void
look_for_vars(FlReplayPolicy *p, Expr *expr)
{
	ListCell   *lc;

	p->uses_state = false;
	p->first_column = FL_NATTS + 1;
	p->last_column = 0;
	foreach(lc, pull_var_clause((Node *) expr, 0))
	{
		Var		   *var = lfirst_node(Var, lc);

		if (var->varno == VAR_REST)
			p->uses_state |= var->varattno == REST_STATE;
		else if (var->varattno > FL_ATT_TS)
		{
			p->first_column = Min(p->first_column, var->varattno);
			p->last_column = Max(p->last_column, var->varattno);
		}
	}
}

/* Inside the scope, as the policy's role: what is looked up and inlined is what that role may. */
static void
compile(FlReplayRunner *run, FlReplayPolicy *p)
{
	MemoryContext old;
	Oid			record = get_func_rettype(p->function);
	Oid		   *argtypes;
	int			nargs;
	TupleDesc	desc;
	TupleDesc	rest;
	Expr	   *expr;

	(void) get_func_signature(p->function, &argtypes, &nargs);
	if (record != JSONBOID || nargs != 4)
		elog(ERROR, "function %u is not a policy", p->function);
	p->mcxt = AllocSetContextCreate(run->mcxt, "fleetlog replay policy", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(p->mcxt);
	desc = lookup_rowtype_tupdesc_copy(argtypes[0], -1);
	rest = CreateTemplateTupleDesc(N_REST);
	TupleDescInitEntry(rest, REST_RESPONSE, NULL, JSONBOID, -1, 0);
	TupleDescInitEntry(rest, REST_STATE, NULL, JSONBOID, -1, 0);
	TupleDescInitEntry(rest, REST_AT, NULL, TIMESTAMPTZOID, -1, 0);
	expr = (Expr *) makeFuncExpr(p->function, JSONBOID,
								 list_make4(reading_row(desc), rest_var(REST_RESPONSE, JSONBOID), rest_var(REST_STATE, JSONBOID),
											rest_var(REST_AT, TIMESTAMPTZOID)),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	expr = expression_planner(expr);
	look_for_vars(p, expr);
	if (p->checked)
		fl_policy_check_expr((Node *) expr);
	p->reading = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	p->rest = MakeSingleTupleTableSlot(rest, &TTSOpsVirtual);
	p->econtext = CreateStandaloneExprContext();
	p->econtext->ecxt_scantuple = p->reading;
	p->econtext->ecxt_outertuple = p->rest;
	p->expr = ExecInitExpr(expr, NULL);
	MemoryContextSwitchTo(old);
}

/* ---- the scope --------------------------------------------------------------------------- */

/*
 * Whatever is opened for the reading of records would be closed at the end of the subtransaction; so the resources of the
 * transaction around it stay in force, and those of the subtransaction are for the policy alone.
 */
void
fl_replay_enter(FlReplayRunner *run)
{
	ResourceOwner outer = CurrentResourceOwner;
	MemoryContext old = MemoryContextSwitchTo(run->mcxt);

	fl_policy_begin(&run->scope);
	run->inner = CurrentResourceOwner;
	CurrentResourceOwner = outer;
	MemoryContextSwitchTo(old);
	run->in_scope = true;
}

void
fl_replay_leave(FlReplayRunner *run)
{
	MemoryContext old = CurrentMemoryContext;

	if (run->in_scope)
		fl_policy_end(&run->scope);
	run->in_scope = false;
	MemoryContextSwitchTo(old);
}

/* ---- the reading ---------------------------------------------------------------------------- */

static void
store_reading(FlReplayPolicy *p)
{
	TupleTableSlot *slot = p->reading;

	slot->tts_nvalid = FL_NATTS;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

static void
set_reading(FlReplayRunner *run, FlReplayPolicy *p, int32 shard, const FlLogRecord *rec)
{
	TupleTableSlot *slot = p->reading;
	char	   *at;

	slot->tts_values[FL_ATT_SHARD - 1] = Int32GetDatum(shard);
	slot->tts_values[FL_ATT_OFFSET - 1] = Int64GetDatum(rec->log_offset);
	slot->tts_values[FL_ATT_TS - 1] = TimestampTzGetDatum(rec->ts);
	slot->tts_isnull[FL_ATT_SHARD - 1] = slot->tts_isnull[FL_ATT_OFFSET - 1] = slot->tts_isnull[FL_ATT_TS - 1] = false;
	if (p->last_column > 0)
	{
		fl_columns_reserve(rec, &run->scratch, &run->scratch_cap, run->mcxt);
		at = run->scratch;
		(void) fl_columns_more(rec, p->first_column - 1, p->last_column, &at, slot->tts_values, slot->tts_isnull);
	}
	store_reading(p);
}

static void
set_null(TupleTableSlot *slot, int att)
{
	slot->tts_isnull[att - 1] = true;
	slot->tts_values[att - 1] = (Datum) 0;
}

static void
set_value(TupleTableSlot *slot, int att, Datum value)
{
	slot->tts_isnull[att - 1] = false;
	slot->tts_values[att - 1] = value;
}

static char *
string_member(JsonbContainer *object, const char *name)
{
	JsonbValue	v;

	if (getKeyJsonValueFromContainer(object, name, strlen(name), &v) == NULL || v.type != jbvString)
		return NULL;
	return pnstrdup(v.val.string.val, v.val.string.len);
}

/* Bytes: a string as it is, or base64; false: neither is there. */
static bool
bytes_member(JsonbContainer *object, const char *name, const char *base64_name, Datum *value)
{
	char	   *text = string_member(object, name);

	if (text != NULL)
	{
		*value = CStringGetTextDatum(text);
		return true;
	}
	text = string_member(object, base64_name);
	if (text == NULL)
		return false;
	*value = DirectFunctionCall2(binary_decode, CStringGetTextDatum(text), CStringGetTextDatum("base64"));
	return true;
}

static void
set_headers(TupleTableSlot *slot, JsonbContainer *copy)
{
	JsonbValue	v;
	Oid			in,
				param;

	set_null(slot, FL_ATT_HEADERS);
	if (getKeyJsonValueFromContainer(copy, "headers", 7, &v) == NULL || v.type != jbvBinary)
		return;
	getTypeInputInfo(TupleDescAttr(slot->tts_tupleDescriptor, FL_ATT_HEADERS - 1)->atttypid, &in, &param);
	set_value(slot, FL_ATT_HEADERS, OidInputFunctionCall(in, JsonbToCString(NULL, v.val.binary.data, v.val.binary.len), param, -1));
}

/* A copy is made once per request, so all of its columns are built: docs/design/decisions-loop.md has its form. */
static void
set_copy(FlReplayRunner *run, FlReplayPolicy *p, JsonbContainer *copy)
{
	MemoryContext old = MemoryContextSwitchTo(run->call_mcxt);
	TupleTableSlot *slot = p->reading;
	int64		n = 0;
	TimestampTz ts = 0;
	char	   *text;
	Datum		d;

	(void) fl_json_int(copy, "shard", &n);
	set_value(slot, FL_ATT_SHARD, Int32GetDatum((int32) n));
	(void) fl_json_int(copy, "offset", &n);
	set_value(slot, FL_ATT_OFFSET, Int64GetDatum(n));
	(void) fl_json_time(copy, "ts", &ts);
	set_value(slot, FL_ATT_TS, TimestampTzGetDatum(ts));
	for (int att = FL_ATT_CREATED; att <= FL_NATTS; att++)
		set_null(slot, att);
	if (fl_json_time(copy, "created", &ts))
		set_value(slot, FL_ATT_CREATED, TimestampTzGetDatum(ts));
	if ((text = string_member(copy, "tenant")) != NULL)
		set_value(slot, FL_ATT_TENANT, CStringGetTextDatum(text));
	if ((text = string_member(copy, "device")) != NULL)
		set_value(slot, FL_ATT_DEVICE, CStringGetTextDatum(text));
	if (bytes_member(copy, "key", "key_base64", &d))
		set_value(slot, string_member(copy, "key") != NULL ? FL_ATT_KEY : FL_ATT_KEY_BYTES, d);
	if (bytes_member(copy, "payload", "payload_base64", &d))
		set_value(slot, FL_ATT_PAYLOAD, d);
	set_headers(slot, copy);
	store_reading(p);
	MemoryContextSwitchTo(old);
}

/* ---- the call ---------------------------------------------------------------------------------- */

static void
set_rest(TupleTableSlot *slot, const FlReplayArgs *args)
{
	slot->tts_values[REST_RESPONSE - 1] = PointerGetDatum(args->response);
	slot->tts_isnull[REST_RESPONSE - 1] = args->response == NULL;
	slot->tts_values[REST_STATE - 1] = PointerGetDatum(args->state);
	slot->tts_isnull[REST_STATE - 1] = args->state == NULL;
	slot->tts_values[REST_AT - 1] = TimestampTzGetDatum(args->at);
	slot->tts_isnull[REST_AT - 1] = false;
	slot->tts_nvalid = N_REST;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

/* Errors that are not the policy's. */
static bool
is_fatal(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category == ERRCODE_INSUFFICIENT_RESOURCES || category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_SYSTEM_ERROR ||
		category == ERRCODE_INTERNAL_ERROR || category == ERRCODE_DATA_CORRUPTED;
}

/* In PG_CATCH: the error becomes the result, and the subtransaction with all that was compiled in it goes. */
static void
keep_error(FlReplayRunner *run, FlReplayPolicy *p, FlReplayResult *out)
{
	ErrorData  *error;

	MemoryContextSwitchTo(run->call_mcxt);
	error = CopyErrorData();
	if (is_fatal(error->sqlerrcode))
		PG_RE_THROW();
	FlushErrorState();
	fl_policy_abort(&run->scope);
	run->in_scope = false;
	if (p->mcxt != NULL)
		MemoryContextDelete(p->mcxt);
	p->mcxt = NULL;
	p->expr = NULL;
	out->error = error->message;
}

static Jsonb *
evaluate(FlReplayRunner *run, FlReplayPolicy *p, const FlReplayReading *reading, const FlReplayArgs *args)
{
	bool		isnull;
	Datum		d;

	if (p->expr == NULL)
		compile(run, p);
	if (reading == NULL)
		return NULL;
	if (reading->rec != NULL)
		set_reading(run, p, reading->shard, reading->rec);
	else
		set_copy(run, p, reading->copy);
	set_rest(p->rest, args);
	ResetExprContext(p->econtext);
	d = ExecEvalExprSwitchContext(p->expr, p->econtext, &isnull);
	return isnull ? NULL : DatumGetJsonbP(d);
}

void
fl_replay_call(FlReplayRunner *run, FlReplayPolicy *p, const FlReplayReading *reading, const FlReplayArgs *args, FlReplayResult *out)
{
	Oid			save_user;
	int			save_context;
	ResourceOwner save_owner = CurrentResourceOwner;
	MemoryContext save_mcxt = CurrentMemoryContext;

	memset(out, 0, sizeof(*out));
	if (!run->in_scope)
		fl_replay_enter(run);
	GetUserIdAndSecContext(&save_user, &save_context);
	PG_TRY();
	{
		CurrentResourceOwner = run->inner;
		SetUserIdAndSecContext(p->role, save_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
		fl_policy_set_checked(p->checked);
		out->json = evaluate(run, p, reading, args);
		fl_policy_set_checked(false);
		MemoryContextSwitchTo(run->call_mcxt);
		if (args != NULL)
			fl_policy_parse(out->json, args->response != NULL, &out->parts);
	}
	PG_CATCH();
	{
		fl_policy_set_checked(false);
		memset(out, 0, sizeof(*out));
		keep_error(run, p, out);
	}
	PG_END_TRY();
	SetUserIdAndSecContext(save_user, save_context);
	CurrentResourceOwner = save_owner;
	MemoryContextSwitchTo(save_mcxt);
}

bool
fl_replay_uses_state(FlReplayRunner *run, FlReplayPolicy *p)
{
	FlReplayResult out;

	/* One that cannot be compiled says so when it is called. */
	if (p->expr == NULL)
		fl_replay_call(run, p, NULL, NULL, &out);
	return p->expr != NULL && p->uses_state;
}
