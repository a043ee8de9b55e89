/*-------------------------------------------------------------------------
 *
 * compat.h
 *		All differences between PostgreSQL 15, 16, 17 and 18 in one place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_COMPAT_H
#define FLEETLOG_COMPAT_H

#include "access/tableam.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xlogreader.h"
#include "commands/vacuum.h"
#include "replication/reorderbuffer.h"
#include "storage/latch.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"				/* no longer part of postgres.h */
#endif

/* A function that does not return says so before its type since 18, after its arguments until then. */
#if PG_VERSION_NUM >= 180000
#define FL_NORETURN					pg_noreturn
#else
#define FL_NORETURN					pg_attribute_noreturn()
#endif

/* Relation files: RelFileNode became RelFileLocator in 16. */
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
typedef RelFileLocator FlRelFile;
#define FL_REL_FILE(rel)			((rel)->rd_locator)
#define FL_REL_FILE_NUMBER(rel)		((rel)->rd_locator.relNumber)
#define FL_FILE_SPC(f)				((f).spcOid)
#define FL_FILE_DB(f)				((f).dbOid)
#define FL_FILE_REL(f)				((f).relNumber)
#define FL_FILE_EQUALS(a, b)		RelFileLocatorEquals(a, b)
#else
#include "storage/relfilenode.h"
typedef RelFileNode FlRelFile;
#define FL_REL_FILE(rel)			((rel)->rd_node)
#define FL_REL_FILE_NUMBER(rel)		((rel)->rd_node.relNode)
#define FL_FILE_SPC(f)				((f).spcNode)
#define FL_FILE_DB(f)				((f).dbNode)
#define FL_FILE_REL(f)				((f).relNode)
#define FL_FILE_EQUALS(a, b)		RelFileNodeEquals(a, b)
#endif

/* A new, empty file for a relation (needs utils/relcache.h). */
#if PG_VERSION_NUM >= 160000
#define FL_SET_NEW_FILE(rel)		RelationSetNewRelfilenumber((rel), (rel)->rd_rel->relpersistence)
#else
#define FL_SET_NEW_FILE(rel)		RelationSetNewRelfilenode((rel), (rel)->rd_rel->relpersistence)
#endif

/*
 * The process behind a virtual transaction id; NULL when it is gone (needs
 * storage/procarray.h or storage/sinvaladt.h).  Process numbers took the place of backend ids in 17.
 */
#if PG_VERSION_NUM >= 170000
#define FL_VXID_PROC(vxid)			ProcNumberGetProc((vxid).procNumber)
#define FL_PROC_LXID(proc)			((proc)->vxid.lxid)
#define FL_VXID_IS_PREPARED(vxid)	((vxid).procNumber == INVALID_PROC_NUMBER)
#else
#define FL_VXID_PROC(vxid)			BackendIdGetProc((vxid).backendId)
#define FL_PROC_LXID(proc)			((proc)->lxid)
#define FL_VXID_IS_PREPARED(vxid)	((vxid).backendId == InvalidBackendId)
#endif

/* WAL wants the changed buffer dirty before it is registered since 17: we do that always. */

/* Old transaction ids: ShmemVariableCache became TransamVariables in 17. */
#if PG_VERSION_NUM >= 170000
#define FL_OLDEST_CLOG_XID()		(TransamVariables->oldestClogXid)
#else
#define FL_OLDEST_CLOG_XID()		(ShmemVariableCache->oldestClogXid)
#endif

/* A wait event set takes a resource owner instead of a memory context since 17. */
#if PG_VERSION_NUM >= 170000
#define FL_CREATE_WAIT_EVENT_SET(n)	CreateWaitEventSet(NULL, (n))
#else
#define FL_CREATE_WAIT_EVENT_SET(n)	CreateWaitEventSet(TopMemoryContext, (n))
#endif

/* vacuum_delay_point says since 18 whether it is ANALYZE that waits. */
#if PG_VERSION_NUM >= 180000
#define FL_VACUUM_DELAY_POINT()		vacuum_delay_point(false)
#else
#define FL_VACUUM_DELAY_POINT()		vacuum_delay_point()
#endif

