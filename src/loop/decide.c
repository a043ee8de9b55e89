/*-------------------------------------------------------------------------
 *
 * decide.c
 *		The part of a turn in which policies are called: everything is in memory,
 *		nothing is locked but the shard's position, nothing is written.
 *
 * All calls of a turn share one read-only subtransaction.  The first one that fails
 * ends it; what the calls before it have said is kept, so that it can be committed
 * without the failed one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/errors.h"
#include "fleetlog/guest.h"
#include "fleetlog/settings.h"
#include "fleetlog/shmem.h"
#include "loop_internal.h"

#define MAX_EFFECTS		2000	/* answers beyond it are for the next turn */
#define TURN_US			INT64CONST(1000000) /* ... and what a slow policy has no time for */
#define RECORD_SLACK	1024	/* names of members, headers, positions */
#define COMMAND_SLACK	(2 * FL_LOOP_REFUSAL_MAX)	/* id, or why it was refused, escaped */

/* ---- versions ------------------------------------------------------------------------ */

static FlLoopVersion *
version_of(FlLoopTurn *t, int64 log_offset)
{
	for (int i = t->nversions - 1; i >= 0; i--)
		if (t->versions[i].from_offset <= log_offset)
			return &t->versions[i];
	elog(ERROR, "loop \"%s\" has no policy for offset " INT64_FORMAT " of shard %d", t->loop, log_offset, t->shard);
}

static FlLoopVersion *
version_numbered(FlLoopTurn *t, int number)
{
	for (int i = 0; i < t->nversions; i++)
		if (t->versions[i].number == number)
			return &t->versions[i];
	elog(ERROR, "loop \"%s\" has no policy version %d", t->loop, number);
}

static void
open_version(FlLoopTurn *t, FlLoopVersion *v)
{
	Oid			types[2] = {TEXTOID, INT4OID};
	Datum		values[2] = {CStringGetTextDatum(t->loop), Int32GetDatum(v->number)};
	bool		isnull;

	if (v->is_open)
		return;
	fl_policy_open(&v->policy, (Oid) fl_config_query_int("SELECT fleetlog._loop_policy_function($1, $2)::oid::bigint", 2, types, values, &isnull),
				   v->replayable, t->mcxt);
	v->is_open = true;
}

/* Where a function has to be made again from its text, that is done here, while writing is allowed. */
static void
open_versions(FlLoopTurn *t)
{
	Oid			types[2] = {TEXTOID, INT4OID};
	Datum		values[2] = {CStringGetTextDatum(t->loop), Int32GetDatum(t->shard)};
	int64		from = PG_INT64_MAX;
	bool		isnull;
	ListCell   *lc;

	if (t->orphans != NIL)
		from = fl_config_query_int("SELECT min(w.log_offset) FROM fleetlog.loop_waiting w WHERE w.loop = $1 AND w.shard = $2", 2, types, values, &isnull);
	foreach(lc, t->answers)
	{
		FlLoopAnswer *a = lfirst(lc);

		open_version(t, version_numbered(t, a->version));
		from = Min(from, a->reading->log_offset);
	}
	if (t->readings != NIL)
		from = Min(from, ((FlLoopReading *) linitial(t->readings))->log_offset);
	if (from == PG_INT64_MAX)
		return;
	/* What waits is behind the request's reading. */
	for (FlLoopVersion *v = version_of(t, from); v < t->versions + t->nversions; v++)
		open_version(t, v);
}

/* ---- one call --------------------------------------------------------------------------- */

