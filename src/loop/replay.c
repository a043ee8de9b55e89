/*-------------------------------------------------------------------------
 *
 * replay.c
 *		fleetlog.replay(): would the policy decide the same again (D3)?
 *
 *		configuration ─► ranges of each shard ─► what was recorded about them, sorted by reading
 *		                                                    │
 *		source, in order ──────────────────────────────────► calls of each reading ─► policy ─► compared ─► rows
 *
 * A reading is one call of the policy, and a second one where it asked: with the response that
 * is on the log, so no model is needed.  A key's readings come in order of their offsets, as the
 * loop decided them, so its state is carried from one to the next.
 *
 * With the loop's own policy, each call gets the state that was recorded with it; that it is what
 * the readings before led to is checked besides.  With another policy the state is its own, and
 * begins with none.
 *
 * Readings whose record is gone are replayed from the copy in the request or decision.
 *
 * Nothing is written: the policy cannot (policy.h), and this file does not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "fleetlog/compat.h"
#include "fleetlog/utf8.h"
#include "replay_internal.h"

PG_FUNCTION_INFO_V1(fl_sql_replay);

#define MAX_RESPONSES	1000	/* of one request that are looked at: the first wins */

/* What was recorded about one reading. */
typedef struct Case
{
	FlPosition	reading;
	Jsonb	   *request;
	FlPosition	request_at;
	Jsonb	   *first;			/* decision of the first call */
	FlPosition	first_at;
	Jsonb	   *second;			/* ... of the second */
	FlPosition	second_at;
	int			n_responses;
	FlRecorded *responses;
} Case;

struct FlReplay
{
	FlReplayLoop *loop;
	FlReplayScope scope;
	FlRecords  *records;
	FlReplayRunner run;
	FlReplayPolicy *given;		/* NULL: the loop's own */
	int			n_policies;
	FlReplayPolicy **policies;	/* by version */
	FlKeyStates *states;
	MemoryContext mcxt;
	MemoryContext row_mcxt;		/* of one reading */
	FlReplayRow row;
	void	   *row_arg;
	TupleDesc	position_desc;
	StringInfoData key;
};

static const FlPosition no_position = {.shard = -1,.offset = -1};

/* ---- rows ------------------------------------------------------------------------------- */

static Datum
position_datum(FlReplay *r, Oid stream, FlPosition at)
{
	Datum		values[3] = {ObjectIdGetDatum(stream), Int32GetDatum(at.shard), Int64GetDatum(at.offset)};
	bool		nulls[3] = {false};

	return HeapTupleGetDatum(heap_form_tuple(r->position_desc, values, nulls));
}

static void
emit(FlReplay *r, FlPosition decision, const char *verdict, const FlPolicyResult *recorded, const FlPolicyResult *replayed, const char *reason)
{
	MemoryContext old = MemoryContextSwitchTo(r->row_mcxt);
	Datum		values[5];
	bool		nulls[5];

	nulls[0] = decision.offset < 0;
	values[0] = nulls[0] ? (Datum) 0 : position_datum(r, r->loop->decisions, decision);
	nulls[1] = false;
	values[1] = CStringGetTextDatum(verdict);
	nulls[2] = recorded == NULL;
	values[2] = nulls[2] ? (Datum) 0 : JsonbPGetDatum(fl_describe_parts(recorded));
	nulls[3] = replayed == NULL;
	values[3] = nulls[3] ? (Datum) 0 : replayed == recorded ? values[2] : JsonbPGetDatum(fl_describe_parts(replayed));
	nulls[4] = reason == NULL;
	values[4] = nulls[4] ? (Datum) 0 : CStringGetTextDatum(reason);
	r->row(r->row_arg, values, nulls);
	fl_replay_progress_verdict(strcmp(verdict, "same") == 0);
	MemoryContextSwitchTo(old);
}

/* "reading 0:17: what", in the context of the reading. */
static char *
reason_of(FlReplay *r, const Case *c, const char *what)
{
	MemoryContext old = MemoryContextSwitchTo(r->row_mcxt);
	char	   *text = psprintf("reading %d:" INT64_FORMAT ": %s", c->reading.shard, c->reading.offset, what);

	MemoryContextSwitchTo(old);
	return text;
}

