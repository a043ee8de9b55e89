/*-------------------------------------------------------------------------
 *
 * refuse.c
 *		What streams do not do is refused early and by name (L4).
 *
 * The access method would refuse most of it too, but only when a row is met,
 * and with a message about an access method.  These hooks answer before
 * anything is done, also when no row matches:
 *
 *		executor start	UPDATE, DELETE, MERGE, ON CONFLICT, row locks
 *		utility			columns, triggers, rules, indexes, constraints, ...
 *		object access	TRUNCATE however it is reached; DROP, to take the
 *						configuration of a stream along
 *
 * What pg_dump writes must pass: CREATE TABLE, ATTACH PARTITION, COPY, GRANT,
 * OWNER TO, SET TABLESPACE, RENAME, SET SCHEMA, COMMENT, ROW LEVEL SECURITY,
 * ENABLE/DISABLE TRIGGER, and TRUNCATE ONLY of a segment that holds nothing,
 * which parallel pg_restore does.
 *
 * Installed in every backend of the server: in databases without the extension
 * each hook returns after one cached lookup.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "catalog_internal.h"
#include "fleetlog/compat.h"
#include "fleetlog/errors.h"
#include "fleetlog/loop.h"
#include "fleetlog/state.h"

static ExecutorStart_hook_type prev_executor_start = NULL;
static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type prev_object_access = NULL;

/* How often fl_refuse_suspend was called without its resume. */
static int	suspended = 0;

/* DROP EXTENSION runs: whoever uses a stream goes, too. */
static bool extension_goes = false;

typedef enum LogPart
{
	PART_NONE,					/* nothing of ours */
	PART_ROOT,					/* a stream */
	PART_SHARD,					/* its table for one shard */
	PART_SEGMENT				/* a table of our access method */
} LogPart;

/* ---- What is this relation? ------------------------------------------------------------ */

/* *stream is the root, or InvalidOid for a segment that is in no registered stream. */
static LogPart
classify(Oid relid, Oid *stream)
{
	FlLeafInfo	leaf;
	Oid			parent;

	*stream = InvalidOid;
	if (!OidIsValid(relid) || !OidIsValid(fl_access_method_oid()))
		return PART_NONE;
	switch (get_rel_relkind(relid))
	{
		case RELKIND_RELATION:
			if (!fl_leaf_lookup(relid, &leaf))
				return PART_NONE;
			if (fl_stream_lookup(leaf.stream) != NULL)
				*stream = leaf.stream;
			return PART_SEGMENT;
		case RELKIND_PARTITIONED_TABLE:
			if (fl_stream_lookup(relid) != NULL)
			{
				*stream = relid;
				return PART_ROOT;
			}
			parent = get_rel_relispartition(relid) ? fl_partition_parent(relid) : InvalidOid;
			if (!OidIsValid(parent) || fl_stream_lookup(parent) == NULL)
				return PART_NONE;
			*stream = parent;
			return PART_SHARD;
		default:
			return PART_NONE;
	}
}

bool
fl_is_log_relation(Oid relid)
{
	Oid			stream;

	return classify(relid, &stream) != PART_NONE;
}

static void
refuse_change(Oid relid, const char *command)
{
	ereport(ERROR,
			(errcode(fl_error_sqlstate(FL_ERR_APPEND_ONLY)),
			 errmsg("%s is not possible: \"%s\" is append-only", command, get_rel_name(relid)),
			 errhint("Records leave a stream by retention only; to correct one, append another.")));
}

static void
refuse_feature(Oid relid, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s not supported for stream \"%s\"", what, get_rel_name(relid)),
			 errhint("%s", hint)));
}

/* ---- Queries ------------------------------------------------------------------------------ */

static Oid
plan_relid(PlannedStmt *stmt, Index rti)
{
	return rti > 0 && rti <= list_length(stmt->rtable) ? rt_fetch(rti, stmt->rtable)->relid : InvalidOid;
}

