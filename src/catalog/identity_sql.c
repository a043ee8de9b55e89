/*-------------------------------------------------------------------------
 *
 * identity_sql.c
 *		The parts of sql/modules/060_identity.sql that SQL cannot do: checks of
 *		names, random passwords, SCRAM verifiers, and the front doors' own
 *		decision about a topic.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/base64.h"
#include "fmgr.h"
#include "funcapi.h"
#include "libpq/crypt.h"
#include "port.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"
#include "fleetlog/shmem.h"
#include "fleetlog/topic.h"
#include "scram.h"

PG_FUNCTION_INFO_V1(fl_sql_tenant_problem);
PG_FUNCTION_INFO_V1(fl_sql_device_problem);
PG_FUNCTION_INFO_V1(fl_sql_policy_problem);
PG_FUNCTION_INFO_V1(fl_sql_random_password);
PG_FUNCTION_INFO_V1(fl_sql_password_verifier);
PG_FUNCTION_INFO_V1(fl_sql_password_verifier_512);
PG_FUNCTION_INFO_V1(fl_sql_acl);
PG_FUNCTION_INFO_V1(fl_sql_disconnect);

#define RANDOM_PASSWORD_BYTES	18	/* 144 bits, 24 characters */

static Datum
problem_datum(FunctionCallInfo fcinfo, const char *problem)
{
	if (problem == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(problem));
}

Datum
fl_sql_tenant_problem(PG_FUNCTION_ARGS)
{
	text	   *name = PG_GETARG_TEXT_PP(0);

	return problem_datum(fcinfo, fl_tenant_name_check(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)));
}

Datum
fl_sql_device_problem(PG_FUNCTION_ARGS)
{
	text	   *id = PG_GETARG_TEXT_PP(0);

	return problem_datum(fcinfo, fl_device_id_check(VARDATA_ANY(id), VARSIZE_ANY_EXHDR(id)));
}

/* A filter whose braces are all known placeholders. */
Datum
fl_sql_policy_problem(PG_FUNCTION_ARGS)
{
	static const char *const known[] = {"{device}", "{tenant}", "{client_id}"};
	char	   *filter = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (!fl_topic_filter_valid((const uint8_t *) filter, strlen(filter)))
		return problem_datum(fcinfo, "it is not a topic filter");
	if (filter[0] == '$')
		return problem_datum(fcinfo, "it begins with \"$\"");
	for (char *p = filter; *p != '\0'; p++)
	{
		bool		ok = *p != '{' && *p != '}';

		for (int i = 0; !ok && i < lengthof(known); i++)
		{
			if (strncmp(p, known[i], strlen(known[i])) == 0)
			{
				ok = true;
				p += strlen(known[i]) - 1;
			}
		}
		if (!ok)
			return problem_datum(fcinfo, "a placeholder is {device}, {tenant} or {client_id}");
	}
	PG_RETURN_NULL();
}

/* URL-safe base64, so that the password survives shells, URIs and config files. */
Datum
fl_sql_random_password(PG_FUNCTION_ARGS)
{
	uint8		bytes[RANDOM_PASSWORD_BYTES];
	char		text_form[RANDOM_PASSWORD_BYTES / 3 * 4 + 1];
	int			len;

	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random password")));
	len = FL_B64_ENCODE(bytes, sizeof(bytes), text_form, sizeof(text_form) - 1);
	if (len < 0)
		elog(ERROR, "could not encode a random password");
	text_form[len] = '\0';
	for (int i = 0; i < len; i++)
	{
		if (text_form[i] == '+')
			text_form[i] = '-';
		else if (text_form[i] == '/')
			text_form[i] = '_';
	}
	/* A leading minus would be taken for an option by command line tools. */
	if (text_form[0] == '-')
		text_form[0] = 'A';
	PG_RETURN_TEXT_P(cstring_to_text(text_form));
}

