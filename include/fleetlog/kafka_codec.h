/*-------------------------------------------------------------------------
 *
 * kafka_codec.h
 *	  Kafka's messages as C structs: tables, decoder, encoder, framing.
 *
 * Every message of every version is described by committed tables that
 * script/kafka-messages.py generates from the published definitions (kafka_apis.h
 * and kafka_{session,data,group,admin}.h: one struct a message, one function
 * each to decode, to encode and to set defaults).  This header is what they
 * stand on; docs/design/kafka.md says why it is built so.
 *
 * Memory: decoding allocates nothing.  A decoded struct borrows strings from
 * the input, and an array in it is a cursor over the input:
 *
 *		FlKafkaFetchRequest req;
 *		FlKafkaFetchTopic topic;
 *
 *		if (fl_kafka_decode_fetch_request(version, body, len, &req) != FL_OK) ...
 *		while (fl_kafka_next(&req.topics, &topic))
 *			...
 *
 * Decoding walks the whole message, nested arrays included, before it says
 * FL_OK, so that later steps of the cursors cannot fail.  Copying an array
 * member copies its place; fl_kafka_rewind begins again.
 *
 * For encoding the caller points arrays at structs of its own
 * (fl_kafka_set_items); a decoded array can be encoded as it is.
 *
 * A field that the version in hand lacks has its default after decoding, and
 * is left out when encoding, whatever it holds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_KAFKA_CODEC_H
#define FLEETLOG_KAFKA_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleetlog/cursor.h"
#include "fleetlog/result.h"

/*
 * Elements of all arrays of one message together; more is FL_TOO_LARGE.  It
 * bounds the work that a frame of cheap empty elements can ask for.
 */
#define FL_KAFKA_MAX_ITEMS (1 << 20)

/* Largest C struct of an array's element; the tables are checked against it. */
#define FL_KAFKA_STRUCT_MAX 512

/* Version of a message that has no flexible versions. */
#define FL_KAFKA_NEVER 127

/* ---------- values ---------- */

/* A string (UTF-8 by promise, not checked) or bytes; len -1 is null. */
typedef struct FlKafkaBytes
{
	const uint8_t *data;
	int32_t len;
} FlKafkaBytes;

/*
 * Record batches.  For encoding either data, or a function that is told where they
 * belong, the length of the buffer when they are due: then whoever sends the message
 * puts len bytes there, so that batches are not copied once more.  Decoding sets data.
 */
typedef struct FlKafkaRecords
{
	const uint8_t *data;
	int32_t len; /* -1 is null */
	void (*place)(void *arg, size_t at);
	void *arg;
} FlKafkaRecords;

typedef struct FlKafkaUuid
{
	uint8_t bytes[16]; /* as on the wire; all zero: none */
} FlKafkaUuid;

struct FlKafkaField;
struct FlKafkaStruct;

/* The untyped part of an array member; see FL_KAFKA_ARRAY. */
typedef struct FlKafkaArray
{
	const void *items; /* the caller's structs, or NULL: a cursor over input */
	const struct FlKafkaField *field;
	const uint8_t *pos; /* next element */
	const uint8_t *end;
	const uint8_t *start;
	int32_t count; /* -1 is null */
	int32_t left;  /* elements not yet taken by fl_kafka_next */
	int8_t version;
	bool flexible;
} FlKafkaArray;

/* The second member is never stored to: it gives the macros below the type. */
#define FL_KAFKA_ARRAY(type)                                                                                           \
	union                                                                                                              \
	{                                                                                                                  \
		FlKafkaArray array;                                                                                            \
		const type *of;                                                                                                \
	}

/* True and *item filled, or false at the end.  Both arguments are pointers. */
#define fl_kafka_next(member, item)                                                                                    \
	((void) sizeof((member)->of == (item)), fl_kafka_array_next(&(member)->array, (item), sizeof(*(item))))

#define fl_kafka_rewind(member) fl_kafka_array_rewind(&(member)->array)

/* Number of elements; 0 where is_null. */
#define fl_kafka_count(member)   ((member)->array.count > 0 ? (member)->array.count : 0)
#define fl_kafka_is_null(member) ((member)->array.count < 0)

