/*-------------------------------------------------------------------------
 *
 * replay_internal.h
 *		What the files of replay share: see replay.c for the whole.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_REPLAY_INTERNAL_H
#define FLEETLOG_REPLAY_INTERNAL_H

#include "datatype/timestamp.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/jsonb.h"
#include "utils/tuplestore.h"

#include "fleetlog/catalog.h"
#include "fleetlog/log.h"
#include "fleetlog/policy.h"
#include "fleetlog/ranges.h"

typedef struct FlPosition
{
	int32		shard;
	int64		offset;			/* -1: none */
} FlPosition;

/* ---- replay_config.c: the loop, as one snapshot has it ------------------------- */

/* From which reading of a shard on a version decides. */
typedef struct FlVersionRange
{
	int32		shard;
	int32		version;
	int64		from;
} FlVersionRange;

typedef struct FlReplayLoop
{
	MemoryContext mcxt;
	char	   *name;
	Oid			source;
	Oid			requests;
	Oid			responses;
	Oid			decisions;
	const FlStreamInfo *info;	/* of the source */
	int			n_versions;
	FlVersionRange *versions;	/* by shard, then version */
	int64	   *positions;		/* per shard: next reading that the loop will read */
	int64	   *firsts;			/* per shard: first reading that it was to read; -1: none */
	int			n_pending;
	FlPosition *pending;		/* requests whose answer the policy has not seen, sorted */
} FlReplayLoop;

/* Reads it as the owner of the extension; raises 42704 where there is none, 42501 where the caller may not read a stream of it. */
extern FlReplayLoop *fl_replay_loop(const char *name);

/* The version that decides a reading; 0: none. */
extern int32 fl_replay_version(const FlReplayLoop *loop, int32 shard, int64 offset);
extern bool fl_replay_is_pending(const FlReplayLoop *loop, FlPosition request);

/* What to replay: offsets by shard within what the loop has read, and, for readings that are gone, times. */
typedef struct FlReplayScope
{
	FlRanges	ranges;			/* merged */
	TimestampTz from_ts;		/* DT_NOBEGIN */
	TimestampTz to_ts;			/* exclusive; DT_NOEND */
} FlReplayScope;

extern void fl_replay_scope(const FlReplayLoop *loop, Jsonb *ranges, FlReplayScope *scope);

/* The ranges of a data set of that stream; raises 42704. */
extern Jsonb *fl_replay_dataset(const char *name, Oid stream);

/* ---- replay_records.c: what the loop recorded, sorted by reading ---------------- */

typedef enum FlRecordKind
{
	FL_RECORDED_REQUEST,
	FL_RECORDED_DECISION,		/* of the first call */
	FL_RECORDED_SECOND,			/* decision of the second call */
	FL_RECORDED_RESPONSE
} FlRecordKind;

typedef struct FlRecorded
{
	int32		shard;			/* of the reading */
	int64		offset;
	FlRecordKind kind;
	FlPosition	at;				/* of the record */
	TimestampTz ts;				/* append time of the record */
	Jsonb	   *body;			/* request or decision as a whole; of a response the response itself */
} FlRecorded;

typedef struct FlRecords FlRecords;

/* Reads requests, responses and decisions of the readings in scope, from the append time `from` on. */
extern FlRecords *fl_records_read(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from);

/* The next one without taking it; NULL at the end.  Good until fl_records_take. */
extern const FlRecorded *fl_records_peek(FlRecords *records);
extern void fl_records_take(FlRecords *records);
extern void fl_records_end(FlRecords *records);

/*
 * For workers that share it: shards of responses and decisions go to parts on disk, responses by the shard of their request,
 * all else by that of its reading, each modulo the number of parts; then requests, a part of the responses at a time; then
 * who replays a part of the readings reads its records, sorted as above.
 */
typedef struct FlRecordParts
{
	int			n;
	struct SharedTuplestoreAccessor **stores;
	MemoryContext mcxt;
} FlRecordParts;

