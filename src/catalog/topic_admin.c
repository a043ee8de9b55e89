/*-------------------------------------------------------------------------
 *
 * topic_admin.c
 *		What Kafka's clients ask of streams as their administrators (topic_admin.h):
 *		the SQL functions that do it, called as the role that asks.
 *
 * The role has what EXECUTE on those functions, CREATE on a schema and ownership of
 * a stream give it, no less and no more; it cannot become another one on the way
 * (SECURITY_LOCAL_USERID_CHANGE).
 *
 * No lock is waited for longer than LOCK_MS: what waits behind this in the queue are
 * other clients' commits.  Who is in the way is met again by a repetition, until
 * the request's own deadline.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#include "fleetlog/config.h"
#include "fleetlog/errors.h"
#include "fleetlog/topic_admin.h"

#define LOCK_MS "50ms"

/* ---- the queue's bytes ------------------------------------------------------------- */

static void
write_text(FlBuf *buf, const char *text)
{
	fl_write_le32(buf, text == NULL ? PG_UINT32_MAX : (uint32) strlen(text));
	if (text != NULL)
		fl_write_bytes(buf, text, strlen(text));
}

static bool
read_text(FlReader *r, const char **text)
{
	uint32		len = fl_read_le32(r);
	const uint8 *bytes;

	*text = NULL;
	if (len == PG_UINT32_MAX)
		return !r->failed;
	bytes = fl_read_bytes(r, len);
	if (bytes == NULL)
		return false;
	*text = pnstrdup((const char *) bytes, len);
	return true;
}

void
fl_topic_admin_write(FlBuf *buf, const FlTopicAdmin *admin)
{
	fl_buf_reset(buf);
	fl_write_u8(buf, FL_POSITIONS_TOPIC_ADMIN);
	fl_write_u8(buf, admin->op);
	fl_write_le32(buf, admin->role);
	fl_write_u8(buf, admin->validate_only);
	fl_write_le64(buf, (uint64) admin->deadline);
	fl_write_u8(buf, (uint8) admin->nparams);
	for (int i = 0; i < admin->nparams; i++)
		write_text(buf, admin->params[i]);
}

bool
fl_topic_admin_is(const uint8 *body, int32 len)
{
	return len > 0 && body[0] == FL_POSITIONS_TOPIC_ADMIN;
}

bool
fl_topic_admin_read(const uint8 *body, int32 len, FlTopicAdmin *admin)
{
	FlReader	r;

	fl_reader_init(&r, body, len);
	(void) fl_read_u8(&r);
	admin->op = (FlTopicAdminOp) fl_read_u8(&r);
	admin->role = fl_read_le32(&r);
	admin->validate_only = fl_read_u8(&r) != 0;
	admin->deadline = (TimestampTz) fl_read_le64(&r);
	admin->nparams = fl_read_u8(&r);
	if (r.failed || admin->op > FL_TOPIC_SIZES || admin->nparams > FL_TOPIC_PARAMS_MAX)
		return false;
	for (int i = 0; i < admin->nparams; i++)
		if (!read_text(&r, &admin->params[i]))
			return false;
	return true;
}

/* ---- what is done ------------------------------------------------------------------ */

/*
 * A name alone goes where CREATE TABLE would put it by the server's default
 * search_path: into the schema that is called as the role, else into public.
 */
