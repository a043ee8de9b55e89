/*-------------------------------------------------------------------------
 *
 * follow.c
 *		What ALTER TABLE says of a stream holds for its shards and segments.
 *
 *		owner			they are one thing to users, and new segments belong to the
 *						owner of the shard
 *		row security	policies are asked for the table that a query names.  Who was
 *						given rights on segments, by GRANT ... ON ALL TABLES IN SCHEMA
 *						or by default privileges, would read there what the policies
 *						of the stream hide.  With row security enabled and no policy
 *						of its own a segment shows nothing to him; queries of the
 *						stream do not ask its segments.
 *
 * Shards and segments that come later are made likewise (stream_ddl.c,
 * segment_ddl.c).
 *
 * Called by the utility hook (refuse.c) after the server has executed the
 * statement, which has checked that the caller may.  Takes AccessExclusive on each
 * table that changes, on a shard's before its segments are looked up: whoever is
 * making one holds that table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog_internal.h"

/* What to do with one shard's table or segment, given what is true of the stream. */
typedef void (*Follow) (Oid relid, Oid owner, bool row_security);

static bool
has_command(const AlterTableStmt *stmt, AlterTableType a, AlterTableType b)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableType subtype = lfirst_node(AlterTableCmd, lc)->subtype;

		if (subtype == a || subtype == b)
			return true;
	}
	return false;
}

bool
fl_has_row_security(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity;
	ReleaseSysCache(tuple);
	return result;
}

void
fl_set_row_security(Oid relid, bool enable)
{
	char	   *sql = psprintf("ALTER TABLE %s %s ROW LEVEL SECURITY",
							   quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)),
							   enable ? "ENABLE" : "DISABLE");

	fl_config_ddl(sql);
	pfree(sql);
}

static void
follow_owner(Oid relid, Oid owner, bool row_security)
{
	ATExecChangeOwner(relid, owner, false, AccessExclusiveLock);
}

static void
follow_row_security(Oid relid, Oid owner, bool row_security)
{
	if (fl_has_row_security(relid) != row_security)
		fl_set_row_security(relid, row_security);
}

static void
follow_shard(Oid stream, int32 shard, Follow follow, Oid owner, bool row_security)
{
	Oid			table = fl_shard_table(stream, shard);
	const FlSegment *segs;
	Oid		   *leaves;
	int			n;

	if (!OidIsValid(table))
		return;
	LockRelationOid(table, AccessExclusiveLock);
	segs = fl_segment_list(stream, shard, &n);
	leaves = palloc(sizeof(Oid) * Max(n, 1));
	for (int i = 0; i < n; i++)
		leaves[i] = segs[i].leaf;
	for (int i = 0; i < n; i++)
	{
		LockRelationOid(leaves[i], AccessExclusiveLock);
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(leaves[i])))
			follow(leaves[i], owner, row_security);
	}
	follow(table, owner, row_security);
	pfree(leaves);
}

void
fl_follow_alter_table(AlterTableStmt *stmt)
{
	bool		owner = has_command(stmt, AT_ChangeOwner, AT_ChangeOwner);
	bool		security = has_command(stmt, AT_EnableRowSecurity, AT_DisableRowSecurity);
	const FlStreamInfo *s;
	Oid			relid;
	Oid			new_owner;
	int32		shards;
	bool		row_security;

	if (stmt->objtype != OBJECT_TABLE || !(owner || security))
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid) || fl_stream_lookup(relid) == NULL)
		return;
	CommandCounterIncrement();
	s = fl_stream_lookup(relid);
	new_owner = s->owner;
	shards = s->shards;
	row_security = fl_has_row_security(relid);
	for (int32 i = 0; i < shards; i++)
	{
		/* Row security first: who gives a stream away need not be a member of its new owner. */
		if (security)
			follow_shard(relid, i, follow_row_security, new_owner, row_security);
		if (owner)
			follow_shard(relid, i, follow_owner, new_owner, row_security);
	}
}
