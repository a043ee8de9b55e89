/*-------------------------------------------------------------------------
 *
 * catalog_internal.h
 *		What the files of src/catalog share among themselves: the configuration
 *		tables with their column numbers, and helpers to read and write them.
 *
 * Column numbers are fixed by the install script; an upgrade step may only add
 * columns at the end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_CATALOG_INTERNAL_H
#define FL_CATALOG_INTERNAL_H

#include "access/htup.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "fleetlog/auth.h"
#include "fleetlog/catalog.h"

#define FL_SCHEMA	"fleetlog"
#define FL_AM_NAME	"fleetlog_log"

/* The configuration tables and indexes that C code opens by name. */
typedef enum FlTable
{
	FL_TABLE_STREAM,
	FL_TABLE_SHARD,
	FL_TABLE_EPOCH,
	FL_TABLE_MOUNT,
	FL_TABLE_STATE,
	FL_TABLE_TENANT,
	FL_TABLE_DEVICE,
	FL_TABLE_CREDENTIAL,
	FL_TABLE_POLICY,
	FL_TABLE_HOLD,
	FL_TABLE_HOLD_RANGE,
	FL_TABLE_DETACHED,
	FL_TABLE_PRODUCER,
	FL_INDEX_SHARD,
	FL_INDEX_EPOCH,
	FL_INDEX_DEVICE_ID,
	FL_INDEX_DEVICE,
	FL_INDEX_CREDENTIAL,
	FL_INDEX_CREDENTIAL_DEVICE,
	FL_INDEX_CREDENTIAL_CERTIFICATE,
	FL_INDEX_HOLD,
	FL_INDEX_HOLD_RANGE,
	FL_INDEX_PRODUCER,
	FL_N_TABLES
} FlTable;

enum
{
	FL_STREAM_RELID = 1, FL_STREAM_SHARDS, FL_STREAM_DURABILITY, FL_STREAM_COMPRESSION,
	FL_STREAM_TIMESTAMP_TYPE, FL_STREAM_SEGMENT_BYTES, FL_STREAM_SEGMENT_AGE,
	FL_STREAM_RETENTION_AGE, FL_STREAM_RETENTION_BYTES, FL_STREAM_MAX_RECORD_BYTES,
	FL_STREAM_CREATED_AT, FL_STREAM_CLEANUP_POLICY
};
enum
{
	FL_SHARD_STREAM = 1, FL_SHARD_SHARD, FL_SHARD_HEAD, FL_SHARD_TAIL
};
enum
{
	FL_HOLD_ID = 1, FL_HOLD_STREAM, FL_HOLD_RANGES, FL_HOLD_REASON
};
enum
{
	FL_HOLD_RANGE_STREAM = 1, FL_HOLD_RANGE_SHARD, FL_HOLD_RANGE_LOWER, FL_HOLD_RANGE_UPPER, FL_HOLD_RANGE_HOLD
};
enum
{
	FL_DETACHED_SEGMENT = 1
};
enum
{
	FL_PRODUCER_STREAM = 1, FL_PRODUCER_SHARD, FL_PRODUCER_OFFSET, FL_PRODUCER_STATE
};
enum
{
	FL_EPOCH_STREAM = 1, FL_EPOCH_SHARD, FL_EPOCH_EPOCH, FL_EPOCH_FIRST_OFFSET,
	FL_EPOCH_TIMELINE
};
enum
{
	FL_MOUNT_PREFIX = 1, FL_MOUNT_STREAM, FL_MOUNT_RECORD_KEY, FL_MOUNT_SHARD_KEY, FL_MOUNT_CLASS,
	FL_MOUNT_DEDUPE, FL_MOUNT_MAX_PAYLOAD, FL_MOUNT_CREATED_AT, FL_MOUNT_STATE, FL_MOUNT_KEEP, FL_MOUNT_STATE_LAG,
	FL_MOUNT_MAX_LEVELS
};
enum
{
	FL_STATE_RELID = 1
};
enum
{
	FL_TENANT_NAME = 1, FL_TENANT_PREFIX, FL_TENANT_MAX_PACKET, FL_TENANT_MAX_INFLIGHT,
	FL_TENANT_MAX_LEVELS, FL_TENANT_MAX_SUBS, FL_TENANT_MAX_WILD_SUBS, FL_TENANT_MAX_QUEUED,
	FL_TENANT_MAX_QUEUED_BYTES, FL_TENANT_MAX_EXPIRY, FL_TENANT_MAX_CONNECTIONS,
	FL_TENANT_MAX_SESSIONS
};
enum
{
	FL_DEVICE_TENANT = 1, FL_DEVICE_ID, FL_DEVICE_REVOKED_AT = 8
};
enum
{
	FL_CREDENTIAL_ID = 1, FL_CREDENTIAL_TENANT, FL_CREDENTIAL_DEVICE, FL_CREDENTIAL_KIND,
	FL_CREDENTIAL_VERIFIER, FL_CREDENTIAL_CREATED_AT, FL_CREDENTIAL_REVOKED_AT,
	FL_CREDENTIAL_REVOKE_REASON, FL_CREDENTIAL_VERIFIER_512
};
enum
{
	FL_POLICY_TENANT = 1, FL_POLICY_ACTION, FL_POLICY_FILTER
};

/* ---- config_tables.c ------------------------------------------------------ */

/* Oid by name, InvalidOid when the extension is not (or no longer) there. */
extern Oid	fl_config_relid(FlTable table);

