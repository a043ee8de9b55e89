/*-------------------------------------------------------------------------
 *
 * segment_ddl.c
 *		Creating segments: CREATE TABLE of a standalone leaf, then ATTACH.
 *
 * Two steps because CREATE TABLE ... PARTITION OF takes an AccessExclusive
 * lock on the parent and would wait for every reader, while ATTACH takes
 * ShareUpdateExclusive, which appends and reads do not conflict with.
 *
 * Called by the appender and the keeper, which create the next segment ahead
 * of need, by create_stream and alter_stream for the first one, and by an
 * append in a session that finds no segment for its offset.  Two processes
 * that want the same segment meet at the lock on the shard's table; the second
 * finds the first one's.
 *
 * Everything runs as the owner of the shard's table.  Where that owner has no
 * right to create tables in the schema (any more), the leaf is created by the
 * bootstrap superuser and given to him: records of devices must not stop
 * because of a revoked CREATE.  No code of a user runs in these statements but
 * event triggers, which only superusers can make.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_tablespace.h"
#include "commands/defrem.h"
#include "commands/tablespace.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"

PG_FUNCTION_INFO_V1(fl_sql_create_segment);

void
fl_shard_table_read(Oid relid, FlShardTable *t)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	form = (Form_pg_class) GETSTRUCT(tuple);
	t->relid = relid;
	t->owner = form->relowner;
	t->schema = form->relnamespace;
	t->tablespace = form->reltablespace;
	t->name = pstrdup(NameStr(form->relname));
	t->qualified = quote_qualified_identifier(get_namespace_name(t->schema), t->name);
	t->row_security.enabled = form->relrowsecurity;
	t->row_security.forced = form->relforcerowsecurity;
	(void) SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull);
	t->has_grants = !isnull;
	ReleaseSysCache(tuple);
}

/* <shard's table>_<lower>, with another number behind where that is taken. */
static char *
choose_leaf_name(const FlShardTable *t, int64 lower)
{
	char		number[32];

	snprintf(number, sizeof(number), INT64_FORMAT, lower);
	for (int i = 0;; i++)
	{
		char		label[16];
		char	   *name;

		snprintf(label, sizeof(label), "%d", i);
		name = makeObjectName(t->name, number, i == 0 ? NULL : label);
		if (!OidIsValid(get_relname_relid(name, t->schema)))
			return name;
		pfree(name);
	}
}

/* May this role create a table there? */
static bool
may_create(const FlShardTable *t)
{
	if (FL_SCHEMA_ACLCHECK(t->schema, t->owner, ACL_CREATE) != ACLCHECK_OK)
		return false;
	return !OidIsValid(t->tablespace) || t->tablespace == MyDatabaseTableSpace ||
		FL_TABLESPACE_ACLCHECK(t->tablespace, t->owner, ACL_CREATE) == ACLCHECK_OK;
}

/* Privileges on the shard's table are given on the leaf too. */
static void
copy_grants(const FlShardTable *t, const char *leaf)
{
	StringInfoData sql;
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(t->relid));
	bool		isnull;
	Acl		   *acl = DatumGetAclPCopy(SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull));
	static const struct
	{
		AclMode		mode;
		const char *name;
	}			privileges[] = {
		{ACL_SELECT, "SELECT"}, {ACL_INSERT, "INSERT"}, {ACL_UPDATE, "UPDATE"}, {ACL_DELETE, "DELETE"},
		{ACL_TRUNCATE, "TRUNCATE"}, {ACL_REFERENCES, "REFERENCES"}, {ACL_TRIGGER, "TRIGGER"},
	};

	ReleaseSysCache(tuple);
	initStringInfo(&sql);
	for (int i = 0; i < ACL_NUM(acl); i++)
	{
		AclItem    *item = &ACL_DAT(acl)[i];

		if (item->ai_grantee == t->owner)
			continue;
		for (int p = 0; p < lengthof(privileges); p++)
		{
			if ((ACLITEM_GET_PRIVS(*item) & privileges[p].mode) == 0)
				continue;
			resetStringInfo(&sql);
			appendStringInfo(&sql, "GRANT %s ON TABLE %s TO %s%s", privileges[p].name, leaf,
							 item->ai_grantee == ACL_ID_PUBLIC ? "PUBLIC" :
							 quote_identifier(GetUserNameFromId(item->ai_grantee, false)),
							 (ACLITEM_GET_GOPTIONS(*item) & privileges[p].mode) != 0 &&
							 item->ai_grantee != ACL_ID_PUBLIC ? " WITH GRANT OPTION" : "");
			fl_config_ddl(sql.data);
		}
	}
	pfree(sql.data);
}

