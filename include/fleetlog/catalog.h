/*-------------------------------------------------------------------------
 *
 * catalog.h
 *		Streams, segments, mounts, tenants and rights as the rest of fleetlog
 *		sees them: cached lookups with invalidation.
 *
 * How the cache works
 *		A process holds one snapshot of the configuration (streams, mounts,
 *		tenants, policies; devices are looked up one by one, when they log in).
 *		A lookup inside a transaction brings it up to date first; outside one it
 *		answers from what was loaded last, which is why a front door calls
 *		fl_catalog_refresh() at the start of each turn in which
 *		fl_catalog_is_stale() says so.
 *
 *		Pointers that a lookup returns stay good until the end of the
 *		transaction in which they were obtained; those obtained outside a
 *		transaction, until the next transaction that calls into this module.
 *		Copy what you keep longer.
 *
 *		Functions marked "no transaction" may be called anywhere; all others
 *		need a transaction.  Nothing here may be called in a critical section.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_CATALOG_H
#define FLEETLOG_CATALOG_H

#include "datatype/timestamp.h"
#include "utils/snapshot.h"

/* Limits of names and numbers; the tables' checks say the same. */
#define FL_MIN_SHARDS			1
#define FL_MAX_SHARDS			256
#define FL_MAX_SEGMENTS_SHARD	32	/* beyond it widths double */
#define FL_MAX_SEGMENTS_STREAM	1000
#define FL_MIN_SEGMENT_BITS		10	/* narrowest segment: 2^10 records */
#define FL_DEFAULT_SEGMENT_BITS 20
#define FL_MAX_SEGMENT_BITS		30
#define FL_TENANT_MAX			63	/* bytes of a tenant's name */
#define FL_DEVICE_MAX			128 /* bytes of a device id */
#define FL_ROLE_MAX				63	/* bytes of a role's name, as the server has it */
#define FL_PREFIX_MAX			255 /* bytes of a mount's or tenant's prefix */
#define FL_PREFIX_MAX_LEVELS	16

/* Topics of device shadows: this, the device's id, "/shadow...". */
#define FL_SHADOW_PREFIX		"$fleetlog/things/"
#define FL_TEMPLATE_MAX_PARTS	16

/* ---- The cache as a whole ------------------------------------------------ */

/* Called from _PG_init: transaction callbacks at once, invalidation callbacks at first use. */
extern void fl_catalog_init(void);

/* No transaction.  Has the configuration changed since it was loaded? */
extern bool fl_catalog_is_stale(void);

/* Load it again if it has changed.  Cheap when it has not. */
extern void fl_catalog_refresh(void);

/* No transaction.  Is the extension there, as of the last load? */
extern bool fl_catalog_is_installed(void);

/* Oid of access method fleetlog_log, InvalidOid where there is none. */
extern Oid	fl_access_method_oid(void);

/* ---- Streams -------------------------------------------------------------- */

typedef enum FlDurability
{
	FL_DURABILITY_LOCAL,
	FL_DURABILITY_QUORUM
} FlDurability;

typedef enum FlTimestampType
{
	FL_TIMESTAMP_APPEND,
	FL_TIMESTAMP_CREATE
} FlTimestampType;

typedef struct FlStreamInfo
{
	Oid			relid;			/* hash key: must come first */
	Oid			owner;
	const char *schema;
	const char *name;
	int32		shards;
	FlDurability durability;
	FlTimestampType timestamp_type;
	int			codec;			/* FL_CODEC_NONE, _LZ4 or _ZSTD (record_batch.h) */
	int32		max_record_bytes;	/* 0: the server-wide setting */
	int64		segment_bytes;	/* target, 0: none */
	int64		segment_age_us; /* target, 0: none */
	int64		retention_age_us;	/* 0: for ever */
	int64		retention_bytes;	/* 0: without limit */
	bool		is_compacted;	/* cleanup_policy has "compact": Kafka clients' records need a key */
	bool		is_expiring;	/* ... has "delete": retention removes records */
} FlStreamInfo;

/* NULL when relid is not the root of a stream.  No transaction. */
extern const FlStreamInfo *fl_stream_lookup(Oid relid);

/* Oids of all streams in ascending order; the array is part of the cache. No transaction. */
extern const Oid *fl_stream_list(int *count);

