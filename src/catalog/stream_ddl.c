/*-------------------------------------------------------------------------
 *
 * stream_ddl.c
 *		create_stream, alter_stream and drop_stream.
 *
 * A stream is one table to its users:
 *
 *		telemetry			PARTITION BY LIST (shard)			what SQL names
 *		  telemetry_0		PARTITION BY RANGE (log_offset)		a shard
 *			telemetry_0_0	USING fleetlog_log					a segment
 *
 * The tables are made by ordinary DDL as the calling user, who therefore needs
 * CREATE in the schema and becomes the owner; event triggers and tools that
 * follow DDL see them.  The configuration rows are written as the owner of the
 * extension.  All in the caller's transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "replication/syncrep.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"
#include "fleetlog/log.h"
#include "fleetlog/loop.h"

PG_FUNCTION_INFO_V1(fl_sql_create_stream);
PG_FUNCTION_INFO_V1(fl_sql_alter_stream);
PG_FUNCTION_INFO_V1(fl_sql_drop_stream);

/* The values that both functions take, as they came; NULL where not given. */
typedef struct StreamOptions
{
	int32		shards;			/* 0: not given */
	char	   *durability;
	char	   *compression;
	char	   *timestamp_type;
	char	   *cleanup_policy;
	Datum		segment_bytes;
	Datum		segment_age;
	Datum		retention_age;
	Datum		retention_bytes;
	Datum		max_record_bytes;
	bool		has_segment_bytes;
	bool		has_segment_age;
	bool		has_retention_age;
	bool		has_retention_bytes;
	bool		has_max_record_bytes;
} StreamOptions;

static void
invalid_value(const char *what, const char *value, const char *allowed)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s \"%s\" is not valid", what, value),
			 errhint("Allowed: %s.", allowed)));
}

static void
check_options(const StreamOptions *o)
{
	if (o->shards != 0 && (o->shards < FL_MIN_SHARDS || o->shards > FL_MAX_SHARDS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of shards must be between %d and %d", FL_MIN_SHARDS, FL_MAX_SHARDS)));
	if (o->durability != NULL && strcmp(o->durability, "local") != 0 && strcmp(o->durability, "quorum") != 0)
		invalid_value("durability", o->durability, "local, quorum");
	if (o->compression != NULL && strcmp(o->compression, "none") != 0 &&
		strcmp(o->compression, "lz4") != 0 && strcmp(o->compression, "zstd") != 0)
		invalid_value("compression", o->compression, "none, lz4, zstd");
	if (o->timestamp_type != NULL && strcmp(o->timestamp_type, "append") != 0 && strcmp(o->timestamp_type, "create") != 0)
		invalid_value("timestamp_type", o->timestamp_type, "append, create");
	if (o->cleanup_policy != NULL && strcmp(o->cleanup_policy, "delete") != 0 &&
		strcmp(o->cleanup_policy, "compact") != 0 && strcmp(o->cleanup_policy, "compact,delete") != 0)
		invalid_value("cleanup_policy", o->cleanup_policy, "delete, compact, \"compact,delete\"");

	/* Records would wait for ever, since nobody could confirm them (L5). */
	if (o->durability != NULL && strcmp(o->durability, "quorum") == 0 &&
		(SyncRepStandbyNames == NULL || SyncRepStandbyNames[0] == '\0'))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("durability \"quorum\" needs synchronous standbys, and synchronous_standby_names is empty"),
				 errhint("Set synchronous_standby_names first, or use durability \"local\".")));
}

