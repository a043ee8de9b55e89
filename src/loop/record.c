/*-------------------------------------------------------------------------
 *
 * record.c
 *		Requests and decisions as JSON (docs/design/decisions-loop.md, "Records").
 *
 * Members stand in the order of the page, and times are in UTC, so that a record
 * depends on nothing but what it tells.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "fleetlog/base64.h"
#include "fleetlog/compat.h"
#include "fleetlog/utf8.h"
#include "loop_internal.h"

void
fl_loop_append_json(StringInfo out, const Jsonb *value)
{
	if (value == NULL)
		appendStringInfoString(out, "null");
	else
		(void) JsonbToCString(out, (JsonbContainer *) &value->root, VARSIZE(value));
}

void
fl_loop_append_string(StringInfo out, const char *value)
{
	escape_json(out, value);
}

static void
append_time(StringInfo out, const char *name, TimestampTz value)
{
	char		buf[MAXDATELEN + 1];
	int			utc = 0;

	JsonEncodeDateTime(buf, TimestampTzGetDatum(value), TIMESTAMPTZOID, &utc);
	appendStringInfo(out, ", \"%s\": \"%s\"", name, buf);
}

/* Bytes that are text as a string, others in base64 under another name. */
static void
append_bytes(StringInfo out, const char *name, Datum value)
{
	struct varlena *v = PG_DETOAST_DATUM_PACKED(value);
	const uint8 *bytes = (uint8 *) VARDATA_ANY(v);
	size_t		len = VARSIZE_ANY_EXHDR(v);

	if (fl_utf8_valid_text(bytes, len))
	{
		appendStringInfo(out, ", \"%s\": ", name);
		escape_json(out, pnstrdup((const char *) bytes, len));
		return;
	}
	appendStringInfo(out, ", \"%s_base64\": \"", name);
	enlargeStringInfo(out, fl_base64_size(len) + 1);
	fl_base64_encode(out->data + out->len, bytes, len);
	out->len += fl_base64_size(len);
	out->data[out->len] = '\0';
	appendStringInfoChar(out, '"');
}

static void
append_text_column(StringInfo out, const char *name, const FlLoopReading *r, FlAttr att)
{
	if (r->isnull[att - 1])
		return;
	appendStringInfo(out, ", \"%s\": ", name);
	escape_json(out, TextDatumGetCString(r->values[att - 1]));
}

static void
append_headers(StringInfo out, FlLoopTurn *t, const FlLoopReading *r)
{
	Oid			output;
	bool		is_varlena;

	if (r->isnull[FL_ATT_HEADERS - 1])
		return;
	getTypeOutputInfo(TupleDescAttr(t->record_desc, FL_ATT_HEADERS - 1)->atttypid, &output, &is_varlena);
	appendStringInfo(out, ", \"headers\": %s", OidOutputFunctionCall(output, r->values[FL_ATT_HEADERS - 1]));
}

static void
append_reading(StringInfo out, FlLoopTurn *t, const FlLoopReading *r, bool copy)
{
	appendStringInfo(out, ", \"reading\": {\"shard\": %d, \"offset\": " INT64_FORMAT, t->shard, r->log_offset);
	append_time(out, "ts", r->ts);
	if (copy)
	{
		if (!r->isnull[FL_ATT_CREATED - 1])
			append_time(out, "created", DatumGetTimestampTz(r->values[FL_ATT_CREATED - 1]));
		append_text_column(out, "tenant", r, FL_ATT_TENANT);
		append_text_column(out, "device", r, FL_ATT_DEVICE);
		append_text_column(out, "key", r, FL_ATT_KEY);
		/* Of a key that is no text. */
		if (!r->isnull[FL_ATT_KEY_BYTES - 1])
			append_bytes(out, "key", r->values[FL_ATT_KEY_BYTES - 1]);
		append_headers(out, t, r);
		if (!r->isnull[FL_ATT_PAYLOAD - 1])
			append_bytes(out, "payload", r->values[FL_ATT_PAYLOAD - 1]);
	}
	appendStringInfoChar(out, '}');
}

static void
append_member(StringInfo out, const char *name, const Jsonb *value)
{
	appendStringInfo(out, ", \"%s\": ", name);
	fl_loop_append_json(out, value);
}

static void
begin_record(StringInfo out, FlLoopTurn *t, const FlLoopEffect *e)
{
	initStringInfo(out);
	appendStringInfoString(out, "{\"loop\": ");
	escape_json(out, t->loop);
	appendStringInfo(out, ", \"policy_version\": %d", e->version->number);
}

static void
append_states(StringInfo out, const FlLoopEffect *e)
{
	append_member(out, "state_before", e->before);
	if (e->result.sets_state)
		append_member(out, "state", e->result.state);
}

char *
fl_loop_request_json(FlLoopTurn *t, const FlLoopEffect *e, bool copy)
{
	StringInfoData out;

	begin_record(&out, t, e);
	append_reading(&out, t, e->reading, copy);
	append_time(&out, "at", e->at);
	appendStringInfoString(&out, ", \"model\": ");
	escape_json(&out, e->version->model);
	appendStringInfoString(&out, ", \"version\": ");
	escape_json(&out, e->version->model_version);
	appendStringInfo(&out, ", \"parameters\": %s", e->version->parameters);
	append_member(&out, "ask", e->result.ask);
	append_states(&out, e);
	appendStringInfoChar(&out, '}');
	return out.data;
}

char *
fl_loop_decision_json(FlLoopTurn *t, const FlLoopEffect *e, bool copy)
{
	StringInfoData out;

	begin_record(&out, t, e);
	/* The request that it names has the copy already. */
	append_reading(&out, t, e->reading, copy && e->answer == NULL);
	if (e->answer)
		appendStringInfo(&out, ", \"request\": {\"shard\": %d, \"offset\": " INT64_FORMAT "}, \"response\": {\"shard\": %d, \"offset\": " INT64_FORMAT "}",
						 e->answer->request_shard, e->answer->request_offset, e->answer->response_shard, e->answer->response_offset);
	append_time(&out, "at", e->at);
	append_states(&out, e);
	appendStringInfoString(&out, ", \"decisions\": ");
	if (e->result.decisions)
		fl_loop_append_json(&out, e->result.decisions);
	else
		appendStringInfoString(&out, "[]");
	appendStringInfo(&out, ", \"commands\": %s", e->commands ? e->commands : "[]");
	appendStringInfoChar(&out, '}');
	return out.data;
}