/* PGPROC of a backend: GetPGProcByNumber exists everywhere; the latch is procLatch. */

/* Logical decoding: tuple buffers became plain tuples in 17, two names changed in 18. */
#if PG_VERSION_NUM >= 180000
#define FL_REORDER_ALLOC_CHANGE(rb)		ReorderBufferAllocChange(rb)
#define FL_REORDER_ALLOC_TUPLE(rb, n)	ReorderBufferAllocTupleBuf(rb, n)
#else
#define FL_REORDER_ALLOC_CHANGE(rb)		ReorderBufferGetChange(rb)
#define FL_REORDER_ALLOC_TUPLE(rb, n)	ReorderBufferGetTupleBuf(rb, n)
#endif
#if PG_VERSION_NUM >= 170000
#define FL_REORDER_TUPLE(buf)			(buf)
#else
#define FL_REORDER_TUPLE(buf)			(&(buf)->tuple)
#endif
#if PG_VERSION_NUM >= 160000
#define FL_CHANGE_FILE(change)			((change)->data.tp.rlocator)
#else
#define FL_CHANGE_FILE(change)			((change)->data.tp.relnode)
#endif

/* When a decoded transaction was committed: a field of its own until 14, part of a union since. */
#define FL_TXN_COMMIT_TIME(txn)			((txn)->xact_time.commit_time)

/* Set-returning functions that fill a tuplestore: another name since 16 (and 15.3). */
#if PG_VERSION_NUM >= 150002
#define FL_INIT_MATERIALIZED_SRF(fcinfo) InitMaterializedSRF((fcinfo), 0)
#else
#define FL_INIT_MATERIALIZED_SRF(fcinfo) SetSingleFuncCall((fcinfo), 0)
#endif

/* Insertion timeline. */
#if PG_VERSION_NUM >= 150000
#define FL_CURRENT_TLI()			GetWALInsertionTimeLine()
#endif

/* Rights: one function per kind of object until 15, one for all since 16. */
#if PG_VERSION_NUM >= 160000
#define FL_OWNS_TABLE(relid, role)		object_ownercheck(RelationRelationId, (relid), (role))
#define FL_SCHEMA_ACLCHECK(oid, role, mode)		object_aclcheck(NamespaceRelationId, (oid), (role), (mode))
#define FL_TABLESPACE_ACLCHECK(oid, role, mode) object_aclcheck(TableSpaceRelationId, (oid), (role), (mode))
#define FL_DATABASE_ACLCHECK(oid, role, mode)	object_aclcheck(DatabaseRelationId, (oid), (role), (mode))
#else
#define FL_OWNS_TABLE(relid, role)		pg_class_ownercheck((relid), (role))
#define FL_SCHEMA_ACLCHECK(oid, role, mode)		pg_namespace_aclcheck((oid), (role), (mode))
#define FL_TABLESPACE_ACLCHECK(oid, role, mode) pg_tablespace_aclcheck((oid), (role), (mode))
#define FL_DATABASE_ACLCHECK(oid, role, mode)	pg_database_aclcheck((oid), (role), (mode))
#endif

/* ALTER COLUMN ... SET EXPRESSION came with 17. */
#if PG_VERSION_NUM >= 170000
#define FL_CASE_AT_SET_EXPRESSION	case AT_SetExpression:
#else
#define FL_CASE_AT_SET_EXPRESSION
#endif

/* A SCRAM verifier tells its hash, and how long its keys are, since 16 (in place, before the salt). */
#if PG_VERSION_NUM >= 160000
#define FL_SCRAM_HASH_PARAMS			pg_cryptohash_type *hash_type, int *key_length,
#define FL_SCRAM_HASH_VARS				pg_cryptohash_type hash_type; int key_length;
#define FL_SCRAM_HASH_ARGS				&hash_type, &key_length,
#else
#define FL_SCRAM_HASH_PARAMS
#define FL_SCRAM_HASH_VARS
#define FL_SCRAM_HASH_ARGS
#endif

