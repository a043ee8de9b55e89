/*-------------------------------------------------------------------------
 *
 * command.c
 *		fleetlog.send_command() and cancel_command() (C1).
 *
 * A command is written as a row in the caller's transaction, and by nothing
 * else: what is rolled back was never sent.  The row is written as the owner of
 * the extension, after the caller's right was found here: fleetlog_admin may
 * command every device, other roles those of tenants that they were given by
 * fleetlog.allow_commands.  The right comes first: devices, commands and jobs of
 * other tenants are never looked up, so that nobody learns from an error, or from
 * a wait for a lock, whether they exist.  Who called is taken from the session,
 * never from an argument.
 *
 * At commit the dispatcher is woken; a wake-up that is lost costs a few seconds,
 * since it also looks by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "fleetlog/command.h"
#include "fleetlog/compat.h"
#include "fleetlog/config.h"
#include "fleetlog/shmem.h"
#include "command_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_send_command);
PG_FUNCTION_INFO_V1(fl_sql_cancel_command);
PG_FUNCTION_INFO_V1(fl_sql_command_point);

#define ANSWER_GRACE_US		(30 * USECS_PER_SEC)	/* after the ttl, unless an answer_timeout is given */

/* ---- waking the dispatcher ------------------------------------------------------ */

static bool wake_wanted = false;

static void
wake_at_commit(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT && wake_wanted)
		fl_worker_wake(FL_WORKER_COMMANDS, 0);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		wake_wanted = false;
}

void
fl_command_wake_at_commit(void)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(wake_at_commit, NULL);
	registered = true;
	wake_wanted = true;
}

/* ---- rights ----------------------------------------------------------------------- */

static bool
is_admin(void)
{
	Oid			admin = get_role_oid("fleetlog_admin", true);

	return superuser() || (OidIsValid(admin) && has_privs_of_role(GetUserId(), admin));
}

typedef struct Granted
{
	MemoryContext mcxt;
	ArrayType  *tenants;
} Granted;

static void
on_tenants(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Granted    *granted = arg;
	bool		isnull;
	MemoryContext old = MemoryContextSwitchTo(granted->mcxt);

	granted->tenants = DatumGetArrayTypePCopy(SPI_getbinval(tuple, desc, 1, &isnull));
	MemoryContextSwitchTo(old);
}

FlCommandTenants
fl_command_tenants(void)
{
	Oid			types[1] = {OIDOID};
	Datum		values[1] = {ObjectIdGetDatum(GetUserId())};
	Granted		granted = {.mcxt = CurrentMemoryContext};
	FlCommandTenants may = {.all = is_admin(), .names = construct_empty_array(TEXTOID)};

	if (may.all)
		return may;
	fl_config_query("SELECT coalesce(array_agg(DISTINCT g.tenant), '{}') FROM fleetlog.command_grant g WHERE pg_has_role($1, g.role::oid, 'USAGE')",
					1, types, values, on_tenants, &granted);
	may.names = granted.tenants;
	if (ArrayGetNItems(ARR_NDIM(may.names), ARR_DIMS(may.names)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" may not send commands", GetUserNameFromId(GetUserId(), false)),
				 errhint("An administrator can allow it for a tenant, with fleetlog.allow_commands.")));
	return may;
}

void
fl_command_check_tenant(const FlCommandTenants *may, const char *tenant, int len)
{
	Datum	   *names;
	int			n;

	if (may->all)
		return;
	deconstruct_array(may->names, TEXTOID, -1, false, TYPALIGN_INT, &names, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		text	   *name = DatumGetTextPP(names[i]);

		if (VARSIZE_ANY_EXHDR(name) == len && memcmp(VARDATA_ANY(name), tenant, len) == 0)
		{
			pfree(names);
			return;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("role \"%s\" may not send commands to devices of tenant \"%.*s\"", GetUserNameFromId(GetUserId(), false), len, tenant),
			 errhint("An administrator can allow it: SELECT fleetlog.allow_commands('%.*s', '%s').", len, tenant, GetUserNameFromId(GetUserId(), false))));
}

void
fl_command_check_device(const FlCommandTenants *may, text *name)
{
	const char *s = VARDATA_ANY(name);
	const char *slash = memchr(s, '/', VARSIZE_ANY_EXHDR(name));

	if (slash != NULL)
		fl_command_check_tenant(may, s, slash - s);
}

int
fl_command_not_there(const FlCommandTenants *may)
{
	return may->all ? 0 :
		errdetail("Only tenants that role \"%s\" may command are looked at.", GetUserNameFromId(GetUserId(), false));
}

/* ---- the device --------------------------------------------------------------------- */