static void
check_positive(const char *what, bool given, int64 value, bool zero_removes)
{
	if (given && (value < 0 || (value == 0 && !zero_removes)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be positive", what)));
}

static int64
interval_us(Datum value)
{
	Interval   *iv = DatumGetIntervalP(value);

	return iv->time + (iv->day + (int64) iv->month * DAYS_PER_MONTH) * USECS_PER_DAY;
}

static void
check_numbers(const StreamOptions *o, bool zero_removes)
{
	check_positive("segment_bytes", o->has_segment_bytes, DatumGetInt64(o->segment_bytes), zero_removes);
	check_positive("retention_bytes", o->has_retention_bytes, DatumGetInt64(o->retention_bytes), zero_removes);
	check_positive("max_record_bytes", o->has_max_record_bytes, DatumGetInt32(o->max_record_bytes), zero_removes);
	check_positive("segment_age", o->has_segment_age,
				   o->has_segment_age ? interval_us(o->segment_age) : 0, zero_removes);
	check_positive("retention_age", o->has_retention_age,
				   o->has_retention_age ? interval_us(o->retention_age) : 0, zero_removes);
}

/* Argument n as text, NULL when it is NULL. */
static char *
text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

/* Five arguments that both functions have in this order. */
static void
read_number_args(FunctionCallInfo fcinfo, int first, StreamOptions *o)
{
	o->has_segment_bytes = !PG_ARGISNULL(first);
	o->has_segment_age = !PG_ARGISNULL(first + 1);
	o->has_retention_age = !PG_ARGISNULL(first + 2);
	o->has_retention_bytes = !PG_ARGISNULL(first + 3);
	o->has_max_record_bytes = !PG_ARGISNULL(first + 4);
	o->segment_bytes = o->has_segment_bytes ? PG_GETARG_DATUM(first) : (Datum) 0;
	o->segment_age = o->has_segment_age ? PG_GETARG_DATUM(first + 1) : (Datum) 0;
	o->retention_age = o->has_retention_age ? PG_GETARG_DATUM(first + 2) : (Datum) 0;
	o->retention_bytes = o->has_retention_bytes ? PG_GETARG_DATUM(first + 3) : (Datum) 0;
	o->max_record_bytes = o->has_max_record_bytes ? PG_GETARG_DATUM(first + 4) : (Datum) 0;
}

/* ---- create_stream --------------------------------------------------------------------- */

/* Where the name goes, as CREATE TABLE would decide it; errors as it would raise them. */
static Oid
resolve_name(const char *name, char **relname)
{
	RangeVar   *rv = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(name)));
	Oid			schema = RangeVarGetAndCheckCreationNamespace(rv, NoLock, NULL);

	if (rv->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a stream cannot be temporary"),
				 errhint("Name a permanent schema.")));
	if (OidIsValid(get_relname_relid(rv->relname, schema)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", rv->relname)));
	*relname = rv->relname;
	return schema;
}

/*
 * CREATE, then ATTACH, like a segment: adding shards must not wait for the
 * readers of the stream.  The tablespace is the root's.
 */
static void
create_shard_table(Oid root, int32 shard)
{
	Oid			schema = get_rel_namespace(root);
	Oid			tablespace = get_rel_tablespace(root);
	const char *root_name = get_rel_name(root);
	const char *nsp = get_namespace_name(schema);
	const char *qualified_root = quote_qualified_identifier(nsp, root_name);
	char		number[16];
	char	   *name;
	StringInfoData sql;

	snprintf(number, sizeof(number), "%d", shard);
	name = makeObjectName(root_name, number, NULL);
	for (int i = 1; OidIsValid(get_relname_relid(name, schema)); i++)
	{
		char		label[16];

		snprintf(label, sizeof(label), "%d", i);
		name = makeObjectName(root_name, number, label);
	}
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TABLE %s (LIKE %s) PARTITION BY RANGE (log_offset)",
					 quote_qualified_identifier(nsp, name), qualified_root);
	if (OidIsValid(tablespace))
		appendStringInfo(&sql, " TABLESPACE %s", quote_identifier(get_tablespace_name(tablespace)));
	fl_config_ddl(sql.data);
	resetStringInfo(&sql);
	appendStringInfo(&sql, "ALTER TABLE %s ATTACH PARTITION %s FOR VALUES IN (%d)",
					 qualified_root, quote_qualified_identifier(nsp, name), shard);
	fl_config_ddl(sql.data);
	fl_set_row_security(get_relname_relid(name, schema), fl_row_security(root));
}

static Oid
create_tables(Oid schema, const char *name, int32 shards)
{
	StringInfoData sql;
	Oid			root;

	initStringInfo(&sql);
	appendStringInfo(&sql,
					 "CREATE TABLE %s ("
					 "shard int NOT NULL, log_offset bigint NOT NULL, ts timestamptz NOT NULL, created timestamptz, "
					 "tenant text, device text, key text, key_bytes bytea, headers fleetlog.headers, payload bytea) "
					 "PARTITION BY LIST (shard)", quote_qualified_identifier(get_namespace_name(schema), name));
	fl_config_ddl(sql.data);
	root = get_relname_relid(name, schema);
	for (int32 i = 0; i < shards; i++)
		create_shard_table(root, i);
	return root;
}

