/*-------------------------------------------------------------------------
 *
 * cache.c
 *		The configuration as one process holds it: streams, mounts, tenants and
 *		their rules, loaded as a whole.
 *
 * Why as a whole: there are few rows (thousands at most; devices are not among
 * them), changes are rare, and a front door must answer from memory without a
 * transaction.  A whole snapshot is also consistent in itself: a mount never
 * points at a stream that the same snapshot does not know.
 *
 * Invalidation callbacks only raise a flag; nothing is freed in them.  The
 * next lookup inside a transaction loads a new snapshot beside the old one,
 * and the old one is freed by a load in a later transaction, so that pointers
 * handed out stay good until the end of their transaction.
 *
 * Arrays are sorted bytewise and searched by bisection: a topic is looked up
 * once per level, from the longest prefix to the shortest.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "catalog_internal.h"
#include "fleetlog/record_batch.h"
#include "fleetlog/topic.h"

typedef struct FlCatalog
{
	MemoryContext cxt;
	bool		installed;
	Oid			tables[FL_TABLE_POLICY + 1];	/* to recognise their invalidations */
	int			nstreams;
	FlStreamInfo *streams;		/* by relid */
	Oid		   *stream_oids;
	int			nmounts;
	FlMount    *mounts;			/* by prefix */
	uint32		mounts_digest;
	Oid			command_stream;
	int			nstates;
	Oid		   *states;			/* ascending */
	int			ntenants;
	FlTenantEntry *tenants;		/* by name */
	FlTenantEntry **by_prefix;	/* the same by prefix */
	struct FlCatalog *next_retired;
} FlCatalog;

static FlCatalog *current = NULL;
static bool stale = true;
static uint64 version = 0;
static bool callbacks_registered = false;

/* Old snapshots: those that this transaction may still point to, and those that nobody can. */
static FlCatalog *retired = NULL;
static FlCatalog *disposable = NULL;

/* ---- Ordering -------------------------------------------------------------------- */

static int
compare_bytes(const char *a, size_t alen, const char *b, size_t blen)
{
	int			c = memcmp(a, b, Min(alen, blen));

	if (c != 0)
		return c;
	return alen < blen ? -1 : alen > blen;
}

static int
compare_streams(const void *a, const void *b)
{
	Oid			x = ((const FlStreamInfo *) a)->relid;
	Oid			y = ((const FlStreamInfo *) b)->relid;

	return x < y ? -1 : x > y;
}

static int
compare_oids(const void *a, const void *b)
{
	Oid			x = *(const Oid *) a;
	Oid			y = *(const Oid *) b;

	return x < y ? -1 : x > y;
}

static int
compare_mounts(const void *a, const void *b)
{
	const FlMount *x = a;
	const FlMount *y = b;

	return compare_bytes(x->prefix, x->prefix_len, y->prefix, y->prefix_len);
}

static int
compare_tenants(const void *a, const void *b)
{
	return strcmp(((const FlTenantEntry *) a)->pub.name, ((const FlTenantEntry *) b)->pub.name);
}

static int
compare_tenant_prefixes(const void *a, const void *b)
{
	const FlTenant *x = &(*(FlTenantEntry *const *) a)->pub;
	const FlTenant *y = &(*(FlTenantEntry *const *) b)->pub;

	return compare_bytes(x->prefix, x->prefix_len, y->prefix, y->prefix_len);
}

/* ---- Loading ---------------------------------------------------------------------- */

typedef void (*RowReader) (FlCatalog *cat, HeapTuple tuple, TupleDesc desc, int row);

/* Grow an array of the snapshot so that element n exists. */
static void *
grow(void *array, int n, size_t size)
{
	if ((n & (n - 1)) != 0)
		return array;			/* doubles at powers of two: 0, 1, 2, 4, ... */
	if (n == 0)
		return palloc0(size);
	array = repalloc(array, size * n * 2);
	memset((char *) array + size * n, 0, size * n);
	return array;
}

static int
codec_by_name(const char *name)
{
	if (strcmp(name, "zstd") == 0)
		return FL_CODEC_ZSTD;
	return strcmp(name, "lz4") == 0 ? FL_CODEC_LZ4 : FL_CODEC_NONE;
}

