/*-------------------------------------------------------------------------
 *
 * depend.c
 *		What stands in the way of dropping a stream, or a role: loops and shadow models
 *		that read or write it, or run in its rights; data sets that it owns.
 *
 * They name streams and roles in rows, which the server knows nothing of.  So who drops a
 * stream asks here, by whatever command (src/catalog/refuse.c); CASCADE is no answer,
 * since what a loop knows would go with it unnamed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "fleetlog/config.h"
#include "fleetlog/loop.h"

/* Who uses the stream, and as what. */
typedef struct User
{
	MemoryContext mcxt;
	char	   *loop;
	char	   *shadow;			/* of that loop; NULL: the loop itself */
	char	   *part;			/* "source", "requests", "responses", "decisions" */
} User;

static char *
text_of(User *user, HeapTuple tuple, TupleDesc desc, int n)
{
	char	   *value = SPI_getvalue(tuple, desc, n);

	return value ? MemoryContextStrdup(user->mcxt, value) : NULL;
}

static void
on_user(void *arg, HeapTuple tuple, TupleDesc desc)
{
	User	   *user = arg;

	user->loop = text_of(user, tuple, desc, 1);
	user->shadow = text_of(user, tuple, desc, 2);
	user->part = text_of(user, tuple, desc, 3);
}

/* While the extension goes its tables may have gone before; in other databases there are none. */
static bool
has_tables(void)
{
	Oid			schema = get_namespace_oid("fleetlog", true);

	return OidIsValid(schema) && OidIsValid(get_relname_relid("shadow_model_config", schema));
}

void
fl_loop_refuse_drop(Oid stream)
{
	User		user = {.mcxt = CurrentMemoryContext};
	Oid			types[1] = {REGCLASSOID};
	Datum		values[1] = {ObjectIdGetDatum(stream)};

	if (!has_tables())
		return;
	fl_config_query("SELECT u.loop, u.shadow, u.part FROM ("
					"SELECT l.loop, NULL::text AS shadow, p.part, l.created_at FROM fleetlog.loop_config l,"
					" LATERAL (VALUES (l.source, 'source'), (l.requests, 'requests'), (l.responses, 'responses'), (l.decisions, 'decisions')) p(stream, part)"
					" WHERE p.stream = $1"
					" UNION ALL SELECT s.loop, s.name, 'responses', s.created_at FROM fleetlog.shadow_model_config s WHERE s.responses = $1) u"
					" ORDER BY u.created_at, u.loop LIMIT 1",
					1, types, values, on_user, &user);
	if (user.loop == NULL)
		return;
	if (user.shadow)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop stream \"%s\" because shadow model \"%s\" of loop \"%s\" answers into it", get_rel_name(stream), user.shadow, user.loop),
				 errhint("End it with fleetlog.drop_shadow_model('%s', '%s') first.", user.loop, user.shadow)));
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot drop stream \"%s\" because loop \"%s\" has it as its %s", get_rel_name(stream), user.loop, user.part),
			 errhint("End the loop with fleetlog.drop_loop('%s') first.", user.loop)));
}

static void
on_owned(void *arg, HeapTuple tuple, TupleDesc desc)
{
	User	   *user = arg;

	user->part = text_of(user, tuple, desc, 1);
}

void
fl_loop_refuse_drop_role(Oid role)
{
	User		user = {.mcxt = CurrentMemoryContext};
	Oid			types[1] = {OIDOID};
	Datum		values[1] = {ObjectIdGetDatum(role)};

	if (!has_tables())
		return;
	fl_config_query("SELECT o.what FROM ("
					"SELECT format('owner of loop \"%s\"', l.loop) AS what FROM fleetlog.loop_config l WHERE l.owner::oid = $1"
					" UNION ALL SELECT format('owner of the policy of loop \"%s\", version %s', p.loop, p.policy_version) FROM fleetlog.loop_policy p WHERE p.policy_owner::oid = $1"
					" UNION ALL SELECT format('owner of shadow model \"%s\" of loop \"%s\"', s.name, s.loop) FROM fleetlog.shadow_model_config s WHERE s.owner::oid = $1"
					" UNION ALL SELECT format('owner of data set \"%s\"', d.name) FROM fleetlog.dataset_config d WHERE d.owner::oid = $1) o"
					" ORDER BY o.what LIMIT 1",
					1, types, values, on_owned, &user);
	if (user.part == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("role \"%s\" cannot be dropped because some objects depend on it", GetUserNameFromId(role, false)),
			 errdetail("%s", user.part),
			 errhint("Loops and data sets are given to others with fleetlog.alter_loop() and fleetlog.alter_dataset().")));
}
