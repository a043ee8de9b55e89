/*-------------------------------------------------------------------------
 *
 * share.c
 *		Places of shared subscriptions (share.h).
 *
 * Called by front doors (bgworker/mqtt/share.c), and for the view stat_group.  Nothing
 * here reads the log or knows a connection.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/share.h"
#include "shmem_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_stat_share);

StaticAssertDecl(FL_MAX_FRONT_DOORS <= 32, "busy has a bit for every door");

static HTAB *places = NULL;
static uint64 *last_generation = NULL;

Size
fl_share_size(void)
{
	return add_size(hash_estimate_size(FL_SHARE_PLACES, sizeof(FlSharePlace)), MAXALIGN(sizeof(uint64)));
}

void
fl_share_init(void)
{
	HASHCTL		ctl = {0};
	bool		found;

	ctl.keysize = sizeof(FlShareKey);
	ctl.entrysize = sizeof(FlSharePlace);
	places = ShmemInitHash("fleetlog shared subscriptions", 64, FL_SHARE_PLACES, &ctl, HASH_ELEM | HASH_BLOBS);
	last_generation = ShmemInitStruct("fleetlog share generation", sizeof(uint64), &found);
	if (!found)
		*last_generation = 0;
}

/* ---- members ---------------------------------------------------------- */

static void
init_place(FlSharePlace *place, int64 from, TimestampTz since)
{
	place->generation = ++*last_generation;
	place->since = since;
	place->kept_until = 0;
	place->begun_at = from;
	pg_atomic_init_u64(&place->exact, 0);
	pg_atomic_init_u64(&place->position, (uint64) from);
	pg_atomic_init_u32(&place->busy, 0);
	pg_atomic_init_u32(&place->nreturned, 0);
	place->members = 0;
	place->turn = 0;
	place->run = 0;
	memset(place->at_door, 0, sizeof(place->at_door));
	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
		place->low[door] = PG_INT64_MAX;
}

static void
free_place(FlSharePlace *place)
{
	place->generation = 0;
	hash_search(places, &place->key, HASH_REMOVE, NULL);
}

/* Of the places without members, the one that would go first makes room. */
static void
free_a_left_place(void)
{
	HASH_SEQ_STATUS scan;
	FlSharePlace *place;
	FlSharePlace *first = NULL;

	hash_seq_init(&scan, places);
	while ((place = hash_seq_search(&scan)) != NULL)
		if (place->members == 0 && (first == NULL || place->kept_until < first->kept_until))
			first = place;
	if (first != NULL)
		free_place(first);
}

static void
set_members(FlSharePlace *place, int door, uint16 members)
{
	place->members -= place->at_door[door];
	place->members += members;
	place->at_door[door] = members;
	if (members == 0)
		place->low[door] = PG_INT64_MAX;
	pg_atomic_fetch_and_u32(&place->busy, ~(1u << door));
	if (place->members > 0)
	{
		place->turn %= place->members;
		return;
	}
	place->turn = 0;
	if (place->kept_until <= GetCurrentTimestamp())
		free_place(place);
}

FlSharePlace *
fl_share_enter(const FlShareKey *key, int door, uint16 members, int64 from, TimestampTz since, bool anew,
			   const FlShareName *name)
{
	FlSharePlace *place;
	bool		found = false;

	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	place = hash_search(places, key, HASH_FIND, &found);
	if (place == NULL && hash_get_num_entries(places) >= FL_SHARE_PLACES)
		free_a_left_place();
	/* A table in shared memory may grow beyond what was asked for; ours does not. */
	if (place == NULL && hash_get_num_entries(places) < FL_SHARE_PLACES)
		place = hash_search(places, key, HASH_ENTER_NULL, &found);
	if (place != NULL)
	{
		if (!found || (place->members == 0 && (anew || place->kept_until <= GetCurrentTimestamp())))
		{
			init_place(place, from, since);
			place->name = *name;
		}
		set_members(place, door, members);
	}
	LWLockRelease(fl_core->share_lock);
	return place;
}

void
fl_share_raise_exact(FlSharePlace *place, int64 log_offset)
{
	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	if ((int64) pg_atomic_read_u64(&place->exact) < log_offset)
		pg_atomic_write_u64(&place->exact, (uint64) log_offset);
	LWLockRelease(fl_core->share_lock);
}

bool
fl_share_is_left(const uint8 group[16])
{
	HASH_SEQ_STATUS scan;
	FlSharePlace *place;
	bool		is_left = false;

	LWLockAcquire(fl_core->share_lock, LW_SHARED);
	hash_seq_init(&scan, places);
	while ((place = hash_seq_search(&scan)) != NULL)
		if (place->members == 0 && memcmp(place->key.group, group, sizeof(place->key.group)) == 0)
			is_left = true;
	LWLockRelease(fl_core->share_lock);
	return is_left;
}