static void
read_stream(FlCatalog *cat, HeapTuple tuple, TupleDesc desc, int row)
{
	bool		isnull;
	Oid			relid = DatumGetObjectId(heap_getattr(tuple, FL_STREAM_RELID, desc, &isnull));
	HeapTuple	class_tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	FlStreamInfo *s;

	/* A row outlives its table when that is dropped while the library is not loaded. */
	if (!HeapTupleIsValid(class_tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(class_tuple);
	if (form->relkind != RELKIND_PARTITIONED_TABLE)
	{
		ReleaseSysCache(class_tuple);
		return;
	}
	cat->streams = grow(cat->streams, cat->nstreams, sizeof(FlStreamInfo));
	s = &cat->streams[cat->nstreams++];
	s->relid = relid;
	s->owner = form->relowner;
	s->name = pstrdup(NameStr(form->relname));
	s->schema = get_namespace_name(form->relnamespace);
	if (s->schema == NULL)
		s->schema = "";
	ReleaseSysCache(class_tuple);

	s->shards = (int32) fl_config_int(tuple, FL_STREAM_SHARDS, desc, false);
	s->durability = strcmp(fl_config_text(tuple, FL_STREAM_DURABILITY, desc), "quorum") == 0 ?
		FL_DURABILITY_QUORUM : FL_DURABILITY_LOCAL;
	s->codec = codec_by_name(fl_config_text(tuple, FL_STREAM_COMPRESSION, desc));
	s->timestamp_type = strcmp(fl_config_text(tuple, FL_STREAM_TIMESTAMP_TYPE, desc), "create") == 0 ?
		FL_TIMESTAMP_CREATE : FL_TIMESTAMP_APPEND;
	s->segment_bytes = fl_config_int(tuple, FL_STREAM_SEGMENT_BYTES, desc, true);
	s->segment_age_us = fl_config_interval_us(tuple, FL_STREAM_SEGMENT_AGE, desc);
	s->retention_age_us = fl_config_interval_us(tuple, FL_STREAM_RETENTION_AGE, desc);
	s->retention_bytes = fl_config_int(tuple, FL_STREAM_RETENTION_BYTES, desc, true);
	s->max_record_bytes = (int32) fl_config_int(tuple, FL_STREAM_MAX_RECORD_BYTES, desc, false);
	s->is_compacted = strstr(fl_config_text(tuple, FL_STREAM_CLEANUP_POLICY, desc), "compact") != NULL;
	s->is_expiring = strstr(fl_config_text(tuple, FL_STREAM_CLEANUP_POLICY, desc), "delete") != NULL;
}

static void
read_mount_state(FlMount *m, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	char	   *keep = fl_config_text(tuple, FL_MOUNT_KEEP, desc);
	Datum		lag = heap_getattr(tuple, FL_MOUNT_STATE_LAG, desc, &isnull);

	m->keep = keep != NULL && strcmp(keep, "last") == 0 ? FL_KEEP_LAST : FL_KEEP_RETAINED;
	m->state_lag_us = isnull || lag == (Datum) 0 ? FL_DEFAULT_STATE_LAG_US :
		fl_config_interval_us(tuple, FL_MOUNT_STATE_LAG, desc);
	m->state = DatumGetObjectId(heap_getattr(tuple, FL_MOUNT_STATE, desc, &isnull));
	/* A row outlives its table when that is dropped while the library is not loaded. */
	if (isnull || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(m->state)))
		m->state = InvalidOid;
}

static void
read_mount(FlCatalog *cat, HeapTuple tuple, TupleDesc desc, int row)
{
	FlMount    *m;
	bool		isnull;
	char	   *record_key = fl_config_text(tuple, FL_MOUNT_RECORD_KEY, desc);
	char	   *shard_key = fl_config_text(tuple, FL_MOUNT_SHARD_KEY, desc);
	char	   *dedupe = fl_config_text(tuple, FL_MOUNT_DEDUPE, desc);

	cat->mounts = grow(cat->mounts, cat->nmounts, sizeof(FlMount));
	m = &cat->mounts[cat->nmounts];
	m->prefix = fl_config_text(tuple, FL_MOUNT_PREFIX, desc);
	m->prefix_len = strlen(m->prefix);
	m->stream = DatumGetObjectId(heap_getattr(tuple, FL_MOUNT_STREAM, desc, &isnull));
	if (fl_template_parse(record_key, &m->record_key) != NULL ||
		fl_template_parse(shard_key, &m->shard_key) != NULL)
		return;					/* the table's check has let nothing of the kind in */
	m->shard_key_same = strcmp(record_key, shard_key) == 0;
	m->class_name = fl_config_text(tuple, FL_MOUNT_CLASS, desc);
	m->dedupe = strcmp(dedupe, "off") == 0 ? FL_DEDUPE_OFF :
		strcmp(dedupe, "drop") == 0 ? FL_DEDUPE_DROP : FL_DEDUPE_MARK;
	m->max_payload_bytes = (int32) fl_config_int(tuple, FL_MOUNT_MAX_PAYLOAD, desc, false);
	m->max_topic_levels = (int32) fl_config_int(tuple, FL_MOUNT_MAX_LEVELS, desc, false);
	read_mount_state(m, tuple, desc);
	cat->nmounts++;
}

static void
read_state(FlCatalog *cat, HeapTuple tuple, TupleDesc desc, int row)
{
	bool		isnull;
	Oid			relid = DatumGetObjectId(heap_getattr(tuple, FL_STATE_RELID, desc, &isnull));

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return;
	cat->states = grow(cat->states, cat->nstates, sizeof(Oid));
	cat->states[cat->nstates++] = relid;
}

static void
read_tenant(FlCatalog *cat, HeapTuple tuple, TupleDesc desc, int row)
{
	FlTenant   *t;
	int64		expiry_us = fl_config_interval_us(tuple, FL_TENANT_MAX_EXPIRY, desc);

	cat->tenants = grow(cat->tenants, cat->ntenants, sizeof(FlTenantEntry));
	t = &cat->tenants[cat->ntenants++].pub;
	t->name = fl_config_text(tuple, FL_TENANT_NAME, desc);
	t->prefix = fl_config_text(tuple, FL_TENANT_PREFIX, desc);
	t->prefix_len = strlen(t->prefix);
	t->max_packet_bytes = (int32) fl_config_int(tuple, FL_TENANT_MAX_PACKET, desc, false);
	t->max_inflight = (int32) fl_config_int(tuple, FL_TENANT_MAX_INFLIGHT, desc, false);
	t->max_topic_levels = (int32) fl_config_int(tuple, FL_TENANT_MAX_LEVELS, desc, false);
	t->max_subscriptions = (int32) fl_config_int(tuple, FL_TENANT_MAX_SUBS, desc, false);
	t->max_wildcard_subscriptions = (int32) fl_config_int(tuple, FL_TENANT_MAX_WILD_SUBS, desc, false);
	t->max_queued_messages = (int32) fl_config_int(tuple, FL_TENANT_MAX_QUEUED, desc, false);
	t->max_queued_bytes = (int32) fl_config_int(tuple, FL_TENANT_MAX_QUEUED_BYTES, desc, false);
	t->max_session_expiry_s = (int32) Min(expiry_us / USECS_PER_SEC, PG_INT32_MAX);
	t->max_connections = (int32) fl_config_int(tuple, FL_TENANT_MAX_CONNECTIONS, desc, false);
	t->max_sessions = (int32) fl_config_int(tuple, FL_TENANT_MAX_SESSIONS, desc, false);
}

static FlTenantEntry *
find_tenant(const FlCatalog *cat, const char *name)
{
	FlTenantEntry key = {.pub = {.name = name}};

	if (cat->ntenants == 0)
		return NULL;
	return bsearch(&key, cat->tenants, cat->ntenants, sizeof(FlTenantEntry), compare_tenants);
}

/* Tenants are sorted when policies are read. */
static void
read_policy(FlCatalog *cat, HeapTuple tuple, TupleDesc desc, int row)
{
	FlTenantEntry *t = find_tenant(cat, fl_config_text(tuple, FL_POLICY_TENANT, desc));
	int			a = strcmp(fl_config_text(tuple, FL_POLICY_ACTION, desc), "publish") == 0 ?
		FL_ACTION_PUBLISH : FL_ACTION_SUBSCRIBE;

	if (t == NULL)
		return;
	t->rules[a] = grow(t->rules[a], t->nrules[a], sizeof(char *));
	t->rules[a][t->nrules[a]++] = fl_config_text(tuple, FL_POLICY_FILTER, desc);
}

static void
read_table(FlCatalog *cat, FlTable table, RowReader reader)
{
	Relation	rel = fl_config_open(table);
	SysScanDesc scan;
	HeapTuple	tuple;
	int			row = 0;

	cat->tables[table] = rel != NULL ? RelationGetRelid(rel) : InvalidOid;
	if (rel == NULL)
		return;
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		reader(cat, tuple, RelationGetDescr(rel), row++);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
sort_catalog(FlCatalog *cat)
{
	if (cat->nstreams > 0)
	{
		qsort(cat->streams, cat->nstreams, sizeof(FlStreamInfo), compare_streams);
		cat->stream_oids = palloc(sizeof(Oid) * cat->nstreams);
		for (int i = 0; i < cat->nstreams; i++)
			cat->stream_oids[i] = cat->streams[i].relid;
	}
	if (cat->nstates > 0)
		qsort(cat->states, cat->nstates, sizeof(Oid), compare_oids);
	if (cat->nmounts > 0)
		qsort(cat->mounts, cat->nmounts, sizeof(FlMount), compare_mounts);
}

static void
sort_tenants(FlCatalog *cat)
{
	if (cat->ntenants == 0)
		return;
	qsort(cat->tenants, cat->ntenants, sizeof(FlTenantEntry), compare_tenants);
	cat->by_prefix = palloc(sizeof(FlTenantEntry *) * cat->ntenants);
	for (int i = 0; i < cat->ntenants; i++)
		cat->by_prefix[i] = &cat->tenants[i];
	qsort(cat->by_prefix, cat->ntenants, sizeof(FlTenantEntry *), compare_tenant_prefixes);
}

/* The stream of commands, once it is there: what lies below `cmd/` of each tenant leads to it. */
static void
add_command_mounts(FlCatalog *cat)
{
	for (int i = 0; i < cat->nstreams; i++)
		if (strcmp(cat->streams[i].name, "command_log") == 0 && strcmp(cat->streams[i].schema, FL_SCHEMA) == 0)
			cat->command_stream = cat->streams[i].relid;
	for (int i = 0; i < cat->ntenants && OidIsValid(cat->command_stream); i++)
	{
		const FlTenant *t = &cat->tenants[i].pub;
		FlMount    *m;
		int			levels = 0;

		for (const char *p = t->prefix; *p != '\0'; p++)
			levels += *p == '/';
		cat->mounts = grow(cat->mounts, cat->nmounts, sizeof(FlMount));
		m = &cat->mounts[cat->nmounts];
		m->prefix = psprintf("%scmd/", t->prefix);
		m->prefix_len = strlen(m->prefix);
		m->stream = cat->command_stream;
		m->commands = true;
		m->dedupe = FL_DEDUPE_OFF;
		/* All that is said of a device's commands is in one shard. */
		if (fl_template_parse("{topic}", &m->record_key) != NULL ||
			fl_template_parse(psprintf("{level %d}", levels + 2), &m->shard_key) != NULL)
			continue;
		cat->nmounts++;
	}
}

/* Everything that decides whether a record is a value, and whose. */
static uint32
digest_mounts(const FlCatalog *cat)
{
	uint32		h = 0;

	for (int i = 0; i < cat->nmounts; i++)
	{
		const FlMount *m = &cat->mounts[i];
		uint32		rest[4] = {m->stream, m->state, (uint32) m->keep, m->state_lag_us > 0 ? 1 : 0};

		/* They come and go with tenants, and keep no values. */
		if (m->commands)
			continue;
		h = hash_combine(h, hash_bytes((const unsigned char *) m->prefix, (int) m->prefix_len));
		h = hash_combine(h, hash_bytes((const unsigned char *) rest, sizeof(rest)));
	}
	return h;
}

static FlCatalog *
load_catalog(void)
{
	/* A child of the caller's context until it is whole, so that an error frees it. */
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog catalog", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	FlCatalog  *cat = palloc0(sizeof(FlCatalog));

	cat->cxt = cxt;
	read_table(cat, FL_TABLE_STREAM, read_stream);
	cat->installed = OidIsValid(cat->tables[FL_TABLE_STREAM]);
	read_table(cat, FL_TABLE_MOUNT, read_mount);
	read_table(cat, FL_TABLE_STATE, read_state);
	read_table(cat, FL_TABLE_TENANT, read_tenant);
	sort_tenants(cat);
	add_command_mounts(cat);
	sort_catalog(cat);
	cat->mounts_digest = digest_mounts(cat);
	read_table(cat, FL_TABLE_POLICY, read_policy);
	MemoryContextSwitchTo(old);
	return cat;
}

/* ---- Invalidation -------------------------------------------------------------------- */

static bool
is_cached_relation(Oid relid)
{
	FlStreamInfo key = {.relid = relid};

	for (int i = 0; i <= FL_TABLE_POLICY; i++)
		if (current->tables[i] == relid)
			return true;
	return current->nstreams > 0 &&
		bsearch(&key, current->streams, current->nstreams, sizeof(FlStreamInfo), compare_streams) != NULL;
}

static void
relcache_callback(Datum arg, Oid relid)
{
	if (!stale && current != NULL && (!OidIsValid(relid) || is_cached_relation(relid)))
		stale = true;
	fl_segment_map_invalidate(relid);
}

/* CREATE EXTENSION makes the schema, whose arrival is the sign to look again. */
static void
namespace_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	if (current == NULL || !current->installed || hashvalue == 0)
		stale = true;
}

static void
dispose(FlCatalog **list)
{
	while (*list != NULL)
	{
		FlCatalog  *cat = *list;

		*list = cat->next_retired;
		MemoryContextDelete(cat->cxt);
	}
}

static void
cache_xact_callback(XactEvent event, void *arg)
{
	if (retired == NULL || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE))
		return;
	while (retired != NULL)
	{
		FlCatalog  *cat = retired;

		retired = cat->next_retired;
		cat->next_retired = disposable;
		disposable = cat;
	}
}