/* Open a table for reading; NULL when the extension is not there. */
extern Relation fl_config_open(FlTable table);

/* Column helpers over a heap tuple; the text is palloc'd. */
extern char *fl_config_text(HeapTuple tuple, int attnum, TupleDesc desc);
extern int64 fl_config_int(HeapTuple tuple, int attnum, TupleDesc desc, bool is_bigint);
extern int64 fl_config_interval_us(HeapTuple tuple, int attnum, TupleDesc desc);

/*
 * Run a statement as the owner of the extension: for writes that the caller
 * was found to be entitled to.  search_path is pg_catalog while it runs.
 * Returns the number of rows.
 */
extern uint64 fl_config_execute(const char *sql, int nargs, Oid *types, Datum *values, const bool *nulls);

/* A single int8 result of a query run likewise; isnull when no row. */
extern int64 fl_config_query_int(const char *sql, int nargs, Oid *types, Datum *values, bool *isnull);

/* Run DDL as the current user with search_path = pg_catalog. */
extern void fl_config_ddl(const char *sql);

/* ---- follow.c -------------------------------------------------------------- */

/* Before ALTER TABLE of a stream: the locks on it and all below it that the other will need, without a deadlock. */
extern void fl_follow_lock(const AlterTableStmt *stmt);

/* After ALTER TABLE: what was changed of a stream is changed of its shards and segments. */
extern void fl_follow_alter_table(AlterTableStmt *stmt);

/* Row security as ALTER TABLE has set it on a table itself. */
typedef struct FlRowSecurity
{
	bool		enabled;
	bool		forced;			/* for the owner, too */
} FlRowSecurity;

extern FlRowSecurity fl_row_security(Oid relid);

/* Make it so where it is not, by ALTER TABLE as the current user. */
extern void fl_set_row_security(Oid relid, FlRowSecurity want);

/* ---- cache.c --------------------------------------------------------------- */

/* A tenant with its rules: [FL_ACTION_PUBLISH] and [FL_ACTION_SUBSCRIBE]. */
typedef struct FlTenantEntry
{
	FlTenant	pub;			/* must come first */
	int			nrules[2];
	const char **rules[2];		/* filters with placeholders */
} FlTenantEntry;

extern const FlTenantEntry *fl_tenant_entry(const char *name);

/* The tenant below whose prefix the topic lies; NULL: none. */
extern const FlTenant *fl_tenant_of_topic(const char *topic, size_t len);

/* ---- acl.c ---------------------------------------------------------------- */

/* After fl_acl_check: the rule of fleetlog.policy that allowed it; NULL: it was none of them. */
extern const char *fl_acl_matched_rule(void);

/* ---- change.c ------------------------------------------------------------- */

/* Registers the transaction callbacks; from fl_catalog_init. */
extern void fl_change_init(void);

/* At commit of this transaction: tell all processes to load the catalog again. */
extern void fl_change_note_catalog(void);

/* At commit: this credential, or this device, has lost its right. */
extern void fl_change_note_credential(int64 credential);
extern void fl_change_note_device(const char *tenant, const char *device);
extern void fl_change_note_everybody(void);

/* At commit: the shared entries of this stream's shards are of no use any more. */
extern void fl_change_note_dropped_stream(Oid stream);

/* At commit: what a bare user name means may have changed. */
extern void fl_change_note_names(void);

/* At commit: what a role may do may have changed; what exactly, the server's invalidations say. */
extern void fl_change_note_rights(void);

/* ---- role.c ------------------------------------------------------------------ */

/* fl_acl_check of a role that was read before. */
extern bool fl_role_check(Oid role, FlAction action, const char *request, size_t len, const char **why);

/* ---- auth_shmem.c, called by change.c at commit -------------------------------- */

extern void fl_auth_revoke(const FlRevocation *revs, int n, bool everybody);
extern void fl_auth_names_changed(void);

/* ---- segment_map.c -------------------------------------------------------------- */

extern void fl_segment_map_init(void);
extern void fl_segment_map_invalidate(Oid relid);

/* Parse a leaf's bound; false when it is no range partition over one bigint. */
extern bool fl_partition_bound(Oid relid, bool *is_list, int64 *lower, int64 *upper);

/* Parent in pg_inherits, InvalidOid when there is none or it is being detached. */
extern Oid	fl_partition_parent(Oid relid);

/* ---- hold.c ------------------------------------------------------------------------ */

/* Why a hold was made; "" when there is no such hold. */
extern char *fl_hold_reason(int64 id);

/* ---- segment_ddl.c ----------------------------------------------------------------- */

/* What a leaf takes over from the shard's table. */
typedef struct FlShardTable
{
	Oid			relid;
	Oid			owner;
	Oid			schema;
	Oid			tablespace;
	char	   *name;
	char	   *qualified;
	bool		has_grants;
	FlRowSecurity row_security;
} FlShardTable;

extern void fl_shard_table_read(Oid relid, FlShardTable *t);

/* ---- copy.c ------------------------------------------------------------------------------ */

/* COPY of a stream as COPY of a query; any other statement as it is.  In a transaction. */
struct PlannedStmt;
extern struct PlannedStmt *fl_copy_as_query(struct PlannedStmt *pstmt);

/* ---- refuse.c ---------------------------------------------------------------------------- */

/* Is it a stream's root, one of its shard tables, or a segment? */
extern bool fl_is_log_relation(Oid relid);

#endif							/* FL_CATALOG_INTERNAL_H */