Datum
fl_sql_password_verifier(PG_FUNCTION_ARGS)
{
	char	   *password = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (get_password_type(password) == PASSWORD_TYPE_SCRAM_SHA_256)
		PG_RETURN_TEXT_P(cstring_to_text(password));
	if (get_password_type(password) != PASSWORD_TYPE_PLAINTEXT || strncmp(password, "SCRAM-SHA-256$", 14) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the password is neither plain text nor a SCRAM-SHA-256 verifier")));
	if (password[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the password is empty")));
	if (strlen(password) > FL_AUTH_PASSWORD_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the password is longer than %d bytes", FL_AUTH_PASSWORD_MAX)));
	PG_RETURN_TEXT_P(cstring_to_text(pg_be_scram_build_secret(password)));
}

/* Of what is a verifier itself there is none of the other kind. */
Datum
fl_sql_password_verifier_512(PG_FUNCTION_ARGS)
{
	char	   *password = text_to_cstring(PG_GETARG_TEXT_PP(0));

	if (get_password_type(password) != PASSWORD_TYPE_PLAINTEXT)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(fl_auth_build_sha512(password)));
}

/* Whom the arguments of _acl name; NULL, or why he is nobody. */
static const char *
read_identity(FunctionCallInfo fcinfo, FlIdentity *id)
{
	if (!PG_ARGISNULL(5))
	{
		fl_role_identity(get_role_oid(text_to_cstring(PG_GETARG_TEXT_PP(5)), false), id);
		return fl_role_admit(id);
	}
	if (!PG_ARGISNULL(1))
	{
		id->kind = FL_IDENTITY_DEVICE;
		if (!PG_ARGISNULL(0))
			strlcpy(id->tenant, text_to_cstring(PG_GETARG_TEXT_PP(0)), sizeof(id->tenant));
		strlcpy(id->device, text_to_cstring(PG_GETARG_TEXT_PP(1)), sizeof(id->device));
	}
	if (!PG_ARGISNULL(2))
	{
		id->client_id = text_to_cstring(PG_GETARG_TEXT_PP(2));
		id->client_id_len = strlen(id->client_id);
	}
	return NULL;
}

/* Arguments: tenant, device, client_id, action, topic, role. */
Datum
fl_sql_acl(PG_FUNCTION_ARGS)
{
	FlIdentity	id = {.kind = FL_IDENTITY_ANONYMOUS};
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false, false};
	FlAction	action;
	text	   *topic;
	const char *why;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (PG_ARGISNULL(3) || PG_ARGISNULL(4))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("action and topic must not be null")));
	why = read_identity(fcinfo, &id);
	action = strcmp(text_to_cstring(PG_GETARG_TEXT_PP(3)), "publish") == 0 ? FL_ACTION_PUBLISH : FL_ACTION_SUBSCRIBE;
	topic = PG_GETARG_TEXT_PP(4);
	if (why != NULL)
		values[0] = BoolGetDatum(false);
	else if (action == FL_ACTION_PUBLISH ?
		!fl_topic_name_valid((const uint8_t *) VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)) :
		!fl_topic_filter_valid((const uint8_t *) VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)))
	{
		values[0] = BoolGetDatum(false);
		why = action == FL_ACTION_PUBLISH ? "it is not a valid topic" : "it is not a valid topic filter";
	}
	else
		values[0] = BoolGetDatum(fl_acl_check(&id, action, VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic), &why));
	if (DatumGetBool(values[0]) && fl_acl_matched_rule() != NULL)
		why = psprintf("rule \"%s\" of the tenant allows it", fl_acl_matched_rule());
	values[1] = CStringGetTextDatum(why);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

#define REASON_ADMINISTRATIVE_ACTION	0x98	/* MQTT 5, 3.14.2.1 */

/* Arguments: client, tenant.  How many connections were told to go: clients of several tenants may share a client id. */
Datum
fl_sql_disconnect(PG_FUNCTION_ARGS)
{
	char	   *tenant = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));

	fl_require_preload();
	if (PG_ARGISNULL(0))
		PG_RETURN_INT32(0);
	PG_RETURN_INT32(fl_registry_evict_client(text_to_cstring(PG_GETARG_TEXT_PP(0)), tenant, REASON_ADMINISTRATIVE_ACTION));
}