void
fl_catalog_init(void)
{
	fl_change_init();
	RegisterXactCallback(cache_xact_callback, NULL);
}

/* Not in _PG_init: the caches do not exist yet in the postmaster. */
static void
register_callbacks(void)
{
	if (callbacks_registered)
		return;
	callbacks_registered = true;
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, namespace_callback, (Datum) 0);
	fl_segment_map_init();
}

bool
fl_catalog_is_stale(void)
{
	return stale;
}

void
fl_catalog_refresh(void)
{
	FlCatalog  *fresh;

	Assert(IsTransactionState());
	register_callbacks();
	if (!stale && current != NULL)
		return;
	dispose(&disposable);

	/* News that arrives while we read raises the flag again. */
	stale = false;
	PG_TRY();
	{
		fresh = load_catalog();
	}
	PG_CATCH();
	{
		stale = true;
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSetParent(fresh->cxt, TopMemoryContext);
	if (current != NULL)
	{
		current->next_retired = retired;
		retired = current;
	}
	current = fresh;
	version++;
}

/* What lookups work on: up to date in a transaction, as it was outside one. */
static const FlCatalog *
catalog(void)
{
	static const FlCatalog nothing = {0};

	if ((stale || current == NULL) && IsTransactionState())
		fl_catalog_refresh();
	return current != NULL ? current : &nothing;
}

/* ---- Lookups ------------------------------------------------------------------------------ */

uint64
fl_catalog_version(void)
{
	return version;
}

uint32
fl_catalog_mounts_digest(void)
{
	return catalog()->mounts_digest;
}

bool
fl_catalog_is_installed(void)
{
	return catalog()->installed;
}

Oid
fl_access_method_oid(void)
{
	return get_table_am_oid(FL_AM_NAME, true);
}

const FlStreamInfo *
fl_stream_lookup(Oid relid)
{
	const FlCatalog *cat = catalog();
	FlStreamInfo key = {.relid = relid};

	if (cat->nstreams == 0)
		return NULL;
	return bsearch(&key, cat->streams, cat->nstreams, sizeof(FlStreamInfo), compare_streams);
}

const Oid *
fl_stream_list(int *count)
{
	const FlCatalog *cat = catalog();

	*count = cat->nstreams;
	return cat->stream_oids;
}

const FlMount *
fl_mount_list(int *count)
{
	const FlCatalog *cat = catalog();

	*count = cat->nmounts;
	return cat->mounts;
}

const Oid *
fl_state_list(int *count)
{
	const FlCatalog *cat = catalog();

	*count = cat->nstates;
	return cat->states;
}

bool
fl_state_is_table(Oid relid)
{
	const FlCatalog *cat = catalog();

	return cat->nstates > 0 &&
		bsearch(&relid, cat->states, cat->nstates, sizeof(Oid), compare_oids) != NULL;
}

/*
 * The lengths at which a prefix of the topic may end: behind each slash.  Fills
 * `ends` in ascending order, at most as many as prefixes may have levels.
 */
static int
prefix_ends(const char *topic, size_t len, size_t ends[FL_PREFIX_MAX_LEVELS])
{
	int			n = 0;

	for (size_t i = 0; i < len && i < FL_PREFIX_MAX && n < FL_PREFIX_MAX_LEVELS; i++)
		if (topic[i] == '/')
			ends[n++] = i + 1;
	return n;
}

const FlTenant *
fl_tenant_of_topic(const char *topic, size_t len)
{
	const FlCatalog *cat = catalog();
	size_t		ends[FL_PREFIX_MAX_LEVELS];
	int			n = cat->ntenants > 0 ? prefix_ends(topic, len, ends) : 0;

	while (n-- > 0)
	{
		FlTenantEntry key = {.pub = {.prefix = topic, .prefix_len = ends[n]}};
		FlTenantEntry *keyp = &key;
		FlTenantEntry **hit = bsearch(&keyp, cat->by_prefix, cat->ntenants, sizeof(FlTenantEntry *),
									  compare_tenant_prefixes);

		if (hit != NULL)
			return &(*hit)->pub;
	}
	return NULL;
}

bool
fl_topic_is_command(const char *topic, size_t len)
{
	const FlTenant *t = fl_tenant_of_topic(topic, len);
	size_t		skip[2] = {0, t != NULL ? t->prefix_len : 0};

	for (int i = 0; i < (t != NULL ? 2 : 1); i++)
	{
		const char *p = topic + skip[i];
		size_t		left = len - skip[i];

		if (left >= 3 && memcmp(p, "cmd", 3) == 0 && (left == 3 || p[3] == '/'))
			return true;
	}
	return false;
}

Oid
fl_command_stream(void)
{
	return catalog()->command_stream;
}

static const FlMount *
find_command_mount(const FlCatalog *cat, const char *topic, size_t len)
{
	const FlTenant *t = OidIsValid(cat->command_stream) ? fl_tenant_of_topic(topic, len) : NULL;
	FlMount		key;
	const FlMount *hit;

	if (t == NULL || len <= t->prefix_len + 4)
		return NULL;
	key.prefix = topic;
	key.prefix_len = t->prefix_len + 4;
	hit = bsearch(&key, cat->mounts, cat->nmounts, sizeof(FlMount), compare_mounts);
	return hit != NULL && hit->commands ? hit : NULL;
}

const FlMount *
fl_mount_match(const char *topic, size_t len)
{
	const FlCatalog *cat = catalog();
	size_t		ends[FL_PREFIX_MAX_LEVELS];
	int			n;

	if (cat->nmounts == 0 || len == 0)
		return NULL;
	if (fl_topic_is_command(topic, len))
		return find_command_mount(cat, topic, len);
	n = prefix_ends(topic, len, ends);

	/* A record lies below the prefix, so that `plant/` itself is no topic of mount `plant/`. */
	if (n > 0 && ends[n - 1] == len)
		n--;
	while (n-- > 0)
	{
		FlMount		key = {.prefix = topic, .prefix_len = ends[n]};
		const FlMount *hit = bsearch(&key, cat->mounts, cat->nmounts, sizeof(FlMount), compare_mounts);

		if (hit != NULL)
			return hit;
	}
	if (cat->mounts[0].prefix_len == 0 && topic[0] != '$')
		return &cat->mounts[0];
	return NULL;
}

const FlTenantEntry *
fl_tenant_entry(const char *name)
{
	return find_tenant(catalog(), name);
}

const FlTenant *
fl_tenant_lookup(const char *name)
{
	const FlTenantEntry *t = fl_tenant_entry(name);

	return t != NULL ? &t->pub : NULL;
}
