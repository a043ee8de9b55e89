/*-------------------------------------------------------------------------
 *
 * last.c
 *		Last values that are not in their table yet (keep => 'last'), in shared memory.
 *
 * The state worker puts in what it reads from the log and takes out what it has
 * written to the table; everybody may look a key up.  So the newest value is to be
 * had at once, although the table follows by state_lag.  Nothing here needs to survive
 * anything: after a restart the log is folded again from where the table ends.
 *
 * Slots of one size in an open hash.  A value that does not fit its slot stands there by
 * its position only and is read from the log when somebody wants it.  When the slots
 * are nearly used up, the worker flushes early.
 *
 * Keys are compared by a 128-bit hash with seeds drawn at server start, which nobody
 * outside knows, so that nobody can make two topics collide.
 *
 * Locking: `lock`, exclusive for the worker's changes, shared for lookups; held for
 * the copy of a slot only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "fleetlog/compat.h"
#include "fleetlog/settings.h"
#include "state_internal.h"

#define SLOT_SIZE	512
#define TRANCHE		"fleetlog last values"
#define FULL_PERCENT 80			/* an open hash gets slow beyond */

typedef struct Digest
{
	uint64		part[2];
} Digest;

typedef struct Slot
{
	Digest		digest;
	FlStatePos	pos;
	Oid			state;			/* InvalidOid: free */
	Oid			stream;
	int32		home;
	int32		len[5];			/* of key, tenant, device, headers, payload; -1: NULL */
	bool		cleared;
	bool		whole;			/* the bytes are here */
	uint8		bytes[FLEXIBLE_ARRAY_MEMBER];
} Slot;

#define SLOT_ROOM	(SLOT_SIZE - offsetof(Slot, bytes))

/* How far one shard has been read for one table. */
typedef struct FoldPosition
{
	Oid			state;
	Oid			stream;
	int32		shard;
	int64		folded;
	int64		flushed;
} FoldPosition;

#define MAX_POSITIONS	4096

typedef struct LastShared
{
	LWLock	   *lock;
	uint64		seed[2];
	pg_atomic_uint32 used;
	FlFoldInfo	folds[FL_MAX_FOLDS];
	int			npositions;
	FoldPosition positions[MAX_POSITIONS];
} LastShared;

static LastShared *shared = NULL;
static char *slots = NULL;
static uint32 nslots = 0;

static uint32
slots_wanted(void)
{
	return (uint32) ((Size) fl_last_value_kb * 1024 / SLOT_SIZE);
}

Size
fl_last_size(void)
{
	RequestNamedLWLockTranche(TRANCHE, 1);
	return add_size(MAXALIGN(sizeof(LastShared)), mul_size(slots_wanted(), SLOT_SIZE));
}

void
fl_last_init(void)
{
	bool		found;
	bool		found_slots;

	shared = ShmemInitStruct("fleetlog last values", sizeof(LastShared), &found);
	nslots = slots_wanted();
	slots = ShmemInitStruct("fleetlog last value slots", mul_size(nslots, SLOT_SIZE), &found_slots);
	if (!found)
	{
		memset(shared, 0, sizeof(*shared));
		shared->lock = &GetNamedLWLockTranche(TRANCHE)[0].lock;
		pg_atomic_init_u32(&shared->used, 0);
		if (!pg_strong_random(shared->seed, sizeof(shared->seed)))
			elog(ERROR, "no random numbers to be had");
	}
	if (!found_slots)
		memset(slots, 0, mul_size(nslots, SLOT_SIZE));
}

/* ---- slots -------------------------------------------------------------------- */

static Slot *
slot_at(uint32 i)
{
	return (Slot *) (slots + (Size) i * SLOT_SIZE);
}

static Digest
digest_of(Oid state, Oid stream, const uint8 *key, int32 len)
{
	Digest		d;

	for (int i = 0; i < 2; i++)
		d.part[i] = hash_bytes_extended(key, len, shared->seed[i] ^ ((uint64) state << 32 | stream));
	return d;
}

static bool
is_slot_of(const Slot *s, const Digest *d, Oid state, Oid stream)
{
	return s->state == state && s->stream == stream && memcmp(&s->digest, d, sizeof(Digest)) == 0;
}

/* The key's slot, or the free one where it belongs. */
static uint32
find_slot(const Digest *d, Oid state, Oid stream)
{
	uint32		i = (uint32) (d->part[0] % nslots);

	while (OidIsValid(slot_at(i)->state) && !is_slot_of(slot_at(i), d, state, stream))
		i = (i + 1) % nslots;
	return i;
}

/* Close the gap: what lies behind and could lie here moves up. */
static void
free_slot(uint32 gap)
{
	uint32		i = gap;

	for (;;)
	{
		uint32		home;

		i = (i + 1) % nslots;
		if (!OidIsValid(slot_at(i)->state))
			break;
		home = (uint32) (slot_at(i)->digest.part[0] % nslots);
		/* Is its home cyclically in (gap, i]?  Then it stays. */
		if (gap <= i ? (gap < home && home <= i) : (gap < home || home <= i))
			continue;
		memcpy(slot_at(gap), slot_at(i), SLOT_SIZE);
		gap = i;
	}
	slot_at(gap)->state = InvalidOid;
	pg_atomic_fetch_sub_u32(&shared->used, 1);
}