typedef struct Device
{
	MemoryContext mcxt;
	text	   *tenant;
	text	   *id;
	bool		revoked;
} Device;

static text *
copy_text(MemoryContext mcxt, HeapTuple tuple, TupleDesc desc, int column)
{
	bool		isnull;
	text	   *value = DatumGetTextPP(SPI_getbinval(tuple, desc, column, &isnull));
	MemoryContext old = MemoryContextSwitchTo(mcxt);
	text	   *copy = cstring_to_text_with_len(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));

	MemoryContextSwitchTo(old);
	return copy;
}

static void
on_device(void *arg, HeapTuple tuple, TupleDesc desc)
{
	Device	   *device = arg;
	bool		isnull;

	device->tenant = copy_text(device->mcxt, tuple, desc, 1);
	device->id = copy_text(device->mcxt, tuple, desc, 2);
	device->revoked = DatumGetBool(SPI_getbinval(tuple, desc, 3, &isnull));
}

/* Unknown among the tenants, ambiguous: an error.  Its row is locked against removal until the end of the transaction. */
static Device
find_device(text *name, const FlCommandTenants *may)
{
	Oid			types[3] = {TEXTOID, TEXTARRAYOID, BOOLOID};
	Datum		values[3] = {PointerGetDatum(name), PointerGetDatum(may->names), BoolGetDatum(may->all)};
	Device		device = {.mcxt = CurrentMemoryContext};

	fl_config_query("SELECT d.tenant, d.id, d.revoked_at IS NOT NULL FROM fleetlog._find_device($1, CASE WHEN $3 THEN NULL ELSE $2 END) f"
					" JOIN fleetlog.device d ON d.tenant = f.tenant AND d.id = f.device FOR KEY SHARE OF d",
					3, types, values, on_device, &device);
	if (device.tenant == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("device \"%s\" does not exist", text_to_cstring(name))));
	return device;
}

static void
check_not_revoked(const Device *device)
{
	if (device->revoked)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("device \"%s/%s\" is revoked", text_to_cstring(device->tenant), text_to_cstring(device->id))));
}

/* ---- arguments ------------------------------------------------------------------------ */

/* One level of a topic that is safe in every client: letters, digits, `_`, `-`, `.`. */
void
fl_command_check_name(text *name)
{
	const char *s = VARDATA_ANY(name);
	int			len = VARSIZE_ANY_EXHDR(name);
	bool		ok = len > 0 && len <= FL_COMMAND_NAME_MAX;

	for (int i = 0; i < len && ok; i++)
		ok = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') ||
			s[i] == '_' || s[i] == '-' || s[i] == '.';
	if (!ok)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("command name \"%s\" is not valid", text_to_cstring(name)),
				 errdetail("A name has 1 to %d of the characters a-z, A-Z, 0-9, \"_\", \"-\" and \".\".", FL_COMMAND_NAME_MAX)));
}

void
fl_command_check_payload(Datum payload)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(jsonb_out, payload));
	size_t		limit = (size_t) fl_command_max_payload_kb * 1024;

	if (strlen(text) > limit)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("payload of %zu bytes is larger than the limit of %zu bytes", strlen(text), limit),
				 errhint("Send a reference to it, or raise fleetlog.command_max_payload.")));
	pfree(text);
}

/* An interval in microseconds, a month counted as 30 days, cut off where nobody would wait. */
static int64
interval_us(const Interval *iv)
{
	double		us = (double) iv->time + ((double) iv->day + (double) iv->month * DAYS_PER_MONTH) * (double) USECS_PER_DAY;

	return us > (double) (PG_INT64_MAX / 4) ? PG_INT64_MAX / 4 : us < 0 ? 0 : (int64) us;
}

int64
fl_command_checked_ttl(const Interval *ttl)
{
	int64		us = interval_us(ttl);

	if (us <= 0 || us > fl_command_max_ttl_s * USECS_PER_SEC)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ttl of a command must be positive and at most %d s", fl_command_max_ttl_s),
				 errhint("The limit is fleetlog.command_max_ttl.")));
	return us;
}

Interval *
fl_command_checked_answer_timeout(FunctionCallInfo fcinfo, int arg, int64 ttl_us)
{
	Interval   *result = palloc0(sizeof(Interval));

	if (PG_ARGISNULL(arg))
	{
		result->time = ttl_us + ANSWER_GRACE_US;
		return result;
	}
	result->time = interval_us(PG_GETARG_INTERVAL_P(arg));
	if (result->time <= 0 || result->time > INT64CONST(366) * USECS_PER_DAY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("answer_timeout of a command must be positive and at most a year")));
	return result;
}