static void
check_target(PlannedStmt *stmt, Index rti, const char *command)
{
	Oid			relid = plan_relid(stmt, rti);

	if (fl_is_log_relation(relid))
		refuse_change(relid, command);
}

static void
check_modify(PlannedStmt *stmt, Plan *plan)
{
	ModifyTable *mt;
	const char *command = NULL;
	ListCell   *lc;

	if (plan == NULL || !IsA(plan, ModifyTable))
		return;
	mt = (ModifyTable *) plan;
	switch (mt->operation)
	{
		case CMD_UPDATE:
			command = "UPDATE";
			break;
		case CMD_DELETE:
			command = "DELETE";
			break;
		case CMD_MERGE:
			command = "MERGE";
			break;
		case CMD_INSERT:
			command = mt->onConflictAction != ONCONFLICT_NONE ? "INSERT ... ON CONFLICT" : NULL;
			break;
		default:
			break;
	}
	if (command == NULL)
		return;
	check_target(stmt, mt->nominalRelation, command);
	check_target(stmt, mt->rootRelation, command);
	foreach(lc, mt->resultRelations)
		check_target(stmt, lfirst_int(lc), command);
}

static void
check_row_marks(PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->rowMarks)
	{
		PlanRowMark *mark = lfirst_node(PlanRowMark, lc);
		Oid			relid;

		if (!RowMarkRequiresRowShareLock(mark->markType))
			continue;
		relid = plan_relid(stmt, mark->rti);
		if (fl_is_log_relation(relid))
			refuse_feature(relid, "locking rows is", "Records never change; read them without FOR UPDATE or FOR SHARE.");
	}
}

static void
refuse_executor_start(QueryDesc *query, int eflags)
{
	PlannedStmt *stmt = query->plannedstmt;
	bool		modifies = stmt->commandType != CMD_SELECT || stmt->hasModifyingCTE;

	if ((modifies || stmt->rowMarks != NIL) && OidIsValid(fl_access_method_oid()))
	{
		ListCell   *lc;

		check_modify(stmt, stmt->planTree);
		foreach(lc, stmt->subplans)
			check_modify(stmt, lfirst(lc));
		check_row_marks(stmt);
	}
	if (prev_executor_start != NULL)
		prev_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

/* ---- ALTER TABLE ------------------------------------------------------------------------------ */

static void
refuse_columns(Oid relid)
{
	refuse_feature(relid, "changing columns is", "Every stream has the same columns; put further values into headers or payload.");
}

static void
check_attach(Oid relid, LogPart part, Oid stream, AlterTableCmd *cmd)
{
	PartitionCmd *attach = castNode(PartitionCmd, cmd->def);
	Oid			child = RangeVarGetRelid(attach->name, NoLock, true);
	FlLeafInfo	leaf;

	if (!OidIsValid(stream) || !OidIsValid(child))
		return;					/* a restore, before the stream is registered; or an error to come */
	if (attach->bound != NULL && attach->bound->is_default)
		refuse_feature(relid, "a default partition is", "An offset without a segment is an error, so that none gets lost.");
	if (part == PART_SHARD && !fl_leaf_lookup(child, &leaf))
		refuse_feature(relid, "attaching a table of another access method is", "Segments use access method fleetlog_log.");
}

static void
check_alter_command(Oid relid, LogPart part, Oid stream, AlterTableCmd *cmd)
{
	switch (cmd->subtype)
	{
		case AT_AddColumn:
		case AT_DropColumn:
		case AT_AlterColumnType:
		case AT_ColumnDefault:
		case AT_AddIdentity:
		case AT_SetIdentity:
		case AT_DropIdentity:
		case AT_DropExpression:
		FL_CASE_AT_SET_EXPRESSION
		case AT_SetNotNull:
		case AT_DropNotNull:
		case AT_SetStorage:
		case AT_SetCompression:
		case AT_AddOf:
			refuse_columns(relid);
			break;
		case AT_AddConstraint:
		case AT_AddIndexConstraint:
		case AT_AlterConstraint:
			refuse_feature(relid, "constraints are", "Devices append without them; check records where you read them.");
			break;
		case AT_AddIndex:
			refuse_feature(relid, "indexes are", "Indexes on segments are not built yet.");
			break;
		case AT_ClusterOn:
			refuse_feature(relid, "CLUSTER is", "Records stay in the order of their offsets.");
			break;
		case AT_SetLogged:
		case AT_SetUnLogged:
			refuse_feature(relid, "SET LOGGED or UNLOGGED is", "A stream is always logged.");
			break;
		case AT_SetAccessMethod:
			refuse_feature(relid, "changing the access method is", "Copy the records into another table instead.");
			break;
		case AT_AddInherit:
		case AT_DropInherit:
			refuse_feature(relid, "inheritance is", "Create a view instead.");
			break;
		case AT_AttachPartition:
			check_attach(relid, part, stream, cmd);
			break;
		case AT_DetachPartition:
		case AT_DetachPartitionFinalize:
			if (OidIsValid(stream) && suspended == 0)
				refuse_feature(relid, "detaching a partition by hand is",
							   "Records leave a stream by retention; fleetlog.drop_stream drops it as a whole.");
			break;
		default:
			break;
	}
}

static void
check_alter_table(AlterTableStmt *stmt)
{
	Oid			stream;
	Oid			relid;
	LogPart		part;
	ListCell   *lc;

	if (stmt->objtype != OBJECT_TABLE)
		return;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	part = classify(relid, &stream);
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		/* Another table that would inherit from one of ours. */
		if (cmd->subtype == AT_AddInherit)
		{
			Oid			parent = RangeVarGetRelid(castNode(RangeVar, cmd->def), NoLock, true);

			if (fl_is_log_relation(parent))
				refuse_feature(parent, "inheritance is", "Create a view instead.");
		}
		if (part != PART_NONE)
			check_alter_command(relid, part, stream, cmd);
	}
}

