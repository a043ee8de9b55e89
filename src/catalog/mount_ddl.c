/*-------------------------------------------------------------------------
 *
 * mount_ddl.c
 *		mount, alter_mount, unmount, and what SQL may ask about routing.
 *
 * Whoever mounts lets devices write into a stream, so he must own it; without a
 * stream, topics are carried in memory only, which no table is touched by.  The
 * form of prefixes and templates is checked here for a good message and by the
 * table's constraints for everybody else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"
#include "fleetlog/log.h"
#include "fleetlog/murmur2.h"
#include "fleetlog/state.h"
#include "fleetlog/topic.h"

#define MAX_LEVELS	1000		/* as fleetlog.max_topic_levels */

PG_FUNCTION_INFO_V1(fl_sql_prefix_problem);
PG_FUNCTION_INFO_V1(fl_sql_template_problem);
PG_FUNCTION_INFO_V1(fl_sql_mount);
PG_FUNCTION_INFO_V1(fl_sql_alter_mount);
PG_FUNCTION_INFO_V1(fl_sql_unmount);
PG_FUNCTION_INFO_V1(fl_sql_route);

static Datum
problem_datum(FunctionCallInfo fcinfo, const char *problem)
{
	if (problem == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(problem));
}

Datum
fl_sql_prefix_problem(PG_FUNCTION_ARGS)
{
	text	   *prefix = PG_GETARG_TEXT_PP(0);

	return problem_datum(fcinfo, fl_prefix_check(VARDATA_ANY(prefix), VARSIZE_ANY_EXHDR(prefix)));
}

Datum
fl_sql_template_problem(PG_FUNCTION_ARGS)
{
	FlTemplate	unused;

	return problem_datum(fcinfo, fl_template_parse(text_to_cstring(PG_GETARG_TEXT_PP(0)), &unused));
}

static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

static void
check_stream(Oid stream)
{
	if (fl_stream_lookup(stream) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", get_rel_name(stream) != NULL ? get_rel_name(stream) : "???"),
				 errhint("Create one with fleetlog.create_stream.")));
	if (!FL_OWNS_TABLE(stream, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(stream));
}

static void
check_prefix(const char *prefix)
{
	const char *problem = prefix == NULL ? "it is null" : fl_prefix_check(prefix, strlen(prefix));

	if (problem == NULL && prefix[0] != '\0' && fl_topic_is_command(prefix, strlen(prefix)))
		problem = "topics below \"cmd\" are reserved for commands";
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("mount prefix \"%s\" is not valid: %s", prefix != NULL ? prefix : "", problem),
				 errhint("A prefix is whole topic levels ending in \"/\", as in \"plant/\", or empty for all topics.")));
}

static void
check_template(const char *what, const char *source)
{
	FlTemplate	t;
	const char *problem = source != NULL ? fl_template_parse(source, &t) : NULL;

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s \"%s\" is not valid: %s", what, source, problem),
				 errhint("As in \"{topic}\", \"{device}\" or \"{device}:{level 3}\".")));
}

static void
check_class_and_dedupe(const char *class_name, const char *dedupe)
{
	static const char *const classes[] = {"telemetry", "event", "command", "safety"};
	bool		known = class_name == NULL || class_name[0] == '\0';

	for (int i = 0; !known && i < lengthof(classes); i++)
		known = strcmp(class_name, classes[i]) == 0;
	if (!known)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("class \"%s\" is not valid", class_name),
				 errhint("Allowed: telemetry, event, command, safety.")));
	if (dedupe == NULL || strcmp(dedupe, "off") == 0 || strcmp(dedupe, "mark") == 0)
		return;
	if (strcmp(dedupe, "drop") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("dedupe \"drop\" is not built yet"),
				 errhint("Use \"off\" or \"mark\".")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("dedupe \"%s\" is not valid", dedupe),
			 errhint("Allowed: off, mark, drop.")));
}

/* Argument n, an int, is a limit; NULL: none is given. */
static void
check_limit(FunctionCallInfo fcinfo, int n, const char *name, int32 max, bool zero_removes)
{
	int32		value = PG_ARGISNULL(n) ? 1 : PG_GETARG_INT32(n);

	if (value < 0 || value > max || (value == 0 && !zero_removes))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 max == PG_INT32_MAX ? errmsg("%s must be positive", name) :
				 errmsg("%s must be between 1 and %d", name, max)));
}

