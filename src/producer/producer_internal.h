/*-------------------------------------------------------------------------
 *
 * producer_internal.h
 *		What the files of src/producer share among themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_PRODUCER_INTERNAL_H
#define FL_PRODUCER_INTERNAL_H

#include "fleetlog/producers.h"

/* Hashed as bytes. */
typedef struct FlProducerKey
{
	FlShardKey	shard;
	uint32		zero;
	int64		id;
} FlProducerKey;

typedef struct FlProducerState
{
	FlProducerKey key;			/* hash key: must come first */
	FlProducerWindow window;
} FlProducerState;

extern int	fl_producer_expiration_s;	/* fleetlog.kafka_producer_expiration */

extern FlProducerKey fl_producer_key(const FlShardKey *shard, int64 id);

/* Has it been silent for so long, by the server's clock, that it is forgotten? */
extern bool fl_producer_is_expired(const FlProducerWindow *w);

/* ---- shared.c: the pool; each takes its lock ------------------------------------- */

/* What is committed; false: nothing is known. */
extern bool fl_producer_pool_get(const FlProducerKey *key, FlProducerWindow *w);

/* The least recently used goes where there is no room.  Cannot fail. */
extern void fl_producer_pool_put(const FlProducerKey *key, const FlProducerWindow *w);

/* Ids that producers are about to be given, and whether this id is one whose producer was never forgotten. */
extern void fl_producers_given(int64 first, int64 n);
extern bool fl_producer_is_fresh(int64 id);

/* Those of a shard, whose lock is held, palloc'd. */
extern FlProducerState *fl_producer_pool_copy(const FlShardKey *shard, int *n);

/* ---- snapshot.c --------------------------------------------------------------------- */

/* Bring what was left of the shard's producers into the pool. */
extern void fl_producers_load(FlShard *shard);

/* ---- check.c ------------------------------------------------------------------------ */

/* What this transaction has noted of the producer; NULL: nothing. */
extern const FlProducerWindow *fl_producer_noted(const FlProducerKey *key);

/* Call for each producer of the shard of which it has noted something. */
extern void fl_producer_each_noted(const FlShardKey *shard, void (*visit) (void *arg, const FlProducerState *state), void *arg);

#endif							/* FL_PRODUCER_INTERNAL_H */
