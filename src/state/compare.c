/*-------------------------------------------------------------------------
 *
 * compare.c
 *		What the history of a stream implies for its state tables, against what is
 *		in them: for verify and for rebuild_state, beside writers that go on.
 *
 * One cut through log and table without stopping anybody:
 *
 *	T	the durable tails; what lies below was committed before
 *	S	a snapshot, later than T: shows the tables
 *	E	the durable tails later than S, when everybody whom S shows has told his tail and
 *		it is flushed: cover all that S shows
 *
 * Of a key, the last record below T must be in the table, or one of those between T
 * and E, of which S shows some.  For last values that follow with a lag the cut is
 * exact: the offset that stands beside them, read with S.  A key in state_pending is
 * not judged.  A row whose record is older than the history that is left cannot be
 * judged either, as long as nothing newer of its key is there.
 *
 * Memory: about 150 bytes per key.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "fleetlog/compat.h"
#include "fleetlog/guest.h"
#include "compare.h"

#define FLUSH_TRIES		60	/* each waits a second at most */

typedef struct Digest
{
	uint64		part[2];
} Digest;

/* One value of a key: where it comes from, and a hash of what it is. */
typedef struct Seen
{
	FlStatePos	pos;
	bool		cleared;
	uint64		hash;
} Seen;

typedef struct Key
{
	Digest		digest;			/* hash key: must come first */
	text	   *key;
	bool		has_base;
	bool		row;			/* the table has one */
	bool		pending;
	Seen		base;			/* last below T */
	Seen	   *later;			/* those between T and E, in no order */
	int			nlater;
} Key;

struct FlCompare
{
	Oid			stream;
	Oid			state;
	int			nshards;
	int64	   *head;
	int64	   *cut;			/* T */
	int64	   *end;			/* E */
	int64	   *flushed;		/* of last values, read with S */
	Snapshot	snapshot;		/* S */
	uint64		seed[2];
	HTAB	   *keys;
	MemoryContext mcxt;
	FlCompareResult result;
};

/* ---- keys -------------------------------------------------------------------- */

static Digest
digest_of(const FlCompare *c, const text *key)
{
	Digest		d;

	for (int i = 0; i < 2; i++)
		d.part[i] = hash_bytes_extended((const unsigned char *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), c->seed[i]);
	return d;
}

static Key *
find_key(FlCompare *c, const text *key, bool make)
{
	Digest		d = digest_of(c, key);
	bool		found;
	Key		   *k = hash_search(c->keys, &d, make ? HASH_ENTER : HASH_FIND, &found);

	if (k == NULL || found)
		return k;
	memset((char *) k + sizeof(Digest), 0, sizeof(Key) - sizeof(Digest));
	k->key = MemoryContextAlloc(c->mcxt, VARHDRSZ + VARSIZE_ANY_EXHDR(key));
	SET_VARSIZE(k->key, VARHDRSZ + VARSIZE_ANY_EXHDR(key));
	memcpy(VARDATA(k->key), VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
	return k;
}

static uint64
hash_more(uint64 h, const struct varlena *v)
{
	if (v == NULL)
		return hash_bytes_extended((const unsigned char *) &h, sizeof(h), 1);
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v), h + 2);
}

static uint64
hash_value(const struct varlena *tenant, const struct varlena *device, const struct varlena *headers,
		   const struct varlena *payload)
{
	return hash_more(hash_more(hash_more(hash_more(0, tenant), device), headers), payload);
}

/* ---- the history ----------------------------------------------------------------- */

static void
note(FlCompare *c, const FlStateChange *change, bool below_cut)
{
	Key		   *k = find_key(c, (text *) change->key, true);
	Seen		seen = {
		.pos = change->pos,.cleared = change->cleared,
		.hash = change->cleared ? 0 : hash_value(change->tenant, change->device, change->headers, change->payload)
	};

	if (!below_cut)
	{
		k->later = k->later ? repalloc(k->later, sizeof(Seen) * (k->nlater + 1)) :
			MemoryContextAlloc(c->mcxt, sizeof(Seen));
		k->later[k->nlater++] = seen;
	}
	else if (!k->has_base || fl_state_pos_cmp(&k->base.pos, &seen.pos) < 0)
	{
		k->base = seen;
		k->has_base = true;
	}
}