/*
 * Values of one key come from one shard, so that the order of its records is the
 * order of the log (R1).
 */
static void
check_state_shard_key(const char *source)
{
	FlTemplate	t;

	if (source == NULL || fl_template_parse(source, &t) != NULL)
		return;
	for (int i = 0; i < t.nparts; i++)
		if (t.parts[i].kind == FL_TEMPLATE_DEVICE || t.parts[i].kind == FL_TEMPLATE_TENANT)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a mount with a state table cannot have shard_key \"%s\"", source),
					 errdetail("The shard of a topic must not depend on who publishes to it."),
					 errhint("Use {topic} or {level N} only.")));
}

static void
check_state(Oid state)
{
	const char *name = get_rel_name(state);

	if (!fl_state_is_table(state))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a state table", name != NULL ? name : "???"),
				 errhint("Create one with fleetlog.create_state.")));
	if (!FL_OWNS_TABLE(state, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name);
}

static void
check_keep(const char *keep, bool empty_removes)
{
	if (keep == NULL || strcmp(keep, "retained") == 0 || strcmp(keep, "last") == 0 ||
		(empty_removes && keep[0] == '\0'))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("keep \"%s\" is not valid", keep),
			 errhint("Allowed: retained, last.")));
}

static void
check_state_lag(bool given, Datum lag, bool is_last)
{
	Interval   *iv = given ? DatumGetIntervalP(lag) : NULL;

	if (!given)
		return;
	if (!is_last)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("state_lag is for mounts with keep \"last\""),
				 errdetail("Retained values are written with their records.")));
	if (iv->month != 0 || iv->day < 0 || iv->time < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("state_lag must not be negative nor count months")));
}

static bool
is_made_here(Oid stream)
{
	Relation	rel = table_open(stream, AccessShareLock);
	bool		here = rel->rd_createSubid != InvalidSubTransactionId;

	table_close(rel, AccessShareLock);
	return here;
}

/*
 * What becomes of a record's value is decided while its shard is held.  Holding all of
 * them until commit, a change of what is kept falls between two records: those before
 * it are history, from which rebuild_state works, and those behind it are values.
 */
static void
lock_shards(Oid stream)
{
	const FlStreamInfo *info = fl_stream_lookup(stream);
	int32		shards;
	bool		quorum;

	if (info == NULL || is_made_here(stream))
		return;
	shards = info->shards;
	quorum = info->durability == FL_DURABILITY_QUORUM;
	for (int32 i = 0; i < shards; i++)
		fl_shard_lock(fl_shard_open(stream, i, quorum), FL_LOCK_TIMEOUT);
}

static bool
has_last_values(const FlMount *m)
{
	return OidIsValid(m->state) && m->keep == FL_KEEP_LAST;
}

/*
 * `m` becomes `next`.  Last values that are not in their table yet must get there by the
 * old rules; where the table goes on as it is, only the way changes by which they come.
 * The shards of m's stream are held.
 */
static void
hand_over_values(const FlMount *m, const FlMount *next)
{
	bool		goes_on = has_last_values(next) && next->state == m->state && next->stream == m->stream;
	bool		was_folded = m->state_lag_us > 0;

	if (!has_last_values(m) || (goes_on && was_folded == (next->state_lag_us > 0)))
		return;
	if (was_folded || goes_on)
		fl_state_catch_up(m->state, m->stream, was_folded);
}

/* The mount with exactly this prefix; NULL: none. */
static const FlMount *
find_mount(const char *prefix)
{
	int			n;
	const FlMount *mounts = fl_mount_list(&n);

	for (int i = 0; i < n; i++)
		if (strcmp(mounts[i].prefix, prefix) == 0 && !mounts[i].commands)
			return &mounts[i];
	return NULL;
}

static const FlMount *
own_mount(const char *prefix)
{
	const FlMount *m = prefix != NULL ? find_mount(prefix) : NULL;

	if (m == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no stream is mounted on prefix \"%s\"", prefix != NULL ? prefix : ""),
				 errhint("Mounts are listed in fleetlog.mount.")));
	if (OidIsValid(m->stream) && !FL_OWNS_TABLE(m->stream, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(m->stream));
	return m;
}

