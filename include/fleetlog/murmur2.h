/*-------------------------------------------------------------------------
 *
 * murmur2.h
 *	  Kafka's default partitioner (requirement P1): murmur2 of the key bytes,
 *	  made positive, modulo the number of shards.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_MURMUR2_H
#define FLEETLOG_MURMUR2_H

#include <stddef.h>
#include <stdint.h>

/* The hash that Kafka's Java client computes (its int, seen as unsigned). */
extern uint32_t fl_murmur2(const uint8_t *data, size_t len);

/*
 * The shard, 0 .. shards - 1, of a key. shards must be at least 1; the caller
 * decides itself where a record without a key goes.
 */
extern int fl_partition(const uint8_t *key, size_t len, int shards);

/* The same from the key's hash, for whoever learns the number of shards later. */
static inline int
fl_partition_of_hash(uint32_t hash, int shards)
{
	/* Kafka's toPositive masks the sign bit, it does not take the absolute. */
	return (int) ((hash & UINT32_C(0x7fffffff)) % (uint32_t) shards);
}

#endif /* FLEETLOG_MURMUR2_H */
