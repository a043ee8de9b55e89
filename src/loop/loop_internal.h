/*-------------------------------------------------------------------------
 *
 * loop_internal.h
 *		What the files of src/loop share: a turn of the runner at one shard of one
 *		loop, which is one transaction.
 *
 *		load.c		position, policies, what has been answered, readings, states
 *		decide.c	calls of the policy, in memory
 *		record.c	the records as JSON
 *		store.c		commands, records and rows
 *		turn.c		the order of all this, and of loops and shards
 *
 *-------------------------------------------------------------------------
 */
#ifndef FL_LOOP_INTERNAL_H
#define FL_LOOP_INTERNAL_H

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "fleetlog/log.h"
#include "fleetlog/policy.h"

/* At most so much of a shard in one transaction. */
#define FL_LOOP_READINGS	1000
#define FL_LOOP_BYTES		(1024 * 1024)
#define FL_LOOP_ANSWERS		500

/* Memory of a turn: beyond it in readings, answers and results the rest is for the next one. */
#define FL_LOOP_TURN_BYTES	(8 * 1024 * 1024)

/* Longer keys are named by their hash: a key is part of an index entry. */
#define FL_LOOP_KEY_MAX		512

/* Errors are shown, not kept: a policy says what it likes in them. */
#define FL_LOOP_ERROR_MAX	2000
#define FL_LOOP_REFUSAL_MAX	200

typedef struct FlLoopVersion
{
	int			number;
	int64		from_offset;
	char	   *function;
	bool		replayable;
	char	   *model;
	char	   *model_version;
	char	   *parameters;
	bool		is_open;
	FlPolicy	policy;
} FlLoopVersion;

/* What is known of a state key. */
typedef struct FlLoopKey
{
	const char *name;			/* hash key: must come first */
	Jsonb	   *state;
	int64		state_offset;	/* of the reading that set it, where changed */
	bool		has_row;		/* in fleetlog.loop_state, as the transaction found it */
	bool		changed;
	bool		pending;		/* a request is not answered, or readings wait */
} FlLoopKey;

typedef struct FlLoopReading
{
	FlLoopKey  *key;
	Datum		record;			/* fleetlog.log_record */
	Datum		values[FL_NATTS];
	bool		isnull[FL_NATTS];
	int64		log_offset;
	TimestampTz ts;
} FlLoopReading;

/* A request that is answered. */
typedef struct FlLoopAnswer
{
	FlLoopReading *reading;
	int32		request_shard;
	int64		request_offset;
	int			version;
	Jsonb	   *response;
	int32		response_shard;
	int64		response_offset;
	TimestampTz responded_at;
} FlLoopAnswer;

/* A call that asked, decided or commanded. */
typedef struct FlLoopEffect
{
	FlLoopReading *reading;
	FlLoopAnswer *answer;		/* NULL: the first call */
	FlLoopVersion *version;
	TimestampTz at;
	Jsonb	   *before;
	FlPolicyResult result;
	char	   *commands;		/* JSON, with ids, once they are issued */
	int			ncommands;		/* issued */
} FlLoopEffect;

typedef struct FlLoopTurn
{
	MemoryContext mcxt;
	/* the loop */
	char	   *loop;
	int32		shard;
	Oid			owner;
	Oid			source;
	Oid			requests;
	Oid			responses;
	Oid			decisions;
	bool		copies;			/* evidence */
	FlLoopVersion *versions;	/* ascending */
	int			nversions;
	TupleDesc	record_desc;
	/* as found */
	int64		position;
	int64		tail;			/* durable */
	int64		waiting;		/* rows of loop_waiting */
	HTAB	   *keys;
	List	   *key_list;		/* all of them, as they came */
	List	   *answers;		/* of FlLoopAnswer */
	List	   *orphans;		/* of FlLoopKey: readings wait, and no request is pending, after an error or a turn that was cut short */
	List	   *readings;		/* of FlLoopReading */
	/* as decided */
	int64		next_position;
	List	   *effects;
	List	   *answered;		/* of FlLoopAnswer: seen by the policy */
	List	   *new_waiting;	/* of FlLoopReading */
	List	   *old_waiting;	/* of FlLoopReading: have been decided */
	int64		nread;
	int64		ngone;
	int64		nrequests;
	int64		ndecisions;
	int64		ncommands;
	int64		nunanswered;
	int64		began_us;		/* by fl_monotonic_us() */
	size_t		bytes;			/* of readings, answers and results */
	bool		has_more;		/* answers or orphans that were not loaded */
	bool		cut_short;		/* policies took too long, or too much: the rest is for the next turn */
	bool		in_policy;		/* an error is the policy's */
	int64		in_offset;		/* ... at this reading */
	char	   *error;			/* stopped there */
	int64		error_offset;
} FlLoopTurn;

/* ---- in load.c ------------------------------------------------------------------- */

/* Locks the shard's position; false: there is nothing to do here, or another has it (*busy). */
extern bool fl_loop_load(FlLoopTurn *t, bool look_for_orphans, bool *busy);

/* Readings from `from` up to `limit`, at most so many records and bytes, as the loop's owner may see them; returns where to go on. */
extern int64 fl_loop_read(FlLoopTurn *t, int64 from, int64 limit, int32 max, List **readings);

/* State, and whether a request is pending, of keys that are not known yet. */
extern void fl_loop_load_keys(FlLoopTurn *t, List *readings);

/* Readings of the key that wait, in order; those that are gone are counted. */
extern List *fl_loop_load_waiting(FlLoopTurn *t, FlLoopKey *key);

/* ---- in decide.c ------------------------------------------------------------------ */

/* Everything that policies say, up to the first error, which is then in t->error. */
extern void fl_loop_decide(FlLoopTurn *t);

/* At most so many bytes of it, in whole characters. */
extern char *fl_loop_clip(const char *text, int max);

/* SQLSTATE, message and detail, as views show them. */
extern char *fl_loop_describe_error(const ErrorData *e);

/* ---- in record.c -------------------------------------------------------------------- */

extern char *fl_loop_request_json(FlLoopTurn *t, const FlLoopEffect *e, bool copy);
extern char *fl_loop_decision_json(FlLoopTurn *t, const FlLoopEffect *e, bool copy);
extern void fl_loop_append_json(StringInfo out, const Jsonb *value);
extern void fl_loop_append_string(StringInfo out, const char *value);

/* ---- in store.c ---------------------------------------------------------------------- */

extern void fl_loop_store(FlLoopTurn *t);

/* Notes an error with the shard, in a transaction of its own; offset -1: it is tried again. */
extern void fl_loop_note_error(const char *loop, int32 shard, const char *error, int64 offset);

/* Forgets an error that was tried again, and is over. */
extern void fl_loop_clear_error(const char *loop, int32 shard);

/* ---- in shmem.c ---------------------------------------------------------------------- */

/* The runner is about to end because a policy does not, at this reading; and what the next runner finds of it. */
extern void fl_loop_note_stuck(const char *loop, int32 shard, int64 log_offset);
extern bool fl_loop_was_stuck(char **loop, int32 *shard, int64 *log_offset);
extern void fl_loop_forget_stuck(void);

#endif							/* FL_LOOP_INTERNAL_H */