/*
 * Arguments: prefix, stream, state, keep, state_lag, class, record_key, shard_key, dedupe, max_payload_bytes,
 * max_topic_levels.
 */
Datum
fl_sql_mount(PG_FUNCTION_ARGS)
{
	char	   *prefix = text_arg(fcinfo, 0);
	char	   *class_name = text_arg(fcinfo, 5);
	char	   *record_key = text_arg(fcinfo, 6);
	char	   *shard_key = text_arg(fcinfo, 7);
	char	   *dedupe = text_arg(fcinfo, 8);
	char	   *keep = text_arg(fcinfo, 3);
	Oid			types[11] = {TEXTOID, REGCLASSOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID,
	REGCLASSOID, TEXTOID, INTERVALOID, INT4OID};
	Datum		values[11];
	bool		nulls[11] = {false};
	bool		with_state = !PG_ARGISNULL(2);

	check_prefix(prefix);
	if (!PG_ARGISNULL(1))
		check_stream(PG_GETARG_OID(1));
	else if (with_state)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a mount without a stream cannot have a state table"),
				 errdetail("What is carried in memory only has no last value.")));
	check_template("record_key", record_key);
	check_template("shard_key", shard_key);
	check_keep(keep, false);
	check_state_lag(!PG_ARGISNULL(4), PG_ARGISNULL(4) ? (Datum) 0 : PG_GETARG_DATUM(4),
					with_state && keep != NULL && strcmp(keep, "last") == 0);
	if (with_state)
	{
		check_state(PG_GETARG_OID(2));
		check_state_shard_key(shard_key);
	}
	check_class_and_dedupe(class_name, dedupe);
	check_limit(fcinfo, 9, "max_payload_bytes", PG_INT32_MAX, false);
	check_limit(fcinfo, 10, "max_topic_levels", MAX_LEVELS, false);
	if (find_mount(prefix) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 OidIsValid(find_mount(prefix)->stream) ?
				 errmsg("prefix \"%s\" is mounted already, on stream \"%s\"", prefix, get_rel_name(find_mount(prefix)->stream)) :
				 errmsg("prefix \"%s\" is mounted already, in memory only", prefix),
				 errhint("Change it with fleetlog.alter_mount.")));
	if (with_state)
		lock_shards(PG_GETARG_OID(1));

	values[0] = CStringGetTextDatum(prefix);
	nulls[1] = PG_ARGISNULL(1);
	values[1] = nulls[1] ? (Datum) 0 : PG_GETARG_DATUM(1);
	values[2] = CStringGetTextDatum(record_key != NULL ? record_key : "{topic}");
	values[3] = CStringGetTextDatum(shard_key != NULL ? shard_key : "{topic}");
	nulls[4] = class_name == NULL || class_name[0] == '\0';
	values[4] = nulls[4] ? (Datum) 0 : CStringGetTextDatum(class_name);
	values[5] = CStringGetTextDatum(dedupe != NULL ? dedupe : "mark");
	nulls[6] = PG_ARGISNULL(9);
	values[6] = nulls[6] ? (Datum) 0 : PG_GETARG_DATUM(9);
	nulls[7] = nulls[8] = !with_state;
	values[7] = with_state ? PG_GETARG_DATUM(2) : (Datum) 0;
	values[8] = with_state ? CStringGetTextDatum(keep != NULL ? keep : "retained") : (Datum) 0;
	nulls[9] = PG_ARGISNULL(4);
	values[9] = nulls[9] ? (Datum) 0 : PG_GETARG_DATUM(4);
	nulls[10] = PG_ARGISNULL(10);
	values[10] = nulls[10] ? (Datum) 0 : PG_GETARG_DATUM(10);
	fl_config_execute("INSERT INTO fleetlog.mount_config (prefix, stream, record_key, shard_key, class, dedupe, max_payload_bytes,"
					  " state, keep, state_lag, max_topic_levels) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)", 11, types, values, nulls);
	PG_RETURN_VOID();
}

