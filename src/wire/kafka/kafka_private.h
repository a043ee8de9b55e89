/*-------------------------------------------------------------------------
 *
 * kafka_private.h
 *	  What decoder, encoder and generated tables share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KAFKA_PRIVATE_H
#define KAFKA_PRIVATE_H

#include "fleetlog/kafka_codec.h"

static inline bool
fl_kafka_has(FlKafkaVersions v, int8_t version)
{
	return version >= v.from && version <= v.to;
}

/* Bytes of a value that always has as many, else 0. */
static inline size_t
fl_kafka_fixed_size(uint8_t kind)
{
	static const uint8_t sizes[] = {[FL_KAFKA_BOOL] = 1,  [FL_KAFKA_INT8] = 1,  [FL_KAFKA_INT16] = 2,
									[FL_KAFKA_INT32] = 4, [FL_KAFKA_INT64] = 8, [FL_KAFKA_UUID] = 16};

	return kind <= FL_KAFKA_UUID ? sizes[kind] : 0;
}

/* Tags are below 32: the generator checks it. */
static inline const FlKafkaField *
fl_kafka_find_tag(const FlKafkaStruct *s, uint32_t tag, int8_t version)
{
	for (int i = s->count - 1; i >= 0 && s->fields[i].tag != FL_KAFKA_NO_TAG; i--)
		if ((uint32_t) s->fields[i].tag == tag)
			return fl_kafka_has(s->fields[i].versions, version) ? &s->fields[i] : NULL;
	return NULL;
}

/* The default of one field, in the struct at out. */
extern void fl_kafka_init_field(const FlKafkaField *f, void *out);

/* A table's row; present is FL_KAFKA_NO_PRESENT or the offset of the flag of a nullable struct. */
#define FL_KAFKA_FIELD(owner, member, published, kind, is_array, type, present, from, to, null_from, null_to, tag,     \
					   value)                                                                                          \
	{                                                                                                                  \
		published, type, value, offsetof(owner, member), present, kind, is_array, tag, {from, to},                     \
		{                                                                                                              \
			null_from, null_to                                                                                         \
		}                                                                                                              \
	}

#define FL_KAFKA_FIELDS(fields) fields, (uint16_t) (sizeof(fields) / sizeof((fields)[0]))

#endif /* KAFKA_PRIVATE_H */
