/*-------------------------------------------------------------------------
 *
 * policy.c
 *		Calling a policy, and what its result may look like.
 *
 * A policy runs as its owner in a security-restricted context, as functions of
 * indexes do under autovacuum, in a subtransaction that is read-only for good (one
 * inside cannot be made read-write again).  So it can write nothing, whatever its
 * volatility says.
 *
 * One whose decisions are to be replayed must read nothing but its arguments.
 * IMMUTABLE is a promise that nobody checks; here it is kept: while such a policy
 * runs, every query that is planned in its name, those inside the functions that it
 * calls included, is looked through for tables, the clock, the session and volatile
 * functions (plan_checked).  Stable functions of the server that only depend on
 * settings pass, because those settings are pinned.  Plans that were made before are
 * not looked at again: a function that a policy which is not replayable has called
 * in the same process may slip through, and replay will find the difference.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "fleetlog/compat.h"
#include "fleetlog/policy.h"
#include "fleetlog/shmem.h"

PG_FUNCTION_INFO_V1(fl_sql_loop_policy_call);

#define ERRCODE_READS_MORE	MAKE_SQLSTATE('L', 'F', '6', '0', '2')
#define ERRCODE_MALFORMED	MAKE_SQLSTATE('L', 'F', '6', '0', '3')

int			fl_policy_timeout_ms = 5000;

static planner_hook_type next_planner = NULL;
static bool checking = false;	/* a policy runs that must read its arguments only */

/* ---- what it must not read ------------------------------------------------------- */

/* Stable functions of the server whose result is not made of their arguments and pinned settings. */
static bool
reads_surroundings(const char *name, int nargs)
{
	static const char *const names[] = {
		"now", "transaction_timestamp", "statement_timestamp", "current_setting", "current_schema", "current_schemas",
		"current_user", "session_user", "current_database", "version", "getdatabaseencoding", "col_description",
		"obj_description", "shobj_description", "row_security_active", "table_to_xml", "schema_to_xml",
		"database_to_xml", "query_to_xml", "cursor_to_xml", "format_type"
	};
	static const char *const prefixes[] = {"pg_", "txid_", "inet_client", "inet_server", "has_", "to_reg", "lo_"};

	for (int i = 0; i < lengthof(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	for (int i = 0; i < lengthof(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	/* Of one argument: until today. */
	return strcmp(name, "age") == 0 && nargs == 1;
}

static void
refuse(const char *what, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_READS_MORE),
			 errmsg("a policy whose decisions are to be replayed must read its arguments only, and uses %s%s", what, name),
			 errhint("Take it from the reading, the state or the argument \"at\"; or create the loop with replayable => false.")));
}

/* For check_functions_in_node: raises, or says false. */
static bool
check_function(Oid function, void *context)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	bool		refused;
	char		name[NAMEDATALEN + 2];

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	snprintf(name, sizeof(name), "%s()", NameStr(proc->proname));
	refused = proc->provolatile == PROVOLATILE_VOLATILE ||
		(proc->provolatile == PROVOLATILE_STABLE &&
		 (proc->pronamespace != PG_CATALOG_NAMESPACE || reads_surroundings(NameStr(proc->proname), proc->pronargs)));
	ReleaseSysCache(tuple);
	if (refused)
		refuse("function ", name);
	return false;
}

static bool
check_node(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		ListCell   *lc;

		foreach(lc, ((Query *) node)->rtable)
		{
			RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

			if (rte->rtekind == RTE_RELATION)
				refuse("table ", get_rel_name(rte->relid));
		}
		return query_tree_walker((Query *) node, check_node, context, 0);
	}
	if (IsA(node, SQLValueFunction))
		refuse("the clock or the session", "");
	if (IsA(node, NextValueExpr))
		refuse("a sequence", "");
	(void) check_functions_in_node(node, check_function, context);
	return expression_tree_walker(node, check_node, context);
}

static PlannedStmt *
plan_checked(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	if (unlikely(checking))
		(void) check_node((Node *) parse, NULL);
	return next_planner ? next_planner(parse, query_string, cursor_options, params) :
		standard_planner(parse, query_string, cursor_options, params);
}

void
fl_policy_set_checked(bool on)
{
	checking = on;
}

void
fl_policy_check_expr(Node *expr)
{
	(void) check_node(expr, NULL);
}

void
fl_policy_init(void)
{
	next_planner = planner_hook;
	planner_hook = plan_checked;
}

/* ---- the call ---------------------------------------------------------------------- */

void
fl_policy_open(FlPolicy *policy, Oid function, bool replayable, MemoryContext mcxt)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("policy with OID %u does not exist", function)));
	policy->function = function;
	policy->owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	policy->replayable = replayable;
	ReleaseSysCache(tuple);
	fmgr_info_cxt(function, &policy->flinfo, mcxt);
}