/* ---- Other utility commands ------------------------------------------------------------------------ */

static Oid
log_relid(RangeVar *rv)
{
	Oid			relid = rv != NULL ? RangeVarGetRelid(rv, NoLock, true) : InvalidOid;

	return fl_is_log_relation(relid) ? relid : InvalidOid;
}

/* Would a table made by this statement use our access method? */
static bool
wants_our_access_method(const char *access_method)
{
	if (access_method == NULL)
		access_method = default_table_access_method;
	return strcmp(access_method, FL_AM_NAME) == 0;
}

static void
check_create_table(CreateStmt *stmt)
{
	ListCell   *lc;

	if (stmt->partspec == NULL && wants_our_access_method(stmt->accessMethod) &&
		stmt->relation->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a table of access method \"%s\" cannot be temporary or unlogged", FL_AM_NAME),
				 errhint("Use an ordinary table for records that need not last.")));
	foreach(lc, stmt->inhRelations)
	{
		Oid			stream;
		Oid			parent = RangeVarGetRelid(lfirst_node(RangeVar, lc), NoLock, true);
		LogPart		part = classify(parent, &stream);

		if (part == PART_SEGMENT)
			refuse_feature(parent, "inheritance is", "Create a view instead.");
		if (part != PART_NONE)
			refuse_feature(parent, "creating a partition by hand is",
						   "Segments are created as they are needed; shards are added by fleetlog.alter_stream.");
	}
}

/* A segment or shard by itself: its records and the tail would be lost. */
static void
check_drop_table(DropStmt *stmt)
{
	List	   *roots = NIL;
	ListCell   *lc;

	if (stmt->removeType != OBJECT_TABLE || suspended > 0)
		return;
	foreach(lc, stmt->objects)
		roots = lappend_oid(roots, RangeVarGetRelid(makeRangeVarFromNameList(lfirst(lc)), NoLock, true));
	foreach(lc, roots)
	{
		Oid			stream;
		LogPart		part = classify(lfirst_oid(lc), &stream);

		if ((part == PART_SEGMENT || part == PART_SHARD) && OidIsValid(stream) && !list_member_oid(roots, stream))
			refuse_feature(stream, "dropping a segment or shard by hand is",
						   "Records leave a stream by retention; fleetlog.drop_stream drops it as a whole.");
	}
}

