/*-------------------------------------------------------------------------
 *
 * registry.c
 *		The registry of connections over all front doors: who is connected,
 *		and who has to go because somebody else came with the same identity and
 *		client id (MQTT-3.1.4-3) or an operator says so.
 *
 * An entry belongs to the door that registered it: only that door changes or
 * removes it.  Others mark it (evict) and put its number into the queue of the
 * door, so that the door finds it without looking through all entries.
 *
 * Everything happens under registry_lock, a few hundred instructions at most
 * for a connect; at 15,000 connects a second that is a small part of one core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "fleetlog/settings.h"
#include "shmem_internal.h"

HTAB	   *fl_registry = NULL;

/* Connections of a tenant; an entry goes with the last of them. */
typedef struct TenantCount
{
	uint64		tenant;			/* hash key */
	uint32		connections;
} TenantCount;

static HTAB *tenants = NULL;

Size
fl_registry_size(void)
{
	return add_size(hash_estimate_size(fl_max_connections, sizeof(FlConnInfo)),
					hash_estimate_size(fl_max_connections, sizeof(TenantCount)));
}

void
fl_registry_init(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(FlConnKey);
	ctl.entrysize = sizeof(FlConnInfo);
	fl_registry = ShmemInitHash("fleetlog connections", fl_max_connections, fl_max_connections, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(TenantCount);
	tenants = ShmemInitHash("fleetlog tenants", 64, fl_max_connections, &ctl, HASH_ELEM | HASH_BLOBS);
}

uint64
fl_registry_next_id(void)
{
	return pg_atomic_fetch_add_u64(&fl_core->next_conn_id, 1);
}

/* registry_lock is held exclusively. */
static void
mark_for_eviction(FlConnInfo *entry, uint8 reason)
{
	FlEvictionQueue *q = &fl_core->evictions[entry->door];

	if (entry->evict)
		return;
	entry->evict = true;
	entry->evict_reason = reason;
	if (q->head - q->tail < FL_EVICTION_QUEUE)
	{
		q->conn_ids[q->head % FL_EVICTION_QUEUE] = entry->conn_id;
		q->reasons[q->head % FL_EVICTION_QUEUE] = reason;
		q->head++;
	}
	else
		q->overflow = true;
	pg_atomic_write_u32(&fl_core->evictions_wanted[entry->door], 1);
	fl_worker_wake(FL_WORKER_FRONT_DOOR, entry->door);
}

/* ---- how many a tenant has; registry_lock is held exclusively ---- */

static uint32
connections_of(uint64 tenant)
{
	TenantCount *count = tenant != 0 ? hash_search(tenants, &tenant, HASH_FIND, NULL) : NULL;

	return count != NULL ? count->connections : 0;
}

static void
count_connection(uint64 tenant)
{
	TenantCount *count;
	bool		found;

	if (tenant == 0)
		return;
	/* There is room for as many tenants as there are connections. */
	count = hash_search(tenants, &tenant, HASH_ENTER_NULL, &found);
	if (count == NULL)
		return;
	if (!found)
		count->connections = 0;
	count->connections++;
}

static void
uncount_connection(uint64 tenant)
{
	TenantCount *count = tenant != 0 ? hash_search(tenants, &tenant, HASH_FIND, NULL) : NULL;

	if (count != NULL && --count->connections == 0)
		hash_search(tenants, &tenant, HASH_REMOVE, NULL);
}

/* ---- entries ---- */

static bool
door_is_alive(int door)
{
	return fl_shared->slots[fl_slot_number(FL_WORKER_FRONT_DOOR, door)].pid != 0;
}

FlRegisterResult
fl_registry_register(const FlConnInfo *info, uint8 evict_reason, uint32 max_of_tenant)
{
	FlRegisterResult result = FL_REGISTERED;
	FlConnInfo *entry;
	bool		found;

	LWLockAcquire(fl_shared->registry_lock, LW_EXCLUSIVE);
	entry = hash_search(fl_registry, &info->key, HASH_FIND, &found);
	if (entry == NULL && max_of_tenant > 0 && connections_of(info->tenant) >= max_of_tenant)
		result = FL_REGISTER_TENANT_FULL;
	else if (entry == NULL && (entry = hash_search(fl_registry, &info->key, HASH_ENTER_NULL, NULL)) == NULL)
		result = FL_REGISTER_FULL;
	else if (found && entry->conn_id != info->conn_id && door_is_alive(entry->door))
	{
		mark_for_eviction(entry, evict_reason);
		result = FL_REGISTER_TAKEOVER;
	}
	else
	{
		/* One that a dead door has left. */
		if (found)
			uncount_connection(entry->tenant);
		*entry = *info;
		count_connection(entry->tenant);
		entry->evict = false;
		entry->evict_reason = 0;
		fl_core->max_clients = Max(fl_core->max_clients, hash_get_num_entries(fl_registry));
	}
	LWLockRelease(fl_shared->registry_lock);
	return result;
}

void
fl_registry_unregister(const FlConnKey *key, uint64 conn_id)
{
	FlConnInfo *entry;

	LWLockAcquire(fl_shared->registry_lock, LW_EXCLUSIVE);
	entry = hash_search(fl_registry, key, HASH_FIND, NULL);
	if (entry != NULL && entry->conn_id == conn_id)
	{
		uncount_connection(entry->tenant);
		hash_search(fl_registry, key, HASH_REMOVE, NULL);
	}
	LWLockRelease(fl_shared->registry_lock);
}

bool
fl_registry_update(const FlConnInfo *info, uint8 *evict_reason)
{
	FlConnInfo *entry;
	bool		evict = false;

	/*
	 * A shared lock is enough to change the counters: only the owner writes
	 * them, and the entry cannot go away.
	 */
	LWLockAcquire(fl_shared->registry_lock, LW_SHARED);
	entry = hash_search(fl_registry, &info->key, HASH_FIND, NULL);
	if (entry != NULL && entry->conn_id == info->conn_id)
	{
		entry->n_in = info->n_in;
		entry->n_out = info->n_out;
		entry->n_dropped = info->n_dropped;
		entry->n_subscriptions = info->n_subscriptions;
		entry->packets_in = info->packets_in;
		entry->packets_out = info->packets_out;
		entry->bytes_in = info->bytes_in;
		entry->bytes_out = info->bytes_out;
		entry->queued = info->queued;
		entry->inflight = info->inflight;
		entry->session = info->session;
		entry->session_expiry = info->session_expiry;
		entry->lagging = info->lagging;
		/* A client may say it after it was let in. */
		if (entry->software[0] == '\0')
			memcpy(entry->software, info->software, sizeof(entry->software));
		evict = entry->evict;
		*evict_reason = entry->evict_reason;
	}
	LWLockRelease(fl_shared->registry_lock);
	return evict;
}

/* The queue could not hold all of them: find the rest by looking at every entry. */
static int
scan_evictions(int door, uint64 *conn_ids, uint8 *reasons, int max)
{
	HASH_SEQ_STATUS scan;
	FlConnInfo *entry;
	int			n = 0;

	hash_seq_init(&scan, fl_registry);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->door != door || !entry->evict)
			continue;
		conn_ids[n] = entry->conn_id;
		reasons[n] = entry->evict_reason;
		if (++n == max)
		{
			hash_seq_term(&scan);
			break;
		}
	}
	return n;
}