int
fl_last_count(Oid state, Oid stream)
{
	int			n = 0;

	if (pg_atomic_read_u32(&shared->used) == 0)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (uint32 i = 0; i < nslots; i++)
		if (slot_at(i)->state == state && slot_at(i)->stream == stream)
			n++;
	LWLockRelease(shared->lock);
	return n;
}

int
fl_last_used(void)
{
	return nslots == 0 ? 100 : (int) ((uint64) pg_atomic_read_u32(&shared->used) * 100 / nslots);
}

/* ---- in and out ----------------------------------------------------------------- */

static struct varlena *const *
fields_of(const FlStateChange *c, struct varlena **fields)
{
	fields[0] = c->key;
	fields[1] = c->tenant;
	fields[2] = c->device;
	fields[3] = c->headers;
	fields[4] = c->payload;
	return fields;
}

static void
fill_slot(Slot *s, const FlStateChange *c, const Digest *d)
{
	struct varlena *fields[5];
	Size		at = 0;

	fields_of(c, fields);
	s->digest = *d;
	s->state = c->state;
	s->stream = c->stream;
	s->pos = c->pos;
	s->home = c->home;
	s->cleared = c->cleared;
	for (int i = 0; i < 5; i++)
	{
		s->len[i] = fields[i] != NULL ? (int32) VARSIZE_ANY_EXHDR(fields[i]) : -1;
		at += Max(s->len[i], 0);
	}
	s->whole = at <= SLOT_ROOM;
	if (!s->whole)
		return;
	at = 0;
	for (int i = 0; i < 5; i++)
	{
		if (s->len[i] > 0)
			memcpy(s->bytes + at, VARDATA_ANY(fields[i]), s->len[i]);
		at += Max(s->len[i], 0);
	}
}

bool
fl_last_put(const FlStateChange *c)
{
	Digest		d = digest_of(c->state, c->stream, (const uint8 *) VARDATA_ANY(c->key), VARSIZE_ANY_EXHDR(c->key));
	bool		ok = true;
	Slot	   *s;

	if (nslots == 0)
		return false;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	s = slot_at(find_slot(&d, c->state, c->stream));
	if (OidIsValid(s->state))
	{
		if (fl_state_pos_cmp(&s->pos, &c->pos) < 0)
			fill_slot(s, c, &d);
	}
	else if (fl_last_used() >= FULL_PERCENT)
		ok = false;
	else
	{
		fill_slot(s, c, &d);
		pg_atomic_fetch_add_u32(&shared->used, 1);
	}
	LWLockRelease(shared->lock);
	return ok;
}

static struct varlena *
copy_field(const uint8 *data, int32 len)
{
	struct varlena *v;

	if (len < 0)
		return NULL;
	v = palloc(VARHDRSZ + len);
	SET_VARSIZE(v, VARHDRSZ + len);
	memcpy(VARDATA(v), data, len);
	return v;
}

static void
read_slot(const Slot *s, FlStateChange *c)
{
	const uint8 *at = s->bytes;
	struct varlena **fields[5] = {&c->key, &c->tenant, &c->device, &c->headers, &c->payload};

	memset(c, 0, sizeof(*c));
	c->state = s->state;
	c->stream = s->stream;
	c->pos = s->pos;
	c->home = s->home;
	c->cleared = s->cleared;
	if (!s->whole)
		return;
	for (int i = 0; i < 5; i++)
	{
		*fields[i] = copy_field(at, s->len[i]);
		at += Max(s->len[i], 0);
	}
}

/* One that stands there by its position only is read from the log; false: trimmed meanwhile. */
static bool
complete(FlStateChange *c)
{
	FlStateChange full;

	if (c->key != NULL)
		return true;
	if (!fl_state_change_at(c->stream, c->pos.shard, c->pos.log_offset, FL_STATE_ALL, &full) || full.state != c->state)
		return false;
	*c = full;
	return true;
}

bool
fl_last_get(Oid state, Oid stream, const uint8 *key, int32 len, FlStateChange *out)
{
	Digest		d;
	Slot	   *s;
	Slot	   *copy;

	if (nslots == 0 || pg_atomic_read_u32(&shared->used) == 0)
		return false;
	d = digest_of(state, stream, key, len);
	copy = palloc(SLOT_SIZE);
	LWLockAcquire(shared->lock, LW_SHARED);
	s = slot_at(find_slot(&d, state, stream));
	memcpy(copy, s, SLOT_SIZE);
	LWLockRelease(shared->lock);
	if (!OidIsValid(copy->state))
		return false;
	read_slot(copy, out);
	return complete(out);
}