static void
insert_config(Oid root, const StreamOptions *o)
{
	Oid			types[11] = {REGCLASSOID, INT4OID, TEXTOID, TEXTOID, TEXTOID, INT8OID, INTERVALOID, INTERVALOID, INT8OID, INT4OID, TEXTOID};
	Datum		values[11] = {ObjectIdGetDatum(root), Int32GetDatum(o->shards),
		CStringGetTextDatum(o->durability), CStringGetTextDatum(o->compression), CStringGetTextDatum(o->timestamp_type),
		o->segment_bytes, o->segment_age, o->retention_age, o->retention_bytes, o->max_record_bytes,
		CStringGetTextDatum(o->cleanup_policy)};
	bool		nulls[11] = {false, false, false, false, false, !o->has_segment_bytes, !o->has_segment_age,
		!o->has_retention_age, !o->has_retention_bytes, !o->has_max_record_bytes, false};

	fl_config_execute("INSERT INTO fleetlog.stream_config (stream, shards, durability, compression, timestamp_type,"
					  " segment_bytes, segment_age, retention_age, retention_bytes, max_record_bytes, cleanup_policy)"
					  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)", 11, types, values, nulls);
	fl_config_execute("INSERT INTO fleetlog.shard_config (stream, shard) SELECT $1, i FROM generate_series(0, $2 - 1) i",
					  2, types, values, NULL);
	fl_config_execute("INSERT INTO fleetlog.shard_map_config (stream, generation, shards, tails) VALUES ($1, 1, $2, '{}')",
					  2, types, values, NULL);
	CommandCounterIncrement();
}

Datum
fl_sql_create_stream(PG_FUNCTION_ARGS)
{
	StreamOptions o = {0};
	char	   *name = text_arg(fcinfo, 0);
	char	   *relname;
	Oid			schema;
	Oid			root;

	fl_require_preload();
	if (name == NULL || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("a stream needs a name and a number of shards")));
	o.shards = PG_GETARG_INT32(1);
	if (o.shards == 0)
		o.shards = -1;			/* 0 means "not given" in check_options */
	o.durability = PG_ARGISNULL(2) ? "local" : text_arg(fcinfo, 2);
	o.compression = PG_ARGISNULL(3) ? "lz4" : text_arg(fcinfo, 3);
	o.timestamp_type = PG_ARGISNULL(4) ? "append" : text_arg(fcinfo, 4);
	read_number_args(fcinfo, 5, &o);
	o.cleanup_policy = PG_ARGISNULL(10) ? "delete" : text_arg(fcinfo, 10);
	check_options(&o);
	check_numbers(&o, false);

	schema = resolve_name(name, &relname);
	root = create_tables(schema, relname, o.shards);
	insert_config(root, &o);
	for (int32 i = 0; i < o.shards; i++)
		fl_segment_create_next(root, i, 0, 0, 0);
	PG_RETURN_OID(root);
}

/* ---- alter_stream, drop_stream ------------------------------------------------------------ */

