/*-------------------------------------------------------------------------
 *
 * state_ddl.c
 *		create_state, and what goes with a state table or a stream that is dropped.
 *
 * A state table is an ordinary table of its creator, with one difference: nobody,
 * its owner included, has the right to change its rows.  The log writes them (table.c,
 * which asks for no rights), so that the table is what the history implies.  A
 * superuser, or an owner who grants himself the right again, may still do so;
 * fleetlog.verify finds it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#include "fleetlog/config.h"
#include "state_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_create_state);

/* Where the name goes, as CREATE TABLE would decide it; errors as it would raise them. */
static char *
resolve_name(text *name, Oid *schema, char **relname)
{
	RangeVar   *rv = makeRangeVarFromNameList(textToQualifiedNameList(name));

	*schema = RangeVarGetAndCheckCreationNamespace(rv, NoLock, NULL);
	if (rv->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a state table cannot be temporary"),
				 errhint("Name a permanent schema.")));
	*relname = rv->relname;
	return quote_qualified_identifier(get_namespace_name(*schema), rv->relname);
}

static void
run_ddl(const char *format, const char *name, const char *arg)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, format, name, arg);
	fl_config_ddl(sql.data);
}

Datum
fl_sql_create_state(PG_FUNCTION_ARGS)
{
	Oid			schema;
	char	   *relname;
	char	   *name;
	Oid			relid;
	Oid			types[1] = {REGCLASSOID};
	Datum		values[1];

	fl_require_preload();
	name = resolve_name(PG_GETARG_TEXT_PP(0), &schema, &relname);
	run_ddl("CREATE TABLE %s ("
			"stream regclass NOT NULL, key text COLLATE \"C\" NOT NULL, shard int NOT NULL, log_offset bigint NOT NULL,"
			" ts timestamptz NOT NULL, tenant text, device text, headers fleetlog.headers, payload bytea,"
			" PRIMARY KEY (stream, key)) WITH (fillfactor = 70)", name, "");
	relid = get_relname_relid(relname, schema);
	run_ddl("REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON %s FROM PUBLIC, %s", name,
			quote_identifier(GetUserNameFromId(GetUserId(), false)));
	values[0] = ObjectIdGetDatum(relid);
	fl_config_execute("INSERT INTO fleetlog.state_config (state) VALUES ($1)", 1, types, values, NULL);
	CommandCounterIncrement();
	PG_RETURN_OID(relid);
}

/* ---- dropping -------------------------------------------------------------------------- */

static bool
is_installed(void)
{
	Oid			nsp = get_namespace_oid(FL_STATE_SCHEMA, true);

	return OidIsValid(nsp) && OidIsValid(get_relname_relid("state_config", nsp)) &&
		OidIsValid(get_relname_relid("mount_config", nsp));
}

void
fl_state_forget_table(Oid state)
{
	static const char *const tables[] = {"state_cleared", "state_pending", "state_flushed", "state_config"};
	Oid			types[1] = {REGCLASSOID};
	Datum		values[1] = {ObjectIdGetDatum(state)};
	int			n;
	const FlMount *mounts = fl_mount_list(&n);

	/* During DROP EXTENSION our own tables may be gone already. */
	if (!fl_state_is_table(state) || !is_installed())
		return;
	for (int i = 0; i < n; i++)
		if (mounts[i].state == state)
			ereport(NOTICE,
					(errmsg("prefix \"%s\" no longer keeps values, because state table \"%s\" is dropped",
							mounts[i].prefix, get_rel_name(state))));
	fl_config_execute("UPDATE fleetlog.mount_config SET state = NULL, keep = NULL, state_lag = NULL WHERE state = $1",
					  1, types, values, NULL);
	for (int i = 0; i < lengthof(tables); i++)
	{
		char	   *sql;

		if (!OidIsValid(get_relname_relid(tables[i], get_namespace_oid(FL_STATE_SCHEMA, false))))
			continue;
		sql = psprintf("DELETE FROM fleetlog.%s WHERE state = $1", tables[i]);
		fl_config_execute(sql, 1, types, values, NULL);
	}
}

void
fl_state_forget_stream(Oid stream)
{
	Oid			types[1] = {REGCLASSOID};
	Datum		values[1] = {ObjectIdGetDatum(stream)};
	int			n;
	const Oid  *list = fl_state_list(&n);
	Oid		   *states = palloc(sizeof(Oid) * Max(n, 1));

	/* All of them: the stream is not mounted any more, as a rule.  What is run below may load the list anew. */
	if (n > 0)
		memcpy(states, list, sizeof(Oid) * n);
	for (int i = 0; i < n; i++)
	{
		const char *name = get_rel_name(states[i]);
		const char *nsp = name != NULL ? get_namespace_name(get_rel_namespace(states[i])) : NULL;

		if (nsp != NULL)
			fl_config_execute(psprintf("DELETE FROM %s WHERE stream = $1", quote_qualified_identifier(nsp, name)),
							  1, types, values, NULL);
	}
}