static void
check_size(FlLoopTurn *t, const FlLoopEffect *e)
{
	const FlStreamInfo *requests = fl_stream_lookup(t->requests);
	const FlStreamInfo *decisions = fl_stream_lookup(t->decisions);
	size_t		limit = (size_t) fl_max_record_kb * 1024;
	size_t		bytes = RECORD_SLACK;
	Jsonb	   *parts[] = {e->before, e->result.ask, e->result.decisions, e->result.commands, e->result.state};

	if (requests && requests->max_record_bytes > 0)
		limit = Min(limit, (size_t) requests->max_record_bytes);
	if (decisions && decisions->max_record_bytes > 0)
		limit = Min(limit, (size_t) decisions->max_record_bytes);
	for (int i = 0; i < lengthof(parts); i++)
	{
		StringInfoData text;

		if (parts[i] == NULL)
			continue;
		initStringInfo(&text);
		fl_loop_append_json(&text, parts[i]);
		bytes += text.len;
		pfree(text.data);
	}
	if (e->result.commands)
		bytes += COMMAND_SLACK * JB_ROOT_COUNT(e->result.commands);
	if (bytes > limit)
		ereport(ERROR,
				(errcode(fl_error_sqlstate(FL_ERR_RECORD_TOO_LARGE)),
				 errmsg("result of the policy, with the state, takes %zu bytes, and a record of the loop's streams at most %zu", bytes, limit),
				 errhint("Raise max_record_bytes of the streams or fleetlog.max_record_size.")));
}

static void
note_effect(FlLoopTurn *t, const FlLoopEffect *e)
{
	FlLoopKey  *key = e->reading->key;
	FlLoopEffect *kept;

	if (e->result.sets_state)
	{
		key->state = e->result.state;
		key->state_offset = e->reading->log_offset;
		key->changed = true;
	}
	if (e->result.ask)
		key->pending = true;
	if (e->result.ask == NULL && e->result.decisions == NULL && e->result.commands == NULL)
		return;
	kept = palloc(sizeof(*kept));
	*kept = *e;
	t->effects = lappend(t->effects, kept);
}

static void
call(FlLoopTurn *t, FlPolicyScope *scope, FlLoopVersion *v, FlLoopReading *r, FlLoopAnswer *answer)
{
	FlLoopEffect e = {.reading = r,.answer = answer,.version = v,.at = answer ? answer->responded_at : r->ts,.before = r->key->state};
	Jsonb	   *result;

	t->in_policy = true;
	t->in_offset = r->log_offset;
	result = fl_policy_call(scope, &v->policy, r->record, answer ? answer->response : NULL, e.before, e.at);
	fl_policy_parse(result, answer != NULL, &e.result);
	if (result != NULL)
		check_size(t, &e);
	t->bytes += result ? VARSIZE(result) : 0;
	t->in_policy = false;
	note_effect(t, &e);
}

/* ---- all calls ---------------------------------------------------------------------------- */

/* Policies of others wait for this one; and a turn, however large one reading is, takes so much memory. */
static bool
is_over(FlLoopTurn *t)
{
	bool		has_begun = t->nread > 0 || t->answered != NIL || t->old_waiting != NIL;

	if (!t->cut_short)
		t->cut_short = fl_monotonic_us() - t->began_us > TURN_US ||
			(has_begun && (t->bytes > FL_LOOP_TURN_BYTES || list_length(t->effects) > MAX_EFFECTS));
	return t->cut_short;
}

/* Readings of a key that have waited, until one asks; what there is no room or time for goes on waiting. */
static void
call_waiting(FlLoopTurn *t, FlPolicyScope *scope, FlLoopKey *key)
{
	ListCell   *lc;
	int64		head = fl_log_head(t->source, t->shard);

	key->pending = false;
	foreach(lc, fl_loop_load_waiting(t, key))
	{
		int64	   *log_offset = lfirst(lc);
		List	   *found = NIL;

		if (key->pending)
			break;
		if (is_over(t))
		{
			key->pending = true;
			break;
		}
		if (*log_offset >= head)
			(void) fl_loop_read(t, *log_offset, *log_offset + 1, 1, &found);
		if (found != NIL)
			call(t, scope, version_of(t, *log_offset), linitial(found), NULL);
		else
			t->ngone++;
		t->old_waiting = lappend(t->old_waiting, log_offset);
	}
}

static bool
is_unanswered(Jsonb *response)
{
	JsonbValue	v;

	return JB_ROOT_IS_OBJECT(response) && JB_ROOT_COUNT(response) == 1 &&
		getKeyJsonValueFromContainer(&response->root, "unanswered", 10, &v) != NULL && v.type == jbvBool && v.val.boolean;
}

