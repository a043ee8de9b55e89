/*-------------------------------------------------------------------------
 *
 * event.c
 *		Events of a watch as JSON lines and as binary messages, and from rows of a
 *		state table.
 *
 * JSON has one object a line with the names that watch() uses for its columns
 * (API.md).  A payload that is text is "payload", another one
 * "payload_base64"; times are UTC.  Nothing here reads a catalog table of ours:
 * the output plugin works under a historic snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "event.h"
#include "fleetlog/base64.h"
#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "fleetlog/utf8.h"

PG_FUNCTION_INFO_V1(fl_sql_watch_json);

extern Datum fl_sql_headers_to_jsonb(PG_FUNCTION_ARGS);

const char *
fl_watch_kind_name(FlWatchKind kind)
{
	switch (kind)
	{
		case FL_WATCH_BEGIN_SNAPSHOT:
			return "begin-snapshot";
		case FL_WATCH_ROW:
			return "row";
		case FL_WATCH_END_SNAPSHOT:
			return "end-snapshot";
		case FL_WATCH_SET:
			return "set";
		case FL_WATCH_CLEAR:
			return "clear";
		case FL_WATCH_PROGRESS:
			return "progress";
	}
	return "unknown";
}

/* ---- JSON ----------------------------------------------------------------------- */

static void
put_string(StringInfo out, const uint8 *data, int32 len)
{
	char	   *text = pnstrdup((const char *) data, len);

	escape_json(out, text);
	pfree(text);
}

static void
put_payload(StringInfo out, const FlWatchEvent *e)
{
	if (e->unchanged)
		appendStringInfoString(out, ",\"payload_unchanged\":true");
	else if (e->payload_len < 0)
		appendStringInfoString(out, ",\"payload\":null");
	else if (fl_utf8_valid_text(e->payload, e->payload_len))
	{
		appendStringInfoString(out, ",\"payload\":");
		put_string(out, e->payload, e->payload_len);
	}
	else
	{
		int			size = (int) fl_base64_size(e->payload_len);

		appendStringInfoString(out, ",\"payload_base64\":\"");
		enlargeStringInfo(out, size + 1);
		fl_base64_encode(out->data + out->len, e->payload, e->payload_len);
		out->len += size;
		out->data[out->len] = '\0';
		appendStringInfoChar(out, '"');
	}
}

static void
put_headers(StringInfo out, const FlWatchEvent *e)
{
	bytea	   *v;
	Datum		json;

	if (e->headers_len <= 0)
		return;
	v = palloc(VARHDRSZ + e->headers_len);
	SET_VARSIZE(v, VARHDRSZ + e->headers_len);
	memcpy(VARDATA(v), e->headers, e->headers_len);
	json = DirectFunctionCall1(fl_sql_headers_to_jsonb, PointerGetDatum(v));
	appendStringInfoString(out, ",\"headers\":");
	(void) JsonbToCString(out, &DatumGetJsonbP(json)->root, 0);
}

static void
put_position(StringInfo out, const FlWatchEvent *e)
{
	if (e->position)
		appendStringInfo(out, ",\"position\":%s", e->position);
	else if (!XLogRecPtrIsInvalid(e->lsn))
	{
		appendStringInfo(out, ",\"position\":{\"lsn\":\"%X/%X\"", LSN_FORMAT_ARGS(e->lsn));
		if (e->number > 0)
			appendStringInfo(out, ",\"n\":%u", e->number);
		appendStringInfoChar(out, '}');
	}
}

void
fl_watch_write_json(StringInfo out, const FlWatchEvent *e)
{
	bool		has_value = e->kind == FL_WATCH_ROW || e->kind == FL_WATCH_SET;

	appendStringInfo(out, "{\"event\":\"%s\"", fl_watch_kind_name(e->kind));
	if (e->stream_name)
	{
		appendStringInfoString(out, ",\"stream\":");
		escape_json(out, e->stream_name);
	}
	if (e->key_len >= 0)
	{
		appendStringInfoString(out, ",\"key\":");
		put_string(out, e->key, e->key_len);
	}
	if (e->has_place)
		appendStringInfo(out, ",\"shard\":%d,\"log_offset\":" INT64_FORMAT, e->shard, e->log_offset);
	if (e->has_ts)
	{
		char		buf[MAXDATELEN + 1];
		const int	utc = 0;

		appendStringInfo(out, ",\"ts\":\"%s\"",
						 JsonEncodeDateTime(buf, TimestampTzGetDatum(e->ts), TIMESTAMPTZOID, &utc));
	}
	if (has_value)
	{
		put_headers(out, e);
		put_payload(out, e);
	}
	put_position(out, e);
	appendStringInfoChar(out, '}');
}