/* What pg_dump carries for a shard: a floor for the tail, and the head. */
typedef struct FlShardRow
{
	int64		head;
	int64		tail;			/* floor: the files may know a later one */
} FlShardRow;

/* The stream, which the caller of an SQL function must own: 42809 or 42501 else. */
extern const FlStreamInfo *fl_stream_own(Oid relid);

/* Reads the row as committed (or as written by this transaction); false: none. */
extern bool fl_shard_row_read(Oid stream, int32 shard, FlShardRow *row);

/* The head that a snapshot sees in the row. */
extern int64 fl_shard_row_head_seen(Oid stream, int32 shard, Snapshot snapshot);

/*
 * Raise head and tail floor to at least these values (a row never goes back);
 * inserts the row where there is none.  Takes a row lock until the end of the
 * transaction; needs no rights.
 */
extern void fl_shard_row_raise(Oid stream, int32 shard, int64 head, int64 tail);

/*
 * Leader epochs of a shard: the last one, where it begins, and the WAL timeline
 * of its first write; false: none yet.
 */
extern bool fl_epoch_last(Oid stream, int32 shard, int32 *epoch, int64 *first_offset, int64 *timeline);
extern void fl_epoch_add(Oid stream, int32 shard, int32 epoch, int64 first_offset, int64 timeline);

/*
 * Where an epoch of the shard ends: the first offset of the next one,
 * PG_INT64_MAX for the last.  *known is false for an epoch that this log has
 * not come to.
 */
extern int64 fl_epoch_end(Oid stream, int32 shard, int32 epoch, bool *known);

/* The epoch in which a record was written; 0 when there is none yet. */
extern int32 fl_epoch_of(Oid stream, int32 shard, int64 offset);

/* ---- Holds (L7) --------------------------------------------------------------- */

typedef struct FlHold
{
	int64		id;				/* 0: none */
	int64		lower;
	int64		upper;			/* exclusive */
} FlHold;

/*
 * The hold that begins first among those with a record in [from, to); false:
 * none.  As committed by now, whatever snapshot the transaction uses; who holds
 * the shard's lock can rely on the answer until commit.
 */
extern bool fl_hold_find(Oid stream, int32 shard, int64 from, int64 to, FlHold *hold);

/* Raises LF108, naming the hold and its reason. */
extern void fl_hold_refuse(Oid stream, int32 shard, const FlHold *hold);

/* Raises LF108 when anything of the stream is held. */
extern void fl_hold_refuse_drop(Oid stream);

/* ---- Segments --------------------------------------------------------------- */

typedef struct FlLeafInfo
{
	Oid			stream;			/* root table, InvalidOid when not (yet) under one */
	Oid			parent;			/* the shard's table, InvalidOid when standalone */
	int32		shard;			/* -1 when not under a root */
	int64		lower;			/* bounds: lower inclusive, upper exclusive; */
	int64		upper;			/* 0 and 0 when standalone */
} FlLeafInfo;

/*
 * Where a leaf hangs, by structure alone: `stream` is set as soon as the leaf
 * is below a list-partitioned root, also while a dump is being restored and
 * fl_stream_lookup does not know the root yet.  False: relid is no table that
 * uses our access method.  A bound of MINVALUE reads 0, MAXVALUE PG_INT64_MAX.
 */
extern bool fl_leaf_lookup(Oid leaf, FlLeafInfo *out);

typedef struct FlSegment
{
	Oid			leaf;
	int32		shard;
	int64		lower;
	int64		upper;
} FlSegment;

/* The segment that holds the offset; false: none is there (yet, or any more). */
extern bool fl_segment_find(Oid stream, int32 shard, int64 offset, FlSegment *out);

/* Segments of one shard by ascending lower bound; the array is part of the cache. */
extern const FlSegment *fl_segment_list(Oid stream, int32 shard, int *count);

/* Read a stream's segments from the catalogs again at the next call: somebody knows of a newer one. */
extern void fl_segment_list_reread(Oid stream);

/* The shard's table below the root (the LIST partition); InvalidOid: no such shard. */
extern Oid	fl_shard_table(Oid stream, int32 shard);