static const char *const statements[] = {
	[FL_TOPIC_CREATE] = "SELECT fleetlog.create_stream("
	"pg_catalog.quote_ident(COALESCE((SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = CURRENT_USER), 'public'))"
	" || '.' || pg_catalog.quote_ident($1), shards => $2::pg_catalog.int4, compression => COALESCE($3, 'lz4'),"
	" timestamp_type => COALESCE($4, 'create'), cleanup_policy => COALESCE($5, 'delete'),"
	" segment_bytes => NULLIF($6, '0')::pg_catalog.int8, segment_age => NULLIF($7, '0')::pg_catalog.interval,"
	" retention_age => NULLIF($8, '0')::pg_catalog.interval, retention_bytes => NULLIF($9, '0')::pg_catalog.int8,"
	" max_record_bytes => NULLIF($10, '0')::pg_catalog.int4)::pg_catalog.oid::pg_catalog.int8",
	[FL_TOPIC_DROP] = "SELECT 0::pg_catalog.int8 FROM fleetlog.drop_stream($1::pg_catalog.oid)",
	[FL_TOPIC_GROW] = "SELECT 0::pg_catalog.int8 FROM fleetlog.alter_stream($1::pg_catalog.oid, shards => $2::pg_catalog.int4,"
	" retention_bytes => $3::pg_catalog.int8)",
	[FL_TOPIC_ALTER] = "SELECT 0::pg_catalog.int8 FROM fleetlog.alter_stream($1::pg_catalog.oid, compression => $2, timestamp_type => $3,"
	" cleanup_policy => $4, segment_bytes => $5::pg_catalog.int8, segment_age => $6::pg_catalog.interval,"
	" retention_age => $7::pg_catalog.interval, retention_bytes => $8::pg_catalog.int8, max_record_bytes => $9::pg_catalog.int4)",
	[FL_TOPIC_TRIM] = "SELECT fleetlog.trim_head($1::pg_catalog.oid, $2::pg_catalog.int4,"
	" COALESCE($3::pg_catalog.int8, fleetlog.tail($1::pg_catalog.oid, $2::pg_catalog.int4)), NULL)",
};