/* ---- binary ----------------------------------------------------------------------- */

static void
put_bytes(StringInfo out, const uint8 *data, int32 len)
{
	pq_sendint32(out, (uint32) len);
	if (len > 0)
		appendBinaryStringInfo(out, (const char *) data, len);
}

/* Fixed fields first, then those of variable length; all big-endian. */
void
fl_watch_write_binary(StringInfo out, const FlWatchEvent *e)
{
	static const char letters[] = {
		[FL_WATCH_BEGIN_SNAPSHOT] = 'b',[FL_WATCH_ROW] = 'r',[FL_WATCH_END_SNAPSHOT] = 'e',
		[FL_WATCH_SET] = 's',[FL_WATCH_CLEAR] = 'c',[FL_WATCH_PROGRESS] = 'p'
	};
	uint8		flags = (e->has_place ? 1 : 0) | (e->has_ts ? 2 : 0) | (e->unchanged ? 4 : 0);

	pq_sendint8(out, (uint8) letters[e->kind]);
	pq_sendint8(out, flags);
	pq_sendint64(out, e->lsn);
	pq_sendint32(out, e->number);
	pq_sendint32(out, e->stream);
	pq_sendint32(out, e->has_place ? (uint32) e->shard : 0);
	pq_sendint64(out, e->has_place ? (uint64) e->log_offset : 0);
	pq_sendint64(out, e->has_ts ? (uint64) e->ts : 0);
	put_bytes(out, e->key, e->key_len);
	put_bytes(out, e->headers, e->headers_len);
	put_bytes(out, e->payload, e->unchanged ? -1 : e->payload_len);
}

/* ---- rows of a state table ---------------------------------------------------------- */

static int
column_number(TupleDesc desc, const char *name, Oid type)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0 &&
			(att->atttypid == type || !OidIsValid(type)))
			return att->attnum;
	}
	return 0;
}

bool
fl_state_columns(TupleDesc desc, FlStateColumns *out)
{
	out->stream = column_number(desc, "stream", REGCLASSOID);
	out->key = column_number(desc, "key", TEXTOID);
	out->shard = column_number(desc, "shard", INT4OID);
	out->log_offset = column_number(desc, "log_offset", INT8OID);
	out->ts = column_number(desc, "ts", TIMESTAMPTZOID);
	/* A type of the extension's has no fixed OID. */
	out->headers = column_number(desc, "headers", InvalidOid);
	out->payload = column_number(desc, "payload", BYTEAOID);
	return out->stream && out->key && out->shard && out->log_offset && out->ts && out->headers && out->payload;
}

/* Bytes of a varlena column; -1: NULL.  *unchanged: its value is stored elsewhere and was not logged. */
static int32
bytes_of(HeapTuple tuple, int att, TupleDesc desc, const uint8 **data, bool *unchanged)
{
	bool		isnull;
	Datum		d = heap_getattr(tuple, att, desc, &isnull);
	struct varlena *v = (struct varlena *) DatumGetPointer(d);

	*data = NULL;
	if (isnull)
		return -1;
	if (unchanged && VARATT_IS_EXTERNAL_ONDISK(v))
	{
		*unchanged = true;
		return -1;
	}
	v = pg_detoast_datum_packed(v);
	*data = (const uint8 *) VARDATA_ANY(v);
	return (int32) VARSIZE_ANY_EXHDR(v);
}

