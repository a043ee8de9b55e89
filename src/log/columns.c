/*-------------------------------------------------------------------------
 *
 * columns.c
 *		Between records and rows: the ten columns of a stream (REQUIREMENTS L2)
 *		from a record, and a record from the columns of an INSERT or COPY.
 *
 * A record without headers has a NULL headers column; a key that is text is in
 * `key`, any other key in `key_bytes`, unchanged; a NULL payload (tombstone) is
 * not an empty one.  Times of the record itself have Kafka's resolution,
 * milliseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "fleetlog/utf8.h"
#include "log_private.h"

#define FL_US_PER_MS	INT64CONST(1000)

/* Milliseconds between 1970 (Kafka) and 2000 (PostgreSQL). */
#define FL_EPOCH_MS		(((int64) POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY * 1000)

static inline TimestampTz
ms_to_timestamptz(int64 ms)
{
	return (ms - FL_EPOCH_MS) * FL_US_PER_MS;
}

/* Put a varlena of `len` bytes at *p and move on, keeping alignment. */
static inline Datum
put_varlena(char **p, const uint8 *data, int32 len)
{
	char	   *v = *p;

	SET_VARSIZE(v, VARHDRSZ + len);
	if (len > 0)
		memcpy(v + VARHDRSZ, data, len);
	*p = v + MAXALIGN(VARHDRSZ + len);
	return PointerGetDatum(v);
}

static inline Size
varlena_room(int32 len)
{
	return len < 0 ? 0 : MAXALIGN(VARHDRSZ + len);
}

#define ROLE_HEADER		"fl.role"
#define ROLE_HEADER_LEN	(sizeof(ROLE_HEADER) - 1)
#define VARINT_MAX		5

Size
fl_record_headers_room(const FlLogRecord *rec)
{
	if (rec->headers_count == 0 && rec->role == NULL)
		return 0;
	return 1 + VARINT_MAX + rec->headers_len +
		(rec->role ? 2 * VARINT_MAX + ROLE_HEADER_LEN + rec->role_len : 0);
}

uint8 *
fl_record_put_headers(uint8 *p, const FlLogRecord *rec)
{
	int			more = rec->role ? 1 : 0;

	*p++ = (uint8) (rec->reserved + more);
	p = fl_put_varint(p, rec->headers_count + more);
	if (rec->role)
	{
		p = fl_put_varint(p, ROLE_HEADER_LEN);
		memcpy(p, ROLE_HEADER, ROLE_HEADER_LEN);
		p = fl_put_varint(p + ROLE_HEADER_LEN, rec->role_len);
		memcpy(p, rec->role, rec->role_len);
		p += rec->role_len;
	}
	if (rec->headers_len > 0)
		memcpy(p, rec->headers, rec->headers_len);
	return p + rec->headers_len;
}

static Datum
put_headers(char **p, const FlLogRecord *rec)
{
	char	   *v = *p;
	uint8	   *q = fl_record_put_headers((uint8 *) v + VARHDRSZ, rec);

	SET_VARSIZE(v, (char *) q - v);
	*p = v + MAXALIGN(VARSIZE(v));
	return PointerGetDatum(v);
}

static inline void
set_text(Datum *values, bool *isnull, int att, char **p, const uint8 *data, int32 len)
{
	isnull[att - 1] = len < 0;
	values[att - 1] = len < 0 ? (Datum) 0 : put_varlena(p, data, len);
}

/* Room for all varlena columns of a record, so that none of them moves when more are built. */
void
fl_columns_reserve(const FlLogRecord *rec, char **scratch, size_t *scratch_cap, MemoryContext mcxt)
{
	Size		need = varlena_room(rec->tenant_len) + varlena_room(rec->device_len) +
		varlena_room(rec->key_len) + varlena_room(rec->payload_len) +
		MAXALIGN(VARHDRSZ + fl_record_headers_room(rec));

	if (need <= *scratch_cap)
		return;
	if (*scratch)
		pfree(*scratch);
	*scratch = NULL;
	*scratch_cap = 0;
	*scratch = MemoryContextAllocHuge(mcxt, need + need / 4);
	*scratch_cap = need + need / 4;
}

/*
 * Columns behind number `have`, up to and with `upto` and those that come with
 * it, into the scratch from *p on.  Returns the number of the last one built.
 */