/* What the mount will be, so that rules between its settings hold after a change, too. */
static void
check_altered_state(const FlMount *m, FunctionCallInfo fcinfo, const char *shard_key, const char *keep)
{
	bool		removes = keep != NULL && keep[0] == '\0';
	bool		with_state = !removes && (OidIsValid(m->state) || !PG_ARGISNULL(7));
	bool		in_memory = PG_ARGISNULL(1) && !OidIsValid(m->stream);
	bool		is_last = keep != NULL ? strcmp(keep, "last") == 0 :
		OidIsValid(m->state) && m->keep == FL_KEEP_LAST;

	check_keep(keep, true);
	if (in_memory && !PG_ARGISNULL(7))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a mount without a stream cannot have a state table"),
				 errhint("Name a stream, too.")));
	if (!PG_ARGISNULL(7) && removes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("state is given, and an empty keep removes it")));
	if (!PG_ARGISNULL(7))
		check_state(PG_GETARG_OID(7));
	if (keep != NULL && !removes && !with_state)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("keep needs a state table"),
				 errhint("Name it with \"state\".")));
	check_state_lag(!PG_ARGISNULL(9), PG_ARGISNULL(9) ? (Datum) 0 : PG_GETARG_DATUM(9), with_state && is_last);
	if (with_state && shard_key == NULL)
		for (int i = 0; i < m->shard_key.nparts; i++)
			if (m->shard_key.parts[i].kind == FL_TEMPLATE_DEVICE || m->shard_key.parts[i].kind == FL_TEMPLATE_TENANT)
				check_state_shard_key(m->shard_key.parts[i].kind == FL_TEMPLATE_DEVICE ? "{device}" : "{tenant}");
	if (with_state)
		check_state_shard_key(shard_key);
}

static int64
lag_of(const Interval *iv)
{
	return iv->time + iv->day * USECS_PER_DAY;
}

/* stream, state, keep and state_lag as they will be. */
static FlMount
altered(const FlMount *m, FunctionCallInfo fcinfo, const char *keep)
{
	FlMount		next = *m;

	if (!PG_ARGISNULL(1))
		next.stream = PG_GETARG_OID(1);
	if (!PG_ARGISNULL(7))
		next.state = PG_GETARG_OID(7);
	if (keep != NULL && keep[0] == '\0')
		next.state = InvalidOid;
	else if (keep != NULL)
		next.keep = strcmp(keep, "last") == 0 ? FL_KEEP_LAST : FL_KEEP_RETAINED;
	if (!PG_ARGISNULL(9))
		next.state_lag_us = lag_of(PG_GETARG_INTERVAL_P(9));
	return next;
}

static void
change_values(const char *prefix, FunctionCallInfo fcinfo, const char *keep)
{
	Oid			from = own_mount(prefix)->stream;
	Oid			to = PG_ARGISNULL(1) ? from : PG_GETARG_OID(1);
	const FlMount *m;
	FlMount		next;

	if (PG_ARGISNULL(1) && PG_ARGISNULL(7) && keep == NULL && PG_ARGISNULL(9))
		return;
	/* In the order of all locks. */
	if (OidIsValid(Min(from, to)))
		lock_shards(Min(from, to));
	if (from != to)
		lock_shards(Max(from, to));
	/* As it is now that nobody else changes it. */
	m = own_mount(prefix);
	if (m->stream != from)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("mount \"%s\" was changed at the same time", prefix),
				 errhint("Retry.")));
	next = altered(m, fcinfo, keep);
	hand_over_values(m, &next);
}

/*
 * Arguments: prefix, stream, class, record_key, shard_key, dedupe, max_payload_bytes,
 * state, keep, state_lag, max_topic_levels.
 */