void
fl_watch_from_tuple(FlWatchEvent *e, HeapTuple tuple, TupleDesc desc, const FlStateColumns *cols)
{
	bool		n1,
				n2,
				n3,
				n4;
	bool		ignored = false;

	e->key_len = bytes_of(tuple, cols->key, desc, &e->key, NULL);
	e->stream = DatumGetObjectId(heap_getattr(tuple, cols->stream, desc, &n1));
	if (n1)
		e->stream = InvalidOid;
	e->shard = DatumGetInt32(heap_getattr(tuple, cols->shard, desc, &n2));
	e->log_offset = DatumGetInt64(heap_getattr(tuple, cols->log_offset, desc, &n3));
	e->has_place = !n2 && !n3;
	e->ts = DatumGetTimestampTz(heap_getattr(tuple, cols->ts, desc, &n4));
	e->has_ts = !n4;
	e->headers_len = bytes_of(tuple, cols->headers, desc, &e->headers, &ignored);
	e->payload_len = bytes_of(tuple, cols->payload, desc, &e->payload, &e->unchanged);
}

bool
fl_watch_place_of_clear(FlWatchEvent *e, Oid state, HeapTuple tuple, TupleDesc desc)
{
	static const char *const names[] = {"state", "stream", "key", "shard", "log_offset", "ts"};
	static const Oid types[] = {REGCLASSOID, REGCLASSOID, TEXTOID, INT4OID, INT8OID, TIMESTAMPTZOID};
	int			att[lengthof(names)];
	Datum		values[lengthof(names)];
	const uint8 *key;
	bool		isnull;

	for (int i = 0; i < lengthof(names); i++)
	{
		att[i] = column_number(desc, names[i], types[i]);
		if (att[i] == 0)
			return false;
		values[i] = heap_getattr(tuple, att[i], desc, &isnull);
		if (isnull)
			return false;
	}
	if (DatumGetObjectId(values[0]) != state || DatumGetObjectId(values[1]) != e->stream ||
		bytes_of(tuple, att[2], desc, &key, NULL) != e->key_len || memcmp(key, e->key, e->key_len) != 0)
		return false;
	e->has_place = true;
	e->shard = DatumGetInt32(values[3]);
	e->log_offset = DatumGetInt64(values[4]);
	e->ts = DatumGetTimestampTz(values[5]);
	return true;
}

/* ---- the same line for the rows of a snapshot, in SQL --------------------------------- */

Datum
fl_sql_watch_json(PG_FUNCTION_ARGS)
{
	FlWatchEvent e = {.key_len = -1,.headers_len = -1,.payload_len = -1};
	StringInfoData out;
	char	   *event;
	bool		known = false;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	event = text_to_cstring(PG_GETARG_TEXT_PP(0));
	for (int k = FL_WATCH_BEGIN_SNAPSHOT; k <= FL_WATCH_PROGRESS; k++)
		if (strcmp(event, fl_watch_kind_name(k)) == 0)
		{
			e.kind = k;
			known = true;
		}
	if (!known)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is no event of a watch", event)));
	if (!PG_ARGISNULL(1))
		e.stream_name = get_rel_name(PG_GETARG_OID(1));
	if (!PG_ARGISNULL(2))
	{
		e.key = (uint8 *) VARDATA_ANY(PG_GETARG_TEXT_PP(2));
		e.key_len = VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(2));
	}
	e.has_place = !PG_ARGISNULL(3) && !PG_ARGISNULL(4);
	e.shard = PG_ARGISNULL(3) ? 0 : PG_GETARG_INT32(3);
	e.log_offset = PG_ARGISNULL(4) ? 0 : PG_GETARG_INT64(4);
	e.has_ts = !PG_ARGISNULL(5);
	e.ts = e.has_ts ? PG_GETARG_TIMESTAMPTZ(5) : 0;
	if (!PG_ARGISNULL(6))
	{
		e.headers = (uint8 *) VARDATA_ANY(PG_GETARG_BYTEA_PP(6));
		e.headers_len = VARSIZE_ANY_EXHDR(PG_GETARG_BYTEA_PP(6));
	}
	if (!PG_ARGISNULL(7))
	{
		e.payload = (uint8 *) VARDATA_ANY(PG_GETARG_BYTEA_PP(7));
		e.payload_len = VARSIZE_ANY_EXHDR(PG_GETARG_BYTEA_PP(7));
	}
	if (!PG_ARGISNULL(8))
		e.position = JsonbToCString(NULL, &PG_GETARG_JSONB_P(8)->root, 0);
	initStringInfo(&out);
	fl_watch_write_json(&out, &e);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}