/* ---- policies ------------------------------------------------------------------------------ */

static FlReplayPolicy *
policy_of_version(FlReplay *r, int32 version)
{
	MemoryContext old;

	for (int i = 0; i < r->n_policies; i++)
		if (r->policies[i]->version == version)
			return r->policies[i];
	/* Its text may have to be made a function again: outside of the read-only scope. */
	fl_replay_leave(&r->run);
	old = MemoryContextSwitchTo(r->mcxt);
	r->policies = r->policies ? repalloc(r->policies, sizeof(FlReplayPolicy *) * (r->n_policies + 1)) : palloc(sizeof(FlReplayPolicy *));
	r->policies[r->n_policies] = fl_replay_policy_version(r->loop, version);
	MemoryContextSwitchTo(old);
	return r->policies[r->n_policies++];
}

static FlReplayPolicy *
policy_for(FlReplay *r, const Case *c, Jsonb *record)
{
	int64		version;

	if (r->given != NULL)
		return r->given;
	if (record == NULL || !fl_json_int(&record->root, "policy_version", &version))
		version = fl_replay_version(r->loop, c->reading.shard, c->reading.offset);
	if (version < 1 || version > PG_INT32_MAX)
		return NULL;
	return policy_of_version(r, (int32) version);
}

/* ---- one call -------------------------------------------------------------------------------- */

/* A call, what was recorded about it (may be NULL), and what it is told. */
typedef struct Call
{
	FlReplayPolicy *policy;
	const FlReplayReading *reading;
	FlReplayArgs args;
	FlPosition	decision;
	const FlPolicyResult *recorded; /* NULL: nothing */
	const char *wrong_state;	/* a reason why the state before it is not what it was */
} Call;

/* Why is it different?  The policy is asked once more: what it says of the same arguments twice should be the same. */
static const char *
why_different(FlReplay *r, Call *call, const FlReplayResult *got, const char *part)
{
	FlReplayResult again;

	fl_replay_call(&r->run, call->policy, call->reading, &call->args, &again);
	fl_normal_commands(&again.parts);
	if (again.error != NULL || fl_differing_part(&got->parts, &again.parts, true) != NULL)
		return "the policy is not deterministic: it returned two results for the same arguments";
	if (r->given == NULL && !call->policy->checked)
		return psprintf("other %s than recorded; the policy was declared not replayable", part);
	if (call->wrong_state != NULL)
		return call->wrong_state;
	return psprintf("other %s than recorded", part);
}

static void
judge(FlReplay *r, const Case *c, Call *call, FlReplayResult *got)
{
	const char *part;

	if (got->error != NULL)
	{
		emit(r, call->decision, "different", call->recorded, NULL, reason_of(r, c, psprintf("the policy fails: %s", got->error)));
		return;
	}
	if (call->recorded == NULL)
	{
		if (fl_has_effect(&got->parts))
			emit(r, no_position, "missing", NULL, &got->parts,
				 reason_of(r, c, got->parts.ask != NULL ? "it asks the model, and no request was recorded" : "it decides, and nothing was recorded"));
		return;
	}
	part = fl_differing_part(call->recorded, &got->parts, r->given == NULL);
	if (part == NULL && call->wrong_state == NULL)
	{
		if (call->decision.offset >= 0)
			emit(r, call->decision, "same", call->recorded, call->recorded, NULL);
		return;
	}
	emit(r, call->decision, "different", call->recorded, &got->parts,
		 reason_of(r, c, part == NULL ? call->wrong_state : why_different(r, call, got, part)));
}

/* The state before a recorded call, in own replay: as recorded.  Says so where the readings before lead to another. */
static Jsonb *
state_before(FlReplay *r, FlKeyState *entry, Jsonb *record, const char **wrong)
{
	Jsonb	   *before;

	*wrong = NULL;
	if (r->given != NULL || record == NULL)
		return entry->state;
	before = fl_json_member(record, "state_before", NULL);
	if (entry->known && !fl_jsonb_same(before, entry->state))
		*wrong = "the state before it is not what the readings before it lead to";
	return before;
}