/* CREATE and ATTACH under the identity that the caller has set. */
static Oid
create_and_attach(const FlShardTable *t, int64 lower, int64 upper, bool as_superuser)
{
	char	   *name = choose_leaf_name(t, lower);
	Oid			relid;
	const char *leaf = quote_qualified_identifier(get_namespace_name(t->schema), name);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TABLE %s (LIKE %s) USING %s", leaf, t->qualified, FL_AM_NAME);
	if (OidIsValid(t->tablespace))
		appendStringInfo(&sql, " TABLESPACE %s", quote_identifier(get_tablespace_name(t->tablespace)));
	fl_config_ddl(sql.data);
	if (as_superuser)
	{
		resetStringInfo(&sql);
		appendStringInfo(&sql, "ALTER TABLE %s OWNER TO %s", leaf, quote_identifier(GetUserNameFromId(t->owner, false)));
		fl_config_ddl(sql.data);
	}
	resetStringInfo(&sql);
	appendStringInfo(&sql, "ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (" INT64_FORMAT ") TO (" INT64_FORMAT ")",
					 t->qualified, leaf, lower, upper);
	fl_config_ddl(sql.data);
	if (t->has_grants)
		copy_grants(t, leaf);
	relid = get_relname_relid(name, t->schema);
	fl_set_row_security(relid, t->row_security);
	return relid;
}

static Oid
create_as_owner(const FlShardTable *t, int64 lower, int64 upper)
{
	bool		as_superuser = !may_create(t);
	Oid			save_user;
	int			save_context;
	int			level;
	Oid			leaf;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(as_superuser ? BOOTSTRAP_SUPERUSERID : t->owner, save_context | SECURITY_LOCAL_USERID_CHANGE);

	/* A session's default_tablespace must not scatter a stream's segments. */
	level = NewGUCNestLevel();
	(void) set_config_option("default_tablespace", "", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	leaf = create_and_attach(t, lower, upper, as_superuser);
	AtEOXact_GUC(true, level);
	SetUserIdAndSecContext(save_user, save_context);
	return leaf;
}

static bool
overlaps(Oid stream, int32 shard, int64 lower, int64 upper, FlSegment *other)
{
	int			n;
	const FlSegment *segs = fl_segment_list(stream, shard, &n);

	for (int i = 0; i < n; i++)
	{
		if (segs[i].lower < upper && lower < segs[i].upper)
		{
			*other = segs[i];
			return true;
		}
	}
	return false;
}

Oid
fl_segment_create(Oid stream, int32 shard, int64 lower, int64 upper)
{
	Oid			table = fl_shard_table(stream, shard);
	FlShardTable t;
	FlSegment	other;

	if (!OidIsValid(table))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" has no shard %d", get_rel_name(stream), shard)));
	if (lower < 0 || upper <= lower)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("segment from offset " INT64_FORMAT " to " INT64_FORMAT " is empty or negative", lower, upper)));

	/* Whoever comes second waits here and then sees the first one's segment. */
	LockRelationOid(table, ShareUpdateExclusiveLock);
	if (fl_segment_find(stream, shard, lower, &other) && other.lower == lower)
		return other.leaf;
	if (overlaps(stream, shard, lower, upper, &other))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("segment from offset " INT64_FORMAT " to " INT64_FORMAT " overlaps segment \"%s\"",
						lower, upper, get_rel_name(other.leaf)),
				 errdetail("That segment goes from " INT64_FORMAT " to " INT64_FORMAT ".", other.lower, other.upper)));
	fl_shard_table_read(table, &t);
	return create_as_owner(&t, lower, upper);
}

Datum
fl_sql_create_segment(PG_FUNCTION_ARGS)
{
	Oid			stream = PG_GETARG_OID(0);

	if (fl_stream_lookup(stream) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", get_rel_name(stream))));
	if (!FL_OWNS_TABLE(stream, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(stream));
	PG_RETURN_OID(fl_segment_create(stream, PG_GETARG_INT32(1), PG_GETARG_INT64(2), PG_GETARG_INT64(3)));
}