static void
refuse_nulls(FunctionCallInfo fcinfo)
{
	static const char *const names[] = {"device", "name", "payload", "ttl"};

	for (int i = 0; i < lengthof(names); i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not be NULL", names[i])));
}

/* ---- send_command ------------------------------------------------------------------------- */

static void
on_id(void *arg, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;

	memcpy(arg, DatumGetUUIDP(SPI_getbinval(tuple, desc, 1, &isnull)), sizeof(pg_uuid_t));
}

Datum
fl_sql_send_command(PG_FUNCTION_ARGS)
{
	Oid			types[9] = {TEXTOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INTERVALOID};
	Datum		values[9];
	pg_uuid_t  *id = palloc0(sizeof(pg_uuid_t));
	FlCommandTenants may;
	TimestampTz now;
	Device		device;
	int64		ttl;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog.send_command()");
	PreventCommandIfParallelMode("fleetlog.send_command()");
	refuse_nulls(fcinfo);
	fl_command_check_name(PG_GETARG_TEXT_PP(1));
	ttl = fl_command_checked_ttl(PG_GETARG_INTERVAL_P(3));
	values[8] = IntervalPGetDatum(fl_command_checked_answer_timeout(fcinfo, 4, ttl));
	may = fl_command_tenants();
	fl_command_check_device(&may, PG_GETARG_TEXT_PP(0));
	device = find_device(PG_GETARG_TEXT_PP(0), &may);
	check_not_revoked(&device);
	fl_command_check_payload(PG_GETARG_DATUM(2));

	now = GetCurrentTimestamp();
	values[0] = PointerGetDatum(device.tenant);
	values[1] = PointerGetDatum(device.id);
	values[2] = PG_GETARG_DATUM(1);
	values[3] = PG_GETARG_DATUM(2);
	values[4] = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	values[5] = CStringGetTextDatum(GetUserNameFromId(GetSessionUserId(), false));
	values[6] = TimestampTzGetDatum(now);
	values[7] = TimestampTzGetDatum(now + ttl);
	fl_config_query("WITH c AS (INSERT INTO fleetlog.command (id, tenant, device, name, payload, issued_by, issued_login, issued_at, expires_at, answer_timeout)"
					" VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING id),"
					" e AS (INSERT INTO fleetlog.command_event (command, tenant, at, event, detail) SELECT id, $1, $7, 'pending', $5 FROM c)"
					" SELECT id FROM c",
					9, types, values, on_id, id);
	fl_command_wake_at_commit();
	PG_RETURN_UUID_P(id);
}

/* ---- cancel_command ------------------------------------------------------------------------- */

static void
on_found(void *arg, HeapTuple tuple, TupleDesc desc)
{
	*(bool *) arg = true;
}

/* Only a row that is pending is locked: one that is held until the caller's transaction ends must not keep answers waiting. */
Datum
fl_sql_cancel_command(PG_FUNCTION_ARGS)
{
	Oid			types[3] = {UUIDOID, TEXTARRAYOID, BOOLOID};
	Datum		values[3];
	FlCommandTenants may;
	bool		found = false;
	uint64		n;

	fl_require_preload();
	PreventCommandIfReadOnly("fleetlog.cancel_command()");
	PreventCommandIfParallelMode("fleetlog.cancel_command()");
	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("command must not be NULL")));
	may = fl_command_tenants();
	values[0] = PG_GETARG_DATUM(0);
	values[1] = PointerGetDatum(may.names);
	values[2] = BoolGetDatum(may.all);
	fl_config_query("SELECT 1 FROM fleetlog.command WHERE id = $1 AND ($3 OR tenant = ANY ($2))", 3, types, values, on_found, &found);
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("command %s does not exist", DatumGetCString(DirectFunctionCall1(uuid_out, values[0]))),
				 fl_command_not_there(&may)));
	types[1] = TEXTOID;
	values[1] = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	n = fl_config_execute("WITH c AS (UPDATE fleetlog.command SET state = 'cancelled', finished_at = clock_timestamp(), detail = 'by ' || $2"
						  " WHERE id = $1 AND state = 'pending' RETURNING id, tenant, finished_at, detail)"
						  " INSERT INTO fleetlog.command_event (command, tenant, at, event, detail) SELECT id, tenant, finished_at, 'cancelled', detail FROM c",
						  2, types, values, NULL);
	PG_RETURN_BOOL(n > 0);
}

/* ---- tests ------------------------------------------------------------------------------------ */

Datum
fl_sql_command_point(PG_FUNCTION_ARGS)
{
	if (fl_shared != NULL)
		FL_STOP_POINT(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}
