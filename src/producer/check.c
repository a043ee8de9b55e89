/*-------------------------------------------------------------------------
 *
 * check.c
 *		A producer's batch where it is appended: is it new, and what is known of its
 *		producer once it is written (the rule is told in fleetlog/producers.h).
 *
 * What a transaction has written is noted in a table of this process.  The commit
 * callback moves it into the pool, the abort callback throws it away.  Appenders and
 * doors use no subtransactions, and SQL does not write producers' own batches, so
 * a rolled back savepoint has nothing noted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "fleetlog/log.h"
#include "producer_internal.h"

/* Keyed as the pool is. */
typedef struct Noted
{
	FlProducerState state;
	FlShard    *shard;
} Noted;

/* A shard whose row this transaction has made. */
typedef struct Begun
{
	FlShard    *shard;
	FlShardKey	key;
} Begun;

static HTAB *noted = NULL;		/* of the transaction; kept for the next one */
static Begun *begun = NULL;
static int	n_begun = 0;
static int	max_begun = 0;

/* ---- what is noted ------------------------------------------------------------ */

static void
create_table(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(FlProducerKey);
	ctl.entrysize = sizeof(Noted);
	ctl.hcxt = TopMemoryContext;
	noted = hash_create("fleetlog producers of a transaction", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static bool
has_noted(void)
{
	return noted != NULL && hash_get_num_entries(noted) > 0;
}

const FlProducerWindow *
fl_producer_noted(const FlProducerKey *key)
{
	Noted	   *n = has_noted() ? hash_search(noted, key, HASH_FIND, NULL) : NULL;

	return n != NULL ? &n->state.window : NULL;
}

void
fl_producer_each_noted(const FlShardKey *shard, void (*visit) (void *arg, const FlProducerState *state), void *arg)
{
	HASH_SEQ_STATUS scan;
	Noted	   *n;

	if (!has_noted())
		return;
	hash_seq_init(&scan, noted);
	while ((n = hash_seq_search(&scan)) != NULL)
		if (memcmp(&n->state.key.shard, shard, sizeof(*shard)) == 0)
			visit(arg, &n->state);
}

/* The entry may serve another shard by now, where the stream was dropped. */
static bool
same_shard(const FlShard *shard, const FlShardKey *key)
{
	return memcmp(&shard->key, key, sizeof(*key)) == 0;
}

static void
end_of_transaction(bool committed)
{
	HASH_SEQ_STATUS scan;
	Noted	   *n;

	if (has_noted())
	{
		hash_seq_init(&scan, noted);
		while ((n = hash_seq_search(&scan)) != NULL)
		{
			if (committed && same_shard(n->shard, &n->state.key.shard))
				fl_producer_pool_put(&n->state.key, &n->state.window);
			hash_search(noted, &n->state.key, HASH_REMOVE, NULL);
		}
	}
	for (int i = 0; i < n_begun; i++)
		if (committed && same_shard(begun[i].shard, &begun[i].key))
			begun[i].shard->producers_have_row = true;
	n_begun = 0;
}

/* In the commit, before the locks go. */
static void
xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT)
		end_of_transaction(true);
	else if (event == XACT_EVENT_ABORT)
		end_of_transaction(false);
}

void
fl_producers_callbacks_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

/* ---- the check ------------------------------------------------------------------ */

/* False: it was known, and is so no more. */
static bool
find_window(const FlShard *shard, int64 id, FlProducerWindow *w)
{
	FlProducerKey key = fl_producer_key(&shard->key, id);
	const FlProducerWindow *mine = fl_producer_noted(&key);
	bool		known = mine != NULL;
	bool		expired = false;

	if (known)
		*w = *mine;
	else
	{
		known = fl_producer_pool_get(&key, w);
		expired = known && fl_producer_is_expired(w);
	}
	if (!known || expired)
		memset(w, 0, sizeof(*w));
	return !expired;
}

/*
 * Of a producer that this shard cannot have forgotten nothing is known: it has
 * written nothing here, and begins with 0.  Anything else stands behind a batch that
 * has failed and will come again; written before it, it would be taken by clients for
 * the proof that the other was written, too.
 */
static bool
is_behind_failure(const FlProducerWindow *w, const FlBatchInfo *batch)
{
	return w->n == 0 && batch->base_sequence != 0 && fl_producer_is_fresh(batch->producer_id);
}

FlError
fl_producers_check(FlShard *shard, const FlBatchInfo *batch, bool *write, FlOriginal *original)
{
	FlProducerWindow w;

	*write = true;
	if (batch->producer_id < 0)
		return FL_ERR_NONE;
	if (!shard->producers_known)
		fl_producers_load(shard);
	if (find_window(shard, batch->producer_id, &w) && is_behind_failure(&w, batch))
		return FL_ERR_STALE_PRODUCER;
	switch (fl_producer_check(&w, batch->producer_epoch, batch->base_sequence, batch->record_count,
							  &original->base_offset, &original->ts))
	{
		case FL_PRODUCER_NEXT:
			return FL_ERR_NONE;
		case FL_PRODUCER_DUPLICATE:
			*write = false;
			return FL_ERR_NONE;
		case FL_PRODUCER_OLD:
			return FL_ERR_OLD_DUPLICATE;
		case FL_PRODUCER_GAP:
			return FL_ERR_STALE_PRODUCER;
		case FL_PRODUCER_FENCED:
			return FL_ERR_FENCED_PRODUCER;
	}
	return FL_ERR_INTERNAL;
}

static bool
has_begun(const FlShard *shard)
{
	for (int i = 0; i < n_begun; i++)
		if (begun[i].shard == shard)
			return true;
	return false;
}

void
fl_producers_begin(FlShard *shard)
{
	if (shard->producers_have_row || has_begun(shard))
		return;
	if (n_begun == max_begun)
	{
		int			n = Max(16, max_begun * 2);

		begun = begun ? repalloc(begun, sizeof(Begun) * n) : MemoryContextAlloc(TopMemoryContext, sizeof(Begun) * n);
		max_begun = n;
	}
	fl_producer_row_write(shard->key.stream, shard->key.shard, fl_log_next_offset(shard), NULL, 0);
	begun[n_begun++] = (Begun) {.shard = shard,.key = shard->key};
}

void
fl_producers_note(FlShard *shard, const FlBatchInfo *batch, int64 base_offset, TimestampTz ts)
{
	FlProducerKey key = fl_producer_key(&shard->key, batch->producer_id);
	FlProducerWindow w;
	Noted	   *n;

	if (noted == NULL)
		create_table();
	(void) find_window(shard, batch->producer_id, &w);
	fl_producer_note(&w, batch->producer_epoch, batch->base_sequence, batch->record_count, base_offset, ts);
	n = hash_search(noted, &key, HASH_ENTER, NULL);
	n->state.window = w;
	n->shard = shard;
}