static void
carry_state(FlReplay *r, FlKeyState *entry, Jsonb *before, const FlPolicyResult *recorded, const FlReplayResult *got)
{
	if (r->given == NULL && recorded != NULL)
		fl_key_state_set(r->states, entry, recorded->sets_state ? recorded->state : before);
	else if (got->parts.sets_state)
		fl_key_state_set(r->states, entry, got->parts.state);
	else if (entry->known)
		fl_key_state_set(r->states, entry, before);
}

/* ---- one reading -------------------------------------------------------------------------------- */

static const FlRecorded *
response_for(const Case *c)
{
	FlPosition	at;

	if (c->second == NULL || !fl_json_position(&c->second->root, "response", &at))
		return c->n_responses > 0 ? &c->responses[0] : NULL;
	for (int i = 0; i < c->n_responses; i++)
		if (c->responses[i].at.shard == at.shard && c->responses[i].at.offset == at.offset)
			return &c->responses[i];
	return NULL;
}

static void
second_call(FlReplay *r, const Case *c, const FlReplayReading *reading, FlKeyState *entry)
{
	const FlRecorded *response = response_for(c);
	FlPolicyResult recorded;
	FlReplayResult got;
	Call		call = {.reading = reading,.decision = c->second ? c->second_at : no_position};

	if (c->second == NULL && (c->request == NULL || fl_replay_is_pending(r->loop, c->request_at)))
	{
		entry->blocked = r->given == NULL;
		return;
	}
	if (c->second != NULL)
	{
		fl_recorded_parts(NULL, c->second, &recorded);
		fl_normal_commands(&recorded);
		call.recorded = &recorded;
	}
	if (response == NULL)
	{
		if (call.recorded != NULL)
			emit(r, call.decision, "reading gone", call.recorded, NULL, reason_of(r, c, "the response is gone"));
		entry->known = entry->known && r->given != NULL;
		return;
	}
	call.policy = policy_for(r, c, c->second != NULL ? c->second : c->request);
	call.args.response = response->body;
	call.args.state = state_before(r, entry, c->second, &call.wrong_state);
	if (c->second == NULL || !fl_json_time(&c->second->root, "at", &call.args.at))
		call.args.at = response->ts;
	fl_replay_call(&r->run, call.policy, reading, &call.args, &got);
	fl_normal_commands(&got.parts);
	judge(r, c, &call, &got);
	carry_state(r, entry, call.args.state, call.recorded, &got);
}

static void
replay_reading(FlReplay *r, const Case *c, const FlReplayReading *reading, TimestampTz ts, const char *key)
{
	FlKeyState *entry = fl_key_state(r->states, key);
	Jsonb	   *record = c->first != NULL ? c->first : c->request;
	FlPolicyResult recorded;
	FlReplayResult got;
	Call		call = {.reading = reading,.decision = c->first ? c->first_at : no_position};
	bool		asks;

	if (entry->blocked)
		return;
	call.policy = policy_for(r, c, record);
	if (call.policy == NULL)
		return;
	/* Where the key's state is not known, only what was recorded tells it, or that the policy does not look at it. */
	if (record == NULL && !entry->known && fl_replay_uses_state(&r->run, call.policy))
		return;
	if (record != NULL)
	{
		fl_recorded_parts(c->request, c->first, &recorded);
		fl_normal_commands(&recorded);
		call.recorded = &recorded;
	}
	call.args.at = ts;
	call.args.state = state_before(r, entry, record, &call.wrong_state);
	fl_replay_call(&r->run, call.policy, reading, &call.args, &got);
	if (got.parts.commands != NULL)
		fl_normal_commands(&got.parts);
	asks = got.parts.ask != NULL;
	judge(r, c, &call, &got);
	carry_state(r, entry, call.args.state, call.recorded, &got);
	if (r->given != NULL ? asks : c->request != NULL)
		second_call(r, c, reading, entry);
	else if (c->second != NULL)
	{
		fl_recorded_parts(NULL, c->second, &recorded);
		fl_normal_commands(&recorded);
		if (c->request == NULL)
			emit(r, c->second_at, "reading gone", &recorded, NULL, reason_of(r, c, "the request is gone"));
		else
			emit(r, c->second_at, "different", &recorded, got.error ? NULL : &got.parts,
				 reason_of(r, c, got.error ? psprintf("the policy fails: %s", got.error) : "it does not ask the model"));
	}
}