int
fl_columns_more(const FlLogRecord *rec, int have, int upto, char **p, Datum *values, bool *isnull)
{
	if (have < FL_ATT_CREATED)
	{
		isnull[FL_ATT_CREATED - 1] = rec->created_ms == FL_NO_TIMESTAMP;
		values[FL_ATT_CREATED - 1] = rec->created_ms == FL_NO_TIMESTAMP ? (Datum) 0 :
			TimestampTzGetDatum(ms_to_timestamptz(rec->created_ms));
		have = FL_ATT_CREATED;
	}
	if (have < FL_ATT_DEVICE && upto > have)
	{
		set_text(values, isnull, FL_ATT_TENANT, p, rec->tenant, rec->tenant_len);
		set_text(values, isnull, FL_ATT_DEVICE, p, rec->device, rec->device_len);
		have = FL_ATT_DEVICE;
	}
	if (have < FL_ATT_KEY_BYTES && upto > have)
	{
		bool		is_text = rec->key_len >= 0 && fl_utf8_valid_text(rec->key, rec->key_len);

		set_text(values, isnull, FL_ATT_KEY, p, rec->key, is_text ? rec->key_len : -1);
		set_text(values, isnull, FL_ATT_KEY_BYTES, p, rec->key, is_text ? -1 : rec->key_len);
		have = FL_ATT_KEY_BYTES;
	}
	if (have < FL_ATT_HEADERS && upto > have)
	{
		isnull[FL_ATT_HEADERS - 1] = fl_record_headers_room(rec) == 0;
		values[FL_ATT_HEADERS - 1] = isnull[FL_ATT_HEADERS - 1] ? (Datum) 0 : put_headers(p, rec);
		have = FL_ATT_HEADERS;
	}
	if (have < FL_ATT_PAYLOAD && upto > have)
	{
		set_text(values, isnull, FL_ATT_PAYLOAD, p, rec->payload, rec->payload_len);
		have = FL_ATT_PAYLOAD;
	}
	return have;
}

void
fl_columns_build(const FlLogRecord *rec, int32 shard, int from, int upto,
				 char **scratch, size_t *scratch_cap, MemoryContext mcxt,
				 Datum *values, bool *isnull)
{
	char	   *p;

	if (from < FL_ATT_CREATED)
	{
		values[FL_ATT_SHARD - 1] = Int32GetDatum(shard);
		values[FL_ATT_OFFSET - 1] = Int64GetDatum(rec->log_offset);
		values[FL_ATT_TS - 1] = TimestampTzGetDatum(rec->ts);
		isnull[FL_ATT_SHARD - 1] = isnull[FL_ATT_OFFSET - 1] = isnull[FL_ATT_TS - 1] = false;
	}
	if (upto < FL_ATT_CREATED)
		return;
	fl_columns_reserve(rec, scratch, scratch_cap, mcxt);
	p = *scratch;
	(void) fl_columns_more(rec, FL_ATT_TS, upto, &p, values, isnull);
}

/* ---- rows to records --------------------------------------------------------- */

void
fl_headers_with_sender(FlBuf *out, int *reserved, const char *tenant, int32 tenant_len,
					   const char *device, int32 device_len,
					   int in_reserved, const uint8 *kafka, size_t kafka_len)
{
	FlHeadersBuilder b;
	FlHeaderIter it;
	FlHeader	h;
	FlResult	res;

	fl_headers_builder_begin(&b, out);
	if (tenant)
		fl_headers_builder_add_reserved(&b, "fl.tenant", 9, tenant, tenant_len);
	if (device)
		fl_headers_builder_add_reserved(&b, "fl.device", 9, device, device_len);
	if (kafka)
	{
		fl_header_iter_init_kafka(&it, (uint8) in_reserved, kafka, kafka_len);
		while (fl_header_iter_next(&it, &h))
		{
			if (h.is_reserved)
				fl_headers_builder_add_reserved(&b, h.name, h.name_len, h.value, h.value_len);
			else
				fl_headers_builder_add(&b, h.name, h.name_len, h.value, h.value_len);
		}
	}
	*reserved = b.reserved;
	res = fl_headers_builder_end(&b);
	if (res != FL_OK)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("record headers are too large or malformed"),
				 errdetail("A record takes at most %d headers, %d of them reserved.",
						   FL_HEADERS_MAX_COUNT, FL_HEADERS_MAX_RESERVED)));
}

/* Does one of the reserved headers claim what only an import may say (fl.*)? */
static bool
claims_reserved(int reserved, const uint8 *kafka, size_t len)
{
	FlHeaderIter it;
	FlHeader	h;

	fl_header_iter_init_kafka(&it, (uint8) reserved, kafka, len);
	while (fl_header_iter_next(&it, &h) && h.is_reserved)
		if (h.name_len >= 3 && memcmp(h.name, "fl.", 3) == 0)
			return true;
	return false;
}

static struct varlena *
flat(Datum d)
{
	/* Never keep a pointer into another table's TOAST, or an expanded object. */
	return pg_detoast_datum_packed((struct varlena *) DatumGetPointer(d));
}