Datum
fl_sql_alter_mount(PG_FUNCTION_ARGS)
{
	char	   *prefix = text_arg(fcinfo, 0);
	char	   *class_name = text_arg(fcinfo, 2);
	char	   *record_key = text_arg(fcinfo, 3);
	char	   *shard_key = text_arg(fcinfo, 4);
	char	   *dedupe = text_arg(fcinfo, 5);
	char	   *keep = text_arg(fcinfo, 8);
	Oid			types[11] = {TEXTOID, REGCLASSOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT4OID,
	REGCLASSOID, TEXTOID, INTERVALOID, INT4OID};
	Datum		values[11];
	bool		nulls[11];

	check_altered_state(own_mount(prefix), fcinfo, shard_key, keep);
	if (!PG_ARGISNULL(1))
		check_stream(PG_GETARG_OID(1));
	check_template("record_key", record_key);
	check_template("shard_key", shard_key);
	check_class_and_dedupe(class_name, dedupe);
	check_limit(fcinfo, 6, "max_payload_bytes", PG_INT32_MAX, true);
	check_limit(fcinfo, 10, "max_topic_levels", MAX_LEVELS, true);
	change_values(prefix, fcinfo, keep);
	for (int i = 0; i < 11; i++)
	{
		nulls[i] = PG_ARGISNULL(i);
		values[i] = nulls[i] ? (Datum) 0 : PG_GETARG_DATUM(i);
	}
	fl_config_execute("UPDATE fleetlog.mount_config SET stream = coalesce($2, stream),"
					  " class = CASE WHEN $3 IS NULL THEN class ELSE nullif($3, '') END,"
					  " record_key = coalesce($4, record_key), shard_key = coalesce($5, shard_key),"
					  " dedupe = coalesce($6, dedupe),"
					  " max_payload_bytes = CASE WHEN $7 IS NULL THEN max_payload_bytes ELSE nullif($7, 0) END,"
					  " state = CASE WHEN $9 = '' THEN NULL ELSE coalesce($8, state) END,"
					  " keep = CASE WHEN $9 = '' OR coalesce($8, state) IS NULL THEN NULL ELSE coalesce($9, keep, 'retained') END,"
					  " state_lag = CASE WHEN coalesce($9, keep) = 'last' THEN coalesce($10, state_lag) END,"
					  " max_topic_levels = CASE WHEN $11 IS NULL THEN max_topic_levels ELSE nullif($11, 0) END"
					  " WHERE prefix = $1", 11, types, values, nulls);
	PG_RETURN_VOID();
}

Datum
fl_sql_unmount(PG_FUNCTION_ARGS)
{
	Oid			types[1] = {TEXTOID};
	Datum		values[1] = {PG_GETARG_DATUM(0)};
	const FlMount *m = own_mount(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	FlMount		next = {0};

	if (has_last_values(m) && m->state_lag_us > 0 && fl_stream_lookup(m->stream) != NULL)
	{
		lock_shards(m->stream);
		hand_over_values(own_mount(m->prefix), &next);
	}
	fl_config_execute("DELETE FROM fleetlog.mount_config WHERE prefix = $1", 1, types, values, NULL);
	PG_RETURN_VOID();
}

/* A key as text, NULL where it is not valid text (a template may cut nothing, but a topic may be anything). */
static Datum
expand_key(const FlTemplate *t, const text *topic, const char *tenant, const char *device, text **key)
{
	size_t		need = fl_template_expand(t, VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic), tenant, device, NULL, 0);

	*key = palloc(VARHDRSZ + need);
	SET_VARSIZE(*key, VARHDRSZ + need);
	(void) fl_template_expand(t, VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic), tenant, device, VARDATA(*key), need);
	return PointerGetDatum(*key);
}

Datum
fl_sql_route(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[5] = {0};
	bool		nulls[5] = {true, true, true, true, true};
	text	   *topic = PG_ARGISNULL(0) ? NULL : PG_GETARG_TEXT_PP(0);
	const FlMount *m = NULL;
	const FlStreamInfo *s = NULL;
	text	   *key;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (topic != NULL && fl_topic_name_valid((const uint8_t *) VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)))
		m = fl_mount_match(VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic));
	if (m != NULL)
		s = fl_stream_lookup(m->stream);
	if (s != NULL)
	{
		char	   *tenant = text_arg(fcinfo, 1);
		char	   *device = text_arg(fcinfo, 2);

		memset(nulls, false, sizeof(nulls));
		values[0] = CStringGetTextDatum(m->prefix);
		values[1] = ObjectIdGetDatum(m->stream);
		values[2] = expand_key(&m->record_key, topic, tenant, device, &key);
		values[3] = expand_key(&m->shard_key, topic, tenant, device, &key);
		values[4] = Int32GetDatum(fl_partition((const uint8_t *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), s->shards));
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