void
fl_share_keep(FlSharePlace *place, uint64 generation, TimestampTz until)
{
	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	if (place->generation == generation)
		place->kept_until = Max(place->kept_until, until);
	LWLockRelease(fl_core->share_lock);
}

void
fl_share_set_members(FlSharePlace *place, uint64 generation, int door, uint16 members)
{
	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	if (place->generation == generation)
		set_members(place, door, members);
	LWLockRelease(fl_core->share_lock);
}

void
fl_share_leave_door(int door)
{
	HASH_SEQ_STATUS scan;
	FlSharePlace *place;

	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, places);
	while ((place = hash_seq_search(&scan)) != NULL)
		if (place->at_door[door] > 0)
		{
			int64		position = (int64) pg_atomic_read_u64(&place->position);

			/* What is in the journal is its members' when they come back; all else is read again. */
			position = Min(position, place->low[door]);
			pg_atomic_write_u64(&place->position, (uint64) position);
			place->begun_at = position;
			set_members(place, door, 0);
		}
	LWLockRelease(fl_core->share_lock);
}

/* ---- taking records ---------------------------------------------------- */

/* The door of the member whose turn it is; -1: of nobody. */
static int
door_in_turn(const FlSharePlace *place)
{
	uint32		left = place->turn;

	for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
	{
		if (left < place->at_door[door])
			return door;
		left -= place->at_door[door];
	}
	return -1;
}

static void
hold_low(FlSharePlace *place, int door, int64 log_offset)
{
	place->low[door] = Min(place->low[door], log_offset);
}

static void
next_turn(FlSharePlace *place)
{
	place->run = 0;
	place->turn = (place->turn + 1) % place->members;
}

FlShareClaim
fl_share_claim(FlSharePlace *place, int door, int64 log_offset, bool force, int *wake)
{
	FlShareClaim claim = FL_SHARE_MINE;
	int			owner;

	*wake = -1;
	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	owner = door_in_turn(place);
	if ((int64) pg_atomic_read_u64(&place->position) > log_offset || place->at_door[door] == 0)
		claim = FL_SHARE_TAKEN;
	else if (owner != door && owner >= 0 && !force && !(pg_atomic_read_u32(&place->busy) & (1u << owner)))
		claim = FL_SHARE_WAIT;
	else
	{
		/* Whoever had to be passed over is not waited for again until it has come. */
		if (owner != door && owner >= 0)
			pg_atomic_fetch_or_u32(&place->busy, 1u << owner);
		pg_atomic_write_u64(&place->position, (uint64) log_offset + 1);
		hold_low(place, door, log_offset);
		if (++place->run >= FL_SHARE_RUN || owner != door)
		{
			next_turn(place);
			owner = door_in_turn(place);
			*wake = owner == door ? -1 : owner;
		}
	}
	LWLockRelease(fl_core->share_lock);
	return claim;
}

void
fl_share_skip(FlSharePlace *place, int64 to)
{
	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	if ((int64) pg_atomic_read_u64(&place->position) < to)
		pg_atomic_write_u64(&place->position, (uint64) to);
	LWLockRelease(fl_core->share_lock);
}

void
fl_share_end_turn(FlSharePlace *place, int door)
{
	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	if (place->run > 0 && place->members > 0 && door_in_turn(place) == door)
		next_turn(place);
	LWLockRelease(fl_core->share_lock);
}

void
fl_share_set_low(FlSharePlace *place, uint64 generation, int door, int64 low)
{
	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	if (place->generation == generation)
		place->low[door] = low;
	LWLockRelease(fl_core->share_lock);
}

/* Of all doors but this one; the lock is held. */
static int64
safe_position(FlSharePlace *place, int door)
{
	int64		safe = (int64) pg_atomic_read_u64(&place->position);

	for (int i = 0; i < FL_MAX_FRONT_DOORS; i++)
		if (i != door)
			safe = Min(safe, place->low[i]);
	for (uint32 i = 0; i < pg_atomic_read_u32(&place->nreturned); i++)
		safe = Min(safe, place->returned[i]);
	return safe;
}

int64
fl_share_safe(FlSharePlace *place, int door, int64 own)
{
	int64		safe;

	LWLockAcquire(fl_core->share_lock, LW_SHARED);
	safe = Min(own, safe_position(place, door));
	LWLockRelease(fl_core->share_lock);
	return safe;
}

int64
fl_share_find_safe(const FlShareKey *key)
{
	FlSharePlace *place;
	int64		safe = -1;

	LWLockAcquire(fl_core->share_lock, LW_SHARED);
	place = hash_search(places, key, HASH_FIND, NULL);
	if (place != NULL && (place->members > 0 || place->kept_until > GetCurrentTimestamp()))
		safe = safe_position(place, -1);
	LWLockRelease(fl_core->share_lock);
	return safe;
}

