/*-------------------------------------------------------------------------
 *
 * store.c
 *		The store of sessions in shared memory.
 *
 * What a session has is changed by events only (fl_store_apply), which are
 * applied when the transaction that wrote them has committed, or when they are
 * read back from the journal at start: one code for both, so that what survives
 * a crash is what was there.  Who is connected is no event; it does not survive.
 *
 * Applying runs in a commit callback and must not fail.  Where no block is left
 * the session is broken: it ends, which its client is told by Session Present 0,
 * and nobody is told that something is remembered that is not.
 *
 * Events are absolute ("this identifier was received"), so applying a stretch
 * of the journal again, from a point in the past to its end, changes nothing.
 * Snapshots rely on it: they are copied while events go on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "fleetlog/catalog.h"
#include "session_internal.h"

#define TRANCHE			"fleetlog sessions"

StaticAssertDecl(sizeof(FlSession) == 168, "a session has no padding");
StaticAssertDecl(sizeof(FlItemBlock) == 128, "nor has a block of items");
StaticAssertDecl(sizeof(FlConnKey) == FL_SESSION_KEY_LEN, "a session is found by its connection's key");

FlSessionStore *fl_store = NULL;
FlSession  *fl_store_sessions = NULL;
FlItemBlock *fl_store_blocks = NULL;
uint32	   *fl_store_buckets = NULL;

/* Sessions of a tenant, reserved ones included; an entry goes with the last of them. */
typedef struct TenantCount
{
	uint64		tenant;			/* hash key */
	uint32		sessions;
} TenantCount;

static HTAB *tenants = NULL;

/* ---- shared memory ---------------------------------------------------------------- */

static uint32
wanted_blocks(void)
{
	return (uint32) ((Size) fl_session_memory_kb * 1024 / sizeof(FlItemBlock)) + 1;
}

static uint32
wanted_sessions(void)
{
	return (uint32) fl_max_sessions + 1;
}

static uint32
wanted_buckets(void)
{
	return pg_nextpower2_32(wanted_sessions());
}

static Size
buckets_size(void)
{
	return mul_size(sizeof(uint32), wanted_buckets());
}

static Size
sessions_size(void)
{
	return mul_size(sizeof(FlSession), wanted_sessions());
}

static Size
blocks_size(void)
{
	return mul_size(sizeof(FlItemBlock), wanted_blocks());
}

Size
fl_sessions_size(void)
{
	Size		size = MAXALIGN(sizeof(FlSessionStore));

	RequestNamedLWLockTranche(TRANCHE, 1);
	size = add_size(size, MAXALIGN(buckets_size()));
	size = add_size(size, MAXALIGN(sessions_size()));
	size = add_size(size, hash_estimate_size(wanted_sessions(), sizeof(TenantCount)));
	return add_size(size, MAXALIGN(blocks_size()));
}

/* Places are touched when they are first used: memory that nobody needs costs nothing. */
static void
clear_pool(FlPool *pool)
{
	pool->fresh = 1;
	pool->free = 0;
	pool->used = 0;
}

static void
clear_tenants(void)
{
	HASH_SEQ_STATUS scan;
	TenantCount *count;

	hash_seq_init(&scan, tenants);
	while ((count = hash_seq_search(&scan)) != NULL)
		hash_search(tenants, &count->tenant, HASH_REMOVE, NULL);
}

static void
clear_store(Oid database)
{
	clear_tenants();
	memset(fl_store_buckets, 0, sizeof(uint32) * fl_store->n_buckets);
	fl_store->database = database;
	clear_pool(&fl_store->sessions);
	clear_pool(&fl_store->blocks);
	fl_store->n_kept = 0;
	pg_atomic_write_u32(&fl_store->n_due, 0);
	fl_store->more_due = false;
}