const FlStreamInfo *
fl_stream_own(Oid relid)
{
	const FlStreamInfo *s = fl_stream_lookup(relid);

	if (s == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 get_rel_name(relid) != NULL ? errmsg("\"%s\" is not a stream", get_rel_name(relid)) :
				 errmsg("stream with OID %u does not exist", relid),
				 errhint("Streams are listed in fleetlog.stream.")));
	if (!FL_OWNS_TABLE(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
	return s;
}

/*
 * Tails of all shards at this moment, as a bigint[].  The shard locks, taken in
 * ascending order as everybody does, are kept until commit: what is appended
 * later is routed by the new number of shards.
 */
static Datum
lock_and_read_tails(Oid stream, int32 shards, bool quorum)
{
	Datum	   *tails = palloc(sizeof(Datum) * shards);

	for (int32 i = 0; i < shards; i++)
	{
		FlShard    *shard = fl_shard_open(stream, i, quorum);

		fl_shard_lock(shard, FL_LOCK_TIMEOUT);
		tails[i] = Int64GetDatum(fl_log_next_offset(shard));
	}
	return PointerGetDatum(construct_array(tails, shards, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* The new shards belong to the owner of the stream, whoever calls. */
static void
add_shards(Oid stream, int32 from, int32 to, bool quorum)
{
	Oid			types[3] = {REGCLASSOID, INT4OID, INT8ARRAYOID};
	Datum		values[3] = {ObjectIdGetDatum(stream), Int32GetDatum(to), (Datum) 0};
	const FlStreamInfo *s = fl_stream_lookup(stream);
	Oid			save_user;
	int			save_context;

	values[2] = lock_and_read_tails(stream, from, quorum);
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(s->owner, save_context | SECURITY_LOCAL_USERID_CHANGE);
	for (int32 i = from; i < to; i++)
		create_shard_table(stream, i);
	SetUserIdAndSecContext(save_user, save_context);

	fl_config_execute("INSERT INTO fleetlog.shard_config (stream, shard)"
					  " SELECT $1, i FROM generate_series(0, $2 - 1) i WHERE NOT EXISTS"
					  " (SELECT FROM fleetlog.shard_config s WHERE s.stream = $1 AND s.shard = i)", 2, types, values, NULL);
	fl_config_execute("INSERT INTO fleetlog.shard_map_config (stream, generation, shards, tails)"
					  " SELECT $1, coalesce(max(generation), 0) + 1, $2, $3 FROM fleetlog.shard_map_config WHERE stream = $1",
					  3, types, values, NULL);
	fl_config_execute("UPDATE fleetlog.stream_config SET shards = $2 WHERE stream = $1", 2, types, values, NULL);
	CommandCounterIncrement();
	for (int32 i = from; i < to; i++)
		fl_segment_create_next(stream, i, 0, 0, 0);
}

static void
update_config(Oid stream, const StreamOptions *o)
{
	Oid			types[10] = {REGCLASSOID, TEXTOID, TEXTOID, INT8OID, INTERVALOID, INTERVALOID, INT8OID, INT4OID, TEXTOID, TEXTOID};
	Datum		values[10] = {ObjectIdGetDatum(stream),
		o->durability != NULL ? CStringGetTextDatum(o->durability) : (Datum) 0,
		o->compression != NULL ? CStringGetTextDatum(o->compression) : (Datum) 0,
		o->segment_bytes, o->segment_age, o->retention_age, o->retention_bytes, o->max_record_bytes,
		o->timestamp_type != NULL ? CStringGetTextDatum(o->timestamp_type) : (Datum) 0,
		o->cleanup_policy != NULL ? CStringGetTextDatum(o->cleanup_policy) : (Datum) 0};
	bool		nulls[10] = {false, o->durability == NULL, o->compression == NULL, !o->has_segment_bytes,
		!o->has_segment_age, !o->has_retention_age, !o->has_retention_bytes, !o->has_max_record_bytes,
		o->timestamp_type == NULL, o->cleanup_policy == NULL};

	fl_config_execute("UPDATE fleetlog.stream_config SET"
					  " durability = coalesce($2, durability), compression = coalesce($3, compression),"
					  " segment_bytes = CASE WHEN $4 IS NULL THEN segment_bytes ELSE nullif($4, 0) END,"
					  " segment_age = CASE WHEN $5 IS NULL THEN segment_age ELSE nullif($5, interval '0') END,"
					  " retention_age = CASE WHEN $6 IS NULL THEN retention_age ELSE nullif($6, interval '0') END,"
					  " retention_bytes = CASE WHEN $7 IS NULL THEN retention_bytes ELSE nullif($7, 0) END,"
					  " max_record_bytes = CASE WHEN $8 IS NULL THEN max_record_bytes ELSE nullif($8, 0) END,"
					  " timestamp_type = coalesce($9, timestamp_type), cleanup_policy = coalesce($10, cleanup_policy)"
					  " WHERE stream = $1", 10, types, values, nulls);
}

Datum
fl_sql_alter_stream(PG_FUNCTION_ARGS)
{
	StreamOptions o = {0};
	Oid			stream = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0);
	const FlStreamInfo *s;
	int32		shards;
	bool		quorum;

	fl_require_preload();
	s = fl_stream_own(stream);
	shards = s->shards;
	quorum = s->durability == FL_DURABILITY_QUORUM;
	o.shards = PG_ARGISNULL(1) ? 0 : PG_GETARG_INT32(1);
	o.durability = text_arg(fcinfo, 2);
	o.compression = text_arg(fcinfo, 3);
	read_number_args(fcinfo, 4, &o);
	o.timestamp_type = text_arg(fcinfo, 9);
	o.cleanup_policy = text_arg(fcinfo, 10);
	check_options(&o);
	check_numbers(&o, true);
	if (!PG_ARGISNULL(1) && o.shards < shards)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot reduce the shards of stream \"%s\" from %d to %d", get_rel_name(stream), shards, o.shards),
				 errhint("Shards can only be added; create another stream instead.")));

	/* Two calls at the same time must not both add the same shards. */
	LockRelationOid(stream, ShareUpdateExclusiveLock);
	s = fl_stream_own(stream);
	if (o.shards != 0 && s->shards != shards)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the number of shards of stream \"%s\" was changed at the same time", get_rel_name(stream))));
	update_config(stream, &o);
	if (o.shards > shards)
		add_shards(stream, shards, o.shards, quorum);
	PG_RETURN_VOID();
}

Datum
fl_sql_drop_stream(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);
	const FlStreamInfo *s = fl_stream_own(stream);
	int			nmounts;
	const FlMount *mounts = fl_mount_list(&nmounts);
	char	   *sql;

	fl_loop_refuse_drop(stream);
	fl_hold_refuse_drop(stream);
	for (int i = 0; i < nmounts; i++)
		if (mounts[i].stream == stream && !mounts[i].commands)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop stream \"%s\" because prefix \"%s\" is mounted on it", s->name, mounts[i].prefix),
					 errhint("Remove the mount with fleetlog.unmount('%s') first.", mounts[i].prefix)));

	/* The configuration goes with the table, by whatever way that is dropped (refuse.c). */
	sql = psprintf("DROP TABLE %s", quote_qualified_identifier(s->schema, s->name));
	fl_config_ddl(sql);
	PG_RETURN_VOID();
}