/*
 * Create the leaf [lower, upper) of a shard: CREATE TABLE, then ATTACH, which
 * locks the shard's table in ShareUpdateExclusive mode only.  Runs as the owner
 * of the shard's table; names, tablespace and grants follow that table.  When
 * somebody else has made the segment meanwhile, returns his.  Raises an error
 * when the range overlaps another segment in part.
 */
extern Oid	fl_segment_create(Oid stream, int32 shard, int64 lower, int64 upper);

/*
 * Create the segment of a shard that begins at `lower`, as wide as rate,
 * retention and the number of segments suggest, and not into the one behind it.
 * rate: records per second of the shard, 0 = unknown.  record_bytes: stored
 * bytes per record, 0 = unknown.
 */
extern Oid	fl_segment_create_next(Oid stream, int32 shard, int64 lower, double rate, double record_bytes);

/*
 * The time that a segment should take to fill: a sixteenth of the retention, more
 * where a stream has many shards (1,000 segments are its ceiling); a day where
 * nothing expires.  In seconds.
 */
extern double fl_segment_span(const FlStreamInfo *stream);

/*
 * How many offsets (a power of two) the next segment of a shard should take:
 * what the rate fills in fl_segment_span, narrowed by retention_bytes and the
 * stream's segment targets, doubled for each segment above the ceilings.
 */
extern int64 fl_segment_width(const FlStreamInfo *stream, double rate, double record_bytes,
							  int leaves_shard, int leaves_stream);

/*
 * Let a segment end earlier: its upper bound becomes `upper`, which must not be
 * below any of its records.  The caller holds the shard's lock.  Readers and
 * plans are not disturbed: like ATTACH it takes ShareUpdateExclusive on the
 * shard's table and on the segment.  False: one of them was not free.
 */
extern bool fl_segment_cut(Oid stream, const FlSegment *seg, int64 upper);

/* How long these may wait for locks that readers hold (0: not at all). */
typedef enum FlSegmentWait
{
	FL_SEGMENT_DONE,
	FL_SEGMENT_TABLE_BUSY,		/* the shard's table is in use */
	FL_SEGMENT_BUSY				/* the segment itself is in use */
} FlSegmentWait;

/*
 * Take a segment out of its stream; it is dropped by fl_segment_drop_detached in
 * a later transaction, so that nobody waits for a disk while the shard's table is
 * locked.  With wait_ms > 0 a lock that is not free is waited for, and 55P03
 * raised at the end of that time.  The transaction must end right after.
 */
extern FlSegmentWait fl_segment_detach(Oid stream, const FlSegment *seg, int wait_ms);

/* Drop what was detached; returns how many were in use and are still there. */
extern int	fl_segment_drop_detached(void);

/* Give a segment whose records are all below the head an empty file; false: in use. */
extern bool fl_segment_empty(Oid stream, const FlSegment *seg, int wait_ms);

/* ---- Templates of keys (P2) ------------------------------------------------- */

typedef enum FlTemplateKind
{
	FL_TEMPLATE_LITERAL,
	FL_TEMPLATE_TOPIC,			/* {topic} */
	FL_TEMPLATE_DEVICE,			/* {device} */
	FL_TEMPLATE_TENANT,			/* {tenant} */
	FL_TEMPLATE_LEVEL			/* {level N}: the Nth level of the topic, from 1 */
} FlTemplateKind;

typedef struct FlTemplatePart
{
	FlTemplateKind kind;
	int			level;			/* FL_TEMPLATE_LEVEL */
	const char *literal;		/* FL_TEMPLATE_LITERAL, borrowed from the source */
	size_t		literal_len;
} FlTemplatePart;

typedef struct FlTemplate
{
	int			nparts;
	bool		is_topic;		/* just {topic}: callers may use the topic itself */
	FlTemplatePart parts[FL_TEMPLATE_MAX_PARTS];
} FlTemplate;

/* Parse; NULL on success, else what is wrong.  Borrows source.  No transaction. */
extern const char *fl_template_parse(const char *source, FlTemplate *out);

/*
 * Expand.  Returns the length of the result; writes at most cap bytes, so a
 * return value above cap means "too small".  A level that the topic does not
 * have, and a device or tenant that is NULL, expand to nothing.  No transaction.
 */