static void
set_locally(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* As the current user. */
static int64
call(const FlTopicAdmin *admin)
{
	Oid			types[FL_TOPIC_PARAMS_MAX];
	Datum		values[FL_TOPIC_PARAMS_MAX];
	char		nulls[FL_TOPIC_PARAMS_MAX + 1];
	int64		result = 0;
	bool		isnull = true;
	int			rc;

	for (int i = 0; i < admin->nparams; i++)
	{
		types[i] = TEXTOID;
		nulls[i] = admin->params[i] == NULL ? 'n' : ' ';
		values[i] = admin->params[i] == NULL ? (Datum) 0 : CStringGetTextDatum(admin->params[i]);
	}
	SPI_connect();
	rc = SPI_execute_with_args(statements[admin->op], admin->nparams, types, values, nulls, false, 0);
	if (rc < 0)
		elog(ERROR, "an admin request could not be executed: %s", SPI_result_code_string(rc));
	if (SPI_processed > 0)
		result = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	return isnull ? 0 : result;
}

static void
answer_number(FlBuf *answer, int64 number)
{
	FlPosition	item = {.stream = (Oid) number,.log_offset = number,.metadata = {NULL, -1}};

	fl_positions_begin_answer(answer, FL_KAFKA_NO_ERROR, true);
	fl_positions_add(answer, &item);
}

static void
call_as_role(const FlTopicAdmin *admin, FlBuf *answer)
{
	Oid			save_user;
	int			save_context;
	int64		result;

	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(admin->role)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the role does not exist any more")));
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(admin->role, save_context | SECURITY_LOCAL_USERID_CHANGE);
	result = call(admin);
	SetUserIdAndSecContext(save_user, save_context);
	answer_number(answer, result);
}

static void
on_size(void *arg, HeapTuple tuple, TupleDesc desc)
{
	FlPosition	item = {.metadata = {NULL, -1}};
	bool		isnull;

	item.stream = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	item.shard = DatumGetInt32(SPI_getbinval(tuple, desc, 2, &isnull));
	item.log_offset = DatumGetInt64(SPI_getbinval(tuple, desc, 3, &isnull));
	fl_positions_add(arg, &item);
}

void
fl_topic_admin_execute(const FlTopicAdmin *admin, FlBuf *answer)
{
	int			level = NewGUCNestLevel();

	set_locally("lock_timeout", LOCK_MS);
	set_locally("fleetlog.shard_lock_timeout", LOCK_MS);
	if (admin->op != FL_TOPIC_SIZES)
		call_as_role(admin, answer);
	else
	{
		Oid			types[1] = {TEXTOID};
		Datum		values[1] = {CStringGetTextDatum(admin->params[0])};

		fl_positions_begin_answer(answer, FL_KAFKA_NO_ERROR, true);
		fl_config_query("SELECT stream::pg_catalog.oid, shard, bytes FROM fleetlog.stream_shard"
						" WHERE stream::pg_catalog.oid = ANY ($1::pg_catalog.oid[])",
						1, types, values, on_size, answer);
	}
	AtEOXact_GUC(true, level);
}

/* ---- errors ------------------------------------------------------------------------ */

bool
fl_topic_admin_may_pass(const FlTopicAdmin *admin, const ErrorData *error)
{
	switch (error->sqlerrcode)
	{
		case ERRCODE_LOCK_NOT_AVAILABLE:
		case ERRCODE_T_R_DEADLOCK_DETECTED:
		case ERRCODE_OBJECT_IN_USE:
			return true;
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
			/* Records that are not durable yet, last values that are not in their table yet. */
			return admin->op == FL_TOPIC_TRIM;
		default:
			return error->sqlerrcode == fl_error_sqlstate(FL_ERR_SHARD_BUSY);
	}
}

static int16
kafka_error(const FlTopicAdmin *admin, const ErrorData *error)
{
	int			code = error->sqlerrcode;

	if (fl_topic_admin_may_pass(admin, error))
		return FL_KAFKA_REQUEST_TIMED_OUT;
	switch (code)
	{
		case ERRCODE_INSUFFICIENT_PRIVILEGE:
			return FL_KAFKA_TOPIC_AUTHORIZATION_FAILED;
		case ERRCODE_DUPLICATE_TABLE:
		case ERRCODE_UNIQUE_VIOLATION:
			return FL_KAFKA_TOPIC_ALREADY_EXISTS;
		case ERRCODE_UNDEFINED_TABLE:
		case ERRCODE_WRONG_OBJECT_TYPE:
		case ERRCODE_UNDEFINED_OBJECT:
			return FL_KAFKA_UNKNOWN_TOPIC_OR_PARTITION;
		case ERRCODE_UNDEFINED_SCHEMA:
			return FL_KAFKA_INVALID_TOPIC_EXCEPTION;
		case ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST:
			return FL_KAFKA_POLICY_VIOLATION;
		case ERRCODE_INVALID_PARAMETER_VALUE:
		case ERRCODE_DATETIME_FIELD_OVERFLOW:
		case ERRCODE_INTERVAL_FIELD_OVERFLOW:
		case ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE:
			return admin->op == FL_TOPIC_TRIM ? FL_KAFKA_OFFSET_OUT_OF_RANGE : FL_KAFKA_INVALID_CONFIG;
		case ERRCODE_FEATURE_NOT_SUPPORTED:
			return admin->op == FL_TOPIC_GROW ? FL_KAFKA_INVALID_PARTITIONS : FL_KAFKA_INVALID_REQUEST;
		case ERRCODE_DISK_FULL:
			return FL_KAFKA_STORAGE_ERROR;
		default:
			return (int16) fl_error_info(fl_error_from_sqlstate(code))->kafka_error;
	}
}

bool
fl_topic_admin_is_told(const FlTopicAdmin *admin, const ErrorData *error)
{
	int16		code = kafka_error(admin, error);

	return code != FL_KAFKA_UNKNOWN_SERVER_ERROR && code != FL_KAFKA_STORAGE_ERROR;
}

static void
answer_error(FlBuf *answer, int16 error, const char *message)
{
	char	   *utf8 = pg_server_to_any(message, strlen(message), PG_UTF8);
	FlPosition	item = {.metadata = fl_kafka_string(utf8)};

	fl_positions_begin_answer(answer, error, false);
	fl_positions_add(answer, &item);
}

void
fl_topic_admin_write_error(FlBuf *answer, const FlTopicAdmin *admin, const ErrorData *error)
{
	char	   *message = error->message;

	if (!fl_topic_admin_is_told(admin, error))
		message = "an internal error; the server's log has more";
	else if (error->hint != NULL)
		message = psprintf("%s (%s)", message, error->hint);
	answer_error(answer, kafka_error(admin, error), message);
}

void
fl_topic_admin_write_timeout(FlBuf *answer)
{
	answer_error(answer, FL_KAFKA_REQUEST_TIMED_OUT, "the request has waited for its turn for too long");
}