/* Borrows n structs until encoding is done; n -1 makes a null. */
#define fl_kafka_set_items(member, first, n)                                                                           \
	((void) sizeof((member)->of == (first)), fl_kafka_array_set(&(member)->array, (first), (n)))

extern bool fl_kafka_array_next(FlKafkaArray *a, void *item, size_t item_size);
extern void fl_kafka_array_rewind(FlKafkaArray *a);
extern void fl_kafka_array_set(FlKafkaArray *a, const void *items, int32_t count);

/* A string of C's, borrowed; NULL is null. */
extern FlKafkaBytes fl_kafka_string(const char *s);

static inline FlKafkaBytes
fl_kafka_bytes(const void *data, int32_t len)
{
	FlKafkaBytes b = {(const uint8_t *) data, len};

	return b;
}

extern bool fl_kafka_string_is(FlKafkaBytes s, const char *text);

/* ---------- tables ---------- */

typedef enum FlKafkaKind
{
	FL_KAFKA_BOOL,
	FL_KAFKA_INT8,
	FL_KAFKA_INT16,
	FL_KAFKA_INT32,
	FL_KAFKA_INT64,
	FL_KAFKA_UUID,
	FL_KAFKA_STRING,
	FL_KAFKA_BYTES,
	FL_KAFKA_RECORDS,
	FL_KAFKA_STRUCT
} FlKafkaKind;

/* Versions from .. to; never when from > to. */
typedef struct FlKafkaVersions
{
	int8_t from;
	int8_t to;
} FlKafkaVersions;

#define FL_KAFKA_NO_TAG     (-1)
#define FL_KAFKA_NO_PRESENT UINT16_MAX

typedef struct FlKafkaField
{
	const char *name;                 /* as published */
	const struct FlKafkaStruct *type; /* of FL_KAFKA_STRUCT */
	int64_t default_value;            /* of numbers; others: 1 means null */
	uint16_t offset;                  /* of the C member */
	uint16_t present;                 /* of the member that says whether a nullable struct is there */
	uint8_t kind;                     /* FlKafkaKind, of an array its elements' */
	bool is_array;
	int8_t tag; /* or FL_KAFKA_NO_TAG */
	FlKafkaVersions versions;
	FlKafkaVersions nullable;
} FlKafkaField;

/* Tagged fields come last, by tag. */
typedef struct FlKafkaStruct
{
	const char *name;
	const FlKafkaField *fields;
	uint16_t count;
	uint16_t size; /* of the C struct */
} FlKafkaStruct;

typedef struct FlKafkaMessage
{
	const FlKafkaStruct *root;
	int8_t from; /* versions that the tables know */
	int8_t to;
	int8_t flexible; /* first flexible version, or FL_KAFKA_NEVER */
} FlKafkaMessage;

typedef struct FlKafkaApi
{
	const char *name;
	const FlKafkaMessage *request;
	const FlKafkaMessage *response;
	int16_t key;
	int8_t announced; /* lowest version in ApiVersions' answer: Produce says 0 and refuses 0-2 */
	int8_t from;      /* versions that are served */
	int8_t to;
} FlKafkaApi;

/* The API of a key, or NULL. */
extern const FlKafkaApi *fl_kafka_api(int16_t key);

/* ---------- messages ---------- */

/*
 * FL_OK: *out is filled and all of data was used.  FL_UNSUPPORTED: a version
 * that the table does not know.  FL_MALFORMED, FL_TOO_LARGE: *out is undefined.
 */
extern FlResult fl_kafka_decode(const FlKafkaMessage *m, int16_t version, const uint8_t *data, size_t len, void *out);

/* The same, but bytes behind the message are no error: *left says how many there are. */
extern FlResult fl_kafka_decode_request(const FlKafkaMessage *m, int16_t version, const uint8_t *data, size_t len,
										void *out, size_t *left);

/*
 * Appends the message.  FL_MALFORMED: null where the version allows none, a
 * string beyond 32,767 bytes in a version that cannot carry it.  FL_TOO_LARGE: beyond
 * the buffer's limit.  Unless FL_OK, out is as before.
 */
extern FlResult fl_kafka_encode(const FlKafkaMessage *m, int16_t version, const void *in, FlBuf *out);