extern void fl_records_part_responses(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from, int32 shard,
									  const FlRecordParts *out);
extern void fl_records_part_decisions(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from, int32 shard,
									  const FlRecordParts *out);
extern void fl_records_part_requests(const FlReplayLoop *loop, const FlReplayScope *scope, TimestampTz from, const FlRecordParts *responses,
									 int part, const FlRecordParts *out);
extern FlRecords *fl_records_part_read(const FlRecordParts *parts, int part);

/* Numbers and objects in objects; false: not there, or not that. */
extern bool fl_json_int(JsonbContainer *object, const char *name, int64 *value);
extern bool fl_json_position(JsonbContainer *object, const char *name, FlPosition *at);
extern bool fl_json_object(JsonbContainer *object, const char *name, JsonbValue *value);
extern bool fl_json_time(JsonbContainer *object, const char *name, TimestampTz *ts);

/* A member as a document of its own; NULL: not there or null, told apart by *there (may be NULL). */
extern Jsonb *fl_json_member(Jsonb *object, const char *name, bool *there);

/* ---- replay_policy.c: calling a policy, a million times ------------------------- */

typedef struct FlReplayPolicy
{
	Oid			function;
	int32		version;		/* 0: given by the caller */
	Oid			role;			/* it runs as this one */
	bool		checked;		/* what reads more than its arguments is refused */
	bool		uses_state;
	MemoryContext mcxt;			/* of what is compiled */
	ExprState  *expr;			/* NULL: to be compiled */
	ExprContext *econtext;
	TupleTableSlot *reading;
	TupleTableSlot *rest;		/* response, state, at */
	int			first_column;	/* of the reading that the policy looks at behind ts; > last: none */
	int			last_column;
} FlReplayPolicy;

/* A record of the source, or a copy of one. */
typedef struct FlReplayReading
{
	int32		shard;
	const FlLogRecord *rec;		/* NULL: a copy */
	JsonbContainer *copy;
} FlReplayReading;

typedef struct FlReplayArgs
{
	Jsonb	   *response;
	Jsonb	   *state;
	TimestampTz at;
} FlReplayArgs;

/* What came out: a result, or an error. */
typedef struct FlReplayResult
{
	Jsonb	   *json;			/* NULL: the policy returned NULL, or failed; until the next call */
	char	   *error;			/* in the context of the call, or NULL */
	FlPolicyResult parts;
} FlReplayResult;

typedef struct FlReplayRunner
{
	FlPolicyScope scope;
	bool		in_scope;
	ResourceOwner inner;		/* of the subtransaction */
	MemoryContext mcxt;			/* of the replay */
	MemoryContext call_mcxt;	/* of one reading: results and errors */
	char	   *scratch;
	size_t		scratch_cap;
} FlReplayRunner;

extern FlReplayPolicy *fl_replay_policy_version(const FlReplayLoop *loop, int32 version);
extern FlReplayPolicy *fl_replay_policy_given(Oid function);

extern void fl_replay_enter(FlReplayRunner *run);
extern void fl_replay_leave(FlReplayRunner *run);

extern void fl_replay_call(FlReplayRunner *run, FlReplayPolicy *policy, const FlReplayReading *reading, const FlReplayArgs *args,
						   FlReplayResult *out);

/* Does the policy look at its argument `state`, as far as can be told? */
extern bool fl_replay_uses_state(FlReplayRunner *run, FlReplayPolicy *policy);

/* ---- replay_compare.c: what was recorded beside what comes out now -------------- */

/* The parts of a call as records have them; each record may be NULL. */
extern void fl_recorded_parts(Jsonb *request, Jsonb *decision, FlPolicyResult *parts);

/* Commands without what became of them and without members that are null, in place. */
extern void fl_normal_commands(FlPolicyResult *parts);