void
fl_sessions_init(void)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(TenantCount)};
	bool		found;
	bool		found_parts;

	tenants = ShmemInitHash("fleetlog tenants of sessions", 64, wanted_sessions(), &ctl, HASH_ELEM | HASH_BLOBS);
	fl_store = ShmemInitStruct("fleetlog sessions", sizeof(FlSessionStore), &found);
	fl_store_buckets = ShmemInitStruct("fleetlog session index", buckets_size(), &found_parts);
	fl_store_sessions = ShmemInitStruct("fleetlog session array", sessions_size(), &found_parts);
	fl_store_blocks = ShmemInitStruct("fleetlog session items", blocks_size(), &found_parts);
	if (found)
		return;
	memset(fl_store, 0, sizeof(*fl_store));
	fl_store->lock = &GetNamedLWLockTranche(TRANCHE)[0].lock;
	fl_store->n_buckets = wanted_buckets();
	fl_store->sessions.size = wanted_sessions();
	fl_store->blocks.size = wanted_blocks();
	pg_atomic_init_u32(&fl_store->state, FL_STORE_EMPTY);
	pg_atomic_init_u32(&fl_store->journal, InvalidOid);
	pg_atomic_init_u32(&fl_store->snapshot, InvalidOid);
	pg_atomic_init_u32(&fl_store->wanted, 0);
	pg_atomic_init_u64(&fl_store->journaled, 0);
	pg_atomic_init_u64(&fl_store->broken, 0);
	pg_atomic_init_u32(&fl_store->n_due, 0);
	pg_atomic_init_u64(&fl_store->expired, 0);
	clear_store(InvalidOid);
}

bool
fl_sessions_ready(void)
{
	bool		ready = pg_atomic_read_u32(&fl_store->state) == FL_STORE_READY;

	pg_read_barrier();
	return ready && fl_store->database == MyDatabaseId;
}

void
fl_store_reset(Oid database)
{
	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&fl_store->state, FL_STORE_EMPTY);
	clear_store(database);
	LWLockRelease(fl_store->lock);
}

/* ---- how many a tenant has; the lock is held ---------------------------------------- */

uint32
fl_store_sessions_of(uint64 tenant)
{
	const TenantCount *count = hash_search(tenants, &tenant, HASH_FIND, NULL);

	return count != NULL ? count->sessions : 0;
}

void
fl_store_set_tenant(FlSession *s, uint64 tenant)
{
	TenantCount *count;
	bool		found;

	if (s->tenant == tenant)
		return;
	count = s->tenant != 0 ? hash_search(tenants, &s->tenant, HASH_FIND, NULL) : NULL;
	if (count != NULL && --count->sessions == 0)
		hash_search(tenants, &s->tenant, HASH_REMOVE, NULL);
	s->tenant = 0;
	/* There is room for as many tenants as there are sessions. */
	count = tenant != 0 ? hash_search(tenants, &tenant, HASH_ENTER_NULL, &found) : NULL;
	if (count == NULL)
		return;
	if (!found)
		count->sessions = 0;
	count->sessions++;
	s->tenant = tenant;
}

/* Of a session's name, `tenant/device` and client id with NUL between them. */
static uint64
tenant_of_name(const uint8 *name, Size len)
{
	const uint8 *end = memchr(name, '\0', len);
	const uint8 *slash = end != NULL ? memchr(name, '/', (Size) (end - name)) : NULL;

	return slash != NULL ? fl_session_tenant((const char *) name, (Size) (slash - name)) : 0;
}

uint64
fl_session_tenant(const char *name, Size len)
{
	return hash_bytes_extended((const unsigned char *) name, (int) len, 0);
}

/* ---- places; the lock is held ---------------------------------------------------------- */

uint32
fl_store_take_block(void)
{
	FlPool	   *pool = &fl_store->blocks;
	uint32		number = pool->free;

	if (number != 0)
		pool->free = fl_store_blocks[number].next;
	else if (pool->fresh < pool->size)
		number = pool->fresh++;
	else
		return 0;
	fl_store_blocks[number].n = 0;
	pool->used++;
	return number;
}

void
fl_store_give_block(uint32 number)
{
	fl_store_blocks[number].next = fl_store->blocks.free;
	fl_store->blocks.free = number;
	fl_store->blocks.used--;
}

uint32
fl_store_take_number(void)
{
	FlPool	   *pool = &fl_store->sessions;
	uint32		number = pool->free;

	if (number != 0)
		pool->free = fl_store_sessions[number].next;
	else if (pool->fresh < pool->size)
		number = pool->fresh++;
	else
		return 0;
	memset(&fl_store_sessions[number], 0, sizeof(FlSession));
	pool->used++;
	return number;
}

void
fl_store_give_number(uint32 number)
{
	FlSession  *s = &fl_store_sessions[number];

	fl_store_set_tenant(s, 0);
	s->state = FL_SESSION_FREE;
	s->next = fl_store->sessions.free;
	fl_store->sessions.free = number;
	fl_store->sessions.used--;
}