/* Default values in all members; arrays are empty (or null by default). */
extern void fl_kafka_init(const FlKafkaMessage *m, void *out);
extern void fl_kafka_init_struct(const FlKafkaStruct *s, void *out);

/* The three above for one message, with its type.  Generated headers use it. */
#define FL_KAFKA_DECLARE_MESSAGE(name, type)                                                                           \
	extern const FlKafkaMessage fl_kafka_##name;                                                                       \
                                                                                                                       \
	static inline FlResult fl_kafka_decode_##name(int16_t version, const uint8_t *data, size_t len, type *out)         \
	{                                                                                                                  \
		return fl_kafka_decode(&fl_kafka_##name, version, data, len, out);                                             \
	}                                                                                                                  \
                                                                                                                       \
	static inline FlResult fl_kafka_encode_##name(int16_t version, const type *in, FlBuf *out)                         \
	{                                                                                                                  \
		return fl_kafka_encode(&fl_kafka_##name, version, in, out);                                                    \
	}                                                                                                                  \
                                                                                                                       \
	static inline void fl_kafka_init_##name(type *out)                                                                 \
	{                                                                                                                  \
		fl_kafka_init(&fl_kafka_##name, out);                                                                          \
	}

/* The same for a struct that is an array's element: defaults only. */
#define FL_KAFKA_DECLARE_STRUCT(name, type)                                                                            \
	extern const FlKafkaStruct fl_kafka_struct_##name;                                                                 \
                                                                                                                       \
	static inline void fl_kafka_init_##name(type *out)                                                                 \
	{                                                                                                                  \
		fl_kafka_init_struct(&fl_kafka_struct_##name, out);                                                            \
	}

/* ---------- frames and headers ---------- */

#define FL_KAFKA_FRAME_HEADER 4

/*
 * How long the frame at data is: *size is its payload, behind the four bytes of
 * the length.  FL_INCOMPLETE: the length itself is not there yet, or (*size is
 * set) the payload.  FL_MALFORMED: a negative length; FL_TOO_LARGE: beyond max,
 * known from the first four bytes, so that nothing of it is ever buffered.
 */
extern FlResult fl_kafka_decode_frame(const uint8_t *data, size_t len, size_t max, size_t *size);

typedef struct FlKafkaRequestHeader
{
	const FlKafkaApi *api; /* NULL: a key that we do not know */
	int16_t key;
	int16_t version;
	int32_t correlation_id;
	FlKafkaBytes client_id; /* borrowed; may be null */
	size_t body_at;         /* where the request itself begins */
} FlKafkaRequestHeader;

/*
 * The header of a request (version 1 or 2, as key and version want it) at the
 * start of a frame's payload.  FL_UNSUPPORTED: unknown key, or a version that
 * is not served; key, version, correlation id and api are set, the rest is not.
 * An ApiVersions request is then to be answered by
 * fl_kafka_encode_api_versions_fallback, anything else by closing.
 */
extern FlResult fl_kafka_decode_request_header(const uint8_t *data, size_t len, FlKafkaRequestHeader *h);

/* Writes one too: clients of ours and tests. */
extern FlResult fl_kafka_encode_request_header(const FlKafkaApi *api, int16_t version, int32_t correlation_id,
											   FlKafkaBytes client_id, FlBuf *out);

/*
 * An answer: room for the frame's length, and the header (version 0, 1 where
 * flexible, but 0 always for ApiVersions).  The body follows by
 * fl_kafka_encode; fl_kafka_end_response then sets the length, with so many
 * bytes that are placed into it when it is sent.  Returns where the frame begins
 * in out.
 */
extern size_t fl_kafka_begin_response(const FlKafkaApi *api, int16_t version, int32_t correlation_id, FlBuf *out);
extern FlResult fl_kafka_end_response(size_t start, size_t placed, FlBuf *out);

/*
 * The whole frame that answers an ApiVersions request of a version that we do
 * not know: in version 0, error 35, with the range of ApiVersions itself.
 */
extern FlResult fl_kafka_encode_api_versions_fallback(int32_t correlation_id, FlBuf *out);

#endif /* FLEETLOG_KAFKA_CODEC_H */