void
fl_share_set_busy(FlSharePlace *place, int door, bool busy)
{
	uint32		bit = 1u << door;
	bool		is_busy = (pg_atomic_read_u32(&place->busy) & bit) != 0;

	if (is_busy == busy)
		return;
	if (busy)
		pg_atomic_fetch_or_u32(&place->busy, bit);
	else
		pg_atomic_fetch_and_u32(&place->busy, ~bit);
}

/* ---- records that come back -------------------------------------------- */

bool
fl_share_return(FlSharePlace *place, uint64 generation, int64 log_offset, uint32 *wake)
{
	bool		kept = false;
	uint32		n;

	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&place->nreturned);
	if (place->generation == generation && n < FL_SHARE_RETURNED)
	{
		place->returned[n] = log_offset;
		pg_atomic_write_u32(&place->nreturned, n + 1);
		kept = true;
		for (int door = 0; door < FL_MAX_FRONT_DOORS; door++)
			if (place->at_door[door] > 0)
				*wake |= 1u << door;
	}
	LWLockRelease(fl_core->share_lock);
	return kept;
}

bool
fl_share_take_returned(FlSharePlace *place, int door, int64 *log_offset)
{
	uint32		n;
	uint32		lowest = 0;

	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&place->nreturned);
	for (uint32 i = 1; i < n; i++)
		if (place->returned[i] < place->returned[lowest])
			lowest = i;
	if (n > 0)
	{
		*log_offset = place->returned[lowest];
		hold_low(place, door, *log_offset);
		place->returned[lowest] = place->returned[n - 1];
		pg_atomic_write_u32(&place->nreturned, n - 1);
	}
	LWLockRelease(fl_core->share_lock);
	return n > 0;
}

bool
fl_share_take_back(FlSharePlace *place, int64 log_offset)
{
	bool		found = false;
	uint32		n;

	LWLockAcquire(fl_core->share_lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&place->nreturned);
	for (uint32 i = 0; i < n && !found; i++)
		if (place->returned[i] == log_offset)
		{
			place->returned[i] = place->returned[n - 1];
			pg_atomic_write_u32(&place->nreturned, n - 1);
			found = true;
		}
	LWLockRelease(fl_core->share_lock);
	return found;
}

/* ---- the view ---------------------------------------------------------- */

/* What a row of the view shows, copied under the lock. */
typedef struct GroupRow
{
	FlShareKey	key;
	FlShareName name;
	int64		position;
	uint32		members;
	uint32		returned;
} GroupRow;

static int
copy_rows(GroupRow *rows)
{
	TimestampTz now = GetCurrentTimestamp();
	HASH_SEQ_STATUS scan;
	FlSharePlace *place;
	int			n = 0;

	LWLockAcquire(fl_core->share_lock, LW_SHARED);
	hash_seq_init(&scan, places);
	while ((place = hash_seq_search(&scan)) != NULL)
	{
		/* What nobody comes back to goes when its room is needed. */
		if (n == FL_SHARE_PLACES || (place->members == 0 && place->kept_until <= now))
			continue;
		rows[n].key = place->key;
		rows[n].name = place->name;
		rows[n].position = (int64) pg_atomic_read_u64(&place->position);
		rows[n].members = place->members;
		rows[n].returned = pg_atomic_read_u32(&place->nreturned);
		n++;
	}
	LWLockRelease(fl_core->share_lock);
	return n;
}

static void
put_text(Datum *value, bool *isnull, const char *text, int len)
{
	*isnull = len == 0;
	if (len > 0)
		*value = PointerGetDatum(cstring_to_text_with_len(text, len));
}

Datum
fl_sql_stat_share(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	GroupRow   *rows;
	int			n;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	rows = palloc(sizeof(GroupRow) * FL_SHARE_PLACES);
	n = copy_rows(rows);
	for (int i = 0; i < n; i++)
	{
		const FlShareName *name = &rows[i].name;
		Datum		values[8];
		bool		nulls[8] = {0};

		put_text(&values[0], &nulls[0], name->text, name->tenant_len);
		put_text(&values[1], &nulls[1], name->text + name->tenant_len, name->role_len);
		put_text(&values[2], &nulls[2], name->text + name->tenant_len + name->role_len, name->filter_len);
		values[3] = ObjectIdGetDatum(rows[i].key.stream);
		values[4] = Int32GetDatum(rows[i].key.shard);
		values[5] = Int64GetDatum(rows[i].position);
		values[6] = Int32GetDatum((int32) rows[i].members);
		values[7] = Int32GetDatum((int32) rows[i].returned);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