int
fl_registry_evictions(int door, uint64 *conn_ids, uint8 *reasons, int max)
{
	FlEvictionQueue *q = &fl_core->evictions[door];
	int			n = 0;

	if (pg_atomic_read_u32(&fl_core->evictions_wanted[door]) == 0 || max <= 0)
		return 0;
	LWLockAcquire(fl_shared->registry_lock, LW_EXCLUSIVE);
	while (n < max && q->tail != q->head)
	{
		conn_ids[n] = q->conn_ids[q->tail % FL_EVICTION_QUEUE];
		reasons[n] = q->reasons[q->tail % FL_EVICTION_QUEUE];
		q->tail++;
		n++;
	}
	if (n == 0 && q->overflow)
	{
		/* Entries that the caller was told of before come again; closing twice does no harm. */
		n = scan_evictions(door, conn_ids, reasons, max);
		q->overflow = n == max;
	}
	if (q->tail == q->head && !q->overflow)
		pg_atomic_write_u32(&fl_core->evictions_wanted[door], 0);
	LWLockRelease(fl_shared->registry_lock);
	return n;
}

void
fl_registry_clear_door(int door)
{
	HASH_SEQ_STATUS scan;
	FlConnInfo *entry;

	LWLockAcquire(fl_shared->registry_lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, fl_registry);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->door != door)
			continue;
		uncount_connection(entry->tenant);
		hash_search(fl_registry, &entry->key, HASH_REMOVE, NULL);
	}
	memset(&fl_core->evictions[door], 0, sizeof(FlEvictionQueue));
	pg_atomic_write_u32(&fl_core->evictions_wanted[door], 0);
	LWLockRelease(fl_shared->registry_lock);
}

uint64
fl_registry_client_hash(const char *client_id, size_t len)
{
	return DatumGetUInt64(hash_any_extended((const unsigned char *) client_id, (int) len, 0));
}

/* Is it a connection of a device of this tenant? */
static bool
is_of_tenant(const FlConnInfo *entry, const char *tenant)
{
	size_t		len = strlen(tenant);

	return entry->kind == FL_CONN_DEVICE && strncmp(entry->identity, tenant, len) == 0 && entry->identity[len] == '/';
}

/* The name is a client id, or says who it is: tenant/device, or a role. */
static bool
is_named(const FlConnInfo *entry, const char *name, uint64 hash)
{
	/* Of a long client id only the beginning is kept. */
	if (entry->client_hash == hash && strncmp(entry->client_id, name, strlen(entry->client_id)) == 0)
		return true;
	return entry->kind != FL_CONN_ANONYMOUS && strcmp(entry->identity, name) == 0;
}

int
fl_registry_evict_client(const char *name, const char *tenant, uint8 reason)
{
	uint64		hash = fl_registry_client_hash(name, strlen(name));
	HASH_SEQ_STATUS scan;
	FlConnInfo *entry;
	int			n = 0;

	LWLockAcquire(fl_shared->registry_lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, fl_registry);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (is_named(entry, name, hash) && (tenant == NULL || is_of_tenant(entry, tenant)))
		{
			mark_for_eviction(entry, reason);
			n++;
		}
	}
	LWLockRelease(fl_shared->registry_lock);
	return n;
}