extern size_t fl_template_expand(const FlTemplate *t, const char *topic, size_t topic_len,
								 const char *tenant, const char *device, char *out, size_t cap);

/* ---- Mounts (M3) ------------------------------------------------------------- */

typedef enum FlDedupe
{
	FL_DEDUPE_OFF,
	FL_DEDUPE_MARK,
	FL_DEDUPE_DROP
} FlDedupe;

/* What a mount keeps of its topics in its state table (R1). */
typedef enum FlKeep
{
	FL_KEEP_RETAINED,			/* records that were published with retain */
	FL_KEEP_LAST				/* the last record of each topic */
} FlKeep;

#define FL_DEFAULT_STATE_LAG_US	INT64CONST(1000000)

typedef struct FlMount
{
	const char *prefix;			/* hash key by content */
	size_t		prefix_len;
	Oid			stream;
	FlTemplate	record_key;
	FlTemplate	shard_key;
	bool		shard_key_same; /* shard key and record key are the same template */
	const char *class_name;		/* NULL or telemetry, event, command, safety */
	FlDedupe	dedupe;
	int32		max_payload_bytes;	/* 0: no limit of the mount's own */
	int32		max_topic_levels;	/* likewise; levels of the whole topic */
	Oid			state;			/* state table, InvalidOid: none */
	FlKeep		keep;
	int64		state_lag_us;	/* FL_KEEP_LAST: 0 = in the append's transaction */
	bool		commands;		/* of none that was made: where a tenant's `cmd/` leads (fl_command_stream) */
} FlMount;

/*
 * The mount with the longest prefix of the topic; NULL: none.  Topics of the
 * command space have one of their own below a tenant's prefix, to the stream of
 * commands, and are caught by no other; those that begin with `$` are not caught
 * by the empty prefix.  No transaction.
 */
extern const FlMount *fl_mount_match(const char *topic, size_t len);

/* The internal stream that carries commands and their answers; InvalidOid: no command was sent yet.  No transaction. */
extern Oid	fl_command_stream(void);

/* All mounts, by prefix, and those of commands; part of the cache. No transaction. */
extern const FlMount *fl_mount_list(int *count);

/* Oids of all state tables in ascending order; part of the cache.  No transaction. */
extern const Oid *fl_state_list(int *count);
extern bool fl_state_is_table(Oid relid);

/*
 * Is it in the command space: `cmd/...` at the root or right below a tenant's
 * prefix?  (Also the bare level `cmd`.)  No transaction.
 */
extern bool fl_topic_is_command(const char *topic, size_t len);

/* ---- Identity and rights (I1, I4) -------------------------------------------- */

typedef enum FlIdentityKind
{
	FL_IDENTITY_ANONYMOUS,
	FL_IDENTITY_DEVICE,
	FL_IDENTITY_ROLE
} FlIdentityKind;

typedef struct FlIdentity
{
	FlIdentityKind kind;
	Oid			role;			/* FL_IDENTITY_ROLE */
	int64		credential;		/* which credential logged in, 0: none */
	char		tenant[FL_TENANT_MAX + 1];	/* FL_IDENTITY_DEVICE */
	char		device[FL_DEVICE_MAX + 1];
	char		role_name[FL_ROLE_MAX + 1]; /* FL_IDENTITY_ROLE */
	const char *client_id;		/* borrowed, set by the front door; NULL: none */
	size_t		client_id_len;
} FlIdentity;

typedef enum FlAction
{
	FL_ACTION_PUBLISH,
	FL_ACTION_SUBSCRIBE
} FlAction;

/* Limits of a tenant's devices (M8); each holds for one connection, but where it says otherwise. */
typedef struct FlTenant
{
	const char *name;			/* hash key by content */
	const char *prefix;			/* ends in '/' */
	size_t		prefix_len;
	int32		max_packet_bytes;
	int32		max_inflight;
	int32		max_topic_levels;
	int32		max_subscriptions;
	int32		max_wildcard_subscriptions;
	int32		max_queued_messages;
	int32		max_queued_bytes;
	int32		max_session_expiry_s;
	int32		max_connections;	/* of all its devices together; 0: no limit */
	int32		max_sessions;	/* likewise, sessions that outlive their connection */
} FlTenant;

/* NULL: no such tenant.  No transaction. */
extern const FlTenant *fl_tenant_lookup(const char *name);