/* Neither the record nor a copy is there. */
static void
emit_gone(FlReplay *r, const Case *c)
{
	FlPolicyResult recorded;
	const char *reason = reason_of(r, c, "it is gone from the source, and no copy was kept");

	if (c->first != NULL)
	{
		fl_recorded_parts(NULL, c->first, &recorded);
		fl_normal_commands(&recorded);
		emit(r, c->first_at, "reading gone", &recorded, NULL, reason);
	}
	if (c->second != NULL)
	{
		fl_recorded_parts(NULL, c->second, &recorded);
		fl_normal_commands(&recorded);
		emit(r, c->second_at, "reading gone", &recorded, NULL, reason);
	}
}

/* ---- what was recorded about a reading ------------------------------------------------------------ */

static Jsonb *
copy_json(const Jsonb *json)
{
	Jsonb	   *copy = palloc(VARSIZE(json));

	memcpy(copy, json, VARSIZE(json));
	return copy;
}

static void
add_response(Case *c, const FlRecorded *rec)
{
	if (c->n_responses >= MAX_RESPONSES)
		return;
	if (c->responses == NULL)
		c->responses = palloc(sizeof(FlRecorded) * 4);
	else if (c->n_responses >= 4 && (c->n_responses & (c->n_responses - 1)) == 0)
		c->responses = repalloc(c->responses, sizeof(FlRecorded) * c->n_responses * 2);
	c->responses[c->n_responses] = *rec;
	c->responses[c->n_responses++].body = copy_json(rec->body);
}

static void
keep_decision(FlReplay *r, const Case *c, Jsonb **slot, FlPosition *slot_at, const FlRecorded *rec)
{
	FlPolicyResult parts;

	if (*slot == NULL)
	{
		*slot = copy_json(rec->body);
		*slot_at = rec->at;
		return;
	}
	fl_recorded_parts(NULL, rec->body, &parts);
	fl_normal_commands(&parts);
	emit(r, rec->at, "different", &parts, NULL, reason_of(r, c, "it was decided before, at another position"));
}

/* All records about the reading at the front of the sorted ones; the case lives in the row's context. */
static void
gather(FlReplay *r, Case *c)
{
	const FlRecorded *rec = fl_records_peek(r->records);
	MemoryContext old = MemoryContextSwitchTo(r->row_mcxt);

	memset(c, 0, sizeof(*c));
	c->reading.shard = rec->shard;
	c->reading.offset = rec->offset;
	for (; rec != NULL && rec->shard == c->reading.shard && rec->offset == c->reading.offset; rec = fl_records_peek(r->records))
	{
		switch (rec->kind)
		{
			case FL_RECORDED_REQUEST:
				if (c->request == NULL)
				{
					c->request = copy_json(rec->body);
					c->request_at = rec->at;
				}
				break;
			case FL_RECORDED_DECISION:
				keep_decision(r, c, &c->first, &c->first_at, rec);
				break;
			case FL_RECORDED_SECOND:
				keep_decision(r, c, &c->second, &c->second_at, rec);
				break;
			case FL_RECORDED_RESPONSE:
				add_response(c, rec);
				break;
		}
		fl_records_take(r->records);
	}
	MemoryContextSwitchTo(old);
}

static void
append_member(StringInfo out, JsonbContainer *object, const char *name)
{
	JsonbValue	v;

	if (getKeyJsonValueFromContainer(object, name, strlen(name), &v) != NULL && v.type == jbvString)
		appendBinaryStringInfo(out, v.val.string.val, v.val.string.len);
}

