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
 *						stream do not ask its segments.  Forced for the owner it
 *						is likewise.
 *
 * Shards and segments that come later are made likewise (stream_ddl.c,
 * segment_ddl.c).
 *
 * Called by the utility hook (refuse.c) twice: before the server executes the
 * statement, for the locks, and after it, when it has checked that the caller may.
 *
 * Locks: AccessExclusive on each table that changes, on a shard's before its
 * segments are looked up: whoever is making one holds that table.  Statements
 * about the stream lock it before its segments, but who works on a segment alone
 * has that first and asks for the stream when he wants to know what belongs into
 * the segment (the server looks at the partition's bound there: COPY, CREATE INDEX,
 * a parallel pg_restore).  So nobody here waits for a segment while he holds the
 * stream: what is not free at once is waited for with empty hands, and then it
 * begins anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"

/* What to do with one shard's table or segment, given what is true of the stream. */
typedef void (*Follow) (Oid relid, Oid owner, FlRowSecurity row_security);

/* Which of what is followed does the statement say anything about? */
static void
look_at_commands(const AlterTableStmt *stmt, bool *owner, bool *security)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableType subtype = lfirst_node(AlterTableCmd, lc)->subtype;

		*owner |= subtype == AT_ChangeOwner;
		*security |= subtype == AT_EnableRowSecurity || subtype == AT_DisableRowSecurity ||
			subtype == AT_ForceRowSecurity || subtype == AT_NoForceRowSecurity;
	}
}

FlRowSecurity
fl_row_security(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	FlRowSecurity result = {0};

	if (!HeapTupleIsValid(tuple))
		return result;
	result.enabled = ((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity;
	result.forced = ((Form_pg_class) GETSTRUCT(tuple))->relforcerowsecurity;
	ReleaseSysCache(tuple);
	return result;
}

static void
alter_row_security(Oid relid, const char *how)
{
	char	   *sql = psprintf("ALTER TABLE %s %s ROW LEVEL SECURITY",
							   quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)),
							   how);

	fl_config_ddl(sql);
	pfree(sql);
}

void
fl_set_row_security(Oid relid, FlRowSecurity want)
{
	FlRowSecurity have = fl_row_security(relid);

	if (have.enabled != want.enabled)
		alter_row_security(relid, want.enabled ? "ENABLE" : "DISABLE");
	if (have.forced != want.forced)
		alter_row_security(relid, want.forced ? "FORCE" : "NO FORCE");
}

/* The stream whose owner or row security the statement changes, or InvalidOid. */
static Oid
stream_to_follow(const AlterTableStmt *stmt, bool *owner, bool *security)
{
	Oid			relid;

	*owner = *security = false;
	look_at_commands(stmt, owner, security);
	if (stmt->objtype != OBJECT_TABLE || !(*owner || *security))
		return InvalidOid;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid) || fl_stream_lookup(relid) == NULL)
		return InvalidOid;
	return relid;
}

/* ---- Locks ------------------------------------------------------------------------------------------------ */

/* Takes the lock and notes it, or is false where somebody is in the way. */
static bool
lock_if_free(Oid relid, List **locked)
{
	if (!ConditionalLockRelationOid(relid, AccessExclusiveLock))
		return false;
	*locked = lappend_oid(*locked, relid);
	return true;
}

/* One shard's table and its segments; the one that is not free, or InvalidOid. */
static Oid
lock_shard(Oid stream, int32 shard, List **locked)
{
	Oid			table = fl_shard_table(stream, shard);
	const FlSegment *segs;
	List	   *leaves = NIL;
	Oid			taken = InvalidOid;
	ListCell   *lc;
	int			n;

	if (!OidIsValid(table))
		return InvalidOid;
	if (!lock_if_free(table, locked))
		return table;
	/* Copied: to take a lock may make the list anew. */
	segs = fl_segment_list(stream, shard, &n);
	for (int i = 0; i < n; i++)
		leaves = lappend_oid(leaves, segs[i].leaf);
	foreach(lc, leaves)
	{
		if (!OidIsValid(taken) && !lock_if_free(lfirst_oid(lc), locked))
			taken = lfirst_oid(lc);
	}
	list_free(leaves);
	return taken;
}

/* The stream is locked: all below it; the one that is not free, or InvalidOid. */
static Oid
lock_below(Oid stream, List **locked)
{
	const FlStreamInfo *s = fl_stream_lookup(stream);
	int32		shards = s == NULL ? 0 : s->shards;
	Oid			taken = InvalidOid;

	for (int32 i = 0; i < shards && !OidIsValid(taken); i++)
		taken = lock_shard(stream, i, locked);
	return taken;
}

void
fl_follow_lock(const AlterTableStmt *stmt)
{
	bool		owner,
				security;
	Oid			stream = stream_to_follow(stmt, &owner, &security);

	/* The server will say so; he must not make others wait until then. */
	if (!OidIsValid(stream) || !FL_OWNS_TABLE(stream, GetUserId()))
		return;
	for (;;)
	{
		List	   *locked = NIL;
		ListCell   *lc;
		Oid			taken;

		LockRelationOid(stream, AccessExclusiveLock);
		taken = lock_below(stream, &locked);
		if (OidIsValid(taken))
		{
			foreach(lc, locked)
				UnlockRelationOid(lfirst_oid(lc), AccessExclusiveLock);
			UnlockRelationOid(stream, AccessExclusiveLock);
			LockRelationOid(taken, AccessExclusiveLock);
			UnlockRelationOid(taken, AccessExclusiveLock);
		}
		list_free(locked);
		if (!OidIsValid(taken))
			return;
	}
}

/* ---- What changes ----------------------------------------------------------------------------------------- */

static void
follow_owner(Oid relid, Oid owner, FlRowSecurity row_security)
{
	ATExecChangeOwner(relid, owner, false, AccessExclusiveLock);
}

static void
follow_row_security(Oid relid, Oid owner, FlRowSecurity row_security)
{
	fl_set_row_security(relid, row_security);
}

static void
follow_shard(Oid stream, int32 shard, Follow follow, Oid owner, FlRowSecurity row_security)
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
	bool		owner,
				security;
	const FlStreamInfo *s;
	Oid			relid;
	Oid			new_owner;
	int32		shards;
	FlRowSecurity row_security;

	relid = stream_to_follow(stmt, &owner, &security);
	if (!OidIsValid(relid))
		return;
	CommandCounterIncrement();
	s = fl_stream_lookup(relid);
	new_owner = s->owner;
	shards = s->shards;
	row_security = fl_row_security(relid);
	for (int32 i = 0; i < shards; i++)
	{
		/* Row security first: who gives a stream away need not be a member of its new owner. */
		if (security)
			follow_shard(relid, i, follow_row_security, new_owner, row_security);
		if (owner)
			follow_shard(relid, i, follow_owner, new_owner, row_security);
	}
}