/* While loading, numbers come from the journal; the list of free ones is made at the end. */
static bool
claim_number(uint32 number)
{
	FlPool	   *pool = &fl_store->sessions;

	if (pg_atomic_read_u32(&fl_store->state) == FL_STORE_READY || number == 0 || number >= pool->size)
		return false;
	for (; pool->fresh <= number; pool->fresh++)
		fl_store_sessions[pool->fresh].state = FL_SESSION_FREE;
	if (fl_store_sessions[number].state != FL_SESSION_FREE)
		return false;
	memset(&fl_store_sessions[number], 0, sizeof(FlSession));
	return true;
}

uint32 *
fl_store_bucket(const uint8 *key)
{
	uint32		hash;

	/* The key is a digest already. */
	memcpy(&hash, key, sizeof(hash));
	return &fl_store_buckets[hash & (fl_store->n_buckets - 1)];
}

FlSession *
fl_store_session(uint32 number, uint16 generation)
{
	FlSession  *s;

	if (number == 0 || number >= fl_store->sessions.fresh)
		return NULL;
	s = &fl_store_sessions[number];
	return s->state == FL_SESSION_FREE || s->generation != generation ? NULL : s;
}

void
fl_store_break(FlSession *s)
{
	s->state = FL_SESSION_ENDING;
	pg_atomic_fetch_add_u64(&fl_store->broken, 1);
}

/* ---- events ------------------------------------------------------------------------------ */

static void
unlink_session(uint32 number)
{
	uint32	   *link = fl_store_bucket(fl_store_sessions[number].key);

	while (*link != 0 && *link != number)
		link = &fl_store_sessions[*link].next;
	if (*link == number)
		*link = fl_store_sessions[number].next;
	fl_store->n_kept--;
}

static void
drop_all(FlSession *s)
{
	fl_items_drop(s);
	fl_subscriptions_drop(s);
	fl_wills_drop(s);
	fl_store_give_text(s->more_name);
	s->more_name = 0;
}

static void
end_session(uint32 number)
{
	FlSession  *s = &fl_store_sessions[number];

	drop_all(s);
	if (s->state != FL_SESSION_RESERVED)
		unlink_session(number);
	if (pg_atomic_read_u32(&fl_store->state) == FL_STORE_READY)
		fl_store_give_number(number);
	else
	{
		fl_store_set_tenant(s, 0);
		s->state = FL_SESSION_FREE;
	}
}

StaticAssertDecl(FL_TENANT_MAX + 2 <= FL_SESSION_NAME_ROOM, "a name that is cut still says whose the session is");

/* A name is for eyes only: where there is no memory it is cut, behind a whole character. */
static void
set_name(FlSession *s, const FlSessionEvent *e)
{
	Size		first = Min(e->name_len, FL_SESSION_NAME_ROOM);

	s->name_len = e->name_len;
	memcpy(s->name, e->name, first);
	if (fl_store_add_text(&s->more_name, e->name + first, e->name_len - first))
		return;
	fl_store_give_text(s->more_name);
	s->more_name = 0;
	first = FL_SESSION_NAME_ROOM - 1;
	while (first > 0 && (e->name[first] & 0xC0) == 0x80)
		first--;
	/* Tenants are counted by it, also when it comes back from a snapshot: its identity has an end. */
	if (memchr(s->name, '\0', first) == NULL)
		s->name[first++] = '\0';
	s->name_len = (uint8) first;
}

const char *
fl_store_name(const FlSession *s, char room[FL_SESSION_NAME_MAX])
{
	if (s->more_name == 0)
		return s->name;
	memcpy(room, s->name, FL_SESSION_NAME_ROOM);
	fl_store_copy_text(s->more_name, (uint8 *) room + FL_SESSION_NAME_ROOM, s->name_len - FL_SESSION_NAME_ROOM);
	return room;
}

static void
link_session(uint32 number, const FlSessionEvent *e)
{
	FlSession  *s = &fl_store_sessions[number];
	uint32	   *bucket;

	memcpy(s->key, e->key, FL_SESSION_KEY_LEN);
	bucket = fl_store_bucket(s->key);
	s->next = *bucket;
	*bucket = number;
	fl_store->n_kept++;
}

/*
 * A door has reserved the number, or the journal is being loaded.  Loading may
 * come upon a stretch that is older than the snapshot it began with: then the
 * number's later owner is there already, and his own opening follows.
 */
