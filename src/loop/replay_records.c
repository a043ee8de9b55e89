/*-------------------------------------------------------------------------
 *
 * replay_records.c
 *		What a loop recorded about readings, in the order of those readings.
 *
 *		responses ──► sorted by the request they name ─┐
 *		requests, in order of their positions ─────────┴► requests with their responses ─┐
 *		decisions ───────────────────────────────────────────────────────────────────────┴► sorted by (shard, offset) of the reading
 *
 * Requests and decisions are in the order in which the loop came to them, which is that of
 * readings but for those that waited.  The server's sort takes what is in order as it is,
 * and goes to disk beyond work_mem, so memory does not grow with history.
 *
 * Nothing is recorded before its reading: streams are read from the append time of the
 * first reading on, to their ends.
 *
 * Where workers share the reading (replay_parallel.c), what is found goes to parts on disk
 * instead, by the shard that it belongs to, and who has a part sorts it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/sharedtuplestore.h"
#include "utils/timestamp.h"
#include "utils/tuplesort.h"

#include "fleetlog/compat.h"
#include "fleetlog/headers.h"
#include "replay_internal.h"

/* Columns of what is sorted: what it belongs to (a reading, or a request), kind, where the record is, its time, what it says. */
enum
{
	ATT_SHARD = 1,
	ATT_OFFSET,
	ATT_KIND,
	ATT_AT_SHARD,
	ATT_AT_OFFSET,
	ATT_TS,
	ATT_BODY,
	N_ATTS = ATT_BODY
};

#define N_KEYS		5
#define MIN_SORT_KB 4096

struct FlRecords
{
	TupleDesc	desc;
	Tuplesortstate *sort;		/* NULL: to parts */
	const FlRecordParts *parts;
	TupleTableSlot *slot;		/* the one peeked at */
	TupleTableSlot *in;
	bool		peeked;
	bool		ended;
	FlRecorded	current;
	MemoryContext record_mcxt;	/* one record while it is read */
	MemoryContext peek_mcxt;	/* the one peeked at */
};

/* What a walk through a stream calls for each record. */
typedef struct Walk
{
	const FlReplayLoop *loop;
	const FlReplayScope *scope;
	FlRecords  *out;
	FlRecords  *responses;		/* sorted; only with requests */
} Walk;

typedef void (*WalkRecord) (Walk *walk, int32 shard, const FlLogRecord *rec);

extern Datum fl_sql_json(PG_FUNCTION_ARGS);

/* ---- JSON ------------------------------------------------------------------------ */

bool
fl_json_int(JsonbContainer *object, const char *name, int64 *value)
{
	JsonbValue	v;
	Datum		d;

	if (getKeyJsonValueFromContainer(object, name, strlen(name), &v) == NULL || v.type != jbvNumeric)
		return false;
	d = NumericGetDatum(v.val.numeric);
	/* Offsets and shards only: anything else is none. */
	if (!DatumGetBool(DirectFunctionCall2(numeric_ge, d, DirectFunctionCall1(int8_numeric, Int64GetDatum(0)))) ||
		!DatumGetBool(DirectFunctionCall2(numeric_le, d, DirectFunctionCall1(int8_numeric, Int64GetDatum(PG_INT64_MAX)))))
		return false;
	*value = DatumGetInt64(DirectFunctionCall1(numeric_int8, d));
	return true;
}

bool
fl_json_object(JsonbContainer *object, const char *name, JsonbValue *value)
{
	return getKeyJsonValueFromContainer(object, name, strlen(name), value) != NULL &&
		value->type == jbvBinary && JsonContainerIsObject(value->val.binary.data);
}

static bool
position_of(JsonbContainer *object, FlPosition *at)
{
	int64		shard;

	if (!fl_json_int(object, "shard", &shard) || shard >= FL_MAX_SHARDS || !fl_json_int(object, "offset", &at->offset))
		return false;
	at->shard = (int32) shard;
	return true;
}

bool
fl_json_position(JsonbContainer *object, const char *name, FlPosition *at)
{
	JsonbValue	v;

	return fl_json_object(object, name, &v) && position_of(v.val.binary.data, at);
}