void
fl_row_from_slot(TupleTableSlot *slot, FlRow *row)
{
	Datum	   *v;
	bool	   *n;
	struct varlena *tenant,
			   *device,
			   *d;
	FlBuf		buf;

	slot_getallattrs(slot);
	v = slot->tts_values - 1;
	n = slot->tts_isnull - 1;

	if (n[FL_ATT_SHARD] || n[FL_ATT_OFFSET])
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("shard and log_offset of a record must be given"),
				 errhint("Use fleetlog.append(), which finds shard and offset itself.")));
	row->shard = DatumGetInt32(v[FL_ATT_SHARD]);
	row->log_offset = DatumGetInt64(v[FL_ATT_OFFSET]);
	row->has_ts = !n[FL_ATT_TS];
	row->ts = row->has_ts ? DatumGetTimestampTz(v[FL_ATT_TS]) : 0;
	if (row->has_ts && TIMESTAMP_NOT_FINITE(row->ts))
		ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
						errmsg("append time of a record must be finite")));

	row->created_ms = FL_NO_TIMESTAMP;
	if (!n[FL_ATT_CREATED])
	{
		TimestampTz c = DatumGetTimestampTz(v[FL_ATT_CREATED]);

		if (TIMESTAMP_NOT_FINITE(c) || c < ms_to_timestamptz(0))
			ereport(ERROR,
					(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
					 errmsg("time of a record must be finite and not before 1970"),
					 errhint("Leave \"created\" NULL when the device gave no time.")));
		row->created_ms = c / FL_US_PER_MS + FL_EPOCH_MS;
		if (c % FL_US_PER_MS < 0)
			row->created_ms--;
	}

	if (!n[FL_ATT_KEY] && !n[FL_ATT_KEY_BYTES])
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a record has either key or key_bytes, not both")));
	row->key = NULL;
	row->key_len = -1;
	if (!n[FL_ATT_KEY] || !n[FL_ATT_KEY_BYTES])
	{
		d = flat(n[FL_ATT_KEY] ? v[FL_ATT_KEY_BYTES] : v[FL_ATT_KEY]);
		row->key = (uint8 *) VARDATA_ANY(d);
		row->key_len = VARSIZE_ANY_EXHDR(d);
	}
	row->payload = NULL;
	row->payload_len = -1;
	if (!n[FL_ATT_PAYLOAD])
	{
		d = flat(v[FL_ATT_PAYLOAD]);
		row->payload = (uint8 *) VARDATA_ANY(d);
		row->payload_len = VARSIZE_ANY_EXHDR(d);
	}

	tenant = n[FL_ATT_TENANT] ? NULL : flat(v[FL_ATT_TENANT]);
	device = n[FL_ATT_DEVICE] ? NULL : flat(v[FL_ATT_DEVICE]);
	row->claims_identity = tenant != NULL || device != NULL;
	row->reserved = 0;
	row->headers = NULL;
	row->headers_len = 0;
	d = n[FL_ATT_HEADERS] ? NULL : flat(v[FL_ATT_HEADERS]);
	if (d)
	{
		row->reserved = ((uint8 *) VARDATA_ANY(d))[0];
		row->headers = (uint8 *) VARDATA_ANY(d) + 1;
		row->headers_len = VARSIZE_ANY_EXHDR(d) - 1;
		if (row->reserved > 0 && claims_reserved(row->reserved, row->headers, row->headers_len))
			row->claims_identity = true;
	}
	if (tenant || device)
	{
		fl_buf_init(&buf, &fl_palloc_allocator, MaxAllocSize);
		fl_headers_with_sender(&buf, &row->reserved,
							   tenant ? VARDATA_ANY(tenant) : NULL,
							   tenant ? (int32) VARSIZE_ANY_EXHDR(tenant) : -1,
							   device ? VARDATA_ANY(device) : NULL,
							   device ? (int32) VARSIZE_ANY_EXHDR(device) : -1,
							   row->reserved, row->headers, row->headers_len);
		row->headers = buf.data + 1;
		row->headers_len = (int32) buf.len - 1;
	}
}

/* ---- the fixed column layout ---------------------------------------------------- */

static Oid
headers_type_oid(void)
{
	Oid			nsp = get_namespace_oid("fleetlog", true);

	if (!OidIsValid(nsp))
		return InvalidOid;
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
						   CStringGetDatum("headers"), ObjectIdGetDatum(nsp));
}

/*
 * Logical decoding builds rows without the catalog, so a segment must have
 * exactly these columns.  Called when a segment is created and when it is
 * written to.
 */
void
fl_check_descriptor(Relation rel)
{
	static const Oid fixed[FL_NATTS] = {
		INT4OID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TEXTOID,
		BYTEAOID, InvalidOid, BYTEAOID
	};
	TupleDesc	desc = RelationGetDescr(rel);
	bool		ok = desc->natts == FL_NATTS;

	for (int i = 0; ok && i < FL_NATTS; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Oid			want = i == FL_ATT_HEADERS - 1 ? headers_type_oid() : fixed[i];

		ok = !att->attisdropped && att->atttypid == want && !att->attgenerated;
	}
	if (!ok)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a table with access method fleetlog_log must have the columns of a stream"),
				 errdetail("They are: shard int, log_offset bigint, ts timestamptz, created timestamptz, tenant text, device text, key text, key_bytes bytea, headers fleetlog.headers, payload bytea."),
				 errhint("Create streams with fleetlog.create_stream().")));
}