int
fl_last_collect(Oid state, Oid stream, FlStateChange **changes)
{
	Slot	   *copies = NULL;
	int			n = 0;
	int			keep = 0;

	*changes = NULL;
	if (nslots == 0 || pg_atomic_read_u32(&shared->used) == 0)
		return 0;
	copies = MemoryContextAllocHuge(CurrentMemoryContext, (Size) pg_atomic_read_u32(&shared->used) * SLOT_SIZE + SLOT_SIZE);
	LWLockAcquire(shared->lock, LW_SHARED);
	for (uint32 i = 0; i < nslots && n <= (int) pg_atomic_read_u32(&shared->used); i++)
	{
		if (slot_at(i)->state != state || slot_at(i)->stream != stream)
			continue;
		memcpy((char *) copies + (Size) n * SLOT_SIZE, slot_at(i), SLOT_SIZE);
		n++;
	}
	LWLockRelease(shared->lock);
	*changes = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(FlStateChange) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		read_slot((Slot *) ((char *) copies + (Size) i * SLOT_SIZE), &(*changes)[keep]);
		if (complete(&(*changes)[keep]))
			keep++;
	}
	pfree(copies);
	return keep;
}

void
fl_last_remove(const FlStateChange *c)
{
	Digest		d = digest_of(c->state, c->stream, (const uint8 *) VARDATA_ANY(c->key), VARSIZE_ANY_EXHDR(c->key));
	uint32		i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	i = find_slot(&d, c->state, c->stream);
	if (OidIsValid(slot_at(i)->state) && fl_state_pos_cmp(&slot_at(i)->pos, &c->pos) <= 0)
		free_slot(i);
	LWLockRelease(shared->lock);
}

void
fl_last_forget(Oid state, Oid stream)
{
	if (nslots == 0)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < nslots;)
	{
		if (OidIsValid(slot_at(i)->state) && slot_at(i)->state == state && slot_at(i)->stream == stream)
			free_slot(i);		/* another one may have moved here */
		else
			i++;
	}
	LWLockRelease(shared->lock);
}

/* ---- the view ---------------------------------------------------------------------- */

void
fl_fold_show(int n, const FlFoldInfo *info)
{
	if (n < 0 || n >= FL_MAX_FOLDS)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (info != NULL)
		shared->folds[n] = *info;
	else
		memset(&shared->folds[n], 0, sizeof(FlFoldInfo));
	LWLockRelease(shared->lock);
}

int
fl_fold_read(FlFoldInfo *out)
{
	int			n = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < FL_MAX_FOLDS; i++)
		if (OidIsValid(shared->folds[i].state))
			out[n++] = shared->folds[i];
	LWLockRelease(shared->lock);
	return n;
}

/* ---- how far --------------------------------------------------------------------------- */

void
fl_fold_positions_clear(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->npositions = 0;
	LWLockRelease(shared->lock);
}

void
fl_fold_position_add(Oid state, Oid stream, int32 shard, int64 folded, int64 flushed)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (shared->npositions < MAX_POSITIONS)
		shared->positions[shared->npositions++] = (FoldPosition) {
			.state = state,.stream = stream,.shard = shard,.folded = folded,.flushed = flushed
		};
	LWLockRelease(shared->lock);
}

void
fl_fold_position_set(int n, int64 folded, int64 flushed)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (n < shared->npositions)
	{
		shared->positions[n].folded = folded;
		shared->positions[n].flushed = flushed;
	}
	LWLockRelease(shared->lock);
}

/* One that is not in the list is not waited for: better an older value than none. */
static void
read_position(Oid state, Oid stream, int32 shard, int64 *folded, int64 *flushed)
{
	*folded = *flushed = PG_INT64_MAX;
	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->npositions; i++)
	{
		const FoldPosition *p = &shared->positions[i];

		if (p->state != state || p->stream != stream || p->shard != shard)
			continue;
		*folded = p->folded;
		*flushed = p->flushed;
		break;
	}
	if (shared->npositions == 0)
		*folded = *flushed = 0; /* the worker has not begun yet */
	LWLockRelease(shared->lock);
}

int64
fl_state_flushed_floor(Oid stream, int32 shard)
{
	int64		floor = PG_INT64_MAX;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (int i = 0; i < shared->npositions; i++)
		if (shared->positions[i].stream == stream && shared->positions[i].shard == shard)
			floor = Min(floor, shared->positions[i].flushed);
	LWLockRelease(shared->lock);
	return floor;
}

bool
fl_state_is_folded_to(Oid state, Oid stream, int32 shard, int64 log_offset)
{
	int64		folded;
	int64		flushed;

	read_position(state, stream, shard, &folded, &flushed);
	return folded >= log_offset;
}

bool
fl_state_is_flushed_to(Oid state, Oid stream, int32 shard, int64 log_offset)
{
	int64		folded;
	int64		flushed;

	read_position(state, stream, shard, &folded, &flushed);
	return flushed >= log_offset;
}