static void
note_record(FlCompare *c, int32 shard, const FlLogRecord *rec)
{
	FlStateChange change;

	if (fl_state_change_of(c->stream, shard, rec, FL_STATE_IN_TRANSACTION, &change))
	{
		if (change.state == c->state)
			note(c, &change, rec->log_offset < c->cut[shard]);
	}
	else if (rec->log_offset < c->flushed[shard] &&
			 fl_state_change_of(c->stream, shard, rec, FL_STATE_FOLDED, &change) && change.state == c->state)
		note(c, &change, true);
}

static void
read_history(FlCompare *c, int32 shard)
{
	FlLogPosition pos = {.offset = c->head[shard]};
	FlBatchDecoder *decoder;
	FlLogReader *reader;
	FlStoredBatch batch;
	FlLogRecord rec;
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "fleetlog compare batch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;

	if (pos.offset >= c->end[shard])
		return;
	decoder = fl_batch_decoder_create(c->mcxt);
	reader = fl_log_reader_begin(c->stream, shard, &pos, c->end[shard]);
	while (fl_log_reader_next(reader, &batch))
	{
		CHECK_FOR_INTERRUPTS();
		old = MemoryContextSwitchTo(row);
		fl_batch_decoder_open(decoder, &batch);
		while (fl_batch_decoder_next(decoder, &rec))
			if (rec.log_offset >= c->head[shard] && rec.log_offset < c->end[shard])
				note_record(c, shard, &rec);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row);
	}
	fl_log_reader_end(reader);
	MemoryContextDelete(row);
}

/* ---- our own tables, with S ---------------------------------------------------------- */

static Oid
own_table(const char *name)
{
	return get_relname_relid(name, get_namespace_oid(FL_STATE_SCHEMA, false));
}