/*
 * May this identity publish to the topic, or subscribe to the filter (without
 * `$share/group/`)?  A filter is allowed when one rule covers every topic that
 * it selects.  *why (may be NULL) is set to a constant text, for logs and
 * fleetlog.can().  Text that is put into a rule matches literally, never as a
 * wildcard; a client id with `/` therefore matches nothing.  No transaction.
 *
 * Rights may be withdrawn while a subscription is held: ask again for every
 * subscription when fl_catalog_refresh has loaded something new
 * (fl_catalog_version moves).
 */
extern bool fl_acl_check(const FlIdentity *id, FlAction action, const char *topic_or_filter,
						 size_t len, const char **why);

/*
 * Is it a topic that a wildcard subscription may reach and its client not
 * receive: of the command space, or of fleetlog.anonymous_no_subscribe?  Then
 * fl_acl_may_receive is to be asked.  No transaction.
 */
extern bool fl_acl_is_guarded(const char *topic, size_t len);

/* Does fleetlog.anonymous_no_subscribe select any topic below this prefix of a mount?  No transaction. */
extern bool fl_acl_withholds_below(const char *prefix, size_t len);

/* May this identity be handed a record of this topic?  No transaction. */
extern bool fl_acl_may_receive(const FlIdentity *id, const char *topic, size_t len);

/*
 * Applications (I5): roles of the server and their rights on streams, as this
 * process knows them (src/catalog/role.c).
 */

/* Once, in a process that serves clients: invalidation callbacks. */
extern void fl_roles_init(void);

/* No transaction.  Has anything changed that a role or its rights depend on? */
extern bool fl_roles_are_stale(void);

/* In a transaction: read all known roles anew if something has.  The version moves then. */
extern void fl_roles_refresh(void);
extern uint64 fl_roles_version(void);

/* In a transaction.  Reads the role anew: may it log in as it is named?  NULL: yes; else why not. */
extern const char *fl_role_admit(const FlIdentity *id);

/* In a transaction.  Reads the role anew and fills in its identity, whether it may log in or not. */
extern void fl_role_identity(Oid role, FlIdentity *id);

/* In a transaction: superusers and members of fleetlog_admin or pg_monitor. */
extern bool fl_role_is_operator(Oid role);

/* No transaction; of a role that was read before.  Is it still who logged in, by the same password? */
extern bool fl_role_is_same(const FlIdentity *id);

/* No transaction; of a role that was read before.  May it read, or write, this stream by MQTT or Kafka? */
extern bool fl_role_may_read(Oid role, Oid stream);
extern bool fl_role_may_write(Oid role, Oid stream);

/* Likewise.  When its password ends; DT_NOEND: never. */
extern TimestampTz fl_role_valid_until(Oid role);

/* Is it a topic of device shadows?  Its records are for the device that they bear, and for no other's. */
extern bool fl_topic_is_shadow(const char *topic, size_t len);

/* No transaction.  Changes whenever the loaded configuration changes; never 0 once loaded. */
extern uint64 fl_catalog_version(void);

/*
 * A number that stands for all mounts with their state tables: equal for two processes
 * that would judge every record alike, whichever of them has loaded them when.
 */
extern uint32 fl_catalog_mounts_digest(void);

/*
 * Checks of names, shared by SQL functions and front doors: NULL when good,
 * else a constant text that completes "... is not valid: ".  No transaction.
 */
extern const char *fl_device_id_check(const char *id, size_t len);
extern const char *fl_tenant_name_check(const char *name, size_t len);
extern const char *fl_prefix_check(const char *prefix, size_t len);

/* ---- Refusals ------------------------------------------------------------------ */

/*
 * Installs the hooks that refuse what streams do not do (UPDATE, TRUNCATE,
 * ADD COLUMN, ...).  Called from _PG_init.
 */
extern void fl_refuse_init(void);

/*
 * Between these two calls DDL on segments (DROP, DETACH) is let through: for
 * the keeper's retention and drop_stream.  Nests; reset at the end of the
 * transaction.
 */
extern void fl_refuse_suspend(void);
extern void fl_refuse_resume(void);
extern bool fl_refuse_is_suspended(void);

#endif							/* FLEETLOG_CATALOG_H */
