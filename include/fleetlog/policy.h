/*-------------------------------------------------------------------------
 *
 * policy.h
 *		Calling the policy of a decision loop (D2, D3): as its owner, without a way
 *		to write, with pinned settings, and, where its decisions are to be replayed,
 *		without a way to read anything but its arguments.
 *
 *		FlPolicyScope scope;
 *
 *		fl_policy_open(&policy, function, true, context);
 *		fl_policy_begin(&scope);
 *		result = fl_policy_call(&policy, ...);		as often as is wanted
 *		fl_policy_end(&scope);						fl_policy_abort in PG_CATCH
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLEETLOG_POLICY_H
#define FLEETLOG_POLICY_H

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "nodes/nodes.h"
#include "utils/jsonb.h"
#include "utils/resowner.h"

typedef struct FlPolicy
{
	Oid			function;
	Oid			owner;
	bool		replayable;		/* what reads more than its arguments is refused */
	FmgrInfo	flinfo;
} FlPolicy;

typedef struct FlPolicyScope
{
	MemoryContext context;		/* of the caller */
	ResourceOwner owner;
	MemoryContext call_context; /* of one call */
	/* Set after fl_policy_begin; NULL: nobody wants to know. */
	void		(*on_stuck) (void *arg);
	void	   *arg;
} FlPolicyScope;

/*
 * Milliseconds that one call may take in a worker (fleetlog.loop_policy_timeout); 0: no limit.
 * It is canceled then.  One that catches that, and has not ended after as long again, takes
 * the process with it: `on_stuck` of the scope is called before, in a signal handler.
 */
extern int	fl_policy_timeout_ms;

/* Looks the function up; what it keeps lives in `mcxt`, and holds for this transaction. */
extern void fl_policy_open(FlPolicy *policy, Oid function, bool replayable, MemoryContext mcxt);

/*
 * A read-only subtransaction with settings that results could depend on pinned: time
 * zone UTC, ISO dates, search_path.  In a transaction with an active snapshot.
 */
extern void fl_policy_begin(FlPolicyScope *scope);
extern void fl_policy_end(FlPolicyScope *scope);

/* After an error, which the caller has copied or will throw again: the subtransaction is rolled back. */
extern void fl_policy_abort(FlPolicyScope *scope);

/*
 * One call.  `response` and `state` may be NULL.  The result is in the caller's context
 * (of fl_policy_begin), NULL where the policy returned NULL.  Raises what the policy
 * raises, 57014 after the timeout, LF602 where it reads what it must not.
 */
extern Jsonb *fl_policy_call(FlPolicyScope *scope, FlPolicy *policy, Datum reading, Jsonb *response, Jsonb *state,
							 TimestampTz at);

/*
 * For who compiles policies himself (replay): while this is on, queries that are planned are looked through
 * as in fl_policy_call; and the same for an expression.  Raise LF602.
 */
extern void fl_policy_set_checked(bool on);
extern void fl_policy_check_expr(Node *expr);

/* Parts of a result; NULL: not there, or null. */
typedef struct FlPolicyResult
{
	Jsonb	   *ask;
	Jsonb	   *decisions;		/* an array with at least one element */
	Jsonb	   *commands;		/* an array of objects with device, name, payload and ttl, at least one */
	bool		sets_state;
	Jsonb	   *state;			/* sets_state and NULL: forget it */
} FlPolicyResult;

/* Raises LF603 where the result is malformed; `second`: of a call with a response, which may not ask. */
extern void fl_policy_parse(Jsonb *result, bool second, FlPolicyResult *out);

/* Called from _PG_init. */
extern void fl_policy_init(void);

#endif							/* FLEETLOG_POLICY_H */