/* Bytes to encode are uint8 since 18. */
#if PG_VERSION_NUM >= 180000
#define FL_B64_ENCODE(src, len, dst, dst_len)	pg_b64_encode((src), (len), (dst), (dst_len))
#else
#define FL_B64_ENCODE(src, len, dst, dst_len)	pg_b64_encode((const char *) (src), (len), (dst), (dst_len))
#endif

/* A custom scan names the kind of its slot since 16; until 15 the node sets its slot up again. */
#if PG_VERSION_NUM >= 160000
#define FL_CUSTOM_SCAN_SLOT_OPS(css, ops)	((css)->slotOps = (ops))
#else
#define FL_CUSTOM_SCAN_SLOT_OPS(css, ops)	((void) 0)
#endif

/* Planner: a path key has no nullable relids since 16. */
#if PG_VERSION_NUM >= 160000
#define FL_BUILD_PATHKEY(root, expr, opno, relids) \
	build_expression_pathkey((root), (expr), (opno), (relids), false)
#else
#define FL_BUILD_PATHKEY(root, expr, opno, relids) \
	build_expression_pathkey((root), (expr), NULL, (opno), (relids), false)
#endif

/*
 * What a session waits with for its client: socket, latch, postmaster, in this
 * order from 14 on.  Declared here because the server's header for it wants the
 * headers of every library that the server was built with.
 */
extern PGDLLIMPORT struct WaitEventSet *FeBeWaitSet;
#define FL_FEBE_SOCKET				0

/* The number of our PGPROC is a variable of its own since 17. */
#if PG_VERSION_NUM >= 170000
#define FL_MY_PROC_NUMBER			MyProcNumber
#else
#define FL_MY_PROC_NUMBER			(MyProc->pgprocno)
#endif

/* An index scan tells since 18 what it did. */
#if PG_VERSION_NUM >= 180000
#define FL_INDEX_BEGINSCAN(heap, index, snapshot, nkeys) index_beginscan((heap), (index), (snapshot), NULL, (nkeys), 0)
#else
#define FL_INDEX_BEGINSCAN(heap, index, snapshot, nkeys) index_beginscan((heap), (index), (snapshot), (nkeys), 0)
#endif

/* An update without waiting; since 16 it may be that only summarizing indexes need new entries. */
typedef struct FlTupleUpdate
{
	TM_FailureData failure;
	LockTupleMode lockmode;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes indexes;
#else
	bool		indexes;
#endif
} FlTupleUpdate;

#define FL_TABLE_TUPLE_UPDATE(rel, tid, slot, cid, snapshot, u) \
	table_tuple_update((rel), (tid), (slot), (cid), (snapshot), InvalidSnapshot, false, \
					   &(u)->failure, &(u)->lockmode, &(u)->indexes)
#if PG_VERSION_NUM >= 160000
#define FL_UPDATE_NEEDS_INDEXES(u)	((u)->indexes != TU_None)
#define FL_UPDATE_SUMMARIZING_ONLY(u) ((u)->indexes == TU_Summarizing)
#define FL_EXEC_INSERT_INDEX_TUPLES(rri, slot, estate, update, no_dup, conflict, arbiters, summarizing) \
	ExecInsertIndexTuples((rri), (slot), (estate), (update), (no_dup), (conflict), (arbiters), (summarizing))
#else
#define FL_UPDATE_NEEDS_INDEXES(u)	((u)->indexes)
#define FL_UPDATE_SUMMARIZING_ONLY(u) false
#define FL_EXEC_INSERT_INDEX_TUPLES(rri, slot, estate, update, no_dup, conflict, arbiters, summarizing) \
	ExecInsertIndexTuples((rri), (slot), (estate), (update), (no_dup), (conflict), (arbiters))
#endif

#endif							/* FLEETLOG_COMPAT_H */
