/*-------------------------------------------------------------------------
 *
 * murmur2.c
 *	  The murmur2 variant of Kafka's default partitioner.
 *
 * MurmurHash2 is Austin Appleby's public-domain function; Kafka fixes its
 * seed.  Java's ints wrap and its >>> is a logical shift, so unsigned
 * arithmetic gives the same bits.
 *
 * Called at every door that chooses a shard (requirement P1).  Must never
 * change: a key would move to another shard.
 *
 *-------------------------------------------------------------------------
 */
#include "fleetlog/murmur2.h"

#include "fleetlog/cursor.h"

#define FL_MURMUR2_SEED UINT32_C(0x9747b28c)
#define FL_MURMUR2_M    UINT32_C(0x5bd1e995)
#define FL_MURMUR2_R    24

uint32_t
fl_murmur2(const uint8_t *data, size_t len)
{
	uint32_t h = FL_MURMUR2_SEED ^ (uint32_t) len;
	size_t whole = len & ~(size_t) 3;

	for (size_t i = 0; i < whole; i += 4)
	{
		uint32_t k = fl_get_le32(data + i);

		k *= FL_MURMUR2_M;
		k ^= k >> FL_MURMUR2_R;
		k *= FL_MURMUR2_M;
		h *= FL_MURMUR2_M;
		h ^= k;
	}

	switch (len & 3)
	{
		case 3:
			h ^= (uint32_t) data[whole + 2] << 16;
			/* FALLTHROUGH */
		case 2:
			h ^= (uint32_t) data[whole + 1] << 8;
			/* FALLTHROUGH */
		case 1:
			h ^= data[whole];
			h *= FL_MURMUR2_M;
	}

	h ^= h >> 13;
	h *= FL_MURMUR2_M;
	h ^= h >> 15;
	return h;
}

int
fl_partition(const uint8_t *key, size_t len, int shards)
{
	return fl_partition_of_hash(fl_murmur2(key, len), shards);
}