static void
pin_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"TimeZone", "UTC"},
		{"DateStyle", "ISO, YMD"},
		{"IntervalStyle", "postgres"},
		{"extra_float_digits", "1"},
		{"bytea_output", "hex"},
		{"xmloption", "content"},
		{"default_text_search_config", "pg_catalog.simple"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/* Sessions have a statement_timeout of their own. */
static bool
is_timed(void)
{
	return fl_my_slot != NULL && fl_policy_timeout_ms > 0;
}

/* The scope of the call that is timed. */
static FlPolicyScope *volatile timed = NULL;
static TimeoutId stuck_timeout = MAX_TIMEOUTS;

/* A signal handler.  No policy can catch the end of its process. */
static void
stuck_handler(void)
{
	FlPolicyScope *scope = timed;

	if (scope == NULL)
		return;
	if (scope->on_stuck)
		scope->on_stuck(scope->arg);
	ProcDiePending = true;
	InterruptPending = true;
}

static void
begin_timed(FlPolicyScope *scope)
{
	EnableTimeoutParams timeouts[2] = {
		{.id = STATEMENT_TIMEOUT,.type = TMPARAM_AFTER,.delay_ms = fl_policy_timeout_ms},
		{.type = TMPARAM_AFTER}
	};

	if (!is_timed())
		return;
	if (stuck_timeout == MAX_TIMEOUTS)
		stuck_timeout = RegisterTimeout(USER_TIMEOUT, stuck_handler);
	timeouts[1].id = stuck_timeout;
	timeouts[1].delay_ms = Min(fl_policy_timeout_ms, INT_MAX / 2) * 2;
	timed = scope;
	enable_timeouts(timeouts, lengthof(timeouts));
}

static void
end_timed(void)
{
	DisableTimeoutParams timeouts[2] = {{.id = STATEMENT_TIMEOUT}, {.id = stuck_timeout}};

	if (timed == NULL)
		return;
	disable_timeouts(timeouts, lengthof(timeouts));
	timed = NULL;
}

void
fl_policy_begin(FlPolicyScope *scope)
{
	memset(scope, 0, sizeof(*scope));
	scope->context = CurrentMemoryContext;
	scope->owner = CurrentResourceOwner;
	scope->call_context = AllocSetContextCreate(CurrentMemoryContext, "fleetlog policy call", ALLOCSET_DEFAULT_SIZES);
	BeginInternalSubTransaction(NULL);
	/* The settings and this go back with the subtransaction. */
	XactReadOnly = true;
	pin_settings();
	MemoryContextSwitchTo(scope->context);
}

static void
leave(FlPolicyScope *scope)
{
	MemoryContextSwitchTo(scope->context);
	CurrentResourceOwner = scope->owner;
	MemoryContextDelete(scope->call_context);
}

/* Rolled back, too: nothing in it is to stay. */
void
fl_policy_end(FlPolicyScope *scope)
{
	fl_policy_abort(scope);
}

void
fl_policy_abort(FlPolicyScope *scope)
{
	checking = false;
	end_timed();
	RollbackAndReleaseCurrentSubTransaction();
	leave(scope);
}

static Datum
invoke(FlPolicy *policy, Datum reading, Jsonb *response, Jsonb *state, TimestampTz at, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 4);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, &policy->flinfo, 4, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = reading;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = PointerGetDatum(response);
	fcinfo->args[1].isnull = response == NULL;
	fcinfo->args[2].value = PointerGetDatum(state);
	fcinfo->args[2].isnull = state == NULL;
	fcinfo->args[3].value = TimestampTzGetDatum(at);
	fcinfo->args[3].isnull = false;
	*isnull = true;
	if (policy->flinfo.fn_strict && (response == NULL || state == NULL))
		return (Datum) 0;
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

Jsonb *
fl_policy_call(FlPolicyScope *scope, FlPolicy *policy, Datum reading, Jsonb *response, Jsonb *state, TimestampTz at)
{
	Oid			save_user;
	int			save_context;
	Datum		result;
	bool		isnull;
	Jsonb	   *copy = NULL;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(policy->owner, save_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	MemoryContextSwitchTo(scope->call_context);
	/* After an error fl_policy_abort takes both back. */
	begin_timed(scope);
	checking = policy->replayable;
	result = invoke(policy, reading, response, state, at, &isnull);
	checking = false;
	end_timed();
	SetUserIdAndSecContext(save_user, save_context);
	MemoryContextSwitchTo(scope->context);
	if (!isnull)
		copy = DatumGetJsonbPCopy(result);
	MemoryContextReset(scope->call_context);
	return copy;
}

/*
 * _loop_policy_call(policy, replayable, reading, response, state, at): one call with its
 * own scope, as the runner makes it.
 */
Datum
fl_sql_loop_policy_call(PG_FUNCTION_ARGS)
{
	FlPolicyScope scope;
	FlPolicy	policy;
	Jsonb	   *result = NULL;
	Jsonb	   *response = PG_ARGISNULL(3) ? NULL : PG_GETARG_JSONB_P(3);
	Jsonb	   *state = PG_ARGISNULL(4) ? NULL : PG_GETARG_JSONB_P(4);

	fl_require_preload();
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2) || PG_ARGISNULL(5))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("policy, replayable, reading and at must not be NULL")));
	fl_policy_open(&policy, PG_GETARG_OID(0), PG_GETARG_BOOL(1), CurrentMemoryContext);
	fl_policy_begin(&scope);
	PG_TRY();
	{
		result = fl_policy_call(&scope, &policy, PG_GETARG_DATUM(2), response, state, PG_GETARG_TIMESTAMPTZ(5));
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(scope.context);
		error = CopyErrorData();
		FlushErrorState();
		fl_policy_abort(&scope);
		ReThrowError(error);
	}
	PG_END_TRY();
	fl_policy_end(&scope);
	if (result == NULL)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(result);
}