static void
check_rename(RenameStmt *stmt)
{
	Oid			relid;

	if (stmt->renameType == OBJECT_ROLE)
	{
		fl_change_note_names();
		fl_change_note_rights();
	}
	if (stmt->renameType == OBJECT_COLUMN && stmt->relationType == OBJECT_TABLE &&
		OidIsValid(relid = log_relid(stmt->relation)))
		refuse_columns(relid);
}

static void
check_utility(Node *stmt)
{
	Oid			relid;

	extension_goes = IsA(stmt, DropStmt) && ((DropStmt *) stmt)->removeType == OBJECT_EXTENSION;
	switch (nodeTag(stmt))
	{
		case T_AlterTableStmt:
			check_alter_table((AlterTableStmt *) stmt);
			break;
		case T_CreateStmt:
			check_create_table((CreateStmt *) stmt);
			break;
		case T_DropStmt:
			check_drop_table((DropStmt *) stmt);
			break;
		case T_RenameStmt:
			check_rename((RenameStmt *) stmt);
			break;
		case T_CreateTrigStmt:
			if (OidIsValid(relid = log_relid(((CreateTrigStmt *) stmt)->relation)))
				refuse_feature(relid, "triggers are", "Read new records with fleetlog.poll or logical decoding.");
			break;
		case T_RuleStmt:
			if (OidIsValid(relid = log_relid(((RuleStmt *) stmt)->relation)))
				refuse_feature(relid, "rules are", "Create a view instead.");
			break;
		case T_IndexStmt:
			if (OidIsValid(relid = log_relid(((IndexStmt *) stmt)->relation)))
				refuse_feature(relid, "CREATE INDEX is", "Indexes on segments are not built yet.");
			break;
		case T_ClusterStmt:
			if (OidIsValid(relid = log_relid(((ClusterStmt *) stmt)->relation)))
				refuse_feature(relid, "CLUSTER is", "Records stay in the order of their offsets.");
			break;
		case T_CreateRoleStmt:
		case T_AlterRoleStmt:
		case T_DropRoleStmt:
			/* What a bare user name means at the MQTT door may have changed. */
			fl_change_note_names();
			fl_change_note_rights();
			break;
		case T_GrantStmt:
		case T_GrantRoleStmt:
		case T_AlterOwnerStmt:
		case T_DropOwnedStmt:
		case T_ReassignOwnedStmt:
			fl_change_note_rights();
			break;
		default:
			break;
	}
}

static void
refuse_process_utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
					   ParamListInfo params, QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		look;

	/* Commands outside a transaction (BEGIN, COMMIT after an error) must not touch the catalog. */
	look = IsTransactionState() && !IsA(stmt, TransactionStmt);
	if (look)
	{
		check_utility(stmt);
		if (IsA(stmt, AlterTableStmt) && OidIsValid(fl_access_method_oid()))
			fl_follow_lock((AlterTableStmt *) stmt);
		pstmt = fl_copy_as_query(pstmt);
	}
	if (prev_process_utility != NULL)
		prev_process_utility(pstmt, query, read_only, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params, env, dest, qc);
	if (look && IsA(stmt, AlterTableStmt) && OidIsValid(fl_access_method_oid()))
		fl_follow_alter_table((AlterTableStmt *) stmt);
}

/* ---- Object access ------------------------------------------------------------------------------------ */

/*
 * A segment without storage blocks holds neither records nor a tail, so that
 * emptying it changes nothing.  The server asks before it locks a table that a
 * command names, hence the lock of our own and a segment that may be gone; what
 * comes in between is refused where the segment gets its new file.
 */