static void
apply_opened(const FlSessionEvent *e)
{
	FlSession  *s = fl_store_session(e->session, e->generation);

	if (s == NULL)
	{
		if (!claim_number(e->session))
			return;
		s = &fl_store_sessions[e->session];
	}
	else
	{
		drop_all(s);
		if (s->state != FL_SESSION_RESERVED)
			unlink_session(e->session);
	}
	link_session(e->session, e);
	s->generation = e->generation;
	s->state = FL_SESSION_KEPT;
	s->expiry_s = e->expiry_s;
	s->window = e->window;
	s->order = 0;
	s->sent_order = 0;
	set_name(s, e);
	fl_store_set_tenant(s, tenant_of_name(e->name, e->name_len));
	if ((int16) (e->generation - fl_store->generation) > 0)
		fl_store->generation = e->generation;
}

/* What is remembered of a session that has not ended. */
static void
apply_to_kept(FlSession *s, const FlSessionEvent *e)
{
	switch ((FlSessionEventType) e->type)
	{
		case FL_SESSION_RECEIVED:
			fl_items_apply_received(s, e);
			break;
		case FL_SESSION_RELEASED:
			fl_items_apply_released(s, e);
			break;
		case FL_SESSION_SUBSCRIBED:
			fl_subscriptions_apply_subscribed(s, e);
			break;
		case FL_SESSION_UNSUBSCRIBED:
			fl_subscriptions_apply_unsubscribed(s, e);
			break;
		case FL_SESSION_CHECKPOINT:
			fl_items_apply_checkpoint(s);
			break;
		case FL_SESSION_BOOKMARK:
			fl_items_apply_bookmark(s, e);
			break;
		case FL_SESSION_EXACT:
			fl_items_apply_exact(s, e);
			break;
		case FL_SESSION_START:
			fl_items_apply_start(s, e);
			break;
		case FL_SESSION_SENT:
			fl_items_apply_sent(s, e);
			break;
		case FL_SESSION_SENT_RELEASED:
		case FL_SESSION_SENT_DONE:
			fl_items_apply_answered(s, e);
			break;
		case FL_SESSION_CHANGED:
			s->expiry_s = e->expiry_s;
			s->window = e->window;
			break;
		case FL_SESSION_AWAY:
			s->since = e->since;
			break;
		case FL_SESSION_WILL:
			fl_wills_apply_will(s, e);
			break;
		case FL_SESSION_WILL_DONE:
			fl_wills_apply_done(s, e);
			break;
		case FL_SESSION_OPENED:
		case FL_SESSION_ENDED:
		case FL_SESSION_AT:
		case FL_SESSION_SNAPSHOT:
		case FL_SESSION_SNAPSHOT_END:
			break;
	}
}

static void
apply(const FlSessionEvent *e)
{
	FlSession  *s = fl_store_session(e->session, e->generation);

	if (e->type == FL_SESSION_OPENED)
		apply_opened(e);
	else if (s != NULL && e->type == FL_SESSION_ENDED)
		end_session(e->session);
	else if (s != NULL && s->state == FL_SESSION_KEPT)
		apply_to_kept(s, e);
	else if (s != NULL && s->state == FL_SESSION_ENDING && e->type == FL_SESSION_WILL_DONE)
		fl_wills_apply_done(s, e);
}

FlResult
fl_store_apply(const uint8 *events, size_t len)
{
	FlSessionReader reader;
	FlSessionEvent event;

	fl_session_reader_init(&reader, events, len);
	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	while (fl_session_next_event(&reader, &event))
		apply(&event);
	LWLockRelease(fl_store->lock);
	return reader.result;
}

void
fl_store_loaded(TimestampTz now)
{
	FlPool	   *pool = &fl_store->sessions;

	LWLockAcquire(fl_store->lock, LW_EXCLUSIVE);
	pool->used = pool->fresh - 1;
	for (uint32 number = pool->fresh - 1; number > 0; number--)
	{
		FlSession  *s = &fl_store_sessions[number];

		if (s->state == FL_SESSION_FREE)
			fl_store_give_number(number);
		else if (s->since == 0 || s->since > now)
			/* It was connected when the server ended: its time begins now. */
			s->since = now;
	}
	pg_write_barrier();
	pg_atomic_write_u32(&fl_store->state, FL_STORE_READY);
	LWLockRelease(fl_store->lock);
}