bool
fl_json_time(JsonbContainer *object, const char *name, TimestampTz *ts)
{
	JsonbValue	v;
	char	   *text;

	if (getKeyJsonValueFromContainer(object, name, strlen(name), &v) == NULL || v.type != jbvString)
		return false;
	text = pnstrdup(v.val.string.val, v.val.string.len);
	*ts = DatumGetTimestampTz(DirectFunctionCall3(timestamptz_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	return true;
}

Jsonb *
fl_json_member(Jsonb *object, const char *name, bool *there)
{
	JsonbValue	v;
	bool		found = object != NULL && getKeyJsonValueFromContainer(&object->root, name, strlen(name), &v) != NULL;

	if (there)
		*there = found;
	return !found || v.type == jbvNull ? NULL : JsonbValueToJsonb(&v);
}

/* NULL: no JSON object. */
static Jsonb *
parse_payload(const FlLogRecord *rec, bool any_kind)
{
	LOCAL_FCINFO(fcinfo, 1);
	bytea	   *payload;
	Jsonb	   *json;

	if (rec->payload_len < 0)
		return NULL;
	payload = palloc(VARHDRSZ + rec->payload_len);
	SET_VARSIZE(payload, VARHDRSZ + rec->payload_len);
	memcpy(VARDATA(payload), rec->payload, rec->payload_len);
	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = PointerGetDatum(payload);
	fcinfo->args[0].isnull = false;
	json = (Jsonb *) DatumGetPointer(fl_sql_json(fcinfo));
	return fcinfo->isnull || (!any_kind && !JB_ROOT_IS_OBJECT(json)) ? NULL : json;
}

/* ---- sorting ----------------------------------------------------------------------- */

/* Sorts what is put into it, or hands it to parts. */
static FlRecords *
sort_begin(const FlRecordParts *parts)
{
	static const Oid types[N_ATTS] = {INT4OID, INT8OID, INT4OID, INT4OID, INT8OID, TIMESTAMPTZOID, JSONBOID};
	AttrNumber	atts[N_KEYS] = {ATT_SHARD, ATT_OFFSET, ATT_KIND, ATT_AT_SHARD, ATT_AT_OFFSET};
	Oid			ops[N_KEYS] = {Int4LessOperator, Int8LessOperator, Int4LessOperator, Int4LessOperator, Int8LessOperator};
	Oid			collations[N_KEYS] = {InvalidOid};
	bool		nulls_first[N_KEYS] = {false};
	FlRecords  *r = palloc0(sizeof(FlRecords));

	r->desc = CreateTemplateTupleDesc(N_ATTS);
	for (int i = 0; i < N_ATTS; i++)
		TupleDescInitEntry(r->desc, (AttrNumber) (i + 1), NULL, types[i], -1, 0);
	r->in = MakeSingleTupleTableSlot(r->desc, &TTSOpsVirtual);
	r->slot = MakeSingleTupleTableSlot(r->desc, &TTSOpsMinimalTuple);
	r->record_mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog replay record", ALLOCSET_DEFAULT_SIZES);
	r->peek_mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog replay peek", ALLOCSET_DEFAULT_SIZES);
	r->parts = parts;
	if (parts == NULL)
		r->sort = tuplesort_begin_heap(r->desc, N_KEYS, atts, ops, collations, nulls_first, Max(work_mem, MIN_SORT_KB), NULL, TUPLESORT_NONE);
	return r;
}

/* What the store opens with its first tuple must outlive the record. */
static void
put_to_part(const FlRecordParts *parts, int part, MinimalTuple tuple)
{
	MemoryContext old = MemoryContextSwitchTo(parts->mcxt);

	sts_puttuple(parts->stores[part], NULL, tuple);
	MemoryContextSwitchTo(old);
}

static void
sort_put(FlRecords *r, FlPosition belongs_to, FlRecordKind kind, FlPosition at, TimestampTz ts, Jsonb *body)
{
	TupleTableSlot *slot = r->in;

	ExecClearTuple(slot);
	slot->tts_values[ATT_SHARD - 1] = Int32GetDatum(belongs_to.shard);
	slot->tts_values[ATT_OFFSET - 1] = Int64GetDatum(belongs_to.offset);
	slot->tts_values[ATT_KIND - 1] = Int32GetDatum(kind);
	slot->tts_values[ATT_AT_SHARD - 1] = Int32GetDatum(at.shard);
	slot->tts_values[ATT_AT_OFFSET - 1] = Int64GetDatum(at.offset);
	slot->tts_values[ATT_TS - 1] = TimestampTzGetDatum(ts);
	slot->tts_values[ATT_BODY - 1] = JsonbPGetDatum(body);
	memset(slot->tts_isnull, 0, sizeof(bool) * N_ATTS);
	ExecStoreVirtualTuple(slot);
	if (r->parts == NULL)
		tuplesort_puttupleslot(r->sort, slot);
	else
		put_to_part(r->parts, belongs_to.shard % r->parts->n, ExecCopySlotMinimalTuple(slot));
}

const FlRecorded *
fl_records_peek(FlRecords *r)
{
	MemoryContext old;
	Datum	   *v;

	if (r->peeked)
		return &r->current;
	MemoryContextReset(r->peek_mcxt);
	if (r->ended || !tuplesort_gettupleslot(r->sort, true, false, r->slot, NULL))
	{
		r->ended = true;
		return NULL;
	}
	slot_getallattrs(r->slot);
	v = r->slot->tts_values;
	r->current.shard = DatumGetInt32(v[ATT_SHARD - 1]);
	r->current.offset = DatumGetInt64(v[ATT_OFFSET - 1]);
	r->current.kind = (FlRecordKind) DatumGetInt32(v[ATT_KIND - 1]);
	r->current.at = (FlPosition) {
		.shard = DatumGetInt32(v[ATT_AT_SHARD - 1]),.offset = DatumGetInt64(v[ATT_AT_OFFSET - 1])
	};
	r->current.ts = DatumGetTimestampTz(v[ATT_TS - 1]);
	old = MemoryContextSwitchTo(r->peek_mcxt);
	r->current.body = DatumGetJsonbP(v[ATT_BODY - 1]);
	MemoryContextSwitchTo(old);
	r->peeked = true;
	return &r->current;
}

void
fl_records_take(FlRecords *r)
{
	r->peeked = false;
}

void
fl_records_end(FlRecords *r)
{
	ExecDropSingleTupleTableSlot(r->slot);
	ExecDropSingleTupleTableSlot(r->in);
	if (r->sort != NULL)
		tuplesort_end(r->sort);
	MemoryContextDelete(r->record_mcxt);
	MemoryContextDelete(r->peek_mcxt);
	pfree(r);
}

/* ---- walking through a stream -------------------------------------------------------- */

static void
walk_shard(Walk *walk, Oid stream, int32 shard, TimestampTz from, WalkRecord callback)
{
	int64		tail = fl_log_tail(stream, shard);
	FlLogPosition pos = {.offset = fl_log_head(stream, shard)};
	FlLogReader *reader;
	FlBatchDecoder *dec;
	FlStoredBatch batch;
	FlLogRecord rec;
	int64		first;

	if (from != DT_NOBEGIN)
		pos.offset = fl_log_offset_for_time(stream, shard, from);
	if (pos.offset < 0 || pos.offset >= tail)
		return;
	first = pos.offset;
	reader = fl_log_reader_begin(stream, shard, &pos, tail);
	fl_log_reader_bulk(reader);
	dec = fl_batch_decoder_create(CurrentMemoryContext);
	while (fl_log_reader_next(reader, &batch))
	{
		fl_batch_decoder_open(dec, &batch);
		while (fl_batch_decoder_next(dec, &rec))
		{
			MemoryContext old;

			CHECK_FOR_INTERRUPTS();
			if (rec.log_offset < first || rec.log_offset >= tail)
				continue;
			old = MemoryContextSwitchTo(walk->out->record_mcxt);
			callback(walk, shard, &rec);
			MemoryContextSwitchTo(old);
			MemoryContextReset(walk->out->record_mcxt);
		}
		fl_replay_progress_records(batch.count);
	}
	fl_log_reader_end(reader);
}

/* Every `step`th shard, beginning with `first`, in order. */
static void
walk_stream(Walk *walk, Oid stream, int32 first, int32 step, TimestampTz from, WalkRecord callback)
{
	int32		shards = fl_stream_lookup(stream)->shards;

	for (int32 i = first; i < shards; i += step)
		walk_shard(walk, stream, i, from, callback);
}

static bool
parse_position(const char *text, int32 len, FlPosition *at)
{
	char		copy[64];
	int			end = 0;
	long long	offset;

	if (len <= 0 || len >= (int32) sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (sscanf(copy, "%9d:%18lld%n", &at->shard, &offset, &end) != 2 || end != len || at->shard < 0 || offset < 0)
		return false;
	at->offset = offset;
	return true;
}

/* That of MQTT is a property, that of Kafka a header like others; the property goes first. */
static bool
correlation(const FlLogRecord *rec, FlPosition *at)
{
	FlHeaderIter it;
	FlHeader	h;
	bool		found = false;

	fl_header_iter_init_record(&it, rec->reserved, rec->headers_count, rec->headers, rec->headers ? (size_t) rec->headers_len : 0);
	/* Those of fleetlog and MQTT stand before all others. */
	while (!found && fl_header_iter_next(&it, &h))
		found = h.name_len == 16 && memcmp(h.name, "correlation-data", 16) == 0;
	return found && parse_position((const char *) h.value, h.value_len, at);
}

static Jsonb *
unanswered(void)
{
	return DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{\"unanswered\": true}")));
}

/* {"request": {...} or "0:12", "response": ...}; *response is NULL where it says that there is none. */
static bool
names_request(Jsonb *json, JsonbValue *request, Jsonb **response)
{
	JsonbValue	v;

	if (!JB_ROOT_IS_OBJECT(json) || getKeyJsonValueFromContainer(&json->root, "request", 7, request) == NULL)
		return false;
	*response = NULL;
	if (getKeyJsonValueFromContainer(&json->root, "response", 8, &v) != NULL)
		*response = JsonbValueToJsonb(&v);
	return *response != NULL ||
		(getKeyJsonValueFromContainer(&json->root, "unanswered", 10, &v) != NULL && v.type == jbvBool && v.val.boolean);
}

/* As _loop_parse_response() has it: a record that names its request, or the header, by which the whole payload is the response. */
static void
take_response(Walk *walk, int32 shard, const FlLogRecord *rec)
{
	FlPosition	request;
	FlPosition	at = {.shard = shard,.offset = rec->log_offset};
	Jsonb	   *json = parse_payload(rec, true);
	Jsonb	   *body = NULL;
	JsonbValue	v;

	if (json == NULL)
		return;
	if (names_request(json, &v, &body))
	{
		if (v.type == jbvString ? !parse_position(v.val.string.val, v.val.string.len, &request) :
			!fl_json_position(&json->root, "request", &request))
			return;
		if (body == NULL)
			body = unanswered();
	}
	else if (correlation(rec, &request))
		body = json;
	else
		return;
	sort_put(walk->out, request, FL_RECORDED_RESPONSE, at, rec->ts, body);
}

static bool
in_scope(const Walk *walk, FlPosition reading, JsonbContainer *copy)
{
	const FlReplayScope *scope = walk->scope;
	TimestampTz ts;
	bool		in = false;

	for (int i = 0; i < scope->ranges.n && !in; i++)
		in = scope->ranges.items[i].shard == reading.shard && scope->ranges.items[i].lower <= reading.offset &&
			scope->ranges.items[i].upper > reading.offset;
	if (!in || (scope->from_ts == DT_NOBEGIN && scope->to_ts == DT_NOEND))
		return in;
	return fl_json_time(copy, "ts", &ts) && ts >= scope->from_ts && ts < scope->to_ts;
}

/* The reading that a request or decision is about; NULL: it is not one, or out of scope. */
static Jsonb *
about(const Walk *walk, const FlLogRecord *rec, FlPosition *reading)
{
	Jsonb	   *json = parse_payload(rec, false);
	JsonbValue	copy;

	if (json == NULL || !fl_json_object(&json->root, "reading", &copy) || !position_of(copy.val.binary.data, reading) ||
		!in_scope(walk, *reading, copy.val.binary.data))
		return NULL;
	return json;
}

static int
compare_positions(FlPosition a, FlPosition b)
{
	if (a.shard != b.shard)
		return a.shard < b.shard ? -1 : 1;
	return a.offset < b.offset ? -1 : a.offset > b.offset;
}

static void
take_request(Walk *walk, int32 shard, const FlLogRecord *rec)
{
	FlPosition	at = {.shard = shard,.offset = rec->log_offset};
	FlPosition	reading;
	Jsonb	   *json = about(walk, rec, &reading);
	const FlRecorded *response;

	if (json != NULL)
		sort_put(walk->out, reading, FL_RECORDED_REQUEST, at, rec->ts, json);
	while ((response = fl_records_peek(walk->responses)) != NULL)
	{
		FlPosition	to = {.shard = response->shard,.offset = response->offset};
		int			order = compare_positions(to, at);

		if (order > 0)
			break;
		if (order == 0 && json != NULL)
			sort_put(walk->out, reading, FL_RECORDED_RESPONSE, response->at, response->ts, response->body);
		fl_records_take(walk->responses);
	}
}

static void
take_decision(Walk *walk, int32 shard, const FlLogRecord *rec)
{
	FlPosition	at = {.shard = shard,.offset = rec->log_offset};
	FlPosition	reading;
	FlPosition	request;
	Jsonb	   *json = about(walk, rec, &reading);

	if (json != NULL)
		sort_put(walk->out, reading, fl_json_position(&json->root, "request", &request) ? FL_RECORDED_SECOND : FL_RECORDED_DECISION,
				 at, rec->ts, json);
}

FlRecords *
fl_records_read(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from)
{
	Walk		walk = {.loop = loop,.scope = scope};

	walk.out = walk.responses = sort_begin(NULL);
	walk_stream(&walk, loop->responses, 0, 1, from, take_response);
	tuplesort_performsort(walk.responses->sort);
	walk.out = sort_begin(NULL);
	walk_stream(&walk, loop->requests, 0, 1, from, take_request);
	fl_records_end(walk.responses);
	walk_stream(&walk, loop->decisions, 0, 1, from, take_decision);
	tuplesort_performsort(walk.out->sort);
	return walk.out;
}

/* ---- the same in parts ------------------------------------------------------------------ */

void
fl_records_part_responses(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from, int32 shard, const FlRecordParts *out)
{
	Walk		walk = {.loop = loop,.scope = scope,.out = sort_begin(out)};

	walk_shard(&walk, loop->responses, shard, from, take_response);
	fl_records_end(walk.out);
}

void
fl_records_part_decisions(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from, int32 shard, const FlRecordParts *out)
{
	Walk		walk = {.loop = loop,.scope = scope,.out = sort_begin(out)};

	walk_shard(&walk, loop->decisions, shard, from, take_decision);
	fl_records_end(walk.out);
}

FlRecords *
fl_records_part_read(const FlRecordParts *parts, int part)
{
	FlRecords  *r = sort_begin(NULL);
	SharedTuplestoreAccessor *store = parts->stores[part];
	MinimalTuple tuple;

	sts_begin_parallel_scan(store);
	while ((tuple = sts_parallel_scan_next(store, NULL)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		ExecStoreMinimalTuple(tuple, r->slot, false);
		tuplesort_puttupleslot(r->sort, r->slot);
	}
	sts_end_parallel_scan(store);
	ExecClearTuple(r->slot);
	tuplesort_performsort(r->sort);
	return r;
}

void
fl_records_part_requests(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from, const FlRecordParts *responses, int part,
						 const FlRecordParts *out)
{
	Walk		walk = {.loop = loop,.scope = scope,.out = sort_begin(out),.responses = fl_records_part_read(responses, part)};

	walk_stream(&walk, loop->requests, part, responses->n, from, take_request);
	fl_records_end(walk.responses);
	fl_records_end(walk.out);
}
