/*-------------------------------------------------------------------------
 *
 * copy.c
 *		COPY of a whole stream, as of any table (REQUIREMENTS L1).
 *
 * The server refuses COPY ... TO of a partitioned table; where row-level security
 * applies it even gives an empty result, for it reads the table without its
 * partitions.  Whoever names a stream means its records, so the command becomes
 * COPY (SELECT ...) TO, which the server's own message advises.  Rights and
 * policies are those of the SELECT.
 *
 * Called by the utility hook (refuse.c) before the server sees the statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "nodes/value.h"
#include "utils/lsyscache.h"

#include "catalog_internal.h"

static ResTarget *
target(Node *name)
{
	ResTarget  *result = makeNode(ResTarget);
	ColumnRef  *column = makeNode(ColumnRef);

	column->fields = list_make1(name);
	column->location = -1;
	result->val = (Node *) column;
	result->location = -1;
	return result;
}

/* The columns that were asked for, in their order; all: NIL. */
static List *
targets(List *columns)
{
	List	   *list = NIL;
	ListCell   *lc;

	foreach(lc, columns)
		list = lappend(list, target(copyObject(lfirst(lc))));
	return list != NIL ? list : list_make1(target((Node *) makeNode(A_Star)));
}

PlannedStmt *
fl_copy_as_query(PlannedStmt *pstmt)
{
	CopyStmt   *stmt = (CopyStmt *) pstmt->utilityStmt;
	SelectStmt *select;
	RangeVar   *stream;
	Oid			relid;

	if (!IsA(stmt, CopyStmt) || stmt->is_from || stmt->relation == NULL ||
		!OidIsValid(relid = RangeVarGetRelid(stmt->relation, NoLock, true)) ||
		fl_stream_lookup(relid) == NULL)
		return pstmt;

	/* The statement may belong to a cached plan. */
	pstmt = copyObject(pstmt);
	stmt = (CopyStmt *) pstmt->utilityStmt;
	stream = stmt->relation;
	stream->schemaname = get_namespace_name(get_rel_namespace(relid));
	select = makeNode(SelectStmt);
	select->targetList = targets(stmt->attlist);
	select->fromClause = list_make1(stream);
	stmt->query = (Node *) select;
	stmt->relation = NULL;
	stmt->attlist = NIL;
	return pstmt;
}