static bool
holds_nothing(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	BlockNumber blocks;

	if (rel == NULL)
		return true;
	blocks = RelationGetNumberOfBlocks(rel);
	relation_close(rel, AccessShareLock);
	return blocks == 0;
}

static void
check_truncate(Oid relid)
{
	Oid			stream;
	LogPart		part = classify(relid, &stream);

	if (part == PART_NONE || (part == PART_SEGMENT && holds_nothing(relid)))
		return;
	refuse_change(relid, "TRUNCATE");
}

/* A stream goes, by whatever command: its configuration and its mounts go with it. */
static void
forget_stream(Oid relid)
{
	static const char *const tables[] = {
		"loop_decision_link", "loop_decision_stream", "state_cleared", "state_pending", "state_flushed", "hold_range_config", "hold_config", "mount_config", "consumer_position", "producer_config", "producer_snapshot", "epoch_config", "shard_map_config", "shard_config", "stream_config"
	};
	const FlStreamInfo *s = fl_stream_lookup(relid);
	Oid			types[1] = {REGCLASSOID};
	Datum		values[1] = {ObjectIdGetDatum(relid)};
	int			n;
	const FlMount *mounts = fl_mount_list(&n);

	/* During DROP EXTENSION the tables themselves may be gone already. */
	if (s == NULL || !OidIsValid(fl_config_relid(FL_TABLE_STREAM)))
		return;
	/* DROP SCHEMA, DROP OWNED and DROP EXTENSION, with CASCADE, come to it here only. */
	if (!extension_goes)
		fl_loop_refuse_drop(relid);
	if (OidIsValid(fl_config_relid(FL_TABLE_HOLD)))
		fl_hold_refuse_drop(relid);
	fl_state_forget_stream(relid);
	for (int i = 0; i < n; i++)
		if (mounts[i].stream == relid && !mounts[i].commands)
			ereport(NOTICE,
					(errmsg("prefix \"%s\" was mounted on stream \"%s\" and is unmounted", mounts[i].prefix, s->name)));
	for (int i = 0; i < lengthof(tables); i++)
	{
		char	   *sql;

		if (!OidIsValid(get_relname_relid(tables[i], get_namespace_oid(FL_SCHEMA, false))))
			continue;
		sql = psprintf("DELETE FROM fleetlog.%s WHERE stream = $1", tables[i]);
		fl_config_execute(sql, 1, types, values, NULL);
	}
	fl_change_note_dropped_stream(relid);
}

static void
refuse_object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (prev_object_access != NULL)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_DROP && class_id == AuthIdRelationId && OidIsValid(fl_access_method_oid()))
		fl_loop_refuse_drop_role(object_id);
	if ((access != OAT_TRUNCATE && access != OAT_DROP) || class_id != RelationRelationId || sub_id != 0)
		return;

	/* DROP EXTENSION fires no triggers: whoever is logged in has no credential any more. */
	if (access == OAT_DROP && object_id == fl_config_relid(FL_TABLE_CREDENTIAL))
		fl_change_note_everybody();
	if (!OidIsValid(fl_access_method_oid()))
		return;
	if (access == OAT_TRUNCATE)
		check_truncate(object_id);
	else if (access == OAT_DROP && get_rel_relkind(object_id) == RELKIND_PARTITIONED_TABLE)
		forget_stream(object_id);
	else if (access == OAT_DROP && get_rel_relkind(object_id) == RELKIND_RELATION)
		fl_state_forget_table(object_id);
}

/* ---- Installation -------------------------------------------------------------------------------------- */

void
fl_refuse_suspend(void)
{
	suspended++;
}

void
fl_refuse_resume(void)
{
	if (suspended > 0)
		suspended--;
}

bool
fl_refuse_is_suspended(void)
{
	return suspended > 0;
}

static void
refuse_xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		suspended = 0;
}

void
fl_refuse_init(void)
{
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = refuse_executor_start;
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = refuse_process_utility;
	prev_object_access = object_access_hook;
	object_access_hook = refuse_object_access;
	RegisterXactCallback(refuse_xact_callback, NULL);
}