/* state, stream are columns `first` and the next one in both tables. */
static void
each_row(FlCompare *c, const char *name, int first, void (*f) (FlCompare *c, HeapTuple tuple, TupleDesc desc))
{
	Relation	rel = table_open(own_table(name), AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, c->snapshot, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;

		if (DatumGetObjectId(heap_getattr(tuple, first, desc, &isnull)) == c->state &&
			DatumGetObjectId(heap_getattr(tuple, first + 1, desc, &isnull)) == c->stream)
			f(c, tuple, desc);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

static void
read_flushed(FlCompare *c, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	int32		shard = DatumGetInt32(heap_getattr(tuple, 3, desc, &isnull));

	if (shard >= 0 && shard < c->nshards)
		c->flushed[shard] = DatumGetInt64(heap_getattr(tuple, 4, desc, &isnull));
}

static void
read_pending(FlCompare *c, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;

	find_key(c, DatumGetTextPP(heap_getattr(tuple, 4, desc, &isnull)), true)->pending = true;
	c->result.pending++;
}

/* ---- the table -------------------------------------------------------------------------- */

static bool
matches(const Seen *s, const FlStatePos *pos, uint64 hash)
{
	return !s->cleared && s->hash == hash && fl_state_pos_cmp(&s->pos, pos) == 0;
}

static bool
is_implied(const Key *k, const FlStatePos *pos, uint64 hash)
{
	if (k->has_base && matches(&k->base, pos, hash))
		return true;
	for (int i = 0; i < k->nlater; i++)
		if (matches(&k->later[i], pos, hash))
			return true;
	return false;
}

/* What the table should have: the last of all; those between T and E count, since they are committed. */
static const Seen *
last_of(const Key *k)
{
	const Seen *last = k->has_base ? &k->base : NULL;

	for (int i = 0; i < k->nlater; i++)
		if (last == NULL || fl_state_pos_cmp(&last->pos, &k->later[i].pos) < 0)
			last = &k->later[i];
	return last;
}

static void
fault(FlCompare *c, const text *key, const char *what, const Seen *expected, const FlStatePos *found)
{
	FlStateFault *f;
	MemoryContext old = MemoryContextSwitchTo(c->mcxt);

	if (c->result.nfaults == c->result.max_faults)
	{
		c->result.max_faults = Max(16, c->result.max_faults * 2);
		c->result.faults = c->result.faults ?
			repalloc_huge(c->result.faults, sizeof(FlStateFault) * c->result.max_faults) :
			palloc(sizeof(FlStateFault) * c->result.max_faults);
	}
	f = &c->result.faults[c->result.nfaults++];
	memset(f, 0, sizeof(*f));
	f->key = (text *) PG_DETOAST_DATUM_COPY(PointerGetDatum(key));
	f->what = what;
	f->has_row = found != NULL;
	if (found != NULL)
		f->found = *found;
	f->has_value = expected != NULL && !expected->cleared;
	if (expected != NULL)
		f->expected = expected->pos;
	MemoryContextSwitchTo(old);
}

static bool
is_older_than_history(const FlCompare *c, const FlStatePos *pos)
{
	return pos->shard >= 0 && pos->shard < c->nshards && pos->log_offset < c->head[pos->shard];
}

static bool
is_kept_here(const FlCompare *c, const text *key)
{
	const FlMount *m = fl_mount_match(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));

	return m != NULL && m->stream == c->stream && m->state == c->state;
}

static struct varlena *
column(TupleTableSlot *slot, int att)
{
	return slot->tts_isnull[att - 1] ? NULL : PG_DETOAST_DATUM_PACKED(slot->tts_values[att - 1]);
}

static void
judge_row(FlCompare *c, TupleTableSlot *slot)
{
	text	   *key = (text *) column(slot, FL_ST_KEY);
	FlStatePos	pos = {
		.ts = DatumGetTimestampTz(slot->tts_values[FL_ST_TS - 1]),
		.shard = DatumGetInt32(slot->tts_values[FL_ST_SHARD - 1]),
		.log_offset = DatumGetInt64(slot->tts_values[FL_ST_OFFSET - 1])
	};
	Key		   *k = find_key(c, key, false);
	bool		unknown = k == NULL || (!k->has_base && k->nlater == 0);

	if (k != NULL)
		k->row = true;
	if (k != NULL && k->pending)
		return;
	if (!is_kept_here(c, key))
		c->result.foreign++;
	else if (!unknown && is_implied(k, &pos, hash_value(column(slot, FL_ST_TENANT), column(slot, FL_ST_DEVICE),
														 column(slot, FL_ST_HEADERS), column(slot, FL_ST_PAYLOAD))))
		c->result.agree++;
	else if ((unknown || !k->has_base) && is_older_than_history(c, &pos))
		c->result.older++;
	else if (unknown)
		fault(c, key, "has a row, and no record implies one", NULL, &pos);
	else if (last_of(k)->cleared)
		fault(c, key, "has a row, and was cleared", last_of(k), &pos);
	else
		fault(c, key, fl_state_pos_cmp(&last_of(k)->pos, &pos) == 0 ? "has another value than its record" :
			  "has a row of another record than the last", last_of(k), &pos);
}

static void
judge_rows(FlCompare *c)
{
	Relation	rel = table_open(c->state, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TableScanDesc scan = table_beginscan(rel, c->snapshot, 0, NULL);
	MemoryContext row = AllocSetContextCreate(CurrentMemoryContext, "fleetlog compare row", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (DatumGetObjectId(slot->tts_values[FL_ST_STREAM - 1]) != c->stream)
			continue;
		old = MemoryContextSwitchTo(row);
		judge_row(c, slot);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(row);
	table_close(rel, AccessShareLock);
}

/* Keys that ought to have a row, and have none. */
static void
judge_missing(FlCompare *c)
{
	HASH_SEQ_STATUS all;
	Key		   *k;

	hash_seq_init(&all, c->keys);
	while ((k = hash_seq_search(&all)) != NULL)
	{
		bool		may_be_gone = !k->has_base || k->base.cleared;

		if (k->row || k->pending || (!k->has_base && k->nlater == 0))
			continue;
		for (int i = 0; i < k->nlater; i++)
			may_be_gone |= k->later[i].cleared;
		if (!may_be_gone)
			fault(c, k->key, "has no row, although its last record sets one", last_of(k), NULL);
		else
			c->result.agree++;
	}
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int64
visible_tail(Oid stream, int32 number)
{
	FlShard    *shard = fl_shard_find(stream, number);

	return shard != NULL ? (int64) pg_atomic_read_u64(&shard->visible_tail) : -1;
}

/*
 * The flushed tail of a shard, once it has reached what is visible now.  Flushed here is
 * enough, also where a quorum is asked for: nothing is handed out.
 */
static int64
settled_tail(Oid stream, int32 number)
{
	FlShard    *shard = fl_shard_find(stream, number);
	uint64		visible;

	if (shard == NULL)
	{
		/* Nobody has used it since the server started; of a quorum stream nothing is confirmed yet then. */
		int64		tail = fl_log_tail(stream, number);

		shard = fl_shard_find(stream, number);
		if (shard == NULL)
			return tail;
	}
	visible = pg_atomic_read_u64(&shard->visible_tail);
	for (int tries = 0; pg_atomic_read_u64(&shard->flushed_tail) < visible; tries++)
	{
		CHECK_FOR_INTERRUPTS();
		if (tries == FLUSH_TRIES)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("shard %d of stream \"%s\" is not flushed", number, get_rel_name(stream))));
		fl_flush_published();
	}
	return (int64) pg_atomic_read_u64(&shard->flushed_tail);
}

static void
read_tails(const FlCompare *c, int64 *tails)
{
	for (int32 i = 0; i < c->nshards; i++)
		tails[i] = settled_tail(c->stream, i);
}

/*
 * Everybody who may be seen has told his tail when nobody is in the window between the
 * two, or when the shard's tail has moved once since, because shards have one writer at
 * a time.
 */
void
fl_state_wait_for_writers(Oid stream, int nshards)
{
	int64	   *before = palloc(sizeof(int64) * Max(nshards, 1));

	for (int32 i = 0; i < nshards; i++)
		before[i] = visible_tail(stream, i);
	pg_memory_barrier();
	for (int32 i = 0; i < nshards; i++)
		while (pg_atomic_read_u32(&fl_shared->committing) > 0 && visible_tail(stream, i) == before[i])
		{
			CHECK_FOR_INTERRUPTS();
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
		}
	pfree(before);
}

static HTAB *
make_table(MemoryContext mcxt)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Digest);
	ctl.entrysize = sizeof(Key);
	ctl.hcxt = mcxt;
	return hash_create("fleetlog compare", 1024, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

FlCompareResult *
fl_state_compare(Oid state, Oid stream)
{
	MemoryContext mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog compare", ALLOCSET_DEFAULT_SIZES);
	FlCompare  *c = MemoryContextAllocZero(mcxt, sizeof(FlCompare));
	const FlStreamInfo *info = fl_stream_lookup(stream);

	c->mcxt = mcxt;
	c->state = state;
	c->stream = stream;
	c->nshards = info != NULL ? info->shards : 0;
	c->keys = make_table(mcxt);
	if (!pg_strong_random(c->seed, sizeof(c->seed)))
		elog(ERROR, "no random numbers to be had");
	c->head = MemoryContextAllocZero(mcxt, sizeof(int64) * Max(c->nshards, 1));
	c->cut = MemoryContextAllocZero(mcxt, sizeof(int64) * Max(c->nshards, 1));
	c->end = MemoryContextAllocZero(mcxt, sizeof(int64) * Max(c->nshards, 1));
	c->flushed = MemoryContextAllocZero(mcxt, sizeof(int64) * Max(c->nshards, 1));
	read_tails(c, c->cut);
	c->snapshot = RegisterSnapshot(GetLatestSnapshot());
	each_row(c, "state_flushed", 1, read_flushed);
	each_row(c, "state_pending", 2, read_pending);
	fl_state_wait_for_writers(c->stream, c->nshards);
	read_tails(c, c->end);
	for (int32 i = 0; i < c->nshards; i++)
	{
		c->head[i] = fl_log_head(stream, i);
		read_history(c, i);
	}
	judge_rows(c);
	judge_missing(c);
	UnregisterSnapshot(c->snapshot);
	return &c->result;
}