static void
call_answered(FlLoopTurn *t, FlPolicyScope *scope)
{
	ListCell   *lc;

	/* First: they have no request by which they would be found again. */
	foreach(lc, t->orphans)
		if (!is_over(t))
			call_waiting(t, scope, lfirst(lc));
	foreach(lc, t->answers)
	{
		FlLoopAnswer *a = lfirst(lc);

		/* The others' keys are pending still. */
		if (is_over(t))
			break;
		call(t, scope, version_numbered(t, a->version), a->reading, a);
		t->answered = lappend(t->answered, a);
		t->nunanswered += is_unanswered(a->response);
		call_waiting(t, scope, a->reading->key);
	}
}

static void
call_readings(FlLoopTurn *t, FlPolicyScope *scope)
{
	int64		end = t->next_position;
	ListCell   *lc;

	foreach(lc, t->readings)
	{
		FlLoopReading *r = lfirst(lc);

		t->next_position = r->log_offset;
		if (is_over(t))
			return;
		if (r->key->pending)
			t->new_waiting = lappend(t->new_waiting, r);
		else
			call(t, scope, version_of(t, r->log_offset), r, NULL);
		t->nread++;
	}
	t->next_position = end;
}

static void
call_all(FlLoopTurn *t, FlPolicyScope *scope)
{
	int64		end = t->next_position;
	int64		gone = t->ngone;
	ListCell   *lc;

	foreach(lc, t->orphans)
		((FlLoopKey *) lfirst(lc))->pending = true;
	/* An error in what comes first leaves all readings to the next turn. */
	t->next_position = t->position;
	t->ngone = 0;
	call_answered(t, scope);
	t->next_position = end;
	t->ngone += gone;
	call_readings(t, scope);
}

/* Errors that say nothing of the policy: memory, disk, descriptors. */
static bool
is_of_the_server(int sqlerrcode)
{
	return ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_INSUFFICIENT_RESOURCES || ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_SYSTEM_ERROR;
}

char *
fl_loop_clip(const char *text, int max)
{
	int			len = (int) strlen(text);

	return len <= max ? pstrdup(text) : psprintf("%.*s ...", pg_mbcliplen(text, len, max), text);
}

char *
fl_loop_describe_error(const ErrorData *e)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s: %s", unpack_sql_state(e->sqlerrcode), e->message);
	if (e->detail)
		appendStringInfo(&text, " %s", e->detail);
	return fl_loop_clip(text.data, FL_LOOP_ERROR_MAX);
}

static void
note_stuck(void *arg)
{
	FlLoopTurn *t = arg;

	fl_loop_note_stuck(t->loop, t->shard, t->in_offset);
}

void
fl_loop_decide(FlLoopTurn *t)
{
	FlPolicyScope scope;

	open_versions(t);
	MemoryContextSwitchTo(t->mcxt);
	t->began_us = fl_monotonic_us();
	fl_policy_begin(&scope);
	scope.on_stuck = note_stuck;
	scope.arg = t;
	PG_TRY();
	{
		call_all(t, &scope);
	}
	PG_CATCH();
	{
		ErrorData  *e;

		MemoryContextSwitchTo(t->mcxt);
		e = CopyErrorData();
		FlushErrorState();
		t->error = fl_loop_describe_error(e);
		if (!t->in_policy || is_of_the_server(e->sqlerrcode))
		{
			fl_policy_abort(&scope);
			ReThrowError(e);
		}
		t->error_offset = t->in_offset;
	}
	PG_END_TRY();
	fl_policy_end(&scope);
	if (t->error)
		ereport(LOG,
				(errmsg("loop \"%s\" has stopped at offset " INT64_FORMAT " of shard %d: %s", t->loop, t->error_offset, t->shard, t->error),
				 errhint("Call fleetlog.alter_loop() with a policy that can decide it, or fleetlog.resume_loop() to try again.")));
}