/* A key that is no text. */
static void
append_bytes_key(StringInfo out, const uint8 *bytes, int32 len)
{
	appendStringInfoString(out, "\\x");
	enlargeStringInfo(out, 2 * len + 1);
	out->len += (int) hex_encode((const char *) bytes, len, out->data + out->len);
	out->data[out->len] = '\0';
}

/* The key whose state a reading belongs to: the device that sent it, else its key, else nothing. */
static const char *
key_of_copy(FlReplay *r, JsonbContainer *copy)
{
	JsonbValue	v;

	resetStringInfo(&r->key);
	if (getKeyJsonValueFromContainer(copy, "device", 6, &v) != NULL && v.type == jbvString)
	{
		append_member(&r->key, copy, "tenant");
		appendStringInfoChar(&r->key, '/');
		append_member(&r->key, copy, "device");
	}
	else if (getKeyJsonValueFromContainer(copy, "key_base64", 10, &v) != NULL && v.type == jbvString)
	{
		bytea	   *bytes = DatumGetByteaPP(DirectFunctionCall2(binary_decode, PointerGetDatum(cstring_to_text_with_len(v.val.string.val, v.val.string.len)),
																CStringGetTextDatum("base64")));

		append_bytes_key(&r->key, (uint8 *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	}
	else
		append_member(&r->key, copy, "key");
	return r->key.data;
}

static const char *
key_of_record(FlReplay *r, const FlLogRecord *rec)
{
	resetStringInfo(&r->key);
	if (rec->device_len >= 0)
	{
		if (rec->tenant_len > 0)
			appendBinaryStringInfo(&r->key, (const char *) rec->tenant, rec->tenant_len);
		appendStringInfoChar(&r->key, '/');
		appendBinaryStringInfo(&r->key, (const char *) rec->device, rec->device_len);
	}
	else if (rec->key_len > 0 && fl_utf8_valid_text(rec->key, rec->key_len))
		appendBinaryStringInfo(&r->key, (const char *) rec->key, rec->key_len);
	else if (rec->key_len > 0)
		append_bytes_key(&r->key, rec->key, rec->key_len);
	return r->key.data;
}

/* A copy has more than where and when the reading was; a request has it, else the decision of the only call. */
static bool
find_copy(const Case *c, JsonbValue *copy)
{
	Jsonb	   *records[2] = {c->request, c->first};

	for (int i = 0; i < 2; i++)
	{
		if (records[i] != NULL && fl_json_object(&records[i]->root, "reading", copy) && JsonContainerSize(copy->val.binary.data) > 3)
			return true;
	}
	return false;
}

static void
replay_gone(FlReplay *r)
{
	MemoryContext old = MemoryContextSwitchTo(r->row_mcxt);
	Case		c;
	JsonbValue	copy;
	FlReplayReading reading = {0};
	TimestampTz ts = 0;

	gather(r, &c);
	if (!find_copy(&c, &copy))
		emit_gone(r, &c);
	else
	{
		reading.shard = c.reading.shard;
		reading.copy = copy.val.binary.data;
		(void) fl_json_time(reading.copy, "ts", &ts);
		replay_reading(r, &c, &reading, ts, key_of_copy(r, reading.copy));
		if (r->given == NULL)
			fl_key_state(r->states, r->key.data)->known = false;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->row_mcxt);
}

/* ---- a range ------------------------------------------------------------------------------------------ */

/* Is the front of the sorted records about a reading of this shard below that offset? */
static bool
recorded_below(FlReplay *r, int32 shard, int64 offset)
{
	const FlRecorded *rec = fl_records_peek(r->records);

	return rec != NULL && (rec->shard < shard || (rec->shard == shard && rec->offset < offset));
}

static void
replay_record(FlReplay *r, int32 shard, const FlLogRecord *rec)
{
	Case		c = {.reading = {.shard = shard,.offset = rec->log_offset}};
	FlReplayReading reading = {.shard = shard,.rec = rec};
	MemoryContext old;

	while (recorded_below(r, shard, rec->log_offset))
		replay_gone(r);
	old = MemoryContextSwitchTo(r->row_mcxt);
	if (recorded_below(r, shard, rec->log_offset + 1))
		gather(r, &c);
	replay_reading(r, &c, &reading, rec->ts, key_of_record(r, rec));
	MemoryContextSwitchTo(old);
	MemoryContextReset(r->row_mcxt);
}

static void
replay_source(FlReplay *r, int32 shard, int64 from, int64 upto)
{
	FlLogPosition pos = {.offset = from};
	FlLogReader *reader = fl_log_reader_begin(r->loop->source, shard, &pos, upto);
	FlBatchDecoder *dec = fl_batch_decoder_create(r->mcxt);
	FlStoredBatch batch;
	FlLogRecord rec;

	fl_log_reader_bulk(reader);
	while (fl_log_reader_next(reader, &batch))
	{
		int64		n = 0;

		fl_batch_decoder_open(dec, &batch);
		while (fl_batch_decoder_next(dec, &rec))
		{
			CHECK_FOR_INTERRUPTS();
			if (rec.log_offset < from || rec.log_offset >= upto)
				continue;
			replay_record(r, shard, &rec);
			n++;
		}
		fl_replay_progress_readings(n);
	}
	fl_log_reader_end(reader);
}

static void
replay_range(FlReplay *r, const FlRange *range)
{
	int64		head = fl_log_head(r->loop->source, range->shard);
	int64		upto = Min(range->upper, fl_log_tail(r->loop->source, range->shard));
	int64		from = Min(Max(range->lower, head), range->upper);

	/* Readings that led to no record are gone with those that did, so there is no telling what became of states meanwhile. */
	r->states = fl_key_states_create(r->given != NULL || (range->lower == r->loop->firsts[range->shard] && from == range->lower));
	while (recorded_below(r, range->shard, from))
		replay_gone(r);
	if (from < upto)
		replay_source(r, range->shard, from, upto);
	while (recorded_below(r, range->shard, range->upper))
		replay_gone(r);
	fl_key_states_free(r->states);
}

FlReplay *
fl_replay_create(FlReplayLoop *loop, const FlReplayScope *scope, Oid given, TupleDesc desc, FlReplayRow row, void *arg)
{
	FlReplay   *r = palloc0(sizeof(FlReplay));

	r->loop = loop;
	r->scope = *scope;
	if (OidIsValid(given))
		r->given = fl_replay_policy_given(given);
	r->mcxt = r->run.mcxt = CurrentMemoryContext;
	r->row_mcxt = r->run.call_mcxt = AllocSetContextCreate(CurrentMemoryContext, "fleetlog replay row", ALLOCSET_DEFAULT_SIZES);
	r->row = row;
	r->row_arg = arg;
	r->position_desc = lookup_rowtype_tupdesc_copy(TupleDescAttr(desc, 0)->atttypid, -1);
	initStringInfo(&r->key);
	return r;
}

void
fl_replay_part(FlReplay *r, FlRecords *records, int part, int nparts)
{
	r->records = records;
	for (int i = 0; i < r->scope.ranges.n; i++)
		if (r->scope.ranges.items[i].shard % nparts == part)
			replay_range(r, &r->scope.ranges.items[i]);
}

void
fl_replay_end(FlReplay *r)
{
	fl_replay_leave(&r->run);
}

/* ---- the function in SQL --------------------------------------------------------------------------------- */

/* What a call of it has in hand, for its end. */
typedef struct Running
{
	ReturnSetInfo *rsinfo;
	FlReplayLoop *loop;
	FlReplayScope scope;
	Oid			given;
	FlReplay   *replay;
	FlReplayParallel *parallel;
} Running;

/* When the first reading was appended: nothing about it was recorded before. */
static TimestampTz
first_time(const FlReplayLoop *loop, const FlReplayScope *scope)
{
	TimestampTz first = DT_NOEND;

	if (scope->from_ts != DT_NOBEGIN)
		return scope->from_ts;
	for (int i = 0; i < scope->ranges.n; i++)
	{
		const FlRange *x = &scope->ranges.items[i];
		FlLogPosition pos = {.offset = x->lower};
		int64		tail = fl_log_tail(loop->source, x->shard);
		FlLogReader *reader;
		FlStoredBatch batch;

		if (x->lower < fl_log_head(loop->source, x->shard) || x->lower >= tail)
			return DT_NOBEGIN;
		reader = fl_log_reader_begin(loop->source, x->shard, &pos, tail);
		if (fl_log_reader_next(reader, &batch))
			first = Min(first, batch.append_ts);
		fl_log_reader_end(reader);
	}
	return first;
}

static void
store_row(void *arg, Datum *values, bool *nulls)
{
	ReturnSetInfo *rsinfo = arg;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
replay_here(Running *x, TimestampTz first)
{
	FlRecords  *records = fl_records_read(x->loop, &x->scope, first);

	fl_replay_progress_phase(FL_REPLAY_REPLAYING);
	fl_replay_part(x->replay, records, 0, 1);
	fl_replay_end(x->replay);
	fl_records_end(records);
}

static void
replay_all(Running *x)
{
	int64		total = 0;
	TimestampTz first;

	/* Also where workers do the rest: it says what is wrong with the policy. */
	x->replay = fl_replay_create(x->loop, &x->scope, x->given, x->rsinfo->setDesc, store_row, x->rsinfo);
	if (x->scope.ranges.n == 0)
		return;
	for (int i = 0; i < x->scope.ranges.n; i++)
		total += x->scope.ranges.items[i].upper - x->scope.ranges.items[i].lower;
	fl_replay_progress_total(total);
	first = first_time(x->loop, &x->scope);
	x->parallel = fl_replay_parallel_begin(x->loop, &x->scope, x->given, first, x->rsinfo->setDesc);
	if (x->parallel == NULL || !fl_replay_parallel_run(x->parallel, x->rsinfo->setResult, x->rsinfo->setDesc))
		replay_here(x, first);
	if (x->parallel != NULL)
		fl_replay_parallel_end(x->parallel, false);
}

static void
prepare(Running *x, FunctionCallInfo fcinfo)
{
	Jsonb	   *ranges = PG_ARGISNULL(3) ? NULL : PG_GETARG_JSONB_P(3);
	char	   *dataset = PG_ARGISNULL(4) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(4));

	if (PG_ARGISNULL(0))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("loop must not be NULL")));
	if (ranges != NULL && dataset != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("give ranges or a data set, not both")));
	x->loop = fl_replay_loop(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	if (dataset != NULL)
		ranges = fl_replay_dataset(dataset, x->loop->source);
	x->given = PG_ARGISNULL(5) ? InvalidOid : PG_GETARG_OID(5);
	x->scope.from_ts = PG_ARGISNULL(1) ? DT_NOBEGIN : PG_GETARG_TIMESTAMPTZ(1);
	x->scope.to_ts = PG_ARGISNULL(2) ? DT_NOEND : PG_GETARG_TIMESTAMPTZ(2);
	fl_replay_scope(x->loop, ranges, &x->scope);
}

/* After an error that was copied: who catches it expects his own subtransaction, not ours. */
static void
clean_up(Running *x, bool shown)
{
	if (x->replay != NULL)
		fl_replay_end(x->replay);
	if (x->parallel != NULL)
		fl_replay_parallel_end(x->parallel, true);
	if (shown)
		fl_replay_progress_end();
}

Datum
fl_sql_replay(PG_FUNCTION_ARGS)
{
	Running    *x = palloc0(sizeof(Running));
	MemoryContext mcxt = CurrentMemoryContext;
	bool		shown;

	fl_require_preload();
	FL_INIT_MATERIALIZED_SRF(fcinfo);
	x->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	prepare(x, fcinfo);
	shown = fl_replay_progress_begin(x->loop->name);
	PG_TRY();
	{
		replay_all(x);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(mcxt);
		error = CopyErrorData();
		FlushErrorState();
		clean_up(x, shown);
		ReThrowError(error);
	}
	PG_END_TRY();
	if (shown)
		fl_replay_progress_end();
	return (Datum) 0;
}