/* Which part differs, "ask", "decisions", "commands" or "state"; NULL: none.  Both normal. */
extern const char *fl_differing_part(const FlPolicyResult *a, const FlPolicyResult *b, bool with_state);

extern bool fl_jsonb_same(const Jsonb *a, const Jsonb *b);

/* Does it ask, decide or command anything? */
extern bool fl_has_effect(const FlPolicyResult *parts);

/* As users see it: {"ask", "decisions", "commands", "state"}, what there is of them. */
extern Jsonb *fl_describe_parts(const FlPolicyResult *parts);

/* ---- replay_state.c: the state of each key ---------------------------------------- */

typedef struct FlKeyState
{
	uint32		hash;
	char		status;			/* simplehash */
	bool		known;			/* else replay began after the key's history did */
	bool		blocked;		/* a request of it is pending: later readings wait */
	const char *key;
	Jsonb	   *state;			/* NULL: none */
} FlKeyState;

typedef struct FlKeyStates FlKeyStates;

extern FlKeyStates *fl_key_states_create(bool known);
extern void fl_key_states_free(FlKeyStates *states);

/* The entry of a key, made as `known` without a state where it is new. */
extern FlKeyState *fl_key_state(FlKeyStates *states, const char *key);
extern void fl_key_state_set(FlKeyStates *states, FlKeyState *entry, Jsonb *state);

/* ---- replay.c: the replay itself --------------------------------------------------- */

typedef struct FlReplay FlReplay;

/* Takes a row: five columns, NULL decision and so on, good until it returns. */
typedef void (*FlReplayRow) (void *arg, Datum *values, bool *nulls);

/* `given`: another policy, InvalidOid for the loop's own.  `desc`: of the rows. */
extern FlReplay *fl_replay_create(FlReplayLoop *loop, const FlReplayScope *scope, Oid given, TupleDesc desc, FlReplayRow row, void *arg);

/* Replays the ranges of those shards that are `part` modulo `nparts`, with their records. */
extern void fl_replay_part(FlReplay *r, FlRecords *records, int part, int nparts);

/* Afterwards, and after an error: ends the scope of policies. */
extern void fl_replay_end(FlReplay *r);

/* ---- replay_parallel.c: the same by workers ---------------------------------------- */

typedef struct FlReplayParallel FlReplayParallel;

/* NULL: it is to be done by the session itself.  `first`: fl_records_read's `from`; `desc`: of the rows. */
extern FlReplayParallel *fl_replay_parallel_begin(const FlReplayLoop *loop, const FlReplayScope *scope, Oid given, TimestampTz first,
												  TupleDesc desc);

/* Puts the workers' rows into the tuplestore, and raises their errors.  False: none has begun, nothing was done. */
extern bool fl_replay_parallel_run(FlReplayParallel *p, Tuplestorestate *out, TupleDesc desc);

/* Afterwards, and after an error: waits for the workers' ends. */
extern void fl_replay_parallel_end(FlReplayParallel *p, bool failed);

/* ---- replay_stat.c: progress ------------------------------------------------------ */

typedef enum FlReplayPhase
{
	FL_REPLAY_READING,
	FL_REPLAY_REPLAYING
} FlReplayPhase;

/* Everything is added to the caller's slot; when none is free nothing is shown.  True: end it. */
extern bool fl_replay_progress_begin(const char *loop);

/* A worker adds to the slot of the session that it works for, by its number; -1: there is none. */
extern int	fl_replay_progress_slot(void);
extern void fl_replay_progress_join(int slot);
extern void fl_replay_progress_workers(int n);
extern void fl_replay_progress_total(int64 readings);
extern void fl_replay_progress_phase(FlReplayPhase phase);
extern void fl_replay_progress_records(int64 n);
extern void fl_replay_progress_readings(int64 n);
extern void fl_replay_progress_verdict(bool same);
extern void fl_replay_progress_end(void);

#endif							/* FLEETLOG_REPLAY_INTERNAL_H */