/* ---- the result ---------------------------------------------------------------------- */

FL_NORETURN static void malformed(const char *detail, const char *name);

static void
malformed(const char *detail, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_MALFORMED),
			 errmsg("result of the policy is malformed"),
			 errdetail(detail, name),
			 errhint("A policy returns {\"ask\": {...} or null, \"decisions\": [...], \"commands\": [{\"device\", \"name\", \"payload\", \"ttl\"}], \"state\": ...}; all are optional.")));
}

/* An array with elements, or NULL for none. */
static Jsonb *
array_member(JsonbValue *v, const char *name)
{
	if (v->type == jbvNull)
		return NULL;
	if (v->type != jbvBinary || !JsonContainerIsArray(v->val.binary.data) || JsonContainerIsScalar(v->val.binary.data))
		malformed("\"%s\" is not an array.", name);
	return JsonContainerSize(v->val.binary.data) == 0 ? NULL : JsonbValueToJsonb(v);
}

static void
check_text(JsonbContainer *command, const char *name)
{
	JsonbValue	v;

	if (getKeyJsonValueFromContainer(command, name, strlen(name), &v) == NULL || v.type != jbvString || v.val.string.len == 0)
		malformed("A command needs \"%s\", a string.", name);
}

static void
check_ttl(JsonbContainer *command)
{
	JsonbValue	v;

	if (getKeyJsonValueFromContainer(command, "ttl", 3, &v) == NULL || v.type == jbvNull)
		return;
	if (v.type != jbvString && v.type != jbvNumeric)
		malformed("\"%s\" of a command is an interval, or seconds.", "ttl");
	/* Raises what it has against it. */
	if (v.type == jbvString)
		(void) DirectFunctionCall3(interval_in, CStringGetDatum(pnstrdup(v.val.string.val, v.val.string.len)),
								   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

static void
check_commands(Jsonb *commands)
{
	JsonbIterator *it = JsonbIteratorInit(&commands->root);
	JsonbValue	v;
	JsonbIteratorToken token = JsonbIteratorNext(&it, &v, false);

	while ((token = JsonbIteratorNext(&it, &v, true)) == WJB_ELEM)
	{
		JsonbIterator *members;
		JsonbValue	m;

		if (v.type != jbvBinary || !JsonContainerIsObject(v.val.binary.data))
			malformed("An element of \"%s\" is not an object.", "commands");
		check_text(v.val.binary.data, "device");
		check_text(v.val.binary.data, "name");
		check_ttl(v.val.binary.data);
		members = JsonbIteratorInit(v.val.binary.data);
		while ((token = JsonbIteratorNext(&members, &m, true)) != WJB_DONE)
		{
			char	   *key = token == WJB_KEY ? pnstrdup(m.val.string.val, m.val.string.len) : NULL;

			if (key && strcmp(key, "device") != 0 && strcmp(key, "name") != 0 && strcmp(key, "payload") != 0 && strcmp(key, "ttl") != 0)
				malformed("A command has no member \"%s\".", key);
		}
	}
}

static void
parse_member(const char *key, JsonbValue *v, FlPolicyResult *out)
{
	if (strcmp(key, "ask") == 0)
	{
		if (v->type != jbvNull && (v->type != jbvBinary || !JsonContainerIsObject(v->val.binary.data)))
			malformed("\"%s\" is neither an object nor null.", key);
		out->ask = v->type == jbvNull ? NULL : JsonbValueToJsonb(v);
	}
	else if (strcmp(key, "decisions") == 0)
		out->decisions = array_member(v, key);
	else if (strcmp(key, "commands") == 0)
		out->commands = array_member(v, key);
	else if (strcmp(key, "state") == 0)
	{
		out->sets_state = true;
		out->state = v->type == jbvNull ? NULL : JsonbValueToJsonb(v);
	}
	else
		malformed("It has no member \"%s\".", key);
}

void
fl_policy_parse(Jsonb *result, bool second, FlPolicyResult *out)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	char	   *key = NULL;

	memset(out, 0, sizeof(*out));
	if (result == NULL)
		return;
	if (!JB_ROOT_IS_OBJECT(result))
		malformed("It is not %s.", "an object");
	it = JsonbIteratorInit(&result->root);
	(void) JsonbIteratorNext(&it, &v, false);
	while ((token = JsonbIteratorNext(&it, &v, true)) == WJB_KEY || token == WJB_VALUE)
	{
		if (token == WJB_KEY)
			key = pnstrdup(v.val.string.val, v.val.string.len);
		else
			parse_member(key, &v, out);
	}
	if (out->commands)
		check_commands(out->commands);
	if (second && out->ask)
		malformed("A call with a response must not %s again.", "ask");
}
